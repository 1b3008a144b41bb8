/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the import share: frontend/import.c bodies, import_node.c nodes, import_call.c functions. */
#ifndef FRONTEND_IMPORT_IMPL_H
#define FRONTEND_IMPORT_IMPL_H

#include "frontend/attrs.h"
#include "frontend/import.h"
#include "frontend/scope.h"
#include "frontend/valuetype.h"

enum { CALL_DEPTH = 64 }; /* functions in functions, subgraphs in subgraphs */

/* One body that is being imported: the model's graph, or a call of a function, or a subgraph in
 * one. */
typedef struct Frame {
	const struct Frame *caller;
	const Onnx__FunctionProto *fn; /* null: the model's graph */
	AttrArgs args;
	const char *prefix; /* before the names of what is in it: "call/" */
	int opset;	    /* of the standard domain; 0: none is imported */
	int depth;
} Frame;

typedef struct Import {
	Ctx *ctx;
	Arena *arena;	/* the graph's */
	Arena *scratch; /* what only import needs */
	OnnxFile *file;
	Diag *diag;
	const Onnx__ModelProto *model;
	Scope *functions; /* by "domain:name:overload"; Binding.node is the index */
	DimNames dims;
	DiagLoc unknown; /* the first node of an operator that is not supported */
	size_t inlined; /* bytes, about */
	bool opset_reported;
	const char *duplicate; /* the first constant that has another's name, */
	int duplicates;        /* and how many have */
	const Overridable *overridable;
	bool found[MAX_OVERRIDABLE]; /* which of them are inputs */
	const char *constant; /* the first initialiser that is an input, too, and stays a constant, */
	int constants;        /* and how many are */
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

/* ---- frontend/import.c ---- */

/* What NAME means in S: *OUT is its value, null where an operand is omitted. False where there
 * is none, after a diagnostic at the first such use. */
bool import_lookup(Import *im, Scope *s, const char *name, DiagLoc loc, Value **out);
/* The result NAME of node INDEX of S's body, unless another node defines it too. V null: it does not exist.
 * SHOWN: its name in messages. */
void import_bind(Scope *s, const char *name, int index, Value *v, const char *shown);
/* The name of node P in messages. */
const char *import_node_name(Import *im, const Frame *fr, const Onnx__NodeProto *p);
bool import_nodes(Import *im, const Frame *fr, Scope *s, Nodes nodes);
/* G becomes a region of N. */
bool import_region(Import *im, const Frame *fr, Scope *s, Node *n, const char *name,
		   const Onnx__GraphProto *g, DiagLoc loc);

/* ---- frontend/import_node.c ---- */

void import_add_loc(Import *im, Node *n, DiagLoc loc);
/* Node P, at INDEX of its body. A fault leaves its results broken, and import goes on. */
void import_node(Import *im, const Frame *fr, Scope *s, const Onnx__NodeProto *p, int index);
/* One error for each operator that is not supported, wherever it is in the model. */
void import_missing(Import *im);

/* ---- frontend/import_call.c ---- */

void import_functions(Import *im);
/* The model's function that node P calls, or null. */
const Onnx__FunctionProto *import_function(Import *im, const Onnx__NodeProto *p);
/* The version of the standard operators; 0: none is imported. */
int import_opset(Import *im, Onnx__OperatorSetIdProto *const *sets, size_t n);
/* Inlines a call. IN: the operands, null where omitted; KNOWN: false where a fault was reported for one. */
bool import_call(Import *im, const Frame *fr, Scope *s, const Onnx__NodeProto *p, int index,
		 const Onnx__FunctionProto *fn, DiagLoc loc, Value *const *in, const bool *known);

#endif
