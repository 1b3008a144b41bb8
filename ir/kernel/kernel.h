/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel IR. A kernel is a list of statements over iteration domains; scheduling puts the same
 * statements under a loop tree (ir/loop/loop.h). The statements define the meaning of a kernel, and
 * the interpreter executes them.
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
 * Invariants (kernel_verify):
 *
 *   - Statements run in order. The write of a map is injective unless the map is `ordered`.
 *   - A buffer is written by one statement, or by several maps that write disjoint parts (Concat);
 *     updates may follow.
 *   - Every read of a temporary follows its write.
 *   - Indices stay inside the buffer wherever the guard holds, or go through `index`, which checks.
 */
#ifndef IR_KERNEL_KERNEL_H
#define IR_KERNEL_KERNEL_H

#include "base/vec.h"
#include "ir/expr/expr.h"
#include "ir/graph/locs.h"
#include "ir/graph/type.h"

typedef enum Monoid {
	MONOID_NONE,
#define MONOID(name, n, identity, combine, atomic) MONOID_##name,
#include "ir/kernel/monoids.def"
#undef MONOID
	MONOID_COUNT
} Monoid;

typedef struct MonoidInfo {
	const char *name;
	int n; /* components of the state */
	const char *identity, *combine;
	/* how updates of one element can be done in any order: the name of an atomic memory
	 * operation; "cas", a compare-and-swap loop; or "": impossible */
	const char *atomic;
} MonoidInfo;

extern const MonoidInfo monoid_info[MONOID_COUNT];
/* The identity of component K in type T. */
Expr *monoid_identity(ExprPool *p, Monoid m, int k, CType t);
/* Component K of the state A combined with the term B. */
Expr *monoid_combine(ExprPool *p, Monoid m, int k, Expr *const *a, Expr *const *b);

typedef enum BufKind { BUF_IN, BUF_OUT, BUF_TEMP } BufKind;

struct Buf {
	const char *name;
	int id; /* dense in the kernel */
	BufKind kind;
	DType dtype;
	int rank;
	Dim **dims;
	const Layout *layout; /* the order in memory; indices in statements are logical */
	/* the elements, row-major, of a small constant that is part of the kernel; or null */
	const void *data;
	/* a tile of a block on a GPU: where its elements lie, in registers or in shared memory
	 * (ir/loop/place.h); null: a buffer in memory or of a thread */
	const struct TileLayout *tile;
	int param; /* BUF_IN, BUF_OUT: which operand or result of the kernel node */
};

/* An iterator: 0 <= it < extent. */
struct Iter {
	const char *name;
	int id; /* dense in the kernel */
	Dim *extent;
};

/*
 * A statement.
 *
 *   - A map: out[k][widx] = val[k] for every point of ITERS.
 *     All points are parallel unless `ordered`.
 *   - A reduction: for every point of the first NBAND iterators the state starts from the monoid's
 *     identity (with `update`: from the buffer's element), and the terms of the remaining iterators
 *     are combined with it where the guard holds. Then out[k] gets the state's component k.
 *   - A prefix (`scan`) is a reduction over one iterator, the last, whose state is stored at every
 *     step; the write index mentions that iterator.
 *   - A scatter with a monoid is an update with NBAND == niters, whose write need not be injective.
 */
typedef struct Stmt {
	int id;
	Iter *iter[MAX_ITERS];
	int niters, nband; /* a map has nband == niters */
	Monoid red;        /* MONOID_NONE: a map */
	bool update, scan;
	/* points run in lexicographic order: in a scatter, the last write of an element wins */
	bool ordered;
	int nout;
	Buf *out[2]; /* the state's components; components past nout are dropped */
	Expr **widx; /* one i64 for each dim of out[0], the same for every out; or one flat index */
	int nwidx;
	Expr *val[2]; /* of the out's ctype; the store rounds to its dtype */
	Expr *guard;  /* bool; null: true. A map writes nothing where its guard fails. */
	Loc loc; /* the ONNX node that it comes from */
} Stmt;

typedef struct Kernel {
	const char *name; /* a C identifier from the node's name */
	Ctx *ctx;
	Arena *arena;
	ExprPool *pool;
	VEC(Buf *) bufs;
	VEC(Iter *) iters;
	VEC(Stmt *) stmts;
	const Locs *locs; /* ARENA may be freed before these, which nodes of the graph share */
} Kernel;

Kernel *kernel_new(Ctx *c, Arena *a, const char *name);

/* ---- Building: functions for the `lower` of operators ---- */

Buf *kernel_buf(Kernel *k, BufKind kind, const char *name, const Type *t);
Buf *kernel_temp(Kernel *k, const char *name, DType t, int rank, Dim *const *dims);
/* Adds a constant to the kernel: N elements of T, row-major, copied from DATA. */
Buf *kernel_table(Kernel *k, const char *name, DType t, int64_t n, const void *data);
Iter *kernel_iter(Kernel *k, const char *name, Dim *extent);
/* Makes an iterator for every dim of B, named i0, i1 ... */
void kernel_iters_of(Kernel *k, const Buf *b, Iter **out);
/* The extent of IT, if it is a constant; else 0. */
int64_t iter_count(const Iter *it);
/* Whether IT is one of the N iterators in LIST. */
bool iter_among(const Iter *it, Iter *const *list, int n);
/* Makes the ids of buffers, iterators and statements equal to their positions. Each function that
 * inserts or removes one calls it before it returns. */
void kernel_renumber(Kernel *k);
/* Adds a map over ITERS: out[widx] = val. GUARD may be null. */
Stmt *kernel_map(Kernel *k, Iter *const *iters, int n, Buf *out, Expr *const *widx, Expr *val,
		 Expr *guard);
/* kernel_map with the identity as write: one iterator for each dim of OUT. */
Stmt *kernel_map_id(Kernel *k, Iter *const *iters, Buf *out, Expr *val);
/* Adds out[band...] = reduction of VAL over RED where GUARD holds. The write is the identity
 * over BAND. */
Stmt *kernel_reduce(Kernel *k, Monoid m, Iter *const *band, int nband, Iter *const *red, int nred,
		    Buf *out, Expr *val, Expr *guard);
/* Whether IT is a phase of S: S writes at an index x*N + IT, and S's guard mentions IT. The phases
 * of a ConvTranspose with stride N, for example, each use their own taps of the filter. The guard
 * is then more than zero padding: every phase sums different terms. */
bool stmt_is_phase(Ctx *c, const Stmt *s, const Iter *it);
/* b[idx...] as an expression. */
Expr *kernel_load(Kernel *k, Buf *b, Expr *const *idx);
/* b[it...] with iterators. */
Expr *kernel_load_iters(Kernel *k, Buf *b, Iter *const *it);

/* Whether K calls a routine; whether it does, or has buffers of strings. */
bool kernel_calls_routine(const Kernel *k);
bool kernel_has_strings(const Kernel *k);
/* Expression number I of S, from 0 to S->nwidx + 2: indices of the write, two values, guard. The
 * last three may be null. */
Expr **stmt_expr(Stmt *s, int i);
/* Loops over the nodes X, or the loads X, of the expressions of S, in this order: values, guard,
 * indices of the write. */
#define STMT_EACH(x, s) EX_EACH_BY(x, ex_next, stmt_nodes(&x##_nodes, (s)))
#define STMT_EACH_LOAD(x, s) EX_EACH_BY(x, ex_next_load, stmt_nodes(&x##_nodes, (s)))
/* EX_MAP over all of them. */
#define STMT_MAP(x, k, s)                                    \
	for (int x##_i = 0; x##_i < (s)->nwidx + 3; x##_i++) \
		EX_MAP (x, (k)->pool, stmt_expr((s), x##_i))
ExprNodes *stmt_nodes(ExprNodes *w, const Stmt *s);
/* Appends the dims that K mentions to OUT in arena A. */
void kernel_dims(const Kernel *k, Arena *a, DimList *out);
/* Whether K mentions any symbol. */
bool kernel_has_syms(const Kernel *k);

/* The buffer of K for operand (BUF_IN) or result (BUF_OUT) PARAM of its node; null: there is
 * none. */
Buf *kernel_param(const Kernel *k, BufKind kind, int param);
/* The number of B's elements. */
Dim *buf_numel(Ctx *c, const Buf *b);
/* The bytes of B, where elements of less than a byte count as bytes; -1: more than MOST, or a dim
 * is not a constant. */
int64_t buf_bytes(const Buf *b, int64_t most);
/* The position of dim D of B among its physical axes, outermost first. */
int buf_axis(const Buf *b, int d);
/* The dim of B whose indices its physical axis I has. */
int buf_memory_dim(const Buf *b, int i);
/* The innermost dim of B in memory that has more than one element; -1: none. */
int buf_innermost(const Buf *b);
/* Deep copies, in arena A. */
Buf *buf_copy(Arena *a, const Buf *b);
Kernel *kernel_clone(Kernel *k, Arena *a);

/* ---- kernel_print.c ---- */

void kernel_print(StrBuf *b, const Kernel *k);
/* The names that kernel_print prints for K's iterators and buffers, by their number in K, in A. */
const char **kernel_iter_names(const Kernel *k, Arena *a);
const char **kernel_buf_names(const Kernel *k, Arena *a);
/* NAME as a word of the text, which is not reserved. */
const char *kernel_word(Ctx *c, const char *name);
/* The declaration of the temporary BUF, without a newline. */
void kernel_print_temp(StrBuf *b, const Kernel *k, const Buf *buf);
/* As kernel_print, but with uniform names and without locations, so that kernels that compute
 * the same print the same. */
void kernel_print_bare(StrBuf *b, const Kernel *k);
/* Whether A and B print the same so. */
bool kernel_same(const Kernel *a, const Kernel *b);

/* ---- kernel_parse.c ---- */

/* Reads a kernel at *P; advances *P and *LINE. Null after a diagnostic. */
Kernel *kernel_parse(Ctx *c, Arena *a, const char **p, int *line);
/* Reads the type of the temporary NAME of K, and its elements if it is a table; null after a
 * diagnostic. */
Buf *kernel_parse_temp(Kernel *k, const char *name, const char **p, int *line);
/* Reads temporaries and statements of K, from after its "{" to after its "}". */
bool kernel_parse_body(Kernel *k, const char **p, int *line);

/* ---- kernel_verify.c ---- */

/* Reports every fault as a diagnostic that names PASS, the pass that ran before; null: the
 * kernel is as a user's text has it. */
bool kernel_verify(Kernel *k, Diag *d, const char *pass);

#endif
