/* SPDX-License-Identifier: Apache-2.0 */
/* What products and attention on GPUs share: the tiles of their trees, and parts of their
 * decisions. */
#include "passes/schedule/gpu/gpu_impl.h"

static LNode *declare(LBuild *b, const char *name, DType t, const int64_t *extent,
		      const TileLayout *l)
{
	Dim *dims[TILE_RANK];
	LNode *n = l_node(b, LN_LOCAL);

	for (int i = 0; i < l->rank; i++)
		dims[i] = dim_const(b->k->ctx, extent[i]);
	n->local.buf = kernel_temp(b->k, name, t, l->rank, dims);
	n->local.buf->tile = arena_copy(b->arena, l, sizeof *l);
	return n;
}

Buf *gpu_tile(LBuild *b, const char *name, DType t, const int64_t *extent, const TileLayout *l)
{
	return declare(b, name, t, extent, l)->local.buf;
}

Buf *gpu_shared_tile(LBuild *b, const char *name, DType t, const int64_t *extent,
		     const TileLayout *l, int64_t at)
{
	LNode *n = declare(b, name, t, extent, l);

	n->local.at = l_int(b, at);
	return n->local.buf;
}

TileNode *gpu_op(LBuild *b, TileOp op, Buf *to, const char *const *names, const int *extent, int n)
{
	TileNode *node = NEW(b->arena, TileNode);

	*node = (TileNode){.op = op, .to = to, .n = n};
	for (int i = 0; i < n; i++)
		node->it[i] = l_iter(b, names[i], dim_const(b->k->ctx, extent[i]));
	return node;
}

LNode *gpu_add_op(LBuild *b, TileNode *op)
{
	LNode *n = l_node(b, LN_OP);

	n->op = op;
	return n;
}

void gpu_write(LBuild *b, TileNode *n, int rank)
{
	for (n->nidx = 0; n->nidx < rank; n->nidx++)
		n->idx[n->nidx] = ex_iter(b->p, n->it[n->nidx]);
}

bool gpu_is_multiple(const Dim *d, int64_t n)
{
	int64_t v;

	return dim_is_const(d, &v) && v % n == 0;
}

/* ---- Operands of products ---- */

/* LOAD is one aligned access of VECTOR elements along the last of the N iterators IT; JOINED: along
 * all of them, which are merged into one. */
static bool is_wide(Ctx *c, const Expr *load, Iter *const *it, int n, bool joined, int vector)
{
	const Buf *b = load->load.buf;
	const int first = joined ? 0 : n - 1;
	Affine a;

	if (b->data || dtype_info[b->dtype].bits < 8 || !ex_affine(c, load->load.idx[0], &a) ||
	    !dim_equals(affine_coef(c, &a, it[n - 1]), 1) || !dim_multiple(c, a.base, vector))
		return false;
	for (int i = 0; i < a.n; i++)
		if (!dim_multiple(c, a.coef[i], vector) &&
		    !iter_among(a.iter[i], it + first, n - first))
			return false;
	return true;
}

int gpu_wide_loads(Kernel *k, Expr *e, Iter *const *it, int n, bool joined, int vector)
{
	int wide = 0;

	if (!n)
		return 0;
	EX_EACH_LOAD (x, e)
		wide += is_wide(k->ctx, x, it, n, joined, vector);
	return wide;
}

/* The iterators can be merged in all loads of O. */
static bool joins_all(Kernel *k, const TileOperand *o, Iter *const *it, int n)
{
	for (int i = 0; i + 1 < n; i++) {
		Pair p = {k, it[i], it[i + 1], it[i + 1]->extent, NULL};

		if (!pair_joins(&p, o->val))
			return false;
		if (o->guard &&
		    (expr_has_iter(o->guard, it[i]) || expr_has_iter(o->guard, it[i + 1])))
			return false;
	}
	return true;
}

/* The multiple to which the layout pads rows of O along IT; 1: no padding. */
static int64_t padded_along(const TileOperand *o, const Iter *it)
{
	const Layout *l = o->val->kind == EX_LOAD ? o->val->load.buf->layout : NULL;

	return o->nside == 1 && o->side[0] == it && l && layout_pads(l, l->n - 1)
		       ? l->ax[l->n - 1].mod
		       : 1;
}

/* Elements of a chunk along the last of the N iterators IT; BYTES is the size of an element in the
 * tile. */
static int chunk_of(Kernel *k, const TileOperand *o, Iter *const *it, int n, bool joined, int bytes)
{
	Iter *last = n ? it[n - 1] : NULL;
	Dim *run = n && !joined ? last->extent : iters_points(k->ctx, it, n);
	int vector = VECTOR_BYTES / bytes;

	if (!n || (o->guard && expr_has_iter(o->guard, last)))
		return 1;
	while (vector > 1 &&
	       !((dim_multiple(k->ctx, run, vector) || padded_along(o, last) % vector == 0) &&
		 gpu_wide_loads(k, o->val, it, n, joined, vector)))
		vector /= 2;
	return vector;
}

void gpu_operand_open(Kernel *k, const Gpu *gpu, TileOperand *o, Iter *const *term, int n)
{
	const int bytes = dtype_bytes(o->type);
	const Buf *b = o->val->kind == EX_LOAD ? o->val->load.buf : NULL;
	int vectors[2], units[2]; /* along the terms; along the free side */

	if (o->lanes) {
		o->along = o->k_joins = o->side_joins = true;
		o->vector = VECTOR_BYTES / bytes;
		o->async = gpu->sm >= 80;
		return;
	}
	o->k_joins = joins_all(k, o, term, n);
	o->side_joins = joins_all(k, o, o->side, o->nside);
	vectors[0] = chunk_of(k, o, term, n, o->k_joins, bytes);
	vectors[1] = chunk_of(k, o, o->side, o->nside, o->side_joins, bytes);
	units[0] = gpu_wide_loads(k, o->val, term, n, o->k_joins, 1);
	units[1] = gpu_wide_loads(k, o->val, o->side, o->nside, o->side_joins, 1);
	o->along = vectors[0] > vectors[1] || (vectors[0] == vectors[1] && units[0] >= units[1]);
	o->vector = vectors[!o->along];
	o->async = gpu->sm >= 80 && b && !b->data && b->dtype == o->type &&
		   o->vector * bytes >= 4 && units[!o->along] &&
		   (o->along ? gpu_wide_loads(k, o->val, term, n, o->k_joins, o->vector)
			     : gpu_wide_loads(k, o->val, o->side, o->nside, o->side_joins,
					      o->vector));
}

OperandTile gpu_operand_tile(const TileOperand *o, MmaKind kind, int side, int terms)
{
	const int bytes = dtype_bytes(o->type);
	OperandTile t = {.rows = o->lanes   ? side / MMA_ROWS
				 : o->along ? side
					    : terms,
			 .cols = o->lanes   ? MMA_ROWS * terms
				 : o->along ? terms
					    : side};

	t.pitch = o->lanes || mma_is_wgmma(kind) ? (int64_t)t.cols * bytes
						 : tile_pitch(kind, t.cols, bytes, o->along);
	return t;
}

Buf *gpu_operand_declare(LBuild *b, const char *name, const TileOperand *o, const OperandTile *t,
			 MmaKind kind, int buffers, int64_t at)
{
	const int64_t extent[] = {buffers, t->rows, t->cols};
	const int bytes = dtype_bytes(o->type), dim = buffers > 0;
	TileLayout l = {.rank = dim + 2};

	if (buffers)
		layout_add(&l, 0, AT_ADDRESS, buffers, 1, t->rows * t->pitch);
	if (mma_is_wgmma(kind)) {
		tile_atoms(&l, dim, t->rows, t->cols, bytes);
	} else {
		layout_add(&l, dim, AT_ADDRESS, t->rows, 1, t->pitch);
		layout_add(&l, dim + 1, AT_ADDRESS, t->cols, 1, bytes);
	}
	return gpu_shared_tile(b, name, o->type, extent + !buffers, &l, at);
}

Expr *gpu_operand_at(LBuild *b, const TileOperand *o, Buf *tile, Expr *buffer, Iter *side,
		     Iter *term)
{
	ExprPool *p = b->p;
	Expr *s = ex_iter(p, side), *t = ex_iter(p, term), *idx[] = {buffer, s, t};
	const int first = buffer == NULL;

	if (o->lanes) {
		idx[1] = ex_op2(p, IN_floordiv, s, l_int(b, MMA_ROWS));
		idx[2] = tile_fragment_at(p, s, t, dtype_bytes(o->type));
	} else if (!o->along) {
		idx[1] = t;
		idx[2] = s;
	}
	return ex_load(p, tile, idx + first, 3 - first);
}

int gpu_mma_terms(MmaKind kind)
{
	return kind == MMA_FMA ? 8 : mma_info[kind].k;
}

bool gpu_fits(int64_t shared, int64_t most_shared, int registers, int most_registers, StrBuf *why)
{
	if (why && shared > most_shared)
		strbuf_printf(why, "%lld bytes of shared memory are more than a block's %lld",
			      (long long)shared, (long long)most_shared);
	else if (why && registers > most_registers)
		strbuf_printf(why, "about %d registers of a thread are more than %d", registers,
			      most_registers);
	return registers <= most_registers && shared <= most_shared;
}

bool gpu_hold_is_legal(const char *name, bool async, bool can, StrBuf *why)
{
	return !async || can ||
	       decision_refuse(
		       why,
		       "%s cannot be copied asynchronously: cp.async needs sm_80 or later, and loads of at least 4 bytes of the type that the product multiplies",
		       name);
}
