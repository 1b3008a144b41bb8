/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX files: a model, or a value of a data set. The file is mapped read-only and stays so until
 * onnx_close; what was decoded and every tensor made from it (frontend/tensor.h) lives as long.
 *
 * Decoding is wire.c's bounded walk, then protobuf-c on the compact copy; large tensor data is never
 * copied.
 */
#ifndef FRONTEND_MODEL_H
#define FRONTEND_MODEL_H

#include "frontend/onnx.pb-c.h"
#include "frontend/wire.h"

#include <sys/types.h>

/* A file mapped read-only; BYTES is null where it is empty. */
typedef struct MappedFile {
	const char *path;
	const uint8_t *bytes;
	size_t size;
	dev_t dev;
	ino_t ino;
} MappedFile;

typedef struct OnnxFile {
	const char *path; /* as given: for messages and for external data */
	Arena *arena;	  /* its own: everything decoded */
	Diag *diag;
	MappedFile map;
	const uint8_t *bytes;	    /* the whole message: the mapping, or memory of the caller */
	WireRanges ranges;	    /* what raw_ref indexes */
	VEC(MappedFile *) external; /* each external file once */
	uint64_t densified;	    /* bytes made from sparse tensors so far */
	ProtobufCMessage *message;  /* the root */
	Onnx__ModelProto *model;    /* the root, where it is a model */
} OnnxFile;

/* Null after a diagnostic. DIAG must outlive the file. */
OnnxFile *onnx_open(Diag *d, const char *path);
/* A file whose root is another message: TensorProto, SequenceProto, OptionalProto. */
OnnxFile *onnx_open_as(Diag *d, const char *path, const ProtobufCMessageDescriptor *root);
/* A model in memory, which must outlive the file. PATH names it and says where external data
 * lies. */
OnnxFile *onnx_open_bytes(Diag *d, const char *path, const void *bytes, size_t n,
			  const ProtobufCMessageDescriptor *root);
void onnx_close(OnnxFile *f);

/* The external file LOCATION, mapped; null after a diagnostic for LOC. It must lie in the folder
 * of the model's path or of its real path, symbolic links followed; `..` and absolute paths are
 * refused. */
const MappedFile *onnx_external(OnnxFile *f, const char *location, DiagLoc loc);

#endif
