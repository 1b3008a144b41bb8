/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions whose image keeps the model's order, as inputs of the model do. A convolution reads
 * each element several times, and reads single elements unless the summed dim is innermost. So it
 * reads a transposed copy. On CPUs this replaces the packing of vectors of pixels for each tap: 3x3
 * of 16 channels of 28x28 took 78 us with it, and takes 30. Rows of pixels that are read in place
 * stay as they are.
 *
 * An image of few channels, such as the 3 of a photograph, has no vectors even then. If matrix
 * instructions multiply halves, its copy, and the filter, get channels of zeros up to a multiple of
 * CHANNELS, so that a pixel is 8 bytes:
 *
 *     sum x[n,c,h+r,w+s] * f[o,c,r,s] over c < 3      sum x4[n,c,h+r,w+s] * f4[o,c,r,s] over c < 4
 *
 * If the image is computed by a map, such as a rounding to halves, the copy computes that instead
 * of reading it.
 */
#include "passes/forms/form.h"

#include "base/round.h"
#include "passes/forms/through.h"
#include "passes/layout/layout_impl.h"

enum {
	CHANNELS =
		4, /* halves of the narrowest vector that a copy to shared memory is fast with: 8 bytes */
	LEAST_PADDED = 2 /* fewer channels would multiply the terms of the sum by 4 */
};

/* ---- Copies ---- */

static Expr *as_map(void *arg, Expr *e)
{
	Node *n = arg;
	const Stmt *s = e->kind == EX_LOAD ? loaded_map(n, e) : NULL;

	return s && !node_on_host(node_loaded(n, e)->def) ? load_as_map(n, e, s) : NULL;
}

/* A kernel that copies a value, without statements yet. */
typedef struct Copy {
	Node *n;
	Kernel *k;
	Buf *in, *out;
} Copy;

/* Makes a node before BEFORE, for N, that copies V to a result NAME of type TO. Its kernel is
 * called after N's and SUFFIX. */
static Copy copy_node(Module *m, const Node *n, Node *before, Value *v, const Type *to,
		      const char *suffix, const char *name)
{
	Copy c = {.n = node_new(m->graph, OP_Kernel, &v, 1, 1, before),
		  .k = kernel_new(m->ctx, m->arena,
				  arena_printf(m->arena, "%s_%s", node_kernel(n)->name, suffix))};

	c.n->out[0]->type = to;
	node_locs_from(c.n, n);
	c.in = kernel_buf(c.k, BUF_IN, "x", v->type);
	c.out = kernel_buf(c.k, BUF_OUT, name, to);
	return c;
}

/* Gives C the statement OUT[INDEX..] = V[IT..], where 0 stands for what V lacks along dim PADDED
 * (-1: V has all elements). IT has an iterator for each dim of V, ORDER the same in the order of
 * loops, INDEX in that of OUT's dims. */
static void copy_elements(const Copy *c, int padded, Iter *const *it, Iter *const *order,
			  Iter *const *index)
{
	Kernel *k = c->k;
	Expr *idx[MAX_RANK], *val = kernel_load_iters(k, c->in, it);

	kernel_node_set(c->n, k);
	if (padded >= 0) {
		val = as_map(c->n, val) ?: val;
		val = ex_op3(k->pool, IN_select,
			     ex_op2(k->pool, IN_lt, ex_iter(k->pool, it[padded]),
				    ex_dim(k->pool, c->in->dims[padded])),
			     val, ex_num(k->pool, val->ct, 0));
	}
	for (int d = 0; d < c->out->rank; d++)
		idx[d] = ex_iter(k->pool, index[d]);
	kernel_map(k, order, c->out->rank, c->out, idx, val, NULL);
	node_drop_unused_inputs(c->n);
}

Value *layout_copy(Module *m, const Node *n, Node *before, Value *v, int last, int64_t to)
{
	const Type *t = v->type;
	Iter *it[MAX_RANK], *order[MAX_RANK];
	Dim *dims[MAX_RANK];
	Copy c;

	for (int d = 0; d < t->rank; d++)
		dims[d] = d == last && to ? dim_const(m->ctx, to) : t->dims[d];
	c = copy_node(m, n, before, v,
		      layout_permuted(m->ctx, type_tensor(m->ctx, t->dtype, t->rank, dims), last),
		      "transpose", "transposed");
	kernel_iters_of(c.k, c.out, it);
	/* A padded copy is in the order of memory, so that a thread stores the channels of a pixel
	 * together. */
	for (int d = 0; d < t->rank; d++)
		order[d] = it[to ? buf_memory_dim(c.out, d) : d];
	copy_elements(&c, to ? last : -1, it, order, it);
	return c.n->out[0];
}

void layout_result(Module *m, Node *n, Buf *b, int last)
{
	Value *v = n->out[b->param];
	const Type *to = v->type;
	Iter *it[MAX_RANK];
	Copy c;

	v->type = type_with_layout(m->ctx, to, layout_permuted(m->ctx, to, last)->layout);
	b->layout = v->type->layout;
	c = copy_node(m, n, n->next, v, to, "result", "copied");
	kernel_iters_of(c.k, c.out, it);
	c.n->out[0]->name = v->name;
	v->name = NULL;
	value_move(v, c.n->out[0]);
	node_set_input(c.n, 0, v);
	copy_elements(&c, -1, it, it, it);
}

/* A copy of filter V, for N, whose last dim is V's dim LAST, of TO indices. */
static Value *filter_copy(Module *m, Node *n, Value *v, int last, int64_t to)
{
	const Type *t = v->type;
	Iter *it[MAX_RANK], *order[MAX_RANK];
	Dim *dims[MAX_RANK];
	Copy c;
	int r = 0;

	for (int d = 0; d < t->rank; d++)
		if (d != last)
			dims[r++] = t->dims[d];
	dims[r] = dim_const(m->ctx, to);
	c = copy_node(m, n, n, v, type_tensor(m->ctx, t->dtype, t->rank, dims), "filter", "padded");
	r = 0;
	for (int d = 0; d < t->rank; d++) {
		const int at = d == last ? t->rank - 1 : r++;

		it[d] = order[at] = kernel_iter(c.k, "i", dims[at]);
	}
	copy_elements(&c, last, it, order, order);
	return c.n->out[0];
}

/* ---- A product's image and filter ---- */

typedef struct Image {
	Module *m;
	Node *n;
	const Contraction *ct;
	Value **copies; /* by Value.id: the copy made for an earlier reader */
	Node *before;   /* copies are made there; null: after what computes the image */
	Expr *along;    /* index of the image's new innermost dim; null: the image stays */
	int64_t to;     /* the channels of a padded image; 0: it is not padded */
} Image;

/* The copy of V with dim D innermost, of TO indices. */
static Value *copy_of(Image *i, Value *v, int d, int64_t to)
{
	Value **made = &i->copies[v->id];
	const Type *t = *made ? (*made)->type : NULL;

	if (!t || t->layout->ax[t->rank - 1].dim != d ||
	    (to ? !dim_equals(t->dims[d], to) : t->dims[d] != v->type->dims[d]))
		*made = layout_copy(i->m, i->n,
				    i->before ? i->before
				    : v->def  ? v->def->next
					      : i->m->graph->first,
				    v, d, to);
	return *made;
}

static void permute_operand(Image *i, Buf *b, int d)
{
	Value *v = copy_of(i, node_in(i->n, b->param), d, 0);

	node_set_input(i->n, b->param, v);
	b->layout = v->type->layout;
}

static Buf *plain_operand(const Image *i, const Expr *e)
{
	Buf *b = e->kind == EX_LOAD ? e->load.buf : NULL;
	const Value *v = b && b->kind == BUF_IN ? node_in(i->n, b->param) : NULL;

	return v && !b->layout && b->rank > 2 && dtype_info[b->dtype].bits >= 8 &&
			       v->type->dtype == b->dtype
		       ? b
		       : NULL;
}

/* The dim of image E that is to be innermost; -1: E is not an image, or stays as it is. */
static int image_dim(const Image *i, Expr *e)
{
	const Contraction *ct = i->ct;
	const Buf *b = plain_operand(i, e);

	return b && !value_is_weights(i->m, node_in(i->n, b->param)) && contraction_slides(ct, e)
		       ? layout_dim_along(i->m->ctx, e->load.idx, b->rank, ct->k, ct->nk, ct->m,
					  ct->nm)
		       : -1;
}

static void permute_image(Image *i, Expr *e)
{
	const int d = image_dim(i, e);
	bool moves = false;
	int64_t few;

	for (int later = d + 1; d >= 0 && later < e->load.buf->rank; later++)
		moves = moves || !dim_equals(e->load.buf->dims[later], 1);
	if (!moves ||
	    (dim_is_const(e->load.buf->dims[d], &few) && few < FEW_CHANNELS))
		return;
	i->along = e->load.idx[d];
	permute_operand(i, e->load.buf, d);
}

/* Transposes the filter as well, for GPUs: the order of the sum follows the first operand. */
static void permute_filter(Image *i, Expr *e)
{
	Buf *b = plain_operand(i, e);

	for (int k = 0; b && k < i->ct->nk; k++)
		for (int d = 0; d < b->rank - 1 && expr_has_iter(i->along, i->ct->k[k]); d++)
			if (!b->layout &&
			    layout_has_unit(i->m->ctx, e->load.idx[d], &i->ct->k[k], 1))
				permute_operand(i, b, d);
}

/* ---- Channels of zeros ---- */

/* The dim of load E that only IT indexes, and covers; -1: none. */
static int whole_dim(const Expr *e, const Iter *it)
{
	int found = -1;

	for (int d = 0; d < e->load.nidx; d++) {
		if (!expr_has_iter(e->load.idx[d], it))
			continue;
		if (found >= 0 || e->load.idx[d]->kind != EX_ITER ||
		    e->load.buf->dims[d] != it->extent)
			return -1;
		found = d;
	}
	return found;
}

/* Replaces iterator K of S, of channels, by one of I->to channels, which is the last of the sum:
 * IMAGE and FILTER are the factors, D and DF their dims. */
static void pad_sum(Image *i, Stmt *s, const Iter *k, const Expr *image, int d, const Expr *filter,
		    int df)
{
	Kernel *kernel = node_kernel(i->n);
	const int rank = filter->load.nidx;
	Value *x = copy_of(i, node_loaded(i->n, image), d, i->to),
	      *w = filter_copy(i->m, i->n, node_loaded(i->n, filter), df, i->to);
	Iter *more = kernel_iter(kernel, k->name, dim_const(i->m->ctx, i->to));
	Expr *at[MAX_RANK], *of[MAX_RANK];
	int n = 0, r = 0;

	for (int j = 0; j < image->load.nidx; j++)
		at[j] = j == d ? ex_iter(kernel->pool, more) : image->load.idx[j];
	for (int j = 0; j < rank; j++)
		if (j != df)
			of[r++] = filter->load.idx[j];
	of[r] = at[d];
	for (int j = 0; j < s->niters; j++)
		if (s->iter[j] != k)
			s->iter[n++] = s->iter[j];
	s->iter[n] = more;
	s->val[0] = ex_op2(kernel->pool, IN_mul,
			   load_added(i->n, image->load.buf->name, x, at, image->load.nidx),
			   load_added(i->n, filter->load.buf->name, w, of, rank));
	node_drop_unused_inputs(i->n);
}

/* If image A of the product has few channels, pads it and filter B. */
static void pad_channels(Image *i, Expr *a, Expr *b)
{
	const Contraction *ct = i->ct;
	const int d = image_dim(i, a);
	Iter *k = d >= 0 && a->load.idx[d]->kind == EX_ITER ? a->load.idx[d]->iter : NULL;
	int64_t few;
	int db;

	if (!k || !dim_is_const(k->extent, &few) || few >= FEW_CHANNELS || few < LEAST_PADDED ||
	    few % CHANNELS == 0 || !dtype_is_half(a->load.buf->dtype) ||
	    product_instruction(ct, i->m->target[0]->gpu, false) == MMA_FMA || !plain_operand(i, b))
		return;
	db = whole_dim(b, k);
	if (whole_dim(a, k) != d || db < 0 || (ct->s->guard && expr_has_iter(ct->s->guard, k)))
		return;
	i->to = round_up(few, CHANNELS);
	pad_sum(i, ct->s, k, a, d, b, db);
}

/* Tiles of N's product read an image for which a transposed copy pays. On CPUs, rows of pixels are
 * read in place for few channels, and for the phases of a stride. */
static bool reads_images(Module *m, Node *n)
{
	const Form *f = module_form(m, n);

	if (module_on_gpu(m))
		return f->tiled_gpu;
	for (int i = 0; i < f->c.ng; i++)
		if (stmt_is_phase(m->ctx, f->c.s, f->c.g[i]))
			return false;
	return f->tiled_packed && !f->a.in_rows && !f->b.in_rows;
}

void layout_images(Module *m, Node *n, bool inside, Value **copies)
{
	const Form *f = module_form(m, n);
	Contraction ct = f->c;
	Image i = {.m = m, .n = n, .ct = &ct, .copies = copies, .before = inside ? NULL : n};
	bool first;

	if (!reads_images(m, n))
		return;
	first = expr_is_weights(m, n, ct.a);
	if (first)
		contraction_swap(&ct);
	if (!ct.nm || !expr_is_weights(m, n, ct.b))
		return;
	EX_EACH (e, ct.a)
		permute_image(&i, e);
	if (i.along && first && module_on_gpu(m))
		EX_EACH (e, ct.b)
			permute_filter(&i, e);
	if (!i.along && module_on_gpu(m))
		pad_channels(&i, ct.a, ct.b);
	form_changed(m, n);
}
