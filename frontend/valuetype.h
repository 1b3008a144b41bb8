/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts TypeProto to Type, and names of dims to dims.
 *
 * A dim_param that is an identifier is a symbol. A sum or product of names, each of which is a dim
 * of some input by itself ("past_sequence_length + sequence_length"), is that expression; so each
 * symbol can be read from an input's shape. Any other text is a symbol of that name. A dim without
 * value and name is a fresh symbol; so is one with a name that exporters write for every unknown
 * size: "?", "*", "-", "-1", " ", "None".
 */
#ifndef FRONTEND_VALUETYPE_H
#define FRONTEND_VALUETYPE_H

#include "frontend/model.h"
#include "ir/graph/type.h"

typedef struct DimNames {
	VEC(const char *) v; /* interned: names that are by themselves a dim of an input */
} DimNames;

/* Notes the dims of P that are plain names. */
void dim_names_note(Ctx *c, Arena *a, DimNames *names, const Onnx__TypeProto *p);
/* Makes the symbols that P's dims name. Import calls this for all inputs before it makes a fresh
 * symbol, so a fresh one never gets a name that the model uses. */
void dim_names_take(Ctx *c, const DimNames *names, const Onnx__TypeProto *p);

/* The type of the tensors of a sequence or optional that P describes, whose dims may differ
 * (type_items), or of another value inside of one. Null after a diagnostic for LOC. */
const Type *onnx_item_type(Ctx *c, OnnxFile *f, const Onnx__TypeProto *p, DiagLoc loc);

/* NAME is the value's name, used to name fresh symbols. RANK is that of a tensor whose type does
 * not say it; -1: it is not known. Null after a diagnostic for LOC. */
const Type *onnx_type(Ctx *c, OnnxFile *f, const DimNames *names, const Onnx__TypeProto *p, int rank,
		      const char *name, DiagLoc loc);

#endif
