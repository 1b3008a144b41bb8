/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/op.h"

const Op op_MaxPool = {0};
const Op op_AveragePool = {0};
const Op op_LpPool = {0};
const Op op_GlobalAveragePool = {0};
const Op op_GlobalMaxPool = {0};
const Op op_GlobalLpPool = {0};
