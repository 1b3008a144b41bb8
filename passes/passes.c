/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline from a graph to scheduled kernels and a memory plan: the passes of this table, in
 * order. */
#include "passes/module.h"

const Pass pass_table[] = {
	{"infer", pass_infer, ON_ALL, false,
	 "types and sizes of every value, and how exactly the results are determined; composite ops become their parts, so that no later pass names them"},
	{"caches", pass_caches, ON_ALL, false,
	 "--caches: caches of f32 become halves: when attention is in parts, before the Casts that this adds could cancel"},
	{"canon", pass_canon, ON_ALL, false,
	 "folds, cancels, merges: while nodes are still operators, to which algebraic rules apply"},
	{"quantise", pass_quantise, ON_ALL, false,
	 "layers get operands of bytes, as --int8 planned: when normalisations are part of the weights, while products are still operators"},
	{"lower", pass_lower, ON_ALL, true,
	 "every node becomes statements: from here on no op is named"},
	{"invariant", pass_invariant, ON_ALL, false,
	 "loop-invariant code motion: on statements, whose operands show all dependences"},
	{"place", pass_place, ON_GPUS, false,
	 "computations of sizes move to the host: before fusion could join them with GPU kernels"},
	{"algebra", pass_algebra, ON_ALL, true,
	 "products of (byte - zero point) * scale become products and sums of bytes: while zero points stand apart from what follows"},
	{"gathers", pass_gathers, ON_ALL, true,
	 "indices of constant matrices are checked before the products: on statements, before fusion joins the Gather with them and quantise_weights looks through it"},
	{"quantise_weights", pass_quantise_weights, ON_ALL, false,
	 "--int8-weights, --int4, --bf16, --fp16: constants of products become narrow: on statements, while each is a product of its own"},
	{"quantise_activations", pass_quantise_activations, ON_ALL, false,
	 "factors of narrow weights become bytes and scales, where --int8-activations or the model allows it: when the weights are known, before fusion"},
	{"views", pass_views, ON_ALL, true,
	 "kernels before and behind a View get one shape: on statements, before a View in the way keeps them apart"},
	{"fuse", pass_fuse, ON_ALL, true,
	 "kernel boundaries: on statements, before layouts fix which kernels share a buffer"},
	{"rescale", pass_rescale, ON_ALL, true,
	 "numbers are quantised by fewer constants, and limited as floats: when a kernel has all of that in one expression"},
	{"constants", pass_constants, ON_GPUS, true,
	 "constants that folding widened to f32 are stored as f16 again: on kernels, before layouts are of a type's size"},
	{"layout", pass_layout, ON_ALL, true,
	 "which axis of each tensor is innermost, by its readers and writers; panels for the constants of contractions"},
	{"alias", pass_alias, ON_ALL, false,
	 "results that may share an input's memory: on layouts, which say what lies in the caller's memory as the model has it"},
	{"divmod", pass_divmod, ON_ALL, true,
	 "temporaries indexed by quotient and remainder get a dim for each: after layouts, which know the model's own dims"},
	{"scatter", pass_scatter, ON_GPUS, true,
	 "scatters are rewritten so that their updates may run in any order: late, since no other pass handles that form"},
	{"hoist", pass_hoist, ON_GPUS, true,
	 "what many points of a row read is loaded once: on the statements that are scheduled"},
	{"decide", pass_decide, ON_ALL, false,
	 "how each CPU runs each kernel, as data: on the statements and layouts that no later pass changes"},
	{"sched", pass_sched, ON_ALL, false,
	 "a loop tree for every kernel and target: as decided, gives the temporaries' sizes"},
	{"memplan", pass_memplan, ON_ALL, false,
	 "slots for values and temporaries: last, when nothing moves any more"},
	{"slice", pass_slice, ON_ALL, false,
	 "a size along which CPUs compute one part after the other: when the memory of all parts is known"},
	{0},
};

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
