/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operators: pairs each row of ir/ops.def with `op_NAME`. A row without one is a
 * link error. */
#include "ops/op.h"

#define OP(name, nin_min, nin_max, nout_min, nout_max, flags) extern const Op op_##name;
#include "ir/ops.def"
#undef OP

const Op *const op_table[OP_COUNT] = {
#define OP(name, nin_min, nin_max, nout_min, nout_max, flags) [OP_##name] = &op_##name,
#include "ir/ops.def"
#undef OP
};

/* Operators of the IR itself have no definition here: a constant is its tensor, a kernel its
 * statements. */
const Op op_Const = {0};
const Op op_Kernel = {0};
