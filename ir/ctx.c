/* SPDX-License-Identifier: Apache-2.0 */
/* The context: an arena, the names and the tables of dims and types. */
#include "ir/ctx.h"

#include "ir/dim/dim_impl.h"
#include "ir/graph/type_impl.h"
#include "runtime/strtable.h"

static void *alloc_in_arena(void *user, uint64_t bytes, uint64_t align)
{
	(void)align;
	return arena_alloc(user, bytes);
}

static void free_in_arena(void *user, void *p, uint64_t bytes)
{
	(void)user;
	(void)p;
	(void)bytes;
}

struct dl_strings *strings_in(Arena *a)
{
	return strings_new(&(StringsMemory){a, alloc_in_arena, free_in_arena}, NULL, 0);
}

Ctx *ctx_new(Diag *diag)
{
	Arena *a = arena_new();
	Ctx *c = NEW(a, Ctx);

	c->arena = a;
	c->names = interner_new(a);
	c->diag = diag;
	c->dims = dim_table_new(c);
	c->types = type_table_new(c);
	c->strings = strings_in(a);
	return c;
}

void ctx_free(Ctx *c)
{
	if (c)
		arena_free(c->arena);
}
