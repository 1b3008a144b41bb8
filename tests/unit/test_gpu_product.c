/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on products on GPUs (passes/schedule/gpu/gemm_decide.c), without code generation: each that is chosen or offered
 * is printed, read back as the same text, legal, and gives a tree that the verifier and the check of races accept, is read
 * back, and computes in the interpreter, on small integers, what eval computes from the kernel, at sizes around its
 * tiles. Without any one of its waits and barriers a tree is reported. Illegal edits are refused with the bound that
 * they break.
 */
#include "codegen/targets.h"
#include "ir/eval/eval.h"
#include "ir/eval/eval_tiles.h"
#include "passes/schedule/common/decision.h"
#include "passes/schedule/common/loops.h"
#include "passes/schedule/gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>

static int failed;

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

static void wrong(const char *form, const char *decision, const char *what)
{
	failed++;
	printf("test_gpu_product.c: %s:%s: %s\n", form, decision, what);
}

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

/* Null if S computes what its kernel ORIGINAL says with G, M and N; else what is wrong. */
static const char *compare(Ctx *c, Arena *a, Kernel *original, const Schedule *s,
			   const int64_t *want)
{
	static const char *const names[] = {"G", "M", "N"};
	int64_t *sym = NEW_ARRAY(a, sym_count(c) + 1, int64_t), n = 0;
	EvalBuf *bufs = NEW_ARRAY(a, original->bufs.n + 1, EvalBuf);
	void **memory = NEW_ARRAY(a, s->kernel->bufs.n + 1, void *), *got = NULL;
	uint64_t seed = 7;
	const char *fault;
	int y = 0;

	for (int i = 0; i < 3; i++)
		sym[sym_get(c, names[i])->id] = want[i];
	for (int i = 0; i < original->bufs.n; i++) {
		const Buf *b = original->bufs.at[i];

		if (b->kind == BUF_TEMP)
			continue;
		dim_eval(buf_numel(c, b), sym, &n);
		bufs[i].data = arena_alloc(a, (size_t)n * 4 + 16);
		memory[i] = bufs[i].data;
		if (b->kind == BUF_IN)
			fill(b, bufs[i].data, n, &seed);
		else
			memory[y = i] = got = arena_alloc(a, (size_t)n * 4 + 16);
	}
	fault = tiles_run(s, &(TileRun){sym, memory});
	if (fault)
		return fault;
	if (eval_kernel(original, &(EvalOpts){.sym = sym}, bufs, NULL) != EVAL_OK)
		return "eval";
	dim_eval(buf_numel(c, original->bufs.at[y]), sym, &n);
	return memcmp(got, bufs[y].data, (size_t)n * 4) ? "another result than eval's" : NULL;
}

/* The tree of D's last variant for K, a copy of the kernel. */
static Schedule *tree_of(const Target *t, Kernel *k, const Decision *d)
{
	Schedule *s = NEW(k->arena, Schedule);

	s->kernel = k;
	gpu_product_emit(t, k, d, s);
	l_tidy(s);
	schedule_settle(s, k);
	return s;
}

static const int64_t sizes[][3] = {{1, 1, 1}, {2, 31, 9}, {1, 65, 33}, {1, 9, 17}};

enum { SIZES = sizeof sizes / sizeof *sizes };

/* D as text is read back as the same text, and its tree, as text, too. Runs it at the sizes from FIRST on. */
static void test_decision(Ctx *c, const Target *t, Kernel *k, const char *form, const Decision *d,
			  int first)
{
	Arena *a = arena_new();
	StrBuf text = {0}, back = {0}, why = {0}, tree = {0}, tree_back = {0};
	Schedule *s, *r;
	const Decision *read;

	decision_print(&text, kernel_clone(k, a), d);
	read = decision_parse(t, kernel_clone(k, a), strbuf_str(&text), &why);
	if (!read) {
		wrong(form, strbuf_str(&text), strbuf_str(&why));
	} else {
		decision_print(&back, kernel_clone(k, a), read);
		if (strcmp(strbuf_str(&text), strbuf_str(&back)))
			wrong(form, strbuf_str(&text), strbuf_str(&back));
		s = tree_of(t, kernel_clone(k, a), read);
		if (!tiles_verify(s, c->diag) || !tiles_check(c, s, c->diag))
			wrong(form, strbuf_str(&text), "the verifier refuses the tree");
		schedule_print_bare(&tree, s);
		r = schedule_parse_bare(kernel_clone(k, a), strbuf_str(&tree));
		if (r && tiles_verify(r, c->diag)) {
			s = r; /* what was read is run, too */
			tree.n = 0;
			schedule_print_bare(&tree, r);
			r = schedule_parse_bare(kernel_clone(k, a), strbuf_str(&tree));
		}
		if (r)
			schedule_print_bare(&tree_back, r);
		if (strcmp(strbuf_str(&tree), strbuf_str(&tree_back)))
			wrong(form, strbuf_str(&tree), strbuf_str(&tree_back));
		for (int i = first; i < SIZES; i++) {
			const char *fault = compare(c, a, k, s, sizes[i]);

			if (fault)
				wrong(form, strbuf_str(&text), fault);
		}
	}
	strbuf_free(&text);
	strbuf_free(&back);
	strbuf_free(&why);
	strbuf_free(&tree);
	strbuf_free(&tree_back);
	arena_free(a);
}

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
		wrong(forms[form].name, types[type].in, "is not taken");
	} else {
		test_decision(c, t, k, forms[form].name, &d, (form + type) % 3);
		n = decisions_offer(t, k, &d, a, offered, MOST);
		if (n < LEAST)
			wrong(forms[form].name, types[type].in, "few decisions are offered");
		for (int i = 0; i < n; i += EVERY)
			test_decision(c, t, k, forms[form].name, offered[i],
				      i % RUN ? SIZES : SIZES - 1);
	}
	arena_free(a);
	ctx_free(c);
}

/* ---- Mutations ---- */

/* TREE without its WHICH-th line that begins with LINE after its indentation, in *B; false: there is none. AS: the line
 * becomes this. */
static bool mutate(const char *tree, const char *line, const char *as, int which, StrBuf *b)
{
	for (const char *at = tree; *at; at += strcspn(at, "\n") + 1) {
		const char *word = at + strspn(at, " "), *end = at + strcspn(at, "\n") + 1;

		if (!str_starts(word, line) || which--)
			continue;
		strbuf_put(b, tree, (size_t)(at - tree));
		if (as)
			strbuf_printf(b, "%*s%s\n", (int)(word - at), "", as);
		strbuf_puts(b, end);
		return true;
	}
	return false;
}

static bool is_reported(Ctx *c, Kernel *k, const char *tree)
{
	Arena *a = arena_new();
	Kernel *copy = kernel_clone(k, a);
	Diag quiet = {.out = NULL};
	Schedule *s;
	bool reported;

	for (int i = 0; i < copy->bufs.n; i++)
		copy->bufs.at[i]->id = i;
	s = schedule_parse_bare(copy, tree);
	reported = s && !tiles_check(c, s, &quiet);
	if (!s)
		wrong("mutation", tree, "is not read");
	arena_free(a);
	return reported;
}

/* Without any one of its waits and barriers, or with another count, a tree is reported. */
static void test_mutations(void)
{
	static const struct {
		const char *line, *as;
	} mutations[] = {{"sync wait", NULL}, {"sync barrier", NULL}, {"sync wait", "sync wait 3"}};
	Diag diag = {.limit = 20, .out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	const Target *t = target_of(a, 0);
	Kernel *k = read_kernel(c, a, 2, 0); /* the number of iterations is unknown */
	Decision d = {.strategy = STRATEGY_GPU_PRODUCT};
	int tried = 0;

	gpu_product_choose(t, kernel_clone(k, a), &d);
	for (int stages = 2; stages <= 4; stages++) {
		StrBuf tree = {0};

		d.gpu_product.variant[d.gpu_product.n - 1].stages = stages;
		schedule_print_bare(&tree, tree_of(t, kernel_clone(k, a), &d));
		for (size_t m = 0; m < sizeof mutations / sizeof *mutations; m++)
			for (int which = 0;; which++, tried++) {
				StrBuf b = {0};

				if (!mutate(strbuf_str(&tree), mutations[m].line, mutations[m].as,
					    which, &b))
					break;
				if (!is_reported(c, k, strbuf_str(&b)))
					wrong("mutation", mutations[m].line, strbuf_str(&b));
				strbuf_free(&b);
			}
		strbuf_free(&tree);
	}
	if (tried < 15)
		printf("test_gpu_product.c: only %d mutations\n", tried), failed++;
	arena_free(a);
	ctx_free(c);
}

#define TILE(m, n, k, stage) \
	"product mma f16 m grid " m " mma16 n grid " n " mma8 k loop " k " mma16 stage " stage

static const struct {
	const char *decision, *why;
} refused[] = {
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

static void test_refused(void)
{
	Diag diag = {.limit = 20, .out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(c, a, 0, 0);

	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		StrBuf why = {0};
		const Decision *d = decision_parse(target_of(a, 0), kernel_clone(k, a),
						   refused[i].decision, &why);

		if (d || !strstr(strbuf_str(&why), refused[i].why))
			wrong("refused", refused[i].decision, d ? "is accepted" : strbuf_str(&why));
		strbuf_free(&why);
	}
	arena_free(a);
	ctx_free(c);
}

int main(void)
{
	for (int i = 0; i < FORMS * TYPES; i++)
		test_form(i / TYPES, i % TYPES);
	test_mutations();
	test_refused();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
