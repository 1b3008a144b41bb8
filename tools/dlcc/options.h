/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line of dlcc says. */
#ifndef TOOLS_DLCC_OPTIONS_H
#define TOOLS_DLCC_OPTIONS_H

#include "base/diag.h"
#include "frontend/import.h"
#include "ir/graph/definition.h"
#include "tools/dlcc/warnings.h"

#include <stdint.h>

enum { MAX_DIMS = 64, MAX_KEEP = 256 };

/* --dim NAME=LO..HI */
typedef struct DimOption {
	const char *text; /* as it was given; the name is its beginning */
	size_t name;      /* bytes of it */
	int64_t lo, hi;
} DimOption;

typedef struct Cli {
	const char *input, *output, *name, *cc, *sysroot, *runtime, *weights, *save_temps;
	const char *cubin, *ptxas, *tiles, *schedule, *cache;
	const char *dump, *dump_node, *trace;
	const char *calibrate, *caches, *keep[MAX_KEEP];
	int nkeep;
	double max_error; /* negative: none is given */
	DimOption dims[MAX_DIMS];
	int ndims;
	Overridable overridable;
	DefinitionFiles ops;
	const char *targets;
	int level, threads, rewrite_limit, list_tiles, winograd, slice, tune_seconds, int4_group,
		cache_size;
	bool int8, tune, verbose, dry, check, time_passes, dump_all, sanitize, shuffle, verify,
		tf32, flush, embed, explain, int4, int8_weights, int8_activations, bf16_activations,
		bf16, fp16;
	Warnings warnings;
	DiagRule rules[WARNINGS_ROOM]; /* those of DIAG */
	Diag diag;
} Cli;

/* Fills C, which has its defaults, from ARGV. False after a diagnostic: wrong usage. */
bool options_read(Cli *c, int argc, char **argv);
/* The folders of what is to be written are there; else a diagnostic and false. */
bool options_folders(Cli *c);
/* Whether the output is a model, as text or ONNX, and no code. */
bool output_is_model(const Cli *c);
/* A diagnostic of wrong usage; false. */
bool options_fault(Cli *c, const char *text);
/* Prints what was asked for about dlcc itself; false: nothing was. */
bool options_answer(int argc, char **argv);

#endif
