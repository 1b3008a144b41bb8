/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy *contraction*: acc[g,m,n] = sum over k of A(g,m,k) * B(g,k,n), and the maps that
 * follow it pointwise, as a blocked matrix product.
 *
 *   p over (g, other n, block of n, block of m)            parallel
 *     pack B's block into panels of 128 bytes of columns   unless the weights are packed already
 *     pack A's block                                       unless A is read by plain strides,
 *                                                          or in runs of contiguous terms
 *     for panels of n, for tiles of m (or tiles, then panels)
 *       tile = A rows * B panel                            the micro-kernel
 *       the epilogue over the tile, m rows by n columns
 *
 * A sum longer than kc goes through all tiles of a block in parts. Each tile fetches some of what
 * later ones would otherwise wait for (gemm_fetch.c).
 *
 * This file recognises the product and emits its loop tree. What is packed, the sizes of tiles and
 * blocks, their order and which blocks are parallel stand in the decision (gemm_decide.c).
 *
 * Operands are expressions: im2col, padding, conversions and prologues are what packing evaluates.
 * Edges: rows past the end repeat the last row and are not stored; columns past the end are zero in
 * the panel. Every element of a product is the sum of its terms in the same order, whatever its tile
 * is: a few rows that are left over go to the tile before them (Gemm.rest), as they would not hide
 * the latency of the multiply-add.
 */
#include "passes/forms/scaled.h"
#include "passes/schedule/common/thresholds.h"
#include "passes/schedule/cpu/cpu.h"
#include "passes/schedule/cpu/gemm_impl.h"

#include <assert.h>

int64_t gemm_panel(const Target *const *t, int n, CType ct)
{
	int64_t bytes = CACHE_LINE;

	for (int i = 0; i < n; i++)
		if (bytes < t[i]->vector_bytes * TILE_VECTORS)
			bytes = t[i]->vector_bytes * TILE_VECTORS;
	return bytes / gemm_element_bytes(ct);
}

/* ---- Which iterators merge ---- */

static bool merges_in(Gemm *g, Expr *e, const Iter *out, const Iter *in)
{
	return e->kind == EX_LOAD && pair_joins(&(Pair){g->k, out, in, in->extent, NULL}, e);
}

/* ---- Set-up ---- */

DType gemm_packed_type(const Gemm *g, const Expr *e)
{
	const bool narrow = g->c.ct == CT_F32 ? g->dot || g->row_scale : g->kpack > 1;

	return narrow ? contraction_type(e) : ctype_dtype(g->c.ct);
}

static bool plain(const Gemm *g, const Expr *e)
{
	return e->kind == EX_LOAD && e->load.buf->dtype == gemm_packed_type(g, e) &&
	       !e->load.buf->data;
}

/* Terms whose number is D are whole steps. */
static bool whole_steps(const Gemm *g, Dim *d)
{
	return g->kpack == 1 || dim_multiple(g->k->ctx, d, g->kpack);
}

/* The first of the innermost k iterators that merge in A: the terms of a run. The guard bounds
 * at most one of a run's iterators, so that what it leaves of a run is a range. */
static int first_of_run(Gemm *g)
{
	Expr *guard = g->c.guard_a;
	int run = g->c.nk - 1;

	while (run > 0 && merges_in(g, g->c.a, g->c.k[run - 1], g->c.k[run]) &&
	       !(guard &&
		 (expr_has_iter(guard, g->c.k[run - 1]) || expr_has_iter(guard, g->c.k[run]))))
		run--;
	return run;
}

/* The guard of A holds for a range of a run's terms, and its packed runs have the stride of A. */
static bool has_unit_step(const Gemm *g)
{
	return g->a_step->kind == EX_CONST && g->a_step->i == 1;
}

static bool has_edges(Gemm *g)
{
	Expr *lo = ex_int(g->k->pool, CT_I64, 0), *hi = ex_dim(g->k->pool, g->run_terms);

	return !guard_to_range(g->k, g->c.guard_a, g->c.k[g->c.nk - 1], &lo, &hi) &&
	       has_unit_step(g);
}

/* A is read in place if its k iterators merge into one with a constant stride, and in runs if
 * some of them do. Runs outside of the tensor are packed, which makes their stride 1. A run of
 * one term is none. */
static void look_at_a(Gemm *g)
{
	Affine a;
	Expr *e = g->c.a;
	int64_t terms;

	g->run = g->c.nk;
	if (!plain(g, e) || !ex_affine(g->k->ctx, flat_index(g->k, e->load.buf, e->load.idx), &a))
		return;
	g->a_step = ex_dim(g->k->pool, affine_coef(g->k->ctx, &a, g->c.k[g->c.nk - 1]));
	if ((g->kpack > 1 || g->row_scale) && !has_unit_step(g))
		return;
	g->run = first_of_run(g);
	g->run_terms = gemm_product(g, g->c.k + g->run, g->c.nk - g->run);
	if (g->run == 0 && !g->c.guard_a && whole_steps(g, g->run_terms)) {
		g->a_direct = true;
		g->run = g->c.nk;
		return;
	}
	if (!dim_is_const(g->run_terms, &terms) || terms < 2 || !whole_steps(g, g->run_terms) ||
	    (g->c.guard_a && !has_edges(g)))
		g->run = g->c.nk;
}

/* I is the innermost column of G. */
static bool is_column(const Gemm *g, const Expr *i)
{
	return i->kind == EX_ITER && i->iter == g->c.n[g->c.nn - 1];
}

/* E is the load of elements that are packed in panels of G's width, or of one that becomes G's;
 * TERMS of a column are contiguous. */
static bool in_panels(Gemm *g, const Expr *e, int *terms)
{
	const Layout *l = e->kind == EX_LOAD ? e->load.buf->layout : NULL;
	/* the axis of the columns in a panel: the last one, or the one before those of
	 * contiguous terms */
	int col = l ? l->n - 1 : 0;
	int64_t bytes;

	*terms = 1;
	while (col > 0 && l->ax[col].mod && !is_column(g, e->load.idx[l->ax[col].dim]))
		*terms *= (int)l->ax[col--].mod;
	if (col <= 0 || !l->ax[col].mod || (g->pw && g->pw != l->ax[col].mod))
		return false;
	bytes = l->ax[col].mod * gemm_element_bytes(g->c.ct);
	if (bytes < CACHE_LINE || bytes > PANEL_BYTES)
		return false;
	g->pw = l->ax[col].mod;
	return true;
}

/* The number of terms of a group, as a factor of the terms has it whose load is E; 0: all terms. */
static int64_t group_of(const Expr *e)
{
	for (int i = 0; i < e->load.nidx; i++)
		if (ex_is_op(e->load.idx[i], IN_floordiv))
			return e->load.idx[i]->op.arg[1]->i;
	return 0;
}

/* The load of scales of E, which may be halves, in panels; null: E is something else. */
static Expr *scales_in(Gemm *g, Expr *e)
{
	const DType t = e->kind == EX_LOAD ? e->load.buf->dtype : DT_NONE;
	int one;

	return (t == DT_F32 || dtype_is_half(t)) && in_panels(g, e, &one) ? e : NULL;
}

/* E, operand B, is a quantised one whose parts are packed in panels
 * (passes/layout/panels_scaled.c). */
static bool look_at_parts(Gemm *g, Expr *e)
{
	int one, at;

	if (g->kpack > 1 || g->c.ct != CT_F32 || !ex_is_op(e, IN_mul))
		return false;
	at = scales_in(g, e->op.arg[1]) != NULL;
	g->scale = scales_in(g, e->op.arg[at]);
	e = e->op.arg[1 - at];
	if (ex_is_op(e, IN_sub)) {
		g->zero = e->op.arg[1];
		e = e->op.arg[0];
	}
	g->numbers = ex_is_op(e, IN_cvt) ? e->op.arg[0] : e;
	if (!g->scale || (g->zero && !in_panels(g, g->zero, &one)) ||
	    !in_panels(g, g->numbers, &g->terms) ||
	    (g->zero && g->zero->load.buf->dtype != DT_F32) ||
	    dtype_info[g->numbers->load.buf->dtype].bits > 8)
		return false;
	g->group = group_of(g->scale);
	return !g->zero || group_of(g->zero) == g->group;
}

/* B in panels is of f16 or bf16, which tiles widen to f32 in registers. */
static bool is_half(const Gemm *g, const Expr *e)
{
	return g->c.ct == CT_F32 && dtype_is_half(e->load.buf->dtype) && !e->load.buf->data;
}

/* B is read in place if its buffer is packed in panels (passes/layout/panels.c), or its parts are. */
static void look_at_b(Gemm *g)
{
	int terms;

	g->terms = g->kpack;
	if (!g->c.guard_b && in_panels(g, g->c.b, &terms)) {
		g->b_panels = (plain(g, g->c.b) || is_half(g, g->c.b)) && terms == g->kpack;
		g->numbers = g->c.b;
	} else if (!g->c.guard_b) {
		g->b_panels = look_at_parts(g, g->c.b);
	}
	if (!g->b_panels)
		gemm_pack_b_instead(g);
}

/* A is read as bytes and scales if it is quantised by the groups of B, whose words have four
 * bytes of terms. */
static void look_at_rows(Gemm *g)
{
	ScaledRows r;

	if (!g->scale || g->terms * dtype_info[g->numbers->load.buf->dtype].bits != PANEL_WORD ||
	    !scaled_rows(&g->c, &r) || r.byte->load.buf->layout || r.scale->load.buf->layout ||
	    r.group % g->terms || (g->group && g->group != r.group) || g->c.nk != 1 ||
	    !dim_multiple(g->k->ctx, g->c.k[0]->extent, r.group))
		return;
	g->whole_a = g->c.a;
	g->c.a = r.byte;
	g->row_scale = r.scale;
	g->row_group = r.group;
}

/* A is read in f32 after all. */
static void drop_rows(Gemm *g)
{
	if (!g->row_scale)
		return;
	g->c.a = g->whole_a;
	g->row_scale = NULL;
	g->a_direct = false;
}

static void split_n(Gemm *g)
{
	int first = g->c.nn - 1;

	if (!g->b_panels)
		while (first > 0 && gemm_merges_after(g, g->c.n[first - 1], g->c.n[first]))
			first--;
	for (int i = 0; i < g->c.ng; i++)
		g->outer[g->nouter++] = g->c.g[i];
	for (int i = 0; i < first; i++)
		g->outer[g->nouter++] = g->c.n[i];
	for (int i = first; i < g->c.nn; i++)
		g->nin[g->nnin++] = g->c.n[i];
	g->m_merges = true;
	for (int i = 0; i + 1 < g->c.nm; i++)
		g->m_merges = g->m_merges && gemm_merges_after(g, g->c.m[i], g->c.m[i + 1]) &&
			      (!g->a_direct || merges_in(g, g->c.a, g->c.m[i], g->c.m[i + 1]));
}

bool gemm_has_columns(Kernel *k, const Contraction *c, bool gpu)
{
	int64_t n, terms;

	if (c->nn > 1 || !dim_is_const(c->n[0]->extent, &n) || n >= LEAST_COLUMNS)
		return true;
	if (gpu || c->ng || n <= 1)
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

bool gemm_reads_rows(Kernel *k, const Contraction *c, Expr *image, Iter *const *channels, int n)
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

/* Contraction C of K is one that the strategy takes; B_CONSTANT: B is a constant. */
static bool pays(Kernel *k, const Contraction *c, bool b_constant, bool gpu)
{
	return c->ct != CT_BOOL && (c->nm > 0 || b_constant) &&
	       gemm_has_columns(k, c, gpu || !b_constant) &&
	       (gpu || b_constant || !gemm_reads_rows(k, c, c->b, c->m, c->nm));
}

bool gemm_takes(Kernel *k, Contraction *c, bool b_constant, bool gpu)
{
	if (kernel_class(k) != KC_CONTRACTION || !stmt_contraction(k, k->stmts.at[0], c))
		return false;
	gemm_sort(k->ctx, c);
	return pays(k, c, b_constant, gpu);
}

/* G's statements are a product that the strategy takes. */
static bool open_whole(Gemm *g)
{
	if (!gemm_open(g))
		return false;
	g->pw = 0;
	g->kpack = contraction_kpack(&g->c);
	look_at_b(g);
	return pays(g->k, &g->c, g->b_panels, false);
}

static void number_stmts(Kernel *k)
{
	for (int i = 0; i < k->stmts.n; i++)
		k->stmts.at[i]->id = i;
}

bool gemm_is_whole(const Target *t, Kernel *k)
{
	Gemm g = {.k = k, .t = t, .nstmts = k->stmts.n};

	number_stmts(k);
	return open_whole(&g);
}

bool gemm_begin(Gemm *g, Kernel *k)
{
	number_stmts(k);
	return gemm_begin_some(g, k, 0, k->stmts.n);
}

bool gemm_begin_some(Gemm *g, Kernel *k, int first, int nstmts)
{
	*g = (Gemm){.k = k,
		    .first = first,
		    .nstmts = nstmts,
		    .b = {.k = k, .p = k->pool, .arena = k->arena}};
	if (!open_whole(g))
		return false;
	look_at_rows(g);
	look_at_a(g);
	if (!g->a_direct)
		drop_rows(g);
	if (g->scale)
		g->run = g->c.nk; /* such tiles read A in place or packed, not in runs */
	return true;
}

void gemm_pack_instead(Gemm *g)
{
	drop_rows(g);
	g->a_direct = false;
	g->run = g->c.nk;
}

bool gemm_has_dot(const Gemm *g)
{
	return g->b_panels && g->kpack > 1 && contraction_type(g->c.a) == DT_BF16;
}

void gemm_use_dot(Gemm *g)
{
	g->dot = true;
	g->a_direct = false;
	look_at_a(g);
}

void gemm_pack_b_instead(Gemm *g)
{
	drop_rows(g);
	g->b_panels = false;
	g->pw = PANEL_BYTES / gemm_element_bytes(g->c.ct);
	g->numbers = g->scale = g->zero = NULL;
	g->group = 0;
	if (g->c.ct == CT_F32)
		g->kpack = 1; /* B is packed as f32 */
	g->terms = g->kpack;
}

int64_t gemm_part_step(const Gemm *g)
{
	int64_t step = g->row_scale ? g->row_group : g->terms;

	while (g->group && step % g->group)
		step += g->terms;
	return step;
}

void gemm_flatten(Gemm *g)
{
	split_n(g);
	g->m = gemm_product(g, g->c.m, g->c.nm);
	g->n = gemm_product(g, g->nin, g->nnin);
	g->kk = gemm_product(g, g->c.k, g->c.nk);
	g->steps = dim_ceildiv(g->k->ctx, g->kk, dim_const(g->k->ctx, g->kpack));
}

bool gemm_begin_as(Gemm *g, Kernel *k, const ProductDecision *d)
{
	if (!gemm_begin(g, k))
		return false;
	if (d->dot)
		gemm_use_dot(g);
	if (d->pack_a)
		gemm_pack_instead(g);
	if (d->pack_b)
		gemm_pack_b_instead(g);
	gemm_flatten(g);
	return true;
}

/* ---- Emission ---- */

static bool is_parallel(const ProductDecision *d, ProductAxis x)
{
	return axis_is_parallel(d->parallel, d->nparallel, x);
}

/* The loops over blocks. */
typedef struct ProductBlocks {
	const ProductDecision *d;
	Iter *nb, *mb; /* number of the block of columns, and of rows */
	Dim *nblocks, *mblocks;
	LNode *serial[MAX_ITERS + 2];
	int nserial;
} ProductBlocks;

static void open_serial(Gemm *g, ProductBlocks *bl, Iter *it)
{
	bl->serial[bl->nserial++] = l_loop(&g->b, LOOP_SERIAL, it, l_int(&g->b, 0),
					   ex_dim(g->b.p, it->extent), 1);
}

static void let_m0(Gemm *g, const ProductBlocks *bl)
{
	l_let(&g->b, g->m0, ex_mul(g->b.p, ex_iter(g->b.p, bl->mb), l_int(&g->b, g->mc)));
}

static void let_n0(Gemm *g, const ProductBlocks *bl)
{
	l_let(&g->b, g->n0, ex_mul(g->b.p, ex_iter(g->b.p, bl->nb), l_int(&g->b, g->nc)));
}

/* The grain counts an iteration's multiply-adds, where few rows count as READING_ROWS. */
static void set_grain(Gemm *g, const ProductDecision *d, int64_t grain)
{
	Ctx *c = g->k->ctx;
	Dim *m = dim_min(c, g->m, dim_const(c, g->mc)), *n = dim_min(c, g->n, dim_const(c, g->nc)),
	    *work = dim_mul(c,
			    dim_mul(c,
				    dim_max(c, dim_const(c, READING_ROWS),
					    is_parallel(d, PRODUCT_M) ? m : g->m),
				    is_parallel(d, PRODUCT_N) ? n : g->n),
			    g->steps);

	if (!is_parallel(d, PRODUCT_G))
		work = dim_mul(c, work, gemm_product(g, g->outer, g->nouter));
	l_grain(&g->b, grain, work);
}

/* Opens the stage, whose iterations are the blocks of the parallel axes. */
static void open_stage(Gemm *g, ProductBlocks *bl, int64_t grain)
{
	Ctx *c = g->k->ctx;
	const ProductDecision *d = bl->d;
	Dim *extent[PRODUCT_AXES] = {gemm_product(g, g->outer, g->nouter), bl->nblocks,
				     bl->mblocks},
	    *all = dim_const(c, 1);
	Iter *split[MAX_ITERS + 2];
	int n = 0;

	for (int i = 0; i < d->nparallel; i++)
		all = dim_mul(c, all, extent[d->parallel[i]]);
	l_of(&g->b, g->c.s);
	l_stage(&g->b, "product", all);
	set_grain(g, d, grain);
	bl->nb = l_iter(&g->b, "nb", bl->nblocks);
	bl->mb = l_iter(&g->b, "mb", bl->mblocks);
	for (int i = 0; i < d->nparallel; i++) {
		const ProductAxis x = d->parallel[i];

		for (int j = 0; x == PRODUCT_G && j < g->nouter; j++)
			split[n++] = g->outer[j];
		if (x != PRODUCT_G)
			split[n++] = x == PRODUCT_N ? bl->nb : bl->mb;
	}
	l_split(&g->b, split, n, ex_iter(g->b.p, g->b.stage->var));
}

/* Packs the block's rows of A, or finds their runs, unless A is read with one stride. */
static void prepare_a(Gemm *g)
{
	if (g->run < g->c.nk)
		gemm_find_runs(g);
	else if (!g->a_direct)
		gemm_pack_a(g);
}

/* Opens the serial loops over blocks, and packs each operand outside of the loops that it does not
 * depend on. */
static void open_blocks(Gemm *g, ProductBlocks *bl)
{
	const bool m = is_parallel(bl->d, PRODUCT_M), n = is_parallel(bl->d, PRODUCT_N);

	for (int i = 0; i < g->nouter && !is_parallel(bl->d, PRODUCT_G); i++)
		open_serial(g, bl, g->outer[i]);
	gemm_limit_terms(g);
	if (m)
		let_m0(g, bl);
	if (m && !n)
		prepare_a(g);
	if (!n)
		open_serial(g, bl, bl->nb);
	let_n0(g, bl);
	if (!g->b_panels)
		gemm_pack_b(g);
	if (!m) {
		open_serial(g, bl, bl->mb);
		let_m0(g, bl);
	}
	if (n || !m)
		prepare_a(g);
}

void product_emit(const Target *t, Kernel *k, const Decision *d, Schedule *s)
{
	ProductBlocks bl = {.d = &d->product};
	Gemm g;
	const bool fits = gemm_begin_as(&g, k, bl.d);

	assert(fits);
	g.b = l_build(k, s);
	g.panels_first = bl.d->panels_first;
	g.fetch = bl.d->fetch;
	g.mr = bl.d->mr;
	g.nr = bl.d->nr;
	g.rest = gemm_rest(t, &g, bl.d);
	g.mc = bl.d->mc;
	g.nc = bl.d->nc;
	g.kc = bl.d->kc;
	bl.nblocks = dim_ceildiv(k->ctx, g.n, dim_const(k->ctx, g.nc));
	bl.mblocks = dim_ceildiv(k->ctx, g.m, dim_const(k->ctx, g.mc));
	open_stage(&g, &bl, d->grain);
	g.m0 = l_iter(&g.b, "m0", g.m);
	g.n0 = l_iter(&g.b, "n0", g.n);
	g.mflat = l_iter(&g.b, "m", g.m);
	g.nflat = l_iter(&g.b, "n", g.n);
	open_blocks(&g, &bl);
	gemm_emit_tiles(&g);
	while (bl.nserial)
		l_close(&g.b, bl.serial[--bl.nserial]);
}
