/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that the user defines: ops/infer/call.c, and the check of their kernels. */
#ifndef OPS_INFER_CALL_H
#define OPS_INFER_CALL_H

#include "ops/infer/infer.h"

/* ---- call_kernel.c ---- */

/* Checks the kernel of node N, which a definition's text gave and whose operands have types;
 * gives N's results their types, and makes every access of the kernel safe. False after a
 * diagnostic. */
bool call_check_kernel(Infer *in, Node *n);

#endif
