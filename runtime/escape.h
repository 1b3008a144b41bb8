/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from a model, written such that it cannot be taken for anything else. A name in a model may
 * contain any bytes except NUL: quotes, line breaks, control sequences of terminals, ends of
 * comments, and bytes that are not UTF-8.
 *
 * A form is the way in which characters are written in one context. Each form is a function: it
 * reads the character at *S, moves *S past it, writes it to OUT, with at most ESCAPE_MOST bytes and
 * no NUL, and returns the number of bytes. This file has the forms that the runtime needs, too;
 * base/escape.h has those of the compiler. It includes nothing of dlcc.
 */
#ifndef RUNTIME_ESCAPE_H
#define RUNTIME_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ESCAPE_MOST = 16 };

typedef size_t EscapeForm(const char **s, char *out);

/* The number of bytes of the UTF-8 character at S; *CODE is its code point. A byte that begins
 * no character counts as one, with the code UINT32_MAX. */
static inline size_t escape_character(const char *s, uint32_t *code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *p = (const unsigned char *)s;
	const size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	uint32_t c = n == 1 ? p[0] : p[0] & (0x7fu >> n);

	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80) {
			*code = UINT32_MAX;
			return 1;
		}
		c = c << 6 | (p[i] & 0x3f);
	}
	/* Rejects continuation bytes, overlong forms, and surrogates. */
	if ((n > 1 && p[0] < 0xc0) || p[0] > 0xf7 || c < least[n] || c > 0x10ffff || c >> 11 == 0x1b) {
		*code = UINT32_MAX;
		return 1;
	}
	*code = c;
	return n;
}

/* Whether the character CODE is visible and has no effect on the text around it: not a control
 * character, and none that breaks lines, joins characters, or reverses the direction of text. */
static inline bool escape_prints(uint32_t code)
{
	static const uint32_t not[][2] = {{0, 0x1f},	    {0x7f, 0x9f},     {0x61c, 0x61c},
					  {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
					  {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, UINT32_MAX}};

	for (size_t i = 0; i < sizeof not / sizeof *not; i++)
		if (code >= not[i][0] && code <= not[i][1])
			return false;
	return true;
}

/* Writes the N bytes at S as \xHH each. */
static inline size_t escape_hex(const char *s, size_t n, char *out)
{
	static const char digit[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		const unsigned char c = (unsigned char)s[i];
		const char form[4] = {'\\', 'x', digit[c >> 4], digit[c & 15]};

		memcpy(out + 4 * i, form, 4);
	}
	return 4 * n;
}

/* Writes the character at *S unchanged if it is printable, else in hex. */
static inline size_t escape_plain(const char **s, char *out)
{
	uint32_t code;
	const char *at = *s;
	const size_t n = escape_character(at, &code);

	*s += n;
	if (!escape_prints(code))
		return escape_hex(at, n, out);
	memcpy(out, at, n);
	return n;
}

/* For a line on a terminal, or in a log. Tabs are kept. */
static inline size_t escape_terminal(const char **s, char *out)
{
	if (**s != '\t')
		return escape_plain(s, out);
	*out = *(*s)++;
	return 1;
}

/* Writes \uHHHH for a unit of UTF-16. */
static inline size_t escape_unit(uint32_t unit, char *out)
{
	static const char digit[] = "0123456789abcdef";

	memcpy(out, "\\u", 2);
	for (int i = 0; i < 4; i++)
		out[2 + i] = digit[unit >> (12 - 4 * i) & 15];
	return 6;
}

/* For a JSON string, between its quotes. Bytes that are not UTF-8 become U+FFFD, since JSON
 * cannot represent them. */
static inline size_t escape_json(const char **s, char *out)
{
	uint32_t code;
	const char *at = *s;
	const size_t n = escape_character(at, &code);

	*s += n;
	if (code == '"' || code == '\\') {
		out[0] = '\\';
		out[1] = *at;
		return 2;
	}
	if (escape_prints(code)) {
		memcpy(out, at, n);
		return n;
	}
	if (code == UINT32_MAX)
		return escape_unit(0xfffd, out);
	if (code < 0x10000)
		return escape_unit(code, out);
	code -= 0x10000;
	return escape_unit(0xd800 | code >> 10, out) + escape_unit(0xdc00 | (code & 0x3ff), out + 6);
}

/* Writes S to F in a form. */
static inline void escape_to_file(FILE *f, const char *s, EscapeForm *form)
{
	char out[ESCAPE_MOST];

	while (*s)
		fwrite(out, 1, form(&s, out), f);
}

/* Writes S in a form to the ROOM bytes at TO, as far as it fits with a NUL; no character is cut. */
static inline void escape_to_text(char *to, size_t room, const char *s, EscapeForm *form)
{
	char out[ESCAPE_MOST];
	size_t n;

	while (*s && (n = form(&s, out)) < room) {
		memcpy(to, out, n);
		to += n;
		room -= n;
	}
	*to = '\0';
}

#endif
