/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel in the making: its parameters, memory, and the printing of nodes (gen_nvptx.c, gen_nvptx_mem.c). */
#ifndef CODEGEN_GEN_NVPTX_KERNEL_H
#define CODEGEN_GEN_NVPTX_KERNEL_H

#include "codegen/gen_nvptx_impl.h"

#define KERNEL_NAME "$kernel$"

/* Where a buffer of a kernel is. */
typedef struct LlBuf {
	const Buf *buf;
	const char *name;  /* "%in.x", "@NAME.shared0" ... */
	int space;         /* LLVM's address space: 0 the thread's own, 1 global, 3 shared */
	int64_t team;      /* shared: elements that each team has */
	bool packed;       /* elements of less than a byte share bytes, as in memory outside */
} LlBuf;

typedef struct LlIter {
	const Iter *it;
	const char *value;
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
	int nshared, nslots;
	bool scratch;    /* the block's scratch is declared */
	int in_team; /* inside LOOP_TEAM: each thread has points of its own */
	bool partial[2][CT_COUNT]; /* declared: see ll_partial */
	bool faults;
} LlKernel;

LlKernel *ll_kernel_new(GenPtx *g, const Schedule *s, const Stage *st);
void ll_nodes(LlKernel *k, const LNode *n);
void ll_barrier(LlKernel *k);
/* Opens a block for where COND holds; what it gives, ll_close_if wants (null: nothing was opened). */
const char *ll_open_if(LlKernel *k, const char *cond);
void ll_close_if(LlKernel *k, const char *after);
/* Whether the text so far calls library function NAME. */
bool ll_calls(const LlFn *f, const char *name);

/* VALUE is what IT is from here on. */
void ll_bind(LlKernel *k, const Iter *it, const char *value);
const char *ll_dim(void *k, Dim *d);
const char *ll_buf_name(LlKernel *k, const Buf *b);

/* A stack slot of TYPE (N elements; 0: one). */
const char *ll_slot(LlKernel *k, const char *type, int64_t n);
/* Makes room for a local buffer: registers, the thread's memory, or the team's; AT that byte of the scratch, where not
 * null. Sums begin as 0. */
void ll_declare(LlKernel *k, Buf *b, const Expr *at);
/* Bytes of shared memory that the launch has to give. */
int ll_dynamic_shared(const LlKernel *k);
/* A pointer to element I of the thread's own ARRAY. */
const char *ll_element(LlKernel *k, const char *array, DType t, int64_t i);
bool ll_in_register(LlKernel *k, const Buf *b);
const char *ll_load(LlKernel *k, const Buf *b, const char *idx);
void ll_store(LlKernel *k, Buf *b, const char *idx, const char *val);
/* As ll_store, for N codes VAL of neighbours, aligned as one. */
void ll_store_run(LlKernel *k, const Buf *b, const char *idx, const char *const *val, int n);
/* Shared words, one a warp, for component C of a state of type T: stores VAL at AT, or (null) loads from there. */
const char *ll_partial(LlKernel *k, int c, CType t, const char *at, const char *val);
/* A loop over the elements of one access (LNode.pack). False where it is a loop as any other. */
bool ll_pack(LlKernel *k, const LNode *n);

/* How the pieces of 16 bytes of a tile (SPREAD_ROWS) move: 2^ROW elements are a row, 2^PIECE a piece, and piece c of row r
 * is at c ^ (r >> SHIFT & MASK). */
typedef struct LlMove {
	int row, piece, shift, mask;
} LlMove;
LlMove ll_move(const Buf *b);
/* A chunk of a fill, at what its iterators are bound to: its codes as one vector of ll_chunk_type, their store, and, where
 * it is asynchronous, its copy; zeros where COND, not null, is false. */
const char *ll_chunk_type(LlKernel *k, const LNode *fill);
const char *ll_chunk_load(LlKernel *k, const LNode *fill);
void ll_chunk_store(LlKernel *k, const LNode *fill, const char *all);
void ll_chunk_copy(LlKernel *k, const LNode *fill, const char *cond);

/* Fills by all threads of the block, one after the other or ahead of what reads them (gen_nvptx_tile.c). */
void ll_fill(LlKernel *k, const LNode *n);
void ll_ring(LlKernel *k, const LNode *n);
/* Products of tiles, and their way to shared memory (gen_nvptx_mma.c). */
void ll_mma(LlKernel *k, const LNode *n);
void ll_drain(LlKernel *k, const LNode *n);

#endif
