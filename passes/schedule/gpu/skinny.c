/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Skinny products on GPUs: matrix products of few rows (GEMV). Their cost is that of reading the
 * matrix, so the thread that reads a part of the matrix computes all rows with it: a block of
 * columns (passes/schedule/gpu/columns_reduce.c), or a thread group with a row of the matrix
 * (passes/schedule/gpu/group.c). The number of rows need not be known when compiling; a variant's
 * guard says that they are few. Matrices in the order of fragments are read by tiles
 * (gemm_choose.c).
 */
#include "passes/forms/form.h"
#include "passes/schedule/gpu/gpu_impl.h"

enum { MOST_ROWS = 8 };

bool gpu_skinny_along(Kernel *k, const Contraction *c)
{
	EX_EACH_LOAD (e, c->b) {
		Affine a;

		if (!ex_affine(k->ctx, flat_index(k, e->load.buf, e->load.idx), &a))
			continue;
		for (int i = 0; i < c->nk; i++)
			if (dim_equals(affine_coef(k->ctx, &a, c->k[i]), 1))
				return true;
	}
	return false;
}

bool gpu_is_skinny(const SkinnyRows *f, int b)
{
	for (int i = 0; i < f->n; i++)
		if (f->of[i] == b)
			return true;
	return false;
}

void gpu_skinny_rows(const Schedule *s, Kernel *k, int first, const Band *band, SkinnyRows *skinny)
{
	const Form f = form_of_stmt(k, k->stmts.at[first]);

	*skinny = (SkinnyRows){.rows = dim_const(k->ctx, 1)};
	if (f.kind != FORM_CONTRACTION)
		return;
	for (int b = 0; b < band->n; b++)
		for (int i = 0; i < f.c.nm; i++)
			if (band->of[first][b] == f.c.m[i]) {
				skinny->of[skinny->n++] = b;
				skinny->rows = dim_mul(k->ctx, skinny->rows, f.c.m[i]->extent);
			}
	skinny->most = gpu_most(s, skinny->rows);
	if (skinny->n != f.c.nm || skinny->most > MOST_ROWS)
		skinny->n = 0;
	skinny->along = gpu_skinny_along(k, &f.c);
}

void gpu_skinny_place(Row *r, const SkinnyRows *f, Expr *as, Expr *flat)
{
	ExprPool *p = r->k->pool;
	Dim *inner = r->band->iter[f->of[f->n - 1]]->extent;
	Iter *it[MAX_ITERS];
	Expr *pos[MAX_ITERS], *at[MAX_ITERS];
	bool joined = true;

	for (int i = f->n - 1; i > 0 && joined; i--) {
		joined = row_joins(r, f->of[i - 1], f->of[i], inner);
		inner = dim_mul(r->k->ctx, inner, r->band->iter[f->of[i - 1]]->extent);
	}
	for (int i = 0; i < f->n; i++)
		it[i] = r->band->iter[f->of[i]];
	iters_split(p, it, f->n, flat, pos);
	iters_split(p, it, f->n, as, at);
	for (int i = 0; i < f->n; i++) {
		r->pos[f->of[i]] = pos[i];
		r->as[f->of[i]] = !joined ? at[i] : i + 1 < f->n ? ex_int(p, CT_I64, 0) : as;
	}
}
