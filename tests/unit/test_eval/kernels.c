/* SPDX-License-Identifier: Apache-2.0 */
/* Values of kernels, bit by bit equal to those of the simple interpreter: inputs are small
 * integers, so every sum is exact. */
#include "tests/unit/test_eval/parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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
	EvalFault fault = {0};

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
	EvalOpts o = {.sym = sym};

	CHECK(eval_kernel(k, &o, got, &fault) == EVAL_OK);
	plain_kernel(k, sym, want);
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

/* Computing bounds changes no value, whatever the inputs' bounds mean for indices and
 * conditions. */
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

/* A contraction larger than every block of the blocked path, compared with loops in f64. */
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
	EvalFault fault = {0};

	CHECK(eval_kernel(k, &o, bufs, &fault) == EVAL_OK && !fault.stmt);
	CHECK(y[0] == 8 && y[1] == 3 && y[2] == 0);
	i[1] = 9;
	CHECK(eval_kernel(k, &o, bufs, &fault) == EVAL_INDEX && fault.stmt == k->stmts.at[0]);
	CHECK(fault.index == 9 && fault.size == 9);
	arena_free(a);
	ctx_free(c);
}

/* In an empty buffer there is no index that could stand for one out of range. */
static void check_fault_in_empty(void)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(c, a,
				"kernel @g(%x: f32[0], %i: i64[2]) -> (%y: f32[2]) {\n"
				"  y[j] = x[index(i[j], 0)] for j < 2\n}");
	float x[1] = {0}, y[2];
	int64_t i[2] = {0, 1};
	EvalBuf bufs[] = {{x, NULL}, {i, NULL}, {y, NULL}};
	EvalOpts o = {0};
	EvalFault fault = {0};

	CHECK(eval_kernel(k, &o, bufs, &fault) == EVAL_INDEX && fault.stmt == k->stmts.at[0]);
	arena_free(a);
	ctx_free(c);
}

void check_kernels(void)
{
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
		check_kernel(kernels[i]);
	check_blocks(101, 1030, 261);
	check_blocks(4200, 7, 11);
	check_blocks(5, 2100, 5);
	check_fault();
	check_fault_in_empty();
}
