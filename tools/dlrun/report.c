/* SPDX-License-Identifier: Apache-2.0 */
/* What a user reads after a run: the outputs in short, and the kernels by time. */
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
		fprintf(f, "%.6g", dtype_load_f64(v->dtype, v->data, i));
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

static void put_row(FILE *f, const dl_profile_entry *e, double total)
{
	fprintf(f, "%6.2f%% %10.3f %9" PRIu64 " %11.2f  ",
		total > 0 ? 100 * (double)e->nanoseconds / total : 0, (double)e->nanoseconds / 1e6,
		e->calls, (double)e->nanoseconds / 1e3 / (double)e->calls);
}

/* On a GPU: its name, and how what the runs must read and write at least compares with what its memory can. */
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

void session_profile(const Session *s, FILE *f)
{
	dl_profile_entry rest = {0}, sum = {0}, *all;
	int n;

	all = kernels(s, &n);
	for (int i = 0; i < n; i++) {
		dl_profile_entry *into = i < TOP_KERNELS ? NULL : &rest;

		sum.nanoseconds += all[i].nanoseconds;
		sum.calls += all[i].calls;
		if (into) {
			into->nanoseconds += all[i].nanoseconds;
			into->calls += all[i].calls;
		}
	}
	fprintf(f, "%7s %10s %9s %11s  %s\n", "share", "total ms", "calls", "us/call", "nodes");
	for (int i = 0; i < n && i < TOP_KERNELS; i++) {
		put_row(f, &all[i], (double)sum.nanoseconds);
		escape_to_file(f, all[i].name, escape_terminal);
		fputc('\n', f);
	}
	if (rest.calls) {
		put_row(f, &rest, (double)sum.nanoseconds);
		fprintf(f, "%d more kernels (--json: all)\n", n - TOP_KERNELS);
	}
	if (sum.calls) {
		put_row(f, &sum, (double)sum.nanoseconds);
		fprintf(f, "total of %d kernels\n", n);
	}
	put_speed(s, f, sum.nanoseconds);
}

void put_json(FILE *f, const char *s)
{
	fputc('"', f);
	escape_to_file(f, s, escape_json);
	fputc('"', f);
}

void session_profile_json(const Session *s, FILE *f)
{
	int n;
	const dl_profile_entry *all = kernels(s, &n);

	fprintf(f, "{\"kernels\":[");
	for (int i = 0; i < n; i++) {
		fprintf(f, "%s{\"total_ms\":%.6g,\"calls\":%" PRIu64 ",\"nodes\":", i ? "," : "",
			(double)all[i].nanoseconds / 1e6, all[i].calls);
		put_json(f, all[i].name);
		fputc('}', f);
	}
	fprintf(f, "]}\n");
}
