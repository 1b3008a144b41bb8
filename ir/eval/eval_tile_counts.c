/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of operations on tiles: which accesses the warps of a block make for each, as
 * codegen/nvptx/tile_ops.c and tile_dot.c divide it between lanes. It is computed from the tree by
 * enumerating lanes, so tests can compare it with what the simulator counts in the PTX.
 *
 * Two things are LLVM's and not counted: instructions of a product whose sums a constant condition
 * hides are removed, and loads of a map in an arm of a select, which is a branch, are made where
 * its condition holds.
 */
#include "ir/eval/eval_tiles_impl.h"

#include "base/round.h"

#include <string.h>

enum {
	SECTOR_BYTES = 32,
	WIDEST = 16, /* bytes of one access */
	STEP_TERMS_BYTES = 32, /* of a step of a product by matrix instructions */
	FOUR = 4,
	PAIR = 2,
	UNROLLED = 8 /* rounds of a copy that are straight code */
};

/* One access of a warp: the byte where each lane in MASK begins. */
typedef struct WarpAccess {
	int64_t at[WARP_LANES];
	uint32_t mask;
	int bytes;
	const Expr *load; /* null: a store */
} WarpAccess;

typedef struct Count {
	TileEval *e;
	const TileNode *n;
	TileCounts *to;
	int64_t times; /* how often each access is made */
	VEC(WarpAccess) seen; /* loads by this warp for N */
} Count;

/* ---- Accesses ---- */

static int64_t sectors(const WarpAccess *a)
{
	int64_t n = 0;

	for (int i = 0; i < WARP_LANES; i++) {
		bool first = a->mask >> i & 1;

		for (int j = 0; j < i && first; j++)
			first = !(a->mask >> j & 1) ||
				a->at[j] / SECTOR_BYTES != a->at[i] / SECTOR_BYTES;
		n += first;
	}
	return n;
}

static int64_t conflicts(const WarpAccess *a)
{
	const int lanes = bank_lanes(a->bytes);
	int64_t n = 0;

	for (int first = 0; first < WARP_LANES; first += lanes) {
		int64_t at[WARP_LANES];
		int some = 0;

		for (int i = first; i < first + lanes; i++)
			if (a->mask >> i & 1)
				at[some++] = a->at[i];
		n += some ? bank_passes(at, some, a->bytes) - 1 : 0;
	}
	return n;
}

static bool was_seen(Count *c, const WarpAccess *a)
{
	for (int i = 0; a->load && i < c->seen.n; i++) {
		const WarpAccess *b = &c->seen.at[i];

		if (b->load->load.buf == a->load->load.buf && b->mask == a->mask &&
		    b->bytes == a->bytes && !memcmp(a->at, b->at, sizeof a->at))
			return true;
	}
	if (a->load)
		vec_push(c->e->a, &c->seen, *a);
	return false;
}

/* Forgets the loads that a store to memory may change. */
static void forget_written(Count *c)
{
	int n = 0;

	for (int i = 0; i < c->seen.n; i++)
		if (schedule_only_reads(c->e->s, c->seen.at[i].load->load.buf))
			c->seen.at[n++] = c->seen.at[i];
	c->seen.n = n;
}

static void add(Count *c, WarpAccess a, bool shared, bool store)
{
	const int64_t lanes = __builtin_popcount(a.mask);
	TileCounts *t = c->to;

	if (!a.mask)
		return;
	if (a.bytes > WIDEST) { /* two */
		WarpAccess half = a;

		half.bytes = a.bytes / 2;
		add(c, half, shared, store);
		for (int i = 0; i < WARP_LANES; i++)
			half.at[i] += half.bytes;
		add(c, half, shared, store);
		return;
	}
	if (was_seen(c, &a))
		return;
	if (shared) {
		*(store ? &t->shared_store_requests : &t->shared_load_requests) += c->times;
		*(store ? &t->shared_store_conflicts : &t->shared_load_conflicts) +=
			c->times * conflicts(&a);
		*(store ? &t->shared_store_bytes : &t->shared_load_bytes) +=
			c->times * lanes * a.bytes;
	} else {
		*(store ? &t->global_store_requests : &t->global_load_requests) += c->times;
		*(store ? &t->global_store_sectors : &t->global_load_sectors) +=
			c->times * sectors(&a);
		*(store ? &t->global_store_bytes : &t->global_load_bytes) +=
			c->times * lanes * a.bytes;
	}
}

/* The byte of element IDX of B, which is in shared memory or in memory. */
static int64_t byte_of(Count *c, const Buf *b, Expr *const *idx)
{
	int64_t at[TILE_RANK] = {0};

	if (!b->tile)
		return dtype_size(b->dtype, tile_eval(c->e, idx[0]).i);
	for (int d = 0; d < b->rank; d++)
		at[d] = tile_eval(c->e, idx[d]).i;
	return layout_address(b->tile, at);
}

/* ---- Points ---- */

/* The accesses of one warp at one of its registers or pieces: what binds lane LANE's point. */
typedef struct PointLanes {
	Count *c;
	void (*bind)(const struct PointLanes *l, int lane);
	int64_t reg, warp;
	PieceOrder order;    /* of a copy */
	int64_t chunks, pieces, first;
	uint32_t mask;       /* lanes whose guard holds */
	const Iter *var;     /* the innermost iterator, of which a lane takes VECTOR points */
	int vector;
} PointLanes;

static void bind_point(const PointLanes *l, int lane)
{
	const TileNode *n = l->c->n;
	int64_t idx[TILE_RANK];

	layout_element(&n->points, l->reg, lane, l->warp, idx);
	for (int d = 0; d < n->n; d++)
		tile_bind(l->c->e, n->it[d], idx[d]);
}

static void bind_piece(const PointLanes *l, int lane)
{
	const TileNode *n = l->c->n;
	int64_t row, piece;

	tile_piece(l->order, l->chunks, l->first + lane, &row, &piece);
	tile_bind(l->c->e, n->it[0], row);
	tile_bind(l->c->e, n->it[1], n->n < TILE_RANK ? piece * n->vector : piece);
	if (n->n == TILE_RANK)
		tile_bind(l->c->e, n->it[2], 0);
}

/* The lanes of MASK whose points fulfil N's guard. */
static uint32_t guarded(const PointLanes *l, uint32_t mask)
{
	const Expr *guard = l->c->n->guard;
	uint32_t holds = 0;

	for (int i = 0; i < WARP_LANES; i++)
		if (mask >> i & 1) {
			l->bind(l, i);
			holds |= (uint32_t)(!guard || tile_eval(l->c->e, guard).i) << i;
		}
	return holds;
}

/* An access of BYTES by each lane to element IDX of B, further by BY points of the innermost
 * iterator. */
static void access_by_lanes(const PointLanes *l, const Buf *b, Expr *const *idx, int by, int bytes,
			    uint32_t mask, const Expr *load)
{
	const TileNode *n = l->c->n;
	Iter *last = n->it[n->n - 1];
	WarpAccess a = {.mask = mask, .bytes = bytes, .load = load};

	for (int i = 0; i < WARP_LANES; i++)
		if (mask >> i & 1) {
			l->bind(l, i);
			if (by) {
				Expr *it = ex_iter(l->c->e->p, last);

				tile_bind(l->c->e, last, tile_eval(l->c->e, it).i + by);
			}
			a.at[i] = byte_of(l->c, b, idx);
		}
	add(l->c, a, tile_in_shared(b), load == NULL);
}

/* B's VECTOR elements from IDX on along VAR are one access. */
static bool is_one(const PointLanes *l, const Buf *b, Expr *const *idx)
{
	return !b->data && dtype_info[b->dtype].bits >= 8 &&
	       l->vector * dtype_bytes(b->dtype) <= 2 * WIDEST &&
	       ex_aligned_along(
		       l->c->e->c,
		       b->tile ? tile_flat_index(l->c->e->s->kernel->pool, b, idx, l->vector)
			       : idx[0],
		       l->var, l->vector);
}

static void count_loads(const PointLanes *l)
{
	EX_EACH_LOAD (e, l->c->n->val) {
		const Buf *b = e->load.buf;
		const bool one = l->vector > 1 && !tile_in_registers(b) && is_one(l, b, e->load.idx);

		if (tile_in_registers(b))
			continue;
		for (int v = 0; v < (one ? 1 : l->vector); v++)
			access_by_lanes(l, b, e->load.idx, v,
					(one ? l->vector : 1) * dtype_bytes(b->dtype), l->mask, e);
	}
}

static void count_stores(const PointLanes *l, int vector)
{
	const TileNode *n = l->c->n;

	for (int v = 0; v < l->vector; v += vector)
		access_by_lanes(l, n->to, n->idx, v, vector * dtype_bytes(n->to->dtype), l->mask,
				NULL);
}

static int64_t warps_of(const Count *c)
{
	return tile_threads(c->e->st, c->n) / WARP_LANES;
}

/* Points of a map that a thread stores to memory at once. */
static int at_once(const TileNode *n)
{
	const TileAxis *last = n->points.n ? &n->points.axis[n->points.n - 1] : NULL;
	const int64_t most = (int64_t)WIDEST * 8 / dtype_info[n->to->dtype].bits;

	if (!last || last->at != AT_REGISTER || last->dim != n->n - 1 || last->stride != 1 ||
	    last->extent > most || (n->guard && expr_has_iter(n->guard, n->it[n->n - 1])))
		return 1;
	return (int)last->extent;
}

static void count_points(Count *c)
{
	const TileNode *n = c->n;
	const int64_t regs = layout_count(&n->points, AT_REGISTER);
	PointLanes l = {.c = c, .bind = bind_point, .var = n->it[n->n - 1], .vector = 1};
	int store = 1, step = 1;
	TileLayout to;

	if (!n->to->tile)
		l.vector = step = at_once(n);
	else if (tile_in_shared(n->to) && tile_reads(c->e->c, n, n->idx, n->nidx, &to))
		step = store = layout_vector_width(&to, n->to->tile, dtype_bytes(n->to->dtype),
						   WIDEST / dtype_bytes(n->to->dtype));
	if (!n->to->tile && is_one(&l, n->to, n->idx))
		store = l.vector;
	for (l.warp = 0; l.warp < warps_of(c); l.warp++) {
		c->seen.n = 0;
		for (int64_t r = 0; r < regs; r += step) {
			for (l.reg = r; l.reg < r + (tile_in_shared(n->to) ? step : 1); l.reg++) {
				l.mask = guarded(&l, ~0u);
				count_loads(&l);
			}
			l.reg = r;
			if (!tile_in_registers(n->to))
				count_stores(&l, store);
			if (n->guard) /* the next point's branch is another one */
				c->seen.n = 0;
			else if (!n->to->tile)
				forget_written(c);
		}
	}
}

/* ---- Copies ---- */

static void count_copy(Count *c)
{
	const TileNode *n = c->n;
	const int64_t threads = tile_threads(c->e->st, c->n);
	PointLanes l = {.c = c, .bind = bind_piece, .var = n->it[n->n - 1], .vector = n->vector};
	const bool held = n->val->kind == EX_LOAD && tile_in_registers(n->val->load.buf);
	int64_t rounds;

	l.chunks = iter_count(n->it[1]) / (n->n < TILE_RANK ? n->vector : 1);
	l.pieces = iter_count(n->it[0]) * l.chunks;
	rounds = ceil_div(l.pieces, threads);
	tile_piece_order(c->e->s->kernel->pool, n, (int)threads, &l.order);
	for (int64_t i = 0; i < warps_of(c) * rounds; i++) {
		const int64_t round = i % rounds, first = round * threads + i / rounds * WARP_LANES,
			      left = l.pieces - first;
		const uint32_t some = left < WARP_LANES ? (1u << left) - 1 : ~0u;

		if (left <= 0)
			continue;
		if (!round || n->async || n->guard || rounds > UNROLLED)
			c->seen.n = 0;
		l.first = first;
		l.mask = held ? 0 : guarded(&l, some);
		count_loads(&l);
		c->to->async_copies += n->async ? __builtin_popcount(some) : 0;
		l.mask = some;
		if (!tile_in_registers(n->to))
			count_stores(&l, n->vector);
	}
}

/* ---- Products ---- */

typedef struct OperandRows {
	const Buf *buf;
	bool along, fragments;
	int64_t pitch;
} OperandRows;

static OperandRows operand_rows(const Count *c, const Expr *e, const Iter *side)
{
	const Buf *b = e->load.buf;
	const int n = e->load.nidx;
	OperandRows o = {.buf = b};

	if (!tile_in_shared(b))
		return (OperandRows){0};
	o.fragments = tile_in_fragments(c->e->s->kernel->pool, e, side, c->n->it[2]);
	o.along = o.fragments || e->load.idx[n - 2]->iter == side;
	for (int i = 0; i < b->tile->n; i++)
		if (b->tile->axis[i].dim == n - 2)
			o.pitch = b->tile->axis[i].pitch;
	return o;
}

/* TIMES accesses of BYTES by each lane, lane l at byte ROW[l] * pitch + at[l]. */
static void read_rows(Count *c, const OperandRows *o, const int *row, const int *at, int bytes,
		      int64_t times)
{
	WarpAccess a = {.mask = ~0u, .bytes = bytes};

	for (int i = 0; i < WARP_LANES; i++)
		a.at[i] = row[i] * o->pitch + at[i];
	c->times = times;
	add(c, a, true, false);
	c->times = 1;
}

/* The four registers of 16 rows or columns of O, TIMES times. Which rows ldmatrix loads matters as
 * little as where they begin: adding a multiple of a word to all addresses keeps their
 * conflicts. */
static void read_four(Count *c, const OperandRows *o, bool is_a, bool permuted, int64_t times)
{
	const int bytes = dtype_bytes(o->buf->dtype);
	int row[WARP_LANES], at[WARP_LANES];

	for (int i = 0; i < WARP_LANES; i++) {
		const int low = i >> 3 & 1, high = i >> 4, further = is_a ? low : high,
			  half = is_a ? high : low;

		if (o->fragments) {
			row[i] = 0;
			at[i] = WIDEST * i;
		} else if (bytes == 1 && !o->along) {
			row[i] = (i & 1) + 2 * (i & 6) + 2 * ((i >> 3 ^ i >> 2) & 1) +
				 16 * (i >> 4);
			at[i] = 0;
		} else if (bytes == 4 && (!o->along || permuted)) {
			const int term = i % FOUR * (permuted ? PAIR : 1);

			row[i] = o->along ? i / FOUR : term;
			at[i] = (o->along ? term : i / FOUR) * bytes;
		} else {
			row[i] = (i & 7) + 8 * (o->along ? further : half);
			at[i] = WIDEST * (o->along ? half : further);
		}
	}
	if (bytes == 4 && !o->fragments && (!o->along || permuted))
		read_rows(c, o, row, at, bytes, FOUR * times);
	else
		read_rows(c, o, row, at, WIDEST, times);
}

/* N adjacent elements of O: four terms of a row, or what stands for them where rows are terms.
 * LANE: the rows of each lane. */
static void read_terms(Count *c, const OperandRows *o, const int *lane, int each, int64_t times)
{
	const int bytes = dtype_bytes(o->buf->dtype);
	int row[WARP_LANES], at[WARP_LANES];

	for (int i = 0; i < WARP_LANES; i++) {
		row[i] = o->along ? lane[i] : 0;
		at[i] = o->along ? 0 : lane[i] * bytes;
	}
	if (o->along)
		read_rows(c, o, row, at, FOUR * bytes, times * each);
	else
		read_rows(c, o, row, at, each * bytes, times * FOUR);
}

static void count_dot(Count *c)
{
	const TileNode *n = c->n;
	const MmaInfo *in = &mma_info[n->mma];
	const TileGrid g = tile_grid(n->to->tile);
	const OperandRows a = operand_rows(c, n->val, n->it[0]),
			  b = operand_rows(c, n->by, n->it[1]);
	const int64_t warps = warps_of(c), fragments = iter_count(n->it[0]) / g.wm / MMA_ROWS,
		      columns = iter_count(n->it[1]) / g.wn, terms = iter_count(n->it[2]);
	const int bytes = dtype_bytes(n->by->load.buf->dtype);
	int group[WARP_LANES], quad[WARP_LANES];

	for (int i = 0; i < WARP_LANES; i++) {
		group[i] = i / FOUR;
		quad[i] = i % FOUR * PAIR;
	}
	if (mma_is_wgmma(n->mma)) { /* it has no loads, and all columns at once */
		c->to->mma += warps * (terms / in->k);
		return;
	}
	if (n->mma == MMA_FMA) {
		if (a.buf)
			read_terms(c, &a, group, 1, warps * fragments * PAIR * (terms / FOUR));
		read_terms(c, &b, quad, PAIR, warps * columns / 8 * (terms / FOUR));
		return;
	}
	const int64_t steps = terms * bytes / STEP_TERMS_BYTES;
	const bool permuted = !a.buf && bytes == 4;

	if (a.buf)
		read_four(c, &a, true, false, warps * fragments * steps);
	read_four(c, &b, false, permuted, warps * columns / MMA_ROWS * steps);
	c->to->mma += warps * fragments * (columns / 8) * (terms / in->k) * (MMA_ROWS / in->m);
}

static void count_fold(Count *c)
{
	const MmaInfo *in = &mma_info[c->n->mma];

	c->to->mma += iter_count(c->n->it[0]) / in->m * (iter_count(c->n->it[1]) / in->k);
}

/* All threads of the block, its producers too, meet before and after the atomic operation of one of
 * them, which counts as a store. A block that is the only one of its tile needs none. */
void tile_count_last(TileEval *e, int64_t blocks)
{
	TileCounts *t = e->o->counts;

	t->barriers += 2 * tile_block_warps(e->st);
	if (blocks > 1) {
		t->global_store_requests++;
		t->global_store_sectors++;
		t->global_store_bytes += (int64_t)sizeof(uint32_t);
	}
}

void tile_count(TileEval *e, const TileNode *n)
{
	Count c = {.e = e, .n = n, .to = e->o->counts, .times = 1};

	switch (n->op) {
	case TILE_COPY: count_copy(&c); break;
	case TILE_DOT: count_dot(&c); break;
	case TILE_FOLD:
		if (n->mma != MMA_FMA) {
			count_fold(&c);
			break;
		}
		/* fallthrough */
	case TILE_MAP: count_points(&c); break;
	case TILE_SYNC: c.to->barriers += n->sync == TILE_BARRIER ? warps_of(&c) : 0; break;
	}
}
