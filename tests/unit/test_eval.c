/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter against one that is as plain as can be: point by point, each expression folded to a
 * constant by the pool. Inputs are small integers, so every sum is exact and results must be equal bit by
 * bit. Each kernel is also printed, read back, copied and verified. Then bounds, faults and symbolic values.
 */
#include "ir/eval.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int failed;

#define CHECK(x) ((x) ? (void)0 : fail(__LINE__, #x))

static void fail(int line, const char *what)
{
	printf("test_eval.c:%d: %s\n", line, what);
	failed++;
}

static Kernel *read_kernel(Ctx *c, Arena *a, const char *text)
{
	const char *p = text;
	int line = 1;
	Kernel *k = kernel_parse(c, a, &p, &line);

	p += strspn(p, " \n");
	if (!k || *p)
		printf("cannot read:\n%s\n", text);
	return k;
}

/* ---- Memory ---- */

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state >> 11;
}

static int64_t numel(const Buf *b, const int64_t *sym)
{
	int64_t n = 1, v;

	for (int d = 0; d < b->rank; d++)
		n *= dim_eval(b->dims[d], sym, &v) ? v : 0;
	return n;
}

static void *filled(const Buf *b, int64_t n)
{
	void *p = calloc(1, (size_t)dtype_size(b->dtype, n) + 16);
	bool small = dtype_info[b->dtype].bits < 8;

	for (int64_t i = 0; i < n; i++) {
		int64_t v = (int64_t)(random_bits() % 9) - 4;

		if (b->dtype == DT_BOOL || small || !dtype_is_signed(b->dtype))
			v = v < 0 ? -v : v;
		if (b->dtype == DT_BOOL || dtype_info[b->dtype].bits == 2)
			v &= 1;
		if (dtype_is_float(b->dtype))
			dtype_store_f64(b->dtype, p, i, (double)(v & ~(int64_t)small));
		else
			dtype_store_i64(b->dtype, p, i, v);
	}
	return p;
}

/* ---- The plain interpreter ---- */

typedef struct Plain {
	Kernel *k;
	const int64_t *sym;
	EvalBuf *bufs;
	int64_t it[64];
	Expr *param[4]; /* of a monoid's combination */
	bool fault;
} Plain;

static Expr *fold(Plain *p, Expr *e);

static int64_t element(Plain *p, const Buf *b, Expr *const *idx, int n)
{
	int64_t at = 0, extent = 1;

	for (int i = 0; i < n; i++) {
		int64_t v = fold(p, idx[i])->i;

		if (n == b->rank)
			dim_eval(b->dims[i], p->sym, &extent);
		assert(v >= 0 && (n != b->rank || v < extent));
		at = at * extent + v;
	}
	return at;
}

static Expr *element_value(Plain *p, const Buf *b, int64_t at)
{
	const void *data = b->data ? b->data : p->bufs[b->id].data;
	CType t = dtype_ctype(b->dtype);

	if (ctype_is_float(t))
		return ex_float(p->k->pool, t, dtype_load_f64(b->dtype, data, at));
	return ex_int(p->k->pool, t, dtype_load_i64(b->dtype, data, at));
}

static Expr *fold_inst(Plain *p, Expr *e)
{
	Expr *a[3];

	if (e->op.inst == IN_select)
		return fold(p, e->op.arg[fold(p, e->op.arg[0])->i ? 1 : 2]);
	for (int i = 0; i < e->op.n; i++)
		a[i] = fold(p, e->op.arg[i]);
	switch (inst_info[e->op.inst].rule) {
	case RULE_CVT: return ex_cvt(p->k->pool, e->ct, a[0]);
	case RULE_BITCAST: return ex_bits(p->k->pool, e->ct, a[0]);
	case RULE_ROUND:
		return e->op.inst == IN_round ? ex_round(p->k->pool, e->op.dtype, a[0])
					      : ex_roundsat(p->k->pool, e->op.dtype, a[0]);
	case RULE_INDEX:
		if (a[0]->i < -a[1]->i || a[0]->i >= a[1]->i) {
			p->fault = true;
			return ex_int(p->k->pool, CT_I64, 0);
		}
		return ex_int(p->k->pool, CT_I64, a[0]->i + (a[0]->i < 0 ? a[1]->i : 0));
	default: return ex_inst(p->k->pool, e->op.inst, a, e->op.n);
	}
}

static Expr *fold(Plain *p, Expr *e)
{
	int64_t v = 0;

	switch (e->kind) {
	case EX_ITER: return ex_int(p->k->pool, CT_I64, p->it[e->iter->id]);
	case EX_DIM: dim_eval(e->dim, p->sym, &v); return ex_int(p->k->pool, CT_I64, v);
	case EX_LOAD:
		return element_value(p, e->load.buf,
				     element(p, e->load.buf, e->load.idx, e->load.nidx));
	case EX_INST: return fold_inst(p, e);
	case EX_PARAM: return p->param[e->param];
	default: return e;
	}
}

static void put(Plain *p, const Buf *b, int64_t at, const Expr *e)
{
	assert(e->kind == EX_CONST);
	if (ctype_is_float(e->ct))
		dtype_store_f64(b->dtype, p->bufs[b->id].data, at, e->f);
	else
		dtype_store_i64(b->dtype, p->bufs[b->id].data, at, e->i);
}

static bool next(Plain *p, const Stmt *s, int from, int to)
{
	for (int i = to - 1; i >= from; i--) {
		int64_t n = 0;

		dim_eval(s->iter[i]->extent, p->sym, &n);
		if (++p->it[s->iter[i]->id] < n)
			return true;
		p->it[s->iter[i]->id] = 0;
	}
	return false;
}

static bool any(Plain *p, const Stmt *s, int from, int to)
{
	int64_t n = 1;

	for (int i = from; i < to && n > 0; i++)
		dim_eval(s->iter[i]->extent, p->sym, &n);
	return n > 0;
}

static void plain_point(Plain *p, const Stmt *s)
{
	int n = s->red == MONOID_NONE ? s->nout : monoid_info[s->red].n;
	Expr *state[2], *combine[2], *a[2], *b[2];

	if (s->red == MONOID_NONE) {
		if (!s->guard || fold(p, s->guard)->i)
			for (int i = 0; i < n; i++)
				put(p, s->out[i], element(p, s->out[i], s->widx, s->nwidx),
				    fold(p, s->val[i]));
		return;
	}
	for (int i = 0; i < n; i++) {
		a[i] = ex_param(p->k->pool, s->val[i]->ct, i);
		b[i] = ex_param(p->k->pool, s->val[i]->ct, 2 + i);
	}
	for (int i = 0; i < n; i++)
		combine[i] = monoid_combine(p->k->pool, s->red, i, a, b);
	for (int i = 0; i < n; i++)
		state[i] = s->update ? element_value(p, s->out[i],
						     element(p, s->out[i], s->widx, s->nwidx))
				     : monoid_identity(p->k->pool, s->red, i, s->val[i]->ct);
	for (bool more = any(p, s, s->nband, s->niters); more;
	     more = next(p, s, s->nband, s->niters)) {
		if (!s->guard || fold(p, s->guard)->i) {
			for (int i = 0; i < n; i++) {
				p->param[i] = state[i];
				p->param[2 + i] = fold(p, s->val[i]);
			}
			for (int i = 0; i < n; i++)
				state[i] = fold(p, combine[i]);
		}
		for (int i = 0; s->scan && i < s->nout; i++)
			put(p, s->out[i], element(p, s->out[i], s->widx, s->nwidx), state[i]);
	}
	for (int i = 0; !s->scan && i < s->nout; i++)
		put(p, s->out[i], element(p, s->out[i], s->widx, s->nwidx), state[i]);
}

static void plain_kernel(Plain *p)
{
	for (int i = 0; i < p->k->stmts.n; i++) {
		const Stmt *s = p->k->stmts.at[i];

		for (bool more = any(p, s, 0, s->nband); more; more = next(p, s, 0, s->nband))
			plain_point(p, s);
	}
}

/* ---- Kernels ---- */

static void check_text(Ctx *c, Kernel *k)
{
	Arena *a = arena_new();
	StrBuf one = {0}, two = {0}, three = {0};
	Kernel *again;

	kernel_print(&one, k);
	again = read_kernel(c, a, strbuf_str(&one));
	CHECK(again);
	if (again) {
		kernel_print(&two, again);
		kernel_print(&three, kernel_clone(again, a));
		CHECK(kernel_verify(again, c->diag, "test"));
		CHECK(!strcmp(strbuf_str(&one), strbuf_str(&two)));
		CHECK(!strcmp(strbuf_str(&one), strbuf_str(&three)));
		if (strcmp(strbuf_str(&one), strbuf_str(&two)))
			printf("%s---\n%s\n", strbuf_str(&one), strbuf_str(&two));
	}
	strbuf_free(&one);
	strbuf_free(&two);
	strbuf_free(&three);
	arena_free(a);
}

static void report(const Kernel *k, const Buf *b, int64_t i, EvalBuf got, EvalBuf want)
{
	printf("%s: %s[%" PRId64 "]: ", k->name, b->name, i);
	if (dtype_is_float(b->dtype))
		printf("%.9g, not %.9g\n", dtype_load_f64(b->dtype, got.data, i),
		       dtype_load_f64(b->dtype, want.data, i));
	else
		printf("%" PRId64 ", not %" PRId64 "\n", dtype_load_i64(b->dtype, got.data, i),
		       dtype_load_i64(b->dtype, want.data, i));
	failed++;
}

static void check_bounds_run(Kernel *k, const int64_t *sym, const EvalBuf *got);

static void check_kernel(const char *text)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(c, a, text);
	EvalBuf got[16] = {0}, want[16] = {0};
	int64_t sym[8];
	Stmt *fault = NULL;

	CHECK(k);
	if (!k)
		return;
	CHECK(kernel_verify(k, &diag, "test"));
	check_text(c, k);
	for (int i = 0; i < sym_count(c); i++)
		sym[i] = 5 + 2 * i;
	for (int i = 0; i < k->bufs.n; i++) {
		const Buf *b = k->bufs.at[i];
		int64_t n = numel(b, sym);

		want[i].data = b->kind == BUF_IN ? filled(b, n)
						 : calloc(1, (size_t)dtype_size(b->dtype, n) + 16);
		got[i] = want[i];
		if (b->kind == BUF_OUT)
			got[i].data = calloc(1, (size_t)dtype_size(b->dtype, n) + 16);
	}
	Plain p = {.k = k, .sym = sym, .bufs = want};
	EvalOpts o = {.sym = sym};

	CHECK(eval_kernel(k, &o, got, &fault) == EVAL_OK);
	plain_kernel(&p);
	for (int i = 0; i < k->bufs.n; i++) {
		const Buf *b = k->bufs.at[i];
		int64_t n = numel(b, sym), bytes = dtype_size(b->dtype, n);

		if (b->kind != BUF_OUT || !memcmp(got[i].data, want[i].data, (size_t)bytes))
			continue;
		for (int64_t e = 0; e < n; e++)
			if (dtype_is_float(b->dtype)
				    ? dtype_load_f64(b->dtype, got[i].data, e) !=
					      dtype_load_f64(b->dtype, want[i].data, e)
				    : dtype_load_i64(b->dtype, got[i].data, e) !=
					      dtype_load_i64(b->dtype, want[i].data, e)) {
				report(k, b, e, got[i], want[i]);
				break;
			}
	}
	check_bounds_run(k, sym, got);
	for (int i = 0; i < k->bufs.n; i++) {
		if (k->bufs.at[i]->kind == BUF_OUT)
			free(got[i].data);
		free(want[i].data);
	}
	CHECK(diag.errors == 0);
	arena_free(a);
	ctx_free(c);
}

/* Asking for bounds changes no value, whatever the inputs' bounds do to indices and conditions. */
static void check_bounds_run(Kernel *k, const int64_t *sym, const EvalBuf *got)
{
	EvalBuf bufs[16] = {0};
	EvalOpts o = {.sym = sym, .bounds = true};

	for (int i = 0; i < k->bufs.n; i++) {
		const Buf *b = k->bufs.at[i];
		int64_t n = numel(b, sym);

		bufs[i] = got[i];
		bufs[i].bound = calloc((size_t)n + 1, sizeof(double));
		for (int64_t e = 0; b->kind == BUF_IN && e < n; e++)
			bufs[i].bound[e] = (double)(random_bits() % 3);
		if (b->kind == BUF_OUT)
			bufs[i].data = calloc(1, (size_t)dtype_size(b->dtype, n) + 16);
	}
	CHECK(eval_kernel(k, &o, bufs, NULL) == EVAL_OK);
	for (int i = 0; i < k->bufs.n; i++) {
		const Buf *b = k->bufs.at[i];
		int64_t n = numel(b, sym);

		if (b->kind == BUF_OUT) {
			CHECK(!memcmp(bufs[i].data, got[i].data, (size_t)dtype_size(b->dtype, n)));
			free(bufs[i].data);
		}
		for (int64_t e = 0; e < n; e++)
			if (!(bufs[i].bound[e] >= 0)) {
				printf("%s: bound of %s[%" PRId64 "] is %g\n", k->name, b->name, e,
				       bufs[i].bound[e]);
				failed++;
				break;
			}
		free(bufs[i].bound);
	}
}

static const char *const kernels[] = {
	"kernel @relu(%x: f32[N,700]) -> (%y: f32[N,700]) {\n"
	"  y[i,j] = max(x[i,j], 0) for i < N, j < 700\n}",

	"kernel @broadcast(%x: f16[3,1,600], %b: bf16[40,1]) -> (%y: f16[3,40,600]) from @\"a\" \"Add\", @\"b\" {\n"
	"  y[i,j,k] = add(x[i,0,k], b[j,0]) for i < 3, j < 40, k < 600\n}",

	"kernel @transpose(%x: i64[7,11,13]) -> (%y: i64[13,7,11]) {\n"
	"  y[k,i,j] = x[i,j,k] for k < 13, i < 7, j < 11 @none\n}",

	"kernel @scalar(%x: f64[]) -> (%y: f64[]) {\n  y[] = mul(x[], x[]) for ()\n}",

	"kernel @empty(%x: f32[0,3]) -> (%y: f32[0,3], %s: f32[3]) {\n"
	"  y[i,j] = x[i,j] for i < 0, j < 3\n"
	"  s[j] = sum x[i,j] for j < 3 over i < 0\n}",

	"kernel @reshape(%x: u8[6,35]) -> (%y: u8[14,15]) {\n"
	"  y[i,j] = x[floordiv(i*15 + j, 35), mod(i*15 + j, 35)] for i < 14, j < 15\n}",

	"kernel @pad(%x: i4[9,20]) -> (%y: i4[12,25]) {\n"
	"  y[i,j] = select(inside(i - 2, 9) & inside(j - 3, 20), x[i - 2,j - 3], -3) for i < 12, j < 25\n}",

	"kernel @nested(%x: f32[9], %g: f32[30]) -> (%y: f32[30]) {\n"
	"  y[i] = select(lt(i, 9), select(gt(x[i], 0), x[i], g[i]), select(lt(i, 18), x[i - 9], g[i - 1]))"
	" for i < 30\n}",

	"kernel @gather(%x: f32[9,70], %i: i64[33]) -> (%y: f32[33,70]) {\n"
	"  y[j,k] = x[index(i[j], 9),k] for j < 33, k < 70\n}",

	"kernel @table(%x: f32[8]) -> (%y: f32[8,3]) {\n  t: f32[3] = {0.5, -2, 1e30}\n  u: i2[3] = {1, -2, 0}\n"
	"  y[i,j] = mul(x[i], add(t[j], f32(u[j]))) for i < 8, j < 3\n}",

	"kernel @guarded(%x: f32[40,30]) -> (%y: f32[40,30]) {\n"
	"  y[i,j] = 7 for i < 40, j < 30\n"
	"  y[i,j] = ordered x[i,j + 3] for i < 40, j < 30 where lt(j, 27)\n}",

	"kernel @rows(%x: f32[20,1000]) -> (%s: f32[20], %m: f16[20]) {\n"
	"  s[i] = sum x[i,j] for i < 20 over j < 1000\n"
	"  m[i] = max x[i,j] for i < 20 over j < 1000 where gt(j, 3)\n}",

	"kernel @columns(%x: i32[200,90]) -> (%s: i32[90], %p: i32[90], %m: i32[90]) {\n"
	"  s[j] = sum x[i,j] for j < 90 over i < 200\n"
	"  p[j] = prod add(x[i,j], 1) for j < 90 over i < 200 where lt(i, 12)\n"
	"  m[j] = min x[i,j] for j < 90 over i < 200\n}",

	"kernel @total(%x: f64[50,60]) -> (%s: f64[]) {\n  s[] = sum x[i,j] over i < 50, j < 60\n}",

	"kernel @maxpool(%x: i8[3,20,20]) -> (%y: i8[3,10,10]) {\n"
	"  y[c,h,w] = max x[c,h*2 + r - 1,w*2 + s - 1] for c < 3, h < 10, w < 10 over r < 3, s < 3"
	" where inside(h*2 + r - 1, 20) & inside(w*2 + s - 1, 20)\n}",

	"kernel @argmax(%x: f32[5,900], %z: f32[100,9]) -> (%i: i64[5], %v: f32[100], %j: i64[100], %k: i64[5]) {\n"
	"  best: f32[5]\n  worst: f32[5]\n"
	"  best[n], i[n] = argmax_first x[n,j2] | j2 for n < 5 over j2 < 900\n"
	"  v[n2], j[n2] = argmin_last z[n2,j3] | j3 for n2 < 100 over j3 < 9\n"
	"  worst[n], k[n] = argmin_last x[n,j2] | j2 for n < 5 over j2 < 900\n}",

	"kernel @any(%x: bool[30,80]) -> (%y: bool[30], %z: bool[30]) {\n"
	"  y[i] = or x[i,j] for i < 30 over j < 80\n  z[i] = and x[i,j] for i < 30 over j < 80\n}",

	"kernel @cumsum(%x: f32[3,700], %y: i32[50,40]) -> (%a: f32[3,700], %b: i32[50,40], %m: f32[3,700]) {\n"
	"  a[i,j] = scan sum x[i,j] for i < 3 over j < 700\n"
	"  b[k,l] = scan sum y[k,l] for k < 50 over l < 40\n"
	"  m[i,j] = scan max x[i,699 - j] for i < 3 over j < 700\n}",

	"kernel @scatter(%x: f32[20,30], %i: i64[600]) -> (%y: f32[20,30], %z: i32[9]) {\n"
	"  y[a,b] = x[a,b] for a < 20, b < 30\n"
	"  y[add(i[j], 4),mod(j, 30)] = ordered f32(j) for j < 600\n"
	"  z[q] = 0 for q < 9\n"
	"  z[add(i[j], 4)] = update sum 1 for j < 600 where ne(i[j], 2)\n}",

	"kernel @update(%x: f16[10,300]) -> (%y: f16[10]) {\n"
	"  y[i] = 3 for i < 10\n"
	"  y[i] = update sum x[i,j] for i < 10 over j < 300\n}",

	"kernel @matmul(%a: f32[M,70], %b: f32[70,33]) -> (%y: f32[M,33]) {\n"
	"  y[m,n] = sum mul(a[m,k], b[k,n]) for m < M, n < 33 over k < 70\n}",

	"kernel @batched(%q: f16[2,3,17,19], %k: f16[2,3,23,19]) -> (%y: f32[2,3,17,23]) {\n"
	"  y[b,h,i,j] = sum mul(q[b,h,i,d], k[b,h,j,d]) for b < 2, h < 3, i < 17, j < 23 over d < 19\n}",

	"kernel @conv(%x: f32[2,5,14,15], %w: f32[7,5,3,3]) -> (%y: f32[2,7,14,15]) {\n"
	"  acc: f32[2,7,14,15]\n"
	"  acc[n,o,h,v] = sum mul(x[n,c,h + r - 1,v + s - 1], w[o,c,r,s]) for n < 2, o < 7, h < 14, v < 15"
	" over c < 5, r < 3, s < 3 where inside(h + r - 1, 14) & inside(v + s - 1, 15)\n"
	"  y[n,o,h,v] = max(acc[n,o,h,v], 0) for n < 2, o < 7, h < 14, v < 15\n}",

	"kernel @quantised(%a: u8[40,50], %b: i8[50,60], %z: i8[60]) -> (%y: i32[40,60]) {\n"
	"  y[m,n] = 5 for m < 40, n < 60\n"
	"  y[m,n] = update sum mul(sub(a[m,k], 3), sub(b[k,n], z[n])) for m < 40, n < 60 over k < 50\n}",

	"kernel @wide(%a: i64[20,30], %b: i64[30,20]) -> (%y: i64[20,20]) {\n"
	"  y[m,n] = sum mul(a[m,k], b[k,n]) for m < 20, n < 20 over k < 30 where ne(k, n)\n}",

	"kernel @vector(%a: f32[300], %b: f32[300,200]) -> (%y: f32[200]) {\n"
	"  y[n] = sum mul(a[k], b[k,n]) for n < 200 over k < 300\n}",

	"kernel @bits(%x: i32[77], %s: u32[77]) -> (%y: i32[77], %z: u32[77], %f: f32[77]) {\n"
	"  y[i] = xor(shl(x[i], and(x[i], 7)), not(x[i])) for i < 77\n"
	"  z[i] = shr(sub(s[i], 9), 3) for i < 77\n"
	"  f[i] = round.f16(div(f32(x[i]), 3)) for i < 77\n}",

	"kernel @arith(%x: i64[99], %y: i64[99]) -> (%a: i64[99], %b: i64[99], %c: i64[99], %d: i64[99]) {\n"
	"  a[i] = div(x[i], y[i]) for i < 99\n  b[i] = mod(x[i], y[i]) for i < 99\n"
	"  c[i] = rem(x[i], y[i]) for i < 99\n  d[i] = floordiv(x[i], y[i]) for i < 99\n}",

	"kernel @small(%a: f8e4m3fn[60], %b: f4e2m1[60], %c: i2[60], %d: u4[60]) -> (%y: f8e5m2[60], %z: u4[60]) {\n"
	"  y[i] = add(a[i], mul(b[i], f32(c[i]))) for i < 60\n  z[i] = add(d[i], 11) for i < 60\n}",
};

/* A layout moves elements and nothing else: rows of M by N, counted from 1, are PACKED by one kernel, of so many elements,
 * and another one unpacks them. */
static void pack_and_back(const char *layout, int m, int n, float *packed, size_t elements)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	const char *body = arena_printf(a, "{\n  y[i,j] = x[i,j] for i < %d, j < %d\n}", m, n);
	Kernel *pack = read_kernel(
		c, a,
		arena_printf(a, "kernel @p(%%x: f32[%d,%d]) -> (%%y: f32[%d,%d]%s) %s", m, n, m, n,
			     layout, body));
	Kernel *unpack = read_kernel(
		c, a,
		arena_printf(a, "kernel @u(%%x: f32[%d,%d]%s) -> (%%y: f32[%d,%d]) %s", m, n,
			     layout, m, n, body));
	float *plain = NEW_ARRAY(a, m * n, float), *back = NEW_ARRAY(a, m * n, float);
	EvalOpts o = {0};

	for (int i = 0; i < m * n; i++)
		plain[i] = (float)i + 1;
	memset(packed, 7, elements * sizeof *packed);
	EvalBuf to[] = {{plain, NULL}, {packed, NULL}}, from[] = {{packed, NULL}, {back, NULL}};

	check_text(c, pack);
	CHECK(pack && eval_kernel(pack, &o, to, NULL) == EVAL_OK);
	CHECK(unpack && eval_kernel(unpack, &o, from, NULL) == EVAL_OK);
	CHECK(!memcmp(plain, back, (size_t)(m * n) * sizeof *plain));
	arena_free(a);
	ctx_free(c);
}

static void check_layout(void)
{
	float packed[3 * 5 * 16];

	pack_and_back("{1/16,0,1%16}", 5, 37, packed, sizeof packed / sizeof *packed);
	CHECK(packed[16] == 38 && packed[2 * 5 * 16 + 4] == 37 && packed[2 * 5 * 16 + 5] == 0);
}

/* The same, where both dims are several digits: of [k,n] blocks of 16 columns by 32 terms, in the order of fragments. */
static void check_digits(void)
{
	enum { K = 45, N = 21, BLOCK = 16 * 32 };
	float packed[4 * BLOCK];
	int zeros = 0;

	pack_and_back("{1/16,0/32,0/16%2,1%8,0/2%4,1/8%2,0/8%2,0%2}", K, N, packed,
		      sizeof packed / sizeof *packed);
	for (int i = 0; i < 4 * BLOCK; i++)
		zeros += packed[i] == 0;
	CHECK(zeros == 4 * BLOCK - K * N);
	/* Lane 4 * 3 + 2 of column 16 + 3 has terms 36, 37 and 44 of the second block, in the first half. */
	CHECK(packed[3 * BLOCK + 14 * 8] == 36 * N + 19 + 1);
	CHECK(packed[3 * BLOCK + 14 * 8 + 1] == 37 * N + 19 + 1);
	CHECK(packed[3 * BLOCK + 14 * 8 + 2] == 44 * N + 19 + 1);
	CHECK(packed[3 * BLOCK + 14 * 8 + 3] == 0);
	/* Lane 4 * 3 + 2 of column 8 + 3 in the first block has, of its second half, terms 20 and 28. */
	CHECK(packed[BLOCK / 2 + 14 * 8 + 4] == 20 * N + 11 + 1);
	CHECK(packed[BLOCK / 2 + 14 * 8 + 6] == 28 * N + 11 + 1);
}

/* A layout whose digits leave something out, overlap, or follow one another in none, is no layout. */
static void check_bad_layouts(void)
{
	static const char *const bad[] = {"{0}",          "{0,1/16}",    "{0,1%16}",
					  "{0,1/8,1%16}", "{0,1,1}",     "{0,1/16,1/4%2,1%4}",
					  "{0,1/0,1%4}",  "{0,1/1,1%1}", "{0,1/16,1%8,1%8}"};
	static const char *const good[] = {"{1,0}", "{0,1/16,1%16}", "{0,1/16,1/8%2,1%8}"};
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		StrBuf b = {0};
		const char *text;

		strbuf_printf(&b, "f32[5,37]%s", bad[i]);
		text = strbuf_str(&b);
		CHECK(!type_parse(c, &text));
		strbuf_free(&b);
	}
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		StrBuf b = {0}, again = {0};
		const char *text;
		const Type *t;

		strbuf_printf(&b, "f32[5,37]%s", good[i]);
		text = strbuf_str(&b);
		t = type_parse(c, &text);
		CHECK(t);
		if (t)
			type_print(&again, t);
		CHECK(!strcmp(strbuf_str(&b), strbuf_str(&again)));
		strbuf_free(&b);
		strbuf_free(&again);
	}
	ctx_free(c);
}

/* A contraction larger than every block of the blocked path, against loops in f64. */
static void check_blocks(int M, int N, int K)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(
		c, a,
		arena_printf(a,
			     "kernel @big(%%a: f32[%d,%d], %%b: f32[%d,%d]) -> "
			     "(%%y: f32[%d,%d]) {\n  y[m,n] = sum mul(a[m,k], b[n,k])"
			     " for m < %d, n < %d over k < %d\n}",
			     M, K, N, K, M, N, M, N, K));
	float *x = filled(k->bufs.at[0], M * K), *w = filled(k->bufs.at[1], N * K);
	float *y = filled(k->bufs.at[2], M * N);
	EvalBuf bufs[] = {{x, NULL}, {w, NULL}, {y, NULL}};
	EvalOpts o = {0};
	int wrong = 0;

	CHECK(eval_kernel(k, &o, bufs, NULL) == EVAL_OK);
	for (int i = 0; i < M; i++)
		for (int j = 0; j < N; j++) {
			float s = 0;

			for (int q = 0; q < K; q++)
				s += x[i * K + q] * w[j * K + q];
			wrong += s != y[i * N + j];
		}
	CHECK(!wrong);
	free(x);
	free(w);
	free(y);
	arena_free(a);
	ctx_free(c);
}

static void check_fault(void)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(c, a,
				"kernel @g(%x: f32[9], %i: i64[4]) -> (%y: f32[4]) {\n"
				"  y[j] = select(lt(j, 2), x[index(i[j], 9)], 0) for j < 4\n}");
	float x[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8}, y[4];
	int64_t i[4] = {-1, 3, 99, -99};
	EvalBuf bufs[] = {{x, NULL}, {i, NULL}, {y, NULL}};
	EvalOpts o = {0};
	Stmt *fault = NULL;

	CHECK(eval_kernel(k, &o, bufs, &fault) == EVAL_OK && !fault);
	CHECK(y[0] == 8 && y[1] == 3 && y[2] == 0);
	i[1] = 9;
	CHECK(eval_kernel(k, &o, bufs, &fault) == EVAL_INDEX && fault == k->stmts.at[0]);
	arena_free(a);
	ctx_free(c);
}

/* Bounds hold for a sum in f32 in any order, and pass through what follows. */
static void check_bounds(void)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(
		c, a,
		"kernel @b(%a: f32[8,500], %b: f32[500,9]) -> (%y: f32[8,9], %m: f32[8]) {\n"
		"  t: f32[8,9]\n"
		"  t[i,j] = sum mul(a[i,k], b[k,j]) for i < 8, j < 9 over k < 500\n"
		"  y[i,j] = mul(max(t[i,j], 0), 0.25) for i < 8, j < 9\n"
		"  m[i] = sum t[i,j] for i < 8 over j < 9\n}");
	static float x[8 * 500], w[500 * 9];
	float y[72], m[8], sum[72];
	double by[72], bm[8];
	EvalBuf bufs[] = {{x, NULL}, {w, NULL}, {y, by}, {m, bm}, {0}};
	EvalOpts o = {.bounds = true};

	for (int i = 0; i < 4000; i++)
		x[i] = (float)(random_bits() % 20001) * 1e-4f - 1;
	for (int i = 0; i < 4500; i++)
		w[i] = (float)(random_bits() % 20001) * 1e-4f - 1;
	CHECK(eval_kernel(k, &o, bufs, NULL) == EVAL_OK);
	for (int i = 0; i < 8; i++) {
		float total = 0;

		for (int j = 0; j < 9; j++) {
			float s = 0;
			double e;

			for (int q = 499; q >= 0; q--)
				s += x[i * 500 + q] * w[q * 9 + j];
			sum[i * 9 + j] = s;
			total += s;
			e = fabs((double)(s > 0 ? s * 0.25f : 0) - (double)y[i * 9 + j]);
			CHECK(e <= by[i * 9 + j]);
			CHECK(y[i * 9 + j] == 0 || (by[i * 9 + j] > 0 && by[i * 9 + j] < 0.01));
		}
		CHECK(fabs((double)total - (double)m[i]) <= bm[i] && bm[i] > 0 && bm[i] < 0.1);
	}
	(void)sum;
	arena_free(a);
	ctx_free(c);
}

/* Updates that meet are a sum: its bound holds in any order of theirs, also where large ones cancel at first. */
static void check_bounds_updates(void)
{
	enum { N = 400 };
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(c, a,
				"kernel @u(%v: f32[400], %i: i64[400]) -> (%y: f32[3]) {\n"
				"  y[k] = 0 for k < 3\n"
				"  y[i[j]] = update sum v[j] for j < 400\n}");
	float v[N], y[3], sum = 0;
	int64_t at[N];
	double by[3];
	EvalBuf bufs[] = {{v, NULL}, {at, NULL}, {y, by}, {0}};
	EvalOpts o = {.bounds = true};

	for (int i = 0; i < N; i++) {
		v[i] = i == 0 ? 0x1p27f : i == 1 ? -0x1p27f : 1;
		at[i] = 1;
	}
	CHECK(eval_kernel(k, &o, bufs, NULL) == EVAL_OK);
	sum += v[0];
	for (int i = N - 1; i > 0; i--)
		sum += v[i];
	CHECK(y[1] == N - 2 && sum == 0);
	CHECK(fabs((double)(y[1] - sum)) <= by[1] && by[1] <= 64.0 * (double)N);
	CHECK(by[0] == 0 && by[2] == 0);
	arena_free(a);
	ctx_free(c);
}

/* A bound that goes through a second contraction, a product and a prefix. */
static void check_bounds_chain(void)
{
	enum { N = 16, K = 300 };
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(
		c, a,
		"kernel @c(%a: f32[16,300], %b: f32[300,16]) -> "
		"(%y: f32[16,16], %p: f32[16], %s: f16[16,16]) {\n"
		"  t: f32[16,16]\n"
		"  t[i,j] = sum mul(a[i,k], b[k,j]) for i < 16, j < 16 over k < 300\n"
		"  y[i,j] = sum mul(t[i,l], max(t[l,j], 0)) for i < 16, j < 16 over l < 16\n"
		"  p[i] = prod t[i,l] for i < 16 over l < 16\n"
		"  s[i,l] = scan sum t[i,l] for i < 16 over l < 16\n}");
	static float x[N * K], w[K * N], t[N * N], y[N * N], p[N];
	uint16_t s[N * N];
	double by[N * N], bp[N], bs[N * N];
	EvalBuf bufs[] = {{x, NULL}, {w, NULL}, {y, by}, {p, bp}, {s, bs}, {0}};
	EvalOpts o = {.bounds = true};

	for (int i = 0; i < N * K; i++) {
		x[i] = (float)(random_bits() % 20001) * 1e-4f - 1;
		w[i] = (float)(random_bits() % 20001) * 1e-4f - 1;
	}
	CHECK(eval_kernel(k, &o, bufs, NULL) == EVAL_OK);
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++) {
			t[i * N + j] = 0;
			for (int q = K - 1; q >= 0; q--)
				t[i * N + j] += x[i * K + q] * w[q * N + j];
		}
	for (int i = 0; i < N; i++) {
		float product = 1, prefix = 0;

		for (int j = 0; j < N; j++) {
			float sum = 0;

			for (int q = N - 1; q >= 0; q--)
				sum += t[i * N + q] * (t[q * N + j] > 0 ? t[q * N + j] : 0);
			CHECK(fabs((double)sum - (double)y[i * N + j]) <= by[i * N + j]);
			CHECK(by[i * N + j] < 2);
			product *= t[i * N + N - 1 - j];
			prefix += t[i * N + j];
			CHECK(fabs((double)prefix - dtype_load_f64(DT_F16, s, i * N + j)) <=
			      bs[i * N + j]);
			CHECK(bs[i * N + j] < 0.2);
		}
		CHECK(fabs((double)product - (double)p[i]) <= bp[i]);
		CHECK(isfinite(bp[i]));
	}
	arena_free(a);
	ctx_free(c);
}

/* Bounds where shifting an operand moves nothing: at an extremum, where terms cancel, below the normal numbers. */
static void check_bounds_flat(void)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(c, a,
				"kernel @f(%x: f32[2]) -> (%y: f32[2], %z: f32[2], %s: f32[]) {\n"
				"  y[i] = mul(x[i], add(mul(x[i], 0.16666667), 0.5)) for i < 2\n"
				"  z[i] = sub(add(x[i], 1), 1) for i < 2\n"
				"  s[] = sum mul(x[i], 2e-38) over i < 2\n}");
	float x[2] = {-1.5f, 1e-4f}, y[2], z[2], s;
	double bx[2] = {1e-6, 1e-10}, by[2], bz[2], bs;
	EvalBuf bufs[] = {{x, bx}, {y, by}, {z, bz}, {&s, &bs}};
	EvalOpts o = {.bounds = true};

	CHECK(eval_kernel(k, &o, bufs, NULL) == EVAL_OK);
	CHECK(by[0] >= 0x1p-25 && by[0] < 1e-6);
	CHECK(bz[1] >= 0x1p-24 && bz[1] < 1e-6);
	x[0] = -1e-4f;
	bx[0] = bx[1] = 0;
	CHECK(eval_kernel(k, &o, bufs, NULL) == EVAL_OK);
	CHECK(bs > 0x1p-148 && bs < 1e-43);
	arena_free(a);
	ctx_free(c);
}

static void check_symbolic(const char *text, const char *const *in, int nin, const char *want)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(c, a, text);
	Dim *dims[16], *out[16] = {0};
	Dim *const *ins[1] = {dims};
	StrBuf b = {0};
	int64_t n = 0;

	for (int i = 0; i < nin; i++) {
		const char *p = in[i];

		dims[i] = dim_parse(c, &p);
	}
	CHECK(k);
	for (int i = 0; k && i < k->bufs.n; i++)
		if (k->bufs.at[i]->kind == BUF_OUT)
			n = numel(k->bufs.at[i], NULL);
	if (k && eval_symbolic(k, ins, out, (int)n))
		for (int i = 0; i < n; i++) {
			strbuf_puts(&b, i ? "; " : "");
			dim_print(&b, out[i]);
		}
	else
		strbuf_puts(&b, "none");
	if (strcmp(strbuf_str(&b), want)) {
		printf("%s\n  %s, not %s\n", text, strbuf_str(&b), want);
		failed++;
	}
	strbuf_free(&b);
	arena_free(a);
	ctx_free(c);
}

static void check_symbolics(void)
{
	static const char *const shape[] = {"B", "S", "768"};
	static const char *const scaled[] = {"H", "2*W"};

	check_symbolic("kernel @prod(%x: i64[3]) -> (%y: i64[]) {\n  y[] = prod x[i] over i < 3\n}",
		       shape, 3, "768*B*S");
	check_symbolic("kernel @cat(%x: i64[3]) -> (%y: i64[4]) {\n  y[i] = x[i] for i < 2\n"
		       "  y[3 - i] = ordered div(x[2], 12) for i < 2\n}",
		       shape, 3, "B; S; 64; 64");
	check_symbolic("kernel @pick(%x: i64[3]) -> (%y: i64[2]) {\n"
		       "  y[i] = select(eq(i, 0), 12, add(x[index(i - 1, 3)], 1)) for i < 2\n}",
		       shape, 3, "12; B + 1");
	check_symbolic("kernel @scale(%x: i64[2]) -> (%y: i64[2]) {\n"
		       "  y[i] = i64(floor(mul(f32(x[i]), 0.5))) for i < 2\n}",
		       scaled, 2, "floor(H, 2); W");
	check_symbolic("kernel @unknown(%x: i64[2]) -> (%y: i64[2]) {\n"
		       "  y[i] = i64(sqrt(f32(x[i]))) for i < 2\n}",
		       scaled, 2, "none");
}

/* ---- Speed: test_eval speed ---- */

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void time_kernel(const char *text, double work, const char *unit)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(c, a, text);
	EvalBuf bufs[16] = {0};
	EvalOpts o = {0};
	double t;

	for (int i = 0; i < k->bufs.n; i++)
		bufs[i].data = filled(k->bufs.at[i], numel(k->bufs.at[i], NULL));
	eval_kernel(k, &o, bufs, NULL);
	t = seconds();
	CHECK(eval_kernel(k, &o, bufs, NULL) == EVAL_OK);
	t = seconds() - t;
	printf("%-10s %8.4f s  %8.3f G%s/s\n", k->name, t, work / t * 1e-9, unit);
	for (int i = 0; i < k->bufs.n; i++)
		free(bufs[i].data);
	arena_free(a);
	ctx_free(c);
}

static void time_kernels(void)
{
	time_kernel("kernel @relu(%x: f32[1000,1000]) -> (%y: f32[1000,1000]) {\n"
		    "  y[i,j] = max(x[i,j], 0) for i < 1000, j < 1000\n}",
		    1e6, "points");
	time_kernel(
		"kernel @affine(%x: f32[64,56,56], %s: f32[64], %b: f32[64]) -> (%y: f32[64,56,56]) {\n"
		"  y[c,i,j] = max(add(mul(x[c,i,j], s[c]), b[c]), 0) for c < 64, i < 56, j < 56\n}",
		64 * 56 * 56, "points");
	time_kernel(
		"kernel @gelu(%x: f32[128,3072]) -> (%y: f32[128,3072]) {\n"
		"  y[i,j] = mul(mul(x[i,j], 0.5), add(erf(mul(x[i,j], 0.70710677)), 1)) for i < 128, j < 3072\n}",
		128 * 3072, "points");
	time_kernel("kernel @cast(%x: f32[1000,1000]) -> (%y: f16[1000,1000]) {\n"
		    "  y[i,j] = x[i,j] for i < 1000, j < 1000\n}",
		    1e6, "points");
	time_kernel("kernel @softsum(%x: f32[1536,128]) -> (%y: f32[1536]) {\n"
		    "  y[i] = sum exp(x[i,j]) for i < 1536 over j < 128\n}",
		    1536 * 128, "points");
	time_kernel("kernel @argmax(%x: f32[100,1000]) -> (%v: f32[100], %y: i64[100]) {\n"
		    "  v[i], y[i] = argmax_first x[i,j] | j for i < 100 over j < 1000\n}",
		    1e5, "points");
	time_kernel("kernel @matmul(%a: f32[512,768], %b: f32[768,768]) -> (%y: f32[512,768]) {\n"
		    "  y[m,n] = sum mul(a[m,k], b[k,n]) for m < 512, n < 768 over k < 768\n}",
		    512.0 * 768 * 768, "MAC");
	time_kernel(
		"kernel @conv(%x: f32[1,64,56,56], %w: f32[64,64,3,3]) -> (%y: f32[1,64,56,56]) {\n"
		"  y[n,o,h,v] = sum mul(x[n,c,h + r - 1,v + s - 1], w[o,c,r,s]) for n < 1, o < 64, h < 56, v < 56"
		" over c < 64, r < 3, s < 3 where inside(h + r - 1, 56) & inside(v + s - 1, 56)\n}",
		64.0 * 56 * 56 * 64 * 9, "MAC");
	time_kernel(
		"kernel @depthwise(%x: f32[1,64,56,56], %w: f32[64,3,3]) -> (%y: f32[1,64,56,56]) {\n"
		"  y[n,o,h,v] = sum mul(x[n,o,h + r - 1,v + s - 1], w[o,r,s]) for n < 1, o < 64, h < 56, v < 56"
		" over r < 3, s < 3 where inside(h + r - 1, 56) & inside(v + s - 1, 56)\n}",
		64.0 * 56 * 56 * 9, "MAC");
	time_kernel(
		"kernel @int8(%a: u8[256,512], %b: i8[512,256]) -> (%y: i32[256,256]) {\n"
		"  y[m,n] = sum mul(sub(a[m,k], 3), b[k,n]) for m < 256, n < 256 over k < 512\n}",
		256.0 * 256 * 512, "MAC");
	time_kernel("kernel @vector(%a: f32[2048], %b: f32[2048,1000]) -> (%y: f32[1000]) {\n"
		    "  y[n] = sum mul(a[k], b[k,n]) for n < 1000 over k < 2048\n}",
		    2048e3, "MAC");
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "speed")) {
		time_kernels();
		return failed != 0;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
		check_kernel(kernels[i]);
	check_layout();
	check_digits();
	check_bad_layouts();
	check_blocks(101, 1030, 261);
	check_blocks(4200, 7, 11);
	check_blocks(5, 2100, 5);
	check_fault();
	check_bounds();
	check_bounds_updates();
	check_bounds_chain();
	check_bounds_flat();
	check_symbolics();
	printf("%s\n", failed ? "FAILED" : "ok");
	return failed != 0;
}
