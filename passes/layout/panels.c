/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives the constant operand of a contraction the panel layout that the micro-kernel reads, by a
 * kernel that copies the operand expression (transposes, conversions and all) into a packed
 * constant. That kernel reads only constants, so it is executed at compile time. All CPU targets
 * share the layout; product_panel (passes/forms/product.c) gives the columns of a panel. On GPUs
 * either operand is stored in the order of fragments (passes/layout/fragments.c) where matrix
 * instructions read it; else B has rows that are contiguous along n, each padded to a multiple of
 * 16 bytes. Tiles can then be filled in pieces of 16 bytes, and skinny products, which sum down the
 * columns, read each element of the operand once.
 *
 * With --activations-as=bf16, the operand that is multiplied by panels of bf16 is rounded to bf16,
 * so that CPUs multiply two terms at a time (codegen/c/tile_dot.c). The rounding pays since each
 * element is used for all columns of a panel.
 */
#include "passes/layout/panels_impl.h"

#include "passes/layout/fragments.h"
#include "passes/forms/points.h"
#include "passes/forms/form.h"
#include "passes/forms/scaled.h"

#include <assert.h>

/* The panel layout: g, outer n, n / panel, k, n % panel. The terms of a product of bytes are one
 * dim in groups of four: g, outer n, n / panel, k / 4, n % panel, k % 4. The terms of a bf16 B are
 * in pairs: k / 2 and k % 2. */
static const Type *in_panels(Module *m, const Contraction *c, const Type *plain)
{
	Layout l = {0};
	const int last = plain->rank - 1, kpack = contraction_kpack(c),
		  terms = kpack > 1 ? 1 : c->nk;
	const int64_t columns = product_panel(m->target, m->ntargets, c->ct);

	for (int i = 0; i < c->ng; i++)
		l.ax[l.n++] = (LayoutAxis){.dim = i};
	for (int i = 0; i + 1 < c->nn; i++)
		l.ax[l.n++] = (LayoutAxis){.dim = c->ng + terms + i};
	l.ax[l.n++] = (LayoutAxis){.dim = last, .div = columns};
	for (int i = 0; i < terms; i++)
		l.ax[l.n++] = (LayoutAxis){.dim = c->ng + i, .div = kpack > 1 ? kpack : 0};
	l.ax[l.n++] = (LayoutAxis){.dim = last, .mod = columns};
	if (kpack > 1)
		l.ax[l.n++] = (LayoutAxis){.dim = c->ng, .mod = kpack};
	return type_with_layout(m->ctx, plain, &l);
}

static int piece_of(const Contraction *c)
{
	return 128 / dtype_info[contraction_type(c->b)].bits;
}

/* The layout of rows along n, padded to multiples of 16 bytes if n is a single iterator. */
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

/* The product may have too few rows for a tile, but it has more than one. */
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

typedef enum Contiguity { CONTIGUOUS_OTHER, CONTIGUOUS_N, CONTIGUOUS_K } Contiguity;

/* The type of packed B on CPUs. Halves keep their type, and tiles widen them, if all targets have
 * an instruction for that or the option asks for it. */
static DType panel_type(const Module *m, const Contraction *c)
{
	const DType t = contraction_type(c->b);
	bool narrow = true;

	if (contraction_kpack(c) > 1)
		return t;
	if (c->ct != CT_F32 || !dtype_is_half(t))
		return ctype_dtype(c->ct);
	for (int i = 0; i < m->ntargets; i++)
		narrow = narrow && (t == DT_BF16 || m->target[i]->f16);
	return narrow || m->opt.weight_type == t ? t : DT_F32;
}

/* The iterators along which B is contiguous: along n, or along all of k. */
static Contiguity contiguity(Kernel *k, const Contraction *c)
{
	const Expr *b = c->b;
	Affine a;

	if (b->kind != EX_LOAD || !ex_affine(k->ctx, flat_index(k, b->load.buf, b->load.idx), &a))
		return CONTIGUOUS_OTHER;
	if (dim_equals(affine_coef(k->ctx, &a, c->n[c->nn - 1]), 1))
		return CONTIGUOUS_N;
	for (int i = 0; i + 1 < c->nk; i++) {
		Pair p = {k, c->k[i], c->k[i + 1], c->k[i + 1]->extent, NULL};

		if (!pair_joins(&p, c->b))
			return CONTIGUOUS_OTHER;
	}
	return dim_equals(affine_coef(k->ctx, &a, c->k[c->nk - 1]), 1) ? CONTIGUOUS_K
								       : CONTIGUOUS_OTHER;
}

/* The contraction that tiles of M's devices compute for N, with B packed; null: there is none. */
static const Contraction *tiles_of(Module *m, Node *n)
{
	const Form *f = module_form(m, n);

	return (module_on_gpu(m) ? f->tiled_gpu : f->tiled_packed) ? &f->c : NULL;
}

/* B is better stored in rows along n: in its present order tiles could not be filled in pieces of
 * 16 bytes, or skinny products would read it along k. */
static bool better_in_rows(Kernel *k, const Contraction *c)
{
	Dim *sum = dim_const(k->ctx, 1);

	if (c->nn != 1)
		return false;
	if (contiguity(k, c) == CONTIGUOUS_N)
		return !dim_multiple(k->ctx, c->n[0]->extent, piece_of(c));
	for (int i = 0; i < c->nk; i++)
		sum = dim_mul(k->ctx, sum, c->k[i]->extent);
	return may_have_few_rows(k, c) || !dim_multiple(k->ctx, sum, piece_of(c));
}

/* N is a product whose operand B is V, unchanged, and should be stored in rows. */
static bool wants_rows(Module *m, Node *n, const Value *v)
{
	Kernel *k = node_kernel(n);
	const Contraction *c = k && !node_on_host(n) ? tiles_of(m, n) : NULL;

	return c && !c->guard_b && contiguity(k, c) != CONTIGUOUS_OTHER && c->b->load.buf->kind == BUF_IN &&
	       node_in(n, c->b->load.buf->param) == v && better_in_rows(k, c);
}

/* better_in_rows holds for all readers of operand B of N's product, so that the rows can replace
 * the original. */
static bool all_better_in_rows(Module *m, const Node *n, const Contraction *c)
{
	if (c->b->load.buf->kind != BUF_IN)
		return false;
	for (const Use *u = node_in(n, c->b->load.buf->param)->uses; u; u = u->next)
		if (!u->user || (!value_is_weights(m, u->user->out[0]) &&
				 !wants_rows(m, u->user, node_in(n, c->b->load.buf->param))))
			return false;
	return true;
}

/* Operand B suits a GPU's tiles without a copy: it is contiguous along n or along all of k. If
 * nothing else needs the original, it is stored so that each row is a multiple of 16 bytes. */
static bool suits_tiles(Module *m, const Node *n, const Contraction *c)
{
	Kernel *k = node_kernel(n);

	return contiguity(k, c) != CONTIGUOUS_OTHER &&
	       !(better_in_rows(k, c) && all_better_in_rows(m, n, c));
}

/* ---- The order of fragments ---- */

static bool has_layout(Expr *b)
{
	return b->kind == EX_LOAD && b->load.buf->layout;
}

static bool may_be(Ctx *c, Iter *const *it, int n, int least)
{
	int64_t lo, hi = DIM_INF;

	dim_bounds(c, iters_points(c, it, n), &lo, &hi);
	return hi >= least;
}

static bool all_have_instruction(const Module *m, const Contraction *c)
{
	for (int i = 0; i < m->ntargets; i++)
		if (!product_instruction(c, m->target[i]->gpu, m->opt.tf32))
			return false;
	return true;
}

/* The summed dims of B may stay separate: the last one is a multiple of a block of terms, or is the
 * only one. */
static bool terms_apart(Ctx *ctx, const Contraction *c, int size)
{
	return c->nk == 1 || dim_multiple(ctx, c->k[c->nk - 1]->extent, size);
}

/* The sum traverses its terms in the statement's order, as it must if they become one dim and A is
 * that operand (stmt_contraction). */
static bool in_order(const Contraction *c)
{
	for (int i = 0; i < c->nk; i++)
		if (c->k[i] != c->s->iter[c->s->nband + i])
			return false;
	return true;
}

/* IS_B: the operand is the kernel's B, so the product may be skinny; then the sum must be whole
 * steps of an instruction. */
static bool suits_fragments(Module *m, Node *n, const Contraction *c, bool is_b)
{
	Kernel *k = node_kernel(n);
	const int size = fragment_terms(contraction_type(c->b));

	return !c->guard_b && (is_b || terms_apart(k->ctx, c, size) || in_order(c)) && c->nn == 1 &&
	       c->nm && all_have_instruction(m, c) && c->ng + c->nk + 8 <= MAX_RANK &&
	       may_be(k->ctx, c->n, c->nn, GEMM_ROWS) && may_be(k->ctx, c->m, c->nm, GEMM_ROWS) &&
	       may_be(k->ctx, c->k, c->nk, GEMM_TERMS) &&
	       !(is_b && may_have_few_rows(k, c) &&
		 (c->nk > 1 || !dim_multiple(k->ctx, c->k[0]->extent, size / 2))) &&
	       module_form(m, n)->whole;
}

static bool reads(const Node *n, const Expr *e, const Value *v)
{
	return e->kind == EX_LOAD && e->load.buf->kind == BUF_IN && !e->load.buf->layout &&
	       node_in(n, e->load.buf->param) == v;
}

/* N is a product that reads V as an operand that suits fragments. */
static bool suits_reader(Module *m, Node *n, const Value *v)
{
	Kernel *k = node_kernel(n);
	const Contraction *tiles = k && !node_on_host(n) ? tiles_of(m, n) : NULL;
	Contraction c;
	bool is_b;

	if (!tiles)
		return false;
	c = *tiles;
	is_b = reads(n, c.b, v);
	if (!is_b)
		contraction_swap(&c);
	return reads(n, c.b, v) && suits_fragments(m, n, &c, is_b);
}

/* B of C is a constant, and all of its readers need it in the order of fragments, so that no other
 * copy remains. */
static bool wants_fragments(Module *m, Node *n, const Contraction *c, bool is_b)
{
	const Expr *b = c->b;
	const Value *v;

	if (!suits_fragments(m, n, c, is_b) || has_layout(c->b) || !expr_is_weights(m, n, c->b))
		return false;
	if (b->kind != EX_LOAD || b->load.buf->kind != BUF_IN)
		return true;
	v = node_in(n, b->load.buf->param);
	for (const Use *u = v->uses; u; u = u->next)
		if (!u->user ||
		    (!value_is_weights(m, u->user->out[0]) && !suits_reader(m, u->user, v)))
			return false;
	return true;
}

/* ---- Packing ---- */

void packing_add(Packing *p, Iter *const *it, int n)
{
	for (int i = 0; i < n; i++) {
		p->it[p->rank] = kernel_iter(p->k, it[i]->name, it[i]->extent);
		p->from[p->nfrom] = it[i];
		p->with[p->nfrom++] = ex_iter(p->k->pool, p->it[p->rank++]);
	}
}

void packing_join(Packing *p, Iter *const *it, int n)
{
	ExprPool *pool = p->k->pool;
	Iter *all = p->it[p->rank++] = kernel_iter(p->k, "t", iters_points(p->k->ctx, it, n));

	iters_split(pool, it, n, ex_iter(pool, all), p->with + p->nfrom);
	for (int i = 0; i < n; i++)
		p->from[p->nfrom++] = it[i];
}

static bool joins_terms(const Packing *p)
{
	if (!module_on_gpu(p->m))
		return contraction_kpack(p->c) > 1;
	return p->fragments &&
	       !terms_apart(p->m->ctx, p->c, fragment_terms(contraction_type(p->c->b)));
}

static const Type *packed_type(const Packing *p)
{
	const Contraction *c = p->c;
	const bool gpu = module_on_gpu(p->m);
	Dim *dims[MAX_RANK];
	const Type *t;

	for (int i = 0; i < p->rank; i++) {
		dims[i] = p->it[i]->extent;
		if (!dim_is_const(dims[i], NULL))
			return NULL;
	}
	t = type_tensor(p->m->ctx, gpu ? contraction_type(c->b) : panel_type(p->m, c), p->rank,
			dims);
	return p->fragments ? fragment_type(p->m->ctx, t, c->ng)
	       : gpu        ? in_rows(p->m, c, t)
			    : in_panels(p->m, c, t);
}

Value *packing_close(Packing *p, Expr *e, const Type *t)
{
	Buf *out = kernel_buf(p->k, BUF_OUT, "packed", t);
	Value *in[MAX_PARAMS];
	int nin = 0;
	Node *kn;

	kernel_map_id(p->k, p->it, out,
		      kernel_import_expr(p->k, node_kernel(p->n), e, p->from, p->with, p->nfrom,
					 p->n, in, &nin));
	kn = node_new(p->m->graph, OP_Kernel, in, nin, 1, p->n);
	node_locs_from(kn, p->n);
	kn->out[0]->type = t;
	kernel_node_set(kn, p->k);
	return kn->out[0];
}

/* Panels of type T have an order: some CPU multiplies their bytes in pairs. */
static bool wants_order(const Module *m, const Contraction *c, const Type *t)
{
	bool pairs = false;

	for (int i = 0; i < m->ntargets && !module_on_gpu(m); i++)
		pairs = pairs || m->target[i]->dot == DOT_PAIRS;
	return pairs && contraction_kpack(c) > 1 && contraction_type(c->a) == DT_U8 &&
	       t->dtype == DT_I8 && !dim_equals(type_numel(m->ctx, t), 0);
}

/* Adds a kernel packed[g.., k.., n..] = B, over copies of the statement's iterators. */
static Value *pack(Module *m, Node *n, const Contraction *c, bool fragments)
{
	Kernel *k = kernel_new(m->ctx, m->arena,
			       arena_printf(m->arena, "%s_pack", node_kernel(n)->name));
	Packing p = {.m = m, .n = n, .c = c, .fragments = fragments, .k = k};
	const Type *t;

	if (c->ng + c->nn + c->nk > MAX_RANK)
		return NULL;
	packing_add(&p, c->g, c->ng);
	(joins_terms(&p) ? packing_join : packing_add)(&p, c->k, c->nk);
	packing_add(&p, c->n, c->nn);
	t = packed_type(&p);
	if (!t)
		return NULL;
	if (!wants_order(m, c, t))
		return packing_close(&p, c->b, t);
	return panels_with_order(m, n, packing_close(&p, c->b, type_with_layout(m->ctx, t, NULL)),
				 c, t->layout);
}

Expr *packed_term(ExprPool *p, const Contraction *c)
{
	Expr *term = ex_int(p, CT_I64, 0);

	for (int i = 0; i < c->nk; i++)
		term = ex_add(p, ex_mul(p, term, ex_dim(p, c->k[i]->extent)), ex_iter(p, c->k[i]));
	return term;
}

/* The load of PACKED that replaces operand B of C, in N's kernel. */
static Expr *load_packed(Node *n, const Contraction *c, Value *packed)
{
	Kernel *k = node_kernel(n);
	Buf *buf = node_add_operand(n, "packed", packed);
	Expr *idx[MAX_RANK];
	int r = 0;

	for (int i = 0; i < c->ng; i++)
		idx[r++] = ex_iter(k->pool, c->g[i]);
	for (int i = 0; i < c->nk; i++)
		idx[r + i] = ex_iter(k->pool, c->k[i]);
	if (packed->type->rank == c->ng + c->nk + c->nn)
		r += c->nk;
	else
		idx[r++] = packed_term(k->pool, c);
	for (int i = 0; i < c->nn; i++)
		idx[r++] = ex_iter(k->pool, c->n[i]);
	return ex_load(k->pool, buf, idx, r);
}

/* Packs B of C; SWAPPED: B is operand A of the kernel. */
static bool pack_as(Module *m, Node *n, Contraction *c, bool fragments, bool swapped)
{
	Kernel *k = node_kernel(n);
	Value *packed = pack(m, n, c, fragments);
	Expr *load, *a = c->a;

	if (!packed)
		return false;
	load = load_packed(n, c, packed);
	if (m->opt.bf16_activations && !module_on_gpu(m) && packed->type->dtype == DT_BF16)
		a = ex_round(k->pool, DT_BF16, a);
	c->s->val[0] = ex_op2(k->pool, IN_mul, swapped ? load : a, swapped ? a : load);
	return true;
}

/* ---- Rows ---- */

/* Whether tiles would copy operand A of C, a constant, in each block of the product of N, since its
 * terms are not apart by one step. */
static bool copies_rows(Module *m, Node *n, const Contraction *c)
{
	Product p;

	return !c->guard_a && !has_layout(c->a) && expr_is_weights(m, n, c->a) &&
	       contraction_kpack(c) == 1 && contraction_type(c->a) == ctype_dtype(c->ct) &&
	       c->ng + c->nm + c->nk <= MAX_RANK && product_begin(&p, node_kernel(n)) &&
	       p.c.s == c->s && p.c.a == c->a && !p.a_direct;
}

/* Stores A of C, a product of N, in rows of its terms, if tiles would do so: the filter of a
 * transposed convolution, for example, whose taps lie in another order for each phase of its
 * stride. From 64 channels of 32x32 to 32 of 64x64 by 4x4 took 1.7 times as long. */
static bool pack_rows(Module *m, Node *n, const Contraction *c)
{
	Kernel *k = node_kernel(n);
	Packing p = {.m = m,
		     .n = n,
		     .c = c,
		     .k = kernel_new(m->ctx, m->arena, arena_printf(m->arena, "%s_rows", k->name))};
	Dim *dims[MAX_RANK];
	Expr *idx[MAX_RANK];
	Value *rows;

	if (!copies_rows(m, n, c))
		return false;
	packing_add(&p, c->g, c->ng);
	packing_add(&p, c->m, c->nm);
	packing_add(&p, c->k, c->nk);
	for (int i = 0; i < p.rank; i++) {
		dims[i] = p.it[i]->extent;
		idx[i] = ex_iter(k->pool, p.from[i]);
		if (!dim_is_const(dims[i], NULL))
			return false;
	}
	rows = packing_close(&p, c->a, type_tensor(m->ctx, ctype_dtype(c->ct), p.rank, dims));
	c->s->val[0] = ex_op2(k->pool, IN_mul,
			      ex_load(k->pool, node_add_operand(n, "rows", rows), idx, p.rank),
			      c->b);
	return true;
}

/* ---- Matrices chosen by data ---- */

/* The indices of operand B of C in N that choose a matrix: those that depend on data and on no
 * iterator but g. IT[i] replaces INDEX[i]. */
typedef struct Chosen {
	Module *m;
	const Node *n;
	const Contraction *c;
	Expr *index[MAX_RANK];
	Iter *it[MAX_RANK];
	int count;
} Chosen;

/* The iterator for index E of a dim of EXTENT; null: there are too many. */
static Iter *chosen_iter(Chosen *ch, Expr *e, Dim *extent)
{
	for (int i = 0; i < ch->count; i++)
		if (ch->index[i] == e && ch->it[i]->extent == extent)
			return ch->it[i];
	if (ch->count == MAX_RANK)
		return NULL;
	ch->index[ch->count] = e;
	return ch->it[ch->count++] = kernel_iter(node_kernel(ch->n), "e", extent);
}

static Expr *choose(Chosen *ch, Expr *e)
{
	const Contraction *c = ch->c;
	ExprPool *pool = node_kernel(ch->n)->pool;
	const Value *v = node_loaded(ch->n, e);
	Expr *idx[MAX_RANK];
	bool any = false;

	if (!v || !value_is_weights(ch->m, v) || e->load.nidx != e->load.buf->rank)
		return NULL;
	for (int d = 0; d < e->load.nidx; d++) {
		Expr *i = e->load.idx[d];
		Iter *it = expr_is_weights(ch->m, ch->n, i) || expr_has_any(i, c->n, c->nn) ||
					   expr_has_any(i, c->k, c->nk)
				   ? NULL
				   : chosen_iter(ch, i, e->load.buf->dims[d]);

		idx[d] = it ? ex_iter(pool, it) : i;
		any = any || it;
	}
	return any ? ex_load(pool, e->load.buf, idx, e->load.nidx) : NULL;
}

/* Sets *OUT to C with a B that depends only on constants: its data-dependent indices become
 * iterators of g.
 *
 *     C:     B = w[c[i],n,k]
 *     *OUT:  B = w[e,n,k]         for all e; CH maps e to c[i]
 *
 * False if there are no such indices, or if that does not make B a constant. */
static bool choose_matrices(Chosen *ch, Contraction *out)
{
	const Contraction *c = ch->c;

	*out = *c;
	EX_MAP (e, node_kernel(ch->n)->pool, &out->b)
		e = choose(ch, e) ?: e;
	out->ng = 0;
	if (!ch->count || ch->count + c->ng > MAX_ITERS || !expr_is_weights(ch->m, ch->n, out->b))
		return false;
	for (int i = 0; i < ch->count; i++)
		out->g[out->ng++] = ch->it[i];
	for (int i = 0; i < c->ng; i++)
		if (expr_has_iter(out->b, c->g[i]))
			out->g[out->ng++] = c->g[i];
	return true;
}

/* Packs all matrices of the constant from which C, the product of N, chooses some. */
static bool pack_chosen(Module *m, Node *n, const Contraction *c)
{
	ExprPool *pool = node_kernel(n)->pool;
	Chosen ch = {.m = m, .n = n, .c = c};
	Contraction all;

	if (!choose_matrices(&ch, &all) ||
	    !(pack_scaled(m, n, &all) || pack_as(m, n, &all, false, false)))
		return false;
	c->s->val[0] = ex_subst_iters(pool, c->s->val[0], ch.it, ch.index, ch.count);
	return true;
}

/* pack_operand; N may keep operands that it no longer reads. */
static bool pack_in_place(Module *m, Node *n)
{
	const bool gpu = module_on_gpu(m);
	const Contraction *tiles = tiles_of(m, n);
	Contraction c, swapped;

	if (!tiles)
		return false;
	c = *tiles;
	if (gpu && wants_fragments(m, n, &c, true))
		return pack_as(m, n, &c, true, false);
	swapped = c;
	contraction_swap(&swapped);
	if (gpu && wants_fragments(m, n, &swapped, false))
		return pack_as(m, n, &swapped, true, true);
	if (!gpu && pack_rows(m, n, &c))
		return true;
	if (c.guard_b || has_layout(c.b))
		return false;
	if (!expr_is_weights(m, n, c.b))
		return !gpu && pack_chosen(m, n, &c);
	if (gpu)
		return !suits_tiles(m, n, &c) && pack_as(m, n, &c, false, false);
	return pack_groups(m, n, &c) || pack_scaled(m, n, &c) || pack_as(m, n, &c, false, false);
}

bool pack_operand(Module *m, Node *n)
{
	const bool packed = pack_in_place(m, n);

	if (packed) {
		node_drop_unused_inputs(n);
		form_changed(m, n);
	}
	return packed;
}

/* The reason why the rows of C, a product of N with constant weights, are not rounded to bf16;
 * null: they are, or N has no weights. */
static const char *why_not_rounded(Module *m, const Node *n, const Contraction *c, int64_t *rounded)
{
	const bool second = expr_is_weights(m, n, c->b);
	const Expr *weights = second ? c->b : c->a, *rows = second ? c->a : c->b;

	if (contraction_kpack(c) == 2 && ex_is_op(c->a, IN_round) &&
	    contraction_type(c->a) == DT_BF16) {
		++*rounded;
		return NULL;
	}
	if (c->ct != CT_F32 || !(second || expr_is_weights(m, n, c->a)))
		return NULL;
	if (contraction_type(weights) != DT_BF16)
		return "the weights are not bf16";
	if (contraction_type(rows) == DT_BF16)
		return "they are bf16 already";
	return !m->opt.level
		       ? "-O0 does not pack weights"
		       : "the weights are not packed in pairs of terms, as in depthwise convolutions";
}

void panels_report(Module *m)
{
	int64_t rounded = 0, kept = 0;

	if (!m->report || !m->opt.bf16_activations || module_on_gpu(m))
		return;
	for (Node *n = m->graph->first; n; n = n->next) {
		Kernel *k = node_kernel(n);

		for (int i = 0; k && !node_is_weights(m, n) && i < k->stmts.n; i++) {
			const Form f = form_of_stmt(k, k->stmts.at[i]);
			const char *why = f.c.s ? why_not_rounded(m, n, &f.c, &rounded) : NULL;

			if (why)
				scaled_report(m, n, "activations", &kept, why);
		}
	}
	scaled_report_rows(m, "bf16", rounded, kept,
			   rounded || m->opt.weight_type == DT_BF16 ? NULL
								    : "--weights-as=bf16, too");
}
