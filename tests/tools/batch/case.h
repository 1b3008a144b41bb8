/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One case of a batch, in a process of its own. It reads the model and its data sets, evaluates
 * them, and writes the model's C: NAME.pre has the functions that cases may share, NAME.c the
 * kernels and the host stub. Then it waits for the name of a shared library that contains the
 * model, runs it, and compares.
 *
 * It reports through a pipe, one line each:
 *
 * begin PATH            the next verdict is about this path verdict STATUS PATH MESSAGE written
 * the C is complete none                  there is no C; the process ends
 */
#ifndef TESTS_TOOLS_BATCH_CASE_H
#define TESTS_TOOLS_BATCH_CASE_H

#include "tools/dlcc/options.h"

#include <stdio.h>

typedef struct RunOptions {
	Cli cli;         /* the options that dlcc has, too; with --weights-as eval of the compiled
			  * graph, which computes other numbers than the model, is the reference */
	const char *out; /* the folder for all output */
	const Target *target;
	/* not null: only path ptx, with code for this target, run on the GPU of this machine */
	const Target *gpu;
	/* not null: only path ptx, with code for all GPUs, kept in this folder and not run */
	const char *ptx;
	int level; /* -O of the C compiler */
	int effort; /* -O of dlcc */
	int size;  /* number of cases in one C file */
	int jobs;
	int seconds; /* processor time in seconds that one step of a case may take */
	/* also path ir: print, read and compile again, which must give the same C */
	bool roundtrip;
	/* also path int: on small integers, sums and products must equal eval bit by bit */
	bool integers;
	bool unproved;	/* no schedule is proved */
	bool kernels;	/* also run each kernel by itself, within eval's error bounds */
	bool in_place;  /* also with outputs in place of inputs, with the same results */
	bool keep;	/* do not remove the files in OUT */
} RunOptions;

/* Runs a case; never returns. NOISE: the least noise of the references, one number, or one for
 * each output: "1e-6,0". EVAL: evaluate first. FROM: a pipe with the names of libraries; TO: the
 * pipe for reports. */
_Noreturn void case_main(const RunOptions *o, const char *dir, const char *name, const char *noise,
			 bool eval, FILE *from, FILE *to);

#endif
