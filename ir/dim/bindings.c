/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/dim/bindings.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_name(const char *name, const char *s, size_t n)
{
	return strlen(name) == n && !memcmp(name, s, n);
}

DType bound_dtype(const Ctx *c, const char *s, size_t n)
{
	const Bindings *b = c->bound;
	char name[16];

	for (int i = 0; b && i < b->types.n; i++)
		if (is_name(b->types.at[i].name, s, n))
			return b->types.at[i].dtype;
	if (n >= sizeof name)
		return DT_NONE;
	memcpy(name, s, n);
	name[n] = 0;
	return dtype_by_name(name);
}

const char *bound_file(const Ctx *c)
{
	return c->bound ? c->bound->file : NULL;
}

static const BoundAttr *find_attr(const Bindings *b, const char *s, size_t n)
{
	for (int i = 0; i < b->attrs.n; i++)
		if (is_name(b->attrs.at[i].name, s, n))
			return &b->attrs.at[i];
	return NULL;
}

/* Reads "[2]", the number of an element of attribute A. */
static Dim *element(Ctx *c, const BoundAttr *a, const char **p)
{
	const Bindings *b = c->bound;
	char *end;
	int64_t k;

	if (!isdigit((unsigned char)(*p)[1]))
		return NULL;
	k = strtoll(*p + 1, &end, 10);
	if (*end != ']' || k < 0 || k > INT16_MAX)
		return NULL;
	if (b->generic) {
		Sym *s = sym_get(c, arena_printf(b->arena, "%s[%d]", a->name, (int)k));

		*p = end + 1;
		return s->dim;
	}
	if (k >= a->n)
		return NULL;
	*p = end + 1;
	return dim_const(c, a->ints[k]);
}

Dim *bound_size(Ctx *c, const char *s, size_t n, const char **p)
{
	const Bindings *b = c->bound;
	const BoundAttr *a;

	for (int i = 0; i < b->sizes.n; i++)
		if (is_name(b->sizes.at[i].name, s, n))
			return b->sizes.at[i].dim;
	a = find_attr(b, s, n);
	return a && a->list && **p == '[' ? element(c, a, p) : NULL;
}

const BoundRun *bound_run(const Ctx *c, const char **p)
{
	const Bindings *b = c->bound;
	const char *s = *p;
	size_t n = 0;

	if (!b)
		return NULL;
	while (*s == ' ')
		s++;
	while (isalnum((unsigned char)s[n]) || s[n] == '_')
		n++;
	if (strncmp(s + n, "...", 3))
		return NULL;
	for (int i = 0; i < b->runs.n; i++)
		if (is_name(b->runs.at[i].name, s, n)) {
			*p = s + n + 3;
			return &b->runs.at[i];
		}
	return NULL;
}

const char *bound_number(const Ctx *c, const char *s, size_t n, bool *integer)
{
	const BoundAttr *a = c->bound ? find_attr(c->bound, s, n) : NULL;

	if (!a || !a->number)
		return NULL;
	*integer = a->integer;
	return a->number;
}

const BoundAttr *bound_attr(const Ctx *c, const char *name)
{
	for (int i = 0; c->bound && i < c->bound->attrs.n; i++)
		if (!strcmp(c->bound->attrs.at[i].name, name))
			return &c->bound->attrs.at[i];
	return NULL;
}
