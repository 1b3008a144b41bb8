/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kernel while it is emitted: its parameters and memory, and the emission of the nodes of its loop tree (stage.c, mem.c).
 */
#ifndef CODEGEN_NVPTX_KERNEL_H
#define CODEGEN_NVPTX_KERNEL_H

#include "codegen/nvptx/nvptx_impl.h"

#define KERNEL_NAME "$kernel$"

/* Where a buffer of a kernel is. */
typedef struct LlBuf {
	const Buf *buf;
	const char *name;   /* "%in.x", "@NAME.shared0" ... */
	int space;          /* LLVM's address space: 0 the thread's own, 1 global, 3 shared */
	int64_t group;      /* shared: elements that each group has */
	int64_t at;         /* in the block's scratch: bytes from its begin, which NAME is */
	bool packed;        /* elements of less than a byte share bytes, as in memory outside */
	const LNode *local; /* that says which elements a thread keeps, or null */
	const char *
		rest; /* what is the block's scratch, where it keeps elements in that, too; else null */
	const char *copied,
		*first; /* a span in shared memory, and which element its first one is; else null */
} LlBuf;

typedef struct LlIter {
	const Iter *it;
	const char *value;
	const Expr *is; /* of a LET: what it names; else null */
} LlIter;

typedef struct LlKernel {
	LlFn f;
	const Schedule *sched;
	const Stage *stage;
	VEC(Buf *) bufs; /* parameters, in order of use */
	VEC(Dim *) dims;
	VEC(LlBuf) places;
	VEC(LlIter) iters;
	StrBuf globals;
	int64_t shared; /* bytes of the globals that are shared memory */
	int nshared, nslots;
	bool scratch; /* the block's scratch is declared */
	const char *
		slot; /* i64: which slot of the pipeline's tiles is meant; its iterator is 0, so that the rest of an
			   * address stays the same in all rounds */
	int group; /* threads that share the iteration whose nodes are being emitted, and which of them this one is */
	const char *lane;
	const char *mask; /* lanes of the warp that run through the body */
	int in_group;     /* inside LOOP_GROUP: each thread has points of its own */
	int kept;         /* of the elements that a thread keeps, the current one; -1: none */
	const char *
		in_scratch; /* i64: where in scratch elements of the current access are, KEPT of which is the current one; null: they are
			   * in registers */
	bool partial[2][2][CT_COUNT]; /* declared: see ll_partial */
	int partials;                 /* reductions that have used them */
	bool sums;                    /* threads have, or had, sums of products in registers */
	int ahead;                    /* as PtxFunc's */
	bool faults;
	VEC(const char *)
	own; /* values that no two threads of a group have: numbers of points from 0 on, shared out one by one */
} LlKernel;

/* For stage ST of S, with nothing printed yet. */
LlKernel *ll_kernel_new(GenPtx *g, const Schedule *s, const Stage *st);
/* Prints N and what follows it. */
void ll_nodes(LlKernel *k, const LNode *n);
/* A loop, with what is in it (codegen/nvptx/loop.c). */
void ll_loop(LlKernel *k, const LNode *n);
/* The threads that share an iteration meet here, and see what each of them stored; nothing where each
 * runs alone. All of them get here, or none. */
void ll_barrier(LlKernel *k);
/* Opens a block for where COND holds; what it gives, ll_close_if wants (null: nothing was opened). */
const char *ll_open_if(LlKernel *k, const char *cond);
/* The same for where LO <= AT < HI; LO null: AT < HI. */
const char *ll_open_if_in(LlKernel *k, const char *at, const char *lo, const char *hi);
void ll_close_if(LlKernel *k, const char *after);
/* Whether the text so far calls library function NAME. */
bool ll_calls(const LlFn *f, const char *name);

/* ---- iters.c ---- */

/* VALUE is what IT is from here on; ll_let: of an expression. */
void ll_bind(LlKernel *k, const Iter *it, const char *value);
void ll_let(LlKernel *k, const Iter *it, Expr *is);
/* Where element IDX, whose value VALUE is, is one that no other thread of the group has, VALUE is one of LlKernel.own, too. */
void ll_note_own(LlKernel *k, Expr *idx, const char *value);
/* VALUE is one of LlKernel.own. */
bool ll_is_own(const LlKernel *k, const char *value);
/* For LlFn: the value of IT in kernel K, and whether division E is a short one. */
const char *ll_iter(void *k, const Iter *it);
bool ll_is_short(void *k, const Expr *e);
/* The value of D in kernel K: a number, or a parameter that it becomes here. */
const char *ll_dim(void *k, Dim *d);

/* ---- mem.c ---- */

/* The name of what holds B: where no one declared it, a parameter or a table that it becomes here. */
const char *ll_buf_name(LlKernel *k, const Buf *b);

/* A stack slot of TYPE (N elements; 0: one). */
const char *ll_slot(LlKernel *k, const char *type, int64_t n);
/* Makes room for a local buffer: registers, the thread's memory, or the group's, as LOCAL says, where not null. Sums begin
 * as 0. */
void ll_declare(LlKernel *k, Buf *b, const LNode *local);
/* LLVM's address space of what holds B (LlBuf). */
int ll_space(LlKernel *k, const Buf *b);
/* The LN_LOCAL of a buffer whose elements threads keep; else null. */
const LNode *ll_local(LlKernel *k, const Buf *b);
/* A pointer to element IDX of B; its type in *TYPE. */
const char *ll_pointer(LlKernel *k, const Buf *b, const char *idx, const char **type);
/* CODE, an element of T as it is stored, as the scalar that is computed with; and back. */
const char *ll_decoded(LlKernel *k, DType t, const char *code);
const char *ll_encoded(LlKernel *k, DType t, const char *val);
/* Declares NAME, N elements of T in shared memory. Schedules see to it that there is room. */
void ll_shared(LlKernel *k, const char *name, int64_t n, DType t);
/* Bytes of shared memory that the launch has to give. */
int ll_dynamic_shared(const LlKernel *k);
/* Makes room for N elements of B, from FIRST on, in shared memory, where all accesses of it go from here on. Gives the name of
 * that, as ll_bulk_name does; ll_buf_name stays that of B. */
const char *ll_declare_bulk(LlKernel *k, const Buf *b, int64_t n, const char *first);
const char *ll_bulk_name(LlKernel *k, const Buf *b);
/* A pointer to element I of the thread's own ARRAY. */
const char *ll_element(LlKernel *k, const char *array, DType t, int64_t i);
/* Each thread has a B of its own. */
bool ll_in_register(LlKernel *k, const Buf *b);
/* The scalar that element IDX of B has; ll_store gives it VAL. Names of loads stay (ll_forget). */
const char *ll_load(LlKernel *k, const Buf *b, const char *idx);
void ll_store(LlKernel *k, Buf *b, const char *idx, const char *val);
/* As ll_store, for the codes VAL of N contiguous elements, aligned as one vectorised access. */
void ll_store_run(LlKernel *k, const Buf *b, const char *idx, const char *const *val, int n);
/* Shared words, one a warp, for component C of a state of type T: stores VAL at AT, or (null) loads from there. Reductions
 * have those of two sets in turn, such that a barrier between the two accesses of one also parts the next one but one from it. */
const char *ll_partial(LlKernel *k, int c, CType t, const char *at, const char *val);

/* ---- vector.c ---- */

typedef struct LlWide {
	Expr *load;
	const char *vector; /* its codes */
} LlWide;

/* PACK points of VAR, and the loads of theirs that are one access. */
typedef struct LlVector {
	LlKernel *k;
	const Iter *var;
	int vector, kept; /* KEPT: the first one's LlKernel.kept */
	VEC(LlWide) wide;
} LlVector;

/* Loads of E that every point makes, not those behind a select, are fetched at once. */
void ll_vector_find(LlVector *p, Expr *e);
/* Fetches them, for VAR from LO on; then: VAR is LO + V, until names are dropped. */
void ll_vector_fetch(LlVector *p, const char *lo);
void ll_vector_element(LlVector *p, const char *lo, int v);
/* All of store ST, whose loads were found. */
void ll_vector_store(LlVector *p, const LNode *st, const char *lo);
/* A loop over the elements of one access (LNode.vector). False where it is a loop as any other. */
bool ll_vector(LlKernel *k, const LNode *n);

/* ---- group.c ---- */

/* A loop of LOOP_GROUP whose points are shared out in runs, or of which threads keep elements. */
void ll_share(LlKernel *k, const LNode *n);
/* LN_REDUCE: by the thread where it runs alone, else by its group, each thread of which then has the state. */
void ll_reduce(LlKernel *k, const LNode *n);
/* VALUE of the lane that is OFF away. */
const char *ll_shuffled(LlKernel *k, const char *value, CType t, int off);
/* LN_COLUMNS (column_reduce.c). */
void ll_columns(LlKernel *k, const LNode *n);

/* ---- bulk.c ---- */

/* Declares the stage's spans, and fetches what is read; stores what was written. By all threads of the block. */
void ll_bulk_in(LlKernel *k);
void ll_bulk_out(LlKernel *k);

/* ---- barriers.c ---- */

/* CODE, the body of K's function, without the barriers that nothing needs. */
const char *ll_needed_barriers(const LlKernel *k, const char *code);

/* ---- atomic.c ---- */

/* LN_ATOMIC. */
void ll_atomic(LlKernel *k, const LNode *n);

/* ---- stage.c ---- */

/* Each thread has points of its own here. */
bool ll_alone(const LlKernel *k);
/* STATE[at] = combine(STATE[at], VAL), all components at once; VAL is read before. */
void ll_combine(LlKernel *k, Monoid red, Buf *const *state, const char *idx, const char *const *val,
		const CType *ct, int n, bool step);
/* A term of N into STATE: of a sum of products it is a multiply-add, as in the C code. ll_update: where its guard holds. */
void ll_step(LlKernel *k, const LNode *n, Buf *const *state, Expr *at);
void ll_update(LlKernel *k, const LNode *n, Buf *const *state, Expr *at);

typedef struct LlLoop {
	const char *slot, *var, *step, *head, *end;
	bool once; /* as it is: neither LLVM nor ptxas unrolls it */
} LlLoop;

/* At the branch back, where LLVM and ptxas are not to unroll; put_metadata (stage.c) says what it is. */
#define LL_LOOP_ONCE ", !llvm.loop !1"

/* for VAR = FROM; VAR < TO; VAR += STEP (texts). */
LlLoop ll_open_loop(LlKernel *k, const Iter *var, const char *from, const char *to,
		    const char *step);
void ll_close_loop(LlKernel *k, const LlLoop *l);
/* BODY(ARG, AT) at each AT of FROM, FROM + STRIDE ... before TO. UNROLLED: LL_UNROLL in one round, as long as there are so many,
 * such that loads of all are under way at once. VAR is the loop's; BODY binds it to AT. */
enum { LL_UNROLL = 4 };
void ll_strided(LlKernel *k, const Iter *var, const char *from, const char *to, long long stride,
		bool unrolled, void (*body)(void *arg, const char *at), void *arg);
/* The bounds of N. */
void ll_ends(LlKernel *k, const LNode *n, const char **lo, const char **hi);

/* ---- Shared tiles ---- */

/* Whether B is a shared tile, whose pieces of 16 bytes move. */
bool ll_is_tile(const Buf *b);
/* How: 2^ROW elements are a row, 2^PIECE a piece, and piece c of row r is at c ^ (r >> SHIFT & MASK) << UP. */
typedef struct LlMove {
	int row, piece, shift, mask, up;
} LlMove;
LlMove ll_move(const Buf *b);
/* Of N, a power of two. */
int ll_log2(int64_t n);
/* AT, a pointer into the first slot of tile B, in the slot that is meant. */
const char *ll_in_slot(LlKernel *k, const Buf *b, const char *at);
/* The store that ends FILL's body. */
const LNode *ll_fill_store(const LNode *fill);
/* A chunk of a fill, at what its iterators are bound to: its codes as one value of ll_chunk_type, their store, and, where
 * it is asynchronous, its copy; zeros where COND, not null, is false. */
const char *ll_chunk_type(LlKernel *k, const LNode *fill);
const char *ll_chunk_load(LlKernel *k, const LNode *fill);
void ll_chunk_store(LlKernel *k, const LNode *fill, const char *all);
void ll_chunk_copy(LlKernel *k, const LNode *fill, const char *cond);

/* Fills by all threads of the block, one after the other or ahead of what reads them (tile.c). */
void ll_fill(LlKernel *k, const LNode *n);
void ll_pipeline(LlKernel *k, const LNode *n);
/* Products of tiles, and their way to shared memory (mma.c). */
void ll_mma(LlKernel *k, const LNode *n);
void ll_copy_sums(LlKernel *k, const LNode *n);

#endif
