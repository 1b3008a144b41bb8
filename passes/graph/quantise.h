/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantisation after training. A layer is a product of an activation x and weights w, floats both.
 * A plan says which layers of a graph are quantised, and how: x by one scale and zero point to u8,
 * w by a scale for each channel to i8.
 *
 * Where the ranges of x differ from channel to channel, x may be smoothed first: multiplied by a
 * factor for each channel, by whose reciprocal the weights of the channel are multiplied
 * (SmoothQuant, Xiao et al. 2022; of a depthwise convolution, whose weights have a scale for each
 * channel anyway, no weight loses by it).
 *
 * Who makes a plan (tools/dlcc/quantise.c) runs the probe first, a form of a copy of the graph that
 * tells the values of x and w, and that computes what each layer's quantisation does to the
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
	int activation; /* layers that read one x have one number */
} QuantLayer;

typedef VEC(QuantLayer) QuantLayers;

/* How a layer is quantised. */
typedef struct QuantChoice {
	int node;              /* Node.id of the layer, which a copy of the graph keeps */
	const char *name;      /* the layer's, for messages */
	float scale;           /* of x */
	uint8_t zero;          /* its zero point */
	const Tensor *weights; /* i8, with w's dims */
	const Tensor *scales;  /* f32, one for each channel */
	const Tensor *smooth;  /* f32: x's factors, which broadcast to x, and which the weights have the reciprocals of; null: none */
} QuantChoice;

typedef struct QuantPlan {
	const QuantChoice *layer; /* layers that are not here stay in floats */
	int n;
	bool operators; /* QuantizeLinear and DequantizeLinear stay operators: the graph becomes an ONNX model */
} QuantPlan;

/* The number of channels of L's activation that can be smoothed; 1: it cannot be. */
int64_t quantise_channels(const QuantLayer *l);
/* The layers of M's graph, which has passed `canon`. */
QuantLayers quantise_layers(Module *m, Arena *a);

/* ---- quantise_probe.c ---- */

/* What the probe has besides the results and inputs of the model. */
typedef struct QuantProbe {
	int activations;   /* results from number `results` on: x of each activation */
	int results, inputs;  /* of the model */
	int *weights;      /* by layer: the number of the result that w is; -1: w is a constant */
} QuantProbe;

/*
 * Changes M's graph, with these layers. Further inputs, in this order: f32[layers], not 0 where the
 * layer is quantised; f32[activations,3], the scale, and the least and the largest quotient; for
 * each layer the scales of w, and the factors that w is multiplied by before, in its rank; and for
 * each activation those of x. Factors have one element where the layer cannot be smoothed.
 */
QuantProbe quantise_probe(Module *m, Arena *a, const QuantLayers *layers);

#endif
