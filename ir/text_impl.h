/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files that print and read graphs share. Reading: a Text is a place in a text, moved forward by what
 * is read. Every fault is one diagnostic, the first; the functions then return false or null, and so does
 * all that called them.
 */
#ifndef IR_TEXT_IMPL_H
#define IR_TEXT_IMPL_H

#include "ir/graph.h"

#include <ctype.h>

typedef struct NamedValue {
	const char *label; /* interned */
	Value *v;
} NamedValue;

/* A file that constants lie in. */
typedef struct Mapped {
	const char *path;
	const char *data;
	int64_t size;
} Mapped;

/* What a symbol gets in the end: its bounds, and its source where it has one. */
typedef struct Pending {
	Sym *sym;
	int64_t lo, hi;
	const char *label;
	int64_t at;
	int line;
} Pending;

typedef struct GraphText {
	Ctx *ctx;
	Arena *arena, *tmp;
	const char *file, *p;
	int line, depth; /* of regions */
	bool failed;
	NamedValue *map; /* values by label, open addressing */
	int n, cap;
	VEC(Pending) pending;
	VEC(Mapped) files;
} GraphText;

static inline bool text_is_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* A letter or _, then letters, digits and _. */
static inline bool text_is_word(const char *s)
{
	if (!*s || isdigit((unsigned char)*s))
		return false;
	for (; *s; s++)
		if (!text_is_word_char(*s))
			return false;
	return true;
}

/* ---- Printing (ir/graph_print.c) ---- */

/* A word as it is, anything else quoted. */
void text_put_name(StrBuf *b, const char *s);
/* The shortest decimal that reads back as V (as an f32 where F32), with a point or an exponent. */
void text_put_float(StrBuf *b, double v, bool f32);

/* ---- Reading (ir/text_read.c) ---- */

/* "expected EXPECTED, found ..." here, or WHAT at a line; false. */
bool text_fail(GraphText *r, const char *expected);
bool text_fault(GraphText *r, int line, const char *what);
/* The next character that is neither blank nor in a comment. */
char text_peek(GraphText *r);
/* Whether S, or the whole word S, came next; it is read then. text_want: else a fault. */
bool text_take(GraphText *r, const char *s);
bool text_take_word(GraphText *r, const char *s);
bool text_want(GraphText *r, const char *s);
/* The comma in a list in parentheses that has not ended. */
bool text_want_next(GraphText *r);
/* Interned. A word: letters, digits and _, or null without a fault. A name: a word or a string. */
const char *text_word(GraphText *r);
const char *text_string(GraphText *r);
const char *text_name(GraphText *r);
bool text_i64(GraphText *r, int64_t *out);
bool text_u64(GraphText *r, uint64_t *out);
bool text_f64(GraphText *r, double *out);
/* Whether the number ahead is written as a float. */
bool text_float_ahead(GraphText *r);
int text_hex_digit(char c); /* -1: none */
Dim *text_dim(GraphText *r);
/* Null for "?": not inferred. */
bool text_type(GraphText *r, const Type **out);

/* "{name = value, ...}" into N's attributes, if it is there (ir/graph_attr.c). */
bool text_attrs(GraphText *r, Node *n);
/* "f32[2](1.0, 0.5)", as the value of an attribute; null after a fault. */
Tensor *text_tensor(GraphText *r);

#endif
