/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/op.h"

const Op op_BatchNormalization = {0};
const Op op_InstanceNormalization = {0};
const Op op_LayerNormalization = {0};
const Op op_GroupNormalization = {0};
const Op op_RMSNormalization = {0};
const Op op_LpNormalization = {0};
const Op op_MeanVarianceNormalization = {0};
const Op op_LRN = {0};
const Op op_Softmax = {0};
const Op op_LogSoftmax = {0};
const Op op_Hardmax = {0};
