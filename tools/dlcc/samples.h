/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SampleList of a model's inputs, from the folder of --calibrate:
 *
 *     DIR/NAME/x.npy  DIR/NAME/y.npy     a folder for each sample, a file for each input
 *     DIR/test_data_set_K/input_N.pb     likewise: the input is the one in the file's name, in its
 *                                        contents (.pb), or with its number
 *     DIR/x.npy  DIR/y.npy               one sample; several samples lie along dims that are symbolic
 *     DIR/1.npy  DIR/2.npy               of a model with one input: a sample each
 *
 * Files with other suffixes, and output_N.pb, are ignored.
 */
#ifndef TOOLS_DLCC_SAMPLES_H
#define TOOLS_DLCC_SAMPLES_H

#include "ir/graph/graph.h"
#include "tools/dlrun/array.h"

typedef struct SampleList {
	Array **at; /* of each sample, the inputs in the model's order */
	int n, cap;
} SampleList;

/* Reads the samples of DIR for the inputs of G, in the order of their names. Each has room for
 * MORE inputs. False after a diagnostic. */
bool samples_read(Arena *a, Diag *d, const char *dir, const Graph *g, int more, SampleList *out);

#endif
