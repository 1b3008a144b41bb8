/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs, through the CUDA driver. A model on a GPU retains the device's primary context, which other
 * code of the process shares, and never resets it. The model has one module with its kernels and
 * one copy of the weights. A context has a stream, its arena, memory for tensors that the caller
 * has on the host, and a CUDA graph for each set of dims that was prepared.
 *
 * Code that calls the driver pushes the primary context first and pops it afterwards. After an
 * error that the driver cannot recover from (an access outside of memory) the device is lost to the
 * process: `lost` is set, calls fail with DL_DEVICE_LOST, and models on the CPU still run. In a
 * child of fork the device is lost from the start, and the driver is never called.
 *
 *	cuda.c          the driver, its errors    cuda_model.c  load and unload; the module, by the first context
 *	cuda_context.c  memory of a context       cuda_run.c    a run: copies, waiting, the status word
 *	cuda_exec.c     functions for generated code; events for the profile
 *	cuda_stage.c    copies of tensors that the caller has on the host
 *	cuda_part.c     a list of calls as a CUDA graph    cuda_graph.c  runs that are CUDA graphs
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

enum { CUDA_INVALID_VALUE = 1, CUDA_NO_MEMORY = 2, CUDA_NOT_INITIALIZED = 3, CUDA_CAPTURE_IMPLICIT = 906 };
enum { CUDA_MEMORY_CLOCK = 36, CUDA_MEMORY_BUS = 37, CUDA_CAPABILITY_MAJOR = 75, CUDA_CAPABILITY_MINOR = 76, CUDA_BLOCK_SHARED = 97, CUDA_MEMORY_POOLS = 115 };
enum { CUDA_CAPTURE_NONE = 0, CUDA_CAPTURE_ACTIVE = 1 };  /* of a stream */
enum { CUDA_DYNAMIC_SHARED = 8 };                         /* of a function */
enum { CUDA_MEMORY_TYPE = 2, CUDA_DEVICE_ORDINAL = 9 };   /* of a pointer */
enum { CUDA_MEMORY_HOST = 1, CUDA_MEMORY_DEVICE = 2 };
enum { CUDA_NON_BLOCKING = 1, CUDA_NO_TIMING = 2 };       /* a stream, an event */

/* The driver's CUDA_KERNEL_NODE_PARAMS, version 1. */
typedef struct GpuKernelNode {
	CUfunction function;
	unsigned grid[3], block[3], shared;
	void **parameter, **extra;
} GpuKernelNode;

/* Source or destination in CUDA_MEMCPY3D. */
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

/* The functions of the driver. */
typedef struct Cuda {
#define CUDA(name, params) int (*name) params;
#define CUDA_LATER CUDA
#include "runtime/cuda.def"
#undef CUDA_LATER
#undef CUDA
	const char *no_graphs; /* a function for graphs that the driver lacks; null: none */
} Cuda;

/* A block of device memory that can grow. */
typedef struct GpuMem {
	CUdeviceptr at;
	uint64_t bytes;
} GpuMem;

/* Pinned host memory, which the GPU accesses at the same address. */
typedef struct Pinned {
	char *at;
	uint64_t bytes;
} Pinned;

struct GpuModel {
	const Cuda *cuda;
	CUdevice device;
	bool retained;
	CUcontext context;
	pthread_mutex_t fetching; /* protects the modules and fn */
	CUmodule module;          /* with all kernels: a cubin; or null */
	CUmodule *one;            /* by kernel: its own module, or null */
	const char **ptx;         /* by kernel */
	/* by kernel: null: not loaded yet. FN is null before the first context. */
	_Atomic(CUfunction) *fn;
	int sm; /* compute capability times ten */
	int block_shared; /* bytes of shared memory that a block may have */
	int pools; /* nonzero: memory can be allocated and freed in the order of a stream */
	uint64_t bytes_per_second; /* bandwidth of the memory; 0: not known */
	const dl_gpu_image *image;
	GpuMem weights;
	atomic_int lost;
	_Atomic(const char *) last_kernel; /* the kernel that any context launched last, or null */
	int process;   /* the process that opened it; a forked child cannot use it */
	/* a tool listens for NVTX ranges around kernels, which are then launched one by one */
	bool listened;
	char name[96]; /* "cuda:0 NVIDIA H200" */
};

/* A tensor in host memory that is larger than two pieces is copied piece by piece. GPU_PIECE:
 * the least bytes of a piece; GPU_PIECES: the most pieces of a tensor. */
enum { GPU_PIECE = 1 << 20, GPU_PIECES = 16 };

/* An input or output of a run. */
typedef struct GpuIo {
	GpuMem mem;    /* the tensor in the GPU's memory, if it is not the caller's memory itself */
	/* the buffer for copies between the host and the GPU, if the caller's memory is on the
	 * host */
	Pinned pinned;
	void *host;    /* the caller's memory, if on the host; else null */
	/* the caller's memory, if on the GPU but not aligned, so that MEM is used; else null */
	void *device;
	bool staged;   /* prepare has set it up for memory on the host */
	uint64_t bytes;
	/* of an output: when each piece has arrived in pinned memory; null: not created yet */
	CUevent arrived[GPU_PIECES];
} GpuIo;

/* The calls of generated code, and the copies of inputs and outputs. */
typedef enum GpuCallKind { GPU_KERNEL, GPU_COPY, GPU_IN, GPU_OUT } GpuCallKind;

typedef struct GpuCall {
	GpuCallKind kind;
	/* of a kernel: its number; of a copy: the input's or output's number, counted together */
	int32_t which;
	int32_t fn, site; /* of a kernel */
	/* of words: the arguments of a kernel; destination, source and bytes of a copy */
	int32_t first, n;
	int64_t blocks;   /* of a kernel */
	bool off;         /* the copy is switched off, since the caller's memory is the GPU's */
} GpuCall;

typedef struct GpuCalls {
	GpuCall *call;
	uint64_t *word;
	int32_t n, room, n_words, room_words;
} GpuCalls;

typedef struct GpuPart {
	struct GpuPart *next;
	CUgraph graph;
	CUgraphExec exec; /* null: not created yet */
	CUgraphNode *node;
	/* by word of HAS: the input or output (counted together) that it points to and that a node
	 * copies, which the order of the nodes respects; -1: none. It follows NODE in one block. */
	int32_t *uses;
	uint64_t node_bytes;
	uint64_t moves; /* GpuContext.moves as of USES */
	GpuCalls has; /* the calls that the nodes carry out, one for each node */
} GpuPart;

typedef struct GpuGraph GpuGraph;
typedef struct GpuMarks GpuMarks;

enum { GPU_GRAPHS = 8 }; /* a context keeps the graphs that were used last */
/* The first counters have 16 KiB and all others at least twice as many bytes as those before:
 * memory for so many does not exist. */
enum { GPU_ARRIVALS = 40 };

struct GpuContext {
	/* STREAM: the current run's, which may be the caller's; null is the default stream */
	CUstream own, stream;
	bool capturing;       /* the caller is capturing the stream of this run */
	/* a run was captured: a graph of the caller's may contain addresses of this context's
	 * memory */
	bool captured;
	bool busy;            /* work of this context may still be in flight */
	/* `order` was recorded after that work, in a stream of the caller's */
	bool ended;
	bool waits;           /* this run has outputs to copy to the host */
	CUevent order;        /* orders the work of one stream before that of another */
	GpuMem arena, *region; /* region: as many as the program has */
	/* Counters of blocks, which are 0 between kernels; new nodes use the last ones. Those
	 * before are kept, as nodes of graphs have their addresses. */
	GpuMem arrivals[GPU_ARRIVALS];
	int32_t n_arrivals;
	GpuIo *in, *out;
	Pinned word;          /* the status word, which kernels write */
	/* for messages, while busy: the kernel that was launched last, or -1; FLOWN: the graph,
	 * or null */
	int32_t last;
	const GpuPart *flown;
	uint64_t moves;       /* number of times that memory of this context has moved */
	GpuMarks *marks;      /* for the profile; else null */
	GpuGraph *graph[GPU_GRAPHS];
	/* the graph that calls of generated code are added to; null: they go to the stream */
	GpuGraph *making;
	GpuCalls collected;        /* the calls of the part that is being collected */
	uint64_t used;        /* a counter of uses of graphs */
};

/* ---- cuda.c ---- */

/* Opens the driver, once per process. Null if there is none, with the reason in *WHY. */
const Cuda *cuda_open(const char **why);
/* "CUDA_ERROR_X: text" */
const char *cuda_error(const Cuda *cuda, int status, char *text, size_t room);
/* Whether the context is unusable after this status. The cause is a failure of a kernel, which
 * any later call may report. */
bool gpu_is_sticky(int status);
/* Converts the driver's status to a dl_status; marks the device as lost if it is. */
int gpu_status(GpuModel *g, int status);
/* The reason why this process cannot use the GPU any more; null: it can. */
const char *gpu_lost(const GpuModel *g);

/* ---- cuda_model.c ---- */

/* Makes the GPU's context current in this thread; returns the driver's status. */
int gpu_push(GpuModel *g);
/* As gpu_push, to free resources, which depends on it, so it is tried twice. Whether it
 * succeeded. */
bool gpu_push_to_free(GpuModel *g);
/* Restores the context that was current before gpu_push. */
void gpu_pop(GpuModel *g);
/* Loads the kernels if they are compiled for this GPU; else only makes their tables, as the driver
 * may need seconds to compile all of them; under the GPU's context. Returns the status; the model
 * has the text. */
int gpu_fetch(dl_model *m);
/* Loads kernels FN[0..N), all different (null: all), that are not loaded yet, several at a time;
 * under the GPU's context. Returns the status, with the text in WHY. */
enum { GPU_WHY = 400 };
int gpu_load(dl_model *m, const int32_t *fn, int32_t n, char *why);

/* ---- cuda_context.c ---- */

/* Records in the context that WHAT failed; returns the status. If the cause may be a kernel that
 * failed earlier, the text names the last one, or those of the last graph. */
int gpu_fail(dl_context *c, int status, const char *what);
/* As gpu_fail, for waiting: the cause is always a kernel. */
int gpu_fail_by_now(dl_context *c, int status);
/* As gpu_load, for a run or for prepare; the context has the text. */
int gpu_need(dl_context *c, const int32_t *fn, int32_t n);
/* Notes that the kernel, or, if PART is not null, that graph, was put into the stream. */
void gpu_launched(dl_context *c, int32_t kernel, const GpuPart *part);
/* Fails if this run's stream is being captured; DOES names the action of the run that a caller's
 * graph cannot contain. */
int gpu_not_captured(dl_context *c, const char *does);
/* Notes that work was put into the stream; in a capture it runs only with the caller's graph. */
void gpu_began(dl_context *c);
/* Grows M to at least BYTES and preserves the first KEEP of them; in the order of the stream, if
 * the device has memory pools. If some are preserved, M grows by at least half, since it grows in
 * each iteration of a loop. */
int gpu_grow(dl_context *c, GpuMem *m, int64_t bytes, int64_t keep);
/* Makes at least N counters of blocks (GpuContext.arrivals). */
int gpu_arrivals(dl_context *c, int64_t n);
/* As gpu_grow, for pinned memory. No copy uses it: a run with tensors on the host waits at its
 * end. */
int gpu_pin(dl_context *c, Pinned *p, uint64_t bytes);
/* Waits until no work of the context is in flight; returns the driver's status. */
int gpu_idle(dl_context *c);

/* ---- cuda_stage.c ---- */

/* Whether IO is copied in pieces if it is in host memory. */
bool gpu_in_pieces(const GpuIo *io);
/* Allocates pinned memory for io->bytes, and events if they are needed. */
int gpu_stage(dl_context *c, GpuIo *io);
/* Frees all memory of IO; under the GPU's context. */
void gpu_io_free(const Cuda *cuda, GpuIo *io);
/* Copies input NAME to the GPU, before the kernels that are launched next. IN_GRAPH: except for the
 * copies that are nodes of the graph. */
int gpu_send(dl_context *c, GpuIo *io, const char *name, bool in_graph);
/* Copies an output to the host, after the kernels that were launched. */
int gpu_bring(dl_context *c, GpuIo *io, bool in_graph);
/* Copies an output in pieces to the caller's memory, each piece when it has arrived. */
int gpu_take_pieces(dl_context *c, const GpuIo *io);
/* Copies any other output to the caller's memory, when nothing is in flight. */
void gpu_take(const GpuIo *io);

/* ---- cuda_exec.c ---- */

/* Makes the events of a context, which measure when its kernels begin and end, if the model has
 * a profile. */
int gpu_marks_new(dl_context *c);
/* HELD: the GPU's context is current, so the driver may be called. */
void gpu_marks_free(dl_context *c, bool held);
/* Waits for the kernels since the last call, and adds their times to the profile. */
int gpu_marks_flush(dl_context *c);
/* Drops the events, since the run failed. */
void gpu_marks_drop(dl_context *c);
/* Fills P with pointers to the parameters of a kernel, at most 4 KiB: the arguments ARG that
 * generated code gives, then those that dl_gpu_launch adds. The compiler refuses kernels with
 * more. */
enum { GPU_MOST_ARGS = 512 };
typedef struct GpuArgs {
	void *p[GPU_MOST_ARGS];
	uint64_t status, site, arrivals;
} GpuArgs;
void gpu_args(const dl_exec *x, GpuArgs *a, const dl_gpu_fn *f, const uint64_t *arg, int32_t n, int32_t site);

/* ---- cuda_part.c ---- */

/* Adds a call to the part that is being collected. */
int gpu_call(dl_context *c, const GpuCall *call, const uint64_t *word);
/* Empties S and frees its memory. */
void gpu_calls_free(dl_context *c, GpuCalls *s);
/* Makes P carry out the collected calls: updates its nodes, or builds the graph again if it
 * consists of other calls. After a failure P is empty, or only partly updated. */
int gpu_part_set(dl_context *c, GpuPart *p);
/* Launches P in the stream of the run; the context is then busy. Returns the status; the context
 * has the text. */
int gpu_part_launch(dl_context *c, const GpuPart *p);
/* Frees P and all parts after it. HELD: as for gpu_marks_free. */
void gpu_parts_free(dl_context *c, GpuPart *p, bool held);
/* Writes "a graph of 12 kernels: A; B; C; ..." to TEXT. */
const char *gpu_part_text(const dl_context *c, const GpuPart *p, char *text, size_t room);
/* As gpu_fail, with the kernels of P in the text. */
int gpu_part_fail(dl_context *c, const GpuPart *p, int status);

/* ---- cuda_graph.c ---- */

/* Makes the graph of a run with the dims that are bound, whose memory is allocated. If the model
 * reads values during the run, the graph has no parts until the first run. */
int gpu_graph_make(dl_context *c);
/* The graph for the dims that are bound, or null. */
GpuGraph *gpu_graph_find(dl_context *c);
/* Launches the graph over x.in and x.out. The caller copies between host and pinned memory. */
int gpu_graph_launch(dl_context *c, GpuGraph *g);
/* Frees all graphs of the context, and the collected calls. HELD: as for gpu_marks_free. */
void gpu_graphs_free(dl_context *c, bool held);
/* Add a kernel or a copy to the graph that is being made or updated. */
int gpu_graph_kernel(dl_exec *x, int32_t kernel, int32_t fn, const uint64_t *arg, int32_t n_args, int64_t blocks,
		     int32_t site);
int gpu_graph_copy(dl_exec *x, CUdeviceptr to, CUdeviceptr from, uint64_t bytes);
/* The following calls need values that only a run has. While prepare makes a graph, this fails,
 * and the graph is left to the first run. */
int gpu_graph_reads(dl_exec *x);
/* If a graph is being collected, ends its current part and puts it into the stream, before the
 * host waits for it. */
int gpu_graph_cut(dl_context *c);

#endif
