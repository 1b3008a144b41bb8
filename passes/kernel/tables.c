/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables: for CPUs, coordinates of samples are computed once, by kernels of their own, where many
 * points share them:
 *
 *     y[c,i] = x[c,max(min(floordiv(i*(2*n) + n - m, 2*m), n - 1), 0)]
 *
 * becomes
 *
 *     t[i]   = max(min(floordiv(i*(2*n) + n - m, 2*m), n - 1), 0)
 *     y[c,i] = x[c,t[i]]
 *
 * Without the division by a size, which no CPU has for vectors, the loop over i is vectorised. 21
 * channels of 50x50 pixels, resized to 65x65 by a scale, took 0.35 ms on AVX2, and 0.11 so. Where
 * channels are innermost, generated code computes coordinates before the loop over channels, so they
 * stay. So do indices of reshaped tensors, as floordiv(i, 7): loops are divided by them.
 */
#include "passes/forms/ahead.h"
#include "passes/forms/contraction.h"
#include "passes/forms/form.h"
#include "passes/forms/kernels.h"

#include <stdlib.h>

enum {
	LEAST_SHARED = 8, /* points for each element of a table */
	/* Points of a statement: a kernel for each table takes longer than fewer points. Crops of 7x7
	 * pixels of 3 channels, one at a time, took 20 us each, and with tables 46. */
	LEAST_POINTS = 1024,
	SHORT_ROW = 32,  /* points of an innermost loop before which a coordinate is not computed */
	MOST_TABLES = 32 /* of a kernel */
};

typedef struct Tables {
	Precomputed ahead;
	Node *n;
	Stmt *s;
	bool shifts; /* they count as divisions in S */
	bool *seen,
		*seen_maybe; /* by Expr.id: where it is always evaluated, and where it may not be */
	Expr *found[MOST_TABLES];
	int nfound;
} Tables;

/* ---- What costs much ---- */

/* X increases by more than one along its only iterator. */
static bool is_scaled(Ctx *c, Expr *x)
{
	Affine f;

	return ex_affine(c, x, &f) && f.n == 1 && !dim_equals(f.coef[0], 1);
}

static bool is_power_of_two(const Expr *e)
{
	return e->kind == EX_CONST && e->i > 0 && !(e->i & (e->i - 1));
}

typedef struct Cost {
	Ctx *ctx;
	bool index;  /* a number is rounded to an integer, or a scaled coordinate is divided */
	bool shift;  /* a scaled coordinate is shifted */
	bool dims;   /* there are sizes that are not known when compiling */
	bool number; /* a number is divided or rounded */
} Cost;

static void add_cost(Cost *c, const Expr *e)
{
	c->dims |= e->kind == EX_DIM;
	if (e->kind != EX_INST)
		return;
	switch (e->op.inst) {
	case IN_cvt: c->index |= !ctype_is_float(e->ct) && ctype_is_float(e->op.arg[0]->ct); break;
	case IN_floor:
	case IN_ceil:
	case IN_div: c->number = true; break;
	case IN_floordiv:
	case IN_mod:
		if (is_scaled(c->ctx, e->op.arg[0]))
			*(is_power_of_two(e->op.arg[1]) ? &c->shift : &c->index) = true;
		break;
	default: break;
	}
}

/* Shifts between constant bounds cost less than a table: 21 channels of 12x12 pixels, resized to
 * 192x192, took 0.32 ms, with tables 0.79. Between bounds that are not known, of 50x50 pixels to
 * 100x100, 0.72 and 0.23. */
static Cost cost_of(Ctx *ctx, Expr *e)
{
	Cost c = {.ctx = ctx};

	EX_EACH (x, e)
		add_cost(&c, x);
	return c;
}

/* The indices of S's loads: whether one costs much (index), and whether shifts do (shift). */
static Cost cost_of_samples(Ctx *ctx, Stmt *s)
{
	Cost c = {.ctx = ctx};

	STMT_EACH_LOAD (load, s)
		for (int i = 0; i < load->load.nidx; i++) {
			const Cost at = cost_of(ctx, load->load.idx[i]);

			c.index |= at.index || (at.shift && at.dims);
			c.shift |= at.shift && at.dims;
		}
	return c;
}

/* ---- What becomes a table ---- */

/* The iterators of S that E depends on, those of the sum first, so that elements for adjacent points
 * are adjacent. */
static int iters_of(const Stmt *s, Expr *e, Iter **it)
{
	int n = 0;

	for (int i = s->nband; i < s->niters; i++)
		if (expr_has_iter(e, s->iter[i]))
			it[n++] = s->iter[i];
	for (int i = 0; i < s->nband; i++)
		if (expr_has_iter(e, s->iter[i]))
			it[n++] = s->iter[i];
	return n;
}

/* LEAST_SHARED points of S or more, as far as is known, have the same value of E. */
static bool is_shared(const Stmt *s, Expr *e)
{
	int64_t points = 1, n;

	for (int i = 0; i < s->niters; i++)
		if (expr_has_iter(e, s->iter[i]))
			continue;
		else if (dim_is_const(s->iter[i]->extent, &n))
			points *= n;
		else
			return true;
	return points >= LEAST_SHARED;
}

/* S has too few points for tables. A first dim of unknown size may be 1, as of a batch. */
static bool has_few_points(const Stmt *s)
{
	int64_t points = 1, n;

	for (int i = 0; i < s->niters; i++)
		if (dim_is_const(s->iter[i]->extent, &n))
			points = points * n < LEAST_POINTS ? points * n : LEAST_POINTS;
		else if (i)
			return false;
	return points < LEAST_POINTS;
}

/* What E loads can be loaded before the kernel, at all points of E's iterators; MAYBE: not all points
 * of the kernel load it. */
static bool can_load_ahead(ExprPool *pool, Expr *e, bool maybe)
{
	EX_EACH_LOAD (x, e) {
		if (x->load.buf->kind != BUF_IN && !x->load.buf->data)
			return false;
		for (int i = 0; i < x->load.nidx; i++)
			if (maybe && !ex_in_range(pool, x->load.idx[i], x->load.buf->dims[i]))
				return false;
	}
	return true;
}

/* The iterator of the innermost axis in memory of what T's kernel stores; null: it is not known. */
static Iter *innermost(const Tables *t)
{
	const Kernel *k = node_kernel(t->n);
	const Stmt *last = k->stmts.at[k->stmts.n - 1];
	const Buf *b = last->out[0];
	int axis = b->layout ? b->layout->n - 1 : b->rank - 1, d = -1;

	for (; axis >= 0; axis--) {
		d = b->layout ? b->layout->ax[axis].dim : axis;
		if (!dim_equals(b->dims[d], 1))
			break;
	}
	return axis >= 0 && d < t->s->nwidx && t->s->widx[d]->kind == EX_ITER ? t->s->widx[d]->iter
									      : NULL;
}

/* E becomes a table; MAYBE: not every point evaluates it. */
static bool is_table(const Tables *t, Expr *e, bool maybe)
{
	Iter *it[MAX_ITERS];
	const int n = e->kind == EX_INST ? iters_of(t->s, e, it) : 0;
	Cost c;

	if (!n || n > MAX_RANK || n == t->s->niters || !is_shared(t->s, e) || expr_can_fault(e) ||
	    !can_load_ahead(node_kernel(t->n)->pool, e, maybe))
		return false;
	c = cost_of(node_kernel(t->n)->ctx, e);
	return c.index || c.number || (t->shifts && c.shift);
}

/* Finds the largest expressions in E that become tables; MAYBE: not every point evaluates E. GUARD: E
 * is the guard, whose comparisons stay, since they bound loops. */
static void find_tables(Tables *t, Expr *e, bool maybe, bool guard)
{
	bool *seen = maybe ? t->seen_maybe : t->seen;
	Expr *const *of;
	const int n = ex_operands(e, &of);

	if (seen[e->id] || t->seen[e->id])
		return;
	seen[e->id] = true;
	if (!(guard && e->ct == CT_BOOL) && is_table(t, e, maybe)) {
		bool known = false;

		for (int i = 0; i < t->nfound; i++)
			known |= t->found[i] == e;
		if (!known && t->nfound < MOST_TABLES)
			t->found[t->nfound++] = e;
		return;
	}
	for (int i = 0; i < n; i++)
		find_tables(t, of[i], maybe || (i > 0 && ex_is_op(e, IN_select)), guard);
}

/* Something that was found differs along the innermost loop. */
static bool is_along_loop(const Tables *t)
{
	Iter *it = innermost(t);
	bool along = !it || iters_fewer(node_kernel(t->n)->ctx, &it, 1, SHORT_ROW);

	for (int i = 0; i < t->nfound && !along; i++)
		along = expr_has_iter(t->found[i], it);
	return along && t->nfound;
}

/* ---- The pass ---- */

/* Expressions are replaced before their operands, whose ids are smaller. */
static int by_id(const void *a, const void *b)
{
	const Expr *const *x = a, *const *y = b;

	return ((*y)->id > (*x)->id) - ((*y)->id < (*x)->id);
}

static void make_tables(Tables *t)
{
	Kernel *k = node_kernel(t->n);

	qsort(t->found, (size_t)t->nfound, sizeof *t->found, by_id);
	for (int i = 0; i < t->nfound; i++) {
		Iter *it[MAX_ITERS];
		const int n = iters_of(t->s, t->found[i], it);
		Buf *b = node_add_operand(
			t->n, "table",
			ahead_value(&t->ahead, t->n, t->s, t->found[i], it, n, "table", "table"));

		stmt_replace(k, t->s, t->found[i], kernel_load_iters(k, b, it));
	}
}

/* Finds the tables of S. */
static void tables_of_stmt(Tables *t, Stmt *s, Arena *tmp)
{
	Ctx *c = node_kernel(t->n)->ctx;
	const Cost cost = cost_of_samples(c, s);
	const int n = expr_count(node_kernel(t->n)->pool);

	t->s = s;
	t->shifts = cost.shift;
	t->nfound = 0;
	if (s->ordered || s->scan || !cost.index || has_few_points(s))
		return;
	t->seen = NEW_ARRAY(tmp, n, bool);
	t->seen_maybe = NEW_ARRAY(tmp, n, bool);
	if (s->guard)
		find_tables(t, s->guard, false, true);
	for (int i = 0; i < (s->red ? monoid_info[s->red].n : s->nout); i++)
		find_tables(t, s->val[i], s->guard != NULL, false);
}

static bool may_have_tables(Module *m, Node *n)
{
	const Kernel *k = node_kernel(n);
	FormKind kind;

	if (!k || node_on_host(n) || kernel_calls_routine(k) || kernel_has_strings(k))
		return false;
	kind = form_of(m, n).kind;
	return kind == FORM_MAP || kind == FORM_ROW || kind == FORM_ORDER;
}

static void tables_of_kernel(Tables *t, Arena *tmp)
{
	Kernel *k = node_kernel(t->n);
	bool along = false;

	for (int i = 0; i < k->stmts.n && !along; i++) {
		tables_of_stmt(t, k->stmts.at[i], tmp);
		along = is_along_loop(t);
	}
	for (int i = 0; i < k->stmts.n && along; i++) {
		tables_of_stmt(t, k->stmts.at[i], tmp);
		make_tables(t);
	}
	if (!along)
		return;
	node_drop_unused_inputs(t->n);
	form_changed(t->ahead.m, t->n);
}

bool pass_tables(Module *m)
{
	Tables t = {.ahead = ahead_new(m)};

	for (t.n = m->graph->first; t.n && m->opt.level > 0 && !module_on_gpu(m); t.n = t.n->next) {
		Arena *tmp = arena_new();
		Kernel *k = node_kernel(t.n);
		bool any = false;

		for (int i = 0; k && i < k->stmts.n; i++)
			any |= cost_of_samples(m->ctx, k->stmts.at[i]).index;
		if (any && may_have_tables(m, t.n))
			tables_of_kernel(&t, tmp);
		arena_free(tmp);
	}
	return true;
}
