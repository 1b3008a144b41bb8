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
 *
 * Bulk copies and wgmma access memory by another path, the async proxy (ASYNC): what a store or
 * cp.async wrote is unreadable for them, and may not be overwritten, before a fence.proxy.async
 * that follows it. What a bulk copy wrote has a tag of its own, whose moments are those at which
 * copies land; an mbarrier passes them on.
 */
#ifndef TOOLS_PTXSIM_SHADOW_H
#define TOOLS_PTXSIM_SHADOW_H

#include "tools/ptxsim/exec.h"

enum { BYTE_POISON, BYTE_WRITTEN, BYTE_PENDING, BYTE_BULK, BYTE_NOBODYS };
enum { WHOLE_WARP = 63, BULK_COPY = 62 }; /* lanes: several of the warp; a bulk copy */

Shadow *shadow_new(void);
/* A block begins: SIZE bytes that nobody has touched; no access is smaller than GRANULE. The
 * warps' clocks start. */
void shadow_begin(Shadow *s, uint32_t size, uint32_t granule, Warp *const *warps, int n_warps);
/* LEN bytes at AT belong to no variable. */
void shadow_close(Shadow *s, uint32_t at, uint32_t len);
/* Lane (or WHOLE_WARP) uses LEN bytes at AT; faults where that conflicts, or where bytes are
 * read that were never written. */
void shadow_use(Warp *w, int lane, uint32_t at, uint32_t len, int how);
/* A byte range waits for a copy: whoever reads it faults. */
void shadow_pend(Warp *w, int lane, uint32_t at, uint32_t len, int how);
/* The warp begins a new moment. */
void shadow_tick(Warp *w);
/* Adds FROM's clocks to TO's. */
void shadow_join(Seen *to, const Seen *from);
/* fence.proxy.async by a warp: what it wrote, and what it saw written, is visible to asynchronous
 * operations. */
void shadow_fence(Warp *w);
/* A bulk copy lands: LEN bytes at AT are written; returns the moment. */
uint32_t shadow_land(Block *b, uint32_t at, uint32_t len);

#endif
