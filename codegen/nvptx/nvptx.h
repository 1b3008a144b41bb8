/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gen_nvptx: scheduled kernels as LLVM IR, and LLVM's NVPTX back end over that. A stage becomes one PTX entry; stages
 * of the same text share it. The IR is text, built here, from the meanings in ir/scalar.ll; LLVM itself stands
 * behind gen_nvptx_compile alone, in child processes, a kernel a module.
 *
 * An entry's parameters are 8 bytes each: the buffers (device addresses), the sizes, and, where it may report an
 * index out of range, the status word and what to store there. All threads of a block run; block b has the points
 * p = b * (threads / group) + thread / group of the stage's loop, p < extent.
 *
 * The numbers are those of the tables in docs/numerics.md: no flush to zero, no fused operation but mad, division
 * and roots rounded to nearest.
 */
#ifndef CODEGEN_NVPTX_NVPTX_H
#define CODEGEN_NVPTX_NVPTX_H

#include "base/str.h"
#include "ir/loop.h"
#include "passes/module.h"

/* One entry. */
typedef struct PtxFunc {
	const char *name; /* with the prefix of the model (codegen_name) */
	const char *text; /* its module in LLVM IR, with KERNEL_NAME in place of the name */
	const char *ir;   /* its module in LLVM IR */
	const char *ptx;  /* its part of the PTX module, after gen_nvptx_compile */
	uint64_t hash;
	bool faults;
	int threads, group;
	/* registers for the operands of its longest unrolled row of terms: ptxas may load all of
	 * them at once */
	int ahead;
	int words;     /* parameters, in words of 8 bytes */
	int shared;    /* bytes of dynamic shared memory of a block */
	VEC(Loc) locs; /* every ONNX node it serves */
} PtxFunc;

/* A stage's call: buffers and sizes in the order of the parameters. */
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
/* Emits the entry of stage ST, or finds an equal one, and returns how to call it. */
PtxStage gen_nvptx_stage(GenPtx *g, const Schedule *s, const Stage *st);
/* All entries as one PTX module (after gen_nvptx_compile), and as LLVM IR. */
void gen_nvptx_ptx(GenPtx *g, StrBuf *b);
void gen_nvptx_ir(GenPtx *g, StrBuf *b);

/* ---- llvm.c ---- */

/* Whether this build of dlcc has LLVM. */
bool gen_nvptx_available(void);
/* LLVM's version; null without LLVM. */
const char *gen_nvptx_llvm(void);
/* Null if LLVM supports GPU. Otherwise the newest processor that LLVM supports, for which GPU's
 * code is generated. */
const char *gen_nvptx_processor(const Gpu *gpu);
/* Compiles every entry to PTX, with JOBS processes. False after a diagnostic that names the
 * kernel. */
bool gen_nvptx_compile(GenPtx *g, int jobs, Diag *d);

#endif
