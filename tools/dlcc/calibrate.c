/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the probe of a model (passes/graph/quantise_probe.c) on the samples: once for the largest and
 * least elements of each activation, once to count them, and then for the errors of sets of layers. It
 * is compiled for the processor at hand, whatever the model's target, and its outputs are borrowed until
 * the next run.
 */
#include "tools/dlcc/quantise.h"

#include "codegen/targets.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MOST_ERROR_SAMPLES = 16 /* samples by which errors are told, at most */ };

static bool compile_probe(Calibration *x, const PackageOpts *o, const char *path)
{
	PackageOpts probe = {.output = path,
			     .name = "probe",
			     .cc = o->cc,
			     .version = o->version,
			     .level = o->level,
			     .jobs = o->jobs,
			     .verbose = o->verbose};
	bool ok = true, on = false;

	x->m->ntargets = 1;
	x->m->target[0] = target_by_name("native");
	for (const Pass *p = pass_table; p->name && ok; p++) {
		ok = !on || pass_run(p, x->m);
		on = on || !strcmp(p->name, "quantise");
	}
	return ok && package(x->m, &probe);
}

/* ---- Inputs ---- */

static float *add_input(Calibration *x, Array *in, int i)
{
	const dl_io *io = session_in(&x->s, i);

	in[i] = array_make(io->name, DT_F32, io->rank, NEW_ARRAY(x->a, io->rank + 1, int64_t), NULL);
	for (int32_t d = 0; d < io->rank; d++)
		in[i].dims[d] = dl_io_dim(io, d)->value;
	in[i].data = NEW_ARRAY(x->a, array_count(&in[i]) + 1, float);
	return in[i].data;
}

/* Adds the probe's further inputs to all samples. Nothing is on, and no scale is 0. */
static void add_inputs(Calibration *x)
{
	Array *first = x->samples.at[0];
	int i = x->probe.inputs;

	x->on = add_input(x, first, i++);
	x->ranges = add_input(x, first, i++);
	x->scales = NEW_ARRAY(x->a, x->layers.n + 1, float *);
	for (int k = 0; k < 3 * x->probe.activations; k++)
		x->ranges[k] = 1;
	for (int l = 0; l < x->layers.n; l++) {
		x->scales[l] = add_input(x, first, i);
		for (int64_t k = 0, n = array_count(&first[i]); k < n; k++)
			x->scales[l][k] = 1;
		i++;
	}
	for (int k = 1; k < x->samples.n; k++)
		memcpy(x->samples.at[k] + x->probe.inputs, first + x->probe.inputs,
		       (size_t)(i - x->probe.inputs) * sizeof *first);
}

static bool run(Calibration *x, int sample)
{
	const int rc = session_run(&x->s, x->samples.at[sample]);

	return !rc || session_fail(&x->s, "run", rc);
}

/* ---- Values ---- */

static Array *copy_results(Calibration *x)
{
	Array *all = NEW_ARRAY(x->a, x->probe.results + 1, Array);

	for (int o = 0; o < x->probe.results; o++) {
		const Array v = session_output(&x->s, o);

		all[o] = array_copy(x->a, &v);
	}
	return all;
}

static void keep_weights(Calibration *x)
{
	x->weights = NEW_ARRAY(x->a, x->layers.n + 1, const float *);
	for (int l = 0; l < x->layers.n; l++) {
		const Tensor *t = value_const(x->layers.at[l].w);
		const int o = x->probe.weights[l];
		const Array v = o < 0 ? (Array){0} : session_output(&x->s, o);

		/* The elements of a file may be unaligned. */
		x->weights[l] = o < 0 ? arena_copy(x->a, t->data, (size_t)t->bytes)
				      : arena_copy(x->a, v.data, (size_t)array_bytes(&v));
	}
}

/* An activation that a sample makes infinite has no range. */
static bool is_finite(Calibration *x, int activation, const Array *v)
{
	for (int64_t i = 0, n = array_count(v); i < n; i++)
		if (!isfinite(((const float *)v->data)[i])) {
			int l = 0;

			while (x->layers.at[l].activation != activation)
				l++;
			return diag_error(
				&x->c->diag, node_diag(x->layers.at[l].node),
				"its input is infinite or no number on a sample; give --keep for it");
		}
	return true;
}

/* Runs all samples; COUNT: the ranges are known, and elements are counted. */
static bool run_samples(Calibration *x, bool count)
{
	for (int i = 0; i < x->samples.n; i++) {
		if (!run(x, i))
			return false;
		for (int k = 0; k < x->probe.activations; k++) {
			const Array v = session_output(&x->s, x->probe.results + k);

			if (!count && !is_finite(x, k, &v))
				return false;
			(count ? range_count : range_widen)(&x->range[k], v.data, array_count(&v));
		}
		if (!count && !i)
			keep_weights(x);
		if (!count)
			x->reference[i] = copy_results(x);
	}
	return true;
}

static void choose_weights(Calibration *x)
{
	for (int l = 0; l < x->layers.n; l++) {
		const QuantLayer *layer = &x->layers.at[l];
		int64_t dims[MAX_RANK], outer = 1, inner = 1, channels;

		type_static(layer->w->type, dims);
		channels = dims[layer->axis];
		for (int d = 0; d < layer->w->type->rank; d++)
			*(d < layer->axis ? &outer : &inner) *= d == layer->axis ? 1 : dims[d];
		for (int64_t k = 0; k < channels; k++)
			x->scales[l][k] = scale_of_channel(x->weights[l] + k * inner, outer * inner,
							   inner, channels * inner);
	}
}

bool calibrate(Calibration *x, const PackageOpts *o, const char *folder)
{
	const dl_load_options load = {.size = sizeof load, .device = "cpu"};
	const char *path = arena_printf(x->a, "%s/probe.so", folder);

	if (!samples_read(x->a, &x->c->diag, x->c->calibrate, x->m->graph, x->layers.n + 2,
			  &x->samples))
		return false;
	x->probe = quantise_probe(x->m, x->a, &x->layers);
	if (!compile_probe(x, o, path) || !session_open(&x->s, x->a, &x->c->diag, path) ||
	    !session_load(&x->s, &load))
		return false;
	assert(x->s.desc->n_in == x->probe.inputs + 2 + x->layers.n);
	add_inputs(x);
	x->range = NEW_ARRAY(x->a, x->probe.activations + 1, ValueRange);
	x->reference = NEW_ARRAY(x->a, x->samples.n + 1, Array *);
	if (!run_samples(x, false) || !run_samples(x, true))
		return false;
	choose_weights(x);
	return true;
}

/* ---- Errors ---- */

/* Adds what GOT differs from WANT to SUMS: the squares of the differences, and of WANT. */
static void add_squares(const Array *got, const Array *want, double sums[2])
{
	const int64_t n = array_count(want);
	const bool is_float = dtype_is_float(want->dtype);

	if (want->form != DL_TENSOR || got->form != DL_TENSOR || want->dtype == DT_STR)
		return;
	if (array_count(got) != n) {
		sums[0] += (double)n;
		sums[1] += (double)n;
		return;
	}
	for (int64_t i = 0; i < n; i++) {
		const double w = is_float ? dtype_load_f64(want->dtype, want->data, i) : 1,
			     g = is_float ? dtype_load_f64(got->dtype, got->data, i)
					  : (double)(dtype_load_i64(got->dtype, got->data, i) ==
						     dtype_load_i64(want->dtype, want->data, i));

		if (isfinite(w) && isfinite(g)) {
			sums[0] += (g - w) * (g - w);
			sums[1] += w * w;
		} else if (!(w == g || (isnan(w) && isnan(g)))) {
			sums[0] = INFINITY;
		}
	}
}

double calibration_error(Calibration *x)
{
	double(*sums)[2] = arena_alloc(x->a, (size_t)(x->probe.results + 1) * sizeof *sums);
	double most = 0;
	const int n = x->samples.n < MOST_ERROR_SAMPLES ? x->samples.n : MOST_ERROR_SAMPLES;

	for (int i = 0; i < n; i++) {
		const int at = (int)((int64_t)i * x->samples.n / n);

		if (!run(x, at))
			return -1;
		for (int o = 0; o < x->probe.results; o++) {
			const Array v = session_output(&x->s, o);

			add_squares(&v, &x->reference[at][o], sums[o]);
		}
	}
	for (int o = 0; o < x->probe.results; o++)
		if (sums[o][0] > 0)
			most = fmax(most, sqrt(sums[o][0] / fmax(sums[o][1], 1e-30)));
	return most;
}
