/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuse: draws the kernel boundaries. Each Kernel node, in order, fuses the producers that it alone
 * can use: one anchor (a contraction or rows of reductions), the maps that feed it, the maps that
 * follow it. Decisions read statements and access relations, never an op's name.
 *
 *   map -> any       the map is inlined where it is read (passes/kernel/inline.c)
 *   anchor -> map    epilogue: the map reads the anchor's result pointwise, up to a permutation
 *   row -> row, map  one pass over common parallel rows (passes/kernel/band.c): softmax, norms
 *
 * A map that only moves elements is copied into every reader instead of being stored. What is
 * computed from constants alone and has other readers stays by itself: it is computed when the
 * model is built.
 */
#include "ir/blocks.h"
#include "passes/kernel/band.h"
#include "passes/kernel/inline.h"
#include "passes/module.h"

#include <assert.h>
#include <stdio.h>

typedef struct Fuse {
	Module *m;
	int *order; /* by Node.id: position in the node list */
	int *block; /* by Node.id: the block that the node is in */
	/* by Node.id: computed from constants alone; for nodes up to the current one */
	bool *constant;
	int norder;
	int budget; /* --rewrite-limit */
	/* TMP: for kernels that are tried; GROWN: for the kernel of the node that is growing. */
	Arena *tmp, *grown;
	/* The last node that grew. Its kernel is copied to the module's arena once the next node
	 * has not fused it. */
	Node *last;
	Arena *last_grown;
} Fuse;

/* Limits on fused kernels, which bound compile time and register pressure: statements; operands
 * and results; cost of a point; parts of expressions; nodes of the model, many of which may have
 * folded away. */
enum { MAX_STMTS = 24, MAX_FUSED_PARAMS = 48, MAX_COST = 2000, MAX_PARTS = 400, MAX_NODES = 256 };

static void number(Fuse *f)
{
	int at = 0;

	f->norder = f->m->graph->nnodes;
	f->order = NEW_ARRAY(f->m->arena, f->norder + 1, int);
	f->constant = NEW_ARRAY(f->m->arena, f->norder + 1, bool);
	f->block = blocks_of(f->m->graph, f->m->arena).of;
	for (Node *n = f->m->graph->first; n; n = n->next)
		f->order[n->id] = at++;
}

/* Whether P's results are used by C and otherwise only after it, so that P can move there. */
static bool can_move_to(Fuse *f, Node *p, Node *c)
{
	for (int i = 0; i < p->nout; i++) {
		if (value_feeds_sym(p->out[i]))
			return false;
		for (Use *u = p->out[i]->uses; u; u = u->next)
			if (u->user && u->user != c && f->order[u->user->id] < f->order[c->id])
				return false;
	}
	return true;
}

static bool only_used_by(const Node *p, const Node *c)
{
	for (int i = 0; i < p->nout; i++)
		for (Use *u = p->out[i]->uses; u; u = u->next)
			if (u->user != c)
				return false;
	return true;
}

typedef struct Remap {
	Kernel *k;
	Buf **buf; /* by Buf.id in the source kernel: the copy */
	Iter **iter;
} Remap;

static Expr *remap_expr(void *arg, Expr *e)
{
	Remap *r = arg;

	if (e->kind == EX_ITER)
		return ex_iter(r->k->pool, r->iter[e->iter->id]);
	if (e->kind == EX_LOAD)
		return ex_load(r->k->pool, r->buf[e->load.buf->id], e->load.idx, e->load.nidx);
	return NULL;
}

/* Appends FROM's statements to K; MAP[id] is K's buffer for FROM's buffer id. */
static void append_kernel(Kernel *k, Kernel *from, Buf **map)
{
	Remap r = {k, map, NEW_ARRAY(k->arena, from->iters.n + 1, Iter *)};
	bool *used = NEW_ARRAY(k->arena, from->iters.n + 1, bool);

	for (int i = 0; i < from->iters.n; i++)
		from->iters.at[i]->id = i;
	for (int i = 0; i < from->stmts.n; i++)
		for (int j = 0; j < from->stmts.at[i]->niters; j++)
			used[from->stmts.at[i]->iter[j]->id] = true;
	for (int i = 0; i < from->iters.n; i++)
		if (used[i])
			r.iter[i] = kernel_iter(k, from->iters.at[i]->name,
						from->iters.at[i]->extent);
	for (int i = 0; i < from->stmts.n; i++) {
		const Stmt *s = from->stmts.at[i];
		Stmt *t = NEW(k->arena, Stmt);

		*t = *s;
		t->id = k->stmts.n;
		for (int j = 0; j < s->niters; j++)
			t->iter[j] = r.iter[s->iter[j]->id];
		for (int j = 0; j < s->nout; j++)
			t->out[j] = map[s->out[j]->id];
		t->widx = NEW_ARRAY(k->arena, s->nwidx + 1, Expr *);
		for (int j = 0; j < s->nwidx; j++)
			t->widx[j] = ex_rewrite(k->pool, s->widx[j], remap_expr, &r);
		for (int j = 0; j < 2; j++)
			t->val[j] = s->val[j] ? ex_rewrite(k->pool, s->val[j], remap_expr, &r)
					      : NULL;
		t->guard = s->guard ? ex_rewrite(k->pool, s->guard, remap_expr, &r) : NULL;
		vec_push(k->arena, &k->stmts, t);
	}
}

static Buf *copy_buf(Kernel *k, const Buf *b, BufKind kind, int param)
{
	Buf *c = buf_copy(k->arena, b);

	c->id = k->bufs.n;
	c->kind = kind;
	c->param = param;
	vec_push(k->arena, &k->bufs, c);
	return c;
}

typedef struct FusedKernel {
	Kernel *k;
	Value *in[MAX_PARAMS], *out[MAX_PARAMS];
	int nin, nout;
	bool over_budget; /* the kernel exceeds a limit */
} FusedKernel;

static Buf *param_in(FusedKernel *g, const Buf *b, Value *v)
{
	for (int i = 0; i < g->k->bufs.n; i++) {
		Buf *o = g->k->bufs.at[i];

		if (o->kind == BUF_IN && g->in[o->param] == v && o->rank == b->rank)
			return o;
	}
	g->in[g->nin] = v;
	return copy_buf(g->k, b, BUF_IN, g->nin++);
}

/* Builds the kernel that computes P, then C. Results of P that only C reads become temporaries.
 * KEEP: P also stays a node of its own, and C gets a copy. */
static bool build(Fuse *f, Node *p, Node *c, bool keep, FusedKernel *g)
{
	Kernel *pk = node_kernel(p), *ck = node_kernel(c);
	Buf **map = NEW_ARRAY(f->tmp, pk->bufs.n + ck->bufs.n + 2, Buf *);
	Buf *shared[MAX_PARAMS] = {NULL};

	if (p->nin + c->nin > MAX_PARAMS || p->nout + c->nout > MAX_PARAMS ||
	    locs_count(p->locs) + locs_count(c->locs) > MAX_NODES)
		return false;
	*g = (FusedKernel){.k = kernel_new(f->m->ctx, f->tmp, ck->name)};
	for (int i = 0; i < pk->bufs.n; i++) {
		Buf *b = pk->bufs.at[i];

		b->id = i;
		if (b->kind == BUF_IN) {
			map[i] = param_in(g, b, node_in(p, b->param));
		} else if (b->kind == BUF_TEMP) {
			map[i] = copy_buf(g->k, b, BUF_TEMP, 0);
		} else {
			Value *v = p->out[b->param];
			bool outside = false;

			for (Use *u = v->uses; u && !keep; u = u->next)
				outside = outside || u->user != c;
			if (outside)
				g->out[g->nout] = v;
			map[i] = copy_buf(g->k, b, outside ? BUF_OUT : BUF_TEMP,
					  outside ? g->nout++ : 0);
			shared[b->param] = map[i];
		}
	}
	append_kernel(g->k, pk, map);
	for (int i = 0; i < ck->bufs.n; i++) {
		Buf *b = ck->bufs.at[i];

		b->id = i;
		if (b->kind == BUF_IN && node_in(c, b->param)->def == p) {
			map[i] = shared[node_in(c, b->param)->index];
			if (map[i]->rank != b->rank)
				return false;
		} else if (b->kind == BUF_IN) {
			map[i] = param_in(g, b, node_in(c, b->param));
		} else if (b->kind == BUF_OUT) {
			g->out[g->nout] = c->out[b->param];
			map[i] = copy_buf(g->k, b, BUF_OUT, g->nout++);
		} else {
			map[i] = copy_buf(g->k, b, BUF_TEMP, 0);
		}
	}
	append_kernel(g->k, ck, map);
	return g->k->stmts.n <= MAX_STMTS && g->nin + g->nout <= MAX_FUSED_PARAMS;
}

static void unused_params(FusedKernel *g)
{
	Value *in[MAX_PARAMS];
	int n = 0;

	kernel_mark_used(g->k);
	for (int i = 0; i < g->k->bufs.n; i++) {
		Buf *b = g->k->bufs.at[i];

		if (b->kind == BUF_IN) {
			in[n] = g->in[b->param];
			b->param = n++;
		}
	}
	memcpy(g->in, in, (size_t)n * sizeof *in);
	g->nin = n;
}

/* Finishes the last node that grew: copies its kernel to the module's arena, unless it was fused
 * into another node. */
static void settle(Fuse *f)
{
	if (f->last)
		kernel_node_set(f->last, kernel_clone(node_kernel(f->last), f->m->arena));
	arena_free(f->last_grown);
	f->last = NULL;
	f->last_grown = NULL;
}

static void absorb(Fuse *f, Node *p)
{
	if (p == f->last)
		f->last = NULL;
	node_remove(p);
}

static Node *replace(Fuse *f, Node *p, Node *c, bool keep, FusedKernel *g)
{
	Graph *graph = f->m->graph;
	Node *n;

	unused_params(g);
	g->k->locs = locs_union(graph->arena, node_kernel(p)->locs, node_kernel(c)->locs);
	n = node_new(graph, OP_Kernel, g->in, g->nin, g->nout, c);
	node_locs_from(n, c);
	node_locs_from(n, p);
	for (int i = 0; i < g->nout; i++) {
		n->out[i]->type = g->out[i]->type;
		n->out[i]->name = g->out[i]->name;
		n->out[i]->place = g->out[i]->place;
		value_move(g->out[i], n->out[i]);
	}
	kernel_node_set(n, g->k);
	if (n->id >= f->norder) {
		int *order = NEW_ARRAY(f->m->arena, 2 * n->id + 2, int);
		int *block = NEW_ARRAY(f->m->arena, 2 * n->id + 2, int);
		bool *constant = NEW_ARRAY(f->m->arena, 2 * n->id + 2, bool);

		memcpy(block, f->block, (size_t)f->norder * sizeof *block);
		memcpy(order, f->order, (size_t)f->norder * sizeof *order);
		memcpy(constant, f->constant, (size_t)f->norder * sizeof *constant);
		f->order = order;
		f->constant = constant;
		f->block = block;
		f->norder = 2 * n->id + 2;
	}
	f->order[n->id] = f->order[c->id];
	f->block[n->id] = f->block[c->id];
	node_remove(c);
	if (!keep)
		absorb(f, p);
	return n;
}

/* Whether all loads of BUF in a map use the same permutation of all of the map's iterators. */
typedef struct Pointwise {
	const Buf *buf;
	Expr *first; /* in the current statement; equal loads are one expression */
	bool ok;
} Pointwise;

static void pointwise_load(void *arg, Stmt *s, Expr *e)
{
	Pointwise *p = arg;

	if (e->load.buf != p->buf)
		return;
	p->ok = p->ok && (!p->first || p->first == e) && load_once(s, e) && load_plain(e);
	p->first = e;
}

static bool all_pointwise(Kernel *ck, const Buf *b)
{
	Pointwise p = {b, NULL, true};

	for (int i = 0; i < ck->stmts.n; i++) {
		p.first = NULL;
		stmt_loads(ck->stmts.at[i], pointwise_load, &p);
		p.ok = p.ok && p.first && !ck->stmts.at[i]->red;
	}
	return p.ok;
}

static Buf *param_buf(Kernel *k, BufKind kind, int param)
{
	for (int i = 0; i < k->bufs.n; i++)
		if (k->bufs.at[i]->kind == kind && k->bufs.at[i]->param == param)
			return k->bufs.at[i];
	return NULL;
}

static bool epilogue(Node *p, Node *c)
{
	Kernel *ck = node_kernel(c);

	if (p->nout != 1)
		return false;
	for (int i = 0; i < c->nin; i++) {
		Buf *b = param_buf(ck, BUF_IN, i);

		if (node_in(c, i) && node_in(c, i)->def == p && (!b || !all_pointwise(ck, b)))
			return false;
	}
	return true;
}

static void count_part(void *arg, Expr *e)
{
	(void)e;
	++*(int *)arg;
}

/* The cost limits what a point computes; the parts limit compile time: an endless chain of cheap
 * maps is cut. */
static bool costs_too_much(FusedKernel *g)
{
	const Kernel *k = g->k;
	int c = 0, parts = 0;

	for (int i = 0; i < k->stmts.n; i++) {
		c += expr_cost(k->stmts.at[i]->val[0]);
		ex_walk(k->stmts.at[i]->val[0], count_part, &parts);
	}
	g->over_budget = c > MAX_COST || parts > MAX_PARTS;
	return g->over_budget;
}

/* Whether P and C can and should be one kernel; *G is that kernel. A kernel reports faults under
 * one name only. What is computed outside of a loop is not computed again in each iteration. */
static bool try_merge(Fuse *f, Node *p, Node *c, FusedKernel *g)
{
	Kernel *pk = node_kernel(p), *ck = node_kernel(c);
	KernelClass kp = kernel_class(pk), kc = kernel_class(ck);
	int before;

	if (f->block[p->id] != f->block[c->id])
		return false;
	if (kp == KC_OTHER || kc == KC_OTHER || !can_move_to(f, p, c) ||
	    (kernel_can_fault(pk) && kernel_can_fault(ck)) ||
	    (f->constant[p->id] && !only_used_by(p, c)))
		return false;
	if (kp == KC_CONTRACTION) {
		if (kc != KC_MAP || !only_used_by(p, c) || !epilogue(p, c))
			return false;
		if (!build(f, p, c, false, g))
			return false;
		kernel_inline(g->k);
		return kernel_class(g->k) == KC_CONTRACTION && !costs_too_much(g);
	}
	if (!build(f, p, c, false, g))
		return false;
	before = g->k->stmts.n;
	kernel_inline(g->k);
	if (costs_too_much(g))
		return false;
	if (kc == KC_CONTRACTION) /* P must have been inlined completely into the operands */
		return kp == KC_MAP && g->k->stmts.n == ck->stmts.n &&
		       kernel_class(g->k) == KC_CONTRACTION;
	if (kp == KC_MAP && kc == KC_MAP)
		return g->k->stmts.n < before ? g->k->stmts.n <= ck->stmts.n ||
							band_good(g->k, module_on_gpu(f->m))
					      : band_good(g->k, module_on_gpu(f->m));
	return band_good(g->k, module_on_gpu(f->m));
}

static bool is_free_map(Node *p)
{
	Kernel *k = node_kernel(p);

	return k && k->stmts.n == 1 && p->nout == 1 && stmt_is_simple_map(k->stmts.at[0]) &&
	       inline_is_free(k->stmts.at[0]) && !expr_can_fault(k->stmts.at[0]->val[0]);
}

static bool try_copy(Fuse *f, Node *p, Node *c, FusedKernel *g)
{
	KernelClass kc = kernel_class(node_kernel(c));
	int n = node_kernel(c)->stmts.n;

	/* If C alone reads P, the copy would be the kernel that exceeded the limits. */
	if ((g->over_budget && only_used_by(p, c)) || !is_free_map(p) || kc == KC_OTHER ||
	    !build(f, p, c, true, g))
		return false;
	kernel_inline(g->k);
	return g->k->stmts.n == n && kernel_class(g->k) == kc && !costs_too_much(g);
}

/* A BitCast accesses elements as another type of their width, so its loads are not the operand's
 * values. */
static bool moves_bits(const Node *n)
{
	Kernel *k = node_kernel(n);

	for (int i = 0; i < k->bufs.n; i++) {
		const Buf *b = k->bufs.at[i];
		const Value *v = b->kind == BUF_IN    ? node_in(n, b->param)
				 : b->kind == BUF_OUT ? node_out(n, b->param)
						      : NULL;

		if (v && v->type->dtype != b->dtype)
			return true;
	}
	return false;
}

static bool is_dead(const Node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i]->uses || value_feeds_sym(n->out[i]))
			return false;
	return true;
}

/* Fuses producer P into C; returns C's new node, or null. */
static Node *merge(Fuse *f, Node *p, Node *c)
{
	FusedKernel *g;
	bool keep;
	Node *n = NULL;

	f->tmp = arena_new();
	g = NEW(f->tmp, FusedKernel);
	keep = !try_merge(f, p, c, g);
	if (!keep || try_copy(f, p, c, g)) {
		n = replace(f, p, c, keep, g);
		if (keep && is_dead(p))
			absorb(f, p);
		arena_free(f->grown);
		f->grown = f->tmp;
	} else {
		arena_free(f->tmp);
	}
	return n;
}

static Node *grow(Fuse *f, Node *c)
{
	if (moves_bits(c))
		return NULL;
	for (int i = 0; i < c->nin; i++) {
		Value *v = node_in(c, i);
		Node *p = v ? v->def : NULL, *n;

		if (!p || !node_kernel(p) || f->budget == 0 || moves_bits(p) ||
		    node_on_host(p) != node_on_host(c))
			continue;
		n = merge(f, p, c);
		if (n) {
			f->budget -= f->budget > 0;
			return n;
		}
	}
	return NULL;
}

/* Whether N, which is complete by now, runs when the model is compiled. */
static bool is_constant(const Fuse *f, const Node *n)
{
	for (int i = 0; i < n->nin; i++) {
		const Value *v = node_in(n, i);

		if (v && (!v->def || !f->constant[v->def->id]))
			return false;
	}
	return node_may_be_weights(n);
}

bool pass_fuse(Module *m)
{
	Fuse f = {.m = m, .budget = m->opt.rewrite_limit};

	if (m->opt.level == 0)
		return true;
	number(&f);
	for (Node *n = m->graph->first; n; n = n->next) {
		for (Node *g = node_kernel(n) ? n : NULL; g; g = grow(&f, g))
			n = g;
		f.constant[n->id] = is_constant(&f, n);
		settle(&f);
		f.last = f.grown ? n : NULL;
		f.last_grown = f.grown;
		f.grown = NULL;
	}
	settle(&f);
	return true;
}
