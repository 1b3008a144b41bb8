/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a graph as an ONNX model. Every node becomes an ONNX node of its operator and name; a View
 * becomes a Reshape, sizes become shape arithmetic: Shape, Gather, Mul and so on, and brackets of
 * control flow become If and Loop.
 */
#ifndef FRONTEND_EXPORT_H
#define FRONTEND_EXPORT_H

#include "ir/graph/graph.h"

/* The oldest opset for writing models: other engines support it, and most operators that `infer`
 * leaves have had their form since then. A model of a newer opset is written in that opset. */
enum { EXPORT_OPSET = 21, EXPORT_IR_VERSION = 10 };

/* Writes G, whose values have types, to PATH; VERSION is the compiler's. False after a
 * diagnostic, which names a node that ONNX has no operator for: one of the parts of
 * NonMaxSuppression, for example. */
bool onnx_write(Graph *g, const char *path, const char *version);

#endif
