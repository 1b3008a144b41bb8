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
 * Versions. Structs of part 1 begin with their size, and a later version may append members. A
 * program and a library of different versions work together. If the program's struct is shorter
 * than the library's, the missing members have their defaults, and a struct that the library fills
 * is filled as far as it goes. A program that is newer than the library must leave members that the
 * library does not know zero, and must compare dl_api.size before it calls a function that was
 * appended. The items of an array are as far apart as the size of its first item says: use
 * dl_desc_in, dl_desc_out, dl_desc_sym and dl_io_dim for the arrays of dl_desc.
 *
 * Invariants.
 *
 *   - Members and values that are marked as reserved have no meaning yet: set them to zero, do not
 *     read them.
 *   - The numbers of all codes are frozen.
 *   - Sizes, shapes and indices are 64 bits wide.
 *   - Tensors are borrowed until the call returns; on a GPU, until its work is done.
 *   - No function exits, aborts, prints, or changes the caller's floating point environment.
 *   - Threads may share a model. A context belongs to one thread at a time, except for cancel.
 *   - Nothing is allocated after context and prepare, unless the model has unbounded sizes
 *     (dl_desc.flags); docs/c-api.md lists the other exceptions.
 */
#ifndef DLRT_H
#define DLRT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* The result of every function. dl_api.status_text names the codes, dl_api.error gives details. */
typedef enum dl_status {
	DL_OK = 0,
	/* an argument is wrong: count, type, null pointer, alignment, overlap */
	DL_INVALID = 1,
	DL_ABI = 2,          /* versions of header, runtime and model do not fit together */
	/* the model does not accept these shapes, or a relation between them does not hold */
	DL_SHAPE = 3,
	DL_INDEX = 4,        /* an index was out of range at run time */
	DL_NOMEM = 5,        /* the allocator returned null, or a size overflows */
	DL_WORKSPACE = 6,    /* the caller's workspace is too small for these dims */
	/* an output's memory is too small; its shape is set, and says what is needed */
	DL_CAPACITY = 7,
	DL_WEIGHTS = 8,      /* the weights are missing, unreadable, or another model's */
	DL_TARGET = 9,       /* the machine lacks a device or feature that the code needs */
	DL_CANCELLED = 10,   /* cancel was called */
	/* not supported by this version; or a run that cannot be captured in a CUDA graph */
	DL_UNSUPPORTED = 11,
	/* unload while contexts exist, or a context is used by two threads at once */
	DL_BUSY = 12,
	DL_IO = 13,          /* a file could not be written */
	DL_UNBOUNDED = 14,   /* an exact size was asked for, but a dim has no upper bound */
	DL_RUNTIME = 15,     /* the model itself failed: a negative size, for example */
	DL_DEVICE = 16,      /* the GPU's driver reported an error */
	DL_DEVICE_LOST = 17, /* the GPU failed, and this process cannot use it any more */
} dl_status;

/* Element types, with the numbers of ONNX's TensorProto.DataType. Types under 8 bits are packed,
 * with the first element in the low bits. */
typedef enum dl_dtype {
	DL_F32 = 1, DL_U8 = 2, DL_I8 = 3, DL_U16 = 4, DL_I16 = 5, DL_I32 = 6, DL_I64 = 7,
	DL_STR = 8, /* its elements are dl_str */
	DL_BOOL = 9, DL_F16 = 10, DL_F64 = 11, DL_U32 = 12, DL_U64 = 13, DL_BF16 = 16,
	DL_F8E4M3FN = 17, DL_F8E4M3FNUZ = 18, DL_F8E5M2 = 19, DL_F8E5M2FNUZ = 20, DL_U4 = 21,
	DL_I4 = 22, DL_F4E2M1 = 23, DL_F8E8M0 = 24, DL_U2 = 25, DL_I2 = 26, DL_F6E2M3 = 27,
	DL_F6E3M2 = 28,
} dl_dtype;

/* An element of type DL_STR: n bytes, which may be any, without a terminating NUL. Text is UTF-8.
 * Strings are in host memory. The bytes of an output's strings belong to the context, and are valid
 * until its next run returns, or its end. */
typedef struct dl_str {
	const char *p;
	uint64_t n;
} dl_str;

/* The forms of a dl_tensor and of its items. Items are in host memory. */
typedef enum dl_form {
	DL_TENSOR = 0,
	DL_SEQUENCE = 1, /* any number of tensors of one rank, or of maps */
	DL_OPTIONAL = 2, /* one tensor or sequence, or none */
	DL_MAP = 3,      /* two tensors of one dim: the keys, and their values */
	/* Only of a dl_tensor, for an input or output that dl_io describes as a tensor: the tensor
	 * in pieces, those of several requests, which lie one after the other along a dim whose
	 * symbol has DL_SYM_INDEPENDENT. docs/c-api.md, "Batches" */
	DL_PIECES = 4,
} dl_form;

/*
 * A tensor.
 *
 * Input: shape has rank entries. strides are in elements; null means contiguous, and an input with
 * other strides is copied to memory of the context. data must have the alignment of an element. It
 * may be null if there are no elements, or, for an input with DL_IO_DEFAULT, to use the default
 * value. bytes is the size of the memory at data, which is compared with what the shape needs; 0
 * means that it is not checked.
 *
 * Output: on entry rank is the number of entries that shape has room for; on return rank and shape
 * are those of the result. dtype is the element type; if it is 0 it is filled in. strides must be
 * null, unless dl_io.alias names an input. data is the caller's memory, with room for bytes bytes.
 * If data is null, the context provides the memory, which is valid until its next run or its end;
 * data and bytes are then set. To have memory provided again, set data to null or leave it
 * unchanged.
 *
 * An output may not overlap an input or another output. But where dl_io.alias names an input, the
 * output may have that input's data pointer, and is then computed in place. If it is longer than
 * the input in one dim, both have strides that leave room there (docs/c-api.md).
 *
 * A sequence, optional or map (form): the n_items values at items; the other members are not read.
 * Each item is a value of its own, as for an input. The items of an output, and the memory that
 * they refer to, belong to the context: they are valid until its next run or its end. Set form, and
 * n_items and items to 0; on return items and n_items are set. Items may not be changed. The items
 * of an array are as far apart as the size of the first one says.
 */
typedef struct dl_tensor {
	uint32_t size;
	int32_t dtype;
	int32_t form; /* dl_form */
	int32_t rank;
	int64_t *shape;
	const int64_t *strides;
	void *data;
	uint64_t bytes;
	struct dl_tensor *items;
	int64_t n_items;
	int64_t cap_items; /* reserved */
} dl_tensor;

/* A contiguous tensor. For an output whose memory the context provides: dtype 0, data null,
 * bytes 0. */
static inline dl_tensor dl_tensor_of(int32_t dtype, int32_t rank, int64_t *shape, void *data,
				     uint64_t bytes)
{
	dl_tensor t;

	t.size = (uint32_t)sizeof(t);
	t.dtype = dtype;
	t.form = DL_TENSOR;
	t.rank = rank;
	t.shape = shape;
	t.strides = NULL;
	t.data = data;
	t.bytes = bytes;
	t.items = NULL;
	t.n_items = 0;
	t.cap_items = 0;
	return t;
}

#define DL_UNLIMITED INT64_MAX

typedef enum dl_sym_kind {
	DL_SYM_INPUT = 0, /* known from the inputs, before anything is computed */
	DL_SYM_DATA = 1,  /* computed during the run; at most upper */
} dl_sym_kind;

/* A symbolic dim, lower <= dim <= upper. upper is DL_UNLIMITED if there is no bound, and lower
 * INT64_MIN, as for an element of a tensor that is read as a size. */
typedef struct dl_sym {
	uint32_t size;
	int32_t kind;
	const char *name;
	int64_t lower, upper;
	uint32_t flags; /* DL_SYM_; dl_sym_flags reads it */
	uint32_t reserved;
} dl_sym;

/* The elements along dims of this symbol are computed independently, as those of a batch are:
 * element b of each output depends only on element b of the inputs, and on inputs without such a
 * dim. Each input and output has at most one dim of this symbol, and no dim that is computed from
 * it. An output without one is the same for any batch. */
#define DL_SYM_INDEPENDENT 1u

/* A dim of an input or output: a constant (value >= 0), a symbol (sym >= 0 is its index), or
 * else an expression, given only by its text ("past + seq"). */
typedef struct dl_dim {
	uint32_t size;
	int32_t sym;
	int64_t value;
	const char *text;
} dl_dim;

/*
 * How exactly an output is determined, for a comparison with what another implementation gives.
 * Right results may differ by the rounding of floats, and
 *
 *   by STEP, if that is not 0: the elements are quantised, rounded to multiples of STEP, less or more
 *   a constant;
 *   by some units in the last place of UNIT, if that is not 0: the elements are differences of
 *   numbers of this magnitude, even those near 0;
 *   in the order of the elements along dim DIM, if that is not negative. Output BY, if that is not
 *   negative, has the values that they belong to, in the same order (TopK with sorted = 0).
 */
typedef struct dl_accuracy {
	uint32_t size;
	int32_t dim, by;
	int32_t reserved;
	double step, unit;
} dl_accuracy;

/* An input or output. flags: DL_IO_. If form is not DL_TENSOR, dtype, rank and dim say nothing, and
 * item describes the items: that of a sequence or optional, or the keys and then the values of a
 * map. The dims of an item have neither value nor symbol. */
typedef struct dl_io {
	uint32_t size;
	int32_t dtype;
	int32_t form;
	int32_t rank;
	const char *name;
	const dl_dim *dim;
	int32_t alias; /* of an output: the input that it may share memory with, or -1 */
	uint32_t flags;
	const struct dl_io *item;
	const dl_accuracy *accuracy; /* of an output; null: as exactly as its type allows */
} dl_io;

/* Of an input, on a GPU: the host reads its elements, as sizes depend on them, or a kernel that
 * runs on the host. Pass it in host memory, which is read directly. If it is in the GPU's
 * memory, the run first waits for a copy to the host. */
#define DL_IO_HOST 2u
#define DL_IO_HOST_ONLY 4u /* only the host reads it: in host memory it is not copied to the GPU */
/* Of an input: the model has a default value for it. A run whose tensor has null data uses the
 * default, and ignores the other members of the tensor. */
#define DL_IO_DEFAULT 8u

/* the size of some memory has no bound; it is allocated during the run */
#define DL_DESC_UNBOUNDED 1u
/* The model rounds values that it computes to f16 or bf16, whatever the types of its outputs, so no
 * output is more exact than that type. */
#define DL_DESC_F16 2u
#define DL_DESC_BF16 4u
/* A run takes subnormal numbers, and results that would be, for zero (dlcc --flush-subnormals). */
#define DL_DESC_FLUSH 8u

/* A text of the model's author. */
typedef struct dl_property {
	uint32_t size, reserved;
	const char *key, *value;
} dl_property;

/* The metadata of the ONNX file; a text that it lacks is "". */
typedef struct dl_metadata {
	uint32_t size;
	int32_t n_properties;
	const char *producer, *producer_version, *domain, *doc; /* of the model */
	const char *graph, *graph_doc; /* name and documentation of the graph */
	int64_t version;               /* of the model */
	const dl_property *property;   /* metadata_props, in their order */
} dl_metadata;

/* The description of a model. */
typedef struct dl_desc {
	uint32_t size;
	uint32_t flags;
	const char *name;
	const char *version; /* version of the compiler that made the model */
	const char *hash;    /* hash of the model and of all options that affect the code */
	const char *targets; /* the processors that there is code for: "x86-64-v4 x86-64-v3" */
	const dl_io *in, *out;
	int32_t n_in, n_out;
	const dl_sym *sym;
	int32_t n_sym, reserved;
	uint64_t weights_size;
	const dl_metadata *metadata; /* null: the model has none; dl_desc_metadata reads it */
} dl_desc;

/* Return input, output or symbol i of a description, and dim d of an input or output, whatever
 * version the library's structs have. */
static inline const dl_io *dl_desc_in(const dl_desc *desc, int32_t i)
{
	return (const dl_io *)(const void *)((const char *)desc->in + (size_t)i * desc->in->size);
}

static inline const dl_io *dl_desc_out(const dl_desc *desc, int32_t i)
{
	return (const dl_io *)(const void *)((const char *)desc->out + (size_t)i * desc->out->size);
}

static inline const dl_sym *dl_desc_sym(const dl_desc *desc, int32_t i)
{
	return (const dl_sym *)(const void *)((const char *)desc->sym + (size_t)i * desc->sym->size);
}

static inline const dl_dim *dl_io_dim(const dl_io *io, int32_t d)
{
	return (const dl_dim *)(const void *)((const char *)io->dim + (size_t)d * io->dim->size);
}

static inline const dl_property *dl_metadata_property(const dl_metadata *m, int32_t i)
{
	return (const dl_property *)(const void *)((const char *)m->property +
						   (size_t)i * m->property->size);
}

/* Members that a library of an earlier version lacks; then 0 or null. */
static inline uint32_t dl_sym_flags(const dl_sym *s)
{
	return s->size < offsetof(dl_sym, flags) + sizeof(s->flags) ? 0 : s->flags;
}

static inline const dl_metadata *dl_desc_metadata(const dl_desc *desc)
{
	return desc->size < offsetof(dl_desc, metadata) + sizeof(desc->metadata) ? NULL
										 : desc->metadata;
}

/* The number of the input or output called NAME; -1: there is none. */
static inline int32_t dl_desc_find_in(const dl_desc *desc, const char *name)
{
	for (int32_t i = 0; i < desc->n_in; i++)
		if (!strcmp(dl_desc_in(desc, i)->name, name))
			return i;
	return -1;
}

static inline int32_t dl_desc_find_out(const dl_desc *desc, const char *name)
{
	for (int32_t i = 0; i < desc->n_out; i++)
		if (!strcmp(dl_desc_out(desc, i)->name, name))
			return i;
	return -1;
}

typedef struct dl_model dl_model;
typedef struct dl_context dl_context;

typedef enum dl_log_level { DL_LOG_ERROR = 0, DL_LOG_WARNING = 1, DL_LOG_INFO = 2 } dl_log_level;

/*
 * Options of load. Members that are null or zero have their defaults. Callbacks may be called from
 * any thread that uses the model. user and weights_data must stay valid as long as the model
 * exists.
 */
typedef struct dl_load_options {
	uint32_t size;
	/* 0: as many as the process may use; 1: the caller's only, no thread is created; must
	 * not be negative */
	int32_t threads;
	void *user;      /* the first argument of all callbacks */
	void (*log)(void *user, int32_t level, const char *text);
	void *(*alloc)(void *user, uint64_t bytes, uint64_t align); /* set both, or neither */
	void (*free)(void *user, void *p, uint64_t bytes);
	/* Other weights than the model's own; the first of these that is set is used: memory
	 * aligned to 64; a reader, which fills dst with bytes bytes from offset and returns 0; a
	 * file. They are checked by their hash. Files of weights, the model's own included, are
	 * mapped: while the model is loaded they may be replaced or removed, but not written to
	 * or truncated. */
	const void *weights_data;
	int (*weights)(void *user, void *dst, uint64_t offset, uint64_t bytes);
	const char *weights_path;
	/* The application's thread pool. It must call task(arg, i) for every 0 <= i < n, at most
	 * executor_threads at once, and return when all calls have returned. Null: the model
	 * creates its own threads. */
	void (*executor)(void *user, int32_t n, void (*task)(void *arg, int32_t i), void *arg);
	int32_t executor_threads;
	int32_t profile;          /* nonzero: measure the time of each kernel */
	const char *profile_path; /* also write a Chrome trace at unload (or set DLCC_PROFILE) */
	/* nonzero: use only these DL_CPU_ features (or set DLCC_CPU=none|v2|v3|v4) */
	uint64_t cpu_mask;
	uint32_t flags;
	uint32_t reserved;
	/* The device to run on: "cpu"; "cuda" or "cuda:1", where load fails if there is no such
	 * GPU; null or "auto": the first GPU that the model has code for, else the CPU.
	 * dl_api.device returns the one that was chosen. */
	const char *device;
	/* With profile_path: what the machine can do at most, to which the trace compares kernels.
	 * 0: not known. */
	double roof_flops; /* arithmetic operations in a second */
	double roof_bytes; /* bytes from and to memory in a second */
} dl_load_options;

/* check the hash of the weights even if they are the model's own */
#define DL_LOAD_CHECK_WEIGHTS 1u

/*
 * Options of context.
 *
 * max_dims: the largest value of each symbol of dl_desc.sym, -1 for its upper bound; values of
 * DL_SYM_DATA symbols are ignored. If max_dims is given, or there is no DL_SYM_INPUT symbol, the
 * workspace is allocated at once. Otherwise it is allocated by prepare, or by the first run that
 * needs more, and grows.
 *
 * workspace: the caller's memory, aligned to 64, which must stay valid as long as the context; it
 * never grows. On a GPU it is the GPU's memory.
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

/* On a GPU: inputs and outputs will be in its memory, so prepare allocates no memory to copy
 * them from or to the host. A run with tensors in host memory then allocates it. */
#define DL_CONTEXT_ON_GPU 1u
/* On a GPU: a run with a null stream uses a stream of the context's own, which does not wait for
 * work in the default stream. Without this flag a null stream is the default stream. */
#define DL_CONTEXT_OWN_STREAM 2u

typedef struct dl_workspace {
	uint32_t size;
	uint32_t align;
	/* on a GPU: host memory for computing sizes, which the context allocates itself */
	uint64_t host_bytes;
	/* on a GPU: GPU memory; memory to copy inputs and outputs from or to the host is not
	 * included */
	uint64_t device_bytes;
} dl_workspace;

/* The time of a kernel, summed over all runs of a model. name: the ONNX nodes in the kernel. calls:
 * of its functions; a kernel may have several. flops and bytes are what the kernel's statements ask
 * for, however they are carried out: its arithmetic (a multiply-add is two), and its operands and
 * results, each read or written once. Both are 0 if they are unknown. */
typedef struct dl_profile_entry {
	uint32_t size;
	uint32_t reserved;
	const char *name;
	uint64_t calls;
	uint64_t nanoseconds;
	uint64_t flops;
	uint64_t bytes;
} dl_profile_entry;

/* Properties of the GPU that a model runs on. */
typedef struct dl_device_info {
	uint32_t size;
	int32_t sm;                /* compute capability times ten */
	/* peak bandwidth of its memory, from clock and bus width; 0: the driver does not say */
	uint64_t bytes_per_second;
	uint64_t weights_bytes;    /* bytes of the model's weights in its memory */
} dl_device_info;

typedef struct dl_api {
	uint32_t size;
	uint32_t abi;
	const dl_desc *(*describe)(void);
	/* Loads the model. Null options: all defaults. On failure *model is null, and
	 * error(NULL), called in the same thread, returns the text. */
	int (*load)(const dl_load_options *options, dl_model **model);
	/* Joins the threads and writes the profile. DL_BUSY if contexts still exist. Call it
	 * before dlclose. */
	int (*unload)(dl_model *model);
	/* The exact size in bytes of a context's workspace for dims up to max_dims; n_dims must
	 * be desc.n_sym. */
	int (*workspace)(dl_model *model, const int64_t *max_dims, int32_t n_dims,
			 dl_workspace *bytes);
	/* Makes a context. On a GPU the first context has the driver load the kernels, for all
	 * contexts. */
	int (*context)(dl_model *model, const dl_context_options *options, dl_context **context);
	void (*context_free)(dl_context *context);
	/* Sets up everything that a first run with these dims would; n_dims must be desc.n_sym.
	 * On a GPU that includes a CUDA graph, and, unless DL_CONTEXT_ON_GPU is set, memory to
	 * copy inputs and outputs from or to the host. The graphs of the last 8 sets of dims are
	 * kept. If sizes depend on values, the first run makes the graph. For a model without
	 * symbols, context does all this. */
	int (*prepare)(dl_context *context, const int64_t *dims, int32_t n_dims);
	/* Sets rank, shape and bytes of the outputs. Inputs need data only if sizes depend on
	 * it. A dim that the run computes is -1, and bytes is then 0. */
	int (*infer_shapes)(dl_context *context, const dl_tensor *in, int32_t n_in, dl_tensor *out,
			    int32_t n_out);
	/* Runs the model. Inputs and outputs are in the order of describe.
	 *
	 * On a GPU their data may be in host memory, which is copied, or in the GPU's. stream is
	 * a CUstream; null is the default stream, unless DL_CONTEXT_OWN_STREAM is set. It is not
	 * used any more once run has returned. It may be capturing; docs/c-api.md says what a
	 * run does then. If all data is in the GPU's memory and no size depends on data, run
	 * returns as soon as its work is in the stream. An index out of range is then reported
	 * by wait, or by a later run, which does nothing else.
	 *
	 * After a failure the contents of the outputs are undefined. */
	int (*run)(dl_context *context, const dl_tensor *in, int32_t n_in, dl_tensor *out,
		   int32_t n_out, void *stream);
	/* Stops the current run, or else the next one, before its next kernel. May be called
	 * from any thread. */
	void (*cancel)(dl_context *context);
	/* The text of the last failure of a context or of a model; "" if there was none. Null:
	 * of load, of a function of a model (context is one), or of a function that got a null
	 * model or context, in this thread. The text is valid until this thread calls a function
	 * of the API again. */
	const char *(*error)(const void *object);
	/* Sets *entry to entry i of the profile; DL_INVALID beyond the last one. */
	int (*profile)(dl_model *model, int32_t i, dl_profile_entry *entry);
	const char *(*status_text)(int status);
	/* The device that the model runs on: "cpu", or "cuda:0" and the GPU's name. */
	const char *(*device)(const dl_model *model);
	/* Waits for runs that returned before their work was done. Returns the status of the
	 * first one that failed. */
	int (*wait)(dl_context *context);
	/* DL_TARGET if the model runs on the CPU. */
	int (*device_info)(const dl_model *model, dl_device_info *info);
} dl_api;

/* The one symbol to look up with dlsym, NAME_get_api. Returns null for a version that the
 * library does not know. */
typedef const dl_api *(*dl_get_api_fn)(uint32_t abi_version);

/* The processor features that code may need, as bits: levels of x86-64, 64-bit Arm with NEON, and
 * single features. No code needs AVX512_FP16 yet: the bit is reserved. */
#define DL_CPU_X86_V2      1ull
#define DL_CPU_X86_V3      2ull
#define DL_CPU_X86_V4      4ull
#define DL_CPU_AVX_VNNI    8ull
#define DL_CPU_AVX512_VNNI 16ull
#define DL_CPU_AVX512_BF16 32ull
#define DL_CPU_AVX512_FP16 64ull
#define DL_CPU_AMX_INT8    128ull
#define DL_CPU_AMX_BF16    256ull
#define DL_CPU_ARM_V8      512ull
#define DL_CPU_ARM_I8MM    1024ull

/* ---- Part 2: generated code ---------------------------------------------------------------- */

/* The structs of this part that begin with their size may grow, too: code that an earlier dlcc
 * generated works with this runtime. dl_gpu_fn, dl_gpu_image and dl_gpu_piece do not change
 * within one DL_ABI_VERSION. */
#ifdef DLRT_GENERATED

#ifdef __cplusplus
#error "generated code is C"
#endif

#define DL_EXPORT __attribute__((visibility("default")))

/* The strings of a run: see dl_program.strings. */
typedef struct dl_strings dl_strings;

/* The runtime's table of strings. Only a program that has strings refers to it, so the linker
 * leaves it out of the others. */
typedef struct dl_string_table dl_string_table;
extern const dl_string_table dl_rt_strings;

/* The arguments of a kernel: buffers, dims, where to report an index out of range, and the strings
 * for routines (dl_str_...). */
typedef struct dl_kctx {
	void *const *buf;
	const int64_t *dim;
	int32_t *fault; /* set only by dl_fault */
	dl_strings *strings;
	int64_t *bad_index; /* the index out of range and the size of its dim; likewise */
	/* nonzero: dim has the sizes of a part of the run's batch. All parts are to be computed
	 * alike, whatever their sizes are. */
	int32_t part;
} dl_kctx;

/* A function that computes [begin, end) of a kernel's parallel stage. scratch is this thread's
 * own, aligned to 64, with as many bytes as plan asked for. */
typedef void (*dl_kernel_fn)(const dl_kctx *k, int64_t begin, int64_t end, void *scratch);

/* Reports that index I is out of range in a dim of N, at fault site SITE, an index in
 * dl_program.faults. The kernel skips the access and continues. The first report of a run
 * counts. */
static inline void dl_fault(const dl_kctx *k, int32_t site, int64_t i, int64_t n)
{
	int32_t none = 0;

	if (!__atomic_compare_exchange_n(k->fault, &none, site + 1, 0, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	k->bad_index[0] = i;
	k->bad_index[1] = n;
}

/* Routines on strings, for kernels; ir/expr/routines.def of the compiler describes them. */
int64_t dl_str_concat(dl_strings *t, int64_t a, int64_t b);
int64_t dl_str_pieces(dl_strings *t, int64_t s, int64_t delimiter);
int64_t dl_str_piece(dl_strings *t, int64_t s, int64_t delimiter, int64_t k);
int64_t dl_str_rest(dl_strings *t, int64_t s, int64_t delimiter, int64_t k);
_Bool dl_str_less(dl_strings *t, int64_t a, int64_t b);
int64_t dl_str_lower(dl_strings *t, int64_t s);
int64_t dl_str_upper(dl_strings *t, int64_t s);
_Bool dl_str_matches(dl_strings *t, int64_t s, int64_t pattern);
int64_t dl_str_of_f32(dl_strings *t, float v);
int64_t dl_str_of_f64(dl_strings *t, double v);
int64_t dl_str_of_i64(dl_strings *t, int64_t v);
int64_t dl_str_of_u64(dl_strings *t, uint64_t v);
float dl_str_to_f32(dl_strings *t, int64_t s);
double dl_str_to_f64(dl_strings *t, int64_t s);
int64_t dl_str_to_i64(dl_strings *t, int64_t s);
uint64_t dl_str_to_u64(dl_strings *t, int64_t s);

/* Arithmetic on sizes. A result that does not fit is INT64_MAX, "too large", and so is every
 * result computed from it. So checking the final result detects an overflow anywhere in the
 * computation. */
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

/* floor(a / b); 0 if b is 0. */
static inline int64_t dl_floordiv(int64_t a, int64_t b)
{
	if (b == 0)
		return 0;
	if (a == INT64_MAX || b == INT64_MAX || (a == INT64_MIN && b == -1))
		return INT64_MAX;
	return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Whether two sizes are equal, and neither is too large. */
static inline int dl_equal(int64_t a, int64_t b)
{
	return a == b && a != INT64_MAX;
}

static inline int dl_at_most(int64_t a, int64_t b)
{
	return a <= b && b != INT64_MAX;
}

static inline int64_t dl_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t dl_max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The same arithmetic in 128 bits, for sizes that are computed from elements of tensors: these may
 * be any number of 64 bits, and their difference may need 65. DL_WIDE_MAX is "too large". */
__extension__ typedef __int128 dl_wide;
#define DL_WIDE_MAX ((dl_wide)(~(unsigned __int128)0 >> 1))

/* A size that was computed before. */
static inline dl_wide dl_widen(int64_t size)
{
	return size == INT64_MAX ? DL_WIDE_MAX : size;
}

static inline int64_t dl_narrow(dl_wide v)
{
	return v < INT64_MIN || v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

static inline dl_wide dl_wide_add(dl_wide a, dl_wide b)
{
	dl_wide r;

	return a == DL_WIDE_MAX || b == DL_WIDE_MAX || __builtin_add_overflow(a, b, &r) ? DL_WIDE_MAX : r;
}

/* Of numbers of more than 64 bits, the result is too large if the factors have more than 126 bits
 * together: compilers make a call to a library of their own for an exact test. */
static inline dl_wide dl_wide_mul(dl_wide a, dl_wide b)
{
	int bits = 0;

	if (a == 0 || b == 0)
		return 0;
	if (a == DL_WIDE_MAX || b == DL_WIDE_MAX)
		return DL_WIDE_MAX;
	if (a != (int64_t)a || b != (int64_t)b) {
		for (dl_wide v = a; v != 0 && v != -1; v >>= 1)
			bits++;
		for (dl_wide v = b; v != 0 && v != -1; v >>= 1)
			bits++;
	}
	return bits > 126 ? DL_WIDE_MAX : a * b;
}

static inline dl_wide dl_wide_floordiv(dl_wide a, dl_wide b)
{
	if (b == 0)
		return 0;
	if (a == DL_WIDE_MAX || b == DL_WIDE_MAX)
		return DL_WIDE_MAX;
	if (a == (int64_t)a && b == (int64_t)b && b != -1) {
		const int64_t x = (int64_t)a, y = (int64_t)b;

		return x / y - (x % y != 0 && (x < 0) != (y < 0));
	}
	return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static inline dl_wide dl_wide_min(dl_wide a, dl_wide b)
{
	return a == DL_WIDE_MAX || b == DL_WIDE_MAX ? DL_WIDE_MAX : a < b ? a : b;
}

static inline dl_wide dl_wide_max(dl_wide a, dl_wide b)
{
	return a > b ? a : b;
}

static inline int dl_wide_equal(dl_wide a, dl_wide b)
{
	return a == b && a != DL_WIDE_MAX;
}

static inline int dl_wide_at_most(dl_wide a, dl_wide b)
{
	return a <= b && b != DL_WIDE_MAX;
}

/* The size of a dim: n, but at least 0. */
static inline int64_t dl_size(int64_t n)
{
	return n < 0 ? 0 : n;
}

/* n rounded up to a multiple of 64, the alignment of everything in the arena. */
static inline int64_t dl_align(int64_t n)
{
	return n > INT64_MAX - 63 ? INT64_MAX : (n + 63) & ~(int64_t)63;
}

typedef struct dl_program dl_program;
typedef struct dl_region dl_region;

/* A kernel for GPUs: an entry of a PTX module. Its parameters have 8 bytes each. A kernel that may
 * report an index out of range has two more, the status word and the site. One whose last blocks
 * combine what others stored has one more, the counters of the blocks that arrived. dl_gpu_launch
 * adds these. */
typedef struct dl_gpu_fn {
	const char *name;
	int32_t threads; /* threads per block */
	int32_t faults;
	int32_t shared;  /* bytes of dynamic shared memory per block */
	int32_t arrives; /* it counts the blocks that arrive */
} dl_gpu_fn;

/* All kernels for one target. dl_exec.variant is the index of the image. */
typedef struct dl_gpu_image {
	int32_t sm;   /* compute capability times ten */
	int32_t only; /* nonzero: it does not run on GPUs of later capabilities */
	/* their PTX: as many texts, one after the other, each of which ends with a zero byte and is
	 * the module of one kernel */
	const char *ptx;
	const dl_gpu_fn *fn;
	int32_t n_fn;
	const void *cubin; /* the PTX, compiled for this capability; or null */
} dl_gpu_image;

/* A range of the weights that the GPU has, too: at offset `to` of its copy, and `from` of all
 * weights. */
typedef struct dl_gpu_piece {
	uint64_t to, from, bytes;
} dl_gpu_piece;

typedef struct dl_gpu {
	uint32_t size;
	int32_t n_images;
	const dl_gpu_image *image; /* best first */
	uint64_t weights_bytes;    /* bytes of the weights' copy on the GPU */
	const dl_gpu_piece *piece;
	int32_t n_pieces, reserved;
} dl_gpu;

/*
 * The state of a run. The runtime makes all arrays; they live as long as the context. sym
 * values of dl_desc.sym. The runtime sets those that are by themselves a dim of an input, and the
 *           others to -1; bind sets the other DL_SYM_INPUT ones; exec sets the DL_SYM_DATA ones.
 * in,out  data, in the order of dl_desc. out[o] is valid as soon as the output's shape is known:
 * from the
 *           start, or after dl_output.
 * host_in in a program for GPUs: the data of inputs with DL_IO_HOST in host memory; in[i] is then
 * the data
 *           in the GPU's memory, or null with DL_IO_HOST_ONLY.
 * buf     the arena's buffers, at the offsets that plan has set; null if the offset is -1. weights
 * the weights, aligned to 64. variant index in dl_program.variants.
 */
typedef struct dl_exec {
	const dl_program *prog;
	dl_context *ctx;
	int64_t *sym;
	void **in;
	void **host_in;
	void **out;
	void **buf;
	char *weights; /* must not be written */
	int64_t *const *in_shape;  /* [i][d] */
	int64_t *const *out_shape; /* [o][d]: -1 until known */
	int32_t variant;
	int32_t status; /* status of the first failure */
	int32_t counts; /* nonzero: the run is profiled, and dl_count is to be called */
	int32_t part;   /* nonzero: sym has the sizes of a part of the run's batch */
	/* where several threads call exec: the runtime's state of this thread; else null */
	void *thread;
} dl_exec;

typedef enum dl_weights_kind {
	DL_WEIGHTS_NONE = 0,
	DL_WEIGHTS_EMBEDDED = 1, /* at dl_program.weights, aligned to 64 */
	DL_WEIGHTS_SECTION = 2,  /* in section .dlcc.weights of the file that contains dl_program */
	DL_WEIGHTS_FILE = 3,     /* in the file weights_file in the same folder; checked by hash */
} dl_weights_kind;

/* Output out may be computed in place of input in: they differ in the size of dim dim at most. The
 * other members are indices in dl_exec.sym. */
typedef struct dl_alias {
	int32_t out, in, dim;
	/* as how large the strides of the input and of the output make dim; -1: all their dims are
	 * equal, and they are contiguous */
	int32_t room_in, room_out;
	int32_t copied; /* how much of dim is copied from the input: all of it; in place, nothing */
} dl_alias;

/*
 * A compiled model. A run does the following, in this order: dims of the inputs are bound to
 * symbols; bind; plan, unless the symbols have the same values as in the last run; shapes and
 * memory of the outputs; exec.
 */
struct dl_program {
	uint32_t size, abi;
	const dl_desc *desc;
	/* buffers in the arena; in a program for GPUs, the last n_host_buf are in host memory */
	int32_t n_buf;
	/* slots of the second region: memory whose size is known only during a run */
	int32_t n_region;
	int32_t n_kernels; /* kernels; their names, for the profile, are the ONNX nodes in each */
	/* fault sites; their texts are like "node \"/emb/Gather\" (Gather): index out of range" */
	int32_t n_faults;
	const char *const *kernels;
	const char *const *faults;
	/* Sets of DL_CPU_ features, best first. dl_exec.variant is the first one that the
	 * machine has. If there is none at all, variant 0 runs on any machine. */
	const uint64_t *variants;
	int32_t n_variants;
	int32_t weights_kind;
	const void *weights;
	const char *weights_file;
	uint64_t weights_hash; /* computed by runtime/hash.h; the size is in desc */
	/* May be null. Sets symbols and entries of out_shape that are expressions; checks facts,
	 * and dims of inputs that are expressions. It reads the data only of inputs whose
	 * dl_io.flags have DL_IO_SHAPE_DATA. */
	int (*bind)(dl_exec *x);
	/* Depends only on DL_SYM_INPUT symbols. Sets offset[n_buf] in the arena (multiples of
	 * 64; -1: not in the arena), the arena's total bytes, and the scratch bytes of a thread.
	 * Never null. It must use dl_mul, so that it does not overflow. In a program for GPUs
	 * the arena is in the GPU's memory; scratch is host memory, in which the n_host_buf
	 * buffers have their offsets. */
	void (*plan)(const int64_t *sym, int64_t *offset, int64_t *total, int64_t *scratch);
	/* Runs the model: a sequence of dl_launch, with C control flow around it. */
	int (*exec)(dl_exec *x);
	const dl_program *on_gpu; /* the same model's program for GPUs, or null */
	/* of a program for GPUs: its kernels; variants[i] is not used then */
	const dl_gpu *gpu;
	/* May be null. Sets entries of in_shape that are expressions, from the symbols. */
	void (*dims)(dl_exec *x);
	int32_t n_host_buf;
	/* by input: offset of its default value in the weights, or -1; null: no input has one */
	const int64_t *defaults;
	/* The strings that are constants, distinct, and the first one empty; n_strings is 0 if the
	 * program has no strings. In buffers and in the weights a string is its id, an int64_t: the
	 * index here, or the number that the runtime gives to a string of the run. */
	const dl_str *strings;
	int64_t n_strings;
	/* The description for applications, where inputs or outputs are not all tensors; else
	 * null. In desc, consecutive tensors stand for each of these (runtime/forms.c). */
	const dl_desc *shown;
	/* nonzero: exec does nothing but dl_launch and dl_count and reads nothing that kernels
	 * write, so all threads of a run may call it, each with a dl_exec of its own */
	int32_t only_launches;
	/* dl_exec.sym has n_more_sym values more, behind those of desc, for the aliases. bind sets
	 * them as for memory of its own for each tensor, then the runtime for each run. plan does
	 * not depend on them. */
	int32_t n_more_sym;
	const dl_alias *aliases;
	int32_t n_aliases;
	/* If slice is not 0, the elements of a dim of size dl_exec.sym[slice_sym] are computed
	 * independently, in inputs and outputs all dims before it are 1, exec only launches, and
	 * there are no strings. The runtime calls plan and exec for fewer elements at a time, with
	 * their data: for `slice` of them in each thread, or for as many times the threads in
	 * all. */
	int32_t slice_sym;
	int64_t slice;
	/* &dl_rt_strings if n_strings is not 0 */
	const dl_string_table *string_table;
};

#define DL_IO_SHAPE_DATA 1u /* dl_io.flags; reserved: bind reads this input's data */

/*
 * Runs fn over [0, n), split between the threads into contiguous parts of at least grain
 * iterations. If n < 2 * grain, there is one part, which runs in the calling thread. Checks for
 * cancel before, and for a fault after. buf and dim are the arguments of this kernel. The time of
 * every launch is counted for kernel number kernel. After a failure in the run it does nothing and
 * returns that status again.
 */
int dl_launch(dl_exec *x, int32_t kernel, dl_kernel_fn fn, void *const *buf, const int64_t *dim,
	      int64_t n, int64_t grain);

/* To be called before the launches of a kernel, while x->counts is set: the arithmetic operations
 * and the bytes of all of them together (dl_profile_entry). A size that is too large or negative
 * is not counted. */
void dl_count(dl_exec *x, int64_t flops, int64_t bytes);

/* Records a failure with its text; returns status. */
int dl_fail(dl_exec *x, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* To be called before each iteration of a loop in exec, which ends if the result is zero: after a
 * failure or cancel. LOOP names it in the message. */
int dl_iterate(dl_exec *x, const char *loop);

/* To be called when the data-dependent shape of output o is known, before the first write to the
 * output: checks the capacity, sets the caller's shape, and sets x->out[o]. */
int dl_output(dl_exec *x, int32_t o, const int64_t *shape);

/*
 * As dl_launch, on the GPU: launches function fn of the variant's image with blocks blocks, in the
 * run's stream. site: the fault site that an index out of range is reported for. In a program for
 * GPUs buffers are in the GPU's memory.
 */
int dl_gpu_launch(dl_exec *x, int32_t kernel, int32_t fn, const uint64_t *arg, int32_t n_args,
		  int64_t blocks, int32_t site);
/* To be called before the launch of a kernel that counts the blocks that arrive: N counters are 0,
 * and the kernel leaves them so. */
int dl_gpu_arrivals(dl_exec *x, int64_t n);
/* Bytes of shared memory that a block may have on this GPU. */
int32_t dl_gpu_shared(const dl_exec *x);
/* Copies in the stream, from GPU memory to GPU memory. */
int dl_gpu_copy(dl_exec *x, void *to, const void *from, int64_t bytes);
/* To be called before exec computes on the host or reads values that sizes depend on. Fails while
 * prepare makes a graph, when there are no values yet; the first run makes the graph then. */
int dl_gpu_reads(dl_exec *x);
/* Copies from the GPU to host memory, after all earlier work in the stream; waits for the copy. */
int dl_gpu_to_host(dl_exec *x, void *to, const void *from, int64_t bytes);
/* Copies from host memory to the GPU, likewise: from may be written again at once. */
int dl_gpu_from_host(dl_exec *x, void *to, const void *from, int64_t bytes);
/* Copies output o, which the host has computed, to the caller's memory. */
int dl_gpu_give(dl_exec *x, int32_t o, const void *from, int64_t bytes);

/* Memory of slot s of the second region: at least bytes bytes, aligned to 64. It is reused
 * between runs if it is large enough, else allocated again. When it grows, only the first keep
 * bytes of the contents are preserved. Null after a failure, which is recorded. In a program for
 * GPUs it is the GPU's memory. */
void *dl_region_alloc(dl_exec *x, int32_t s, int64_t bytes, int64_t keep);
/* The same for a slot of the second region that is in host memory, in a program for GPUs. */
void *dl_host_region_alloc(dl_exec *x, int32_t s, int64_t bytes, int64_t keep);

/* Provides at least bytes bytes of scratch to each thread in the following launches, for kernels
 * whose scratch depends on sizes that are read from data. Returns a status. */
int dl_scratch(dl_exec *x, int64_t bytes);

/* The functions that DL_DEFINE_API refers to; see dl_api. */
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

/* Defines the two exported functions of model NAME, whose program is PROG. */
#define DL_DEFINE_API(NAME, PROG)                                                                 \
	DL_EXPORT const dl_desc *NAME##_describe(void);                                           \
	DL_EXPORT const dl_api *NAME##_get_api(uint32_t abi_version);                             \
	const dl_desc *NAME##_describe(void)                                                      \
	{                                                                                         \
		return (PROG).shown ? (PROG).shown : (PROG).desc;                                 \
	}                                                                                         \
	static int NAME##_load_model(const dl_load_options *options, dl_model **model)            \
	{                                                                                         \
		return dl_rt_load(&(PROG), options, model);                                       \
	}                                                                                         \
	const dl_api *NAME##_get_api(uint32_t abi_version)                                        \
	{                                                                                         \
		static const dl_api api = {                                                       \
			sizeof(dl_api), DL_ABI_VERSION, NAME##_describe, NAME##_load_model,       \
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
