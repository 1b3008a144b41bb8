/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuse: draws the kernel boundaries. Each Kernel node, in order, fuses the producers that only it
 * uses: one anchor (a contraction or rows of reductions), the maps that feed it, the maps that
 * follow it. Decisions read statements and access relations, never an op's name.
 *
 *   map -> any       the map is inlined where it is read (passes/forms/inline.c)
 *   anchor -> map    epilogue: the map reads the anchor's result pointwise, up to a permutation
 *   row -> row, map  one pass over common parallel rows (passes/forms/band.c): softmax, norms
 *
 * A Gather of matrices is inlined into a product that multiplies each matrix by one vector, and
 * reads the matrices in place. A Gather from a constant is inlined into any product, since another
 * kernel checks its indices (gathers.c).
 *
 * Then attention becomes one kernel: a product, the rows that are its only readers, and the product
 * that reads these rows, where the strategy of CPUs (passes/forms/attention.h) or that of GPUs
 * (passes/forms/online.h) takes them together.
 *
 * A map that only moves elements is copied into every reader instead of being stored. A node that
 * depends only on constants and has other readers is not fused: it is computed at compile time.
 */
#include "ir/graph/blocks.h"
#include "passes/forms/product_apart.h"
#include "passes/forms/band.h"
#include "passes/forms/contraction.h"
#include "passes/forms/divide_late.h"
#include "passes/forms/fused.h"
#include "passes/forms/inline.h"
#include "passes/module.h"
#include "passes/forms/attention.h"
#include "passes/forms/form.h"
#include "passes/forms/online.h"

#include <assert.h>
#include <stdio.h>

enum {
	/* The highest cost of a map of bytes that is recomputed for each tap of a stencil instead
	 * of being loaded: the cost of dequantising. */
	MOST_RECOMPUTED = 4,
	/* The most elements that are dequantised from constant bytes into a separate table: 64 KiB
	 * of f32, which fit in L2. */
	MOST_DEQUANTISED = 1 << 14
};

typedef struct Fuse {
	Module *m;
	int *order; /* by Node.id: position in the node list */
	int *block; /* by Node.id: the block that the node is in */
	int norder;
	int budget; /* from --rewrite-limit */
	bool bytes; /* the CPUs can multiply bytes */
	/* TMP is for kernels that are tried; GROWN is for the kernel of the node that is
	 * growing. */
	Arena *tmp, *grown;
	/* The last node that grew. Its kernel is copied to the module's arena once the next node
	 * has not fused it. */
	Node *last;
	Arena *last_grown;
} Fuse;

/* Limits on fused kernels, besides those of fused.c: the cost of a point, and the number of
 * subexpressions. */
enum { MAX_COST = 2000, MAX_SUBEXPRESSIONS = 400 };

static void number(Fuse *f)
{
	int at = 0;

	f->norder = f->m->graph->nnodes;
	f->order = NEW_ARRAY(f->m->arena, f->norder + 1, int);
	f->block = blocks_of(f->m->graph, f->m->arena).of;
	for (Node *n = f->m->graph->first; n; n = n->next)
		f->order[n->id] = at++;
}

/* Whether all uses of P's results are in C or after C, so that P can move to C. */
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

/* Puts a node with kernel G in the place of NODE[0..nnodes), the last of which reads the others.
 * KEEP: the first node remains in the graph. */
static Node *replace(Fuse *f, Node *const *node, int nnodes, bool keep, FusedKernel *g)
{
	Graph *graph = f->m->graph;
	Node *c = node[nnodes - 1], *n;

	fused_drop_unused(g);
	n = node_new(graph, OP_Kernel, g->in, g->nin, g->nout, c);
	for (int i = nnodes - 1; i >= 0; i--) {
		const Locs *locs = node_kernel(node[i])->locs;

		g->k->locs = i + 1 < nnodes ? locs_union(graph->arena, locs, g->k->locs) : locs;
		node_locs_from(n, node[i]);
	}
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

		memcpy(block, f->block, (size_t)f->norder * sizeof *block);
		memcpy(order, f->order, (size_t)f->norder * sizeof *order);
		f->order = order;
		f->block = block;
		f->norder = 2 * n->id + 2;
	}
	f->order[n->id] = f->order[c->id];
	f->block[n->id] = f->block[c->id];
	for (int i = nnodes - 1; i >= keep; i--)
		absorb(f, node[i]);
	return n;
}

/* Whether all loads of BUF in a map use the same permutation of all of the map's iterators, and the
 * map has exactly the points of BUF. A Pad or a Slice has more or fewer, so tiles of the product
 * could not compute it. */
static bool all_pointwise(Kernel *ck, const Buf *b)
{
	VEC_EACH (s, &ck->stmts) {
		const Expr *first = NULL; /* equal loads are one expression */

		STMT_EACH_LOAD (x, s) {
			if (x->load.buf != b)
				continue;
			if ((first && first != x) || !load_once(s, x) || !load_whole(x))
				return false;
			first = x;
		}
		if (!first || s->red)
			return false;
	}
	return true;
}

static bool epilogue(Node *p, Node *c)
{
	Kernel *ck = node_kernel(c);

	if (p->nout != 1)
		return false;
	for (int i = 0; i < c->nin; i++) {
		Buf *b = kernel_param(ck, BUF_IN, i);

		if (node_in(c, i) && node_in(c, i)->def == p && (!b || !all_pointwise(ck, b)))
			return false;
	}
	return true;
}

/* The cost limit bounds the work of a point; the limit on subexpressions bounds compile time, since
 * a chain of cheap maps may be very long. */
static bool costs_too_much(FusedKernel *g)
{
	const Kernel *k = g->k;
	int c = 0, nodes = 0;

	for (int i = 0; i < k->stmts.n; i++) {
		c += expr_cost(k->stmts.at[i]->val[0]);
		EX_EACH (e, k->stmts.at[i]->val[0])
			nodes += e != NULL;
	}
	g->over_budget = c > MAX_COST || nodes > MAX_SUBEXPRESSIONS;
	return g->over_budget;
}

/* Bytes of V; -1: unknown. */
static double bytes_of(const Value *v)
{
	double n = dtype_info[v->type->dtype].bits / 8.0;
	int64_t extent;

	for (int d = 0; d < v->type->rank; d++) {
		if (!dim_is_const(v->type->dims[d], &extent))
			return -1;
		n *= (double)extent;
	}
	return n;
}

/* P is computed at compile time and C is not, and P's result is no larger than an operand of P: a
 * filter multiplied by the scale of a norm, for instance. */
static bool is_stored_constant(const Fuse *f, Node *p, const Node *c)
{
	bool smaller = false;

	if (!node_is_weights(f->m, p) || p->nout != 1 ||
	    inline_is_free(node_kernel(p)->stmts.at[0]) || node_is_weights(f->m, c) ||
	    bytes_of(p->out[0]) < 0)
		return false;
	for (int i = 0; i < p->nin; i++)
		smaller = smaller ||
			  (node_in(p, i) && bytes_of(node_in(p, i)) >= bytes_of(p->out[0]));
	return smaller;
}

static bool has_quotient(Expr *e)
{
	EX_EACH (x, e)
		if ((ex_is_op(x, IN_floordiv) || ex_is_op(x, IN_mod)) && x->ct == CT_I64)
			return true;
	return false;
}

/* Whether S, a reduction, reads B at an index along both its band and its sum. */
static bool reads_stencil(const Stmt *s, const Buf *b)
{
	STMT_EACH_LOAD (x, s)
		for (int d = 0; x->load.buf == b && d < x->load.nidx; d++)
			if (expr_has_any(x->load.idx[d], s->iter, s->nband) &&
			    expr_has_any(x->load.idx[d], s->iter + s->nband, s->niters - s->nband))
				return true;
	return false;
}

/* P is a map, and product C reads each of its results several times by a stencil, so storing them
 * is cheaper than recomputing them for each tap. This applies to bytes that cost more than
 * MOST_RECOMPUTED, and on CPUs to maps whose indices have quotients, such as an image of the
 * nearest pixels, which would be gathered element by element. */
static bool better_stored(const Fuse *f, const Node *p, const Node *c)
{
	Kernel *pk = node_kernel(p), *ck = node_kernel(c);
	bool quotient = false, costly_bytes;
	int cost = 0;

	if (p->nout != 1)
		return false;
	for (int i = 0; i < pk->stmts.n; i++) {
		cost += expr_cost(pk->stmts.at[i]->val[0]);
		quotient = quotient || has_quotient(pk->stmts.at[i]->val[0]);
	}
	costly_bytes = cost > MOST_RECOMPUTED && dtype_info[p->out[0]->type->dtype].bits <= 8;
	if (!costly_bytes && (!quotient || module_on_gpu(f->m)))
		return false;
	for (int i = 0; i < c->nin; i++)
		if (node_in(c, i) == p->out[0] &&
		    reads_stencil(ck->stmts.at[0], kernel_param(ck, BUF_IN, i)))
			return true;
	return false;
}

/* C is a matrix product, which packs its operands or reads them in place. */
static bool is_tiled(const Node *c)
{
	Kernel *k = node_kernel(c);

	return k->stmts.n && form_of_stmt(k, k->stmts.at[0]).c.nm;
}

/* P dequantises a small constant. C is not a tiled product, so fusing P would dequantise the
 * constant again at every use. */
static bool dequantises_few(const Fuse *f, const Node *p, const Node *c)
{
	const Kernel *k = node_kernel(p);
	int64_t n;

	if (!node_is_weights(f->m, p) || p->nout != 1 ||
	    dtype_info[p->out[0]->type->dtype].bits <= 8 ||
	    !dim_is_const(type_numel(f->m->ctx, p->out[0]->type), &n) || n < 2 ||
	    n > MOST_DEQUANTISED || node_is_weights(f->m, c) || is_tiled(c))
		return false;
	for (int i = 0; i < k->bufs.n; i++)
		if (k->bufs.at[i]->kind == BUF_IN && dtype_info[k->bufs.at[i]->dtype].bits <= 8)
			return true;
	return false;
}

/* P is a product whose results are bytes, map C widens them, and only one other kernel reads C's
 * result: that kernel may as well read the bytes. A product of the widened numbers would have to
 * pack them, so it does not count. */
static bool reader_takes_bytes(const Fuse *f, const Node *p, const Node *c)
{
	const Value *v = p->nout == 1 && c->nout == 1 ? c->out[0] : NULL;

	return f->bytes && v && v->uses && !v->uses->next && v->uses->user &&
	       node_kernel(v->uses->user) && !is_tiled(v->uses->user) &&
	       dtype_info[p->out[0]->type->dtype].bits <= 8 &&
	       dtype_info[v->type->dtype].bits > 8 && node_kernel(c)->stmts.n == 1;
}

/* Whether V is read only by kernels that a map of one statement can be inlined into. */
static bool only_inlined(const Value *v)
{
	for (const Use *u = v->uses; u; u = u->next)
		if (!u->user || !node_kernel(u->user) ||
		    kernel_kind(node_kernel(u->user)) == FORM_ORDER)
			return false;
	return v->uses;
}

/* P's result is a result of the graph, a cache for example, and C widens it for kernels; or, on
 * GPUs, C only widens it, as the f32 of a norm in an f16 model. Its readers may as well widen it
 * as they read it, so that the narrow type is what is stored. */
static bool readers_widen(const Fuse *f, const Node *p, const Node *c)
{
	const Value *v = c->nout == 1 ? c->out[0] : NULL;
	bool result = false;

	if (!v || p->nout != 1 || node_kernel(c)->stmts.n != 1 ||
	    dtype_info[v->type->dtype].bits <= dtype_info[p->out[0]->type->dtype].bits)
		return false;
	if (module_on_gpu(f->m) && kernel_kind(node_kernel(p)) != FORM_MAP &&
	    node_kernel(c)->stmts.at[0]->val[0]->kind == EX_LOAD && only_inlined(v))
		return true;
	for (const Use *u = p->out[0]->uses; u; u = u->next)
		result = result || !u->user;
	for (const Use *u = v->uses; u; u = u->next)
		result = result && u->user;
	return result;
}

/* kernel_kind, but a product of gathered matrices counts as a contraction, too: it can be fused
 * with maps before and after it. */
static FormKind class_to_fuse(Kernel *k)
{
	FormKind c = kernel_kind(k);
	Contraction product;

	return c == FORM_ROW && stmt_gathered_product(k, k->stmts.at[0], &product) &&
			       (k->stmts.n == 1 ||
				stmts_kind(k, 1, k->stmts.n - 1) == FORM_MAP)
		       ? FORM_CONTRACTION
		       : c;
}

/* Whether K, which is P and a map or rows that read it, is worth a kernel. */
static bool worth_one(Fuse *f, const Node *p, Kernel *k)
{
	return band_good(k, module_on_gpu(f->m)) ||
	       (!module_on_gpu(f->m) && !node_is_weights(f->m, p) && kernel_is_tiny(k));
}

/* Whether P and C can and should be one kernel; *G is that kernel. A kernel reports faults under
 * one name only. A node outside of a loop is not moved into the loop, where each iteration would
 * recompute it. */
static bool try_merge(Fuse *f, Node *p, Node *c, FusedKernel *g)
{
	Kernel *pk = node_kernel(p), *ck = node_kernel(c);
	FormKind kp = class_to_fuse(pk), kc = class_to_fuse(ck);
	int before;

	if (f->block[p->id] != f->block[c->id])
		return false;
	if (kp == FORM_ORDER || kc == FORM_ORDER || !can_move_to(f, p, c) ||
	    (kernel_can_fault(pk) && kernel_can_fault(ck)) ||
	    (node_is_weights(f->m, p) && (!only_used_by(p, c) || is_stored_constant(f, p, c))))
		return false;
	if ((kc == FORM_CONTRACTION && better_stored(f, p, c)) || dequantises_few(f, p, c) ||
	    readers_widen(f, p, c))
		return false;
	if (kp == FORM_CONTRACTION) {
		if (kc != FORM_MAP || reader_takes_bytes(f, p, c) || !only_used_by(p, c) ||
		    !epilogue(p, c))
			return false;
		if (!fused_build(f->tmp, p, fused_own(f->tmp, c), c, false, g))
			return false;
		kernel_inline(g->k);
		fused_take_points(g);
		return class_to_fuse(g->k) == FORM_CONTRACTION && !costs_too_much(g);
	}
	if (!fused_build(f->tmp, p, fused_own(f->tmp, c), c, false, g))
		return false;
	before = g->k->stmts.n;
	kernel_inline(g->k);
	if (costs_too_much(g))
		return false;
	if (kc == FORM_CONTRACTION) /* P must have been inlined completely into the operands. */
		return kp == FORM_MAP && g->k->stmts.n == ck->stmts.n &&
		       class_to_fuse(g->k) == FORM_CONTRACTION;
	if (kp == FORM_MAP && kc == FORM_MAP)
		return (g->k->stmts.n < before && g->k->stmts.n <= ck->stmts.n) ||
		       worth_one(f, p, g->k);
	return worth_one(f, p, g->k);
}

/* P is a map, or the maps of the parts of a Concat, that only moves elements. */
static bool is_free_map(Node *p)
{
	Kernel *k = node_kernel(p);

	if (!k || !k->stmts.n || p->nout != 1)
		return false;
	VEC_EACH (s, &k->stmts)
		if (s->out[0]->kind != BUF_OUT || !stmt_is_part(s) || !inline_is_free(s) ||
		    expr_can_fault(s->val[0]))
			return false;
	return true;
}

/* C, which may be a scatter, computes the parts of a Concat that it reads: the indices of a slice
 * that PyTorch's exporter assigns by ScatterND, for example. They would be as many as the elements
 * of the slice, times their dims: 629 MB of a run of MViT, of 1,065 MB. */
static bool try_copy(Fuse *f, Node *p, Node *c, FusedKernel *g)
{
	FormKind kc = class_to_fuse(node_kernel(c));
	int n = node_kernel(c)->stmts.n;

	/* If C is P's only reader, the copy would be the kernel that exceeded the limits. */
	if ((g->over_budget && only_used_by(p, c)) || !is_free_map(p) ||
	    (kc == FORM_ORDER && node_kernel(p)->stmts.n == 1) ||
	    (kc == FORM_CONTRACTION && better_stored(f, p, c)) ||
	    !fused_build(f->tmp, p, fused_own(f->tmp, c), c, true, g))
		return false;
	kernel_inline(g->k);
	return g->k->stmts.n == n && class_to_fuse(g->k) == kc && !costs_too_much(g);
}

/* P, which others read, too, has parts, which each reader may as well read before they are moved
 * together; or it computes numbers from its indices and reads no memory, as a Range does, so that
 * each reader may compute them. */
static bool copy_is_free(Node *p, const Node *c)
{
	const Kernel *k = node_kernel(p);

	return is_free_map(p) && !only_used_by(p, c) &&
	       (k->stmts.n > 1 || !expr_has_load(k->stmts.at[0]->val[0]));
}

/* A BitCast accesses elements as another type of their width, so its loads are not the operand's
 * values. */
static bool moves_bits(const Node *n)
{
	Kernel *k = node_kernel(n);

	VEC_EACH (b, &k->bufs) {
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
	bool keep, built;
	Node *n = NULL;

	f->tmp = arena_new();
	g = NEW(f->tmp, FusedKernel);
	keep = copy_is_free(p, c) && try_copy(f, p, c, g);
	built = keep || try_merge(f, p, c, g);
	if (!built)
		keep = built = try_copy(f, p, c, g);
	if (built) {
		n = replace(f, (Node *[]){p, c}, 2, keep, g);
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

/* ---- Attention ---- */

/* The node of CLASS that computes an operand of C and has no other reader, so that both can be one
 * kernel; null: none. */
static Node *only_source(Fuse *f, Node *c, FormKind class)
{
	for (int i = 0; i < c->nin; i++) {
		Value *v = node_in(c, i);
		Node *p = v ? v->def : NULL;

		if (p && node_kernel(p) && kernel_kind(node_kernel(p)) == class &&
		    f->block[p->id] == f->block[c->id] && only_used_by(p, c) &&
		    can_move_to(f, p, c) && !moves_bits(p))
			return p;
	}
	return NULL;
}

/* N multiplies by a constant matrix that is packed in panels at compile time, so the product must
 * be a separate kernel. */
static bool has_weights(const Fuse *f, const Node *n)
{
	Kernel *k = node_kernel(n);
	const Form form = form_of_stmt(k, k->stmts.at[0]);

	if (form.kind != FORM_CONTRACTION)
		return false;
	EX_EACH_LOAD (x, form.c.b) {
		const Value *v = node_loaded(n, x);

		if (v && v->def && node_is_weights(f->m, v->def) &&
		    expr_has_any(x, form.c.n, form.c.nn))
			return true;
	}
	return false;
}

/* Whether the targets' strategy computes K, an attention that ends with node C, as one kernel.
 * If one target is a GPU, only the strategy for GPUs is asked; if it refuses, --explain says
 * why. */
static bool takes_attention(Fuse *f, const Node *c, Kernel *k)
{
	const char *why;
	bool takes;

	if (!module_on_gpu(f->m))
		return attention_takes(k);
	takes = online_takes(k, &why);
	if (why)
		module_note(f->m, c, arena_printf(f->m->arena, "fuse: attention in several kernels, since %s", why));
	return takes;
}

static void take_constants(FusedKernel *g)
{
	for (int i = 0; i < g->k->stmts.n; i++)
		STMT_MAP (x, g->k, g->k->stmts.at[i]) {
			const Tensor *t = x->kind == EX_LOAD && x->load.buf->kind == BUF_IN
						  ? value_const(g->in[x->load.buf->param])
						  : NULL;

			if (t && tensor_numel(t) == 1 && x->ct == dtype_ctype(t->dtype) &&
			    dtype_is_float(t->dtype))
				x = ex_num(g->k->pool, x->ct, dtype_load_f64(t->dtype, t->data, 0));
		}
	fused_drop_unused(g);
}

/* If product C reads rows that read a product, and the three are an attention, fuses them. None
 * of the products may have weights as an operand, and at most one of the three kernels may
 * fault. Returns the new node, or C. */
static Node *merge_attention(Fuse *f, Node *c)
{
	Node *rows = only_source(f, c, FORM_ROW), *first;
	FusedKernel *upper, *g;
	bool built;

	first = rows ? only_source(f, rows, FORM_CONTRACTION) : NULL;
	if (!first || moves_bits(c) || node_is_weights(f->m, c) || has_weights(f, first) ||
	    has_weights(f, c) ||
	    kernel_can_fault(node_kernel(first)) + kernel_can_fault(node_kernel(rows)) +
			    kernel_can_fault(node_kernel(c)) >
		    1)
		return c;
	f->tmp = arena_new();
	upper = NEW(f->tmp, FusedKernel);
	g = NEW(f->tmp, FusedKernel);
	built = fused_build(f->tmp, rows, fused_own(f->tmp, c), c, false, upper) &&
		fused_build(f->tmp, first, upper, rows, false, g);
	if (built)
		kernel_divide_late(g->k);
	if (built && module_on_gpu(f->m))
		take_constants(g);
	if (built && !costs_too_much(g) && takes_attention(f, c, g->k)) {
		c = replace(f, (Node *[]){first, rows, c}, 3, false, g);
		kernel_node_set(c, kernel_clone(node_kernel(c), f->m->arena));
		f->budget -= f->budget > 0;
	}
	arena_free(f->tmp);
	return c;
}

/* Makes what an operator was lowered to one product, or maps and a product. */
static void prepare(Module *m, Node *n)
{
	Node *product = product_apart(m, n);

	product = product ? product : n;
	if (kernel_kind(node_kernel(product)) == FORM_CONTRACTION)
		fused_take_points(fused_own(m->arena, product));
}

bool pass_fuse(Module *m)
{
	Fuse f = {.m = m,
		  .budget = m->opt.rewrite_limit,
		  .bytes = !module_on_gpu(m) && module_multiplies_bytes(m)};

	if (m->opt.level == 0)
		return true;
	for (Node *n = m->graph->first, *next; n && !module_on_gpu(m); n = next) {
		next = n->next;
		if (node_kernel(n) && !node_is_weights(m, n))
			prepare(m, n);
	}
	number(&f);
	for (Node *n = m->graph->first; n; n = n->next) {
		for (Node *g = node_kernel(n) ? n : NULL; g; g = grow(&f, g))
			n = g;
		node_is_weights(m, n);
		settle(&f);
		f.last = f.grown ? n : NULL;
		f.last_grown = f.grown;
		f.grown = NULL;
	}
	settle(&f);
	for (Node *n = m->graph->first; n; n = n->next)
		if (f.budget && node_kernel(n) && kernel_kind(node_kernel(n)) == FORM_CONTRACTION)
			n = merge_attention(&f, n);
	return true;
}
