/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX files: a model, or a value of a data set. The file is mapped read-only until onnx_close;
 * decoded messages and all tensors made from it (frontend/tensor.h) live as long.
 *
 * wire.c first checks the file with a bounded walk and writes a compact copy, which protobuf-c then
 * decodes. Large tensor data is never copied.
 */
#ifndef FRONTEND_MODEL_H
#define FRONTEND_MODEL_H

#include "frontend/onnx.pb-c.h"
#include "frontend/wire.h"

#include <sys/types.h>

/* A file that is mapped read-only; BYTES is null if it is empty. */
typedef struct MappedFile {
	const char *path;
	const char *
		real; /* of external data: PATH, which is relative to the model, resolved; else null */
	const uint8_t *bytes;
	size_t size;
	dev_t dev;
	ino_t ino;
} MappedFile;

typedef struct OnnxFile {
	const char *path; /* as given: for messages and for external data */
	Arena *arena;	  /* for everything that is decoded */
	Diag *diag;
	MappedFile map;
	const uint8_t *bytes;	    /* the whole message: mapped, or the caller's memory */
	WireRanges ranges;	    /* raw_ref is an index into this */
	VEC(MappedFile *) external; /* each external file once */
	VEC(const char *) missing;  /* locations of external data without a file, each reported once */
	/* the table of the strings of its tensors: the file's, or that of the context into which
	 * the model is imported */
	struct dl_strings *strings;
	uint64_t densified;	    /* bytes that sparse tensors have taken as dense ones so far */
	ProtobufCMessage *message;  /* the root */
	Onnx__ModelProto *model;    /* the root, where it is a model */
} OnnxFile;

/* Null after a diagnostic. DIAG must outlive the file. */
OnnxFile *onnx_open(Diag *d, const char *path);
/* As onnx_open, for a file with another root message: TensorProto, SequenceProto, OptionalProto. */
OnnxFile *onnx_open_as(Diag *d, const char *path, const ProtobufCMessageDescriptor *root);
/* As onnx_open, for a model in memory, which must outlive the file. PATH is its name in
 * messages, and external data is found relative to it. */
OnnxFile *onnx_open_bytes(Diag *d, const char *path, const void *bytes, size_t n,
			  const ProtobufCMessageDescriptor *root);
void onnx_close(OnnxFile *f);

/* Maps the external file LOCATION; null after a diagnostic for LOC, which a location gets once. It
 * must be in the folder of the model's path, or of its resolved path, after symbolic links are
 * followed. `..` and absolute paths are refused. */
const MappedFile *onnx_external(OnnxFile *f, const char *location, DiagLoc loc);

#endif
