/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the ranks of inputs whose types do not give them. For each such input every rank is tried:
 * the model is imported and its types are inferred, in a separate context, without messages. So the
 * operators themselves decide which ranks a Conv or a Transpose accepts.
 *
 * A rank is chosen if it is the only one without an error, or the only one without an error and
 * without a warning, such as that for a result of another rank than declared.
 */
#include "frontend/import_impl.h"

#include "ops/op.h"

enum {
	RANKS_TRIED = 9, /* ranks 0 to 8 */
	/* Most inputs of unknown rank: each is tried with RANKS_TRIED imports, and once more for
	 * each other input whose rank is found. */
	INPUTS_TRIED = 8,
};

typedef enum Verdict { V_ERROR, V_WARNING, V_FITS } Verdict;

static Verdict try_ranks(OnnxFile *f, const Overridable *o, const int *ranks)
{
	/* that an attribute does not exist is told when the model is imported for good */
	static const DiagRule rules[] = {{"attribute", DIAG_SILENT}, {0}};
	Diag quiet = {.file = f->path, .rules = rules}, *const loud = f->diag;
	const int missing = f->missing.n;
	const uint64_t densified = f->densified;
	Ctx *c = ctx_new(&quiet);
	ARENA_LOCAL(a);
	Graph *g;

	f->diag = &quiet;
	g = import_ranked(c, a, f, o, ranks);
	if (g)
		infer_graph_run(infer_new(g));
	f->diag = loud;
	f->missing.n = missing;
	f->densified = densified;
	ctx_free(c);
	return quiet.errors ? V_ERROR : quiet.warnings ? V_WARNING : V_FITS;
}

/* Sets RANKS[AT] to the only rank that the body allows; false if it allows none, or several. */
static bool find_rank(OnnxFile *f, const Overridable *o, int *ranks, size_t at)
{
	Verdict best = V_ERROR, v;
	int found = RANK_LEFT, n = 0;

	for (int r = 0; r < RANKS_TRIED; r++) {
		ranks[at] = r;
		v = try_ranks(f, o, ranks);
		if (v == V_ERROR || v < best)
			continue;
		n = v > best ? 1 : n + 1;
		best = v;
		found = r;
	}
	ranks[at] = n == 1 ? found : RANK_LEFT;
	return n == 1;
}

static bool has_initialiser(const Onnx__GraphProto *g, const char *name)
{
	for (size_t i = 0; i < g->n_initializer; i++)
		if (!strcmp(text(g->initializer[i]->name), text(name)))
			return true;
	return false;
}

static bool lacks_rank(const Onnx__ValueInfoProto *p)
{
	return p->type && p->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
	       !p->type->tensor_type->shape;
}

const int *import_ranks(Arena *a, OnnxFile *f, const Overridable *o)
{
	const Onnx__GraphProto *g = f->model->graph;
	int *ranks, unknown = 0;

	if (!g)
		return NULL;
	ranks = NEW_ARRAY(a, g->n_input + 1, int);

	for (size_t i = 0; i < g->n_input; i++) {
		ranks[i] = RANK_UNKNOWN;
		unknown += lacks_rank(g->input[i]);
	}
	if (!unknown || unknown > INPUTS_TRIED)
		return ranks;
	for (size_t i = 0; i < g->n_input; i++)
		if (lacks_rank(g->input[i]) && !has_initialiser(g, g->input[i]->name))
			ranks[i] = RANK_LEFT;
	/* The rank of one input may determine the ranks of others. */
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < g->n_input; i++)
			more = (ranks[i] == RANK_LEFT && find_rank(f, o, ranks, i)) || more;
	}
	for (size_t i = 0; i < g->n_input; i++)
		ranks[i] = ranks[i] == RANK_LEFT ? RANK_UNKNOWN : ranks[i];
	return ranks;
}
