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
	const char *key = arena_printf(g->arena, "tile_%s_%dx%d%s", ctype_name[t->ct], t->mr, t->nr,
				       t->runs ? "_runs" : "");

	for (int i = 0; i < g->tiles.n; i++)
		if (!strcmp(g->tiles.at[i], key))
			return g->tiles.at[i];
	vec_push(g->arena, &g->tiles, key);
	vec_push(g->arena, &g->tile, *t);
	return key;
}

/* The parameters of a micro-kernel between "n, first, a" and "b": how A is read. */
static void put_parameters(StrBuf *b, const Tile *t, const char *type)
{
	if (t->runs)
		strbuf_printf(
			b,
			"const %s *edge, const int64_t *row, int64_t row_step, int64_t run, int64_t k0, int64_t a_step,\n",
			type);
	else
		strbuf_puts(b, "const int64_t *row, int64_t a_step,\n");
}

/* The loop over terms k to END of a tile whose rows of A start at a0, a1 and so on. */
static void put_terms(StrBuf *b, int rows, int nv, int lanes, const char *end, const char *tabs)
{
	strbuf_printf(b, "\n%sfor (; k < %s; k++) {\n", tabs, end);
	for (int j = 0; j < nv; j++)
		strbuf_printf(b, "%s\tconst vec b%d = *(const vec *)(b + %d);\n", tabs, j,
			      j * lanes);
	for (int i = 0; i < rows; i++) {
		for (int j = 0; j < nv; j++)
			strbuf_printf(b, "%s\tc%d_%d += *a%d * b%d;\n", tabs, i, j, i, j);
		strbuf_printf(b, "%s\ta%d += a_step;\n", tabs, i);
	}
	strbuf_printf(
		b,
		"%s\t__builtin_prefetch(ahead, 0, 2);\n%s\tahead += ahead_step;\n%s\tb += b_step;\n%s}\n",
		tabs, tabs, tabs, tabs);
}

/* As put_terms, by runs of A's rows: the current one has terms left until k is LAST. */
static void put_runs(StrBuf *b, const Tile *t, int rows, int nv, int lanes)
{
	const char *type = c_type(t->ct);

	strbuf_puts(
		b,
		"\n\t\twhile (k < end) {\n\t\t\tconst int64_t last = end - k < run - in ? end : k + run - in;\n");
	for (int i = 0; i < rows; i++) {
		strbuf_printf(b, "\t\t\tconst %s *a%d = in * a_step + ", type, i);
		strbuf_printf(b,
			      t->edge ? "(row[%d] < 0 ? edge - 1 - row[%d] : a + row[%d]);\n"
				      : "(a + row[%d]);\n",
			      i, i, i);
	}
	strbuf_puts(b, "\n\t\t\tin += last - k;\n");
	put_terms(b, rows, nv, lanes, "last", "\t\t\t");
	strbuf_puts(
		b,
		"\t\t\tif (in == run) {\n\t\t\t\tin = 0;\n\t\t\t\trow += row_step;\n\t\t\t}\n\t\t}\n");
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
	strbuf_printf(b, "DL_CONTRACT static void %s_%d(int64_t n, int first, const %s *a, ", key,
		      rows, type);
	put_parameters(b, t, type);
	strbuf_printf(
		b,
		"\t\tconst %s *b, int64_t b_step, const %s *ahead, int64_t ahead_step, %s *acc)\n{\n\tDL_CONTRACT_ON\n",
		type, type, type);
	strbuf_printf(
		b, "\ttypedef %s vec __attribute__((vector_size(%d), aligned(%d), may_alias));\n",
		type, lanes * esize, esize);
	if (t->runs)
		strbuf_printf(b, "\tint64_t in = k0 %% run;\n%s\n\trow += k0 / run * row_step;\n",
			      t->edge ? "" : "\n\t(void)edge;");
	for (int i = 0; i < rows && !t->runs; i++)
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
	if (t->runs)
		put_runs(b, t, rows, nv, lanes);
	else
		put_terms(b, rows, nv, lanes, "end", "\t\t");
	strbuf_puts(b, "\t\tif (!first) {\n");
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
	const char *type = c_type(t->ct),
		   *how = t->runs ? "edge, row, row_step, run, k0, a_step" : "row, a_step";
	int sizes[8], n = 0;

	for (int r = t->mr; r >= 1; r = r > 4 ? 4 : r > 2 ? 2 : r - 1) {
		sizes[n++] = r;
		rows_function(g, b, t, key, r);
	}
	strbuf_printf(b, "static inline void %s(int64_t valid, int64_t n, int first, const %s *a, ",
		      key, type);
	put_parameters(b, t, type);
	strbuf_printf(
		b,
		"\t\tconst %s *b, int64_t b_step, const %s *ahead, int64_t ahead_step, %s *acc)\n{\n",
		type, type, type);
	for (int i = 0; i < n; i++) {
		strbuf_puts(b, i ? "\telse" : "\t");
		if (i + 1 < n)
			strbuf_printf(b, "%sif (valid > %d)", i ? " " : "", sizes[i + 1]);
		if (n == 1)
			strbuf_puts(b, "(void)valid;\n\t\t");
		strbuf_printf(b, "%s%s_%d(n, first, a, %s, b, b_step, ahead, ahead_step, acc);\n",
			      n == 1 ? "" : "\n\t\t", key, sizes[i], how);
	}
	strbuf_puts(b, "}\n\n");
}

void c_tiles(GenC *g, StrBuf *b)
{
	for (int i = 0; i < g->tiles.n; i++)
		tile_function(g, b, &g->tile.at[i], g->tiles.at[i]);
}
