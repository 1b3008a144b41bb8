/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void strbuf_room(StrBuf *b, size_t more)
{
	size_t cap = b->cap ? b->cap : 256;

	if (b->n + more + 1 <= b->cap)
		return;
	while (cap < b->n + more + 1)
		cap *= 2;
	b->at = realloc(b->at, cap);
	if (!b->at) {
		fprintf(stderr, "%s: error: out of memory (%zu bytes wanted)\n",
			program_invocation_short_name, cap);
		exit(1);
	}
	b->cap = cap;
}

void strbuf_free(StrBuf *b)
{
	free(b->at);
	*b = (StrBuf){0};
}

void strbuf_put(StrBuf *b, const char *s, size_t n)
{
	strbuf_room(b, n);
	memcpy(b->at + b->n, s, n);
	b->n += n;
	b->at[b->n] = 0;
}

void strbuf_puts(StrBuf *b, const char *s)
{
	strbuf_put(b, s, strlen(s));
}

void strbuf_vprintf(StrBuf *b, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	strbuf_room(b, (size_t)n);
	vsnprintf(b->at + b->n, (size_t)n + 1, fmt, again);
	b->n += (size_t)n;
	va_end(again);
}

void strbuf_printf(StrBuf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	strbuf_vprintf(b, fmt, ap);
	va_end(ap);
}

void strbuf_escape(StrBuf *b, const char *s, EscapeForm *form)
{
	char out[ESCAPE_MOST];

	while (*s)
		strbuf_put(b, out, form(&s, out));
}

void strbuf_json(StrBuf *b, const char *before, const char *name, const char *text)
{
	if (!text)
		return;
	strbuf_printf(b, "%s\"%s\":\"", before, name);
	strbuf_escape(b, text, escape_json);
	strbuf_puts(b, "\"");
}

const char *arena_escape(Arena *a, const char *s, EscapeForm *form)
{
	StrBuf b = {0};

	strbuf_escape(&b, s, form);
	s = arena_strdup(a, strbuf_str(&b));
	strbuf_free(&b);
	return s;
}

void strbuf_put_code(StrBuf *b, uint32_t c)
{
	const uint32_t code = c > 0x10ffff || c >> 11 == 0x1b ? 0xfffd : c;
	const int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	char text[4] = {(char)code};

	for (int i = n; n > 1 && i-- > 0;) {
		const uint32_t first = (0xf00u >> n & 0xf0u) | code >> 6 * (n - 1);
		const uint32_t byte = i ? 0x80u | (code >> 6 * (n - 1 - i) & 0x3fu) : first;

		text[i] = (char)byte;
	}
	strbuf_put(b, text, (size_t)n);
}

void strbuf_quote(StrBuf *b, const char *s)
{
	strbuf_quote_n(b, s, strlen(s));
}

void strbuf_quote_n(StrBuf *b, const char *s, size_t n)
{
	StrBuf text = {0};
	const char *at, *end;

	strbuf_put(&text, s, n); /* which ends with a NUL of its own */
	at = strbuf_str(&text);
	end = at + n;
	strbuf_puts(b, "\"");
	for (;; at++) {
		strbuf_escape(b, at, escape_quoted);
		at += strlen(at);
		if (at == end)
			break;
		strbuf_puts(b, "\\x00");
	}
	strbuf_puts(b, "\"");
	strbuf_free(&text);
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* Reads the escape at *P, after its backslash; false if it is not valid. ZEROS: \\x00 is. */
static bool read_escape(const char **p, bool zeros, char *out)
{
	const char c = **p;

	if (c == 'x' && hex_digit((*p)[1]) >= 0 && hex_digit((*p)[2]) >= 0) {
		*out = (char)(hex_digit((*p)[1]) * 16 + hex_digit((*p)[2]));
		*p += *out || zeros ? 3 : 0;
		return *out || zeros;
	}
	*out = c;
	if (c == 'n' || c == 't')
		*out = c == 'n' ? '\n' : '\t';
	else if (c != '"' && c != '\\')
		return false;
	++*p;
	return true;
}

static bool unquote(StrBuf *b, const char **p, bool zeros)
{
	if (**p != '"')
		return false;
	for (++*p; **p && **p != '"' && **p != '\n';) {
		char c = *(*p)++;

		if (c == '\\' && !read_escape(p, zeros, &c))
			return false;
		strbuf_put(b, &c, 1);
	}
	if (**p != '"')
		return false;
	++*p;
	return true;
}

bool strbuf_unquote(StrBuf *b, const char **p)
{
	return unquote(b, p, false);
}

bool strbuf_unquote_n(StrBuf *b, const char **p)
{
	return unquote(b, p, true);
}

const char *strbuf_str(const StrBuf *b)
{
	return b->at ? b->at : "";
}

uint64_t hash_bytes(uint64_t seed, const void *p, size_t n)
{
	const unsigned char *s = p;
	uint64_t h = seed ^ 0xcbf29ce484222325u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ s[i]) * 0x100000001b3u;
	return h ^ (h >> 32);
}

/* The least number of edits from each prefix of one text to the other, of Wagner and Fischer. */
bool str_is_near(const char *word, const char *name, size_t *edits)
{
	enum { MOST = 64 };
	const size_t nword = strlen(word), nname = strlen(name);
	size_t cost[MOST + 1];

	if (nword > MOST || nname > MOST)
		return false;
	for (size_t j = 0; j <= nname; j++)
		cost[j] = j;
	for (size_t i = 1; i <= nword; i++) {
		size_t diagonal = i - 1;

		cost[0] = i;
		for (size_t j = 1; j <= nname; j++) {
			const size_t replaced = diagonal + (word[i - 1] != name[j - 1]),
				     fewer = cost[j] < cost[j - 1] ? cost[j] : cost[j - 1];

			diagonal = cost[j];
			cost[j] = replaced < fewer + 1 ? replaced : fewer + 1;
		}
	}
	if (cost[nname] >= *edits || cost[nname] > nword / 3)
		return false;
	*edits = cost[nname];
	return true;
}

typedef struct Entry Entry;
struct Entry {
	Entry *next;
	uint64_t hash;
	size_t n;
	const char *s;
};

struct Interner {
	Arena *arena;
	Entry **slot;
	size_t nslot, n;
};

Interner *interner_new(Arena *a)
{
	Interner *in = NEW(a, Interner);

	in->arena = a;
	in->nslot = 1024;
	in->slot = NEW_ARRAY(a, in->nslot, Entry *);
	return in;
}

static void interner_grow(Interner *in)
{
	size_t nslot = in->nslot * 4;
	Entry **slot = NEW_ARRAY(in->arena, nslot, Entry *);

	for (size_t i = 0; i < in->nslot; i++)
		for (Entry *e = in->slot[i], *next; e; e = next) {
			next = e->next;
			e->next = slot[e->hash & (nslot - 1)];
			slot[e->hash & (nslot - 1)] = e;
		}
	in->slot = slot;
	in->nslot = nslot;
}

const char *intern_n(Interner *in, const char *s, size_t n)
{
	uint64_t h = hash_bytes(HASH_SEED, s, n);
	Entry *e;

	for (e = in->slot[h & (in->nslot - 1)]; e; e = e->next)
		if (e->hash == h && e->n == n && !memcmp(e->s, s, n))
			return e->s;
	if (in->n++ > in->nslot)
		interner_grow(in);
	e = NEW(in->arena, Entry);
	e->hash = h;
	e->n = n;
	e->s = arena_strndup(in->arena, s, n);
	e->next = in->slot[h & (in->nslot - 1)];
	in->slot[h & (in->nslot - 1)] = e;
	return e->s;
}

const char *intern(Interner *in, const char *s)
{
	return intern_n(in, s, strlen(s));
}

bool str_starts(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

bool str_ends(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && !strcmp(s + n - m, suffix);
}

const char *str_word(Arena *a, const char *s, size_t most)
{
	char *word = arena_alloc(a, most + 1);
	size_t n = 0;

	for (; *s && n < most; s++)
		if (isalnum((unsigned char)*s))
			word[n++] = *s;
		else if (n && word[n - 1] != '_')
			word[n++] = '_';
	n -= n && word[n - 1] == '_';
	word[n] = 0;
	return word;
}
