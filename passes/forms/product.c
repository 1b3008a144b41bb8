/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/product.h"

#include "base/round.h"
#include "passes/forms/guards.h"
#include "passes/forms/points.h"
#include "passes/forms/scaled.h"

enum {
	/* With fewer columns most of a panel's row would be empty. Summing each column across lanes
	 * is faster then. It is not if the sum has at most SHORT_SUM terms, where adding up the
	 * lanes would cost more, or if it slides over an image, whose vectors of terms are
	 * short. */
	LEAST_COLUMNS = 8,
	/* Vectors across groups have whole lines of the cache. */
	GROUP_LANES = 16,
	/* The fewest rows for which packing few columns of a B that is not constant pays. */
	LEAST_ROWS = 8,
	SHORT_SUM = 64
};

/* ---- Recognition ---- */

/* The axis of the result in memory that is indexed by IT; -1: none. */
static int axis_along(Ctx *ctx, const Stmt *s, const Iter *it)
{
	for (int i = 0; i < s->nwidx; i++)
		if (index_goes_along(ctx, s->widx[i], it))
			return buf_axis(s->out[0], i);
	return -1;
}

static void sort_by_axis(Ctx *ctx, const Stmt *s, Iter **it, int n)
{
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0 && axis_along(ctx, s, it[j - 1]) > axis_along(ctx, s, it[j]);
		     j--) {
			Iter *t = it[j];

			it[j] = it[j - 1];
			it[j - 1] = t;
		}
}

void product_sort(Ctx *ctx, Contraction *c)
{
	sort_by_axis(ctx, c->s, c->m, c->nm);
	sort_by_axis(ctx, c->s, c->n, c->nn);
}

bool product_in_band(Product *p)
{
	int n = p->c.ng + p->c.nm + p->c.nn;

	band_of_some(p->k, p->first, p->first + p->nstmts - 1, p->k->arena, &p->band);
	if (p->band.n != n || p->c.s->id != p->first)
		return false;
	for (int i = 0; i < p->nstmts; i++) {
		const Stmt *s = p->k->stmts.at[p->first + i];

		if (s->niters != n + (i ? 0 : p->c.nk))
			return false;
	}
	return true;
}

bool product_open(Product *p)
{
	const int last = p->first + p->nstmts - 1;

	if (stmts_kind(p->k, p->first, last) != FORM_CONTRACTION ||
	    !stmt_contraction(p->k, p->k->stmts.at[p->first], &p->c))
		return false;
	product_sort(p->k->ctx, &p->c);
	return product_in_band(p);
}

/* ---- Which iterators merge ---- */

/* The iterator of statement S that corresponds to iterator IT of the contraction. */
static Iter *partner(const Product *p, const Stmt *s, const Iter *it)
{
	for (int b = 0; b < p->band.n; b++)
		if (p->band.of[p->c.s->id][b] == it)
			return p->band.of[s->id][b];
	return NULL;
}

bool product_stores(const Product *p, const Stmt *s)
{
	return s->out[0]->kind != BUF_TEMP || p->nstmts == 1;
}

/* Iterators OUT and IN, the inner one, can be merged in all results and in all reads of the
 * statements after the product. */
static bool product_merges_after(const Product *p, const Iter *out, const Iter *in)
{
	for (int i = 0; i < p->nstmts; i++) {
		Stmt *s = p->k->stmts.at[p->first + i];
		const Iter *o = partner(p, s, out), *n = partner(p, s, in);
		Pair pair = {p->k, o, n, in->extent, p->c.s->out[0]};

		if (!o || !n || (i && !pair_joins(&pair, s->val[0])))
			return false;
		if (i && s->guard && (expr_has_iter(s->guard, o) || expr_has_iter(s->guard, n)))
			return false;
		if (product_stores(p, s) &&
		    !pair_steps(&pair, flat_index(p->k, s->out[0], s->widx)))
			return false;
	}
	return true;
}

bool product_joins_after(const Product *p, Iter *const *it, int n)
{
	for (int i = 0; i + 1 < n; i++)
		if (!product_merges_after(p, it[i], it[i + 1]))
			return false;
	return true;
}

static bool merges_in(Product *p, Expr *e, const Iter *out, const Iter *in)
{
	return e->kind == EX_LOAD && pair_joins(&(Pair){p->k, out, in, in->extent, NULL}, e);
}

Iter *product_iter(const Product *p, const Stmt *s, const Iter *it)
{
	for (int b = 0; b < p->band.n; b++)
		if (p->band.of[s->id][b] == it)
			return p->band.of[p->c.s->id][b];
	return (Iter *)it;
}

int64_t product_panel(const Target *const *t, int n, CType ct)
{
	int64_t bytes = CACHE_LINE;

	for (int i = 0; i < n; i++)
		if (bytes < t[i]->vector_bytes * TILE_VECTORS)
			bytes = t[i]->vector_bytes * TILE_VECTORS;
	return bytes / dtype_bytes(ctype_dtype(ct));
}

/* ---- How the operands are read ---- */

DType product_packed_type(const Product *p, const Expr *e)
{
	const bool narrow = p->c.ct == CT_F32 ? p->dot || p->row_scale : p->kpack > 1;

	return narrow ? contraction_type(e) : ctype_dtype(p->c.ct);
}

static bool plain(const Product *p, const Expr *e)
{
	return e->kind == EX_LOAD && e->load.buf->dtype == product_packed_type(p, e) &&
	       !e->load.buf->data;
}

/* The terms, D of them, are a multiple of a step. */
static bool whole_steps(const Product *p, Dim *d)
{
	return p->kpack == 1 || dim_multiple(p->k->ctx, d, p->kpack);
}

/* The first of the innermost k iterators that merge in A, which form a segment of contiguous terms.
 * The guard bounds at most one of the segment's iterators, so the terms that it admits are a
 * range. */
static int first_of_run(Product *p)
{
	Expr *guard = p->c.guard_a;
	int run = p->c.nk - 1;

	while (run > 0 && merges_in(p, p->c.a, p->c.k[run - 1], p->c.k[run]) &&
	       !(guard &&
		 (expr_has_iter(guard, p->c.k[run - 1]) || expr_has_iter(guard, p->c.k[run]))))
		run--;
	return run;
}

/* The guard of A admits a range of a segment's terms, and packed segments have the stride of A. */
static bool has_unit_step(const Product *p)
{
	return p->a_step->kind == EX_CONST && p->a_step->i == 1;
}

static bool has_edges(Product *p)
{
	Expr *lo = ex_int(p->k->pool, CT_I64, 0), *hi = ex_dim(p->k->pool, p->run_terms);

	return !guard_to_range(p->k, p->c.guard_a, p->c.k[p->c.nk - 1], &lo, &hi) &&
	       has_unit_step(p);
}

/* A is read in place if its k iterators merge into one with a constant stride, and in segments if
 * only some of them merge. Segments outside of the tensor are packed, which makes their stride 1. A
 * segment of one term does not count. */
static void look_at_a(Product *p)
{
	Affine a;
	Expr *e = p->c.a;
	int64_t terms;

	p->run = p->c.nk;
	if (!plain(p, e) || !ex_affine(p->k->ctx, flat_index(p->k, e->load.buf, e->load.idx), &a))
		return;
	p->a_step = ex_dim(p->k->pool, affine_coef(p->k->ctx, &a, p->c.k[p->c.nk - 1]));
	if ((p->kpack > 1 || p->row_scale) && !has_unit_step(p))
		return;
	p->run = first_of_run(p);
	p->run_terms = iters_points(p->k->ctx, p->c.k + p->run, p->c.nk - p->run);
	if (p->run == 0 && !p->c.guard_a && whole_steps(p, p->run_terms)) {
		p->a_direct = true;
		p->run = p->c.nk;
		return;
	}
	if (!dim_is_const(p->run_terms, &terms) || terms < 2 || !whole_steps(p, p->run_terms) ||
	    (p->c.guard_a && !has_edges(p)))
		p->run = p->c.nk;
}

/* I is the innermost column of P. */
static bool is_column(const Product *p, const Expr *i)
{
	return i->kind == EX_ITER && i->iter == p->c.n[p->c.nn - 1];
}

/* E loads elements that are packed in panels of P's width, or of a width that P can adopt; TERMS of
 * a column are contiguous. */
static bool in_panels(Product *p, const Expr *e, int *terms)
{
	const Layout *l = e->kind == EX_LOAD ? e->load.buf->layout : NULL;
	/* the axis of a panel's columns: the last axis, or the one before the contiguous terms */
	int col = l ? l->n - 1 : 0;
	int64_t bytes;

	*terms = 1;
	while (col > 0 && l->ax[col].mod && !is_column(p, e->load.idx[l->ax[col].dim]))
		*terms *= (int)l->ax[col--].mod;
	if (col <= 0 || !l->ax[col].mod || (p->pw && p->pw != l->ax[col].mod))
		return false;
	bytes = l->ax[col].mod * dtype_bytes(ctype_dtype(p->c.ct));
	if (bytes < CACHE_LINE || bytes > PANEL_BYTES)
		return false;
	p->pw = l->ax[col].mod;
	return true;
}

/* The number of terms of a group, if E is the load of a factor of each term; 0: all terms. */
static int64_t group_of(const Expr *e)
{
	for (int i = 0; i < e->load.nidx; i++)
		if (ex_is_op(e->load.idx[i], IN_floordiv))
			return e->load.idx[i]->op.arg[1]->i;
	return 0;
}

/* The load of scales in panels in E, which may widen it from f16; null: E is something else. */
static Expr *scales_in(Product *p, Expr *e)
{
	const DType t = e->kind == EX_LOAD ? e->load.buf->dtype : DT_NONE;
	int one;

	return (t == DT_F32 || dtype_is_half(t)) && in_panels(p, e, &one) ? e : NULL;
}

/* E, operand B, is quantised, and its parts are packed in panels
 * (passes/layout/panels_scaled.c). */
static bool look_at_parts(Product *p, Expr *e)
{
	int one, at;

	if (p->kpack > 1 || p->c.ct != CT_F32 || !ex_is_op(e, IN_mul))
		return false;
	at = scales_in(p, e->op.arg[1]) != NULL;
	p->scale = scales_in(p, e->op.arg[at]);
	e = e->op.arg[1 - at];
	if (ex_is_op(e, IN_sub)) {
		p->zero = e->op.arg[1];
		e = e->op.arg[0];
	}
	p->numbers = ex_is_op(e, IN_cvt) ? e->op.arg[0] : e;
	if (!p->scale || (p->zero && !in_panels(p, p->zero, &one)) ||
	    !in_panels(p, p->numbers, &p->terms) ||
	    (p->zero && p->zero->load.buf->dtype != DT_F32) ||
	    dtype_info[p->numbers->load.buf->dtype].bits > 8)
		return false;
	p->group = group_of(p->scale);
	return !p->zero || group_of(p->zero) == p->group;
}

/* B in panels is f16 or bf16, which tiles widen to f32 in registers. */
static bool is_half(const Product *p, const Expr *e)
{
	return p->c.ct == CT_F32 && dtype_is_half(e->load.buf->dtype) && !e->load.buf->data;
}

/* Sums of up to so many terms cannot amortise the search for narrow ones, of which their panels
 * have few: a channel's largest weight is relatively small where there are few. */
enum { FLIPPED_TERMS = 64 };

int64_t product_bits_rows(int64_t terms, int64_t width)
{
	const int64_t bits = width * 4 * 8; /* of a row */

	return ceil_div(terms, bits);
}

bool product_has_flips(int64_t terms)
{
	return terms <= FLIPPED_TERMS;
}

int64_t product_order_rows(int64_t terms, int64_t width)
{
	const int64_t bytes = width * 4, next = ceil_div(terms, bytes),
		      rows = 1 + product_bits_rows(terms, width);

	if (product_has_flips(terms))
		return rows + terms;
	/* CPUs fetch lines in pairs: with an odd number of rows, bert_base_int8 of one token took
	 * 1.08 times as long. */
	return rows + next + (terms + rows + next) % 2;
}

/* B, in panels of bytes, has more rows than terms: only the pass that adds the order makes such
 * panels. */
static bool has_order(const Product *p)
{
	const Buf *b = p->c.b->load.buf;
	const int term = b->layout->ax[b->layout->n - 1].dim;
	int64_t k, rows;

	if (p->kpack != 4 || b->dtype != DT_I8 || contraction_type(p->c.a) != DT_U8 ||
	    !dim_is_const(iters_points(p->k->ctx, p->c.k, p->c.nk), &k) ||
	    !dim_is_const(b->dims[term], &rows))
		return false;
	k = (k + 3) / 4;
	return rows == (k + product_order_rows(k, p->pw)) * 4;
}

/* B is read in place if its buffer is packed in panels (passes/layout/panels.c), or if all buffers
 * of a quantised B are. */
static void look_at_b(Product *p)
{
	int terms;

	p->terms = p->kpack;
	if (!p->c.guard_b && in_panels(p, p->c.b, &terms)) {
		p->b_panels = (plain(p, p->c.b) || is_half(p, p->c.b)) && terms == p->kpack;
		p->numbers = p->c.b;
		p->ordered = p->b_panels && has_order(p);
	} else if (!p->c.guard_b) {
		p->b_panels = look_at_parts(p, p->c.b);
	}
	if (!p->b_panels)
		product_pack_b(p);
}

/* A is read as bytes and scales if its groups are those of B, whose words hold four bytes of
 * terms. */
static void look_at_rows(Product *p)
{
	ScaledRows r;

	if (!p->scale || p->terms * dtype_info[p->numbers->load.buf->dtype].bits != PANEL_WORD ||
	    !scaled_rows(&p->c, &r) || r.byte->load.buf->layout || r.scale->load.buf->layout ||
	    r.group % p->terms || (p->group && p->group != r.group) || p->c.nk != 1 ||
	    !dim_multiple(p->k->ctx, p->c.k[0]->extent, r.group))
		return;
	p->whole_a = p->c.a;
	p->c.a = r.byte;
	p->row_scale = r.scale;
	p->row_group = r.group;
}

/* ---- Groups ---- */

/* The iterator of the N in IT by which E's coefficient is STEP; null: there is none. */
static Iter *iter_with_step(Ctx *c, const Affine *a, Iter *const *it, int n, int64_t step)
{
	for (int i = 0; i < n; i++)
		if (dim_equals(affine_coef(c, a, it[i]), step))
			return it[i];
	return NULL;
}

/* Few columns leave most of a vector empty: of 4, a convolution of 128 channels of 56x56 took
 * 0.93 ms, and takes 0.25 in vectors across groups. Groups of less would have runs of too few
 * terms. Groups that fill half of a vector or more have no need. */
bool product_in_groups(const Product *p, ProductGroups *g)
{
	Ctx *ctx = p->k->ctx;
	const Contraction *c = &p->c;
	int64_t columns, terms, groups;
	Affine a;

	if (c->nn != 1 || c->nk < 2 || !c->ng || c->ct != CT_F32 || c->guard_b ||
	    c->a->kind != EX_LOAD || c->a->load.buf->dtype != DT_F32 || c->a->load.buf->data ||
	    !dim_is_const(c->n[0]->extent, &columns) || columns < LEAST_RUN ||
	    columns & (columns - 1) || !dim_is_const(c->k[c->nk - 1]->extent, &terms) ||
	    terms != columns ||
	    !ex_affine(ctx, flat_index(p->k, c->a->load.buf, c->a->load.idx), &a))
		return false;
	*g = (ProductGroups){iter_with_step(ctx, &a, c->g, c->ng, columns), c->n[0],
			     c->k[c->nk - 1], columns};
	return g->group && dim_equals(affine_coef(ctx, &a, g->term), 1) &&
	       dim_is_const(g->group->extent, &groups) && groups * columns % GROUP_LANES == 0 &&
	       !(c->guard_a &&
		 (expr_has_iter(c->guard_a, g->group) || expr_has_iter(c->guard_a, g->term))) &&
	       product_merges_after(p, g->group, g->column);
}

/* The index D of E, from the last one, is IT. */
static bool index_is(const Expr *e, int d, const Iter *it)
{
	const Expr *x = e->load.idx[e->load.nidx - 1 - d];

	return x->kind == EX_ITER && x->iter == it;
}

/* E is (TO - FROM) mod N. */
static bool is_distance(Ctx *c, Expr *e, const Iter *to, const Iter *from, int64_t n)
{
	Affine a;

	return ex_is_op(e, IN_mod) && e->op.arg[1]->kind == EX_CONST && e->op.arg[1]->i == n &&
	       ex_affine(c, e->op.arg[0], &a) && a.n == 2 && dim_equals(a.base, 0) &&
	       dim_equals(affine_coef(c, &a, to), 1) && dim_equals(affine_coef(c, &a, from), -1);
}

/* B is packed for vectors across groups (passes/layout/panels_groups.c). */
static bool look_at_groups(Product *p)
{
	Contraction *c = &p->c;
	const Expr *b = c->b;
	ProductGroups g;
	int n = 0;

	if (b->kind != EX_LOAD || b->load.buf->layout || b->load.nidx != c->nk + 2 ||
	    b->load.buf->dtype != DT_F32 || !product_in_groups(p, &g) || !index_is(b, 0, g.term) ||
	    !index_is(b, 1, g.group) ||
	    !is_distance(p->k->ctx, b->load.idx[c->nk - 1], g.column, g.term, g.columns))
		return false;
	for (int i = 0; i + 1 < c->nk; i++)
		if (!index_is(b, c->nk + 1 - i, c->k[i]))
			return false;
	for (int i = 0; i < c->ng; i++)
		if (c->g[i] != g.group)
			c->g[n++] = c->g[i];
	c->ng = n;
	c->n[0] = g.group;
	c->n[1] = g.column;
	c->nn = 2;
	p->group_columns = g.columns;
	p->b_panels = true;
	p->numbers = c->b;
	p->kpack = p->terms = 1;
	p->pw = GROUP_LANES;
	return true;
}

/* Takes the groups for iterators of g again. */
static void drop_groups(Product *p)
{
	Contraction *c = &p->c;

	if (!p->group_columns)
		return;
	c->g[c->ng++] = c->n[0];
	c->n[0] = c->n[1];
	c->nn = 1;
	p->group_columns = 0;
}

/* Reads A in f32 although it is quantised. */
static void drop_rows(Product *p)
{
	if (!p->row_scale)
		return;
	p->c.a = p->whole_a;
	p->row_scale = NULL;
	p->a_direct = false;
}

static void split_n(Product *p)
{
	int first = p->c.nn - 1;

	if (!p->b_panels || p->group_columns)
		while (first > 0 && product_merges_after(p, p->c.n[first - 1], p->c.n[first]))
			first--;
	for (int i = 0; i < p->c.ng; i++)
		p->outer[p->nouter++] = p->c.g[i];
	for (int i = 0; i < first; i++)
		p->outer[p->nouter++] = p->c.n[i];
	for (int i = first; i < p->c.nn; i++)
		p->nin[p->nnin++] = p->c.n[i];
	p->m_merges = true;
	for (int i = 0; i + 1 < p->c.nm; i++)
		p->m_merges = p->m_merges && product_merges_after(p, p->c.m[i], p->c.m[i + 1]) &&
			      (!p->a_direct || merges_in(p, p->c.a, p->c.m[i], p->c.m[i + 1]));
}

bool product_has_columns(Kernel *k, const Contraction *c, bool gpu)
{
	int64_t n, terms;

	if (c->nn > 1 || !dim_is_const(c->n[0]->extent, &n) || n >= LEAST_COLUMNS)
		return true;
	if (gpu || n <= 1)
		return false;
	return (dim_is_const(iters_points(k->ctx, c->k, c->nk), &terms) && terms <= SHORT_SUM) ||
	       (contraction_slides(c, c->a) && !contraction_row_of_pixels(k, c, c->a));
}

/* C has a sum for each phase of a stride, as a transposed convolution has. */
static bool has_phases(Kernel *k, const Contraction *c)
{
	for (int i = 0; i < c->ng; i++)
		if (stmt_is_phase(k->ctx, c->s, c->g[i]))
			return true;
	return false;
}

bool product_reads_rows(Kernel *k, const Contraction *c, Expr *image, Iter *const *channels, int n)
{
	const Iter *row = contraction_row_of_pixels(k, c, image);
	int64_t width, taps;

	if (!row || has_phases(k, c) ||
	    !dim_is_const(c->s->iter[c->s->niters - 1]->extent, &taps) || taps < LEAST_RUN ||
	    taps >= SHORT_LOOP)
		return false;
	if (!dim_is_const(row->extent, &width))
		return iters_fewer(k->ctx, channels, n, PACKED_CHANNELS / 2);
	return width >= SHORT_LOOP && width >= 2 * taps &&
	       iters_fewer(k->ctx, channels, n, PACKED_CHANNELS);
}

static bool is_contiguous_along(Kernel *k, const Expr *e, const Iter *it)
{
	int64_t step;

	return e->kind == EX_LOAD &&
	       ex_const_step(k->ctx, flat_index(k, e->load.buf, e->load.idx), it, &step) &&
	       step == 1;
}

/* B has few columns, but a tile that is mostly empty is faster than sums in rows:
 *
 *   - B is contiguous along them, as the values of attention heads of 4 are. A sum across lanes would
 *     gather its terms, and a vector of states has only these columns: 768x768 by 768x4 took 1.1 ms
 *     in rows, and takes 0.13.
 *   - B is constant, so that it is packed once, and A has its terms in rows. With AVX2 4 rows of 4096
 *     terms by 4 columns took 14 us in vectors of states, and take 3.1; 8 rows of 1024 terms took 8.8
 *     in tiles whose B was packed in each run, and take 1.5. Of 1 to 7 rows of 96 terms it is 0.54 to
 *     0.82 of the time. */
static bool has_short_rows(Kernel *k, const Contraction *c, bool b_constant)
{
	int64_t n;

	return c->nn == 1 && dim_is_const(c->n[0]->extent, &n) && n > 1 &&
	       (b_constant ? c->nk == 1 && is_contiguous_along(k, c->a, c->k[0])
			   : !iters_fewer(k->ctx, c->m, c->nm, LEAST_ROWS) &&
				     is_contiguous_along(k, c->b, c->n[0]));
}

bool product_pays(Kernel *k, const Contraction *c, bool b_constant, bool gpu)
{
	return c->ct != CT_BOOL && (c->nm > 0 || b_constant) &&
	       (product_has_columns(k, c, gpu || !b_constant) ||
		(!gpu && has_short_rows(k, c, b_constant))) &&
	       (gpu || b_constant || !product_reads_rows(k, c, c->b, c->m, c->nm));
}

MmaKind product_instruction(const Contraction *c, const Gpu *gpu, bool may_round)
{
	const DType a = contraction_type(c->a), b = contraction_type(c->b);
	int best = MMA_FMA;

	for (int i = MMA_FMA + 1; i < MMA_COUNT; i++) {
		const MmaInfo *in = &mma_info[i];

		if (in->type[0] == a && in->type[1] == b && in->sum == c->ct && in->sm <= gpu->sm &&
		    in->k > mma_info[best].k && !mma_is_wgmma((MmaKind)i) &&
		    (may_round || !in->round))
			best = i;
	}
	return (MmaKind)best;
}

bool product_tiles(Product *p)
{
	p->pw = 0;
	p->kpack = contraction_kpack(&p->c);
	if (look_at_groups(p))
		return true;
	look_at_b(p);
	return product_pays(p->k, &p->c, p->b_panels, false);
}

bool product_open_all(Product *p, Kernel *k)
{
	*p = (Product){.k = k, .nstmts = k->stmts.n};
	return product_open(p);
}

bool product_is_whole(Kernel *k)
{
	Product p;

	return product_open_all(&p, k) && product_tiles(&p);
}

bool product_begin(Product *p, Kernel *k)
{
	return product_begin_some(p, k, 0, k->stmts.n);
}

bool product_begin_some(Product *p, Kernel *k, int first, int nstmts)
{
	*p = (Product){.k = k, .first = first, .nstmts = nstmts};
	if (!product_open(p) || !product_tiles(p))
		return false;
	look_at_rows(p);
	look_at_a(p);
	if (!p->a_direct)
		drop_rows(p);
	if (p->group_columns && p->run == p->c.nk) /* vectors across groups are read from runs */
		product_pack_b(p);
	/* tiles with quantised B read A in place or packed, not in segments */
	if (p->scale)
		p->run = p->c.nk;
	return true;
}

void product_pack_a(Product *p)
{
	drop_rows(p);
	p->a_direct = false;
	p->run = p->c.nk;
}

bool product_has_dot(const Product *p)
{
	return p->b_panels && p->kpack > 1 && contraction_type(p->c.a) == DT_BF16;
}

void product_use_dot(Product *p)
{
	p->dot = true;
	p->a_direct = false;
	look_at_a(p);
}

bool product_has_matrix(const Product *p)
{
	if (p->kpack > 1)
		return p->c.ct == CT_I32 || p->dot;
	return p->c.ct == CT_F32 && !p->scale && !p->group_columns && p->pw == 2 * MATRIX_SIDE &&
	       (!p->b_panels || p->numbers->load.buf->dtype == DT_F32);
}

void product_use_matrix(Product *p)
{
	p->matrix = true;
	if (!product_by_parts(p))
		return;
	/* rows are split from contiguous terms */
	p->a_direct = p->a_direct && has_unit_step(p);
	p->run = p->c.nk;
}

bool product_by_parts(const Product *p)
{
	return p->matrix && p->kpack == 1;
}

void product_pack_b(Product *p)
{
	drop_rows(p);
	drop_groups(p);
	p->b_panels = false;
	p->pw = PANEL_BYTES / dtype_bytes(ctype_dtype(p->c.ct));
	p->numbers = p->scale = p->zero = NULL;
	p->group = 0;
	if (p->c.ct == CT_F32)
		p->kpack = 1; /* B is packed as f32 */
	p->terms = p->kpack;
}

int64_t product_part_step(const Product *p)
{
	int64_t step = p->row_scale ? p->row_group : p->terms;

	while (p->group && step % p->group)
		step += p->terms;
	return step;
}

void product_flatten(Product *p)
{
	split_n(p);
	p->m = iters_points(p->k->ctx, p->c.m, p->c.nm);
	p->n = iters_points(p->k->ctx, p->nin, p->nnin);
	p->kk = iters_points(p->k->ctx, p->c.k, p->c.nk);
	p->steps = dim_ceildiv(p->k->ctx, p->kk, dim_const(p->k->ctx, p->kpack));
}
