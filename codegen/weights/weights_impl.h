/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files that write the weights: weights.c (the whole), move_run.c (kernels that only
 * move elements) and evaluate.c (kernels that compute).
 */
#ifndef CODEGEN_WEIGHTS_WEIGHTS_IMPL_H
#define CODEGEN_WEIGHTS_WEIGHTS_IMPL_H

#include "codegen/weights/move.h"
#include "codegen/weights/weights.h"

#include <stdatomic.h>

enum { WEIGHTS_BLOCK = 16 << 20 }; /* bytes that are processed at a time */

typedef struct MoveJob MoveJob;

typedef struct WeightsRun {
	Module *m;
	int fd, threads;
	int64_t file;              /* offset of the weights in FD */
	char *base;                /* the weights, mapped */
	const WeightsFile *layout; /* for GPUs; null: offsets are those of the memory plan */
	void **data;               /* by Value.id of bases: the elements */
	size_t *anonymous; /* by Value.id: bytes of an anonymous mapping that this run made, or 0 */
	VEC(MoveJob *) jobs;    /* queued boxes; they run before anything reads their results */
	size_t room;            /* bytes of the largest job */
	atomic_int next, fault; /* the next job to take; an errno, or 0 */
} WeightsRun;

/* ---- weights.c ---- */

/* The location of diagnostics that no node causes. */
DiagLoc weights_here(const WeightsRun *w);
/* Bytes of V. */
size_t weights_bytes(Module *m, const Value *v);
/* The elements of V, a constant or a computed value. */
void *weights_source(WeightsRun *w, Value *v);

/* ---- move_run.c ---- */

/* Cuts a box of N iterators into blocks of about WANT points, along its two longest iterators:
 * AT[0] is the longest; STEP has the sizes. Returns how many of the two are cut; 0: the box is
 * one block. */
int weights_cut(const int64_t *extent, int n, int64_t want, int at[2], int64_t step[2]);
/* Queues move M from SRC, which is a mapped file if MAPPED, to offset AT of the weights. */
void weights_add_jobs(WeightsRun *w, const Move *m, const void *src, bool mapped, int64_t at);
/* Runs the queued jobs in parallel. False after a diagnostic. */
bool weights_run_jobs(WeightsRun *w);

/* ---- evaluate.c ---- */

/* Computes K, the kernel of node N, whose outputs have memory. False after a diagnostic. */
bool weights_interpret(WeightsRun *w, Node *n, Kernel *k);

#endif
