/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variants for runs in which rows in memory have whole vectors. The rows of a tensor f16[M,N] begin
 * at multiples of N elements, which of an unknown N says nothing, so accesses along them are single
 * elements. A variant for runs where N is a multiple of 8, which hosts check, has its own copy of
 * the kernel with 8*n in place of N, where the symbol n is floor(N / 8). So whatever a strategy
 * asks of sizes and strides follows: vectors, aligned rows, cp.async.
 *
 * All sizes that are row strides of the kernel are taken together. A variant whose accesses are no
 * wider is left out.
 */
#include "passes/schedule/gpu/gpu.h"

#include "passes/forms/form.h"
#include "passes/schedule/gpu/gpu_impl.h"

enum { VECTOR_BYTES_MULTIPLE = 16 };

/* The innermost dim of B in memory, if rows of it begin at multiples of a size that is a symbol;
 * else null. */
static Dim *row_stride(const Buf *b)
{
	Dim *last;

	if (b->rank < 2 || b->data || dtype_info[b->dtype].bits < 8 ||
	    (b->layout && b->layout->n != b->rank))
		return NULL;
	last = b->dims[buf_memory_dim(b, b->rank - 1)];
	return dim_as_sym(last) && !sym_from_data(dim_as_sym(last)) ? last : NULL;
}

/* K is a convolution. Its pixels are contiguous along rows and columns together, whatever their
 * sizes are, so a variant would only add quotients of sizes, which the proofs of schedules do not
 * take. */
static bool is_convolution(Kernel *k)
{
	const Form f = form_of_stmt(k, k->stmts.at[0]);

	return f.kind == FORM_CONTRACTION &&
	       (contraction_slides(&f.c, f.c.a) || contraction_slides(&f.c, f.c.b));
}

bool gpu_multiples(Kernel *k, SizeStep *step)
{
	step->nof = 0;
	step->each = 0;
	if (!k->stmts.n || is_convolution(k))
		return false;
	VEC_EACH (b, &k->bufs) {
		Dim *of = b->kind != BUF_TEMP ? row_stride(b) : NULL;
		const int64_t each = VECTOR_BYTES_MULTIPLE * 8 / dtype_info[b->dtype].bits;
		int at = 0;

		while (of && at < step->nof && step->of[at] != of)
			at++;
		if (!of)
			continue;
		if (at == MOST_MULTIPLES)
			return false;
		if (at == step->nof)
			step->of[step->nof++] = of;
		step->each = each > step->each ? each : step->each;
	}
	return step->nof;
}

void gpu_take_multiples(Kernel *k, SizeStep *step)
{
	Ctx *c = k->ctx;
	int n;
	Dim **to = schedule_multiples(c, k->arena, step, &n);

	VEC_EACH (b, &k->bufs) {
		b->dims = arena_copy(k->arena, b->dims, (size_t)(b->rank + 1) * sizeof *b->dims);
		for (int d = 0; d < b->rank; d++)
			b->dims[d] = dim_subst(c, b->dims[d], to, n);
	}
	for (int i = 0; i < k->iters.n; i++)
		k->iters.at[i]->extent = dim_subst(c, k->iters.at[i]->extent, to, n);
	VEC_EACH (s, &k->stmts)
		STMT_MAP (e, k, s)
			if (e->kind == EX_DIM)
				e = ex_dim(k->pool, dim_subst(c, e->dim, to, n));
	if (step->size)
		step->size = dim_subst(c, step->size, to, n);
	if (step->also)
		step->also = dim_subst(c, step->also, to, n);
}

/* How wide the accesses of N and of the nodes after it are: the sum of all vectors' elements, and
 * the number of those that begin at any element. */
static void add_widths(const LNode *n, int *vectors, int *peels)
{
	for (; n; n = n->next) {
		*vectors += n->kind == LN_OP ? n->op->vector : n->share.vector;
		*peels += n->share.peel != NULL;
		add_widths(n->body, vectors, peels);
	}
}

bool gpu_wider(const Schedule *a, const Schedule *b)
{
	const Schedule *s[] = {a, b};
	int vectors[2] = {0, 0}, peels[2] = {0, 0};

	for (int i = 0; i < 2; i++)
		VEC_EACH (st, &s[i]->stages) {
			add_widths(st->block.head, &vectors[i], &peels[i]);
			add_widths(st->body, &vectors[i], &peels[i]);
		}
	return vectors[0] > vectors[1] || (vectors[0] == vectors[1] && peels[0] < peels[1]);
}
