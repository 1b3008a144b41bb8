/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on attention on GPUs (passes/schedule/gpu/attention.c), without code generation: each that is chosen or
 * offered is printed, read back as the same text, legal, and gives a tree that the verifier accepts, is read back, and
 * computes in the interpreter, on small integers, what eval computes from the kernel. Illegal edits
 * are refused with the bound that they break.
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

/* Small integers; scores are even, at most 12. Keys of the first half are 0, so that maxima rise from block to block. */
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
	for (int i = original->bufs.n; i < s->kernel->bufs.n; i++) {
		const Buf *b = s->kernel->bufs.at[i]; /* partial results */

		if (b->kind != BUF_TEMP || b->tile || b->data)
			continue;
		dim_eval(buf_numel(c, b), sym, &n);
		memory[b->id] = memset(arena_alloc(a, (size_t)n * 4 + 16), 255, (size_t)n * 4);
	}
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

static void wrong(const char *form, const char *decision, const char *what)
{
	failed++;
	printf("test_gpu_attention.c: %s:%s: %s\n", form, decision, what);
}

/* A copy of K with the partial results of FROM. */
static Kernel *with_parts(Kernel *k, const Kernel *from, Arena *a)
{
	Kernel *copy = kernel_clone(k, a);

	for (int i = k->bufs.n; i < from->bufs.n; i++) {
		const Buf *b = from->bufs.at[i];

		if (b->kind == BUF_TEMP && !b->tile && !b->data)
			kernel_temp(copy, b->name, b->dtype, b->rank, b->dims);
	}
	return copy;
}

/* D as text is read back as the same text, and its tree, for few rows or all, as text, too. Runs it at the NSIZES
 * sizes. */
static void test_variant(Ctx *c, const Target *t, Kernel *k, const char *form, const Decision *d,
			 bool few, const int64_t (*sizes)[3], int nsizes)
{
	Arena *a = arena_new();
	Kernel *copy = kernel_clone(k, a), *again;
	StrBuf text = {0}, back = {0}, why = {0}, tree = {0}, tree_back = {0};
	Schedule *s = NEW(a, Schedule), *r;
	Decision *read;

	decision_print(&text, kernel_clone(k, a), d);
	read = decision_parse(t, kernel_clone(k, a), strbuf_str(&text), &why);
	if (!read) {
		wrong(form, strbuf_str(&text), strbuf_str(&why));
	} else {
		decision_print(&back, kernel_clone(k, a), read);
		if (strcmp(strbuf_str(&text), strbuf_str(&back)))
			wrong(form, strbuf_str(&text), strbuf_str(&back));
		s->kernel = copy;
		if (few)
			gpu_attention_steps(t, copy, read, &s->where);
		gpu_attention_emit(t, copy, read, s);
		l_tidy(s);
		schedule_settle(s, k);
		again = with_parts(k, copy, a);
		if (!tiles_verify(s, c->diag) || !tiles_check(c, s, c->diag))
			wrong(form, strbuf_str(&text), "the verifier refuses the tree");
		schedule_print_bare(&tree, s);
		r = schedule_parse_bare(again, strbuf_str(&tree));
		if (r && tiles_verify(r, c->diag)) {
			s = r; /* what was read is run, too */
			tree.n = 0;
			schedule_print_bare(&tree, r);
			r = schedule_parse_bare(with_parts(k, again, a), strbuf_str(&tree));
		}
		if (r)
			schedule_print_bare(&tree_back, r);
		if (strcmp(strbuf_str(&tree), strbuf_str(&tree_back)))
			wrong(form, strbuf_str(&tree), strbuf_str(&tree_back));
	}
	for (int i = 0; read && i < nsizes; i++) {
		const char *fault = compare(c, a, k, s, sizes[i]);

		if (fault)
			wrong(form, strbuf_str(&text), fault);
	}
	strbuf_free(&text);
	strbuf_free(&back);
	strbuf_free(&why);
	strbuf_free(&tree);
	strbuf_free(&tree_back);
	arena_free(a);
}

/* SIZES: two of many rows, and two of few. */
static void test_decision(Ctx *c, const Target *t, Kernel *k, const char *form, const Decision *d,
			  const int64_t (*sizes)[3], int nsizes)
{
	test_variant(c, t, k, form, d, false, sizes, nsizes);
	if (d->gpu.few.ndigits)
		test_variant(c, t, k, form, d, true, sizes + 2, nsizes);
}

static void test_form(const struct AttentionText *f, const char *type, const char *gpu)
{
	enum { MOST = 200, EVERY = 29, RUN = 29 * 3, LEAST = 12 };
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
		wrong(f->name, gpu, "is not taken");
	} else {
		test_decision(c, t, k, f->name, &d, sizes, 2);
		n = decisions_offer(t, k, &d, a, offered, MOST);
		if (n < LEAST)
			wrong(f->name, gpu, "few decisions are offered");
		for (int i = 0; i < n; i += EVERY)
			test_decision(c, t, k, f->name, offered[i], sizes + 1, i % RUN == 0);
	}
	arena_free(a);
	ctx_free(c);
}

/* ---- Mutations ---- */

typedef struct Mutation {
	const char *line; /* the line that begins so, after its indentation, */
	const char *as;   /* becomes this; null: moves behind the next line; "": goes */
} Mutation;

static const Mutation mutations[] = {
	{"sync wait", ""},   {"sync commit", ""},    {"sync barrier", ""},
	{"sync wait", NULL}, {"sync barrier", NULL}, {"sync wait", "sync wait 3"},
};

/* TREE with mutation M of its WHICH-th line of this kind, in *B; false: there is none. */
static bool mutate(const char *tree, const Mutation *m, int which, StrBuf *b)
{
	for (const char *at = tree; *at; at += strcspn(at, "\n") + 1) {
		const char *line = at + strspn(at, " "), *end = at + strcspn(at, "\n") + 1,
			   *next = end + strcspn(end, "\n") + 1;
		const int indent = (int)(line - at);

		if (!str_starts(line, m->line) || which--)
			continue;
		strbuf_put(b, tree, (size_t)(at - tree));
		if (!m->as) /* the two lines change places */
			strbuf_printf(b, "%.*s%.*s%s", (int)(next - end), end, (int)(end - at), at,
				      next);
		else if (!*m->as)
			strbuf_puts(b, end);
		else
			strbuf_printf(b, "%*s%s\n%s", indent, "", m->as, end);
		return true;
	}
	return false;
}

/* Whether the check reports TREE. */
static bool is_reported(Ctx *c, Kernel *k, const char *tree)
{
	Arena *a = arena_new();
	Kernel *copy = kernel_clone(k, a);
	Schedule *s;
	Diag quiet = {.out = NULL};
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

/* Without any one of its waits, commits and barriers, with another count, or in another order, a tree is
 * reported. */
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
		Kernel *copy = kernel_clone(k, a);
		Schedule *s = NEW(a, Schedule);
		StrBuf tree = {0};

		for (int i = OPERAND_K; i <= OPERAND_V; i++)
			d.gpu.all.hold[i].stages = stages;
		s->kernel = copy;
		gpu_attention_emit(t, copy, &d, s);
		l_tidy(s);
		schedule_settle(s, k);
		schedule_print_bare(&tree, s);
		for (size_t m = 0; m < sizeof mutations / sizeof *mutations; m++)
			for (int which = 0;; which++) {
				StrBuf b = {0};

				if (!mutate(strbuf_str(&tree), &mutations[m], which, &b))
					break;
				tried++;
				if (!is_reported(c, k, strbuf_str(&b)))
					wrong("mutation", mutations[m].line, strbuf_str(&b));
				strbuf_free(&b);
			}
		strbuf_free(&tree);
	}
	if (tried < 20)
		printf("test_gpu_attention.c: only %d mutations\n", tried), failed++;
	arena_free(a);
	ctx_free(c);
}

static const struct {
	const char *decision, *why;
} refused[] = {
	{"attention tile 6x16", "expected \"mma\""},
	{"attention mma f16,bf17 q grid", "there is no instruction \"bf17\""},
	{"attention mma f16,f16 grid", "expected a group"},
	{"attention mma f16,f16 q grid warp0 stage", "\"warp0\" is not a digit"},
	{"attention mma f16,f16 q grid warp4 reg1 mma16 kv loop reg8 mma8 d reg1 mma16 e reg2 mma8 stage q:async k:asynch*2 v:async*2",
	 "expected \"shared\""},
	{"attention mma bf16,bf16 q grid warp4 reg1 mma16 kv loop reg8 mma8 d reg1 mma16 e reg2 mma8 stage q:async k:async*2 v:async*2",
	 "the instructions for these types are f16,f16"},
	{"attention mma f16,f16 q grid warp4 reg1 mma16 kv loop reg8 mma8 d reg1 mma16 e reg2 mma8 stage q:async k:async*2 v:async*3",
	 "k and v have 2 and 3 buffers"},
	{"attention mma f16,f16 q grid warp4 reg1 mma16 kv loop reg8 mma8 d reg1 mma16 e reg2 mma8 stage q:async k:async*9 v:async*9",
	 "k has 9 buffers"},
	{"attention mma f16,f16 q grid warp4 reg1 mma16 kv loop reg3 mma8 d reg1 mma16 e reg2 mma8 stage q:async k:async*2 v:async*2",
	 "24 keys of a block are not a multiple of 16"},
	{"attention mma f16,f16 q grid warp16 reg1 mma16 kv loop reg8 mma8 d reg1 mma16 e reg2 mma8 stage q:async k:async*2 v:async*2",
	 "16 warps of 1 fragments are more than 8 of 2"},
	{"attention mma f16,f16 q grid warp4 reg1 mma16 kv loop reg8 mma8 d reg2 mma16 e reg2 mma8 stage q:async k:async*2 v:async*2",
	 "with these warps and keys the digits are: mma f16,f16 q grid warp4 reg1 mma16 kv loop reg8 mma8 d reg1 mma16"},
	{"attention mma f16,f16 q grid warp4 reg1 mma16 kv loop reg8 mma8 e reg2 mma8 stage q:async k:async*2 v:async*2",
	 "with these warps and keys the digits are"},
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

	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		StrBuf why = {0};
		const Decision *d = decision_parse(target_by_name("sm_80"), kernel_clone(k, a),
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
	static const char *const gpus[] = {"sm_80", "sm_75"}, *const types[] = {"f16", "f32"};

	for (int i = 0; i < FORMS * 2; i++)
		test_form(&forms[i / 2], types[i % 2], gpus[i % 3 == 0]);
	test_refused();
	test_mutations();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
