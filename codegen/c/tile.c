/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The micro-kernel acc[i][j] = sum over k of a(i, k) * b(k, j), for a tile of mr rows by nr
 * columns. It is an outer product for each k, with the accumulators in vector registers, A
 * broadcast, and B from a panel. It uses GNU vector types, from which gcc and clang generate the
 * same code. Contraction to fma is enabled for these sums of products alone (the rule of `mad`). A
 * tile with few valid rows runs a shorter function.
 */
#include "codegen/c/tile.h"

#include "codegen/c/expr.h"

#include <string.h>

const char *c_tile_use(GenC *g, const Tile *t)
{
	const char *key = arena_printf(g->arena, "tile_%s_%dx%d", ctype_name[t->ct], t->mr, t->nr);

	for (int i = 0; i < g->tiles.n; i++)
		if (!strcmp(g->tiles.at[i], key))
			return g->tiles.at[i];
	vec_push(g->arena, &g->tiles, key);
	vec_push(g->arena, &g->tile, *t);
	return key;
}

static void rows_function(GenC *g, StrBuf *b, const Tile *t, const char *key, int rows)
{
	const char *type = c_type(t->ct);
	int esize = dtype_info[ctype_dtype(t->ct)].bits / 8,
	    lanes = g->target->vector_bytes / esize;
	int nv;

	if (lanes > t->nr)
		lanes = t->nr;
	nv = t->nr / lanes;
	strbuf_printf(
		b,
		"DL_CONTRACT static void %s_%d(int64_t n, int first, const %s *a, const int64_t *row, int64_t a_step,\n"
		"\t\tconst %s *b, int64_t b_step, const %s *ahead, int64_t ahead_step, %s *acc)\n{\n\tDL_CONTRACT_ON\n",
		key, rows, type, type, type, type);
	strbuf_printf(
		b, "\ttypedef %s vec __attribute__((vector_size(%d), aligned(%d), may_alias));\n",
		type, lanes * esize, esize);
	for (int i = 0; i < rows; i++)
		strbuf_printf(b, "\tconst %s *a%d = a + row[%d];\n", type, i, i);
	strbuf_printf(
		b,
		"\n\tfor (int64_t k = 0; first || k < n; first = 0) {\n\t\tconst int64_t end = n - k > %d ? k + %d : n;\n",
		TILE_DEPTH, TILE_DEPTH);
	for (int i = 0; i < rows; i++) {
		strbuf_puts(b, "\t\tvec ");
		for (int j = 0; j < nv; j++)
			strbuf_printf(b, "%sc%d_%d = {0}", j ? ", " : "", i, j);
		strbuf_puts(b, ";\n");
	}
	strbuf_puts(b, "\n\t\tfor (; k < end; k++) {\n");
	for (int j = 0; j < nv; j++)
		strbuf_printf(b, "\t\t\tconst vec b%d = *(const vec *)(b + %d);\n", j, j * lanes);
	for (int i = 0; i < rows; i++) {
		for (int j = 0; j < nv; j++)
			strbuf_printf(b, "\t\t\tc%d_%d += *a%d * b%d;\n", i, j, i, j);
		strbuf_printf(b, "\t\t\ta%d += a_step;\n", i);
	}
	strbuf_puts(
		b,
		"\t\t\t__builtin_prefetch(ahead, 0, 2);\n\t\t\tahead += ahead_step;\n\t\t\tb += b_step;\n\t\t}\n\t\tif (!first) {\n");
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < nv; j++)
			strbuf_printf(b, "\t\t\tc%d_%d += *(const vec *)(acc + %d);\n", i, j,
				      i * t->nr + j * lanes);
	strbuf_puts(b, "\t\t}\n");
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < nv; j++)
			strbuf_printf(b, "\t\t*(vec *)(acc + %d) = c%d_%d;\n",
				      i * t->nr + j * lanes, i, j);
	strbuf_puts(b, "\t}\n");
	strbuf_puts(b, "}\n\n");
}

static void tile_function(GenC *g, StrBuf *b, const Tile *t, const char *key)
{
	const char *type = c_type(t->ct);
	int sizes[8], n = 0;

	for (int r = t->mr; r >= 1; r = r > 4 ? 4 : r > 2 ? 2 : r - 1) {
		sizes[n++] = r;
		rows_function(g, b, t, key, r);
	}
	strbuf_printf(
		b,
		"static inline void %s(int64_t valid, int64_t n, int first, const %s *a, const int64_t *row, int64_t a_step,\n"
		"\t\tconst %s *b, int64_t b_step, const %s *ahead, int64_t ahead_step, %s *acc)\n{\n",
		key, type, type, type, type);
	for (int i = 0; i < n; i++) {
		strbuf_puts(b, i ? "\telse" : "\t");
		if (i + 1 < n)
			strbuf_printf(b, "%sif (valid > %d)", i ? " " : "", sizes[i + 1]);
		if (n == 1)
			strbuf_puts(b, "(void)valid;\n\t\t");
		strbuf_printf(
			b,
			"%s%s_%d(n, first, a, row, a_step, b, b_step, ahead, ahead_step, acc);\n",
			n == 1 ? "" : "\n\t\t", key, sizes[i]);
	}
	strbuf_puts(b, "}\n\n");
}

void c_tiles(GenC *g, StrBuf *b)
{
	for (int i = 0; i < g->tiles.n; i++)
		tile_function(g, b, &g->tile.at[i], g->tiles.at[i]);
}
