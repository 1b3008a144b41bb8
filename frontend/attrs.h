/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AttributeProto to Attr, and the forms of Constant. Inside a function's body an attribute may refer to
 * one of the call; AttrArgs are those.
 */
#ifndef FRONTEND_ATTRS_H
#define FRONTEND_ATTRS_H

#include "frontend/model.h"
#include "ir/graph.h"

/* The attributes of a call of a function: what it gives, and defaults; none of them is a
 * reference. */
typedef struct AttrArgs {
	const char **name;
	const Onnx__AttributeProto **attr;
	int n;
} AttrArgs;

/* P itself, or what it refers to; null where the call gives nothing for it. ARGS may be null. */
const Onnx__AttributeProto *attr_resolve(const AttrArgs *args, const Onnx__AttributeProto *p);
/* P's type: as it says, or, in old files that do not, by what is there. */
Onnx__AttributeProto__AttributeType attr_type(const Onnx__AttributeProto *p);

/* *OUT is P under the name NAME. Graphs are not converted here. False after a diagnostic. */
bool attr_convert(Ctx *c, Arena *a, OnnxFile *f, const char *name, const Onnx__AttributeProto *p,
		  DiagLoc loc, Attr *out);

/* The tensor that the attribute P of a Constant stands for; null after a diagnostic. */
Tensor *attr_constant(Ctx *c, Arena *a, OnnxFile *f, const char *name,
		      const Onnx__AttributeProto *p, DiagLoc loc);

#endif
