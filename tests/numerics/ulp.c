/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The largest error of each function of ir/funcs.def, in units of the last place, against libm one
 * precision wider. Includes what emit.c printed (funcs.h), so it measures the very C that models get.
 *
 *     ulp [STRIDE [NAME]]    f32: every STRIDE-th bit pattern, all with 1; f64: 2^32/STRIDE/64 samples
 *
 * Prints a row a function, and exits with 1 where an error is over its limit or a special value is wrong.
 */
#include "funcs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;
static const double limit_f32 = 2, limit_f64 = 4;

typedef struct Worst {
	double ulp, x, y;
	int bad; /* NaN or infinity where the other is not, or a wrong zero's sign */
} Worst;

/* Distance of GOT from REF in units of the last place of REF in T: MAN bits, least exponent EMIN. */
static double ulp_of(long double got, long double ref, int man, int emin, long double max)
{
	int e;
	long double unit;

	if (isnan(ref) || isnan(got))
		return isnan(ref) && isnan(got) ? 0 : INFINITY;
	if (got == ref)
		return ref == 0 && signbit(got) != signbit(ref) ? INFINITY : 0;
	/* Beyond the largest value either is right within a unit of it. */
	if (isinf(got) && fabsl(ref) > max)
		return 0;
	if (isinf(got))
		got = copysignl(max + ldexpl(1, 0) * max * ldexpl(1, -man), got);
	if (isinf(ref))
		return INFINITY;
	frexpl(ref, &e);
	unit = ldexpl(1, (e < emin ? emin : e) - man);
	return (double)(fabsl(got - ref) / unit);
}

/* The same for f32, from an f64 reference: what most of the time goes into. */
static double ulp_f32(float got, double ref)
{
	double size = fabs(ref);
	uint64_t bits = dl_bits_f64_u64(size) >> 52 << 52;

	if (!(size >= 0x1p-126 && size < 0x1.fffffep127 && got - got == 0))
		return ulp_of((long double)got, (long double)ref, 24, -125, 0x1.fffffep127L);
	return fabs((double)got - ref) / (dl_bits_u64_f64(bits) * 0x1p-23);
}

static void note(Worst *w, double ulp, double x, double y)
{
	if (isinf(ulp)) {
		w->bad++;
		if (w->bad > 1)
			return;
		printf("  wrong at %a %a\n", x, y);
	} else if (ulp > w->ulp) {
		w->ulp = ulp;
		w->x = x;
		w->y = y;
	}
}

static double ref_sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static long double ref_sigmoidl(long double x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }
#define sigmoid ref_sigmoid
#define sigmoidl ref_sigmoidl

static uint64_t next_random(uint64_t *s)
{
	*s += 0x9e3779b97f4a7c15u;
	uint64_t z = *s;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static const double edges[] = {
	0.0, -0.0, 1, -1, 0.5, -0.5, 2, 3, 10, -2, -3, 0.25, 0.999999999999999, INFINITY, -INFINITY, NAN, 709.78, -745.1,
	88.7, -103.9, 1024, 1023, -1074, 128, -149, 0x1p-1022, 0x1p-1074, -0x1p-1074, 0x1p-126, 0x1p-149, -0x1p-149,
	0x1.fffffffffffffp1023, 0x1.fffffep127, -0x1.fffffep127, 1.5707963267948966, 3.141592653589793, 16777215, 16777216,
	-16777217, 0x1p52, 0x1.fffffffffffffp52, -0x1.fffffffffffffp52, 0x1p53, 1e300, -1e300, 1e-300, 1e30, 1e-30
};
enum { EDGES = sizeof edges / sizeof *edges };

/* Any bits, a number of ordinary size, or one near an edge. */
static double random_f64(uint64_t *s)
{
	uint64_t r = next_random(s), m = next_random(s);
	double v;

	switch (r >> 8 & 7) {
	case 0:
		memcpy(&v, &m, sizeof v);
		return v;
	case 1:
		return edges[m % EDGES] * (1 + ((double)(r >> 40) - 0x1p23) * 0x1p-52 * (double)(r & 3));
	case 2:
	case 3:
		return ldexp((double)(int64_t)m, -63 + (int)(r % 12));
	default:
		return ldexp((double)(int64_t)m, -63 - (int)(r % 24) + 12);
	}
}

/* f32: bit patterns, and every f16 and bf16; f64: edges and samples. */
#define UNARY(name)                                                                                \
	static void run_##name(uint64_t stride)                                                    \
	{                                                                                          \
		Worst f = {0}, d = {0};                                                            \
		uint64_t seed = 1;                                                                 \
		for (uint64_t i = 0; i < 1ull << 32; i += stride) {                                \
			float x = dl_bits_u32_f32((uint32_t)i);                                    \
			note(&f, ulp_f32(dl_##name##_f32(x), name((double)x)), x, 0);              \
		}                                                                                  \
		for (uint32_t i = 0; i < 1u << 17; i++) {                                          \
			float x = i >> 16 ? dl_decode_bf16(i & 0xffff) : dl_decode_f16(i);         \
			note(&f, ulp_f32(dl_##name##_f32(x), name((double)x)), x, 0);              \
		}                                                                                  \
		for (uint64_t i = 0; i < EDGES + (1ull << 26) / stride; i++) {                     \
			double x = i < EDGES ? edges[i] : random_f64(&seed);                       \
			note(&d, ulp_of(dl_##name##_f64(x), name##l((long double)x), 53, -1021,    \
					0x1.fffffffffffffp1023L), x, 0);                           \
		}                                                                                  \
		failed |= report(#name, &f, &d);                                                   \
	}
/* Every pair of edges, and samples. */
#define BINARY(name)                                                                               \
	static void run_##name(uint64_t stride)                                                    \
	{                                                                                          \
		Worst f = {0}, d = {0};                                                            \
		uint64_t seed = 1;                                                                 \
		for (uint64_t i = 0; i < EDGES * EDGES + (1ull << 28) / stride; i++) {             \
			bool edge = i < EDGES * EDGES;                                             \
			double x = edge ? edges[i / EDGES] : random_f64(&seed);                    \
			double y = edge ? edges[i % EDGES] : random_f64(&seed);                    \
			float u = (float)x, v = (float)y;                                          \
			note(&f, ulp_f32(dl_##name##_f32(u, v), name((double)u, (double)v)), u, v); \
			if (edge || i % 4 == 0)                                                    \
				note(&d, ulp_of(dl_##name##_f64(x, y), name##l((long double)x, (long double)y), \
						53, -1021, 0x1.fffffffffffffp1023L), x, y);        \
		}                                                                                  \
		failed |= report(#name, &f, &d);                                                   \
	}

static int report(const char *name, const Worst *f, const Worst *d)
{
	int over = f->ulp > limit_f32 || d->ulp > limit_f64 || f->bad || d->bad;

	printf("%-8s f32 %6.3f at %-16a %-16a f64 %6.3f at %-24a %-24a%s", name, f->ulp, f->x, f->y, d->ulp, d->x,
	       d->y, over ? "  FAIL" : "");
	if (f->bad || d->bad)
		printf(" wrong: %d, %d", f->bad, d->bad);
	printf("\n");
	fflush(stdout);
	return over;
}

FUNCS_1(UNARY)
FUNCS_2(BINARY)

int main(int argc, char **argv)
{
	uint64_t stride = argc > 1 ? strtoull(argv[1], NULL, 10) : 4099;
	const char *only = argc > 2 ? argv[2] : NULL;

	printf("mad %s\n", DL_FUSED ? "fused" : "in two roundings");
#define RUN(name) if (!only || !strcmp(only, #name)) run_##name(stride ? stride : 1);
	FUNCS_1(RUN)
	FUNCS_2(RUN)
	return failed;
}
