/* SPDX-License-Identifier: Apache-2.0 */
/* The table of interned types, for ir/ctx.c alone. */
#ifndef IR_GRAPH_TYPE_IMPL_H
#define IR_GRAPH_TYPE_IMPL_H

#include "ir/graph/type.h"

/* ---- type.c ---- */

/* For ir/ctx.c alone. */
struct TypeTable *type_table_new(Ctx *c);

#endif
