/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a block's shared memory: which bytes were written, and by which warp and when they
 * were last used, so that two unordered uses are found in whatever order they ran.
 *
 * Time is a vector clock over warps (Flanagan and Freund, "FastTrack"): warp->clock[v] is the last
 * moment of warp v whose actions this warp has seen. A barrier joins the clocks of those that meet
 * there; every warp then begins a new moment. Threads of one warp are ordered by bar.warp.sync and
 * by barriers only. A cell, as large as the smallest access of the module, keeps the last writer
 * and two readers of different warps, each as a tag of moment, warp and lane.
 */
#ifndef TOOLS_PTXSIM_SHADOW_H
#define TOOLS_PTXSIM_SHADOW_H

#include "tools/ptxsim/exec.h"

enum { BYTE_POISON, BYTE_WRITTEN, BYTE_PENDING, BYTE_NOBODYS };
enum { WHOLE_WARP = 63 }; /* a lane: several of the warp */

Shadow *shadow_new(void);
/* A block begins: SIZE bytes that nobody has touched; no access is smaller than GRANULE. The
 * warps' clocks start. */
void shadow_begin(Shadow *s, uint32_t size, uint32_t granule, Warp *const *warps, int n_warps);
/* LEN bytes at AT belong to no variable. */
void shadow_close(Shadow *s, uint32_t at, uint32_t len);
/* Lane (or WHOLE_WARP) uses LEN bytes at AT; faults where that conflicts, or where bytes are
 * read that were never written. */
void shadow_use(Warp *w, int lane, uint32_t at, uint32_t len, int how);
/* A byte range waits for cp.async: whoever reads it faults. */
void shadow_pend(Warp *w, int lane, uint32_t at, uint32_t len);
/* The warp begins a new moment. */
void shadow_tick(Warp *w);
/* Adds FROM's clocks to TO's. */
void shadow_join(uint32_t to[MAX_WARPS], const uint32_t from[MAX_WARPS]);

#endif
