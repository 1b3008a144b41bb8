/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tensors of bytes have only numbers from 0 to 127, by the expressions that compute them: i8
 * after a Relu or a Clip from 0 on, with zero point 0, for example. They are the same as i8 and u8.
 */
#ifndef PASSES_FORMS_SEVEN_BITS_H
#define PASSES_FORMS_SEVEN_BITS_H

#include "passes/module.h"

/* Whether each element of V, of integers, is at least 0 and at most 127. False if that is not
 * known. */
bool value_has_7_bits(const Value *v);

#endif
