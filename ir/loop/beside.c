/* SPDX-License-Identifier: Apache-2.0 */
/* Which stages of a schedule may run at the same time, in one launch. */
#include "ir/loop/loop.h"

bool index_range(Ctx *c, Expr *e, Dim **lo, Dim **end)
{
	Affine a;

	if (!ex_affine(c, e, &a))
		return false;
	*lo = a.base;
	*end = dim_add(c, a.base, dim_const(c, 1));
	for (int i = 0; i < a.n; i++) {
		Dim *last = dim_sub(c, a.iter[i]->extent, dim_const(c, 1));

		if (!dim_prove_le(c, dim_const(c, 0), a.coef[i]))
			return false;
		*end = dim_add(c, *end, dim_mul(c, a.coef[i], last));
	}
	return true;
}

/* X and Y, which write the same buffer, write different elements. */
static bool disjoint(Ctx *c, const Stmt *x, const Stmt *y)
{
	Dim *lo[2], *end[2];

	if (dtype_info[x->out[0]->dtype].bits < 8) /* elements share bytes */
		return false;
	for (int d = 0; d < x->nwidx && d < y->nwidx; d++)
		if (index_range(c, x->widx[d], &lo[0], &end[0]) &&
		    index_range(c, y->widx[d], &lo[1], &end[1]) &&
		    (dim_prove_le(c, end[0], lo[1]) || dim_prove_le(c, end[1], lo[0])))
			return true;
	return false;
}

static bool reads(const Stmt *s, const Stmt *writer)
{
	STMT_EACH_LOAD (load, s)
		if (load->load.buf == writer->out[0] || load->load.buf == writer->out[1])
			return true;
	return false;
}

static bool independent(Ctx *c, const Stmt *x, const Stmt *y)
{
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 2; j++)
			if (x->out[i] && x->out[i] == y->out[j] && !disjoint(c, x, y))
				return false;
	return !reads(x, y) && !reads(y, x);
}

/* Sets OF[i] if N, or a node after it, carries out a part of statement i. */
static void stmts_of(const LNode *n, bool *of, int most)
{
	for (; n; n = n->next) {
		if (n->point.part != PART_NONE && n->point.stmt >= 0 && n->point.stmt < most)
			of[n->point.stmt] = true;
		stmts_of(n->body, of, most);
	}
}

/* Each thread of ST has an iteration of its own, and nothing is shared. */
static bool is_of_threads(const Stage *st)
{
	return st->block.threads && st->block.group == 1 && !st->block.first && !st->block.head &&
	       !st->block.bulk.n && dim_equals(st->scratch, 0);
}

bool stages_beside(const Schedule *s, int first, int at)
{
	const Kernel *k = s->kernel;
	const Stage *b = s->stages.at[at];
	bool *of = NEW_ARRAY(k->arena, 2 * k->stmts.n + 1, bool), *also = of + k->stmts.n;

	for (int i = first; i < at; i++) {
		const Stage *a = s->stages.at[i];

		if (!is_of_threads(a) || !is_of_threads(b) || a->block.threads != b->block.threads)
			return false;
		stmts_of(a->body, of, k->stmts.n);
	}
	stmts_of(b->body, also, k->stmts.n);
	for (int i = 0; i < k->stmts.n; i++)
		for (int j = 0; j < k->stmts.n; j++)
			if (of[i] && also[j] &&
			    (i == j || !independent(k->ctx, k->stmts.at[i], k->stmts.at[j])))
				return false;
	return true;
}

Dim *stage_blocks(Ctx *c, const Stage *st)
{
	return dim_ceildiv(c, st->extent, dim_const(c, st->block.threads / st->block.group));
}

int stage_launch(const Schedule *s, int at)
{
	int n = 1;

	while (at + n < s->stages.n && s->stages.at[at + n]->block.beside)
		n++;
	return n;
}
