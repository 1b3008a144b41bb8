/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols that abbreviate long dims. */
#include "ir/dim_impl.h"

enum { LONG = 60 };

static void nesting(void *arg, Sym *s)
{
	*(int *)arg = s->nested > *(int *)arg ? s->nested : *(int *)arg;
}

Dim *dim_named(Ctx *c, Dim *d, const char *base)
{
	int nested = 0;
	int64_t lo, hi;
	Sym *s;

	if (d->size <= LONG)
		return d;
	if (d->named)
		return d->named->dim;
	dim_syms(d, nesting, &nested);
	if (nested >= DIM_MAX_DEPTH)
		return dim_too_complex(c);
	s = sym_fresh(c, base);
	s->nested = nested + 1;
	dim_bounds(c, d, &lo, &hi);
	sym_bound(c, s, lo, hi);
	s->def = d;
	d->named = s;
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
