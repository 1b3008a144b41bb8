/* SPDX-License-Identifier: Apache-2.0 */
/* dlcc: the compiler's command line. `dlcc --help` is its manual in short; docs/cli.md the long
 * one. */
#include "base/program.h"
#include "base/sys.h"
#include "codegen/package/package.h"
#include "codegen/targets.h"
#include "codegen/weights/weights.h"
#include "frontend/export.h"
#include "frontend/import.h"
#include "ir/eval/eval_tiles.h"
#include "passes/forms/scaled.h"
#include "passes/schedule/common/decision.h"
#include "passes/schedule/gpu/gpu.h"
#include "tools/dlcc/check.h"
#include "tools/dlcc/explain.h"
#include "tools/dlcc/options.h"
#include "tools/dlcc/outputs.h"
#include "tools/dlcc/quantise.h"
#include "tools/dlcc/tune.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static DiagLoc no_where(const Cli *c)
{
	return (DiagLoc){.file = c->input ? c->input : "dlcc"};
}

/* Refuses --dim D, naming the dims that there are. */
static bool unknown_dim(Cli *c, Ctx *ctx, const DimOption *d)
{
	StrBuf b = {0};

	for (int s = 0; s < sym_count(ctx); s++)
		strbuf_printf(&b, "%s \"%s\"", b.n ? "," : "; it has", sym_at(ctx, s)->name);
	diag_error(&c->diag, no_where(c), "--dim %s: the model has no dim \"%.*s\"%s", d->text,
		   (int)d->name, d->text, b.n ? strbuf_str(&b) : "; all of its sizes are fixed");
	strbuf_free(&b);
	return false;
}

static bool names_sym(const DimOption *d, const Sym *s)
{
	return strlen(s->name) == d->name && !strncmp(d->text, s->name, d->name);
}

/* The model has all sizes of D, for S; else a diagnostic. */
static bool dim_fits(Cli *c, const DimOption *d, const Sym *s)
{
	if (s->lo <= d->lo && d->hi <= s->hi)
		return true;
	if (s->hi == DIM_INF)
		return diag_error(&c->diag, no_where(c),
				  "--dim %s: the model takes \"%s\" from %lld on", d->text, s->name,
				  (long long)s->lo);
	return diag_error(&c->diag, no_where(c),
			  "--dim %s: the model takes \"%s\" from %lld to %lld", d->text, s->name,
			  (long long)s->lo, (long long)s->hi);
}

/* --dim NAME=N or NAME=A..B */
static bool bind_dims(Cli *c, Ctx *ctx, Graph *g)
{
	for (int i = 0; i < c->ndims; i++) {
		const DimOption *d = &c->dims[i];
		bool found = false;

		for (int s = 0; s < sym_count(ctx); s++)
			if (names_sym(d, sym_at(ctx, s))) {
				if (!dim_fits(c, d, sym_at(ctx, s)))
					return false;
				sym_at(ctx, s)->lo = d->lo;
				sym_at(ctx, s)->hi = d->hi;
				found = true;
			}
		if (!found)
			return unknown_dim(c, ctx, d);
	}
	graph_bind_dims(g);
	return true;
}

/* Whether every --dim is within the bounds that the model's text or inference sets. */
static bool dims_fit(Cli *c, Ctx *ctx)
{
	for (int i = 0; i < c->ndims; i++)
		for (int s = 0; s < sym_count(ctx); s++)
			if (names_sym(&c->dims[i], sym_at(ctx, s)) &&
			    !dim_fits(c, &c->dims[i], sym_at(ctx, s)))
				return false;
	return true;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Prints the processors that M is for, as "x86-64-v4" or "sm_90a, sm_80", to F. */
static void name_targets(FILE *f, const Module *m)
{
	for (int t = 0; t < m->ntargets; t++)
		fprintf(f, "%s%s", t ? ", " : "", m->target[t]->name);
}

static void dump(const Cli *c, Module *m, const Pass *p)
{
	StrBuf b = {0};

	if (!c->dump_all && !(c->dump ? !strcmp(c->dump, p->name) : c->dump_node != NULL))
		return;
	if (c->dump_node && p->prints->whole)
		return;
	if (!p->prints->file || c->dump_all || !c->dump) {
		printf("; after %s for ", p->name);
		name_targets(stdout, m);
		if (p < &pass_table[PASS_lower] && m->gpu) {
			fputs(", ", stdout);
			name_targets(stdout, m->gpu);
		}
		putchar('\n');
	}
	p->prints->print(&b, m, c->dump_node);
	fwrite(strbuf_str(&b), 1, b.n, stdout);
	strbuf_free(&b);
}

/* --dump-ir=nvptx: the LLVM IR of the kernels for GPUs. */
static void dump_nvptx(const Cli *c, const Module *m)
{
	for (int t = 0; t < m->ntargets && (c->dump_all || (c->dump && !strcmp(c->dump, "nvptx")));
	     t++) {
		GenPtx *g = gen_nvptx_new(m->ctx, m->arena, m->target[t], "");
		StrBuf b = {0};

		for (int i = 0; i < m->nsched; i++)
			for (const Schedule *s = m->sched[t][i];
			     s && kernel_serves(s->kernel, c->dump_node); s = s->next)
				for (int j = 0; j < s->stages.n; j += stage_launch(s, j))
					if (s->stages.at[j]
						    ->block.group) /* else the host runs it */
						gen_nvptx_stage(g, s, j);
		gen_nvptx_ir(g, &b);
		printf("; for %s\n%s", m->target[t]->name, strbuf_str(&b));
		strbuf_free(&b);
	}
}

/* Prints what the blocks of stage ST of S do for target T, if they work on tiles of known sizes. */
static void dump_count(const Target *t, const Schedule *s, const Stage *st)
{
	TileCounts counts;
	const char *lacks = tiles_count(s, st, &counts);

	printf("%s %s:", st->name, t->name);
	if (lacks) {
		printf(" %s\n", lacks);
		return;
	}
#define X(counter) printf(" " #counter " %lld", (long long)counts.counter);
	TILE_COUNTERS(X)
#undef X
	puts("");
}

/* --dump-ir=count: the work of products and attentions on GPUs, a line for each stage. */
static void dump_counts(const Cli *c, const Module *m)
{
	for (int t = 0; t < m->ntargets; t++)
		for (int i = 0; i < m->nsched; i++)
			for (const Schedule *s = m->sched[t][i];
			     s && kernel_serves(s->kernel, c->dump_node); s = s->next)
				for (int j = 0; j < s->stages.n && schedule_has_tiles(s); j++)
					dump_count(m->target[t], s, s->stages.at[j]);
}

/* C's passes, or a part of the output, took MS. */
static void print_time(const Cli *c, double ms, const char *what)
{
	if (c->diag.json)
		fprintf(stderr, "{\"kind\":\"time\",\"what\":\"%s\",\"ms\":%.1f}\n", what, ms);
	else
		fprintf(stderr, "%10.1f ms  %s\n", ms, what);
}

/* --verify: prints the number of schedules that were proved, and what that means. */
static void print_verified(const Cli *c, const Module *m)
{
	const Verified *v = &m->verified;

	escape_to_file(stderr, c->input, escape_terminal);
	fputs(": for ", stderr);
	name_targets(stderr, m);
	fprintf(stderr,
		": %d schedule%s proved, %d not proved, %d wrong (%d more equal one of them); "
		"compared: points and their order, values, the places of loads and stores, guards\n",
		v->proved, v->proved == 1 ? "" : "s", v->unproved, v->wrong, v->equal);
}

/* Settings for the terminal and --time-passes while passes run. */
typedef struct Progress {
	const Cli *c;
	double since;  /* when the pass began */
	bool verified; /* --verify's findings are printed */
} Progress;

static void show_pass(void *arg, Module *m, const Pass *p, PassEvent e)
{
	Progress *g = arg;
	const Cli *c = g->c;

	if (e == PASS_BEGINS) {
		show_progress(c, "%s", p->name);
		g->since = now();
	} else if (e == PASS_RAN) {
		show_progress(c, NULL);
		if (c->time_passes)
			print_time(c, now() - g->since, p->name);
		if (m->opt.verify && m->nsched && !g->verified) {
			print_verified(c, m);
			g->verified = true;
		}
	} else {
		dump(c, m, p);
	}
}

/* Runs the passes FROM to TO. BEGINS: they are the first that are for M. */
static bool run_passes(const Cli *c, Module *m, PassId from, PassId to, bool begins)
{
	Progress g = {.c = c};

	if (c->time_passes && begins && !c->diag.json) {
		fputs("for ", stderr);
		name_targets(stderr, m);
		fputs(":\n", stderr);
	}
	return passes_run(m, from, to, &(PassHook){show_pass, &g, false});
}

static void add_target(const Target **list, int *n, const Target *t)
{
	int at = *n;

	for (int i = 0; i < *n; i++)
		if (list[i] == t)
			return;
	/* Best first, the order in which they are tried at load. */
	for (; at > 0 && list[at - 1] > t; at--)
		list[at] = list[at - 1];
	list[at] = t;
	(*n)++;
}

/* --calibrate measures halves. */
static bool measures_halves(const Cli *c)
{
	return c->calibrate && !c->int8;
}

/* A .ptx and --check are for the first GPU that is named, a .ptx for no CPU. */
static bool choose_targets(Cli *c, Arena *a, Module *m, Module *gpu)
{
	const char *list = c->targets ? c->targets : "cpu:native";
	const bool one = c->check || (c->output && str_ends(c->output, ".ptx"));
	const Target *t;
	StrBuf error = {0};
	bool cuda = false;

	while ((t = target_next(&list, &cuda, &error)))
		if (t->gpu && !(one && gpu->ntargets))
			add_target(gpu->target, &gpu->ntargets, t);
		else if (!t->gpu)
			add_target(m->target, &m->ntargets, t);
	if (error.n) {
		options_fault(c, strbuf_str(&error));
		strbuf_free(&error);
		return false;
	}
	if (gpu->ntargets && gen_nvptx_lacks())
		return options_fault(c, arena_printf(a, "--target=cuda: %s", gen_nvptx_lacks()));
	if (gpu->ntargets && !m->ntargets)
		add_target(m->target, &m->ntargets, target_by_name("native"));
	if (!m->ntargets)
		return options_fault(c, "--target= names none");
	if (m->ntargets > 1 && c->output && str_ends(c->output, ".c"))
		return options_fault(c, "a file of C is for one CPU: name one, as --target=cpu:v3");
	if (dump_of_gpu(c->dump) && !gpu->ntargets)
		return options_fault(
			c, arena_printf(a, "--dump-ir=%s needs a target: --target=cuda:sm_80",
					c->dump));
	if (c->output && str_ends(c->output, ".ptx") && !gpu->ntargets)
		return options_fault(c, "PTX needs a target: --target=cuda:sm_80");
	if (options_for_gpus(c) && !gpu->ntargets)
		return options_fault(c, arena_printf(a, "%s needs a target: --target=cuda:sm_80",
						     options_for_gpus(c)));
	if (measures_halves(c) && (!c->half_activations || !gpu->ntargets))
		return options_fault(
			c,
			"--calibrate without --int8 is for --activations-as=f16 or bf16, and a target: --target=cuda:sm_80");
	if (c->nkeep && !c->int8 && !c->weight_type && !(c->half_activations && gpu->ntargets))
		return options_fault(
			c, "--keep with --activations-as is for f16 or bf16 on GPUs: --target=cuda:sm_80");
	if (c->half_activations && c->max_error >= 0 && !c->calibrate && !c->weight_type)
		return options_fault(
			c, "--max-error with --activations-as wants samples: give --calibrate=DIR");
	if (c->tune && (gpu->ntargets || m->ntargets > 1))
		return options_fault(c, "--tune measures the code for one CPU, this one");
	for (int i = 0; c->tf32 && i < gpu->ntargets; i++)
		if (!mma_rounds(gpu->target[i]->gpu->sm))
			return options_fault(
				c,
				arena_printf(a, "--tf32: %s multiplies no tf32; sm_80 and later do",
					     gpu->target[i]->name));
	m->gpu = gpu->ntargets ? gpu : NULL;
	/* Then the warning is about the GPU. */
	m->opt.warn_floats = m->opt.warn_floats && !m->gpu;
	if (c->output && str_ends(c->output, ".ptx"))
		m->ntargets = 0;
	gpu->host = target_by_name("generic");
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

static Graph *read_input(Cli *c, Ctx *ctx, Arena *a, OnnxFile **file, Refusals *r)
{
	Diag *d = &c->diag;
	const char *text;
	Graph *g;

	*file = NULL;
	if (!definitions_read(ctx, &c->ops))
		return NULL;
	if (!str_ends(c->input, ".dl")) {
		*file = onnx_open(d, c->input);
		if (c->check) {
			d->sink = check_sink;
			d->sink_arg = r;
		}
		return *file ? onnx_import(ctx, a, *file, &c->overridable) : NULL;
	}
	text = read_text(a, c->input);
	if (!text) {
		diag_error(d, no_where(c), "cannot be read: %s", open_error());
		return NULL;
	}
	g = graph_parse(ctx, a, text, c->input);
	return g && graph_verify(g, d, "parse") ? g : NULL;
}

static void on_signal(int sig)
{
	package_abort();
	signal(sig, SIG_DFL);
	raise(sig);
}

/* The part of the package that is being made, and since when. */
typedef struct PartTime {
	const Cli *c;
	double since;
} PartTime;

static void part_done(void *arg, const char *part)
{
	PartTime *t = arg;

	print_time(t->c, now() - t->since, part);
	t->since = now();
}

static PackageOpts package_opts(const Cli *c, Arena *a)
{
	return (PackageOpts){.output = c->output,
			     .name = c->name ? c->name : default_name(a, c->output),
			     .cc = c->cc,
			     .sysroot = c->sysroot,
			     .runtime = c->runtime,
			     .soname = c->soname,
			     .glibc = c->glibc,
			     .weights_file = c->weights,
			     .embed = c->embed,
			     .cubin = c->cubin,
			     .ptxas = c->ptxas,
			     .version = DLCC_VERSION,
			     .level = c->level,
			     .save_temps = c->save_temps,
			     .cache = c->cache,
			     .cache_bytes = (int64_t)c->cache_size << 20,
			     .verbose = c->verbose,
			     .dry = c->dry,
			     .sanitize = c->sanitize,
			     .jobs = c->threads > 0 ? c->threads
						    : (int)sysconf(_SC_NPROCESSORS_ONLN)};
}

/* DEPENDS: the text of --depfile, or null. */
static bool emit(Cli *c, Module *m, double begin, const char *depends)
{
	PartTime time = {c, now()};
	PackageOpts o = package_opts(c, m->arena);

	o.depfile = c->depfile;
	o.depends = depends;

	o.done = c->time_passes ? part_done : NULL;
	o.done_arg = &time;
	if (c->tune)
		return tune(c, m, &o, begin);
	if (c->time_passes && !c->diag.json)
		fprintf(stderr, "for %s:\n", o.output);
	return package(m, &o);
}

/* PATH as a text in FOLDER names it: a file in FOLDER by its name only, so that both can move
 * together. */
static const char *seen_from(Arena *a, const char *folder, const char *path)
{
	char *real = realpath(path, NULL);
	const char *name = real ? arena_strdup(a, real) : path;
	const size_t n = strlen(folder);

	free(real);
	return !strncmp(name, folder, n) && name[n] == '/' ? name + n + 1 : name;
}

/* T, which names its file as a text in FOLDER does. */
static Tensor *renamed(const Graph *g, const char *folder, const Tensor *t)
{
	Tensor *named = arena_copy(g->arena, t, sizeof *t);

	if (t->file)
		named->file = seen_from(g->arena, folder, t->file);
	return named;
}

static void name_files(const Graph *g, const char *folder)
{
	for (int i = 0; i < g->inputs.n; i++)
		if (g->inputs.at[i]->preset)
			g->inputs.at[i]->preset = renamed(g, folder, g->inputs.at[i]->preset);
	for (const Node *n = g->first; n; n = n->next) {
		VEC_EACH_AT (at, &n->attrs) {
			if (at->kind == ATTR_TENSOR)
				at->t = renamed(g, folder, at->t);
		}
		for (int i = 0; i < n->regions.n; i++)
			name_files(n->regions.at[i], folder);
	}
}

static bool write_text(Cli *c, Module *m)
{
	const char *slash = strrchr(c->output, '/');
	char *folder = realpath(
		slash ? arena_strndup(m->arena, c->output, (size_t)(slash - c->output) + 1) : ".",
		NULL);
	StrBuf b = {0};
	bool ok;

	if (folder)
		name_files(m->graph, folder);
	free(folder);
	graph_print(&b, m->graph);
	ok = write_file(c->output, strbuf_str(&b), b.n) ||
	     diag_error(&c->diag, (DiagLoc){.file = c->output}, "cannot be written: %s",
			strerror(errno));
	strbuf_free(&b);
	return ok;
}

/* -Wunbounded: values, temporaries and scratch whose memory has no bound. */
static bool warn_unbounded(Cli *c, Module *m)
{
	static const char text[] =
		"the size of its result has no upper bound, so memory is asked for at run time; bound dims by --dim NAME=A..B";
	bool ok = true;

	const bool unbounded = warnings_named(&c->warnings, "unbounded");

	for (Node *n = m->graph->first; n && unbounded; n = n->next) {
		bool found = false;

		for (int i = 0; i < n->nout; i++)
			found = found ||
				(n->out[i] && m->mem->value[n->out[i]->id].kind == PLACE_REGION);
		for (int t = 0; t < m->ntargets && n->id < m->nsched; t++) {
			for (int i = 0; schedule_temp(m->sched[t][n->id], i); i++)
				found = found || m->mem->temp[t][n->id][i].kind == PLACE_REGION;
			for (Schedule *s = m->sched[t][n->id]; s; s = s->next)
				for (int i = 0; i < s->stages.n; i++)
					found = found || !memplan_size(m, s->stages.at[i]->scratch);
		}
		if (found)
			ok = diag_warning(&c->diag, node_diag(n), "unbounded", text) && ok;
	}
	return ok;
}

/* The ONNX node of G with this NAME, or, if PRINTED, the one that messages print as NAME; null:
 * none. */
static const char *find_node(Arena *a, const Graph *g, const char *name, bool printed)
{
	const char *found = NULL;

	for (const Node *n = g->first; n && !found; n = n->next) {
		const LocList all = locs_all(a, n->locs);

		for (int i = 0; i < all.n && !found; i++) {
			const char *at = all.at[i].node;

			if (at &&
			    !strcmp(printed ? arena_escape(a, at, escape_terminal) : at, name))
				found = at;
		}
		for (int i = 0; i < n->regions.n && !found; i++)
			found = find_node(a, n->regions.at[i], name, printed);
	}
	return found;
}

/* Converts --dump-node's argument, a name or its form in messages, to the name. False after a
 * diagnostic. */
static bool check_node(Cli *c, Arena *a, const Graph *g)
{
	const char *found;

	if (!c->dump_node)
		return true;
	found = find_node(a, g, c->dump_node, false);
	if (!found)
		found = find_node(a, g, c->dump_node, true);
	if (!found)
		return diag_error(&c->diag, no_where(c),
				  "--dump-node=%s: the model has no such node%s", c->dump_node,
				  str_ends(c->input, ".dl") ? "" : "; --check lists the nodes");
	c->dump_node = found;
	return true;
}

/* --slice=N asks for slices, and there are none. */
static bool warn_whole(Cli *c, const Module *m)
{
	return c->slice <= 0 || m->slice.sym || module_on_gpu(m) ||
	       diag_warning(
		       &c->diag, no_where(c), "schedule",
		       "--slice=%d changes nothing: dlcc finds no symbolic dim whose elements are "
		       "computed independently; a batch that --dim binds is not symbolic",
		       c->slice);
}

/* --int8: plans it for M, whose graph has passed `canon`. A copy of the graph is measured;
 * warnings about kernels are given later, about M's. */
static bool plan_int8(Cli *c, Module *m)
{
	const PackageOpts o = package_opts(c, m->arena);
	Module probe = {.arena = arena_new(), .opt = m->opt, .mem = m->mem};
	DiagRule quiet[WARNINGS_ROOM];

	warnings_quiet(quiet, c->rules, false);
	c->diag.rules = quiet;
	module_clone(&probe, m);
	m->opt.quantise = quantise_plan(c, &probe, &o, m->arena);
	c->diag.rules = c->rules;
	arena_free(probe.arena);
	return m->opt.quantise;
}

/* --activations-as=f16, bf16 with --calibrate: measures them for M, whose graph has passed
 * `quantise`, and says in the options of M's module for GPUs which nodes stay in f32. */
static bool plan_halves(Cli *c, Module *m, Module *gpu)
{
	const PackageOpts o = package_opts(c, m->arena);
	Module probe = {.arena = arena_new(), .opt = gpu->opt, .mem = m->mem};
	DiagRule quiet[WARNINGS_ROOM];
	Options found = gpu->opt;
	const char **name;
	bool ok;

	warnings_quiet(quiet, c->rules, false);
	c->diag.rules = quiet;
	module_clone(&probe, m);
	ok = halves_plan(c, &probe, gpu->target[0], &o, &found);
	name = NEW_ARRAY(m->arena, found.nweight_keep + 1, const char *);
	for (int i = 0; i < found.nweight_keep; i++)
		name[i] = arena_strdup(m->arena, found.weight_keep[i]);
	gpu->opt.weight_keep = name;
	gpu->opt.nweight_keep = found.nweight_keep;
	c->diag.rules = c->rules;
	arena_free(probe.arena);
	return ok;
}

/* Whether C asks for nothing that the text of M's graph, which has schedules, has passed; code for
 * a GPU beside that for CPUs needs schedules of two graphs, which one text does not have. */
static bool may_begin_scheduled(Cli *c, const Module *m)
{
	const char *early = options_early(c), *what = early ? early
						      : m->gpu ? "code for CPUs and a GPU"
						      : output_is_model(c) ? "writing a model"
									   : NULL;

	return !what ||
	       diag_error(&c->diag, no_where(c),
			  "%s: the text has schedules, which are for its kernels as they are; take "
			  "a text without schedules",
			  what);
}

/* Runs the passes that the output needs on M's graph. If there is also code for GPUs, clones the
 * graph for that module. */
static bool make(Cli *c, Module *m)
{
	bool ok = m->graph && check_node(c, m->arena, m->graph) &&
		  (m->graph->schedules.n ? may_begin_scheduled(c, m) : bind_dims(c, m->ctx, m->graph));

	if (ok && c->output && str_ends(c->output, ".dl"))
		return write_text(c, m);
	ok = ok && run_passes(c, m, PASS_infer, PASS_canon, true) &&
	     (!c->int8 || (dims_fit(c, m->ctx) && plan_int8(c, m))) &&
	     run_passes(c, m, PASS_quantise, PASS_quantise, false);
	if (ok && c->output && str_ends(c->output, ".onnx"))
		return quantise_weights_operators(m) && dims_fit(c, m->ctx) &&
		       onnx_write(m->graph, c->output, DLCC_VERSION);
	if (ok && measures_halves(c))
		ok = dims_fit(c, m->ctx) && plan_halves(c, m, m->gpu ? m->gpu : m);
	if (ok && m->gpu)
		module_clone(m->gpu, m);
	return ok && run_passes(c, m, PASS_lower, PASS_LAST, false) && dims_fit(c, m->ctx) &&
	       warn_unbounded(c, m) && warn_whole(c, m);
}

/* Passes from `place` on differ for GPUs. Warnings about the model have been given. */
static bool make_for_gpus(Cli *c, Module *gpu)
{
	DiagRule quiet[WARNINGS_ROOM];
	bool ok;

	warnings_quiet(quiet, c->rules, true);
	c->diag.rules = quiet;
	if (gpu->opt.half_activations) {
		gpu->report = stdout;
		puts("; for GPUs:");
	}
	ok = run_passes(c, gpu, PASS_lower, PASS_LAST, true);
	c->diag.rules = c->rules;
	return ok;
}

/* The text of the file PATH, which OPTION names; null after a diagnostic. */
static char *read_named(Cli *c, Arena *a, const char *option, const char *path)
{
	char *text = read_text(a, path);

	if (!text)
		diag_error(&c->diag, no_where(c), "%s=%s: %s", option, path, open_error());
	return text;
}

static bool is_target(const char *name)
{
	const Target *t = target_by_name(name);

	return t && strcmp(name, "native") != 0;
}

/* Reads the file of --schedule; false after a diagnostic. */
static bool read_schedule(Cli *c, Arena *a, Options *o)
{
	o->schedule = read_named(c, a, "--schedule", c->schedule);
	o->schedule_file = c->schedule;
	return o->schedule && schedule_file_check(o->schedule, c->schedule, is_target, &c->diag);
}

/* The exit status. */
static int compile(Cli *c)
{
	const double begin = tune_now();
	Arena *a = arena_new();
	Module m = {.arena = a, .opt = options_of_passes(c)}, gpu = m, *first;
	MemPlan none = {0};
	OnnxFile *file = NULL;
	Refusals refusals = {.arena = a};
	const char *depends = NULL;
	int status = 1;
	bool ok;

	if (!choose_targets(c, a, &m, &gpu)) {
		arena_free(a);
		return EXIT_USAGE;
	}
	if (c->schedule && !read_schedule(c, a, &m.opt)) {
		arena_free(a);
		return 1;
	}
	gpu.opt.schedule = m.opt.schedule;
	gpu.opt.schedule_file = m.opt.schedule_file;
	first = m.ntargets ? &m : &gpu; /* the module that reports the model's warnings */
	m.mem = &none;
	first->report = stdout;
	first->ctx = m.ctx = ctx_new(&c->diag);
	first->graph = m.graph = read_input(c, m.ctx, a, &file, &refusals);
	if (m.graph && c->output && !outputs_spare(c, a, file, m.graph)) {
		status = EXIT_USAGE;
		m.graph = NULL;
	}
	/* before passes replace the constants that files have */
	if (m.graph && c->output && c->depfile) {
		depends = outputs_depend(c, a, file, m.graph);
		if (!depends)
			m.graph = NULL;
	}
	ok = m.graph && make(c, first);
	if (output_is_model(c))
		m.gpu = NULL;
	ok = ok && (!m.gpu || first == m.gpu || make_for_gpus(c, &gpu));
	if (c->check && ok)
		weights_check(&m);
	if (ok && c->explain && !c->check)
		ok = explain(c, first, m.gpu);
	if (c->check && file)
		ok = check_report(file, ok && m.gpu ? m.gpu : &m, ok, &refusals, c->diag.json);
	if (ok && m.gpu)
		dump_nvptx(c, m.gpu);
	if (ok && m.gpu && c->dump && !strcmp(c->dump, "count"))
		dump_counts(c, m.gpu);
	/* Dumps that could not be written are an error, after which no output may appear. */
	if (ok && c->output && !output_is_model(c))
		ok = program_flush() && emit(c, &m, begin, depends);
	if (file)
		onnx_close(file);
	ctx_free(m.ctx);
	arena_free(a);
	diag_end(&c->diag);
	return ok && !c->diag.errors ? 0 : status;
}

static int work(int argc, char **argv)
{
	Cli c;

	if (options_answer(DLCC, argc, argv))
		return program_end("dlcc", 0);
	options_begin(&c, DLCC, "dlcc");
	c.diag.colour = isatty(2) && !getenv("NO_COLOR");
	if (!options_read(&c, argc, argv))
		return EXIT_USAGE;
	if (!options_folders(&c))
		return 1;
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	signal(SIGHUP, on_signal);
	signal(SIGPIPE, on_signal); /* of what reads -v */
	return program_end("dlcc", compile(&c));
}

int main(int argc, char **argv)
{
	return program_run("dlcc", work, argc, argv);
}
