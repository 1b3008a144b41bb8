/* SPDX-License-Identifier: Apache-2.0 */
/* gen_host: prints the host stub, the C code that drives the kernels: tables for describe, the
 * computation of symbols, checks, the memory plan of the arena, and the sequence of launches. */
#ifndef CODEGEN_HOST_GEN_HOST_H
#define CODEGEN_HOST_GEN_HOST_H

#include "codegen/c/gen_c.h"
#include "codegen/nvptx/nvptx.h"

typedef enum WeightsKind { WEIGHTS_NONE, WEIGHTS_EMBEDDED, WEIGHTS_SECTION, WEIGHTS_FILE } WeightsKind;

typedef struct HostOpts {
	const char *name;      /* prefix of the exported symbols */
	const char *version;
	uint64_t hash; /* hash of the model and the options */
	WeightsKind weights;
	const char *weights_file;
	uint64_t weights_hash;
	int64_t weights_size;              /* bytes of all weights (weights_size) */
	const unsigned char *weights_data; /* WEIGHTS_EMBEDDED: their bytes */
	/* path, as a string of the assembler, of the file that holds the weights while this C is
	 * compiled; null: their bytes are printed */
	const char *weights_path;
	/* suffix of static objects, if several models share a file; null: none */
	const char *suffix;
	bool one_file;      /* kernels are in the same file, so there are no prototypes */
	GenPtx *const *ptx; /* kernels of M->gpu, by target; null: no GPUs */
	GenC *beside;       /* kernels of M->gpu that run on the host */
} HostOpts;

/* Prints the host stub of M, which has passed memplan. G[t] collects target T's functions:
 * gen_c_stage is called here for every stage, so kernels are printed afterwards. The same holds for
 * O->beside, and for gen_nvptx_stage; PTX is included if it has been compiled. M->gpu becomes a
 * separate program, before that of M; without targets M has none. False after a diagnostic. */
bool gen_host(Module *m, GenC *const *g, const HostOpts *o, StrBuf *b);

/* ---- launch.c ---- */

/* Appends the name that profiles give to the kernel of N with schedule S: the model's nodes, and
 * the guard of a variant. A is for temporary data. */
void gen_host_kernel_name(StrBuf *b, Arena *a, const Node *n, const Schedule *s);

/* ---- describe.c ---- */

/* Prints the header that an application includes: the two functions, and the inputs and outputs in
 * comments. */
void gen_header(Module *m, const HostOpts *o, StrBuf *b);

#endif
