/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy *attention*: a product, statements that share its rows, and a second product whose
 * sum goes along these rows. Attention is of this form: scores Q*K with scale, bias and mask, a
 * softmax, and the product of its weights with V. Kernels are recognised by their access relations,
 * so the statements between the products may be any: a softmax with or without a guard against rows
 * that are masked completely, a soft cap, a normalisation of another kind.
 *
 *   p over (g, blocks of m)                        parallel
 *     pack K and V into panels
 *     rows of the block, some tiles at a time
 *       scores = Q rows * K panels                 as in the strategy *contraction*
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

/* ---- Recognition ---- */

static bool is_among(const Iter *it, Iter *const *list, int n)
{
	for (int i = 0; i < n; i++)
		if (list[i] == it)
			return true;
	return false;
}

/* The iterator of the product V that is iterator IT of the scores. */
static Iter *in_values(const AttentionPlan *a, const Iter *it)
{
	const int b = band_index(&a->band, a->scores.c.s, it);

	return b < 0 ? NULL : a->band.of[a->values.first][b];
}

/* Both products have the same batches and rows, and the rows of the scores are the terms of the
 * second sum. Puts the row iterators of both in one order. */
static bool products_match(AttentionPlan *a)
{
	Contraction *s = &a->scores.c, *v = &a->values.c;

	if (s->nn != 1 || v->nk != 1 || s->ng != v->ng || s->nm != v->nm ||
	    a->band.n != s->ng + s->nm || s->n[0]->extent != v->k[0]->extent)
		return false;
	for (int i = 0; i < s->ng; i++)
		if (!is_among(in_values(a, s->g[i]), v->g, v->ng))
			return false;
	for (int i = 0; i < s->nm; i++)
		if (!is_among(in_values(a, s->m[i]), v->m, v->nm))
			return false;
	for (int i = 0; i < s->nm; i++)
		v->m[i] = in_values(a, s->m[i]);
	return true;
}

/* Whether IDX, with which S accesses a temporary, is constant or an iterator of the band. */
static bool in_band(const AttentionPlan *a, const Stmt *s, const Expr *idx)
{
	return idx->kind == EX_CONST ||
	       (idx->kind == EX_ITER && band_index(&a->band, s, idx->iter) >= 0);
}

/* The dim of temporary T, which S writes, that goes along a row of scores: all others are of the
 * band and outside of it. -1: T has another form. */
static int row_dim(const AttentionPlan *a, const Stmt *s, const Buf *t)
{
	int at = -1;

	for (int i = 0; i < t->rank; i++) {
		const int d = row_memory_dim(t, i);

		if (t->layout && (t->layout->ax[i].div || t->layout->ax[i].mod))
			return -1;
		if (in_band(a, s, s->widx[d])) {
			if (at >= 0 && s->widx[d]->kind != EX_CONST)
				return -1;
			continue;
		}
		if (at >= 0 || s->widx[d]->kind != EX_ITER ||
		    s->widx[d]->iter->extent != a->scores.n)
			return -1;
		at = d;
	}
	return at;
}

/* The dim of a temporary that S writes along which the rows go; -1: none. */
static int dim_of_rows(const AttentionPlan *a, const Stmt *s)
{
	const Contraction *c = &a->scores.c;

	for (int i = 0; i < c->nm; i++)
		for (int d = 0; d < s->nwidx; d++)
			if (s->widx[d]->kind == EX_ITER &&
			    band_index(&a->band, s, s->widx[d]->iter) ==
				    band_index(&a->band, c->s, c->m[i]))
				return d;
	return -1;
}

/* The only statement that writes T, and nothing else; null: none, or several. */
static Stmt *writer_of(const Kernel *k, const Buf *t)
{
	Stmt *w = kernel_writer(k, t);

	return w && w->nout == 1 ? w : NULL;
}

static bool read_by(Kernel *k, int first, int last, const Buf *t)
{
	for (int i = first; i <= last; i++)
		if (stmt_reads(k->stmts.at[i], t))
			return true;
	return false;
}

/* S writes one element for each row. */
static bool one_a_row(const AttentionPlan *a, const Stmt *s)
{
	for (int d = 0; d < s->nwidx; d++)
		if (!in_band(a, s, s->widx[d]))
			return false;
	return true;
}

/* Every temporary of the first product and of the statements after it has one writer, and goes
 * along the rows. If it is read by a later part of the stage, it has whole rows of scores or,
 * between the products, one element for each row. */
static bool temps_fit(AttentionPlan *a)
{
	Kernel *k = a->k;

	a->nbufs = k->bufs.n;
	a->rows = NEW_ARRAY(k->arena, a->nbufs + 1, bool);
	for (int i = 0; i < a->nbufs; i++) {
		Buf *t = k->bufs.at[i];
		const Stmt *w = t->kind == BUF_TEMP && !t->data ? writer_of(k, t) : NULL;
		bool later;

		if (t->kind != BUF_TEMP || t->data)
			continue;
		if (!w)
			return false;
		if (w->id >= a->values.first)
			continue;
		if (dim_of_rows(a, w) < 0)
			return false;
		later = read_by(k, a->values.first, k->stmts.n - 1, t);
		a->rows[i] = later || (w->id < a->first && read_by(k, a->first, a->last, t));
		if (a->rows[i] && row_dim(a, w, t) < 0 && (w->id < a->first || !one_a_row(a, w)))
			return false;
		if (later && t != a->weights && !one_a_row(a, w))
			return false;
	}
	return true;
}

/* The second product reads the weights in place: one load, at its own row and term. */
static bool weights_fit(AttentionPlan *a)
{
	const Contraction *v = &a->values.c;
	const Expr *e = v->a;
	const Stmt *w;

	if (e->kind != EX_LOAD || e->load.buf->kind != BUF_TEMP || e->load.buf->data ||
	    v->guard_a || e->load.buf->dtype != ctype_dtype(v->ct))
		return false;
	a->weights = e->load.buf;
	w = writer_of(a->k, a->weights);
	if (!w || w->id < a->first || w->id > a->last || !stmt_is_map(w) || w->guard)
		return false;
	for (int d = 0; d < e->load.nidx; d++)
		if (!in_band(a, v->s, e->load.idx[d]) &&
		    (e->load.idx[d]->kind != EX_ITER || e->load.idx[d]->iter != v->k[0]))
			return false;
	return true;
}

/* The number of the last statement that is a contraction. */
static int last_product(Kernel *k)
{
	Contraction c;

	for (int i = k->stmts.n - 1; i > 1; i--)
		if (stmt_contraction(k, k->stmts.at[i], &c))
			return i;
	return -1;
}

/* The first product with as many of the maps after it as possible, before statement BEFORE. */
static bool begin_scores(AttentionPlan *a, int before)
{
	for (int n = before - 1; n > 0; n--)
		if (gemm_begin_some(&a->scores, a->k, 0, n))
			return true;
	return false;
}

bool attention_begin(AttentionPlan *a, Kernel *k)
{
	int second;
	KernelClass mid;

	for (int i = 0; i < k->stmts.n; i++)
		k->stmts.at[i]->id = i;
	for (int i = 0; i < k->bufs.n; i++)
		k->bufs.at[i]->id = i;
	second = last_product(k);
	*a = (AttentionPlan){.k = k, .b = {.k = k, .p = k->pool, .arena = k->arena}};
	if (second < 0 || !begin_scores(a, second) ||
	    !gemm_begin_some(&a->values, k, second, k->stmts.n - second))
		return false;
	a->first = a->scores.nstmts;
	a->last = second - 1;
	mid = kernel_class_of(k, a->first, a->last);
	if (mid != KC_ROW && mid != KC_MAP)
		return false;
	band_of(k, k->arena, &a->band);
	if (!products_match(a))
		return false;
	gemm_pack_b_instead(&a->scores);
	gemm_pack_b_instead(&a->values);
	gemm_pack_instead(&a->values);
	if (a->scores.run < a->scores.c.nk)
		gemm_pack_instead(&a->scores);
	gemm_flatten(&a->scores);
	gemm_flatten(&a->values);
	return a->scores.nouter == a->scores.c.ng && a->values.nouter == a->values.c.ng &&
	       weights_fit(a) && temps_fit(a);
}

bool attention_takes(Kernel *k)
{
	AttentionPlan a;

	return attention_begin(&a, k);
}

int attention_row_temps(const AttentionPlan *a)
{
	int n = 0;

	for (int i = 0; i < a->nbufs; i++) {
		const Buf *t = a->k->bufs.at[i];
		const Stmt *w = t->kind == BUF_TEMP && !t->data ? writer_of(a->k, t) : NULL;

		n += w && w->id < a->values.first && (a->rows[i] || w->id >= a->first) &&
		     !one_a_row(a, w);
	}
	return n ? n : 1;
}

/* What G packs, as rows in memory: POINTS contiguous elements for each point of KEY, whose rows are
 * STEP elements apart. No points: it is something else. */
typedef struct PackedRows {
	Iter *key;
	int64_t points, step;
} PackedRows;

static PackedRows packed_rows(const AttentionPlan *a, const Gemm *g)
{
	const bool keys = g == &a->scores;
	Iter *key = keys ? g->c.n[0] : g->c.k[0],
	     *inner = keys ? g->c.k[g->c.nk - 1] : g->c.n[g->c.nn - 1];
	Expr *b = g->c.b, *zero = ex_int(g->k->pool, CT_I64, 0), *at;
	PackedRows r = {.key = key};
	int64_t one, points;
	Affine f;

	if (b->kind != EX_LOAD || g->c.guard_b || dtype_info[b->load.buf->dtype].bits < 8)
		return r;
	at = flat_index(g->k, b->load.buf, b->load.idx);
	for (int i = 0; i < g->c.ng; i++)
		at = ex_subst_iters(g->k->pool, at, &g->c.g[i], &zero, 1);
	if (ex_affine(g->k->ctx, at, &f) && dim_is_const(affine_coef(g->k->ctx, &f, inner), &one) &&
	    one == 1 && dim_is_const(inner->extent, &points) &&
	    dim_is_const(affine_coef(g->k->ctx, &f, key), &r.step) && r.step >= points)
		r.points = points;
	return r;
}

bool attention_may_fetch(const AttentionPlan *a)
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
	return dim_ceildiv(t->a.k->ctx, t->a.scores.m, dim_const(t->a.k->ctx, t->d->mc));
}

/* The grain counts an iteration's multiply-adds. */
static void set_grain(AttentionTree *t, int64_t grain)
{
	Ctx *c = t->a.k->ctx;
	Gemm *s = &t->a.scores;
	Dim *rows = is_parallel(t->d, PRODUCT_M) ? dim_min(c, s->m, dim_const(c, t->d->mc)) : s->m;
	Dim *work = dim_mul(c, dim_mul(c, rows, s->n), dim_add(c, s->kk, t->a.values.n));

	if (!is_parallel(t->d, PRODUCT_G))
		work = dim_mul(c, work, gemm_product(s, s->outer, s->nouter));
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
		for (int j = 0; t->d->parallel[i] == PRODUCT_G && j < s->nouter; j++)
			split[n++] = s->outer[j];
		if (t->d->parallel[i] == PRODUCT_M)
			split[n++] = t->mb;
	}
	l_of(b, s->c.s);
	l_stage(b, "attention", iters_points(t->a.k->ctx, split, n));
	set_grain(t, grain);
	l_split(b, split, n, ex_iter(b->p, b->stage->var));
}

/* Gives G, one of the two products, the decided sizes, and the names of its own iterators in this
 * batch. */
static void set_product(AttentionTree *t, Gemm *g)
{
	LBuild *b = &t->a.b;

	g->mr = t->d->mr;
	g->nr = t->d->nr;
	g->mc = t->d->rows;
	g->nc = 0;
	g->kc = 0;
	g->panels_first = true;
	g->m0 = t->m0;
	g->n0 = l_iter(b, "n0", g->n);
	g->mflat = l_iter(b, "m", g->m);
	g->nflat = l_iter(b, "n", g->n);
}

static void let_batch(AttentionTree *t)
{
	const AttentionPlan *a = &t->a;
	LBuild *b = &t->a.b;

	for (int i = 0; i < a->scores.c.ng; i++) {
		Iter *it = a->scores.c.g[i], *v = in_values(a, it);

		if (v != it)
			l_let(b, v, ex_iter(b->p, it));
	}
	l_let(b, a->scores.n0, l_int(b, 0));
	l_let(b, a->values.n0, l_int(b, 0));
}

/* The scores prefetch what the next batch packs for G, as far as that is in rows. */
static void fetch_next(AttentionTree *t, const Gemm *g)
{
	AttentionPlan *a = &t->a;
	Gemm *s = &a->scores;
	ExprPool *p = a->b.p;
	Iter *batch = s->outer[s->nouter - 1], *of = g == s ? batch : in_values(a, batch);
	const PackedRows rows = packed_rows(a, g);
	Expr *next = ex_add(p, ex_iter(p, of), l_int(&a->b, 1)), *key = ex_iter(p, s->nflat),
	     *zero = l_int(&a->b, 0), *at;
	Buf *buf = g->c.b->load.buf;

	if (!rows.points)
		return;
	at = flat_index(g->k, buf, g->c.b->load.idx);
	at = ex_subst_iters(p, at, &of, &next, 1);
	at = ex_subst_iters(p, at, &rows.key, &key, 1);
	for (int i = 0; i < (g == s ? g->c.nk : g->c.nn); i++)
		at = ex_subst_iters(p, at, g == s ? &g->c.k[i] : &g->c.n[i], &zero, 1);
	s->next[s->nnext] = (Prefetch){buf, at, l_int(&a->b, rows.step), NULL};
	s->next_lines[s->nnext++] =
		(rows.points * dtype_info[buf->dtype].bits / 8 + CACHE_LINE - 1) / CACHE_LINE;
}

/* Appends what EMIT emits for G. */
static void with_product(AttentionTree *t, Gemm *g, void (*emit)(Gemm *g))
{
	g->b = t->a.b;
	l_of(&g->b, g->c.s);
	emit(g);
	t->a.b = g->b;
}

/* Declares a local that has the current rows of OF, a temporary that S writes. */
static Buf *make_local(AttentionTree *t, const Stmt *s, Buf *of)
{
	Row *r = &t->row;
	const int rows = dim_of_rows(&t->a, s);
	Dim *dims[MAX_RANK];
	int n = 0;

	for (int i = 0; i < of->rank; i++) {
		const int d = row_memory_dim(of, i);
		const Keep keep = d == rows                       ? KEEP_ROWS
				  : in_band(&t->a, s, s->widx[d]) ? KEEP_NOT
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
	const int n = a->nbufs;

	t->row = row_new(&a->b, a->first, a->last, &a->band);
	for (int i = 0; i < a->band.n; i++) {
		Iter *it = a->band.of[0][i];

		t->row.rep[i] = it;
		t->row.as[i] = t->row.pos[i] = ex_iter(a->b.p, it);
		t->row.fixed[i] = true;
	}
	a->scores.held = NEW_ARRAY(a->k->arena, n + 1, Buf *);
	a->values.held = NEW_ARRAY(a->k->arena, n + 1, Buf *);
	a->scores.nheld = a->values.nheld = n;
	for (int i = 0; i < n; i++) {
		Buf *of = a->k->bufs.at[i], *local;

		if (!a->rows[i])
			continue;
		local = make_local(t, writer_of(a->k, of), of);
		if (of == a->weights)
			a->values.abuf = local;
		else
			(local->rank > 1 ? &a->scores : &a->values)->held[i] = local;
	}
}

/* One past the last of the current rows. */
static Expr *rows_end(AttentionTree *t)
{
	LBuild *b = &t->a.b;

	return l_min(b, ex_add(b->p, ex_iter(b->p, t->m0), l_int(b, t->d->rows)),
		     ex_dim(b->p, t->a.scores.m));
}

/* Statement S, between the products, for the current rows. */
static void emit_stmt(AttentionTree *t, Stmt *s)
{
	AttentionPlan *a = &t->a;
	LBuild *b = &a->b;
	Iter *m = l_iter(b, "m", a->scores.m);
	LNode *loop;

	row_begin(&t->row, s);
	for (int o = 0; o < s->nout; o++)
		if (s->out[o]->kind == BUF_TEMP && !t->row.local[s->out[o]->id])
			make_local(t, s, s->out[o]);
	loop = l_loop(b, LOOP_SERIAL, m, ex_iter(b->p, t->m0), rows_end(t), 1);
	l_split(b, a->scores.c.m, a->scores.c.nm, ex_iter(b->p, m));
	t->row.row_at = ex_sub(b->p, ex_iter(b->p, m), ex_iter(b->p, t->m0));
	row_emit(&t->row);
	l_close(b, loop);
}

void attention_emit(const Target *target, Kernel *k, const Decision *d, Schedule *s)
{
	AttentionTree t = {.d = &d->attention};
	AttentionPlan *a = &t.a;
	LBuild *b = &a->b;
	const bool fits = attention_begin(a, k);
	Expr *first;

	(void)target;
	assert(fits);
	a->b = l_build(k, s);
	if (t.d->pack_a)
		gemm_pack_instead(&a->scores);
	open_stage(&t, d->grain);
	t.m0 = l_iter(b, "m0", a->scores.m);
	set_product(&t, &a->scores);
	set_product(&t, &a->values);
	attention_skip_scores(a);
	for (int i = 0; i < a->scores.nouter && !is_parallel(t.d, PRODUCT_G); i++)
		open_serial(&t, a->scores.outer[i], l_int(b, 0),
			    ex_dim(b->p, a->scores.outer[i]->extent), 1);
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
		    l_min(b, ex_add(b->p, first, l_int(b, t.d->mc)), ex_dim(b->p, a->scores.m)),
		    t.d->rows);
	hold_rows(&t);
	if (!a->scores.a_direct)
		with_product(&t, &a->scores, gemm_pack_a);
	with_product(&t, &a->scores, gemm_emit_tiles);
	for (int i = a->first; i <= a->last; i++)
		emit_stmt(&t, k->stmts.at[i]);
	with_product(&t, &a->values, gemm_emit_tiles);
	while (t.nserial)
		l_close(b, t.serial[--t.nserial]);
}
