/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the runtime share. The runtime is linked into every artifact: it includes
 * nothing of the compiler, needs C11, libc and pthreads only, has no global constructors, and all
 * its symbols are hidden, so that each artifact has its own copy.
 *
 *	model.c    load and unload          weights.c  where the weights are
 *	context.c  workspace, plan, prepare run.c      a run: bind, outputs, exec
 *	exec.c     what generated code calls
 *	pool.c     threads                  budget.c   how many threads, process-wide
 *	profile.c  time per kernel          cpu.c      features and the floating point environment
 *	nvtx.c     ranges for NVIDIA's tools
 *	cuda*.c    GPUs: see cuda.h
 */
#ifndef RUNTIME_RT_H
#define RUNTIME_RT_H

#define DLRT_GENERATED 1
#include "runtime/dlrt.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>

#define RT_ALIGN 64u
#define RT_MAX_THREADS 1024

typedef struct Pool Pool;
typedef struct Profile Profile;
typedef struct Gpu Gpu;
typedef struct GpuContext GpuContext;

/* How a model and a context begin, so that error() can tell them apart from anything else. */
typedef struct Head {
	uint32_t magic;
	char error[508];
} Head;

#define RT_MAGIC_MODEL 0x646c6d31u
#define RT_MAGIC_CONTEXT 0x646c6331u

typedef struct Weights {
	char *base;
	void *map;         /* munmap(map, map_bytes) at the end, or null */
	uint64_t map_bytes;
	void *owned;       /* from the allocator, or null */
} Weights;

struct dl_model {
	Head head; /* its text is written and read under lock */
	const dl_program *prog; /* &program; on a GPU: the one for GPUs */
	dl_program program;     /* that of the generated code; what an earlier version of it lacks is zero */
	const dl_desc *desc;    /* what describe gives: of the CPU's program */
	Gpu *gpu;               /* null: the CPU */
	dl_load_options opt;
	pthread_mutex_t lock;
	Weights weights;
	Pool *pool; /* null: one thread, or the user's executor */
	Profile *profile;
	atomic_int contexts;
	int32_t threads; /* parts a launch is cut into at most, and scratch areas in a workspace */
	int32_t variant;
};

/* A growing piece of memory from the allocator. */
struct dl_region {
	void *p;
	uint64_t bytes;
};

struct dl_context {
	Head head;
	dl_model *model;
	dl_exec x;
	atomic_int cancel;
	atomic_int running;
	int32_t fault;
	int32_t id; /* in the profile */
	uint32_t flags; /* DL_CONTEXT_ */
	uint64_t own_bytes; /* of this struct and its arrays */
	/* workspace: the arena, then one scratch area per thread */
	char *arena;
	uint64_t arena_bytes;
	bool arena_borrowed;
	bool planned; /* planned_sym is what buf and scratch stand for */
	int64_t *planned_sym;
	int64_t *offset;
	char *scratch;
	int64_t scratch_bytes; /* of one thread */
	dl_region beside;      /* on a GPU: the host's memory, which is scratch */
	dl_region more;        /* scratch of all threads, where a run asked for more than was planned (dl_scratch) */
	/* regions: the program's, then one per input (copied in), then one per output (served) */
	dl_region *region;
	GpuContext *gpu;
	/* during a run */
	int32_t threads;
	dl_tensor *out;
	uint8_t *out_set;
};

/* model.c */
/*
 * A struct that crosses the API may be shorter than the runtime's, or longer: its first member is its size. RT_UPTO is
 * the size of a T that ends with member LAST.
 */
#define RT_UPTO(T, last) (offsetof(T, last) + sizeof(((T *)NULL)->last))
/* A larger size is one that nobody has set. */
#define RT_LARGEST_STRUCT 4096u
/* Takes the struct FROM, a NAME that has at least LEAST bytes, into TO, which has SIZE: members that FROM lacks are zero.
 * Refused (of model M, or null) where FROM is too short, or sets something beyond SIZE. */
int rt_take(dl_model *m, const char *name, void *to, size_t size, const void *from, size_t least);
/* Fills the struct TO, a NAME that has at least LEAST bytes, from FROM, which has SIZE; TO keeps its size. */
int rt_give(dl_model *m, const char *name, void *to, size_t least, const void *from, size_t size);
/* M is a model, or a failure of function WHAT. */
int rt_check_model(const dl_model *m, const char *what);
/* P becomes M's program. */
int rt_use_program(dl_model *m, const dl_program *p);
/* The context that this thread was last refused because it was in use, or null. */
extern _Thread_local const void *rt_refused;
void *rt_alloc(const dl_model *m, uint64_t bytes);
void rt_free(const dl_model *m, void *p, uint64_t bytes);
void rt_log(const dl_model *m, int level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Formats a message into the ROOM bytes at TO, as one line that is safe on a terminal. TO may be among the arguments.
 * Formats cut the names of inputs, outputs and dims to 100 bytes (%.100s), so that the rest of a message has room. */
void rt_message(char *to, size_t room, const char *fmt, va_list ap);
/* Records the text of a failure in a model (or, for null, of a load in this thread); gives status. */
int rt_error(dl_model *m, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Bytes of n elements, or INT64_MAX where that overflows. */
int64_t rt_bytes(int32_t dtype, int64_t n);
/* Bits of an element, 0 for a code that is not known. */
unsigned rt_dtype_bits(int32_t dtype);
unsigned rt_dtype_align(int32_t dtype);
const char *rt_dtype_name(int32_t dtype);
/* Item i of an array that is strided by the size of its first element. */
#define RT_AT(T, base, i) ((T *)(void *)((uintptr_t)(base) + (uintptr_t)(i) * (base)->size))

/* weights.c */
int rt_weights_open(dl_model *m);
void rt_weights_close(dl_model *m);

/* context.c */
/* Makes arena, offsets and scratch fit x.sym. */
int rt_plan(dl_context *c);
/* At least bytes bytes in region r, of which keep are kept. False without memory. */
bool rt_region_grow(dl_context *c, dl_region *r, int64_t bytes, int64_t keep);

/* run.c */
/* Begins a use of a context, which ends with running = 0. DL_BUSY when it is in use, DL_INVALID when it is none. */
int rt_enter(dl_context *c);
/* Checks and sets output o of the run in flight: shape known. */
int rt_output(dl_context *c, int32_t o, const int64_t *shape);
/* Binds all that follows from the values of symbols: shapes of inputs and outputs, symbols again, facts. */
int rt_bind_dims(dl_context *c);

/* pool.c */
typedef struct Job {
	dl_kernel_fn fn;
	const dl_kctx *k;
	int64_t n, grain;
	int32_t parts;
	char *scratch;
	int64_t scratch_bytes;
} Job;

/* A pool of threads - 1 workers (the caller is the first thread), sleeping; null without memory or
 * threads. */
Pool *rt_pool_new(const dl_model *m, int32_t threads);
void rt_pool_free(const dl_model *m, Pool *p);
/* Takes the pool for a run: the number of threads to use, from 1, within the process's budget, to be
 * given back. A pool in use by another run, or no pool, gives 1. */
int32_t rt_pool_acquire(Pool *p, int32_t threads);
void rt_pool_release(Pool *p, int32_t threads);
/* Runs all parts of a job. The pool must be acquired for at least job->parts threads. */
void rt_pool_run(Pool *p, const Job *job);
/* Part i of a job. */
void rt_job_part(const Job *job, int32_t i);

/* budget.c */
/* CPUs that this process may use, from 1. */
int32_t rt_cpus(void);
/* Joins and leaves the process-wide count of running threads. */
void rt_budget_join(void);
void rt_budget_leave(void);
/* Between 1 and want threads, less when others run; to be given back. */
int32_t rt_budget_take(int32_t want);
void rt_budget_give(int32_t n);

/* profile.c */
int rt_profile_open(dl_model *m);
/* Writes the trace, if one was asked for, and frees. */
int rt_profile_close(dl_model *m);
uint64_t rt_now(void); /* nanoseconds */
void rt_profile_add(Profile *p, int32_t kernel, int32_t context, uint64_t begin, uint64_t end);

/* nvtx.c */
/* Whether a tool listens; only then may the others be called. */
bool rt_nvtx_open(void);
void rt_nvtx_push(const char *text);
void rt_nvtx_pop(void);

/* cuda_model.c: on the CPU all of these do nothing */
/* Chooses the device; on a GPU, the program and variant. Then its weights, once they are there. */
int rt_gpu_open(dl_model *m);
int rt_gpu_weights(dl_model *m);
void rt_gpu_close(dl_model *m);
/* Its context is this thread's until popped. */
int rt_gpu_push(dl_model *m);
void rt_gpu_pop(dl_model *m);
/* cuda_context.c, cuda_run.c: of a context whose model is on a GPU, between enter and leave */
int rt_gpu_context(dl_context *c);
void rt_gpu_context_free(dl_context *c); /* by itself */
int rt_gpu_arena(dl_context *c, int64_t bytes);
/* Checks that the caller's workspace is the GPU's memory. */
int rt_gpu_workspace(dl_context *c, void *p, uint64_t bytes);
/* 1: P is memory of the context's GPU; 0: it is the host's; -1: neither, or a failure, which is recorded. */
int rt_gpu_owns(dl_context *c, const void *p);
/* What a first run of the dims that are bound would set up. */
int rt_gpu_prepare(dl_context *c);
/* Waits for the runs so far: the first index that was out of range in them. Outside of enter and leave. */
int rt_gpu_wait(dl_context *c);
void *rt_gpu_region(dl_context *c, int32_t s, int64_t bytes);
/* STREAM, or null for that of the context's flags, is that of what follows, up to rt_gpu_leave. */
int rt_gpu_enter(dl_context *c, void *stream);
/* The same of the context's own stream. */
int rt_gpu_enter_own(dl_context *c);
/* STREAM is not needed any more. The status of what came between, or that of leaving. */
int rt_gpu_leave(dl_context *c);
int rt_gpu_output(dl_context *c, int32_t o, void *data, int64_t bytes);
int rt_gpu_execute(dl_context *c);

/* cpu.c */
uint64_t rt_cpu_features(void);
/* The caller's floating point state: saved and set to the default, and put back. */
uint64_t rt_fp_enter(void);
void rt_fp_leave(uint64_t saved);

#endif
