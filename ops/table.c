/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operators: pairs each row of ir/ops.def with `op_NAME`. A row without one is a
 * link error. */
#include "ops/op.h"

#include <stdio.h>
#include <string.h>

#define OP(name, nin_min, nin_max, nout_min, nout_max, flags) extern const Op op_##name;
#include "ir/ops.def"
#undef OP

const Op *const op_table[OP_COUNT] = {
#define OP(name, nin_min, nin_max, nout_min, nout_max, flags) [OP_##name] = &op_##name,
#include "ir/ops.def"
#undef OP
};

bool op_attr_next(const char **list, OpAttr *a)
{
	const char *at = *list;
	int length = 0;

	*a = (OpAttr){.value = NULL};
	if (!at || sscanf(at, "%47[a-zA-Z0-9_]: %7[a-z]%n", a->name, a->kind, &length) != 2)
		return false;
	at += length;
	length = 0;
	if (sscanf(at, " since %d%n", &a->since, &length) == 1)
		at += length;
	a->own = str_starts(at, " own");
	at += a->own ? strlen(" own") : 0;
	length = 0;
	if (sscanf(at, " until %d%n", &a->until, &length) == 1)
		at += length;
	if (str_starts(at, " = "))
		a->value = at + 3;
	else if (*at && *at != ',')
		return false;
	at += strcspn(at, ",");
	*list = at + strspn(at, ", ");
	return true;
}

/* Operators of the IR itself have no definition here: a constant is its tensor, a kernel its
 * statements. */
const Op op_Const = {0};
const Op op_Kernel = {0};

bool op_attr_find(OpKind op, const char *name, OpAttr *a)
{
	const char *list = op_table[op]->attrs;

	while (op_attr_next(&list, a))
		if (!strcmp(a->name, name))
			return true;
	return false;
}

void op_attrs_print(StrBuf *b, OpKind op)
{
	const char *list = op_table[op]->attrs;
	const size_t start = b->n;
	OpAttr a;

	while (op_attr_next(&list, &a))
		if (!a.own)
			strbuf_printf(b, "%s%s", b->n > start ? ", " : "", a.name);
	if (b->n == start)
		strbuf_puts(b, "none");
}
