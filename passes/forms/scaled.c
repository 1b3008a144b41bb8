/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises the quantised operands of a product by the form of their expressions. Weights are
 *
 *     B(k, n) = (number(k, n) - zero(k / group, n)) * scale(k / group, n)
 *
 * and activations, which passes/kernel/quantise_activations.c quantises, are (byte - 128) * scale.
 * The layout packs the parts of B (passes/layout/panels_scaled.c), and tiles on CPUs read the parts
 * of both.
 */
#include "passes/forms/scaled.h"

#include "passes/forms/through.h"

/* E over the group's number instead of the term's; null if the terms of a group do not share it. */
static Expr *by_group(ScaledForm *f, Expr *e)
{
	const Contraction *c = f->c;
	Kernel *k = node_kernel(f->n);
	Iter *groups = f->groups; /* null until a factor is found */
	int64_t group = f->group;

	EX_MAP (x, k->pool, &e) {
		int64_t size;

		if (!ex_is_op(x, IN_floordiv) || c->nk != 1 || x->op.arg[0]->kind != EX_ITER ||
		    x->op.arg[0]->iter != c->k[0] || x->op.arg[1]->kind != EX_CONST)
			continue;
		size = x->op.arg[1]->i;
		if (size < 1 || (group && group != size))
			continue;
		group = size;
		if (!groups)
			groups = kernel_iter(
				k, "group",
				dim_ceildiv(k->ctx, c->k[0]->extent, dim_const(k->ctx, size)));
		x = ex_iter(k->pool, groups);
	}
	if (expr_has_any(e, c->k, c->nk))
		return NULL;
	f->group = group;
	f->groups = groups;
	return e;
}

static bool all_zero(const Node *n, const Expr *e)
{
	const Tensor *t = node_loaded_const(n, e);

	return t && tensor_is_zero(t);
}

/* The value of scalar E of N; false if E is not a scalar constant. */
static bool scalar_value(const Node *n, const Expr *e, double *out)
{
	const Tensor *t;

	if (ex_is_op(e, IN_cvt))
		e = e->op.arg[0];
	if (e->kind == EX_CONST) {
		*out = ctype_is_float(e->ct) ? e->f : (double)e->i;
		return true;
	}
	t = node_loaded_const(n, e);
	if (!t || tensor_numel(t) != 1)
		return false;
	*out = dtype_is_float(t->dtype) ? dtype_load_f64(t->dtype, t->data, 0)
					: (double)dtype_load_i64(t->dtype, t->data, 0);
	return true;
}

/* Subtracts E from the operand, if the terms of a group share it. */
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

bool scaled_find(ScaledForm *f, Expr *e)
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

/* Load SCALE has the same indices as load BYTE, except for the last one: the number of the group of
 * *SIZE terms. */
static bool indexes_groups(const Expr *byte, const Expr *scale, int64_t *size)
{
	const int last = byte->load.nidx - 1;
	Expr *group;

	if (last < 0 || scale->load.nidx != last + 1)
		return false;
	for (int i = 0; i < last; i++)
		if (byte->load.idx[i] != scale->load.idx[i])
			return false;
	group = scale->load.idx[last];
	if (group->kind == EX_CONST && dim_equals(scale->load.buf->dims[last], 1))
		return dim_is_const(byte->load.buf->dims[last], size) && *size > 0;
	if (!ex_is_op(group, IN_floordiv) || group->op.arg[1]->kind != EX_CONST ||
	    group->op.arg[0] != byte->load.idx[last])
		return false;
	*size = group->op.arg[1]->i;
	return *size > 0;
}

bool scaled_rows(const Contraction *c, ScaledRows *out)
{
	Expr *e = c->a, *byte;

	for (int i = 0; i < 2 && ex_is_op(c->a, IN_mul); i++) {
		out->scale = c->a->op.arg[i];
		e = c->a->op.arg[1 - i];
		if (out->scale->kind != EX_LOAD || !ex_is_op(e, IN_cvt) || e->ct != CT_F32)
			continue;
		e = e->op.arg[0];
		if (!ex_is_op(e, IN_sub) || e->op.arg[1]->kind != EX_CONST ||
		    e->op.arg[1]->i != ROW_ZERO)
			continue;
		byte = e->op.arg[0];
		if (byte->kind != EX_LOAD || byte->load.buf->dtype != DT_U8 ||
		    out->scale->load.buf->dtype != DT_F32)
			continue;
		out->byte = byte;
		return indexes_groups(byte, out->scale, &out->group);
	}
	return false;
}

/* ---- Reports of the passes that quantise ---- */

const char *scaled_name(Module *m, const Node *n)
{
	const char *name = n ? node_loc(n).node : NULL;

	return name ? arena_escape(m->arena, name, escape_terminal) : "?";
}

void scaled_report(Module *m, const Node *n, const char *what, int64_t *kept, const char *why)
{
	++*kept;
	if (m->report)
		fprintf(m->report, "; %s of \"%s\" are left unchanged: %s\n", what, scaled_name(m, n), why);
}

void scaled_report_rows(Module *m, const char *type, int64_t count, int64_t kept,
			const char *wanted)
{
	if (m->report)
		fprintf(m->report, "; activations: %lld products of %s, %lld left unchanged%s%s\n",
			(long long)count, type, (long long)kept,
			count + kept == 0 ? ": no product of f32 has constant weights"
			: wanted          ? ": give "
					  : "",
			count + kept && wanted ? wanted : "");
}
