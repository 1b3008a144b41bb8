/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bindings: the meanings of names in the text of a definition (ir/graph/definition.h) while it is
 * read for one node. A definition is generic, like a template: `T` may be f32 for one node and f16
 * for another, `K` the size 64 or B*S. The text is read once for each node, with these meanings, so
 * the result is ordinary IR. The readers of types, sizes, expressions and attributes look a name up
 * here first. While bindings are set, a size that is not bound is a fault rather than a new symbol.
 */
#ifndef IR_DIM_BINDINGS_H
#define IR_DIM_BINDINGS_H

#include "base/vec.h"
#include "ir/dim/dim.h"
#include "ir/dtype.h"

/* T, of T[N,K]. */
typedef struct BoundType {
	const char *name;
	DType dtype;
} BoundType;

/* N; or an attribute that is an integer; or B, the product of the dims that B... stands for. */
typedef struct BoundSize {
	const char *name;
	Dim *dim;
} BoundSize;

/* B..., any number of dims. */
typedef struct BoundRun {
	const char *name;
	Dim *const *dims;
	int n;
} BoundRun;

/* An attribute of the node (bound_attr_of in ir/graph/definition.h). */
typedef struct BoundAttr {
	const char *name;
	/* null: the node does not have it, and the definition has no default */
	const struct Attr *value;
	const char *number; /* one that is a number, as text; else null */
	bool integer;       /* NUMBER is */
	bool list;          /* it is a list of integers: N at INTS */
	const int64_t *ints;
	int n;
} BoundAttr;

struct Bindings {
	Arena *arena;
	const char *file; /* of the definition, for messages */
	/* The text is only checked, for no node: the elements of attributes are symbols. */
	bool generic;
	VEC(BoundType) types;
	VEC(BoundSize) sizes;
	VEC(BoundRun) runs;
	VEC(BoundAttr) attrs;
};

/* The element type that the N bytes at S name; DT_NONE if there is none. */
DType bound_dtype(const Ctx *c, const char *s, size_t n);
/* The file of the text that is read, if bindings are set; else null. */
const char *bound_file(const Ctx *c);
/* Reads a size whose name, of N bytes, stands before *P; or, if "[" follows it, an element of an
 * attribute: strides[0]. Null if the name is not bound. */
Dim *bound_size(Ctx *c, const char *s, size_t n, const char **p);
/* Reads "B..." at *P; null, with *P as it was, if no run comes next. */
const BoundRun *bound_run(const Ctx *c, const char **p);
/* The value of a numeric attribute, as text; null if S is not such an attribute. */
const char *bound_number(const Ctx *c, const char *s, size_t n, bool *integer);
/* The attribute called NAME; null if the definition has none. */
const BoundAttr *bound_attr(const Ctx *c, const char *name);

#endif
