/* SPDX-License-Identifier: Apache-2.0 */
/* Constant operands of matrix products, packed into panels when the model is built. */
#ifndef PASSES_LAYOUT_PANELS_H
#define PASSES_LAYOUT_PANELS_H

#include "passes/forms/kernels.h"
#include "passes/module.h"

/* Packs the constant operand of N's contraction; false if there is none to pack. */
bool pack_operand(Module *m, Node *n);
/* Reports in how many products operands are rounded to bf16, if --activations-as=bf16 is given. */
void panels_report(Module *m);

#endif
