/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises contractions, acc[g,m,n] = sum over k of A(g,m,k) * B(g,k,n), only by access
 * relations: the term is a product whose factors read disjoint sets of the band's iterators.
 * MatMul, Gemm, Conv (as implicit GEMM), Einsum and a ReduceSum over a broadcast product have this
 * form.
 *
 * Each conjunct of the guard is assigned to the operand whose iterators it mentions (a
 * convolution's padding belongs to the image), or to the operand that would leave its buffer
 * without it. Packing evaluates these guards, so the micro-kernel has none.
 */
#include "passes/forms/contraction.h"

enum { IN_A = 1, IN_B = 2 };

static void leaves(void *arg, Expr *e)
{
	if (e->kind != EX_LOAD)
		return;
	for (int d = 0; d < e->load.nidx; d++) {
		const Expr *i = e->load.idx[d];
		bool inside = i->kind == EX_ITER ? i->iter->extent == e->load.buf->dims[d]
						 : i->kind == EX_CONST && i->i == 0;

		*(bool *)arg = *(bool *)arg || !inside;
	}
}

/* If a guard that depends only on k fails, an operand may be read without the guard only if its
 * indices stay inside its buffers. */
static bool needs_guard(Expr *e)
{
	bool yes = false;

	ex_walk(e, leaves, &yes);
	return yes;
}

static bool split_guard(Kernel *k, Contraction *c, Expr *g)
{
	bool a, b, phase;

	if (g->kind == EX_INST && g->op.inst == IN_and)
		return split_guard(k, c, g->op.arg[0]) && split_guard(k, c, g->op.arg[1]);
	a = expr_has_any(g, c->m, c->nm);
	b = expr_has_any(g, c->n, c->nn);
	if (a && b)
		return false;
	phase = expr_has_any(g, c->g, c->ng);
	if (!a && !b) {
		b = phase || needs_guard(c->b);
		a = phase || !b || needs_guard(c->a);
	}
	if (a)
		c->guard_a = ex_and(k->pool, c->guard_a, g);
	if (b)
		c->guard_b = ex_and(k->pool, c->guard_b, g);
	return true;
}

DType contraction_type(const Expr *e)
{
	if (e->kind == EX_LOAD)
		return e->load.buf->dtype;
	return ex_is_op(e, IN_round) ? e->op.dtype : ctype_dtype(e->ct);
}

int contraction_kpack(const Contraction *c)
{
	const DType a = contraction_type(c->a), b = contraction_type(c->b);

	if (c->ct == CT_F32 && b == DT_BF16)
		return 2;
	return c->ct == CT_I32 && ((a == DT_U8 && b == DT_I8) || (a == DT_I8 && b == DT_U8)) ? 4
											     : 1;
}

void contraction_swap(Contraction *c)
{
	for (int i = 0; i < MAX_ITERS; i++) {
		Iter *t = c->m[i];

		c->m[i] = c->n[i];
		c->n[i] = t;
	}
	int t = c->nm;
	c->nm = c->nn;
	c->nn = t;
	Expr *e = c->a, *guard = c->guard_a;
	c->a = c->b;
	c->b = e;
	c->guard_a = c->guard_b;
	c->guard_b = guard;
}

bool stmt_index_slides(const Stmt *s, Expr *e)
{
	return expr_has_any(e, s->iter, s->nband) &&
	       expr_has_any(e, s->iter + s->nband, s->niters - s->nband);
}

typedef struct Sliding {
	const Stmt *s;
	bool slides;
} Sliding;

static void sees_sliding(void *arg, Expr *e)
{
	Sliding *f = arg;

	for (int d = 0; e->kind == EX_LOAD && d < e->load.nidx; d++)
		f->slides = f->slides || stmt_index_slides(f->s, e->load.idx[d]);
}

bool contraction_slides(const Contraction *c, Expr *e)
{
	Sliding f = {c->s, false};

	ex_walk(e, sees_sliding, &f);
	return f.slides;
}

/* The element of B at the next point of IT follows the element at IDX in memory. */
static bool is_unit_stride(Kernel *k, const Buf *b, Expr *const *idx, const Iter *it)
{
	int64_t step;

	return ex_const_step(k->ctx, flat_index(k, b, idx), it, &step) && step == 1;
}

const Iter *contraction_row_of_pixels(Kernel *k, const Contraction *c, Expr *e)
{
	const Stmt *s = c->s;

	if (e->kind != EX_LOAD || !contraction_slides(c, e))
		return NULL;
	for (int i = 0; i < s->nband; i++)
		if (is_unit_stride(k, e->load.buf, e->load.idx, s->iter[i]) &&
		    is_unit_stride(k, s->out[0], s->widx, s->iter[i]))
			return s->iter[i];
	return NULL;
}

bool index_goes_along(Ctx *c, Expr *e, const Iter *it)
{
	int64_t step, other;
	Affine a;

	if (!expr_has_iter(e, it) || !ex_affine(c, e, &a) ||
	    !dim_is_const(affine_coef(c, &a, it), &step))
		return e->kind == EX_ITER && e->iter == it;
	for (int i = 0; i < a.n; i++)
		if (a.iter[i] != it && (!dim_is_const(a.coef[i], &other) || other >= step))
			return false;
	return true;
}

int kernel_second_product(Kernel *k)
{
	Contraction c;

	for (int i = k->stmts.n - 1; i > 1; i--)
		if (stmt_contraction(k, k->stmts.at[i], &c))
			return i;
	return -1;
}

/* Index E has unit stride along IT inside of a group, as that of channel IT of group G of C in
 * G*N + IT. */
static bool goes_within_group(Ctx *ctx, const Contraction *c, Expr *e, const Iter *it)
{
	Affine a;

	if (!ex_affine(ctx, e, &a) || !dim_equals(affine_coef(ctx, &a, it), 1))
		return false;
	for (int i = 0; i < a.n; i++) {
		bool group = a.iter[i] == it;

		for (int j = 0; j < c->ng; j++)
			group = group || (c->g[j] == a.iter[i] && a.coef[i] == it->extent);
		if (!group)
			return false;
	}
	return true;
}

/* The innermost dim of the result whose index contains an iterator of IT. */
static int innermost(Ctx *ctx, const Contraction *c, Iter *const *it, int n)
{
	const Stmt *s = c->s;
	int best = -1;

	for (int i = 0; i < s->nwidx; i++)
		for (int j = 0; j < n; j++)
			if (buf_axis(s->out[0], i) > best &&
			    (index_goes_along(ctx, s->widx[i], it[j]) ||
			     goes_within_group(ctx, c, s->widx[i], it[j])))
				best = buf_axis(s->out[0], i);
	return best;
}

typedef struct AxisOf {
	const Iter *it;
	int axis;
} AxisOf;

static void axis_of(void *arg, Expr *e)
{
	AxisOf *a = arg;

	if (e->kind != EX_LOAD || a->axis >= 0)
		return;
	for (int d = 0; d < e->load.nidx; d++)
		if (expr_has_iter(e->load.idx[d], a->it) && buf_axis(e->load.buf, d) > a->axis)
			a->axis = buf_axis(e->load.buf, d);
}

/* Orders k as the sum reads A in memory. */
static void sort_k(Contraction *c)
{
	int axis[MAX_ITERS];

	for (int i = 0; i < c->nk; i++) {
		AxisOf a = {c->k[i], -1};
		Iter *it = c->k[i];
		int j = i;

		ex_walk(c->a, axis_of, &a);
		for (; j > 0 && axis[j - 1] > a.axis; j--) {
			axis[j] = axis[j - 1];
			c->k[j] = c->k[j - 1];
		}
		axis[j] = a.axis;
		c->k[j] = it;
	}
}

/* stmt_contraction, but the factors may fault. */
static bool find_factors(Kernel *k, Stmt *s, Contraction *c)
{
	Expr *t;

	*c = (Contraction){.s = s};
	if (s->red != MONOID_sum || s->scan || s->update || s->nout != 1 || s->nband == s->niters)
		return false;
	t = s->val[0];
	if (t->kind != EX_INST || t->op.inst != IN_mul || t->ct == CT_BOOL)
		return false;
	c->a = t->op.arg[0];
	c->b = t->op.arg[1];
	c->ct = t->ct;
	for (int i = 0; i < s->niters; i++) {
		Iter *it = s->iter[i];
		int side = (expr_has_iter(c->a, it) ? IN_A : 0) |
			   (expr_has_iter(c->b, it) ? IN_B : 0);

		if (i >= s->nband)
			c->k[c->nk++] = it;
		else if (stmt_is_phase(k->ctx, s, it))
			c->g[c->ng++] = it;
		else if (side == IN_A)
			c->m[c->nm++] = it;
		else if (side == IN_B)
			c->n[c->nn++] = it;
		else if (side == (IN_A | IN_B))
			c->g[c->ng++] = it;
		else
			return false;
	}
	/* Without both m and n no element is reused, so tiles gain nothing and the row strategy is
	 * better. The exception is a factor that does not depend on the band at all. */
	if (!c->nn && !c->nm)
		return false;
	if (innermost(k->ctx, c, c->m, c->nm) > innermost(k->ctx, c, c->n, c->nn))
		contraction_swap(c);
	if (!c->nn)
		return false;
	sort_k(c);
	return !s->guard || split_guard(k, c, s->guard);
}

bool stmt_contraction(Kernel *k, Stmt *s, Contraction *c)
{
	return find_factors(k, s, c) && !expr_can_fault(c->a) && !expr_can_fault(c->b);
}

typedef struct Matrices {
	const Contraction *c;
	int columns; /* iterators of n on which no fault depends */
	bool ok;
} Matrices;

static void see_index(void *arg, Expr *e)
{
	Matrices *m = arg;
	int columns = 0;

	if (e->kind != EX_INST || !inst_may_fault(e->op.inst))
		return;
	for (int i = 0; i < m->c->nn; i++)
		columns += !expr_has_iter(e, m->c->n[i]);
	m->columns = columns < m->columns ? columns : m->columns;
	m->ok = m->ok && !expr_has_any(e, m->c->k, m->c->nk);
}

bool contraction_gathers(const Contraction *c, Expr *b)
{
	Matrices m = {c, c->nn, b->kind == EX_LOAD};

	ex_walk(b, see_index, &m);
	return m.ok && m.columns;
}

bool stmt_gathered_product(Kernel *k, Stmt *s, Contraction *c)
{
	return find_factors(k, s, c) && !c->nm && !s->guard && !expr_can_fault(c->a) &&
	       contraction_gathers(c, c->b);
}

/* ---- Classification of statements ---- */

/* Maps may have guards if they follow a product, or if MASKED. */
static FormKind kind_of(Kernel *k, int first, int last, bool masked)
{
	FormKind kind = FORM_MAP;

	for (int i = first; i <= last; i++) {
		Stmt *s = k->stmts.at[i];
		Contraction ct;

		if (s->ordered || s->scan || s->update || (!s->red && s->nout != 1))
			return FORM_ORDER;
		if (s->red && i == first && stmt_contraction(k, s, &ct))
			kind = FORM_CONTRACTION;
		else if (s->red)
			kind = kind == FORM_CONTRACTION ? FORM_ORDER : FORM_ROW;
		else if (s->guard && !masked && kind != FORM_CONTRACTION)
			return FORM_ORDER;
		if (kind == FORM_ORDER)
			return kind;
	}
	return kind;
}

FormKind stmts_kind(Kernel *k, int first, int last)
{
	return kind_of(k, first, last, false);
}

bool kernel_is_maps(Kernel *k)
{
	return kind_of(k, 0, k->stmts.n - 1, true) == FORM_MAP;
}

FormKind kernel_kind(Kernel *k)
{
	return stmts_kind(k, 0, k->stmts.n - 1);
}
