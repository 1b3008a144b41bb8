/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts AttributeProto to Attr, and the forms of Constant. Inside the body of a function an
 * attribute may refer to an attribute of the call, which AttrArgs contains.
 */
#ifndef FRONTEND_ATTRS_H
#define FRONTEND_ATTRS_H

#include "frontend/model.h"
#include "ir/graph/graph.h"

/* The attributes of a call of a function, with the function's defaults. None of them is a
 * reference. */
typedef struct AttrArgs {
	const char **name;
	const Onnx__AttributeProto **attr;
	int n;
} AttrArgs;

/* P, or the attribute that it refers to; null if the call does not give that one. ARGS may be
 * null. */
const Onnx__AttributeProto *attr_resolve(const AttrArgs *args, const Onnx__AttributeProto *p);
/* P's type: as declared, or, in old files that do not declare it, by the field that is set. */
Onnx__AttributeProto__AttributeType attr_type(const Onnx__AttributeProto *p);

/* Sets *OUT to P under the name NAME. Does not convert graphs. False after a diagnostic. */
bool attr_convert(Ctx *c, Arena *a, OnnxFile *f, const char *name, const Onnx__AttributeProto *p,
		  DiagLoc loc, Attr *out);

/* The tensor of a Constant's attribute P; null after a diagnostic. */
Tensor *attr_constant(Ctx *c, Arena *a, OnnxFile *f, const char *name,
		      const Onnx__AttributeProto *p, DiagLoc loc);

#endif
