/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inlining inside a kernel: a temporary that one simple map writes is replaced, wherever it is
 * read, by the map's expression, rounded to the temporary's element type. Free maps (moves,
 * broadcasts, exact casts) are always inlined; others only if no point is computed twice. A map
 * whose index may be out of range is not inlined, so that the error is reported; the exception is a
 * map whose only reader is a product that uses each element once.
 *
 * A temporary whose parts are written by free maps, each at its own index in some dim, as a Concat
 * of indices, is inlined if each load names the part that it reads.
 */
#include "passes/forms/inline.h"
#include "passes/forms/contraction.h"

#include <assert.h>

enum { CHEAP = 2 };

/* DEF's value at the index IDX of a load. */
static Expr *inline_value(Kernel *k, const Stmt *def, Expr *const *idx)
{
	Iter *it[MAX_ITERS];
	Expr *with[MAX_ITERS];
	int n = 0;

	for (int i = 0; i < def->nwidx; i++)
		if (def->widx[i]->kind == EX_ITER) {
			it[n] = def->widx[i]->iter;
			with[n++] = idx[i];
		}
	return ex_round(k->pool, def->out[0]->dtype,
			ex_subst_iters(k->pool, def->val[0], it, with, n));
}

/* The statement of those that write parts of LOAD's buffer, or all of it, that writes what LOAD
 * reads; null: unknown. */
static Stmt *writer_of(const Kernel *k, const Expr *load)
{
	VEC_EACH (s, &k->stmts) {
		bool same = stmt_writes(s, load->load.buf);

		for (int d = 0; same && d < s->nwidx; d++)
			same = s->widx[d]->kind != EX_CONST || s->widx[d] == load->load.idx[d] ||
			       dim_equals(load->load.buf->dims[d], 1);
		if (same)
			return s;
	}
	return NULL;
}

/* Replaces what S loads from the temporary T by the values that the writers of T compute. */
static void inline_into(Kernel *k, Stmt *s, const Buf *t)
{
	STMT_MAP (x, k, s)
		if (x->kind == EX_LOAD && x->load.buf == t)
			x = inline_value(k, writer_of(k, x), x->load.idx);
}

void inline_after(Kernel *k, int at)
{
	for (int i = at + 1; i < k->stmts.n; i++)
		inline_into(k, k->stmts.at[i], k->stmts.at[at]->out[0]);
}

typedef struct Sites {
	const Buf *buf;
	int n; /* number of distinct loads */
	/* an element of the temporary is read at more than one point of a statement */
	bool repeated;
	bool windowed; /* read at an index that is not a plain iterator */
} Sites;

static void count_sites(Sites *c, const Stmt *s)
{
	STMT_EACH_LOAD (x, s) {
		if (x->load.buf != c->buf)
			continue;
		c->n++;
		c->repeated = c->repeated || !load_once(s, x);
		c->windowed = c->windowed || !load_plain(x);
	}
}

bool inline_is_free(const Stmt *s)
{
	return expr_cost(s->val[0]) == 0;
}

/* The statements of a kernel, and the buffers that each one reads. */
typedef struct BufReads {
	Kernel *k;
	Arena *tmp;
	bool **of; /* [statement][Buf.id] */
} BufReads;

static void find_reads(BufReads *r, int at)
{
	Stmt *s = r->k->stmts.at[at];

	r->of[at] = NEW_ARRAY(r->tmp, r->k->bufs.n + 1, bool);
	stmt_mark_loads(s, r->of[at]);
	for (int i = 0; i < s->nout && s->update; i++)
		r->of[at][s->out[i]->id] = true;
}

static void remove_stmt(BufReads *r, int at)
{
	Kernel *k = r->k;

	kernel_remove_stmt(k, at);
	memmove(r->of + at, r->of + at + 1, (size_t)(k->stmts.n - at) * sizeof *r->of);
}

/* In a contraction every element of an operand is packed about once, although many points read
 * it. */
static bool worth(const BufReads *r, Stmt *def, Buf *t)
{
	Kernel *k = r->k;
	int cost = expr_cost(def->val[0]);
	Sites all = {.buf = t};
	bool contraction = false;

	if (cost == 0)
		return true;
	for (int i = 0; i < k->stmts.n; i++) {
		Contraction c;

		if (!r->of[i][t->id])
			continue;
		count_sites(&all, k->stmts.at[i]);
		contraction = contraction || stmt_contraction(k, k->stmts.at[i], &c);
	}
	if (contraction)
		return all.n == 1 && !all.windowed && cost <= CHEAP;
	return !all.repeated && !all.windowed ? all.n == 1 || cost <= CHEAP
					      : cost <= CHEAP && all.n <= 2;
}

/* Whether a statement between the map and one of its readers changes what the map reads. */
static bool reads_written_later(const BufReads *r, int at)
{
	for (int i = at + 1; i < r->k->stmts.n; i++)
		for (int j = 0; j < r->k->stmts.at[i]->nout; j++)
			if (r->of[at][r->k->stmts.at[i]->out[j]->id])
				return true;
	return false;
}

static bool written_once(const Kernel *k, const Buf *t)
{
	int writers = 0;

	for (int i = 0; i < k->stmts.n; i++)
		writers += stmt_writes(k->stmts.at[i], t);
	return writers == 1;
}

/* Statement AT gathers matrices for only one product, which can read them in place
 * (stmt_gathered_product). */
static bool gathers_for_product(const BufReads *r, int at)
{
	Kernel *k = r->k;
	Stmt *def = k->stmts.at[at], *reader = NULL;
	Sites all = {.buf = def->out[0]};
	Contraction c;

	for (int i = 0; i < k->stmts.n; i++) {
		if (!r->of[i][def->out[0]->id])
			continue;
		if (reader)
			return false;
		reader = k->stmts.at[i];
	}
	if (!reader || !inline_is_free(def) || !stmt_gathered_product(k, reader, &c) ||
	    c.b->load.buf != def->out[0] || !load_whole(c.b))
		return false;
	count_sites(&all, reader);
	return all.n == 1 && contraction_gathers(&c, inline_value(k, def, c.b->load.idx));
}

/* Whether statement AT may be inlined, ignoring faults. R lists the buffers that it reads. */
static bool may_inline(const BufReads *r, int at)
{
	const Stmt *s = r->k->stmts.at[at];

	return s->out[0]->kind == BUF_TEMP && written_once(r->k, s->out[0]) &&
	       stmt_is_simple_map(s) && !reads_written_later(r, at);
}

bool inline_may(Kernel *k, int at)
{
	ARENA_LOCAL(tmp);
	BufReads r = {k, tmp, NEW_ARRAY(tmp, k->stmts.n + 1, bool *)};

	find_reads(&r, at);
	return may_inline(&r, at) && !expr_can_fault(k->stmts.at[at]->val[0]);
}

/* Whether the temporary T may be inlined though several statements write it: each is a free map of
 * a part, and each load reads one part. */
static bool may_inline_parts(const BufReads *r, const Buf *t)
{
	if (t->kind != BUF_TEMP || written_once(r->k, t))
		return false;
	for (int i = 0; i < r->k->stmts.n; i++) {
		const Stmt *s = r->k->stmts.at[i];

		if (stmt_writes(s, t) &&
		    (!stmt_is_part(s) || !inline_is_free(s) || expr_can_fault(s->val[0]) ||
		     reads_written_later(r, i)))
			return false;
		if (!r->of[i][t->id])
			continue;
		STMT_EACH_LOAD (x, s)
			if (x->load.buf == t && !writer_of(r->k, x))
				return false;
	}
	return true;
}

bool kernel_inline(Kernel *k)
{
	ARENA_LOCAL(tmp);
	BufReads r = {k, tmp, NEW_ARRAY(tmp, k->stmts.n + 1, bool *)};
	bool any = false;

	for (int i = 0; i < k->stmts.n; i++)
		find_reads(&r, i);
	for (int i = 0; i < k->stmts.n; i++) {
		Stmt *s = k->stmts.at[i];
		Buf *t = s->out[0];

		if (!may_inline_parts(&r, t) &&
		    (!may_inline(&r, i) || !worth(&r, s, t) ||
		     (expr_can_fault(s->val[0]) && !gathers_for_product(&r, i))))
			continue;
		for (int j = 0; j < k->stmts.n; j++) {
			if (!r.of[j][t->id])
				continue;
			inline_into(k, k->stmts.at[j], t);
			find_reads(&r, j);
		}
		for (int j = k->stmts.n - 1; j >= 0; j--)
			if (stmt_writes(k->stmts.at[j], t))
				remove_stmt(&r, j);
		i = -1;
		any = true;
	}
	if (any)
		kernel_mark_used(k);
	return any;
}
