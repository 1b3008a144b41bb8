/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop tree: a kernel's statements after scheduling. A Schedule is a list of stages. A stage is
 * one parallel loop whose body is a tree of LNodes. All loads and stores index flat memory (one i64
 * expression). A local buffer lives for one iteration of the parallel loop. Code generation prints
 * this tree. On GPUs it also chooses which lane has which element of a node, and where a barrier
 * is.
 *
 * On a GPU a stage is one launch. Each iteration belongs to a group of threads: one thread, a part
 * of a warp, a warp, or a block. All threads of a group execute the body together. A scalar local
 * is a register with the same value in every thread. Any other local is private if the group is one
 * thread, else it is in shared memory. A store outside of a LOOP_GROUP is executed once. What a
 * node stores, all threads of the group can read in the nodes after it: codegen puts barriers where
 * this requires them (codegen/nvptx/barriers.c). LN_REDUCE distributes its terms over the group's
 * threads and leaves the result in each.
 *
 * For a contraction the group is the whole block, and the body consists of operations on tiles
 * (TileNode). A local with LLocal.at begins at that byte of the block's shared scratch, which has
 * Stage.scratch bytes; locals that are not live at the same time may overlap there.
 */
#ifndef IR_LOOP_LOOP_H
#define IR_LOOP_LOOP_H

#include "ir/kernel/kernel.h"
#include "ir/loop/place.h"

typedef enum LoopKind {
	LOOP_SERIAL,
	/* independent points with unit stride: the C compiler is asked to vectorise. On a GPU,
	 * with a step of more than 1, the loads of several points are in flight at once. */
	LOOP_VECTOR,
	/* as LOOP_VECTOR, with few iterations: the remainder of a vector is masked, not peeled */
	LOOP_SHORT,
	LOOP_UNROLL,
	/* independent points, distributed over the threads of a group */
	LOOP_GROUP,
	/* On a GPU, in the body of a stage whose groups are blocks: of HI consecutive blocks, the
	 * last one to arrive here executes the body, with VAR their number, block / HI. It reads
	 * what all of them stored before. LO is 0, and the stage has a multiple of HI blocks. */
	LOOP_LAST
} LoopKind;

typedef enum LNodeKind {
	LN_LOOP,  /* for var in [lo, hi) by step: body */
	LN_LET,   /* var = lo: names an index for the rest of this body */
	LN_STORE, /* buf[idx] = val where guard */
	/* combines terms into a state: bufs[idx] = combine(bufs[idx], vals) where guard */
	LN_UPDATE,
	/* as LN_UPDATE, atomically: other threads may update the same element, in any order */
	LN_ATOMIC,
	/* state bufs[idx] = reduction of vals over var in [lo, hi) where guard, across lanes */
	LN_REDUCE,
	LN_LOCAL, /* declares buf for the rest of this body; in the body of a LOOP_GROUP each thread has one */
	LN_TILE, /* tile += A panel * B panel: the contraction micro-kernel */
	LN_SPLIT, /* copies rows of A, or a panel of B, as three bf16 each (SplitOperand) */
	/* state bufs[idx] = reduction of vals over var in [lo, hi), for all columns and rows;
	 * the guard is of the column */
	LN_COLUMNS,
	LN_OP /* an operation on tiles by all threads of a block: OP */
} LNodeKind;

/* Data that later tiles use: elements of BUF, of the tile's type, from flat index AT on, STEP
 * elements for each term. WHEN null: always. */
typedef struct Prefetch {
	Buf *buf;
	Expr *at, *step, *when;
} Prefetch;

/* Adding a number of less magnitude to -2^126, or to a lower number, changes nothing in f32. */
#define TILE_BOUND 0x1p100

enum {
	/* Independent sums of a tile of few rows: those that two units for multiply-adds of four
	 * cycles work on. Over a panel of halves, one row with two sums took 1.7 times as long, and
	 * two rows with four 1.4 times; over one of floats 1.2 and 1.5 times. Where B is quantised,
	 * its numbers take the time to make floats of them. */
	TILE_SUMS = 8,
	TILE_SUMS_SCALED = 4,
	/* Terms, at most, of a tile that is inlined. A call, its arguments and sums in memory cost
	 * some 50 cycles: on AVX2, 16 terms took 1.39 times as long, 64 terms 1.08. Longer sums
	 * gain less than it takes to compile them. */
	INLINED_TERMS = 256
};

/* A's rows are read in runs of TERMS terms, as a convolution reads a few channels for each tap:
 * term k of the tile is term (FIRST + k) mod TERMS of run (FIRST + k) / TERMS. Run t of row i
 * starts at element STARTS[a_at + t*STEP], evaluated at ROW = i, of A; or, if that is negative, at
 * element -1 - STARTS[...] of EDGE, which holds the runs that lie partly outside of A's tensor.
 * EDGE begins with a run of zeros for all runs that lie outside. STARTS has an entry for all mr
 * rows.
 *
 * If SHIFT is not null, the columns are in groups of TERMS, a constant, and each group has runs of
 * its own, as a convolution of groups of few channels has. The runs of the tile's first group start
 * SHIFT elements later than STARTS says, and those of the others follow them in A. So one vector
 * holds the terms of all groups, and term c of a run is multiplied for each column of its group:
 * element (t*TERMS + d, j) of B is the factor of term j % TERMS of run t for column (j + d) % TERMS
 * of the same group. */
typedef struct TileRuns {
	Buf *starts, *edge; /* locals; STARTS null: no runs; EDGE null: every run is inside the tensor */
	Expr *first, *terms, *step, *shift;
} TileRuns;

/* B has integers of at most 8 bits, and term k of column j is (B - ZERO[zero_at + g*b_step + j]) *
 * SCALE[scale_at + g*b_step + j], where g is k / GROUP, or 0 if GROUP is 0.
 *
 * TERMS terms of a column of B are contiguous: element (k, j) of B is at b_at + k / TERMS * TERMS *
 * b_step + j * TERMS + k % TERMS. More than one are words of 32 bits: term t is in byte t % 4, of
 * whose numbers it is number t / 4. A part of the sum begins with a group, and with a word.
 *
 * If ROW_SCALE is not null, A is of u8, and its term at element e stands for (A[e] - 128) *
 * ROW_SCALE[e / ROW_GROUP]. Parts of the sum are whole groups, as are rows; GROUP is 0 or
 * ROW_GROUP. */
typedef struct TileScales {
	Buf *scale, *zero; /* f32; SCALE null: B is not scaled; ZERO null: 0; scales may be halves */
	Expr *scale_at, *zero_at;
	int terms;
	Buf *row_scale; /* f32 */
	int64_t group, row_group;
} TileScales;

/*
 * How a tile's bytes are multiplied in pairs, by the order of B's panel
 * (passes/layout/panels_order.c): the elements of B where the constants of the tile's columns
 * start, and the bits of the panel's terms, and either the next terms or the flips of the tile's
 * columns from its first term on; and the tile's first term in the panel. SUMS_AT null: the panel
 * has no order.
 */
typedef struct TileOrder {
	Expr *sums_at, *wide_at, *next_at, *flips_at, *first;
} TileOrder;

/* Which sums of a tile, and which of their terms, are used.
 *
 * If WHEN is not null, a sum is used only where WHEN, an expression over ROW and COL, holds. A tile
 * none of whose sums is used adds no terms: its sums are 0. Attention masks keys in this way.
 *
 * If SQUARES is not null, sums of TILE_BOUND and more in magnitude are used, whatever WHEN says.
 * SQUARES is a local with the sum of the squares of B's elements. If this sum plus that of the
 * squares of the tile's own rows of A, which are contiguous along k, is below TILE_BOUND, no sum
 * is that large: |a*b| <= (a*a + b*b)/2.
 *
 * If TRIM is not null, A is a local with weights of B's terms, contiguous along k, of which many
 * may be 0. TRIM is a local with the sum of B's elements times 0: 0 if all of them are finite,
 * else NaN. If it is 0, the tile leaves out terms before the first one and after the last one
 * whose weight in some row is not 0. Such a term would add 0 or -0, which changes no sum but one
 * that underflowed to -0. */
typedef struct TileMask {
	Expr *when;
	Buf *squares, *trim;
} TileMask;

/* Rows and columns of a matrix register with sums of 32 bits; and how many registers hold the sums
 * of a tile, at most: the other four are for factors. */
enum { MATRIX_SIDE = 16, MATRIX_SUMS = 4 };

/*
 * Matrix registers multiply f32 as three bf16: x = x0 + x1 + x2 exactly, where x0 is x rounded to 8
 * significant bits, x1 the upper 8 bits of the rest, and x2 the others. The products x0*y0, x0*y1,
 * x1*y0, x1*y1, x0*y2 and x2*y0 are added up in f32. The three that are left out are at most 2^-23
 * of |x*y| together: |x1| <= 2^-8 |x|, |x2| <= 2^-16 |x|.
 *
 * The instructions take subnormal numbers for zero and make zeros of subnormal sums, and parts of
 * infinities are NaN. So elements fit only if each is 0, or from 2^-48 to 2^48 in magnitude
 * (MATRIX_LEAST and MATRIX_MOST in codegen/c/kernel.h.in). Let p and q be magnitudes of two that
 * are not 0.
 *   - All parts that are not 0 are normal numbers: they are multiples of the last bit of x, 2^-23
 *     of its power of two, at least 2^-72.
 *   - |p*q| >= 2^-96. Each product and each sum that becomes zero loses less than 2^-126; of six
 *     products and six sums for a term that is less than 2^-26 |p*q|, a quarter of the rounding
 *     error of its product in f32. Besides, a subnormal sum of earlier terms, which did not fit,
 *     becomes zero.
 *   - No sum overflows: |p*q| <= 2^96, and a sum has less than 2^31 terms.
 */

enum {
	SPLIT_PARTS = 3,
	/* terms that an instruction multiplies; parts have zeros after the last term */
	SPLIT_TERMS = 32
};

/* LN_SPLIT: writes the parts of elements of FROM to TO, a local of bf16, and to FITS, a scalar
 * local, whether all of them fit; if they do not, TO is undefined. With ROW, these are the terms
 * below K of the rows of A below VALID, at most ROWS; row r starts at element AT, evaluated at ROW
 * = r, and advances by STEP, 1. Without, they are COLUMNS columns of a panel of B: element (k, j)
 * is at AT + k*STEP + j.
 *
 * TO has the parts in the order in which tiles load them: blocks of 16 rows, or columns, by
 * SPLIT_TERMS terms, of which those of one part, of the next part, and of the next terms follow
 * each other. For A the blocks of 16 rows are outermost; for B the blocks of 16 columns of a part
 * are adjacent. A block of A is by rows; one of B is by pairs of terms, of which each column has
 * one. */
typedef struct SplitOperand {
	Buf *to, *fits, *from;
	Iter *row;
	int rows, columns;
	Expr *valid, *at, *step, *k;
} SplitOperand;

/* A tile's operands as nodes LN_SPLIT have written them, with as many terms: its rows of A from ROW
 * on in A, and its panel in B. A null: there are none. */
typedef struct TileParts {
	Buf *a, *b, *a_fits, *b_fits;
	Expr *row;
} TileParts;

/* The register tile of a contraction on a CPU: acc[i][j] (+)= sum over k < K of a(i, k) * b(k,
 * j), for i < mr, j < nr. Row i of A starts at element a_at, evaluated at ROW = i, and advances
 * by a_step for each k; rows past m_valid repeat the last valid one. B is a panel: element (k,
 * j) is at b_at + k*b_step + j.
 *
 * A tile of few rows would wait for the latency of its sums, so it may have several sums for each
 * element, which are added up at the end. But all elements of a product are to be summed in the
 * same order: if the product has more rows than a tile, or may have, ROWS counts them, and only a
 * product of few rows has several sums. ROWS null: one tile has all rows, or each element has one
 * sum. */
typedef struct Tile {
	CType ct;
	/* terms of each k: 1; or 4 of bytes, u8 in one operand and i8 in the other, or 2 of bf16
	 * in B and of bf16 or f32 in A, which are contiguous: element t of A's row at a_at +
	 * k*a_step + t, of B's column at b_at + k*b_step + j*kpack + t */
	int kpack;
	int mr, nr;
	int usual; /* rows of all tiles but the last one, which may have up to MR, an even number */
	Buf *acc; /* local; element (i, j) at acc_at + i*nr + j, for j < n_valid; other columns are undefined */
	Expr *acc_at;
	Iter *col; /* the column within the tile; LPoint.at mentions it, and ROW */
	Buf *a, *b;
	Iter *row;  /* the row within the tile; a_at is an expression over it */
	Expr *a_at; /* flat index of the first element of row ROW of A */
	Expr *a_step;
	TileRuns by_runs;
	Expr *b_at, *b_step;
	TileOrder order;
	TileScales scaled;
	/* NAHEAD of them, of which the first one whose WHEN is true is prefetched */
	Prefetch *ahead;
	int nahead;
	Expr *k;       /* trip count */
	Expr *m_valid; /* rows of the tile that exist: 1..mr */
	Expr *rows;    /* rows of the product */
	Expr *n_valid; /* columns of the tile that exist: 1..nr */
	TileMask mask;
	/* instructions multiply tiles of MATRIX_SIDE rows by MATRIX_SIDE columns and as many steps
	 * of terms in matrix registers; A's terms are contiguous. f32 is multiplied by PARTS if
	 * both operands fit; if not, the tile is computed in vectors, USUAL rows at a time. */
	bool matrix;
	TileParts parts;
	bool accumulate; /* ACC already holds the sum of earlier terms */
	bool partial;    /* later tiles add more terms */
	bool whole; /* it has all rows, and a constant number of terms, at most INLINED_TERMS */
	/* if the tile computes only a part of the sum: the term within that part, which LPoint.at
	 * mentions */
	Iter *depth;
} Tile;

/* A column reduction: the states of COLS adjacent columns, contiguous in memory, for each of
 * ROWS rows. Only the other operands depend on the row (in a skinny product, they are the few
 * rows of A); idx, vals and LPoint.at mention COL and ROW. A thread has LShare.vector adjacent
 * columns of every row. With LShare.peel it has up to COLUMN_BLOCKS columns instead, one warp's
 * width apart. */
enum { COLUMN_BLOCKS = 8 };
typedef struct ColumnReduction {
	Iter *col, *row;
	int cols, rows;
	/* number of rows that exist, null: all. Terms of the other rows are computed and
	 * discarded. */
	Expr *valid;
} ColumnReduction;

/* How a product of tiles is computed: by an instruction (a row of ir/loop/mma.def), or by scalar
 * multiply-adds. */
typedef enum MmaKind {
	MMA_FMA,
#define MMA(name, ...) MMA_##name,
#include "ir/loop/mma.def"
#undef MMA
	MMA_COUNT
} MmaKind;

typedef struct MmaInfo {
	const char *name;
	DType type[2]; /* element types of A and B, of the same width */
	CType sum;
	int m, n, k;       /* shape */
	int sm;            /* the first compute capability that has the instruction, times ten */
	int a, b;          /* registers per lane for a fragment of A and of B */
	const char *reg;   /* LLVM's type of one register */
	const char *call;  /* LLVM's intrinsic; the types of wgmma */
	/* LLVM's intrinsic that rounds an element before the product (f32 to tf32), or null */
	const char *round;
} MmaInfo;

enum { TILE_VECTOR = 16 }; /* bytes of the widest access of a thread */

/* Rows of a fragment of sums, of one instruction or of two with 8 rows each. */
enum {
	MMA_ROWS = 16,
	MMA_STEP_BYTES = 32 /* of a row of an operand: codegen reads them at a time */
};

enum { MOST_WGMMA = 256, GROUP_WARPS = 4 /* columns of wgmma, and its warps */ };

extern const MmaInfo mma_info[MMA_COUNT];

/*
 * An operation on tiles (buffers with Buf.tile), which all threads of a block carry out together.
 * Its points are those of the N iterators IT, whose extents are constants. An index into a tile has
 * an expression for each dim; memory is indexed by one flat expression.
 *
 *	copy r < 64, c < 64 vector 8 async: k_tile[slot, r, c] = k[...] where lt(...)
 *	map m < 64, n < 64 in 0 warp 4*16, ...: e[m, n] = exp(sub(s[m, n], most[m]))
 *	fold m < 64, n < 64 in 0 warp 4*16, ...: total[m] sum= e[m, n]
 *	fold m < 64, n < 64 in 0 warp 4*16, ...: total[m] sum= w[m, n] by f16
 *	dot m < 64, n < 64, k < 32 by f16: s[m, n] += q[m, k] times k_tile[slot, n, k]
 *	sync commit; sync wait 1; sync fence; sync barrier
 *
 * A COPY fills a tile, in pieces of VECTOR elements along the last iterator; where its guard fails,
 * elements are 0. If ASYNC, the value is one aligned load, and the elements may be read after a
 * commit, a wait for it, and a barrier. A COPY to a tile in registers holds the pieces that the
 * threads will copy to shared memory. A MAP computes elements in registers or in shared memory, or
 * stores to memory where the guard holds. A FOLD reduces over the iterators that its index does not
 * mention; they lie in registers and lanes. Tiles in registers that a MAP or FOLD reads have, in
 * each register, what the point in that register reads, up to the order of registers. A FOLD by a
 * matrix instruction sums a tile in registers, which lies as A does, along its rows: it multiplies
 * by ones, so that all lanes have the sums of their rows. A DOT sums products over its last
 * iterator by instructions of kind MMA: A is in registers or shared, B is shared, the sums are in
 * registers as the instruction has them. A's layout in registers gives the order of the terms. If
 * MMA is wgmma, both are in shared memory, as tile_atoms says, and a fence is between the copies
 * and the barrier.
 *
 * If the stage has producers, these threads carry out the nodes "by producers", the other threads
 * all others, each in order. An mbarrier, an element of a tile of i64, orders what some do before
 * they arrive before what others do after they await it: all producers arrive, or one thread of
 * each other warp.
 */
enum { MBARRIER_BYTES = 8 };
typedef enum TileOp { TILE_COPY, TILE_MAP, TILE_FOLD, TILE_DOT, TILE_SYNC } TileOp;
typedef enum TileSync {
	TILE_COMMIT, /* the asynchronous copies since the last commit are a group */
	TILE_WAIT,   /* until at most PENDING groups of this thread are in flight */
	TILE_ARRIVE, /* at mbarrier TO[IDX]: what this thread copied or read before is done */
	TILE_AWAIT,  /* until all have arrived there, in a phase of parity VAL */
	TILE_FENCE,  /* wgmma may read what this thread copied, after a barrier */
	TILE_BARRIER
} TileSync;

typedef struct TileNode {
	TileOp op;
	Buf *to;
	Iter *it[TILE_RANK];
	int n;
	TileLayout points; /* MAP, FOLD: which thread computes each point, in which register */
	Expr *idx[TILE_RANK]; /* the element of TO: NIDX indices */
	int nidx;
	Expr *val, *guard; /* DOT: A and B are VAL and BY; guard null: true */
	Expr *by;
	bool adds;  /* FOLD, DOT: to what TO has; else it begins with the identity */
	Monoid red; /* FOLD */
	MmaKind mma;
	bool async; /* COPY */
	int vector;
	TileSync sync;
	int pending;
	bool producers; /* by the producers of the stage; other nodes are by the others */
} TileNode;

/* Which part of its statement a node carries out: the initial value of the state, one term, or
 * the write of the result. A map has only the write; a scatter has only terms. */
typedef enum LPart { PART_NONE, PART_INIT, PART_TERM, PART_WRITE } LPart;

/* LN_LOOP, LN_REDUCE, LN_COLUMNS: VAR has the values from LO to HI - 1. LN_LET: VAR is LO; HI is
 * null. */
typedef struct LRange {
	Iter *var;
	Expr *lo, *hi;
} LRange;

/* LN_LOOP */
typedef struct LLoop {
	LoopKind kind;
	int64_t step;
	Dim *when; /* where this is 0, the loop does nothing and is skipped; null: it is not known */
} LLoop;

/* How the threads of a group share the points of a range, on a GPU. */
typedef struct LShare {
	/* LOOP_VECTOR: elements of one access; lo is a multiple of it, and hi is at most lo +
	 * vector. LOOP_GROUP, LN_REDUCE, LN_COLUMNS: adjacent points that a thread takes at once;
	 * hi - lo is a multiple of it. */
	int vector;
	/* LOOP_GROUP, LN_REDUCE: how many points of a thread are unrolled. */
	int keep;
	/* LOOP_GROUP, LN_REDUCE: how many further points of a thread have their elements in the
	 * block's shared scratch; these points are looped over. */
	int scratch;
	/* LOOP_GROUP, LN_REDUCE: the first vector begins this many points before lo, to be
	 * aligned. LN_COLUMNS: the same of the columns at a warp's first point. Null: nothing is
	 * peeled. */
	Expr *peel;
} LShare;

/* LN_STORE, LN_UPDATE, LN_ATOMIC, LN_REDUCE, LN_COLUMNS: NOUT elements, at IDX of each BUF. */
typedef struct LStore {
	Monoid red; /* not LN_STORE */
	int nout;
	Buf *buf[2];
	Expr *idx, *val[2], *guard; /* guard null: true */
} LStore;

/* LN_LOCAL */
typedef struct LLocal {
	Buf *buf;
	Expr *at; /* where it begins in scratch, in bytes; null: it is not in scratch */
	/* On a GPU, if VAL is not null: elements that each thread keeps in registers, for its first
	 * points, and in the block's scratch at AT, for further points. VAL recomputes any element,
	 * that at VAR. */
	int keep, scratch;
	Iter *var;
	Expr *val;
} LLocal;

/* The part of a statement that a node executes. */
typedef struct LPoint {
	int stmt; /* Stmt.id of the statement that this node is part of, or -1 */
	LPart part;
	int comp; /* INIT, WRITE: the state's component */
	/* unless PART_NONE: the point of the statement, an expression for each of its first NAT
	 * iterators */
	Expr **at;
	int nat; /* INIT and a reduction's WRITE: the iterators of the band; else all */
} LPoint;

/* Members that KIND does not have are 0. */
typedef struct LNode LNode;
struct LNode {
	LNodeKind kind;
	LNode *next; /* the sibling after this */
	LNode *body; /* LN_LOOP */
	LRange range;
	LLoop loop;
	LShare share;
	LStore store;
	LLocal local;
	Tile *tile;               /* LN_TILE */
	SplitOperand *split;      /* LN_SPLIT */
	ColumnReduction *columns; /* LN_COLUMNS */
	TileNode *op;             /* LN_OP */
	LPoint point;
	Loc loc; /* the ONNX node, for comments */
};

/*
 * Elements that a block on a GPU copies for all of its groups at once. Iteration p of the stage
 * owns elements [p*EACH, (p+1)*EACH) of BUF, at most MOST of them. If G consecutive iterations
 * share elements, they own G*EACH of them together, and a block has a multiple of G iterations. If
 * EACH is 0, all iterations share element 0.
 *
 * The elements of a block's iterations are one range. The block copies it from BUF to shared memory
 * before its groups begin, and they read it there. If WRITTEN, the groups write every element of
 * the range in shared memory, and the block copies it to BUF after they end.
 */
typedef struct BulkCopy {
	Buf *buf;
	Dim *each;
	int64_t most;
	bool written;
} BulkCopy;

/* How threads share the iterations of a stage: blocks of a GPU. CPUs: all is 0. */
typedef struct StageBlock {
	/* threads of a block, and of a group, which has one iteration at a time: 1, 2, 4, 8, 16, 32
	 * or all threads of the block */
	int threads, group;
	int producers; /* threads beside them, which only copy (TileNode.producers) */
	Iter *first; /* the first iteration of a block, which head and body may mention; or null */
	VEC(BulkCopy) bulk;
	LNode *head; /* what a block does before its groups begin: shared locals that they all use */
	bool beside; /* it is in the launch of the stage before it, and its blocks follow that one's */
} StageBlock;

/* The same of a CPU. */
typedef struct StageCpu {
	/* iterations that are worth waking a thread for; EXTENT or more: one thread runs the
	 * stage */
	Dim *grain;
	int64_t stack; /* bytes of its locals that are on the stack, apart from small ones */
} StageCpu;

typedef struct Stage {
	const char *name; /* C identifier, unique in the kernel */
	/* for dumps: "map", "row", "product", "order"; on GPUs also "transpose", "columns",
	 * "stencil", "scatter" */
	const char *strategy;
	Iter *var;        /* the parallel loop */
	Dim *extent;
	Dim *when; /* where this is 0, the stage does nothing; null: it is not known */
	StageCpu cpu;
	StageBlock block;
	LNode *body;
	/* bytes of scratch per thread that its locals take; constant 0 where there are none */
	Dim *scratch;
} Stage;

enum {
	MOST_MULTIPLES = 4,
	/* Of a tile's sides, and its parts', at most; no block has memory for as many. Two multiply
	 * to an int. */
	TILE_SIDE = 1 << 15,
	STATIC_SHARED = 48 << 10, /* bytes of static shared memory that a block may have */
	MOST_SHARED =
		256 << 10 /* no GPU gives a block as much, static or dynamic (cuda.h: 227 KiB) */
};

/* The runs that a variant of a schedule is for. They have SIZE <= MOST, a size that only run
 * time knows, and ALSO <= ALSO_MOST. SIZE null: all runs; ALSO null: no second condition. If
 * SHARED is not 0, the variant is only for GPUs that give a block SHARED bytes of shared memory. */
typedef struct SizeStep {
	Dim *size;
	int64_t most;
	Dim *also;
	int64_t also_most;
	int tile; /* most elements of a product's tile (bm * bn) that a block may compute; 0: any */
	int shared;
	/* each of the first NOF sizes of OF is a multiple of EACH: the variant's kernel has a
	 * product in its place */
	Dim *of[MOST_MULTIPLES];
	int nof;
	int64_t each;
	const struct ProductVariant
		*decided; /* passes/schedule/common/decision.h; null: the schedule decides */
} SizeStep;

/*
 * A kernel's schedule; or several, the variants, as a list. A run uses the first variant whose
 * guard holds, and the last one has no guard. Each variant has its own copy of the kernel, which
 * may rely on the guard.
 */
typedef struct Schedule {
	Kernel *kernel;
	/* a kernel that replaces the node's, with reductions split or temporaries substituted;
	 * null: the node's own */
	Kernel *split;
	VEC(Stage *) stages;
	VEC(Buf *) temps;     /* kernel temporaries that stay in memory between stages */
	SizeStep where;       /* the runs that this variant is for */
	/* most partial sums of a sum whose length only run time knows; 0: it is not split */
	int64_t parts;
	/* with more shared memory per block another schedule might have been chosen */
	bool short_of_shared;
	bool stated; /* it is from a text */
	/* by input: no memory that the kernel writes is that input's, as memplan finds; null: it is
	 * not known */
	const bool *apart;
	struct Schedule *next;
} Schedule;

/* ---- mma.c ---- */

/* Whether GPUs of compute capability SM (times ten) have an instruction whose operands are
 * rounded first (f32 to tf32). */
bool mma_rounds(int sm);
/* KIND is for four warps, and its operands are in shared memory, which it reads asynchronously. */
bool mma_is_wgmma(MmaKind kind);
/* ---- beside.c ---- */

/* All values of index E are in [*LO, *END); false if that is not known. */
bool index_range(Ctx *c, Expr *e, Dim **lo, Dim **end);
/* Whether stage AT of S may run in one launch with those from FIRST on: each thread has its own
 * iterations, no statement reads what one of another stage writes, and what they write is
 * disjoint. */
bool stages_beside(const Schedule *s, int first, int at);
/* The blocks of ST on a GPU. */
Dim *stage_blocks(Ctx *c, const Stage *st);
/* The number of stages in the launch of stage AT. */
int stage_launch(const Schedule *s, int at);

/* ---- loop_walk.c ---- */

/* The expressions of a node, apart from those of its body and LPoint.at: N of them, and those of
 * what TILE, if there is one, prefetches. The iterators that the node binds may occur in those from
 * INSIDE on. */
enum { LNODE_EXPRS = 31 + TILE_RANK + 3 };
typedef struct LExprs {
	Expr **at[LNODE_EXPRS];
	int n, inside, next;
	const Tile *tile;
} LExprs;
LExprs lnode_exprs(const LNode *n);
/* The next of them, which may be replaced; null at the end. */
Expr **lnode_next_expr(LExprs *x);
/* A loop over pointers E to them. */
#define LNODE_EACH_EXPR(e, n)                                                            \
	for (LExprs e##_all = lnode_exprs(n), *e##_of = &e##_all; e##_of; e##_of = NULL) \
		for (Expr * *e; (e = lnode_next_expr(e##_of)) != NULL;)

/* How a node uses a buffer that it names outside of its expressions: declares it, stores to it,
 * reads elements by its address, or reads the value of a scalar. */
typedef enum LUse { LUSE_DECLARES, LUSE_WRITES, LUSE_READS, LUSE_VALUE } LUse;
typedef struct LBufUse {
	Buf *b;
	LUse use;
} LBufUse;
enum { LNODE_BUFS = 21 };
/* Each buffer that N so uses, apart from those of its body. */
typedef struct LBufs {
	LBufUse at[LNODE_BUFS];
	int n;
} LBufs;
LBufs lnode_bufs(const LNode *n);
/* The node of ST that only last blocks execute (LOOP_LAST); null: there is none. */
LNode *stage_last(const Stage *st);
/* The first stage with a node that executes PART of statement STMT (PART_NONE: any part), or
 * null. */
const Stage *schedule_stage_of(const Schedule *s, int stmt, LPart part);
/* N or a sibling, or a node in the body of one, is an operation on tiles. */
bool nodes_have_tiles(const LNode *n);
/* A node of S is an operation on tiles. */
bool schedule_has_tiles(const Schedule *s);
/* B is an input of S whose memory nothing writes while S runs (Schedule.apart). */
bool schedule_only_reads(const Schedule *s, const Buf *b);
/* The iterators that N binds for its body or its expressions, and a loop over them, whose body may
 * replace *IT. */
enum { LNODE_ITERS = 8 + TILE_RANK };
typedef struct LIters {
	Iter **at[LNODE_ITERS];
	int n;
} LIters;
LIters lnode_iters(const LNode *n);
#define LNODE_EACH_ITER(it, n)                                                                \
	for (LIters it##_all = lnode_iters(n), *it##_of = &it##_all; it##_of; it##_of = NULL) \
		VEC_EACH (it, it##_of)

/* ---- tile_layouts.c ---- */

/* The warps of a block are WM by WN, each with a part of a product's sums. A fragment has 16
 * adjacent rows, and 8 adjacent columns; or two have every other one of 32 or 16, where the
 * transposing load has bytes in pairs. */
typedef struct TileGrid {
	int wm, wn;
	bool every_row, every_column;
} TileGrid;
/* Where a product has its sums of M rows by N columns: alike for all instructions, and for
 * multiply-adds. tile_grid: the grid of such a layout. */
TileLayout tile_sums(const TileGrid *g, int m, int n);
TileGrid tile_grid(const TileLayout *sums);
/* Where instruction KIND has its operand A of M rows by K terms in registers; the rows are those of
 * WARPS warps, one after the other. A's terms are in the order in which the sums of a product have
 * their columns, if BY_SUMS, so that these can be A. With MMA_FMA, it is as the sums. */
TileLayout tile_operand(MmaKind kind, int warps, int m, int k, bool by_sums);
/* Appends to L, a layout of shared memory, dims DIM and DIM + 1: ROWS by COLS elements of BYTES, as
 * wgmma reads them. 8 rows of 128 bytes, with their pieces of 16 bytes xored, are an atom of 1 KiB;
 * atoms of the same columns follow one another. A tile begins at a multiple of an atom. */
enum { TILE_ATOM = 1024, ATOM_ROWS = 8 };
void tile_atoms(TileLayout *l, int dim, int rows, int cols, int bytes);
/* Bytes from row to row of an operand's tile in shared memory, of COLS elements of BYTES each, that
 * give the fewest bank conflicts. ALONG: its rows are contiguous along the terms. */
int64_t tile_pitch(MmaKind kind, int cols, int bytes, bool along);
/* A tile in the order of fragments (passes/layout/fragments.c) has rows of MMA_ROWS of the free
 * side by all terms: the element of such a row for SIDE (below MMA_ROWS, or modulo that) and TERM.
 * tile_in_fragments: load E has such indices. */
Expr *tile_fragment_at(ExprPool *p, Expr *side, Expr *term, int bytes);
bool tile_in_fragments(ExprPool *p, const Expr *e, const Iter *side, const Iter *term);
/* Which piece of a copy a thread has: adjacent threads have RUN adjacent pieces of one row, then
 * those of the next row, for ROWS rows; then the next runs of these, and then the next rows. */
typedef struct PieceOrder {
	int run, rows;
} PieceOrder;
/* The row, and the place in it, of piece T in order O, where rows have PIECES pieces. */
void tile_piece(PieceOrder o, int64_t pieces, int64_t t, int64_t *row, int64_t *piece);
/* The order of copy N by THREADS threads: the one of the tile in registers that it fills or reads;
 * else that with the fewest conflicts of banks, first the one by rows. False: the tile in registers
 * has no such order. */
bool tile_piece_order(ExprPool *p, const TileNode *n, int threads, PieceOrder *best);
/* The points of N, of which a thread has the last iterator's, in order O of the others: of lanes,
 * warps and registers. */
TileLayout tile_pieces(const TileNode *n, PieceOrder o, int warps);
/* The threads that carry out N. */
int tile_threads(const Stage *st, const TileNode *n);
/* Whether B is a tile in the registers of threads, or in shared memory. */
bool tile_in_registers(const Buf *b);
bool tile_in_shared(const Buf *b);
/* The layout of a tile of registers that point r of N reads by index IDX; false: there is none. */
bool tile_reads(Ctx *c, const TileNode *n, Expr *const *idx, int rank, TileLayout *out);
/* Whether the tiles of S, its operations and their layouts fit together (the comment of TileNode);
 * else false after a diagnostic for each node that does not. */
bool tiles_verify(const Schedule *s, Diag *d);
/* The same of N, apart from its body, in stage ST. */
bool tiles_verify_node(const Kernel *k, const Stage *st, const LNode *n, Diag *d, DiagLoc loc);

/* ---- tile_check.c ---- */

/* Whether the threads of a block read what was copied, and never what other threads copy at the
 * same time (tile_check.c); else false after a diagnostic. */
bool tiles_check(Ctx *c, const Schedule *s, Diag *d);

/* ---- tile_text.c ---- */

/* Appends "copy r < 64, c < 64 ..." without a line's end. */
void tile_print(StrBuf *b, const TileNode *n);

/* ---- loop_settle.c ---- */

/* Gives the iterators and buffers of S the names that its text has, and its expressions the order
 * in which a reader of the text makes them. So code generated from S and from its text is the same.
 * OF: the kernel of which S->kernel is a copy. */
void schedule_settle(Schedule *s, const Kernel *of);

/* ---- schedule_text.c ---- */

/* Temporary I of S and the variants after it; null past the last. */
Buf *schedule_temp(const Schedule *s, int i);
/* Whether S is for some runs only. */
bool schedule_guarded(const Schedule *s);
/* The sizes in the kernel of a variant for multiples: TO[id] is EACH * floor(N / EACH) for each
 * symbol N, with number id, in X.of; null for other symbols. TO, in A, has *N entries
 * (dim_subst). */
Dim **schedule_multiples(Ctx *c, Arena *a, const SizeStep *x, int *n);
/* "where N <= 8"; nothing if S is for all runs. */
void schedule_print_guard(StrBuf *b, const Schedule *s);
/* Prints S and the variants after it. */
void schedule_print(StrBuf *b, const Schedule *s);
/* Prints only the stages of S, without names and locations. Schedules of the same kernel that
 * print alike compute the same. */
void schedule_print_bare(StrBuf *b, const Schedule *s);

/* Reads such stages of a kernel K; null after a diagnostic. */
Schedule *schedule_parse_bare(Kernel *k, const char *text);

/* Reads schedules at *P, of FILE, for one target, *TARGET, and the kernels OF[0..N), in this order,
 * into TO. False after a diagnostic. */
bool schedules_parse(Ctx *c, Arena *a, const char *file, Kernel *const *of, int n, const char **p,
		     int *line, const char **target, Schedule **to);

#endif
