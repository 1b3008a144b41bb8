/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/op.h"

const Op op_MatMul = {0};
const Op op_Gemm = {0};
const Op op_Einsum = {0};
const Op op_Conv = {0};
const Op op_ConvTranspose = {0};
