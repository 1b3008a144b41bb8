/* SPDX-License-Identifier: Apache-2.0 */
/* Reading text IR: blanks and comments, words, strings, numbers, sizes, types. */
#include "ir/graph/text_impl.h"

#include "runtime/strtable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Characters and words ---- */

bool text_fail(GraphText *r, const char *expected)
{
	char found[24];
	size_t n = 0;

	if (r->failed)
		return false;
	r->failed = true;
	while (n < sizeof found - 1 && isgraph((unsigned char)r->p[n])) {
		found[n] = r->p[n];
		n++;
	}
	found[n] = 0;
	return diag_error(r->ctx->diag, (DiagLoc){.file = r->file, .line = r->line},
			  "expected %s, found %s%s%s", expected, n ? "'" : "",
			  n       ? found
			  : *r->p ? "an odd character"
				  : "the end of the file",
			  n ? "'" : "");
}

bool text_fault(GraphText *r, int line, const char *fmt, ...)
{
	va_list ap;
	const char *what;

	if (r->failed)
		return false;
	r->failed = true;
	va_start(ap, fmt);
	what = arena_vprintf(r->tmp, fmt, ap);
	va_end(ap);
	return diag_error(r->ctx->diag, (DiagLoc){.file = r->file, .line = line}, "%s", what);
}

/* Blanks, and comments from #, ; or // to the end of the line. A line "; ----" ends the text. */
char text_peek(GraphText *r)
{
	for (;; r->p++) {
		if (!strncmp(r->p, "; ----\n", 7))
			return 0;
		if (*r->p == '#' || *r->p == ';' || (*r->p == '/' && r->p[1] == '/'))
			while (*r->p && *r->p != '\n')
				r->p++;
		if (*r->p == '\n')
			r->line++;
		else if (*r->p != ' ' && *r->p != '\t' && *r->p != '\r')
			return *r->p;
	}
}

bool text_take(GraphText *r, const char *s)
{
	size_t n = strlen(s);

	text_peek(r);
	if (strncmp(r->p, s, n))
		return false;
	r->p += n;
	return true;
}

/* Reads S if it comes next as a whole word. */
bool text_take_word(GraphText *r, const char *s)
{
	size_t n = strlen(s);

	text_peek(r);
	if (strncmp(r->p, s, n) || text_is_word_char(r->p[n]))
		return false;
	r->p += n;
	return true;
}

bool text_want(GraphText *r, const char *s)
{
	char text[16];

	if (text_take(r, s))
		return true;
	snprintf(text, sizeof text, "'%s'", s);
	return text_fail(r, text);
}

bool text_want_next(GraphText *r)
{
	return text_take(r, ",") || text_fail(r, "',' or ')'");
}

const char *text_word(GraphText *r)
{
	const char *from;

	text_peek(r);
	from = r->p;
	while (text_is_word_char(*r->p))
		r->p++;
	return r->p == from ? NULL : intern_n(r->ctx->names, from, (size_t)(r->p - from));
}

const char *text_value_label(GraphText *r)
{
	const char *s = text_take(r, "%") && text_is_word_char(*r->p) ? text_word(r) : NULL;

	if (!s)
		text_fail(r, "a value: % and a label");
	return s;
}

int text_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

static bool read_string(GraphText *r, StrBuf *b, bool (*unquote)(StrBuf *, const char **))
{
	if (text_peek(r) != '"')
		return text_fail(r, "a string in quotes");
	return unquote(b, &r->p) ||
	       text_fail(r, *r->p && *r->p != '\n' ? "one of \\\\ \\\" \\n \\t \\xHH in the string"
						   : "the string's closing quote");
}

/* Reads "...", interned; null after a diagnostic. */
const char *text_string(GraphText *r)
{
	STRBUF_LOCAL(b);

	if (read_string(r, &b, strbuf_unquote))
		return ctx_name(r->ctx, strbuf_str(&b));
	return NULL;
}

bool text_skip_string(GraphText *r)
{
	STRBUF_LOCAL(b);

	return read_string(r, &b, strbuf_unquote_n);
}

bool text_string_id(GraphText *r, int64_t *id)
{
	STRBUF_LOCAL(b);
	const bool ok = read_string(r, &b, strbuf_unquote_n);

	if (ok)
		*id = strings_intern(r->ctx->strings, strbuf_str(&b), b.n);
	return ok;
}

/* Reads a word, or any quoted string. */
const char *text_name(GraphText *r)
{
	const char *s;

	if (text_peek(r) == '"')
		return text_string(r);
	s = text_word(r);
	if (!s)
		text_fail(r, "a name");
	return s;
}

bool text_defined_name(GraphText *r, const char **name)
{
	const char *p, *last = NULL;

	*name = NULL;
	if (text_peek(r) == '"') {
		*name = text_string(r);
		last = *name ? strstr(*name, "::") : NULL;
		if (*name && (!last || last == *name || !last[2])) {
			text_fault(r, r->line, "an operator's name is DOMAIN::NAME");
			*name = NULL;
		}
		return true;
	}
	for (p = r->p; text_is_word_char(*p) || *p == '.' || *p == '-';)
		p++;
	if (p == r->p || strncmp(p, "::", 2))
		return false;
	for (p += 2; text_is_word_char(*p);)
		p++;
	if (p[-1] == ':') {
		r->p = p;
		text_fail(r, "the operator's name after its domain");
		return true;
	}
	*name = intern_n(r->ctx->names, r->p, (size_t)(p - r->p));
	r->p = p;
	return true;
}

/* ---- Numbers ---- */

bool text_i64(GraphText *r, int64_t *out)
{
	char *end;

	text_peek(r);
	if (!isdigit((unsigned char)r->p[*r->p == '-']))
		return text_fail(r, "an integer");
	errno = 0;
	*out = strtoll(r->p, &end, 10);
	if (errno || text_is_word_char(*end) || *end == '.')
		return text_fail(r, "an integer of 64 bits");
	r->p = end;
	return true;
}

bool text_u64(GraphText *r, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)text_peek(r)))
		return text_fail(r, "an integer that is not negative");
	errno = 0;
	*out = strtoull(r->p, &end, 10);
	if (errno || text_is_word_char(*end) || *end == '.')
		return text_fail(r, "an integer of 64 bits");
	r->p = end;
	return true;
}

bool text_f64(GraphText *r, double *out)
{
	char *end;
	const char *p;

	text_peek(r);
	p = r->p + (*r->p == '-');
	if (!isdigit((unsigned char)*p) && strncmp(p, "inf", 3) && strncmp(p, "nan", 3))
		return text_fail(r, "a number");
	*out = strtod(r->p, &end);
	if (text_is_word_char(*end) || *end == '(')
		return text_fail(r, "a number");
	r->p = end;
	return true;
}

/* Whether the number at the current position is written as a float. */
bool text_float_ahead(GraphText *r)
{
	const char *p;

	text_peek(r);
	p = r->p + (*r->p == '-');
	if (!isdigit((unsigned char)*p))
		return (!strncmp(p, "inf", 3) || !strncmp(p, "nan", 3)) && !text_is_word_char(p[3]);
	while (isdigit((unsigned char)*p))
		p++;
	return *p == '.' || *p == 'e' || *p == 'E' || *p == 'x';
}

Dim *text_dim(GraphText *r)
{
	Dim *d;

	text_peek(r);
	d = dim_parse(r->ctx, &r->p);
	if (!d)
		text_fail(r, "a size");
	return d;
}

/* *OUT is null for "?", a type that is not inferred. False after a diagnostic. */
bool text_type(GraphText *r, const Type **out)
{
	*out = NULL;
	if (text_peek(r) == '?' && r->p[1] != '[') {
		r->p++;
		return true;
	}
	*out = type_parse(r->ctx, &r->p);
	return *out || text_fail(r, "a type");
}
