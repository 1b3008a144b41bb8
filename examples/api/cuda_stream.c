/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two models on a GPU among other work of the application: cuda_stream HELDOUT.bin. The scans are
 * on the GPU, what `smooth` makes of them stays there and is read by `digits`, and all goes into
 * one stream of the application's, which waits once, at the end. After prepare a run is one launch
 * of a CUDA graph, whatever its pointers. The driver is opened at run time, as the models do it, so
 * the program starts on machines without one.
 *
 *     dlcc ../digits/digits.onnx --target=cpu:v3,cuda:sm_80 -o digits.a
 *     dlcc smooth.onnx --target=cpu:v3,cuda:sm_80 -o smooth.a
 *     cc -O2 -I. cuda_stream.c digits.a smooth.a -o cuda_stream -lm -lpthread -ldl
 *     ./cuda_stream ../digits/heldout.bin
 */
#include "digits.h"
#include "smooth.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 64, CLASSES = 10, BATCH = 16, BATCHES = 4, SCANS = BATCH * BATCHES };

typedef unsigned long long CUdeviceptr;
typedef struct CUstream_st *CUstream;
typedef struct CUctx_st *CUcontext;

#define DRIVER(F)                                                              \
	F(cuInit, (unsigned))                                                  \
	F(cuDevicePrimaryCtxRetain, (CUcontext *, int))                        \
	F(cuDevicePrimaryCtxRelease_v2, (int))                                 \
	F(cuCtxSetCurrent, (CUcontext))                                        \
	F(cuStreamCreate, (CUstream *, unsigned))                              \
	F(cuStreamSynchronize, (CUstream))                                     \
	F(cuStreamDestroy_v2, (CUstream))                                      \
	F(cuMemAlloc_v2, (CUdeviceptr *, size_t))                              \
	F(cuMemFree_v2, (CUdeviceptr))                                         \
	F(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream)) \
	F(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))

#define F(name, params) int(*name) params;
static struct {
	DRIVER(F)
} cu;
#undef F

static const char *open_driver(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		return "there is no CUDA driver";
#define F(name, params)                         \
	*(void **)&cu.name = dlsym(lib, #name); \
	if (!cu.name)                           \
		return "the CUDA driver lacks " #name;
	DRIVER(F)
#undef F
	return cu.cuInit(0) ? "the CUDA driver finds no GPU" : NULL;
}

/* The application's own part of the GPU. */
typedef struct Work {
	CUcontext context;
	CUstream stream;
	CUdeviceptr scans, blurred, logits;
} Work;

static int start(Work *w)
{
	/* 1: it does not wait for the default stream */
	return cu.cuDevicePrimaryCtxRetain(&w->context, 0) || cu.cuCtxSetCurrent(w->context) ||
	       cu.cuStreamCreate(&w->stream, 1) ||
	       cu.cuMemAlloc_v2(&w->scans, SCANS * PIXELS * sizeof(float)) ||
	       cu.cuMemAlloc_v2(&w->blurred, BATCH * PIXELS * sizeof(float)) ||
	       cu.cuMemAlloc_v2(&w->logits, SCANS * CLASSES * sizeof(float));
}

static void stop(Work *w)
{
	cu.cuMemFree_v2(w->scans);
	cu.cuMemFree_v2(w->blurred);
	cu.cuMemFree_v2(w->logits);
	cu.cuStreamDestroy_v2(w->stream);
	cu.cuDevicePrimaryCtxRelease_v2(0);
}

typedef struct Model {
	const dl_api *api;
	dl_model *model;
	dl_context *context;
} Model;

/* On GPU 0, for runs of BATCH scans whose tensors are all in its memory. */
static int open_model(Model *m, const dl_api *api)
{
	const dl_load_options load = {.size = sizeof(load), .device = "cuda:0"};
	const dl_context_options options = {.size = sizeof(options), .flags = DL_CONTEXT_ON_GPU};
	const int64_t dims[] = {BATCH};

	m->api = api;
	if (api->load(&load, &m->model))
		return fprintf(stderr, "%s\n", api->error(NULL));
	if (api->context(m->model, &options, &m->context))
		return fprintf(stderr, "%s\n", api->error(m->model));
	if (api->prepare(m->context, dims, 1))
		return fprintf(stderr, "%s\n", api->error(m->context));
	printf("%-7s on %s\n", api->describe()->name, api->device(m->model));
	return 0;
}

static void close_model(Model *m)
{
	m->api->context_free(m->context);
	m->api->unload(m->model);
}

static void *pointer(CUdeviceptr at)
{
	return (void *)(uintptr_t)at;
}

/* Puts a run into the stream and returns. */
static int run(Model *m, CUdeviceptr from, CUdeviceptr to, uint64_t bytes, CUstream stream)
{
	int64_t shape[] = {BATCH, 1, 8, 8}, out_shape[4];
	dl_tensor in = {.size = sizeof(in), .dtype = DL_F32, .rank = 4, .shape = shape};
	dl_tensor out = {.size = sizeof(out), .rank = 4, .shape = out_shape};

	in.data = pointer(from);
	in.bytes = BATCH * PIXELS * sizeof(float);
	out.data = pointer(to);
	out.bytes = bytes;
	if (m->api->run(m->context, &in, 1, &out, 1, stream))
		return fprintf(stderr, "%s\n", m->api->error(m->context));
	return 0;
}

/* All is computed; what a model found wrong while the GPU did is asked for here. */
static int finish(Model *m)
{
	if (m->api->wait(m->context))
		return fprintf(stderr, "%s\n", m->api->error(m->context));
	return 0;
}

static int compute(const Work *w, Model *smooth, Model *digits, const float *x, float *logits)
{
	const size_t batch = BATCH * PIXELS * sizeof(float), row = BATCH * CLASSES * sizeof(float);
	int bad = cu.cuMemcpyHtoDAsync_v2(w->scans, x, SCANS * PIXELS * sizeof(float), w->stream);

	for (unsigned k = 0; k < BATCHES && !bad; k++)
		bad = run(smooth, w->scans + k * batch, w->blurred, batch, w->stream) ||
		      run(digits, w->blurred, w->logits + k * row, row, w->stream);
	bad = bad || cu.cuMemcpyDtoHAsync_v2(logits, w->logits, BATCHES * row, w->stream) ||
	      cu.cuStreamSynchronize(w->stream) || finish(smooth) || finish(digits);
	if (bad)
		fprintf(stderr, "the GPU has not computed all\n");
	return bad;
}

static int read_scans(const char *path, float *x, unsigned char *label)
{
	static unsigned char scan[SCANS * PIXELS];
	FILE *f = fopen(path, "rb");
	int32_t n;
	int bad = !f || fread(&n, sizeof(n), 1, f) != 1 || n < SCANS ||
		  fread(scan, sizeof(scan), 1, f) != 1 ||
		  fseek(f, (long)sizeof(n) + (long)n * PIXELS, SEEK_SET) ||
		  fread(label, SCANS, 1, f) != 1;

	if (f)
		fclose(f);
	for (int i = 0; i < SCANS * PIXELS; i++)
		x[i] = (float)scan[i] / 16;
	return bad;
}

int main(int argc, char **argv)
{
	static float x[SCANS * PIXELS], logits[SCANS * CLASSES];
	static unsigned char label[SCANS];
	const char *lacks = open_driver();
	Model smooth, digits;
	Work w = {0};
	int right = 0;

	if (argc != 2 || read_scans(argv[1], x, label))
		return fprintf(stderr, "usage: cuda_stream HELDOUT.bin\n"), 2;
	if (lacks)
		return fprintf(stderr, "%s\n", lacks), 1;
	if (start(&w))
		return fprintf(stderr, "the GPU gives no stream or no memory\n"), 1;
	if (open_model(&smooth, smooth_get_api(DL_ABI_VERSION)) ||
	    open_model(&digits, digits_get_api(DL_ABI_VERSION)) ||
	    compute(&w, &smooth, &digits, x, logits))
		return 1;
	for (int i = 0; i < SCANS; i++) {
		const float *y = logits + i * CLASSES;
		int k = 0;

		for (int j = 1; j < CLASSES; j++)
			k = y[j] > y[k] ? j : k;
		right += k == label[i];
	}
	printf("of %d blurred scans %d are read rightly\n", SCANS, right);
	close_model(&smooth);
	close_model(&digits);
	stop(&w);
	return right < 0.9 * SCANS;
}
