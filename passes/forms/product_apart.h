/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides a kernel that first computes an operand of a product by maps, as a DeformConv samples its
 * image. If the maps cost too much to be part of the product's operand, the kernel as a whole would
 * be rows, each of which sums across lanes. Apart, the operand is a tensor and the product is
 * tiled.
 */
#ifndef PASSES_FORMS_PRODUCT_APART_H
#define PASSES_FORMS_PRODUCT_APART_H

#include "passes/forms/fused.h"
#include "passes/module.h"

/* Replaces N by two nodes, if its kernel is such maps and a product. Returns the second one; null:
 * N stays. */
Node *product_apart(Module *m, Node *n);

#endif
