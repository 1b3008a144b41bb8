/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions as C: see the header. */
#include "ir/expr/expr_c.h"

#include "ir/kernel/kernel.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* As ex_c, but puts the value into a new variable and returns its name. */
static const char *ex_c_named(ExprC *c, StrBuf *b, Expr *e);

enum { MAX_TEXT = 88 }; /* longer expressions get a name */

const char *ctype_c(CType t)
{
	static const char *const name[CT_COUNT] = {"void",     "bool",     "int32_t", "int64_t",
						   "uint32_t", "uint64_t", "float",   "double"};

	return name[t];
}

/* ---- Names and uses ---- */

static ExprNote *note(ExprC *c, const Expr *e)
{
	return ex_note(&c->names, c->arena, e);
}

static bool has_name(const ExprC *c, const Expr *e)
{
	return c->names.at[e->id].name;
}

void ex_c_count(ExprC *c, Expr *e)
{
	Expr *const *arg;

	if (note(c, e)->uses++)
		return;
	for (int i = ex_operands(e, &arg); i-- > 0;)
		ex_c_count(c, arg[i]);
}

/* ex_c_leave forgets the names that were made after ex_c_enter, as a C block does. */
static int ex_c_enter(ExprC *c)
{
	return ex_enter(&c->names);
}

static void ex_c_leave(ExprC *c, int mark)
{
	ex_leave(&c->names, mark);
}

void ex_c_name(ExprC *c, Expr *e, const char *name)
{
	ex_set_name(&c->names, c->arena, e, name);
}

static const char *new_name(ExprC *c)
{
	return arena_printf(c->arena, "%s%d", c->temp ? c->temp : "t", c->ntemps++);
}

static void put_indent(const ExprC *c, StrBuf *b)
{
	for (int i = 0; i < c->indent; i++)
		strbuf_puts(b, "\t");
}

/* ---- Texts ---- */

static void ex_c_const(StrBuf *b, const Expr *e)
{
	char text[40];
	bool is_f32 = e->ct == CT_F32;
	int digits = 1;

	switch (e->ct) {
	case CT_BOOL: strbuf_puts(b, e->i ? "true" : "false"); return;
	case CT_U32:
	case CT_U64: strbuf_printf(b, "%lluu", (unsigned long long)e->i); return;
	case CT_I32:
		strbuf_printf(b, e->i == INT32_MIN ? "INT32_MIN" : "%lld", (long long)e->i);
		return;
	case CT_I64:
		strbuf_printf(b, e->i == INT64_MIN ? "INT64_MIN" : "%lld", (long long)e->i);
		return;
	default: break;
	}
	if (isnan(e->f)) {
		strbuf_puts(b, is_f32 ? "__builtin_nanf(\"\")" : "__builtin_nan(\"\")");
		return;
	}
	if (isinf(e->f)) {
		strbuf_printf(b, "%s__builtin_inf%s()", e->f < 0 ? "-" : "", is_f32 ? "f" : "");
		return;
	}
	do
		snprintf(text, sizeof text, "%.*g", digits, e->f);
	while (digits++ < 17 && (is_f32 ? (double)strtof(text, NULL) : strtod(text, NULL)) != e->f);
	if (!strpbrk(text, ".e"))
		strcat(text, ".0");
	strbuf_printf(b, "%s%s", text, is_f32 ? "f" : "");
}

/* Whether one pair of parentheses encloses all of S. */
static bool is_wrapped(const char *s)
{
	size_t n = strlen(s);
	int depth = 0;

	if (n < 2 || s[0] != '(' || s[n - 1] != ')')
		return false;
	for (size_t i = 0; i < n - 1; i++) {
		depth += s[i] == '(' ? 1 : s[i] == ')' ? -1 : 0;
		if (!depth)
			return false;
	}
	return true;
}

static const char *unwrap(Arena *a, const char *s)
{
	return is_wrapped(s) ? arena_strndup(a, s + 1, strlen(s) - 2) : s;
}

/* Whether operand K of E needs no parentheses. */
static bool needs_no_parens(const ExprC *c, const Expr *e, int k)
{
	const Expr *a = e->op.arg[k];
	Inst i = e->op.inst;

	if (!inst_info[i].c || inst_info[i].c[0] != '(')
		return true;
	if (has_name(c, a))
		return false;
	if (i == IN_add || i == IN_sub)
		return ex_is_op(a, IN_mul) ||
		       (k == 0 && (ex_is_op(a, IN_add) || ex_is_op(a, IN_sub)));
	return i == IN_mul && k == 0 && ex_is_op(a, IN_mul);
}

/* TEXT of E; without its parentheses if E is a product, which a sum does not need. */
static const char *unwrap_term(const ExprC *c, const Expr *e, const char *text)
{
	return ex_is_op(e, IN_mul) && !has_name(c, e) ? unwrap(c->arena, text) : text;
}

/* Expands a pattern: $ stands for operands, types, the element type, the fault variable. */
static void put_pattern(const ExprC *c, StrBuf *b, const Expr *e, const char *const *arg)
{
	for (const char *s = inst_info[e->op.inst].c; *s; s++) {
		if (*s != '$') {
			strbuf_put(b, s, 1);
			continue;
		}
		s++;
		if (*s >= '0' && *s <= '2')
			strbuf_puts(b, arg[*s - '0']);
		else if (*s == 't')
			strbuf_puts(b, ctype_name[e->ct]);
		else if (*s == 's')
			strbuf_puts(b, ctype_name[e->op.arg[0]->ct]);
		else if (*s == 'd')
			strbuf_puts(b, dtype_info[e->op.dtype].name);
		else
			strbuf_puts(b, c->fault ? c->fault : "fault");
	}
}

/* ---- Values ---- */

static const char *put_value(ExprC *c, StrBuf *b, Expr *e);

typedef struct SharedDivs {
	ExprC *c;
	StrBuf *b;
} SharedDivs;

static void name_shared(void *arg, Expr *e)
{
	SharedDivs *s = arg;

	if (e->kind == EX_INST || e->kind == EX_LOAD)
		ex_c_named(s->c, s->b, e);
}

static void put_arm(ExprC *c, StrBuf *b, const char *name, StrBuf *stmts, const char *value)
{
	strbuf_put(b, strbuf_str(stmts), stmts->n);
	put_indent(c, b);
	strbuf_printf(b, "\t%s = %s;\n", name, unwrap(c->arena, value));
}

/* Null if the select need not be lazy once its condition is printed. */
static const char *put_lazy_select(ExprC *c, StrBuf *b, Expr *e)
{
	StrBuf arm[2] = {{0}, {0}};
	const char *cond, *value[2], *name;

	/* Subexpressions of both arms are printed before the select, so that they are not
	 * printed twice. */
	ex_of_both_arms(e, name_shared, &(SharedDivs){c, b});
	cond = put_value(c, b, e->op.arg[0]);
	if (!ex_is_lazy(&c->names, c->arena, e))
		return NULL;
	c->indent++;
	for (int i = 0; i < 2; i++) {
		int mark = ex_c_enter(c);

		value[i] = put_value(c, &arm[i], e->op.arg[i + 1]);
		ex_c_leave(c, mark);
	}
	c->indent--;
	if (!arm[0].n && !arm[1].n &&
	    strlen(cond) + strlen(value[0]) + strlen(value[1]) < 2 * MAX_TEXT) {
		strbuf_free(&arm[0]);
		strbuf_free(&arm[1]);
		return arena_printf(c->arena, "(%s ? %s : %s)", cond, value[0], value[1]);
	}
	name = new_name(c);
	put_indent(c, b);
	strbuf_printf(b, "%s %s;\n", ctype_c(e->ct), name);
	put_indent(c, b);
	strbuf_printf(b, "if (%s) {\n", unwrap(c->arena, cond));
	put_arm(c, b, name, &arm[0], value[0]);
	put_indent(c, b);
	strbuf_puts(b, "} else {\n");
	put_arm(c, b, name, &arm[1], value[1]);
	put_indent(c, b);
	strbuf_puts(b, "}\n");
	strbuf_free(&arm[0]);
	strbuf_free(&arm[1]);
	ex_c_name(c, e, name);
	return name;
}

static bool is_negative_int(const Expr *e)
{
	return e->kind == EX_CONST && (e->ct == CT_I32 || e->ct == CT_I64) && e->i < 0 &&
	       e->i > INT32_MIN;
}

/* Whether E is printed as a product with a negative constant. */
static bool is_negative_product(const ExprC *c, const Expr *e)
{
	return ex_is_op(e, IN_mul) && !has_name(c, e) && is_negative_int(e->op.arg[1]);
}

/* Prints a sum with a negative constant, or with a product by one, as a difference: a - 3, a - b
 * * 3. */
static bool put_difference(ExprC *c, StrBuf *b, Expr *e, const char *const *arg, StrBuf *out)
{
	if (is_negative_int(e->op.arg[1])) {
		strbuf_printf(out, "(%s - %lld)",
			      needs_no_parens(c, e, 0) ? unwrap(c->arena, arg[0]) : arg[0],
			      (long long)-e->op.arg[1]->i);
		return true;
	}
	for (int i = 1; i >= 0; i--) {
		Expr *product = e->op.arg[i];
		const char *left = arg[1 - i];

		if (!is_negative_product(c, product))
			continue;
		strbuf_printf(out, "(%s - %s",
			      needs_no_parens(c, e, 1 - i) ? unwrap(c->arena, left) : left,
			      put_value(c, b, product->op.arg[0]));
		if (product->op.arg[1]->i != -1)
			strbuf_printf(out, " * %lld", (long long)-product->op.arg[1]->i);
		strbuf_puts(out, ")");
		return true;
	}
	return false;
}

/* Prints a sum of indices that begins with a negative term with another term first: 48 - n - j *
 * 32. */
static bool put_sum(ExprC *c, StrBuf *b, Expr *e, StrBuf *out)
{
	Expr *term[8], *at = e;
	int n = 0, front = -1;

	while (ex_is_op(at, IN_add) && n < 7 &&
	       (at == e || (!has_name(c, at) && note(c, at)->uses < 2))) {
		term[n++] = at->op.arg[1];
		at = at->op.arg[0];
	}
	term[n++] = at;
	for (int i = 0; i < n; i++)
		if (!is_negative_int(term[i]) && !is_negative_product(c, term[i]))
			front = i;
	if (e->ct != CT_I64 || n < 3 || front < 0 || !is_negative_product(c, at))
		return false;
	strbuf_printf(out, "(%s", unwrap_term(c, term[front], put_value(c, b, term[front])));
	for (int i = n - 1; i >= 0; i--) {
		Expr *t = term[i];

		if (i == front)
			continue;
		if (is_negative_int(t))
			strbuf_printf(out, " - %lld", (long long)-t->i);
		else if (is_negative_product(c, t) && t->op.arg[1]->i == -1)
			strbuf_printf(out, " - %s", put_value(c, b, t->op.arg[0]));
		else if (is_negative_product(c, t))
			strbuf_printf(out, " - %s * %lld", put_value(c, b, t->op.arg[0]),
				      (long long)-t->op.arg[1]->i);
		else
			strbuf_printf(out, " + %s", unwrap_term(c, t, put_value(c, b, t)));
	}
	strbuf_puts(out, ")");
	return true;
}

bool ex_limited(const Expr *e, Expr **x, int64_t *lo, int64_t *hi)
{
	enum { MOST = 1 << 16 }; /* exact in f32 */
	const Expr *in = e->kind == EX_INST ? e->op.arg[0] : NULL;
	const bool upper = ex_is_op(e, IN_min);

	if (!in || e->ct != CT_I32 || e->op.n != 2 || e->op.arg[1]->kind != EX_CONST ||
	    !(upper ? ex_is_op(in, IN_max) : ex_is_op(e, IN_max) && ex_is_op(in, IN_min)) ||
	    in->op.n != 2 || in->op.arg[1]->kind != EX_CONST || !ex_is_op(in->op.arg[0], IN_cvt))
		return false;
	*x = in->op.arg[0]->op.arg[0];
	*hi = (upper ? e : in)->op.arg[1]->i;
	*lo = (upper ? in : e)->op.arg[1]->i;
	return (*x)->ct == CT_F32 && *lo <= 0 && *hi >= 0 && *lo >= -MOST && *hi <= MOST;
}

/* Prints a float that is clamped and converted to an integer, as in quantising: min(max( i32(x),
 * 0), 255). Because of the clamping, the conversion need not saturate. */
static bool put_limited(ExprC *c, StrBuf *b, Expr *e, StrBuf *out)
{
	int64_t lo, hi;
	Expr *x;
	bool near;

	if (!ex_limited(e, &x, &lo, &hi) || has_name(c, e->op.arg[0]))
		return false;
	near = ex_is_op(x, IN_rint) && !has_name(c, x);
	strbuf_printf(out, "dl_%s_f32(%s, %d, %d)", near ? "nearest" : "limit",
		      unwrap(c->arena, put_value(c, b, near ? x->op.arg[0] : x)), (int)lo, (int)hi);
	return true;
}

/* Whether C's / and % are right: a quotient or remainder of a nonnegative index by a positive
 * constant. */
static bool is_plain_quotient(const ExprC *c, const Expr *e)
{
	return (e->op.inst == IN_floordiv || e->op.inst == IN_mod) && e->ct == CT_I64 &&
	       c->natural && e->op.arg[1]->kind == EX_CONST && e->op.arg[1]->i > 0 &&
	       c->natural(c->arg, e->op.arg[0]);
}

/* E is the min or max of a float X and a number. dl_min(number, X) is one vector instruction, since
 * that returns X if X is NaN; dl_min(X, number) also needs a comparison of X with itself. */
static bool is_limit(const Expr *e)
{
	const Expr *y = e->op.n == 2 ? e->op.arg[1] : NULL;

	return (e->op.inst == IN_min || e->op.inst == IN_max) && ctype_is_float(e->ct) &&
	       y->kind == EX_CONST && !isnan(y->f);
}

/* What the names of functions end in. */
static const char *const form_name[] = {
	[FUNC_F32] = "f32", [FUNC_F64] = "f64", [FUNC_NEAR] = "near"};

static void put_inst(ExprC *c, StrBuf *b, Expr *e, StrBuf *out)
{
	const char *arg[3];
	FuncForm form;

	if ((e->op.inst == IN_add && put_sum(c, b, e, out)) || put_limited(c, b, e, out))
		return;
	for (int i = 0; i < e->op.n; i++)
		/* C evaluates only one arm of ?:, so that compilers vectorise no load in it. */
		arg[i] = e->op.inst == IN_select && i &&
					 ex_still_loads(&c->names, c->arena, e->op.arg[i])
				 ? ex_c_named(c, b, e->op.arg[i])
				 : put_value(c, b, e->op.arg[i]);
	if (is_plain_quotient(c, e)) {
		strbuf_printf(out, "(%s %c %s)", arg[0], e->op.inst == IN_mod ? '%' : '/', arg[1]);
		return;
	}
	if (e->op.inst == IN_add && put_difference(c, b, e, arg, out))
		return;
	/* clang warns about a call under & of bools. */
	if (e->ct == CT_BOOL && inst_info[e->op.inst].rule == RULE_BITS && e->op.n == 2 &&
	    strstr(arg[1], "dl_")) {
		strbuf_printf(out, "dl_%s_bool(%s, %s)", inst_info[e->op.inst].name,
			      unwrap(c->arena, arg[0]), unwrap(c->arena, arg[1]));
		return;
	}
	if (inst_is_routine(e->op.inst)) {
		strbuf_printf(out, "dl_%s(k->strings", inst_info[e->op.inst].name);
		for (int i = 0; i < e->op.n; i++)
			strbuf_printf(out, ", %s", unwrap(c->arena, arg[i]));
		strbuf_puts(out, ")");
		return;
	}
	if (c->near && ex_is_op(e, IN_cvt) && ex_near_limit(e) > 0) {
		strbuf_printf(out, "dl_cvt_f32_i64_near(%s)", unwrap(c->arena, arg[0]));
		return;
	}
	if (!inst_is_func(e->op.inst)) {
		for (int i = 0; i < e->op.n; i++)
			if (needs_no_parens(c, e, i))
				arg[i] = unwrap(c->arena, arg[i]);
		if (is_limit(e)) {
			const char *x = arg[0];

			arg[0] = arg[1];
			arg[1] = x;
		}
		put_pattern(c, out, e, arg);
		return;
	}
	form = e->ct == CT_F64                              ? FUNC_F64
	       : c->near && func_near_limit(e->op.inst) > 0 ? FUNC_NEAR
							    : FUNC_F32;
	if (c->funcs)
		c->funcs->used[e->op.inst][form] = true;
	strbuf_printf(out, "dl_%s_%s(", inst_info[e->op.inst].name, form_name[form]);
	for (int i = 0; i < e->op.n; i++)
		strbuf_printf(out, "%s%s", i ? ", " : "", unwrap(c->arena, arg[i]));
	strbuf_puts(out, ")");
}

static void put_load(ExprC *c, StrBuf *b, Expr *e, StrBuf *out)
{
	const char *idx[MAX_RANK * 2];

	for (int i = 0; i < e->load.nidx; i++)
		idx[i] = unwrap(c->arena, put_value(c, b, e->load.idx[i]));
	c->load(c->arg, out, e, idx);
}

/* A variable of this block that holds TEXT, the value of E. */
static const char *put_variable(ExprC *c, StrBuf *b, Expr *e, const char *text)
{
	const char *name = new_name(c);

	put_indent(c, b);
	strbuf_printf(b, "const %s %s = %s;\n", ctype_c(e->ct), name, unwrap(c->arena, text));
	ex_c_name(c, e, name);
	return name;
}

static void put_dim(ExprC *c, StrBuf *out, Dim *d)
{
	STRBUF_LOCAL(text);
	bool plain;

	c->dim(c->arg, &text, d);
	plain = !strpbrk(strbuf_str(&text), " +-*") || is_wrapped(strbuf_str(&text));
	strbuf_printf(out, plain ? "%s" : "(%s)", strbuf_str(&text));
}

/* A constant, an index, or a constant times an index. */
static bool is_simple(const Expr *e)
{
	if (ex_is_op(e, IN_mul))
		return e->op.arg[0]->kind == EX_ITER && e->op.arg[1]->kind == EX_CONST;
	return e->kind == EX_CONST || e->kind == EX_ITER;
}

/* A short index such as `i - lo`, which is as clear as a name. */
static bool is_short_index(const Expr *e, const char *text)
{
	return e->kind == EX_INST && e->ct == CT_I64 && e->op.n == 2 &&
	       inst_info[e->op.inst].rule == RULE_ARITH && is_simple(e->op.arg[0]) &&
	       is_simple(e->op.arg[1]) && strlen(text) < MAX_TEXT / 4 && text[0] == '(';
}

/* E's text, safe as an operand; the statements that it needs go to B. */
static const char *put_value(ExprC *c, StrBuf *b, Expr *e)
{
	STRBUF_LOCAL(out);
	const char *text;

	if (has_name(c, e))
		return note(c, e)->name;
	text = ex_is_lazy(&c->names, c->arena, e) ? put_lazy_select(c, b, e) : NULL;
	if (has_name(c, e))
		return text;
	if (!text) {
		switch (e->kind) {
		case EX_CONST: ex_c_const(&out, e); break;
		case EX_ITER: c->iter(c->arg, &out, e->iter); break;
		case EX_DIM: put_dim(c, &out, e->dim); break;
		case EX_PARAM: strbuf_puts(&out, e->param ? "y" : "x"); break;
		case EX_LOAD: put_load(c, b, e, &out); break;
		case EX_INST: put_inst(c, b, e, &out); break;
		}
		text = arena_strndup(c->arena, strbuf_str(&out), out.n);
	}
	if ((e->kind != EX_INST && e->kind != EX_LOAD) || is_short_index(e, text))
		return text;
	return note(c, e)->uses > 1 || strlen(text) > MAX_TEXT ? put_variable(c, b, e, text) : text;
}

void ex_c(ExprC *c, StrBuf *b, Expr *e, StrBuf *value)
{
	if (!note(c, e)->uses)
		ex_c_count(c, e);
	strbuf_puts(value, unwrap(c->arena, put_value(c, b, e)));
}

static const char *ex_c_named(ExprC *c, StrBuf *b, Expr *e)
{
	const char *text;

	if (!note(c, e)->uses)
		ex_c_count(c, e);
	text = put_value(c, b, e);
	return has_name(c, e) ? note(c, e)->name : put_variable(c, b, e, text);
}

/* ---- Functions ---- */

typedef struct FuncPrinter {
	StrBuf *b;
	ExprPool *p;
	FuncUses done;
} FuncPrinter;

static void put_func(FuncPrinter *f, Inst i, FuncForm form)
{
	ARENA_LOCAL(tmp);
	const CType t = form == FUNC_F64 ? CT_F64 : CT_F32;
	ExprC c = {.arena = tmp, .indent = 1};
	STRBUF_LOCAL(value);
	Expr *body = form == FUNC_NEAR ? ex_func_near(f->p, i) : ex_func_body(f->p, i, t);

	if (f->done.used[i][form])
		return;
	f->done.used[i][form] = true;
	EX_EACH (e, body)
		if (e->kind == EX_INST && inst_is_func(e->op.inst))
			put_func(f, e->op.inst, e->ct == CT_F64 ? FUNC_F64 : FUNC_F32);
	strbuf_printf(f->b, "DL_FN %s dl_%s_%s(%s x", ctype_c(t), inst_info[i].name,
		      form_name[form], ctype_c(t));
	strbuf_printf(f->b, inst_info[i].nargs > 1 ? ", %s y)\n{\n" : ")\n{\n", ctype_c(t));
	ex_c(&c, f->b, body, &value);
	strbuf_printf(f->b, "\treturn %s;\n}\n\n", strbuf_str(&value));
}

void ex_c_funcs(StrBuf *b, ExprPool *p, const FuncUses *uses)
{
	FuncPrinter f = {.b = b, .p = p};

	for (int i = 0; i < INST_COUNT; i++)
		for (int form = 0; form < FUNC_FORMS; form++)
			if (uses->used[i][form])
				put_func(&f, (Inst)i, (FuncForm)form);
}
