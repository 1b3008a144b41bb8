/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/band.h"

#include "base/sets.h"

/* Sets of iterators, from several statements, that must be the same iterator of the band. */
typedef struct Classes {
	Kernel *k;
	int first, last;      /* range of statements */
	int (*id)[MAX_ITERS]; /* id[s][i]: the member of SETS for iterator i of statement s */
	Sets sets;
	bool *blocked;
} Classes;

static void join(Classes *c, int a, int b)
{
	a = sets_find(c->sets, a);
	b = sets_find(c->sets, b);
	sets_join(c->sets, a, b);
	c->blocked[a] = c->blocked[a] || c->blocked[b];
}

static int node_of(Classes *c, const Stmt *s, const Iter *it)
{
	for (int i = 0; i < s->niters; i++)
		if (s->iter[i] == it)
			return c->id[s->id][i];
	return -1;
}

static bool in_band(const Stmt *s, const Iter *it)
{
	return iter_among(it, s->iter, s->nband);
}

/* The N indices IDX at which a statement accesses a buffer. In JOINED dims another access has an
 * iterator of the same class as index. */
typedef struct Indices {
	const Stmt *s;
	Expr *const *idx;
	int n;
	bool joined[2 * MAX_RANK];
} Indices;

/* An element that both accesses have in common has equal values of IT, an index in a joined dim. */
static bool is_joined(const Indices *x, const Iter *it)
{
	for (int d = 0; d < x->n; d++)
		if (x->joined[d] && x->idx[d]->kind == EX_ITER && x->idx[d]->iter == it)
			return true;
	return false;
}

/* Blocks the iterators that index dim D of X, except the joined ones. */
static void block(Classes *c, const Indices *x, int d)
{
	for (int i = 0; i < x->s->niters; i++)
		if (expr_has_iter(x->idx[d], x->s->iter[i]) && !is_joined(x, x->s->iter[i]))
			c->blocked[sets_find(c->sets, c->id[x->s->id][i])] = true;
}

/* Joins iterators if both writer and reader index dim D by the same div/mod split, hi*N + lo; AT is
 * the reader's index. */
static bool join_digits(Classes *c, const Stmt *writer, const Stmt *r, Expr *at, int d)
{
	Iter *w[2], *e[2];

	if (!expr_divmod(c->k->ctx, writer->widx[d], NULL, &w[0], &w[1]) ||
	    !expr_divmod(c->k->ctx, at, NULL, &e[0], &e[1]))
		return false;
	for (int i = 0; i < 2; i++)
		if (!in_band(writer, w[i]) || !in_band(r, e[i]) || w[i]->extent != e[i]->extent)
			return false;
	for (int i = 0; i < 2; i++)
		join(c, node_of(c, writer, w[i]), node_of(c, r, e[i]));
	return true;
}

/* R accesses what WRITER writes at the N indices IDX: joins the iterators of equal indices, and
 * blocks all others. */
static void join_access(Classes *c, const Stmt *writer, const Stmt *r, Expr *const *idx, int n)
{
	Indices at[2] = {{.s = writer, .idx = writer->widx, .n = n}, {.s = r, .idx = idx, .n = n}};

	for (int d = 0; d < n; d++) {
		const Expr *w = writer->widx[d], *e = idx[d];

		if (w->kind != EX_ITER || e->kind != EX_ITER || !in_band(writer, w->iter) ||
		    !in_band(r, e->iter) || w->iter->extent != e->iter->extent)
			continue;
		join(c, node_of(c, writer, w->iter), node_of(c, r, e->iter));
		at[0].joined[d] = at[1].joined[d] = true;
	}
	for (int d = 0; d < n; d++) {
		if (at[0].joined[d] ||
		    (writer->widx[d]->kind == EX_CONST && idx[d]->kind == EX_CONST) ||
		    (n == writer->out[0]->rank && join_digits(c, writer, r, idx[d], d)))
			continue;
		block(c, &at[0], d);
		block(c, &at[1], d);
	}
}

/* R reads what W writes, or updates it. */
static void join_pair(Classes *c, const Stmt *w, const Stmt *r)
{
	STMT_EACH_LOAD (x, r)
		if (stmt_writes(w, x->load.buf))
			join_access(c, w, r, x->load.idx, x->load.nidx);
	for (int i = 0; i < r->nout && r->update; i++)
		if (stmt_writes(w, r->out[i]))
			join_access(c, w, r, r->widx, r->nwidx);
}

/* ---- Statements that share no temporary ---- */

static bool same_class(Classes *c, const Stmt *s, const Stmt *q)
{
	for (int i = 0; i < s->nband; i++)
		for (int j = 0; j < q->nband; j++)
			if (sets_find(c->sets, c->id[s->id][i]) ==
			    sets_find(c->sets, c->id[q->id][j]))
				return true;
	return false;
}

static bool same_extents(const Stmt *s, const Stmt *q)
{
	for (int i = 0; i < s->nband; i++)
		if (i >= q->nband || s->iter[i]->extent != q->iter[i]->extent)
			return false;
	return s->nband && s->nband == q->nband;
}

/* If all statements are maps, two with the same domain may share their iterators although they
 * share no temporary. This pays if they read the same operand, as the maps of a transform do, each
 * of which computes one element. */
static void join_readers(Classes *c, Arena *a)
{
	const int n = c->last - c->first + 1;
	const Buf **reads = NEW_ARRAY(a, n, const Buf *);
	Stmt *const *stmt = c->k->stmts.at + c->first;

	for (int i = 0; i < n; i++) {
		if (!stmt_is_map(stmt[i]))
			return;
		STMT_EACH_LOAD (x, stmt[i])
			if (x->load.buf->kind == BUF_IN && x->load.nidx >= stmt[i]->nband)
				reads[i] = x->load.buf;
	}
	for (int i = 0; i < n; i++)
		for (int j = i + 1; j < n; j++)
			if (reads[i] && reads[i] == reads[j] && same_extents(stmt[i], stmt[j]) &&
			    !same_class(c, stmt[i], stmt[j]))
				for (int b = 0; b < stmt[i]->nband; b++)
					join(c, c->id[stmt[i]->id][b], c->id[stmt[j]->id][b]);
}

static int members(Classes *c, const Stmt *s, int cls, Iter **one)
{
	int n = 0;

	for (int i = 0; i < s->nband; i++)
		if (sets_find(c->sets, c->id[s->id][i]) == cls) {
			n++;
			*one = s->iter[i];
		}
	return n;
}

/* READERS: also joins statements by join_readers. */
static void find_band(Kernel *k, int first, int to, bool readers, Arena *a, Band *out)
{
	Classes c = {.k = k, .first = first, .last = to};
	Stmt *last = k->stmts.at[to];
	int at = 0;

	c.id = arena_array(a, (size_t)k->stmts.n, sizeof *c.id);
	c.sets = sets_new(a, k->stmts.n * MAX_ITERS);
	c.blocked = NEW_ARRAY(a, k->stmts.n * MAX_ITERS, bool);
	*out = (Band){.of = arena_array(a, (size_t)k->stmts.n, sizeof *out->of)};
	for (int s = 0; s < k->stmts.n; s++)
		for (int i = 0; i < k->stmts.at[s]->niters; i++, at++)
			c.id[s][i] = at;
	for (int r = first; r <= to; r++)
		for (int w = first; w <= to; w++)
			if (w != r)
				join_pair(&c, k->stmts.at[w], k->stmts.at[r]);
	if (readers)
		join_readers(&c, a);
	for (int i = 0; i < last->nband; i++) {
		int cls = sets_find(c.sets, c.id[last->id][i]);
		bool ok = !c.blocked[cls];

		for (int s = first; s <= to && ok; s++)
			ok = members(&c, k->stmts.at[s], cls, &out->of[s][out->n]) == 1;
		if (ok)
			out->iter[out->n++] = last->iter[i];
	}
}

void band_of_one(Kernel *k, Stmt *s, Band *out)
{
	*out = (Band){.of = arena_array(k->arena, (size_t)k->stmts.n, sizeof *out->of)};
	if (s->ordered || (s->update && s->nband == s->niters))
		return;
	for (int i = 0; i < s->nband; i++) {
		out->iter[out->n] = s->iter[i];
		out->of[s->id][out->n++] = s->iter[i];
	}
}

void band_of_some(Kernel *k, int first, int last, Arena *a, Band *out)
{
	find_band(k, first, last, false, a, out);
}

void band_of(Kernel *k, Arena *a, Band *out)
{
	band_of_some(k, 0, k->stmts.n - 1, a, out);
}

void band_of_stage(Kernel *k, Arena *a, Band *out)
{
	find_band(k, 0, k->stmts.n - 1, true, a, out);
}

int band_index(const Band *b, const Stmt *s, const Iter *it)
{
	for (int i = 0; i < b->n; i++)
		if (b->of[s->id][i] == it)
			return i;
	return -1;
}

static bool reduced_extent(Kernel *k, int first, int last, const Dim *extent)
{
	for (int s = first; s <= last; s++)
		for (int i = k->stmts.at[s]->nband; i < k->stmts.at[s]->niters; i++)
			if (k->stmts.at[s]->iter[i]->extent == extent)
				return true;
	return false;
}

bool band_is_rows(Kernel *k, int first, int last, const Band *b)
{
	for (int s = first; s <= last; s++)
		for (int i = 0; i < k->stmts.at[s]->nband; i++) {
			bool banded = false;

			for (int j = 0; j < b->n; j++)
				banded = banded || b->of[s][j] == k->stmts.at[s]->iter[i];
			if (!banded &&
			    !reduced_extent(k, first, last, k->stmts.at[s]->iter[i]->extent))
				return false;
		}
	return true;
}

/* Whether no statement of K has more than MOST points. */
static bool has_at_most(Kernel *k, int64_t most)
{
	int64_t lo, hi;

	for (int s = 0; s < k->stmts.n; s++) {
		dim_bounds(k->ctx,
			   iters_points(k->ctx, k->stmts.at[s]->iter, k->stmts.at[s]->niters), &lo,
			   &hi);
		if (hi > most)
			return false;
	}
	return true;
}

bool band_good(Kernel *k, bool gpu)
{
	enum { FEW = 8, TINY = 4096 };
	ARENA_LOCAL(a);
	Dim *points;
	int64_t v;
	Band b;

	band_of(k, a, &b);
	points = iters_points(k->ctx, b.iter, b.n);
	if ((gpu || b.n > 0) && band_is_rows(k, 0, k->stmts.n - 1, &b) &&
	    (gpu || !dim_is_const(points, &v) || v >= FEW))
		return true;
	return b.n > 0 && has_at_most(k, TINY);
}

bool kernel_is_tiny(Kernel *k)
{
	/* 100 candidates of a NonMaxSuppression, 4 corners each, take 40 ns, a launch 10 */
	enum { FEW_POINTS = 512 };

	return has_at_most(k, FEW_POINTS);
}
