/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of a data set as tensors of a graph, and back. As in a program, a value that is not a
 * tensor is represented by tensors, as many as ir/graph/type.h's type_parts counts.
 */
#ifndef TESTS_TOOLS_BATCH_FORMS_H
#define TESTS_TOOLS_BATCH_FORMS_H

#include "frontend/model.h"
#include "ops/op.h"
#include "tools/dlrun/array.h"

/* What a model takes and gives. */
typedef struct FormValues {
	int n_in, n_out;
	const char **in_name, **out_name; /* "" where there is none */
	const Type **in_type;
	dl_form *in_form, *out_form;
	Accuracy *out_accuracy;
} FormValues;

/* Sets V to what G, a graph before inference, takes and gives. MODEL, unless null, says which
 * forms the outputs have; else they are tensors. */
void forms_values(Arena *a, const Graph *g, const Onnx__ModelProto *model, FormValues *v);
/* The tensors that stand for the inputs IN of V; null after a diagnostic, which names DIR. */
const Tensor **forms_feed(Arena *a, Diag *d, const char *dir, dl_strings *s, const FormValues *v,
			  const Array *in);

/* Makes TO, which has type_parts(T) entries, what V is as a value of type T. Null, or why V does
 * not fit; strings get ids of S. */
const char *forms_take(Arena *a, dl_strings *s, const Type *t, const Array *v, const Tensor **to);

/* The first result of G that stands for value O. */
int forms_first(const Graph *g, int o);
/* The type of value O, null for a tensor. */
const Type *forms_type(const Graph *g, int o);
/* Value O of G, whose results are GOT. */
Array forms_give(Arena *a, dl_strings *s, const Graph *g, int o, Tensor *const *got,
		 const char *name);

#endif
