/* SPDX-License-Identifier: Apache-2.0 */
/* Resizing a tensor, with a coordinate for each output dim that depends only on that dim: Resize
 * lowers to this. */
#ifndef OPS_ONNX_SAMPLE_H
#define OPS_ONNX_SAMPLE_H

#include "ops/infer/build.h"

typedef enum Transform { HALF_PIXEL, SYMMETRIC, PYTORCH, ALIGN_CORNERS, ASYMMETRIC, CROP, TF_HALF_PIXEL, TRANSFORM_COUNT } Transform;
typedef enum Nearest { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL, NEAREST_COUNT } Nearest;
typedef enum Mode { NEAREST, LINEAR, CUBIC, MODE_COUNT } Mode;

typedef struct Axis {
	bool used;       /* else the dim is copied */
	int at;          /* its index in roi and scales */
	Dim *in, *out;
	Dim *num, *den;  /* the scale as a quotient; null: only run time knows it */
} Axis;

typedef struct Sampling {
	Mode mode;
	Transform transform;
	Nearest nearest;
	bool antialias, exclude;
	bool ceil_below_one; /* opset 10's nearest: an axis whose scale is below 1 rounds up */
	/* Nearest with scales: coordinates are those of f32 arithmetic, as in PyTorch and ONNX
	 * Runtime. The f32 next to 1.6 is a little more than 1.6. An exact quotient 8 / 1.6 would
	 * be below 5, and floor(4.9999999) selects another element than f32's floor(5). */
	bool single;
	float cubic_a;       /* cubic_coeff_a */
	float extrapolation; /* value of points outside the input of a crop */
	/* rank of x; number of dims that roi, scales and sizes have entries for */
	int rank, count;
	Axis axis[MAX_RANK];
	Buf *x, *roi, *scales, *out;
} Sampling;

/* Makes the statements that resize x to out. ROI and SCALES are read if a crop or an axis needs
 * them. */
void sample_lower(Kernel *k, const Sampling *s);
/* Whether x is resized dim by dim, from the first on. */
bool sample_by_dim(const Sampling *s);

#endif
