/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a run may not use twice: that of an output for an input or another output, and a
 * workspace of the caller's for either. It is refused before anything is computed.
 *
 * The program's tensors of numbers are in the caller's memory. The caller's strings and the items
 * of its lists are not in the memory of the program's tensors for them (forms.c), so the caller's
 * addresses are compared. The bytes of single strings are not compared.
 *
 * Tensors in pieces are in memory of the context during a run; the memory of each piece is compared
 * with that of all other tensors.
 */
#include "runtime/rt.h"

#include <stdio.h>

/* Some memory; empty if P is null. */
typedef struct Memory {
	const void *p;
	int64_t bytes;
} Memory;

static bool overlap(Memory a, Memory b)
{
	const uintptr_t pa = (uintptr_t)a.p, pb = (uintptr_t)b.p;

	return a.p && b.p && a.bytes && b.bytes && pa < pb + (uintptr_t)b.bytes &&
	       pb < pa + (uintptr_t)a.bytes;
}

static Memory region_memory(const dl_region *r)
{
	return (Memory){r->p, (int64_t)r->bytes};
}

/* ---- The program's tensors ---- */

static const dl_io *in_io(const dl_context *c, int32_t i)
{
	return dl_desc_in(c->model->prog->desc, i);
}

static const dl_io *out_io(const dl_context *c, int32_t o)
{
	return dl_desc_out(c->model->prog->desc, o);
}

/* Input I as the caller has it, also if it is copied; or its default value. */
static Memory in_memory(const dl_context *c, int32_t i)
{
	const dl_tensor *t = RT_AT(const dl_tensor, c->in, i);

	if (!t->data)
		return (Memory){c->x.in[i], c->in_bytes[i]};
	return (Memory){t->data, t->strides ? rt_bytes(t->dtype, rt_reach(t)) : c->in_bytes[i]};
}

/* Input I as the run reads it: a copy of one with strides was made before any output is written. */
static Memory read_memory(const dl_context *c, int32_t i)
{
	const dl_tensor *t = RT_AT(const dl_tensor, c->in, i);

	return t->data && t->strides && c->x.in[i] != t->data ? (Memory){c->x.in[i], c->in_bytes[i]}
							      : in_memory(c, i);
}

/* The memory that output O may write: its size, or, while that is unknown, all of its memory. */
static Memory out_memory(const dl_context *c, int32_t o)
{
	const dl_tensor *t = RT_AT(const dl_tensor, c->out, o);

	/* its shape was told if it is known */
	return (Memory){t->data,
			rt_known(c, o) ? rt_bytes(out_io(c, o)->dtype, rt_reach(t)) : rt_room(t)};
}

int rt_check_served(dl_context *c, int32_t o)
{
	const dl_desc *d = c->model->prog->desc;
	const Memory served = region_memory(rt_out_region(c, o));

	for (int32_t i = 0; i < d->n_in; i++)
		if (overlap(served, in_memory(c, i)))
			return dl_fail(
				&c->x, DL_INVALID,
				"input \"%.100s\" lies in the memory that the context serves "
				"for output \"%.100s\"; give that output memory of your own",
				in_io(c, i)->name, out_io(c, o)->name);
	for (int32_t q = 0; q < d->n_out; q++) {
		const Memory begin = {RT_AT(const dl_tensor, c->out, q)->data, 1};

		if (q != o && overlap(served, begin))
			return dl_fail(
				&c->x, DL_INVALID,
				"output \"%.100s\" lies in the memory that the context serves "
				"for output \"%.100s\"; give each memory of your own, or none",
				out_io(c, q)->name, out_io(c, o)->name);
	}
	return DL_OK;
}

static int check_workspace(dl_context *c)
{
	const dl_desc *d = c->model->prog->desc;
	const Memory workspace = {c->arena, (int64_t)c->arena_bytes};

	for (int32_t i = 0; i < d->n_in; i++)
		if (overlap(workspace, in_memory(c, i)))
			return dl_fail(&c->x, DL_INVALID, "input \"%.100s\" overlaps the workspace",
				       in_io(c, i)->name);
	for (int32_t o = 0; o < d->n_out; o++)
		if (overlap(workspace, out_memory(c, o)))
			return dl_fail(&c->x, DL_INVALID,
				       "output \"%.100s\" overlaps the workspace",
				       out_io(c, o)->name);
	return DL_OK;
}

static int check_numbers(dl_context *c)
{
	const dl_desc *d = c->model->prog->desc;

	for (int32_t o = 0; o < d->n_out; o++) {
		const Memory own = out_memory(c, o);

		for (int32_t i = 0; own.bytes && i < d->n_in; i++) {
			const Memory in = read_memory(c, i);

			if (overlap(own, in) && (out_io(c, o)->alias != i || own.p != in.p))
				return dl_fail(&c->x, DL_INVALID,
					       "output \"%.100s\" overlaps input \"%.100s\"",
					       out_io(c, o)->name, in_io(c, i)->name);
		}
		for (int32_t q = 0; own.bytes && q < o; q++)
			if (overlap(own, out_memory(c, q)))
				return dl_fail(&c->x, DL_INVALID,
					       "output \"%.100s\" overlaps output "
					       "\"%.100s\"",
					       out_io(c, o)->name, out_io(c, q)->name);
	}
	return DL_OK;
}

/* ---- The caller's values ---- */

/* Whether IO of the caller's is a tensor of numbers. */
static bool is_numbers(const dl_io *io)
{
	return io->form == DL_TENSOR && io->dtype != DL_STR;
}

/* The memory of the context in which the caller gets output K of the program. */
static dl_region *served_region(dl_context *c, int32_t k)
{
	return out_io(c, k)->dtype == DL_STR ? rt_strings_region(c, k) : rt_out_region(c, k);
}

/* The caller's memory for output K of the program, a tensor T of the caller's; empty if the context
 * provides it. */
static Memory own_memory(dl_context *c, int32_t k, dl_tensor t)
{
	if (!t.data || t.data == served_region(c, k)->p)
		return (Memory){NULL, 0};
	if (t.rank < out_io(c, k)->rank) /* there may be fewer strides; the run refuses T later */
		t.strides = NULL;
	t.dtype = out_io(c, k)->dtype;
	t.rank = out_io(c, k)->rank;
	t.shape = c->x.out_shape[k];
	return (Memory){t.data, rt_known(c, k) ? rt_extent(&t) : rt_room(&t)};
}

/* Whether an element of T, or of one of its items, is inside M. */
static bool lies_in(const dl_tensor *t, Memory m)
{
	if (t->form == DL_TENSOR)
		return overlap((Memory){t->data, rt_extent(t)}, m);
	for (int64_t i = 0; i < t->n_items; i++) {
		const dl_tensor one = rt_tensor_at(t->items, i);

		if (lies_in(&one, m))
			return true;
	}
	return false;
}

/* Refuses memory M of output IO if it overlaps an input, unless both are numbers. */
static int check_with_inputs(dl_context *c, const dl_io *io, Memory m)
{
	const dl_desc *d = rt_shown(c->model->prog);

	for (int32_t i = 0; i < d->n_in; i++) {
		const dl_tensor t = rt_tensor_at(c->caller_in, i);

		if (!(is_numbers(io) && is_numbers(dl_desc_in(d, i))) && lies_in(&t, m))
			return dl_fail(&c->x, DL_INVALID,
				       "output \"%.100s\" overlaps input \"%.100s\"", io->name,
				       dl_desc_in(d, i)->name);
	}
	return DL_OK;
}

/* Whether M overlaps memory of the caller's output Q, whose first tensor of the program is K. */
static bool shared_with(dl_context *c, Memory m, int32_t q, int32_t k)
{
	const dl_io *io = dl_desc_out(rt_shown(c->model->prog), q);
	bool shared = false;

	if (io->form == DL_TENSOR) {
		const Memory own = own_memory(c, k, rt_tensor_at(c->caller_out, q));

		return overlap(m, own.p ? own : region_memory(served_region(c, k)));
	}
	for (int32_t j = k; j < k + rt_parts(io); j++)
		shared = shared || overlap(m, region_memory(rt_out_region(c, j))) ||
			 overlap(m, region_memory(rt_strings_region(c, j)));
	return shared || overlap(m, region_memory(rt_items_region(c, q)));
}

/* Refuses memory M of output O if it overlaps another output, unless both are numbers. */
static int check_with_outputs(dl_context *c, int32_t o, Memory m)
{
	const dl_desc *d = rt_shown(c->model->prog);
	const dl_io *io = dl_desc_out(d, o);

	for (int32_t q = 0, k = 0; q < d->n_out; k += rt_parts(dl_desc_out(d, q)), q++)
		if (q != o && !(is_numbers(io) && is_numbers(dl_desc_out(d, q))) &&
		    shared_with(c, m, q, k))
			return dl_fail(&c->x, DL_INVALID,
				       "output \"%.100s\" overlaps output \"%.100s\"", io->name,
				       dl_desc_out(d, q)->name);
	return DL_OK;
}

int rt_check_forms(dl_context *c)
{
	const dl_desc *d = rt_shown(c->model->prog);

	for (int32_t o = 0, k = 0; o < d->n_out; k += rt_parts(dl_desc_out(d, o)), o++) {
		const dl_io *io = dl_desc_out(d, o);
		Memory own;

		if (io->form != DL_TENSOR)
			continue;
		own = own_memory(c, k, rt_tensor_at(c->caller_out, o));
		if (own.p && (check_with_inputs(c, io, own) || check_with_outputs(c, o, own)))
			return c->x.status;
	}
	return DL_OK;
}

/* ---- Pieces ---- */

enum { WHOLE_INPUT, INPUT_PIECE, WHOLE_OUTPUT, OUTPUT_PIECE, WORKSPACE, RANGE_KINDS };

/* The memory of a tensor of the caller's, or of a piece, from BEGIN to before END. */
typedef struct MemoryRange {
	uintptr_t begin, end;
	int32_t kind, which; /* of inputs or outputs */
	int64_t piece;
} MemoryRange;

/* The kinds that a range of each kind must not overlap. Whole tensors and the workspace are
 * compared elsewhere. */
static const uint32_t apart_from[RANGE_KINDS] = {
	[WHOLE_INPUT] = 1 << OUTPUT_PIECE,
	[INPUT_PIECE] = 1 << WHOLE_OUTPUT | 1 << OUTPUT_PIECE | 1 << WORKSPACE,
	[WHOLE_OUTPUT] = 1 << INPUT_PIECE | 1 << OUTPUT_PIECE,
	[OUTPUT_PIECE] = 1 << WHOLE_INPUT | 1 << INPUT_PIECE | 1 << WHOLE_OUTPUT |
			 1 << OUTPUT_PIECE | 1 << WORKSPACE,
	[WORKSPACE] = 1 << INPUT_PIECE | 1 << OUTPUT_PIECE,
};

static int64_t add_range(MemoryRange *at, int64_t n, Memory m, MemoryRange r)
{
	if (!m.p || m.bytes <= 0)
		return n;
	at[n] = r;
	at[n].begin = (uintptr_t)m.p;
	at[n].end = at[n].begin + (uintptr_t)m.bytes;
	return n + 1;
}

/* The memory of piece R of output K of the program, O of the caller's. Its size is known if all
 * others are: the run's output has the shape, but for the dim of pieces. */
static Memory piece_memory(dl_context *c, int32_t k, int32_t o, int64_t r, dl_tensor t)
{
	const dl_io *io = dl_desc_out(rt_shown(c->model->prog), o);
	int64_t bytes = rt_room(&t);

	if (rt_known(c, k)) {
		bytes = io->dtype == DL_STR ? (int64_t)sizeof(dl_str) : rt_bytes(io->dtype, 1);
		for (int32_t d = 0; d < io->rank; d++)
			bytes = dl_mul(bytes,
				       dl_io_dim(io, d)->sym == c->pieces_sym
					       ? rt_tensor_at(c->pieces, r).shape[c->pieces_dim]
					       : c->x.out_shape[k][d]);
	}
	return (Memory){t.data, bytes};
}

static int64_t input_ranges(dl_context *c, MemoryRange *at, int64_t n)
{
	for (int32_t i = 0; i < rt_shown(c->model->prog)->n_in; i++) {
		const dl_tensor t = rt_tensor_at(c->given_in, i);

		if (t.form == DL_TENSOR && t.data)
			n = add_range(at, n, (Memory){t.data, rt_extent(&t)},
				      (MemoryRange){.kind = WHOLE_INPUT, .which = i});
		for (int64_t r = 0; t.form == DL_PIECES && r < t.n_items; r++) {
			const dl_tensor one = rt_tensor_at(t.items, r);

			n = add_range(at, n, (Memory){one.data, rt_extent(&one)},
				      (MemoryRange){.kind = INPUT_PIECE, .which = i, .piece = r});
		}
	}
	return n;
}

static int64_t output_ranges(dl_context *c, MemoryRange *at, int64_t n)
{
	const dl_desc *d = rt_shown(c->model->prog);

	for (int32_t o = 0, k = 0; o < d->n_out; k += rt_parts(dl_desc_out(d, o)), o++) {
		const dl_tensor t = rt_tensor_at(c->given_out, o);

		if (t.form == DL_TENSOR && dl_desc_out(d, o)->form == DL_TENSOR)
			n = add_range(at, n, own_memory(c, k, t),
				      (MemoryRange){.kind = WHOLE_OUTPUT, .which = o});
		for (int64_t r = 0; t.form == DL_PIECES && r < t.n_items; r++)
			n = add_range(at, n, piece_memory(c, k, o, r, rt_tensor_at(t.items, r)),
				      (MemoryRange){.kind = OUTPUT_PIECE, .which = o, .piece = r});
	}
	return n;
}

/* Sorts N ranges by their begins: Shell's method, since callers' pieces often are in order
 * already. */
static void sort_ranges(MemoryRange *at, int64_t n)
{
	for (int64_t gap = n / 2; gap > 0; gap /= 2)
		for (int64_t i = gap; i < n; i++) {
			const MemoryRange r = at[i];
			int64_t k = i;

			for (; k >= gap && at[k - gap].begin > r.begin; k -= gap)
				at[k] = at[k - gap];
			at[k] = r;
		}
}

/* "output "y": piece 1" */
static void name_range(const dl_context *c, const MemoryRange *r, char *to, size_t size)
{
	const dl_desc *d = rt_shown(c->model->prog);
	const bool in = r->kind == WHOLE_INPUT || r->kind == INPUT_PIECE;
	int n;

	if (r->kind == WORKSPACE) {
		(void)snprintf(to, size, "the workspace");
		return;
	}
	n = snprintf(to, size, "%s \"%.100s\"", in ? "input" : "output",
		     (in ? dl_desc_in(d, r->which) : dl_desc_out(d, r->which))->name);
	if (n > 0 && (size_t)n < size && (r->kind == INPUT_PIECE || r->kind == OUTPUT_PIECE))
		(void)snprintf(to + n, size - (size_t)n, ": piece %lld", (long long)r->piece);
}

static bool is_output(const MemoryRange *r)
{
	return r->kind == WHOLE_OUTPUT || r->kind == OUTPUT_PIECE;
}

/* Refuses two of N ranges, sorted, that must not overlap. Of those of a kind that begin earlier,
 * the one that ends last decides. */
static int check_ranges(dl_context *c, const MemoryRange *at, int64_t n)
{
	const MemoryRange *last[RANGE_KINDS] = {NULL};

	for (int64_t i = 0; i < n; i++) {
		const MemoryRange *r = &at[i], **own = &last[r->kind];

		for (int k = 0; k < RANGE_KINDS; k++)
			if (apart_from[r->kind] >> k & 1 && last[k] && last[k]->end > r->begin) {
				const bool writes = is_output(r) || k == WORKSPACE;
				char a[160], b[160];

				name_range(c, writes ? r : last[k], a, sizeof(a));
				name_range(c, writes ? last[k] : r, b, sizeof(b));
				return dl_fail(&c->x, DL_INVALID, "%s overlaps %s", a, b);
			}
		if (!*own || (*own)->end < r->end)
			*own = r;
	}
	return DL_OK;
}

static int check_pieces(dl_context *c)
{
	const dl_desc *d = rt_shown(c->model->prog);
	int64_t n = 1; /* the workspace */
	MemoryRange *at;

	for (int32_t i = 0; i < d->n_in; i++)
		n += rt_tensor_at(c->given_in, i).form == DL_PIECES ? c->n_pieces : 1;
	for (int32_t o = 0; o < d->n_out; o++)
		n += rt_tensor_at(c->given_out, o).form == DL_PIECES ? c->n_pieces : 1;
	if (!rt_region_grow(c, &c->ranges, dl_mul(n, sizeof(MemoryRange)), 0))
		return dl_fail(&c->x, DL_NOMEM, "no memory to compare %lld pieces", (long long)n);
	at = c->ranges.p;
	n = output_ranges(c, at, input_ranges(c, at, 0));
	if (c->arena_borrowed)
		n = add_range(at, n, (Memory){c->arena, (int64_t)c->arena_bytes},
			      (MemoryRange){.kind = WORKSPACE});
	sort_ranges(at, n);
	return check_ranges(c, at, n);
}

int rt_check_overlap(dl_context *c)
{
	if ((c->arena_borrowed && check_workspace(c)) || check_numbers(c))
		return c->x.status;
	return c->pieces ? check_pieces(c) : DL_OK;
}
