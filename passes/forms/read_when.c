/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The condition under which an element of a temporary is read. A mask of attention is an
 * example:
 *
 *   scores[m,n] = sum over k of q[m,k] * x[n,k]
 *   masked[m,n] = select(mask[m,n], scores[m,n], -inf)
 *
 * No other statement reads scores, so scores[m,n] is read where mask[m,n] holds. Elsewhere it may
 * have any value, even NaN or infinity, since `select` ignores the arm that it does not choose.
 *
 * A mask may also be added. Where the mask is at most -2^126, for example -inf, and the score is
 * bounded, the sum equals the mask:
 *
 *   masked[m,n] = scores[m,n] * 0.125 + mask[m,n]
 *
 * The statements are visited from the last one to the first: a map reads its operands only where
 * its own result is read, and the readers of a temporary follow its writer.
 */
#include "passes/forms/read_when.h"

/* Limit on the instructions of a condition. */
enum { MOST_COST = 8 };

typedef struct ReadWhen {
	Kernel *k;
	Expr *never, *always;
	/* by statement: the condition, over its iterators, under which its element is read */
	Expr **read;
	/* by statement: the condition, the same for all elements, under which its elements are
	 * below TILE_BOUND in magnitude */
	Expr **bounded;
	const Buf *of; /* the temporary whose reads are examined */
	Expr *load;    /* the load of it in the statement whose expressions are visited */
	bool several;  /* the statement has several such loads */
	/* by Expr.id: the condition under which evaluating the expression reads an element of OF */
	Expr **when;
} ReadWhen;

/* C can be evaluated before any statement of the kernel, at any point of the statement that has
 * it. */
static bool is_simple(Expr *c)
{
	EX_EACH_LOAD (x, c)
		if (x->load.buf->kind != BUF_IN)
			return false;
	return !expr_can_fault(c);
}

static Expr *either(const ReadWhen *w, Expr *a, Expr *b)
{
	return a == w->always || b == w->always ? w->always
	       : a == w->never                  ? b
	       : b == w->never                  ? a
						: ex_op2(w->k->pool, IN_or, a, b);
}

/* Selects A where C holds, else B. What A and B load may be valid only then. */
static Expr *choice(const ReadWhen *w, Expr *c, Expr *a, Expr *b)
{
	if (a == b)
		return a;
	if (!is_simple(c))
		return w->always;
	return a == w->never && b == w->always ? ex_op1(w->k->pool, IN_not, c)
					       : ex_op3(w->k->pool, IN_select, c, a, b);
}

/* The condition under which E is below TILE_BOUND in magnitude: E comes from a bounded statement,
 * or is a factor or term of one. */
static Expr *bounded_where(const ReadWhen *w, const Expr *e)
{
	const bool is_mul = ex_is_op(e, IN_mul);
	ExprPool *p = w->k->pool;
	Expr *x, *by, *one;

	if (e->kind == EX_LOAD) {
		const Stmt *s = kernel_writer(w->k, e->load.buf);

		return s ? w->bounded[s->id] : w->never;
	}
	if (e->ct != CT_F32 || (!is_mul && !ex_is_op(e, IN_div)))
		return w->never;
	by = e->op.arg[1];
	x = bounded_where(w, e->op.arg[0]);
	if (x == w->never && is_mul) {
		by = e->op.arg[0];
		x = bounded_where(w, e->op.arg[1]);
	}
	if (x == w->never || !is_simple(by))
		return w->never;
	one = ex_num(p, CT_F32, 1);
	by = ex_op1(p, IN_abs, by);
	return ex_op2(p, IN_and, x, ex_op2(p, is_mul ? IN_le : IN_ge, by, one));
}

/* The condition under which E = X + MASK depends on X. It does not depend on X where X is bounded
 * and MASK is at most -2^126: the floats next to such a mask are at least 2^102 away, so E rounds
 * to MASK. */
static Expr *in_sum(const ReadWhen *w, const Expr *e)
{
	const double lowest = -0x1p126;
	ExprPool *p = w->k->pool;

	for (int i = 0; i < 2 && e->ct == CT_F32; i++) {
		Expr *x = e->op.arg[i], *mask = e->op.arg[1 - i], *where = bounded_where(w, x);

		if (where != w->never && w->when[mask->id] == w->never)
			return choice(w,
				      ex_op2(p, IN_or,
					     ex_op2(p, IN_gt, mask, ex_num(p, CT_F32, lowest)),
					     ex_op1(p, IN_not, where)),
				      w->when[x->id], w->never);
	}
	return either(w, w->when[e->op.arg[0]->id], w->when[e->op.arg[1]->id]);
}

/* Sets w->when of E from that of E's operands. */
static void visit(ReadWhen *w, Expr *e)
{
	Expr *const *of, *when = w->never;
	const int n = ex_operands(e, &of);

	if (e->kind == EX_LOAD && e->load.buf == w->of) {
		w->several = w->several || (w->load && w->load != e);
		w->load = e;
		when = w->always;
	}
	if (ex_is_op(e, IN_add))
		when = in_sum(w, e);
	else if (ex_is_op(e, IN_select))
		when = either(w, w->when[of[0]->id],
			      choice(w, of[0], w->when[of[1]->id], w->when[of[2]->id]));
	else
		for (int i = 0; i < n; i++)
			when = either(w, when, w->when[of[i]->id]);
	w->when[e->id] = when;
}

static Expr *in_expr(ReadWhen *w, Expr *e)
{
	if (!e)
		return w->never;
	EX_EACH (x, e)
		visit(w, x);
	return w->when[e->id];
}

/* The condition, over R's iterators, under which statement R reads an element of w->of. */
static Expr *in_stmt(ReadWhen *w, int r)
{
	const Stmt *s = w->k->stmts.at[r];
	Expr *when;

	w->load = NULL;
	w->several = false;
	when = either(w, in_expr(w, s->val[0]), in_expr(w, s->val[1]));
	if (stmt_is_map(s))
		when = choice(w, w->read[r], when, w->never);
	if (s->guard)
		when = choice(w, s->guard, when, w->never);
	for (int d = 0; d < s->nwidx; d++)
		when = either(w, when, in_expr(w, s->widx[d]));
	return either(w, when, in_expr(w, s->guard));
}

/* Converts WHEN from the iterators of R to those of S. This needs R to read, at an iterator, the
 * element that S writes at an iterator of the same extent; else an element counts as always
 * read. */
static Expr *at_writer(const ReadWhen *w, const Stmt *s, const Stmt *r, Expr *when)
{
	Iter *from[MAX_RANK];
	Expr *to[MAX_RANK];
	int n = 0;

	if (when == w->never || when == w->always)
		return when;
	if (w->several || w->load->load.nidx != s->nwidx)
		return w->always;
	for (int d = 0; d < s->nwidx; d++) {
		Expr *at = w->load->load.idx[d], *is = s->widx[d];

		if (at->kind == EX_CONST && at == is)
			continue;
		if (at->kind != EX_ITER || is->kind != EX_ITER ||
		    at->iter->extent != is->iter->extent)
			return w->always;
		from[n] = at->iter;
		to[n++] = is;
	}
	for (int i = 0; i < r->niters; i++) {
		bool known = !expr_has_iter(when, r->iter[i]);

		for (int j = 0; j < n; j++)
			known = known || from[j] == r->iter[i];
		if (!known)
			return w->always;
	}
	return ex_subst_iters(w->k->pool, when, from, to, n);
}

/* The condition under which an element that statement S writes is read. */
static Expr *by_readers(ReadWhen *w, int s)
{
	const Stmt *of = w->k->stmts.at[s];
	Expr *when = w->never;

	w->of = of->out[0];
	if (of->nout != 1 || w->of->kind != BUF_TEMP)
		return w->always;
	for (int i = 0; i < w->k->stmts.n && when != w->always; i++) {
		Stmt *r = w->k->stmts.at[i];

		if (!stmt_reads(r, w->of))
			continue;
		if (i <= s || stmt_writes(r, w->of))
			return w->always;
		when = either(w, when, at_writer(w, of, r, in_stmt(w, i)));
	}
	return when;
}

/* Statement S is bounded if BOUNDED holds. Also finds where maps of S are bounded. */
static void find_bounded(ReadWhen *w, int s, bool bounded)
{
	for (int i = 0; i < w->k->stmts.n; i++)
		w->bounded[i] = w->never;
	w->bounded[s] = bounded ? w->always : w->never;
	for (int i = s + 1; i < w->k->stmts.n; i++) {
		Stmt *m = w->k->stmts.at[i];

		if (stmt_is_map(m) && m->nout == 1 && !m->guard)
			w->bounded[i] = bounded_where(w, m->val[0]);
		for (int j = 0; j < m->niters; j++)
			if (expr_has_iter(w->bounded[i], m->iter[j]))
				w->bounded[i] = w->never;
	}
}

Expr *kernel_read_when(Kernel *k, int s, bool bounded)
{
	ARENA_LOCAL(tmp);
	ReadWhen w = {.k = k,
		      .never = ex_int(k->pool, CT_BOOL, 0),
		      .always = ex_int(k->pool, CT_BOOL, 1)};
	Expr *when;

	w.read = NEW_ARRAY(tmp, k->stmts.n, Expr *);
	w.when = NEW_ARRAY(tmp, expr_count(k->pool), Expr *);
	w.bounded = NEW_ARRAY(tmp, k->stmts.n, Expr *);
	find_bounded(&w, s, bounded);
	for (int i = k->stmts.n - 1; i >= s; i--)
		w.read[i] = by_readers(&w, i);
	when = w.read[s];
	return when == w.always || expr_cost(when) > MOST_COST ? NULL : when;
}
