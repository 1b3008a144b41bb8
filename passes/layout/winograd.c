/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the kernels of a convolution by Winograd's minimal filtering. conv3x3_tile
 * (passes/forms/conv3x3.c) decides which convolutions get it, and with which m. The result is
 * divided into tiles of m x m. A tile reads a square d of (m + 2) x (m + 2) elements of the image,
 * and has as many products, one for each point (i,j):
 *
 * - filter  f[i,j,c,o] = sum over r,s of F[i,r] F[j,s] w[o,c,r,s], at compile time
 * - image   v[i,j,tile,c] = sum over k,l of B[i,k] B[j,l] d[tile,c,k,l]
 * - product p[i,j,tile,o] = sum over c of v[i,j,tile,c] f[i,j,c,o], batched matrix products
 * - result  y[tile,o,a,b] = sum over i,j of A[a,i] A[b,j] p[i,j,tile,o], and the epilogue
 *
 * The channels c and o are those of a group. Each group has tiles and a filter of its own: the
 * number of the group follows i and j as an index of v, f and p.
 *
 * The matrices are small constants, half of whose elements are 0, 1 or -1. So each row of a matrix
 * is a separate map, whose sum is written out without the terms that are 0: first along columns,
 * into temporaries that fit in a cache, then along rows. The innermost loop of all these maps is
 * over the channels.
 *
 * Tiles at the borders extend beyond the image. A tile's square of the image is first copied to a
 * temporary, with 0 outside of the image. The maps that write the result have a guard. Neither
 * condition depends on the channel, so no inner loop has a condition.
 */
#include "passes/layout/winograd.h"

#include "passes/forms/conv3x3.h"
#include "passes/forms/form.h"
#include "passes/forms/kernels.h"
#include "passes/layout/layout_impl.h"
#include "passes/layout/winograd_form.h"

/* A kernel that is made from parts of the convolution's. */
typedef struct Part {
	const Conv3x3 *c;
	Kernel *k;
	Value *in[MAX_PARAMS];
	int nin;
	Buf **buf;           /* by Buf.id of the convolution: the part's buffer; or null */
	Expr **held;         /* by Buf.id: what replaces a load of the temporary; or null */
	Expr **iter;         /* by Iter.id: the expression that replaces the iterator */
	Iter *it[MAX_ITERS]; /* other iterators, row and column of the tile, channel */
	int nit;
} Part;

static Part part_new(Module *m, const Conv3x3 *c, const char *name)
{
	Part p = {.c = c};
	const int nbufs = c->k->bufs.n + 1;

	p.k = kernel_new(m->ctx, m->arena,
			 name ? arena_printf(m->arena, "%s_%s", c->k->name, name) : c->k->name);
	p.k->locs = c->k->locs;
	p.buf = NEW_ARRAY(m->arena, nbufs, Buf *);
	p.held = NEW_ARRAY(m->arena, nbufs, Expr *);
	p.iter = NEW_ARRAY(m->arena, c->k->iters.n + 1, Expr *);
	return p;
}

static Iter *part_iter(Part *p, const char *name, Dim *extent)
{
	return p->it[p->nit++] = kernel_iter(p->k, name, extent);
}

static Dim *tiles(Ctx *c, const Conv3x3 *of, int axis, int m)
{
	return dim_ceildiv(c, of->out[axis]->extent, dim_const(c, m));
}

/* Adds iterators for the convolution's other ones FIRST to END - 1. */
static void add_others(Part *p, int first, int end)
{
	const Conv3x3 *c = p->c;

	for (int i = first; i < end; i++)
		p->iter[c->other[i]->id] = ex_iter(
			p->k->pool, part_iter(p, c->other[i]->name, c->other[i]->extent));
}

/* The iterators over the tiles, and CHANNEL. */
static void add_iters(Part *p, int m, const Iter *channel)
{
	const Conv3x3 *c = p->c;

	add_others(p, 0, c->nother);
	part_iter(p, "th", tiles(p->k->ctx, c, 0, m));
	part_iter(p, "tw", tiles(p->k->ctx, c, 1, m));
	p->iter[channel->id] = ex_iter(p->k->pool, part_iter(p, channel->name, channel->extent));
}

/* The index of the tile along rows or columns. */
static Expr *tile_at(const Part *p, int axis)
{
	return ex_iter(p->k->pool, p->it[p->c->nother + axis]);
}

/* Adds the part's buffer for B of the convolution. */
static Buf *take_buf(Part *p, const Buf *b)
{
	Buf *n = p->buf[b->id];

	if (n)
		return n;
	n = p->buf[b->id] = buf_copy(p->k->arena, b);
	n->id = p->k->bufs.n;
	vec_push(p->k->arena, &p->k->bufs, n);
	if (b->kind == BUF_IN) {
		p->in[p->nin] = node_in(p->c->n, b->param);
		n->param = p->nin++;
	}
	return n;
}

static Expr *taken(Part *p, Expr *e)
{
	EX_MAP (x, p->k->pool, &e)
		if (x->kind == EX_ITER)
			x = p->iter[x->iter->id] ?: x;
		else if (x->kind == EX_LOAD)
			x = p->held[x->load.buf->id]
				    ?: ex_load(p->k->pool, take_buf(p, x->load.buf), x->load.idx,
					       x->load.nidx);
	return e;
}

/* Fills IT with the part's iterators. The N iterators WITHIN a tile come before the channel.
 * Returns the number of iterators. */
static int inside_tile(const Part *p, Iter *const *within, int n, Iter **it)
{
	const int tiles = p->nit - 1;

	memcpy(it, p->it, (size_t)tiles * sizeof *it);
	memcpy(it + tiles, within, (size_t)n * sizeof *it);
	it[tiles + n] = p->it[tiles];
	return tiles + n + 1;
}

/* A temporary of ROWS x COLUMNS for each tile and channel. */
static Buf *square(Part *p, const char *name, int rows, int columns)
{
	const int tiles = p->nit - 1;
	Dim *dims[MAX_RANK];

	for (int i = 0; i < tiles; i++)
		dims[i] = p->it[i]->extent;
	dims[tiles] = dim_const(p->k->ctx, rows);
	dims[tiles + 1] = dim_const(p->k->ctx, columns);
	dims[tiles + 2] = p->it[tiles]->extent;
	return kernel_temp(p->k, name, DT_F32, tiles + 3, dims);
}

/* The index of element (ROW,COLUMN) of a square. */
static void square_index(const Part *p, Expr *row, Expr *column, Expr **idx)
{
	const int tiles = p->nit - 1;

	for (int i = 0; i < tiles; i++)
		idx[i] = ex_iter(p->k->pool, p->it[i]);
	idx[tiles] = row;
	idx[tiles + 1] = column;
	idx[tiles + 2] = ex_iter(p->k->pool, p->it[tiles]);
}

static Expr *element(const Part *p, Buf *b, Expr *row, Expr *column)
{
	Expr *idx[MAX_RANK];

	square_index(p, row, column, idx);
	return kernel_load(p->k, b, idx);
}

static Expr *number(const Part *p, int i)
{
	return ex_int(p->k->pool, CT_I64, i);
}

/* The tensor [points, points, the part's iterators]. */
static Buf *points_buf(Part *p, BufKind kind, const char *name, const WinogradForm *f)
{
	Dim *dims[MAX_RANK];

	dims[0] = dims[1] = dim_const(p->k->ctx, f->points);
	for (int i = 0; i < p->nit; i++)
		dims[i + 2] = p->it[i]->extent;
	return kernel_buf(p->k, kind, name, type_tensor(p->k->ctx, DT_F32, p->nit + 2, dims));
}

static void point_index(const Part *p, Expr *i, Expr *j, Expr **idx)
{
	idx[0] = i;
	idx[1] = j;
	for (int d = 0; d < p->nit; d++)
		idx[d + 2] = ex_iter(p->k->pool, p->it[d]);
}

/* The sum of COEF * TERM over N terms, without terms whose factor is 0, and without products by 1
 * and -1. */
static Expr *combination(ExprPool *p, const double *coef, Expr *const *term, int n)
{
	Expr *sum = NULL;
	int first = -1;

	for (int i = 0; i < n && first < 0; i++)
		first = coef[i] == 1 ? i : -1;
	for (int i = 0; i < n && first < 0; i++)
		first = coef[i] != 0 ? i : -1;
	sum = coef[first] == 1 ? term[first]
			       : ex_op2(p, IN_mul, ex_num(p, CT_F32, coef[first]), term[first]);
	for (int i = 0; i < n; i++) {
		if (i == first || coef[i] == 0)
			continue;
		sum = coef[i] == 1    ? ex_op2(p, IN_add, sum, term[i])
		      : coef[i] == -1 ? ex_op2(p, IN_sub, sum, term[i])
				      : ex_op3(p, IN_mad, ex_num(p, CT_F32, coef[i]), term[i], sum);
	}
	return sum;
}

typedef void ElementIndex(const Part *p, Expr *row, Expr *column, Expr **idx);

/* Row ROW of the square TO: in each column, named NAME, the sum of COEF times the rows of FROM,
 * whose elements INDEX finds. */
static void combine_rows(Part *p, const WinogradForm *f, const double *coef, Buf *from,
			 ElementIndex *index, Buf *to, int row, const char *name)
{
	Iter *column = kernel_iter(p->k, name, dim_const(p->k->ctx, f->points)), *it[MAX_ITERS];
	const int n = inside_tile(p, &column, 1, it);
	Expr *term[WINOGRAD_POINTS], *idx[MAX_RANK];

	for (int i = 0; i < f->points; i++) {
		index(p, number(p, i), ex_iter(p->k->pool, column), idx);
		term[i] = kernel_load(p->k, from, idx);
	}
	square_index(p, number(p, row), ex_iter(p->k->pool, column), idx);
	kernel_map(p->k, it, n, to, idx, combination(p->k->pool, coef, term, f->points), NULL);
}

/* Makes P the kernel of a new node before the convolution's node. --explain describes it as WHAT.
 * Returns the node's result. */
static Value *finish(Module *m, Part *p, const Buf *out, const char *what)
{
	Node *n = node_new(m->graph, OP_Kernel, p->in, p->nin, 1, p->c->n);

	node_locs_from(n, p->c->n);
	n->out[0]->type = type_tensor(m->ctx, out->dtype, out->rank, out->dims);
	kernel_node_set(n, p->k);
	module_note(m, n, arena_printf(m->arena, "layout: %s", what));
	return n->out[0];
}

/* The operand V of the part, [points, points, the part's iterators]. */
static Buf *operand(Part *p, const char *name, Value *v)
{
	Buf *b = kernel_buf(p->k, BUF_IN, name, v->type);

	b->param = p->nin;
	p->in[p->nin++] = v;
	return b;
}

/* ---- The filter ---- */

/* f[i,j,groups,c,o]. The sum is rounded once. */
static Value *filter(Module *m, const Conv3x3 *c, const WinogradForm *f)
{
	enum { TAPS = WINOGRAD_TAPS };
	double table[WINOGRAD_POINTS * WINOGRAD_POINTS * TAPS * TAPS];
	Part p = part_new(m, c, "filter");
	ExprPool *pool = p.k->pool;
	Dim *points = dim_const(m->ctx, f->points), *taps = dim_const(m->ctx, TAPS);
	Iter *i = part_iter(&p, "i", points), *j = part_iter(&p, "j", points),
	     *tap[2] = {kernel_iter(p.k, "r", taps), kernel_iter(p.k, "s", taps)};
	Dim *dims[MAX_RANK];
	Buf *out, *acc, *factors;
	Expr *at = ex_int(pool, CT_I64, 0);
	Iter *const index[] = {i, j, tap[0], tap[1]};
	int n = 0;

	add_others(&p, 0, c->ngroup);
	p.iter[c->c->id] = ex_iter(pool, part_iter(&p, "c", c->c->extent));
	p.iter[c->o->id] = ex_iter(pool, part_iter(&p, "o", c->o->extent));
	for (int d = 0; d < p.nit; d++)
		dims[d] = p.it[d]->extent;
	out = kernel_buf(p.k, BUF_OUT, "filter", type_tensor(m->ctx, DT_F32, p.nit, dims));
	acc = kernel_temp(p.k, "acc", DT_F64, p.nit, dims);
	for (int a = 0; a < f->points; a++)
		for (int b = 0; b < f->points; b++)
			for (int r = 0; r < TAPS; r++)
				for (int s = 0; s < TAPS; s++)
					table[n++] = f->f[a][r] * f->f[b][s];
	factors = kernel_table(p.k, "factors", DT_F64, n, table);
	for (int d = 0; d < 4; d++)
		at = ex_add(pool, ex_mul(pool, at, ex_dim(pool, index[d]->extent)),
			    ex_iter(pool, index[d]));
	for (int d = 0; d < 2; d++)
		p.iter[c->tap[d]->id] = ex_iter(pool, tap[d]);
	kernel_reduce(p.k, MONOID_sum, p.it, p.nit, tap, 2, acc,
		      ex_op2(pool, IN_mul, kernel_load(p.k, factors, &at),
			     ex_cvt(pool, CT_F64, taken(&p, c->filter))),
		      NULL);
	kernel_map_id(p.k, p.it, out, ex_cvt(pool, CT_F32, kernel_load_iters(p.k, acc, p.it)));
	return finish(m, &p, out, "the filter of a convolution by Winograd's method");
}

/* ---- The image ---- */

/* d, a tile's square of the image. */
static Buf *part_of_image(Part *p, const WinogradForm *f)
{
	ExprPool *pool = p->k->pool;
	const Conv3x3 *c = p->c;
	Buf *d = square(p, "d", f->points, f->points);
	Iter *at[2], *it[MAX_ITERS];
	Expr *load, *inside = NULL;

	for (int i = 0; i < 2; i++) {
		at[i] = kernel_iter(p->k, i ? "l" : "k", dim_const(p->k->ctx, f->points));
		p->iter[c->out[i]->id] = ex_mul(pool, number(p, f->m), tile_at(p, i));
		p->iter[c->tap[i]->id] = ex_iter(pool, at[i]);
	}
	load = taken(p, c->x);
	for (int i = 0; i < 2; i++)
		inside = ex_and(pool, inside,
				ex_inside(pool, load->load.idx[c->at[i]],
					  ex_dim(pool, load->load.buf->dims[c->at[i]])));
	inside_tile(p, at, 2, it);
	kernel_map_id(p->k, it, d, ex_op3(pool, IN_select, inside, load, ex_num(pool, CT_F32, 0)));
	return d;
}

/* v[i,j,tile,c] */
static Value *image(Module *m, const Conv3x3 *c, const WinogradForm *f)
{
	Part p = part_new(m, c, "image");
	Expr *term[WINOGRAD_POINTS], *idx[MAX_RANK];
	Iter *i, *it[MAX_ITERS];
	Buf *out, *d, *t;
	int n;

	add_iters(&p, f->m, c->c);
	out = points_buf(&p, BUF_OUT, "image", f);
	d = part_of_image(&p, f);
	t = square(&p, "t", f->points, f->points);
	for (int row = 0; row < f->points; row++)
		combine_rows(&p, f, f->b[row], d, square_index, t, row, "l");
	for (int column = 0; column < f->points; column++) {
		i = kernel_iter(p.k, "i", dim_const(m->ctx, f->points));
		n = inside_tile(&p, &i, 1, it);
		for (int k = 0; k < f->points; k++)
			term[k] = element(&p, t, ex_iter(p.k->pool, i), number(&p, k));
		point_index(&p, ex_iter(p.k->pool, i), number(&p, column), idx);
		kernel_map(p.k, it, n, out, idx,
			   combination(p.k->pool, f->b[column], term, f->points), NULL);
	}
	return finish(m, &p, out, "the image of a convolution by Winograd's method, transformed");
}

/* ---- The product ---- */

/* p[i,j,tile,o] */
static Value *product(Module *m, const Conv3x3 *c, const WinogradForm *f, Value *image,
		      Value *filter)
{
	Part p = part_new(m, c, "product");
	Dim *points = dim_const(m->ctx, f->points);
	Iter *i = kernel_iter(p.k, "i", points), *j = kernel_iter(p.k, "j", points),
	     *ch = kernel_iter(p.k, "c", c->c->extent), *band[MAX_ITERS], *row[MAX_ITERS],
	     *of_filter[MAX_ITERS];
	Buf *v = operand(&p, "image", image), *w = operand(&p, "filter", filter), *out;
	int n = 0;

	add_iters(&p, f->m, c->o);
	out = points_buf(&p, BUF_OUT, "product", f);
	band[n++] = i;
	band[n++] = j;
	for (int d = 0; d < p.nit; d++)
		band[n++] = p.it[d];
	memcpy(row, band, (size_t)n * sizeof *row);
	row[n - 1] = ch;
	memcpy(of_filter, band, (size_t)(2 + c->ngroup) * sizeof *of_filter);
	of_filter[2 + c->ngroup] = ch;
	of_filter[3 + c->ngroup] = band[n - 1];
	kernel_reduce(p.k, MONOID_sum, band, n, &ch, 1, out,
		      ex_op2(p.k->pool, IN_mul, kernel_load_iters(p.k, v, row),
			     kernel_load_iters(p.k, w, of_filter)),
		      NULL);
	return finish(m, &p, out, "the products of a convolution by Winograd's method");
}

/* ---- The result ---- */

/* Records VAL as the value of statement S of the convolution's kernel in row A of the tile, in a
 * constant column. Later statements read it at the same element. */
static void write_element(Part *p, const Stmt *s, Iter *a, Expr *val, Expr *guard)
{
	Expr *idx[MAX_RANK];
	Iter *it[MAX_ITERS];
	const int n = inside_tile(p, &a, 1, it);

	p->held[s->out[0]->id] = val;
	if (s->out[0]->kind == BUF_TEMP)
		return;
	for (int d = 0; d < s->nwidx; d++)
		idx[d] = taken(p, s->widx[d]);
	kernel_map(p->k, it, n, take_buf(p, s->out[0]), idx, val, guard);
}

/* Maps the iterators of S, a statement of the epilogue, to the values of the product's
 * iterators. */
static void set_iters(Part *p, const Stmt *s)
{
	const Kernel *of = p->c->k;
	Iter **iter = NEW_ARRAY(p->k->arena, of->iters.n + 1, Iter *);

	for (int d = 0; d < s->nwidx; d++)
		conv3x3_same_index(of->ctx, s->widx[d], p->c->index[s->out[0]->id][d], iter);
	for (int i = 0; i < of->iters.n; i++)
		if (iter[i])
			p->iter[i] = p->iter[iter[i]->id];
}

/* Elements (A,B) of the tile for all rows A, with the sums VAL. */
static void finish_elements(Part *p, const WinogradForm *f, Iter *a, int b, Expr *val)
{
	const Conv3x3 *c = p->c;
	ExprPool *pool = p->k->pool;
	Expr *const at[2] = {ex_iter(pool, a), number(p, b)};
	Expr *guard = NULL;

	for (int d = 0; d < 2; d++) {
		Dim *all = c->out[d]->extent;
		Expr *e = ex_add(pool, ex_mul(pool, number(p, f->m), tile_at(p, d)), at[d]);

		p->iter[c->out[d]->id] = e;
		if (!dim_multiple(p->k->ctx, all, f->m))
			guard = ex_and(pool, guard, ex_op2(pool, IN_lt, e, ex_dim(pool, all)));
	}
	if (guard && guard->kind == EX_CONST && !guard->i)
		return; /* outside of an image with fewer columns than a tile */
	write_element(p, c->k->stmts.at[0], a, val, guard);
	for (int i = 1; i < c->k->stmts.n; i++) {
		Stmt *s = c->k->stmts.at[i];

		set_iters(p, s);
		write_element(p, s, a, taken(p, s->val[0]), guard);
	}
}

/* Makes the convolution's node compute its results, and its epilogue, from POINTS. */
static void result(Module *m, const Conv3x3 *c, const WinogradForm *f, Value *points)
{
	Part p = part_new(m, c, NULL);
	Buf *in = operand(&p, "product", points), *t;
	Expr *term[WINOGRAD_POINTS];
	Iter *a;

	add_iters(&p, f->m, c->o);
	t = square(&p, "t", f->m, f->points);
	for (int row = 0; row < f->m; row++)
		combine_rows(&p, f, f->a[row], in, point_index, t, row, "j");
	for (int column = 0; column < f->m; column++) {
		a = kernel_iter(p.k, "a", dim_const(m->ctx, f->m));
		for (int k = 0; k < f->points; k++)
			term[k] = element(&p, t, ex_iter(p.k->pool, a), number(&p, k));
		finish_elements(&p, f, a, column,
				combination(p.k->pool, f->a[column], term, f->points));
	}
	for (int i = 0; i < p.nin; i++)
		node_set_input(c->n, i, p.in[i]);
	node_truncate_inputs(c->n, p.nin);
	kernel_node_set(c->n, p.k);
}

void winograd(Module *m, Node *n)
{
	const Form *form = m->opt.winograd ? module_form(m, n) : NULL;
	WinogradForm f;
	Conv3x3 c;
	Value *v;

	if (!form || !conv3x3_find(m, n, &c))
		return;
	conv3x3_explain(m, &c, form->winograd);
	if (!form->winograd)
		return;
	winograd_form(form->winograd, &f);
	VEC_EACH (b, &c.k->bufs)
		if (conv3x3_moved_dim(&c, b) >= 0)
			layout_result(m, n, b, conv3x3_moved_dim(&c, b));
	v = image(m, &c, &f);
	result(m, &c, &f, product(m, &c, &f, v, filter(m, &c, &f)));
	form_changed(m, n);
}
