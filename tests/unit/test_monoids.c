/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every row of monoids.def is a monoid: its identity is neutral on both sides, and combining is
 * associative. Tried with random values of every type that it is used with, including NaN and
 * infinities. For sums and products the values are small integers, so that there is no rounding.
 * Monoids with atomic updates have one component and are commutative.
 */
#include "ir/kernel/kernel.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state >> 11;
}

/* Whether M is used with states whose first component has type T. */
static bool applies(Monoid m, CType t)
{
	if (m == MONOID_or || m == MONOID_and)
		return t == CT_BOOL;
	return t != CT_BOOL;
}

static Expr *random_value(ExprPool *p, Monoid m, int comp, CType t)
{
	int64_t v = (int64_t)(random_bits() % 7) - 3;
	bool exact = m == MONOID_sum || m == MONOID_prod;

	if (comp == 1)
		return ex_int(p, t, (int64_t)(random_bits() % 9));
	if (t == CT_BOOL)
		return ex_int(p, t, v & 1);
	if (ctype_is_float(t)) {
		uint64_t special = exact ? 9 : random_bits() % 12;

		return ex_float(p, t,
				special == 0   ? (double)NAN
				: special == 1 ? (double)INFINITY
				: special == 2 ? -(double)INFINITY
					       : (double)v);
	}
	if (!exact && random_bits() % 8 == 0)
		v = v < 0 ? INT32_MIN : INT32_MAX;
	return ex_int(p, t, t == CT_U32 ? (int64_t)(uint32_t)v : v);
}

static void combine(ExprPool *p, Monoid m, Expr *const *a, Expr *const *b, Expr **out)
{
	Expr *r[2];

	for (int k = 0; k < monoid_info[m].n; k++) {
		r[k] = monoid_combine(p, m, k, a, b);
		assert(r[k]->kind == EX_CONST);
	}
	memcpy(out, r, (size_t)monoid_info[m].n * sizeof *out);
}

static bool same(Monoid m, Expr *const *a, Expr *const *b)
{
	for (int k = 0; k < monoid_info[m].n; k++)
		if (a[k] != b[k] && !(ctype_is_float(a[k]->ct) && a[k]->f == b[k]->f))
			return false;
	return true;
}

static void print_state(Monoid m, const char *what, Expr *const *v)
{
	StrBuf b = {0};

	for (int k = 0; k < monoid_info[m].n; k++) {
		strbuf_puts(&b, k ? ", " : "");
		ex_print(&b, v[k]);
	}
	printf("  %s: %s\n", what, strbuf_str(&b));
	strbuf_free(&b);
}

static bool check_once(ExprPool *p, Monoid m, const CType *t)
{
	Expr *v[3][2], *e[2], *left[2], *right[2], *one[2], *two[2], *turned[2];
	const bool atomic = *monoid_info[m].atomic;

	for (int k = 0; k < monoid_info[m].n; k++) {
		e[k] = monoid_identity(p, m, k, t[k]);
		for (int i = 0; i < 3; i++)
			v[i][k] = random_value(p, m, k, t[k]);
	}
	combine(p, m, e, v[0], left);
	combine(p, m, v[0], e, right);
	combine(p, m, v[0], v[1], one);
	combine(p, m, v[1], v[0], turned);
	if (atomic && (monoid_info[m].n > 1 || !same(m, one, turned))) {
		printf("%s of %s is not for atomics\n", monoid_info[m].name, ctype_name[t[0]]);
		return false;
	}
	combine(p, m, one, v[2], one);
	combine(p, m, v[1], v[2], two);
	combine(p, m, v[0], two, two);
	if (same(m, left, v[0]) && same(m, right, v[0]) && same(m, one, two))
		return true;
	printf("%s of %s is not a monoid:\n", monoid_info[m].name, ctype_name[t[0]]);
	for (int i = 0; i < 3; i++)
		print_state(m, "value", v[i]);
	print_state(m, "identity, value", left);
	print_state(m, "value, identity", right);
	print_state(m, "(a, b), c", one);
	print_state(m, "a, (b, c)", two);
	return false;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 300, failed = 0;
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);

	for (Monoid m = MONOID_NONE + 1; m < MONOID_COUNT; m++)
		for (CType t = CT_BOOL; t < CT_COUNT; t++) {
			const CType types[2] = {t, CT_I64};
			Arena *a = arena_new();
			ExprPool *p = expr_pool_new(c, a);
			bool ok = true;

			for (int i = 0; i < rounds && ok && applies(m, t); i++)
				ok = check_once(p, m, types);
			failed += !ok;
			arena_free(a);
		}
	ctx_free(c);
	printf("%s\n", failed ? "FAILED" : "ok");
	return failed != 0;
}
