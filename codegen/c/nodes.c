/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the nodes of a loop tree as C statements. */
#include "codegen/c/gen_c_impl.h"

#include "codegen/c/tile.h"
#include "passes/forms/kernels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void fn_tabs(Fn *f)
{
	for (int i = 0; i < f->indent; i++)
		strbuf_puts(&f->body, "\t");
}

void fn_texts(Fn *f, Expr *const *e, int n, StrBuf *out)
{
	enum { MOST_TEXTS = 13 };
	Expr *nonnull[MOST_TEXTS] = {NULL};
	StrBuf text[MOST_TEXTS] = {{0}};
	int m = 0;

	assert(n <= (int)(sizeof text / sizeof *text));
	for (int i = 0; i < n; i++)
		if (e[i]) {
			EX_EACH (x, e[i])
				if (ex_is_op(x, IN_index))
					f->faults = true;
			nonnull[m++] = e[i];
		}
	c_exprs(&f->body, text, nonnull, m, &f->cb, f->indent, &f->ntemp);
	m = 0;
	for (int i = 0; i < n; i++)
		if (e[i])
			out[i] = text[m++];
}

bool fn_guard(Fn *f, Expr *guard)
{
	STRBUF_LOCAL(t);

	if (!guard)
		return false;
	fn_texts(f, &guard, 1, &t);
	fn_tabs(f);
	strbuf_printf(&f->body, "if (%s) {\n", strbuf_str(&t));
	f->indent++;
	return true;
}

void fn_close(Fn *f)
{
	f->indent--;
	fn_tabs(f);
	strbuf_puts(&f->body, "}\n");
}

static void print_one_store(Fn *f, const LNode *n)
{
	Expr *e[] = {n->store.idx, n->store.val[0]};
	StrBuf t[2] = {{0}};
	bool guarded = fn_guard(f, n->store.guard);
	const Tile *tl = f->runs && f->runs->by_runs.starts == n->store.buf[0] ? f->runs : NULL;
	const char *val;

	fn_texts(f, e, 2, t);
	fn_tabs(f);
	val = strbuf_str(&t[1]);
	/* In C, the table of runs has addresses, so that a micro-kernel need not choose. A value
	 * that is a name is an element of A: names are never negative. */
	if (tl && n->store.val[0]->kind == EX_ITER)
		val = arena_printf(f->g->arena, "%s + %s", fn_buf(f, tl->a), val);
	else if (tl && !(n->store.val[0]->kind == EX_LOAD &&
			 n->store.val[0]->load.buf == tl->by_runs.starts))
		val = arena_printf(f->g->arena, "DL_RUN(%s, %s, %s)", val, fn_buf(f, tl->a),
				   fn_buf(f, tl->by_runs.edge ? tl->by_runs.edge : tl->a));
	fn_store(f, &f->body, n->store.buf[0], strbuf_str(&t[0]), val);
	strbuf_free(&t[0]);
	strbuf_free(&t[1]);
	if (guarded)
		fn_close(f);
}

/* Prints state[at] = combine(state[at], val), for all components together. */
void fn_update(Fn *f, const LNode *n, Buf *const *state, Expr *at)
{
	ExprPool *p = f->sched->kernel->pool;
	Expr *a[2], *b[2], *e[3] = {at};
	StrBuf t[3] = {{0}};
	bool guarded = fn_guard(f, n->store.guard);

	for (int i = 0; i < n->store.nout; i++) {
		a[i] = ex_load(p, state[i], &at, 1);
		b[i] = n->store.val[i];
	}
	for (int i = 0; i < n->store.nout; i++)
		e[i + 1] = monoid_step(p, n->store.red, i, a, b);
	fn_texts(f, e, n->store.nout + 1, t);
	if (n->store.nout == 2) {
		fn_tabs(f);
		strbuf_printf(&f->body, "const %s u%d = %s;\n", c_type(e[2]->ct), f->ntemp,
			      strbuf_str(&t[2]));
		strbuf_free(&t[2]);
		strbuf_printf(&t[2], "u%d", f->ntemp++);
	}
	for (int i = 0; i < n->store.nout; i++) {
		fn_tabs(f);
		fn_store(f, &f->body, state[i], strbuf_str(&t[0]), strbuf_str(&t[i + 1]));
	}
	for (int i = 0; i < 3; i++)
		strbuf_free(&t[i]);
	if (guarded)
		fn_close(f);
}

/* A tile node in N accesses B, by its address. */
static bool in_tile(const LNode *n, const Buf *b)
{
	for (; n; n = n->next) {
		const LBufs bufs = lnode_bufs(n);

		VEC_EACH_AT (u, &bufs)
			if (n->kind == LN_TILE && u->b == b && u->use != LUSE_VALUE)
				return true;
		if (in_tile(n->body, b))
			return true;
	}
	return false;
}

void fn_declare(Fn *f, Buf *b, Expr *offset)
{
	Dim *n = buf_numel(f->sched->kernel->ctx, b);
	const char *type = f->runs && f->runs->by_runs.starts == b ? c_tile_run(f->g, f->runs)
								   : c_memory_type(b->dtype),
		   *name;
	int64_t count = 0;

	vec_push(f->g->arena, &f->locals, b);
	vec_push(f->g->arena, &f->scalar,
		 dim_equals(n, 1) && !offset && !c_converts(b->dtype) &&
			 !in_tile(f->stage->body, b));
	name = fn_name(f, b, b->name);
	fn_tabs(f);
	if (vec_last(&f->scalar)) {
		/* a variable has the scalar type; a bool or small integer keeps its type, which
		 * bounds its range */
		strbuf_printf(&f->body, "%s %s;\n",
			      dtype_info[b->dtype].bits < 32 ? c_memory_type(b->dtype)
							     : c_type(dtype_ctype(b->dtype)),
			      name);
	} else if (offset) {
		STRBUF_LOCAL(at);

		fn_texts(f, &offset, 1, &at);
		strbuf_printf(&f->body, "%s *const %s = ", type ? type : "uint8_t", name);
		strbuf_printf(&f->body,
			      strcmp(strbuf_str(&at), "0") ? "(void *)((char *)scratch + (%s));\n"
							   : "scratch;\n",
			      strbuf_str(&at));
		f->scratch = true;
	} else {
		if (!dim_is_const(n, &count))
			abort(); /* l_local puts buffers of unknown size into scratch */
		if (!type)
			count = dtype_size(b->dtype, count);
		strbuf_printf(&f->body, "%s %s[%lld] __attribute__((aligned(64)));\n",
			      type ? type : "uint8_t", name, (long long)(count ? count : 1));
	}
}

static void print_let(Fn *f, const LNode *n)
{
	STRBUF_LOCAL(t);

	fn_texts(f, &n->range.lo, 1, &t);
	fn_note_natural(f, n);
	fn_tabs(f);
	strbuf_printf(&f->body, "const int64_t %s = %s;\n",
		      fn_name(f, n->range.var, n->range.var->name), strbuf_str(&t));
}

static void print_address(Fn *f, Buf *b, const char *at)
{
	if (strcmp(at, "0") == 0)
		strbuf_puts(&f->body, fn_buf(f, b));
	else
		strbuf_printf(&f->body, c_is_operation(at) ? "%s + (%s)" : "%s + %s", fn_buf(f, b),
			      at);
}

/* The array "row" of a tile: where each of its rows of A starts. */
static void print_rows(Fn *f, const Tile *tl)
{
	const char *row = fn_name(f, tl->row, tl->row->name);
	STRBUF_LOCAL(at);

	fn_tabs(f);
	strbuf_printf(&f->body, "int64_t row[%d];\n\n", tl->mr);
	fn_tabs(f);
	strbuf_printf(&f->body, "for (int64_t i = 0; i < %d; i++) {\n", tl->mr);
	f->indent++;
	fn_tabs(f);
	strbuf_printf(&f->body, "const int64_t %s = %s;\n", row,
		      tl->whole ? "i" : "i < valid ? i : valid - 1");
	fn_texts(f, (Expr *const *)&tl->a_at, 1, &at);
	fn_tabs(f);
	strbuf_printf(&f->body, "row[i] = %s;\n", strbuf_str(&at));
	fn_close(f);
}

/* The addresses of the segments of a tile's rows: row 0 is at ROW = 0. */
static void print_runs(Fn *f, const Tile *tl)
{
	Iter *const row[] = {tl->row};
	Expr *zero = ex_int(f->sched->kernel->pool, CT_I64, 0),
	     *e[] = {ex_subst_iters(f->sched->kernel->pool, tl->a_at, row, &zero, 1),
		     tl->by_runs.step, tl->by_runs.terms, tl->by_runs.first};
	StrBuf t[4] = {{0}};

	fn_texts(f, e, 4, t);
	print_address(f, tl->by_runs.starts, strbuf_str(&t[0]));
	strbuf_printf(&f->body, ", %s", strbuf_str(&t[1]));
	if (!c_tile_whole_runs(tl))
		strbuf_printf(&f->body, ", %s, %s", strbuf_str(&t[2]), strbuf_str(&t[3]));
	if (c_tile_skips(f->g, tl))
		strbuf_printf(&f->body, ", %s", fn_buf(f, tl->by_runs.edge));
	for (int i = 0; i < 4; i++)
		strbuf_free(&t[i]);
}

/* The first of a tile's rows, which are at one stride, and the stride. */
static void print_strided(Fn *f, const Tile *tl)
{
	ExprPool *p = f->sched->kernel->pool;
	Iter *const row[] = {tl->row};
	Expr *zero = ex_int(p, CT_I64, 0),
	     *e[] = {ex_subst_iters(p, tl->a_at, row, &zero, 1), c_tile_row_step(f->g, tl)};
	StrBuf t[2] = {{0}};

	fn_texts(f, e, 2, t);
	print_address(f, tl->a, strbuf_str(&t[0]));
	strbuf_printf(&f->body, ", %s", strbuf_str(&t[1]));
	strbuf_free(&t[0]);
	strbuf_free(&t[1]);
}

/* Sets AHEAD to the address that A describes, and AHEAD_STEP to the bytes of its step. TYPE and
 * INT_TYPE are the types in a declaration of both, or empty for an assignment. */
static void set_ahead(Fn *f, const char *type, const char *int_type, const Prefetch *a)
{
	ExprPool *p = f->sched->kernel->pool;
	Expr *size = ex_int(p, CT_I64, dtype_bytes(a->buf->dtype)),
	     *e[] = {a->at, ex_mul(p, a->step, size)};
	StrBuf t[2] = {{0}};

	fn_texts(f, e, 2, t);
	fn_tabs(f);
	strbuf_printf(&f->body, "%sahead = (const char *)(", type);
	print_address(f, a->buf, strbuf_str(&t[0]));
	strbuf_puts(&f->body, ");\n");
	fn_tabs(f);
	strbuf_printf(&f->body, "%sahead_step = %s;\n", int_type, strbuf_str(&t[1]));
	strbuf_free(&t[0]);
	strbuf_free(&t[1]);
}

/* Declares the address that a tile prefetches, and its step. Without data to prefetch, it is the
 * address of B each time. With the address of the sums, compilers would keep these in memory. */
static void print_ahead(Fn *f, const Tile *tl)
{
	Expr *zero = ex_int(f->sched->kernel->pool, CT_I64, 0);
	const Prefetch none = {tl->b, zero, zero, NULL};
	const int last = tl->nahead - 1;

	if (tl->nahead < 2) {
		set_ahead(f, "const char *", "int64_t ", tl->nahead ? tl->ahead : &none);
		return;
	}
	fn_tabs(f);
	strbuf_puts(&f->body, "const char *ahead;\n");
	fn_tabs(f);
	strbuf_puts(&f->body, "int64_t ahead_step;\n");
	for (int i = 0; i < last; i++) {
		fn_guard(f, tl->ahead[i].when);
		set_ahead(f, "", "", &tl->ahead[i]);
		f->indent--;
		fn_tabs(f);
		strbuf_puts(&f->body, "} else {\n");
		f->indent++;
	}
	set_ahead(f, "", "", &tl->ahead[last]);
	for (int i = 0; i < last; i++)
		fn_close(f);
}

/* The byte at which the numbers of a tile start. */
static Expr *first_byte(Fn *f, const Tile *tl)
{
	ExprPool *p = f->sched->kernel->pool;
	Expr *bits = ex_int(p, CT_I64, dtype_info[tl->b->dtype].bits);

	return ex_op2(p, IN_floordiv, ex_mul(p, tl->b_at, bits), ex_int(p, CT_I64, 8));
}

/* The last arguments of the micro-kernel's call, where T has the texts of print_tile. */
static void print_panel(Fn *f, const Tile *tl, const StrBuf *t)
{
	if (!tl->scaled.scale) {
		print_address(f, tl->b, strbuf_str(&t[3]));
		strbuf_printf(&f->body, ", %s, ahead, ahead_step, ", strbuf_str(&t[4]));
		if (!c_tile_pairs(f->g, tl))
			return;
		for (int i = 0; i < 3; i++) {
			print_address(f, tl->b, strbuf_str(&t[8 + i]));
			strbuf_puts(&f->body, ", ");
		}
		if (!tl->by_runs.starts)
			strbuf_printf(&f->body, "%s, ", strbuf_str(&t[11]));
		return;
	}
	strbuf_printf(&f->body, "(const uint8_t *)%s + (%s), %s, ", fn_buf(f, tl->b),
		      strbuf_str(&t[3]), strbuf_str(&t[4]));
	if (tl->scaled.row_scale)
		strbuf_printf(&f->body, "%s, ", fn_buf(f, tl->scaled.row_scale));
	print_address(f, tl->scaled.scale, strbuf_str(&t[6]));
	strbuf_puts(&f->body, ", ");
	if (tl->scaled.zero) {
		print_address(f, tl->scaled.zero, strbuf_str(&t[7]));
		strbuf_puts(&f->body, ", ");
	}
	if (tl->scaled.group)
		strbuf_printf(&f->body, "%lld, ", (long long)tl->scaled.group);
	else
		strbuf_puts(&f->body, "INT64_MAX, ");
}

/* Opens the block of a tile some of whose sums are used; its rows that exist are below "valid",
 * and K is the text of their length. */
static void open_used(Fn *f, const Tile *tl, const char *k)
{
	const char *row = fn_name(f, tl->row, tl->row->name),
		   *col = fn_name(f, tl->col, tl->col->name);
	STRBUF_LOCAL(columns);
	STRBUF_LOCAL(when);

	vec_push(f->g->arena, &f->naturals, tl->row);
	vec_push(f->g->arena, &f->naturals, tl->col);
	fn_texts(f, (Expr *const *)&tl->n_valid, 1, &columns);
	fn_tabs(f);
	strbuf_printf(&f->body, "const int64_t columns = %s;\n", strbuf_str(&columns));
	fn_tabs(f);
	if (tl->mask.squares)
		strbuf_printf(&f->body, "int used = !(%s < %a);\n\n", fn_buf(f, tl->mask.squares),
			      TILE_BOUND);
	else
		strbuf_puts(&f->body, "int used = 0;\n\n");
	fn_tabs(f);
	strbuf_printf(&f->body, "for (int64_t %s = 0; %s < valid && !used; %s++) {\n", row, row,
		      row);
	f->indent++;
	fn_tabs(f);
	strbuf_puts(&f->body, "DL_ROLLED\n");
	fn_tabs(f);
	strbuf_printf(&f->body, "for (int64_t %s = 0; %s < columns; %s++) {\n", col, col, col);
	f->indent++;
	fn_texts(f, (Expr *const *)&tl->mask.when, 1, &when);
	fn_tabs(f);
	strbuf_printf(&f->body, "used |= %s;\n", strbuf_str(&when));
	fn_close(f);
	fn_close(f);
	if (tl->mask.squares) {
		fn_tabs(f);
		strbuf_printf(&f->body, "used = used || !(%s + %s(%s, row, valid, %s) < %a);\n",
			      fn_buf(f, tl->mask.squares), c_tile_squares(f->g), fn_buf(f, tl->a),
			      k, TILE_BOUND);
	}
	fn_tabs(f);
	strbuf_puts(&f->body, "if (used) {\n");
	f->indent++;
}

/* Closes that block. In the other case, the sums at TO are 0. */
static void close_used(Fn *f, const Tile *tl, const char *to)
{
	f->indent--;
	fn_tabs(f);
	strbuf_puts(&f->body, "} else {\n");
	f->indent++;
	fn_tabs(f);
	strbuf_puts(&f->body, "__builtin_memset(");
	print_address(f, tl->acc, to);
	strbuf_printf(&f->body, ", 0, %d * sizeof *%s);\n", tl->mr * tl->nr, fn_buf(f, tl->acc));
	fn_close(f);
}

/* Prints the call of micro-kernel FN for a tile whose terms are limited to those with nonzero
 * weights; T has the texts of print_tile. The sum is split at the same terms as in FN itself. */
static void print_trimmed(Fn *f, const Tile *tl, const char *fn, const StrBuf *t)
{
	const char *a = fn_buf(f, tl->a);

	assert(!tl->by_runs.starts && !tl->scaled.scale && !tl->accumulate && !tl->partial);
	fn_tabs(f);
	strbuf_printf(&f->body, "int64_t from = 0, to = %s;\n\n", strbuf_str(&t[1]));
	fn_tabs(f);
	strbuf_printf(&f->body, "if (%s == 0)\n", fn_buf(f, tl->mask.trim));
	fn_tabs(f);
	strbuf_printf(&f->body, "\t%s(%s, row, valid, &from, &to);\n", c_tile_trim(f->g, tl), a);
	fn_tabs(f);
	strbuf_puts(
		&f->body,
		"for (int64_t at = from, part, first = 1; first || at < to; at += part, first = 0) {\n");
	f->indent++;
	fn_tabs(f);
	strbuf_printf(&f->body, "part = dl_min_i64(to - at, %d - at %% %d);\n", TILE_DEPTH,
		      TILE_DEPTH);
	fn_tabs(f);
	strbuf_printf(&f->body, "%s(valid, %spart, (int)first, %s + at, row, 1, ", fn,
		      c_tile_counts_rows(f->g, tl) ? "rows, " : "", a);
	print_address(f, tl->b, strbuf_str(&t[3]));
	strbuf_printf(&f->body, " + at * %s, %s, ahead, ahead_step, ", strbuf_str(&t[4]),
		      strbuf_str(&t[4]));
	print_address(f, tl->acc, strbuf_str(&t[5]));
	strbuf_puts(&f->body, ");\n");
	fn_close(f);
}

/* Prints the call of micro-kernel FN, where T has the texts of print_tile. */
static void print_call(Fn *f, const Tile *tl, const char *fn, const StrBuf *t)
{
	fn_tabs(f);
	strbuf_printf(&f->body, "%s(%s%s%s, %d, ", fn, tl->whole ? "" : "valid, ",
		      c_tile_counts_rows(f->g, tl) ? "rows, " : "", strbuf_str(&t[1]),
		      !tl->accumulate);
	if (tl->by_runs.starts)
		print_runs(f, tl);
	else if (tl->matrix && c_tile_row_step(f->g, tl))
		print_strided(f, tl);
	else
		strbuf_printf(&f->body, "%s, row", fn_buf(f, tl->a));
	strbuf_printf(&f->body, ", %s, ", strbuf_str(&t[2]));
	print_panel(f, tl, t);
	print_address(f, tl->acc, strbuf_str(&t[5]));
	strbuf_puts(&f->body, ");\n");
}

/* Prints the call of micro-kernel FN for T, whose columns are in groups. */
static void print_group_call(Fn *f, const Tile *tl, const char *fn)
{
	ExprPool *p = f->sched->kernel->pool;
	Expr *zero = ex_int(p, CT_I64, 0),
	     *e[] = {tl->k,
		     ex_subst_iters(p, tl->a_at, &(Iter *){tl->row}, &zero, 1),
		     tl->by_runs.step,
		     tl->by_runs.shift,
		     tl->b_at,
		     tl->b_step,
		     tl->acc_at};
	StrBuf t[7] = {{0}};

	fn_texts(f, e, 7, t);
	fn_tabs(f);
	strbuf_printf(&f->body, "%s(%s, ", fn, strbuf_str(&t[0]));
	print_address(f, tl->by_runs.starts, strbuf_str(&t[1]));
	strbuf_printf(&f->body, ", %s, %s, ", strbuf_str(&t[2]), strbuf_str(&t[3]));
	print_address(f, tl->b, strbuf_str(&t[4]));
	strbuf_printf(&f->body, ", %s, ", strbuf_str(&t[5]));
	print_address(f, tl->acc, strbuf_str(&t[6]));
	strbuf_puts(&f->body, ");\n");
	for (int i = 0; i < 7; i++)
		strbuf_free(&t[i]);
}

/* Declares the number of rows of the tile's product. */
static void print_count(Fn *f, const Tile *tl)
{
	STRBUF_LOCAL(rows);

	fn_texts(f, (Expr *const *)&tl->rows, 1, &rows);
	fn_tabs(f);
	strbuf_printf(&f->body, "const int64_t rows = k->part ? INT64_MAX : %s;\n",
		      strbuf_str(&rows));
}

/* Prints the tile in matrix registers FN where both operands fit, else rows of tiles in vectors; T
 * has the texts of print_tile. */
static void print_by_parts(Fn *f, const Tile *tl, const char *fn, const StrBuf *t)
{
	const Tile v = c_tile_in_vectors(tl);
	const char *vectors = c_tile_use(f->g, &v);
	const bool counts = c_tile_counts_rows(f->g, &v);
	STRBUF_LOCAL(row);

	fn_texts(f, (Expr *const *)&tl->parts.row, 1, &row);
	print_ahead(f, tl);
	fn_tabs(f);
	strbuf_printf(&f->body, "if (%s && %s) {\n", fn_buf(f, tl->parts.a_fits),
		      fn_buf(f, tl->parts.b_fits));
	f->indent++;
	fn_tabs(f);
	strbuf_printf(&f->body, "%s(valid, %s, %d, %s, %s, %s, ahead, ahead_step, ", fn,
		      strbuf_str(&t[1]), !tl->accumulate, fn_buf(f, tl->parts.a), strbuf_str(&row),
		      fn_buf(f, tl->parts.b));
	print_address(f, tl->acc, strbuf_str(&t[5]));
	strbuf_puts(&f->body, ");\n");
	f->indent--;
	fn_tabs(f);
	strbuf_puts(&f->body, "} else {\n");
	f->indent++;
	print_rows(f, tl);
	if (counts)
		print_count(f, tl);
	fn_tabs(f);
	strbuf_printf(&f->body, "for (int64_t i = 0; i < valid; i += %d)\n", v.mr);
	f->indent++;
	fn_tabs(f);
	strbuf_printf(&f->body, "%s(dl_min_i64(valid - i, %d), %s%s, %d, %s, row + i, %s, ",
		      vectors, v.mr, counts ? "rows, " : "", strbuf_str(&t[1]), !tl->accumulate,
		      fn_buf(f, tl->a), strbuf_str(&t[2]));
	print_panel(f, tl, t);
	print_address(f, tl->acc, strbuf_str(&t[5]));
	strbuf_printf(&f->body, " + i * %d);\n", tl->nr);
	f->indent--;
	fn_close(f);
}

/* Prints how rows of A, or columns of a panel of B, are split into parts. */
static void print_split(Fn *f, const LNode *n)
{
	const SplitOperand *s = n->split;
	Expr *e[] = {s->k, s->row ? s->valid : s->at, s->step};
	StrBuf t[3] = {{0}};
	STRBUF_LOCAL(at);

	if (s->row) {
		const char *row = fn_name(f, s->row, s->row->name);

		fn_tabs(f);
		strbuf_puts(&f->body, "{\n");
		f->indent++;
		fn_texts(f, e, 2, t);
		fn_tabs(f);
		strbuf_printf(&f->body, "const int64_t valid = %s;\n", strbuf_str(&t[1]));
		fn_tabs(f);
		strbuf_printf(&f->body, "int64_t row[%d];\n\n", s->rows);
		fn_tabs(f);
		strbuf_printf(&f->body, "for (int64_t %s = 0; %s < valid; %s++) {\n", row, row,
			      row);
		f->indent++;
		vec_push(f->g->arena, &f->naturals, s->row);
		fn_texts(f, &s->at, 1, &at);
		fn_tabs(f);
		strbuf_printf(&f->body, "row[%s] = %s;\n", row, strbuf_str(&at));
		fn_close(f);
		fn_tabs(f);
		strbuf_printf(&f->body, "%s = matrix_split_rows(%s, %s, row, valid, %s);\n",
			      fn_buf(f, s->fits), fn_buf(f, s->to), fn_buf(f, s->from),
			      strbuf_str(&t[0]));
		fn_close(f);
	} else {
		fn_texts(f, e, 3, t);
		fn_tabs(f);
		strbuf_printf(&f->body, "%s = matrix_split_columns(%s, ", fn_buf(f, s->fits),
			      fn_buf(f, s->to));
		print_address(f, s->from, strbuf_str(&t[1]));
		strbuf_printf(&f->body, ", %s, %d, %s);\n", strbuf_str(&t[2]), s->columns,
			      strbuf_str(&t[0]));
	}
	for (int i = 0; i < 3; i++)
		strbuf_free(&t[i]);
}

static void print_tile(Fn *f, const LNode *n)
{
	enum { MOST = 12 };
	const Tile *tl = n->tile;
	const char *fn = c_tile_use(f->g, tl);
	Expr *e[MOST] = {tl->m_valid,
			 tl->k,
			 tl->a_step,
			 tl->scaled.scale ? first_byte(f, tl) : tl->b_at,
			 tl->b_step,
			 tl->acc_at,
			 tl->scaled.scale_at,
			 tl->scaled.zero_at,
			 tl->order.sums_at,
			 tl->order.wide_at,
			 tl->order.next_at ? tl->order.next_at : tl->order.flips_at,
			 tl->order.first};
	StrBuf t[MOST] = {{0}};

	if (tl->by_runs.shift) {
		print_group_call(f, tl, fn);
		return;
	}
	fn_tabs(f);
	strbuf_puts(&f->body, "{\n");
	f->indent++;
	fn_texts(f, e, MOST, t);
	if (!tl->whole) {
		fn_tabs(f);
		strbuf_printf(&f->body, "const int64_t valid = %s;\n", strbuf_str(&t[0]));
	}
	if (c_tile_counts_rows(f->g, tl))
		print_count(f, tl);
	f->matrix |= tl->matrix;
	if (tl->parts.a) {
		print_by_parts(f, tl, fn, t);
		fn_close(f);
		for (int i = 0; i < MOST; i++)
			strbuf_free(&t[i]);
		return;
	}
	if (!tl->by_runs.starts && !(tl->matrix && c_tile_row_step(f->g, tl)))
		print_rows(f, tl);
	if (tl->mask.when)
		open_used(f, tl, strbuf_str(&t[1]));
	if (!tl->scaled.scale)
		print_ahead(f, tl);
	if (tl->mask.trim)
		print_trimmed(f, tl, fn, t);
	else
		print_call(f, tl, fn, t);
	if (tl->mask.when)
		close_used(f, tl, strbuf_str(&t[5]));
	fn_close(f);
	for (int i = 0; i < MOST; i++)
		strbuf_free(&t[i]);
}

void fn_nodes(Fn *f, const LNode *n)
{
	for (; n; n = n->next) {
		switch (n->kind) {
		case LN_LOOP: fn_loop(f, n); break;
		case LN_LET: print_let(f, n); break;
		case LN_STORE: print_one_store(f, n); break;
		case LN_UPDATE: fn_update(f, n, n->store.buf, n->store.idx); break;
		case LN_REDUCE: fn_reduce(f, n); break;
		case LN_LOCAL: fn_declare(f, n->local.buf, n->local.at); break;
		case LN_TILE: print_tile(f, n); break;
		case LN_SPLIT: print_split(f, n); break;
		case LN_ATOMIC:
		case LN_COLUMNS:
		case LN_OP:
			assert(n->kind == LN_LOOP); /* for GPUs only */
			break;
		}
	}
}
