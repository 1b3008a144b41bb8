/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tools/batch/in_place.h"

#include "ir/dtype.h"
#include "tests/tools/batch/judge.h"

#include <stdlib.h>
#include <string.h>

/* Rows of an output's memory that stay free where it is longer than its input: strides with
 * room. */
enum { ROOM = 2 };

/* The memory that input IN and output OUT share, and the strides of both, in elements. */
typedef struct Shared {
	int64_t strides[MAX_RANK];
	char *data;
	uint64_t bytes;
	size_t element;
} Shared;

/* Copies the elements of shape DIMS between memory of STRIDES and contiguous memory, dim by dim
 * from D on. */
static char *copy_dim(const Shared *m, int rank, const int64_t *dims, int d, char *strided,
		      char *packed, bool in)
{
	if (d == rank) {
		memcpy(in ? strided : packed, in ? packed : strided, m->element);
		return packed + m->element;
	}
	for (int64_t i = 0; i < dims[d]; i++)
		packed = copy_dim(m, rank, dims, d + 1,
				  strided + (size_t)(i * m->strides[d]) * m->element, packed, in);
	return packed;
}

/* Memory for FROM and for an output of its rank and the dims TO. */
static Shared share(Arena *a, const Array *from, const int64_t *to)
{
	Shared m = {.element = (size_t)dtype_info[from->dtype].bits / 8};
	int64_t n = 1;

	for (int d = from->rank - 1; d >= 0; d--) {
		m.strides[d] = n;
		n *= to[d] > from->dims[d] ? to[d] + ROOM : to[d];
	}
	m.bytes = (uint64_t)n * m.element;
	m.data = arena_alloc(a, m.bytes + 1);
	memset(m.data, 0xa5, m.bytes);
	return m;
}

/* Whether output O, which is WANT, can be in place of its input in IN. */
static bool can_share(const Session *s, int32_t o, const Array *in, const Array *want)
{
	const int32_t i = session_out(s, o)->alias;

	if (i < 0 || want->form != DL_TENSOR || want->dtype == DT_STR ||
	    dtype_info[want->dtype].bits % 8)
		return false;
	for (int32_t k = 0; k < o; k++)
		if (session_out(s, k)->alias == i)
			return false;
	return in[i].rank == want->rank;
}

const char *in_place_differs(Session *s, const Array *in)
{
	const Array *want = session_copy_outputs(s);
	Shared *m = NEW_ARRAY(s->arena, s->desc->n_out + 1, Shared);
	const char *bad = NULL;
	int n = 0;

	for (int32_t o = 0; o < s->desc->n_out; o++) {
		const int32_t i = session_out(s, o)->alias;

		s->out[o] = (dl_tensor){.size = sizeof(dl_tensor),
					.form = session_out(s, o)->form,
					.rank = session_out(s, o)->rank,
					.shape = s->out_shape[o]};
		if (!can_share(s, o, in, &want[o]))
			continue;
		m[o] = share(s->arena, &in[i], want[o].dims);
		copy_dim(&m[o], in[i].rank, in[i].dims, 0, m[o].data, in[i].data, true);
		s->in[i].data = s->out[o].data = m[o].data;
		s->in[i].bytes = s->out[o].bytes = m[o].bytes;
		s->in[i].strides = s->out[o].strides = m[o].strides;
		n++;
	}
	if (!n)
		return NULL;
	if (s->api->run(s->context, s->in, s->desc->n_in, s->out, s->desc->n_out, NULL))
		return arena_printf(s->arena, "in place: %s", s->api->error(s->context));
	for (int32_t o = 0; o < s->desc->n_out && !bad; o++) {
		Array got = session_output(s, o);

		if (m[o].data) {
			got.data = arena_alloc(s->arena, (size_t)array_bytes(&want[o]) + 1);
			copy_dim(&m[o], got.rank, got.dims, 0, m[o].data, got.data, false);
		}
		bad = difference(s->arena, &got, &want[o], AGREE_BITS, (Tolerance){0});
		bad = bad ? arena_printf(s->arena, "in place: output %s: %s", got.name, bad) : NULL;
	}
	return bad;
}
