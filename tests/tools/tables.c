/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the numbers from which tests/edges.py makes its cases.
 *
 * tables            the CPUs whose code this machine can run, one a line tables GPU        gpu
 * capability N sms N shared N registers N threads N: of an SM tables TARGET
 *
 * block TYPE ROWS COLUMNS PANEL LANES   sizes at which the loops of a contraction end depth N, row
 * N, window N              the same for a tile over k, a row, a small window channels N, slide N,
 * side N           the same for pools over channels: channels, positions, positions at once op NAME
 * KIND LEAST MOST TYPES         number of operands, and the types of the first as in ops/op.h
 */
#include "codegen/c/tile.h"
#include "codegen/targets.h"
#include "ops/op.h"
#include "passes/schedule/common/gemm.h"
#include "passes/forms/product.h"
#include "passes/schedule/cpu/cpu.h"
#include "passes/schedule/cpu/row_impl.h"
#include "passes/schedule/cpu/row_impl.h"

#include <stdio.h>

static const struct {
	const char *name;
	CType ct;
} types[] = {{"f32", CT_F32}, {"f64", CT_F64}, {"i32", CT_I32}, {"i64", CT_I64}};

static void list_targets(void)
{
	const Target *own = target_by_name("native");

	for (const Target *t = target_table; t->name; t++)
		if (!t->gpu && (t->features & own->features) == t->features)
			printf("%s\n", t->name);
}

int main(int argc, char **argv)
{
	const Target *t = argc == 2 ? target_by_name(argv[1]) : NULL;

	if (argc == 1)
		return list_targets(), 0;
	if (!t)
		return fputs("usage: tables [TARGET]\n", stderr), 1;
	if (t->gpu)
		return printf("gpu capability %d sms %d shared %d registers %d threads %d lanes %d f32 %d f16 %d\n",
			      t->gpu->sm, t->gpu->sms, t->gpu->shared, t->gpu->registers,
			      t->gpu->threads, t->gpu->lanes, t->gpu->f32, t->gpu->f16) < 0;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		const int64_t bytes = dtype_info[ctype_dtype(types[i].ct)].bits / 8,
			      panel = product_panel(&t, 1, types[i].ct);
		int64_t mr, nr;

		gemm_tile(t, types[i].ct, panel, &mr, &nr);
		printf("block %s %lld %lld %lld %lld\n", types[i].name, (long long)mr,
		       (long long)nr, (long long)panel, (long long)(t->vector_bytes / bytes));
	}
	printf("depth %d\nrow %d\nwindow %d\n", TILE_DEPTH, ROW_BLOCK, SHORT_LOOP);
	printf("channels %d\nslide %d\nside %d\n", STENCIL_BLOCK, TILE_POINTS, STENCIL_POINTS);
	for (int i = 0; i < OP_COUNT; i++)
		if (op_table[i] && op_table[i]->types && !(op_row[i].flags & OPF_INTERNAL))
			printf("op %s %s %d %d %s\n", op_row[i].name,
			       op_table[i]->scalar ? "elementwise" : "other", op_row[i].nin_min,
			       op_row[i].nin_max, op_table[i]->types);
	return 0;
}
