/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library of scalar functions: groups of ir/expr/scalar.ll, expanded for every value of their
 * variables, looked up by name.
 */
#include "codegen/nvptx/nvptx_impl.h"

#include "codegen/package/embed.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct LlDef {
	const char *name;
	const char *text;      /* "define ... }" */
	const char *param[10]; /* "%a", "%b" ... */
	const char *type[10];
	int nparams;
	const char *result; /* type of the result */
	/* the right side, if it is one instruction; "": the result is the parameter GIVES */
	const char *one;
	const char *gives;
} LlDef;

struct LlLib {
	VEC(LlDef) defs;
	int *slot; /* open addressing, by hash of the name */
	int nslots;
};

const char *ll_ctype(CType t)
{
	static const char *const name[CT_COUNT] = {"void", "i1",  "i32",   "i64",
						   "i32",  "i64", "float", "double"};

	return name[t];
}

const char *ll_stored(DType t)
{
	switch (dtype_info[t].bits) {
	case 64: return t == DT_F64 ? "double" : "i64";
	case 32: return t == DT_F32 ? "float" : "i32";
	case 16: return "i16";
	default: return "i8";
	}
}

/* ---- Reading ---- */

/* A variable of a group: "t: f32 f64" or "d: u4/15/0 i4/15/8". */
typedef struct Var {
	char name;
	char *value[16];
	int n;
} Var;

static const char *type_named(const char *name)
{
	for (CType t = CT_BOOL; t < CT_COUNT; t++)
		if (!strcmp(ctype_name[t], name))
			return ll_ctype(t);
	return "?";
}

/* Prints part K of a value "name/1/2". */
static void put_part(StrBuf *b, const char *v, int k)
{
	for (; k > 0 && *v; k--)
		v += strcspn(v, "/") + 1;
	strbuf_put(b, v, strcspn(v, "/"));
}

static void put_variable(StrBuf *b, const char **s, const Var *var, const int *at, int nvars)
{
	for (int i = 0; i < nvars; i++) {
		const char *v = var[i].value[at[i]];

		if (**s == var[i].name) {
			put_part(b, v, 0);
			(*s)++;
			return;
		}
		if (tolower((unsigned char)**s) == var[i].name) {
			strbuf_puts(b, type_named(v));
			(*s)++;
			return;
		}
		if (isdigit((unsigned char)**s)) {
			put_part(b, v, (int)strtol(*s, (char **)(uintptr_t)s, 10));
			return;
		}
		if (**s == 'W' && dtype_by_name(v) != DT_NONE) {
			strbuf_printf(b, "%d", dtype_info[dtype_by_name(v)].bits);
			(*s)++;
			return;
		}
	}
	assert(nvars < 0);
}

/* ---- One function ---- */

static uint64_t hash_name(const char *s, size_t n)
{
	return hash_bytes(HASH_SEED, s, n);
}

static int *find(const LlLib *l, const char *name, size_t n)
{
	size_t i = hash_name(name, n) % (size_t)l->nslots;

	while (l->slot[i] && (strlen(l->defs.at[l->slot[i] - 1].name) != n ||
			      memcmp(l->defs.at[l->slot[i] - 1].name, name, n)))
		i = (i + 1) % (size_t)l->nslots;
	return &l->slot[i];
}

static size_t word(const char *s)
{
	size_t n = 0;

	while (isalnum((unsigned char)s[n]) || s[n] == '_' || s[n] == '.')
		n++;
	return n;
}

/* Recognises bodies " %r = INST\n ret T %r\n}" and " ret T %a\n}". */
static void find_one(Arena *a, LlDef *d, const char *body)
{
	const char *end = strchr(body, '\n');

	if (str_starts(body, "  ret ")) {
		d->one = "";
		d->gives = arena_strndup(a, strchr(body, '%'), strcspn(strchr(body, '%'), "\n"));
	} else if (str_starts(body, "  %r = ") && str_starts(end + 1, "  ret ")) {
		d->one = arena_strndup(a, body + 7, (size_t)(end - body) - 7);
	}
}

static void add_def(LlLib *l, Arena *a, const char *text)
{
	LlDef d = {.text = text};
	const char *at = strchr(text, '@'), *type = text + strlen("define ");

	d.result = arena_strndup(a, type, strcspn(type, " "));
	d.name = arena_strndup(a, at + 1, word(at + 1));
	for (const char *s = strchr(at, '(') + 1, *end = strchr(at, '\n'), *from = s; s < end;
	     s++) {
		if (*s == ',')
			from = s + 2;
		if (*s != '%')
			continue;
		d.type[d.nparams] = arena_strndup(a, from, (size_t)(s - from) - 1);
		d.param[d.nparams++] = arena_strndup(a, s, 1 + word(s + 1));
	}
	find_one(a, &d, strchr(at, '\n') + 1);
	*find(l, d.name, strlen(d.name)) = l->defs.n + 1;
	vec_push(a, &l->defs, d);
}

/* Expands the functions TEXT[0..n) of a group for one choice of values. */
static void write_out(LlLib *l, Arena *a, const char *text, size_t n, const Var *var, const int *at,
		      int nvars)
{
	const char *end = text + n;
	StrBuf b = {0};

	for (const char *s = text; s < end;) {
		if (*s == '$') {
			s++;
			put_variable(&b, &s, var, at, nvars);
			continue;
		}
		strbuf_put(&b, s, 1);
		if (*s++ == '}' && *s == '\n') {
			add_def(l, a, arena_strdup(a, strstr(strbuf_str(&b), "define ")));
			b.n = 0;
		}
	}
	strbuf_free(&b);
}

static void read_group(LlLib *l, Arena *a, int sm, char *head, const char *text, size_t n)
{
	Var var[2];
	int nvars = 0, at[2] = {0, 0};

	for (char *w; (w = strsep(&head, " "));) {
		if (!*w)
			continue;
		if (str_starts(w, "sm_")) {
			if (atoi(w + 3) > sm)
				return;
		} else if (w[1] == ':')
			var[nvars++] = (Var){.name = w[0]};
		else
			var[nvars - 1].value[var[nvars - 1].n++] = w;
	}
	for (at[0] = 0; at[0] < (nvars ? var[0].n : 1); at[0]++)
		for (at[1] = 0; at[1] < (nvars > 1 ? var[1].n : 1); at[1]++)
			write_out(l, a, text, n, var, at, nvars);
}

LlLib *ll_lib_new(Arena *a, int sm)
{
	LlLib *l = NEW(a, LlLib);
	const char *s = strstr(embed_scalar_ll, "\n;;");

	l->nslots = 4096;
	l->slot = NEW_ARRAY(a, l->nslots, int);
	while (s) {
		const char *head = s + 3, *text = strchr(head, '\n') + 1,
			   *next = strstr(text, "\n;;");

		read_group(l, a, sm, arena_strndup(a, head, (size_t)(text - head) - 1), text,
			   next ? (size_t)(next - text) : strlen(text));
		s = next;
	}
	return l;
}

/* ---- Using ---- */

bool ll_lib_has(const LlLib *l, const char *name)
{
	return *find(l, name, strlen(name)) != 0;
}

/* The single instruction of D with its arguments inserted. */
static const char *filled(Arena *a, const LlDef *d, const char *const *arg)
{
	StrBuf b = {0};
	const char *text;

	for (const char *s = d->one; *s;) {
		size_t n = *s == '%' ? 1 + word(s + 1) : 1;
		int k = d->nparams;

		for (int i = 0; i < d->nparams && *s == '%'; i++)
			if (strlen(d->param[i]) == n && !memcmp(d->param[i], s, n))
				k = i;
		strbuf_put(&b, k < d->nparams ? arg[k] : s, k < d->nparams ? strlen(arg[k]) : n);
		s += n;
	}
	text = arena_strdup(a, strbuf_str(&b));
	strbuf_free(&b);
	return text;
}

/* Functions that the library lacks come from funcs.def: the suffix of the name is the type of their
 * parameters and result. */
const char *ll_lib_call(LlLib *l, Arena *a, StrBuf *b, const char *name, const char *const *arg,
			int n, int *temp)
{
	const int at = *find(l, name, strlen(name));
	const LlDef *d = at ? &l->defs.at[at - 1] : NULL;
	const char *value = arena_printf(a, "%%t%d", *temp),
		   *type = str_ends(name, "_f64") ? "double" : "float";

	if (d && d->one && !*d->one)
		return arg[0];
	(*temp)++;
	if (d && d->one) {
		strbuf_printf(b, "  %s = %s\n", value, filled(a, d, arg));
		return value;
	}
	strbuf_printf(b, "  %s = call %s @%s(", value, d ? d->result : type, name);
	for (int i = 0; i < n; i++)
		strbuf_printf(b, "%s%s %s", i ? ", " : "", d ? d->type[i] : type, arg[i]);
	strbuf_puts(b, ")\n");
	return value;
}

static bool seen_before(const char *const *seen, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(seen[i], name))
			return true;
	return false;
}

void ll_lib_define(LlLib *l, Arena *a, StrBuf *b, const char *text,
		   const char *(*make)(void *arg, const char *name), void *arg)
{
	VEC(const char *) todo = {0}, seen = {0};

	vec_push(a, &todo, text);
	while (todo.n) {
		const char *s = todo.at[--todo.n];

		while ((s = strchr(s, '@'))) {
			const size_t n = word(++s);
			const char *name = arena_strndup(a, s, n), *def;
			int at;

			if (str_starts(name, "llvm.") || seen_before(seen.at, seen.n, name))
				continue;
			vec_push(a, &seen, name);
			at = *find(l, name, n);
			def = at ? l->defs.at[at - 1].text : make(arg, name);
			if (!def)
				continue;
			strbuf_puts(b, "\ndefine internal ");
			strbuf_put(b, def + strlen("define "),
				   strcspn(def, "\n") - strlen("define ") - 1);
			strbuf_printf(b, "alwaysinline {%s\n", strchr(def, '\n'));
			vec_push(a, &todo, def);
		}
	}
}
