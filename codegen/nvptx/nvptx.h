/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gen_nvptx: emits scheduled kernels as LLVM IR, and compiles these to PTX by LLVM's NVPTX back
 * end. A stage becomes one PTX entry; stages with the same text share it. The IR is emitted as
 * text, with the scalar functions of ir/expr/scalar.ll. LLVM is only used by gen_nvptx_compile, in
 * child processes, with one module for each kernel.
 *
 * The parameters of an entry have 8 bytes each: the buffers (device addresses), the sizes, and, if
 * it may report an index out of range, the status word and the value to store there. All threads of
 * a block run. Thread t of block b has point p = b * (threads / group) + t / group of the stage's
 * loop, if p < extent.
 *
 * Numbers are computed as docs/numerics.md says: no flush to zero, no fused operation except mad,
 * and division and roots rounded to nearest.
 */
#ifndef CODEGEN_NVPTX_NVPTX_H
#define CODEGEN_NVPTX_NVPTX_H

#include "base/str.h"
#include "ir/loop/loop.h"
#include "passes/module.h"

/* A PTX entry. */
typedef struct PtxFunc {
	const char *name; /* with the prefix of the model (codegen_name) */
	const char *text; /* its module in LLVM IR, with KERNEL_NAME in place of the name */
	const char *ir;   /* its module in LLVM IR */
	const char *ptx;  /* its part of the PTX module, after gen_nvptx_compile */
	uint64_t hash;
	bool faults;  /* parameters: the status word, and the site */
	bool arrives; /* likewise: the counters of LOOP_LAST */
	int threads, group;
	/* registers for the operands of the longest run of terms that is unrolled: ptxas may
	 * load all of them at once */
	int ahead;
	/* registers for the operands of the further terms of an unrolled loop: ptxas loads ahead
	 * as many as fit in registers */
	int hoisted;
	int words;     /* parameters, in words of 8 bytes */
	int shared;    /* bytes of dynamic shared memory of a block */
	int64_t declared; /* of static shared memory */
	int most;         /* the most shared memory, of both kinds, that a block may have */
	const Locs *locs; /* every ONNX node it serves */
} PtxFunc;

/* How to call a stage: buffers and sizes in the order of the parameters. */
typedef struct PtxStage {
	PtxFunc *fn;
	Buf **buf;
	int nbuf;
	Dim **dim;
	int ndim;
} PtxStage;

typedef struct PtxDone {
	const Stage *stage;
	PtxStage s;
} PtxDone;

typedef struct GenPtx {
	Arena *arena;
	Ctx *ctx;
	const Target *target;
	const char *prefix;
	ExprPool *pool; /* for the bodies of functions */
	struct LlLib *lib;
	VEC(PtxFunc *) funcs;
	const void *cubin; /* the whole module compiled by ptxas when packaging; or null */
	size_t cubin_bytes;
	VEC(PtxDone) done;
} GenPtx;

/* ---- stage.c ---- */

GenPtx *gen_nvptx_new(Ctx *c, Arena *a, const Target *t, const char *prefix);
/* Emits the entry of the launch that begins with stage AT of S, or finds an equal one, and returns
 * how to call it. */
PtxStage gen_nvptx_stage(GenPtx *g, const Schedule *s, int at);
/* Prints entries FROM to END - 1 as one PTX module (after gen_nvptx_compile). */
void gen_nvptx_ptx(GenPtx *g, int from, int end, StrBuf *b);
/* Prints all entries as LLVM IR. */
void gen_nvptx_ir(GenPtx *g, StrBuf *b);

/* ---- llvm.c ---- */

/* Why no code for GPUs can be made, as the predicate of a message: this dlcc was built without
 * LLVM, or LLVM's library, which is opened at run time, is not on this machine. Null: it can. */
const char *gen_nvptx_lacks(void);
/* LLVM's version; null without LLVM. */
const char *gen_nvptx_llvm(void);
/* Null if LLVM supports GPU. Otherwise the newest processor that LLVM supports, for which GPU's
 * code is generated. */
const char *gen_nvptx_processor(const Gpu *gpu);
/* Compiles every entry to PTX, with JOBS processes. False after a diagnostic that names the
 * kernel. */
bool gen_nvptx_compile(GenPtx *g, int jobs, Diag *d);

#endif
