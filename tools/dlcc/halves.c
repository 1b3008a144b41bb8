/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures what halves cost in precision (--activations-as=f16 or bf16 with --calibrate). The
 * kernels that the GPU would run are compiled for the local processor as a probe, in which each can
 * be switched at run time between f32 and rounding as in halves (passes/kernel/halves.c). So one
 * artifact gives the error of the results for any set of kernels. With a budget (--max-error) each
 * kernel is measured by itself, and as few as possible stay in f32, those with the largest errors
 * first: the error of all others together is measured, not added up.
 */
#include "tools/dlcc/quantise.h"

#include <stdlib.h>
#include <string.h>

typedef struct HalvesPlan {
	Calibration x;
	HalvesProbe probe;
	double *error; /* by unit: of the results if it is the only one that rounds */
	int *order;    /* units; the first ones stay in f32 */
} HalvesPlan;

/* The GPU's kernels, to be compiled for the local processor: without `place`, which gives work to a
 * host. */
static bool make_probe(HalvesPlan *p, const Target *gpu, const PackageOpts *o, const char *path)
{
	Module *m = p->x.m;

	m->opt.halves_probe = &p->probe;
	m->opt.weight_type = DT_NONE; /* the probe rounds weights */
	m->target[0] = gpu;
	m->ntargets = 1;
	return passes_run(m, PASS_lower, PASS_place - 1, NULL) &&
	       passes_run(m, PASS_place + 1, PASS_forms - 1, NULL) &&
	       calibration_compile(m, o, path, PASS_forms);
}

/* The error with the first KEEP units of the order in f32. */
static double error_without(HalvesPlan *p, int keep)
{
	for (int i = 0; i < p->probe.n; i++)
		p->x.on[p->order[i]] = i >= keep;
	return calibration_error(&p->x);
}

static int largest_first(const void *a, const void *b, void *arg)
{
	const double *error = arg, x = error[*(const int *)a], y = error[*(const int *)b];

	return x > y ? -1 : x < y ? 1 : *(const int *)a - *(const int *)b;
}

/* Measures each unit by itself, and orders them. */
static bool measure_units(HalvesPlan *p)
{
	for (int u = 0; u < p->probe.n; u++) {
		memset(p->x.on, 0, (size_t)p->probe.n * sizeof *p->x.on);
		p->x.on[u] = 1;
		show_progress(p->x.c, "calibrating: the error of unit %d of %d", u + 1, p->probe.n);
		p->error[u] = calibration_error(&p->x);
		if (p->error[u] < 0)
			return false;
	}
	qsort_r(p->order, (size_t)p->probe.n, sizeof *p->order, largest_first, p->error);
	return true;
}

/* Finds the fewest units that have to stay in f32: *KEEP of the order. */
static bool fit_budget(HalvesPlan *p, int *keep, double *error)
{
	const double most = p->x.c->max_error;
	int lo = 0, hi = p->probe.n;

	*keep = 0;
	*error = error_without(p, 0);
	if (*error < 0 || most < 0 || *error <= most)
		return *error >= 0;
	if (!measure_units(p))
		return false;
	while (hi - lo > 1) {
		const int middle = (lo + hi) / 2;
		const double e = error_without(p, middle);

		if (e < 0)
			return false;
		*(e <= most ? &hi : &lo) = middle;
	}
	*keep = hi;
	*error = error_without(p, hi);
	return *error >= 0;
}

/* Adds the nodes of the first KEEP units of the order to the names of --keep, and prints them. */
static void keep_units(HalvesPlan *p, int keep, Options *opt)
{
	Arena *a = p->x.a;
	const char **name;
	int n = opt->nweight_keep, most = n;

	for (int i = 0; i < keep; i++)
		most += locs_all(a, p->probe.locs[p->order[i]]).n;
	name = NEW_ARRAY(a, most + 1, const char *);
	for (int i = 0; i < n; i++)
		name[i] = opt->weight_keep[i];
	for (int i = 0; i < keep; i++) {
		const LocList all = locs_all(a, p->probe.locs[p->order[i]]);

		printf("%10.2e  f32 by the budget:", p->error[p->order[i]]);
		for (int j = 0; j < all.n; j++)
			if (all.at[j].node) {
				putchar(' ');
				escape_to_file(stdout, all.at[j].node, escape_terminal);
				name[n++] = all.at[j].node;
			}
		putchar('\n');
	}
	opt->weight_keep = name;
	opt->nweight_keep = n;
}

static bool plan_in_folder(HalvesPlan *p, const Target *gpu, const PackageOpts *o,
			   const char *folder, Options *opt)
{
	Calibration *x = &p->x;
	const int inputs = x->m->graph->inputs.n;
	const char *path = arena_printf(x->a, "%s/probe.so", folder);
	double error;
	int keep;

	x->probe.results = x->m->graph->results.n;
	if (!samples_read(x->a, &x->c->diag, x->c->calibrate, x->m->graph, 1, &x->samples) ||
	    !make_probe(p, gpu, o, path) || !calibrate_halves(x, path, inputs))
		return false;
	p->error = NEW_ARRAY(x->a, p->probe.n + 1, double);
	p->order = NEW_ARRAY(x->a, p->probe.n + 1, int);
	for (int u = 0; u < p->probe.n; u++)
		p->order[u] = u;
	if (!fit_budget(p, &keep, &error))
		return false;
	keep_units(p, keep, opt);
	printf("%s: %d of %d kernels; the results' error on %d samples: %.3g\n",
	       dtype_info[opt->half_activations].name, p->probe.n - keep, p->probe.n, x->samples.n,
	       error);
	return true;
}

bool halves_plan(Cli *c, Module *m, const Target *gpu, const PackageOpts *o, Options *opt)
{
	HalvesPlan p = {.x = {.c = c, .m = m, .a = m->arena},
			.probe = {.weights = c->weight_type == c->half_activations}};
	const char *folder = package_make_folder(m->arena, &c->diag, c->output);
	const bool ok = folder && plan_in_folder(&p, gpu, o, folder, opt);

	if (p.x.s.library)
		session_close(&p.x.s);
	package_remove_folder();
	return ok;
}
