/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the loop tree for --dump-ir=sched: what code generation emits, in terms of the IR. */
#include "ir/loop/loop.h"

static void indent(StrBuf *b, int depth)
{
	for (int i = 0; i < depth; i++)
		strbuf_puts(b, "  ");
}

static void put_bufs(StrBuf *b, const LNode *n)
{
	for (int i = 0; i < n->nout; i++)
		strbuf_printf(b, "%s%s", i ? ", " : "", n->buf[i]->name);
	strbuf_puts(b, "[");
	if (n->idx)
		ex_print(b, n->idx);
	strbuf_puts(b, "]");
}

static void put_vals(StrBuf *b, const LNode *n)
{
	for (int i = 0; i < n->nout; i++) {
		strbuf_puts(b, i ? ", " : "");
		ex_print(b, n->val[i]);
	}
	if (n->guard) {
		strbuf_puts(b, " where ");
		ex_print(b, n->guard);
	}
	strbuf_puts(b, "\n");
}

/* Where the runs of a tile's rows start: "or edge: runs[i + t*128] by 64 from 0". */
static void put_runs(StrBuf *b, const Tile *t)
{
	if (t->by_runs.edge)
		strbuf_printf(b, "or %s: ", t->by_runs.edge->name);
	strbuf_printf(b, "%s[", t->by_runs.starts->name);
	ex_print(b, t->a_at);
	strbuf_puts(b, " + t*");
	ex_print(b, t->by_runs.step);
	strbuf_puts(b, "] by ");
	ex_print(b, t->by_runs.terms);
	strbuf_puts(b, " from ");
	ex_print(b, t->by_runs.first);
}

/* B's elements, of terms of K, as numbers of a quantised operand. */
static void put_scaled(StrBuf *b, const Tile *t)
{
	strbuf_printf(b, "%s%s[", t->scaled.zero ? "(" : "", t->b->name);
	ex_print(b, t->b_at);
	strbuf_puts(b, " + k*");
	ex_print(b, t->b_step);
	strbuf_puts(b, " + j");
	if (t->terms > 1)
		strbuf_printf(b, ", by %d terms", t->terms);
	for (int i = 0; i < 2; i++) {
		if (i == 0 && !t->scaled.zero)
			continue;
		strbuf_printf(b,
			      i && t->scaled.zero ? "]) * %s["
			      : i                 ? "] * %s["
						  : "] - %s[",
			      (i ? t->scaled.scale : t->scaled.zero)->name);
		ex_print(b, i ? t->scaled.scale_at : t->scaled.zero_at);
		strbuf_puts(b, " + j");
		if (t->scaled.group)
			strbuf_printf(b, ", by groups of %lld", (long long)t->scaled.group);
	}
}

static void put_tile(StrBuf *b, const Tile *t)
{
	strbuf_printf(b, "tile %s[%dx%d", t->acc->name, t->mr, t->nr);
	if (t->acc_at->kind != EX_CONST || t->acc_at->i) {
		strbuf_puts(b, " at ");
		ex_print(b, t->acc_at);
	}
	strbuf_printf(b, "] %s %s[", t->accumulate ? "+=" : "=", t->a->name);
	if (t->by_runs.starts)
		put_runs(b, t);
	else
		ex_print(b, t->a_at);
	strbuf_puts(b, " + k*");
	ex_print(b, t->a_step);
	strbuf_puts(b, "] * ");
	if (t->scaled.row_scale)
		strbuf_printf(b, "%s[by groups of %lld] * ", t->scaled.row_scale->name,
			      (long long)t->scaled.row_group);
	if (t->scaled.scale) {
		put_scaled(b, t);
	} else {
		strbuf_printf(b, "%s[", t->b->name);
		ex_print(b, t->b_at);
		strbuf_puts(b, " + k*");
		ex_print(b, t->b_step);
		strbuf_puts(b, " + j");
		if (t->kpack > 1)
			strbuf_printf(b, "*%d", t->kpack);
	}
	if (t->kpack > 1)
		strbuf_printf(b, "] for %d terms of each k < ", t->kpack);
	else
		strbuf_puts(b, "] for k < ");
	ex_print(b, t->k);
	if (t->order.sums_at) {
		strbuf_printf(b, ", in the order of %s[", t->b->name);
		ex_print(b, t->order.sums_at);
		strbuf_puts(b, " and ");
		ex_print(b, t->order.wide_at);
		strbuf_puts(b, "]");
	}
	strbuf_printf(b, ", %s < ", t->row->name);
	ex_print(b, t->m_valid);
	if (t->rows) {
		strbuf_puts(b, " of ");
		ex_print(b, t->rows);
	}
	if (t->mask.trim)
		strbuf_printf(b, ", from the first to the last k with %s != 0 if %s == 0",
			      t->a->name, t->mask.trim->name);
	if (t->mask.when) {
		strbuf_printf(b, ", where for some %s, %s < ", t->row->name, t->col->name);
		ex_print(b, t->n_valid);
		strbuf_puts(b, ": ");
		ex_print(b, t->mask.when);
	}
	if (t->mask.squares)
		strbuf_printf(b, ", or if %s + the squares of %s is not below %a",
			      t->mask.squares->name, t->a->name, TILE_BOUND);
	strbuf_puts(b, "\n");
}

/* The order of TILE: along k or not, with ROWS or COLS as the other side. */
static const char *tile_lies(const Buf *tile, bool along, const char *rows, const char *cols)
{
	return tile->swizzle == SWIZZLE_FRAGMENTS ? "fragments" : along ? rows : cols;
}

static void put_mma(StrBuf *b, const Mma *m)
{
	strbuf_printf(b, "%s[%dx%d] += %s[%s] * %s[%s] for k < %d by %s, warps %dx%d", m->acc->name,
		      m->bm, m->bn, m->a->name, tile_lies(m->a, m->a_along, "i,k", "k,i"),
		      m->b->name, tile_lies(m->b, m->b_along, "j,k", "k,j"), m->bk,
		      mma_info[m->kind].name, m->wm, m->wn);
	if (m->kind == MMA_FMA)
		strbuf_printf(b, " of %dx%d a lane", m->tm, m->tn);
	strbuf_puts(b, "\n");
}

static void put_range(StrBuf *b, const LNode *n)
{
	strbuf_printf(b, "%s in [", n->var->name);
	ex_print(b, n->lo);
	strbuf_puts(b, ", ");
	ex_print(b, n->hi);
	strbuf_puts(b, ")");
}

/* Prints how the threads of a group share the points of a loop. */
static void put_shares(StrBuf *b, const LNode *n)
{
	if (n->vector)
		strbuf_printf(b, " vector %d", n->vector);
	if (n->keep)
		strbuf_printf(b, " keep %d", n->keep);
	if (n->scratch)
		strbuf_printf(b, " scratch %d", n->scratch);
	if (n->peel) {
		strbuf_puts(b, " peel ");
		ex_print(b, n->peel);
	}
}

static void put_nodes(StrBuf *b, const LNode *n, int depth);

static void put_when(StrBuf *b, const Dim *when)
{
	if (!when)
		return;
	strbuf_puts(b, " if ");
	dim_print(b, when);
}

static void put_loop(StrBuf *b, const LNode *n, int depth)
{
	static const char *const kinds[] = {[LOOP_SERIAL] = "for",
					    [LOOP_VECTOR] = "vector for",
					    [LOOP_SHORT] = "short vector for",
					    [LOOP_UNROLL] = "unroll for",
					    [LOOP_GROUP] = "group for"};

	strbuf_printf(b, "%s ", kinds[n->loop]);
	put_range(b, n);
	if (n->step != 1)
		strbuf_printf(b, " by %lld", (long long)n->step);
	put_shares(b, n);
	put_when(b, n->when);
	strbuf_puts(b, "\n");
	put_nodes(b, n->body, depth + 1);
}

static void put_let(StrBuf *b, const LNode *n)
{
	strbuf_printf(b, "let %s = ", n->var->name);
	ex_print(b, n->lo);
	strbuf_puts(b, "\n");
}

/* Prints BUFS = VALS, or the combination by a monoid. */
static void put_store(StrBuf *b, const LNode *n)
{
	strbuf_puts(b, n->kind == LN_ATOMIC ? "atomic " : "");
	put_bufs(b, n);
	strbuf_printf(b, " %s= ", n->kind == LN_STORE ? "" : monoid_info[n->red].name);
	put_vals(b, n);
}

static void put_reduce(StrBuf *b, const LNode *n)
{
	put_bufs(b, n);
	strbuf_printf(b, " %s= over ", monoid_info[n->red].name);
	put_range(b, n);
	put_shares(b, n);
	strbuf_puts(b, " ");
	put_vals(b, n);
}

static void put_columns(StrBuf *b, const LNode *n)
{
	const ColumnReduction *f = n->columns;

	put_bufs(b, n);
	strbuf_printf(b, " %s= over ", monoid_info[n->red].name);
	put_range(b, n);
	strbuf_printf(b, " for %s < %d", f->row->name, f->rows);
	if (f->valid) {
		strbuf_puts(b, " valid ");
		ex_print(b, f->valid);
	}
	strbuf_printf(b, ", %s < %d ", f->col->name, f->cols);
	if (f->lanes)
		strbuf_printf(b, "by lanes of %s ", f->lanes->name);
	else
		strbuf_printf(b, "vector %d ", n->vector);
	if (n->peel) {
		strbuf_puts(b, "peel ");
		ex_print(b, n->peel);
		strbuf_puts(b, " ");
	}
	put_vals(b, n);
}

/* Prints how many elements of a local a thread keeps in registers, and their value. */
static void put_kept(StrBuf *b, const LNode *n)
{
	strbuf_printf(b, " keep %d", n->keep);
	if (n->scratch) {
		strbuf_printf(b, " scratch %d at ", n->scratch);
		ex_print(b, n->idx);
	}
	strbuf_printf(b, " of %s: ", n->var->name);
	ex_print(b, n->val[0]);
}

static void put_local(StrBuf *b, const LNode *n)
{
	static const char *const swizzles[] = {"", " swizzled by rows", " swizzled by words",
					       " in fragments", " in registers"};
	const Buf *buf = n->buf[0];

	strbuf_printf(b, "local %s: %s", buf->name, dtype_info[buf->dtype].name);
	for (int i = 0; i < buf->rank; i++) {
		strbuf_puts(b, i ? ", " : "[");
		dim_print(b, buf->dims[i]);
	}
	strbuf_puts(b, buf->rank ? "]" : "");
	strbuf_puts(b, swizzles[buf->swizzle]);
	if (n->keep)
		put_kept(b, n);
	if (buf->tile) {
		strbuf_puts(b, " in ");
		layout_print_axes(b, buf->tile);
	}
	strbuf_puts(b, n->idx ? " in scratch" : "");
	if (n->idx && buf->tile)
		strbuf_printf(b, " at %lld", (long long)n->idx->i);
	strbuf_puts(b, "\n");
}

static void put_fill(StrBuf *b, const LNode *n, int depth)
{
	const Fill *f = n->fill;

	strbuf_printf(b, "fill %s < %d, %s < %d, %s < %d%s\n", f->row->name, f->rows,
		      f->chunk->name, f->chunks, f->elem->name, f->vector,
		      f->async ? " async" : "");
	put_nodes(b, n->body, depth + 1);
}

static void put_pipeline(StrBuf *b, const LNode *n, int depth)
{
	strbuf_puts(b, "pipeline ");
	put_range(b, n);
	strbuf_printf(b, " stage %s < %d\n", n->stage->name, n->stages);
	put_nodes(b, n->body, depth + 1);
}

static void put_copy_sums(StrBuf *b, const LNode *n)
{
	strbuf_printf(b, "copy %s = part ", n->buf[0]->name);
	ex_print(b, n->idx);
	strbuf_printf(b, " of %s, %s of %lld\n", n->mma->acc->name,
		      n->mma->by_columns ? "columns" : "rows", (long long)n->step);
}

static void put_nodes(StrBuf *b, const LNode *n, int depth)
{
	for (; n; n = n->next) {
		indent(b, depth);
		switch (n->kind) {
		case LN_LOOP: put_loop(b, n, depth); break;
		case LN_LET: put_let(b, n); break;
		case LN_STORE:
		case LN_UPDATE:
		case LN_ATOMIC: put_store(b, n); break;
		case LN_REDUCE: put_reduce(b, n); break;
		case LN_LOCAL: put_local(b, n); break;
		case LN_TILE: put_tile(b, n->tile); break;
		case LN_FILL: put_fill(b, n, depth); break;
		case LN_PIPELINE: put_pipeline(b, n, depth); break;
		case LN_MMA: put_mma(b, n->mma); break;
		case LN_COLUMNS: put_columns(b, n); break;
		case LN_COPY_SUMS: put_copy_sums(b, n); break;
		case LN_OP:
			tile_print(b, n->op);
			strbuf_puts(b, "\n");
			break;
		}
	}
}

Buf *schedule_temp(const Schedule *s, int i)
{
	for (; s; i -= s->temps.n, s = s->next)
		if (i < s->temps.n)
			return s->temps.at[i];
	return NULL;
}

bool schedule_guarded(const Schedule *s)
{
	return s->where.size || s->where.shared || s->where.nof;
}

static void put_most(StrBuf *b, const char *before, Dim *size, int64_t most)
{
	strbuf_puts(b, before);
	dim_print(b, size);
	strbuf_printf(b, " <= %lld", (long long)most);
}

void schedule_print_guard(StrBuf *b, const Schedule *s)
{
	const SizeStep *x = &s->where;

	if (x->size)
		put_most(b, "where ", x->size, x->most);
	if (x->also)
		put_most(b, ", ", x->also, x->also_most);
	if (x->shared)
		strbuf_printf(b, "%s%d KiB of shared memory", x->size ? ", " : "where ",
			      x->shared >> 10);
	for (int i = 0; i < x->nof; i++) {
		strbuf_puts(b, i || x->size || x->shared ? ", " : "where ");
		dim_print(b, x->of[i]);
		strbuf_printf(b, " %% %lld == 0", (long long)x->each);
	}
}

static void put_stage(StrBuf *b, const Stage *st, const char *name)
{
	strbuf_printf(b, "  stage %s: %s, parallel %s < ", name, st->strategy, st->var->name);
	dim_print(b, st->extent);
	put_when(b, st->when);
	if (st->threads) {
		strbuf_printf(b, " group %d of %d", st->group, st->threads);
		if (lnode_has_tiles(st->body)) {
			strbuf_puts(b, " scratch ");
			dim_print(b, st->scratch);
		}
	} else {
		strbuf_puts(b, " grain ");
		dim_print(b, st->grain);
		strbuf_puts(b, ", scratch ");
		dim_print(b, st->scratch);
	}
	strbuf_puts(b, "\n");
	for (int i = 0; i < st->bulk.n; i++) {
		const BulkCopy *s = &st->bulk.at[i];

		strbuf_printf(b, "    bulk %s: ", s->buf->name);
		dim_print(b, s->each);
		strbuf_printf(b, " of each %s", st->var->name);
		if (!dim_is_const(s->each, NULL))
			strbuf_printf(b, ", %lld at most", (long long)s->most);
		strbuf_puts(b, s->written ? ", written\n" : "\n");
	}
	if (st->head) {
		strbuf_puts(b, "    block\n");
		put_nodes(b, st->head, 3);
	}
	put_nodes(b, st->body, 2);
}

void schedule_print_bare(StrBuf *b, const Schedule *s)
{
	for (int i = 0; i < s->stages.n; i++)
		put_stage(b, s->stages.at[i], "k");
}

static void put_loc(StrBuf *b, Loc l)
{
	strbuf_puts(b, "  ; ");
	strbuf_escape(b, l.node ? l.node : "?", escape_plain);
	strbuf_puts(b, " (");
	strbuf_escape(b, l.op ? l.op : "?", escape_plain);
	strbuf_puts(b, ")\n");
}

static void put_locs(StrBuf *b, const Kernel *k)
{
	Arena *tmp = arena_new();
	const LocList all = locs_all(tmp, k->locs);

	for (int i = 0; i < all.n; i++)
		put_loc(b, all.at[i]);
	arena_free(tmp);
}

void schedule_print(StrBuf *b, const Schedule *s)
{
	for (; s; s = s->next) {
		const Kernel *k = s->kernel;

		strbuf_printf(b, "schedule @%s%s", k->name, schedule_guarded(s) ? " " : "");
		schedule_print_guard(b, s);
		strbuf_puts(b, "\n");
		put_locs(b, k);
		for (int i = 0; i < s->stages.n; i++)
			put_stage(b, s->stages.at[i], s->stages.at[i]->name);
	}
}
