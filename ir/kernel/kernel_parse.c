/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the text of kernels, which ir/kernel/kernel_print.c prints.
 *
 *     kernel    = "kernel" "@" name "(" [param {"," param}] ")" "->" "(" [param {"," param}] ")"
 *                 ["from" loc {"," loc}] "{" {temp | stmt} "}"
 *     param     = "%" name ["#" number] ":" type          number: the operand, where not the position
 *     temp      = name ":" type ["=" "{" number {"," number} "}"]        with numbers: a table
 *     stmt      = write {"," write} "=" {"ordered" | "update" | "scan"} [monoid] value {"|" value}
 *                 ["for" iters] ["over" iters] ["where" expr] [loc | "@" "none"]
 *     write     = name "[" [expr {"," expr}] "]"
 *     iters     = "()" | name "<" dim {"," name "<" dim}
 *     loc       = "@" quoted [quoted]                      node and op; default: the first after "from"
 *
 * Spaces and line breaks have no meaning. Every statement has a "for" or an "over" ("for ()" if it
 * has no iterator). These clauses are read first, since they declare the iterators that the indices
 * and the value mention. All writes of a statement have the same indices. A name has one meaning
 * throughout a kernel: the printer changes names that would clash with another name or with a
 * reserved word, so that the text reads back and prints the same.
 */
#include "ir/kernel/kernel.h"

#include "ir/dim/bindings.h"
#include "runtime/strtable.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARAM = 1 << 16 };

typedef struct KernelReader {
	Ctx *c;
	Kernel *k;
	const char *p;
	int *line;
	bool failed;
} KernelReader;

static void skip(KernelReader *r)
{
	for (;; r->p++) {
		if (r->p[0] == '/' && r->p[1] == '/')
			while (r->p[1] && r->p[1] != '\n')
				r->p++;
		else if (*r->p == '\n')
			++*r->line;
		else if (*r->p != ' ' && *r->p != '\t')
			break;
	}
}

static DiagLoc here(const KernelReader *r)
{
	return (DiagLoc){.file = bound_file(r->c), .line = *r->line};
}

static bool fail(KernelReader *r, const char *what, const char *detail)
{
	if (!r->failed)
		diag_error(r->c->diag, here(r), "kernel: %s%s%s", what, *detail ? ": " : "",
			   detail);
	r->failed = true;
	return false;
}

static bool expected(KernelReader *r, const char *what)
{
	char near[24];

	snprintf(near, sizeof near, "%.20s", r->p);
	near[strcspn(near, "\n")] = 0;
	if (!r->failed)
		diag_error(r->c->diag, here(r), "kernel: expected %s near '%s'", what, near);
	r->failed = true;
	return false;
}

static bool take(KernelReader *r, const char *s)
{
	size_t n = strlen(s);

	skip(r);
	if (strncmp(r->p, s, n))
		return false;
	if (isalpha((unsigned char)*s) && (isalnum((unsigned char)r->p[n]) || r->p[n] == '_'))
		return false;
	r->p += n;
	return true;
}

static bool want(KernelReader *r, const char *s)
{
	return take(r, s) || expected(r, s);
}

static size_t word_length(const char *s)
{
	size_t n = 0;

	while (isalpha((unsigned char)s[n]) || s[n] == '_' || (n && isdigit((unsigned char)s[n])))
		n++;
	return n;
}

static const char *read_word(KernelReader *r)
{
	size_t n;
	const char *s;

	skip(r);
	n = word_length(r->p);
	if (!n) {
		expected(r, "a name");
		return NULL;
	}
	s = intern_n(r->c->names, r->p, n);
	r->p += n;
	return s;
}

/* Moves to END, which is ahead, and counts lines. */
static void advance(KernelReader *r, const char *end)
{
	for (; r->p < end; r->p++)
		*r->line += *r->p == '\n';
}

static const char *read_quoted(KernelReader *r)
{
	STRBUF_LOCAL(b);
	const char *s = NULL;

	skip(r);
	if (strbuf_unquote(&b, &r->p))
		s = ctx_name(r->c, strbuf_str(&b));
	else
		expected(r, "a quoted name");
	return s;
}

/* Reads an element of a table of strings. */
static bool read_string(KernelReader *r, int64_t *id)
{
	STRBUF_LOCAL(b);
	bool ok;

	skip(r);
	ok = strbuf_unquote_n(&b, &r->p);
	if (ok)
		*id = strings_intern(r->c->strings, strbuf_str(&b), b.n);
	return ok || expected(r, "a string in quotes");
}

/* Reads a location, after the "@". */
static bool read_loc(KernelReader *r, Loc *l)
{
	const char *node = read_quoted(r);

	if (!node)
		return false;
	l->node = *node ? node : NULL;
	l->op = NULL;
	skip(r);
	if (*r->p == '"')
		l->op = read_quoted(r);
	return !r->failed;
}

static const Type *read_type(KernelReader *r)
{
	const char *at = r->p;
	const Type *t;

	skip(r);
	at = r->p;
	t = type_parse(r->c, &at);
	if (!t || t->kind != TYPE_TENSOR || t->rank < 0 || dtype_ctype(t->dtype) == CT_NONE) {
		expected(r, "a tensor type");
		return NULL;
	}
	advance(r, at);
	return t;
}

static Dim *read_dim(KernelReader *r)
{
	const char *at;
	Dim *d;

	skip(r);
	at = r->p;
	d = dim_parse(r->c, &at);
	if (!d)
		expected(r, "an extent");
	advance(r, at);
	return d;
}

static Buf *find_buf(KernelReader *r, const char *name)
{
	for (int i = 0; i < r->k->bufs.n; i++)
		if (r->k->bufs.at[i]->name == name)
			return r->k->bufs.at[i];
	return NULL;
}

static bool read_params(KernelReader *r, BufKind kind)
{
	int n = 0;

	if (!want(r, "("))
		return false;
	if (take(r, ")"))
		return true;
	do {
		const char *name = want(r, "%") ? read_word(r) : NULL;
		int param = n++;
		const Type *t;

		if (name && take(r, "#")) {
			char *end;

			param = (int)strtol(r->p, &end, 10);
			if (end == r->p || param < 0 || param > MAX_PARAM)
				return expected(r, "the number of an operand or result");
			advance(r, end);
		}
		if (!name || !want(r, ":") || !(t = read_type(r)))
			return false;
		if (find_buf(r, name))
			return fail(r, "a second buffer of this name", name);
		kernel_buf(r->k, kind, name, t)->param = param;
	} while (take(r, ","));
	return want(r, ")");
}

static bool read_table(KernelReader *r, Buf *b)
{
	int64_t n = 1, v, bytes;
	void *data;

	for (int d = 0; d < b->rank; d++)
		if (!dim_is_const(b->dims[d], &v) || v < 0 || v > 1 << 20 || (n *= v) > 1 << 20)
			return fail(r, "a table's size", b->name);
	bytes = dtype_size(b->dtype, n);
	data = arena_alloc(r->k->arena, (size_t)bytes);
	for (int64_t i = 0; i < n; i++) {
		char *end;

		skip(r);
		if (b->dtype == DT_STR) {
			int64_t id = 0;

			if (!read_string(r, &id))
				return false;
			dtype_store_i64(DT_STR, data, i, id);
			if (i + 1 < n && !want(r, ","))
				return false;
			continue;
		}
		if (dtype_is_float(b->dtype))
			dtype_store_f64(b->dtype, data, i, strtod(r->p, &end));
		else
			dtype_store_i64(b->dtype, data, i, strtoll(r->p, &end, 10));
		if (end == r->p)
			return expected(r, "a number");
		r->p = end;
		if (i + 1 < n && !want(r, ","))
			return false;
	}
	b->data = data;
	return want(r, "}");
}

/* Reads a temporary, after NAME and ":". */
static bool read_temp(KernelReader *r, const char *name)
{
	const Type *t = read_type(r);
	Buf *b;

	if (!t)
		return false;
	if (find_buf(r, name))
		return fail(r, "a second buffer of this name", name);
	b = kernel_buf(r->k, BUF_TEMP, name, t);
	return !take(r, "=") || (want(r, "{") && read_table(r, b));
}

static Iter *read_iter(KernelReader *r)
{
	const char *name = read_word(r);
	Dim *extent = name && want(r, "<") ? read_dim(r) : NULL;

	if (!extent)
		return NULL;
	VEC_EACH (it, &r->k->iters) {
		if (it->name != name)
			continue;
		if (it->extent == extent)
			return it;
		fail(r, "an iterator with two extents", name);
		return NULL;
	}
	return kernel_iter(r->k, name, extent);
}

static bool read_iters(KernelReader *r, Stmt *s)
{
	if (take(r, "()"))
		return true;
	do {
		Iter *it = read_iter(r);

		if (!it)
			return false;
		if (s->niters == MAX_ITERS)
			return fail(r, "too many iterators", "");
		s->iter[s->niters++] = it;
	} while (take(r, ","));
	return true;
}

/* The next "for" or "over" outside of brackets and parentheses, where such a word would be the
 * name of a size; or null. P is within the brackets of a write. */
static const char *find_clause(const char *p)
{
	int depth = 1;

	while (*p && *p != '}') {
		size_t n = word_length(p);

		if (!depth &&
		    ((n == 3 && !strncmp(p, "for", 3)) || (n == 4 && !strncmp(p, "over", 4))))
			return p;
		depth += *p == '(' || *p == '[' ? 1 : *p == ')' || *p == ']' ? -1 : 0;
		if (*p == '"')
			for (p++; *p && *p != '"'; p++)
				p += *p == '\\' && p[1];
		p += n ? n : *p != 0;
		while (n && isdigit((unsigned char)*p))
			p++;
	}
	return NULL;
}

static bool read_domain(KernelReader *r, Stmt *s)
{
	if (take(r, "for") && !read_iters(r, s))
		return false;
	s->nband = s->niters;
	return !take(r, "over") || read_iters(r, s);
}

static Expr *read_expr(KernelReader *r, const Stmt *s, CType t)
{
	ExprName names[MAX_ITERS];
	ExprScope scope = {names, s->niters, r->k->bufs.at, r->k->bufs.n, true, false};
	const char *at, *err = NULL;
	Expr *e;

	for (int i = 0; i < s->niters; i++)
		names[i] = (ExprName){s->iter[i]->name, ex_iter(r->k->pool, s->iter[i])};
	skip(r);
	at = r->p;
	e = ex_parse_at(r->k->pool, &at, t, &scope, &err);
	if (!e)
		fail(r, "an expression", err ? err : "");
	else if (e->ct != t) {
		e = NULL;
		fail(r, "an expression of another type than", ctype_name[t]);
	}
	advance(r, at);
	return e;
}

/* Reads a write, after NAME and "[". */
static bool read_write(KernelReader *r, Stmt *s, const char *name)
{
	Buf *b = find_buf(r, name);
	Expr *idx[MAX_RANK];
	int n = 0;

	if (!b || s->nout == 2)
		return fail(r, b ? "too many writes" : "no buffer", name);
	if (!take(r, "]")) {
		do {
			if (n == MAX_RANK || !(idx[n++] = read_expr(r, s, CT_I64)))
				return fail(r, "too many indices", name);
		} while (take(r, ","));
		if (!want(r, "]"))
			return false;
	}
	if (n != b->rank)
		return fail(r, "wrong number of indices", name);
	if (s->nout == 0) {
		s->widx = NEW_ARRAY(r->k->arena, n, Expr *);
		memcpy(s->widx, idx, (size_t)n * sizeof *idx);
		s->nwidx = n;
	} else if (n != s->nwidx || memcmp(s->widx, idx, (size_t)n * sizeof *idx)) {
		return fail(r, "writes with different indices", name);
	}
	s->out[s->nout++] = b;
	return true;
}

/* Reads a word followed by a space: a flag or a monoid. A value never begins like that. */
static bool read_kind(KernelReader *r, Stmt *s)
{
	for (;;) {
		size_t n;
		bool known = true;

		skip(r);
		n = word_length(r->p);
		if (!n || !isspace((unsigned char)r->p[n]))
			return true;
		if (n == 7 && !strncmp(r->p, "ordered", n))
			s->ordered = true;
		else if (n == 6 && !strncmp(r->p, "update", n))
			s->update = true;
		else if (n == 4 && !strncmp(r->p, "scan", n))
			s->scan = true;
		else
			known = false;
		for (Monoid m = MONOID_NONE + 1; m < MONOID_COUNT && !known; m++)
			if (strlen(monoid_info[m].name) == n &&
			    !strncmp(r->p, monoid_info[m].name, n)) {
				if (s->red != MONOID_NONE)
					return fail(r, "two monoids", monoid_info[m].name);
				s->red = m;
				known = true;
			}
		if (!known)
			return true;
		r->p += n;
	}
}

/* The type of value K: its buffer's, or, for a component that is not stored, the monoid's. */
static CType value_type(const Stmt *s, int k)
{
	return k < s->nout ? dtype_ctype(s->out[k]->dtype) : CT_I64;
}

static bool read_values(KernelReader *r, Stmt *s)
{
	int n = s->red == MONOID_NONE ? s->nout : monoid_info[s->red].n;

	if (s->nout > n)
		return fail(r, "more writes than values", "");
	for (int i = 0; i < n; i++)
		if ((i && !want(r, "|")) || !(s->val[i] = read_expr(r, s, value_type(s, i))))
			return false;
	return true;
}

/* Reads a statement, after NAME and "[" of its first write. */
static bool read_stmt(KernelReader *r, const char *name)
{
	Stmt *s = NEW(r->k->arena, Stmt);
	const char *begin = r->p, *domain = find_clause(r->p), *end;
	int line = *r->line;

	if (!domain)
		return fail(r, "a statement without 'for' or 'over'", name);
	s->id = r->k->stmts.n;
	s->loc = locs_first(r->k->locs);
	advance(r, domain);
	if (!read_domain(r, s))
		return false;
	end = r->p;
	r->p = begin;
	*r->line = line;
	if (!read_write(r, s, name))
		return false;
	while (take(r, ","))
		if (!(name = read_word(r)) || !want(r, "[") || !read_write(r, s, name))
			return false;
	if (!want(r, "=") || !read_kind(r, s) || !read_values(r, s))
		return false;
	skip(r);
	if (r->p != domain)
		return expected(r, "'for' or 'over'");
	advance(r, end);
	if (take(r, "where") && !(s->guard = read_expr(r, s, CT_BOOL)))
		return false;
	if (take(r, "@none"))
		s->loc = (Loc){NULL, NULL};
	else if (take(r, "@") && !read_loc(r, &s->loc))
		return false;
	vec_push(r->k->arena, &r->k->stmts, s);
	return true;
}

static bool read_body(KernelReader *r)
{
	while (!take(r, "}")) {
		const char *name = read_word(r);

		if (!name)
			return false;
		if (take(r, ":") ? !read_temp(r, name) : !want(r, "[") || !read_stmt(r, name))
			return false;
	}
	return true;
}

static bool read_header(KernelReader *r)
{
	if (!read_params(r, BUF_IN) || !want(r, "->") || !read_params(r, BUF_OUT))
		return false;
	if (take(r, "from")) {
		do {
			Loc l;

			if (!want(r, "@") || !read_loc(r, &l))
				return false;
			r->k->locs = locs_union(r->k->arena, r->k->locs, locs_one(r->k->arena, l));
		} while (take(r, ","));
	}
	return want(r, "{");
}

Buf *kernel_parse_temp(Kernel *k, const char *name, const char **p, int *line)
{
	KernelReader r = {.c = k->ctx, .k = k, .p = *p, .line = line};
	const bool ok = read_temp(&r, name);

	*p = r.p;
	return ok ? vec_last(&k->bufs) : NULL;
}

bool kernel_parse_body(Kernel *k, const char **p, int *line)
{
	KernelReader r = {.c = k->ctx, .k = k, .p = *p, .line = line};
	bool ok = read_body(&r);

	*p = r.p;
	return ok;
}

Kernel *kernel_parse(Ctx *c, Arena *a, const char **p, int *line)
{
	KernelReader r = {.c = c, .p = *p, .line = line};
	const char *name = want(&r, "kernel") && want(&r, "@") ? read_word(&r) : NULL;

	if (name)
		r.k = kernel_new(c, a, name);
	if (!r.k || !read_header(&r) || !read_body(&r))
		return NULL;
	*p = r.p;
	return r.k;
}
