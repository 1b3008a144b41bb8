/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of a kernel's iterators and sizes in LLVM IR, and two properties of them: which differ
 * between all threads, and which are div/mod splits of the block's index.
 */
#include "codegen/nvptx/kernel.h"

#include <assert.h>

void ll_bind(LlKernel *k, const Iter *it, const char *value)
{
	for (int i = 0; i < k->iters.n; i++)
		if (k->iters.at[i].it == it) {
			k->iters.at[i] = (LlIter){it, value, NULL, k->loops + k->in_group};
			return;
		}
	vec_push(k->f.arena, &k->iters, ((LlIter){it, value, NULL, k->loops + k->in_group}));
}

static LlIter *find_iter(LlKernel *k, const Iter *it)
{
	for (int i = 0; i < k->iters.n; i++)
		if (k->iters.at[i].it == it)
			return &k->iters.at[i];
	return NULL;
}

void ll_let(LlKernel *k, const Iter *it, Expr *is)
{
	ll_bind(k, it, ll_expr(&k->f, is));
	find_iter(k, it)->is = is;
}

const char *ll_iter(void *arg, const Iter *it)
{
	const LlIter *i = find_iter(arg, it);

	assert(i);
	return i ? i->value : "0";
}

int ll_depth(void *arg, const Iter *it)
{
	const LlIter *i = find_iter(arg, it);

	return i ? i->depth : 0;
}

bool ll_is_own(const LlKernel *k, const char *value)
{
	for (int i = 0; i < k->own.n; i++)
		if (k->own.at[i] == value)
			return true;
	return false;
}

/* E is the block's number, or a div/mod split of it. */
static bool counts_blocks(LlKernel *k, const Expr *e)
{
	const LlIter *i;

	if (e->kind != EX_ITER || k->stage->block.group < k->stage->block.threads)
		return false;
	i = find_iter(k, e->iter);
	return e->iter == k->stage->var ||
	       (i && i->is && (ex_is_op(i->is, IN_floordiv) || ex_is_op(i->is, IN_mod)) &&
		counts_blocks(k, i->is->op.arg[0]));
}

/* E divides a block's number, or a split of it, by a factor of the number of blocks, which is
 * between 1 and 2^31 - 1 in a launch. */
bool ll_is_short(void *arg, const Expr *e)
{
	LlKernel *k = arg;
	Ctx *c = k->f.g->ctx;
	Dim *all = k->stage->extent, *by;

	if ((!ex_is_op(e, IN_floordiv) && !ex_is_op(e, IN_mod)) || e->ct != CT_I64 ||
	    e->op.arg[1]->kind != EX_DIM || !counts_blocks(k, e->op.arg[0]))
		return false;
	by = e->op.arg[1]->dim;
	return dim_mul(c, dim_floordiv(c, all, by), by) == all;
}

/* If IT is INST(t, BY) of an iterator t that differs between all threads, returns t; else null. */
static const Iter *part_of_own(LlKernel *k, const Iter *it, Inst inst, Dim *by)
{
	const LlIter *i = find_iter(k, it), *of;
	int64_t v;

	if (!i || !i->is || !ex_is_op(i->is, inst) || i->is->op.arg[0]->kind != EX_ITER ||
	    i->is->op.arg[1]->kind != EX_CONST || !dim_is_const(by, &v) || i->is->op.arg[1]->i != v)
		return NULL;
	of = find_iter(k, i->is->op.arg[0]->iter);
	return of && ll_is_own(k, of->value) ? of->it : NULL;
}

/* IDX has the form mod(t, n) + floordiv(t, n) * n, which is t. */
void ll_note_own(LlKernel *k, Expr *idx, const char *value)
{
	Affine a;

	if (k->in_group != 1 || ll_is_own(k, value) || !ex_affine(k->f.g->ctx, idx, &a) ||
	    a.n != 2 || !dim_equals(a.base, 0))
		return;
	for (int low = 0; low < 2; low++) {
		const Iter *t = part_of_own(k, a.iter[low], IN_mod, a.coef[!low]);

		if (t && dim_equals(a.coef[low], 1) &&
		    part_of_own(k, a.iter[!low], IN_floordiv, a.coef[!low]) == t)
			vec_push(k->f.arena, &k->own, value);
	}
}

const char *ll_dim(void *arg, Dim *d)
{
	LlKernel *k = arg;
	int64_t v;
	int i;

	if (dim_is_const(d, &v))
		return ll_number(&k->f, v);
	for (i = 0; i < k->dims.n && k->dims.at[i] != d; i++)
		;
	if (i == k->dims.n)
		vec_push(k->f.arena, &k->dims, d);
	return arena_printf(k->f.arena, "%%dim%d", i);
}
