/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles of products on GPUs for which the number of rows or columns is unknown, over a grid of the
 * sizes that are known. Of a schedule's variants, which are for different numbers of results, none
 * has a larger tile than a variant for more results. If a tile with half as many rows or columns
 * would cover all that is known of that side, the smaller tile is used.
 */
#include "codegen/targets.h"
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

/* The first product of tiles among N and the nodes after it. */
static const TileNode *find_tile(const LNode *n)
{
	for (; n; n = n->next) {
		const TileNode *in = n->kind == LN_OP && n->op->op == TILE_DOT ? n->op
									       : find_tile(n->body);

		if (in)
			return in;
	}
	return NULL;
}

/* K's tile for the runs of STEP (null: all); null: it has none. */
static const TileNode *tile_of(const Module *m, const Target *t, Kernel *k, const SizeStep *step)
{
	Schedule *s = NEW(m->arena, Schedule);
	const TileNode *tile = NULL;

	s->kernel = kernel_clone(k, m->arena);
	if (step)
		s->where = *step;
	sched_gpu(&m->opt, t, s->kernel, s);
	for (int i = 0; i < s->stages.n && !tile; i++)
		tile = find_tile(s->stages.at[i]->body);
	return tile;
}

static int side_of(const TileNode *tile, int i)
{
	int64_t v = 0;

	if (tile)
		dim_is_const(tile->it[i]->extent, &v);
	return (int)v;
}

static bool half_would_do(int side, int n, int fewest)
{
	return side > fewest && side / 2 >= n;
}

static void test_form(const struct TileForm *f, const char *gpu, const char *type, int n, int terms)
{
	StrBuf b = {0};
	const Target *t = target_by_name(gpu);
	Module m = {.arena = arena_new(), .ctx = ctx_new(&diag)};
	SizeStep step[MOST_STEPS];
	const char *text;
	int line = 1, steps, results = 0;
	Kernel *k;

	strbuf_printf(&b, f->text, type, n, terms);
	text = strbuf_str(&b);
	k = kernel_parse(m.ctx, m.arena, &text, &line);
	steps = sched_gpu_steps(&m.opt, t, k, step);
	for (int i = 0; i <= steps; i++) {
		const TileNode *tile = tile_of(&m, t, k, i < steps ? &step[i] : NULL);
		const int bm = side_of(tile, 0), bn = side_of(tile, 1);
		const char *fault = !tile && i == steps ? "has no tile"
				    : !tile             ? NULL
				    : bm * bn < results ? "is smaller than for fewer results"
				    : (f->columns ? half_would_do(bn, n, COLUMNS)
						  : half_would_do(bm, n, ROWS))
					    ? "is half empty"
					    : NULL;

		if (fault)
			printf("test_tiles.c: %s, %s, %d %s, %d terms: variant %d %s\n", gpu, type,
			       n, f->what, terms, i, fault);
		failed += fault != NULL;
		results = tile ? bm * bn : results;
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
