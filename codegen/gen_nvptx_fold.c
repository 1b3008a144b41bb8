/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LN_FOLD: a block's threads go along its columns, and then along what is reduced. A thread has a state for each of its
 * columns in each row. They meet over the lanes of a warp that have the same columns, by shuffles, and over the warps
 * in shared memory.
 */
#include "codegen/gen_nvptx_kernel.h"

#include <assert.h>
#include <string.h>

typedef struct Folding {
	LlKernel *k;
	const LNode *n;
	const Fold *f;
	int pack, lanes; /* lanes: threads along the columns */
	Buf **state;     /* by row, then column of the thread */
	CType ct;
	const char *j0; /* the thread's first column */
} Folding;

/* A term of each state, at AT of what is reduced. */
static void terms(void *arg, const char *at)
{
	Folding *g = arg;
	LlKernel *k = g->k;
	LlPack p = {.k = k, .var = g->f->col, .pack = g->pack, .kept = -1};
	Expr *zero = ex_int(k->sched->kernel->pool, CT_I64, 0);

	ll_forget(&k->f);
	ll_bind(k, g->n->var, at);
	ll_bind(k, g->f->row, "0");
	if (g->pack > 1)
		ll_pack_find(&p, g->n->val[0]);
	ll_pack_fetch(&p, g->j0);
	for (int m = 0; m < g->f->rows; m++)
		for (int v = 0; v < g->pack; v++) {
			ll_pack_element(&p, g->j0, v);
			ll_bind(k, g->f->row, arena_printf(k->f.arena, "%d", m));
			ll_step(k, g->n, &g->state[m * g->pack + v], zero);
		}
	ll_forget(&k->f);
}

/* The terms of this thread: several in flight at once. */
static void all_terms(Folding *g)
{
	LlKernel *k = g->k;
	const char *lo, *hi;

	ll_ends(k, g->n, &lo, &hi);
	ll_strided(k, g->n->var, ll_op(&k->f, "udiv i64", "%lane", g->lanes), hi,
		   k->stage->threads / g->lanes, true, terms, g);
}

/* Lanes with the same columns become one; each warp leaves what it has. */
static const char *meet(Folding *g)
{
	LlKernel *k = g->k;
	LlFn *f = &k->f;
	const int all = g->f->rows * g->f->cols;
	const DType t = ctype_dtype(g->ct);
	const char *warps = arena_printf(f->arena, "@" KERNEL_NAME ".fold%d", k->nshared++);
	const char *lane = ll_op(f, "and i64", "%lane", 31),
		   *warp = ll_op(f, "lshr i64", "%lane", 5), *at = ll_op(f, "mul i64", warp, all),
		   *first = ll_new(f), *after, *p;

	ll_shared(k, warps, (int64_t)all * k->stage->threads / 32, t);
	for (int i = 0; i < g->f->rows * g->pack; i++)
		for (int off = g->lanes; off < 32; off *= 2) {
			const char *other = ll_shuffled(k, ll_load(k, g->state[i], "0"), g->ct,
							off);

			ll_combine(k, g->n->red, &g->state[i], "0", &other, &g->ct, 1, false);
		}
	ll_put(f, "%s = icmp slt i64 %s, %d", first, lane, g->lanes);
	after = ll_open_if(k, first);
	for (int m = 0; m < g->f->rows; m++)
		for (int v = 0; v < g->pack; v++) {
			const char *to = ll_new(f), *i = ll_new(f), *x;

			ll_put(f, "%s = add i64 %s, %s", i, at, g->j0);
			i = ll_plus(f, i, m * g->f->cols + v);
			ll_put(f, "%s = getelementptr %s, ptr addrspace(3) %s, i64 %s", to,
			       ll_stored(t), warps, i);
			p = ll_load(k, g->state[m * g->pack + v], "0");
			x = ll_encoded(k, t, p);
			ll_put(f, "store %s %s, ptr addrspace(3) %s", ll_stored(t), x, to);
		}
	ll_close_if(k, after);
	ll_barrier(k);
	return warps;
}

/* A thread for each state: what the warps left, and what the state was. */
static void over_warps(Folding *g, const char *warps)
{
	LlKernel *k = g->k;
	LlFn *f = &k->f;
	const int all = g->f->rows * g->f->cols, nwarps = k->stage->threads / 32;
	const DType t = ctype_dtype(g->ct);
	Iter *point = NEW(f->arena, Iter); /* a binding keeps it */
	const char *after = NULL, *exists = NULL;
	LlLoop l;

	*point = (Iter){.name = "t"};
	l = ll_open_loop(k, point, "%lane", arena_printf(f->arena, "%d", all),
			 arena_printf(f->arena, "%d", k->stage->threads));
	vec_push(f->arena, &k->own, l.var);
	ll_forget(f);
	ll_bind(k, g->f->col, ll_op(f, "urem i64", l.var, g->f->cols));
	if (g->n->guard)
		after = ll_open_if(k, ll_expr(f, g->n->guard));
	if (g->f->valid) {
		const char *in = ll_new(f);

		ll_put(f, "%s = icmp slt i64 %s, %s", in, ll_op(f, "udiv i64", l.var, g->f->cols),
		       ll_expr(f, g->f->valid));
		exists = ll_open_if(k, in);
	}
	k->in_team++;
	for (int w = 0; w < nwarps; w++) {
		const char *from = ll_new(f), *code = ll_new(f), *value,
			   *i = ll_plus(f, l.var, (long long)w * all);

		ll_put(f, "%s = getelementptr %s, ptr addrspace(3) %s, i64 %s", from, ll_stored(t),
		       warps, i);
		ll_put(f, "%s = load %s, ptr addrspace(3) %s", code, ll_stored(t), from);
		value = ll_decoded(k, t, code);
		ll_combine(k, g->n->red, g->n->buf, l.var, &value, &g->ct, 1, false);
	}
	k->in_team--;
	ll_close_if(k, exists);
	ll_close_if(k, after);
	ll_close_loop(k, &l);
	ll_barrier(k);
}

void ll_fold(LlKernel *k, const LNode *n)
{
	ExprPool *p = k->sched->kernel->pool;
	Folding g = {.k = k, .n = n, .f = n->fold, .pack = n->pack, .ct = n->val[0]->ct};
	const int nstate = n->fold->rows * n->pack;
	const char *after = NULL;

	g.lanes = n->fold->cols / n->pack;
	assert(g.lanes > 0 && g.lanes <= 32);
	g.state = NEW_ARRAY(k->f.arena, nstate, Buf *);
	for (int i = 0; i < nstate; i++) {
		g.state[i] = NEW(k->f.arena, Buf);
		*g.state[i] = (Buf){
			.name = "part", .id = -1, .kind = BUF_TEMP, .dtype = ctype_dtype(g.ct)};
		ll_declare(k, g.state[i], NULL);
		ll_store(k, g.state[i], "0",
			 ll_const(k->f.arena, monoid_identity(p, n->red, 0, g.ct)));
	}
	g.j0 = ll_op(&k->f, "mul i64", ll_op(&k->f, "urem i64", "%lane", g.lanes), g.pack);
	ll_forget(&k->f);
	ll_bind(k, n->fold->col, g.j0);
	if (n->guard)
		after = ll_open_if(k, ll_expr(&k->f, n->guard));
	k->in_team++;
	all_terms(&g);
	k->in_team--;
	ll_close_if(k, after);
	ll_forget(&k->f);
	over_warps(&g, meet(&g));
}
