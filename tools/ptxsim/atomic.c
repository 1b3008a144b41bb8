/* SPDX-License-Identifier: Apache-2.0 */
/* atom and red: the lanes one after another, in an order that is drawn. */
#include "tools/ptxsim/decode.h"
#include "tools/ptxsim/half.h"

#include <string.h>

enum { A_ADD, A_MIN, A_MAX, A_AND, A_OR, A_XOR, A_INC, A_DEC, A_EXCH, A_CAS };

static uint16_t add_half(uint16_t a, uint16_t b, bool bf)
{
	return bf ? bf16_of(odd_f32(odd_fma((double)f32_of_bf16(a), 1, (double)f32_of_bf16(b))))
		  : f16_of(f32_of_f16(a) + f32_of_f16(b));
}

static uint16_t pick_half(uint16_t a, uint16_t b, bool bf, bool most)
{
	float x = bf ? f32_of_bf16(a) : f32_of_f16(a), y = bf ? f32_of_bf16(b) : f32_of_f16(b);

	return x != x ? b : y != y ? a : (most ? x >= y : x <= y) ? a : b;
}

static uint64_t add_value(Type t, uint64_t a, uint64_t b)
{
	switch (t) {
	case T_f32: return f32_bits(f32_from((uint32_t)a) + f32_from((uint32_t)b));
	case T_f64: return f64_bits(f64_from(a) + f64_from(b));
	case T_f16:
	case T_bf16: return add_half((uint16_t)a, (uint16_t)b, t == T_bf16);
	case T_f16x2:
	case T_bf16x2:
		return add_half((uint16_t)a, (uint16_t)b, t == T_bf16x2) |
		       (uint64_t)add_half((uint16_t)(a >> 16), (uint16_t)(b >> 16), t == T_bf16x2)
			       << 16;
	default: return a + b;
	}
}

static uint64_t pick_value(Type t, uint64_t a, uint64_t b, bool most)
{
	bool less;

	switch (t) {
	case T_f16:
	case T_bf16: return pick_half((uint16_t)a, (uint16_t)b, t == T_bf16, most);
	case T_f16x2:
	case T_bf16x2:
		return pick_half((uint16_t)a, (uint16_t)b, t == T_bf16x2, most) |
		       (uint64_t)pick_half((uint16_t)(a >> 16), (uint16_t)(b >> 16), t == T_bf16x2,
					   most)
			       << 16;
	case T_s32: less = (int32_t)a < (int32_t)b; break;
	case T_s64: less = (int64_t)a < (int64_t)b; break;
	default: less = a < b; break;
	}
	return less == most ? b : a;
}

/* The new value: OLD combined with B, or C if B equals the old value. */
static uint64_t combine(int op, Type t, uint64_t old, uint64_t b, uint64_t c)
{
	switch (op) {
	case A_ADD: return add_value(t, old, b);
	case A_MIN: return pick_value(t, old, b, false);
	case A_MAX: return pick_value(t, old, b, true);
	case A_AND: return old & b;
	case A_OR: return old | b;
	case A_XOR: return old ^ b;
	case A_INC: return old >= b ? 0 : old + 1;
	case A_DEC: return old == 0 || old > b ? b : old - 1;
	case A_EXCH: return b;
	default: return old == b ? c : old;
	}
}

/* Sums of f32 in global memory flush subnormal operands and results to zero (PTX ISA, atom). */
static bool flushes(const Inst *in, uint64_t addr)
{
	const Space space = in->space == SP_GENERIC ? space_of(addr, &addr) : (Space)in->space;

	return in->sub == A_ADD && in->type == T_f32 && space == SP_GLOBAL;
}

static uint64_t flushed(uint64_t code)
{
	return code & 0x7f800000 ? code : code & 0x80000000;
}

static void one_lane(Warp *w, const Inst *in, int lane, uint64_t addr)
{
	Type t = (Type)in->type;
	size_t size = (size_t)type_size(t);
	const Operand *from = &in->op[in->flag2 + 1], *to = in->flag2 ? &in->op[0] : NULL;
	uint8_t *p = access_at(w, lane, (Space)in->space, addr, (unsigned)(size * in->vec), ATOMIC);
	const bool flush = flushes(in, addr);

	for (int k = 0; k < in->vec; k++, p += size) {
		uint64_t old = 0, v, c = in->s[2].none ? 0 : lane_at(w, in->s[2], lane),
			 b = lane_at(w, in->vec > 1 ? from->item[k].slot : in->s[1], lane);

		memcpy(&old, p, size);
		v = flush ? flushed(combine(in->sub, t, flushed(old), flushed(b), c))
			  : combine(in->sub, t, old, b, c);
		memcpy(p, &v, size);
		if (to)
			set_lane(w, in->vec > 1 ? to->item[k].slot : in->d, lane, old);
	}
}

static void exec_atom(Warp *w, const Inst *in, uint32_t mask)
{
	uint64_t addr[32];

	addresses(w, &in->op[in->flag2], addr);
	count_access(w, (Space)in->space, addr, mask,
		     (unsigned)(type_size((Type)in->type) * in->vec), true);
	uint32_t turn = draw(w->block, 32),
		 rotated = turn ? mask >> turn | mask << (32 - turn) : mask;
	EACH_LANE (i, rotated)
		one_lane(w, in, (i + (int)turn) & 31, addr[(i + (int)turn) & 31]);
}

void decode_atom(Parser *p)
{
	static const char *const ops[] = {"add", "min", "max",  "and", "or", "xor",
					  "inc", "dec", "exch", "cas", NULL};
	static const char *const vectors[] = {"v2", "v4", "v8", NULL};
	static const char *const orders[] = {"acq_rel", "noftz",   "release",
					     "acquire", "relaxed", NULL};
	Inst *in = p->in;
	bool atom = !strcmp(p->mods[0], "atom");
	int at = atom;
	Type t = take_type(p);

	need_operands(p, 2 + atom, 4 + atom);
	int vec = take_choice(p, vectors), op = take_choice(p, ops);
	in->space = (uint8_t)take_space(p, &in->op[at]);
	drop_mods(p, orders);
	take_hints(p);
	no_mods(p);
	if (op < 0 || in->op[at].kind != O_ADDR ||
	    (in->space != SP_GLOBAL && in->space != SP_SHARED && in->space != SP_GENERIC))
		parse_fail(p, "%s is not supported", in->text);
	if (type_kind(t) == 'f' && (op > A_MAX || (op != A_ADD && (t == T_f32 || t == T_f64))))
		parse_fail(p, "%s is not supported", in->text);
	in->exec = exec_atom;
	in->cls = C_atomic;
	in->sub = (uint8_t)op;
	in->type = (uint8_t)t;
	in->flag2 = atom;
	in->vec = (uint8_t)(vec < 0 ? 1 : 2 << vec);
	in->s[2].none = true;
	note_granule(p, (Space)in->space, (unsigned)(in->vec * type_size(t)));
	p->m->atomics |= in->space != SP_SHARED;
	if (in->vec > 1) {
		if (in->op[at + 1].n_items != in->vec || (atom && in->op[0].n_items != in->vec))
			parse_fail(p, "a vector of %d expected", in->vec);
		for (int k = 0; k < in->vec; k++) {
			if (atom)
				in->op[0].item[k].slot = dest_of(p, &in->op[0].item[k], t, false);
			in->op[at + 1].item[k].slot = slot_of(p, &in->op[at + 1].item[k], t, false);
		}
		return;
	}
	if (atom)
		in->d = dest_of(p, &in->op[0], t, false);
	in->s[1] = slot_of(p, &in->op[at + 1], t, false);
	if (op == A_CAS)
		in->s[2] = slot_of(p, &in->op[at + 2], t, false);
}
