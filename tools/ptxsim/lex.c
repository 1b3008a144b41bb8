/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of PTX. A word takes in dots, so that `add.s32` and `%tid.x` are one; so does `::`. */
#include "tools/ptxsim/parse.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void parse_fail(Parser *p, const char *fmt, ...)
{
	char why[600];
	va_list ap;
	int length;
	const char *text = module_line(p->m, p->line, &length);

	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	snprintf(p->m->error, sizeof p->m->error, "line %d: %s: %.*s", p->line, why, length, text);
	longjmp(*p->fail, 1);
}

static void skip_blanks(Parser *p)
{
	for (;; p->p++) {
		if (*p->p == '\n')
			p->line++;
		else if (p->p[0] == '/' && p->p[1] == '/')
			p->p += strcspn(p->p, "\n"), p->p--;
		else if (p->p[0] == '/' && p->p[1] == '*') {
			const char *end = strstr(p->p + 2, "*/");
			if (!end)
				parse_fail(p, "a comment without its end");
			for (; p->p < end + 1; p->p++)
				p->line += *p->p == '\n';
		} else if (!*p->p || !isspace((unsigned char)*p->p))
			return;
	}
}

static bool is_start(char c)
{
	return isalpha((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static bool is_inside(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static size_t word_length(const char *s)
{
	size_t n = 1;

	for (;;) {
		if (is_inside(s[n]))
			n++;
		else if (s[n] == '.' && is_inside(s[n + 1]))
			n += 2;
		else if (s[n] == ':' && s[n + 1] == ':' && is_inside(s[n + 2]))
			n += 3;
		else
			return n;
	}
}

static void number(Parser *p)
{
	char *end;
	Token *t = &p->tok;

	t->kind = TK_NUMBER;
	if (p->p[0] == '0' && strchr("fFdD", p->p[1]) && isxdigit((unsigned char)p->p[2])) {
		t->is_float = true;
		t->is_single = tolower((unsigned char)p->p[1]) == 'f';
		t->bits = strtoull(p->p + 2, &end, 16);
		if (t->is_single) {
			uint32_t bits = (uint32_t)t->bits;
			float f;
			memcpy(&f, &bits, sizeof f);
			/* The bits are stored, since NaNs do not survive a conversion. */
			if (f == f) {
				double d = (double)f;
				memcpy(&t->bits, &d, sizeof d);
				t->is_single = false;
			}
		}
	} else {
		size_t n = strspn(p->p, "0123456789");
		bool real = p->p[0] != '0' || n > 1
				    ? p->p[n] == '.' || tolower((unsigned char)p->p[n]) == 'e'
				    : p->p[n] == '.';
		if (real) {
			double d = strtod(p->p, &end);
			t->is_float = true;
			memcpy(&t->bits, &d, sizeof d);
		} else if (p->p[0] == '0' && tolower((unsigned char)p->p[1]) == 'b') {
			t->bits = strtoull(p->p + 2, &end, 2);
		} else {
			t->bits = strtoull(p->p, &end, 0);
			end += *end == 'U';
		}
	}
	p->p = end;
}

void next(Parser *p)
{
	skip_blanks(p);
	p->tok = (Token){.line = p->line};
	if (!*p->p)
		return;
	if (is_start(*p->p)) {
		size_t n = word_length(p->p);
		p->tok.kind = TK_WORD;
		p->tok.s = intern_n(p->names, p->p, n);
		p->p += n;
	} else if (isdigit((unsigned char)*p->p)) {
		number(p);
	} else if (*p->p == '"') {
		size_t n = strcspn(p->p + 1, "\"\n");
		if (p->p[n + 1] != '"')
			parse_fail(p, "a string without its end");
		p->tok.kind = TK_STRING;
		p->tok.s = intern_n(p->names, p->p + 1, n);
		p->p += n + 2;
	} else {
		p->tok.kind = TK_PUNCT;
		p->tok.punct = *p->p++;
	}
}

bool at_punct(const Parser *p, int c)
{
	return p->tok.kind == TK_PUNCT && p->tok.punct == c;
}

bool at_word(const Parser *p, const char *word)
{
	return p->tok.kind == TK_WORD && !strcmp(p->tok.s, word);
}

bool take_punct(Parser *p, int c)
{
	bool is = at_punct(p, c);
	if (is)
		next(p);
	return is;
}

bool take_word(Parser *p, const char *word)
{
	bool is = at_word(p, word);
	if (is)
		next(p);
	return is;
}

void expect(Parser *p, int c)
{
	if (!take_punct(p, c))
		parse_fail(p, "expected '%c'", c);
}

const char *expect_word(Parser *p, const char *what)
{
	const char *s = p->tok.s;

	if (p->tok.kind != TK_WORD)
		parse_fail(p, "expected %s", what);
	next(p);
	return s;
}

int64_t expect_int(Parser *p)
{
	bool minus = take_punct(p, '-');
	int64_t v = (int64_t)p->tok.bits;

	if (p->tok.kind != TK_NUMBER || p->tok.is_float)
		parse_fail(p, "expected an integer");
	next(p);
	return minus ? -v : v;
}
