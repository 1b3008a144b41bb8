/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's libraries beside dlcc: a product by cuBLAS, a convolution by cuDNN, timed by events. The
 * libraries are opened by name; what is called has the forms that their documentation gives
 * (tests/gpu_pack/headers.c compares them with the headers). A few results are computed here as
 * well, so that a wrong argument is an error and not a time.
 */
#include "bench/gpu_pack/tool.h"

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu_pack/libraries.h"

struct LibraryType {
	const char *name;
	int bytes, cuda, compute; /* cudaDataType, cublasComputeType_t */
	int cudnn, math;          /* cudnnDataType_t, cudnnMathType_t */
	uint32_t one;
	double error; /* of a result over the root of its terms */
};

static const struct LibraryType types[] = {
	{"f32", 4, CUDA_R_32F, COMPUTE_32F, DATA_FLOAT, FMA_MATH, 0x3f000000, 3e-5},
	{"tf32", 4, CUDA_R_32F, COMPUTE_32F_FAST_TF32, DATA_FLOAT, DEFAULT_MATH, 0x3f000000, 1e-2},
	{"f16", 2, CUDA_R_16F, COMPUTE_32F, DATA_HALF, TENSOR_OP_MATH, 0x38003800, 1e-2},
	{"bf16", 2, CUDA_R_16BF, COMPUTE_32F, DATA_BFLOAT16, TENSOR_OP_MATH, 0x3f003f00, 5e-2},
};

const struct LibraryType *type_named(const char *name)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (!strcmp(types[i].name, name))
			return &types[i];
	return NULL;
}

static struct {
#define ENTRY(name, params) int(*name) params;
#include "bench/gpu_pack/libraries.def"
#undef ENTRY
} lib;

/* The entries whose names begin with PREFIX, from the first library of NAMES that is there. */
static void open_library(const char *prefix, const char *const *names)
{
	static const struct {
		const char *name;
		void *at;
	} entries[] = {
#define ENTRY(name, params) {#name, &lib.name},
#include "bench/gpu_pack/libraries.def"
#undef ENTRY
	};
	void *library = NULL, *fn;

	for (; *names && !library; names++)
		library = dlopen(*names, RTLD_NOW);
	if (!library) {
		fprintf(stderr, "gpu_pack: no %s\n", prefix);
		exit(77);
	}
	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
		if (strncmp(entries[i].name, prefix, strlen(prefix)))
			continue;
		fn = dlsym(library, entries[i].name);
		if (!fn) {
			fprintf(stderr, "gpu_pack: %s is not there\n", entries[i].name);
			exit(1);
		}
		memcpy(entries[i].at, &fn, sizeof fn);
	}
}

/* ---- Arrays ---- */

static void *pointer(CUdeviceptr p)
{
	return (void *)(uintptr_t)p;
}

/* N elements on the device, of magnitudes from 0.5 to 1. */
static CUdeviceptr array(const struct LibraryType *t, size_t n)
{
	enum { CHUNK = 1 << 20 };
	static uint32_t words[CHUNK];
	const size_t bytes = (n * (size_t)t->bytes + 3) / 4 * 4;
	CUdeviceptr p;

	CU(cuMemAlloc_v2(&p, bytes));
	for (size_t at = 0; at < bytes; at += sizeof words) {
		const size_t part = bytes - at < sizeof words ? bytes - at : sizeof words;
		for (size_t i = 0; i < part / 4; i++)
			words[i] = near(t->one, t->bytes * 8);
		CU(cuMemcpyHtoD_v2(p + at, words, part));
	}
	return p;
}

/* Element I of what stands at P on the device. */
static double element(const struct LibraryType *t, CUdeviceptr p, size_t i)
{
	uint32_t word = 0;
	float value;
	_Float16 half;

	CU(cuMemcpyDtoH_v2(&word, p + i * (size_t)t->bytes, (size_t)t->bytes));
	if (t->cuda == CUDA_R_16F) {
		memcpy(&half, &word, sizeof half);
		return (double)half;
	}
	word <<= t->cuda == CUDA_R_16BF ? 16 : 0;
	memcpy(&value, &word, sizeof value);
	return (double)value;
}

static void compare(const struct LibraryType *t, double got, double want, double terms)
{
	if (fabs(got - want) <= t->error * sqrt(terms))
		return;
	fprintf(stderr, "gpu_pack: a result is %g, not %g\n", got, want);
	exit(1);
}

/* ---- Times ---- */

static int by_value(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* Prints the times of RUN(ARG), which gives a status, behind HEAD. */
static int measure(const char *head, int (*run)(const void *), const void *arg, double seconds)
{
	enum { MAX = 1000, WARM = 3, LEAST = 3 };
	float ms[MAX], total = 0;
	CUevent begin, end;
	int runs = 0;

	CU(cuEventCreate(&begin, 0));
	CU(cuEventCreate(&end, 0));
	for (int i = -WARM; i < MAX && (i < LEAST || total < seconds * 1e3); i++) {
		float took;

		CU(cuEventRecord(begin, NULL));
		expect(run(arg), head);
		CU(cuEventRecord(end, NULL));
		CU(cuEventSynchronize(end));
		CU(cuEventElapsedTime(&took, begin, end));
		if (i >= 0) {
			ms[runs++] = took;
			total += took;
		}
	}
	qsort(ms, (size_t)runs, sizeof *ms, by_value);
	printf("{%s,\"median_ms\":%.6g,\"min_ms\":%.6g,\"runs\":%d}\n", head, (double)ms[runs / 2],
	       (double)ms[0], runs);
	return 0;
}

/* ---- cuBLAS ---- */

typedef struct LibraryGemm {
	const struct LibraryType *t;
	void *handle;
	int m, n, k;
	CUdeviceptr a, b, c;
} LibraryGemm;

static int run_gemm(const void *arg)
{
	const LibraryGemm *g = arg;
	const float one = 1, zero = 0;
	const int type = g->t->cuda;

	/* Row-major C = A B is column-major C' = B' A'. */
	return lib.cublasGemmEx(g->handle, 0, 0, g->n, g->m, g->k, &one, pointer(g->b), type, g->n,
				pointer(g->a), type, g->k, &zero, pointer(g->c), type, g->n,
				g->t->compute, GEMM_DEFAULT);
}

static void check_gemm(const LibraryGemm *g, int row, int column)
{
	double sum = 0;

	for (int i = 0; i < g->k; i++)
		sum += element(g->t, g->a, (size_t)row * (size_t)g->k + (size_t)i) *
		       element(g->t, g->b, (size_t)i * (size_t)g->n + (size_t)column);
	compare(g->t, element(g->t, g->c, (size_t)row * (size_t)g->n + (size_t)column), sum, g->k);
}

int gemm(const struct LibraryType *t, int m, int n, int k, double seconds)
{
	static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11",
					    "libcublas.so", NULL};
	LibraryGemm g = {.t = t, .m = m, .n = n, .k = k};
	char head[256];

	open_device();
	open_library("cublas", names);
	CU(lib.cublasCreate_v2(&g.handle));
	g.a = array(t, (size_t)m * (size_t)k);
	g.b = array(t, (size_t)k * (size_t)n);
	g.c = array(t, (size_t)m * (size_t)n);
	CU(run_gemm(&g));
	CU(cuCtxSynchronize());
	check_gemm(&g, 0, n - 1);
	check_gemm(&g, m / 2, n / 3);
	snprintf(head, sizeof head,
		 "\"library\":\"cublas\",\"type\":\"%s\",\"m\":%d,\"n\":%d,\"k\":%d", t->name, m, n,
		 k);
	return measure(head, run_gemm, &g, seconds);
}

/* ---- cuDNN ---- */

typedef struct Conv {
	const struct LibraryType *t;
	const int *size;
	int height, width; /* of the result */
	void *handle, *x_desc, *w_desc, *y_desc, *desc;
	CUdeviceptr x, w, y, work;
	AlgoPerf algo;
	size_t work_bytes;
} Conv;

enum { BATCH, CHANNELS, HEIGHT, WIDTH, FILTERS, SIDE, STRIDE, PAD };

static int run_conv(const void *arg)
{
	const Conv *c = arg;
	const float one = 1, zero = 0;

	return lib.cudnnConvolutionForward(c->handle, &one, c->x_desc, pointer(c->x), c->w_desc,
					   pointer(c->w), c->desc, c->algo.algo, pointer(c->work),
					   c->work_bytes, &zero, c->y_desc, pointer(c->y));
}

/* The result of filter F in the middle of the last image. */
static void check_conv(const Conv *c, int f)
{
	const int *s = c->size, channels = s[CHANNELS], n = s[BATCH] - 1;
	const int p = c->height / 2, q = c->width / 2;
	size_t terms = 0, at;
	double sum = 0;

	for (int i = 0; i < s[SIDE] * s[SIDE] * channels; i++) {
		const int r = i / channels / s[SIDE], v = i / channels % s[SIDE], ch = i % channels;
		const int h = p * s[STRIDE] + r - s[PAD], w = q * s[STRIDE] + v - s[PAD];

		if (h < 0 || h >= s[HEIGHT] || w < 0 || w >= s[WIDTH])
			continue;
		at = (size_t)((n * s[HEIGHT] + h) * s[WIDTH] + w) * (size_t)channels + (size_t)ch;
		sum += element(c->t, c->x, at) *
		       element(c->t, c->w,
			       (size_t)f * (size_t)(s[SIDE] * s[SIDE] * channels) + (size_t)i);
		terms++;
	}
	at = (size_t)((n * c->height + p) * c->width + q) * (size_t)s[FILTERS] + (size_t)f;
	compare(c->t, element(c->t, c->y, at), sum, (double)terms);
}

static void describe(Conv *c)
{
	const int *s = c->size, type = c->t->cudnn;

	CU(lib.cudnnCreateTensorDescriptor(&c->x_desc));
	CU(lib.cudnnCreateTensorDescriptor(&c->y_desc));
	CU(lib.cudnnCreateFilterDescriptor(&c->w_desc));
	CU(lib.cudnnCreateConvolutionDescriptor(&c->desc));
	CU(lib.cudnnSetTensor4dDescriptor(c->x_desc, TENSOR_NHWC, type, s[BATCH], s[CHANNELS],
					  s[HEIGHT], s[WIDTH]));
	CU(lib.cudnnSetFilter4dDescriptor(c->w_desc, type, TENSOR_NHWC, s[FILTERS], s[CHANNELS],
					  s[SIDE], s[SIDE]));
	CU(lib.cudnnSetTensor4dDescriptor(c->y_desc, TENSOR_NHWC, type, s[BATCH], s[FILTERS],
					  c->height, c->width));
	CU(lib.cudnnSetConvolution2dDescriptor(c->desc, s[PAD], s[PAD], s[STRIDE], s[STRIDE], 1, 1,
					       CROSS_CORRELATION, DATA_FLOAT));
	CU(lib.cudnnSetConvolutionMathType(c->desc, c->t->math));
}

/* The algorithm that the library takes to be the fastest of those that it has. */
static void choose(Conv *c)
{
	enum { ALGORITHMS = 8 };
	AlgoPerf perf[ALGORITHMS];
	int n = 0, i = 0;

	CU(lib.cudnnGetConvolutionForwardAlgorithm_v7(c->handle, c->x_desc, c->w_desc, c->desc,
						      c->y_desc, ALGORITHMS, &n, perf));
	while (i < n && perf[i].status)
		i++;
	expect(i == n, "cudnnGetConvolutionForwardAlgorithm_v7, without an algorithm,");
	c->algo = perf[i];
	CU(lib.cudnnSetConvolutionMathType(c->desc, c->algo.math));
	CU(lib.cudnnGetConvolutionForwardWorkspaceSize(c->handle, c->x_desc, c->w_desc, c->desc,
						       c->y_desc, c->algo.algo, &c->work_bytes));
	if (c->work_bytes)
		CU(cuMemAlloc_v2(&c->work, c->work_bytes));
}

int conv(const struct LibraryType *t, const int *size, double seconds)
{
	static const char *const names[] = {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so", NULL};
	const int *s = size;
	Conv c = {.t = t,
		  .size = s,
		  .height = (s[HEIGHT] + 2 * s[PAD] - s[SIDE]) / s[STRIDE] + 1,
		  .width = (s[WIDTH] + 2 * s[PAD] - s[SIDE]) / s[STRIDE] + 1};
	char head[256];

	open_device();
	open_library("cudnn", names);
	CU(lib.cudnnCreate(&c.handle));
	describe(&c);
	choose(&c);
	c.x = array(t, (size_t)(s[BATCH] * s[HEIGHT] * s[WIDTH]) * (size_t)s[CHANNELS]);
	c.w = array(t, (size_t)(s[FILTERS] * s[SIDE] * s[SIDE]) * (size_t)s[CHANNELS]);
	c.y = array(t, (size_t)(s[BATCH] * c.height * c.width) * (size_t)s[FILTERS]);
	CU(run_conv(&c));
	CU(cuCtxSynchronize());
	check_conv(&c, 0);
	check_conv(&c, s[FILTERS] - 1);
	snprintf(
		head, sizeof head,
		"\"library\":\"cudnn\",\"type\":\"%s\",\"x\":[%d,%d,%d,%d],\"filters\":%d,\"side\":%d,"
		"\"stride\":%d,\"pad\":%d,\"algorithm\":%d,\"workspace\":%zu",
		t->name, s[BATCH], s[CHANNELS], s[HEIGHT], s[WIDTH], s[FILTERS], s[SIDE], s[STRIDE],
		s[PAD], c.algo.algo, c.work_bytes);
	return measure(head, run_conv, &c, seconds);
}
