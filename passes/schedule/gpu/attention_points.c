/* SPDX-License-Identifier: Apache-2.0 */
/* What both stages of an attention on a GPU are made of: operations on tiles of rows, maxima, sums
 * and results, and expressions of the form at their points. */
#include "passes/schedule/gpu/attention_impl.h"

#include <math.h>

/* ---- Operations ---- */

Iter *attention_iter(AttentionEmit *e, const char *name, int64_t extent)
{
	return l_iter(&e->b, name, dim_const(e->c, extent));
}

TileNode *attention_op(AttentionEmit *e, TileOp op, Buf *to, const TileLayout *layout, int rows,
		       int cols)
{
	static const char *const names[2][2] = {{"m", "n"}, {"r", "c"}};
	TileNode *n = gpu_op(&e->b, op, to, names[cols && op == TILE_COPY], (int[]){rows, cols},
			     cols ? 2 : 1);

	if (layout)
		n->points = *layout;
	gpu_add_op(&e->b, n);
	return n;
}

Expr *attention_it(AttentionEmit *e, const TileNode *n, int i)
{
	return ex_iter(e->p, n->it[i]);
}

Expr *attention_at(AttentionEmit *e, const TileNode *n, Buf *b)
{
	Expr *idx[] = {attention_it(e, n, 0), b->rank > 1 ? attention_it(e, n, 1) : NULL};

	return ex_load(e->p, b, idx, b->rank);
}

TileNode *attention_map_rows(AttentionEmit *e, Buf *to)
{
	TileNode *n = attention_op(e, TILE_MAP, to, &e->row, e->bm, 0);

	if (to->tile)
		gpu_write(&e->b, n, to->rank);
	return n;
}

Expr *attention_number(AttentionEmit *e, double v)
{
	return ex_num(e->p, CT_F32, v);
}

/* ---- Expressions of the form at the points of an operation ---- */

void attention_put(PlacedAt *x, Iter *it, Expr *to, Expr *inside)
{
	x->from[x->nfrom] = it;
	x->to[x->nfrom] = to;
	x->inside[x->nfrom++] = inside;
}

Expr *attention_inside(AttentionEmit *e, Expr *at, Dim *size, int64_t step)
{
	if (gpu_is_multiple(size, step))
		return at;
	return l_min(&e->b, at, ex_sub(e->p, ex_dim(e->p, size), l_int(&e->b, 1)));
}

void attention_put_row(PlacedAt *x, Expr *at)
{
	AttentionEmit *e = x->e;
	Expr *in = attention_inside(e, at, e->rows, e->rm), *to[MAX_ITERS], *inside[MAX_ITERS];

	iters_split(e->p, e->row_iter, e->nrows, at, to);
	iters_split(e->p, e->row_iter, e->nrows, in, inside);
	for (int i = 0; i < e->nrows; i++)
		attention_put(x, e->row_iter[i], to[i], inside[i]);
}

Expr *attention_row(AttentionEmit *e, Expr *m)
{
	Expr *row = e->rm < e->bm ? ex_op2(e->p, IN_mod, m, l_int(&e->b, e->rm)) : m;

	return ex_add(e->p, e->first_row, row);
}

static Buf *tile_for(const PlacedAt *x, const Buf *b)
{
	const AttentionEmit *e = x->e;
	const OnlineForm *f = &e->a.f;

	for (int i = 0; i < f->nsums; i++)
		if (b == f->sum[i]->out[0])
			return e->sum[i];
	return b == f->score ? e->score : b == f->most ? x->most : b == f->acc ? e->result : NULL;
}

static Expr *placed_loads(PlacedAt *x, Expr *e);

/* The result AT, of exponentials that are not divided by what the weights are. */
static Expr *divided(PlacedAt *x, Expr *at)
{
	ExprPool *p = x->e->p;
	Expr *by = placed_loads(x, x->e->a.f.divisor), *zero = ex_num(p, by->ct, 0),
	     *q = ex_op2(p, IN_div, at, by);

	if (!x->e->a.f.nan_is_zero)
		return q;
	return ex_op3(p, IN_select,
		      ex_and(p, ex_op2(p, IN_gt, by, zero),
			     ex_op2(p, IN_lt, by, ex_num(p, by->ct, INFINITY))),
		      q, zero);
}

/* LOAD at the point of X. */
static Expr *placed_load(PlacedAt *x, Expr *load)
{
	Buf *b = load->load.buf, *tile = tile_for(x, b);
	Expr *at;

	if (tile) {
		at = attention_at(x->e, x->n, tile);
		return tile == x->e->result && x->e->a.f.divisor ? divided(x, at) : at;
	}
	at = load->load.nidx == 1 && b->rank == 1 && !b->layout
		     ? load->load.idx[0]
		     : flat_index(x->e->a.f.k, b, load->load.idx);
	at = ex_subst_iters(x->e->p, at, x->from, x->inside, x->nfrom);
	return ex_load(x->e->p, b, &at, 1);
}

static Expr *placed_loads(PlacedAt *x, Expr *e)
{
	EX_MAP (n, x->e->p, &e)
		if (n->kind == EX_LOAD)
			n = placed_load(x, n);
	return e;
}

/* A selection of E keeps a load inside of its buffer, of a mask that is padded for example. */
static bool selects_loads(const PlacedAt *x, Expr *e)
{
	EX_EACH (s, e)
		for (int i = 1; ex_is_op(s, IN_select) && i < 3; i++)
			EX_EACH_LOAD (load, s->op.arg[i])
				if (!tile_for(x, load->load.buf))
					return true;
	return false;
}

Expr *attention_placed(PlacedAt *x, Expr *e)
{
	/* For a row or key that does not exist, whose value is not used, a condition that keeps a
	 * load inside must be that of the element which is read instead. */
	Expr **to = selects_loads(x, e) ? x->inside : x->to;

	return ex_subst_iters(x->e->p, placed_loads(x, e), x->from, to, x->nfrom);
}

/* ---- Maxima, sums and results ---- */

Expr *attention_before(AttentionEmit *e, Expr *at, Dim *size, int64_t step)
{
	return gpu_is_multiple(size, step) ? NULL : ex_op2(e->p, IN_lt, at, ex_dim(e->p, size));
}

void attention_declare_state(AttentionEmit *e)
{
	const int64_t results[] = {e->bm, e->a.ep};
	Iter *m = attention_iter(e, "m", e->bm), *n = attention_iter(e, "n", e->a.ep),
	     *it[] = {m, n};
	Expr *index = ex_iter(e->p, m);

	layout_of_operand(e->c, &index, 1, it, 2, &e->results, &e->row);
	layout_drop_copies(&e->row);
	e->result = gpu_tile(&e->b, "o", DT_F32, results, &e->results);
	e->most = gpu_tile(&e->b, "most", DT_F32, results, &e->row);
	e->next = gpu_tile(&e->b, "next", DT_F32, results, &e->row);
	e->scale = gpu_tile(&e->b, "scale", DT_F32, results, &e->row);
	for (int i = 0; i < e->a.f.nsums; i++)
		e->sum[i] = gpu_tile(&e->b, "total", DT_F32, results, &e->row);
}

void attention_start(AttentionEmit *e)
{
	attention_map_rows(e, e->most)->val = attention_number(e, -INFINITY);
	for (int i = 0; i < e->a.f.nsums; i++)
		attention_map_rows(e, e->sum[i])->val = attention_number(e, 0);
	attention_map_results(e, e->result)->val = attention_number(e, 0);
}

/* The shift of rows whose maximum is MOST at the points of N. */
static Expr *shift_of(AttentionEmit *e, const TileNode *n, Buf *most)
{
	PlacedAt x = {.e = e, .n = n, .most = most};

	attention_put_row(&x, attention_row(e, attention_it(e, n, 0)));
	return attention_placed(&x, e->a.f.shift);
}

static bool is_natural(const AttentionEmit *e)
{
	return ex_is_op(e->a.f.exponential, FN_exp);
}

/* 2 to the power that is the form's exponential of AT less SHIFT. The difference comes first: masks
 * are often large, up to the least float, and their products with log2(e) would be rounded by more
 * than 1, or not finite. */
static Expr *power(AttentionEmit *e, Expr *at, Expr *shift)
{
	Expr *less = ex_op2(e->p, IN_sub, at, shift);

	return is_natural(e) ? ex_op2(e->p, IN_mul, less, attention_number(e, M_LOG2E)) : less;
}

static Expr *is_hidden(AttentionEmit *e, Expr *most)
{
	return ex_op2(e->p, IN_eq, most, attention_number(e, -INFINITY));
}

/* The shift of rows whose maximum is MOST; 0 where that is -inf, so that exponentials of -inf are
 * 0. */
static Expr *finite_shift(AttentionEmit *e, const TileNode *n, Buf *most)
{
	return ex_op3(e->p, IN_select, is_hidden(e, attention_at(e, n, most)),
		      attention_number(e, 0), shift_of(e, n, most));
}

/* The selection is of the exponent: LLVM would branch around an exponential. */
Expr *attention_factor(AttentionEmit *e, const TileNode *n, Buf *was, Buf *is)
{
	return ex_op1(e->p, IN_ex2,
		      ex_op3(e->p, IN_select, is_hidden(e, attention_at(e, n, was)),
			     attention_number(e, -INFINITY),
			     power(e, shift_of(e, n, was), finite_shift(e, n, is))));
}

Expr *attention_weight(AttentionEmit *e, const TileNode *n)
{
	return ex_op1(e->p, IN_ex2,
		      power(e, attention_at(e, n, e->score), finite_shift(e, n, e->most)));
}

void attention_rescale(AttentionEmit *e)
{
	TileNode *n = attention_map_rows(e, e->scale);

	n->val = attention_factor(e, n, e->most, e->next);
	n = attention_map_rows(e, e->most);
	n->val = attention_at(e, n, e->next);
}

void attention_scale(AttentionEmit *e, TileNode *n)
{
	Expr *idx = attention_it(e, n, 0);

	n->val = ex_op2(e->p, IN_mul, attention_at(e, n, n->to), ex_load(e->p, e->scale, &idx, 1));
}

TileNode *attention_map_results(AttentionEmit *e, Buf *to)
{
	TileNode *n = attention_op(e, TILE_MAP, to, &e->results, e->bm, e->a.ep);

	if (to->tile)
		gpu_write(&e->b, n, to->rank);
	return n;
}

/* Rows whose keys are all masked have exponentials of -inf - shift(-inf): NaN, unless that shift is
 * finite. Rows without keys have none, and the result 0. */
static void hide_rows(AttentionEmit *e)
{
	const OnlineForm *f = &e->a.f;
	Expr *shift = f->shift;
	TileNode *n;

	EX_MAP (x, e->p, &shift)
		if (x->kind == EX_LOAD && x->load.buf == f->most)
			x = attention_number(e, -INFINITY);
	if (f->nan_is_zero || (shift->kind == EX_CONST && isfinite(shift->f)))
		return;
	n = attention_map_rows(e, e->scale);
	n->val = ex_op3(e->p, IN_select,
			ex_and(e->p, ex_op2(e->p, IN_gt, ex_dim(e->p, e->a.keys), l_int(&e->b, 0)),
			       ex_and(e->p, is_hidden(e, attention_at(e, n, e->most)),
				      is_hidden(e, shift_of(e, n, e->most)))),
			attention_number(e, NAN), attention_number(e, 1));
	for (int i = 0; i < f->nsums; i++)
		attention_scale(e, attention_map_rows(e, e->sum[i]));
	attention_scale(e, attention_map_results(e, e->result));
}

void attention_results(AttentionEmit *e)
{
	const OnlineForm *f = &e->a.f;

	hide_rows(e);
	for (int i = 0; i < f->nresults; i++) {
		TileNode *n = attention_map_results(e, f->result[i]->out[0]);
		PlacedAt x = {.e = e, .n = n, .most = e->most};
		Expr *row = attention_row(e, attention_it(e, n, 0)), *col = attention_it(e, n, 1);

		attention_put_row(&x, row);
		attention_put(&x, f->column, col,
			      attention_inside(e, col, dim_const(e->c, e->a.e), e->a.ep));
		n->nidx = 1;
		n->idx[0] = ex_subst_iters(e->p, f->result_at[i], x.from, x.to, x.nfrom);
		n->val = attention_placed(&x, f->result_val[i]);
		n->guard = ex_and(e->p, attention_before(e, row, e->rows, e->rm),
				  attention_before(e, col, dim_const(e->c, e->a.e), e->a.ep));
	}
}
