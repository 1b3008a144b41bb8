/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation of dims, substitution, and the symbols and parts that a dim consists of. */
#include "ir/dim/dim_impl.h"

#include <string.h>

#define DLRT_GENERATED 1 /* the arithmetic of sizes in generated code */
#include "runtime/dlrt.h"

/* ---- Evaluation ---- */

/* Sizes are computed as in generated code: in 128 bits, and values that are too large become
 * DL_WIDE_MAX. */
static dl_wide wide_eval(const Dim *d, const int64_t *sym);

static dl_wide wide_eval_atom(const Atom *a, const int64_t *sym)
{
	dl_wide v;

	if (a->kind == ATOM_SYM)
		return sym[a->sym->id];
	v = wide_eval(a->arg[0], sym);
	for (int i = 1; i < a->n; i++) {
		const dl_wide x = wide_eval(a->arg[i], sym);

		v = a->kind == ATOM_MIN   ? dl_wide_min(v, x)
		    : a->kind == ATOM_MAX ? dl_wide_max(v, x)
		    : a->kind == ATOM_ADD ? dl_wide_add(v, x)
		    : a->kind == ATOM_MUL ? dl_wide_mul(v, x)
					  : dl_wide_floordiv(v, x);
	}
	return v;
}

static dl_wide wide_eval(const Dim *d, const int64_t *sym)
{
	dl_wide sum = 0;

	for (int i = 0; i < d->n; i++) {
		dl_wide v = d->t[i].coef;

		for (int k = 0; k < d->t[i].n; k++) {
			const dl_wide x = wide_eval_atom(d->t[i].f[k].atom, sym);

			for (int p = 0; p < d->t[i].f[k].pow; p++)
				v = dl_wide_mul(v, x);
		}
		sum = dl_wide_add(sum, v);
	}
	return sum;
}

static bool narrow(dl_wide v, int64_t *out)
{
	*out = (int64_t)v;
	return v == *out;
}

bool atom_eval(const Atom *a, const int64_t *sym, int64_t *out)
{
	return narrow(wide_eval_atom(a, sym), out);
}

bool dim_eval(const Dim *d, const int64_t *sym, int64_t *out)
{
	return narrow(wide_eval(d, sym), out);
}

/* ---- Substitution ---- */

/* AGAIN: rebuilds every atom, even if none of its symbols is replaced. */
static Dim *rebuild(Ctx *c, Dim *d, Dim *const *to, int n, bool again);

static Dim *atom_rebuild(Ctx *c, Atom *a, Dim *const *to, int n, bool again)
{
	Dim *arg[DIM_MAX_ARGS];
	bool same = !again;

	if (a->kind == ATOM_SYM)
		return a->sym->id < n && to[a->sym->id] ? to[a->sym->id] : a->dim;
	for (int i = 0; i < a->n; i++) {
		arg[i] = rebuild(c, a->arg[i], to, n, again);
		same = same && arg[i] == a->arg[i];
	}
	if (same)
		return a->dim;
	switch (a->kind) {
	case ATOM_FLOOR: return dim_floordiv(c, arg[0], arg[1]);
	case ATOM_ADD: return dim_add(c, arg[0], arg[1]);
	case ATOM_MUL: return dim_mul(c, arg[0], arg[1]);
	default: return dim_extreme(c, a->kind, arg, a->n);
	}
}

static Dim *rebuild(Ctx *c, Dim *d, Dim *const *to, int n, bool again)
{
	Dim *sum = dim_const(c, 0);

	for (int i = 0; i < d->n; i++) {
		Dim *v = dim_const(c, d->t[i].coef);

		for (int k = 0; k < d->t[i].n; k++) {
			Dim *x = atom_rebuild(c, d->t[i].f[k].atom, to, n, again);

			for (int p = 0; p < d->t[i].f[k].pow; p++)
				v = dim_mul(c, v, x);
		}
		sum = dim_add(c, sum, v);
	}
	return sum;
}

Dim *dim_subst(Ctx *c, Dim *d, Dim *const *to, int n)
{
	return rebuild(c, d, to, n, false);
}

Dim *dim_refresh(Ctx *c, Dim *d)
{
	Dim *to[1] = {NULL};

	return d->depth ? rebuild(c, d, to, 0, true) : d;
}

/* ---- Parts ---- */

Sym *const *dim_syms(const Dim *d)
{
	static Sym *const none = NULL;

	return d ? d->syms : &none;
}

Sym *dim_as_sym(const Dim *d)
{
	Atom *a = d->n == 1 && d->t[0].coef == 1 ? term_atom(&d->t[0]) : NULL;

	return a && a->kind == ATOM_SYM ? a->sym : NULL;
}

static bool term_mentions(const Term *t, const Sym *s)
{
	for (int k = 0; k < t->n; k++)
		DIM_EACH_SYM (x, t->f[k].atom->dim)
			if (x == s)
				return true;
	return false;
}

bool dim_term(Ctx *c, const Dim *d, int i, int64_t *coef, Dim **mono)
{
	Term t;

	if (i >= d->n)
		return false;
	t = d->t[i];
	*coef = t.coef;
	t.coef = 1;
	*mono = dim_from_term(c, t);
	return true;
}

bool dim_as_floor(const Dim *d, Dim **a, Dim **b)
{
	Atom *floor = d->n == 1 && d->t[0].coef == 1 ? term_atom(&d->t[0]) : NULL;

	if (!floor || floor->kind != ATOM_FLOOR)
		return false;
	*a = floor->arg[0];
	*b = floor->arg[1];
	return true;
}

int dim_as_min(const Dim *d, Dim *const **arg)
{
	Atom *min = d->n == 1 && d->t[0].coef == 1 ? term_atom(&d->t[0]) : NULL;

	if (!min || min->kind != ATOM_MIN)
		return 0;
	*arg = min->arg;
	return min->n;
}

bool dim_may_cancel(const Dim *d)
{
	for (int i = 0; i < d->n; i++)
		if (d->n > 1 && d->t[i].degree > 1)
			return true;
	return false;
}

bool dim_linear_in(Ctx *c, Dim *d, Sym *s, int64_t *k, Dim **rest)
{
	int at = -1;

	for (int i = 0; i < d->n; i++) {
		Atom *a = term_atom(&d->t[i]);

		if (a && a->sym == s)
			at = i;
		else if (term_mentions(&d->t[i], s))
			return false;
	}
	if (at < 0)
		return false;
	*k = d->t[at].coef;
	return poly_add(c, d, -1, dim_from_term(c, d->t[at]), rest);
}
