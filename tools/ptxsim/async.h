/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that are on their way, and the mbarriers that wait for them. */
#ifndef TOOLS_PTXSIM_ASYNC_H
#define TOOLS_PTXSIM_ASYNC_H

#include "tools/ptxsim/parse.h"
#include "tools/ptxsim/warp.h"

/* For async_land: no group remains open, not even the one that was not committed. */
static const uint32_t ASYNC_ALL = UINT32_MAX;

/* The copies of the LANES land, but those of each lane's last OPEN groups. */
void async_land(Warp *w, uint32_t lanes, uint32_t open);

/* ---- mbarrier.c ---- */
/* The mbarrier at ADDR of shared memory, which an instruction of the lane names, or faults. */
Mbar *mbar_at(Warp *w, int lane, uint64_t addr);
/* BYTES have arrived at M, at moment MOMENT of bulk copies. */
void mbar_complete(Mbar *m, uint32_t bytes, uint32_t moment);
/* cp.async.mbarrier.arrive */
void decode_async_arrive(Parser *p);

#endif
