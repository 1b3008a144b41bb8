/* SPDX-License-Identifier: Apache-2.0 */
/* dlrun: runs a compiled model. See the text of --help. */
#include "base/program.h"
#include "base/str.h"
#include "base/sys.h"
#include "tools/dlrun/npy.h"
#include "tools/dlrun/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
	"usage: dlrun MODEL.so [--describe] [--data DIR]... [-i NAME=FILE]... [-o DIR] [--bench]\n"
	"  --describe         names, types, dims and bounds (the default)\n"
	"  --data DIR         run the data sets of DIR (test_data_set_K/input_N.pb) and compare\n"
	"  --rtol R, --atol A compare each element: |a - b| <= A + R * |b|\n"
	"  --noise R          the noise of the references, relative to their largest elements; default: what DIR/case.json\n"
	"                     states, and where an output differs all the same, the noise is measured\n"
	"  -i NAME=FILE       an input from a .npy or .pb file, or of strings, the lines of a .txt file; run once, and\n"
	"                     print the outputs in short. For a sequence: the whole value as a .pb file, or\n"
	"                     one -i for each tensor, and -i NAME= for none\n"
	"  -o DIR             write them as DIR/NAME.npy instead; of a sequence as NAME.0.npy, NAME.1.npy, ...\n"
	"  --bench            time runs, on random inputs, or those of --data or -i; prints one line of JSON\n"
	"  --dim NAME=VALUE   a symbolic dim of the random inputs (default: its least value, from 1)\n"
	"  --seconds S        how long (default 2)\n"
	"  --threads T        threads (default, and 0: all CPUs)\n"
	"  --device D         cpu, cuda, cuda:N, or auto: a GPU where the model has code for one (default)\n"
	"  --profile[=FILE]   print the kernels by time, those of --data or -i, else of random inputs;\n"
	"                     write a Chrome trace to FILE\n"
	"  --roof=GFLOPS,GBS  with --profile: the machine's peak, with which kernels are compared; default: on\n"
	"                     the CPU it is measured, in half a second\n"
	"  --json             with --profile: the kernels as a line of JSON, all of them\n"
	"  --weights FILE     the weights, where they are not with the model\n"
	"  --version          the version, and that of the API; --help: these lines\n"
	"exit status: 0, or 1 when something failed or an output differs, or 2 for wrong usage\n";

enum { MAX_ARGS = 4096, MAX_VALUED = 16 };

typedef struct List {
	const char *at[MAX_ARGS];
	int n;
} List;

typedef struct RunOptions {
	const char *model, *out_dir;
	List data, input, dim;
	const char *single[MAX_VALUED]; /* values of the options that take one, by row of VALUED */
	bool describe, bench, json;
	double seconds;
	double roof[2]; /* GFLOP/s, GB/s; zeros: not given */
	DataOptions compare;
	dl_load_options load;
} RunOptions;

static bool usage(const char *what, const char *arg)
{
	fputs("dlrun: error: ", stderr);
	escape_to_file(stderr, what, escape_terminal);
	escape_to_file(stderr, arg, escape_terminal);
	fputs("\n  note: dlrun --help lists the options\n", stderr);
	return false;
}

typedef enum Kind { TEXT, LIST, FILES, PAIRS, NUMBER, POSITIVE, TWO_POSITIVE, WHOLE } Kind;

typedef struct Valued {
	const char *option;
	Kind kind;
	size_t at; /* offset in RunOptions of a const char *, a List, a double or an int */
	const char *wants;
} Valued;

static const Valued valued[] = {
	{"--data", LIST, offsetof(RunOptions, data), "a folder"},
	{"-i", FILES, offsetof(RunOptions, input), "write NAME=FILE"},
	{"--dim", PAIRS, offsetof(RunOptions, dim), "write NAME=VALUE"},
	{"-o", TEXT, offsetof(RunOptions, out_dir), "a folder"},
	{"--rtol", NUMBER, offsetof(RunOptions, compare.rtol), "a number from 0"},
	{"--atol", NUMBER, offsetof(RunOptions, compare.atol), "a number from 0"},
	{"--noise", NUMBER, offsetof(RunOptions, compare.noise), "a number from 0"},
	{"--seconds", POSITIVE, offsetof(RunOptions, seconds), "a number above 0"},
	{"--threads", WHOLE, offsetof(RunOptions, load.threads),
	 "a whole number from 0 to 2147483647; 0 is all CPUs"},
	{"--device", TEXT, offsetof(RunOptions, load.device), "cpu, cuda, cuda:N or auto"},
	{"--weights", TEXT, offsetof(RunOptions, load.weights_path), "a file"},
	{"--roof", TWO_POSITIVE, offsetof(RunOptions, roof),
	 "write GFLOPS,GBS, two numbers above 0"},
};
_Static_assert(sizeof(valued) / sizeof(*valued) <= MAX_VALUED, "raise it");

static const struct {
	const char *option;
	size_t at; /* offset in RunOptions of a bool */
} flags[] = {
	{"--describe", offsetof(RunOptions, describe)},
	{"--bench", offsetof(RunOptions, bench)},
	{"--json", offsetof(RunOptions, json)},
};

/* There is room: parse() refuses more than MAX_ARGS arguments. */
static bool add(List *l, const char *v)
{
	l->at[l->n++] = v;
	return true;
}

/* Stores V in its member of O; false if the option does not accept V. */
static bool set(RunOptions *o, const Valued *x, const char *v)
{
	void *to = (char *)o + x->at;
	char *end;

	switch (x->kind) {
	case TEXT: *(const char **)to = v; return true;
	case FILES:
	case PAIRS: return strchr(v, '=') && add(to, v);
	case LIST: return add(to, v);
	case TWO_POSITIVE: {
		double *two = to;

		two[0] = strtod(v, &end);
		if (*end != ',')
			return false;
		v = end + 1;
		two[1] = strtod(v, &end);
		return *v && !*end && two[0] > 0 && two[1] > 0;
	}
	case WHOLE: {
		const long n = strtol(v, &end, 10);

		*(int32_t *)to = (int32_t)n;
		return *v && !*end && n >= 0 && n <= INT32_MAX;
	}
	default:
		*(double *)to = strtod(v, &end);
		return *v && !*end && (x->kind == NUMBER ? *(double *)to >= 0 : *(double *)to > 0);
	}
}

/* Whether ARGV[*i] is option X, as --NAME VALUE or --NAME=VALUE; *V is the value then, null
 * where it lacks. */
static bool is_option(const Valued *x, char **argv, int *i, const char **v)
{
	const size_t n = strlen(x->option);

	if (strncmp(argv[*i], x->option, n) || (argv[*i][n] && argv[*i][n] != '='))
		return false;
	*v = argv[*i][n] ? argv[*i] + n + 1 : argv[*i + 1] ? argv[++*i] : NULL;
	return true;
}

/* Whether an earlier option X has another value than V. For NAME=VALUE, only options with the same
 * name count. A name may contain =: two texts that are equal up to the last = have the same
 * name. */
static bool says_otherwise(const RunOptions *o, const Valued *x, const char *v)
{
	const char *eq = strrchr(v, '='), *single = o->single[x - valued];
	const List *l = (const void *)((const char *)o + x->at);

	for (int i = 0; x->kind == PAIRS && eq && i < l->n; i++)
		if (!strncmp(l->at[i], v, (size_t)(eq - v) + 1) && strcmp(l->at[i], v) &&
		    strrchr(l->at[i], '=') == l->at[i] + (eq - v))
			return true;
	return single && strcmp(single, v);
}

/* Refuses ARG, and names the option that it may have been meant for. */
static bool unknown_option(const char *arg)
{
	STRBUF_LOCAL(word);
	const char *found = NULL;
	size_t edits = SIZE_MAX;

	strbuf_put(&word, arg, strcspn(arg, "="));
	for (size_t k = 0; k < sizeof(valued) / sizeof(*valued); k++)
		if (str_is_near(strbuf_str(&word), valued[k].option, &edits))
			found = valued[k].option;
	for (size_t k = 0; k < sizeof(flags) / sizeof(*flags); k++)
		if (str_is_near(strbuf_str(&word), flags[k].option, &edits))
			found = flags[k].option;
	if (str_is_near(strbuf_str(&word), "--profile", &edits))
		found = "--profile";
	strbuf_puts(&word, strchr(arg, '=') ? strchr(arg, '=') : "");
	if (found)
		strbuf_printf(&word, "; the nearest is %s", found);
	return usage("unknown option ", strbuf_str(&word));
}

static bool option_with_value(RunOptions *o, char **argv, int *i)
{
	for (size_t k = 0; k < sizeof(valued) / sizeof(*valued); k++) {
		const Valued *x = &valued[k];
		char text[512];
		const char *v;
		bool other;

		if (!is_option(x, argv, i, &v))
			continue;
		other = v && says_otherwise(o, x, v);
		if (v && !other && set(o, x, v)) {
			if (x->kind != LIST && x->kind != FILES && x->kind != PAIRS)
				o->single[k] = v;
			return true;
		}
		snprintf(text, sizeof(text), "%s%s%.200s: ", x->option, v ? " " : "", v ? v : "");
		return usage(text, other ? "an earlier one says otherwise" : x->wants);
	}
	return unknown_option(argv[*i]);
}

/* Whether ARG is a flag, which is set. */
static bool option_flag(RunOptions *o, const char *arg)
{
	for (size_t k = 0; k < sizeof(flags) / sizeof(*flags); k++)
		if (!strcmp(arg, flags[k].option))
			return *(bool *)((char *)o + flags[k].at) = true;
	return false;
}

static bool parse(RunOptions *o, int argc, char **argv)
{
	*o = (RunOptions){.seconds = 2, .compare = {-1, -1, -1}, .load = {.size = sizeof(o->load)}};
	if (argc > MAX_ARGS)
		return usage("too many arguments", "");
	for (int i = 1; i < argc; i++) {
		if (option_flag(o, argv[i]))
			continue;
		if (!strcmp(argv[i], "--profile"))
			o->load.profile = 1;
		else if (!strncmp(argv[i], "--profile=", 10))
			o->load.profile = 1, o->load.profile_path = argv[i] + 10;
		else if (argv[i][0] == '-') {
			if (!option_with_value(o, argv, &i))
				return false;
		} else if (o->model)
			return usage("more than one model: ", argv[i]);
		else
			o->model = argv[i];
	}
	if (o->json && !o->bench && !o->load.profile)
		return usage("--json goes with --bench or --profile", "");
	if (o->roof[0] > 0 && !o->load.profile)
		return usage("--roof goes with --profile", "");
	if (o->dim.n && (o->data.n || o->input.n || (!o->bench && !o->load.profile)))
		return usage("--dim is for the random inputs of --bench or --profile", "");
	if (o->load.device && !o->data.n && !o->input.n && !o->out_dir && !o->bench &&
	    !o->load.profile)
		return usage("--device goes with --data, -i, --bench or --profile", "");
	return o->model || usage("no model", "");
}

/* Whether O gives a value to the symbol NAME, in which --dim. */
static int given_dim(const RunOptions *o, const char *name)
{
	int k = 0;

	while (k < o->dim.n && (strncmp(o->dim.at[k], name, strlen(name)) ||
				strrchr(o->dim.at[k], '=') != o->dim.at[k] + strlen(name)))
		k++;
	return k < o->dim.n ? k : -1;
}

/* Notes the dims that no --dim sets, with the sizes used. */
static void note_dims(const RunOptions *o, const Session *s, const int64_t *v)
{
	for (int32_t i = 0; v && i < s->desc->n_sym; i++) {
		const dl_sym *y = dl_desc_sym(s->desc, i);

		if (session_dim_of_inputs(s, i) && given_dim(o, y->name) < 0)
			diag_note(s->diag,
				  "no --dim sets \"%s\", so it is %" PRId64
				  "; write --dim \"%s\"=VALUE",
				  y->name, v[i], y->name);
	}
}

/* Refuses --dim TEXT, naming the dims that there are. */
static void unknown_dim(const Session *s, const char *text)
{
	StrBuf b = {0};

	for (int32_t i = 0; i < s->desc->n_sym; i++)
		if (session_dim_of_inputs(s, i))
			strbuf_printf(&b, "%s \"%s\"", b.n ? "," : "; it has",
				      dl_desc_sym(s->desc, i)->name);
	diag_error(s->diag, (DiagLoc){.file = s->path},
		   "--dim %s: the model's inputs have no such dim%s", text,
		   b.n ? strbuf_str(&b) : "; all of its sizes are fixed");
	strbuf_free(&b);
}

/* Values for all symbols of the model; null after a diagnostic. */
static int64_t *dims(const RunOptions *o, const Session *s)
{
	int64_t *v = NEW_ARRAY(s->arena, s->desc->n_sym + 1, int64_t);
	bool used[MAX_ARGS] = {false};

	for (int32_t i = 0; i < s->desc->n_sym; i++) {
		const dl_sym *y = dl_desc_sym(s->desc, i);

		v[i] = y->lower > 1 ? y->lower : y->upper < 1 ? y->upper : 1;
		const int k = session_dim_of_inputs(s, i) ? given_dim(o, y->name) : -1;
		const char *text = k < 0 ? NULL : o->dim.at[k] + strlen(y->name) + 1;
		char *end;

		if (!text)
			continue;
		errno = 0;
		v[i] = strtoll(text, &end, 10);
		used[k] = true;
		if (*end || end == text || v[i] < 0 || errno) {
			diag_error(s->diag, (DiagLoc){.file = s->path},
				   "--dim %s: write NAME=VALUE, a whole number from 0 to %lld",
				   o->dim.at[k], (long long)INT64_MAX);
			return NULL;
		}
	}
	for (int k = 0; k < o->dim.n; k++)
		if (!used[k])
			return unknown_dim(s, o->dim.at[k]), NULL;
	return v;
}

/* The input that -i NAME=FILE gives a value to: of a=b=c.npy that named a=b, where there is one,
 * else a. -1: none. */
static int32_t named_input(const Session *s, const char *text)
{
	int32_t found = -1;
	size_t longest = 0;

	for (int32_t i = 0; i < s->desc->n_in; i++) {
		const char *name = session_in(s, i)->name;
		const size_t n = strlen(name);

		if (!strncmp(text, name, n) && text[n] == '=' && (found < 0 || n > longest)) {
			found = i;
			longest = n;
		}
	}
	return found;
}

/* Refuses -i TEXT, naming the inputs that there are. */
static bool unknown_input(const Session *s, const char *text)
{
	STRBUF_LOCAL(b);

	for (int32_t i = 0; i < s->desc->n_in; i++)
		strbuf_printf(&b, "%s \"%s\"", i ? "," : "; it has", session_in(s, i)->name);
	return diag_error(s->diag, (DiagLoc){.file = s->path},
			  "-i %s: the model has no such input%s", text,
			  b.n ? strbuf_str(&b) : "; it has none");
}

/* The files of -i for one input: several are the items of a value that is not a tensor. */
typedef struct Paths {
	const char **at;
	int n;
} Paths;

static bool input_paths(const RunOptions *o, const Session *s, Paths *paths)
{
	for (int k = 0; k < o->input.n; k++) {
		const char *text = o->input.at[k], *path;
		const int32_t i = named_input(s, text);
		Paths *p = &paths[i < 0 ? 0 : i];

		if (i < 0)
			return unknown_input(s, text);
		path = text + strlen(session_in(s, i)->name) + 1;
		if (session_in(s, i)->form == DL_TENSOR && p->n && strcmp(p->at[0], path))
			return diag_error(s->diag, (DiagLoc){.file = s->path},
					  "-i %s: an earlier one says otherwise", text);
		if (!p->at)
			p->at = NEW_ARRAY(s->arena, o->input.n, const char *);
		p->at[p->n++] = path;
	}
	return true;
}

static bool read_tensor(const Session *s, const dl_io *io, const char *path, Array *v)
{
	if (!*path)
		return diag_error(s->diag, (DiagLoc){.file = s->path},
				  "-i %s=: a tensor wants a file", io->name);
	if (!array_read(s->arena, s->diag, path, DL_TENSOR, v))
		return false;
	npy_retype(s->arena, v, dtype_by_onnx(io->dtype));
	return true;
}

/* Reads V, of input IO, from files of its tensors: a sequence or optional of tensors, or a map of
 * two. An empty path means no tensor. */
static bool read_items(const Session *s, const dl_io *io, const Paths *p, Array *v)
{
	*v = (Array){.name = io->name,
		     .form = (dl_form)io->form,
		     .items = NEW_ARRAY(s->arena, p->n, Array)};
	if (io->form == DL_OPTIONAL && io->item->form != DL_TENSOR) {
		v->n_items = p->at[0][0] != '\0';
		return !v->n_items || read_items(s, io->item, p, v->items);
	}
	for (int k = 0; k < p->n; k++) {
		/* the keys of a map, and then its values */
		const dl_io *item = io->form == DL_MAP && k == 1
					    ? (const dl_io *)(const void *)((const char *)io->item +
									    io->item->size)
					    : io->item;

		if (p->at[k][0] && !read_tensor(s, item, p->at[k], &v->items[v->n_items++]))
			return false;
	}
	return true;
}

static bool read_input(const Session *s, const dl_io *io, const Paths *p, Array *v)
{
	if (io->form == DL_TENSOR)
		return read_tensor(s, io, p->at[0], v);
	if (p->n == 1 && str_ends(p->at[0], ".pb"))
		return array_read(s->arena, s->diag, p->at[0], (dl_form)io->form, v);
	return read_items(s, io, p, v);
}

/* The inputs of -i, all of them. */
static bool inputs(const RunOptions *o, Session *s, Array *in)
{
	Paths *paths = NEW_ARRAY(s->arena, s->desc->n_in + 1, Paths);

	if (!input_paths(o, s, paths))
		return false;
	for (int32_t i = 0; i < s->desc->n_in; i++) {
		const dl_io *io = session_in(s, i);

		if (!paths[i].n && session_default(s, i, &in[i]))
			continue;
		if (!paths[i].n)
			return diag_error(s->diag, (DiagLoc){.file = s->path},
					  "no value for input \"%s\": -i %s=FILE", io->name,
					  io->name);
		if (!read_input(s, io, &paths[i], &in[i]))
			return false;
	}
	return true;
}

/* The file of NAME, of output K: the name, with %HH for characters that a file's name cannot have,
 * as in a%2Fb.npy. A name that is too long for a file is cut, and ends in % and K. */
static const char *output_path(const RunOptions *o, const Session *s, const char *name, int32_t k)
{
	enum { MOST = 200 };

	name = arena_escape(s->arena, name, escape_file_name);
	if (strlen(name) > MOST)
		name = arena_printf(s->arena, "%.*s%%%d", MOST, name, k);
	return arena_printf(s->arena, "%s/%s.npy", o->out_dir, name);
}

static bool write_value(const RunOptions *o, const Session *s, const char *name, int32_t k,
			const Array *v)
{
	bool ok = true;

	if (v->form == DL_TENSOR)
		return npy_write(s->diag, output_path(o, s, name, k), v);
	for (int64_t i = 0; i < v->n_items && ok; i++)
		ok = write_value(o, s, array_item_name(s->arena, name, v, i), k, &v->items[i]);
	return ok;
}

static bool write_outputs(const RunOptions *o, const Session *s)
{
	if (mkdir(o->out_dir, 0777) && errno != EEXIST)
		return diag_error(s->diag, (DiagLoc){.file = o->out_dir},
				  "the folder cannot be made: %s", strerror(errno));
	for (int32_t k = 0; k < s->desc->n_out; k++) {
		const Array v = session_output(s, k);
		const char *name = *v.name ? v.name : arena_printf(s->arena, "output_%d", k);

		if (!write_value(o, s, name, k, &v))
			return false;
	}
	return true;
}

static bool run_once(const RunOptions *o, Session *s)
{
	Array *in = NEW_ARRAY(s->arena, s->desc->n_in + 1, Array);
	int rc;

	if (!inputs(o, s, in))
		return false;
	rc = session_run(s, in);
	if (rc)
		return session_fail(s, "run", rc);
	if (o->out_dir)
		return write_outputs(o, s);
	session_outputs(s, stdout);
	return true;
}

/* Inputs of sizes V to make runs on, memory for which is there; null after a diagnostic. */
static const Array *random_inputs(Session *s, const int64_t *v)
{
	const Array *in = v ? session_random(s, v) : NULL;
	const int rc = in ? s->api->prepare(s->context, v, s->desc->n_sym) : DL_OK;

	if (rc)
		session_fail(s, "prepare", rc);
	return rc ? NULL : in;
}

/* Times runs on the inputs of the previous run, else on random ones; for the profile, only executes
 * them. */
static bool bench(const RunOptions *o, Session *s)
{
	const Array *given = s->given;
	const int64_t *v = given ? session_dims(s, given) : dims(o, s);
	const Array *in;
	Timing t;

	if (!given)
		note_dims(o, s, v);
	in = given ? given : random_inputs(s, v);
	if (!in)
		return false;
	if (!session_bench(s, in, o->seconds, &t)) {
		if (!given)
			diag_note(
				s->diag,
				"the inputs were random; give others: --data DIR or -i NAME=FILE");
		return false;
	}
	if (o->bench)
		session_timing(s, stdout, &t, v, o->load.threads);
	return true;
}

/* Whether the runtime can write the trace at the end: into a device or through a link, else as a
 * new file in its folder. Asked before the runs, which may take long. */
static bool trace_can_be_written(const RunOptions *o, const Session *s)
{
	const char *path = o->load.profile_path, *slash = path ? strrchr(path, '/') : NULL;
	const char *folder = slash ? arena_printf(s->arena, "%.*s/", (int)(slash - path), path)
				   : ".";
	struct stat st;
	bool ok;

	if (!path)
		return true;
	if (lstat(path, &st) || S_ISREG(st.st_mode))
		ok = !access(folder, W_OK | X_OK);
	else if (S_ISDIR(st.st_mode))
		ok = false, errno = EISDIR;
	else
		ok = !access(path, W_OK) || (S_ISLNK(st.st_mode) && errno == ENOENT);
	return ok || diag_error(s->diag, (DiagLoc){.file = path}, "%s", strerror(errno));
}

/* The runtime would wait for a pipe, and say of a Git LFS pointer that it has too few bytes. */
static bool weights_are_file(const RunOptions *o, const Session *s)
{
	const char *path = o->load.weights_path;
	struct stat st;
	const int fd = path ? open_regular(path, &st) : -1;

	if (fd >= 0)
		close(fd);
	return !path || fd >= 0 ||
	       diag_error(s->diag, (DiagLoc){.file = path}, "cannot be read: %s", open_error());
}

/* tools/ptxsim poses as the driver, and its times are counts, or times of an interpreter. */
static void note_simulator(const Session *s)
{
	if (strstr(session_device(s), " ptxsim "))
		diag_warning(s->diag, (DiagLoc){.file = s->path}, "simulator",
			     "%s is a simulator: these are not the times of a GPU",
			     session_device(s));
}

/* Milliseconds for each bound: some rounds of the longest one, a pass over memory. */
static const double ROOF_MS = 150;

/* The bounds that are known before the model is loaded, so that the trace has them, too. If a GPU
 * may be chosen, only given bounds. */
static Roof roof_before(const RunOptions *o, const Session *s)
{
	const char *device = o->load.device;
	const bool cpu = !strstr(s->desc->targets, "sm_") || (device && !strcmp(device, "cpu"));

	if (!o->load.profile || o->roof[0] > 0 || !cpu)
		return (Roof){.flops = o->roof[0] * 1e9, .bytes = o->roof[1] * 1e9};
	return roof_measure(ROOF_FLOPS | ROOF_BYTES, session_threads(o->load.threads), ROOF_MS);
}

/* Completes R for the device that was chosen. */
static void roof_after(const RunOptions *o, const Session *s, Roof *r)
{
	if (!o->load.profile || o->roof[0] > 0)
		return;
	if (session_gpu(s).sm)
		r->bytes = (double)session_gpu(s).bytes_per_second;
	else if (r->flops <= 0)
		*r = roof_measure(ROOF_FLOPS | ROOF_BYTES, session_threads(o->load.threads),
				  ROOF_MS);
}

static bool run(RunOptions *o, Session *s)
{
	const bool once = o->input.n || o->out_dir;
	bool ok = true;
	Roof roof;

	if (o->describe || (!o->data.n && !once && !o->bench && !o->load.profile))
		session_describe(s, stdout);
	if (!o->data.n && !once && !o->bench && !o->load.profile)
		return true;
	if (!trace_can_be_written(o, s))
		return false;
	roof = roof_before(o, s);
	o->load.roof_flops = roof.flops;
	o->load.roof_bytes = roof.bytes;
	if (!weights_are_file(o, s) || !session_load(s, &o->load))
		return false;
	roof_after(o, s, &roof);
	if (o->bench || o->load.profile)
		note_simulator(s);
	if ((o->data.n || once) && strstr(s->desc->targets, "sm_"))
		printf("device: %s\n", session_device(s));
	for (int i = 0; i < o->data.n; i++)
		ok &= session_data(s, o->data.at[i], o->compare);
	if (once)
		ok &= run_once(o, s);
	if ((o->bench && (ok || s->given)) || (o->load.profile && !once && !o->data.n))
		ok &= bench(o, s);
	if (o->load.profile && ok)
		(o->json ? session_profile_json : session_profile)(s, stdout, &roof);
	return ok;
}

static void print_help(void)
{
	fputs(help, stdout);
}

static void print_version(void)
{
	printf("dlrun " DLCC_VERSION ", for API %d\n", DL_ABI_VERSION);
}

static const Question questions[] = {{"--help", print_help}, {"--version", print_version}, {0}};

static int work(int argc, char **argv)
{
	static RunOptions o;
	Diag d = {.out = stderr};
	Session s;
	Arena *a;
	bool ok;

	if (program_answers(argc, argv, questions))
		return program_end("dlrun", 0);
	if (!parse(&o, argc, argv))
		return EXIT_USAGE;
	a = arena_new();
	ok = session_open(&s, a, &d, o.model) && run(&o, &s);
	session_close(&s);
	arena_free(a);
	return program_end("dlrun", ok && !d.errors ? 0 : 1);
}

int main(int argc, char **argv)
{
	return program_run("dlrun", work, argc, argv);
}
