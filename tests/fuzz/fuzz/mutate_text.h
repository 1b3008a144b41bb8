/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutations of a model as text, and of the definitions of operators that a text may begin with
 * (docs/ir.md, docs/operators.md). A text is taken as words, numbers and marks; some are changed,
 * exchanged or repeated, and lines of other texts are put in. A part of the mutations is blind to
 * words, as in mutate.h.
 *
 * The same generator state gives the same text.
 */
#ifndef TESTS_FUZZ_MUTATE_TEXT_H
#define TESTS_FUZZ_MUTATE_TEXT_H

#include "tests/fuzz/fuzz/mutate.h"

/* A mutated copy of one of SEEDS, in A. */
Bytes mutate_text(Arena *a, Rng *r, const Seeds *seeds);

#endif
