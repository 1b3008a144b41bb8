/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and prints dims, also as C. */
#include "ir/dim/dim_impl.h"

#include "ir/dim/bindings.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

enum { MAX_NESTING = 201 }; /* 200 brackets in each other, around a symbol */

typedef const char *(*SymName)(void *arg, const Sym *s);

static const char *const atom_fn[] = {
	[ATOM_FLOOR] = "floor", [ATOM_MIN] = "min", [ATOM_MAX] = "max",
	[ATOM_ADD] = "add",     [ATOM_MUL] = "mul",
};

static bool is_word(char ch)
{
	return isalnum((unsigned char)ch) || ch == '_';
}

static bool is_identifier(const char *s)
{
	if (!*s || isdigit((unsigned char)*s))
		return false;
	for (const char *p = s; *p; p++)
		if (!is_word(*p))
			return false;
	for (int k = ATOM_FLOOR; k <= ATOM_MUL; k++)
		if (!strcmp(s, atom_fn[k]))
			return false;
	return true;
}

/* ---- Printing: text where SYM_NAME is null, else C ---- */

typedef struct DimPrinter {
	StrBuf *b;
	SymName sym_name;
	void *arg;
	const char *prefix; /* of functions for all arithmetic, which detect overflow; null: there are none */
	const char *(*part)(void *arg, const Dim *d); /* see dim_print_wide */
} DimPrinter;

static void put_dim(const DimPrinter *p, const Dim *d);

static void put_arg(const DimPrinter *p, const Dim *d)
{
	if (p->part)
		strbuf_puts(p->b, p->part(p->arg, d));
	else
		put_dim(p, d);
}

static void put_args(const DimPrinter *p, const char *fn, const Atom *a, int from)
{
	strbuf_printf(p->b, "%s(", fn);
	put_arg(p, a->arg[from]);
	strbuf_puts(p->b, ", ");
	if (p->sym_name && from + 2 < a->n) {
		put_args(p, fn, a, from + 1);
	} else {
		for (int i = from + 1; i < a->n; i++) {
			strbuf_puts(p->b, i > from + 1 ? ", " : "");
			put_arg(p, a->arg[i]);
		}
	}
	strbuf_puts(p->b, ")");
}

static void put_atom(const DimPrinter *p, const Atom *a)
{
	static const char *const c_fn[] = {
		[ATOM_FLOOR] = "floordiv", [ATOM_MIN] = "min", [ATOM_MAX] = "max",
		[ATOM_ADD] = "add",        [ATOM_MUL] = "mul",
	};
	char fn[32];

	if (a->kind != ATOM_SYM) {
		snprintf(fn, sizeof fn, "%s%s", p->prefix ? p->prefix : "dl_", c_fn[a->kind]);
		put_args(p, p->sym_name ? fn : atom_fn[a->kind], a, 0);
	} else if (p->sym_name) {
		strbuf_puts(p->b, p->sym_name(p->arg, a->sym));
	} else if (is_identifier(a->sym->name)) {
		strbuf_puts(p->b, a->sym->name);
	} else {
		strbuf_puts(p->b, "$");
		strbuf_quote(p->b, a->sym->name);
	}
}

static void put_factor(const DimPrinter *p, const Factor *f)
{
	put_atom(p, f->atom);
	if (f->pow > 1 && !p->sym_name)
		strbuf_printf(p->b, "^%d", f->pow);
	for (int i = 1; i < f->pow && p->sym_name; i++) {
		strbuf_puts(p->b, "*");
		put_atom(p, f->atom);
	}
}

/* Prints the sign and the number in front of a term's factors. */
static void put_coef(const DimPrinter *p, const Term *t, bool first)
{
	uint64_t mag = int_mag(t->coef);
	bool min = p->sym_name && t->coef == INT64_MIN;

	strbuf_puts(p->b, t->coef < 0 && !min ? first ? "-" : " - " : first ? "" : " + ");
	if (mag == 1 && t->n)
		return;
	if (min)
		strbuf_puts(p->b, "INT64_MIN");
	else
		strbuf_printf(p->b,
			      p->sym_name && mag > INT32_MAX ? "INT64_C(%" PRIu64 ")" : "%" PRIu64,
			      mag);
	strbuf_puts(p->b, t->n ? "*" : "");
}

static void put_number(const DimPrinter *p, int64_t v)
{
	if (v == INT64_MIN)
		strbuf_puts(p->b, "INT64_MIN");
	else
		strbuf_printf(p->b, int_mag(v) > INT32_MAX ? "INT64_C(%" PRId64 ")" : "%" PRId64,
			      v);
}

static void put_checked_term(const DimPrinter *p, const Term *t)
{
	int calls = t->coef != 1 && t->n, factors = 0;

	for (int k = 0; k < t->n; k++)
		factors += t->f[k].pow;
	calls += factors > 1 ? factors - 1 : 0;
	for (int i = 0; i < calls; i++)
		strbuf_printf(p->b, "%smul(", p->prefix);
	if (t->coef != 1 || !t->n)
		put_number(p, t->coef);
	for (int k = 0, n = t->coef != 1; k < t->n; k++)
		for (int i = 0; i < t->f[k].pow; i++, n++) {
			strbuf_puts(p->b, n ? ", " : "");
			put_atom(p, t->f[k].atom);
			strbuf_puts(p->b, n ? ")" : "");
		}
}

static void put_checked(const DimPrinter *p, const Dim *d)
{
	for (int i = 1; i < d->n; i++)
		strbuf_printf(p->b, "%sadd(", p->prefix);
	for (int i = 0; i < d->n; i++) {
		strbuf_puts(p->b, i ? ", " : "");
		put_checked_term(p, &d->t[i]);
		strbuf_puts(p->b, i ? ")" : "");
	}
}

static void put_dim(const DimPrinter *p, const Dim *d)
{
	if (!d->n)
		strbuf_puts(p->b, "0");
	if (p->prefix) {
		put_checked(p, d);
		return;
	}
	for (int i = 0; i < d->n; i++) {
		put_coef(p, &d->t[i], !i);
		for (int k = 0; k < d->t[i].n; k++) {
			strbuf_puts(p->b, k ? "*" : "");
			put_factor(p, &d->t[i].f[k]);
		}
	}
}

void dim_print(StrBuf *b, const Dim *d)
{
	put_dim(&(DimPrinter){.b = b}, d);
}

void dim_print_c(StrBuf *b, const Dim *d, SymName sym_name, void *arg)
{
	put_dim(&(DimPrinter){.b = b, .sym_name = sym_name, .arg = arg}, d);
}

void dim_print_checked(StrBuf *b, const Dim *d, SymName sym_name, void *arg)
{
	put_dim(&(DimPrinter){b, sym_name, arg, "dl_", NULL}, d);
}

void dim_print_wide(StrBuf *b, const Dim *d, SymName sym_name,
		    const char *(*part)(void *arg, const Dim *d), void *arg)
{
	put_dim(&(DimPrinter){b, sym_name, arg, "dl_wide_", part}, d);
}

/* ---- Parsing ---- */

typedef struct DimReader {
	Ctx *c;
	const char *p;
	int depth;
} DimReader;

static Dim *read_sum(DimReader *r);

static char peek(DimReader *r)
{
	while (*r->p == ' ' || *r->p == '\t')
		r->p++;
	return *r->p;
}

static bool take(DimReader *r, char ch)
{
	if (peek(r) != ch)
		return false;
	r->p++;
	return true;
}

/* Reads an integer with its sign, so that INT64_MIN can be read. */
static bool read_int(DimReader *r, bool neg, int64_t *out)
{
	int64_t v = 0;

	if (!isdigit((unsigned char)peek(r)))
		return false;
	for (; isdigit((unsigned char)*r->p); r->p++) {
		int digit = *r->p - '0';

		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, neg ? -digit : digit, &v))
			return false;
	}
	*out = v;
	return true;
}

/* After $: a quoted name. */
static Dim *read_quoted(DimReader *r)
{
	STRBUF_LOCAL(b);

	return strbuf_unquote(&b, &r->p) && !r->c->bound ? sym_get(r->c, strbuf_str(&b))->dim
							 : NULL;
}

static Dim *apply(Ctx *c, AtomKind kind, Dim **arg, int n)
{
	if (kind == ATOM_MIN || kind == ATOM_MAX)
		return dim_extreme(c, kind, arg, n);
	if (n != 2)
		return NULL;
	return kind == ATOM_FLOOR ? dim_floordiv(c, arg[0], arg[1])
	       : kind == ATOM_ADD ? dim_add(c, arg[0], arg[1])
				  : dim_mul(c, arg[0], arg[1]);
}

static Dim *read_call(DimReader *r, AtomKind kind)
{
	Dim *arg[DIM_MAX_ARGS];
	int n = 0;

	do {
		if (n == DIM_MAX_ARGS || !(arg[n++] = read_sum(r)))
			return NULL;
	} while (take(r, ','));
	return take(r, ')') ? apply(r->c, kind, arg, n) : NULL;
}

static Dim *read_word(DimReader *r)
{
	const char *from = r->p;
	size_t n;

	while (is_word(*r->p))
		r->p++;
	n = (size_t)(r->p - from);
	if (*r->p == '(')
		for (int k = ATOM_FLOOR; k <= ATOM_MUL; k++)
			if (strlen(atom_fn[k]) == n && !memcmp(from, atom_fn[k], n)) {
				r->p++;
				return read_call(r, (AtomKind)k);
			}
	if (r->c->bound)
		return bound_size(r->c, from, n, &r->p);
	return sym_get(r->c, intern_n(r->c->names, from, n))->dim;
}

static Dim *read_primary(DimReader *r, bool neg)
{
	Dim *d = NULL;
	int64_t v;
	char ch = peek(r);

	if (++r->depth > MAX_NESTING)
		return NULL;
	if (isdigit((unsigned char)ch)) {
		d = read_int(r, neg, &v) ? dim_const(r->c, v) : NULL;
	} else if (isalpha((unsigned char)ch) || ch == '_') {
		d = read_word(r);
	} else if (take(r, '$')) {
		d = read_quoted(r);
	} else if (take(r, '(')) {
		d = read_sum(r);
		d = d && take(r, ')') ? d : NULL;
	}
	r->depth--;
	if (d && neg && !isdigit((unsigned char)ch))
		d = dim_sub(r->c, dim_const(r->c, 0), d);
	return d;
}

static Dim *read_power(DimReader *r, bool neg)
{
	Dim *d = read_primary(r, neg), *x = d;
	int64_t pow = 1;

	if (!d || !take(r, '^'))
		return d;
	if (!read_int(r, false, &pow) || pow < 1 || pow > DIM_MAX_POW)
		return NULL;
	if (neg) /* the sign applies to the power, not to its base */
		x = dim_sub(r->c, dim_const(r->c, 0), d);
	for (int64_t i = 1; i < pow; i++)
		d = dim_mul(r->c, d, x);
	return d;
}

static Dim *read_product(DimReader *r, bool neg)
{
	Dim *d = read_power(r, neg), *x;

	while (d && (peek(r) == '*' || (*r->p == '/' && r->p[1] != '/'))) { /* //: a comment */
		bool div = *r->p++ == '/';

		x = read_power(r, false);
		if (!x || (div && dim_equals(x, 0)))
			return NULL;
		d = div ? dim_floordiv(r->c, d, x) : dim_mul(r->c, d, x);
	}
	return d;
}

static Dim *read_sum(DimReader *r)
{
	Dim *d = read_product(r, take(r, '-')), *x;

	while (d && (peek(r) == '+' || *r->p == '-')) {
		bool neg = *r->p++ == '-';

		x = read_product(r, neg);
		if (!x)
			return NULL;
		d = dim_add(r->c, d, x);
	}
	return d;
}

Dim *dim_parse(Ctx *c, const char **p)
{
	DimReader r = {c, *p, 0};
	Dim *d = read_sum(&r);

	*p = r.p;
	return d;
}
