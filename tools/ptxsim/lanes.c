/* SPDX-License-Identifier: Apache-2.0 */
/* Each row of isa.def becomes a scalar function and a loop over lanes, which the compiler
 * vectorises. */
#include "tools/ptxsim/lanes.h"

#include "tools/ptxsim/half.h"

typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef float f32;
typedef double f64;
typedef __int128 s128;
typedef unsigned __int128 u128;

/* ---- What rows are made of ---- */

static inline s32 clamp_s32(s64 v)
{
	return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (s32)v;
}

static inline s32 low24s(s32 v)
{
	return (s32)((u32)v << 8) >> 8;
}

static inline u32 pair(u16 lo, u16 hi)
{
	return lo | (u32)hi << 16;
}

static inline s32 dot4(u32 a, bool a_signed, u32 b, bool b_signed)
{
	s32 sum = 0;

	for (int i = 0; i < 32; i += 8) {
		s32 x = (s32)(a >> i & 0xff), y = (s32)(b >> i & 0xff);
		sum += (a_signed ? (int8_t)x : x) * (b_signed ? (int8_t)y : y);
	}
	return sum;
}

static inline s32 dot2(u32 a, bool a_signed, u32 b, bool b_signed)
{
	s32 sum = 0;

	for (int i = 0; i < 2; i++) {
		s32 x = (s32)(a >> (16 * i) & 0xffff), y = (s32)(b >> (8 * i) & 0xff);
		sum += (a_signed ? (s16)x : x) * (b_signed ? (int8_t)y : y);
	}
	return sum;
}

static inline u32 lut3(u32 a, u32 b, u32 c, u32 lut)
{
	u32 r = 0;

	for (u32 k = 0; k < 8; k++)
		if (lut >> k & 1)
			r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
	return r;
}

static inline u32 reverse32(u32 v)
{
	v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
	v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
	v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
	return __builtin_bswap32(v);
}

static inline u32 find_bit(u64 v)
{
	return v ? 63 - (u32)__builtin_clzll(v) : ~0u;
}

static inline u64 low_ones(u32 n)
{
	return n > 63 ? ~0ull : (1ull << n) - 1;
}

static inline u64 bit_field(u64 a, u32 bits, u32 pos, u32 len, bool is_signed)
{
	pos &= 0xff;
	len &= 0xff;
	u32 top = pos + len - 1 < bits - 1 ? pos + len - 1 : bits - 1;
	u64 sign = is_signed && len ? a >> top & 1 : 0, v = pos < bits ? a >> pos : 0;
	u32 kept = pos >= bits ? 0 : len < bits - pos ? len : bits - pos;

	v &= low_ones(kept);
	return len == 0 ? 0 : v | (sign ? ~low_ones(kept) : 0);
}

static inline u64 insert_field(u64 a, u64 b, u32 bits, u32 pos, u32 len)
{
	pos &= 0xff;
	len &= 0xff;
	if (pos >= bits)
		return b;
	u64 mask = low_ones(len < bits - pos ? len : bits - pos) << pos;
	return (b & ~mask) | (a << pos & mask);
}

static inline u32 permute(u32 a, u32 b, u32 c)
{
	u64 both = (u64)b << 32 | a;
	u32 r = 0;

	for (int i = 0; i < 4; i++) {
		u32 sel = c >> (4 * i) & 0xf, byte = (u32)(both >> (8 * (sel & 7))) & 0xff;
		if (sel & 8)
			byte = byte & 0x80 ? 0xff : 0;
		r |= byte << (8 * i);
	}
	return r;
}

static inline u32 backwards(u32 k)
{
	return k | ((k - 1) & 7) << 4 | ((k - 2) & 7) << 8 | ((k - 3) & 7) << 12;
}

static inline u32 clamp_left(u32 k)
{
	static const u32 selector[4] = {0x3210, 0x3211, 0x3222, 0x3333};
	return selector[k];
}

static inline u32 clamp_right(u32 k)
{
	static const u32 selector[4] = {0x0000, 0x1110, 0x2210, 0x3210};
	return selector[k];
}

/* GPUs have one NaN of float. */
static inline f32 canon(f32 v)
{
	return v == v ? v : f32_from(0x7fffffff);
}

static inline f32 least(f32 a, f32 b)
{
	return a != a ? b : b != b ? a : a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}

static inline f32 most(f32 a, f32 b)
{
	return a != a ? b : b != b ? a : a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}

static inline f64 least64(f64 a, f64 b)
{
	return a != a ? b : b != b ? a : a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}

static inline f64 most64(f64 a, f64 b)
{
	return a != a ? b : b != b ? a : a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}

static inline f32 xor_sign(f32 a, f32 b)
{
	return f32_from((f32_bits(a) ^ f32_bits(b)) & 0x80000000);
}

/* tanh.approx has 11 good bits, so there are no more here. */
static inline f32 tanh11(f32 a)
{
	return f32_from((f32_bits(tanhf(a)) + 0x800) & 0xfffff000);
}

static inline f32 low_f32(u64 v)
{
	return f32_from((u32)v);
}

static inline f32 high_f32(u64 v)
{
	return f32_from((u32)(v >> 32));
}

static inline u64 pair_f32(f32 lo, f32 hi)
{
	return f32_bits(lo) | (u64)f32_bits(hi) << 32;
}

/* ---- Functions ---- */

#define LANES(id, D, body)                                                  \
	static void id##_lanes(void *restrict d_at, const void *const s[4]) \
	{                                                                   \
		D *restrict d = d_at;                                       \
		(void)s;                                                    \
		for (int i = 0; i < 32; i++)                                \
			d[i] = body;                                        \
	}
#define S(k, T) ((const T *)s[k])[i]
#define MAP1(cls, id, pattern, D, A, expr) \
	static inline D id(A a)            \
	{                                  \
		return (D)(expr);          \
	}                                  \
	LANES(id, D, id(S(0, A)))
#define MAP2(cls, id, pattern, D, A, B, expr) \
	static inline D id(A a, B b)          \
	{                                     \
		return (D)(expr);             \
	}                                     \
	LANES(id, D, id(S(0, A), S(1, B)))
#define MAP3(cls, id, pattern, D, A, B, C, expr) \
	static inline D id(A a, B b, C c)        \
	{                                        \
		(void)a;                         \
		(void)b;                         \
		return (D)(expr);                \
	}                                        \
	LANES(id, D, id(S(0, A), S(1, B), S(2, C)))
#define MAP4(cls, id, pattern, D, A, B, C, E, expr) \
	static inline D id(A a, B b, C c, E e)      \
	{                                           \
		return (D)(expr);                   \
	}                                           \
	LANES(id, D, id(S(0, A), S(1, B), S(2, C), S(3, E)))
#define H1(id, pattern, form, expr)       \
	static inline u16 id(u16 a)       \
	{                                 \
		f32 A = f32_of_##form(a); \
		(void)A;                  \
		return (u16)(expr);       \
	}                                 \
	LANES(id, u16, id(S(0, u16)))     \
	LANES(id##x2, u32, pair(id((u16)S(0, u32)), id((u16)(S(0, u32) >> 16))))
#define H2(id, pattern, form, expr)                             \
	static inline u16 id(u16 a, u16 b)                      \
	{                                                       \
		f32 A = f32_of_##form(a), B = f32_of_##form(b); \
		return (u16)(expr);                             \
	}                                                       \
	LANES(id, u16, id(S(0, u16), S(1, u16)))                \
	LANES(id##x2, u32,                                      \
	      pair(id((u16)S(0, u32), (u16)S(1, u32)),          \
		   id((u16)(S(0, u32) >> 16), (u16)(S(1, u32) >> 16))))
#define H3(id, pattern, form, expr)                                                   \
	static inline u16 id(u16 a, u16 b, u16 c)                                     \
	{                                                                             \
		f32 A = f32_of_##form(a), B = f32_of_##form(b), C = f32_of_##form(c); \
		return (u16)(expr);                                                   \
	}                                                                             \
	LANES(id, u16, id(S(0, u16), S(1, u16), S(2, u16)))                           \
	LANES(id##x2, u32,                                                            \
	      pair(id((u16)S(0, u32), (u16)S(1, u32), (u16)S(2, u32)),                \
		   id((u16)(S(0, u32) >> 16), (u16)(S(1, u32) >> 16), (u16)(S(2, u32) >> 16))))
#include "tools/ptxsim/isa.def"
#undef MAP1
#undef MAP2
#undef MAP3
#undef MAP4
#undef H1
#undef H2
#undef H3

#define MAP1(cls, id, pattern, D, A, expr) {pattern, id##_lanes, C_##cls, 1, T_##D, {T_##A}},
#define MAP2(cls, id, pattern, D, A, B, expr) \
	{pattern, id##_lanes, C_##cls, 2, T_##D, {T_##A, T_##B}},
#define MAP3(cls, id, pattern, D, A, B, C, expr) \
	{pattern, id##_lanes, C_##cls, 3, T_##D, {T_##A, T_##B, T_##C}},
#define MAP4(cls, id, pattern, D, A, B, C, E, expr) \
	{pattern, id##_lanes, C_##cls, 4, T_##D, {T_##A, T_##B, T_##C, T_##E}},
#define HALF(id, pattern, form, n)                                                        \
	{pattern #form, id##_lanes, C_half, n, T_##form, {T_##form, T_##form, T_##form}}, \
		{pattern #form "x2",                                                      \
		 id##x2_lanes,                                                            \
		 C_half,                                                                  \
		 n,                                                                       \
		 T_##form##x2,                                                            \
		 {T_##form##x2, T_##form##x2, T_##form##x2}},
#define H1(id, pattern, form, expr) HALF(id, pattern, form, 1)
#define H2(id, pattern, form, expr) HALF(id, pattern, form, 2)
#define H3(id, pattern, form, expr) HALF(id, pattern, form, 3)

const MapRow map_rows[] = {
#include "tools/ptxsim/isa.def"
};
const int n_map_rows = sizeof map_rows / sizeof *map_rows;

/* ---- Comparisons ---- */

#define COMPARE(name, T, expr)                                          \
	static uint32_t cmp_##name##_##T(const void *x, const void *y)  \
	{                                                               \
		uint32_t r = 0;                                         \
		for (int i = 0; i < 32; i++) {                          \
			T a = ((const T *)x)[i], b = ((const T *)y)[i]; \
			r |= (uint32_t)(expr) << i;                     \
		}                                                       \
		return r;                                               \
	}
#define ORDERED(T)                        \
	COMPARE(eq, T, a == b)            \
	COMPARE(ne, T, (a < b) | (a > b)) \
	COMPARE(lt, T, a < b)             \
	COMPARE(le, T, a <= b)            \
	COMPARE(gt, T, a > b)             \
	COMPARE(ge, T, a >= b)
#define UNORDERED(T)                          \
	COMPARE(equ, T, !((a < b) | (a > b))) \
	COMPARE(neu, T, a != b)               \
	COMPARE(ltu, T, !(a >= b))            \
	COMPARE(leu, T, !(a > b))             \
	COMPARE(gtu, T, !(a <= b))            \
	COMPARE(geu, T, !(a < b))             \
	COMPARE(num, T, (a == a) & (b == b))  \
	COMPARE(nan, T, (a != a) | (b != b))
ORDERED(u16)
ORDERED(u32)
ORDERED(u64)
ORDERED(s16)
ORDERED(s32)
ORDERED(s64)
ORDERED(f32)
ORDERED(f64)
UNORDERED(f32)
UNORDERED(f64)

/* clang-format off */
#define ROW_ORDERED(T) \
	{"eq", T_##T, cmp_eq_##T}, {"ne", T_##T, cmp_ne_##T}, {"lt", T_##T, cmp_lt_##T}, \
	{"le", T_##T, cmp_le_##T}, {"gt", T_##T, cmp_gt_##T}, {"ge", T_##T, cmp_ge_##T},
#define ROW_UNORDERED(T) \
	{"equ", T_##T, cmp_equ_##T}, {"neu", T_##T, cmp_neu_##T}, {"ltu", T_##T, cmp_ltu_##T}, \
	{"leu", T_##T, cmp_leu_##T}, {"gtu", T_##T, cmp_gtu_##T}, {"geu", T_##T, cmp_geu_##T}, \
	{"num", T_##T, cmp_num_##T}, {"nan", T_##T, cmp_nan_##T},
#define ROW_BITS(B, T) {"eq", T_##B, cmp_eq_##T}, {"ne", T_##B, cmp_ne_##T},
#define ROW_NAMES(T) \
	{"lo", T_##T, cmp_lt_##T}, {"ls", T_##T, cmp_le_##T}, {"hi", T_##T, cmp_gt_##T}, \
	{"hs", T_##T, cmp_ge_##T},

static const struct {
	const char *op;
	Type t;
	CompareFn *fn;
} compares[] = {
	ROW_ORDERED(u16) ROW_ORDERED(u32) ROW_ORDERED(u64)
	ROW_ORDERED(s16) ROW_ORDERED(s32) ROW_ORDERED(s64)
	ROW_ORDERED(f32) ROW_ORDERED(f64) ROW_UNORDERED(f32) ROW_UNORDERED(f64)
	ROW_BITS(b16, u16) ROW_BITS(b32, u32) ROW_BITS(b64, u64)
	ROW_NAMES(u16) ROW_NAMES(u32) ROW_NAMES(u64)
};
/* clang-format on */

CompareFn *compare_fn(const char *op, Type t)
{
	for (size_t i = 0; i < sizeof compares / sizeof *compares; i++)
		if (compares[i].t == t && !strcmp(compares[i].op, op))
			return compares[i].fn;
	return NULL;
}

/* ---- Around a row ---- */

void lanes_flush(void *v, Type t)
{
	uint32_t *u = v;
	uint16_t *h = v;

	if (t == T_f32)
		for (int i = 0; i < 32; i++)
			u[i] = u[i] & 0x7f800000 ? u[i] : u[i] & 0x80000000;
	else if (t == T_f32x2)
		for (int i = 0; i < 64; i++)
			u[i] = u[i] & 0x7f800000 ? u[i] : u[i] & 0x80000000;
	else if (t == T_f16 || t == T_f16x2)
		for (int i = 0; i < (t == T_f16 ? 32 : 64); i++)
			h[i] = h[i] & 0x7c00 ? h[i] : h[i] & 0x8000;
}

void lanes_saturate(void *v, Type t)
{
	float *f = v;
	uint16_t *h = v;

	if (t == T_f32)
		for (int i = 0; i < 32; i++)
			f[i] = f[i] > 0 ? f[i] < 1 ? f[i] : 1 : 0;
	else if (t == T_f16 || t == T_f16x2)
		for (int i = 0; i < (t == T_f16 ? 32 : 64); i++)
			h[i] = h[i] & 0x8000 || h[i] > 0x7c00 ? 0 : h[i] > 0x3c00 ? 0x3c00 : h[i];
}

void lanes_relu(void *v, Type t)
{
	uint16_t *h = v;
	int n = type_size(t) == 2 ? 32 : 64,
	    infinity = t == T_f16 || t == T_f16x2 ? 0x7c00 : 0x7f80;

	for (int i = 0; i < n; i++)
		h[i] = (h[i] & 0x7fff) > infinity ? 0x7fff : h[i] & 0x8000 ? 0 : h[i];
}
