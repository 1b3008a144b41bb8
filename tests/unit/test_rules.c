/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every equation of passes/graph/rules.def: its left side is built with the types of its example,
 * run on random values, rewritten, and run again. An exact rule must give the same bits (any NaN
 * equals any other), a rule of class REASSOC the same up to rounding. The type must stay, and the
 * rule must match its own left side with all alternatives.
 *
 * The same with other shapes: the example's with some dims of other sizes, with additional leading
 * dims, and without the first ones. If the left side has a type then, the rule either applies and
 * keeps the meaning, or does not apply; neither gives a diagnostic.
 */
#include "passes/graph/rules.h"
#include "tests/oracle/eval_graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 8, SEEDS = 4, MAX_PICKS = 8, SHAPES = 2000 };

static int failed;
static const char *rule_name;

/* Prints each fault WHAT of a rule once, with the first DETAIL, although many examples may show
 * it. */
static bool check_of(bool ok, const char *what, const char *detail)
{
	static const char *last_rule, *last;

	if (!ok && !(last_rule == rule_name && !strcmp(last, what)))
		printf("test_rules.c: %s: %s%s\n", last_rule = rule_name, last = what, detail);
	failed += !ok;
	return ok;
}

static bool check(bool ok, const char *what)
{
	return check_of(ok, what, "");
}

typedef struct TestRng {
	uint64_t s;
} TestRng;

static uint64_t next(TestRng *r)
{
	r->s = r->s * 6364136223846793005U + 1442695040888963407U;
	return r->s >> 33;
}

/* A small number; if SPECIAL, maybe a zero of either sign, an infinity or NaN. */
static double number(TestRng *r, bool special)
{
	static const double odd[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-42, 3e38};

	if (special && next(r) % 4 == 0)
		return odd[next(r) % (sizeof odd / sizeof *odd)];
	return (double)(int64_t)(next(r) % 4001) / 1000 - 2;
}

typedef struct Example {
	const char *name[MAX_VALUES];
	Value *value[MAX_VALUES];
	const Tensor *data[MAX_VALUES]; /* of the graph's inputs, in order */
	int n, ninputs;
} Example;

static Tensor *random_tensor(Arena *a, const Type *t, TestRng *r, bool special, const double *splat)
{
	int64_t dims[MAX_RANK];
	Tensor *x;

	type_static(t, dims);
	x = tensor_new(a, t->dtype, t->rank, dims);
	for (int64_t i = 0; i < tensor_numel(x); i++) {
		void *at = (void *)(uintptr_t)x->data;

		if (dtype_is_float(t->dtype))
			dtype_store_f64(t->dtype, at, i, splat ? *splat : number(r, special));
		else
			dtype_store_i64(t->dtype, at, i,
					t->dtype == DT_BOOL ? (int64_t)(next(r) % 2)
							    : (int64_t)next(r) - (1 << 30));
	}
	return x;
}

/* Reads "(1,2,3)" as the elements of a tensor of type T; moves P past it. */
static Tensor *listed_tensor(Arena *a, const Type *t, const char **p)
{
	int64_t dims[MAX_RANK];
	Tensor *x;

	type_static(t, dims);
	x = tensor_new(a, t->dtype, t->rank, dims);
	for (int64_t i = 0; i < tensor_numel(x); i++) {
		char *end;

		dtype_store_i64(t->dtype, (void *)(uintptr_t)x->data, i, strtoll(*p + 1, &end, 10));
		*p = end;
	}
	*p += 1;
	return x;
}

/* T with another shape, or T. */
static const Type *other_shape(Ctx *c, const Type *t, TestRng *r)
{
	static const int64_t size[] = {1, 1, 2, 3, 4, 6};
	Dim *dims[MAX_RANK], *d = dim_const(c, size[next(r) % (sizeof size / sizeof *size)]);
	int at = t->rank ? (int)(next(r) % (uint64_t)t->rank) : 0;

	memcpy(dims + 1, t->dims, (size_t)t->rank * sizeof *dims);
	dims[0] = d;
	switch (next(r) % 4) {
	case 0: return type_tensor(c, t->dtype, t->rank + 1, dims);
	case 1: return t->rank ? type_tensor(c, t->dtype, t->rank - 1, dims + 2) : t;
	case 2: dims[1 + at] = d; return type_tensor(c, t->dtype, t->rank, dims + 1);
	default: return t;
	}
}

/* Reads "x: f32[2,3], w: const f32[3], c: 8 f32[], a: i64[2](1,2)": inputs, random constants,
 * constants of one number, constants of these integers. VARIED: with other shapes, except for
 * constants that list their elements. */
static bool read_example(Graph *g, const char *p, TestRng *r, bool special, bool varied, Example *e)
{
	while (*p) {
		const char *colon = strchr(p, ':');
		const Type *t;
		double v;
		bool is_const, splat;
		char *end;

		if (!colon || e->n == MAX_VALUES)
			return false;
		e->name[e->n] = arena_strndup(g->arena, p, (size_t)(colon - p));
		p = colon + 2;
		v = strtod(p, &end);
		splat = end != p;
		p = splat ? end + 1 : p;
		is_const = splat || str_starts(p, "const ");
		if (is_const && !splat)
			p += strlen("const ");
		if (!(t = type_parse(g->ctx, &p)))
			return false;
		for (uint64_t i = varied && *p != '(' ? next(r) % 4 : 0; i > 0; i--)
			t = other_shape(g->ctx, t, r);
		if (*p == '(') {
			e->value[e->n] = graph_const(g, listed_tensor(g->arena, t, &p), NULL);
		} else if (is_const) {
			e->value[e->n] = graph_const(
				g, random_tensor(g->arena, t, r, false, splat ? &v : NULL), NULL);
		} else {
			e->value[e->n] = graph_input(g, e->name[e->n], t);
			e->data[e->ninputs++] = random_tensor(g->arena, t, r, special, NULL);
		}
		e->n++;
		p += strspn(p, ", ");
	}
	return true;
}

static Value *find(void *arg, const char *name)
{
	Example *e = arg;

	for (int i = 0; i < e->n; i++)
		if (!strcmp(e->name[i], name))
			return e->value[i];
	check_of(false, "the example does not give ", name);
	return NULL;
}

/* Whether elements X and Y of a float type differ, EXACT: in their bits, but for those of NaNs. */
static bool differ(double x, double y, bool exact)
{
	return exact && !(isnan(x) && isnan(y)) && (!(x == y) || signbit(x) != signbit(y));
}

/* The sides' results A and B are the same; otherwise WHERE, of N bytes, says where they differ. */
static bool same(const Tensor *a, const Tensor *b, bool exact, char *where, size_t n)
{
	const bool is_float = dtype_is_float(a->dtype);
	double most = 0, off = 0;
	int64_t at = -1;

	*where = 0;
	if (a->dtype != b->dtype || a->bytes != b->bytes)
		return false;
	if (!is_float && !memcmp(a->data, b->data, (size_t)a->bytes))
		return true;
	for (int64_t i = 0; i < tensor_numel(a); i++) {
		double x = is_float ? dtype_load_f64(a->dtype, a->data, i)
				    : (double)dtype_load_i64(a->dtype, a->data, i),
		       y = is_float ? dtype_load_f64(b->dtype, b->data, i)
				    : (double)dtype_load_i64(b->dtype, b->data, i);

		if (at < 0 && (is_float ? differ(x, y, exact) : x != y)) {
			at = i;
			snprintf(where, n,
				 ": element %lld of %s is %.9g on the left, %.9g on the right",
				 (long long)i, dtype_info[a->dtype].name, y, x);
		}
		most = fmax(most, fabs(y));
		off = fmax(off, fabs(x - y));
	}
	if (is_float && !exact && !(off <= 1e-5 * most))
		snprintf(where, n, ": by up to %.3g, where the largest element is %.3g", off, most);
	return is_float && (exact ? at < 0 : off <= 1e-5 * most);
}

/* The graph of one rule, and the state for rewriting it. */
typedef struct Trial {
	Diag diag;
	Ctx *ctx;
	Arena *a;
	Module m;
	Canon c;
	Example e;
} Trial;

static void open_trial(Trial *t, FILE *out)
{
	*t = (Trial){.diag = {.out = out}};
	t->ctx = ctx_new(&t->diag);
	t->a = arena_new();
	t->m = (Module){.ctx = t->ctx, .arena = t->a, .graph = graph_new(t->ctx, t->a, "main")};
	t->c = (Canon){.m = &t->m, .g = t->m.graph, .tmp = t->a, .budget = -1};
	t->m.infer = t->c.in = infer_new(t->m.graph);
	t->c.rules = rules_read(t->a);
}

static void close_trial(Trial *t)
{
	arena_free(t->a);
	ctx_free(t->ctx);
}

/* Rewrites V, the left side, and compares the results; false if the rule does not apply. */
static bool apply(Trial *t, int at, const Rule *rule, Value *v)
{
	Tensor *before[1], *after[1];
	const Type *type = v->type;
	const int faults = t->diag.errors;
	char where[160] = "";

	graph_result(t->m.graph, v, "y");
	check(eval_graph(t->m.graph, t->e.data, before, t->a, &t->diag),
	      "the left side cannot be run");
	if (!rule_apply(&t->c, at, v->def)) {
		check(t->diag.errors == faults, "does not apply, with a diagnostic");
		return false;
	}
	v = t->m.graph->results.at[0]->value;
	check(v->type == type, "another type");
	check(graph_verify(t->m.graph, &t->diag, rule->name), "the graph is broken");
	check_of(eval_graph(t->m.graph, t->e.data, after, t->a, &t->diag) &&
			 same(after[0], before[0], rule->flags == RULE_EXACT, where, sizeof where),
		 "the sides differ", where);
	return true;
}

/* False if the left side has fewer alternatives. */
static bool try_rule(int at, const Rule *rule, unsigned pick, uint64_t seed)
{
	Value *v = NULL;
	Trial t;

	open_trial(&t, stdout);
	if (check(read_example(t.m.graph, rule->example, &(TestRng){seed},
			       rule->flags == RULE_EXACT, false, &t.e),
		  "the example cannot be read"))
		v = rule_example(&t.c, at, pick, find, &t.e);
	if (v && check(v->type != NULL, "the left side has no type"))
		check(apply(&t, at, rule, v), "does not match its own left side");
	close_trial(&t);
	return v;
}

/* Tries the example with another shape; returns whether the rule applied. */
static bool try_shape(int at, const Rule *rule, unsigned pick, uint64_t seed)
{
	bool applied = false;
	Value *v;
	Trial t;

	open_trial(&t, NULL);
	if (read_example(t.m.graph, rule->example, &(TestRng){seed}, rule->flags == RULE_EXACT,
			 true, &t.e)) {
		v = rule_example(&t.c, at, pick, find, &t.e);
		applied = v && v->type && apply(&t, at, rule, v);
	}
	close_trial(&t);
	return applied;
}

int main(void)
{
	for (int i = 0; rule_table[i].name; i++) {
		int applied = 0;
		unsigned pick = 0;

		rule_name = rule_table[i].name;
		for (int j = 0; j < i; j++)
			check(strcmp(rule_table[j].name, rule_name) != 0,
			      "another rule has this name");
		check(strcmp(rule_table[i].lhs, rule_table[i].rhs) != 0, "the sides are the same");
		for (uint64_t seed = 1; seed <= SEEDS; seed++)
			for (pick = 0; try_rule(i, &rule_table[i], pick, seed); pick++)
				;
		if (!check(pick > 0 && pick <= MAX_PICKS, "no left side can be built"))
			continue;
		for (uint64_t seed = 1; seed <= SHAPES; seed++)
			applied += try_shape(i, &rule_table[i], (unsigned)seed % pick, seed * 7919);
		check(applied > 0, "applies to none of the other shapes");
	}
	return failed != 0;
}
