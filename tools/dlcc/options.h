/* SPDX-License-Identifier: Apache-2.0 */
/* The parsed command lines of dlcc and dlcc-opt. option_table.c has a row for each option. */
#ifndef TOOLS_DLCC_OPTIONS_H
#define TOOLS_DLCC_OPTIONS_H

#include "base/diag.h"
#include "frontend/import.h"
#include "ir/graph/definition.h"
#include "passes/module.h"
#include "tools/dlcc/warnings.h"

#include <stdint.h>

enum { MAX_DIMS = 64, MAX_KEEP = 256, MAX_PASSES = 64 };
enum { OPTIONS_ROOM = 96 }; /* for the rows of the table */

/* Programs that take options, as bits. RUNNER: tests/tools/batch.c, which also has other
 * options. */
typedef enum ProgramBit { DLCC = 1, DLCC_OPT = 2, RUNNER = 4 } ProgramBit;

/* --dim NAME=LO..HI */
typedef struct DimOption {
	const char *text; /* as it was given; the name is its beginning */
	size_t name;      /* bytes of it */
	int64_t lo, hi;
} DimOption;

typedef struct Cli {
	ProgramBit of;
	const char *program;      /* its name, for messages */
	bool given[OPTIONS_ROOM]; /* by row of the table */
	const char *input, *output, *name, *cc, *sysroot, *runtime, *weights, *save_temps;
	const char *depfile, *soname, *glibc;
	const char *ptxas, *schedule, *cache;
	const char *dump, *dump_node, *trace;
	const char *calibrate, *keep[MAX_KEEP];
	int nkeep;
	double max_error; /* negative: none is given */
	DimOption dims[MAX_DIMS];
	int ndims;
	Overridable overridable;
	DefinitionFiles ops;
	const char *targets;
	const Pass *passes[MAX_PASSES];
	int npasses;
	DType weight_type, half_activations, caches; /* 0: none is given */
	int level, threads, rewrite_limit, winograd, slice, tune_seconds, weight_group, cache_size;
	bool int8, tune, verbose, dry, check, time_passes, dump_all, sanitize, shuffle, verify,
		tf32, flush, embed, explain, int8_activations, cubin, schedules, quiet;
	Warnings warnings;
	DiagRule rules[WARNINGS_ROOM]; /* the options of DIAG */
	Diag diag;
} Cli;

/* The defaults of the program OF, which messages call PROGRAM. */
void options_begin(Cli *c, ProgramBit of, const char *program);
/* Fills C, which has its defaults, from ARGV. False after a diagnostic: wrong usage. */
bool options_read(Cli *c, int argc, char **argv);
/* Parses ARGV[*i]; advances *i over a value that is a separate argument. False after a
 * diagnostic. */
bool options_argument(Cli *c, char **argv, int *i);
/* The options of C for passes. */
Options options_of_passes(const Cli *c);
/* Checks that the folders of all output files exist; else a diagnostic and false. */
bool options_folders(Cli *c);
/* A given option that needs a GPU target; null: none. */
const char *options_for_gpus(const Cli *c);
/* Whether --dump-ir=V is about the code for GPUs, and not a pass. V may be null. */
bool dump_of_gpu(const char *v);
/* A given option that only passes before `sched`, and that pass, see; null: none. */
const char *options_early(const Cli *c);
/* Whether the output is a model, as text or ONNX, and no code. */
bool output_is_model(const Cli *c);
/* A diagnostic of wrong usage; false. */
bool options_fault(Cli *c, const char *text);

/* ---- option_help.c ---- */

/* Prints the information about the program OF that was asked for; false: none was. */
bool options_answer(ProgramBit of, int argc, char **argv);

/* ---- progress.c ---- */

/* Shows what C's program does now, as printf has it, in a line of stderr that the next call
 * replaces; null: removes the line. Only on a terminal, and not with -v or --json. */
void show_progress(const Cli *c, const char *format, ...) BASE_PRINTF(2, 3);

#endif
