/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The distribution of a row's points over the threads of a group, and reductions over them. A
 * thread has every group-th vector of the row. It may hold values of its first `keep` points, which
 * are unrolled, in registers, and of the next `scratch` points in the block's shared memory. For
 * further points these values are recomputed.
 */
#include "codegen/nvptx/kernel.h"

#include <string.h>

/* ---- States of a group ---- */

static const char *shuffled_word(LlKernel *k, const char *word, int off)
{
	return ll_set(&k->f,
		      "call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 %s, i32 %s, i32 %d, i32 31)",
		      k->mask, word, off);
}

const char *ll_shuffled(LlKernel *k, const char *value, CType t, int off)
{
	LlFn *f = &k->f;
	const char *in = value, *half[2], *r;

	if (t == CT_BOOL || t == CT_F32)
		in = ll_set(f, t == CT_BOOL ? "zext i1 %s to i32" : "bitcast float %s to i32",
			    value);
	if (t == CT_F64)
		in = ll_set(f, "bitcast double %s to i64", value);
	if (t == CT_I64 || t == CT_U64 || t == CT_F64) {
		for (int i = 0; i < 2; i++) {
			const char *low = ll_narrow(f, ll_op(f, "lshr i64", in, 32 * i));

			half[i] = ll_set(f, "zext i32 %s to i64", shuffled_word(k, low, off));
		}
		r = ll_set(f, "or i64 %s, %s", half[0], ll_op(f, "shl i64", half[1], 32));
	} else {
		r = shuffled_word(k, in, off);
	}
	return t == CT_BOOL  ? ll_set(f, "trunc i32 %s to i1", r)
	       : t == CT_F32 ? ll_set(f, "bitcast i32 %s to float", r)
	       : t == CT_F64 ? ll_set(f, "bitcast i64 %s to double", r)
			     : r;
}

void ll_over_lanes(LlKernel *k, const LNode *n, Buf *const *part, const CType *ct, int least,
		   int lanes)
{
	for (int off = lanes / 2; off >= least; off /= 2) {
		const char *other[2];

		for (int i = 0; i < n->store.nout; i++)
			other[i] = ll_shuffled(k, ll_load(k, part[i], "0"), ct[i], off);
		ll_combine(k, n->store.red, part, "0", other, ct, n->store.nout, false);
	}
}

Buf *ll_state(LlKernel *k, Monoid red, int comp, CType t)
{
	ExprPool *p = k->sched->kernel->pool;
	Buf *b = NEW(k->f.arena, Buf);

	*b = (Buf){.name = "part", .id = -1, .kind = BUF_TEMP, .dtype = ctype_dtype(t)};
	ll_declare(k, b, NULL);
	ll_store(k, b, "0", ll_const(k->f.arena, monoid_identity(p, red, comp, t)));
	return b;
}

Buf *ll_shared_states(LlKernel *k, CType t, int64_t n)
{
	Kernel *of = k->sched->kernel;
	Dim *all = dim_const(of->ctx, n);
	Buf *b = NEW(k->f.arena, Buf);

	*b = (Buf){.name = "states",
		   .id = -1,
		   .kind = BUF_TEMP,
		   .dtype = ctype_dtype(t),
		   .rank = 1,
		   .dims = arena_copy(k->f.arena, &all, sizeof all)};
	ll_declare(k, b, NULL);
	return b;
}

/* Combines the states of warps: each warp's first lane stores its state to shared memory, and every
 * warp combines all. */
static void over_warps(LlKernel *k, const LNode *n, Buf *const *part, const CType *ct)
{
	LlFn *f = &k->f;
	const int warps = k->stage->block.threads / 32;
	const char *warp = ll_op(f, "lshr i64", "%lane", 5),
		   *lane = ll_op(f, "and i64", "%lane", 31), *after, *in;
	Buf *states[2];

	for (int i = 0; i < n->store.nout; i++)
		states[i] = ll_shared_states(k, ct[i], warps);
	after = ll_open_if(k, ll_op(f, "icmp eq i64", lane, 0));
	for (int i = 0; i < n->store.nout; i++)
		ll_store(k, states[i], warp, ll_load(k, part[i], "0"));
	ll_close_if(k, after);
	ll_barrier(k);
	in = ll_op(f, "and i64", lane, warps - 1);
	for (int i = 0; i < n->store.nout; i++)
		ll_store(k, part[i], "0", ll_load(k, states[i], in));
	ll_over_lanes(k, n, part, ct, 1, warps);
	ll_barrier(k);
}

/* ---- Points of a group ---- */

typedef struct Share {
	LlKernel *k;
	const LNode *n;    /* LN_REDUCE, or a loop around one store */
	Buf *const *state; /* the thread's state, if N is a reduction; else null */
	int vector;
} Share;

/* Emits VECTOR points from LO onwards, all of which exist. */
static void run_points(const Share *s, const char *lo, int kept)
{
	LlKernel *k = s->k;
	const LNode *n = s->n;
	LlVector p = {.k = k, .var = n->range.var, .vector = s->vector, .kept = kept};
	Expr *zero = ex_int(k->sched->kernel->pool, CT_I64, 0);

	ll_forget(&k->f);
	k->kept = kept;
	if (s->vector == 1) {
		ll_bind(k, n->range.var, lo);
		if (s->state)
			ll_update(k, n, s->state, zero);
		else
			ll_nodes(k, n->body);
	} else if (!s->state) {
		ll_vector_find(&p, n->body->store.val[0]);
		ll_vector_store(&p, n->body, lo);
	} else {
		for (int i = 0; i < n->store.nout; i++)
			ll_vector_find(&p, n->store.val[i]);
		ll_vector_fetch(&p, lo);
		for (int v = 0; v < s->vector; v++) {
			ll_vector_element(&p, lo, v);
			ll_step(k, n, s->state, zero);
		}
		ll_forget(&k->f);
	}
	k->kept = -1;
}

/* E with loads of values that are not held replaced by their expressions. */
static Expr *recomputed(LlKernel *k, Expr *e)
{
	EX_MAP (x, k->sched->kernel->pool, &e) {
		const LLocal *l = x->kind == EX_LOAD && !x->load.buf->data
					  ? ll_local(k, x->load.buf)
					  : NULL;

		if (l && !(k->in_scratch && l->scratch))
			x = recomputed(k, l->val);
	}
	return e;
}

static LNode *without_kept(LlKernel *k, const LNode *n)
{
	LNode *r = arena_copy(k->f.arena, n, sizeof *n);

	for (int i = 0; i < n->store.nout; i++)
		r->store.val[i] = recomputed(k, n->store.val[i]);
	r->store.guard = recomputed(k, n->store.guard);
	if (n->body)
		r->body = without_kept(k, n->body);
	return r;
}

/* The local of held elements that N fills, or null. */
static const LLocal *fills(LlKernel *k, const LNode *n)
{
	return n->kind == LN_LOOP && n->body->store.nout ? ll_local(k, n->body->store.buf[0])
							 : NULL;
}

static bool keeps(LlKernel *k, const LNode *n)
{
	return fills(k, n) != NULL;
}

/* FIRST less the points of the peel. */
static const char *peeled(LlKernel *k, const LNode *n, const char *first)
{
	const char *t;

	if (!n->share.peel)
		return first;
	t = ll_set(&k->f, "sub nsw i64 %s, %s", first, ll_expr(&k->f, n->share.peel));
	ll_forget(&k->f);
	return t;
}

static void other_run(void *arg, const char *at)
{
	run_points(arg, at, -1);
}

/* The maximum peel. An unknown offset counts as STRIDE, the points that the group covers in one
 * step, which is more than a sector. */
static int64_t most_peel(const LNode *n, int64_t stride)
{
	const Expr *e = n->share.peel;

	if (!e || e->kind == EX_CONST)
		return e ? e->i : 0;
	return ex_is_op(e, IN_mod) && e->op.arg[1]->kind == EX_CONST ? e->op.arg[1]->i - 1 : stride;
}

/* The vectors of a thread: the first one's index, the points from there to the end, and the stride
 * between them. */
typedef struct ThreadRuns {
	const char *first, *left;
	const char *lo, *hi;
	int64_t stride, before;
	int64_t many; /* number of points; 0: unknown */
	int64_t most; /* upper bound of the points; 0: none */
} ThreadRuns;

/* Upper bound of E in the runs that the schedule serves; 0: unknown. */
static int64_t most_of(const LlKernel *k, const Expr *e)
{
	int64_t lo, hi;

	if (e->kind != EX_DIM)
		return e->kind == EX_CONST ? e->i : 0;
	dim_bounds(k->f.g->ctx, e->dim, &lo, &hi);
	if (e->dim == k->sched->where.size && k->sched->where.most < hi)
		hi = k->sched->where.most;
	return hi < DIM_INF ? hi : 0;
}

static ThreadRuns runs_of(const Share *s)
{
	LlKernel *k = s->k;
	const LNode *n = s->n;
	const bool known = n->range.lo->kind == EX_CONST && n->range.hi->kind == EX_CONST;
	ThreadRuns r = {.stride = (int64_t)k->group * s->vector,
			.before = most_peel(n, (int64_t)k->group * s->vector),
			.many = known ? n->range.hi->i - n->range.lo->i : 0,
			.most = n->range.lo->kind == EX_CONST && n->range.lo->i == 0
					? most_of(k, n->range.hi)
					: 0};

	ll_ends(k, n, &r.lo, &r.hi);
	r.first = ll_set(&k->f, "mul nuw nsw i64 %s, %d", k->lane, s->vector);
	if (strcmp(r.lo, "0") != 0)
		r.first = ll_set(&k->f, "add nsw i64 %s, %s", r.first, r.lo);
	r.first = peeled(k, n, r.first);
	r.left = ll_set(&k->f, "sub nsw i64 %s, %s", r.hi, r.first);
	return r;
}

/* Opens a block that runs if vector J exists; null: it always does. */
static const char *open_run(LlKernel *k, const ThreadRuns *r, int j)
{
	if (r->before && j == 0)
		return ll_open_if_in(k, r->first, r->lo, r->hi);
	if ((j + 1) * r->stride <= r->many)
		return NULL;
	return ll_open_if_in(k, ll_number(&k->f, j * r->stride), NULL, r->left);
}

/* Some thread may have a vector J. */
static bool may_have(const ThreadRuns *r, int j)
{
	const int64_t most = r->many ? r->many : r->most;

	return !most || j * r->stride < most + r->before;
}

/* Emits the vectors from J onwards in a loop that recomputes the held values. */
static void other_runs(const Share *s, const ThreadRuns *r, int j)
{
	Share other = *s;

	other.n = without_kept(s->k, s->n);
	ll_strided(s->k, s->n->range.var, ll_plus(&s->k->f, r->first, j * r->stride), r->hi,
		   r->stride, !s->n->share.keep && may_have(r, j + LL_UNROLL - 1), other_run,
		   &other);
}

static void run_in_scratch(void *arg, const char *at)
{
	const Share *s = arg;
	LlKernel *k = s->k;
	const char *first = k->in_scratch, *from = ll_set(&k->f, "sub nsw i64 %s, %s", at, first);

	k->in_scratch = ll_set(&k->f, "add nsw i64 %s, %s", from, k->lane);
	run_points(s, at, 0);
	k->in_scratch = first;
}

/* Emits the vectors whose elements are in scratch, from point FIRST on. */
static void runs_in_scratch(const Share *s, const char *first, const ThreadRuns *r)
{
	LlKernel *k = s->k;
	Share in_range = *s;
	const char *end = ll_plus(&k->f, first, s->n->share.scratch / s->vector * r->stride),
		   *less = ll_set(&k->f, "icmp slt i64 %s, %s", end, r->hi),
		   *hi = ll_set(&k->f, "select i1 %s, i64 %s, i64 %s", less, end, r->hi);

	k->in_scratch = first;
	in_range.n = without_kept(k, s->n);
	ll_strided(k, s->n->range.var, first, hi, r->stride, false, run_in_scratch, &in_range);
	k->in_scratch = NULL;
}

/* Emits all vectors of a thread. If their number is unknown, GROUP of them are skipped by one
 * branch. */
static void emit_shared(const Share *s)
{
	enum { GROUP = 4 };
	LlKernel *k = s->k;
	const LNode *n = s->n;
	const ThreadRuns r = runs_of(s);
	const int runs = n->share.keep ? n->share.keep / s->vector : r.before > 0;
	const bool groups = !r.many && runs > 2 * GROUP;
	const LLocal *filled = fills(k, n);
	const int kept = runs + n->share.scratch / s->vector;
	const char *after, *group = NULL;

	k->in_group++;
	for (int j = 0; j < runs; j++) {
		if (groups && j % GROUP == 0) {
			ll_close_if(k, group);
			group = ll_open_if_in(k, ll_number(&k->f, j * r.stride), NULL, r.left);
		}
		after = open_run(k, &r, j);
		run_points(s, ll_plus(&k->f, r.first, j * r.stride), j * s->vector);
		ll_close_if(k, after);
	}
	ll_close_if(k, group);
	ll_forget(&k->f);
	if (n->share.scratch && (!filled || filled->scratch))
		runs_in_scratch(s, ll_plus(&k->f, r.first, runs * r.stride), &r);
	ll_forget(&k->f);
	if (!filled && may_have(&r, kept))
		other_runs(s, &r, kept);
	k->in_group--;
}

void ll_share(LlKernel *k, const LNode *n)
{
	const Share s = {k, n, NULL, n->share.vector ? n->share.vector : 1};

	emit_shared(&s);
	if (!keeps(k, n))
		ll_barrier(k);
}

void ll_reduce(LlKernel *k, const LNode *n)
{
	Buf *part[2] = {NULL, NULL};
	CType ct[2] = {CT_NONE, CT_NONE};
	const char *lo, *hi, *value[2], *at;
	LlLoop l;

	if (ll_alone(k)) {
		ll_ends(k, n, &lo, &hi);
		l = ll_open_loop(k, n->range.var, lo, hi, "1");
		ll_update(k, n, n->store.buf, n->store.idx);
		ll_close_loop(k, &l);
		return;
	}
	for (int i = 0; i < n->store.nout; i++) {
		ct[i] = n->store.val[i]->ct;
		part[i] = ll_state(k, n->store.red, i, ct[i]);
	}
	emit_shared(&(Share){k, n, part, n->share.vector ? n->share.vector : 1});
	ll_over_lanes(k, n, part, ct, 1, k->stage->block.group < 32 ? k->stage->block.group : 32);
	if (k->stage->block.group > 32)
		over_warps(k, n, part, ct);
	else
		ll_barrier(k);
	for (int i = 0; i < n->store.nout; i++)
		value[i] = ll_load(k, part[i], "0");
	at = ll_expr(&k->f, n->store.idx);
	ll_combine(k, n->store.red, n->store.buf, at, value, ct, n->store.nout, false);
}
