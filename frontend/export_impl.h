/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the export: export.c (names, tensors, sizes, operators) and
 * export_control.c (brackets). */
#ifndef FRONTEND_EXPORT_IMPL_H
#define FRONTEND_EXPORT_IMPL_H

#include "frontend/export.h"

#include "frontend/onnx.pb-c.h"

/* Sets the counted FIELD of MESSAGE to the elements of LIST. */
#define COUNTED(message, field, list) \
	((message)->n_##field = (size_t)(list).n, (message)->field = (list).at)

typedef VEC(Onnx__NodeProto *) ExportNodes;

typedef struct Exporter {
	Graph *g;
	Arena *a;
	const char **value;      /* by Value.id: its name in the model */
	const char **result;     /* the names of the results */
	VEC(const char *) taken; /* names that a model may not have twice */
	const char **size;       /* by Sym.id: the name of its value; null: not written yet */
	int fresh;
	ExportNodes node;        /* of the graph that is being written, or of a body */
	struct ExportBody *body; /* null: not in a body */
	VEC(Onnx__TensorProto *) constant;
	const char *domain[8]; /* that nodes are of */
	int ndomains;
	int opset;      /* the oldest that has all nodes */
	const Node *at; /* for messages */
} Exporter;

/* ---- export.c ---- */

/* A name that no other value or node has so far. */
const char *export_fresh(Exporter *x, const char *what);
const char *export_name(Exporter *x, const Value *v);
/* NAME as an input or output of type T. */
Onnx__ValueInfoProto *export_value(Exporter *x, const char *name, const Type *t);
/* The new name of constant T, after WHAT it is. */
const char *export_constant(Exporter *x, const Tensor *t, const char *what);
/* Adds a node, which has room for two attributes. */
Onnx__NodeProto *export_add(Exporter *x, OpKind op, const char *name, const char *const *in,
			    int nin, const char *const *out, int nout);
/* Adds a Cast of IN to TO, whose result is OUT, which it returns. */
const char *export_cast(Exporter *x, const char *in, DType to, const char *out);
/* Adds a node of one result, which it returns; B may be null. */
const char *export_op(Exporter *x, OpKind op, const char *a, const char *b);
/* Adds attribute NAME to P, a node that export_add has added. */
Onnx__AttributeProto *export_attribute(Exporter *x, Onnx__NodeProto *p, const char *name,
				       Onnx__AttributeProto__AttributeType type);
void export_int(Exporter *x, Onnx__NodeProto *p, const char *name, int64_t v);
/* V as a tensor of one dim. */
const char *export_integer(Exporter *x, int64_t v);
/* D as a tensor of one dim; null after a diagnostic. */
const char *export_size(Exporter *x, const Dim *d);
/* The name that node N may have. */
const char *export_node_name(Exporter *x, const Node *n);
bool export_node(Exporter *x, const Node *n);
/* A diagnostic at the node that is being written; false. */
bool export_fault(Exporter *x, const char *text);

/* ---- export_control.c ---- */

/* Writes N, a bracket of control flow or a Row. */
bool export_bracket(Exporter *x, const Node *n);

#endif
