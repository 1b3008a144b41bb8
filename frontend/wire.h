/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded walk over the protobuf wire format, before protobuf-c reads it.
 *
 * A model file is hostile input, and protobuf-c recurses without a limit and copies what it reads.
 * The walk follows protobuf-c's descriptors, so the schema is stated once, and writes a compact
 * copy of the message with only the fields of the schema:
 *
 * - every length, varint, tag and wire type has been checked, no singular field appears twice, no
 *   string contains a NUL, and nesting, counts and the memory that decoding will take are bounded;
 * - the data of a large tensor (raw_data, packed float_data and double_data) is left in the file:
 *   raw_ref in its place is an index into a table of ranges.
 *
 * Overhead beyond the large data is one copy of the rest of the file.
 */
#ifndef FRONTEND_WIRE_H
#define FRONTEND_WIRE_H

#include "base/diag.h"
#include "base/str.h"
#include "base/vec.h"

#include <protobuf-c/protobuf-c.h>

enum {
	WIRE_MAX_DEPTH =
		200, /* nesting of messages: 64 nested subgraphs, and a type in the innermost one */
	WIRE_CUT = 1024, /* tensor data with at least this many bytes stays in the file */
};

/* Tensor data in the file: its bytes, and the field that they are (9 raw_data, 4 float_data, 10
 * double_data). */
typedef struct WireRange {
	uint64_t at, size;
	uint32_t field;
} WireRange;

typedef struct WireRanges {
	VEC(WireRange) v;
} WireRanges;

/* Walks BYTES as one message of type ROOT. Appends its compact copy to *OUT, and the ranges that
 * stay in the file to *RANGES (growing in A). A fault gives one diagnostic for FILE that names the
 * byte, the message and the field; then the result is false, and *OUT is unspecified. */
bool wire_compact(Arena *a, Diag *d, const char *file, const ProtobufCMessageDescriptor *root,
		  const uint8_t *bytes, size_t n, StrBuf *out, WireRanges *ranges);

#endif
