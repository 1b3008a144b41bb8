/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operators: pairs each row of ir/graph/ops.def with `op_NAME`. A row without one is a
 * link error. */
#include "ops/op.h"

#include <stdlib.h>
#include <string.h>

#define LOWER "abcdefghijklmnopqrstuvwxyz"

#define OP(name, nin_min, nin_max, nout_min, nout_max, flags) extern const Op op_##name;
#include "ir/graph/ops.def"
#undef OP

const Op *const op_table[OP_COUNT] = {
#define OP(name, nin_min, nin_max, nout_min, nout_max, flags) [OP_##name] = &op_##name,
#include "ir/graph/ops.def"
#undef OP
};

static bool take(const char **at, const char *text)
{
	if (!str_starts(*at, text))
		return false;
	*at += strlen(text);
	return true;
}

/* Reads a word of characters of SET into TO, of ROOM bytes. */
static bool take_word(const char **at, const char *set, char *to, size_t room)
{
	const size_t n = strspn(*at, set);

	if (!n || n >= room)
		return false;
	memcpy(to, *at, n);
	*at += n;
	return true;
}

static int take_version(const char **at)
{
	char *end;
	const long v = strtol(*at, &end, 10);

	*at = end;
	return (int)v;
}

bool op_attr_next(const char **list, OpAttr *a)
{
	const char *at = *list;

	*a = (OpAttr){.value = NULL};
	if (!at || !take_word(&at, LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", a->name, sizeof a->name) ||
	    !take(&at, ": ") || !take_word(&at, LOWER, a->kind, sizeof a->kind))
		return false;
	if (take(&at, " since "))
		a->since = take_version(&at);
	a->own = take(&at, " own");
	if (take(&at, " until "))
		a->until = take_version(&at);
	if (take(&at, " = "))
		a->value = at;
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
