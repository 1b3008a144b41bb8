/* SPDX-License-Identifier: Apache-2.0 */
/* Prints docs/ops.md from ir/graph/ops.def and the operators' structs. */
#include "frontend/upgrade.h"
#include "ops/infer/infer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
	return strcmp(op_row[*(const int *)a].name, op_row[*(const int *)b].name);
}

/* Whether it works on nothing but strings. */
static bool on_strings(const Op *op)
{
	return op->types && strcmp(op->types, "s") == 0;
}

/* How an operator becomes code; null: it is refused. */
static const char *kind(const Op *op, const OpRow *row)
{
	return op->regions                                   ? "regions"
	       : row->flags & OPF_VIEW                       ? "view"
	       : on_strings(op) && (op->scalar || op->lower) ? "routine"
	       : op->scalar                                  ? "expression"
	       : op->lower                                   ? "statements"
	       : op->expand                                  ? "composite"
	       : op->infer                                   ? "parts"
							     : NULL;
}

/* The element types of operand 0. */
static void put_types(const Op *op)
{
	static const char *const name[] = {"float", "int", "uint", "bool", "string"};
	const char *types = op->types ? op->types : op->scalar ? "fiu" : "", *sep = "";

	for (int i = 0; i < 5; i++)
		if (strchr(types, "fiubs"[i])) {
			printf("%s%s", sep, name[i]);
			sep = ", ";
		}
}

/* The opsets in which the operator is read, and where its older forms end. */
static void put_opsets(const char *domain, const char *name)
{
	const char *old;
	int until;

	if (*domain) {
		fputs("all", stdout);
		return;
	}
	printf("to %d", OPSET_MAX);
	for (int i = 0; (old = upgrade_form(name, i, &until)); i++) {
		printf("%s ", i ? "," : "; older:");
		if (strcmp(old, name) != 0)
			printf("%s%s", old, until ? " " : "");
		if (until)
			printf("before %d", until);
	}
}

static void range(char *s, size_t n, int least, int most)
{
	if (most < 0)
		snprintf(s, n, "%d or more", least);
	else if (least == most)
		snprintf(s, n, "%d", least);
	else
		snprintf(s, n, "%d to %d", least, most);
}

/* Prints S as a cell of a table, in which a bar must be escaped. */
static void cell(const char *s)
{
	for (; s && *s; s++)
		printf(*s == '|' ? "\\|" : "%c", *s);
}

static void put_gpu(const Op *op, bool has_code)
{
	if (op->host)
		printf("host%s%s", *op->host ? " " : "", op->host);
	else
		printf("%s", has_code ? "yes" : "no");
}

int main(void)
{
	int order[OP_COUNT], n = 0;

	for (int i = 1; i < OP_COUNT; i++)
		if (!(op_row[i].flags & OPF_INTERNAL))
			order[n++] = i;
	qsort(order, (size_t)n, sizeof *order, by_name);
	printf("# Operators\n\n"
	       "Written by `make docs` from `ir/graph/ops.def`, the structs in `ops/` and the table of older forms in `frontend/upgrade.c`;\n"
	       "%d operators. `dlcc --check model.onnx` says the same of a model's nodes, with the reason where one is refused.\n\n"
	       "**opsets.** Of the ONNX standard, 1 to %d. A node of an older form is converted when a model is read: \"before 13\" is\n"
	       "the form that ended with opset 13. A name is one that the operator had. Of other domains a version only tells which attributes exist.\n\n"
	       "**types.** The element types of the first operand: float is f64, f32, f16, bf16 and those of 8 and 4 bits; int and uint\n"
	       "those with and without a sign; others are refused by name. Where there are none, there is no first operand, or it is a\n"
	       "condition, a number of iterations or a map.\n\n"
	       "**compiled as.** An *expression* is computed for each element; it stands in the last column, over the operands x, y, z and\n"
	       "the attributes. *Statements* are loops over elements, reductions among them (`docs/ir.md`); a *view* has none, if\n"
	       "the operand lies in memory as it was written; a *composite* is replaced by other operators; *regions* are the bodies of control flow, between\n"
	       "which the host decides; *parts* are the tensors that a sequence or an optional consists of, which its readers use. Expressions\n"
	       "and statements are fused, and become code for **CPU and GPU** alike. A *routine* is a function on strings, which the code\n"
	       "calls (`ir/expr/routines.def`).\n\n"
	       "**GPU: host** stands where a kernel calls a routine of the runtime, which runs on the host (`docs/c-api.md`, \"What runs on the\n"
	       "host\"): those on the text of strings. Moving and comparing strings is code of the GPU. `-Wfallback` names these nodes.\n\n"
	       "Tensors of unknown rank or of a rank above %d are not supported, nor sequences whose tensors differ in rank, unless it\n"
	       "is known when compiling which tensor is used.\n"
	       "An operand whose elements shape the result (a shape, axes, starts, sizes, repeats) may be known at run time only, but\n"
	       "the number of its elements must be known when the model is compiled, and be at most %d.\n"
	       "A size that would be too large an expression of the inputs' sizes is refused (\"a size grows too complex to be followed\"):\n"
	       "a reduction with keepdims = 0 over three axes that are known at run time only has such sizes.\n"
	       "An operator that is not here can be defined: `docs/operators.md`.\n\n"
	       "| operator | opsets | types | CPU | GPU | compiled as | operands | results | expression, and what is not supported |\n"
	       "|---|---|---|---|---|---|---|---|---|\n",
	       n, OPSET_MAX, MAX_RANK, MAX_CONTENTS);
	for (int i = 0; i < n; i++) {
		const Op *op = op_table[order[i]];
		const char *name, *domain = op_domain((OpKind)order[i], &name);
		const char *how = kind(op, &op_row[order[i]]);
		char in[32], out[32];

		range(in, sizeof in, op_row[order[i]].nin_min, op_row[order[i]].nin_max);
		range(out, sizeof out, op_row[order[i]].nout_min, op_row[order[i]].nout_max);
		printf("| %s%s%s | ", domain, *domain ? "." : "", name);
		put_opsets(domain, name);
		fputs(" | ", stdout);
		put_types(op);
		printf(" | %s | ", how ? "yes" : "no");
		put_gpu(op, how != NULL);
		printf(" | %s | %s | %s | ", how ? how : "refused", in, out);
		if (op->scalar) {
			printf("`");
			cell(op->scalar);
			printf("`%s", op->doc ? "; " : "");
		}
		cell(op->doc);
		puts(" |");
	}
	return 0;
}
