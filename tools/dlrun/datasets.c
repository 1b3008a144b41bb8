/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX's data sets: test_data_set_K/{input,output}_N.pb. Files go to inputs and outputs by the name
 * in them, and by number where they have none. The noise of the reference is case.json's list
 * "noise", a number per data set, where that file is there.
 */
#include "tools/dlrun/datasets.h"

#include "base/sys.h"
#include "tools/dlrun/compare.h"
#include "tools/dlrun/noise.h"
#include "tools/dlrun/session.h"
#include "tools/dlrun/unordered.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

double data_noise(Arena *a, const char *dir, int k)
{
	size_t n;
	char *text = read_file(a, arena_printf(a, "%s/case.json", dir), &n), *p;
	double largest = 0;

	if (!text)
		return 0;
	p = strstr(text, "\"noise\"");
	p = p ? strchr(p, ':') : NULL;
	for (int i = 0; p && *p && *p != ']' && *p != '}'; i++) {
		double v;
		char *end;

		p += strspn(p, ":[, \n\t");
		v = strtod(p, &end);
		if (end == p && !strncmp(p, "null", 4))
			end = p + 4;
		if (end == p)
			break;
		p = end;
		if (i == k)
			return v;
		largest = v > largest ? v : largest;
	}
	return largest;
}

int data_read(Arena *a, Diag *d, const char *dir, const char *what, const dl_form *form,
	      int n_forms, Array **arrays)
{
	int n = 0;

	while (!access(arena_printf(a, "%s/%s_%d.pb", dir, what, n), R_OK))
		n++;
	*arrays = NEW_ARRAY(a, n + 1, Array);
	for (int i = 0; i < n; i++)
		if (!array_read(a, d, arena_printf(a, "%s/%s_%d.pb", dir, what, i),
				i < n_forms ? form[i] : DL_TENSOR, &(*arrays)[i]))
			return -1;
	return n;
}

/* The array of that name, or null. */
static const Array *named(const Array *arrays, int n, const char *name)
{
	for (int k = 0; k < n && *name; k++)
		if (!strcmp(arrays[k].name, name))
			return &arrays[k];
	return NULL;
}

/* Whether arrays go by their names: one of them is among NAMES. */
static bool by_names(const char *const *names, int n_names, const Array *arrays, int n)
{
	for (int i = 0; i < n_names; i++)
		if (named(arrays, n, names[i]))
			return true;
	return false;
}

const Array *data_pick(const Array *arrays, int n, const char *const *names, int n_names, int i)
{
	const Array *v = named(arrays, n, names[i]);

	if (v || i >= n || (arrays[i].name[0] && by_names(names, n_names, arrays, n)))
		return v;
	return &arrays[i];
}

bool data_assign(Diag *d, const char *dir, const char *const *names, int n_in, const Array *arrays,
		 int n, Array *in, const Array *otherwise)
{
	for (int i = 0; i < n_in; i++) {
		const Array *v = data_pick(arrays, n, names, n_in, i);

		if (!v && otherwise && otherwise[i].name)
			v = &otherwise[i];
		if (!v)
			return diag_error(d, (DiagLoc){.file = dir}, "no data for input \"%s\"",
					  names[i]);
		in[i] = *v;
	}
	return true;
}

/* The number K of a file WHAT_K.pb, or -1. */
static int file_number(const char *file, const char *what)
{
	const size_t n = strlen(what);
	char *end;
	long k;

	if (strncmp(file, what, n) || file[n] != '_' || !strchr("0123456789", file[n + 1]))
		return -1;
	k = strtol(file + n + 1, &end, 10);
	return !strcmp(end, ".pb") && k < INT_MAX ? (int)k : -1;
}

/* Every file input_K.pb of DIR is an input of the model: the first N, ARRAYS, were read, and of
 * those the others follow. */
static bool inputs_exist(const Session *s, const char *dir, const char *const *names,
			 const Array *arrays, int n)
{
	const int n_in = s->desc->n_in;
	const bool go_by_names = by_names(names, n_in, arrays, n);
	const struct dirent *e;
	DIR *d = opendir(dir);
	int left = -1;

	for (int k = 0; k < n; k++) {
		bool found = k < n_in && (!go_by_names || !arrays[k].name[0]);

		for (int i = 0; i < n_in && go_by_names; i++)
			found = found || !strcmp(arrays[k].name, names[i]);
		if (!found) {
			closedir(d);
			return diag_error(
				s->diag, (DiagLoc){.file = dir},
				"input_%d.pb%s%s%s: the model has no such input; --describe lists all",
				k, arrays[k].name[0] ? " \"" : "", arrays[k].name,
				arrays[k].name[0] ? "\"" : "");
		}
	}
	while (d && (e = readdir(d)))
		if (file_number(e->d_name, "input") >= n)
			left = file_number(e->d_name, "input");
	if (d)
		closedir(d);
	return left < 0 || diag_error(s->diag, (DiagLoc){.file = dir},
				      "input_%d.pb is not read: there is no input_%d.pb", left, n);
}

static bool inputs(Session *s, const char *dir, Array *in)
{
	const char **names = NEW_ARRAY(s->arena, s->desc->n_in + 1, const char *);
	Array *otherwise = NEW_ARRAY(s->arena, s->desc->n_in + 1, Array), *arrays;
	dl_form *form = NEW_ARRAY(s->arena, s->desc->n_in + 1, dl_form);
	int n;

	for (int32_t i = 0; i < s->desc->n_in; i++) {
		names[i] = session_in(s, i)->name;
		form[i] = (dl_form)session_in(s, i)->form;
		session_default(s, i, &otherwise[i]);
	}
	n = data_read(s->arena, s->diag, dir, "input", form, s->desc->n_in, &arrays);
	return n >= 0 && inputs_exist(s, dir, names, arrays, n) &&
	       data_assign(s->diag, dir, names, s->desc->n_in, arrays, n, in, otherwise);
}

static bool same(const Session *s, const char *set, const Array *got, const Comparison *c)
{
	printf("%s: %s: max abs %.3g, max rel %.3g: %s%s\n", session_shown(s, set),
	       session_shown(s, got->name), c->max_abs, c->max_rel,
	       c->ok ? "ok, within " : "FAIL: ", c->ok ? c->rule : c->why);
	return c->ok;
}

/* Counts of data sets and of their results. */
typedef struct Tally {
	int sets, failed;           /* of which could not be run */
	int outputs, differ, alone; /* compared; of which differ; without a reference */
} Tally;

/* T for output O. */
static Tolerance for_output(const Session *s, Tolerance t, int32_t o)
{
	const dl_accuracy a = session_accuracy(s, o);

	t.step = a.step;
	t.unit = a.unit;
	return t;
}

/* Output O and its reference as they are compared. Elements without an order are put in the order
 * of the values that they belong to, if these have a reference, too; else in that of their own.
 * WANT has a reference for each output, or null. */
static void in_order(Session *s, int32_t o, const Array *got, const Array *const *want, Tolerance t,
		     Array *g, Array *w)
{
	const dl_accuracy a = session_accuracy(s, o);
	const bool has_values = a.by >= 0 && want[a.by] && compare_matches(&got[a.by], want[a.by]);

	*g = got[o];
	*w = *want[o];
	if (a.dim < 0 || !compare_matches(&got[o], want[o]))
		return;
	if (!has_values) {
		*g = unordered_values(s->arena, &got[o], a.dim);
		*w = unordered_values(s->arena, want[o], a.dim);
		return;
	}
	unordered_indices(s->arena, g, w, a.dim, &got[a.by], want[a.by],
			  2 * compare_allowance(want[a.by], for_output(s, t, a.by)));
}

/* Compares GOT, the outputs of a run on IN, with READ, N arrays. Noise is measured where an output
 * differs such that it may be the reason. */
static void compare_set(Session *s, const char *set, const Array *in, const Array *got,
			const Array *read, int n, Tolerance given, bool measures, Tally *sum)
{
	const char **names = NEW_ARRAY(s->arena, s->desc->n_out + 1, const char *);
	const Array **want = NEW_ARRAY(s->arena, s->desc->n_out + 1, const Array *);
	Noise noise = {0};

	for (int32_t o = 0; o < s->desc->n_out; o++)
		names[o] = got[o].name;
	for (int32_t o = 0; o < s->desc->n_out; o++)
		want[o] = data_pick(read, n, names, s->desc->n_out, o);
	for (int32_t o = 0; o < s->desc->n_out; o++) {
		Tolerance t = for_output(s, given, o);
		Comparison c;
		Array g, w;

		sum->outputs += want[o] != NULL;
		sum->alone += !want[o];
		if (!want[o]) {
			printf("%s: %s: no reference\n", session_shown(s, set),
			       session_shown(s, got[o].name));
			continue;
		}
		in_order(s, o, got, want, given, &g, &w);
		c = compare(&g, &w, t);
		if (c.noise_may_tell && measures) {
			if (!noise.moved)
				noise = noise_measure(s, in, got);
			t.moved = noise.measured_by ? noise.moved[o] : NULL;
			t.measured_by = noise.measured_by;
			c = compare(&g, &w, t);
		}
		sum->differ += !same(s, set, &got[o], &c);
		if (c.noise_may_tell && noise.why_not)
			printf("  note: the noise could not be measured: %s\n", noise.why_not);
	}
}

/* Runs SET, which DIR is, and compares; false where it could not be run. */
static bool run_set(Session *s, const char *dir, const char *set, Tolerance t, bool measures,
		    Tally *sum)
{
	Array *in = NEW_ARRAY(s->arena, s->desc->n_in + 1, Array), *want;
	dl_form *form = NEW_ARRAY(s->arena, s->desc->n_out + 1, dl_form);
	int n;

	for (int32_t o = 0; o < s->desc->n_out; o++)
		form[o] = (dl_form)session_out(s, o)->form;
	n = data_read(s->arena, s->diag, dir, "output", form, s->desc->n_out, &want);
	if (n < 0 || !inputs(s, dir, in))
		return false;
	if (session_run(s, in)) {
		printf("%s: FAIL: %s\n", session_shown(s, set),
		       session_shown(s, s->api->error(s->context)));
		return false;
	}
	compare_set(s, set, in, session_copy_outputs(s), want, n, t, measures, sum);
	return true;
}

/* One line for all; true: nothing is wrong. */
static bool summary(const Session *s, const char *dir, const Tally *t)
{
	printf("%s: %d data set%s, %d output%s compared", session_shown(s, dir), t->sets,
	       t->sets == 1 ? "" : "s", t->outputs, t->outputs == 1 ? "" : "s");
	if (t->alone)
		printf(", %d without a reference", t->alone);
	if (t->failed)
		printf(", %d data set%s not run", t->failed, t->failed == 1 ? "" : "s");
	if (t->differ)
		printf(", %d differ%s", t->differ, t->differ == 1 ? "s" : "");
	puts(t->failed || t->differ ? ": FAIL" : ": ok");
	return !t->failed && !t->differ;
}

static int by_number(const struct dirent **a, const struct dirent **b)
{
	return strverscmp((*a)->d_name, (*b)->d_name);
}

static int is_set(const struct dirent *e)
{
	return !strncmp(e->d_name, "test_data_set_", 14);
}

/* The tolerance of data set K of DIR. */
static Tolerance tolerance(const Session *s, DataOptions o, const char *dir, int k)
{
	return (Tolerance){.rtol = o.rtol,
			   .atol = o.atol,
			   .noise = o.noise >= 0 ? o.noise : data_noise(s->arena, dir, k),
			   .noise_from = o.noise >= 0 ? "given" : "stated by case.json",
			   .inside = session_inside(s)};
}

bool session_data(Session *s, const char *dir, DataOptions o)
{
	struct dirent **set;
	const int n = scandir(dir, &set, is_set, by_number);
	const bool measures = o.noise < 0;
	Tally sum = {.sets = 0};

	if (n < 0)
		return diag_error(s->diag, (DiagLoc){.file = dir}, "not a folder");
	for (int i = 0; i < n; i++) {
		const char *name = set[i]->d_name;

		sum.sets++;
		sum.failed += !run_set(s, arena_printf(s->arena, "%s/%s", dir, name), name,
				       tolerance(s, o, dir, atoi(name + 14)), measures, &sum);
		free(set[i]);
	}
	free(set);
	if (n)
		return summary(s, dir, &sum);
	if (access(arena_printf(s->arena, "%s/output_0.pb", dir), R_OK))
		return diag_error(s->diag, (DiagLoc){.file = dir},
				  "no test_data_set_K and no output_0.pb in it");
	sum.sets++;
	sum.failed += !run_set(s, dir, dir,
			       tolerance(s, o, arena_printf(s->arena, "%s/..", dir), 0), measures,
			       &sum);
	return summary(s, dir, &sum);
}
