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

/* The part of an element's physical index that its index IDX in dim D contributes. */
static int64_t physical_part(const Layout *l, const int64_t *dims, int d, int64_t idx)
{
	int64_t part = 0, step = 1;

	for (int i = l->n - 1; i >= 0; i--) {
		const LayoutAxis *ax = &l->ax[i];
		int64_t v = ax->div ? idx / ax->div : idx;

		if (ax->dim == d)
			part += (ax->mod ? v % ax->mod : v) * step;
		step *= axis_extent(ax, dims);
	}
	return part;
}

/* Element FROM of SRC to element TO of DST, both packed elements of type T. */
static void copy_element(DType t, void *dst, int64_t to, const void *src, int64_t from)
{
	int bits = dtype_info[t].bits;

	if (bits % 8 == 0) {
		size_t size = (size_t)dtype_bytes(t);

		memcpy((char *)dst + (size_t)to * size, (const char *)src + (size_t)from * size,
		       size);
	} else if (dtype_is_float(t)) {
		dtype_store_f64(t, dst, to, dtype_load_f64(t, src, from));
	} else {
		dtype_store_i64(t, dst, to, dtype_load_i64(t, src, from));
	}
}

/* Steps IDX to the next row, of the first N dims. False after the last row. */
static bool next_row(const int64_t *dims, int n, int64_t *idx)
{
	while (n > 0 && ++idx[n - 1] == dims[n - 1])
		idx[--n] = 0;
	return n > 0;
}

/* Copies some columns, the indices in the last dim, of all rows at a time, so that the parts of
 * their physical indices are computed once. */
static void convert(const Buf *b, const int64_t *dims, const void *src, void *dst, bool pack)
{
	enum { COLUMNS = 256 };
	const int last = b->rank - 1;
	int64_t part[COLUMNS], n;

	for (int d = 0; d < last; d++)
		if (!dims[d])
			return;
	for (int64_t from = 0; from < dims[last]; from += n) {
		int64_t idx[MAX_RANK] = {0}, plain = from;

		n = dims[last] - from < COLUMNS ? dims[last] - from : COLUMNS;
		for (int64_t i = 0; i < n; i++)
			part[i] = physical_part(b->layout, dims, last, from + i);
		do {
			int64_t row = 0;

			for (int d = 0; d < last; d++)
				row += physical_part(b->layout, dims, d, idx[d]);
			for (int64_t i = 0; i < n; i++)
				copy_element(b->dtype, dst, pack ? row + part[i] : plain + i, src,
					     pack ? plain + i : row + part[i]);
			plain += dims[last];
		} while (next_row(dims, last, idx));
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
