/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops that call functions which take fewer instructions where operands are small (NEAR in
 * ir/expr/funcs.def): exponentials whose results are normal numbers, sines of at most thousands of
 * periods, conversions to i64 that fit i32. Compilers cannot choose for each vector, so that a loop
 * is printed twice, for strips of points, after a test of the operands:
 *
 *     int32_t large = 0;
 *     for (i = at; i < at + 64; i++) { large |= -!(dl_abs_f32(x[i]) <= 64.0f); }
 *     if (large) { for (i = at; i < at + 64; i++) { y[i] = dl_exp_f32(x[i]); } }
 *     else       { for (i = at; i < at + 64; i++) { y[i] = dl_exp_near(x[i]); } }
 */
#include "codegen/c/gen_c_impl.h"
#include "passes/forms/kernels.h"

/* Whether E has a shorter form where its operand is small, and that pays on F's CPU: AVX-512 has
 * instructions for the last step of an exponential and for conversions to i64. */
static bool has_near(const Fn *f, const Expr *e)
{
	enum { AVX512 = 64 }; /* bytes of vectors of CPUs with these instructions */

	return ex_near_limit(e) > 0 && (f->g->target->vector_bytes < AVX512 ||
					(e->op.inst != FN_exp && e->op.inst != IN_cvt));
}

/* E calls no function, cannot fail, and may be evaluated at points where its loads are not
 * needed. */
static bool is_cheap(Expr *e)
{
	enum { MOST_COST = 4 };

	EX_EACH (x, e)
		if (x->kind == EX_INST &&
		    (inst_is_func(x->op.inst) || inst_is_routine(x->op.inst) ||
		     x->op.inst == IN_select))
			return false;
	return !expr_can_fault(e) && expr_cost(e) <= MOST_COST;
}

void c_near_add(const Fn *f, Expr *val, NearCalls *c)
{
	bool chooses = false;

	EX_EACH (x, val)
		chooses = chooses || ex_is_op(x, IN_select);
	/* a number that is converted to an index goes with a gather, which takes longer */
	EX_EACH (x, val) {
		bool known = false;

		if (!has_near(f, x))
			continue;
		for (int i = 0; i < c->n; i++)
			known = known || c->at[i] == x;
		if (known)
			continue;
		c->all = (c->all || !c->n) && c->n < MOST_NEAR && !chooses &&
			 is_cheap(x->op.arg[0]) && (x->op.inst != IN_cvt || x == val);
		if (c->n < MOST_NEAR)
			c->at[c->n++] = x;
	}
}

void c_near_begin(Fn *f, Iter *it, const char *at, const char *end, const NearCalls *c)
{
	ExprPool *p = f->sched->kernel->pool;
	const char *var = fn_name(f, it, it->name);
	Expr *small = NULL;
	StrBuf t = {0};

	for (int i = 0; i < c->n; i++)
		small = ex_and(p, small,
			       ex_op2(p, IN_le, ex_op1(p, IN_abs, c->at[i]->op.arg[0]),
				      ex_float(p, CT_F32, ex_near_limit(c->at[i]))));
	fn_tabs(f);
	strbuf_puts(&f->body, "int32_t large = 0;\n");
	fn_tabs(f);
	strbuf_puts(&f->body, "DL_IVDEP\n");
	fn_tabs(f);
	strbuf_printf(&f->body, "for (int64_t %s = %s; %s < %s; %s++) {\n", var, at, var, end, var);
	f->indent++;
	fn_texts(f, &small, 1, &t);
	fn_tabs(f);
	strbuf_printf(&f->body, "large |= -!(%s);\n", strbuf_str(&t));
	fn_close(f);
	fn_tabs(f);
	strbuf_puts(&f->body, "if (large) {\n");
	f->indent++;
	strbuf_free(&t);
}

void c_near_else(Fn *f)
{
	f->indent--;
	fn_tabs(f);
	strbuf_puts(&f->body, "} else {\n");
	f->indent++;
	f->cb.near = true;
}

void c_near_end(Fn *f)
{
	f->cb.near = false;
	fn_close(f);
}
