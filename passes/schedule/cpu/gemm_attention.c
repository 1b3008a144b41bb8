/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy *attention* (passes/forms/attention.h):
 *
 *   p over (g, blocks of m)                        parallel
 *     pack K and V into panels
 *     rows of the block, some tiles at a time
 *       scores = Q rows * K panels                 as in the strategy *product*
 *       the statements in between, each for all rows   as in the strategy *row*
 *       result = weights * V panels
 *
 * A thread has the scores, the weights and what is between them of a few rows in memory, in a
 * cache, so its memory grows with the number of keys and not with its square. A row is complete
 * before its maximum is taken: nothing is rescaled, and every special value is treated as by
 * separate kernels. Keys that a mask hides cost little (gemm_attention_mask.c).
 *
 * Sizes and the order of loops stand in the decision (gemm_attention_decide.c).
 */
#include "passes/schedule/cpu/gemm_attention.h"
#include "passes/schedule/cpu/cpu.h"

#include <assert.h>

/* The elements that a packing copies, as rows in memory: POINTS contiguous elements for each point
 * of KEY, whose rows are STEP elements apart. POINTS is 0 if they do not lie in rows. */
typedef struct PackedRows {
	Iter *key;
	int64_t points, step;
} PackedRows;

static PackedRows packed_rows(const AttentionForm *a, const Product *p)
{
	const bool keys = p == &a->scores;
	const Contraction *c = &p->c;
	Iter *key = keys ? c->n[0] : c->k[0], *inner = keys ? c->k[c->nk - 1] : c->n[c->nn - 1];
	Expr *b = c->b, *zero = ex_int(p->k->pool, CT_I64, 0), *at;
	PackedRows r = {.key = key};
	int64_t one, points;
	Affine f;

	if (b->kind != EX_LOAD || c->guard_b || dtype_info[b->load.buf->dtype].bits < 8)
		return r;
	at = flat_index(p->k, b->load.buf, b->load.idx);
	for (int i = 0; i < c->ng; i++)
		at = ex_subst_iters(p->k->pool, at, &c->g[i], &zero, 1);
	if (ex_affine(p->k->ctx, at, &f) && dim_is_const(affine_coef(p->k->ctx, &f, inner), &one) &&
	    one == 1 && dim_is_const(inner->extent, &points) &&
	    dim_is_const(affine_coef(p->k->ctx, &f, key), &r.step) && r.step >= points)
		r.points = points;
	return r;
}

bool attention_may_fetch(const AttentionForm *a)
{
	return a->scores.nouter &&
	       (packed_rows(a, &a->scores).points || packed_rows(a, &a->values).points);
}

/* ---- Emission ---- */

/* The loop tree while it is built. */
typedef struct AttentionTree {
	AttentionPlan a;
	const AttentionDecision *d;
	Iter *mb, *m0; /* number of the block of rows; first of the rows in memory */
	LNode *serial[MAX_ITERS + 2];
	int nserial;
	Row row;
} AttentionTree;

static bool is_parallel(const AttentionDecision *d, ProductAxis x)
{
	return axis_is_parallel(d->parallel, d->nparallel, x);
}

static void open_serial(AttentionTree *t, Iter *it, Expr *lo, Expr *hi, int64_t step)
{
	t->serial[t->nserial++] = l_loop(&t->a.b, LOOP_SERIAL, it, lo, hi, step);
}

static Dim *blocks_of_rows(const AttentionTree *t)
{
	return dim_ceildiv(t->a.at.k->ctx, t->a.scores.p.m, dim_const(t->a.at.k->ctx, t->d->mc));
}

/* The grain counts an iteration's multiply-adds. */
static void set_grain(AttentionTree *t, int64_t grain)
{
	Ctx *c = t->a.at.k->ctx;
	Gemm *s = &t->a.scores;
	Dim *rows = is_parallel(t->d, PRODUCT_M) ? dim_min(c, s->p.m, dim_const(c, t->d->mc))
						 : s->p.m;
	Dim *work = dim_mul(c, dim_mul(c, rows, s->p.n), dim_add(c, s->p.kk, t->a.values.p.n));

	if (!is_parallel(t->d, PRODUCT_G))
		work = dim_mul(c, work, iters_points(c, s->p.outer, s->p.nouter));
	l_grain(&t->a.b, grain, work);
}

static void open_stage(AttentionTree *t, int64_t grain)
{
	Gemm *s = &t->a.scores;
	LBuild *b = &t->a.b;
	Iter *split[MAX_ITERS + 1];
	int n = 0;

	t->mb = l_iter(b, "mb", blocks_of_rows(t));
	for (int i = 0; i < t->d->nparallel; i++) {
		for (int j = 0; t->d->parallel[i] == PRODUCT_G && j < s->p.nouter; j++)
			split[n++] = s->p.outer[j];
		if (t->d->parallel[i] == PRODUCT_M)
			split[n++] = t->mb;
	}
	l_of(b, s->p.c.s);
	l_stage(b, "attention", iters_points(t->a.at.k->ctx, split, n));
	set_grain(t, grain);
	l_split(b, split, n, ex_iter(b->p, b->stage->var));
}

/* Gives G, one of the two products, the decided sizes, and the names of its own iterators in this
 * batch. */
static void set_product(AttentionTree *t, Gemm *g)
{
	LBuild *b = &t->a.b;

	g->blocks.mr = t->d->mr;
	g->blocks.nr = t->d->nr;
	g->blocks.mc = t->d->rows;
	g->blocks.nc = 0;
	g->blocks.kc = 0;
	g->blocks.panels_first = true;
	g->blocks.m0 = t->m0;
	g->blocks.n0 = l_iter(b, "n0", g->p.n);
	g->mflat = l_iter(b, "m", g->p.m);
	g->nflat = l_iter(b, "n", g->p.n);
}

static void let_batch(AttentionTree *t)
{
	const AttentionPlan *a = &t->a;
	LBuild *b = &t->a.b;

	for (int i = 0; i < a->scores.p.c.ng; i++) {
		Iter *it = a->scores.p.c.g[i], *v = attention_in_values(&a->at, it);

		if (v != it)
			l_let(b, v, ex_iter(b->p, it));
	}
	l_let(b, a->scores.blocks.n0, l_int(b, 0));
	l_let(b, a->values.blocks.n0, l_int(b, 0));
}

/* The scores prefetch what the next batch packs for G, as far as that is in rows. */
static void fetch_next(AttentionTree *t, const Gemm *g)
{
	AttentionPlan *a = &t->a;
	Gemm *s = &a->scores;
	ExprPool *p = a->b.p;
	Iter *batch = s->p.outer[s->p.nouter - 1],
	     *of = g == s ? batch : attention_in_values(&a->at, batch);
	const PackedRows rows = packed_rows(&a->at, g == s ? &a->at.scores : &a->at.values);
	Expr *next = ex_add(p, ex_iter(p, of), l_int(&a->b, 1)), *key = ex_iter(p, s->nflat),
	     *zero = l_int(&a->b, 0), *at;
	Buf *buf = g->p.c.b->load.buf;

	if (!rows.points)
		return;
	at = flat_index(g->p.k, buf, g->p.c.b->load.idx);
	at = ex_subst_iters(p, at, &of, &next, 1);
	at = ex_subst_iters(p, at, &rows.key, &key, 1);
	for (int i = 0; i < (g == s ? g->p.c.nk : g->p.c.nn); i++)
		at = ex_subst_iters(p, at, g == s ? &g->p.c.k[i] : &g->p.c.n[i], &zero, 1);
	s->attention.next[s->attention.nnext] = (Prefetch){buf, at, l_int(&a->b, rows.step), NULL};
	s->attention.next_lines[s->attention.nnext++] =
		(dtype_size(buf->dtype, rows.points) + CACHE_LINE - 1) / CACHE_LINE;
}

/* Appends what EMIT emits for G. */
static void with_product(AttentionTree *t, Gemm *g, void (*emit)(Gemm *g))
{
	g->b = t->a.b;
	l_of(&g->b, g->p.c.s);
	emit(g);
	t->a.b = g->b;
}

/* Declares a local that has the current rows of OF, a temporary that S writes. */
static Buf *make_local(AttentionTree *t, const Stmt *s, Buf *of)
{
	Row *r = &t->row;
	const int rows = attention_dim_of_rows(&t->a.at, s);
	Dim *dims[MAX_RANK];
	int n = 0;

	for (int i = 0; i < of->rank; i++) {
		const int d = buf_memory_dim(of, i);
		const Keep keep = d == rows                                    ? KEEP_ROWS
				  : attention_in_band(&t->a.at, s, s->widx[d]) ? KEEP_NOT
									       : KEEP_ALL;

		r->keep[of->id][d] = keep;
		if (keep != KEEP_NOT)
			dims[n++] = keep == KEEP_ROWS ? dim_const(r->k->ctx, t->d->rows)
						      : of->dims[d];
	}
	r->local[of->id] = kernel_temp(r->k, of->name, of->dtype, n, dims);
	l_local(&t->a.b, r->local[of->id]);
	return r->local[of->id];
}

/* Declares the locals that a product writes or reads. */
static void hold_rows(AttentionTree *t)
{
	AttentionPlan *a = &t->a;
	const int n = a->at.nbufs;

	t->row = row_new(&a->b, a->at.first, a->at.last, &a->at.band);
	for (int i = 0; i < a->at.band.n; i++) {
		Iter *it = a->at.band.of[0][i];

		t->row.rep[i] = it;
		t->row.as[i] = t->row.pos[i] = ex_iter(a->b.p, it);
		t->row.fixed[i] = true;
	}
	a->scores.attention.held = NEW_ARRAY(a->at.k->arena, n + 1, Buf *);
	a->values.attention.held = NEW_ARRAY(a->at.k->arena, n + 1, Buf *);
	a->scores.attention.nheld = a->values.attention.nheld = n;
	for (int i = 0; i < n; i++) {
		Buf *of = a->at.k->bufs.at[i], *local;

		if (!a->at.rows[i])
			continue;
		local = make_local(t, attention_writer(a->at.k, of), of);
		if (of == a->at.weights)
			a->values.blocks.abuf = local;
		else
			(local->rank > 1 ? &a->scores : &a->values)->attention.held[i] = local;
	}
}

/* One past the last of the current rows. */
static Expr *rows_end(AttentionTree *t)
{
	LBuild *b = &t->a.b;

	return l_min(b, ex_add(b->p, ex_iter(b->p, t->m0), l_int(b, t->d->rows)),
		     ex_dim(b->p, t->a.scores.p.m));
}

/* Statement S, between the products, for the current rows. */
static void emit_stmt(AttentionTree *t, Stmt *s)
{
	AttentionPlan *a = &t->a;
	LBuild *b = &a->b;
	Iter *m = l_iter(b, "m", a->scores.p.m);
	LNode *loop;

	row_begin(&t->row, s);
	for (int o = 0; o < s->nout; o++)
		if (s->out[o]->kind == BUF_TEMP && !t->row.local[s->out[o]->id])
			make_local(t, s, s->out[o]);
	loop = l_loop(b, LOOP_SERIAL, m, ex_iter(b->p, t->m0), rows_end(t), 1);
	l_split(b, a->scores.p.c.m, a->scores.p.c.nm, ex_iter(b->p, m));
	t->row.row_at = ex_sub(b->p, ex_iter(b->p, m), ex_iter(b->p, t->m0));
	row_emit(&t->row);
	l_close(b, loop);
}

void attention_emit(const Target *target, Kernel *k, const Decision *d, Schedule *s)
{
	AttentionTree t = {.d = &d->attention};
	AttentionPlan *a = &t.a;
	LBuild *b = &a->b;
	const bool fits = attention_begin(&a->at, k);
	Expr *first;

	(void)target;
	assert(fits);
	a->b = l_build(k, s);
	if (t.d->pack_a)
		product_pack_a(&a->at.scores);
	a->scores = (Gemm){.p = a->at.scores, .b = a->b};
	a->values = (Gemm){.p = a->at.values, .b = a->b};
	open_stage(&t, d->grain);
	t.m0 = l_iter(b, "m0", a->scores.p.m);
	set_product(&t, &a->scores);
	set_product(&t, &a->values);
	attention_skip_scores(a);
	for (int i = 0; i < a->scores.p.nouter && !is_parallel(t.d, PRODUCT_G); i++)
		open_serial(&t, a->scores.p.outer[i], l_int(b, 0),
			    ex_dim(b->p, a->scores.p.outer[i]->extent), 1);
	let_batch(&t);
	if (t.d->fetch) {
		fetch_next(&t, &a->scores);
		fetch_next(&t, &a->values);
	}
	with_product(&t, &a->scores, gemm_pack_b);
	attention_sum_squares(a);
	with_product(&t, &a->values, gemm_pack_b);
	attention_trim_values(a);
	if (!is_parallel(t.d, PRODUCT_M))
		open_serial(&t, t.mb, l_int(b, 0), ex_dim(b->p, t.mb->extent), 1);
	first = ex_mul(b->p, ex_iter(b->p, t.mb), l_int(b, t.d->mc));
	open_serial(&t, t.m0, first,
		    l_min(b, ex_add(b->p, first, l_int(b, t.d->mc)), ex_dim(b->p, a->scores.p.m)),
		    t.d->rows);
	hold_rows(&t);
	if (!a->scores.p.a_direct)
		with_product(&t, &a->scores, gemm_pack_a);
	with_product(&t, &a->scores, gemm_emit_tiles);
	for (int i = a->at.first; i <= a->at.last; i++)
		emit_stmt(&t, k->stmts.at[i]);
	with_product(&t, &a->values, gemm_emit_tiles);
	while (t.nserial)
		l_close(b, t.serial[--t.nserial]);
}
