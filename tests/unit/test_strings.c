/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of strings: in any order, past the end, and after the table has forgotten its strings. */
#define DLRT_GENERATED 1
#include "runtime/strtable.h"

#include <stdio.h>
#include <string.h>

static int failed;

#define CHECK(x)                                                       \
	do {                                                           \
		if (!(x)) {                                            \
			printf("%s:%d: %s\n", __FILE__, __LINE__, #x); \
			failed++;                                      \
		}                                                      \
	} while (0)

enum { MANY = 200000 };

static int64_t id_of_text(dl_strings *t, const char *s)
{
	return strings_intern(t, s, strlen(s));
}

/* Whether piece K of the string S is WANT. */
static bool is_piece(dl_strings *t, int64_t s, int64_t delimiter, int64_t k, const char *want)
{
	const dl_str piece = strings_get(t, dl_str_piece(t, s, delimiter, k));

	return piece.n == strlen(want) && !memcmp(piece.p, want, piece.n);
}

static void test_order(void)
{
	dl_strings *t = strings_new(NULL, NULL, 0);
	const int64_t s = id_of_text(t, "a,bc,,d"), other = id_of_text(t, "x,y"),
		      comma = id_of_text(t, ",");

	CHECK(is_piece(t, s, comma, 3, "d"));
	CHECK(is_piece(t, s, comma, 0, "a"));
	CHECK(is_piece(t, s, comma, 1, "bc"));
	CHECK(is_piece(t, other, comma, 2, ""));
	CHECK(is_piece(t, other, comma, 9, ""));
	CHECK(is_piece(t, other, comma, 1, "y"));
	CHECK(is_piece(t, s, comma, 2, ""));
	CHECK(is_piece(t, s, 0, 0, "a,bc,,d"));
	strings_free(t);
}

/* The same ids are other strings after strings_begin. */
static void test_generations(void)
{
	const dl_str constant[] = {{"", 0}, {" ", 1}};
	dl_strings *t = strings_new(NULL, constant, 2);
	const int64_t before = id_of_text(t, "one two three");
	int64_t after;

	CHECK(is_piece(t, before, 1, 1, "two"));
	strings_begin(t);
	after = id_of_text(t, "four five six");
	CHECK(after == before);
	CHECK(is_piece(t, after, 1, 2, "six"));
	strings_free(t);
}

/* All pieces of a long string take one walk over it: with a walk for each, this test would take
 * minutes. */
static void test_long(void)
{
	dl_strings *t = strings_new(NULL, NULL, 0);
	static char text[2 * MANY];
	int64_t s, space = id_of_text(t, " ");

	for (int i = 0; i < MANY; i++)
		memcpy(text + 2 * i, "w ", 2);
	s = strings_intern(t, text, sizeof text - 1);
	CHECK(dl_str_pieces(t, s, space) == MANY);
	for (int k = 0; k < MANY; k++)
		CHECK(is_piece(t, s, space, k, "w"));
	strings_free(t);
}

int main(void)
{
	test_order();
	test_generations();
	test_long();
	printf("%s\n", failed ? "FAILED" : "ok");
	return failed != 0;
}
