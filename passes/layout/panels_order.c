/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds to the panels of an i8 operand how CPUs multiply it that have no dot product of bytes.
 * x86-64 then has an instruction that adds products of u8 by i8 in pairs, saturating at 16 bits. A
 * term of a panel, a row of four bytes for each column, is narrow if that is exact for all u8: each
 * of its pairs adds up to -128 to 128; for u8 of at most 127, which i8 without negative elements
 * is, every term is. Other terms are wide: codegen/c/tile_dot.c multiplies them in a form whose
 * sums are too small by a constant of the column. In panels of few terms, most are wide: those
 * panels have flips, and all of a panel's terms are wide, or none.
 *
 * A panel of T terms has further rows below them:
 *
 *     row T                    for each column the sum of these constants, an i32
 *     rows from T + 1 on       a bit for each term, from bit 0 of byte 0: whether it is wide
 *     more rows                a byte for each term: the next term of its kind, as a number among
 *                              the ORDER_TERMS terms that it is one of, or ORDER_TERMS
 *                              if it is the last one
 *     or, with flips, T rows   for each byte of the terms what flips its factor if it is wide
 *
 * Only tiles read these rows, and the product's statement reads the terms.
 */
#include "passes/forms/seven_bits.h"
#include "passes/forms/product.h"

#include "base/round.h"
#include "passes/layout/panels_impl.h"

#include <string.h>

enum { WORD_TERMS = 32, TERM_BYTES = 4 };

/* The iterators of a statement. */
typedef struct Domain {
	Iter *it[MAX_ITERS];
	int n;
} Domain;

/* The kernel that makes panels OUT of FROM, whose dim KD has the terms, four indices for each, and
 * whose last dim has the columns. OUTER are the iterators of other dims, at their places in AT. A
 * panel has TERMS terms, WIDTH columns and BITS rows of bits, and NEXT rows of next terms or 0. */
typedef struct Ordering {
	Kernel *k;
	Buf *from, *out;
	Domain outer;
	int kd, last;
	int64_t terms, bits, next, width, panels;
	bool all_narrow; /* the other factor is at most 127 */
	Expr *at[MAX_RANK];
} Ordering;

static Expr *number(const Ordering *o, int64_t v)
{
	return ex_int(o->k->pool, CT_I64, v);
}

static Expr *plus(const Ordering *o, Expr *e, int64_t v)
{
	return ex_add(o->k->pool, e, number(o, v));
}

/* E * BY + REST. */
static Expr *times(const Ordering *o, Expr *e, int64_t by, Expr *rest)
{
	return ex_add(o->k->pool, ex_mul(o->k->pool, e, number(o, by)), rest);
}

/* Adds an iterator to P. */
static Expr *iterate(const Ordering *o, Domain *p, const char *name, int64_t extent)
{
	p->it[p->n] = kernel_iter(o->k, name, dim_const(o->k->ctx, extent));
	return ex_iter(o->k->pool, p->it[p->n++]);
}

/* TEXT, an i32, where x is X and y is Y. It is part of this file, so that it has no fault. */
static Expr *formula(const Ordering *o, const char *text, Expr *x, Expr *y)
{
	const ExprName names[] = {{"x", ex_cvt(o->k->pool, CT_I32, x)},
				  {"y", ex_cvt(o->k->pool, CT_I32, y)}};
	const char *err;

	return ex_parse(o->k->pool, text, CT_I32, names, 2, &err);
}

/* The indices of element (TERM, COLUMN) of panels. */
static Expr **element(const Ordering *o, Expr *term, Expr *column)
{
	Expr **at = NEW_ARRAY(o->k->arena, MAX_RANK, Expr *);

	memcpy(at, o->at, sizeof o->at);
	at[o->kd] = term;
	at[o->last] = column;
	return at;
}

static Expr *load(const Ordering *o, Expr *term, Expr *column)
{
	return kernel_load(o->k, o->out, element(o, term, column));
}

/* A temporary with X and, unless 0, Y elements for each point of OUTER. */
static Buf *temporary(const Ordering *o, const char *name, int64_t x, int64_t y)
{
	Dim *dims[MAX_RANK];
	int r = 0;

	for (; r < o->outer.n; r++)
		dims[r] = o->outer.it[r]->extent;
	dims[r++] = dim_const(o->k->ctx, x);
	if (y)
		dims[r++] = dim_const(o->k->ctx, y);
	return kernel_temp(o->k, name, DT_I32, r, dims);
}

/* Element (X, Y) of temporary B; Y may be null. */
static Expr *inner(const Ordering *o, Buf *b, Expr *x, Expr *y)
{
	Expr *at[MAX_RANK];
	int r = 0;

	for (; r < o->outer.n; r++)
		at[r] = ex_iter(o->k->pool, o->outer.it[r]);
	at[r++] = x;
	at[r] = y;
	return kernel_load(o->k, b, at);
}

static void map(const Ordering *o, const Domain *p, Expr *term, Expr *column, Expr *val)
{
	kernel_map(o->k, p->it, p->n, o->out, element(o, term, column), val, NULL);
}

static void reduce(const Ordering *o, Monoid monoid, const Domain *band, const Domain *over,
		   Buf *out, Expr *val, Expr *guard)
{
	kernel_reduce(o->k, monoid, band->it, band->n, over->it, over->n, out, val, guard);
}

/* Copies the K terms of N columns, and writes zeros where they are not whole. */
static void copy_terms(const Ordering *o, int64_t k, int64_t n)
{
	const int64_t terms = o->terms * TERM_BYTES, columns = o->panels * o->width;
	Domain p = o->outer;
	Expr *i = iterate(o, &p, "k", k), *j = iterate(o, &p, "n", n),
	     *zero = ex_int(o->k->pool, CT_I32, 0);

	map(o, &p, i, j, kernel_load(o->k, o->from, element(o, i, j)));
	if (k < terms) {
		p = o->outer;
		i = plus(o, iterate(o, &p, "k", terms - k), k);
		j = iterate(o, &p, "n", columns);
		map(o, &p, i, j, zero);
	}
	if (n < columns) {
		p = o->outer;
		i = iterate(o, &p, "k", k);
		j = plus(o, iterate(o, &p, "n", columns - n), n);
		map(o, &p, i, j, zero);
	}
}

/* wide[panel, term] is 1 if a pair is too large, else 0. */
static Buf *find_wide(const Ordering *o)
{
	Buf *wide = temporary(o, "wide", o->panels, o->terms);
	Domain p = o->outer, pairs = {0};
	Expr *panel = iterate(o, &p, "p", o->panels), *term = iterate(o, &p, "t", o->terms),
	     *first = times(o, iterate(o, &pairs, "h", 2), 2, times(o, term, TERM_BYTES, number(o, 0))),
	     *column = times(o, panel, o->width, iterate(o, &pairs, "j", o->width));

	reduce(o, MONOID_max, &p, &pairs, wide,
	       formula(o, o->all_narrow ? "0" : "i32(gt(abs(add(x, y)), 128))",
		       load(o, first, column), load(o, plus(o, first, 1), column)),
	       NULL);
	return wide;
}

/* The same for panels with flips. */
static Buf *widen_panels(const Ordering *o, Buf *wide)
{
	Buf *any = temporary(o, "any", o->panels, 0),
	    *all = temporary(o, "all", o->panels, o->terms);
	Domain p = o->outer, terms = {0};
	Expr *panel = iterate(o, &p, "p", o->panels);

	reduce(o, MONOID_max, &p, &terms, any,
	       inner(o, wide, panel, iterate(o, &terms, "t", o->terms)), NULL);
	p = o->outer;
	panel = iterate(o, &p, "p", o->panels);
	iterate(o, &p, "t", o->terms);
	kernel_map_id(o->k, p.it, all, inner(o, any, panel, NULL));
	return all;
}

/* Writes the sums of the columns' constants: tiles multiply wide terms by u8 - 128 if they are not
 * negative, else by u8 - 127. */
static void write_sums(const Ordering *o, Buf *wide)
{
	const int64_t columns = o->panels * o->width;
	Buf *sums = temporary(o, "sums", columns, 0);
	Domain p = o->outer, terms = {0};
	Expr *n = iterate(o, &p, "n", columns),
	     *panel = ex_op2(o->k->pool, IN_floordiv, n, number(o, o->width)),
	     *t = iterate(o, &terms, "t", o->terms), *i = iterate(o, &terms, "i", TERM_BYTES);

	reduce(o, MONOID_sum, &p, &terms, sums,
	       formula(o, "mul(y, sub(mul(x, 128), min(x, 0)))",
		       load(o, times(o, t, TERM_BYTES, i), n), inner(o, wide, panel, t)),
	       NULL);
	p = o->outer;
	i = iterate(o, &p, "i", TERM_BYTES);
	n = iterate(o, &p, "n", columns);
	map(o, &p, plus(o, i, o->terms * TERM_BYTES), n,
	    formula(o, "shr(x, mul(y, 8))", inner(o, sums, n, NULL), i));
}

/* Writes a bit for each term. */
static void write_bits(const Ordering *o, Buf *wide)
{
	Buf *words = temporary(o, "words", o->panels, o->bits * o->width);
	ExprPool *pool = o->k->pool;
	Domain p = o->outer, bits = {0};
	Expr *panel = iterate(o, &p, "p", o->panels),
	     *w = iterate(o, &p, "w", o->bits * o->width),
	     *bit = iterate(o, &bits, "b", WORD_TERMS), *term = times(o, w, WORD_TERMS, bit), *r,
	     *i, *j;

	reduce(o, MONOID_sum, &p, &bits, words,
	       formula(o, "shl(x, y)", inner(o, wide, panel, term), bit),
	       ex_op2(pool, IN_lt, term, number(o, o->terms)));
	p = o->outer;
	panel = iterate(o, &p, "p", o->panels);
	r = iterate(o, &p, "r", o->bits);
	i = iterate(o, &p, "i", TERM_BYTES);
	j = iterate(o, &p, "j", o->width);
	map(o, &p, times(o, r, TERM_BYTES, plus(o, i, (o->terms + 1) * TERM_BYTES)),
	    times(o, panel, o->width, j),
	    formula(o, "shr(x, mul(y, 8))", inner(o, words, panel, times(o, r, o->width, j)), i));
}

/* Writes the next term for each term: the least one of its kind after it. */
static void write_next(const Ordering *o, Buf *wide)
{
	const int64_t bytes = o->next * o->width * TERM_BYTES;
	ExprPool *pool = o->k->pool;
	Buf *next = temporary(o, "next", o->panels, bytes);
	Domain p = o->outer, later = {0};
	Expr *panel = iterate(o, &p, "p", o->panels), *term = iterate(o, &p, "t", bytes),
	     *number_in = iterate(o, &later, "u", ORDER_TERMS),
	     *other = times(o, ex_op2(pool, IN_floordiv, term, number(o, ORDER_TERMS)), ORDER_TERMS,
			    number_in),
	     *differs = formula(o, "i32(ne(x, y))", inner(o, wide, panel, term),
				inner(o, wide, panel, other)),
	     *r, *i, *j;

	reduce(o, MONOID_min, &p, &later, next, formula(o, "add(x, shl(y, 6))", number_in, differs),
	       ex_op2(pool, IN_and, ex_op2(pool, IN_lt, term, other),
		      ex_op2(pool, IN_lt, other, number(o, o->terms))));
	p = o->outer;
	panel = iterate(o, &p, "p", o->panels);
	r = iterate(o, &p, "r", o->next);
	i = iterate(o, &p, "i", TERM_BYTES);
	j = iterate(o, &p, "j", o->width);
	map(o, &p, times(o, r, TERM_BYTES, plus(o, i, (o->terms + 1 + o->bits) * TERM_BYTES)),
	    times(o, panel, o->width, j),
	    formula(o, "min(x, 64)",
		    inner(o, next, panel, times(o, times(o, r, o->width, j), TERM_BYTES, i)),
		    number(o, 0)));
}

/* Writes the flips, as wide terms need them: 127 for negative bytes, else -128. */
static void write_flips(const Ordering *o)
{
	Domain p = o->outer;
	Expr *i = iterate(o, &p, "k", o->terms * TERM_BYTES),
	     *j = iterate(o, &p, "n", o->panels * o->width);

	map(o, &p, plus(o, i, (o->terms + 1 + o->bits) * TERM_BYTES), j,
	    formula(o, "sub(mul(i32(lt(x, 0)), 255), 128)", load(o, i, j), number(o, 0)));
}

Value *panels_with_order(Module *m, Node *n, Value *b, const Contraction *c, const Layout *l)
{
	const Type *t = b->type;
	Ordering o = {.kd = c->ng, .last = t->rank - 1};
	const Value *a = node_loaded(n, c->a);
	Dim *dims[MAX_RANK];
	Buf *wide;
	int64_t k = 0, columns = 0, rows;
	bool flips;
	Node *kn;

	dim_is_const(t->dims[o.kd], &k);
	dim_is_const(t->dims[o.last], &columns);
	o.terms = ceil_div(k, TERM_BYTES);
	o.width = product_panel(m->target, m->ntargets, c->ct);
	o.panels = ceil_div(columns, o.width);
	o.bits = product_bits_rows(o.terms, o.width);
	flips = product_has_flips(o.terms);
	rows = o.terms + product_order_rows(o.terms, o.width);
	o.next = flips ? 0 : rows - o.terms - 1 - o.bits;
	memcpy(dims, t->dims, sizeof(Dim *) * (size_t)t->rank);
	dims[o.kd] = dim_const(m->ctx, rows * TERM_BYTES);
	dims[o.last] = dim_const(m->ctx, o.panels * o.width);
	o.all_narrow = a && value_has_7_bits(a);
	o.k = kernel_new(m->ctx, m->arena,
			 arena_printf(m->arena, "%s_order", node_kernel(n)->name));
	o.from = kernel_buf(o.k, BUF_IN, "b", t);
	t = type_with_layout(m->ctx, type_tensor(m->ctx, t->dtype, t->rank, dims), l);
	o.out = kernel_buf(o.k, BUF_OUT, "packed", t);
	for (int i = 0; i < o.last; i++)
		if (i != o.kd) {
			o.outer.it[o.outer.n] = kernel_iter(o.k, "i", t->dims[i]);
			o.at[i] = ex_iter(o.k->pool, o.outer.it[o.outer.n++]);
		}
	copy_terms(&o, k, columns);
	wide = find_wide(&o);
	if (flips)
		wide = widen_panels(&o, wide);
	write_sums(&o, wide);
	write_bits(&o, wide);
	if (flips)
		write_flips(&o);
	else
		write_next(&o, wide);
	kn = node_new(m->graph, OP_Kernel, &b, 1, 1, n);
	node_locs_from(kn, n);
	kn->out[0]->type = t;
	kernel_node_set(kn, o.k);
	return kn->out[0];
}
