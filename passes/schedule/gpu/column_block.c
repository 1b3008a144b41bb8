/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of a block of columns (passes/schedule/gpu/column_block.h): its reductions, its points,
 * and the values of them that it holds in shared memory.
 */
#include "passes/schedule/gpu/column_block.h"

void column_local(ColumnBlock *x, const Stmt *s)
{
	Row *r = x->r;
	Buf *t = s->out[0];
	const int64_t bytes = x->rows * x->cols * 8;
	Held h = {.columns = false};

	if (bytes > x->left || !row_may_be_local(r, s, t))
		return;
	x->left -= bytes;
	for (int d = 0; d < t->rank; d++) {
		const int g = gpu_written_along(r, s, d);

		h.keep[d] = g == x->n                             ? KEEP_BLOCK
			    : x->skinny.n && g == x->skinny.of[0] ? KEEP_ROWS
								  : KEEP_NOT;
		h.size[d] = dim_const(r->k->ctx, g == x->n ? x->cols : x->rows);
	}
	gpu_declare(r->b, gpu_hold(r, t, &h), NULL);
}

/* Opens a loop over the block's points of the band, which binds X.col and X.row. */
static LNode *column_open(const ColumnBlock *x)
{
	LBuild *b = x->r->b;
	Iter *t = l_iter(b, "t", dim_const(b->k->ctx, x->rows * x->cols));
	LNode *loop = l_loop(b, LOOP_GROUP, t, l_int(b, 0), l_int(b, x->rows * x->cols), 1);

	l_let(b, x->col, ex_op2(b->p, IN_mod, ex_iter(b->p, t), l_int(b, x->cols)));
	l_let(b, x->row, ex_op2(b->p, IN_floordiv, ex_iter(b->p, t), l_int(b, x->cols)));
	return loop;
}

void column_store(const ColumnBlock *x, Stmt *s, Buf *out, Expr *at, Expr *val, LPart part)
{
	LNode *loop = column_open(x);
	Expr *guard = x->row_exists ? ex_and(x->r->b->p, x->guard, x->row_exists) : x->guard;

	row_does(x->r, l_store(x->r->b, out, at, val, guard), s, part, s->nband, NULL);
	l_close(x->r->b, loop);
}

static Expr *state_at(const ColumnBlock *x)
{
	ExprPool *p = x->r->b->p;

	return ex_add(p, ex_mul(p, ex_iter(p, x->row), ex_int(p, CT_I64, x->cols)),
		      ex_iter(p, x->col));
}

/* The offset of the block's first column in its sector, in the row that VAL reads; 0 if VAL reads
 * only shared memory. */
static Expr *peel_of(const ColumnBlock *x, Expr *val)
{
	Expr *zero = l_int(x->r->b, 0);
	Iter *col = x->col;

	EX_EACH_LOAD (e, val)
		if (!e->load.buf->data && e->load.buf->id < x->r->nlocal &&
		    ex_runs_along(x->r->k->ctx, e->load.idx[0], col))
			return gpu_peel(x->r->b, e->load.idx[0], &col, &zero, 1, x->bytes);
	return zero;
}

void column_sum(ColumnBlock *x, Stmt *s, const Points *p)
{
	Row *r = x->r;
	LBuild *b = r->b;
	Dim *states = dim_const(r->k->ctx, x->rows * x->cols);
	Expr *at = state_at(x), *out_at;
	Buf *out;
	LNode *n;

	x->acc = kernel_temp(r->k, "acc", ctype_dtype(s->val[0]->ct), 1, &states);
	gpu_declare(b, x->acc, NULL);
	column_store(x, s, x->acc, at, monoid_identity(r->k->pool, s->red, 0, s->val[0]->ct),
		     PART_INIT);
	n = row_state_node(r, LN_COLUMNS, s, &x->acc, at, p->e, x->guard);
	n->columns = NEW(b->arena, ColumnReduction);
	*n->columns = (ColumnReduction){x->col, x->row, (int)x->cols, (int)x->rows, x->valid};
	n->share.vector = x->peeled ? x->peeled : x->vector;
	if (x->peeled)
		n->share.peel = peel_of(x, p->e[0]);
	n->range.var = p->it[0];
	n->range.lo = l_int(b, 0);
	n->range.hi = row_extent(r, p->it[0]);
	row_does(r, n, s, PART_TERM, s->niters, p->at);
	out_at = row_write_index(r, s, 0, &out);
	column_store(x, s, out, out_at, ex_load(b->p, x->acc, &at, 1), PART_WRITE);
}
