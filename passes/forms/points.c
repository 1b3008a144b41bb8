/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/points.h"

bool pair_absent(const Pair *p, Expr *e)
{
	return !e || (!expr_has_iter(e, p->out) && !expr_has_iter(e, p->in));
}

bool pair_steps(const Pair *p, Expr *at)
{
	Ctx *c = p->k->ctx;
	Affine a;

	return pair_absent(p, at) ||
	       (ex_affine(c, at, &a) &&
		affine_coef(c, &a, p->out) == dim_mul(c, affine_coef(c, &a, p->in), p->extent));
}

bool pair_joins(const Pair *p, Expr *e)
{
	if (expr_has_iter_outside_loads(e, p->out) || expr_has_iter_outside_loads(e, p->in))
		return false;
	EX_EACH_LOAD (x, e)
		if (x->load.buf != p->skip && !pair_absent(p, x) &&
		    !pair_steps(p, x->load.nidx == x->load.buf->rank
					   ? flat_index(p->k, x->load.buf, x->load.idx)
					   : x->load.idx[0]))
			return false;
	return true;
}

/* Whether the last two of the first N iterators can be merged. */
static bool joins(const Points *p, int n)
{
	Pair pair = {p->k, p->it[n - 2], p->it[n - 1], p->it[n - 1]->extent, NULL};

	if (!pair_absent(&pair, p->guard) || (p->write && !pair_steps(&pair, p->write)))
		return false;
	for (int i = 0; i < p->ne; i++)
		if (!pair_joins(&pair, p->e[i]))
			return false;
	return true;
}

static void substitute(Points *p, Iter *const *from, Expr *const *with, int n)
{
	for (int i = 0; i < p->ne; i++)
		p->e[i] = ex_subst_iters(p->k->pool, p->e[i], from, with, n);
	p->guard = ex_subst_iters(p->k->pool, p->guard, from, with, n);
	p->write = ex_subst_iters(p->k->pool, p->write, from, with, n);
}

static void substitute_at(Points *p, Iter *const *from, Expr *const *with, int n)
{
	for (int i = 0; i < p->nat; i++)
		p->at[i] = ex_subst_iters(p->k->pool, p->at[i], from, with, n);
}

static void join(Points *p, int n)
{
	ExprPool *pool = p->k->pool;
	Iter *from[2] = {p->it[n - 2], p->it[n - 1]};
	Iter *one = kernel_iter(p->k, from[1]->name,
				dim_mul(p->k->ctx, from[0]->extent, from[1]->extent));
	Expr *inner = ex_dim(pool, from[1]->extent), *it = ex_iter(pool, one);
	Expr *with[2] = {ex_int(pool, CT_I64, 0), it};
	Expr *both[2] = {ex_op2(pool, IN_floordiv, it, inner), ex_op2(pool, IN_mod, it, inner)};

	substitute(p, from, with, 2);
	substitute_at(p, from, both, 2);
	p->it[n - 2] = one;
}

void points_add(Points *p, Iter *it)
{
	p->it[p->n++] = it;
	p->at[p->nat++] = ex_iter(p->k->pool, it);
}

void points_join(Points *p)
{
	int n = 0;

	for (int i = 0; i < p->n; i++) {
		p->it[n++] = p->it[i];
		while (n > 1 && joins(p, n)) {
			join(p, n);
			n--;
		}
	}
	p->n = n;
}

typedef struct Flatten {
	const Pair *pair;
	/* replacements of the pair's iterators, in indices that step through both with one
	 * stride */
	Expr *const *one;
} Flatten;

static Expr *flatten_index(const Flatten *f, Expr *at)
{
	Iter *from[2] = {(Iter *)(uintptr_t)f->pair->out, (Iter *)(uintptr_t)f->pair->in};

	return pair_steps(f->pair, at) ? ex_subst_iters(f->pair->k->pool, at, from, f->one, 2) : at;
}

/* Replaces the last two iterators by one: by their merged index if possible, else by its
 * quotient and remainder. */
static void flatten_last(Points *p)
{
	ExprPool *pool = p->k->pool;
	Iter *from[2] = {p->it[p->n - 2], p->it[p->n - 1]};
	Pair pair = {p->k, from[0], from[1], from[1]->extent, NULL};
	Expr *inner = ex_dim(pool, from[1]->extent),
	     *it = ex_iter(pool, kernel_iter(p->k, "t", iters_points(p->k->ctx, from, 2)));
	Expr *one[2] = {ex_int(pool, CT_I64, 0), it};
	Expr *both[2] = {ex_op2(pool, IN_floordiv, it, inner), ex_op2(pool, IN_mod, it, inner)};
	Flatten f = {&pair, one};

	for (int i = 0; i < p->ne; i++)
		EX_MAP (x, pool, &p->e[i])
			if (x->kind == EX_LOAD && x->load.nidx == 1) {
				Expr *at = flatten_index(&f, x->load.idx[0]);

				x = ex_load(pool, x->load.buf, &at, 1);
			}
	if (p->write)
		p->write = flatten_index(&f, p->write);
	substitute(p, from, both, 2);
	substitute_at(p, from, both, 2);
	p->it[--p->n - 1] = it->iter;
}

void points_flatten(Points *p)
{
	while (p->n > 1)
		flatten_last(p);
}

void points_rename(Points *p, Iter *it)
{
	Expr **all[MAX_TERMS + MAX_ITERS + 2] = {&p->guard, &p->write},
					   *to = ex_iter(p->k->pool, it);
	int n = 2;

	for (int i = 0; i < p->ne; i++)
		all[n++] = &p->e[i];
	for (int i = 0; i < p->nat; i++)
		all[n++] = &p->at[i];
	for (int i = 0; i < n; i++)
		if (*all[i])
			*all[i] = ex_subst_iters(p->k->pool, *all[i], p->it, &to, 1);
	p->it[0] = it;
}
