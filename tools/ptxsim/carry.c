/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic with the carry flag: add, sub and mad with .cc, and addc, subc, madc. */
#include "tools/ptxsim/decode.h"

#include <string.h>

enum { CARRY_ADD, CARRY_SUB, CARRY_MAD };

/* S[2] is added to a product; FLAG: the carry comes in, FLAG2: it goes out, SUB2: the upper half
 * of a product */
static void exec_carry(Warp *w, const Inst *in, uint32_t mask)
{
	Type t = (Type)in->type;
	int bits = 8 * type_size(t);
	bool is_signed = type_kind(t) == 's';

	EACH_LANE (i, mask) {
		uint64_t a = lane_at(w, in->s[0], i), b = lane_at(w, in->s[1], i), r;
		unsigned carry = in->flag ? w->carry >> i & 1 : 0;
		bool out;
		if (in->sub == CARRY_MAD) {
			int unused = 64 - bits;
			__int128 x = is_signed ? (int64_t)(a << unused) >> unused : (__int128)a;
			__int128 y = is_signed ? (int64_t)(b << unused) >> unused : (__int128)b;
			unsigned __int128 product = (unsigned __int128)x * (unsigned __int128)y;
			a = (uint64_t)(in->sub2 ? product >> bits : product);
			b = lane_at(w, in->s[2], i);
		}
		if (bits == 32) {
			a = (uint32_t)a;
			b = (uint32_t)b;
		}
		if (in->sub == CARRY_SUB) {
			/* The flag holds the borrow. */
			out = a < b || (a == b && carry);
			r = a - b - carry;
		} else {
			unsigned __int128 sum = (unsigned __int128)a + b + carry;
			out = sum >> bits != 0;
			r = (uint64_t)sum;
		}
		set_lane(w, in->d, i, r);
		if (in->flag2)
			w->carry = (w->carry & ~(1u << i)) | (uint32_t)out << i;
	}
}

bool decode_carry(Parser *p)
{
	static const char *const names[] = {"add", "sub", "mad", "addc", "subc", "madc"};
	Inst *in = p->in;
	int k = 0;

	while (k < 6 && strcmp(p->mods[0], names[k]))
		k++;
	if (k == 6)
		return false;
	in->flag2 = take_mod(p, "cc");
	if (k < 3 && !in->flag2)
		return false;
	Type t = take_type(p);
	in->sub = (uint8_t)(k % 3);
	in->flag = k >= 3;
	in->sub2 = in->sub == CARRY_MAD && take_mod(p, "hi");
	if (in->sub == CARRY_MAD)
		take_mod(p, "lo");
	no_mods(p);
	int n = in->sub == CARRY_MAD ? 4 : 3;
	need_operands(p, n, n);
	if (type_kind(t) == 'f' || type_size(t) < 4)
		parse_fail(p, "%s is not supported", in->text);
	in->exec = exec_carry;
	in->cls = C_integer;
	in->type = (uint8_t)t;
	in->d = dest_of(p, &in->op[0], t, false);
	for (int i = 1; i < n; i++)
		in->s[i - 1] = slot_of(p, &in->op[i], t, false);
	return true;
}
