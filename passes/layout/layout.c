/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout: chooses the order of each tensor's dims in memory between kernels. Statements vote for
 * the dim of a tensor that should be contiguous for their inner loops. The weight of a vote is the
 * number of points of the statement, or, on CPUs, the number of elements that a contraction
 * accesses:
 *
 *   a contraction with constant weights   of the other operand, the summed dim; of its result, the
 *                                         dim of the weights
 *   such a stencil with few channels of   the last dim, pixels: the vectors of its sums
 *   results (product_reads_rows), on CPUs
 *   any other contraction                 the last dim: both operands stay as the model has them
 *   a reduction over a stencil            the dim that is innermost in its result, or in an operand,
 *                                         if that order is fixed and the stencil neither sums over
 *                                         nor slides along it; else the last such dim: channels
 *   any other reduction                   the last dim that it sums over
 *
 * Tensors that a statement accesses by the same indices are counted together and get one order. The
 * dim with most votes becomes the innermost one. For a convolution that is the channels (N,H,W,C,
 * whatever order the model has): then its sums, its results, depthwise convolutions between and
 * every epilogue access memory contiguously, and a 1x1 convolution is a matrix product in place.
 * All channels are one block: there is no padding, and several rows of pixels remain contiguous.
 * Blocks of channels would prevent this for channel counts that are not a multiple of the vector
 * width. Inputs, results and operands of views keep their order; convolutions read a transposed
 * copy of such an image (images.c).
 *
 * Then the pass chooses, for each product on a CPU, which operand is vectorised; the order of its
 * sums determines that. Constants follow their readers: they are packed into panels
 * (passes/layout/panels.c), or transposed for the statement.
 */
#include "base/sets.h"
#include "ir/graph/blocks.h"
#include "passes/layout/layout_impl.h"
#include "passes/layout/panels.h"
#include "passes/layout/winograd.h"
#include "passes/forms/form.h"

enum {
	/* A reduction that is not a stencil is computed about as fast with vectors of states as
	 * with lanes along the sum, so its vote is divided by this factor. */
	EITHER_WAY = 16
};

enum { UNKNOWN_EXTENT = 64 };

typedef struct Votes {
	double dim[MAX_RANK];
} Votes;

/* Tensors are numbered: values by id, then the temporaries of kernels. */
typedef struct Choice {
	Module *m;
	Sets sets;
	int n;
	bool *fixed;
	Votes *votes;
	int **of; /* tensor number, by Node.id, then Buf.id */
} Choice;

double layout_size(Iter *const *it, int n)
{
	double p = 1;
	int64_t v;

	for (int i = 0; i < n; i++)
		p *= dim_is_const(it[i]->extent, &v) ? (double)v : (double)UNKNOWN_EXTENT;
	return p;
}

/* ---- Tensors that may be permuted ---- */

static bool only_kernels(const Value *v)
{
	for (const Use *u = v->uses; u; u = u->next)
		if (!u->user || !node_kernel(u->user))
			return false;
	return true;
}

static bool value_moves(Module *m, const Value *v)
{
	const Graph *g = m->graph;

	if (!v->def || !node_kernel(v->def) || v->place == ON_HOST || v->type->rank < 3 ||
	    v->type->layout || dtype_info[v->type->dtype].bits < 8 || value_feeds_sym(v) ||
	    !only_kernels(v) || value_is_weights(m, v))
		return false;
	for (int i = 0; i < g->results.n; i++)
		if (g->results.at[i]->value == v)
			return false;
	return true;
}

static int temps(const Graph *g)
{
	int n = 0;

	for (const Node *node = g->first; node; node = node->next)
		n += node_kernel(node) ? node_kernel(node)->bufs.n : 0;
	return n;
}

static void enter_kernel(Choice *c, Node *n)
{
	Kernel *k = node_kernel(n);

	c->of[n->id] = NEW_ARRAY(c->m->arena, k->bufs.n + 1, int);
	for (int i = 0; i < k->bufs.n; i++) {
		Buf *b = k->bufs.at[i];
		const Value *v = b->kind == BUF_IN    ? node_in(n, b->param)
				 : b->kind == BUF_OUT ? n->out[b->param]
						      : NULL;

		c->of[n->id][i] = v ? v->id : c->n++;
		if (!v)
			c->fixed[c->n - 1] = b->data || b->rank < 3 ||
					     dtype_info[b->dtype].bits < 8;
	}
}

/* ---- Votes ---- */

bool layout_has_unit(Ctx *c, Expr *e, Iter *const *it, int n)
{
	int64_t step;

	for (int i = 0; i < n; i++)
		if (ex_const_step(c, e, it[i], &step) && step == 1)
			return true;
	return false;
}

int layout_dim_along(Ctx *c, Expr *const *idx, int rank, Iter *const *with, int nwith,
		     Iter *const *without, int nwithout)
{
	int best = -1;

	for (int d = 0; d < rank; d++)
		if (layout_has_unit(c, idx[d], with, nwith) &&
		    !expr_has_any(idx[d], without, nwithout))
			best = d;
	return best;
}

typedef struct Ballot {
	Choice *c;
	const int *of; /* tensor numbers of the kernel's buffers */
	Kernel *k;
	const Contraction *ct;
	double weight;
	bool weights; /* one operand is constant */
	bool pixels;  /* vectors hold pixels, not terms of the sum */
} Ballot;

static void vote(Ballot *b, const Buf *buf, int d)
{
	if (d >= 0 && buf->rank > d)
		b->c->votes[b->of[buf->id]].dim[d] += b->weight;
}

/* The dim of load E along which the terms of the sum should be contiguous: the last one that the
 * sum goes along alone, or a longer one before it, such as the channels of samples [c][r][s]. */
static int dim_of_terms(Ballot *b, const Expr *e)
{
	const Contraction *ct = b->ct;
	const int last = layout_dim_along(b->k->ctx, e->load.idx, e->load.nidx, ct->k, ct->nk, ct->m,
					  ct->nm);
	int64_t n;

	for (int d = last; d >= 0; d--)
		if (layout_has_unit(b->k->ctx, e->load.idx[d], ct->k, ct->nk) &&
		    !expr_has_any(e->load.idx[d], ct->m, ct->nm) &&
		    !(dim_is_const(e->load.buf->dims[d], &n) && n < FEW_CHANNELS))
			return d;
	return last;
}

static void factor_votes(Ballot *b, Expr *factor)
{
	const Contraction *ct = b->ct;

	EX_EACH_LOAD (e, factor)
		vote(b, e->load.buf,
		     b->pixels    ? layout_dim_along(b->k->ctx, e->load.idx, e->load.nidx, ct->m,
						     ct->nm, NULL, 0)
		     : b->weights ? dim_of_terms(b, e)
				  : e->load.buf->rank - 1);
}

/* The iterator of S along which its result, or else an operand, is contiguous in an order that is
 * fixed; null: none is. */
static Iter *fixed_along(const Ballot *b, Stmt *s)
{
	const Buf *out;
	int d = layout_stored_dim(b->k, s->out[0], &out);

	if (d >= 0 && b->c->fixed[b->of[out->id]] && s->widx[d]->kind == EX_ITER)
		return s->widx[d]->iter;
	STMT_EACH_LOAD (x, s) {
		d = b->c->fixed[b->of[x->load.buf->id]] ? buf_innermost(x->load.buf) : -1;
		if (d >= 0 && x->load.idx[d]->kind == EX_ITER)
			return x->load.idx[d]->iter;
	}
	return NULL;
}

/* The dim of S's accesses IDX that only IT indexes, of S's iterators; -1: none. */
static int dim_of_iter(const Ballot *b, Stmt *s, Expr *const *idx, int rank, Iter *it)
{
	return it ? layout_dim_along(b->k->ctx, idx, rank, &it, 1, s->iter + s->nband,
				     s->niters - s->nband)
		  : -1;
}

static void reduction_load(Ballot *b, Stmt *s, Expr *load)
{
	int nred = s->niters - s->nband, along, fixed;
	bool window = false;
	Iter *it;

	b->weight = layout_size(s->iter, s->niters);
	for (int d = 0; d < load->load.nidx; d++)
		window = window || stmt_index_slides(s, load->load.idx[d]);
	if (!window && !module_on_gpu(b->c->m))
		b->weight /= (double)EITHER_WAY;
	along = window ? layout_dim_along(b->k->ctx, load->load.idx, load->load.nidx, s->iter,
					  s->nband, s->iter + s->nband, nred)
		       : layout_dim_along(b->k->ctx, load->load.idx, load->load.nidx,
					  s->iter + s->nband, nred, NULL, 0);
	/* with one channel, this is the batch: a batch of unknown size usually has one image */
	if (window && !along && !dim_is_const(load->load.buf->dims[0], NULL))
		along = load->load.buf->rank - 1;
	/* A tensor between two pools, of columns and of rows, is not transposed twice. */
	it = window ? fixed_along(b, s) : NULL;
	fixed = dim_of_iter(b, s, load->load.idx, load->load.nidx, it);
	vote(b, load->load.buf, fixed >= 0 ? fixed : along);
	if (fixed >= 0)
		vote(b, s->out[0], dim_of_iter(b, s, s->widx, s->nwidx, it));
}

/* The last dim that the pixels of CT index, with any stride. */
static int dim_of_pixels(const Contraction *ct, Expr *const *idx, int rank)
{
	int best = -1;

	for (int d = 0; d < rank; d++)
		best = expr_has_any(idx[d], ct->m, ct->nm) ? d : best;
	return best;
}

/* The order of BUF is fixed, with pixels innermost. */
static bool has_rows_of_pixels(const Ballot *b, const Buf *buf, Expr *const *idx)
{
	const int d = b->c->fixed[b->of[buf->id]] ? buf_innermost(buf) : -1;

	return d >= 0 && expr_has_any(idx[d], b->ct->m, b->ct->nm);
}

/* The image of stencil CT, or its result, has a fixed order with pixels innermost. Vectors of
 * channels would be gathered or scattered there. */
static bool keeps_rows(const Ballot *b, const Contraction *ct)
{
	const Buf *out;
	const int d = layout_stored_dim(b->k, ct->s->out[0], &out);

	EX_EACH_LOAD (x, ct->a)
		if (has_rows_of_pixels(b, x->load.buf, x->load.idx))
			return true;
	return d >= 0 && b->c->fixed[b->of[out->id]] && expr_has_any(ct->s->widx[d], ct->m, ct->nm);
}

static void depthwise_load(Ballot *b, Expr *e)
{
	const Contraction *ct = b->ct;
	Ctx *c = b->k->ctx;
	int d;

	if (b->pixels) {
		vote(b, e->load.buf, dim_of_pixels(ct, e->load.idx, e->load.nidx));
		return;
	}
	d = layout_dim_along(c, e->load.idx, e->load.nidx, ct->g, ct->ng, ct->m, ct->nm);
	if (d < 0) /* a group has several channels of the image */
		d = layout_dim_along(c, e->load.idx, e->load.nidx, ct->k, ct->nk, ct->m, ct->nm);
	vote(b, e->load.buf, d);
}

/* A stencil whose filter has no other iterators than the channels and the taps. All tensors vote
 * for channels, even if the taps have only one row, so that the stencil does not slide along the
 * innermost dim. But they vote for pixels if one of them keeps its rows of pixels: 96 channels of
 * 160x160 between a 1x1 convolution and a result of the graph took 26 ms in vectors of channels,
 * and 1.1 ms in vectors of pixels. */
static void depthwise_votes(Ballot *b, Contraction *ct)
{
	Stmt *s = ct->s;

	b->pixels = keeps_rows(b, ct);
	EX_EACH_LOAD (x, ct->a)
		depthwise_load(b, x);
	if (!b->pixels)
		b->weight = layout_size(s->iter, s->nband);
	vote(b, s->out[0],
	     b->pixels ? dim_of_pixels(ct, s->widx, s->nwidx)
		       : layout_dim_along(b->k->ctx, s->widx, s->nwidx, ct->g, ct->ng, ct->m,
					  ct->nm));
}

/* Whether an iterator that both factors read is a channel, rather than a phase of a stride. */
static bool has_channels(Ctx *c, const Contraction *ct)
{
	for (int i = 0; i < ct->ng; i++)
		if (!stmt_is_phase(c, ct->s, ct->g[i]))
			return true;
	return false;
}

/* CT sums only over the taps of a stencil: each group has one channel of the image. */
static bool sums_taps(const Contraction *ct)
{
	EX_EACH_LOAD (x, ct->a)
		for (int d = 0; d < x->load.nidx; d++)
			if (expr_has_any(x->load.idx[d], ct->k, ct->nk) &&
			    !expr_has_any(x->load.idx[d], ct->m, ct->nm))
				return false;
	return true;
}

/* The weight of a vote is the number of accesses that the tensor's order speeds up: elements of the
 * operands for a block of the other side, and results. On GPUs it is the number of points. A
 * stencil with few output channels computes vectors of pixels, and would gather them unless the
 * pixels of a row are contiguous. So does one of few channels a group, if each reads one channel or
 * the image or the result keeps its rows of pixels: products of two columns between 1x1
 * convolutions took 0.78 ms for 64 channels of 56x56 with two results each. Its gain shrinks with
 * the number of channels, since it reads the pixels again for each. */
static void contraction_votes(Ballot *b, const Node *n, Contraction *ct)
{
	const bool gpu = module_on_gpu(b->c->m);
	const double points = b->weight;
	double channels;
	bool groups;

	if (expr_is_weights(b->c->m, n, ct->a))
		contraction_swap(ct);
	channels = layout_size(ct->n, ct->nn);
	b->ct = ct;
	b->weights = expr_is_weights(b->c->m, n, ct->b);
	groups = has_channels(b->k->ctx, ct);
	if (!gpu && b->weights && !ct->nn && groups && contraction_slides(ct, ct->a)) {
		depthwise_votes(b, ct);
		return;
	}
	b->pixels = !gpu && b->weights && (!groups || sums_taps(ct) || keeps_rows(b, ct)) &&
		    (ct->nn ? product_reads_rows(b->k, ct, ct->a, ct->n, ct->nn)
			    : contraction_slides(ct, ct->a));
	b->weight = gpu ? points : points / channels;
	if (b->pixels)
		b->weight *= 1 - channels / (double)PACKED_CHANNELS;
	factor_votes(b, ct->a);
	b->weight = gpu ? points : points / layout_size(ct->m, ct->nm);
	if (!b->weights)
		factor_votes(b, ct->b);
	b->weight = gpu ? points : points / layout_size(ct->k, ct->nk);
	vote(b, ct->s->out[0],
	     b->weights && !b->pixels ? layout_dim_along(b->k->ctx, ct->s->widx, ct->s->nwidx,
							 ct->n, ct->nn, ct->m, ct->nm)
				      : ct->s->nwidx - 1);
}

/* ---- Tensors that share an order ---- */

/* Each dim of B and of S's output is indexed by the same iterator, or has size 1. */
static bool alike(const Stmt *s, const Buf *b, Expr *const *idx)
{
	const Buf *o = s->out[0];

	if (b->rank != o->rank || s->nwidx != o->rank)
		return false;
	for (int d = 0; d < b->rank; d++) {
		bool shared = dim_equals(b->dims[d], 1) || dim_equals(o->dims[d], 1);

		for (int i = 0; i < s->nband; i++)
			shared = shared || (expr_has_iter(idx[d], s->iter[i]) &&
					    expr_has_iter(s->widx[d], s->iter[i]));
		if (!shared)
			return false;
	}
	return true;
}

static void join_load(Ballot *b, Stmt *s, Expr *load)
{
	int x = b->of[load->load.buf->id], y = b->of[s->out[0]->id];

	if (b->c->fixed[x] || b->c->fixed[y] || !alike(s, load->load.buf, load->load.idx))
		return;
	x = sets_find(b->c->sets, x);
	y = sets_find(b->c->sets, y);
	if (x == y)
		return;
	sets_join(b->c->sets, y, x);
	for (int d = 0; d < MAX_RANK; d++)
		b->c->votes[y].dim[d] += b->c->votes[x].dim[d];
}

/* Both factors of CT have terms of the sum. A factor without terms is a scale, as in a mean of
 * dequantised bytes. */
static bool factors_have_terms(const Contraction *ct)
{
	return expr_has_any(ct->a, ct->k, ct->nk) && expr_has_any(ct->b, ct->k, ct->nk);
}

static void cast_votes(Choice *c, Node *n)
{
	Kernel *k = node_kernel(n);

	VEC_EACH (s, &k->stmts) {
		Ballot b = {c,     c->of[n->id], k, NULL, layout_size(s->iter, s->niters),
			    false, false};
		Form f = form_of_stmt(k, s);

		if (f.kind == FORM_CONTRACTION && factors_have_terms(&f.c))
			contraction_votes(&b, n, &f.c);
		else if (s->red && !s->update)
			STMT_EACH_LOAD (x, s)
				reduction_load(&b, s, x);
	}
}

static void join_tensors(Choice *c, Node *n)
{
	Kernel *k = node_kernel(n);

	VEC_EACH (s, &k->stmts) {
		Ballot b = {c, c->of[n->id], k, NULL, 0, false, false};

		if (!s->ordered && !s->update && !s->scan &&
		    form_of_stmt(k, s).kind != FORM_CONTRACTION)
			STMT_EACH_LOAD (x, s)
				join_load(&b, s, x);
		for (int o = 1; o < s->nout; o++)
			c->fixed[b.of[s->out[o]->id]] = c->fixed[b.of[s->out[0]->id]] = true;
	}
}

/* ---- The winner ---- */

/* The dim of B that should be innermost; -1: no change. */
static int innermost_dim(Choice *c, int tensor, const Buf *b)
{
	const Votes *v = &c->votes[sets_find(c->sets, tensor)];
	int best = b->rank - 1;
	int64_t few;
	bool moves = false;

	if (c->fixed[tensor])
		return -1;
	for (int d = 0; d < b->rank; d++)
		if (v->dim[d] > v->dim[best])
			best = d;
	/* the packed rows of a convolution with few channels have its bytes contiguous, as they are
	 * summed in fours */
	if (dim_is_const(b->dims[best], &few) && few < (dtype_is_byte(b->dtype) ? 2 : FEW_CHANNELS))
		return -1;
	for (int d = best + 1; d < b->rank; d++)
		moves = moves || !dim_equals(b->dims[d], 1);
	return moves ? best : -1;
}

const Type *layout_permuted(Ctx *c, const Type *t, int last)
{
	Layout l = {0};

	for (int d = 0; d < t->rank; d++)
		if (d != last)
			l.ax[l.n++] = (LayoutAxis){.dim = d};
	l.ax[l.n++] = (LayoutAxis){.dim = last};
	return type_with_layout(c, t, &l);
}

static void lay_out(Choice *c, Node *n)
{
	Kernel *k = node_kernel(n);

	for (int i = 0; i < k->bufs.n; i++) {
		Buf *b = k->bufs.at[i];
		int d = innermost_dim(c, c->of[n->id][i], b);
		const Type *t;

		if (d < 0)
			continue;
		t = layout_permuted(c->m->ctx, type_tensor(c->m->ctx, b->dtype, b->rank, b->dims),
				    d);
		b->layout = t->layout;
		if (b->kind == BUF_OUT)
			n->out[b->param]->type = type_with_layout(c->m->ctx, n->out[b->param]->type,
								  t->layout);
	}
}

/* ---- Constants that a statement reads along its innermost axis ---- */

typedef struct Permutation {
	Module *m;
	Node *n;
	Kernel *k;
	const Iter *it; /* the iterator along which the statement should read with unit stride */
} Permutation;

static void permute_load(const Permutation *t, const Expr *load)
{
	Buf *b = load->load.buf;
	Value *v = b->kind == BUF_IN ? node_in(t->n, b->param) : NULL;
	int along = -1;
	bool moves = false;

	if (!v || b->rank < 2 || b->layout || dtype_info[b->dtype].bits < 8 ||
	    !value_is_weights(t->m, v))
		return;
	for (int d = 0; d < b->rank; d++)
		if (load->load.idx[d]->kind == EX_ITER && load->load.idx[d]->iter == t->it)
			along = d;
	for (int d = along + 1; along >= 0 && d < b->rank; d++)
		moves = moves || !dim_equals(b->dims[d], 1);
	if (!moves)
		return;
	v = layout_copy(t->m, t->n, t->n, v, along, 0);
	node_set_input(t->n, b->param, v);
	b->layout = v->type->layout;
}

/* The iterator along which S's writes are contiguous. */
static const Iter *written_along(const Stmt *s)
{
	const Layout *l = s->out[0]->layout;
	int last = l ? l->ax[l->n - 1].dim : s->out[0]->rank - 1;

	if (last < 0 || s->nwidx != s->out[0]->rank || s->widx[last]->kind != EX_ITER)
		return NULL;
	return s->widx[last]->iter;
}

/* For GPUs: the iterator along which S's operands are contiguous; null: none. Adjacent threads
 * compute its adjacent points. */
static const Iter *read_along(const Permutation *t, Stmt *s)
{
	int hits[MAX_ITERS] = {0}, best = 0;

	STMT_EACH_LOAD (x, s) {
		const Buf *b = x->load.buf;
		const Value *v = b->kind == BUF_IN ? node_in(t->n, b->param) : NULL;
		Affine a;

		if (v && !value_is_weights(t->m, v) &&
		    ex_affine(t->k->ctx, flat_index(t->k, b, x->load.idx), &a))
			for (int i = 0; i < s->nband; i++)
				hits[i] += dim_equals(affine_coef(t->k->ctx, &a, s->iter[i]), 1);
	}
	for (int i = 1; i < s->nband; i++)
		best = hits[i] > hits[best] ? i : best;
	return s->nband && hits[best] ? s->iter[best] : NULL;
}

static void permute_constants(Module *m, Node *n)
{
	Kernel *k = node_kernel(n);

	VEC_EACH (s, &k->stmts) {
		Permutation t = {m, n, k, NULL};

		t.it = module_on_gpu(m) ? read_along(&t, s) : written_along(s);
		if (t.it)
			STMT_EACH_LOAD (x, s)
				permute_load(&t, x);
	}
}

/* N is a matrix product, whose blocks read constants in any order. */
static bool is_product(Node *n)
{
	Kernel *k = node_kernel(n);
	const Form f = form_of_stmt(k, k->stmts.at[0]);

	return f.c.nm && f.c.nn;
}

bool pass_layout(Module *m)
{
	Graph *g = m->graph;
	int most = g->nvalues + temps(g);
	Choice c = {.m = m, .n = g->nvalues};
	Value **permuted;
	const int *block;

	if (m->opt.level == 0) {
		panels_report(m);
		return true;
	}
	c.sets = sets_new(m->arena, most);
	c.fixed = NEW_ARRAY(m->arena, most + 1, bool);
	c.votes = NEW_ARRAY(m->arena, most + 1, Votes);
	c.of = NEW_ARRAY(m->arena, g->nnodes + 1, int *);
	for (int i = 0; i < g->nvalues; i++)
		c.fixed[i] = true;
	for (Node *n = g->first; n; n = n->next)
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				c.fixed[n->out[i]->id] = !value_moves(m, n->out[i]);
	for (Node *n = g->first; n; n = n->next)
		if (node_kernel(n))
			enter_kernel(&c, n);
	for (Node *n = g->first; n; n = n->next)
		if (node_kernel(n))
			cast_votes(&c, n);
	for (Node *n = g->first; n; n = n->next)
		if (node_kernel(n))
			join_tensors(&c, n);
	for (Node *n = g->first; n; n = n->next)
		if (node_kernel(n))
			lay_out(&c, n);
	forms_changed(m);
	permuted = NEW_ARRAY(m->arena, g->nvalues + 1, Value *);
	block = blocks_of(g, m->arena).of;
	for (Node *n = g->first; n; n = n->next)
		if (node_kernel(n) && !node_on_host(n))
			layout_images(m, n, block[n->id], permuted);
	for (Node *n = g->first; n && !module_on_gpu(m); n = n->next)
		if (node_kernel(n))
			layout_vectors(m, n);
	for (Node *n = g->first; n && !module_on_gpu(m); n = n->next)
		if (module_schedules(m, n))
			winograd(m, n);
	for (Node *n = g->first; n; n = n->next)
		if (node_kernel(n) && !node_on_host(n) && !value_is_weights(m, n->out[0]) &&
		    !pack_operand(m, n) && !(module_on_gpu(m) && is_product(n))) {
			permute_constants(m, n);
			form_changed(m, n);
		}
	cse_weights(m);
	dce_graph(m);
	panels_report(m);
	return true;
}
