/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tools/batch/forms.h"

#include <string.h>

/* ---- What a model takes and gives ---- */

static const dl_form form_of[] = {[TYPE_TENSOR] = DL_TENSOR,
				  [TYPE_SEQUENCE] = DL_SEQUENCE,
				  [TYPE_OPTIONAL] = DL_OPTIONAL,
				  [TYPE_MAP] = DL_MAP};

static dl_form declared_form(const Onnx__ValueInfoProto *v)
{
	if (!v->type)
		return DL_TENSOR;
	switch (v->type->value_case) {
	case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE: return DL_SEQUENCE;
	case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE: return DL_OPTIONAL;
	case ONNX__TYPE_PROTO__VALUE_MAP_TYPE: return DL_MAP;
	default: return DL_TENSOR;
	}
}

void forms_values(Arena *a, const Graph *g, const Onnx__ModelProto *model, FormValues *v)
{
	v->n_in = g->inputs.n;
	v->n_out = g->results.n;
	v->in_name = NEW_ARRAY(a, v->n_in + 1, const char *);
	v->in_type = NEW_ARRAY(a, v->n_in + 1, const Type *);
	v->out_name = NEW_ARRAY(a, v->n_out + 1, const char *);
	v->out_accuracy = NEW_ARRAY(a, v->n_out + 1, Accuracy);
	v->in_form = NEW_ARRAY(a, v->n_in + 1, dl_form);
	v->out_form = NEW_ARRAY(a, v->n_out + 1, dl_form);
	for (int i = 0; i < v->n_in; i++) {
		v->in_name[i] = g->inputs.at[i]->name ? g->inputs.at[i]->name : "";
		v->in_type[i] = g->inputs.at[i]->type;
		v->in_form[i] = form_of[v->in_type[i]->kind];
	}
	for (int o = 0; o < v->n_out; o++) {
		v->out_name[o] = g->result_names.at[o] ? g->result_names.at[o] : "";
		v->out_accuracy[o] = value_accuracy(g->results.at[o]->value, 0);
		if (model)
			v->out_form[o] = declared_form(model->graph->output[o]);
	}
}

/* ---- Taking ---- */

static Tensor *as_tensor(Arena *a, dl_strings *s, const Array *v)
{
	Tensor *t = NEW(a, Tensor);

	if (v->dtype == DT_STR) {
		const dl_str *text = v->data;

		t = tensor_new(a, DT_STR, v->rank, v->dims);
		for (int64_t i = 0; i < array_count(v); i++)
			dtype_store_i64(DT_STR, (void *)(uintptr_t)t->data, i,
					strings_intern(s, text[i].p, text[i].n));
		return t;
	}
	*t = (Tensor){.dtype = v->dtype,
		      .rank = v->rank,
		      .dims = v->dims,
		      .data = v->data,
		      .bytes = dtype_size(v->dtype, array_count(v))};
	return t;
}

/* The tensors of V, which is a list of them, an optional of one, or an optional of a list. */
static const Array *list_of(const Array *v, int64_t *n)
{
	*n = v->n_items;
	if (v->form == DL_OPTIONAL && *n && v->items[0].form == DL_SEQUENCE)
		return list_of(&v->items[0], n);
	return v->items;
}

static const char *take_list(Arena *a, dl_strings *s, const Type *t, const Array *v,
			     const Tensor **to)
{
	const Type *elem = type_listed(t);
	int64_t n, total = 0, *shape;
	const Array *item = list_of(v, &n);
	Tensor *data, *shapes;
	char *at;

	if (dtype_info[elem->dtype].bits % 8)
		return "items whose elements have less than 8 bits are not supported";
	for (int64_t i = 0; i < n; i++) {
		if (item[i].form != DL_TENSOR || item[i].dtype != elem->dtype ||
		    item[i].rank != elem->rank)
			return "an item has another type than the model says";
		total += array_count(&item[i]);
	}
	data = tensor_new(a, elem->dtype, 1, &total);
	shapes = tensor_new(a, DT_I64, 2, (int64_t[]){n, elem->rank});
	at = (char *)(uintptr_t)data->data;
	shape = (int64_t *)(uintptr_t)shapes->data;
	for (int64_t i = 0; i < n; i++) {
		const Tensor *one = as_tensor(a, s, &item[i]);

		if (one->bytes)
			memcpy(at, one->data, (size_t)one->bytes);
		at += one->bytes;
		for (int32_t d = 0; d < elem->rank; d++)
			*shape++ = item[i].dims[d];
	}
	to[0] = data;
	to[1] = shapes;
	if (type_parts(t) == 3)
		to[2] = tensor_new(a, DT_I64, 1, &v->n_items);
	if (type_parts(t) == 3 && v->n_items)
		*(int64_t *)(uintptr_t)to[2]->data = n;
	return NULL;
}

const char *forms_take(Arena *a, dl_strings *s, const Type *t, const Array *v, const Tensor **to)
{
	if (v->form != form_of[t->kind])
		return "the data is another kind of value than the model says";
	if (t->kind == TYPE_TENSOR) {
		to[0] = as_tensor(a, s, v);
		return NULL;
	}
	if (!type_map_of(t))
		return take_list(a, s, t, v, to);
	for (int k = 0; k < 2; k++)
		to[k] = as_tensor(a, s, &v->items[k]);
	return NULL;
}

const Tensor **forms_feed(Arena *a, Diag *d, const char *dir, dl_strings *s, const FormValues *v,
			  const Array *in)
{
	const Tensor **feed;
	const char *bad;
	int n = 0;

	for (int i = 0; i < v->n_in; i++)
		n += type_parts(v->in_type[i]);
	feed = NEW_ARRAY(a, n + 1, const Tensor *);
	n = 0;
	for (int i = 0; i < v->n_in; n += type_parts(v->in_type[i++])) {
		bad = forms_take(a, s, v->in_type[i], &in[i], feed + n);
		if (bad) {
			diag_error(d, (DiagLoc){.file = dir}, "input %s: %s", v->in_name[i], bad);
			return NULL;
		}
	}
	return feed;
}

/* ---- Giving ---- */

int forms_first(const Graph *g, int o)
{
	int first = g->gives.n ? 0 : o;

	for (int i = 0; i < o && g->gives.n; i++)
		first += g->gives.at[i].parts;
	return first;
}

const Type *forms_type(const Graph *g, int o)
{
	return g->gives.n ? g->gives.at[o].type : NULL;
}

/* A tensor of DIMS whose elements begin at element FROM of T. */
static Array piece(Arena *a, dl_strings *s, const Tensor *t, int64_t from, int rank, int64_t *dims)
{
	Array v = array_make("", t->dtype, rank, dims,
			     (char *)(uintptr_t)t->data + dtype_size(t->dtype, from));

	if (t->dtype == DT_STR)
		v.data = array_strings(a, s, v.data, array_count(&v));
	return v;
}

static Array give_list(Arena *a, dl_strings *s, dl_form form, Tensor *const *got)
{
	const int64_t n = got[1]->dims[0], rank = got[1]->dims[1];
	int64_t *shape = (int64_t *)(uintptr_t)got[1]->data, from = 0;
	Array v = {.name = "", .form = form, .items = NEW_ARRAY(a, n, Array), .n_items = n};

	for (int64_t i = 0; i < n; i++, shape += rank) {
		v.items[i] = piece(a, s, got[0], from, (int)rank, shape);
		from += array_count(&v.items[i]);
	}
	return v;
}

static Array give_map(Arena *a, dl_strings *s, Tensor *const *got, int64_t row)
{
	int64_t *n = got[0]->dims;
	Array v = {.name = "", .form = DL_MAP, .items = NEW_ARRAY(a, 2, Array), .n_items = 2};

	v.items[0] = piece(a, s, got[0], 0, 1, n);
	v.items[1] = piece(a, s, got[1], row * *n, 1, n);
	return v;
}

Array forms_give(Arena *a, dl_strings *s, const Graph *g, int o, Tensor *const *got,
		 const char *name)
{
	const Type *t = forms_type(g, o);
	Array v, list;

	got += forms_first(g, o);
	if (!t) {
		v = piece(a, s, got[0], 0, got[0]->rank, got[0]->dims);
	} else if (t->kind == TYPE_MAP) {
		v = give_map(a, s, got, 0);
	} else if (type_map_of(t)) {
		const int64_t n = got[1]->dims[0];

		v = (Array){.form = DL_SEQUENCE, .items = NEW_ARRAY(a, n, Array), .n_items = n};
		for (int64_t i = 0; i < n; i++)
			v.items[i] = give_map(a, s, got, i);
	} else if (type_parts(t) == 3) {
		list = give_list(a, s, DL_SEQUENCE, got);
		v = (Array){.form = DL_OPTIONAL,
			    .items = arena_copy(a, &list, sizeof list),
			    .n_items = got[2]->dims[0]};
	} else {
		v = give_list(a, s, t->kind == TYPE_SEQUENCE ? DL_SEQUENCE : DL_OPTIONAL, got);
	}
	v.name = name;
	return v;
}
