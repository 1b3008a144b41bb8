/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A compiled model, opened: the shared library, its API, a loaded model and one context. Outputs
 * are served by the context, and borrowed until the next run.
 */
#ifndef TOOLS_DLRUN_SESSION_H
#define TOOLS_DLRUN_SESSION_H

#include "tools/dlrun/array.h"
#include "tools/dlrun/roof.h"

typedef struct Session {
	Arena *arena;
	Diag *diag;
	const char *path;
	void *library;
	const dl_api *api;
	const dl_desc *desc;
	dl_model *model;
	dl_context *context;
	dl_tensor *in, *out;
	dl_tensor *items; /* room for those of the inputs */
	int64_t n_items;
	int64_t **out_shape;
	dl_load_options options; /* that it was loaded with */
	const Array *given; /* the inputs of the first run, if there was one */
	double bytes, all_bytes; /* of inputs and outputs of the last run; of those and the GPU's weights, of all runs */
	uint64_t runs;
} Session;

/* Opens the library, without loading the model; false after a diagnostic. */
bool session_open(Session *s, Arena *a, Diag *d, const char *path);
/* Loads, and makes the context; false after a diagnostic. */
bool session_load(Session *s, const dl_load_options *options);
/* S, opened and loaded as another session is, on a CPU that has no more than FEATURES (DL_CPU_):
 * a model and a context of its own. False where the artifact has no variant for it. Closed by
 * session_unload. */
bool session_load_variant(Session *s, uint64_t features);
void session_unload(Session *s);
/* Unloads, and closes the library. */
void session_close(Session *s);

/* Symbol I is a dim of inputs, or may be part of one. Others are computed from these. */
bool session_dim_of_inputs(const Session *s, int32_t i);
const dl_io *session_in(const Session *s, int32_t i);
const dl_io *session_out(const Session *s, int32_t o);
/* The device of the loaded model: "cpu", "cuda:0 NVIDIA H200". */
const char *session_device(const Session *s);
/* Properties of the GPU; zeros on the CPU. */
dl_device_info session_gpu(const Session *s);
/* Runs on in[n_in], in the order of the model. Returns the API's status; `text` has the message. */
int session_run(Session *s, const Array *in);
/* Output o of the last run; items are in the arena. */
Array session_output(const Session *s, int32_t o);
/* Copies all outputs of the last run into the arena. */
Array *session_copy_outputs(const Session *s);
/* How exactly output O is determined. */
dl_accuracy session_accuracy(const Session *s, int32_t o);
/* The 16-bit types that intermediates are rounded to: DL_DESC_F16, DL_DESC_BF16. */
uint32_t session_inside(const Session *s);
/* Reports a failure of the API; false. */
bool session_fail(const Session *s, const char *what, int status);

/* TEXT, which comes from a model, for a terminal. */
const char *session_shown(const Session *s, const char *text);

/* Prints the text of --describe. */
void session_describe(const Session *s, FILE *f);
/* The type of IO as a text: "f32[N, 64]", "seq(f32[?])". */
const char *session_type(const Session *s, const dl_io *io);
/* Input i of the model without data, where it has a default: a run then takes that; false: it
 * has none. */
bool session_default(const Session *s, int32_t i, Array *v);
/* The symbols' values that dims of inputs IN are, -1 for others. */
int64_t *session_dims(const Session *s, const Array *in);
/* Inputs for a benchmark: shapes from SYM_VALUES (one per symbol), random data. Null after a
 * diagnostic. */
Array *session_random(Session *s, const int64_t *sym_values);

/* datasets.c: runs the data sets of DIR (which is one, or has test_data_set_K) and prints a line
 * per output, and one for all. False when one fails. */
typedef struct DataOptions {
	double rtol, atol, noise; /* negative: not given */
} DataOptions;

/* ---- datasets.c ---- */

bool session_data(Session *s, const char *dir, DataOptions o);

/* ---- report.c ---- */

/* Prints the outputs of the last run, a line each; session_profile the kernels by time as a table,
 * session_profile_json as a line of JSON. */
void session_outputs(const Session *s, FILE *f);
/* ROOF is what kernels are compared with; a figure of 0 is not known. */
void session_profile(const Session *s, FILE *f, const Roof *roof);
void session_profile_json(const Session *s, FILE *f, const Roof *roof);
/* S as a JSON string. */
void put_json(FILE *f, const char *s);

/* ---- bench.c ---- */

/* The threads of a run that asks for THREADS: as many as the runtime takes. */
int session_threads(int threads);

typedef struct Timing {
	double median_ms, p95_ms, min_ms;
	double cpu_ms; /* the median of the processors' time of a run: of all threads of the process */
	int runs;
	long peak_rss_kib;
} Timing;

/* Times runs on inputs IN. False after a diagnostic. */
bool session_bench(Session *s, const Array *in, double seconds, Timing *t);
/* As one line of JSON; SYM_VALUES: those of the inputs, -1 where it is not known. */
void session_timing(const Session *s, FILE *f, const Timing *t, const int64_t *sym_values, int threads);

#endif
