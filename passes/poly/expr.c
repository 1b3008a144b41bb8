/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, indices and conditions as isl's affine forms: monomials of sizes are parameters. */
#include "passes/poly/poly_impl.h"

const Split *poly_split_of(const Poly *p, const Iter *x)
{
	for (int i = 0; i < p->splits.n; i++)
		if (p->splits.at[i].x == x)
			return &p->splits.at[i];
	return NULL;
}

isl_set *poly_universe(Poly *p, int n)
{
	return isl_set_universe(isl_space_set_alloc(p->isl, 0, (unsigned)n));
}

/* ---- Sizes ---- */

static isl_id *param(Poly *p, Dim *mono)
{
	STRBUF_LOCAL(b);
	Param new = {mono, NULL};

	for (int i = 0; i < p->params.n; i++)
		if (p->params.at[i].mono == mono)
			return isl_id_copy(p->params.at[i].id);
	dim_print(&b, mono);
	new.id = isl_id_alloc(p->isl, strbuf_str(&b), mono);
	vec_push(p->arena, &p->params, new);
	p->opaque |= dim_has_opaque(mono);
	return isl_id_copy(new.id);
}

static isl_pw_aff *number(Poly *p, isl_space *space, int64_t v)
{
	return isl_pw_aff_val_on_domain(isl_set_universe(space), isl_val_int_from_si(p->isl, v));
}

static isl_pw_aff *size(Poly *p, isl_space *space, Dim *d)
{
	isl_pw_aff *sum = number(p, isl_space_copy(space), 0);
	int64_t coef;
	Dim *mono;

	for (int i = 0; dim_term(p->ctx, d, i, &coef, &mono); i++) {
		isl_pw_aff *t;

		if (dim_is_const(mono, NULL))
			t = number(p, isl_space_copy(space), coef);
		else
			t = isl_pw_aff_scale_val(
				isl_pw_aff_param_on_domain_id(
					isl_set_universe(isl_space_copy(space)), param(p, mono)),
				isl_val_int_from_si(p->isl, coef));
		sum = isl_pw_aff_add(sum, t);
	}
	isl_space_free(space);
	return sum;
}

static isl_set *le(isl_pw_aff *a, isl_pw_aff *b)
{
	return isl_pw_aff_le_set(a, b);
}

/* The minimum of N sizes equals one of them, and is at most each of them. */
static void min_facts(Poly *p, Dim *mono, Dim *const *arg, int n)
{
	isl_space *sp = isl_space_set_from_params(isl_space_params_alloc(p->isl, 0));
	isl_set *any = isl_set_empty(isl_space_copy(sp));

	for (int i = 0; i < n; i++) {
		p->context = isl_set_intersect(p->context, le(size(p, isl_space_copy(sp), mono),
							      size(p, isl_space_copy(sp), arg[i])));
		any = isl_set_union(any, le(size(p, isl_space_copy(sp), arg[i]),
					    size(p, isl_space_copy(sp), mono)));
	}
	p->context = isl_set_intersect(p->context, any);
	isl_space_free(sp);
}

/* The constraints on one parameter: its bounds, and the definition of a floor or minimum. */
static void param_facts(Poly *p, Dim *mono)
{
	isl_space *sp = isl_space_params_alloc(p->isl, 0);
	int64_t lo, hi, by;
	Dim *a, *b, *const *arg;
	const int n = dim_as_min(mono, &arg);

	dim_bounds(p->ctx, mono, &lo, &hi);
	sp = isl_space_set_from_params(sp);
	if (lo != -DIM_INF)
		p->context = isl_set_intersect(p->context, le(number(p, isl_space_copy(sp), lo),
							      size(p, isl_space_copy(sp), mono)));
	if (hi != DIM_INF)
		p->context = isl_set_intersect(p->context, le(size(p, isl_space_copy(sp), mono),
							      number(p, isl_space_copy(sp), hi)));
	if (dim_as_floor(mono, &a, &b) && dim_is_const(b, &by) && by > 0) {
		isl_pw_aff *rest = isl_pw_aff_sub(
			size(p, isl_space_copy(sp), a),
			isl_pw_aff_scale_val(size(p, isl_space_copy(sp), mono),
					     isl_val_int_from_si(p->isl, by)));

		p->context = isl_set_intersect(
			p->context, le(number(p, isl_space_copy(sp), 0), isl_pw_aff_copy(rest)));
		p->context = isl_set_intersect(p->context,
					       le(rest, number(p, isl_space_copy(sp), by - 1)));
	}
	isl_space_free(sp);
	if (n)
		min_facts(p, mono, arg, n);
}

/* E is a sum of multiples of N. */
static bool is_multiple(const Poly *p, const Expr *e, int64_t n)
{
	if (e->kind == EX_CONST)
		return e->i % n == 0;
	if (e->kind == EX_DIM)
		return dim_multiple(p->ctx, e->dim, n);
	if (ex_is_op(e, IN_mul))
		return is_multiple(p, e->op.arg[0], n) || is_multiple(p, e->op.arg[1], n);
	return (ex_is_op(e, IN_add) || ex_is_op(e, IN_sub)) && is_multiple(p, e->op.arg[0], n) &&
	       is_multiple(p, e->op.arg[1], n);
}

/* A number that rest R is a multiple of: its divisor, or a factor of that. */
static int64_t rest_step(const Poly *p, const Rest *r)
{
	const int64_t by = r->is->op.arg[1]->i;
	int64_t step = by;

	while (step > 1 && (by % step || !is_multiple(p, r->is->op.arg[0], step)))
		step /= 2;
	return step;
}

/* A rest is at least 0, less than its divisor, and a multiple of rest_step. */
static void rest_facts(Poly *p, const Rest *r)
{
	isl_space *sp = isl_space_set_from_params(isl_space_params_alloc(p->isl, 0));
	isl_pw_aff *x = isl_pw_aff_param_on_domain_id(isl_set_universe(isl_space_copy(sp)),
						      isl_id_copy(r->id)),
		   *multiple = isl_pw_aff_mod_val(isl_pw_aff_copy(x),
						  isl_val_int_from_si(p->isl, rest_step(p, r)));

	p->context = isl_set_intersect(p->context,
				       le(number(p, isl_space_copy(sp), 0), isl_pw_aff_copy(x)));
	p->context = isl_set_intersect(
		p->context, isl_pw_aff_eq_set(multiple, number(p, isl_space_copy(sp), 0)));
	p->context = isl_set_intersect(p->context, le(x, number(p, sp, r->is->op.arg[1]->i - 1)));
}

isl_set *poly_context(Poly *p)
{
	enum { PAIRS = 10 };

	if (p->context && p->ncontext == p->params.n + p->rests.n)
		return isl_set_copy(p->context);
	isl_set_free(p->context);
	p->context = poly_universe(p, 0);
	for (int i = 0; i < p->params.n; i++) /* p->params grows in this loop */
		param_facts(p, p->params.at[i].mono);
	for (int i = 0; i < p->rests.n; i++)
		rest_facts(p, &p->rests.at[i]);
	for (int i = 0; i < p->params.n && i < PAIRS; i++)
		for (int j = 0; j < p->params.n && j < PAIRS; j++)
			if (i != j &&
			    dim_prove_le(p->ctx, p->params.at[i].mono, p->params.at[j].mono)) {
				isl_space *sp = isl_space_set_from_params(
					isl_space_params_alloc(p->isl, 0));
				isl_pw_aff *a = size(p, isl_space_copy(sp), p->params.at[i].mono);

				p->context = isl_set_intersect(
					p->context, le(a, size(p, sp, p->params.at[j].mono)));
			}
	p->context = isl_set_params(p->context);
	p->ncontext = p->params.n + p->rests.n;
	return isl_set_copy(p->context);
}

/* ---- Sizes that exist ---- */

/*
 * A product or quotient of sizes is a parameter beside them, and isl does not know how they depend
 * on each other: a set may have points where D = 0 and D*x = 1. So sizes are tried, first the same
 * for all symbols and then pseudo-random ones.
 */
typedef struct Trial {
	int64_t *value; /* by Sym.id */
	uint64_t seed;
	int64_t all; /* the value of every symbol, or -1 */
	int last;    /* the largest Sym.id */
} Trial;

static void give_size(Trial *t, const Sym *s)
{
	static const int64_t sizes[] = {0,  1,  2,  3,  4,  5,   7,   8,   13,  16,   31,
					32, 33, 64, 65, 96, 127, 128, 257, 512, 1025, 4097};
	const int n = (int)(sizeof(sizes) / sizeof(*sizes));
	int64_t *v = &t->value[s->id];

	if (*v >= 0)
		return;
	t->seed = t->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	*v = t->all >= 0 ? t->all : sizes[(t->seed >> 33) % (uint64_t)n];
	*v = *v < s->lo ? s->lo : *v > s->hi ? s->hi : *v;
	DIM_EACH_SYM (of, s->def) /* these are older, so that they have smaller numbers */
		give_size(t, of);
	if (s->def && !dim_eval(s->def, t->value, v))
		*v = s->lo;
}

/* SET at the sizes of a trial. */
static isl_set *at_sizes(const Poly *p, isl_set *set, const Trial *t)
{
	for (int i = 0; i < p->params.n; i++) {
		const int at = isl_set_find_dim_by_id(set, isl_dim_param, p->params.at[i].id);
		int64_t v;

		if (at >= 0 && dim_eval(p->params.at[i].mono, t->value, &v))
			set = isl_set_fix_val(set, isl_dim_param, (unsigned)at,
					      isl_val_int_from_si(p->isl, v));
	}
	return set;
}

/* SET (taken), a set of parameters that is not empty, has a point at some trial's sizes. */
static bool has_sizes(Poly *p, isl_set *set)
{
	enum { ALIKE = 4, TRIALS = 400 };
	Trial t = {.seed = 1};
	bool relaxed = false, found = false;

	for (int i = 0; i < p->params.n; i++) {
		relaxed = relaxed || !dim_as_sym(p->params.at[i].mono);
		DIM_EACH_SYM (s, p->params.at[i].mono)
			t.last = s->id > t.last ? s->id : t.last;
	}
	t.value = NEW_ARRAY(p->arena, t.last + 1, int64_t);
	for (int k = 0; k < TRIALS && relaxed && !found; k++) {
		isl_set *one;

		t.all = k < ALIKE ? k : -1;
		for (int i = 0; i <= t.last; i++)
			t.value[i] = -1;
		for (int i = 0; i < p->params.n; i++)
			DIM_EACH_SYM (s, p->params.at[i].mono)
				give_size(&t, s);
		one = at_sizes(p, isl_set_copy(set), &t);
		found = isl_set_is_empty(one) == isl_bool_false;
		isl_set_free(one);
	}
	isl_set_free(set);
	return found || !relaxed;
}

bool poly_empty(Poly *p, isl_set *s)
{
	bool empty;

	s = isl_set_intersect_params(s, poly_context(p));
	empty = isl_set_is_empty(s) != isl_bool_false;
	if (!empty && !has_sizes(p, isl_set_params(isl_set_copy(s)))) {
		poly_unproved(p, "what holds at sizes of which none was found");
		empty = true;
	}
	isl_set_free(s);
	return empty;
}

bool poly_no_pair(Poly *p, isl_map *m)
{
	return poly_empty(p, isl_map_wrap(m));
}

/* ---- Indices ---- */

static isl_space *space_of(Poly *p, const SetDims *s)
{
	return isl_space_set_alloc(p->isl, 0, (unsigned)s->n);
}

static isl_pw_aff *iterator(Poly *p, const SetDims *s, const Iter *it);

/* An iterator that is part of a div/mod split of a flat one. */
static isl_pw_aff *part_of_flat(Poly *p, const SetDims *s, const Iter *it)
{
	isl_pw_aff *a;
	int64_t by, mod;

	VEC_EACH_AT (d, &p->divmods) {
		if (d->it != it || !dim_is_const(d->by, &by) || by <= 0 ||
		    (d->mod && (!dim_is_const(d->mod, &mod) || mod <= 0)))
			continue;
		a = iterator(p, s, d->flat);
		if (a)
			a = isl_pw_aff_floor(
				isl_pw_aff_scale_down_val(a, isl_val_int_from_si(p->isl, by)));
		return a && d->mod ? isl_pw_aff_mod_val(a, isl_val_int_from_si(p->isl, mod)) : a;
	}
	return NULL;
}

static isl_pw_aff *iterator(Poly *p, const SetDims *s, const Iter *it)
{
	const Split *split = poly_split_of(p, it);
	isl_pw_aff *q, *r;
	int64_t n;

	for (int i = 0; i < s->n; i++)
		if (s->it[i] == it)
			return isl_pw_aff_from_aff(
				isl_aff_var_on_domain(isl_local_space_from_space(space_of(p, s)),
						      isl_dim_set, (unsigned)i));
	if (!split)
		return part_of_flat(p, s, it);
	if (!dim_is_const(split->n, &n))
		return NULL;
	q = iterator(p, s, split->q);
	r = iterator(p, s, split->r);
	if (q && r)
		return isl_pw_aff_add(isl_pw_aff_scale_val(q, isl_val_int_from_si(p->isl, n)), r);
	isl_pw_aff_free(q);
	isl_pw_aff_free(r);
	return NULL;
}

static bool positive_const(const Expr *e, int64_t *v)
{
	if (e->kind == EX_CONST)
		*v = e->i;
	return e->kind == EX_CONST && *v > 0;
}

static isl_pw_aff *product(isl_pw_aff *a, isl_pw_aff *b)
{
	if (isl_pw_aff_is_cst(a) == isl_bool_true || isl_pw_aff_is_cst(b) == isl_bool_true)
		return isl_pw_aff_mul(a, b);
	isl_pw_aff_free(a);
	isl_pw_aff_free(b);
	return NULL;
}

static isl_pw_aff *combined(Inst i, isl_pw_aff *a, isl_pw_aff *b)
{
	switch ((int)i) {
	case IN_add: return isl_pw_aff_add(a, b);
	case IN_sub: return isl_pw_aff_sub(a, b);
	case IN_min: return isl_pw_aff_min(a, b);
	case IN_max: return isl_pw_aff_max(a, b);
	case IN_mul: return product(a, b);
	default:
		isl_pw_aff_free(a);
		isl_pw_aff_free(b);
		return NULL;
	}
}

static isl_pw_aff *selected(Poly *p, const SetDims *s, Expr *e)
{
	isl_set *c = poly_cond(p, s, e->op.arg[0]);
	isl_pw_aff *a = c ? poly_aff(p, s, e->op.arg[1]) : NULL,
		   *b = a ? poly_aff(p, s, e->op.arg[2]) : NULL;

	if (b)
		return isl_pw_aff_cond(isl_set_indicator_function(c), a, b);
	isl_set_free(c);
	isl_pw_aff_free(a);
	return NULL;
}

/* The parameter for E, which is X mod C and not affine, in the current execution; null if there is
 * none. */
static isl_pw_aff *rest(Poly *p, const SetDims *s, Expr *e)
{
	Rest new = {p->reads, e, NULL};
	int i = 0;

	if (!p->reads)
		return NULL;
	while (i < p->rests.n && (p->rests.at[i].of != p->reads || p->rests.at[i].is != e))
		i++;
	if (i == p->rests.n) {
		new.id = isl_id_alloc(p->isl, arena_printf(p->arena, "rest%d", i), e);
		vec_push(p->arena, &p->rests, new);
	}
	return isl_pw_aff_param_on_domain_id(isl_set_universe(space_of(p, s)),
					     isl_id_copy(p->rests.at[i].id));
}

isl_pw_aff *poly_aff(Poly *p, const SetDims *s, Expr *e)
{
	isl_pw_aff *a, *b;
	int64_t v;

	if (e->kind == EX_CONST)
		return number(p, space_of(p, s), e->i);
	if (e->kind == EX_DIM)
		return size(p, space_of(p, s), e->dim);
	if (e->kind == EX_ITER)
		return iterator(p, s, e->iter);
	if (e->kind != EX_INST || e->ct != CT_I64)
		return NULL;
	if (e->op.inst == IN_select)
		return selected(p, s, e);
	if (e->op.n > 2)
		return NULL;
	a = poly_aff(p, s, e->op.arg[0]);
	if (!a)
		return e->op.inst == IN_mod && positive_const(e->op.arg[1], &v) ? rest(p, s, e)
										: NULL;
	if (e->op.inst == IN_neg)
		return isl_pw_aff_neg(a);
	if (e->op.n == 2 && (e->op.inst == IN_floordiv || e->op.inst == IN_mod) &&
	    positive_const(e->op.arg[1], &v))
		return e->op.inst == IN_mod ? isl_pw_aff_mod_val(a, isl_val_int_from_si(p->isl, v))
					    : isl_pw_aff_floor(isl_pw_aff_scale_down_val(
						      a, isl_val_int_from_si(p->isl, v)));
	b = e->op.n == 2 ? poly_aff(p, s, e->op.arg[1]) : NULL;
	if (b)
		return combined(e->op.inst, a, b);
	isl_pw_aff_free(a);
	return NULL;
}

/* ---- Conditions ---- */

static isl_set *compared(Inst i, isl_pw_aff *a, isl_pw_aff *b)
{
	switch ((int)i) {
	case IN_lt: return isl_pw_aff_lt_set(a, b);
	case IN_le: return isl_pw_aff_le_set(a, b);
	case IN_gt: return isl_pw_aff_gt_set(a, b);
	case IN_ge: return isl_pw_aff_ge_set(a, b);
	case IN_eq: return isl_pw_aff_eq_set(a, b);
	case IN_ne: return isl_pw_aff_ne_set(a, b);
	default:
		isl_pw_aff_free(a);
		isl_pw_aff_free(b);
		return NULL;
	}
}

isl_set *poly_cond(Poly *p, const SetDims *s, Expr *e)
{
	if (e->kind == EX_CONST)
		return e->i ? poly_universe(p, s->n) : isl_set_empty(space_of(p, s));
	if (e->kind != EX_INST)
		return NULL;
	if (e->op.inst == IN_and || e->op.inst == IN_or) {
		isl_set *a = poly_cond(p, s, e->op.arg[0]),
			*b = a ? poly_cond(p, s, e->op.arg[1]) : NULL;

		if (b)
			return e->op.inst == IN_and ? isl_set_intersect(a, b) : isl_set_union(a, b);
		isl_set_free(a);
		return NULL;
	}
	if (e->op.inst == IN_not) {
		isl_set *a = poly_cond(p, s, e->op.arg[0]);

		return a ? isl_set_complement(a) : NULL;
	}
	if (e->op.n == 2 && e->op.arg[0]->ct == CT_I64) {
		isl_pw_aff *a = poly_aff(p, s, e->op.arg[0]),
			   *b = a ? poly_aff(p, s, e->op.arg[1]) : NULL;

		if (b)
			return compared(e->op.inst, a, b);
		isl_pw_aff_free(a);
	}
	return NULL;
}

int poly_guard(Poly *p, const SetDims *s, isl_set **set, Expr *guard)
{
	isl_set *c;

	if (!guard)
		return 0;
	if (guard->kind == EX_INST && guard->op.inst == IN_and && guard->ct == CT_BOOL)
		return poly_guard(p, s, set, guard->op.arg[0]) +
		       poly_guard(p, s, set, guard->op.arg[1]);
	c = poly_cond(p, s, guard);
	if (c)
		*set = isl_set_intersect(*set, c);
	return c ? 0 : 1;
}

static bool cut(Poly *p, const SetDims *s, isl_set **set, Expr *e, Expr *bound, Inst rel)
{
	isl_pw_aff *a = poly_aff(p, s, e), *b = a ? poly_aff(p, s, bound) : NULL;

	if (!b) {
		isl_pw_aff_free(a);
		return false;
	}
	*set = isl_set_intersect(*set, compared(rel, a, isl_pw_aff_coalesce(b)));
	return true;
}

bool poly_at_least(Poly *p, const SetDims *s, isl_set **set, Expr *e, Expr *lo)
{
	if (lo->kind == EX_INST && lo->op.inst == IN_max) {
		bool a = poly_at_least(p, s, set, e, lo->op.arg[0]);

		return poly_at_least(p, s, set, e, lo->op.arg[1]) && a;
	}
	return cut(p, s, set, e, lo, IN_ge);
}

bool poly_below(Poly *p, const SetDims *s, isl_set **set, Expr *e, Expr *hi, int *odd)
{
	isl_set *c, *yes, *no;
	bool ok;

	if (hi->kind == EX_INST && hi->op.inst == IN_min) {
		ok = poly_below(p, s, set, e, hi->op.arg[0], odd);
		return poly_below(p, s, set, e, hi->op.arg[1], odd) && ok;
	}
	if (hi->kind != EX_INST || hi->op.inst != IN_select)
		return cut(p, s, set, e, hi, IN_lt);
	c = poly_cond(p, s, hi->op.arg[0]);
	if (!c) {
		++*odd;
		return poly_below(p, s, set, e, hi->op.arg[1], odd);
	}
	yes = isl_set_intersect(isl_set_copy(*set), isl_set_copy(c));
	no = isl_set_subtract(*set, c);
	ok = poly_below(p, s, &yes, e, hi->op.arg[1], odd);
	ok = poly_below(p, s, &no, e, hi->op.arg[2], odd) && ok;
	*set = isl_set_union(yes, no);
	return ok;
}

isl_map *poly_map(Poly *p, const SetDims *s, isl_set *set, Expr *const *e, int n, int *odd)
{
	isl_map *m = isl_map_from_domain(set);

	for (int i = 0; i < n; i++) {
		isl_pw_aff *a = poly_aff(p, s, e[i]);
		isl_map *one;

		*odd += !a;
		one = a ? isl_map_from_pw_aff(a)
			: isl_map_universe(isl_space_alloc(p->isl, 0, (unsigned)s->n, 1));
		m = isl_map_flat_range_product(m, one);
	}
	return m;
}
