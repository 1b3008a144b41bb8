/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Temporaries that a stage on GPUs holds between its statements, in registers of the threads or in
 * the block's shared memory, instead of passing them through global memory. A strategy says how
 * much of each dim it holds; here the buffer is made that stands for the temporary.
 */
#include "passes/schedule/gpu/gpu_impl.h"

int gpu_written_along(const Row *r, const Stmt *s, int d)
{
	return s->widx[d]->kind == EX_ITER ? band_index(r->band, s, s->widx[d]->iter) : -1;
}

Buf *gpu_hold(Row *r, const Buf *t, const Held *h)
{
	Dim *dims[MAX_RANK] = {NULL};
	int n = 0, inner = -1;
	Buf *b;

	for (int i = 0; i < t->rank; i++) {
		const int d = buf_memory_dim(t, i);

		r->keep[t->id][d] = h->keep[d];
		if (h->keep[d] == KEEP_NOT)
			continue;
		inner = h->columns && h->keep[d] == KEEP_BLOCK ? n : inner;
		dims[n++] = h->size[d];
	}
	b = r->local[t->id] = kernel_temp(r->k, t->name, t->dtype, n, dims);
	if (inner >= 0)
		b->layout = row_layout_with_inner(r->b->arena, n, inner);
	return b;
}

int64_t gpu_bytes_of(const Buf *b)
{
	enum { MOST = 1 << 20 };
	const int64_t bytes = buf_bytes(b, MOST);

	return bytes < 0 ? INT64_MAX : bytes;
}
