/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX's data sets: test_data_set_K/{input,output}_N.pb. Files go to inputs and outputs by the name
 * in them, and by number where they have none. The noise of the reference is case.json's list
 * "noise", a number per data set, where that file is there.
 */
#include "tools/dlrun/datasets.h"

#include "tools/dlrun/compare.h"
#include "tools/dlrun/session.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

double data_noise(Arena *a, const char *dir, int k)
{
	FILE *f = fopen(arena_printf(a, "%s/case.json", dir), "r");
	char *text = arena_alloc(a, 1 << 16), *p;
	double largest = 0;

	if (!f)
		return 0;
	text[fread(text, 1, (1 << 16) - 1, f)] = '\0';
	fclose(f);
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

int data_read(Arena *a, Diag *d, const char *dir, const char *what, Array **arrays)
{
	int n = 0;

	while (!access(arena_printf(a, "%s/%s_%d.pb", dir, what, n), R_OK))
		n++;
	*arrays = NEW_ARRAY(a, n + 1, Array);
	for (int i = 0; i < n; i++)
		if (!array_read(a, d, arena_printf(a, "%s/%s_%d.pb", dir, what, i), &(*arrays)[i]))
			return -1;
	return n;
}

const Array *data_pick(const Array *arrays, int n, const char *name, int i)
{
	for (int k = 0; k < n; k++)
		if (!strcmp(arrays[k].name, name))
			return &arrays[k];
	return i < n ? &arrays[i] : NULL;
}

static bool by_names(const char *const *names, int n_in, const Array *arrays, int n)
{
	for (int k = 0; k < n; k++)
		for (int i = 0; i < n_in; i++)
			if (!strcmp(arrays[k].name, names[i]))
				return true;
	return false;
}

bool data_inputs(Arena *a, Diag *d, const char *dir, const char *const *names, int n_in, Array *in,
		 const Array *otherwise)
{
	Array *arrays;
	const int n = data_read(a, d, dir, "input", &arrays);

	for (int i = 0; n >= 0 && i < n_in; i++) {
		const Array *v = data_pick(arrays, n, names[i], i);

		if (v && by_names(names, n_in, arrays, n) && v->name[0] &&
		    strcmp(v->name, names[i]))
			v = NULL;
		if (!v && otherwise && otherwise[i].name)
			v = &otherwise[i];
		if (!v)
			return diag_error(d, (DiagLoc){.file = dir}, "no data for input \"%s\"",
					  names[i]);
		in[i] = *v;
	}
	return n >= 0;
}

static bool inputs(Session *s, const char *dir, Array *in)
{
	const char **names = NEW_ARRAY(s->arena, s->desc->n_in + 1, const char *);
	Array *otherwise = NEW_ARRAY(s->arena, s->desc->n_in + 1, Array);

	for (int32_t i = 0; i < s->desc->n_in; i++) {
		names[i] = session_in(s, i)->name;
		session_default(s, i, &otherwise[i]);
	}
	return data_inputs(s->arena, s->diag, dir, names, s->desc->n_in, in, otherwise);
}

static bool same(const Session *s, const char *set, const Array *got, const Array *want,
		 Tolerance t)
{
	const Comparison c = compare(got, want, t);

	printf("%s: %s: max abs %.3g, max rel %.3g: %s%s%s\n", set, session_shown(s, got->name),
	       c.max_abs, c.max_rel, c.ok ? "ok" : "FAIL", c.ok ? "" : ": ", c.why);
	return c.ok;
}

/* What came of data sets. */
typedef struct Tally {
	int sets, failed;           /* of which could not be run */
	int outputs, differ, alone; /* compared; of which differ; without a reference */
} Tally;

/* Runs SET, which DIR is, and compares; false where it could not be run. */
static bool run_set(Session *s, const char *dir, const char *set, Tolerance t, Tally *sum)
{
	Array *in = NEW_ARRAY(s->arena, s->desc->n_in + 1, Array), *want;
	const int n = data_read(s->arena, s->diag, dir, "output", &want);

	if (n < 0 || !inputs(s, dir, in))
		return false;
	if (session_run(s, in)) {
		printf("%s: FAIL: %s\n", set, s->api->error(s->context));
		return false;
	}
	for (int32_t o = 0; o < s->desc->n_out; o++) {
		const Array got = session_output(s, o), *w = data_pick(want, n, got.name, o);

		if (!w)
			printf("%s: %s: no reference\n", set, session_shown(s, got.name));
		sum->alone += !w;
		sum->outputs += w != NULL;
		sum->differ += w && !same(s, set, &got, w, t);
	}
	return true;
}

/* One line for all; true: nothing is wrong. */
static bool summary(const char *dir, const Tally *t)
{
	printf("%s: %d data set%s, %d output%s compared", dir, t->sets, t->sets == 1 ? "" : "s",
	       t->outputs, t->outputs == 1 ? "" : "s");
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

bool session_data(Session *s, const char *dir, DataOptions o)
{
	struct dirent **set;
	const int n = scandir(dir, &set, is_set, by_number);
	Tolerance t = {o.rtol, o.atol, 0};
	Tally sum = {.sets = 0};

	if (n < 0)
		return diag_error(s->diag, (DiagLoc){.file = dir}, "not a folder");
	for (int i = 0; i < n; i++) {
		const char *name = set[i]->d_name;

		t.noise = data_noise(s->arena, dir, atoi(name + 14));
		sum.sets++;
		sum.failed += !run_set(s, arena_printf(s->arena, "%s/%s", dir, name), name, t,
				       &sum);
		free(set[i]);
	}
	free(set);
	if (n)
		return summary(dir, &sum);
	if (access(arena_printf(s->arena, "%s/output_0.pb", dir), R_OK))
		return diag_error(s->diag, (DiagLoc){.file = dir},
				  "no test_data_set_K and no output_0.pb in it");
	t.noise = data_noise(s->arena, arena_printf(s->arena, "%s/..", dir), 0);
	sum.sets++;
	sum.failed += !run_set(s, dir, dir, t, &sum);
	return summary(dir, &sum);
}
