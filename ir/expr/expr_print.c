/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints expressions so that ir/expr/expr_parse.c reads back the same pointer. A literal is printed
 * with its type if no other operand of its instruction determines the type, and subexpressions that
 * are used twice get a name.
 */
#include "ir/expr/expr_impl.h"

#include "ir/kernel/kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A note for each node of the expression, by id. */
typedef struct Note {
	int uses, weight, name; /* NAME: number of its `let`, from 1 */
	bool seen; /* by print_lets */
} Note;

typedef struct ExprPrinter {
	StrBuf *b;
	Note *note;
	int nlets;
} ExprPrinter;

enum { LET_WEIGHT = 6 }; /* smaller expressions are repeated rather than named */

static void print_node(ExprPrinter *pr, const Expr *e, bool named);

static void count_uses(ExprPrinter *pr, const Expr *e)
{
	Note *n = &pr->note[e->id];

	n->weight = 1;
	if (e->kind != EX_INST && e->kind != EX_LOAD)
		return;
	for (int i = 0; i < (e->kind == EX_LOAD ? e->load.nidx : e->op.n); i++) {
		Note *a = &pr->note[(e->kind == EX_LOAD ? e->load.idx[i] : e->op.arg[i])->id];

		a->uses++;
		n->weight += a->weight;
		if (n->weight > 2 * LET_WEIGHT)
			n->weight = 2 * LET_WEIGHT;
	}
}

static void print_const(StrBuf *b, const Expr *e)
{
	char text[40];

	if (e->ct == CT_BOOL) {
		strbuf_puts(b, e->i ? "true" : "false");
	} else if (e->ct == CT_U64) {
		strbuf_printf(b, "%llu", (unsigned long long)e->i);
	} else if (!ctype_is_float(e->ct)) {
		strbuf_printf(b, "%lld", (long long)e->i);
	} else if (isnan(e->f)) {
		strbuf_puts(b, "nan");
	} else if (isinf(e->f)) {
		strbuf_puts(b, e->f < 0 ? "-inf" : "inf");
	} else if (fabs(e->f) < 1e6 && e->f == floor(e->f)) {
		strbuf_printf(b, signbit(e->f) ? "-%.0f" : "%.0f", fabs(e->f));
	} else {
		for (int digits = 1; digits <= 17; digits++) {
			snprintf(text, sizeof text, "%.*g", digits, e->f);
			if (e->ct == CT_F32 ? (double)strtof(text, NULL) == e->f
					    : strtod(text, NULL) == e->f)
				break;
		}
		strbuf_puts(b, text);
	}
}

static bool is_negative(const Expr *e)
{
	return e->kind == EX_CONST && e->i < 0 && e->i != INT64_MIN;
}

/* Prints i64 sums and products as infix, with parentheses around a sum in a product, and around
 * what would else be read from the left: the product in a*(b*c). */
static void print_paren(ExprPrinter *pr, const Expr *e, bool sum, bool product)
{
	const bool paren = ((sum && ex_is_op(e, IN_add)) || (product && ex_is_op(e, IN_mul))) &&
			   !pr->note[e->id].name;

	if (paren)
		strbuf_puts(pr->b, "(");
	print_node(pr, e, true);
	if (paren)
		strbuf_puts(pr->b, ")");
}

static void print_term(ExprPrinter *pr, const Expr *e, bool in_product)
{
	print_paren(pr, e, in_product, false);
}

static void print_sum(ExprPrinter *pr, const Expr *e)
{
	const Expr *a = e->op.arg[0], *b = e->op.arg[1];

	print_term(pr, a, false);
	if (is_negative(b)) {
		strbuf_printf(pr->b, " - %lld", (long long)-b->i);
	} else if (ex_is_op(b, IN_mul) && is_negative(b->op.arg[1]) && !pr->note[b->id].name) {
		strbuf_puts(pr->b, " - ");
		print_term(pr, b->op.arg[0], true);
		if (b->op.arg[1]->i != -1)
			strbuf_printf(pr->b, "*%lld", (long long)-b->op.arg[1]->i);
	} else {
		strbuf_puts(pr->b, " + ");
		print_term(pr, b, true);
	}
}

static void print_product(ExprPrinter *pr, const Expr *e)
{
	if (e->op.arg[1]->kind == EX_CONST && e->op.arg[1]->i == -1) {
		strbuf_puts(pr->b, "-");
		print_paren(pr, e->op.arg[0], true, true);
		return;
	}
	print_term(pr, e->op.arg[0], true);
	strbuf_puts(pr->b, "*");
	print_paren(pr, e->op.arg[1], true, true);
}

/* Whether E is and(ge(a, 0), lt(a, n)), which prints as inside(a, n). */
static bool is_inside(const Expr *e)
{
	const Expr *a = e->op.arg[0], *b = e->op.arg[1];

	return ex_is_op(a, IN_ge) && ex_is_op(b, IN_lt) && a->op.arg[0] == b->op.arg[0] &&
	       a->op.arg[0]->ct == CT_I64 && a->op.arg[1]->kind == EX_CONST && a->op.arg[1]->i == 0;
}

/* Prints an operand; a constant with its type if no other operand has one. */
static void print_operand(ExprPrinter *pr, const Expr *e, bool typeless)
{
	if (typeless && e->kind == EX_CONST && e->ct != CT_BOOL) {
		strbuf_printf(pr->b, "%s(", ctype_name[e->ct]);
		print_const(pr->b, e);
		strbuf_puts(pr->b, ")");
	} else {
		print_node(pr, e, true);
	}
}

static void print_call(ExprPrinter *pr, const Expr *e)
{
	int first = e->op.inst == IN_select;
	bool typeless = !inst_is_routine(e->op.inst); /* whose operands have the types of its row */

	if (e->op.inst == IN_cvt)
		strbuf_puts(pr->b, ctype_name[e->ct]);
	else if (e->op.inst == IN_bits)
		strbuf_printf(pr->b, "bits.%s", ctype_name[e->ct]);
	else if (e->op.dtype != DT_NONE)
		strbuf_printf(pr->b, "%s.%s", inst_info[e->op.inst].name,
			      dtype_info[e->op.dtype].name);
	else
		strbuf_puts(pr->b, inst_info[e->op.inst].name);
	for (int i = first; i < e->op.n; i++)
		if (e->op.arg[i]->kind != EX_CONST)
			typeless = false;
	strbuf_puts(pr->b, "(");
	for (int i = 0; i < e->op.n; i++) {
		if (i)
			strbuf_puts(pr->b, ", ");
		print_operand(pr, e->op.arg[i], typeless && i == first);
	}
	strbuf_puts(pr->b, ")");
}

static void print_inst(ExprPrinter *pr, const Expr *e)
{
	if (e->ct == CT_I64 && e->op.inst == IN_add) {
		print_sum(pr, e);
	} else if (e->ct == CT_I64 && e->op.inst == IN_mul) {
		print_product(pr, e);
	} else if (e->ct == CT_BOOL && e->op.inst == IN_and && is_inside(e)) {
		strbuf_puts(pr->b, "inside(");
		print_node(pr, e->op.arg[0]->op.arg[0], true);
		strbuf_puts(pr->b, ", ");
		print_node(pr, e->op.arg[1]->op.arg[1], true);
		strbuf_puts(pr->b, ")");
	} else {
		print_call(pr, e);
	}
}

static void print_node(ExprPrinter *pr, const Expr *e, bool named)
{
	if (named && pr->note[e->id].name) {
		strbuf_printf(pr->b, "_%d", pr->note[e->id].name);
		return;
	}
	switch (e->kind) {
	case EX_CONST: print_const(pr->b, e); break;
	case EX_ITER: strbuf_puts(pr->b, e->iter->name); break;
	case EX_DIM:
		strbuf_puts(pr->b, "dim(");
		dim_print(pr->b, e->dim);
		strbuf_puts(pr->b, ")");
		break;
	case EX_PARAM:
		if (e->param < 2)
			strbuf_puts(pr->b, e->param ? "y" : "x");
		else
			strbuf_printf(pr->b, "p%d", e->param);
		break;
	case EX_LOAD:
		strbuf_printf(pr->b, "%s[", e->load.buf->name);
		for (int i = 0; i < e->load.nidx; i++) {
			if (i)
				strbuf_puts(pr->b, ",");
			print_node(pr, e->load.idx[i], true);
		}
		strbuf_puts(pr->b, "]");
		break;
	case EX_INST: print_inst(pr, e); break;
	}
}

static void print_let(ExprPrinter *pr, const Expr *e)
{
	Note *n = &pr->note[e->id];

	if (n->uses < 2 || n->weight < LET_WEIGHT)
		return;
	strbuf_printf(pr->b, "let _%d = ", pr->nlets + 1);
	print_node(pr, e, false);
	strbuf_puts(pr->b, "; ");
	n->name = ++pr->nlets;
}

/* An expression whose operands from NEXT on have not been visited. */
typedef struct Visit {
	const Expr *e;
	int next;
} Visit;

/* Prints the lets of E's operands before those that use them, in the order in which E mentions
 * them: the order of ids would be another one when the text is read again. */
static void print_lets(ExprPrinter *pr, const Expr *e, Arena *tmp)
{
	Visit *at = NEW_ARRAY(tmp, e->id + 1, Visit);
	int n = 0;

	at[n++] = (Visit){e, 0};
	while (n) {
		Visit *v = &at[n - 1];
		Expr *const *arg;

		if (v->next == ex_operands(v->e, &arg)) {
			print_let(pr, v->e);
			n--;
			continue;
		}
		e = arg[v->next++];
		if (!pr->note[e->id].seen)
			at[n++] = (Visit){e, 0};
		pr->note[e->id].seen = true;
	}
}

void ex_print(StrBuf *b, const Expr *e)
{
	ARENA_LOCAL(tmp);
	ExprPrinter pr = {b, NEW_ARRAY(tmp, e->id + 1, Note), 0};

	/* The cast drops const, but the walk changes nothing. */
	EX_EACH (x, (Expr *)(uintptr_t)e)
		count_uses(&pr, x);
	print_lets(&pr, e, tmp);
	print_node(&pr, e, true);
}
