/* SPDX-License-Identifier: Apache-2.0 */
/* The driver API as a test uses it: modules from files, arrays that go there and back,
 * expectations. */
#ifndef PTXSIM_CHECK_GPU_H
#define PTXSIM_CHECK_GPU_H

#include "tools/ptxsim/cuda_api.h"

#include <stdbool.h>

CUresult cuInit(unsigned flags);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxSynchronize(void);
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n, int *option,
			    void **value);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name);
CUresult cuFuncSetAttribute(CUfunction f, int which, int value);
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n);
CUresult cuMemFree_v2(CUdeviceptr p);
CUresult cuMemAllocAsync(CUdeviceptr *p, size_t n, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr p);
CUresult cuMemHostAlloc(void **p, size_t n, unsigned flags);
CUresult cuMemFreeHost(void *p);
CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n);
CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, CUstream stream);
CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned value, size_t n);
CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t n, CUstream stream);
CUresult cuStreamCreate(CUstream *out, unsigned flags);
CUresult cuStreamDestroy_v2(CUstream s);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *out);
CUresult cuStreamIsCapturing(CUstream stream, int *status);
CUresult cuThreadExchangeStreamCaptureMode(int *mode);
CUresult cuEventCreate(CUevent *out, unsigned flags);
CUresult cuEventDestroy_v2(CUevent e);
CUresult cuEventRecord(CUevent e, CUstream stream);
CUresult cuEventSynchronize(CUevent e);
CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to);
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
			void **extra);
CUresult cuGraphCreate(CUgraph *out, unsigned flags);
CUresult cuGraphDestroy(CUgraph g);
CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
				 const CUDA_KERNEL_NODE_PARAMS *p);
CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
			      const CUDA_MEMCPY3D *p, CUcontext context);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags);
CUresult cuGraphExecDestroy(CUgraphExec e);
CUresult cuGraphLaunch(CUgraphExec e, CUstream stream);
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec e, CUgraphNode node,
					   const CUDA_KERNEL_NODE_PARAMS *p);
CUresult cuGetErrorName(CUresult code, const char **text);
CUresult cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
			     int *status);

void ptxsim_mark(void);
uint64_t ptxsim_calls(const char *prefix);
uint64_t ptxsim_allocations(void);
int ptxsim_live(void);
const char *ptxsim_message(void);
uint64_t ptxsim_counter(const char *kernel, const char *name);
void ptxsim_stats_clear(void);
void ptxsim_seed(uint64_t seed);
void ptxsim_quiet(int quiet);
void ptxsim_fail(uint64_t n, CUresult with);
int ptxsim_device(int sm);
void ptxsim_limit(uint64_t n);

/* Whether something holds; the test that runs fails where it does not. */
#define CHECK(what) check((what), __FILE__, __LINE__, #what)
#define OK(call)    check_ok((call), __FILE__, __LINE__, #call)
bool check(bool holds, const char *file, int line, const char *what);
bool check_ok(CUresult r, const char *file, int line, const char *what);
/* Prints why the running test fails. */
void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The module tests/ptxsim/NAME.ptx, loaded once; exits where it does not load. */
CUmodule module(const char *name);
CUfunction function(const char *module_name, const char *name);
/* The text of that module, which the caller frees. */
char *module_text(const char *name);
/* N bytes on the device with what SRC has; null: nothing. Freed when the test ends. */
CUdeviceptr put(const void *src, size_t n);
void get(void *dst, CUdeviceptr src, size_t n);
/* Launches and waits. Parameters are pointers to their values, null at the end. */
CUresult launch(CUfunction f, unsigned grid, unsigned block, unsigned shared, ...);
/* As launch, with a grid of two dimensions. */
CUresult launch2(CUfunction f, unsigned gx, unsigned gy, unsigned block, unsigned shared,
		 void **params);

/* Numbers from 0 to 1, or integers below N, the same in every run. */
float uniform(void);
uint32_t below(uint32_t n);

/* Whether two arrays agree: exactly, or within TOLERANCE times 1 plus the wanted magnitude. */
void same_u32(const uint32_t *got, const uint32_t *want, int n, const char *what);
void close_f32(const float *got, const float *want, int n, float tolerance, const char *what);

/* The status with which a case ends that this GPU, or this recording, does not have. */
enum { SKIPPED = 77 };

typedef struct Case {
	const char *name;
	void (*run)(void);
} Case;

extern const Case cuda_cases[], number_cases[], conversion_cases[], warp_cases[], matrix_cases[],
	fault_cases[], count_cases[], driver_cases[], capture_cases[], triton_cases[];

#endif
