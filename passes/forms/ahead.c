/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/ahead.h"

#include "ir/graph/blocks.h"
#include "passes/forms/kernels.h"

Precomputed ahead_new(Module *m)
{
	return (Precomputed){.m = m, .block = blocks_of(m->graph, m->arena).of};
}

/* A hash of what K computes of the operands IN. */
static uint64_t hash_of(const Kernel *k, Value *const *in, int nin)
{
	STRBUF_LOCAL(b);

	kernel_print_bare(&b, k);
	for (int i = 0; i < nin; i++)
		strbuf_printf(&b, " %d", in[i]->id);
	return hash_bytes(HASH_SEED, strbuf_str(&b), b.n);
}

/* Whether node N has exactly the operands IN. */
static bool has_operands(const Node *n, Value *const *in, int nin)
{
	bool same = n->nin == nin;

	for (int i = 0; same && i < nin; i++)
		same = node_in(n, i) == in[i];
	return same;
}

Value *ahead_value(Precomputed *all, Node *n, const Stmt *s, Expr *e, Iter *const *it, int nit,
		   const char *suffix, const char *result)
{
	Module *m = all->m;
	Kernel *of = node_kernel(n),
	       *k = kernel_new(m->ctx, m->arena, arena_printf(m->arena, "%s_%s", of->name, suffix));
	Dim *dims[MAX_ITERS];
	Iter *own[MAX_ITERS];
	Expr *with[MAX_ITERS];
	Value *in[MAX_PARAMS];
	int nin = 0;
	uint64_t hash;
	const Type *t;
	Buf *out;
	Node *made;

	for (int i = 0; i < nit; i++) {
		dims[i] = it[i]->extent;
		own[i] = kernel_iter(k, it[i]->name, dims[i]);
		with[i] = ex_iter(k->pool, own[i]);
	}
	t = type_tensor(m->ctx, ctype_dtype(e->ct), nit, dims);
	out = kernel_buf(k, BUF_OUT, result, t);
	kernel_map_id(k, own, out, kernel_import_expr(k, of, e, it, with, nit, n, in, &nin));
	hash = hash_of(k, in, nin);
	VEC_EACH_AT (p, &all->at)
		if (p->hash == hash && p->block == all->block[n->id] &&
		    has_operands(p->n, in, nin) && kernel_same(node_kernel(p->n), k))
			return p->n->out[0];
	k->locs = of->locs;
	k->stmts.at[0]->loc = s->loc;
	made = node_new(m->graph, OP_Kernel, in, nin, 1, n);
	node_locs_from(made, n);
	made->out[0]->type = t;
	kernel_node_set(made, k);
	vec_push(m->arena, &all->at, ((PrecomputedNode){made, all->block[n->id], hash}));
	return made->out[0];
}
