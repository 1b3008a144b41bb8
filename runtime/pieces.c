/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors in pieces (DL_PIECES): a run for several requests at once. Inputs are joined in memory of
 * the context before anything else sees them, and outputs are cut after the run, so that a run of
 * the program has ordinary tensors. Piece r of every input and output belongs to request r, which
 * has the same number of elements everywhere: along the dims of one independent symbol, which the
 * first input in pieces fixes.
 */
#include "runtime/rt.h"

#include <stdio.h>
#include <string.h>

enum { PIECES_RANK = 16 }; /* the largest rank of the compiler's tensors */

static bool is_independent(const dl_desc *d, int32_t sym)
{
	return sym >= 0 && dl_sym_flags(dl_desc_sym(d, sym)) & DL_SYM_INDEPENDENT;
}

/* The first dim of IO, from K on, that is an independent symbol; or -1. */
static int32_t next_dim(const dl_desc *d, const dl_io *io, int32_t k)
{
	if (io->form != DL_TENSOR || io->rank > PIECES_RANK)
		return -1;
	for (; k < io->rank; k++)
		if (is_independent(d, dl_io_dim(io, k)->sym))
			return k;
	return -1;
}

/* The dim of IO that is the independent symbol SYM, or -1. */
static int32_t dim_of(const dl_desc *d, const dl_io *io, int32_t sym)
{
	int32_t k = next_dim(d, io, 0);

	while (k >= 0 && dl_io_dim(io, k)->sym != sym)
		k = next_dim(d, io, k + 1);
	return k;
}

/* The dim of IO along which the pieces of T lie, if no other input in pieces has fixed the symbol:
 * that of an independent symbol in which they differ or, if they do not, the first; or -1. Pieces
 * of another rank are skipped here, and refused later. */
static int32_t choose_dim(const dl_desc *d, const dl_io *io, const dl_tensor *t)
{
	const int32_t first = next_dim(d, io, 0);
	const dl_tensor one = rt_tensor_at(t->items, 0);

	if (next_dim(d, io, first + 1) < 0 || one.rank != io->rank || !one.shape)
		return first;
	for (int32_t k = first; k >= 0; k = next_dim(d, io, k + 1))
		for (int64_t r = 1; r < t->n_items; r++) {
			const dl_tensor other = rt_tensor_at(t->items, r);

			if (other.rank == io->rank && other.shape && other.shape[k] != one.shape[k])
				return k;
		}
	return first;
}

bool rt_has_pieces(const dl_program *p)
{
	const dl_desc *d = rt_shown(p);

	for (int32_t i = 0; i < d->n_in; i++)
		if (next_dim(d, dl_desc_in(d, i), 0) >= 0)
			return true;
	return false;
}

/* A tensor in pieces, its description, and the dim along which they lie. */
typedef struct Pieced {
	dl_context *c;
	const char *what; /* "input" */
	const dl_io *io;
	dl_tensor t;
	int32_t dim;
	int64_t bytes; /* of an element, in the caller's memory */
} Pieced;

static int fail(const Pieced *p, int status, const char *text)
{
	return dl_fail(&p->c->x, status, "%s \"%.100s\" in pieces: %s", p->what, p->io->name, text);
}

/* Checks what all tensors in pieces have to be. If no input has fixed the symbol along whose dims
 * the pieces lie, this one does. */
static int begin(dl_context *c, const char *what, const dl_desc *d, const dl_io *io,
		 const dl_tensor *t, Pieced *p)
{
	char text[200];

	*p = (Pieced){c, what, io, *t, next_dim(d, io, 0), 0};
	if (p->dim < 0)
		return fail(p, DL_INVALID, "it has no dim whose elements are independent");
	if (rt_dtype_bits(io->dtype) % 8)
		return fail(p, DL_UNSUPPORTED, "its elements have less than 8 bits");
	p->bytes = io->dtype == DL_STR ? (int64_t)sizeof(dl_str) : rt_bytes(io->dtype, 1);
	if (t->n_items < 1 || !t->items)
		return dl_fail(&c->x, DL_INVALID, "%s \"%.100s\" in pieces: %lld pieces, or null",
			       what, io->name, (long long)t->n_items);
	if (rt_wrong_size(text, sizeof(text), "dl_tensor", t->items->size,
			  RT_UPTO(dl_tensor, bytes)))
		return fail(p, DL_ABI, text);
	p->dim = c->pieces ? dim_of(d, io, c->pieces_sym) : choose_dim(d, io, t);
	if (p->dim < 0) {
		(void)snprintf(text, sizeof(text),
			       "it has no dim \"%.100s\", along which the pieces of the inputs lie",
			       dl_desc_sym(d, c->pieces_sym)->name);
		return fail(p, DL_INVALID, text);
	}
	return DL_OK;
}

/* Fails for piece R, by a text with a number or two. */
static int fail_piece(const Pieced *p, int status, int64_t r, const char *text, long long a,
		      long long b)
{
	char more[200];

	(void)snprintf(more, sizeof(more), text, a, b);
	return dl_fail(&p->c->x, status, "%s \"%.100s\": piece %lld: %s", p->what, p->io->name,
		       (long long)r, more);
}

/* ---- Inputs ---- */

static bool on_gpu(dl_context *c, const void *data)
{
	return c->gpu && rt_gpu_owns(c, data) > 0;
}

/* Checks piece R, and that its dims but the one of the pieces are those of FIRST. */
static int check_piece(const Pieced *p, int64_t r, const dl_tensor *t, const dl_tensor *first,
		       bool data)
{
	int64_t n = 1;

	if (t->form != DL_TENSOR)
		return dl_fail(&p->c->x, DL_INVALID,
			       "%s \"%.100s\": piece %lld is %s, expected a tensor", p->what,
			       p->io->name, (long long)r, rt_form_name(t->form));
	if (t->dtype != p->io->dtype)
		return dl_fail(&p->c->x, DL_INVALID,
			       "%s \"%.100s\": piece %lld: elements are %s, expected %s", p->what,
			       p->io->name, (long long)r, rt_dtype_name(t->dtype),
			       rt_dtype_name(p->io->dtype));
	if (t->rank != p->io->rank || !t->shape)
		return fail_piece(p, DL_SHAPE, r,
				  "rank is %lld, expected %lld; or the shape is null", t->rank,
				  p->io->rank);
	for (int32_t d = 0; d < t->rank; d++) {
		if (t->shape[d] < 0)
			return fail_piece(p, DL_SHAPE, r, "dim %lld is %lld", d, t->shape[d]);
		if (d != p->dim && t->shape[d] != first->shape[d])
			return dl_fail(
				&p->c->x, DL_SHAPE,
				"%s \"%.100s\": piece %lld: dim %d is %lld, and of piece 0 it is %lld",
				p->what, p->io->name, (long long)r, (int)d, (long long)t->shape[d],
				(long long)first->shape[d]);
		n = dl_mul(n, t->shape[d]);
	}
	if (dl_mul(n, p->bytes) > INT64_MAX / 2)
		return fail_piece(p, DL_SHAPE, r, "its shape is too large", 0, 0);
	if (data && n && !t->data)
		return fail_piece(p, DL_INVALID, r, "data is null", 0, 0);
	if (t->bytes && n && t->bytes < (uint64_t)rt_extent(t))
		return fail_piece(p, DL_INVALID, r,
				  "its memory has %lld bytes, and its shape needs %lld",
				  (long long)t->bytes, rt_extent(t));
	if (data && n && on_gpu(p->c, t->data))
		return fail_piece(p, DL_UNSUPPORTED, r,
				  "it is in the GPU's memory; pieces are in host memory", 0, 0);
	return DL_OK;
}

/* Copies elements of SIZE bytes between arrays of this shape, with these strides, in elements. */
static void copy_strided(char *to, const char *from, int64_t size, int32_t rank,
			 const int64_t *shape, const int64_t *to_stride, const int64_t *from_stride)
{
	int64_t each = size;
	int32_t d = rank;

	/* the innermost dims that are contiguous in both are copied at once */
	for (; d > 0 && to_stride[d - 1] * size == each && from_stride[d - 1] * size == each; d--)
		each *= shape[d - 1];
	if (!d) {
		memcpy(to, from, (size_t)each);
		return;
	}
	for (int64_t i = 0; i < shape[0]; i++)
		copy_strided(to + i * to_stride[0] * size, from + i * from_stride[0] * size, size,
			     rank - 1, shape + 1, to_stride + 1, from_stride + 1);
}

/* Sets STRIDE to that of a contiguous tensor. */
static void contiguous_strides(int32_t rank, const int64_t *shape, int64_t *stride)
{
	int64_t n = 1;

	for (int32_t d = rank; d-- > 0; n *= shape[d])
		stride[d] = n;
}

/* Copies between a piece, T, and its place in the joined tensor at WHOLE, from element AT along the
 * dim of pieces on. */
static void move_piece(const Pieced *p, char *whole, const int64_t *whole_stride, int64_t at,
		       const dl_tensor *t, bool join)
{
	int64_t stride[PIECES_RANK];
	char *place;

	if (!rt_volume(t->shape, t->rank))
		return;
	place = whole + at * whole_stride[p->dim] * p->bytes;
	contiguous_strides(t->rank, t->shape, stride);
	if (join)
		copy_strided(place, t->data, p->bytes, t->rank, t->shape, whole_stride,
			     t->strides ? t->strides : stride);
	else
		copy_strided(t->data, place, p->bytes, t->rank, t->shape, stride, whole_stride);
}

/* Checks that piece R of P has as many elements as that of the input that came first, whose pieces
 * are FIRST. */
static int check_request(const Pieced *p, int64_t r, const dl_tensor *t)
{
	const dl_context *c = p->c;
	const dl_tensor same = rt_tensor_at(c->pieces, r);

	return same.shape[c->pieces_dim] == t->shape[p->dim]
		       ? DL_OK
		       : fail_piece(p, DL_SHAPE, r,
				    "it has %lld elements, and in another input %lld",
				    t->shape[p->dim], same.shape[c->pieces_dim]);
}

/* Makes input I one tensor. */
static int join(dl_context *c, const dl_desc *d, int32_t i, bool data)
{
	dl_tensor *t = &c->joined[i];
	int64_t *shape = c->joined_shape[i], stride[PIECES_RANK], at = 0, n;
	dl_region *memory = &c->joined_memory[i];
	dl_tensor first;
	Pieced p;

	if (begin(c, "input", d, dl_desc_in(d, i), t, &p))
		return c->x.status;
	first = rt_tensor_at(p.t.items, 0);
	if (c->pieces && c->n_pieces != p.t.n_items)
		return dl_fail(&c->x, DL_INVALID,
			       "input \"%.100s\" has %lld pieces, and another input %lld",
			       p.io->name, (long long)p.t.n_items, (long long)c->n_pieces);
	for (int64_t r = 0; r < p.t.n_items; r++) {
		const dl_tensor one = rt_tensor_at(p.t.items, r);

		if (check_piece(&p, r, &one, &first, data) ||
		    (c->pieces && check_request(&p, r, &one)))
			return c->x.status;
		if (!r)
			memcpy(shape, one.shape, sizeof(*shape) * (size_t)one.rank);
		else
			shape[p.dim] = dl_add(shape[p.dim], one.shape[p.dim]);
	}
	if (!c->pieces) {
		c->pieces = p.t.items;
		c->n_pieces = p.t.n_items;
		c->pieces_dim = p.dim;
		c->pieces_sym = dl_io_dim(p.io, p.dim)->sym;
	}
	n = dl_mul(rt_volume(shape, p.io->rank), p.bytes);
	if (n > INT64_MAX / 2)
		return fail(&p, DL_SHAPE, "its shape is too large");
	*t = dl_tensor_of(p.io->dtype, p.io->rank, shape, NULL, 0);
	if (!data && !(p.io->flags & DL_IO_SHAPE_DATA))
		return DL_OK;
	if (!rt_region_grow(c, memory, n, 0))
		return fail(&p, DL_NOMEM, "no memory to join them");
	contiguous_strides(p.io->rank, shape, stride);
	for (int64_t r = 0; r < p.t.n_items; r++) {
		const dl_tensor one = rt_tensor_at(p.t.items, r);

		if (one.data)
			move_piece(&p, memory->p, stride, at, &one, true);
		at += one.shape[p.dim];
	}
	t->data = memory->p;
	t->bytes = (uint64_t)n;
	return DL_OK;
}

const dl_tensor *rt_join(dl_context *c, const dl_tensor *in, bool data)
{
	const dl_desc *d = rt_shown(c->model->prog);
	bool any = false;

	c->pieces = NULL;
	for (int32_t i = 0; c->joined && i < d->n_in; i++)
		any = any || RT_AT(const dl_tensor, in, i)->form == DL_PIECES;
	if (!any)
		return in;
	c->given_in = in;
	for (int32_t i = 0; i < d->n_in; i++) {
		c->joined[i] = rt_tensor_at(in, i);
		if (c->joined[i].form == DL_PIECES && join(c, d, i, data))
			return NULL;
	}
	return c->joined;
}

/* ---- Outputs ---- */

dl_tensor *rt_whole_outputs(dl_context *c, dl_tensor *out)
{
	const dl_desc *d = rt_shown(c->model->prog);
	bool any = false;
	Pieced p;

	for (int32_t o = 0; c->joined && o < d->n_out; o++)
		any = any || RT_AT(dl_tensor, out, o)->form == DL_PIECES;
	c->given_out = out;
	if (!any)
		return out;
	for (int32_t o = 0; o < d->n_out; o++) {
		const dl_io *io = dl_desc_out(d, o);
		const dl_tensor t = rt_tensor_at(out, o);

		c->cut[o] = t;
		if (t.form != DL_PIECES)
			continue;
		if (!c->pieces) {
			dl_fail(&c->x, DL_INVALID,
				"output \"%.100s\" in pieces: no input is in pieces, so the requests "
				"are not known",
				io->name);
			return NULL;
		}
		if (begin(c, "output", d, io, &t, &p))
			return NULL;
		if (t.n_items != c->n_pieces) {
			dl_fail(&c->x, DL_INVALID,
				"output \"%.100s\" has %lld pieces, and the inputs %lld", io->name,
				(long long)t.n_items, (long long)c->n_pieces);
			return NULL;
		}
		c->cut[o] = dl_tensor_of(0, io->rank, c->cut_shape[o], NULL, 0);
	}
	return c->cut;
}

/* Whether memory of the caller's, of an earlier run perhaps, overlaps an output of this run that is
 * yet to be cut. */
static bool is_served(const dl_context *c, const char *data, int64_t bytes)
{
	for (int32_t o = 0; o < rt_shown(c->model->prog)->n_out; o++) {
		const char *whole = c->cut[o].data;

		if (whole && (uintptr_t)data < (uintptr_t)whole + c->cut[o].bytes &&
		    (uintptr_t)whole < (uintptr_t)data + (uintptr_t)bytes)
			return true;
	}
	return false;
}

/* Sets piece R, at element AT along the dim, of the whole tensor W. */
static int cut_piece(const Pieced *p, const dl_tensor *w, int64_t r, int64_t at, dl_tensor *to)
{
	const int64_t n = rt_tensor_at(p->c->pieces, r).shape[p->c->pieces_dim];
	int64_t stride[PIECES_RANK], bytes;
	char *place;

	if (to->form != DL_TENSOR || (to->rank && !to->shape) || to->rank < w->rank)
		return fail_piece(p, DL_INVALID, r,
				  "not a tensor, or room for %lld dims; its rank is %lld", to->rank,
				  w->rank);
	if (to->dtype && to->dtype != w->dtype)
		return fail_piece(p, DL_INVALID, r, "elements are of another type", 0, 0);
	to->dtype = w->dtype;
	to->rank = w->rank;
	for (int32_t d = 0; d < w->rank; d++)
		to->shape[d] = d == p->dim ? n : w->shape[d];
	bytes = rt_volume(to->shape, to->rank) * p->bytes;
	contiguous_strides(w->rank, w->shape, stride);
	place = (char *)w->data + at * stride[p->dim] * p->bytes;
	if (!to->data && rt_volume(w->shape, p->dim) > 1)
		return fail_piece(
			p, DL_UNSUPPORTED, r,
			"data is null, and the piece is not contiguous in the context's memory", 0,
			0);
	if (!to->data) {
		to->data = place;
		to->bytes = (uint64_t)bytes;
	} else if (to->bytes < (uint64_t)bytes) {
		return fail_piece(p, DL_CAPACITY, r, "needs %lld bytes, has room for %lld", bytes,
				  (long long)to->bytes);
	} else if (on_gpu(p->c, to->data)) {
		return fail_piece(p, DL_UNSUPPORTED, r,
				  "it is in the GPU's memory; pieces are in host memory", 0, 0);
	} else if (to->data != place) {
		if (is_served(p->c, to->data, bytes))
			return fail_piece(
				p, DL_INVALID, r,
				"it lies in the context's memory for this run's outputs; give memory "
				"of your own, or none",
				0, 0);
		move_piece(p, w->data, stride, at, to, false);
	}
	return DL_OK;
}

static int cut(dl_context *c, const dl_desc *d, int32_t o, const dl_tensor *t)
{
	Pieced p;
	int64_t at = 0, n = 0;

	if (begin(c, "output", d, dl_desc_out(d, o), t, &p))
		return c->x.status;
	for (int64_t r = 0; r < c->n_pieces; r++)
		n = dl_add(n, rt_tensor_at(c->pieces, r).shape[c->pieces_dim]);
	if (n != c->cut[o].shape[p.dim]) {
		char text[100];

		(void)snprintf(text, sizeof(text),
			       "dim %d is %lld, and the pieces have %lld elements", (int)p.dim,
			       (long long)c->cut[o].shape[p.dim], (long long)n);
		return fail(&p, DL_SHAPE, text);
	}
	for (int64_t r = 0; r < p.t.n_items; r++) {
		if (cut_piece(&p, &c->cut[o], r, at, RT_AT(dl_tensor, p.t.items, r)))
			return c->x.status;
		at += rt_tensor_at(c->pieces, r).shape[c->pieces_dim];
	}
	return DL_OK;
}

void rt_cut_outputs(dl_context *c, dl_tensor *out)
{
	const dl_desc *d = rt_shown(c->model->prog);

	for (int32_t o = 0; o < d->n_out; o++) {
		dl_tensor *t = RT_AT(dl_tensor, out, o);
		const dl_tensor whole = rt_tensor_at(out, o);
		const uint32_t size = t->size;

		if (t->form != DL_PIECES) {
			memcpy(t, &c->cut[o], size < sizeof(*t) ? size : sizeof(*t));
			t->size = size;
		} else if (!c->x.status) {
			cut(c, d, o, &whole);
		}
	}
}
