/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where blocks, and warps of a block, share the keys of a row, each has a maximum, sums and results
 * of its own. They are partial results in memory, as if each part were one key, and the last block
 * of those that share a row's keys combines them like blocks of keys:
 *
 *   for some of the rows at a time
 *     for c over chunks of parts
 *       next = max of most, and of the maxima of the parts
 *       factors exp(shift(maximum of part) - shift(next)); the sums and results so far are rescaled
 *       sums, results += factor * those of the parts
 *     the statements after the products
 *
 * Lanes are adjacent columns, so that they read adjacent elements; the loads of a chunk are all in
 * flight at once.
 */
#include "passes/schedule/gpu/attention_impl.h"

#include <assert.h>
#include <math.h>

enum { CHUNK = 32 }; /* results of parts that a thread loads at once */

/* ---- Partial results ---- */

static Dim *all_rows(const AttentionEmit *e)
{
	return dim_mul(e->c, e->a.batch, e->a.rows);
}

/* The number of parts, of all blocks and warps. */
static Dim *all_parts(const AttentionEmit *e)
{
	return dim_mul(e->c, e->parts, dim_const(e->c, e->a.splits));
}

static Buf *declare(AttentionEmit *e, const char *name, int64_t each)
{
	Dim *one = dim_const(e->c, e->a.splits),
	    *n = dim_mul(e->c, dim_max(e->c, all_parts(e), one), all_rows(e)),
	    *size = dim_mul(e->c, n, dim_const(e->c, each));

	return kernel_temp(e->b.k, name, DT_F32, 1, &size);
}

void attention_declare_parts(AttentionEmit *e)
{
	e->part_most = declare(e, "part_most", 1);
	for (int i = 0; i < e->a.f.nsums; i++)
		e->part_sum[i] = declare(e, "part_total", 1);
	e->part_result = declare(e, "part_o", e->a.e);
}

/* The element of row ROW of the block's matrix of part PART; COL: of a result, or null. */
static Expr *part_at(AttentionEmit *e, Expr *part, Expr *row, Expr *col)
{
	const Contraction *s = &e->a.f.scores;
	Expr *batch = l_int(&e->b, 0), *at;

	for (int i = 0; i < s->ng; i++)
		batch = ex_add(e->p, ex_mul(e->p, batch, ex_dim(e->p, s->g[i]->extent)),
			       ex_iter(e->p, s->g[i]));
	row = ex_add(e->p, ex_mul(e->p, batch, ex_dim(e->p, e->a.rows)), row);
	at = ex_add(e->p, ex_mul(e->p, part, ex_dim(e->p, all_rows(e))), row);

	return col ? ex_add(e->p, ex_mul(e->p, at, l_int(&e->b, e->a.e)), col) : at;
}

/* Stores what tile FROM has, to TO. */
static void store(AttentionEmit *e, Buf *to, Buf *from)
{
	const bool rows = from->rank == 1;
	TileNode *n = rows ? attention_map_rows(e, to) : attention_map_results(e, to);
	Expr *m = attention_it(e, n, 0), *row = attention_row(e, m),
	     *col = rows ? NULL : attention_it(e, n, 1),
	     *part = ex_add(e->p, ex_mul(e->p, ex_iter(e->p, e->part), l_int(&e->b, e->a.splits)),
			    ex_op2(e->p, IN_floordiv, m, l_int(&e->b, e->rm)));

	n->nidx = 1;
	n->idx[0] = part_at(e, part, row, col);
	n->val = attention_at(e, n, from);
	n->guard = attention_before(e, row, e->rows, e->rm);
	if (!rows)
		n->guard = ex_and(e->p, n->guard,
				  attention_before(e, col, dim_const(e->c, e->a.e), e->a.ep));
}

void attention_store_parts(AttentionEmit *e)
{
	store(e, e->part_most, e->most);
	for (int i = 0; i < e->a.f.nsums; i++)
		store(e, e->part_sum[i], e->sum[i]);
	store(e, e->part_result, e->result);
}

/* ---- Combining them ---- */

typedef struct Combine {
	AttentionEmit *e;
	Iter *chunk;
	int parts;                  /* of a chunk */
	TileLayout rows_parts, all; /* of points (row, part) and (row, column, part) */
	Buf *part, *factor; /* maxima of the parts, and factors; -1: there is no such part */
} Combine;

/* A thread has columns of one row, as many as the block's warps leave it. */
static void set_layouts(Combine *x)
{
	AttentionEmit *e = x->e;
	const int warps = e->a.warps * e->a.splits;
	int lanes = WARP, rows, columns, along = 1;

	while (e->a.ep % lanes)
		lanes /= 2;
	rows = WARP / lanes;
	columns = e->a.ep / lanes;
	while (columns % (2 * along) == 0 && warps % (2 * along) == 0)
		along *= 2;
	columns /= along;
	x->parts = 1;
	while (x->parts < e->a.parts * e->a.splits && 2 * x->parts * columns <= CHUNK)
		x->parts *= 2;
	e->rm = e->bm = warps / along * rows;
	e->results = (TileLayout){.rank = 2};
	layout_add(&e->results, 0, AT_WARP, warps / along, rows, 0);
	layout_add(&e->results, 1, AT_WARP, along, columns * lanes, 0);
	layout_add(&e->results, 1, AT_REGISTER, columns, lanes, 0);
	layout_add(&e->results, 0, AT_LANE, rows, 1, 0);
	layout_add(&e->results, 1, AT_LANE, lanes, 1, 0);
	x->all = e->results;
	x->all.rank = 3;
	layout_add(&x->all, 2, AT_REGISTER, x->parts, 1, 0);
	x->rows_parts = (TileLayout){.rank = 2};
	layout_add(&x->rows_parts, 0, AT_WARP, warps / along, rows, 0);
	layout_add(&x->rows_parts, -1, AT_WARP, along, 1, 0);
	layout_add(&x->rows_parts, 0, AT_LANE, rows, 1, 0);
	layout_add(&x->rows_parts, -1, AT_LANE, lanes, 1, 0);
	layout_add(&x->rows_parts, 1, AT_REGISTER, x->parts, 1, 0);
}

static TileNode *over_parts(Combine *x, TileOp op, Buf *to)
{
	AttentionEmit *e = x->e;
	TileNode *n = attention_op(e, op, to, &x->rows_parts, e->bm, x->parts);

	gpu_write(&e->b, n, to->rank);
	return n;
}

/* The part at iterator IT of N, as one of all. */
static Expr *part_number(Combine *x, const TileNode *n, int it)
{
	AttentionEmit *e = x->e;

	return ex_add(e->p, ex_mul(e->p, ex_iter(e->p, x->chunk), l_int(&e->b, x->parts)),
		      attention_it(e, n, it));
}

static Expr *part_exists(Combine *x, const TileNode *n, int it)
{
	return ex_op2(x->e->p, IN_lt, part_number(x, n, it), ex_dim(x->e->p, all_parts(x->e)));
}

/* What FROM has at the points of N, whose iterator IT is the part; COL: as in part_at. Other
 * elements of FROM may be read instead of those that do not exist. */
static Expr *load_part(Combine *x, const TileNode *n, Buf *from, Expr *col, int it)
{
	AttentionEmit *e = x->e;
	Expr *last = l_max(&e->b, l_int(&e->b, 0),
			   ex_sub(e->p, ex_dim(e->p, all_parts(e)), l_int(&e->b, 1))),
	     *row = attention_inside(e, attention_row(e, attention_it(e, n, 0)), e->rows, e->rm),
	     *at = part_at(e, l_min(&e->b, part_number(x, n, it), last), row, col);

	return ex_load(e->p, from, &at, 1);
}

static void combine_maxima(Combine *x)
{
	AttentionEmit *e = x->e;
	TileNode *n = over_parts(x, TILE_MAP, x->part);

	n->val = ex_op3(e->p, IN_select, part_exists(x, n, 1),
			load_part(x, n, e->part_most, NULL, 1), attention_number(e, -INFINITY));
	n = attention_map_rows(e, e->next);
	n->val = attention_at(e, n, e->most);
	n = over_parts(x, TILE_FOLD, e->next);
	n->red = MONOID_max;
	n->adds = true;
	n->val = attention_at(e, n, x->part);
	attention_rescale(e);
	n = over_parts(x, TILE_MAP, x->factor);
	n->val = ex_op3(e->p, IN_select, part_exists(x, n, 1),
			attention_factor(e, n, x->part, e->most), attention_number(e, -1));
}

/* TO, which is rescaled, += factor * what FROM has of the parts. */
static void add_parts(Combine *x, Buf *to, Buf *from)
{
	AttentionEmit *e = x->e;
	const bool rows = to->rank == 1;
	TileNode *n;
	Expr *col, *idx[2], *factor;

	attention_scale(e, rows ? attention_map_rows(e, to) : attention_map_results(e, to));
	n = over_parts(x, TILE_FOLD, to);
	if (!rows) {
		n->it[1] = attention_iter(e, "n", e->a.ep);
		n->it[2] = attention_iter(e, "q", x->parts);
		n->n = 3;
		n->points = x->all;
		n->idx[1] = attention_it(e, n, 1);
	}
	col = rows ? NULL
		   : attention_inside(e, attention_it(e, n, 1), dim_const(e->c, e->a.e), e->a.ep);
	idx[0] = attention_it(e, n, 0);
	idx[1] = attention_it(e, n, n->n - 1);
	factor = ex_load(e->p, x->factor, idx, 2);
	n->red = MONOID_sum;
	n->adds = true;
	n->val = ex_op3(e->p, IN_select, ex_op2(e->p, IN_lt, factor, attention_number(e, 0)),
			attention_number(e, 0),
			ex_op2(e->p, IN_mul, factor, load_part(x, n, from, col, n->n - 1)));
}

/* Opens the loop over the rows of the block, some at a time. */
static LNode *open_rows(AttentionEmit *e, int rows)
{
	Dim *step = dim_const(e->c, e->rm);
	Iter *some = l_iter(&e->b, "some", dim_const(e->c, rows / e->rm));
	Expr *left = ex_op2(e->p, IN_floordiv,
			    ex_add(e->p, ex_sub(e->p, ex_dim(e->p, e->rows), e->first_row),
				   l_int(&e->b, e->rm - 1)),
			    ex_dim(e->p, step));
	LNode *loop = l_loop(&e->b, LOOP_SERIAL, some, l_int(&e->b, 0),
			     l_min(&e->b, left, l_int(&e->b, rows / e->rm)), 1);

	e->first_row = ex_add(e->p, e->first_row,
			      ex_mul(e->p, ex_iter(e->p, some), ex_dim(e->p, step)));
	return loop;
}

void attention_combine(AttentionEmit *e)
{
	const int rows = e->rm;
	Combine x = {.e = e};
	int64_t size[2];
	Dim *chunks;
	LNode *last, *some, *loop;

	set_layouts(&x);
	assert(rows % e->rm == 0);
	last = l_loop(&e->b, LOOP_LAST,
		      l_iter(&e->b, "combined", dim_floordiv(e->c, e->b.stage->extent, e->parts)),
		      l_int(&e->b, 0), ex_dim(e->p, e->parts), 1);
	some = open_rows(e, rows);
	attention_declare_state(e);
	size[0] = e->bm;
	size[1] = x.parts;
	x.part = gpu_tile(&e->b, "part", DT_F32, size, &x.rows_parts);
	x.factor = gpu_tile(&e->b, "factor", DT_F32, size, &x.rows_parts);
	attention_start(e);
	chunks = dim_ceildiv(e->c, all_parts(e), dim_const(e->c, x.parts));
	x.chunk = l_iter(&e->b, "chunk", chunks);
	loop = l_loop(&e->b, LOOP_SERIAL, x.chunk, l_int(&e->b, 0), ex_dim(e->p, chunks), 1);
	combine_maxima(&x);
	for (int i = 0; i < e->a.f.nsums; i++)
		add_parts(&x, e->sum[i], e->part_sum[i]);
	add_parts(&x, e->result, e->part_result);
	l_close(&e->b, loop);
	attention_results(e);
	l_close(&e->b, some);
	l_close(&e->b, last);
}
