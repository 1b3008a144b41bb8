/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routines on the text of strings: concatenation, pieces, order, case. Text is UTF-8; other bytes
 * are copied unchanged. Nothing depends on the process's locale.
 *
 * Case is mapped character by character, by Unicode's simple case mapping (runtime/str_case.def):
 * the upper case of "ß" is "ß", not "SS", and a final sigma is not special.
 */
#include "runtime/escape.h"
#define DLRT_GENERATED 1
#include "runtime/strtable.h"

#include <string.h>

/* ---- Concatenation, order ---- */

int64_t dl_str_concat(dl_strings *t, int64_t a, int64_t b)
{
	const dl_str x = strings_get(t, a), y = strings_get(t, b);
	char some[256], *p = some;
	int64_t id = 0;

	if (!x.n || !y.n)
		return x.n ? a : y.n ? b : 0;
	if (x.n > INT64_MAX / 2 || y.n > INT64_MAX / 2) {
		strings_fail(t, DL_NOMEM, 0, NULL);
		return 0;
	}
	if (x.n + y.n > sizeof(some))
		p = strings_alloc(t, x.n + y.n);
	if (!p)
		return 0;
	memcpy(p, x.p, x.n);
	memcpy(p + x.n, y.p, y.n);
	id = strings_intern(t, p, x.n + y.n);
	if (p != some)
		strings_release(t, p, x.n + y.n);
	return id;
}

_Bool dl_str_less(dl_strings *t, int64_t a, int64_t b)
{
	const dl_str x = strings_get(t, a), y = strings_get(t, b);
	const int c = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);

	return c < 0 || (c == 0 && x.n < y.n);
}

/* ---- Characters ---- */

/* The character at P, of N bytes at most; returns its bytes. A byte that begins no character is
 * one, with the code UINT32_MAX. */
uint64_t str_character(const char *p, uint64_t n, uint32_t *code)
{
	char some[5] = {0};

	if ((unsigned char)*p < 0x80) {
		*code = (unsigned char)*p;
		return 1;
	}
	if (n >= 4)
		return escape_character(p, code);
	memcpy(some, p, n);
	return escape_character(some, code);
}

/* ---- Pieces ---- */

/* White space as Python's str.split() has it. */
static bool is_space(uint32_t c)
{
	return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
	       c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
	       c == 0x202f || c == 0x205f || c == 0x3000;
}

/* The bytes of white space at P, or of other characters, up to N. */
static uint64_t span(const char *p, uint64_t n, bool space)
{
	uint64_t at = 0;
	uint32_t c;

	while (at < n) {
		const uint64_t bytes = str_character(p + at, n - at, &c);

		if (is_space(c) != space)
			break;
		at += bytes;
	}
	return at;
}

/* The position of delimiter D in S; S.n if S does not have it. */
static uint64_t find(dl_str s, dl_str d)
{
	const char *at = s.n >= d.n ? memmem(s.p, s.n, d.p, d.n) : NULL;

	return at ? (uint64_t)(at - s.p) : s.n;
}

/* Moves *S past its first piece, *PIECE; false if there is none. *MORE: a delimiter was skipped, so
 * another, perhaps empty, piece follows. */
static bool next_piece(dl_str *s, dl_str d, dl_str *piece, bool *more)
{
	uint64_t n;

	if (!d.n) {
		n = span(s->p, s->n, true);
		*s = (dl_str){s->p + n, s->n - n};
		n = span(s->p, s->n, false);
		*piece = (dl_str){s->p, n};
		*s = (dl_str){s->p + n, s->n - n};
		*more = true;
		return n > 0;
	}
	if (!*more)
		return false;
	n = find(*s, d);
	*piece = (dl_str){s->p, n};
	*more = n < s->n;
	n += *more ? d.n : 0;
	*s = (dl_str){s->p + n, s->n - n};
	return true;
}

int64_t dl_str_pieces(dl_strings *t, int64_t id, int64_t delimiter)
{
	const dl_str d = strings_get(t, delimiter);
	dl_str s = strings_get(t, id), piece;
	bool more = s.n > 0;
	int64_t n = 0;

	while (next_piece(&s, d, &piece, &more))
		n++;
	return n;
}

/* The start of a piece of a string. */
typedef struct PiecePlace {
	uint64_t generation; /* of the table; 0: nowhere */
	int64_t id, delimiter, k;
	dl_str rest;    /* the text after K pieces */
	bool more, end; /* END: there are K pieces */
} PiecePlace;

/* The start of the string's piece K, or its end if there are fewer. A thread resumes at its last
 * position if that is in the same string, so that all pieces of a string take one walk. */
static PiecePlace place_of(const dl_strings *t, int64_t id, int64_t delimiter, int64_t k)
{
	static _Thread_local PiecePlace last;
	const uint64_t generation = strings_generation(t);
	const dl_str d = strings_get(t, delimiter);
	dl_str piece;

	if (last.generation != generation || last.id != id || last.delimiter != delimiter ||
	    last.k > k) {
		const dl_str s = strings_get(t, id);

		last = (PiecePlace){generation, id, delimiter, 0, s, s.n > 0, false};
	}
	while (last.k < k && !last.end) {
		last.end = !next_piece(&last.rest, d, &piece, &last.more);
		last.k += !last.end;
	}
	return last;
}

int64_t dl_str_piece(dl_strings *t, int64_t id, int64_t delimiter, int64_t k)
{
	PiecePlace at = place_of(t, id, delimiter, k);
	dl_str piece;

	if (at.end || !next_piece(&at.rest, strings_get(t, delimiter), &piece, &at.more))
		return 0;
	return strings_intern(t, piece.p, piece.n);
}

int64_t dl_str_rest(dl_strings *t, int64_t id, int64_t delimiter, int64_t k)
{
	const PiecePlace at = place_of(t, id, delimiter, k);
	uint64_t n;

	if (at.end)
		return 0;
	n = strings_get(t, delimiter).n ? 0 : span(at.rest.p, at.rest.n, true);
	return strings_intern(t, at.rest.p + n, at.rest.n - n);
}

/* ---- Case ---- */

/* The characters FIRST, FIRST + STEP ... LAST are mapped to the characters DELTA further. */
typedef struct CaseRange {
	uint32_t first, last;
	int32_t step, delta;
} CaseRange;

static const CaseRange to_lower[] = {
#define LOWER(first, last, step, delta) {first, last, step, delta},
#include "runtime/str_case.def"
#undef LOWER
};

static const CaseRange to_upper[] = {
#define UPPER(first, last, step, delta) {first, last, step, delta},
#include "runtime/str_case.def"
#undef UPPER
};

static uint32_t map_case(const CaseRange *r, size_t n, uint32_t c)
{
	size_t low = 0;

	while (n > 1) {
		const size_t half = n / 2;

		if (c >= r[low + half].first)
			low += half;
		n -= half;
	}
	r += low;
	if (c < r->first || c > r->last || (c - r->first) % (uint32_t)r->step)
		return c;
	return c + (uint32_t)r->delta;
}

uint32_t str_lower_code(uint32_t c)
{
	return map_case(to_lower, sizeof(to_lower) / sizeof(*to_lower), c);
}

uint32_t str_upper_code(uint32_t c)
{
	return map_case(to_upper, sizeof(to_upper) / sizeof(*to_upper), c);
}

static char *put_code(char *to, uint32_t c)
{
	const int n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	if (n == 1) {
		*to = (char)c;
		return to + 1;
	}
	for (int i = n; i-- > 1; c >>= 6)
		to[i] = (char)(0x80 | (c & 0x3f));
	to[0] = (char)((0xf00u >> n & 0xf0u) | c);
	return to + n;
}

static int64_t with_case(dl_strings *t, int64_t id, uint32_t (*map)(uint32_t c))
{
	const dl_str s = strings_get(t, id);
	char some[256], *p = some, *to;
	const uint64_t room = s.n * 2; /* two bytes become three at most */
	uint32_t c;

	if (s.n > INT64_MAX / 4) {
		strings_fail(t, DL_NOMEM, 0, NULL);
		return 0;
	}
	if (room > sizeof(some))
		p = strings_alloc(t, room);
	if (!p)
		return 0;
	to = p;
	for (uint64_t i = 0, n; i < s.n; i += n) {
		n = str_character(s.p + i, s.n - i, &c);
		if (c == UINT32_MAX)
			*to++ = s.p[i];
		else
			to = put_code(to, map(c));
	}
	id = strings_intern(t, p, (uint64_t)(to - p));
	if (p != some)
		strings_release(t, p, room);
	return id;
}

int64_t dl_str_lower(dl_strings *t, int64_t s)
{
	return with_case(t, s, str_lower_code);
}

int64_t dl_str_upper(dl_strings *t, int64_t s)
{
	return with_case(t, s, str_upper_code);
}
