/* SPDX-License-Identifier: Apache-2.0 */
/* Types: a tensor (element type, dims, layout), a sequence, an optional or a map. Types are
 * interned: equal pointers mean equal types. */
#ifndef IR_GRAPH_TYPE_H
#define IR_GRAPH_TYPE_H

#include "ir/dim/dim.h"
#include "ir/dtype.h"

enum { MAX_RANK = 16 };

typedef enum TypeKind { TYPE_TENSOR, TYPE_SEQUENCE, TYPE_OPTIONAL, TYPE_MAP } TypeKind;

/*
 * The order of a tensor's elements in memory: a list of physical axes, outermost first. The index
 * of each axis is i / div % mod of the index i of one logical dim. The axes of a dim are a div/mod
 * split that covers all of it; its most significant axis has no mod. A dim with several axes is
 * padded with zeros to a multiple of that axis's div. A null layout is plain, row-major.
 *
 * Text: f32[K,N]{1/32,0,1%32} stores panels of 32 columns. f16[K,N]{1/16,0/16,1%8,0/2%8,1/8%2,0%2}.
 */
typedef struct LayoutAxis {
	int dim;
	int64_t div, mod; /* 0: none */
} LayoutAxis;

typedef struct Layout {
	int n;
	LayoutAxis ax[MAX_RANK * 2];
} Layout;

typedef struct Type {
	TypeKind kind;
	DType dtype; /* of a tensor's elements; of a map's keys */
	/* -1: not known, which only a sequence's element or a value that is not yet inferred may
	 * have */
	int rank;
	Dim **dims; /* null entries: the tensors of a sequence may differ in that dim */
	const Layout *layout; /* interned; null: plain */
	const struct Type *elem; /* of a sequence, an optional, or a map's values */
} Type;

const Type *type_tensor(Ctx *c, DType t, int rank, Dim *const *dims);
/* Whether axis I and the one before it split one dim, and cover it apart from padding. */
bool layout_pads(const Layout *l, int i);
/* The extent of AX in a tensor of these DIMS. */
Dim *layout_extent(Ctx *c, const LayoutAxis *ax, Dim *const *dims);
const Type *type_with_layout(Ctx *c, const Type *t, const Layout *l);
const Type *type_sequence(Ctx *c, const Type *elem);
const Type *type_optional(Ctx *c, const Type *elem);
const Type *type_map(Ctx *c, DType key, const Type *elem);
/* The type of tensors with different dims; RANK -1: with different or unknown ranks. */
const Type *type_items(Ctx *c, DType t, int rank);

/* ---- Values that are not tensors, for which tensors stand (ops/infer/parts.h) ---- */

/* The number of tensors that stand for a value of type T, 1 for a tensor; 0: T is not supported. */
int type_parts(const Type *t);
/* Whether tensors of type PART can be tensor K of a value of type T, which has type_parts and whose
 * tensors have a known rank. */
bool type_is_part(const Type *t, int k, const Type *part);
/* The type of the tensors of T, a seq(E), opt(E) or opt(seq(E)); null for other types. */
const Type *type_listed(const Type *t);
/* The map of T, a map(K,V) or seq(map(K,V)); null for other types. */
const Type *type_map_of(const Type *t);

/* ---- Sizes ---- */

/* The number of elements, without padding. */
Dim *type_numel(Ctx *c, const Type *t);
/* Whether a dim of the tensor type T depends on elements of tensors at run time. */
bool type_from_data(const Type *t);
/* Appends the dims of T, and of the types that T consists of, to OUT in arena A. T may be null. */
void type_dims(const Type *t, Arena *a, DimList *out);
/* The number of elements in memory, with the layout's padding. */
Dim *type_storage(Ctx *c, const Type *t);
/* The number of bytes in memory. */
Dim *type_bytes(Ctx *c, const Type *t);
/* True if every dim is a constant. OUT, unless null, gets the dims (rank entries). */
bool type_static(const Type *t, int64_t *out);

/* "f32[N,64]", "f32[]" (a scalar), "f32[?]" (rank -1), "f32[_,_]" (dims differ), "seq(f32[?])",
 * "opt(...)", "map(i64,f32[])". */
void type_print(StrBuf *b, const Type *t);
/* Reads a type at *P and advances *P; null, with *P at the fault. */
const Type *type_parse(Ctx *c, const char **p);

#endif
