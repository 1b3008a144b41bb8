/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/op.h"

const Op op_Gather = {0};
const Op op_GatherElements = {0};
const Op op_GatherND = {0};
const Op op_ScatterND = {0};
const Op op_ScatterElements = {0};
const Op op_OneHot = {0};
