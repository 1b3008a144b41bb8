/* SPDX-License-Identifier: Apache-2.0 */
/* Dims: symbols, the table of atoms and dims, and polynomial arithmetic. */
#include "ir/dim.h"

#include "base/vec.h"
#include "ir/dim_impl.h"

#include <assert.h>
#include <string.h>

typedef struct Table {
	void **slot;
	int n, cap;
} Table;

struct DimTable {
	VEC(Sym *) syms;
	Table dims, atoms, names;
	bool too_complex; /* said once */
};

struct DimTable *dim_table_new(Ctx *c)
{
	return NEW(c->arena, struct DimTable);
}

/* ---- Hash tables ---- */

typedef uint64_t (*HashOf)(const void *p);

static uint64_t dim_hash(const void *p)
{
	return ((const Dim *)p)->hash;
}
static uint64_t atom_hash(const void *p)
{
	return ((const Atom *)p)->hash;
}
static uint64_t name_hash(const void *p)
{
	const char *s = ((const Sym *)p)->name;

	return hash_bytes(HASH_SEED, s, strlen(s));
}

static void table_put(Table *t, HashOf of, void *p)
{
	size_t mask = (size_t)t->cap - 1, i = of(p) & mask;

	while (t->slot[i])
		i = (i + 1) & mask;
	t->slot[i] = p;
}

static void table_insert(Arena *a, Table *t, HashOf of, void *p)
{
	if ((t->n + 1) * 2 > t->cap) {
		Table old = *t;

		t->cap = old.cap ? old.cap * 2 : 64;
		t->slot = NEW_ARRAY(a, t->cap, void *);
		for (int i = 0; i < old.cap; i++)
			if (old.slot[i])
				table_put(t, of, old.slot[i]);
	}
	table_put(t, of, p);
	t->n++;
}

/* ---- Symbols ---- */

int sym_count(const Ctx *c)
{
	return c->dims->syms.n;
}

Sym *sym_at(const Ctx *c, int id)
{
	assert(id >= 0 && id < c->dims->syms.n);
	return c->dims->syms.at[id];
}

static Sym *sym_find(Ctx *c, const char *name)
{
	Table *t = &c->dims->names;
	size_t mask = (size_t)t->cap - 1;

	if (!t->cap)
		return NULL;
	for (size_t i = hash_bytes(HASH_SEED, name, strlen(name)) & mask; t->slot[i];
	     i = (i + 1) & mask)
		if (((Sym *)t->slot[i])->name == name)
			return t->slot[i];
	return NULL;
}

static Atom *atom_new(Ctx *c, const Atom *like);

Sym *sym_get(Ctx *c, const char *name)
{
	const char *own = ctx_name(c, name);
	Sym *s = sym_find(c, own);
	Atom a = {.kind = ATOM_SYM, .size = 1};

	if (s)
		return s;
	s = NEW(c->arena, Sym);
	*s = (Sym){.name = own, .id = c->dims->syms.n, .lo = 0, .hi = DIM_INF};
	vec_push(c->arena, &c->dims->syms, s);
	table_insert(c->arena, &c->dims->names, name_hash, s);
	a.sym = s;
	a.hash = name_hash(s);
	s->dim = atom_new(c, &a)->dim;
	return s;
}

Sym *sym_fresh(Ctx *c, const char *base)
{
	const char *name = ctx_name(c, base);

	for (int k = 2; sym_find(c, name); k++)
		name = ctx_name(c, arena_printf(c->arena, "%s_%d", base, k));
	return sym_get(c, name);
}

/* ---- Order ---- */

int atom_cmp(const Atom *a, const Atom *b)
{
	if (a == b)
		return 0;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->kind == ATOM_SYM)
		return strcmp(a->sym->name, b->sym->name);
	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	for (int i = 0; i < a->n; i++) {
		int k = dim_cmp(a->arg[i], b->arg[i]);

		if (k)
			return k;
	}
	return 0;
}

int term_cmp(const Term *a, const Term *b)
{
	if (a->degree != b->degree)
		return a->degree - b->degree;
	for (int i = 0; i < a->n && i < b->n; i++) {
		int k = atom_cmp(a->f[i].atom, b->f[i].atom);

		if (k)
			return -k;
		if (a->f[i].pow != b->f[i].pow)
			return a->f[i].pow - b->f[i].pow;
	}
	return a->n - b->n;
}

/* Constants count last, so that adding one keeps the order of dims that differ elsewhere. */
int dim_cmp(const Dim *a, const Dim *b)
{
	int64_t ka = dim_const_part(a), kb = dim_const_part(b);
	int na = a->n - (a->n && !a->t[a->n - 1].n), nb = b->n - (b->n && !b->t[b->n - 1].n);

	if (a == b)
		return 0;
	for (int i = 0; i < na && i < nb; i++) {
		int k = term_cmp(&a->t[i], &b->t[i]);

		if (k)
			return -k;
		if (a->t[i].coef != b->t[i].coef)
			return a->t[i].coef < b->t[i].coef ? -1 : 1;
	}
	if (na != nb)
		return na < nb ? 1 : -1;
	return ka < kb ? -1 : ka > kb;
}

/* ---- Interning ---- */

static uint64_t mix(uint64_t h, uint64_t v)
{
	return hash_bytes(h, &v, sizeof v);
}

static bool terms_equal(const Term *a, const Term *b, int n)
{
	for (int i = 0; i < n; i++) {
		if (a[i].coef != b[i].coef || a[i].n != b[i].n)
			return false;
		for (int k = 0; k < a[i].n; k++)
			if (a[i].f[k].atom != b[i].f[k].atom || a[i].f[k].pow != b[i].f[k].pow)
				return false;
	}
	return true;
}

static uint64_t terms_hash(const Term *t, int n)
{
	uint64_t h = HASH_SEED;

	for (int i = 0; i < n; i++) {
		h = mix(h, (uint64_t)t[i].coef);
		for (int k = 0; k < t[i].n; k++)
			h = mix(mix(h, t[i].f[k].atom->hash), (uint64_t)t[i].f[k].pow);
	}
	return h;
}

Dim *dim_too_complex(Ctx *c)
{
	if (!c->dims->too_complex && c->diag)
		diag_error(c->diag, (DiagLoc){0}, "a size grows too complex to be followed");
	c->dims->too_complex = true;
	return sym_get(c, "too_complex")->dim;
}

Dim *dim_make(Ctx *c, const Term *t, int n)
{
	uint64_t h = terms_hash(t, n);
	Table *tab = &c->dims->dims;
	Dim *d, like = {.hash = h, .n = n, .size = n ? 0 : 1};

	for (size_t mask = (size_t)tab->cap - 1, i = h & mask; tab->cap && tab->slot[i];
	     i = (i + 1) & mask) {
		d = tab->slot[i];
		if (d->hash == h && d->n == n && terms_equal(d->t, t, n))
			return d;
	}
	for (int i = 0; i < n; i++) {
		like.size++;
		for (int k = 0; k < t[i].n; k++) {
			const Atom *a = t[i].f[k].atom;

			like.size += a->kind == ATOM_SYM ? a->size : a->size * t[i].f[k].pow;
			like.depth = a->depth > like.depth ? a->depth : like.depth;
			if (like.size > DIM_MAX_SIZE)
				return dim_too_complex(c);
		}
	}
	d = arena_copy(c->arena, &like, sizeof like);
	d->t = arena_copy(c->arena, t, (size_t)n * sizeof *t);
	for (int i = 0; i < n; i++)
		d->t[i].f = arena_copy(c->arena, t[i].f, (size_t)t[i].n * sizeof(Factor));
	table_insert(c->arena, tab, dim_hash, d);
	return d;
}

Dim *dim_from_term(Ctx *c, Term t)
{
	return dim_make(c, &t, t.coef ? 1 : 0);
}

static Atom *atom_new(Ctx *c, const Atom *like)
{
	Atom *a = arena_copy(c->arena, like, sizeof *like);
	Factor f = {a, 1};

	a->arg = arena_copy(c->arena, like->arg, (size_t)like->n * sizeof(Dim *));
	table_insert(c->arena, &c->dims->atoms, atom_hash, a);
	a->dim = dim_from_term(c, (Term){1, 1, 1, &f});
	return a;
}

Dim *dim_atom(Ctx *c, AtomKind kind, Dim *const *arg, int n)
{
	Atom like = {.kind = kind,
		     .n = n,
		     .size = 1,
		     .hash = mix(HASH_SEED, kind),
		     .arg = (Dim **)(uintptr_t)arg};
	Table *t = &c->dims->atoms;
	size_t mask = (size_t)t->cap - 1;
	Dim *sum = dim_const(c, 0);

	for (int i = 0; i < n; i++) {
		like.hash = mix(like.hash, arg[i]->hash);
		like.depth = arg[i]->depth >= like.depth ? arg[i]->depth + 1 : like.depth;
		like.size += arg[i]->size;
	}
	for (size_t i = like.hash & mask; t->cap && t->slot[i]; i = (i + 1) & mask) {
		Atom *a = t->slot[i];

		if (a->hash == like.hash && a->kind == kind && a->n == n &&
		    !memcmp(a->arg, arg, (size_t)n * sizeof *arg))
			return a->dim;
	}
	if (like.depth > DIM_MAX_DEPTH || like.size > DIM_MAX_SIZE)
		return dim_too_complex(c);
	like.fixed_sum = true;
	for (int i = 0; i < n && like.fixed_sum; i++)
		like.fixed_sum = poly_add(c, sum, 1, arg[i], &sum);
	like.fixed_sum = like.fixed_sum && dim_is_const(sum, &like.sum);
	return atom_new(c, &like)->dim;
}

/* ---- Polynomials ---- */

Dim *dim_const(Ctx *c, int64_t v)
{
	Factor none;

	return dim_from_term(c, (Term){v, 0, 0, &none});
}

bool dim_is_const(const Dim *d, int64_t *v)
{
	if (d->n > 1 || (d->n == 1 && d->t[0].n))
		return false;
	if (v)
		*v = d->n ? d->t[0].coef : 0;
	return true;
}

bool dim_equals(const Dim *d, int64_t v)
{
	int64_t k;

	return dim_is_const(d, &k) && k == v;
}

int64_t dim_const_part(const Dim *d)
{
	return d->n && !d->t[d->n - 1].n ? d->t[d->n - 1].coef : 0;
}

bool poly_add(Ctx *c, const Dim *a, int64_t k, const Dim *b, Dim **out)
{
	Term t[DIM_MAX_TERMS * 2];
	int n = 0, i = 0, j = 0;

	while (i < a->n || j < b->n) {
		int64_t v = 0;
		int order = i == a->n ? -1 : j == b->n ? 1 : term_cmp(&a->t[i], &b->t[j]);

		t[n] = order >= 0 ? a->t[i] : b->t[j];
		if (order <= 0 && __builtin_mul_overflow(b->t[j].coef, k, &v))
			return false;
		if (order >= 0 && __builtin_add_overflow(v, a->t[i].coef, &v))
			return false;
		t[n].coef = v;
		n += v != 0;
		i += order >= 0;
		j += order <= 0;
	}
	if (n > DIM_MAX_TERMS)
		return false;
	*out = dim_make(c, t, n);
	return true;
}

static bool term_mul(const Term *a, const Term *b, Term *out)
{
	int n = 0, i = 0, j = 0;

	if (a->n + b->n > DIM_MAX_FACTORS || __builtin_mul_overflow(a->coef, b->coef, &out->coef))
		return false;
	while (i < a->n || j < b->n) {
		int order = i == a->n ? 1 : j == b->n ? -1 : atom_cmp(a->f[i].atom, b->f[j].atom);
		Factor f = order <= 0 ? a->f[i] : b->f[j];

		if (!order)
			f.pow += b->f[j].pow;
		if (f.pow > DIM_MAX_POW)
			return false;
		out->f[n++] = f;
		i += order <= 0;
		j += order >= 0;
	}
	out->n = n;
	out->degree = a->degree + b->degree;
	return true;
}

bool poly_mul_term(Ctx *c, const Dim *a, const Term *t, Dim **out)
{
	Term to[DIM_MAX_TERMS];
	Factor f[DIM_MAX_TERMS][DIM_MAX_FACTORS];

	for (int i = 0; i < a->n; i++) {
		to[i].f = f[i];
		if (!term_mul(&a->t[i], t, &to[i]))
			return false;
	}
	*out = dim_make(c, to, t->coef ? a->n : 0);
	return true;
}

bool poly_mul(Ctx *c, const Dim *a, const Dim *b, Dim **out)
{
	Dim *sum = dim_const(c, 0), *part;
	int64_t k;

	if (dim_is_const(a, &k))
		return poly_add(c, sum, k, b, out);
	if (dim_is_const(b, &k))
		return poly_add(c, sum, k, a, out);
	if (a->n * b->n > DIM_MAX_TERMS ||
	    ((a->n > 1 || b->n > 1) && a->n * b->size + b->n * a->size > DIM_MAX_PRODUCT))
		return false;
	for (int j = 0; j < b->n; j++)
		if (!poly_mul_term(c, a, &b->t[j], &part) || !poly_add(c, sum, 1, part, &sum))
			return false;
	*out = sum;
	return true;
}

/* The term without the atom, and the atom's power. */
static int term_without(const Term *t, const Atom *a, Term *out, Factor *f)
{
	int pow = 0;

	*out = (Term){t->coef, 0, 0, f};
	for (int k = 0; k < t->n; k++) {
		if (t->f[k].atom == a) {
			pow = t->f[k].pow;
			continue;
		}
		out->f[out->n++] = t->f[k];
		out->degree += t->f[k].pow;
	}
	return pow;
}

bool poly_replace(Ctx *c, const Dim *d, const Atom *a, const Dim *with, Dim **out)
{
	Dim *sum = dim_const(c, 0), *part;
	Factor f[DIM_MAX_FACTORS];
	Term rest;

	for (int i = 0; i < d->n; i++) {
		int pow = term_without(&d->t[i], a, &rest, f);

		if (pow > 4)
			return false;
		part = dim_from_term(c, rest);
		for (int k = 0; k < pow; k++)
			if (!poly_mul(c, part, with, &part))
				return false;
		if (!poly_add(c, sum, 1, part, &sum))
			return false;
	}
	*out = sum;
	return true;
}

/* The opaque sum or product, with the greater operand first. */
static Dim *opaque(Ctx *c, AtomKind kind, Dim *a, Dim *b)
{
	Dim *arg[2] = {a, b};

	if (dim_cmp(a, b) > 0)
		arg[0] = b, arg[1] = a;
	return dim_atom(c, kind, arg, 2);
}

Dim *dim_add(Ctx *c, Dim *a, Dim *b)
{
	Dim *out;

	return poly_add(c, a, 1, b, &out) ? out : opaque(c, ATOM_ADD, a, b);
}

Dim *dim_mul(Ctx *c, Dim *a, Dim *b)
{
	Dim *out;

	if (dim_equals(a, 0) || dim_equals(b, 0))
		return dim_const(c, 0);
	return poly_mul(c, a, b, &out) ? out : opaque(c, ATOM_MUL, a, b);
}

Dim *dim_sub(Ctx *c, Dim *a, Dim *b)
{
	Dim *out;

	return poly_add(c, a, -1, b, &out) ? out : dim_add(c, a, dim_mul(c, dim_const(c, -1), b));
}

/* ---- Evaluation, substitution, symbols ---- */

static bool atom_eval(const Atom *a, const int64_t *sym, int64_t *out)
{
	int64_t v[2] = {0, 0}, x;

	if (a->kind == ATOM_SYM) {
		*out = sym[a->sym->id];
		return true;
	}
	for (int i = 0; i < a->n; i++) {
		if (!dim_eval(a->arg[i], sym, &x))
			return false;
		if (a->kind == ATOM_MIN || a->kind == ATOM_MAX)
			v[0] = !i || (a->kind == ATOM_MIN ? x < v[0] : x > v[0]) ? x : v[0];
		else
			v[i] = x;
	}
	*out = v[0];
	if (a->kind == ATOM_ADD)
		return !__builtin_add_overflow(v[0], v[1], out);
	if (a->kind == ATOM_MUL)
		return !__builtin_mul_overflow(v[0], v[1], out);
	if (a->kind == ATOM_FLOOR) {
		if (v[0] == INT64_MIN && v[1] == -1)
			return false;
		*out = v[1] ? int_floordiv(v[0], v[1]) : 0;
	}
	return true;
}

bool dim_eval(const Dim *d, const int64_t *sym, int64_t *out)
{
	int64_t sum = 0;

	for (int i = 0; i < d->n; i++) {
		int64_t v = d->t[i].coef, x;

		for (int k = 0; k < d->t[i].n; k++) {
			if (!atom_eval(d->t[i].f[k].atom, sym, &x))
				return false;
			for (int p = 0; p < d->t[i].f[k].pow; p++)
				if (__builtin_mul_overflow(v, x, &v))
					return false;
		}
		if (__builtin_add_overflow(sum, v, &sum))
			return false;
	}
	*out = sum;
	return true;
}

/* AGAIN: atoms are normalised anew even where no symbol in them is replaced. */
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

typedef struct SymList {
	Sym *at[DIM_MAX_SIZE];
	int n;
} SymList;

/* Keeps the list in id order. */
static void collect(const Dim *d, SymList *l)
{
	for (int i = 0; i < d->n; i++) {
		for (int k = 0; k < d->t[i].n; k++) {
			const Atom *a = d->t[i].f[k].atom;
			int at = l->n;

			for (int j = 0; j < a->n; j++)
				collect(a->arg[j], l);
			if (a->kind != ATOM_SYM)
				continue;
			for (at = l->n; at && l->at[at - 1]->id > a->sym->id;)
				at--;
			if (at && l->at[at - 1] == a->sym)
				continue;
			memmove(l->at + at + 1, l->at + at, (size_t)(l->n - at) * sizeof l->at[0]);
			l->at[at] = a->sym;
			l->n++;
		}
	}
}

void dim_syms(const Dim *d, void (*fn)(void *arg, Sym *s), void *arg)
{
	SymList l;

	l.n = 0;
	collect(d, &l);
	for (int i = 0; i < l.n; i++)
		fn(arg, l.at[i]);
}

Sym *dim_as_sym(const Dim *d)
{
	Atom *a = d->n == 1 && d->t[0].coef == 1 ? term_atom(&d->t[0]) : NULL;

	return a && a->kind == ATOM_SYM ? a->sym : NULL;
}

static bool term_mentions(const Term *t, const Sym *s)
{
	for (int k = 0; k < t->n; k++) {
		const Atom *a = t->f[k].atom;

		if (a->kind == ATOM_SYM && a->sym == s)
			return true;
		for (int j = 0; j < a->n; j++)
			for (int i = 0; i < a->arg[j]->n; i++)
				if (term_mentions(&a->arg[j]->t[i], s))
					return true;
	}
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
