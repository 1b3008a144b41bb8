/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that only move elements: transposes, slices, and packing into panels, which are padded
 * with zeros. Most weights need only such kernels. Expressed by strides they run at the speed of
 * memory, one box of points at a time.
 */
#ifndef CODEGEN_WEIGHTS_MOVE_H
#define CODEGEN_WEIGHTS_MOVE_H

#include "ir/kernel/kernel.h"

/* out[x] = in[base + sum from[i] * x[i]], and zero where edge_base + sum edge[i] * x[i] >= 0. */
typedef struct Move {
	int n;
	int size;		   /* bytes of an element: 1, 2, 4, 8 */
	int64_t extent[MAX_ITERS]; /* in the order of the output, the last contiguous */
	int64_t from[MAX_ITERS], edge[MAX_ITERS];
	int64_t base, edge_base;
	int64_t total; /* elements of the input */
	int param;     /* which operand of the kernel it is */
} Move;

/* N contiguous elements of SIZE bytes. */
Move move_plain(int64_t n, int size);
/* Whether K, one map of constant extents into plain memory, is a move. */
bool kernel_move(Kernel *k, Move *out);
/* The first and the last element of the input that the box LO <= x < HI reads; false if it reads
 * none. */
bool move_range(const Move *m, const int64_t *lo, const int64_t *hi, int64_t *first, int64_t *last);
/* Writes the box to DST, contiguously. */
void move_box(const Move *m, const void *src, const int64_t *lo, const int64_t *hi, void *dst);
/* Steps X to the next point of the box of its first N iterators, the last fastest. After the last
 * point X is LO again and the result is false. */
bool move_step(int n, const int64_t *lo, const int64_t *hi, int64_t *x);

#endif
