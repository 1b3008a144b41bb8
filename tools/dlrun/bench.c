/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmark: a fifth of the time to warm up (a run at least), then runs for the rest of it. */
#include "tools/dlrun/session.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { MAX_RUNS = 1000000, MIN_RUNS = 3 };

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Runs until SECONDS are over, MIN times at least; the times go to ms. The number of runs, or 0. */
static int measure(Session *s, const Array *in, double seconds, int min, double *ms)
{
	const double begin = now();
	int n = 0;

	while (n < MAX_RUNS && (n < min || now() - begin < seconds)) {
		const double t = now();
		const int rc = session_run(s, in);

		if (rc) {
			session_fail(s, "run", rc);
			return 0;
		}
		ms[n++] = (now() - t) * 1e3;
	}
	return n;
}

bool session_bench(Session *s, const Array *in, double seconds, Timing *t)
{
	double *ms = arena_alloc(s->arena, MAX_RUNS * sizeof(double));
	struct rusage use;
	int n = 0;

	if (measure(s, in, seconds / 5, 1, ms))
		n = measure(s, in, seconds * 4 / 5, MIN_RUNS, ms);
	if (!n)
		return false;
	qsort(ms, (size_t)n, sizeof(*ms), by_value);
	getrusage(RUSAGE_SELF, &use);
	*t = (Timing){n % 2 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2, ms[(n * 95 - 1) / 100],
		      ms[0], n, use.ru_maxrss};
	return true;
}

int session_threads(int threads)
{
	cpu_set_t set;

	if (threads)
		return threads;
	return sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
}

/* On a GPU: what a run reads and writes at least (weights, inputs, outputs), by its time, beside what the GPU's memory can. */
static void put_speed(const Session *s, FILE *f, const Timing *t)
{
	const dl_device_info gpu = session_gpu(s);
	const double bytes = s->bytes + (double)gpu.weights_bytes;

	if (!gpu.sm)
		return;
	fprintf(f, ",\"bytes\":%.0f,\"gb_per_s\":%.4g", bytes, bytes / t->median_ms / 1e6);
	if (gpu.bytes_per_second)
		fprintf(f, ",\"peak_gb_per_s\":%.4g", (double)gpu.bytes_per_second / 1e9);
}

void session_timing(const Session *s, FILE *f, const Timing *t, const int64_t *sym_values,
		    int threads)
{
	bool first = true;

	fprintf(f,
		"{\"median_ms\":%.6g,\"p95_ms\":%.6g,\"min_ms\":%.6g,\"runs\":%d,\"peak_rss_kib\":%ld,\"threads\":%d,\"dims\":{",
		t->median_ms, t->p95_ms, t->min_ms, t->runs, t->peak_rss_kib,
		session_threads(threads));
	for (int32_t i = 0; i < s->desc->n_sym; i++) {
		if (dl_desc_sym(s->desc, i)->kind != DL_SYM_INPUT || sym_values[i] < 0)
			continue;
		fputs(first ? "" : ",", f);
		put_json(f, dl_desc_sym(s->desc, i)->name);
		fprintf(f, ":%" PRId64, sym_values[i]);
		first = false;
	}
	fputs("},\"device\":", f);
	put_json(f, session_device(s));
	put_speed(s, f, t);
	fputs("}\n", f);
}
