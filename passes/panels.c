/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives the constant operand of a contraction the panel layout that the micro-kernel reads, by a kernel that
 * copies the operand expression (transposes, conversions and all) into a packed constant. That kernel reads
 * constants alone, so `weights` runs it at build time. All CPU targets share the layout. On GPUs it is rows that run along n,
 * each to the next multiple of 16 bytes: so tiles are filled in whole pieces, and products with few rows, which sum down the
 * columns, read each element of the operand once.
 */
#include "passes/gemm.h"
#include "passes/module.h"
#include "passes/points.h"

#include <assert.h>

typedef struct Deps {
	Module *m;
	const Node *n;
	bool ok;
} Deps;

static void constant_load(void *arg, Expr *e)
{
	Deps *d = arg;

	if (e->kind == EX_LOAD)
		d->ok = d->ok && (e->load.buf->data ||
				  (e->load.buf->kind == BUF_IN &&
				   value_is_weights(d->m, node_in(d->n, e->load.buf->param))));
	if (e->kind == EX_DIM)
		d->ok = false;
}

bool expr_is_weights(Module *m, const Node *n, Expr *e)
{
	Deps d = {m, n, true};

	ex_walk(e, constant_load, &d);
	return d.ok;
}

/* Panels: g, outer n, n / panel, k, n % panel. */
static const Type *in_panels(Module *m, const Contraction *c, const Type *plain)
{
	Layout l = {0};
	const int last = plain->rank - 1;

	for (int i = 0; i < c->ng; i++)
		l.ax[l.n++] = (LayoutAxis){.dim = i};
	for (int i = 0; i + 1 < c->nn; i++)
		l.ax[l.n++] = (LayoutAxis){.dim = c->ng + c->nk + i};
	l.ax[l.n++] = (LayoutAxis){.dim = last, .div = gemm_panel(c->ct)};
	for (int i = 0; i < c->nk; i++)
		l.ax[l.n++] = (LayoutAxis){.dim = c->ng + i};
	l.ax[l.n++] = (LayoutAxis){.dim = last, .mod = gemm_panel(c->ct)};
	return type_with_layout(m->ctx, plain, &l);
}

static int piece_of(const Contraction *c)
{
	return 128 / dtype_info[contraction_type(c->b)].bits;
}

/* Rows along n, padded to pieces of 16 bytes where they are those of one iterator. */
static const Type *in_rows(Module *m, const Contraction *c, const Type *plain)
{
	const int last = plain->rank - 1, piece = piece_of(c);
	Layout l = {0};

	if (c->nn > 1 || dim_multiple(m->ctx, plain->dims[last], piece))
		return plain;
	for (int i = 0; i < last; i++)
		l.ax[l.n++] = (LayoutAxis){.dim = i};
	l.ax[l.n++] = (LayoutAxis){.dim = last, .div = piece};
	l.ax[l.n++] = (LayoutAxis){.dim = last, .mod = piece};
	return type_with_layout(m->ctx, plain, &l);
}

/* The product may have so few rows that it is no matter of tiles, and more than one. */
static bool may_have_few_rows(Kernel *k, const Contraction *c)
{
	int64_t least = 1, most = 1;

	for (int i = 0; i < c->nm; i++) {
		int64_t lo, hi;

		dim_bounds(k->ctx, c->m[i]->extent, &lo, &hi);
		least = lo < 1                                      ? least
			: __builtin_mul_overflow(least, lo, &least) ? INT64_MAX
								    : least;
		most = hi <= 1 ? most : INT64_MAX;
	}
	return least < GEMM_ROWS && most > 1;
}

typedef enum Lies { LIES_ELSE, LIES_ALONG_N, LIES_ALONG_K } Lies;

/* How B lies as it is: rows along n, or along all of k. */
static Lies lies(Kernel *k, const Contraction *c)
{
	const Expr *b = c->b;
	Affine a;

	if (b->kind != EX_LOAD || !ex_affine(k->ctx, flat_index(k, b->load.buf, b->load.idx), &a))
		return LIES_ELSE;
	if (dim_equals(affine_coef(k->ctx, &a, c->n[c->nn - 1]), 1))
		return LIES_ALONG_N;
	for (int i = 0; i + 1 < c->nk; i++) {
		Pair p = {k, c->k[i], c->k[i + 1], c->k[i + 1]->extent, NULL};

		if (!pair_joins(&p, c->b))
			return LIES_ELSE;
	}
	return dim_equals(affine_coef(k->ctx, &a, c->k[c->nk - 1]), 1) ? LIES_ALONG_K : LIES_ELSE;
}

/* A tile of B, lying as it does, would be filled by less than pieces, or B be read along k by products of few rows. */
static bool better_in_rows(Kernel *k, const Contraction *c)
{
	Dim *sum = dim_const(k->ctx, 1);

	if (c->nn != 1)
		return false;
	if (lies(k, c) == LIES_ALONG_N)
		return !dim_multiple(k->ctx, c->n[0]->extent, piece_of(c));
	for (int i = 0; i < c->nk; i++)
		sum = dim_mul(k->ctx, sum, c->k[i]->extent);
	return may_have_few_rows(k, c) || !dim_multiple(k->ctx, sum, piece_of(c));
}

/* The product of N, as *C, has V as B, as V lies. */
static bool multiplies(Node *n, const Value *v, Contraction *c)
{
	Kernel *k = node_kernel(n);

	return k && !node_on_host(n) && gemm_takes(k, c, true) && !c->guard_b &&
	       lies(k, c) != LIES_ELSE && c->b->load.buf->kind == BUF_IN &&
	       node_in(n, c->b->load.buf->param) == v;
}

/* So it is for all that read what the product of N reads as B: in rows it takes the place of what there was. */
static bool all_better_in_rows(Module *m, const Node *n, const Contraction *c)
{
	Contraction other;

	if (c->b->load.buf->kind != BUF_IN)
		return false;
	for (const Use *u = node_in(n, c->b->load.buf->param)->uses; u; u = u->next)
		if (!u->user || (!value_is_weights(m, u->user->out[0]) &&
				 !(multiplies(u->user, node_in(n, c->b->load.buf->param), &other) &&
				   better_in_rows(node_kernel(u->user), &other))))
			return false;
	return true;
}

/* A GPU's tiles take an operand by rows that run along n, or along all of k; where nobody holds the constant as it is, it
 * comes to lie such that a row is whole pieces. */
static bool lies_well(Module *m, const Node *n, const Contraction *c)
{
	Kernel *k = node_kernel(n);

	return lies(k, c) != LIES_ELSE && !(better_in_rows(k, c) && all_better_in_rows(m, n, c));
}

/* A kernel packed[g.., k.., n..] = B, over copies of the statement's iterators. */
static Value *pack(Module *m, Node *n, Contraction *c)
{
	Kernel *ck = node_kernel(n),
	       *k = kernel_new(m->ctx, m->arena, arena_printf(m->arena, "%s_pack", ck->name));
	Iter *from[MAX_ITERS], *it[MAX_ITERS];
	Expr *with[MAX_ITERS];
	Value *in[MAX_PARAMS];
	Dim *dims[MAX_RANK];
	int rank = 0, nin = 0;
	int64_t v;
	const Type *t;
	Buf *out;
	Node *kn;

	if (c->ng + c->nn + c->nk > MAX_RANK)
		return NULL;
	for (int i = 0; i < c->ng; i++)
		from[rank++] = c->g[i];
	for (int i = 0; i < c->nk; i++)
		from[rank++] = c->k[i];
	for (int i = 0; i < c->nn; i++)
		from[rank++] = c->n[i];
	for (int i = 0; i < rank; i++) {
		if (!dim_is_const(from[i]->extent, &v))
			return NULL;
		dims[i] = from[i]->extent;
		it[i] = kernel_iter(k, from[i]->name, dims[i]);
		with[i] = ex_iter(k->pool, it[i]);
	}
	t = type_tensor(m->ctx, module_on_gpu(m) ? contraction_type(c->b) : ctype_dtype(c->ct),
			rank, dims);
	t = module_on_gpu(m) ? in_rows(m, c, t) : in_panels(m, c, t);
	out = kernel_buf(k, BUF_OUT, "packed", t);
	kernel_map_id(k, it, out, kernel_import_expr(k, ck, c->b, from, with, rank, n, in, &nin));
	kn = node_new(m->graph, OP_Kernel, in, nin, 1, n);
	node_locs_from(kn, n);
	kn->out[0]->type = t;
	kernel_node_set(kn, k);
	return kn->out[0];
}

typedef struct Import {
	Kernel *k;
	Buf **map;
} Import;

static Expr *import_load(void *arg, Expr *e)
{
	Import *im = arg;

	return e->kind == EX_LOAD
		       ? ex_load(im->k->pool, im->map[e->load.buf->id], e->load.idx, e->load.nidx)
		       : NULL;
}

typedef struct Mark {
	bool *used;
} Mark;

static void mark_buf(void *arg, Expr *e)
{
	if (e->kind == EX_LOAD)
		((Mark *)arg)->used[e->load.buf->id] = true;
}

Expr *kernel_import_expr(Kernel *k, Kernel *from, Expr *e, Iter *const *it, Expr *const *with,
			 int n, const Node *node, Value **in, int *nin)
{
	Mark m = {NEW_ARRAY(k->arena, from->bufs.n + 1, bool)};
	Import im = {k, NEW_ARRAY(k->arena, from->bufs.n + 1, Buf *)};

	ex_walk(e, mark_buf, &m);
	for (int i = 0; i < from->bufs.n; i++) {
		Buf *b = NEW(k->arena, Buf);

		if (!m.used[i])
			continue;
		*b = *from->bufs.at[i];
		b->id = k->bufs.n;
		if (b->kind == BUF_IN) {
			in[*nin] = node_in(node, b->param);
			b->param = (*nin)++;
		}
		vec_push(k->arena, &k->bufs, b);
		im.map[i] = b;
	}
	return ex_subst_iters(k->pool, ex_rewrite(k->pool, e, import_load, &im), it, with, n);
}

static bool has_layout(Expr *b)
{
	return b->kind == EX_LOAD && b->load.buf->layout;
}

bool pack_operand(Module *m, Node *n)
{
	Kernel *k = node_kernel(n);
	Contraction c;
	Value *packed;
	Buf *buf;
	Expr *idx[MAX_RANK], *val;
	int r = 0;

	for (int i = 0; i < k->bufs.n; i++)
		k->bufs.at[i]->id = i;
	if (!gemm_takes(k, &c, true) || c.guard_b || has_layout(c.b) ||
	    !expr_is_weights(m, n, c.b) || (module_on_gpu(m) && lies_well(m, n, &c)))
		return false;
	packed = pack(m, n, &c);
	if (!packed)
		return false;
	buf = kernel_buf(k, BUF_IN, "packed", packed->type);
	buf->param = n->nin;
	node_set_input(n, n->nin, packed);
	for (int i = 0; i < c.ng; i++)
		idx[r++] = ex_iter(k->pool, c.g[i]);
	for (int i = 0; i < c.nk; i++)
		idx[r++] = ex_iter(k->pool, c.k[i]);
	for (int i = 0; i < c.nn; i++)
		idx[r++] = ex_iter(k->pool, c.n[i]);
	val = ex_op2(k->pool, IN_mul, c.a, ex_load(k->pool, buf, idx, r));
	c.s->val[0] = val;
	node_drop_unused_inputs(n);
	return true;
}

/* Operands that no statement of the kernel reads any more leave the node. */
void node_drop_unused_inputs(Node *n)
{
	Kernel *k = node_kernel(n);
	Value *in[MAX_PARAMS];
	int nin = 0;

	kernel_mark_used(k);
	for (int i = 0; i < k->bufs.n; i++)
		if (k->bufs.at[i]->kind == BUF_IN) {
			in[nin] = node_in(n, k->bufs.at[i]->param);
			k->bufs.at[i]->param = nin++;
		}
	for (int i = 0; i < nin; i++)
		node_set_input(n, i, in[i]);
	node_truncate_inputs(n, nin);
}
