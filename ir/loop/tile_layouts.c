/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts of matrix instructions, and the checks of operations on tiles. */
#include "ir/loop/loop.h"

/* ---- Instructions ---- */

enum {
	ROWS = 8,
	QUADS = 4,
	REGISTER_BYTES = 4
}; /* lane 4*g + t has row g, and columns or terms of t */

TileLayout tile_sums(MmaKind kind, int warps, int m, int n)
{
	TileLayout l = {.rank = 2};

	(void)kind; /* all instructions of 16 rows, and those by scalar multiply-adds, are alike */
	layout_add(&l, 0, AT_WARP, warps, m / warps, 0);
	layout_add(&l, 0, AT_REGISTER, m / warps / MMA_ROWS, MMA_ROWS, 0);
	layout_add(&l, 1, AT_REGISTER, n / 8, 8, 0);
	layout_add(&l, 0, AT_REGISTER, MMA_ROWS / ROWS, ROWS, 0);
	layout_add(&l, 0, AT_LANE, ROWS, 1, 0);
	layout_add(&l, 1, AT_LANE, QUADS, 2, 0);
	layout_add(&l, 1, AT_REGISTER, 2, 1, 0);
	return l;
}

TileLayout tile_operand(MmaKind kind, int warps, int m, int k, bool by_sums)
{
	const MmaInfo *in = &mma_info[kind];
	TileLayout l = {.rank = 2};
	int elems, halves;

	if (kind == MMA_FMA)
		return tile_sums(kind, warps, m, k);
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
	StrBuf b = {0};

	if (t->n)
		tile_print(&b, t->n);
	if (t->ok)
		diag_error(t->d, t->loc, "tiles of stage %s: %s%s%s: %s", t->st->name, what,
			   *name ? " " : "", name, t->n ? strbuf_str(&b) : "");
	t->ok = false;
	strbuf_free(&b);
}

static bool in_registers(const Buf *b)
{
	return b->tile && layout_count(b->tile, AT_ADDRESS) == 1;
}

static bool is_shared(const Buf *b)
{
	return b->tile && layout_count(b->tile, AT_ADDRESS) > 1;
}

static int64_t extent_of(const Iter *it)
{
	int64_t v = 0;

	return it->extent && dim_is_const(it->extent, &v) ? v : 0;
}

static int64_t extent_of_dim(const Buf *b, int d)
{
	int64_t v = 0;

	return dim_is_const(b->dims[d], &v) ? v : 0;
}

/* Every point has exactly one register of a thread, apart from copies. */
static void check_points(TileCheck *t)
{
	const TileNode *n = t->n;
	int64_t threads = layout_count(&n->points, AT_WARP) * WARP_LANES, all = 1, places = 1;

	if (n->points.rank != n->n)
		fault(t, "the layout has another rank than the points", "");
	for (int i = 0; i < n->n; i++) {
		all *= extent_of(n->it[i]);
		if (layout_extent_of(&n->points, i) != extent_of(n->it[i]))
			fault(t, "the layout has another extent than", n->it[i]->name);
	}
	for (int i = 0; i < n->points.n; i++) {
		if (n->points.axis[i].at == AT_ADDRESS)
			fault(t, "points lie in shared memory", "");
		places *= n->points.axis[i].dim < 0 ? 1 : n->points.axis[i].extent;
	}
	if (places != all)
		fault(t, "the layout does not have each point once", "");
	if (layout_count(&n->points, AT_LANE) != WARP_LANES || threads != t->st->threads)
		fault(t, "the layout has other threads than the block", "");
}

/* The index expressions IDX of tile B stay inside, and what a thread reads is in its registers. */
static void check_register(TileCheck *t, const Buf *b, Expr *const *idx, int nidx)
{
	TileLayout want;

	if (!in_registers(b)) {
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
	for (int r = 0; r < layout_count(&want, AT_REGISTER); r++)
		if (layout_register(b->tile, &want, r) < 0) {
			fault(t, "a thread does not hold what it accesses of", b->name);
			return;
		}
}

static void check_load(void *arg, Expr *e)
{
	TileCheck *t = arg;

	if (e->kind == EX_LOAD && e->load.buf->tile)
		check_register(t, e->load.buf, e->load.idx, e->load.nidx);
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
	const int bytes = n->to && n->vector ? n->vector * dtype_info[n->to->dtype].bits / 8 : 0;

	if (!is_shared(n->to) || n->nidx != n->to->rank || n->n != 2) {
		fault(t, "a copy fills rows of a tile in shared memory, not", n->to->name);
		return;
	}
	if (n->vector < 1 || bytes > 16 || extent_of(n->it[1]) % n->vector)
		fault(t, "a row is not a multiple of the vector", "");
	if (n->async && (n->val->kind != EX_LOAD || (bytes != 4 && bytes != 8 && bytes != 16)))
		fault(t, "an asynchronous copy is not one load of 4, 8 or 16 bytes", "");
	else if (n->async && !has_pieces(n->to, n->vector, bytes))
		fault(t, "the pieces of an asynchronous copy are not aligned in", n->to->name);
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
}

/* An operand of a DOT: a tile whose last two indices are the iterators I and J, in either order. */
static const Buf *operand(TileCheck *t, const Expr *e, const Iter *i, const Iter *j)
{
	const Buf *b = e && e->kind == EX_LOAD ? e->load.buf : NULL;
	const int n = b ? e->load.nidx : 0;
	const Expr *x = n > 1 ? e->load.idx[n - 2] : NULL, *y = n > 1 ? e->load.idx[n - 1] : NULL;

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
	for (int64_t r = 0; r < extent_of(it); r++) {
		Expr *at = ex_int(p, CT_I64, r), *first = ex_int(p, CT_I64, r / rows * rows);

		if (ex_subst_iters(p, e->load.idx[0], &it, &at, 1) !=
		    ex_subst_iters(p, e->load.idx[0], &it, &first, 1))
			return false;
	}
	return true;
}

static bool same_layout(const TileLayout *a, const TileLayout *b, TileChange most)
{
	return a->rank == b->rank && layout_change(a, b) <= most;
}

static void check_dot(TileCheck *t)
{
	const TileNode *n = t->n;
	const MmaInfo *in = &mma_info[n->mma];
	const int warps = t->st->threads / WARP_LANES;
	const Buf *a, *b;
	TileLayout want;
	int64_t size[3] = {0};

	if (n->n != 3 || n->nidx != 2 || !in_registers(n->to)) {
		fault(t, "a dot sums to a tile in registers, not", n->to->name);
		return;
	}
	a = operand(t, n->val, n->it[0], n->it[2]);
	b = operand(t, n->by, n->it[1], n->it[2]);
	for (int i = 0; i < 3; i++)
		size[i] = extent_of(n->it[i]);
	if (!a || !b)
		return;
	if (size[0] % ((int64_t)MMA_ROWS * warps) || size[1] % 8 ||
	    size[2] % (in->k > 1 ? in->k : 8)) {
		fault(t, "the sizes are not multiples of the instruction's", in->name);
		return;
	}
	if (!one_buffer(t, n->by, n->it[0], size[0] / warps))
		fault(t, "rows of one warp read several buffers of", b->name);
	want = tile_sums(n->mma, warps, (int)size[0], (int)size[1]);
	if (!same_layout(n->to->tile, &want, CHANGE_NOTHING))
		fault(t, "the sums do not lie as the instruction has them:", n->to->name);
	if (!is_shared(b))
		fault(t, "the second operand is not in shared memory:", b->name);
	if (n->mma != MMA_FMA && (a->dtype != in->type[0] || b->dtype != in->type[1]))
		fault(t, "an operand has another type than the instruction", in->name);
	if (is_shared(a))
		return;
	want = tile_operand(n->mma, warps, (int)size[0], (int)size[2], true);
	if (!same_layout(a->tile, &want, CHANGE_RENAME))
		fault(t, "the first operand does not lie as the instruction wants it:", a->name);
}

static void check_op(TileCheck *t)
{
	const TileNode *n = t->n;

	switch (n->op) {
	case TILE_COPY: check_copy(t); break;
	case TILE_MAP:
	case TILE_FOLD:
		check_points(t);
		if (n->op == TILE_FOLD)
			check_fold(t);
		if (!t->ok)
			break;
		ex_walk(n->val, check_load, t);
		if (n->guard)
			ex_walk(n->guard, check_load, t);
		if (n->to->tile)
			check_register(t, n->to, n->idx, n->nidx);
		else if (n->nidx != 1 || n->op == TILE_FOLD)
			fault(t, "a result is neither a tile nor one element of", n->to->name);
		break;
	case TILE_DOT: check_dot(t); break;
	case TILE_SYNC:
		if (n->pending < 0)
			fault(t, "a wait for less than no copies", "");
		break;
	}
}

/* A tile of shared memory lies inside of the block's scratch; addresses do not wrap around. */
static void check_local(TileCheck *t, const LNode *n)
{
	const Buf *b = n->buf[0];
	int64_t last = dtype_info[b->dtype].bits / 8, scratch = 0;

	for (int d = 0; d < b->rank; d++)
		if (layout_extent_of(b->tile, d) != extent_of_dim(b, d))
			fault(t, "the layout has another extent than the tile", b->name);
	if (!is_shared(b))
		return;
	for (int i = 0; i < b->tile->n; i++)
		last += (b->tile->axis[i].extent - 1) * b->tile->axis[i].pitch;
	if (!n->idx || !t->st->scratch || !dim_is_const(t->st->scratch, &scratch) ||
	    n->idx->i + last > scratch)
		fault(t, "the block's scratch is too small for", b->name);
}

bool tiles_verify_node(const Kernel *k, const Stage *st, const LNode *n, Diag *d, DiagLoc loc)
{
	TileCheck t = {
		.c = k->ctx, .d = d, .pool = k->pool, .st = st, .n = n->op, .loc = loc, .ok = true};

	if (n->kind == LN_LOCAL && n->buf[0]->tile)
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
