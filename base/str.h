/* SPDX-License-Identifier: Apache-2.0 */
/* Strings: a growing buffer for what is printed, and interning, so that equal names are equal pointers. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/arena.h"
#include "base/escape.h"

#include <stdbool.h>

/* A growing, always NUL-terminated text; malloc'ed, freed by strbuf_free. Zero-initialise. */
typedef struct StrBuf {
	char *at;
	size_t n, cap;
} StrBuf;

void strbuf_free(StrBuf *b);
void strbuf_put(StrBuf *b, const char *s, size_t n);
void strbuf_puts(StrBuf *b, const char *s);
void strbuf_printf(StrBuf *b, const char *fmt, ...) BASE_PRINTF(2, 3);
void strbuf_vprintf(StrBuf *b, const char *fmt, va_list ap);
/* S in a form (base/escape.h), and the same as a string of its own. */
void strbuf_escape(StrBuf *b, const char *s, EscapeForm *form);
const char *arena_escape(Arena *a, const char *s, EscapeForm *form);
/* Appends "S" with its quotes, as the text of the IR has it (escape_quoted). */
void strbuf_quote(StrBuf *b, const char *s);
/* Appends the contents of the quoted string at *P and moves *P past its closing quote. False with *P at the fault. */
bool strbuf_unquote(StrBuf *b, const char **p);
/* The text, never null. */
const char *strbuf_str(const StrBuf *b);

typedef struct Interner Interner;

Interner *interner_new(Arena *a);
/* The one copy of S[0..n) in this interner; equal contents, equal pointers. */
const char *intern_n(Interner *in, const char *s, size_t n);
const char *intern(Interner *in, const char *s);

/* FNV-1a, 64 bits; SEED chains. */
uint64_t hash_bytes(uint64_t seed, const void *p, size_t n);
enum { HASH_SEED = 5381 };

bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
/* S as a word of at most MOST bytes: its ASCII letters and digits, with one underscore for each run of other bytes between
 * them. It may be empty, and may begin with a digit. */
const char *str_word(Arena *a, const char *s, size_t most);

#endif
