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
/* cp.async.mbarrier.arrive */
void decode_async_arrive(Parser *p);

#endif
