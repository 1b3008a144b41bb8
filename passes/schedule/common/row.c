/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that the row strategies of CPUs and GPUs share: the statements of one stage under their
 * common band, and how an iterator, an index or a temporary of the kernel is expressed inside it.
 */
#include "passes/schedule/common/row.h"

Row row_new(LBuild *b, int first, int last, const Band *band)
{
	const int n = b->k->bufs.n;

	return (Row){.b = b,
		     .k = b->k,
		     .band = band,
		     .first = first,
		     .last = last,
		     .s = b->k->stmts.at[first],
		     .vec = -1,
		     .tile = -1,
		     .local = NEW_ARRAY(b->arena, n + 1, Buf *),
		     .keep = arena_array(b->arena, (size_t)n + 1, sizeof(Keep[MAX_RANK])),
		     .nlocal = n};
}

void row_begin(Row *r, Stmt *s)
{
	r->s = s;
	l_of(r->b, s);
}

Layout *row_layout_with_inner(Arena *a, int n, int inner)
{
	Layout *l = NEW(a, Layout);

	for (int i = 0; i < n; i++)
		if (i != inner)
			l->ax[l->n++] = (LayoutAxis){.dim = i};
	l->ax[l->n++] = (LayoutAxis){.dim = inner};
	return l;
}

static bool used_outside(const Row *r, const Buf *t)
{
	for (int i = 0; i < r->k->stmts.n; i++)
		if ((i < r->first || i > r->last) &&
		    (stmt_reads(r->k->stmts.at[i], t) || stmt_writes(r->k->stmts.at[i], t)))
			return true;
	return false;
}

bool row_keeps(const Row *r, const Buf *t)
{
	return t->kind == BUF_TEMP && !t->data && !used_outside(r, t);
}

bool row_may_be_local(const Row *r, const Stmt *s, const Buf *t)
{
	int writers = 0;

	for (int i = r->first; i <= r->last; i++)
		writers += stmt_writes(r->k->stmts.at[i], t);
	return row_keeps(r, t) && !r->local[t->id] && writers == 1 && !s->update && !s->ordered;
}

static void local_index(Row *r, const Buf *t, Expr *const *idx, Expr **out)
{
	int n = 0;

	for (int i = 0; i < t->rank; i++) {
		int d = buf_memory_dim(t, i);

		if (r->keep[t->id][d] == KEEP_ALL)
			out[n++] = idx[d];
		else if (r->keep[t->id][d] == KEEP_ROWS)
			out[n++] = r->row_at;
		else if (r->keep[t->id][d] != KEEP_NOT)
			out[n++] = ex_sub(r->k->pool, idx[d],
					  r->keep[t->id][d] == KEEP_TILE ? r->tlo : r->v0);
	}
}

int64_t row_taps(const Stmt *s)
{
	int64_t taps = 1, n;

	if (!s->red || s->scan || s->update || s->nband == s->niters || monoid_info[s->red].n != 1)
		return 0;
	for (int i = s->nband; i < s->niters; i++) {
		if (!dim_is_const(s->iter[i]->extent, &n) || n < 1 || n > MOST_TAPS)
			return 0;
		taps *= n;
	}
	return taps;
}

/* ---- Expressions of a statement in terms of the stage's iterators, in flat memory ---- */

/* Loads are made flat before iterators are replaced: only in a flat index can a merged iterator
 * stand for all that it was merged from. */
Expr *row_placed(Row *r, Expr *e)
{
	ExprPool *p = r->k->pool;

	EX_MAP (x, p, &e) {
		Expr *idx[MAX_RANK], *at;
		Buf *b = x->load.buf;

		if (x->kind != EX_LOAD)
			continue;
		memcpy(idx, x->load.idx, (size_t)x->load.nidx * sizeof *idx);
		if (b->id < r->nlocal && r->local[b->id]) {
			local_index(r, b, x->load.idx, idx);
			b = r->local[b->id];
		}
		at = flat_index(r->k, b, idx);
		x = ex_load(p, b, &at, 1);
	}
	EX_MAP (x, p, &e) {
		const int b = x->kind == EX_ITER ? band_index(r->band, r->s, x->iter) : -1;

		x = b >= 0 ? r->as[b] : x;
	}
	return e;
}

Expr *row_write_index(Row *r, Stmt *s, int k, Buf **out)
{
	Expr *idx[MAX_RANK];
	Buf *t = s->out[k];

	memcpy(idx, s->widx, (size_t)s->nwidx * sizeof *idx);
	if (t->id < r->nlocal && r->local[t->id]) {
		local_index(r, t, s->widx, idx);
		t = r->local[t->id];
	}
	*out = t;
	return row_placed(r, flat_index(r->k, t, idx));
}

void row_does(Row *r, LNode *n, const Stmt *s, LPart part, int nat, Expr *const *red)
{
	Expr *at[MAX_ITERS];

	for (int i = 0; i < nat; i++) {
		const int b = band_index(r->band, s, s->iter[i]);

		at[i] = b >= 0                 ? r->pos[b]
			: red && i >= s->nband ? red[i - s->nband]
					       : ex_iter(r->k->pool, s->iter[i]);
	}
	l_does(r->b, n, part, at, nat);
}

/* ---- Band iterators that run through memory as one ---- */

/* Some index of S's write combines IT with other iterators. A local would keep that dim whole, for
 * one value of the iterators around it. */
static bool index_mixes(const Stmt *s, const Iter *it)
{
	for (int d = 0; d < s->nwidx; d++)
		if (s->widx[d]->kind != EX_ITER && expr_has_iter(s->widx[d], it))
			return true;
	return false;
}

bool row_joins(Row *r, int out, int in, Dim *extent)
{
	for (int i = r->first; i <= r->last; i++) {
		Stmt *s = r->k->stmts.at[i];
		Pair p = {r->k, r->band->of[i][out], r->band->of[i][in], extent, NULL};

		if (!pair_absent(&p, s->guard) ||
		    !pair_steps(&p, flat_index(r->k, s->out[0], s->widx)))
			return false;
		if (s->out[0]->kind == BUF_TEMP && (index_mixes(s, p.out) || index_mixes(s, p.in)))
			return false;
		for (int o = 0; o < monoid_info[s->red].n || !o; o++)
			if (!pair_joins(&p, s->val[o]))
				return false;
	}
	return true;
}

int row_merge_band(Row *r, Merged *g)
{
	Ctx *c = r->k->ctx;
	int n = r->band->n;
	bool changed = r->tile < 0;

	for (int b = 0; b < n; b++)
		g[b] = (Merged){{b}, 1, r->band->iter[b]->extent};
	while (changed) {
		changed = false;
		for (int i = 0; i < n && !changed; i++)
			for (int j = 0; j < n && !changed; j++) {
				if (i == j || g[i].of[g[i].n - 1] == r->vec ||
				    !row_joins(r, g[i].of[g[i].n - 1], g[j].of[g[j].n - 1],
					       g[j].extent))
					continue;
				for (int x = 0; x < g[j].n; x++)
					g[i].of[g[i].n++] = g[j].of[x];
				g[i].extent = dim_mul(c, g[i].extent, g[j].extent);
				g[j] = g[i];
				for (int x = i; x + 1 < n; x++)
					g[x] = g[x + 1];
				n--;
				changed = true;
			}
	}
	return n;
}

void row_stage_iters(Row *r, const Merged *g, int n)
{
	ExprPool *p = r->k->pool;

	for (int i = 0; i < n; i++) {
		int last = g[i].of[g[i].n - 1];
		Iter *it = l_iter(r->b, r->band->iter[last]->name, g[i].extent);
		Expr *at = ex_iter(p, it);

		for (int x = g[i].n - 1; x >= 0; x--) {
			int b = g[i].of[x];
			Expr *extent = ex_dim(p, r->band->iter[b]->extent);

			r->rep[b] = it;
			r->as[b] = b == last ? ex_iter(p, it) : l_int(r->b, 0);
			r->pos[b] = x ? ex_op2(p, IN_mod, at, extent) : at;
			r->fixed[b] = b != r->vec && b != r->tile;
			at = x ? ex_op2(p, IN_floordiv, at, extent) : at;
		}
	}
}
