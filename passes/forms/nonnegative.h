/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tensors have no negative elements, by the expressions that compute them: bytes after a Relu
 * or a Clip from 0 on, whose zero point is 0, for example.
 */
#ifndef PASSES_FORMS_NONNEGATIVE_H
#define PASSES_FORMS_NONNEGATIVE_H

#include "passes/module.h"

/* Whether each element of V is at least 0, or NaN. False if that is not known. */
bool value_is_nonnegative(const Value *v);
/* Whether each element of V, of integers, is at least 0 and at most 127. False if that is not
 * known. */
bool value_is_in_i8(const Value *v);

#endif
