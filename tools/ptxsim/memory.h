/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Global memory: allocations in a separate address space, so that the host cannot use a device
 * pointer by mistake. Each ends exactly at its size, with unmapped addresses after it. A bit for
 * each byte records whether it was ever written. Pinned host memory is an allocation whose address
 * is the host's.
 */
#ifndef TOOLS_PTXSIM_MEMORY_H
#define TOOLS_PTXSIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of unwritten bytes: a large negative number in any type of floats (-65376 in f16,
 * -2.6e36 in f32), and a wild index. */
enum { POISON = 0xfb };

typedef enum AllocKind { A_DEVICE, A_PINNED, A_MODULE, A_CONST } AllocKind;

typedef struct Alloc {
	uint64_t addr, size;
	uint8_t *host;
	uint8_t *init; /* bits; null: all written */
	AllocKind kind;
	unsigned flags; /* cuMemHostAlloc's; of A_DEVICE: the device */
} Alloc;

/* Null: no memory, or more than the device has. The contents are poison. */
Alloc *memory_new(uint64_t size, AllocKind kind);
void memory_free(Alloc *a);
/* The allocation with the greatest address not above ADDR, null without one. It need not reach
 * ADDR. */
Alloc *memory_below(uint64_t addr);
/* The allocation that holds the SIZE bytes at ADDR, else null. */
Alloc *memory_at(uint64_t addr, uint64_t size);
uint64_t memory_used(void);
void memory_limit(uint64_t bytes);
uint64_t memory_total(void);
int memory_count(void);
/* Bytes [AT, AT + N) of A are written now. Threads may do this at once. */
void memory_mark(Alloc *a, uint64_t at, uint64_t n);
bool memory_is_init(const Alloc *a, uint64_t at, uint64_t n);
/* Copies N bytes with the record of which are written; null: the pointer is a host address. */
void memory_copy(Alloc *to, uint8_t *dst, const Alloc *from, const uint8_t *src, uint64_t n);

#endif
