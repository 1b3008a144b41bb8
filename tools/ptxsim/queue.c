/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of work behind streams: the order of operations, and their dependences. */
#include "tools/ptxsim/driver.h"

#include "tools/ptxsim/warp.h"

#include <stdlib.h>
#include <string.h>

typedef struct Op {
	uint64_t id;
	bool done, blocking; /* the null stream waits for it */
	Work work;
	Seq after;
} Op;

/* In order of their numbers; the first is not done. */
static Op *ops;
static int n_ops, cap_ops;
static uint64_t last_id, last_null; /* LAST_NULL: of the null stream, where others wait for it */
static uint64_t random_state;

static uint32_t draw_queue(uint32_t n)
{
	random_state = mix(random_state + driver.seed);
	return (uint32_t)((random_state >> 32) * n >> 32);
}

void seq_push(Seq *s, uint64_t v)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 4;
		s->at = realloc(s->at, (size_t)s->cap * sizeof *s->at);
		if (!s->at)
			abort();
	}
	s->at[s->n++] = v;
}

CUstream stream_of(CUstream s)
{
	uintptr_t v = (uintptr_t)s;

	if (v <= 2)
		return &driver.null_stream;
	return is_head(s, K_STREAM) ? s : NULL;
}

static int find(uint64_t id)
{
	int lo = 0, hi = n_ops;

	while (lo < hi) {
		int mid = (lo + hi) / 2;
		if (ops[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n_ops && ops[lo].id == id ? lo : -1;
}

bool queue_done(uint64_t op)
{
	int at = find(op);

	return at < 0 || ops[at].done;
}

void work_free(Work *w)
{
	free(w->params);
	free(w->staged);
	w->params = w->staged = NULL;
}

uint64_t queue_add(CUstream s, Work w, const uint64_t *after, int n)
{
	if (n_ops == cap_ops) {
		int cap = cap_ops ? 2 * cap_ops : 64;
		Op *grown = realloc(ops, (size_t)cap * sizeof *ops);
		if (!grown) {
			work_free(&w);
			return 0;
		}
		ops = grown;
		cap_ops = cap;
	}
	Op *op = &ops[n_ops++];
	*op = (Op){.id = ++last_id, .work = w};
	for (int i = 0; i < n; i++)
		seq_push(&op->after, after[i]);
	if (!s)
		return op->id;
	seq_push(&op->after, s->last);
	for (int i = 0; i < s->waits.n; i++)
		seq_push(&op->after, s->waits.at[i]);
	s->waits.n = 0;
	s->last = op->id;
	op->blocking = s->blocking;
	if (s == &driver.null_stream) {
		/* The null stream comes after all that blocking streams were given. */
		for (int i = 0; i < n_ops - 1; i++)
			if (!ops[i].done && ops[i].blocking)
				seq_push(&op->after, ops[i].id);
		last_null = op->id;
	} else if (s->blocking) {
		seq_push(&op->after, last_null);
	}
	return op->id;
}

uint64_t queue_push(CUstream s, Work w)
{
	return s->capture ? capture_push(s, w) : queue_add(s, w, NULL, 0);
}

static void drop_done(void)
{
	int n = 0;

	while (n < n_ops && ops[n].done)
		n++;
	if (n > n_ops / 2 || n == n_ops) {
		memmove(ops, ops + n, (size_t)(n_ops - n) * sizeof *ops);
		n_ops -= n;
	}
}

static void run(int at)
{
	Work w = ops[at].work;

	ops[at].done = true;
	free(ops[at].after.at);
	ops[at].after = (Seq){0};
	if (!driver.sticky) {
		CUresult r = work_run(&w);
		driver.sticky = driver.sticky ? driver.sticky : r;
	} else if (w.type == OP_FREE) {
		work_run(&w);
	}
	work_free(&w);
}

/* An operation that OP needs and that may run now, OP itself where it needs nothing; -1: it is
 * done. */
static int ready_below(uint64_t id)
{
	for (;;) {
		int at = find(id);
		if (at < 0 || ops[at].done)
			return -1;
		Seq *after = &ops[at].after;
		uint64_t open = 0;
		uint32_t seen = 0;
		for (int i = 0; i < after->n; i++)
			if (!queue_done(after->at[i]) && !draw_queue(++seen))
				open = after->at[i];
		if (!open)
			return at;
		id = open;
	}
}

void queue_step(uint64_t op)
{
	int at = ready_below(op);

	if (at >= 0)
		run(at);
	drop_done();
}

CUresult queue_force(uint64_t op)
{
	for (int at; (at = ready_below(op)) >= 0;)
		run(at);
	drop_done();
	return driver.sticky;
}

CUresult queue_force_all(void)
{
	while (n_ops) {
		for (int i = 0; i < n_ops; i++)
			if (!ops[i].done)
				while (!queue_done(ops[i].id))
					run(ready_below(ops[i].id));
		drop_done();
	}
	return driver.sticky;
}

void queue_nudge(void)
{
	while (n_ops && draw_queue(3) == 0)
		queue_step(ops[draw_queue((uint32_t)n_ops)].id);
}
