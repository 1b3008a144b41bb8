/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs, through the CUDA driver. A model on a GPU retains the device's primary context, which it shares with whatever
 * else the process runs there, and never resets it; it has one module with its kernels, and one copy of the weights.
 * A context has a stream, its arena, memory for what the caller keeps on the host, and a graph for each set of dims
 * that was prepared.
 *
 * Whoever calls the driver pushes the context first and pops it after. After an error that the driver cannot recover
 * from (an access outside of memory) the device is lost to the process: `lost` is set, calls fail with DL_DEVICE_LOST,
 * and models on the CPU still run. To a child of fork it is lost from the start, and the driver is not called there.
 *
 *	cuda.c          the driver, its errors    cuda_model.c  load and unload; the module, by the first context
 *	cuda_context.c  memory of a context       cuda_run.c    a run: copies, waiting, the status word
 *	cuda_exec.c     what generated code calls; events for the profile
 *	cuda_stage.c    tensors on the host
 *	cuda_part.c     a list of such calls as a CUDA graph    cuda_graph.c  runs that are graphs
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
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef unsigned long long CUdeviceptr;

enum { CUDA_NO_MEMORY = 2, CUDA_NOT_INITIALIZED = 3, CUDA_CAPTURE_IMPLICIT = 906 };
enum { CUDA_MEMORY_CLOCK = 36, CUDA_MEMORY_BUS = 37, CUDA_CAPABILITY_MAJOR = 75, CUDA_CAPABILITY_MINOR = 76, CUDA_BLOCK_SHARED = 97, CUDA_MEMORY_POOLS = 115 };
enum { CUDA_CAPTURE_NONE = 0, CUDA_CAPTURE_ACTIVE = 1 };  /* of a stream */
enum { CUDA_DYNAMIC_SHARED = 8 };                         /* of a function */
enum { CUDA_MEMORY_TYPE = 2, CUDA_DEVICE_ORDINAL = 9 };   /* of a pointer */
enum { CUDA_MEMORY_HOST = 1, CUDA_MEMORY_DEVICE = 2 };
enum { CUDA_NON_BLOCKING = 1, CUDA_NO_TIMING = 2 };       /* a stream, an event */

/* CUDA_KERNEL_NODE_PARAMS of the driver, version 1. */
typedef struct GpuKernelNode {
	CUfunction function;
	unsigned grid[3], block[3], shared;
	void **parameter, **extra;
} GpuKernelNode;

/* One side of a copy in CUDA_MEMCPY3D. */
typedef struct GpuCopySide {
	size_t x, y, z, level;
	int type; /* CUDA_MEMORY_ */
	void *host;
	CUdeviceptr device;
	void *array, *reserved;
	size_t pitch, height;
} GpuCopySide;

typedef struct GpuCopyNode {
	GpuCopySide from, to;
	size_t width, height, depth;
} GpuCopyNode;

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

/* Host memory that the GPU reaches by itself, at the same address. */
typedef struct Pinned {
	char *at;
	uint64_t bytes;
} Pinned;

struct Gpu {
	const Cuda *cuda;
	CUdevice device;
	bool retained;
	CUcontext context;
	pthread_mutex_t fetching; /* module and fn, by the first context */
	CUmodule module;
	CUfunction *fn; /* null: not fetched yet */
	int sm; /* compute capability times ten */
	int block_shared; /* bytes of shared memory that a block may have */
	int pools; /* nonzero: memory is allocated and freed in the order of a stream */
	uint64_t bytes_per_second; /* of the memory; 0: not known */
	const dl_gpu_image *image;
	GpuMem weights;
	atomic_int lost;
	_Atomic(const char *) ran; /* the kernel that any context launched last, or null */
	int process;   /* that opened it; a child of fork has no use of it */
	bool listened; /* by a tool: ranges around kernels, which are then launched one by one */
	char name[96]; /* "cuda:0 NVIDIA H200" */
};

/* A tensor on the host that is larger than two pieces goes in pieces, of so many bytes at least, so many at most. */
enum { GPU_PIECE = 1 << 20, GPU_PIECES = 16 };

/* An input or output of a run. */
typedef struct GpuIo {
	GpuMem mem;    /* where the GPU has it, unless the caller's memory serves */
	Pinned pinned; /* what of the caller's is on the host, on its way */
	void *host;    /* the caller's memory, on the host; null: on the GPU */
	void *device;  /* the caller's memory, on the GPU, where it does not serve; null: it does */
	bool staged;   /* by prepare: what the caller will give is taken to be on the host */
	uint64_t bytes;
	CUevent there[GPU_PIECES]; /* of an output: when each piece is in pinned memory; null: not needed so far */
} GpuIo;

/* What generated code asks for, and copies of inputs and outputs. */
typedef enum GpuCallKind { GPU_KERNEL, GPU_COPY, GPU_IN, GPU_OUT } GpuCallKind;

typedef struct GpuCall {
	GpuCallKind kind;
	int32_t which;    /* kernel; or which input or output, of both */
	int32_t fn, site; /* of a kernel */
	int32_t first, n; /* of words: a kernel's arguments; to, from, bytes */
	int64_t blocks;   /* of a kernel */
	bool off;         /* a copy that is not needed, since the caller's memory is the GPU's */
} GpuCall;

typedef struct GpuCalls {
	GpuCall *call;
	uint64_t *word;
	int32_t n, room, n_words, room_words;
} GpuCalls;

typedef struct GpuPart {
	struct GpuPart *next;
	CUgraph graph;
	CUgraphExec exec; /* null: not made yet */
	CUgraphNode *node;
	uint64_t node_bytes;
	GpuCalls has; /* what the nodes do, one for one */
} GpuPart;

typedef struct GpuGraph GpuGraph;
typedef struct GpuMarks GpuMarks;

enum { GPU_GRAPHS = 8 }; /* a context keeps so many, those that were used last */

struct GpuContext {
	CUstream own, stream; /* stream: between enter and leave it may be the caller's, null the default stream */
	bool capturing;       /* this run's stream is being captured by the caller */
	bool captured;        /* one was: a graph of the caller's may hold addresses of this context's memory */
	bool busy;            /* what was begun in it may not be done */
	bool ended;           /* order stands at the end of that, in a stream that was the caller's */
	bool waits;           /* this run has something to bring back to the host */
	CUevent order;        /* where one stream stands when a run goes on in another */
	GpuMem arena, *region; /* region: the program's */
	GpuIo *in, *out;
	Pinned word;          /* the status, which kernels write */
	int32_t last;         /* for messages, while busy: the kernel that was launched last, or -1; or the graph, or null */
	const GpuPart *flown;
	uint64_t moves;       /* how often memory of this context has moved */
	GpuMarks *marks;      /* where there is a profile */
	GpuGraph *graph[GPU_GRAPHS];
	GpuGraph *making;     /* what generated code calls goes into it; null: into the stream */
	GpuCalls said;        /* such calls, of the part that is being collected */
	uint64_t used;        /* counts uses of graphs */
};

/* ---- cuda.c ---- */

/* The driver, opened once a process; null where there is none, with the reason in *WHY. */
const Cuda *cuda_open(const char **why);
/* "CUDA_ERROR_X: text" */
const char *cuda_error(const Cuda *cuda, int status, char *text, size_t room);
/* Whether the context is of no more use after it; it is then the failure of a kernel, which shows in any later call. */
bool gpu_is_sticky(int status);
/* A driver's failure as ours; the device may be lost from now on. */
int gpu_status(Gpu *g, int status);
/* Why this process can use the GPU no more; null: it can. */
const char *gpu_lost(const Gpu *g);

/* ---- cuda_model.c ---- */

/* The GPU's context is this thread's until popped; the driver's status. */
int gpu_push(Gpu *g);
/* The same, to give back what is held: that hangs on it, so it is tried twice. Whether it is. */
bool gpu_push_to_free(Gpu *g);
/* What was this thread's context before gpu_push is again. */
void gpu_pop(Gpu *g);
/* Module and functions, by whoever is first; under the GPU's context. The status; the model has the text. */
int gpu_fetch(dl_model *m);

/* ---- cuda_context.c ---- */

/* Records the failure of WHAT in the context; the status that is returned. Where a kernel failed before, and it shows only
 * now, the text names the last one, or those of the last graph. */
int gpu_fail(dl_context *c, int status, const char *what);
/* The same of what was waited for: kernels, whatever the status. */
int gpu_fail_by_now(dl_context *c, int status);
/* Kernel, or else the graph, was put into the stream. */
void gpu_launched(dl_context *c, int32_t kernel, const GpuPart *part);
/* Fails where this run's stream is being captured: the run DOES what cannot be in the caller's graph. */
int gpu_not_captured(dl_context *c, const char *does);
/* Something was put into the stream; in a capture it runs only as part of the caller's graph. */
void gpu_began(dl_context *c);
/* At least BYTES; what was there is lost. In the order of the stream, where the device has pools of memory. */
int gpu_grow(dl_context *c, GpuMem *m, int64_t bytes);
/* The same of host memory that the GPU reaches. No copy of it is in flight: a run with tensors on the host waits at its end. */
int gpu_pin(dl_context *c, Pinned *p, uint64_t bytes);
/* Waits until nothing of the context is in flight; the driver's status. */
int gpu_idle(dl_context *c);

/* ---- cuda_stage.c ---- */

/* Whether IO, of io->bytes, goes in pieces where it is on the host. */
bool gpu_in_pieces(const GpuIo *io);
/* Pinned memory for io->bytes, and events where they are needed. */
int gpu_stage(dl_context *c, GpuIo *io);
/* All memory of IO; under the GPU's context. */
void gpu_io_free(const Cuda *cuda, GpuIo *io);
/* Input NAME on its way to where the GPU has it, before what is launched next. IN_GRAPH: but for what a node of the graph
 * copies. */
int gpu_send(dl_context *c, GpuIo *io, const char *name, bool in_graph);
/* The same of an output, behind what was launched. */
int gpu_bring(dl_context *c, GpuIo *io, bool in_graph);
/* An output in pieces, to the caller's memory as they come. */
int gpu_take_pieces(dl_context *c, const GpuIo *io);
/* Any other, once nothing is in flight. */
void gpu_take(const GpuIo *io);

/* ---- cuda_exec.c ---- */

/* The events of a context, which tell when its kernels begin and end. Made where the model has a profile. */
int gpu_marks_new(dl_context *c);
/* Where there are none, nothing. The driver is called where the GPU's context is at hand; HELD. */
void gpu_marks_free(dl_context *c, bool held);
/* Waits for the kernels since the last such call and adds their times to the profile. */
int gpu_marks_flush(dl_context *c);
/* They do not count: their run failed. */
void gpu_marks_drop(dl_context *c);
/* The parameters of a kernel: those that generated code gives, then the status word's, 4 KiB in all. Into P, with room for
 * them. */
enum { GPU_MOST_ARGS = 510 };
typedef struct GpuArgs {
	void *p[GPU_MOST_ARGS + 2];
	uint64_t status, site;
} GpuArgs;
void gpu_args(const dl_exec *x, GpuArgs *a, const dl_gpu_fn *f, const uint64_t *arg, int32_t n, int32_t site);

/* ---- cuda_part.c ---- */

/* A call more in the part that is collected. */
int gpu_call(dl_context *c, const GpuCall *call, const uint64_t *word);
/* S is empty, its memory given back. */
void gpu_calls_free(dl_context *c, GpuCalls *s);
/* P does what was collected: its nodes are told, or made anew where other calls stand there. After a failure it is none or
 * does part of it. */
int gpu_part_set(dl_context *c, GpuPart *p);
/* Into the stream of the run; the context is busy from now on. The status; the context has the text. */
int gpu_part_launch(dl_context *c, const GpuPart *p);
/* P and all that follow it. The driver is called where the GPU's context is at hand; HELD. */
void gpu_parts_free(dl_context *c, GpuPart *p, bool held);
/* "a graph of 12 kernels: A; B; C; ..." into TEXT. */
const char *gpu_part_text(const dl_context *c, const GpuPart *p, char *text, size_t room);
/* As gpu_fail, naming the kernels of P. */
int gpu_part_fail(dl_context *c, const GpuPart *p, int status);

/* ---- cuda_graph.c ---- */

/* A graph of a run with the dims that are bound, whose memory is there. Of a model that reads values while it runs it has no
 * parts until the first run. */
int gpu_graph_make(dl_context *c);
/* The graph of the dims that are bound, or null. */
GpuGraph *gpu_graph_find(dl_context *c);
/* Launches it over x.in and x.out; copies between host and pinned memory are the caller's part. */
int gpu_graph_launch(dl_context *c, GpuGraph *g);
/* All graphs of the context, and the calls that are collected; HELD as of gpu_parts_free. */
void gpu_graphs_free(dl_context *c, bool held);
/* What goes into the graph that is being made or brought up to date. */
int gpu_graph_kernel(dl_exec *x, int32_t kernel, int32_t fn, const uint64_t *arg, int32_t n_args, int64_t blocks,
		     int32_t site);
int gpu_graph_copy(dl_exec *x, CUdeviceptr to, CUdeviceptr from, uint64_t bytes);
/* What comes needs what only a run has: while prepare makes a graph that is given up, and so is the call of generated
 * code. */
int gpu_graph_reads(dl_exec *x);
/* Where a graph is collected: what was called so far goes into the stream, before it is waited for. */
int gpu_graph_cut(dl_context *c);

#endif
