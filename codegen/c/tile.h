/* SPDX-License-Identifier: Apache-2.0 */
/* The contraction micro-kernel as C: one function for each scalar type and tile shape, shared by
 * all kernels. */
#ifndef CODEGEN_C_TILE_H
#define CODEGEN_C_TILE_H

#include "codegen/c/gen_c.h"

/* Terms that are summed at a time, so that rounding errors grow with the number of such sums. */
enum { TILE_DEPTH = 512 };

/* Notes that the micro-kernel for T is used; returns its C name. */
const char *c_tile_use(GenC *g, const Tile *t);
/* The micro-kernel for T has the argument "rows", the rows of the product: few of them have several
 * sums for each element (Tile.rows in ir/loop/loop.h). */
bool c_tile_counts_rows(const GenC *g, const Tile *t);
/* T's micro-kernel skips runs that are outside of A's tensor in all rows. It then has an argument
 * for the address of the run of zeros that they start at. */
bool c_tile_skips(const GenC *g, const Tile *t);
/* The number of terms of a run of T, if T computes whole sums of few terms in whole runs; else 0.
 * Its micro-kernel then has no arguments for that number and for the first term. */
int c_tile_whole_runs(const Tile *t);
/* The C type of an element of T's table of runs, the address of a run's first term. */
const char *c_tile_run(const GenC *g, const Tile *t);
/* Prints the micro-kernels that functions of part FILE call. */
void c_tiles(GenC *g, StrBuf *b, int file);

/* Panels of quantised numbers. */
enum {
	WORD_BYTES = 4,
	/* bytes ahead of the current ones in the panel that are prefetched: of weights in
	 * memory, half as many or sixteen times as many took some 5 to 10% longer, as did every
	 * other line */
	FETCH_AHEAD = 4096
};

/* ---- tile_wide.c ---- */

/* Lanes of the vectors of T's sums. */
int c_tile_lanes(const GenC *g, const Tile *t);
/* B of T is of f16, and sums are of f32; or the scales of B are halves. */
bool c_tile_widens(const Tile *t);
/* The name of the function that reads a vector of T's halves, elements of B or scales, as
 * floats. */
const char *c_tile_wide(const GenC *g, const Tile *t);
/* Prints these functions, of all tiles. */
void c_tile_wide_functions(const GenC *g, StrBuf *b);

/* ---- tile_trim.c ---- */

/* Notes that the terms of T are limited to those with other weights than 0; returns the name of the
 * C function that finds them. */
const char *c_tile_trim(GenC *g, const Tile *t);
/* Notes that a tile needs the squares of its rows (TileMask.squares); returns the name of the C
 * function that sums them. */
const char *c_tile_squares(GenC *g);
/* Prints these functions, as far as they are in use. */
void c_tile_look_functions(const GenC *g, StrBuf *b);

/* ---- tile_dot.c ---- */

/* T multiplies bytes in pairs whose sums fit into 16 bits, in the order of its panel
 * (Tile.order). */
bool c_tile_pairs(const GenC *g, const Tile *t);
/* Prints the functions that multiply bytes and bf16, if a tile needs them. */
void c_tile_dot_functions(const GenC *g, StrBuf *b);

/* ---- tile_matrix.c ---- */

/* The name of the micro-kernel for T, which is in matrix registers. */
const char *c_tile_matrix_key(const GenC *g, const Tile *t);
/* The elements between T's rows of A, if they are at one stride; else null. */
Expr *c_tile_row_step(const GenC *g, const Tile *t);
/* T, in matrix registers by parts of f32, as a tile of vectors of few of its rows. */
Tile c_tile_in_vectors(const Tile *t);
/* Prints the functions that these micro-kernels call. */
void c_tile_matrix_functions(const GenC *g, StrBuf *b);
/* Prints the micro-kernel for T, the function NAME. */
void c_tile_matrix(GenC *g, StrBuf *b, const Tile *t, const char *name);

/* ---- tile_scaled.c ---- */

/* Prints the function NAME, the micro-kernel for ROWS rows of T, whose B is quantised, with SETS of
 * sums. PARAMETERS are those from B on. */
void c_tile_scaled(const GenC *g, StrBuf *b, const Tile *t, const char *name, int rows, int sets,
		   const char *parameters);

/* ---- tile_groups.c ---- */

/* Prints the function NAME, the micro-kernel of T, whose columns are in groups. */
void c_tile_groups(StrBuf *b, const Tile *t, const char *name);

/* ---- tile_rows.c ---- */

/* The same, where A is quantised, too: sums of integers, so that there is one for each element. */
void c_tile_scaled_rows(const GenC *g, StrBuf *b, const Tile *t, const char *name, int rows,
			const char *parameters);

#endif
