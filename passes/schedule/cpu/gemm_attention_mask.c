/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What attention leaves out of its products where a mask hides keys from all rows of a tile: half
 * of the keys of a causal mask, most of those of a sliding window, and padding.
 *
 * The scores of such a tile are not computed if no statement reads them (Tile.when). This follows
 * from the kernel: a mask that selects is known before the score, and then the score may be NaN,
 * too. A mask that is added is not: the sum depends on the score.
 *
 * The weights of hidden keys are 0, whatever the mask was. The products of these zeros and the
 * values are 0, unless a value is infinite or NaN, so a tile leaves them out if it finds zeros and
 * all values are finite (Tile.trim).
 */
#include "passes/kernel/read_when.h"
#include "passes/schedule/cpu/gemm_attention.h"

#include <math.h>

void attention_skip_scores(AttentionPlan *a)
{
	/* the condition is evaluated for each score of a hidden tile: so it costs less than the
	 * sum */
	enum { TERMS_PER_INST = 4 };
	Gemm *s = &a->scores;
	Expr *when = kernel_read_when(a->k, s->c.s->id);
	int64_t terms;

	if (when &&
	    (!dim_is_const(s->kk, &terms) || terms >= TERMS_PER_INST * (1 + expr_cost(when))))
		s->when = when;
}

typedef struct KeyRead {
	const Iter *key;
	bool any;
} KeyRead;

static void find_operand(void *arg, Expr *e)
{
	KeyRead *r = arg;

	if (e->kind == EX_LOAD && (e->load.buf->kind == BUF_IN || e->load.buf->data))
		r->any = r->any || expr_has_iter(e, r->key);
}

/* E depends on KEY itself, or on an operand's element for it. */
static bool depends_on_key(Expr *e, const Iter *key)
{
	KeyRead r = {key, expr_has_iter_outside_loads(e, key)};

	ex_walk(e, find_operand, &r);
	return r.any;
}

/* A statement between the products may mask keys, by a condition on the key or by an operand. */
static bool may_mask(const AttentionPlan *a)
{
	for (int i = a->scores.c.s->id + 1; i <= a->last; i++) {
		const Stmt *s = a->k->stmts.at[i];

		for (int j = 0; j < s->niters; j++)
			if (band_index(&a->band, s, s->iter[j]) < 0 &&
			    depends_on_key(s->val[0], s->iter[j]))
				return true;
	}
	return false;
}

void attention_trim_values(AttentionPlan *a)
{
	/* the sum of zeros takes about as long as the product of two rows */
	enum { LEAST_ROWS = 32 };
	Gemm *v = &a->values;
	LBuild *b = &a->b;
	ExprPool *p = b->p;
	const CType ct = v->c.ct;
	Expr *first = l_int(b, 0), *pays = ex_op2(p, IN_ge, ex_dim(p, v->m), l_int(b, LEAST_ROWS)),
	     *at, *zero;
	LNode *n;

	if ((ct != CT_F32 && ct != CT_F64) || !may_mask(a) || (pays->kind == EX_CONST && !pays->i))
		return;
	zero = ex_num(p, ct, 0);
	v->trim = l_temp(b, "zeros", ctype_dtype(ct), NULL);
	l_store(b, v->trim, first, ex_op3(p, IN_select, pays, zero, ex_num(p, ct, NAN)), NULL);
	n = l_node(b, LN_REDUCE);
	n->var = l_iter(b, "e", v->bbuf->dims[0]);
	n->lo = first;
	n->hi = ex_op3(p, IN_select, pays, ex_dim(p, v->bbuf->dims[0]), first);
	n->red = MONOID_sum;
	n->nout = 1;
	n->buf[0] = v->trim;
	n->idx = first;
	at = ex_iter(p, n->var);
	n->val[0] = ex_op2(p, IN_mul, ex_load(p, v->bbuf, &at, 1), zero);
}
