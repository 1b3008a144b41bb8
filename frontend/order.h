/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which the nodes of a body are imported: as in the file if definitions come before
 * uses, as ONNX requires; otherwise sorted with as few changes as possible. */
#ifndef FRONTEND_ORDER_H
#define FRONTEND_ORDER_H

#include "frontend/scope.h"

/* N indices into NODES, whose results are bound in S as BIND_NODE. A node depends on its
 * operands and on the names that its subgraphs use. *CYCLIC is a node on a cycle, or -1. */
const int *nodes_order(Ctx *c, Arena *a, const Scope *s, Onnx__NodeProto *const *nodes, int n,
		       int *cyclic);

#endif
