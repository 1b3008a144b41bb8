/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the interpreter. A statement's expressions become a Prog: nodes in topological order, each with
 * storage for one strip of points. A strip is a set of points that share one table of relative iterator
 * values (a pattern), moved about by the iterators' base values; so the offsets of an affine access are
 * the pattern's, computed once, plus one number a strip.
 */
#ifndef IR_EVAL_IMPL_H
#define IR_EVAL_IMPL_H

#include "ir/eval.h"

enum { STRIP = 512 };

/* A function compiled for several CPUs and chosen at load; not under sanitizers, which start later. */
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

/* N points: iterator slot S has the value base[S] + rel[S][lane]. Strips with the same rel and n have the
 * same pattern number; of two patterns in turn use, one is even and one odd. */
typedef struct EvalPoints {
	int n;
	int64_t pattern;
	int64_t base[MAX_ITERS];
	const int64_t *rel[MAX_ITERS]; /* null: 0 in every lane */
} EvalPoints;

/* Visits the box of the iterator slots SLOT[0..n) in lexicographic order, strip by strip. */
typedef struct StripWalk {
	int n, slot[MAX_ITERS];
	int64_t extent[MAX_ITERS];
	int chunk_at; /* slots before it are stepped, it is cut in chunks, slots after it are whole */
	int64_t chunk;
	int inner; /* points of the slots after chunk_at */
	int64_t at[MAX_ITERS];
	int64_t *table;  /* n tables of STRIP entries */
	int64_t pattern; /* even: whole chunks; + 1: the last, shorter one */
	bool empty;
} StripWalk;

/* EXTENTS by slot. *PATTERN counts the patterns handed out; TABLES: n * limit entries are taken of A. */
void walk_init(StripWalk *w, Arena *a, const int *slot, int n, const int64_t *extents, int limit,
	       int64_t *pattern);
/* Sets P's lane iterators to the first strip; false where there is none. */
bool walk_first(StripWalk *w, EvalPoints *p);
bool walk_next(StripWalk *w, EvalPoints *p);
/* Steps P's base over the box of SLOT[0..n), the last fastest; false (and back at 0) after the last. */
bool points_step(EvalPoints *p, const int *slot, int n, const int64_t *extents);

/* ---- Programs ---- */

typedef void (*VecFn)(void *restrict dst, const void *a, const void *b, const void *c, int n);
VecFn vec_inst(Inst i, CType t); /* T: the type of the operands (of the arms for select) */
VecFn vec_cvt(CType from, CType to);
VecFn vec_bits(CType from, CType to);
void vec_round(Inst i, DType to, CType t, void *dst, const void *a, int n);
int ctype_bytes(CType t);
void vec_fill(CType t, void *dst, const void *one, int n);

typedef struct LinTerm {
	int slot;
	int64_t coef;
} LinTerm;

/* base + sum coef * iterator. */
typedef struct Lin {
	int n;
	LinTerm term[MAX_ITERS];
	int64_t base;
} Lin;

typedef enum OffKind { OFF_UNIFORM, OFF_CONTIGUOUS, OFF_TABLE } OffKind;

/* What a pattern makes of one linear form. */
typedef struct LinPattern {
	int64_t id;
	OffKind kind;
	int64_t *rel; /* STRIP entries */
	int64_t min, max;
} LinPattern;

/* Where a load or a store goes: one index a dim (or one flat one) into an array. */
typedef struct EvalAccess {
	const Buf *buf;
	void *data;
	double *bound;
	int n; /* indices */
	int64_t *extent, *stride;
	bool affine; /* every index is: lin[] and flat are valid */
	Lin *lin, flat;
	int *idx; /* nodes of the indices where not affine */
	LinPattern (*dim)[2], flat_pattern[2];
	int64_t *off; /* STRIP entries */
} EvalAccess;

/* A resolved access: lane l is element at + (kind == OFF_TABLE ? off[l] : kind * l). */
typedef struct ResolvedAccess {
	OffKind kind;
	int64_t at;
	const int64_t *off;
} ResolvedAccess;

typedef struct PNode {
	ExprKind kind; /* EX_ITER stands for every affine i64 node */
	CType ct;
	Inst inst;
	DType dtype;
	int n, arg[3];
	bool faultable; /* has a load or an index below it, which only taken lanes may make */
	bool eager;     /* evaluated for every lane, in order; else on demand with a mask */
	bool touched;   /* depends on the load that is being shifted */
	bool by_range;  /* compares an affine index with a constant: most strips lie on one side */
	bool unread;    /* an affine node that only such comparisons use */
	VecFn fn;
	Lin lin;
	LinPattern pat[2];
	EvalAccess *access;
	int param;
	void *own, *val; /* storage; where the values are now */
	uint8_t *done;   /* lanes that a lazy node has */
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
	EvalAccess *write; /* the write of a statement, or null */
	bool keep;         /* no storage is shared between nodes: values are read again later */
	bool bad;          /* a dim overflowed, an expression this cannot run */
	bool fault;        /* `index` was out of range */
	const Buf *stray; /* a load or store outside this buffer: a bug of who made the statement */
	const uint8_t *mask; /* lanes where the guard holds, after prog_run; null: all */
	const EvalPoints *at;
	int shifted,
		sign; /* the load whose values are shifted by SIGN times their bounds; -1: none */
	int jitter; /* not 0: sums, products and quotients under that load are a step off, which way is a matter of it */
	uint8_t *lost; /* lanes whose shifted evaluation left a buffer */
	uint8_t *all;  /* the mask of every lane */
	struct ExprMemo *scope;
} Prog;

/* An empty program over the iterators of a statement. */
Prog *prog_new(Arena *a, Kernel *k, const EvalOpts *o, EvalBuf *bufs, Iter *const *iter, int n);
void prog_guard(Prog *p, Expr *guard);
/* Adds a root and returns its number. */
int prog_root(Prog *p, Expr *e);
/* Adds the write B[idx]; evaluated under the guard as the roots are. */
void prog_write(Prog *p, Buf *b, Expr *const *idx, int n);
/* No more roots; false where p->bad. */
bool prog_end(Prog *p);
/* The nodes that N reads, in OUT (MAX_RANK + 3 entries); their number. A select's arms are 1 and 2. */
int prog_operands(const PNode *n, int *out);
/* Evaluates a strip. False on a fault. */
bool prog_run(Prog *p, const EvalPoints *at);
static inline const void *prog_val(const Prog *p, int root)
{
	return p->nodes.at[p->root[root]].val;
}
/* Where the write goes, after prog_run. */
bool prog_place(Prog *p, const EvalPoints *at, ResolvedAccess *out);
/* Evaluates again what depends on load node LOAD, its values shifted by SIGN times their bounds; lanes in
 * which that has no meaning are set in p->lost. Sign 0 restores the values. P must `keep`. */
void prog_shift(Prog *p, int load, int sign);
/* How far each root may move in every lane while each load stays within its bound, by finite differences,
 * after prog_run. Null entries of OUT are not asked for. */
void prog_bounds(Prog *p, double *const *out);
/* The values of EX_PARAM number PARAM are at VAL from now on. */
void prog_param(Prog *p, int param, const void *val);

/* Elements between storage and strips. */
void strip_load(const EvalAccess *a, const ResolvedAccess *at, CType t, void *dst, int n);
void strip_store(const EvalAccess *a, const ResolvedAccess *at, const void *src,
		 const uint8_t *mask, int n);
void strip_store_bounds(const EvalAccess *a, const ResolvedAccess *at, const double *src,
			const uint8_t *mask, int n);
void strip_load_bounds(const EvalAccess *a, const ResolvedAccess *at, double *dst, int n);
/* One strip of type T as f64 (integers rounded). */
void strip_to_f64(CType t, const void *src, double *dst, int n);
/* And back, rounded or wrapped. */
void strip_from_f64(CType t, const double *src, void *dst, int n);

/* ---- Statements ---- */

typedef struct KernelRun {
	Kernel *k;
	Stmt *s;
	const EvalOpts *o;
	EvalBuf *bufs;
	Arena *a;                  /* of this statement */
	int64_t extent[MAX_ITERS]; /* by slot */
	int64_t pattern;           /* handed out so far */
	EvalStatus status;
} KernelRun;

static inline bool run_wants_bounds(const KernelRun *r)
{
	return r->o->bounds && r->bufs[r->s->out[0]->id].bound;
}

/* A program over R's iterators. */
Prog *run_prog(KernelRun *r);
/* Points over no lane: one point at the base. */
EvalPoints run_point(KernelRun *r);
/* Slots [from, to) in OUT; the number. */
int run_slots(int from, int to, int *out);
/* Sets r->status from what stopped P. */
bool run_failed(KernelRun *r, const Prog *p);
/* As WRITE, into the statement's component K. */
EvalAccess run_write(KernelRun *r, const EvalAccess *write, int k);

bool eval_reduce(KernelRun *r);
bool eval_scatter_update(KernelRun *r);
/* The blocked path: sum over k of A(g,m,k) * B(g,n,k). False where the statement is not of that form or is
 * too small to gain; else r->status tells. */
bool eval_contraction(KernelRun *r);

/* The distance from V to the next value of element type T; 0 for integers. */
double ulp_of(DType t, double v);
/* Machine epsilon of the type that accumulates; 0 for integers. */
double ctype_eps(CType t);
/* Its least number: what each of its roundings may be off by below the normal ones. */
double ctype_tiny(CType t);

#endif
