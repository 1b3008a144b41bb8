/* SPDX-License-Identifier: Apache-2.0 */
/* Prints docs/ops.md from ir/ops.def and the operators' structs. */
#include "ops/infer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
	return strcmp(op_row[*(const int *)a].name, op_row[*(const int *)b].name);
}

static const char *kind(const Op *op)
{
	return op->scalar ? "elementwise" : op->expand ? "composite" : "structured";
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

int main(void)
{
	int order[OP_COUNT], n = 0;

	for (int i = 1; i < OP_COUNT; i++)
		if (!(op_row[i].flags & OPF_INTERNAL))
			order[n++] = i;
	qsort(order, (size_t)n, sizeof *order, by_name);
	printf("# Operators\n\n"
	       "Written by `make docs` from `ir/ops.def` and the structs in `ops/`; %d operators of ONNX, to opset 28.\n"
	       "Older opsets are upgraded when a model is read. An elementwise operator's meaning is the expression, over\n"
	       "its operands x, y, z and its attributes; a structured one writes statements; a composite one is made of\n"
	       "other operators.\n\n"
	       "Of no operator are strings, sequences or optionals supported, nor tensors of unknown rank or of a rank above %d.\n"
	       "An operand whose elements shape the result (a shape, axes, starts, sizes, repeats) may be known at run time only, but\n"
	       "the number of its elements must be known when the model is compiled, and be at most %d.\n"
	       "A size that would be too large an expression of the inputs' sizes is refused (\"a size grows too complex to be followed\"):\n"
	       "a reduction with keepdims = 0 over three axes that are known at run time only has such sizes.\n\n"
	       "| operator | kind | operands | results | meaning, and what is not supported |\n|---|---|---|---|---|\n",
	       n, MAX_RANK, MAX_CONTENTS);
	for (int i = 0; i < n; i++) {
		const Op *op = op_table[order[i]];
		const char *name, *domain = op_domain((OpKind)order[i], &name);
		char in[32], out[32];

		range(in, sizeof in, op_row[order[i]].nin_min, op_row[order[i]].nin_max);
		range(out, sizeof out, op_row[order[i]].nout_min, op_row[order[i]].nout_max);
		printf("| %s%s%s | %s | %s | %s | ", domain, *domain ? "." : "", name, kind(op), in,
		       out);
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
