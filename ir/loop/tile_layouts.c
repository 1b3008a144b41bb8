/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts of matrix instructions, and the checks of operations on tiles. */
#include "ir/loop/loop.h"

/* ---- Instructions ---- */

enum {
	ROWS = 8,
	QUADS = 4,
	REGISTER_BYTES = 4,
	UNIT = TILE_VECTOR, /* bytes of a row that ldmatrix loads, too */
	WORDS_APART = 32    /* bytes: rows of words are an odd multiple apart */
};                          /* lane 4*g + t has row g, and columns or terms of t */

TileLayout tile_sums(const TileGrid *g, int m, int n)
{
	const int rows = m / g->wm, columns = n / g->wn;
	TileLayout l = {.rank = 2};

	layout_add(&l, 0, AT_WARP, g->wm, rows, 0);
	layout_add(&l, 1, AT_WARP, g->wn, columns, 0);
	layout_add(&l, 0, AT_REGISTER, rows / MMA_ROWS, MMA_ROWS, 0);
	layout_add(&l, 1, AT_REGISTER, g->every_column ? columns / 16 : columns / 8,
		   g->every_column ? 16 : 8, 0);
	layout_add(&l, 1, AT_REGISTER, g->every_column ? 2 : 1, 1, 0);
	layout_add(&l, 0, AT_REGISTER, MMA_ROWS / ROWS, g->every_row ? 1 : ROWS, 0);
	layout_add(&l, 0, AT_LANE, ROWS, g->every_row ? 2 : 1, 0);
	layout_add(&l, 1, AT_LANE, QUADS, g->every_column ? 4 : 2, 0);
	layout_add(&l, 1, AT_REGISTER, 2, g->every_column ? 2 : 1, 0);
	return l;
}

TileGrid tile_grid(const TileLayout *sums)
{
	TileGrid g = {1, 1, false, false};

	for (int i = 0; i < sums->n; i++) {
		const TileAxis *x = &sums->axis[i];

		if (x->at == AT_WARP)
			*(x->dim ? &g.wn : &g.wm) = (int)x->extent;
		if (x->at == AT_LANE && x->dim == 0)
			g.every_row = x->stride > 1;
		if (x->at == AT_LANE && x->dim == 1)
			g.every_column = x->stride > 2;
	}
	return g;
}

TileLayout tile_operand(MmaKind kind, int warps, int m, int k, bool by_sums)
{
	const MmaInfo *in = &mma_info[kind];
	TileLayout l = {.rank = 2};
	int elems, halves;

	if (kind == MMA_FMA)
		return tile_sums(&(TileGrid){.wm = warps, .wn = 1}, m, k);
	elems = REGISTER_BYTES * 8 / dtype_info[in->type[0]].bits;
	halves = in->k / (QUADS * elems);
	layout_add(&l, 0, AT_WARP, warps, m / warps, 0);
	layout_add(&l, 0, AT_REGISTER, m / warps / MMA_ROWS, MMA_ROWS, 0);
	layout_add(&l, 1, AT_REGISTER, k / in->k, in->k, 0);
	by_sums = by_sums && elems == 1;
	layout_add(&l, 1, AT_REGISTER, halves, by_sums ? 1 : QUADS * elems, 0);
	layout_add(&l, 0, AT_REGISTER, MMA_ROWS / ROWS, ROWS, 0);
	layout_add(&l, 0, AT_LANE, ROWS, 1, 0);
	layout_add(&l, 1, AT_LANE, QUADS, by_sums ? halves : elems, 0);
	layout_add(&l, 1, AT_REGISTER, elems, 1, 0);
	return l;
}

void tile_atoms(TileLayout *l, int dim, int rows, int cols, int bytes)
{
	const int row = TILE_ATOM / ATOM_ROWS, piece = UNIT / bytes;

	layout_add(l, dim + 1, AT_ADDRESS, cols * bytes / row, row / bytes, (int64_t)rows * row);
	layout_add(l, dim, AT_ADDRESS, rows / ATOM_ROWS, ATOM_ROWS, TILE_ATOM);
	layout_add(l, dim, AT_ADDRESS, ATOM_ROWS, 1, row);
	layout_add(l, dim + 1, AT_ADDRESS, row / UNIT, piece, UNIT);
	l->axis[l->n - 1].xored = true;
	layout_add(l, dim + 1, AT_ADDRESS, piece, 1, bytes);
}

int64_t tile_pitch(MmaKind kind, int cols, int bytes, bool along)
{
	const int64_t row = ((int64_t)cols * bytes + UNIT - 1) / UNIT * UNIT;
	const bool words = kind != MMA_FMA && bytes == REGISTER_BYTES && !along;

	if (words) /* the lanes of a load have 4 rows of 8 words */
		return row + (3 * WORDS_APART - row % (2 * WORDS_APART)) % (2 * WORDS_APART);
	return row + (row / UNIT % 2 ? 0 : UNIT); /* they have 16 bytes of 8 rows */
}

Expr *tile_fragment_at(ExprPool *p, Expr *side, Expr *term, int bytes)
{
	const int e = REGISTER_BYTES / bytes;
	const struct {
		Expr *of;
		int div, mod;
	} digit[] = {{term, 8 * e, 0}, {side, 1, 8},     {term, e, 4},
		     {side, 8, 2},     {term, 4 * e, 2}, {term, 1, e}};
	Expr *at = ex_int(p, CT_I64, 0);

	for (size_t i = 0; i < sizeof digit / sizeof *digit; i++) {
		Expr *x = digit[i].of;

		if (digit[i].div > 1)
			x = ex_op2(p, IN_floordiv, x, ex_int(p, CT_I64, digit[i].div));
		if (digit[i].mod)
			x = ex_op2(p, IN_mod, x, ex_int(p, CT_I64, digit[i].mod));
		at = ex_add(p, ex_mul(p, at, ex_int(p, CT_I64, digit[i].mod ? digit[i].mod : 1)),
			    x);
	}
	return at;
}

bool tile_in_fragments(ExprPool *p, const Expr *e, const Iter *side, const Iter *term)
{
	Expr *s = ex_iter(p, (Iter *)(uintptr_t)side), *t = ex_iter(p, (Iter *)(uintptr_t)term);
	const int n = e->load.nidx;

	return n == TILE_RANK &&
	       e->load.idx[n - 2] == ex_op2(p, IN_floordiv, s, ex_int(p, CT_I64, MMA_ROWS)) &&
	       ex_op2(p, IN_sub, e->load.idx[n - 1],
		      tile_fragment_at(p, s, t, dtype_bytes(e->load.buf->dtype))) ==
		       ex_int(p, CT_I64, 0); /* a tree that is being read may have another order */
}

/* ---- Copies ---- */

int tile_threads(const Stage *st, const TileNode *n)
{
	return n->producers ? st->block.producers : st->block.threads;
}

bool tile_in_registers(const Buf *b)
{
	return b->tile && layout_count(b->tile, AT_ADDRESS) == 1;
}

bool tile_in_shared(const Buf *b)
{
	return b->tile && layout_count(b->tile, AT_ADDRESS) > 1;
}

/* The pieces of a row of copy N, whose pieces have an iterator of their own or not. */
static int64_t pieces_of(const TileNode *n)
{
	return iter_count(n->it[1]) / (n->n < TILE_RANK ? n->vector : 1);
}

void tile_piece(PieceOrder o, int64_t pieces, int64_t t, int64_t *row, int64_t *piece)
{
	*row = t / (o.rows * pieces) * o.rows + t / o.run % o.rows;
	*piece = t / (o.run * o.rows) % (pieces / o.run) * o.run + t % o.run;
}

TileLayout tile_pieces(const TileNode *n, PieceOrder o, int warps)
{
	enum { HIGH_ROW, HIGH, ROW, LOW, DIGITS };
	const int64_t extent[] = {iter_count(n->it[0]) / o.rows, iter_count(n->it[1]) / o.run,
				  o.rows, o.run};
	TileLayout l = {.rank = n->n};

	layout_spread(&l, extent, DIGITS, warps);
	for (int i = 0; i < l.n; i++) {
		TileAxis *x = &l.axis[i];

		x->stride *= x->dim == HIGH_ROW ? o.rows : x->dim == HIGH ? o.run : 1;
		x->dim = x->dim < 0 ? x->dim : x->dim % 2;
	}
	layout_add(&l, n->n - 1, AT_REGISTER, iter_count(n->it[n->n - 1]), 1, 0);
	return l;
}

/* The byte of N's tile where piece PIECE of row ROW begins, less what is the same for all; -1: it
 * is not known. */
static int64_t piece_at(ExprPool *p, const TileNode *n, int64_t row, int64_t piece)
{
	Expr *with[] = {ex_int(p, CT_I64, row),
			ex_int(p, CT_I64, piece * (n->n < TILE_RANK ? n->vector : 1)),
			ex_int(p, CT_I64, 0)};
	int64_t idx[TILE_RANK] = {0};

	for (int d = 0; d < n->nidx; d++) {
		Expr *e = n->idx[d];

		if (!expr_has_iter(e, n->it[0]) && !expr_has_iter(e, n->it[1]))
			continue;
		e = ex_subst_iters(p, e, n->it, with, n->n);
		if (e->kind != EX_CONST)
			return -1;
		idx[d] = e->i;
	}
	return layout_address(n->to->tile, idx);
}

/* How often shared memory passes beyond the fewest for what the first warps of copy N store in
 * order O. */
static int64_t conflicts_of(ExprPool *p, const TileNode *n, PieceOrder o)
{
	enum { WARPS = 4 };
	const int bytes = (int)dtype_size(n->to->dtype, n->vector), lanes = bank_lanes(bytes);
	const int64_t pieces = pieces_of(n), all = iter_count(n->it[0]) * pieces;
	int64_t at[WARP_LANES], row, piece, conflicts = 0;

	for (int64_t t = 0; t < all && t < WARPS * WARP_LANES; t += lanes) {
		int i = 0;

		for (; i < lanes && t + i < all; i++) {
			tile_piece(o, pieces, t + i, &row, &piece);
			at[i] = piece_at(p, n, row, piece);
			if (at[i] < 0)
				return INT64_MAX;
		}
		conflicts += bank_passes(at, i, bytes) - 1;
	}
	return conflicts;
}

/* Whether order O divides the pieces of N, and a warp's accesses to memory have as many sectors as
 * in the order of rows: it has the same pieces, or long runs of them. And where all pieces of a
 * thread have one place in their rows, they keep it. */
static bool may_have(const TileNode *n, int threads, PieceOrder o)
{
	enum { LONG = 64 };
	const int64_t rows = iter_count(n->it[0]), pieces = pieces_of(n), period = o.rows * pieces;
	const int bytes = (int)dtype_size(n->to->dtype, n->vector);

	return rows % o.rows == 0 && pieces % o.run == 0 &&
	       (WARP_LANES % period == 0 || WARP_LANES / o.rows * bytes >= LONG) &&
	       (threads % pieces || threads % period == 0);
}

/* The tile in registers that copy N fills or reads; null: there is none. */
static const Buf *held_by(const TileNode *n)
{
	const Buf *from = n->val->kind == EX_LOAD ? n->val->load.buf : n->to;

	return tile_in_registers(n->to) ? n->to : tile_in_registers(from) ? from : NULL;
}

static bool same_layout(const TileLayout *a, const TileLayout *b, TileChange most)
{
	return a->rank == b->rank && layout_change(a, b) <= most;
}

bool tile_piece_order(ExprPool *p, const TileNode *n, int threads, PieceOrder *best)
{
	const PieceOrder by_rows = {.rows = 1, .run = (int)pieces_of(n)};
	const Buf *held = held_by(n);
	int64_t fewest = INT64_MAX;
	bool found = !held;

	*best = by_rows;
	if (iter_count(n->it[0]) < 1 || by_rows.run < 1)
		return false;
	for (PieceOrder o = by_rows; o.rows <= WARP_LANES;) {
		int64_t conflicts;

		if (held) {
			const TileLayout l = tile_pieces(n, o, threads / WARP_LANES);

			found = same_layout(held->tile, &l, CHANGE_NOTHING);
			conflicts = !found;
		} else
			conflicts = conflicts_of(p, n, o);
		if (conflicts < fewest) {
			fewest = conflicts;
			*best = o;
		}
		if (!conflicts || (fewest == INT64_MAX && !held))
			break;
		do
			if (o.run > 1 && o.rows > 1)
				o.run /= 2;
			else
				o = (PieceOrder){.rows = o.rows * 2,
						 .run = WARP_LANES / o.rows / 2};
		while (o.rows <= WARP_LANES && !may_have(n, threads, o));
	}
	return found;
}

bool tile_reads(Ctx *c, const TileNode *n, Expr *const *idx, int rank, TileLayout *out)
{
	return rank <= TILE_RANK && layout_of_operand(c, idx, rank, n->it, n->n, &n->points, out);
}

/* ---- Verification ---- */

typedef struct TileCheck {
	Ctx *c;
	Diag *d;
	ExprPool *pool;
	const Stage *st;
	const TileNode *n;
	DiagLoc loc;
	bool ok;
} TileCheck;

static void fault(TileCheck *t, const char *what, const char *name)
{
	STRBUF_LOCAL(b);

	if (t->n)
		tile_print(&b, t->n);
	if (t->ok)
		diag_error(t->d, t->loc, "tiles of stage %s: %s%s%s: %s", t->st->name, what,
			   *name ? " " : "", name, t->n ? strbuf_str(&b) : "");
	t->ok = false;
}

static int64_t extent_of_dim(const Buf *b, int d)
{
	int64_t v = 0;

	return dim_is_const(b->dims[d], &v) ? v : 0;
}

static void check_extents(TileCheck *t)
{
	for (int i = 0; i < t->n->n; i++)
		if (iter_count(t->n->it[i]) < 1 || iter_count(t->n->it[i]) > TILE_SIDE)
			fault(t, "a tile has no such extent as that of", t->n->it[i]->name);
}

/* Every point has exactly one register of a thread, apart from copies. */
static void check_points(TileCheck *t)
{
	const TileNode *n = t->n;
	int64_t threads = layout_count(&n->points, AT_WARP) * WARP_LANES, all = 1, places = 1;

	if (n->points.rank != n->n)
		fault(t, "the layout has another rank than the points", "");
	for (int i = 0; i < n->n; i++) {
		all *= iter_count(n->it[i]);
		if (layout_extent_of(&n->points, i) != iter_count(n->it[i]))
			fault(t, "the layout has another extent than", n->it[i]->name);
	}
	for (int i = 0; i < n->points.n; i++) {
		if (n->points.axis[i].at == AT_ADDRESS)
			fault(t, "points lie in shared memory", "");
		places *= n->points.axis[i].dim < 0 ? 1 : n->points.axis[i].extent;
	}
	if (places != all)
		fault(t, "the layout does not have each point once", "");
	if (layout_count(&n->points, AT_LANE) != WARP_LANES || threads != t->st->block.threads)
		fault(t, "the layout has other threads than the block", "");
}

/* The index expressions IDX of tile B stay inside, and what a thread reads is in its registers. */
static void check_register(TileCheck *t, const Buf *b, Expr *const *idx, int nidx)
{
	TileLayout want;

	if (!tile_in_registers(b)) {
		fault(t, "a tile is not in registers:", b->name);
		return;
	}
	if (nidx != b->rank || !tile_reads(t->c, t->n, idx, nidx, &want)) {
		fault(t, "an index is not affine:", b->name);
		return;
	}
	for (int d = 0; d < b->rank; d++)
		if (layout_extent_of(&want, d) > extent_of_dim(b, d))
			fault(t, "an index leaves", b->name);
	if (layout_change(b->tile, &want) > CHANGE_RENAME)
		fault(t, "a thread does not hold what it accesses of", b->name);
}

static void check_loads(TileCheck *t, Expr *e)
{
	EX_EACH_LOAD (x, e)
		if (tile_in_registers(x->load.buf))
			check_register(t, x->load.buf, x->load.idx, x->load.nidx);
		else if (x->load.buf->tile && x->load.nidx != x->load.buf->rank)
			fault(t, "an access has another rank than", x->load.buf->name);
}

/* A copy of a tile in registers, or to one, has the pieces that the threads of a block copy. */
static void check_pieces(TileCheck *t, const Buf *b)
{
	const TileNode *n = t->n;
	PieceOrder o;

	if (n->n != TILE_RANK || b->rank != TILE_RANK ||
	    !tile_piece_order(t->pool, n, tile_threads(t->st, n), &o))
		fault(t, "the pieces of a copy do not lie as its threads have them:", b->name);
}

/* Whether each piece of VECTOR elements of B's rows, BYTES, is contiguous and aligned. */
static bool has_pieces(const Buf *b, int vector, int bytes)
{
	for (int i = 0; i < b->tile->n; i++) {
		const TileAxis *x = &b->tile->axis[i];

		if (x->dim == b->rank - 1 && x->stride < vector
			    ? x->pitch * vector != x->stride * bytes
			    : x->pitch % bytes)
			return false;
	}
	return true;
}

static void check_copy(TileCheck *t)
{
	const TileNode *n = t->n;
	const int bytes = n->to && n->vector ? (int)dtype_size(n->to->dtype, n->vector) : 0;

	if (!n->to->tile || n->nidx != n->to->rank || n->n < 2) {
		fault(t, "a copy fills rows of a tile, not", n->to->name);
		return;
	}
	if (n->vector < 1 || bytes > 16 || iter_count(n->it[n->n - 1]) % n->vector ||
	    (n->n == 3 && iter_count(n->it[2]) != n->vector))
		fault(t, "a row is not a multiple of the vector", "");
	if (held_by(n))
		check_pieces(t, held_by(n));
	if (n->async && !tile_in_shared(n->to))
		fault(t, "an asynchronous copy does not fill shared memory:", n->to->name);
	if (n->async && (n->val->kind != EX_LOAD || (bytes != 4 && bytes != 8 && bytes != 16)))
		fault(t, "an asynchronous copy is not one load of 4, 8 or 16 bytes", "");
	else if (n->async && !has_pieces(n->to, n->vector, bytes))
		fault(t, "the pieces of an asynchronous copy are not aligned in", n->to->name);
}

/* The points lie as the sums of a product do, whose columns are the terms, so the order of terms of
 * the tile is that by sums. */
static void check_fold_by_mma(TileCheck *t)
{
	const TileNode *n = t->n;
	const MmaInfo *in = &mma_info[n->mma];
	const Buf *a = n->val->kind == EX_LOAD ? n->val->load.buf : NULL;
	const int warps = t->st->block.threads / WARP_LANES;
	int64_t size[2];
	TileLayout want;

	if (n->n != 2 || n->nidx != 1 || n->red != MONOID_sum || !a || !tile_in_registers(a) ||
	    n->val->load.nidx != 2 || n->idx[0]->kind != EX_ITER || n->idx[0]->iter != n->it[0] ||
	    n->guard || in->sum != CT_F32 || n->to->dtype != DT_F32 || mma_is_wgmma(n->mma) ||
	    a->dtype != in->type[0]) {
		fault(t, "a fold by an instruction does not sum rows of its operand:", in->name);
		return;
	}
	for (int i = 0; i < 2; i++) {
		size[i] = iter_count(n->it[i]);
		if (n->val->load.idx[i]->kind != EX_ITER || n->val->load.idx[i]->iter != n->it[i])
			fault(t, "a fold by an instruction reads another element than its point's:",
			      a->name);
	}
	if (size[0] % ((int64_t)MMA_ROWS * warps) || size[1] % in->k || size[1] % 8 ||
	    size[1] * dtype_bytes(a->dtype) % MMA_STEP_BYTES) {
		fault(t, "the sizes are not multiples of the instruction's", in->name);
		return;
	}
	want = tile_sums(&(TileGrid){.wm = warps, .wn = 1}, (int)size[0], (int)size[1]);
	if (!same_layout(&n->points, &want, CHANGE_NOTHING))
		fault(t, "the points do not lie as the sums of", in->name);
	want = tile_operand(n->mma, warps, (int)size[0], (int)size[1], true);
	if (!same_layout(a->tile, &want, CHANGE_RENAME))
		fault(t, "the tile does not lie as the instruction wants it:", a->name);
}

static void check_fold(TileCheck *t)
{
	const TileNode *n = t->n;

	for (int i = 0; i < n->points.n; i++) {
		const TileAxis *x = &n->points.axis[i];
		bool kept = x->dim < 0;

		for (int d = 0; d < n->nidx; d++)
			kept = kept ||
			       (n->idx[d]->kind == EX_ITER && n->idx[d]->iter == n->it[x->dim]);
		if (!kept && x->at == AT_WARP)
			fault(t, "a fold combines points of several warps", "");
	}
	if (monoid_info[n->red].n != 1)
		fault(t, "a fold has one state", "");
	if (n->mma != MMA_FMA)
		check_fold_by_mma(t);
}

/* An operand of a DOT: a tile whose last two indices are the iterators I and J, in either order, or
 * which is in the order of fragments. *EVERY: its terms are bytes and not contiguous, so that
 * fragments have every other row of 16. */
static const Buf *operand(TileCheck *t, const Expr *e, const Iter *i, const Iter *j, bool *every)
{
	const Buf *b = e && e->kind == EX_LOAD ? e->load.buf : NULL;
	const int n = b ? e->load.nidx : 0;
	const Expr *x = n > 1 ? e->load.idx[n - 2] : NULL, *y = n > 1 ? e->load.idx[n - 1] : NULL;

	*every = false;
	if (b && b->tile && n == b->rank && tile_in_shared(b) &&
	    tile_in_fragments(t->pool, e, i, j))
		return b;
	*every = t->n->mma != MMA_FMA && y && y->kind == EX_ITER && y->iter == i && b &&
		 dtype_info[b->dtype].bits == 8;
	if (!b || !b->tile || n != b->rank || !x || x->kind != EX_ITER || y->kind != EX_ITER ||
	    !((x->iter == i && y->iter == j) || (x->iter == j && y->iter == i))) {
		fault(t, "an operand is not a tile at two of the iterators", "");
		return NULL;
	}
	return b;
}

/* The rows IT of a warp, ROWS each, read one buffer of the tile that E loads. */
static bool one_buffer(TileCheck *t, const Expr *e, Iter *it, int64_t rows)
{
	ExprPool *p = t->pool;

	if (e->load.nidx < TILE_RANK || !expr_has_iter(e->load.idx[0], it))
		return true;
	for (int64_t r = 0; r < iter_count(it); r++) {
		Expr *at = ex_int(p, CT_I64, r), *first = ex_int(p, CT_I64, r / rows * rows);

		if (ex_subst_iters(p, e->load.idx[0], &it, &at, 1) !=
		    ex_subst_iters(p, e->load.idx[0], &it, &first, 1))
			return false;
	}
	return true;
}

/* Whether the last two dims of tile B lie in atoms, and its buffers at multiples of them. */
static bool in_atoms(const Buf *b)
{
	const int dim = b->rank - 2, bytes = dtype_bytes(b->dtype);
	const int64_t rows = extent_of_dim(b, dim), cols = extent_of_dim(b, dim + 1);
	TileLayout want = {.rank = b->rank};
	bool same;

	if (dim && b->tile->axis[0].dim == 0)
		want.axis[want.n++] = b->tile->axis[0];
	same = rows % ATOM_ROWS == 0 && cols * bytes * ATOM_ROWS % TILE_ATOM == 0 &&
	       (!want.n || want.axis[0].pitch % TILE_ATOM == 0);
	tile_atoms(&want, dim, (int)rows, (int)cols, bytes);
	same = same && want.n == b->tile->n;
	for (int i = 0; same && i < want.n; i++) {
		const TileAxis *x = &b->tile->axis[i], *y = &want.axis[i];

		same = x->dim == y->dim && x->stride == y->stride && x->extent == y->extent &&
		       x->pitch == y->pitch && x->xored == y->xored;
	}
	return same;
}

/* The operands A and B of wgmma; the sums, of SIZE, are those of grid G. */
static void check_wgmma(TileCheck *t, const Buf *a, const Buf *b, const TileGrid *g,
			const int64_t *size)
{
	const MmaInfo *in = &mma_info[t->n->mma];

	if (size[0] != (int64_t)MMA_ROWS * g->wm || size[0] % in->m || g->wn != 1 ||
	    size[1] > MOST_WGMMA)
		fault(t, "four warps have other sums than those of one", in->name);
	else if (!tile_in_shared(a) || !in_atoms(a) || !in_atoms(b))
		fault(t, "an operand does not lie in atoms in shared memory:",
		      in_atoms(b) ? a->name : b->name);
}

static void check_dot(TileCheck *t)
{
	const TileNode *n = t->n;
	const MmaInfo *in = &mma_info[n->mma];
	TileGrid g;
	const Buf *a, *b;
	TileLayout want;
	int64_t size[3] = {0};

	if (n->n != 3 || n->nidx != 2 || !tile_in_registers(n->to)) {
		fault(t, "a dot sums to a tile in registers, not", n->to->name);
		return;
	}
	for (int i = 0; i < 2; i++)
		if (n->idx[i]->kind != EX_ITER || n->idx[i]->iter != n->it[i])
			fault(t, "the sums are not at the first two iterators of", n->to->name);
	g = tile_grid(n->to->tile);
	a = operand(t, n->val, n->it[0], n->it[2], &g.every_row);
	b = operand(t, n->by, n->it[1], n->it[2], &g.every_column);
	for (int i = 0; i < 3; i++)
		size[i] = iter_count(n->it[i]);
	if (!a || !b)
		return;
	if (size[0] % ((int64_t)MMA_ROWS * g.wm) || size[1] % (8L * g.wn) ||
	    g.wm * g.wn * WARP_LANES != t->st->block.threads || size[2] % (in->k > 1 ? in->k : 8) ||
	    size[2] * dtype_bytes(b->dtype) % MMA_STEP_BYTES) {
		fault(t, "the sizes are not multiples of the instruction's", in->name);
		return;
	}
	if (!one_buffer(t, n->by, n->it[0], size[0] / g.wm))
		fault(t, "rows of one warp read several buffers of", b->name);
	want = tile_sums(&g, (int)size[0], (int)size[1]);
	if (!same_layout(n->to->tile, &want, CHANGE_NOTHING))
		fault(t, "the sums do not lie as the instruction has them:", n->to->name);
	if (!tile_in_shared(b))
		fault(t, "the second operand is not in shared memory:", b->name);
	if (n->mma != MMA_FMA && (a->dtype != in->type[0] || b->dtype != in->type[1]))
		fault(t, "an operand has another type than the instruction", in->name);
	if (mma_is_wgmma(n->mma) && t->ok)
		check_wgmma(t, a, b, &g, size);
	if (tile_in_shared(a) || !t->ok)
		return;
	want = tile_operand(n->mma, g.wm, (int)size[0], (int)size[2], true);
	if (!same_layout(a->tile, &want, CHANGE_RENAME))
		fault(t, "the first operand does not lie as the instruction wants it:", a->name);
}

/* Whether index E is of one of COUNT elements: the modulus of another, or of values in a known
 * range. */
static bool is_element(TileCheck *t, Expr *e, int64_t count)
{
	Dim *lo, *end;

	if (ex_is_op(e, IN_mod) && e->op.arg[1]->kind == EX_CONST)
		return e->op.arg[1]->i > 0 && e->op.arg[1]->i <= count;
	return index_range(t->c, e, &lo, &end) && dim_prove_le(t->c, dim_const(t->c, 0), lo) &&
	       dim_prove_le(t->c, end, dim_const(t->c, count));
}

static void check_sync(TileCheck *t)
{
	const TileNode *n = t->n;

	if (n->pending < 0)
		fault(t, "a wait for less than no copies", "");
	else if (n->sync == TILE_BARRIER && n->producers)
		fault(t, "a barrier is of all threads but the producers", "");
	if (!t->ok || (n->sync != TILE_ARRIVE && n->sync != TILE_AWAIT))
		return;
	if (!tile_in_shared(n->to) || n->to->dtype != DT_I64 || n->nidx != 1 || n->to->rank != 1 ||
	    !t->st->block.producers)
		fault(t, "producers and others have no mbarriers in shared memory:", n->to->name);
	else if (!is_element(t, n->idx[0], extent_of_dim(n->to, 0)))
		fault(t, "the index may be of none of the mbarriers:", n->to->name);
}

static void check_op(TileCheck *t)
{
	const TileNode *n = t->n;

	check_extents(t);
	if (n->producers && (!t->st->block.producers || (n->op != TILE_COPY && n->op != TILE_SYNC)))
		fault(t, "producers only copy, in a stage that has some", "");
	if (!t->ok)
		return;
	switch (n->op) {
	case TILE_COPY: check_copy(t); break;
	case TILE_MAP:
	case TILE_FOLD:
		check_points(t);
		if (n->op == TILE_FOLD)
			check_fold(t);
		if (!t->ok)
			break;
		check_loads(t, n->val);
		check_loads(t, n->guard);
		if (tile_in_shared(n->to) && n->op == TILE_MAP) {
			if (n->nidx != n->to->rank || n->guard)
				fault(t, "a map does not fill a tile of", n->to->name);
		} else if (n->to->tile)
			check_register(t, n->to, n->idx, n->nidx);
		else if (n->nidx != 1 || n->op == TILE_FOLD)
			fault(t, "a result is neither a tile nor one element of", n->to->name);
		break;
	case TILE_DOT: check_dot(t); break;
	case TILE_SYNC: check_sync(t); break;
	}
}

/* A tile of shared memory lies inside of the block's scratch; addresses do not wrap around. */
static void check_local(TileCheck *t, const LNode *n)
{
	const Buf *b = n->local.buf;
	int64_t last = dtype_bytes(b->dtype), scratch = 0;

	for (int d = 0; d < b->rank; d++)
		if (layout_extent_of(b->tile, d) != extent_of_dim(b, d))
			fault(t, "the layout has another extent than the tile", b->name);
	if (!tile_in_shared(b))
		return;
	for (int i = 0; i < b->tile->n; i++)
		last += (b->tile->axis[i].extent - 1) * b->tile->axis[i].pitch;
	if (!n->local.at || n->local.at->kind != EX_CONST || !t->st->scratch ||
	    !dim_is_const(t->st->scratch, &scratch) || n->local.at->i < 0 ||
	    n->local.at->i > scratch - last)
		fault(t, "the block's scratch is too small for", b->name);
	for (int i = 0; i < b->tile->n && t->ok; i++)
		if (b->tile->axis[i].xored && n->local.at->i % TILE_ATOM)
			fault(t, "a tile in atoms does not begin at a multiple of one:", b->name);
}

bool tiles_verify_node(const Kernel *k, const Stage *st, const LNode *n, Diag *d, DiagLoc loc)
{
	TileCheck t = {
		.c = k->ctx, .d = d, .pool = k->pool, .st = st, .n = n->op, .loc = loc, .ok = true};

	if (n->kind == LN_LOCAL && n->local.buf->tile)
		check_local(&t, n);
	if (n->kind == LN_OP)
		check_op(&t);
	return t.ok;
}

static bool verify(const Kernel *k, const Stage *st, const LNode *n, Diag *d)
{
	bool ok = true;

	for (; n; n = n->next)
		ok = tiles_verify_node(k, st, n, d, (DiagLoc){0}) && verify(k, st, n->body, d) &&
		     ok;
	return ok;
}

bool tiles_verify(const Schedule *s, Diag *d)
{
	bool ok = true;

	for (int i = 0; i < s->stages.n; i++)
		ok = verify(s->kernel, s->stages.at[i], s->stages.at[i]->body, d) && ok;
	return ok;
}
