/* SPDX-License-Identifier: Apache-2.0 */
/* Packs constant operands of matrix products into panels at compile time. */
#ifndef PASSES_LAYOUT_PANELS_H
#define PASSES_LAYOUT_PANELS_H

#include "passes/forms/kernels.h"
#include "passes/module.h"

/* Packs the constant operand of N's contraction; false if there is none to pack. */
bool pack_operand(Module *m, Node *n);
/* With --activations-as=bf16: reports the number of products whose operands are rounded to bf16. */
void panels_report(Module *m);

#endif
