/* SPDX-License-Identifier: Apache-2.0 */
/* Passes. rewrites_differ names a pass that changes what a graph computes; the real passes change
 * nothing. */
#include "tests/tools/batch/rewrites.h"

#include "codegen/targets.h"
#include "passes/forms/kernels.h"

#include <stdio.h>
#include <string.h>

static const char text[] = "dlir 1\n"
			   "graph @main(%x: f32[4,6], %w: f32[6,5]) -> (%y) {\n"
			   "  %p = MatMul(%x, %w) : ?\n"
			   "  %y = Relu(%p) : ?\n"
			   "}\n";

static Iter *last_iter(const Stmt *s)
{
	return s->iter[s->niters - 1];
}

/* A faulty pass: sums lose their last term. */
static bool lose_a_term(Module *m)
{
	for (Node *n = m->graph->first; n; n = n->next) {
		Kernel *k = node_kernel(n);

		for (int i = 0; k && i < k->stmts.n; i++)
			if (k->stmts.at[i]->red == MONOID_sum)
				last_iter(k->stmts.at[i])->extent = dim_const(m->ctx, 5);
	}
	return true;
}

static const Pass with_fault[] = {
	{.name = "infer", .run = pass_infer},
	{.name = "canon", .run = pass_canon},
	{.name = "lower", .run = pass_lower, .rewrites = true},
	{.name = "fault", .run = lose_a_term, .rewrites = true},
	{.name = "fuse", .run = pass_fuse, .rewrites = true},
	{0},
};

/* Whether rewrites_differ's message about the passes of TABLE has WANT; null: there must be no
 * message. */
static bool check(const char *what, const Pass *table, const char *want)
{
	static float x[24], w[30];
	static int64_t x_dims[] = {4, 6}, w_dims[] = {6, 5};
	const Tensor in[] = {
		{.dtype = DT_F32, .rank = 2, .dims = x_dims, .data = x, .bytes = sizeof(x)},
		{.dtype = DT_F32, .rank = 2, .dims = w_dims, .data = w, .bytes = sizeof(w)}};
	Diag diag = {.out = stderr};
	Ctx *ctx = ctx_new(&diag);
	Arena *a = arena_new();
	Graph *g = graph_parse(ctx, a, text, "text");
	Module m = {.ctx = ctx,
		    .arena = a,
		    .graph = g,
		    .opt = {.level = 2, .rewrite_limit = -1},
		    .target = {target_table},
		    .ntargets = 1};
	const char *bad = "no graph";
	bool ok;

	for (int i = 0; i < 24; i++)
		x[i] = (float)(i % 5 - 2);
	for (int i = 0; i < 30; i++)
		w[i] = (float)(i % 4 + 1);
	if (g)
		bad = rewrites_differ(table, &m, (const Tensor *const[]){&in[0], &in[1]});
	ok = want ? bad && strstr(bad, want) : !bad;
	if (!ok)
		printf("test_rewrites.c: %s: %s\n", what, bad ? bad : "no difference");
	arena_free(a);
	ctx_free(ctx);
	return ok;
}

/* With Options.shuffle the nodes come from the last to the first. */
static bool visits(void)
{
	Diag diag = {.out = stderr};
	Ctx *ctx = ctx_new(&diag);
	Arena *a = arena_new();
	Module m = {.ctx = ctx,
		    .arena = a,
		    .graph = graph_parse(ctx, a,
					 "dlir 1\ngraph @g(%x: f32[2]) -> (%z) {\n"
					 "  %y = Neg(%x) : f32[2]\n  %z = Abs(%y) : f32[2]\n}\n",
					 "visits")};
	bool ok = m.graph != NULL;

	for (int shuffle = 0; shuffle < 2 && ok; shuffle++) {
		const Node *first, *then;

		m.opt.shuffle = shuffle;
		first = module_first(&m);
		then = module_next(&m, first);
		ok = first->op == (shuffle ? OP_Abs : OP_Neg) &&
		     then->op == (shuffle ? OP_Neg : OP_Abs) && !module_next(&m, then);
	}
	if (!ok)
		printf("test_rewrites.c: --shuffle does not visit from the last to the first\n");
	arena_free(a);
	ctx_free(ctx);
	return ok;
}

int main(void)
{
	const bool whole = check("the passes as they are", pass_table, NULL);

	return !visits() || !whole ||
	       !check("a pass that loses a term", with_fault, "pass fault on");
}
