/* SPDX-License-Identifier: Apache-2.0 */
#include "base/escape.h"

/* Writes a backslash and WITH for the character at *S. */
static size_t backslash(const char **s, char *out, char with)
{
	++*s;
	out[0] = '\\';
	out[1] = with;
	return 2;
}

/* Writes each of the N bytes at *S as BACKSLASHES and three octal digits, so that a digit after
 * it is not part of it. */
static size_t octal(const char **s, size_t n, char *out, size_t backslashes)
{
	char *at = out;

	for (; n; n--, ++*s) {
		const unsigned char c = (unsigned char)**s;

		memset(at, '\\', backslashes);
		at += backslashes;
		*at++ = (char)('0' + (c >> 6));
		*at++ = (char)('0' + (c >> 3 & 7));
		*at++ = (char)('0' + (c & 7));
	}
	return (size_t)(at - out);
}

size_t escape_quoted(const char **s, char *out)
{
	switch (**s) {
	case '"':
	case '\\': return backslash(s, out, **s);
	case '\n': return backslash(s, out, 'n');
	case '\t': return backslash(s, out, 't');
	default: return escape_plain(s, out);
	}
}

size_t escape_c_string(const char **s, char *out)
{
	uint32_t code;
	const size_t n = escape_character(*s, &code);
	const bool trigraph = **s == '?' && (*s)[1] == '?';

	if (trigraph || (!escape_prints(code) && **s != '\n' && **s != '\t'))
		return octal(s, n, out, 1);
	return escape_quoted(s, out);
}

size_t escape_c_comment(const char **s, char *out)
{
	const char *at = *s;

	if (!strncmp(at, "*/", 2) || !strncmp(at, "/*", 2)) {
		++*s;
		return escape_hex(at, 1, out);
	}
	return escape_plain(s, out);
}

size_t escape_line_comment(const char **s, char *out)
{
	const char *at = *s;
	uint32_t code;
	const size_t n = escape_character(at, &code);

	/* A backslash at the end would join the next line to the comment. */
	if (code < 0x80 && code != '\\')
		return escape_plain(s, out);
	*s += n;
	return escape_hex(at, n, out);
}

size_t escape_file_name(const char **s, char *out)
{
	static const char digit[] = "0123456789ABCDEF";
	uint32_t code;
	const char *at = *s;
	const size_t n = escape_character(at, &code);

	*s += n;
	if (code != '/' && code != '%' && escape_prints(code)) {
		memcpy(out, at, n);
		return n;
	}
	for (size_t i = 0; i < n; i++) {
		const unsigned char c = (unsigned char)at[i];

		out[3 * i] = '%';
		out[3 * i + 1] = digit[c >> 4];
		out[3 * i + 2] = digit[c & 15];
	}
	return 3 * n;
}

size_t escape_assembler(const char **s, char *out)
{
	uint32_t code;

	escape_character(*s, &code);
	if (escape_prints(code) && !strchr("\"\\?", **s))
		return escape_plain(s, out);
	/* The assembler reads a backslash and digits; C turns two backslashes into one. Escapes
	 * one byte at a time, since more would not fit ESCAPE_MOST. */
	return octal(s, 1, out, 2);
}
