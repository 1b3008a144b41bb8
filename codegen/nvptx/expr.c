/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions as LLVM IR. An instruction is a function of the library. A select with a load in an
 * arm, or with an instruction that may fault, becomes a branch, so that only the taken arm is
 * evaluated; subexpressions of both arms are evaluated before.
 */
#include "codegen/nvptx/nvptx_impl.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

/* ---- Blocks and names ---- */

const char *ll_new(LlFn *f)
{
	return arena_printf(f->arena, "%%t%d", f->temp++);
}

const char *ll_label(LlFn *f, const char *what)
{
	return arena_printf(f->arena, "%s%d", what, f->labels++);
}

void ll_begin(LlFn *f, const char *label)
{
	strbuf_printf(&f->b, "%s:\n", label);
	f->block = label;
}

void ll_put(LlFn *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	strbuf_printf(&f->b, "  %s\n", arena_vprintf(f->arena, fmt, ap));
	va_end(ap);
}

const char *ll_set(LlFn *f, const char *fmt, ...)
{
	const char *r = ll_new(f);
	va_list ap;

	va_start(ap, fmt);
	ll_put(f, "%s = %s", r, arena_vprintf(f->arena, fmt, ap));
	va_end(ap);
	return r;
}

const char *ll_op(LlFn *f, const char *inst, const char *x, long long y)
{
	return ll_set(f, "%s %s, %lld", inst, x, y);
}

const char *ll_plus(LlFn *f, const char *x, long long y)
{
	return y ? ll_op(f, "add nsw i64", x, y) : x;
}

const char *ll_number(LlFn *f, int64_t v)
{
	return arena_printf(f->arena, "%lld", (long long)v);
}

const char *ll_narrow(LlFn *f, const char *x)
{
	return ll_set(f, "trunc i64 %s to i32", x);
}

const char *ll_gep(LlFn *f, const char *type, int space, const char *p, const char *at)
{
	return ll_set(f, "getelementptr %s, ptr addrspace(%d) %s, i64 %s", type, space, p, at);
}

const char *ll_together(LlFn *f, const char *type, const char *const *val, int n)
{
	const char *all = "undef";

	for (int i = 0; i < n; i++)
		all = ll_set(f, "insertelement <%d x %s> %s, %s %s, i32 %d", n, type, all, type,
			     val[i], i);
	return all;
}

const char *ll_call(LlFn *f, const char *name, const char *const *arg, int n)
{
	return ll_lib_call(f->g->lib, f->arena, &f->b, name, arg, n, &f->temp);
}

void ll_name(LlFn *f, Expr *e, const char *name)
{
	ex_set_name(&f->names, f->arena, e, name);
}

void ll_forget(LlFn *f)
{
	ex_leave(&f->names, 0);
}

/* ---- Lazy selects ---- */

static void shared_first(void *arg, Expr *e)
{
	ll_expr(arg, e);
}

static const char *lazy_select(LlFn *f, Expr *e)
{
	const char *arm[2] = {ll_label(f, "then"), ll_label(f, "else")},
		   *join = ll_label(f, "join");
	const char *value[2], *from[2], *r;

	ex_of_both_arms(e, shared_first, f);
	r = ll_expr(f, e->op.arg[0]);
	ll_put(f, "br i1 %s, label %%%s, label %%%s", r, arm[0], arm[1]);
	for (int i = 0; i < 2; i++) {
		int mark = ex_enter(&f->names);

		ll_begin(f, arm[i]);
		value[i] = ll_expr(f, e->op.arg[i + 1]);
		from[i] = f->block;
		ll_put(f, "br label %%%s", join);
		ex_leave(&f->names, mark);
	}
	ll_begin(f, join);
	return ll_set(f, "phi %s [ %s, %%%s ], [ %s, %%%s ]", ll_ctype(e->ct), value[0], from[0],
		      value[1], from[1]);
}

/* ---- Values ---- */

const char *ll_const(Arena *a, const Expr *e)
{
	uint64_t bits;

	if (e->ct == CT_BOOL)
		return e->i ? "true" : "false";
	if (!ctype_is_float(e->ct))
		return arena_printf(a, "%lld",
				    e->ct == CT_I32 || e->ct == CT_U32 ? (long long)(int32_t)e->i
								       : (long long)e->i);
	memcpy(&bits, &e->f, sizeof bits);
	if (isnan(e->f))
		bits = UINT64_C(0x7ff8000000000000);
	return arena_printf(a, "0x%016llX", (unsigned long long)bits);
}

/* The name of instruction E in the library. */
static const char *inst_name(Arena *a, const Expr *e)
{
	const char *name = inst_info[e->op.inst].name, *from = ctype_name[e->op.arg[0]->ct];

	switch (inst_info[e->op.inst].rule) {
	case RULE_CVT:
	case RULE_BITCAST: return arena_printf(a, "%s_%s_%s", name, from, ctype_name[e->ct]);
	case RULE_ROUND: return arena_printf(a, "%s_%s", name, dtype_info[e->op.dtype].name);
	case RULE_INDEX: return name;
	default: return arena_printf(a, "%s_%s", name, from);
	}
}

static const char *short_division(LlFn *f, const Expr *e, const char *const *arg)
{
	const char *a = ll_narrow(f, arg[0]), *b = ll_narrow(f, arg[1]);

	return ll_set(f, "zext i32 %s to i64",
		      ll_set(f, "%s i32 %s, %s", ex_is_op(e, IN_mod) ? "urem" : "udiv", a, b));
}

/* How many loops are around the iterators that E mentions. */
static int depth_of(LlFn *f, Expr *e)
{
	int depth = 0;

	EX_EACH (x, e)
		if (x->kind == EX_ITER && f->depth(f->arg, x->iter) > depth)
			depth = f->depth(f->arg, x->iter);
	return depth;
}

/* The sum E of an index, in which the terms that the innermost loop changes are added before the
 * others: LLVM sees that the digits of a thread's number, if all of them are there, are that
 * number. Null: there are no two such terms, or no others. */
static const char *inner_first(LlFn *f, Expr *e)
{
	const int depth = f->depth && e->ct == CT_I64 && ex_is_op(e, IN_add)
				  ? depth_of(f, e->op.arg[1])
				  : 0;
	Expr *rest = e;
	const char *arg[2];
	int n = 0;

	for (; ex_is_op(rest, IN_add) && depth_of(f, rest->op.arg[1]) == depth && depth; n++)
		rest = rest->op.arg[0];
	if (n < 2 || depth_of(f, rest) >= depth)
		return NULL;
	arg[1] = NULL;
	for (Expr *x = e; x != rest; x = x->op.arg[0]) {
		arg[0] = ll_expr(f, x->op.arg[1]);
		arg[1] = arg[1] ? ll_call(f, "add_i64", arg, 2) : arg[0];
	}
	arg[0] = ll_expr(f, rest);
	return ll_call(f, "add_i64", arg, 2);
}

static const char *inst(LlFn *f, Expr *e)
{
	const char *arg[3] = {NULL, NULL, "%fault"}, *r = inner_first(f, e);

	if (r)
		return r;
	if (ex_is_lazy(&f->names, f->arena, e))
		return lazy_select(f, e);
	for (int i = 0; i < e->op.n; i++)
		arg[i] = ll_expr(f, e->op.arg[i]);
	if (f->is_short && f->is_short(f->arg, e))
		return short_division(f, e, arg);
	if (!ex_is_op(e, IN_select))
		return ll_call(f, inst_name(f->arena, e), arg, ex_is_op(e, IN_index) ? 3 : e->op.n);
	return ll_set(f, "select i1 %s, %s %s, %s %s", arg[0], ll_ctype(e->ct), arg[1],
		      ll_ctype(e->ct), arg[2]);
}

static const char *load(LlFn *f, Expr *e)
{
	const char *idx[MAX_RANK * 2];

	for (int i = 0; i < e->load.nidx; i++)
		idx[i] = ll_expr(f, e->load.idx[i]);
	return f->load(f->arg, e, idx);
}

const char *ll_expr(LlFn *f, Expr *e)
{
	const char *s = ex_note(&f->names, f->arena, e)->name;

	if (s)
		return s;
	switch (e->kind) {
	case EX_CONST: return ll_const(f->arena, e);
	case EX_ITER: return f->iter(f->arg, e->iter);
	case EX_DIM: return f->dim(f->arg, e->dim);
	case EX_PARAM: return f->param[e->param];
	case EX_LOAD: s = load(f, e); break;
	case EX_INST: s = inst(f, e); break;
	}
	ll_name(f, e, s);
	return s;
}

const char *ll_func(GenPtx *g, Inst fn, CType t)
{
	LlFn f = {.g = g, .arena = g->arena, .block = "entry", .param = {"%x", "%y"}};
	Expr *body = ex_func_body(g->pool, fn, t);
	const char *r = ll_expr(&f, body), *type = ll_ctype(t), *text;

	text = arena_printf(g->arena, "define %s @%s_%s(%s %%x%s%s) {\nentry:\n%s  ret %s %s\n}",
			    type, inst_info[fn].name, ctype_name[t], type,
			    inst_info[fn].nargs > 1 ? arena_printf(g->arena, ", %s %%y", type) : "",
			    "", strbuf_str(&f.b), type, r);
	strbuf_free(&f.b);
	return text;
}
