/* SPDX-License-Identifier: Apache-2.0 */
/* Strings: a growing buffer for output, and interning, which makes equal names equal pointers. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/arena.h"
#include "base/escape.h"

#include <stdbool.h>

/* A growing text that is always NUL-terminated; malloc'ed, freed by strbuf_free.
 * Zero-initialise. */
typedef struct StrBuf {
	char *at;
	size_t n, cap;
} StrBuf;

void strbuf_free(StrBuf *b);
/* Declares an empty B, which is freed where its scope ends. */
#define STRBUF_LOCAL(b) StrBuf b BASE_AT_END(strbuf_free) = {0}
void strbuf_put(StrBuf *b, const char *s, size_t n);
void strbuf_puts(StrBuf *b, const char *s);
void strbuf_printf(StrBuf *b, const char *fmt, ...) BASE_PRINTF(2, 3);
void strbuf_vprintf(StrBuf *b, const char *fmt, va_list ap);
/* S in a form (base/escape.h): appended to B, or as a new string. */
void strbuf_escape(StrBuf *b, const char *s, EscapeForm *form);
/* Appends BEFORE"NAME":"TEXT", a member of an object of JSON; nothing if TEXT is null. */
void strbuf_json(StrBuf *b, const char *before, const char *name, const char *text);
const char *arena_escape(Arena *a, const char *s, EscapeForm *form);
/* Appends the UTF-8 of the code point C; of U+FFFD if there is no such code point. */
void strbuf_put_code(StrBuf *b, uint32_t c);
/* Appends "S" with quotes, as in the IR's text (escape_quoted). */
void strbuf_quote(StrBuf *b, const char *s);
/* The same for N bytes, which may be NUL. */
void strbuf_quote_n(StrBuf *b, const char *s, size_t n);
/* Appends the contents of the quoted string at *P and moves *P past its closing quote. On a
 * fault returns false, with *P there. strbuf_unquote refuses a NUL byte; strbuf_unquote_n takes
 * any. */
bool strbuf_unquote(StrBuf *b, const char **p);
bool strbuf_unquote_n(StrBuf *b, const char **p);
/* The text; never null. */
const char *strbuf_str(const StrBuf *b);

/* Whether WORD, which nothing is called, may stand for NAME: a third of its characters at most is
 * missing, added or replaced, and fewer than *EDITS are; *EDITS becomes their number. */
bool str_is_near(const char *word, const char *name, size_t *edits);

typedef struct Interner Interner;

Interner *interner_new(Arena *a);
/* The interner's copy of S[0..n); equal contents give equal pointers. */
const char *intern_n(Interner *in, const char *s, size_t n);
const char *intern(Interner *in, const char *s);

/* The hash H with V added. */
static inline uint64_t hash_mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}
/* FNV-1a with 64 bits; SEED is the hash of what precedes P. */
uint64_t hash_bytes(uint64_t seed, const void *p, size_t n);
enum { HASH_SEED = 5381 };

bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
/* Makes a word of at most MOST bytes of S: its ASCII letters and digits, with one underscore for
 * each run of other bytes between them. The result may be empty, and may begin with a digit. */
const char *str_word(Arena *a, const char *s, size_t most);

#endif
