/* SPDX-License-Identifier: Apache-2.0 */
/* Discrete Fourier transforms, for the operators that are made of them. */
#ifndef OPS_ONNX_FOURIER_H
#define OPS_ONNX_FOURIER_H

#include "ops/infer/infer.h"

typedef struct Fourier {
	Dim *length;   /* N */
	Dim *terms;    /* elements of the operand that count, at most N (of a half spectrum, at
		       * most N/2 + 1) */
	Dim *results;  /* number of terms to compute, starting at the first */
	int64_t parts; /* of the operand: 1, real; 2, real and imaginary */
	bool inverse, onesided;
	DType real;
} Fourier;

enum {
	/* Transforms of at most this many points are one product. Two stages take as long at 64
	 * points (0.9 us beside 1.0 us on AVX-512, real), and half at 128. */
	FOURIER_DIRECT = 64,
	FOURIER_MOST = INT32_MAX, /* points at most */
	/* the same if the number is known only at run time: then a row takes up to 1300 bytes for
	 * each point in f32, 2600 in f64, so that the largest one takes 22 or 43 GiB */
	FOURIER_MOST_RUN = 1 << 25
};

/* Checks the number of points. */
bool fourier_check(Infer *in, Node *n, const Fourier *t);
/* Whether T is computed by a product with a table of all pairs of terms and results. */
bool fourier_is_direct(Infer *in, const Fourier *t);
/* Transforms V, [rows, terms, parts], whose rows are ROWS; the result is [rows, results, 2], or
 * [rows, results, 1] of the inverse of a half spectrum. */
Value *fourier(Infer *in, Node *n, Value *v, Dim *rows, const Fourier *t);

#endif
