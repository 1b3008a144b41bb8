/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every equation of passes/graph/rules.def: its left side is built over its example's types, run on random values,
 * rewritten, and run again. An exact rule gives the same bits (any NaN is a NaN), one of class reassoc the
 * same up to rounding; types stay, and the rule matches its own left side.
 */
#include "passes/graph/rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 8, SEEDS = 4 };

static int failed;
static const char *rule_name;

static bool check(bool ok, const char *what)
{
	if (!ok) {
		printf("test_rules.c: %s: %s\n", rule_name, what);
		failed++;
	}
	return ok;
}

typedef struct Rng {
	uint64_t s;
} Rng;

static uint64_t next(Rng *r)
{
	r->s = r->s * 6364136223846793005U + 1442695040888963407U;
	return r->s >> 33;
}

/* Small numbers; where SPECIAL, also zeros of both signs, infinities and NaN. */
static double number(Rng *r, bool special)
{
	static const double odd[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-42, 3e38};

	if (special && next(r) % 4 == 0)
		return odd[next(r) % (sizeof odd / sizeof *odd)];
	return (double)(int64_t)(next(r) % 4001) / 1000 - 2;
}

typedef struct Example {
	const char *name[MAX_VALUES];
	Value *value[MAX_VALUES];
	const Tensor *data[MAX_VALUES]; /* of the graph's inputs, in their order */
	int n, ninputs;
} Example;

static Tensor *random_tensor(Arena *a, const Type *t, Rng *r, bool special, const double *splat)
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

/* "(1,2,3)" as T's elements, P behind it. */
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

/* "x: f32[2,3], w: const f32[3], c: 8 f32[], a: i64[2](1,2)": inputs, random constants, constants of one number,
 * constants of these integers. */
static bool read_example(Graph *g, const char *p, Rng *r, bool special, Example *e)
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
	return NULL;
}

static bool same(const Tensor *a, const Tensor *b, bool exact)
{
	double most = 0, off = 0;

	if (a->dtype != b->dtype || a->bytes != b->bytes)
		return false;
	if (!dtype_is_float(a->dtype))
		return !memcmp(a->data, b->data, (size_t)a->bytes);
	for (int64_t i = 0; i < tensor_numel(a); i++) {
		double x = dtype_load_f64(a->dtype, a->data, i),
		       y = dtype_load_f64(b->dtype, b->data, i);

		if (exact && !(isnan(x) && isnan(y)) && (!(x == y) || signbit(x) != signbit(y)))
			return false;
		most = fmax(most, fabs(y));
		off = fmax(off, fabs(x - y));
	}
	return exact || off <= 1e-5 * most;
}

static void try_rule(int at, const Rule *rule, uint64_t seed)
{
	Diag diag = {.out = stdout};
	Ctx *ctx = ctx_new(&diag);
	Arena *a = arena_new();
	Module m = {.ctx = ctx, .arena = a, .graph = graph_new(ctx, a, "main")};
	Canon c = {.m = &m, .g = m.graph, .tmp = a, .budget = -1};
	bool exact = rule->flags == RULE_EXACT;
	Example e = {.n = 0};
	Tensor *before[1], *after[1];
	const Type *type;
	Value *v;

	m.infer = c.in = infer_new(m.graph);
	c.rules = rules_read(a);
	if (check(read_example(m.graph, rule->example, &(Rng){seed}, exact, &e),
		  "the example cannot be read")) {
		v = rule_example(&c, at, find, &e);
		graph_result(m.graph, v, "y");
		type = v->type;
		check(type != NULL, "the left side has no type");
		check(eval_graph(m.graph, e.data, before, a, &diag), "the left side cannot be run");
		if (check(rule_apply(&c, at, v->def), "does not match its own left side")) {
			v = m.graph->results.at[0]->value;
			check(v->type == type, "another type");
			check(graph_verify(m.graph, &diag, rule->name), "the graph is broken");
			check(eval_graph(m.graph, e.data, after, a, &diag) &&
				      same(after[0], before[0], exact),
			      "the sides differ");
		}
	}
	arena_free(a);
	ctx_free(ctx);
}

int main(void)
{
	for (int i = 0; rule_table[i].name; i++) {
		rule_name = rule_table[i].name;
		for (uint64_t seed = 1; seed <= SEEDS; seed++)
			try_rule(i, &rule_table[i], seed);
	}
	return failed != 0;
}
