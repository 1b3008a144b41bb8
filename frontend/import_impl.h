/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the import: import.c (bodies), import_node.c (nodes), import_call.c
 * (functions). */
#ifndef FRONTEND_IMPORT_IMPL_H
#define FRONTEND_IMPORT_IMPL_H

#include "frontend/attrs.h"
#include "frontend/import.h"
#include "frontend/scope.h"
#include "frontend/valuetype.h"

enum { CALL_DEPTH = 64 }; /* maximum nesting of functions and of subgraphs */

/* In place of a rank: the rank is unknown, which is an error; and: the input remains without a
 * type. */
enum { RANK_UNKNOWN = -1, RANK_LEFT = -2 };

/* A body that is being imported: the model's graph, a call of a function, or a subgraph in one
 * of these. */
typedef struct Frame {
	const struct Frame *caller;
	const Onnx__FunctionProto *fn; /* null: the model's graph */
	AttrArgs args;
	const char *prefix; /* prefix of the names in the body: "call/" */
	Onnx__OperatorSetIdProto *const *sets; /* the versions of the domains that it imports */
	size_t nsets;
	int opset; /* version of the standard domain; 0: it is not imported */
	int depth;
} Frame;

typedef struct Import {
	Ctx *ctx;
	Arena *arena;	/* the graph's */
	Arena *scratch; /* for data that only the import needs */
	OnnxFile *file;
	Diag *diag;
	const Onnx__ModelProto *model;
	Scope *functions; /* by "domain:name:overload"; Binding.node is the index */
	DimNames dims;
	DiagLoc unknown; /* the first node of an unsupported operator */
	size_t inlined; /* bytes, approximately */
	int newest; /* the newest opset of the model's graph and functions */
	bool opset_reported;
	const char *duplicate; /* the first constant with the name of another one */
	int duplicates;        /* number of such constants */
	const Overridable *overridable;
	const int *ranks; /* of the model's inputs whose types give none, or RANK_ */
	bool found[MAX_OVERRIDABLE]; /* which of the OVERRIDABLE names were found as inputs */
	VEC(const char *) constants; /* inputs that have an initialiser and are taken as constants */
} Import;

typedef struct Nodes {
	Onnx__NodeProto *const *at;
	size_t n;
} Nodes;

static inline const char *text(const char *s)
{
	return s ? s : "";
}

static inline const char *domain_of(const char *s)
{
	return s && strcmp(s, "ai.onnx") != 0 ? s : "";
}

static inline DiagLoc import_loc(const Import *im)
{
	return (DiagLoc){.file = im->file->path};
}

/* ---- import.c ---- */

/* Looks up NAME in S. *OUT is its value; null for an omitted operand. False, with a diagnostic at
 * the first use, if it is not defined. */
bool import_lookup(Import *im, Scope *s, const char *name, DiagLoc loc, Value **out);
/* Binds the result NAME of node INDEX of S's body to V, unless another node defines that name
 * too. V null: the result does not exist. SHOWN: the node's name in messages. */
void import_bind(Scope *s, const char *name, int index, Value *v, const char *shown);
/* The name of node P in messages. */
const char *import_node_name(Import *im, const Frame *fr, const Onnx__NodeProto *p);
bool import_nodes(Import *im, const Frame *fr, Scope *s, Nodes nodes);
/* Imports G as a region of N. */
bool import_region(Import *im, const Frame *fr, Scope *s, Node *n, const char *name,
		   const Onnx__GraphProto *g, DiagLoc loc);

/* onnx_import with RANKS for the inputs whose types do not say them. */
Graph *import_ranked(Ctx *c, Arena *a, OnnxFile *f, const Overridable *overridable, const int *ranks);

/* ---- ranks.c ---- */

/* The ranks of F's inputs, for import_ranked, in arena A. */
const int *import_ranks(Arena *a, OnnxFile *f, const Overridable *o);

/* ---- import_node.c ---- */

void import_add_loc(Import *im, Node *n, DiagLoc loc);
/* The operator of node P, or the function that it calls, in messages. */
const char *import_op_shown(Import *im, const Onnx__NodeProto *p);
/* Imports node P, number INDEX of its body. After a fault its results are marked broken, and
 * import continues. */
void import_node(Import *im, const Frame *fr, Scope *s, const Onnx__NodeProto *p, int index);
/* Reports one error for each unsupported operator, wherever in the model it is. */
void import_missing(Import *im);

/* ---- import_call.c ---- */

void import_functions(Import *im);
/* The model-local function that node P calls, or null. */
const Onnx__FunctionProto *import_function(Import *im, const Onnx__NodeProto *p);
/* Sets the versions of the domains that FR imports. */
void import_opsets(Import *im, Frame *fr, Onnx__OperatorSetIdProto *const *sets, size_t n);
/* The version of DOMAIN's operators in FR, where DOMAIN is not the standard one; 0: it is not
 * imported. */
int64_t import_version(const Frame *fr, const char *domain);
/* Inlines a call. IN: the operands, null if omitted. KNOWN false: a fault was reported for an
 * operand. */
bool import_call(Import *im, const Frame *fr, Scope *s, const Onnx__NodeProto *p, int index,
		 const Onnx__FunctionProto *fn, DiagLoc loc, Value *const *in, const bool *known);

#endif
