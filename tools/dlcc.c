/* SPDX-License-Identifier: Apache-2.0 */
/* dlcc: the compiler's command line. `dlcc --help` is its manual in short; docs/cli.md the long one. */
#include "base/sys.h"
#include "codegen/package.h"
#include "codegen/targets.h"
#include "frontend/import.h"
#include "passes/module.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef DLCC_VERSION
#define DLCC_VERSION "0"
#endif

enum { MAX_DIMS = 64 };

typedef struct Cli {
	const char *input, *output, *name, *cc, *sysroot, *runtime, *weights, *save_temps;
	const char *dump, *dump_node;
	const char *dims[MAX_DIMS];
	int ndims;
	const char *targets;
	int level, threads, rewrite_limit;
	bool verbose, check, time_passes, dump_all, sanitize, shuffle, verify;
	Diag diag;
} Cli;

static const char usage[] =
	"usage: dlcc [options] MODEL.onnx -o FILE\n"
	"\n"
	"FILE's suffix says what is made: .so .a .o .c (with a header beside it), .dl (the graph as text)\n"
	"\n"
	"  -o FILE               the output\n"
	"  --name=NAME           prefix of the exported symbols (default: from FILE)\n"
	"  --target=cpu:LIST     native, x86-64-v4, -v3, -v2, generic; several: variants in one artifact\n"
	"  --dim NAME=N, A..B    bind or bound a symbolic dim; may be repeated\n"
	"  -O0 -O1 -O2 -O3       effort (default -O2)\n"
	"  --cc=CC --sysroot=DIR the C compiler to use (default: clang, else gcc)\n"
	"  --runtime=FILE        libdlrt.a for the target\n"
	"  --weights=FILE        weights in a file beside the artifact\n"
	"  --threads=N           C compilers at once (default: the processors)\n"
	"  --check               say for each node whether and how it is supported\n"
	"  --dump-ir[=PASS]      print the IR after every pass, or after PASS; --dump-node=NAME: only there\n"
	"  --time-passes         print the time of each pass\n"
	"  --save-temps[=DIR]    keep the generated C\n"
	"  --list-ops --list-passes --list-targets\n"
	"  -WNAME -Wno-NAME -Werror[=NAME]\n"
	"  -v --version --help\n";

static const char *value_of(const char *arg, const char *option)
{
	size_t n = strlen(option);

	return !strncmp(arg, option, n) && arg[n] == '=' ? arg + n + 1 : NULL;
}

static void list_ops(void)
{
	for (int i = 1; i < OP_COUNT; i++)
		if (!(op_row[i].flags & OPF_INTERNAL) && (op_table[i]->scalar || op_table[i]->lower || op_table[i]->expand))
			puts(op_row[i].name);
}

static void add_name(const char **list, const char *name)
{
	for (int i = 0; i < 15; i++)
		if (!list[i]) {
			list[i] = name;
			return;
		}
}

static bool warning_option(Cli *c, const char *a)
{
	if (!strcmp(a, "-Werror"))
		add_name(c->diag.werror, "all");
	else if (value_of(a, "-Werror"))
		add_name(c->diag.werror, value_of(a, "-Werror"));
	else if (str_starts(a, "-Wno-"))
		add_name(c->diag.wno, a + 5);
	return true;
}

typedef struct Text {
	const char *option;
	size_t at; /* offset in Cli of a const char * */
} Text;

static const Text texts[] = {
	{"--name", offsetof(Cli, name)}, {"--cc", offsetof(Cli, cc)}, {"--sysroot", offsetof(Cli, sysroot)},
	{"--runtime", offsetof(Cli, runtime)}, {"--weights", offsetof(Cli, weights)}, {"--target", offsetof(Cli, targets)},
	{"--dump-ir", offsetof(Cli, dump)}, {"--dump-node", offsetof(Cli, dump_node)}, {"--save-temps", offsetof(Cli, save_temps)},
	{"-o", offsetof(Cli, output)},
};

typedef struct Flag {
	const char *option;
	size_t at; /* of a bool */
} Flag;

static const Flag flags[] = {
	{"-v", offsetof(Cli, verbose)}, {"--verbose", offsetof(Cli, verbose)}, {"--check", offsetof(Cli, check)},
	{"--time-passes", offsetof(Cli, time_passes)}, {"--dump-ir", offsetof(Cli, dump_all)}, {"--sanitize", offsetof(Cli, sanitize)},
	{"--shuffle", offsetof(Cli, shuffle)}, {"--verify", offsetof(Cli, verify)},
};

/* True where ARGV[*i] was understood; advances over a value that is an argument of its own. */
static bool option(Cli *c, char **argv, int *i)
{
	const char *a = argv[*i], *v;

	if (a[0] == '-' && a[1] == 'W')
		return warning_option(c, a);
	if (a[0] == '-' && a[1] == 'O' && a[2] >= '0' && a[2] <= '3' && !a[3]) {
		c->level = a[2] - '0';
		return true;
	}
	for (size_t j = 0; j < sizeof flags / sizeof *flags; j++)
		if (!strcmp(a, flags[j].option)) {
			*(bool *)((char *)c + flags[j].at) = true;
			return true;
		}
	if (!strcmp(a, "--save-temps")) {
		c->save_temps = ".";
		return true;
	}
	for (size_t j = 0; j < sizeof texts / sizeof *texts; j++) {
		v = value_of(a, texts[j].option);
		if (!v && !strcmp(a, texts[j].option) && argv[*i + 1])
			v = argv[++*i];
		if (v) {
			*(const char **)((char *)c + texts[j].at) = v;
			return true;
		}
	}
	v = value_of(a, "--dim");
	if (!v && !strcmp(a, "--dim") && argv[*i + 1])
		v = argv[++*i];
	if (v && c->ndims < MAX_DIMS) {
		c->dims[c->ndims++] = v;
		return true;
	}
	if ((v = value_of(a, "--threads")))
		c->threads = atoi(v);
	else if ((v = value_of(a, "--rewrite-limit")))
		c->rewrite_limit = atoi(v);
	else if (a[0] == '-' || c->input)
		return false;
	else
		c->input = a;
	return true;
}

static DiagLoc no_where(const Cli *c)
{
	return (DiagLoc){.file = c->input ? c->input : "dlcc"};
}

/* --dim NAME=N or NAME=A..B */
static bool bind_dims(Cli *c, Ctx *ctx, Graph *g)
{
	for (int i = 0; i < c->ndims; i++) {
		const char *eq = strrchr(c->dims[i], '=');
		char *name = eq ? arena_strndup(ctx->arena, c->dims[i], (size_t)(eq - c->dims[i])) : NULL, *end;
		long long lo, hi;
		bool found = false;

		if (!eq)
			return diag_error(&c->diag, no_where(c), "--dim %s: write NAME=N or NAME=A..B", c->dims[i]);
		lo = hi = strtoll(eq + 1, &end, 10);
		if (end[0] == '.' && end[1] == '.')
			hi = strtoll(end + 2, &end, 10);
		if (*end || lo < 0 || hi < lo)
			return diag_error(&c->diag, no_where(c), "--dim %s: write NAME=N or NAME=A..B, with 0 <= A <= B", c->dims[i]);
		for (int s = 0; s < sym_count(ctx); s++)
			if (!strcmp(sym_at(ctx, s)->name, name)) {
				sym_at(ctx, s)->lo = lo;
				sym_at(ctx, s)->hi = hi;
				found = true;
			}
		if (!found)
			return diag_error(&c->diag, no_where(c), "--dim %s: the model has no dim \"%s\"", c->dims[i], name);
	}
	graph_bind_dims(g);
	return true;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void dump(const Cli *c, const Module *m, const char *pass)
{
	StrBuf b = {0};

	if (!c->dump_all && !(c->dump && !strcmp(c->dump, pass)))
		return;
	strbuf_printf(&b, "; after %s\n", pass);
	if (!strcmp(pass, "sched")) {
		for (int t = 0; t < m->ntargets; t++)
			for (int i = 0; i < m->nsched; i++)
				if (m->sched[t][i])
					schedule_print(&b, m->sched[t][i]);
	} else {
		graph_print(&b, m->graph);
	}
	fwrite(strbuf_str(&b), 1, b.n, stdout);
	strbuf_free(&b);
}

static bool run_passes(const Cli *c, Module *m, const char *until)
{
	bool tty = isatty(2);

	for (const Pass *p = pass_table; p->name; p++) {
		double t = now();
		bool ok;

		if (tty && !c->verbose)
			fprintf(stderr, "\r\033[K%s: %s", c->input, p->name);
		ok = p->run(m);
		if (tty && !c->verbose)
			fprintf(stderr, "\r\033[K");
		if (c->time_passes)
			fprintf(stderr, "%10.1f ms  %s\n", now() - t, p->name);
		if (ok && m->opt.verify)
			ok = graph_verify(m->graph, &((Cli *)(uintptr_t)c)->diag, p->name);
		if (!ok)
			return false;
		dump(c, m, p->name);
		if (until && !strcmp(p->name, until))
			return true;
	}
	return true;
}

static bool choose_targets(Cli *c, Module *m)
{
	const char *list = c->targets ? c->targets : "cpu:native";
	Arena *a = m->arena;

	if (str_starts(list, "cpu:"))
		list += 4;
	else if (!strcmp(list, "cpu"))
		list = "native";
	while (*list) {
		size_t n = strcspn(list, ",");
		char *name = arena_strndup(a, list, n);
		const Target *t;

		if (str_starts(name, "cpu:"))
			name += 4;
		t = target_by_name(str_starts(name, "v") && strlen(name) == 2 ? arena_printf(a, "x86-64-%s", name) : name);
		if (!t)
			return diag_error(&c->diag, no_where(c), "--target: \"%s\" is not known; dlcc --list-targets names all", name);
		if (m->ntargets < MAX_TARGETS)
			m->target[m->ntargets++] = t;
		list += n + (list[n] == ',');
	}
	/* Best first, as they are tried at load. */
	for (int i = 1; i < m->ntargets; i++)
		for (int j = i; j > 0 && m->target[j - 1] > m->target[j]; j--) {
			const Target *t = m->target[j];

			m->target[j] = m->target[j - 1];
			m->target[j - 1] = t;
		}
	return true;
}

static const char *default_name(Arena *a, const char *output)
{
	const char *base = strrchr(output, '/') ? strrchr(output, '/') + 1 : output;
	char *s = arena_strndup(a, base, strcspn(base, "."));

	if (!strncmp(s, "lib", 3) && s[3])
		s += 3;
	for (char *p = s; *p; p++)
		if (!isalnum((unsigned char)*p))
			*p = '_';
	return isdigit((unsigned char)*s) || !*s ? arena_printf(a, "m%s", s) : s;
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

static bool check_output(Cli *c)
{
	const char *dot = c->output ? strrchr(c->output, '.') : NULL;
	static const char *const known[] = {".so", ".a", ".o", ".c", ".dl"};

	for (size_t i = 0; dot && i < sizeof known / sizeof *known; i++)
		if (!strcmp(dot, known[i]))
			return true;
	return diag_error(&c->diag, (DiagLoc){.file = "dlcc"}, "%s%s; the suffix says what is made: .so .a .o .c .dl",
			  c->output ? "cannot make " : "no output: give -o FILE", c->output ? c->output : "");
}

static Graph *read_input(Cli *c, Ctx *ctx, Arena *a, OnnxFile **file)
{
	size_t n = 0;
	const char *text;

	*file = NULL;
	if (!str_ends(c->input, ".dl")) {
		*file = onnx_open(&c->diag, c->input);
		return *file ? onnx_import(ctx, a, *file) : NULL;
	}
	text = read_file(a, c->input, &n);
	if (!text) {
		diag_error(&c->diag, no_where(c), "cannot be read");
		return NULL;
	}
	return graph_parse(ctx, a, text, c->input);
}

static void on_signal(int sig)
{
	package_abort();
	signal(sig, SIG_DFL);
	raise(sig);
}

static bool emit(Cli *c, Module *m)
{
	PackageOpts o = {.output = c->output, .name = c->name ? c->name : default_name(m->arena, c->output), .cc = c->cc,
			 .sysroot = c->sysroot, .runtime = c->runtime, .weights_file = c->weights, .version = DLCC_VERSION,
			 .level = c->level, .save_temps = c->save_temps, .verbose = c->verbose, .sanitize = c->sanitize};
	double t = now();
	bool ok;

	if (!is_identifier(o.name))
		return diag_error(&c->diag, no_where(c), "--name=%s is no C identifier", o.name);
	o.jobs = c->threads > 0 ? c->threads : (int)sysconf(_SC_NPROCESSORS_ONLN);
	ok = package(m, &o);
	if (c->time_passes)
		fprintf(stderr, "%10.1f ms  package\n", now() - t);
	return ok;
}

static bool write_text(Cli *c, Module *m)
{
	StrBuf b = {0};
	bool ok;

	graph_print(&b, m->graph);
	ok = write_file(c->output, strbuf_str(&b), b.n) || diag_error(&c->diag, (DiagLoc){.file = c->output}, "cannot be written");
	strbuf_free(&b);
	return ok;
}

static bool compile(Cli *c)
{
	Ctx *ctx = ctx_new(&c->diag);
	Arena *a = arena_new();
	Module m = {.ctx = ctx, .arena = a, .opt = {.level = c->level, .rewrite_limit = c->rewrite_limit, .shuffle = c->shuffle, .verify = c->verify}};
	OnnxFile *file = NULL;
	bool ok = false;

	m.graph = read_input(c, ctx, a, &file);
	if (m.graph)
		ok = bind_dims(c, ctx, m.graph) && choose_targets(c, &m);
	if (ok && str_ends(c->output, ".dl"))
		ok = write_text(c, &m);
	else if (ok)
		ok = run_passes(c, &m, NULL) && emit(c, &m);
	if (file)
		onnx_close(file);
	arena_free(a);
	ctx_free(ctx);
	return ok && !c->diag.errors;
}

static int information(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return fputs(usage, stdout), 0;
		if (!strcmp(argv[i], "--version"))
			return puts("dlcc " DLCC_VERSION), 0;
		if (!strcmp(argv[i], "--list-ops"))
			return list_ops(), 0;
		if (!strcmp(argv[i], "--list-passes")) {
			for (const Pass *p = pass_table; p->name; p++)
				printf("%-10s %s\n", p->name, p->what);
			return 0;
		}
		if (!strcmp(argv[i], "--list-targets")) {
			for (const Target *t = target_table; t->name; t++)
				printf("cpu:%s\n", t->name);
			return 0;
		}
	}
	return -1;
}

int main(int argc, char **argv)
{
	Cli c = {.level = 2, .rewrite_limit = -1, .diag = {.out = stderr}};
	int done = information(argc, argv);

	if (done >= 0)
		return done;
	c.diag.colour = isatty(2) && !getenv("NO_COLOR");
	for (int i = 1; i < argc; i++)
		if (!option(&c, argv, &i)) {
			diag_error(&c.diag, (DiagLoc){.file = "dlcc"}, "unknown argument %s; see dlcc --help", argv[i]);
			return 1;
		}
	if (!c.input) {
		diag_error(&c.diag, (DiagLoc){.file = "dlcc"}, "no model; see dlcc --help");
		return 1;
	}
	c.diag.file = c.input;
	if (!check_output(&c))
		return 1;
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	signal(SIGHUP, on_signal);
	return compile(&c) ? 0 : 1;
}
