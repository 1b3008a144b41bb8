/* SPDX-License-Identifier: Apache-2.0 */
/* Dims: symbols, their order, and the tables that make equal dims one. */
#include "ir/dim/dim.h"

#include "base/vec.h"
#include "ir/dim/dim_impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct HashSlots {
	void **slot;
	int n, cap;
} HashSlots;

enum { SMALL_CONSTS = 64 };

struct DimTable {
	VEC(Sym *) syms;
	HashSlots dims, atoms, names;
	Dim *few[SMALL_CONSTS]; /* the constants 0, 1, 2 ...; made on first use */
	/* the symbol for dims beyond the limits, which are reported only once; null: not needed
	 * yet */
	Dim *too_complex;
	int bounds_changed;
	int gathered; /* a count of lists of symbols */
};

struct DimTable *dim_table_new(Ctx *c)
{
	struct DimTable *t = NEW(c->arena, struct DimTable);

	t->bounds_changed = 1;
	return t;
}

int dim_bounds_changed(const Ctx *c)
{
	return c->dims->bounds_changed;
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

static void table_put(HashSlots *t, HashOf of, void *p)
{
	size_t mask = (size_t)t->cap - 1, i = of(p) & mask;

	while (t->slot[i])
		i = (i + 1) & mask;
	t->slot[i] = p;
}

static void table_insert(Arena *a, HashSlots *t, HashOf of, void *p)
{
	if ((t->n + 1) * 2 > t->cap) {
		HashSlots old = *t;

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
	HashSlots *t = &c->dims->names;
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
	*s = (Sym){.name = own, .id = c->dims->syms.n, .lo = 0, .hi = DIM_INF, .syms = {s}};
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
	Sym *first = sym_find(c, name);

	for (int k = first && first->taken ? first->taken + 1 : 2; sym_find(c, name); k++) {
		name = ctx_name(c, arena_printf(c->arena, "%s_%d", base, k));
		first->taken = k;
	}
	return sym_get(c, name);
}

void sym_bound(Ctx *c, Sym *s, int64_t lo, int64_t hi)
{
	c->dims->bounds_changed += s->lo != lo || s->hi != hi;
	s->lo = lo;
	s->hi = hi;
}

bool sym_allows(const Sym *s, int64_t v)
{
	return (s->lo == -DIM_INF || v >= s->lo) && v <= s->hi;
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

/* Constants are compared last, so that adding a constant keeps the order of dims that differ
 * otherwise. */
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
		h = hash_mix(h, (uint64_t)t[i].coef);
		for (int k = 0; k < t[i].n; k++)
			h = hash_mix(hash_mix(h, t[i].f[k].atom->hash), (uint64_t)t[i].f[k].pow);
	}
	return h;
}

Dim *dim_too_complex(Ctx *c)
{
	if (c->dims->too_complex)
		return c->dims->too_complex;
	if (c->diag)
		diag_error(c->diag, c->diag->where, "a size grows too complex to be followed");
	return c->dims->too_complex = sym_fresh(c, "too_complex")->dim;
}

/* Copies the factors of a term into a permanent dim; a single atom has such an array already. */
static Factor *keep_factors(Ctx *c, const Term *t)
{
	const Atom *a = term_atom(t);

	return a && a->dim ? a->dim->t[0].f
			   : arena_copy(c->arena, t->f, (size_t)t->n * sizeof(Factor));
}

/* Symbols that are gathered: N distinct ones, in TO unless that is null, and the longest of the
 * lists that they come from. */
typedef struct SymGather {
	struct DimTable *tab;
	Sym **to;
	int n;
	Sym *const *longest;
	int nlongest;
} SymGather;

static void gather_list(SymGather *g, Sym *const *list)
{
	int n = 0;

	for (; list[n]; n++) {
		if (list[n]->gathered == g->tab->gathered)
			continue;
		list[n]->gathered = g->tab->gathered;
		if (g->to)
			g->to[g->n] = list[n];
		g->n++;
	}
	if (n > g->nlongest) {
		g->longest = list;
		g->nlongest = n;
	}
}

/* Gathers the symbols of the terms T[0..n). */
static void gather_terms(SymGather *g, const Term *t, int n)
{
	g->n = 0;
	g->tab->gathered++;
	for (int i = 0; i < n; i++)
		for (int k = 0; k < t[i].n; k++) {
			const Atom *a = t[i].f[k].atom;

			if (a->kind == ATOM_SYM)
				gather_list(g, a->sym->syms);
			for (int j = 0; j < a->n; j++)
				gather_list(g, a->arg[j]->syms);
		}
}

static int by_id(const void *a, const void *b)
{
	return (*(Sym *const *)a)->id - (*(Sym *const *)b)->id;
}

/* The list of a dim with the terms T[0..n): that of an atom, or of an operand of one, if it has all
 * symbols. */
static Sym *const *syms_of_terms(Ctx *c, const Term *t, int n)
{
	SymGather g = {.tab = c->dims, .longest = dim_syms(NULL)};

	gather_terms(&g, t, n);
	if (g.n == g.nlongest)
		return g.longest;
	g.to = NEW_ARRAY(c->arena, g.n + 1, Sym *);
	gather_terms(&g, t, n);
	qsort(g.to, (size_t)g.n, sizeof *g.to, by_id);
	return g.to;
}

Dim *dim_make(Ctx *c, const Term *t, int n)
{
	uint64_t h = terms_hash(t, n);
	HashSlots *tab = &c->dims->dims;
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
		d->t[i].f = keep_factors(c, &t[i]);
	d->syms = syms_of_terms(c, t, n);
	table_insert(c->arena, tab, dim_hash, d);
	return d;
}

Dim *dim_from_term(Ctx *c, Term t)
{
	return dim_make(c, &t, t.coef ? 1 : 0);
}

Dim *dim_const(Ctx *c, int64_t v)
{
	Factor none;
	bool few = v >= 0 && v < SMALL_CONSTS;
	Dim *d = few ? c->dims->few[v] : NULL;

	if (!d)
		d = dim_from_term(c, (Term){v, 0, 0, &none});
	if (few)
		c->dims->few[v] = d;
	return d;
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
		     .hash = hash_mix(HASH_SEED, kind),
		     .arg = (Dim **)(uintptr_t)arg};
	HashSlots *t = &c->dims->atoms;
	size_t mask = (size_t)t->cap - 1;
	Dim *sum = dim_const(c, 0);
	bool has_syms = false;
	int64_t value;

	for (int i = 0; i < n; i++) {
		like.hash = hash_mix(like.hash, arg[i]->hash);
		like.depth = arg[i]->depth >= like.depth ? arg[i]->depth + 1 : like.depth;
		like.size += arg[i]->size;
		has_syms = has_syms || arg[i]->syms[0];
	}
	for (size_t i = like.hash & mask; t->cap && t->slot[i]; i = (i + 1) & mask) {
		Atom *a = t->slot[i];

		if (a->hash == like.hash && a->kind == kind && a->n == n &&
		    !memcmp(a->arg, arg, (size_t)n * sizeof *arg))
			return a->dim;
	}
	if (like.depth > DIM_MAX_DEPTH || like.size > DIM_MAX_SIZE)
		return dim_too_complex(c);
	if (!has_syms && atom_eval(&like, NULL, &value))
		return dim_const(c, value);
	like.fixed_sum = true;
	for (int i = 0; i < n && like.fixed_sum; i++)
		like.fixed_sum = poly_add(c, sum, 1, arg[i], &sum);
	like.fixed_sum = like.fixed_sum && dim_is_const(sum, &like.sum);
	return atom_new(c, &like)->dim;
}
