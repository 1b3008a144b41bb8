/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop tree: a kernel's statements after scheduling. A Schedule is a list of stages; a stage is one
 * parallel loop whose body is a tree of few nodes. All loads and stores index flat memory (one i64
 * expression); local buffers live for one parallel iteration. Code generation prints this tree and
 * decides nothing.
 *
 * On a GPU a stage is one launch, and a group of its threads has each iteration: one thread, a part of a warp, a warp, or
 * a block. All threads of a group run through its body together. Scalar locals are registers, of the same value in every thread;
 * other locals are the thread's own where it is alone, and else shared. A store outside of LOOP_GROUP is made once,
 * and the group meets after it; LN_REDUCE goes over the group's lanes and leaves its state in every thread.
 *
 * A contraction's block is a group of its own. Its tiles of the operands are shared (Buf.swizzle: SWIZZLE_ROWS, _WORDS or _LANES), a slot for
 * each stage of the pipeline that fills them ahead; the sums are spread over the threads' registers (SWIZZLE_REGISTERS), and leave
 * them strip by strip (LN_COPY_SUMS). A local with LNode.idx lies at that byte of the block's shared scratch, whose
 * size Stage.scratch is; locals that do not live together may overlap there.
 */
#ifndef IR_LOOP_H
#define IR_LOOP_H

#include "ir/kernel.h"

typedef enum LoopKind {
	LOOP_SERIAL,
	LOOP_VECTOR, /* independent points, unit stride inside: the C compiler is told to vectorise; on a GPU, where the step is more than 1,
	                several points are in flight at once */
	LOOP_SHORT, /* as LOOP_VECTOR, of few iterations: the rest of a vector is masked, not peeled */
	LOOP_UNROLL,
	LOOP_GROUP /* independent points, shared out between the threads of a group, which meet at its end */
} LoopKind;

typedef enum LNodeKind {
	LN_LOOP,   /* for var in [lo, hi) by step: body */
	LN_LET,    /* var = lo: names an index for what follows in this body */
	LN_STORE,  /* buf[idx] = val where guard */
	LN_UPDATE, /* state of a monoid: bufs[idx] = combine(bufs[idx], vals) where guard */
	LN_ATOMIC, /* the same, of an element in memory that other threads update meanwhile: in one step, in any order */
	LN_REDUCE, /* state bufs[idx] = monoid over var in [lo, hi) of vals where guard, in lanes */
	LN_LOCAL, /* declares buf for the rest of this body; in the body of a LOOP_GROUP each thread has one */
	LN_TILE, /* tile += A panel * B panel: the contraction micro-kernel */
	LN_FILL, /* a group fills a shared tile: the body, which is LETs and one store, for all its chunks */
	LN_PIPELINE, /* for var in [lo, hi): fills, then what reads them; the fills run STAGES - 1 rounds ahead, each round in its slot */
	LN_MMA,      /* sums in registers += A tile * B tile */
	LN_COLUMNS, /* state bufs[idx] = monoid over var in [lo, hi) of vals, for all columns and rows; guard: of the column */
	LN_COPY_SUMS /* buf[0], flat, rows VAR (or columns) of STEP elements = strip IDX of the sums of MMA */
} LNodeKind;

/* A contraction's register tile: acc[i][j] (+)= sum over k < K of a(i, k) * b(k, j), for i < mr, j < nr.
 * Row i of A starts at element a_row[i] of A and advances by a_step each k; rows past m_valid repeat the
 * last valid one. B is a panel: element (k, j) at b_at + k*b_step + j. */
typedef struct Tile {
	CType ct;
	int mr, nr;
	Buf *acc; /* local; element (i, j) at acc_at + i*nr + j */
	Expr *acc_at;
	Iter *col; /* the column's number in the tile: LNode.at mentions it, as it does ROW */
	Buf *a, *b;
	Iter *row;  /* a_at is an expression over this iterator: the row's number in the tile */
	Expr *a_at; /* flat index of A's first element of row ROW */
	Expr *a_step;
	Expr *b_at, *b_step;
	Expr *ahead; /* flat index into B of what later tiles will read, fetched by AHEAD_STEP elements a term; or null */
	int ahead_step;
	Expr *k;         /* trip count */
	Expr *m_valid;   /* rows that exist: 1..mr */
	Expr *n_valid;   /* columns that exist: 1..nr */
	bool accumulate; /* ACC holds the sum of the terms before */
	bool partial;    /* more terms follow */
	Iter *depth; /* where it is only a part of the sum: the term's number in it, which LNode.at mentions */
} Tile;

/* A tile of ROWS by CHUNKS * PACK elements. The store's value at element ELEM of a chunk is that of its first and ELEM
 * further; its guard does not depend on ELEM, and where it fails the chunk is zero. */
typedef struct Fill {
	Iter *row, *chunk, *elem;
	int rows, chunks, vector;
	bool async; /* the value is one aligned load of 4, 8 or 16 bytes: cp.async */
} Fill;

/* States of COLS adjacent columns, contiguous in memory, by ROWS, which only the other operands have: idx, vals and LNode.at
 * mention both. A thread has LNode.vector adjacent columns of every row, or, with LNode.peel, COLUMN_BLOCKS at most, a warp apart.
 * Where LANES, which vals read once, is not null, that lies in the order of fragments instead (ir/mma.def), and a thread
 * reads what a lane has of a half of a block's terms, of two columns of each MMA_ROWS; lo is 0, and the terms are whole
 * halves. */
enum { COLUMN_BLOCKS = 8 };
typedef struct ColumnReduction {
	Iter *col, *row;
	const Buf *lanes;
	int cols, rows;
	Expr *valid; /* rows that exist, null: all; terms of others are made, and lead nowhere */
} ColumnReduction;

/* How a product of tiles is computed: a row of ir/mma.def, or multiply-adds of single elements. */
typedef enum MmaKind {
	MMA_FMA,
#define MMA(name, ...) MMA_##name,
#include "ir/mma.def"
#undef MMA
	MMA_COUNT
} MmaKind;

typedef struct MmaInfo {
	const char *name;
	DType type[2]; /* of A and B, of the same width */
	CType sum;
	int m, n, k;       /* shape */
	int sm;            /* the first compute capability that has it, times ten */
	int a, b;          /* registers of a lane */
	const char *reg;   /* LLVM's type of one */
	const char *call;  /* LLVM's intrinsic */
	const char *round; /* the one that an element goes through before, or null */
} MmaInfo;

/* Rows of a fragment of sums: one instruction's, or those of two. */
enum { MMA_ROWS = 16 };

extern const MmaInfo mma_info[MMA_COUNT];

/*
 * acc[bm][bn] += A[bm][bk] * B[bk][bn] by WM * WN warps, each with bm/WM by bn/WN of it. MMA_FMA: a lane of a warp,
 * which are 4 by 8, has TM * TN elements. A tile lies by rows of k (A_ALONG: A[i][k], B[j][k]), of the free side
 * (A[k][i], B[k][j]), or, as _LANES, in the order of fragments, which counts as along k.
 */
typedef struct Mma {
	MmaKind kind;
	CType ct;
	int bm, bn, bk, wm, wn, tm, tn;
	Buf *acc, *a, *b;
	bool a_along, b_along;
	bool by_columns; /* the staging buffer is column-major: the epilogue is contiguous along rows */
	Iter *stage;     /* of the pipeline */
	Iter *row, *col,
		*depth; /* LNode.at and guard mention them: an element of the tile, a term of the part */
} Mma;

/* Whether GPUs of compute capability SM (times ten) have an instruction that rounds its operands. */
bool mma_rounds(int sm);
/* The sums leave in strips: of each row of warps, STRIP consecutive rows. Row r of strip s is row
 * r / STRIP * (bm / wm) + s * STRIP + r % STRIP of the tile. */
int mma_part_rows(const Mma *m);
/* An operand of bytes whose rows are not contiguous along k (not ALONG) is transposed on its way to registers: of its 16 rows
 * (columns) a fragment of 8 has every other one. */
bool mma_transposes(const Mma *m, bool along);
/* Elements behind a row of a strip, or a column of one that lies by columns, such that what lanes store at once lies in different
 * banks. */
int mma_pad(const Mma *m);

/* What of its statement a node carries out: the state's first value, a term, the write. A map has the write
 * alone, an update of single points the terms alone. */
typedef enum LPart { PART_NONE, PART_INIT, PART_TERM, PART_WRITE } LPart;

typedef struct LNode LNode;
struct LNode {
	LNodeKind kind;
	LNode *next; /* the sibling after this */
	LNode *body; /* LN_LOOP, LN_FILL, LN_PIPELINE */
	LoopKind loop;
	Iter *var;
	Expr *lo, *hi;
	int64_t step;
	int vector; /* LOOP_VECTOR on a GPU: elements of one access; lo is a multiple of it, hi at most lo + vector.
	                      LOOP_GROUP, LN_REDUCE, LN_COLUMNS: a thread has runs of so many points; hi - lo is a multiple */
	int keep; /* LOOP_GROUP, LN_REDUCE: how many points of a thread are unrolled. LN_LOCAL: elements that each
	                      thread keeps, those of its first points; val[0] is what any of them is, at var */
	int scratch; /* the same: of a thread's points after those, so many have elements in the block's scratch, and are
	                      looped over. LN_LOCAL: they begin at byte IDX */
	Expr *peel; /* LOOP_GROUP, LN_REDUCE: the first run begins so many points before lo; LN_COLUMNS: columns do, for a
	                      warp's first point; null: none */
	Monoid red;
	int nout;
	Buf *buf[2];
	Expr *idx, *val[2], *guard; /* guard null: true */
	Tile *tile;
	Fill *fill;
	ColumnReduction *columns;
	Mma *mma;    /* LN_MMA, LN_COPY_SUMS */
	int stages;  /* LN_PIPELINE */
	Iter *stage; /* LN_PIPELINE: which slot a fill fills, or what follows reads */
	Loc loc;     /* the ONNX node, for comments */
	int stmt;    /* Stmt.id this carries out, or -1 */
	LPart part;
	int comp; /* INIT, WRITE: the state's component */
	Expr **at; /* unless PART_NONE: the point, an expression for each of the first NAT iterators */
	int nat; /* INIT and a reduction's WRITE: those of the band */
};

/*
 * On a GPU: iteration p of a stage has elements p*EACH to p*EACH + EACH - 1 of BUF, at most MOST of them, for itself, or, with the
 * others of its group, as many of what they have together, where blocks have whole groups; where EACH is 0, all have element 0
 * alone. What the groups of a block have goes between memory and the block's shared memory as a whole, before the groups begin or,
 * WRITTEN, each element by some group, after they end; they access it there.
 */
typedef struct BulkCopy {
	Buf *buf;
	Dim *each;
	int64_t most;
	bool written;
} BulkCopy;

typedef struct Stage {
	const char *name; /* C identifier, unique in the kernel */
	const char *
		strategy; /* "map", "row", "contraction", "order"; on GPUs "transpose", "columns", "stencil", "scatter", too: for dumps */
	Iter *var;        /* the parallel loop */
	Dim *extent;
	Dim *grain; /* CPUs: iterations worth a thread's waking; as many as EXTENT or more: one thread does all */
	VEC(BulkCopy) bulk;
	Iter *first; /* GPUs: of a block, in head and body: the first of its iterations; or null */
	LNode *head; /* GPUs: what the threads of a block do together before its groups begin: shared locals of all of them */
	LNode *body;
	Dim *scratch; /* bytes of per-thread scratch that its locals take; constant 0 where none */
	int threads,
		group; /* GPUs: threads of a block, and of the group that has one iteration: 1, 2, 4, 8, 16, 32 or threads; else 0 */
} Stage;

/* Runs where SIZE, which is not known before, is MOST or less, and ALSO, unless it is null, ALSO_MOST. SIZE null: all. Of these,
 * unless SHARED is 0, the runs on GPUs that give a block so many bytes of shared memory. */
typedef struct SizeStep {
	Dim *size;
	int64_t most;
	Dim *also;
	int64_t also_most;
	int tile; /* results of a product's block, at most; 0: any */
	int shared;
} SizeStep;

/*
 * A kernel's schedule, or several, its variants: a run takes the first that is for it; the last one is for all. Each has a
 * kernel of its own, which is right where its guard holds.
 */
typedef struct Schedule {
	Kernel *kernel;
	Kernel *split; /* what it carries out, where that is not the node's kernel but one with reductions split, or scatters; or null */
	VEC(Stage *) stages;
	VEC(Buf *) temps;     /* kernel temporaries that stay in memory between stages */
	SizeStep where;       /* for those runs */
	int64_t parts;        /* a sum of unknown length is in so many at most; 0: none is */
	bool short_of_shared; /* with more shared memory for a block it might be another one */
	struct Schedule *next;
} Schedule;

/* Temporary I of S and the variants after it; null past the last. */
Buf *schedule_temp(const Schedule *s, int i);
/* S is not for all runs. */
bool schedule_guarded(const Schedule *s);
/* "where N <= 8", or nothing. */
void schedule_print_guard(StrBuf *b, const Schedule *s);
/* S and the variants after it. */
void schedule_print(StrBuf *b, const Schedule *s);
/* The stages of S alone, without names and places: those of one text do the same with the same kernel. */
void schedule_print_bare(StrBuf *b, const Schedule *s);

#endif
