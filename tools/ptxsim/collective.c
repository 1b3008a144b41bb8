/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions that the lanes of a warp execute together: shuffles, votes, matches, reductions. */
#include "tools/ptxsim/decode.h"

#include <string.h>

/* ---- shfl ---- */

enum { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX };

/* d|p, a, b, c, members: B says from where, C clamps within segments. */
static void exec_shfl(Warp *w, const Inst *in, uint32_t mask)
{
	uint32_t a[32], out[32], valid = 0;

	if (!members_here(w, in->s[3], mask))
		return;
	memcpy(a, slot_at(w, in->s[0]), sizeof a);
	EACH_LANE (i, mask) {
		int b = (int)lane_at(w, in->s[1], i) & 31, c = (int)lane_at(w, in->s[2], i),
		    segment = c >> 8 & 31;
		int clamp = c & 31, most = (i & segment) | (clamp & ~segment), least = i & segment,
		    j;
		bool ok;
		switch (in->sub) {
		case SHFL_UP:
			j = i - b;
			ok = j >= most;
			break;
		case SHFL_DOWN:
			j = i + b;
			ok = j <= most;
			break;
		case SHFL_BFLY:
			j = i ^ b;
			ok = j <= most;
			break;
		default:
			j = least | (b & ~segment);
			ok = j <= most;
			break;
		}
		j = ok ? j : i;
		if (!(mask >> j & 1))
			fault(w, i, CUDA_ERROR_LAUNCH_FAILED,
			      "reads lane %d, which is not here (%08x are)", j, mask);
		out[i] = a[j];
		valid |= (uint32_t)ok << i;
	}
	put_lanes(w, in->d, out, mask);
	put_pred(w, in->op[0].second, in->op[0].has_second ? valid : 0,
		 in->op[0].has_second ? mask : 0);
}

void decode_shfl(Parser *p)
{
	static const char *const modes[] = {"up", "down", "bfly", "idx", NULL};
	Inst *in = p->in;

	if (!take_mod(p, "sync"))
		parse_fail(p, "shfl needs .sync");
	int mode = take_choice(p, modes);
	take_mod(p, "b32");
	no_mods(p);
	need_operands(p, 5, 5);
	if (mode < 0)
		parse_fail(p, "%s is not supported", in->text);
	in->exec = exec_shfl;
	in->cls = C_warp;
	in->sub = (uint8_t)mode;
	in->d = dest_of(p, &in->op[0], T_b32, false);
	for (int i = 0; i < 4; i++)
		in->s[i] = slot_of(p, &in->op[i + 1], T_b32, false);
}

/* ---- vote, activemask, elect ---- */

enum { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };

static void exec_vote(Warp *w, const Inst *in, uint32_t mask)
{
	uint32_t left = mask, group, all = pred_at(w, in->s[0]);

	if (!members_here(w, in->s[1], mask))
		return;
	while ((group = next_group(w, in->s[1], &left))) {
		uint32_t p = all & group;
		bool hit = in->sub == VOTE_ALL   ? p == group
			   : in->sub == VOTE_ANY ? p != 0
						 : p == group || !p;
		if (in->sub == VOTE_BALLOT)
			EACH_LANE (i, group)
				set_lane(w, in->d, i, p);
		else
			put_pred(w, in->d, hit ? ~0u : 0, group);
	}
}

void decode_vote(Parser *p)
{
	static const char *const modes[] = {"all", "any", "uni", "ballot", NULL};
	Inst *in = p->in;

	if (!take_mod(p, "sync"))
		parse_fail(p, "vote needs .sync");
	int mode = take_choice(p, modes);
	take_mod(p, "pred");
	take_mod(p, "b32");
	no_mods(p);
	need_operands(p, 3, 3);
	if (mode < 0)
		parse_fail(p, "%s is not supported", in->text);
	in->exec = exec_vote;
	in->cls = C_warp;
	in->sub = (uint8_t)mode;
	in->d = dest_of(p, &in->op[0], mode == VOTE_BALLOT ? T_b32 : T_pred, false);
	in->s[0] = pred_of(p, &in->op[1]);
	in->s[1] = slot_of(p, &in->op[2], T_b32, false);
}

static void exec_activemask(Warp *w, const Inst *in, uint32_t mask)
{
	EACH_LANE (i, mask)
		set_lane(w, in->d, i, mask);
}

void decode_activemask(Parser *p)
{
	Inst *in = p->in;

	take_mod(p, "b32");
	no_mods(p);
	need_operands(p, 1, 1);
	in->exec = exec_activemask;
	in->cls = C_warp;
	in->d = dest_of(p, &in->op[0], T_b32, false);
}

/* One lane, any: which one is drawn. */
static void exec_elect(Warp *w, const Inst *in, uint32_t mask)
{
	uint32_t left = mask, group;

	if (!members_here(w, in->s[0], mask))
		return;
	while ((group = next_group(w, in->s[0], &left))) {
		uint32_t skip = draw(w->block, (uint32_t)__builtin_popcount(group)), rest = group;
		while (skip--)
			rest &= rest - 1;
		EACH_LANE (i, group)
			set_lane(w, in->d, i, (uint64_t)__builtin_ctz(rest));
		put_pred(w, in->op[0].second, rest & -rest, group);
	}
}

void decode_elect(Parser *p)
{
	Inst *in = p->in;

	take_mod(p, "sync");
	no_mods(p);
	need_operands(p, 2, 2);
	if (!in->op[0].has_second)
		parse_fail(p, "expected d|p");
	in->exec = exec_elect;
	in->cls = C_warp;
	in->d = dest_of(p, &in->op[0], T_b32, false);
	in->s[0] = slot_of(p, &in->op[1], T_b32, false);
}

/* ---- match ---- */

static void exec_match(Warp *w, const Inst *in, uint32_t mask)
{
	uint64_t v[32];
	uint32_t out[32], whole = 0;

	if (!members_here(w, in->s[1], mask))
		return;
	EACH_LANE (i, mask)
		v[i] = lane_at(w, in->s[0], i);
	EACH_LANE (i, mask) {
		uint32_t group = (uint32_t)lane_at(w, in->s[1], i) & mask;
		out[i] = 0;
		EACH_LANE (k, group)
			out[i] |= (uint32_t)(v[i] == v[k]) << k;
		whole |= (uint32_t)(out[i] == group) << i;
		if (in->flag && out[i] != group)
			out[i] = 0;
	}
	put_lanes(w, in->d, out, mask);
	if (in->op[0].has_second)
		put_pred(w, in->op[0].second, whole, mask);
}

void decode_match(Parser *p)
{
	Inst *in = p->in;
	Type t;

	take_mod(p, "sync");
	in->flag = take_mod(p, "all");
	bool any = take_mod(p, "any");
	/* match.any.sync.b32 */
	t = take_type(p);
	no_mods(p);
	need_operands(p, 3, 3);
	if (in->flag == any)
		parse_fail(p, "%s is not supported", in->text);
	in->exec = exec_match;
	in->cls = C_warp;
	in->d = dest_of(p, &in->op[0], T_b32, false);
	in->s[0] = slot_of(p, &in->op[1], t, false);
	in->s[1] = slot_of(p, &in->op[2], T_b32, false);
}

/* ---- redux ---- */

enum { REDUX_ADD, REDUX_MIN, REDUX_MAX, REDUX_AND, REDUX_OR, REDUX_XOR };

static uint32_t join(int how, bool is_signed, uint32_t a, uint32_t b)
{
	bool less = is_signed ? (int32_t)a < (int32_t)b : a < b;

	switch (how) {
	case REDUX_ADD: return a + b;
	case REDUX_MIN: return less ? a : b;
	case REDUX_MAX: return less ? b : a;
	case REDUX_AND: return a & b;
	case REDUX_OR: return a | b;
	default: return a ^ b;
	}
}

static void exec_redux(Warp *w, const Inst *in, uint32_t mask)
{
	uint32_t left = mask, group;

	if (!members_here(w, in->s[1], mask))
		return;
	while ((group = next_group(w, in->s[1], &left))) {
		uint32_t r = (uint32_t)lane_at(w, in->s[0], __builtin_ctz(group));
		EACH_LANE (i, group & (group - 1))
			r = join(in->sub, in->flag, r, (uint32_t)lane_at(w, in->s[0], i));
		EACH_LANE (i, group)
			set_lane(w, in->d, i, r);
	}
}

void decode_redux(Parser *p)
{
	static const char *const ops[] = {"add", "min", "max", "and", "or", "xor", NULL};
	Inst *in = p->in;
	Type t = take_type(p);

	take_mod(p, "sync");
	int op = take_choice(p, ops);
	no_mods(p);
	need_operands(p, 3, 3);
	if (op < 0 || type_size(t) != 4 || type_kind(t) == 'f')
		parse_fail(p, "%s is not supported", in->text);
	in->exec = exec_redux;
	in->cls = C_warp;
	in->sub = (uint8_t)op;
	in->flag = type_kind(t) == 's';
	in->d = dest_of(p, &in->op[0], t, false);
	in->s[0] = slot_of(p, &in->op[1], t, false);
	in->s[1] = slot_of(p, &in->op[2], T_b32, false);
}
