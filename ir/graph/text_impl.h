/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files that print and read graphs. A GraphText is a position in a text, which the
 * reading functions advance. Only the first fault is reported, as a diagnostic; the functions then
 * return false or null, and so do their callers.
 */
#ifndef IR_GRAPH_TEXT_IMPL_H
#define IR_GRAPH_TEXT_IMPL_H

#include "ir/graph/graph.h"

#include <ctype.h>

typedef struct NamedValue {
	const char *label; /* interned */
	Value *v; /* null: an operand of a definition that the node omits */
} NamedValue;

/* A mapped file that holds constants. */
typedef struct Mapped {
	const char *path;
	const char *data;
	int64_t size;
} Mapped;

/* The bounds and the source of a symbol, which are set when the whole text has been read. */
typedef struct Pending {
	Sym *sym;
	int64_t lo, hi;
	const char *label;
	int64_t at;
	int line;
} Pending;

/* The line where a node of the text begins, and where the types of its results stand. */
typedef struct NodeLine {
	const Node *n;
	int line;
	DiagLoc types;
} NodeLine;

typedef struct GraphText {
	Ctx *ctx;
	Arena *arena, *tmp;
	const char *file, *text, *p; /* P: in TEXT */
	int line, depth; /* DEPTH: of nested regions */
	bool failed;
	NamedValue *map; /* values by label; open addressing */
	int n, cap;
	VEC(Pending) pending;
	VEC(Mapped) files;
	VEC(NodeLine) nodes;
} GraphText;

static inline bool text_is_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Whether S is a letter or _, then letters, digits and _. */
static inline bool text_is_word(const char *s)
{
	if (!*s || isdigit((unsigned char)*s))
		return false;
	for (; *s; s++)
		if (!text_is_word_char(*s))
			return false;
	return true;
}

/* ---- graph_print.c ---- */

/* ---- text_read.c ---- */

/* Reports "expected EXPECTED, found ..." at the current position (text_fail), or WHAT at a line;
 * returns false. */
bool text_fail(GraphText *r, const char *expected);
bool text_fault(GraphText *r, int line, const char *fmt, ...) BASE_PRINTF(3, 4);
/* Skips blanks and comments; returns the next character. */
char text_peek(GraphText *r);
/* Read S, or the whole word S, if it comes next. text_take returns whether it did; text_want
 * reports a fault if not. */
bool text_take(GraphText *r, const char *s);
bool text_take_word(GraphText *r, const char *s);
bool text_want(GraphText *r, const char *s);
/* Reads the comma between two items of a parenthesised list; a fault if there is none. */
bool text_want_next(GraphText *r);
/* Interned. A word (letters, digits and _); null, without a diagnostic, if there is none. A name
 * is a word or a string. */
const char *text_word(GraphText *r);
/* Reads a value's label, after its %; null after a diagnostic. */
const char *text_value_label(GraphText *r);
const char *text_string(GraphText *r);
/* Reads "...", an element of a tensor of strings: its id in the table of the context. */
bool text_string_id(GraphText *r, int64_t *id);
/* Skips "...", of either kind. */
bool text_skip_string(GraphText *r);
const char *text_name(GraphText *r);
bool text_i64(GraphText *r, int64_t *out);
bool text_u64(GraphText *r, uint64_t *out);
bool text_f64(GraphText *r, double *out);
/* Whether the number at the current position is written as a float. */
bool text_float_ahead(GraphText *r);
int text_hex_digit(char c); /* -1: none */
Dim *text_dim(GraphText *r);
/* *OUT is null for "?", a type that is not inferred. */
bool text_type(GraphText *r, const Type **out);

/* Whether the name of an operator that is defined comes next: com.example::Swish, or quoted.
 * *NAME is null after a fault in it. */
bool text_defined_name(GraphText *r, const char **name);

/* ---- graph_parse.c ---- */

/* Lets LABEL name V; null: an operand that is omitted. */
bool text_label(GraphText *r, const char *label, Value *v);
/* Reads checks, as long as they come next, as facts of G. */
bool text_checks(GraphText *r, Graph *g);
/* Reads "{", nodes and "}". */
bool text_body(GraphText *r, Graph *g);
/* Makes the value called LABEL a result of G. */
bool text_result(GraphText *r, Graph *g, const char *label, const char *name);

/* ---- definition.c ---- */

/* Reads definitions as long as they come next. */
bool text_definitions(GraphText *r);
/* Prints the definitions that the nodes of G use. */
void text_put_definitions(StrBuf *b, const Graph *g);
/* Prints the operator NAME as text_defined_name reads it. */
void text_put_defined(StrBuf *b, const char *name);

/* ---- graph_attr.c ---- */

/* Reads an attribute's value into A, whose name is set. */
bool text_value(GraphText *r, Attr *a);

/* Reads "{name = value, ...}" into N's attributes, if it comes next (ir/graph/graph_attr.c). */
bool text_attrs(GraphText *r, Node *n);
/* Reads "f32[2](1.0, 0.5)", an attribute's value; null after a fault. */
Tensor *text_tensor(GraphText *r);

#endif
