/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling a tensor at coordinates that each output dim gives by itself: what Resize lowers to. */
#ifndef OPS_SAMPLE_H
#define OPS_SAMPLE_H

#include "ops/build.h"

typedef enum Transform { HALF_PIXEL, SYMMETRIC, PYTORCH, ALIGN_CORNERS, ASYMMETRIC, CROP, TRANSFORM_COUNT } Transform;
typedef enum Nearest { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL, NEAREST_COUNT } Nearest;
typedef enum Mode { NEAREST, LINEAR, CUBIC, MODE_COUNT } Mode;

typedef struct Axis {
	bool used;       /* else the dim is copied */
	int at;          /* its place in roi and scales */
	Dim *in, *out;
	Dim *num, *den;  /* the scale; null: run time reads it */
} Axis;

typedef struct Sampling {
	Mode mode;
	Transform transform;
	Nearest nearest;
	bool antialias, exclude;
	float cubic_a;       /* cubic_coeff_a */
	float extrapolation; /* what lies outside a crop */
	int rank, count;     /* dims; of them given in roi, scales, sizes */
	Axis axis[MAX_RANK];
	Buf *x, *roi, *scales, *out;
} Sampling;

/* Writes the statements: out = x sampled. ROI and SCALES are read where a crop or an axis needs them. */
void sample_lower(Kernel *k, const Sampling *s);

#endif
