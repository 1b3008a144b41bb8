/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element types and scalar types. A tensor stores elements of a DType; an expression computes in a
 * CType. Small integers are computed in i32, small floats in f32, and a store rounds or wraps once
 * to the element type. Mixed precision has no other rule, and the interpreter and every target obey
 * this one.
 */
#ifndef IR_DTYPE_H
#define IR_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum CType { CT_NONE, CT_BOOL, CT_I32, CT_I64, CT_U32, CT_U64, CT_F32, CT_F64, CT_COUNT } CType;

typedef enum DType {
	DT_NONE,
#define DTYPE(name, text, onnx, bits, ct) DT_##name,
#include "ir/dtypes.def"
#undef DTYPE
	DT_COUNT
} DType;

typedef struct DTypeInfo {
	const char *name;
	int onnx; /* the number in ONNX's TensorProto.DataType */
	int bits;
	CType ctype;
} DTypeInfo;

extern const DTypeInfo dtype_info[DT_COUNT];
extern const char *const ctype_name[CT_COUNT]; /* "bool", "i32", ... */

/* DT_NONE if no type has this name. */
DType dtype_by_name(const char *name);
DType dtype_by_onnx(int code);
bool dtype_is_float(DType t); /* every floating type, 4-bit to 64-bit */
bool dtype_is_int(DType t);   /* signed or unsigned, not bool */
bool dtype_is_signed(DType t);
bool dtype_is_byte(DType t); /* an integer of 8 bits */
bool dtype_is_half(DType t); /* f16 or bf16 */
bool ctype_is_float(CType t);
CType dtype_ctype(DType t);
double dtype_largest(DType t); /* the largest finite value of a float type */
/* Bytes of one element; 1: of less than a byte. */
static inline int dtype_bytes(DType t)
{
	return (dtype_info[t].bits + 7) / 8;
}
/* Bytes that N elements take, with small types packed; -1 on overflow. */
int64_t dtype_size(DType t, int64_t n);
/* The element type that stores this scalar type exactly (CT_F32: DT_F32, ...). */
DType ctype_dtype(CType t);
static inline int ctype_bytes(CType t)
{
	return dtype_bytes(ctype_dtype(t));
}

/* Reads or writes element I of a packed array, as an f64 or an i64. This is exact, since every
 * element type's values fit one of the two. Stores round to nearest even; f8 and f4 saturate as
 * ONNX's Cast with saturate=1 does; integers wrap. These are the reference conversions, not the
 * fast ones. */
double dtype_load_f64(DType t, const void *p, int64_t i);
int64_t dtype_load_i64(DType t, const void *p, int64_t i); /* u64: its bits */
void dtype_store_f64(DType t, void *p, int64_t i, double v);
void dtype_store_i64(DType t, void *p, int64_t i, int64_t v);
/* Rounds V to element type T and back, from f32 directly, so that nothing is rounded twice.
 * SATURATE: overflow gives the largest finite value (f8, f4), else NaN or inf, as ONNX's Cast
 * says. */
float dtype_round_f32(DType t, float v, bool saturate);

#endif
