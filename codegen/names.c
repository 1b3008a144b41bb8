/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/names.h"

const char *codegen_name(Arena *a, const char *prefix, int number, const char *kernel)
{
	const char *word = str_word(a, kernel, 64);

	return arena_printf(a, "%s%sk%d%s%s", prefix, *prefix ? "_" : "", number, *word ? "_" : "",
			    word);
}

void codegen_put_loc(StrBuf *b, Loc l, EscapeForm *form)
{
	strbuf_escape(b, l.node ? l.node : "?", form);
	if (!l.op)
		return;
	strbuf_puts(b, " (");
	strbuf_escape(b, l.op, form);
	strbuf_puts(b, ")");
}
