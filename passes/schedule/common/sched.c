/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched: gives every kernel a loop tree for each target. On CPUs it emits what `decide` decided. On
 * GPUs gpu/sched_gpu.c lists the strategies, which decide while they emit. A schedule that a user
 * edited is always proved.
 */

#include "passes/poly/poly.h"
#include "passes/schedule/common/decision.h"
#include "passes/schedule/common/loops.h"
#include "passes/schedule/gpu/gpu.h"

#include <string.h>

/* Which buffers a loop tree accesses, and which it declares, by Buf.id. */
typedef struct Accessed {
	bool *used, *local;
} Accessed;

static void mentions(LNode *n, Accessed *m)
{
	for (; n; n = n->next) {
		const LBufs bufs = lnode_bufs(n);

		VEC_EACH_AT (u, &bufs)
			(u->use == LUSE_DECLARES ? m->local : m->used)[u->b->id] = true;
		LNODE_EACH_EXPR (e, n)
			EX_EACH_LOAD (x, *e)
				m->used[x->load.buf->id] = true;
		mentions(n->body, m);
	}
}

/* Finds the temporaries that are accessed in memory. */
static void find_temps(Schedule *s)
{
	Kernel *k = s->kernel;
	ARENA_LOCAL(tmp);
	Accessed m = {NEW_ARRAY(tmp, k->bufs.n + 1, bool), NEW_ARRAY(tmp, k->bufs.n + 1, bool)};

	for (int i = 0; i < s->stages.n; i++) {
		mentions(s->stages.at[i]->block.head, &m);
		mentions(s->stages.at[i]->body, &m);
	}
	VEC_EACH (b, &k->bufs)
		if (b->kind == BUF_TEMP && !b->data && m.used[b->id] && !m.local[b->id])
			vec_push(k->arena, &s->temps, b);
}

/* Makes loops serial that store elements of less than a byte; returns whether there are any. */
static bool keep_order(LNode *n)
{
	bool any = false;

	for (; n; n = n->next) {
		bool packed = keep_order(n->body) ||
			      (n->store.buf[0] && dtype_info[n->store.buf[0]->dtype].bits < 8);

		if (packed && n->kind == LN_LOOP)
			n->loop.kind = LOOP_SERIAL;
		any = any || packed;
	}
	return any;
}

/* N's schedule for the runs of STEP; D: the decision, null for most kernels that run on a GPU. */
static Schedule *schedule(Module *m, const Target *t, Node *n, const Decision *d,
			  const SizeStep *step)
{
	Kernel *k = kernel_clone(node_kernel(n), m->arena), *copy;
	Schedule *s = NEW(m->arena, Schedule);

	s->kernel = k;
	s->where = *step;
	if (step->size)
		k->name = arena_printf(m->arena, "%s_upto_%lld", k->name, (long long)step->most);
	if (step->also)
		k->name = arena_printf(m->arena, "%s_of_%lld", k->name, (long long)step->also_most);
	for (int i = 0; i < step->nof; i++)
		k->name = arena_printf(m->arena, "%s_by_%lld", k->name, (long long)step->each);
	if (step->nof)
		gpu_take_multiples(k, &s->where);
	if (step->shared)
		k->name = arena_printf(m->arena, "%s_shared_%dk", k->name, step->shared >> 10);
	copy = step->nof ? kernel_clone(k, m->arena) : NULL;
	if (d)
		strategy_table[d->strategy].emit(t, k, d, s);
	else
		sched_gpu(t, k, s);
	s->split = s->split ? s->split : copy;
	if (!t->gpu)
		l_join(s);
	l_tidy(s);
	l_skip_empty(s);
	find_temps(s);
	for (int i = 0; i < s->stages.n && !t->gpu; i++)
		if (keep_order(s->stages.at[i]->body))
			s->stages.at[i]->cpu.grain = s->stages.at[i]->extent;
	schedule_settle(s, s->split ? s->split : node_kernel(n));
	return s;
}

static bool does_the_same(const Schedule *a, const Schedule *b)
{
	STRBUF_LOCAL(x);
	STRBUF_LOCAL(y);

	schedule_print_bare(&x, a);
	schedule_print_bare(&y, b);
	return !strcmp(strbuf_str(&x), strbuf_str(&y));
}

/* N's schedule for the runs of STEP on every GPU that runs T's code. If it could use more shared
 * memory, and T has more, a variant for GPUs with as much as T precedes it. */
static Schedule *variant(Module *m, const Target *t, Node *n, const Decision *d, SizeStep step)
{
	Schedule *s = schedule(m, t, n, d, &step), *wide;

	if (!s->short_of_shared || t->gpu->shared <= t->gpu->block_shared)
		return s;
	step.shared = t->gpu->shared;
	wide = schedule(m, t, n, d, &step);
	if (does_the_same(wide, s))
		return s;
	wide->next = s;
	return wide;
}

/* A and B are results of variant(). */
static bool both_do_the_same(const Schedule *a, const Schedule *b)
{
	return a->where.shared == b->where.shared && does_the_same(a, b) &&
	       (!a->where.shared || does_the_same(a->next, b->next));
}

/* Puts before S, the schedule for the runs of STEP and after it those for others, the one for such
 * runs in which rows are whole vectors, where that has wider accesses. */
static Schedule *with_multiples(Module *m, const Target *t, Node *n, SizeStep step, Schedule *s)
{
	const Schedule *other = s->where.shared ? s->next : s;
	Schedule *v, *last;

	if (!t->gpu || !gpu_multiples(node_kernel(n), &step))
		return s;
	v = variant(m, t, n, NULL, step);
	last = v->where.shared ? v->next : v;
	if (!gpu_wider(last, other))
		return s;
	last->next = s;
	return v;
}

/* Puts the variants of decision D for some runs before S, that for all. */
static Schedule *decided_variants(Module *m, const Target *t, Node *n, const Decision *d,
				  Schedule *s)
{
	const StrategyInfo *strategy = &strategy_table[d->strategy];
	SizeStep step[MOST_STEPS];
	int count = strategy->steps ? strategy->steps(t, node_kernel(n), d, step) : 0;

	while (count-- > 0) {
		Schedule *v = variant(m, t, n, d, step[count]);

		v->next = s;
		s = v;
	}
	return s;
}

/* N's schedule, with its variants for sizes that are unknown at compile time. In a program for
 * GPUs, kernels on the host are scheduled for any CPU. */
static Schedule *all_variants(Module *m, const Target *t, Node *n, const Decision *d)
{
	const Target *of = node_on_host(n) ? m->host : t->gpu ? decide_target(m, t) : t;
	SizeStep step[MOST_STEPS];
	Schedule *s, *v, *last;

	last = s = variant(m, of, n, d, (SizeStep){0});
	if (d)
		return decided_variants(m, of, n, d, s);
	s = with_multiples(m, of, n, (SizeStep){0}, s);
	for (int i = sched_gpu_steps(of, node_kernel(n), step) - 1; i >= 0; i--) {
		v = variant(m, of, n, d, step[i]);
		if (both_do_the_same(v, last))
			continue;
		last = v;
		if (v->where.shared)
			v->next->next = s;
		else
			v->next = s;
		s = with_multiples(m, of, n, step[i], v);
	}
	return s;
}

/* If the schedule S of N follows a decision that a user wrote, it is proved, unless --verify proves
 * all of them. Operations on tiles are checked (tiles_verify, tiles_check), with --verify, too. */
static bool prove_edited(Module *m, const Decision *d, Node *n, Schedule *s)
{
	bool ok = true;

	if (d && strategy_table[d->strategy].gpu) {
		for (; s && (d->edited || m->opt.verify); s = s->next)
			ok = tiles_verify(s, m->ctx->diag) &&
			     tiles_check(m->ctx, s, m->ctx->diag) && ok;
		return ok;
	}
	return !d || !d->edited || m->opt.verify ||
	       poly_check(node_kernel(n), s, m->ctx->diag) != POLY_WRONG;
}

/* ---- Schedules of a text ---- */

/* Whether all stages of S and its variants are for a GPU, or for CPUs. */
static bool is_for(const Schedule *s, bool gpu)
{
	for (; s; s = s->next)
		for (int i = 0; i < s->stages.n; i++)
			if ((s->stages.at[i]->block.group > 0) != gpu)
				return false;
	return true;
}

/* Whether S, which a text has, can be N's schedule on target T. */
static bool can_have(Module *m, const Target *t, const Node *n, const Schedule *s)
{
	const bool gpu = t->gpu && !node_on_host(n);

	if (!s)
		return diag_error(m->ctx->diag, node_diag(n),
				  "the text has no schedule for this node");
	return is_for(s, gpu) ||
	       diag_error(m->ctx->diag, node_diag(n),
			  "%s, but the schedule in the text is for a %s",
			  gpu ? "the node runs on a GPU" : "the node runs on a CPU",
			  gpu ? "CPU" : "GPU");
}

/* The threads of a block do not race in the variants S of a text, so far as they have operations on
 * tiles. */
static bool has_no_races(Module *m, const Schedule *s)
{
	bool ok = true;

	for (; s; s = s->next)
		ok = (!schedule_has_tiles(s) || tiles_check(m->ctx, s, m->ctx->diag)) && ok;
	return ok;
}

/* Takes the schedules for target number T from the text that the graph is from. Reading has checked
 * that code can be made of them, and races are found here; that they compute what the kernels say
 * is proved with --verify. */
static bool take_stated(Module *m, int t)
{
	const GraphSchedules *all = NULL;
	const Target *target = m->target[t];
	bool ok = true;

	for (int i = 0; i < m->graph->schedules.n; i++)
		if (!strcmp(m->graph->schedules.at[i].target, target->name))
			all = &m->graph->schedules.at[i];
	if (!all)
		return diag_error(
			m->ctx->diag, (DiagLoc){.line = m->graph->schedules.at[0].line},
			"the text has schedules for %s, not for %s; --target names what it is for",
			m->graph->schedules.at[0].target, target->name);
	for (Node *n = m->graph->first; n; n = n->next) {
		if (!node_kernel(n))
			continue;
		m->sched[t][n->id] = n->id < all->nof ? all->of[n->id] : NULL;
		ok = can_have(m, target, n, m->sched[t][n->id]) &&
		     has_no_races(m, m->sched[t][n->id]) && ok;
	}
	return ok;
}

bool pass_sched(Module *m)
{
	const bool stated = m->graph->schedules.n > 0;
	bool ok = true;

	m->nsched = m->graph->nnodes;
	for (int t = 0; t < m->ntargets; t++) {
		m->sched[t] = NEW_ARRAY(m->arena, m->nsched + 1, Schedule *);
		if (stated && !take_stated(m, t))
			return false;
		for (Node *n = module_first(m); n; n = module_next(m, n))
			if (node_kernel(n) && !stated) {
				diag_at(m->ctx, node_diag(n));
				m->sched[t][n->id] = all_variants(m, m->target[t], n,
								  m->decision[t][n->id]);
				ok = prove_edited(m, m->decision[t][n->id], n,
						  m->sched[t][n->id]) &&
				     ok;
			}
	}
	diag_at(m->ctx, (DiagLoc){0});
	return ok && (!m->opt.verify || poly_check_module(m, m->ctx->diag));
}
