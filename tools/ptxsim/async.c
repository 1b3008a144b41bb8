/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cp.async: a copy waits in its warp and lands when its thread waits for its group, not before.
 * Until then the bytes are marked as pending, so that whoever reads them is told. A bulk copy waits
 * in its block, lands at some time while a thread asks an mbarrier, and then its bytes arrive.
 */
#include "tools/ptxsim/async.h"
#include "tools/ptxsim/decode.h"
#include "tools/ptxsim/shadow.h"

#include <stdlib.h>
#include <string.h>

enum { BULK_UNIT = 16, SECTOR = 32 }; /* bytes: a bulk copy is of multiples of BULK_UNIT */

static void begin_copy(Warp *w, Copy c)
{
	if (w->n_copies == w->cap_copies) {
		w->cap_copies = w->cap_copies ? 2 * w->cap_copies : 256;
		w->copy = realloc(w->copy, (size_t)w->cap_copies * sizeof *w->copy);
		if (!w->copy)
			abort();
	}
	w->copy[w->n_copies++] = c;
}

static void land(Warp *w, const Copy *c)
{
	const Inst *now = w->in;

	w->in = c->in;
	uint8_t *to = access_at(w, c->lane, SP_SHARED, c->to, c->size, WRITE | LANDS);
	memset(to, 0, c->size);
	if (c->filled == c->size)
		memcpy(to, access_at(w, c->lane, SP_GLOBAL, c->from, c->size, READ), c->size);
	for (uint32_t i = 0; i < c->filled && c->filled < c->size; i++)
		to[i] = *access_at(w, c->lane, SP_GLOBAL, c->from + i, 1, READ);
	w->in = now;
}

void async_land(Warp *w, uint32_t lanes, uint32_t open)
{
	int kept = 0;

	for (int i = 0; i < w->n_copies; i++) {
		Copy c = w->copy[i];
		if (lanes >> c.lane & 1 && (open == ASYNC_ALL || c.group + open < w->group[c.lane]))
			land(w, &c);
		else
			w->copy[kept++] = c;
	}
	w->n_copies = kept;
}

/* [to], [from], bytes, bytes that are copied: S[0], or none where S[1] says so */
static void exec_copy(Warp *w, const Inst *in, uint32_t mask)
{
	uint64_t to[32], from[32];
	uint32_t read = 0, skip = in->s[1].none ? 0 : pred_at(w, in->s[1]);
	unsigned size = (unsigned)in->imm;
	Counters *count = &w->block->worker->count;

	addresses(w, &in->op[0], to);
	addresses(w, &in->op[1], from);
	EACH_LANE (i, mask) {
		Copy c = {.from = from[i],
			  .to = (uint32_t)to[i],
			  .size = size,
			  .filled = size,
			  .group = w->group[i],
			  .lane = i,
			  .in = in};
		if (!in->s[0].none)
			c.filled = (uint32_t)lane_at(w, in->s[0], i);
		if (skip >> i & 1)
			c.filled = 0;
		if (c.filled > size)
			fault(w, i, CUDA_ERROR_LAUNCH_FAILED, "copies %u bytes of %u", c.filled,
			      size);
		access_at(w, i, SP_SHARED, to[i], size, WRITE | SILENT);
		if (c.filled) {
			read |= 1u << i;
			if (from[i] % size)
				fault(w, i, CUDA_ERROR_MISALIGNED_ADDRESS,
				      "misaligned: copies %u bytes from 0x%llx", size,
				      (unsigned long long)from[i]);
			access_at(w, i, SP_GLOBAL, from[i], 1, READ | SILENT);
			access_at(w, i, SP_GLOBAL, from[i] + c.filled - 1, 1, READ | SILENT);
		}
		shadow_pend(w, i, c.to, size, 0);
		begin_copy(w, c);
	}
	count->async_copies += (unsigned)__builtin_popcount(mask);
	count_shared(count, to, mask, size, true);
	if (read)
		count_global(count, from, read, size, false);
}

/* [to], [from], S[0]: bytes, [mbarrier] */
static void exec_bulk(Warp *w, const Inst *in, uint32_t mask)
{
	uint64_t to[32], from[32], mbar[32], within;
	Block *b = w->block;

	addresses(w, &in->op[0], to);
	addresses(w, &in->op[1], from);
	addresses(w, &in->op[3], mbar);
	EACH_LANE (i, mask) {
		const uint32_t size = (uint32_t)lane_at(w, in->s[0], i);
		const Mbar *m = mbar_at(w, i, mbar[i]);
		if (space_of(to[i], &within) == SP_SHARED)
			to[i] = within;
		if (!size || (to[i] | from[i] | size) % BULK_UNIT)
			fault(w, i, CUDA_ERROR_MISALIGNED_ADDRESS,
			      "misaligned: copies %u bytes from 0x%llx to %llu of shared memory",
			      size, (unsigned long long)from[i], (unsigned long long)to[i]);
		if (b->n_bulk == N_BULK)
			fault(w, i, CUDA_ERROR_LAUNCH_FAILED, "more than %d bulk copies", N_BULK);
		shadow_use(w, i, m->at, 8, READ | STRONG | ASYNC);
		for (uint32_t at = 0; at < size; at += BULK_UNIT)
			access_at(w, i, SP_SHARED, to[i] + at, BULK_UNIT, WRITE | SILENT);
		shadow_pend(w, i, (uint32_t)to[i], size, ASYNC);
		b->bulk[b->n_bulk++] = (Bulk){.from = from[i],
					      .to = (uint32_t)to[i],
					      .size = size,
					      .mbar = m->at,
					      .warp = w->id,
					      .lane = i,
					      .in = in};
		b->worker->count.global_load_requests++;
		b->worker->count.global_load_bytes += size;
		b->worker->count.global_load_sectors += size / SECTOR;
		b->worker->count.global_load_sectors_fewest += size / SECTOR;
	}
}

void bulk_land(Block *b, bool last)
{
	const int which = b->n_bulk ? (int)draw(b, (uint32_t)b->n_bulk) : 0;
	const Bulk c = b->bulk[which];
	Warp *w = b->worker->warp[c.warp];
	const Inst *now = w->in;

	if (!b->n_bulk)
		return;
	w->in = c.in;
	if (last)
		fault(w, c.lane, CUDA_ERROR_LAUNCH_FAILED,
		      "the block ends before this bulk copy has landed");
	b->bulk[which] = b->bulk[--b->n_bulk];
	for (uint32_t at = 0; at < c.size; at += BULK_UNIT)
		memcpy(b->shared + c.to + at,
		       access_at(w, c.lane, SP_GLOBAL, c.from + at, BULK_UNIT, READ), BULK_UNIT);
	mbar_complete(mbar_at(w, c.lane, c.mbar), c.size, shadow_land(b, c.to, c.size));
	w->in = now;
}

static void exec_commit(Warp *w, const Inst *in, uint32_t mask)
{
	(void)in;
	EACH_LANE (i, mask)
		w->group[i]++;
}

static void exec_wait(Warp *w, const Inst *in, uint32_t mask)
{
	async_land(w, mask, (uint32_t)in->imm);
}

static void decode_bulk(Parser *p)
{
	Inst *in = p->in;
	bool known = take_mod(p, "shared::cluster") || take_mod(p, "shared::cta");

	known = take_mod(p, "global") && take_mod(p, "mbarrier::complete_tx::bytes") && known;
	take_hints(p);
	no_mods(p);
	need_operands(p, 4, 5);
	if (!known || in->op[0].kind != O_ADDR || in->op[1].kind != O_ADDR ||
	    in->op[3].kind != O_ADDR)
		parse_fail(p, "%s is not supported", in->text);
	in->s[0] = slot_of(p, &in->op[2], T_u32, false);
	note_granule(p, SP_SHARED, 8);
	in->exec = exec_bulk;
}

static void decode_copy(Parser *p)
{
	Inst *in = p->in;

	need_operands(p, 3, 5);
	bool cg = take_mod(p, "cg"), ca = take_mod(p, "ca");
	take_hints(p);
	if (!take_mod(p, "shared"))
		take_mod(p, "shared::cta");
	take_mod(p, "global");
	no_mods(p);
	if (cg == ca || in->op[0].kind != O_ADDR || in->op[1].kind != O_ADDR ||
	    in->op[2].kind != O_IMM)
		parse_fail(p, "%s is not supported", in->text);
	in->imm = (int64_t)in->op[2].bits;
	if (in->imm != 16 && (cg || (in->imm != 4 && in->imm != 8)))
		parse_fail(p, "%s of %d bytes", in->text, (int)in->imm);
	in->s[0].none = in->s[1].none = true;
	if (in->n_op > 3 && in->op[3].kind == O_SLOT && in->op[3].slot.size == 0)
		in->s[1] = pred_of(p, &in->op[3]);
	else if (in->n_op > 3 && !(in->op[3].kind == O_SLOT && in->op[3].slot.size == 8))
		in->s[0] = slot_of(p, &in->op[3], T_u32, false);
	note_granule(p, SP_SHARED, (unsigned)in->imm);
	in->exec = exec_copy;
}

void decode_cp(Parser *p)
{
	Inst *in = p->in;

	in->cls = C_async;
	if (!take_mod(p, "async"))
		parse_fail(p, "%s is not supported", in->text);
	if (take_mod(p, "bulk")) {
		decode_bulk(p);
		return;
	}
	if (take_mod(p, "commit_group")) {
		need_operands(p, 0, 0);
		in->exec = exec_commit;
	} else if (take_mod(p, "wait_all")) {
		need_operands(p, 0, 0);
		in->imm = (int64_t)ASYNC_ALL;
		in->exec = exec_wait;
	} else if (take_mod(p, "wait_group")) {
		need_operands(p, 1, 1);
		if (in->op[0].kind != O_IMM)
			parse_fail(p, "expected a number");
		in->imm = (int64_t)in->op[0].bits;
		in->exec = exec_wait;
	} else if (take_mod(p, "mbarrier")) {
		decode_async_arrive(p);
		return;
	} else {
		decode_copy(p);
		return;
	}
	no_mods(p);
}
