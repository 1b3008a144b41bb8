/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contractions: sum over k of A(g,m,k) * B(g,n,k), where A and B are any expressions. The iterators
 * are sorted by which operand reads them. Each conjunct of the guard is assigned to the operand
 * whose iterators it mentions; where it fails, that operand's element is zero. Both operands are
 * evaluated strip by strip into packed panels, and the panels are multiplied in register tiles.
 * Floats are multiplied and summed in f64, where products of f32 are exact; integers in their type.
 */
#include "ir/eval/eval_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	MR = 6,
	NR = 8, /* a register tile */
	KC = 256,
	MC = 96, /* a packed block of A */
	MS = 4092,
	NS = 1024, /* sums that remain in memory over all of k */
	CONJUNCTS = 16
};

/* The contents of the packed panels: the values, their magnitudes, or the magnitudes plus their
 * bounds. */
typedef enum PackMode { PACK_VALUE, PACK_ABS, PACK_WIDE, PACK_MODES } PackMode;

/* Several iterator slots as one axis, whose points are numbered in lexicographic order. */
typedef struct EvalAxis {
	int slot[MAX_ITERS], n;
	int64_t total;
} EvalAxis;

typedef struct EvalOperand {
	Prog *p;
	const EvalAxis *row, *k;
	int width;       /* MR or NR */
	bool along_rows; /* a strip's lanes are rows; else they are values of k */
	void *panel;
	int64_t *table; /* MAX_ITERS tables of STRIP */
	EvalPoints at;
} EvalOperand;

typedef struct EvalContraction {
	KernelRun *r;
	CType ct;
	EvalAxis g, m, n, k;
	Expr *a, *b, *ga, *gb;
	EvalOperand oa, ob;
	Prog *write;
	/* BOUNDS: compute bounds; MOVING: an operand has bounds */
	bool bounds, moving;
	void *c[PACK_MODES];
	int64_t ldc;
} EvalContraction;

/* ---- Recognition ---- */

static uint32_t slots_of(const Stmt *s, Expr *e)
{
	uint32_t set = 0;

	EX_EACH (x, e)
		for (int i = 0; x->kind == EX_ITER && i < s->niters; i++)
			if (s->iter[i] == x->iter)
				set |= (uint32_t)1 << i;
	return set;
}

static int conjuncts(Expr *e, Expr **out, int n)
{
	if (!e)
		return 0;
	if (e->kind == EX_INST && e->op.inst == IN_and) {
		n = conjuncts(e->op.arg[0], out, n);
		return n < 0 || n >= CONJUNCTS ? -1 : conjuncts(e->op.arg[1], out, n);
	}
	if (n < 0 || n >= CONJUNCTS)
		return -1;
	out[n] = e;
	return n + 1;
}

static uint32_t axis_set(const EvalAxis *a)
{
	uint32_t set = 0;

	for (int i = 0; i < a->n; i++)
		set |= (uint32_t)1 << a->slot[i];
	return set;
}

static void axis_add(EvalAxis *a, const KernelRun *r, int slot)
{
	a->slot[a->n++] = slot;
	if (__builtin_mul_overflow(a->total, r->extent[slot], &a->total))
		a->total = INT64_MAX;
}

static bool split_guard(EvalContraction *c)
{
	Expr *part[CONJUNCTS];
	const Stmt *s = c->r->s;
	ExprPool *p = c->r->k->pool;
	uint32_t in_a = axis_set(&c->g) | axis_set(&c->m) | axis_set(&c->k);
	uint32_t in_b = axis_set(&c->g) | axis_set(&c->n) | axis_set(&c->k);
	int n = conjuncts(s->guard, part, 0);

	for (int i = 0; i < n; i++) {
		uint32_t set = slots_of(s, part[i]);

		if ((set & ~in_a) && (set & ~in_b))
			return false;
		if (!(set & ~in_a))
			c->ga = ex_and(p, c->ga, part[i]);
		if (!(set & ~in_b))
			c->gb = ex_and(p, c->gb, part[i]);
	}
	return n >= 0;
}

static bool recognise(EvalContraction *c, KernelRun *r)
{
	const Stmt *s = r->s;
	const Expr *v = s->val[0];
	uint32_t in_a, in_b;

	*c = (EvalContraction){
		.r = r, .ct = v->ct, .g.total = 1, .m.total = 1, .n.total = 1, .k.total = 1};
	if (s->red != MONOID_sum || s->nout != 1 || s->scan)
		return false;
	if (v->kind != EX_INST || v->op.inst != IN_mul || v->ct == CT_BOOL)
		return false;
	c->a = v->op.arg[0];
	c->b = v->op.arg[1];
	in_a = slots_of(s, c->a);
	in_b = slots_of(s, c->b);
	for (int i = 0; i < s->niters; i++) {
		bool a = in_a >> i & 1, b = in_b >> i & 1;

		a = a || stmt_is_phase(r->k->ctx, s, s->iter[i]);
		b = b || stmt_is_phase(r->k->ctx, s, s->iter[i]);
		axis_add(i >= s->nband ? &c->k : a == b ? &c->g : a ? &c->m : &c->n, r, i);
	}
	return c->m.total >= 4 && c->n.total >= 4 && c->k.total >= 4 && c->g.total > 0 &&
	       (double)c->m.total * (double)c->n.total * (double)c->k.total >= 4096 &&
	       split_guard(c);
}

/* ---- Points of an axis ---- */

static void axis_base(const EvalAxis *a, const int64_t *extent, int64_t i, EvalPoints *at)
{
	for (int d = a->n - 1; d >= 0; d--) {
		at->rel[a->slot[d]] = NULL;
		at->base[a->slot[d]] = i % extent[a->slot[d]];
		i /= extent[a->slot[d]];
	}
}

/* Sets up lanes for the points [from, from + n) of axis A. */
static void axis_lanes(const EvalAxis *a, KernelRun *r, int64_t from, int n, int64_t *table,
		       EvalPoints *at)
{
	for (int d = 0; d < a->n; d++) {
		at->rel[a->slot[d]] = &table[a->slot[d] * STRIP];
		at->base[a->slot[d]] = 0;
	}
	for (int l = 0; l < n; l++) {
		int64_t i = from + l;

		for (int d = a->n - 1; d >= 0; d--) {
			table[a->slot[d] * STRIP + l] = i % r->extent[a->slot[d]];
			i /= r->extent[a->slot[d]];
		}
	}
	at->n = n;
	at->pattern = r->pattern;
	r->pattern += 2;
}

/* Counts an access with unit stride along A's innermost iterator that has more than one point. */
static bool steps_by_one(const EvalAxis *a, const KernelRun *r, const EvalAccess *access)
{
	int n = a->n;

	while (n > 0 && r->extent[a->slot[n - 1]] == 1)
		n--;
	for (int t = 0; n > 0 && access->affine && t < access->flat.n; t++)
		if (access->flat.term[t].slot == a->slot[n - 1])
			return access->flat.term[t].coef == 1;
	return false;
}

/* ---- Packing ---- */

static bool operand_init(EvalContraction *c, EvalOperand *o, Expr *e, Expr *guard,
			 const EvalAxis *row, int width)
{
	int rows = 0, ks = 0;

	o->p = run_prog(c->r);
	o->row = row;
	o->k = &c->k;
	o->width = width;
	prog_guard(o->p, guard);
	prog_root(o->p, e);
	if (!prog_end(o->p))
		return run_failed(c->r, o->p);
	VEC_EACH_AT (n, &o->p->nodes) {
		if (n->kind != EX_LOAD)
			continue;
		rows += steps_by_one(row, c->r, n->access);
		ks += steps_by_one(&c->k, c->r, n->access);
		c->moving |= n->access->bound != NULL;
	}
	o->along_rows = rows > ks;
	o->table = NEW_ARRAY(c->r->a, MAX_ITERS * STRIP, int64_t);
	return true;
}

/* Evaluates the strip at o->at; BITS gets the elements as MODE wants them, of 4 bytes if ISIZE
 * is 4. */
static bool pack_strip(EvalContraction *c, EvalOperand *o, PackMode mode, void *bits)
{
	Prog *p = o->p;
	double e[STRIP];
	double *each[4] = {e, NULL, NULL, NULL};
	int n = o->at.n;

	if (!prog_run(p, &o->at))
		return run_failed(c->r, p);
	if (p->mask && !memchr(p->mask, 1, (size_t)n)) {
		memset(bits, 0, (size_t)n * 8);
		return true;
	}
	if (mode == PACK_VALUE && !ctype_is_float(c->ct)) {
		uint64_t zero[STRIP];
		size_t size = (size_t)ctype_bytes(c->ct);

		if (!p->mask) {
			memcpy(bits, prog_val(p, 0), (size_t)n * size);
			return true;
		}
		memset(zero, 0, (size_t)n * size);
		vec_inst(IN_select, c->ct)(bits, p->mask, prog_val(p, 0), zero, n);
		return true;
	}
	double *v = bits;

	strip_to_f64(c->ct, prog_val(p, 0), v, n);
	if (mode == PACK_WIDE)
		prog_bounds(p, each);
	for (int l = 0; mode != PACK_VALUE && l < n; l++)
		v[l] = fabs(v[l]) + (mode == PACK_WIDE ? e[l] : 0);
	for (int l = 0; p->mask && l < n; l++)
		v[l] = p->mask[l] ? v[l] : 0;
	return true;
}

/* Stores lane l at element l * STRIDE; or in row l of panels of WIDTH rows, which are PANEL
 * elements apart. */
#define SPREAD(T)                                                                          \
	static void spread_##T(T *dst, const T *src, int n, int64_t stride)                \
	{                                                                                  \
		for (int l = 0; l < n; l++)                                                \
			dst[l * stride] = src[l];                                          \
	}                                                                                  \
	static void spread_rows_##T(T *dst, const T *src, int n, int width, int64_t panel) \
	{                                                                                  \
		for (int l = 0; l < n; l += width)                                         \
			for (int i = 0; i < width && l + i < n; i++)                       \
				dst[l / width * panel + i] = src[l + i];                   \
	}
SPREAD(uint32_t)
SPREAD(uint64_t)

/* Packs rows [r0, r0 + nr) by k [k0, k0 + nk) into panels of o->width rows, in which k varies
 * slowest. */
static bool pack(EvalContraction *c, EvalOperand *o, PackMode mode, int64_t r0, int nr, int64_t k0,
		 int nk)
{
	bool narrow = mode == PACK_VALUE && !ctype_is_float(c->ct) && ctype_bytes(c->ct) == 4;
	int64_t panel = (int64_t)o->width * nk;
	uint64_t bits[STRIP];
	uint32_t *p4 = o->panel;
	uint64_t *p8 = o->panel;

	if (nr % o->width)
		memset((char *)o->panel + (size_t)(nr / o->width * panel) * (narrow ? 4 : 8), 0,
		       (size_t)panel * (narrow ? 4 : 8));
	if (!o->along_rows) {
		axis_lanes(o->k, c->r, k0, nk, o->table, &o->at);
		for (int i = 0; i < nr; i++) {
			int64_t to = i / o->width * panel + i % o->width;

			axis_base(o->row, c->r->extent, r0 + i, &o->at);
			if (!pack_strip(c, o, mode, bits))
				return false;
			if (narrow)
				spread_uint32_t(p4 + to, (uint32_t *)(void *)bits, nk, o->width);
			else
				spread_uint64_t(p8 + to, bits, nk, o->width);
		}
		return true;
	}
	int most = STRIP / o->width * o->width;

	for (int i = 0; i < nr; i += most) {
		int n = nr - i < most ? nr - i : most;

		axis_lanes(o->row, c->r, r0 + i, n, o->table, &o->at);
		for (int k = 0; k < nk; k++) {
			int64_t to = i / o->width * panel + (int64_t)k * o->width;

			axis_base(o->k, c->r->extent, k0 + k, &o->at);
			if (!pack_strip(c, o, mode, bits))
				return false;
			if (narrow)
				spread_rows_uint32_t(p4 + to, (uint32_t *)(void *)bits, n, o->width,
						     panel);
			else
				spread_rows_uint64_t(p8 + to, bits, n, o->width, panel);
		}
	}
	return true;
}

/* ---- Multiplying ---- */

typedef double V_f64 __attribute__((vector_size(32), aligned(8)));
typedef uint32_t V_u32 __attribute__((vector_size(16), aligned(4)));
typedef uint64_t V_u64 __attribute__((vector_size(32), aligned(8)));

/* clang-format off */
#define TILE_ROW(V, i) V c##i##0 = {0}, c##i##1 = {0};
#define TILE_STEP(i) \
	c##i##0 += a[i] * b0; \
	c##i##1 += a[i] * b1;
#define TILE_PUT(V, i) \
	*(V *)(c + i * ldc) += c##i##0; \
	*(V *)(c + i * ldc + NR / 2) += c##i##1;

/* C[MR][NR] += A panel * B panel, over K. */
#define TILE(name, T, V) \
	EVAL_CLONES static void tile_##name(int k, const void *pa, const void *pb, void *pc, int64_t ldc) \
	{ \
		const T *a = pa, *b = pb; \
		T *c = pc; \
		TILE_ROW(V, 0) TILE_ROW(V, 1) TILE_ROW(V, 2) TILE_ROW(V, 3) TILE_ROW(V, 4) TILE_ROW(V, 5) \
		for (; k > 0; k--, a += MR, b += NR) { \
			V b0 = *(const V *)b, b1 = *(const V *)(b + NR / 2); \
			TILE_STEP(0) TILE_STEP(1) TILE_STEP(2) TILE_STEP(3) TILE_STEP(4) TILE_STEP(5) \
		} \
		TILE_PUT(V, 0) TILE_PUT(V, 1) TILE_PUT(V, 2) TILE_PUT(V, 3) TILE_PUT(V, 4) TILE_PUT(V, 5) \
	}
TILE(f64, double, V_f64)
TILE(u32, uint32_t, V_u32)
TILE(u64, uint64_t, V_u64)
/* clang-format on */

typedef void (*TileFn)(int k, const void *a, const void *b, void *c, int64_t ldc);

/* Adds the product of the packed blocks to C, from row m0 on (nm rows). */
static void multiply(const EvalContraction *c, PackMode mode, int64_t m0, int nm, int nn, int nk)
{
	bool wide = mode != PACK_VALUE || ctype_is_float(c->ct);
	size_t size = wide || ctype_bytes(c->ct) == 8 ? 8 : 4;
	TileFn tile = wide ? tile_f64 : size == 8 ? tile_u64 : tile_u32;
	const char *a = c->oa.panel, *b = c->ob.panel;
	char *out = c->c[mode];

	for (int64_t j = 0; j < nn; j += NR)
		for (int64_t i = 0; i < nm; i += MR)
			tile(nk, a + (size_t)(i * nk) * size, b + (size_t)(j * nk) * size,
			     out + (size_t)((m0 + i) * c->ldc + j) * size, c->ldc);
}

static int least(int64_t a, int64_t b)
{
	return (int)(a < b ? a : b);
}

/* Computes the sums of rows [m0, m0 + nm) by columns [n0, n0 + nn), over all of k. */
static bool sum_block(EvalContraction *c, PackMode mode, int64_t m0, int nm, int64_t n0, int nn)
{
	memset(c->c[mode], 0, (size_t)(nm + MR) * (size_t)c->ldc * 8);
	for (int64_t k = 0; k < c->k.total; k += KC) {
		int nk = least(KC, c->k.total - k);

		if (!pack(c, &c->ob, mode, n0, nn, k, nk))
			return false;
		for (int m = 0; m < nm; m += MC) {
			int rows = least(MC, nm - m);

			if (!pack(c, &c->oa, mode, m0 + m, rows, k, nk))
				return false;
			multiply(c, mode, m, rows, nn, nk);
		}
	}
	return true;
}

/* ---- Storing ---- */

/* Stores N sums, from element AT of C on and STRIDE apart, as type ct. An update adds the
 * buffer's element first. */
static void store_strip(EvalContraction *c, const ResolvedAccess *where, int64_t at, int64_t stride,
			int n)
{
	EvalAccess a = run_write(c->r, c->write->write, 0);
	double sum[STRIP];
	uint64_t held[STRIP], out[STRIP];
	uint32_t *out4 = (uint32_t *)(void *)out;

	if (ctype_is_float(c->ct)) {
		for (int l = 0; l < n; l++)
			sum[l] = ((double *)c->c[0])[at + l * stride];
		if (c->r->s->update) {
			double before[STRIP];

			strip_load(&a, where, c->ct, held, n);
			strip_to_f64(c->ct, held, before, n);
			for (int l = 0; l < n; l++)
				sum[l] += before[l];
		}
		strip_from_f64(c->ct, sum, out, n);
	} else {
		for (int l = 0; l < n; l++)
			if (ctype_bytes(c->ct) == 4)
				out4[l] = ((uint32_t *)c->c[0])[at + l * stride];
			else
				out[l] = ((uint64_t *)c->c[0])[at + l * stride];
		if (c->r->s->update) {
			uint64_t total[STRIP];

			strip_load(&a, where, c->ct, held, n);
			vec_inst(IN_add, c->ct)(total, out, held, NULL, n);
			memcpy(out, total, (size_t)n * 8);
		}
	}
	strip_store(&a, where, out, NULL, n);
	if (!c->bounds || !a.bound)
		return;
	double b[STRIP], before[STRIP] = {0};

	if (c->r->s->update)
		strip_load_bounds(&a, where, before, n);
	strip_to_f64(c->ct, out, sum, n);
	for (int l = 0; l < n; l++) {
		double near = ((double *)c->c[PACK_ABS])[at + l * stride];
		double far = ((double *)c->c[c->moving ? PACK_WIDE : PACK_ABS])[at + l * stride];

		b[l] = before[l] + far - near +
		       (double)c->k.total * (ctype_eps(c->ct) * far + ctype_tiny(c->ct));
		b[l] += b[l] > 0 ? ulp_of(a.buf->dtype, sum[l]) : 0;
	}
	strip_store_bounds(&a, where, b, NULL, n);
}

static bool store_block(EvalContraction *c, EvalPoints *at, int64_t *table, int64_t m0, int nm,
			int64_t n0, int nn)
{
	bool along_m = steps_by_one(&c->m, c->r, c->write->write);
	const EvalAxis *lane = along_m ? &c->m : &c->n, *other = along_m ? &c->n : &c->m;
	int lanes = along_m ? nm : nn, others = along_m ? nn : nm;
	int64_t stride = along_m ? c->ldc : 1, step = along_m ? 1 : c->ldc;

	for (int l = 0; l < lanes; l += STRIP) {
		int n = least(STRIP, lanes - l);

		axis_lanes(lane, c->r, (along_m ? m0 : n0) + l, n, table, at);
		for (int i = 0; i < others; i++) {
			ResolvedAccess where;

			axis_base(other, c->r->extent, (along_m ? n0 : m0) + i, at);
			if (!prog_run(c->write, at) || !prog_place(c->write, at, &where))
				return run_failed(c->r, c->write);
			store_strip(c, &where, l * stride + i * step, stride, n);
		}
	}
	return true;
}

/* ---- The statement ---- */

static bool run_group(EvalContraction *c, EvalPoints *at, int64_t *table)
{
	for (int64_t n = 0; n < c->n.total; n += NS)
		for (int64_t m = 0; m < c->m.total; m += MS) {
			int nn = least(NS, c->n.total - n), nm = least(MS, c->m.total - m);

			for (PackMode mode = PACK_VALUE; mode < PACK_MODES; mode++)
				if (c->c[mode] && !sum_block(c, mode, m, nm, n, nn))
					return false;
			if (!store_block(c, at, table, m, nm, n, nn))
				return false;
		}
	return true;
}

static bool allocate(EvalContraction *c)
{
	int64_t rows = least(MS, c->m.total) + MR, cols = (least(NS, c->n.total) + NR) / NR * NR;
	int64_t mc = least(MC, c->m.total) + MR, kc = least(KC, c->k.total);

	c->ldc = cols;
	for (PackMode mode = PACK_VALUE; mode < PACK_MODES; mode++)
		if (mode == PACK_VALUE || (c->bounds && (mode == PACK_ABS || c->moving)))
			c->c[mode] = arena_array(c->r->a, (size_t)(rows * cols), 8);
	c->oa.panel = arena_array(c->r->a, (size_t)(mc * kc), 8);
	c->ob.panel = arena_array(c->r->a, (size_t)(cols * kc), 8);
	return true;
}

static void run(EvalContraction *c)
{
	EvalPoints at = {0};
	int64_t *table = NEW_ARRAY(c->r->a, MAX_ITERS * STRIP, int64_t);

	if (!operand_init(c, &c->oa, c->a, c->ga, &c->m, MR) ||
	    !operand_init(c, &c->ob, c->b, c->gb, &c->n, NR))
		return;
	c->write = run_prog(c->r);
	prog_write(c->write, c->r->s->out[0], c->r->s->widx, c->r->s->nwidx);
	if (!prog_end(c->write)) {
		run_failed(c->r, c->write);
		return;
	}
	allocate(c);
	for (int64_t g = 0; g < c->g.total; g++) {
		axis_base(&c->g, c->r->extent, g, &at);
		axis_base(&c->g, c->r->extent, g, &c->oa.at);
		axis_base(&c->g, c->r->extent, g, &c->ob.at);
		if (!run_group(c, &at, table))
			return;
	}
}

bool eval_contraction(KernelRun *r)
{
	EvalContraction c;

	if (!recognise(&c, r))
		return false;
	c.bounds = run_wants_bounds(r);
	run(&c);
	return true;
}
