/* SPDX-License-Identifier: Apache-2.0 */
/* The context: an arena, the names and the tables of dims and types. */
#include "ir/ctx.h"

#include "ir/dim_impl.h"
#include "ir/type_impl.h"

Ctx *ctx_new(Diag *diag)
{
	Arena *a = arena_new();
	Ctx *c = NEW(a, Ctx);

	c->arena = a;
	c->names = interner_new(a);
	c->diag = diag;
	c->dims = dim_table_new(c);
	c->types = type_table_new(c);
	return c;
}

void ctx_free(Ctx *c)
{
	if (c)
		arena_free(c->arena);
}
