/* SPDX-License-Identifier: Apache-2.0 */
/* Strips of points, and the way of elements between buffers and strips. */
#include "ir/eval_impl.h"

#include <assert.h>
#include <string.h>

/* ---- Walks ---- */

void walk_init(Walk *w, Arena *a, const int *slot, int n, const int64_t *extents, int limit, int64_t *pattern)
{
	int64_t inner = 1;
	int at;

	assert(limit <= STRIP);
	*w = (Walk){.n = n, .pattern = *pattern};
	*pattern += 2;
	for (int i = 0; i < n; i++) {
		w->slot[i] = slot[i];
		w->extent[i] = extents[slot[i]];
		w->empty |= w->extent[i] <= 0;
	}
	if (w->empty)
		return;
	for (at = n - 1; at >= 0 && w->extent[at] <= limit / inner; at--)
		inner *= w->extent[at];
	w->chunk_at = at;
	w->inner = (int)inner;
	w->chunk = at >= 0 ? limit / inner : 1;
	w->table = NEW_ARRAY(a, (int64_t)n * STRIP, int64_t);
	for (int64_t l = 0; l < w->chunk * inner; l++) {
		int64_t rest = l;

		for (int i = n - 1; i > at; i--) {
			w->table[i * STRIP + l] = rest % w->extent[i];
			rest /= w->extent[i];
		}
		if (at >= 0)
			w->table[at * STRIP + l] = rest;
	}
}

static void walk_place(const Walk *w, Points *p)
{
	int64_t chunk = 1;

	p->pattern = w->pattern;
	for (int i = 0; i < w->n; i++) {
		p->base[w->slot[i]] = w->at[i];
		p->rel[w->slot[i]] = i >= w->chunk_at ? &w->table[i * STRIP] : NULL;
	}
	if (w->chunk_at >= 0) {
		chunk = w->extent[w->chunk_at] - w->at[w->chunk_at];
		if (chunk < w->chunk)
			p->pattern++;
		else
			chunk = w->chunk;
	}
	p->n = (int)(chunk * w->inner);
}

bool walk_first(Walk *w, Points *p)
{
	if (w->empty)
		return false;
	memset(w->at, 0, sizeof w->at);
	walk_place(w, p);
	return true;
}

bool walk_next(Walk *w, Points *p)
{
	for (int i = w->chunk_at; i >= 0; i--) {
		w->at[i] += i == w->chunk_at ? w->chunk : 1;
		if (w->at[i] < w->extent[i]) {
			walk_place(w, p);
			return true;
		}
		w->at[i] = 0;
	}
	return false;
}

bool points_step(Points *p, const int *slot, int n, const int64_t *extents)
{
	for (int i = n - 1; i >= 0; i--) {
		if (++p->base[slot[i]] < extents[slot[i]])
			return true;
		p->base[slot[i]] = 0;
	}
	return false;
}

/* ---- Elements ---- */

static int64_t lane_at(const Place *at, int l)
{
	return at->at + (at->kind == OFF_TABLE ? at->off[l] : at->kind == OFF_CONTIGUOUS ? l : 0);
}

/* Reads element AT of type S at P as type T, whatever P's alignment. */
#define GATHER(S, T)                                                                               \
	do {                                                                                       \
		const char *base = a->data;                                                        \
		S v;                                                                               \
                                                                                                   \
		if (at->kind == OFF_TABLE)                                                         \
			for (int l = 0; l < n; l++) {                                              \
				memcpy(&v, base + (at->at + at->off[l]) * (int64_t)sizeof v,       \
				       sizeof v);                                                  \
				((T *)dst)[l] = (T)v;                                              \
			}                                                                          \
		else                                                                               \
			for (int l = 0; l < n; l++) {                                              \
				memcpy(&v, base + (at->at + l) * (int64_t)sizeof v, sizeof v);     \
				((T *)dst)[l] = (T)v;                                              \
			}                                                                          \
		return;                                                                            \
	} while (0)

static void load_any(const Access *a, const Place *at, CType t, void *dst, int n)
{
	DType d = a->buf->dtype;

	for (int l = 0; l < n; l++) {
		int64_t i = lane_at(at, l);

		if (t == CT_F32)
			((float *)dst)[l] = (float)dtype_load_f64(d, a->data, i);
		else if (t == CT_I32)
			((int32_t *)dst)[l] = (int32_t)dtype_load_i64(d, a->data, i);
		else
			assert(t == CT_F32 || t == CT_I32);
	}
}

static void load_f16(const Access *a, const Place *at, float *dst, int n)
{
	const char *base = a->data;

	for (int l = 0; l < n; l++) {
		uint16_t h;
		uint32_t mag, u;
		float f;

		memcpy(&h, base + lane_at(at, l) * 2, 2);
		mag = (uint32_t)(h & 0x7fff) << 13;
		u = mag;
		memcpy(&f, &u, 4);
		f *= 0x1p112f;
		memcpy(&u, &f, 4);
		if (mag >= 0x0f800000) /* inf or NaN */
			u = mag | 0x7f800000;
		u |= (uint32_t)(h & 0x8000) << 16;
		memcpy(&dst[l], &u, 4);
	}
}

static void load_bf16(const Access *a, const Place *at, float *dst, int n)
{
	const char *base = a->data;

	for (int l = 0; l < n; l++) {
		uint16_t h;
		uint32_t u;

		memcpy(&h, base + lane_at(at, l) * 2, 2);
		u = (uint32_t)h << 16;
		memcpy(&dst[l], &u, 4);
	}
}

static void load_bool(const Access *a, const Place *at, uint8_t *dst, int n)
{
	const uint8_t *base = a->data;

	for (int l = 0; l < n; l++)
		dst[l] = base[lane_at(at, l)] != 0;
}

void strip_load(const Access *a, const Place *at, CType t, void *dst, int n)
{
	if (at->kind == OFF_UNIFORM && n > 1) {
		uint64_t one = 0;

		strip_load(a, at, t, &one, 1);
		vec_fill(t, dst, &one, n);
		return;
	}
	switch (a->buf->dtype) {
	case DT_F32: GATHER(float, float);
	case DT_F64: GATHER(double, double);
	case DT_I64: case DT_U64: GATHER(int64_t, int64_t);
	case DT_I32: case DT_U32: GATHER(int32_t, int32_t);
	case DT_I16: GATHER(int16_t, int32_t);
	case DT_U16: GATHER(uint16_t, int32_t);
	case DT_I8: GATHER(int8_t, int32_t);
	case DT_U8: GATHER(uint8_t, int32_t);
	case DT_BOOL: load_bool(a, at, dst, n); return;
	case DT_F16: load_f16(a, at, dst, n); return;
	case DT_BF16: load_bf16(a, at, dst, n); return;
	default: load_any(a, at, t, dst, n);
	}
}

#define SCATTER(S, T)                                                                              \
	do {                                                                                       \
		char *base = a->data;                                                              \
                                                                                                   \
		for (int l = 0; l < n; l++)                                                        \
			if (!mask || mask[l]) {                                                    \
				S v = (S)((const T *)src)[l];                                      \
                                                                                                   \
				memcpy(base + lane_at(at, l) * (int64_t)sizeof v, &v, sizeof v);   \
			}                                                                          \
		return;                                                                            \
	} while (0)

static void store_any(const Access *a, const Place *at, const void *src, const uint8_t *mask, int n)
{
	DType d = a->buf->dtype;

	for (int l = 0; l < n; l++) {
		if (mask && !mask[l])
			continue;
		if (dtype_is_float(d))
			dtype_store_f64(d, a->data, lane_at(at, l), (double)((const float *)src)[l]);
		else
			dtype_store_i64(d, a->data, lane_at(at, l), ((const int32_t *)src)[l]);
	}
}

void strip_store(const Access *a, const Place *at, const void *src, const uint8_t *mask, int n)
{
	CType t = dtype_ctype(a->buf->dtype);

	if (at->kind == OFF_CONTIGUOUS && !mask && dtype_info[a->buf->dtype].bits == 8 * ctype_bytes(t)) {
		size_t size = (size_t)ctype_bytes(t);

		memcpy((char *)a->data + (size_t)at->at * size, src, (size_t)n * size);
		return;
	}
	switch (a->buf->dtype) {
	case DT_F32: case DT_I32: case DT_U32: SCATTER(uint32_t, uint32_t);
	case DT_F64: case DT_I64: case DT_U64: SCATTER(uint64_t, uint64_t);
	case DT_I16: case DT_U16: SCATTER(uint16_t, uint32_t);
	case DT_BOOL: SCATTER(uint8_t, uint8_t);
	case DT_I8: case DT_U8: SCATTER(uint8_t, uint32_t);
	default: store_any(a, at, src, mask, n);
	}
}

void strip_store_bounds(const Access *a, const Place *at, const double *src, const uint8_t *mask, int n)
{
	for (int l = 0; l < n; l++)
		if (!mask || mask[l])
			a->bound[lane_at(at, l)] = src[l];
}

void strip_load_bounds(const Access *a, const Place *at, double *dst, int n)
{
	for (int l = 0; l < n; l++)
		dst[l] = a->bound[lane_at(at, l)];
}
