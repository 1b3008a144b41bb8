/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver behind the entry points.
 *
 * Work is done as late as its caller allows: an operation waits in a queue until something that
 * must come after it is requested. Then it and all operations that it depends on run, on the
 * waiting thread. Unordered operations run in an order drawn from the seed; with a seed other than
 * 0 some also run early. One lock is held during a call.
 *
 * An error of a kernel is sticky: every later call returns it, and waiting operations are dropped.
 */
#ifndef TOOLS_PTXSIM_DRIVER_H
#define TOOLS_PTXSIM_DRIVER_H

#include "tools/ptxsim/cuda_api.h"
#include "tools/ptxsim/memory.h"
#include "tools/ptxsim/ptx.h"

#define API __attribute__((visibility("default")))

typedef struct Device {
	int sm, count, smem_block, smem_multi, blocks, warps, l2, bus, clock, mem_clock;
	const char *name;
} Device;

typedef enum Kind {
	K_MODULE = 0x6d6f64,
	K_FUNCTION,
	K_STREAM,
	K_EVENT,
	K_GRAPH,
	K_NODE,
	K_EXEC,
	K_CONTEXT
} Kind;

/* Objects behind handles begin with this. */
typedef struct Head {
	Kind kind;
	struct Head *prev, *next; /* all of the process */
} Head;

/* Of one or several streams, by the application (driver_capture.c). */
typedef struct Capture Capture;

typedef struct Seq {
	uint64_t *at;
	int n, cap;
} Seq;

struct CUctx_st {
	Head head;
	int device, retained;
};

struct CUfunc_st {
	Head head;
	Func *f;
	CUmodule module;
	int dynamic_shared; /* allowed */
	CUfunction next;
};

struct CUmod_st {
	Head head;
	Module *m;
	CUfunction functions;
	Alloc **vars; /* of m->vars, null for other spaces */
};

struct CUstream_st {
	Head head;
	bool blocking; /* it waits for the null stream, and that for it */
	uint64_t last; /* operation */
	Seq waits;     /* operations that the next one also waits for */
	Capture *capture; /* null: none */
	Seq ends;         /* in a capture: the nodes that the next one comes after, as addresses */
};

struct CUevent_st {
	Head head;
	uint64_t op; /* that records it; 0: never recorded */
	bool timing;
	uint64_t when;
	Capture *capture; /* that records it: not null, and OP says nothing */
	Seq ends;
};

typedef enum OpType { OP_NOTHING, OP_KERNEL, OP_COPY, OP_SET, OP_FREE, OP_HOST, OP_RECORD } OpType;

typedef struct Work {
	OpType type;
	CUfunction f;
	uint32_t grid[3], block[3], shared;
	uint8_t *params;      /* owned */
	CUdeviceptr dst, src; /* addresses of the device or the host */
	uint64_t bytes, rows, dst_pitch, src_pitch;
	uint32_t value, element;
	uint8_t *staged; /* owned: the data that a copy from pageable memory captured */
	Alloc *alloc;
	CUhostFn *fn;
	void *data;
	CUevent event;
} Work;

extern struct Driver {
	bool ready;
	uint64_t seed;
	CUresult sticky;
	char message[2048];
	uint64_t calls, fail_at; /* FAIL_AT: the number of a call, 0: none */
	CUresult fail_with;
	const char *failed; /* the name of that call, once it was made */
	uint64_t kernels, break_at; /* BREAK_AT: the number of a kernel that fails when it runs, 0: none */
	CUresult break_with;
	const Device *device;
	int n_devices;
	struct CUstream_st null_stream;
	uint64_t time; /* goes on with work */
	bool trace, quiet, pools;
	uint64_t limit;
} driver;

/* ---- driver.c ---- */
/* Every entry point begins and ends with these. enter returns an error that the call must return at
 * once; the lock is held in any case. */
CUresult enter(const char *name, bool needs_context);
CUresult leave(CUresult r);
CUcontext current_context(void);
/* Makes the device one of that SM; false: there is none. */
bool choose_device(int sm);
/* Memory for a handle of KIND; null without memory. free_head releases it. */
void *new_head(Kind kind, size_t size);
void free_head(void *p);
bool is_head(const void *p, Kind kind);
int live_heads(void);
/* The handle of KIND that was made after P; the first for null, null after the last. */
void *next_head(const void *p, Kind kind);
void say(const char *fmt, ...) BASE_PRINTF(1, 2);

/* ---- queue.c ---- */
CUstream
stream_of(CUstream s); /* null and the legacy and per-thread handles too; null: bad handle */
/* Puts W, which it takes, at the end of S. The number of the operation, 0: no memory. */
uint64_t queue_push(CUstream s, Work w);
/* As above, after AFTER as well, and not in a stream where S is null. */
uint64_t queue_add(CUstream s, Work w, const uint64_t *after, int n);
bool queue_done(uint64_t op);
/* Runs OP and the operations that it needs. Returns the driver's sticky error. */
CUresult queue_force(uint64_t op);
CUresult queue_force_all(void);
/* Some operations that could run, run; draws. */
void queue_nudge(void);
/* One operation that OP needs, or OP, runs. */
void queue_step(uint64_t op);
void seq_push(Seq *s, uint64_t v);
void work_free(Work *w);

/* ---- work.c ---- */
CUresult work_run(Work *w);
/* Checks a launch and takes the parameters. */
CUresult work_kernel(Work *w, CUfunction f, const unsigned grid[3], const unsigned block[3],
		     unsigned shared, void **params, void **extra);
CUresult work_copy3d(Work *w, const CUDA_MEMCPY3D *p);
CUresult work_set(Work *w, CUdeviceptr dst, uint64_t value, unsigned element, uint64_t count);

/* ---- driver_graph.c ---- */
CUresult graph_new(CUgraph *out);
void graph_free(CUgraph g);
/* Adds a node that does W, which it takes. */
CUresult graph_add(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n, Work w);
/* NODE is one of ENDS, which are addresses, or comes before one. */
bool graph_precedes(CUgraph g, CUgraphNode node, const Seq *ends);

/* ---- driver_capture.c ---- */
typedef enum StreamUse { CAPTURABLE, NOT_CAPTURABLE } StreamUse;
/* Sets *S to the stream of HANDLE. Returns the status for its use: captures permit few uses, and
 * NOT_CAPTURABLE none. */
CUresult stream_for(CUstream handle, StreamUse use, CUstream *s);
/* As enter(), of a call that captures of threads may prohibit. */
CUresult enter_unsafe(const char *name);
/* As queue_push(), into the graph of the capture of S. */
uint64_t capture_push(CUstream s, Work w);
void capture_record(CUevent e, CUstream s);
/* Captured stream S waits for E, or any for the event of a capture. */
CUresult capture_wait(CUstream s, CUevent e);
/* The status of a call whose event is not captured. */
CUresult capture_event_error(CUevent e);
/* S goes. */
void capture_leave(CUstream s);

/* ---- calls.c ---- */
/* Functions for tests. */
void calls_count(const char *name);
void calls_write(void);

#endif
