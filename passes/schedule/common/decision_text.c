/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions as text: what all strategies share. docs/ir.md has the grammar. A text is the work of a
 * user, or of nobody in particular: it may be cut off anywhere, and may contain any bytes but NUL.
 */
#include "passes/schedule/common/decision.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool decision_refuse(StrBuf *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	strbuf_vprintf(why, fmt, ap);
	va_end(ap);
	return false;
}

static bool in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static void skip_space(const char **p)
{
	*p += strspn(*p, " \t\r");
}

/* The word at P, for messages. */
static const char *found(const char *p, char *text)
{
	enum { MOST = 24 };
	size_t n = 0;

	skip_space(&p);
	while (n < MOST && p[n] && !isspace((unsigned char)p[n]))
		n++;
	if (!n)
		return "the end of the line";
	snprintf(text, MOST + 3, "\"%.*s\"", (int)n, p);
	return text;
}

bool line_accept(const char **p, const char *word)
{
	const size_t n = strlen(word);

	skip_space(p);
	if (strncmp(*p, word, n) || (in_word(word[n - 1]) && in_word((*p)[n])))
		return false;
	*p += n;
	return true;
}

bool line_expect(const char **p, const char *word, StrBuf *why)
{
	char text[32];

	return line_accept(p, word) ||
	       decision_refuse(why, "expected \"%s\" instead of %s", word, found(*p, text));
}

bool line_number(const char **p, int64_t *v, StrBuf *why)
{
	const int64_t most = (int64_t)1 << 40;
	char text[32];

	skip_space(p);
	if (!isdigit((unsigned char)**p))
		return decision_refuse(why, "expected a number instead of %s", found(*p, text));
	for (*v = 0; isdigit((unsigned char)**p) && *v <= most; (*p)++)
		*v = *v * 10 + (**p - '0');
	return (*v >= 1 && *v <= most) ||
	       decision_refuse(why, "a number is not from 1 to %lld", (long long)most);
}

bool line_name(const char **p, char *name, StrBuf *why)
{
	char text[32];
	size_t n = 0;

	skip_space(p);
	while (in_word((*p)[n]))
		n++;
	if (!n || n >= MOST_NAME)
		return decision_refuse(why, "expected a name instead of %s", found(*p, text));
	snprintf(name, MOST_NAME, "%.*s", (int)n, *p);
	*p += n;
	return true;
}

bool line_mma(const char **p, MmaKind *kind, StrBuf *why)
{
	char name[MOST_NAME];

	if (!line_name(p, name, why))
		return false;
	for (int i = 0; i < MMA_COUNT; i++)
		if (!strcmp(mma_info[i].name, name)) {
			*kind = (MmaKind)i;
			return true;
		}
	return decision_refuse(why, "there is no instruction \"%s\" in ir/loop/mma.def", name);
}

bool line_hold(const char **p, const char *name, Hold *h, StrBuf *why)
{
	int64_t n = 1;

	if (!line_expect(p, name, why) || !line_expect(p, ":", why))
		return false;
	h->async = line_accept(p, "async");
	if (!h->async && !line_expect(p, "shared", why))
		return false;
	if (line_accept(p, "*") && !line_number(p, &n, why))
		return false;
	h->stages = n > 99 ? 99 : (int)n;
	return true;
}

bool line_digit(const char **p, const char *place, int *n, StrBuf *why)
{
	char word[MOST_NAME], *end;
	const size_t len = strlen(place);
	long v;

	if (!line_name(p, word, why))
		return false;
	v = strncmp(word, place, len) ? 0 : strtol(word + len, &end, 10);
	if (v < 1 || v > 1024 || *end)
		return decision_refuse(why, "\"%s\" is not a digit %s with a number from 1 to 1024",
				       word, place);
	*n = (int)v;
	return true;
}

bool line_optional(const char **p, const char *place, int *n, StrBuf *why)
{
	skip_space(p);
	return strncmp(*p, place, strlen(place)) || line_digit(p, place, n, why);
}

bool line_instruction(const char **p, int n, StrBuf *why)
{
	int v;

	return line_digit(p, "mma", &v, why) &&
	       (v == n || decision_refuse(why, "the instruction has mma%d here, not mma%d", n, v));
}

void hold_print(StrBuf *b, const char *name, const Hold *h)
{
	strbuf_printf(b, " %s:%s", name, h->async ? "async" : "shared");
	if (h->stages > 1)
		strbuf_printf(b, "*%d", h->stages);
}

bool line_end(const char *p, StrBuf *why)
{
	char text[32];

	skip_space(&p);
	return !*p ||
	       decision_refuse(why, "expected the end of the line instead of %s", found(p, text));
}

/* ---- Names of iterators ---- */

/* The letters and digits of NAME; the rest become underscores. */
static void plain_name(const char *name, char *to)
{
	size_t n = 0;

	for (; name[n] && n < MOST_NAME - 16; n++)
		to[n] = isalnum((unsigned char)name[n]) ? name[n] : '_';
	if (!n)
		to[n++] = '_';
	to[n] = '\0';
}

void line_iter(Iter *const *it, int i, char *name)
{
	char other[MOST_NAME];
	int same = 1;

	plain_name(it[i]->name, name);
	for (int j = 0; j < i; j++) {
		plain_name(it[j]->name, other);
		same += !strcmp(name, other);
	}
	if (same > 1)
		snprintf(name + strlen(name), 16, ".%d", same);
}

int line_find_iter(Iter *const *it, int n, const char *name)
{
	char other[MOST_NAME];

	for (int i = 0; i < n; i++) {
		line_iter(it, i, other);
		if (!strcmp(name, other))
			return i;
	}
	return -1;
}

/* ---- A decision ---- */

void decision_print(StrBuf *b, Kernel *k, const Decision *d)
{
	strbuf_puts(b, strategy_table[d->strategy].name);
	strategy_table[d->strategy].print(b, k, d);
	if (!strategy_table[d->strategy].gpu)
		strbuf_printf(b, " grain %lld", (long long)d->grain);
}

Decision *decision_parse(const Target *t, Kernel *k, const char *text, StrBuf *why)
{
	Decision *d = NEW(k->arena, Decision);

	for (int s = 0; s < STRATEGY_COUNT; s++) {
		const StrategyInfo *of = &strategy_table[s];

		if (of->gpu != (t->gpu != NULL) || !line_accept(&text, of->name))
			continue;
		*d = (Decision){.strategy = (Strategy)s};
		return of->parse(k, text, d, why) && of->legal(t, k, d, why) ? d : NULL;
	}
	decision_refuse(why, "expected a strategy:");
	for (int s = 0, n = 0; s < STRATEGY_COUNT; s++)
		if (strategy_table[s].gpu == (t->gpu != NULL))
			strbuf_printf(why, "%s %s", n++ ? "," : "", strategy_table[s].name);
	return NULL;
}
