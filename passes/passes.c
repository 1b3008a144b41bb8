/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline from a graph to scheduled kernels and a memory plan: the passes of passes.def. */
#include "passes/module.h"

const Pass pass_table[] = {
#define PASS(name, on, rewrites, what) {#name, pass_##name, on, rewrites, what},
#define BEFORE(first, then)
#include "passes/passes.def"
#undef PASS
#undef BEFORE
	{0},
};

#define PASS(name, on, rewrites, what)
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
	return (p->on == ON_GPUS && !module_on_gpu(m)) || p->run(m);
}

bool passes_run(Module *m, PassId from, PassId to, const PassHook *hook)
{
	Diag *diag = m->ctx->diag;

	for (const Pass *p = &pass_table[from]; p <= &pass_table[to]; p++) {
		const int errors = diag->errors;
		bool ok;

		if (hook && hook->at)
			hook->at(hook->arg, m, p, PASS_BEGINS);
		ok = pass_run(p, m) && diag->errors == errors;
		if (hook && hook->at)
			hook->at(hook->arg, m, p, PASS_RAN);
		if (ok && (m->opt.verify || (hook && hook->verify)))
			ok = graph_verify(m->graph, diag, p->name) && diag->errors == errors;
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

void passes_list(FILE *out)
{
	for (const Pass *p = pass_table; p->name; p++)
		fprintf(out, "%-20s %-4s %s\n", p->name, p->on == ON_GPUS ? "GPU" : "", p->what);
}
