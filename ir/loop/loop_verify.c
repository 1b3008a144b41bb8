/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks nodes and stages of a text, as they are read: that code generation can make code of them.
 * A scope has been checked: buffers and iterators exist. Whether the tree computes what its
 * statements say is for the proof (passes/poly/).
 */
#include "ir/loop/loop_impl.h"

enum {
	/* Bytes of a local on the stack. docs/c-api.md says how much stack a run takes; schedules
	 * put locals of more than 8 KiB into scratch. */
	MOST_ON_STACK = 32 << 10,
	MOST_LANES = 16 /* of f32, in the widest vector of any CPU */
};

static bool is_power(int64_t v)
{
	return v > 0 && !(v & (v - 1));
}

static bool is_local(const LoopText *t, const Buf *b)
{
	return b->id >= t->nglobal;
}

static void check_local(LoopText *t, const Buf *b, const char *what)
{
	if (b && !is_local(t, b))
		lt_fault(t, "%s is not a local, as %s must be", b->name, what);
}

/* ---- Elements that threads keep ---- */

/* A node's access to locals of which threads keep elements: only the points of a loop with as many
 * have them. Where the loop has points in scratch and a local has none, these are computed
 * again. */
typedef struct KeptAccess {
	LoopText *t;
	int keep, scratch; /* of the loop */
} KeptAccess;

static void check_kept(KeptAccess *x, const Buf *b)
{
	VEC_EACH (l, &x->t->kept)
		if (l->local.buf == b && (!x->keep || x->keep > l->local.keep ||
					  (l->local.scratch && x->scratch > l->local.scratch)))
			lt_fault(
				x->t,
				"threads keep %d elements of %s, and %d in scratch, so only a loop of a group "
				"with no more of them accesses it",
				l->local.keep, b->name, l->local.scratch);
}

static void check_kept_access(LoopText *t, LNode *n)
{
	const LNode *in = n->kind == LN_REDUCE ? n : t->group;
	KeptAccess x = {t, in ? in->share.keep : 0, in ? in->share.scratch : 0};
	const LBufs bufs = lnode_bufs(n);

	if (n->kind == LN_LOCAL)
		return;
	LNODE_EACH_EXPR (e, n)
		EX_EACH_LOAD (load, *e)
			check_kept(&x, load->load.buf);
	x = n->kind == LN_REDUCE ? (KeptAccess){.t = t}
				 : x; /* the threads of a group store one result */
	VEC_EACH_AT (u, &bufs)
		check_kept(&x, u->b);
}

/* ---- Asynchronous copies ---- */

static bool is_copied(const Stage *st, const Buf *b)
{
	for (int i = 0; i < st->block.bulk.n; i++)
		if (st->block.bulk.at[i].buf == b)
			return true;
	return false;
}

/* Whether VECTOR elements along ELEM that VAL loads from memory can be copied asynchronously to
 * index TO of B. */
static bool may_copy(LoopText *t, const Expr *val, const Buf *b, Expr *to, const Iter *elem,
		     int vector)
{
	const Buf *from = val->kind == EX_LOAD ? val->load.buf : NULL;
	const int bytes = (int)dtype_size(b->dtype, vector);

	return from && from->dtype == b->dtype && !from->data && !is_local(t, from) &&
	       !is_copied(t->stage, from) && (bytes == 4 || bytes == 8 || bytes == 16) &&
	       val->load.nidx &&
	       (vector == 1 || (ex_aligned_along(t->ctx, val->load.idx[0], elem, vector) &&
				ex_aligned_along(t->ctx, to, elem, vector)));
}

/* ---- Tiles of blocks ---- */

static void see_tile(LoopText *t, const Buf *b, LUse use)
{
	if (b->tile && use != LUSE_DECLARES)
		lt_fault(t, "%s is a tile: only operations on tiles access it", b->name);
}

static void check_tiles(LoopText *t, LNode *n)
{
	const DiagLoc at = {
		.file = t->file, .line = *t->line, .column = (int)(t->p - t->line_start) + 1};

	if (n->kind != LN_OP) {
		const LBufs bufs = lnode_bufs(n);

		VEC_EACH_AT (u, &bufs)
			see_tile(t, u->b, u->use);
		LNODE_EACH_EXPR (e, n)
			EX_EACH_LOAD (load, *e)
				see_tile(t, load->load.buf, LUSE_READS);
	} else if (n->op->op == TILE_COPY && !is_power(n->op->vector)) {
		lt_fault(t, "a vector has a power of two elements, not %d", n->op->vector);
	}
	if (!t->failed)
		t->failed = !tiles_verify_node(t->k, t->stage, n, t->ctx->diag, at);
	if (!t->failed && n->kind == LN_OP && n->op->async &&
	    !may_copy(t, n->op->val, n->op->to, n->op->idx[n->op->nidx - 1],
		      n->op->it[n->op->n - 1], n->op->vector))
		lt_fault(t,
			 "this copies no aligned pieces of 4, 8 or 16 bytes of memory: not async");
}

/* ---- Nodes ---- */

static void check_point(LoopText *t, const LNode *n)
{
	const Stmt *s;

	if (n->point.part == PART_NONE)
		return;
	if (n->point.stmt >= t->k->stmts.n) {
		lt_fault(t, "the kernel has no statement %d", n->point.stmt);
		return;
	}
	s = t->k->stmts.at[n->point.stmt];
	if (n->point.comp >= (s->red ? monoid_info[s->red].n : s->nout))
		lt_fault(t, "statement %d has no component %d", n->point.stmt, n->point.comp);
	if (n->point.nat != s->niters && n->point.nat != s->nband)
		lt_fault(t, "a point of statement %d has %d coordinates, of its band %d",
			 n->point.stmt, s->niters, s->nband);
}

/* B holds elements as the scalar type CT has them. */
static bool is_plain(const Buf *b, CType ct)
{
	return dtype_ctype(b->dtype) == ct &&
	       dtype_info[b->dtype].bits == dtype_info[ctype_dtype(ct)].bits;
}

/* The element types that X multiplies and adds up (codegen/c/tile.c). */
static bool are_factors(const Tile *x)
{
	const DType a = x->a->dtype, b = x->b->dtype;

	if (!is_plain(x->acc, x->ct))
		return false;
	if (x->scaled.scale)
		return x->ct == CT_F32 && x->kpack == 1 && dtype_is_int(b) &&
		       dtype_info[b].bits <= 8 && a == (x->scaled.row_scale ? DT_U8 : DT_F32);
	if (x->kpack == 4)
		return x->ct == CT_I32 &&
		       ((a == DT_U8 && b == DT_I8) || (a == DT_I8 && b == DT_U8));
	if (x->kpack == 2)
		return x->ct == CT_F32 && b == DT_BF16 && (a == DT_BF16 || a == DT_F32);
	return x->kpack == 1 && is_plain(x->a, x->ct) &&
	       (is_plain(x->b, x->ct) || (b == DT_F16 && x->ct == CT_F32));
}

static void check_scales(LoopText *t, const Tile *x)
{
	const TileScales *s = &x->scaled;
	const int terms = x->scaled.terms ? x->scaled.terms : 1;

	if (!s->scale && (s->zero || s->group || s->row_scale || x->scaled.terms))
		lt_fault(
			t,
			"only numbers that are scaled, times ..., have zero points, groups or words");
	if (t->failed || !s->scale)
		return;
	if (s->scale->dtype != DT_F32 && !dtype_is_half(s->scale->dtype))
		lt_fault(t, "%s has scales of neither f32, f16 nor bf16", s->scale->name);
	if ((s->zero && s->zero->dtype != DT_F32) ||
	    (s->row_scale && s->row_scale->dtype != DT_F32))
		lt_fault(t, "zero points, and scales of rows, are of f32");
	if (terms * dtype_info[x->b->dtype].bits != (terms > 1 ? 32 : 8))
		lt_fault(t, "%d terms of %s are neither a byte nor a word", terms,
			 dtype_info[x->b->dtype].name);
	if (s->group % terms || s->row_group % terms || s->group > INT32_MAX ||
	    s->row_group > INT32_MAX || (s->row_scale && s->group && s->group != s->row_group))
		lt_fault(t, "a group has whole words of %d terms, as many as a group of rows",
			 terms);
	if (x->by_runs.starts || x->order.sums_at || x->mask.trim)
		lt_fault(t, "a scaled tile has neither runs, nor an order, nor is it trimmed");
	if (x->nr % MOST_LANES)
		lt_fault(t, "a scaled tile has a multiple of %d columns", MOST_LANES);
}

static bool is_below(const Expr *e, int64_t least, int64_t most)
{
	return e->kind != EX_CONST || (e->i >= least && e->i <= most);
}

static void check_sizes(LoopText *t, const Tile *x)
{
	const int most = x->mr < x->usual ? x->usual : x->mr;

	if (x->mr > 64 || x->nr > 512 || most != x->mr)
		lt_fault(
			t,
			"a tile has at most 64 rows and 512 columns, and no more usual rows than rows");
	else if (!x->matrix && x->mr > x->usual && (x->mr % 2 || x->mr / 2 > x->usual))
		lt_fault(
			t,
			"a tile of more rows than usual has an even number, at most twice as many");
	if (x->nr & (x->nr - 1) && x->nr % MOST_LANES)
		lt_fault(t, "a tile's columns are a power of two, or a multiple of %d", MOST_LANES);
	if (!is_below(x->m_valid, 0, x->mr) || !is_below(x->n_valid, 0, x->nr) ||
	    !is_below(x->k, 0, INT64_MAX))
		lt_fault(t, "a tile of %dx%d has no more rows and columns, and 0 or more terms",
			 x->mr, x->nr);
	if (x->whole && (x->k->kind != EX_CONST || x->k->i > INLINED_TERMS || x->kpack != 1))
		lt_fault(t, "a whole tile has a constant number of terms, at most %d",
			 INLINED_TERMS);
}

static bool is_number(const Expr *e, int64_t n)
{
	return e->kind == EX_CONST && e->i == n;
}

/* X, with runs, can have groups of columns as TileRuns.shift says. */
static bool has_groups(const Tile *x)
{
	const Expr *terms = x->by_runs.terms;

	return x->ct == CT_F32 && x->b->dtype == DT_F32 && x->kpack == 1 && !x->accumulate &&
	       !x->partial && !x->mask.when && is_number(x->by_runs.first, 0) &&
	       is_number(x->a_step, 1) && terms->kind == EX_CONST && terms->i >= 1 &&
	       x->nr % terms->i == 0 && x->k->kind == EX_CONST && x->k->i % terms->i == 0;
}

/* The last split before here that writes B; null: there is none. */
static const SplitOperand *split_of(const LoopText *t, const Buf *b)
{
	for (int i = t->splits.n - 1; i >= 0; i--)
		if (t->splits.at[i]->to == b)
			return t->splits.at[i];
	return NULL;
}

static void check_parts(LoopText *t, const Tile *x)
{
	const TileParts *p = &x->parts;
	const SplitOperand *a = p->a ? split_of(t, p->a) : NULL,
			   *b = p->b ? split_of(t, p->b) : NULL;

	if (!p->a)
		return;
	if (!x->matrix || x->kpack != 1 || x->ct != CT_F32 || x->b->dtype != DT_F32 ||
	    x->scaled.scale || x->by_runs.starts || x->mr > 2 * MATRIX_SIDE || x->whole)
		lt_fault(
			t,
			"only a tile of f32 in matrix registers, of up to %d rows and without runs or scales, is computed by parts",
			2 * MATRIX_SIDE);
	else if (x->mr % x->usual)
		lt_fault(t, "%d rows are not whole tiles of %d, which vectors compute", x->mr,
			 x->usual);
	else if (!a || !a->row || a->fits != p->a_fits || a->from != x->a)
		lt_fault(t, "no split before the tile writes %s, the parts of rows of %s, and %s",
			 p->a->name, x->a->name, p->a_fits->name);
	else if (!b || b->row || b->fits != p->b_fits || b->from != x->b || b->columns < x->nr)
		lt_fault(
			t,
			"no split before the tile writes %s, the parts of %d columns of %s, and %s",
			p->b->name, x->nr, x->b->name, p->b_fits->name);
}

static void check_split(LoopText *t, const SplitOperand *s)
{
	check_local(t, s->to, "a copy of parts");
	check_local(t, s->fits, "the flag that says whether parts fit");
	if (s->to->dtype != DT_BF16 || s->fits->dtype != DT_BOOL || s->from->dtype != DT_F32)
		lt_fault(t, "a split makes bf16 of f32, and a bool: not %s and %s of %s",
			 dtype_info[s->to->dtype].name, dtype_info[s->fits->dtype].name,
			 dtype_info[s->from->dtype].name);
	if (s->rows % MATRIX_SIDE || s->columns % MATRIX_SIDE)
		lt_fault(t, "a split has whole blocks of %d rows or columns", MATRIX_SIDE);
	if (s->row && !is_below(s->valid, 0, s->rows))
		lt_fault(t, "a split has at most %d rows", s->rows);
	if (s->row && !is_number(s->step, 1))
		lt_fault(t, "the terms of rows that are split are contiguous");
	if (!t->failed)
		vec_push(t->arena, &t->splits, s);
}

static void check_matrix(LoopText *t, const Tile *x)
{
	if (!x->matrix)
		return;
	if (x->mr % MATRIX_SIDE || (x->usual != x->mr && !x->parts.a) || x->nr % MATRIX_SIDE ||
	    x->mr / MATRIX_SIDE * (x->nr / MATRIX_SIDE) > MATRIX_SUMS)
		lt_fault(t,
			 "the sums of a tile of %dx%d are not up to %d matrix registers of %dx%d",
			 x->mr, x->nr, MATRIX_SUMS, MATRIX_SIDE, MATRIX_SIDE);
	if (!x->parts.a && (x->kpack == 1 || x->a->dtype == DT_F32))
		lt_fault(
			t,
			"matrix registers multiply steps of bytes, or of pairs of bf16, or parts of f32");
	if (x->mask.when || x->mask.trim)
		lt_fault(t, "a tile in matrix registers computes all sums of all terms");
}

/* Only A's first element depends on the row of tile N, by 1 where it is an index of STARTS; and
 * only a mask on the row and the column. */
static void check_places(LoopText *t, const LNode *n)
{
	const Tile *x = n->tile;
	Affine a;

	LNODE_EACH_EXPR (e, n) {
		const bool masks = e == &x->mask.when, row = masks || e == &x->a_at;

		if ((!row && expr_has_iter(*e, x->row)) || (!masks && expr_has_iter(*e, x->col)) ||
		    (x->depth && expr_has_iter(*e, x->depth)))
			lt_fault(
				t,
				"only a tile's first element of %s depends on the row, and only a mask on the row and the column",
				x->a->name);
	}
	if (!t->failed && x->by_runs.starts &&
	    (!ex_affine(t->ctx, x->a_at, &a) || !dim_equals(affine_coef(t->ctx, &a, x->row), 1)))
		lt_fault(t, "the next row's runs start at the next elements of %s",
			 x->by_runs.starts->name);
}

static void check_tile(LoopText *t, const LNode *n)
{
	const Tile *x = n->tile;
	const TileRuns *r = &x->by_runs;

	check_local(t, x->acc, "the sums of a tile");
	check_local(t, r->starts, "where runs start");
	check_local(t, r->edge, "the runs at an edge");
	check_local(t, x->mask.squares, "a bound");
	check_local(t, x->mask.trim, "a bound");
	if (n->point.part != PART_TERM)
		lt_fault(t, "a tile executes terms: @term S[...]");
	if (x->order.sums_at && x->kpack != 4)
		lt_fault(t, "only a tile with four terms for each k has wide terms");
	if (x->order.sums_at && !x->order.next_at == !x->order.flips_at)
		lt_fault(t, "wide terms have either next ones or flips");
	if (x->kpack != 1 && x->kpack != 2 && x->kpack != 4)
		lt_fault(t, "a tile has 1, 2 or 4 terms for each k, not %d", x->kpack);
	check_sizes(t, x);
	check_places(t, n);
	check_scales(t, x);
	check_matrix(t, x);
	check_parts(t, x);
	if (!are_factors(x))
		lt_fault(t, "no tile with %d terms for each k sums %s times %s in %s", x->kpack,
			 dtype_info[x->a->dtype].name, dtype_info[x->b->dtype].name,
			 dtype_info[x->acc->dtype].name);
	if (r->starts && r->starts->dtype != DT_I64)
		lt_fault(t, "%s has where runs start, so its elements are of i64", r->starts->name);
	if (r->edge && r->edge->dtype != x->a->dtype)
		lt_fault(t, "%s has other elements than %s", r->edge->name, x->a->name);
	if (r->starts && !is_below(r->terms, 1, INT32_MAX))
		lt_fault(t, "a run has at least one term");
	if (r->shift && !has_groups(x))
		lt_fault(
			t,
			"only a tile of f32 that computes a whole sum, of whole runs, has groups of columns with runs of their own");
	if (x->mask.trim && !is_local(t, x->a))
		lt_fault(t, "%s is not a local, as the weights of terms must be", x->a->name);
	if (x->mask.trim && (r->starts || x->accumulate || x->partial || x->kpack != 1))
		lt_fault(t, "only a tile of all terms of a sum, one after the other, is trimmed");
}

/* The bytes of local N, on a GPU, for each group; -1: as buf_bytes. */
static int64_t shared_bytes(const LoopText *t, const LNode *n, int64_t most)
{
	const int64_t each = dtype_bytes(n->local.buf->dtype);

	return n->local.keep ? each * n->local.scratch * t->stage->block.group
			     : buf_bytes(n->local.buf, most);
}

/* Local N of a block lies inside of the block's scratch, or else in static shared memory. */
static void check_shared(LoopText *t, const LNode *n)
{
	const Buf *b = n->local.buf;
	const int groups = t->stage->block.threads / t->stage->block.group;
	const int64_t bytes = shared_bytes(t, n, MOST_SHARED);
	int64_t scratch = 0;

	dim_is_const(t->stage->scratch, &scratch);
	if (n->local.at && n->local.at->kind != EX_CONST)
		lt_fault(t, "a block's scratch is at a constant offset");
	else if (n->local.at && (n->local.at->i < 0 || n->local.at->i > scratch || bytes < 0 ||
				 bytes * groups > scratch - n->local.at->i))
		lt_fault(t, "%s is not inside of the block's scratch of %lld bytes", b->name,
			 (long long)scratch);
	else if (n->local.at && !bytes)
		lt_fault(t, "%s has no elements", b->name);
	else if (!n->local.at && bytes < 0)
		lt_fault(t,
			 "%s is in shared memory, so its dims are constants, of at most %d bytes",
			 b->name, MOST_SHARED);
	else if (!n->local.at && bytes * groups > STATIC_SHARED && !t->group)
		lt_fault(t, "%s takes %lld bytes of shared memory, and a block has at most %d",
			 b->name, (long long)bytes * groups, STATIC_SHARED);
}

/* Local N of a CPU is on the stack, or lies inside of the scratch, as far as both are constants. */
static void check_scratch(LoopText *t, const LNode *n)
{
	const Buf *b = n->local.buf;
	int64_t scratch, bytes;

	if (!n->local.at && buf_bytes(b, MOST_ON_STACK) < 0)
		lt_fault(t, "%s is on the stack, so its dims are constants, of at most %d bytes",
			 b->name, MOST_ON_STACK);
	if (!n->local.at || n->local.at->kind != EX_CONST ||
	    !dim_is_const(t->stage->scratch, &scratch))
		return;
	for (int i = 0; i < b->rank; i++)
		if (!dim_is_const(b->dims[i], NULL))
			return;
	bytes = buf_bytes(b, scratch);
	if (n->local.at->i < 0 || n->local.at->i > scratch || bytes > scratch - n->local.at->i ||
	    bytes < 0)
		lt_fault(t, "%s is not inside of the scratch of %lld bytes", b->name,
			 (long long)scratch);
}

static void check_local_node(LoopText *t, const LNode *n)
{
	const Buf *b = n->local.buf;
	int64_t v;

	for (int i = 0; i < b->rank; i++)
		if (dim_is_const(b->dims[i], &v) && v < 0)
			lt_fault(t, "dim %d of %s is negative", i, b->name);
	if (n->local.scratch && !n->local.at)
		lt_fault(t, "%s has elements in scratch, and does not say where", b->name);
	if (t->failed)
		return;
	if (!t->stage->block.group)
		check_scratch(t, n);
	else if (!b->tile && (!n->local.keep || n->local.scratch))
		check_shared(t, n);
}

/* ---- Nodes of groups ---- */

static void check_columns(LoopText *t, const LNode *n)
{
	const ColumnReduction *f = n->columns;
	const int vector = n->share.vector ? n->share.vector : 1;

	if (n->share.peel && (vector > COLUMN_BLOCKS || f->rows != 1))
		lt_fault(t, "columns that are peeled are of one row, in at most %d blocks",
			 COLUMN_BLOCKS);
	else if (!n->share.peel && (f->cols % vector || f->cols / vector > 32))
		lt_fault(t, "%d columns in vectors of %d are not those of 32 lanes at most",
			 f->cols, vector);
	else if ((int64_t)f->cols * f->rows > MOST_SHARED)
		lt_fault(t, "%d rows of %d columns have more states than a block", f->rows,
			 f->cols);
}

static void check_atomic(LoopText *t, const LNode *n)
{
	const Buf *b = n->store.buf[0];

	if (n->store.nout != 1 || dtype_info[b->dtype].bits < 16)
		lt_fault(t, "an atomic update is of one element of 16 bits or more");
	else if (is_local(t, b) || is_copied(t->stage, b))
		lt_fault(t, "%s is not in global memory, as atomic updates are", b->name);
	else if (t->stage->block.group != 1 && !t->group)
		lt_fault(t, "an atomic update is of one thread: in a loop of the group");
}

/* N is of all threads of a block, or of a group, which carry it out together. In a loop of a group
 * each thread has a reduction of its own, whose terms it does not share. */
static void check_together(LoopText *t, const LNode *n)
{
	const bool block = n->kind == LN_COLUMNS || n->kind == LN_OP,
		   shared = n->kind == LN_REDUCE &&
			    (n->share.vector > 1 || n->share.keep || n->share.scratch || n->share.peel);

	if (t->group && t->group != n && (block || shared))
		lt_fault(
			t,
			"the threads of a group carry this out together, not in a loop of the group");
	else if (block && t->stage->block.group != t->stage->block.threads)
		lt_fault(t,
			 n->kind == LN_OP
				 ? "an operation on tiles is of all threads of a block together"
				 : "the threads of a block carry this out, and a group has fewer");
	/* of columns that are peeled it is a number of blocks of columns (check_columns) */
	if (n->share.vector && !is_power(n->share.vector) &&
	    !(n->kind == LN_COLUMNS && n->share.peel))
		lt_fault(t, "a vector has a power of two elements, not %d", n->share.vector);
	if (n->share.keep % (n->share.vector ? n->share.vector : 1))
		lt_fault(t, "a thread keeps whole vectors of %d elements", n->share.vector);
}

/* The blocks of LAST, which the last one waits for, are whole groups of the stage's. */
static void check_last(LoopText *t, const LNode *last)
{
	Dim *count = ex_as_dim(t->ctx, last->range.hi), *groups;
	const Stage *st = t->stage;
	int64_t n;

	if (!st->block.group || st->block.group != st->block.threads)
		lt_fault(t, "only a stage whose groups are blocks has last blocks");
	else if (!count || last->range.lo->kind != EX_CONST || last->range.lo->i ||
		 last->loop.step != 1)
		lt_fault(t, "blocks that the last one waits for are counted from 0, by a size");
	else if (dim_is_const(count, &n) && n < 1)
		lt_fault(t, "the last block waits for one at least, itself");
	else if (!dim_divides(t->ctx, st->extent, count, &groups))
		lt_fault(t, "the blocks are not whole groups of those that the last one waits for");
	else if (groups != last->range.var->extent)
		lt_fault(t, "the iterator of last blocks is not over all groups of blocks");
}

/* While the code of producers is separate from that of other threads, no accesses are recorded, and
 * barriers are those of the text. */
static bool may_have_producers(const LNode *n)
{
	switch (n->kind) {
	case LN_LOOP:
		return n->loop.kind == LOOP_SERIAL || n->loop.kind == LOOP_UNROLL ||
		       n->loop.kind == LOOP_LAST;
	case LN_LOCAL: return n->local.buf->tile != NULL;
	default: return n->kind == LN_LET || n->kind == LN_OP;
	}
}

/* A node that only blocks of GPUs, or only CPUs, have. */
static void check_device(LoopText *t, const LNode *n)
{
	const bool gpu = t->stage->block.group > 0,
		   shares = n->share.vector || n->share.keep || n->share.scratch || n->share.peel,
		   group = (n->kind == LN_LOOP && (n->loop.kind == LOOP_GROUP || shares)) ||
			   n->kind == LN_COLUMNS || n->kind == LN_ATOMIC || n->kind == LN_OP ||
			   (n->kind == LN_LOCAL && (n->local.keep || n->local.buf->tile));

	if (n->kind == LN_LOOP && n->loop.kind == LOOP_LAST)
		check_last(t, n);
	if (t->stage->block.producers && !may_have_producers(n))
		lt_fault(t, "a stage with producers has only serial loops, lets, tiles and "
			    "operations on tiles");
	if (group && !gpu)
		lt_fault(t, "only a stage on a GPU, with a group of threads, has such a node");
	if ((n->kind == LN_TILE || n->kind == LN_SPLIT) && gpu)
		lt_fault(t, "only a stage on a CPU has tiles");
}

void lt_check_node(LoopText *t, LNode *n)
{
	const LBufs bufs = lnode_bufs(n);

	if (t->failed)
		return;
	check_device(t, n);
	VEC_EACH_AT (u, &bufs) {
		if (u->use == LUSE_WRITES && (u->b->kind == BUF_IN || u->b->data))
			lt_fault(t, "the kernel only reads %s", u->b->name);
		if (u->use == LUSE_VALUE && u->b->rank)
			lt_fault(t, "%s is not a scalar", u->b->name);
	}
	check_point(t, n);
	check_kept_access(t, n);
	if (!t->failed && t->stage->block.group)
		check_together(t, n);
	if (t->failed)
		return;
	if (n->store.red && n->store.nout != monoid_info[n->store.red].n)
		lt_fault(t, "%s has %d values", monoid_info[n->store.red].name,
			 monoid_info[n->store.red].n);
	switch (n->kind) {
	case LN_TILE: check_tile(t, n); break;
	case LN_SPLIT: check_split(t, n->split); break;
	case LN_LOCAL: check_local_node(t, n); break;
	case LN_COLUMNS: check_columns(t, n); break;
	case LN_ATOMIC: check_atomic(t, n); break;
	default: break;
	}
	if (!t->failed)
		check_tiles(t, n);
	if (t->failed || n->kind != LN_LOOP || !n->share.vector || n->loop.kind == LOOP_GROUP)
		return;
	if (n->loop.kind != LOOP_VECTOR || n->share.keep || n->share.scratch || n->share.peel)
		lt_fault(t, "only a group or a vector loop has this");
}

void lt_check_body(LoopText *t, const LNode *n)
{
	if (!t->failed && !n->body && n->kind == LN_LOOP)
		lt_fault(t, "the loop before this has no body");
}

static bool is_negative(const Dim *d)
{
	int64_t v;

	return dim_is_const(d, &v) && v < 0;
}

void lt_check_stage(LoopText *t, const Stage *st)
{
	const int g = st->block.group;
	int64_t scratch;

	if (t->failed)
		return;
	if (is_negative(st->cpu.grain) || is_negative(st->scratch) || is_negative(st->extent))
		lt_fault(t, "the iterations, the grain or the scratch of a stage are below 0");
	else if (!st->block.threads && st->block.first)
		lt_fault(t, "only a stage on a GPU has blocks with a first iteration");
	if (t->failed || !st->block.threads)
		return;
	/* Threads of a group exchange values by shuffles of whole warps. */
	if (g != 1 && st->block.threads % WARP_LANES)
		lt_fault(t, "a block has whole warps of %d threads, not %d", WARP_LANES,
			 st->block.threads);
	else if (st->block.producers % WARP_LANES ||
		 (st->block.producers && g != st->block.threads))
		lt_fault(t, "producers are whole warps, beside a group of all other threads");
	else if (st->block.threads + st->block.producers > MOST_THREADS)
		lt_fault(t, "a block has at most %d threads with its producers, not %d",
			 MOST_THREADS, st->block.threads + st->block.producers);
	else if (g != st->block.threads && (g > WARP_LANES || !is_power(g)))
		lt_fault(t, "a group is 1, 2, 4, 8, 16, 32 or all threads of the block");
	else if (!dim_is_const(st->scratch, &scratch))
		lt_fault(t, "a block's scratch is a constant number of bytes");
	else if (scratch > MOST_SHARED)
		lt_fault(t, "a block's scratch has at most %d bytes, not %lld", MOST_SHARED,
			 (long long)scratch);
}

/* Only the last node of a stage is of the last blocks: no block comes back from it. */
static void check_last_place(LoopText *t, const LNode *n, bool at_end)
{
	for (; n; n = n->next) {
		if (n->kind == LN_LOOP && n->loop.kind == LOOP_LAST && (!at_end || n->next))
			lt_fault(t, "only the last node of stage %s is of last blocks",
				 t->stage->name);
		check_last_place(t, n->body, false);
	}
}

static bool is_at_mbarrier(const LNode *n)
{
	return n->kind == LN_OP && n->op->op == TILE_SYNC &&
	       (n->op->sync == TILE_ARRIVE || n->op->sync == TILE_AWAIT);
}

/* The first operation from N on that arrives at mbarriers OF. */
static const TileNode *arrival(const LNode *n, const Buf *of)
{
	const TileNode *found = NULL;

	for (; n && !found; n = n->next) {
		if (is_at_mbarrier(n) && n->op->sync == TILE_ARRIVE && n->op->to == of)
			found = n->op;
		else
			found = arrival(n->body, of);
	}
	return found;
}

/* Either the producers arrive at an mbarrier and others wait, or the other way. */
static void check_mbarriers(LoopText *t, const LNode *n)
{
	for (; n; n = n->next) {
		const TileNode *to = is_at_mbarrier(n) ? arrival(t->stage->body, n->op->to) : NULL;

		if (to && (to->producers == n->op->producers) != (n->op->sync == TILE_ARRIVE))
			lt_fault(t,
				 "not one role arrives at the mbarriers of %s, and the other waits",
				 n->op->to->name);
		check_mbarriers(t, n->body);
	}
}

void lt_check_stage_nodes(LoopText *t, const Stage *st)
{
	if (t->failed)
		return;
	check_last_place(t, st->block.head, false);
	check_last_place(t, st->body, true);
	check_mbarriers(t, st->block.head);
	check_mbarriers(t, st->body);
}

void lt_check_bulk(LoopText *t, const Stage *st, const BulkCopy *s)
{
	enum { ACCESS = 16 }; /* bytes of an access of codegen/nvptx/bulk.c */
	const int64_t bytes = dtype_bytes(s->buf->dtype),
		      groups = st->block.threads ? st->block.threads / st->block.group : 0;

	if (t->failed)
		return;
	if (!st->block.threads)
		lt_fault(t, "only a stage on a GPU copies for the groups of a block");
	else if (st->block.producers)
		lt_fault(t, "a stage with producers has no bulk copies");
	else if (is_local(t, s->buf) || s->buf->data || !bytes)
		lt_fault(t, "%s is not in memory, or has elements of less than a byte",
			 s->buf->name);
	else if (s->written && s->buf->kind == BUF_IN)
		lt_fault(t, "the kernel only reads %s", s->buf->name);
	else if (is_negative(s->each) || s->most > STATIC_SHARED / (bytes * groups))
		lt_fault(t, "%lld elements of %s for each of %lld groups do not fit %d bytes",
			 (long long)s->most, s->buf->name, (long long)groups, STATIC_SHARED);
	else if (!dim_equals(s->each, 0) && groups * bytes % ACCESS)
		lt_fault(t, "elements of %lld groups are not a multiple of %d bytes",
			 (long long)groups, ACCESS);
}
