/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the kernel that computes the statements of two kernels in sequence. */
#include "passes/forms/fused.h"

#include <string.h>

/* Limits on fused kernels, which bound compile time and register pressure: statements; operands and
 * results; ONNX nodes, many of which may have been simplified away. */
enum { MAX_STMTS = 24, MAX_FUSED_PARAMS = 48, MAX_NODES = 256 };

typedef struct Remap {
	Kernel *k;
	Buf **buf; /* by Buf.id in the source kernel: the copy */
	Iter **iter;
} Remap;

static Expr *remap_expr(const Remap *r, Expr *e)
{
	EX_MAP (x, r->k->pool, &e)
		if (x->kind == EX_ITER)
			x = ex_iter(r->k->pool, r->iter[x->iter->id]);
		else if (x->kind == EX_LOAD)
			x = ex_load(r->k->pool, r->buf[x->load.buf->id], x->load.idx, x->load.nidx);
	return e;
}

/* Appends FROM's statements to K; MAP[id] is K's buffer for FROM's buffer id. */
static void append_kernel(Kernel *k, Kernel *from, Buf **map)
{
	Remap r = {k, map, NEW_ARRAY(k->arena, from->iters.n + 1, Iter *)};
	bool *used = NEW_ARRAY(k->arena, from->iters.n + 1, bool);

	for (int i = 0; i < from->stmts.n; i++)
		for (int j = 0; j < from->stmts.at[i]->niters; j++)
			used[from->stmts.at[i]->iter[j]->id] = true;
	for (int i = 0; i < from->iters.n; i++)
		if (used[i])
			r.iter[i] = kernel_iter(k, from->iters.at[i]->name,
						from->iters.at[i]->extent);
	VEC_EACH (s, &from->stmts) {
		Stmt *t = NEW(k->arena, Stmt);

		*t = *s;
		t->id = k->stmts.n;
		for (int j = 0; j < s->niters; j++)
			t->iter[j] = r.iter[s->iter[j]->id];
		for (int j = 0; j < s->nout; j++)
			t->out[j] = map[s->out[j]->id];
		t->widx = NEW_ARRAY(k->arena, s->nwidx + 1, Expr *);
		for (int j = 0; j < s->nwidx; j++)
			t->widx[j] = remap_expr(&r, s->widx[j]);
		for (int j = 0; j < 2; j++)
			t->val[j] = remap_expr(&r, s->val[j]);
		t->guard = remap_expr(&r, s->guard);
		vec_push(k->arena, &k->stmts, t);
	}
}

static Buf *copy_buf(Kernel *k, const Buf *b, BufKind kind, int param)
{
	Buf *c = buf_copy(k->arena, b);

	c->id = k->bufs.n;
	c->kind = kind;
	c->param = param;
	vec_push(k->arena, &k->bufs, c);
	return c;
}

static Buf *param_in(FusedKernel *g, const Buf *b, Value *v)
{
	VEC_EACH (o, &g->k->bufs)
		if (o->kind == BUF_IN && g->in[o->param] == v && o->rank == b->rank)
			return o;
	g->in[g->nin] = v;
	return copy_buf(g->k, b, BUF_IN, g->nin++);
}

FusedKernel *fused_own(Arena *a, Node *n)
{
	FusedKernel *g = NEW(a, FusedKernel);

	g->k = node_kernel(n);
	for (int i = 0; i < n->nin && i < MAX_PARAMS; i++)
		g->in[i] = node_in(n, i);
	for (int i = 0; i < n->nout && i < MAX_PARAMS; i++)
		g->out[i] = n->out[i];
	g->nin = n->nin;
	g->nout = n->nout;
	return g;
}

bool fused_build(Arena *a, Node *p, const FusedKernel *c, const Node *reader, bool keep,
		 FusedKernel *g)
{
	Kernel *pk = node_kernel(p), *ck = c->k;
	Buf **map = NEW_ARRAY(a, pk->bufs.n + ck->bufs.n + 2, Buf *);
	Buf *shared[MAX_PARAMS] = {NULL};

	if (p->nin + c->nin > MAX_PARAMS || p->nout + c->nout > MAX_PARAMS ||
	    locs_count(p->locs) + locs_count(reader->locs) > MAX_NODES)
		return false;
	*g = (FusedKernel){.k = kernel_new(ck->ctx, a, ck->name)};
	for (int i = 0; i < pk->bufs.n; i++) {
		Buf *b = pk->bufs.at[i];

		if (b->kind == BUF_IN) {
			map[i] = param_in(g, b, node_in(p, b->param));
		} else if (b->kind == BUF_TEMP) {
			map[i] = copy_buf(g->k, b, BUF_TEMP, 0);
		} else {
			Value *v = p->out[b->param];
			bool outside = false;

			for (Use *u = v->uses; u && !keep; u = u->next)
				outside = outside || u->user != reader;
			if (outside)
				g->out[g->nout] = v;
			map[i] = copy_buf(g->k, b, outside ? BUF_OUT : BUF_TEMP,
					  outside ? g->nout++ : 0);
			shared[b->param] = map[i];
		}
	}
	append_kernel(g->k, pk, map);
	for (int i = 0; i < ck->bufs.n; i++) {
		Buf *b = ck->bufs.at[i];

		if (b->kind == BUF_IN && c->in[b->param]->def == p) {
			map[i] = shared[c->in[b->param]->index];
			if (map[i]->rank != b->rank)
				return false;
		} else if (b->kind == BUF_IN) {
			map[i] = param_in(g, b, c->in[b->param]);
		} else if (b->kind == BUF_OUT) {
			g->out[g->nout] = c->out[b->param];
			map[i] = copy_buf(g->k, b, BUF_OUT, g->nout++);
		} else {
			map[i] = copy_buf(g->k, b, BUF_TEMP, 0);
		}
	}
	append_kernel(g->k, ck, map);
	return g->k->stmts.n <= MAX_STMTS && g->nin + g->nout <= MAX_FUSED_PARAMS;
}

typedef struct WrittenElement {
	Kernel *k;
	Stmt *writer; /* of a temporary that LOAD reads; not all indices are iterators */
	Expr *load;
} WrittenElement;

static void find_writer(WrittenElement *f, Expr *e)
{
	Stmt *w = e->load.buf->kind == BUF_TEMP ? kernel_writer(f->k, e->load.buf) : NULL;

	for (int d = 0; w && !f->writer && d < w->nwidx; d++)
		if (w->widx[d]->kind != EX_ITER && w->widx[d]->kind != EX_CONST) {
			f->writer = w;
			f->load = e;
		}
}

/* Gives map S, which reads F's load, the domain of the statement that writes the temporary. At each
 * point S computes its result for the element that is written there. If a map writes that element,
 * S inlines the map, so that no temporary is needed. */
static void take_points(const WrittenElement *f, Stmt *s)
{
	ExprPool *p = f->k->pool;
	const Stmt *w = f->writer;
	Iter *from[MAX_ITERS];
	Expr *at[MAX_ITERS], *to[MAX_ITERS];
	int n = 0;

	for (int i = 0; i < w->nband; i++)
		at[i] = ex_iter(p, kernel_iter(f->k, w->iter[i]->name, w->iter[i]->extent));
	for (int d = 0; d < w->nwidx; d++)
		if (f->load->load.idx[d]->kind == EX_ITER) {
			from[n] = f->load->load.idx[d]->iter;
			to[n++] = ex_subst_iters(p, w->widx[d], w->iter, at, w->nband);
		}
	stmt_subst_iters(f->k, s, from, to, n);
	if (!w->red) {
		Expr *load = ex_subst_iters(p, f->load, from, to, n);
		Expr *val = ex_round(p, f->load->load.buf->dtype,
				     ex_subst_iters(p, w->val[0], w->iter, at, w->nband));

		s->val[0] = ex_replace(p, s->val[0], load, val);
		if (w->guard)
			s->guard = ex_and(p, s->guard,
					  ex_subst_iters(p, w->guard, w->iter, at, w->nband));
	}
	for (int i = 0; i < w->nband; i++)
		s->iter[i] = at[i]->iter;
	s->niters = s->nband = w->nband;
}

/* Whether a statement of K reads the result of map S, or S writes a result of the kernel. */
static bool is_needed(const Kernel *k, const Stmt *s)
{
	bool needed = s->red || s->out[0]->kind != BUF_TEMP;

	for (int i = 0; i < k->stmts.n && !needed; i++)
		needed = stmt_reads(k->stmts.at[i], s->out[0]);
	return needed;
}

void fused_take_points(FusedKernel *g)
{
	for (int i = 1; i < g->k->stmts.n; i++) {
		Stmt *s = g->k->stmts.at[i];
		WrittenElement f = {.k = g->k};

		if (!s->red)
			STMT_EACH_LOAD (x, s)
				find_writer(&f, x);
		if (f.writer && load_whole(f.load) && load_once(s, f.load))
			take_points(&f, s);
	}
	for (int i = g->k->stmts.n - 1; i > 0; i--)
		if (!is_needed(g->k, g->k->stmts.at[i]))
			kernel_remove_stmt(g->k, i);
	kernel_mark_used(g->k);
}

void fused_drop_unused(FusedKernel *g)
{
	Value *in[MAX_PARAMS];
	int n = 0;

	kernel_mark_used(g->k);
	VEC_EACH (b, &g->k->bufs) {
		if (b->kind == BUF_IN) {
			in[n] = g->in[b->param];
			b->param = n++;
		}
	}
	memcpy(g->in, in, (size_t)n * sizeof *in);
	g->nin = n;
}
