/* SPDX-License-Identifier: Apache-2.0 */
/* The table of interned types, only for ir/ctx.c. */
#ifndef IR_GRAPH_TYPE_IMPL_H
#define IR_GRAPH_TYPE_IMPL_H

#include "ir/graph/type.h"

/* ---- type.c ---- */

/* Only for ir/ctx.c. */
struct TypeTable *type_table_new(Ctx *c);

#endif
