/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/* Elements between buffers and strips: a gather and a scatter for each element type. Buffers may
 * lie at any address (a weight in a mapped file), so elements of whole bytes are copied, not
 * dereferenced. */
#include "ir/eval/eval_impl.h"
#include "ir/expr/scalar.h"

#include <assert.h>
#include <string.h>

typedef void (*LoadFn)(const void *data, const ResolvedAccess *at, void *restrict dst, int n);
typedef void (*StoreFn)(void *data, const ResolvedAccess *at, const void *restrict src, const uint8_t *mask,
			int n);

static int64_t lane_at(const ResolvedAccess *at, int l)
{
	return at->at + (at->kind == OFF_TABLE ? at->off[l] : at->kind == OFF_CONTIGUOUS ? l : 0);
}

/* Elements of C, strips of T. */
#define BYTES(d, C, T, decode, encode)                                                     \
	static void load_##d(const void *data, const ResolvedAccess *at, void *restrict dst, int n) \
	{                                                                                  \
		const char *p = (const char *)data + (size_t)at->at * sizeof(C);           \
		T *out = dst;                                                              \
		C v;                                                                       \
                                                                                           \
		if (at->kind == OFF_TABLE)                                                 \
			for (int l = 0; l < n; l++) {                                      \
				memcpy(&v, p + at->off[l] * (int64_t)sizeof v, sizeof v);  \
				out[l] = (T)decode(v);                                     \
			}                                                                  \
		else                                                                       \
			for (int l = 0; l < n; l++) {                                      \
				memcpy(&v, p + (size_t)l * sizeof v, sizeof v);            \
				out[l] = (T)decode(v);                                     \
			}                                                                  \
	}                                                                                  \
	static void store_##d(void *data, const ResolvedAccess *at, const void *restrict src,       \
			      const uint8_t *mask, int n)                                  \
	{                                                                                  \
		char *p = data;                                                            \
		const T *in = src;                                                         \
		C v;                                                                       \
                                                                                           \
		if (at->kind == OFF_CONTIGUOUS && !mask)                                   \
			for (int l = 0; l < n; l++) {                                      \
				v = (C)encode(in[l]);                                      \
				memcpy(p + (size_t)(at->at + l) * sizeof v, &v, sizeof v); \
			}                                                                  \
		else                                                                       \
			for (int l = 0; l < n; l++)                                        \
				if (!mask || mask[l]) {                                    \
					v = (C)encode(in[l]);                              \
					memcpy(p + (size_t)lane_at(at, l) * sizeof v, &v,  \
					       sizeof v);                                  \
				}                                                          \
	}

/* Elements that share bytes. */
#define PACKED(d, T)                                                                       \
	static void load_##d(const void *data, const ResolvedAccess *at, void *restrict dst, int n) \
	{                                                                                  \
		for (int l = 0; l < n; l++)                                                \
			((T *)dst)[l] = dl_load_##d(data, lane_at(at, l));                 \
	}                                                                                  \
	static void store_##d(void *data, const ResolvedAccess *at, const void *restrict src,       \
			      const uint8_t *mask, int n)                                  \
	{                                                                                  \
		for (int l = 0; l < n; l++)                                                \
			if (!mask || mask[l])                                              \
				dl_store_##d(data, lane_at(at, l), ((const T *)src)[l]);   \
	}

#define SAME(x) (x)
#define TRUTH(x) ((x) != 0)
BYTES(F32, uint32_t, uint32_t, SAME, SAME)
BYTES(F64, uint64_t, uint64_t, SAME, SAME)
BYTES(U8, uint8_t, int32_t, SAME, SAME)
BYTES(I8, int8_t, int32_t, SAME, SAME)
BYTES(U16, uint16_t, int32_t, SAME, SAME)
BYTES(I16, int16_t, int32_t, SAME, SAME)
BYTES(BOOL, uint8_t, uint8_t, TRUTH, TRUTH)
BYTES(F16, uint16_t, float, dl_decode_f16, dl_encode_f16)
BYTES(BF16, uint16_t, float, dl_decode_bf16, dl_encode_bf16)
BYTES(F8E4M3FN, uint8_t, float, dl_decode_f8e4m3fn, dl_encode_f8e4m3fn)
BYTES(F8E4M3FNUZ, uint8_t, float, dl_decode_f8e4m3fnuz, dl_encode_f8e4m3fnuz)
BYTES(F8E5M2, uint8_t, float, dl_decode_f8e5m2, dl_encode_f8e5m2)
BYTES(F8E5M2FNUZ, uint8_t, float, dl_decode_f8e5m2fnuz, dl_encode_f8e5m2fnuz)
BYTES(F8E8M0, uint8_t, float, dl_decode_f8e8m0, dl_encode_f8e8m0)
PACKED(u4, int32_t)
PACKED(i4, int32_t)
PACKED(u2, int32_t)
PACKED(i2, int32_t)
PACKED(f4e2m1, float)
PACKED(f6e2m3, float)
PACKED(f6e3m2, float)

#define ROW(D, f) [DT_##D] = {load_##f, store_##f},
static const struct {
	LoadFn load;
	StoreFn store;
} element[DT_COUNT] = {
	ROW(F32, F32) ROW(I32, F32) ROW(U32, F32) ROW(F64, F64) ROW(I64, F64) ROW(U64, F64) ROW(STR, F64)
		ROW(U8, U8) ROW(I8, I8) ROW(U16, U16) ROW(I16, I16) ROW(BOOL, BOOL) ROW(F16, F16)
			ROW(BF16, BF16) ROW(F8E4M3FN, F8E4M3FN) ROW(F8E4M3FNUZ, F8E4M3FNUZ)
				ROW(F8E5M2, F8E5M2) ROW(F8E5M2FNUZ, F8E5M2FNUZ) ROW(F8E8M0, F8E8M0)
					ROW(U4, u4) ROW(I4, i4) ROW(U2, u2) ROW(I2, i2)
						ROW(F4E2M1, f4e2m1) ROW(F6E2M3, f6e2m3)
							ROW(F6E3M2, f6e3m2)};

void strip_load(const EvalAccess *a, const ResolvedAccess *at, CType t, void *dst, int n)
{
	if (at->kind == OFF_UNIFORM && n > 1) {
		uint64_t one = 0;

		element[a->buf->dtype].load(a->data, at, &one, 1);
		vec_fill(t, dst, &one, n);
	} else {
		element[a->buf->dtype].load(a->data, at, dst, n);
	}
}

void strip_store(const EvalAccess *a, const ResolvedAccess *at, const void *src, const uint8_t *mask, int n)
{
	element[a->buf->dtype].store(a->data, at, src, mask, n);
}

void strip_store_bounds(const EvalAccess *a, const ResolvedAccess *at, const double *src, const uint8_t *mask,
			int n)
{
	for (int l = 0; l < n; l++)
		if (!mask || mask[l])
			a->bound[lane_at(at, l)] = src[l];
}

void strip_load_bounds(const EvalAccess *a, const ResolvedAccess *at, double *dst, int n)
{
	for (int l = 0; l < n; l++)
		dst[l] = a->bound[lane_at(at, l)];
}
