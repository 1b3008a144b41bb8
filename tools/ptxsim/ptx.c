/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ptxsim/ptx.h"

#include <string.h>

static const struct {
	const char *name;
	int size;
	char kind;
} types[N_TYPES] = {
	{"none", 0, 0},
#define TYPE(name, bytes, kind) {#name, bytes, kind},
#include "tools/ptxsim/types.def"
#undef TYPE
};

int type_size(Type t)
{
	return types[t].size;
}

char type_kind(Type t)
{
	return types[t].kind;
}

const char *type_name(Type t)
{
	return types[t].name;
}

Type type_named(const char *name)
{
	for (int t = 1; t < N_TYPES; t++)
		if (!strcmp(types[t].name, name))
			return (Type)t;
	return T_none;
}

Module *module_new(void)
{
	Arena *a = arena_new();
	Module *m = NEW(a, Module);

	m->arena = a;
	m->granule = 16;
	return m;
}

void module_free(Module *m)
{
	arena_free(m->arena);
}

Func *module_func(const Module *m, const char *name)
{
	for (int i = 0; i < m->funcs.n; i++)
		if (!strcmp(m->funcs.at[i]->name, name))
			return m->funcs.at[i];
	return NULL;
}

Var *module_var(const Module *m, const char *name)
{
	for (int i = 0; i < m->vars.n; i++)
		if (!strcmp(m->vars.at[i]->name, name))
			return m->vars.at[i];
	return NULL;
}

const char *module_line(const Module *m, int line, int *length)
{
	const char *s = line > 0 && line <= m->n_lines ? m->lines[line - 1] : "";

	s += strspn(s, " \t");
	*length = (int)strcspn(s, "\n\r");
	return s;
}
