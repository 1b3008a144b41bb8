/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels from the text of a definition. The compiler's own kernels access only elements that
 * exist, by construction. For a kernel from a text this is proved, or else checked at run time. If
 * neither the iterators' ranges nor a condition around the access show that an index i is inside,
 * it becomes index(i, n), which counts a negative i from the end, and is a fault under the node's
 * name outside of [-n, n).
 */
#include "ops/infer/call.h"

enum {
	MAX_KERNEL_PARAMS = 128,
	MAX_FACTS = 64,      /* conditions that hold at an access */
	MAX_STEPS = 1 << 14, /* of the walk through an expression */
	MAX_NUMBER = 1 << 30 /* in a condition that is taken to be exact */
};

/* ---- Accesses ---- */

typedef struct SafeWalk {
	Kernel *k;
	Expr *fact[MAX_FACTS];
	int n, steps;
	int nids;     /* expressions that there were when the walk began */
	bool *unsafe; /* loads, by Expr.id: an index may be outside on some way to them */
	bool *seen;   /* by Expr.id: visited under no condition but the guard */
	bool all;     /* the walk was too long: every load is unsafe */
} SafeWalk;

static void add_facts(SafeWalk *w, Expr *cond)
{
	if (ex_is_op(cond, IN_and)) {
		add_facts(w, cond->op.arg[0]);
		add_facts(w, cond->op.arg[1]);
	} else if (w->n < MAX_FACTS) {
		w->fact[w->n++] = cond;
	}
}

/* The expression that is at least 0 where COND, a comparison of two indices, holds; null: COND is
 * not such a comparison. */
static Expr *slack(ExprPool *p, Expr *cond)
{
	Expr *a, *b;

	if (cond->kind != EX_INST || cond->op.n != 2 || cond->op.arg[0]->ct != CT_I64)
		return NULL;
	a = cond->op.arg[0];
	b = cond->op.arg[1];
	switch (cond->op.inst) {
	case IN_lt: return ex_sub(p, ex_sub(p, b, a), ex_int(p, CT_I64, 1));
	case IN_le: return ex_sub(p, b, a);
	case IN_gt: return ex_sub(p, ex_sub(p, a, b), ex_int(p, CT_I64, 1));
	case IN_ge: return ex_sub(p, a, b);
	default: return NULL;
	}
}

/* Whether E has no constant large enough to overflow a sum of indices; false after STEPS nodes. */
static bool is_moderate(const Expr *e, int *steps)
{
	Expr *const *arg;
	const int n = ex_operands(e, &arg);
	bool ok = --*steps > 0 &&
		  (e->kind != EX_CONST || (e->i <= MAX_NUMBER && e->i >= -MAX_NUMBER));

	for (int i = 0; i < n && ok; i++)
		ok = is_moderate(arg[i], steps);
	return ok;
}

/* Whether FACT, which holds, implies COND: i + 2 < N implies i < N. */
static bool implies(ExprPool *p, Expr *fact, Expr *cond)
{
	Expr *have = slack(p, fact), *want = slack(p, cond), *zero = ex_int(p, CT_I64, 0), *ge;
	Affine a;
	int steps = 64;

	/* A loaded value may be any number, so sums of it may wrap. */
	if (fact == cond || !have || !want || !ex_affine(expr_ctx(p), have, &a) ||
	    !ex_affine(expr_ctx(p), want, &a) || !is_moderate(fact, &steps))
		return fact == cond;
	ge = ex_op2(p, IN_ge, ex_sub(p, want, have), zero);
	return ge->kind == EX_CONST && ge->i;
}

static bool holds(const SafeWalk *w, Expr *cond)
{
	if (cond->kind == EX_CONST)
		return cond->i != 0;
	for (int i = 0; i < w->n; i++)
		if (implies(w->k->pool, w->fact[i], cond))
			return true;
	return ex_is_op(cond, IN_and) && holds(w, cond->op.arg[0]) && holds(w, cond->op.arg[1]);
}

static bool is_inside(const SafeWalk *w, Expr *e, Dim *limit)
{
	ExprPool *p = w->k->pool;
	Expr *n = ex_dim(p, limit);

	return ex_op2(p, IN_index, e, n) == e || holds(w, ex_inside(p, e, n));
}

static void walk(SafeWalk *w, Expr *e, bool base)
{
	Expr *const *arg;
	const int n = ex_operands(e, &arg), before = w->n;

	if (e->id >= w->nids || (base && w->seen[e->id]) || w->all)
		return;
	w->seen[e->id] = w->seen[e->id] || base;
	w->all = ++w->steps > MAX_STEPS;
	for (int i = 0; i < n && e->kind == EX_LOAD; i++)
		if (!is_inside(w, arg[i], e->load.buf->dims[i]))
			w->unsafe[e->id] = true;
	for (int i = 0; i < n; i++) {
		const bool arm = ex_is_op(e, IN_select) && i == 1;

		if (arm)
			add_facts(w, arg[0]);
		walk(w, arg[i], base && !arm);
		w->n = before;
	}
}

static Expr *checked(const SafeWalk *w, const Buf *b, int i, Expr *e)
{
	return ex_op2(w->k->pool, IN_index, e, ex_dim(w->k->pool, b->dims[i]));
}

/* Makes loads of *E, which is evaluated where GUARD holds, safe. */
static void make_loads_safe(Kernel *k, Expr **e, Expr *guard, Arena *tmp)
{
	SafeWalk w = {.k = k, .nids = expr_count(k->pool)};
	Expr *idx[MAX_RANK];

	w.unsafe = NEW_ARRAY(tmp, w.nids, bool);
	w.seen = NEW_ARRAY(tmp, w.nids, bool);
	if (guard)
		add_facts(&w, guard);
	walk(&w, *e, true);
	EX_MAP (x, k->pool, e) {
		if (x->kind != EX_LOAD || (!w.all && x->id < w.nids && !w.unsafe[x->id]))
			continue;
		for (int i = 0; i < x->load.nidx; i++)
			idx[i] = checked(&w, x->load.buf, i, x->load.idx[i]);
		x = ex_load(k->pool, x->load.buf, idx, x->load.nidx);
	}
}

static void make_safe(Kernel *k, Stmt *s)
{
	ARENA_LOCAL(tmp);
	SafeWalk w = {.k = k};

	if (s->guard)
		add_facts(&w, s->guard);
	for (int i = 0; i < 2; i++)
		if (s->val[i])
			make_loads_safe(k, &s->val[i], s->guard, tmp);
	for (int i = 0; i < s->nwidx; i++) {
		if (!is_inside(&w, s->widx[i], s->out[0]->dims[i]))
			s->widx[i] = checked(&w, s->out[0], i, s->widx[i]);
		make_loads_safe(k, &s->widx[i], s->guard, tmp);
	}
	if (s->guard)
		make_loads_safe(k, &s->guard, NULL, tmp);
}

/* ---- Buffers ---- */

static bool check_buffer(Infer *in, Node *n, const Kernel *k, const Buf *b)
{
	Value *v = b->kind == BUF_IN ? node_in(n, b->param) : node_out(n, b->param);
	const char *side = b->kind == BUF_IN ? "operand" : "result";
	const Type *t;

	if (!v)
		return infer_error(in, n,
				   "buffer %s of kernel %s is for %s %d, which the node has not",
				   b->name, k->name, side, b->param + 1);
	if (b->layout)
		return infer_error(in, n, "buffer %s of kernel %s has a layout", b->name, k->name);
	if (!v->type && b->kind == BUF_OUT)
		v->type = type_tensor(in->ctx, b->dtype, b->rank, b->dims);
	t = v->type;
	if (!t || t->kind != TYPE_TENSOR || t->dtype != b->dtype || t->rank != b->rank) {
		STRBUF_LOCAL(s);

		if (t)
			type_print(&s, t);
		infer_error(in, n, "buffer %s of kernel %s is %s of rank %d, and %s %d is %s",
			    b->name, k->name, dtype_info[b->dtype].name, b->rank, side,
			    b->param + 1, strbuf_str(&s));
		return false;
	}
	for (int i = 0; i < b->rank; i++)
		if (t->dims[i] != b->dims[i] &&
		    !infer_dim_equals(in, n, &t->dims[i], b->dims[i],
				      arena_printf(in->arena,
						   "%s %d differs from buffer %s of kernel %s",
						   side, b->param + 1, b->name, k->name)))
			return false;
	return true;
}

bool call_check_kernel(Infer *in, Node *n)
{
	const Attr *a = node_attr(n, "kernel");
	Kernel *k = a && a->kind == ATTR_KERNEL ? a->kernel : NULL;
	int before = in->ctx->diag->errors, params = 0;

	if (!k)
		return infer_error(in, n, "the node has no kernel");
	k->locs = n->locs;
	for (int i = 0; i < k->stmts.n; i++)
		k->stmts.at[i]->loc = node_loc(n);
	for (int i = 0; i < k->bufs.n; i++) {
		if (k->bufs.at[i]->kind == BUF_TEMP)
			continue;
		if (++params > MAX_KERNEL_PARAMS)
			return infer_error(in, n, "kernel %s has more than %d operands and results",
					   k->name, MAX_KERNEL_PARAMS);
		if (!check_buffer(in, n, k, k->bufs.at[i]))
			return false;
	}
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && !n->out[i]->type)
			return infer_error(in, n, "kernel %s has no buffer for result %d", k->name,
					   i + 1);
	if (!kernel_verify(k, in->ctx->diag, NULL)) {
		in->errors += in->ctx->diag->errors - before;
		return false;
	}
	for (int i = 0; i < k->stmts.n; i++)
		make_safe(k, k->stmts.at[i]);
	return true;
}
