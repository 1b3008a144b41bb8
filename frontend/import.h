/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX model to graph IR: a node for each ONNX node, in an order in which definitions come first,
 * with the ONNX names as locations (a node without one is called by its op and place, "Relu_3").
 *
 * - Initialisers and Constants become Const nodes when they are first used; their data stays mapped.
 *   An initialiser that is also an input is a constant, unless OVERRIDABLE names it: then it is an input, of the
 *   initialiser's shape, with its value as Value.preset.
 * - Model-local functions are inlined; what stood in them is named "call/inner".
 * - Nodes are in the form of opset 28 (frontend/upgrade.h).
 * - A subgraph becomes a region, closed: values that it takes from around it are further inputs of the
 *   region, and further operands of its node, in the order of the node's regions. The attribute
 *   `captures` has their number for each region.
 */
#ifndef FRONTEND_IMPORT_H
#define FRONTEND_IMPORT_H

#include "frontend/model.h"
#include "ir/graph.h"

/* IR and opset versions that are read. */
enum { IR_VERSION_MIN = 3, IR_VERSION_MAX = 14 };

enum { MAX_OVERRIDABLE = 64 };

/* Names of initialisers. */
typedef struct Overridable {
	const char *name[MAX_OVERRIDABLE];
	int n;
} Overridable;

/* The graph of F's model, in arena A. F must outlive it: constants point into its mapping. Every
 * fault found is a diagnostic of its own; then null. OVERRIDABLE may be null. */
Graph *onnx_import(Ctx *c, Arena *a, OnnxFile *f, const Overridable *overridable);

#endif
