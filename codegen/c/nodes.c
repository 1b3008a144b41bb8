/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the nodes of a loop tree as C statements. */
#include "codegen/c/gen_c_impl.h"

#include "codegen/c/tile.h"
#include "passes/kernel/kernels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void find_fault(void *arg, Expr *e)
{
	if (e->kind == EX_INST && e->op.inst == IN_index)
		((Fn *)arg)->faults = true;
}

static void tabs(Fn *f)
{
	for (int i = 0; i < f->indent; i++)
		strbuf_puts(&f->body, "\t");
}

/* The texts of N expressions, after printing their temporaries; the text of a null one is empty. */
static void texts(Fn *f, Expr *const *e, int n, StrBuf *out)
{
	Expr *nonnull[8] = {NULL};
	StrBuf text[8] = {{0}};
	int m = 0;

	for (int i = 0; i < n; i++)
		if (e[i]) {
			ex_walk(e[i], find_fault, f);
			nonnull[m++] = e[i];
		}
	c_exprs(&f->body, text, nonnull, m, &f->cb, f->indent, &f->ntemp);
	m = 0;
	for (int i = 0; i < n; i++)
		if (e[i])
			out[i] = text[m++];
}

/* Opens a block under a guard; temporaries of the guarded part are computed inside. */
static bool open_guard(Fn *f, Expr *guard)
{
	StrBuf t = {0};

	if (!guard)
		return false;
	texts(f, &guard, 1, &t);
	tabs(f);
	strbuf_printf(&f->body, "if (%s) {\n", strbuf_str(&t));
	strbuf_free(&t);
	f->indent++;
	return true;
}

static void close_block(Fn *f)
{
	f->indent--;
	tabs(f);
	strbuf_puts(&f->body, "}\n");
}

static void print_one_store(Fn *f, const LNode *n)
{
	Expr *e[] = {n->idx, n->val[0]};
	StrBuf t[2] = {{0}};
	bool guarded = open_guard(f, n->guard);

	texts(f, e, 2, t);
	tabs(f);
	fn_store(f, &f->body, n->buf[0], strbuf_str(&t[0]), strbuf_str(&t[1]));
	strbuf_free(&t[0]);
	strbuf_free(&t[1]);
	if (guarded)
		close_block(f);
}

/* Prints state[at] = combine(state[at], val), for all components together. */
static void print_update(Fn *f, const LNode *n, Buf *const *state, Expr *at)
{
	ExprPool *p = f->sched->kernel->pool;
	Expr *a[2], *b[2], *e[3] = {at};
	StrBuf t[3] = {{0}};
	bool guarded = open_guard(f, n->guard);

	for (int i = 0; i < n->nout; i++) {
		a[i] = ex_load(p, state[i], &at, 1);
		b[i] = n->val[i];
	}
	for (int i = 0; i < n->nout; i++)
		e[i + 1] = monoid_step(p, n->red, i, a, b);
	texts(f, e, n->nout + 1, t);
	if (n->nout == 2) {
		tabs(f);
		strbuf_printf(&f->body, "const %s u%d = %s;\n", c_type(e[2]->ct), f->ntemp,
			      strbuf_str(&t[2]));
		strbuf_free(&t[2]);
		strbuf_printf(&t[2], "u%d", f->ntemp++);
	}
	for (int i = 0; i < n->nout; i++) {
		tabs(f);
		fn_store(f, &f->body, state[i], strbuf_str(&t[0]), strbuf_str(&t[i + 1]));
	}
	for (int i = 0; i < 3; i++)
		strbuf_free(&t[i]);
	if (guarded)
		close_block(f);
}

/* A tile node in N accesses B, by its address. */
static bool in_tile(const LNode *n, const Buf *b)
{
	for (; n; n = n->next)
		if ((n->tile && (n->tile->acc == b || n->tile->a == b || n->tile->b == b ||
				 n->tile->runs == b || n->tile->edge == b)) ||
		    in_tile(n->body, b))
			return true;
	return false;
}

static void declare(Fn *f, Buf *b, Expr *offset)
{
	Dim *n = dim_const(f->sched->kernel->ctx, 1);
	const char *type = c_memory_type(b->dtype), *name;
	int64_t count = 0;

	for (int i = 0; i < b->rank; i++)
		n = dim_mul(f->sched->kernel->ctx, n, b->dims[i]);
	vec_push(f->g->arena, &f->locals, b);
	vec_push(f->g->arena, &f->scalar,
		 dim_equals(n, 1) && !offset && !c_converts(b->dtype) &&
			 !in_tile(f->stage->body, b));
	name = fn_name(f, b, b->name);
	tabs(f);
	if (vec_last(&f->scalar)) {
		/* a variable has the scalar type; a bool or small integer keeps its type, which
		 * bounds its range */
		strbuf_printf(&f->body, "%s %s;\n",
			      dtype_info[b->dtype].bits < 32 ? c_memory_type(b->dtype)
							     : c_type(dtype_ctype(b->dtype)),
			      name);
	} else if (offset) {
		StrBuf at = {0};

		texts(f, &offset, 1, &at);
		strbuf_printf(&f->body, "%s *const %s = ", type ? type : "uint8_t", name);
		strbuf_printf(&f->body,
			      strcmp(strbuf_str(&at), "0") ? "(void *)((char *)scratch + (%s));\n"
							   : "scratch;\n",
			      strbuf_str(&at));
		f->scratch = true;
		strbuf_free(&at);
	} else {
		if (!dim_is_const(n, &count))
			abort(); /* l_local puts buffers of unknown size into scratch */
		if (!type)
			count = dtype_size(b->dtype, count);
		strbuf_printf(&f->body, "%s %s[%lld] __attribute__((aligned(64)));\n",
			      type ? type : "uint8_t", name, (long long)(count ? count : 1));
	}
}

/* Notes whether N's variable is never negative, by its first value. */
static void note_natural(Fn *f, const LNode *n)
{
	bool natural = fn_natural(f, n->lo);

	for (int i = 0; i < f->naturals.n; i++)
		if (f->naturals.at[i] == n->var)
			f->naturals.at[i] = NULL;
	if (natural)
		vec_push(f->g->arena, &f->naturals, n->var);
}

static bool const_range(const Fn *f, const LNode *n, int64_t *trips)
{
	const Expr *span = ex_sub(f->sched->kernel->pool, n->hi, n->lo);

	*trips = span->i;
	return span->kind == EX_CONST;
}

/* The name of the variable that holds the upper bound of N's iterator. */
static const char *end_name(Fn *f, const LNode *n)
{
	return fn_name(f, &n->hi, arena_printf(f->g->arena, "%s_end", n->var->name));
}

/* Combines the partial states PART of N's lanes in the first of them: each half with the other, in
 * vectors. One after another, they would each wait for the one before. */
static void print_halving(Fn *f, const LNode *n, Buf *const *part, Iter *lane, int lanes)
{
	ExprPool *p = f->sched->kernel->pool;
	Iter *half = NEW(f->g->arena, Iter);
	const char *at, *by;
	LNode fold = *n;

	*half = (Iter){.name = "half", .extent = lane->extent};
	at = fn_name(f, lane, "lane");
	by = fn_name(f, half, "half");
	tabs(f);
	strbuf_puts(&f->body, "DL_UNROLL\n");
	tabs(f);
	strbuf_printf(&f->body, "for (int64_t %s = %d; %s > 0; %s /= 2) {\n", by, lanes / 2, by,
		      by);
	f->indent++;
	tabs(f);
	strbuf_puts(&f->body, "DL_IVDEP\n");
	tabs(f);
	strbuf_printf(&f->body, "for (int64_t %s = 0; %s < %s; %s++) {\n", at, at, by, at);
	f->indent++;
	for (int i = 0; i < n->nout; i++) {
		Expr *from = ex_add(p, ex_iter(p, lane), ex_iter(p, half));

		fold.val[i] = ex_load(p, part[i], &from, 1);
	}
	fold.guard = NULL;
	print_update(f, &fold, part, ex_iter(p, lane));
	close_block(f);
	close_block(f);
}

/* Vectors of partial states of a reduction in lanes. Each depends on the one before it for the latency of an instruction, such as
 * 4 cycles of a multiply-add whose operands take one cycle to load: two vectors of sums are half idle. Four of them pay only where
 * a row is long, for they take another step to combine; where there are two states, registers would not suffice. */
enum { LANE_VECTORS = 2, LONG_LANE_VECTORS = 4, LONG_LANE_TRIPS = 256 };

/* The lanes of N, a reduction of TRIPS terms or, where that is 0, of an unknown number. */
static int64_t lanes_of(const Fn *f, const LNode *n, int64_t trips)
{
	const bool is_long = trips >= LONG_LANE_TRIPS && n->nout == 1;

	return (is_long ? LONG_LANE_VECTORS : LANE_VECTORS) * f->g->target->vector_bytes /
	       (dtype_info[ctype_dtype(n->val[0]->ct)].bits / 8);
}

/* Prints a reduction in lanes: a vectorisable loop over independent partial states, a loop over the
 * remainder, and those that combine the lanes. */
static void print_reduce(Fn *f, const LNode *n)
{
	ExprPool *p = f->sched->kernel->pool;
	int64_t trips;
	const bool fixed = const_range(f, n, &trips);
	const int64_t lanes = lanes_of(f, n, fixed ? trips : 0);
	const char *var = fn_name(f, n->var, n->var->name), *at, *end;
	Iter *lane = NEW(f->g->arena, Iter);
	Buf *part[2] = {NULL, NULL};
	StrBuf lo = {0}, hi = {0};
	Expr *ends[] = {n->lo, n->hi};
	StrBuf t[2] = {{0}};
	const bool small = fixed && trips < 2 * lanes;

	texts(f, ends, 2, t);
	note_natural(f, n);
	lo = t[0];
	hi = t[1];
	if (small) {
		tabs(f);
		strbuf_printf(&f->body, "for (int64_t %s = %s; %s < %s; %s++) {\n", var,
			      strbuf_str(&lo), var, strbuf_str(&hi), var);
		f->indent++;
		print_update(f, n, n->buf, ex_int(p, CT_I64, 0));
		close_block(f);
		strbuf_free(&lo);
		strbuf_free(&hi);
		return;
	}
	at = fn_name(f, &n->lo, arena_printf(f->g->arena, "%s_at", n->var->name));
	end = end_name(f, n);
	tabs(f);
	strbuf_puts(&f->body, "{\n");
	f->indent++;
	*lane = (Iter){.name = "lane", .extent = dim_const(f->sched->kernel->ctx, lanes)};
	for (int i = 0; i < n->nout; i++) {
		Dim *d = lane->extent;
		StrBuf id = {0};
		Expr *identity = monoid_identity(p, n->red, i, n->val[i]->ct);

		part[i] = NEW(f->g->arena, Buf);
		*part[i] = (Buf){.name = "part",
				 .dtype = ctype_dtype(n->val[i]->ct),
				 .rank = 1,
				 .dims = NEW(f->g->arena, Dim *)};
		part[i]->dims[0] = d;
		declare(f, part[i], NULL);
		texts(f, &identity, 1, &id);
		tabs(f);
		strbuf_printf(&f->body, "for (int l = 0; l < %d; l++)\n", (int)lanes);
		tabs(f);
		strbuf_printf(&f->body, "\t%s[l] = %s;\n", fn_name(f, part[i], "part"),
			      strbuf_str(&id));
		strbuf_free(&id);
	}
	tabs(f);
	strbuf_printf(&f->body, "const int64_t %s = %s;\n", end, strbuf_str(&hi));
	tabs(f);
	strbuf_printf(&f->body, "int64_t %s = %s;\n", at, strbuf_str(&lo));
	tabs(f);
	strbuf_printf(&f->body, "for (; %s + %d <= %s; %s += %d) {\n", at, (int)lanes, end, at,
		      (int)lanes);
	f->indent++;
	tabs(f);
	strbuf_puts(&f->body, "DL_IVDEP\n");
	tabs(f);
	strbuf_printf(&f->body, "for (int64_t %s = 0; %s < %d; %s++) {\n", fn_name(f, lane, "lane"),
		      fn_name(f, lane, "lane"), (int)lanes, fn_name(f, lane, "lane"));
	f->indent++;
	tabs(f);
	strbuf_printf(&f->body, "const int64_t %s = %s + %s;\n", var, at, fn_name(f, lane, "lane"));
	print_update(f, n, part, ex_iter(p, lane));
	close_block(f);
	close_block(f);
	tabs(f);
	strbuf_printf(&f->body, "for (int64_t %s = %s; %s < %s; %s++) {\n", var, at, var, end, var);
	f->indent++;
	print_update(f, n, part, ex_int(p, CT_I64, 0));
	close_block(f);
	print_halving(f, n, part, lane, (int)lanes);
	{
		LNode fold = *n;
		Expr *first = ex_int(p, CT_I64, 0);

		for (int i = 0; i < n->nout; i++)
			fold.val[i] = ex_load(p, part[i], &first, 1);
		fold.guard = NULL;
		print_update(f, &fold, n->buf, first);
	}
	close_block(f);
	strbuf_free(&lo);
	strbuf_free(&hi);
}

static void find_call(void *arg, Expr *e)
{
	bool *calls = arg;

	*calls = *calls || (e->kind == EX_INST && inst_is_func(e->op.inst));
}

/* A vector loop of so few whole vectors that clang would unroll it: before it looks for vectors, so that it
 * would find none (16 or 32 channels), or after that, to long code whose locals no longer fit into registers. */
static bool is_short(const Fn *f, const LNode *n)
{
	enum { MOST_SHORT = 128 };
	const int lanes = f->g->target->vector_bytes / 4;
	int64_t trips;
	bool calls = false;

	if ((n->loop != LOOP_VECTOR && n->loop != LOOP_SHORT) || !const_range(f, n, &trips) ||
	    trips < lanes || trips > MOST_SHORT || (n->loop == LOOP_SHORT && trips % lanes))
		return false;
	for (const LNode *s = n->body; s; s = s->next) {
		if (s->kind != LN_LET && s->kind != LN_STORE)
			return false;
		if (s->kind == LN_STORE)
			ex_walk(s->val[0], find_call, &calls);
	}
	return !calls;
}

typedef struct Strides {
	Ctx *ctx;
	const Iter *it;
	bool apart;
} Strides;

static void find_stride(void *arg, Expr *e)
{
	Strides *s = arg;

	if (e->kind == EX_LOAD && expr_has_iter(e->load.idx[0], s->it))
		s->apart = s->apart || !ex_runs_along(s->ctx, e->load.idx[0], s->it);
}

/* N stores what it loads with a stride: with a mask, each element would be loaded by itself. */
static bool loads_apart(const Fn *f, const LNode *n)
{
	Strides s = {f->sched->kernel->ctx, n->var, false};

	for (const LNode *b = n->body; b; b = b->next)
		if (b->kind == LN_STORE)
			ex_walk(b->val[0], find_stride, &s);
	return s.apart;
}

/* Prints N, a loop that copies few elements as they are, as a copy of so many bytes, for which compilers have a few vectors that
 * overlap. False if N is no such loop. Bytes would be copied one at a time. */
static bool print_copy(Fn *f, const LNode *n)
{
	enum { MOST_MOVED = 256 }; /* bytes that clang moves without a call: in 8 vectors */
	Ctx *c = f->sched->kernel->ctx;
	ExprPool *p = f->sched->kernel->pool;
	const LNode *s = n->body;
	const Expr *from = s && s->kind == LN_STORE ? s->val[0] : NULL;
	StrBuf t[2] = {{0}};
	const char *to;
	int64_t trips, bytes;

	if (n->loop == LOOP_SERIAL || n->step != 1 || !from || s->next || s->guard ||
	    from->kind != EX_LOAD || from->load.nidx != 1 || from->load.buf == s->buf[0] ||
	    from->load.buf->dtype != s->buf[0]->dtype || s->buf[0]->dtype == DT_BOOL ||
	    c_converts(s->buf[0]->dtype) || !const_range(f, n, &trips) || trips < 2 ||
	    !ex_runs_along(c, s->idx, n->var) || !ex_runs_along(c, from->load.idx[0], n->var))
		return false;
	bytes = trips * dtype_info[s->buf[0]->dtype].bits / 8;
	if (bytes > MOST_MOVED)
		return false;
	texts(f,
	      (Expr *[]){ex_subst_iters(p, s->idx, (Iter *const *)&n->var, &n->lo, 1),
			 ex_subst_iters(p, from->load.idx[0], (Iter *const *)&n->var, &n->lo, 1)},
	      2, t);
	to = fn_buf(f, s->buf[0]);
	tabs(f);
	strbuf_printf(&f->body, "__builtin_memcpy(%s + (%s), %s + (%s), %lld);\n", to,
		      strbuf_str(&t[0]), fn_buf(f, from->load.buf), strbuf_str(&t[1]),
		      (long long)bytes);
	strbuf_free(&t[0]);
	strbuf_free(&t[1]);
	return true;
}

/* The opposite of the comparison or other condition C. */
static Expr *opposite(ExprPool *p, Expr *c)
{
	static const Inst of[][2] = {
		{IN_lt, IN_ge}, {IN_ge, IN_lt}, {IN_gt, IN_le}, {IN_le, IN_gt}};

	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		if (ex_is_op(c, of[i][0]) && c->op.arg[0]->ct == CT_I64)
			return ex_op2(p, of[i][1], c->op.arg[0], c->op.arg[1]);
	return ex_op1(p, IN_not, c);
}

/* E selects between NO and one other value, which becomes *YES: the condition on which it is that. Null: E is of another form. */
static Expr *when_not(ExprPool *p, Expr *e, const Expr *no, Expr **yes)
{
	Expr *a, *b;

	if (e == no)
		return ex_int(p, CT_BOOL, 0);
	if (!ex_is_op(e, IN_select)) {
		if (*yes && *yes != e)
			return NULL;
		*yes = e;
		return ex_int(p, CT_BOOL, 1);
	}
	a = when_not(p, e->op.arg[1], no, yes);
	b = a ? when_not(p, e->op.arg[2], no, yes) : NULL;
	if (!b || (a->kind != EX_CONST && b->kind != EX_CONST))
		return NULL;
	if (b->kind == EX_CONST && !b->i)
		return ex_and(p, e->op.arg[0], a);
	if (a->kind == EX_CONST && !a->i)
		return ex_and(p, opposite(p, e->op.arg[0]), b);
	return NULL;
}

/* The condition on which N has iterations at all, if a bound says so: hi is select(c, end, lo), or lo is select(c, hi, begin). The
 * other bound of N becomes a plain one, so that the number of its iterations is often constant. Null: always, or it is not known. */
static Expr *split_condition(Fn *f, LNode *n)
{
	ExprPool *p = f->sched->kernel->pool;
	Expr *yes = NULL, *when;

	if (ex_is_op(n->hi, IN_select)) {
		when = when_not(p, n->hi, n->lo, &yes);
		n->hi = when && yes ? yes : n->hi;
	} else if (ex_is_op(n->lo, IN_select)) {
		when = when_not(p, n->lo, n->hi, &yes);
		n->lo = when && yes ? yes : n->lo;
	} else {
		return NULL;
	}
	return yes ? when : NULL;
}

/* Prints N, which is OF with other bounds. */
static void print_plain_loop(Fn *f, const LNode *n, const LNode *of)
{
	static const char *const pragmas[] = {[LOOP_SERIAL] = "DL_SERIAL\n",
					      [LOOP_VECTOR] = "DL_IVDEP\n",
					      [LOOP_SHORT] = "DL_SHORT\n",
					      [LOOP_UNROLL] = "DL_UNROLL\n"};
	const char *var = fn_name(f, n->var, n->var->name), *end;
	Expr *ends[] = {n->lo, n->hi};
	StrBuf t[2] = {{0}};

	if (print_copy(f, n))
		return;
	texts(f, ends, 2, t);
	end = strpbrk(strbuf_str(&t[1]), " *([") ? end_name(f, of) : NULL;
	tabs(f);
	strbuf_puts(&f->body, is_short(f, n)                               ? "DL_ROLLED\n"
			      : n->loop == LOOP_SHORT && loads_apart(f, n) ? pragmas[LOOP_VECTOR]
									   : pragmas[n->loop]);
	tabs(f);
	if (end)
		strbuf_printf(&f->body, "for (int64_t %s = %s, %s = %s; %s < %s; ", var,
			      strbuf_str(&t[0]), end, strbuf_str(&t[1]), var, end);
	else
		strbuf_printf(&f->body, "for (int64_t %s = %s; %s < %s; ", var, strbuf_str(&t[0]),
			      var, strbuf_str(&t[1]));
	if (n->step == 1)
		strbuf_printf(&f->body, "%s++) {\n", var);
	else
		strbuf_printf(&f->body, "%s += %lld) {\n", var, (long long)n->step);
	strbuf_free(&t[0]);
	strbuf_free(&t[1]);
	f->indent++;
	note_natural(f, n);
	fn_nodes(f, n->body);
	close_block(f);
}

static void print_loop(Fn *f, const LNode *n)
{
	LNode plain = *n;
	const bool guarded = open_guard(f, split_condition(f, &plain));

	print_plain_loop(f, &plain, n);
	if (guarded)
		close_block(f);
}

static void print_let(Fn *f, const LNode *n)
{
	StrBuf t = {0};

	texts(f, &n->lo, 1, &t);
	note_natural(f, n);
	tabs(f);
	strbuf_printf(&f->body, "const int64_t %s = %s;\n", fn_name(f, n->var, n->var->name),
		      strbuf_str(&t));
	strbuf_free(&t);
}

static void print_address(Fn *f, Buf *b, const char *at)
{
	if (strcmp(at, "0") == 0)
		strbuf_puts(&f->body, fn_buf(f, b));
	else
		strbuf_printf(&f->body, c_is_operation(at) ? "%s + (%s)" : "%s + %s", fn_buf(f, b),
			      at);
}

/* The array "row" of a tile: where each of its rows of A starts. */
static void print_rows(Fn *f, const Tile *tl)
{
	const char *row = fn_name(f, tl->row, tl->row->name);
	StrBuf at = {0};

	tabs(f);
	strbuf_printf(&f->body, "int64_t row[%d];\n\n", tl->mr);
	tabs(f);
	strbuf_printf(&f->body, "for (int64_t i = 0; i < %d; i++) {\n", tl->mr);
	f->indent++;
	tabs(f);
	strbuf_printf(&f->body, "const int64_t %s = i < valid ? i : valid - 1;\n", row);
	texts(f, (Expr *const *)&tl->a_at, 1, &at);
	tabs(f);
	strbuf_printf(&f->body, "row[i] = %s;\n", strbuf_str(&at));
	close_block(f);
	strbuf_free(&at);
}

/* Where the runs of a tile's rows start: row 0 is at ROW = 0. */
static void print_runs(Fn *f, const Tile *tl)
{
	Iter *const row[] = {tl->row};
	Expr *zero = ex_int(f->sched->kernel->pool, CT_I64, 0),
	     *e[] = {ex_subst_iters(f->sched->kernel->pool, tl->a_at, row, &zero, 1), tl->runs_step,
		     tl->run, tl->k0};
	StrBuf t[4] = {{0}};

	texts(f, e, 4, t);
	strbuf_puts(&f->body, fn_buf(f, tl->edge ? tl->edge : tl->a));
	strbuf_puts(&f->body, ", ");
	print_address(f, tl->runs, strbuf_str(&t[0]));
	strbuf_printf(&f->body, ", %s, %s, %s", strbuf_str(&t[1]), strbuf_str(&t[2]),
		      strbuf_str(&t[3]));
	for (int i = 0; i < 4; i++)
		strbuf_free(&t[i]);
}

/* Sets AHEAD to the address of element AT of BUF, and AHEAD_STEP to the bytes of STEP elements.
 * TYPE and INT_TYPE are the types in a declaration of both, or empty for an assignment. */
static void set_ahead(Fn *f, const char *type, const char *int_type, Buf *buf, Expr *at, Expr *step)
{
	ExprPool *p = f->sched->kernel->pool;
	Expr *size = ex_int(p, CT_I64, dtype_info[buf->dtype].bits / 8),
	     *e[] = {at, ex_mul(p, step, size)};
	StrBuf t[2] = {{0}};

	texts(f, e, 2, t);
	tabs(f);
	strbuf_printf(&f->body, "%sahead = (const char *)(", type);
	print_address(f, buf, strbuf_str(&t[0]));
	strbuf_puts(&f->body, ");\n");
	tabs(f);
	strbuf_printf(&f->body, "%sahead_step = %s;\n", int_type, strbuf_str(&t[1]));
	strbuf_free(&t[0]);
	strbuf_free(&t[1]);
}

/* Declares the address that a tile prefetches, and its step. Without data to prefetch, it is the
 * address of the sums, again and again. */
static void print_ahead(Fn *f, const Tile *tl)
{
	Expr *zero = ex_int(f->sched->kernel->pool, CT_I64, 0);
	const Prefetch none = {tl->acc, zero, zero, NULL},
		       *last = tl->nahead ? &tl->ahead[tl->nahead - 1] : &none;

	set_ahead(f, "const char *", "int64_t ", last->buf, last->at, last->step);
	for (int i = tl->nahead - 2; i >= 0; i--) {
		const Prefetch *a = &tl->ahead[i];

		open_guard(f, a->when);
		set_ahead(f, "", "", a->buf, a->at, a->step);
		close_block(f);
	}
}

/* The byte at which the numbers of a tile start. */
static Expr *first_byte(Fn *f, const Tile *tl)
{
	ExprPool *p = f->sched->kernel->pool;
	Expr *bits = ex_int(p, CT_I64, dtype_info[tl->b->dtype].bits);

	return ex_op2(p, IN_floordiv, ex_mul(p, tl->b_at, bits), ex_int(p, CT_I64, 8));
}

/* The last arguments of the micro-kernel's call, where T has the texts of print_tile. */
static void print_panel(Fn *f, const Tile *tl, const StrBuf *t)
{
	if (!tl->scale) {
		print_address(f, tl->b, strbuf_str(&t[3]));
		strbuf_printf(&f->body, ", %s, ahead, ahead_step, ", strbuf_str(&t[4]));
		if (c_tile_pairs(f->g, tl)) {
			strbuf_puts(&f->body, "&order, ");
			f->pairs = true;
		}
		return;
	}
	strbuf_printf(&f->body, "(const uint8_t *)%s + (%s), %s, ", fn_buf(f, tl->b),
		      strbuf_str(&t[3]), strbuf_str(&t[4]));
	if (tl->row_scale)
		strbuf_printf(&f->body, "%s, ", fn_buf(f, tl->row_scale));
	print_address(f, tl->scale, strbuf_str(&t[6]));
	strbuf_puts(&f->body, ", ");
	if (tl->zero) {
		print_address(f, tl->zero, strbuf_str(&t[7]));
		strbuf_puts(&f->body, ", ");
	}
	if (tl->group)
		strbuf_printf(&f->body, "%lld, ", (long long)tl->group);
	else
		strbuf_puts(&f->body, "INT64_MAX, ");
}

static void print_tile(Fn *f, const LNode *n)
{
	enum { MOST = 8 };
	const Tile *tl = n->tile;
	const char *fn = c_tile_use(f->g, tl);
	Expr *e[MOST] = {
		tl->m_valid, tl->k,      tl->a_step,   tl->scale ? first_byte(f, tl) : tl->b_at,
		tl->b_step,  tl->acc_at, tl->scale_at, tl->zero_at};
	StrBuf t[MOST] = {{0}};

	tabs(f);
	strbuf_puts(&f->body, "{\n");
	f->indent++;
	texts(f, e, MOST, t);
	tabs(f);
	strbuf_printf(&f->body, "const int64_t valid = %s;\n", strbuf_str(&t[0]));
	if (!tl->scale)
		print_ahead(f, tl);
	if (!tl->runs)
		print_rows(f, tl);
	tabs(f);
	strbuf_printf(&f->body, "%s(valid, %s, %d, %s, ", fn, strbuf_str(&t[1]), !tl->accumulate,
		      fn_buf(f, tl->a));
	if (tl->runs)
		print_runs(f, tl);
	else
		strbuf_puts(&f->body, "row");
	strbuf_printf(&f->body, ", %s, ", strbuf_str(&t[2]));
	print_panel(f, tl, t);
	print_address(f, tl->acc, strbuf_str(&t[5]));
	strbuf_puts(&f->body, ");\n");
	close_block(f);
	for (int i = 0; i < MOST; i++)
		strbuf_free(&t[i]);
}

void fn_nodes(Fn *f, const LNode *n)
{
	for (; n; n = n->next) {
		switch (n->kind) {
		case LN_LOOP: print_loop(f, n); break;
		case LN_LET: print_let(f, n); break;
		case LN_STORE: print_one_store(f, n); break;
		case LN_UPDATE: print_update(f, n, n->buf, n->idx); break;
		case LN_REDUCE: print_reduce(f, n); break;
		case LN_LOCAL: declare(f, n->buf[0], n->idx); break;
		case LN_TILE: print_tile(f, n); break;
		case LN_ATOMIC:
		case LN_FILL:
		case LN_PIPELINE:
		case LN_MMA:
		case LN_COLUMNS:
		case LN_COPY_SUMS:
			assert(n->kind == LN_LOOP); /* for GPUs only */
			break;
		}
	}
}
