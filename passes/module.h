/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module is what the passes work on: one graph, and what they find out about it in side arrays indexed by Node.id or Value.id. The
 * table in passes.c is the pipeline; each pass is one function over a Module.
 */
#ifndef PASSES_MODULE_H
#define PASSES_MODULE_H

#include "ir/loop.h"
#include "ops/op.h"

/* What a GPU has, for schedules and their costs. Rates are of one chip at its boost clock. */
typedef struct Gpu {
	int sm;          /* compute capability times ten: 80 */
	bool only;       /* its code runs on no later GPU (sm_90a) */
	int ptx;         /* the lowest PTX version, times ten */
	int llvm;        /* the first LLVM that makes code for it */
	int sms;
	int shared;      /* bytes of shared memory that a block may have on it, and nearly what the blocks of an SM have together */
	int block_shared; /* that a block may have on every GPU that runs this code, later ones among them: the least of their SHARED */
	int registers;   /* of an SM */
	int spare;       /* of a thread, that code of the same registers alive needs more than for sm_80: the least for which ptxas 13.0
	                    spills nothing in the model suites */
	int threads;     /* of an SM at once */
	int lanes;       /* multiply-adds of f32 that an SM does a clock */
	int l2;          /* MiB */
	int memory;      /* GB/s */
	int f32, f16;    /* TFLOP/s: fma, and the dense matrix unit with f32 sums */
} Gpu;

/* What code is made for: one row of codegen/targets.c. */
typedef struct Target {
	const char *name;   /* "x86-64-v4", "sm_80" */
	const char *march;  /* of the C compiler; null: its default */
	uint64_t features;  /* DL_CPU_ bits that a machine must have; 0: any */
	int vector_bytes;   /* 16, 32, 64 */
	int registers;      /* vector registers */
	bool fma;           /* mad is fused */
	int64_t l1, l2;     /* bytes of data cache that blocking may count on */
	const Gpu *gpu;     /* null: a CPU */
} Target;

typedef struct Options {
	int level;               /* -O0..3: 0 keeps one kernel a node */
	int rewrite_limit;       /* rewrites done at most; -1: no limit */
	bool verify;             /* the verifier runs after every pass, and isl proves schedules */
	bool tf32;               /* GPUs may round the factors of f32 products to tf32 */
	const char *tiles;       /* of products on GPUs, as passes/schedule/gpu/gemm_tiles_text.c reads them; null: as the model chooses */
	int list_tiles;          /* so many of the best for each are printed */
	bool shuffle;            /* visit what is independent in another order: output must not change */
} Options;

enum { MAX_TARGETS = 8 };

/* What --verify found of the schedules; a schedule that equals an earlier one is not looked at again. */
typedef struct Verified {
	int proved, unproved, wrong, equal;
} Verified;

/* The graph for one kind of device. For a GPU the whole way is gone again over a graph of its own. */
typedef struct Module {
	Ctx *ctx;
	Arena *arena;
	Graph *graph;
	Infer *infer;
	bool f16, bf16; /* after `infer`: a value that is computed from inputs is of this type */
	Options opt;
	const Target *target[MAX_TARGETS]; /* best first */
	int ntargets; /* all CPUs, or all GPUs */
	const Target *host; /* with GPUs: the CPU whose code any host runs */
	/* After `sched`: by target, then by Node.id; null where the node is no kernel. */
	Schedule **sched[MAX_TARGETS];
	int nsched; /* entries of each */
	Verified verified;
	struct MemPlan *mem; /* after `memplan` */
	bool *weights;       /* value_is_weights, by Value.id */
	int nweights;
	struct Module *gpu;  /* of the CPUs' module: the same model on GPUs, or null */
} Module;

/* The devices whose modules a pass does something with. */
typedef enum PassOn { ON_ALL, ON_GPUS } PassOn;

typedef struct Pass {
	const char *name;
	bool (*run)(Module *m); /* false after a diagnostic */
	PassOn on;
	bool rewrites;          /* kernels become other kernels that compute the same: tests evaluate the graph before and after */
	const char *what;       /* a line for --list-passes: what it does and why it stands here */
} Pass;

extern const Pass pass_table[]; /* in order; ends with a null name */

/* Runs P, where it does something with M. False after a diagnostic. */
bool pass_run(const Pass *p, Module *m);
/* A line for each pass, for --list-passes. */
void passes_list(FILE *out);

/* Before the passes: symbols bound to one value (--dim N=8) leave the inputs' types (passes/graph/bind.c). */
void graph_bind_dims(Graph *g);

/* Whether M's kernels run on a GPU. */
static inline bool module_on_gpu(const Module *m)
{
	return m->ntargets && m->target[0]->gpu;
}

bool pass_infer(Module *m);
bool pass_canon(Module *m);
bool pass_layout(Module *m);
bool pass_divmod(Module *m);
bool pass_scatter(Module *m);
bool pass_hoist(Module *m);
bool pass_lower(Module *m);
bool pass_place(Module *m);
bool pass_algebra(Module *m);
bool pass_views(Module *m);
bool pass_fuse(Module *m);
bool pass_constants(Module *m);
bool pass_sched(Module *m);
bool pass_memplan(Module *m);

/* Removes nodes that no result, fact or size needs (passes/graph/dce.c). Symbols that nothing mentions any more lose
 * their source. */
void dce_graph(Module *m);

/* Kernels over constants alone that do the same become one (passes/graph/cse.c). */
void cse_weights(Module *m);

/*
 * The memory plan. A value lives in a slot of the arena, in an output's memory, in the weights, in an input,
 * or where its base lives (a view). Slots are shared by values whose lifetimes do not meet; a slot's size is
 * a dim over symbols that the inputs' shapes give. What has no such bound lives in the second region. In a program for
 * GPUs all that is the GPU's memory, but for what the host computes: that is in slots of an arena of the host, and its
 * constants stand in the code.
 */
typedef enum PlaceKind {
	PLACE_NONE,    /* not stored: dead, or a constant that no kernel reads */
	PLACE_INPUT,   /* at: which */
	PLACE_OUTPUT,  /* at: which; the kernel writes the caller's memory */
	PLACE_SLOT,    /* at: arena slot */
	PLACE_HOST,    /* at: slot of the host's arena, in a program for GPUs */
	PLACE_REGION,  /* at: slot of the second region; size: bytes */
	PLACE_WEIGHTS  /* offset: bytes from the base */
} PlaceKind;

typedef struct Place {
	PlaceKind kind;
	int at;
	int64_t offset;
	Dim *size; /* bytes */
} Place;

typedef VEC(Dim *) SlotSizes; /* bytes */

typedef struct MemPlan {
	Place *value;        /* by Value.id; views resolved */
	int *last;           /* by Value.id of bases: the position in the graph of the node that reads it last */
	Value **over;        /* by Value.id: the operand whose slot it is written over, or null */
	SlotSizes slots;     /* of the arena */
	SlotSizes host;      /* of the host's arena */
	int nregions;
	int64_t weights;     /* bytes of the weights */
	VEC(Value *) stored; /* what the weights hold, in order of offset */
	int64_t *presets;    /* by input: where the weights hold Value.preset, or -1; null, as in a program for GPUs: none do */
	struct WeightsFile *file; /* of GPUs: what of it stands where (codegen/weights/weights.h), once that was asked for */
	/* By target, then Node.id: the slots (or regions) of the schedule's temps, in the order of schedule_temp. */
	Place **temp[MAX_TARGETS];
} MemPlan;

void memplan_print(StrBuf *b, const Module *m);
/* A size that memory planned before a run can count on to hold SIZE: SIZE over symbols that the shapes of inputs give, with
 * symbols that are read from data at their upper bounds. Null where one of those has no bound: SIZE is known during the run. */
Dim *memplan_size(Module *m, Dim *size);

/* Whether V is known when the model is built: a constant, or computed from constants alone (passes/graph/known.c). Asked when fusion is
 * done; what was answered of a value stays so. */
bool value_is_weights(Module *m, const Value *v);
/* Whether N as it stands may run when the model is built, where all of its operands are known then. */
bool node_may_be_weights(const Node *n);

/* Whether N's kernel runs on M's own device, on which it is worth a form of its own: not on the host of a GPU, nor when the model is
 * built. */
bool module_schedules(Module *m, const Node *n);

/* Where a value's bytes are: the value that owns the memory (through views), which may be a constant, a
 * graph input, or a kernel's result. */
Value *value_base(Value *v);

#endif
