/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place: decides for each value of a GPU program whether the host or the GPU computes it. The host
 * launches kernels, so it must know all sizes. A tensor whose elements are sizes is computed on the
 * host if it depends only on small inputs and constants: C kernels compute it in host memory before
 * the first launch, without waiting for the GPU. Everything else is computed on the GPU. A value
 * that both sides read is computed on both: a kernel of a few elements costs less than a transfer.
 *
 * Other sizes depend on results of the GPU. A Copy node transfers such a tensor to the host, and
 * the run waits for it. The earliest small value on which the size depends is copied, so that other
 * sizes that depend on it can share the copy.
 *
 * A kernel that calls a routine of the runtime (ir/expr/routines.def) runs on the host, which has
 * the text of strings. Its operands are inputs and constants, which are on the host, or are copied
 * to the host; its results are copied to the GPU if kernels read them there. Kernels whose results
 * are all strings run on the host between two routines, and between a routine and a result of the
 * graph: then the ids that they move need no copy. On the GPU a string is its id, so kernels that
 * only move or compare strings need no host.
 *
 * -Wfallback reports each kernel with a routine, and each Copy.
 */
#include "ir/graph/blocks.h"
#include "passes/forms/kernels.h"
#include "passes/module.h"

typedef struct HostPlacing {
	Module *m;
	Arena *tmp;
	/* By Value.id, for the values that exist before the pass. */
	bool *have;   /* whether the host can compute it or have it copied */
	bool *copied; /* whether a Copy transfers it to the host */
	/* the node with a routine that the copy is for; null: sizes depend on it */
	const Node **reader;
	/* the value in the host's memory; also for copies on the GPU, which the pass makes */
	Value **host;
	/* By Node.id, likewise: the sides that execute the node, and its routine. */
	bool *on_host, *on_device;
	Inst *routine; /* NO_ROUTINE: none */
} HostPlacing;

#define NO_ROUTINE ((Inst)-1)

static bool small(const Value *v)
{
	enum { MOST = 64 };
	int64_t dims[MAX_RANK], n = 1;

	if (v->type->kind != TYPE_TENSOR || !type_static(v->type, dims))
		return false;
	for (int i = 0; i < v->type->rank; i++)
		if (dims[i] > MOST || (n *= dims[i]) > MOST)
			return false;
	return true;
}

/* ---- Routines ---- */

/* A routine that N calls. NO_ROUTINE if N depends only on constants: then N is computed at compile
 * time. */
static Inst routine_of(Module *m, const Node *n)
{
	const Kernel *k = node_kernel(n);
	Inst found = NO_ROUTINE;

	for (int i = 0; k && i < k->stmts.n; i++)
		STMT_EACH (e, k->stmts.at[i])
			if (e->kind == EX_INST && inst_is_routine(e->op.inst))
				found = e->op.inst;
	return found != NO_ROUTINE && value_is_weights(m, n->out[0]) ? NO_ROUTINE : found;
}

static bool has_routine(const HostPlacing *p, const Node *n)
{
	return p->routine[n->id] != NO_ROUTINE;
}

/* ---- Values that the host can have ---- */

static bool is_strings(const Value *v)
{
	return v->type->kind == TYPE_TENSOR && v->type->dtype == DT_STR;
}

/* Whether V is in host memory before the run, or can be: inputs and constants of any size. */
static bool is_source(const Value *v)
{
	return !v->def || v->def->op == OP_Const;
}

/* Whether N computes only strings, by their ids, or only views its operand. */
static bool moves(const Node *n)
{
	bool yes = node_kernel(n) != NULL;

	for (int i = 0; i < n->nout; i++)
		yes = yes && n->out[i] && is_strings(n->out[i]);
	return yes || n->op == OP_View;
}

/* Whether the host could execute N if it had N's operands. */
static bool could_run(const Node *n)
{
	if (moves(n))
		return true;
	if (!node_kernel(n) && n->op != OP_Iteration)
		return false;
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && !small(n->out[i]))
			return false;
	return true;
}

/* The number of different operands of N that the host does not have; *WHICH is the last one. */
static int lacking(const HostPlacing *p, const Node *n, Value **which)
{
	int count = 0;

	for (int i = 0; i < n->nin; i++) {
		Value *v = node_in(n, i);

		if (v && !p->have[v->id] && (!count || v != *which)) {
			*which = v;
			count++;
		}
	}
	return count;
}

/* Marks N's results as computed by the host. */
static void host_has(HostPlacing *p, const Node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i]) {
			p->have[n->out[i]->id] = true;
			p->copied[n->out[i]->id] = false;
		}
}

/* Whether copying operand FROM of N to the host is better than copying N's result. */
static bool obtains_operand(const Value *from, const Node *n, const Node *reader)
{
	return small(from) || (reader && moves(n) && (is_source(from) || moves(from->def)));
}

/* Makes V available on the host, for READER if that is not null, else for sizes. Walks back through
 * nodes with only one operand that the host lacks, up to a value that the host has; if there is
 * none, copies one. */
static void obtain(HostPlacing *p, Value *v, const Node *reader)
{
	VEC(Node *) way = {0};

	while (v && !p->have[v->id]) {
		Value *from = NULL;
		const bool runs = !is_source(v) && could_run(v->def);
		const int lacks = runs ? lacking(p, v->def, &from) : 0;

		if (runs && (!lacks || (lacks == 1 && obtains_operand(from, v->def, reader)))) {
			vec_push(p->tmp, &way, v->def);
			v = from;
		} else {
			p->have[v->id] = true;
			p->copied[v->id] = !is_source(v);
			p->reader[v->id] = reader;
		}
	}
	while (way.n)
		host_has(p, way.at[--way.n]);
}

static void find_values(HostPlacing *p)
{
	Graph *g = p->m->graph;
	Value *none;

	for (int i = 0; i < g->inputs.n; i++)
		p->have[g->inputs.at[i]->id] = small(g->inputs.at[i]);
	for (Node *n = g->first; n; n = n->next) {
		p->routine[n->id] = routine_of(p->m, n);
		for (int i = 0; has_routine(p, n) && i < n->nin; i++)
			obtain(p, node_in(n, i), n);
		if (n->op == OP_Const
			    ? small(n->out[0])
			    : has_routine(p, n) || (could_run(n) && !lacking(p, n, &none)))
			host_has(p, n);
		for (int i = 0; i < n->nout; i++)
			if (n->out[i] && n->out[i]->syms)
				obtain(p, n->out[i], NULL);
	}
}

/* ---- Assigning nodes to host and GPU ---- */

static bool used_by(const Value *v, const bool *nodes)
{
	for (const Use *u = v->uses; u; u = u->next)
		if (u->user && nodes[u->user->id])
			return true;
	return false;
}

static bool is_result(const Value *v)
{
	for (const Use *u = v->uses; u; u = u->next)
		if (!u->user)
			return true;
	return false;
}

/* Whether V is a result on the host: of a routine, or strings. */
static bool given_by_host(const HostPlacing *p, const Value *v)
{
	return is_result(v) && !is_source(v) && p->have[v->id] && !p->copied[v->id] &&
	       (has_routine(p, v->def) || is_strings(v));
}

static bool wanted_on_host(const HostPlacing *p, const Value *v)
{
	return v->syms || given_by_host(p, v) || used_by(v, p->on_host);
}

static bool wanted_on_device(const HostPlacing *p, const Value *v)
{
	return p->copied[v->id] || used_by(v, p->on_device) ||
	       (is_result(v) && !given_by_host(p, v));
}

static void find_nodes(HostPlacing *p)
{
	for (Node *n = p->m->graph->last; n; n = n->prev) {
		bool host = false, device = false;

		for (int i = 0; i < n->nout; i++)
			if (n->out[i]) {
				host = host ||
				       (wanted_on_host(p, n->out[i]) && !p->copied[n->out[i]->id]);
				device = device || wanted_on_device(p, n->out[i]);
			}
		p->on_host[n->id] = host || has_routine(p, n);
		p->on_device[n->id] = !has_routine(p, n) && (device || !host);
	}
}

/* Inputs and constants are in the memory of each side that reads them. */
static void place_source(HostPlacing *p, Value *v)
{
	p->host[v->id] = v;
	if (wanted_on_host(p, v))
		v->place = wanted_on_device(p, v) ? ON_BOTH : ON_HOST;
}

/* Moves the host's constants to the front, before all nodes that may read them. */
static void place_sources(HostPlacing *p)
{
	const Graph *g = p->m->graph;
	Node *first = NULL, *next;

	for (int i = 0; i < g->inputs.n; i++)
		place_source(p, g->inputs.at[i]);
	for (Node *n = g->first; n; n = next) {
		next = n->next;
		if (n->op != OP_Const) {
			first = first ? first : n;
			continue;
		}
		place_source(p, n->out[0]);
		if (first && n->out[0]->place != ON_DEVICE)
			node_move(n, first);
	}
}

/* ---- The graph ---- */

/* Makes NOW the host's copy of WAS; symbols are read from NOW. */
static void stands_for(HostPlacing *p, Value *was, Value *now)
{
	now->type = was->type;
	now->name = was->name;
	now->place = ON_HOST;
	p->host[was->id] = now;
	graph_move_sources(p->m->graph, was, now);
}

static Node *twin(HostPlacing *p, Node *n)
{
	Value *none[MAX_PARAMS] = {NULL};
	Node *t = node_new(n->graph, n->op, none, n->nin, n->nout, n);

	node_locs_from(t, n);
	if (node_kernel(n))
		kernel_node_set(t, kernel_clone(node_kernel(n), p->m->arena));
	return t;
}

/* Makes N a node of the host, or a copy of N if the GPU executes it, too; moves it before AT unless
 * AT is null. */
static void to_host(HostPlacing *p, Node *n, Node *at)
{
	Node *h = p->on_device[n->id] ? twin(p, n) : n;

	for (int i = 0; i < n->nin; i++)
		node_set_input(h, i, node_in(n, i) ? p->host[node_in(n, i)->id] : NULL);
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			stands_for(p, n->out[i], h->out[i]);
		else
			h->out[i] = NULL;
	if (at)
		node_move(h, at);
}

/* Copies V to the host. */
static bool copy(HostPlacing *p, Value *v)
{
	const Node *reader = p->reader[v->id];
	Node *n = node_new(v->def->graph, OP_Copy, &v, 1, 1, v->def->next);
	DiagLoc by;

	node_locs_from(n, v->def);
	stands_for(p, v, n->out[0]);
	if (!reader)
		return diag_warning(
			p->m->ctx->diag, node_diag(v->def), "fallback",
			"the GPU waits for a copy of this result, since sizes depend on it");
	by = node_diag(reader);
	return diag_warning(
		p->m->ctx->diag, node_diag(v->def), "fallback",
		"the GPU waits for a copy of this result, which %s \"%s\" reads on "
		"the host",
		by.node ? "node" : "kernel", by.node ? by.node : node_kernel(reader)->name);
}

/* Copies V, which only the host computes, to the GPU for its readers there. */
static bool copy_back(HostPlacing *p, Value *v)
{
	Node *n = node_new(v->def->graph, OP_Copy, &v, 1, 1, v->def->next);
	Value *on_gpu = n->out[0];

	node_locs_from(n, v->def);
	on_gpu->type = v->type;
	on_gpu->name = v->name;
	for (Use *u = v->uses, *next; u; u = next) {
		next = u->next;
		if (u->user && u->user != n)
			node_set_input(u->user, u->slot, on_gpu);
	}
	p->host[on_gpu->id] = v;
	return diag_warning(
		p->m->ctx->diag, node_diag(v->def), "fallback",
		"the GPU waits for a copy of this result, which the host computes");
}

/* Makes N, which calls a routine, and its results part of the host's program. */
static bool give_routine(HostPlacing *p, Node *n)
{
	bool ok = diag_warning(
		p->m->ctx->diag, node_diag(n), "fallback",
		"runs on the host, since it calls the routine %s, which GPUs do not have",
		inst_info[p->routine[n->id]].name);

	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && wanted_on_device(p, n->out[i]))
			ok = copy_back(p, n->out[i]) && ok;
	return ok;
}

/* A host node that depends on no Copy is moved before the GPU's first node, unless control flow
 * decides whether it runs. */
static bool rewrite(HostPlacing *p)
{
	const Blocks blocks = blocks_of(p->m->graph, p->tmp);
	Node *at = NULL;
	bool ok = true, copies = false;

	for (Node *n = p->m->graph->first, *next; n; n = next) {
		next = n->next;
		if (n->op == OP_Const)
			continue;
		const int block = blocks.of[n->id];

		if (!at && p->on_device[n->id])
			at = n;
		if (p->on_host[n->id])
			to_host(p, n, copies || block ? NULL : at);
		if (has_routine(p, n))
			ok = give_routine(p, n) && ok;
		for (int i = 0; i < n->nout; i++)
			if (n->out[i] && p->copied[n->out[i]->id]) {
				ok = copy(p, n->out[i]) && ok;
				copies = true;
			}
	}
	return ok;
}

bool pass_place(Module *m)
{
	Graph *g = m->graph;
	HostPlacing p = {.m = m};
	bool ok;
	/* each value becomes at most four: one on each side, and a copy of each */
	const int most = 4 * g->nvalues + 1;

	p.tmp = arena_new();
	p.have = NEW_ARRAY(p.tmp, g->nvalues + 1, bool);
	p.copied = NEW_ARRAY(p.tmp, g->nvalues + 1, bool);
	p.reader = NEW_ARRAY(p.tmp, g->nvalues + 1, const Node *);
	p.host = NEW_ARRAY(p.tmp, most, Value *);
	p.routine = NEW_ARRAY(p.tmp, g->nnodes + 1, Inst);
	p.on_host = NEW_ARRAY(p.tmp, g->nnodes + 1, bool);
	p.on_device = NEW_ARRAY(p.tmp, g->nnodes + 1, bool);
	find_values(&p);
	find_nodes(&p);
	place_sources(&p);
	ok = rewrite(&p);
	m->nweights = 0; /* results of host kernels are not stored in the weights */
	arena_free(p.tmp);
	return ok;
}
