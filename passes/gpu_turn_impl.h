/* SPDX-License-Identifier: Apache-2.0 */
/* Maps that turn: what passes/gpu_turn.c decides and passes/gpu_turn_emit.c writes. */
#ifndef PASSES_GPU_TURN_IMPL_H
#define PASSES_GPU_TURN_IMPL_H

#include "passes/gpu_impl.h"

enum { SIDE = 32, LONG = 4 * SIDE, MOST_LOADS = 4 };

/* One way through the tile. */
typedef struct Way {
	const Buf *buf; /* what is accessed, at AT, */
	Expr *at;
	Affine a; /* which is this */
	int along[MAX_ITERS],
		n; /* iterators (of Points) along which memory runs on, innermost first */
} Way;

typedef struct Turn {
	LBuild *b;
	Points *p;
	Way out, in[MOST_LOADS];
	Expr *load[MOST_LOADS]; /* those that are turned */
	int n;
	int common; /* iterators along which the write and the loads both run first */
	int64_t tile[MAX_ITERS]; /* of each iterator, so many points; 1: the tile does not run along it */
	Expr *first[MAX_ITERS]; /* where the tile begins */
} Turn;

int turn_bytes(const Way *w);      /* of an element */
int64_t turn_sector(const Way *w); /* elements of a sector */
/* The tile has all of iterator I. */
bool turn_whole(const Turn *t, int i);
int64_t turn_points(const Turn *t); /* of a tile */
/* Elements of W in a tile that follow one another in memory; *N: along so many of its iterators. */
int64_t turn_run(const Turn *t, const Way *w, int *n);
/* Runs of W do not all begin where sectors do, or there is no saying. */
bool turn_ragged(const Turn *t, const Way *w);
/* The iterators that the tile runs along, as W goes through them: those of its run are first. How many. */
int turn_order(const Turn *t, const Way *w, int *order);
/* By iterator: its step in the tile of W. The elements that it has. */
int64_t turn_steps(const Turn *t, const Way *w, int64_t *steps);

/* The stage of S, which T is about, whose tile is chosen. */
void turn_emit(Turn *t, Stmt *s);

#endif
