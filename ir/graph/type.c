/* SPDX-License-Identifier: Apache-2.0 */
/* Types: interned, and as text. */
#include "ir/graph/type.h"

#include "ir/dim/bindings.h"
#include "ir/graph/type_impl.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct TypeTable {
	Type **slot;
	int n, cap;
	const Layout **layout;
	int nlayouts, layout_cap;
};

struct TypeTable *type_table_new(Ctx *c)
{
	return NEW(c->arena, struct TypeTable);
}

/* ---- Interning ---- */

static int dims_of(const Type *t)
{
	return t->rank > 0 ? t->rank : 0;
}

static uint64_t type_hash(const Type *t)
{
	uintptr_t head[5] = {(uintptr_t)t->kind, (uintptr_t)t->dtype, (uintptr_t)t->rank,
			     (uintptr_t)t->layout, (uintptr_t)t->elem};

	return hash_bytes(hash_bytes(HASH_SEED, head, sizeof head), t->dims,
			  (size_t)dims_of(t) * sizeof(Dim *));
}

static bool type_same(const Type *a, const Type *b)
{
	return a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank &&
	       a->layout == b->layout && a->elem == b->elem &&
	       !memcmp(a->dims, b->dims, (size_t)dims_of(a) * sizeof(Dim *));
}

static void type_put(struct TypeTable *tab, Type *t)
{
	size_t mask = (size_t)tab->cap - 1, i = type_hash(t) & mask;

	while (tab->slot[i])
		i = (i + 1) & mask;
	tab->slot[i] = t;
}

static const Type *type_intern(Ctx *c, const Type *like)
{
	struct TypeTable *tab = c->types;
	Type *t;

	for (size_t mask = (size_t)tab->cap - 1, i = type_hash(like) & mask;
	     tab->cap && tab->slot[i]; i = (i + 1) & mask)
		if (type_same(tab->slot[i], like))
			return tab->slot[i];
	if ((tab->n + 1) * 2 > tab->cap) {
		struct TypeTable old = *tab;

		tab->cap = old.cap ? old.cap * 2 : 64;
		tab->slot = NEW_ARRAY(c->arena, tab->cap, Type *);
		for (int i = 0; i < old.cap; i++)
			if (old.slot[i])
				type_put(tab, old.slot[i]);
	}
	t = arena_copy(c->arena, like, sizeof *like);
	t->dims = arena_copy(c->arena, like->dims, (size_t)dims_of(like) * sizeof(Dim *));
	type_put(tab, t);
	tab->n++;
	return t;
}

static bool layout_same(const Layout *a, const Layout *b)
{
	if (a->n != b->n)
		return false;
	for (int i = 0; i < a->n; i++)
		if (a->ax[i].dim != b->ax[i].dim || a->ax[i].div != b->ax[i].div ||
		    a->ax[i].mod != b->ax[i].mod)
			return false;
	return true;
}

static bool layout_plain(const Layout *l)
{
	for (int i = 0; i < l->n; i++)
		if (l->ax[i].dim != i || l->ax[i].div || l->ax[i].mod)
			return false;
	return true;
}

static const Layout *layout_intern(Ctx *c, const Layout *l)
{
	struct TypeTable *tab = c->types;

	for (int i = 0; i < tab->nlayouts; i++)
		if (layout_same(tab->layout[i], l))
			return tab->layout[i];
	if (tab->nlayouts == tab->layout_cap) {
		const Layout **old = tab->layout;

		tab->layout_cap = tab->layout_cap ? tab->layout_cap * 2 : 16;
		tab->layout = NEW_ARRAY(c->arena, tab->layout_cap, const Layout *);
		for (int i = 0; i < tab->nlayouts; i++)
			tab->layout[i] = old[i];
	}
	tab->layout[tab->nlayouts] = arena_copy(c->arena, l, sizeof *l);
	return tab->layout[tab->nlayouts++];
}

const Type *type_tensor(Ctx *c, DType t, int rank, Dim *const *dims)
{
	Dim *none[1], *at[MAX_RANK];

	assert(rank <= MAX_RANK);
	for (int i = 0; i < rank; i++)
		at[i] = dims[i];
	return type_intern(c, &(Type){.kind = TYPE_TENSOR,
				      .dtype = t,
				      .rank = rank,
				      .dims = rank > 0 ? at : none});
}

bool layout_pads(const Layout *l, int i)
{
	return i > 0 && l->ax[i].mod && !l->ax[i].div && !l->ax[i - 1].mod &&
	       l->ax[i - 1].dim == l->ax[i].dim && l->ax[i - 1].div == l->ax[i].mod;
}

const Type *type_with_layout(Ctx *c, const Type *t, const Layout *l)
{
	Type like = *t;

	assert(t->kind == TYPE_TENSOR);
	like.layout = l && !layout_plain(l) ? layout_intern(c, l) : NULL;
	return type_intern(c, &like);
}

static const Type *type_of(Ctx *c, TypeKind kind, const Type *elem)
{
	Dim *none[1];

	return type_intern(c, &(Type){.kind = kind, .elem = elem, .dims = none});
}

const Type *type_sequence(Ctx *c, const Type *elem)
{
	return type_of(c, TYPE_SEQUENCE, elem);
}
const Type *type_optional(Ctx *c, const Type *elem)
{
	return type_of(c, TYPE_OPTIONAL, elem);
}

const Type *type_map(Ctx *c, DType key, const Type *elem)
{
	Dim *none[1];

	return type_intern(c, &(Type){.kind = TYPE_MAP, .dtype = key, .elem = elem, .dims = none});
}

const Type *type_items(Ctx *c, DType t, int rank)
{
	Dim *dims[MAX_RANK] = {NULL};

	return type_tensor(c, t, rank, dims);
}

/* ---- Parts ---- */

const Type *type_listed(const Type *t)
{
	if (t->kind == TYPE_OPTIONAL && t->elem->kind == TYPE_SEQUENCE)
		t = t->elem;
	return (t->kind == TYPE_SEQUENCE || t->kind == TYPE_OPTIONAL) &&
			       t->elem->kind == TYPE_TENSOR
		       ? t->elem
		       : NULL;
}

const Type *type_map_of(const Type *t)
{
	if (t->kind == TYPE_SEQUENCE)
		t = t->elem;
	return t->kind == TYPE_MAP && t->elem->kind == TYPE_TENSOR ? t : NULL;
}

int type_parts(const Type *t)
{
	if (t->kind == TYPE_TENSOR)
		return 1;
	if (type_map_of(t))
		return 2;
	if (!type_listed(t))
		return 0;
	return t->elem->kind == TYPE_SEQUENCE ? 3 : 2;
}

bool type_is_part(const Type *t, int k, const Type *part)
{
	const Type *elem = type_listed(t), *map = type_map_of(t);

	if (part->kind != TYPE_TENSOR || t->kind == TYPE_TENSOR)
		return part == t;
	if (map && k == 0)
		return part->dtype == map->dtype && part->rank == 1;
	if (map)
		return part->dtype == map->elem->dtype && part->rank == 1 + (map != t);
	if (k == 0)
		return part->dtype == elem->dtype && part->rank == 1;
	if (k == 1)
		return part->dtype == DT_I64 && part->rank == 2 &&
		       dim_equals(part->dims[1], elem->rank);
	return part->dtype == DT_I64 && part->rank == 1;
}

/* ---- Sizes ---- */

Dim *type_numel(Ctx *c, const Type *t)
{
	return dims_product(c, t->dims, t->rank);
}

bool type_from_data(const Type *t)
{
	for (int i = 0; i < t->rank; i++)
		if (dim_from_data(t->dims[i]))
			return true;
	return false;
}

void type_dims(const Type *t, Arena *a, DimList *out)
{
	for (; t; t = t->elem)
		for (int i = 0; i < t->rank; i++)
			vec_push(a, out, t->dims[i]);
}

Dim *layout_extent(Ctx *c, const LayoutAxis *ax, Dim *const *dims)
{
	if (ax->mod)
		return dim_const(c, ax->mod);
	if (ax->div)
		return dim_ceildiv(c, dims[ax->dim], dim_const(c, ax->div));
	return dims[ax->dim];
}

Dim *type_storage(Ctx *c, const Type *t)
{
	Dim *n = dim_const(c, 1);

	if (!t->layout)
		return type_numel(c, t);
	for (int i = 0; i < t->layout->n; i++)
		n = dim_mul(c, n, layout_extent(c, &t->layout->ax[i], t->dims));
	return n;
}

Dim *type_bytes(Ctx *c, const Type *t)
{
	int bits = dtype_info[t->dtype].bits;
	Dim *n = type_storage(c, t);

	if (bits % 8 == 0)
		return dim_mul(c, n, dim_const(c, dtype_bytes(t->dtype)));
	return dim_ceildiv(c, dim_mul(c, n, dim_const(c, bits)), dim_const(c, 8));
}

bool type_static(const Type *t, int64_t *out)
{
	int64_t v;

	if (t->kind != TYPE_TENSOR || t->rank < 0)
		return false;
	for (int i = 0; i < t->rank; i++) {
		if (!dim_is_const(t->dims[i], &v))
			return false;
		if (out)
			out[i] = v;
	}
	return true;
}

/* ---- Text ---- */

static void print_layout(StrBuf *b, const Layout *l)
{
	strbuf_puts(b, "{");
	for (int i = 0; i < l->n; i++) {
		strbuf_printf(b, "%s%d", i ? "," : "", l->ax[i].dim);
		if (l->ax[i].div)
			strbuf_printf(b, "/%" PRId64, l->ax[i].div);
		if (l->ax[i].mod)
			strbuf_printf(b, "%%%" PRId64, l->ax[i].mod);
	}
	strbuf_puts(b, "}");
}

static const char *const kind_name[] = {
	[TYPE_SEQUENCE] = "seq", [TYPE_OPTIONAL] = "opt", [TYPE_MAP] = "map"};

void type_print(StrBuf *b, const Type *t)
{
	if (t->kind != TYPE_TENSOR) {
		strbuf_puts(b, kind_name[t->kind]);
		strbuf_puts(b, "(");
		if (t->kind == TYPE_MAP)
			strbuf_printf(b, "%s,", dtype_info[t->dtype].name);
		type_print(b, t->elem);
		strbuf_puts(b, ")");
		return;
	}
	strbuf_printf(b, "%s[", t->dtype ? dtype_info[t->dtype].name : "?");
	if (t->rank < 0)
		strbuf_puts(b, "?");
	for (int i = 0; i < t->rank; i++) {
		strbuf_puts(b, i ? "," : "");
		if (t->dims[i])
			dim_print(b, t->dims[i]);
		else
			strbuf_puts(b, "_");
	}
	strbuf_puts(b, "]");
	if (t->layout)
		print_layout(b, t->layout);
}

static bool take(const char **p, char ch)
{
	while (**p == ' ')
		++*p;
	if (**p != ch)
		return false;
	++*p;
	return true;
}

static bool read_count(const char **p, int64_t max, int64_t *out)
{
	int64_t v = 0;

	if (!isdigit((unsigned char)**p))
		return false;
	for (; isdigit((unsigned char)**p); ++*p) {
		v = v * 10 + (**p - '0');
		if (v > max)
			return false;
	}
	*out = v;
	return true;
}

/* The axis of L that takes dim D's index divided by DIV (0: not divided), or null. */
static const LayoutAxis *digit_from(const Layout *l, int d, int64_t div)
{
	for (int i = 0; i < l->n; i++)
		if (l->ax[i].dim == d && l->ax[i].div == div)
			return &l->ax[i];
	return NULL;
}

/* Whether the axes of every dim form a complete div/mod split, and there are no others. */
static bool layout_complete(const Layout *l, int rank)
{
	int n = 0;

	for (int d = 0; d < rank; d++) {
		const LayoutAxis *ax = digit_from(l, d, 0);
		int64_t div = 1;

		for (; ax && ax->mod; ax = digit_from(l, d, div), n++)
			if (__builtin_mul_overflow(div, ax->mod, &div))
				return false;
		if (!ax)
			return false;
		n++;
	}
	return n == l->n;
}

/* Reads the number after CH, which must be 2 or more; leaves *OUT unchanged if CH does not come
 * next. */
static bool parse_after(const char **p, char ch, int64_t *out)
{
	if (**p != ch)
		return true;
	++*p;
	return read_count(p, INT32_MAX, out) && *out > 1;
}

static bool parse_layout(const char **p, int rank, Layout *l)
{
	int64_t v;

	if (take(p, '}'))
		return false;
	do {
		LayoutAxis *ax = &l->ax[l->n];

		while (**p == ' ')
			++*p;
		if (l->n == MAX_RANK * 2 || !read_count(p, rank - 1, &v))
			return false;
		ax->dim = (int)v;
		if (!parse_after(p, '/', &ax->div) || !parse_after(p, '%', &ax->mod))
			return false;
		l->n++;
	} while (take(p, ','));
	return take(p, '}') && layout_complete(l, rank);
}

/* ITEMS: the type is that of a sequence's tensors, which do not share their dims. */
static const Type *parse_tensor(Ctx *c, const char **p, DType dt, bool items)
{
	Dim *dims[MAX_RANK];
	Layout l = {0};
	const Type *t;
	int rank = 0;

	if (take(p, '?')) {
		rank = -1;
		if (!take(p, ']'))
			return NULL;
	} else if (!take(p, ']')) {
		do {
			const BoundRun *run = bound_run(c, p);

			if (run && rank + run->n <= MAX_RANK) {
				for (int i = 0; i < run->n; i++)
					dims[rank++] = run->dims[i];
				continue;
			}
			if (rank == MAX_RANK)
				return NULL;
			dims[rank] = items ? NULL : dim_parse(c, p);
			if (items ? !take(p, '_') : !dims[rank])
				return NULL;
			rank++;
		} while (take(p, ','));
		if (!take(p, ']'))
			return NULL;
	}
	t = type_tensor(c, dt, rank, dims);
	if (**p != '{')
		return t;
	++*p;
	return parse_layout(p, rank, &l) ? type_with_layout(c, t, &l) : NULL;
}

static const Type *parse_nested(Ctx *c, const char **p, int depth);

/* Reads the text after "map(". */
static const Type *parse_map(Ctx *c, const char **p, int depth)
{
	char word[8];
	size_t n = 0;
	const Type *elem;
	DType key;

	while (n < sizeof word - 1 && isalnum((unsigned char)(*p)[n])) {
		word[n] = (*p)[n];
		n++;
	}
	word[n] = 0;
	*p += n;
	key = dtype_by_name(word);
	if ((key != DT_STR && !dtype_is_int(key)) || !take(p, ','))
		return NULL;
	elem = parse_nested(c, p, depth + 1);
	return elem && take(p, ')') ? type_map(c, key, elem) : NULL;
}

static const Type *parse_nested(Ctx *c, const char **p, int depth)
{
	char word[16];
	size_t n = 0;
	DType dt;

	while (**p == ' ')
		++*p;
	while (n < sizeof word - 1 && (isalnum((unsigned char)(*p)[n]) || (*p)[n] == '?')) {
		word[n] = (*p)[n];
		n++;
	}
	word[n] = 0;
	for (TypeKind k = TYPE_SEQUENCE; (*p)[n] == '(' && k <= TYPE_MAP && depth < 8; k++) {
		const Type *elem;

		if (strcmp(word, kind_name[k]) != 0)
			continue;
		*p += n + 1;
		if (k == TYPE_MAP)
			return parse_map(c, p, depth);
		elem = parse_nested(c, p, depth + 1);
		return elem && take(p, ')') ? type_of(c, k, elem) : NULL;
	}
	dt = bound_dtype(c, word, n);
	if ((*p)[n] != '[' || (dt == DT_NONE && strcmp(word, "?")))
		return NULL;
	*p += n + 1;
	return parse_tensor(c, p, dt, depth > 0);
}

const Type *type_parse(Ctx *c, const char **p)
{
	return parse_nested(c, p, 0);
}
