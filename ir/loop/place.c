/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/loop/place.h"

#include "ir/kernel/kernel.h"

#include <assert.h>
#include <string.h>

void layout_add(TileLayout *l, int dim, TilePlace at, int64_t extent, int64_t stride, int64_t pitch)
{
	assert(l->n < MAX_AXES);
	if (extent > 1)
		l->axis[l->n++] = (TileAxis){
			.dim = dim, .stride = stride, .extent = extent, .pitch = pitch, .at = at};
}

void layout_spread(TileLayout *l, const int64_t *extent, int rank, int64_t warps)
{
	const TilePlace places[] = {AT_LANE, AT_WARP, AT_REGISTER};
	int64_t room[] = {WARP_LANES, warps, INT64_MAX};
	TileAxis axis[2 * TILE_RANK + 2];
	int n = 0, at = 0;

	for (int d = rank - 1; d >= 0; d--)
		for (int64_t stride = 1, left = extent[d]; left > 1;) {
			const int64_t take = left < room[at] ? left : room[at];

			if (take > 1)
				axis[n++] = (TileAxis){.dim = d,
						       .stride = stride,
						       .extent = take,
						       .at = places[at]};
			stride *= take;
			left /= take;
			room[at] /= take;
			at += room[at] == 1;
		}
	for (; at < 2; at++)
		axis[n++] = (TileAxis){
			.dim = -1, .stride = 1, .extent = room[at], .at = places[at]};
	while (n--)
		layout_add(l, axis[n].dim, axis[n].at, axis[n].extent, axis[n].stride, 0);
}

void layout_drop_copies(TileLayout *l)
{
	int n = 0;

	for (int i = 0; i < l->n; i++)
		if (l->axis[i].dim >= 0 || l->axis[i].at != AT_REGISTER)
			l->axis[n++] = l->axis[i];
	l->n = n;
}

int64_t layout_count(const TileLayout *l, TilePlace at)
{
	int64_t n = 1;

	for (int i = 0; i < l->n; i++)
		n *= l->axis[i].at == at ? l->axis[i].extent : 1;
	return n;
}

int64_t layout_extent_of(const TileLayout *l, int d)
{
	int64_t last = l->first[d];

	for (int i = 0; i < l->n; i++)
		last += l->axis[i].dim == d ? (l->axis[i].extent - 1) * l->axis[i].stride : 0;
	return last + 1;
}

void layout_element(const TileLayout *l, int64_t reg, int64_t lane, int64_t warp, int64_t *idx)
{
	int64_t number[PLACES] = {[AT_REGISTER] = reg, [AT_LANE] = lane, [AT_WARP] = warp};

	for (int d = 0; d < l->rank; d++)
		idx[d] = l->first[d];
	for (int i = l->n - 1; i >= 0; i--) {
		const TileAxis *x = &l->axis[i];

		if (x->dim >= 0)
			idx[x->dim] += number[x->at] % x->extent * x->stride;
		number[x->at] /= x->extent;
	}
}

int64_t layout_address(const TileLayout *l, const int64_t *idx)
{
	int64_t at = 0, digit = 0;

	for (int i = 0; i < l->n; i++) {
		const TileAxis *x = &l->axis[i];

		assert(x->at == AT_ADDRESS);
		digit = idx[x->dim] / x->stride % x->extent ^ (x->xored ? digit : 0);
		at += digit * x->pitch;
	}
	return at;
}

/* AT / BY, where vectors of V elements begin at multiples of V: a number of the vector comes first,
 * so that the pool sees that the elements of a vector have one quotient. */
static Expr *quotient(ExprPool *p, Expr *at, int64_t by, int64_t v)
{
	if (v > 1 && by % v == 0)
		return quotient(p, ex_op2(p, IN_floordiv, at, ex_int(p, CT_I64, v)), by / v, 1);
	return by > 1 ? ex_op2(p, IN_floordiv, at, ex_int(p, CT_I64, by)) : at;
}

/* The same of the remainder. */
static Expr *remainder_of(ExprPool *p, Expr *at, int64_t by, int64_t v)
{
	Expr *const unit = ex_int(p, CT_I64, v);

	if (v == 1 || by % v)
		return ex_op2(p, IN_mod, at, ex_int(p, CT_I64, by));
	return ex_add(p,
		      ex_mul(p, remainder_of(p, ex_op2(p, IN_floordiv, at, unit), by / v, 1), unit),
		      ex_op2(p, IN_mod, at, unit));
}

/* The digit of index AT of tile B along axis X. The extents of the axes of stride 1 are divided by
 * first, as an index such as 8 * c + e has the number of its piece there. */
static Expr *digit_along(ExprPool *p, const Buf *b, const TileAxis *x, Expr *at, int64_t vector)
{
	int64_t stride = x->stride;

	for (int i = 0; i < b->tile->n; i++) {
		const TileAxis *y = &b->tile->axis[i];

		if (y->dim != x->dim || y->stride > 1 || stride % y->extent)
			continue;
		at = quotient(p, at, y->extent, vector);
		stride /= y->extent;
		vector = 1;
	}
	if (stride > 1) {
		at = quotient(p, at, stride, vector);
		vector = 1;
	}
	return dim_equals(b->dims[x->dim], x->stride * x->extent)
		       ? at
		       : remainder_of(p, at, x->extent, vector);
}

Expr *tile_flat_index(ExprPool *p, const Buf *b, Expr *const *idx, int vector)
{
	const int bytes = dtype_bytes(b->dtype);
	Expr *at = ex_int(p, CT_I64, 0), *digit = NULL;

	for (int i = 0; i < b->tile->n; i++) {
		const TileAxis *x = &b->tile->axis[i];
		Expr *before = digit;

		digit = digit_along(p, b, x, idx[x->dim], vector);
		if (x->xored)
			digit = ex_op2(p, IN_xor, digit, before);
		at = ex_add(p, at, ex_mul(p, digit, ex_int(p, CT_I64, x->pitch / bytes)));
	}
	return at;
}

/* By TilePlace, the elements, registers, lanes and warps of a layout at most: those of the shared
 * memory of a block, of a thread (255 registers of four bytes), and of a block of 1024 threads. */
static const int place_most[PLACES] = {
	[AT_ADDRESS] = 1 << 18, [AT_REGISTER] = 1 << 10, [AT_LANE] = WARP_LANES, [AT_WARP] = 32};

/* ---- Composition ---- */

/* The dim of INDEX whose coefficient of IT is not 0, and the coefficient; -1: none. False: there
 * are several, or it is not a constant above 0. */
static bool dim_of(Ctx *c, const Affine *index, int rank, const Iter *it, int *dim, int64_t *coef)
{
	*dim = -1;
	for (int d = 0; d < rank; d++) {
		Dim *by = affine_coef(c, &index[d], it);

		if (dim_equals(by, 0))
			continue;
		if (*dim >= 0 || !dim_is_const(by, coef) || *coef < 1)
			return false;
		*dim = d;
	}
	return true;
}

bool layout_of_operand(Ctx *c, Expr *const *index, int rank, Iter *const *it, int n,
		       const TileLayout *points, TileLayout *out)
{
	Affine at[TILE_RANK];

	*out = (TileLayout){.rank = rank, .n = points->n};
	for (int d = 0; d < rank; d++)
		if (!ex_affine(c, index[d], &at[d]) || !dim_is_const(at[d].base, &out->first[d]))
			return false;
	for (int i = 0; i < points->n; i++) {
		TileAxis *x = &out->axis[i];
		int64_t coef = 1;

		*x = points->axis[i];
		if (x->dim >= n ||
		    (x->dim >= 0 && !dim_of(c, at, rank, it[x->dim], &x->dim, &coef)))
			return false;
		x->stride *= coef;
	}
	return true;
}

static bool same_element(int rank, const int64_t *a, const int64_t *b)
{
	return !memcmp(a, b, (size_t)rank * sizeof *a);
}

/* The warps of both layouts together. */
static int64_t warps_of(const TileLayout *a, const TileLayout *b)
{
	const int64_t x = layout_count(a, AT_WARP), y = layout_count(b, AT_WARP);

	return x > y ? x : y;
}

/* An index is the sum of the first one, a part of the register, one of the lane and one of the
 * warp, each 0 for number 0. The parts of lanes and warps are the same in both layouts. */
static bool same_threads(const TileLayout *from, const TileLayout *to)
{
	const int64_t warps = warps_of(from, to);
	int64_t x[TILE_RANK], y[TILE_RANK];

	for (int64_t i = 0; i < WARP_LANES + warps; i++) {
		const int64_t lane = i < WARP_LANES ? i : 0,
			      warp = i < WARP_LANES ? 0 : i - WARP_LANES;

		layout_element(from, 0, lane, warp, x);
		layout_element(to, 0, lane, warp, y);
		for (int d = 0; d < from->rank; d++)
			if (x[d] - from->first[d] != y[d] - to->first[d])
				return false;
	}
	return true;
}

/* layout_register, where the same threads have the same parts of indices. */
static int find_register(const TileLayout *from, const TileLayout *to, int r)
{
	const int n = (int)layout_count(from, AT_REGISTER);
	int64_t x[TILE_RANK], y[TILE_RANK];

	layout_element(to, r, 0, 0, y);
	for (int i = 0; i <= n; i++) {
		const int at = i ? i - 1 : r < n ? r : 0; /* R first */

		layout_element(from, at, 0, 0, x);
		if (same_element(from->rank, x, y))
			return at;
	}
	return -1;
}

int layout_register(const TileLayout *from, const TileLayout *to, int r)
{
	assert(from->rank == to->rank);
	return same_threads(from, to) ? find_register(from, to, r) : -1;
}

TileChange layout_change(const TileLayout *from, const TileLayout *to)
{
	const int64_t n = layout_count(to, AT_REGISTER);
	TileChange c = n == layout_count(from, AT_REGISTER) ? CHANGE_NOTHING : CHANGE_RENAME;

	if (!same_threads(from, to))
		return CHANGE_OTHER;
	for (int r = 0; r < n && c <= CHANGE_RENAME; r++) {
		const int from_r = find_register(from, to, r);

		c = from_r < 0 ? CHANGE_OTHER : from_r != r ? CHANGE_RENAME : c;
	}
	return c;
}

/* ---- Accesses ---- */

/* The addresses of V registers from each multiple of V on are consecutive in every thread. */
static bool consecutive(const TileLayout *l, const TileLayout *address, int bytes, int v)
{
	int64_t idx[TILE_RANK], first = 0;

	for (int64_t w = 0; w < layout_count(l, AT_WARP); w++)
		for (int64_t lane = 0; lane < WARP_LANES; lane++)
			for (int64_t r = 0; r < layout_count(l, AT_REGISTER); r++) {
				layout_element(l, r, lane, w, idx);
				if (r % v == 0)
					first = layout_address(address, idx);
				if (layout_address(address, idx) != first + r % v * bytes ||
				    first % (v * bytes))
					return false;
			}
	return true;
}

int layout_vector_width(const TileLayout *registers, const TileLayout *address, int bytes, int most)
{
	int v = most;

	while (v > 1 && (layout_count(registers, AT_REGISTER) % v ||
			 !consecutive(registers, address, bytes, v)))
		v /= 2;
	return v;
}

enum { BANKS = 32, WORD = 4 };

int bank_lanes(int bytes)
{
	return bytes > WORD ? BANKS * WORD / bytes : BANKS;
}

int bank_passes(const int64_t *at, int n, int bytes)
{
	const int words = BANKS / bank_lanes(bytes);
	int64_t word[BANKS][BANKS];
	int used[BANKS] = {0}, most = 0;

	for (int i = 0; i < n * words; i++) {
		const int64_t w = at[i / words] / WORD + i % words;
		const int bank = (int)(w % BANKS);
		int j = 0;

		while (j < used[bank] && word[bank][j] != w)
			j++;
		word[bank][j] = w;
		used[bank] += j == used[bank];
		most = used[bank] > most ? used[bank] : most;
	}
	return most;
}

bool layout_fits(const TileLayout *l)
{
	int64_t n[PLACES] = {1, 1, 1, 1};

	for (int i = 0; i < l->n; i++) {
		const TilePlace at = l->axis[i].at;
		const int64_t extent = l->axis[i].extent;

		if (l->axis[i].xored &&
		    (!i || extent & (extent - 1) || l->axis[i - 1].extent != extent ||
		     l->axis[i - 1].at != AT_ADDRESS || l->axis[i - 1].xored))
			return false;
		if ((n[at] *= l->axis[i].extent) > place_most[at])
			return false;
	}
	return true;
}
