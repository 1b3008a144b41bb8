/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/c_expr.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const c_types[CT_COUNT] = {
	[CT_BOOL] = "int", [CT_I32] = "int32_t", [CT_I64] = "int64_t", [CT_U32] = "uint32_t",
	[CT_U64] = "uint64_t", [CT_F32] = "float", [CT_F64] = "double",
};

const char *c_type(CType t)
{
	return c_types[t];
}

/* Facts about the nodes of one DAG, by id. */
typedef struct Printer {
	const CExprNames *names;
	int max;
	Expr **node;
	int *uses;     /* from other nodes and roots */
	int *height;
	bool *lazy;    /* reads memory or may fault, itself or below */
	bool *strict;  /* is evaluated whatever selects decide */
	int *temp;     /* number of its temporary, or -1 */
} Printer;

enum { TALL = 7 }; /* levels of nesting after which a temporary reads better */

static void collect(void *arg, Expr *e)
{
	((Printer *)arg)->node[e->id] = e;
}

static bool is_leaf(const Expr *e)
{
	return e->kind != EX_INST && e->kind != EX_LOAD;
}

static int operand_count(const Expr *e)
{
	return e->kind == EX_INST ? e->op.n : e->kind == EX_LOAD ? e->load.nidx : 0;
}

static Expr *operand(const Expr *e, int i)
{
	return e->kind == EX_INST ? e->op.arg[i] : e->load.idx[i];
}

static void analyse(Printer *p, Expr *const *root, int n)
{
	for (int i = 0; i < n; i++)
		ex_walk(root[i], collect, p);
	for (int id = 0; id < p->max; id++) {
		Expr *e = p->node[id];

		if (!e)
			continue;
		p->lazy[id] = e->kind == EX_LOAD || (e->kind == EX_INST && e->op.inst == IN_index);
		for (int i = 0; i < operand_count(e); i++) {
			int o = operand(e, i)->id;

			p->uses[o]++;
			p->lazy[id] = p->lazy[id] || p->lazy[o];
			if (p->height[o] + 1 > p->height[id])
				p->height[id] = p->height[o] + 1;
		}
		if (p->height[id] >= TALL && !is_leaf(e)) {
			p->uses[id]++; /* hoisted where that is allowed */
			p->height[id] = 0;
		}
	}
	for (int i = 0; i < n; i++)
		p->strict[root[i]->id] = true;
	for (int id = p->max - 1; id >= 0; id--) {
		Expr *e = p->node[id];

		if (!e || !p->strict[id])
			continue;
		for (int i = 0; i < operand_count(e); i++)
			if (!(e->kind == EX_INST && e->op.inst == IN_select && i > 0))
				p->strict[operand(e, i)->id] = true;
	}
}

static void print_float(StrBuf *b, CType t, double v)
{
	const char *f = t == CT_F32 ? "f" : "";

	if (isnan(v))
		strbuf_printf(b, "__builtin_nan%s(\"\")", f);
	else if (isinf(v))
		strbuf_printf(b, "(%s__builtin_inf%s())", v < 0 ? "-" : "", f);
	else if (fabs(v) < 1e6 && v == (double)(int64_t)v && !(v == 0 && signbit(v)))
		strbuf_printf(b, v < 0 ? "(%.1f%s)" : "%.1f%s", v, f);
	else
		strbuf_printf(b, v < 0 || signbit(v) ? "(%a%s)" : "%a%s", v, f);
}

static void print_int(StrBuf *b, CType t, int64_t v)
{
	switch (t) {
	case CT_BOOL: strbuf_puts(b, v ? "1" : "0"); break;
	case CT_I32: strbuf_printf(b, v == INT32_MIN ? "(-2147483647 - 1)" : v < 0 ? "(%d)" : "%d", (int)v); break;
	case CT_U32: strbuf_printf(b, "%uu", (unsigned)v); break;
	case CT_U64: strbuf_printf(b, "UINT64_C(%llu)", (unsigned long long)v); break;
	default:
		if (v == INT64_MIN)
			strbuf_puts(b, "INT64_MIN");
		else if (v > INT32_MAX || v < -INT32_MAX)
			strbuf_printf(b, v < 0 ? "(-INT64_C(%lld))" : "INT64_C(%lld)", (long long)llabs(v));
		else
			strbuf_printf(b, v < 0 ? "(%lld)" : "%lld", (long long)v);
	}
}

static void print(Printer *p, StrBuf *b, Expr *e);

/* The C pattern of an instruction, with $0 .. $2 the operands and $t $s $d types (ir/insts.def). */
static void print_pattern(Printer *p, StrBuf *b, Expr *e, const char *pat)
{
	for (; *pat; pat++) {
		if (*pat != '$') {
			strbuf_put(b, pat, 1);
			continue;
		}
		pat++;
		if (*pat >= '0' && *pat <= '2')
			print(p, b, e->op.arg[*pat - '0']);
		else if (*pat == 't')
			strbuf_puts(b, ctype_name[e->ct]);
		else if (*pat == 's')
			strbuf_puts(b, ctype_name[e->op.arg[0]->ct]);
		else if (*pat == 'd')
			strbuf_puts(b, dtype_info[e->op.dtype].name);
		else if (*pat == 'f')
			strbuf_puts(b, "fault");
	}
}

static void print_inst(Printer *p, StrBuf *b, Expr *e)
{
	const InstInfo *in = &inst_info[e->op.inst];

	if (inst_is_func(e->op.inst)) {
		if (p->names->func)
			p->names->func(p->names->arg, e->op.inst, e->ct);
		strbuf_printf(b, "dl_%s_%s(", in->name, ctype_name[e->ct]);
		for (int i = 0; i < e->op.n; i++) {
			strbuf_puts(b, i ? ", " : "");
			print(p, b, e->op.arg[i]);
		}
		strbuf_puts(b, ")");
		return;
	}
	if (e->op.inst == IN_cvt && e->op.arg[0]->ct == CT_BOOL && e->ct != CT_BOOL) {
		strbuf_printf(b, "(%s)", c_type(e->ct));
		print(p, b, e->op.arg[0]);
		return;
	}
	print_pattern(p, b, e, in->c);
}

static void print(Printer *p, StrBuf *b, Expr *e)
{
	if (p->temp[e->id] >= 0) {
		strbuf_printf(b, "t%d", p->temp[e->id]);
		return;
	}
	switch (e->kind) {
	case EX_CONST:
		if (ctype_is_float(e->ct))
			print_float(b, e->ct, e->f);
		else
			print_int(b, e->ct, e->i);
		break;
	case EX_ITER: p->names->iter(p->names->arg, b, e->iter); break;
	case EX_DIM: p->names->dim(p->names->arg, b, e->dim); break;
	case EX_PARAM: strbuf_puts(b, e->param ? "y" : "x"); break;
	case EX_LOAD: {
		StrBuf at = {0};

		if (e->load.nidx)
			print(p, &at, e->load.idx[0]);
		else
			strbuf_puts(&at, "0");
		p->names->load(p->names->arg, b, e->load.buf, strbuf_str(&at));
		strbuf_free(&at);
		break;
	}
	case EX_INST: print_inst(p, b, e); break;
	}
}

void c_exprs(StrBuf *pre, StrBuf *out, Expr *const *e, int n, const CExprNames *names, int indent, int *ntemp)
{
	Arena *a = arena_new();
	Printer p = {.names = names};

	for (int i = 0; i < n; i++)
		p.max = e[i]->id >= p.max ? e[i]->id + 1 : p.max;
	p.node = NEW_ARRAY(a, p.max, Expr *);
	p.uses = NEW_ARRAY(a, p.max, int);
	p.height = NEW_ARRAY(a, p.max, int);
	p.lazy = NEW_ARRAY(a, p.max, bool);
	p.strict = NEW_ARRAY(a, p.max, bool);
	p.temp = NEW_ARRAY(a, p.max, int);
	for (int i = 0; i < p.max; i++)
		p.temp[i] = -1;
	analyse(&p, e, n);
	for (int id = 0; id < p.max; id++) {
		StrBuf text = {0};

		if (!p.node[id] || is_leaf(p.node[id]) || p.uses[id] < 2 || (p.lazy[id] && !p.strict[id]))
			continue;
		print(&p, &text, p.node[id]);
		strbuf_printf(pre, "%.*sconst %s t%d = %s;\n", indent, "\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t",
			      c_type(p.node[id]->ct), *ntemp, strbuf_str(&text));
		strbuf_free(&text);
		p.temp[id] = (*ntemp)++;
	}
	for (int i = 0; i < n; i++)
		print(&p, &out[i], e[i]);
	arena_free(a);
}

void c_expr(StrBuf *pre, StrBuf *out, Expr *e, const CExprNames *names, int indent, int *ntemp)
{
	c_exprs(pre, out, &e, 1, names, indent, ntemp);
}

void c_func(StrBuf *b, ExprPool *pool, Inst fn, CType t, const CExprNames *names)
{
	StrBuf pre = {0}, out = {0};
	int ntemp = 0;
	const char *type = c_type(t);

	c_expr(&pre, &out, ex_func_body(pool, fn, t), names, 1, &ntemp);
	strbuf_printf(b, "static inline %s dl_%s_%s(%s x%s%s)\n{\n%s\treturn %s;\n}\n\n", type, inst_info[fn].name,
		      ctype_name[t], type, inst_info[fn].nargs > 1 ? ", " : "",
		      inst_info[fn].nargs > 1 ? (t == CT_F32 ? "float y" : "double y") : "", strbuf_str(&pre),
		      strbuf_str(&out));
	strbuf_free(&pre);
	strbuf_free(&out);
}
