/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the text of expressions: calls, and infix + - * &, over typed values. A literal gets the
 * type of the operand beside it.
 */
#include "ir/expr/expr_impl.h"

#include "ir/dim/bindings.h"
#include "ir/kernel/kernel.h"

#include <stdlib.h>
#include <string.h>

/* An expression; or, if E is null, the literal that starts at TEXT. */
typedef struct ParsedValue {
	Expr *e;
	const char *text;
	bool integer;
} ParsedValue;

enum {
	MAX_LETS = 256,
	MAX_DEPTH = 402
}; /* 400 calls in each other, around an element and its index */

typedef struct ExprReader {
	ExprPool *p;
	const char *at;
	const ExprScope *scope;
	CType t; /* type of literals without an operand beside them */
	const char *err;
	struct {
		const char *name;
		size_t n;
		ParsedValue v;
	} let[MAX_LETS];
	int nlets, depth;
} ExprReader;

static bool read_sum(ExprReader *r, CType hint, ParsedValue *out);
static bool read_and(ExprReader *r, CType hint, ParsedValue *out);

static bool fail(ExprReader *r, const char *what, const char *at, size_t n)
{
	if (!r->err)
		r->err = arena_printf(r->p->arena, "%s%s%.*s%s", what, n ? " '" : "", (int)n, at,
				      n ? "'" : "");
	return false;
}

static void skip_space(ExprReader *r)
{
	while (*r->at == ' ' || *r->at == '\t' || *r->at == '\n')
		r->at++;
}

static bool take(ExprReader *r, char c)
{
	skip_space(r);
	if (*r->at != c)
		return false;
	r->at++;
	return true;
}

static bool expect(ExprReader *r, char c)
{
	return take(r, c) || fail(r, "expected", &(char[]){c}[0], 1);
}

static bool is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static size_t name_length(const char *s)
{
	size_t n = 0;

	if (!is_alpha(*s))
		return 0;
	while (is_alpha(s[n]) || is_digit(s[n]) || s[n] == '.')
		n++;
	return n;
}

static bool same_name(const char *s, const char *at, size_t n)
{
	return strlen(s) == n && !memcmp(s, at, n);
}

/* A name that a definition binds: in an index or a size, a size; else a number, as a literal. */
static bool read_bound(ExprReader *r, const char *at, size_t len, CType hint, ParsedValue *out)
{
	bool integer = false;
	const char *number = bound_number(r->p->ctx, at, len, &integer);
	Dim *d = !number || hint == CT_I64 ? bound_size(r->p->ctx, at, len, &r->at) : NULL;

	if (d)
		*out = (ParsedValue){ex_dim(r->p, d), NULL, false};
	else if (number)
		*out = (ParsedValue){NULL, number, integer};
	else
		return fail(r, "unknown name", at, len);
	return true;
}

/* The literal as a constant of type T. */
static Expr *literal(ExprReader *r, const ParsedValue *v, CType t)
{
	if (same_name("true", v->text, name_length(v->text)))
		return ex_num(r->p, t, 1);
	if (same_name("false", v->text, name_length(v->text)))
		return ex_num(r->p, t, 0);
	if (t == CT_F32)
		return ex_float(r->p, t, (double)strtof(v->text, NULL));
	if (v->integer && t != CT_F64) {
		bool negative = *v->text == '-';
		uint64_t n = strtoull(v->text + negative, NULL, 0);

		return ex_int(r->p, t, (int64_t)(negative ? 0 - n : n));
	}
	return ex_num(r->p, t, strtod(v->text, NULL));
}

static Expr *typed(ExprReader *r, const ParsedValue *v, CType t)
{
	return v->e ? v->e : literal(r, v, t);
}

static bool read_literal(ExprReader *r, ParsedValue *out)
{
	const char *end, *s = r->at;
	char *stop;

	strtod(s, &stop);
	end = stop;
	if (end == s)
		return fail(r, "expected an expression at", s, strnlen(s, 12));
	*out = (ParsedValue){NULL, s, true};
	for (const char *c = s; c < end; c++)
		if (strchr("pPin.", *c) || (strchr("eE", *c) && s[*s == '-' ? 2 : 1] != 'x'))
			out->integer = false;
	r->at = end;
	return true;
}

/* The type of the operands beside the literals among V, or else HINT. */
static CType common_type(const ParsedValue *v, int n, CType hint)
{
	for (int i = 0; i < n; i++)
		if (v[i].e)
			return v[i].e->ct;
	return hint;
}

/* The instruction, simplified unless the text is of a loop tree. */
static Expr *make(ExprReader *r, Inst i, Expr *const *arg, int n)
{
	return r->scope->as_is ? ex_inst_as_is(r->p, i, arg, n) : ex_inst(r->p, i, arg, n);
}

static bool make_inst(ExprReader *r, Inst i, ParsedValue *v, int n, CType hint, const char *at,
		      size_t len, ParsedValue *out)
{
	int first = inst_info[i].rule == RULE_SELECT;
	CType t = common_type(v + first, n - first, hint);
	Expr *arg[3];

	for (int k = 0; k < n; k++)
		arg[k] = typed(r, &v[k], k < first ? CT_BOOL : t);
	if (!ex_inst_takes(i, arg, n))
		return fail(r, "operand types of", at, len);
	*out = (ParsedValue){make(r, i, arg, n), NULL, false};
	return true;
}

/* The negative of the i64 V, as the printer of sums writes it. */
static Expr *negative(ExprReader *r, Expr *v)
{
	Expr *by = NULL;

	if (v->kind == EX_CONST)
		return ex_int(r->p, CT_I64, (int64_t)(0 - (uint64_t)v->i));
	if (ex_is_op(v, IN_mul) && v->op.arg[1]->kind == EX_CONST) {
		by = v->op.arg[1];
		v = v->op.arg[0];
	}
	by = ex_int(r->p, CT_I64, by ? (int64_t)(0 - (uint64_t)by->i) : -1);
	return ex_inst_as_is(r->p, IN_mul, (Expr *[]){v, by}, 2);
}

/* The hint for operand K of an instruction whose own hint is HINT. */
static CType operand_hint(const ExprReader *r, InstRule rule, int k, CType hint)
{
	switch (rule) {
	case RULE_CMP:
	case RULE_TEST: return r->t;
	case RULE_SELECT: return k == 0 ? CT_BOOL : hint;
	case RULE_INDEX: return CT_I64;
	default: return hint;
	}
}

static bool read_routine(ExprReader *r, Inst i, const char *at, size_t len, ParsedValue *out)
{
	const InstInfo *info = &inst_info[i];
	Expr *arg[3];
	ParsedValue v;

	for (int k = 0; k < info->nargs; k++) {
		if ((k && !expect(r, ',')) || !read_and(r, info->arg[k], &v))
			return false;
		arg[k] = typed(r, &v, info->arg[k]);
	}
	if (!expect(r, ')'))
		return false;
	if (!ex_inst_takes(i, arg, info->nargs))
		return fail(r, "operand types of", at, len);
	*out = (ParsedValue){make(r, i, arg, info->nargs), NULL, false};
	return true;
}

static bool read_inst(ExprReader *r, Inst i, const char *at, size_t len, CType hint,
		      ParsedValue *out)
{
	InstRule rule = inst_info[i].rule;
	ParsedValue v[3];
	int n = inst_info[i].nargs, first = rule == RULE_SELECT;

	if (rule == RULE_ROUTINE)
		return read_routine(r, i, at, len, out);
	if (rule == RULE_CVT || rule == RULE_BITCAST || rule == RULE_ROUND)
		return fail(r, "a type must follow", at, len);
	for (int k = 0; k < n; k++) {
		CType h = operand_hint(r, rule, k, hint);

		if (k > first)
			h = common_type(v + first, k - first, h);
		if ((k && !expect(r, ',')) || !read_and(r, h, &v[k]))
			return false;
	}
	return expect(r, ')') &&
	       make_inst(r, i, v, n, operand_hint(r, rule, n, hint), at, len, out);
}

/* The scalar type that AT names, or in which elements of the type that a definition binds to it
 * are computed. */
static CType ctype_by_name(const ExprReader *r, const char *at, size_t n)
{
	for (CType t = CT_BOOL; t < CT_COUNT; t++)
		if (same_name(ctype_name[t], at, n))
			return t;
	return *at >= 'A' && *at <= 'Z' ? dtype_ctype(bound_dtype(r->p->ctx, at, n)) : CT_NONE;
}

/* Reads i32(x), bits.i32(x), round.f16(x), roundsat.f8e5m2(x), from after the parenthesis on. */
static bool read_typed_call(ExprReader *r, const char *at, size_t len, ParsedValue *out,
			    bool *found)
{
	const char *dot = memchr(at, '.', len), *type = dot ? dot + 1 : at;
	size_t pre = dot ? (size_t)(dot - at) : 0, n = len - (size_t)(type - at);
	Inst i = dot ? inst_by_name(at, pre) : IN_cvt;
	CType t = ctype_by_name(r, type, n);
	DType d = bound_dtype(r->p->ctx, type, n);
	ParsedValue v;
	Expr *e;

	*found = (i == IN_round || i == IN_roundsat)
			 ? d != DT_NONE && dtype_ctype(d) != CT_NONE
			 : (i == IN_cvt || i == IN_bits) && t != CT_NONE;
	if (!*found)
		return false;
	if (i == IN_round || i == IN_roundsat)
		t = dtype_ctype(d);
	if (!read_and(r, i == IN_cvt || i == IN_bits ? r->t : t, &v) || !expect(r, ')'))
		return false;
	e = typed(r, &v, i == IN_bits ? r->t : t);
	if (r->scope->as_is && i != IN_bits && (i == IN_cvt ? e->ct != t : e->ct == t))
		e = ex_raw(r->p, i, t, i == IN_cvt ? DT_NONE : d, &e, 1);
	else if (i == IN_cvt)
		e = ex_cvt(r->p, t, e);
	else if (i == IN_bits &&
		 dtype_info[ctype_dtype(e->ct)].bits == dtype_info[ctype_dtype(t)].bits)
		e = ex_bits(r->p, t, e);
	else if (i != IN_bits && e->ct == t)
		e = i == IN_round ? ex_round(r->p, d, e) : ex_roundsat(r->p, d, e);
	else
		return fail(r, "operand type of", at, len);
	*out = (ParsedValue){e, NULL, false};
	return true;
}

/* ex_inside, not simplified. */
static Expr *inside_as_is(ExprPool *p, Expr *a, Expr *n)
{
	Expr *zero = ex_int(p, CT_I64, 0), *ge = ex_inst_as_is(p, IN_ge, (Expr *[]){a, zero}, 2),
	     *lt = ex_inst_as_is(p, IN_lt, (Expr *[]){a, n}, 2);

	return ex_inst_as_is(p, IN_and, (Expr *[]){ge, lt}, 2);
}

static bool read_call(ExprReader *r, const char *at, size_t len, CType hint, ParsedValue *out)
{
	Inst i = inst_by_name(at, len);
	bool found;

	if (i != INST_COUNT && inst_info[i].rule != RULE_CVT)
		return read_inst(r, i, at, len, hint, out);
	if (same_name("inside", at, len)) {
		ParsedValue a, n;

		if (!read_and(r, CT_I64, &a) || !expect(r, ',') || !read_and(r, CT_I64, &n) ||
		    !expect(r, ')'))
			return false;
		a.e = typed(r, &a, CT_I64);
		n.e = typed(r, &n, CT_I64);
		if (a.e->ct != CT_I64 || n.e->ct != CT_I64)
			return fail(r, "operand types of", at, len);
		*out = (ParsedValue){r->scope->as_is ? inside_as_is(r->p, a.e, n.e)
						     : ex_inside(r->p, a.e, n.e),
				     NULL, false};
		return true;
	}
	if (same_name("dim", at, len) && r->scope->dims) {
		Dim *d = dim_parse(r->p->ctx, &r->at);

		if (!d)
			return fail(r, "bad dim at", r->at, strnlen(r->at, 12));
		*out = (ParsedValue){ex_dim(r->p, d), NULL, false};
		return expect(r, ')');
	}
	return read_typed_call(r, at, len, out, &found) ||
	       (found ? false : fail(r, "ir/expr/insts.def and ir/expr/funcs.def have no instruction", at, len));
}

static bool read_load(ExprReader *r, Buf *b, ParsedValue *out)
{
	Expr *idx[MAX_RANK];
	ParsedValue v;
	int n = 0;

	if (!take(r, ']')) {
		do {
			if (n == MAX_RANK || !read_and(r, CT_I64, &v))
				return fail(r, "too many indices", "", 0);
			idx[n] = typed(r, &v, CT_I64);
			if (idx[n++]->ct != CT_I64)
				return fail(r, "an index is not i64 in", b->name, strlen(b->name));
		} while (take(r, ','));
		if (!expect(r, ']'))
			return false;
	}
	if (n != (r->scope->as_is && !b->tile ? 1 : b->rank))
		return fail(r, "wrong number of indices of", b->name, strlen(b->name));
	*out = (ParsedValue){ex_load(r->p, b, idx, n), NULL, false};
	return true;
}

static bool read_name(ExprReader *r, const char *at, size_t len, ParsedValue *out)
{
	for (int i = r->nlets; i-- > 0;) {
		if (r->let[i].n == len && !memcmp(r->let[i].name, at, len)) {
			*out = r->let[i].v;
			return true;
		}
	}
	for (int i = 0; i < r->scope->nnames; i++) {
		if (same_name(r->scope->names[i].name, at, len)) {
			*out = (ParsedValue){r->scope->names[i].e, NULL, false};
			return true;
		}
	}
	if (same_name("inf", at, len) || same_name("nan", at, len) || same_name("true", at, len) ||
	    same_name("false", at, len)) {
		*out = (ParsedValue){NULL, at, false};
		return true;
	}
	return false;
}

static bool read_primary(ExprReader *r, CType hint, ParsedValue *out)
{
	const char *at;
	size_t len;

	skip_space(r);
	at = r->at;
	if (take(r, '('))
		return read_and(r, hint, out) && expect(r, ')');
	len = name_length(at);
	if (!len)
		return read_literal(r, out);
	r->at += len;
	if (take(r, '('))
		return read_call(r, at, len, hint, out);
	if (take(r, '[')) {
		for (int i = 0; i < r->scope->nbufs; i++)
			if (same_name(r->scope->bufs[i]->name, at, len))
				return read_load(r, r->scope->bufs[i], out);
		r->at = at + len;
		if (!r->p->ctx->bound || !r->scope->dims || r->scope->as_is)
			return fail(r, "no buffer", at, len);
	}
	if (read_name(r, at, len, out))
		return true;
	if (r->scope->dims && r->p->ctx->bound && !r->scope->as_is)
		return read_bound(r, at, len, hint, out);
	if (r->scope->dims && !r->scope->as_is) {
		char *name = arena_strndup(r->p->arena, at, len);

		*out = (ParsedValue){ex_dim(r->p, sym_get(r->p->ctx, name)->dim), NULL, false};
		return true;
	}
	return fail(r, "unknown name", at, len);
}

/* A minus directly before a number is part of the number. */
static bool read_unary(ExprReader *r, CType hint, ParsedValue *out)
{
	const char *at;
	ParsedValue v;

	skip_space(r);
	at = r->at;
	if (*at != '-' || is_digit(at[1]) || at[1] == '.')
		return read_primary(r, hint, out);
	r->at++;
	if (!read_primary(r, hint, &v))
		return false;
	if (!v.e && v.text == at + 1) {
		*out = (ParsedValue){NULL, at, v.integer};
		return true;
	}
	if (r->scope->as_is && v.e && v.e->ct == CT_I64) {
		*out = (ParsedValue){negative(r, v.e), NULL, false};
		return true;
	}
	return make_inst(r, IN_neg, &v, 1, hint, at, 1, out);
}

static bool read_product(ExprReader *r, CType hint, ParsedValue *out)
{
	const char *at;
	ParsedValue v[2];

	if (!read_unary(r, hint, &v[0]))
		return false;
	for (at = r->at; take(r, '*'); at = r->at)
		if (!read_unary(r, common_type(v, 1, hint), &v[1]) ||
		    !make_inst(r, IN_mul, v, 2, hint, at, 1, &v[0]))
			return false;
	*out = v[0];
	return true;
}

static bool read_sum(ExprReader *r, CType hint, ParsedValue *out)
{
	ParsedValue v[2];

	if (!read_product(r, hint, &v[0]))
		return false;
	for (;;) {
		bool plus = take(r, '+');

		if (!plus && !take(r, '-'))
			break;
		if (!read_product(r, common_type(v, 1, hint), &v[1]))
			return false;
		if (!plus && r->scope->as_is &&
		    typed(r, &v[1], common_type(v, 2, hint))->ct == CT_I64) {
			v[1] = (ParsedValue){negative(r, typed(r, &v[1], CT_I64)), NULL, false};
			plus = true;
		}
		if (!make_inst(r, plus ? IN_add : IN_sub, v, 2, hint, plus ? "+" : "-", 1, &v[0]))
			return false;
	}
	*out = v[0];
	return true;
}

static bool read_let(ExprReader *r)
{
	size_t n;

	for (;;) {
		skip_space(r);
		if (!str_starts(r->at, "let ") || r->nlets == MAX_LETS)
			return true;
		r->at += 4;
		skip_space(r);
		n = name_length(r->at);
		if (!n)
			return fail(r, "expected a name after let", "", 0);
		r->let[r->nlets].name = r->at;
		r->let[r->nlets].n = n;
		r->at += n;
		if (!expect(r, '=') || !read_and(r, r->t, &r->let[r->nlets].v) || !expect(r, ';'))
			return false;
		r->nlets++;
	}
}

static bool read_and(ExprReader *r, CType hint, ParsedValue *out)
{
	ParsedValue v[2];

	if (++r->depth > MAX_DEPTH)
		return fail(r, "nested too deeply", "", 0);
	if (!read_sum(r, hint, &v[0]))
		return false;
	while (take(r, '&'))
		if (!read_sum(r, CT_BOOL, &v[1]) ||
		    !make_inst(r, IN_and, v, 2, CT_BOOL, "&", 1, &v[0]))
			return false;
	r->depth--;
	*out = v[0];
	return true;
}

Expr *ex_parse_at(ExprPool *p, const char **text, CType t, const ExprScope *s, const char **err)
{
	ExprReader *r;
	ParsedValue v;
	Expr *e = NULL;
	ARENA_LOCAL(tmp);

	r = NEW(tmp, ExprReader);
	r->p = p;
	r->at = *text;
	r->scope = s;
	r->t = t;
	if (read_let(r) && read_and(r, t, &v))
		e = typed(r, &v, t);
	*text = r->at;
	*err = r->err;
	return e;
}

Expr *ex_parse(ExprPool *p, const char *text, CType t, const ExprName *names, int n,
	       const char **err)
{
	ExprScope s = {.names = names, .nnames = n};
	Expr *e = ex_parse_at(p, &text, t, &s, err);

	while (*text == ' ' || *text == '\n' || *text == '\t')
		text++;
	if (e && *text) {
		*err = arena_printf(p->arena, "trailing text '%.12s'", text);
		return NULL;
	}
	return e;
}
