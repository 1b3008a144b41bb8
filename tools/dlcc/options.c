/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/dlcc/options.h"

#include "base/program.h"
#include "codegen/package/package.h"
#include "codegen/targets.h"
#include "passes/module.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage[] =
	"usage: dlcc [options] MODEL -o FILE\n"
	"       dlcc [options] MODEL --explain\n"
	"       dlcc --check MODEL.onnx\n"
	"\n"
	"MODEL is MODEL.onnx, or MODEL.dl, the graph as text.\n"
	"FILE's suffix says what is made: .so .a .o .c (with a header beside it), .ptx, .dl (the graph as text),\n"
	".onnx (the graph as the passes up to quantise make it), .schedule (by --tune)\n"
	"\n"
	"  -o FILE               the output\n"
	"  --name=NAME           prefix of the exported symbols (default: from FILE)\n"
	"  --target=LIST         several, with commas: all in one artifact\n"
	"                        cpu: with native, %s\n"
	"                        cuda: with %s\n"
	"  --cubin=yes           carry the GPU's code compiled, too, by ptxas; --ptxas=FILE says where that is\n"
	"  --tf32                GPUs may round the factors of f32 products to tf32; sm_80 and later\n"
	"  --flush-subnormals    CPUs take subnormal numbers, and results that would be, for zero\n"
	"  --slice=N             CPUs run N elements of a batch for each thread at a time; 0: all (default: by the size of caches)\n"
	"  --winograd=N          tiles of CPUs' convolutions by Winograd have at most N rows: 0 (none), 2 or 4 (default)\n"
	"  --int8-weights        weights of products become i8, with a scale for each column\n"
	"  --int8-activations    what is multiplied by narrow weights becomes i8, on CPUs\n"
	"  --bf16-activations    what is multiplied by bf16 weights becomes bf16, on CPUs\n"
	"  --int4[=GROUP]        weights of products become i4, with a scale for each GROUP terms of a column (default 32)\n"
	"  --bf16, --fp16        weights of products are stored as bf16 or f16, and sums stay in f32\n"
	"  --caches=TYPE         caches of f32 are inputs and outputs of f16, bf16, or i8 with scales instead\n"
	"  --tiles=FILE          GPUs' tiles of products, measured; --list-tiles=N prints N candidates for each\n"
	"  --schedule=FILE       how CPUs run kernels, edited; --dump-ir=decide prints such a file\n"
	"  --tune[=SECONDS]      measure how kernels run best on this machine, with -o FILE.schedule for --schedule (default 60)\n"
	"  --int8 --calibrate=DIR  quantise products by weights, with ranges from the samples in DIR (docs/quantisation.md)\n"
	"  --max-error=E         ... as far as the results' error, relative to those in floats, is at most E; without --int8: the\n"
	"                        weights whose own error is at most E\n"
	"  --keep=NODE           ... but not this one; may be repeated\n"
	"  --dim NAME=N, A..B    bind or bound a symbolic dim; may be repeated\n"
	"  --overridable=NAME    an input that has an initialiser stays an input, with that as its default; may be repeated\n"
	"  --op=FILE.dl          the meaning of operators that the model uses and dlcc lacks (docs/operators.md); may be repeated\n"
	"  -O0 -O1 -O2 -O3       effort (default -O2)\n"
	"  --cc=CC --sysroot=DIR the C compiler to use (default: clang, else gcc)\n"
	"  --runtime=FILE        libdlrt.a for the target\n"
	"  --weights=FILE        weights in a file beside the artifact\n"
	"  --embed-weights       weights of more than 16 MiB inside a .a, .o or .c, too\n"
	"  --threads=N           C compilers at once (default, and 0: the processors)\n"
	"  --cache=DIR           keep compiled objects in DIR, and take those that are there\n"
	"  --cache-size=MIB      what DIR holds at most (default %d)\n"
	"  --check               say for each node whether and how it is supported\n"
	"  --explain[=TRACE]     say for each kernel what is in it, how it is computed and why, and how long it takes at least;\n"
	"                        with a trace of dlrun --profile=TRACE, how long it took\n"
	"  --dump-ir[=PASS]      print the IR after every pass, or after PASS; --dump-node=NAME: only there\n"
	"  --verify              check the graph after every pass, and prove the schedules\n"
	"  --rewrite-limit=N     rewrites done at most, to bisect a wrong one\n"
	"  --shuffle             lower, decide and schedule kernels from the last to the first; the output stays the same\n"
	"  --sanitize            compile the generated C with ASan and UBSan\n"
	"  --time-passes         print the time of each pass, and of each part of making the output\n"
	"  --save-temps[=DIR]    keep the generated C, in DIR/NAME (default: ./NAME)\n"
	"  --list-ops --list-passes --list-targets --list-options\n"
	"  -WNAME -Wno-NAME -Werror[=NAME] -Wno-error[=NAME]   warnings: %s\n"
	"                        (unbounded, off unless named: memory whose size depends on data; dims of inputs do not count;\n"
	"                        attribute: one that an operator does not have is an error, -Wno-error=attribute ignores it)\n"
	"  -v                    print the commands that are run; -###: print them and run none\n"
	"  --version --help\n";

static const char *value_of(const char *arg, const char *option)
{
	size_t n = strlen(option);

	return !strncmp(arg, option, n) && arg[n] == '=' ? arg + n + 1 : NULL;
}

static void list_ops(void)
{
	for (int i = 1; i < OP_COUNT; i++) {
		const char *name, *domain = op_domain((OpKind)i, &name);

		if (!(op_row[i].flags & OPF_INTERNAL))
			printf("%s%s%s\n", domain, *domain ? "." : "", name);
	}
}

static bool usage_error(Cli *c, const char *fmt, const char *arg)
{
	diag_error(&c->diag, (DiagLoc){.file = "dlcc"}, fmt, arg);
	diag_note(&c->diag, "dlcc --help lists the options");
	return false;
}

bool output_is_model(const Cli *c)
{
	return c->output && (str_ends(c->output, ".dl") || str_ends(c->output, ".onnx"));
}

bool options_fault(Cli *c, const char *text)
{
	return usage_error(c, "%s", text);
}

static bool warning_option(Cli *c, const char *a)
{
	StrBuf error = {0};
	const bool ok = warnings_option(&c->warnings, a, &error);

	if (!ok)
		options_fault(c, strbuf_str(&error));
	strbuf_free(&error);
	return ok;
}

/* What the value of an option is, as --list-options prints it. */
typedef enum ValueKind {
	VALUE_NONE,
	VALUE_WORD,
	VALUE_NUMBER,
	VALUE_FILE,    /* it is read */
	VALUE_FOLDER,  /* the files in it are read */
	VALUE_PROGRAM, /* it is run */
	VALUE_OUTPUT,  /* a file or a folder that is written */
	VALUE_CACHE
} ValueKind;

static const char *const value_kind_name[] = {"none",   "word",    "number", "file",
					      "folder", "program", "output", "cache"};

typedef struct Text {
	const char *option;
	size_t at; /* offset in Cli of a const char * */
	ValueKind kind;
	bool once; /* a second one must be the same; else the last one holds */
} Text;

static const Text texts[] = {
	{"--name", offsetof(Cli, name), VALUE_WORD, false},
	{"--cc", offsetof(Cli, cc), VALUE_PROGRAM, false},
	{"--sysroot", offsetof(Cli, sysroot), VALUE_WORD, false},
	{"--runtime", offsetof(Cli, runtime), VALUE_FILE, false},
	{"--weights", offsetof(Cli, weights), VALUE_OUTPUT, false},
	{"--cubin", offsetof(Cli, cubin), VALUE_WORD, false},
	{"--ptxas", offsetof(Cli, ptxas), VALUE_PROGRAM, false},
	{"--tiles", offsetof(Cli, tiles), VALUE_FILE, false},
	{"--schedule", offsetof(Cli, schedule), VALUE_FILE, false},
	{"--cache", offsetof(Cli, cache), VALUE_CACHE, false},
	{"--target", offsetof(Cli, targets), VALUE_WORD, true},
	{"--dump-ir", offsetof(Cli, dump), VALUE_WORD, false},
	{"--dump-node", offsetof(Cli, dump_node), VALUE_WORD, false},
	{"--explain", offsetof(Cli, trace), VALUE_FILE, false},
	{"--calibrate", offsetof(Cli, calibrate), VALUE_FOLDER, false},
	{"--caches", offsetof(Cli, caches), VALUE_WORD, false},
	{"--save-temps", offsetof(Cli, save_temps), VALUE_OUTPUT, false},
	{"-o", offsetof(Cli, output), VALUE_OUTPUT, true},
};

enum { TUNE_SECONDS = 60 }; /* unless --tune says how many */
enum { INT4_GROUP = 32 };   /* unless --int4 says how many terms */

typedef struct Number {
	const char *option;
	size_t at; /* of an int */
} Number;

static const Number numbers[] = {{"--threads", offsetof(Cli, threads)},
				 {"--list-tiles", offsetof(Cli, list_tiles)},
				 {"--rewrite-limit", offsetof(Cli, rewrite_limit)},
				 {"--winograd", offsetof(Cli, winograd)},
				 {"--slice", offsetof(Cli, slice)},
				 {"--int4", offsetof(Cli, int4_group)},
				 {"--cache-size", offsetof(Cli, cache_size)},
				 {"--tune", offsetof(Cli, tune_seconds)}};

typedef struct Flag {
	const char *option;
	size_t at; /* of a bool */
} Flag;

static const Flag flags[] = {
	{"-v", offsetof(Cli, verbose)},
	{"--verbose", offsetof(Cli, verbose)},
	{"--check", offsetof(Cli, check)},
	{"--tune", offsetof(Cli, tune)},
	{"--int8", offsetof(Cli, int8)},
	{"--time-passes", offsetof(Cli, time_passes)},
	{"--dump-ir", offsetof(Cli, dump_all)},
	{"--explain", offsetof(Cli, explain)},
	{"--sanitize", offsetof(Cli, sanitize)},
	{"--shuffle", offsetof(Cli, shuffle)},
	{"--verify", offsetof(Cli, verify)},
	{"--tf32", offsetof(Cli, tf32)},
	{"--int8-weights", offsetof(Cli, int8_weights)},
	{"--int8-activations", offsetof(Cli, int8_activations)},
	{"--bf16-activations", offsetof(Cli, bf16_activations)},
	{"--int4", offsetof(Cli, int4)},
	{"--bf16", offsetof(Cli, bf16)},
	{"--fp16", offsetof(Cli, fp16)},
	{"--flush-subnormals", offsetof(Cli, flush)},
	{"-###", offsetof(Cli, dry)},
	{"--embed-weights", offsetof(Cli, embed)},
};

/* The value of OPTION, where ARGV[*i] is OPTION=VALUE, or OPTION with the value as the next
 * argument. Null where it is neither; *LACKS where the value is missing. */
static const char *take_value(char **argv, int *i, const char *opt, bool *lacks)
{
	const char *v = value_of(argv[*i], opt);

	if (v || strcmp(argv[*i], opt) != 0)
		return v;
	if (!argv[*i + 1])
		*lacks = true;
	return argv[*i + 1] ? argv[++*i] : NULL;
}

static bool text(Cli *c, const Text *t, const char *v)
{
	const char **to = (const char **)((char *)c + t->at);

	if (!*v)
		return usage_error(c, "%s wants a value", t->option);
	if (t->once && *to && strcmp(*to, v)) {
		StrBuf b = {0};

		strbuf_printf(&b, "%s %s: an earlier %s says otherwise", t->option, v, t->option);
		options_fault(c, strbuf_str(&b));
		strbuf_free(&b);
		return false;
	}
	*to = v;
	return true;
}

static bool max_error(Cli *c, const char *v)
{
	char *end;

	c->max_error = strtod(v, &end);
	return (*v && !*end && c->max_error >= 0) ||
	       usage_error(c, "--max-error=%s: it is a number from 0 on", v);
}

static bool number(Cli *c, const char *opt, const char *v, int *out)
{
	StrBuf b = {0};

	if (program_number(v, out))
		return true;
	strbuf_printf(&b, "%s wants a number from 0 to %d", opt, NUMBER_MAX);
	options_fault(c, strbuf_str(&b));
	strbuf_free(&b);
	return false;
}

static bool dim(Cli *c, const char *text)
{
	const char *eq = strrchr(text, '=');
	DimOption d = {.text = text};
	char *end = NULL;

	if (c->ndims == MAX_DIMS)
		return usage_error(c, "%s: too many", "--dim");
	if (eq) {
		d.name = (size_t)(eq - text);
		errno = 0;
		d.lo = d.hi = strtoll(eq + 1, &end, 10);
		if (end[0] == '.' && end[1] == '.')
			d.hi = strtoll(end + 2, &end, 10);
	}
	if (!d.name || end == eq + 1 || *end || errno || d.lo < 0 || d.hi < d.lo)
		return usage_error(c, "--dim %s: write NAME=N or NAME=A..B, with 0 <= A <= B",
				   text);
	for (int i = 0; i < c->ndims; i++)
		if (c->dims[i].name == d.name && !strncmp(c->dims[i].text, text, d.name) &&
		    (c->dims[i].lo != d.lo || c->dims[i].hi != d.hi))
			return usage_error(c, "--dim %s: an earlier --dim says otherwise", text);
	c->dims[c->ndims++] = d;
	return true;
}

/* Options that may be repeated, with other values. */
typedef struct NameList {
	const char *option;
	size_t at,
		count; /* offsets in Cli of an array of const char *, and of the int of how many it has */
	int most;
	ValueKind kind;
} NameList;

static const NameList lists[] = {
	{"--overridable", offsetof(Cli, overridable.name), offsetof(Cli, overridable.n),
	 MAX_OVERRIDABLE, VALUE_WORD},
	{"--keep", offsetof(Cli, keep), offsetof(Cli, nkeep), MAX_KEEP, VALUE_WORD},
	{"--op", offsetof(Cli, ops.name), offsetof(Cli, ops.n), MAX_DEFINITION_FILES, VALUE_FILE},
};

static bool list_item(Cli *c, const NameList *l, const char *v)
{
	const char **to = (const char **)((char *)c + l->at);
	int *n = (int *)((char *)c + l->count);

	if (!*v)
		return usage_error(c, "%s wants a value", l->option);
	if (*n == l->most)
		return usage_error(c, "%s: too many", l->option);
	to[(*n)++] = v;
	return true;
}

static bool is_identifier(const char *s)
{
	if (!isalpha((unsigned char)*s) && *s != '_')
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && *s != '_')
			return false;
	return true;
}

/* Options that other compilers have: what FMT says where one is given. */
static const struct {
	const char *option, *fmt;
} foreign[] = {
	{"--shape", "unknown option %s; --dim NAME=N binds a symbolic dim"},
	{"--batch", "unknown option %s; --dim NAME=N binds a symbolic dim"},
	{"--input-shape", "unknown option %s; --dim NAME=N binds a symbolic dim"},
};

static bool unknown_option(Cli *c, const char *a)
{
	const size_t n = strcspn(a, "=");

	for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
		if (strlen(foreign[i].option) == n && !strncmp(a, foreign[i].option, n))
			return usage_error(c, foreign[i].fmt, a);
	if (!access(a, F_OK))
		return usage_error(
			c, "unknown option %s; for the file of that name put ./ before it", a);
	return usage_error(c, "unknown option %s", a);
}

/* Understands ARGV[*i]; advances over a value that is an argument of its own. False after a
 * diagnostic. */
static bool option(Cli *c, char **argv, int *i)
{
	const char *a = argv[*i], *v;
	bool lacks = false;

	if (a[0] != '-') {
		if (c->input)
			return usage_error(c, "%s: one model at a time", a);
		c->input = a;
		return true;
	}
	if (a[1] == 'W' && a[2])
		return warning_option(c, a);
	if (program_level(a, &c->level))
		return c->level >= 0 || usage_error(c, "%s: " OPT_LEVELS, a);
	for (size_t j = 0; j < sizeof flags / sizeof *flags; j++)
		if (!strcmp(a, flags[j].option)) {
			*(bool *)((char *)c + flags[j].at) = true;
			return true;
		}
	if (!strcmp(a, "--save-temps")) {
		c->save_temps = ".";
		return true;
	}
	for (size_t j = 0; j < sizeof texts / sizeof *texts; j++)
		if ((v = take_value(argv, i, texts[j].option, &lacks)))
			return text(c, &texts[j], v);
	for (size_t j = 0; j < sizeof numbers / sizeof *numbers; j++)
		if ((v = take_value(argv, i, numbers[j].option, &lacks)))
			return number(c, numbers[j].option, v, (int *)((char *)c + numbers[j].at));
	if ((v = take_value(argv, i, "--max-error", &lacks)))
		return max_error(c, v);
	if ((v = take_value(argv, i, "--dim", &lacks)))
		return dim(c, v);
	for (size_t j = 0; j < sizeof lists / sizeof *lists; j++)
		if ((v = take_value(argv, i, lists[j].option, &lacks)))
			return list_item(c, &lists[j], v);
	return lacks ? usage_error(c, "%s wants a value", a) : unknown_option(c, a);
}

/* What is given that prints what passes do; null: nothing. */
static const char *looks_at_passes(const Cli *c)
{
	return c->dump || c->dump_all ? "--dump-ir"
	       : c->dump_node         ? "--dump-node"
	       : c->time_passes       ? "--time-passes"
	       : c->list_tiles        ? "--list-tiles"
	       : c->explain           ? "--explain"
				      : NULL;
}

/* The header that is written beside PATH has the name of the one that it includes. */
static bool has_runtimes_header(const char *path)
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

	return !strncmp(base, "dlrt.", 5) && strcmp(base, "dlrt.ptx") && strcmp(base, "dlrt.dl");
}

static bool check_output(Cli *c)
{
	const char *dot = c->output ? strrchr(c->output, '.') : NULL;
	static const char *const known[] = {".so",  ".a",  ".o",    ".c",
					    ".ptx", ".dl", ".onnx", ".schedule"};

	if (!c->output && (c->check || looks_at_passes(c)))
		return true;
	if (c->output && has_runtimes_header(c->output))
		return usage_error(
			c,
			"-o %s: its header would be dlrt.h, which is the runtime's; give another name",
			c->output);

	for (size_t i = 0; dot && i < sizeof known / sizeof *known; i++)
		if (!strcmp(dot, known[i]))
			return true;
	return diag_error(&c->diag, (DiagLoc){.file = "dlcc"},
			  "%s%s; the suffix says what is made: .so .a .o .c .ptx .dl .onnx .schedule",
			  c->output ? "cannot make " : "no output: give -o FILE",
			  c->output ? c->output : "");
}

/* What is given does something to the output. */
static bool check_effect(Cli *c)
{
	const bool text = output_is_model(c), ptx = c->output && str_ends(c->output, ".ptx"),
		   schedule = c->output && str_ends(c->output, ".schedule"),
		   weights = c->int4 || c->int8_weights || c->bf16 || c->fp16;
	const Pass *pass = c->dump ? pass_by_name(c->dump) : NULL;

	if (c->int8 && !c->calibrate)
		return options_fault(c, "--int8 wants samples: give --calibrate=DIR");
	if (!c->int8 && c->calibrate)
		return options_fault(c, "--calibrate is for --int8");
	if (!c->int8 && !weights && (c->nkeep || c->max_error >= 0))
		return options_fault(
			c,
			"--keep and --max-error are for --int8, --int4, --int8-weights, --bf16 and --fp16");
	if (c->int8 && (c->check || !c->output || str_ends(c->output, ".dl")))
		return options_fault(c, "--int8 wants an output that has code, or an .onnx");
	if (c->tune != schedule)
		return options_fault(c, c->tune ? "--tune writes a schedule: give -o FILE.schedule"
						: "a .schedule is made by --tune");
	if (c->tune && c->schedule)
		return options_fault(c, "--tune finds a schedule; leave out --schedule");
	if (c->tune && (c->weights || c->embed))
		return usage_error(c, "--weights: %s holds no weights", c->output);
	if ((c->weights || c->embed) && (text || ptx))
		return usage_error(c, "--weights: %s holds no weights", c->output);
	if (c->weights && c->embed)
		return options_fault(c, "--embed-weights: --weights puts them into a file");
	if (c->tf32 && text)
		return usage_error(c, "--tf32: %s is the model before any code", c->output);
	if (weights && c->output && str_ends(c->output, ".dl"))
		return usage_error(
			c,
			"--int4, --int8-weights, --bf16, --fp16: %s is the model before any pass",
			c->output);
	if (c->caches && c->output && str_ends(c->output, ".dl"))
		return usage_error(c, "--caches: %s is the model before any pass", c->output);
	if ((c->int8_activations || c->bf16_activations) && text)
		return usage_error(
			c,
			"--int8-activations, --bf16-activations: %s is the model before any code",
			c->output);
	if (c->schedule && text)
		return usage_error(c, "--schedule: %s is the model before any code", c->output);
	if (c->cache && (text || ptx || (c->output && str_ends(c->output, ".c"))))
		return usage_error(c, "--cache: no C is compiled for %s", c->output);
	if (c->flush && (text || ptx))
		return usage_error(c, "--flush-subnormals: %s has no code for CPUs", c->output);
	if (text && looks_at_passes(c))
		return usage_error(c, "%s: the output has no passes behind it; leave out -o",
				   looks_at_passes(c));
	if (c->dump_node && pass && pass->prints->whole)
		return usage_error(c, "--dump-node: %s is of all nodes together", c->dump);
	return true;
}

bool options_read(Cli *c, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!option(c, argv, &i))
			return false;
	if (!c->input)
		return options_fault(c, "no model");
	warnings_rules(&c->warnings, c->rules);
	c->diag.rules = c->rules;
	c->explain = c->explain || c->trace;
	c->tune = c->tune || c->tune_seconds >= 0;
	if (c->tune_seconds < 0)
		c->tune_seconds = TUNE_SECONDS;
	if (c->winograd != 0 && c->winograd != 2 && c->winograd != 4)
		return options_fault(c, "--winograd wants 0, 2 or 4");
	c->int4 = c->int4 || c->int4_group >= 0;
	if (c->int4_group < 0)
		c->int4_group = INT4_GROUP;
	if (!c->int4_group || c->int4_group % 8)
		return options_fault(c, "--int4 wants a group of a multiple of 8 terms");
	if (c->int4 && c->int8_weights)
		return options_fault(c, "--int8-weights: --int4 says that weights have 4 bits");
	if (c->caches && !caches_type(c->caches))
		return usage_error(c, "--caches=%s: it is f16, bf16 or i8", c->caches);
	if (c->bf16 && c->fp16)
		return options_fault(c, "--fp16: --bf16 says that weights are bf16");
	if ((c->bf16 || c->fp16) && (c->int4 || c->int8_weights))
		return options_fault(
			c,
			"--bf16, --fp16: --int4 or --int8-weights says that weights are integers");
	if (c->name && !is_identifier(c->name))
		return usage_error(c, "--name=%s is no C identifier", c->name);
	if (c->cubin && strcmp(c->cubin, "yes") && strcmp(c->cubin, "no"))
		return usage_error(c, "--cubin=%s: it is yes or no", c->cubin);
	if (c->overridable.n && str_ends(c->input, ".dl"))
		return usage_error(c, "%s: a .dl says itself which inputs have defaults",
				   "--overridable");
	if (c->check && str_ends(c->input, ".dl"))
		return usage_error(c, "%s wants an ONNX model", "--check");
	if (c->dump && !pass_by_name(c->dump) && strcmp(c->dump, "nvptx"))
		return usage_error(
			c, "--dump-ir=%s: there is no such pass; dlcc --list-passes names them",
			c->dump);
	return check_output(c) && check_effect(c);
}

static bool is_folder(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* The folder that file PATH (null: none) is to be in is there. */
static bool folder_of_is_there(Cli *c, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	StrBuf folder = {0};
	bool ok;

	if (!slash)
		return true;
	strbuf_put(&folder, path, slash > path ? (size_t)(slash - path) : 1);
	ok = is_folder(strbuf_str(&folder)) ||
	     diag_error(&c->diag, (DiagLoc){.file = path}, "there is no folder %s",
			strbuf_str(&folder));
	strbuf_free(&folder);
	return ok;
}

bool options_folders(Cli *c)
{
	if (c->sysroot && !is_folder(c->sysroot))
		return diag_error(&c->diag, (DiagLoc){.file = "dlcc"},
				  "--sysroot=%s: there is no such folder", c->sysroot);
	return folder_of_is_there(c, c->output) && folder_of_is_there(c, c->weights);
}

static void help(void)
{
	StrBuf cpus = {0}, gpus = {0}, names = {0};

	target_names(&cpus, false);
	target_names(&gpus, true);
	warnings_names(&names);
	printf(usage, strbuf_str(&cpus), strbuf_str(&gpus), PACKAGE_CACHE_MIB, strbuf_str(&names));
	strbuf_free(&cpus);
	strbuf_free(&gpus);
	strbuf_free(&names);
}

static void print_version(void)
{
	if (!gen_nvptx_lacks())
		printf("dlcc " DLCC_VERSION ", with LLVM %s\n", gen_nvptx_llvm());
	else
		puts("dlcc " DLCC_VERSION ", without LLVM");
}

static void list_targets(void)
{
	const bool gpus = !gen_nvptx_lacks();

	for (const Target *t = target_table; t->name; t++) {
		const char *older = t->gpu ? gen_nvptx_processor(t->gpu) : NULL;

		if (!t->gpu)
			printf("cpu:%s\n", t->name);
		else if (gpus && older)
			printf("cuda:%-10s code of %s: LLVM %s does not know it, LLVM %d does\n",
			       t->name, older, gen_nvptx_llvm(), t->gpu->llvm);
		else if (gpus)
			printf("cuda:%s\n", t->name);
	}
}

static void list_option(const char *option, ValueKind kind)
{
	printf("%s %s\n", option, value_kind_name[kind]);
}

static void list_options(void)
{
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		list_option(texts[i].option, texts[i].kind);
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		list_option(lists[i].option, lists[i].kind);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		list_option(numbers[i].option, VALUE_NUMBER);
	list_option("--max-error", VALUE_NUMBER);
	list_option("--dim", VALUE_WORD);
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		list_option(flags[i].option, VALUE_NONE);
}

static void list_passes(void)
{
	passes_list(stdout);
}

bool options_answer(int argc, char **argv)
{
	static const Question all[] = {{"--help", help},
				       {"--version", print_version},
				       {"--list-ops", list_ops},
				       {"--list-passes", list_passes},
				       {"--list-targets", list_targets},
				       {"--list-options", list_options},
				       {0}};

	return program_answers(argc, argv, all);
}
