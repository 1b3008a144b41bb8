/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms of text from a model (base/escape.h): examples; and random bytes, which no form may
 * make longer than allowed or turn into something with a meaning in its context. Reversible forms
 * must be read back.
 */
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>

static int failures;

static const struct {
	const char *what;
	EscapeForm *form;
	const char *from, *to;
} cases[] = {
	{"printable", escape_terminal, "/fc/Mat\xc3\xa9\t", "/fc/Mat\xc3\xa9\t"},
	{"controls", escape_terminal, "\x1b[31m\n\x7f\xc2\x9b", "\\x1b[31m\\x0a\\x7f\\xc2\\x9b"},
	{"an order that is reversed", escape_terminal, "\xe2\x80\xae", "\\xe2\\x80\\xae"},
	{"no UTF-8", escape_terminal, "\xff\xc0\x80\xed\xa0\x80\xe5\x8d",
	 "\\xff\\xc0\\x80\\xed\\xa0\\x80\\xe5\\x8d"},
	{"beyond Unicode", escape_terminal, "\xf4\x90\x80\x80\xf8\x88\x80\x80",
	 "\\xf4\\x90\\x80\\x80\\xf8\\x88\\x80\\x80"},
	{"JSON", escape_json, "\"\\\n\xff\xf0\x9f\x98\x80",
	 "\\\"\\\\\\u000a\\ufffd\xf0\x9f\x98\x80"},
	{"the IR's text", escape_quoted, "\"\\\n\t\x01\xc3\xa9", "\\\"\\\\\\n\\t\\x01\xc3\xa9"},
	{"a C string", escape_c_string,
	 "\"\\\n?\077/\x01"
	 "1\xff",
	 "\\\"\\\\\\n\\077?/\\0011\\377"},
	{"a C comment", escape_c_comment, "*/ /* */* /*/ ** //\n",
	 "\\x2a/ \\x2f* \\x2a\\x2f* \\x2f\\x2a/ ** //\\x0a"},
	{"a comment to the line's end", escape_line_comment, "a\\\xc3\xa9\n",
	 "a\\x5c\\xc3\\xa9\\x0a"},
	{"a file's name", escape_file_name, "../a%b\n", "..%2Fa%25b%0A"},
	{"a string of the assembler in one of C", escape_assembler, "a\"\\\n",
	 "a\\\\042\\\\134\\\\012"},
};

static void need(bool ok, const char *what, const char *s, const char *got)
{
	if (ok || failures++ > 10)
		return;
	printf("%s: ", what);
	for (; *s; s++)
		printf("%02x", (unsigned)(unsigned char)*s);
	printf(" became %s\n", got);
}

/* Whether all characters of S except tabs are printable. */
static bool all_prints(const char *s)
{
	uint32_t code;

	for (; *s; s += escape_character(s, &code))
		if (!escape_prints((escape_character(s, &code), code)) && *s != '\t')
			return false;
	return true;
}

static void escaped(StrBuf *b, const char *s, EscapeForm *form)
{
	char out[ESCAPE_MOST + 1];

	strbuf_free(b);
	for (const char *at = s; *at;) {
		const char *before = at;
		size_t n;

		memset(out, 0x7e, sizeof out);
		n = form(&at, out);
		need(n > 0 && n <= ESCAPE_MOST && out[ESCAPE_MOST] == 0x7e && at > before &&
			     at <= before + 4,
		     "a form's length", s, "");
		strbuf_put(b, out, n);
	}
}

static void try_bytes(const char *s)
{
	static EscapeForm *const forms[] = {escape_terminal,  escape_json,      escape_quoted,
					    escape_c_string,  escape_c_comment, escape_line_comment,
					    escape_file_name, escape_assembler};
	StrBuf b = {0}, quoted = {0}, back = {0};
	const char *p;

	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		escaped(&b, s, forms[i]);
		need(all_prints(strbuf_str(&b)), "what does not print", s, strbuf_str(&b));
	}
	escaped(&b, s, escape_c_comment);
	need(!strstr(strbuf_str(&b), "*/") && !strstr(strbuf_str(&b), "/*"), "a C comment", s,
	     strbuf_str(&b));
	escaped(&b, s, escape_c_string);
	need(!strstr(strbuf_str(&b), "??"), "a trigraph", s, strbuf_str(&b));
	escaped(&b, s, escape_line_comment);
	for (p = strbuf_str(&b); *p; p++)
		need(!((unsigned char)*p & 0x80), "a comment to the line's end", s, strbuf_str(&b));
	strbuf_quote(&quoted, s);
	p = strbuf_str(&quoted);
	need(strbuf_unquote(&back, &p) && !*p && !strcmp(strbuf_str(&back), s), "a quoted string",
	     s, strbuf_str(&quoted));
	strbuf_free(&b);
	strbuf_free(&quoted);
	strbuf_free(&back);
}

int main(void)
{
	static const char likely[] =
		"\"\\*/?%\n\t\x1b\x7f\xc2\x80\xe2\xae\xed\xa0\xf0\x9f\xf4\xff a";
	StrBuf b = {0};
	unsigned seed = 1;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		escaped(&b, cases[i].from, cases[i].form);
		need(!strcmp(strbuf_str(&b), cases[i].to), cases[i].what, cases[i].from,
		     strbuf_str(&b));
	}
	strbuf_free(&b);
	for (int k = 0; k < 20000; k++) {
		char s[13] = {0};
		const int n = k % 12;

		for (int i = 0; i < n; i++) {
			seed = seed * 1103515245u + 12345u;
			s[i] = k % 2 ? likely[(seed >> 16) % (sizeof likely - 1)]
				     : (char)(1 + (seed >> 16) % 255);
		}
		try_bytes(s);
	}
	return failures ? 1 : 0;
}
