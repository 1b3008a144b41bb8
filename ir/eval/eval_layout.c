/* SPDX-License-Identifier: Apache-2.0 */
/* Physical order of buffers with a layout: eval works on plain row-major copies. */
#include "ir/eval/eval_impl.h"

#include <stdlib.h>
#include <string.h>

static int64_t axis_extent(const LayoutAxis *ax, const int64_t *dims)
{
	if (ax->mod)
		return ax->mod;
	return ax->div ? (dims[ax->dim] + ax->div - 1) / ax->div : dims[ax->dim];
}

int64_t layout_elements(const Buf *b, const int64_t *dims)
{
	int64_t n = 1;

	for (int i = 0; b->layout && i < b->layout->n; i++)
		if (__builtin_mul_overflow(n, axis_extent(&b->layout->ax[i], dims), &n))
			return -1;
	for (int i = 0; !b->layout && i < b->rank; i++)
		if (__builtin_mul_overflow(n, dims[i], &n))
			return -1;
	return n;
}

static int64_t physical_at(const Layout *l, const int64_t *dims, const int64_t *idx)
{
	int64_t at = 0;

	for (int i = 0; i < l->n; i++) {
		const LayoutAxis *ax = &l->ax[i];
		int64_t v = idx[ax->dim];

		v = ax->div ? v / ax->div : v;
		v = ax->mod ? v % ax->mod : v;
		at = at * axis_extent(ax, dims) + v;
	}
	return at;
}

/* Element FROM of SRC to element TO of DST, both packed elements of type T. */
static void copy_element(DType t, void *dst, int64_t to, const void *src, int64_t from)
{
	int bits = dtype_info[t].bits;

	if (bits % 8 == 0) {
		size_t size = (size_t)bits / 8;

		memcpy((char *)dst + (size_t)to * size, (const char *)src + (size_t)from * size,
		       size);
	} else if (dtype_is_float(t)) {
		dtype_store_f64(t, dst, to, dtype_load_f64(t, src, from));
	} else {
		dtype_store_i64(t, dst, to, dtype_load_i64(t, src, from));
	}
}

static void convert(const Buf *b, const int64_t *dims, const void *src, void *dst, bool pack)
{
	int64_t idx[MAX_RANK] = {0}, total = 1;

	for (int d = 0; d < b->rank; d++)
		total *= dims[d];
	for (int64_t i = 0; i < total; i++) {
		int64_t at = physical_at(b->layout, dims, idx);

		copy_element(b->dtype, dst, pack ? at : i, src, pack ? i : at);
		for (int d = b->rank - 1; d >= 0 && ++idx[d] == dims[d]; d--)
			idx[d] = 0;
	}
}

void layout_unpack(const Buf *b, const int64_t *dims, const void *physical, void *plain)
{
	convert(b, dims, physical, plain, false);
}

void layout_pack(const Buf *b, const int64_t *dims, const void *plain, void *physical)
{
	memset(physical, 0, (size_t)dtype_size(b->dtype, layout_elements(b, dims)));
	convert(b, dims, plain, physical, true);
}
