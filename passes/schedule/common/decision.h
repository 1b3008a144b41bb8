/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Decision says how a CPU or a GPU runs one kernel: which strategy, and all that the strategy
 * leaves open. `decide` chooses it, or takes it from a file of the user (schedule_file.c); `sched`
 * emits the loop tree that it describes and chooses nothing. A decision is plain data, which
 * mentions the kernel's iterators and statements by number only, so that it holds for every copy of
 * the kernel.
 *
 * A strategy is a row of strategy_table: the names of its decisions, how they are chosen, which of
 * them are legal, and their loop trees. On GPUs attention and products have decisions; the other
 * strategies choose as they emit (passes/schedule/gpu/sched_gpu.c).
 */
#ifndef PASSES_SCHEDULE_COMMON_DECISION_H
#define PASSES_SCHEDULE_COMMON_DECISION_H

#include "ir/loop/loop.h"
#include "passes/schedule/common/gemm.h"
#include "passes/module.h"

typedef enum Strategy {
	STRATEGY_PRODUCT, /* a blocked matrix product and the maps that follow it */
	STRATEGY_ATTENTION, /* two products, and between them statements that share the rows of both */
	STRATEGY_MAP,       /* one stage over the points of maps */
	STRATEGY_ROW,       /* one stage under the common parallel band of all statements */
	STRATEGY_ORDER,     /* a stage for each statement, in order: possible for every kernel */
	STRATEGY_GPU_ATTENTION, /* on GPUs: attention in one kernel (passes/forms/online.h) */
	STRATEGY_GPU_PRODUCT, /* on GPUs: a matrix product or convolution, and the maps that follow it */
	STRATEGY_COUNT
} Strategy;

/* The loops over blocks of a product: batch and group iterators and columns that do not merge with
 * others; blocks of columns; blocks of rows. */
typedef enum ProductAxis { PRODUCT_G, PRODUCT_N, PRODUCT_M, PRODUCT_AXES } ProductAxis;

typedef struct ProductDecision {
	int64_t mr, nr; /* rows and columns of a tile, whose sums are in registers */
	/* rows, columns and terms of a block. MC is a multiple of MR, NC of the panel's width. KC
	 * 0: the sum is not split into parts */
	int64_t mc, nc, kc;
	bool pack_a, pack_b; /* the operand is packed; else it is read in place */
	bool dot; /* a tile multiplies pairs of terms, both of bf16, by one instruction */
	bool matrix; /* a tile's sums are in matrix registers */
	/* the panels of a block are the outer loop, the tiles of rows the inner one; else the
	 * reverse */
	bool panels_first;
	ProductFetch fetch; /* what each tile prefetches for later ones */
	/* the axes whose blocks are distributed over threads, outermost first. The others are
	 * serial loops inside, in the order g, n, m. */
	ProductAxis parallel[PRODUCT_AXES];
	int nparallel;
} ProductDecision;

typedef struct AttentionDecision {
	int64_t mr, nr; /* rows and columns of a tile of both products */
	/* rows of a block, which share packed keys and values; a multiple of ROWS */
	int64_t mc;
	/* rows whose scores and weights a thread has in memory at once; a multiple of MR */
	int64_t rows;
	bool pack_a; /* the rows of the first product are packed; else they are read in place */
	bool fetch;  /* tiles of scores prefetch keys and values of the next batch */
	/* as in a product; columns are not distributed */
	ProductAxis parallel[PRODUCT_AXES];
	int nparallel;
} AttentionDecision;

typedef enum IterRole {
	ITER_PARALLEL, /* its points are distributed over threads */
	ITER_SERIAL,   /* every statement loops over all of its points */
	ITER_TILE,     /* tiles are distributed; every statement loops over the points of its tile */
	ITER_VECTOR    /* likewise, blocks; the innermost loop of each statement, in vectors */
} IterRole;

/* Iterators of the band, by number, that one loop takes together, outermost first. */
typedef struct IterGroup {
	uint8_t of[MAX_ITERS];
	int n;
	IterRole role;
} IterGroup;

/* One stage of a row, map or order. Every iterator of the band is in one group. */
typedef struct RowStage {
	IterGroup group[MAX_ITERS]; /* parallel groups, then serial ones, the tile, the vector */
	int ngroups;
	int64_t tile;  /* points of a tile; 0: there is none */
	int64_t block; /* points of a block of the vector iterator; 0: there is none */
} RowStage;

/* How a reduction is computed. */
typedef enum ReductionForm {
	REDUCE_NONE,   /* the statement is not a reduction, or reduces over nothing */
	REDUCE_LANES,  /* scalar states, in lanes along a reduced iterator */
	REDUCE_STATES, /* a block of states along the vector iterator, a row of terms at a time */
	REDUCE_TAPS,   /* likewise, with the innermost reduced iterator unrolled */
	REDUCE_STENCIL /* adjacent points of the tile share their loads; up to MOST_TAPS terms unrolled */
} ReductionForm;

/* How one statement is executed in its stage. */
typedef struct StmtDecision {
	ReductionForm form;
	int lane;     /* REDUCE_LANES: the number of the iterator in the statement */
	int64_t points; /* REDUCE_STENCIL: number of adjacent points */
	bool hold;    /* its result is a local of the stage, not a temporary in memory */
} StmtDecision;

typedef struct RowDecision {
	RowStage *stage; /* STRATEGY_ORDER: by Stmt.id; else one */
	int nstages;
	StmtDecision *stmt; /* by Stmt.id */
} RowDecision;

/* The operands of an attention that a block stages in shared memory. */
typedef enum GpuOperand { OPERAND_Q, OPERAND_K, OPERAND_V, OPERAND_COUNT } GpuOperand;

/* An operand that is staged in STAGES buffers. */
typedef struct Hold {
	bool async; /* copied by cp.async; else through registers */
	int stages;
} Hold;

/* How blocks compute an attention. Rows are in fragments of MMA_ROWS. */
typedef struct GpuDecision {
	MmaKind mma[2];            /* the instructions of the two products */
	int warps, splits;         /* warps of a block for rows, and for keys */
	int fragments;             /* of a warp */
	int keys;                  /* of a step of a warp */
	int terms, columns;        /* of a score, and of the result: whole instructions */
	int stages;                /* buffers for keys and values */
	int parts;                 /* of the keys, for blocks, at most */
	bool async[OPERAND_COUNT]; /* copied by cp.async; else through registers */
} GpuDecision;

/* One of an attention: FEW, if it has warps, is for runs whose rows are at most those of one
 * block. */
typedef struct GpuAttentionDecision {
	GpuDecision all, few;
} GpuAttentionDecision;

/* The tile of a block of a product, the grid of its warps, and the software pipeline. */
typedef struct BlockShape {
	MmaKind kind;
	int bm, bn, bk; /* rows, columns, and terms of an iteration */
	int wm, wn;
	int stages;    /* buffers of the tiles of both operands */
	int producers; /* threads that only copy, beside the warpgroups of wgmma */
	int raster; /* blocks of rows that follow one another, before the next block of columns; 1: all */
} BlockShape;

/* How a product is computed in some runs: by thread groups that read the matrix once (SKINNY), or
 * in tiles. */
typedef struct ProductVariant {
	int64_t rows, results; /* the runs with at most so many, 0: any; */
	bool multiples;        /* in which rows in memory are whole vectors */
	bool skinny;
	bool async[2]; /* the operands are copied by cp.async; else through registers */
	BlockShape s;
	int64_t parts; /* of the sum; 1: it is not split */
} ProductVariant;

/* A run takes the first variant that is for it. The last one is for all. */
enum { PRODUCT_VARIANTS = 4 };
typedef struct GpuProductDecision {
	ProductVariant variant[PRODUCT_VARIANTS];
	int n;
} GpuProductDecision;

typedef struct Decision {
	Strategy strategy;
	bool edited; /* differs from what `decide` would have chosen: it has to be proved */
	/* multiply-adds of a product, points of other stages, that pay for waking a thread */
	int64_t grain;
	union {
		struct {
			ProductDecision product;
			/* of runs with at most FEW_ROWS rows; 0: there are none */
			ProductDecision few;
			int64_t few_rows;
		};
		AttentionDecision attention;
		GpuAttentionDecision gpu; /* STRATEGY_GPU_ATTENTION */
		GpuProductDecision gpu_product; /* STRATEGY_GPU_PRODUCT */
		RowDecision rows; /* STRATEGY_MAP, STRATEGY_ROW, STRATEGY_ORDER */
	};
} Decision;

/* A decision that may be faster than another one, with its time in relation to that one's, by a
 * model. */
typedef struct Offer {
	Decision *decision;
	double cost;
	int number; /* in the order in which they were found */
} Offer;

typedef struct Offers {
	const Target *target;
	Kernel *kernel; /* with Stmt.id set; not to be changed */
	Arena *arena;
	VEC(Offer) all;
} Offers;

struct LineText;

/* K is a copy that the function may change, and whose arena holds the result. */
typedef struct StrategyInfo {
	const char *name;
	bool gpu; /* it is for GPUs; else for CPUs */
	/* Chooses D for K on T. False: the strategy does not take K. */
	bool (*choose)(const Target *t, Kernel *k, Decision *d);
	/* Whether D, which a user wrote, is legal for K on T; else WHY says which bound or
	 * dependence it violates. */
	bool (*legal)(const Target *t, Kernel *k, const Decision *d, StrBuf *why);
	/* The sizes for which D has variants besides that for all runs, in the order in which a run
	 * tests them; returns their number, at most MOST_STEPS. Null: it has none. */
	int (*steps)(const Target *t, Kernel *k, const Decision *d, SizeStep *step);
	/* Appends the stages of D, which is legal for K on T, to S: the variant of S->where. */
	void (*emit)(const Target *t, Kernel *k, const Decision *d, Schedule *s);
	/* Prints or reads D without the name of the strategy, and without the grain. */
	void (*text)(struct LineText *t, Kernel *k, Decision *d);
	/* Adds decisions for K to O that differ from BASE, of this strategy, and that may be
	 * illegal. */
	void (*offer)(Offers *o, Kernel *k, const Decision *base);
	/* Appends why D, which is legal for K on T, has its sizes and forms, if there is anything
	 * to say; null: the names of its parts say so. */
	void (*reason)(const Target *t, Kernel *k, const Decision *d, StrBuf *b);
} StrategyInfo;

/* In the order in which they are tried. */
extern const StrategyInfo strategy_table[STRATEGY_COUNT];

/* ---- decide.c ---- */

/* T as kernels of M may use it. Its products of bf16 take subnormal numbers for zero, so they
 * need an option that allows this. */
const Target *decide_target(const Module *m, const Target *t);
/* A copy in A of D, a decision for a kernel of NSTMTS statements. */
Decision *decision_copy(Arena *a, const Decision *d, int nstmts);

/* ---- decision_text.c ---- */

/* Appends a text to WHY, which says what is wrong with a decision. Returns false. */
bool decision_refuse(StrBuf *why, const char *fmt, ...) BASE_PRINTF(2, 3);
/* A text that one function prints and reads: to OUT, or from IN if OUT is null. OK is false after
 * the first thing that is wrong in IN, which WHY says; nothing is read then. */
typedef struct LineText {
	StrBuf *out, *why;
	const char *in;
	bool ok;
} LineText;

/* The text that is read is wrong. */
void line_wrong(LineText *t, const char *fmt, ...) BASE_PRINTF(2, 3);
/* WORDS are words or punctuation marks. Where they are read, there may be other spaces. */
void line_put(LineText *t, const char *words);
/* WORD, which may be left out. Prints it if IS; returns whether it is there. */
bool line_opt(LineText *t, bool is, const char *word);
/* WORDS and a number, from 1 to 2^40. */
void line_number(LineText *t, const char *words, int64_t *v);
/* A name of letters, digits, _ and . of at most MOST_NAME bytes. */
enum { MOST_NAME = 64 };
void line_name(LineText *t, char *name);
/* A row of ir/loop/mma.def, and how operand NAME gets to shared memory: "k:async*2". */
void line_mma(LineText *t, MmaKind *kind);
void line_hold(LineText *t, const char *name, Hold *h);
/* Digits of a GPU's decision: line_digit has PLACE and a number from 1 to 1024, "warp4" for
 * example, which is *N in units of UNIT; line_optional leaves out a number of 1; line_instruction
 * has "mma8", where N is 8. */
void line_digit(LineText *t, const char *place, int *n, int unit);
void line_optional(LineText *t, const char *place, int *n);
void line_instruction(LineText *t, int n);
/* The name of iterator I of IT, as decisions have it: `h`, or `h.2` for the second one of this
 * name. */
void line_iter(Iter *const *it, int i, char *name);
/* The number of the iterator of IT[0..n) with this name; -1: none. */
int line_find_iter(Iter *const *it, int n, const char *name);

/* Appends D, a decision for K, as in a line of a file. */
void decision_print(StrBuf *b, Kernel *k, const Decision *d);
/* Reads a decision for K on T from TEXT and checks that it is legal. K is a copy that the function
 * may change; its arena holds the result. Null: WHY says what is wrong. */
Decision *decision_parse(const Target *t, Kernel *k, const char *text, StrBuf *why);

/* ---- offer.c ---- */

/* Adds a copy of D, whose time is COST times that of the decision it differs from. */
void offer_add(Offers *o, const Decision *d, double cost);
/* Other legal decisions for K on T that may be faster than BASE, the most promising first. They
 * go to OUT, at most MOST, in A. Returns their number. */
int decisions_offer(const Target *t, Kernel *k, const Decision *base, Arena *a,
		    Decision **out, int most);

/* ---- schedule_file.c ---- */

/* The hashes of the kernels of M that have decisions, by Node.id; 0: the node has none. Kernels
 * of one hash have one line. */
uint64_t *schedule_hashes(Module *m, Arena *a);
/* Prints the line of N on target number T, for all kernels of its HASH, with NOTE in its comment
 * (null: none). */
void schedule_print_line(StrBuf *b, const Module *m, int t, Node *n, const uint64_t *hash,
			 const char *note);

/* Checks the lines of TEXT, the file FILE, apart from their decisions. IS_TARGET: there is a CPU or
 * GPU of this name. False after diagnostics. */
bool schedule_file_check(const char *text, const char *file, bool (*is_target)(const char *), Diag *d);
/* Replaces the decisions of M for which Options.schedule has a line. False after diagnostics. */
bool schedule_file_apply(Module *m);
/* Prints the decisions of M, a line for each kernel and target, equal kernels once. NODE: only
 * kernels that serve the ONNX node of this name; null: all. */
void decisions_print(StrBuf *b, Module *m, const char *node);

#endif
