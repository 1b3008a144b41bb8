/* SPDX-License-Identifier: Apache-2.0 */
/* The table of ops: a row of ir/ops.def beside its `op_NAME`. A row without one does not link. */
#include "ops/op.h"

#define OP(name, nin_min, nin_max, nout_min, nout_max, flags) extern const Op op_##name;
#include "ir/ops.def"
#undef OP

const Op *const op_table[OP_COUNT] = {
#define OP(name, nin_min, nin_max, nout_min, nout_max, flags) [OP_##name] = &op_##name,
#include "ir/ops.def"
#undef OP
};

/* The IR's own have no meaning here: a constant's is its tensor, a kernel's its statements. */
const Op op_Const = {0};
const Op op_Kernel = {0};
