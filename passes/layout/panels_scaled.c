/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs a quantised operand of a product in parts, so that its numbers stay as narrow in memory as the
 * model stores them. Such an operand is a constant of the form
 *
 *     B(k, n) = (number(k, n) - zero(k / group, n)) * scale(k / group, n)
 *
 * with numbers of 2, 4 or 8 bits: what MatMulNBits computes, and DequantizeLinear with one scale for
 * the tensor, for each column, or for each block of GROUP terms. The pass looks through the maps and
 * views that compute the operand when the model is built. The numbers go into panels; several terms of
 * a column that fill 32 bits are contiguous if groups consist of as many, else a number takes a byte.
 * Scales and zero points go into panels of their own, which have a row for each group. The
 * micro-kernel widens numbers in registers, and multiplies the sum of each group by its scale
 * (codegen/c/tile_scaled.c).
 *
 * An unsigned number whose zero point is the middle of its range becomes a signed one without.
 */
#include "passes/kernel/through.h"
#include "passes/layout/panels_impl.h"
#include "passes/schedule/common/thresholds.h"
#include "passes/schedule/cpu/cpu.h"

/* ---- The form ---- */

/* The parts of an operand. */
typedef struct ScaledForm {
	const Contraction *c;
	Node *n;
	Expr *number; /* an i32: the load of a number, perhaps minus the middle of its range */
	DType type;   /* of NUMBER */
	Expr *zero, *scale; /* f32, over the iterator GROUPS instead of k; null: 0, 1 */
	Iter *groups;       /* the number of the group */
	int64_t group;      /* terms of a group; 0: all */
} ScaledForm;

typedef struct ByGroup {
	const Contraction *c;
	Kernel *k;
	Iter *groups; /* null: there are none yet */
	int64_t group;
} ByGroup;

static Expr *group_of_term(void *arg, Expr *e)
{
	ByGroup *g = arg;
	const Contraction *c = g->c;
	int64_t size;

	if (!ex_is_op(e, IN_floordiv) || c->nk != 1 || e->op.arg[0]->kind != EX_ITER ||
	    e->op.arg[0]->iter != c->k[0] || e->op.arg[1]->kind != EX_CONST)
		return NULL;
	size = e->op.arg[1]->i;
	if (size < 1 || (g->group && g->group != size))
		return NULL;
	g->group = size;
	if (!g->groups)
		g->groups = kernel_iter(
			g->k, "group",
			dim_ceildiv(g->k->ctx, c->k[0]->extent, dim_const(g->k->ctx, size)));
	return ex_iter(g->k->pool, g->groups);
}

/* E over the group's number instead of the term's; null if it is not the same for all terms of a
 * group. */
static Expr *by_group(ScaledForm *f, Expr *e)
{
	ByGroup g = {f->c, node_kernel(f->n), f->groups, f->group};

	e = ex_rewrite(g.k->pool, e, group_of_term, &g);
	if (expr_has_any(e, f->c->k, f->c->nk))
		return NULL;
	f->group = g.group;
	f->groups = g.groups;
	return e;
}

static bool all_zero(const Node *n, const Expr *e)
{
	const Value *v = e->kind == EX_LOAD && e->load.buf->kind == BUF_IN
				 ? node_in(n, e->load.buf->param)
				 : NULL;
	const Tensor *t = v ? value_const(v) : NULL;
	const char *at = t ? t->data : NULL;

	for (int64_t i = 0; t && i < t->bytes; i++)
		if (at[i])
			return false;
	return t != NULL;
}

/* The number that scalar E of N is; false if it is no scalar constant. */
static bool scalar_value(const Node *n, const Expr *e, double *out)
{
	const Value *v;
	const Tensor *t;

	if (ex_is_op(e, IN_cvt))
		e = e->op.arg[0];
	if (e->kind == EX_CONST) {
		*out = ctype_is_float(e->ct) ? e->f : (double)e->i;
		return true;
	}
	v = e->kind == EX_LOAD && e->load.buf->kind == BUF_IN ? node_in(n, e->load.buf->param)
							      : NULL;
	t = v ? value_const(v) : NULL;
	if (!t || tensor_numel(t) != 1)
		return false;
	*out = dtype_is_float(t->dtype) ? dtype_load_f64(t->dtype, t->data, 0)
					: (double)dtype_load_i64(t->dtype, t->data, 0);
	return true;
}

/* Subtracts E, if the terms of a group have it in common, from the operand. */
static bool take_zero(ScaledForm *f, Expr *e)
{
	Expr *zero = f->zero ? NULL : by_group(f, e);

	if (zero && !all_zero(f->n, zero))
		f->zero = ex_cvt(node_kernel(f->n)->pool, CT_F32, zero);
	return zero != NULL;
}

static bool take_scale(ScaledForm *f, Expr *e)
{
	ExprPool *p = node_kernel(f->n)->pool;
	Expr *scale = by_group(f, e);

	if (scale)
		f->scale = f->scale ? ex_op2(p, IN_mul, f->scale, scale) : scale;
	return scale != NULL;
}

static DType signed_type(DType t)
{
	return t == DT_U8 ? DT_I8 : t == DT_U4 ? DT_I4 : t == DT_U2 ? DT_I2 : DT_NONE;
}

/* Replaces an unsigned number and its zero point, the middle of the range, by a signed one. */
static void centre(ScaledForm *f)
{
	ExprPool *p = node_kernel(f->n)->pool;
	const int64_t middle = (int64_t)1 << (dtype_info[f->type].bits - 1);
	double zero;

	if (!f->zero || dtype_is_signed(f->type) || !scalar_value(f->n, f->zero, &zero) ||
	    zero != (double)middle)
		return;
	f->number = ex_op2(p, IN_sub, f->number, ex_int(p, CT_I32, middle));
	f->type = signed_type(f->type);
	f->zero = NULL;
}

/* Splits E, operand B of F's product, into its parts. False if it has another form. */
static bool find_parts(ScaledForm *f, Expr *e)
{
	while (ex_is_op(e, IN_mul))
		if (take_scale(f, e->op.arg[1]))
			e = e->op.arg[0];
		else if (take_scale(f, e->op.arg[0]))
			e = e->op.arg[1];
		else
			return false;
	if (ex_is_op(e, IN_sub) && take_zero(f, e->op.arg[1]))
		e = e->op.arg[0];
	if (!ex_is_op(e, IN_cvt) || e->ct != CT_F32)
		return false;
	e = e->op.arg[0];
	if (ex_is_op(e, IN_sub) && take_zero(f, e->op.arg[1]))
		e = e->op.arg[0];
	if (!expr_is_narrow(e) || !f->scale)
		return false;
	f->number = e;
	f->type = e->load.buf->dtype;
	centre(f);
	return true;
}

/* ---- Packing ---- */

/* The terms of a column that are contiguous in the panels of numbers of type T. */
static int panel_terms(DType t, int64_t group)
{
	const int terms = PANEL_WORD / dtype_info[t].bits;

	return terms > 4 && group % terms == 0 ? terms : 1;
}

/* The panel layout of a part: g, outer n, n / panel, row / TERMS, n % panel, row % TERMS. ROWS: the
 * part has rows. */
static const Type *part_type(const Packing *p, DType t, bool rows, int terms)
{
	const Contraction *c = p->c;
	const int pw = (int)gemm_panel(c->ct), last = p->rank - 1, row = c->ng;
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
		l.ax[l.n++] = (LayoutAxis){.dim = row, .mod = terms};
	return type_with_layout(p->m->ctx, type_tensor(p->m->ctx, t, p->rank, dims), &l);
}

/* Packs E, a part of F's operand, as elements of type T. Its rows are the terms of the sum, or, unless
 * BY_TERMS, groups of them. Returns the load of its element in the product. */
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

static bool sizes_known(const Contraction *c)
{
	int64_t v;

	for (int i = 0; i < c->ng; i++)
		if (!dim_is_const(c->g[i]->extent, &v) || v < 1)
			return false;
	for (int i = 0; i < c->nk; i++)
		if (!dim_is_const(c->k[i]->extent, &v) || v < 1)
			return false;
	for (int i = 0; i < c->nn; i++)
		if (!dim_is_const(c->n[i]->extent, &v) || v < 1)
			return false;
	return true;
}

bool pack_scaled(Module *m, Node *n, Contraction *c)
{
	enum { MORE = 3 }; /* number of operands that are added */
	Kernel *k = node_kernel(n);
	ScaledForm f = {.c = c, .n = n};
	Expr *e = c->b;
	DType type;
	int terms;

	if (c->ct != CT_F32 || !sizes_known(c) || c->ng + c->nn + 1 >= MAX_RANK)
		return false;
	e = weights_through(m, n, e, false);
	if (n->nin + MORE > MAX_PARAMS || !find_parts(&f, e)) {
		node_drop_unused_inputs(n);
		return false;
	}
	terms = panel_terms(f.type, f.group);
	type = terms > 1 ? f.type : dtype_is_signed(f.type) ? DT_I8 : DT_U8;
	e = ex_cvt(k->pool, CT_F32, pack_part(m, &f, "numbers", f.number, type, true, terms));
	if (f.zero)
		e = ex_op2(k->pool, IN_sub, e, pack_part(m, &f, "zeros", f.zero, DT_F32, false, 1));
	e = ex_op2(k->pool, IN_mul, e, pack_part(m, &f, "scales", f.scale, DT_F32, false, 1));
	c->s->val[0] = ex_op2(k->pool, IN_mul, c->a, e);
	node_drop_unused_inputs(n);
	return true;
}
