/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention leaves tiles out of its products where a mask hides their keys from all rows:
 * half of the keys of a causal mask, most of those of a sliding window, and padding.
 *
 * The scores of such a tile are not computed if no statement reads them (TileMask.when). This
 * follows from the kernel: a mask that selects is known before the score, and then the score may
 * be NaN, too. Where a mask is added, the sum depends on the score, unless the mask is very low
 * and the score is bounded. A product of two rows is at most half of the sum of their squares,
 * so the tile looks at the squares of all keys, and at those of its own queries (TileMask.squares).
 *
 * The weights of hidden keys are 0, whatever the mask was. The products of these zeros and the
 * values are 0, unless a value is infinite or NaN, so a tile leaves them out if it finds zeros
 * and all values are finite (TileMask.trim).
 */
#include "passes/forms/read_when.h"
#include "passes/schedule/cpu/gemm_attention.h"

#include <math.h>

/* The number of rows of the product from which a sum over its panels pays: it takes about as
 * long as the product of two rows. Each block of rows sums up by itself; blocks are shorter only
 * where there are fewer batches than cores. */
enum { LEAST_ROWS = 32 };

static Expr *has_rows(const Gemm *g)
{
	ExprPool *p = g->p.k->pool;

	return ex_op2(p, IN_ge, ex_dim(p, g->p.m), ex_int(p, CT_I64, LEAST_ROWS));
}

static bool may_have_rows(const Gemm *g)
{
	const Expr *rows = has_rows(g);

	return rows->kind != EX_CONST || rows->i;
}

void attention_skip_scores(AttentionPlan *a)
{
	/* the condition is evaluated for each score of a hidden tile: so it costs less than the
	 * sum */
	enum { TERMS_PER_INST = 4 };
	Gemm *s = &a->scores;
	Expr *when = kernel_read_when(a->at.k, s->p.c.s->id, false);
	int64_t terms;

	if (!when && s->p.c.ct == CT_F32 && !s->blocks.runs && may_have_rows(s) &&
	    (!s->p.a_direct || s->p.a_step == ex_int(a->at.k->pool, CT_I64, 1))) {
		when = kernel_read_when(a->at.k, s->p.c.s->id, true);
		a->bounded = when;
	}
	if (when &&
	    (!dim_is_const(s->p.kk, &terms) || terms >= TERMS_PER_INST * (1 + expr_cost(when))))
		s->attention.when = when;
}

/* Emits the sum of all elements of the panels of G, each times FACTOR, or times itself if FACTOR is
 * null, to a local that it returns. Without enough rows of G, the sum is NaN. */
static Buf *sum_panels(AttentionPlan *a, const Gemm *g, const char *name, Expr *factor)
{
	LBuild *b = &a->b;
	ExprPool *p = b->p;
	const CType ct = g->p.c.ct;
	Expr *first = l_int(b, 0), *pays = has_rows(g), *at, *e;
	Buf *sum = l_temp(b, name, ctype_dtype(ct), NULL);
	LNode *n;

	l_store(b, sum, first, ex_op3(p, IN_select, pays, ex_num(p, ct, 0), ex_num(p, ct, NAN)),
		NULL);
	n = l_node(b, LN_REDUCE);
	n->range.var = l_iter(b, "e", g->blocks.bbuf->dims[0]);
	n->range.lo = first;
	n->range.hi = ex_op3(p, IN_select, pays, ex_dim(p, g->blocks.bbuf->dims[0]), first);
	n->store.red = MONOID_sum;
	n->store.nout = 1;
	n->store.buf[0] = sum;
	n->store.idx = first;
	at = ex_iter(p, n->range.var);
	e = ex_load(p, g->blocks.bbuf, &at, 1);
	n->store.val[0] = ex_op2(p, IN_mul, e, factor ? factor : e);
	return sum;
}

void attention_sum_squares(AttentionPlan *a)
{
	if (a->scores.attention.when && a->bounded)
		a->scores.attention.squares = sum_panels(a, &a->scores, "squares", NULL);
}

/* E depends on KEY itself, or on an operand's element for it. */
static bool depends_on_key(Expr *e, const Iter *key)
{
	EX_EACH_LOAD (x, e)
		if ((x->load.buf->kind == BUF_IN || x->load.buf->data) && expr_has_iter(x, key))
			return true;
	return expr_has_iter_outside_loads(e, key);
}

/* A statement between the products may mask keys, by a condition on the key or by an operand. */
static bool may_mask(const AttentionPlan *a)
{
	for (int i = a->scores.p.c.s->id + 1; i <= a->at.last; i++) {
		const Stmt *s = a->at.k->stmts.at[i];

		for (int j = 0; j < s->niters; j++)
			if (band_index(&a->at.band, s, s->iter[j]) < 0 &&
			    depends_on_key(s->val[0], s->iter[j]))
				return true;
	}
	return false;
}

void attention_trim_values(AttentionPlan *a)
{
	Gemm *v = &a->values;
	const CType ct = v->p.c.ct;

	if ((ct == CT_F32 || ct == CT_F64) && may_mask(a) && may_have_rows(v))
		v->attention.trim = sum_panels(a, v, "zeros", ex_num(a->at.k->pool, ct, 0));
}
