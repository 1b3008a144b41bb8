/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how fast kernels are interpreted. */
#include "tests/unit/test_eval/parts.h"

#include <stdlib.h>
#include <time.h>

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

void time_kernels(void)
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
