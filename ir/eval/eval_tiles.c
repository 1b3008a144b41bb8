/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/eval/eval_tiles.h"
#include "ir/eval/eval_tiles_impl.h"

#include <string.h>

/* ---- State ---- */

static void fail(TileEval *e, const char *what, const char *name)
{
	if (!e->fault)
		e->fault = arena_printf(e->s->kernel->arena, "%s%s%s", what, *name ? " " : "",
					name);
}

static int64_t size(TileEval *e, const Dim *d)
{
	int64_t v = 0;

	if (e->o->sym ? !dim_eval(d, e->o->sym, &v) : !dim_is_const(d, &v))
		fail(e, "a size has no value", "");
	return v;
}

void tile_bind(TileEval *e, const Iter *it, int64_t v)
{
	for (int i = 0; i < e->iters.n; i++)
		if (e->iters.at[i].it == it) {
			e->iters.at[i].value = v;
			return;
		}
	vec_push(e->a, &e->iters, ((TileIter){it, v}));
}

static int64_t iter_value(TileEval *e, const Iter *it)
{
	for (int i = 0; i < e->iters.n; i++)
		if (e->iters.at[i].it == it)
			return e->iters.at[i].value;
	fail(e, "an iterator is not bound:", it->name);
	return 0;
}

static TileStore *store_of(TileEval *e, const Buf *b)
{
	for (int i = 0; i < e->tiles.n; i++)
		if (e->tiles.at[i].buf == b)
			return &e->tiles.at[i];
	return NULL;
}

/* ---- Expressions ---- */

/* The number of the element of tile T at IDX; -1 after a fault. */
static int64_t tile_at(TileEval *e, const TileStore *t, Expr *const *idx, int n)
{
	int64_t at = 0;

	for (int d = 0; d < n; d++) {
		const int64_t v = tile_eval(e, idx[d]).i;

		if (v < 0 || v >= t->dim[d]) {
			fail(e, "an index leaves tile", t->buf->name);
			return -1;
		}
		at = at * t->dim[d] + v;
	}
	return at;
}

static TileValue load_tile(TileEval *e, const Expr *x, const TileStore *t)
{
	const int64_t at = tile_at(e, t, x->load.idx, x->load.nidx);

	if (at >= 0 && t->state[at] != TILE_VALID)
		fail(e,
		     t->state[at] == TILE_EMPTY ? "nothing wrote what is read of"
						: "what is read is in flight to",
		     t->buf->name);
	if (at < 0)
		return (TileValue){0};
	return (TileValue){(int64_t)t->value[at], t->value[at]};
}

/* The index into memory of buffer B; -1 after a fault. */
static int64_t memory_at(TileEval *e, const Buf *b, Expr *idx)
{
	const int64_t at = tile_eval(e, idx).i;

	if (at >= 0 && at < size(e, buf_numel(e->c, b)))
		return at;
	fail(e, "an index leaves", b->name);
	return -1;
}

static TileValue load(TileEval *e, const Expr *x)
{
	const Buf *b = x->load.buf;
	const TileStore *t = b->tile ? store_of(e, b) : NULL;
	const void *data = b->data || b->tile || !e->o->memory ? b->data : e->o->memory[b->id];
	int64_t at = 0;

	if (t)
		return load_tile(e, x, t);
	if (e->o->counts && !data)
		return (TileValue){0};
	if (!data)
		fail(e, "a buffer is not declared:", b->name);
	else if (x->load.nidx)
		at = memory_at(e, b, x->load.idx[0]);
	if (e->fault)
		return (TileValue){0};
	if (ctype_is_float(x->ct))
		return (TileValue){0, dtype_load_f64(b->dtype, data, at)};
	return (TileValue){dtype_load_i64(b->dtype, data, at), 0};
}

static Expr *constant(TileEval *e, CType t, TileValue v)
{
	return ctype_is_float(t) ? ex_float(e->p, t, v.f) : ex_int(e->p, t, v.i);
}

/* Any instruction: of constants it is folded. */
static TileValue fold(TileEval *e, const Expr *x, const TileValue *v)
{
	Expr *arg[3], *r;

	for (int i = 0; i < x->op.n; i++)
		arg[i] = constant(e, x->op.arg[i]->ct, v[i]);
	switch (x->op.inst) {
	case IN_cvt: r = ex_cvt(e->p, x->ct, arg[0]); break;
	case IN_bits: r = ex_bits(e->p, x->ct, arg[0]); break;
	case IN_round: r = ex_round(e->p, x->op.dtype, arg[0]); break;
	case IN_roundsat: r = ex_roundsat(e->p, x->op.dtype, arg[0]); break;
	default: r = ex_inst(e->p, x->op.inst, arg, x->op.n);
	}
	if (r->kind != EX_CONST)
		fail(e, "an instruction is not folded:", inst_info[x->op.inst].name);
	return (TileValue){r->i, ctype_is_float(x->ct) ? r->f : 0};
}

static int64_t floor_div(int64_t a, int64_t b)
{
	return b ? a / b - (a % b != 0 && (a < 0) != (b < 0)) : 0;
}

/* Arithmetic on indices and comparisons, which are most of what is computed. False: none. */
static bool index_inst(const Expr *x, const TileValue *v, TileValue *r)
{
	if (x->op.n != 2 || x->op.arg[0]->ct != CT_I64)
		return false;
	switch (x->op.inst) {
	case IN_add: r->i = v[0].i + v[1].i; return true;
	case IN_sub: r->i = v[0].i - v[1].i; return true;
	case IN_mul: r->i = v[0].i * v[1].i; return true;
	case IN_floordiv: r->i = floor_div(v[0].i, v[1].i); return true;
	case IN_mod: r->i = v[0].i - floor_div(v[0].i, v[1].i) * v[1].i; return true;
	case IN_min: r->i = v[0].i < v[1].i ? v[0].i : v[1].i; return true;
	case IN_max: r->i = v[0].i > v[1].i ? v[0].i : v[1].i; return true;
	case IN_lt: r->i = v[0].i < v[1].i; return true;
	case IN_le: r->i = v[0].i <= v[1].i; return true;
	case IN_eq: r->i = v[0].i == v[1].i; return true;
	default: return false;
	}
}

static TileValue inst(TileEval *e, const Expr *x)
{
	TileValue v[3] = {{0}}, r = {0};

	if (x->op.inst == IN_select)
		return tile_eval(e, x->op.arg[tile_eval(e, x->op.arg[0]).i ? 1 : 2]);
	for (int i = 0; i < x->op.n; i++)
		v[i] = tile_eval(e, x->op.arg[i]);
	if (e->fault || index_inst(x, v, &r))
		return r;
	return fold(e, x, v);
}

TileValue tile_eval(TileEval *e, const Expr *x)
{
	switch (x->kind) {
	case EX_CONST: return (TileValue){x->i, ctype_is_float(x->ct) ? x->f : 0};
	case EX_ITER: return (TileValue){iter_value(e, x->iter), 0};
	case EX_DIM: return (TileValue){size(e, x->dim), 0};
	case EX_LOAD: return load(e, x);
	case EX_INST: return inst(e, x);
	case EX_PARAM: break;
	}
	fail(e, "a parameter has no value", "");
	return (TileValue){0};
}

/* ---- Operations ---- */

/* V as tile T stores it. */
static double stored(const TileStore *t, double v)
{
	return dtype_is_float(t->buf->dtype) ? dtype_round_f32(t->buf->dtype, (float)v, false) : v;
}

static void put(TileEval *e, const TileNode *n, TileValue v)
{
	TileStore *t = n->to->tile ? store_of(e, n->to) : NULL;
	const bool real = dtype_is_float(n->to->dtype);
	int64_t at;

	if (n->to->tile && !t) {
		fail(e, "a tile is not declared:", n->to->name);
		return;
	}
	at = t ? tile_at(e, t, n->idx, n->nidx) : memory_at(e, n->to, n->idx[0]);
	if (at < 0)
		return;
	if (t) {
		t->value[at] = stored(t, real ? v.f : (double)v.i);
		t->state[at] = n->op == TILE_COPY && n->async ? TILE_IN_FLIGHT : TILE_VALID;
		t->group[at] = e->commits;
	} else if (real) {
		dtype_store_f64(n->to->dtype, e->o->memory[n->to->id], at, v.f);
	} else {
		dtype_store_i64(n->to->dtype, e->o->memory[n->to->id], at, v.i);
	}
}

static bool holds(TileEval *e, const TileNode *n)
{
	return !n->guard || tile_eval(e, n->guard).i;
}

static TileValue combine(TileEval *e, Monoid m, CType t, TileValue a, TileValue b)
{
	Expr *x = constant(e, t, a), *y = constant(e, t, b), *r;

	r = monoid_combine(e->p, m, 0, &x, &y);
	return (TileValue){r->i, ctype_is_float(t) ? r->f : 0};
}

/* The initial value of N's element, before its points are combined. */
static TileValue initial(TileEval *e, const TileNode *n, CType t)
{
	const TileStore *s = store_of(e, n->to);
	const int64_t at = s && n->adds ? tile_at(e, s, n->idx, n->nidx) : -1;
	Expr *id;

	if (n->adds) {
		if (at < 0 || s->state[at] != TILE_VALID)
			fail(e, "nothing wrote what is added to:", n->to->name);
		return at < 0 ? (TileValue){0} : (TileValue){(int64_t)s->value[at], s->value[at]};
	}
	id = n->op == TILE_DOT ? ex_num(e->p, t, 0) : monoid_identity(e->p, n->red, 0, t);
	return (TileValue){id->i, ctype_is_float(t) ? id->f : 0};
}

static int64_t extent(TileEval *e, const Iter *it)
{
	return size(e, it->extent);
}

/* Moves the iterators of N, those with IN, to the next point; false past the last. */
static bool step(TileEval *e, const TileNode *n, const bool *in)
{
	for (int i = n->n - 1; i >= 0; i--) {
		const int64_t v = in[i] ? iter_value(e, n->it[i]) + 1 : 0;

		if (in[i] && v < extent(e, n->it[i])) {
			tile_bind(e, n->it[i], v);
			return true;
		}
		if (in[i])
			tile_bind(e, n->it[i], 0);
	}
	return false;
}

/* The iterators that N's index mentions. */
static void find_kept(const TileNode *n, bool *kept)
{
	for (int i = 0; i < n->n; i++) {
		kept[i] = n->op == TILE_COPY || n->op == TILE_MAP;
		for (int d = 0; d < n->nidx; d++)
			kept[i] = kept[i] || expr_has_iter(n->idx[d], n->it[i]);
	}
}

/* An operand of a DOT at all points of the iterators that it mentions, the last one fastest. */
typedef struct TileFactor {
	TileValue *at;
	int64_t stride[TILE_RANK]; /* by iterator of the DOT; 0: the operand does not mention it */
} TileFactor;

static TileFactor eval_factor(TileEval *e, const TileNode *n, Expr *x, Arena *a)
{
	bool in[TILE_RANK];
	int64_t size = 1, k = 0;
	TileFactor f = {0};

	for (int i = n->n - 1; i >= 0; i--) {
		in[i] = expr_has_iter(x, n->it[i]);
		f.stride[i] = in[i] ? size : 0;
		size *= in[i] ? extent(e, n->it[i]) : 1;
	}
	f.at = NEW_ARRAY(a, size, TileValue);
	do
		f.at[k++] = tile_eval(e, x);
	while (!e->fault && step(e, n, in));
	return f;
}

/* Adds the products of X and Y at all points of the iterators of N from the I-th on that are not
 * KEPT. */
static void add_products(TileEval *e, const TileNode *n, const bool *kept, int i,
			 const TileFactor *x, const TileFactor *y, int64_t at_x, int64_t at_y,
			 TileValue *v)
{
	while (i < n->n && kept[i])
		i++;
	if (i == n->n) {
		v->f += x->at[at_x].f * y->at[at_y].f;
		v->i += x->at[at_x].i * y->at[at_y].i;
		return;
	}
	for (int64_t k = extent(e, n->it[i]); k; k--) {
		add_products(e, n, kept, i + 1, x, y, at_x, at_y, v);
		at_x += x->stride[i];
		at_y += y->stride[i];
	}
}

/* A DOT, whose iterators are at 0. Each operand is evaluated once, not for each point of the
 * other's iterators. */
static void run_dot(TileEval *e, const TileNode *n, const bool *kept)
{
	ARENA_LOCAL(a);
	const TileFactor x = eval_factor(e, n, n->val, a), y = eval_factor(e, n, n->by, a);

	do {
		TileValue v = initial(e, n, dtype_ctype(n->to->dtype));
		int64_t at_x = 0, at_y = 0;

		for (int i = 0; i < n->n; i++) {
			at_x += kept[i] ? x.stride[i] * iter_value(e, n->it[i]) : 0;
			at_y += kept[i] ? y.stride[i] * iter_value(e, n->it[i]) : 0;
		}
		if (!e->fault)
			add_products(e, n, kept, 0, &x, &y, at_x, at_y, &v);
		put(e, n, v);
	} while (!e->fault && step(e, n, kept));
}

static void run_op(TileEval *e, const TileNode *n)
{
	const CType t = dtype_ctype(n->to->dtype);
	bool kept[TILE_RANK], folded[TILE_RANK];

	find_kept(n, kept);
	for (int i = 0; i < n->n; i++) {
		folded[i] = !kept[i];
		tile_bind(e, n->it[i], 0);
		if (extent(e, n->it[i]) < 1)
			return;
	}
	if (n->op == TILE_DOT) {
		run_dot(e, n, kept);
		return;
	}
	do {
		TileValue v;

		if (n->op == TILE_COPY || n->op == TILE_MAP) {
			if (holds(e, n))
				put(e, n, tile_eval(e, n->val));
			else if (n->op == TILE_COPY)
				put(e, n, (TileValue){0});
			continue;
		}
		v = initial(e, n, t);
		do {
			TileValue x = tile_eval(e, n->val);

			if (holds(e, n))
				v = combine(e, n->red, t, v, x);
		} while (!e->fault && step(e, n, folded));
		put(e, n, v);
	} while (!e->fault && step(e, n, kept));
}

/* The copies of all groups but the last PENDING have arrived. */
static void wait_for(TileEval *e, int pending)
{
	VEC_EACH_AT (t, &e->tiles) {
		for (int64_t j = 0; j < t->n; j++)
			if (t->state[j] == TILE_IN_FLIGHT && t->group[j] < e->commits - pending)
				t->state[j] = TILE_VALID;
	}
}

static void declare(TileEval *e, const Buf *b)
{
	TileStore t = {.buf = b, .n = 1}, *old = store_of(e, b);

	if (old) {
		memset(old->state, TILE_EMPTY, (size_t)old->n);
		return;
	}
	for (int d = 0; d < b->rank; d++)
		t.n *= t.dim[d] = size(e, b->dims[d]);
	t.value = NEW_ARRAY(e->a, t.n + 1, double);
	t.state = NEW_ARRAY(e->a, t.n + 1, char);
	t.group = NEW_ARRAY(e->a, t.n + 1, int);
	vec_push(e->a, &e->tiles, t);
}

/* The operations of all blocks that are counted at most: 32768 take 8 s. */
enum { MOST_COUNTED = 1 << 15 };

static void run_nodes(TileEval *e, const LNode *n)
{
	for (; n && !e->fault; n = n->next)
		switch (n->kind) {
		case LN_LOOP: {
			const int64_t hi = tile_eval(e, n->range.hi).i;

			if (n->loop.kind == LOOP_LAST) { /* blocks run in their order */
				if (e->o->counts)
					tile_count_last(e, hi);
				tile_bind(e, n->range.var, e->block / hi);
				if (e->block % hi == hi - 1)
					run_nodes(e, n->body);
				break;
			}
			for (int64_t i = tile_eval(e, n->range.lo).i; i < hi && !e->fault;
			     i += n->loop.step) {
				tile_bind(e, n->range.var, i);
				run_nodes(e, n->body);
			}
			break;
		}
		case LN_LET: tile_bind(e, n->range.var, tile_eval(e, n->range.lo).i); break;
		case LN_LOCAL:
			if (!e->o->counts)
				declare(e, n->local.buf);
			break;
		case LN_OP:
			if (e->o->counts && ++e->counted > MOST_COUNTED)
				fail(e,
				     "its blocks execute more than 32768 operations, too many to count",
				     "");
			else if (e->o->counts)
				tile_count(e, n->op);
			else if (n->op->op != TILE_SYNC)
				run_op(e, n->op);
			else if (n->op->sync == TILE_COMMIT)
				e->commits++;
			else if (n->op->sync == TILE_WAIT)
				wait_for(e, n->op->pending);
			break;
		default: fail(e, "a node is not an operation on tiles", "");
		}
}

int64_t tile_block_warps(const Stage *st)
{
	return (st->block.threads + st->block.producers) / WARP_LANES;
}

/* The blocks of stage ST. */
static void run_stage(TileEval *e, const Stage *st)
{
	const int64_t blocks = size(e, st->extent);

	e->st = st;
	for (int64_t b = 0; b < blocks && !e->fault; b++) {
		tile_bind(e, st->var, b);
		e->block = b;
		run_nodes(e, st->body);
		if (e->o->counts && st->scratch)
			e->o->counts->shared_bytes += size(e, st->scratch);
		if (e->o->counts &&
		    st->block.producers) /* all threads meet once, when mbarriers are made */
			e->o->counts->barriers += tile_block_warps(st);
	}
}

static TileEval open_run(const Schedule *s, const TileRun *o)
{
	TileEval e = {.s = s, .o = o, .c = s->kernel->ctx, .a = arena_new()};

	e.p = expr_pool_new(e.c, e.a);
	return e;
}

const char *tiles_run(const Schedule *s, const TileRun *o)
{
	TileEval e = open_run(s, o);

	for (int i = 0; i < s->stages.n && !e.fault; i++)
		run_stage(&e, s->stages.at[i]);
	arena_free(e.a);
	return e.fault;
}

const char *tiles_count(const Schedule *s, const Stage *st, TileCounts *counts)
{
	TileEval e = open_run(s, &(TileRun){.counts = counts});

	*counts = (TileCounts){0};
	run_stage(&e, st);
	arena_free(e.a);
	return e.fault;
}
