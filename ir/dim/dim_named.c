/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols that abbreviate long dims. */
#include "ir/dim/dim_impl.h"

enum { LONG = 60 };

static int nesting_of(const Dim *d)
{
	int nested = 0;

	DIM_EACH_SYM (s, d)
		nested = s->nested > nested ? s->nested : nested;
	return nested;
}

Dim *dim_named(Ctx *c, Dim *d, const char *base)
{
	return d->size <= LONG ? d : dim_symbol(c, d, base);
}

void sym_define(Sym *s, Dim *d)
{
	s->nested = nesting_of(d) + 1;
	s->def = d;
	d->named = d->named ? d->named : s;
}

Dim *dim_symbol(Ctx *c, Dim *d, const char *base)
{
	int64_t lo, hi;
	Sym *s;

	if (dim_is_const(d, NULL) || dim_as_sym(d))
		return d;
	if (d->named)
		return d->named->dim;
	if (nesting_of(d) >= DIM_MAX_DEPTH)
		return dim_too_complex(c);
	s = sym_fresh(c, base);
	dim_bounds(c, d, &lo, &hi);
	sym_bound(c, s, lo, hi);
	sym_define(s, d);
	return s->dim;
}

bool dim_from_data(const Dim *d)
{
	DIM_EACH_SYM (s, d)
		if (sym_from_data(s))
			return true;
	return false;
}

bool sym_from_data(const Sym *s)
{
	return s->from_data || (s->def && dim_from_data(s->def));
}

bool dim_least(Ctx *c, const Dim *d, int64_t *v)
{
	const int n = sym_count(c);
	ARENA_LOCAL(tmp);
	int64_t *sym = NEW_ARRAY(tmp, n + 1, int64_t);

	for (int i = 0; i < n; i++)
		sym[i] = sym_at(c, i)->lo > 1 ? sym_at(c, i)->lo : 1;
	return dim_eval(d, sym, v);
}

int64_t *syms_sample(Ctx *c, Arena *a, int64_t want)
{
	const int n = sym_count(c);
	int64_t *v = NEW_ARRAY(a, n + 1, int64_t);

	for (int i = 0; i < n; i++) {
		const Sym *s = sym_at(c, i);

		v[i] = s->lo > want ? s->lo : s->hi < want ? s->hi : want;
	}
	/* A definition mentions symbols that are nested less deeply. */
	for (int depth = 1, any = 1; any; depth++) {
		any = 0;
		for (int i = 0; i < n; i++) {
			const Sym *s = sym_at(c, i);

			if (s->def && s->nested == depth && !dim_eval(s->def, v, &v[i]))
				v[i] = want;
			any |= s->def && s->nested > depth;
		}
	}
	return v;
}
