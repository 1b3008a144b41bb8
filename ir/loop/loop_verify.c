/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks nodes and stages of a text, as they are read: that code generation can make code of them. A
 * scope has been checked: buffers and iterators exist. Whether the tree computes what its statements
 * say is for the proof (passes/poly/).
 */
#include "ir/loop/loop_impl.h"

static bool is_local(const LoopText *t, const Buf *b)
{
	return b->id >= t->nglobal;
}

static void check_local(LoopText *t, const Buf *b, const char *what)
{
	if (b && !is_local(t, b))
		lt_fault(t, "%s is not a local, as %s must be", b->name, what);
}

static void check_use(void *arg, Buf *b, LUse use)
{
	LoopText *t = arg;

	if (use == LUSE_WRITES && (b->kind == BUF_IN || b->data))
		lt_fault(t, "the kernel only reads %s", b->name);
	if (use == LUSE_VALUE && b->rank)
		lt_fault(t, "%s is not a scalar", b->name);
}

/* ---- Elements that threads keep ---- */

/* A node's access to locals of which threads keep elements: only the points of a loop with as many have
 * them. */
typedef struct KeptAccess {
	LoopText *t;
	int keep, scratch; /* of the loop */
} KeptAccess;

static void check_kept(KeptAccess *x, const Buf *b)
{
	for (int i = 0; i < x->t->kept.n; i++) {
		const LNode *l = x->t->kept.at[i];

		if (l->buf[0] == b && (!x->keep || x->keep > l->keep || x->scratch > l->scratch))
			lt_fault(
				x->t,
				"threads keep %d elements of %s, and %d in scratch, so only a loop of a group "
				"with no more of them accesses it",
				l->keep, b->name, l->scratch);
	}
}

static void see_kept(void *arg, Buf *b, LUse use)
{
	(void)use;
	check_kept(arg, b);
}

static void see_load(void *arg, Expr *e)
{
	if (e->kind == EX_LOAD)
		check_kept(arg, e->load.buf);
}

static void see_loads(void *arg, Expr **e, bool inside)
{
	(void)inside;
	ex_walk(*e, see_load, arg);
}

static void check_kept_access(LoopText *t, LNode *n)
{
	const LNode *in = n->kind == LN_REDUCE ? n : t->group;
	KeptAccess x = {t, in ? in->keep : 0, in ? in->scratch : 0};

	if (n->kind == LN_LOCAL)
		return;
	lnode_bufs(n, see_kept, &x);
	lnode_exprs(n, see_loads, &x);
}

/* ---- Tiles of blocks ---- */

static void see_tile(void *arg, Buf *b, LUse use)
{
	if (b->tile && use != LUSE_DECLARES)
		lt_fault(arg, "%s is a tile: only operations on tiles access it", b->name);
}

static void see_tile_load(void *arg, Expr *e)
{
	if (e->kind == EX_LOAD)
		see_tile(arg, e->load.buf, LUSE_READS);
}

static void see_tile_loads(void *arg, Expr **e, bool inside)
{
	(void)inside;
	ex_walk(*e, see_tile_load, arg);
}

static void check_tiles(LoopText *t, LNode *n)
{
	const DiagLoc at = {.file = t->file, .line = *t->line};

	if (n->kind != LN_OP) {
		lnode_bufs(n, see_tile, t);
		lnode_exprs(n, see_tile_loads, t);
	} else if (t->stage->group != t->stage->threads || t->group) {
		lt_fault(t, "an operation on tiles is of all threads of a block together");
	}
	if (!t->failed)
		t->failed = !tiles_verify_node(t->k, t->stage, n, t->ctx->diag, at);
}

/* ---- Nodes ---- */

static void check_point(LoopText *t, const LNode *n)
{
	const Stmt *s;

	if (n->part == PART_NONE)
		return;
	if (n->stmt >= t->k->stmts.n) {
		lt_fault(t, "the kernel has no statement %d", n->stmt);
		return;
	}
	s = t->k->stmts.at[n->stmt];
	if (n->comp >= (s->red ? monoid_info[s->red].n : s->nout))
		lt_fault(t, "statement %d has no component %d", n->stmt, n->comp);
	if (n->nat != s->niters && n->nat != s->nband)
		lt_fault(t, "a point of statement %d has %d coordinates, of its band %d", n->stmt,
			 s->niters, s->nband);
}

static void check_tile(LoopText *t, const LNode *n)
{
	const Tile *x = n->tile;
	const int most = x->mr < x->usual ? x->usual : x->mr;

	check_local(t, x->acc, "the sums of a tile");
	check_local(t, x->by_runs.starts, "where runs start");
	check_local(t, x->by_runs.edge, "the runs at an edge");
	check_local(t, x->mask.squares, "a bound");
	check_local(t, x->mask.trim, "a bound");
	if (x->order.sums_at && x->kpack != 4)
		lt_fault(t, "only a tile with four terms for each k has wide terms");
	if (n->part != PART_TERM)
		lt_fault(t, "a tile executes terms: @term S[...]");
	if (x->mr > 64 || x->nr > 512 || most != x->mr)
		lt_fault(
			t,
			"a tile has at most 64 rows and 512 columns, and no more usual rows than rows");
	if (x->mask.trim && !is_local(t, x->a))
		lt_fault(t, "%s is not a local, as the weights of terms must be", x->a->name);
}

static void check_local_node(LoopText *t, const LNode *n)
{
	const Buf *b = n->buf[0];
	int64_t v;

	for (int i = 0; i < b->rank; i++)
		if (dim_is_const(b->dims[i], &v) && v < 0)
			lt_fault(t, "dim %d of %s is negative", i, b->name);
	if (t->stage->group && n->idx && n->idx->kind != EX_CONST)
		lt_fault(t, "a block's scratch is at a constant offset");
	if (t->stage->group && !n->idx && !b->tile && !n->keep)
		for (int i = 0; i < b->rank; i++)
			if (!dim_is_const(b->dims[i], &v))
				lt_fault(t, "%s is in shared memory, so its dims are constants",
					 b->name);
	if (n->scratch && !n->idx)
		lt_fault(t, "%s has elements in scratch, and does not say where", b->name);
}

/* A node that only blocks of GPUs, or only CPUs, have. */
static void check_device(LoopText *t, const LNode *n)
{
	const bool gpu = t->stage->group > 0,
		   shares = n->vector || n->keep || n->scratch || n->peel,
		   group = (n->kind == LN_LOOP && (n->loop == LOOP_GROUP || shares)) ||
			   n->kind == LN_COLUMNS || n->kind == LN_ATOMIC || n->kind == LN_OP ||
			   (n->kind == LN_LOCAL && (n->keep || n->buf[0]->tile));

	if (group && !gpu)
		lt_fault(t, "only a stage on a GPU, with a group of threads, has such a node");
	if (n->kind == LN_TILE && gpu)
		lt_fault(t, "only a stage on a CPU has tiles");
}

void lt_check_node(LoopText *t, LNode *n)
{
	if (t->failed)
		return;
	check_device(t, n);
	lnode_bufs(n, check_use, t);
	check_point(t, n);
	check_kept_access(t, n);
	if (t->failed)
		return;
	if (n->red && n->nout != monoid_info[n->red].n)
		lt_fault(t, "%s has %d values", monoid_info[n->red].name, monoid_info[n->red].n);
	switch (n->kind) {
	case LN_TILE: check_tile(t, n); break;
	case LN_LOCAL: check_local_node(t, n); break;
	default: break;
	}
	if (!t->failed)
		check_tiles(t, n);
	if (t->failed || n->kind != LN_LOOP || !n->vector || n->loop == LOOP_GROUP)
		return;
	if (n->loop != LOOP_VECTOR || n->keep || n->scratch || n->peel)
		lt_fault(t, "only a group or a vector loop has this");
}

void lt_check_body(LoopText *t, const LNode *n)
{
	if (!t->failed && !n->body && n->kind == LN_LOOP)
		lt_fault(t, "the loop before this has no body");
}

void lt_check_stage(LoopText *t, const Stage *st)
{
	const int g = st->group;

	if (t->failed || !st->threads)
		return;
	if (st->threads > 1024)
		lt_fault(t, "a block has 1024 threads at most");
	else if (g != st->threads && (g > 32 || g & (g - 1) || st->threads % g))
		lt_fault(t, "a group is 1, 2, 4, 8, 16, 32 or all threads of the block");
	else if (!dim_is_const(st->scratch, NULL))
		lt_fault(t, "a block's scratch is a constant number of bytes");
}
