/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the runtime. The runtime is linked into every artifact. It includes
 * nothing of the compiler and needs only C11, libc and pthreads. It has no global constructors, and
 * all its symbols are hidden, so each artifact has its own copy.
 *
 *	model.c    load and unload          weights.c  finding the weights
 *	context.c  workspace, plan, prepare run.c      a run: bind, outputs, exec
 *	alias.c    outputs in place of an input
 *	overlap.c  memory that a run may not use twice
 *	forms.c    the caller's strings, sequences, optionals and maps as the program has them
 *	pieces.c   tensors in pieces, those of several requests
 *	str*.c     strings: see strtable.h
 *	exec.c     functions for generated code
 *	pool.c     threads                  budget.c   how many threads, process-wide
 *	profile.c  time per kernel          cpu.c      features and the floating point environment
 *	nvtx.c     ranges for NVIDIA's tools
 *	cuda*.c    GPUs: see cuda.h
 */
#ifndef RUNTIME_RT_H
#define RUNTIME_RT_H

#define DLRT_GENERATED 1
#include "runtime/cpu.h"
#include "runtime/dlrt.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>

#define RT_ALIGN 64u
#define RT_MAX_THREADS 1024
/* The bytes of stack that suffice for every function of the API (docs/c-api.md) on the CPU: at most
 * 32 KiB for the locals of a kernel, 12 KiB for a table for products of bytes, and the spills of
 * compilers. */
#define RT_STACK 65536u

typedef struct Pool Pool;
typedef struct Profile Profile;
typedef struct GpuModel GpuModel;
typedef struct GpuContext GpuContext;

/* The first member of models and contexts, by which error() recognises them. */
typedef struct Head {
	uint32_t magic;
	char error[508];
} Head;

#define RT_MAGIC_MODEL 0x646c6d31u
#define RT_MAGIC_CONTEXT 0x646c6331u

typedef struct Weights {
	char *base;
	void *map;         /* to be unmapped at the end, or null */
	uint64_t map_bytes;
	void *owned;       /* to be freed by the allocator, or null */
} Weights;

struct dl_model {
	Head head; /* the error text is read and written under lock */
	const dl_program *prog; /* &program; on a GPU, the program for GPUs */
	/* a copy of the generated code's struct; members that an older version of it lacks are
	 * zero */
	dl_program program;
	const dl_desc *desc;    /* the CPU program's, which describe returns */
	GpuModel *gpu;               /* null: the model runs on the CPU */
	dl_load_options opt;
	pthread_mutex_t lock;
	Weights weights;
	Pool *pool; /* null: one thread only, or the application's executor */
	Profile *profile;
	atomic_int contexts;
	/* the most parts of a launch, and the number of scratch areas in a workspace */
	int32_t threads;
	int32_t variant;
};

/* A block of memory from the allocator that can grow. */
struct dl_region {
	void *p;
	uint64_t bytes;
};

/* The work of a kernel, in operations and bytes. */
typedef struct LaunchWork {
	uint64_t flops, bytes;
} LaunchWork;

struct dl_context {
	Head head;
	dl_model *model;
	dl_exec x;
	atomic_int cancel;
	atomic_int running;
	int32_t fault;
	int64_t bad_index[2]; /* of the fault; the size is -1 in programs that do not say it */
	int32_t id; /* identifies the context in the profile */
	LaunchWork work; /* of the kernel that is launched next, for the profile */
	uint32_t flags; /* DL_CONTEXT_ */
	uint64_t own_bytes; /* bytes of this struct and its arrays */
	/* the workspace: the arena, then a scratch area for each thread */
	char *arena;
	uint64_t arena_bytes;
	bool arena_borrowed;
	bool planned; /* buf and scratch are set up for planned_sym */
	int64_t *planned_sym;
	int64_t *offset;
	char *scratch;
	int64_t scratch_bytes; /* bytes for one thread */
	/* If threads compute slices, the workspace has for each of them the arrays of its dl_exec,
	 * an arena with buffers at these offsets, and scratch. Later it is the workspace for joint
	 * computation of all threads. */
	int64_t *slice_offset;
	int64_t slice_bytes, slice_scratch;
	dl_region beside;      /* on a GPU: scratch, in host memory */
	/* scratch of all threads, if a run needs more than was planned (dl_scratch) */
	dl_region more;
	/* the program's regions, then one for each input (strided ones are copied), then one for
	 * each output (memory that the context provides) */
	dl_region *region;
	GpuContext *gpu;
	dl_strings *strings; /* null: the program has none */
	/* Null: the program has the caller's tensors. Otherwise: memory for each of the program's
	 * inputs, then for its outputs as the caller gets them, then for the items of the caller's
	 * outputs; and the tensors of the program, with memory for the shapes of parts
	 * (forms.c). */
	dl_region *forms;
	dl_tensor *plain_in, *plain_out;
	int64_t (*part_shape)[2];
	const dl_tensor *caller_in, *caller_out; /* during a run */
	/* Null: no tensor may be in pieces. Otherwise: the caller's inputs, joined, with their
	 * shapes and memory; and its outputs before they are cut (pieces.c). */
	dl_tensor *joined, *cut;
	int64_t *const *joined_shape, *const *cut_shape;
	dl_region *joined_memory;
	const dl_tensor
		*pieces; /* during a run: those of an input, or null; their number, and their dim
			  * and its symbol */
	int64_t n_pieces;
	int32_t pieces_dim, pieces_sym;
	const dl_tensor *given_in, *given_out; /* with pieces: the caller's tensors */
	dl_region ranges;                      /* memory to compare those of pieces (overlap.c) */
	/* during a run */
	int32_t threads;
	int64_t *in_bytes; /* size of each input's data; a strided one counts as contiguous */
	const dl_tensor *in; /* the program's */
	dl_tensor *out;
	uint8_t *out_set;
};

/* The routines on the table of strings of C, whose program has strings. */
static inline const dl_string_table *rt_strings(const dl_context *c)
{
	return c->model->prog->string_table;
}

/* ---- model.c ---- */

/*
 * A struct that crosses the API may be shorter or longer than the runtime's; its first member is
 * its size. RT_UPTO is the size of a struct T that ends with the member LAST.
 */
#define RT_UPTO(T, last) (offsetof(T, last) + sizeof(((T *)NULL)->last))
/* Nobody sets a larger size on purpose. */
#define RT_LARGEST_STRUCT 4096u
/* No member is larger, and each struct has members of this size. So the sizes of all its versions
 * are multiples of it, and no other size ends between two members. */
#define RT_STRUCT_STEP 8u
/* Writes to TEXT why no version of the struct NAME, whose first one has LEAST bytes, has SIZE
 * bytes; null: one may have. */
const char *rt_wrong_size(char *text, size_t room, const char *name, uint32_t size, size_t least);
/* Copies the caller's struct FROM, which is called NAME in messages and has at least LEAST
 * bytes, to TO, which has SIZE bytes. Members that FROM lacks become zero. Fails (an error of M,
 * which may be null) if FROM is too short, or a member beyond SIZE is not zero. */
int rt_take(dl_model *m, const char *name, void *to, size_t size, const void *from, size_t least);
/* Copies FROM, which has SIZE bytes, to the caller's struct TO, called NAME, of at least LEAST
 * bytes; TO keeps its size. */
int rt_give(dl_model *m, const char *name, void *to, size_t least, const void *from, size_t size);
/* Checks that M is a model; the error names the function WHAT. */
int rt_check_model(const dl_model *m, const char *what);
/* Makes P the program of M. */
int rt_use_program(dl_model *m, const dl_program *p);
/* The context that this thread was last refused with DL_BUSY, or null. */
extern _Thread_local const void *rt_refused;
void *rt_alloc(const dl_model *m, uint64_t bytes);
void rt_free(const dl_model *m, void *p, uint64_t bytes);
void rt_log(const dl_model *m, int level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Formats a message into the ROOM bytes at TO, as one line that is safe on a terminal. TO may be
 * among the arguments. Formats cut names of inputs, outputs and dims to 100 bytes (%.100s), so
 * that the rest of the message fits. */
void rt_message(char *to, size_t room, const char *fmt, va_list ap);
/* Records the text of a failure in a model; null: of a load, in this thread. Returns status. */
int rt_error(dl_model *m, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The bytes of n elements; INT64_MAX on overflow. */
int64_t rt_bytes(int32_t dtype, int64_t n);
/* The bits of an element; 0 if the code is unknown. */
unsigned rt_dtype_bits(int32_t dtype);
unsigned rt_dtype_align(int32_t dtype);
const char *rt_dtype_name(int32_t dtype);
/* A value of that form, with its article: "a sequence". */
const char *rt_form_name(int32_t form);
/* T is as dl_tensor_of or a cleared struct leaves it: the caller did not set it. */
bool rt_is_unset(const dl_tensor *t);
/* Item i of an array whose items are as far apart as the first item's size says. */
#define RT_AT(T, base, i) ((T *)(void *)((uintptr_t)(base) + (uintptr_t)(i) * (base)->size))

/* ---- weights.c ---- */

int rt_weights_open(dl_model *m);
void rt_weights_close(dl_model *m);

/* ---- context.c ---- */

/* The number of values in dl_exec.sym. */
uint64_t rt_n_sym(const dl_program *p);
/* Adapts arena, offsets and scratch to x.sym. */
int rt_plan(dl_context *c);
/* Grows region r to at least bytes bytes; the first keep bytes are preserved. False if there is no
 * memory. If keep is 0, the old block is freed first, so that no run needs both: callers drop its
 * address before the call, and do not use it after a failure. */
bool rt_region_grow(dl_context *c, dl_region *r, int64_t bytes, int64_t keep);

/* ---- run.c ---- */

/* Marks a context as in use, until running = 0. DL_BUSY if it is in use already, DL_INVALID if C
 * is not a context. */
int rt_enter(dl_context *c);
/* Checks and sets the shape of output o of the current run. */
int rt_output(dl_context *c, int32_t o, const int64_t *shape);
/* Binds everything that follows from the symbols' values: shapes of inputs and outputs, other
 * symbols, facts. */
int rt_bind_dims(dl_context *c);
/* Checks the numbers of tensors, and that their arrays can be read. */
int rt_check_arrays(dl_context *c, const dl_tensor *in, int32_t n_in, const dl_tensor *out,
		    int32_t n_out);
/* dl_rt_run and dl_rt_infer_shapes, on tensors as the program has them. */
int rt_run_plain(dl_context *c, const dl_tensor *in, dl_tensor *out);
int rt_infer_plain(dl_context *c, const dl_tensor *in, dl_tensor *out);

/* The elements of a shape; INT64_MAX on overflow. */
int64_t rt_volume(const int64_t *shape, int32_t rank);
/* The elements from data up to the last one of T; INT64_MAX on overflow. Elements before data
 * are not counted. */
int64_t rt_reach(const dl_tensor *t);
/* The bytes from data to the end of the last element of T, a tensor of the caller's. */
int64_t rt_extent(const dl_tensor *t);
/* Whether the shape of output O is known. */
bool rt_known(const dl_context *c, int32_t o);
/* The bytes of T's memory, at most half of the address space. */
int64_t rt_room(const dl_tensor *t);
/* The least size of a dl_tensor of this form. */
uint32_t rt_tensor_size(int32_t form);
/* The memory that the context provides for output O. */
dl_region *rt_out_region(dl_context *c, int32_t o);

/* ---- slices.c ---- */

/* How a run computes a batch: the number of elements that are computed in slices of
 * dl_program.slice, one thread each; and the number of other elements that all threads compute
 * together at a time, or 0 if there are no slices. */
typedef struct Slices {
	int64_t apart, together;
} Slices;

/* The slices of a run with the symbols SYM. */
Slices rt_slices(const dl_model *m, const int64_t *sym);
/* The bytes that a thread needs to compute slices, with an ARENA and SCRATCH of these sizes;
 * *SCRATCH_AT: the offset of its scratch. */
int64_t rt_slice_bytes(const dl_program *p, int64_t arena, int64_t scratch, int64_t *scratch_at);
/* Runs the program of X, which belongs to a run, in these slices. */
int rt_exec_slices(dl_exec *x, Slices s);

/* ---- alias.c ---- */

/* Sets the symbols of outputs that share an input's memory, or whose strides leave room. Call it
 * when all shapes are bound; it checks the caller's tensors. */
int rt_alias_bind(dl_context *c, const dl_tensor *in, const dl_tensor *out);
/* Whether the program reads input I, whose shape is bound, with the strides that it has. */
bool rt_alias_input(const dl_context *c, int32_t i, const dl_tensor *in, const dl_tensor *out);
/* Whether output O, whose shape is known, may have the strides of T. */
bool rt_alias_output(const dl_context *c, int32_t o, const dl_tensor *t);

/* ---- forms.c ---- */

/* Whether the caller's tensors have other forms than the program's. */
bool rt_has_forms(const dl_program *p);
/* The description of P's inputs and outputs as the caller has them. */
const dl_desc *rt_shown(const dl_program *p);
/* The same, on the caller's tensors. */
int rt_run(dl_context *c, const dl_tensor *in, int32_t n_in, dl_tensor *out, int32_t n_out);
int rt_infer(dl_context *c, const dl_tensor *in, int32_t n_in, dl_tensor *out, int32_t n_out);
/* The number of the program's tensors for IO, an input or output of the caller. */
int32_t rt_parts(const dl_io *io);
/* Tensor I of the caller's array T, whose structs may be of another version. */
dl_tensor rt_tensor_at(const dl_tensor *t, int64_t i);
/* The memory that the context provides for the strings of output K of the program, and for the
 * items of the caller's output O. */
dl_region *rt_strings_region(dl_context *c, int32_t k);
dl_region *rt_items_region(dl_context *c, int32_t o);

/* ---- pieces.c ---- */

/* Whether a tensor may be in pieces. */
bool rt_has_pieces(const dl_program *p);
/* The caller's inputs, with those in pieces joined; null after a failure. DATA: a run follows, else
 * only shapes are asked for. */
const dl_tensor *rt_join(dl_context *c, const dl_tensor *in, bool data);
/* The outputs for a run, where those in pieces are whole, in memory of the context; null after a
 * failure. Call it after rt_join. If it returns other tensors than OUT, rt_cut_outputs gives the
 * caller's, OUT, what the run gave. */
dl_tensor *rt_whole_outputs(dl_context *c, dl_tensor *out);
void rt_cut_outputs(dl_context *c, dl_tensor *out);

/* ---- overlap.c ---- */

/* Refuses outputs whose memory overlaps that of an input (unless that is declared) or of another
 * output, and inputs and outputs in the caller's workspace. Of tensors in pieces, each piece. */
int rt_check_overlap(dl_context *c);
/* The same for the caller's strings and lists. Call it before memory of outputs is allocated: the
 * inputs may be in memory that the context provided for outputs of the last run. */
int rt_check_forms(dl_context *c);
/* Checks that the caller uses the memory that the context serves for output O, and that may be
 * freed now, for nothing else in this run. */
int rt_check_served(dl_context *c, int32_t o);

/* ---- pool.c ---- */

typedef struct Job {
	dl_kernel_fn fn;
	const dl_kctx *k;
	int64_t n, grain;
	int32_t parts;
	char *scratch;
	int64_t scratch_bytes;
	bool flush; /* subnormal numbers are zero */
} Job;

/* Makes a pool of threads - 1 sleeping workers (the caller is the first thread). FLUSH: subnormal
 * numbers are zero in them. Null if there is no memory or thread. */
Pool *rt_pool_new(const dl_model *m, int32_t threads, bool flush);
void rt_pool_free(const dl_model *m, Pool *p);
/* Takes the pool for a run. Returns the number of threads to use, at least 1, within the
 * process's budget; they must be given back. If there is no pool, or another run uses it,
 * returns 1. */
int32_t rt_pool_acquire(Pool *p, int32_t threads);
void rt_pool_release(Pool *p, int32_t threads);

/* One thread's state in a parallel region. */
typedef struct PoolThread {
	Pool *pool;
	int32_t index; /* 0: the caller */
	uint64_t job, done; /* number of its current job, and of all chunks up to that job's end */
	char *scratch; /* not null: it runs launches by itself, and the rest of this is unused */
} PoolThread;

typedef void PoolThreadFn(PoolThread *t, void *arg);

/* Opens a parallel region for THREADS acquired threads: workers call FN with their state and ARG.
 * Returns the state of the caller, which has to run the same jobs. */
PoolThread rt_pool_open(Pool *p, int32_t threads, PoolThreadFn *fn, void *arg);
/* Closes the region: waits until no worker is in FN. */
void rt_pool_close(Pool *p);
/* Runs T's share of the region's next job, after the one before it is done. Returns when no part of
 * the job is left to begin. */
void rt_thread_run(PoolThread *t, const Job *job);
/* Waits until T's current job is done. */
void rt_thread_wait(PoolThread *t);
/* Runs a job in a separate region. */
void rt_pool_run(Pool *p, Job *job);
/* Cuts a job into parts, at most one for each of THREADS, with at least `grain` iterations each. */
void rt_job_cut(Job *job, int32_t threads);
/* Runs part i of a job. */
void rt_job_part(const Job *job, int32_t i);

/* ---- exec.c ---- */

/* Calls the program's exec for a run on the CPU: in all threads of the run, if it only launches
 * kernels. */
int rt_exec_host(dl_exec *x);
/* Runs a job in the threads of C's run. */
void rt_job_run(dl_context *c, Job *job);
/* Records the failure STATUS of threads that report nothing themselves; returns the run's status. A
 * fault's message comes first. */
int rt_exec_failed(dl_exec *x, int status);

/* ---- budget.c ---- */

/* The number of CPUs that this process may use, at least 1. */
int32_t rt_cpus(void);
/* Start and stop taking part in the process-wide count of threads. */
void rt_budget_join(void);
void rt_budget_leave(void);
/* Takes between 1 and want threads, fewer if other runs have some; they must be given back. */
int32_t rt_budget_take(int32_t want);
void rt_budget_give(int32_t n);

/* ---- profile.c ---- */

int rt_profile_open(dl_model *m);
/* Writes the trace, if one is wanted, and frees the profile. */
int rt_profile_close(dl_model *m);
uint64_t rt_now(void); /* nanoseconds */
/* Adds a launch of KERNEL. W: the work from dl_count for it and the kernel's next launches; zeros
 * for these. */
void rt_profile_add(Profile *p, int32_t kernel, int32_t context, uint64_t begin, uint64_t end,
		    LaunchWork w);
/* The work from dl_count for the current launch; the following launches have none. */
LaunchWork rt_take_work(dl_context *c);

/* ---- nvtx.c ---- */

/* Whether a tool listens; the other functions may only be called if it does. */
bool rt_nvtx_open(void);
void rt_nvtx_push(const char *text);
void rt_nvtx_pop(void);

/* ---- cuda_model.c ---- */

/* The functions of cuda_model.c do nothing for a model on the CPU. */

/* rt_gpu_open chooses the device, and for a GPU the program and variant; rt_gpu_weights copies
 * the weights to the GPU once they are found. */
int rt_gpu_open(dl_model *m);
int rt_gpu_weights(dl_model *m);
void rt_gpu_close(dl_model *m);
/* Makes the model's GPU context current in this thread, until popped. */
int rt_gpu_push(dl_model *m);
void rt_gpu_pop(dl_model *m);

/* ---- cuda_context.c ---- */

/* The functions of cuda_context.c and cuda_run.c are for a context whose model is on a GPU, and are
 * called between enter and leave. */

int rt_gpu_context(dl_context *c);
void rt_gpu_context_free(dl_context *c); /* itself calls enter and leave */
int rt_gpu_arena(dl_context *c, int64_t bytes);
/* Checks that the caller's workspace is in the GPU's memory. */
int rt_gpu_workspace(dl_context *c, void *p, uint64_t bytes);

void *rt_gpu_region(dl_context *c, int32_t s, int64_t bytes, int64_t keep);

/* ---- cpu.c ---- */

/* Saves the caller's floating point state and sets the default one, or with FLUSH the one that
 * takes subnormal numbers for zero; restores it. */
uint64_t rt_fp_enter(bool flush);
void rt_fp_leave(uint64_t saved);

/* ---- cuda_run.c ---- */

/* 1: P is in the memory of the context's GPU; 0: in the host's; -1: in neither, or a failure;
 * the failure is recorded. */
int rt_gpu_owns(dl_context *c, const void *p);
/* Sets up everything that a first run with the bound dims would. */
int rt_gpu_prepare(dl_context *c);
/* Waits for all runs so far; returns the first index error among them. To be called outside of
 * enter and leave. */
int rt_gpu_wait(dl_context *c);
/* Makes STREAM (null: the stream that the context's flags say) the stream of all work up to
 * rt_gpu_leave. */
int rt_gpu_enter(dl_context *c, void *stream);
/* As rt_gpu_enter, with the context's own stream. */
int rt_gpu_enter_own(dl_context *c);
/* Ends the use of the stream. Returns the status of the work since enter, or of leaving. */
int rt_gpu_leave(dl_context *c);
int rt_gpu_output(dl_context *c, int32_t o, void *data, int64_t bytes);
int rt_gpu_execute(dl_context *c);

#endif
