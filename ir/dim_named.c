/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols that stand for long dims. */
#include "ir/dim_impl.h"

enum { LONG = 60 };

static void nesting(void *arg, Sym *s)
{
	*(int *)arg = s->nested > *(int *)arg ? s->nested : *(int *)arg;
}

Dim *dim_named(Ctx *c, Dim *d, const char *base)
{
	int nested = 0;
	Sym *s;

	if (d->size <= LONG)
		return d;
	for (int i = 0; i < sym_count(c); i++)
		if (sym_at(c, i)->def == d)
			return sym_at(c, i)->dim;
	dim_syms(d, nesting, &nested);
	if (nested >= DIM_MAX_DEPTH)
		return dim_too_complex(c);
	s = sym_fresh(c, base);
	s->nested = nested + 1;
	dim_bounds(c, d, &s->lo, &s->hi);
	s->def = d;
	return s->dim;
}

static void from_data(void *arg, Sym *s)
{
	*(bool *)arg = *(bool *)arg || sym_from_data(s);
}

bool sym_from_data(Sym *s)
{
	bool yes = s->src != NULL;

	if (!yes && s->def)
		dim_syms(s->def, from_data, &yes);
	return yes;
}
