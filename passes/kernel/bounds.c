/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bounds: on CPUs, leaves out the terms of a reduction from a number on that is known when it
 * begins. They are the identity of its monoid:
 *
 *     max over r < 100 of r < count[] ? x[r] : lowest
 *     max over r < 100 of x[r] where r < count[]
 *
 * The bound must be the same for all results of the statement: rows that end at different places,
 * as those of a triangle, are as fast with a condition (passes/schedule/common/row_emit.c).
 */
#include "passes/forms/form.h"
#include "passes/forms/guards.h"
#include "passes/forms/kernels.h"
#include "passes/module.h"

/* Whether C only bounds iterator IT, equally at all points of the other iterators of S. */
static bool bounds(Kernel *k, const Stmt *s, Expr *c, const Iter *it)
{
	Expr *lo = ex_int(k->pool, CT_I64, 0), *hi = ex_dim(k->pool, it->extent);

	for (int i = 0; i < s->niters; i++)
		if (s->iter[i] != it && expr_has_iter(c, s->iter[i]))
			return false;
	return expr_has_iter(c, it) && !expr_can_fault(c) && !guard_to_range(k, c, it, &lo, &hi);
}

/* Whether E, of N's kernel, is the identity of S: a constant, or the only element of one. */
static bool is_identity(const Node *n, const Stmt *s, const Expr *e)
{
	const Expr *id = monoid_identity(node_kernel(n)->pool, s->red, 0, e->ct);
	const Tensor *t = node_loaded_const(n, e);

	if (!t || tensor_numel(t) != 1 || dtype_info[t->dtype].ctype != e->ct)
		return e == id;
	return ctype_is_float(e->ct) ? dtype_load_f64(t->dtype, t->data, 0) == id->f
				     : dtype_load_i64(t->dtype, t->data, 0) == id->i;
}

static bool bound_terms(const Node *n, Stmt *s)
{
	Kernel *k = node_kernel(n);
	Expr *v = s->val[0];

	if (!s->red || s->scan || s->update || s->nout != 1 || monoid_info[s->red].n != 1 ||
	    !ex_is_op(v, IN_select) || !is_identity(n, s, v->op.arg[2]))
		return false;
	for (int i = s->nband; i < s->niters; i++)
		if (bounds(k, s, v->op.arg[0], s->iter[i])) {
			s->guard = ex_and(k->pool, s->guard, v->op.arg[0]);
			s->val[0] = v->op.arg[1];
			return true;
		}
	return false;
}

bool pass_bounds(Module *m)
{
	if (m->opt.level == 0 || module_on_gpu(m))
		return true;
	for (Node *n = m->graph->first; n; n = n->next) {
		Kernel *k = node_kernel(n);
		const Form *f = k ? module_form(m, n) : NULL;
		bool any = false;

		for (int i = 0; f && (f->kind == FORM_ROW || f->kind == FORM_ORDER) && i < k->stmts.n; i++)
			any |= bound_terms(n, k->stmts.at[i]);
		if (any) {
			node_drop_unused_inputs(n);
			form_changed(m, n);
		}
	}
	return true;
}
