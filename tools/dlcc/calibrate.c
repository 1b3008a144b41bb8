/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the probe of a model (passes/graph/quantise_probe.c) on the samples: once for the largest
 * and least elements of each activation, once to count them, and then for the errors of sets of
 * layers. It is compiled for the local processor, whatever the model's target, and its outputs are
 * borrowed until the next run.
 */
#include "tools/dlcc/quantise.h"

#include "codegen/targets.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MOST_ERROR_SAMPLES = 16 /* samples by which errors are told, at most */ };

bool calibration_compile(Module *m, const PackageOpts *o, const char *path, PassId from)
{
	PackageOpts probe = {.output = path,
			     .name = "probe",
			     .cc = o->cc,
			     .version = o->version,
			     .level = o->level,
			     .jobs = o->jobs,
			     .verbose = o->verbose};

	m->ntargets = 1;
	m->target[0] = target_by_name("native");
	/* Without `alias`: results must not share memory with inputs, and the pass would add its
	 * symbols to the model. */
	return passes_run(m, from, PASS_alias - 1, NULL) &&
	       passes_run(m, PASS_alias + 1, PASS_LAST, NULL) && package(m, &probe);
}

/* ---- Inputs ---- */

static float *add_input(Calibration *x, Array *in, int i)
{
	const dl_io *io = session_in(&x->s, i);

	in[i] = array_make(io->name, DT_F32, io->rank, NEW_ARRAY(x->a, io->rank + 1, int64_t),
			   NULL);
	for (int32_t d = 0; d < io->rank; d++)
		in[i].dims[d] = dl_io_dim(io, d)->value;
	in[i].data = NEW_ARRAY(x->a, array_count(&in[i]) + 1, float);
	return in[i].data;
}

static float *add_ones(Calibration *x, Array *in, int i)
{
	float *to = add_input(x, in, i);

	for (int64_t k = 0, n = array_count(&in[i]); k < n; k++)
		to[k] = 1;
	return to;
}

/* Adds the probe's further inputs to all samples. Nothing is on, and no scale is 0. */
static void add_inputs(Calibration *x)
{
	Array *first = x->samples.at[0];
	int i = x->probe.inputs;

	x->on = add_input(x, first, i++);
	x->ranges = add_ones(x, first, i++);
	x->scales = NEW_ARRAY(x->a, x->layers.n + 1, float *);
	x->factors = NEW_ARRAY(x->a, x->layers.n + 1, float *);
	x->smooth = NEW_ARRAY(x->a, x->probe.activations + 1, float *);
	for (int l = 0; l < x->layers.n; l++) {
		x->scales[l] = add_ones(x, first, i++);
		x->factors[l] = add_ones(x, first, i++);
	}
	for (int k = 0; k < x->probe.activations; k++)
		x->smooth[k] = add_ones(x, first, i++);
	for (int k = 1; k < x->samples.n; k++)
		memcpy(x->samples.at[k] + x->probe.inputs, first + x->probe.inputs,
		       (size_t)(i - x->probe.inputs) * sizeof *first);
}

static bool run(Calibration *x, int sample)
{
	const int rc = session_run(&x->s, x->samples.at[sample]);

	if (rc)
		show_progress(x->c, NULL);
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

/* The layer of ACTIVATION that is to be quantised, or null. */
static const QuantLayer *layer_of(const Calibration *x, int activation)
{
	for (int l = 0; l < x->layers.n; l++)
		if (x->layers.at[l].activation == activation && !x->named[l])
			return &x->layers.at[l];
	return NULL;
}

static bool layer_fault(const Calibration *x, const QuantLayer *layer, const char *what)
{
	return !layer ||
	       diag_error(&x->c->diag, node_diag(layer->node), "%s; give --keep for it", what);
}

int64_t weights_after(const QuantLayer *l, int axis)
{
	int64_t dims[MAX_RANK], n = 1;

	type_static(l->w->type, dims);
	for (int d = axis + 1; d < l->w->type->rank; d++)
		n *= dims[d];
	return n;
}

static bool are_finite(const float *v, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (!isfinite(v[i]))
			return false;
	return true;
}

/* Copies the weights of all layers; false if some that are to be quantised are infinite or no
 * numbers. */
static bool keep_weights(Calibration *x)
{
	bool ok = true;

	x->weights = NEW_ARRAY(x->a, x->layers.n + 1, const float *);
	for (int l = 0; l < x->layers.n; l++) {
		const Tensor *t = value_const(x->layers.at[l].w);
		const int o = x->probe.weights[l];
		const Array v = o < 0 ? (Array){0} : session_output(&x->s, o);

		/* The elements of a file may be unaligned. */
		x->weights[l] = o < 0 ? arena_copy(x->a, t->data, (size_t)t->bytes)
				      : arena_copy(x->a, v.data, (size_t)array_bytes(&v));
		if (ok && !x->named[l] &&
		    !are_finite(x->weights[l], weights_after(&x->layers.at[l], -1)))
			ok = layer_fault(x, &x->layers.at[l],
					 "some of its weights are infinite or no numbers");
	}
	return ok;
}

/* The elements of V after one index of R's axis. */
static int64_t inner_of(const ActivationRange *r, const Array *v)
{
	int64_t n = 1;

	for (int d = r->axis + 1; d < v->rank; d++)
		n *= v->dims[d];
	return n;
}

static void widen(ActivationRange *r, const Array *v)
{
	const int64_t inner = inner_of(r, v), n = array_count(v);
	const float *x = v->data;

	r->elements += n;
	for (int64_t i = 0; i < n; i++) {
		const int64_t c = r->channels > 1 ? i / inner % r->channels : 0;

		if (!isfinite(x[i])) /* for a layer that remains in floats */
			continue;
		r->lo[c] = fminf(r->lo[c], x[i]);
		r->hi[c] = fmaxf(r->hi[c], x[i]);
	}
}

static void count(ActivationRange *r, const Array *v)
{
	const int64_t inner = inner_of(r, v), n = array_count(v);
	const float *x = v->data;

	for (int64_t i = 0; i < n; i++) {
		if (!isfinite(x[i]))
			continue;
		range_count(&r->form[PLAIN], (double)x[i]);
		if (r->smooths)
			range_count(&r->form[SMOOTHED],
				    (double)(x[i] * r->smooth[i / inner % r->channels]));
	}
}

/* Runs all samples: for the least and the largest elements, or, COUNT, when these are known, for
 * their distribution. */
static bool run_samples(Calibration *x, bool counts)
{
	for (int i = 0; i < x->samples.n; i++) {
		show_progress(x->c, "calibrating: sample %d of %d%s", i + 1, x->samples.n,
			      counts ? ", for the distribution" : "");
		if (!run(x, i))
			return false;
		for (int k = 0; k < x->probe.activations; k++) {
			const Array v = session_output(&x->s, x->probe.results + k);

			if (!counts && !are_finite(v.data, array_count(&v)) &&
			    !layer_fault(x, layer_of(x, k),
					 "its input is infinite or no number on a sample"))
				return false;
			(counts ? count : widen)(&x->range[k], &v);
		}
		if (!counts && !i && !keep_weights(x))
			return false;
		if (!counts)
			x->reference[i] = copy_results(x);
	}
	show_progress(x->c, NULL);
	for (int k = 0; k < x->probe.activations; k++)
		if (!x->range[k].elements &&
		    !layer_fault(x, layer_of(x, k), "its input has no elements on any sample"))
			return false;
	return true;
}

static void make_ranges(Calibration *x)
{
	x->range = NEW_ARRAY(x->a, x->probe.activations + 1, ActivationRange);
	for (int l = 0; l < x->layers.n; l++) {
		ActivationRange *r = &x->range[x->layers.at[l].activation];

		r->channels = quantise_channels(&x->layers.at[l]);
		r->axis = x->layers.at[l].axes.of;
	}
	for (int k = 0; k < x->probe.activations; k++) {
		ActivationRange *r = &x->range[k];

		r->lo = NEW_ARRAY(x->a, r->channels, float);
		r->hi = NEW_ARRAY(x->a, r->channels, float);
		r->smooth = NEW_ARRAY(x->a, r->channels, float);
	}
}

/* ---- Smoothing ---- */

/* Sets MOST[c] to the largest magnitude of the weights of layer L that channel C is multiplied
 * by. */
static void largest_weights(const Calibration *x, int l, float *most)
{
	const QuantLayer *layer = &x->layers.at[l];
	const int64_t inner = weights_after(layer, layer->axes.terms),
		      channels = quantise_channels(layer), n = weights_after(layer, -1);

	for (int64_t i = 0; i < n; i++)
		most[i / inner % channels] = fmaxf(most[i / inner % channels],
						   fabsf(x->weights[l][i]));
}

/* The factor makes the channel's largest element as large as its largest weight: it is the root of
 * their quotient. If each channel of the weights has its own scale, the channel's elements become
 * as large as those of other channels. */
static void choose_factors(Calibration *x, int k)
{
	/* A channel's largest element is told by this many elements; one that is this much
	 * smaller than that of all channels counts as no smaller. On other samples it may be
	 * larger. */
	enum { LEAST_ELEMENTS = 1000, LEAST = 64 };
	ActivationRange *r = &x->range[k];
	float *w = NEW_ARRAY(x->a, r->channels, float), most_x = 0, most_w = 0;
	bool own = true;

	for (int l = 0; l < x->layers.n; l++)
		if (x->layers.at[l].activation == k && r->channels > 1) {
			const WeightsAxes *axes = &x->layers.at[l].axes;

			largest_weights(x, l, w);
			own = own && axes->terms == axes->channels;
		}
	for (int64_t c = 0; c < r->channels; c++) {
		most_x = fmaxf(most_x, fmaxf(r->hi[c], -r->lo[c]));
		most_w = fmaxf(most_w, w[c]);
	}
	r->smooths = r->channels > 1 && r->elements >= LEAST_ELEMENTS * r->channels && most_x > 0 &&
		     most_w > 0;
	for (int64_t c = 0; c < r->channels; c++) {
		const float xc = fmaxf(fmaxf(r->hi[c], -r->lo[c]), most_x / (float)LEAST),
			    wc = fmaxf(w[c], most_w / (float)LEAST);

		r->smooth[c] = 1;
		if (r->smooths)
			r->smooth[c] = own ? most_x / xc : sqrtf(wc / most_w * (most_x / xc));
		for (int f = 0; f < FORMS; f++) {
			const double by = f == PLAIN ? 1 : (double)r->smooth[c];

			r->form[f].lo = fmin(r->form[f].lo, by * (double)r->lo[c]);
			r->form[f].hi = fmax(r->form[f].hi, by * (double)r->hi[c]);
		}
	}
}

void calibration_set_form(Calibration *x, int k, Smoothing f)
{
	const ActivationRange *r = &x->range[k];

	for (int64_t c = 0; c < r->channels; c++)
		x->smooth[k][c] = f == PLAIN ? 1 : r->smooth[c];
	for (int l = 0; l < x->layers.n; l++) {
		int64_t dims[MAX_RANK];

		if (x->layers.at[l].activation != k)
			continue;
		type_static(x->layers.at[l].w->type, dims);
		for (int64_t c = 0; c < r->channels; c++)
			x->factors[l][c] = f == PLAIN ? 1 : 1 / r->smooth[c];
		if (x->scales_of[f][l])
			memcpy(x->scales[l], x->scales_of[f][l],
			       (size_t)dims[x->layers.at[l].axes.channels] * sizeof(float));
	}
}

float *calibration_weights(const Calibration *x, Arena *a, int l)
{
	const QuantLayer *layer = &x->layers.at[l];
	const int64_t channels = quantise_channels(layer),
		      inner = channels > 1 ? weights_after(layer, layer->axes.terms) : 1,
		      n = weights_after(layer, -1);
	float *w = NEW_ARRAY(a, n + 1, float);

	for (int64_t i = 0; i < n; i++)
		w[i] = x->weights[l][i] * x->factors[l][channels > 1 ? i / inner % channels : 0];
	return w;
}

/* Chooses the scales of the weights, multiplied by the current factors, in the form FORM. */
static void choose_scales(Calibration *x, int l, Smoothing form)
{
	const QuantLayer *layer = &x->layers.at[l];
	Arena *tmp = arena_new();
	const float *w = calibration_weights(x, tmp, l);
	const int64_t inner = weights_after(layer, layer->axes.channels),
		      all = weights_after(layer, -1);
	int64_t dims[MAX_RANK], channels;

	type_static(layer->w->type, dims);
	channels = dims[layer->axes.channels];
	x->scales_of[form][l] = NEW_ARRAY(x->a, channels, float);
	for (int64_t k = 0; k < channels; k++)
		x->scales_of[form][l][k] = scale_of_channel(w + k * inner, all / channels, inner,
							    channels * inner);
	arena_free(tmp);
}

static void choose_weights(Calibration *x)
{
	for (int f = FORMS - 1; f >= 0; f--) {
		x->scales_of[f] = NEW_ARRAY(x->a, x->layers.n + 1, float *);
		for (int k = 0; k < x->probe.activations; k++)
			calibration_set_form(x, k, (Smoothing)f);
		for (int l = 0; l < x->layers.n; l++)
			choose_scales(x, l, (Smoothing)f);
	}
}

bool calibrate_halves(Calibration *x, const char *path, int inputs)
{
	const dl_load_options load = {.size = sizeof load, .device = "cpu"};

	if (!session_open(&x->s, x->a, &x->c->diag, path) || !session_load(&x->s, &load))
		return false;
	x->on = add_input(x, x->samples.at[0], inputs);
	for (int k = 1; k < x->samples.n; k++)
		x->samples.at[k][inputs] = x->samples.at[0][inputs];
	x->reference = NEW_ARRAY(x->a, x->samples.n + 1, Array *);
	return run_samples(x, false);
}

bool calibrate(Calibration *x, const PackageOpts *o, const char *folder)
{
	const dl_load_options load = {.size = sizeof load, .device = "cpu"};
	const char *path = arena_printf(x->a, "%s/probe.so", folder);

	if (!samples_read(x->a, &x->c->diag, x->c->calibrate, x->m->graph, 3 * x->layers.n + 2,
			  &x->samples))
		return false;
	x->probe = quantise_probe(x->m, x->a, &x->layers);
	if (!calibration_compile(x->m, o, path, PASS_quantise + 1) ||
	    !session_open(&x->s, x->a, &x->c->diag, path) || !session_load(&x->s, &load))
		return false;
	assert(x->s.desc->n_in == x->probe.inputs + 2 + 2 * x->layers.n + x->probe.activations);
	add_inputs(x);
	make_ranges(x);
	x->reference = NEW_ARRAY(x->a, x->samples.n + 1, Array *);
	if (!run_samples(x, false))
		return false;
	for (int k = 0; k < x->probe.activations; k++)
		choose_factors(x, k);
	if (!run_samples(x, true))
		return false;
	choose_weights(x);
	return true;
}

/* ---- Errors ---- */

/* Adds the squared differences of GOT and WANT, and the squares of WANT, to SUMS. */
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
	show_progress(x->c, NULL);
	for (int o = 0; o < x->probe.results; o++)
		if (sums[o][0] > 0)
			most = fmax(most, sums[o][1] > 0 ? sqrt(sums[o][0] / sums[o][1])
							 : (double)INFINITY);
	return most;
}
