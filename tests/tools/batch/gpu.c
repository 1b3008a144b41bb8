/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tools/batch/gpu.h"

#include "base/vec.h"
#include "runtime/cuda.h"

struct TestGpu {
	Arena *arena;
	const Cuda *cuda;
	CUdevice device;
	CUcontext context;
	CUmodule module;
	int shared;
	VEC(CUdeviceptr) memory;
	const char *failure;
};

static bool worked(TestGpu *t, int status, const char *what)
{
	char text[160];

	if (status && !t->failure)
		t->failure = arena_printf(t->arena, "%s: %s", what,
					  cuda_error(t->cuda, status, text, sizeof text));
	return !status;
}

TestGpu *test_gpu_open(Arena *a, const char *ptx, const char **why)
{
	TestGpu *t = NEW(a, TestGpu);

	*t = (TestGpu){.arena = a, .cuda = cuda_open(why)};
	if (!t->cuda)
		return NULL;
	if (worked(t, t->cuda->cuDeviceGet(&t->device, 0), "the GPU") &&
	    worked(t, t->cuda->cuDevicePrimaryCtxRetain(&t->context, t->device), "the GPU") &&
	    worked(t, t->cuda->cuCtxPushCurrent_v2(t->context), "the GPU") &&
	    worked(t, t->cuda->cuDeviceGetAttribute(&t->shared, CUDA_BLOCK_SHARED, t->device),
		   "the GPU"))
		worked(t, t->cuda->cuModuleLoadDataEx(&t->module, ptx, 0, NULL, NULL),
		       "the kernels");
	*why = t->failure;
	return t->failure ? NULL : t;
}

int test_gpu_shared(const TestGpu *t)
{
	return t->shared;
}

uint64_t test_gpu_put(TestGpu *t, const void *data, int64_t bytes)
{
	CUdeviceptr at = 0;

	if (!worked(t, t->cuda->cuMemAlloc_v2(&at, (size_t)bytes + !bytes), "memory"))
		return 0;
	vec_push(t->arena, &t->memory, at);
	if (bytes)
		worked(t, t->cuda->cuMemcpyHtoDAsync_v2(at, data, (size_t)bytes, NULL), "a copy");
	return at;
}

void test_gpu_launch(TestGpu *t, TestEntry e, const uint64_t *arg, int n, int64_t blocks)
{
	const uint64_t none = 0, site = 1,
		       word = e.faults ? test_gpu_put(t, &none, sizeof none) : 0;
	const int64_t counts = e.arrives && blocks > 0 ? blocks : 0;
	uint32_t *zeros = NEW_ARRAY(t->arena, counts + 1, uint32_t);
	const uint64_t arrivals = counts ? test_gpu_put(t, zeros, counts * (int64_t)sizeof *zeros)
					 : 0;
	void **parameter = NEW_ARRAY(t->arena, n + 3, void *);
	CUfunction f;

	for (int i = 0; i < n; i++)
		parameter[i] = (void *)(uintptr_t)&arg[i];
	if (e.faults) {
		parameter[n++] = (void *)(uintptr_t)&word;
		parameter[n++] = (void *)(uintptr_t)&site;
	}
	parameter[n] = (void *)(uintptr_t)&arrivals;
	if (blocks <= 0 || t->failure ||
	    !worked(t, t->cuda->cuModuleGetFunction(&f, t->module, e.name), e.name) ||
	    (e.shared &&
	     !worked(t, t->cuda->cuFuncSetAttribute(f, CUDA_DYNAMIC_SHARED, e.shared), e.name)))
		return;
	worked(t,
	       t->cuda->cuLaunchKernel(f, (unsigned)blocks, 1, 1, (unsigned)e.threads, 1, 1,
				       (unsigned)e.shared, NULL, parameter, NULL),
	       e.name);
	if (counts)
		test_gpu_get(t, zeros, arrivals, counts * (int64_t)sizeof *zeros);
	for (int64_t i = 0; i < counts && !t->failure; i++)
		if (zeros[i])
			t->failure = "a kernel leaves counters of blocks that are not 0";
}

void test_gpu_get(TestGpu *t, void *data, uint64_t from, int64_t bytes)
{
	if (worked(t, t->cuda->cuStreamSynchronize(NULL), "the kernels") && bytes)
		worked(t, t->cuda->cuMemcpyDtoHAsync_v2(data, from, (size_t)bytes, NULL), "a copy");
	worked(t, t->cuda->cuStreamSynchronize(NULL), "a copy");
}

void test_gpu_clear(TestGpu *t)
{
	for (int i = 0; i < t->memory.n; i++)
		t->cuda->cuMemFree_v2(t->memory.at[i]);
	t->memory.n = 0;
}

const char *test_gpu_failure(const TestGpu *t)
{
	return t->failure;
}

void test_gpu_close(TestGpu *t)
{
	CUcontext was;

	test_gpu_clear(t);
	t->cuda->cuModuleUnload(t->module);
	t->cuda->cuCtxPopCurrent_v2(&was);
	t->cuda->cuDevicePrimaryCtxRelease_v2(t->device);
}
