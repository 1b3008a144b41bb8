/* SPDX-License-Identifier: Apache-2.0 */
/* How the values of options are read. */
#include "base/program.h"
#include "tools/dlcc/option.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_GROUP = 32 }; /* terms of a scale of i4 */

static void *member(Cli *c, const Option *o)
{
	return (char *)c + o->at;
}

static bool says_otherwise(Cli *c, const Option *o, const char *v)
{
	StrBuf b = {0};

	strbuf_printf(&b, "%s %s: an earlier %s says otherwise", o->name, v, o->name);
	options_fault(c, strbuf_str(&b));
	strbuf_free(&b);
	return false;
}

/* ---- Words ---- */

bool set_text(Cli *c, const Option *o, const char *v)
{
	*(const char **)member(c, o) = v;
	return true;
}

bool set_once(Cli *c, const Option *o, const char *v)
{
	const char **to = member(c, o);

	if (*to && strcmp(*to, v))
		return says_otherwise(c, o, v);
	*to = v;
	return true;
}

bool set_item(Cli *c, const Option *o, const char *v)
{
	int *n = (int *)((char *)c + o->count);

	if (*n == o->most)
		return usage_error(c, "%s: too many", o->name);
	((const char **)member(c, o))[(*n)++] = v;
	return true;
}

static bool is_identifier(const char *s)
{
	if (!isalpha((unsigned char)*s) && *s != '_')
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && *s != '_')
			return false;
	return true;
}

bool set_identifier(Cli *c, const Option *o, const char *v)
{
	if (!is_identifier(v))
		return value_error(c, o, v, "it is not a C identifier");
	return set_text(c, o, v);
}

bool set_glibc(Cli *c, const Option *o, const char *v)
{
	unsigned minor;
	int n = 0;

	if (sscanf(v, "2.%3u%n", &minor, &n) != 1 || v[n] || !isdigit((unsigned char)v[2]) ||
	    minor < 17)
		return value_error(c, o, v, "it is a version of glibc from 2.17 on, such as 2.28");
	return set_text(c, o, v);
}

bool set_soname(Cli *c, const Option *o, const char *v)
{
	if (!*v || strchr(v, '/'))
		return value_error(c, o, v, "it is the name of a file, without a folder");
	return set_text(c, o, v);
}

bool set_yes(Cli *c, const Option *o, const char *v)
{
	const bool yes = !strcmp(v, "yes");

	if (!yes && strcmp(v, "no"))
		return value_error(c, o, v, "it is yes or no");
	*(bool *)member(c, o) = yes;
	c->given[o - option_table] = yes;
	return true;
}

bool set_warning(Cli *c, const Option *o, const char *v)
{
	StrBuf error = {0};
	const bool ok = warnings_option(&c->warnings, v, &error);

	(void)o;
	if (!ok)
		options_fault(c, strbuf_str(&error));
	strbuf_free(&error);
	return ok;
}

/* ---- Numbers ---- */

bool set_number(Cli *c, const Option *o, const char *v)
{
	StrBuf b = {0};

	if (program_number(v, member(c, o)))
		return true;
	strbuf_printf(&b, "%s wants a number from 0 to %d", o->name, NUMBER_MAX);
	options_fault(c, strbuf_str(&b));
	strbuf_free(&b);
	return false;
}

bool set_winograd(Cli *c, const Option *o, const char *v)
{
	if (!set_number(c, o, v))
		return false;
	return c->winograd == 0 || c->winograd == 2 || c->winograd == 4 ||
	       usage_error(c, "%s wants 0, 2 or 4", o->name);
}

bool set_error(Cli *c, const Option *o, const char *v)
{
	double *to = member(c, o);
	char *end;

	*to = strtod(v, &end);
	return (!*end && *to >= 0) || value_error(c, o, v, "it is a number of at least 0");
}

bool set_level(Cli *c, const Option *o, const char *v)
{
	int *to = member(c, o);

	program_level(v, to);
	return *to >= 0 || usage_error(c, "%s: " OPT_LEVELS, v);
}

bool set_dim(Cli *c, const Option *o, const char *v)
{
	const char *eq = strrchr(v, '=');
	DimOption d = {.text = v};
	char *end = NULL;

	if (c->ndims == MAX_DIMS)
		return usage_error(c, "%s: too many", o->name);
	if (eq) {
		d.name = (size_t)(eq - v);
		errno = 0;
		d.lo = d.hi = strtoll(eq + 1, &end, 10);
		if (end[0] == '.' && end[1] == '.')
			d.hi = strtoll(end + 2, &end, 10);
	}
	if (!d.name || end == eq + 1 || *end || errno || d.lo < 0 || d.hi < d.lo)
		return usage_error(c, "--dim %s: write NAME=N or NAME=A..B, with 0 <= A <= B", v);
	for (int i = 0; i < c->ndims; i++)
		if (c->dims[i].name == d.name && !strncmp(c->dims[i].text, v, d.name) &&
		    (c->dims[i].lo != d.lo || c->dims[i].hi != d.hi))
			return says_otherwise(c, o, v);
	c->dims[c->ndims++] = d;
	return true;
}

/* ---- Passes ---- */

bool set_passes(Cli *c, const Option *o, const char *v)
{
	char name[64];

	for (size_t n; *v; v += n + (v[n] == ',')) {
		n = strcspn(v, ",");
		if (!n)
			continue;
		if (c->npasses == MAX_PASSES)
			return usage_error(c, "%s: too many", o->name);
		snprintf(name, sizeof name, "%.*s", (int)n, v);
		if (!(c->passes[c->npasses++] = pass_by_name(name)))
			return usage_error(
				c,
				"-p %s: there is no such pass; dlcc-opt --list-passes lists them",
				v);
	}
	return true;
}

bool set_dump(Cli *c, const Option *o, const char *v)
{
	if (!pass_by_name(v) && !dump_of_gpu(v))
		return value_error(c, o, v, "there is no such pass; dlcc --list-passes lists them");
	return set_text(c, o, v);
}

/* ---- Formats of numbers ---- */

/* The one of TYPES, which end with DT_NONE, whose name is the first N bytes of V; DT_NONE: none. */
static DType type_named(const char *v, size_t n, const DType *types)
{
	while (*types && (strlen(dtype_info[*types].name) != n ||
			  strncmp(dtype_info[*types].name, v, n) != 0))
		types++;
	return *types;
}

bool set_weights(Cli *c, const Option *o, const char *v)
{
	static const DType types[] = {DT_I4, DT_I8, DT_BF16, DT_F16, DT_NONE};
	const size_t n = strcspn(v, ":");
	const DType type = type_named(v, n, types);
	int group = type == DT_I4 ? DEFAULT_GROUP : 0;

	if (!type || (v[n] && type != DT_I4))
		return value_error(c, o, v, "write i4:GROUP, i4, i8, bf16 or f16");
	if (v[n] && (!isdigit((unsigned char)v[n + 1]) || !program_number(v + n + 1, &group) ||
		     !group || group % 8))
		return value_error(c, o, v, "a group is a multiple of 8 terms, from 8 to 1048576");
	if (c->weight_type && (c->weight_type != type || c->weight_group != group))
		return says_otherwise(c, o, v);
	c->weight_type = type;
	c->weight_group = group;
	return true;
}

bool set_activations(Cli *c, const Option *o, const char *v)
{
	static const DType types[] = {DT_I8, DT_BF16, DT_F16, DT_NONE};
	const DType type = type_named(v, strlen(v), types), earlier = c->half_activations;

	if (!type)
		return value_error(c, o, v, "write i8, bf16 or f16");
	if (type == DT_I8)
		c->int8_activations = true;
	else
		c->half_activations = type;
	return type == DT_I8 || !earlier || earlier == type || says_otherwise(c, o, v);
}

bool set_caches(Cli *c, const Option *o, const char *v)
{
	const DType type = caches_type(v), earlier = c->caches;

	if (!type)
		return value_error(c, o, v, "write f16, bf16 or i8");
	c->caches = type;
	return !earlier || earlier == type || says_otherwise(c, o, v);
}
