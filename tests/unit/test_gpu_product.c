/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on products on GPUs (passes/schedule/gpu/gemm_decide.c), without code generation: each
 * that is chosen or offered is printed, read back as the same text, legal, and gives a tree that
 * the verifier and the check of races accept, is read back, and computes in the interpreter, on
 * small integers, what eval computes from the kernel, at sizes around its tiles. Without any one of
 * its waits and barriers a tree is reported. Illegal edits are refused with the bound that they
 * break.
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

/* The product of operands of 16 bits whose rows are whole vectors: BY is along the terms or not. */
static Kernel *read_aligned(Ctx *c, Arena *a, const char *type, bool along)
{
	const char *text = arena_printf(
		a,
		"kernel @k(%%x: %s[M,8*N], %%y: %s[%s]) -> (%%z: f32[M,136]) {\n"
		"  z[m,n] = sum mul(x[m,k], y[%s]) for m < M, n < 136 over k < 8*N\n}",
		type, type, along ? "136,8*N" : "8*N,136", along ? "n,k" : "k,n");
	int line = 1;

	return kernel_parse(c, a, &text, &line);
}

static const char *wgmma_text(Arena *a, const char *type, int groups, int columns, int stages,
			      const char *hold)
{
	return arena_printf(
		a,
		"product mma wgmma_%s m grid warpgroup%d mma64 n grid mma%d k loop reg4 mma16 stage a:%s*%d b:%s*%d",
		type, groups, columns, hold, stages, hold, stages);
}

static Decision *wgmma_decision(const Target *t, Kernel *k, Arena *a, int stages, const char *hold)
{
	StrBuf why = {0};
	Decision *d = decision_parse(t, kernel_clone(k, a),
				     wgmma_text(a, "f16", 1, 128, stages, hold), &why);

	if (!d)
		decision_wrong(&test, "wgmma", hold, strbuf_str(&why));
	strbuf_free(&why);
	return d;
}

static void test_wgmma(void)
{
	static const int64_t aligned[][3] = {{1, 1, 1}, {1, 65, 9}, {1, 130, 24}};
	Diag diag = {.limit = 20, .out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	const Target *t = target_by_name("sm_90a");

	for (int i = 0; i < 8; i++) {
		const char *type = i % 2 ? "bf16" : "f16";
		Kernel *k = read_aligned(c, a, type, i / 2 % 2);
		StrBuf why = {0};
		const Decision *d = decision_parse(t, kernel_clone(k, a),
						   wgmma_text(a, type, i < 4 ? 1 : 2,
							      i < 4 ? 128 : 64, 2 + i % 3,
							      i == 2 ? "shared" : "async"),
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

/* Without any one of its waits and barriers, or with another count, a tree is reported. */
static void test_mutations(void)
{
	static const TreeMutation mutations[] = {{"sync wait", ""},
						 {"sync barrier", ""},
						 {"sync wait", "sync wait 3"},
						 {"sync fence", ""}};
	static const TreeMutation late = {"sync fence", NULL};
	enum { MUTATIONS = sizeof mutations / sizeof *mutations };
	Diag diag = {.limit = 20, .out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	const Target *t = target_of(a, 0);
	const Target *sm_90a = target_by_name("sm_90a");
	Kernel *k = read_kernel(c, a, 2, 0), /* the number of iterations is unknown */
		*rows = read_aligned(c, a, "f16", false);
	Decision d = {.strategy = STRATEGY_GPU_PRODUCT};
	StrBuf tree = {0};
	int tried = 0;

	gpu_product_choose(t, kernel_clone(k, a), &d);
	for (int stages = 2; stages <= 4; stages++) {
		tree = (StrBuf){0};
		d.gpu_product.variant[d.gpu_product.n - 1].stages = stages;
		schedule_print_bare(&tree, decision_tree(&test, t, k, &d, a));
		tried += decision_mutations(&test, c, k, strbuf_str(&tree), mutations, MUTATIONS);
		strbuf_free(&tree);
	}
	tree = (StrBuf){0};
	schedule_print_bare(&tree, decision_tree(&test, sm_90a, rows,
						 wgmma_decision(sm_90a, rows, a, 3, "async"), a));
	tried += decision_mutations(&test, c, rows, strbuf_str(&tree), mutations, MUTATIONS);
	tried += decision_mutations(&test, c, rows, strbuf_str(&tree), &late, 1);
	strbuf_free(&tree);
	if (tried < 22)
		printf("test_gpu_product.c: only %d mutations\n", tried), test.failed++;
	arena_free(a);
	ctx_free(c);
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
	k = read_aligned(c, a, "f16", false);
	decision_refused(&test, target_by_name("sm_90a"), k, refused_wgmma,
			 sizeof refused_wgmma / sizeof *refused_wgmma);
	decision_refused(&test, target_of(a, 0), k,
			 &(RefusedDecision){wgmma_text(a, "f16", 1, 64, 2, "async"),
					    "wgmma_f16 needs sm_90a"},
			 1);
	arena_free(a);
	ctx_free(c);
}

int main(void)
{
	for (int i = 0; i < FORMS * TYPES; i++)
		test_form(i / TYPES, i % TYPES);
	test_wgmma();
	test_mutations();
	test_refused();
	return test.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
