/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's peak rates, measured: the bounds to which a profile compares kernels.
 *
 *   - multiply-adds of f32 on registers alone, with vectors of the widest kind that the machine has
 *     and 14 independent sums, so that latency is hidden (4 cycles, 2 units);
 *   - reads of memory: each thread reads 4 streams of its own, as kernels read several operands,
 *     from huge pages where the system has them;
 *   - reads of the L2 cache: of 256 KiB for each thread, in 4 streams.
 *
 * All threads run at the same time, so the figures are those of that number of threads. The best of
 * several rounds counts, since another process can only make a round slower.
 */
#ifndef TOOLS_DLRUN_ROOF_H
#define TOOLS_DLRUN_ROOF_H

typedef struct Roof {
	double flops; /* f32 operations in a second; a multiply-add is two */
	double bytes; /* bytes from memory in a second */
	double l2;    /* bytes from the L2 cache in a second */
} Roof;

enum { ROOF_FLOPS = 1, ROOF_BYTES = 2, ROOF_L2 = 4 };

/* Measures what the bits WHAT name, with THREADS threads (at least 1), for about MS milliseconds
 * each. What is not asked for, or cannot be measured (no memory, no thread), is 0. */
Roof roof_measure(unsigned what, int threads, double ms);

#endif
