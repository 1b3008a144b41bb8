/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which terms the sums of the strategy *product* have. The guards of both operands may leave out
 * some only by iterators of g: of a 3x3 ConvTranspose with stride 2, the four phases have 1, 2, 2
 * and 4 of the taps. Such terms are neither packed nor multiplied.
 */
#include "passes/schedule/cpu/gemm_impl.h"

Expr *gemm_named(Gemm *g, const char *name, Expr *e, Dim *most)
{
	Iter *it;

	if (e->kind == EX_CONST)
		return e;
	it = l_iter(&g->b, name, dim_add(g->p.k->ctx, most, dim_const(g->p.k->ctx, 1)));
	l_let(&g->b, it, e);
	return ex_iter(g->b.p, it);
}

Expr *gemm_first_term(Gemm *g, int i)
{
	return g->blocks.k_hi[i] ? g->blocks.k_lo[i] : l_int(&g->b, 0);
}

Expr *gemm_end_term(Gemm *g, int i)
{
	return g->blocks.k_hi[i] ? g->blocks.k_hi[i] : ex_dim(g->b.p, g->p.c.k[i]->extent);
}

static Expr *count_terms(Gemm *g, int i)
{
	return ex_sub(g->b.p, gemm_end_term(g, i), gemm_first_term(g, i));
}

/* The iterator of k that conjunct E bounds, as LO and HI, only by iterators of g; -1: none. */
static int limited_by(Gemm *g, Expr *e, Expr **lo, Expr **hi)
{
	int at = -1;

	if (expr_has_any(e, g->p.c.m, g->p.c.nm) || expr_has_any(e, g->p.c.n, g->p.c.nn))
		return -1;
	for (int i = 0; i < g->p.c.nk; i++)
		if (expr_has_iter(e, g->p.c.k[i])) {
			if (at >= 0)
				return -1;
			at = i;
		}
	if (at < 0)
		return -1;
	*lo = gemm_first_term(g, at);
	*hi = gemm_end_term(g, at);
	return guard_to_range(g->p.k, e, g->p.c.k[at], lo, hi) ? -1 : at;
}

static bool is_conjunct(const Expr *e, const Expr *of)
{
	return of &&
	       (e == of || (of->kind == EX_INST && of->op.inst == IN_and &&
			    (is_conjunct(e, of->op.arg[0]) || is_conjunct(e, of->op.arg[1]))));
}

/* GUARD without E. */
static Expr *without(Gemm *g, Expr *guard, const Expr *e)
{
	if (!guard || guard == e)
		return NULL;
	if (guard->kind != EX_INST || guard->op.inst != IN_and)
		return guard;
	return ex_and(g->b.p, without(g, guard->op.arg[0], e), without(g, guard->op.arg[1], e));
}

static void limit_terms(Gemm *g, Expr *e)
{
	Expr *lo, *hi;
	int i;

	if (e->kind == EX_INST && e->op.inst == IN_and) {
		limit_terms(g, e->op.arg[0]);
		limit_terms(g, e->op.arg[1]);
		return;
	}
	i = is_conjunct(e, g->p.c.guard_a) ? limited_by(g, e, &lo, &hi) : -1;
	if (i < 0)
		return;
	lo = l_min(&g->b, lo, ex_dim(g->b.p, g->p.c.k[i]->extent));
	g->blocks.k_lo[i] = gemm_named(g, "first", lo, g->p.c.k[i]->extent);
	g->blocks.k_hi[i] = gemm_named(g, "end", l_max(&g->b, g->blocks.k_lo[i], hi),
				       g->p.c.k[i]->extent);
	g->p.c.guard_a = without(g, g->p.c.guard_a, e);
	g->p.c.guard_b = without(g, g->p.c.guard_b, e);
}

void gemm_limit_terms(Gemm *g)
{
	if (g->p.c.guard_b && g->p.kpack == 1 && !g->blocks.kc && !g->p.a_direct &&
	    g->p.run == g->p.c.nk && !g->p.b_panels)
		limit_terms(g, g->p.c.guard_b);
}

Expr *gemm_steps(Gemm *g)
{
	Expr *e = l_int(&g->b, 1);
	bool limited = false;

	for (int i = 0; i < g->p.c.nk; i++) {
		e = ex_mul(g->b.p, e, count_terms(g, i));
		limited = limited || g->blocks.k_hi[i];
	}
	return limited ? e : ex_dim(g->b.p, g->p.steps);
}

Expr *gemm_flat_terms(Gemm *g)
{
	Expr *e = l_int(&g->b, 0);

	for (int i = 0; i < g->p.c.nk; i++)
		e = ex_add(g->b.p, ex_mul(g->b.p, e, count_terms(g, i)),
			   ex_sub(g->b.p, ex_iter(g->b.p, g->p.c.k[i]), gemm_first_term(g, i)));
	return e;
}
