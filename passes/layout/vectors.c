/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses which operand of a product is vectorised on a CPU. The innermost dim of its sums, which
 * are in registers, determines that (stmt_contraction). If the other operand is constant and the
 * epilogue stores pixels contiguously, pixels are vectorised, provided that they are also
 * contiguous where they are read. Otherwise vectors of pixels would be gathered, once for each
 * term, and scattering the results costs less.
 */
#include "passes/layout/layout_impl.h"
#include "passes/forms/form.h"

enum {
	/* The largest distance of a vector's pixels, in elements, for which it is loaded without a
	 * gather: two loads and a shuffle. */
	NEAR = 2
};

int layout_stored_dim(Kernel *k, const Buf *sums, const Buf **out)
{
	int dim = -1;

	*out = sums;
	if (sums->kind != BUF_TEMP)
		return buf_innermost(sums);
	for (int i = 1; i < k->stmts.n; i++) {
		Stmt *s = k->stmts.at[i];
		const int last = buf_innermost(s->out[0]);

		if (s->out[0]->kind != BUF_OUT || s->red || last < 0 ||
		    s->widx[last]->kind != EX_ITER)
			continue;
		*out = s->out[0];
		STMT_EACH_LOAD (x, s)
			for (int d = 0; x->load.buf == sums && d < x->load.nidx; d++)
				if (expr_has_iter(x->load.idx[d], s->widx[last]->iter))
					dim = d;
	}
	return dim;
}

/* Index E goes once over all elements of a dim of EXTENT: it is an iterator of S, or a group and a
 * channel in the group. */
static bool covers(Kernel *k, const Stmt *s, Expr *e, Dim *extent)
{
	Iter *hi, *lo;

	if (e->kind == EX_ITER || dim_equals(extent, 1))
		return true;
	return expr_divmod(k->ctx, e, extent, &hi, &lo) && !stmt_is_phase(k->ctx, s, lo);
}

/* Lets K, which is only a product that writes *ACC, compute a temporary and copy it to the result.
 * False if K does not write all elements once. */
static bool sums_apart(Kernel *k, Buf **acc)
{
	Stmt *s = k->stmts.at[0];
	Buf *out = *acc;
	Iter *it[MAX_ITERS];
	Expr *at[MAX_ITERS], *idx[MAX_RANK];

	for (int d = 0; d < s->nwidx; d++)
		if (!covers(k, s, s->widx[d], out->dims[d]))
			return false;
	if (k->stmts.n > 1)
		return false;
	*acc = kernel_temp(k, "acc", out->dtype, out->rank, out->dims);
	(*acc)->id = k->bufs.n - 1;
	s->out[0] = *acc;
	for (int i = 0; i < s->nband; i++) {
		it[i] = kernel_iter(k, s->iter[i]->name, s->iter[i]->extent);
		at[i] = ex_iter(k->pool, it[i]);
	}
	for (int d = 0; d < s->nwidx; d++)
		idx[d] = ex_subst_iters(k->pool, s->widx[d], s->iter, at, s->nband);
	kernel_map(k, it, s->nband, out, idx, kernel_load(k, *acc, idx), NULL);
	kernel_drop_unit_iters(k);
	return true;
}

/* Some m iterator of CT changes E by at most NEAR. */
static bool steps_near(Ctx *c, Expr *e, const Contraction *ct)
{
	int64_t step;
	Affine a;

	if (!ex_affine(c, e, &a))
		return false;
	for (int i = 0; i < ct->nm; i++)
		if (dim_is_const(affine_coef(c, &a, ct->m[i]), &step) && step > 0 && step <= NEAR)
			return true;
	return false;
}

/* The factor E of CT reads pixels that are near one another at adjacent points. */
static bool reads_near(Ctx *c, const Contraction *ct, Expr *e)
{
	EX_EACH_LOAD (x, e) {
		const int last = buf_innermost(x->load.buf);

		if (last >= 0 && !steps_near(c, x->load.idx[last], ct))
			return false;
	}
	return true;
}

void layout_vectors(Module *m, Node *n)
{
	Kernel *k = node_kernel(n);
	Form f = form_of_stmt(k, k->stmts.at[0]);
	Contraction ct = f.c;
	Buf *acc = k->stmts.at[0]->out[0];
	const Buf *out;
	int stored, dim;

	if (f.kind != FORM_CONTRACTION)
		return;
	if (expr_is_weights(m, n, ct.a))
		contraction_swap(&ct);
	stored = layout_stored_dim(k, acc, &out);
	if (!expr_is_weights(m, n, ct.b) || !ct.nm || !ct.nn || stored < 0 ||
	    !product_has_columns(k, &ct, false))
		return;
	dim = layout_dim_along(m->ctx, ct.s->widx, ct.s->nwidx, ct.n, ct.nn, ct.m, ct.nm);
	if (expr_has_any(ct.s->widx[stored], ct.m, ct.nm) &&
	    (layout_size(ct.n, ct.nn) > layout_size(ct.k, ct.nk) || reads_near(m->ctx, &ct, ct.a)))
		dim = stored;
	if (dim < 0 || (acc->kind != BUF_TEMP && (dim == stored || !sums_apart(k, &acc))))
		return;
	acc->layout = NULL;
	if (dim != acc->rank - 1)
		acc->layout = layout_permuted(m->ctx,
					      type_tensor(m->ctx, acc->dtype, acc->rank, acc->dims),
					      dim)
				      ->layout;
	form_changed(m, n);
}
