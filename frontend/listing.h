/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a model wherever they stand: in its graph, in bodies of control flow, in functions, once for each
 * call. */
#ifndef FRONTEND_LISTING_H
#define FRONTEND_LISTING_H

#include "frontend/model.h"

typedef struct ListedNode {
	const char *name, *op; /* the name as diagnostics have it */
	bool call;	       /* of a function, whose nodes follow */
	bool known;	       /* an operator that import takes; a call */
} ListedNode;

typedef struct Listing {
	VEC(ListedNode) nodes;
	bool cut; /* a model that calls too much: the first ones */
} Listing;

Listing onnx_nodes(Arena *a, const OnnxFile *f);

/* The name of node P, at INDEX of its body. PREFIX stands before all names of a call, AROUND moreover before those
 * that unnamed nodes of a body get. */
const char *onnx_node_name(Arena *a, const char *prefix, const char *around,
			   const Onnx__NodeProto *p, int index);
/* Whether P's operator is one that import takes. */
bool onnx_op_known(const Onnx__NodeProto *p);

#endif
