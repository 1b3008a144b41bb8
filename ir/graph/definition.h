/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Definitions: operators that the user defines, as text (docs/operators.md).
 *
 *     operator com.example::ScaledSwish(%x: T[S...], %scale: T[1]) {beta: float = 1.0} -> (%y: T[S...])
 *         where T in f16 | f32 kernel {
 *       y[i] = mul(scale[0], div(x[i], add(1, exp(mul(-beta, x[i]))))) for i < S
 *     }
 *
 * A definition is generic. It stores its text, which is read for every node of the operator, with
 * the names of element types, sizes and attributes bound (ir/dim/bindings.h) to the node's. The
 * text is also checked when its file is read, with symbols for sizes and each element type in turn.
 *
 * An operator may have several definitions, all in one file. A node uses the first one that matches
 * its attributes and the number, element types and ranks of its operands. In a graph such a node is
 * an OP_Call, and inference replaces it by the definition's body (ops/infer/call.c).
 */
#ifndef IR_GRAPH_DEFINITION_H
#define IR_GRAPH_DEFINITION_H

#include "ir/dim/bindings.h"
#include "ir/graph/graph.h"

typedef struct SignatureDim {
	const char *name; /* a size or run that is bound here, or compared; null: another size */
	bool run;         /* B...: any number of dims */
	const char *text;
} SignatureDim;

/* T[B...,2*K] */
typedef struct SignatureType {
	const char *var; /* T; null: the element type is DTYPE */
	DType dtype;
	SignatureDim *dim;
	int ndims, run; /* RUN: which of the dims is a run; -1: none */
	const char *text; /* for messages */
} SignatureType;

typedef struct DefinedOperand {
	const char *name;
	bool optional;
	SignatureType type;
} DefinedOperand;

typedef struct DefinedResult {
	const char *name;
	bool typed;
	SignatureType type;
} DefinedResult;

typedef struct DefinedAttr {
	const char *name;
	AttrKind kind;
	bool optional;
	const Attr *otherwise; /* the default, or null */
} DefinedAttr;

/* where NAME in ...: the element types, or the values of an attribute. */
typedef struct DefinedChoice {
	const char *name;
	const DefinedAttr *attr; /* null: NAME is an element type */
	int n;
	const DType *types;
	const Attr *values;
} DefinedChoice;

typedef struct DefinedCall {
	const char *name; /* the operator's whole name */
	int line;
} DefinedCall;

typedef struct Definition Definition;
struct Definition {
	const char *name;         /* com.example::ScaledSwish */
	const char *file;
	int line;
	const char *text;         /* from "operator" to the last "}" */
	const char *body;         /* from `check`, "{" or `kernel` on */
	int body_line;
	bool kernel;              /* statements, not nodes */
	VEC(DefinedOperand) in;
	VEC(DefinedResult) out;
	VEC(DefinedAttr) attrs;
	VEC(DefinedChoice) choices;
	VEC(const char *) vars;   /* element types */
	VEC(DefinedCall) calls;   /* the operators in the body that have definitions */
	Definition *next;         /* another definition of the same operator; null: none */
	int depth;                /* depth of nested definitions; 0: unknown; -1: being computed */
};

struct Definitions {
	VEC(Definition *) all; /* the first one of every operator */
};

/* The attribute of an OP_Call with the operator's name: "com.example::ScaledSwish". No ONNX
 * attribute is called like that. */
#define CALL_NAME "::"
/* The name of operator NAME of DOMAIN ("": the ONNX standard), interned. */
const char *definition_name(Ctx *c, const char *domain, const char *name);
/* NAME as diagnostics show it: "com.example.ScaledSwish". */
const char *definition_shown(Ctx *c, const char *name);
/* The definitions of operator NAME, by `next`; null if there is none. */
const Definition *definition_find(const Ctx *c, const char *name);
/* How an attribute of KIND is called in a definition, and in messages. */
const char *attr_kind_name(AttrKind kind);

/* The meaning of a node's attribute NAME, with VALUE, in a definition's text; null: it has none. */
BoundAttr bound_attr_of(Arena *a, const char *name, const Attr *value);

/* The files of --op. */
enum { MAX_DEFINITION_FILES = 64 };
typedef struct DefinitionFiles {
	const char *name[MAX_DEFINITION_FILES];
	int n;
} DefinitionFiles;

/* Reads FILES, which contain only definitions, into C. False after a diagnostic. */
bool definitions_read(Ctx *c, const DefinitionFiles *files);
/* After all are read: every operator that a definition uses exists, and none uses itself. */
bool definitions_check(Ctx *c);
/* Reads D for a node, as a graph in arena A. The graph's inputs have the types IN, null for an
 * omitted operand; other values have a type only if the text gives one. Its facts are the
 * definition's checks. LINES, by Node.id, are the lines of its nodes. Null after a diagnostic. */
Graph *definition_graph(Ctx *c, Arena *a, const Definition *d, const Bindings *b, const Type *const *in, const int **lines);

#endif
