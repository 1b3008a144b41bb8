/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the sums of kernels from a Chrome trace that runtime/profile.c wrote. */
#include "base/sys.h"
#include "tools/dlcc/explain.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NESTED = 64 };

/* A text of JSON while it is read. After a fault P is at the terminating NUL. */
typedef struct Json {
	const char *p;
	Arena *arena;
	bool bad;
	int nested;
} Json;

static void fault(Json *j)
{
	j->bad = true;
	j->p += strlen(j->p);
}

/* Skips blanks, and then C if it is the next character; whether it was. */
static bool take(Json *j, char c)
{
	j->p += strspn(j->p, " \t\r\n");
	if (*j->p != c || !c)
		return false;
	j->p++;
	return true;
}

static void put_utf8(StrBuf *b, unsigned c)
{
	const char two[] = {(char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f))};
	const char three[] = {(char)(0xe0 | c >> 12), (char)(0x80 | (c >> 6 & 0x3f)),
			      (char)(0x80 | (c & 0x3f))};
	const char one = (char)c;

	if (c < 0x80)
		strbuf_put(b, &one, 1);
	else if (c < 0x800)
		strbuf_put(b, two, sizeof two);
	else
		strbuf_put(b, three, sizeof three);
}

/* The rest of a string, after its opening quote. */
static const char *string_rest(Json *j)
{
	static const char escapes[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
	StrBuf b = {0};
	const char *s;

	while (*j->p && *j->p != '"') {
		const char *e = *j->p == '\\' && j->p[1] ? strchr(escapes, j->p[1]) : NULL;
		char hex[5] = {0}, *end;

		if (*j->p != '\\') {
			strbuf_put(&b, j->p++, 1);
		} else if (e) {
			strbuf_put(&b, &means[e - escapes], 1);
			j->p += 2;
		} else {
			strncpy(hex, j->p[1] == 'u' ? j->p + 2 : "", 4);
			put_utf8(&b, (unsigned)strtoul(hex, &end, 16));
			if (end != hex + 4)
				fault(j);
			else
				j->p += 6;
		}
	}
	if (!take(j, '"'))
		fault(j);
	s = arena_strdup(j->arena, strbuf_str(&b));
	strbuf_free(&b);
	return s;
}

static const char *string(Json *j)
{
	if (take(j, '"'))
		return string_rest(j);
	fault(j);
	return "";
}

static double number(Json *j)
{
	char *end;
	double v;

	take(j, '\0');
	v = strtod(j->p, &end);
	if (end == j->p)
		fault(j);
	else
		j->p = end;
	return v;
}

/* Reads an object or a list between OPEN and CLOSE. MEMBER reads each member's value; NAME is
 * null in a list. */
typedef void (*Member)(Json *j, const char *name, void *arg);

static void members(Json *j, char open, char close, Member member, void *arg)
{
	if (++j->nested > MOST_NESTED || !take(j, open)) {
		fault(j);
		return;
	}
	while (!take(j, close) && *j->p) {
		const char *name = open == '{' ? string(j) : NULL;

		if (name && !take(j, ':'))
			fault(j);
		member(j, name, arg);
		if (!take(j, ',') && *j->p != close)
			fault(j);
	}
	j->nested--;
}

static void skip(Json *j, const char *name, void *arg)
{
	(void)name;
	(void)arg;
	take(j, '\0');
	if (*j->p == '{')
		members(j, '{', '}', skip, NULL);
	else if (*j->p == '[')
		members(j, '[', ']', skip, NULL);
	else if (*j->p == '"')
		string(j);
	else if (strchr("tfn", *j->p) && *j->p)
		j->p += strspn(j->p, "abcdefghijklmnopqrstuvwxyz");
	else
		number(j);
}

static void read_figure(Json *j, const char *name, void *arg)
{
	Traced *k = arg;
	const struct {
		const char *name;
		double *to;
	} figures[] = {
		{"runs", &k->runs}, {"ns", &k->ns}, {"flops", &k->flops}, {"bytes", &k->bytes}};

	for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
		if (!strcmp(name, figures[i].name)) {
			*figures[i].to = number(j);
			return;
		}
	if (!strcmp(name, "name"))
		k->name = string(j);
	else
		skip(j, name, NULL);
}

static void read_kernel(Json *j, const char *name, void *arg)
{
	Trace *t = arg;
	Traced k = {0};

	(void)name;
	members(j, '{', '}', read_figure, &k);
	if (k.name && k.runs > 0 && k.ns >= 0)
		vec_push(j->arena, &t->kernels, k);
	else
		fault(j);
}

static void read_other(Json *j, const char *name, void *arg)
{
	if (!strcmp(name, "kernels"))
		members(j, '[', ']', read_kernel, arg);
	else
		skip(j, name, NULL);
}

static void read_top(Json *j, const char *name, void *arg)
{
	if (!strcmp(name, "otherData"))
		members(j, '{', '}', read_other, arg);
	else
		skip(j, name, NULL);
}

const char *trace_name(Arena *a, const char *name)
{
	Json j = {.p = arena_printf(a, "%s\"", arena_escape(a, name, escape_json)), .arena = a};

	return string_rest(&j);
}

bool trace_read(Arena *a, Diag *d, const char *path, Trace *t)
{
	const char *text = read_text(a, path);
	Json j = {.p = text, .arena = a};

	if (!text)
		return diag_error(d, (DiagLoc){.file = path}, "cannot be read: %s", open_error());
	members(&j, '{', '}', read_top, t);
	if (j.bad || !t->kernels.n)
		return diag_error(d, (DiagLoc){.file = path},
				  "is not a trace of kernels, which dlrun --profile=FILE writes");
	return true;
}
