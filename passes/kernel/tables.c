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
 * channels of 50x50 pixels, resized to 65x65 by a scale, took 0.35 ms on AVX2, with tables 0.11.
 * The factors of interpolation become tables as coordinates do; other values stay. Where channels
 * are innermost, generated code computes coordinates before the loop over channels, so they
 * stay. So do indices of reshaped tensors, as floordiv(i, 7): loops are divided by them.
 */
#include "passes/forms/ahead.h"
#include "passes/forms/contraction.h"
#include "passes/forms/form.h"
#include "passes/forms/kernels.h"

#include <limits.h>
#include <stdlib.h>

enum {
	LEAST_SHARED = 8, /* points for each element of a table */
	/* Points of a statement: a kernel for each table takes longer than fewer points. Crops of
	 * 7x7 pixels of 3 channels, one at a time, took 20 us each, and with tables 46. */
	LEAST_POINTS = 1024,
	SHORT_ROW = 32, /* points of an innermost loop before which a coordinate is not computed */
	MOST_TABLES = 32, /* of a kernel */
	/* Bytes of tables that a kernel reads again and again, for each channel. GridSample has 12
	 * tables, 52 bytes a pixel. On AVX2, 8 channels of 256x256 pixels, 3.3 MiB, took 8.4 ms,
	 * with tables 3.2; of 512x512, 13 MiB, 32 and 25. AVX-512 has all the conversions for
	 * vectors, so tables pay only within a cache: 8 channels of 64x64, 208 KiB,
	 * took 0.074 ms, with tables 0.067, of 256x256 1.2 and 1.4, of 512x512 5.4 and 10, of
	 * 2000x2000 125 and 290. */
	MOST_BYTES = 16 << 20,
	MOST_BYTES_AVX512 = 256 << 10
};

typedef struct Tables {
	Precomputed ahead;
	Node *n;
	Stmt *s;
	bool shifts; /* they count as divisions in S */
	/* by Expr.id: seen where always evaluated, and where it may not be; part of an index */
	bool *seen, *seen_maybe, *in_index;
	Expr *found[MOST_TABLES];
	int nfound, most_dims;
	int64_t most_bytes;
	int64_t bytes; /* of what was found */
	int made;      /* tables of the statements before S */
	int64_t made_bytes;
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

/* The iterators of S that E depends on, those of the sum first, so that elements for adjacent
 * points are adjacent. */
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

/* S may have no points although E's iterators have some: y[c,i] where there are no channels. */
static bool may_lack_points(Ctx *c, const Stmt *s, Expr *e)
{
	bool may = false;

	for (int i = 0; i < s->niters && !may; i++)
		may = !expr_has_iter(e, s->iter[i]) &&
		      !dim_prove_le(c, dim_const(c, 1), s->iter[i]->extent);
	return may;
}

/* Whether E's operands can be loaded before the kernel, at all points of E's iterators; MAYBE: not
 * all points of the kernel load them. */
static bool can_load_ahead(ExprPool *pool, const Stmt *s, Expr *e, bool maybe)
{
	maybe |= may_lack_points(expr_ctx(pool), s, e);
	EX_EACH_LOAD (x, e) {
		if (x->load.buf->kind != BUF_IN && !x->load.buf->data)
			return false;
		for (int i = 0; i < x->load.nidx; i++)
			if (maybe && !ex_in_range(pool, x->load.idx[i], x->load.buf->dims[i]))
				return false;
	}
	return true;
}

/* The iterator of the innermost axis in memory of what S stores; null: it is not known. */
static Iter *innermost(const Stmt *s)
{
	const int d = buf_innermost(s->out[0]);

	return d >= 0 && s->widx[d]->kind == EX_ITER ? s->widx[d]->iter : NULL;
}

/* E is a coordinate or a factor of an interpolation: it loads nothing that coordinates do not. */
static bool is_of_samples(const Tables *t, Expr *e)
{
	EX_EACH_LOAD (x, e)
		if (!t->in_index[x->id])
			return false;
	return true;
}

/* The dims of the table of E that a kernel runs through between two uses of one element, and
 * *BYTES, the most bytes of elements in them, up to INT_MAX. A single dim counts as no bytes.
 *
 *     y[n,c,i] = x[n,c,t[n,i]] runs through t's last dim for each n and c */
static int reused_dims(Ctx *c, const Stmt *s, Expr *e, int64_t *bytes)
{
	int64_t size = ctype_bytes(e->ct), least, most;
	bool shared = false;
	int n = 0;

	for (int i = 0; i < s->niters; i++)
		if (!expr_has_iter(e, s->iter[i])) {
			shared = true;
		} else if (shared) {
			dim_bounds(c, s->iter[i]->extent, &least, &most);
			size = most < INT_MAX && size * most < INT_MAX ? size * most : INT_MAX;
			n++;
		}
	*bytes = n > 1 ? size : 0;
	return n;
}

static int64_t most_bytes(const Module *m)
{
	for (int i = 0; i < m->ntargets; i++)
		if (m->target[i]->vector_bytes >= 64)
			return MOST_BYTES_AVX512;
	return MOST_BYTES;
}

/* E becomes a table; MAYBE: not every point evaluates it. */
static bool is_table(const Tables *t, Expr *e, bool maybe)
{
	Iter *it[MAX_ITERS];
	const int n = e->kind == EX_INST ? iters_of(t->s, e, it) : 0;
	Ctx *ctx = node_kernel(t->n)->ctx;
	int64_t bytes;
	Cost c;

	if (!n || n > MAX_RANK || n == t->s->niters || !is_shared(t->s, e) ||
	    !is_of_samples(t, e) || expr_can_fault(e) ||
	    !can_load_ahead(node_kernel(t->n)->pool, t->s, e, maybe) ||
	    reused_dims(ctx, t->s, e, &bytes) > t->most_dims || bytes > t->most_bytes)
		return false;
	c = cost_of(ctx, e);
	return c.index || c.number || (t->shifts && c.shift);
}

static void add_table(Tables *t, Expr *e)
{
	int64_t bytes;

	for (int i = 0; i < t->nfound; i++)
		if (t->found[i] == e)
			return;
	if (t->made + t->nfound == MOST_TABLES || t->n->nin + t->nfound >= MAX_PARAMS)
		return;
	t->found[t->nfound++] = e;
	reused_dims(node_kernel(t->n)->ctx, t->s, e, &bytes);
	t->bytes += bytes;
}

/* Finds the largest expressions in E that become tables; MAYBE: not every point evaluates E. GUARD:
 * E is the guard, whose comparisons stay, since they bound loops. */
static void find_tables(Tables *t, Expr *e, bool maybe, bool guard)
{
	bool *seen = maybe ? t->seen_maybe : t->seen;
	Expr *const *of;
	const int n = ex_operands(e, &of);

	if (seen[e->id] || t->seen[e->id])
		return;
	seen[e->id] = true;
	if (!(guard && e->ct == CT_BOOL) && is_table(t, e, maybe)) {
		add_table(t, e);
		return;
	}
	for (int i = 0; i < n; i++)
		find_tables(t, of[i], maybe || (i > 0 && ex_is_op(e, IN_select)), guard);
}

/* Finds the tables of T's statement of which up to DIMS dims are read again and again. */
static void find_in_stmt(Tables *t, int dims, Arena *tmp)
{
	const Stmt *s = t->s;
	const int n = expr_count(node_kernel(t->n)->pool);

	t->most_dims = dims;
	t->nfound = 0;
	t->bytes = 0;
	t->seen = NEW_ARRAY(tmp, n, bool);
	t->seen_maybe = NEW_ARRAY(tmp, n, bool);
	if (s->guard)
		find_tables(t, s->guard, false, true);
	for (int i = 0; i < (s->red ? monoid_info[s->red].n : s->nout); i++)
		find_tables(t, s->val[i], s->guard != NULL, false);
}

/* Something that was found differs along the innermost loop. */
static bool is_along_loop(const Tables *t)
{
	Iter *it = innermost(t->s);
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
	t->made += t->nfound;
	t->made_bytes += t->bytes;
}

static void tables_of_stmt(Tables *t, Stmt *s, Arena *tmp)
{
	Ctx *c = node_kernel(t->n)->ctx;
	const Cost cost = cost_of_samples(c, s);

	if (s->ordered || s->scan || !cost.index || has_few_points(s))
		return;
	t->s = s;
	t->shifts = cost.shift;
	t->in_index = NEW_ARRAY(tmp, expr_count(node_kernel(t->n)->pool), bool);
	STMT_EACH_LOAD (load, s)
		for (int i = 0; i < load->load.nidx; i++)
			EX_EACH (x, load->load.idx[i])
				t->in_index[x->id] = true;
	find_in_stmt(t, MAX_RANK, tmp);
	if (t->made_bytes + t->bytes > t->most_bytes)
		find_in_stmt(t, 1, tmp);
	if (is_along_loop(t))
		make_tables(t);
}

static bool may_have_tables(Module *m, Node *n)
{
	const Kernel *k = node_kernel(n);
	FormKind kind;

	if (!k || node_on_host(n) || kernel_calls_routine(k) || kernel_has_strings(k))
		return false;
	kind = module_form(m, n)->kind;
	return kind == FORM_MAP || kind == FORM_ROW || kind == FORM_ORDER;
}

static void tables_of_kernel(Tables *t)
{
	Kernel *k = node_kernel(t->n);
	ARENA_LOCAL(tmp);

	t->made = 0;
	t->made_bytes = 0;
	for (int i = 0; i < k->stmts.n; i++)
		tables_of_stmt(t, k->stmts.at[i], tmp);
	if (!t->made)
		return;
	node_drop_unused_inputs(t->n);
	form_changed(t->ahead.m, t->n);
}

bool pass_tables(Module *m)
{
	Tables t;

	if (m->opt.level <= 0 || module_on_gpu(m))
		return true;
	t = (Tables){.ahead = ahead_new(m), .most_bytes = most_bytes(m)};
	for (t.n = m->graph->first; t.n; t.n = t.n->next)
		if (may_have_tables(m, t.n))
			tables_of_kernel(&t);
	return true;
}
