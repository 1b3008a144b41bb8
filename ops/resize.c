/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/op.h"

const Op op_Resize = {0};
const Op op_Upsample = {0};
