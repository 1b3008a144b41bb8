/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of a kernel: sums over its threads, so that they do not depend on the order of
 * execution. A request is the memory access of one instruction of one warp. Global memory is
 * counted in sectors of 32 bytes, beside the fewest sectors that the request's distinct bytes fit
 * in. Shared memory has 32 banks of 4 bytes; a request of 8 or 16 bytes a thread goes in 2 or 4
 * phases; a conflict is a further pass within a phase.
 */
#ifndef TOOLS_PTXSIM_COUNT_H
#define TOOLS_PTXSIM_COUNT_H

#include "tools/ptxsim/ptx.h"

#include <stdio.h>

#define COUNTERS(X)                    \
	X(warp_instructions)           \
	X(mma)                         \
	X(barriers)                    \
	X(global_load_requests)        \
	X(global_load_sectors)         \
	X(global_load_sectors_fewest)  \
	X(global_load_bytes)           \
	X(global_store_requests)       \
	X(global_store_sectors)        \
	X(global_store_sectors_fewest) \
	X(global_store_bytes)          \
	X(shared_load_requests)        \
	X(shared_load_conflicts)       \
	X(shared_load_bytes)           \
	X(shared_store_requests)       \
	X(shared_store_conflicts)      \
	X(shared_store_bytes)          \
	X(local_bytes)                 \
	X(async_copies)                \
	X(shared_bytes)

typedef struct Counters {
	uint64_t inst[N_CLASSES]; /* instructions of threads */
#define X(name) uint64_t name;
	COUNTERS(X)
#undef X
} Counters;

void counters_add(Counters *to, const Counters *from);
/* The counters of one kernel over all its launches. */
typedef struct Stats {
	const char *kernel;
	uint64_t launches, blocks, threads;
	Counters c;
	struct Stats *next;
} Stats;

/* The record of KERNEL, made when first asked for. */
Stats *stats_of(const char *kernel);
void stats_clear(void);
/* A counter by its name in the JSON, or "inst.CLASS"; UINT64_MAX: there is none. */
uint64_t stats_get(const char *kernel, const char *name);
/* All records as JSON. */
void stats_write(FILE *out);

/* A request of WIDTH bytes by the lanes in MASK. */
void count_global(Counters *c, const uint64_t addr[32], uint32_t mask, unsigned width, bool store);
void count_shared(Counters *c, const uint64_t addr[32], uint32_t mask, unsigned width, bool store);

#endif
