/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/ahead.h"

#include "ir/graph/blocks.h"
#include "passes/forms/kernels.h"

#include <string.h>

Precomputed ahead_new(Module *m)
{
	return (Precomputed){.m = m, .block = blocks_of(m->graph, m->arena).of};
}

/* Whether node A computes what K does of the operands IN. */
static bool is_same(const Node *a, Kernel *k, Value *const *in, int nin)
{
	StrBuf x = {0}, y = {0};
	bool same = a->nin == nin;

	for (int i = 0; same && i < nin; i++)
		same = node_in(a, i) == in[i];
	if (same) {
		kernel_print_bare(&x, node_kernel(a));
		kernel_print_bare(&y, k);
		same = !strcmp(strbuf_str(&x), strbuf_str(&y));
	}
	strbuf_free(&x);
	strbuf_free(&y);
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
	for (int i = 0; i < all->at.n; i++)
		if (all->at.at[i].block == all->block[n->id] &&
		    is_same(all->at.at[i].n, k, in, nin))
			return all->at.at[i].n->out[0];
	k->locs = of->locs;
	k->stmts.at[0]->loc = s->loc;
	made = node_new(m->graph, OP_Kernel, in, nin, 1, n);
	node_locs_from(made, n);
	made->out[0]->type = t;
	kernel_node_set(made, k);
	vec_push(m->arena, &all->at, ((PrecomputedNode){made, all->block[n->id]}));
	return made->out[0];
}
