/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of ONNX nodes: their order, that each node occurs once, and that shared sets cost
 * nothing. */
#include "ir/graph/locs.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int failures;

#define CHECK(x)                                                                \
	do {                                                                    \
		if (!(x)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
			failures++;                                             \
		}                                                               \
	} while (0)

static const Locs *one(Arena *a, const char *node)
{
	return locs_one(a, (Loc){arena_strdup(a, node), "Relu"});
}

/* Whether the nodes of L are those that NAMES lists, a letter each. */
static bool has(Arena *a, const Locs *l, const char *names)
{
	const LocList all = locs_all(a, l);

	for (int i = 0; i < all.n; i++)
		if (all.at[i].node[0] != names[i])
			return false;
	return all.n == (int)strlen(names) && locs_count(l) == all.n;
}

static void test_order(Arena *a)
{
	const Locs *x = one(a, "x"), *y = one(a, "y"), *z = one(a, "z");
	const Locs *xy = locs_union(a, x, y);

	CHECK(has(a, NULL, "") && !locs_first(NULL).node);
	CHECK(has(a, locs_union(a, NULL, x), "x") && has(a, locs_union(a, x, NULL), "x"));
	CHECK(has(a, xy, "xy") && !strcmp(locs_first(xy).node, "x"));
	CHECK(has(a, locs_union(a, z, xy), "zxy"));
	CHECK(has(a, locs_union(a, locs_union(a, y, z), xy), "yzx"));
}

static void test_once(Arena *a)
{
	const Locs *x = one(a, "x"), *unnamed = locs_one(a, (Loc){NULL, NULL});

	CHECK(has(a, locs_union(a, x, one(a, "x")), "x"));
	CHECK(locs_count(locs_union(a, x, locs_one(a, (Loc){"x", "Neg"}))) == 2);
	CHECK(locs_count(locs_union(a, unnamed, locs_one(a, (Loc){NULL, NULL}))) == 1);
}

/* 2^100 ways lead to the two locations. */
static void test_shared(Arena *a)
{
	const Locs *x = one(a, "x"), *y = one(a, "y");

	for (int i = 0; i < 100; i++) {
		const Locs *next = locs_union(a, y, x);

		x = locs_union(a, x, y);
		y = next;
	}
	CHECK(locs_count(x) == 2);
}

static void test_long(Arena *a)
{
	enum { MANY = 100000 };
	const Locs *left = NULL, *right = NULL;

	for (int i = 0; i < MANY; i++) {
		const Locs *l = one(a, arena_printf(a, "%d", i));

		left = locs_union(a, left, l);
		right = locs_union(a, l, right);
	}
	CHECK(locs_count(left) == MANY && locs_count(right) == MANY);
	CHECK(locs_count(locs_union(a, left, right)) == MANY);
}

int main(void)
{
	Arena *a = arena_new();

	test_order(a);
	test_once(a);
	test_shared(a);
	test_long(a);
	arena_free(a);
	return failures != 0;
}
