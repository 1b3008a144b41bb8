/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline from a graph to scheduled kernels and a memory plan: the passes of passes.def. */
#include "passes/forms/form.h"
#include "passes/schedule/common/decision.h"

#include <string.h>

/* ---- What passes print ---- */

/* The nodes of TEXT (a graph's) that come from the ONNX node NAME. A node begins two columns in. */
static void keep_nodes(StrBuf *b, const char *text, const char *name)
{
	STRBUF_LOCAL(quoted);

	strbuf_puts(&quoted, "@");
	strbuf_quote(&quoted, name);
	while (*text) {
		const char *end = strchr(text, '\n');
		size_t n;

		while (end && end[1] == ' ' && end[2] == ' ' && (end[3] == ' ' || end[3] == '}'))
			end = strchr(end + 1, '\n');
		n = end ? (size_t)(end - text) + 1 : strlen(text);
		if (text[0] == ' ' && text[2] != ' ' &&
		    memmem(text, n, strbuf_str(&quoted), quoted.n))
			strbuf_put(b, text, n);
		text += n;
	}
}

static void print_graph(StrBuf *b, Module *m, const char *node)
{
	STRBUF_LOCAL(all);

	graph_print(node ? &all : b, m->graph);
	if (node)
		keep_nodes(b, strbuf_str(&all), node);
}

/* The graph, in which nodes say what their kernels are. */
static void print_forms(StrBuf *b, Module *m, const char *node)
{
	forms_state(m);
	print_graph(b, m, node);
	forms_unstate(m);
}

bool kernel_serves(const Kernel *k, const char *node)
{
	ARENA_LOCAL(tmp);
	const LocList all = locs_all(tmp, k->locs);
	bool yes = !node;

	for (int i = 0; i < all.n && !yes; i++)
		yes = all.at[i].node && !strcmp(all.at[i].node, node);
	return yes;
}

void loop_trees_print(StrBuf *b, Module *m, const char *node)
{
	for (int t = 0; t < m->ntargets; t++) {
		strbuf_printf(b, "schedules for %s\n", m->target[t]->name);
		for (const Node *n = m->graph->first; n; n = n->next) {
			const Schedule *s = n->id < m->nsched ? m->sched[t][n->id] : NULL;

			if (s && kernel_serves(s->kernel, node))
				schedule_print(b, s);
		}
	}
}

/* The graph, and below it the schedules of its kernels. */
static void print_loop_trees(StrBuf *b, Module *m, const char *node)
{
	print_graph(b, m, node);
	loop_trees_print(b, m, node);
}

static void print_memory(StrBuf *b, Module *m, const char *node)
{
	(void)node;
	memplan_print(b, m);
}

static void print_slices(StrBuf *b, Module *m, const char *node)
{
	(void)node;
	slice_print(b, m);
	strbuf_puts(b, "\n");
}

static void print_batches(StrBuf *b, Module *m, const char *node)
{
	(void)node;
	batch_print(b, m);
	strbuf_puts(b, "\n");
}

static const PassText graph = {.print = print_graph, .read = true},
		      batches = {.print = print_batches, .whole = true},
		      forms = {.print = print_forms, .read = true},
		      decisions = {.print = decisions_print, .file = true},
		      loop_trees = {.print = print_loop_trees, .read = true},
		      memory = {.print = print_memory, .whole = true},
		      slices = {.print = print_slices, .whole = true};

/* ---- The table ---- */

const Pass pass_table[] = {
#define PASS(name, on, rewrites, prints, what) {#name, pass_##name, on, rewrites, &prints, what},
#define BEFORE(first, then)
#include "passes/passes.def"
#undef PASS
#undef BEFORE
	{0},
};

#define PASS(name, on, rewrites, prints, what)
#define BEFORE(first, then)                                                                        \
	_Static_assert(PASS_##first < PASS_##then,                                                 \
		       "pass " #first " must run before pass " #then " (passes/passes.def)");
#include "passes/passes.def"
#undef PASS
#undef BEFORE

bool module_multiplies_bytes(const Module *m)
{
	for (int i = 0; i < m->ntargets; i++)
		if (!m->target[i]->gpu && !m->target[i]->dot)
			return false;
	return true;
}

bool pass_run(const Pass *p, Module *m)
{
	weights_changed(m);
	return (p->on == ON_GPUS && !module_on_gpu(m)) || p->run(m);
}

bool pass_is_past(const Module *m, const Pass *p)
{
	return m->graph->schedules.n && p < &pass_table[PASS_sched] && p != &pass_table[PASS_infer];
}

bool passes_run(Module *m, PassId from, PassId to, const PassHook *hook)
{
	Diag *diag = m->ctx->diag;

	if (!forms_check_stated(m))
		return false;
	for (const Pass *p = &pass_table[from]; p <= &pass_table[to]; p++) {
		const int errors = diag->errors;
		bool ok;

		if (pass_is_past(m, p))
			continue;
		if (hook && hook->at)
			hook->at(hook->arg, m, p, PASS_BEGINS);
		ok = pass_run(p, m) && diag->errors == errors;
		if (hook && hook->at)
			hook->at(hook->arg, m, p, PASS_RAN);
		if (ok && (m->opt.verify || (hook && hook->verify)))
			ok = graph_verify(m->graph, diag, p->name) && forms_verify(m, p->name) &&
			     diag->errors == errors;
		if (!ok)
			return false;
		if (hook && hook->at)
			hook->at(hook->arg, m, p, PASS_HELD);
	}
	return true;
}

void module_clone(Module *m, const Module *from)
{
	m->ctx = from->ctx;
	m->graph = graph_clone(from->graph, m->arena);
	m->infer = infer_clone(from->infer, m->graph);
	m->f16 = from->f16;
	m->bf16 = from->bf16;
}

void module_note(Module *m, const Node *n, const char *text)
{
	if (n->id >= m->nnotes) {
		const char **more = NEW_ARRAY(m->arena, m->graph->nnodes, const char *);

		for (int i = 0; i < m->nnotes; i++)
			more[i] = m->note[i];
		m->note = more;
		m->nnotes = m->graph->nnodes;
	}
	m->note[n->id] = arena_strdup(m->arena, text);
}

const Pass *pass_by_name(const char *name)
{
	for (const Pass *p = pass_table; p->name; p++)
		if (!strcmp(p->name, name))
			return p;
	return NULL;
}

void passes_list(FILE *out)
{
	for (const Pass *p = pass_table; p->name; p++)
		fprintf(out, "%-20s %-4s %s\n", p->name, p->on == ON_GPUS ? "GPU" : "", p->what);
}
