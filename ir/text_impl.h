/* SPDX-License-Identifier: Apache-2.0 */
/* What the graph's printer and parser share: words and floats. */
#ifndef IR_TEXT_IMPL_H
#define IR_TEXT_IMPL_H

#include "base/str.h"

#include <ctype.h>

/* A letter or _, then letters, digits and _. */
static inline bool text_is_word(const char *s)
{
	if (!*s || isdigit((unsigned char)*s))
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && *s != '_')
			return false;
	return true;
}

/* A word as it is, anything else quoted. */
void text_put_name(StrBuf *b, const char *s);
/* The shortest decimal that reads back as V (as an f32 where F32), with a point or an exponent. */
void text_put_float(StrBuf *b, double v, bool f32);

#endif
