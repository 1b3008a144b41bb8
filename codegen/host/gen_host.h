/* SPDX-License-Identifier: Apache-2.0 */
/* gen_host: prints the host stub, the C that drives the kernels: tables for describe, the binding of symbols,
 * checks, the plan of the arena, and one launch after the other. */
#ifndef CODEGEN_HOST_GEN_HOST_H
#define CODEGEN_HOST_GEN_HOST_H

#include "codegen/c/gen_c.h"
#include "codegen/nvptx/nvptx.h"

typedef enum WeightsKind { WEIGHTS_NONE, WEIGHTS_EMBEDDED, WEIGHTS_SECTION, WEIGHTS_FILE } WeightsKind;

typedef struct HostOpts {
	const char *name;      /* prefix of the exported symbols */
	const char *version;
	uint64_t hash;         /* of the model and the options */
	WeightsKind weights;
	const char *weights_file;
	uint64_t weights_hash;
	int64_t weights_size;  /* of all: weights_size */
	const unsigned char *weights_data; /* WEIGHTS_EMBEDDED: the bytes to print */
	const char *weights_path;          /* of the file that holds them while this C is compiled, for a string of the assembler, or null: they are printed */
	const char *suffix;    /* of static objects, where several models stand in one file; null: none */
	bool one_file;         /* kernels stand in this file: no prototypes */
	GenPtx *const *ptx;    /* of M->gpu: by target; null: no GPUs */
	GenC *beside;          /* of M->gpu: its kernels on the host */
} HostOpts;

/* M after memplan; G[t] has target T's functions (gen_c_stage is called here for every stage, so kernels are
 * printed after this; the same holds for gen_nvptx_stage, whose PTX is printed here where it is there already, and for
 * O->beside). M->gpu becomes a program of its own before M's; without targets M has none. False after a diagnostic. */
bool gen_host(Module *m, GenC *const *g, const HostOpts *o, StrBuf *b);
/* The header that an application includes: the two functions, and names of inputs and outputs. */
void gen_header(Module *m, const HostOpts *o, StrBuf *b);

#endif
