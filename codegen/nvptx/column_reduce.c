/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LN_COLUMNS: column reductions. A block's threads are numbered along its columns first, then
 * down its rows. A thread has a state for each of its columns in each row of the result. States are
 * combined over the lanes of a warp that have the same columns, by shuffles, and over the warps in
 * shared memory.
 *
 * If rows are not aligned to sectors, each warp takes the rows that begin at the same offset in a
 * sector, and all of their columns. Its first lane begins at the sector's boundary, and each lane
 * has every 32nd column.
 */
#include "codegen/nvptx/kernel.h"

#include <assert.h>
#include <string.h>

typedef struct ColumnsEmitter {
	LlKernel *k;
	const LNode *n;
	const ColumnReduction *f;
	/* columns of a thread; threads along the columns, if these are contiguous in memory */
	int vector, lanes;
	int step;    /* distance between its columns */
	Buf **state; /* states, by row, then by column of the thread */
	CType ct;
	int words;      /* registers for the operands of a term */
	const char *j0; /* the thread's first column */
	/* i1, if rows are not aligned: whether the thread's column exists; if it does not, COL is
	 * another column, which is read instead */
	const char *in[COLUMN_BLOCKS], *col[COLUMN_BLOCKS];
	/* i1: at least one lane of the warp has the last of these columns; null: always */
	const char *any;
} ColumnsEmitter;

/* Adds the term at index AT of the reduced iterator to each state. */
static void terms(void *arg, const char *at)
{
	ColumnsEmitter *g = arg;
	LlKernel *k = g->k;
	LlVector p = {.k = k, .var = g->f->col, .vector = g->vector, .kept = -1};
	Expr *zero = ex_int(k->sched->kernel->pool, CT_I64, 0);

	ll_forget(&k->f);
	ll_bind(k, g->n->range.var, at);
	ll_bind(k, g->f->row, "0");
	if (g->vector > 1)
		ll_vector_find(&p, g->n->store.val[0]);
	ll_vector_fetch(&p, g->j0);
	for (int m = 0; m < g->f->rows; m++)
		for (int v = 0; v < g->vector; v++) {
			ll_vector_element(&p, g->j0, v);
			ll_bind(k, g->f->row, ll_number(&k->f, m));
			ll_step(k, g->n, &g->state[m * g->vector + v], zero);
		}
	ll_forget(&k->f);
}

/* As terms, for peeled rows. */
static void peeled_terms(void *arg, const char *at)
{
	ColumnsEmitter *g = arg;
	LlKernel *k = g->k;
	Expr *zero = ex_int(k->sched->kernel->pool, CT_I64, 0);

	for (int v = 0; v < g->vector; v++) {
		const char *after = v + 1 == g->vector && g->any ? ll_open_if(k, g->any) : NULL;

		ll_forget(&k->f);
		ll_bind(k, g->n->range.var, at);
		ll_bind(k, g->f->row, "0");
		ll_bind(k, g->f->col, g->col[v]);
		ll_step(k, g->n, &g->state[v], zero);
		ll_forget(&k->f);
		ll_close_if(k, after);
	}
	ll_forget(&k->f);
}

/* COND ? A : B. */
static const char *choose(LlFn *f, const char *cond, const char *a, const char *b)
{
	return ll_set(f, "select i1 %s, i64 %s, i64 %s", cond, a, b);
}

/* ---- All terms ---- */

/* Shares out columns and rows if columns are contiguous in memory. */
static void share_columns(ColumnsEmitter *g)
{
	LlFn *f = &g->k->f;

	g->lanes = g->f->cols / g->vector;
	assert(g->lanes > 0 && g->lanes <= 32);
	g->step = 1;
	g->j0 = ll_op(f, "mul i64", ll_op(f, "urem i64", "%lane", g->lanes), g->vector);
}

/* The condition, as an i1, that column COL exists. */
static const char *is_column(ColumnsEmitter *g, const char *col)
{
	LlKernel *k = g->k;
	const char *in = ll_op(&k->f, "icmp ult i64", col, g->f->cols), *both;

	if (!g->n->store.guard)
		return in;
	ll_forget(&k->f);
	ll_bind(k, g->f->col, col);
	both = ll_set(&k->f, "and i1 %s, %s", in, ll_expr(&k->f, g->n->store.guard));
	ll_forget(&k->f);
	return both;
}

/* Shares out columns and rows if rows are peeled. For a column that does not exist, a lane reads
 * the first of its 32 columns, or else the block's first. */
static void share_peeled(ColumnsEmitter *g)
{
	LlKernel *k = g->k;
	LlFn *f = &k->f;
	const char *peel, *start;

	assert(g->vector <= COLUMN_BLOCKS && g->f->rows == 1);
	g->lanes = 32;
	g->step = 32;
	ll_forget(f);
	ll_bind(k, g->n->range.var, ll_op(f, "udiv i64", "%lane", 32));
	peel = ll_expr(f, g->n->share.peel);
	ll_forget(f);
	start = ll_set(f, "sub nsw i64 0, %s", peel);
	g->j0 = ll_set(f, "add nsw i64 %s, %s", start, ll_op(f, "urem i64", "%lane", 32));
	for (int v = 0; v < g->vector; v++) {
		const char *col = ll_plus(f, g->j0, v * 32), *first = ll_plus(f, start, v * 32),
			   *any = is_column(g, first);

		g->in[v] = is_column(g, col);
		g->col[v] = choose(f, g->in[v], col, choose(f, any, first, "0"));
		if (v && v * 32 >= g->f->cols)
			g->any = any;
	}
}

/* Adds the registers of load E to ColumnsEmitter.words. */
static void add_words(ColumnsEmitter *g, Expr *e)
{
	const ColumnReduction *f = g->f;
	int times;

	if (!e->load.nidx || !expr_has_iter(e->load.idx[0], g->n->range.var))
		return;
	times = (expr_has_iter(e->load.idx[0], f->row) ? f->rows : 1) *
		(expr_has_iter(e->load.idx[0], f->col) ? g->vector : 1);
	g->words += times * (dtype_info[ctype_dtype(e->ct)].bits > 32 ? 2 : 1);
}

/* Emits the loop over this thread's terms, with several in flight. */
static void all_terms(ColumnsEmitter *g)
{
	LlKernel *k = g->k;
	const char *lo, *hi;

	EX_EACH_LOAD (e, g->n->store.val[0])
		add_words(g, e);
	if (k->hoisted < (LL_UNROLL - 1) * g->words)
		k->hoisted = (LL_UNROLL - 1) * g->words;
	ll_ends(k, g->n, &lo, &hi);
	ll_strided(k, g->n->range.var, ll_op(&k->f, "udiv i64", "%lane", g->lanes), hi,
		   k->stage->block.threads / g->lanes, true,
		   g->n->share.peel ? peeled_terms : terms, g);
}

/* Combines the states of lanes with the same columns; each warp then stores its states to shared
 * memory. */
static Buf *combine_lanes(ColumnsEmitter *g)
{
	LlKernel *k = g->k;
	LlFn *f = &k->f;
	const int all = g->f->rows * g->f->cols;
	const char *lane = ll_op(f, "and i64", "%lane", 32 - g->lanes),
		   *warp = ll_op(f, "lshr i64", "%lane", 5), *at = ll_op(f, "mul i64", warp, all),
		   *after;
	Buf *states = ll_shared_states(k, g->ct, (int64_t)all * k->stage->block.threads / 32);

	for (int i = 0; i < g->f->rows * g->vector; i++)
		ll_over_lanes(k, g->n, &g->state[i], &g->ct, g->lanes, 32);
	after = ll_open_if(k, ll_op(f, "icmp eq i64", lane, 0));
	for (int m = 0; m < g->f->rows; m++)
		for (int v = 0; v < g->vector; v++) {
			const char *in = g->in[v] ? ll_open_if(k, g->in[v]) : NULL,
				   *i = ll_set(f, "add i64 %s, %s", at, g->j0);

			ll_store(k, states, ll_plus(f, i, m * g->f->cols + v * g->step),
				 ll_load(k, g->state[m * g->vector + v], "0"));
			ll_close_if(k, in);
		}
	ll_close_if(k, after);
	ll_barrier(k);
	return states;
}

/* Combines, with one thread per state, the STATES of all warps and the previous state. */
static void over_warps(ColumnsEmitter *g, const Buf *states)
{
	LlKernel *k = g->k;
	LlFn *f = &k->f;
	const int all = g->f->rows * g->f->cols, nwarps = k->stage->block.threads / 32;
	const char *after = NULL, *exists = NULL;
	Iter *point = NEW(f->arena, Iter); /* a binding refers to it */
	LlLoop l;

	*point = (Iter){.name = "t"};
	l = ll_open_loop(k, point, "%lane", ll_number(f, all),
			 ll_number(f, k->stage->block.threads));
	vec_push(f->arena, &k->own, l.var);
	ll_forget(f);
	ll_bind(k, g->f->col, ll_op(f, "urem i64", l.var, g->f->cols));
	if (g->n->store.guard)
		after = ll_open_if(k, ll_expr(f, g->n->store.guard));
	if (g->f->valid) {
		const char *in = ll_set(f, "icmp slt i64 %s, %s",
					ll_op(f, "udiv i64", l.var, g->f->cols),
					ll_expr(f, g->f->valid));

		exists = ll_open_if(k, in);
	}
	k->in_group++;
	for (int w = 0; w < nwarps; w++) {
		const char *value = ll_load(k, states, ll_plus(f, l.var, (long long)w * all));

		ll_combine(k, g->n->store.red, g->n->store.buf, l.var, &value, &g->ct, 1, false);
	}
	k->in_group--;
	ll_close_if(k, exists);
	ll_close_if(k, after);
	ll_close_loop(k, &l);
	ll_barrier(k);
}

void ll_columns(LlKernel *k, const LNode *n)
{
	ColumnsEmitter g = {.k = k,
			    .n = n,
			    .f = n->columns,
			    .vector = n->share.vector,
			    .ct = n->store.val[0]->ct};
	const char *after = NULL;
	int nstate;

	if (n->share.peel)
		share_peeled(&g);
	else
		share_columns(&g);
	nstate = n->columns->rows * g.vector;
	g.state = NEW_ARRAY(k->f.arena, nstate, Buf *);
	for (int i = 0; i < nstate; i++)
		g.state[i] = ll_state(k, n->store.red, 0, g.ct);
	ll_forget(&k->f);
	ll_bind(k, n->columns->col, g.j0);
	if (n->store.guard && !n->share.peel)
		after = ll_open_if(k, ll_expr(&k->f, n->store.guard));
	k->in_group++;
	all_terms(&g);
	k->in_group--;
	ll_close_if(k, after);
	ll_forget(&k->f);
	over_warps(&g, combine_lanes(&g));
}
