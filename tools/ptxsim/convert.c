/* SPDX-License-Identifier: Apache-2.0 */
/* cvt: every source is an integer of 64 bits or a double, exactly; the result is rounded once. */
#include "tools/ptxsim/decode.h"
#include "tools/ptxsim/half.h"
#include "tools/ptxsim/lanes.h"

#include <fenv.h>
#include <string.h>

static const FloatForm F16 = {10, 5, false}, BF16 = {7, 8, false}, TF32 = {10, 8, false},
		       E4M3 = {3, 4, true}, E5M2 = {2, 5, false};

static FloatForm form_of(Type t)
{
	switch (t) {
	case T_f16:
	case T_f16x2: return F16;
	case T_bf16:
	case T_bf16x2: return BF16;
	case T_tf32: return TF32;
	case T_e4m3x2: return E4M3;
	default: return E5M2;
	}
}

static bool is_float(Type t)
{
	return type_kind(t) == 'f';
}

static double float_of(uint64_t bits, Type t)
{
	switch (t) {
	case T_f64: return f64_from(bits);
	case T_f32:
	case T_tf32: return (double)f32_from((uint32_t)bits);
	case T_f16: return (double)f32_of_f16((uint16_t)bits);
	default: return (double)f32_of_bf16((uint16_t)bits);
	}
}

/* ---- To integers ---- */

static double to_whole(double d, Round r)
{
	switch (r) {
	case RZI: return trunc(d);
	case RMI: return floor(d);
	case RPI: return ceil(d);
	default: return rint(d);
	}
}

static uint64_t greatest_int(Type t)
{
	int bits = 8 * type_size(t) - (type_kind(t) == 's');

	return bits == 64 ? ~0ull : (1ull << bits) - 1;
}

static uint64_t int_of_float(double d, Type from, Type t, Round r)
{
	bool is_signed = type_kind(t) == 's';
	uint64_t most = greatest_int(t), least = is_signed ? ~most : 0;

	if (d != d)
		return from != T_f64 && type_size(t) < 8 ? 0 : 1ull << (8 * type_size(t) - 1);
	d = to_whole(d, r);
	if (d >= ldexp(1, 8 * type_size(t) - is_signed))
		return most;
	if (is_signed)
		return d < -ldexp(1, 8 * type_size(t) - 1) ? least : (uint64_t)(int64_t)d;
	return d <= 0 ? 0 : (uint64_t)d;
}

static uint64_t int_of_int(uint64_t v, bool v_signed, Type t, bool saturate)
{
	bool is_signed = type_kind(t) == 's';
	uint64_t most = greatest_int(t);

	if (!saturate)
		return v;
	if (v_signed && (int64_t)v < 0)
		return !is_signed ? 0 : (int64_t)v < (int64_t)~most ? ~most : v;
	return v > most ? most : v;
}

/* ---- To floats ---- */

static double whole_odd(uint64_t v, bool v_signed)
{
	bool minus = v_signed && (int64_t)v < 0;
	uint64_t a = minus ? -v : v;
	int extra = a >> 53 ? 11 - __builtin_clzll(a) : 0;
	uint64_t kept = a >> extra;

	/* Rounded to odd, so that one more rounding is the only one. */
	kept |= extra && a & ((1ull << extra) - 1);
	double d = ldexp((double)kept, extra);
	return minus ? -d : d;
}

/* The bits of NaNs are those of an H100. */
#define WIDE_NAN 0x7ff8000000000000

static uint64_t float_bits(double d, Type t, const Inst *in)
{
	if (d != d)
		return t == T_f64    ? WIDE_NAN
		       : t == T_f32  ? 0x7fffffff
		       : t == T_tf32 ? 0x7fc00000
				     : float_round(d, form_of(t), RN, false);
	if (in->relu && (d < 0 || d == 0))
		d = 0;
	if (t == T_f64)
		return f64_bits(d);
	if (t == T_f32)
		return f32_bits((float)d);
	if (t == T_f16 && in->round == RN && !in->flag)
		return f16_of_f64(d);
	uint32_t bits = float_round(d, form_of(t), (Round)in->round, in->flag);
	return t == T_tf32 ? bits << 13 : bits;
}

static double saturated(double d)
{
	return d > 0 ? d < 1 ? d : 1 : 0;
}

static double flushed(double d, const Inst *in)
{
	return in->ftz && fabs(d) < 0x1p-126 ? copysign(0, d) : d;
}

static uint64_t convert(uint64_t bits, const Inst *in)
{
	Type from = (Type)in->type2, to = (Type)in->type;

	if (is_float(from)) {
		double d = float_of(bits, from);
		if (from == T_f32)
			d = flushed(d, in);
		if (!is_float(to))
			return int_of_float(d, from, to, (Round)in->round);
		if (in->round >= RNI && in->round <= RPI)
			d = to_whole(d, (Round)in->round);
		if (in->sat)
			d = saturated(d);
		uint64_t r = float_bits(d, to, in);
		return in->ftz && to == T_f32 && !(r & 0x7f800000) ? r & 0x80000000 : r;
	}
	bool is_signed = type_kind(from) == 's';
	int unused = 64 - 8 * type_size(from);
	uint64_t v = is_signed ? (uint64_t)((int64_t)(bits << unused) >> unused)
			       : bits << unused >> unused;
	if (!is_float(to))
		return int_of_int(v, is_signed, to, in->sat);
	if (to == T_f32)
		return f32_bits(is_signed ? (float)(int64_t)v : (float)v);
	if (to == T_f64)
		return f64_bits(is_signed ? (double)(int64_t)v : (double)v);
	return float_bits(whole_odd(v, is_signed), to, in);
}

/* A result of fewer bits than its register is extended. */
static uint64_t extended(uint64_t v, Type t)
{
	int unused = 64 - 8 * type_size(t);

	return type_kind(t) == 's' ? (uint64_t)((int64_t)(v << unused) >> unused)
				   : v << unused >> unused;
}

static void exec_cvt(Warp *w, const Inst *in, uint32_t mask)
{
	static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
	bool hardware = in->round && in->round <= RP && (in->type == T_f32 || in->type == T_f64);

	if (hardware)
		fesetround(modes[in->round]);
	EACH_LANE (i, mask)
		set_lane(w, in->d, i,
			 extended(convert(lane_at(w, in->s[0], i), in), (Type)in->type));
	if (hardware)
		fesetround(FE_TONEAREST);
}

/* d = {a above, b below}, from f32 */
static void exec_cvt_pair(Warp *w, const Inst *in, uint32_t mask)
{
	Inst one = *in;
	int bits = type_size((Type)in->type) * 4;

	EACH_LANE (i, mask) {
		uint64_t v[2];
		for (int k = 0; k < 2; k++) {
			double d = flushed((double)f32_from((uint32_t)lane_at(w, in->s[k], i)), in);
			one.type = in->type == T_f16x2 ? T_f16 : in->type;
			v[k] = float_bits(in->sat ? saturated(d) : d, (Type)one.type, &one);
		}
		set_lane(w, in->d, i, v[0] << bits | v[1]);
	}
}

/* Pairs of 8 bits from and to pairs of 16. */
static void exec_cvt_small(Warp *w, const Inst *in, uint32_t mask)
{
	Type from = (Type)in->type2, to = (Type)in->type;
	int from_bits = type_size(from) * 4, to_bits = type_size(to) * 4;

	EACH_LANE (i, mask) {
		uint64_t s = lane_at(w, in->s[0], i), v = 0;
		for (int k = 0; k < 2; k++) {
			uint32_t part = (uint32_t)(s >> (k * from_bits)) & ((1u << from_bits) - 1);
			v |= float_bits(float_value(part, form_of(from)), to, in) << (k * to_bits);
		}
		set_lane(w, in->d, i, v);
	}
}

/* Common widths without rounding, all lanes at once. */
#define LANES(name, D, S)                                          \
	static void name(void *restrict d, const void *const s[4]) \
	{                                                          \
		for (int i = 0; i < 32; i++)                       \
			((D *)d)[i] = (D)((const S *)s[0])[i];     \
	}
LANES(s64_s32, int64_t, int32_t)
LANES(u64_u32, uint64_t, uint32_t)
LANES(u32_u64, uint32_t, uint64_t)
LANES(u32_u16, uint32_t, uint16_t)
LANES(s32_s16, int32_t, int16_t)
LANES(u16_u32, uint16_t, uint32_t)
LANES(f32_s32, float, int32_t)
LANES(f32_u32, float, uint32_t)

static void f64_f32(void *restrict d, const void *const s[4])
{
	for (int i = 0; i < 32; i++) {
		const float f = ((const float *)s[0])[i];
		((uint64_t *)d)[i] = f != f ? WIDE_NAN : f64_bits((double)f);
	}
}

static void f32_f16(void *restrict d, const void *const s[4])
{
	for (int i = 0; i < 32; i++)
		((float *)d)[i] = f32_of_f16(((const uint16_t *)s[0])[i]);
}

static void f16_f32(void *restrict d, const void *const s[4])
{
	for (int i = 0; i < 32; i++)
		((uint16_t *)d)[i] = f16_of(((const float *)s[0])[i]);
}

static void f32_bf16(void *restrict d, const void *const s[4])
{
	for (int i = 0; i < 32; i++)
		((float *)d)[i] = f32_of_bf16(((const uint16_t *)s[0])[i]);
}

static const struct {
	Type d, s;
	MapFn *fn;
} common[] = {
	{T_s64, T_s32, s64_s32}, {T_u64, T_s32, s64_s32}, {T_u64, T_u32, u64_u32},
	{T_s64, T_u32, u64_u32}, {T_u32, T_u64, u32_u64}, {T_s32, T_s64, u32_u64},
	{T_u32, T_s64, u32_u64}, {T_s32, T_u64, u32_u64}, {T_u32, T_u16, u32_u16},
	{T_s32, T_u16, u32_u16}, {T_s32, T_s16, s32_s16}, {T_u32, T_s16, s32_s16},
	{T_u16, T_u32, u16_u32}, {T_u16, T_s32, u16_u32}, {T_s16, T_u32, u16_u32},
	{T_f32, T_s32, f32_s32}, {T_f32, T_u32, f32_u32}, {T_f64, T_f32, f64_f32},
	{T_f32, T_f16, f32_f16}, {T_f16, T_f32, f16_f32}, {T_f32, T_bf16, f32_bf16},
};

static void decode_pair(Parser *p, Type from, Type to)
{
	Inst *in = p->in;
	bool small = from != T_f32;

	need_operands(p, small ? 2 : 3, small ? 2 : 3);
	in->exec = small ? exec_cvt_small : exec_cvt_pair;
	if (small && (type_size(from) + type_size(to) != 6 || !is_float(from)))
		parse_fail(p, "%s is not supported", in->text);
	if (small && type_size(to) == 4 && to == T_f16x2)
		in->type = T_f16x2;
	for (int k = 0; k < in->n_op - 1; k++)
		in->s[k] = slot_of(p, &in->op[k + 1], from, false);
	in->d = dest_of(p, &in->op[0], to, false);
}

void decode_cvt(Parser *p)
{
	static const char *const rounds[] = {"rn",  "rz",  "rm",  "rp",  "rna",
					     "rni", "rzi", "rmi", "rpi", NULL};
	Inst *in = p->in;
	Type from = take_type(p), to = take_type(p);
	int r = take_choice(p, rounds);

	in->cls = C_convert;
	in->ftz = take_mod(p, "ftz");
	in->sat = take_mod(p, "sat");
	in->flag = take_mod(p, "satfinite");
	in->relu = take_mod(p, "relu");
	no_mods(p);
	in->round = (uint8_t)(r < 0 ? RN : r);
	in->type = (uint8_t)to;
	in->type2 = (uint8_t)from;
	if (is_float(from) && !is_float(to) && r < RNI)
		parse_fail(p, "a float to an integer needs .rni, .rzi, .rmi or .rpi");
	if (to == T_f16x2 || to == T_bf16x2 || to == T_e4m3x2 || to == T_e5m2x2) {
		decode_pair(p, from, to);
		return;
	}
	need_operands(p, 2, 2);
	in->exec = exec_cvt;
	in->d = dest_of(p, &in->op[0], to, true);
	in->s[0] = slot_of(p, &in->op[1], from, true);
	if (in->ftz || in->sat || in->flag || in->relu || in->round ||
	    in->d.size != type_size(to) || in->s[0].size != type_size(from))
		return;
	for (size_t k = 0; k < sizeof common / sizeof *common; k++)
		if (common[k].d == to && common[k].s == from) {
			in->map = common[k].fn;
			in->exec = exec_map;
		}
}
