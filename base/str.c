/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

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

void strbuf_printf(StrBuf *b, const char *fmt, ...)
{
	va_list ap, again;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	strbuf_room(b, (size_t)n);
	vsnprintf(b->at + b->n, (size_t)n + 1, fmt, again);
	b->n += (size_t)n;
	va_end(again);
	va_end(ap);
}

void strbuf_quote(StrBuf *b, const char *s)
{
	strbuf_puts(b, "\"");
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			strbuf_printf(b, "\\%c", c);
		else if (c == '\n')
			strbuf_puts(b, "\\n");
		else if (c == '\t')
			strbuf_puts(b, "\\t");
		else if (c < 32)
			strbuf_printf(b, "\\x%02x", c);
		else
			strbuf_put(b, s, 1);
	}
	strbuf_puts(b, "\"");
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
