/* SPDX-License-Identifier: Apache-2.0 */
/* Moves the division of a softmax behind the product that sums up its weights. */
#ifndef PASSES_FORMS_DIVIDE_LATE_H
#define PASSES_FORMS_DIVIDE_LATE_H

#include "ir/kernel/kernel.h"

/* Rewrites K if its last contraction is the only reader of a softmax's weights: the contraction
 * then reads the exponentials, and its result is divided. */
void kernel_divide_late(Kernel *k);

#endif
