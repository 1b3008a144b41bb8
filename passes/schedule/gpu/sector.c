/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alignment of accesses on GPUs. Memory moves whole sectors of 32 bytes, and a thread accesses at
 * most 16 bytes at a time, at a multiple of the access's size. Where rows begin within a sector,
 * each access of a warp would touch one sector more than it needs. So strategies peel the first
 * access: lanes begin at the sector's boundary, and the first ones have no element. Rows of 50 f32
 * (200 bytes) begin 0, 8, 16 or 24 bytes after a boundary, and every fourth row begins alike.
 */
#include "passes/schedule/gpu/gpu_impl.h"

int64_t gpu_sector(int bytes)
{
	return SECTOR / bytes;
}

int gpu_vector(int bytes, int most)
{
	return VECTOR_BYTES / bytes < most ? VECTOR_BYTES / bytes : most;
}

int64_t gpu_divides(Ctx *c, Dim *d, int64_t most)
{
	while (most > 1 && !dim_multiple(c, d, most))
		most /= 2;
	return most;
}

int64_t gpu_aligned(Ctx *c, const Affine *at, const Iter *but, int64_t most)
{
	while (most > 1 && !affine_aligned(c, at, but, most))
		most /= 2;
	return most;
}

int64_t gpu_period(int64_t bytes)
{
	int64_t n = SECTOR;

	while (n > 1 && bytes * (n / 2) % SECTOR == 0)
		n /= 2;
	return n;
}

Expr *gpu_peel(LBuild *b, Expr *at, Iter *const *it, Expr *const *first, int n, int bytes)
{
	return ex_op2(b->p, IN_mod, ex_subst_iters(b->p, at, it, first, n),
		      l_int(b, gpu_sector(bytes)));
}
