/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outputs that are computed in the memory of an input: the caller gives both the same data pointer.
 * If the output is longer in one dim, as the cache of a language model is after each token, the
 * strides of both say how much room there is for that dim. For each head there may be room for 128
 * rows, for example, of which the input has 10 and the output 11. Nothing is copied then: the
 * program takes the room from symbols.
 *
 * An output that may share an input's memory may also have such strides without sharing. Outputs
 * with the same symbols have the same sizes, and must agree in all of this.
 */
#include "runtime/rt.h"

/* Some strides, as room in one dim. */
typedef struct Room {
	bool ok;    /* the tensor is contiguous apart from that */
	bool known; /* no: there is at most one slice with that dim, so the room is of no use */
	int64_t n;
} Room;

static Room room_of(const int64_t *shape, const int64_t *strides, int32_t rank, int32_t dim)
{
	Room r = {true, false, shape[dim]};
	int64_t want = 1, inner;

	for (int32_t k = rank; strides && k-- > dim; want = dl_mul(want, shape[k])) {
		r.ok = r.ok && (shape[k] <= 1 || strides[k] == want);
		if (k == dim)
			break;
	}
	inner = want;
	for (int32_t k = dim; r.ok && inner && k-- > 0;) {
		if (shape[k] <= 1)
			continue;
		if (!r.known) {
			r.known = true;
			if (strides)
				r.n = strides[k] / inner;
			r.ok = r.n >= shape[dim] && (!strides || strides[k] == r.n * inner);
			want = strides ? strides[k] : 0;
		}
		r.ok = r.ok && (!strides || strides[k] == want);
		want = dl_mul(want, shape[k]);
	}
	return r;
}

static const dl_alias *alias_of(const dl_context *c, bool input, int32_t k)
{
	const dl_program *p = c->model->prog;

	for (int32_t a = 0; a < p->n_aliases; a++)
		if ((input ? p->aliases[a].in : p->aliases[a].out) == k)
			return &p->aliases[a];
	return NULL;
}

static bool shares(const dl_alias *a, const dl_tensor *in, const dl_tensor *out)
{
	const void *p = RT_AT(const dl_tensor, in, a->in)->data;

	return p && p == RT_AT(const dl_tensor, out, a->out)->data;
}

bool rt_alias_input(const dl_context *c, int32_t i, const dl_tensor *in, const dl_tensor *out)
{
	const dl_alias *a = out ? alias_of(c, true, i) : NULL;

	return a && a->room_in >= 0 && shares(a, in, out) &&
	       room_of(c->x.in_shape[i], RT_AT(const dl_tensor, in, i)->strides,
		       RT_AT(const dl_tensor, in, i)->rank, a->dim)
		       .ok;
}

bool rt_alias_output(const dl_context *c, int32_t o, const dl_tensor *t)
{
	const dl_alias *a = alias_of(c, false, o);

	return a && a->room_out >= 0 &&
	       room_of(c->x.out_shape[o], t->strides, dl_desc_out(c->model->prog->desc, o)->rank,
		       a->dim)
		       .ok;
}

static const char *out_name(const dl_context *c, const dl_alias *a)
{
	return dl_desc_out(c->model->prog->desc, a->out)->name;
}

static const char *in_name(const dl_context *c, const dl_alias *a)
{
	return dl_desc_in(c->model->prog->desc, a->in)->name;
}

static int not_apart(dl_context *c, const dl_alias *a, const char *what, const char *name,
		     int64_t need)
{
	return dl_fail(&c->x, DL_INVALID,
		       "%s \"%.100s\": strides must be contiguous, except for room in "
		       "dim %d, for %lld or more",
		       what, name, (int)a->dim, (long long)need);
}

/* On a GPU the program works on the caller's memory only if that is the GPU's, and aligned. */
static int check_memory(dl_context *c, const dl_alias *a, const void *p)
{
	if (!c->gpu || (rt_gpu_owns(c, p) == 1 && (uintptr_t)p % 16 == 0))
		return c->x.status;
	return dl_fail(&c->x, DL_UNSUPPORTED,
		       "output \"%.100s\": only aligned memory of the GPU can be shared with an "
		       "input, or have strides",
		       out_name(c, a));
}

/* Sets symbol S to V, or, if the symbol is one of an earlier output, FIRST, compares. */
static int set_room(dl_context *c, const dl_alias *a, const dl_alias *first, int32_t s, int64_t v)
{
	if (first && c->x.sym[s] != v)
		return dl_fail(&c->x, DL_INVALID,
			       "outputs \"%.100s\" and \"%.100s\" have the same sizes, and need "
			       "the same room in dim %d: it is %lld and %lld",
			       out_name(c, first), out_name(c, a), (int)a->dim,
			       (long long)c->x.sym[s], (long long)v);
	c->x.sym[s] = v;
	return DL_OK;
}

/* Sets the symbols of A from the caller's strides. */
static int bind_room(dl_context *c, const dl_alias *a, const dl_alias *first, const dl_tensor *in,
		     const dl_tensor *out, bool in_place)
{
	const dl_tensor *t = RT_AT(const dl_tensor, in, a->in),
			*u = RT_AT(const dl_tensor, out, a->out);
	const int64_t *shape = c->x.in_shape[a->in], *to = c->x.out_shape[a->out];
	Room from, room;

	if (u->strides && u->rank < t->rank)
		return dl_fail(&c->x, DL_INVALID,
			       "output \"%.100s\": its strides have %d dims, expected %d",
			       out_name(c, a), (int)u->rank, (int)t->rank);
	from = room_of(shape, in_place ? t->strides : NULL, t->rank, a->dim);
	room = room_of(to, u->strides, t->rank, a->dim);
	if (!from.ok)
		return not_apart(c, a, "input", in_name(c, a), shape[a->dim]);
	if (!room.ok)
		return not_apart(c, a, "output", out_name(c, a), to[a->dim]);
	if (!shape[a->dim])
		from = room; /* there are no elements */
	if (in_place && from.known && room.known && from.n != room.n)
		return dl_fail(&c->x, DL_INVALID,
			       "output \"%.100s\" is computed in place of input \"%.100s\": their "
			       "strides give dim %d room for %lld and for %lld",
			       out_name(c, a), in_name(c, a), (int)a->dim, (long long)room.n,
			       (long long)from.n);
	if ((u->strides && room.known && room.n != to[a->dim]) && check_memory(c, a, u->data))
		return c->x.status;
	if (from.known && set_room(c, a, first, a->room_in, from.n))
		return c->x.status;
	return room.known ? set_room(c, a, first, a->room_out, room.n) : DL_OK;
}

static bool has_strides(const dl_tensor *t, const int64_t *shape)
{
	const Room r = room_of(shape, t->strides, t->rank, 0);

	return !r.ok || r.n != shape[0];
}

int rt_alias_bind(dl_context *c, const dl_tensor *in, const dl_tensor *out)
{
	const dl_program *p = c->model->prog;

	for (int32_t k = 0; k < p->n_aliases; k++) {
		const dl_alias *a = &p->aliases[k], *first = NULL;
		const dl_tensor *t = RT_AT(const dl_tensor, in, a->in);
		const bool in_place = shares(a, in, out);

		for (int32_t i = k; i-- > 0;)
			if (p->aliases[i].copied == a->copied)
				first = &p->aliases[i];
		if (first && shares(first, in, out) != in_place)
			return dl_fail(&c->x, DL_INVALID,
				       "outputs \"%.100s\" and \"%.100s\" have the same sizes: "
				       "either both are computed in place of their inputs, or neither",
				       out_name(c, first), out_name(c, a));
		if (in_place && check_memory(c, a, t->data))
			return c->x.status;
		if (a->room_in >= 0 && bind_room(c, a, first, in, out, in_place))
			return c->x.status;
		if (a->room_in < 0 && in_place && has_strides(t, c->x.in_shape[a->in]))
			return dl_fail(&c->x, DL_INVALID,
				       "input \"%.100s\": output \"%.100s\" can only be computed "
				       "in place of it if it is contiguous",
				       in_name(c, a), out_name(c, a));
		if (in_place)
			c->x.sym[a->copied] = 0;
	}
	return DL_OK;
}
