/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of one node: its buffers and names, and what `lower` functions share. */
#include "ops/build.h"
#include "ops/infer.h"

#include <assert.h>
#include <ctype.h>

/* "/fc/MatMul" as fc_MatMul: a C identifier, of at most 48 characters. */
static const char *kernel_name(Ctx *c, const Node *n)
{
	const char *from = node_loc(n).node;
	char s[49];
	size_t len = 0;

	if (!from || !*from)
		from = op_row[n->op].name;
	for (; *from && len < sizeof s - 1; from++) {
		if (isalnum((unsigned char)*from))
			s[len++] = *from;
		else if (len && s[len - 1] != '_')
			s[len++] = '_';
	}
	while (len && s[len - 1] == '_')
		len--;
	s[len] = 0;
	if (!len || isdigit((unsigned char)s[0])) {
		char t[80];

		snprintf(t, sizeof t, "%s_%s", op_row[n->op].name, s);
		return ctx_name(c, t);
	}
	return ctx_name(c, s);
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
	Kernel *k = kernel_new(in->ctx, arena, kernel_name(in->ctx, n));
	int before = in->errors;

	for (int i = 0; i < n->locs.n; i++)
		vec_push(arena, &k->locs, n->locs.at[i]);
	add_buffers(k, n);
	if (op->lower)
		op->lower(in, n, k);
	else if (op->scalar)
		lower_elementwise(in, n, k);
	else
		infer_error(in, n, "has no lowering");
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
