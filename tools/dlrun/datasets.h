/* SPDX-License-Identifier: Apache-2.0 */
/* Reading ONNX's data sets: DIR/{input,output}_N.pb, assigned by the names in them. */
#ifndef TOOLS_DLRUN_DATASETS_H
#define TOOLS_DLRUN_DATASETS_H

#include "tools/dlrun/array.h"

/* The noise of data set K of the case in DIR (case.json), 0 when nothing is known. */
double data_noise(Arena *a, const char *dir, int k);
/* Reads WHAT_0.pb, WHAT_1.pb, ... of the data set in DIR; the number of them, or -1 after a
 * diagnostic. File K has a value of FORM[K], tensors from N_FORMS on: such files are in the
 * model's order where it takes or gives other values than tensors. */
int data_read(Arena *a, Diag *d, const char *dir, const char *what, const dl_form *form, int n_forms,
	      Array **arrays);
/* The array for NAMES[I], or null: the one of that name. If there is none, the one at number I,
 * unless it has a name and at least one of the arrays has a name of NAMES. */
const Array *data_pick(const Array *arrays, int n, const char *const *names, int n_names, int i);
/* One of the N arrays, read from DIR, for each of the inputs NAMES, by data_pick; where there is
 * none that of OTHERWISE (which may be null) if that has a name; false after a diagnostic. */
bool data_assign(Diag *d, const char *dir, const char *const *names, int n_in, const Array *arrays, int n, Array *in,
		 const Array *otherwise);

#endif
