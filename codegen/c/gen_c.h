/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gen_c: prints scheduled kernels as C. A stage becomes one function of the type dl_kernel_fn;
 * stages whose texts differ at most by names of variables are printed once. The C is GNU C (vector
 * extensions), clean under -Wall -Wextra with gcc and clang, and means the same under
 * -ffp-contract=off -fwrapv at any optimisation level.
 */
#ifndef CODEGEN_C_GEN_C_H
#define CODEGEN_C_GEN_C_H

#include "base/str.h"
#include "ir/expr/expr_c.h"
#include "ir/loop/loop.h"
#include "passes/module.h"

/* One printed function and the information for its call. */
typedef struct CFunc {
	const char *name;   /* with the prefix of the model and target (codegen_name) */
	const char *text;   /* body, without the name */
	const char *key;    /* the text with numbers in place of names */
	uint64_t hash;      /* of the key */
	bool faults;        /* it may report an index out of range at dim[ndim] */
	int file;           /* number of the C file that holds it */
	int tile;           /* the last of GenC.tiles that it calls; -1: none */
	const Locs *locs;   /* every ONNX node it serves */
} CFunc;

/* A stage's call: buffers and sizes in the order in which the function expects them. The call
 * computes sizes such as quotients of symbols, so that kernels of images of several sizes share one
 * function. */
typedef struct CStage {
	CFunc *fn;
	Buf **buf;
	int nbuf;
	Dim **dim;
	int ndim;
} CStage;

typedef struct CDone {
	const Stage *stage;
	CStage c;
} CDone;

enum { MOST_TRANSPOSED = 8 }; /* bytes of an element that c_transpose transposes */

/* The bytes that c_quantise stores; i8 as u8: plus 128. */
typedef enum QuantisedKind {
	QUANTISED_U8,
	QUANTISED_I8,
	QUANTISED_I8_AS_U8,
	QUANTISED_COUNT
} QuantisedKind;

/* A reduction's lanes: a function combines their partial states. */
typedef struct Lanes {
	Monoid red;
	CType ct;
	int lanes;
} Lanes;

typedef struct GenC {
	Arena *arena;
	const Target *target;
	const char *prefix; /* prefix of function names: model and target */
	VEC(CFunc *) funcs;
	FuncUses used_funcs;
	VEC(const char *) tiles; /* keys of the micro-kernels in use */
	int last_tile;           /* the one that the current function called last; -1: none */
	VEC(Tile) tile;
	bool trims[CT_COUNT]; /* types of the weights that c_tile_trim searches */
	bool squares;         /* a tile calls c_tile_squares */
	/* sizes of the elements that c_transpose transposes */
	bool transposes[MOST_TRANSPOSED + 1];
	bool quantises[QUANTISED_COUNT][2]; /* by c_quantise: kinds of whole and of other numbers */
	VEC(Lanes) lanes;
	ExprPool *pool;     /* for the bodies of functions */
	VEC(CDone) done;    /* stages that have been printed */
} GenC;

GenC *gen_c_new(Ctx *c, Arena *a, const Target *t, const char *prefix);
/* Prints the function of stage ST, or finds an equal one, and returns how to call it. */
CStage gen_c_stage(GenC *g, const Schedule *s, const Stage *st);
/* gen_c_split divides the functions into NFILES parts of similar size, which compile in parallel.
 * gen_c_file prints part FILE; STATICS: its functions are static. */
void gen_c_split(GenC *g, int nfiles);
void gen_c_file(GenC *g, StrBuf *b, int file, bool statics);
/* Whether a function of part FILE calls NAME; FILE -1 stands for all parts. */
bool gen_c_calls(const GenC *g, const char *name, int file);
/* Prints everything before the functions of part FILE, or of all: scalar functions,
 * micro-kernels. */
void gen_c_prelude(GenC *g, StrBuf *b, int file);

#endif
