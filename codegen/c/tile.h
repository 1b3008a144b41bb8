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
/* Prints the micro-kernels that were used. */
void c_tiles(GenC *g, StrBuf *b);

/* ---- tile_scaled.c ---- */

/* Prints the function KEY_ROWS, the micro-kernel for ROWS rows of T, whose B is quantised. */
void c_tile_scaled(const GenC *g, StrBuf *b, const Tile *t, const char *key, int rows);

/* ---- tile_rows.c ---- */

/* As c_tile_scaled, where A is quantised, too. PARAMETERS are those from B on. */
void c_tile_scaled_rows(const GenC *g, StrBuf *b, const Tile *t, const char *key, int rows,
			const char *parameters);

#endif
