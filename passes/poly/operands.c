/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of a tile's terms on a CPU: the tile multiplies the elements that its statement
 * multiplies, in as many steps, rows and columns as its loops have. What is not compared is not
 * proved in a tree of a text: copies of operands (packed blocks, runs of a convolution) and
 * quantised panels.
 */
#include "passes/poly/poly_impl.h"

/* E is an element of B, perhaps in another type of the same kind. */
static const Expr *element_of(const Buf *b, const Expr *e)
{
	while (e->kind == EX_INST && inst_info[e->op.inst].rule == RULE_CVT &&
	       ctype_is_float(e->ct) == ctype_is_float(e->op.arg[0]->ct))
		e = e->op.arg[0];
	return e->kind == EX_LOAD && e->load.buf == b ? e : NULL;
}

/* A tile's term: number D of S's. */
typedef struct TermMatch {
	const ValueMatch *m;
	const Stmt *s;
	Expr *d;
} TermMatch;

/* The tile's element AT of B is the one that FACTOR has. */
static Answer same_element(const TermMatch *x, const Expr *factor, const Buf *b, Expr *at)
{
	Poly *p = x->m->p;
	const Buf *of = poly_original(p, b);
	const Expr *load = of ? element_of(of, factor) : NULL;
	Expr *flat, *idx[MAX_RANK], *d = x->d;

	if (of && !expr_loads((Expr *)(uintptr_t)factor, of))
		return DIFFERENT;
	if (!load || !at)
		return UNKNOWN;
	for (int i = 0; i < load->load.nidx; i++)
		idx[i] = poly_at_point(x->m, x->s, load->load.idx[i]);
	flat = poly_flat(p, b, idx, load->load.nidx);
	at = ex_subst_iters(p->pool, at, &x->m->e->tile.d, &d, 1);
	return poly_same_index(x->m, poly_form(p, flat), poly_form(p, at));
}

/* Both operands of the tile have the factors' elements, in this order. */
static Answer same_factors(const TermMatch *t, const Expr *a, const Expr *b)
{
	const Tile *tile = t->m->e->node->tile;
	const Answer x = same_element(t, a, tile->a, t->m->e->tile.a),
		     y = same_element(t, b, tile->b, t->m->e->tile.b);

	return x == DIFFERENT || y == DIFFERENT ? DIFFERENT : x == UNKNOWN ? x : y;
}

static Answer either(Answer a, Answer b)
{
	return a == SAME || b == SAME ? SAME : a == UNKNOWN ? a : b;
}

static Answer same_product(const TermMatch *t, const Expr *product)
{
	Expr *const *arg = product->op.arg;
	Answer is;

	if (!ex_is_op(product, IN_mul))
		return UNKNOWN;
	is = same_factors(t, arg[0], arg[1]);
	return is == SAME ? is : either(is, same_factors(t, arg[1], arg[0]));
}

/* As the terms may be added in any order, it suffices that one order of digits makes all elements
 * those of S. FIRST: digits that are chosen, in OF. UNKNOWN if one order is. */
static Answer same_in_order(TermMatch *t, const Expr *product, Iter **of, int first, int n)
{
	ExprPool *p = t->m->p->pool;
	Answer is = DIFFERENT;

	if (first >= n - 1) {
		t->d = ex_int(p, CT_I64, 0);
		for (int i = 0; i < n; i++)
			t->d = ex_add(p, ex_mul(p, t->d, ex_dim(p, of[i]->extent)),
				      ex_iter(p, of[i]));
		return same_product(t, product);
	}
	for (int i = first; i < n && is != SAME; i++) {
		Iter *digit = of[i];
		Answer next;

		of[i] = of[first];
		of[first] = digit;
		next = same_in_order(t, product, of, first + 1, n);
		is = next == DIFFERENT ? is : next;
		of[first] = of[i];
		of[i] = digit;
	}
	return is;
}

/* A bound of the tile, VALUE, is at most MOST at all times. */
static void check_most(const ValueMatch *m, const char *what, Expr *value, int most)
{
	ExprPool *p = m->p->pool;

	value = poly_form(m->p, value);
	if (value->kind == EX_CONST && value->i > most)
		poly_wrong(m->p, "a tile of %d %s computes %lld", most, what, (long long)value->i);
	else if (!poly_always(m, ex_op2(p, IN_le, value, ex_int(p, CT_I64, most)), true))
		poly_unchecked(m->p, "that a tile has at most %d %s", most, what);
}

/* The tile has a step for each KPACK terms of S. */
static void check_steps(const ValueMatch *m, const Stmt *s)
{
	const Tile *t = m->e->node->tile;
	Ctx *c = m->p->ctx;
	Dim *terms = dim_const(c, 1);
	Answer is;

	if (t->depth)
		return; /* its loop is one of the execution's axes */
	for (int i = s->nband; i < s->niters; i++)
		terms = dim_mul(c, terms, s->iter[i]->extent);
	is = poly_same_index(m, poly_form(m->p, m->e->tile.steps),
			     ex_dim(m->p->pool, dim_ceildiv(c, terms, dim_const(c, t->kpack))));
	if (is == DIFFERENT && (poly_original(m->p, t->a) || poly_original(m->p, t->b)))
		poly_wrong(m->p, "a tile has %s steps for the terms of statement %d",
			   poly_text(m, m->e->tile.steps), s->id);
	else if (is != SAME)
		poly_unchecked(m->p, "that a tile has all terms of statement %d", s->id);
}

/* IS, the answer to whether the tile's parts have WHAT. */
static void check_part(const ValueMatch *m, const char *what, Answer is)
{
	if (is == DIFFERENT)
		poly_wrong(m->p, "the parts that a tile multiplies have other %s than the tile",
			   what);
	else if (is == UNKNOWN)
		poly_unchecked(m->p, "that the parts that a tile multiplies have the tile's %s",
			       what);
}

static Answer same_form(const ValueMatch *m, Expr *a, Expr *b)
{
	return poly_same_index(m, poly_form(m->p, a), poly_form(m->p, b));
}

/* The parts that the tile multiplies are of the elements that it multiplies otherwise. */
static void check_parts(const ValueMatch *m)
{
	ExprPool *p = m->p->pool;
	const TileTerm *x = &m->e->tile;
	Expr *side = ex_int(p, CT_I64, MATRIX_SIDE), *end;

	if (!x->part_a || !x->part_b) {
		poly_wrong(m->p, "a tile multiplies parts that no split before it has written");
		return;
	}
	check_part(m, "elements of A", same_form(m, x->a, x->part_a));
	check_part(m, "elements of B", same_form(m, x->b, x->part_b));
	check_part(m, "terms", same_form(m, x->steps, x->split[0]->k));
	check_part(m, "terms", same_form(m, x->steps, x->split[1]->k));
	end = ex_add(p, x->part_row, x->rows);
	if (!poly_always(m, ex_op2(p, IN_le, end, x->split[0]->valid), true) ||
	    !poly_always(
		    m,
		    ex_op2(p, IN_le, x->split[0]->valid, ex_int(p, CT_I64, x->split[0]->s->rows)),
		    true))
		check_part(m, "rows", UNKNOWN);
	if (!poly_always(
		    m, ex_op2(p, IN_eq, ex_op2(p, IN_mod, x->part_row, side), ex_int(p, CT_I64, 0)),
		    true))
		check_part(m, "blocks of rows", UNKNOWN);
}

void poly_check_operands(const ValueMatch *m, const Stmt *s)
{
	enum { MOST_DIGITS = 5 };
	const Tile *t = m->e->node->tile;
	TermMatch x = {m, s, NULL};
	TileTerm *term = &m->e->tile;
	Answer is;

	check_most(m, "rows", term->rows, t->mr);
	check_most(m, "columns", term->columns, t->nr);
	check_steps(m, s);
	if (t->whole && (term->steps->kind != EX_CONST || term->rows->kind != EX_CONST ||
			 term->rows->i != t->mr))
		poly_wrong(m->p, "a tile of %d rows is said to be whole", t->mr);
	if (t->parts.a && !m->p->wrong)
		check_parts(m);
	is = term->nof > MOST_DIGITS ? UNKNOWN
				     : same_in_order(&x, s->val[0], term->of, 0, term->nof);
	if (is == DIFFERENT)
		poly_wrong(m->p, "a tile multiplies other elements than statement %d", s->id);
	else if (is == UNKNOWN)
		poly_unchecked(m->p, "that a tile multiplies the elements of statement %d", s->id);
}
