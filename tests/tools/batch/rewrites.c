/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tools/batch/rewrites.h"

#include "tests/tools/batch/judge.h"
#include "tests/oracle/eval_graph.h"

/* Strings as their ids: both sides have one table. */
static Array as_array(const Tensor *t)
{
	return array_make("", t->dtype == DT_STR ? DT_I64 : t->dtype, t->rank, t->dims,
			  (void *)(uintptr_t)t->data);
}

static Tensor **evaluate(Module *m, const Tensor *const *inputs)
{
	Tensor **got = NEW_ARRAY(m->arena, m->graph->results.n + 1, Tensor *);
	const EvalGraphOpts o = {.mad_fused = m->target[0]->fma};

	return eval_graph_with(m->graph, inputs, got, m->arena, m->ctx->diag, &o) ? got : NULL;
}

/* Null, or how the results after pass P differ from those before it. */
static const char *changed(Module *m, const Pass *p, Tensor *const *before, Tensor *const *after)
{
	const bool *unsigned_zeros = module_unsigned_zeros(m);

	for (int o = 0; o < m->graph->results.n; o++) {
		const Array was = as_array(before[o]), is = as_array(after[o]);
		const char *bad = difference(m->arena, &is, &was,
					     unsigned_zeros[o] ? AGREE_EQUAL : AGREE_BITS,
					     (Tolerance){.rtol = -1, .atol = -1});

		if (bad)
			return arena_printf(m->arena,
					    "pass %s on %s changes result %d of the graph: %s",
					    p->name, m->target[0]->name, o, bad);
	}
	return NULL;
}

static const Pass *last_rewrite(const Pass *table)
{
	const Pass *last = table;

	for (const Pass *p = table; p->name; p++)
		if (p->rewrites)
			last = p;
	return last;
}

const char *rewrites_differ(const Pass *table, Module *m, const Tensor *const *inputs)
{
	const Pass *const end = last_rewrite(table) + 1;
	Tensor **before = NULL, **after;
	const char *bad = NULL;

	for (const Pass *p = table; p < end && !bad; p++) {
		if (p->rewrites && !before)
			before = evaluate(m, inputs);
		if ((p->rewrites && !before) || !pass_run(p, m))
			return "";
		if (!p->rewrites || (p->on == ON_GPUS && !module_on_gpu(m)))
			continue;
		after = evaluate(m, inputs);
		if (!after)
			return "";
		bad = changed(m, p, before, after);
		before = after;
	}
	return bad;
}
