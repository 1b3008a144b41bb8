/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates statements over symbolic numbers (ir/expr/symval.h), to find the elements of small
 * tensors. */
#include "ir/eval/eval.h"
#include "ir/expr/symval.h"

#include <math.h>

enum { POINTS_MAX = 1 << 16, ELEMS_MAX = 4096 };

typedef struct SymEval {
	Kernel *k;
	Ctx *c;
	Arena *a;
	Dim *const *const *in;
	SymVal **bufs;   /* by Buf.id: row-major elements; null for inputs and tables */
	bool *wanted;    /* by Buf.id: whether the result depends on it */
	int64_t *it;     /* by Iter.id: the current point */
	SymVal *memo;    /* by Expr.id */
	int *stamp, now; /* memo[i] holds for the current point if stamp[i] == now */
	int work;
} SymEval;

/* ---- Expressions ---- */

static SymVal eval(SymEval *s, const Expr *e);

static bool flat_index(SymEval *s, const Buf *b, Expr *const *idx, int n, int64_t *out)
{
	int64_t at = 0;

	if (n != b->rank && n != 1)
		return false;
	for (int i = 0; i < n; i++) {
		int64_t v, extent = 0;

		if (!symval_is_const(eval(s, idx[i]), &v))
			return false;
		if (n == b->rank && (!dim_is_const(b->dims[i], &extent) || v >= extent))
			return false;
		if (v < 0)
			return false;
		at = at * extent + v;
	}
	*out = at;
	return true;
}

static SymVal load(SymEval *s, const Expr *e)
{
	const Buf *b = e->load.buf;
	int64_t at;
	Dim *d;

	if (!flat_index(s, b, e->load.idx, e->load.nidx, &at))
		return symval_fail;
	if (b->data && ctype_is_float(e->ct))
		return symval_float(dtype_load_f64(b->dtype, b->data, at));
	if (b->data)
		return symval_int(s->c, dtype_load_i64(b->dtype, b->data, at));
	if (b->kind != BUF_IN)
		return s->bufs[b->id] ? s->bufs[b->id][at] : symval_fail;
	d = s->in && s->in[b->param] ? s->in[b->param][at] : NULL;
	if (!d)
		return symval_fail;
	return ctype_is_float(e->ct) ? symval_ratio(s->c, d, 1) : symval_dim(d);
}

static SymVal inst(SymEval *s, const Expr *e)
{
	SymVal a, b;
	int64_t cond;

	if (inst_is_func(e->op.inst) || inst_is_routine(e->op.inst))
		return symval_fail;
	a = eval(s, e->op.arg[0]);
	if (a.kind == SYM_FAIL)
		return symval_fail;
	if (e->op.inst == IN_select) {
		if (symval_is_const(a, &cond))
			return eval(s, e->op.arg[cond ? 1 : 2]);
		b = eval(s, e->op.arg[1]);
		SymVal c = eval(s, e->op.arg[2]);
		if (b.kind != SYM_INT || c.kind != SYM_INT)
			return symval_fail;
		return symval_dim(dim_select(s->c, a.d, b.d, c.d));
	}
	b = e->op.n == 2 ? eval(s, e->op.arg[1]) : symval_fail;
	return symval_inst(s->c, e, a, b);
}

static SymVal eval(SymEval *s, const Expr *e)
{
	SymVal r = symval_fail;

	if (s->stamp[e->id] == s->now)
		return s->memo[e->id];
	switch (e->kind) {
	case EX_CONST:
		r = ctype_is_float(e->ct) ? symval_float(e->f) : symval_int(s->c, e->i);
		break;
	case EX_ITER: r = symval_int(s->c, s->it[e->iter->id]); break;
	case EX_DIM: r = symval_dim(e->dim); break;
	case EX_LOAD: r = load(s, e); break;
	case EX_INST: r = inst(s, e); break;
	case EX_PARAM: break;
	}
	if (e->ct == CT_U64 && e->kind == EX_CONST && e->i < 0)
		r = symval_fail;
	s->stamp[e->id] = s->now;
	s->memo[e->id] = r;
	return r;
}

/* ---- Statements ---- */

static SymVal combine(SymEval *s, const Stmt *st, SymVal a, SymVal b)
{
	static const Inst by_monoid[MONOID_COUNT] = {
		[MONOID_sum] = IN_add, [MONOID_prod] = IN_mul, [MONOID_max] = IN_max,
		[MONOID_min] = IN_min, [MONOID_or] = IN_or,    [MONOID_and] = IN_and};
	static const Inst none; /* IN_neg: combines nothing */
	Expr e = {.kind = EX_INST, .ct = st->val[0]->ct};

	e.op.inst = by_monoid[st->red];
	e.op.n = 2;
	if (e.op.inst == none || a.kind == SYM_FAIL || b.kind == SYM_FAIL)
		return symval_fail;
	return symval_inst(s->c, &e, a, b);
}

static void put(SymEval *s, const Stmt *st, SymVal v)
{
	int64_t at;

	if (flat_index(s, st->out[0], st->widx, st->nwidx, &at))
		s->bufs[st->out[0]->id][at] = v;
	else
		/* an unknown element is written, so all elements become unknown */
		s->work = POINTS_MAX;
}

/* Steps iterators [from, to) of ST to the next point; false after the last. */
static bool step(SymEval *s, const Stmt *st, int from, int to)
{
	s->now++;
	for (int i = to - 1; i >= from; i--) {
		int64_t n;

		if (dim_is_const(st->iter[i]->extent, &n) && ++s->it[st->iter[i]->id] < n)
			return true;
		s->it[st->iter[i]->id] = 0;
	}
	return false;
}

/* The number of points of iterators [from, to); -1 if not constant or too large. */
static int64_t points(const Stmt *st, int from, int to)
{
	int64_t total = 1, n;

	for (int i = from; i < to; i++) {
		if (!dim_is_const(st->iter[i]->extent, &n) || n < 0 || n > POINTS_MAX)
			return -1;
		total *= n;
		if (total > POINTS_MAX)
			return -1;
	}
	return total;
}

static bool guarded(SymEval *s, const Stmt *st, bool *holds)
{
	int64_t g = 1;

	if (st->guard && !symval_is_const(eval(s, st->guard), &g))
		return false;
	*holds = g != 0;
	return true;
}

/* Evaluates one point of the band: a map, or a whole reduction. */
static bool run_point(SymEval *s, const Stmt *st, int64_t nred)
{
	SymVal state;
	int64_t at;
	bool holds;

	if (st->red == MONOID_NONE) {
		if (!guarded(s, st, &holds))
			return false;
		if (holds)
			put(s, st, eval(s, st->val[0]));
		return true;
	}
	if (!st->update)
		state = eval(s, monoid_identity(s->k->pool, st->red, 0, st->val[0]->ct));
	else if (flat_index(s, st->out[0], st->widx, st->nwidx, &at))
		state = s->bufs[st->out[0]->id][at];
	else
		return false;
	for (int64_t r = 0; r < nred; r++) {
		if (!guarded(s, st, &holds))
			return false;
		if (holds)
			state = combine(s, st, state, eval(s, st->val[0]));
		if (st->scan)
			put(s, st, state);
		if (r + 1 < nred)
			step(s, st, st->nband, st->niters);
	}
	s->now++;
	for (int i = st->nband; i < st->niters; i++)
		s->it[st->iter[i]->id] = 0;
	if (!st->scan)
		put(s, st, state);
	return true;
}

static bool run_stmt(SymEval *s, const Stmt *st)
{
	int64_t nband = points(st, 0, st->nband), nred = points(st, st->nband, st->niters);

	if (nband < 0 || nred < 0 || st->nout != 1)
		return false;
	if (st->red != MONOID_NONE && monoid_info[st->red].n != 1)
		return false;
	for (int i = 0; i < st->niters; i++)
		s->it[st->iter[i]->id] = 0;
	s->now++;
	for (int64_t i = 0; i < nband; i++) {
		s->work += (int)(nred + 1);
		if (s->work >= POINTS_MAX || !run_point(s, st, nred) || s->work >= POINTS_MAX)
			return false;
		step(s, st, 0, st->nband);
	}
	return true;
}

static bool make_bufs(SymEval *s)
{
	for (int i = 0; i < s->k->bufs.n; i++) {
		const Buf *b = s->k->bufs.at[i];
		int64_t total = 1, n;

		if (b->kind == BUF_IN || b->data || !s->wanted[i])
			continue;
		for (int d = 0; d < b->rank; d++) {
			if (!dim_is_const(b->dims[d], &n) || n < 0 || n > ELEMS_MAX)
				return false;
			total *= n;
			if (total > ELEMS_MAX)
				return false;
		}
		s->bufs[i] = NEW_ARRAY(s->a, total, SymVal);
	}
	return true;
}

static bool is_wanted(const SymEval *s, const Stmt *st)
{
	return s->wanted[st->out[0]->id] || (st->nout > 1 && s->wanted[st->out[1]->id]);
}

/* Marks the buffers that RESULT depends on. A Shape, for instance, depends on no element of its
 * operand, which may then have any size. */
static void find_wanted(SymEval *s, const Buf *result)
{
	s->wanted[result->id] = true;
	for (int i = s->k->stmts.n; i-- > 0;) {
		const Stmt *st = s->k->stmts.at[i];

		if (is_wanted(s, st))
			STMT_EACH_LOAD (x, st)
				s->wanted[x->load.buf->id] = true;
	}
}

/* The elements of the output buffer, as dims. */
static bool read_out(SymEval *s, const Buf *b, Dim **out, int n)
{
	int64_t total = 1, v;

	for (int d = 0; d < b->rank; d++)
		total *= dim_is_const(b->dims[d], &v) ? v : 0;
	if (total != n)
		return false;
	for (int i = 0; i < n; i++) {
		SymVal e = s->bufs[b->id][i];
		int64_t c = 0;

		if (e.kind == SYM_FLOAT && e.f == floor(e.f) && fabs(e.f) < 0x1p53)
			e = symval_int(s->c, c = (int64_t)e.f);
		if (e.kind == SYM_FAIL || e.kind == SYM_FLOAT || e.den != 1)
			return false;
		out[i] = e.d;
	}
	return true;
}

/* Makes the monoids' identities before the memo, which has an entry for each expression of the
 * pool. */
static void make_identities(Kernel *k)
{
	VEC_EACH (st, &k->stmts)
		if (st->red != MONOID_NONE && !st->update)
			monoid_identity(k->pool, st->red, 0, st->val[0]->ct);
}

bool eval_symbolic(Kernel *k, const Buf *result, Dim *const *const *in, Dim **out, int n)
{
	SymEval s = {.k = k, .c = k->ctx, .a = arena_new(), .in = in, .now = 1};
	bool ok;

	make_identities(k);
	s.bufs = NEW_ARRAY(s.a, k->bufs.n, SymVal *);
	s.wanted = NEW_ARRAY(s.a, k->bufs.n, bool);
	s.it = NEW_ARRAY(s.a, k->iters.n, int64_t);
	s.memo = NEW_ARRAY(s.a, expr_count(k->pool), SymVal);
	s.stamp = NEW_ARRAY(s.a, expr_count(k->pool), int);
	find_wanted(&s, result);
	ok = make_bufs(&s);
	for (int i = 0; ok && i < k->stmts.n; i++)
		ok = !is_wanted(&s, k->stmts.at[i]) || run_stmt(&s, k->stmts.at[i]);
	ok = ok && read_out(&s, result, out, n);
	arena_free(s.a);
	return ok;
}
