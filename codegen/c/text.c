/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/c/text.h"

#include "base/str.h"
#include "codegen/package/embed.h"

#include <assert.h>
#include <string.h>

/* The text of PART, from the line after its head to the next part's; sets *N to its length. */
static const char *find_part(const char *part, size_t *n)
{
	static const char head[] = "\n/* ---- ";
	const size_t length = strlen(part);
	const char *s = embed_kernel_h, *end;

	do {
		s = strstr(s, head);
		assert(s); /* a part that the file does not have */
		s += sizeof head - 1;
	} while (strncmp(s, part, length) != 0 || strncmp(s + length, " ----", 5) != 0);
	s = strstr(s, "*/\n") + 3;
	end = strstr(s - 1, head);
	*n = end ? (size_t)(end + 1 - s) : strlen(s);
	return s;
}

/* The word at the at sign S; null: that is only an at sign. */
static const CWord *find_word(const CWord *words, const char *s)
{
	for (; words && words->name; words++) {
		const size_t n = strlen(words->name);

		if (!strncmp(s + 1, words->name, n) && s[1 + n] == '@')
			return words;
	}
	return NULL;
}

const char *c_text(Arena *a, const char *part, const CWord *words)
{
	STRBUF_LOCAL(b);
	size_t n;
	const char *begin = find_part(part, &n), *s = begin;

	while (s < begin + n) {
		const CWord *w = *s == '@' ? find_word(words, s) : NULL;
		const char *after;

		if (!w) {
			strbuf_printf(&b, "%c", *s++);
			continue;
		}
		after = s + strlen(w->name) + 2;
		if (w->text)
			strbuf_puts(&b, w->text);
		else
			strbuf_printf(&b, "%lld", w->number);
		/* the lines that it stands for end with a line's end, if there are any */
		s = s[-1] == '\n' && *after == '\n' ? after + 1 : after;
	}
	return arena_strdup(a, strbuf_str(&b));
}
