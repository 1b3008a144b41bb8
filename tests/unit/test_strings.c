/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of strings: in any order, past the end, and after the table has forgotten its strings. The
 * hash of the table. Patterns: nested deeply, repeated, and without memory. */
#define DLRT_GENERATED 1
#include "runtime/siphash.h"
#include "runtime/strtable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* The vector of the paper's appendix A, with two rounds for each word and four at the end. */
static void test_sip_hash(void)
{
	unsigned char text[15], bytes[16];
	SipKey key;

	for (unsigned char i = 0; i < 16; i++) {
		bytes[i] = i;
		text[i % 15] = i % 15;
	}
	memcpy(&key, bytes, sizeof(key));
	CHECK(sip_hash(key, text, 15, 2, 4) == 0xa129ca6149be45e5u);
}

/* N strings of 16 bytes that all have one hash for whoever knows the hash below, which has no key:
 * the first word is any, the second one undoes it. */
static void collide(uint64_t (*text)[2], int n)
{
	const uint64_t mul = 0x9e3779b97f4a7c15u;
	uint64_t inverse = mul;

	for (int i = 0; i < 6; i++)
		inverse *= 2 - mul * inverse;
	for (int i = 0; i < n; i++) {
		uint64_t h = 0xcbf29ce484222325u ^ 16;

		text[i][0] = (uint64_t)i * 0x2545f4914f6cdd1du;
		h = (h ^ text[i][0]) * mul;
		h ^= h >> 29;
		text[i][1] = 0x123456789abcdef0u * inverse ^ h;
	}
}

static double seconds_of(uint64_t (*text)[2], int n)
{
	dl_strings *t = strings_new(NULL, NULL, 0);
	const clock_t begin = clock();

	for (int i = 0; i < n; i++)
		CHECK(strings_intern(t, (const char *)text[i], 16) == i + 1);
	strings_free(t);
	return (double)(clock() - begin) / CLOCKS_PER_SEC;
}

/* Strings chosen to collide, or to differ in single bits, take no longer than any others. */
static void test_chosen(void)
{
	enum { CHOSEN = 20000 };
	static uint64_t text[CHOSEN][2];
	double any, chosen, bits;

	for (int i = 0; i < CHOSEN; i++)
		for (int k = 0; k < 2; k++)
			text[i][k] = (uint64_t)(2 * i + k + 1) * 0xd6e8feb86659fd93u;
	any = seconds_of(text, CHOSEN);
	collide(text, CHOSEN);
	chosen = seconds_of(text, CHOSEN);
	for (int i = 0; i < CHOSEN; i++) {
		text[i][0] = (uint64_t)i << 46;
		text[i][1] = 0;
	}
	bits = seconds_of(text, CHOSEN);
	CHECK(chosen < 10 * any + 0.5);
	CHECK(bits < 10 * any + 0.5);
}

/* ---- Patterns ---- */

static bool matches(dl_strings *t, const char *pattern, const char *text)
{
	const char *why;
	Regex *r = regex_new(t, (dl_str){pattern, strlen(pattern)}, &why);
	const bool yes = r && regex_matches(t, r, (dl_str){text, strlen(text)});

	CHECK(r != NULL);
	regex_free(t, r);
	return yes;
}

/* DEPTH open parentheses, "a", as many closed ones, each of which REPEATS follows. */
static char *nested(int depth, const char *repeats)
{
	char *s = malloc((size_t)depth * (2 + strlen(repeats)) + 2), *to = s;

	memset(to, '(', (size_t)depth);
	to += depth;
	*to++ = 'a';
	for (int i = 0; i < depth; i++)
		to += sprintf(to, ")%s", repeats);
	*to = '\0';
	return s;
}

static void test_nested(void)
{
	enum { MOST = 1000 }; /* the limit that docs/c-api.md gives */
	dl_strings *t = strings_new(NULL, NULL, 0);
	char *deep = nested(MOST, ""), *deeper = nested(MOST + 1, ""), *stars = nested(MOST, "*");
	const char *why = NULL;

	CHECK(matches(t, deep, "a") && !matches(t, deep, "aa"));
	CHECK(matches(t, stars, "aaa") && !matches(t, stars, "b"));
	CHECK(!regex_new(t, (dl_str){deeper, strlen(deeper)}, &why) && why &&
	      strstr(why, "nested"));
	free(deep);
	free(deeper);
	free(stars);
	strings_free(t);
}

/* Repetitions of what has alternatives, repetitions and flags in it. */
static void test_repeated(void)
{
	dl_strings *t = strings_new(NULL, NULL, 0);

	CHECK(matches(t, "(a|b+c?){2,3}x", "abbcx") && !matches(t, "(a|b+c?){2,3}x", "ax"));
	CHECK(matches(t, "((?i:k)|l){3}", "kKl") && !matches(t, "((?i:k)|l){3}", "kKL"));
	CHECK(matches(t, "(a{2}){2,}b{0}", "aaaaaa") && !matches(t, "(a{2}){2,}", "aaaaa"));
	CHECK(matches(t, "(?:x|[0-9]{2}){0,2}", "12x") && matches(t, "(?:x|[0-9]{2}){0,2}", ""));
	CHECK(matches(t, "(\\Qa|b\\E|c){2}", "a|bc") && !matches(t, "(\\Qa|b\\E|c){2}", "ab"));
	strings_free(t);
}

/* ---- No memory ---- */

static long calls, fails;

static void *alloc(void *user, uint64_t bytes, uint64_t align)
{
	(void)user;
	return ++calls == fails ? NULL : aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void release(void *user, void *p, uint64_t bytes)
{
	(void)user;
	(void)bytes;
	free(p);
}

/* Whichever allocation fails, the table says so, and the pattern matches the next time. */
static void test_no_memory(void)
{
	static const char pattern[] = "(a|[b-d]){2,3}(?i:x)*(1|22|333){1,5}";
	const StringsMemory memory = {NULL, alloc, release};
	bool done = false;

	for (long k = 1; !done && k < 100; k++) {
		dl_strings *t;
		int64_t p, s;

		fails = 0;
		t = strings_new(&memory, NULL, 0);
		p = strings_intern(t, pattern, sizeof(pattern) - 1);
		s = strings_intern(t, "acX221", 6);
		calls = 0;
		fails = k;
		done = dl_str_matches(t, s, p);
		CHECK(strings_status(t) == (done ? DL_OK : DL_NOMEM));
		fails = 0;
		strings_clear(t);
		CHECK(dl_str_matches(t, s, p) && strings_status(t) == DL_OK);
		strings_free(t);
	}
	CHECK(done);
}

int main(void)
{
	test_order();
	test_generations();
	test_long();
	test_sip_hash();
	test_chosen();
	test_nested();
	test_repeated();
	test_no_memory();
	printf("%s\n", failed ? "FAILED" : "ok");
	return failed != 0;
}
