/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divmod: splits a dim of a temporary into two dims if its index is x*E + y. Suppose one statement
 * writes the dim at all x*E + y, and later statements read it along a single iterator. Then the
 * statements have no common band. In a grouped convolution, for instance, the group and the channel
 * in the group index the result, but only the channel indexes the bias. The pass gives the
 * temporary both dims, and the readers both iterators:
 *
 *     acc[g*4 + o] = sum ...      y[c] = acc[c] + b[c]
 *     acc[g,o] = sum ...          y[g*4 + o] = acc[g,o] + b[g*4 + o]
 *
 * Phases of a sum (stmt_is_phase) keep their flat index, which shows that phases share no terms.
 */
#include "passes/forms/form.h"
#include "passes/forms/inline.h"

typedef struct DivModSplit {
	Kernel *k;
	Buf *b, *to; /* the temporary, and the new one with both dims */
	int dim;
	Iter *hi, *lo; /* of the current statement: the dim's index is hi*EXTENT + lo */
	Dim *extent;
} DivModSplit;

/* ---- Readers ---- */

/* Whether LOAD of S indexes the dim by one iterator, or by the same div/mod split. */
static bool may_read(const DivModSplit *d, const Stmt *s, const Expr *load)
{
	Expr *e = load->load.nidx == d->b->rank ? load->load.idx[d->dim] : NULL;
	Iter *hi, *lo;

	if (e && e->kind == EX_ITER)
		return iter_among(e->iter, s->iter, s->niters) &&
		       e->iter->extent == d->b->dims[d->dim];
	return e && expr_divmod(d->k->ctx, e, d->b->dims[d->dim], &hi, &lo) &&
	       lo->extent == d->extent;
}

/* Whether B's layout splits dims into blocks; other layouts only permute dims. */
static bool has_blocks(const Buf *b)
{
	for (int i = 0; b->layout && i < b->layout->n; i++)
		if (b->layout->ax[i].div || b->layout->ax[i].mod)
			return true;
	return false;
}

static bool may_split(const DivModSplit *d, const Stmt *writer)
{
	if (d->b->kind != BUF_TEMP || d->b->data || has_blocks(d->b) || d->b->rank >= MAX_RANK)
		return false;
	VEC_EACH (s, &d->k->stmts) {
		if (s == writer)
			continue;
		if (stmt_writes(s, d->b) ||
		    (stmt_reads(s, d->b) && (s->red || s->ordered || 2 * s->niters >= MAX_ITERS)))
			return false;
		STMT_EACH_LOAD (x, s)
			if (x->load.buf == d->b && !may_read(d, s, x))
				return false;
	}
	return true;
}

/* ---- Splitting ---- */

/* The N indices IDX, with HI and LO in place of the index of dim AT. */
static Expr **with_divmod(Kernel *k, Expr *const *idx, int n, int at, Expr *hi, Expr *lo)
{
	Expr **r = NEW_ARRAY(k->arena, n + 1, Expr *);

	for (int i = 0; i <= n; i++)
		r[i] = i == at ? hi : i == at + 1 ? lo : idx[i < at ? i : i - 1];
	return r;
}

/* The iterator by which S indexes the dim, or null. */
static Iter *along(const DivModSplit *d, const Stmt *s)
{
	Iter *it = NULL;

	STMT_EACH_LOAD (x, s)
		if (x->load.buf == d->b && x->load.idx[d->dim]->kind == EX_ITER)
			it = x->load.idx[d->dim]->iter;
	return it;
}

static Expr *recombined(DivModSplit *d)
{
	ExprPool *p = d->k->pool;

	return ex_add(p, ex_mul(p, ex_iter(p, d->hi), ex_dim(p, d->extent)), ex_iter(p, d->lo));
}

/* Replaces S's iterator IT by two iterators. */
static void split_iter(DivModSplit *d, Stmt *s, Iter *it)
{
	Dim *many = dim_floordiv(d->k->ctx, it->extent, d->extent);
	int at = 0;
	Expr *is;

	d->hi = kernel_iter(d->k, arena_printf(d->k->arena, "%s_hi", it->name), many);
	d->lo = kernel_iter(d->k, arena_printf(d->k->arena, "%s_lo", it->name), d->extent);
	is = recombined(d);
	stmt_subst_iters(d->k, s, &it, &is, 1);
	while (s->iter[at] != it)
		at++;
	memmove(&s->iter[at + 1], &s->iter[at], (size_t)(s->niters - at) * sizeof *s->iter);
	s->iter[at] = d->hi;
	s->iter[at + 1] = d->lo;
	s->niters++;
	s->nband++;
}

/* B's layout with two axes in place of the dim's axis. Null (row-major) if the inner dim would be
 * innermost in memory and is short. */
static const Layout *layout_split(const DivModSplit *d)
{
	const Layout *was = d->b->layout;
	Layout *l;
	int64_t n;

	if (!was ||
	    (was->ax[was->n - 1].dim == d->dim && dim_is_const(d->extent, &n) && n < GEMM_ROWS))
		return NULL;
	l = NEW(d->k->arena, Layout);
	for (int i = 0; i < was->n; i++) {
		LayoutAxis ax = was->ax[i];
		const bool here = ax.dim == d->dim;

		ax.dim += ax.dim > d->dim;
		l->ax[l->n++] = ax;
		ax.dim++;
		if (here)
			l->ax[l->n++] = ax;
	}
	return l;
}

static void split_dim(DivModSplit *d, Stmt *writer)
{
	Kernel *k = d->k;
	Buf *b = d->b;
	Dim *dims[MAX_RANK];

	writer->widx = with_divmod(k, writer->widx, writer->nwidx, d->dim, ex_iter(k->pool, d->hi),
				   ex_iter(k->pool, d->lo));
	writer->nwidx++;
	for (int i = 0; i < k->stmts.n; i++) {
		Iter *it;

		while ((it = along(d, k->stmts.at[i])))
			split_iter(d, k->stmts.at[i], it);
	}
	for (int i = 0; i <= b->rank; i++)
		dims[i] = i == d->dim       ? dim_floordiv(k->ctx, b->dims[i], d->extent)
			  : i == d->dim + 1 ? d->extent
					    : b->dims[i < d->dim ? i : i - 1];
	d->to = kernel_temp(k, b->name, b->dtype, b->rank + 1, dims);
	d->to->layout = layout_split(d);
	writer->out[0] = d->to;
	for (int i = 0; i < k->stmts.n; i++)
		STMT_MAP (e, k, k->stmts.at[i]) {
			Iter *hi, *lo;
			Expr **idx;

			if (e->kind != EX_LOAD || e->load.buf != b)
				continue;
			expr_divmod(k->ctx, e->load.idx[d->dim], b->dims[d->dim], &hi, &lo);
			idx = with_divmod(k, e->load.idx, e->load.nidx, d->dim,
					  ex_iter(k->pool, hi), ex_iter(k->pool, lo));
			e = ex_load(k->pool, d->to, idx, d->to->rank);
		}
}

/* False if K has no such dims. */
static bool split_dims(Kernel *k)
{
	bool any = false;

	VEC_EACH (s, &k->stmts) {
		for (int dim = 0; dim < s->nwidx && s->nout == 1 && !s->update; dim++) {
			DivModSplit d = {.k = k, .b = s->out[0], .dim = dim};

			if (s->nwidx != d.b->rank ||
			    !expr_divmod(k->ctx, s->widx[dim], d.b->dims[dim], &d.hi, &d.lo))
				continue;
			d.extent = d.lo->extent;
			if (stmt_is_phase(k->ctx, s, d.lo) || !may_split(&d, s))
				continue;
			split_dim(&d, s);
			any = true;
		}
	}
	if (!any)
		return false;
	kernel_inline(k);
	kernel_mark_used(k);
	return true;
}

/* On CPUs the statements would loop over both dims, so the split is only done if it yields a matrix
 * product. */
static bool makes_product(Module *m, Node *n)
{
	Kernel *k = node_kernel(n), *split = kernel_clone(k, k->arena);

	return !module_form(m, n)->tiled && split_dims(split) && product_is_whole(split);
}

bool pass_divmod(Module *m)
{
	for (Node *n = m->graph->first; n; n = n->next)
		if (module_schedules(m, n) &&
		    (module_on_gpu(m) || makes_product(m, n))) {
			split_dims(node_kernel(n));
			form_changed(m, n);
		}
	return true;
}
