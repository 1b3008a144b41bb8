/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how a CPU computes a product, and says which decisions of a user are legal. Blocking
 * follows the analytic model of Low et al., "Analytical modeling is enough for high-performance
 * BLIS" (2016), in its simplest form: the rows of a block of A and a panel of B in half of L2, a
 * tile's accumulators in registers. A panel need not fit into L1: a tile takes more multiply-adds
 * for a row of it than a load from L2 takes.
 */
#include "passes/schedule/cpu/cpu.h"

#include "base/round.h"
#include "passes/schedule/cpu/gemm_impl.h"

enum {
	/* Rows of a tile by the number of vector registers: with two vectors of columns, the sums,
	 * a row of B and an element of A take 15 of 16 registers, or 19 of 32. */
	TILE_ROWS = 6,
	TILE_ROWS_MANY = 8,
	/* The same, of fewer than 32 registers, where B is quantised: its words, a row of floats
	 * and zero points take six registers more. And where bytes are multiplied in pairs:
	 * their products, and what masks and adds them, take registers, too. */
	TILE_ROWS_SCALED = 4,
	/* A tile of so many rows may do with one less: its sums still hide the latency of the
	 * multiply-add. */
	LEAST_TILE_ROWS = 6,
	/* Rows of a tile with one vector of columns. AVX2 computed a product of 8 columns at 93%
	 * of its roof with 8, at 87% with 10, and at 77% in tiles of 6x16 of which half is left
	 * out. */
	NARROW_ROWS = 8,
	/* The fewest words of terms for which matrix registers pay: 3136 rows by 64 columns took
	 * 0.87 of the time of vectors with six words of bytes, and 1.07 with four. */
	MATRIX_WORDS = 6,
	/* f32 in matrix registers, in hundredths of the time of a multiply-add in vectors: the six
	 * products of a term; splitting an element of A, which is read from memory or was packed,
	 * and of B; an element of a sum, which passes through memory before the maps after it. The
	 * product is computed so if its time is less than PARTS_GAIN hundredths. BERT's products of
	 * 64 rows took 0.99 of the time, of 80 rows 0.80, of 128 0.72, of 272 0.6; 3136 rows of 256
	 * terms by 64 columns 1.08, by 128 0.75; of 64 terms 1.0; im2col of 147 terms by 64 columns
	 * 1.4, of 1152 by 256 0.7. */
	PARTS_TERM = 47,
	PARTS_OF_A = 2700,
	PARTS_OF_PACKED_A = 6000,
	PARTS_OF_B = 2500,
	PARTS_OF_SUM = 2500,
	PARTS_GAIN = 95,
	/* Rows and columns of a block of f32 in matrix registers: each block of rows splits B
	 * again, and each block of columns A, so blocks have PARTS_ROWS and PARTS_COLUMNS, at
	 * least, unless that leaves cores without a block. They have PARTS_MOST_ROWS and
	 * PARTS_MOST_COLUMNS at most, so that their sums stay in L2. Terms of a part of the sum, at
	 * most: a panel's parts stay in L1. BERT of 128 tokens takes 1.09 of the time with blocks
	 * of 192 columns instead of 768, of 272 tokens 1.24 with blocks of 256 rows instead of 512;
	 * with parts of 256 terms instead of 96 a product of 128 rows takes 1.15 of the time. */
	PARTS_ROWS = 256,
	PARTS_COLUMNS = 256,
	PARTS_LEAST_COLUMNS = 64,
	PARTS_MOST_ROWS = 512,
	PARTS_MOST_COLUMNS = 512,
	PARTS_TERMS = 96,
	/* Rows and columns of a block, at most, where B is in panels already. So few rows are
	 * one block. Of more rows, or an unknown number, blocks are smaller, so that their
	 * results stay in L1 and L2, and a panel is read in longer parts: with 512 KiB of L2,
	 * one row took 0.8 to 0.9 of the time. */
	PRODUCT_ROWS = 128,
	PRODUCT_ROWS_MANY = 64,
	PRODUCT_COLUMNS = 128,
	/* Blocks of such a product, at least, where that leaves LEAST_TILES tiles of rows in
	 * each: of 16 blocks, two to four threads do shares that differ by little. */
	PRODUCT_BLOCKS = 16,
	/* Tiles of rows, at least, that share a panel of B in L1: it is read from L2 once for
	 * all. */
	LEAST_TILES = 2,
	/* Least rows of an image for which the number of rows is treated as known although the
	 * batch is symbolic: an image of 7x7 points has more. Of fewer, the run's sizes decide. */
	KNOWN_ROWS = 32,
	/* An element that another core has just written takes so many times as long to read as
	 * one of weights, which no core writes: 13 ns a cache line were measured, against 2 ns
	 * from L3. */
	REMOTE_COST = 5,
	/* So many rows are blocks enough for all cores: a block then has all columns, if B fits
	 * into L2, so that its results and its rows of A are contiguous in memory. */
	SPLIT_ROWS = 12 * PRODUCT_ROWS_MANY,
	/* Columns of a block of B that is packed: more do not save a pass over A that counts. */
	MOST_COLUMNS = 512
};

bool gemm_begin_as(Product *g, Kernel *k, const ProductDecision *d)
{
	if (!product_begin(g, k))
		return false;
	if (d->dot)
		product_use_dot(g);
	if (d->matrix)
		product_use_matrix(g);
	if (d->pack_a)
		product_pack_a(g);
	if (d->pack_b)
		product_pack_b(g);
	product_flatten(g);
	return true;
}

int64_t gemm_lanes(const Target *t, CType ct)
{
	return t->vector_bytes / dtype_bytes(ctype_dtype(ct));
}

bool axis_is_parallel(const ProductAxis *parallel, int n, ProductAxis x)
{
	for (int i = 0; i < n; i++)
		if (parallel[i] == x)
			return true;
	return false;
}

void gemm_tile(const Target *t, CType ct, int64_t pw, int64_t *mr, int64_t *nr)
{
	const int64_t columns = gemm_lanes(t, ct) * TILE_VECTORS;

	*mr = t->registers >= 32 ? TILE_ROWS_MANY : TILE_ROWS;
	*nr = columns < pw ? columns : pw;
}

/* Registers that a tile takes: its sums, a row of B, and one for elements of A. */
static int64_t tile_registers(int64_t mr, int64_t nr, int64_t lanes)
{
	return (mr + 1) * ceil_div(nr, lanes) + 1;
}

/* ---- The choice ---- */

/* D where every size that is unknown at compile time is 1, or its least value. */
static int64_t at_least(const Product *g, const Dim *d)
{
	int64_t v;

	return dim_least(g->k->ctx, d, &v) ? v : 1;
}

/* Only the run tells how many rows there are: an image of any size, a sequence. */
static bool rows_unknown(const Product *g)
{
	return !dim_is_const(g->m, NULL) && at_least(g, g->m) < KNOWN_ROWS;
}

/* A tile has one vector of columns if the product has no more. More rows make up for it. */
static void narrow_tile(const Target *t, const Product *g, int64_t *mr, int64_t *nr)
{
	const int64_t lanes = gemm_lanes(t, g->c.ct);
	int64_t n;

	if (!g->b_panels || !dim_is_const(g->n, &n) || n > lanes || *nr <= lanes)
		return;
	*nr = lanes;
	*mr = *mr < NARROW_ROWS ? NARROW_ROWS : *mr;
}

/* Rows of a tile of vectors across groups of COLUMNS: each has so many vectors of sums and one of
 * A, beside a row of B. */
static int64_t rows_of_groups(const Target *t, int64_t columns)
{
	return (t->registers - 1) / (columns + 1);
}

/* Fits the tile to M rows. The tiles get about equal numbers of rows: 4 and 3 of 7, rather than 6
 * and 1; one row less where then none is left over, as of 196. A tile of few rows has more columns
 * if the registers suffice, so that enough independent sums hide the latency of multiply-adds. */
static void fit_tile(const Target *t, const Product *g, int64_t m, int64_t *mr, int64_t *nr)
{
	const int64_t tiles = ceil_div(m, *mr), lanes = gemm_lanes(t, g->c.ct);
	int64_t n;

	*mr = ceil_div(m, tiles);
	if (m % *mr && *mr >= LEAST_TILE_ROWS && m % (*mr - 1) == 0)
		--*mr;
	if (dim_is_const(g->n, &n) && n <= *nr)
		return;
	while (*nr * 2 <= g->pw && (*mr + 1) * (*nr * 2 / lanes) < t->registers)
		*nr *= 2;
}

/* Whether the micro-kernel widens bytes to 16 bits in registers. */
static bool widens_bytes(const Target *t, const Product *g)
{
	return g->c.ct == CT_I32 && g->kpack > 1 && t->dot == DOT_PAIRS;
}

/* Matrix registers for all sums, as far as the product has rows and columns for them. */
static void matrix_tile(const Product *g, int64_t *mr, int64_t *nr)
{
	const int64_t side = MATRIX_SIDE, rows = rows_unknown(g) ? INT32_MAX : at_least(g, g->m);
	int64_t n;

	*nr = (dim_is_const(g->n, &n) && n <= side) || g->pw < 2 * side ? side : 2 * side;
	*mr = MATRIX_SUMS * side / (*nr / side);
	while (*mr > side && rows <= *mr - side)
		*mr -= side;
}

void gemm_choose_tile(const Target *t, const Product *g, int64_t *mr, int64_t *nr)
{
	const int64_t rows = at_least(g, g->m);

	if (product_by_parts(g)) {
		*mr = *nr = 2 * MATRIX_SIDE;
		return;
	}
	if (g->matrix) {
		matrix_tile(g, mr, nr);
		return;
	}
	gemm_tile(t, g->c.ct, g->pw, mr, nr);
	narrow_tile(t, g, mr, nr);
	if (g->group_columns) {
		*nr = gemm_lanes(t, g->c.ct);
		*mr = rows_of_groups(t, g->group_columns);
		return;
	}
	if (!rows_unknown(g)) /* the number of all rows, or of each image of a batch */
		fit_tile(t, g, rows > 0 ? rows : 1, mr, nr);
	if ((g->scale || widens_bytes(t, g)) && t->registers < 32 && *mr > TILE_ROWS_SCALED)
		*mr = TILE_ROWS_SCALED;
}

int64_t gemm_vector_rows(const Target *t, const Product *g)
{
	int64_t mr, nr;

	gemm_tile(t, g->c.ct, g->pw, &mr, &nr);
	return mr;
}

bool gemm_may_have_sums(const Product *g)
{
	return g->run == g->c.nk && !g->row_scale && !g->matrix && ctype_is_float(g->c.ct);
}

/* The most rows of a tile of G with NR columns that has several sums for each element; 0: none. */
static int64_t gemm_few_rows(const Target *t, const Product *g, int64_t nr)
{
	const int64_t vectors = (nr + gemm_lanes(t, g->c.ct) - 1) / gemm_lanes(t, g->c.ct);

	if (!gemm_may_have_sums(g))
		return 0;
	return (g->scale ? TILE_SUMS_SCALED : TILE_SUMS) / 2 / vectors;
}

/* A tile over quantised numbers makes floats of them again, so that two tiles for the last rows
 * gain nothing over one of few rows. */
int64_t gemm_rest(const Target *t, const Product *g, const ProductDecision *d)
{
	const int64_t few = g->scale ? 0 : gemm_few_rows(t, g, d->nr);
	int64_t m, left;

	if (!few || few >= d->mr || dim_multiple(g->k->ctx, g->m, d->mr))
		return 0;
	if (!dim_is_const(g->m, &m))
		return few;
	left = m % d->mr;
	return left <= few && m % d->mc > d->mr ? left : 0;
}

/* Rows of a block where B is packed: all rows, so that B's block is packed once. With too few
 * blocks of columns for all cores, rows are split too, and each block of rows packs B again. */
static int64_t packed_rows(const Target *t, const Product *g, const ProductDecision *d)
{
	int64_t rows = PACKED_ROWS, m, n, v, blocks = t->cores;

	if (dim_is_const(iters_points(g->k->ctx, g->outer, g->nouter), &v) &&
	    dim_is_const(g->n, &n)) {
		blocks = v * ceil_div(n, d->nc);
		if (blocks >= t->cores && dim_is_const(g->m, &m))
			rows = m;
	}
	if (dim_is_const(g->m, &m) && blocks < t->cores)
		rows = (m + 1) / 2;
	return round_up(rows < 1 ? 1 : rows, d->mr);
}

/* The number of elements that the operand A has in memory. */
static double elements_of_a(const Product *g)
{
	if (rows_unknown(g))
		return (double)PRODUCT_ROWS_MANY * (double)at_least(g, g->kk);
	if (g->c.a->kind != EX_LOAD)
		return (double)at_least(g, g->m) * (double)at_least(g, g->kk);
	return (double)at_least(g, buf_numel(g->k->ctx, g->c.a->load.buf));
}

/* Threads get blocks of rows, rather than of columns. Then all of them read B, which does not
 * change; else all of them read A, most of which other threads have just written, and the threads
 * that read the result by rows have not written their part of it. If the number of rows is unknown,
 * blocks of rows do no harm: few rows are one block, and its columns are split. */
static bool rows_first(const Product *g)
{
	const double m = (double)(rows_unknown(g) ? PRODUCT_ROWS_MANY : at_least(g, g->m)),
		     n = (double)at_least(g, g->n), kk = (double)at_least(g, g->kk);

	return (double)REMOTE_COST * (elements_of_a(g) + m * n) > kk * n;
}

/* Bits of an element of B in panels. */
static int64_t b_bits(const Product *g)
{
	return dtype_info[g->b_panels ? g->numbers->load.buf->dtype
				      : product_packed_type(g, g->c.b)]
		.bits;
}

/* Bits that a term takes in a block's rows of A and in a panel of B. */
static int64_t bits_of_term(const Product *g, const ProductDecision *d)
{
	return d->mc * dtype_info[product_packed_type(g, g->c.a)].bits + g->pw * b_bits(g);
}

/* All of B, which is in panels, fits into half of L2. */
static bool b_fits(const Target *t, const Product *g)
{
	int64_t n, kk;

	return dim_is_const(g->n, &n) && dim_is_const(g->kk, &kk) &&
	       n <= t->l2 / 2 * 8 / b_bits(g) / (kk > 0 ? kk : 1);
}

/* Makes the blocks of a product whose B is in panels small enough for an even split. Each block of
 * columns packs A again, unless it reads A in place; each block of rows reads B again, so only
 * those become smaller for which B is in L2. */
static void split_evenly(const Target *t, const Product *g, ProductDecision *d)
{
	const bool by_rows = d->parallel[d->nparallel - 1] == PRODUCT_N && !rows_unknown(g);
	const bool fits = b_fits(t, g);
	const int64_t m = at_least(g, g->m);
	int64_t n, blocks = 1, rows;

	if ((!by_rows || !fits) && dim_is_const(g->n, &n)) {
		const int64_t row_blocks = by_rows ? ceil_div(m, d->mc) : 1,
			      each = PRODUCT_BLOCKS / (row_blocks > 0 ? row_blocks : 1),
			      nc = round_up(each > 1 ? ceil_div(n, each) : n, g->pw);

		if (nc < d->nc && !d->pack_a)
			d->nc = nc;
		blocks = ceil_div(n, d->nc);
	}
	blocks = (PRODUCT_BLOCKS + blocks - 1) / (blocks > 0 ? blocks : 1);
	rows = round_up(ceil_div(m, blocks), d->mr);
	rows = rows < LEAST_TILES * d->mr ? LEAST_TILES * d->mr : rows;
	if (!rows_unknown(g) && rows < d->mc && fits)
		d->mc = rows;
}

/* Terms of a part of the sum; 0: all of them. The rows of a block and a panel take half of L2, or
 * up to three quarters if the sum is not split then: each part passes all sums of a panel through
 * memory. For that reason the parts are about equal, too. */
static int64_t part_of_sum(const Target *t, const Product *g, const ProductDecision *d)
{
	const int64_t most = t->l2 / 2 * 8 / bits_of_term(g, d);
	int64_t kk, steps, parts;

	if (!dim_is_const(g->kk, &kk) || !dim_is_const(g->steps, &steps) || kk * 2 <= most * 3 ||
	    kk % g->kpack)
		return 0;
	parts = ceil_div(kk, most);
	if (g->scale) {
		const int64_t step = product_part_step(g),
			      kc = round_up(round_up(ceil_div(kk, parts), DEPTH_STEP), step);

		return kc < kk ? kc : 0;
	}
	return round_up(ceil_div(steps, parts), DEPTH_STEP) * g->kpack;
}

/* Rows follow the same block of B, unless blocks of columns are the inner loop or the rows are one
 * block. */
static ProductFetch choose_fetch(const Product *g, const ProductDecision *d)
{
	const bool by_rows = d->parallel[d->nparallel - 1] == PRODUCT_N;
	int64_t m, n;

	if ((dim_is_const(g->m, &m) && m <= d->mc) ||
	    (by_rows && !(dim_is_const(g->n, &n) && n <= d->nc)))
		return FETCH_PANEL;
	return FETCH_ROWS;
}

/* A block of ALL rows or columns, a multiple of UNIT: of COUNT blocks, if they have LEAST to
 * MOST. */
static int64_t even_block(int64_t all, int64_t count, int64_t least, int64_t most, int64_t unit)
{
	int64_t each = ceil_div(all, count < 1 ? 1 : count);

	each = each < least ? least : each > most ? most : each;
	return round_up(ceil_div(all, ceil_div(all, each)), unit);
}

/* Blocks whose operands are split into parts. */
static void choose_parts(const Target *t, const Product *g, ProductDecision *d)
{
	int64_t m, n = 0, kk, blocks = at_least(g, iters_points(g->k->ctx, g->outer, g->nouter));

	gemm_choose_tile(t, g, &d->mr, &d->nr);
	d->mc = PARTS_MOST_ROWS;
	d->nc = PARTS_COLUMNS;
	blocks = blocks < 1 ? 1 : blocks;
	m = at_least(g, g->m);
	if (!rows_unknown(g) && m > 0) {
		d->mc = m <= PARTS_MOST_ROWS ? round_up(m, d->mr)
					     : even_block(m, ceil_div(PRODUCT_BLOCKS, blocks),
							  PARTS_ROWS, PARTS_MOST_ROWS, d->mr);
		blocks *= ceil_div(m, d->mc);
	}
	if (dim_is_const(g->n, &n) && n > 0)
		d->nc = even_block(n, ceil_div(PRODUCT_BLOCKS, blocks), PARTS_COLUMNS,
				   PARTS_MOST_COLUMNS, g->pw);
	if (n > 0 && blocks * ceil_div(n, d->nc) < t->cores)
		d->nc = even_block(n, ceil_div(t->cores, blocks), PARTS_LEAST_COLUMNS,
				   PARTS_MOST_COLUMNS, g->pw);
	if (dim_is_const(g->kk, &kk) && kk > PARTS_TERMS)
		d->kc = even_block(kk, 1, 1, PARTS_TERMS, SPLIT_TERMS);
	d->fetch = g->b_panels ? choose_fetch(g, d) : FETCH_NONE;
	d->panels_first = true;
}

static void choose_blocks(const Target *t, const Product *g, ProductDecision *d)
{
	const int64_t esize = dtype_bytes(ctype_dtype(g->c.ct)), pw = g->pw;
	const int64_t rows = at_least(g, g->m);
	const bool known = !rows_unknown(g);
	int64_t v, kk;

	gemm_choose_tile(t, g, &d->mr, &d->nr);
	d->mc = !known || rows > PRODUCT_ROWS ? PRODUCT_ROWS_MANY : PRODUCT_ROWS;
	if (dim_is_const(g->m, &v))
		d->mc = v < d->mc ? v > 0 ? v : 1 : d->mc;
	d->mc = round_up(d->mc, d->mr);
	d->nc = PRODUCT_COLUMNS / (esize == 8 ? 2 : 1);
	if (!d->pack_b && rows >= SPLIT_ROWS && b_fits(t, g) && dim_is_const(g->n, &v))
		d->nc = round_up(v > 0 ? v : 1, pw);
	if (d->pack_b) {
		if (dim_is_const(g->steps, &kk) && kk > 0)
			d->nc = t->l2 / 2 / (kk * esize) / pw * pw;
		d->nc = d->nc < pw ? pw : d->nc > MOST_COLUMNS ? MOST_COLUMNS : d->nc;
	}
	if (dim_is_const(g->n, &v) && v < d->nc)
		d->nc = round_up(v > 0 ? v : 1, pw);
	if (d->pack_b) {
		d->mc = packed_rows(t, g, d);
		return;
	}
	split_evenly(t, g, d);
	if (g->group_columns && dim_is_const(g->n, &v)) { /* they share the runs of a block */
		d->nc = v;
		d->fetch = FETCH_NONE;
		return;
	}
	d->kc = part_of_sum(t, g, d);
	d->fetch = g->scale ? FETCH_NONE : choose_fetch(g, d);
}

/* Makes the blocks larger if a few rows are left over: they go to the tile before them only in a
 * block that has more. */
static void take_rest(const Target *t, const Product *g, ProductDecision *d)
{
	const int64_t few = g->scale ? 0 : gemm_few_rows(t, g, d->nr);
	int64_t m;

	while (few < d->mr && dim_is_const(g->m, &m) && m > d->mc && m % d->mc > 0 &&
	       m % d->mc <= few)
		d->mc += d->mr;
}

bool gemm_packs_a(const Product *g)
{
	int64_t terms;

	if (g->run < g->c.nk)
		return !dim_is_const(g->run_terms, &terms) || terms < LEAST_RUN;
	return !g->a_direct;
}

/* The groups of P lie side by side in each row of A, as those of a convolution of channels that are
 * innermost. A block of rows then passes all groups while it is in L1 or L2: 16 groups of 56x56
 * took 0.6 of the time that a pass over the whole image for each group took. */
static bool groups_share_rows(const Product *g)
{
	int64_t row, step;
	bool any = false;
	Affine a;

	if (!g->c.nm || g->c.a->kind != EX_LOAD ||
	    !ex_affine(g->k->ctx, flat_index(g->k, g->c.a->load.buf, g->c.a->load.idx), &a) ||
	    !dim_is_const(affine_coef(g->k->ctx, &a, g->c.m[g->c.nm - 1]), &row))
		return false;
	for (int i = 0; i < g->nouter; i++) {
		if (!dim_is_const(affine_coef(g->k->ctx, &a, g->outer[i]), &step) || step >= row)
			return false;
		any = any || step > 0;
	}
	return any;
}

/* Matrix registers compute ROWS rows of G, of f32, in less time than vectors. */
static bool rows_pay(const Product *g, int64_t rows)
{
	Ctx *c = g->k->ctx;
	const bool packs = gemm_packs_a(g) || !g->a_direct;
	double m = (double)rows, n = PARTS_MOST_COLUMNS, k, time;
	int64_t terms, columns;

	if (!dim_is_const(iters_points(c, g->c.k, g->c.nk), &terms))
		return false;
	if (!dim_is_const(iters_points(c, g->c.n, g->c.nn), &columns))
		columns = PARTS_MOST_COLUMNS;
	k = (double)terms;
	n = (double)columns;
	time = (double)PARTS_TERM * (double)round_up(rows, MATRIX_SIDE) *
		       (double)round_up(columns, 2 * MATRIX_SIDE) *
		       (double)round_up(terms, SPLIT_TERMS) +
	       (double)(packs ? PARTS_OF_PACKED_A : PARTS_OF_A) * m * k *
		       (double)ceil_div(columns, PARTS_COLUMNS) +
	       (double)PARTS_OF_B * n * k * (double)ceil_div(rows, PARTS_MOST_ROWS) +
	       (double)PARTS_OF_SUM * m * n;
	return time < (double)PARTS_GAIN * m * n * k;
}

/* The most rows for which that is not so; PARTS_MOST_ROWS: for no number that a block has. */
static int64_t rows_in_vectors(const Product *g)
{
	int64_t rows = 1;

	while (rows < PARTS_MOST_ROWS && !rows_pay(g, rows))
		rows++;
	return rows - 1;
}

static bool parts_pay(const Product *g)
{
	const Dim *rows = iters_points(g->k->ctx, g->c.m, g->c.nm);
	int64_t m;

	return dim_is_const(rows, &m) ? m > 0 && rows_pay(g, m)
				      : rows_in_vectors(g) < PARTS_MOST_ROWS - 1;
}

/* Matrix registers compute G faster than vectors; its operands are read as far as that is
 * decided. */
static bool matrix_pays(const Target *t, const Product *g)
{
	const Dim *terms = iters_points(g->k->ctx, g->c.k, g->c.nk);
	int64_t n;

	if (!t->matrix || !product_has_matrix(g))
		return false;
	if (g->kpack == 1)
		return parts_pay(g);
	return !(dim_is_const(terms, &n) && n <= (MATRIX_WORDS - 1) * g->kpack);
}

/* Chooses P for K, without parts of f32 if the product has FEW rows. G is the product then. */
static bool choose(const Target *t, Kernel *k, bool few, ProductDecision *p, Product *of)
{
	bool by_rows, groups_inside;
	Product g;

	if (!product_begin(&g, k))
		return false;
	if (g.group_columns > gemm_lanes(t, g.c.ct)) /* packed for wider vectors */
		product_pack_b(&g);
	*p = (ProductDecision){.dot = t->bf16 && product_has_dot(&g), .pack_b = !g.b_panels};
	if (p->dot)
		product_use_dot(&g);
	p->matrix = matrix_pays(t, &g) && !(few && g.kpack == 1);
	if (p->matrix)
		product_use_matrix(&g);
	p->pack_a = gemm_packs_a(&g);
	p->panels_first = !p->pack_b;
	p->fetch = p->pack_b ? FETCH_NONE : FETCH_PANEL;
	if (p->pack_a)
		product_pack_a(&g);
	product_flatten(&g);
	by_rows = g.b_panels && rows_first(&g);
	groups_inside = by_rows && groups_share_rows(&g);
	if (g.nouter && !groups_inside)
		p->parallel[p->nparallel++] = PRODUCT_G;
	p->parallel[p->nparallel++] = by_rows ? PRODUCT_M : PRODUCT_N;
	if (groups_inside)
		p->parallel[p->nparallel++] = PRODUCT_G;
	p->parallel[p->nparallel++] = by_rows ? PRODUCT_N : PRODUCT_M;
	if (product_by_parts(&g)) {
		choose_parts(t, &g, p);
	} else {
		choose_blocks(t, &g, p);
		take_rest(t, &g, p);
	}
	*of = g;
	return true;
}

bool product_choose(const Target *t, Kernel *k, Decision *d)
{
	Product g, few;

	if (!choose(t, k, false, &d->product, &g))
		return false;
	d->grain = (int64_t)t->wake * TERMS_PER_NS;
	if (!product_by_parts(&g) || dim_is_const(g.m, NULL))
		return true;
	product_begin(&few, k);
	d->few_rows = rows_in_vectors(&few);
	if (d->few_rows < at_least(&g, g.m))
		d->few_rows = 0;
	return !d->few_rows || choose(t, k, true, &d->few, &few);
}

int product_steps(const Target *t, Kernel *k, const Decision *d, SizeStep *step)
{
	Product g;

	(void)t;
	if (!d->few_rows || !gemm_begin_as(&g, k, &d->product))
		return 0;
	step[0] = (SizeStep){.size = g.m, .most = d->few_rows};
	return 1;
}

/* ---- The reason ---- */

/* Appends the rule of gemm_choose_tile that gave the tile of D. */
static void tile_reason(const Target *t, const Product *g, const ProductDecision *d, StrBuf *b)
{
	const int64_t lanes = gemm_lanes(t, g->c.ct);
	int64_t mr, nr, all[2], by[2];

	gemm_tile(t, g->c.ct, g->pw, &all[0], &all[1]);
	gemm_choose_tile(t, g, &by[0], &by[1]);
	mr = all[0];
	nr = all[1];
	strbuf_printf(b, "a tile of %lldx%lld, since ", (long long)d->mr, (long long)d->nr);
	if (d->mr != by[0] || d->nr != by[1]) {
		strbuf_puts(b, "the file of schedules says so");
		return;
	}
	if (d->matrix) {
		strbuf_printf(b, "its sums are in %lld matrix registers",
			      (long long)(d->mr / MATRIX_SIDE * (d->nr / MATRIX_SIDE)));
		return;
	}
	narrow_tile(t, g, &mr, &nr);
	if (g->group_columns) {
		strbuf_printf(
			b,
			"a vector of %lld has several groups of %lld columns, and a row %lld vectors of sums",
			(long long)d->nr, (long long)g->group_columns, (long long)g->group_columns);
		return;
	}
	if ((g->scale || widens_bytes(t, g)) && by[0] == TILE_ROWS_SCALED && by[0] < mr) {
		strbuf_printf(b, "%s take registers, too, of %d",
			      g->scale ? "the numbers of quantised weights" : "bytes widened to 16 bits",
			      t->registers);
		return;
	}
	if (nr < all[1]) {
		strbuf_printf(b, "one vector of %lld has all columns, ", (long long)lanes);
		dim_print(b, g->n);
	} else {
		strbuf_printf(b, "%lldx%lld sums, a row of B and an element of A fit %d registers",
			      (long long)mr, (long long)nr, t->registers);
	}
	if (d->mr < mr)
		strbuf_printf(b, "; %lld rows in tiles of about equal size",
			      (long long)at_least(g, g->m));
	if (d->nr > nr)
		strbuf_puts(b, "; more columns, as so few sums do not hide the latency of fma");
}

void product_reason(const Target *t, Kernel *k, const Decision *d, StrBuf *b)
{
	const ProductDecision *p = &d->product;
	const int64_t kib = 1 << 10;
	int64_t terms;
	Product g;

	if (!gemm_begin_as(&g, k, p))
		return;
	tile_reason(t, &g, p, b);
	if (p->dot)
		strbuf_puts(b, "; pairs of bf16 are multiplied together");
	if (product_by_parts(&g)) {
		strbuf_puts(b, "; f32 is multiplied as three bf16");
		if (d->few_rows)
			strbuf_printf(b, ", of more than %lld rows", (long long)d->few_rows);
		return;
	}
	if (dim_is_const(p->kc ? dim_const(k->ctx, p->kc) : g.kk, &terms))
		strbuf_printf(b, "; a block's rows and a panel are %lld KiB, of %lld KiB of L2%s",
			      (long long)(bits_of_term(&g, p) * terms / 8 / kib),
			      (long long)(t->l2 / kib),
			      p->kc ? ": the sum is split so that they take half of it" : "");
}

/* ---- Legality ---- */

bool gemm_tile_is_legal(const Target *t, const Product *g, int64_t mr, int64_t nr, StrBuf *why)
{
	const int64_t lanes = gemm_lanes(t, g->c.ct), pw = g->pw, least = lanes < pw ? lanes : pw;

	if (product_by_parts(g))
		return (mr % MATRIX_SIDE == 0 && mr <= 2 * MATRIX_SIDE && nr == 2 * MATRIX_SIDE) ||
		       decision_refuse(
			       why,
			       "a tile of %lldx%lld is not one or two rows of two matrix registers of %dx%d, which f32 takes",
			       (long long)mr, (long long)nr, MATRIX_SIDE, MATRIX_SIDE);
	if (g->matrix)
		return (mr % MATRIX_SIDE == 0 && nr % MATRIX_SIDE == 0 && pw % nr == 0 &&
			mr * nr <= MATRIX_SUMS * MATRIX_SIDE * MATRIX_SIDE) ||
		       decision_refuse(
			       why,
			       "a tile of %lldx%lld is not up to %d matrix registers of %dx%d in panels of %lld",
			       (long long)mr, (long long)nr, MATRIX_SUMS, MATRIX_SIDE, MATRIX_SIDE,
			       (long long)pw);
	if (nr % least || pw % nr)
		return decision_refuse(
			why,
			"a tile of %lld columns does not divide the panel of %lld into vectors of %lld",
			(long long)nr, (long long)pw, (long long)least);
	if (g->group_columns &&
	    (nr != lanes || nr % g->group_columns || mr > rows_of_groups(t, g->group_columns)))
		return decision_refuse(
			why,
			"a tile of vectors across groups of %lld columns has %lld columns and at most %lld rows",
			(long long)g->group_columns, (long long)lanes,
			(long long)rows_of_groups(t, g->group_columns));
	if (mr > t->registers || tile_registers(mr, nr, lanes) > t->registers)
		return decision_refuse(
			why, "a tile of %lldx%lld needs more vector registers than the %d of %s",
			(long long)mr, (long long)nr, t->registers, t->name);
	return true;
}

/* A block of SIZE, a multiple of UNIT, is no larger than MORE or, rounded up to UNIT, ALL. */
static bool block_is_legal(const char *what, const char *unit_of, int64_t size, int64_t unit,
			   const Dim *all, int64_t more, StrBuf *why)
{
	enum { MOST_UNKNOWN = 1 << 16 }; /* of a size that is known at run time only */
	int64_t v;

	if (size % unit)
		return decision_refuse(why,
				       "a block of %lld %s is not a multiple of the %s of %lld",
				       (long long)size, what, unit_of, (long long)unit);
	if (!dim_is_const(all, &v))
		v = MOST_UNKNOWN;
	if (size > round_up(v < more ? more : v, unit))
		return decision_refuse(why, "a block of %lld %s is larger than the product's %lld",
				       (long long)size, what, (long long)v);
	return true;
}

static bool sum_is_legal(const Product *g, const ProductDecision *p, StrBuf *why)
{
	int64_t kk;

	if (!p->kc)
		return true;
	if (!dim_is_const(g->kk, &kk))
		return decision_refuse(
			why,
			"the number of terms is known at run time only, so the sum cannot be split; write \"all\"");
	if (p->kc >= kk)
		return decision_refuse(
			why, "a block of %lld terms is not less than the sum's %lld; write \"all\"",
			(long long)p->kc, (long long)kk);
	if (kk % g->kpack || p->kc % g->kpack)
		return decision_refuse(
			why,
			"a sum is split at multiples of %d terms, which a step of the tile multiplies, and only if it has such a number",
			g->kpack);
	if (product_by_parts(g) && p->kc % SPLIT_TERMS)
		return decision_refuse(
			why, "a sum of f32 in matrix registers is split at multiples of %d terms",
			SPLIT_TERMS);
	if (g->scale && p->kc % product_part_step(g))
		return decision_refuse(
			why,
			"a sum over quantised weights is split into multiples of %lld terms, whole groups",
			(long long)product_part_step(g));
	return p->panels_first ||
	       decision_refuse(
		       why,
		       "a sum split into parts keeps the sums of all tiles of a block, which needs the order n,m");
}

static bool dot_is_legal(const Target *t, const Product *g, const ProductDecision *p, StrBuf *why)
{
	if (!t->bf16)
		return decision_refuse(
			why,
			"\"dot\" needs a CPU with AVX512-BF16, and --activations-as=bf16 or --flush-subnormals, since it takes subnormal numbers for zero");
	return (product_has_dot(g) && !p->pack_b) ||
	       decision_refuse(
		       why,
		       "\"dot\" multiplies pairs of bf16 by panels of bf16, and the factors are %s and %s%s",
		       dtype_info[contraction_type(g->c.a)].name,
		       dtype_info[contraction_type(g->c.b)].name,
		       g->b_panels && !p->pack_b ? "" : " that is packed");
}

static bool matrix_is_legal(const Target *t, const Product *g, StrBuf *why)
{
	if (!t->matrix)
		return decision_refuse(why, "\"matrix\" needs a CPU with AMX");
	return product_has_matrix(g) ||
	       decision_refuse(
		       why,
		       "\"matrix\" multiplies bytes, u8 by i8, f32 in panels of %d columns, or with \"dot\" pairs of bf16",
		       2 * MATRIX_SIDE);
}

static bool is_legal(const Target *t, Kernel *k, const ProductDecision *p, StrBuf *why)
{
	Product g;

	if (!product_begin(&g, k))
		return decision_refuse(why, "the kernel is not a product");
	if (p->dot && !dot_is_legal(t, &g, p, why))
		return false;
	if (p->dot)
		product_use_dot(&g);
	if (p->matrix && !matrix_is_legal(t, &g, why))
		return false;
	if (p->matrix)
		product_use_matrix(&g);
	if (!p->pack_a && !g.a_direct && g.run == g.c.nk)
		return decision_refuse(
			why,
			"A has neither a constant stride along the sum nor runs of contiguous terms, so it has to be packed");
	if (!p->pack_b && !g.b_panels)
		return decision_refuse(why, "B is not stored in panels, so it has to be packed");
	if (p->pack_b && !p->pack_a && g.row_scale)
		return decision_refuse(
			why, "A is quantised, so it has to be packed if B is packed in floats");
	if (g.group_columns && !p->pack_b && (p->pack_a || p->kc || p->fetch))
		return decision_refuse(
			why,
			"tiles of vectors across groups read A in runs, fetch nothing ahead, and compute whole sums");
	if (p->pack_a)
		product_pack_a(&g);
	if (p->pack_b)
		product_pack_b(&g);
	else if (g.scale && p->fetch)
		return decision_refuse(why, "tiles over quantised weights fetch nothing ahead");
	product_flatten(&g);
	for (int i = 0; i < p->nparallel; i++)
		if (p->parallel[i] == PRODUCT_G && !g.nouter)
			return decision_refuse(why, "the product has no batch iterator g");
	return gemm_tile_is_legal(t, &g, p->mr, p->nr, why) &&
	       block_is_legal("rows", "tile", p->mc, p->mr, g.m, PACKED_ROWS, why) &&
	       block_is_legal("columns", "panel", p->nc, g.pw, g.n, 1, why) &&
	       sum_is_legal(&g, p, why);
}

bool product_legal(const Target *t, Kernel *k, const Decision *d, StrBuf *why)
{
	Product g;

	if (!is_legal(t, k, &d->product, why))
		return false;
	if (!d->few_rows)
		return true;
	if (!gemm_begin_as(&g, k, &d->product) || dim_is_const(g.m, NULL))
		return decision_refuse(
			why, "the product has a known number of rows, so no decision is for few");
	return is_legal(t, k, &d->few, why);
}
