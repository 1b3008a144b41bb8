/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/dlrun/noise.h"

#include "tools/dlrun/compare.h"
#include "tools/dlrun/unordered.h"

#include <math.h>
#include <string.h>

enum {
	SEEDS = 8
}; /* the chance that noise s is seen as less than s / 10 is 1e-8 */

/* Floats whose ulp is noise. Those of 8 bits and fewer are codes: another one is another number. */
static bool moves(const Array *v)
{
	return v->data && dtype_is_float(v->dtype) && dtype_info[v->dtype].bits >= 16;
}

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 33;
}

/* The bits of a mantissa; of a type that moves() admits. */
static int mantissa(DType t)
{
	return t == DT_BF16 ? 7 : t == DT_F16 ? 10 : t == DT_F32 ? 23 : 52;
}

/* The coarsest of the types INSIDE (DL_DESC_), DT_F64 for none. */
static DType coarsest(uint32_t inside)
{
	return inside & DL_DESC_BF16 ? DT_BF16 : inside & DL_DESC_F16 ? DT_F16 : DT_F64;
}

/* Ulps of type T that one ulp of COARSEST is, or 1. */
static int64_t ulps(DType t, DType coarsest)
{
	const int more = mantissa(t) - mantissa(coarsest);

	return more > 0 ? INT64_C(1) << more : 1;
}

/* Element I of V, of IEEE 754's layout, in BITS bits, moved by STEP ulps of its magnitude. */
static void move(const Array *v, int64_t i, int bits, int64_t step)
{
	uint64_t x = 0;
	char *at = (char *)v->data + i * bits / 8;

	memcpy(&x, at, (size_t)bits / 8);
	x += (uint64_t)step;
	memcpy(at, &x, (size_t)bits / 8);
}

/* TO's elements: those of V, moved by an ulp, that of COARSEST if it is more. True where one
 * was. */
static bool move_all(const Array *v, const Array *to, DType coarsest, uint64_t *seed)
{
	const int bits = dtype_info[v->dtype].bits;
	const int64_t n = array_count(v), step = moves(v) ? ulps(v->dtype, coarsest) : 0;
	bool moved = false;

	for (int64_t i = 0; i < v->n_items; i++)
		moved |= move_all(&v->items[i], &to->items[i], coarsest, seed);
	if (v->form != DL_TENSOR || !moves(v))
		return moved;
	memcpy(to->data, v->data, (size_t)dtype_size(v->dtype, n));
	for (int64_t i = 0; i < n; i++) {
		const double x = dtype_load_f64(v->dtype, v->data, i);
		const int64_t by = next_random(seed) & 1 ? step : -step;

		if (x == rint(x) || !isfinite(x))
			continue;
		move(to, i, bits, by);
		/* A subnormal, moved below zero, has wrapped to the bits of a NaN. */
		if (isfinite(dtype_load_f64(v->dtype, to->data, i)))
			moved = true;
		else
			move(to, i, bits, -by);
	}
	return moved;
}

static bool same_shape(const Array *a, const Array *b)
{
	bool same = a->form == b->form && a->n_items == b->n_items;

	for (int64_t i = 0; i < a->n_items && same; i++)
		same = same_shape(&a->items[i], &b->items[i]);
	return same && a->dtype == b->dtype && a->rank == b->rank &&
	       (!a->rank || !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof(*a->dims)));
}

/* Enters how far the floats of V are from those of BASE; returns where those of the next value
 * are entered. */
static double *enter_value(const Array *v, const Array *base, double *moved)
{
	for (int64_t i = 0; i < v->n_items; i++)
		moved = enter_value(&v->items[i], &base->items[i], moved);
	if (v->form != DL_TENSOR)
		return moved;
	for (int64_t i = 0, n = array_count(v); dtype_is_float(v->dtype) && i < n; i++) {
		const double e = fabs(dtype_load_f64(v->dtype, v->data, i) -
				      dtype_load_f64(v->dtype, base->data, i));

		if (isfinite(e) && e > moved[i])
			moved[i] = e;
	}
	return moved + array_count(v);
}

/* Enters how far S's outputs are from BASE, those of its shapes. */
static void enter(const Session *s, const Array *base, double **moved)
{
	for (int32_t o = 0; o < s->desc->n_out; o++) {
		const int dim = session_accuracy(s, o).dim;
		Array v = session_output(s, o), from = base[o];

		if (!moved[o] || !same_shape(&v, &from))
			continue;
		if (dim >= 0) { /* the order that it is compared in */
			v = unordered_values(s->arena, &v, dim);
			from = unordered_values(s->arena, &from, dim);
		}
		enter_value(&v, &from, moved[o]);
	}
}

static bool any_moved(const Session *s, const Array *base, double *const *moved)
{
	for (int32_t o = 0; o < s->desc->n_out; o++)
		for (int64_t i = 0; moved[o] && i < array_count(&base[o]); i++)
			if (moved[o][i] > 0)
				return true;
	return false;
}

/* A GPU may add in another order each time: within the tolerance of the type. */
static bool repeats(Session *s, const Array *in, const Array *got)
{
	if (session_run(s, in))
		return false;
	for (int32_t o = 0; o < s->desc->n_out; o++) {
		const Array v = session_output(s, o);

		if (!compare(&v, &got[o], (Tolerance){-1, -1, .inside = session_inside(s)}).ok)
			return false;
	}
	return true;
}

/* By moving inputs by one ulp, that of COARSEST if it is more. False where that moves no output. */
static bool by_inputs(Session *s, const Array *in, const Array *got, DType coarsest, double **moved)
{
	Array *other = NEW_ARRAY(s->arena, s->desc->n_in + 1, Array);

	for (int32_t i = 0; i < s->desc->n_in; i++) {
		other[i] = in[i];
		if ((in[i].data || in[i].n_items) && !(session_in(s, i)->flags & DL_IO_HOST))
			other[i] = array_copy(s->arena, &in[i]);
	}
	for (uint64_t k = 1; k <= SEEDS; k++) {
		uint64_t seed = k;
		bool any = false;

		for (int32_t i = 0; i < s->desc->n_in; i++)
			if (other[i].data != in[i].data || other[i].items != in[i].items)
				any |= move_all(&in[i], &other[i], coarsest, &seed);
		if (any && !session_run(s, other))
			enter(s, got, moved);
	}
	return any_moved(s, got, moved);
}

/* The number of CPUs that the artifact has code for. */
static int cpu_variants(const Session *s)
{
	int n = 0;

	for (const char *p = s->desc->targets; *p; p += strspn(p, " ")) {
		n += strncmp(p, "sm_", 3) != 0;
		p += strcspn(p, " ");
	}
	return n;
}

/* By what the artifact gives where the CPU had fewer features. False where it has none that
 * differ. */
static bool by_variants(const Session *s, const Array *in, double **moved)
{
	/* A feature that no variant needs stands for none. */
	static const uint64_t masks[] = {DL_CPU_AVX_VNNI,
					 DL_CPU_X86_V2,
					 DL_CPU_X86_V2 | DL_CPU_X86_V3,
					 DL_CPU_X86_V2 | DL_CPU_X86_V3 | DL_CPU_X86_V4,
					 DL_CPU_ARM_V8,
					 DL_CPU_ARM_V8 | DL_CPU_ARM_I8MM};
	Array *base = NULL;

	for (size_t m = 0; m < sizeof(masks) / sizeof(*masks); m++) {
		Session v = *s;

		if (!session_load_variant(&v, masks[m]))
			continue;
		if (!session_run(&v, in)) {
			if (!base)
				base = session_copy_outputs(&v);
			else
				enter(&v, base, moved);
		}
		session_unload(&v);
	}
	return base && any_moved(s, base, moved);
}

Noise noise_measure(Session *s, const Array *in, const Array *got)
{
	static const char *const by_ulp[DT_COUNT] = {
		[DT_F64] = "moving inputs by one ulp",
		[DT_F16] = "moving inputs by one ulp of f16",
		[DT_BF16] = "moving inputs by one ulp of bf16",
	};
	const DType inside = coarsest(session_inside(s));
	Noise r = {.moved = NEW_ARRAY(s->arena, s->desc->n_out + 1, double *)};

	for (int32_t o = 0; o < s->desc->n_out; o++)
		if (got[o].form != DL_TENSOR || dtype_is_float(got[o].dtype))
			r.moved[o] = NEW_ARRAY(s->arena, array_count(&got[o]) + 1, double);
	if (!repeats(s, in, got))
		r.why_not = "two runs on the same inputs differ";
	else if (by_inputs(s, in, got, inside, r.moved))
		r.measured_by = by_ulp[inside];
	else if (cpu_variants(s) > 1 && by_variants(s, in, r.moved))
		r.measured_by = "comparing the artifact's CPU variants";
	else
		r.why_not =
			cpu_variants(s) > 1
				? "no float input moves it, and its CPU variants agree; where the noise is known, give it: --noise R"
				: "no float input moves it; where the noise is known, give it: --noise R";
	return r;
}
