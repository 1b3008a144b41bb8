/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets kernels read elements without storing repetitions. In grouped-query attention, for example,
 * 7 query heads share a key head. Exporters repeat the keys, and merge the repeated dim with the
 * dim of the heads:
 *
 *     r[b,h,q,n,k] = x[b,h,0,n,k]  for h < 2, q < 7
 *     y = View(r)                                  of 14 heads
 *     s[b,g,m,n] = sum y[b,g,n,k] * z[b,g,m,k]     for g < 14
 *
 * If s could read x directly, at g / 7, the repeated keys would not have to be stored; but a matrix
 * product cannot read an operand at an index with a division. So the readers get the dims of r: the
 * heads are split into two dims, in s and in all kernels after it up to the next View.
 *
 *     s[b,h,q,m,n] = sum r[b,h,q,n,k] * z[b,h,q,m,k]
 *
 * `fuse` then replaces r, which only moves elements, by x.
 */
#include "passes/forms/views_impl.h"

/* Whether N, which only moves elements, stores some of them several times. */
static bool repeats(const Node *n)
{
	const Stmt *s = node_kernel(n)->stmts.at[0];

	for (int i = 0; i < s->niters; i++)
		if (!dim_equals(s->iter[i]->extent, 1) && !expr_has_iter(s->val[0], s->iter[i]))
			return true;
	return false;
}

/* Adds the kernels that read X; false if one of them cannot be split. */
static bool join_readers(Views *v, const Value *x)
{
	for (const Use *u = x->uses; u; u = u->next) {
		if (!u->user || u->user->op == OP_View || views_member(v, u->user))
			continue;
		if (!views_may_join(u->user) || v->n == MOST_NODES)
			return false;
		views_join(v, u->user);
		v->changed = true;
	}
	return true;
}

/* Adds all kernels that read split results of members. */
static bool join_split_readers(Views *v)
{
	do {
		views_meet(v);
		v->changed = false;
		for (int i = 0; v->ok && i < v->n; i++)
			for (int o = 0; o < v->member[i].node->nout; o++) {
				Value *x = v->member[i].node->out[o];

				if (parts_any(views_parts_of(v, x), x->type->rank))
					v->ok = v->ok && join_readers(v, x);
			}
	} while (v->ok && v->changed);
	return v->ok;
}

bool views_repeat(Views *v, Node *n)
{
	Value *x = node_in(n, 0), *y = n->out[0];
	const Parts **px, **py;

	if (!views_moves(x->def) || !repeats(x->def) || value_is_weights(v->m, x))
		return false;
	v->ok = v->repeats = true;
	px = views_parts_of(v, x);
	py = views_parts_of(v, y);
	return parts_common(v->m->ctx, v->tmp, x->type, y->type, px, py) &&
	       !parts_any(px, x->type->rank) && parts_any(py, y->type->rank) &&
	       join_readers(v, y) && v->n && join_split_readers(v) && views_try(v);
}
