/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: uses and order under edits; text, printed and read; messages of the parser and the
 * verifier; and mutated texts, which must give a graph or a diagnostic.
 *
 * 	test_graph [ROUNDS [FILE ...]]	ROUNDS mutations, of the files if there are any
 * 	test_graph FILE			reads the file, verifies it and prints it
 */
#include "ir/graph/graph.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failed;

#define CHECK(x) ((x) ? (void)0 : fail(__LINE__, #x))

static void fail(int line, const char *what)
{
	printf("test_graph.c:%d: %s\n", line, what);
	failed++;
}

static const char *const text[] = {
	"dlir 1\n"
	"graph @main(%x: f32[N,64], %r: f32[N,10]) -> (%4 \"probabilities\")\n"
	"    where 1 <= N <= 64\n"
	"    check N == 64*floor(N, 64) @\"/fc/MatMul\"(MatMul) \"inner dimensions differ\"\n"
	"    check N <= M @_(Add)\n"
	"    check M == 3 @\"a\"() {\n"
	"  # a comment\n"
	"  %w = Const {value = f32[2,3](1.5, -0.0, nan, inf, -inf, 1e-45)} : f32[2,3] "
	"@\"fc.weight\"\n"
	"  %3 \"/fc/MatMul output\" = MatMul(%x, %w) : ? @\"/fc/MatMul\", @\"Cast_1\"(Cast)\n"
	"  %4 = Add(%3, %r) : f32[N,10]{1/32,0,1%32}\n"
	"}\n",

	"dlir 1\n"
	"graph @\"a graph\"(%0 \"0\": i64[2], %c: seq(opt(f32[?]))) -> (%0, %0 \"again\", %k)\n"
	"    where 0 <= $\"batch size\", -4 <= s0 <= 100 = %0[1], 0 <= d = s0^2 + 1 {\n"
	"  %a, _, %b = Split(%0, _) {axis = -1, alpha = 0.5, mode = \"q\\\"\\n\\x01\", i = [1, "
	"-2], f = [1.0, 0.1, nan],\n"
	"      s = [\"a\", \"b\"], none = ints[], nof = floats[], nos = strs[], t = type(f16[d, "
	"$\"batch size\"]),\n"
	"      \"odd name\" = 9223372036854775807, m = -9223372036854775808}\n"
	"      : i64[s0], _, f32[]\n"
	"  %k = Identity(%a) {t = u64[2](18446744073709551615, 0), b = bool[3](1, 0, 1), e = "
	"f32[0,7](), s = str[2](\"x\", \"\\\\\"),\n"
	"      h = f16[3](0.1, 65504.0, -2.0), q = i4[3](-8, 7, 1), d = f64[1](0.1), z = "
	"f8e4m3fn[2](0.5, nan)} : i64[s0] {\n"
	"    graph @then(%p: f32[M]) -> (%q \"y\") check M <= 4 {\n"
	"      %q = Relu(%p) : f32[M]\n"
	"    }\n"
	"    graph @else() -> () {\n"
	"    }\n"
	"  }\n"
	"  Kernel(%a)\n"
	"}\n",
};

enum { NTEXTS = sizeof text / sizeof *text };

static Graph *parse(Ctx *c, Arena *a, const char *s)
{
	return graph_parse(c, a, s, "test.dl");
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

/* Also in another context, whose symbols were made in another order. */
static bool round_trip(const Graph *g, bool show)
{
	Arena *a = arena_new();
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	char *once = print(a, g), *twice;
	Graph *back;

	sym_get(c, "zzz");
	back = parse(c, a, once);
	twice = back ? print(a, back) : NULL;
	if (!twice || strcmp(once, twice) || show)
		printf("%s\n---- reads back as\n%s\n", once, twice ? twice : "nothing");
	back = twice && !strcmp(once, twice) ? back : NULL;
	ctx_free(c);
	arena_free(a);
	return back;
}

static void test_text(void)
{
	for (int i = 0; i < NTEXTS; i++) {
		Arena *a = arena_new();
		Diag diag = {.out = stdout};
		Ctx *c = ctx_new(&diag);
		Graph *g = parse(c, a, text[i]);

		CHECK(g && round_trip(g, false));
		CHECK(i != 0 || (g && graph_verify(g, &diag, "parse")));
		CHECK(i != 1 || (g && !strcmp(g->inputs.at[0]->name, "0") &&
				 strstr(print(a, g), "%0 \"0\"")));
		ctx_free(c);
		arena_free(a);
	}
}

/* Constants larger than those that are printed whole. */
static void test_large(void)
{
	Arena *a = arena_new();
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Graph *g = graph_new(c, a, "g");
	int64_t dims[2] = {5, 15};
	Tensor *t = tensor_new(a, DT_I4, 2, dims), *m = NEW(a, Tensor);
	char path[] = "/tmp/test_graph_XXXXXX";
	int fd = mkstemp(path);
	FILE *f = fdopen(fd, "w");
	Value *v, *w;
	Graph *back;

	for (int i = 0; i < 75; i++)
		dtype_store_i64(DT_I4, (void *)(uintptr_t)t->data, i, i % 16 - 8);
	for (int i = 0; i < 400; i++)
		fputc(i & 255, f);
	fclose(f);
	*m = (Tensor){.dtype = DT_F32,
		      .rank = 2,
		      .dims = t->dims,
		      .bytes = 300,
		      .file = path,
		      .offset = 100};
	v = graph_const(g, t, NULL);
	w = graph_const(g, m, NULL);
	graph_result(g, v, NULL);
	graph_result(g, w, "w");
	CHECK(round_trip(g, false));
	back = parse(c, a, print(a, g));
	CHECK(back &&
	      !memcmp(value_const(back->results.at[0]->value)->data, t->data, (size_t)t->bytes));
	CHECK(back && *(const unsigned char *)value_const(back->results.at[1]->value)->data == 100);
	m->bytes = 304;
	m->dims = (int64_t[]){4, 19};
	m->offset = 96;
	CHECK(parse(c, a, print(a, g)) != NULL);
	diag.out = NULL;
	m->offset = 97;
	CHECK(parse(c, a, print(a, g)) == NULL && diag.errors == 1);
	unlink(path);
	ctx_free(c);
	arena_free(a);
}

static void test_edits(void)
{
	Arena *a = arena_new();
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Graph *g = graph_new(c, a, "g");
	Dim *n = sym_get(c, "N")->dim;
	const Type *t = type_tensor(c, DT_F32, 1, &n);
	Value *x = graph_input(g, "x", t), *y;
	Node *p = node_new(g, OP_Relu, &x, 1, 1, NULL), *q, *s;
	Value *two[2] = {p->out[0], p->out[0]};

	q = node_new(g, OP_Add, two, 2, 1, NULL);
	graph_result(g, q->out[0], "y");
	p->out[0]->type = q->out[0]->type = t;
	CHECK(graph_verify(g, &diag, "test"));
	CHECK(!value_used_once(p->out[0]) && value_used_once(x));
	s = node_new(g, OP_Neg, &x, 1, 1, q);
	s->out[0]->type = t;
	CHECK(s->prev == p && s->next == q);
	value_replace(p->out[0], s->out[0]);
	CHECK(!p->out[0]->uses && node_in(q, 1) == s->out[0]);
	node_remove(p);
	node_move(s, s);
	CHECK(graph_verify(g, &diag, "test") && g->first == s);
	node_set_input(q, 2, x);
	node_set_input(q, 0, x);
	CHECK(q->nin == 3 && node_in(q, 2) == x && node_in(q, 1) == s->out[0]);
	y = graph_const_ints(g, (int64_t[]){1, 2}, 2, s);
	CHECK(value_const(y)->rank == 1 && tensor_numel(value_const(y)) == 2 && g->first == y->def);
	node_set_int(q, "axis", 3);
	node_set_int(q, "axis", 4);
	CHECK(q->attrs.n == 1 && node_int(q, "axis", 0) == 4 && node_int(q, "other", 7) == 7);
	q->op = OP_Sum;
	CHECK(graph_verify(g, &diag, "test"));
	diag.out = NULL;
	q->op = OP_Add;
	CHECK(!graph_verify(g, &diag, "test"));
	q->op = OP_Sum;
	node_move(s, NULL);
	CHECK(!graph_verify(g, &diag, "test"));
	node_move(s, q);
	CHECK(graph_verify(g, &diag, "test"));
	s->out[0]->type = NULL;
	CHECK(!graph_verify(g, &diag, "test") && graph_verify(g, &diag, "import"));
	ctx_free(c);
	arena_free(a);
}

static void test_faults(void)
{
	static const struct {
		const char *text, *says;
	} row[] = {
		{"graph", "t.dl:1: error: expected 'dlir 1', found 'graph'"},
		{"dlir 2\n", "t.dl:1: error: expected version 1 of the text, found '2'"},
		{"dlir 1\ngraph @g(%x: f32[N) -> () {\n}\n",
		 "t.dl:2: error: expected a type, found ')'"},
		{"dlir 1\ngraph @g() -> (%x) {\n}\n",
		 "t.dl:2: error: the value %x is not defined before this"},
		{"dlir 1\ngraph @g() -> () {\n  %a = Foo()\n}\n",
		 "t.dl:3: error: there is no operator \"Foo\""},
		{"dlir 1\ngraph @g(%m: f32[4]) -> (%y) {\n  y = Relu(%m) : ?\n}\n",
		 "t.dl:3: error: a value begins with %"},
		{"dlir 1\ngraph @g(%x: f32[4]) -> (%a) {\n  %a = Neg(%x : f32[4]\n}\n",
		 "t.dl:3: error: expected ',' or ')', found ':'"},
		{"dlir 1\ngraph @g() -> () {\n  %a = Relu(%a) : ?\n}\n",
		 "t.dl:3: error: the value %a is not defined before this"},
		{"dlir 1\ngraph @g(%a: ?, %a: ?) -> () {\n}\n",
		 "t.dl:2: error: the value %a is defined twice"},
		{"dlir 1\ngraph @g() -> () {\n  %a = Const {v = f32[3](1.0, 2.0)} : ?\n}\n",
		 "t.dl:3: error: the tensor's type and its number of elements differ"},
		{"dlir 1\ngraph @g() -> () {\n",
		 "t.dl:3: error: expected a node or '}', found the end of the file"},
		{"dlir 1\ngraph @g() -> () where 3 <= N <= 2 {\n",
		 "t.dl:2: error: the bounds leave no value"},
		{"dlir 1\ngraph @g() -> () where 0 <= a = 2*a + 1 {\n",
		 "t.dl:2: error: a symbol stands for a size over the symbols before it"},
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char got[400] = "";
		FILE *f = fmemopen(got, sizeof got - 1, "w");
		Diag diag = {.out = f};
		Arena *a = arena_new();
		Ctx *c = ctx_new(&diag);

		CHECK(!graph_parse(c, a, row[i].text, "t.dl") && diag.errors == 1);
		fclose(f);
		got[strcspn(got, "\n")] = 0;
		if (strcmp(got, row[i].says)) {
			printf("said '%s', not '%s'\n", got, row[i].says);
			failed++;
		}
		ctx_free(c);
		arena_free(a);
	}
}

/* ---- Mutations ---- */

static uint64_t seed = 7;

static size_t rnd(size_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (size_t)(seed >> 33) % n;
}

static void mutate(char *s, size_t cap)
{
	static const char *const piece[] = {"(",          ")",
					    "{",          "}",
					    "[",          "]",
					    "%",          "@",
					    "\"",         "_",
					    ",",          "-1",
					    "0",          "9223372036854775807",
					    "floor(",     "min(N, ",
					    " = ",        " : ",
					    "f32[",       "graph @g() -> () {",
					    "inf",        "$\"",
					    "^9",         "99999999999",
					    "*",          "hex(\"",
					    "kernel @k(", "?",
					    "\n",         "#"};

	for (size_t k = rnd(4) + 1; k; k--) {
		size_t n = strlen(s), at = rnd(n + 1), len;
		const char *p;

		switch (rnd(4)) {
		case 0:
			if (at < n)
				s[at] = (char)(rnd(95) + 32);
			break;
		case 1:
			len = rnd(12) + 1;
			len = len < n - at ? len : n - at;
			memmove(s + at, s + at + len, n - at - len + 1);
			break;
		case 2:
			p = piece[rnd(sizeof piece / sizeof *piece)];
			len = strlen(p);
			if (n + len + 1 >= cap)
				break;
			memmove(s + at + len, s + at, n - at + 1);
			memcpy(s + at, p, len);
			break;
		default:
			len = rnd(30);
			if (at + len <= n && n + len + 1 < cap) {
				char part[32];
				size_t to = rnd(n + 1);

				memcpy(part, s + at, len);
				memmove(s + to + len, s + to, n - to + 1);
				memcpy(s + to, part, len);
			}
		}
	}
}

static void test_mutated(int rounds, char *const *seeds, int n)
{
	int accepted = 0;

	for (int i = 0; i < rounds; i++) {
		char s[1 << 15];
		Diag diag = {0};
		Arena *a = arena_new();
		Ctx *c = ctx_new(&diag);
		Graph *g;

		snprintf(s, sizeof s, "%s", n ? seeds[i % n] : text[i % NTEXTS]);
		mutate(s, sizeof s);
		g = parse(c, a, s);
		CHECK(g || diag.errors > 0);
		if (g) {
			accepted++;
			graph_verify(g, &diag, "parse");
			if (!diag.errors && !round_trip(g, false))
				failed++;
		}
		ctx_free(c);
		arena_free(a);
	}
	CHECK(rounds < 100 || accepted > 0);
}

static char *read_file(Arena *a, const char *path)
{
	FILE *f = fopen(path, "r");
	StrBuf b = {0};
	char *s;

	for (int ch; f && (ch = fgetc(f)) != EOF;)
		strbuf_put(&b, &(char){(char)ch}, 1);
	if (f)
		fclose(f);
	s = arena_strdup(a, strbuf_str(&b));
	strbuf_free(&b);
	return s;
}

static int print_file(const char *path)
{
	Diag diag = {.out = stdout};
	Arena *a = arena_new();
	Ctx *c = ctx_new(&diag);
	Graph *g = graph_parse(c, a, read_file(a, path), path);

	if (g)
		fputs(print(a, g), stdout);
	if (g)
		graph_verify(g, &diag, "parse");
	ctx_free(c);
	arena_free(a);
	return diag.errors != 0;
}

int main(int argc, char **argv)
{
	Arena *a = arena_new();

	if (argc > 1 && !atoi(argv[1]))
		return print_file(argv[1]);
	for (int i = 2; i < argc; i++)
		argv[i] = read_file(a, argv[i]);
	test_edits();
	test_text();
	test_large();
	test_faults();
	test_mutated(argc > 1 ? atoi(argv[1]) : 2000, argv + 2, argc > 2 ? argc - 2 : 0);
	arena_free(a);
	printf("%s\n", failed ? "FAILED" : "ok");
	return failed != 0;
}
