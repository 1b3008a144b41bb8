/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the kernel of a node: its buffers and names, and helpers for `lower` functions. */
#include "ops/infer/build.h"
#include "ops/infer/infer.h"

#include <assert.h>
#include <ctype.h>

/* Turns "/fc/MatMul" into fc_MatMul, for readers. Names need not be unique: code generation
 * numbers the functions that it prints. */
static const char *kernel_name(Arena *a, const Node *n)
{
	const char *node = node_loc(n).node, *op = op_row[n->op].name;
	const char *word = str_word(a, node ? node : "", 48);

	if (!*word)
		return op;
	return isdigit((unsigned char)*word) ? arena_printf(a, "%s_%s", op, word) : word;
}

static void add_buffers(Kernel *k, Node *n)
{
	static const char *const in_name[] = {"x", "y", "z"};
	char name[24];

	for (int i = 0; i < n->nin; i++) {
		if (!n->in[i].value)
			continue;
		snprintf(name, sizeof name, "in%d", i);
		kernel_buf(k, BUF_IN, i < 3 ? in_name[i] : name, n->in[i].value->type)->param = i;
	}
	for (int i = 0; i < n->nout; i++) {
		if (!n->out[i])
			continue;
		snprintf(name, sizeof name, i ? "out%d" : "out", i);
		kernel_buf(k, BUF_OUT, name, n->out[i]->type)->param = i;
	}
}

Kernel *lower_node(Infer *in, Node *n, Arena *arena)
{
	const Op *op = op_table[n->op];
	Kernel *k = kernel_new(in->ctx, arena, kernel_name(arena, n));
	int before = in->errors;

	k->locs = n->locs;
	add_buffers(k, n);
	if (op->lower)
		op->lower(in, n, k);
	else if (op->scalar)
		lower_elementwise(in, n, k);
	else
		infer_error(in, n, "has no lowering");
	assert(op->host || !kernel_calls_routine(k));
	return in->errors == before ? k : NULL;
}

static Buf *find_buf(Kernel *k, BufKind kind, int i)
{
	for (int j = 0; j < k->bufs.n; j++)
		if (k->bufs.at[j]->kind == kind && k->bufs.at[j]->param == i)
			return k->bufs.at[j];
	return NULL;
}

Buf *lower_in(Kernel *k, int i)
{
	return find_buf(k, BUF_IN, i);
}
Buf *lower_out(Kernel *k, int i)
{
	return find_buf(k, BUF_OUT, i);
}

Expr *lower_load_broadcast(Kernel *k, Buf *b, Iter *const *it, int n)
{
	Expr *idx[MAX_RANK];

	assert(b->rank <= n);
	for (int d = 0; d < b->rank; d++)
		idx[d] = broadcast_index(k, b->dims[d], it[n - b->rank + d]->extent,
					 ex_iter(k->pool, it[n - b->rank + d]));
	return kernel_load(k, b, idx);
}
