/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel IR. A kernel is a list of statements over iteration domains; scheduling puts the same
 * statements under a loop tree (ir/loop.h). The statement form is the meaning, and eval runs it.
 *
 *     kernel @conv_relu(%x: f32[N,64,56,56], %w: f32[64,64,3,3], %b: f32[64]) -> (%y: f32[N,64,56,56])
 *         from @"Conv_4", @"Relu_5" {
 *       acc: f32[N,64,56,56]
 *       acc[n,o,h,w] = sum mul(x[n,c,h+r-1,w+s-1], w[o,c,r,s])
 *                      for n < N, o < 64, h < 56, w < 56 over c < 64, r < 3, s < 3
 *                      where inside(h+r-1, 56) & inside(w+s-1, 56)
 *       y[n,o,h,w] = max(add(acc[n,o,h,w], b[o]), 0)    for n < N, ...
 *     }
 *
 * Invariants (kernel_verify): statements run in order; a map's write is injective unless `ordered`;
 * a buffer is written by one statement, or by several maps with disjoint writes (Concat), and then by
 * updates; every read of a temporary follows its write; index expressions stay inside the buffer wherever
 * the guard holds (or go through `index`, which faults).
 */
#ifndef IR_KERNEL_H
#define IR_KERNEL_H

#include "base/vec.h"
#include "ir/expr.h"
#include "ir/type.h"

typedef enum Monoid {
	MONOID_NONE,
#define MONOID(name, n, identity, combine, atomic) MONOID_##name,
#include "ir/monoids.def"
#undef MONOID
	MONOID_COUNT
} Monoid;

typedef struct MonoidInfo {
	const char *name;
	int n; /* components of the state */
	const char *identity, *combine;
	const char *
		atomic; /* updates of one element in any order: memory's own operation, "cas", or "": not so */
} MonoidInfo;

extern const MonoidInfo monoid_info[MONOID_COUNT];
/* Component K's identity in type T. */
Expr *monoid_identity(ExprPool *p, Monoid m, int k, CType t);
/* Component K of combining state A with term B. */
Expr *monoid_combine(ExprPool *p, Monoid m, int k, Expr *const *a, Expr *const *b);

/* How a local of a team lies on a GPU. Pieces of 16 bytes move such that lanes that walk down a column meet different
 * banks; registers have no order at all. */
typedef enum Swizzle {
	SWIZZLE_NONE,
	SWIZZLE_ROWS, /* piece c of row r at c ^ r; narrow rows: at c ^ r / 2 or c ^ r / 4. Dims: slots, rows, columns */
	SWIZZLE_WORDS, /* the same, at c ^ 2 r (c ^ r / 2 * 2): lanes walk down four rows of two pieces, word by word */
	SWIZZLE_FRAGMENTS, /* as it is: in the order of fragments, 16 bytes a lane */
	SWIZZLE_REGISTERS  /* in registers: ir/loop.h, Mma */
} Swizzle;

typedef enum BufKind { BUF_IN, BUF_OUT, BUF_TEMP } BufKind;

struct Buf {
	const char *name;
	int id; /* dense in the kernel */
	BufKind kind;
	DType dtype;
	int rank;
	Dim **dims;
	const Layout *layout; /* physical order; statements index logically */
	const void *data; /* a small constant carried by the kernel itself (row-major), or null */
	Swizzle swizzle;
	int param; /* BUF_IN, BUF_OUT: which operand or result of the kernel node */
};

/* An iterator: 0 <= it < extent. */
struct Iter {
	const char *name;
	int id; /* dense in the kernel */
	Dim *extent;
};

/* Where a statement came from, for messages, dumps and profiles. */
typedef struct Loc {
	const char *node, *op;
} Loc;

/*
 * One statement. A map: out[k][widx] = val[k] for every point of ITERS (all of them parallel unless
 * `ordered`). A reduction: for every point of the first NBAND iterators the state starts from the
 * monoid's identity (or, with `update`, from what the buffer holds) and combines the terms of the
 * remaining iterators whose guard holds; out[k] has the state's component k, stored once in the end.
 * A prefix (`scan`): as a reduction with one remaining iterator (the last), and the state is stored
 * at every step; the write index mentions that iterator.
 * An update with NBAND == niters and a write that need not be injective is a scatter with a monoid.
 */
typedef struct Stmt {
	int id;
	Iter *iter[MAX_ITERS];
	int niters, nband; /* a map has nband == niters */
	Monoid red;        /* MONOID_NONE: a map */
	bool update, scan;
	bool ordered; /* points run in lexicographic order: a scatter whose last write wins */
	int nout;
	Buf *out[2]; /* the state's components; components past nout are dropped */
	Expr **widx; /* one i64 a dim of out[0] (the same for every out), or one flat */
	int nwidx;
	Expr *val[2]; /* of the out's ctype (stores round to its dtype) */
	Expr *guard;  /* bool; null: true. A map whose guard fails writes nothing. */
	Loc loc;
} Stmt;

typedef struct Kernel {
	const char *name; /* a C identifier from the node's name */
	Ctx *ctx;
	Arena *arena;
	ExprPool *pool;
	VEC(Buf *) bufs;
	VEC(Iter *) iters;
	VEC(Stmt *) stmts;
	VEC(Loc) locs;
} Kernel;

Kernel *kernel_new(Ctx *c, Arena *a, const char *name);

/* ---- Building: what an op's `lower` calls ---- */

Buf *kernel_buf(Kernel *k, BufKind kind, const char *name, const Type *t);
Buf *kernel_temp(Kernel *k, const char *name, DType t, int rank, Dim *const *dims);
/* A constant carried by the kernel: N elements of T, row-major in DATA (copied). */
Buf *kernel_table(Kernel *k, const char *name, DType t, int64_t n, const void *data);
Iter *kernel_iter(Kernel *k, const char *name, Dim *extent);
/* Iterators over every dim of B, named i0, i1 ... */
void kernel_iters_of(Kernel *k, const Buf *b, Iter **out);
/* A map over ITERS: out[widx] = val. GUARD may be null. */
Stmt *kernel_map(Kernel *k, Iter *const *iters, int n, Buf *out, Expr *const *widx, Expr *val,
		 Expr *guard);
/* As kernel_map with the identity write: one iterator a dim of OUT. */
Stmt *kernel_map_id(Kernel *k, Iter *const *iters, Buf *out, Expr *val);
/* out[band...] = reduction of VAL over RED where GUARD: the write is the identity over BAND. */
Stmt *kernel_reduce(Kernel *k, Monoid m, Iter *const *band, int nband, Iter *const *red, int nred,
		    Buf *out, Expr *val, Expr *guard);
/* Whether IT is a phase of S: the lower digit, x*N + IT, of where S writes, of which S's guard speaks. Phases have terms
 * of their own (a ConvTranspose's taps): what one leaves out is no zero times another's. */
bool stmt_is_phase(Ctx *c, const Stmt *s, const Iter *it);
/* b[idx...] as an expression. */
Expr *kernel_load(Kernel *k, Buf *b, Expr *const *idx);
/* b[it...] with iterators. */
Expr *kernel_load_iters(Kernel *k, Buf *b, Iter *const *it);

/* ---- Text ---- */
void kernel_print(StrBuf *b, const Kernel *k);
/* As kernel_print, under names of its own and without where it came from: kernels of one text do the same. */
void kernel_print_bare(StrBuf *b, const Kernel *k);
/* Reads one kernel at *P, advancing it (and *LINE); null after a diagnostic. */
Kernel *kernel_parse(Ctx *c, Arena *a, const char **p, int *line);

/* Every fault is a diagnostic that says which pass left it (PASS). */
bool kernel_verify(Kernel *k, Diag *d, const char *pass);
/* Deep copies into arena A. */
Buf *buf_copy(Arena *a, const Buf *b);
Kernel *kernel_clone(Kernel *k, Arena *a);

#endif
