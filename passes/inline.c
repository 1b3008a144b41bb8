/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inlining inside a kernel: a temporary that one simple map writes is replaced, where it is read, by what
 * the map computes, rounded to the temporary's element type. Free maps (moves, broadcasts, casts that
 * change nothing) always go; others only where no point is computed twice.
 */
#include "passes/inline.h"

#include <assert.h>

enum { CHEAP = 2 };

typedef struct Inline {
	Kernel *k;
	Stmt *def;
	Buf *buf;
} Inline;

/* def's value with its iterators replaced by the index expressions of a load. */
Expr *inline_value(Kernel *k, const Stmt *def, Expr *const *idx)
{
	Iter *it[MAX_ITERS];
	Expr *with[MAX_ITERS];
	int n = 0;

	for (int i = 0; i < def->nwidx; i++)
		if (def->widx[i]->kind == EX_ITER) {
			it[n] = def->widx[i]->iter;
			with[n++] = idx[i];
		}
	return ex_round(k->pool, def->out[0]->dtype, ex_subst_iters(k->pool, def->val[0], it, with, n));
}

static Expr *inline_load(void *arg, Expr *e)
{
	Inline *in = arg;

	if (e->kind != EX_LOAD || e->load.buf != in->buf)
		return NULL;
	return inline_value(in->k, in->def, e->load.idx);
}

typedef struct Sites {
	const Buf *buf;
	int n;            /* distinct loads */
	bool repeated;    /* one point of the temporary is read at more than one point of a statement */
	bool windowed;    /* read at an index that is no plain iterator */
} Sites;

/* A statement reads each point once where the load's indices are distinct iterators covering all of the
 * statement's. */
static void count_site(void *arg, Stmt *s, Expr *load)
{
	Sites *c = arg;
	int used = 0;

	if (load->load.buf != c->buf)
		return;
	c->n++;
	for (int i = 0; i < s->niters; i++) {
		int hits = 0;

		for (int j = 0; j < load->load.nidx; j++)
			hits += load->load.idx[j]->kind == EX_ITER && load->load.idx[j]->iter == s->iter[i];
		used += hits == 1;
	}
	if (used < s->niters)
		c->repeated = true;
	for (int j = 0; j < load->load.nidx; j++) {
		Expr *e = load->load.idx[j];

		if (e->kind != EX_ITER && e->kind != EX_CONST)
			c->windowed = true;
	}
}

bool inline_is_free(const Stmt *s)
{
	return expr_cost(s->val[0]) == 0;
}

/* In a contraction every element of an operand is packed about once, though many points read it. */
static bool worth(Kernel *k, Stmt *def, Buf *t)
{
	int cost = expr_cost(def->val[0]);
	Sites all = {.buf = t};
	bool contraction = false;

	for (int i = 0; i < k->stmts.n; i++) {
		Contraction c;

		stmt_loads(k->stmts.at[i], count_site, &all);
		if (stmt_reads(k->stmts.at[i], t) && stmt_contraction(k, k->stmts.at[i], &c))
			contraction = true;
	}
	if (cost == 0)
		return true;
	if (contraction)
		return all.n == 1 && !all.windowed && cost <= CHEAP;
	return !all.repeated && !all.windowed ? all.n == 1 || cost <= CHEAP : cost <= CHEAP && all.n <= 2;
}

/* Nothing between the map and its readers may change what the map reads. */
static bool reads_written_later(Kernel *k, int at)
{
	for (int i = at + 1; i < k->stmts.n; i++)
		for (int j = 0; j < k->stmts.at[i]->nout; j++)
			if (stmt_reads(k->stmts.at[at], k->stmts.at[i]->out[j]))
				return true;
	return false;
}

bool kernel_inline(Kernel *k)
{
	bool any = false;

	for (int i = 0; i < k->stmts.n; i++) {
		Stmt *s = k->stmts.at[i];
		Buf *t = s->out[0];
		Inline in = {k, s, t};
		int writers = 0;

		for (int j = 0; j < k->stmts.n; j++)
			writers += stmt_writes(k->stmts.at[j], t);
		if (t->kind != BUF_TEMP || writers != 1 || !stmt_is_simple_map(s) || expr_can_fault(s->val[0]) ||
		    reads_written_later(k, i) || !worth(k, s, t))
			continue;
		for (int j = 0; j < k->stmts.n; j++)
			if (j != i)
				stmt_rewrite(k, k->stmts.at[j], inline_load, &in);
		for (int j = i; j + 1 < k->stmts.n; j++)
			k->stmts.at[j] = k->stmts.at[j + 1];
		k->stmts.n--;
		i = -1;
		any = true;
	}
	if (any)
		kernel_mark_used(k);
	return any;
}
