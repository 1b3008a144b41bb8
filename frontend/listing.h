/* SPDX-License-Identifier: Apache-2.0 */
/* Lists all nodes of a model: those of its graph, of bodies of control flow, and of functions,
 * the latter once for each call. */
#ifndef FRONTEND_LISTING_H
#define FRONTEND_LISTING_H

#include "frontend/model.h"
#include "ir/graph/definition.h"

typedef struct ListedNode {
	const char *name, *op; /* as diagnostics print them; OP: see onnx_op_shown */
	const char *domain;    /* of the operator; "": the ONNX standard */
	const char *body;      /* `then_branch of "if"`; null: it is in no body of control flow */
	bool call;	       /* a call of a function, whose nodes follow */
	bool known;	       /* import supports the operator, or it is a call */
} ListedNode;

typedef struct Listing {
	VEC(ListedNode) nodes;
	bool cut; /* the list is incomplete, since the model has too many calls */
} Listing;

/* C has the operators that the user defines. */
Listing onnx_nodes(Ctx *c, Arena *a, const OnnxFile *f);

/* P's operator; OP_NONE if there is none, as for Constant, which is not a node of a graph. */
OpKind onnx_op(const Onnx__NodeProto *p);
/* P's operator as diagnostics name it: "Gelu", or with its domain "com.microsoft.Gelu". */
const char *onnx_op_shown(Arena *a, const Onnx__NodeProto *p);
/* Whether import supports P's operator. */
bool onnx_op_known(const Onnx__NodeProto *p);
/* The definition that the user gives of P's operator; null if there is none. */
const Definition *onnx_definition(Ctx *c, const Onnx__NodeProto *p);
/* Why N, which is not known, is refused: "not supported; ...". */
const char *onnx_op_missing(const Ctx *c, Arena *a, const ListedNode *n);

#endif
