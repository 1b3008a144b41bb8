/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of kernels whose counts anyone can work out. */
#include "tests/ptxsim/check/gpu.h"

#include <stdio.h>
#include <string.h>

static void expect(const char *kernel, const char *name, uint64_t want)
{
	uint64_t got = ptxsim_counter(kernel, name);

	if (got != want)
		wrong("%s of %s is %llu, not %llu", name, kernel, (unsigned long long)got,
		      (unsigned long long)want);
}

/* A copy of THREADS elements of WIDTH bytes: sectors of each warp's load, and the fewest. */
static void copy(const char *kernel, int width, int stride, int offset, uint64_t sectors,
		 uint64_t fewest)
{
	enum { B = 4, THREADS = B * 64, WARPS = THREADS / 32 };
	static float in[THREADS * 4 * 34];
	CUdeviceptr p = put(in, sizeof in), q = put(NULL, (size_t)THREADS * (size_t)width);

	ptxsim_stats_clear();
	OK(launch(function("cuda/counts", kernel), B, 64, 0, &p, &q, &stride, &offset, NULL));
	expect(kernel, "global_load_requests", WARPS);
	expect(kernel, "global_load_sectors", WARPS * sectors);
	expect(kernel, "global_load_sectors_fewest", WARPS * fewest);
	expect(kernel, "global_load_bytes", (uint64_t)(THREADS * width));
	expect(kernel, "global_store_sectors", (uint64_t)(WARPS * width));
	expect(kernel, "global_store_sectors_fewest", (uint64_t)(WARPS * width));
}

static void coalesced(void)
{
	copy("copy", 4, 1, 0, 4, 4);
	copy("copy4", 16, 1, 0, 16, 16);
}

static void strided(void)
{
	copy("copy", 4, 2, 0, 8, 4);
	copy("copy", 4, 8, 0, 32, 4);
	copy("copy", 4, 32, 0, 32, 4);
	copy("copy", 4, 0, 0, 1, 1);
	copy("copy4", 16, 2, 0, 32, 16);
}

static void shifted(void)
{
	copy("copy", 4, 1, 1, 5, 4);
	copy("copy", 4, 1, 8, 4, 4);
	copy("copy4", 16, 1, 1, 17, 16);
}

/* One load of shared memory by 32 threads. */
static void banks(const char *kernel, int width, int stride, int xor_mask, uint64_t conflicts)
{
	CUdeviceptr q = put(NULL, 32 * (size_t)width);
	unsigned bytes = (unsigned)(32 * width * (stride ? stride : 1));

	ptxsim_stats_clear();
	OK(launch(function("cuda/counts", kernel), 1, 32, bytes, &q, &stride, &xor_mask, NULL));
	expect(kernel, "shared_load_requests", 1);
	expect(kernel, "shared_load_bytes", (uint64_t)(32 * width));
	expect(kernel, "shared_load_conflicts", conflicts);
	expect(kernel, "shared_store_conflicts", 0);
}

static void conflicts(void)
{
	banks("banks1", 4, 1, 0, 0);
	banks("banks1", 4, 0, 0, 0);
	banks("banks1", 4, 2, 0, 1);
	banks("banks1", 4, 3, 0, 0);
	banks("banks1", 4, 4, 0, 3);
	banks("banks1", 4, 32, 0, 31);
	banks("banks1", 4, 33, 0, 0);
	banks("banks1", 4, 1, 5, 0);
}

/* Two phases of 16 threads, four of 8. */
static void wide_conflicts(void)
{
	banks("banks2", 8, 1, 0, 0);
	banks("banks2", 8, 2, 0, 2);
	banks("banks2", 8, 16, 0, 30);
	banks("banks4", 16, 1, 0, 0);
	banks("banks4", 16, 2, 0, 4);
	banks("banks4", 16, 8, 0, 28);
	banks("bytes", 1, 1, 0, 0);
	banks("bytes", 1, 4, 0, 0);
	banks("bytes", 1, 8, 0, 1);
}

/* ---- Instructions ---- */

static const char *const counted = ".version 7.0\n.target sm_80\n.address_size 64\n"
				   ".entry counted(.param .u64 out)\n{\n"
				   "	.reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %d<4>; .reg "
				   ".f32 %f<4>; .reg .b16 %h<4>;\n"
				   "	.shared .align 4 .b8 s[128];\n"
				   "	ld.param.u64 %d1, [out];\n" /* load */
				   "	mov.u32 %r1, %tid.x;\n"     /* move */
				   "	setp.lt.u32 %p1, %r1, 8;\n" /* integer */
				   "	@!%p1 bra SKIP;\n"          /* control: 24 lanes take it */
				   "	cvt.rn.f32.u32 %f1, %r1;\n" /* convert, 8 lanes */
				   "	fma.rn.f32 %f2, %f1, %f1, %f1;\n" /* float, 8 */
				   "SKIP:\n"
				   "	bar.sync 0;\n"                            /* sync */
				   "	@%p1 mov.b32 %r2, 7;\n"                   /* move, 8 */
				   "	mov.b16 %h1, 0x3c00;\n"                   /* move */
				   "	add.f16 %h2, %h1, %h1;\n"                 /* half */
				   "	mul.wide.u32 %d2, %r1, 4;\n"              /* integer */
				   "	add.s64 %d3, %d1, %d2;\n"                 /* integer */
				   "	st.global.u32 [%d3], %r1;\n"              /* store */
				   "	shfl.sync.idx.b32 %r3, %r1, 0, 31, -1;\n" /* warp */
				   "	red.global.add.u32 [%d3], %r3;\n"         /* atomic */
				   "	ret;\n}\n";                               /* control */

static void instructions(void)
{
	CUmodule m;
	CUfunction f;
	CUdeviceptr q = put(NULL, 128);
	void *params[] = {&q};
	static const struct {
		const char *name;
		uint64_t want;
	} rows[] = {
		{"inst.load", 32},           {"inst.move", 72},         {"inst.integer", 96},
		{"inst.control", 56},        {"inst.convert", 8},       {"inst.float", 8},
		{"inst.sync", 32},           {"inst.half", 32},         {"inst.store", 32},
		{"inst.warp", 32},           {"inst.atomic", 32},       {"inst.matrix", 0},
		{"inst.async", 0},           {"warp_instructions", 16}, {"barriers", 1},
		{"global_load_requests", 0},
	};

	OK(cuModuleLoadDataEx(&m, counted, 0, NULL, NULL));
	OK(cuModuleGetFunction(&f, m, "counted"));
	for (uint64_t seed = 0; seed < 8; seed++) {
		ptxsim_seed(seed);
		ptxsim_stats_clear();
		OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
		OK(cuCtxSynchronize());
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
			expect("counted", rows[i].name, rows[i].want);
	}
}

/* Counters are the same under every seed, in whatever order things ran. */
static void repeatable(void)
{
	static const char *const names[] = {
		"inst.integer",          "inst.control",      "inst.load",
		"warp_instructions",     "barriers",          "global_load_sectors",
		"shared_load_conflicts", "shared_store_bytes"};
	enum { N_NAMES = sizeof names / sizeof *names };
	uint64_t first[2][N_NAMES];
	int n = 3000;
	CUdeviceptr p = put(NULL, (size_t)n * 4), q = put(NULL, 64);

	OK(cuMemsetD32_v2(p, 0, (size_t)n));
	for (uint64_t seed = 0; seed < 8; seed++) {
		ptxsim_seed(seed);
		ptxsim_stats_clear();
		OK(launch(function("cuda/basic", "collatz"), 24, 128, 0, &p, &n, NULL));
		OK(launch(function("cuda/basic", "tree_sum"), 4, 128, 512, &p, &q, &n, NULL));
		for (int i = 0; i < N_NAMES; i++) {
			uint64_t a = ptxsim_counter("collatz", names[i]),
				 b = ptxsim_counter("tree_sum", names[i]);
			if (seed && (a != first[0][i] || b != first[1][i]))
				wrong("%s differs under seed %d", names[i], (int)seed);
			first[0][i] = a;
			first[1][i] = b;
		}
	}
}

const Case count_cases[] = {
	{"count: coalesced copies", coalesced},
	{"count: strides", strided},
	{"count: shifts", shifted},
	{"count: bank conflicts", conflicts},
	{"count: wide bank conflicts", wide_conflicts},
	{"count: instructions", instructions},
	{"count: the same every run", repeatable},
	{NULL, NULL},
};
