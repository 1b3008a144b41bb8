/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file through the whole compiler, in this process: read, imported, every pass with the
 * verifier after it, C as text. What is accepted is evaluated on small random inputs, as it was
 * imported and as it was compiled, and the two must agree.
 */
#ifndef TESTS_FUZZ_TRY_H
#define TESTS_FUZZ_TRY_H

#include "tests/fuzz/fuzz/mutate.h"

#include <stdbool.h>

typedef enum Outcome {
	REFUSED,     /* with a diagnostic */
	ACCEPTED,    /* but not run: no tensor inputs, or sizes beyond what a test wants */
	RAN,         /* compiled and original agree */
	FAULTED,     /* the run ended in a diagnostic, in both */
	BROKEN       /* a promise was not kept */
} Outcome;

typedef struct Tried {
	Outcome outcome;
	char phase[24]; /* where it is, or where it ended */
	char why[400];  /* BROKEN: what; FAULTED: the diagnostic */
} Tried;

/* FILE is a model as text where it is TEXT; where ONE_FAULT, a refusal must have one diagnostic for
 * each node or value that it names. T is written as the work goes on, so that another process can
 * read it after a crash. Where SAMPLE is not null and the run ended well or in a fault, the ONNX
 * model and its inputs (and outputs) are written to the folder SAMPLE as a case: model.onnx,
 * test_data_set_0; where it ended well and the outputs have a noise, with a line for
 * tests/tools/batch in the file "case". */
void try_file(Tried *t, Bytes file, bool text, bool one_fault, Rng *r, const char *sample);

#endif
