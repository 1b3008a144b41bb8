/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on products on GPUs (passes/schedule/gpu/gemm_decide.c): each that is chosen or offered
 * is printed, read back as the same text, legal, and gives a tree that the verifier and the check
 * of races accept, becomes LLVM IR, is read back, and computes in the interpreter, on small
 * integers, what eval computes from the kernel, at sizes around its tiles. Without any one of its
 * waits and barriers a tree is reported. Illegal edits are refused with the bound that they break.
 */
#include "codegen/targets.h"
#include "passes/schedule/gpu/gpu.h"
#include "tests/oracle/tree_decisions.h"

#include <stdio.h>
#include <stdlib.h>

/* %1$s: the type of operands, %2$s that of results. */
static const struct ProductText {
	const char *name, *text;
} forms[] = {
	{"rows",
	 "kernel @k(%%x: %1$s[M,48], %%y: %1$s[48,N], %%b: %2$s[N]) -> (%%z: %2$s[M,N]) {\n  s: %2$s[M,N]\n"
	 "  s[m,n] = sum mul(x[m,k], y[k,n]) for m < M, n < N over k < 48\n"
	 "  z[m1,n1] = add(s[m1,n1], b[n1]) for m1 < M, n1 < N\n}"},
	{"columns", "kernel @k(%%x: %1$s[48,M], %%y: %1$s[N,48]) -> (%%z: %2$s[N,M]) {\n"
		    "  z[n,m] = sum mul(x[k,m], y[n,k]) for n < N, m < M over k < 48\n}"},
	{"terms",
	 "kernel @k(%%x: %1$s[G,16,8*N], %%y: %1$s[G,8*N,32]) -> (%%z: %2$s[G,16,32]) {\n"
	 "  z[g,m,n] = sum mul(x[g,m,k], y[g,k,n]) for g < G, m < 16, n < 32 over k < 8*N\n}"},
	{"taps",
	 "kernel @k(%%x: %1$s[M,16,N + 2], %%y: %1$s[40,16,3]) -> (%%z: %2$s[M,40,N]) {\n"
	 "  z[b,c,n] = sum mul(x[b,i,n + t], y[c,i,t]) for b < M, c < 40, n < N over i < 16, t < 3\n}"},
};

enum { FORMS = sizeof forms / sizeof *forms };

static const struct {
	const char *in, *out, *gpu;
	bool tf32;
} types[] = {{"f16", "f32", "sm_80", false}, {"bf16", "f32", "sm_90a", false},
	     {"f32", "f32", "sm_80", false}, {"f32", "f32", "sm_80", true},
	     {"u8", "i32", "sm_80", false},  {"i8", "i32", "sm_75", false},
	     {"f16", "f32", "sm_75", false}};

enum { TYPES = sizeof types / sizeof *types };

static Kernel *read_kernel(Ctx *c, Arena *a, int form, int type)
{
	StrBuf b = {0};
	const char *text;
	int line = 1;
	Kernel *k;

	strbuf_printf(&b, forms[form].text, types[type].in, types[type].out);
	text = strbuf_str(&b);
	k = kernel_parse(c, a, &text, &line);
	strbuf_free(&b);
	return k;
}

static const Target *target_of(Arena *a, int type)
{
	const Target *t = target_by_name(types[type].gpu);
	Target *as = arena_copy(a, t, sizeof *t);
	Gpu *gpu = arena_copy(a, t->gpu, sizeof *gpu);

	gpu->rounds = types[type].tf32;
	as->gpu = gpu;
	return as;
}

static void fill(const Buf *b, void *data, int64_t n, uint64_t *seed)
{
	for (int64_t i = 0; i < n; i++) {
		*seed = *seed * 6364136223846793005u + 1442695040888963407u;
		dtype_store_f64(b->dtype, data, i, (double)(*seed >> 62));
	}
}

static DecisionTest test = {.file = "test_gpu_product.c", .fill = fill, .emit = gpu_product_emit};

static const int64_t sizes[][3] = {{1, 1, 1}, {2, 31, 9}, {1, 65, 33}, {1, 9, 17}};

enum { SIZES = sizeof sizes / sizeof *sizes };

static void test_form(int form, int type)
{
	enum { MOST = 200, EVERY = 43, RUN = EVERY * 2, LEAST = 8 };
	Diag diag = {.limit = 20, .out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	const Target *t = target_of(a, type);
	Kernel *k = read_kernel(c, a, form, type);
	Decision d = {.strategy = STRATEGY_GPU_PRODUCT}, *offered[MOST];
	int n;

	if (!k || !gpu_product_choose(t, kernel_clone(k, a), &d)) {
		decision_wrong(&test, forms[form].name, types[type].in, "is not taken");
	} else {
		n = (form + type) % 3;
		decision_test(&test, c, t, k, forms[form].name, &d, sizes + n, SIZES - n);
		n = decisions_offer(t, k, &d, a, offered, MOST);
		if (n < LEAST)
			decision_wrong(&test, forms[form].name, types[type].in,
				       "few decisions are offered");
		for (int i = 0; i < n; i += EVERY)
			decision_test(&test, c, t, k, forms[form].name, offered[i],
				      sizes + SIZES - 1, i % RUN == 0);
	}
	arena_free(a);
	ctx_free(c);
}

/* ---- wgmma ---- */

/* The product of operands of 16 bits whose rows are whole vectors of UNIT elements: BY is along the
 * terms or not. */
static Kernel *read_aligned(Ctx *c, Arena *a, const char *type, bool along, int unit)
{
	const int columns = 128 + unit;
	const char *text = arena_printf(
		a,
		"kernel @k(%%x: %s[M,%d*N], %%y: %s[%s]) -> (%%z: f32[M,%d]) {\n"
		"  z[m,n] = sum mul(x[m,k], y[%s]) for m < M, n < %d over k < %d*N\n}",
		type, unit, type,
		along ? arena_printf(a, "%d,%d*N", columns, unit)
		      : arena_printf(a, "%d*N,%d", unit, columns),
		columns, along ? "n,k" : "k,n", columns, unit);
	int line = 1;

	return kernel_parse(c, a, &text, &line);
}

static const char *wgmma_text(Arena *a, const char *type, int groups, int columns, int stages,
			      const char *hold, bool producers)
{
	return arena_printf(
		a,
		"product mma wgmma_%s m grid warpgroup%d mma64 n grid mma%d k loop reg4 mma16 stage a:%s*%d b:%s*%d%s",
		type, groups, columns, hold, stages, hold, stages, producers ? " producers 1" : "");
}

static Decision *wgmma_decision(const Target *t, Kernel *k, Arena *a, bool producers)
{
	StrBuf why = {0};
	Decision *d = decision_parse(t, kernel_clone(k, a),
				     wgmma_text(a, "f16", 1, 128, 3, "async", producers), &why);

	if (!d)
		decision_wrong(&test, "wgmma", "f16", strbuf_str(&why));
	strbuf_free(&why);
	return d;
}

static void test_wgmma(void)
{
	static const int64_t aligned[][3] = {{1, 1, 1}, {1, 65, 9}, {1, 130, 24}};
	static const int units[] = {8, 8, 8, 4, 2, 4, 2, 8}; /* copies of 16, 8 and 4 bytes */
	Diag diag = {.limit = 20, .out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	const Target *t = target_by_name("sm_90a");

	for (int i = 0; i < 8; i++) {
		const char *type = i % 2 ? "bf16" : "f16";
		Kernel *k = read_aligned(c, a, type, i / 2 % 2, units[i]);
		StrBuf why = {0};
		const Decision *d = decision_parse(
			t, kernel_clone(k, a),
			wgmma_text(a, type, i < 4 ? 1 : 2, i < 4 ? 128 : 64, 2 + i % 3,
				   i == 2 ? "shared" : "async", i % 3 > 0),
			&why);

		if (d)
			decision_test(&test, c, t, k, "wgmma", d, aligned, 3);
		else
			decision_wrong(&test, "wgmma", type, strbuf_str(&why));
		strbuf_free(&why);
	}
	arena_free(a);
	ctx_free(c);
}

/* ---- Mutations ---- */

/* Without any one of its waits, commits and barriers, or with a wait for one group less, a tree of
 * this type is reported: the first type's with each number of buffers, others' with one. Returns
 * how many were tried. */
static int test_mutations(int type)
{
	static const TreeMutation mutations[] = {{"sync wait", ""},
						 {"sync commit", ""},
						 {"sync barrier", ""},
						 {"sync wait", "+1"},
						 {"sync wait", "sync wait 3"}};
	enum { MUTATIONS = sizeof mutations / sizeof *mutations };
	Diag diag = {.limit = 20, .out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	const Target *t = target_of(a, type);
	Kernel *k = read_kernel(c, a, 2, type); /* the number of iterations is unknown */
	Decision d = {.strategy = STRATEGY_GPU_PRODUCT};
	int tried = 0;

	gpu_product_choose(t, kernel_clone(k, a), &d);
	for (int stages = type ? 2 + type % 3 : 2; stages <= (type ? 2 + type % 3 : 4); stages++) {
		d.gpu_product.variant[d.gpu_product.n - 1].s.stages = stages;
		tried += decision_mutations(&test, c, t, k, &d, mutations, MUTATIONS);
	}
	arena_free(a);
	ctx_free(c);
	return tried;
}

/* The same of trees for wgmma, with fences and, if some warps produce, mbarriers. */
static int test_wgmma_mutations(void)
{
	static const TreeMutation mutations[] = {{"sync wait", ""},
						 {"sync barrier", ""},
						 {"sync wait", "sync wait 3"},
						 {"sync fence", ""},
						 {"sync fence", NULL},
						 {"sync arrive", ""},
						 {"sync await", ""}};
	Diag diag = {.limit = 20, .out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	const Target *t = target_by_name("sm_90a");
	Kernel *k = read_aligned(c, a, "f16", false, 8);
	int tried = 0;

	for (int producers = 0; producers < 2; producers++)
		tried += decision_mutations(&test, c, t, k, wgmma_decision(t, k, a, producers),
					    mutations, sizeof mutations / sizeof *mutations);
	arena_free(a);
	ctx_free(c);
	return tried;
}

#define TILE(m, n, k, stage) \
	"product mma f16 m grid " m " mma16 n grid " n " mma8 k loop " k " mma16 stage " stage

static const RefusedDecision refused[] = {
	{"product tile 6x16", "expected \"mma\""},
	{TILE("warp2 reg2", "warp2 reg4", "reg2", "a:async*3 b:async*3 raster 8 x"),
	 "expected the end of the line"},
	{"product mma f17 m grid", "there is no instruction \"f17\""},
	{"product mma bf16 m grid warp2 reg2 mma16 n grid warp2 reg4 mma8 k loop reg2 mma16 stage a:shared*2 b:shared*2",
	 "the instruction for these types is f16"},
	{TILE("warp0 reg2", "warp2 reg4", "reg2", "a:async*3 b:async*3"),
	 "\"warp0\" is not a digit warp"},
	{TILE("warp2 reg2", "warp2 reg4", "reg2", "a:async*3 b:async*4"),
	 "a and b have 3 and 4 buffers"},
	{TILE("warp2 reg2", "warp2 reg4", "reg2", "a:async*1 b:shared*1"),
	 "1 buffers are not 2 to 8"},
	{TILE("warp2 reg2", "warp2 reg4", "reg2", "a:async*3 b:async*3"),
	 "b cannot be copied asynchronously"},
	{TILE("warp3 reg2", "warp2 reg4", "reg2", "a:async*2 b:shared*2"), "not powers of two"},
	{TILE("warp8 reg2", "warp8 reg4", "reg2", "a:async*2 b:shared*2"),
	 "more than 512 by 512 by 512"},
	{TILE("warp2 reg2", "warp2 reg4", "reg16", "a:async*2 b:shared*2"),
	 "are not 32 to 128 bytes"},
	{TILE("warp2 reg8", "warp2 reg8", "reg4", "a:async*8 b:shared*8"),
	 "shared memory are more than"},
	{TILE("warp1 reg8", "warp1 reg16", "reg2", "a:async*2 b:shared*2"),
	 "registers of a thread are more than"},
	{TILE("warp2 reg2", "warp2 reg4", "reg2", "a:async*2 b:shared*2 raster 8"),
	 "a multiple of raster 8"},
	{TILE("warp2 reg2", "warp2 reg4", "reg2", "a:async*2 b:shared*2 parts 7"),
	 "not a multiple of 7 parts"},
	{"product rows 8: skinny", "the last variant is not for all runs"},
};

#define WGMMA(m, n, k, hold) \
	"product mma wgmma_f16 m grid warpgroup" m " n grid mma" n " k loop " k " stage " hold

static const RefusedDecision refused_wgmma[] = {
	{"product mma wgmma_f16 m grid warp2 reg2 mma16", "\"warp2\" is not a digit warpgroup"},
	{WGMMA("2 mma16", "64", "reg4 mma16", "a:async*3 b:async*3"),
	 "the instruction has mma64 here, not mma16"},
	{WGMMA("2 mma64", "60", "reg4 mma16", "a:async*3 b:async*3"),
	 "60 columns are not a multiple of 8"},
	{WGMMA("1 mma64", "512", "reg4 mma16", "a:async*3 b:async*3"),
	 "512 columns of an instruction are more than 256"},
	{WGMMA("1 mma64", "64", "reg2 mma16", "a:async*3 b:async*3"),
	 "rows of 64 bytes are not multiples of 128"},
	{WGMMA("1 mma64", "32", "reg4 mma16", "a:async*3 b:async*3"),
	 "rows of 64 bytes are not multiples of 128"},
	{WGMMA("8 mma64", "64", "reg4 mma16", "a:async*3 b:async*3"),
	 "more than 512 by 512 by 512"},
	{WGMMA("2 mma64", "256", "reg4 mma16", "a:async*5 b:async*5"),
	 "shared memory are more than"},
	{WGMMA("1 mma64", "64", "reg4 mma16", "a:async*2 b:async*2 producers 1"),
	 "at least 3 buffers"},
	{WGMMA("1 mma64", "64", "reg4 mma16", "a:async*3 b:async*3 producers 2"),
	 "at most 1 warpgroup"},
	{"product mma wgmma_bf16 m grid warpgroup1 mma64 n grid mma64 k loop reg4 mma16 stage a:async*3 b:async*3",
	 "the instruction for these types is f16"},
};

static void test_refused(void)
{
	Diag diag = {.limit = 20, .out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(c, a, 0, 0);

	decision_refused(&test, target_of(a, 0), k, refused, sizeof refused / sizeof *refused);
	k = read_aligned(c, a, "f16", false, 8);
	decision_refused(&test, target_by_name("sm_90a"), k, refused_wgmma,
			 sizeof refused_wgmma / sizeof *refused_wgmma);
	decision_refused(&test, target_of(a, 0), k,
			 &(RefusedDecision){wgmma_text(a, "f16", 1, 64, 2, "async", false),
					    "wgmma_f16 needs sm_90a"},
			 1);
	arena_free(a);
	ctx_free(c);
}

int main(void)
{
	int tried = 0;

	for (int i = 0; i < FORMS * TYPES; i++)
		test_form(i / TYPES, i % TYPES);
	test_wgmma();
	for (int i = 0; i < TYPES; i++)
		tried += test_mutations(i);
	tried += test_wgmma_mutations();
	if (tried < 100)
		printf("test_gpu_product.c: only %d mutations\n", tried), test.failed++;
	test_refused();
	return test.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
