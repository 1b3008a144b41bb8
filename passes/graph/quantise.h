/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantisation after training. A layer is a product of an activation x and weights w, both floats.
 * A plan says which layers of a graph are quantised, and how: x by one scale and zero point to u8,
 * w by a scale for each channel to i8.
 *
 * If the ranges of x differ between channels, x may be smoothed first: each channel is multiplied
 * by a factor, and its weights by the reciprocal (SmoothQuant, Xiao et al. 2022). In a depthwise
 * convolution, whose weights have a scale for each channel anyway, this costs no precision.
 *
 * The planner (tools/dlcc/quantise.c) first runs the probe: a rewritten copy of the graph that also
 * returns the values of x and w, and that computes the effect of each layer's quantisation on the
 * results.
 */
#ifndef PASSES_GRAPH_QUANTISE_H
#define PASSES_GRAPH_QUANTISE_H

#include "passes/module.h"

enum { QUANT_U8_MAX = 255, QUANT_I8_MAX = 127 };

typedef struct QuantLayer {
	Node *node;
	Value *x, *w; /* its operands 0 and 1 */
	WeightsAxes axes;
	int activation; /* layers that read the same x share this index */
} QuantLayer;

typedef VEC(QuantLayer) QuantLayers;

/* How a layer is quantised. */
typedef struct QuantChoice {
	int node;              /* Node.id of the layer, the same in a copy of the graph */
	const char *name;      /* the name of the layer, for messages */
	float scale;           /* of x */
	uint8_t zero;          /* the zero point of x */
	const Tensor *weights; /* i8, with w's dims */
	const Tensor *scales;  /* f32, one for each channel */
	/* f32: the factors of x, which broadcast to x; the weights get the reciprocals; null:
	 * none */
	const Tensor *smooth;
} QuantChoice;

typedef struct QuantPlan {
	const QuantChoice *layer; /* layers that are not listed remain in floats */
	int n;
	bool operators; /* QuantizeLinear and DequantizeLinear remain, for writing as ONNX */
} QuantPlan;

/* Whether V is computed from constants. DONE, by Value.id and zero at first, is for its use. */
bool quantise_is_weights(const Value *v, char *done);
/* The number of channels of L's activation that can be smoothed; 1: it cannot be. */
int64_t quantise_channels(const QuantLayer *l);
/* The layers of M's graph, which has passed `canon`. */
QuantLayers quantise_layers(Module *m, Arena *a);

/* ---- quantise_probe.c ---- */

/* The probe's inputs and results besides those of the model. */
typedef struct QuantProbe {
	int activations;   /* results from index `results` on: x of each activation */
	int results, inputs;  /* of the model */
	int *weights;      /* by layer: the index of the result that is w; -1: w is a constant */
} QuantProbe;

/*
 * Changes M's graph, with these layers, into the probe. It adds these inputs, in this order:
 * f32[layers], not 0 for quantised layers; f32[activations,3], with the scale, and the least and
 * the largest quotient; for each layer the scales of w, and the factors by which w is multiplied
 * first, in its rank; and for each activation the factors of x. Factors have one element if the
 * layer cannot be smoothed.
 */
QuantProbe quantise_probe(Module *m, Arena *a, const QuantLayers *layers);

#endif
