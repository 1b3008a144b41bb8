/* SPDX-License-Identifier: Apache-2.0 */
/* The context holds what outlives a graph. Names, dims and types are hash-consed in it: equal
 * pointers mean equal things. A context belongs to one thread, and there is no global state. */
#ifndef IR_CTX_H
#define IR_CTX_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/str.h"

typedef struct Bindings Bindings;       /* ir/dim/bindings.h */
typedef struct Definitions Definitions; /* ir/graph/definition.h */

typedef struct Ctx {
	Arena *arena;
	Interner *names;
	Diag *diag;
	struct DimTable *dims;   /* ir/dim/dim.c */
	struct TypeTable *types; /* ir/graph/type.c */
	struct dl_strings *strings; /* those of DT_STR elements: runtime/strtable.h */
	const Bindings *bound;   /* while a definition is read for a node; else null */
	Definitions *definitions; /* operators that the user defines; null: none */
} Ctx;

/* A table of strings (runtime/strtable.h) whose memory is A's; never null. */
struct dl_strings *strings_in(Arena *a);
/* The caller keeps ownership of DIAG. */
Ctx *ctx_new(Diag *diag);
void ctx_free(Ctx *c);
static inline const char *ctx_name(Ctx *c, const char *s) { return intern(c->names, s); }

#endif
