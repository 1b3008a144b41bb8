/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions with fewer multiplications: Winograd's minimal filtering. */
#ifndef PASSES_LAYOUT_WINOGRAD_H
#define PASSES_LAYOUT_WINOGRAD_H

#include "passes/module.h"

/* Replaces the convolution of N's kernel by three kernels if its form says so, once tensors are
 * laid out. */
void winograd(Module *m, Node *n);

#endif
