/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of dlcc, dlcc-opt and tests/tools/batch, in the order of --help, and the constraints
 * between options. --help and --list-options print this table; tests/docs.py compares --help with
 * the manual pages.
 */
#include "tools/dlcc/option.h"

#define AT(member) .at = offsetof(Cli, member)
#define FLAG(member) .flag = offsetof(Cli, member)
#define LIST(member, n, room) AT(member), .count = offsetof(Cli, n), .most = (room)

/* Programs. */
enum { BOTH = DLCC | DLCC_OPT, WITH_RUNNER = DLCC | RUNNER, ALL = DLCC | DLCC_OPT | RUNNER };

/* Outputs with code, with code for CPUs, with compiled C, with the model's weights, and those that
 * passes change. */
enum {
	HAS_CODE = OUT_LIBRARY | OUT_C | OUT_PTX | OUT_SCHEDULE | OUT_NONE,
	HAS_CPU_CODE = OUT_LIBRARY | OUT_C | OUT_SCHEDULE | OUT_NONE,
	IS_COMPILED = OUT_LIBRARY | OUT_SCHEDULE | OUT_NONE,
	HAS_WEIGHTS = OUT_LIBRARY | OUT_C | OUT_NONE,
	HAS_PASSES = HAS_CODE | OUT_ONNX
};

const Option option_table[] = {
	{"-o", " FILE", "the output", DLCC, VALUE_OUTPUT, set_once, AT(output)},
	{"-o", " FILE", "where the graph is printed (default: standard output)", DLCC_OPT,
	 VALUE_OUTPUT, set_once, AT(output)},
	{"-p", " PASS,PASS", "the passes to run, in this order (default: none); may be repeated",
	 DLCC_OPT, VALUE_WORD, .set = set_passes},
	{"--name", "=NAME", "prefix of the exported symbols (default: from FILE)", DLCC, VALUE_WORD,
	 set_identifier, AT(name)},
	{"--target", "=LIST", "several, with commas: all in one artifact", DLCC, VALUE_WORD,
	 set_once, AT(targets), .more = help_targets},
	{"--target", "=NAME",
	 "the CPU or GPU, as dlcc --list-targets names it (default: cpu:x86-64-v3)", DLCC_OPT,
	 VALUE_WORD, set_once, AT(targets)},
	{"--cubin", "=yes", "also carry the GPU's code as compiled by ptxas", DLCC, VALUE_WORD,
	 set_yes, AT(cubin), .outputs = HAS_CPU_CODE, .gpu = true},
	{"--ptxas", "=FILE", "where ptxas is", DLCC, VALUE_PROGRAM, set_text, AT(ptxas)},
	{"--tf32", NULL, "GPUs may round the factors of f32 products to tf32; sm_80 and later",
	 BOTH, FLAG(tf32), .outputs = HAS_CODE, .gpu = true, .early = true},
	{"--flush-subnormals", NULL,
	 "CPUs take subnormal numbers, and results that would be, for zero", DLCC, FLAG(flush),
	 .outputs = HAS_CPU_CODE},
	{"--slice", "=N",
	 "CPUs run N elements of a batch for each thread at a time; 0: all (default: by the size of caches)",
	 WITH_RUNNER, VALUE_NUMBER, set_number, AT(slice)},
	{"--winograd", "=N",
	 "tiles of CPUs' convolutions by Winograd have at most N rows: 0 (none), 2 or 4 (default)",
	 BOTH, VALUE_NUMBER, set_winograd, AT(winograd), .early = true},
	{"--weights-as", "=FORMAT",
<<<<<<< HEAD
	 "weights of products become i8, with a scale for each column; i4:GROUP, with one for each GROUP terms of it\n"
	 "(i4: 32); or bf16 or f16, with sums in f32",
	 ALL, VALUE_WORD, set_weights, .outputs = HAS_PASSES, .early = true},
	{"--activations-as", "=FORMAT",
	 "f16, bf16: on GPUs, what kernels store for one another; bf16: on CPUs, the operand of bf16 weights; i8: on\n"
	 "CPUs, the operand of narrow weights. Sums and all other arithmetic are of f32; may be repeated",
	 BOTH, VALUE_WORD, set_activations, .outputs = HAS_CODE, .early = true},
=======
	 "weights of matrix products become i8, with a scale for each column; i4:GROUP, with one for each GROUP terms\n"
	 "of it (i4: 32); or those of products and convolutions bf16 or f16, with sums in f32",
	 ALL, VALUE_WORD, set_weights, .outputs = HAS_PASSES},
	{"--activations-as", "=FORMAT",
	 "f16, bf16: on GPUs, what kernels store for one another; bf16: on CPUs, the operand of bf16 weights; i8: on\n"
	 "CPUs, the operand of i8 and i4 weights: give --weights-as, too. Sums and all other arithmetic are of f32; may be repeated",
	 BOTH, VALUE_WORD, set_activations, .outputs = HAS_CODE},
>>>>>>> wusers
	{"--caches-as", "=FORMAT",
	 "caches of f32 are inputs and outputs of f16, bf16, or i8 with scales instead", BOTH,
	 VALUE_WORD, set_caches, .outputs = HAS_PASSES, .early = true},
	{"--tiles", "=FILE", "GPUs' tiles of products, measured", DLCC, VALUE_FILE, set_text,
	 AT(tiles), .gpu = true, .early = true},
	{"--list-tiles", "=N", "print N candidates for each product's tile", DLCC, VALUE_NUMBER,
	 set_number, AT(list_tiles), .outputs = HAS_CODE, .reports = true, .gpu = true, .early = true},
	{"--schedule", "=FILE", "edited decisions for kernels; --dump-ir=decide prints such a file",
<<<<<<< HEAD
	 DLCC, VALUE_FILE, set_text, AT(schedule),
	 .outputs = HAS_CODE & ~(unsigned)OUT_SCHEDULE, .early = true},
=======
	 DLCC, VALUE_FILE, set_text, AT(schedule), .outputs = HAS_CODE & ~(unsigned)OUT_SCHEDULE},
>>>>>>> wusers
	{"--tune", "[=SECONDS]",
	 "search the fastest decisions on this machine, with -o FILE.schedule for --schedule (default 60)",
	 DLCC, VALUE_NUMBER, set_number, AT(tune_seconds), FLAG(tune), .outputs = OUT_SCHEDULE, .early = true},
	{"--int8", NULL,
	 "quantise products by weights, with ranges from the samples of --calibrate (docs/quantisation.md)",
	 DLCC, FLAG(int8), .outputs = HAS_PASSES & ~(unsigned)OUT_NONE, .early = true},
	{"--calibrate", "=DIR", "the folder of the samples", DLCC, VALUE_FOLDER, set_text,
	 AT(calibrate), .early = true},
	{"--max-error", "=E",
	 "with --calibrate: keep the results' error, relative to those in f32, at most E, by leaving some nodes in f32;\n"
	 "else with --weights-as: only the weights whose error is at most E",
	 DLCC, VALUE_NUMBER, set_error, AT(max_error)},
	{"--keep", "=NODE",
	 "with --int8, --weights-as, --activations-as: leave this node as it is; may be repeated",
	 DLCC, VALUE_WORD, set_item, LIST(keep, nkeep, MAX_KEEP)},
	{"--dim", " NAME=N, A..B", "bind or bound a symbolic dim; may be repeated", DLCC,
	 VALUE_WORD, .set = set_dim, .early = true},
	{"--overridable", "=NAME",
	 "an input with an initialiser remains an input, with that as its default; may be repeated",
	 DLCC, VALUE_WORD, set_item, LIST(overridable.name, overridable.n, MAX_OVERRIDABLE),
	 .onnx = true},
	{"--op", "=FILE.dl",
	 "the meaning of operators that the model uses and dlcc lacks (docs/operators.md); may be repeated",
	 BOTH, VALUE_FILE, set_item, LIST(ops.name, ops.n, MAX_DEFINITION_FILES)},
	{"-O", "0 -O1 -O2 -O3", "effort (default -O2)", BOTH, VALUE_NUMBER, set_level, AT(level),
	 .joined = true},
	{"--cc", "=CC", "the C compiler to use (default: clang, else gcc, else zig)", WITH_RUNNER,
	 VALUE_PROGRAM, set_text, AT(cc)},
	{"--glibc", "=VERSION",
	 "the newest C library that the output may need, as 2.28; with --cc=zig (default there: 2.28)",
	 DLCC, VALUE_WORD, set_glibc, AT(glibc), .outputs = OUT_LIBRARY},
	{"--sysroot", "=DIR", "where it finds headers and libraries", DLCC, VALUE_WORD, set_text,
	 AT(sysroot)},
	{"--runtime", "=FILE", "libdlrt.a for the target", DLCC, VALUE_FILE, set_text, AT(runtime)},
	{"--weights", "=FILE", "weights in a file beside the artifact", DLCC, VALUE_OUTPUT,
	 set_text, AT(weights), .outputs = HAS_WEIGHTS},
	{"--embed-weights", NULL, "store weights of more than 16 MiB inside a .a, .o or .c, too",
	 DLCC, FLAG(embed), .outputs = HAS_WEIGHTS},
	{"--soname", "=NAME",
	 "the name by which a .so is found when a program that is linked with it starts (default: its file's)",
	 DLCC, VALUE_WORD, set_soname, AT(soname), .outputs = OUT_LIBRARY},
	{"--depfile", "=FILE",
	 "also write a rule of make that names the files which the output follows from", DLCC,
	 VALUE_OUTPUT, set_text, AT(depfile), .outputs = OUT_LIBRARY | OUT_C | OUT_PTX},
	{"--threads", "=N", "C compilers at once (default, and 0: the processors)", DLCC,
	 VALUE_NUMBER, set_number, AT(threads)},
	{"--cache", "=DIR", "store compiled objects in DIR, and reuse them", DLCC, VALUE_CACHE,
	 set_text, AT(cache), .outputs = IS_COMPILED},
	{"--cache-size", "=MIB", "limit on the size of DIR", DLCC, VALUE_NUMBER, set_number,
	 AT(cache_size), .more = help_cache_size},
	{"--check", NULL, "say for each node whether and how it is supported", DLCC, FLAG(check),
	 .reports = true, .onnx = true},
	{"--explain", "[=TRACE]",
	 "say for each kernel which nodes it has, how it is computed and why, and its least time if values\n"
	 "come from memory;"
	 " "
	 "with a trace of dlrun --profile=TRACE, how long it took",
	 DLCC, VALUE_FILE, set_text, AT(trace), FLAG(explain), .outputs = HAS_CODE,
	 .reports = true},
	{"--dump-ir", "[=PASS]", "print the IR after every pass, or after PASS", DLCC, VALUE_WORD,
	 set_dump, AT(dump), FLAG(dump_all), .outputs = HAS_CODE, .reports = true},
	{"--dump-node", "=NAME", "with --dump-ir: only of this node", DLCC, VALUE_WORD, set_text,
	 AT(dump_node), .outputs = HAS_CODE, .reports = true},
	{"--verify", NULL, "check the graph after every pass, and prove the schedules", BOTH,
	 FLAG(verify)},
	{"--rewrite-limit", "=N", "for work on dlcc: limit on the rewrites, to bisect a wrong one",
	 BOTH, VALUE_NUMBER, set_number, AT(rewrite_limit)},
	{"--shuffle", NULL,
	 "for work on dlcc: take kernels from the last to the first; the output is identical", DLCC,
	 FLAG(shuffle)},
	{"--sanitize", NULL, "compile the generated C with ASan and UBSan", WITH_RUNNER,
	 FLAG(sanitize)},
	{"--schedules", NULL, "print loop trees instead of the graph", DLCC_OPT, FLAG(schedules)},
	{"--no-graph", NULL, "print nothing", DLCC_OPT, FLAG(quiet)},
	{"--time-passes", NULL,
	 "print the time of each pass, and of each part of making the output", DLCC,
	 FLAG(time_passes), .outputs = HAS_CODE, .reports = true},
	{"--json", NULL,
	 "diagnostics, and what --check and --time-passes print, are objects of JSON, one a line (docs/cli.md)",
	 DLCC, FLAG(diag.json)},
	{"--save-temps", "[=DIR]", "keep the generated C, in DIR/NAME (default: ./NAME)", DLCC,
	 VALUE_OUTPUT, set_text, AT(save_temps), .alone = "."},
	{"-W", "NAME -Wno-NAME -Werror[=NAME] -Wno-error[=NAME]", "warnings:", DLCC, VALUE_WORD,
	 set_warning, .joined = true, .more = help_warnings},
	{"-v", NULL, "print the commands that are run", DLCC, FLAG(verbose)},
	{"--verbose", NULL, NULL, DLCC, FLAG(verbose)},
	{"-###", NULL, "print them and run none", DLCC, FLAG(dry)},
	{"--list-ops", NULL, "the operators there are", DLCC, .answer = answer_ops},
	{"--list-passes", NULL, "the passes", BOTH, .answer = answer_passes},
	{"--list-targets", NULL, "the processors", DLCC, .answer = answer_targets},
	{"--list-options", NULL, "the options, with the kinds of their values", DLCC,
	 .answer = answer_options},
	{"--version", NULL, "the version", BOTH, .answer = answer_version},
	{"--help", NULL, "these lines", BOTH, .answer = answer_help},

	/* old names */
	{"--int4", "[=GROUP]", NULL, ALL, VALUE_NUMBER, .now = "--weights-as", .as = "i4"},
	{"--int8-weights", NULL, NULL, ALL, .now = "--weights-as", .as = "i8"},
	{"--bf16", NULL, NULL, ALL, .now = "--weights-as", .as = "bf16"},
	{"--fp16", NULL, NULL, ALL, .now = "--weights-as", .as = "f16"},
	{"--int8-activations", NULL, NULL, BOTH, .now = "--activations-as", .as = "i8"},
	{"--bf16-activations", NULL, NULL, BOTH, .now = "--activations-as", .as = "bf16"},
	{"--caches", "=FORMAT", NULL, BOTH, VALUE_WORD, .now = "--caches-as"},
	{0},
};

_Static_assert(sizeof option_table / sizeof *option_table <= OPTIONS_ROOM, "raise it");

const OptionRelation option_relations[] = {
	{"--int8", false, {"--calibrate"}, "--int8 wants samples: give --calibrate=DIR"},
	{"--calibrate",
	 false,
	 {"--int8", "--activations-as"},
	 "--calibrate is for --int8 and --activations-as"},
	{"--keep",
	 false,
	 {"--int8", "--weights-as", "--activations-as"},
	 "--keep is for --int8, --weights-as and --activations-as"},
	{"--max-error",
	 false,
	 {"--int8", "--weights-as", "--activations-as"},
	 "--max-error is for --int8, --weights-as and --activations-as"},
	{".schedule", false, {"--tune"}, "a .schedule is made by --tune"},
	{"--soname", false, {".so"}, "--soname is for a .so"},
	{"--embed-weights",
	 true,
	 {"--weights"},
	 "--embed-weights: --weights puts them into a file"},
	{0},
};

const OutputSuffix output_suffixes[] = {
	{".so", OUT_LIBRARY}, {".a", OUT_LIBRARY},         {".o", OUT_LIBRARY},
	{".c", OUT_C},        {".ptx", OUT_PTX},           {".dl", OUT_DL},
	{".onnx", OUT_ONNX},  {".schedule", OUT_SCHEDULE}, {0},
};
