/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TypeProto to Type, and the names of dims.
 *
 * A dim_param that is an identifier is a symbol. One that is a sum or product of names which stand
 * alone in some input ("past_sequence_length + sequence_length") is that expression, so that a symbol
 * can always be had from an input's shape; any other text is a symbol of that name. A dim without
 * value and name is a fresh symbol.
 */
#ifndef FRONTEND_VALUETYPE_H
#define FRONTEND_VALUETYPE_H

#include "frontend/model.h"
#include "ir/type.h"

typedef struct DimNames {
	VEC(const char *) v; /* interned: what stands alone as a dim of an input */
} DimNames;

/* Notes the dims of P that are plain names. */
void dim_names_note(Ctx *c, Arena *a, DimNames *names, const Onnx__TypeProto *p);
/* Makes the symbols that P's dims name. Import calls this for all inputs before it makes a fresh symbol, so that the fresh one
 * gets a name that no dim of the model has. */
void dim_names_take(Ctx *c, const DimNames *names, const Onnx__TypeProto *p);

/* NAME is that of the value, for fresh symbols. Null after a diagnostic for LOC. */
const Type *onnx_type(Ctx *c, OnnxFile *f, const DimNames *names, const Onnx__TypeProto *p,
		      const char *name, DiagLoc loc);

#endif
