/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a kernel, independent of its schedule: the amount of arithmetic, and the bytes that
 * it must move. */
#ifndef PASSES_FORMS_WORK_H
#define PASSES_FORMS_WORK_H

#include "ir/kernel/kernel.h"

/*
 * FLOPS: for each statement, the points of its domain times the arithmetic instructions of one
 * point. A multiply-add counts as two, a function as its expansion; a reduction adds the
 * combination of its state with a term. Comparisons, conversions, selections and arithmetic on
 * indices (i64) are not counted. Guards count as true, so the taps of a convolution that fall into
 * the padding count. A product of M x K and K x N has exactly 2*M*N*K.
 *
 * BYTES: the minimum that must be read and written: each operand and result once. Of a buffer that
 * the kernel accesses in part (a gather, a slice) only as many elements count as there are points
 * of the iterators that its indices mention. Temporaries are not counted.
 */
typedef struct KernelWork {
	Dim *flops, *bytes;
} KernelWork;

KernelWork kernel_work(const Kernel *k);

#endif
