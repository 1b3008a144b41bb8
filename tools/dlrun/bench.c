/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmark: a fifth of the time to warm up (a run at least), then runs for the rest of it. */
#include "tools/dlrun/session.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_RUNS = 1000000, MIN_RUNS = 3 };

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Runs until SECONDS are over, MIN times at least; the times go to ms and cpu_ms. The number of
 * runs, or 0. */
static int measure(Session *s, const Array *in, double seconds, int min, double *ms, double *cpu_ms)
{
	const double begin = now(CLOCK_MONOTONIC);
	int n = 0;

	while (n < MAX_RUNS && (n < min || now(CLOCK_MONOTONIC) - begin < seconds)) {
		const double cpu = now(CLOCK_PROCESS_CPUTIME_ID), t = now(CLOCK_MONOTONIC);
		const int rc = session_run(s, in);

		if (rc) {
			session_fail(s, "run", rc);
			return 0;
		}
		ms[n] = (now(CLOCK_MONOTONIC) - t) * 1e3;
		cpu_ms[n++] = (now(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e3;
	}
	return n;
}

/* Sorts the N times. */
static double median(double *ms, int n)
{
	qsort(ms, (size_t)n, sizeof(*ms), by_value);
	return n % 2 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2;
}

/* The most memory that this program had in use, in KiB. Not ru_maxrss, which counts what the
 * process had in use before it ran this program, too. */
static long peak_rss_kib(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long kib = 0;

	while (f && !kib && fgets(line, sizeof line, f))
		sscanf(line, "VmHWM: %ld", &kib);
	if (f)
		fclose(f);
	return kib;
}

bool session_bench(Session *s, const Array *in, double seconds, Timing *t)
{
	double *ms = arena_alloc(s->arena, MAX_RUNS * sizeof(double));
	double *cpu_ms = arena_alloc(s->arena, MAX_RUNS * sizeof(double)), middle;
	int n = 0;

	if (measure(s, in, seconds / 5, 1, ms, cpu_ms))
		n = measure(s, in, seconds * 4 / 5, MIN_RUNS, ms, cpu_ms);
	if (!n)
		return false;
	middle = median(ms, n);
	*t = (Timing){middle, ms[(n * 95 - 1) / 100], ms[0], median(cpu_ms, n), n, peak_rss_kib()};
	return true;
}

int session_threads(int threads)
{
	cpu_set_t set;

	if (threads)
		return threads;
	return sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
}

/* On a GPU: what a run reads and writes at least (weights, inputs, outputs), by its time, beside
 * what the GPU's memory can. */
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

/* Prints the bytes that a context for these sizes allocates, if the sizes determine them. */
static void put_workspace(const Session *s, FILE *f, const int64_t *sym_values)
{
	dl_workspace w = {.size = sizeof(w)};

	if (!s->api->workspace(s->model, sym_values, s->desc->n_sym, &w))
		fprintf(f, ",\"workspace_bytes\":%" PRIu64, w.host_bytes + w.device_bytes);
}

void session_timing(const Session *s, FILE *f, const Timing *t, const int64_t *sym_values,
		    int threads)
{
	bool first = true;

	fprintf(f,
		"{\"median_ms\":%.6g,\"p95_ms\":%.6g,\"min_ms\":%.6g,\"cpu_ms\":%.6g,\"runs\":%d,\"peak_rss_kib\":%ld,\"threads\":%d,\"dims\":{",
		t->median_ms, t->p95_ms, t->min_ms, t->cpu_ms, t->runs, t->peak_rss_kib,
		session_threads(threads));
	for (int32_t i = 0; i < s->desc->n_sym; i++) {
		if (!session_dim_of_inputs(s, i) || sym_values[i] < 0)
			continue;
		fputs(first ? "" : ",", f);
		put_json(f, dl_desc_sym(s->desc, i)->name);
		fprintf(f, ":%" PRId64, sym_values[i]);
		first = false;
	}
	fputs("}", f);
	put_workspace(s, f, sym_values);
	fputs(",\"device\":", f);
	put_json(f, session_device(s));
	put_speed(s, f, t);
	fputs("}\n", f);
}
