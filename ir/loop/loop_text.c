/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of loop trees, as --dump-ir=sched prints it and a text that begins after pass `sched`
 * has it. docs/ir.md explains it. One function describes a kind of node, for printing and for
 * reading (ir/loop/loop_impl.h): to read a node is to fill it in the order of its text. So an
 * iterator stands before the expressions that mention it.
 */
#include "ir/loop/loop_impl.h"

#include <string.h>

enum {
	STAGE_COLUMNS = 2, /* by which a stage is indented */
	MOST_KEPT = 255,   /* by a thread, which has as many registers */
	MOST_VECTOR = 16,  /* elements of an access: of 16 bytes at most, and of a byte at least */
	MOST_ID = 1 << 30, /* which must exist */
	MOST_KIB = 1 << 12
};

/* ---- Iterators ---- */

/* Whether N's range is all of its iterator's. */
static bool is_whole(const LNode *n)
{
	int64_t v;

	if (n->range.lo->kind != EX_CONST || n->range.lo->i)
		return false;
	return n->range.hi->kind == EX_DIM
		       ? n->range.hi->dim == n->range.var->extent
		       : n->range.hi->kind == EX_CONST && dim_is_const(n->range.var->extent, &v) &&
				 v == n->range.hi->i;
}

/* "i in [0, 8)", an iterator below 8; or "i < 8 in [lo, hi)". */
static void range(LoopText *t, LNode *n)
{
	const char *name = t->out ? n->range.var->name : NULL;
	Dim *extent = t->out ? n->range.var->extent : NULL;

	lt_word(t, &name);
	if (lt_opt(t, t->out && !is_whole(n), " < "))
		lt_dim(t, &extent);
	lt_put(t, " in [");
	lt_expr(t, &n->range.lo, CT_I64);
	lt_put(t, ", ");
	lt_expr(t, &n->range.hi, CT_I64);
	lt_put(t, ")");
	if (t->out || t->failed)
		return;
	if (!extent && n->range.lo->kind == EX_CONST && !n->range.lo->i)
		extent = ex_as_dim(t->ctx, n->range.hi);
	if (!extent)
		lt_fault(t, "the range of %s does not say its extent: %s < N in [...)", name, name);
	lt_bind(t, &n->range.var, name, extent);
}

/* "i < 8", an iterator of all of these; or "i < 8 of N". */
static void counted(LoopText *t, Iter **it, int *count)
{
	const char *name = t->out ? (*it)->name : NULL;
	Dim *extent = t->out ? (*it)->extent : NULL;

	lt_word(t, &name);
	lt_put(t, " < ");
	lt_count(t, count, 1, TILE_SIDE);
	if (lt_opt(t, t->out && !dim_equals(extent, *count), " of "))
		lt_dim(t, &extent);
	if (!t->out && !t->failed)
		lt_bind(t, it, name, extent ? extent : dim_const(t->ctx, *count));
}

void lt_bounded(LoopText *t, Iter **it)
{
	const char *name = t->out ? (*it)->name : NULL;
	Dim *extent = t->out ? (*it)->extent : NULL;

	lt_word(t, &name);
	lt_put(t, " < ");
	lt_dim(t, &extent);
	if (!t->out && !t->failed)
		lt_bind(t, it, name, extent);
}

/* ---- Common members ---- */

/* " WORD N", if *V is not 0. */
static void opt_count(LoopText *t, const char *word, int *v, int most)
{
	if (lt_opt(t, *v != 0, word))
		lt_count(t, v, 1, most);
}

void lt_opt_expr(LoopText *t, const char *word, Expr **e, CType ct)
{
	if (lt_opt(t, *e != NULL, word))
		lt_expr(t, e, ct);
}

static void opt_when(LoopText *t, Dim **when)
{
	if (lt_opt(t, *when != NULL, " if "))
		lt_dim(t, when);
}

/* How the threads of a group share the points of a loop. */
static void shares(LoopText *t, LNode *n)
{
	opt_count(t, " vector ", &n->share.vector, MOST_VECTOR);
	opt_count(t, " keep ", &n->share.keep, MOST_KEPT);
	opt_count(t, " scratch ", &n->share.scratch, MOST_SHARED);
	lt_opt_expr(t, " peel ", &n->share.peel, CT_I64);
}

/* A tile runs over the terms of statement STMT, with the statement's own iterators. */
static void bind_terms(LoopText *t, int stmt)
{
	const Stmt *s = !t->failed && stmt < t->k->stmts.n ? t->k->stmts.at[stmt] : NULL;

	for (int i = s ? s->nband : 0; s && i < s->niters; i++) {
		bool bound = false;

		for (int j = 0; j < t->iters.n && !bound; j++)
			bound = !strcmp(t->iters.at[j].name, s->iter[i]->name);
		if (!bound)
			lt_bind(t, &(Iter *){NULL}, s->iter[i]->name, s->iter[i]->extent);
	}
}

/* Which part of a statement N carries out, and at which point: "  @term 0[i, k]". */
static void point(LoopText *t, LNode *n)
{
	static const char *const parts[] = {
		[PART_INIT] = "  @init ", [PART_TERM] = "  @term ", [PART_WRITE] = "  @write "};
	Expr *at[MAX_ITERS];

	if (t->bare)
		return;
	n->point.part = (LPart)(lt_choice(t, parts + 1, PART_WRITE, (int)n->point.part - 1) + 1);
	if (n->point.part == PART_NONE) {
		n->point.stmt = -1;
		return;
	}
	lt_count(t, &n->point.stmt, 0, MOST_ID);
	if (!t->out && n->kind == LN_TILE)
		bind_terms(t, n->point.stmt);
	if (lt_opt(t, n->point.comp != 0, "."))
		lt_count(t, &n->point.comp, 1, MOST_ID);
	lt_put(t, "[");
	for (int i = 0; t->out ? i < n->point.nat : !t->failed && !lt_opt(t, false, "]"); i++) {
		if (i)
			lt_put(t, ", ");
		if (i == MAX_ITERS)
			lt_fault(t, "a point has %d coordinates at most", MAX_ITERS);
		else
			lt_expr(t, t->out ? &n->point.at[i] : &at[i], CT_I64);
		n->point.nat = t->out ? n->point.nat : i + 1;
	}
	if (t->out)
		lt_put(t, "]");
	else
		n->point.at = arena_copy(t->arena, at, (size_t)n->point.nat * sizeof *at);
}

/* ---- Stores ---- */

void lt_monoid(LoopText *t, Monoid *red)
{
	const char *name = t->out ? monoid_info[*red].name : NULL;

	lt_word(t, &name);
	for (Monoid m = MONOID_NONE + 1; m < MONOID_COUNT && !t->out; m++)
		if (!strcmp(monoid_info[m].name, name))
			*red = m;
	if (!t->failed && !*red)
		lt_fault(t, "ir/kernel/monoids.def has no reduction \"%s\"", name);
}

/* "y[i] = v", "acc, at[0] argmax= v, i": the buffers, how they get the values, and the guard. */
static void assigns(LoopText *t, LNode *n)
{
	for (int i = 0; i == 0 || lt_opt(t, i < n->store.nout, ", "); i++) {
		if (i == 2)
			lt_fault(t, "a node stores to two buffers at most");
		if (t->failed)
			return;
		lt_buf(t, &n->store.buf[i]);
		n->store.nout = t->out ? n->store.nout : i + 1;
	}
	lt_put(t, "[");
	lt_expr(t, &n->store.idx, CT_I64);
	lt_put(t, "] ");
	if (lt_opt(t, n->kind == LN_STORE, "= ")) {
		if (n->kind != LN_STORE)
			lt_fault(t, "only a reduction combines values: sum= x, for example");
	} else {
		lt_monoid(t, &n->store.red);
		lt_put(t, "= ");
		n->kind = !t->out && n->kind == LN_STORE ? LN_UPDATE : n->kind;
	}
	for (int i = 0; i < n->store.nout && !t->failed; i++) {
		if (i)
			lt_put(t, ", ");
		lt_expr(t, &n->store.val[i], dtype_ctype(n->store.buf[i]->dtype));
	}
	lt_opt_expr(t, " where ", &n->store.guard, CT_BOOL);
}

static void atomic(LoopText *t, LNode *n)
{
	lt_put(t, "atomic ");
	assigns(t, n);
}

static void reduce(LoopText *t, LNode *n)
{
	lt_put(t, "over ");
	range(t, n);
	shares(t, n);
	lt_put(t, ": ");
	assigns(t, n);
}

static void columns(LoopText *t, LNode *n)
{
	ColumnReduction *f;

	if (!t->out)
		n->columns = NEW(t->arena, ColumnReduction);
	f = n->columns;
	lt_put(t, "columns ");
	range(t, n);
	lt_put(t, " for ");
	counted(t, &f->row, &f->rows);
	lt_opt_expr(t, " valid ", &f->valid, CT_I64);
	lt_put(t, ", ");
	counted(t, &f->col, &f->cols);
	opt_count(t, " vector ", &n->share.vector, MOST_VECTOR);
	lt_opt_expr(t, " peel ", &n->share.peel, CT_I64);
	lt_put(t, ": ");
	assigns(t, n);
}

/* ---- Loops and names ---- */

static void loop(LoopText *t, LNode *n)
{
	static const char *const kinds[] = {[LOOP_SERIAL] = "for ",
					    [LOOP_VECTOR] = "vector for ",
					    [LOOP_SHORT] = "short vector for ",
					    [LOOP_UNROLL] = "unroll for ",
					    [LOOP_GROUP] = "group for ",
					    [LOOP_LAST] = "last for "};
	const int kind = lt_choice(t, kinds, LOOP_LAST + 1, (int)n->loop.kind);

	if (kind < 0)
		lt_expected(t, "a loop: 'for', 'vector for' ...");
	n->loop.kind = kind < 0 ? LOOP_SERIAL : (LoopKind)kind;
	range(t, n);
	if (lt_opt(t, n->loop.step != 1, " by "))
		lt_number(t, &n->loop.step, 1, INT32_MAX);
	shares(t, n);
	opt_when(t, &n->loop.when);
	if (n->loop.kind == LOOP_GROUP && t->group && !t->out)
		lt_fault(t, "a loop of a group is around this one already");
	if (n->loop.kind == LOOP_GROUP)
		t->group = n;
}

static void let(LoopText *t, LNode *n)
{
	const char *name = t->out ? n->range.var->name : NULL;
	Dim *extent = t->out ? n->range.var->extent : NULL;

	lt_put(t, "let ");
	lt_word(t, &name);
	lt_put(t, " < ");
	lt_dim(t, &extent);
	lt_put(t, " = ");
	lt_expr(t, &n->range.lo, CT_I64);
	if (!t->out && !t->failed)
		lt_bind(t, &n->range.var, name, extent);
}

/* ---- Locals ---- */

/* The element type and the dims of a local, in their order in memory. */
static void local_type(LoopText *t, Buf *b)
{
	const char *type = dtype_info[b->dtype].name;
	Dim *dims[MAX_RANK];

	lt_word(t, &type);
	if (!t->out && !t->failed)
		b->dtype = dtype_by_name(type);
	if (!t->failed && dtype_ctype(b->dtype) == CT_NONE)
		lt_fault(t, "there is no element type \"%s\"", type);
	if (!lt_opt(t, b->rank > 0, "["))
		return;
	for (int i = 0; i == 0 || lt_opt(t, i < b->rank, ", "); i++) {
		if (i == MAX_RANK)
			lt_fault(t, "a local has %d dims at most", MAX_RANK);
		if (t->failed)
			return;
		lt_dim(t, t->out ? &b->dims[buf_memory_dim(b, i)] : &dims[i]);
		b->rank = t->out ? b->rank : i + 1;
	}
	lt_put(t, "]");
	if (!t->out)
		b->dims = arena_copy(t->arena, dims, (size_t)b->rank * sizeof *dims);
}

/* How many elements a thread keeps in registers, and their values. */
static void kept(LoopText *t, LNode *n)
{
	lt_count(t, &n->local.keep, 0, MOST_KEPT);
	opt_count(t, " scratch ", &n->local.scratch, MOST_SHARED);
	lt_put(t, " of ");
	lt_bounded(t, &n->local.var);
	lt_put(t, ": ");
	if (t->failed)
		return;
	lt_expr(t, &n->local.val, dtype_ctype(n->local.buf->dtype));
	if (!t->out)
		vec_push(t->arena, &t->kept, n);
}

static void local(LoopText *t, LNode *n)
{
	const char *name = t->out ? n->local.buf->name : NULL;
	Buf *b = t->out ? n->local.buf : NULL;

	lt_put(t, "local ");
	lt_word(t, &name);
	if (!t->out) {
		b = n->local.buf = kernel_temp(t->k, name ? name : "", DT_F32, 0, NULL);
		lt_declare(t, b);
	}
	lt_put(t, ": ");
	local_type(t, b);
	if (t->failed)
		return;
	lt_opt_expr(t, " in scratch at ", &n->local.at, CT_I64);
	if (lt_opt(t, b->tile != NULL, " in ")) {
		TileLayout l = b->tile ? *b->tile : (TileLayout){0};

		lt_layout(t, &l, b->rank);
		b->tile = t->out ? b->tile : arena_copy(t->arena, &l, sizeof l);
	}
	if (lt_opt(t, n->local.val != NULL, " keep "))
		kept(t, n);
}

/* ---- Tiles on CPUs ---- */

/* "[AT by STEP": the first element, and how far one term is from the next. */
static void steps(LoopText *t, Expr **at, Expr **step)
{
	lt_expr(t, at, CT_I64);
	lt_put(t, " by ");
	lt_expr(t, step, CT_I64);
}

static void factor_a(LoopText *t, Tile *x)
{
	TileRuns *r = &x->by_runs;

	lt_buf(t, &x->a);
	lt_put(t, "[");
	if (!lt_opt(t, r->starts != NULL, "runs ")) {
		steps(t, &x->a_at, &x->a_step);
		lt_put(t, "]");
		return;
	}
	lt_buf(t, &r->starts);
	lt_put(t, "[");
	steps(t, &x->a_at, &r->step);
	lt_put(t, "] of ");
	lt_expr(t, &r->terms, CT_I64);
	lt_put(t, " from ");
	lt_expr(t, &r->first, CT_I64);
	lt_put(t, " by ");
	lt_expr(t, &x->a_step, CT_I64);
	lt_opt_expr(t, " shifted by ", &r->shift, CT_I64);
	if (lt_opt(t, r->edge != NULL, " or "))
		lt_buf(t, &r->edge);
	lt_put(t, "]");
}

/* "WORDB[AT]", if *B is not null. */
static void opt_elements(LoopText *t, const char *word, Buf **b, Expr **at)
{
	if (!lt_opt(t, *b != NULL, word))
		return;
	lt_buf(t, b);
	lt_put(t, "[");
	lt_expr(t, at, CT_I64);
	lt_put(t, "]");
}

static void factor_b(LoopText *t, Tile *x)
{
	TileScales *s = &x->scaled;

	lt_buf(t, &x->b);
	lt_put(t, "[");
	steps(t, &x->b_at, &x->b_step);
	if (lt_opt(t, x->scaled.terms != 0, " in "))
		lt_count(t, &x->scaled.terms, 1, 32);
	lt_put(t, "]");
	opt_elements(t, " minus ", &s->zero, &s->zero_at);
	opt_elements(t, " times ", &s->scale, &s->scale_at);
	if (lt_opt(t, s->group != 0, " per "))
		lt_number(t, &s->group, 1, INT64_MAX);
	if (lt_opt(t, s->row_scale != NULL, " rows times ")) {
		lt_buf(t, &s->row_scale);
		lt_put(t, " per ");
		lt_number(t, &s->row_group, 1, INT64_MAX);
	}
	if (lt_opt(t, x->order.sums_at != NULL, " with sums at ")) {
		lt_expr(t, &x->order.sums_at, CT_I64);
		lt_put(t, " and wide terms at ");
		lt_expr(t, &x->order.wide_at, CT_I64);
		lt_opt_expr(t, " next at ", &x->order.next_at, CT_I64);
		lt_opt_expr(t, " flips at ", &x->order.flips_at, CT_I64);
		lt_opt_expr(t, " from ", &x->order.first, CT_I64);
	}
}

static void tile_size(LoopText *t, Tile *x)
{
	lt_count(t, &x->mr, 1, TILE_SIDE);
	lt_put(t, "x");
	lt_count(t, &x->nr, 1, TILE_SIDE);
	if (!t->out)
		x->usual = x->mr;
	if (lt_opt(t, x->usual != x->mr, " usual "))
		lt_count(t, &x->usual, 1, TILE_SIDE);
	x->matrix = lt_opt(t, x->matrix, " matrix");
	x->whole = lt_opt(t, x->whole, " whole");
	x->partial = lt_opt(t, x->partial, " partial");
}

/* "r < 4 of 7": an iterator below COUNT, of which the elements below VALID exist. */
static void valid(LoopText *t, Iter **it, int count, Expr **valid)
{
	const char *name = t->out ? (*it)->name : NULL;

	lt_word(t, &name);
	lt_put(t, " < ");
	lt_expr(t, valid, CT_I64);
	if (!t->out && !t->failed)
		lt_bind(t, it, name, dim_const(t->ctx, count));
}

static void tile_ranges(LoopText *t, Tile *x)
{
	lt_put(t, " for ");
	valid(t, &x->row, x->mr, &x->m_valid);
	lt_opt_expr(t, " of ", &x->rows, CT_I64);
	lt_put(t, ", ");
	valid(t, &x->col, x->nr, &x->n_valid);
	lt_put(t, ", k < ");
	lt_expr(t, &x->k, CT_I64);
	if (!t->out)
		x->kpack = 1;
	if (lt_opt(t, x->kpack > 1, " by "))
		lt_count(t, &x->kpack, 2, 4);
	if (lt_opt(t, x->depth != NULL, ", term "))
		lt_bounded(t, &x->depth);
}

/* ", by ap[ROW] if FITS and bp if FITS". */
static void parts(LoopText *t, TileParts *p)
{
	if (!lt_opt(t, p->a != NULL, ", by "))
		return;
	lt_buf(t, &p->a);
	lt_put(t, "[");
	lt_expr(t, &p->row, CT_I64);
	lt_put(t, "] if ");
	lt_buf(t, &p->a_fits);
	lt_put(t, " and ");
	lt_buf(t, &p->b);
	lt_put(t, " if ");
	lt_buf(t, &p->b_fits);
}

static void tile(LoopText *t, LNode *n)
{
	Tile *x;
	Expr *zero = t->out ? NULL : ex_int(t->k->pool, CT_I64, 0);

	if (!t->out)
		n->tile = NEW(t->arena, Tile);
	x = n->tile;
	lt_put(t, "tile ");
	tile_size(t, x);
	tile_ranges(t, x);
	lt_put(t, ": ");
	lt_buf(t, &x->acc);
	if (!t->out && !t->failed)
		x->ct = dtype_ctype(x->acc->dtype);
	if (lt_opt(t, t->out && (x->acc_at->kind != EX_CONST || x->acc_at->i), "[")) {
		lt_expr(t, &x->acc_at, CT_I64);
		lt_put(t, "]");
	} else if (!t->out) {
		x->acc_at = zero;
	}
	x->accumulate = lt_opt(t, x->accumulate, " += ");
	if (!x->accumulate)
		lt_put(t, " = ");
	factor_a(t, x);
	lt_put(t, " * ");
	factor_b(t, x);
	lt_opt_expr(t, ", used where ", &x->mask.when, CT_BOOL);
	if (lt_opt(t, x->mask.squares != NULL, ", or large by "))
		lt_buf(t, &x->mask.squares);
	if (lt_opt(t, x->mask.trim != NULL, ", trimmed by "))
		lt_buf(t, &x->mask.trim);
	parts(t, &x->parts);
}

/* "split rows r < 100 of 128, k < 64: ap, fits = x[AT by STEP]", or "split columns 32, k < ...". */
static void split(LoopText *t, LNode *n)
{
	SplitOperand *s = n->split = t->out ? n->split : NEW(t->arena, SplitOperand);
	const char *const kinds[] = {"split rows ", "split columns "};

	if (lt_choice(t, kinds, 2, !s->row)) {
		lt_count(t, &s->columns, 1, TILE_SIDE);
	} else {
		const char *name = t->out ? s->row->name : NULL;

		lt_word(t, &name);
		lt_put(t, " < ");
		lt_expr(t, &s->valid, CT_I64);
		lt_put(t, " of ");
		lt_count(t, &s->rows, 1, TILE_SIDE);
		if (!t->out && !t->failed)
			lt_bind(t, &s->row, name, dim_const(t->ctx, s->rows));
	}
	lt_put(t, ", k < ");
	lt_expr(t, &s->k, CT_I64);
	lt_put(t, ": ");
	lt_buf(t, &s->to);
	lt_put(t, ", ");
	lt_buf(t, &s->fits);
	lt_put(t, " = ");
	lt_buf(t, &s->from);
	lt_put(t, "[");
	steps(t, &s->at, &s->step);
	lt_put(t, "]");
}

/* Prints the prefetches of a tile, one a line. */
static void fetches(LoopText *t, LNode *n, int around)
{
	Tile *x = n->tile;
	VEC(Prefetch) all = {0};
	int columns = 0;

	for (int i = 0; lt_line(t, t->out && i < x->nahead, around, &columns); i++) {
		Prefetch f = t->out ? x->ahead[i] : (Prefetch){0};

		lt_put(t, "fetch ");
		lt_buf(t, &f.buf);
		lt_put(t, "[");
		steps(t, &f.at, &f.step);
		lt_put(t, "]");
		lt_opt_expr(t, " if ", &f.when, CT_BOOL);
		lt_end(t);
		if (!t->out)
			vec_push(t->arena, &all, f);
	}
	if (t->out)
		return;
	x->ahead = all.at;
	x->nahead = all.n;
}

/* ---- Nodes ---- */

void lt_mma(LoopText *t, MmaKind *kind)
{
	const char *name = mma_info[*kind].name;

	lt_word(t, &name);
	for (int i = 0; i < MMA_COUNT && !t->out; i++)
		if (!strcmp(mma_info[i].name, name))
			*kind = (MmaKind)i;
	if (!t->failed && strcmp(mma_info[*kind].name, name))
		lt_fault(t, "ir/loop/mma.def has no instruction \"%s\"", name);
}

typedef struct NodeText {
	const char *words; /* a node whose text begins with one of these is of the kind */
	void (*text)(LoopText *t, LNode *n);
	bool body;
} NodeText;

/* By LNodeKind. The text of LN_STORE and LN_UPDATE begins with a buffer. */
static const NodeText node_text[] = {
	[LN_LOOP] = {" for vector short unroll group last ", loop, true},
	[LN_LET] = {" let ", let, false},
	[LN_STORE] = {"", assigns, false},
	[LN_UPDATE] = {"", assigns, false},
	[LN_ATOMIC] = {" atomic ", atomic, false},
	[LN_REDUCE] = {" over ", reduce, false},
	[LN_LOCAL] = {" local ", local, false},
	[LN_TILE] = {" tile ", tile, false},
	[LN_SPLIT] = {" split ", split, false},
	[LN_COLUMNS] = {" columns ", columns, false},
	[LN_OP] = {" copy map fold dot sync ", lt_tile_op, false},
};

static void nodes(LoopText *t, LNode **at, int around);

/* The kind of the node whose text comes next. */
static LNodeKind kind_ahead(LoopText *t)
{
	const int kinds = sizeof node_text / sizeof *node_text;
	const char *word;
	bool element;
	const size_t n = lt_ahead(t, &word, &element);

	for (int k = 0; k < kinds && n && !element; k++) {
		const char *at = strstr(node_text[k].words,
					arena_printf(t->arena, " %.*s ", (int)n, word));

		if (at)
			return (LNodeKind)k;
	}
	if (!element)
		lt_expected(t, "a node of a loop tree");
	return LN_STORE;
}

/* Nodes whose lines are indented by more than AROUND columns. */
static void list(LoopText *t, LNode **at, int around)
{
	int columns = 0;

	for (; lt_line(t, t->out && *at, around, &columns); at = &(*at)->next) {
		LoopScope before = lt_enter(t);
		LNode *n = *at;

		if (!t->out) {
			n = *at = NEW(t->arena, LNode);
			n->loop.step = 1;
			n->kind = kind_ahead(t);
			if (t->failed)
				break;
		}
		node_text[n->kind].text(t, n);
		point(t, n);
		lt_end(t);
		if (!t->out)
			lt_check_node(t, n);
		if (node_text[n->kind].body)
			nodes(t, &n->body, columns);
		if (!t->out)
			lt_check_body(t, n);
		if (n->kind == LN_TILE)
			fetches(t, n, columns);
		before.bufs += n->kind == LN_LOCAL;
		before.splits += n->kind == LN_SPLIT && !t->out && !t->failed;
		if (n->kind != LN_LET)
			lt_leave(t, before);
	}
}

/* The same, which declare nothing for what follows. */
static void nodes(LoopText *t, LNode **at, int around)
{
	const LoopScope outside = lt_enter(t);

	list(t, at, around);
	lt_leave(t, outside);
}

/* ---- Stages ---- */

static void bulk(LoopText *t, Stage *st, BulkCopy *s)
{
	const char *var = st->var->name;
	int64_t each = -1;

	lt_put(t, "bulk ");
	lt_buf(t, &s->buf);
	lt_put(t, ": ");
	lt_dim(t, &s->each);
	lt_put(t, " of each ");
	lt_word(t, &var);
	if (!t->failed && strcmp(var, st->var->name))
		lt_fault(t, "the iterator of the stage is %s", st->var->name);
	if (!t->failed && dim_is_const(s->each, &each) && !t->out)
		s->most = each;
	if (lt_opt(t, t->out && s->most != each, ", at most "))
		lt_number(t, &s->most, 0, INT64_MAX);
	s->written = lt_opt(t, s->written, ", written");
	if (!t->out)
		lt_check_bulk(t, st, s);
}

/* "group 32 of 256", and what is not a default */
static void sizes(LoopText *t, Stage *st)
{
	Dim *zero = t->out ? NULL : dim_const(t->ctx, 0);
	const bool cpu = !st->block.threads;

	if (!t->out) {
		st->cpu.grain = dim_const(t->ctx, 1);
		st->scratch = zero;
	}
	if (lt_opt(t, !cpu, " group ")) {
		lt_count(t, &st->block.group, 1, MOST_THREADS);
		lt_put(t, " of ");
		lt_count(t, &st->block.threads, 1, MOST_THREADS);
		if (lt_opt(t, st->block.producers > 0, " producers "))
			lt_count(t, &st->block.producers, 1, MOST_THREADS);
	}
	st->block.beside = lt_opt(t, st->block.beside, ", beside");
	if (lt_opt(t, cpu || !dim_equals(st->cpu.grain, 1), " grain "))
		lt_dim(t, &st->cpu.grain);
	if (lt_opt(t, cpu || !dim_equals(st->scratch, 0), ", scratch "))
		lt_dim(t, &st->scratch);
	if (lt_opt(t, st->cpu.stack != 0, ", stack "))
		lt_number(t, &st->cpu.stack, 1, INT64_MAX);
	if (lt_opt(t, st->block.first != NULL, ", first ")) {
		const char *name = t->out ? st->block.first->name : NULL;

		lt_word(t, &name);
		if (!t->out && !t->failed)
			lt_bind(t, &st->block.first, name, st->extent);
	}
}

/* Whether the next line of the stage begins with WORD; ITEM: there is such a line to print. */
static bool stage_line(LoopText *t, bool item, const char *word, int *columns)
{
	const char *at;
	bool element;

	if (!lt_line(t, item, STAGE_COLUMNS, columns))
		return false;
	return t->out ||
	       (lt_ahead(t, &at, &element) == strlen(word) && !element && str_starts(at, word));
}

static void bulks(LoopText *t, Stage *st, int *columns)
{
	for (int i = 0; stage_line(t, t->out && i < st->block.bulk.n, "bulk", columns); i++) {
		BulkCopy s = t->out ? st->block.bulk.at[i] : (BulkCopy){0};

		bulk(t, st, &s);
		lt_end(t);
		if (!t->out)
			vec_push(t->arena, &st->block.bulk, s);
	}
}

void lt_stage(LoopText *t, Stage *st)
{
	LoopScope outside = lt_enter(t), head;
	const char *bare = "k";
	int columns = 0;

	lt_put(t, "stage ");
	lt_word(t, t->bare && t->out ? &bare : &st->name);
	lt_put(t, ": ");
	lt_word(t, &st->strategy);
	lt_put(t, ", parallel ");
	lt_bounded(t, &st->var);
	if (t->failed)
		return;
	st->extent = t->out ? st->extent : st->var->extent;
	opt_when(t, &st->when);
	sizes(t, st);
	lt_end(t);
	t->stage = st;
	if (!t->out)
		lt_check_stage(t, st);
	bulks(t, st, &columns);
	head = lt_enter(t);
	if (stage_line(t, t->out && st->block.head, "block", &columns)) {
		lt_put(t, "block");
		if (!t->out && !st->block.threads)
			lt_fault(t, "only a stage on a GPU has blocks");
		lt_end(t);
		list(t, &st->block.head, columns);
		head.bufs = t->bufs.n;
	}
	lt_leave(t, head);
	nodes(t, &st->body, STAGE_COLUMNS);
	lt_leave(t, outside);
	if (!t->out)
		lt_check_stage_nodes(t, st);
}

/* ---- Variants ---- */

/* "BEFORE SIZE OP", a part of a guard; or nothing if SIZE is null. */
static bool condition(LoopText *t, const char **before, Dim **size, const char *op)
{
	if (t->out ? !*size : !lt_size_ahead(t, *before, op))
		return false;
	lt_put(t, *before);
	lt_dim(t, size);
	lt_put(t, op);
	*before = ", ";
	return true;
}

/* Gives the symbol N, which was read, the meaning floor(OF / EACH). */
static void define(LoopText *t, Dim *n, Dim *meaning)
{
	Sym *s = dim_as_sym(n);

	if (s && !s->def && s->id == t->nsyms - 1) {
		sym_bound(t->ctx, s, -DIM_INF, DIM_INF); /* until the whole text has been read */
		sym_define(s, meaning);
		s->inlined = true;
	} else if (!s || s->def != meaning) {
		lt_fault(t, "the size has another meaning elsewhere");
	}
}

/* "OF = 8*n", in which n is a symbol of the variant. */
static void multiple(LoopText *t, SizeStep *x, Dim *of)
{
	const int64_t others = x->each;
	Dim *n = t->out ? dim_symbol(t->ctx, dim_floordiv(t->ctx, of, dim_const(t->ctx, x->each)), "")
			: NULL;

	lt_number(t, &x->each, 2, INT32_MAX);
	if (others && x->each != others)
		lt_fault(t, "sizes are multiples of the same number, %lld", (long long)others);
	if (!t->failed && !dim_as_sym(of))
		lt_fault(t, "only a size with a name is a multiple");
	lt_put(t, "*");
	t->nsyms += !t->out; /* N may be a symbol that the graph lacks */
	lt_dim(t, &n);
	if (t->out || t->failed)
		return;
	define(t, n, dim_floordiv(t->ctx, of, dim_const(t->ctx, x->each)));
	t->nsyms = sym_count(t->ctx);
	x->of[x->nof++] = of;
}

void lt_guard(LoopText *t, SizeStep *x)
{
	const char *before = "where ";
	int kib = x->shared >> 10;

	for (int i = 0; t->out ? i < x->nof : i < MOST_MULTIPLES; i++) {
		Dim *of = x->of[i];

		if (!condition(t, &before, &of, " = "))
			break;
		multiple(t, x, of);
	}
	if (condition(t, &before, &x->size, " <= "))
		lt_number(t, &x->most, INT64_MIN, INT64_MAX);
	if (x->size && condition(t, &before, &x->also, " <= "))
		lt_number(t, &x->also_most, INT64_MIN, INT64_MAX);
	if (!lt_opt(t, x->shared != 0, before))
		return;
	lt_count(t, &kib, 1, MOST_KIB);
	lt_put(t, " KiB of shared memory");
	x->shared = t->out ? x->shared : kib << 10;
}
