/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files that write the weights share: weights.c the whole, move_run.c boxes of elements that only move,
 * evaluate.c kernels that compute.
 */
#ifndef CODEGEN_WEIGHTS_WEIGHTS_IMPL_H
#define CODEGEN_WEIGHTS_WEIGHTS_IMPL_H

#include "codegen/weights/move.h"
#include "codegen/weights/weights.h"

#include <stdatomic.h>

enum { WEIGHTS_BLOCK = 16 << 20 }; /* bytes at a time */

typedef struct MoveJob MoveJob;

typedef struct WeightsRun {
	Module *m;
	int fd, threads;
	int64_t file;              /* where in FD the weights begin */
	char *base;                /* they, mapped */
	const WeightsFile *layout; /* of GPUs; null: all stands where the plan says */
	void **data;               /* by Value.id of bases: where the elements are */
	size_t *mine; /* by Value.id: bytes of an anonymous mapping made here, 0 where none */
	VEC(MoveJob *) jobs;    /* boxes that wait; nothing reads what they write before they ran */
	size_t room;            /* for the largest */
	atomic_int next, fault; /* the job to take; an errno */
} WeightsRun;

/* ---- weights.c ---- */

/* Where diagnostics point that no node is the cause of. */
DiagLoc weights_here(const WeightsRun *w);
/* Bytes of V. */
size_t weights_bytes(Module *m, const Value *v);
/* Where the elements of V are: a constant's, or computed. */
void *weights_source(WeightsRun *w, Value *v);

/* ---- move_run.c ---- */

/* Pages of N bytes at P that were read or written may leave memory: they are the file's. */
void weights_drop_pages(const void *p, size_t n);
/* How a box of N iterators is cut into blocks of about WANT points: along its two longest, AT[0] the longest, by
 * STEP. The number of cuts; 0: it is one block. */
int weights_cut(const int64_t *extent, int n, int64_t want, int at[2], int64_t step[2]);
/* M from SRC, MAPPED where that is a file's, to offset AT of the weights, once the jobs run. */
void weights_add_jobs(WeightsRun *w, const Move *m, const void *src, bool mapped, int64_t at);
/* Runs the jobs that wait, several at once. False after a diagnostic. */
bool weights_run_jobs(WeightsRun *w);

/* ---- evaluate.c ---- */

/* Computes K, node N's, where its outputs have been placed. False after a diagnostic. */
bool weights_interpret(WeightsRun *w, Node *n, Kernel *k);

#endif
