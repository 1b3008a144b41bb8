/* SPDX-License-Identifier: Apache-2.0 */
/* A softmax whose weights a product sums up is divided after the product. */
#ifndef PASSES_FORMS_DIVIDE_LATE_H
#define PASSES_FORMS_DIVIDE_LATE_H

#include "ir/kernel/kernel.h"

/* Rewrites K, if its last contraction sums over the weights of a softmax that nothing else
 * reads: the contraction then reads the exponentials, and its result is divided. */
void kernel_divide_late(Kernel *k);

#endif
