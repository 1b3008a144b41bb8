/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a run for a user: the outputs in short, and the kernels by time. */
#include "tools/dlrun/session.h"

#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_VALUES = 6, TOP_KERNELS = 20 };

/* ---- Outputs ---- */

static double element(const Array *v, int64_t i)
{
	int64_t n;

	if (dtype_is_float(v->dtype))
		return dtype_load_f64(v->dtype, v->data, i);
	n = dtype_load_i64(v->dtype, v->data, i);
	return v->dtype == DT_U64 ? (double)(uint64_t)n : (double)n;
}

static void put_element(FILE *f, const Array *v, int64_t i)
{
	if (v->dtype == DT_STR) {
		const dl_str *s = (const dl_str *)v->data + i;
		StrBuf text = {0};

		strbuf_quote_n(&text, s->p, (size_t)s->n);
		fputs(strbuf_str(&text), f);
		strbuf_free(&text);
	} else if (dtype_is_float(v->dtype)) {
		const double x = dtype_load_f64(v->dtype, v->data, i);

		fprintf(f, "%.6g", x != x ? NAN : x); /* the sign of a NaN has no meaning */
	} else if (v->dtype == DT_U64) {
		fprintf(f, "%" PRIu64, (uint64_t)dtype_load_i64(v->dtype, v->data, i));
	} else {
		fprintf(f, "%" PRId64, dtype_load_i64(v->dtype, v->data, i));
	}
}

/* Of the elements that are numbers; how many are not. */
static void put_range(FILE *f, const Array *v, int64_t n)
{
	double least = INFINITY, most = -INFINITY, sum = 0;
	int64_t nans = 0;

	for (int64_t i = 0; i < n; i++) {
		double x = element(v, i);

		nans += isnan(x);
		if (isnan(x))
			continue;
		least = x < least ? x : least;
		most = x > most ? x : most;
		sum += x;
	}
	if (n > nans)
		fprintf(f, "; min %.6g, max %.6g, mean %.6g", least, most,
			sum / (double)(n - nans));
	if (nans)
		fprintf(f, "; %" PRId64 " NaN", nans);
}

static void put_tensor(FILE *f, const Array *v)
{
	const int64_t n = array_count(v);

	fprintf(f, "%s[", dtype_info[v->dtype].name);
	for (int32_t d = 0; d < v->rank; d++)
		fprintf(f, "%s%" PRId64, d ? ", " : "", v->dims[d]);
	fprintf(f, "]%s", n ? ":" : "");
	for (int64_t i = 0; i < n && i < FIRST_VALUES; i++) {
		fputc(' ', f);
		put_element(f, v, i);
	}
	fputs(n > FIRST_VALUES ? " ..." : "", f);
	if (n && v->dtype != DT_STR)
		put_range(f, v, n);
	fputc('\n', f);
}

/* V, which is called NAME, a line for each of its tensors and one for each value that has them. */
static void put_value(const Session *s, FILE *f, const char *name, const Array *v)
{
	fprintf(f, "%s: ", name);
	if (v->form == DL_TENSOR) {
		put_tensor(f, v);
		return;
	}
	if (v->form == DL_MAP)
		fputs("map\n", f);
	else if (v->form == DL_OPTIONAL)
		fputs(v->n_items ? "optional, there\n" : "optional, not there\n", f);
	else
		fprintf(f, "sequence of %" PRId64 "\n", v->n_items);
	for (int64_t i = 0; i < v->n_items; i++)
		put_value(s, f, array_item_name(s->arena, name, v, i), &v->items[i]);
}

void session_outputs(const Session *s, FILE *f)
{
	for (int32_t o = 0; o < s->desc->n_out; o++) {
		const Array v = session_output(s, o);

		put_value(s, f, session_shown(s, v.name), &v);
	}
}

/* ---- Kernels ---- */

static int by_time(const void *a, const void *b)
{
	const dl_profile_entry *x = a, *y = b;

	return (x->nanoseconds < y->nanoseconds) - (x->nanoseconds > y->nanoseconds);
}

/* The kernels that ran, slowest first; *N of them. */
static dl_profile_entry *kernels(const Session *s, int *n)
{
	dl_profile_entry e = {.size = sizeof(e)}, *all;
	int many = 0;

	while (!s->api->profile(s->model, many, &e))
		many++;
	all = NEW_ARRAY(s->arena, many + 1, dl_profile_entry);
	*n = 0;
	for (int i = 0; i < many; i++) {
		all[*n].size = sizeof(e);
		s->api->profile(s->model, i, &all[*n]);
		*n += all[*n].calls > 0;
	}
	qsort(all, (size_t)*n, sizeof(*all), by_time);
	return all;
}

/* The part of the roof that E reached, in percent: the time that its work takes at least, by the
 * bound that takes longer, to the time that it took. 0: not known. */
static double percent_of_roof(const dl_profile_entry *e, const Roof *roof)
{
	const double compute = roof->flops > 0 ? (double)e->flops / roof->flops : 0;
	const double memory = roof->bytes > 0 ? (double)e->bytes / roof->bytes : 0;

	return e->nanoseconds ? 1e11 * fmax(compute, memory) / (double)e->nanoseconds : 0;
}

static void put_number(FILE *f, double v)
{
	if (v > 0)
		fprintf(f, " %8.*f", v < 10 ? 2 : 1, v);
	else
		fprintf(f, " %8s", "-");
}

/* Why some of the N entries of ALL exceed the roof, if any does. */
static void note_beyond_roof(FILE *f, const dl_profile_entry *all, int n, const Roof *roof)
{
	for (int i = 0; i < n; i++)
		if (percent_of_roof(&all[i], roof) > 100) {
			fputs("above 100% of the roof: the data are in a cache, or the arithmetic is on narrower types than f32\n",
			      f);
			return;
		}
}

static void put_row(FILE *f, const dl_profile_entry *e, double total, const Roof *roof)
{
	const double ns = (double)e->nanoseconds;

	fprintf(f, "%6.2f%% %10.3f %9" PRIu64 " %11.2f", total > 0 ? 100 * ns / total : 0, ns / 1e6,
		e->calls, ns / 1e3 / (double)e->calls);
	put_number(f, ns > 0 ? (double)e->flops / ns : 0);
	put_number(f, ns > 0 ? (double)e->bytes / ns : 0);
	put_number(f, percent_of_roof(e, roof));
	fputs("  ", f);
}

static void put_roof(const Session *s, FILE *f, const Roof *roof)
{
	if (roof->flops <= 0 && roof->bytes <= 0)
		return;
	fputs("roof:", f);
	if (roof->flops > 0)
		fprintf(f, " %.1f GFLOP/s", roof->flops * 1e-9);
	if (roof->bytes > 0)
		fprintf(f, "%s %.1f GB/s of memory", roof->flops > 0 ? "," : "",
			roof->bytes * 1e-9);
	if (session_gpu(s).sm)
		fputc('\n', f);
	else
		fprintf(f, ", with %d thread%s\n", session_threads(s->options.threads),
			session_threads(s->options.threads) > 1 ? "s" : "");
}

/* On a GPU: its name, and how what the runs must read and write at least compares with what its
 * memory can. */
static void put_speed(const Session *s, FILE *f, uint64_t ns)
{
	const dl_device_info gpu = session_gpu(s);
	const double speed = ns ? s->all_bytes / (double)ns : 0;

	if (!gpu.sm || !s->runs)
		return;
	fprintf(f, "%s: %.3f ms of kernels a run; weights, inputs and outputs are %.3f MB",
		session_device(s), (double)ns / 1e6 / (double)s->runs,
		s->all_bytes / (double)s->runs / 1e6);
	if (ns)
		fprintf(f, ", %.1f GB/s", speed);
	if (ns && gpu.bytes_per_second)
		fprintf(f, " of the memory's %.0f (%.1f%%)", (double)gpu.bytes_per_second / 1e9,
			100e9 * speed / (double)gpu.bytes_per_second);
	fputc('\n', f);
}

static void add_entry(dl_profile_entry *to, const dl_profile_entry *e)
{
	to->nanoseconds += e->nanoseconds;
	to->calls += e->calls;
	to->flops += e->flops;
	to->bytes += e->bytes;
}

void session_profile(const Session *s, FILE *f, const Roof *roof)
{
	dl_profile_entry rest = {0}, sum = {0}, *all;
	int n;

	all = kernels(s, &n);
	for (int i = 0; i < n; i++) {
		add_entry(&sum, &all[i]);
		if (i >= TOP_KERNELS)
			add_entry(&rest, &all[i]);
	}
	fprintf(f, "%7s %10s %9s %11s %8s %8s %8s  %s\n", "share", "total ms", "calls", "us/call",
		"GFLOP/s", "GB/s", "% roof", "nodes");
	for (int i = 0; i < n && i < TOP_KERNELS; i++) {
		put_row(f, &all[i], (double)sum.nanoseconds, roof);
		escape_to_file(f, all[i].name, escape_terminal);
		fputc('\n', f);
	}
	if (rest.calls) {
		put_row(f, &rest, (double)sum.nanoseconds, roof);
		fprintf(f, "%d more kernels (--json: all)\n", n - TOP_KERNELS);
	}
	if (sum.calls) {
		put_row(f, &sum, (double)sum.nanoseconds, roof);
		fprintf(f, "total of %d kernels\n", n);
		note_beyond_roof(f, all, n, roof);
		put_roof(s, f, roof);
	}
	put_speed(s, f, sum.nanoseconds);
}

void put_json(FILE *f, const char *s)
{
	fputc('"', f);
	escape_to_file(f, s, escape_json);
	fputc('"', f);
}

void session_profile_json(const Session *s, FILE *f, const Roof *roof)
{
	int n;
	const dl_profile_entry *all = kernels(s, &n);

	fprintf(f,
		"{\"runs\":%" PRIu64
		",\"roof_gflop_per_s\":%.6g,\"roof_gb_per_s\":%.6g,\"kernels\":[",
		s->runs, roof->flops * 1e-9, roof->bytes * 1e-9);
	for (int i = 0; i < n; i++) {
		const double ns = (double)all[i].nanoseconds;

		fprintf(f,
			"%s{\"total_ms\":%.6g,\"calls\":%" PRIu64 ",\"flops\":%" PRIu64
			",\"bytes\":%" PRIu64,
			i ? "," : "", ns / 1e6, all[i].calls, all[i].flops, all[i].bytes);
		if (ns > 0)
			fprintf(f, ",\"gflop_per_s\":%.6g,\"gb_per_s\":%.6g",
				(double)all[i].flops / ns, (double)all[i].bytes / ns);
		if (percent_of_roof(&all[i], roof) > 0)
			fprintf(f, ",\"percent_of_roof\":%.4g", percent_of_roof(&all[i], roof));
		fputs(",\"nodes\":", f);
		put_json(f, all[i].name);
		fputc('}', f);
	}
	fprintf(f, "]}\n");
}
