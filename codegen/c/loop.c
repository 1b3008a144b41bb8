/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints loops and reductions as C. Hints (DL_SERIAL and others, defined in
 * codegen/package/package.c) tell compilers what to vectorise and unroll; code that they would
 * compile badly is printed in another form.
 */
#include "codegen/c/gen_c_impl.h"

#include "codegen/c/transpose.h"

#include <string.h>

/* Whether N has the same number of iterations in every run: *TRIPS. */
static bool const_range(const Fn *f, const LNode *n, int64_t *trips)
{
	const Expr *span = ex_sub(f->sched->kernel->pool, n->range.hi, n->range.lo);

	*trips = span->i;
	return span->kind == EX_CONST;
}

/* The name of the variable that holds the upper bound of N's iterator. */
static const char *end_name(Fn *f, const LNode *n)
{
	return fn_name(f, &n->range.hi, arena_printf(f->g->arena, "%s_end", n->range.var->name));
}

/* Combines the partial states PART of N's lanes in the first of them: each half with the other, in
 * vectors. One after another, they would each wait for the one before. */
static void print_halving(Fn *f, const LNode *n, Buf *const *part, Iter *lane, int lanes)
{
	ExprPool *p = f->sched->kernel->pool;
	Iter *half = NEW(f->g->arena, Iter);
	const char *at, *by, *fn = c_combine_lanes(f->g, n->store.red, n->store.val[0]->ct, lanes);
	LNode fold = *n;

	if (fn) {
		const char *name = fn_name(f, part[0], "part");

		fn_tabs(f);
		strbuf_printf(&f->body, "%s[0] = %s(%s);\n", name, fn, name);
		return;
	}
	*half = (Iter){.name = "half", .extent = lane->extent};
	at = fn_name(f, lane, "lane");
	by = fn_name(f, half, "half");
	fn_tabs(f);
	strbuf_puts(&f->body, "DL_UNROLL\n");
	fn_tabs(f);
	strbuf_printf(&f->body, "for (int64_t %s = %d; %s > 0; %s /= 2) {\n", by, lanes / 2, by,
		      by);
	f->indent++;
	fn_tabs(f);
	strbuf_puts(&f->body, "DL_IVDEP\n");
	fn_tabs(f);
	strbuf_printf(&f->body, "for (int64_t %s = 0; %s < %s; %s++) {\n", at, at, by, at);
	f->indent++;
	for (int i = 0; i < n->store.nout; i++) {
		Expr *from = ex_add(p, ex_iter(p, lane), ex_iter(p, half));

		fold.store.val[i] = ex_load(p, part[i], &from, 1);
	}
	fold.store.guard = NULL;
	fn_update(f, &fold, part, ex_iter(p, lane));
	fn_close(f);
	fn_close(f);
}

/* Vectors of partial states of a reduction in lanes. Each update waits for the previous one for the
 * latency of an instruction, such as 4 cycles of a multiply-add whose operands take one cycle to
 * load, or 9 of a maximum: two vectors are half idle. Four of them pay only if a row is long, since
 * combining them takes another step; a reduction with two states would run out of registers. A row
 * of unknown length counts as long: on AVX2 softmax over rows of 20 took 12 ns a row more with
 * four vectors, over 500 24 ns less; on AVX-512 it took 30 and 37 ns less. */
enum { LANE_VECTORS = 2, LONG_LANE_VECTORS = 4, LONG_LANE_TRIPS = 256 };

static int64_t lanes_of_vector(const Fn *f, const LNode *n)
{
	return f->g->target->vector_bytes / ctype_bytes(n->store.val[0]->ct);
}

/* The lanes of N, a reduction of TRIPS terms or, where that is 0, of an unknown number: a single
 * vector where more would go through the loop once at most. */
static int64_t lanes_of(const Fn *f, const LNode *n, int64_t trips)
{
	const int64_t vector = lanes_of_vector(f, n);

	if ((!trips || trips >= LONG_LANE_TRIPS) && n->store.nout == 1)
		return LONG_LANE_VECTORS * vector;
	return trips && trips < 2 * LANE_VECTORS * vector ? vector : LANE_VECTORS * vector;
}

/* Prints the loop of N over whole groups of LANES terms, from AT on, each into its lane of PART. */
static void print_lanes(Fn *f, const LNode *n, Buf *const *part, Iter *lane, int lanes,
			const char *at, const char *end)
{
	ExprPool *p = f->sched->kernel->pool;

	fn_tabs(f);
	strbuf_printf(&f->body, "for (; %s + %d <= %s; %s += %d) {\n", at, lanes, end, at, lanes);
	f->indent++;
	fn_tabs(f);
	strbuf_puts(&f->body, "DL_IVDEP\n");
	fn_tabs(f);
	strbuf_printf(&f->body, "for (int64_t %s = 0; %s < %d; %s++) {\n", fn_name(f, lane, "lane"),
		      fn_name(f, lane, "lane"), lanes, fn_name(f, lane, "lane"));
	f->indent++;
	fn_tabs(f);
	strbuf_printf(&f->body, "const int64_t %s = %s + %s;\n",
		      fn_name(f, n->range.var, n->range.var->name), at, fn_name(f, lane, "lane"));
	fn_update(f, n, part, ex_iter(p, lane));
	fn_close(f);
	fn_close(f);
}

/* Prints the loop of N over strips of terms that call functions of small operands, if it calls
 * any. */
static void print_near_lanes(Fn *f, const LNode *n, Buf *const *part, Iter *lane, int lanes,
			     const char *at, const char *end)
{
	const int64_t strip = lanes > NEAR_STRIP / 2 ? 2 * lanes : NEAR_STRIP;
	NearCalls calls = {0};

	for (int i = 0; i < n->store.nout; i++)
		c_near_add(f, n->store.val[i], &calls);
	if (!calls.all || n->store.guard)
		return;
	fn_tabs(f);
	strbuf_printf(&f->body, "while (%s + %lld <= %s) {\n", at, (long long)strip, end);
	f->indent++;
	fn_tabs(f);
	strbuf_printf(&f->body, "const int64_t stop = %s + %lld;\n", at, (long long)strip);
	c_near_begin(f, n->range.var, at, "stop", &calls);
	print_lanes(f, n, part, lane, lanes, at, "stop");
	c_near_else(f);
	print_lanes(f, n, part, lane, lanes, at, "stop");
	c_near_end(f);
	fn_close(f);
}

/* Prints the loop of N from AT on, over fewer terms than a vector has, into BUF. */
static void print_remainder(Fn *f, const LNode *n, Buf *const *buf, const char *at, const char *end)
{
	const char *var = fn_name(f, n->range.var, n->range.var->name);

	fn_tabs(f);
	strbuf_puts(&f->body, "DL_SERIAL\n");
	fn_tabs(f);
	strbuf_printf(&f->body, "for (int64_t %s = %s; %s < %s; %s++) {\n", var, at, var, end, var);
	f->indent++;
	fn_update(f, n, buf, ex_int(f->sched->kernel->pool, CT_I64, 0));
	fn_close(f);
}

/* Prints a reduction in lanes: a vectorisable loop over independent partial states, a loop over the
 * remainder, and the code that combines the lanes. A row of unknown length that is shorter than a
 * vector skips the partial states: setting up and combining them takes longer than such a row. */
void fn_reduce(Fn *f, const LNode *n)
{
	ExprPool *p = f->sched->kernel->pool;
	int64_t trips;
	const bool fixed = const_range(f, n, &trips);
	const int64_t lanes = lanes_of(f, n, fixed ? trips : 0), vector = lanes_of_vector(f, n);
	const char *var = fn_name(f, n->range.var, n->range.var->name), *at, *end;
	Iter *lane = NEW(f->g->arena, Iter);
	Buf *part[2] = {NULL, NULL};
	StrBuf lo = {0}, hi = {0};
	Expr *ends[] = {n->range.lo, n->range.hi};
	StrBuf t[2] = {{0}};
	const bool small = fixed && trips < lanes;

	fn_texts(f, ends, 2, t);
	fn_note_natural(f, n);
	lo = t[0];
	hi = t[1];
	if (small) {
		fn_tabs(f);
		strbuf_printf(&f->body, "for (int64_t %s = %s; %s < %s; %s++) {\n", var,
			      strbuf_str(&lo), var, strbuf_str(&hi), var);
		f->indent++;
		fn_update(f, n, n->store.buf, ex_int(p, CT_I64, 0));
		fn_close(f);
		strbuf_free(&lo);
		strbuf_free(&hi);
		return;
	}
	at = fn_name(f, &n->range.lo, arena_printf(f->g->arena, "%s_at", n->range.var->name));
	end = end_name(f, n);
	fn_tabs(f);
	strbuf_puts(&f->body, "{\n");
	f->indent++;
	fn_tabs(f);
	strbuf_printf(&f->body, "const int64_t %s = %s;\n", end, strbuf_str(&hi));
	fn_tabs(f);
	strbuf_printf(&f->body, "int64_t %s = %s;\n", at, strbuf_str(&lo));
	if (!fixed) {
		fn_tabs(f);
		strbuf_printf(&f->body, "if (%s - %s >= %d) {\n", end, at, (int)vector);
		f->indent++;
	}
	*lane = (Iter){.name = "lane", .extent = dim_const(f->sched->kernel->ctx, lanes)};
	for (int i = 0; i < n->store.nout; i++) {
		Dim *d = lane->extent;
		STRBUF_LOCAL(id);
		Expr *identity = monoid_identity(p, n->store.red, i, n->store.val[i]->ct);

		part[i] = NEW(f->g->arena, Buf);
		*part[i] = (Buf){.name = "part",
				 .dtype = ctype_dtype(n->store.val[i]->ct),
				 .rank = 1,
				 .dims = NEW(f->g->arena, Dim *)};
		part[i]->dims[0] = d;
		fn_declare(f, part[i], NULL);
		fn_texts(f, &identity, 1, &id);
		fn_tabs(f);
		strbuf_printf(&f->body, "for (int l = 0; l < %d; l++)\n", (int)lanes);
		fn_tabs(f);
		strbuf_printf(&f->body, "\t%s[l] = %s;\n", fn_name(f, part[i], "part"),
			      strbuf_str(&id));
	}
	print_near_lanes(f, n, part, lane, (int)lanes, at, end);
	print_lanes(f, n, part, lane, (int)lanes, at, end);
	if (lanes > vector && (!fixed || trips % lanes >= vector))
		print_lanes(f, n, part, lane, (int)vector, at, end);
	if (fixed && trips % vector)
		print_remainder(f, n, part, at, end);
	print_halving(f, n, part, lane, (int)lanes);
	{
		LNode fold = *n;
		Expr *first = ex_int(p, CT_I64, 0);

		for (int i = 0; i < n->store.nout; i++)
			fold.store.val[i] = ex_load(p, part[i], &first, 1);
		fold.store.guard = NULL;
		fn_update(f, &fold, n->store.buf, first);
	}
	if (!fixed) {
		fn_close(f);
		print_remainder(f, n, n->store.buf, at, end);
	}
	fn_close(f);
	strbuf_free(&lo);
	strbuf_free(&hi);
}

/* N has stores and names, and nothing else. */
static bool is_straight(const LNode *n)
{
	for (const LNode *s = n->body; s; s = s->next)
		if (s->kind != LN_LET && s->kind != LN_STORE)
			return false;
	return true;
}

/* The values that N stores call a function of ir/expr/funcs.def. */
static bool calls_function(const LNode *n)
{
	for (const LNode *s = n->body; s; s = s->next)
		if (s->kind == LN_STORE)
			EX_EACH (e, s->store.val[0])
				if (e->kind == EX_INST && inst_is_func(e->op.inst))
					return true;
	return false;
}

/* A vector loop, of whole pairs of vectors, that calls a function: a chain of instructions
 * so long that CPUs hold few of them at a time. clang mixes the instructions of two vectors: on
 * AVX2, softplus takes 0.75 of the time, gelu and erf 0.84. */
static bool is_paired(const Fn *f, const LNode *n)
{
	const int lanes = f->g->target->vector_bytes / 4;
	int64_t trips;

	return n->loop.kind == LOOP_VECTOR && const_range(f, n, &trips) &&
	       trips % (2 * lanes) == 0 && is_straight(n) && calls_function(n);
}

/* The body of N has a loop that is unrolled, for the taps of a stencil, and no other loop: it is
 * long. */
static bool is_long(const LNode *n)
{
	bool unrolls = false;

	for (const LNode *s = n->body; s; s = s->next) {
		if (s->kind == LN_LOOP && s->loop.kind != LOOP_UNROLL)
			return false;
		unrolls = unrolls || s->kind == LN_LOOP;
	}
	return unrolls;
}

/* A vector loop that clang must not unroll. If it has few whole vectors, clang would unroll it
 * before it vectorises, and then find no vectors (16 or 32 channels), or after that, to long code
 * whose locals no longer fit into registers. Longer loops, and those of unknown length, have
 * several vectors an iteration anyway; unrolling them takes time and gains nothing. */
static bool is_rolled(const Fn *f, const LNode *n)
{
	enum { MOST_SHORT = 128 };
	const int lanes = f->g->target->vector_bytes / 4;
	int64_t trips;
	const bool fixed = const_range(f, n, &trips);

	if (n->loop.kind == LOOP_SHORT && (!fixed || trips > MOST_SHORT || trips % lanes))
		return false;
	if ((n->loop.kind != LOOP_VECTOR && n->loop.kind != LOOP_SHORT) ||
	    (fixed && trips < lanes / 2))
		return false;
	return (is_straight(n) && !calls_function(n)) || is_long(n);
}

/* N stores elements that it loads with a stride: with a mask, each element would be loaded
 * separately. */
static bool loads_apart(const Fn *f, const LNode *n)
{
	for (const LNode *s = n->body; s; s = s->next)
		if (s->kind == LN_STORE)
			EX_EACH (e, s->store.val[0])
				if (e->kind == EX_LOAD &&
				    expr_has_iter(e->load.idx[0], n->range.var) &&
				    !ex_runs_along(f->sched->kernel->ctx, e->load.idx[0],
						   n->range.var))
					return true;
	return false;
}

/* The load whose element S stores unchanged, bit by bit; null: S is not such a store. A bool
 * becomes 0 or 1. */
static const Expr *moved_by(const LNode *s)
{
	const Expr *load = s && s->kind == LN_STORE && !s->next && !s->store.guard ? s->store.val[0]
										   : NULL;
	const DType t = load ? s->store.buf[0]->dtype : DT_NONE;

	return load && load->kind == EX_LOAD && load->load.buf != s->store.buf[0] &&
			       load->load.buf->dtype == t && t != DT_BOOL && c_memory_type(t)
		       ? load
		       : NULL;
}

/* Prints N, a loop that copies a few elements unchanged, as a memory copy of constant size.
 * Compilers use a few overlapping vectors for that; in a loop they would copy bytes one at a time.
 * False if N is not such a loop. */
static bool print_copy(Fn *f, const LNode *n)
{
	/* limits on the vectors, and on the bytes, that clang copies without a call */
	enum { MOST_VECTORS = 8, MOST_BYTES = 256 };
	Ctx *c = f->sched->kernel->ctx;
	ExprPool *p = f->sched->kernel->pool;
	const LNode *s = n->body;
	const Expr *from = moved_by(s);
	StrBuf t[2] = {{0}};
	const char *to;
	int64_t trips, bytes;

	if (n->loop.kind == LOOP_SERIAL || n->loop.step != 1 || !from ||
	    c_converts(s->store.buf[0]->dtype) || !const_range(f, n, &trips) || trips < 2 ||
	    !ex_runs_along(c, s->store.idx, n->range.var) ||
	    !ex_runs_along(c, from->load.idx[0], n->range.var))
		return false;
	bytes = dtype_size(s->store.buf[0]->dtype, trips);
	if (bytes > MOST_VECTORS * f->g->target->vector_bytes || bytes > MOST_BYTES)
		return false;
	fn_texts(f,
		 (Expr *[]){ex_subst_iters(p, s->store.idx, (Iter *const *)&n->range.var,
					   &n->range.lo, 1),
			    ex_subst_iters(p, from->load.idx[0], (Iter *const *)&n->range.var,
					   &n->range.lo, 1)},
		 2, t);
	to = fn_buf(f, s->store.buf[0]);
	fn_tabs(f);
	strbuf_printf(&f->body, "__builtin_memcpy(%s + (%s), %s + (%s), %lld);\n", to,
		      strbuf_str(&t[0]), fn_buf(f, from->load.buf), strbuf_str(&t[1]),
		      (long long)bytes);
	strbuf_free(&t[0]);
	strbuf_free(&t[1]);
	return true;
}

/* The store is contiguous along loop OF[0] and the load along OF[1]; TO is the store's step along
 * OF[1], FROM the load's along OF[0]. */
typedef struct MoveSteps {
	const LNode *of[2];
	Dim *to, *from;
} MoveSteps;

static bool steps_transposed(Ctx *c, const LNode *s, const Expr *load, const LNode *a,
			     const LNode *b, MoveSteps *out)
{
	*out = (MoveSteps){.of = {a, b},
			   .to = ex_step(c, s->store.idx, b->range.var),
			   .from = ex_step(c, load->load.idx[0], a->range.var)};
	return ex_runs_along(c, s->store.idx, a->range.var) &&
	       ex_runs_along(c, load->load.idx[0], b->range.var) && out->to && out->from;
}

/* Prints N, a loop around a loop, as a call of a function that transposes: elements are contiguous
 * along one of the two loops when they are read, and along the other one when they are written.
 * False if N is not such a loop. */
static bool print_transpose(Fn *f, const LNode *n)
{
	enum { LEAST_TRIPS = 4 };
	Ctx *c = f->sched->kernel->ctx;
	ExprPool *p = f->sched->kernel->pool;
	const LNode *in = n->body, *s = in && in->kind == LN_LOOP ? in->body : NULL;
	const Expr *load = moved_by(s);
	StrBuf t[6] = {{0}};
	const char *fn, *to;
	int64_t trips;
	MoveSteps by;

	if (n->loop.step != 1 || n->loop.kind == LOOP_UNROLL || !load || in->next ||
	    in->loop.step != 1 || in->loop.kind == LOOP_UNROLL || load->load.buf->data ||
	    expr_has_iter(in->range.lo, n->range.var) ||
	    expr_has_iter(in->range.hi, n->range.var) ||
	    (!steps_transposed(c, s, load, in, n, &by) &&
	     !steps_transposed(c, s, load, n, in, &by)) ||
	    (const_range(f, n, &trips) && trips < LEAST_TRIPS) ||
	    (const_range(f, in, &trips) && trips < LEAST_TRIPS))
		return false;
	fn_texts(f,
		 (Expr *[]){ex_subst_iters(p, s->store.idx, (Iter *[]){n->range.var, in->range.var},
					   (Expr *[]){n->range.lo, in->range.lo}, 2),
			    ex_dim(p, by.to),
			    ex_subst_iters(p, load->load.idx[0],
					   (Iter *[]){n->range.var, in->range.var},
					   (Expr *[]){n->range.lo, in->range.lo}, 2),
			    ex_dim(p, by.from), ex_sub(p, by.of[0]->range.hi, by.of[0]->range.lo),
			    ex_sub(p, by.of[1]->range.hi, by.of[1]->range.lo)},
		 6, t);
	fn = c_transpose(f->g, dtype_bytes(s->store.buf[0]->dtype));
	to = fn_buf(f, s->store.buf[0]);
	fn_tabs(f);
	strbuf_printf(&f->body, "%s(%s + (%s), %s, %s + (%s), %s, %s, %s);\n", fn, to,
		      strbuf_str(&t[0]), strbuf_str(&t[1]), fn_buf(f, load->load.buf),
		      strbuf_str(&t[2]), strbuf_str(&t[3]), strbuf_str(&t[4]), strbuf_str(&t[5]));
	for (int i = 0; i < 6; i++)
		strbuf_free(&t[i]);
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

/* E selects between NO and one other value, which becomes *YES: the condition on which it is
 * that. Null: E is of another form. */
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
	if (a->kind == EX_CONST)
		return a->i ? ex_op2(p, IN_or, e->op.arg[0], b)
			    : ex_and(p, opposite(p, e->op.arg[0]), b);
	return ex_op2(p, IN_or, opposite(p, e->op.arg[0]), a);
}

/* The condition on which N has iterations at all, if a bound says so: hi is select(c, end, lo),
 * or lo is select(c, hi, begin). The other bound of N becomes a plain one, so that the number of
 * its iterations is often constant. Null: always, or it is not known. */
static Expr *split_condition(Fn *f, LNode *n)
{
	ExprPool *p = f->sched->kernel->pool;
	Expr *yes = NULL, *when;

	if (ex_is_op(n->range.hi, IN_select)) {
		when = when_not(p, n->range.hi, n->range.lo, &yes);
		n->range.hi = when && yes ? yes : n->range.hi;
	} else if (ex_is_op(n->range.lo, IN_select)) {
		when = when_not(p, n->range.lo, n->range.hi, &yes);
		n->range.lo = when && yes ? yes : n->range.lo;
	} else {
		return NULL;
	}
	return yes ? when : NULL;
}

static void print_plain_loop(Fn *f, const LNode *n, const LNode *of);

/* Prints N, inside an unrolled loop, as a loop for each of its few vectors. Compilers turn each
 * into operations on one vector, so that a local that is indexed only by constants becomes
 * registers. False if N is not such a loop. */
static bool print_vectors(Fn *f, const LNode *n)
{
	/* the vectors of a row of the widest tile: 32 columns in vectors of 8 */
	enum { MOST_VECTORS = 4 };
	ExprPool *p = f->sched->kernel->pool;
	const LNode *store = n->body;
	LNode part = *n;
	int64_t trips;
	int lanes;

	while (store && store->kind != LN_STORE)
		store = store->next;
	if (!f->unrolls || n->share.vector || !store || n->loop.step != 1 ||
	    n->range.lo->kind != EX_CONST || !const_range(f, n, &trips))
		return false;
	lanes = f->g->target->vector_bytes / ctype_bytes(store->store.val[0]->ct);
	if (trips <= lanes || trips > (int64_t)MOST_VECTORS * lanes || !is_rolled(f, n))
		return false;
	for (int64_t at = 0; at < trips; at += lanes) {
		part.range.lo = ex_int(p, CT_I64, n->range.lo->i + at);
		part.range.hi = ex_int(p, CT_I64,
				       n->range.lo->i + (at + lanes < trips ? at + lanes : trips));
		print_plain_loop(f, &part, &part);
	}
	return true;
}

/* ---- Quotients before a loop ---- */

typedef struct Quotients {
	Fn *f;
	const LNode *loop;
	bool *seen;   /* by Expr.id */
	bool samples; /* the expression has loads whose indices are data */
} Quotients;

static bool is_quotient(const Quotients *q, Expr *e)
{
	return (ex_is_op(e, IN_floordiv) || ex_is_op(e, IN_mod)) && e->ct == CT_I64 &&
	       e->op.arg[1]->kind != EX_CONST && !expr_has_iter(e, q->loop->range.var) &&
	       !expr_has_load(e);
}

/* Whether E is part of where a sample lies, or of its weight, and may be computed in any case. */
static bool is_of_sample(const Quotients *q, Expr *e)
{
	if ((e->kind != EX_INST && e->kind != EX_LOAD) || expr_has_iter(e, q->loop->range.var) ||
	    !expr_has_load(e))
		return false;
	EX_EACH (x, e)
		if ((x->kind == EX_LOAD && !q->f->cb.in_bounds(q->f, x)) ||
		    (x->kind == EX_INST && inst_may_fault(x->op.inst)))
			return false;
	return true;
}

/* Whether E is an element that all iterations read, and none writes. */
static bool is_same_element(const Quotients *q, Expr *e)
{
	if (e->kind != EX_LOAD || fn_is_value(q->f, e->load.buf) ||
	    fn_is_scalar(q->f, e->load.buf) || !e->load.nidx ||
	    expr_has_iter(e, q->loop->range.var) || expr_has_load(e->load.idx[0]) ||
	    !q->f->cb.in_bounds(q->f, e))
		return false;
	for (const LNode *s = q->loop->body; s; s = s->next)
		for (int i = 0; i < s->store.nout; i++)
			if (s->store.buf[i] == e->load.buf)
				return false;
	return true;
}

static bool has_sample(Expr *e)
{
	EX_EACH (x, e)
		if (x->kind == EX_LOAD && x->load.nidx && expr_has_load(x->load.idx[0]))
			return true;
	return false;
}

/* Names the quotients, remainders and elements in E that are the same in all iterations, and what
 * is the same of samples. */
static void name_quotients(Quotients *q, Expr *e)
{
	Fn *f = q->f;
	Expr *const *of;
	const int n = ex_operands(e, &of);
	STRBUF_LOCAL(t);

	if (q->seen[e->id])
		return;
	q->seen[e->id] = true;
	for (int i = 0; i < f->quotients.n; i++)
		if (f->quotients.at[i].e == e)
			return;
	if (!is_quotient(q, e) && !is_same_element(q, e) && !(q->samples && is_of_sample(q, e))) {
		for (int i = 0; i < n; i++)
			name_quotients(q, of[i]);
		return;
	}
	fn_texts(f, &e, 1, &t);
	vec_push(f->g->arena, &f->quotients,
		 ((CExprNamed){e, fn_name(f, NEW(f->g->arena, char),
					  is_quotient(q, e)    ? "quotient"
					  : e->kind == EX_LOAD ? "element"
							       : "of_sample")}));
	fn_tabs(f);
	strbuf_printf(&f->body, "const %s %s = %s;\n", c_type(e->ct),
		      f->quotients.at[f->quotients.n - 1].name, strbuf_str(&t));
	f->cb.known = f->quotients.at;
	f->cb.nknown = f->quotients.n;
}

static bool has_only_stores(const LNode *n)
{
	for (const LNode *s = n->body; s; s = s->next)
		if (s->kind != LN_STORE)
			return false;
	return true;
}

/* Compilers do not hoist a division out of a loop, since it might trap and the loop might have no
 * iteration. So the invariant divisions of N, a loop over stores that is not serial, are computed
 * before it; those of ir/expr/scalar.h never trap. Divisions by a constant are left: compilers
 * multiply instead. Nor do they hoist loads, since a store of the loop might write to the same
 * memory; elements are loaded once, and samples whose places are the same for all channels are
 * contiguous only if these are hoisted. */
static void print_quotients(Fn *f, const LNode *n)
{
	Arena *tmp;
	Quotients q = {.f = f, .loop = n};

	if (n->loop.kind == LOOP_SERIAL || !has_only_stores(n))
		return;
	tmp = arena_new();
	q.seen = NEW_ARRAY(tmp, expr_count(f->sched->kernel->pool), bool);
	for (const LNode *s = n->body; s; s = s->next) {
		q.samples = has_sample(s->store.val[0]);
		name_quotients(&q, s->store.val[0]);
		name_quotients(&q, s->store.idx);
		if (s->store.guard)
			name_quotients(&q, s->store.guard);
	}
	arena_free(tmp);
}

/* Prints N, which is OF with other bounds, as a loop. */
static void print_for(Fn *f, const LNode *n, const LNode *of)
{
	static const char *const pragmas[] = {[LOOP_SERIAL] = "DL_SERIAL\n",
					      [LOOP_VECTOR] = "DL_IVDEP\n",
					      [LOOP_SHORT] = "DL_SHORT\n",
					      [LOOP_UNROLL] = "DL_UNROLL\n"};
	const char *var = fn_name(f, n->range.var, n->range.var->name), *end;
	const bool unrolls = f->unrolls;
	Expr *ends[] = {n->range.lo, n->range.hi};
	StrBuf t[2] = {{0}};

	fn_texts(f, ends, 2, t);
	end = strpbrk(strbuf_str(&t[1]), " *([") ? end_name(f, of) : NULL;
	fn_tabs(f);
	strbuf_puts(&f->body, n->share.vector > 1 ? "DL_SIXTEEN\n"
			      : is_rolled(f, n)   ? "DL_ROLLED\n"
			      : is_paired(f, n)   ? "DL_PAIRED\n"
			      : n->loop.kind == LOOP_SHORT && loads_apart(f, n)
				      ? pragmas[LOOP_VECTOR]
				      : pragmas[n->loop.kind]);
	fn_tabs(f);
	if (end)
		strbuf_printf(&f->body, "for (int64_t %s = %s, %s = %s; %s < %s; ", var,
			      strbuf_str(&t[0]), end, strbuf_str(&t[1]), var, end);
	else
		strbuf_printf(&f->body, "for (int64_t %s = %s; %s < %s; ", var, strbuf_str(&t[0]),
			      var, strbuf_str(&t[1]));
	if (n->loop.step == 1)
		strbuf_printf(&f->body, "%s++) {\n", var);
	else
		strbuf_printf(&f->body, "%s += %lld) {\n", var, (long long)n->loop.step);
	strbuf_free(&t[0]);
	strbuf_free(&t[1]);
	f->indent++;
	fn_note_natural(f, n);
	f->unrolls = n->loop.kind == LOOP_UNROLL;
	fn_nodes(f, n->body);
	f->unrolls = unrolls;
	fn_close(f);
}

/* Bytes of an element of the first result that N stores. */
static int element_bytes(const LNode *n)
{
	const LNode *s = n->body;

	while (s->kind != LN_STORE)
		s = s->next;
	return dtype_info[s->store.buf[0]->dtype].bits <= 8 ? 1
							    : dtype_bytes(s->store.buf[0]->dtype);
}

/* Prints N as loops over whole vectors and one over the rest. A short loop is divided where a store
 * under a mask is slow: with AVX2, that of 8 floats takes some 12 cycles on a Zen 4, and rows of 60
 * sums took 0.15 of the time without. If elements do not have 4 bytes, compilers do not use such
 * stores for rows of less than a vector: 12 bytes took 3 times as long divided. The rest of a loop
 * that calls a function is masked, since its points would take as long one by one as vectors; the
 * rest of other loops is computed point by point. False if N is not such a loop. */
static bool print_whole_vectors(Fn *f, const LNode *n, const LNode *of)
{
	enum { CHEAP_MASKS = 64, MASKS = 32 }; /* bytes of vectors of CPUs that have them */
	const int bytes = f->g->target->vector_bytes;
	const bool calls = calls_function(n);
	int lanes;
	ExprPool *p = f->sched->kernel->pool;
	LNode part = *n;
	int64_t trips, at = 0;

	if (!(n->loop.kind == LOOP_SHORT && bytes < CHEAP_MASKS) &&
	    !(n->loop.kind == LOOP_VECTOR && calls && bytes >= MASKS))
		return false;
	if (n->loop.step != 1 || !is_straight(n) || !const_range(f, n, &trips))
		return false;
	lanes = bytes / element_bytes(n);
	if (trips % lanes == 0 || (trips < lanes && element_bytes(n) != 4))
		return false;
	for (int some = calls ? 2 * lanes : lanes; some >= lanes; some /= 2) {
		const int64_t to = trips / some * some;

		part.loop.kind = LOOP_VECTOR;
		part.range.lo = ex_add(p, n->range.lo, ex_int(p, CT_I64, at));
		part.range.hi = ex_add(p, n->range.lo, ex_int(p, CT_I64, to));
		if (at < to)
			print_for(f, &part, of);
		at = to;
	}
	part.range.lo = ex_add(p, n->range.lo, ex_int(p, CT_I64, at));
	part.range.hi = n->range.hi;
	part.loop.kind = calls && bytes >= MASKS ? LOOP_SHORT : at ? LOOP_SERIAL : LOOP_UNROLL;
	print_for(f, &part, of);
	return true;
}

/* Prints N in strips that call functions of small operands: a short row of whole vectors as one.
 * False if N is not such a loop. */
static bool print_near(Fn *f, const LNode *n, const LNode *of)
{
	enum { MOST_STRIP = 4 * NEAR_STRIP };
	const int lanes = f->g->target->vector_bytes / 4;
	ExprPool *p = f->sched->kernel->pool;
	NearCalls calls = {0};
	LNode part = *n;
	StrBuf t[2] = {{0}}, ends[2] = {{0}};
	int64_t trips, strip = NEAR_STRIP;
	bool fixed;
	Iter *it = NULL;

	if (n->loop.kind != LOOP_VECTOR || n->loop.step != 1 || !has_only_stores(n) || f->unrolls)
		return false;
	fixed = const_range(f, n, &trips);
	if (fixed && trips <= MOST_STRIP && trips % (2 * lanes) == 0)
		strip = trips;
	for (const LNode *s = n->body; s; s = s->next) {
		c_near_add(f, s->store.val[0], &calls);
		c_near_add(f, s->store.idx, &calls);
		calls.all = calls.all && !s->store.guard;
	}
	if (!calls.all || (fixed && trips < strip))
		return false;
	fn_texts(f, (Expr *[]){n->range.lo, n->range.hi}, 2, t);
	fn_tabs(f);
	strbuf_puts(&f->body, "{\n");
	f->indent++;
	if (!fixed || trips != strip) {
		const char *at;

		it = NEW(f->g->arena, Iter);
		*it = *n->range.var;
		at = fn_name(f, it, arena_printf(f->g->arena, "%s_at", it->name));
		fn_tabs(f);
		strbuf_printf(&f->body, "int64_t %s = %s;\n", at, strbuf_str(&t[0]));
		part.range.var = it;
		fn_note_natural(f, &part);
		part.range.var = n->range.var;
		part.range.lo = ex_iter(p, it);
		part.range.hi = ex_add(p, part.range.lo, ex_int(p, CT_I64, strip));
		fn_tabs(f);
		strbuf_printf(&f->body, "for (; %s + %lld <= %s; %s += %lld) {\n", at,
			      (long long)strip, strbuf_str(&t[1]), at, (long long)strip);
		f->indent++;
	}
	fn_texts(f, (Expr *[]){part.range.lo, part.range.hi}, 2, ends);
	c_near_begin(f, n->range.var, strbuf_str(&ends[0]), strbuf_str(&ends[1]), &calls);
	print_for(f, &part, of);
	c_near_else(f);
	print_for(f, &part, of);
	c_near_end(f);
	if (it)
		fn_close(f);
	part.range.hi = n->range.hi;
	if (!fixed || trips % strip)
		print_for(f, &part, of);
	fn_close(f);
	for (int i = 0; i < 2; i++) {
		strbuf_free(&t[i]);
		strbuf_free(&ends[i]);
	}
	return true;
}

/* Prints N, which is OF with other bounds. */
static void print_plain_loop(Fn *f, const LNode *n, const LNode *of)
{
	const int known = f->quotients.n;

	if (print_copy(f, n) || print_transpose(f, n))
		return;
	if (is_rolled(f, n) && c_quantise(f, n))
		return;
	print_quotients(f, n);
	if (!print_vectors(f, n) && !print_near(f, n, of) && !print_whole_vectors(f, n, of))
		print_for(f, n, of);
	f->quotients.n = f->cb.nknown = known;
}

/* Prints the body of N without a loop if N has one iteration, as a loop that represents a condition
 * has: its variable is a number. False if N is not such a loop. */
static bool print_once(Fn *f, const LNode *n)
{
	const int at = f->names.n;
	int64_t trips;

	if (n->range.lo->kind != EX_CONST || !const_range(f, n, &trips) || trips != 1)
		return false;
	for (int i = 0; i < f->names.n; i++)
		if (f->names.at[i].key == n->range.var)
			return false;
	vec_push(f->g->arena, &f->names,
		 ((FnName){n->range.var,
			   arena_printf(f->g->arena, "%lld", (long long)n->range.lo->i)}));
	fn_nodes(f, n->body);
	f->names.at[at].key = NULL;
	return true;
}

/* Prints the beginning of a condition around N if N only copies an input to the same elements of a
 * result that may have the same memory. */
static bool guard_copy_to_itself(Fn *f, const LNode *n)
{
	const LNode *s = n->body;
	const Expr *from;

	while (s && s->kind == LN_LOOP && !s->next)
		s = s->body;
	from = moved_by(s);
	if (f->copies || !from || from->load.idx[0] != s->store.idx ||
	    from->load.buf->kind != BUF_IN || s->store.buf[0]->kind != BUF_OUT ||
	    schedule_only_reads(f->sched, from->load.buf))
		return false;
	fn_tabs(f);
	strbuf_printf(&f->body, "if (%s != %s) {\n", fn_buf(f, s->store.buf[0]),
		      fn_buf(f, from->load.buf));
	f->indent++;
	return f->copies = true;
}

void fn_loop(Fn *f, const LNode *n)
{
	const bool copies = guard_copy_to_itself(f, n);
	ExprPool *p = f->sched->kernel->pool;
	LNode plain = *n;
	Expr *when = n->loop.when ? ex_op2(p, IN_lt, ex_int(p, CT_I64, 0), ex_dim(p, n->loop.when))
				  : NULL;
	const bool guarded = fn_guard(f, ex_and(p, when, split_condition(f, &plain)));

	if (!guarded || !print_once(f, &plain))
		print_plain_loop(f, &plain, n);
	if (guarded)
		fn_close(f);
	if (copies) {
		fn_close(f);
		f->copies = false;
	}
}
