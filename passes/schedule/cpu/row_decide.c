/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how a CPU runs maps, rows and single statements. row_legal.c says what else is legal.
 *
 * The vector iterator is the band's contiguous one, if there is one (common/row_along.c). Band
 * iterators that step through memory as one are merged. If a stage has a stencil along another
 * iterator, that one is tiled, and so is the one along which a map reads or writes what is strided
 * along the vector iterator, so that a tile is transposed in cache. All others are parallel.
 *
 * The forms that a reduction may have depend on the stage and on the locals of earlier statements.
 * So the choice opens the stage, in a schedule that is thrown away, as does the check.
 */
#include "passes/forms/form.h"

#include "base/round.h"
#include "passes/schedule/cpu/cpu.h"
#include "passes/schedule/cpu/row_impl.h"

enum {
	/* With many temporaries it is shorter, for the same reason, but some vectors long. */
	LEAST_BLOCK = 64,
	/* A single map has no states. Longer blocks have less overhead. */
	MAP_BLOCK = 4096,
	/* Bytes of a row of a transpose's tile: a cache line, all of which is used before the
	 * next tile needs its place. A block of columns is some lines long. A matrix of
	 * 1024x1024 f32, whose rows compete for the same places in L1, took 0.28 ms so, 0.38
	 * with rows of two lines, 0.44 with half a line, and 3.5 without tiles. */
	TRANSPOSE_BYTES = 64,
	TRANSPOSE_BLOCK = 256,
	/* Terms of an innermost sum, at most, that are unrolled inside the vector loop: a state is
	 * loaded and stored once for all of them. 9x9 from 64 channels of 128x128 to 3 took 12.9
	 * ms so, and 23.5 with a term at a time. */
	MOST_UNROLLED = 16,
	/* Points of a row in a nanosecond: an estimate for vectors of points with one function
	 * call. Shorter kernels, shared, take longer: copies of 8,192 elements took a
	 * microsecond alone and three on two threads. */
	POINTS_PER_NS = 4
};

bool row_has_states(const Stmt *s)
{
	return s->red && !s->scan && !stmt_is_scatter(s);
}

/* ---- The choice ---- */

/* The tile size of the iterator that stencils slide along: it is divided evenly, into tiles that
 * begin at multiples of STENCIL_POINTS. */
static int64_t tile_size(const Iter *it)
{
	int64_t n, tiles;

	if (!dim_is_const(it->extent, &n))
		return TILE_POINTS;
	tiles = ceil_div(n, TILE_POINTS);
	n = tiles ? ceil_div(n, tiles) : 1;
	return round_up(n, STENCIL_POINTS);
}

/* Points of a tile of S, which transposes. */
static int64_t transposed_points(const Stmt *s)
{
	const int bits = dtype_info[s->out[0]->dtype].bits;

	return TRANSPOSE_BYTES * 8 / bits;
}

static void add_groups(const Row *r, const Merged *g, int n, IterRole role, RowStage *st)
{
	for (int i = 0; i < n; i++) {
		const int at = g[i].of[g[i].n - 1];
		const IterRole is = at == r->vec    ? ITER_VECTOR
				    : at == r->tile ? ITER_TILE
						    : ITER_PARALLEL;

		if (is != role)
			continue;
		st->group[st->ngroups] = (IterGroup){.n = g[i].n, .role = role};
		for (int j = 0; j < g[i].n; j++)
			st->group[st->ngroups].of[j] = (uint8_t)g[i].of[j];
		st->ngroups++;
	}
}

/* Bytes that the temporary T, which S writes, has for a point of the band. */
static int64_t point_bytes(const RowPlan *plan, const Stmt *s, const Buf *t)
{
	int64_t bytes = dtype_bytes(t->dtype), n;

	for (int d = 0; d < t->rank; d++)
		if ((s->widx[d]->kind != EX_ITER ||
		     band_index(plan->band, s, s->widx[d]->iter) < 0) &&
		    dim_is_const(t->dims[d], &n))
			bytes *= n;
	return bytes;
}

static bool written_before(const Kernel *k, int first, int i, const Buf *t)
{
	for (int j = first; j < i; j++)
		if (stmt_writes(k->stmts.at[j], t))
			return true;
	return false;
}

/* Points of a block for which the temporaries of all statements stay in L1. */
static int64_t row_block(const Target *t, const LBuild *b, const RowPlan *plan)
{
	int64_t bytes = 0, block;

	for (int i = plan->first; i <= plan->last; i++) {
		const Stmt *s = b->k->stmts.at[i];
		const Buf *out = s->out[0];

		if (out->kind == BUF_TEMP && !written_before(b->k, plan->first, i, out))
			bytes += point_bytes(plan, s, out);
	}
	block = bytes ? t->l1 * 3 / 4 / bytes / LEAST_BLOCK * LEAST_BLOCK : ROW_BLOCK;
	return block < LEAST_BLOCK ? LEAST_BLOCK : block > ROW_BLOCK ? ROW_BLOCK : block;
}

/* At most MOST points of a block of IT, and half of them or more: if the blocks can be equal, and
 * whole vectors, they are, so that all loops over them have as many iterations and no remainder. */
static int64_t equal_block(const Target *t, const Iter *it, int64_t most)
{
	const int lanes = t->vector_bytes / 4;
	int64_t n;

	if (!dim_is_const(it->extent, &n) || n <= most)
		return most;
	for (int64_t block = most / lanes * lanes; 2 * block >= most; block -= lanes)
		if (n % block == 0)
			return block;
	return most;
}

static void choose_loops(const Target *t, LBuild *b, const RowPlan *plan)
{
	const IterRole roles[] = {ITER_PARALLEL, ITER_TILE, ITER_VECTOR};
	const bool map = plan->first == plan->last && !b->k->stmts.at[plan->first]->red;
	Row r = row_new(b, plan->first, plan->last, plan->band);
	RowStage *st = plan->stage;
	Merged g[MAX_ITERS];
	int n, transposes;

	row_choose_vector(&r);
	r.tile = row_stencil_iter(&r);
	transposes = r.tile < 0 ? row_transposed_iter(&r) : -1;
	r.tile = transposes >= 0 ? transposes : r.tile;
	n = row_merge_band(&r, g);
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
		add_groups(&r, g, n, roles[i], st);
	if (transposes >= 0)
		st->tile = transposed_points(b->k->stmts.at[plan->first]);
	else if (r.tile >= 0)
		st->tile = tile_size(plan->band->iter[r.tile]);
	if (r.vec >= 0)
		st->block = transposes >= 0 ? TRANSPOSE_BLOCK
			    : r.tile >= 0   ? equal_block(t, plan->band->iter[r.vec], STENCIL_BLOCK)
			    : map           ? MAP_BLOCK
					    : row_block(t, b, plan);
}

/* The innermost reduced iterator of S has at most MOST points. */
static bool has_taps(const Stmt *s, int64_t most)
{
	int64_t n;

	return s->niters > s->nband && monoid_info[s->red].n == 1 &&
	       dim_is_const(s->iter[s->niters - 1]->extent, &n) && n > 0 && n <= most;
}

/* The innermost of the iterators of S that are merged to iterator LANE of T. */
static int innermost(const Stmt *s, const Points *t, int lane)
{
	for (int i = t->nat - 1; i >= 0; i--)
		if (expr_has_iter(t->at[i], t->it[lane]))
			return s->nband + i;
	return s->nband;
}

static void choose_stmt(Row *r, Stmt *s, StmtDecision *how)
{
	Points t;

	if (r->vec >= 0 && row_has_states(s)) {
		how->form = row_is_stencil(r, s)                               ? REDUCE_STENCIL
			    : has_taps(s, MOST_UNROLLED) && row_taps_fit(r, s) ? REDUCE_TAPS
									       : REDUCE_STATES;
		how->points = how->form == REDUCE_STENCIL ? STENCIL_POINTS : 0;
	} else if (row_has_states(s)) {
		row_terms(r, s, &t);
		how->form = t.n ? REDUCE_LANES : REDUCE_NONE;
		how->lane = t.n ? innermost(s, &t, row_lane_of(&t)) : 0;
	}
	for (int o = 0; o < s->nout; o++)
		how->hold = how->hold || row_may_hold(r, s, s->out[o]);
}

void row_choose(const Target *t, LBuild *b, const RowPlan *plan)
{
	Row r;

	choose_loops(t, b, plan);
	r = row_open_stage(b, plan);
	for (int i = plan->first; i <= plan->last; i++) {
		Stmt *s = b->k->stmts.at[i];

		row_begin(&r, s);
		choose_stmt(&r, s, &plan->how[i]);
		row_hold(&r, s);
	}
}

static bool choose(const Target *t, Kernel *k, Decision *d, int nstages)
{
	Schedule none = {.kernel = k};
	LBuild b = l_build(k, &none);

	d->grain = (int64_t)t->wake * POINTS_PER_NS;
	d->rows = (RowDecision){.stage = NEW_ARRAY(k->arena, nstages, RowStage),
				.nstages = nstages,
				.stmt = NEW_ARRAY(k->arena, k->stmts.n + 1, StmtDecision)};
	for (int i = 0; i < nstages; i++) {
		Band band;
		const RowPlan plan = row_plan(k, d, i, &band);

		row_choose(t, &b, &plan);
	}
	return true;
}

/* Prefix reductions, or updates of few elements, among maps and reductions, whose points may run in
 * any order. */
static bool has_scans_or_updates(Kernel *k)
{
	bool scans = false, updates = false;

	VEC_EACH (s, &k->stmts) {
		if (s->ordered || (s->update && s->red) || (!s->red && s->nout != 1))
			return false;
		scans = scans || s->scan;
		updates = updates || s->update;
	}
	return (scans || updates) && k->stmts.n > 1 && (!updates || band_good(k, false));
}

bool rows_one_stage(Kernel *k)
{
	Band band;

	if (kernel_kind(k) == FORM_ORDER && !kernel_is_maps(k) && !has_scans_or_updates(k))
		return false;
	band_of_stage(k, k->arena, &band);
	return band.n || k->stmts.n == 1;
}

bool map_choose(const Target *t, Kernel *k, Decision *d)
{
	return kernel_is_maps(k) && rows_one_stage(k) && choose(t, k, d, 1);
}

bool row_choose_all(const Target *t, Kernel *k, Decision *d)
{
	return !kernel_is_maps(k) && rows_one_stage(k) && choose(t, k, d, 1);
}

bool order_choose(const Target *t, Kernel *k, Decision *d)
{
	return choose(t, k, d, k->stmts.n);
}

/* ---- The reason ---- */

/* Appends what the form HOW of S, a reduction, gains. */
static void form_reason(const Stmt *s, const StmtDecision *how, StrBuf *b)
{
	int64_t taps = 0;

	dim_is_const(s->iter[s->niters - 1]->extent, &taps);
	switch (how->form) {
	case REDUCE_LANES: strbuf_puts(b, "goes in lanes along its terms"); break;
	case REDUCE_STATES:
		strbuf_puts(b, "has a vector of states, to which it adds a row of terms at a time");
		break;
	case REDUCE_TAPS:
		strbuf_printf(b, "has a vector of states, loaded and stored once for %lld taps",
			      (long long)taps);
		break;
	default: strbuf_printf(b, "shares what %lld adjacent points load", (long long)how->points);
	}
}

void rows_reason(const Target *t, Kernel *k, const Decision *d, StrBuf *b)
{
	const char *before = "";
	const Form f = form_of_stmt(k, k->stmts.at[0]);

	(void)t;
	if (f.c.s && product_reads_rows(k, &f.c, f.c.b, f.c.m, f.c.nm)) {
		strbuf_puts(
			b,
			"no product, since packing its pixels for few channels would take longer than to read them for each");
		before = "; ";
	}
	for (int i = 0; i < k->stmts.n; i++) {
		if (!d->rows.stmt[i].form)
			continue;
		strbuf_printf(b, "%sstatement %d ", before, i);
		form_reason(k->stmts.at[i], &d->rows.stmt[i], b);
		before = "; ";
	}
}
