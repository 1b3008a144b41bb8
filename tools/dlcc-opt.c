/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlcc-opt: runs passes over a graph and prints it, for tests and to inspect the effect of a pass.
 *
 *     dlcc-opt FILE.dl -p canon             infer runs first if types are not known
 *     dlcc-opt FILE.dl -p lower,sched       decide runs first if nothing is decided
 *     dlcc-opt FILE.dl -p sched             takes the schedules that the text has, if there are any
 *     dlcc-opt model.onnx -p infer,canon --verify --rewrite-limit=3
 */
#include "base/program.h"
#include "base/sys.h"
#include "codegen/targets.h"
#include "frontend/import.h"
#include "ir/graph/definition.h"
#include "passes/forms/kernels.h"
#include "tools/dlcc/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The target that LIST, the value of --target, names; null after a diagnostic. */
static const Target *only_target(Cli *c, const char *list)
{
	const char *rest = list;
	bool cuda = false;
	StrBuf error = {0};
	const Target *t = target_next(&rest, &cuda, &error);

	if (!t || target_next(&rest, &cuda, &error) || error.n) {
		if (!error.n)
			strbuf_printf(&error, "--target=%s: name one", list);
		options_fault(c, strbuf_str(&error));
		t = NULL;
	}
	strbuf_free(&error);
	return t;
}

static Graph *read_input(Cli *c, Ctx *ctx, Arena *a, OnnxFile **file)
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

static bool run_pass(Cli *c, Module *m, const Pass *p)
{
	const PassId id = (PassId)(p - pass_table);

	if (!m->infer && id != PASS_infer && !run_pass(c, m, &pass_table[PASS_infer]))
		return false;
	if (pass_is_past(m, p))
		return diag_error(
			&c->diag, (DiagLoc){.line = m->graph->schedules.at[0].line},
			"the text has schedules, so it begins after pass sched: %s cannot run",
			p->name);
	if (id > PASS_lower && not_lowered(m->graph))
		return diag_error(&c->diag, node_diag(not_lowered(m->graph)),
				  "%s works on kernels; run lower first", p->name);
	if (id > PASS_sched && m->graph->schedules.n && !m->nsched &&
	    !run_pass(c, m, &pass_table[PASS_sched]))
		return false;
	if (id == PASS_sched && !m->ndecisions && !m->graph->schedules.n &&
	    !run_pass(c, m, &pass_table[PASS_decide]))
		return false;
	return passes_run(m, id, id, NULL);
}

static bool run_passes(Cli *c, Module *m)
{
	if (!c->npasses &&
	    m->graph->schedules.n) /* a text after `sched`, which is printed as one */
		c->passes[c->npasses++] = &pass_table[PASS_sched];
	for (int i = 0; i < c->npasses; i++)
		if (!run_pass(c, m, c->passes[i]))
			return false;
	return true;
}

static bool print(Cli *c, Module *m)
{
	const Pass *last = c->npasses ? c->passes[c->npasses - 1] : NULL;
	StrBuf b = {0};
	bool ok = true;

	if (c->schedules)
		loop_trees_print(&b, m, NULL);
	else
		(last && last->prints->read ? last : &pass_table[PASS_infer])
			->prints->print(&b, m, NULL);
	if (c->output)
		ok = write_file(c->output, strbuf_str(&b), b.n) ||
		     diag_error(&c->diag, (DiagLoc){.file = c->output}, "cannot be written: %s",
				strerror(errno));
	else if (!c->quiet)
		fwrite(strbuf_str(&b), 1, b.n, stdout);
	strbuf_free(&b);
	return ok;
}

/* Without --target, the text's schedules say for which target the passes are. */
static const Target *target_of(const Cli *c, const Graph *g, const Target *target)
{
	const Target *stated = !c->targets && g->schedules.n
				       ? target_by_name(g->schedules.at[0].target)
				       : NULL;

	return stated ? stated : target;
}

static bool run(Cli *c, const Target *target)
{
	Ctx *ctx = ctx_new(&c->diag);
	Arena *a = arena_new();
	Module m = {.ctx = ctx,
		    .arena = a,
		    .opt = options_of_passes(c),
		    .target = {target},
		    .ntargets = 1,
		    .host = target_by_name("generic"),
		    .report = stdout};
	OnnxFile *file = NULL;
	bool ok = false;

	if ((m.graph = read_input(c, ctx, a, &file)) &&
	    (m.target[0] = target_of(c, m.graph, target)))
		ok = run_passes(c, &m) && print(c, &m);
	if (file)
		onnx_close(file);
	arena_free(a);
	ctx_free(ctx);
	return ok && !c->diag.errors;
}

static int work(int argc, char **argv)
{
	const Target *target;
	Cli c;

	if (options_answer(DLCC_OPT, argc, argv))
		return program_end("dlcc-opt", 0);
	options_begin(&c, DLCC_OPT, "dlcc-opt");
	if (!options_read(&c, argc, argv) ||
	    !(target = only_target(&c, c.targets ? c.targets : "cpu:x86-64-v3")))
		return EXIT_USAGE;
	return program_end("dlcc-opt", run(&c, target) ? 0 : 1);
}

int main(int argc, char **argv)
{
	return program_run("dlcc-opt", work, argc, argv);
}
