/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs a quantised operand of a product in parts, so that its numbers take no more memory than in
 * the model. Such an operand is a constant of the form
 *
 *     B(k, n) = (number(k, n) - zero(k / group, n)) * scale(k / group, n)
 *
 * with numbers of 2, 4 or 8 bits: MatMulNBits computes such an operand, and so does
 * DequantizeLinear with one scale for the tensor, for each column, or for each block of GROUP
 * terms. The pass looks through the maps and views that compute the operand at compile time. The
 * numbers are stored in panels. The terms of a column that fill 32 bits are contiguous if groups
 * are a multiple of that many, else a number takes a byte. Scales, which may be halves, and zero
 * points are stored in separate panels with a row for each group. The micro-kernel widens numbers
 * in registers, and multiplies the sum of each group by its scale (codegen/c/tile_scaled.c).
 *
 * An unsigned number whose zero point is the middle of its range becomes a signed number without
 * zero point.
 */
#include "passes/forms/scaled.h"
#include "passes/forms/through.h"
#include "passes/layout/panels_impl.h"
#include "passes/forms/product.h"

enum { BYTES_OF_WORD = PANEL_WORD / 8 };

/* The number of contiguous terms of a column in the panels of numbers of type T. BYTES: the other
 * operand has bytes. */
static int panel_terms(DType t, int64_t group, bool bytes)
{
	const int terms = PANEL_WORD / dtype_info[t].bits;

	return (bytes || terms > BYTES_OF_WORD) && group % terms == 0 ? terms : 1;
}

/* The panel layout of a part: g, outer n, n / panel, row / TERMS, n % panel, and the rows of a
 * word. Row r is in byte r % 4 of the word, as number r / 4 in that byte: so the same bits of all
 * bytes are four successive terms. ROWS: the part has rows. */
static const Type *part_type(const Packing *p, DType t, bool rows, int terms)
{
	const Contraction *c = p->c;
	const int pw = (int)product_panel(p->m->target, p->m->ntargets, c->ct), last = p->rank - 1,
		  row = c->ng;
	Dim *dims[MAX_RANK];
	Layout l = {0};

	for (int i = 0; i < p->rank; i++)
		dims[i] = p->it[i]->extent;
	for (int i = 0; i < c->ng; i++)
		l.ax[l.n++] = (LayoutAxis){.dim = i};
	for (int i = 0; i + 1 < c->nn; i++)
		l.ax[l.n++] = (LayoutAxis){.dim = c->ng + rows + i};
	l.ax[l.n++] = (LayoutAxis){.dim = last, .div = pw};
	if (rows)
		l.ax[l.n++] = (LayoutAxis){.dim = row, .div = terms > 1 ? terms : 0};
	l.ax[l.n++] = (LayoutAxis){.dim = last, .mod = pw};
	if (terms > 1)
		l.ax[l.n++] = (LayoutAxis){.dim = row, .mod = BYTES_OF_WORD};
	if (terms > BYTES_OF_WORD)
		l.ax[l.n++] = (LayoutAxis){
			.dim = row, .div = BYTES_OF_WORD, .mod = terms / BYTES_OF_WORD};
	return type_with_layout(p->m->ctx, type_tensor(p->m->ctx, t, p->rank, dims), &l);
}

/* Packs E, a part of F's operand, as elements of type T. Its rows are the terms of the sum, or,
 * unless BY_TERMS, groups of them. Returns the load of its element in the product. */
static Expr *pack_part(Module *m, const ScaledForm *f, const char *name, Expr *e, DType t,
		       bool by_terms, int terms)
{
	const Contraction *c = f->c;
	Node *n = f->n;
	Kernel *k = node_kernel(n);
	ExprPool *pool = k->pool;
	Packing p = {.m = m, .n = n, .c = c};
	const bool rows = by_terms || f->group;
	Expr *idx[MAX_RANK];
	int r = 0;

	p.k = kernel_new(m->ctx, m->arena, arena_printf(m->arena, "%s_%s", k->name, name));
	packing_add(&p, c->g, c->ng);
	if (by_terms)
		packing_join(&p, c->k, c->nk);
	else if (f->group)
		packing_add(&p, (Iter *const[]){f->groups}, 1);
	packing_add(&p, c->n, c->nn);
	for (int i = 0; i < c->ng; i++)
		idx[r++] = ex_iter(pool, c->g[i]);
	if (rows)
		idx[r++] = by_terms ? packed_term(pool, c)
				    : ex_op2(pool, IN_floordiv, ex_iter(pool, c->k[0]),
					     ex_int(pool, CT_I64, f->group));
	for (int i = 0; i < c->nn; i++)
		idx[r++] = ex_iter(pool, c->n[i]);
	return load_added(n, name, packing_close(&p, e, part_type(&p, t, rows, terms)), idx, r);
}

static bool sizes_known(Iter *const *it, int n)
{
	int64_t v;

	for (int i = 0; i < n; i++)
		if (!dim_is_const(it[i]->extent, &v) || v < 1)
			return false;
	return true;
}

bool pack_scaled(Module *m, Node *n, Contraction *c)
{
	enum { MORE = 3 }; /* number of operands that the rewrite adds */
	Kernel *k = node_kernel(n);
	ScaledForm f = {.c = c, .n = n};
	ScaledRows rows;
	Expr *e = c->b;
	DType type;
	int terms;

	if (c->ct != CT_F32 || !sizes_known(c->g, c->ng) || !sizes_known(c->k, c->nk) ||
	    !sizes_known(c->n, c->nn) || c->ng + c->nn + 1 >= MAX_RANK)
		return false;
	e = weights_through(m, n, e, false);
	if (n->nin + MORE > MAX_PARAMS || !scaled_find(&f, e)) {
		node_drop_unused_inputs(n);
		return false;
	}
	terms = panel_terms(f.type, f.group, scaled_rows(c, &rows));
	type = terms > 1 ? f.type : dtype_is_signed(f.type) ? DT_I8 : DT_U8;
	e = ex_cvt(k->pool, CT_F32, pack_part(m, &f, "numbers", f.number, type, true, terms));
	if (f.zero)
		e = ex_op2(k->pool, IN_sub, e, pack_part(m, &f, "zeros", f.zero, DT_F32, false, 1));
	type = f.scale->kind == EX_LOAD && dtype_is_half(f.scale->load.buf->dtype)
		       ? f.scale->load.buf->dtype
		       : DT_F32;
	e = ex_op2(k->pool, IN_mul, e, pack_part(m, &f, "scales", f.scale, type, false, 1));
	c->s->val[0] = ex_op2(k->pool, IN_mul, c->a, e);
	return true;
}
