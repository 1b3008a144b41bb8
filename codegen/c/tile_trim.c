/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tile computes from its rows of A to leave out terms.
 *
 * Tile.trim in ir/loop/loop.h: finds the terms whose weights are not 0, in blocks from both ends. A
 * block is searched in vectors of the weights' bits: all bits but the sign are 0 only in 0 and -0,
 * so NaN counts as another weight. The last block may overlap the one before it. All limits but the
 * last term are multiples of a block, and so is TILE_DEPTH; so the sum is divided at the same terms
 * as without limits. Where the first row has other weights at both ends, as without a mask, there
 * is nothing to search.
 *
 * Tile.squares: sums the squares of the rows, of f32, in any order.
 */
#include "codegen/c/tile.h"

#include "codegen/c/expr.h"

enum { BLOCK_BYTES = 128 };

const char *c_tile_trim(GenC *g, const Tile *t)
{
	g->trims[t->ct] = true;
	return arena_printf(g->arena, "tile_trim_%s", ctype_name[t->ct]);
}

static void trim_function(StrBuf *b, CType ct)
{
	const int bytes = dtype_info[ctype_dtype(ct)].bits / 8, block = BLOCK_BYTES / bytes;
	const char *name = ctype_name[ct], *type = c_type(ct);

	strbuf_printf(
		b,
		"/* One of ROWS rows of weights has a number other than 0 among the %d from AT on. */\n"
		"static inline int tile_weighs_%s(const %s *a, const int64_t *row, int64_t rows, int64_t at)\n{\n"
		"\ttypedef uint%d_t block __attribute__((vector_size(%d), aligned(%d), may_alias));\n"
		"\tblock bits = {0};\n"
		"\tuint64_t any[%d];\n\n"
		"\tfor (int64_t i = 0; i < rows; i++)\n"
		"\t\tbits |= *(const block *)(a + row[i] + at);\n"
		"\tbits <<= 1;\n"
		"\t__builtin_memcpy(any, &bits, sizeof any);\n"
		"\tfor (int i = 1; i < %d; i++)\n"
		"\t\tany[0] |= any[i];\n"
		"\treturn any[0] != 0;\n}\n\n",
		block, name, type, bytes * 8, BLOCK_BYTES, bytes, BLOCK_BYTES / 8, BLOCK_BYTES / 8);
	strbuf_printf(
		b,
		"static DL_APART void tile_search_%s(const %s *a, const int64_t *row, int64_t rows, int64_t *from, int64_t *to)\n{\n"
		"\tint64_t first = 0, end = *to;\n\n"
		"\tif (end >= %d && !tile_weighs_%s(a, row, rows, end - %d)) {\n"
		"\t\tend = (end - 1) / %d * %d;\n"
		"\t\twhile (end > 0 && !tile_weighs_%s(a, row, rows, end - %d))\n"
		"\t\t\tend -= %d;\n"
		"\t}\n"
		"\twhile (first + %d <= end && !tile_weighs_%s(a, row, rows, first))\n"
		"\t\tfirst += %d;\n"
		"\t*from = first;\n\t*to = end;\n}\n\n",
		name, type, block, name, block, block, block, name, block, block, block, name,
		block);
	strbuf_printf(
		b,
		"static inline void tile_trim_%s(const %s *a, const int64_t *row, int64_t rows, int64_t *from, int64_t *to)\n{\n"
		"\tif (*to > 0 && a[row[0]] != 0 && a[row[0] + *to - 1] != 0)\n"
		"\t\t*from = 0;\n"
		"\telse\n"
		"\t\ttile_search_%s(a, row, rows, from, to);\n}\n\n",
		name, type, name);
}

const char *c_tile_squares(GenC *g)
{
	g->squares = true;
	return "tile_squares";
}

static void squares_function(StrBuf *b)
{
	const int block = BLOCK_BYTES / (int)sizeof(float);

	strbuf_printf(
		b,
		"static DL_APART float tile_squares(const float *a, const int64_t *row, int64_t rows, int64_t k)\n{\n"
		"\ttypedef float block __attribute__((vector_size(%d), aligned(4), may_alias));\n"
		"\tblock sums = {0};\n"
		"\tfloat sum = 0;\n\n"
		"\tfor (int64_t i = 0; i < rows; i++) {\n"
		"\t\tconst float *x = a + row[i], *end = x + k;\n\n"
		"\t\tfor (; end - x >= %d; x += %d)\n"
		"\t\t\tsums += *(const block *)x * *(const block *)x;\n"
		"\t\tfor (; x < end; x++)\n"
		"\t\t\tsum += *x * *x;\n"
		"\t}\n"
		"\tfor (int i = 0; i < %d; i++)\n"
		"\t\tsum += sums[i];\n"
		"\treturn sum;\n}\n\n",
		BLOCK_BYTES, block, block, block);
}

void c_tile_look_functions(const GenC *g, StrBuf *b)
{
	for (int ct = 0; ct < CT_COUNT; ct++)
		if (g->trims[ct])
			trim_function(b, (CType)ct);
	if (g->squares)
		squares_function(b);
}
