/* SPDX-License-Identifier: Apache-2.0 */
/* Types: a tensor (element type, dims, layout), a sequence or an optional; interned, so equal pointers
 * mean equal types. */
#ifndef IR_TYPE_H
#define IR_TYPE_H

#include "ir/dim.h"
#include "ir/dtype.h"

enum { MAX_RANK = 16 };

typedef enum TypeKind { TYPE_TENSOR, TYPE_SEQUENCE, TYPE_OPTIONAL } TypeKind;

/*
 * How a tensor lies in memory: physical axes from outermost to innermost, each a digit i / div % mod of the index i of a
 * logical dim; the digits of a dim have all of it, and the last of them has no mod. A dim of several digits is padded up to
 * a multiple of that one's div, and the padding is zero. Null: row-major, plain.
 * Text: f32[K,N]{1/32,0,1%32}, f16[K,N]{1/16,0/16,1%8,0/2%8,1/8%2,0%2}.
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
	DType dtype;
	int rank; /* -1: not known; such a type is only a sequence's element or a value not yet inferred */
	Dim **dims;
	const Layout *layout; /* interned; null: plain */
	const struct Type *elem; /* of a sequence or optional */
} Type;

const Type *type_tensor(Ctx *c, DType t, int rank, Dim *const *dims);
/* Axis I and the one before it are the digits of one dim, whole but for padding. */
bool layout_pads(const Layout *l, int i);
/* How far AX goes of a tensor of these DIMS. */
Dim *layout_extent(Ctx *c, const LayoutAxis *ax, Dim *const *dims);
const Type *type_with_layout(Ctx *c, const Type *t, const Layout *l);
const Type *type_sequence(Ctx *c, const Type *elem);
const Type *type_optional(Ctx *c, const Type *elem);

/* Elements, logical. */
Dim *type_numel(Ctx *c, const Type *t);
/* Elements in memory: with the layout's padding. */
Dim *type_storage(Ctx *c, const Type *t);
/* Bytes in memory. */
Dim *type_bytes(Ctx *c, const Type *t);
/* True where every dim is a constant; dims in OUT (rank entries) where OUT is not null. */
bool type_static(const Type *t, int64_t *out);

/* "f32[N,64]", "f32[]" (a scalar), "f32[?]" (rank -1), "seq(f32[?])", "opt(...)". */
void type_print(StrBuf *b, const Type *t);
/* Reads a type at *P and advances it; null with *P at the fault. */
const Type *type_parse(Ctx *c, const char **p);

#endif
