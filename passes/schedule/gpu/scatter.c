/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scatters on GPUs: each thread makes one update by an atomic operation (LN_ATOMIC), so updates of
 * one element may come in any order. The pass `scatter` brought the statements to this form
 * (passes/kernel/scatter.c). Those that it could not are left to one thread, by the strategy
 * *order*: reductions of bools and of floats under 16 bits, floats under 8 bits, and elements under
 * 32 bits that no map stored.
 */
#include "passes/schedule/gpu/gpu_impl.h"

enum { SCATTER_THREADS = 256 };

/* The updates of S may run in any order, and there is an atomic operation for them. */
static bool any_order(const Stmt *s)
{
	const int bits = dtype_info[s->out[0]->dtype].bits;

	return stmt_is_scatter(s) && !s->ordered &&
	       (s->red ? *monoid_info[s->red].atomic && bits >= SCATTER_BITS : bits >= 8);
}

bool gpu_scatter(LBuild *b, Stmt *s)
{
	Kernel *k = b->k;
	Points p;
	LNode *n;

	if (!any_order(s))
		return false;
	p = gpu_points(k, s);
	l_of(b, s);
	l_stage(b, "scatter", iters_points(k->ctx, p.it, p.n));
	b->stage->block.group = 1;
	b->stage->block.threads = SCATTER_THREADS;
	l_split(b, p.it, p.n, ex_iter(b->p, b->stage->var));
	n = l_store(b, s->out[0], p.write, p.e[0], p.guard);
	l_does(b, n, s->red ? PART_TERM : PART_WRITE, p.at, p.nat);
	n->kind = s->red ? LN_ATOMIC : LN_STORE;
	n->store.red = s->red;
	n->store.nout = 1;
	return true;
}
