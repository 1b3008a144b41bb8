/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that is built from others, before a node has it. */
#ifndef PASSES_FORMS_FUSED_H
#define PASSES_FORMS_FUSED_H

#include "passes/forms/kernels.h"

typedef struct FusedKernel {
	Kernel *k;
	Value *in[MAX_PARAMS], *out[MAX_PARAMS];
	int nin, nout;
	bool over_budget; /* the kernel exceeds a limit */
} FusedKernel;

/* the operands and results of N, and N's own kernel */
FusedKernel *fused_own(Arena *a, Node *n);
/* Builds, in A, the kernel that computes P, then C, the kernel of READER or one that begins with
 * it. Results of P that only READER reads become temporaries. KEEP: P also remains a node, and C
 * gets a copy. False: the kernel would exceed a limit. */
bool fused_build(Arena *a, Node *p, const FusedKernel *c, const Node *reader, bool keep,
		 FusedKernel *g);
/* Maps of G that read all elements of a temporary, each at one point, get the domain of the
 * statement that writes it, if that domain differs: group and channel in the group, or h*2 + phase
 * in a ConvTranspose. Both statements can then be one product. The pass divmod does the same inside
 * one kernel, once layouts are known; here it decides whether two kernels are fused. */
void fused_take_points(FusedKernel *g);
/* Removes operands and buffers that no statement of G mentions. */
void fused_drop_unused(FusedKernel *g);

#endif
