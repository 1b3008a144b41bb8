/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a model wherever they stand: in its graph, in bodies of control flow, in functions, once for each
 * call. */
#ifndef FRONTEND_LISTING_H
#define FRONTEND_LISTING_H

#include "frontend/model.h"

typedef struct ListedNode {
	const char *name, *op; /* the name as diagnostics have it */
	const char *domain;    /* of the operator; "": the ONNX standard */
	bool call;	       /* of a function, whose nodes follow */
	bool known;	       /* an operator that import takes; a call */
} ListedNode;

typedef struct Listing {
	VEC(ListedNode) nodes;
	bool cut; /* a model that calls too much: the first ones */
} Listing;

Listing onnx_nodes(Arena *a, const OnnxFile *f);

/* Whether P's operator is one that import takes. */
bool onnx_op_known(const Onnx__NodeProto *p);
/* Why N, which is not known, is refused. */
const char *onnx_op_missing(Arena *a, const ListedNode *n);

#endif
