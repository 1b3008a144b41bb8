/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One case of a batch, in a process of its own. It reads the model and its data sets, evaluates them, and
 * writes the model's C: NAME.pre, the functions that cases may share, and NAME.c, kernels and host stub.
 * Then it waits for the name of a shared library that holds the model, runs it, and compares.
 *
 * What it tells goes up a pipe, a line each:
 *   begin PATH            the next verdict will be about this
 *   verdict STATUS PATH MESSAGE
 *   written               the C is there
 *   none                  there is no C; the process ends
 */
#ifndef TESTS_TOOLS_BATCH_CASE_H
#define TESTS_TOOLS_BATCH_CASE_H

#include "passes/module.h"

#include <stdio.h>

typedef struct RunOptions {
	const char *out; /* folder for what is made */
	const char *cc;
	const Target *target;
	const Target *gpu; /* not null: path ptx alone, code for it, run on the GPU that there is */
	const char *ptx;   /* not null: path ptx alone, code for every GPU, kept in this folder and not run */
	int level; /* -O of the C compiler */
	int effort; /* -O of dlcc */
	int size;  /* cases in one C file */
	int jobs;
	int seconds;	/* processor time that a case may take for one step */
	bool sanitize;	/* generated C under ASan and UBSan */
	bool roundtrip; /* also path ir: printed, read and compiled again, the same C */
	bool integers;	/* small integers as inputs; sums and products bit-equal to eval */
	bool kernels;	/* also each kernel by itself, within eval's bounds */
	bool keep;	/* the files in OUT stay */
} RunOptions;

/* Never returns. NOISE: of the reference, at least. EVAL: evaluate first. FROM: names of libraries; TO: lines as
 * above. */
_Noreturn void case_main(const RunOptions *o, const char *dir, const char *name, double noise,
			 bool eval, FILE *from, FILE *to);

#endif
