/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/fuzz/mutate_text.h"

#include "base/str.h"
#include "ir/graph/graph.h"

#include <ctype.h>
#include <string.h>

enum { MAX_TEXT = 1 << 18 };

typedef enum TokenKind {
	TOKEN_SPACE,
	TOKEN_WORD, /* with the mark of a label or an attribute before it: %x, @by */
	TOKEN_NUMBER,
	TOKEN_MARK
} TokenKind;

typedef struct Token {
	TokenKind kind;
	Bytes text;
} Token;

typedef VEC(Token) Tokens;
typedef VEC(Bytes) Lines;

typedef struct TextMutator {
	Arena *a;
	Rng *r;
	const Seeds *seeds;
	Tokens all;
} TextMutator;

static Bytes as_bytes(const char *s)
{
	return (Bytes){(const uint8_t *)s, strlen(s)};
}

/* ---- Reading and writing ---- */

static bool in_word(int c)
{
	return isalnum(c) || c == '_';
}

static Token first_token(Bytes b)
{
	int c = b.p[0], after = b.n > 1 ? b.p[1] : 0;
	size_t n = 1;
	Token t = {.kind = TOKEN_MARK};

	if (isspace(c)) {
		t.kind = TOKEN_SPACE;
		while (n < b.n && isspace(b.p[n]))
			n++;
	} else if (isdigit(c) || (c == '-' && isdigit(after))) {
		t.kind = TOKEN_NUMBER;
		while (n < b.n && (in_word(b.p[n]) || b.p[n] == '.'))
			n++;
	} else if (in_word(c) || ((c == '%' || c == '@') && in_word(after))) {
		t.kind = TOKEN_WORD;
		while (n < b.n && in_word(b.p[n]))
			n++;
	}
	t.text = (Bytes){b.p, n};
	return t;
}

static Tokens tokens_of(Arena *a, Bytes b)
{
	Tokens all = {0};

	while (b.n) {
		Token t = first_token(b);

		vec_push(a, &all, t);
		b.p += t.text.n;
		b.n -= t.text.n;
	}
	return all;
}

static Lines lines_of(Arena *a, Bytes b)
{
	Lines all = {0};

	while (b.n) {
		const uint8_t *end = memchr(b.p, '\n', b.n);
		size_t n = end ? (size_t)(end - b.p) + 1 : b.n;

		vec_push(a, &all, ((Bytes){b.p, n}));
		b.p += n;
		b.n -= n;
	}
	return all;
}

static void put(StrBuf *out, Bytes b)
{
	if (b.n)
		strbuf_put(out, (const char *)b.p, b.n);
}

static Bytes taken(Arena *a, StrBuf *b)
{
	Bytes out = {arena_copy(a, strbuf_str(b), b->n), b->n};

	strbuf_free(b);
	return out;
}

static Bytes text_of(TextMutator *m)
{
	StrBuf out = {0};

	for (int i = 0; i < m->all.n; i++)
		put(&out, m->all.at[i].text);
	return taken(m->a, &out);
}

/* ---- Tokens ---- */

/* One of the tokens ALL of KIND, or null. */
static Token *pick(Rng *r, Tokens *all, TokenKind kind)
{
	Token *found = NULL;
	uint64_t seen = 0;

	for (int i = 0; i < all->n; i++)
		if (all->at[i].kind == kind && rng_below(r, ++seen) == 0)
			found = &all->at[i];
	return found;
}

static Tokens another(TextMutator *m)
{
	return tokens_of(m->a, m->seeds->at[rng_below(m->r, (uint64_t)m->seeds->n)]);
}

static bool change_number(TextMutator *m)
{
	static const char *const far[] = {"0",
					  "1",
					  "-1",
					  "2",
					  "3",
					  "7",
					  "63",
					  "64",
					  "65",
					  "-0",
					  "0.5",
					  "1e39",
					  "-1e400",
					  "nan",
					  "inf",
					  "-inf",
					  "4294967296",
					  "2147483647",
					  "-2147483648",
					  "9223372036854775807",
					  "-9223372036854775808",
					  "9223372036854775808",
					  "99999999999999999999999",
					  "0x10",
					  "1.",
					  "1e",
					  "00",
					  "1e-400",
					  "1152921504606846976"};
	Token *t = pick(m->r, &m->all, TOKEN_NUMBER);

	if (!t)
		return false;
	t->text = as_bytes(far[rng_below(m->r, sizeof far / sizeof *far)]);
	return true;
}

/* A word, number or mark becomes another of its kind, of this text or another. */
static bool exchange(TextMutator *m)
{
	static const TokenKind kinds[] = {TOKEN_WORD, TOKEN_WORD, TOKEN_WORD, TOKEN_NUMBER,
					  TOKEN_MARK};
	TokenKind kind = kinds[rng_below(m->r, sizeof kinds / sizeof *kinds)];
	Tokens theirs = chance(m->r, 70) ? m->all : another(m);
	Token *t = pick(m->r, &m->all, kind), *from = pick(m->r, &theirs, kind);

	if (!t || !from)
		return false;
	t->text = from->text;
	return true;
}

static bool change_word(TextMutator *m)
{
	static const char *const words[] = {
		"i64",      "f32",    "f16",    "bool",  "str",   "i4",       "u8",     "f64",
		"bf16",     "T",      "S",      "N",     "_",     "kernel",   "graph",  "operator",
		"optional", "for",    "over",   "where", "sum",   "max",      "update", "scan",
		"check",    "Kernel", "Const",  "If",    "Loop",  "captures", "value",  "select",
		"div",      "mod",    "gather", "int",   "float", "from"};
	Token *t = pick(m->r, &m->all, TOKEN_WORD);

	if (!t)
		return false;
	t->text = as_bytes(chance(m->r, 40) ? op_row[1 + rng_below(m->r, OP_COUNT - 1)].name
					    : words[rng_below(m->r, sizeof words / sizeof *words)]);
	return true;
}

/* A token goes, comes twice, or many times: brackets that are nested deep. */
static bool repeat(TextMutator *m)
{
	StrBuf out = {0};
	Token *t = pick(m->r, &m->all, chance(m->r, 70) ? TOKEN_MARK : TOKEN_WORD);
	uint64_t times = chance(m->r, 50) ? 0 : chance(m->r, 80) ? 2 : 1 + rng_below(m->r, 3000);

	if (!t || t->text.n * times > MAX_TEXT)
		return false;
	for (; times; times--)
		put(&out, t->text);
	t->text = taken(m->a, &out);
	return true;
}

/* Marks, and calls of scalar functions, in place of a token. */
static bool put_mark(TextMutator *m)
{
	static const char *const marks[] = {
		"(",         ")",    "[",         "]",         "{", "}",
		",",         ":",    "?",         "...",       "%", "@",
		"\"",        "::",   "->",        "=",         "*", "/",
		"<=",        "\\",   "\"\\x00\"", ";",         "#", "file(\"/etc/passwd\", 0, 8)",
		"hex\"zz\"", "\xff", "x[i]",      "add(i, 1)", "-", "+",
		"N*N*N*N*N", "(N",   "%x"};
	Token *t = pick(m->r, &m->all, (TokenKind)rng_below(m->r, 4));

	if (!t)
		return false;
	t->text = as_bytes(marks[rng_below(m->r, sizeof marks / sizeof *marks)]);
	return true;
}

/* ---- Lines ---- */

static Bytes change_lines(TextMutator *m, Bytes b)
{
	Lines mine = lines_of(m->a, b),
	      theirs = lines_of(m->a, m->seeds->at[rng_below(m->r, (uint64_t)m->seeds->n)]);
	StrBuf out = {0};
	int from, to, times = 1;

	if (!mine.n || !theirs.n)
		return b;
	from = (int)rng_below(m->r, (uint64_t)mine.n);
	to = (int)rng_below(m->r, (uint64_t)mine.n);
	switch (rng_below(m->r, 5)) {
	case 0: mine.at[from].n = 0; break;
	case 1: mine.at[to] = mine.at[from]; break;
	case 2: mine.at[to] = theirs.at[rng_below(m->r, (uint64_t)theirs.n)]; break;
	case 3: times = chance(m->r, 80) ? 2 : 1 + (int)rng_below(m->r, 300); break;
	default: {
		Bytes other = mine.at[from];

		mine.at[from] = mine.at[to];
		mine.at[to] = other;
	}
	}
	for (int i = 0; i < mine.n; i++)
		for (int k = i == from ? times : 1; k && out.n < MAX_TEXT; k--)
			put(&out, mine.at[i]);
	return taken(m->a, &out);
}

/* ---- Texts ---- */

typedef struct TextChange {
	bool (*fn)(TextMutator *m);
	unsigned weight;
} TextChange;

static const TextChange changes[] = {
	{change_number, 25}, {exchange, 30}, {change_word, 20}, {repeat, 12}, {put_mark, 13}};

static Bytes change_tokens(TextMutator *m, Bytes b)
{
	uint64_t at = rng_below(m->r, 100);

	m->all = tokens_of(m->a, b);
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		if (at < changes[i].weight)
			return changes[i].fn(m) ? text_of(m) : b;
		at -= changes[i].weight;
	}
	return b;
}

Bytes mutate_text(Arena *a, Rng *r, const Seeds *seeds)
{
	TextMutator m = {.a = a, .r = r, .seeds = seeds};
	Bytes b = seeds->at[rng_below(r, (uint64_t)seeds->n)];

	for (uint64_t n = chance(r, 60) ? 1 : 2 + rng_below(r, 2); n; n--) {
		uint64_t kind = rng_below(r, 100);

		if (kind < 75)
			b = change_tokens(&m, b);
		else if (kind < 92)
			b = change_lines(&m, b);
		else
			b = change_bytes(a, r, seeds, b);
	}
	return b;
}
