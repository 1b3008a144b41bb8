/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dims: normal forms, by examples; and random dims compared with evaluation in plain integers. A
 * rewrite must keep the value, bounds must hold, a proof must be true, and printed text must be
 * read back.
 */
#include "ir/dim/dim.h"

#include <stdlib.h>
#include <string.h>

static int failed;

#define CHECK(x) ((x) ? (void)0 : fail(__LINE__, #x))

static void fail(int line, const char *what)
{
	printf("test_dim.c:%d: %s\n", line, what);
	failed++;
}

static Dim *read_dim(Ctx *c, const char *text)
{
	const char *p = text;
	Dim *d = dim_parse(c, &p);

	if (!d || *p) {
		printf("test_dim.c: cannot read '%s' at '%s'\n", text, p);
		failed++;
		return dim_const(c, 0);
	}
	return d;
}

static void same(Ctx *c, int line, const char *text, const char *want)
{
	StrBuf b = {0};
	Dim *d = read_dim(c, text);

	dim_print(&b, d);
	if (strcmp(strbuf_str(&b), want)) {
		printf("test_dim.c:%d: '%s' is '%s', not '%s'\n", line, text, strbuf_str(&b), want);
		failed++;
	}
	if (read_dim(c, strbuf_str(&b)) != d)
		fail(line, "text does not read back");
	strbuf_free(&b);
}

#define SAME(text, want) same(c, __LINE__, (text), (want))

static void bound(Ctx *c, const char *name, int64_t lo, int64_t hi)
{
	sym_bound(c, sym_get(c, name), lo, hi);
}

static void test_forms(Ctx *c)
{
	bound(c, "P", 1, DIM_INF);
	bound(c, "T", 1, 64);
	bound(c, "d", -DIM_FAR, DIM_FAR);
	SAME("N + 1 + N", "2*N + 1");
	SAME("(N + 1)*(N - 1)", "N^2 - 1");
	SAME("B*S*768/(S*768)", "B");
	SAME("(B*S + S)/S", "B + 1");
	SAME("(N*M + 2*N)/(M + 2)", "N");
	SAME("(3*N + 1)/2", "N + floor(N + 1, 2)");
	SAME("floor(N - 1, 2) + 1", "floor(N + 1, 2)");
	SAME("floor(floor(N - 1, 2), 2)", "floor(N + 3, 4) - 1");
	SAME("floor(floor(N, M), 3)", "floor(N, 3*M)");
	SAME("(2*N + 1)/4", "floor(N, 2)");
	SAME("-N/2", "-N + floor(N, 2)");
	SAME("min(N, min(64, M))", "min(M, N, 64)");
	SAME("min(T, 64)", "T");
	SAME("max(P, 1)", "P");
	SAME("max(0, N)", "N");
	SAME("max(N, min(N, M))", "N");
	SAME("min(N + 1, M + 1)", "min(M, N) + 1");
	SAME("min(2*N, 2*M)", "2*min(M, N)");
	SAME("max(N, -9223372036854775808, 0)", "N");
	SAME("max(d - 3, -9223372036854775808)", "d - 3");
	SAME("max(d, -9223372036854775807, 5)", "max(d, 5)");
	SAME("min(M, N, 9223372036854775807)", "min(M, N)");
	SAME("floor(T - 1, 64)", "0");
	SAME("floor(floor(N, P) - floor(N, P), 3)", "0");
	SAME("floor(N, P*5 + N)", "0");
	SAME("9223372036854775807 + 1", "add(1, 9223372036854775807)");
	SAME("-9223372036854775808*N", "-9223372036854775808*N");
	SAME("4611686018427387904*N*2", "mul(4611686018427387904*N, 2)");
	SAME("$\"a.b\" + $\"floor\"*x_1", "$\"floor\"*x_1 + $\"a.b\"");
	CHECK(dim_floordiv(c, dim_const(c, 5), dim_const(c, 0)) == dim_const(c, 0));
	CHECK(dim_ceildiv(c, read_dim(c, "N"), dim_const(c, 2)) == read_dim(c, "(N + 1)/2"));
	CHECK(dim_mod(c, read_dim(c, "4*N + 5"), dim_const(c, 4)) == dim_const(c, 1));
	CHECK(dim_prove_le(c, read_dim(c, "N - 4*floor(N, 4)"), dim_const(c, 3)));
	CHECK(dim_prove_le(c, dim_const(c, 0), read_dim(c, "N - 4*floor(N, 4)")));
	CHECK(dim_prove_le(c, read_dim(c, "N"), read_dim(c, "N*P")));
	CHECK(dim_prove_le(c, read_dim(c, "N*T"), read_dim(c, "64*N")));
	CHECK(dim_prove_le(c, read_dim(c, "min(N, M)"), read_dim(c, "max(N, 7)")));
	CHECK(dim_prove_le(c, read_dim(c, "floor(N, 2)*2"), read_dim(c, "N")));
	CHECK(dim_prove_lt(c, read_dim(c, "N"), read_dim(c, "floor(N, 2)*2 + 2")));
	CHECK(!dim_prove_le(c, read_dim(c, "N"), read_dim(c, "M")));
	CHECK(dim_prove_lt(c, dim_const(c, INT64_MIN), dim_const(c, INT64_MAX)));
	CHECK(!dim_prove_le(c, dim_const(c, INT64_MAX), read_dim(c, "N")));
	CHECK(!dim_prove_lt(c, read_dim(c, "N"), dim_const(c, INT64_MAX)));
	CHECK(dim_eq(c, read_dim(c, "2*N"), read_dim(c, "2*M + 1")) == dim_const(c, 0));
	CHECK(dim_le(c, read_dim(c, "T"), dim_const(c, 64)) == dim_const(c, 1));
}

static void test_as_eq(Ctx *c)
{
	static const char *const pairs[][2] = {
		{"T", "1"}, {"N", "M"}, {"2*N", "M + 1"}, {"N + 1", "1"}, {"floor(N, 512)", "min(M, 3)"}};

	for (int i = 0; i < (int)(sizeof(pairs) / sizeof(*pairs)); i++) {
		Dim *a = read_dim(c, pairs[i][0]), *b = read_dim(c, pairs[i][1]);
		Dim *x = dim_as_eq(c, dim_eq(c, a, b));

		CHECK(x && (x == dim_sub(c, a, b) || x == dim_sub(c, b, a)));
	}
	CHECK(!dim_as_eq(c, dim_const(c, 1)));
	CHECK(!dim_as_eq(c, read_dim(c, "N")));
	CHECK(!dim_as_eq(c, dim_le(c, read_dim(c, "N"), read_dim(c, "M"))));
	CHECK(!dim_as_eq(c, read_dim(c, "1 - min(2, max(N - M, M - N))")));
}

/* Values near the ends of 64 bits, exactly; false where the result does not fit. */
static void test_wide(Ctx *c)
{
	const int64_t big[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX};
	Dim *a, *b, *length;
	int64_t *env, v;

	bound(c, "i", -DIM_INF, DIM_INF);
	bound(c, "j", -DIM_INF, DIM_INF);
	a = read_dim(c, "i");
	b = read_dim(c, "j");
	length = read_dim(c, "floor(i - j, 4611686018427387904)");
	env = calloc((size_t)sym_count(c), sizeof *env);
	for (size_t k = 0; k < sizeof big / sizeof *big * (sizeof big / sizeof *big); k++) {
		const int64_t x = big[k / 6], y = big[k % 6];
		const __int128 apart = (__int128)x - y, quarter = (__int128)1 << 62;

		env[dim_as_sym(a)->id] = x;
		env[dim_as_sym(b)->id] = y;
		CHECK(dim_eval(length, env, &v) &&
		      v == (apart - ((apart % quarter) + quarter) % quarter) / quarter);
		CHECK(dim_eval(read_dim(c, "max(min(i - j, 5), -5)"), env, &v) &&
		      v == (apart < -5 ? -5 : apart > 5 ? 5 : apart));
		CHECK(dim_eval(dim_sub(c, a, b), env, &v) == (apart == (int64_t)apart));
	}
	free(env);
	SAME("floor(add(9223372036854775807, mul(9223372036854775807, 2)), 9223372036854775807)", "3");
	SAME("max(add(-9223372036854775807, -5), -4)", "-4");
	CHECK(sym_allows(sym_get(c, "i"), INT64_MIN) && !sym_allows(sym_get(c, "P"), 0));
}

static void test_solving(Ctx *c)
{
	Dim *d = read_dim(c, "3*N + M*S - 2"), *q;
	int64_t k, lo, hi;

	CHECK(dim_linear_in(c, d, sym_get(c, "N"), &k, &q) && k == 3 &&
	      q == read_dim(c, "M*S - 2"));
	CHECK(!dim_linear_in(c, d, sym_get(c, "M"), &k, &q));
	CHECK(!dim_linear_in(c, read_dim(c, "N + floor(N, 2)"), sym_get(c, "N"), &k, &q));
	CHECK(dim_divides(c, read_dim(c, "6*N*M + 4*N"), read_dim(c, "2*N"), &q) &&
	      q == read_dim(c, "3*M + 2"));
	CHECK(!dim_divides(c, read_dim(c, "6*N + 1"), dim_const(c, 2), &q));
	CHECK(dim_as_sym(read_dim(c, "N")) == sym_get(c, "N") && !dim_as_sym(d));
	dim_bounds(c, dim_eq(c, read_dim(c, "N"), read_dim(c, "M")), &lo, &hi);
	CHECK(lo == 0 && hi == 1);
	CHECK(sym_fresh(c, "N") != sym_get(c, "N"));
}

/* ---- Random ---- */

enum { NSYMS = 4, SAMPLES = 40 };

static uint64_t seed = 1;

static int64_t rnd(int64_t lo, int64_t hi)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return lo + (int64_t)((seed >> 33) % (uint64_t)(hi - lo + 1));
}

/* A dim, and its value at every sample, computed in plain integers. */
typedef struct Both {
	Dim *d;
	int64_t v[SAMPLES];
} Both;

static int64_t floordiv(int64_t a, int64_t b)
{
	int64_t q = b ? a / b : 0;

	return b && a % b && (a < 0) != (b < 0) ? q - 1 : q;
}

static int64_t apply(int op, int64_t a, int64_t b)
{
	switch (op) {
	case 0: return a + b;
	case 1: return a - b;
	case 2: return a * b;
	case 3: return floordiv(a, b);
	case 4: return a < b ? a : b;
	case 5: return a > b ? a : b;
	case 6: return b > 0 ? -floordiv(-a, b) : 0;
	case 7: return a == b;
	default: return a <= b;
	}
}

static Dim *build(Ctx *c, int op, Dim *a, Dim *b)
{
	switch (op) {
	case 0: return dim_add(c, a, b);
	case 1: return dim_sub(c, a, b);
	case 2: return dim_mul(c, a, b);
	case 3: return dim_floordiv(c, a, b);
	case 4: return dim_min(c, a, b);
	case 5: return dim_max(c, a, b);
	case 6: return dim_ceildiv(c, a, b);
	case 7: return dim_eq(c, a, b);
	default: return dim_le(c, a, b);
	}
}

/* Divisors are positive, as sizes are. */
static Both combine(Ctx *c, const Both *a, const Both *b, bool *ok)
{
	Both r;
	int op = (int)rnd(0, 8);

	*ok = true;
	for (int i = 0; i < SAMPLES; i++) {
		if ((op == 3 || op == 6) && b->v[i] <= 0)
			op = 0;
		if (llabs(a->v[i]) > 1000000 || llabs(b->v[i]) > 1000000)
			*ok = false;
	}
	if (!*ok)
		return *a;
	r.d = build(c, op, a->d, b->d);
	for (int i = 0; i < SAMPLES; i++)
		r.v[i] = apply(op, a->v[i], b->v[i]);
	return r;
}

static void check_both(Ctx *c, const Both *x, int64_t (*sym)[SAMPLES], int64_t *env)
{
	int64_t lo, hi, v;
	StrBuf b = {0};

	dim_bounds(c, x->d, &lo, &hi);
	dim_print(&b, x->d);
	for (int i = 0; i < SAMPLES; i++) {
		for (int s = 0; s < NSYMS; s++)
			env[s] = sym[s][i];
		if (!dim_eval(x->d, env, &v) || v != x->v[i] || v < lo || v > hi) {
			printf("test_dim.c: %s at %d,%d,%d,%d is %lld, not %lld; bounds %lld "
			       "%lld\n",
			       strbuf_str(&b), (int)env[0], (int)env[1], (int)env[2], (int)env[3],
			       (long long)v, (long long)x->v[i], (long long)lo, (long long)hi);
			failed++;
			break;
		}
	}
	if (strlen(strbuf_str(&b)) < 2000 && read_dim(c, strbuf_str(&b)) != x->d) {
		StrBuf again = {0};

		dim_print(&again, read_dim(c, strbuf_str(&b)));
		printf("test_dim.c: %s\nreads back as %s\n", strbuf_str(&b), strbuf_str(&again));
		strbuf_free(&again);
		failed++;
	}
	strbuf_free(&b);
}

static void check_proofs(Ctx *c, const Both *a, const Both *b)
{
	bool le = dim_prove_le(c, a->d, b->d), lt = dim_prove_lt(c, a->d, b->d);

	for (int i = 0; i < SAMPLES; i++) {
		CHECK(!le || a->v[i] <= b->v[i]);
		CHECK(!lt || a->v[i] < b->v[i]);
	}
}

static void test_random(Ctx *c, int rounds)
{
	static const struct {
		const char *name;
		int64_t lo, hi;
	} row[NSYMS] = {{"a", 1, DIM_INF}, {"b", 1, 9}, {"c", 0, DIM_INF}, {"d", -5, 5}};
	int64_t sym[NSYMS][SAMPLES], env[NSYMS];

	for (int k = 0; k < rounds; k++) {
		Both x[16];
		int n = 0;

		for (int s = 0; s < NSYMS; s++, n++) {
			bound(c, row[s].name, row[s].lo, row[s].hi);
			x[n].d = sym_get(c, row[s].name)->dim;
			for (int i = 0; i < SAMPLES; i++)
				sym[s][i] = x[n].v[i] = rnd(row[s].lo,
							    row[s].hi == DIM_INF ? 30 : row[s].hi);
		}
		for (int s = 0; s < 4; s++, n++) {
			int64_t v = rnd(-4, 12);

			x[n].d = dim_const(c, v);
			for (int i = 0; i < SAMPLES; i++)
				x[n].v[i] = v;
		}
		while (n < 16) {
			bool ok;
			Both r = combine(c, &x[rnd(0, n - 1)], &x[rnd(0, n - 1)], &ok);

			check_both(c, &r, sym, env);
			check_proofs(c, &r, &x[rnd(0, n - 1)]);
			check_proofs(c, &x[rnd(0, n - 1)], &r);
			x[n++] = r;
		}
	}
}

/* Hostile growth ends soon, with a diagnostic. */
static void test_limits(void)
{
	Diag diag = {0};
	Ctx *c = ctx_new(&diag);
	Dim *x = sym_get(c, "x")->dim, *y = x;

	for (int i = 0; i < 400; i++)
		x = dim_add(c, x,
			    dim_floordiv(c, dim_mul(c, x, x), dim_add(c, x, dim_const(c, 3))));
	for (int i = 0; i < 100; i++)
		y = dim_mul(c, y, dim_add(c, y, dim_const(c, i)));
	CHECK(diag.errors == 1);
	ctx_free(c);
}

int main(int argc, char **argv)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);

	test_random(c, argc > 1 ? atoi(argv[1]) : 300);
	ctx_free(c);
	c = ctx_new(&diag);
	test_forms(c);
	test_wide(c);
	test_as_eq(c);
	test_solving(c);
	ctx_free(c);
	test_limits();
	printf("%s\n", failed || diag.errors ? "FAILED" : "ok");
	return failed || diag.errors;
}
