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
/* Makes room for a local buffer: a register, the thread's memory, or the team's. */
void ll_declare(LlKernel *k, Buf *b);
bool ll_in_register(LlKernel *k, const Buf *b);
const char *ll_load(LlKernel *k, const Buf *b, const char *idx);
void ll_store(LlKernel *k, Buf *b, const char *idx, const char *val);
/* Shared words, one a warp, for component C of a state of type T: stores VAL at AT, or (null) loads from there. */
const char *ll_partial(LlKernel *k, int c, CType t, const char *at, const char *val);
/* A loop over the elements of one access (LNode.pack). False where it is a loop as any other. */
bool ll_pack(LlKernel *k, const LNode *n);

#endif
