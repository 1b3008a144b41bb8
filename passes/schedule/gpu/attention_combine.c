/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where blocks, and warps of a block, share the keys of a row, each has a maximum, sums and results
 * of its own. They are partial results in memory, as if each part were one key, and a second stage
 * combines them like blocks of keys:
 *
 *   for c over chunks of parts
 *     next = max of most, and of the maxima of the parts
 *     factors exp(shift(maximum of part) - shift(next)); the sums and results so far are rescaled
 *     sums, results += factor * those of the parts
 *   the statements after the products
 *
 * Lanes, and then warps, are adjacent columns, so that they read adjacent elements; the loads of a
 * chunk are all in flight at once.
 */
#include "passes/schedule/gpu/attention_impl.h"

#include <math.h>

enum {
	WARPS = 4, /* of a block, at least, or 3 */
	CHUNK = 32 /* parts whose factors a thread has in registers */
};

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

/* The element of row ROW of part PART; COL: of a result, or null. */
static Expr *part_at(AttentionEmit *e, Expr *part, Expr *row, Expr *col)
{
	Expr *at = ex_add(e->p, ex_mul(e->p, part, ex_dim(e->p, all_rows(e))), row);

	return col ? ex_add(e->p, ex_mul(e->p, at, l_int(&e->b, e->a.e)), col) : at;
}

/* Stores what tile FROM has, to TO. */
static void store(AttentionEmit *e, Buf *to, Buf *from)
{
	const bool rows = from->rank == 1;
	TileNode *n = rows ? attention_map_rows(e, to) : attention_map_results(e, to);
	const Contraction *s = &e->a.f.scores;
	Expr *m = attention_it(e, n, 0), *row = attention_row(e, m),
	     *col = rows ? NULL : attention_it(e, n, 1), *batch = l_int(&e->b, 0),
	     *part = ex_add(e->p, ex_mul(e->p, ex_iter(e->p, e->part), l_int(&e->b, e->a.splits)),
			    ex_op2(e->p, IN_floordiv, m, l_int(&e->b, e->rm)));

	for (int i = 0; i < s->ng; i++)
		batch = ex_add(e->p, ex_mul(e->p, batch, ex_dim(e->p, s->g[i]->extent)),
			       ex_iter(e->p, s->g[i]));
	n->nidx = 1;
	n->idx[0] = part_at(e, part,
			    ex_add(e->p, ex_mul(e->p, batch, ex_dim(e->p, e->a.rows)), row), col);
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

/* ---- The combining stage ---- */

typedef struct Combine {
	AttentionEmit *e;
	Iter *chunk;
	int parts, warps;           /* of a chunk, of a block */
	TileLayout rows_parts, all; /* of points (row, part) and (row, column, part) */
	Buf *part, *factor;         /* maxima of the parts, and factors; -1: nothing was summed */
} Combine;

/* A thread has one column of a row: the loads of all parts of a chunk are in its registers. */
static void set_layouts(Combine *x)
{
	AttentionEmit *e = x->e;
	int lanes = WARP, rows, columns;

	while (e->a.ep % lanes)
		lanes /= 2;
	rows = WARP / lanes;
	columns = e->a.ep / lanes;
	x->warps = columns < WARPS ? WARPS / columns : 1;
	e->rm = e->bm = x->warps * rows;
	e->results = (TileLayout){.rank = 2};
	layout_add(&e->results, 0, AT_WARP, x->warps, rows, 0);
	layout_add(&e->results, 1, AT_WARP, columns, lanes, 0);
	layout_add(&e->results, 0, AT_LANE, rows, 1, 0);
	layout_add(&e->results, 1, AT_LANE, lanes, 1, 0);
	x->all = e->results;
	x->all.rank = 3;
	layout_add(&x->all, 2, AT_REGISTER, x->parts, 1, 0);
	x->rows_parts = (TileLayout){.rank = 2};
	layout_add(&x->rows_parts, 0, AT_WARP, x->warps, rows, 0);
	layout_add(&x->rows_parts, -1, AT_WARP, columns, 1, 0);
	layout_add(&x->rows_parts, 0, AT_LANE, rows, 1, 0);
	layout_add(&x->rows_parts, -1, AT_LANE, lanes, 1, 0);
	layout_add(&x->rows_parts, 1, AT_REGISTER, x->parts, 1, 0);
	x->warps *= columns;
}

static TileNode *over_parts(Combine *x, TileOp op, Buf *to)
{
	AttentionEmit *e = x->e;
	TileNode *n = attention_op(e, op, to, &x->rows_parts, e->bm, x->parts);

	n->nidx = to->rank;
	for (int i = 0; i < n->nidx; i++)
		n->idx[i] = attention_it(e, n, i);
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
	Expr *most, *was, *none = attention_number(e, -INFINITY);

	n->val = ex_op3(e->p, IN_select, part_exists(x, n, 1),
			load_part(x, n, e->part_most, NULL, 1), none);
	n = attention_map_rows(e, e->next);
	n->val = attention_at(e, n, e->most);
	n = over_parts(x, TILE_FOLD, e->next);
	n->red = MONOID_max;
	n->adds = true;
	n->val = attention_at(e, n, x->part);
	attention_rescale(e);
	n = over_parts(x, TILE_MAP, x->factor);
	was = attention_at(e, n, x->part);
	most = attention_at(e, n, e->most);
	n->val = attention_exp(e, ex_op2(e->p, IN_sub, attention_shift(e, n, x->part),
					 attention_shift(e, n, e->most)));
	n->val = ex_op3(e->p, IN_select, ex_op2(e->p, IN_eq, was, none), attention_number(e, -1),
			n->val);
	n->val = ex_op3(e->p, IN_select, ex_op2(e->p, IN_eq, was, most), attention_number(e, 1),
			n->val);
	n->val = ex_op3(e->p, IN_select, part_exists(x, n, 1), n->val, attention_number(e, -1));
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

static void open_stage(AttentionEmit *e, int warps)
{
	const Contraction *s = &e->a.f.scores;

	e->rows = all_rows(e);
	e->nrows = 0;
	for (int i = 0; i < s->ng; i++)
		e->row_iter[e->nrows++] = s->g[i];
	for (int i = 0; i < s->nm; i++)
		e->row_iter[e->nrows++] = s->m[i];
	l_stage(&e->b, "attention", dim_ceildiv(e->c, e->rows, dim_const(e->c, e->rm)));
	e->b.stage->block.threads = e->b.stage->block.group = warps * WARP;
	e->first_row = ex_mul(e->p, ex_iter(e->p, e->b.stage->var), l_int(&e->b, e->rm));
}

void attention_combine(AttentionEmit *e)
{
	Combine x = {.e = e, .parts = 1};
	int64_t size[2];
	Dim *chunks;
	LNode *loop;

	while (x.parts < e->a.parts * e->a.splits && x.parts < CHUNK)
		x.parts *= 2;
	set_layouts(&x);
	open_stage(e, x.warps);
	attention_declare_state(e);
	size[0] = e->bm;
	size[1] = x.parts;
	x.part = gpu_tile(&e->b, "part", DT_F32, size, &x.rows_parts)->local.buf;
	x.factor = gpu_tile(&e->b, "factor", DT_F32, size, &x.rows_parts)->local.buf;
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
}
