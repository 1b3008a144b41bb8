/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run: the inputs are checked and determine symbols, the program binds the other symbols, the
 * workspace is planned, outputs of known shape get their memory, and the program executes. Any
 * failure stops the run with a status, and a text with the model's names.
 */
#include "runtime/rt.h"

#include <string.h>

static const dl_io *in_io(const dl_context *c, int32_t i)
{
	return dl_desc_in(c->model->prog->desc, i);
}

static const dl_io *out_io(const dl_context *c, int32_t o)
{
	return dl_desc_out(c->model->prog->desc, o);
}

int64_t rt_volume(const int64_t *shape, int32_t rank)
{
	int64_t n = 1;

	for (int32_t d = 0; d < rank; d++)
		if (!shape[d])
			return 0;
	for (int32_t d = 0; d < rank; d++)
		n = dl_mul(n, shape[d]);
	return n;
}

static bool contiguous(const dl_tensor *t)
{
	int64_t want = 1;

	if (!t->strides || !rt_volume(t->shape, t->rank))
		return true;
	for (int32_t d = t->rank; d-- > 0; want *= t->shape[d])
		if (t->shape[d] != 1 && t->strides[d] != want)
			return false;
	return true;
}

/* Binds symbol s to v, the size of dim d of an input. */
static int bind_sym(dl_context *c, const dl_io *io, int32_t d, int32_t s, int64_t v)
{
	const dl_sym *sym = dl_desc_sym(c->model->prog->desc, s);

	if (c->x.sym[s] >= 0 && c->x.sym[s] != v)
		return dl_fail(&c->x, DL_SHAPE,
			       "input \"%.100s\": dim %d (%.100s) is %lld, but %.100s is %lld in "
			       "another place",
			       io->name, (int)d, sym->name, (long long)v, sym->name,
			       (long long)c->x.sym[s]);
	if (v < sym->lower && sym->upper == DL_UNLIMITED)
		return dl_fail(&c->x, DL_SHAPE,
			       "input \"%.100s\": dim %d (%.100s) is %lld, and must be at least "
			       "%lld",
			       io->name, (int)d, sym->name, (long long)v, (long long)sym->lower);
	if (v < sym->lower || v > sym->upper)
		return dl_fail(&c->x, DL_SHAPE,
			       "input \"%.100s\": dim %d (%.100s) is %lld, and must be in "
			       "%lld..%lld",
			       io->name, (int)d, sym->name, (long long)v, (long long)sym->lower,
			       (long long)sym->upper);
	c->x.sym[s] = v;
	return DL_OK;
}

static int bind_dims(dl_context *c, const dl_io *io, const dl_tensor *t, int64_t *shape)
{
	for (int32_t d = 0; d < io->rank; d++) {
		const dl_dim *dim = dl_io_dim(io, d);
		const int64_t v = t->shape[d];

		if (v < 0 && dim->value < 0)
			return dl_fail(&c->x, DL_SHAPE,
				       "input \"%.100s\": dim %d is %lld, and must be at least 0",
				       io->name, (int)d, (long long)v);
		if (dim->value >= 0 && v != dim->value)
			return dl_fail(&c->x, DL_SHAPE,
				       "input \"%.100s\": dim %d is %lld, expected %s", io->name,
				       (int)d, (long long)v, dim->text);
		shape[d] = v;
		if (dim->sym >= 0 && bind_sym(c, io, d, dim->sym, v))
			return c->x.status;
	}
	return DL_OK;
}

static int check_align(dl_context *c, const char *what, const dl_io *io, const void *data)
{
	const unsigned align = rt_dtype_align(io->dtype);

	if ((uintptr_t)data % align)
		return dl_fail(&c->x, DL_INVALID,
			       "%s \"%.100s\": data is not aligned to its elements, %u bytes", what,
			       io->name, align);
	return DL_OK;
}

static int check_form(dl_context *c, const char *what, const dl_io *io, const dl_tensor *t)
{
	if (t->form != DL_TENSOR)
		return dl_fail(&c->x, DL_INVALID, "%s \"%.100s\" is %s, expected a tensor", what,
			       io->name, rt_form_name(t->form));
	if (io->rank && !t->shape)
		return dl_fail(&c->x, DL_INVALID, "%s \"%.100s\": shape is null", what, io->name);
	return DL_OK;
}

int64_t rt_reach(const dl_tensor *t)
{
	int64_t n = 1;

	if (!t->strides || !rt_volume(t->shape, t->rank))
		return rt_volume(t->shape, t->rank);
	for (int32_t d = 0; d < t->rank; d++)
		if (t->strides[d] > 0)
			n = dl_add(n, dl_mul(t->shape[d] - 1, t->strides[d]));
	return n;
}

/* Checks that an input's memory is large enough, if the caller gives its size. */
static int check_room(dl_context *c, const dl_io *io, const dl_tensor *t)
{
	const int64_t need = rt_bytes(t->dtype, rt_reach(t));

	if (!t->bytes || (uint64_t)need <= t->bytes)
		return DL_OK;
	return dl_fail(
		&c->x, DL_INVALID,
		"input \"%.100s\": its memory has %llu bytes, and its shape%s needs %lld; set "
		"bytes to the size of the memory, or to 0",
		io->name, (unsigned long long)t->bytes, t->strides ? " with its strides" : "",
		(long long)need);
}

/* Makes input I its default value, whose shape is fixed. */
static void bind_default(dl_context *c, int32_t i)
{
	const dl_model *m = c->model;

	for (int32_t d = 0; d < in_io(c, i)->rank; d++)
		c->x.in_shape[i][d] = dl_io_dim(in_io(c, i), d)->value;
	c->x.in[i] = m->weights.base + m->prog->defaults[i];
	c->in_bytes[i] = rt_bytes(in_io(c, i)->dtype,
				  rt_volume(c->x.in_shape[i], in_io(c, i)->rank));
}

static int bind_input(dl_context *c, int32_t i, const dl_tensor *t, bool need_data)
{
	const dl_io *io = in_io(c, i);
	int64_t n;

	if (rt_is_unset(t))
		return dl_fail(&c->x, DL_INVALID, "input \"%.100s\" is not set", io->name);
	if (check_form(c, "input", io, t))
		return c->x.status;
	if (t->dtype != io->dtype)
		return dl_fail(&c->x, DL_INVALID, "input \"%.100s\": elements are %s, expected %s",
			       io->name, rt_dtype_name(t->dtype), rt_dtype_name(io->dtype));
	if (t->rank != io->rank)
		return dl_fail(&c->x, DL_SHAPE, "input \"%.100s\": rank is %d, expected %d",
			       io->name, (int)t->rank, (int)io->rank);
	if (bind_dims(c, io, t, c->x.in_shape[i]))
		return c->x.status;
	n = rt_volume(t->shape, t->rank);
	c->in_bytes[i] = rt_bytes(t->dtype, n);
	if (c->in_bytes[i] > INT64_MAX / 2)
		return dl_fail(&c->x, DL_SHAPE, "input \"%.100s\": its shape is too large",
			       io->name);
	c->x.in[i] = t->data;
	if (!t->data && n && (need_data || io->flags & DL_IO_SHAPE_DATA))
		return dl_fail(&c->x, DL_INVALID, "input \"%.100s\": data is null", io->name);
	if (!t->data || !n)
		return DL_OK;
	return check_align(c, "input", io, t->data) ? c->x.status : check_room(c, io, t);
}

/* Copies elements of size bytes each from strided to contiguous memory. */
static void gather(char *to, const char *from, int64_t size, int32_t rank, const int64_t *shape,
		   const int64_t *strides)
{
	if (!rank) {
		memcpy(to, from, (size_t)size);
		return;
	}
	const int64_t inner = rt_volume(shape + 1, rank - 1) * size;

	for (int64_t i = 0; i < shape[0]; i++)
		gather(to + i * inner, from + i * strides[0] * size, size, rank - 1, shape + 1,
		       strides + 1);
}

static int copy_in(dl_context *c, int32_t i, const dl_tensor *t)
{
	const dl_io *io = in_io(c, i);
	dl_region *r = &c->region[c->model->prog->n_region + i];
	const int64_t bytes = c->in_bytes[i];
	const unsigned bits = rt_dtype_bits(t->dtype);

	if (c->gpu && rt_gpu_owns(c, t->data))
		return dl_fail(&c->x, DL_UNSUPPORTED,
			       "input \"%.100s\": strides of memory of the GPU", io->name);
	if (bits % 8)
		return dl_fail(&c->x, DL_UNSUPPORTED,
			       "input \"%.100s\": strides of a type that is packed "
			       "below a byte",
			       io->name);
	if (!rt_region_grow(c, r, bytes, 0))
		return dl_fail(&c->x, DL_NOMEM, "input \"%.100s\": no memory for a contiguous copy",
			       io->name);
	gather(r->p, t->data, bits / 8, t->rank, t->shape, t->strides);
	c->x.in[i] = r->p;
	return DL_OK;
}

/* Sets the dims of outputs that are known from symbols, and the others to -1. */
static void bind_outputs(dl_context *c)
{
	for (int32_t o = 0; o < c->model->prog->desc->n_out; o++) {
		const dl_io *io = out_io(c, o);

		c->out_set[o] = 0;
		c->x.out[o] = NULL;
		for (int32_t d = 0; d < io->rank; d++) {
			const dl_dim *dim = dl_io_dim(io, d);

			c->x.out_shape[o][d] = dim->value >= 0 ? dim->value
					       : dim->sym >= 0 ? c->x.sym[dim->sym]
							       : -1;
		}
	}
}

static int check_syms(dl_context *c)
{
	const dl_desc *d = c->model->prog->desc;

	for (int32_t i = 0; i < d->n_sym; i++) {
		const dl_sym *s = dl_desc_sym(d, i);

		if (s->kind != DL_SYM_INPUT) {
			c->x.sym[i] = -1;
			continue;
		}
		if (c->x.sym[i] == INT64_MAX)
			return dl_fail(&c->x, DL_SHAPE, "dim %.100s is too large", s->name);
		if (c->x.sym[i] < 0)
			return dl_fail(&c->x, DL_SHAPE, "dim %.100s cannot be told from the inputs",
				       s->name);
		if (c->x.sym[i] < s->lower && s->upper == DL_UNLIMITED)
			return dl_fail(&c->x, DL_SHAPE,
				       "dim %.100s is %lld, and must be at least %lld", s->name,
				       (long long)c->x.sym[i], (long long)s->lower);
		if (c->x.sym[i] < s->lower || c->x.sym[i] > s->upper)
			return dl_fail(&c->x, DL_SHAPE,
				       "dim %.100s is %lld, and must be in %lld..%lld", s->name,
				       (long long)c->x.sym[i], (long long)s->lower,
				       (long long)s->upper);
	}
	return DL_OK;
}

/* When the shapes of all inputs are bound: binds the other symbols, checks facts, and binds the
 * shapes of outputs. */
static int bind_rest(dl_context *c)
{
	const dl_program *p = c->model->prog;

	bind_outputs(c);
	if (p->bind) {
		const int rc = p->bind(&c->x);

		if (rc)
			return dl_fail(&c->x, rc, "%s", dl_rt_status_text(rc));
	}
	if (check_syms(c))
		return c->x.status;
	for (int32_t o = 0; o < p->desc->n_out; o++)
		for (int32_t k = 0; k < out_io(c, o)->rank; k++) {
			const dl_dim *dim = dl_io_dim(out_io(c, o), k);

			if (dim->sym >= 0)
				c->x.out_shape[o][k] = c->x.sym[dim->sym];
		}
	return DL_OK;
}

int rt_bind_dims(dl_context *c)
{
	const dl_program *p = c->model->prog;
	const dl_desc *d = p->desc;

	for (int32_t i = 0; i < d->n_in; i++)
		for (int32_t k = 0; k < in_io(c, i)->rank; k++) {
			const dl_dim *dim = dl_io_dim(in_io(c, i), k);

			c->x.in_shape[i][k] = dim->sym >= 0 ? c->x.sym[dim->sym] : dim->value;
		}
	if (p->dims)
		p->dims(&c->x);
	for (int32_t s = 0; s < d->n_sym; s++)
		c->x.sym[s] = -1;
	for (int32_t i = 0; i < d->n_in; i++)
		for (int32_t k = 0; k < in_io(c, i)->rank; k++) {
			const int32_t s = dl_io_dim(in_io(c, i), k)->sym;

			if (s >= 0 && bind_sym(c, in_io(c, i), k, s, c->x.in_shape[i][k]))
				return c->x.status;
		}
	return bind_rest(c);
}

uint32_t rt_tensor_size(int32_t form)
{
	return form == DL_TENSOR ? RT_UPTO(dl_tensor, bytes) : RT_UPTO(dl_tensor, n_items);
}

/* Checks that the array of tensors can be read and written, one for each of the N inputs or outputs
 * IO. WHAT, for messages: "inputs". */
static int check_tensors(dl_context *c, const char *what, const dl_tensor *t, const dl_io *io,
			 int32_t n)
{
	uint32_t least = 0;
	char text[200];

	if (n && !t)
		return dl_fail(&c->x, DL_INVALID, "the %s are null", what);
	for (int32_t i = 0; i < n; i++) {
		const uint32_t size = rt_tensor_size(RT_AT(const dl_io, io, i)->form);

		least = size > least ? size : least;
	}
	if (n && rt_wrong_size(text, sizeof(text), "dl_tensor", t->size, least))
		return dl_fail(&c->x, DL_ABI, "%s: %s", what, text);
	return DL_OK;
}

int rt_check_arrays(dl_context *c, const dl_tensor *in, int32_t n_in, const dl_tensor *out,
		    int32_t n_out)
{
	const dl_desc *d = rt_shown(c->model->prog);

	if (n_in != d->n_in || n_out != d->n_out)
		return dl_fail(&c->x, DL_INVALID,
			       "%d input%s and %d output%s given, expected %d and %d", (int)n_in,
			       n_in == 1 ? "" : "s", (int)n_out, n_out == 1 ? "" : "s",
			       (int)d->n_in, (int)d->n_out);
	if (check_tensors(c, "inputs", in, d->in, n_in))
		return c->x.status;
	return check_tensors(c, "outputs", out, d->out, n_out);
}

/* OUT: the outputs of a run; null: only shapes are asked for, and data may be null. */
static int bind(dl_context *c, const dl_tensor *in, const dl_tensor *out)
{
	const bool need_data = out != NULL;
	const dl_desc *d = c->model->prog->desc;

	for (int32_t s = 0; s < d->n_sym; s++)
		c->x.sym[s] = -1;
	for (int32_t i = 0; i < d->n_in; i++) {
		const dl_tensor *t = RT_AT(const dl_tensor, in, i);

		if (!t->data && in_io(c, i)->flags & DL_IO_DEFAULT) {
			bind_default(c, i);
			continue;
		}
		if (bind_input(c, i, t, need_data))
			return c->x.status;
		if (!t->data || contiguous(t))
			continue;
		if (rt_alias_input(c, i, in, out))
			c->in_bytes[i] = rt_bytes(t->dtype, rt_reach(t));
		else if ((need_data || in_io(c, i)->flags & DL_IO_SHAPE_DATA) && copy_in(c, i, t))
			return c->x.status;
	}
	if (bind_rest(c))
		return c->x.status;
	return out ? rt_alias_bind(c, in, out) : DL_OK;
}

bool rt_known(const dl_context *c, int32_t o)
{
	for (int32_t d = 0; d < out_io(c, o)->rank; d++)
		if (c->x.out_shape[o][d] < 0)
			return false;
	return true;
}

/* Sets rank and shape of the caller's output. */
static int tell_shape(dl_context *c, int32_t o, dl_tensor *t)
{
	const dl_io *io = out_io(c, o);

	if (check_form(c, "output", io, t))
		return c->x.status;
	if (t->rank < io->rank)
		return dl_fail(&c->x, DL_INVALID,
			       "output \"%.100s\": room for %d dims, its rank is %d", io->name,
			       (int)t->rank, (int)io->rank);
	if (t->dtype && t->dtype != io->dtype)
		return dl_fail(
			&c->x, DL_INVALID,
			"output \"%.100s\": elements are %s, expected %s; or set dtype to 0 and "
			"it is filled in",
			io->name, rt_dtype_name(t->dtype), rt_dtype_name(io->dtype));
	t->dtype = io->dtype;
	t->rank = io->rank;
	for (int32_t d = 0; d < io->rank; d++)
		t->shape[d] = c->x.out_shape[o][d];
	return DL_OK;
}

/* Sets *BYTES to the size of output O with this shape; fails if that is too large. */
static int output_bytes(dl_context *c, int32_t o, const int64_t *shape, int64_t *bytes)
{
	const dl_io *io = out_io(c, o);
	bool large;

	*bytes = rt_bytes(io->dtype, rt_volume(shape, io->rank));
	large = *bytes > INT64_MAX / 2;
	for (int32_t d = 0; d < io->rank; d++)
		large |= shape[d] == INT64_MAX;
	return large ? dl_fail(&c->x, DL_NOMEM, "output \"%.100s\": its shape is too large",
			       io->name)
		     : DL_OK;
}

int64_t rt_extent(const dl_tensor *t)
{
	const int64_t n = rt_reach(t);

	return t->dtype == DL_STR ? dl_mul(n, sizeof(dl_str)) : rt_bytes(t->dtype, n);
}

int64_t rt_room(const dl_tensor *t)
{
	return (int64_t)(t->bytes > INT64_MAX / 2 ? INT64_MAX / 2 : t->bytes);
}

dl_region *rt_out_region(dl_context *c, int32_t o)
{
	return &c->region[c->model->prog->n_region + c->model->prog->desc->n_in + o];
}

/* Provides the context's memory R for output o, described by T. Its contents from an earlier run
 * are lost. */
static int serve(dl_context *c, int32_t o, dl_region *r, dl_tensor *t, int64_t bytes)
{
	const dl_io *io = out_io(c, o);

	if (rt_check_served(c, o))
		return c->x.status;
	t->data = NULL; /* it may be the memory that is freed now */
	t->bytes = 0;
	if (!rt_region_grow(c, r, bytes, 0))
		return dl_fail(&c->x, DL_NOMEM, "output \"%.100s\": no memory for %lld bytes",
			       io->name, (long long)bytes);
	t->data = r->p;
	t->bytes = (uint64_t)bytes;
	return DL_OK;
}

int rt_output(dl_context *c, int32_t o, const int64_t *shape)
{
	const dl_io *io = out_io(c, o);
	dl_tensor *t = RT_AT(dl_tensor, c->out, o);
	dl_region *r = rt_out_region(c, o);
	int64_t bytes;

	if (output_bytes(c, o, shape, &bytes))
		return c->x.status;
	if (io->rank)
		memmove(c->x.out_shape[o], shape, sizeof(int64_t) * (size_t)io->rank);
	if (tell_shape(c, o, t))
		return c->x.status;
	if (t->strides && !contiguous(t)) {
		if (!rt_alias_output(c, o, t))
			return dl_fail(&c->x, DL_UNSUPPORTED, "output \"%.100s\": strides",
				       io->name);
		bytes = rt_bytes(io->dtype, rt_reach(t));
	}
	if ((!t->data || t->data == r->p) && serve(c, o, r, t, bytes))
		return c->x.status;
	if ((uint64_t)bytes > t->bytes)
		return dl_fail(&c->x, DL_CAPACITY,
			       "output \"%.100s\": needs %lld bytes, has room for "
			       "%llu",
			       io->name, (long long)bytes, (unsigned long long)t->bytes);
	if (check_align(c, "output", io, t->data))
		return c->x.status;
	c->x.out[o] = t->data;
	c->out_set[o] = 1;
	return c->gpu ? rt_gpu_output(c, o, t->data, bytes) : DL_OK;
}

static int outputs(dl_context *c, dl_tensor *out)
{
	const dl_desc *d = c->model->prog->desc;

	c->out = out;
	for (int32_t o = 0; o < d->n_out; o++)
		if (rt_known(c, o) && rt_output(c, o, c->x.out_shape[o]))
			return c->x.status;
	return rt_check_overlap(c);
}

static int execute(dl_context *c)
{
	const dl_model *m = c->model;
	Slices slices;
	int rc;

	if (c->gpu) {
		rc = rt_gpu_execute(c);
	} else {
		c->threads = m->opt.executor ? m->threads : rt_pool_acquire(m->pool, m->threads);
		slices = rt_slices(m, c->x.sym);
		rc = slices.together ? rt_exec_slices(&c->x, slices) : rt_exec_host(&c->x);
		if (!m->opt.executor)
			rt_pool_release(m->pool, c->threads);
	}
	if (rc)
		return dl_fail(&c->x, rc, "%s", dl_rt_status_text(rc));
	for (int32_t o = 0; !c->x.status && o < m->prog->desc->n_out; o++)
		if (!c->out_set[o])
			dl_fail(&c->x, DL_RUNTIME, "output \"%.100s\" was not computed",
				out_io(c, o)->name);
	return c->x.status;
}

int rt_enter(dl_context *c)
{
	if (!c)
		return rt_error(NULL, DL_INVALID, "the context is null");
	if (c->head.magic != RT_MAGIC_CONTEXT)
		return rt_error(NULL, DL_INVALID, "not a context, or one that was freed");
	if (atomic_exchange(&c->running, 1)) {
		rt_refused = c;
		return DL_BUSY;
	}
	if (rt_refused == c)
		rt_refused = NULL;
	c->x.status = DL_OK;
	c->head.error[0] = '\0';
	c->fault = 0;
	c->bad_index[1] = -1;
	return DL_OK;
}

int rt_run_plain(dl_context *c, const dl_tensor *in, dl_tensor *out)
{
	int rc;

	c->in = in;
	rc = bind(c, in, out);
	if (!rc)
		rc = rt_plan(c);
	if (!rc && c->forms)
		rc = rt_check_forms(c);
	if (!rc)
		rc = outputs(c, out);
	return rc ? rc : execute(c);
}

int dl_rt_run(dl_context *c, const dl_tensor *in, int32_t n_in, dl_tensor *out, int32_t n_out,
	      void *stream)
{
	uint64_t fp;
	int rc = rt_enter(c);

	if (rc)
		return rc;
	fp = rt_fp_enter(c->model->prog->desc->flags & DL_DESC_FLUSH);
	rc = c->gpu ? rt_gpu_enter(c, stream) : DL_OK;
	if (!rc) {
		rc = rt_run(c, in, n_in, out, n_out);
		if (c->gpu)
			rc = rt_gpu_leave(c);
	}
	rt_fp_leave(fp);
	atomic_store(&c->cancel, 0);
	atomic_store(&c->running, 0);
	return rc;
}

int rt_infer_plain(dl_context *c, const dl_tensor *in, dl_tensor *out)
{
	int64_t bytes;
	int rc = bind(c, in, NULL);

	for (int32_t o = 0; !rc && o < c->model->prog->desc->n_out; o++) {
		dl_tensor *t = RT_AT(dl_tensor, out, o);

		rc = tell_shape(c, o, t);
		if (!rc)
			rc = output_bytes(c, o, t->shape, &bytes);
		if (!rc)
			t->bytes = rt_known(c, o) ? (uint64_t)bytes : 0;
	}
	return rc;
}

int dl_rt_infer_shapes(dl_context *c, const dl_tensor *in, int32_t n_in, dl_tensor *out,
		       int32_t n_out)
{
	int rc = rt_enter(c);

	if (rc)
		return rc;
	rc = rt_infer(c, in, n_in, out, n_out);
	atomic_store(&c->running, 0);
	return rc;
}

int dl_rt_wait(dl_context *c)
{
	int rc = rt_enter(c);

	if (rc)
		return rc;
	if (c->gpu)
		rc = rt_gpu_wait(c);
	atomic_store(&c->running, 0);
	return rc;
}

void dl_rt_cancel(dl_context *c)
{
	if (c && c->head.magic == RT_MAGIC_CONTEXT)
		atomic_store(&c->cancel, 1);
}
