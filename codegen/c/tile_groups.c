/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The micro-kernel over groups of few columns, each with runs of its own (TileRuns.shift in
 * ir/loop/loop.h). A run of a row is one vector, the terms of all groups. It is multiplied by one
 * vector of B for each column of a group, into sums of its own. At the end the sums are permuted
 * within the groups and added: lane j of sum d belongs to column (j + d) % TERMS.
 */
#include "codegen/c/tile.h"

#include "codegen/c/gen_c_impl.h"

/* Row I of the tile: the sum of its vectors, each moved to the lanes of its columns. */
static void put_row(StrBuf *b, int i, int lanes, int terms)
{
	strbuf_printf(b, "\t*(vec *)(acc + %d) = c%d_0", i * lanes, i);
	for (int d = 1; d < terms; d++) {
		strbuf_printf(b, "\n\t\t+ __builtin_shufflevector(c%d_%d, c%d_%d", i, d, i, d);
		for (int j = 0; j < lanes; j++)
			strbuf_printf(b, ", %d", j / terms * terms + (j + terms - d) % terms);
		strbuf_puts(b, ")");
	}
	strbuf_puts(b, ";\n");
}

void c_tile_groups(StrBuf *b, const Tile *t, const char *name)
{
	const int terms = (int)t->by_runs.terms->i;

	strbuf_printf(
		b,
		"DL_CONTRACT static void %s(int64_t n, const float *const *row, int64_t row_step, int64_t shift,\n"
		"\t\tconst float *b, int64_t b_step, float *acc)\n{\n"
		"\tDL_CONTRACT_ON\n"
		"\ttypedef float vec __attribute__((vector_size(%d), aligned(4), may_alias));\n",
		name, t->nr * 4);
	for (int i = 0; i < t->mr; i++) {
		strbuf_puts(b, "\tvec ");
		for (int d = 0; d < terms; d++)
			strbuf_printf(b, "%sc%d_%d = {0}", d ? ", " : "", i, d);
		strbuf_puts(b, ";\n");
	}
	strbuf_printf(b, "\n\tfor (int64_t k = 0; k < n; k += %d, row += row_step) {\n", terms);
	for (int i = 0; i < t->mr; i++)
		strbuf_printf(b, "\t\tconst vec a%d = *(const vec *)(row[%d] + shift);\n", i, i);
	for (int d = 0; d < terms; d++) {
		strbuf_printf(b, "\t\tconst vec b%d = *(const vec *)b;\n", d);
		for (int i = 0; i < t->mr; i++)
			strbuf_printf(b, "\t\tc%d_%d += a%d * b%d;\n", i, d, i, d);
		strbuf_puts(b, "\t\tb += b_step;\n");
	}
	strbuf_puts(b, "\t}\n");
	for (int i = 0; i < t->mr; i++)
		put_row(b, i, t->nr, terms);
	strbuf_puts(b, "}\n\n");
}
