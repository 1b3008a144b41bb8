/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions: whether a whole string matches a pattern. The syntax is a subset of RE2's:
 *
 *   - characters, .  [a-z] [^a-z] [[:alpha:]]  \d \D \s \S \w \W (ASCII)
 *   - \t \n \r \f \v \a \123 \x7F \x{10FFFF} \Q...\E, and a backslash before punctuation
 *   - xy  x|y  x*  x+  x?  x{n}  x{n,}  x{n,m}, each of these with ? after it
 *   - (x)  (?:x)  (?P<name>x)  (?<name>x)  (?flags)  (?flags:x), with the flags i m s U
 *   - ^  $  \A  \z  \b  \B
 *
 * Not supported are \p{Greek}, \C, and, as in RE2, back references and look-around. A count is at
 * most 1,000, and so is the product of nested counts, as in RE2. A pattern has at most 20,000
 * instructions and 100,000 ranges of characters, and groups are nested at most 1,000 deep. No
 * function recurses: the open groups are a list in memory of the table.
 *
 * The pattern is compiled to a nondeterministic automaton (Thompson), whose states are followed
 * together (Pike), so no pattern takes more time than its size times the length of the string, and
 * a set of n ranges takes log(n) steps. A
 * byte that is not UTF-8 matches nothing.
 */
#define DLRT_GENERATED 1
#include "runtime/strtable.h"

#include <stdlib.h>
#include <string.h>

enum {
	MOST_INSTRUCTIONS = 20000,
	MOST_RANGES = 100000, /* 800 KB */
	MOST_COUNT = 1000,
	MOST_DEPTH = 1000
};

typedef enum ReKind {
	RE_ANY,   /* any character; ARG: including newlines */
	RE_SET,   /* a character of the set ARG */
	RE_CHAR,  /* the character ARG */
	RE_FOLD,  /* the character ARG in either case */
	RE_SPLIT, /* continues at both NEXT and ARG */
	RE_JUMP,  /* continues at NEXT */
	RE_BEGIN, /* at the begin of the text; RE_BEGIN_LINE: of a line */
	RE_BEGIN_LINE,
	RE_END,
	RE_END_LINE,
	RE_WORD,    /* between a word and no word */
	RE_NO_WORD, /* or not */
	RE_MATCH
} ReKind;

typedef struct ReInst {
	ReKind kind;
	uint32_t arg;
	int32_t next;
} ReInst;

typedef struct ReRange {
	uint32_t lo, hi;
} ReRange;

/* A set: its ranges are Regex.range[first .. first + n). */
typedef struct ReSet {
	int32_t first, n;
	bool negated, fold;
} ReSet;

typedef struct Growing {
	void *p;
	uint64_t n, room;
} Growing;

struct Regex {
	ReInst *inst;
	ReSet *set;
	ReRange *range;
	int32_t n, begin;
	Growing insts, sets, ranges;
};

/* ---- Memory ---- */

/* Appends an element of SIZE bytes; null if there is no memory. */
static void *append(dl_strings *t, Growing *g, uint64_t size)
{
	if (g->n == g->room) {
		const uint64_t room = g->room ? g->room * 2 : 16;
		void *p = strings_alloc(t, room * size);

		if (!p)
			return NULL;
		if (g->n)
			memcpy(p, g->p, g->n * size);
		strings_release(t, g->p, g->room * size);
		g->p = p;
		g->room = room;
	}
	return (char *)g->p + size * g->n++;
}

void regex_free(dl_strings *t, Regex *r)
{
	if (!r)
		return;
	strings_release(t, r->insts.p, r->insts.room * sizeof(ReInst));
	strings_release(t, r->sets.p, r->sets.room * sizeof(ReSet));
	strings_release(t, r->ranges.p, r->ranges.room * sizeof(ReRange));
	strings_release(t, r, sizeof(*r));
}

/* ---- Compiling ---- */

/* The flags i, m, s; and whether the text is between \Q and \E. */
typedef struct ReFlags {
	bool fold, lines, newline, quoting;
} ReFlags;

typedef struct ReParser {
	dl_strings *t;
	Regex *r;
	const char *p, *end;
	ReFlags flags;
	const char *why;
	bool failed;
	Growing groups; /* the ReGroups that are open; the first one is the whole pattern */
} ReParser;

/* A part of the program: from BEGIN to the instructions that jump to OUT, an instruction that does
 * nothing. */
typedef struct Fragment {
	int32_t begin, out;
} Fragment;

/* A character, a set or a group. */
typedef struct ReItem {
	Fragment whole;
	int32_t first; /* the first of its instructions, which end where those of the next begin */
	int64_t product; /* the largest product of nested counts in it */
} ReItem;

/* A group whose end is not read yet. */
typedef struct ReGroup {
	ReFlags outer;         /* the flags after it */
	bool alternates;       /* a | was read */
	Fragment before, last; /* the alternatives before the last |; the one after it */
	int32_t first;
	int64_t product;
} ReGroup;

static Fragment fail(ReParser *p, const char *why)
{
	if (!p->failed)
		p->why = why;
	p->failed = true;
	return (Fragment){0, 0};
}

static ReInst *inst_at(ReParser *p, int32_t i)
{
	return (ReInst *)p->r->insts.p + i;
}

static int32_t emit(ReParser *p, ReKind kind, uint32_t arg, int32_t next)
{
	ReInst *i;

	if (p->failed)
		return 0;
	if (p->r->insts.n >= MOST_INSTRUCTIONS) {
		fail(p, "is too large");
		return 0;
	}
	i = append(p->t, &p->r->insts, sizeof(*i));
	if (!i) {
		fail(p, NULL);
		return 0;
	}
	*i = (ReInst){kind, arg, next};
	return (int32_t)p->r->insts.n - 1;
}

static void connect(ReParser *p, int32_t from, int32_t to)
{
	if (!p->failed)
		inst_at(p, from)->next = to;
}

static Fragment empty(ReParser *p)
{
	const int32_t i = emit(p, RE_JUMP, 0, -1);

	return (Fragment){i, i};
}

/* One instruction that goes on at OUT. */
static Fragment single(ReParser *p, ReKind kind, uint32_t arg)
{
	const int32_t out = emit(p, RE_JUMP, 0, -1);

	return (Fragment){emit(p, kind, arg, out), out};
}

static Fragment sequence(ReParser *p, Fragment a, Fragment b)
{
	connect(p, a.out, b.begin);
	return (Fragment){a.begin, b.out};
}

/* The same for all characters that differ only in case: s, S and the long s. The dotted capital I
 * and the dotless i are not cases of another letter, as in Unicode's case folding. */
static uint32_t fold_case(uint32_t c)
{
	return c == 0x130 || c == 0x131 ? c : str_lower_code(str_upper_code(c));
}

static Fragment character(ReParser *p, uint32_t c)
{
	const bool fold = p->flags.fold && (str_lower_code(c) != c || str_upper_code(c) != c);

	return single(p, fold ? RE_FOLD : RE_CHAR, fold ? fold_case(c) : c);
}

/* ---- Sets ---- */

static void add_range(ReParser *p, ReSet *s, uint32_t lo, uint32_t hi)
{
	ReRange *r;

	if (p->r->ranges.n >= MOST_RANGES) {
		fail(p, "is too large");
		return;
	}
	r = p->failed ? NULL : append(p->t, &p->r->ranges, sizeof(*r));
	if (!r) {
		fail(p, NULL);
		return;
	}
	*r = (ReRange){lo, hi};
	s->n++;
}

/* The classes of ASCII characters, as pairs of bounds. */
static const struct {
	const char *name, *pairs;
} classes[] = {
	{"d", "09"},           {"s", "\t\n\f\r  "},
	{"w", "09AZ__az"},     {"alnum", "09AZaz"},
	{"alpha", "AZaz"},     {"ascii", "\1\177"}, /* NUL is added */
	{"blank", "\t\t  "},   {"cntrl", "\1\037\177\177"},
	{"digit", "09"},       {"graph", "!~"},
	{"lower", "az"},       {"print", " ~"},
	{"punct", "!/:@[`{~"}, {"space", "\t\r  "},
	{"upper", "AZ"},       {"word", "09AZ__az"},
	{"xdigit", "09AFaf"},
};

/* Adds the class, or the characters outside of it. False if there is no such class. */
static bool add_class(ReParser *p, ReSet *s, const char *name, size_t n, bool negated)
{
	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++) {
		const char *at = classes[i].pairs;
		const bool zero = *at == '\1';
		uint32_t from = zero && negated ? 1 : 0;

		if (strlen(classes[i].name) != n || memcmp(classes[i].name, name, n))
			continue;
		if (zero && !negated)
			add_range(p, s, 0, 0);
		for (; *at; at += 2) {
			const uint32_t lo = (unsigned char)at[0], hi = (unsigned char)at[1];

			if (!negated)
				add_range(p, s, lo, hi);
			else if (lo > from)
				add_range(p, s, from, lo - 1);
			from = hi + 1;
		}
		if (negated)
			add_range(p, s, from, 0x10ffff);
		return true;
	}
	return false;
}

static bool more(const ReParser *p)
{
	return p->p < p->end && !p->failed;
}

static bool next_is(const ReParser *p, const char *s)
{
	const size_t n = strlen(s);

	return (size_t)(p->end - p->p) >= n && !memcmp(p->p, s, n);
}

static bool take(ReParser *p, const char *s)
{
	if (!next_is(p, s))
		return false;
	p->p += strlen(s);
	return true;
}

static uint32_t take_character(ReParser *p)
{
	uint32_t c = 0;

	if (p->p >= p->end) {
		fail(p, "ends early");
		return 0;
	}
	p->p += str_character(p->p, (uint64_t)(p->end - p->p), &c);
	if (c == UINT32_MAX)
		fail(p, "is not UTF-8");
	return c;
}

static int hex_digit(uint32_t c)
{
	return c >= '0' && c <= '9'   ? (int)(c - '0')
	       : c >= 'a' && c <= 'f' ? (int)(c - 'a') + 10
	       : c >= 'A' && c <= 'F' ? (int)(c - 'A') + 10
				      : -1;
}

/* After \x: two digits, or any in braces. */
static uint32_t take_hex(ReParser *p)
{
	const bool braces = take(p, "{");
	uint32_t c = 0;
	int n = 0;

	while (p->p < p->end && hex_digit((unsigned char)*p->p) >= 0 && (braces || n < 2)) {
		c = c * 16 + (uint32_t)hex_digit((unsigned char)*p->p++);
		if (c > 0x10ffff)
			fail(p, "has an escape beyond \\x{10FFFF}");
		n++;
		if (p->failed)
			return 0;
	}
	if (!n || (!braces && n != 2) || (braces && !take(p, "}")))
		fail(p, "has an escape \\x without its digits");
	return c;
}

/* Reads the character C after a backslash: sets *OUT to its meaning; false if that is not a single
 * character. */
static bool escaped(ReParser *p, uint32_t c, uint32_t *out)
{
	static const char from[] = "tnrfva", to[] = "\t\n\r\f\v\a";
	const char *at = c && c < 0x80 ? strchr(from, (int)c) : NULL;

	if (at) {
		*out = (unsigned char)to[at - from];
	} else if (c == 'x') {
		*out = take_hex(p);
	} else if (c >= '0' && c <= '7') {
		*out = c - '0';
		for (int i = 0; i < 2 && p->p < p->end && *p->p >= '0' && *p->p <= '7'; i++)
			*out = *out * 8 + (uint32_t)(*p->p++ - '0');
		if (c != '0' && *out < 8)
			fail(p, "has a back reference, which is not supported");
	} else if (c < 0x80 && !(c >= '0' && c <= '9') &&
		   !((c | 0x20) >= 'a' && (c | 0x20) <= 'z')) {
		*out = c;
	} else {
		return false;
	}
	return true;
}

/* Adds \d, \W ... to S; false if C is another letter. */
static bool add_escape_class(ReParser *p, ReSet *s, uint32_t c)
{
	const char lower = (char)(c | 0x20);

	if (c >= 0x80 || !strchr("dsw", lower) || !lower)
		return false;
	return add_class(p, s, &lower, 1, (c & 0x20) == 0);
}

/* Adds [:alpha:], after "[:". */
static void add_posix(ReParser *p, ReSet *s)
{
	const bool negated = take(p, "^");
	const char *name = p->p;

	while (p->p < p->end && *p->p != ':' && *p->p != ']')
		p->p++;
	if (!add_class(p, s, name, (size_t)(p->p - name), negated) || !take(p, ":]"))
		fail(p, "has a class [:name:] that is not known");
}

/* A single character of a set; -1: a class, which was added to S. */
static int64_t set_item(ReParser *p, ReSet *s)
{
	uint32_t c, to;

	if (next_is(p, "[:") && memmem(p->p + 2, (size_t)(p->end - p->p) - 2, ":]", 2)) {
		p->p += 2;
		add_posix(p, s);
		return -1;
	}
	c = take_character(p);
	if (c != '\\')
		return c;
	c = take_character(p);
	if (add_escape_class(p, s, c))
		return -1;
	if (!escaped(p, c, &to)) {
		fail(p, "has an escape that is not supported");
		return -1;
	}
	return to;
}

static int compare_ranges(const void *a, const void *b)
{
	const ReRange *x = a, *y = b;

	return (x->lo > y->lo) - (x->lo < y->lo);
}

/* Sorts the ranges of S, which are the last ones, and joins overlapping ones. */
static void sort_ranges(ReParser *p, ReSet *s)
{
	ReRange *r = (ReRange *)p->r->ranges.p + s->first;
	int32_t n = 0;

	if (p->failed || s->n < 2)
		return;
	qsort(r, (size_t)s->n, sizeof(*r), compare_ranges);
	for (int32_t i = 1; i < s->n; i++)
		if (r[i].lo > r[n].hi)
			r[++n] = r[i];
		else if (r[i].hi > r[n].hi)
			r[n].hi = r[i].hi;
	p->r->ranges.n -= (uint64_t)(s->n - n - 1);
	s->n = n + 1;
}

static Fragment new_set(ReParser *p, ReSet s)
{
	ReSet *to;

	sort_ranges(p, &s);
	to = p->failed ? NULL : append(p->t, &p->r->sets, sizeof(*to));
	if (!to)
		return fail(p, NULL);
	*to = s;
	return single(p, RE_SET, (uint32_t)p->r->sets.n - 1);
}

/* After the bracket. */
static Fragment set(ReParser *p)
{
	ReSet s = {(int32_t)p->r->ranges.n, 0, take(p, "^"), p->flags.fold};
	bool first = true;

	while (more(p) && (first || !next_is(p, "]"))) {
		const int64_t lo = set_item(p, &s);
		int64_t hi = lo;

		first = false;
		if (lo < 0)
			continue;
		if (next_is(p, "-") && !next_is(p, "-]") && p->end - p->p > 1) {
			p->p++;
			hi = set_item(p, &s);
		}
		if (hi < lo)
			return fail(p, "has a range of characters that ends before it begins");
		add_range(p, &s, (uint32_t)lo, (uint32_t)hi);
	}
	if (!take(p, "]"))
		return fail(p, "has a [ without its ]");
	return new_set(p, s);
}

static Fragment escape(ReParser *p)
{
	uint32_t c = take_character(p), to = 0;
	ReSet s = {(int32_t)p->r->ranges.n, 0, false, false};

	switch (c) {
	case 'A': return single(p, RE_BEGIN, 0);
	case 'z': return single(p, RE_END, 0);
	case 'b': return single(p, RE_WORD, 0);
	case 'B': return single(p, RE_NO_WORD, 0);
	default: break;
	}
	if (add_escape_class(p, &s, c))
		return new_set(p, s);
	if (!escaped(p, c, &to))
		return fail(p, "has an escape that is not supported");
	return character(p, to);
}

/* ---- Groups ---- */

static ReGroup *group_now(const ReParser *p)
{
	return (ReGroup *)p->groups.p + p->groups.n - 1;
}

/* Opens a group; OUTER: the flags after it. */
static void open_group(ReParser *p, ReFlags outer)
{
	ReGroup g = {.outer = outer, .first = (int32_t)p->r->insts.n, .product = 1}, *to;

	if (p->groups.n > MOST_DEPTH)
		fail(p, "is nested too deeply");
	g.last = empty(p);
	to = p->failed ? NULL : append(p->t, &p->groups, sizeof(*to));
	if (to)
		*to = g;
	else
		fail(p, NULL);
}

/* Adds the last alternative of group G to the earlier ones. */
static void end_alternative(ReParser *p, ReGroup *g)
{
	const Fragment f = g->before;

	if (g->alternates) {
		connect(p, g->last.out, f.out);
		g->before = (Fragment){emit(p, RE_SPLIT, (uint32_t)g->last.begin, f.begin), f.out};
	} else {
		g->before = g->last;
	}
}

static void next_alternative(ReParser *p)
{
	ReGroup *g = group_now(p);

	end_alternative(p, g);
	g->alternates = true;
	g->last = empty(p);
}

static ReItem close_group(ReParser *p)
{
	ReGroup *g = group_now(p);

	end_alternative(p, g);
	p->flags = g->outer;
	p->groups.n--;
	return (ReItem){g->before, g->first, g->product};
}

/* The flags of (?flags) and (?flags:x), after "(?". */
static bool take_flags(ReParser *p)
{
	bool on = true;

	for (; more(p) && *p->p != ')' && *p->p != ':'; p->p++)
		switch (*p->p) {
		case '-': on = false; break;
		case 'i': p->flags.fold = on; break;
		case 'm': p->flags.lines = on; break;
		case 's': p->flags.newline = on; break;
		case 'U': break; /* which match it is does not matter */
		default: return false;
		}
	return more(p);
}

static bool take_name(ReParser *p)
{
	while (more(p) && *p->p != '>')
		p->p++;
	return take(p, ">");
}

/* After a parenthesis: opens a group. False, with its end read, if it only sets flags for the rest
 * of the group around it. */
static bool begin_group(ReParser *p)
{
	const ReFlags outer = p->flags;

	if (take(p, "?P<") ||
	    (next_is(p, "?<") && !next_is(p, "?<=") && !next_is(p, "?<!") && take(p, "?<"))) {
		if (!take_name(p))
			fail(p, "has a group's name without its >");
	} else if (take(p, "?")) {
		if (!take_flags(p)) {
			fail(p, "has a group (? that is not supported");
			return false;
		}
		if (take(p, ")"))
			return false;
		p->p++;
	}
	open_group(p, outer);
	return true;
}

/* ---- Repetitions ---- */

/* A count in braces, after them; false, with nothing read, if it is not one: then it stands for
 * itself. *MOST is -1 if there is no upper bound. */
static bool take_count(ReParser *p, int *least, int *most)
{
	const char *before = p->p;
	int *to[2] = {least, most};
	int n = 0;

	if (!take(p, "{"))
		return false;
	for (; n < 2; n++) {
		const char *digit = p->p;

		*to[n] = 0;
		for (; p->p < p->end && *p->p >= '0' && *p->p <= '9'; p->p++)
			*to[n] = *to[n] > MOST_COUNT ? *to[n] : *to[n] * 10 + (*p->p - '0');
		if (p->p == digit && n)
			*most = -1;
		else if (p->p == digit)
			break;
		if (!n && take(p, "}")) {
			*most = *least;
			return true;
		}
		if (n ? take(p, "}") : !take(p, ","))
			return n != 0;
	}
	p->p = before;
	return false;
}

/* Whether a repetition follows; a count is read. */
static bool repetition_follows(ReParser *p)
{
	int least, most;

	return next_is(p, "*") || next_is(p, "+") || next_is(p, "?") ||
	       take_count(p, &least, &most);
}

static Fragment star(ReParser *p, Fragment f)
{
	const int32_t out = emit(p, RE_JUMP, 0, -1),
		      split = emit(p, RE_SPLIT, (uint32_t)out, f.begin);

	connect(p, f.out, split);
	return (Fragment){split, out};
}

static Fragment optional(ReParser *p, Fragment f)
{
	return (Fragment){emit(p, RE_SPLIT, (uint32_t)f.out, f.begin), f.out};
}

/* Emits ITEM once more, whose instructions end before END. Its last one may be connected since. */
static Fragment copy(ReParser *p, const ReItem *item, int32_t end)
{
	const int32_t by = (int32_t)p->r->insts.n - item->first;

	for (int32_t i = item->first; i < end && !p->failed; i++) {
		const ReInst in = *inst_at(p, i);
		const bool ends = i == item->whole.out || in.next < 0;

		emit(p, in.kind, in.kind == RE_SPLIT ? in.arg + (uint32_t)by : in.arg,
		     ends ? -1 : in.next + by);
	}
	return (Fragment){item->whole.begin + by, item->whole.out + by};
}

/* ITEM repeated LEAST to MOST times. */
static Fragment counted(ReParser *p, const ReItem *item, int least, int most)
{
	const int32_t end = (int32_t)p->r->insts.n;
	Fragment all = least || most < 0 ? item->whole : empty(p);

	if (least > MOST_COUNT || most > MOST_COUNT)
		return fail(p, "repeats more than 1000 times");
	if (most >= 0 && most < least)
		return fail(p, "has a count {n,m} with m below n");
	if (most < 0 && !least)
		return star(p, item->whole);
	for (int i = 1; i < least && !p->failed; i++)
		all = sequence(p, all, copy(p, item, end));
	if (most < 0)
		return sequence(p, all, star(p, copy(p, item, end)));
	for (int i = least; i < most && !p->failed; i++)
		all = sequence(p, all, optional(p, copy(p, item, end)));
	return all;
}

/* Reads the repetition after ITEM, if there is one. */
static void repeat(ReParser *p, ReItem *item)
{
	int least, most;

	if (!more(p) || p->flags.quoting)
		return;
	if (take(p, "*")) {
		item->whole = star(p, item->whole);
	} else if (take(p, "+")) {
		item->whole.out = star(p, item->whole).out;
	} else if (take(p, "?")) {
		item->whole = optional(p, item->whole);
	} else if (take_count(p, &least, &most)) {
		item->product *= most > 0 ? most : least > 0 ? least : 1;
		if (item->product > MOST_COUNT)
			fail(p, "repeats more than 1000 times");
		item->whole = counted(p, item, least, most);
	} else {
		return;
	}
	take(p, "?");
	if (repetition_follows(p))
		fail(p, "repeats a repetition");
}

/* ---- Structure ---- */

static Fragment quoted(ReParser *p)
{
	const Fragment f = character(p, take_character(p));

	p->flags.quoting = !take(p, "\\E");
	return f;
}

/* Reads a construct that is neither quoted nor a group. */
static Fragment atom(ReParser *p)
{
	if (take(p, "\\E") || take(p, "\\Q")) {
		p->flags.quoting = p->p[-1] == 'Q';
		return empty(p);
	}
	if (take(p, "["))
		return set(p);
	if (take(p, "."))
		return single(p, RE_ANY, p->flags.newline);
	if (take(p, "^"))
		return single(p, p->flags.lines ? RE_BEGIN_LINE : RE_BEGIN, 0);
	if (take(p, "$"))
		return single(p, p->flags.lines ? RE_END_LINE : RE_END, 0);
	if (take(p, "\\"))
		return escape(p);
	if (repetition_follows(p))
		return fail(p, "repeats nothing");
	return character(p, take_character(p));
}

/* Reads the next item with its repetition, or the begin of a group or of an alternative. */
static void part(ReParser *p)
{
	ReItem item = {.first = (int32_t)p->r->insts.n, .product = 1};
	ReGroup *g;

	if (p->flags.quoting && !next_is(p, "\\E")) {
		item.whole = quoted(p);
	} else if (take(p, "|")) {
		next_alternative(p);
		return;
	} else if (take(p, "(")) {
		if (begin_group(p))
			return;
		item.whole = empty(p);
	} else if (take(p, ")")) {
		if (p->groups.n == 1) {
			fail(p, "has a ) without its (");
			return;
		}
		item = close_group(p);
	} else {
		item.whole = atom(p);
	}
	repeat(p, &item);
	g = group_now(p);
	g->last = sequence(p, g->last, item.whole);
	g->product = item.product > g->product ? item.product : g->product;
}

Regex *regex_new(dl_strings *t, dl_str pattern, const char **why)
{
	Regex *r = strings_alloc(t, sizeof(*r));
	ReParser p = {.t = t, .r = r, .p = pattern.p, .end = pattern.p + pattern.n};

	*why = NULL;
	if (!r)
		return NULL;
	memset(r, 0, sizeof(*r));
	open_group(&p, p.flags);
	while (more(&p))
		part(&p);
	if (p.groups.n > 1)
		fail(&p, "has a ( without its )");
	if (!p.failed) {
		const Fragment f = close_group(&p).whole;

		connect(&p, f.out, emit(&p, RE_MATCH, 0, -1));
		r->begin = f.begin;
	}
	strings_release(t, p.groups.p, p.groups.room * sizeof(ReGroup));
	if (p.failed) {
		*why = p.why;
		regex_free(t, r);
		return NULL;
	}
	r->inst = r->insts.p;
	r->set = r->sets.p;
	r->range = r->ranges.p;
	r->n = (int32_t)r->insts.n;
	return r;
}

/* ---- Matching ---- */

static bool in_ranges(const Regex *r, const ReSet *s, uint32_t c)
{
	const ReRange *range = r->range + s->first;
	int32_t n = s->n;

	if (!n)
		return false;
	while (n > 1) {
		const int32_t half = n / 2;

		if (c >= range[half].lo)
			range += half;
		n -= half;
	}
	return c >= range->lo && c <= range->hi;
}

static bool in_set(const Regex *r, const ReSet *s, uint32_t c)
{
	bool in = in_ranges(r, s, c);

	if (!in && s->fold)
		in = in_ranges(r, s, fold_case(c)) || in_ranges(r, s, str_upper_code(fold_case(c)));
	return in != s->negated;
}

static bool steps(const Regex *r, const ReInst *i, uint32_t c)
{
	if (c == UINT32_MAX)
		return false;
	switch (i->kind) {
	case RE_ANY: return i->arg || c != '\n';
	case RE_SET: return in_set(r, &r->set[i->arg], c);
	case RE_CHAR: return c == i->arg;
	case RE_FOLD: return fold_case(c) == i->arg;
	default: return false;
	}
}

/* The states at one position in the string: a list, and for each state the position where it was
 * added last. */
typedef struct States {
	int32_t *list, *stack;
	uint64_t *seen;
	int32_t n;
} States;

static bool is_word_character(uint32_t c)
{
	return c == '_' || (c >= '0' && c <= '9') ||
	       ((c | 0x20) >= 'a' && (c | 0x20) <= 'z' && c < 0x80);
}

enum { NONE = UINT32_MAX - 1 }; /* no character: before the begin, after the end */

static bool holds(ReKind kind, uint32_t before, uint32_t after)
{
	const bool edge = is_word_character(before) != is_word_character(after);

	switch (kind) {
	case RE_BEGIN: return before == (uint32_t)NONE;
	case RE_BEGIN_LINE: return before == (uint32_t)NONE || before == '\n';
	case RE_END: return after == (uint32_t)NONE;
	case RE_END_LINE: return after == (uint32_t)NONE || after == '\n';
	case RE_WORD: return edge;
	default: return !edge;
	}
}

/* Adds state I, and the states that it reaches without reading a character, between BEFORE and
 * AFTER. PLACE is above 0. */
static void add_state(const Regex *r, States *s, int32_t i, uint64_t place, uint32_t before,
		      uint32_t after)
{
	int32_t depth = 0;

	s->stack[depth++] = i;
	while (depth) {
		const ReInst *in;

		i = s->stack[--depth];
		if (s->seen[i] == place)
			continue;
		s->seen[i] = place;
		in = &r->inst[i];
		switch (in->kind) {
		case RE_SPLIT:
			s->stack[depth++] = (int32_t)in->arg;
			s->stack[depth++] = in->next;
			break;
		case RE_JUMP: s->stack[depth++] = in->next; break;
		case RE_BEGIN:
		case RE_BEGIN_LINE:
		case RE_END:
		case RE_END_LINE:
		case RE_WORD:
		case RE_NO_WORD:
			if (holds(in->kind, before, after))
				s->stack[depth++] = in->next;
			break;
		default: s->list[s->n++] = i;
		}
	}
}

static bool follow(const Regex *r, States *now, States *next, dl_str s)
{
	uint32_t before = (uint32_t)NONE, c, after;
	uint64_t bytes = s.n ? str_character(s.p, s.n, &after) : 0;

	if (!s.n)
		after = (uint32_t)NONE;
	add_state(r, now, r->begin, 1, before, after);
	for (uint64_t at = 0, place = 2; at < s.n; place++) {
		States *was = now;

		c = after;
		at += bytes;
		after = (uint32_t)NONE;
		bytes = at < s.n ? str_character(s.p + at, s.n - at, &after) : 0;
		next->n = 0;
		for (int32_t i = 0; i < now->n; i++)
			if (steps(r, &r->inst[now->list[i]], c))
				add_state(r, next, r->inst[now->list[i]].next, place, c, after);
		now = next;
		next = was;
		if (!now->n)
			return false;
	}
	for (int32_t i = 0; i < now->n; i++)
		if (r->inst[now->list[i]].kind == RE_MATCH)
			return true;
	return false;
}

bool regex_matches(dl_strings *t, const Regex *r, dl_str s)
{
	const uint64_t n = (uint64_t)r->n, each = n * (sizeof(uint64_t) + 4 * sizeof(int32_t));
	char *memory = strings_alloc(t, 2 * each);
	States now, next;
	bool yes;

	if (!memory)
		return false;
	memset(memory, 0, 2 * each);
	now.seen = (uint64_t *)(void *)memory;
	next.seen = now.seen + n;
	now.list = (int32_t *)(void *)(next.seen + n);
	next.list = now.list + n;
	now.stack = next.stack = next.list +
				 n; /* each state pushes at most two others, once a position */
	now.n = next.n = 0;
	yes = follow(r, &now, &next, s);
	strings_release(t, memory, 2 * each);
	return yes;
}

/* ---- The routine ---- */

/* The pattern of a constant. */
typedef struct Pattern {
	StringsKept kept;
	Regex *regex; /* null: the text is not a pattern */
} Pattern;

static void free_pattern(dl_strings *t, StringsKept *k)
{
	Pattern *p = (Pattern *)k;

	regex_free(t, p->regex);
	strings_release(t, p, sizeof(*p));
}

/* Null if there is no memory. */
static StringsKept *make_pattern(dl_strings *t, int64_t id)
{
	Pattern *p = strings_alloc(t, sizeof(*p));
	const char *why = NULL;

	if (!p)
		return NULL;
	*p = (Pattern){{.free = free_pattern}, regex_new(t, strings_get(t, id), &why)};
	if (p->regex || why)
		return &p->kept;
	strings_release(t, p, sizeof(*p));
	return NULL;
}

_Bool dl_str_matches(dl_strings *t, int64_t s, int64_t pattern)
{
	const Pattern *p = (const Pattern *)strings_keep(t, pattern, make_pattern);

	return p && p->regex && regex_matches(t, p->regex, strings_get(t, s));
}
