/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slice: finds a dim, usually the batch, whose elements are computed independently. The runtime
 * then runs the program for a few elements at a time, so that intermediate values stay in the
 * caches.
 *
 * A value that depends on the size S has exactly one dim S, and no other dim that depends on S. A
 * statement that writes such a value indexes that dim by an iterator of extent S, and indexes dim S
 * of all values that it reads by the same iterator. The statement mentions the iterator and S
 * nowhere else. Element i of each result then depends only on element i of the inputs, and on
 * inputs and constants without such a dim. In inputs and results of the graph the elements must be
 * contiguous, because a slice is passed as a tensor.
 *
 * Each slice reads the weights once more. That pays if the intermediate values of an element are
 * larger than the weights. A kernel whose results do not depend on the batch would run once for
 * each slice, so a graph with such a kernel has no slices.
 */
#include "passes/forms/kernels.h"
#include "passes/memory/memplan_pack.h"
#include "passes/module.h"

enum {
	/* Bytes of the arena of a slice, for each thread. A core's share of the last-level cache is
	 * 4 to 32 MiB. On a machine with 32 MiB, ResNet-50 took 60.3, 62.2, 65.0 and 66.3 ms an
	 * image in slices with arenas of 11, 20, 39 and 75 MiB, MobileNetV2 6.4, 6.6, 7.1 and 7.8
	 * ms with 6, 12, 24 and 48, and MobileNetV3, whose weights are larger, 5.1, 4.9, 5.2 and
	 * 5.7 with 4.4, 9, 18 and 35. */
	SLICE_BYTES = 10 << 20
};

typedef struct Slicer {
	Module *m;
	Arena *tmp;
	Sym *s;
	bool mentioned; /* by the dims that were examined */
} Slicer;

/* ---- Sizes ---- */

static void see_sym(void *arg, Sym *s)
{
	Slicer *x = arg;

	x->mentioned = x->mentioned || s == x->s;
	if (s->def)
		dim_syms(s->def, see_sym, x);
}

static bool mentions(Slicer *x, const Dim *d)
{
	x->mentioned = false;
	dim_syms(d, see_sym, x);
	return x->mentioned;
}

enum { NO_PARTS = -1, NOT_SLICED = -2 };

/* The only dim that depends on S, if it is S itself. */
static int dim_of_parts(Slicer *x, Dim *const *dims, int rank)
{
	int at = NO_PARTS;

	for (int d = 0; d < rank; d++) {
		if (!mentions(x, dims[d]))
			continue;
		if (at >= 0 || dims[d] != x->s->dim)
			return NOT_SLICED;
		at = d;
	}
	return at;
}

static int buf_parts(Slicer *x, const Buf *b)
{
	return dim_of_parts(x, b->dims, b->rank);
}

static int value_parts(Slicer *x, const Value *v)
{
	return dim_of_parts(x, v->type->dims, v->type->rank);
}

/* Dims FROM to TO - 1, multiplied. */
static Dim *volume(Ctx *c, const Type *t, int from, int to)
{
	Dim *all = dim_const(c, 1);

	for (int d = from; d < to; d++)
		all = dim_mul(c, all, t->dims[d]);
	return all;
}

/* Whether V has parts that are contiguous in memory, consecutive, and of whole bytes. */
static bool parts_contiguous(Slicer *x, const Value *v)
{
	const Type *t = v->type;
	const int at = value_parts(x, v);

	return at >= 0 && !t->layout && dtype_info[t->dtype].bits >= 8 &&
	       dim_equals(volume(x->m->ctx, t, 0, at), 1);
}

/* ---- Statements ---- */

typedef struct StmtCheck {
	Slicer *x;
	const Iter *part; /* the iterator of the parts; null: the statement has none */
	bool *seen;       /* by Expr.id */
} StmtCheck;

static bool expr_apart(StmtCheck *c, Expr *e)
{
	Expr *const *child = NULL;
	int n, at = NO_PARTS;

	if (c->seen[e->id])
		return true;
	c->seen[e->id] = true;
	if (e->kind == EX_ITER)
		return e->iter != c->part;
	if (e->kind == EX_DIM)
		return !mentions(c->x, e->dim);
	if (e->kind == EX_LOAD) {
		at = buf_parts(c->x, e->load.buf);
		if (at == NOT_SLICED ||
		    (at >= 0 && (!c->part || e->load.nidx != e->load.buf->rank ||
				 e->load.idx[at]->kind != EX_ITER ||
				 e->load.idx[at]->iter != c->part)))
			return false;
	}
	n = ex_operands(e, &child);
	for (int i = 0; i < n; i++)
		if (i != at && !expr_apart(c, child[i]))
			return false;
	return true;
}

/* Whether iterator I of S has the extent of the parts, and indexes dim AT of S's output. */
static bool writes_parts(const Slicer *x, const Stmt *s, int i, int at)
{
	return s->iter[i]->extent == x->s->dim && s->widx[at]->kind == EX_ITER &&
	       s->widx[at]->iter == s->iter[i];
}

static bool stmt_apart(Slicer *x, const Kernel *k, const Stmt *s)
{
	StmtCheck c = {x, NULL, NEW_ARRAY(x->tmp, expr_count(k->pool) + 1, bool)};
	const int at = buf_parts(x, s->out[0]);

	for (int o = 0; o < s->nout; o++)
		if (buf_parts(x, s->out[o]) != at)
			return false;
	if (at == NOT_SLICED || (at >= 0 && s->nwidx != s->out[0]->rank))
		return false;
	for (int i = 0; i < s->niters; i++) {
		if (at >= 0 && i < s->nband && writes_parts(x, s, i, at))
			c.part = s->iter[i];
		else if (mentions(x, s->iter[i]->extent))
			return false;
	}
	if (at >= 0 && !c.part)
		return false;
	for (int d = 0; d < s->nwidx; d++)
		if (d != at && !expr_apart(&c, s->widx[d]))
			return false;
	for (int o = 0; o < 2; o++)
		if (s->val[o] && !expr_apart(&c, s->val[o]))
			return false;
	return !s->guard || expr_apart(&c, s->guard);
}

/* ---- The graph ---- */

static bool node_apart(Slicer *x, const Node *n)
{
	const Kernel *k = node_kernel(n);

	if (n->op == OP_Const)
		return true;
	if (op_row[n->op].flags & OPF_VIEW) {
		const Value *from = node_in(n, 0), *to = n->out[0];
		const int a = value_parts(x, from), b = value_parts(x, to);

		if (a < 0 || b < 0)
			return a == NO_PARTS && b == NO_PARTS;
		return volume(x->m->ctx, from->type, 0, a) == volume(x->m->ctx, to->type, 0, b);
	}
	if (!k || kernel_has_strings(k))
		return false;
	for (int i = 0; i < k->stmts.n; i++)
		if (!stmt_apart(x, k, k->stmts.at[i]))
			return false;
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && !value_is_weights(x->m, n->out[i]) &&
		    value_parts(x, n->out[i]) < 0)
			return false;
	return true;
}

static bool graph_apart(Slicer *x)
{
	const Graph *g = x->m->graph;

	/* `bind` computes symbols that abbreviate a size once, from the whole batch */
	for (int i = 0; i < sym_count(x->m->ctx); i++)
		if (sym_at(x->m->ctx, i)->def && mentions(x, sym_at(x->m->ctx, i)->def))
			return false;
	for (int i = 0; i < g->facts.n; i++)
		if (mentions(x, g->facts.at[i].a) || mentions(x, g->facts.at[i].b))
			return false;
	for (int i = 0; i < g->inputs.n; i++)
		if (value_parts(x, g->inputs.at[i]) != NO_PARTS &&
		    !parts_contiguous(x, g->inputs.at[i]))
			return false;
	for (int i = 0; i < g->results.n; i++) {
		const Value *v = g->results.at[i]->value;
		const Place *at = &x->m->mem->value[v->id];

		/* others are copied from their place, which is not a launch */
		if (at->kind != PLACE_OUTPUT || at->at != i || !parts_contiguous(x, v))
			return false;
	}
	for (const Node *n = g->first; n; n = n->next)
		if (!node_apart(x, n))
			return false;
	return true;
}

/* ---- Whether it pays ---- */

/* The bytes of a part of V; 0 if V has no parts, or their size is not constant. */
static int64_t part_bytes(Slicer *x, const Value *v)
{
	Dim **one = NEW_ARRAY(x->tmp, sym_count(x->m->ctx), Dim *);
	int64_t n;

	if (value_parts(x, v) < 0)
		return 0;
	one[x->s->id] = dim_const(x->m->ctx, 1);
	return dim_is_const(dim_subst(x->m->ctx, volume(x->m->ctx, v->type, 0, v->type->rank), one,
				      sym_count(x->m->ctx)),
			    &n)
		       ? n * dtype_info[v->type->dtype].bits / 8
		       : 0;
}

/* The bytes that kernels write and read of one part of all values. */
static int64_t traffic(Slicer *x)
{
	int64_t all = 0;

	for (const Node *n = x->m->graph->first; n; n = n->next) {
		if (!node_kernel(n))
			continue;
		for (int i = 0; i < n->nin; i++)
			all += node_in(n, i) ? part_bytes(x, node_in(n, i)) : 0;
		for (int i = 0; i < n->nout; i++)
			all += n->out[i] ? part_bytes(x, n->out[i]) : 0;
	}
	return all;
}

/* The bytes that every slice reads: the weights, and inputs without parts. If an input's size is
 * unknown, its upper bound counts. */
static int64_t shared_bytes(Slicer *x)
{
	const Graph *g = x->m->graph;
	int64_t all = x->m->mem->weights, n;

	for (int i = 0; i < g->inputs.n; i++) {
		const Type *t = g->inputs.at[i]->type;

		if (value_parts(x, g->inputs.at[i]) >= 0)
			continue;
		if (!dim_is_const(volume(x->m->ctx, t, 0, t->rank), &n))
			return INT64_MAX;
		all += n * dtype_info[t->dtype].bits / 8;
	}
	return all;
}

/* The number of parts that each thread computes at once; 0: slices do not pay. */
static int64_t parts_at_once(Slicer *x)
{
	const MemPlan *p = x->m->mem;
	const int64_t sample = memplan_sample(x->m, x->tmp)[x->s->id];
	const int64_t each = p->slots.sample_total / (sample > 0 ? sample : 1);

	if (x->m->opt.slice >= 0)
		return x->m->opt.slice;
	if (!each || traffic(x) < shared_bytes(x))
		return 0;
	return each < SLICE_BYTES ? SLICE_BYTES / each : 1;
}

void slice_print(StrBuf *b, const Module *m)
{
	if (m->slice.sym)
		strbuf_printf(b, "slices: %lld of %s for each thread", (long long)m->slice.parts,
			      m->slice.sym->name);
	else
		strbuf_puts(b, "slices: none");
}

bool pass_slice(Module *m)
{
	const Graph *g = m->graph;
	Slicer x = {m, NULL, NULL, false};
	bool *tried; /* by Sym.id */

	if (module_on_gpu(m) || g->aliases.n || !m->opt.slice)
		return true;
	x.tmp = arena_new();
	tried = NEW_ARRAY(x.tmp, sym_count(m->ctx) + 1, bool);
	for (int i = 0; i < g->inputs.n; i++) {
		const Type *t = g->inputs.at[i]->type;

		for (int d = 0; d < t->rank && !m->slice.sym; d++) {
			x.s = dim_as_sym(t->dims[d]);
			if (!x.s || tried[x.s->id])
				continue;
			tried[x.s->id] = true;
			if (x.s->from_data || x.s->def || x.s->lo > 1 || !graph_apart(&x))
				continue;
			m->slice.parts = parts_at_once(&x);
			m->slice.sym = m->slice.parts ? x.s : NULL;
		}
	}
	arena_free(x.tmp);
	return true;
}
