/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights that both CPUs and GPUs read are in the file once. Two values are the same if they are
 * the same constant, or if kernels of equal text compute them from the same values. So the name of
 * a value is the kernel's text and the names of its operands. The memory plan of a
 * GPU lays them out in a different order, so a GPU loads its weights from the file in pieces.
 */
#include "codegen/weights/weights.h"

#include "passes/forms/kernels.h"

#include <stdlib.h>

/* Constants of at most this many bytes are the same if their bytes are equal; larger ones if they
 * are the same range of a file. */
enum { SMALL = 4096 };

typedef struct Names {
	Ctx *ctx;          /* interns names */
	const char **name; /* by Value.id */
} Names;

static const char *name_const(Names *n, const Tensor *t)
{
	STRBUF_LOCAL(b);

	strbuf_printf(&b, "%lld ", (long long)t->bytes);
	if (t->bytes > SMALL && t->file)
		strbuf_printf(&b, "%lld %s", (long long)t->offset, t->file);
	else if (t->bytes > SMALL)
		strbuf_printf(&b, "%p", t->data);
	for (int64_t i = 0; t->bytes <= SMALL && i < t->bytes; i++)
		strbuf_printf(&b, "%02x", ((const unsigned char *)t->data)[i]);
	return ctx_name(n->ctx, strbuf_str(&b));
}

static const char *name_of(Names *n, Value *v);

/* The name of a result. Names are interned, and the name contains those of the operands by their
 * addresses, so it is short. */
static const char *name_result(Names *n, Value *v)
{
	Node *def = v->def;
	STRBUF_LOCAL(b);
	int out = 0;

	while (def->out[out] != v)
		out++;
	strbuf_printf(&b, "%d", out);
	for (int i = 0; i < def->nin; i++)
		strbuf_printf(&b, " %p",
			      node_in(def, i)
				      ? (const void *)name_of(n, value_base(node_in(def, i)))
				      : NULL);
	strbuf_puts(&b, "\n");
	kernel_print_bare(&b, node_kernel(def));
	return ctx_name(n->ctx, strbuf_str(&b));
}

static const char *name_of(Names *n, Value *v)
{
	if (!n->name[v->id])
		n->name[v->id] = value_const(v) ? name_const(n, value_const(v)) : name_result(n, v);
	return n->name[v->id];
}

typedef struct Stored {
	const char *name;
	int64_t at;
} Stored;

static int by_name(const void *a, const void *b)
{
	const uintptr_t x = (uintptr_t)((const Stored *)a)->name,
			y = (uintptr_t)((const Stored *)b)->name;

	return x < y ? -1 : x > y;
}

/* Orders by name, then by offset. */
static int by_name_and_offset(const void *a, const void *b)
{
	const int64_t x = ((const Stored *)a)->at, y = ((const Stored *)b)->at;
	const int order = by_name(a, b);

	return order ? order : x < y ? -1 : x > y;
}

static Names names_of(Module *m, Ctx *ctx)
{
	return (Names){ctx, NEW_ARRAY(m->arena, m->graph->nvalues + 1, const char *)};
}

/* The weights of CPUs by name. */
static Stored *stored_of(Module *m)
{
	Names names = names_of(m, m->ctx);
	Stored *s = NEW_ARRAY(m->arena, m->mem->stored.n + 1, Stored);

	for (int i = 0; i < m->mem->stored.n; i++) {
		Value *v = m->mem->stored.at[i];

		s[i] = (Stored){name_of(&names, v), m->mem->value[v->id].offset};
	}
	qsort(s, (size_t)m->mem->stored.n, sizeof *s, by_name_and_offset);
	/* equal values take the lowest offset, so that the result does not depend on addresses */
	for (int i = 1; i < m->mem->stored.n; i++)
		if (s[i].name == s[i - 1].name)
			s[i].at = s[i - 1].at;
	return s;
}

static void add_piece(Module *m, WeightsFile *f, int64_t to, int64_t from, int64_t bytes)
{
	WeightsPiece *last = f->piece.n ? &f->piece.at[f->piece.n - 1] : NULL;
	const WeightsPiece next = {to, from, bytes};

	if (last && last->to + last->bytes == to && last->from + last->bytes == from)
		last->bytes += bytes;
	else
		vec_push(m->arena, &f->piece, next);
}

const WeightsFile *weights_file(Module *m)
{
	enum { PAGE = 65536, ALIGN = 64 };
	Module *gpu = m->gpu;
	WeightsFile *f;
	Names names;
	Stored *s;

	if (!gpu || gpu->mem->file)
		return gpu ? gpu->mem->file : NULL;
	f = gpu->mem->file = NEW(m->arena, WeightsFile);
	f->at = NEW_ARRAY(m->arena, gpu->graph->nvalues + 1, int64_t);
	f->own = (m->mem->weights + PAGE - 1) / PAGE * PAGE;
	f->bytes = f->own;
	names = names_of(gpu, m->ctx);
	s = stored_of(m);
	VEC_EACH (v, &gpu->mem->stored) {
		const Place *p = &gpu->mem->value[v->id];
		const Stored key = {name_of(&names, v), 0};
		const Stored *one = bsearch(&key, s, (size_t)m->mem->stored.n, sizeof *s, by_name);
		int64_t bytes = 0;

		dim_is_const(p->size, &bytes);
		bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
		f->at[v->id] = one ? one->at : f->bytes;
		f->bytes += one ? 0 : bytes;
		if (bytes)
			add_piece(m, f, p->offset, f->at[v->id], bytes);
	}
	if (f->bytes == f->own)
		f->bytes = m->mem->weights;
	return f;
}
