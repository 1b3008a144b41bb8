/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the text of kernels; ir/kernel/kernel_parse.c has the grammar. */
#include "ir/kernel/kernel.h"

#include "runtime/strtable.h"

#include <ctype.h>
#include <string.h>

static const char *const reserved[] = {"for",     "over",   "where", "let",   "from", "none",
				       "ordered", "update", "scan",  "inf",   "nan",  "true",
				       "false",   "inside", "dim",   "kernel"};

static bool is_reserved(const char *s)
{
	for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
		if (!strcmp(s, reserved[i]))
			return true;
	for (int m = MONOID_NONE; m < MONOID_COUNT; m++)
		if (!strcmp(s, monoid_info[m].name))
			return true;
	return false;
}

/* NAME as a word that is neither reserved nor one of TAKEN. */
static const char *clean_name(Ctx *c, const char *name, const char *const *taken, int n)
{
	STRBUF_LOCAL(b);
	size_t stem;

	if (!*name || isdigit((unsigned char)*name) ||
	    (*name == '_' && isdigit((unsigned char)name[1])))
		strbuf_puts(&b, "v");
	for (; *name; name++)
		strbuf_put(&b, isalnum((unsigned char)*name) ? name : "_", 1);
	if (is_reserved(strbuf_str(&b)))
		strbuf_puts(&b, "_");
	stem = b.n;
	for (int k = 2, i = 0; i < n; i++) {
		if (strcmp(taken[i], strbuf_str(&b)))
			continue;
		b.n = stem;
		strbuf_printf(&b, "_%d", k++);
		i = -1;
	}
	return ctx_name(c, strbuf_str(&b));
}

const char *kernel_word(Ctx *c, const char *name)
{
	return clean_name(c, name, NULL, 0);
}

const char **kernel_buf_names(const Kernel *k, Arena *a)
{
	const char **name = NEW_ARRAY(a, k->bufs.n + 1, const char *);

	for (int i = 0; i < k->bufs.n; i++)
		name[i] = clean_name(k->ctx, k->bufs.at[i]->name, name, i);
	return name;
}

const char **kernel_iter_names(const Kernel *k, Arena *a)
{
	const char **name = NEW_ARRAY(a, k->iters.n + 1, const char *);

	for (int i = 0; i < k->iters.n; i++)
		name[i] = clean_name(k->ctx, k->iters.at[i]->name, name, i);
	return name;
}

static void clean_names(Kernel *k)
{
	const char **bufs = kernel_buf_names(k, k->arena), **iters = kernel_iter_names(k, k->arena);

	for (int i = 0; i < k->bufs.n; i++)
		k->bufs.at[i]->name = bufs[i];
	for (int i = 0; i < k->iters.n; i++)
		k->iters.at[i]->name = iters[i];
}

static void put_type(StrBuf *b, const Kernel *k, const Buf *buf)
{
	const Type *t = type_tensor(k->ctx, buf->dtype, buf->rank, buf->dims);

	type_print(b, buf->layout ? type_with_layout(k->ctx, t, buf->layout) : t);
}

static void put_params(StrBuf *b, const Kernel *k, BufKind kind)
{
	int n = 0;

	strbuf_puts(b, "(");
	VEC_EACH (buf, &k->bufs) {
		if (buf->kind != kind)
			continue;
		strbuf_printf(b, "%s%%%s", n ? ", " : "", buf->name);
		if (buf->param != n)
			strbuf_printf(b, "#%d", buf->param);
		strbuf_puts(b, ": ");
		put_type(b, k, buf);
		n++;
	}
	strbuf_puts(b, ")");
}

static void put_loc(StrBuf *b, Loc l)
{
	strbuf_puts(b, "@");
	strbuf_quote(b, l.node ? l.node : "");
	if (l.op) {
		strbuf_puts(b, " ");
		strbuf_quote(b, l.op);
	}
}

static void put_table(StrBuf *b, Ctx *c, const Buf *buf)
{
	int64_t n = 1, v;

	for (int d = 0; d < buf->rank; d++)
		n *= dim_is_const(buf->dims[d], &v) ? v : 0;
	strbuf_puts(b, " = {");
	for (int64_t i = 0; i < n; i++) {
		if (i)
			strbuf_puts(b, ", ");
		if (buf->dtype == DT_STR) {
			const dl_str s = strings_get(c->strings,
						     dtype_load_i64(DT_STR, buf->data, i));

			strbuf_quote_n(b, s.p, s.n);
		} else if (dtype_is_float(buf->dtype))
			strbuf_printf(b, "%.17g", dtype_load_f64(buf->dtype, buf->data, i));
		else
			strbuf_printf(b, "%lld",
				      (long long)dtype_load_i64(buf->dtype, buf->data, i));
	}
	strbuf_puts(b, "}");
}

static void put_exprs(StrBuf *b, Expr *const *e, int n, const char *between)
{
	for (int i = 0; i < n; i++) {
		if (i)
			strbuf_puts(b, between);
		ex_print(b, e[i]);
	}
}

static void put_iters(StrBuf *b, const char *word, Iter *const *it, int n)
{
	strbuf_printf(b, " %s ", word);
	if (!n)
		strbuf_puts(b, "()");
	for (int i = 0; i < n; i++) {
		strbuf_printf(b, "%s%s < ", i ? ", " : "", it[i]->name);
		dim_print(b, it[i]->extent);
	}
}

static void put_stmt(StrBuf *b, const Kernel *k, const Stmt *s)
{
	const Loc first = locs_first(k->locs);

	for (int i = 0; i < s->nout; i++) {
		strbuf_printf(b, "%s%s[", i ? ", " : "  ", s->out[i]->name);
		put_exprs(b, s->widx, s->nwidx, ",");
		strbuf_puts(b, "]");
	}
	strbuf_printf(b, " = %s%s%s", s->ordered ? "ordered " : "", s->update ? "update " : "",
		      s->scan ? "scan " : "");
	if (s->red != MONOID_NONE)
		strbuf_printf(b, "%s ", monoid_info[s->red].name);
	put_exprs(b, s->val, s->red == MONOID_NONE ? s->nout : monoid_info[s->red].n, " | ");
	if (s->nband || s->niters == 0)
		put_iters(b, "for", s->iter, s->nband);
	if (s->niters > s->nband)
		put_iters(b, "over", s->iter + s->nband, s->niters - s->nband);
	if (s->guard) {
		strbuf_puts(b, " where ");
		ex_print(b, s->guard);
	}
	if (!loc_equal(s->loc, first)) {
		strbuf_puts(b, " ");
		if (s->loc.node || s->loc.op)
			put_loc(b, s->loc);
		else
			strbuf_puts(b, "@none");
	}
	strbuf_puts(b, "\n");
}

static void put_locs(StrBuf *b, const Kernel *k)
{
	ARENA_LOCAL(tmp);
	const LocList all = locs_all(tmp, k->locs);

	for (int i = 0; i < all.n; i++) {
		strbuf_puts(b, i ? ", " : " from ");
		put_loc(b, all.at[i]);
	}
}

void kernel_print_temp(StrBuf *b, const Kernel *k, const Buf *buf)
{
	strbuf_printf(b, "%s: ", buf->name);
	put_type(b, k, buf);
	if (buf->data)
		put_table(b, k->ctx, buf);
}

/* Prints K, whose names are words already. */
static void put_kernel(StrBuf *b, const Kernel *k)
{
	strbuf_printf(b, "kernel @%s", k->name);
	put_params(b, k, BUF_IN);
	strbuf_puts(b, " -> ");
	put_params(b, k, BUF_OUT);
	put_locs(b, k);
	strbuf_puts(b, " {\n");
	for (int i = 0; i < k->bufs.n; i++) {
		if (k->bufs.at[i]->kind != BUF_TEMP)
			continue;
		strbuf_puts(b, "  ");
		kernel_print_temp(b, k, k->bufs.at[i]);
		strbuf_puts(b, "\n");
	}
	for (int i = 0; i < k->stmts.n; i++)
		put_stmt(b, k, k->stmts.at[i]);
	strbuf_puts(b, "}\n");
}

/* The cast drops const; cloning only reads. */
static Kernel *copy(const Kernel *k, Arena *tmp)
{
	return kernel_clone((Kernel *)(uintptr_t)k, tmp);
}

void kernel_print(StrBuf *b, const Kernel *orig)
{
	ARENA_LOCAL(tmp);
	Kernel *k = copy(orig, tmp);

	clean_names(k);
	put_kernel(b, k);
}

void kernel_print_bare(StrBuf *b, const Kernel *orig)
{
	ARENA_LOCAL(tmp);
	Kernel *k = copy(orig, tmp);

	k->name = "k";
	k->locs = NULL;
	for (int i = 0; i < k->bufs.n; i++)
		k->bufs.at[i]->name = arena_printf(tmp, "b%d", i);
	for (int i = 0; i < k->iters.n; i++)
		k->iters.at[i]->name = arena_printf(tmp, "i%d", i);
	for (int i = 0; i < k->stmts.n; i++)
		k->stmts.at[i]->loc = (Loc){NULL, NULL};
	put_kernel(b, k);
}

bool kernel_same(const Kernel *a, const Kernel *b)
{
	STRBUF_LOCAL(x);
	STRBUF_LOCAL(y);

	kernel_print_bare(&x, a);
	kernel_print_bare(&y, b);
	return !strcmp(strbuf_str(&x), strbuf_str(&y));
}
