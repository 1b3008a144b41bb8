/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of a data set as tensors of a graph, and back. As in a program, tensors stand for a value
 * that is none: those that ir/type.h's type_parts counts.
 */
#ifndef TESTS_TOOLS_BATCH_FORMS_H
#define TESTS_TOOLS_BATCH_FORMS_H

#include "ir/graph.h"
#include "tools/dlrun/array.h"

/* Makes TO, which has type_parts(T) entries, what V is as a value of type T. Null, or why V does not fit; strings get ids of S. */
const char *forms_take(Arena *a, dl_strings *s, const Type *t, const Array *v, const Tensor **to);

/* The number of values that an application gets from G, an inferred graph. */
int forms_results(const Graph *g);
/* The first result of G that stands for value O. */
int forms_first(const Graph *g, int o);
/* The type of value O, null for a tensor. */
const Type *forms_type(const Graph *g, int o);
/* Value O of G, whose results are GOT. */
Array forms_give(Arena *a, dl_strings *s, const Graph *g, int o, Tensor *const *got,
		 const char *name);

#endif
