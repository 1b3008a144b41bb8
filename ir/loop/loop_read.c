/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints and reads the words, numbers, sizes and expressions of loop trees (ir/loop/loop_impl.h).
 */
#include "ir/loop/loop_impl.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- Faults ---- */

void lt_fault(LoopText *t, const char *fmt, ...)
{
	const DiagLoc at = {
		.file = t->file, .line = *t->line, .column = (int)(t->p - t->line_start) + 1};
	STRBUF_LOCAL(b);
	va_list ap;

	if (t->failed)
		return;
	t->failed = true;
	va_start(ap, fmt);
	strbuf_vprintf(&b, fmt, ap);
	va_end(ap);
	diag_error(t->ctx->diag, at, "%s", strbuf_str(&b));
}

void lt_expected(LoopText *t, const char *expected)
{
	char found[24];
	size_t n = 0;

	while (n < sizeof found - 1 && isgraph((unsigned char)t->p[n])) {
		found[n] = t->p[n];
		n++;
	}
	found[n] = '\0';
	if (n)
		lt_fault(t, "expected %s, found '%s'", expected, found);
	else
		lt_fault(t, "expected %s, found the end of the %s", expected,
			 *t->p ? "line" : "text");
}

/* ---- Words ---- */

static bool in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static void skip_blanks(LoopText *t)
{
	while (*t->p == ' ' || *t->p == '\t' || *t->p == '\r')
		t->p++;
}

/* TEXT without the blanks at its ends. */
static const char *trimmed(const char *text, size_t *n)
{
	text += strspn(text, " ");
	*n = strlen(text);
	while (*n && text[*n - 1] == ' ')
		--*n;
	return text;
}

static bool take(LoopText *t, const char *text)
{
	size_t n;

	text = trimmed(text, &n);
	skip_blanks(t);
	if (t->failed || strncmp(t->p, text, n))
		return false;
	if (n > 1 && in_word(text[n - 1]) && in_word(t->p[n])) /* not of the x in 4x16 */
		return false;
	t->p += n;
	return true;
}

void lt_put(LoopText *t, const char *text)
{
	size_t n;

	if (t->out) {
		strbuf_puts(t->out, text);
	} else if (!take(t, text)) {
		text = trimmed(text, &n);
		lt_expected(t, arena_printf(t->arena, "'%.*s'", (int)n, text));
	}
}

bool lt_opt(LoopText *t, bool present, const char *text)
{
	if (!t->out)
		return take(t, text);
	if (present)
		strbuf_puts(t->out, text);
	return present;
}

int lt_choice(LoopText *t, const char *const *text, int n, int at)
{
	if (t->out) {
		if (at >= 0)
			strbuf_puts(t->out, text[at]);
		return at;
	}
	for (int i = 0; i < n; i++)
		if (take(t, text[i]))
			return i;
	return -1;
}

void lt_word(LoopText *t, const char **s)
{
	size_t n = 0;

	if (t->out) {
		strbuf_puts(t->out, *s);
		return;
	}
	skip_blanks(t);
	while (in_word(t->p[n]))
		n++;
	if (t->failed || !n || isdigit((unsigned char)*t->p)) {
		lt_expected(t, "a name");
		*s = "";
		return;
	}
	*s = intern_n(t->ctx->names, t->p, n);
	t->p += n;
}

size_t lt_ahead(LoopText *t, const char **word, bool *element)
{
	size_t n = 0;

	skip_blanks(t);
	*word = t->p;
	while (in_word(t->p[n]))
		n++;
	*element = n && (t->p[n] == '[' || t->p[n] == ',');
	return n;
}

/* ---- Numbers and sizes ---- */

bool lt_size_ahead(LoopText *t, const char *before, const char *after)
{
	const char *p = t->p;
	bool ahead = take(t, before);

	skip_blanks(t);
	ahead = ahead && dim_parse(t->ctx, &t->p) && take(t, after);
	t->p = p;
	return ahead;
}

void lt_number(LoopText *t, int64_t *v, int64_t lo, int64_t hi)
{
	char *end;

	if (t->out) {
		strbuf_printf(t->out, "%lld", (long long)*v);
		return;
	}
	skip_blanks(t);
	if (t->failed || !isdigit((unsigned char)t->p[*t->p == '-'])) {
		lt_expected(t, "a number");
		*v = lo;
		return;
	}
	errno = 0;
	*v = strtoll(t->p, &end, 10);
	if (errno || *v < lo || *v > hi) {
		lt_fault(t, "the number is not from %lld to %lld", (long long)lo, (long long)hi);
		*v = lo;
		return;
	}
	t->p = end;
}

void lt_count(LoopText *t, int *v, int lo, int hi)
{
	int64_t wide = *v;

	lt_number(t, &wide, lo, hi);
	*v = (int)wide;
}

/* The text that was read mentions no symbol that the graph lacks. */
static void check_symbols(LoopText *t)
{
	if (!t->failed && sym_count(t->ctx) > t->nsyms)
		lt_fault(t, "the graph has no size \"%s\"", sym_at(t->ctx, t->nsyms)->name);
}

void lt_dim(LoopText *t, Dim **d)
{
	const char *p = t->p;

	if (t->out) {
		dim_print(t->out, *d);
		return;
	}
	skip_blanks(t);
	*d = t->failed ? NULL : dim_parse(t->ctx, &t->p);
	if (!*d) {
		lt_expected(t, "a size");
		*d = dim_const(t->ctx, 0);
		return;
	}
	while (t->p > p && isspace((unsigned char)t->p[-1]))
		t->p--;
	check_symbols(t);
}

void lt_expr(LoopText *t, Expr **e, CType ct)
{
	const ExprScope scope = {t->iters.at, t->iters.n, t->bufs.at, t->bufs.n, true, true};
	const char *at, *err = NULL;

	if (t->out) {
		ex_print(t->out, *e);
		return;
	}
	*e = ex_int(t->k->pool, CT_I64, 0);
	skip_blanks(t);
	if (t->failed)
		return;
	at = t->p;
	*e = ex_parse_at(t->k->pool, &at, ct, &scope, &err);
	while (at > t->p && isspace((unsigned char)at[-1]))
		at--;
	if (memchr(t->p, '\n', (size_t)(at - t->p))) {
		lt_fault(t, "the expression does not end in its line");
	} else if (!*e) {
		t->p = at;
		lt_fault(t, "an expression: %s", err ? err : "it is not complete");
	} else if ((*e)->ct != ct) {
		lt_fault(t, "expected an expression of type %s, found %s", ctype_name[ct],
			 ctype_name[(*e)->ct]);
	} else {
		t->p = at;
		check_symbols(t);
	}
	if (t->failed)
		*e = ex_int(t->k->pool, CT_I64, 0);
}

void lt_layout(LoopText *t, TileLayout *l, int rank)
{
	static const char *const dims[] = {"-1 ", "0 ", "1 ", "2 "};
	static const char *const places[] = {[AT_ADDRESS] = "at ",
					     [AT_REGISTER] = "reg ",
					     [AT_LANE] = "lane ",
					     [AT_WARP] = "warp "};
	/* a block has fewer elements and bytes, and no sum of products of two such numbers
	 * overflows */
	enum { MOST = 1 << 18 };
	const int n = t->out ? l->n : 0;

	if (!t->out)
		*l = (TileLayout){.rank = rank};
	for (int i = 0; i == 0 || lt_opt(t, i < n, ", "); i++) {
		const bool some = i < n;
		TileAxis x = some ? l->axis[i] : (TileAxis){0};
		const int dim = lt_choice(t, dims, rank + 1, some ? x.dim + 1 : -1),
			  at = dim < 0 ? -1 : lt_choice(t, places, PLACES, (int)x.at);

		if (dim < 0 && i == 0)
			break;
		if (at < 0 || i == MAX_AXES || (dim == 0 && at == AT_ADDRESS))
			lt_expected(t, "a layout");
		if (t->failed)
			return;
		x.dim = dim - 1;
		x.at = (TilePlace)at;
		lt_number(t, &x.extent, 2, MOST);
		lt_put(t, "*");
		lt_number(t, &x.stride, 1, MOST);
		if (x.at == AT_ADDRESS) {
			x.xored = lt_opt(t, x.xored, "^");
			lt_put(t, "+");
			lt_number(t, &x.pitch, 1, MOST);
		}
		if (!t->out)
			l->axis[l->n++] = x;
	}
	if (!t->failed && !layout_fits(l))
		lt_fault(t,
			 "no block has as many registers, lanes, warps or elements as this layout");
}

/* ---- Buffers and iterators ---- */

void lt_buf(LoopText *t, Buf **b)
{
	const char *from = t->p, *name = t->out ? (*b)->name : NULL;

	lt_word(t, &name);
	if (t->out)
		return;
	for (int i = t->bufs.n - 1; i >= 0 && !t->failed; i--)
		if (!strcmp(t->bufs.at[i]->name, name)) {
			*b = t->bufs.at[i];
			return;
		}
	if (!t->failed) {
		t->p = from;
		skip_blanks(t);
		lt_fault(t, "there is no buffer %s here", name);
	}
	*b = vec_last(&t->k->bufs);
}

void lt_declare(LoopText *t, Buf *b)
{
	for (int i = 0; i < t->k->bufs.n && !t->failed; i++)
		if (t->k->bufs.at[i] != b && !strcmp(t->k->bufs.at[i]->name, b->name))
			lt_fault(t, "a second buffer is called %s", b->name);
	vec_push(t->arena, &t->bufs, b);
}

void lt_bind(LoopText *t, Iter **it, const char *name, Dim *extent)
{
	/* ir/loop/loop_settle.c takes time and memory for each pair of them. Trees of networks have
	 * fewer than 200; 4096 of them take a second. */
	enum { MOST_ITERS_OF_TREE = 4096 };
	Iter *found = NULL;

	for (int i = 0; i < t->iters.n && !t->failed; i++)
		if (!strcmp(t->iters.at[i].name, name))
			lt_fault(t, "an iterator around this is called %s, too", name);
	for (int i = 0; i < t->known.n && !found; i++)
		if (!strcmp(t->known.at[i]->name, name))
			found = t->known.at[i];
	if (!found && t->k->iters.n - t->niters >= MOST_ITERS_OF_TREE)
		lt_fault(t, "a schedule has more than %d names of iterators", MOST_ITERS_OF_TREE);
	if (!found) {
		found = kernel_iter(t->k, name, extent ? extent : dim_const(t->ctx, 0));
		vec_push(t->arena, &t->known, found);
	}
	if (found->extent != extent && !t->failed)
		lt_fault(t, "the iterator %s has another extent elsewhere in the schedule", name);
	*it = found;
	vec_push(t->arena, &t->iters, ((ExprName){found->name, ex_iter(t->k->pool, found)}));
}

LoopScope lt_enter(const LoopText *t)
{
	return (LoopScope){t->iters.n, t->bufs.n, t->splits.n, t->group};
}

void lt_leave(LoopText *t, LoopScope s)
{
	t->iters.n = s.iters;
	t->bufs.n = s.bufs;
	t->splits.n = s.splits;
	t->group = s.group;
}

/* ---- Lines ---- */

void lt_next_line(LoopText *t)
{
	for (;; t->p++) {
		skip_blanks(t);
		if (*t->p == ';' && strncmp(t->p, "; ----\n", 7))
			while (*t->p && *t->p != '\n')
				t->p++;
		if (*t->p != '\n')
			return;
		t->line_start = t->p + 1;
		++*t->line;
	}
}

void lt_end(LoopText *t)
{
	if (t->out) {
		strbuf_puts(t->out, "\n");
		return;
	}
	skip_blanks(t);
	if (!t->failed && *t->p && *t->p != '\n' && *t->p != ';')
		lt_expected(t, "the end of the line");
}

bool lt_line(LoopText *t, bool more, int around, int *columns)
{
	enum { MOST_COLUMNS = 200 }; /* bodies nest no deeper */
	int at;

	if (t->out) {
		*columns = around + 2;
		for (int i = 0; i < *columns && more; i++)
			strbuf_puts(t->out, " ");
		return more;
	}
	if (t->failed)
		return false;
	lt_next_line(t);
	at = (int)(t->p - t->line_start);
	if (at > MOST_COLUMNS)
		lt_fault(t, "the line is indented by more than %d columns", MOST_COLUMNS);
	if (!*t->p || *t->p == ';' || at <= around)
		return false;
	*columns = *columns ? *columns : at;
	if (at != *columns)
		lt_fault(t, "the line is indented by %d columns, the lines before it by %d", at,
			 *columns);
	return !t->failed;
}
