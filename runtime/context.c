/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts and their memory. A context is one block: its struct and all arrays of dl_exec. The
 * workspace is a second block, which the caller may provide: the arena as the program plans it,
 * then a scratch area for each thread. Its size depends only on the dims, so workspace() is exact.
 */
#include "runtime/rt.h"
#include "runtime/strtable.h"

#include <string.h>

/* Cuts a block into pieces; if base is null, only adds up their sizes. */
typedef struct Cutter {
	char *base;
	uint64_t used;
} Cutter;

static void *cut(Cutter *c, uint64_t n, uint64_t size)
{
	char *p = c->base ? c->base + c->used : NULL;

	c->used += (n * size + 15) & ~(uint64_t)15;
	return p;
}

static int64_t *const *cut_shapes(Cutter *c, const dl_io *io, int32_t n)
{
	int64_t **s = cut(c, (uint64_t)n, sizeof(*s));

	for (int32_t i = 0; i < n; i++) {
		int64_t *dims = cut(c, (uint64_t)RT_AT(const dl_io, io, i)->rank, sizeof(*dims));

		if (s)
			s[i] = dims;
	}
	return s;
}

uint64_t rt_n_sym(const dl_program *p)
{
	return (uint64_t)p->desc->n_sym + (uint64_t)p->n_more_sym;
}

static uint64_t n_regions(const dl_program *p)
{
	return (uint64_t)p->n_region + (uint64_t)p->desc->n_in + (uint64_t)p->desc->n_out;
}

static uint64_t n_forms(const dl_program *p)
{
	return (uint64_t)p->desc->n_in + (uint64_t)p->desc->n_out + (uint64_t)rt_shown(p)->n_out;
}

/* Lays out a context of program p at base, or, if that is null, only measures it. Returns the
 * bytes. */
static uint64_t lay_out(char *base, const dl_program *p)
{
	const dl_desc *d = p->desc;
	Cutter c = {base, 0};
	dl_context scratch, *x = base ? (dl_context *)(void *)base : &scratch;

	cut(&c, 1, sizeof(*x));
	x->x.sym = cut(&c, rt_n_sym(p), sizeof(int64_t));
	x->planned_sym = cut(&c, (uint64_t)d->n_sym, sizeof(int64_t));
	x->offset = cut(&c, (uint64_t)p->n_buf, sizeof(int64_t));
	x->slice_offset = cut(&c, p->slice ? (uint64_t)p->n_buf : 0, sizeof(int64_t));
	x->x.in = cut(&c, (uint64_t)d->n_in, sizeof(void *));
	x->x.host_in = cut(&c, p->gpu ? (uint64_t)d->n_in : 0, sizeof(void *));
	x->x.out = cut(&c, (uint64_t)d->n_out, sizeof(void *));
	x->x.buf = cut(&c, (uint64_t)p->n_buf, sizeof(void *));
	x->region = cut(&c, n_regions(p), sizeof(dl_region));
	if (rt_has_forms(p)) {
		x->forms = cut(&c, n_forms(p), sizeof(dl_region));
		x->plain_in = cut(&c, (uint64_t)d->n_in, sizeof(dl_tensor));
		x->plain_out = cut(&c, (uint64_t)d->n_out, sizeof(dl_tensor));
		x->part_shape = cut(&c, (uint64_t)d->n_in + (uint64_t)d->n_out,
				    sizeof(*x->part_shape));
	}
	if (rt_has_pieces(p)) {
		const dl_desc *shown = rt_shown(p);

		x->joined = cut(&c, (uint64_t)shown->n_in, sizeof(dl_tensor));
		x->cut = cut(&c, (uint64_t)shown->n_out, sizeof(dl_tensor));
		x->joined_memory = cut(&c, (uint64_t)shown->n_in, sizeof(dl_region));
		x->joined_shape = cut_shapes(&c, shown->in, shown->n_in);
		x->cut_shape = cut_shapes(&c, shown->out, shown->n_out);
	}
	x->in_bytes = cut(&c, (uint64_t)d->n_in, sizeof(int64_t));
	x->out_set = cut(&c, (uint64_t)d->n_out, 1);
	x->x.in_shape = cut_shapes(&c, d->in, d->n_in);
	x->x.out_shape = cut_shapes(&c, d->out, d->n_out);
	return c.used;
}

/* The bytes that a run needs: the arena and the scratch of one thread, from plan; if threads
 * compute slices, the bytes of each thread for that, and the offset of its scratch; and the
 * workspace. On a GPU the arena is in the GPU's memory, and the scratch, of one thread, in the
 * host's. */
typedef struct RunBytes {
	int64_t arena, scratch, slice, slice_scratch, workspace;
} RunBytes;

/* Calls plan with a batch of N elements; 0: with the present symbols. */
static void plan(const dl_program *p, int64_t *sym, int64_t n, int64_t *offset, int64_t *arena,
		 int64_t *scratch)
{
	int64_t *size = n ? &sym[p->slice_sym] : NULL;
	const int64_t all = n ? *size : 0;

	*arena = *scratch = 0;
	if (n)
		*size = n;
	p->plan(sym, offset, arena, scratch);
	if (n)
		*size = all;
	*arena = dl_align(*arena);
	*scratch = dl_align(*scratch);
}

static RunBytes measure(const dl_model *m, int64_t *sym, int64_t *offset, int64_t *slice_offset)
{
	const dl_program *p = m->prog;
	const Slices s = rt_slices(m, sym);
	RunBytes z = {0};

	/* Joint computation of all threads is planned even if the slices leave no element for it:
	 * with memory for max_dims, all smaller batches run, too. */
	if (s.apart) {
		plan(p, sym, p->slice, slice_offset, &z.arena, &z.scratch);
		z.slice = rt_slice_bytes(p, z.arena, z.scratch, &z.slice_scratch);
	}
	plan(p, sym, s.together, offset, &z.arena, &z.scratch);
	z.workspace = dl_max(dl_add(z.arena, dl_mul(z.scratch, m->gpu ? 1 : m->threads)),
			     dl_mul(z.slice, m->threads));
	return z;
}

/* Sets all symbols from the caller's dims. */
static int take_dims(dl_model *m, const int64_t *dims, int32_t n_dims, int64_t *sym)
{
	const dl_desc *d = m->prog->desc;

	if (n_dims != m->desc->n_sym || (n_dims && !dims))
		return rt_error(m, DL_INVALID, "%s: dims of %d symbols are asked for, %d given",
				d->name, (int)m->desc->n_sym, (int)n_dims);
	/* Programs for other devices differ only in symbols of data, which are last. */
	for (int32_t i = 0; i < d->n_sym; i++) {
		const dl_sym *s = dl_desc_sym(d, i);

		sym[i] = -1;
		if (s->kind != DL_SYM_INPUT)
			continue;
		sym[i] = dims[i] == -1 ? s->upper : dims[i];
		if (sym[i] == DL_UNLIMITED)
			return rt_error(m, DL_UNBOUNDED,
					"%s: dim %.100s has no upper bound; give one", d->name,
					s->name);
		if (sym[i] < s->lower && s->upper == DL_UNLIMITED)
			return rt_error(m, DL_SHAPE,
					"%s: dim %.100s is %lld, and must be at least %lld",
					d->name, s->name, (long long)sym[i], (long long)s->lower);
		if (sym[i] < s->lower || sym[i] > s->upper)
			return rt_error(m, DL_SHAPE,
					"%s: dim %.100s is %lld, and must be in %lld..%lld",
					d->name, s->name, (long long)sym[i], (long long)s->lower,
					(long long)s->upper);
	}
	return DL_OK;
}

static int too_large(dl_model *m)
{
	return rt_error(m, DL_NOMEM, "%s: these dims need more memory than can be addressed",
			m->prog->desc->name);
}

/* Calls measure for the caller's dims. */
static int measure_dims(dl_model *m, const int64_t *dims, int32_t n_dims, RunBytes *z)
{
	const dl_program *p = m->prog;
	const uint64_t bytes = sizeof(int64_t) * (rt_n_sym(p) + (uint64_t)p->n_buf);
	int64_t *sym = rt_alloc(m, bytes), *offset = sym + rt_n_sym(p);
	int rc;

	if (!sym)
		return rt_error(m, DL_NOMEM, "out of memory");
	rc = take_dims(m, dims, n_dims, sym);
	if (!rc)
		*z = measure(m, sym, offset, offset);
	rt_free(m, sym, bytes);
	return rc || z->workspace < INT64_MAX ? rc : too_large(m);
}

int dl_rt_workspace(dl_model *m, const int64_t *max_dims, int32_t n_dims, dl_workspace *w)
{
	dl_workspace is = {.align = RT_ALIGN};
	RunBytes z;
	int rc = rt_check_model(m, "workspace");

	if (rc)
		return rc;
	if (!w)
		return rt_error(m, DL_INVALID, "workspace: the place for it is null");
	rc = measure_dims(m, max_dims, n_dims, &z);
	if (rc)
		return rc;
	is.host_bytes = (uint64_t)(m->gpu ? z.scratch : z.workspace);
	is.device_bytes = (uint64_t)(m->gpu ? z.arena : 0);
	return rt_give(m, "dl_workspace", w, RT_UPTO(dl_workspace, host_bytes), &is, sizeof(is));
}

/* Grows the workspace to this number of bytes. */
static int grow_arena(dl_context *c, uint64_t bytes)
{
	if (c->gpu && !c->arena_borrowed)
		return rt_gpu_arena(c, (int64_t)bytes);
	if (bytes <= c->arena_bytes)
		return DL_OK;
	if (c->arena_borrowed)
		return dl_fail(&c->x, DL_WORKSPACE,
			       "these dims need a workspace of %llu bytes, and "
			       "it has %llu",
			       (unsigned long long)bytes, (unsigned long long)c->arena_bytes);
	rt_free(c->model, c->arena, c->arena_bytes);
	c->arena_bytes = 0;
	c->arena = rt_alloc(c->model, bytes);
	if (!c->arena)
		return dl_fail(&c->x, DL_NOMEM, "no memory for a workspace of %llu bytes",
			       (unsigned long long)bytes);
	c->arena_bytes = bytes;
	return DL_OK;
}

/* Makes room for the arena and, in it, scratch; on a GPU scratch is a separate block, in host
 * memory. */
static int grow(dl_context *c, int64_t arena, int64_t need)
{
	if (grow_arena(c, (uint64_t)(c->gpu ? arena : need)))
		return c->x.status;
	c->scratch = c->arena + arena;
	if (!c->gpu)
		return DL_OK;
	if (!rt_region_grow(c, &c->beside, c->scratch_bytes, 0))
		return dl_fail(&c->x, DL_NOMEM, "no memory for a workspace of %lld bytes",
			       (long long)c->scratch_bytes);
	c->scratch = c->beside.p;
	return DL_OK;
}

int rt_plan(dl_context *c)
{
	const dl_program *p = c->model->prog;
	const int32_t n_arena = p->n_buf - p->n_host_buf;
	const size_t sym_bytes = sizeof(int64_t) * (size_t)p->desc->n_sym;
	RunBytes z;

	if (c->planned && !memcmp(c->planned_sym, c->x.sym, sym_bytes))
		return DL_OK;
	c->planned = false;
	z = measure(c->model, c->x.sym, c->offset, c->slice_offset);
	if (z.workspace == INT64_MAX)
		return dl_fail(&c->x, DL_NOMEM,
			       "these dims need more memory than can be addressed");
	c->scratch_bytes = z.scratch;
	c->slice_bytes = z.slice;
	c->slice_scratch = z.slice_scratch;
	if (grow(c, z.arena, z.workspace))
		return c->x.status;
	for (int32_t b = 0; b < p->n_buf; b++)
		c->x.buf[b] = c->offset[b] < 0
				      ? NULL
				      : (b < n_arena ? c->arena : c->scratch) + c->offset[b];
	memcpy(c->planned_sym, c->x.sym, sym_bytes);
	c->planned = true;
	return DL_OK;
}

bool rt_region_grow(dl_context *c, dl_region *r, int64_t bytes, int64_t keep)
{
	uint64_t want;
	void *p;

	if (bytes >= 0 && r->p && (uint64_t)bytes <= r->bytes)
		return true;
	if (bytes < 0 || bytes > INT64_MAX / 2)
		return false;
	want = (uint64_t)dl_align(bytes);
	if (keep > 0 && want < r->bytes + r->bytes / 2)
		/* grows in steps of a half */
		want = (r->bytes + r->bytes / 2 + 63) & ~(uint64_t)63;
	if (!keep) {
		rt_free(c->model, r->p, r->bytes);
		*r = (dl_region){NULL, 0};
	}
	p = rt_alloc(c->model, want);
	if (!p)
		return false;
	if (keep > 0 && r->p)
		memcpy(p, r->p, (uint64_t)keep < r->bytes ? (uint64_t)keep : r->bytes);
	rt_free(c->model, r->p, r->bytes);
	*r = (dl_region){p, want ? want : 1};
	return true;
}

/* Copies the failure's text to the model, before the context is freed. */
static int give_up(dl_context *c, dl_context **context, int rc)
{
	if (c->head.error[0])
		rt_error(c->model, rc, "%s", c->head.error);
	dl_rt_context_free(c);
	*context = NULL;
	return rc;
}

/* Sets up everything that a first run with the dims in x.sym would. */
static int prepare(dl_context *c)
{
	if (rt_bind_dims(c) || rt_plan(c))
		return c->x.status;
	return c->gpu ? rt_gpu_prepare(c) : DL_OK;
}

static int first_workspace(dl_context *c, const dl_context_options *o)
{
	const dl_desc *d = c->model->prog->desc;
	bool dynamic = false;
	int rc;

	if (o->workspace || o->workspace_bytes) {
		if ((uintptr_t)o->workspace % RT_ALIGN)
			return dl_fail(&c->x, DL_INVALID, "the workspace is not aligned to 64");
		if (c->gpu && rt_gpu_workspace(c, o->workspace, o->workspace_bytes))
			return c->x.status;
		c->arena = o->workspace;
		c->arena_bytes = o->workspace ? o->workspace_bytes : 0;
		c->arena_borrowed = true;
	}
	for (int32_t i = 0; i < d->n_sym; i++)
		if (dl_desc_sym(d, i)->kind == DL_SYM_INPUT)
			dynamic = true;
	if (o->max_dims) {
		rc = take_dims(c->model, o->max_dims, o->n_dims, c->x.sym);
		if (rc || dynamic)
			return rc ? rc : rt_plan(c);
	}
	for (int32_t i = 0; i < d->n_sym; i++)
		c->x.sym[i] = -1;
	return dynamic ? DL_OK : prepare(c);
}

static int first_on_gpu(dl_context *c, const dl_context_options *o)
{
	int rc = rt_gpu_push(c->model);

	if (rc)
		return rc;
	rc = rt_gpu_context(c);
	if (!rc)
		rc = first_workspace(c, o);
	rt_gpu_pop(c->model);
	return rc;
}

static int take_context_options(dl_model *m, const dl_context_options *options,
				dl_context_options *o)
{
	const uint32_t known = DL_CONTEXT_ON_GPU | DL_CONTEXT_OWN_STREAM;
	int rc;

	*o = (dl_context_options){.size = sizeof(*o)};
	if (!options)
		return DL_OK;
	rc = rt_take(m, "dl_context_options", o, sizeof(*o), options,
		     RT_UPTO(dl_context_options, workspace_bytes));
	if (!rc && o->flags & ~known)
		return rt_error(m, DL_UNSUPPORTED, "context: flags 0x%x are not known",
				(unsigned)(o->flags & ~known));
	return rc;
}

/* Makes a context without workspace; null if there is no memory. */
static dl_context *new_context(dl_model *m, uint32_t flags)
{
	const uint64_t bytes = lay_out(NULL, m->prog);
	dl_context *c = rt_alloc(m, bytes);

	if (!c)
		return NULL;
	memset(c, 0, bytes);
	lay_out((char *)c, m->prog);
	c->head.magic = RT_MAGIC_CONTEXT;
	c->model = m;
	c->own_bytes = bytes;
	if (m->prog->n_strings) {
		c->strings = m->prog->string_table->create(
			&(StringsMemory){m->opt.user, m->opt.alloc, m->opt.free}, m->prog->strings,
			m->prog->n_strings);
		if (!c->strings) {
			rt_free(m, c, bytes);
			return NULL;
		}
	}
	c->x.prog = m->prog;
	c->x.ctx = c;
	c->x.counts = m->profile != NULL;
	c->x.weights = m->weights.base;
	c->x.variant = m->variant;
	c->flags = flags;
	c->id = atomic_fetch_add(&m->contexts, 1);
	if (rt_refused == c)
		rt_refused = NULL;
	return c;
}

int dl_rt_context(dl_model *m, const dl_context_options *options, dl_context **context)
{
	dl_context_options o;
	dl_context *c;
	int rc;

	if (context)
		*context = NULL;
	rc = rt_check_model(m, "context");
	if (rc)
		return rc;
	if (!context)
		return rt_error(m, DL_INVALID, "context: the place for it is null");
	rc = take_context_options(m, options, &o);
	if (rc)
		return rc;
	c = new_context(m, o.flags);
	if (!c)
		return rt_error(m, DL_NOMEM, "no memory for a context");
	rc = m->gpu ? first_on_gpu(c, &o) : first_workspace(c, &o);
	if (rc)
		return give_up(c, context, rc);
	*context = c;
	return DL_OK;
}

void dl_rt_context_free(dl_context *c)
{
	dl_model *m;

	if (!c || c->head.magic != RT_MAGIC_CONTEXT)
		return;
	m = c->model;
	if (c->gpu) {
		c->arena = NULL; /* it is in the GPU's memory */
		rt_gpu_context_free(c);
	}
	rt_free(m, c->beside.p, c->beside.bytes);
	rt_free(m, c->more.p, c->more.bytes);
	for (uint64_t i = 0; i < n_regions(m->prog); i++)
		rt_free(m, c->region[i].p, c->region[i].bytes);
	for (uint64_t i = 0; c->forms && i < n_forms(m->prog); i++)
		rt_free(m, c->forms[i].p, c->forms[i].bytes);
	for (int32_t i = 0; c->joined && i < rt_shown(m->prog)->n_in; i++)
		rt_free(m, c->joined_memory[i].p, c->joined_memory[i].bytes);
	rt_free(m, c->ranges.p, c->ranges.bytes);
	if (c->strings)
		rt_strings(c)->free(c->strings);
	if (!c->arena_borrowed)
		rt_free(m, c->arena, c->arena_bytes);
	c->head.magic = 0;
	rt_free(m, c, c->own_bytes);
	atomic_fetch_sub(&m->contexts, 1);
}

int dl_rt_prepare(dl_context *c, const int64_t *dims, int32_t n_dims)
{
	int rc = rt_enter(c), cancelled;

	if (rc)
		return rc;
	cancelled = atomic_exchange(
		&c->cancel, 0); /* a cancel between two runs ends the next run, not this call */
	rc = take_dims(c->model, dims, n_dims, c->x.sym);
	if (rc)
		dl_fail(&c->x, rc, "%s", dl_rt_error(NULL));
	else if (c->gpu && !(rc = rt_gpu_enter_own(c))) {
		prepare(c);
		rc = rt_gpu_leave(c);
	} else if (!c->gpu) {
		rc = prepare(c);
	}
	if (cancelled)
		atomic_store(&c->cancel, 1);
	atomic_store(&c->running, 0);
	return rc;
}
