/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLAS and cuDNN as the GPU pack's tool calls them: as documented, slowly, over the memory of the
 * simulated GPU. What a call must not say is a status: strides and shapes that do not fit, types
 * that differ, an algorithm that was not offered, too little workspace. Of two algorithms that are
 * offered the first is not supported.
 */
#include "tests/ptxsim/check/gpu.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

enum { OK = 0, BAD = 3, NOT_SUPPORTED = 3000 };
enum { HALF = 2, BF16 = 14, DNN_BF16 = 9 };

/* N elements of TYPE from the device as floats, freed by the caller; BF16 is the code of that
 * type. */
static float *fetch(const void *p, size_t n, int type, int bf16)
{
	const size_t bytes = type == HALF || type == bf16 ? 2 : 4;
	unsigned char *raw = malloc(n * bytes);
	float *f = malloc(n * sizeof *f);

	if (cuMemcpyDtoH_v2(raw, (CUdeviceptr)(uintptr_t)p, n * bytes))
		abort();
	for (size_t i = 0; i < n; i++) {
		uint32_t word = 0;
		_Float16 half;

		memcpy(&word, raw + i * bytes, bytes);
		memcpy(&half, &word, sizeof half);
		word <<= type == bf16 ? 16 : 0;
		memcpy(&f[i], &word, sizeof word);
		f[i] = type == HALF ? (float)half : f[i];
	}
	free(raw);
	return f;
}

static void store(void *p, size_t i, float value, int type, int bf16)
{
	const size_t bytes = type == HALF || type == bf16 ? 2 : 4;
	const _Float16 half = (_Float16)value;
	uint32_t word;

	memcpy(&word, &value, sizeof word);
	word = type == bf16 ? (word + 0x8000) >> 16 : word;
	if (type == HALF)
		memcpy(&word, &half, sizeof half);
	if (getenv("FAKE_WRONG"))
		return;
	if (cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)p + i * bytes, &word, bytes))
		abort();
}

/* ---- cuBLAS ---- */

static int a_handle;

API int cublasCreate_v2(void **handle);
API int cublasCreate_v2(void **handle)
{
	*handle = &a_handle;
	return OK;
}

API int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const float *alpha,
		     const void *a, int at, int lda, const void *b, int bt, int ldb,
		     const float *beta, void *c, int ct, int ldc, int compute, int algorithm);
API int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const float *alpha,
		     const void *a, int at, int lda, const void *b, int bt, int ldb,
		     const float *beta, void *c, int ct, int ldc, int compute, int algorithm)
{
	if (handle != &a_handle || ta || tb || lda < m || ldb < k || ldc < m || at != bt ||
	    bt != ct || *alpha != 1 || *beta != 0 || (compute != 68 && (compute != 77 || at)) ||
	    algorithm != -1)
		return BAD;
	float *x = fetch(a, (size_t)lda * (size_t)k, at, BF16),
	      *y = fetch(b, (size_t)ldb * (size_t)n, bt, BF16);
	for (int j = 0; j < n; j++)
		for (int i = 0; i < m; i++) {
			float sum = 0;

			for (int l = 0; l < k; l++)
				sum += x[i + l * lda] * y[l + j * ldb];
			store(c, (size_t)i + (size_t)j * (size_t)ldc, sum, ct, BF16);
		}
	free(x);
	free(y);
	return OK;
}

/* ---- cuDNN ---- */

typedef struct Desc {
	int kind, type, format, size[4]; /* 't', 'f', 'c': a tensor, filters, a convolution */
	int pad[2], stride[2], math;
} Desc;

static int create(void **desc, int kind)
{
	Desc *d = calloc(1, sizeof *d);

	d->kind = kind;
	*desc = d;
	return OK;
}

API int cudnnCreate(void **handle);
API int cudnnCreate(void **handle)
{
	*handle = &a_handle;
	return OK;
}

API int cudnnCreateTensorDescriptor(void **desc);
API int cudnnCreateTensorDescriptor(void **desc)
{
	return create(desc, 't');
}

API int cudnnCreateFilterDescriptor(void **desc);
API int cudnnCreateFilterDescriptor(void **desc)
{
	return create(desc, 'f');
}

API int cudnnCreateConvolutionDescriptor(void **desc);
API int cudnnCreateConvolutionDescriptor(void **desc)
{
	return create(desc, 'c');
}

static int set(Desc *d, int kind, int format, int type, int n, int c, int h, int w)
{
	if (d->kind != kind || format != 1 || n < 1 || c < 1 || h < 1 || w < 1)
		return BAD;
	*d = (Desc){.kind = kind, .type = type, .format = format, .size = {n, c, h, w}};
	return OK;
}

API int cudnnSetTensor4dDescriptor(Desc *d, int format, int type, int n, int c, int h, int w);
API int cudnnSetTensor4dDescriptor(Desc *d, int format, int type, int n, int c, int h, int w)
{
	return set(d, 't', format, type, n, c, h, w);
}

API int cudnnSetFilter4dDescriptor(Desc *d, int type, int format, int k, int c, int h, int w);
API int cudnnSetFilter4dDescriptor(Desc *d, int type, int format, int k, int c, int h, int w)
{
	return set(d, 'f', format, type, k, c, h, w);
}

API int cudnnSetConvolution2dDescriptor(Desc *d, int pad_h, int pad_w, int stride_h, int stride_w,
					int dilation_h, int dilation_w, int mode, int compute);
API int cudnnSetConvolution2dDescriptor(Desc *d, int pad_h, int pad_w, int stride_h, int stride_w,
					int dilation_h, int dilation_w, int mode, int compute)
{
	if (d->kind != 'c' || dilation_h != 1 || dilation_w != 1 || mode != 1 || compute)
		return BAD;
	*d = (Desc){.kind = 'c', .pad = {pad_h, pad_w}, .stride = {stride_h, stride_w}};
	return OK;
}

API int cudnnSetConvolutionMathType(Desc *d, int math);
API int cudnnSetConvolutionMathType(Desc *d, int math)
{
	d->math = math;
	return d->kind == 'c' ? OK : BAD;
}

static int fits(const Desc *x, const Desc *w, const Desc *c, const Desc *y)
{
	int ok = x->kind == 't' && w->kind == 'f' && c->kind == 'c' && y->kind == 't' &&
		 x->type == w->type && x->type == y->type && x->size[1] == w->size[1] &&
		 y->size[0] == x->size[0] && y->size[1] == w->size[0];

	for (int i = 0; i < 2; i++)
		ok = ok &&
		     y->size[2 + i] ==
			     (x->size[2 + i] + 2 * c->pad[i] - w->size[2 + i]) / c->stride[i] + 1;
	return ok;
}

enum { ALGORITHM = 6, WORK = 96, MATH = 1 };

typedef struct Perf {
	int algo, status;
	float time;
	size_t memory;
	int determinism, math, reserved[3];
} Perf;

API int cudnnGetConvolutionForwardAlgorithm_v7(void *handle, Desc *x, Desc *w, Desc *c, Desc *y,
					       int room, int *n, Perf *perf);
API int cudnnGetConvolutionForwardAlgorithm_v7(void *handle, Desc *x, Desc *w, Desc *c, Desc *y,
					       int room, int *n, Perf *perf)
{
	if (handle != &a_handle || !fits(x, w, c, y) || room < 2)
		return BAD;
	perf[0] = (Perf){.algo = 2, .status = NOT_SUPPORTED, .time = -1, .math = 3};
	perf[1] = (Perf){.algo = ALGORITHM, .time = 1, .memory = WORK, .math = MATH};
	*n = 2;
	return OK;
}

API int cudnnGetConvolutionForwardWorkspaceSize(void *handle, Desc *x, Desc *w, Desc *c, Desc *y,
						int algo, size_t *bytes);
API int cudnnGetConvolutionForwardWorkspaceSize(void *handle, Desc *x, Desc *w, Desc *c, Desc *y,
						int algo, size_t *bytes)
{
	if (handle != &a_handle || !fits(x, w, c, y) || algo != ALGORITHM || c->math != MATH)
		return BAD;
	*bytes = WORK;
	return OK;
}

/* One result of an NHWC convolution. */
static float point(const Desc *xd, const float *x, const Desc *wd, const float *w, const Desc *c,
		   int n, int f, int p, int q)
{
	const int channels = xd->size[1];
	float sum = 0;

	for (int r = 0; r < wd->size[2]; r++)
		for (int s = 0; s < wd->size[3]; s++) {
			const int h = p * c->stride[0] + r - c->pad[0];
			const int v = q * c->stride[1] + s - c->pad[1];

			if (h < 0 || v < 0 || h >= xd->size[2] || v >= xd->size[3])
				continue;
			for (int ch = 0; ch < channels; ch++)
				sum += x[((n * xd->size[2] + h) * xd->size[3] + v) * channels +
					 ch] *
				       w[((f * wd->size[2] + r) * wd->size[3] + s) * channels + ch];
		}
	return sum;
}

static size_t count(const Desc *d)
{
	return (size_t)d->size[0] * (size_t)d->size[1] * (size_t)d->size[2] * (size_t)d->size[3];
}

API int cudnnConvolutionForward(void *handle, const float *alpha, Desc *xd, const void *x, Desc *wd,
				const void *w, Desc *c, int algo, void *work, size_t work_bytes,
				const float *beta, Desc *yd, void *y);
API int cudnnConvolutionForward(void *handle, const float *alpha, Desc *xd, const void *x, Desc *wd,
				const void *w, Desc *c, int algo, void *work, size_t work_bytes,
				const float *beta, Desc *yd, void *y)
{
	size_t at = 0;

	if (handle != &a_handle || *alpha != 1 || *beta != 0 || !fits(xd, wd, c, yd) ||
	    algo != ALGORITHM || !work || work_bytes < WORK || c->math != MATH)
		return BAD;
	float *fx = fetch(x, count(xd), xd->type, DNN_BF16),
	      *fw = fetch(w, count(wd), wd->type, DNN_BF16);
	for (int n = 0; n < yd->size[0]; n++)
		for (int p = 0; p < yd->size[2]; p++)
			for (int q = 0; q < yd->size[3]; q++)
				for (int f = 0; f < yd->size[1]; f++)
					store(y, at++, point(xd, fx, wd, fw, c, n, f, p, q),
					      yd->type, DNN_BF16);
	free(fx);
	free(fw);
	return OK;
}
