/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/op.h"

const Op op_Shape = {0};
const Op op_Size = {0};
const Op op_Reshape = {0};
const Op op_Flatten = {0};
const Op op_Squeeze = {0};
const Op op_Unsqueeze = {0};
const Op op_Transpose = {0};
const Op op_Expand = {0};
const Op op_Tile = {0};
const Op op_Concat = {0};
const Op op_Split = {0};
const Op op_Slice = {0};
const Op op_Pad = {0};
const Op op_ConstantOfShape = {0};
const Op op_Range = {0};
const Op op_EyeLike = {0};
const Op op_Trilu = {0};
const Op op_DepthToSpace = {0};
const Op op_SpaceToDepth = {0};
