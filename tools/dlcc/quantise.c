/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses how layers are quantised. For each activation the probe measures two ranges, that of all
 * elements and that with the least squared error, smoothed and not; the one with the smallest error
 * of the results is chosen. Then each layer is measured by itself. With a budget (--max-error) the
 * layers with the most error per multiply-add remain in floats: as few as the error of all others
 * together allows, which is measured, not added up.
 */
#include "tools/dlcc/quantise.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	RANGES = 2, /* of each form: all elements, and the least squares */
	CANDIDATES = FORMS * RANGES
};

/* A smoothed activation takes a product more, so it has to have clearly less error. */
static const double SMOOTH_GAIN = 0.8;

typedef struct LayerCost {
	double error; /* error of the results if only this layer is quantised */
	double tried
		[CANDIDATES]; /* by candidate, with only its activation's layers; 0: not tried */
	double work;          /* multiply-adds on the first sample */
	int candidate;        /* its activation's form and range */
	bool named;           /* by --keep */
	bool keep;
} LayerCost;

typedef struct Planner {
	Calibration x;
	LayerCost *layer;
	ByteScale *scale;   /* by activation */
	int *order;         /* layers; those that remain in floats come first */
	double work, error; /* of all layers; of the plan */
} Planner;

static const char *name_of(const QuantLayer *l)
{
	const char *name = node_loc(l->node).node;

	return name ? name : op_row[l->node->op].name;
}

/* ---- Work ---- */

/* The elements of V at the sizes SYM; 0: not known. */
static double elements(const Value *v, const int64_t *sym)
{
	double n = 1;

	for (int d = 0; d < v->type->rank; d++) {
		int64_t size;

		n *= dim_eval(v->type->dims[d], sym, &size) && size > 0 ? (double)size : 0;
	}
	return n;
}

static void count_work(Planner *p)
{
	const Calibration *x = &p->x;
	int64_t *sym = NEW_ARRAY(x->a, sym_count(x->m->ctx) + 1, int64_t), dims[MAX_RANK];

	for (int i = 0; i < x->probe.inputs; i++) {
		const Type *t = x->m->graph->inputs.at[i]->type;

		for (int d = 0; d < t->rank; d++)
			if (dim_as_sym(t->dims[d]))
				sym[dim_as_sym(t->dims[d])->id] = x->samples.at[0][i].dims[d];
	}
	for (int l = 0; l < x->layers.n; l++) {
		const QuantLayer *layer = &x->layers.at[l];
		double terms = 1;

		type_static(layer->w->type, dims);
		for (int d = 0; d < layer->w->type->rank; d++)
			terms *= d == layer->axes.channels ? 1 : (double)dims[d];
		p->layer[l].work = elements(layer->node->out[0], sym) * terms;
		p->work += p->layer[l].work;
	}
}

/* ---- Errors ---- */

static void set_range(Planner *p, int activation, ByteScale s)
{
	float *r = &p->x.ranges[3 * activation];

	p->scale[activation] = s;
	r[0] = s.scale;
	r[1] = (float)-s.zero;
	r[2] = (float)(QUANT_U8_MAX - s.zero);
}

/* Switches on the layers of one activation; below 0: all. */
static void switch_on(Planner *p, int activation)
{
	for (int l = 0; l < p->x.layers.n; l++)
		p->x.on[l] = activation < 0 || p->x.layers.at[l].activation == activation;
}

/* Activation K goes through bytes as candidate C says: its form, and its range. */
static void set_candidate(Planner *p, int k, int c)
{
	const ValueRange *r = &p->x.range[k].form[c / RANGES];

	calibration_set_form(&p->x, k, (Smoothing)(c / RANGES));
	set_range(p, k, c % RANGES ? range_least_squares(r) : range_all(r));
}

static void choose_candidate(Planner *p, int k, int c)
{
	set_candidate(p, k, c);
	for (int l = 0; l < p->x.layers.n; l++)
		if (p->x.layers.at[l].activation == k) {
			p->layer[l].candidate = c;
			p->layer[l].error = p->layer[l].tried[c];
		}
}

/* Takes the candidate with the smallest error of the results. */
static bool choose_range(Planner *p, int k)
{
	const int n = p->x.range[k].smooths ? CANDIDATES : RANGES;
	double least = INFINITY;
	int best = 0;

	switch_on(p, k);
	for (int c = 0; c < n; c++) {
		double error;

		set_candidate(p, k, c);
		error = calibration_error(&p->x);
		if (error < 0)
			return false;
		for (int l = 0; l < p->x.layers.n; l++)
			if (p->x.layers.at[l].activation == k)
				p->layer[l].tried[c] = error;
		if (error < least * (c / RANGES > best / RANGES ? SMOOTH_GAIN : 1)) {
			least = error;
			best = c;
		}
	}
	choose_candidate(p, k, best);
	return true;
}

/* Errors of layers may add up or cancel. If one candidate for all activations has less error than
 * the best candidates of each, all get it. */
static bool choose_together(Planner *p)
{
	const int n = p->x.probe.activations;
	int *best = NEW_ARRAY(p->x.a, n + 1, int);
	double least;

	for (int l = 0; l < p->x.layers.n; l++)
		best[p->x.layers.at[l].activation] = p->layer[l].candidate;
	switch_on(p, -1);
	least = calibration_error(&p->x);
	for (int c = 0; c < CANDIDATES && least >= 0; c++) {
		double error;

		for (int k = 0; k < n; k++)
			set_candidate(p, k, p->x.range[k].smooths ? c : c % RANGES);
		error = calibration_error(&p->x);
		if (error >= 0 && error >= least * (c / RANGES ? SMOOTH_GAIN : 1))
			continue;
		least = error;
		for (int k = 0; k < n; k++)
			best[k] = p->x.range[k].smooths ? c : c % RANGES;
	}
	for (int k = 0; k < n; k++)
		choose_candidate(p, k, best[k]);
	return least >= 0;
}

static bool measure_layers(Planner *p)
{
	int *readers = NEW_ARRAY(p->x.a, p->x.probe.activations + 1, int);

	for (int i = 0; i < p->x.probe.activations; i++)
		if (!choose_range(p, i))
			return false;
	if (!choose_together(p))
		return false;
	for (int l = 0; l < p->x.layers.n; l++)
		readers[p->x.layers.at[l].activation]++;
	for (int l = 0; l < p->x.layers.n; l++) {
		if (readers[p->x.layers.at[l].activation] == 1)
			continue;
		memset(p->x.on, 0, (size_t)p->x.layers.n * sizeof *p->x.on);
		p->x.on[l] = 1;
		show_progress(p->x.c, "calibrating: the error of layer %d of %d", l + 1, p->x.layers.n);
		p->layer[l].error = calibration_error(&p->x);
		if (p->layer[l].error < 0)
			return false;
	}
	return true;
}

/* ---- The budget ---- */

/* Squares of errors add up. */
static double error_for_work(const LayerCost *l)
{
	return l->error * l->error / fmax(l->work, 1);
}

static int worst_first(const void *a, const void *b, void *arg)
{
	const LayerCost *layer = arg, *x = &layer[*(const int *)a], *y = &layer[*(const int *)b];
	const double ex = error_for_work(x), ey = error_for_work(y);

	if (x->named != y->named)
		return x->named ? -1 : 1;
	return ex > ey ? -1 : ex < ey ? 1 : *(const int *)a - *(const int *)b;
}

/* The error with the first KEEP layers of the order in floats. */
static double error_without(Planner *p, int keep)
{
	for (int i = 0; i < p->x.layers.n; i++)
		p->x.on[p->order[i]] = i >= keep;
	return calibration_error(&p->x);
}

/* Keeps as few layers as the budget allows, and no fewer than --keep names. */
static bool keep_layers(Planner *p)
{
	int lo = 0, hi = p->x.layers.n;

	for (int i = 0; i < p->x.layers.n; i++)
		p->order[i] = i;
	qsort_r(p->order, (size_t)p->x.layers.n, sizeof *p->order, worst_first, p->layer);
	while (lo < hi && p->layer[p->order[lo]].named)
		lo++;
	p->error = error_without(p, lo);
	if (p->error < 0)
		return false;
	if (p->x.c->max_error >= 0 && p->error > p->x.c->max_error) {
		/* LO layers are too few, HI are enough. */
		while (hi - lo > 1) {
			const int middle = (lo + hi) / 2;
			const double e = error_without(p, middle);

			if (e < 0)
				return false;
			*(e <= p->x.c->max_error ? &hi : &lo) = middle;
		}
		lo = hi;
		p->error = error_without(p, lo);
	}
	for (int i = 0; i < lo; i++)
		p->layer[p->order[i]].keep = true;
	return p->error >= 0;
}

/* ---- The plan ---- */

static Tensor *weights_in_bytes(const Planner *p, int l)
{
	const QuantLayer *layer = &p->x.layers.at[l];
	Arena *tmp = arena_new();
	const float *from = calibration_weights(&p->x, tmp, l), *scale = p->x.scales[l];
	const int64_t inner = weights_after(layer, layer->axes.channels);
	int64_t dims[MAX_RANK], n;
	Tensor *t;
	int8_t *to;

	type_static(layer->w->type, dims);
	t = tensor_new(p->x.a, DT_I8, layer->w->type->rank, dims);
	to = (int8_t *)(uintptr_t)t->data;
	n = tensor_numel(t);
	for (int64_t i = 0; i < n; i++) {
		const float q = rintf(from[i] / scale[i / inner % dims[layer->axes.channels]]);

		to[i] = (int8_t)fmaxf(-QUANT_I8_MAX, fminf(QUANT_I8_MAX, q));
	}
	arena_free(tmp);
	return t;
}

/* The factors of layer L's activation, which broadcast to it. */
static Tensor *factors_of(const Planner *p, int l)
{
	const QuantLayer *layer = &p->x.layers.at[l];
	int64_t dims[MAX_RANK];
	Tensor *t;

	for (int d = 0; d < layer->x->type->rank; d++)
		dims[d] = d == layer->axes.of ? quantise_channels(layer) : 1;
	t = tensor_new(p->x.a, DT_F32, layer->x->type->rank, dims);
	memcpy((void *)(uintptr_t)t->data, p->x.smooth[layer->activation], (size_t)t->bytes);
	return t;
}

static const QuantPlan *make_plan(const Planner *p)
{
	const Calibration *x = &p->x;
	QuantChoice *choice = NEW_ARRAY(x->a, x->layers.n + 1, QuantChoice);
	QuantPlan *plan = NEW(x->a, QuantPlan);
	int n = 0;

	for (int l = 0; l < x->layers.n; l++) {
		const QuantLayer *layer = &x->layers.at[l];
		const ByteScale s = p->scale[layer->activation];
		int64_t dims[MAX_RANK];
		Tensor *scales;

		if (p->layer[l].keep)
			continue;
		type_static(layer->w->type, dims);
		scales = tensor_new(x->a, DT_F32, 1, &dims[layer->axes.channels]);
		memcpy((void *)(uintptr_t)scales->data, x->scales[l], (size_t)scales->bytes);
		choice[n++] = (QuantChoice){
			.node = layer->node->id,
			.name = name_of(layer),
			.scale = s.scale,
			.zero = (uint8_t)s.zero,
			.weights = weights_in_bytes(p, l),
			.scales = scales,
			.smooth = p->layer[l].candidate >= RANGES ? factors_of(p, l) : NULL};
	}
	*plan = (QuantPlan){.layer = choice, .n = n, .operators = str_ends(x->c->output, ".onnx")};
	return plan;
}

/* ---- The table ---- */

static void print_table(const Planner *p)
{
	static const char *const range_name[] = {"all", "squares", "smooth", "smooth squares"};
	double kept = 0;
	int n = 0;

	printf("%10s %8s  %-6s %-14s  %s\n", "error", "share", "type", "range", "layer");
	for (int l = 0; l < p->x.layers.n; l++) {
		const LayerCost *c = &p->layer[l];
		const ByteScale s = p->scale[p->x.layers.at[l].activation];
		const char *type = !c->keep ? "int8" : "f32";

		n += c->keep;
		kept += c->keep ? c->work : 0;
		printf("%10.2e %7.2f%%  %-6s %-14s  ", c->error, 100 * c->work / fmax(p->work, 1),
		       type, range_name[c->candidate]);
		escape_to_file(stdout, name_of(&p->x.layers.at[l]), escape_terminal);
		printf(" (%s), input %.4g to %.4g%s\n", op_row[p->x.layers.at[l].node->op].name,
		       -s.zero * (double)s.scale, (QUANT_U8_MAX - s.zero) * (double)s.scale,
		       c->named  ? ": in floats by --keep"
		       : c->keep ? ": in floats by the budget"
				 : "");
	}
	printf("int8: %d of %d layers, with %.2f%% of their multiply-adds; the results' error on %d samples: %.3g\n",
	       p->x.layers.n - n, p->x.layers.n, 100 * (1 - kept / fmax(p->work, 1)),
	       p->x.samples.n, p->error);
}

/* ---- All of it ---- */

/* Marks the layers that --keep names; each name has one. */
static bool find_named(Planner *p)
{
	const Cli *c = p->x.c;
	bool *named = NEW_ARRAY(p->x.a, p->x.layers.n + 1, bool);

	p->x.named = named;
	for (int k = 0; k < c->nkeep; k++) {
		bool found = false;

		for (int l = 0; l < p->x.layers.n; l++) {
			const LocList all = locs_all(p->x.a, p->x.layers.at[l].node->locs);

			for (int i = 0; i < all.n; i++)
				if (all.at[i].node && !strcmp(all.at[i].node, c->keep[k]))
					p->layer[l].named = named[l] = found = true;
		}
		if (!found)
			return diag_error(
				&p->x.c->diag, (DiagLoc){.file = c->input},
				"--keep=%s: no layer that could be quantised is called so; the table without it names all",
				c->keep[k]);
	}
	return true;
}

static bool plan_in_folder(Planner *p, const PackageOpts *o, const char *folder)
{
	p->layer = NEW_ARRAY(p->x.a, p->x.layers.n + 1, LayerCost);
	p->order = NEW_ARRAY(p->x.a, p->x.layers.n + 1, int);
	if (!find_named(p) || !calibrate(&p->x, o, folder))
		return false;
	p->scale = NEW_ARRAY(p->x.a, p->x.probe.activations + 1, ByteScale);
	count_work(p);
	return measure_layers(p) && keep_layers(p);
}

const QuantPlan *quantise_plan(Cli *c, Module *m, const PackageOpts *o, Arena *a)
{
	Planner p = {.x = {.c = c, .m = m, .a = a, .layers = quantise_layers(m, a)}};
	const char *folder;
	bool ok;

	if (!p.x.layers.n) {
		diag_error(&c->diag, (DiagLoc){.file = c->input},
			   "--int8: the model has no product of an input by weights in f32");
		return NULL;
	}
	folder = package_make_folder(a, &c->diag, c->output);
	ok = folder && plan_in_folder(&p, o, folder);
	if (p.x.s.library)
		session_close(&p.x.s);
	package_remove_folder();
	if (ok)
		print_table(&p);
	return ok ? make_plan(&p) : NULL;
}
