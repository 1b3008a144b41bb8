/* SPDX-License-Identifier: Apache-2.0 */
/* dlcc --int8: chooses how a model's layers are quantised, from its values on samples. */
#ifndef TOOLS_DLCC_QUANTISE_H
#define TOOLS_DLCC_QUANTISE_H

#include "codegen/package/package.h"
#include "passes/graph/quantise.h"
#include "tools/dlcc/options.h"
#include "tools/dlcc/samples.h"
#include "tools/dlrun/session.h"

/* The plan for the model that M is, whose graph has passed `canon`, by the samples of
 * --calibrate. M becomes its probe, which is compiled as O says. Prints the table of layers.
 * Null after a diagnostic. */
const QuantPlan *quantise_plan(Cli *c, Module *m, const PackageOpts *o, Arena *a);

/* ---- halves.c ---- */

/* --activations-as=f16, bf16 with --calibrate: measures the error of the results of the model that
 * M is, whose graph has passed `quantise`, in halves on GPU, and prints it. By --max-error, adds to
 * OPT the names of the nodes that stay in f32. M becomes the probe. False after a diagnostic. */
bool halves_plan(Cli *c, Module *m, const Target *gpu, const PackageOpts *o, Options *opt);

/* ---- ranges.c ---- */

enum { RANGE_BINS = 2048 };

/* The distribution of an activation's elements. */
typedef struct ValueRange {
	double lo, hi;  /* of the elements, and 0 */
	double bin[RANGE_BINS]; /* number of elements, other than 0, in each interval of lo..hi */
} ValueRange;

/* Integers by which floats are quantised: (q - zero) * scale. */
typedef struct ByteScale {
	float scale;
	int zero;
} ByteScale;

/* Counts X, which is in the range. */
static inline void range_count(ValueRange *r, double x)
{
	const int bin = x != 0 ? (int)((x - r->lo) / (r->hi - r->lo) * (double)RANGE_BINS) : -1;

	if (bin >= 0)
		r->bin[bin < RANGE_BINS ? bin : RANGE_BINS - 1]++;
}
/* u8 for all elements from the least to the largest; or for the part of that range with the
 * least sum of squared errors. */
ByteScale range_all(const ValueRange *r);
ByteScale range_least_squares(const ValueRange *r);
/* The scale of i8 from -127 to 127 with the least sum of squared errors, for N elements at X, in
 * groups of GROUP with the distance STRIDE. */
float scale_of_channel(const float *x, int64_t n, int64_t group, int64_t stride);

/* ---- calibrate.c ---- */

typedef enum Smoothing { PLAIN, SMOOTHED, FORMS } Smoothing;

/* The measurements of an activation. */
typedef struct ActivationRange {
	int64_t channels; /* 1: it cannot be smoothed */
	int64_t elements; /* of all samples */
	bool smooths;     /* there are enough elements of each channel to tell factors */
	int axis;         /* of the channels */
	float *lo, *hi;   /* by channel: the least and the largest element, and 0 */
	float *smooth;    /* by channel: the factors of SMOOTHED */
	ValueRange form[FORMS];
} ActivationRange;

/* The compiled probe of a model. */
typedef struct Calibration {
	Cli *c;
	Module *m;
	Arena *a;
	QuantLayers layers;
	const bool *named; /* by layer: it remains in floats, whatever its values are */
	QuantProbe probe;
	Session s;
	SampleList samples;
	/* further inputs of the probe (quantise_probe) */
	float *on, *ranges, **scales, **factors, **smooth;
	ActivationRange *range;        /* by activation */
	const float **weights;         /* by layer */
	float **scales_of[FORMS];      /* by layer: the scales of the weights */
	Array **reference;             /* by sample: the results in floats */
} Calibration;

/* Compiles the probe, runs the samples, and records the ranges of values in X. No layer is on.
 * False after a diagnostic. */
bool calibrate(Calibration *x, const PackageOpts *o, const char *folder);
/* The same for the probe of halves at PATH, which is compiled: only X->on is an input besides those
 * of the model, of which there are INPUTS. */
bool calibrate_halves(Calibration *x, const char *path, int inputs);
/* Compiles the passes from FROM on of M, a probe, for the local processor, as O says. */
bool calibration_compile(Module *m, const PackageOpts *o, const char *path, PassId from);
/* Turns smoothing on or off for activation K and the weights of its layers. */
void calibration_set_form(Calibration *x, int k, Smoothing f);
/* The number of L's weights for one index of AXIS and of the axes before it; AXIS -1: of all
 * weights. */
int64_t weights_after(const QuantLayer *l, int axis);
/* The weights of layer L, with their factors; in A. */
float *calibration_weights(const Calibration *x, Arena *a, int l);
/* The error of the results with the layers that X->on switches on, relative to the results in
 * floats; negative after a diagnostic. */
double calibration_error(Calibration *x);

#endif
