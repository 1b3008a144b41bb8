/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/op.h"

const Op op_ReduceSum = {0};
const Op op_ReduceMean = {0};
const Op op_ReduceMax = {0};
const Op op_ReduceMin = {0};
const Op op_ReduceProd = {0};
const Op op_ReduceL1 = {0};
const Op op_ReduceL2 = {0};
const Op op_ReduceLogSum = {0};
const Op op_ReduceLogSumExp = {0};
const Op op_ReduceSumSquare = {0};
const Op op_ArgMax = {0};
const Op op_ArgMin = {0};
const Op op_CumSum = {0};
const Op op_CumProd = {0};
