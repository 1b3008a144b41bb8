/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module is what the passes work on: one graph, and the results of analyses in side arrays
 * indexed by Node.id or Value.id. The table in passes.c is the pipeline; each pass is one function
 * over a Module.
 */
#ifndef PASSES_MODULE_H
#define PASSES_MODULE_H

#include "ir/loop/loop.h"
#include "ops/op.h"
#include "passes/target.h"

typedef struct Options {
	int level;         /* -O0..3; 0: one kernel for each node */
	int rewrite_limit; /* the most rewrites that are done; -1: no limit */
	/* run the verifier after every pass, and let isl check schedules */
	bool verify;
	/* CPUs: rows of the largest tiles of Winograd's convolutions, 2 or 4; 0: none */
	int winograd;
	int slice; /* CPUs: elements of the batch for each thread that run at a time; 0: all; negative: by cost */
	bool flush; /* CPUs take subnormal numbers for zero */
	bool tf32;  /* allow GPUs to round the operands of f32 products to tf32 */
	/* the text of a file of decisions (passes/schedule/common/schedule_file.c), and
	 * its name; null: `decide` chooses */
	const char *schedule, *schedule_file;
	bool warn_floats; /* -Wfallback: about products of dequantised numbers in floats, too */
	/* the layers that `quantise` quantises (passes/graph/quantise.h); null: none */
	const struct QuantPlan *quantise;
	/* what weights of products become (0: they stay): DT_I8 or DT_I4, with a scale for each
	 * WEIGHT_GROUP terms of the sum (0: for all), DT_F16 or DT_BF16 */
	DType weight_type;
	int weight_group;
	double weight_error; /* the most that this may change weights, relative to their magnitude; negative: any */
	const char *const *weight_keep; /* ... and those of these nodes stay */
	int nweight_keep;
	DType caches; /* what caches of f32 are stored as (caches_type); 0: they stay */
	/* products of narrow weights quantise their other factor in groups of terms */
	bool int8_activations;
	/* GPUs store what kernels compute for one another as this type, DT_F16 or DT_BF16; 0: as it
	 * is */
	DType half_activations;
	/* not null: the pass halves makes a probe, which rounds at run time as its inputs say */
	struct HalvesProbe *halves_probe;
	bool bf16_activations; /* CPUs round what panels of bf16 weights are multiplied by to bf16 */
	/* visit kernels that are lowered, decided and scheduled alone from the last to the first
	 * (module_first), which must not change the output */
	bool shuffle;
} Options;

/* The tiles of Winograd's convolutions whose error is no larger than that of a sum of the taps
 * (docs/numerics.md). */
enum { WINOGRAD_DEFAULT = 4, WINOGRAD_EXACT = 2 /* exact on small integers, too */ };

/* Where the pass `halves` may round, for the measurements of --max-error: a kernel is a unit. The
 * probe's last input, f32[n], is not 0 for units that round; a value is rounded if the kernels that
 * write and read it all do. */
typedef struct HalvesProbe {
	bool weights;            /* constant factors are rounded, too */
	int n;                   /* units */
	const Locs *const *locs; /* by unit: the nodes of the model that it computes */
} HalvesProbe;

enum { MAX_TARGETS = 8 };

/* A product of two dequantised tensors. */
typedef struct ByteProduct {
	Dim *work;     /* its multiply-adds */
	bool integers; /* they are computed in integers */
} ByteProduct;

/* Counts of the schedules that --verify proved. A schedule that equals an earlier one counts as
 * EQUAL and is not proved again. */
typedef struct Verified {
	int proved, unproved, wrong, equal;
} Verified;

/* A run computes PARTS elements of the dim SYM for each thread at a time
 * (passes/memory/slice.c). */
typedef struct Slice {
	Sym *sym; /* null: all at once */
	int64_t parts;
} Slice;

/* The graph for one kind of device. For GPUs a second module has a graph of its own, a copy
 * (module_clone), on which only the passes from `lower` on run. */
typedef struct Module {
	Ctx *ctx;
	Arena *arena;
	Graph *graph;
	Infer *infer;
	bool f16,
		bf16; /* after `infer`: a value that is computed from inputs is of this type; or `halves` rounds one */
	Options opt;
	const Target *target[MAX_TARGETS]; /* best first; all CPUs, or all GPUs */
	int ntargets;                      /* all of them are CPUs, or all are GPUs */
	/* for GPUs: the CPU for which host code is compiled, which any host can run */
	const Target *host;
	struct Form **form; /* set by `forms`, by Node.id (passes/forms/form.h); null: not known */
	int nforms;         /* entries of it */
	/* Set by `decide`. By target, then by Node.id; null if the node is not a kernel, or one
	 * for GPUs (passes/schedule/common/decision.h). */
	struct Decision **decision[MAX_TARGETS];
	int ndecisions; /* entries of each */
	/* Set by `sched`. By target, then by Node.id; null if the node is not a kernel. */
	Schedule **sched[MAX_TARGETS];
	int nsched; /* entries of each */
	Verified verified;
	VEC(ByteProduct) byte_products; /* set by `algebra` */
	struct MemPlan *mem;            /* set by `memplan` */
	Slice slice;                    /* set by `slice` */
	/* By Node.id, for --explain: how a pass chose what the node's kernel is; or null. */
	const char **note;
	int nnotes;    /* entries of it */
	FILE *report;  /* where passes say what they did that was asked for; or null */
	char *weights; /* answers of value_is_weights during a pass, by Value.id */
	int nweights;
	struct Module *gpu; /* in the module for CPUs: the one for GPUs, or null */
} Module;

/* The kinds of devices that a pass applies to. */
typedef enum PassOn { ON_ALL, ON_GPUS } PassOn;

/* A result of a pass as text, for --dump-ir. */
typedef struct PassText {
	/* NODE: only what serves the ONNX node of this name; null: all */
	void (*print)(StrBuf *b, Module *m, const char *node);
	bool whole; /* it is of the whole graph: NODE is null */
	bool read;  /* dlcc-opt reads it as a graph */
	bool file; /* an option reads this text as a file, so it gets no heading when it is alone */
} PassText;

typedef struct Pass {
	const char *name;
	bool (*run)(Module *m); /* false after a diagnostic */
	PassOn on;
	/* changes kernels into others that compute the same: tests evaluate the graph before and
	 * after it */
	bool rewrites;
	const PassText *prints;
	const char *what; /* a line for --list-passes: what it does, and why at this point */
} Pass;

/* The passes, in the order in which they run: the numbers of rows of pass_table. */
typedef enum PassId {
#define PASS(name, on, rewrites, prints, what) PASS_##name,
#define BEFORE(first, then)
#include "passes/passes.def"
#undef PASS
#undef BEFORE
	PASS_COUNT,
	PASS_LAST = PASS_COUNT - 1
} PassId;

extern const Pass pass_table[]; /* by PassId; the last, number PASS_COUNT, has a null name */

/* Whether M's kernels run on a GPU. */
static inline bool module_on_gpu(const Module *m)
{
	return m->ntargets && m->target[0]->gpu;
}

/* The nodes of M's graph, by module_first and module_next, for a pass that handles each without the
 * others: in order, or, with Options.shuffle, from the last to the first. */
static inline Node *module_first(const Module *m)
{
	return m->opt.shuffle ? m->graph->last : m->graph->first;
}

static inline Node *module_next(const Module *m, const Node *n)
{
	return m->opt.shuffle ? n->prev : n->next;
}

#define PASS(name, on, rewrites, prints, what) bool pass_##name(Module *m);
#define BEFORE(first, then)
#include "passes/passes.def"
#undef PASS
#undef BEFORE

/*
 * The memory plan. A value is stored in a slot of the arena, in an output's memory, in the weights,
 * in an input's memory, or, if it is a view, with its base. Values whose lifetimes do not overlap
 * share a slot. The size of a slot is a dim over symbols that the inputs' shapes determine. A value
 * whose size has no such bound is in the second region.
 *
 * In a program for GPUs all of that is GPU memory. Values that the host computes are in slots of a
 * second arena in host memory, and the host's constants are part of its code.
 */
typedef enum PlaceKind {
	PLACE_NONE,    /* not stored: unused, or a constant that no kernel reads */
	PLACE_INPUT,   /* at: the input's number */
	PLACE_OUTPUT,  /* at: the output's number; the kernel writes the caller's memory */
	PLACE_SLOT,    /* at: slot of the arena */
	PLACE_HOST,    /* at: slot of the host's arena, in a program for GPUs */
	PLACE_REGION,  /* at: slot of the second region; size: bytes */
	PLACE_WEIGHTS, /* offset: bytes from the base */
	PLACE_CARRY,   /* where pointer AT of MemPlan.carry points: a value that a loop carries, or the result
			* of a When */
	PLACE_NEXT,    /* at: likewise; the memory that the pointer points to after this iteration */
	PLACE_STACK,   /* this iteration's part of stack AT of MemPlan.stack */
	PLACE_ITERATION     /* the number of the iteration itself, of the loop that the Iteration is in */
} PlaceKind;

typedef struct Place {
	PlaceKind kind;
	int at;
	int64_t offset;
	Dim *size; /* bytes */
} Place;

/* Memory in an arena. Slots that are in use at the same time do not overlap. */
typedef struct Slot {
	Dim *size;       /* bytes */
	int from, until; /* ticks of Slots.clock between which it is in use */
	/* It begins where the last of these ends, or, without any, at 0; rounded up to 64. */
	int *below;
	int nbelow;
	int64_t offset;  /* where it begins, if that is known when the model is compiled, else -1 */
	bool top;        /* no slot begins after it */
} Slot;

typedef struct Slots {
	Slot *at;
	int n, cap;
	int clock;
	int *order; /* all slots, each after those below it */
	/* at sizes for which the slots were placed: bytes of the arena, and bytes in use together
	 * at most */
	int64_t sample_total, sample_least;
} Slots;

/* How control flow passes a value on: without a copy, by a pointer. */
typedef struct Carry {
	/* Two memories that the iterations of a loop write in turn, as each reads what the one
	 * before wrote; of the kind PLACE_NONE where no iteration writes: the value is computed
	 * outside, or is a stack's. */
	Place pair[2];
	bool copied; /* the iteration's value lies elsewhere, and is copied into one of the two */
	bool in_place; /* both are one memory, of which an iteration replaces elements */
} Carry;

/* A value whose rows the iterations of a loop write one after another. */
typedef struct Stack {
	Value *all;   /* the result of the EndFor */
	Node *open;   /* the For */
	Dim *each;    /* bytes of one iteration */
	bool reverse; /* the first iteration's is last */
	bool copied;  /* the iteration's value lies elsewhere, and is copied */
	bool grows;   /* its size is known only after the last iteration */
} Stack;

typedef struct MemPlan {
	Place *value;        /* by Value.id; a view has the place of its base */
	/* by Value.id of bases: position in the graph of the last node that reads it */
	int *last;
	/* by Value.id: the operand whose slot the result overwrites, or null */
	Value **over;
	Slots slots;         /* of the arena */
	Slots host;          /* of the host's arena */
	int nregions;
	VEC(Carry) carry;
	VEC(Stack) stack;
	int64_t weights;     /* bytes of the weights */
	VEC(Value *) stored; /* the values in the weights, by offset */
	/* by input: offset of Value.preset in the weights, or -1. Null: no input has one; always
	 * null for GPUs. */
	int64_t *presets;
	/* for GPUs, once it is needed: the offset of each value in the weights' file
	 * (codegen/weights/weights.h) */
	struct WeightsFile *file;
	/* By target, then Node.id: slots (or regions) of the schedule's temps, in the order of
	 * schedule_temp. */
	Place **temp[MAX_TARGETS];
} MemPlan;

/* ---- passes.c ---- */

/* Runs P if it applies to M. False after a diagnostic. */
bool pass_run(const Pass *p, Module *m);

/* A pass is about to run; it has run, well or not; its result holds, as far as it was verified. */
typedef enum PassEvent { PASS_BEGINS, PASS_RAN, PASS_HELD } PassEvent;

/* Functions that are called while passes run. */
typedef struct PassHook {
	void (*at)(void *arg, Module *m, const Pass *p, PassEvent e); /* or null */
	void *arg;
	bool verify; /* the graph is verified after every pass, even without Options.verify */
} PassHook;

/* Whether M's graph is from a text that begins after P: it has schedules, which P would invalidate.
 * Only `infer` runs on it, for what only inference knows; `sched` takes the schedules. */
bool pass_is_past(const Module *m, const Pass *p);
/* Runs the passes FROM to TO, both included, that are not past. HOOK may be null. False after a
 * diagnostic. */
bool passes_run(Module *m, PassId from, PassId to, const PassHook *hook);
/* M gets a copy of FROM's graph, which no pass from `lower` on has seen, and what FROM knows of
 * it. */
void module_clone(Module *m, const Module *from);
/* Sets the note on N (copied). */
void module_note(Module *m, const Node *n, const char *text);

/* Whether every target of M has an instruction for products of integers; GPUs do. */
bool module_multiplies_bytes(const Module *m);
/* Prints a line for each pass, for --list-passes. */
void passes_list(FILE *out);
/* The pass with this name; null: none. */
const Pass *pass_by_name(const char *name);
/* Prints the loop trees of M that serve the ONNX node NODE; null: all. */
void loop_trees_print(StrBuf *b, Module *m, const char *node);
/* Whether K computes part of the ONNX node NODE; null: any. */
bool kernel_serves(const Kernel *k, const char *node);

/* ---- graph/bind.c ---- */

/* Runs before the passes: replaces symbols that --dim N=8 fixed, in the inputs' types
 * (passes/graph/bind.c). */
void graph_bind_dims(Graph *g);

/* ---- graph/caches.c ---- */

/* The type that --caches-as=NAME asks for, f16, bf16 or i8; DT_NONE for any other name. */
DType caches_type(const char *name);

/* ---- graph/dce.c ---- */

/* Removes nodes that no result, fact or size depends on (passes/graph/dce.c). A symbol that is
 * no longer mentioned loses its source. */
void dce_graph(Module *m);

/* ---- graph/cse.c ---- */

/* Merges kernels over constants that compute the same (passes/graph/cse.c). */
void cse_weights(Module *m);

/* ---- kernel/batch.c ---- */

/* "independent: batch", with the names of all such sizes. */
void batch_print(StrBuf *b, const Module *m);

/* ---- memory/slice.c ---- */

/* "slices: 2 of batch for each thread", or "slices: none". */
void slice_print(StrBuf *b, const Module *m);

/* ---- memory/memplan_text.c ---- */

void memplan_print(StrBuf *b, const Module *m);

/* ---- memory/memplan.c ---- */

/* An upper bound of SIZE for memory that is planned before a run: SIZE with symbols that are
 * read from data at their upper bounds, so it only has symbols that the inputs' shapes
 * determine. Null if such a symbol has no bound; then the size is only known during the run. */
Dim *memplan_size(Module *m, Dim *size);
/* The value that owns V's memory: a constant, an input or a kernel's result, to which V is a
 * chain of views. */
Value *value_base(Value *v);

/* ---- forms/known.c ---- */

/* Whether V is known when the model is compiled: a constant, or computed from constants, if that
 * is worth storing (passes/forms/known.c). The answers of one pass are kept, so it is asked about a
 * value only once its node and those before it are what they stay in this pass. */
bool value_is_weights(Module *m, const Value *v);
/* Whether all results of N are. */
bool node_is_weights(Module *m, const Node *n);
/* Another pass begins: what was answered may have changed. */
void weights_changed(Module *m);
/* E of node N depends only on constants, and on no size. */
bool expr_is_weights(Module *m, const Node *n, Expr *e);
/* Whether N's kernel runs on M's own device at run time, so that a layout or schedule for that
 * device pays off. Not if it runs on the host of a GPU, or when the model is compiled. */
bool module_schedules(Module *m, const Node *n);

#endif
