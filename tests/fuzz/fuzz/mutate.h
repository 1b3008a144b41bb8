/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutations of model files that know the schema: a file is read into a tree of fields by
 * protobuf-c's descriptors, some of its numbers, names and messages are changed, and it is written
 * again. A part of the mutations is blind to the schema: flipped bits, cut ends, bytes of another
 * file.
 *
 * The same generator state gives the same file.
 */
#ifndef TESTS_FUZZ_MUTATE_H
#define TESTS_FUZZ_MUTATE_H

#include "base/arena.h"
#include "base/vec.h"

#include <stdbool.h>

typedef struct Bytes {
	const uint8_t *p;
	size_t n;
} Bytes;

typedef VEC(Bytes) Seeds;

/* A generator of numbers; any state will do. */
typedef struct Rng {
	uint64_t s;
} Rng;

uint64_t rng_next(Rng *r);
/* Below N, which is not 0. */
uint64_t rng_below(Rng *r, uint64_t n);
/* True PERCENT times of 100. */
bool chance(Rng *r, unsigned percent);

/* A mutated copy of one of SEEDS, in A. */
Bytes mutate(Arena *a, Rng *r, const Seeds *seeds);
/* B changed blindly: flipped bits, a cut end, bytes of one of SEEDS. */
Bytes change_bytes(Arena *a, Rng *r, const Seeds *seeds, Bytes b);

#endif
