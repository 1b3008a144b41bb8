/* SPDX-License-Identifier: Apache-2.0 */
/* Execution of instructions, by family. An ExecFn that another file must know is named here. */
#ifndef TOOLS_PTXSIM_EXEC_H
#define TOOLS_PTXSIM_EXEC_H

#include "tools/ptxsim/cuda_api.h"
#include "tools/ptxsim/parse.h"
#include "tools/ptxsim/warp.h"

static inline void *slot_at(const Warp *w, Slot s)
{
	return w->bank[s.bank] + s.at;
}

static inline uint32_t pred_at(const Warp *w, Slot s)
{
	uint32_t bits = *(const uint32_t *)slot_at(w, s);
	return s.negated ? ~bits : bits;
}

/* Element LANE of S, zero-extended. */
static inline uint64_t lane_at(const Warp *w, Slot s, int lane)
{
	const uint8_t *p = slot_at(w, s);
	switch (s.size) {
	case 1: return p[lane];
	case 2: return ((const uint16_t *)p)[lane];
	case 4: return ((const uint32_t *)p)[lane];
	case 8: return ((const uint64_t *)p)[lane];
	default: return pred_at(w, s) >> lane & 1;
	}
}

static inline void set_lane(const Warp *w, Slot s, int lane, uint64_t v)
{
	uint8_t *p = slot_at(w, s);
	if (s.none)
		return;
	switch (s.size) {
	case 1: p[lane] = (uint8_t)v; break;
	case 2: ((uint16_t *)p)[lane] = (uint16_t)v; break;
	case 4: ((uint32_t *)p)[lane] = (uint32_t)v; break;
	case 8: ((uint64_t *)p)[lane] = v; break;
	default: *(uint32_t *)p = (*(uint32_t *)p & ~(1u << lane)) | (uint32_t)(v & 1) << lane;
	}
}

/* For each lane of a mask. */
#define EACH_LANE(i, m)                                       \
	for (uint32_t m_##i = (m); m_##i; m_##i &= m_##i - 1) \
		for (int i = __builtin_ctz(m_##i), once_##i = 1; once_##i; once_##i = 0)

/* ---- run.c ---- */
/* Copies SRC to D in the lanes of MASK. */
void put_lanes(const Warp *w, Slot d, const void *src, uint32_t mask);
void put_pred(const Warp *w, Slot d, uint32_t bits, uint32_t mask);
void run_block(Worker *k);
void warp_begin(Worker *k, int id, uint32_t live);
void trace(const Warp *w, uint32_t mask);

/* ---- control.c ---- */
/* Functions that run, and where. */
void frame_push(Warp *w, const Func *f, const Inst *call, uint32_t mask);
void frame_pop(Warp *w);
/* Lanes in MASK end. */
void end_lanes(Warp *w, uint32_t mask);
ExecFn exec_bra, exec_brx, exec_ret, exec_exit, exec_trap, exec_call, exec_nop;

/* ---- data.c ---- */
/* Rows of isa.def, and where a variable is for this warp. */
ExecFn exec_map, exec_map_float;
uint64_t var_address(const Warp *w, const Var *v);

/* ---- access.c ---- */
/* The LEN bytes at ADDR of a space for one lane, checked in every way; the host's
 * address. */
typedef enum Access {
	READ = 1,
	WRITE = 2,
	ATOMIC = 4,
	STRONG = 8,  /* volatile or with an order: no race with others of the kind */
	SILENT = 16, /* bounds and alignment only */
	LANDS = 64,  /* it is data that cp.async copied */
	ASYNC = 128, /* by the async proxy */
	SAME = 32    /* continues with the access that the instruction recorded */
} Access;
uint8_t *access_at(Warp *w, int lane, Space space, uint64_t addr, unsigned len, int how);
/* The space that a generic ADDR is in, and its address there. */
Space space_of(uint64_t addr, uint64_t *within);

/* The address of each lane. */
void addresses(const Warp *w, const Operand *op, uint64_t out[32]);
void count_access(Warp *w, Space space, const uint64_t addr[32], uint32_t mask, unsigned len,
		  bool store);

/* ---- wgmma.c ---- */
/* Faults if the warps of a warpgroup have not begun equally many products. */
void wgmma_end(Worker *k);

/* ---- async.c ---- */
/* One of the bulk copies lands; LAST: the block has ended, and none may be on its way. */
void bulk_land(Block *b, bool last);

/* ---- sync.c ---- */
/* No warp can run: faults. */
_Noreturn void barrier_stuck(Block *b);
/* The lanes in MASK are at an instruction where the lanes WANTED must be. True: they are. False:
 * other lanes run first, and the instruction is executed again; if there are no other lanes, it is
 * a fault whose text begins with WHAT. */
bool all_here(Warp *w, uint32_t wanted, uint32_t mask, const char *what);
/* Splits MASK by the masks of members in slot S: the next group; 0: none is left. */
uint32_t next_group(const Warp *w, Slot s, uint32_t *left);
/* All members that a lane in MASK names are there; as all_here. */
bool members_here(Warp *w, Slot s, uint32_t mask);

#endif
