/* SPDX-License-Identifier: Apache-2.0 */
/* What the strategies for GPUs share (passes/schedule/gpu/sched_gpu.c lists them). */
#ifndef PASSES_SCHEDULE_GPU_GPU_IMPL_H
#define PASSES_SCHEDULE_GPU_GPU_IMPL_H

#include "passes/forms/points.h"
#include "passes/layout/fragments.h"
#include "passes/schedule/common/row.h"
#include "passes/schedule/gpu/gpu.h"
#include "runtime/vector.h"

enum {
	WARP = 32,
	VECTOR_BYTES = GPU_VECTOR, /* bytes of the widest access */
	MOST_VECTOR = 8,           /* elements of one access, at most */
	SECTOR = 32,               /* bytes that memory transfers at a time */
	/* bytes: four sectors; also one word of each bank of shared memory */
	LINE = 128,
	/* shared memory that a block uses at most, so that several blocks fit on an SM */
	SHARED = 40 << 10,
	/* the longest rows that are transposed in tiles of few long rows, */
	TRANSPOSE_SHORT = 16,
	TRANSPOSE_MIDDLE = 128, /* and in tiles of rows of middle length */
	/* bytes of shared memory that the driver reserves for each block, from sm_80 on */
	GPU_DRIVER = 1 << 10
};

/* The rows of a skinny product: band iterators that the matrix does not depend on. The thread that
 * reads an element of the matrix uses it for all rows. n is 0 where the product is not skinny. */
typedef struct SkinnyRows {
	int of[MAX_ITERS], n; /* band indices, outermost first */
	Dim *rows;            /* number of rows: the product of the extents */
	int64_t most;         /* upper bound of ROWS, or the number of rows of one block */
	bool along;           /* the matrix is contiguous along the summed iterator */
} SkinnyRows;

/* ---- row.c ---- */

/* Upper bound of D in the runs that S serves, or DIM_INF. */
int64_t gpu_most(const Schedule *s, Dim *d);
/* Bytes of shared memory that a block of S may use on every GPU that S is for. If WANTED is more, S
 * is marked short_of_shared, and gets another variant for GPUs with more. */
int64_t gpu_block_room(Schedule *s, const Gpu *gpu, int64_t wanted);
/* The length of K's rows if it is unknown at compile time; else null. */
Dim *gpu_row_length(Kernel *k);
/* A statement of R writes B, so B must not be read ahead of it. */
bool gpu_writes(const Row *r, const Buf *b);
/* The points of S are independent and complete: no guard, no scan, no fixed order. It has one
 * result. */
bool gpu_is_plain(const Stmt *s);
/* The first statement of R reduces to one value for each point of the band, and the others are maps
 * of these values. */
bool gpu_chain(const Row *r);
/* Emits statement S for a row that one thread has. AS is S with its reads redirected, to buffers in
 * shared memory, say. */
void gpu_row_stmt(Row *r, Stmt *s, Stmt *as);
/* Schedules statements FIRST..LAST as a stage over BAND. */
void gpu_row(LBuild *b, const Gpu *gpu, const char *strategy, int first, int last, const Band *band,
	     const SkinnyRows *skinny);
/* Holds all of temporary T, which S writes, of a row (gpu_hold). */
Buf *gpu_make_local(Row *r, const Stmt *s, const Buf *t);

/* ---- stage.c ---- */

/* A load of memory, and the element of COPY, at AT, that holds its value. */
typedef struct Staged {
	Expr *load;
	Buf *copy;
	Expr *at;
} Staged;

/* The statements of R may read the elements that LOAD reads from a copy: no statement of R writes
 * them, and an element is at least a byte. */
bool gpu_may_stage(const Row *r, const Expr *load);
/* Shared memory that a buffer of BYTES takes, as all buffers begin at a multiple of LINE; INT64_MAX
 * stays. */
int64_t gpu_shared_bytes(int64_t bytes);
/* Declares BUF, which threads keep in registers or a block in shared memory, for the rest of this
 * body. AT, unless null, is its offset in bytes in the block's scratch. */
LNode *gpu_declare(LBuild *b, Buf *buf, Expr *at);
/* Emits COPY[IT] = VAL where GUARD holds (null: always), for IT from 0 to END - 1, which the
 * threads of the group share out. Returns the loop. */
LNode *gpu_fetch(LBuild *b, Iter *it, Expr *end, Buf *copy, Expr *val, Expr *guard);
/* Opens the loop over the VECTOR elements of one access: IT from LO on, but before END (null: all
 * of them). There are none where GUARD (null: always) fails. */
LNode *gpu_open_access(LBuild *b, Iter *it, Expr *lo, Expr *end, int vector, Expr *guard);
/* E with the N loads OF replaced by loads of their copies. */
Expr *gpu_from_copies(ExprPool *p, Expr *e, const Staged *of, int n);

/* How much of a temporary a stage holds: MANY elements of the dim that is written by band iterator
 * ALONG, NROWS of that of ROWS (-1: there is none), and all of each dim with several elements at a
 * point of the band, MOST where their number is not known (null: all). */
typedef struct Held {
	int along, rows;
	Dim *many, *nrows, *most;
	bool columns; /* the dim of ALONG is the innermost axis; else the order is T's */
} Held;

/* Makes a buffer of H's sizes that stands for temporary T, which S writes, in the statements of R;
 * returns it, or null if that is not possible. Does not declare it (gpu_declare). */
Buf *gpu_hold(Row *r, const Stmt *s, const Buf *t, const Held *h);
/* Bytes of B; INT64_MAX if unknown, or more than any block can share. */
int64_t gpu_bytes_of(const Buf *b);

/* Elements of BYTES each in a sector. */
int64_t gpu_sector(int bytes);
/* Elements of BYTES each in the widest access, at most MOST. */
int gpu_vector(int bytes, int most);
/* The largest power of two up to MOST that divides D, whatever the symbols are. */
int64_t gpu_divides(Ctx *c, Dim *d, int64_t most);
/* The largest power of two up to MOST that divides AT at every point, apart from its term of
 * BUT. */
int64_t gpu_aligned(Ctx *c, const Affine *at, const Iter *but, int64_t most);
/* The number of rows after which the offset of a row in its sector repeats, where rows are BYTES
 * apart: 4 for 200 bytes. It is a power of two. */
int64_t gpu_period(int64_t bytes);
/* The offset in its sector of a row's first element: index AT, in elements of BYTES, where the N
 * iterators IT have their FIRST values. The first access is peeled by as many elements. */
Expr *gpu_peel(LBuild *b, Expr *at, Iter *const *it, Expr *const *first, int n, int bytes);

/* ---- sched_gpu.c ---- */

/* The value of D with every symbol at its minimum, but at least 1. */
int64_t gpu_least(Ctx *c, const Dim *d);
/* Appends the step "SIZE <= MOST" to the N steps of STEP, unless its guard would always or never
 * hold. Returns the new number of steps. */
int gpu_add_step(Ctx *c, SizeStep *step, int n, Dim *size, int64_t most);

/* ---- tiles.c ---- */

/* One operand of a product: how its tiles in shared memory are filled. */
typedef struct TileOperand {
	Expr *val, *guard; /* flat loads */
	Iter *const *side; /* its free iterators, m or n */
	int nside;
	bool along;               /* a row of the tile is contiguous along k */
	bool k_joins, side_joins; /* the iterators can be merged into one in every load */
	int vector;               /* elements of a chunk */
	bool lanes;               /* it is packed in the order of FRAGMENTS, and so are its tiles */
	Fragments fragments;
	bool async;
	DType type; /* element type in the tile */
} TileOperand;

/* A tile of an operand in shared memory; PITCH: bytes from row to row. */
typedef struct OperandTile {
	int rows, cols;
	int64_t pitch;
} OperandTile;

/* Sets how O is read, whose members up to NSIDE, and TYPE and LANES, are set. The terms of its
 * product are the points of the N iterators TERM. */
void gpu_operand_open(Kernel *k, const Gpu *gpu, TileOperand *o, Iter *const *term, int n);
/* The tile of SIDE points of O's free iterators and TERMS terms, for products of KIND. */
OperandTile gpu_operand_tile(const TileOperand *o, MmaKind kind, int side, int terms);
/* Declares as many BUFFERS (0: one, which has no index) of tile T, from byte AT of the block's
 * scratch on. */
Buf *gpu_operand_declare(LBuild *b, const char *name, const TileOperand *o, const OperandTile *t,
			 MmaKind kind, int buffers, int64_t at);
/* The element of such a TILE, of buffer BUFFER (or null), at iterators SIDE and TERM of an
 * operation. */
Expr *gpu_operand_at(LBuild *b, const TileOperand *o, Buf *tile, Expr *buffer, Iter *side,
		     Iter *term);

/* Declares a tile with layout L and these extents, in registers; gpu_shared_tile in shared memory,
 * from byte AT of the block's scratch on. */
Buf *gpu_tile(LBuild *b, const char *name, DType t, const int64_t *extent, const TileLayout *l);
Buf *gpu_shared_tile(LBuild *b, const char *name, DType t, const int64_t *extent,
		     const TileLayout *l, int64_t at);
/* An operation whose points are those of N iterators with these names and extents. gpu_add_op
 * appends it; gpu_write lets it write to element [it...] of its tile, of RANK dims. */
TileNode *gpu_op(LBuild *b, TileOp op, Buf *to, const char *const *names, const int *extent, int n);
LNode *gpu_add_op(LBuild *b, TileNode *n);
void gpu_write(LBuild *b, TileNode *n, int rank);
/* D is a constant multiple of N. */
bool gpu_is_multiple(const Dim *d, int64_t n);
/* The terms of an instruction of KIND. */
int gpu_mma_terms(MmaKind kind);
/* A block with so many bytes of SHARED memory and REGISTERS of a thread fits; else false, after WHY
 * (null: none). */
bool gpu_fits(int64_t shared, int64_t most_shared, int registers, int most_registers, StrBuf *why);
/* Operand NAME CAN be copied by cp.async, or need not be (ASYNC); else false, after WHY. */
bool gpu_hold_is_legal(const char *name, bool async, bool can, StrBuf *why);

/* ---- skinny.c ---- */

/* Band iterator B is one of the rows of F. */
bool gpu_is_skinny(const SkinnyRows *f, int b);
/* Whether the terms of a column of the matrix are contiguous, so that a thread group sums along
 * them. */
bool gpu_skinny_along(Kernel *k, const Contraction *c);
/* Finds the skinny rows of the product in statement FIRST of K, for the runs that S serves
 * (passes/schedule/gpu/skinny.c). */
void gpu_skinny_rows(const Schedule *s, Kernel *k, int first, const Band *band, SkinnyRows *skinny);
/* Expresses the iterators of F by one flat row number: FLAT gives their values. AS, the same or
 * another number, stands for them in the indices of accesses. */
void gpu_skinny_place(Row *r, const SkinnyRows *f, Expr *as, Expr *flat);

/* ---- split.c ---- */

/* Some reduction of K is long enough that splitting its sum may pay
 * (passes/schedule/gpu/split.c). */
bool gpu_may_split(Kernel *k);
/* Splits those reductions of K over several blocks whose stages, in SCHED, leave SMs idle. SCHED is
 * the schedule of a copy of K. False if there are none. Otherwise the statements of K form *N
 * stages; stage i begins at statement (*FIRST)[i]. */
bool gpu_split(const Target *t, Kernel *k, Schedule *sched, int **first, int *n);

/* ---- recompute.c ---- */

/* Recomputes, where they are read, the temporaries of K that SCHED, the schedule of a copy of K,
 * passes through global memory (passes/schedule/gpu/recompute.c). False if there are none.
 * gpu_may_recompute: whether any schedule can have some. */
bool gpu_recompute(Kernel *k, const Schedule *sched);
bool gpu_may_recompute(Kernel *k);

/* ---- scatter.c ---- */

/* Schedules S as a stage of atomic updates (passes/schedule/gpu/scatter.c); false if the order of
 * its points matters. */
bool gpu_scatter(LBuild *b, Stmt *s);

/* ---- map.c ---- */

/* The points of S, a map or a scatter, with flat indices; iterators are merged where possible. */
Points gpu_points(Kernel *k, Stmt *s);
/* The length of the rows that some transposing map of K keeps whole, if it is unknown at compile
 * time; else null. */
Dim *gpu_map_row(Kernel *k);
/* Schedules map S as a stage. False if elements of less than a byte would be shared between
 * threads. */
bool gpu_map(LBuild *b, Stmt *s);

/* ---- transpose.c ---- */

/* The length of the rows that transposing map S, whose points are P, keeps whole, if it is unknown
 * at compile time; else null. */
Dim *gpu_transpose_length(const Stmt *s, Points *p);
/* Schedules map S, whose points are P, as a transpose (passes/schedule/gpu/transpose.c); false if
 * it is not one. */
bool gpu_transpose(LBuild *b, Stmt *s, Points *p);

/* ---- columns_reduce.c ---- */

/* Schedules the statements of R as a column reduction: memory is contiguous along band iterator
 * ALONG, and the reduced iterator strides through it (passes/schedule/gpu/columns_reduce.c). False
 * if they are no such reduction. */
bool gpu_column_reduce(Row *r, const Gpu *gpu, int along, const SkinnyRows *skinny);

/* ---- columns.c ---- */

/* Schedules the statements of R as several column reductions, or as one whose elements are read
 * again (passes/schedule/gpu/columns.c). False if they are not of this form. */
bool gpu_columns(Row *r, const Gpu *gpu, int along);

/* ---- small_panels.c ---- */

/* Schedules the statements of R with one thread per row and bulk copies of small panels. Each
 * statement has few points of a row, and rows are adjacent along band iterator ALONG
 * (passes/schedule/gpu/small_panels.c). False if there are no such panels. */
bool gpu_small_panels(Row *r, int along);

/* ---- group_bulk.c ---- */

/* The buffers that R's statements access, as candidates for bulk copies by a stage over the N
 * iterators SPLIT. Members `each` are the elements of an iteration; null: the buffer is not
 * copied. */
typedef struct BulkCandidates {
	Row *r;
	Iter *const *split;
	int n;
	VEC(BulkCopy) bulk;
	/* buffers that are read at every point, so that all elements of a bulk copy exist */
	VEC(const Buf *) read;
} BulkCandidates;
/* Notes an access of B at AT (null: the elements are not known); the loads of E, which may be null
 * (ALWAYS: E is evaluated at every point). gpu_bulk_done drops buffers that only some points read:
 * they may be shorter than the rows. */
void gpu_bulk_access(BulkCandidates *f, Buf *b, Expr *at, bool written);
void gpu_bulk_loads(BulkCandidates *f, Expr *e, bool always);
void gpu_bulk_done(BulkCandidates *f);

/* ---- stencil.c ---- */

/* Schedules the statements of R as a stencil: sliding sums, with memory contiguous along band
 * iterator ALONG (passes/schedule/gpu/stencil.c). False if they are not one. */
bool gpu_stencil(Row *r, const Gpu *gpu, int along);

/* ---- tile_pipeline.c ---- */

/* The COPY nodes at the beginning of LOOP's body fill buffer SLOT, of STAGES, for its iteration:
 * starts them STAGES - 1 iterations ahead, and puts waits and barriers where threads read what
 * others copied. The copies before LOOP are part of its first group. HELD: registers of a thread in
 * which copies that are not asynchronous may be in flight during an iteration. FULL and EMPTY:
 * tiles of an mbarrier for each buffer, and in FULL for one more, if the stage's producers copy;
 * else null. */
void gpu_tile_pipeline(LBuild *b, LNode *loop, LNode **at, Iter *slot, int stages, int held,
		       Buf *full, Buf *empty);

/* ---- group.c ---- */

/* Emits the statements of a stage in which a thread group has each row
 * (passes/schedule/gpu/group.c). The stage is split into the N iterators SPLIT. SKINNY: the
 * iterator over the skinny rows of a group; or null. */
void gpu_group(Row *r, const Gpu *gpu, Iter *const *split, int n, Iter *skinny);

#endif
