/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mbarriers: phases of arrivals, and of bytes of bulk copies. An mbarrier is known by its address;
 * its 8 bytes in shared memory only tell that it was made. A state is the number of a phase.
 */
#include "tools/ptxsim/async.h"
#include "tools/ptxsim/decode.h"
#include "tools/ptxsim/shadow.h"

#include <string.h>

enum {
	MB_INIT,
	MB_INVAL,
	MB_ARRIVE,
	MB_ARRIVE_DROP,
	MB_TEST,
	MB_TRY,
	MB_EXPECT,
	MB_COMPLETE,
	MB_PENDING,
	MB_ASYNC
};

enum { BULK_WAITS = 4 }; /* questions, on average, until a bulk copy lands: as late as may be */

static Mbar *find(Warp *w, int lane, uint64_t addr, bool make)
{
	Block *b = w->block;
	uint64_t within = addr;

	if (space_of(addr, &within) != SP_SHARED)
		within = addr;
	access_at(w, lane, SP_SHARED, within, 8, WRITE | SILENT);
	for (int i = 0; i < b->n_mbars; i++)
		if (b->mbar[i].at == within && (b->mbar[i].valid || make))
			return &b->mbar[i];
	if (!make)
		fault(w, lane, CUDA_ERROR_LAUNCH_FAILED,
		      "there is no mbarrier at %llu of shared memory", (unsigned long long)within);
	if (b->n_mbars == N_MBARS)
		fault(w, lane, CUDA_ERROR_LAUNCH_FAILED, "more than %d mbarriers", N_MBARS);
	b->mbar[b->n_mbars] = (Mbar){.at = (uint32_t)within};
	return &b->mbar[b->n_mbars++];
}

static void settle(Mbar *m)
{
	if (m->pending || m->bytes)
		return;
	m->phase++;
	m->pending = m->expected;
	m->done = m->seen;
}

static void arrive(Warp *w, int lane, Mbar *m, uint32_t n)
{
	if (n > m->pending)
		fault(w, lane, CUDA_ERROR_LAUNCH_FAILED,
		      "%u arrive at an mbarrier, which waits for %u", n, m->pending);
	shadow_join(&m->seen, &w->seen);
	m->pending -= n;
	settle(m);
}

static bool is_done(Warp *w, const Inst *in, const Mbar *m, uint64_t v)
{
	bool done = in->flag ? (m->phase & 1) != (v & 1) : m->phase != (uint32_t)v;

	if (done)
		shadow_join(&w->seen, &m->done);
	return done;
}

Mbar *mbar_at(Warp *w, int lane, uint64_t addr)
{
	return find(w, lane, addr, false);
}

void mbar_complete(Mbar *m, uint32_t bytes, uint32_t moment)
{
	m->bytes -= bytes;
	m->seen.clock[MAX_WARPS] = moment;
	settle(m);
}

/* S[0]: a count, a state or a parity */
static void exec_mbarrier(Warp *w, const Inst *in, uint32_t mask)
{
	const Operand *addr = NULL;
	uint64_t at[32];
	uint32_t done = 0;

	for (int i = 0; i < in->n_op && !addr; i++)
		addr = in->op[i].kind == O_ADDR ? &in->op[i] : NULL;
	if (in->sub == MB_ASYNC)
		async_land(w, mask, ASYNC_ALL);
	if (addr)
		addresses(w, addr, at);
	if ((in->sub == MB_TEST || in->sub == MB_TRY) && !draw(w->block, BULK_WAITS))
		bulk_land(w->block, false);
	EACH_LANE (i, mask) {
		uint64_t v = in->s[0].none ? 1 : lane_at(w, in->s[0], i);
		Mbar *m = addr ? find(w, i, at[i], in->sub == MB_INIT) : NULL;
		switch (in->sub) {
		case MB_INIT:
			*m = (Mbar){.at = m->at,
				    .valid = true,
				    .expected = (uint32_t)v,
				    .pending = (uint32_t)v};
			shadow_use(w, i, m->at, 8, WRITE | STRONG);
			break;
		case MB_INVAL: m->valid = false; break;
		case MB_ARRIVE:
		case MB_ARRIVE_DROP:
			set_lane(w, in->d, i, m->phase);
			m->expected -= in->sub == MB_ARRIVE_DROP ? (uint32_t)v : 0;
			if (in->flag2) {
				m->bytes += (int64_t)v;
				v = 1;
			}
			arrive(w, i, m, (uint32_t)v);
			break;
		case MB_EXPECT: m->bytes += (int64_t)v; break;
		case MB_COMPLETE:
			m->bytes -= (int64_t)v;
			settle(m);
			break;
		case MB_PENDING: break;
		case MB_ASYNC:
			m->pending += !in->flag;
			arrive(w, i, m, 1);
			break;
		default: done |= (uint32_t)is_done(w, in, m, v) << i; break;
		}
	}
	if (in->sub == MB_ARRIVE || in->sub == MB_ARRIVE_DROP || in->sub == MB_ASYNC)
		shadow_tick(w);
	if (in->sub == MB_TEST || in->sub == MB_TRY)
		put_pred(w, in->d, done, mask);
}

static const char *const hints[] = {"shared",  "shared::cta", "b64",     "release", "acquire",
				    "relaxed", "cta",         "cluster", NULL};

void decode_mbarrier(Parser *p)
{
	static const char *const kinds[] = {"init",        "inval",       "arrive",
					    "arrive_drop", "test_wait",   "try_wait",
					    "expect_tx",   "complete_tx", NULL};
	Inst *in = p->in;

	in->flag2 = take_mod(p, "arrive") && take_mod(p, "expect_tx");
	bool plain = in->flag2 || !strcmp(in->text, "mbarrier.arrive") ||
		     str_starts(in->text, "mbarrier.arrive.");
	int kind = plain ? MB_ARRIVE : take_choice(p, kinds), at = 0;

	in->flag = take_mod(p, "parity");
	drop_mods(p, hints);
	no_mods(p);
	if (kind < 0)
		parse_fail(p, "%s is not supported", in->text);
	in->exec = exec_mbarrier;
	in->cls = C_sync;
	in->sub = (uint8_t)kind;
	in->s[0].none = true;
	need_operands(p, 1, 4);
	if (in->op[0].kind != O_ADDR)
		in->d = dest_of(p, &in->op[at++],
				kind == MB_TEST || kind == MB_TRY ? T_pred : T_b64, false);
	if (in->n_op <= at || in->op[at++].kind != O_ADDR)
		parse_fail(p, "expected an address");
	if (in->n_op > at)
		in->s[0] = slot_of(p, &in->op[at],
				   (kind == MB_TEST || kind == MB_TRY) && !in->flag ? T_b64 : T_b32,
				   false);
	note_granule(p, SP_SHARED, 8);
}

void decode_async_arrive(Parser *p)
{
	Inst *in = p->in;

	take_mod(p, "arrive");
	in->flag = take_mod(p, "noinc");
	drop_mods(p, hints);
	no_mods(p);
	need_operands(p, 1, 1);
	in->exec = exec_mbarrier;
	in->cls = C_async;
	in->sub = MB_ASYNC;
	in->s[0].none = true;
}
