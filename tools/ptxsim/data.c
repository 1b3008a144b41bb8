/* SPDX-License-Identifier: Apache-2.0 */
/* Moves, choices and comparisons. */
#include "tools/ptxsim/decode.h"
#include "tools/ptxsim/half.h"
#include "tools/ptxsim/lanes.h"

#include <fenv.h>
#include <string.h>

/* ---- Rows of isa.def ---- */

void exec_map(Warp *w, const Inst *in, uint32_t mask)
{
	_Alignas(64) uint8_t out[256];
	const void *s[4] = {slot_at(w, in->s[0]), slot_at(w, in->s[1]), slot_at(w, in->s[2]),
			    slot_at(w, in->s[3])};

	in->map(out, s);
	put_lanes(w, in->d, out, mask);
}

void exec_map_float(Warp *w, const Inst *in, uint32_t mask)
{
	static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
	_Alignas(64) uint8_t out[256], flushed[4][256];
	const void *s[4];

	for (int i = 0; i < in->n_sources; i++) {
		s[i] = slot_at(w, in->s[i]);
		if (in->ftz) {
			memcpy(flushed[i], s[i], (size_t)in->s[i].size * 32);
			lanes_flush(flushed[i], (Type)in->source_type[i]);
			s[i] = flushed[i];
		}
	}
	if (in->round)
		fesetround(modes[in->round]);
	in->map(out, s);
	if (in->round)
		fesetround(FE_TONEAREST);
	if (in->ftz)
		lanes_flush(out, (Type)in->type);
	if (in->sat)
		lanes_saturate(out, (Type)in->type);
	if (in->relu)
		lanes_relu(out, (Type)in->type);
	put_lanes(w, in->d, out, mask);
}

/* ---- mov ---- */

static void exec_mov(Warp *w, const Inst *in, uint32_t mask)
{
	put_lanes(w, in->d, slot_at(w, in->s[0]), mask);
}

static void exec_mov_pred(Warp *w, const Inst *in, uint32_t mask)
{
	put_pred(w, in->d, pred_at(w, in->s[0]), mask);
}

/* The time: steps of the block. */
static void exec_mov_clock(Warp *w, const Inst *in, uint32_t mask)
{
	uint64_t now = w->block->steps * 4;
	enum Special which = (enum Special)(in->s[0].at / SPECIAL_BYTES);

	if (which == S_clock_hi || which == S_globaltimer_hi)
		now >>= 32;
	EACH_LANE (i, mask)
		set_lane(w, in->d, i, now);
}

uint64_t var_address(const Warp *w, const Var *v)
{
	const Frame *fr = &w->frame[w->depth - 1];

	switch (v->space) {
	case SP_LOCAL: return fr->local_at + v->at;
	case SP_FRAME: return fr->frame_at + v->at;
	case SP_SHARED:
		return v->dynamic ? (w->block->dynamic_at + v->align - 1) & ~(v->align - 1) : v->at;
	default: return v->at;
	}
}

static void exec_mov_var(Warp *w, const Inst *in, uint32_t mask)
{
	uint64_t at = var_address(w, in->var) + (uint64_t)in->imm;

	EACH_LANE (i, mask)
		set_lane(w, in->d, i, at);
}

/* d = {items}: the first is lowest. */
static void exec_pack(Warp *w, const Inst *in, uint32_t mask)
{
	const Operand *items = &in->op[1];

	EACH_LANE (i, mask) {
		uint64_t v = 0;
		for (int k = items->n_items - 1; k >= 0; k--)
			v = v << (in->vec * 8) | lane_at(w, items->item[k].slot, i);
		set_lane(w, in->d, i, v);
	}
}

/* {items} = s */
static void exec_unpack(Warp *w, const Inst *in, uint32_t mask)
{
	const Operand *items = &in->op[0];

	EACH_LANE (i, mask) {
		uint64_t v = lane_at(w, in->s[0], i);
		for (int k = 0; k < items->n_items; k++, v >>= in->vec * 8)
			set_lane(w, items->item[k].slot, i, v & ((1ull << (in->vec * 8)) - 1));
	}
}

static void decode_vector_mov(Parser *p, Type t, Operand *vec, bool packs)
{
	Inst *in = p->in;
	int n = vec->n_items, size = n ? type_size(t) / n : 0;
	Type part = size == 1 ? T_b8 : size == 2 ? T_b16 : size == 4 ? T_b32 : T_none;

	if (!part || (n != 2 && n != 4))
		parse_fail(p, "a vector of %d in a mov of %d bits", n, type_size(t) * 8);
	in->vec = (uint8_t)size;
	for (int i = 0; i < n; i++)
		vec->item[i].slot = packs ? slot_of(p, &vec->item[i], part, false)
					  : dest_of(p, &vec->item[i], part, false);
}

void decode_mov(Parser *p)
{
	Inst *in = p->in;
	Type t = take_type(p);
	Operand *d = &in->op[0], *s = &in->op[1];

	no_mods(p);
	need_operands(p, 2, 2);
	in->cls = C_move;
	if (d->kind == O_VEC) {
		decode_vector_mov(p, t, d, false);
		in->s[0] = slot_of(p, s, t, false);
		in->exec = exec_unpack;
		return;
	}
	in->d = dest_of(p, d, t, false);
	in->exec = exec_mov;
	if (s->kind == O_VEC) {
		decode_vector_mov(p, t, s, true);
		in->exec = exec_pack;
	} else if (s->kind == O_VAR) {
		in->exec = exec_mov_var;
		in->var = s->var;
		in->imm = s->offset;
	} else if (t == T_pred) {
		in->s[0] = pred_of(p, s);
		in->exec = exec_mov_pred;
	} else {
		bool special = s->kind == O_SLOT && s->slot.bank == BANK_SPECIAL;
		/* Special registers of 32 bits may be read into 16; the lower half is the same
		 * for small values. */
		in->s[0] = slot_of(p, s, t, special && type_size(t) < 4);
		if (special && s->slot.at >= S_clock * SPECIAL_BYTES)
			in->exec = exec_mov_clock;
		else if (in->s[0].size != in->d.size)
			parse_fail(p, "a special register of another size");
	}
}

/* Cache policies are numbers that mean nothing here. */
static void exec_policy(Warp *w, const Inst *in, uint32_t mask)
{
	EACH_LANE (i, mask)
		set_lane(w, in->d, i, 0);
}

void decode_policy(Parser *p)
{
	need_operands(p, 1, 6);
	p->in->exec = exec_policy;
	p->in->cls = C_move;
	p->in->d = dest_of(p, &p->in->op[0], T_b64, false);
}

/* ---- Predicates ---- */

enum { LOGIC_AND, LOGIC_OR, LOGIC_XOR, LOGIC_NOT };

static uint32_t combine(int how, uint32_t a, uint32_t b)
{
	switch (how) {
	case LOGIC_AND: return a & b;
	case LOGIC_OR: return a | b;
	case LOGIC_XOR: return a ^ b;
	default: return ~a;
	}
}

static void exec_logic(Warp *w, const Inst *in, uint32_t mask)
{
	uint32_t a = pred_at(w, in->s[0]), b = in->sub == LOGIC_NOT ? 0 : pred_at(w, in->s[1]);

	put_pred(w, in->d, combine(in->sub, a, b), mask);
}

bool decode_logic(Parser *p)
{
	static const char *const names[] = {"and", "or", "xor", "not"};
	Inst *in = p->in;
	int k = 0;

	while (k < 4 && strcmp(p->mods[0], names[k]))
		k++;
	if (k == 4 || p->n_mods != 2 || strcmp(p->mods[1], "pred"))
		return false;
	need_operands(p, k == LOGIC_NOT ? 2 : 3, k == LOGIC_NOT ? 2 : 3);
	in->exec = exec_logic;
	in->cls = C_integer;
	in->sub = (uint8_t)k;
	in->d = dest_of(p, &in->op[0], T_pred, false);
	in->s[0] = pred_of(p, &in->op[1]);
	if (k != LOGIC_NOT)
		in->s[1] = pred_of(p, &in->op[2]);
	return true;
}

/* ---- Choices ---- */

static void exec_selp(Warp *w, const Inst *in, uint32_t mask)
{
	_Alignas(64) uint8_t first[256];
	uint32_t which = pred_at(w, in->s[2]);

	/* D may be a source. */
	memcpy(first, slot_at(w, in->s[0]), (size_t)in->d.size * 32);
	put_lanes(w, in->d, slot_at(w, in->s[1]), mask & ~which);
	put_lanes(w, in->d, first, mask & which);
}

void decode_selp(Parser *p)
{
	Inst *in = p->in;
	Type t = take_type(p);

	no_mods(p);
	need_operands(p, 4, 4);
	in->exec = exec_selp;
	in->cls = C_move;
	in->d = dest_of(p, &in->op[0], t, false);
	in->s[0] = slot_of(p, &in->op[1], t, false);
	in->s[1] = slot_of(p, &in->op[2], t, false);
	in->s[2] = pred_of(p, &in->op[3]);
}

/* d = c >= 0 ? a : b; TYPE2 is that of c */
static void exec_slct(Warp *w, const Inst *in, uint32_t mask)
{
	_Alignas(64) uint8_t zero[128] = {0}, c[128];

	memcpy(c, slot_at(w, in->s[2]), sizeof c);
	if (in->ftz)
		lanes_flush(c, T_f32);
	uint32_t which = compare_fn("ge", (Type)in->type2)(c, zero);
	_Alignas(64) uint8_t first[256], second[256];
	memcpy(first, slot_at(w, in->s[0]), (size_t)in->d.size * 32);
	memcpy(second, slot_at(w, in->s[1]), (size_t)in->d.size * 32);
	put_lanes(w, in->d, first, mask & which);
	put_lanes(w, in->d, second, mask & ~which);
}

void decode_slct(Parser *p)
{
	Inst *in = p->in;
	Type c = take_type(p), t = take_type(p);

	in->ftz = take_mod(p, "ftz");
	no_mods(p);
	need_operands(p, 4, 4);
	if (c != T_s32 && c != T_f32)
		parse_fail(p, "slct tests s32 or f32");
	in->exec = exec_slct;
	in->cls = C_move;
	in->type2 = (uint8_t)c;
	in->d = dest_of(p, &in->op[0], t, false);
	in->s[0] = slot_of(p, &in->op[1], t, false);
	in->s[1] = slot_of(p, &in->op[2], t, false);
	in->s[2] = slot_of(p, &in->op[3], c, false);
}

/* ---- Comparisons ---- */

/* SRC, small floats of type T, as floats: the even and the odd ones of packed pairs. */
static void widen(const void *src, Type t, int half, float out[32])
{
	bool packed = type_size(t) == 4, bf = t == T_bf16 || t == T_bf16x2;

	for (int i = 0; i < 32; i++) {
		uint16_t h = packed ? ((const uint16_t *)src)[2 * i + half]
				    : ((const uint16_t *)src)[i];
		out[i] = bf ? f32_of_bf16(h) : f32_of_f16(h);
	}
}

static uint32_t compare(const Warp *w, const Inst *in, int half)
{
	_Alignas(64) uint8_t a[256], b[256];
	const void *x = slot_at(w, in->s[0]), *y = slot_at(w, in->s[1]);
	Type t = (Type)in->type;
	CompareFn *fn = (CompareFn *)in->more;

	if (type_kind(t) == 'f' && t != T_f32 && t != T_f64) {
		if (in->ftz) {
			memcpy(a, x, (size_t)in->s[0].size * 32);
			memcpy(b, y, (size_t)in->s[1].size * 32);
			lanes_flush(a, t);
			lanes_flush(b, t);
			x = a;
			y = b;
		}
		float u[32], v[32];
		widen(x, t, half, u);
		widen(y, t, half, v);
		return fn(u, v);
	}
	if (in->ftz) {
		memcpy(a, x, 128);
		memcpy(b, y, 128);
		lanes_flush(a, t);
		lanes_flush(b, t);
		x = a;
		y = b;
	}
	return fn(x, y);
}

static void exec_setp(Warp *w, const Inst *in, uint32_t mask)
{
	uint32_t c = in->flag ? pred_at(w, in->s[2]) : 0, hit = compare(w, in, 0);
	bool packed = in->flag2;
	uint32_t other = packed ? compare(w, in, 1) : ~hit;

	put_pred(w, in->d, in->flag ? combine(in->sub, hit, c) : hit, mask);
	put_pred(w, in->s[3], in->flag ? combine(in->sub, other, c) : other, mask);
}

/* Booleans as numbers: all ones, or 1.0 */
static void exec_set(Warp *w, const Inst *in, uint32_t mask)
{
	uint32_t c = in->flag ? pred_at(w, in->s[2]) : 0, hit[2] = {0};
	Type t = (Type)in->type2;

	for (int k = 0; k < 1 + in->flag2; k++) {
		hit[k] = compare(w, in, k);
		if (in->flag)
			hit[k] = combine(in->sub, hit[k], c);
	}
	EACH_LANE (i, mask) {
		uint64_t one = t == T_f32                       ? 0x3f800000
			       : t == T_f16 || t == T_f16x2     ? 0x3c00
			       : t == T_bf16 || t == T_bf16x2   ? 0x3f80
			       : type_size(t) == 2 || in->flag2 ? 0xffff
								: 0xffffffff;
		uint64_t v = (hit[0] >> i & 1) * one;
		if (in->flag2)
			v |= (hit[1] >> i & 1) * one << 16;
		set_lane(w, in->d, i, v);
	}
}

void decode_setp(Parser *p)
{
	static const char *const ops[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "lo",
					  "ls",  "hi",  "hs",  "equ", "neu", "ltu", "leu",
					  "gtu", "geu", "num", "nan", NULL};
	static const char *const joins[] = {"and", "or", "xor", NULL};
	Inst *in = p->in;
	bool set = !strcmp(p->mods[0], "set");
	Type t = take_type(p), result = set ? take_type(p) : T_pred;
	bool half = type_kind(t) == 'f' && t != T_f32 && t != T_f64;
	int op = take_choice(p, ops), join = take_choice(p, joins);

	in->ftz = take_mod(p, "ftz");
	no_mods(p);
	need_operands(p, 3 + (join >= 0), 3 + (join >= 0));
	in->more = op < 0 ? NULL : (void *)compare_fn(ops[op], half ? T_f32 : t);
	if (!in->more)
		parse_fail(p, "the comparison is not supported");
	in->exec = set ? exec_set : exec_setp;
	in->cls = type_kind(t) != 'f' ? C_integer : half ? C_half : C_float;
	in->type = (uint8_t)t;
	in->type2 = (uint8_t)result;
	in->d = dest_of(p, &in->op[0], result, false);
	in->s[3] = in->op[0].second;
	if (!in->op[0].has_second)
		in->s[3].none = true;
	in->flag2 = half && type_size(t) == 4;
	in->s[0] = slot_of(p, &in->op[1], t, false);
	in->s[1] = slot_of(p, &in->op[2], t, false);
	if (join >= 0) {
		in->flag = true;
		in->sub = (uint8_t)join;
		in->s[2] = pred_of(p, &in->op[3]);
	}
}

/* ---- testp ---- */

static void exec_testp(Warp *w, const Inst *in, uint32_t mask)
{
	uint32_t hit = 0;
	bool wide = in->type == T_f64;

	EACH_LANE (i, mask) {
		uint64_t bits = lane_at(w, in->s[0], i);
		int kind = wide ? fpclassify(f64_from(bits)) : fpclassify(f32_from((uint32_t)bits));
		bool is[] = {kind != FP_NAN && kind != FP_INFINITE,
			     kind == FP_INFINITE,
			     kind != FP_NAN,
			     kind == FP_NAN,
			     kind == FP_NORMAL,
			     kind == FP_SUBNORMAL};
		hit |= (uint32_t)is[in->sub] << i;
	}
	put_pred(w, in->d, hit, mask);
}

void decode_testp(Parser *p)
{
	static const char *const tests[] = {"finite", "infinite",  "number", "notanumber",
					    "normal", "subnormal", NULL};
	Inst *in = p->in;
	Type t = take_type(p);
	int k = take_choice(p, tests);

	no_mods(p);
	need_operands(p, 2, 2);
	if (k < 0)
		parse_fail(p, "the test is not supported");
	in->exec = exec_testp;
	in->cls = C_float;
	in->sub = (uint8_t)k;
	in->type = (uint8_t)t;
	in->d = dest_of(p, &in->op[0], T_pred, false);
	in->s[0] = slot_of(p, &in->op[1], t, false);
}

/* ---- Addresses ---- */

static const char *const space_names[] = {"global", "shared",      "local", "const",
					  "param",  "shared::cta", NULL};

static uint64_t window(int k)
{
	return k == 1 || k == 5 ? SHARED_WINDOW : k == 2 ? LOCAL_WINDOW : k == 4 ? PARAM_WINDOW : 0;
}

static void exec_cvta(Warp *w, const Inst *in, uint32_t mask)
{
	EACH_LANE (i, mask) {
		uint64_t base = in->var ? var_address(w, in->var) + (uint64_t)in->imm
					: lane_at(w, in->s[0], i);
		set_lane(w, in->d, i, in->flag ? base - window(in->sub) : base + window(in->sub));
	}
}

void decode_cvta(Parser *p)
{
	Inst *in = p->in;
	Type t = take_type(p);

	in->flag = take_mod(p, "to");
	int k = take_choice(p, space_names);
	no_mods(p);
	need_operands(p, 2, 2);
	if (k < 0 || t != T_u64)
		parse_fail(p, "%s is not supported", in->text);
	in->exec = exec_cvta;
	in->cls = C_move;
	in->sub = (uint8_t)k;
	in->d = dest_of(p, &in->op[0], t, false);
	if (in->op[1].kind == O_VAR) {
		in->var = in->op[1].var;
		in->imm = in->op[1].offset;
	} else {
		in->s[0] = slot_of(p, &in->op[1], t, false);
	}
}

static void exec_isspacep(Warp *w, const Inst *in, uint32_t mask)
{
	uint32_t hit = 0;

	EACH_LANE (i, mask) {
		uint64_t within;
		Space s = space_of(lane_at(w, in->s[0], i), &within);
		static const Space asked[] = {SP_GLOBAL, SP_SHARED, SP_LOCAL,
					      SP_CONST,  SP_PARAM,  SP_SHARED};
		hit |= (uint32_t)(s == asked[in->sub]) << i;
	}
	put_pred(w, in->d, hit, mask);
}

void decode_isspacep(Parser *p)
{
	Inst *in = p->in;
	int k = take_choice(p, space_names);

	no_mods(p);
	need_operands(p, 2, 2);
	if (k < 0)
		parse_fail(p, "%s is not supported", in->text);
	in->exec = exec_isspacep;
	in->cls = C_integer;
	in->sub = (uint8_t)k;
	in->d = dest_of(p, &in->op[0], T_pred, false);
	in->s[0] = slot_of(p, &in->op[1], T_u64, false);
}
