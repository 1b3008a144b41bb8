/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that finds, from a tile's rows of A, the terms that it may leave out.
 *
 * TileMask.trim in ir/loop/loop.h: finds the terms whose weights are not 0, in blocks from both
 * ends. A block is searched in vectors of the weights' bits: all bits but the sign are 0 only in 0
 * and -0, so NaN counts as another weight. The last block may overlap the one before it. All limits
 * but the last term are multiples of a block, and so is TILE_DEPTH; so the sum is divided at the
 * same terms as without limits. Where the first row has other weights at both ends, as without a
 * mask, there is nothing to search.
 *
 * TileMask.squares: sums the squares of the rows, of f32, in any order.
 */
#include "codegen/c/tile.h"

#include "codegen/c/expr.h"
#include "codegen/c/text.h"

enum { BLOCK_BYTES = 128 }; /* as in kernel.h.in */

const char *c_tile_trim(GenC *g, const Tile *t)
{
	g->trims[t->ct] = true;
	return arena_printf(g->arena, "tile_trim_%s", ctype_name[t->ct]);
}

static void trim_function(const GenC *g, StrBuf *b, CType ct)
{
	const int bytes = ctype_bytes(ct);

	strbuf_puts(b, c_text(g->arena, "trim",
			      C_WORDS({"NAME", ctype_name[ct], 0}, {"TYPE", c_type(ct), 0},
				      {"SIZE", NULL, bytes}, {"BITS", NULL, bytes * 8},
				      {"BLOCK", NULL, BLOCK_BYTES / bytes})));
}

const char *c_tile_squares(GenC *g)
{
	g->squares = true;
	return "tile_squares";
}

void c_tile_look_functions(const GenC *g, StrBuf *b)
{
	for (int ct = 0; ct < CT_COUNT; ct++)
		if (g->trims[ct])
			trim_function(g, b, (CType)ct);
	if (g->squares)
		strbuf_puts(b, c_text(g->arena, "squares", NULL));
}
