/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The noise of a model's outputs: by how much they move when nothing that matters changes. A model
 * that subtracts nearly equal numbers, say, amplifies the rounding of f32, and two right results of
 * it differ by more than a fixed tolerance allows. Two ways to measure it, the first that can be
 * taken:
 *
 *   moving inputs by one ulp
 *       The model runs again on float inputs whose elements are moved by a unit in the last place, up
 *       or down at random. It is the unit of f16 or bf16 if values inside are of that type and it is
 *       coarser: rounding would undo a smaller move. Whole numbers stay, since steps (Ceil, Mod,
 *       comparisons) are often at them, and so do inputs that sizes depend on.
 *   comparing the artifact's CPU variants
 *       where that moves no output: x86-64-v2, v3 and v4 sum in other orders.
 *
 * A result that two runs on the same inputs do not agree on has no noise but a fault: nothing is
 * measured then.
 */
#ifndef TOOLS_DLRUN_NOISE_H
#define TOOLS_DLRUN_NOISE_H

#include "tools/dlrun/session.h"

typedef struct Noise {
	const char *measured_by; /* null: nothing was measured */
	const char *why_not;     /* then: why */
	double **moved; /* by output and element, absolute; null for outputs that are not floats */
} Noise;

/* Measures the noise of the run of S on IN, which gave GOT: copies, since S runs again. Memory
 * is S's arena's. */
Noise noise_measure(Session *s, const Array *in, const Array *got);

#endif
