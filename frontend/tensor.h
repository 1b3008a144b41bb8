/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts TensorProto to Tensor: every element type of the format and every encoding (raw, typed
 * fields, external file, sparse). Sizes are checked against overflow and against the number of
 * bytes in the file.
 *
 * Tensor.data points into the mapping if the file has the elements in the right form; it may be
 * unaligned there. Otherwise the data is in the file's arena.
 */
#ifndef FRONTEND_TENSOR_H
#define FRONTEND_TENSOR_H

#include "frontend/model.h"
#include "ir/graph/graph.h"

/* Null after a diagnostic, which names LOC; or, if LOC.node is null, the tensor. */
Tensor *onnx_tensor(OnnxFile *f, const Onnx__TensorProto *p, DiagLoc loc);
/* As onnx_tensor, for a sparse tensor: dense, with zeros (or empty strings) between the values. */
Tensor *onnx_sparse_tensor(OnnxFile *f, const Onnx__SparseTensorProto *p, DiagLoc loc);

/* The element type of a TensorProto.DataType; DT_NONE after a diagnostic with the reason. */
DType onnx_dtype(OnnxFile *f, int code, DiagLoc loc);

#endif
