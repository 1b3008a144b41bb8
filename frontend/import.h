/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports an ONNX model as graph IR: one node for each ONNX node, in an order in which definitions
 * come first, with the ONNX names as locations. A node without a name is named after its operator
 * and index, "Relu_3".
 *
 * - Initialisers and Constants become Const nodes when they are first used; their data remains
 * mapped. An initialiser that is also an input is a constant, unless OVERRIDABLE names it. Then it
 * is an input with the initialiser's shape, and Value.preset has its value.
 *
 * - Model-local functions are inlined; their nodes are named "call/inner".
 *
 * - Nodes are converted to the form of opset 28 (frontend/upgrade.h).
 *
 * - A subgraph becomes a closed region. Values that it uses from the surrounding graph become
 * additional inputs of the region and additional operands of its node, in the order of the node's
 * regions. The attribute `captures` has their number for each region.
 */
#ifndef FRONTEND_IMPORT_H
#define FRONTEND_IMPORT_H

#include "frontend/model.h"
#include "ir/graph/graph.h"

/* The versions of the IR and of opsets that can be read. */
enum { IR_VERSION_MIN = 3, IR_VERSION_MAX = 14 };

enum { MAX_OVERRIDABLE = 64 };

/* The initialisers that OVERRIDABLE names. */
typedef struct Overridable {
	const char *name[MAX_OVERRIDABLE];
	int n;
} Overridable;

/* Imports F's model as a graph in arena A. F must outlive the graph, whose constants point into
 * its mapping. Reports all faults, and returns null if there is any. OVERRIDABLE may be null. */
Graph *onnx_import(Ctx *c, Arena *a, OnnxFile *f, const Overridable *overridable);

#endif
