/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on tiles as text, and stages of them read back. The text is that of schedule_print_bare
 * (loop_text.c): a line for each node, the body of a loop indented by two more spaces.
 *
 *	  stage k: attention, parallel p < 24 group 128 of 128
 *	    let mb = mod(p, 2)
 *	    local s: f32[64,64] in 0 warp 4*16, 1 reg 8*8, ...
 *	    local k_tile: f16[2,64,64] in 0 at 2*1+9216, ... in scratch at 9216
 *	    for jb in [0, 4)
 *	      copy k_tile[slot, r, c] = k[...] for r < 64, c < 64 vector 8 async where ...
 */
#include "ir/loop/loop.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- Printing ---- */

static void put_index(StrBuf *b, const TileNode *n)
{
	strbuf_printf(b, "%s[", n->to->name);
	for (int i = 0; i < n->nidx; i++) {
		strbuf_puts(b, i ? "," : "");
		ex_print(b, n->idx[i]);
	}
	strbuf_puts(b, "]");
}

static void put_points(StrBuf *b, const TileNode *n)
{
	for (int i = 0; i < n->n; i++) {
		strbuf_printf(b, "%s %s < ", i ? "," : " for", n->it[i]->name);
		dim_print(b, n->it[i]->extent);
	}
}

static void put_layout(StrBuf *b, const TileNode *n)
{
	strbuf_puts(b, " in ");
	layout_print_axes(b, &n->points);
}

static void put_value(StrBuf *b, const TileNode *n)
{
	put_index(b, n);
	if (n->op == TILE_FOLD)
		strbuf_printf(b, n->adds ? " %s= " : " = %s ", monoid_info[n->red].name);
	else
		strbuf_puts(b, n->adds ? " += " : " = ");
	ex_print(b, n->val);
}

void tile_print(StrBuf *b, const TileNode *n)
{
	static const char *const names[] = {[TILE_COPY] = "copy ",
					    [TILE_MAP] = "map ",
					    [TILE_FOLD] = "fold ",
					    [TILE_DOT] = "dot ",
					    [TILE_SYNC] = "sync "};

	strbuf_puts(b, names[n->op]);
	if (n->op == TILE_SYNC) {
		strbuf_puts(b, n->sync == TILE_COMMIT ? "commit"
			       : n->sync == TILE_WAIT ? "wait"
						      : "barrier");
		if (n->sync == TILE_WAIT)
			strbuf_printf(b, " %d", n->pending);
		return;
	}
	put_value(b, n);
	if (n->op == TILE_DOT) {
		strbuf_puts(b, " times ");
		ex_print(b, n->by);
	}
	put_points(b, n);
	if (n->op == TILE_DOT)
		strbuf_printf(b, " by %s", mma_info[n->mma].name);
	if (n->op == TILE_MAP || n->op == TILE_FOLD)
		put_layout(b, n);
	if (n->op == TILE_COPY)
		strbuf_printf(b, " vector %d%s", n->vector, n->async ? " async" : "");
	if (n->guard) {
		strbuf_puts(b, " where ");
		ex_print(b, n->guard);
	}
}

/* ---- Reading ---- */

typedef struct TileReader {
	Kernel *k;
	Schedule *s;
	const char *line, *next; /* the current line, without its end; the one after it */
	const char *p;           /* in LINE */
	int number, depth;       /* of LINE; -1: past the end */
	VEC(ExprName) names;
	VEC(Buf *) bufs;
	bool failed;
} TileReader;

static bool wrong(TileReader *r, const char *what)
{
	if (!r->failed)
		diag_error(r->k->ctx->diag, (DiagLoc){.line = r->number},
			   "tiles: expected %s near '%.20s'", what, r->p ? r->p : "");
	r->failed = true;
	return false;
}

/* Moves to the next line. Its depth is half of its indentation. */
static void next_line(TileReader *r)
{
	const size_t n = strcspn(r->next, "\n");
	size_t spaces = 0;

	if (!*r->next) {
		r->depth = -1;
		r->p = r->line = "";
		return;
	}
	r->line = arena_strndup(r->k->arena, r->next, n);
	r->next += n + (r->next[n] == '\n');
	r->number++;
	while (r->line[spaces] == ' ')
		spaces++;
	r->depth = (int)spaces / 2;
	r->p = r->line + spaces;
}

static bool take(TileReader *r, const char *s)
{
	const size_t n = strlen(s);

	if (strncmp(r->p, s, n))
		return false;
	r->p += n;
	return true;
}

static bool want(TileReader *r, const char *s)
{
	return take(r, s) || wrong(r, s);
}

static const char *read_name(TileReader *r)
{
	size_t n = 0;
	const char *s;

	while (isalnum((unsigned char)r->p[n]) || r->p[n] == '_')
		n++;
	if (!n) {
		wrong(r, "a name");
		return "";
	}
	s = intern_n(r->k->ctx->names, r->p, n);
	r->p += n;
	return s;
}

static int64_t read_int(TileReader *r)
{
	char *end;
	int64_t v;

	if (!isdigit((unsigned char)*r->p)) {
		wrong(r, "a number");
		return 0;
	}
	v = strtoll(r->p, &end, 10);
	r->p = end;
	return v;
}

/* Readers of sizes and expressions skip spaces after them; clauses begin with one. */
static void skip_back(TileReader *r)
{
	while (r->p > r->line && r->p[-1] == ' ')
		r->p--;
}

static Dim *read_dim(TileReader *r)
{
	Dim *d = r->failed ? NULL : dim_parse(r->k->ctx, &r->p);

	if (!d)
		wrong(r, "a size");
	skip_back(r);
	return d ? d : dim_const(r->k->ctx, 1);
}

static Expr *read_expr(TileReader *r, CType t)
{
	const ExprScope scope = {r->names.at, r->names.n, r->bufs.at, r->bufs.n, true, true};
	const char *err = NULL;
	Expr *e = r->failed ? NULL : ex_parse_at(r->k->pool, &r->p, t, &scope, &err);

	if (!e)
		wrong(r, err ? err : "an expression");
	else if (e->ct != t)
		wrong(r, "an expression of another type");
	while (r->p > r->line &&
	       r->p[-1] == ' ') /* the reader skips spaces; clauses begin with one */
		r->p--;
	return e ? e : ex_num(r->k->pool, t, 0);
}

/* Makes NAME an iterator from here on, in place of another one of this name. */
static Iter *bind(TileReader *r, const char *name, Dim *extent)
{
	Iter *it = kernel_iter(r->k, name, extent);
	ExprName n = {name, ex_iter(r->k->pool, it)};

	it->name = name;
	for (int i = 0; i < r->names.n; i++)
		if (!strcmp(r->names.at[i].name, name)) {
			r->names.at[i] = n;
			return it;
		}
	vec_push(r->k->arena, &r->names, n);
	return it;
}

static Buf *find_buf(TileReader *r, const char *name)
{
	for (int i = 0; i < r->bufs.n; i++)
		if (!strcmp(r->bufs.at[i]->name, name))
			return r->bufs.at[i];
	wrong(r, "a buffer that is declared");
	return r->bufs.at[0];
}

/* Makes B known, in place of another buffer of its name. */
static void add_buf(TileReader *r, Buf *b)
{
	for (int i = 0; i < r->bufs.n; i++)
		if (!strcmp(r->bufs.at[i]->name, b->name)) {
			r->bufs.at[i] = b;
			return;
		}
	vec_push(r->k->arena, &r->bufs, b);
}

/* The points of an operation are declared after the indices and values that mention them: finds the
 * clause "for" in the line, reads it, and returns to where the line was. *END: after the clause. */
static void read_points(TileReader *r, TileNode *n, const char **end)
{
	const char *p = r->p, *at = strstr(r->p, " for ");

	if (!at) {
		wrong(r, "for");
		return;
	}
	r->p = at + strlen(" for ");
	do {
		const char *name = read_name(r);

		if (n->n == TILE_RANK || !want(r, " < ")) {
			wrong(r, "fewer iterators");
			break;
		}
		n->it[n->n++] = bind(r, name, read_dim(r));
	} while (take(r, ", "));
	*end = r->p;
	r->p = p;
}

static void read_index(TileReader *r, TileNode *n)
{
	n->to = find_buf(r, read_name(r));
	want(r, "[");
	while (!r->failed && !take(r, "]")) {
		if (n->nidx == TILE_RANK) {
			wrong(r, "fewer indices");
			return;
		}
		n->idx[n->nidx++] = read_expr(r, CT_I64);
		take(r, ",");
	}
}

static void read_monoid(TileReader *r, TileNode *n)
{
	n->adds = !take(r, " = ");
	if (n->adds)
		want(r, " ");
	for (int i = MONOID_NONE + 1; i < MONOID_COUNT; i++) {
		const size_t len = strlen(monoid_info[i].name);

		if (strncmp(r->p, monoid_info[i].name, len) || isalnum((unsigned char)r->p[len]) ||
		    r->p[len] == '_')
			continue;
		n->red = (Monoid)i;
		r->p += len;
		want(r, n->adds ? "= " : " ");
		return;
	}
	wrong(r, "a monoid");
}

static void read_mma(TileReader *r, TileNode *n)
{
	const char *name = read_name(r);

	for (int i = 0; i < MMA_COUNT; i++)
		if (!strcmp(mma_info[i].name, name)) {
			n->mma = (MmaKind)i;
			return;
		}
	wrong(r, "a matrix instruction");
}

static void read_sync(TileReader *r, TileNode *n)
{
	n->sync = take(r, "commit") ? TILE_COMMIT : take(r, "wait ") ? TILE_WAIT : TILE_BARRIER;
	if (n->sync == TILE_WAIT)
		n->pending = (int)read_int(r);
	else if (n->sync == TILE_BARRIER)
		want(r, "barrier");
}

static void read_op(TileReader *r, TileNode *n)
{
	const char *end = r->p;
	CType t;

	read_points(r, n, &end);
	if (r->failed)
		return;
	read_index(r, n);
	t = r->failed ? CT_F32 : dtype_ctype(n->to->dtype);
	if (n->op == TILE_FOLD) {
		read_monoid(r, n);
	} else {
		n->adds = take(r, " += ");
		if (!n->adds)
			want(r, " = ");
	}
	n->val = read_expr(r, t);
	if (n->op == TILE_DOT && want(r, " times "))
		n->by = read_expr(r, t);
	if (!r->failed && (r->p > end || strncmp(r->p, " for ", 5)))
		wrong(r, "for");
	r->p = end;
	if (n->op == TILE_DOT && want(r, " by "))
		read_mma(r, n);
	if ((n->op == TILE_MAP || n->op == TILE_FOLD) && want(r, " in ") &&
	    !layout_parse_axes(&r->p, n->n, &n->points))
		wrong(r, "a layout");
	if (n->op == TILE_COPY && want(r, " vector ")) {
		n->vector = (int)read_int(r);
		n->async = take(r, " async");
	}
	if (take(r, " where "))
		n->guard = read_expr(r, CT_BOOL);
}

static void read_local(TileReader *r, LNode *n)
{
	Dim *dims[TILE_RANK];
	TileLayout *l = NEW(r->k->arena, TileLayout);
	const char *name = read_name(r);
	int rank = 0;
	DType t;

	want(r, ": ");
	t = dtype_by_name(read_name(r));
	if (t == DT_NONE)
		wrong(r, "an element type");
	want(r, "[");
	do {
		if (rank == TILE_RANK)
			wrong(r, "fewer dims");
		else
			dims[rank++] = read_dim(r);
	} while (!r->failed && take(r, ", "));
	want(r, "]");
	if (!want(r, " in ") || !layout_parse_axes(&r->p, rank, l)) {
		wrong(r, "a layout");
		return;
	}
	n->buf[0] = kernel_temp(r->k, name, t, rank, dims);
	n->buf[0]->name = name;
	n->buf[0]->tile = l;
	add_buf(r, n->buf[0]);
	if (take(r, " in scratch at "))
		n->idx = ex_int(r->k->pool, CT_I64, read_int(r));
}

static LNode *read_nodes(TileReader *r, int depth);

static void read_loop(TileReader *r, LNode *n)
{
	const char *name = read_name(r);
	const int depth = r->depth;

	want(r, " in [");
	n->lo = read_expr(r, CT_I64);
	want(r, ", ");
	n->hi = read_expr(r, CT_I64);
	want(r, ")");
	n->step = take(r, " by ") ? read_int(r) : 1;
	n->when = take(r, " if ") ? read_dim(r) : NULL;
	n->var = bind(r, name, dim_const(r->k->ctx, DIM_FAR));
	if (*r->p)
		wrong(r, "the end of the line");
	next_line(r);
	n->body = read_nodes(r, depth + 1);
}

static void read_node(TileReader *r, LNode *n)
{
	static const char *const ops[] = {[TILE_COPY] = "copy ",
					  [TILE_MAP] = "map ",
					  [TILE_FOLD] = "fold ",
					  [TILE_DOT] = "dot ",
					  [TILE_SYNC] = "sync "};

	n->stmt = -1;
	n->step = 1;
	if (take(r, "for ")) {
		n->kind = LN_LOOP;
		read_loop(r, n);
		return;
	}
	if (take(r, "let ")) {
		const char *name = read_name(r);

		n->kind = LN_LET;
		want(r, " = ");
		n->lo = read_expr(r, CT_I64);
		n->var = bind(r, name, dim_const(r->k->ctx, DIM_FAR));
	} else if (take(r, "local ")) {
		n->kind = LN_LOCAL;
		read_local(r, n);
	} else {
		n->kind = LN_OP;
		n->op = NEW(r->k->arena, TileNode);
		for (int i = TILE_COPY; i <= TILE_SYNC; i++)
			if (take(r, ops[i])) {
				n->op->op = (TileOp)i;
				if (i == TILE_SYNC)
					read_sync(r, n->op);
				else
					read_op(r, n->op);
				break;
			} else if (i == TILE_SYNC) {
				wrong(r, "a loop, a let, a local or an operation on tiles");
			}
	}
	if (!r->failed && *r->p)
		wrong(r, "the end of the line");
	next_line(r);
}

static LNode *read_nodes(TileReader *r, int depth)
{
	const int names = r->names.n;
	LNode *first = NULL, **tail = &first;

	while (!r->failed && r->depth == depth) {
		*tail = NEW(r->k->arena, LNode);
		read_node(r, *tail);
		tail = &(*tail)->next;
	}
	if (r->depth > depth)
		wrong(r, "less indentation");
	r->names.n = names < r->names.n ? names : r->names.n;
	return first;
}

static void read_stage(TileReader *r)
{
	Stage *st = NEW(r->k->arena, Stage);
	const char *name;

	want(r, "stage ");
	st->name = read_name(r);
	want(r, ": ");
	st->strategy = read_name(r);
	want(r, ", parallel ");
	name = read_name(r);
	want(r, " < ");
	st->extent = read_dim(r);
	st->var = bind(r, name, st->extent);
	st->when = take(r, " if ") ? read_dim(r) : NULL;
	want(r, " group ");
	st->group = (int)read_int(r);
	want(r, " of ");
	st->threads = (int)read_int(r);
	st->grain = dim_const(r->k->ctx, 1);
	want(r, " scratch ");
	st->scratch = dim_const(r->k->ctx, read_int(r));
	if (*r->p)
		wrong(r, "the end of the line");
	next_line(r);
	vec_push(r->k->arena, &r->s->stages, st);
	st->body = read_nodes(r, 2);
}

Schedule *tiles_parse(Kernel *k, const char *text)
{
	TileReader r = {.k = k, .s = NEW(k->arena, Schedule), .next = text};

	r.s->kernel = k;
	for (int i = 0; i < k->bufs.n; i++)
		vec_push(k->arena, &r.bufs, k->bufs.at[i]);
	for (next_line(&r); !r.failed && r.depth >= 0;)
		if (r.depth == 1)
			read_stage(&r);
		else
			wrong(&r, "a stage");
	return r.failed ? NULL : r.s;
}
