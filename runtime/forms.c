/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms: the values of applications, as tensors of the program. A program has no strings in memory,
 * only their ids (runtime/strtable.h), and no values but tensors, so a run converts
 *
 *	the caller's values -> tensors of the program -> a run of the program -> the caller's values
 *
 * A value that is not a tensor is represented by consecutive tensors of the program:
 *
 *	sequence or optional of tensors    the elements of all, one after the other, in a vector; and
 *	                                   their shapes, i64[tensors, rank]
 *	optional sequence                  the same; and the number of tensors, i64[1], or i64[0] if
 *	                                   there is no sequence
 *	map                                the keys [n]; and the values [n]
 *	sequence of maps (outputs)         the keys [n] of all; and the values [maps, n]
 *
 * The bytes of an output's strings belong to the context's table of strings.
 */
#include "runtime/rt.h"
#include "runtime/strtable.h"

#include <string.h>

/* An input or output of the program. */
static const dl_io *in_io(const dl_context *c, int32_t i)
{
	return dl_desc_in(c->model->prog->desc, i);
}

static const dl_io *out_io(const dl_context *c, int32_t o)
{
	return dl_desc_out(c->model->prog->desc, o);
}

const dl_desc *rt_shown(const dl_program *p)
{
	return p->shown ? p->shown : p->desc;
}

bool rt_has_forms(const dl_program *p)
{
	if (p->shown)
		return true;
	for (int32_t i = 0; i < p->desc->n_in; i++)
		if (dl_desc_in(p->desc, i)->dtype == DL_STR)
			return true;
	for (int32_t o = 0; o < p->desc->n_out; o++)
		if (dl_desc_out(p->desc, o)->dtype == DL_STR)
			return true;
	return false;
}

int32_t rt_parts(const dl_io *io)
{
	if (io->form == DL_TENSOR)
		return 1;
	return io->form == DL_OPTIONAL && io->item->form == DL_SEQUENCE ? 3 : 2;
}

/* The memory of the context for input I as the program gets it. */
static dl_region *in_region(dl_context *c, int32_t i)
{
	return &c->forms[i];
}

dl_region *rt_strings_region(dl_context *c, int32_t o)
{
	return &c->forms[c->model->prog->desc->n_in + o];
}

dl_region *rt_items_region(dl_context *c, int32_t o)
{
	return rt_strings_region(c, c->model->prog->desc->n_out) + o;
}

dl_tensor rt_tensor_at(const dl_tensor *t, int64_t i)
{
	dl_tensor r = {0};

	memcpy(&r, (const char *)t + (size_t)i * t->size,
	       t->size < sizeof(r) ? t->size : sizeof(r));
	r.size = sizeof(r);
	return r;
}

static int64_t count(const int64_t *shape, int32_t rank)
{
	int64_t n = 1;

	for (int32_t d = 0; d < rank; d++)
		n = shape[d] < 0 ? INT64_MAX : dl_mul(n, shape[d]);
	return n;
}

/* Checks memory for strings. */
static int check_memory(dl_context *c, const char *what, const char *name, const void *data)
{
	const int device = c->gpu ? rt_gpu_owns(c, data) : 0;

	if (device < 0)
		return c->x.status;
	if (device)
		return dl_fail(
			&c->x, DL_UNSUPPORTED,
			"%s \"%.100s\": strings are in host memory, and this is memory of the GPU",
			what, name);
	if ((uintptr_t)data % _Alignof(dl_str))
		return dl_fail(&c->x, DL_INVALID,
			       "%s \"%.100s\": data is not aligned to its elements, %u bytes", what,
			       name, (unsigned)_Alignof(dl_str));
	return DL_OK;
}

/* ---- Inputs ---- */

/* Interns the strings at FROM, in the order of their indices; returns where the next id goes. */
static int64_t *take_strings(dl_context *c, const char *name, int64_t *to, const dl_str *from,
			     int32_t rank, const int64_t *shape, const int64_t *strides)
{
	int64_t step = 1;

	if (!rank) {
		if (!from->p && from->n)
			dl_fail(&c->x, DL_INVALID,
				"input \"%.100s\": a string is null and has %llu bytes", name,
				(unsigned long long)from->n);
		else
			*to = rt_strings(c)->intern(c->strings, from->p, from->n);
		return to + 1;
	}
	if (strides)
		step = strides[0];
	else
		for (int32_t d = 1; d < rank; d++)
			step *= shape[d];
	for (int64_t i = 0; i < shape[0] && !c->x.status; i++)
		to = take_strings(c, name, to, from + i * step, rank - 1, shape + 1,
				  strides ? strides + 1 : NULL);
	return to;
}

/* Makes T, an input of strings, its ids. A tensor that the program refuses anyway keeps its faults,
 * without data. */
static int take_input(dl_context *c, int32_t i, dl_tensor *t)
{
	const dl_io *io = in_io(c, i);
	dl_region *r = in_region(c, i);
	const dl_str *from = t->data;
	const uint64_t room = t->bytes;
	int64_t n;

	t->data = NULL;
	t->bytes = 0;
	if (!from || t->dtype != DL_STR || t->form != DL_TENSOR || t->rank != io->rank ||
	    (t->rank && !t->shape))
		return DL_OK;
	n = count(t->shape, t->rank);
	if (n > INT64_MAX / 2 / (int64_t)sizeof(dl_str))
		return DL_OK;
	if (check_memory(c, "input", io->name, from))
		return c->x.status;
	if (room && (uint64_t)rt_extent(t) > room)
		return dl_fail(
			&c->x, DL_INVALID,
			"input \"%.100s\": its memory has %llu bytes, and its shape needs %lld; "
			"set bytes to the size of the memory, or to 0",
			io->name, (unsigned long long)room, (long long)rt_extent(t));
	if (!rt_region_grow(c, r, n * (int64_t)sizeof(int64_t), 0))
		return dl_fail(&c->x, DL_NOMEM, "input \"%.100s\": no memory for %lld strings",
			       io->name, (long long)n);
	if (n)
		take_strings(c, io->name, r->p, from, t->rank, t->shape, t->strides);
	if (rt_strings(c)->status(c->strings))
		dl_fail(&c->x, DL_NOMEM, "input \"%.100s\": no memory for its strings", io->name);
	t->data = r->p;
	t->strides = NULL;
	return c->x.status;
}

/* Makes input K of the program a tensor in memory of the context. */
static void *set_part(dl_context *c, int32_t k, int64_t n, int64_t columns)
{
	const dl_io *io = in_io(c, k);
	dl_region *r = in_region(c, k);
	const int64_t bytes = rt_bytes(io->dtype, columns < 0 ? n : dl_mul(n, columns));

	c->part_shape[k][0] = n;
	c->part_shape[k][1] = columns;
	if (!rt_region_grow(c, r, bytes, 0)) {
		dl_fail(&c->x, DL_NOMEM, "input \"%.100s\": no memory for %lld bytes", io->name,
			(long long)bytes);
		return NULL;
	}
	c->plain_in[k] = dl_tensor_of(io->dtype, io->rank, c->part_shape[k], r->p, 0);
	return r->p;
}

/* Copies the elements of SIZE bytes at FROM in the order of their indices; returns where the
 * next one goes. */
static char *copy_elements(char *to, const char *from, int64_t size, int32_t rank,
			   const int64_t *shape, const int64_t *strides)
{
	int64_t step = size;

	if (!rank) {
		memcpy(to, from, (size_t)size);
		return to + size;
	}
	for (int32_t d = 1; d < rank; d++)
		step *= shape[d];
	if (!strides) {
		if (shape[0] && step)
			memcpy(to, from, (size_t)(shape[0] * step));
		return to + shape[0] * step;
	}
	for (int64_t i = 0; i < shape[0]; i++)
		to = copy_elements(to, from + i * strides[0] * size, size, rank - 1, shape + 1,
				   strides + 1);
	return to;
}

/* Checks T, an item of input NAME, which ITEM describes; returns the number of its elements, or
 * -1. */
static int64_t check_item(dl_context *c, const char *name, const dl_io *item, const dl_tensor *t)
{
	int64_t n;

	if (t->form != DL_TENSOR)
		dl_fail(&c->x, DL_INVALID, "input \"%.100s\": an item is %s, expected a tensor",
			name, rt_form_name(t->form));
	else if (t->dtype != item->dtype)
		dl_fail(&c->x, DL_INVALID, "input \"%.100s\": an item is of %s, expected %s", name,
			rt_dtype_name(t->dtype), rt_dtype_name(item->dtype));
	else if (t->rank != item->rank || (t->rank && !t->shape))
		dl_fail(&c->x, DL_SHAPE, "input \"%.100s\": an item has rank %d, expected %d", name,
			(int)t->rank, (int)item->rank);
	if (c->x.status)
		return -1;
	n = count(t->shape, t->rank);
	if (n > INT64_MAX / 64)
		dl_fail(&c->x, DL_SHAPE,
			"input \"%.100s\": an item has a negative size, or one "
			"that is too large",
			name);
	else if (n && !t->data)
		dl_fail(&c->x, DL_INVALID, "input \"%.100s\": the data of an item is null", name);
	else if (t->bytes && t->bytes < (uint64_t)rt_extent(t))
		dl_fail(&c->x, DL_INVALID,
			"input \"%.100s\": the memory of an item has %llu bytes, "
			"less than its shape needs",
			name, (unsigned long long)t->bytes);
	else if (c->gpu && rt_gpu_owns(c, t->data) > 0)
		dl_fail(&c->x, DL_UNSUPPORTED,
			"input \"%.100s\": items are in host memory, and "
			"this is memory of the GPU",
			name);
	else if (n && t->dtype == DL_STR)
		check_memory(c, "input", name, t->data);
	return c->x.status ? -1 : n;
}

/* Whether the items of T, which belongs to input NAME and whose items have this FORM, can be
 * read. */
static bool check_items(dl_context *c, const char *name, const dl_tensor *t, int32_t form)
{
	char text[200];

	if (t->n_items < 0 || (t->n_items && !t->items))
		dl_fail(&c->x, DL_INVALID, "input \"%.100s\" has %lld items, and the array is null",
			name, (long long)t->n_items);
	else if (t->n_items && rt_wrong_size(text, sizeof(text), "dl_tensor", t->items->size,
					     rt_tensor_size(form)))
		dl_fail(&c->x, DL_ABI, "input \"%.100s\": items: %s", name, text);
	return !c->x.status;
}

/* Puts the elements of T, an item of input NAME, to TO; returns where the next ones go. DATA: a run
 * follows, else only shapes are asked for, and no string has an id. */
static char *put_elements(dl_context *c, const char *name, char *to, const dl_tensor *t, bool data)
{
	const int64_t n = count(t->shape, t->rank);

	if (!n || (t->dtype == DL_STR && !data))
		return to + n * (int64_t)sizeof(int64_t);
	if (t->dtype != DL_STR)
		return copy_elements(to, t->data, rt_bytes(t->dtype, 1), t->rank, t->shape,
				     t->strides);
	return (char *)take_strings(c, name, (int64_t *)(void *)to, t->data, t->rank, t->shape,
				    t->strides);
}

/* Makes inputs K and K + 1 of the program the elements and shapes of the items of T, which ITEM
 * describes. */
static int take_list(dl_context *c, const char *name, const dl_io *item, const dl_tensor *t,
		     int32_t k, bool data)
{
	int64_t total = 0, *shape;
	char *to;

	if (!check_items(c, name, t, DL_TENSOR))
		return c->x.status;
	if (rt_dtype_bits(item->dtype) % 8)
		return dl_fail(&c->x, DL_UNSUPPORTED,
			       "input \"%.100s\": items whose elements have less than 8 bits",
			       name);
	for (int64_t i = 0; i < t->n_items; i++) {
		const dl_tensor one = rt_tensor_at(t->items, i);
		const int64_t n = check_item(c, name, item, &one);

		if (n < 0)
			return c->x.status;
		total = dl_add(total, n);
	}
	to = set_part(c, k, total, -1);
	shape = c->x.status ? NULL : set_part(c, k + 1, t->n_items, item->rank);
	for (int64_t i = 0; i < t->n_items && !c->x.status; i++) {
		const dl_tensor one = rt_tensor_at(t->items, i);

		to = put_elements(c, name, to, &one, data);
		for (int32_t d = 0; d < item->rank; d++)
			*shape++ = one.shape[d];
	}
	return c->x.status;
}

/* Makes inputs K and K + 1 of the program the keys and values of T, a map. */
static int take_map(dl_context *c, const dl_io *io, const dl_tensor *t, int32_t k, bool data)
{
	int64_t n[2] = {0, 0};

	if (!check_items(c, io->name, t, DL_TENSOR))
		return c->x.status;
	if (t->n_items != 2)
		return dl_fail(
			&c->x, DL_INVALID,
			"input \"%.100s\" is a map, whose items are the keys and the values; "
			"it has %lld items",
			io->name, (long long)t->n_items);
	for (int32_t j = 0; j < 2 && !c->x.status; j++) {
		const dl_io *item = RT_AT(const dl_io, io->item, j);
		const dl_tensor one = rt_tensor_at(t->items, j);
		char *to;

		n[j] = check_item(c, io->name, item, &one);
		if (!c->x.status && n[j] != n[0])
			dl_fail(&c->x, DL_SHAPE, "input \"%.100s\" has %lld keys and %lld values",
				io->name, (long long)n[0], (long long)n[1]);
		to = c->x.status ? NULL : set_part(c, k + j, n[j], -1);
		if (to)
			put_elements(c, io->name, to, &one, data);
	}
	return c->x.status;
}

/* Converts T, the caller's input IO, to the program's inputs from K onwards. */
static int take_value(dl_context *c, const dl_io *io, const dl_tensor *t, int32_t k, bool data)
{
	const dl_io *item = io->item;
	dl_tensor list = *t;

	if (rt_is_unset(t))
		return dl_fail(&c->x, DL_INVALID, "input \"%.100s\" is not set", io->name);
	if (t->form != io->form)
		return dl_fail(&c->x, DL_INVALID, "input \"%.100s\" is %s, expected %s", io->name,
			       rt_form_name(t->form), rt_form_name(io->form));
	if (io->form == DL_MAP)
		return take_map(c, io, t, k, data);
	if (io->form == DL_OPTIONAL && t->n_items > 1)
		return dl_fail(&c->x, DL_INVALID,
			       "input \"%.100s\" is optional, and has %lld items", io->name,
			       (long long)t->n_items);
	if (rt_parts(io) == 3) {
		int64_t *n;

		if (!check_items(c, io->name, t, DL_SEQUENCE))
			return c->x.status;
		n = set_part(c, k + 2, t->n_items, -1);
		if (t->n_items)
			list = rt_tensor_at(t->items, 0);
		if (t->n_items && list.form != DL_SEQUENCE)
			return dl_fail(&c->x, DL_INVALID,
				       "input \"%.100s\": its value is %s, expected a sequence",
				       io->name, rt_form_name(list.form));
		if (n && t->n_items)
			*n = list.n_items;
		item = item->item;
	}
	return c->x.status ? c->x.status : take_list(c, io->name, item, &list, k, data);
}

static int take_inputs(dl_context *c, const dl_tensor *in, bool data)
{
	const dl_desc *d = rt_shown(c->model->prog);

	for (int32_t i = 0, k = 0; i < d->n_in; k += rt_parts(dl_desc_in(d, i)), i++) {
		const dl_tensor t = rt_tensor_at(in, i);

		if (dl_desc_in(d, i)->form != DL_TENSOR) {
			if (take_value(c, dl_desc_in(d, i), &t, k, data))
				return c->x.status;
			if (c->strings && rt_strings(c)->status(c->strings))
				return dl_fail(&c->x, DL_NOMEM,
					       "input \"%.100s\": no memory for its strings",
					       dl_desc_in(d, i)->name);
			continue;
		}
		c->plain_in[k] = t;
		if (in_io(c, k)->dtype != DL_STR)
			continue;
		if (!data) {
			c->plain_in[k].data = NULL;
			c->plain_in[k].bytes = 0;
		} else if (take_input(c, k, &c->plain_in[k])) {
			return c->x.status;
		}
	}
	return DL_OK;
}

/* ---- Outputs ---- */

static void take_outputs(dl_context *c, const dl_tensor *out)
{
	const dl_desc *d = rt_shown(c->model->prog);

	for (int32_t o = 0, k = 0; o < d->n_out; k += rt_parts(dl_desc_out(d, o)), o++) {
		if (dl_desc_out(d, o)->form == DL_TENSOR) {
			c->plain_out[k] = rt_tensor_at(out, o);
			if (out_io(c, k)->dtype == DL_STR) {
				c->plain_out[k].data = NULL;
				c->plain_out[k].bytes = 0;
			}
			continue;
		}
		for (int32_t j = k; j < k + rt_parts(dl_desc_out(d, o)); j++)
			c->plain_out[j] = dl_tensor_of(
				0, out_io(c, j)->rank,
				c->part_shape[c->model->prog->desc->n_in + j], NULL, 0);
	}
}

/* Checks the caller's memory for the strings of output O, which take so many bytes. */
static int check_output(dl_context *c, int32_t o, const dl_tensor *t, uint64_t bytes)
{
	const char *name = out_io(c, o)->name;

	if (t->bytes < bytes)
		return dl_fail(&c->x, DL_CAPACITY,
			       "output \"%.100s\": needs %llu bytes, has room for %llu", name,
			       (unsigned long long)bytes, (unsigned long long)t->bytes);
	return check_memory(c, "output", name, t->data);
}

/* Makes T, the caller's tensor, the strings of output O. */
static int give_strings(dl_context *c, int32_t o, dl_tensor *t)
{
	dl_region *r = rt_strings_region(c, o);
	dl_tensor *plain = &c->plain_out[o];
	const int64_t *ids = plain->data, n = count(plain->shape, plain->rank);
	const uint64_t bytes = (uint64_t)rt_bytes(DL_STR, n) * (sizeof(dl_str) / sizeof(int64_t));
	dl_str *to;

	if (!t->data || t->data == r->p) {
		t->data = NULL; /* it may be the memory that is freed now */
		t->bytes = 0;
		if (!rt_region_grow(c, r, (int64_t)bytes, 0))
			return dl_fail(&c->x, DL_NOMEM,
				       "output \"%.100s\": no memory for %lld bytes",
				       out_io(c, o)->name, (long long)bytes);
		t->data = r->p;
		t->bytes = bytes;
	} else if (check_output(c, o, t, bytes)) {
		return c->x.status;
	}
	to = t->data;
	for (int64_t i = 0; i < n; i++)
		to[i] = rt_strings(c)->get(c->strings, ids[i]);
	return DL_OK;
}

/* The elements of output K of the program as the caller gets them. */
static char *given(dl_context *c, int32_t k)
{
	dl_tensor t = {0};

	if (out_io(c, k)->dtype != DL_STR)
		return c->plain_out[k].data;
	return give_strings(c, k, &t) ? NULL : t.data;
}

/* Memory for N dl_tensors of output O, and WORDS integers after them. */
static dl_tensor *items_memory(dl_context *c, int32_t o, int64_t n, int64_t words)
{
	dl_region *r = rt_items_region(c, o);
	const int64_t bytes = dl_add(dl_mul(n, sizeof(dl_tensor)), dl_mul(words, sizeof(int64_t)));

	if (!rt_region_grow(c, r, bytes, 0)) {
		dl_fail(&c->x, DL_NOMEM, "output %d: no memory for %lld items", (int)o,
			(long long)n);
		return NULL;
	}
	return r->p;
}

/* The size of an element as the caller has it. */
static int64_t element_size(int32_t dtype)
{
	return dtype == DL_STR ? (int64_t)sizeof(dl_str) : rt_bytes(dtype, 1);
}

/* Makes T the tensors whose elements and shapes outputs K and K + 1 of the program are. */
static int give_list(dl_context *c, int32_t o, const dl_io *io, int32_t k, dl_tensor *t)
{
	const int64_t n = c->plain_out[k + 1].shape[0];
	const dl_io *item = rt_parts(io) == 3 ? io->item->item : io->item;
	const bool inner = rt_parts(io) == 3;
	int64_t *shape = c->plain_out[k + 1].data;
	dl_tensor *at = items_memory(c, o, n + inner, 0);
	char *from = c->x.status ? NULL : given(c, k);

	if (c->x.status)
		return c->x.status;
	t->items = at;
	t->n_items = inner ? c->plain_out[k + 2].shape[0] : n;
	if (inner) { /* the first one is the sequence */
		at[0] = dl_tensor_of(item->dtype, 0, NULL, NULL, 0);
		at[0].form = DL_SEQUENCE;
		at[0].items = at + 1;
		at[0].n_items = n;
		at++;
	}
	for (int64_t i = 0; i < n; i++) {
		const int64_t bytes = count(shape, item->rank) * element_size(item->dtype);

		at[i] = dl_tensor_of(item->dtype, item->rank, shape, from, (uint64_t)bytes);
		from += bytes;
		shape += item->rank;
	}
	return DL_OK;
}

/* Makes T the map, or the sequence of maps, whose keys and values are outputs K and K + 1 of the
 * program. */
static int give_maps(dl_context *c, int32_t o, const dl_io *io, int32_t k, dl_tensor *t)
{
	const bool one = io->form == DL_MAP;
	const dl_io *item = one ? io->item : io->item->item;
	const dl_io *value = RT_AT(const dl_io, item, 1);
	const int64_t keys = c->plain_out[k].shape[0], n = one ? 1 : c->plain_out[k + 1].shape[0];
	dl_tensor *at = items_memory(c, o, one ? 2 : 3 * n, 1);
	int64_t *shape = at ? (int64_t *)(void *)(at + (one ? 2 : 3 * n)) : NULL;
	char *key = c->x.status ? NULL : given(c, k), *from = c->x.status ? NULL : given(c, k + 1);
	dl_tensor *pair = one ? at : at + n;

	if (c->x.status)
		return c->x.status;
	*shape = keys;
	t->items = at;
	t->n_items = one ? 2 : n;
	for (int64_t i = 0; i < n; i++, pair += 2) {
		const int64_t bytes = keys * element_size(value->dtype);

		pair[0] = dl_tensor_of(item->dtype, 1, shape, key,
				       (uint64_t)(keys * element_size(item->dtype)));
		pair[1] = dl_tensor_of(value->dtype, 1, shape, from, (uint64_t)bytes);
		from += bytes;
		if (one)
			continue;
		at[i] = dl_tensor_of(0, 0, NULL, NULL, 0);
		at[i].form = DL_MAP;
		at[i].items = pair;
		at[i].n_items = 2;
	}
	return DL_OK;
}

/* Converts the program's outputs from K onwards to T, the caller's output O. */
static void give_value(dl_context *c, int32_t o, const dl_io *io, int32_t k, dl_tensor *t,
		       bool infer)
{
	const bool maps = io->form == DL_MAP || io->item->form == DL_MAP;

	t->form = io->form;
	t->items = NULL;
	t->n_items = 0;
	if (infer || c->x.status)
		return;
	if (maps)
		give_maps(c, o, io, k, t);
	else
		give_list(c, o, io, k, t);
}

/* Passes the results of the run to the caller, up to a failure. */
static void give_outputs(dl_context *c, dl_tensor *out, bool infer)
{
	const dl_desc *d = rt_shown(c->model->prog);

	for (int32_t o = 0, k = 0; o < d->n_out; k += rt_parts(dl_desc_out(d, o)), o++) {
		dl_tensor *t = RT_AT(dl_tensor, out, o), *plain = &c->plain_out[k];

		if (dl_desc_out(d, o)->form != DL_TENSOR) {
			give_value(c, o, dl_desc_out(d, o), k, t, infer);
			continue;
		}
		t->dtype = plain->dtype;
		t->rank = plain->rank;
		if (out_io(c, k)->dtype != DL_STR) {
			t->data = plain->data;
			t->bytes = plain->bytes;
		} else if (infer) {
			t->bytes = plain->bytes * (sizeof(dl_str) / sizeof(int64_t));
		} else if (!c->x.status) {
			give_strings(c, k, t);
		}
	}
}

/* A run on the caller's tensors, none of which is in pieces. */
static void run_forms(dl_context *c, const dl_tensor *in, dl_tensor *out)
{
	if (!c->forms) {
		rt_run_plain(c, in, out);
		return;
	}
	if (take_inputs(c, in, true))
		return;
	take_outputs(c, out);
	c->caller_in = in;
	c->caller_out = out;
	rt_run_plain(c, c->plain_in, c->plain_out);
	give_outputs(c, out, false);
}

int rt_run(dl_context *c, const dl_tensor *in, int32_t n_in, dl_tensor *out, int32_t n_out)
{
	dl_tensor *whole;

	if (c->strings)
		rt_strings(c)->begin(c->strings);
	if (rt_check_arrays(c, in, n_in, out, n_out))
		return c->x.status;
	in = rt_join(c, in, true);
	whole = in ? rt_whole_outputs(c, out) : NULL;
	if (!in || !whole)
		return c->x.status;
	run_forms(c, in, whole);
	if (whole != out)
		rt_cut_outputs(c, out);
	return c->x.status;
}

static void infer_forms(dl_context *c, const dl_tensor *in, dl_tensor *out)
{
	bool pushed;

	if (!c->forms) {
		rt_infer_plain(c, in, out);
		return;
	}
	/* whose driver is asked where items are */
	pushed = c->gpu && !rt_gpu_push(c->model);
	if (c->strings)
		rt_strings(c)->clear(c->strings);
	take_inputs(c, in, false);
	if (pushed)
		rt_gpu_pop(c->model);
	if (c->x.status)
		return;
	take_outputs(c, out);
	rt_infer_plain(c, c->plain_in, c->plain_out);
	give_outputs(c, out, true);
}

int rt_infer(dl_context *c, const dl_tensor *in, int32_t n_in, dl_tensor *out, int32_t n_out)
{
	if (rt_check_arrays(c, in, n_in, out, n_out))
		return c->x.status;
	in = rt_join(c, in, false);
	if (in)
		infer_forms(c, in, out);
	return c->x.status;
}
