/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kernel while it is emitted: its parameters and memory, and the emission of the nodes of its
 * loop tree (stage.c, mem.c).
 */
#ifndef CODEGEN_NVPTX_KERNEL_H
#define CODEGEN_NVPTX_KERNEL_H

#include "codegen/nvptx/nvptx_impl.h"

#define KERNEL_NAME "$kernel$"

/* The storage of a buffer of a kernel. */
typedef struct LlBuf {
	const Buf *buf;
	const char *name;   /* "%in.x", "@NAME.shared0" ... */
	int space;          /* LLVM's address space: 0 local, 1 global, 3 shared */
	int64_t group;      /* shared: elements of each group */
	int64_t at, end;    /* in the block's scratch: byte offsets from NAME; END 0: elsewhere */
	bool packed;        /* elements of less than a byte are packed, as in global memory */
	const LLocal *local; /* the declaration, if threads keep elements; else null */
	/* name of the block's scratch, if further elements are held there; else null */
	const char *rest;
	/* name of the bulk copy in shared memory, and the index of its first element; else null */
	const char *copied, *first;
} LlBuf;

typedef struct LlIter {
	const Iter *it;
	const char *value;
	const Expr *is; /* of a LET: its expression; else null */
	int depth;      /* loops that were open, and the distribution of points over threads */
} LlIter;

/* How threads access memory, for the placement of barriers (barriers.c). */
typedef struct MemAccess {
	const void *memory; /* identifies a buffer; the kernel: the block's scratch */
	int64_t from, to;   /* bytes of it; 0 and 1 if buffers do not overlap there */
	bool write;
	/* null: any thread may access any element. Else threads access disjoint elements of this
	 * buffer, and each thread the same ones in all such accesses by as many THREADS. */
	const Buf *own;
	int threads;
} MemAccess;

typedef enum SyncKind {
	SYNC_NONE,
	SYNC_ACCESS,
	SYNC_BARRIER,  /* a place for a barrier */
	SYNC_LOOP,     /* begin and end of a loop, and of a condition */
	SYNC_LOOP_END,
	SYNC_IF,
	SYNC_IF_END
} SyncKind;

/* Events that matter to barriers, in the order of the code. */
typedef struct SyncEvent {
	SyncKind kind;
	int index;        /* ACCESS: in LlKernel.accesses; begins and ends: the event of the other */
	size_t at;        /* BARRIER: offset in the code */
	const char *mask; /* BARRIER: the lanes of the warp; null: all threads of the block */
} SyncEvent;

/* Whose operations on tiles are being emitted. */
typedef enum LlRole { ROLE_ALL, ROLE_PRODUCERS, ROLE_OTHERS } LlRole;

typedef struct LlKernel {
	LlFn f;
	LlRole role;
	const Schedule *sched;
	const Stage *stage;
	VEC(Buf *) bufs; /* buffer parameters, in order of first use */
	VEC(Dim *) dims;
	VEC(LlBuf) places;
	VEC(LlIter) iters;
	StrBuf globals;
	int64_t shared; /* bytes of static shared memory */
	int nshared, nslots;
	bool scratch; /* the block's scratch has been declared */
	/* threads of the group that runs the current nodes, and this thread's number in it */
	int group;
	const char *lane;
	const char *mask; /* mask of the warp's lanes that run the body */
	int loops;        /* that are open */
	int in_group;     /* inside LOOP_GROUP: threads have disjoint points */
	int kept;         /* index of the current element that a thread holds; -1: none */
	/* i64: index in scratch of the current access's elements, which kept then counts from;
	 * null: they are in registers */
	const char *in_scratch;
	int ahead, hoisted; /* as in PtxFunc */
	bool faults, arrives; /* as in PtxFunc */
	/* values that differ between all threads of a group: indices of points that are distributed
	 * one by one from 0 onwards */
	VEC(const char *) own;
	VEC(MemAccess) accesses;
	VEC(SyncEvent) events;
	VEC(int) open;  /* events that open a region which is not closed yet */
	int conditions; /* open conditions that differ between the threads of a group */
} LlKernel;

/* ---- iters.c ---- */

/* Binds IT to VALUE for the code that follows; ll_let binds it to the value of an expression. */
void ll_bind(LlKernel *k, const Iter *it, const char *value);
void ll_let(LlKernel *k, const Iter *it, Expr *is);
/* If index IDX, whose value is VALUE, differs between all threads of the group, adds VALUE to
 * LlKernel.own. */
void ll_note_own(LlKernel *k, Expr *idx, const char *value);
/* VALUE is one of LlKernel.own. */
bool ll_is_own(const LlKernel *k, const char *value);
/* Callbacks of LlFn: the value of IT in kernel K, the loops around it, and whether division E fits
 * 32 bits. */
const char *ll_iter(void *k, const Iter *it);
int ll_depth(void *k, const Iter *it);
bool ll_is_short(void *k, const Expr *e);
/* The value of D in kernel K: a constant, or a parameter, which is added if needed. */
const char *ll_dim(void *k, Dim *d);

/* ---- mem.c ---- */

/* The name of the memory of B. If nothing declared B, it becomes a parameter or a table of
 * constants. */
const char *ll_buf_name(LlKernel *k, const Buf *b);

/* Declares a stack slot of TYPE (N elements; 0: one). */
const char *ll_slot(LlKernel *k, const char *type, int64_t n);
/* Declares a local buffer: in registers, local or shared memory, as LOCAL says, unless null. Sums
 * of products are set to 0. */
void ll_declare(LlKernel *k, Buf *b, const LLocal *local);
/* LLVM's address space of B (LlBuf). */
int ll_space(LlKernel *k, const Buf *b);
/* The declaration of B if threads keep its elements; else null. */
const LLocal *ll_local(LlKernel *k, const Buf *b);
/* A pointer to the N elements of B from IDX onwards, which threads store to (WRITE) or load; *TYPE:
 * its type. */
const char *ll_pointer(LlKernel *k, const Buf *b, const char *idx, int n, bool write,
		       const char **type);
/* Records accesses to any elements of B. */
void ll_access_buf(LlKernel *k, const Buf *b, bool write);
/* Converts CODE, a stored element of type T, to the scalar that is computed with; and back. */
const char *ll_decoded(LlKernel *k, DType t, const char *code);
const char *ll_encoded(LlKernel *k, DType t, const char *val);
/* Declares NAME, N elements of T in shared memory. Schedules ensure that there is room. */
void ll_shared(LlKernel *k, const char *name, int64_t n, DType t);
/* Bytes of dynamic shared memory of the launch. */
int ll_dynamic_shared(const LlKernel *k);
/* Bytes of its static declarations. */
int64_t ll_static_shared(const LlKernel *k);
/* Declares shared memory for N elements of B from FIRST onwards, which all later accesses use.
 * Returns its name, as ll_bulk_name does; ll_buf_name still returns the name of B. */
const char *ll_declare_bulk(LlKernel *k, const Buf *b, int64_t n, const char *first);
const char *ll_bulk_name(LlKernel *k, const Buf *b);
/* A pointer to the first byte of tile B in shared memory. */
const char *ll_tile_memory(LlKernel *k, const Buf *b);
/* A pointer to element I of the local ARRAY. */
const char *ll_element(LlKernel *k, const char *array, DType t, int64_t i);
/* B is local to each thread. */
bool ll_in_register(LlKernel *k, const Buf *b);
/* Loads element IDX of B as a scalar; ll_store stores VAL to it. Loads are named for reuse
 * (ll_forget). */
const char *ll_load(LlKernel *k, const Buf *b, const char *idx);
void ll_store(LlKernel *k, Buf *b, const char *idx, const char *val);
/* Stores the N stored forms VAL to contiguous elements, aligned as one vectorised access. */
void ll_store_run(LlKernel *k, const Buf *b, const char *idx, const char *const *val, int n);
/* A kernel for stage ST of S, without any code yet. */
LlKernel *ll_kernel_new(GenPtx *g, const Schedule *s, const Stage *st);
/* The code so far calls library function NAME. */
bool ll_calls(const LlFn *f, const char *name);
/* log2 of N, a power of two. */
int ll_log2(int64_t n);

/* ---- vector.c ---- */

typedef struct LlWide {
	Expr *load;
	const char *vector; /* its stored elements */
} LlWide;

/* VECTOR points of VAR, and those of their loads that are one access each. */
typedef struct LlVector {
	LlKernel *k;
	const Iter *var;
	int vector, kept; /* LlKernel.kept at the first point */
	VEC(LlWide) wide;
} LlVector;

/* The elements of B at IDX, for VAR from a multiple of VECTOR on, are one aligned access. */
bool ll_one_access(const LlVector *p, const Buf *b, Expr *idx);
/* Collects the loads of E that every point executes, without those in an arm of a select, so that
 * they can be fetched as vectors. */
void ll_vector_find(LlVector *p, Expr *e);
/* ll_vector_fetch fetches them for VAR from LO onwards. ll_vector_element then binds VAR to LO + V,
 * and their names to its elements, until names are dropped. */
void ll_vector_fetch(LlVector *p, const char *lo);
void ll_vector_element(LlVector *p, const char *lo, int v);
/* Emits store ST, whose loads were collected, for all points. */
void ll_vector_store(LlVector *p, const LNode *st, const char *lo);
/* Emits a loop over the elements of one access (LShare.vector). False if N is to be emitted as any
 * other loop. */
bool ll_vector(LlKernel *k, const LNode *n);
/* Elements that a thread copies at once: STORE, whose index is flat, for ELEM from 0 to VECTOR -
 * 1. */
typedef struct LlPiece {
	LNode store;
	const Iter *elem;
	int vector;
} LlPiece;

/* ll_piece_load loads a piece as one value of ll_piece_type, ll_piece_store stores that.
 * ll_piece_copy copies it asynchronously, or zeros where COND, unless null, is false. */
const char *ll_piece_type(LlKernel *k, const LlPiece *c);
const char *ll_piece_load(LlKernel *k, const LlPiece *c);
void ll_piece_store(LlKernel *k, const LlPiece *c, const char *all);
void ll_piece_copy(LlKernel *k, const LlPiece *c, const char *cond);

/* ---- group.c ---- */

/* Emits a LOOP_GROUP loop whose points are distributed as vectors, or of which threads hold
 * elements. */
void ll_share(LlKernel *k, const LNode *n);
/* Emits LN_REDUCE: by one thread if it computes the reduction by itself, else by its group; then
 * each thread of the group has the state. */
void ll_reduce(LlKernel *k, const LNode *n);
/* Declares a state of the thread, component COMP of monoid RED, which begins with the identity; N
 * states of type T in shared memory. */
Buf *ll_state(LlKernel *k, Monoid red, int comp, CType t);
Buf *ll_shared_states(LlKernel *k, CType t, int64_t n);
/* Combines the states PART of N over the lanes whose numbers differ in the bits from LEAST up to
 * LANES. */
void ll_over_lanes(LlKernel *k, const LNode *n, Buf *const *part, const CType *ct, int least,
		   int lanes);
/* VALUE of the lane whose number differs by xor with OFF. */
const char *ll_shuffled(LlKernel *k, const char *value, CType t, int off);

/* ---- bulk.c ---- */

/* ll_bulk_in declares the stage's bulk copies and fetches the inputs; ll_bulk_out stores the
 * outputs. All threads of the block take part. */
void ll_bulk_in(LlKernel *k);
void ll_bulk_out(LlKernel *k);

/* ---- barriers.c ---- */

/* Records an access, by code that follows at once. */
void ll_access(LlKernel *k, MemAccess a);
/* A point for a barrier of the threads that share an iteration; nothing if each has separate
 * iterations. Either all of them reach it, or none. */
void ll_barrier(LlKernel *k);
/* Begins a loop (SYNC_LOOP) or a condition (SYNC_IF); ends the last one that is open. */
void ll_sync_open(LlKernel *k, SyncKind kind);
void ll_sync_close(LlKernel *k);
/* The code of K's body, with the barriers that it needs. */
const char *ll_with_barriers(LlKernel *k);

/* ---- atomic.c ---- */

/* LN_ATOMIC. */
void ll_atomic(LlKernel *k, const LNode *n);

/* ---- stage.c ---- */

/* Threads have disjoint points here. */
bool ll_alone(const LlKernel *k);
/* STATE[IDX] = combine(STATE[IDX], VAL), for all components together; VAL is computed before. STEP:
 * VAL is a term. */
void ll_combine(LlKernel *k, Monoid red, Buf *const *state, const char *idx, const char *const *val,
		const CType *ct, int n, bool step);
/* The combination of states X and Y, of type T, of a monoid with one component. */
const char *ll_combined(LlKernel *k, Monoid red, CType t, const char *x, const char *y);
/* ll_step adds a term of N to STATE; in a sum of products it is a multiply-add, as in the C code.
 * ll_update does so where N's guard holds. */
void ll_step(LlKernel *k, const LNode *n, Buf *const *state, Expr *at);
void ll_update(LlKernel *k, const LNode *n, Buf *const *state, Expr *at);

typedef struct LlLoop {
	const char *slot, *var, *step, *head, *end;
	bool once; /* neither LLVM nor ptxas may unroll it */
} LlLoop;

/* Metadata of the backward branch of a loop that must not be unrolled; put_metadata (stage.c)
 * defines it. */
#define LL_LOOP_ONCE ", !llvm.loop !1"

/* Emits N and its siblings. */
void ll_nodes(LlKernel *k, const LNode *n);
/* Opens a block that runs where COND holds. Pass the result to ll_close_if (null: nothing was
 * opened). */
const char *ll_open_if(LlKernel *k, const char *cond);
/* As ll_open_if, where LO <= AT < HI; LO null: AT < HI. */
const char *ll_open_if_in(LlKernel *k, const char *at, const char *lo, const char *hi);
void ll_close_if(LlKernel *k, const char *after);

/* ---- loop.c ---- */

/* Emits a loop with its body (codegen/nvptx/loop.c). */
void ll_loop(LlKernel *k, const LNode *n);
/* for (VAR = FROM; VAR < TO; VAR += STEP), where the bounds are texts of values. */
LlLoop ll_open_loop(LlKernel *k, const Iter *var, const char *from, const char *to,
		    const char *step);
void ll_close_loop(LlKernel *k, const LlLoop *l);
enum { LL_UNROLL = 4 };
/* Calls BODY(ARG, AT) for each AT = FROM, FROM + STRIDE ... before TO. UNROLLED: LL_UNROLL of them
 * in one iteration, while as many are left, so that their loads are in flight together. BODY binds
 * VAR, the loop's iterator, to AT. */
void ll_strided(LlKernel *k, const Iter *var, const char *from, const char *to, long long stride,
		bool unrolled, void (*body)(void *arg, const char *at), void *arg);
/* Evaluates the bounds of loop N. */
void ll_ends(LlKernel *k, const LNode *n, const char **lo, const char **hi);

/* ---- column_reduce.c ---- */

/* LN_COLUMNS (column_reduce.c). */
void ll_columns(LlKernel *k, const LNode *n);

/* ---- tile_ops.c ---- */

/* Operation N on tiles (tile_ops.c). */
void ll_tile_op(LlKernel *k, const TileNode *n);
/* BODY, of a stage with producers: those carry out their operations, and the other threads
 * theirs. */
void ll_tile_roles(LlKernel *k, const LNode *body);

/* ---- tile_dot.c ---- */

/* A product of tiles (tile_dot.c). */
void ll_tile_dot(LlKernel *k, const TileNode *n);
/* N, a fold by an instruction. */
void ll_tile_sums(LlKernel *k, const TileNode *n);

#endif
