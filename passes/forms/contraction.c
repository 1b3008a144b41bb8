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

/* If a guard that depends only on k fails, an operand may be read without the guard only if its
 * indices stay inside its buffers. */
static bool needs_guard(Expr *e)
{
	EX_EACH_LOAD (x, e)
		for (int d = 0; d < x->load.nidx; d++) {
			const Expr *i = x->load.idx[d];

			if (i->kind == EX_ITER ? i->iter->extent != x->load.buf->dims[d]
					       : i->kind != EX_CONST || i->i)
				return true;
		}
	return false;
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

bool contraction_slides(const Contraction *c, Expr *e)
{
	EX_EACH_LOAD (x, e)
		for (int d = 0; d < x->load.nidx; d++)
			if (stmt_index_slides(c->s, x->load.idx[d]))
				return true;
	return false;
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

/* The innermost axis along IT of the first load of E that has one; -1: none has. */
static int axis_of(Expr *e, const Iter *it)
{
	EX_EACH_LOAD (x, e) {
		int axis = -1;

		for (int d = 0; d < x->load.nidx; d++)
			if (expr_has_iter(x->load.idx[d], it) && buf_axis(x->load.buf, d) > axis)
				axis = buf_axis(x->load.buf, d);
		if (axis >= 0)
			return axis;
	}
	return -1;
}

/* Orders k as the sum reads A in memory. */
static void sort_k(Contraction *c)
{
	int axis[MAX_ITERS];

	for (int i = 0; i < c->nk; i++) {
		Iter *it = c->k[i];
		const int at = axis_of(c->a, it);
		int j = i;

		for (; j > 0 && axis[j - 1] > at; j--) {
			axis[j] = axis[j - 1];
			c->k[j] = c->k[j - 1];
		}
		axis[j] = at;
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

bool contraction_gathers(const Contraction *c, Expr *b)
{
	int columns = c->nn; /* iterators of n on which no fault depends */

	EX_EACH (e, b) {
		int without = 0;

		if (e->kind != EX_INST || !inst_may_fault(e->op.inst))
			continue;
		for (int i = 0; i < c->nn; i++)
			without += !expr_has_iter(e, c->n[i]);
		columns = without < columns ? without : columns;
		if (expr_has_any(e, c->k, c->nk))
			return false;
	}
	return columns && b->kind == EX_LOAD;
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
