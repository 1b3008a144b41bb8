/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of graphs (graph_clone), and the plan of --int8, which names nodes of a copy. */
#include "codegen/targets.h"
#include "passes/graph/quantise.h"

#include <stdio.h>
#include <string.h>

static const char *const text[] = {
	/* weights, epilogues, a size that a fact decides */
	"dlir 1\n"
	"graph @main(%x: f32[B,4], %s: f32[C,5]) -> (%y, %z)\n"
	"    where 1 <= B <= 8, 1 <= C <= 8 {\n"
	"  %w = Const {value = f32[4,5](1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1.0, 2.0, 3.0, 4.0, "
	"5.0, 6.0, 7.0, 8.0, 9.0, 1.0, 2.0)} : ?\n"
	"  %p = MatMul(%x, %w) : ? @\"product\"\n"
	"  %q = Relu(%p) : ?\n"
	"  %y = Add(%q, %s) : ?\n"
	"  %z = Softmax(%q) {axis = 1} : ?\n"
	"}\n",
	/* sizes that are data; a default value of an input */
	"dlir 1\n"
	"graph @main(%x: f32[N], %k: i64[1] = i64[1](3)) -> (%rows, %y, %t)\n"
	"    where 1 <= N <= 100 {\n"
	"  %i = NonZero(%x) : ?\n"
	"  %rows = Transpose(%i) {perm = [1, 0]} : ?\n"
	"  %y = Gather(%x, %i) {axis = 0} : ?\n"
	"  %t = Expand(%x, %k) : ?\n"
	"}\n",
	/* control flow: bodies, before inference; brackets, after it */
	"dlir 1\n"
	"graph @main(%c: bool[], %n: i64[], %x: f32[2]) -> (%last, %all) {\n"
	"  %y = If(%c, %x, %x) {captures = [1, 1]} : ? @\"if\" {\n"
	"    graph @then_branch(%u: ?) -> (%v) {\n"
	"      %v = Neg(%u) : ?\n"
	"    }\n"
	"    graph @else_branch(%p: ?) -> (%q) {\n"
	"      %q = Abs(%p) : ?\n"
	"    }\n"
	"  }\n"
	"  %last, %all = Loop(%n, %c, %y) : ?, ? {\n"
	"    graph @body(%i: ?, %go: ?, %h: ?) -> (%go2, %next, %out) {\n"
	"      %go2 = Not(%go) : ?\n"
	"      %next = Exp(%h) : ?\n"
	"      %out = Add(%h, %next) : ?\n"
	"    }\n"
	"  }\n"
	"}\n",
	/* a result that shares an input's memory */
	"dlir 1\n"
	"graph @main(%past: f32[B,2,P,8], %new: f32[B,2,S,8]) -> (%y, %present) {\n"
	"  %present = Concat(%past, %new) {axis = 2} : ?\n"
	"  %last = Const {value = i64[1](3)} : ?\n"
	"  %y = ReduceSum(%present, %last) {keepdims = 0} : ?\n"
	"}\n",
};

enum { NTEXTS = sizeof text / sizeof *text };

/* After which passes graphs are copied; -1: before the first. */
static const int stages[] = {-1, PASS_infer, PASS_canon, PASS_fuse, PASS_layout, PASS_alias};

static int faults;

static void expect(bool ok, int t, int stage, const char *what)
{
	if (ok)
		return;
	printf("test_clone.c: text %d, a copy after %s: %s\n", t,
	       stage < 0 ? "the import" : pass_table[stage].name, what);
	faults++;
}

static char *print(Arena *a, const Graph *g)
{
	StrBuf b = {0};
	char *s;

	graph_print(&b, g);
	s = arena_strdup(a, strbuf_str(&b));
	strbuf_free(&b);
	return s;
}

static Module module_of(Ctx *c, Arena *a)
{
	return (Module){.ctx = c,
			.arena = a,
			.opt = {.level = 2, .rewrite_limit = -1, .weight_error = -1},
			.target = {target_by_name("x86-64-v3")},
			.ntargets = 1};
}

static bool passes(Module *m, int from, int to)
{
	return from > to || passes_run(m, (PassId)from, (PassId)to, &(PassHook){.verify = true});
}

static void test_stage(int t, int stage)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new(), *of_copy = arena_new();
	Module m = module_of(c, a), copy = module_of(c, of_copy);
	char *before, *layout;

	m.graph = graph_parse(c, a, text[t], "text");
	if (!m.graph || !passes(&m, 0, stage)) {
		expect(false, t, stage, "the model is faulty");
		return;
	}
	before = print(a, m.graph);
	copy.graph = graph_clone(m.graph, of_copy);
	copy.infer = m.infer ? infer_clone(m.infer, copy.graph) : NULL;
	expect(!strcmp(before, print(a, copy.graph)), t, stage, "the text differs");
	expect(graph_verify(copy.graph, &diag, stage < 0 ? "parse" : pass_table[stage].name), t,
	       stage, "it does not hold");
	expect(passes(&copy, stage + 1, PASS_layout), t, stage, "the next passes fail");
	layout = print(a, copy.graph);
	expect(passes(&copy, stage < PASS_layout ? PASS_alias : stage + 1, PASS_LAST), t, stage,
	       "the last passes fail");
	expect(!strcmp(before, print(a, m.graph)), t, stage, "passes on it change the original");
	arena_free(of_copy);
	expect(passes(&m, stage + 1, PASS_layout), t, stage, "passes on the original fail then");
	/* Inference gives new symbols other names. */
	expect(stage < PASS_infer || stage > PASS_layout || !strcmp(layout, print(a, m.graph)), t,
	       stage, "passes make something else of the original");
	ctx_free(c);
	arena_free(a);
}

/* ---- The plan of --int8 ---- */

static const char products[] = "dlir 1\n"
			       "graph @main(%x: f32[2,2]) -> (%y) {\n"
			       "  %w = Const {value = f32[2,2](1.0, 2.0, 3.0, 4.0)} : ?\n"
			       "  %p = MatMul(%x, %w) : ? @\"first\"\n"
			       "  %q = Relu(%p) : ? @\"between\"\n"
			       "  %y = MatMul(%q, %w) : ? @\"second\"\n"
			       "}\n";

/* The last node called NAME. */
static const Node *find(const Graph *g, const char *name)
{
	const Node *n = g->last;

	while (!n->locs || strcmp(locs_first(n->locs).node, name) != 0)
		n = n->prev;
	return n;
}

/* Makes a plan for the node NAME of a copy, and carries it out on the original. */
static void test_plan(const char *name, bool fits)
{
	static int8_t bytes[4] = {1, 2, 3, 4};
	static float scale[2] = {1, 1};
	static int64_t dims[2] = {2, 2};
	const Tensor w = {.dtype = DT_I8, .rank = 2, .dims = dims, .data = bytes, .bytes = 4},
		     s = {.dtype = DT_F32, .rank = 1, .dims = dims, .data = scale, .bytes = 8};
	QuantChoice choice = {.name = name, .scale = 1, .weights = &w, .scales = &s};
	const QuantPlan plan = {.layer = &choice, .n = 1, .operators = true};
	Diag diag = {.out = fits ? stdout : NULL};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Module m = module_of(c, a), copy = module_of(c, a);

	m.graph = graph_parse(c, a, products, "products");
	if (!m.graph || !passes(&m, 0, PASS_canon)) {
		expect(false, 0, PASS_canon, "the products are faulty");
		return;
	}
	module_clone(&copy, &m);
	choice.node = find(copy.graph, name)->id;
	m.opt.quantise = &plan;
	expect(pass_quantise(&m) == fits && (fits || diag.errors == 1), 0, PASS_canon,
	       fits ? "the plan fits" : "the plan does not fit");
	for (int i = 0; fits && i < 2; i++) {
		const char *product = i ? "second" : "first";

		expect((node_in(find(m.graph, product), 1)->def->op == OP_DequantizeLinear) ==
			       !strcmp(product, name),
		       0, PASS_canon, product);
	}
	ctx_free(c);
	arena_free(a);
}

int main(void)
{
	for (int t = 0; t < NTEXTS; t++)
		for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
			test_stage(t, stages[i]);
	test_plan("first", true);
	test_plan("second", true);
	test_plan("between", false);
	return faults != 0;
}
