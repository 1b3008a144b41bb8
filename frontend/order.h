/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which the nodes of a body are imported: as they stand where definitions come
 * first, as the format wants; else sorted, as little as needed. */
#ifndef FRONTEND_ORDER_H
#define FRONTEND_ORDER_H

#include "frontend/scope.h"

/* N indices into NODES, whose results are bound in S as BIND_NODE. A node depends on its
 * operands and on what its subgraphs use. *CYCLIC is a node on a cycle, or -1. */
const int *nodes_order(Ctx *c, Arena *a, const Scope *s, Onnx__NodeProto *const *nodes, int n,
		       int *cyclic);

#endif
