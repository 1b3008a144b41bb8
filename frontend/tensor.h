/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorProto to Tensor: every element type of the format and every encoding (raw, typed fields,
 * external file, sparse), with sizes checked against overflow and against the bytes that are there.
 *
 * Tensor.data points into the mapping where the file holds the elements as they are; it may be
 * unaligned for its element type there. Otherwise it lies in the file's arena.
 */
#ifndef FRONTEND_TENSOR_H
#define FRONTEND_TENSOR_H

#include "frontend/model.h"
#include "ir/graph.h"

/* Null after a diagnostic, which names LOC, or the tensor's own name where LOC.node is null. */
Tensor *onnx_tensor(OnnxFile *f, const Onnx__TensorProto *p, DiagLoc loc);
/* The same, as a dense tensor with zeros (or empty strings) between the values. */
Tensor *onnx_sparse_tensor(OnnxFile *f, const Onnx__SparseTensorProto *p, DiagLoc loc);

/* The element type of a TensorProto.DataType, or DT_NONE after a diagnostic that says why not. */
DType onnx_dtype(OnnxFile *f, int code, DiagLoc loc);

#endif
