/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets kernels read moved elements without a View that only adds or drops dims of 1. For example, a
 * slice of a key cache gets a dim for the query heads that share a key head:
 *
 *     r[b,h,n,k] = x[b,h,n,k]  for n < 100
 *     y = View(r)                             [b,h,1,n,k]
 *     s[b,h,q,m,n] = sum y[b,h,0,n,k] * z[b,h,q,m,k]
 *
 * The readers read r without that dim, so that `fuse` replaces r, which only moves elements, by x.
 */
#include "passes/forms/views_impl.h"

/* Sets TO, by the dims of B, to the corresponding dim of A; -1: a dim of 1 that A lacks. False if
 * they differ in more than dims of 1. */
static bool dims_but_ones(const Type *a, const Type *b, int *to)
{
	int i = 0;

	for (int j = 0; j < b->rank; j++) {
		while (i < a->rank && a->dims[i] != b->dims[j] && dim_equals(a->dims[i], 1))
			i++;
		if (i < a->rank && a->dims[i] == b->dims[j])
			to[j] = i++;
		else if (dim_equals(b->dims[j], 1))
			to[j] = -1;
		else
			return false;
	}
	while (i < a->rank && dim_equals(a->dims[i], 1))
		i++;
	return i == a->rank;
}

/* Makes operand K of kernel node U, which is a View of X, X itself. TO: the dim of X for each dim
 * of the View; -1: a dim of 1 that X lacks. */
static bool read_directly(Node *u, int k, Value *x, const int *to)
{
	Kernel *kernel = node_kernel(u);
	Buf *b = kernel_param(kernel, BUF_IN, k);
	Expr *idx[MAX_RANK];
	Buf *plain;

	if (!b || b->layout || b->rank != node_in(u, k)->type->rank)
		return false;
	for (int i = 0; i < kernel->stmts.n; i++)
		STMT_EACH_LOAD (load, kernel->stmts.at[i])
			if (load->load.buf == b && load->load.nidx != b->rank)
				return false;
	plain = buf_copy(kernel->arena, b);
	plain->rank = x->type->rank;
	plain->dims = x->type->dims;
	for (int i = 0; i < kernel->stmts.n; i++)
		STMT_MAP (e, kernel, kernel->stmts.at[i]) {
			if (e->kind != EX_LOAD || e->load.buf != b)
				continue;
			for (int d = 0; d < plain->rank; d++)
				idx[d] = ex_int(kernel->pool, CT_I64, 0);
			for (int d = 0; d < e->load.nidx; d++)
				if (to[d] >= 0)
					idx[to[d]] = e->load.idx[d];
			e = ex_load(kernel->pool, plain, idx, plain->rank);
		}
	for (int i = 0; i < kernel->bufs.n; i++)
		if (kernel->bufs.at[i] == b)
			kernel->bufs.at[i] = plain;
	node_set_input(u, k, x);
	return true;
}

bool views_ones(Node *n)
{
	Value *x = node_in(n, 0), *y = n->out[0];
	int to[MAX_RANK];
	bool any = false;

	if (!views_moves(x->def) || x->place != y->place || !dims_but_ones(x->type, y->type, to))
		return false;
	for (Use *u = y->uses, *next; u; u = next) {
		Node *user = u->user;
		const int k = u->slot;

		next = u->next;
		any = (user && node_kernel(user) && !node_on_host(user) &&
		       read_directly(user, k, x, to)) ||
		      any;
	}
	return any;
}
