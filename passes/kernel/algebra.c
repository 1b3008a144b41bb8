/* SPDX-License-Identifier: Apache-2.0 */
/*
 * algebra: algebraic rewrites of quantised products. A sum of products of bytes minus their zero
 * points becomes a sum of products of bytes, which matrix units compute, and sums of either factor:
 *
 *     sum (a - x) (b - y)  =  sum a b  -  x sum (b - y)  -  y sum a
 *
 * Integers wrap, so this is exact. Dequantised factors, which are such differences times scales,
 * become sums of integers, times both scales:
 *
 *     sum s f32(a - x) t f32(b - y)  =  f32(sum (a - x) (b - y)) s t
 *
 * The right side is rounded three times, the left side at each term, so the error bound of the left
 * side holds. Zero points may differ by row and by column, but not by term. Where the guard of a
 * term fails (the padding of a convolution) the term is dropped from all three sums: the sums of
 * the factors then depend on the position of the stencil.
 *
 * For dequantised factors on CPUs, every target must have an instruction for products of bytes.
 *
 * The path of a quantised model: ops/onnx/quantise.c lowers the operators to products and
 * conversions, narrow.c finds the bytes behind factors, this file multiplies them, requantise.c
 * rounds the results, and a product of bytes is a dot product in codegen/c/tile.c and a matrix
 * instruction of ir/loop/mma.def.
 *
 * The sums of a factor are separate kernels. Sums of constants are computed at compile time. The
 * sums of a stencil are computed in two steps, first over the iterators that do not depend on the
 * position (channels), then over the stencil. Where only the guard depends on the position, the
 * sums are computed once for each border class (border_classes.c).
 */
#include "passes/forms/algebra.h"

#include "passes/forms/form.h"
#include "passes/forms/seven_bits.h"
#include "passes/module.h"

typedef struct Iters {
	Iter *at[MAX_ITERS];
	int n;
} Iters;

/* The product that is rewritten. */
typedef struct FactoredProduct {
	Module *m;
	Node *n;
	Kernel *k;
	Contraction c;
	ByteFactor a, b;
} FactoredProduct;

/* ---- Kernels of sums ---- */

/* A kernel of sums that is being built: out[band] = sum over RED. It has copies of the iterators
 * of P's statement. */
typedef struct FactorSum {
	const FactoredProduct *p;
	Kernel *k;
	Iter *from[2 * MAX_ITERS]; /* iterators of P's statement; WITH has the copies */
	Expr *with[2 * MAX_ITERS];
	int n;
	Value *in[MAX_PARAMS];
	int nin;
} FactorSum;

static void sum_open(FactorSum *s, const FactoredProduct *p, const char *what)
{
	*s = (FactorSum){.p = p};
	s->k = kernel_new(p->m->ctx, p->m->arena,
			  arena_printf(p->m->arena, "%s_%s", p->k->name, what));
}

static Iter *sum_iter(FactorSum *s, Iter *of)
{
	Iter *it = kernel_iter(s->k, of->name, of->extent);

	s->from[s->n] = of;
	s->with[s->n++] = ex_iter(s->k->pool, it);
	return it;
}

static Expr *sum_import(FactorSum *s, Expr *e)
{
	return kernel_import_expr(s->k, s->p->k, e, s->from, s->with, s->n, s->p->n, s->in,
				  &s->nin);
}

/* Turns the finished kernel into a node; returns its result, which has these dims. */
static Value *sum_close(FactorSum *s, DType dtype, Iters *band, const Iters *red, int rank,
			Dim *const *dims, Expr *const *widx, Expr *val, Expr *guard)
{
	const Type *t = type_tensor(s->p->m->ctx, dtype, rank, dims);
	Buf *out = kernel_buf(s->k, BUF_OUT, "sums", t);
	Stmt *st = kernel_map(s->k, band->at, band->n, out, widx, val, guard);
	Node *n;

	for (int i = 0; i < red->n; i++)
		st->iter[st->niters++] = red->at[i];
	st->red = red->n ? MONOID_sum : MONOID_NONE;
	st->nband = red->n ? band->n : st->niters;
	out->param = 0;
	n = node_new(s->p->m->graph, OP_Kernel, s->in, s->nin, 1, s->p->n);
	node_locs_from(n, s->p->n);
	n->out[0]->type = t;
	kernel_node_set(n, s->k);
	return n->out[0];
}

static void add_iter(Iters *l, Iter *it)
{
	for (int i = 0; i < l->n; i++)
		if (l->at[i] == it)
			return;
	l->at[l->n++] = it;
}

/* ---- Classes of iterators ---- */

/* How the sums over one factor are organised. */
typedef struct FactorPlan {
	ByteFactor f;
	Iters band; /* iterators that the sums depend on at each point */
	/* iterators that only the guard depends on: one sum for each border class */
	BorderClasses borders[MAX_ITERS];
	int nborders;
	/* summed iterators that depend on the position of the stencil: those in the guard, or in an
	 * index with a free iterator */
	Iters window;
	Iters alike; /* the other summed iterators (channels) */
} FactorPlan;

static bool beside(const Expr *load, const Iter *k, Iter *const *free, int n)
{
	for (int d = 0; d < load->load.nidx; d++)
		if (expr_has_iter(load->load.idx[d], k) && expr_has_any(load->load.idx[d], free, n))
			return true;
	return false;
}

static FactorPlan plan(const FactoredProduct *p, const ByteFactor *f, Iter *const *free, int nfree)
{
	const Contraction *c = &p->c;
	Expr *guard = c->s->guard;
	FactorPlan l = {.f = *f};

	for (int i = 0; i < c->s->nband; i++) {
		Iter *it = c->s->iter[i];

		if (expr_has_iter(f->byte, it) || (f->zero && expr_has_iter(f->zero, it)))
			add_iter(&l.band, it);
		else if (guard && expr_has_iter(guard, it) &&
			 !border_classes(p->m->ctx, c->s, it, &l.borders[l.nborders++])) {
			l.nborders--;
			add_iter(&l.band, it);
		}
	}
	for (int i = 0; i < c->nk; i++)
		add_iter((guard && expr_has_iter(guard, c->k[i])) ||
					 (f->byte->kind == EX_LOAD &&
					  beside(f->byte, c->k[i], free, nfree))
				 ? &l.window
				 : &l.alike,
			 c->k[i]);
	return l;
}

/* ---- First step ---- */

/* The first step: sums over the iterators `alike`, for each position in the factor's operand. The
 * dims of the load whose index mentions such an iterator are summed away; other iterators in such
 * an index become dims of the result. */
typedef struct Strip {
	Value *sums;
	/* the index at which the second step reads the result, over P's iterators */
	Expr *idx[MAX_RANK];
	int rank;
} Strip;

static bool sum_strips(const FactoredProduct *p, const FactorPlan *l, Strip *out)
{
	Expr *load = l->f.byte, *idx[MAX_RANK], *widx[MAX_RANK];
	Iters band = {.n = 0}, red = {.n = 0}, stay = {.n = 0};
	Dim *dims[MAX_RANK];
	FactorSum s;

	*out = (Strip){.rank = 0};
	if (!l->window.n || !l->alike.n || load->kind != EX_LOAD)
		return false;
	for (int d = 0; d < load->load.nidx; d++)
		if (expr_has_any(load->load.idx[d], l->alike.at, l->alike.n)) {
			if (expr_has_any(load->load.idx[d], l->window.at, l->window.n))
				return false;
			for (int i = 0; i < l->band.n; i++)
				if (expr_has_iter(load->load.idx[d], l->band.at[i]))
					add_iter(&stay, l->band.at[i]);
		}
	if (stay.n + load->load.nidx > MAX_RANK)
		return false;
	sum_open(&s, p, "strips");
	for (int i = 0; i < stay.n; i++) {
		add_iter(&band, sum_iter(&s, stay.at[i]));
		dims[out->rank] = stay.at[i]->extent;
		widx[out->rank] = s.with[i];
		out->idx[out->rank++] = ex_iter(p->k->pool, stay.at[i]);
	}
	for (int i = 0; i < l->alike.n; i++)
		add_iter(&red, sum_iter(&s, l->alike.at[i]));
	for (int d = 0; d < load->load.nidx; d++) {
		Iter *it;

		idx[d] = load->load.idx[d];
		if (expr_has_any(idx[d], l->alike.at, l->alike.n))
			continue;
		out->idx[out->rank] = idx[d];
		dims[out->rank] = load->load.buf->dims[d];
		it = kernel_iter(p->k, "x", dims[out->rank]);
		idx[d] = ex_iter(p->k->pool, it);
		it = sum_iter(&s, it);
		add_iter(&band, it);
		widx[out->rank++] = ex_iter(s.k->pool, it);
	}
	out->sums = sum_close(
		&s, DT_I32, &band, &red, out->rank, dims, widx,
		sum_import(&s, ex_load(p->k->pool, load->load.buf, idx, load->load.nidx)), NULL);
	kernel_drop_unit_iters(s.k);
	return true;
}

/* ---- Second step ---- */

/* The number of terms of the factor that each term of the second step represents. */
static Expr *times(ExprPool *p, Ctx *c, const Iters *l)
{
	return ex_cvt(p, CT_I32, ex_dim(p, iters_points(c, l->at, l->n)));
}

/* The dims of the tensor of sums. */
typedef struct FactorTable {
	Dim *dims[MAX_RANK];
	Expr *at[MAX_RANK];   /* the indices at which the product reads it */
	Expr *widx[MAX_RANK]; /* the indices at which it is written */
	int rank;
} FactorTable;

static void add_dim(FactorTable *t, Dim *d, Expr *at, Expr *widx)
{
	t->dims[t->rank] = d;
	t->at[t->rank] = at;
	t->widx[t->rank++] = widx;
}

/* Adds the dims of the band. They are those of the product's result if the sums depend on all
 * iterators in that dim's index; else there is one for each iterator. */
static void add_band(const FactorPlan *l, FactorSum *s, FactorTable *t)
{
	const Stmt *of = s->p->c.s;
	Iters done = {.n = 0};

	for (int d = 0; d < of->nwidx; d++) {
		int in = 0, all = 0;

		for (int i = 0; i < of->nband; i++)
			all += expr_has_iter(of->widx[d], of->iter[i]);
		for (int i = 0; i < l->band.n; i++)
			in += expr_has_iter(of->widx[d], l->band.at[i]);
		if (!in || in < all)
			continue;
		add_dim(t, of->out[0]->dims[d], of->widx[d], sum_import(s, of->widx[d]));
		for (int i = 0; i < l->band.n; i++)
			if (expr_has_iter(of->widx[d], l->band.at[i]))
				add_iter(&done, l->band.at[i]);
	}
	for (int i = 0; i < l->band.n; i++) {
		Expr *at = ex_iter(s->p->k->pool, l->band.at[i]);
		const int before = done.n;

		add_iter(&done, l->band.at[i]);
		if (done.n > before)
			add_dim(t, l->band.at[i]->extent, at, sum_import(s, at));
	}
}

static Iter *sum_border_class(FactorSum *s, const BorderClasses *l)
{
	Iter *it = kernel_iter(s->k, l->it->name, l->n);

	s->from[s->n] = l->it;
	s->with[s->n++] = point_of_border_class(s->k->pool, l, ex_iter(s->k->pool, it));
	return it;
}

/* Adds the kernels that compute the sums of L's factor, times BY if that is not null; returns the
 * load of a sum, over the iterators of P's statement. */
static Expr *sums(const FactoredProduct *p, const FactorPlan *l, Expr *by, const char *name)
{
	ExprPool *pool = p->k->pool;
	Iters band = {.n = 0}, red = {.n = 0};
	Expr *val = l->f.byte, *zero = l->f.zero, *guard = p->c.s->guard;
	FactorTable t = {.rank = 0};
	Strip strip;
	Value *v;
	FactorSum s;
	const bool strips = sum_strips(p, l, &strip);

	if (strips)
		val = ex_load(pool, node_add_operand(p->n, "strips", strip.sums), strip.idx,
			      strip.rank);
	if (strips && zero)
		zero = ex_op2(pool, IN_mul, times(pool, p->m->ctx, &l->alike), zero);
	if (zero)
		val = ex_op2(pool, IN_sub, val, zero);
	if (by)
		val = ex_op2(pool, IN_mul, val, by);
	sum_open(&s, p, name);
	for (int i = 0; i < l->nborders; i++) {
		Iter *it = sum_border_class(&s, &l->borders[i]);

		add_iter(&band, it);
		add_dim(&t, l->borders[i].n,
			border_class_of(pool, &l->borders[i], ex_iter(pool, l->borders[i].it)),
			ex_iter(s.k->pool, it));
	}
	for (int i = 0; i < l->band.n; i++)
		add_iter(&band, sum_iter(&s, l->band.at[i]));
	add_band(l, &s, &t);
	for (int i = 0; i < l->window.n; i++)
		add_iter(&red, sum_iter(&s, l->window.at[i]));
	for (int i = 0; i < l->alike.n && !strips; i++)
		add_iter(&red, sum_iter(&s, l->alike.at[i]));
	v = sum_close(&s, DT_I32, &band, &red, t.rank, t.dims, t.widx, sum_import(&s, val),
		      guard ? sum_import(&s, guard) : NULL);
	return ex_load(pool, node_add_operand(p->n, name, v), t.at, t.rank);
}

/* Whether E is the same constant at all points. */
static bool is_one_constant(const FactoredProduct *p, Expr *e)
{
	while (ex_is_op(e, IN_cvt))
		e = e->op.arg[0];
	return e->kind == EX_CONST || (e->kind == EX_LOAD && node_loaded_const(p->n, e) &&
				       !expr_has_any(e, p->c.s->iter, p->c.s->niters));
}

/* The sums times ZERO. If both are constants, so is the product. */
static Expr *sums_times(const FactoredProduct *p, const FactorPlan *l, Expr *zero, const char *name)
{
	if (node_loaded_const(p->n, l->f.byte) && is_one_constant(p, zero))
		return sums(p, l, zero, name);
	return ex_op2(p->k->pool, IN_mul, zero, sums(p, l, NULL, name));
}

/* ---- The product ---- */

static bool is_worth(const FactoredProduct *p)
{
	Ctx *c = p->m->ctx;

	return (!module_on_gpu(p->m) || !iters_fewer(c, p->c.m, p->c.nm, GEMM_ROWS)) &&
	       !iters_fewer(c, p->c.n, p->c.nn, GEMM_ROWS);
}

/* A temporary of type T for the sum of products. It has the result's shape if that has a dim for
 * each iterator. */
static Buf *products_buf(const FactoredProduct *p, DType t, Expr **idx)
{
	const Stmt *s = p->c.s;
	bool like = true;
	Dim *dims[MAX_ITERS];

	for (int d = 0; d < s->nwidx; d++) {
		like = like && (s->widx[d]->kind == EX_ITER || s->widx[d]->kind == EX_CONST);
		idx[d] = s->widx[d];
	}
	if (like)
		return kernel_temp(p->k, "products", t, s->nwidx, s->out[0]->dims);
	for (int i = 0; i < s->nband; i++) {
		dims[i] = s->iter[i]->extent;
		idx[i] = ex_iter(p->k->pool, s->iter[i]);
	}
	return kernel_temp(p->k, "products", t, s->nband, dims);
}

/* Makes S store to OUT at IDX, and adds a map that stores VAL, an expression over S's sum, to S's
 * former output. */
static void put_behind(Kernel *k, Stmt *s, Buf *out, Expr *const *idx, Expr *val)
{
	Iter *it[MAX_ITERS];
	Expr *with[MAX_ITERS], *widx[MAX_RANK];
	Stmt *map;
	int at = 0;

	for (int i = 0; i < s->nband; i++) {
		it[i] = kernel_iter(k, s->iter[i]->name, s->iter[i]->extent);
		with[i] = ex_iter(k->pool, it[i]);
	}
	for (int d = 0; d < s->nwidx; d++)
		widx[d] = ex_subst_iters(k->pool, s->widx[d], s->iter, with, s->nband);
	map = kernel_map(k, it, s->nband, s->out[0], widx,
			 ex_subst_iters(k->pool, val, s->iter, with, s->nband), NULL);
	map->loc = s->loc;
	s->out[0] = out;
	s->nwidx = out->rank;
	s->widx = arena_copy(k->arena, idx, (size_t)out->rank * sizeof *idx);
	while (k->stmts.at[at] != s)
		at++;
	kernel_move_last_stmt(k, at + 1);
}

static bool without_zero_points(FactoredProduct *p)
{
	const Contraction *c = &p->c;
	ExprPool *pool = p->k->pool;
	Expr *idx[MAX_ITERS], *val;
	Buf *out;

	if (c->s->nband > MAX_RANK)
		return false;
	if (!p->a.zero && !p->b.zero && c->ct == CT_I32) {
		c->s->val[0] = ex_op2(pool, IN_mul, p->a.byte, p->b.byte);
		return true;
	}
	out = products_buf(p, DT_I32, idx);
	val = ex_load(pool, out, idx, out->rank);
	if (p->a.zero) {
		const FactorPlan l = plan(p, &p->b, c->n, c->nn);

		val = ex_op2(pool, IN_sub, val, sums_times(p, &l, p->a.zero, "b_sums"));
	}
	if (p->b.zero) {
		const FactorPlan l = plan(p, &(ByteFactor){p->a.byte, NULL, NULL}, c->m, c->nm);

		val = ex_op2(pool, IN_sub, val, sums_times(p, &l, p->b.zero, "a_sums"));
	}
	if (c->ct == CT_F32)
		val = ex_cvt(pool, CT_F32, val);
	if (p->a.scale)
		val = ex_op2(pool, IN_mul, val, p->a.scale);
	if (p->b.scale)
		val = ex_op2(pool, IN_mul, val, p->b.scale);
	c->s->val[0] = ex_op2(pool, IN_mul, p->a.byte, p->b.byte);
	put_behind(p->k, c->s, out, idx, val);
	return true;
}

/* Converts a constant factor F to the floats byte - zero, which a separate kernel computes. Null if
 * F is not a constant, or has indices other than iterators. */
static Expr *as_floats(const FactoredProduct *p, const ByteFactor *f)
{
	Expr *widx[MAX_RANK], *val = f->byte;
	Iters band = {.n = 0}, none = {.n = 0};
	FactorSum s;

	if (!node_loaded_const(p->n, f->byte))
		return NULL;
	for (int d = 0; d < f->byte->load.nidx; d++)
		if (f->byte->load.idx[d]->kind != EX_ITER && f->byte->load.idx[d]->kind != EX_CONST)
			return NULL;
	sum_open(&s, p, "floats");
	for (int d = 0; d < f->byte->load.nidx; d++)
		if (f->byte->load.idx[d]->kind == EX_ITER)
			add_iter(&band, sum_iter(&s, f->byte->load.idx[d]->iter));
	for (int d = 0; d < f->byte->load.nidx; d++)
		widx[d] = sum_import(&s, f->byte->load.idx[d]);
	if (f->zero)
		val = ex_op2(p->k->pool, IN_sub, val, f->zero);
	return ex_load(
		p->k->pool,
		node_add_operand(p->n, "floats",
				 sum_close(&s, DT_F32, &band, &none, f->byte->load.nidx,
					   f->byte->load.buf->dims, widx,
					   sum_import(&s, ex_cvt(p->k->pool, CT_F32, val)), NULL)),
		f->byte->load.idx, f->byte->load.nidx);
}

/* A depthwise convolution uses each element for only one channel, so it remains a sum of f32:
 * factor B, the image, is read as bytes, and its scale is applied after the sum. If factor A has
 * bytes, too, its scale is also applied after the sum, whose terms are then integers and exact in
 * f32. */
static bool without_scale(FactoredProduct *p, bool *exact)
{
	const Contraction *c = &p->c;
	ExprPool *pool = p->k->pool;
	Expr *idx[MAX_ITERS], *val = p->b.byte, *a = NULL, *out;
	int64_t lo, hi;
	Buf *sums;

	if (c->s->nband > MAX_RANK || !p->b.scale)
		return false;
	dim_bounds(p->m->ctx, iters_points(p->m->ctx, c->k, c->nk), &lo, &hi);
	if (*exact && hi <= MOST_FLOAT_TERMS)
		a = as_floats(p, &p->a);
	*exact = a != NULL;
	sums = products_buf(p, DT_F32, idx);
	if (p->b.zero)
		val = ex_op2(pool, IN_sub, val, p->b.zero);
	c->s->val[0] = ex_op2(pool, IN_mul, ex_cvt(pool, CT_F32, val), a ? a : c->a);
	out = ex_op2(pool, IN_mul, ex_load(pool, sums, idx, sums->rank), p->b.scale);
	if (a && p->a.scale)
		out = ex_op2(pool, IN_mul, out, p->a.scale);
	put_behind(p->k, c->s, sums, idx, out);
	return true;
}

/* F's byte plus BY, 128 or -128, as an element of type T. The zero point is adjusted. A byte of N
 * that is not negative is a u8 as it is. Products of such bytes do not exceed 16 bits in pairs,
 * either (passes/layout/panels_order.c). */
static void shift_byte(const Node *n, ByteFactor *f, DType t, int by)
{
	ExprPool *p = node_kernel(n)->pool;
	const Value *v = node_loaded(n, f->byte);
	Expr *number = ex_int(p, CT_I32, by);

	if (t == DT_U8 && v && value_has_7_bits(v)) {
		f->byte = ex_round(p, t, f->byte);
		return;
	}
	f->byte = ex_round(p, t, ex_op2(p, IN_add, f->byte, number));
	f->zero = f->zero ? ex_op2(p, IN_add, f->zero, number) : number;
}

/* CPUs multiply u8 by i8. If both factors are u8, the constant becomes i8; if both are i8, the
 * other factor becomes u8, and its new zero point, if it has one, multiplies a sum of constants. */
static void mix_signs(FactoredProduct *p)
{
	const DType a = contraction_type(p->a.byte), b = contraction_type(p->b.byte);
	const bool constant = node_loaded_const(p->n, p->a.byte);

	if (a == DT_U8 && b == DT_U8)
		shift_byte(p->n, constant ? &p->a : &p->b, DT_I8, -128);
	else if (a == DT_I8 && b == DT_I8)
		shift_byte(p->n, constant ? &p->b : &p->a, DT_U8, 128);
}

/* The factors are integers; or they are dequantised, their sum fits in an i32, and every target has
 * an instruction for the product. */
static bool suits_type(const FactoredProduct *p)
{
	int64_t lo, hi;

	if (p->c.ct == CT_I32)
		return p->c.s->out[0]->dtype == DT_I32 &&
		       (contraction_type(p->c.a) == DT_I32 || contraction_type(p->c.b) == DT_I32);
	if (!module_multiplies_bytes(p->m))
		return false;
	dim_bounds(p->m->ctx, iters_points(p->m->ctx, p->c.k, p->c.nk), &lo, &hi);
	return p->c.ct == CT_F32 && p->c.s->out[0]->dtype == DT_F32 && hi <= MOST_BYTE_TERMS;
}

/* ---- Products that remain in floats ---- */

/* Counts P, a product of two dequantised tensors. WHY is the reason for computing it in floats, or
 * null if it is computed in integers. */
static void count_product(FactoredProduct *p, Dim *work, const char *why)
{
	vec_push(p->m->arena, &p->m->byte_products, ((ByteProduct){work, !why}));
	if (why && p->m->opt.warn_floats)
		diag_warning(p->m->ctx->diag, node_diag(p->n), "fallback",
			     "it is computed in floats between DequantizeLinear and QuantizeLinear: %s",
			     why);
}

/* The reason why a product of dequantised tensors is not rewritten as a product of bytes. */
static const char *why_floats(const FactoredProduct *p)
{
	if (!module_multiplies_bytes(p->m))
		return "not all targets have an instruction for products of bytes";
	if (!p->c.nm)
		return "each weight is used for only one channel, and the zero points or sums do not fit f32";
	if (!is_worth(p))
		return "it has few columns";
	return "its sums may exceed an i32, or have a form that is not supported";
}

/* ---- The rewrite ---- */

static bool rewrite_product(Module *m, Node *n)
{
	enum { MORE = 6 }; /* limit on the operands that the rewrite adds */
	FactoredProduct p = {.m = m, .n = n, .k = node_kernel(n)};
	bool done = false, narrow[2] = {false}, may, quantised, exact;
	Dim *work;
	Form form;

	if (!p.k->stmts.n)
		return false;
	form = form_of_stmt(p.k, p.k->stmts.at[0]);
	if (form.kind != FORM_CONTRACTION)
		return false;
	p.c = form.c;
	work = iters_points(m->ctx, p.c.s->iter, p.c.s->niters);
	may = suits_type(&p) && is_worth(&p) && n->nin <= MAX_PARAMS / 2;
	if (may || p.c.ct == CT_F32) {
		narrow[0] = narrow_factor(n, &p.c, p.c.a, &p.a);
		narrow[1] = narrow_factor(n, &p.c, p.c.b, &p.b);
	}
	quantised = exact = p.c.ct == CT_F32 && narrow[0] && narrow[1];
	if (may) {
		if (!p.c.nm && !module_on_gpu(m)) {
			done = p.c.ct == CT_F32 && narrow[1] && without_scale(&p, &exact);
		} else if (narrow[0] && narrow[1] && n->nin + MORE <= MAX_PARAMS) {
			if (!module_on_gpu(m))
				mix_signs(&p);
			done = without_zero_points(&p);
		}
	}
	node_drop_unused_inputs(n);
	if (quantised || (done && p.c.ct == CT_I32))
		count_product(&p, work,
			      done && (p.c.nm || exact || module_on_gpu(m)) ? NULL
									    : why_floats(&p));
	return done;
}

bool pass_algebra(Module *m)
{
	const bool quotients = !module_on_gpu(m) && module_multiplies_bytes(m);
	int budget = m->opt.rewrite_limit;

	if (m->opt.level == 0)
		return true;
	for (Node *n = m->graph->first; n; n = n->next)
		if (node_kernel(n) && !node_on_host(n) && budget != 0 &&
		    (rewrite_product(m, n) || (quotients && requantise(n))))
			budget -= budget > 0;
	dce_graph(m);
	return true;
}
