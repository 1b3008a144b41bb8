/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how a CPU computes attention, and says which decisions of a user are legal. The tile is a
 * product's. What has whole rows, the scores, the weights and what is in between, is in half of L2.
 */
#include "passes/schedule/cpu/gemm_attention.h"

#include "base/round.h"
#include "passes/schedule/cpu/cpu.h"

enum {
	/* Rows whose scores a thread has in memory at once, at most. The rows of a mask that are
	 * read beside them lie in as many pages, whose lines a CPU fetches ahead if they are
	 * few. On one with 1 MiB of L2, attention over 1,024 keys with a mask took 43.9 ms with
	 * 64 and 32 rows and 38.9 with 16, without a mask 35.6, 35.3 and 35.2. */
	ATTENTION_ROWS = 16
};

/* Rows of the scores, and of all temporaries like them, that fit into half of L2. */
static int64_t rows_in_cache(const Target *t, const AttentionForm *a)
{
	const int64_t bytes = ctype_bytes(a->scores.c.ct);
	int64_t n, fit;

	if (!dim_is_const(a->scores.n, &n) || n <= 0)
		return ATTENTION_ROWS;
	fit = t->l2 / 2 / (attention_row_temps(a) * n * bytes);
	return fit < 1 ? 1 : fit > ATTENTION_ROWS ? ATTENTION_ROWS : fit;
}

/* Rows of a block: all of them, so that keys and values are packed once; fewer where there are not
 * enough batches for all cores. */
static int64_t rows_of_block(const Target *t, AttentionForm *a)
{
	int64_t m, batches, each;

	if (!dim_is_const(a->scores.m, &m) ||
	    !dim_is_const(iters_points(a->k->ctx, a->scores.outer, a->scores.nouter), &batches))
		return PACKED_ROWS;
	if (batches < 1)
		return m;
	each = ceil_div(t->cores, batches);
	return ceil_div(m, each);
}

bool attention_choose(const Target *t, Kernel *k, Decision *d)
{
	AttentionDecision *x = &d->attention;
	AttentionForm a;
	int64_t m;

	if (!attention_begin(&a, k))
		return false;
	*x = (AttentionDecision){.pack_a = gemm_packs_a(&a.scores)};
	if (a.scores.nouter)
		x->parallel[x->nparallel++] = PRODUCT_G;
	x->parallel[x->nparallel++] = PRODUCT_M;
	gemm_choose_tile(t, &a.scores, &x->mr, &x->nr);
	x->rows = rows_in_cache(t, &a);
	if (dim_is_const(a.scores.m, &m) && m < x->rows)
		x->rows = m > 0 ? m : 1;
	x->rows = round_up(x->rows, x->mr);
	x->mc = round_up(rows_of_block(t, &a), x->rows);
	x->mc = x->mc ? x->mc : x->rows;
	x->fetch = attention_may_fetch(&a);
	d->grain = (int64_t)t->wake * TERMS_PER_NS;
	return true;
}

bool attention_legal(const Target *t, Kernel *k, const Decision *d, StrBuf *why)
{
	enum { MOST_ROWS = 1 << 16 };
	const AttentionDecision *x = &d->attention;
	AttentionForm a;

	if (!attention_begin(&a, k))
		return decision_refuse(why, "the kernel is not an attention");
	if (!x->pack_a && !a.scores.a_direct)
		return decision_refuse(
			why,
			"the rows of the first product have no constant stride along the sum, so they have to be packed");
	for (int i = 0; i < x->nparallel; i++)
		if (x->parallel[i] == PRODUCT_G && !a.scores.nouter)
			return decision_refuse(why, "the attention has no batch iterator g");
	if (x->fetch && !attention_may_fetch(&a))
		return decision_refuse(
			why,
			"there is nothing to fetch for a next batch: no batch iterator g, or no contiguous keys and values");
	if (x->rows % x->mr)
		return decision_refuse(why, "%lld rows are not a multiple of the tile of %lld",
				       (long long)x->rows, (long long)x->mr);
	if (x->mc % x->rows)
		return decision_refuse(
			why, "a block of %lld rows is not a multiple of the %lld rows in memory",
			(long long)x->mc, (long long)x->rows);
	if (x->mc > MOST_ROWS)
		return decision_refuse(why, "a block of %lld rows is larger than %d",
				       (long long)x->mc, MOST_ROWS);
	return gemm_tile_is_legal(t, &a.scores, x->mr, x->nr, why);
}

void attention_offer(Offers *o, Kernel *k, const Decision *base)
{
	const AttentionDecision *b = &base->attention;
	const int64_t rows[] = {b->rows * 2, round_up((b->rows + 1) / 2, b->mr), b->mr},
		      blocks[] = {b->mc * 2, (b->mc + 1) / 2, (b->mc + 3) / 4};

	(void)k;
	if (b->fetch) {
		Decision d = *base;

		d.attention.fetch = false;
		offer_add(o, &d, 1);
	}
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		Decision d = *base;

		d.attention.rows = rows[i];
		d.attention.mc = round_up(b->mc, rows[i]);
		offer_add(o, &d, 1);
	}
	for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
		Decision d = *base;

		d.attention.mc = round_up(blocks[i], b->rows);
		offer_add(o, &d, 1);
	}
}
