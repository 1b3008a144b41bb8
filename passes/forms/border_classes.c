/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Border classes of a stencil. The guard drops terms outside of the image, which happens only at
 * positions near the edges. Along an iterator there are a few positions at the start and at the
 * end, and all positions between them sum every term: a convolution of 3 with pads of 1 has 1 + 1 +
 * 1 classes. A table by class is small; a table by position would be as large as an image.
 *
 * The guard's conditions have the form f >= 0 with f affine. Each holds for all terms from some
 * position onwards, or up to some position.
 */
#include "passes/forms/algebra.h"

/* Whether E has the form F >= 0. */
static bool as_affine(Ctx *c, Expr *e, Affine *f)
{
	static const struct {
		Inst inst;
		int less, more; /* the operands of E, which says more - less - STRICT >= 0 */
		int strict;
	} form[] = {{IN_ge, 1, 0, 0}, {IN_le, 0, 1, 0}, {IN_gt, 1, 0, 1}, {IN_lt, 0, 1, 1}};
	Affine less;

	for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
		if (!ex_is_op(e, form[i].inst) || e->op.arg[0]->ct != CT_I64 ||
		    !ex_affine(c, e->op.arg[form[i].more], f) ||
		    !ex_affine(c, e->op.arg[form[i].less], &less) || less.n + f->n > MAX_ITERS)
			continue;
		f->base = dim_sub(c, dim_sub(c, f->base, less.base), dim_const(c, form[i].strict));
		for (int j = 0; j < less.n; j++) {
			f->iter[f->n] = less.iter[j];
			f->coef[f->n++] = dim_sub(c, dim_const(c, 0), less.coef[j]);
		}
		return true;
	}
	return false;
}

/* Sets *LEAST to the minimum over the terms of F without its term of IT, and *STEP to IT's
 * coefficient. */
static bool least(Ctx *c, const Stmt *s, const Affine *f, const Iter *it, Dim **out, int64_t *step)
{
	const Dim *along = affine_coef(c, f, it);

	*out = f->base;
	for (int i = 0; i < f->n; i++) {
		Dim *last = dim_sub(c, f->iter[i]->extent, dim_const(c, 1));
		int64_t by;

		if (f->iter[i] == it)
			continue;
		for (int j = 0; j < s->nband; j++)
			if (s->iter[j] == f->iter[i])
				return false;
		if (!dim_is_const(f->coef[i], &by))
			return false;
		if (by < 0)
			*out = dim_add(c, *out, dim_mul(c, f->coef[i], last));
	}
	return dim_is_const(along, step) && *step;
}

static bool look_at_term(Ctx *c, const Stmt *s, Expr *e, const Iter *it, BorderClasses *p)
{
	Affine f;
	Dim *rest, *last = dim_sub(c, it->extent, dim_const(c, 1));
	int64_t step;

	if (ex_is_op(e, IN_and) && e->ct == CT_BOOL)
		return look_at_term(c, s, e->op.arg[0], it, p) &&
		       look_at_term(c, s, e->op.arg[1], it, p);
	if (!expr_has_iter(e, it))
		return true;
	if (!as_affine(c, e, &f) || !least(c, s, &f, it, &rest, &step))
		return false;
	if (step > 0)
		p->first = dim_max(
			c, p->first,
			dim_ceildiv(c, dim_sub(c, dim_const(c, 0), rest), dim_const(c, step)));
	else
		p->last = dim_max(c, p->last,
				  dim_sub(c, last, dim_floordiv(c, rest, dim_const(c, -step))));
	return true;
}

bool border_classes(Ctx *c, const Stmt *s, Iter *it, BorderClasses *out)
{
	int64_t n, points;

	*out = (BorderClasses){.it = it, .first = dim_const(c, 0), .last = dim_const(c, 0)};
	if (!s->guard || !look_at_term(c, s, s->guard, it, out))
		return false;
	out->n = dim_add(c, dim_add(c, out->first, out->last), dim_const(c, 1));
	return !dim_is_const(out->n, &n) || !dim_is_const(it->extent, &points) || n < points;
}

/* The last point of the middle class; if that class is empty, the first point after the classes at
 * the start. */
static Dim *end(Ctx *c, const BorderClasses *l)
{
	Dim *last = dim_sub(c, l->it->extent, dim_const(c, 1));

	return dim_max(c, dim_sub(c, last, l->last), l->first);
}

Expr *border_class_of(ExprPool *p, const BorderClasses *l, Expr *at)
{
	Expr *after = ex_op2(p, IN_sub, at, ex_dim(p, end(expr_ctx(p), l))),
	     *zero = ex_int(p, CT_I64, 0);

	return ex_add(p,
		      dim_equals(l->first, 0) ? zero : ex_op2(p, IN_min, at, ex_dim(p, l->first)),
		      dim_equals(l->last, 0) ? zero : ex_op2(p, IN_max, after, zero));
}

Expr *point_of_border_class(ExprPool *p, const BorderClasses *l, Expr *number)
{
	Dim *between = dim_sub(expr_ctx(p), end(expr_ctx(p), l), l->first);

	if (dim_equals(l->last, 0))
		return number;
	return ex_op3(p, IN_select, ex_op2(p, IN_le, number, ex_dim(p, l->first)), number,
		      ex_add(p, number, ex_dim(p, between)));
}
