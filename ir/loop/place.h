/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the elements of a tile lie on a GPU: in shared memory, or distributed over the warps, lanes
 * and registers of a block. A layout is a list of axes. The index of an element in dim d is the
 * sum, over the axes of d, of digit * stride. At each place the digits of its axes, outermost
 * first, form one number: the register, the lane, the warp; in memory an address.
 *
 * The sums of `mma.m16n8k16`, for example, are 16 rows by 8 columns:
 *
 *	0 lane 8*1, 1 lane 4*2, 0 reg 2*8, 1 reg 2*1
 *
 * so register 2*i + j of lane 4*g + t has row g + 8*i and column 2*t + j. An axis of dim -1 changes
 * no index: lanes or warps with other digits have copies.
 *
 * In shared memory an axis may be xored: its digit in the address is the element's xor that of the
 * axis before it, of the same extent, a power of two. So 8 rows of 128 bytes, whose pieces of 16
 * bytes are xored with the row, have all pieces of one column in different banks:
 *
 *	0 at 8*1+128, 1 at 8*8^+16, 1 at 8*1+2
 *
 * Only place.c knows how layouts compose. It enumerates the threads of a block, so it is exact.
 */
#ifndef IR_LOOP_PLACE_H
#define IR_LOOP_PLACE_H

#include "ir/expr/expr.h"

typedef enum TilePlace { AT_ADDRESS, AT_REGISTER, AT_LANE, AT_WARP, PLACES } TilePlace;

enum { MAX_AXES = 16, TILE_RANK = 3, WARP_LANES = 32 };

typedef struct TileAxis {
	int dim;
	int64_t stride, extent;
	int64_t pitch; /* AT_ADDRESS: bytes from one digit to the next, with padding; else 0 */
	bool xored;    /* AT_ADDRESS */
	TilePlace at;
} TileAxis;

typedef struct TileLayout {
	int rank, n;
	TileAxis axis[MAX_AXES];
	int64_t first[TILE_RANK]; /* added to the indices: which part of a tile is read */
} TileLayout;

/* How the elements get from one layout in registers to another. */
typedef enum TileChange {
	CHANGE_NOTHING, /* each register holds the same element in both */
	CHANGE_RENAME, /* each thread has all it needs, in other registers, the same in all threads */
	CHANGE_OTHER   /* other threads have it, or a register that differs between threads */
} TileChange;

/* Appends an axis to L. */
void layout_add(TileLayout *l, int dim, TilePlace at, int64_t extent, int64_t stride,
		int64_t pitch);
/* Appends axes for RANK dims of EXTENT, all powers of two, so that adjacent threads of WARPS warps
 * have adjacent points: digits of the innermost dims are lanes, then warps, then registers. Threads
 * that are left have copies. */
void layout_spread(TileLayout *l, const int64_t *extent, int rank, int64_t warps);
/* Removes the axes of registers that hold copies of others. */
void layout_drop_copies(TileLayout *l);
/* The number of registers, of lanes or of warps of L. */
int64_t layout_count(const TileLayout *l, TilePlace at);
/* The extent of dim D: one more than the largest index. */
int64_t layout_extent_of(const TileLayout *l, int d);
/* The element in register REG of lane LANE of warp WARP; WARP and LANE count modulo those that L
 * has. */
void layout_element(const TileLayout *l, int64_t reg, int64_t lane, int64_t warp, int64_t *idx);
/* The byte address of an element of L, all of whose axes are AT_ADDRESS and do not overlap. */
int64_t layout_address(const TileLayout *l, const int64_t *idx);
/* The same of tile B in shared memory as an expression, in elements: ex_aligned_along sees where
 * VECTOR elements, from a multiple of VECTOR on, are contiguous. */
Expr *tile_flat_index(ExprPool *p, const Buf *b, Expr *const *idx, int vector);

/* The layout of an operand that a thread reads at its points: index D of the operand is INDEX[d],
 * an affine expression of the N iterators IT with constant coefficients and base, where IT[i] is
 * dim i of POINTS. Register r of the result is what the point in register r reads. False: an index
 * has another form, or two indices depend on one iterator. */
bool layout_of_operand(Ctx *c, Expr *const *index, int rank, Iter *const *it, int n,
		       const TileLayout *points, TileLayout *out);
/* The register of FROM that holds, in every thread, the element that register R of TO holds; -1:
 * there is none. Both have as many warps, or one of them has 1. */
int layout_register(const TileLayout *from, const TileLayout *to, int r);
TileChange layout_change(const TileLayout *from, const TileLayout *to);
/* The largest power of two, at most MOST, such that as many consecutive registers, from a multiple
 * of it on, are at consecutive addresses of elements of BYTES each, in every thread. */
int layout_vector_width(const TileLayout *registers, const TileLayout *address, int bytes,
			int most);
/* The lanes whose accesses of BYTES each shared memory serves at once if they need no different
 * words of one bank. */
int bank_lanes(int bytes);
/* How often it passes for those of N of these lanes, at the byte addresses AT. */
int bank_passes(const int64_t *at, int n, int bytes);

/* Whether a block has as many elements, registers, lanes and warps as L, and what is xored may
 * be. */
bool layout_fits(const TileLayout *l);

#endif
