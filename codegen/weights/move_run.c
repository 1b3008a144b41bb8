/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes weights that are copies of other elements: transposes, packing, padding. A move is cut
 * into boxes of points, which are jobs for threads. A job gathers its box and writes it to the file
 * in contiguous pieces, and then releases the pages that it read, so the weights are never all in
 * memory.
 */
#include "codegen/weights/weights_impl.h"

#include "base/sys.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A block is long along one iterator and short along the other, since each row that it touches may
 * bring 64 KiB of the file, or a large page, into memory. */
enum { LONG_STEP = 4096, MAX_THREADS = 16 };

/* One box of a move from SRC to offset AT of the file. */
struct MoveJob {
	const Move *move;
	const void *src;
	bool mapped; /* whether SRC is a mapped file */
	int64_t at;
	int64_t lo[MAX_ITERS], hi[MAX_ITERS];
};

int weights_cut(const int64_t *extent, int n, int64_t want, int at[2], int64_t step[2])
{
	int64_t all = 1, rest;
	int cuts = 0;

	for (int i = 0; i < n; i++)
		all *= extent[i];
	for (; all > want && cuts < 2; cuts++) {
		int best = -1;

		for (int i = 0; i < n; i++)
			if (extent[i] > 1 && (!cuts || i != at[0]) &&
			    (best < 0 || extent[i] > extent[best]))
				best = i;
		if (best < 0)
			break;
		at[cuts] = best;
	}
	rest = all / (cuts ? extent[at[0]] : 1) / (cuts > 1 ? extent[at[1]] : 1);
	want = want / rest > 1 ? want / rest : 1;
	for (int i = 0; i < cuts; i++) {
		step[i] = i || cuts == 1     ? want / (i ? step[0] : 1)
			  : want < LONG_STEP ? want
					     : LONG_STEP;
		step[i] = step[i] < 1 ? 1 : step[i] > extent[at[i]] ? extent[at[i]] : step[i];
	}
	return cuts;
}

/* ---- Moves ---- */

static bool write_run(WeightsRun *w, const char *p, int64_t n, int64_t at)
{
	while (n > 0) {
		ssize_t got = pwrite(w->fd, p, (size_t)n, w->file + at);

		if (got < 0 && errno != EINTR) {
			atomic_store(&w->fault, errno);
			return false;
		}
		got = got < 0 ? 0 : got;
		p += got;
		n -= got;
		at += got;
	}
	return true;
}

/* Copies box J, contiguous at P, run by run to the weights file. */
static void write_runs(WeightsRun *w, const MoveJob *j, const char *p)
{
	const Move *m = j->move;
	int64_t x[MAX_ITERS], step[MAX_ITERS], run = 1;
	int outer = m->n - 1;

	for (int i = m->n - 1, inner = 1; i >= 0; i--) {
		step[i] = i == m->n - 1 ? 1 : step[i + 1] * m->extent[i + 1];
		if (inner) {
			run *= j->hi[i] - j->lo[i];
			outer = i;
		}
		inner = inner && j->hi[i] - j->lo[i] == m->extent[i];
	}
	memcpy(x, j->lo, sizeof x);
	do {
		int64_t at = 0;

		for (int i = 0; i < m->n; i++)
			at += x[i] * step[i];
		if (!write_run(w, p, run * m->size, j->at + at * m->size))
			return;
		p += run * m->size;
	} while (move_step(outer, j->lo, j->hi, x));
}

static void run_job(WeightsRun *w, const MoveJob *j, char *buf)
{
	const Move *m = j->move;
	int64_t first, last;
	bool reads = move_range(m, j->lo, j->hi, &first, &last);

	if (m->n == 1 && m->from[0] == 1 && !m->edge[0] && m->edge_base < 0) {
		write_runs(w, j, (const char *)j->src + first * m->size);
	} else {
		move_box(m, j->src, j->lo, j->hi, buf);
		write_runs(w, j, buf);
	}
	if (reads && j->mapped)
		drop_pages((const char *)j->src + first * m->size,
			   (size_t)((last - first + 1) * m->size));
}

static void *work(void *arg)
{
	WeightsRun *w = arg;
	char *buf = malloc(w->room);
	int i;

	if (!buf)
		atomic_store(&w->fault, ENOMEM);
	while (!atomic_load(&w->fault) && (i = atomic_fetch_add(&w->next, 1)) < w->jobs.n)
		run_job(w, w->jobs.at[i], buf);
	free(buf);
	return NULL;
}

bool weights_run_jobs(WeightsRun *w)
{
	pthread_t thread[MAX_THREADS];
	int n = 0, most = w->threads < MAX_THREADS ? w->threads : MAX_THREADS;

	atomic_store(&w->next, 0);
	while (n + 1 < most && n + 1 < w->jobs.n && !pthread_create(&thread[n], NULL, work, w))
		n++;
	if (w->jobs.n)
		work(w);
	while (n > 0)
		pthread_join(thread[--n], NULL);
	w->jobs.n = 0;
	w->room = 0;
	if (!w->fault)
		return true;
	return diag_error(w->m->ctx->diag, weights_here(w), "cannot write the weights: %s",
			  strerror(w->fault));
}

/* As weights_cut. One cut is enough if the output and the source have the same outermost iterator:
 * then both are accessed from end to end. */
static int cut_move(const Move *m, int at[2], int64_t step[2])
{
	int64_t want = WEIGHTS_BLOCK / m->size, rest = 1;
	bool outermost = true;

	for (int i = 1; i < m->n; i++) {
		rest *= m->extent[i];
		outermost = outermost && llabs(m->from[i]) <= llabs(m->from[0]);
	}
	if (!outermost || rest > want)
		return weights_cut(m->extent, m->n, want, at, step);
	at[0] = 0;
	step[0] = want / rest;
	return 1;
}

void weights_add_jobs(WeightsRun *w, const Move *m, const void *src, bool mapped, int64_t at)
{
	int axis[2];
	int64_t step[2], x[2] = {0, 0};
	int cuts = cut_move(m, axis, step);

	do {
		MoveJob *j = NEW(w->m->arena, MoveJob);
		size_t room = (size_t)m->size;

		*j = (MoveJob){.move = m, .src = src, .mapped = mapped, .at = at};
		memcpy(j->hi, m->extent, sizeof j->hi);
		for (int i = 0; i < cuts; i++) {
			j->lo[axis[i]] = x[i];
			if (j->hi[axis[i]] > x[i] + step[i])
				j->hi[axis[i]] = x[i] + step[i];
		}
		for (int i = 0; i < m->n; i++)
			room *= (size_t)(j->hi[i] - j->lo[i]);
		w->room = room > w->room ? room : w->room;
		vec_push(w->m->arena, &w->jobs, j);
		if (cuts > 1 && (x[1] += step[1]) < m->extent[axis[1]])
			continue;
		x[1] = 0;
		x[0] += cuts ? step[0] : 1;
	} while (cuts && x[0] < m->extent[axis[0]]);
}
