/* SPDX-License-Identifier: Apache-2.0 */
/* dlcc --tune: measures decisions for a model's kernels on this machine, and writes the best
 * ones. */
#ifndef TOOLS_DLCC_TUNE_H
#define TOOLS_DLCC_TUNE_H

#include "codegen/package/package.h"
#include "tools/dlcc/options.h"

/* Writes the file of decisions C->output for M, after all passes. O: options for artifacts. BEGIN:
 * the start of the time limit. False after a diagnostic. */
bool tune(Cli *c, Module *m, const PackageOpts *o, double begin);

/* ---- measure.c ---- */

/* Seconds of a clock. */
double tune_now(void);

/* Times of an artifact, in memory that processes share. */
typedef struct KernelTimes {
	int n; /* kernels, at most */
	size_t bytes;
	/* by number in the profile: the least ns of a run, in every other batch of runs, and in
	 * the batches between these; 0: it did not run */
	double *least[2];
	/* seconds of the whole model: the least, and the last measurement's median */
	double run, median;
} KernelTimes;

/* For N kernels; null: there is no memory. */
KernelTimes *tune_times(int n);
void tune_times_free(KernelTimes *t);
void tune_times_clear(KernelTimes *t);
/* Times the artifacts PATH for SECONDS. Reduces the least times in TO by those of this measurement.
 * Ends after MOST seconds: with *LATE, or with a diagnostic if LATE is null. INPUT: the model, for
 * messages. */
bool tune_measure(Diag *d, const char *input, const char *const path[2], double seconds,
		  double most, KernelTimes *const to[2], bool *late);

#endif
