/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs, through the CUDA driver. A model on a GPU retains the device's primary context, which it shares with whatever
 * else the process runs there, and never resets it; it has one module with its kernels, and one copy of the weights.
 * A context has a stream, its arena, and memory for what the caller keeps on the host.
 *
 * Whoever calls the driver pushes the context first and pops it after. After an error that the driver cannot recover
 * from (an access outside of memory) the device is lost to the process: `lost` is set, calls fail with DL_DEVICE_LOST,
 * and models on the CPU still run.
 *
 *	cuda.c        the driver, its errors        cuda_model.c  load and unload
 *	cuda_context.c  memory of a context         cuda_run.c    a run: copies, launches, the status word
 */
#ifndef RUNTIME_CUDA_H
#define RUNTIME_CUDA_H

#include "runtime/rt.h"

typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef unsigned long long CUdeviceptr;

enum { CUDA_NO_MEMORY = 2, CUDA_NO_IMAGE = 209 };
enum { CUDA_DYNAMIC_SHARED = 8 }; /* of a function */
enum { CUDA_CAPABILITY_MAJOR = 75, CUDA_CAPABILITY_MINOR = 76, CUDA_MEMORY_TYPE = 2, CUDA_MEMORY_HOST = 1, CUDA_MEMORY_DEVICE = 2 };

/* The driver's functions. */
typedef struct Cuda {
#define CUDA(name, params) int (*name) params;
#include "runtime/cuda.def"
#undef CUDA
} Cuda;

/* A piece of device memory that grows. */
typedef struct GpuMem {
	CUdeviceptr at;
	uint64_t bytes;
} GpuMem;

/* Host memory that the GPU reaches by itself. */
typedef struct Pinned {
	char *at;
	uint64_t bytes;
} Pinned;

struct Gpu {
	const Cuda *cuda;
	CUdevice device;
	bool retained;
	CUcontext context;
	CUmodule module;
	CUfunction *fn;
	int sm; /* compute capability times ten */
	const dl_gpu_image *image;
	GpuMem weights;
	atomic_int lost;
	char name[96]; /* "cuda:0 NVIDIA H200" */
};

/* An input or output of a run. */
typedef struct GpuIo {
	GpuMem mem;   /* where the GPU has it, unless the caller's memory serves */
	void *host;   /* the caller's memory, on the host; null: on the GPU */
	void *device; /* the caller's memory, on the GPU, where it does not serve; null: it does */
	uint64_t bytes;
} GpuIo;

struct GpuContext {
	CUstream own, stream; /* stream: of the run in flight */
	CUevent begin, end;   /* profiling */
	GpuMem status, arena;
	GpuMem *region;       /* the program's */
	GpuIo *in, *out;
	Pinned word, in_pinned, out_pinned; /* word: the status, then what dl_gpu_read reads */
	int32_t last;         /* the kernel that was launched last, for messages */
	bool waits;           /* this run has something to bring back to the host */
};

/* cuda.c */
/* The driver, once a process; null where there is none, with the reason in *WHY. */
const Cuda *cuda_open(const char **why);
/* "CUDA_ERROR_X: text" */
const char *cuda_error(const Cuda *cuda, int status, char *text, size_t room);
/* A driver's failure as ours; the device may be lost from now on. */
int gpu_status(Gpu *g, int status);

/* cuda_context.c */
bool gpu_push(Gpu *g);
void gpu_pop(Gpu *g);
/* Records the failure of WHAT in the context; the status that is returned. */
int gpu_fail(dl_context *c, int status, const char *what);
/* At least BYTES; what was there is lost. */
int gpu_grow(dl_context *c, GpuMem *m, int64_t bytes);
int gpu_pin(dl_context *c, Pinned *p, uint64_t bytes);

#endif
