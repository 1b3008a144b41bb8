/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routines between numbers and strings: ONNX's Cast. Nothing depends on the process's locale.
 *
 * A float becomes what printf's %.8g writes in the C locale, as in ONNX Runtime; NaN, INF and -INF
 * are special. A string is a number in plain or scientific decimal notation, or INF, INFINITY or
 * NAN in any case, with a sign, and white space around it. In a conversion to an integer, a
 * fraction is dropped. Other strings are refused, and so are integers beyond 64 bits.
 */
#define DLRT_GENERATED 1
#include "runtime/strtable.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 8, LONGEST = 4096 /* bytes of a string that is a number */ };

/* ---- Numbers as strings ---- */

int64_t dl_str_of_i64(dl_strings *t, int64_t v)
{
	char text[24];

	return strings_intern(t, text, (uint64_t)snprintf(text, sizeof(text), "%" PRId64, v));
}

int64_t dl_str_of_u64(dl_strings *t, uint64_t v)
{
	char text[24];

	return strings_intern(t, text, (uint64_t)snprintf(text, sizeof(text), "%" PRIu64, v));
}

/* The significant digits of |V|, without trailing zeros; returns their number. *EXPONENT is that of
 * the first one. snprintf is read digit by digit, as its point depends on the locale. */
static int digits_of(double v, char *digits, int *exponent)
{
	char text[64];
	const char *at;
	int n = 0;

	snprintf(text, sizeof(text), "%.*e", DIGITS - 1, fabs(v));
	for (at = text; *at && *at != 'e'; at++)
		if (*at >= '0' && *at <= '9')
			digits[n++] = *at;
	*exponent = *at ? atoi(at + 1) : 0;
	while (n > 1 && digits[n - 1] == '0')
		n--;
	return n;
}

int64_t dl_str_of_f64(dl_strings *t, double v)
{
	char digits[64], text[64], *to = text;
	int exponent, n;

	if (isnan(v))
		return strings_intern(t, "NaN", 3);
	if (isinf(v))
		return v < 0 ? strings_intern(t, "-INF", 4) : strings_intern(t, "INF", 3);
	n = digits_of(v, digits, &exponent);
	if (signbit(v))
		*to++ = '-';
	if (exponent < -4 || exponent >= DIGITS) {
		*to++ = digits[0];
		if (n > 1)
			*to++ = '.';
		for (int i = 1; i < n; i++)
			*to++ = digits[i];
		to += sprintf(to, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
	} else {
		for (int i = exponent < 0 ? exponent : 0; i < n || i <= exponent; i++) {
			*to++ = i >= 0 && i < n ? digits[i] : '0';
			if (i == exponent && i + 1 < n)
				*to++ = '.';
		}
	}
	return strings_intern(t, text, (uint64_t)(to - text));
}

int64_t dl_str_of_f32(dl_strings *t, float v)
{
	return dl_str_of_f64(t, (double)v);
}

/* ---- Strings as numbers ---- */

/* The string S between white space. */
static dl_str trimmed(dl_str s)
{
	while (s.n && strchr(" \t\n\v\f\r", *s.p) && *s.p)
		s = (dl_str){s.p + 1, s.n - 1};
	while (s.n && strchr(" \t\n\v\f\r", s.p[s.n - 1]) && s.p[s.n - 1])
		s.n--;
	return s;
}

static uint64_t digits(const char *p, uint64_t n)
{
	uint64_t i = 0;

	while (i < n && p[i] >= '0' && p[i] <= '9')
		i++;
	return i;
}

/* Whether the N bytes at P are a number without a sign; *WHOLE: an integer, which has only
 * digits. */
static bool is_number(const char *p, uint64_t n, bool *whole)
{
	uint64_t i = digits(p, n), any = i;

	*whole = i && i == n;
	if (i < n && p[i] == '.') {
		const uint64_t more = digits(p + i + 1, n - i - 1);

		any += more;
		i += 1 + more;
	}
	if (any && i < n && (p[i] == 'e' || p[i] == 'E')) {
		uint64_t more;

		i++;
		i += i < n && (p[i] == '+' || p[i] == '-');
		more = digits(p + i, n - i);
		if (!more)
			return false;
		i += more;
	}
	return any && i == n;
}

static bool is_word(const char *p, uint64_t n, const char *word)
{
	if (n != strlen(word))
		return false;
	for (uint64_t i = 0; i < n; i++)
		if ((p[i] | 0x20) != word[i])
			return false;
	return true;
}

/* The number in string ID, as NUL-terminated text in TO; false, after a report, if it is not a
 * number. *WHOLE: it is an integer. */
static bool number_text(dl_strings *t, int64_t id, char *to, bool *whole)
{
	const dl_str s = trimmed(strings_get(t, id));
	const uint64_t sign = s.n && (*s.p == '+' || *s.p == '-');
	const char *p = s.p + sign;
	const uint64_t n = s.n - sign;

	*whole = false;
	if (s.n >= LONGEST || !(is_number(p, n, whole) || is_word(p, n, "inf") ||
				is_word(p, n, "infinity") || is_word(p, n, "nan"))) {
		strings_fail(t, DL_RUNTIME, id, "is not a number");
		return false;
	}
	memcpy(to, s.p, s.n);
	to[s.n] = '\0';
	return true;
}

/* glibc and musl make this locale without allocating. */
static locale_t c_locale(void)
{
	return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double dl_str_to_f64(dl_strings *t, int64_t s)
{
	char text[LONGEST];
	bool whole;

	return number_text(t, s, text, &whole) ? strtod_l(text, NULL, c_locale()) : 0;
}

float dl_str_to_f32(dl_strings *t, int64_t s)
{
	char text[LONGEST];
	bool whole;

	return number_text(t, s, text, &whole) ? strtof_l(text, NULL, c_locale()) : 0;
}

/* The integer in TEXT, which is WHOLE or a float; false if it is not in [-2^63, 2^64). The bits of
 * the result are those of the integer. */
static bool integer(const char *text, bool whole, bool *negative, uint64_t *out)
{
	double v;

	*negative = *text == '-';
	*out = 0;
	if (!whole) {
		v = trunc(strtod_l(text, NULL, c_locale()));
		if (!(v >= -0x1p63 && v < 0x1p64))
			return false;
		*negative = v < 0;
		*out = v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
		return true;
	}
	for (text += *text == '-' || *text == '+'; *text; text++)
		if (__builtin_mul_overflow(*out, UINT64_C(10), out) ||
		    __builtin_add_overflow(*out, (uint64_t)(*text - '0'), out))
			return false;
	if (*negative && *out > UINT64_C(1) << 63)
		return false;
	*out = *negative ? 0 - *out : *out;
	return true;
}

static const char too_large[] = "does not fit 64 bits";

int64_t dl_str_to_i64(dl_strings *t, int64_t s)
{
	char text[LONGEST];
	bool whole, negative;
	uint64_t v;

	if (!number_text(t, s, text, &whole))
		return 0;
	if (integer(text, whole, &negative, &v) && (negative || v <= INT64_MAX))
		return (int64_t)v;
	strings_fail(t, DL_RUNTIME, s, too_large);
	return 0;
}

uint64_t dl_str_to_u64(dl_strings *t, int64_t s)
{
	char text[LONGEST];
	bool whole, negative;
	uint64_t v;

	if (!number_text(t, s, text, &whole))
		return 0;
	if (integer(text, whole, &negative, &v))
		return v;
	strings_fail(t, DL_RUNTIME, s, too_large);
	return 0;
}
