/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application that has its tensors on the GPU and a stream of its own: pointers ADD.so, whose model is
 * y[N,17] = relu(x[N,17] + b[17]). It links to no driver: it opens the one that the model opens.
 */
#include "runtime/dlrt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef unsigned long long CUdeviceptr;

static struct {
	int (*cuInit)(unsigned);
	int (*cuDevicePrimaryCtxRetain)(void **, int);
	int (*cuCtxPushCurrent_v2)(void *);
	int (*cuMemAlloc_v2)(CUdeviceptr *, size_t);
	int (*cuMemcpyHtoD_v2)(CUdeviceptr, const void *, size_t);
	int (*cuMemcpyDtoH_v2)(void *, CUdeviceptr, size_t);
	int (*cuStreamCreate)(void **, unsigned);
	int (*cuStreamSynchronize)(void *);
	unsigned long long (*ptxsim_calls)(const char *);
	void (*ptxsim_mark)(void);
	unsigned long long (*ptxsim_allocations)(void);
} cu;

static const char *const names[] = {
	"cuInit",         "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2",
	"cuMemAlloc_v2",  "cuMemcpyHtoD_v2",          "cuMemcpyDtoH_v2",
	"cuStreamCreate", "cuStreamSynchronize",      "ptxsim_calls",
	"ptxsim_mark",    "ptxsim_allocations"};

#define MUST(x)                                                \
	do {                                                   \
		if (!(x)) {                                    \
			printf("line %d: %s\n", __LINE__, #x); \
			return 1;                              \
		}                                              \
	} while (0)

enum { ROWS = 9, COLS = 17 };

static float x[ROWS * COLS], b[COLS], y[ROWS * COLS];

static int expected(void)
{
	for (int i = 0; i < ROWS * COLS; i++) {
		float want = x[i] + b[i % COLS];

		if (y[i] != (want > 0 ? want : 0))
			return 0;
	}
	return 1;
}

static dl_tensor tensor(CUdeviceptr at, int64_t *shape, int rank, size_t bytes)
{
	return (dl_tensor){.size = sizeof(dl_tensor),
			   .dtype = DL_F32,
			   .rank = rank,
			   .shape = shape,
			   .data = (void *)(uintptr_t)at,
			   .bytes = bytes};
}

/* Runs with tensors that begin OFF bytes into their memory. */
static int run(const dl_api *api, dl_context *c, void *stream, size_t off)
{
	int64_t xs[] = {ROWS, COLS}, bs[] = {COLS}, ys[2];
	CUdeviceptr dx, db, dy;
	dl_tensor in[2], out[1];

	MUST(!cu.cuMemAlloc_v2(&dx, sizeof x + 16) && !cu.cuMemAlloc_v2(&db, sizeof b + 16) &&
	     !cu.cuMemAlloc_v2(&dy, sizeof y + 16));
	MUST(!cu.cuMemcpyHtoD_v2(dx + off, x, sizeof x) &&
	     !cu.cuMemcpyHtoD_v2(db + off, b, sizeof b));
	in[0] = tensor(dx + off, xs, 2, sizeof x);
	in[1] = tensor(db + off, bs, 1, sizeof b);
	for (int k = 0; k < 3; k++) {
		out[0] = tensor(dy + off, ys, 2, sizeof y);
		if (k == 1)
			cu.ptxsim_mark();
		MUST(api->run(c, in, 2, out, 1, stream) == DL_OK);
	}
	/* After the first run: no memory from the driver, and no waiting for the GPU. */
	MUST(cu.ptxsim_allocations() == 0);
	MUST(cu.ptxsim_calls("cuStreamSynchronize") == 0);
	MUST(!cu.cuStreamSynchronize(stream));
	MUST(!cu.cuMemcpyDtoH_v2(y, dy + off, sizeof y));
	MUST(expected());
	memset(y, 0, sizeof y);
	return 0;
}

int main(int argc, char **argv)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL),
	     *model = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	void *gpu, *stream, *fn;
	dl_get_api_fn get;
	dl_load_options o = {.size = sizeof o, .device = "cuda"};
	const dl_api *api;
	dl_model *m;
	dl_context *c;

	MUST(driver && model);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		fn = dlsym(driver, names[i]);
		MUST(fn);
		memcpy((char *)&cu + i * sizeof fn, &fn, sizeof fn);
	}
	for (int i = 0; i < ROWS * COLS; i++)
		x[i] = (float)(i % 23) - 11;
	for (int i = 0; i < COLS; i++)
		b[i] = (float)i / 4 - 2;
	MUST(!cu.cuInit(0) && !cu.cuDevicePrimaryCtxRetain(&gpu, 0) &&
	     !cu.cuCtxPushCurrent_v2(gpu) && !cu.cuStreamCreate(&stream, 1));
	fn = dlsym(model, "add_get_api");
	memcpy(&get, &fn, sizeof get);
	api = get(DL_ABI_VERSION);
	MUST(api && api->load(&o, &m) == DL_OK && api->context(m, NULL, &c) == DL_OK);
	MUST(!strncmp(api->device(m), "cuda:0", 6));
	if (run(api, c, stream, 0) || run(api, c, stream, 4) || run(api, c, NULL, 0))
		return 1;
	api->context_free(c);
	MUST(api->unload(m) == DL_OK);
	puts("ok");
	return 0;
}
