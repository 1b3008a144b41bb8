/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What C programs of these tests share: the simulator's driver, opened as a model opens it, and
 * tensors. A program says "ok" and ends with status 0, or names the line of the first check that
 * failed.
 */
#ifndef TESTS_GPU_SIM_H
#define TESTS_GPU_SIM_H

#include "runtime/dlrt.h"

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long CUdeviceptr;

/* clang-format off */
#define SIM_CALLS(F) \
	F(int, cuInit, (unsigned)) \
	F(int, cuDevicePrimaryCtxRetain, (void **, int)) \
	F(int, cuDevicePrimaryCtxRelease_v2, (int)) \
	F(int, cuCtxPushCurrent_v2, (void *)) \
	F(int, cuCtxPopCurrent_v2, (void **)) \
	F(int, cuCtxGetCurrent, (void **)) \
	F(int, cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
	F(int, cuMemFree_v2, (CUdeviceptr)) \
	F(int, cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t)) \
	F(int, cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t)) \
	F(int, cuMemHostAlloc, (void **, size_t, unsigned)) \
	F(int, cuMemFreeHost, (void *)) \
	F(int, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, void *)) \
	F(int, cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, void *)) \
	F(int, cuStreamCreate, (void **, unsigned)) \
	F(int, cuStreamBeginCapture_v2, (void *, int)) \
	F(int, cuStreamEndCapture, (void *, void **)) \
	F(int, cuGraphGetNodes, (void *, void **, size_t *)) \
	F(int, cuGraphInstantiateWithFlags, (void **, void *, unsigned long long)) \
	F(int, cuGraphDestroy, (void *)) \
	F(int, cuGraphLaunch, (void *, void *)) \
	F(int, cuGraphExecDestroy, (void *)) \
	F(int, cuStreamDestroy_v2, (void *)) \
	F(int, cuStreamSynchronize, (void *)) \
	F(int, cuLaunchHostFunc, (void *, void (*)(void *), void *)) \
	F(unsigned long long, ptxsim_calls, (const char *)) \
	F(void, ptxsim_mark, (void)) \
	F(unsigned long long, ptxsim_allocations, (void)) \
	F(int, ptxsim_live, (void)) \
	F(void, ptxsim_fail, (uint64_t, int)) \
	F(void, ptxsim_seed, (uint64_t)) \
	F(uint64_t, ptxsim_counter, (const char *, const char *)) \
	F(const char *, ptxsim_failed, (void)) \
	F(void, ptxsim_break, (uint64_t, int)) \
	F(int, ptxsim_broke, (void)) \
	F(void, ptxsim_quiet, (int))
/* clang-format on */

#define F(type, name, params) type (*name) params;
static struct {
	SIM_CALLS(F)
} cu;
#undef F

#define MUST(x)                                                \
	do {                                                   \
		if (!(x)) {                                    \
			printf("line %d: %s\n", __LINE__, #x); \
			return false;                          \
		}                                              \
	} while (0)

static inline bool open_sim(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *fn;

	MUST(lib);
#define F(type, name, params)                  \
	MUST((fn = dlsym(lib, #name)) != NULL); \
	memcpy(&cu.name, &fn, sizeof(fn));
	SIM_CALLS(F)
#undef F
	return cu.cuInit(0) == 0;
}

/* A program over the models in the folder that it is given. */
static inline int sim_main(int argc, char **argv, bool (*all)(const char *dir))
{
	if (!open_sim() || !all(argc > 1 ? argv[1] : "."))
		return 1;
	puts("ok");
	return 0;
}

/* The model NAME in DIR/NAME.so. */
static inline const dl_api *open_model(const char *dir, const char *name)
{
	char path[4096], symbol[256];
	dl_get_api_fn get = NULL;
	void *lib, *fn;

	snprintf(path, sizeof(path), "%s/%s.so", dir, name);
	snprintf(symbol, sizeof(symbol), "%s_get_api", name);
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	fn = lib ? dlsym(lib, symbol) : NULL;
	if (!fn)
		printf("%s: %s\n", path, dlerror());
	memcpy(&get, &fn, sizeof(get));
	return get ? get(DL_ABI_VERSION) : NULL;
}

static inline dl_tensor tensor(int dtype, void *at, int64_t *shape, int rank, size_t bytes)
{
	return (dl_tensor){.size = sizeof(dl_tensor),
			   .dtype = dtype,
			   .rank = rank,
			   .shape = shape,
			   .data = at,
			   .bytes = bytes};
}

/* Whether the driver's call NAME gives something back. */
static inline bool frees(const char *name)
{
	static const char *const names[] = {"Free", "Destroy", "Unload", "Release", "Pop"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strstr(name, names[i]))
			return true;
	return false;
}

static inline void *on_device(CUdeviceptr at)
{
	return (void *)(uintptr_t)at;
}

#endif
