/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps on GPUs: a statement that stores each element once. A thread has as many adjacent elements
 * as 16 bytes hold, and adjacent threads have adjacent vectors.
 */
#include "passes/schedule/gpu/gpu_impl.h"

enum { MAP_THREADS = 256 };

/* Elements of the innermost iterator that a thread computes. *WHOLE: its extent is a multiple of
 * them. */
static int vector_of(Points *p, const Buf *out, bool *whole)
{
	Iter *in = p->n ? p->it[p->n - 1] : NULL;
	Ctx *c = p->k->ctx;
	int64_t n;
	int vector, bytes = dtype_bytes(out->dtype); /* of the largest element */

	*whole = false;
	if (!in || p->guard || !ex_runs_along(c, p->write, in))
		return 1;
	EX_EACH_LOAD (e, p->e[0])
		if (ex_runs_along(c, e->load.idx[0], in) && dtype_bytes(e->load.buf->dtype) > bytes)
			bytes = dtype_bytes(e->load.buf->dtype);
	if (dtype_info[out->dtype].bits < 8)
		bytes = 1;
	vector = gpu_vector(bytes, MOST_VECTOR);
	/* A row of few elements, such as the channels of a pixel, is a vector itself. */
	if (dim_is_const(in->extent, &n) && n > 1 && n < vector && (n & (n - 1)) == 0)
		vector = (int)n;
	*whole = dim_multiple(c, in->extent, vector);
	if (p->n > 1 && !*whole)
		return 1;
	return dim_is_const(in->extent, &n) && n < vector && dtype_info[out->dtype].bits >= 8
		       ? 1
		       : vector;
}

/* A thread's store of sub-byte elements fills whole bytes, so no other thread writes to these
 * bytes. */
static bool fills_bytes(Points *p, int vector)
{
	Affine a;

	return vector == MOST_VECTOR && p->n && ex_affine(p->k->ctx, p->write, &a) &&
	       affine_aligned(p->k->ctx, &a, p->it[p->n - 1], vector);
}

Points gpu_points(Kernel *k, Stmt *s)
{
	Points p = {.k = k, .ne = 1};

	for (int i = 0; i < s->niters; i++)
		points_add(&p, s->iter[i]);
	p.e[0] = expr_flatten(k, s->val[0]);
	p.guard = s->guard ? expr_flatten(k, s->guard) : NULL;
	p.write = flat_index(k, s->out[0], s->widx);
	p.write = expr_flatten(k, p.write);
	points_join(&p);
	return p;
}

/* Makes one iterator of P's: a thread then has adjacent elements even where rows do not end with a
 * byte. */
static void make_one_run(Points *p)
{
	if (!p->n) {
		p->it[p->n++] = kernel_iter(p->k, "t", dim_const(p->k->ctx, 1));
		p->write = ex_add(p->k->pool, p->write, ex_iter(p->k->pool, p->it[0]));
	}
	points_flatten(p);
}

static bool any_unknown(const Stmt *s)
{
	for (int i = 0; i < s->niters; i++)
		if (!dim_is_const(s->iter[i]->extent, NULL))
			return true;
	return false;
}

Dim *gpu_map_row(Kernel *k)
{
	Dim *row = NULL;

	for (int i = 0; i < k->stmts.n && !row; i++) {
		Arena *tmp;
		Kernel *copy;
		Points p;

		if (!stmt_is_map(k->stmts.at[i]) || !any_unknown(k->stmts.at[i]))
			continue;
		tmp = arena_new();
		copy = kernel_clone(k, tmp);
		p = gpu_points(copy, copy->stmts.at[i]);
		row = gpu_transpose_length(copy->stmts.at[i], &p);
		arena_free(tmp);
	}
	return row;
}

bool gpu_map(LBuild *b, Stmt *s)
{
	Kernel *k = b->k;
	Points p = gpu_points(k, s);
	Iter *in = NULL;
	Dim *inner = dim_const(k->ctx, 1);
	Expr *q, *lo;
	LNode *n, *loop = NULL;
	bool whole;
	int vector;

	if (gpu_transpose(b, s, &p))
		return true;
	vector = vector_of(&p, s->out[0], &whole);
	if (row_packed(s) && !fills_bytes(&p, vector)) {
		make_one_run(&p);
		vector = vector_of(&p, s->out[0], &whole);
		if (!fills_bytes(&p, vector))
			return false;
	}
	if (p.n) {
		in = p.it[--p.n];
		inner = whole || vector > 1
				? dim_ceildiv(k->ctx, in->extent, dim_const(k->ctx, vector))
				: in->extent;
	}
	l_of(b, s);
	l_stage(b, "map", dim_mul(k->ctx, iters_points(k->ctx, p.it, p.n), inner));
	b->stage->block.group = 1;
	b->stage->block.threads = MAP_THREADS;
	q = ex_iter(b->p, b->stage->var);
	if (p.n) {
		Expr *many = ex_dim(b->p, inner);

		l_split(b, p.it, p.n, ex_op2(b->p, IN_floordiv, q, many));
		q = ex_op2(b->p, IN_mod, q, many);
	}
	if (in && vector > 1) {
		Iter *v = l_iter(b, "v", inner);

		l_let(b, v, q);
		lo = ex_mul(b->p, ex_iter(b->p, v), l_int(b, vector));
		loop = gpu_open_access(b, in, lo, whole ? NULL : ex_dim(b->p, in->extent), vector,
				       NULL);
	} else if (in) {
		l_let(b, in, q);
	}
	n = l_store(b, s->out[0], p.write, p.e[0], p.guard);
	l_does(b, n, PART_WRITE, p.at, p.nat);
	if (loop)
		l_close(b, loop);
	return true;
}
