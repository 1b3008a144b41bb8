/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses how layers are quantised. Of each activation the probe measures two ranges, all of its
 * elements and that of the least squares, and takes the one with the smaller error of the results; then
 * it measures each layer alone. With a budget (--max-error) the layers with the most error for the
 * multiply-adds that they have stay in floats: as few as the error of all others together allows, which
 * is measured, not added up.
 */
#include "tools/dlcc/quantise.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct LayerCost {
	double error; /* of the results, with this layer alone quantised */
	double work;  /* multiply-adds on the first sample */
	bool least_squares; /* its activation's range */
	bool named;   /* by --keep */
	bool keep;
} LayerCost;

typedef struct Planner {
	Calibration x;
	LayerCost *layer;
	ByteScale *scale; /* by activation */
	int *order;       /* layers, those that are kept first at the front */
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
			terms *= d == layer->axis ? 1 : (double)dims[d];
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

static bool choose_range(Planner *p, int activation)
{
	const ByteScale s[2] = {range_all(&p->x.range[activation]),
				range_least_squares(&p->x.range[activation])};
	double error[2];

	switch_on(p, activation);
	for (int k = 0; k < 2; k++) {
		set_range(p, activation, s[k]);
		error[k] = k && s[1].scale == s[0].scale && s[1].zero == s[0].zero
				   ? error[0]
				   : calibration_error(&p->x);
		if (error[k] < 0)
			return false;
	}
	if (error[0] <= error[1])
		set_range(p, activation, s[0]);
	for (int l = 0; l < p->x.layers.n; l++)
		if (p->x.layers.at[l].activation == activation) {
			p->layer[l].least_squares = error[1] < error[0];
			p->layer[l].error = fmin(error[0], error[1]);
		}
	return true;
}

static bool measure_layers(Planner *p)
{
	int *readers = NEW_ARRAY(p->x.a, p->x.probe.activations + 1, int);

	for (int i = 0; i < p->x.probe.activations; i++)
		if (!choose_range(p, i))
			return false;
	for (int l = 0; l < p->x.layers.n; l++)
		readers[p->x.layers.at[l].activation]++;
	for (int l = 0; l < p->x.layers.n; l++) {
		if (readers[p->x.layers.at[l].activation] == 1)
			continue;
		memset(p->x.on, 0, (size_t)p->x.layers.n * sizeof *p->x.on);
		p->x.on[l] = 1;
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
	const float *from = p->x.weights[l], *scale = p->x.scales[l];
	int64_t dims[MAX_RANK], inner = 1, n;
	Tensor *t;
	int8_t *to;

	type_static(layer->w->type, dims);
	for (int d = layer->axis + 1; d < layer->w->type->rank; d++)
		inner *= dims[d];
	t = tensor_new(p->x.a, DT_I8, layer->w->type->rank, dims);
	to = (int8_t *)(uintptr_t)t->data;
	n = tensor_numel(t);
	for (int64_t i = 0; i < n; i++) {
		const float q = rintf(from[i] / scale[i / inner % dims[layer->axis]]);

		to[i] = (int8_t)fmaxf(-QUANT_I8_MAX, fminf(QUANT_I8_MAX, q));
	}
	return t;
}

static const QuantPlan *make_plan(const Planner *p)
{
	const Calibration *x = &p->x;
	QuantChoice *choice = NEW_ARRAY(x->a, x->layers.n + 1, QuantChoice);
	QuantPlan *plan = NEW(x->a, QuantPlan);

	for (int l = 0; l < x->layers.n; l++) {
		const ByteScale s = p->scale[x->layers.at[l].activation];
		int64_t dims[MAX_RANK];
		Tensor *scales;

		choice[l].keep = p->layer[l].keep;
		if (choice[l].keep)
			continue;
		type_static(x->layers.at[l].w->type, dims);
		scales = tensor_new(x->a, DT_F32, 1, &dims[x->layers.at[l].axis]);
		memcpy((void *)(uintptr_t)scales->data, x->scales[l], (size_t)scales->bytes);
		choice[l].scale = s.scale;
		choice[l].zero = (uint8_t)s.zero;
		choice[l].weights = weights_in_bytes(p, l);
		choice[l].scales = scales;
	}
	*plan = (QuantPlan){.layer = choice,
			    .n = x->layers.n,
			    .operators = str_ends(x->c->output, ".onnx")};
	return plan;
}

/* ---- The table ---- */

static void print_table(const Planner *p)
{
	double kept = 0;
	int n = 0;

	printf("%10s %8s  %-6s %-9s  %s\n", "error", "share", "type", "range", "layer");
	for (int l = 0; l < p->x.layers.n; l++) {
		const LayerCost *c = &p->layer[l];
		const ByteScale s = p->scale[p->x.layers.at[l].activation];
		const char *type = !c->keep ? "int8" : "f32";

		n += c->keep;
		kept += c->keep ? c->work : 0;
		printf("%10.2e %7.2f%%  %-6s %-9s  ", c->error, 100 * c->work / fmax(p->work, 1),
		       type, c->least_squares ? "squares" : "all");
		escape_to_file(stdout, name_of(&p->x.layers.at[l]), escape_terminal);
		printf(" (%s), input %.4g to %.4g%s\n", op_row[p->x.layers.at[l].node->op].name,
		       -s.zero * (double)s.scale, (QUANT_U8_MAX - s.zero) * (double)s.scale,
		       c->named	 ? ": kept by --keep"
		       : c->keep ? ": kept by the budget"
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

	for (int k = 0; k < c->nkeep; k++) {
		bool found = false;

		for (int l = 0; l < p->x.layers.n; l++) {
			const LocList all = locs_all(p->x.a, p->x.layers.at[l].node->locs);

			for (int i = 0; i < all.n; i++)
				if (all.at[i].node && !strcmp(all.at[i].node, c->keep[k]))
					p->layer[l].named = found = true;
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
