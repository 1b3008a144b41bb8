/* dlrt.h as it was when DL_ABI_VERSION was 1: programs compiled against it run with every later library (tests/runtime/run.sh). Never changed. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlrt.h: the C ABI of a compiled model.
 *
 * Part 1 is for applications. A model NAME exports NAME_get_api and NAME_describe and nothing else:
 *
 *	const dl_api *api = NAME_get_api(DL_ABI_VERSION);
 *	dl_model *m; dl_context *c;
 *	api->load(NULL, &m);
 *	api->context(m, NULL, &c);
 *	api->run(c, in, n_in, out, n_out, NULL);
 *
 * Part 2 is for generated code, which defines DLRT_GENERATED before it includes this file.
 *
 * Invariants. Every struct begins with its size, so that a later version may append members; arrays
 * of structs are strided by the size of their first element. Codes are frozen. Sizes, shapes and
 * indices are 64 bits. Tensors are borrowed. No function exits, aborts, prints, or changes the
 * caller's floating point environment. A model may be shared by threads; a context belongs to one
 * thread at a time, except for cancel. After context and prepare nothing is allocated, unless the
 * model has unbounded sizes (dl_desc.flags).
 */
#ifndef DLRT_H
#define DLRT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "dlrt needs a little-endian target"
#endif
#if UINTPTR_MAX < UINT64_MAX
#error "dlrt needs a 64-bit target"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define DL_ABI_VERSION 1u

/* ---- Part 1: applications ------------------------------------------------------------------ */

/* What every function returns. dl_api.status_text names them, dl_api.error says more. */
typedef enum dl_status {
	DL_OK = 0,
	DL_INVALID = 1,      /* an argument is wrong: count, type, null pointer, alignment */
	DL_ABI = 2,          /* header, runtime and model do not fit together */
	DL_SHAPE = 3,        /* shapes do not agree with the model, or a fact about them fails */
	DL_INDEX = 4,        /* an index was out of range at run time */
	DL_NOMEM = 5,        /* the allocator gave nothing, or a size overflows */
	DL_WORKSPACE = 6,    /* the caller's workspace is too small for these dims */
	DL_CAPACITY = 7,     /* an output's memory is too small; its shape says what it needs */
	DL_WEIGHTS = 8,      /* weights missing, unreadable, or not those of this model */
	DL_TARGET = 9,       /* this machine and what the model was compiled for do not fit */
	DL_CANCELLED = 10,   /* cancel was called */
	DL_UNSUPPORTED = 11, /* a form this version does not take */
	DL_BUSY = 12,        /* unload while contexts live, or a context used twice at once */
	DL_IO = 13,          /* a file could not be written */
	DL_UNBOUNDED = 14,   /* an exact size was asked for, and a dim has no upper bound */
	DL_RUNTIME = 15,     /* the model itself failed: If without a branch, negative size, ... */
	DL_DEVICE = 16,      /* the GPU's driver refused something */
	DL_DEVICE_LOST = 17, /* the GPU failed such that this process cannot use it any more */
} dl_status;

/* Element types: the numbers of ONNX's TensorProto.DataType. Types under 8 bits are packed, first
 * element in the low bits. */
typedef enum dl_dtype {
	DL_F32 = 1, DL_U8 = 2, DL_I8 = 3, DL_U16 = 4, DL_I16 = 5, DL_I32 = 6, DL_I64 = 7,
	DL_STR = 8, DL_BOOL = 9, DL_F16 = 10, DL_F64 = 11, DL_U32 = 12, DL_U64 = 13, DL_BF16 = 16,
	DL_F8E4M3FN = 17, DL_F8E4M3FNUZ = 18, DL_F8E5M2 = 19, DL_F8E5M2FNUZ = 20, DL_U4 = 21,
	DL_I4 = 22, DL_F4E2M1 = 23, DL_F8E8M0 = 24, DL_U2 = 25, DL_I2 = 26, DL_F6E2M3 = 27,
	DL_F6E3M2 = 28,
} dl_dtype;

/* An element of type DL_STR: bytes, not terminated. */
typedef struct dl_str {
	const char *p;
	uint64_t n;
} dl_str;

typedef enum dl_form { DL_TENSOR = 0, DL_SEQUENCE = 1, DL_OPTIONAL = 2 } dl_form;

/*
 * A value: a tensor, or the items of a sequence, or the zero or one item of an optional.
 *
 * Input: shape has rank entries; strides are in elements, null means contiguous; other strides are
 * copied in through memory of the context. data may be null when there are no elements, and needs
 * only its element's alignment; size of the memory is not asked.
 * Output: rank is the room in shape on entry and the true rank on return, and shape the true shape.
 * data is the caller's, with room for bytes bytes; strides must be null. When data is null the
 * context serves the memory, which stays until its next run or its end, and data and bytes are set.
 * Where dl_io.alias names an input, an output may have that input's data pointer and is then
 * computed in place; any other overlap is refused.
 */
typedef struct dl_tensor {
	uint32_t size;
	int32_t dtype;
	int32_t form;
	int32_t rank;
	int64_t *shape;
	const int64_t *strides;
	void *data;
	uint64_t bytes;
	struct dl_tensor *items; /* sequence, optional */
	int64_t n_items;
	int64_t cap_items;
} dl_tensor;

#define DL_UNLIMITED INT64_MAX

typedef enum dl_sym_kind {
	DL_SYM_INPUT = 0, /* known from the inputs before anything is computed */
	DL_SYM_DATA = 1,  /* found while computing; at most upper */
} dl_sym_kind;

/* A symbolic dim, lower <= dim <= upper; DL_UNLIMITED: no bound. */
typedef struct dl_sym {
	uint32_t size;
	int32_t kind;
	const char *name;
	int64_t lower, upper;
} dl_sym;

/* One dim of an input or output: a constant (value >= 0), a symbol (sym >= 0: its index), or else an
 * expression that only the text tells ("past + seq"). */
typedef struct dl_dim {
	uint32_t size;
	int32_t sym;
	int64_t value;
	const char *text;
} dl_dim;

/* One input or output. alias: outputs: the input it may share memory with, or -1. flags: DL_IO_. */
typedef struct dl_io {
	uint32_t size;
	int32_t dtype;
	int32_t form;
	int32_t rank;
	const char *name;
	const dl_dim *dim;
	int32_t alias;
	uint32_t flags;
} dl_io;

/* Of an input, on a GPU: sizes depend on its elements, so the host reads them: from host memory as they are; where they are
 * in the GPU's, a run begins by waiting for their copy. */
#define DL_IO_HOST 2u
#define DL_IO_HOST_ONLY 4u /* and the GPU does not: in host memory it stays there */

#define DL_DESC_UNBOUNDED 1u /* some memory has no bound and is served by the allocator at run time */

/* What a model is. */
typedef struct dl_desc {
	uint32_t size;
	uint32_t flags;
	const char *name;
	const char *version; /* of the compiler */
	const char *hash;    /* of the model and of all options that shaped the code */
	const char *targets; /* "x86-64-v4 x86-64-v3" */
	const dl_io *in, *out;
	int32_t n_in, n_out;
	const dl_sym *sym;
	int32_t n_sym, reserved;
	uint64_t weights_size;
} dl_desc;

typedef struct dl_model dl_model;
typedef struct dl_context dl_context;

typedef enum dl_log_level { DL_LOG_ERROR = 0, DL_LOG_WARNING = 1, DL_LOG_INFO = 2 } dl_log_level;

/*
 * How to load; null or zero members take their default. Callbacks must be safe to call from any
 * thread that uses the model. Borrowed for the life of the model: user pointers, weights_data.
 */
typedef struct dl_load_options {
	uint32_t size;
	int32_t threads; /* 0: as many as the process may use; 1: none is created */
	void *user;      /* first argument of all callbacks */
	void (*log)(void *user, int32_t level, const char *text);
	void *(*alloc)(void *user, uint64_t bytes, uint64_t align); /* both or none */
	void (*free)(void *user, void *p, uint64_t bytes);
	/* Weights from elsewhere, the first that is set: memory aligned to 64; a reader that fills
	 * dst with bytes bytes from offset and returns 0; a file. They are checked by their hash. */
	const void *weights_data;
	int (*weights)(void *user, void *dst, uint64_t offset, uint64_t bytes);
	const char *weights_path;
	/* The user's thread pool: call task(arg, i) for every 0 <= i < n, at most executor_threads at
	 * once, and return when all have returned. Without it the model makes its own threads. */
	void (*executor)(void *user, int32_t n, void (*task)(void *arg, int32_t i), void *arg);
	int32_t executor_threads;
	int32_t profile;          /* nonzero: count time per kernel */
	const char *profile_path; /* and write a Chrome trace at unload (or DLCC_PROFILE) */
	uint64_t cpu_mask;        /* nonzero: use only these DL_CPU_ features (or DLCC_CPU=none|v2|v3|v4) */
	uint32_t flags;
	uint32_t reserved;
	/* Where it runs: "cpu"; "cuda" or "cuda:1", a GPU, or the load fails; null or "auto": the first GPU that the
	 * model has code for, else the CPU. dl_api.device says what it became. */
	const char *device;
} dl_load_options;

#define DL_LOAD_CHECK_WEIGHTS 1u /* hash weights of the model's own file too, not only others */

/*
 * How to make a context. max_dims: a value for every symbol of dl_desc.sym, -1 for its upper bound
 * (the value of a DL_SYM_DATA symbol is not looked at). With max_dims, or when there is no
 * DL_SYM_INPUT symbol, the workspace is there from the start; else it is made by prepare or by the
 * first run that needs more, and grows.
 * workspace: the caller's memory, aligned to 64, for as long as the context lives; never grown. On a GPU it is the
 * GPU's.
 */
typedef struct dl_context_options {
	uint32_t size;
	int32_t n_dims;
	const int64_t *max_dims;
	void *workspace;
	uint64_t workspace_bytes;
	uint32_t flags; /* DL_CONTEXT_ */
	uint32_t reserved;
} dl_context_options;

/* On a GPU: inputs and outputs will be in its memory, so prepare takes none for others; a run that has others takes it. */
#define DL_CONTEXT_ON_GPU 1u

typedef struct dl_workspace {
	uint32_t size;
	uint32_t align;
	uint64_t host_bytes;   /* on a GPU: of what sizes are computed with; the context's own */
	uint64_t device_bytes; /* on a GPU; inputs and outputs in host memory need more, of their own */
} dl_workspace;

/* Time of one kernel over all runs of a model. name: the ONNX nodes in it. */
typedef struct dl_profile_entry {
	uint32_t size;
	uint32_t reserved;
	const char *name;
	uint64_t calls;
	uint64_t nanoseconds;
} dl_profile_entry;

/* What is known of the GPU that a model runs on. */
typedef struct dl_device_info {
	uint32_t size;
	int32_t sm;                /* compute capability times ten */
	uint64_t bytes_per_second; /* of its memory, at most, by clock and bus; 0: the driver does not say */
	uint64_t weights_bytes;    /* of the model, in its memory */
} dl_device_info;

typedef struct dl_api {
	uint32_t size;
	uint32_t abi;
	const dl_desc *(*describe)(void);
	/* Null options: all defaults. On failure *model is null and error(NULL) has the text, in the
	 * calling thread. */
	int (*load)(const dl_load_options *options, dl_model **model);
	/* Joins the threads and writes the profile. DL_BUSY while contexts live. Before dlclose. */
	int (*unload)(dl_model *model);
	/* Exact bytes of a context's workspace at these largest dims; n_dims must be desc.n_sym. */
	int (*workspace)(dl_model *model, const int64_t *max_dims, int32_t n_dims,
			 dl_workspace *bytes);
	/* On a GPU the first one has the driver take the kernels, for all. */
	int (*context)(dl_model *model, const dl_context_options *options, dl_context **context);
	void (*context_free)(dl_context *context);
	/* Sets up all that a first run of these dims would; n_dims must be desc.n_sym. On a GPU that is a graph too, and
	 * memory for inputs and outputs on the host unless DL_CONTEXT_ON_GPU says that there are none; the last 8 sets of
	 * dims have one. Where sizes depend on values the first run makes the graphs. Without symbols context does this. */
	int (*prepare)(dl_context *context, const int64_t *dims, int32_t n_dims);
	/* Fills rank, shape and bytes of the outputs; in needs data only where sizes depend on it. A
	 * dim that is found by computing is -1, and bytes is then 0. */
	int (*infer_shapes)(dl_context *context, const dl_tensor *in, int32_t n_in, dl_tensor *out,
			    int32_t n_out);
	/* Inputs and outputs in the order of describe. On a GPU their data may be host memory, which is copied, or the
	 * GPU's, and stream is a CUstream (null: the context's own), which is not looked at any more once run has returned.
	 * Where all of it is the GPU's and no size depends on data, run returns when the work is in the stream; an index
	 * out of range is then the status of wait, or of a later run, which does nothing else. After a failure what the
	 * outputs hold is undefined. */
	int (*run)(dl_context *context, const dl_tensor *in, int32_t n_in, dl_tensor *out,
		   int32_t n_out, void *stream);
	/* From any thread: the run in flight, or else the next one, stops before its next kernel. */
	void (*cancel)(dl_context *context);
	/* The last failure of a context or of a model; null: of load or of a function of a model, context among them, in this
	 * thread. "" if none. */
	const char *(*error)(const void *object);
	/* Entry i of the profile, or DL_INVALID beyond the last. */
	int (*profile)(dl_model *model, int32_t i, dl_profile_entry *entry);
	const char *(*status_text)(int status);
	/* What the model runs on: "cpu", or "cuda:0" and the GPU's name. */
	const char *(*device)(const dl_model *model);
	/* Waits for runs that returned before they were done; the status is that of the first that failed. */
	int (*wait)(dl_context *context);
	/* DL_TARGET where the model runs on the CPU. */
	int (*device_info)(const dl_model *model, dl_device_info *info);
} dl_api;

/* The one symbol that dlopen needs, as NAME_get_api; null for a version it does not know. */
typedef const dl_api *(*dl_get_api_fn)(uint32_t abi_version);

/* What a variant may need, as bits: levels of x86-64, then single features. */
#define DL_CPU_X86_V2      1ull
#define DL_CPU_X86_V3      2ull
#define DL_CPU_X86_V4      4ull
#define DL_CPU_AVX_VNNI    8ull
#define DL_CPU_AVX512_VNNI 16ull
#define DL_CPU_AVX512_BF16 32ull
#define DL_CPU_AVX512_FP16 64ull
#define DL_CPU_AMX_INT8    128ull
#define DL_CPU_AMX_BF16    256ull

/* ---- Part 2: generated code ---------------------------------------------------------------- */

#ifdef DLRT_GENERATED

#ifdef __cplusplus
#error "generated code is C"
#endif

#define DL_EXPORT __attribute__((visibility("default")))

/* What a kernel sees: buffers, dims, and where to report an index out of range. */
typedef struct dl_kctx {
	void *const *buf;
	const int64_t *dim;
	int32_t *fault; /* by dl_fault alone */
} dl_kctx;

/* One parallel stage of a kernel over [begin, end) of its parallel extent. scratch: this thread's
 * bytes, as plan asked for, aligned to 64. */
typedef void (*dl_kernel_fn)(const dl_kctx *k, int64_t begin, int64_t end, void *scratch);

/* Reports fault site number SITE (an index in dl_program.faults). The kernel goes on, without the
 * access. */
static inline void dl_fault(const dl_kctx *k, int32_t site)
{
	__atomic_store_n(k->fault, site + 1, __ATOMIC_RELAXED);
}

/* Arithmetic of sizes. What does not fit is INT64_MAX, "too large", and so is what is computed of it: checks at
 * the end of a computation see an overflow anywhere in it. */
static inline int64_t dl_add(int64_t a, int64_t b)
{
	int64_t r;

	if (a == INT64_MAX || b == INT64_MAX || __builtin_add_overflow(a, b, &r))
		return INT64_MAX;
	return r;
}

static inline int64_t dl_mul(int64_t a, int64_t b)
{
	int64_t r;

	if (a == 0 || b == 0)
		return 0;
	if (a == INT64_MAX || b == INT64_MAX || __builtin_mul_overflow(a, b, &r))
		return INT64_MAX;
	return r;
}

/* Floor of a quotient, 0 where b is 0. */
static inline int64_t dl_floordiv(int64_t a, int64_t b)
{
	if (b == 0)
		return 0;
	if (a == INT64_MAX || b == INT64_MAX || (a == INT64_MIN && b == -1))
		return INT64_MAX;
	return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Whether sizes that fit agree. */
static inline int dl_equal(int64_t a, int64_t b)
{
	return a == b && a != INT64_MAX;
}

static inline int dl_at_most(int64_t a, int64_t b)
{
	return a <= b && a != INT64_MAX;
}

static inline int64_t dl_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t dl_max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* A size as a dim gives it: at least 0. */
static inline int64_t dl_size(int64_t n)
{
	return n < 0 ? 0 : n;
}

/* Rounds up to a multiple of 64, the alignment of everything in the arena. */
static inline int64_t dl_align(int64_t n)
{
	return n > INT64_MAX - 63 ? INT64_MAX : (n + 63) & ~(int64_t)63;
}

typedef struct dl_program dl_program;
typedef struct dl_region dl_region;

/* A kernel for GPUs: an entry of a PTX module. Its parameters are 8 bytes each; of one that may report an index out
 * of range the last two are the status word and the site, which dl_gpu_launch adds. */
typedef struct dl_gpu_fn {
	const char *name;
	int32_t threads; /* of a block */
	int32_t faults;
	int32_t shared;  /* bytes of dynamic shared memory of a block */
	int32_t reserved;
} dl_gpu_fn;

/* All kernels for one target; dl_exec.variant is its index. */
typedef struct dl_gpu_image {
	int32_t sm;   /* compute capability times ten */
	int32_t only; /* it runs on no later one */
	const char *ptx;
	const dl_gpu_fn *fn;
	int32_t n_fn, reserved;
	const void *cubin; /* the PTX, compiled for this capability alone; or null */
} dl_gpu_image;

/* Bytes of the weights that the GPU has too: at `to` of its own, `from` of all. */
typedef struct dl_gpu_piece {
	uint64_t to, from, bytes;
} dl_gpu_piece;

typedef struct dl_gpu {
	uint32_t size;
	int32_t n_images;
	const dl_gpu_image *image; /* best first */
	uint64_t weights_bytes;    /* on the GPU */
	const dl_gpu_piece *piece;
	int32_t n_pieces, reserved;
} dl_gpu;

/*
 * One run. All arrays are made by the runtime and live as long as the context.
 *   sym     values of dl_desc.sym. The runtime sets those that are a dim of an input by themselves,
 *           and -1 elsewhere; bind sets the other DL_SYM_INPUT ones; exec sets the DL_SYM_DATA ones.
 *   in,out  data, in the order of dl_desc. out[o] is valid from the moment the shape is known: from
 *           the start, or from dl_output on.
 *   host_in in a program for GPUs: data of inputs with DL_IO_HOST, in host memory; in[i] is then the GPU's, or null
 *           with DL_IO_HOST_ONLY.
 *   buf     the arena's buffers at plan's offsets; null where the offset is -1.
 *   weights base of the weights, aligned to 64.
 *   variant index in dl_program.variants.
 */
typedef struct dl_exec {
	const dl_program *prog;
	dl_context *ctx;
	int64_t *sym;
	void **in;
	void **host_in;
	void **out;
	void **buf;
	char *weights; /* not to be written */
	int64_t *const *in_shape;  /* [i][d] */
	int64_t *const *out_shape; /* [o][d]: -1 until known */
	int32_t variant;
	int32_t status; /* of the first failure */
} dl_exec;

typedef enum dl_weights_kind {
	DL_WEIGHTS_NONE = 0,
	DL_WEIGHTS_EMBEDDED = 1, /* at dl_program.weights, aligned to 64 */
	DL_WEIGHTS_SECTION = 2,  /* in section .dlcc.weights of the file that holds dl_program */
	DL_WEIGHTS_FILE = 3,     /* in weights_file, beside that file; checked by hash */
} dl_weights_kind;

/*
 * A compiled model. Order of a run: dims of inputs bind the symbols; bind; plan, unless the symbols
 * are those of the last run; shapes and memory of the outputs; exec.
 */
struct dl_program {
	uint32_t size, abi;
	const dl_desc *desc;
	int32_t n_buf;     /* buffers in the arena; on a GPU, the last n_host_buf of them are the host's */
	int32_t n_region;  /* slots of the second region */
	int32_t n_kernels; /* names, for the profile: the ONNX nodes in each */
	int32_t n_faults;  /* texts: "node \"/emb/Gather\" (Gather): index out of range" */
	const char *const *kernels;
	const char *const *faults;
	/* Sets of DL_CPU_ features, best first; the first that the machine has is dl_exec.variant.
	 * None at all: variant 0 runs anywhere. */
	const uint64_t *variants;
	int32_t n_variants;
	int32_t weights_kind;
	const void *weights;
	const char *weights_file;
	uint64_t weights_hash; /* runtime/hash.h; the size is in desc */
	/* May be null. Sets symbols and entries of out_shape that are expressions, checks facts, and
	 * dims of inputs that are expressions. Reads input data only where dl_io.flags says so. */
	int (*bind)(dl_exec *x);
	/* Of DL_SYM_INPUT symbols alone: offset[n_buf] in the arena (multiples of 64, or -1: not in
	 * the arena), total bytes, scratch bytes per thread. Never null. Must not overflow: dl_mul. In a program for
	 * GPUs the arena is the GPU's and scratch the host's, with its n_host_buf buffers at offsets in it. */
	void (*plan)(const int64_t *sym, int64_t *offset, int64_t *total, int64_t *scratch);
	/* The model: a straight line of dl_launch under C control flow. */
	int (*exec)(dl_exec *x);
	const dl_program *on_gpu; /* the same model for GPUs, or null */
	const dl_gpu *gpu;        /* of a program for GPUs: its kernels; variants[i] is then unused */
	/* May be null. Sets entries of in_shape that are expressions, from symbols. */
	void (*dims)(dl_exec *x);
	int32_t n_host_buf;
};

#define DL_IO_SHAPE_DATA 1u /* dl_io.flags: bind reads this input's data */

/*
 * Runs fn over [0, n), split between the threads in contiguous parts that begin at multiples of
 * grain (n <= grain: one part, in the calling thread). Asks for cancel before, and for a fault after. buf
 * and dim are the kernel's own. Every launch of kernel number kernel counts under its name. After a
 * failure does nothing and returns it again.
 */
int dl_launch(dl_exec *x, int32_t kernel, dl_kernel_fn fn, void *const *buf, const int64_t *dim,
	      int64_t n, int64_t grain);

/* Records a failure and its text, and returns status. */
int dl_fail(dl_exec *x, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The data-dependent shape of output o is known: checks the capacity, tells the caller, sets
 * x->out[o]. Before the first write to that output. */
int dl_output(dl_exec *x, int32_t o, const int64_t *shape);

/*
 * As dl_launch, on the GPU: function fn of the variant's image over blocks blocks, in the run's stream. site: what
 * an index out of range is reported as. In a program for GPUs buffers are the GPU's memory.
 */
int dl_gpu_launch(dl_exec *x, int32_t kernel, int32_t fn, const uint64_t *arg, int32_t n_args,
		  int64_t blocks, int32_t site);
/* A copy in the stream, both sides on the GPU. */
int dl_gpu_copy(dl_exec *x, void *to, const void *from, int64_t bytes);
/* Before exec reads values that sizes depend on. Fails while a graph of the run is made, which there cannot be. */
int dl_gpu_reads(dl_exec *x);
/* A copy from the GPU to the host's memory, once all before it is done: waits. */
int dl_gpu_to_host(dl_exec *x, void *to, const void *from, int64_t bytes);

/* Memory of slot s of the second region, at least bytes bytes, aligned to 64: reused between runs
 * when large enough, else made by the allocator. Contents are lost, except for the first keep bytes
 * when it grows. Null after a failure, which is recorded. */
void *dl_region_alloc(dl_exec *x, int32_t s, int64_t bytes, int64_t keep);

/* What DL_DEFINE_API needs; see dl_api. */
int dl_rt_load(const dl_program *p, const dl_load_options *options, dl_model **model);
int dl_rt_unload(dl_model *model);
int dl_rt_workspace(dl_model *model, const int64_t *max_dims, int32_t n_dims, dl_workspace *bytes);
int dl_rt_context(dl_model *model, const dl_context_options *options, dl_context **context);
void dl_rt_context_free(dl_context *context);
int dl_rt_prepare(dl_context *context, const int64_t *dims, int32_t n_dims);
int dl_rt_infer_shapes(dl_context *context, const dl_tensor *in, int32_t n_in, dl_tensor *out,
		       int32_t n_out);
int dl_rt_run(dl_context *context, const dl_tensor *in, int32_t n_in, dl_tensor *out,
	      int32_t n_out, void *stream);
void dl_rt_cancel(dl_context *context);
const char *dl_rt_error(const void *object);
int dl_rt_profile(dl_model *model, int32_t i, dl_profile_entry *entry);
const char *dl_rt_status_text(int status);
const char *dl_rt_device(const dl_model *model);
int dl_rt_wait(dl_context *context);
int dl_rt_device_info(const dl_model *model, dl_device_info *info);

/* Defines the two exported functions of model NAME over the dl_program PROG. */
#define DL_DEFINE_API(NAME, PROG)                                                                 \
	DL_EXPORT const dl_desc *NAME##_describe(void);                                           \
	DL_EXPORT const dl_api *NAME##_get_api(uint32_t abi_version);                             \
	const dl_desc *NAME##_describe(void)                                                      \
	{                                                                                         \
		return (PROG).desc;                                                               \
	}                                                                                         \
	static int NAME##_load_(const dl_load_options *options, dl_model **model)                 \
	{                                                                                         \
		return dl_rt_load(&(PROG), options, model);                                       \
	}                                                                                         \
	const dl_api *NAME##_get_api(uint32_t abi_version)                                        \
	{                                                                                         \
		static const dl_api api = {                                                       \
			sizeof(dl_api), DL_ABI_VERSION, NAME##_describe, NAME##_load_,            \
			dl_rt_unload, dl_rt_workspace, dl_rt_context, dl_rt_context_free,         \
			dl_rt_prepare, dl_rt_infer_shapes, dl_rt_run, dl_rt_cancel, dl_rt_error,  \
			dl_rt_profile, dl_rt_status_text, dl_rt_device, dl_rt_wait,               \
			dl_rt_device_info,                                                        \
		};                                                                                \
		return abi_version == DL_ABI_VERSION ? &api : NULL;                               \
	}                                                                                         \
	_Static_assert(sizeof(dl_program) > 0, #NAME)

#endif /* DLRT_GENERATED */

#ifdef __cplusplus
}
#endif

#endif
