/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on attention on GPUs (passes/schedule/gpu/attention.c), without code generation: each
 * that is chosen or offered is printed, read back as the same text, legal, and gives a tree that
 * the verifier accepts, is read back, and computes in the interpreter, on small integers, what eval
 * computes from the kernel. Illegal edits are refused with the bound that they break.
 */
#include "codegen/targets.h"
#include "passes/schedule/gpu/gpu.h"
#include "tests/oracle/tree_decisions.h"

#include <stdio.h>
#include <stdlib.h>

/* %1$s: the type of operands. What follows the scores, and the indices of K and V, differ. */
static const struct AttentionText {
	const char *name, *args, *scores, *changed, *values;
} forms[] = {
	{"plain", "%%q: %1$s[G,M,16], %%k: %1$s[G,N,16], %%v: %1$s[G,N,8]",
	 "sum mul(q[g,m,c], k[g,n,c])", "s[g1,m1,n1]", "v[g4,n4,d]"},
	{"transposed", "%%q: %1$s[G,M,16], %%k: %1$s[G,16,N], %%v: %1$s[G,8,N]",
	 "sum mul(q[g,m,c], k[g,c,n])", "s[g1,m1,n1]", "v[g4,d,n4]"},
	{"masked", "%%q: %1$s[G,M,16], %%k: %1$s[G,N,16], %%v: %1$s[G,N,8], %%a: %1$s[M,N]",
	 "sum mul(q[g,m,c], k[g,n,c])", "select(le(n1, m1 + 40), add(s[g1,m1,n1], a[m1,n1]), -inf)",
	 "v[g4,n4,d]"},
	{"odd", "%%q: %1$s[M,G,13], %%k: %1$s[N,G,13], %%v: %1$s[N,G,8]",
	 "sum mul(q[m,g,c], k[n,g,c])", "mul(s[g1,m1,n1], 0.5)", "v[n4,g4,d]"},
};

enum { FORMS = sizeof forms / sizeof *forms };

static Kernel *read_kernel(Ctx *c, Arena *a, const struct AttentionText *f, const char *type)
{
	StrBuf b = {0};
	const char *text;
	const int width = strstr(f->args, "13]") ? 13 : 16;
	int line = 1;
	Kernel *k;

	strbuf_puts(&b, "kernel @a(");
	strbuf_printf(&b, f->args, type);
	strbuf_printf(
		&b,
		") -> (%%y: f32[G,M,8]) {\n  s: f32[G,M,N]\n  x: f32[G,M,N]\n  most: f32[G,M]\n  e: f32[G,M,N]\n"
		"  total: f32[G,M]\n  w: %s[G,M,N]\n  o: f32[G,M,8]\n  s[g,m,n] = %s for g < G, m < M, n < N over c < %d\n"
		"  x[g1,m1,n1] = %s for g1 < G, m1 < M, n1 < N\n  most[g2,m2] = max x[g2,m2,n2] for g2 < G, m2 < M over n2 < N\n"
		"  e[g3,m3,n3] = exp2(sub(x[g3,m3,n3], most[g3,m3])) for g3 < G, m3 < M, n3 < N\n"
		"  total[g5,m5] = sum e[g5,m5,n5] for g5 < G, m5 < M over n5 < N\n"
		"  w[g6,m6,n6] = e[g6,m6,n6] for g6 < G, m6 < M, n6 < N\n"
		"  o[g4,m4,d] = sum mul(w[g4,m4,n4], %s) for g4 < G, m4 < M, d < 8 over n4 < N\n"
		"  y[g7,m7,d7] = div(o[g7,m7,d7], max(total[g7,m7], 1)) for g7 < G, m7 < M, d7 < 8\n}",
		type, f->scores, width, f->changed, f->values);
	text = strbuf_str(&b);
	k = kernel_parse(c, a, &text, &line);
	strbuf_free(&b);
	return k;
}

/* Small integers; scores are even, at most 12. Keys of the first half are 0, so that maxima rise
 * from block to block. */
static void fill(const Buf *b, void *data, int64_t n, uint64_t *seed)
{
	for (int64_t i = 0; i < n; i++) {
		double v;

		*seed = *seed * 6364136223846793005u + 1442695040888963407u;
		v = (double)(*seed >> 62);
		v = b->name[0] == 'v'   ? v
		    : b->name[0] == 'a' ? -2 * v
		    : *seed >> 50 & 7   ? 0
					: 2 * (v > 1);
		dtype_store_f64(b->dtype, data, i, b->name[0] == 'k' && i < n / 2 ? 0 : v);
	}
}

static void emit_few(const Target *t, Kernel *k, const Decision *d, Schedule *s)
{
	gpu_attention_steps(t, k, d, &s->where);
	gpu_attention_emit(t, k, d, s);
}

static DecisionTest test = {.file = "test_gpu_attention.c", .fill = fill};

/* SIZES: two of many rows, and two of few. */
static void test_decision(Ctx *c, const Target *t, Kernel *k, const char *form, const Decision *d,
			  const int64_t (*sizes)[3], int nsizes)
{
	test.emit = gpu_attention_emit;
	decision_test(&test, c, t, k, form, d, sizes, nsizes);
	test.emit = emit_few;
	if (d->gpu.few.warps)
		decision_test(&test, c, t, k, form, d, sizes + 2, nsizes);
	test.emit = gpu_attention_emit;
}

static void test_form(const struct AttentionText *f, const char *type, const char *gpu)
{
	enum { MOST = 200, EVERY = 58, RUN = EVERY * 3, LEAST = 12 };
	static const int64_t sizes[][3] = {
		{1, 9, 1}, {1, 20, 70}, {2, 1, 130}, {1, 7, 300}, {1, 16, 1}};
	Diag diag = {.limit = 20, .out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	const Target *t = target_by_name(gpu);
	Kernel *k = read_kernel(c, a, f, type);
	Decision d = {.strategy = STRATEGY_GPU_ATTENTION}, *offered[MOST];
	int n;

	if (!k || !gpu_attention_choose(t, kernel_clone(k, a), &d)) {
		decision_wrong(&test, f->name, gpu, "is not taken");
	} else {
		test_decision(c, t, k, f->name, &d, sizes, 2);
		n = decisions_offer(t, k, &d, a, offered, MOST);
		if (n < LEAST)
			decision_wrong(&test, f->name, gpu, "few decisions are offered");
		for (int i = 0; i < n; i += EVERY)
			test_decision(c, t, k, f->name, offered[i], sizes + 1, i % RUN == 0);
	}
	arena_free(a);
	ctx_free(c);
}

/* ---- Mutations ---- */

static const TreeMutation mutations[] = {
	{"sync wait", ""},   {"sync commit", ""},    {"sync barrier", ""},
	{"sync wait", NULL}, {"sync barrier", NULL}, {"sync wait", "sync wait 3"},
	{"sync wait", "+1"},
};

/* Without any one of its waits, commits and barriers, with another count, or in another order, a
 * tree is reported. */
static void test_mutations(void)
{
	Diag diag = {.limit = 20, .out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	const Target *t = target_by_name("sm_80");
	Kernel *k = read_kernel(c, a, &forms[0], "f16");
	Decision d = {.strategy = STRATEGY_GPU_ATTENTION};
	int tried = 0;

	gpu_attention_choose(t, kernel_clone(k, a), &d);
	for (int stages = 1; stages <= 3; stages++) {
		d.gpu.all.stages = stages;
		tried += decision_mutations(&test, c, t, k, &d, mutations,
					    sizeof mutations / sizeof *mutations);
	}
	if (tried < 20)
		printf("test_gpu_attention.c: only %d mutations\n", tried), test.failed++;
	arena_free(a);
	ctx_free(c);
}

static const RefusedDecision refused[] = {
	{"attention tile 6x16", "expected \"mma\""},
	{"attention mma f16,bf17 q grid", "there is no instruction \"bf17\""},
	{"attention mma f16,f16 grid", "expected \"q\""},
	{"attention mma f16,f16 q grid warp0 stage", "\"warp0\" is not a digit"},
	{"attention mma f16,f16 q grid warp4 reg1 mma16 kv loop reg8 mma8 d reg1 mma16 e reg2 mma8 stage q:async k:asynch*2 v:async*2",
	 "expected \"shared\""},
	{"attention mma bf16,bf16 q grid warp4 reg1 mma16 kv loop reg8 mma8 d reg1 mma16 e reg2 mma8 stage q:async k:async*2 v:async*2",
	 "the instructions for these types are f16,f16"},
	{"attention mma f16,f16 q grid warp4 reg1 mma16 kv loop reg8 mma8 d reg1 mma16 e reg2 mma8 stage q:async k:async*2 v:async*3",
	 "k and v have 2 and 3 buffers"},
	{"attention mma f16,f16 q grid warp4 reg1 mma16 kv loop reg8 mma8 d reg1 mma16 e reg2 mma8 stage q:async k:async*9 v:async*9",
	 "9 buffers of k and v are more than 3"},
	{"attention mma f16,f16 q grid warp4 reg1 mma16 kv loop reg3 mma8 d reg1 mma16 e reg2 mma8 stage q:async k:async*2 v:async*2",
	 "24 keys of a block are not a multiple of 16"},
	{"attention mma f16,f16 q grid warp16 reg1 mma16 kv loop reg8 mma8 d reg1 mma16 e reg2 mma8 stage q:async k:async*2 v:async*2",
	 "16 warps of 1 fragments are more than 8 of 2"},
	{"attention mma f16,f16 q grid warp4 reg1 mma16 kv loop reg8 mma8 d reg2 mma16 e reg2 mma8 stage q:async k:async*2 v:async*2",
	 "32 terms by d and 16 columns by e are not this attention's 16 and 16"},
	{"attention mma f16,f16 q grid warp4 reg1 mma16 kv loop reg8 mma8 e reg2 mma8 stage q:async k:async*2 v:async*2",
	 "expected \"d\""},
	{"attention mma f16,f16 q grid warp4 reg1 mma16 kv loop reg8 mma8 d reg1 mma16 e reg2 mma8 stage q:async k:async*2 v:async*2 x",
	 "expected the end of the line"},
	{"tile 6x16", "expected a strategy: attention, product"},
};

static void test_refused(void)
{
	Diag diag = {.limit = 20, .out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(c, a, &forms[0], "f16");

	decision_refused(&test, target_by_name("sm_80"), k, refused,
			 sizeof refused / sizeof *refused);
	arena_free(a);
	ctx_free(c);
}

int main(void)
{
	static const char *const gpus[] = {"sm_80", "sm_75"}, *const types[] = {"f16", "f32"};

	for (int i = 0; i < FORMS * 2; i++)
		test_form(&forms[i / 2], types[i % 2], gpus[i % 3 == 0]);
	test_refused();
	test_mutations();
	return test.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
