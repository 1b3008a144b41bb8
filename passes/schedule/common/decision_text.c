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

void line_wrong(LineText *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (t->ok && !t->out)
		strbuf_vprintf(t->why, fmt, ap);
	va_end(ap);
	t->ok = false;
}

static bool is_read(const LineText *t)
{
	return t->ok && !t->out;
}

/* Moves past the N bytes of WORD; false if another word is there. */
static bool accept(LineText *t, const char *word, size_t n)
{
	skip_space(&t->in);
	if (strncmp(t->in, word, n) || (in_word(word[n - 1]) && in_word(t->in[n])))
		return false;
	t->in += n;
	return true;
}

void line_put(LineText *t, const char *words)
{
	char text[32];

	if (t->out)
		strbuf_puts(t->out, words);
	for (const char *s = words + strspn(words, " "); *s && is_read(t);) {
		const size_t n = strcspn(s, " ");

		if (!accept(t, s, n))
			line_wrong(t, "expected \"%.*s\" instead of %s", (int)n, s,
				   found(t->in, text));
		s += n + strspn(s + n, " ");
	}
}

bool line_opt(LineText *t, bool is, const char *word)
{
	if (t->out && is)
		strbuf_puts(t->out, word);
	word += strspn(word, " ");
	return t->out ? is : t->ok && accept(t, word, strlen(word));
}

void line_number(LineText *t, const char *words, int64_t *v)
{
	const int64_t most = (int64_t)1 << 40;
	char text[32];

	line_put(t, words);
	if (t->out)
		strbuf_printf(t->out, "%lld", (long long)*v);
	if (!is_read(t))
		return;
	skip_space(&t->in);
	if (!isdigit((unsigned char)*t->in)) {
		line_wrong(t, "expected a number instead of %s", found(t->in, text));
		return;
	}
	for (*v = 0; isdigit((unsigned char)*t->in) && *v <= most; t->in++)
		*v = *v * 10 + (*t->in - '0');
	if (*v < 1 || *v > most)
		line_wrong(t, "a number is not from 1 to %lld", (long long)most);
}

void line_name(LineText *t, char *name)
{
	char text[32];
	size_t n = 0;

	if (t->out)
		strbuf_puts(t->out, name);
	if (!is_read(t))
		return;
	skip_space(&t->in);
	while (in_word(t->in[n]))
		n++;
	if (!n || n >= MOST_NAME)
		line_wrong(t, "expected a name instead of %s", found(t->in, text));
	else
		snprintf(name, MOST_NAME, "%.*s", (int)n, t->in);
	t->in += t->ok ? n : 0;
}

void line_mma(LineText *t, MmaKind *kind)
{
	char name[MOST_NAME];
	int i = 0;

	snprintf(name, sizeof name, "%s", t->out ? mma_info[*kind].name : "");
	line_name(t, name);
	while (i < MMA_COUNT && strcmp(mma_info[i].name, name))
		i++;
	if (i == MMA_COUNT)
		line_wrong(t, "there is no instruction \"%s\" in ir/loop/mma.def", name);
	else
		*kind = (MmaKind)i;
}

void line_hold(LineText *t, const char *name, Hold *h)
{
	int64_t n = t->out ? h->stages : 1;

	line_put(t, " ");
	line_put(t, name);
	line_put(t, ":");
	h->async = line_opt(t, h->async, "async");
	if (!h->async)
		line_put(t, "shared");
	if (line_opt(t, n > 1, "*"))
		line_number(t, "", &n);
	h->stages = n > 99 ? 99 : (int)n;
}

void line_digit(LineText *t, const char *place, int *n, int unit)
{
	char word[MOST_NAME], *end = word;
	const char *is = place + strspn(place, " ");
	long v;

	if (t->out)
		strbuf_printf(t->out, "%s%d", place, *n / unit);
	if (!is_read(t))
		return;
	line_name(t, word);
	if (!t->ok)
		return;
	v = strncmp(word, is, strlen(is)) ? 0 : strtol(word + strlen(is), &end, 10);
	if (v < 1 || v > 1024 || *end)
		line_wrong(t, "\"%s\" is not a digit %s with a number from 1 to 1024", word, is);
	*n = (int)v * unit;
}

void line_optional(LineText *t, const char *place, int *n)
{
	const char *is = place + strspn(place, " ");

	if (is_read(t)) {
		*n = 1;
		skip_space(&t->in);
	}
	if (t->out ? *n > 1 : !strncmp(t->in, is, strlen(is)))
		line_digit(t, place, n, 1);
}

void line_instruction(LineText *t, int n)
{
	int v = n;

	line_digit(t, " mma", &v, 1);
	if (v != n)
		line_wrong(t, "the instruction has mma%d here, not mma%d", n, v);
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

/* The whole decision, but for the strategy's name. */
static void decision_text(LineText *t, Kernel *k, Decision *d)
{
	char text[32];

	strategy_table[d->strategy].text(t, k, d);
	if (!strategy_table[d->strategy].gpu)
		line_number(t, " grain ", &d->grain);
	if (is_read(t) && *(t->in += strspn(t->in, " \t\r")))
		line_wrong(t, "expected the end of the line instead of %s", found(t->in, text));
}

void decision_print(StrBuf *b, Kernel *k, const Decision *d)
{
	Decision copy = *d;

	strbuf_puts(b, strategy_table[d->strategy].name);
	decision_text(&(LineText){.out = b, .ok = true}, k, &copy);
}

Decision *decision_parse(const Target *t, Kernel *k, const char *text, StrBuf *why)
{
	Decision *d = NEW(k->arena, Decision);
	LineText line = {.in = text, .why = why, .ok = true};

	for (int s = 0; s < STRATEGY_COUNT; s++) {
		const StrategyInfo *of = &strategy_table[s];

		if (of->gpu != (t->gpu != NULL) || !line_opt(&line, true, of->name))
			continue;
		*d = (Decision){.strategy = (Strategy)s};
		decision_text(&line, k, d);
		return line.ok && of->legal(t, k, d, why) ? d : NULL;
	}
	decision_refuse(why, "expected a strategy:");
	for (int s = 0, n = 0; s < STRATEGY_COUNT; s++)
		if (strategy_table[s].gpu == (t->gpu != NULL))
			strbuf_printf(why, "%s %s", n++ ? "," : "", strategy_table[s].name);
	return NULL;
}
