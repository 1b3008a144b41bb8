/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles of products on GPUs for which the number of rows or columns is unknown, over a grid of the
 * sizes that are known. Of a schedule's variants, which are for different numbers of results, none
 * has a larger tile than a variant for more results; that for rows of whole vectors has other
 * accesses, and its own tile. If a tile with half as many rows or columns would cover all that is
 * known of that side, the smaller tile is used.
 */
#include "codegen/targets.h"
#include "passes/schedule/common/decision.h"
#include "passes/schedule/gpu/gpu.h"

#include <stdlib.h>

enum { ROWS = 16, COLUMNS = 32 }; /* the smallest tile */

static int failed;
static Diag diag = {.limit = 100};

/* The known number of columns or rows, N, and of terms, K. */
static const struct TileForm {
	const char *what, *text;
	bool columns;
} forms[] = {
	{"columns",
	 "kernel @k(%%x: %1$s[M,%3$d], %%y: %1$s[%3$d,%2$d]) -> (%%z: %1$s[M,%2$d]) {\n"
	 "  z[m,n] = sum mul(x[m,k], y[k,n]) for m < M, n < %2$d over k < %3$d\n}",
	 true},
	{"rows",
	 "kernel @k(%%x: %1$s[%3$d,M], %%y: %1$s[%2$d,%3$d]) -> (%%z: %1$s[%2$d,M]) {\n"
	 "  z[n,m] = sum mul(x[k,m], y[n,k]) for n < %2$d, m < M over k < %3$d\n}",
	 false},
};

static bool half_would_do(int side, int n, int fewest)
{
	return side > fewest && side / 2 >= n;
}

static void test_form(const struct TileForm *f, const char *gpu, const char *type, int n, int terms)
{
	StrBuf b = {0};
	const Target *t = target_by_name(gpu);
	Module m = {.arena = arena_new(), .ctx = ctx_new(&diag)};
	Decision d = {.strategy = STRATEGY_GPU_PRODUCT};
	const GpuProductDecision *p = &d.gpu_product;
	const char *text;
	int line = 1, results = 0;

	strbuf_printf(&b, f->text, type, n, terms);
	text = strbuf_str(&b);
	if (!gpu_product_choose(t, kernel_parse(m.ctx, m.arena, &text, &line), &d)) {
		printf("test_tiles.c: %s, %s, %d %s, %d terms: no tile\n", gpu, type, n, f->what,
		       terms);
		failed++;
	}
	for (int i = 0; i < p->n; i++) {
		const ProductVariant *v = &p->variant[i];
		const int bm = v->s.bm, bn = v->s.bn;
		const char *fault = v->skinny ? NULL
				    : !v->multiples && bm * bn < results
					    ? "is smaller than for fewer results"
				    : (f->columns ? half_would_do(bn, n, COLUMNS)
						  : half_would_do(bm, n, ROWS))
					    ? "is half empty"
					    : NULL;

		if (fault)
			printf("test_tiles.c: %s, %s, %d %s, %d terms: variant %d %s\n", gpu, type,
			       n, f->what, terms, i, fault);
		failed += fault != NULL;
		results = v->skinny || v->multiples ? results : bm * bn;
	}
	strbuf_free(&b);
	ctx_free(m.ctx);
	arena_free(m.arena);
}

int main(void)
{
	static const char *const gpus[] = {"sm_75", "sm_80", "sm_90a", "sm_120"}, *const types[] = {
											  "f32",
											  "f16"};
	static const int known[] = {10, 16, 24, 32, 48, 64, 100, 128, 192, 320, 768, 3072},
			 terms[] = {32, 288, 1024};

	for (size_t i = 0; i < 2 * 4 * 2 * 12 * 3; i++)
		test_form(&forms[i % 2], gpus[i / 2 % 4], types[i / 8 % 2], known[i / 16 % 12],
			  terms[i / 192]);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
