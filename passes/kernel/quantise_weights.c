/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantise_weights (--weights-as): replaces the constant factor W of a product by numbers of 8 or 4
 * bits and scales, in the form of models with quantised weights,
 *
 *     w[k,n] = f32(q[k,n]) * s[k / group, n]
 *
 * or by W rounded to f16 or bf16. The layout then stores q and s, or the halves, and the product's
 * tiles compute w in registers (passes/layout/panels_scaled.c, panels.c). Products are recognised
 * by their accesses, so W may be the weights of a MatMul, a Gemm, a Conv or an Einsum, transposed
 * or not; or a Gather may take matrices out of W, such as those of experts. Numbers with scales
 * need sums over one axis, like those of a Conv with one tap; on CPUs halves do not.
 *
 * The numbers are symmetric: q = round(w / s), from -8 to 7 or -128 to 127. The scale of a group is
 * the one of CANDIDATES with the least sum of squared errors. The candidates are the group's
 * largest magnitude divided by 7 or 127, and by up to half as much again, which clips the largest
 * elements and rounds the others less. Numbers of 4 bits have many scales, which are therefore
 * bf16: 32 numbers take 18 bytes, not 20. Groups whose elements are all tiny become 0.
 *
 * Other weights, small ones, those with infinities or NaN, and those that --keep or --max-error
 * excludes are left unchanged. The report names each of them, with the reason. A convolution whose
 * filter becomes halves is computed directly: Winograd's transformed filter has 16/9 or 4 times as
 * many elements, and needs more precision. For a model that is written as ONNX,
 * quantise_weights_operators does the same to the graph of operators, by Cast and DequantizeLinear.
 * Other readers of W still read W itself, for example if a table of embeddings is also a product's
 * factor.
 */
#include "passes/forms/form.h"
#include "passes/forms/scaled.h"
#include "passes/forms/through.h"

#include "base/round.h"
#include "base/sys.h"
#include "ir/expr/scalar.h"
#include "ir/graph/blocks.h"
#include "passes/graph/canon.h"
#include "passes/graph/quantise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	CANDIDATES = 16,
	CANDIDATE_STEPS = 32, /* number of candidates in which the divisor grows by half */
	LEAST_WEIGHTS =
		1 << 10, /* smaller constants cost less than the code for scales: left unchanged */
	ADDED = 8,       /* limit on the operands that a product gets */
	MOST_NODES =
		8, /* limit on the nodes, after one another, that compute weights from constants */
	MOST_USES = 64 /* limit on the examined uses of a constant, and of its maps */
};

/* A constant that was quantised along dim AXIS, and the value that replaces it. */
typedef struct NarrowWeight {
	const Value *from;
	int axis;
	Value *to;
} NarrowWeight;

typedef struct WeightsPass {
	Module *m;
	VEC(NarrowWeight) done;
	VEC(NarrowWeight)
	folded; /* constants of what was computed from constants; axis is not used */
	int64_t before, after, count, kept; /* bytes of the constants, and of their replacements */
	double error, squares;              /* sums of squared errors, and of squared weights */
	bool operators;                     /* the graph has operators, not kernels */
	bool *named; /* by index of the option --keep: a product has that name */
} WeightsPass;

/* ---- The numbers ---- */

static float to_nearest(float v)
{
	const float big = 0x1.8p23f; /* |v| < 2^22, so that adding it rounds to an integer */

	return v + big - big;
}

static float clamped(float v, float most)
{
	return v > most ? most : v < -most - 1 ? -most - 1 : v;
}

/* The scale of type T for the N elements W, where no number exceeds MOST. */
static float best_scale(const float *w, int64_t n, float most, DType t)
{
	float scale[CANDIDATES], inverse[CANDIDATES], error[CANDIDATES] = {0}, top = 0, unit;
	int best = 0;

	for (int64_t i = 0; i < n; i++)
		top = fabsf(w[i]) > top ? fabsf(w[i]) : top;
	if (top < (float)LEAST_SCALED)
		return 0;
	unit = 1 / top;
	for (int c = 0; c < CANDIDATES; c++) {
		scale[c] = top / (most * (1 + (float)c / (float)CANDIDATE_STEPS));
		if (t == DT_BF16)
			scale[c] = dl_decode_bf16(dl_encode_bf16(scale[c]));
		inverse[c] = 1 / scale[c];
	}
	for (int64_t i = 0; i < n; i++)
		for (int c = 0; c < CANDIDATES; c++) {
			/* relative to TOP, so that squares neither overflow nor underflow */
			const float q = clamped(to_nearest(w[i] * inverse[c]), most),
				    e = (w[i] - q * scale[c]) * unit;

			error[c] += e * e;
		}
	for (int c = 1; c < CANDIDATES; c++)
		best = error[c] < error[best] ? c : best;
	return scale[best];
}

/* A constant seen as [outer, terms, inner], with a scale for each GROUP terms. */
typedef struct WeightsJob {
	const Tensor *from;
	Tensor *numbers, *scales;
	int64_t outer, terms, inner, group;
	float most;
	DType scale_type; /* it represents all scales exactly */
	double error, squares;
} WeightsJob;

/* Quantises the terms FIRST to FIRST + N - 1 of column I of outer index O. W has room for them.
 * False if one is infinite or NaN. */
static bool quantise_group(WeightsJob *j, int64_t o, int64_t first, int64_t n, int64_t i, float *w)
{
	const int64_t start = (o * j->terms + first) * j->inner + i,
		      groups = ceil_div(j->terms, j->group);
	float scale, inverse;

	for (int64_t t = 0; t < n; t++) {
		const int64_t at = start + t * j->inner;

		w[t] = j->from->dtype == DT_F32
			       ? ((const float *)j->from->data)[at]
			       : (float)dtype_load_f64(j->from->dtype, j->from->data, at);
		if (!isfinite(w[t]))
			return false;
	}
	scale = best_scale(w, n, j->most, j->scale_type);
	inverse = scale > 0 ? 1 / scale : 0;
	for (int64_t t = 0; t < n; t++) {
		const float q = clamped(to_nearest(w[t] * inverse), j->most);
		const double e = (double)w[t] - (double)(q * scale);

		dtype_store_i64(j->numbers->dtype, (void *)(uintptr_t)j->numbers->data,
				start + t * j->inner, (int64_t)q);
		j->error += e * e;
		j->squares += (double)w[t] * (double)w[t];
	}
	dtype_store_f64(j->scales->dtype, (void *)(uintptr_t)j->scales->data,
			(o * groups + first / j->group) * j->inner + i, (double)scale);
	return true;
}

static bool quantise_all(WeightsJob *j, float *w)
{
	for (int64_t o = 0; o < j->outer; o++)
		for (int64_t first = 0; first < j->terms; first += j->group)
			for (int64_t i = 0; i < j->inner; i++)
				if (!quantise_group(j, o, first,
						    j->terms - first < j->group ? j->terms - first
										: j->group,
						    i, w))
					return false;
	return true;
}

/* Quantises FROM along dim AXIS into J. False if FROM has an infinite element or NaN. */
static bool quantise_tensor(WeightsPass *p, const Tensor *from, int axis, WeightsJob *j)
{
	const Options *o = &p->m->opt;
	int64_t dims[MAX_RANK];
	float *w;
	bool ok;

	*j = (WeightsJob){.from = from,
			  .outer = 1,
			  .terms = from->dims[axis],
			  .inner = 1,
			  .most = o->weight_type == DT_I8 ? 127 : 7,
			  .scale_type = o->weight_type == DT_I8 ? DT_F32 : DT_BF16};
	j->group = o->weight_group && o->weight_group < j->terms ? o->weight_group : j->terms;
	for (int i = 0; i < from->rank; i++) {
		dims[i] = i == axis ? ceil_div(j->terms, j->group) : from->dims[i];
		j->outer *= i < axis ? dims[i] : 1;
		j->inner *= i > axis ? dims[i] : 1;
	}
	j->numbers = tensor_new_large(p->m->graph->arena, o->weight_type, from->rank, from->dims);
	j->scales = tensor_new(p->m->graph->arena, p->operators ? DT_F32 : j->scale_type,
			       from->rank, dims);
	w = malloc((size_t)j->group * sizeof *w);
	ok = w && quantise_all(j, w);
	free(w);
	return ok;
}

/* Rounds FROM to halves, which become J's numbers. False if one is infinite or NaN. */
static bool round_tensor(WeightsPass *p, const Tensor *from, WeightsJob *j)
{
	const DType t = p->m->opt.weight_type;
	const char *at = from->data; /* in a file, it may start at any byte */
	uint16_t *to;

	*j = (WeightsJob){
		.from = from,
		.numbers = tensor_new_large(p->m->graph->arena, t, from->rank, from->dims)};
	to = (uint16_t *)(uintptr_t)j->numbers->data;
	for (int64_t i = 0, n = tensor_numel(from); i < n; i++, at += sizeof(float)) {
		uint32_t bits;
		float w, half;
		double e;

		memcpy(&w, at, sizeof w);
		bits = t == DT_BF16 ? dl_encode_bf16(w) : dl_encode_f16(w);
		half = t == DT_BF16 ? dl_decode_bf16(bits) : dl_decode_f16(bits);
		e = (double)w - (double)half;
		if (!isfinite(half))
			return false;
		to[i] = (uint16_t)bits;
		j->error += e * e;
		j->squares += (double)w * (double)w;
	}
	return true;
}

static void drop_all_pages(const WeightsJob *j)
{
	if (tensor_in_file(j->from))
		drop_pages(j->from->data, (size_t)j->from->bytes);
	if (tensor_in_file(j->numbers))
		drop_pages(j->numbers->data, (size_t)j->numbers->bytes);
}

/* ---- The report ---- */

static double relative(double error, double squares)
{
	return squares > 0 ? sqrt(error / squares) : 0;
}

/* A node other than N reads V at run time, directly or through maps and views; N counts in their
 * place. LEFT limits the uses that are examined; after that the answer is true. */
static bool has_other_readers(Module *m, const Value *v, const Node *n, int *left)
{
	for (const Use *u = v->uses; u; u = u->next) {
		Node *r = u->user;

		if (r && (r == n || (r->nout && value_is_weights(m, r->out[0]))))
			continue;
		if (!r || --*left < 0 || !node_is_map(r) ||
		    has_other_readers(m, r->out[0], n, left))
			return true;
	}
	return false;
}

static void report_done(WeightsPass *p, const Node *n, const Value *v, const WeightsJob *j)
{
	const int64_t after = j->numbers->bytes + (j->scales ? j->scales->bytes : 0);
	const char *type = dtype_info[j->numbers->dtype].name;
	int uses = MOST_USES;

	p->before += j->from->bytes;
	p->after += after;
	p->count++;
	p->error += j->error;
	p->squares += j->squares;
	if (p->m->report)
		fprintf(p->m->report,
			"; weights of \"%s\" (\"%s\"): %s, %lld bytes become %lld, error %.6g of their magnitude%s\n",
			scaled_name(p->m, n), scaled_name(p->m, v->def),
			!j->scales ? type
			: j->group == j->terms
				? arena_printf(p->m->arena, "%s, a scale for each column", type)
				: arena_printf(p->m->arena, "%s in groups of %lld", type,
					       (long long)j->group),
			(long long)j->from->bytes, (long long)after, relative(j->error, j->squares),
			has_other_readers(p->m, v, n, &uses) ? "; other nodes read them, too" : "");
}

static void report_all(const WeightsPass *p)
{
	if (p->m->report)
		fprintf(p->m->report,
			"; weights: %lld %s, %lld bytes become %lld, error %.6g of their magnitude; %lld left unchanged%s\n",
			(long long)p->count,
			dtype_is_float(p->m->opt.weight_type) ? "rounded" : "quantised",
			(long long)p->before, (long long)p->after, relative(p->error, p->squares),
			(long long)p->kept,
			p->count + p->kept ? "" : ": no product of floats has constant factors");
}

/* ---- The graph ---- */

/* The kernel's load of the scale of element IDX, of rank RANK. */
static Expr *scale_at(Kernel *k, const WeightsJob *j, Buf *scales, int axis, Expr *const *idx,
		      int rank)
{
	Expr *at[MAX_RANK];

	for (int i = 0; i < rank; i++)
		at[i] = i != axis              ? idx[i]
			: j->group == j->terms ? ex_int(k->pool, CT_I64, 0)
					       : ex_op2(k->pool, IN_floordiv, idx[i],
							ex_int(k->pool, CT_I64, j->group));
	return kernel_load(k, scales, at);
}

/* Adds the kernel w[..] = f32(numbers[..]) * scales[.., term / group, ..] before N; of halves,
 * without scales. */
static Value *add_dequantised(WeightsPass *p, Node *n, const WeightsJob *j, int axis)
{
	Graph *g = p->m->graph;
	Kernel *k = kernel_new(p->m->ctx, p->m->arena,
			       arena_printf(p->m->arena, "%s_weights", node_kernel(n)->name));
	Value *in[] = {graph_const(g, j->numbers, n),
		       j->scales ? graph_const(g, j->scales, n) : NULL};
	Buf *numbers = kernel_buf(k, BUF_IN, "numbers", in[0]->type), *scales = NULL, *out;
	const Type *t = type_tensor(p->m->ctx, DT_F32, in[0]->type->rank, in[0]->type->dims);
	Iter *it[MAX_RANK];
	Expr *idx[MAX_RANK], *val;
	Node *kn;

	if (j->scales) {
		scales = kernel_buf(k, BUF_IN, "scales", in[1]->type);
		scales->param = 1;
	}
	out = kernel_buf(k, BUF_OUT, "out", t);
	kernel_iters_of(k, out, it);
	for (int i = 0; i < t->rank; i++)
		idx[i] = ex_iter(k->pool, it[i]);
	val = ex_cvt(k->pool, CT_F32, kernel_load(k, numbers, idx));
	if (scales)
		val = ex_op2(k->pool, IN_mul, val, scale_at(k, j, scales, axis, idx, t->rank));
	kernel_map_id(k, it, out, val);
	kernel_drop_unit_iters(k);
	kn = node_new(g, OP_Kernel, in, scales ? 2 : 1, 1, n);
	node_locs_from(kn, n);
	kn->out[0]->type = t;
	kernel_node_set(kn, k);
	return kn->out[0];
}

static bool is_floats(const Value *v)
{
	const Tensor *t = v ? value_const(v) : NULL;

	return t && !v->type->layout && dtype_is_float(t->dtype);
}

/* The reason why V, a constant of floats, is not replaced by numbers of type TO because of its own
 * type and size, where constants of fewer than LEAST elements stay; null: it may be. */
static const char *why_not_wide(const Module *m, const Value *v, DType to, int64_t least)
{
	const Tensor *t = value_const(v);
	const DTypeInfo *own = &dtype_info[t->dtype];

	if (own->bits > 32)
		return arena_printf(m->arena,
				    "they are %s, and only f32, f16 and bf16 become narrow",
				    own->name);
	if (own->bits < 16 || own->bits <= dtype_info[to].bits)
		return arena_printf(m->arena, "they are %s already", own->name);
	return tensor_numel(t) < least
		       ? arena_printf(m->arena, "they have %lld elements, fewer than %lld",
				      (long long)tensor_numel(t), (long long)least)
		       : NULL;
}

/* Whether M's GPUs multiply halves, so that a product whose constant factor stays f32 would be one
 * of f32 (passes/kernel/halves.c). */
static bool multiplies_halves(const Module *m)
{
	return module_on_gpu(m) && m->opt.half_activations == m->opt.weight_type;
}

/* The only axis along which the scales of J differ, if there is one scale for each index of it; -1:
 * there are several such axes, or several groups. */
static int axis_of_scales(const WeightsJob *j, int axis)
{
	int found = axis == 0;

	for (int i = 0; i < j->scales->rank; i++)
		found = j->scales->dims[i] > 1 ? i : found;
	return j->group == j->terms && tensor_numel(j->scales) == j->scales->dims[found] ? found
											 : -1;
}

/* Adds an operator before N that widens the numbers of J. If each column has one scale, the
 * operator has the form of opset 13, which more engines support than blocks. */
static Value *add_operator(WeightsPass *p, Node *n, const WeightsJob *j, int axis)
{
	Graph *g = p->m->graph;
	const int columns = j->scales ? axis_of_scales(j, axis) : -1;
	Value *in[2] = {graph_const(g, j->numbers, n), NULL};
	Tensor *scales = NULL;
	Node *wide;

	if (j->scales) {
		scales = arena_copy(g->arena, j->scales, sizeof *scales);
		if (columns >= 0) {
			scales->rank = 1;
			scales->dims = &j->scales->dims[columns];
		}
		in[1] = graph_const(g, scales, n);
	}
	wide = node_new(g, j->scales ? OP_DequantizeLinear : OP_Cast, in, j->scales ? 2 : 1, 1, n);

	node_locs_from(wide, n);
	wide->out[0]->type = type_tensor(p->m->ctx, DT_F32, in[0]->type->rank, in[0]->type->dims);
	if (!j->scales) {
		node_set_int(wide, "to", dtype_info[DT_F32].onnx);
		return wide->out[0];
	}
	node_set_int(wide, "axis", columns >= 0 ? columns : axis);
	if (columns < 0)
		node_set_int(wide, "block_size", j->group);
	return wide->out[0];
}

/* The only dim that IT indexes in load E; -1: none, or several. */
static int dim_of(const Expr *e, const Iter *it)
{
	int found = -1;

	for (int d = 0; d < e->load.nidx; d++)
		if (e->load.idx[d]->kind == EX_ITER && e->load.idx[d]->iter == it) {
			if (found >= 0)
				return -1;
			found = d;
		}
	return found;
}

/* The reason why V is not replaced although its numbers J are ready; null: it is replaced. */
static const char *why_not(WeightsPass *p, const WeightsJob *j)
{
	const double error = relative(j->error, j->squares), most = p->m->opt.weight_error;

	if (j->squares > 0 && j->error >= j->squares)
		return j->scales ? "they are too small for a scale"
				 : "they are too small for that type";
	return most >= 0 && error > most
		       ? arena_printf(p->m->arena, "their error would be %.6g of their magnitude",
				      error)
		       : NULL;
}

/* The value that replaces V, weights of N, which is quantised along AXIS, and is made before
 * BEFORE; null if V is not replaced. */
static Value *replacement(WeightsPass *p, Node *n, Node *before, Value *v, int axis)
{
	WeightsJob j;
	NarrowWeight w = {v, axis, NULL};
	const bool halves = dtype_is_half(p->m->opt.weight_type);
	const char *why;

	for (int i = 0; i < p->done.n; i++)
		if (p->done.at[i].from == v && p->done.at[i].axis == axis)
			return p->done.at[i].to;
	why = !(halves ? round_tensor(p, value_const(v), &j)
		       : quantise_tensor(p, value_const(v), axis, &j))
		      ? (halves ? "they are not all finite in that type"
				: "they are not all finite")
		      : why_not(p, &j);
	drop_all_pages(&j);
	if (why) {
		scaled_report(p->m, n, "weights", &p->kept, why);
	} else {
		report_done(p, n, v, &j);
		w.to = p->operators ? add_operator(p, before, &j, axis)
				    : add_dequantised(p, before, &j, axis);
	}
	vec_push(p->m->arena, &p->done, w);
	return w.to;
}

/* Whether --keep names N. */
static bool is_named(WeightsPass *p, const Node *n)
{
	const LocList all = locs_all(p->m->arena, n->locs);
	bool named = false;

	for (int k = 0; k < p->m->opt.nweight_keep; k++)
		for (int i = 0; i < all.n; i++)
			if (all.at[i].node && !strcmp(all.at[i].node, p->m->opt.weight_keep[k]))
				p->named[k] = named = true;
	return named;
}

/* If data choose elements of E, they choose matrices: by indices that depend on none of C's rows,
 * columns and terms. False if E takes rows out of a table, or terms out of a matrix. */
static bool takes_matrices(const Contraction *c, const Expr *e)
{
	for (int d = 0; d < e->load.nidx; d++) {
		Expr *at = e->load.idx[d];

		if (expr_has_load(at) &&
		    (expr_has_any(at, c->m, c->nm) || expr_has_any(at, c->n, c->nn) ||
		     expr_has_any(at, c->k, c->nk)))
			return false;
	}
	return true;
}

/* Each index of E along a sum of C is an iterator, so that panels have the terms in E's order. */
static bool terms_plain(const Contraction *c, const Expr *e)
{
	for (int d = 0; d < e->load.nidx; d++)
		if (e->load.idx[d]->kind != EX_ITER && expr_has_any(e->load.idx[d], c->k, c->nk))
			return false;
	return true;
}

/* E is computed from constants, and is not only a number. */
static bool is_computed(Module *m, const Node *n, Expr *e)
{
	return expr_has_load(e) && expr_is_weights(m, n, e);
}

/* The reason why the sums of C are not those of numbers with scales; null: they are. E loads the
 * weights, and AXIS is the dim of the terms, or -1. */
static const char *why_not_scaled(const Module *m, const Contraction *c, const Expr *e, int axis)
{
	const Expr *image = c->a == e ? c->b : c->a;
	const char *what = contraction_slides(c, (Expr *)(uintptr_t)image)
				   ? "a convolution of several taps sums over several axes"
			   : c->guard_a || c->guard_b
				   ? "some terms are left out, as at the borders of an image"
				   : "the sum is over several axes";

	if (axis >= 0 && !c->guard_a && !c->guard_b)
		return NULL;
	return arena_printf(m->arena, "%s; %s", what,
			    !dtype_is_half(m->opt.weight_type)
				    ? "use f16, bf16 or --int8 for it"
				    : arena_printf(m->arena,
						   "with --activations-as=%s GPUs round them, too",
						   dtype_info[m->opt.weight_type].name));
}

/* The reason why V, which load E of a factor of C in N reads, stays; null: it may be replaced along
 * AXIS. */
static const char *why_kept(WeightsPass *p, Node *n, const Contraction *c, const Expr *e,
			    const Value *v, int axis)
{
	const Module *m = p->m;
	const bool gpu = module_on_gpu(m),
		   halves = dtype_is_half(m->opt.weight_type) && (!gpu || multiplies_halves(m));
	const char *why = why_not_wide(m, v, m->opt.weight_type,
				       multiplies_halves(m) ? 1 : LEAST_WEIGHTS);

	if (why)
		return why;
	if (!takes_matrices(c, e))
		return "indices that are known at run time choose single rows, columns or terms";
	if ((!halves || !gpu) && !terms_plain(c, e))
		return "the sum reads them in another order, as a transposed convolution does";
	if (!halves && (why = why_not_scaled(m, c, e, axis)))
		return why;
	if (is_named(p, n))
		return "by --keep";
	if (c->ct != CT_F32)
		return "the sum is not of f32";
	return n->nin + ADDED > MAX_PARAMS ? "its kernel has too many operands" : NULL;
}

/* Replaces factor SIDE of N's product *C, if it is a constant. FIRST: the product is the only one
 * of N that can be changed. False if it is not a constant. */
static bool quantise_factor(WeightsPass *p, Node *n, const Contraction *c, int side, bool first)
{
	Kernel *k = node_kernel(n);
	Expr *e = weights_through(p->m, n, c->s->val[0]->op.arg[side], true);
	Expr *other = c->s->val[0]->op.arg[1 - side], *load;
	Value *v = e->kind == EX_LOAD ? node_loaded(n, e) : NULL, *to;
	const int axis = v && c->nk == 1 ? dim_of(e, c->k[0]) : -1;
	const char *why;

	if (!expr_has_any(e, c->k, c->nk))
		return false;
	if (!is_floats(v)) {
		if (!is_computed(p->m, n, e))
			return false;
		scaled_report(p->m, n, "weights", &p->kept,
			      "they are computed from constants, such as numbers with scales");
		return true;
	}
	why = why_kept(p, n, c, e, v, axis);
	if (!why && !first)
		why = "its kernel computes several sums";
	if (why) {
		scaled_report(p->m, n, "weights", &p->kept, why);
		return true;
	}
	to = replacement(p, n, n, v, axis);
	if (!to)
		return true;
	load = load_added(n, e->load.buf->name, to, e->load.idx, e->load.nidx);
	c->s->val[0] = ex_op2(k->pool, IN_mul, side ? other : load, side ? load : other);
	return true;
}

/* Whether `halves` runs for a GPU, and checks the names of --keep, which may be of any kernel. */
static bool halves_check(const Module *m)
{
	return m->opt.half_activations && (module_on_gpu(m) || m->gpu);
}

/* Ends the pass: prints the report. False after a diagnostic: --keep names no product. */
static bool finish(WeightsPass *p)
{
	Module *m = p->m;

	for (int k = 0; k < m->opt.nweight_keep && !halves_check(m); k++)
		if (!p->named[k])
			return diag_error(
				m->ctx->diag, (DiagLoc){0},
				"--keep=%s: no product with weights that could be narrower has this name; the report without --keep lists all",
				m->opt.weight_keep[k]);
	report_all(p);
	dce_graph(m);
	return true;
}

bool pass_quantise_weights(Module *m)
{
	WeightsPass p = {.m = m, .named = NEW_ARRAY(m->arena, m->opt.nweight_keep + 1, bool)};

	if (!m->opt.weight_type)
		return true;
	for (Node *n = m->graph->first; n; n = n->next) {
		Kernel *k = node_kernel(n);

		if (!k || !module_schedules(m, n))
			continue;
		for (int i = 0; i < k->stmts.n; i++) {
			Form f = form_of_stmt(k, k->stmts.at[i]);

			if (f.kind == FORM_CONTRACTION && ctype_is_float(f.c.ct) &&
			    !quantise_factor(&p, n, &f.c, 1, !i))
				quantise_factor(&p, n, &f.c, 0, !i);
		}
		node_drop_unused_inputs(n);
	}
	return finish(&p);
}

/* The axis of V, the weights of N, that its sums are over; -1: they are over several axes. */
static int only_axis(const Node *n, const Value *v)
{
	const WeightsAxes axes = op_table[n->op]->weights_axes(n);
	const int last = axes.terms > axes.channels ? axes.terms : axes.channels;

	for (int i = last + 1; i < v->type->rank; i++)
		if (!dim_equals(v->type->dims[i], 1))
			return -1;
	return axes.terms == axes.channels ? -1 : axes.terms;
}

/* The node before which numbers for N's weights are: outside of loops, which would widen them in
 * each iteration. */
static Node *before_loops(const Blocks *b, Node *n)
{
	for (int i = b->of[n->id]; i; i = b->at.at[i].outer)
		n = b->at.at[i].open->op == OP_Else ? block_open(b->at.at[i].open)
						    : b->at.at[i].open;
	return n;
}

/* Whether *V is computed from constants. If it is of floats made of floats, computes it as a
 * constant before BEFORE, once for all of its readers. DONE is for quantise_is_weights. */
static bool weights_of(WeightsPass *p, Value **v, Node *before, char *done)
{
	ARENA_LOCAL(tmp);
	Module *m = p->m;
	const Value *from = *v;
	const Tensor *t;
	Tensor *to;

	for (int i = 0; i < p->folded.n; i++)
		if (p->folded.at[i].from == from) {
			*v = p->folded.at[i].to;
			return true;
		}
	if (!quantise_is_weights(from, done))
		return false;
	t = value_const(from) ? NULL : fold_floats(m, from, MOST_NODES, tmp);
	if (t) {
		to = tensor_new(m->graph->arena, t->dtype, t->rank, t->dims);
		memcpy((void *)(uintptr_t)to->data, t->data, (size_t)t->bytes);
		*v = graph_const(m->graph, to, before);
		(*v)->type = from->type;
		(*v)->name = from->name;
		node_locs_from((*v)->def, from->def);
		vec_push(m->arena, &p->folded, ((NarrowWeight){from, -1, *v}));
	}
	return true;
}

bool quantise_weights_operators(Module *m)
{
	ARENA_LOCAL(tmp);
	WeightsPass p = {.m = m,
			 .operators = true,
			 .named = NEW_ARRAY(m->arena, m->opt.nweight_keep + 1, bool)};
	const bool halves = dtype_is_half(m->opt.weight_type);
	const Blocks blocks = blocks_of(m->graph, tmp);
	const int nodes = m->graph->nnodes;
	char *done = NEW_ARRAY(tmp, m->graph->nvalues + 1, char);

	if (!m->opt.weight_type)
		return true;
	for (Node *n = m->graph->first; n; n = n->next) {
		const bool has = n->id < nodes && op_table[n->op] && op_table[n->op]->weights_axes;
		Value *v = has ? node_in(n, 1) : NULL, *to;
		const char *why;

		if (!v || v->type->rank < 2 || quantise_is_weights(node_in(n, 0), done) ||
		    !weights_of(&p, &v, before_loops(&blocks, n), done))
			continue;
		why = !is_floats(v) ? "they are computed from constants"
		      : node_in(n, 0)->type->dtype != DT_F32 || v->type->dtype != DT_F32
			      ? "its factors are not f32"
			      : why_not_wide(m, v, m->opt.weight_type, LEAST_WEIGHTS);
		if (!why)
			why = !halves && only_axis(n, v) < 0
				      ? "a convolution of several taps sums over several axes; use f16, bf16 or --int8 for it"
			      : is_named(&p, n) ? "by --keep"
						: NULL;
		to = why ? NULL : replacement(&p, n, before_loops(&blocks, n), v, only_axis(n, v));
		if (why)
			scaled_report(m, n, "weights", &p.kept, why);
		else if (to)
			node_set_input(n, 1, to);
	}
	return finish(&p);
}
