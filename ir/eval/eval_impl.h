/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the interpreter. A statement's expressions become a Prog: nodes in topological
 * order, each with storage for the values of one strip of points. A strip is a set of points whose
 * iterators are base + rel[lane]. The table of relative values is the strip's pattern; strips of
 * one pattern differ only in the base. So the offsets of an affine access are computed once for
 * each pattern; for each strip only one number is added.
 */
#ifndef IR_EVAL_EVAL_IMPL_H
#define IR_EVAL_EVAL_IMPL_H

#include "ir/eval/eval.h"

enum { STRIP = 512 };
/* The factor by which a bound exceeds the measured effect of roundings (eval_bound.c). */
enum { SAFETY = 3 };

/* Compiles a function for several CPUs; the loader chooses one. Not under sanitizers, which
 * start later than the code that chooses. */
#define EVAL_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef EVAL_CLONES
#define EVAL_CLONES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#undef EVAL_CLONES
#define EVAL_CLONES
#endif
#endif

/* ---- Strips ---- */

/* N points: iterator slot S has the value base[S] + rel[S][lane]. Strips with the same rel and n
 * have the same pattern number. If two patterns alternate, one number is even and the other odd. */
typedef struct EvalPoints {
	int n;
	int64_t pattern;
	int64_t base[MAX_ITERS];
	const int64_t *rel[MAX_ITERS]; /* null: 0 in all lanes */
} EvalPoints;

/* Visits the box of the iterator slots SLOT[0..n) in lexicographic order, strip by strip. */
typedef struct StripWalk {
	int n, slot[MAX_ITERS];
	int64_t extent[MAX_ITERS];
	/* slots before this one are stepped; this one is cut into chunks; slots after it fit a
	 * strip whole */
	int chunk_at;
	int64_t chunk;
	int inner; /* number of points of the slots after chunk_at */
	int64_t at[MAX_ITERS];
	int64_t *table;  /* n tables of STRIP entries each */
	int64_t pattern; /* even: full chunks; odd: the last, shorter chunk */
	bool empty;
} StripWalk;

/* ---- Programs ---- */

typedef void (*VecFn)(void *restrict dst, const void *a, const void *b, const void *c, int n);

typedef struct LinTerm {
	int slot;
	int64_t coef;
} LinTerm;

/* A linear form of iterators: base + sum coef * iterator. */
typedef struct Lin {
	int n;
	LinTerm term[MAX_ITERS];
	int64_t base;
} Lin;

typedef enum OffKind { OFF_UNIFORM, OFF_CONTIGUOUS, OFF_TABLE } OffKind;

/* The values of a linear form over one pattern. */
typedef struct LinPattern {
	int64_t id;
	OffKind kind;
	int64_t *rel; /* STRIP entries */
	int64_t min, max;
} LinPattern;

/* The address of a load or store: one index for each dim of the buffer, or one flat index. */
typedef struct EvalAccess {
	const Buf *buf;
	void *data;
	double *bound;
	int n; /* number of indices */
	int64_t *extent, *stride;
	bool affine; /* all indices are affine, so lin[] and flat are valid */
	Lin *lin, flat;
	int *idx; /* the nodes that compute the indices, if not affine */
	LinPattern (*dim)[2], flat_pattern[2];
	int64_t *off; /* STRIP entries */
} EvalAccess;

/* An access for the current strip: lane l is element at + (kind == OFF_TABLE ? off[l] : kind *
 * l). */
typedef struct ResolvedAccess {
	OffKind kind;
	int64_t at;
	const int64_t *off;
} ResolvedAccess;

typedef struct PNode {
	ExprKind kind; /* EX_ITER stands for all affine i64 nodes */
	CType ct;
	Inst inst;
	DType dtype;
	int n, arg[3];
	/* it, or a node below it, is a load or `index`: it may only be evaluated in lanes that
	 * take it */
	bool faultable;
	bool eager;     /* evaluated for every lane, in order; else on demand with a mask */
	bool touched;   /* depends on the load whose values are currently shifted (prog_shift) */
	bool is_func;   /* the result of a function's expansion */
	/* compares an affine index with a constant: the result is usually the same in the whole
	 * strip */
	bool by_range;
	/* an affine node that only such comparisons use: its values are not computed */
	bool unread;
	VecFn fn;
	Lin lin;
	LinPattern pat[2];
	EvalAccess *access;
	int param;
	void *own, *val; /* OWN: the node's storage; VAL: where its values are now */
	uint8_t *done;   /* of a lazy node: lanes whose values are valid */
} PNode;

typedef struct Prog {
	Arena *a;
	Kernel *k;
	const EvalOpts *o;
	EvalBuf *bufs;
	Iter *const *iter; /* by slot */
	int niters;
	VEC(PNode) nodes;
	int guard, nroots, root[4];
	EvalAccess *write; /* where the statement writes, or null */
	bool keep;         /* nodes do not share storage, since their values are read again later */
	bool bad;          /* cannot run: a dim overflowed, or an expression is not supported */
	bool fault;        /* an `index` instruction was out of range, or a routine on strings failed */
	int64_t bad_index, bad_size; /* of that instruction */
	/* if not null, a load or store was outside this buffer, which is a bug in the statement */
	const Buf *stray;
	const uint8_t *mask; /* after prog_run: lanes where the guard holds; null: all lanes */
	const EvalPoints *at;
	/* the load whose values are shifted, by SIGN times their bounds; -1: none */
	int shifted, sign;
	/* not 0: sums, products and quotients that depend on the shifted load are moved by one
	 * ulp, up or down by a hash with this seed; with 1, if HAS_FUNCS, results of functions by a
	 * few instead */
	int jitter;
	bool has_funcs;
	uint8_t *lost; /* lanes whose shifted evaluation read outside a buffer */
	uint8_t *all;  /* a mask with all lanes set */
	struct ExprMemo *scope;
} Prog;

static inline const void *prog_val(const Prog *p, int root)
{
	return p->nodes.at[p->root[root]].val;
}

/* ---- Statements ---- */

typedef struct KernelRun {
	Kernel *k;
	Stmt *s;
	const EvalOpts *o;
	EvalBuf *bufs;
	Arena *a;                  /* lives as long as the statement */
	int64_t extent[MAX_ITERS]; /* by slot */
	int64_t pattern;           /* number of patterns so far */
	EvalStatus status;
	EvalFault fault;
} KernelRun;

static inline bool run_wants_bounds(const KernelRun *r)
{
	return r->o->bounds && r->bufs[r->s->out[0]->id].bound;
}

/* ---- eval_strip.c ---- */

/* EXTENTS are by slot. *PATTERN is the number of the next pattern. The tables, of n * limit
 * entries, are allocated in A. */
void walk_init(StripWalk *w, Arena *a, const int *slot, int n, const int64_t *extents, int limit,
	       int64_t *pattern);
/* Sets P's lane iterators to the first strip; false if the box is empty. */
bool walk_first(StripWalk *w, EvalPoints *p);
bool walk_next(StripWalk *w, EvalPoints *p);
/* Steps P's base over the box of SLOT[0..n), the last slot fastest; false, with the base reset
 * to 0, at the end. */
bool points_step(EvalPoints *p, const int *slot, int n, const int64_t *extents);

/* ---- eval_inst.c ---- */

VecFn vec_inst(Inst i, CType t); /* T: type of the operands (for select: of the two arms) */
VecFn vec_cvt(CType from, CType to);
VecFn vec_bits(CType from, CType to);
void vec_round(Inst i, DType to, CType t, void *dst, const void *a, int n);
void vec_fill(CType t, void *dst, const void *one, int n);
/* Converts a strip of type T to f64 (integers are rounded). */
void strip_to_f64(CType t, const void *src, double *dst, int n);
/* Converts a strip of f64 to type T, rounded or wrapped. */
void strip_from_f64(CType t, const double *src, void *dst, int n);

/* ---- eval_routine.c ---- */

/* Evaluates routine I in the lanes of MASK (null: all), with the strings T; other lanes get 0. */
void eval_routine(Inst i, struct dl_strings *t, void *dst, const void *const *arg, const uint8_t *mask,
		  int n);

/* ---- eval_prog.c ---- */

/* Makes an empty program over the iterators ITER[0..n) of a statement. */
Prog *prog_new(Arena *a, Kernel *k, const EvalOpts *o, EvalBuf *bufs, Iter *const *iter, int n);
void prog_guard(Prog *p, Expr *guard);
/* Adds a root and returns its number. */
int prog_root(Prog *p, Expr *e);
/* Adds the write to B[idx], which is evaluated under the guard, like the roots. */
void prog_write(Prog *p, Buf *b, Expr *const *idx, int n);
/* Ends the program: no more roots follow. False if p->bad. */
bool prog_end(Prog *p);
/* The nodes that N reads, into OUT (room for MAX_RANK + 3); returns their number. Operands 1 and
 * 2 of a select are its arms. */
int prog_operands(const PNode *n, int *out);
/* Sets where the values of EX_PARAM number PARAM are. */
void prog_param(Prog *p, int param, const void *val);

/* ---- eval_run.c ---- */

/* Evaluates one strip of points. False after a fault. */
bool prog_run(Prog *p, const EvalPoints *at);
/* The addresses of the write, after prog_run. */
bool prog_place(Prog *p, const EvalPoints *at, ResolvedAccess *out);
/* Evaluates again the nodes that depend on load node LOAD, with its values shifted by SIGN times
 * their bounds. Lanes in which an index then leaves its buffer are set in p->lost. SIGN 0
 * restores the values. P must have `keep` set. */
void prog_shift(Prog *p, int load, int sign);
/* Node N is an operation whose result is rounded. */
bool prog_rounds(const PNode *n);

/* ---- eval_bound.c ---- */

/* The error bound of each root in every lane, by finite differences over the loads' bounds. To
 * be called after prog_run. Null entries of OUT are not computed. */
void prog_bounds(Prog *p, double *const *out);
/* The distance from V to the next value of element type T; 0 for integers. */
double ulp_of(DType t, double v);
/* Machine epsilon of the type that accumulates; 0 for integers. */
double ctype_eps(CType t);
/* The smallest subnormal of the type: the rounding error of one operation on subnormal results. */
double ctype_tiny(CType t);

/* ---- eval_elem.c ---- */

/* Copy elements between a buffer and a strip. */
void strip_load(const EvalAccess *a, const ResolvedAccess *at, CType t, void *dst, int n);
void strip_store(const EvalAccess *a, const ResolvedAccess *at, const void *src,
		 const uint8_t *mask, int n);
void strip_store_bounds(const EvalAccess *a, const ResolvedAccess *at, const double *src,
			const uint8_t *mask, int n);
void strip_load_bounds(const EvalAccess *a, const ResolvedAccess *at, double *dst, int n);

/* ---- eval.c ---- */

/* Makes a program over the iterators of R's statement. */
Prog *run_prog(KernelRun *r);
/* Points with a single lane: the one point at the base. */
EvalPoints run_point(KernelRun *r);
/* Writes the slots [from, to) to OUT; returns their number. */
int run_slots(int from, int to, int *out);
/* Sets r->status from the reason why P stopped; returns false. */
bool run_failed(KernelRun *r, const Prog *p);
/* As WRITE, but into component K of the statement's state. */
EvalAccess run_write(KernelRun *r, const EvalAccess *write, int k);

/* ---- eval_reduce.c ---- */

bool eval_reduce(KernelRun *r);
bool eval_scatter_update(KernelRun *r);

/* ---- eval_contract.c ---- */

/* The blocked path: sum over k of A(g,m,k) * B(g,n,k). False if the statement does not have this
 * form, or is too small to gain from it. Otherwise r->status has the result. */
bool eval_contraction(KernelRun *r);

#endif
