/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuilds a dim as something else: shape arithmetic of a model, for example. */
#include "ir/dim/dim_impl.h"

static void *walk_atom(const Atom *a, const DimBuilder *b)
{
	static const DimOp op[] = {[ATOM_FLOOR] = DIM_OP_FLOORDIV,
				   [ATOM_MIN] = DIM_OP_MIN,
				   [ATOM_MAX] = DIM_OP_MAX,
				   [ATOM_ADD] = DIM_OP_ADD,
				   [ATOM_MUL] = DIM_OP_MUL};
	void *v;

	if (a->kind == ATOM_SYM)
		return a->sym->def ? dim_walk(a->sym->def, b) : b->sym(b->arg, a->sym);
	v = dim_walk(a->arg[0], b);
	for (int i = 1; i < a->n && v; i++) {
		void *with = dim_walk(a->arg[i], b);

		v = with ? b->op(b->arg, op[a->kind], v, with) : NULL;
	}
	return v;
}

static void *walk_term(const Term *t, const DimBuilder *b)
{
	void *v = t->coef != 1 || !t->n ? b->constant(b->arg, t->coef) : NULL;

	for (int i = 0; i < t->n; i++)
		for (int k = 0; k < t->f[i].pow; k++) {
			void *with = walk_atom(t->f[i].atom, b);

			if (!with)
				return NULL;
			v = v ? b->op(b->arg, DIM_OP_MUL, v, with) : with;
		}
	return v;
}

void *dim_walk(const Dim *d, const DimBuilder *b)
{
	void *v = d->n ? walk_term(&d->t[0], b) : b->constant(b->arg, 0);

	for (int i = 1; i < d->n && v; i++) {
		void *with = walk_term(&d->t[i], b);

		v = with ? b->op(b->arg, DIM_OP_ADD, v, with) : NULL;
	}
	return v;
}
