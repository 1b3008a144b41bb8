/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlcc-opt: runs passes over a graph and prints it. For tests and for looking at what a pass does.
 *
 *     dlcc-opt FILE.dl -p canon             infer runs first where types are not known
 *     dlcc-opt FILE.dl -p lower,sched       decide runs first where nothing is decided
 *     dlcc-opt model.onnx -p infer,canon --verify --rewrite-limit=3
 */
#include "base/program.h"
#include "base/sys.h"
#include "codegen/targets.h"
#include "frontend/import.h"
#include "ir/graph/definition.h"
#include "passes/forms/kernels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"usage: dlcc-opt [options] FILE.dl | FILE.onnx\n"
	"\n"
	"  -p PASS,PASS        the passes to run, in this order (default: none); `-p` may be repeated\n"
	"  -o FILE             where the graph is printed (default: standard output)\n"
	"  -O0 -O1 -O2 -O3     effort (default -O2)\n"
	"  --target=NAME       the CPU or GPU, as dlcc --list-targets names it (default: cpu:x86-64-v3)\n"
	"  --op=FILE.dl        the meaning of operators that the graph uses; may be repeated\n"
	"  --int8-weights      weights of products become i8, with a scale for each column\n"
	"  --int8-activations  what is multiplied by narrow weights becomes i8, on CPUs\n"
	"  --bf16-activations  what is multiplied by bf16 weights becomes bf16, on CPUs\n"
	"  --caches=TYPE       caches of f32 become f16, bf16, or i8 with scales\n"
	"  --bf16, --fp16      weights of products become bf16 or f16\n"
	"  --int4=GROUP        weights of products become i4, with a scale for each GROUP terms of a column\n"
	"  --winograd=N        the largest tiles of convolutions by Winograd on CPUs: 0 (none), 2 or 4 (default)\n"
	"  --tf32              GPUs may round the factors of f32 products to tf32\n"
	"  --rewrite-limit=N   rewrites done at most\n"
	"  --verify            check the graph after every pass\n"
	"  --schedules         print loop trees instead of the graph\n"
	"  --no-graph          print nothing\n"
	"  --list-passes       the passes there are\n"
	"  --version --help\n";

enum { MAX_PASSES = 64 };

typedef struct OptCli {
	const char *input, *output;
	const Target *target;
	const Pass *passes[MAX_PASSES];
	int npasses;
	Options opt;
	DefinitionFiles ops;
	bool schedules, quiet;
	Diag diag;
} OptCli;

static bool fault(OptCli *c, const char *fmt, const char *arg)
{
	char text[1024];

	snprintf(text, sizeof text, fmt, arg);
	return diag_error(&c->diag, (DiagLoc){.file = "dlcc-opt"}, "%s", text);
}

/* Reads the number after '=' of option A. */
static bool number(OptCli *c, const char *a, int *out)
{
	return program_number(strchr(a, '=') + 1, out) ||
	       fault(c, "%s: it is a number from 0 to 1048576", a);
}

/* Adds the passes of LIST. */
static bool add_passes(OptCli *c, const char *list)
{
	char name[64];

	for (size_t n; *list; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		if (!n)
			continue;
		if (c->npasses == MAX_PASSES)
			return fault(c, "%s: too many passes", "-p");
		snprintf(name, sizeof name, "%.*s", (int)n, list);
		if (!(c->passes[c->npasses++] = pass_by_name(name)))
			return fault(c, "-p %s: there is no such pass; see dlcc-opt --list-passes",
				     list);
	}
	return true;
}

/* --caches=TYPE. */
static bool set_caches(OptCli *c, const char *type)
{
	c->opt.caches = caches_type(type);
	return c->opt.caches || fault(c, "--caches=%s: it is f16, bf16 or i8", type);
}

/* --target=LIST, of one. */
static bool set_target(OptCli *c, const char *list)
{
	const char *text = list;
	bool cuda = false, ok;
	StrBuf error = {0};

	c->target = target_next(&list, &cuda, &error);
	ok = c->target && !target_next(&list, &cuda, &error);
	if (error.n)
		fault(c, "%s", strbuf_str(&error));
	else if (!ok)
		fault(c, "--target=%s: name one", text);
	strbuf_free(&error);
	return ok;
}

static bool option(OptCli *c, char **argv, int *i)
{
	const char *a = argv[*i];

	if ((!strcmp(a, "-p") || !strcmp(a, "-o")) && !argv[*i + 1])
		return fault(c, "%s wants a value", a);
	if (!strcmp(a, "-p"))
		return add_passes(c, argv[++*i]);
	if (!strcmp(a, "-o") && c->output && strcmp(c->output, argv[*i + 1]))
		return fault(c, "-o %s: an earlier -o says otherwise", argv[*i + 1]);
	if (!strcmp(a, "-o"))
		c->output = argv[++*i];
	else if (program_level(a, &c->opt.level))
		return c->opt.level >= 0 || fault(c, "%s: " OPT_LEVELS, a);
	else if (str_starts(a, "--target="))
		return set_target(c, a + strlen("--target="));
	else if (str_starts(a, "--rewrite-limit="))
		return number(c, a, &c->opt.rewrite_limit);
	else if (str_starts(a, "--op=") && c->ops.n == MAX_DEFINITION_FILES)
		return fault(c, "%s: too many", "--op");
	else if (str_starts(a, "--op="))
		c->ops.name[c->ops.n++] = a + strlen("--op=");
	else if (str_starts(a, "--winograd=")) {
		if (!number(c, a, &c->opt.winograd))
			return false;
		if (c->opt.winograd != 0 && c->opt.winograd != 2 && c->opt.winograd != 4)
			return fault(c, "%s: 0, 2 or 4", a);
	} else if (!strcmp(a, "--int8-weights"))
		c->opt.weight_type = DT_I8;
	else if (str_starts(a, "--caches="))
		return set_caches(c, a + strlen("--caches="));
	else if (!strcmp(a, "--bf16"))
		c->opt.weight_type = DT_BF16;
	else if (!strcmp(a, "--fp16"))
		c->opt.weight_type = DT_F16;
	else if (!strcmp(a, "--int8-activations"))
		c->opt.int8_activations = true;
	else if (!strcmp(a, "--bf16-activations"))
		c->opt.bf16_activations = true;
	else if (str_starts(a, "--int4=")) {
		c->opt.weight_type = DT_I4;
		if (!number(c, a, &c->opt.weight_group))
			return false;
		if (!c->opt.weight_group || c->opt.weight_group % 8)
			return fault(c, "%s: a multiple of 8", a);
	} else if (!strcmp(a, "--tf32"))
		c->opt.tf32 = true;
	else if (!strcmp(a, "--verify"))
		c->opt.verify = true;
	else if (!strcmp(a, "--schedules"))
		c->schedules = true;
	else if (!strcmp(a, "--no-graph"))
		c->quiet = true;
	else if (*a != '-' && !c->input)
		c->input = a;
	else
		return fault(c, "unknown argument %s; see dlcc-opt --help", a);
	return true;
}

static Graph *read_input(OptCli *c, Ctx *ctx, Arena *a, OnnxFile **file)
{
	const char *text;
	Graph *g;

	if (!definitions_read(ctx, &c->ops))
		return NULL;
	if (!str_ends(c->input, ".dl")) {
		*file = onnx_open(&c->diag, c->input);
		return *file ? onnx_import(ctx, a, *file, NULL) : NULL;
	}
	text = read_text(a, c->input);
	if (!text) {
		diag_error(&c->diag, (DiagLoc){.file = c->input}, "cannot be read: %s",
			   open_error());
		return NULL;
	}
	g = graph_parse(ctx, a, text, c->input);
	return g && graph_verify(g, &c->diag, "parse") ? g : NULL;
}

/* A node that `lower` makes a kernel of, and has not yet; or null. */
static const Node *not_lowered(const Graph *g)
{
	for (const Node *n = g->first; n; n = n->next)
		if ((op_table[n->op]->scalar || op_table[n->op]->lower) &&
		    !(op_row[n->op].flags & OPF_VIEW))
			return n;
	return NULL;
}

static bool run_pass(OptCli *c, Module *m, const Pass *p)
{
	const PassId id = (PassId)(p - pass_table);

	if (!m->infer && id != PASS_infer && !run_pass(c, m, &pass_table[PASS_infer]))
		return false;
	if (id > PASS_lower && not_lowered(m->graph))
		return diag_error(&c->diag, node_diag(not_lowered(m->graph)),
				  "%s works on kernels; run lower first", p->name);
	if (id == PASS_sched && !m->ndecisions && !run_pass(c, m, &pass_table[PASS_decide]))
		return false;
	return passes_run(m, id, id, NULL);
}

static bool run_passes(OptCli *c, Module *m)
{
	for (int i = 0; i < c->npasses; i++)
		if (!run_pass(c, m, c->passes[i]))
			return false;
	return true;
}

static bool print(OptCli *c, Module *m)
{
	StrBuf b = {0};
	bool ok = true;

	if (c->schedules)
		loop_trees_print(&b, m, NULL);
	else
		graph_print(&b, m->graph);
	if (c->output)
		ok = write_file(c->output, strbuf_str(&b), b.n) ||
		     diag_error(&c->diag, (DiagLoc){.file = c->output}, "cannot be written: %s",
				strerror(errno));
	else if (!c->quiet)
		fwrite(strbuf_str(&b), 1, b.n, stdout);
	strbuf_free(&b);
	return ok;
}

static bool run(OptCli *c)
{
	Ctx *ctx = ctx_new(&c->diag);
	Arena *a = arena_new();
	Module m = {.ctx = ctx, .arena = a, .opt = c->opt, .ntargets = 1, .report = stdout};
	OnnxFile *file = NULL;
	bool ok = false;

	m.target[0] = c->target;
	m.host = target_by_name("generic");
	if ((m.graph = read_input(c, ctx, a, &file)))
		ok = run_passes(c, &m) && print(c, &m);
	if (file)
		onnx_close(file);
	arena_free(a);
	ctx_free(ctx);
	return ok && !c->diag.errors;
}

static void help(void)
{
	fputs(usage, stdout);
}

static void print_version(void)
{
	puts("dlcc-opt " DLCC_VERSION);
}

static void list_passes(void)
{
	passes_list(stdout);
}

static const Question questions[] = {
	{"--help", help}, {"--version", print_version}, {"--list-passes", list_passes}, {0}};

static int work(int argc, char **argv)
{
	OptCli c = {.target = target_by_name("x86-64-v3"),
		    .opt = {.level = 2, .rewrite_limit = -1, .winograd = WINOGRAD_DEFAULT, .slice = -1, .weight_error = -1},
		    .diag = {.out = stderr}};

	if (program_answers(argc, argv, questions))
		return program_end("dlcc-opt", 0);
	for (int i = 1; i < argc; i++)
		if (!option(&c, argv, &i))
			return EXIT_USAGE;
	if (!c.input)
		return fault(&c, "no input%s; see dlcc-opt --help", ""), EXIT_USAGE;
	c.diag.file = c.input;
	return program_end("dlcc-opt", run(&c) ? 0 : 1);
}

int main(int argc, char **argv)
{
	return program_run("dlcc-opt", work, argc, argv);
}
