/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where divergent paths meet: the immediate post-dominator of each branch, after Cooper, Harvey and
 * Kennedy, "A Simple, Fast Dominance Algorithm", on the reversed graph of blocks. Returns go to one
 * virtual block after the last instruction; a trap falls through, since lanes that stop there meet
 * no others. An exit also falls through if other paths return: compilers emit one in unreachable
 * code.
 */
#include "tools/ptxsim/exec.h"

#include <string.h>

typedef struct Flow {
	const Func *f;
	Arena *arena;
	int n;         /* blocks, the virtual one last */
	bool returns;  /* there is a return */
	int *block_of; /* of an instruction that begins a block, else -1 */
	int *begin;
	int *rank; /* position in the post-order of the reversed graph */
	int *meet; /* immediate post-dominator, -1: none */
	struct Edges {
		VEC(int) to, from;
	} * edges;
} Flow;

static bool is_branch(const Inst *in)
{
	return in->exec == exec_bra || in->exec == exec_brx;
}

static bool is_end(const Inst *in)
{
	return in->exec == exec_ret || in->exec == exec_exit;
}

static void mark_targets(const Inst *in, int *block_of)
{
	if (in->exec == exec_bra)
		block_of[in->target] = 0;
	if (in->exec == exec_brx)
		for (int t = 0; t < in->op[1].n_items; t++)
			block_of[in->op[1].item[t].label] = 0;
}

static void add_edge(Flow *w, int from, int to)
{
	vec_push(w->arena, &w->edges[from].to, to);
	vec_push(w->arena, &w->edges[to].from, from);
}

static void find_blocks(Flow *w)
{
	const Func *f = w->f;
	int n = f->n_inst;

	w->block_of = NEW_ARRAY(w->arena, n + 1, int);
	memset(w->block_of, -1, (size_t)(n + 1) * sizeof(int));
	w->block_of[0] = w->block_of[n] = 0;
	for (int i = 0; i < n; i++) {
		mark_targets(&f->inst[i], w->block_of);
		if (is_branch(&f->inst[i]) || is_end(&f->inst[i]))
			w->block_of[i + 1] = 0;
		w->returns = w->returns || f->inst[i].exec == exec_ret;
	}
	w->begin = NEW_ARRAY(w->arena, n + 1, int);
	for (int i = 0; i <= n; i++)
		if (!w->block_of[i]) {
			w->begin[w->n] = i;
			w->block_of[i] = w->n++;
		}
}

static void find_edges(Flow *w)
{
	w->edges = NEW_ARRAY(w->arena, w->n, struct Edges);
	for (int b = 0; b + 1 < w->n; b++) {
		int end = w->begin[b + 1];
		const Inst *last = &w->f->inst[end - 1];
		if (last->exec == exec_ret || (is_end(last) && !w->returns))
			add_edge(w, b, w->n - 1);
		if (last->exec == exec_bra)
			add_edge(w, b, w->block_of[last->target]);
		if (last->exec == exec_brx)
			for (int t = 0; t < last->op[1].n_items; t++)
				add_edge(w, b, w->block_of[last->op[1].item[t].label]);
		if ((!is_branch(last) && !is_end(last)) || last->guarded)
			add_edge(w, b, b + 1);
	}
}

/* Blocks in post-order of the reversed graph, from the virtual block. Iterative: graphs may be
 * long chains. */
static int *post_order(Flow *w, int *n)
{
	int *order = NEW_ARRAY(w->arena, w->n, int), *stack = NEW_ARRAY(w->arena, w->n + 1, int);
	int *at = NEW_ARRAY(w->arena, w->n, int), depth = 0;

	*n = 0;
	memset(w->rank, -1, (size_t)w->n * sizeof(int));
	stack[depth++] = w->n - 1;
	w->rank[w->n - 1] = 0;
	while (depth) {
		int b = stack[depth - 1];
		if (at[b] < w->edges[b].from.n) {
			int next_block = w->edges[b].from.at[at[b]++];
			if (w->rank[next_block] < 0) {
				w->rank[next_block] = 0;
				stack[depth++] = next_block;
			}
		} else {
			w->rank[b] = *n;
			order[(*n)++] = b;
			depth--;
		}
	}
	return order;
}

static int common(const Flow *w, int a, int b)
{
	while (a != b) {
		while (w->rank[a] < w->rank[b])
			a = w->meet[a];
		while (w->rank[b] < w->rank[a])
			b = w->meet[b];
	}
	return a;
}

void flow_meets(Func *f, Arena *scratch)
{
	Flow w = {.f = f, .arena = scratch};
	int n;

	find_blocks(&w);
	find_edges(&w);
	w.rank = NEW_ARRAY(scratch, w.n, int);
	w.meet = NEW_ARRAY(scratch, w.n, int);
	memset(w.meet, -1, (size_t)w.n * sizeof(int));
	int *order = post_order(&w, &n);
	w.meet[w.n - 1] = w.n - 1;
	for (bool changed = true; changed;) {
		changed = false;
		for (int k = n - 2; k >= 0; k--) {
			int b = order[k], best = -1;
			for (int e = 0; e < w.edges[b].to.n; e++) {
				int to = w.edges[b].to.at[e];
				if (w.rank[to] >= 0 && w.meet[to] >= 0)
					best = best < 0 ? to : common(&w, best, to);
			}
			changed |= best != w.meet[b];
			w.meet[b] = best;
		}
	}
	for (int b = 0; b + 1 < w.n; b++) {
		Inst *last = &f->inst[w.begin[b + 1] - 1];
		/* A loop without an end meets at the end of the function. */
		if (is_branch(last))
			last->meet = w.meet[b] < 0 ? f->n_inst : w.begin[w.meet[b]];
	}
}
