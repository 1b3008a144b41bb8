/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequences and optionals. If the tensors of a sequence are known one by one, an operator chooses
 * among them at compile time. Otherwise it works on the sequence's parts (ops/infer/parts.h): the
 * elements of all tensors in one vector, from which an index or a slice is taken, with sizes that
 * are read from the shapes.
 */
#include "ops/infer/control.h"
#include "ops/infer/parts.h"
#include "ops/onnx/shape.h"

enum {
	LISTED_MAX = MAX_CONTENTS
}; /* tensors of a sequence that SplitToSequence lists one by one, as Split can */

/* ---- Helpers ---- */

static Value *number(Infer *in, Node *n, int64_t v)
{
	return expand_scalar(in, n, DT_I64, (double)v);
}

static Value *add(Infer *in, Node *n, Value *a, Value *b)
{
	return EXPAND(in, n, Add, a, b);
}

static Value *sub(Infer *in, Node *n, Value *a, Value *b)
{
	return EXPAND(in, n, Sub, a, b);
}

static Value *mul(Infer *in, Node *n, Value *a, Value *b)
{
	return EXPAND(in, n, Mul, a, b);
}

/* The elements of V, a vector, at the places AT. */
static Value *taken(Infer *in, Node *n, Value *v, Value *at)
{
	return expand_node_ints(in, n, OP_Gather, (Value *[]){v, at}, 2, "axis", 0);
}

static Value *joined(Infer *in, Node *n, Value *a, Value *b)
{
	return expand_node_ints(in, n, OP_Concat, (Value *[]){a, b}, 2, "axis", 0);
}

static Value *as_vector(Infer *in, Node *n, Value *v)
{
	Dim *numel = type_numel(infer_ctx(in), v->type);

	return expand_reshape(in, n, v, &numel, 1);
}

/* The operand K, an index of one element, as a scalar of i64; null after a diagnostic. */
static Value *index_operand(Infer *in, Node *n, int k)
{
	Value *v = node_in(n, k);
	Dim *numel;

	if (v->type->kind != TYPE_TENSOR || !dtype_is_int(v->type->dtype)) {
		infer_error(in, n, "operand %d must be an integer", k + 1);
		return NULL;
	}
	numel = type_numel(infer_ctx(in), v->type);
	if (!infer_equal_shown(in, n, numel, dim_const(infer_ctx(in), 1),
			       "the position must be one number",
			       (FactSize){"the operand has", numel}, (FactSize){0}))
		return NULL;
	return expand_cast(in, n, expand_reshape(in, n, v, NULL, 0), DT_I64);
}

/* Whether operand K is a constant, *OUT, from which COUNT is subtracted where it is negative. A
 * constant out of [-COUNT, COUNT + MORE) is an error, after which *BAD is set. */
static bool constant_index(Infer *in, Node *n, int k, int count, int more, int *out, bool *bad)
{
	int elements;
	const int64_t *v = infer_const_ints(in, node_in(n, k), &elements);

	*bad = v && elements == 1 && (v[0] < -count || v[0] >= count + more);
	if (*bad)
		infer_error(in, n, "position %lld is out of range: the sequence has %d tensors",
			    (long long)v[0], count);
	if (!v || elements != 1 || *bad)
		return false;
	*out = (int)(v[0] < 0 ? v[0] + count : v[0]);
	return true;
}

static Value *list(Infer *in, Node *n, const Type *elem, Value *const *at, int count)
{
	Node *none;

	if (count)
		return expand_node(in, n, OP_SequenceConstruct, at, count);
	none = expand_start(in, n, OP_SequenceEmpty, NULL, 0, 1);
	node_set_int(none, "dtype", dtype_info[elem->dtype].onnx);
	node_set_int(none, "rank", elem->rank);
	return expand_finish(in, none);
}

static Value *join(Infer *in, Node *n, const Type *elem, Value *data, Value *shapes)
{
	return parts_join(in, n, type_sequence(infer_ctx(in), elem), (Value *[]){data, shapes});
}

/* A place in a sequence with parts. */
typedef struct Spot {
	Value *at;   /* the index of the tensor, from 0 */
	Value *from; /* the number of elements before it */
	Value *row;  /* its shape, a vector; null: it is the position after the last tensor */
	Dim *dims[MAX_RANK];
	Dim *numel;
} Spot;

/* The sizes of the tensor that SPOT.row describes. */
static void read_sizes(Infer *in, Spot *p, int rank)
{
	Ctx *c = infer_ctx(in);
	int count;
	Dim **known = rank ? infer_known(in, p->row, &count) : NULL;

	p->numel = dim_const(c, 1);
	for (int d = 0; d < rank; d++) {
		p->dims[d] = known ? known[d] : control_size(in, p->row, d);
		p->numel = dim_mul(c, p->numel, p->dims[d]);
	}
}

/* Requires that S has a tensor; WHAT is the error. */
static bool need_some(Infer *in, Node *n, const Items *s, const char *what)
{
	Dim *count = items_count(in, s);

	return infer_le_shown(in, n, dim_const(infer_ctx(in), 1), count, what, (FactSize){0},
			      (FactSize){"the number of tensors is", count});
}

/* The place number POSITION, a scalar that may be negative: of a tensor, or, for INSERT, one of
 * COUNT + 1 places. Gather reports a position out of range and adds the number of places to a
 * negative one. Place -1 for INSERT is the one before the last tensor, which is -2 among COUNT +
 * 1 places. */
static Spot find_spot(Infer *in, Node *n, const Items *s, Value *position, bool insert)
{
	Ctx *c = infer_ctx(in);
	Dim *count = items_count(in, s), *places = count;
	Value *each, *before;
	Spot p = {0};

	if (!insert)
		need_some(in, n, s, "the sequence is empty");
	if (insert) {
		places = dim_add(c, count, dim_const(c, 1));
		position = EXPAND(in, n, Where, EXPAND(in, n, Less, position, number(in, n, 0)),
				  sub(in, n, position, number(in, n, 1)), position);
	}
	p.at = taken(in, n, expand_range(in, n, places), position);
	if (!insert)
		p.row = taken(in, n, s->shapes, p.at);
	each = expand_reduce(in, n, OP_ReduceProd, s->shapes, 1, false);
	before = expand_cast(in, n, EXPAND(in, n, Less, expand_range(in, n, count), p.at), DT_I64);
	p.from = expand_reduce(in, n, OP_ReduceSum, mul(in, n, each, before), 0, false);
	if (p.row)
		read_sizes(in, &p, s->elem->rank);
	return p;
}

static bool need_list(Infer *in, Node *n, int k)
{
	const Type *t = infer_type(n, k);

	if (t->kind == TYPE_SEQUENCE && type_listed(t))
		return true;
	return infer_error(in, n, "operand %d must be a sequence of tensors", k + 1);
}

/* ---- Making sequences ---- */

static bool infer_sequence(Infer *in, Node *n)
{
	const Type *first = infer_type(n, 0);
	int rank = first->rank;

	for (int k = 1; k < n->nin; k++) {
		const Type *t = infer_type(n, k);

		if (t->dtype != first->dtype)
			return infer_error(in, n, "operand %d is %s, and the first one is %s",
					   k + 1, dtype_info[t->dtype].name,
					   dtype_info[first->dtype].name);
		rank = t->rank == rank ? rank : -1;
	}
	n->out[0]->type = type_sequence(infer_ctx(in),
					type_items(infer_ctx(in), first->dtype, rank));
	return true;
}

const Op op_SequenceConstruct = {.infer = infer_sequence, .types = "fiubs"};

static bool infer_empty(Infer *in, Node *n)
{
	const int64_t code = node_int(n, "dtype", dtype_info[DT_F32].onnx);
	const DType t = dtype_by_onnx((int)code);
	/* where tensors were taken away, their rank remains */
	const int64_t rank = node_int(n, "rank", -1);

	if (rank < -1 || rank > MAX_RANK)
		return infer_error(in, n, "rank is %lld; it must be -1 to %d", (long long)rank,
				   MAX_RANK);
	if (t == DT_NONE && code) /* 0: not known yet */
		return infer_error(in, n, "attribute \"dtype\" is not an element type");
	n->out[0]->type =
		type_sequence(infer_ctx(in), type_items(infer_ctx(in), t, (int)rank));
	return true;
}

const Op op_SequenceEmpty = {.infer = infer_empty, .attrs = "dtype: int, rank: int own"};

/* ---- One tensor of a sequence ---- */

Value *sequence_at(Infer *in, Node *n, const Items *s, Value *position)
{
	Spot p = find_spot(in, n, s, position, false);

	return expand_reshape(
		in, n, taken(in, n, s->data, add(in, n, expand_range(in, n, p.numel), p.from)),
		p.dims, s->elem->rank);
}

static bool expand_sequence_at(Infer *in, Node *n, Value **out)
{
	Value *at;
	Items s;
	bool bad;
	int k;

	if (!need_list(in, n, 0) || !(at = index_operand(in, n, 1)))
		return false;
	s = items_of(in, n, node_in(n, 0));
	if (s.listed && constant_index(in, n, 1, s.n, 0, &k, &bad)) {
		out[0] = s.at[k];
		return true;
	}
	if (s.listed && (bad || !s.n))
		return bad ? false : infer_error(in, n, "the sequence is empty");
	s = items_with_parts(in, n, node_in(n, 0), NULL);
	if (!s.data)
		return false;
	out[0] = sequence_at(in, n, &s, at);
	return true;
}

const Op op_SequenceAt = {.expand = expand_sequence_at, .compound = true, .types = "fiubs"};

/* ---- Insertion and removal ---- */

/* V, a vector or the rows of a matrix, with COUNT more at the end, which move to FROM. */
static Value *moved(Infer *in, Node *n, Value *v, Dim *count, Value *from)
{
	Ctx *c = infer_ctx(in);
	Value *i = expand_range(in, n, v->type->dims[0]), *more = expand_size(in, n, count),
	      *old = expand_size(in, n, dim_sub(c, v->type->dims[0], count));
	Value *inside = add(in, n, old, sub(in, n, i, from));
	Value *at = EXPAND(in, n, Where, EXPAND(in, n, Less, i, from), i,
			   EXPAND(in, n, Where, EXPAND(in, n, Less, i, add(in, n, from, more)),
				  inside, sub(in, n, i, more)));

	return taken(in, n, v, at);
}

Value *sequence_insert(Infer *in, Node *n, Value *v, Value *x, Value *position)
{
	Dim *one = dim_const(infer_ctx(in), 1), *row[2] = {one, NULL};
	Items s = items_with_parts(in, n, v, x->type);
	Value *data, *shapes;
	Spot p;

	if (!s.data)
		return NULL;
	if (s.elem->dtype != x->type->dtype) {
		infer_error(in, n, "a tensor of %s does not fit into a sequence of %s",
			    dtype_info[x->type->dtype].name, dtype_info[s.elem->dtype].name);
		return NULL;
	}
	row[1] = dim_const(infer_ctx(in), x->type->rank);
	data = joined(in, n, s.data, as_vector(in, n, x));
	shapes = joined(
		in, n, s.shapes,
		expand_reshape(in, n, expand_sizes(in, n, x->type->dims, x->type->rank), row, 2));
	if (position) {
		p = find_spot(in, n, &s, position, true);
		data = moved(in, n, data, type_numel(infer_ctx(in), x->type), p.from);
		shapes = moved(in, n, shapes, one, p.at);
	}
	return join(in, n, s.elem, data, shapes);
}

static bool expand_sequence_insert(Infer *in, Node *n, Value **out)
{
	Value *at = NULL, *x = node_in(n, 1);
	bool bad = false;
	Items s;
	int k;

	if (!need_list(in, n, 0) || (node_in(n, 2) && !(at = index_operand(in, n, 2))))
		return false;
	if (x->type->kind != TYPE_TENSOR)
		return infer_error(in, n, "operand 2 must be a tensor");
	s = items_of(in, n, node_in(n, 0));
	k = s.n;
	if (s.listed && (!at || constant_index(in, n, 2, s.n, 1, &k, &bad))) {
		Value **all = NEW_ARRAY(infer_arena(in), s.n + 1, Value *);

		for (int i = 0; i <= s.n; i++)
			all[i] = i == k ? x : s.at[i - (i > k)];
		out[0] = list(in, n, s.elem, all, s.n + 1);
		return true;
	}
	if (bad)
		return false;
	out[0] = sequence_insert(in, n, node_in(n, 0), x, at);
	return out[0] != NULL;
}

const Op op_SequenceInsert = {.expand = expand_sequence_insert, .compound = true, .types = "fiubs"};

/* V without the COUNT elements or rows from FROM onwards. */
static Value *removed(Infer *in, Node *n, Value *v, Dim *count, Value *from)
{
	Ctx *c = infer_ctx(in);
	Dim *left = dim_max(c, dim_sub(c, v->type->dims[0], count), dim_const(c, 0));
	Value *i = expand_range(in, n, dim_named(c, left, "left"));

	return taken(in, n, v,
		     EXPAND(in, n, Where, EXPAND(in, n, Less, i, from), i,
			    add(in, n, i, expand_size(in, n, count))));
}

static bool expand_sequence_erase(Infer *in, Node *n, Value **out)
{
	Value *at = NULL;
	bool bad = false;
	Items s;
	Spot p;
	int k;

	if (!need_list(in, n, 0) || (node_in(n, 1) && !(at = index_operand(in, n, 1))))
		return false;
	s = items_of(in, n, node_in(n, 0));
	k = s.n - 1;
	if (s.listed && !s.n)
		return infer_error(in, n, "the sequence is empty");
	if (s.listed && (!at || constant_index(in, n, 1, s.n, 0, &k, &bad))) {
		Value **all = NEW_ARRAY(infer_arena(in), s.n, Value *);

		for (int i = 0; i < s.n - 1; i++)
			all[i] = s.at[i + (i >= k)];
		out[0] = list(in, n, s.elem, all, s.n - 1);
		return true;
	}
	if (bad)
		return false;
	s = items_with_parts(in, n, node_in(n, 0), NULL);
	if (!s.data)
		return false;
	p = find_spot(in, n, &s, at ? at : number(in, n, -1), false);
	out[0] = join(in, n, s.elem, removed(in, n, s.data, p.numel, p.from),
		      removed(in, n, s.shapes, dim_const(infer_ctx(in), 1), p.at));
	return true;
}

const Op op_SequenceErase = {.expand = expand_sequence_erase, .compound = true, .types = "fiubs"};

static bool expand_sequence_length(Infer *in, Node *n, Value **out)
{
	Items s;

	if (!need_list(in, n, 0))
		return false;
	s = items_of(in, n, node_in(n, 0));
	out[0] = expand_size(in, n, items_count(in, &s));
	return true;
}

const Op op_SequenceLength = {.expand = expand_sequence_length, .compound = true, .types = "fiubs"};

/* ---- Splitting a tensor ---- */

/* How SplitToSequence splits: the operand X along AXIS into COUNT pieces. */
typedef struct Pieces {
	Value *x;
	int axis;
	Dim *count;
	Dim *step;      /* the length of each piece, the last one being shorter; or null */
	Dim **length;   /* of each of COUNT pieces, a constant number; or null */
	Value *lengths; /* a vector of lengths; else null */
	bool drop;      /* the axis, which has length 1 in each piece */
} Pieces;

static bool find_pieces(Infer *in, Node *n, Pieces *p)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0), *split = infer_type(n, 1);
	int64_t count;
	Dim *dim;

	p->x = node_in(n, 0);
	if (!infer_axis(in, n, node_int(n, "axis", 0), x->rank, &p->axis))
		return false;
	dim = x->dims[p->axis];
	p->step = dim_const(c, 1);
	p->drop = !split && !node_int(n, "keepdims", 1);
	if (split && split->rank == 1) {
		int k;

		p->step = NULL;
		p->count = split->dims[0];
		p->lengths = expand_cast(in, n, node_in(n, 1), DT_I64);
		if (!dim_is_const(p->count, &count) || count > LISTED_MAX)
			return true;
		p->length = infer_contents(in, n, node_in(n, 1), &k);
		return p->length != NULL;
	}
	if (split && !(p->step = infer_single(in, n, 1)))
		return false;
	if (split && !infer_le(in, n, dim_const(c, 1), p->step,
			       "the pieces must have a length of 1 or more"))
		return false;
	p->count = dim_named(c, dim_ceildiv(c, dim, dim_max(c, p->step, dim_const(c, 1))),
			     "pieces");
	if (!dim_is_const(p->count, &count) || count > LISTED_MAX)
		return true;
	p->length = NEW_ARRAY(infer_arena(in), (int)count + 1, Dim *);
	for (int i = 0; i < count; i++)
		p->length[i] = i + 1 < count
				       ? p->step
				       : dim_sub(c, dim,
						 dim_mul(c, dim_const(c, count - 1), p->step));
	return true;
}

/* The lengths of the COUNT pieces; a node gives at most MAX_RANK of them. */
static Value *piece_lengths(Infer *in, Node *n, const Pieces *p, int count)
{
	Value *all = NULL, *some;

	for (int i = 0; i < count || !all; i += MAX_RANK) {
		some = expand_sizes(in, n, p->length + i,
				    count - i < MAX_RANK ? count - i : MAX_RANK);
		all = all ? joined(in, n, all, some) : some;
	}
	return all;
}

static bool list_pieces(Infer *in, Node *n, const Pieces *p, Value **out)
{
	int64_t count = 0;
	Value *args[2] = {p->x, NULL}, **at;
	Node *split;

	dim_is_const(p->count, &count);
	at = NEW_ARRAY(infer_arena(in), (int)count + 1, Value *);
	if (!count) { /* Split has a result at least */
		out[0] = list(in, n, p->x->type, at, 0);
		return infer_equal(in, n, p->x->type->dims[p->axis], dim_const(infer_ctx(in), 0),
				   "no pieces are given for a dim that has elements");
	}
	args[1] = piece_lengths(in, n, p, (int)count);
	split = expand_start(in, n, OP_Split, args, 2, (int)count);
	node_set_int(split, "axis", p->axis);
	expand_finish_all(in, split, at);
	for (int i = 0; i < count && p->drop; i++) {
		const int64_t axis = p->axis;

		at[i] = EXPAND(in, n, Squeeze, at[i], expand_ints(in, n, &axis, 1));
	}
	out[0] = list(in, n, p->x->type, at, (int)count);
	return true;
}

/* The shapes of the pieces: the dims of X, with the vector of lengths in place of the axis. */
static Value *piece_shapes(Infer *in, Node *n, const Pieces *p, Value *lengths)
{
	Ctx *c = infer_ctx(in);
	const Type *x = p->x->type;
	Dim *column[2] = {p->count, dim_const(c, 1)}, *size[2] = {p->count, NULL};
	Value *part[3];
	int k = 0;

	for (int side = 0; side < 2; side++) {
		const int from = side ? p->axis + 1 : 0, to = side ? x->rank : p->axis;

		size[1] = dim_const(c, to - from);
		if (to > from)
			part[k++] = EXPAND(in, n, Expand,
					   expand_sizes(in, n, x->dims + from, to - from),
					   expand_sizes(in, n, size, 2));
		if (!side && !p->drop)
			part[k++] = expand_reshape(in, n, lengths, column, 2);
	}
	if (!k) /* vectors that become scalars */
		return EXPAND(
			in, n, Expand,
			expand_tensor(in, n,
				      tensor_new(infer_arena(in), DT_I64, 2, (int64_t[]){1, 0})),
			expand_sizes(in, n, (Dim *[]){p->count, dim_const(c, 0)}, 2));
	return k == 1 ? part[0] : expand_node_ints(in, n, OP_Concat, part, k, "axis", 1);
}

/* For every element of the pieces, one piece after the other: its place in X. */
static Value *piece_elements(Infer *in, Node *n, const Pieces *p, Value *lengths)
{
	Ctx *c = infer_ctx(in);
	const Type *x = p->x->type;
	Dim *a = dims_product(c, x->dims, p->axis),
	    *b = dims_product(c, x->dims + p->axis + 1, x->rank - p->axis - 1);
	Dim *ab = dim_mul(c, a, b), *one = dim_const(c, 1);
	Value *size = expand_size(in, n, dim_max(c, ab, one)),
	      *inner = expand_size(in, n, dim_max(c, b, one));
	Value *i = expand_range(in, n, type_numel(c, x)), *which, *start, *length, *rest, *row;

	if (p->step) {
		which = EXPAND(in, n, Div, i,
			       mul(in, n, size, expand_size(in, n, dim_max(c, p->step, one))));
		start = mul(in, n, which, expand_size(in, n, p->step));
		length = EXPAND(in, n, Min, expand_size(in, n, p->step),
				sub(in, n, expand_size(in, n, x->dims[p->axis]), start));
	} else {
		const int64_t last = 1;
		Value *end = EXPAND(in, n, CumSum, lengths, number(in, n, 0));
		Value *behind = EXPAND(in, n, LessOrEqual, mul(in, n, end, size),
				       expand_unsqueeze(in, n, i, last));

		which = expand_reduce(in, n, OP_ReduceSum, expand_cast(in, n, behind, DT_I64), 1,
				      false);
		length = taken(in, n, lengths, which);
		start = sub(in, n, taken(in, n, end, which), length);
	}
	rest = sub(in, n, i, mul(in, n, start, size));
	row = EXPAND(in, n, Max, mul(in, n, length, inner), number(in, n, 1));
	/* element (outer, at, inner) of the piece */
	return add(in, n,
		   mul(in, n,
		       add(in, n,
			   mul(in, n, EXPAND(in, n, Div, rest, row),
			       expand_size(in, n, x->dims[p->axis])),
			   start),
		       inner),
		   EXPAND(in, n, Mod, rest, row));
}

static bool expand_split_to_sequence(Infer *in, Node *n, Value **out)
{
	Ctx *c = infer_ctx(in);
	Pieces p = {0};
	Value *lengths, *data;
	const Type *elem;

	if (!find_pieces(in, n, &p))
		return false;
	if (p.length)
		return list_pieces(in, n, &p, out);
	lengths = p.lengths;
	if (p.step) {
		Value *start = mul(in, n, expand_range(in, n, p.count), expand_size(in, n, p.step));

		lengths = EXPAND(in, n, Min, expand_size(in, n, p.step),
				 sub(in, n, expand_size(in, n, p.x->type->dims[p.axis]), start));
	} else {
		int k;
		Value *sum = expand_reduce(in, n, OP_ReduceSum, lengths, 0, false);
		Dim **d = infer_contents(in, n, sum, &k);

		if (!infer_equal(in, n, d[0], p.x->type->dims[p.axis],
				 "the lengths of the pieces must add up to the axis"))
			return false;
	}
	data = as_vector(in, n, p.x);
	if (!dim_equals(dims_product(c, p.x->type->dims, p.axis), 1))
		data = taken(in, n, data, piece_elements(in, n, &p, lengths));
	elem = type_items(c, p.x->type->dtype, p.x->type->rank - p.drop);
	out[0] = join(in, n, elem, data, piece_shapes(in, n, &p, lengths));
	return true;
}

const Op op_SplitToSequence = {
	.expand = expand_split_to_sequence, .types = "fiubs",
	.attrs = "axis: int, keepdims: int",
};

/* ---- Joining the tensors of a sequence ---- */

static bool concat_listed(Infer *in, Node *n, const Items *s, int64_t axis, bool stack, Value **out)
{
	Value **at = NEW_ARRAY(infer_arena(in), s->n + 1, Value *);

	for (int i = 0; i < s->n; i++)
		at[i] = stack ? expand_unsqueeze(in, n, s->at[i], axis) : s->at[i];
	out[0] = expand_node_ints(in, n, OP_Concat, at, s->n, "axis", axis);
	return true;
}

/* The dims of all tensors of S but AXIS, which must be the same in each (AXIS -1: all). */
static bool common_dims(Infer *in, Node *n, const Items *s, int axis, Dim **out)
{
	const int rank = s->elem->rank;
	Spot p = {0};
	Value *least, *most;
	int count;

	if (!need_some(in, n, s, "the sequence is empty"))
		return false;
	p.row = taken(in, n, s->shapes, number(in, n, 0));
	read_sizes(in, &p, rank);
	least = expand_reduce(in, n, OP_ReduceMin, s->shapes, 0, false);
	most = expand_reduce(in, n, OP_ReduceMax, s->shapes, 0, false);
	for (int d = 0; d < rank; d++) {
		out[d] = p.dims[d];
		if (d != axis && !infer_equal(in, n, infer_contents(in, n, least, &count)[d],
					      infer_contents(in, n, most, &count)[d],
					      "the tensors of the sequence differ in size"))
			return false;
	}
	return true;
}

/* For every element of the result of DIMS, where the tensors follow each other along AXIS with
 * the lengths EACH: its place among the elements of the sequence. */
static Value *concat_elements(Infer *in, Node *n, Value *each, int axis, Dim *const *dims, int rank)
{
	Ctx *c = infer_ctx(in);
	Dim *a = dims_product(c, dims, axis),
	    *b = dims_product(c, dims + axis + 1, rank - axis - 1), *one = dim_const(c, 1);
	const int64_t last = 1;
	Value *end = EXPAND(in, n, CumSum, each, number(in, n, 0)),
	      *i = expand_range(in, n, dims[axis]);
	Value *which = expand_reduce(
		in, n, OP_ReduceSum,
		expand_cast(in, n,
			    EXPAND(in, n, LessOrEqual, end, expand_unsqueeze(in, n, i, last)),
			    DT_I64),
		1, false);
	Value *length = taken(in, n, each, which),
	      *start = sub(in, n, taken(in, n, end, which), length);
	Value *outer = expand_reshape(in, n, expand_range(in, n, a), (Dim *[]){a, one, one}, 3),
	      *inner = expand_range(in, n, b);
	Dim *middle[2] = {dims[axis], one};
	Value *size = expand_size(in, n, b);

	length = expand_reshape(in, n, length, middle, 2);
	start = expand_reshape(in, n, start, middle, 2);
	i = expand_reshape(in, n, i, middle, 2);
	/* start * a * b elements are in the tensors before */
	return add(in, n,
		   mul(in, n,
		       add(in, n,
			   add(in, n, mul(in, n, start, expand_size(in, n, a)),
			       mul(in, n, outer, length)),
			   sub(in, n, i, start)),
		       size),
		   inner);
}

static bool expand_concat_from_sequence(Infer *in, Node *n, Value **out)
{
	const bool stack = node_int(n, "new_axis", 0) != 0;
	Ctx *c = infer_ctx(in);
	Dim *dims[MAX_RANK + 1];
	Value *each, *data;
	int axis, rank, count;
	Items s;

	if (!need_list(in, n, 0))
		return false;
	s = items_of(in, n, node_in(n, 0));
	if (s.listed && !s.n)
		return infer_error(in, n, "the sequence is empty");
	if (s.listed)
		return concat_listed(in, n, &s, node_int(n, "axis", 0), stack, out);
	rank = s.elem->rank;
	if (rank + stack > MAX_RANK)
		return infer_error(in, n, "the result has rank %d; at most %d is supported",
				   rank + stack, MAX_RANK);
	if (!infer_axis(in, n, node_int(n, "axis", 0), rank + stack, &axis) ||
	    !common_dims(in, n, &s, stack ? -1 : axis, dims))
		return false;
	if (stack) {
		memmove(dims + axis + 1, dims + axis, (size_t)(rank - axis) * sizeof *dims);
		dims[axis] = items_count(in, &s);
		each = EXPAND(in, n, Expand, number(in, n, 1), expand_sizes(in, n, &dims[axis], 1));
	} else {
		Value *sum;
		int64_t at = axis;

		each = taken(in, n, expand_transpose(in, n, s.shapes, (int64_t[]){1, 0}, 2),
			     number(in, n, at));
		sum = expand_reduce(in, n, OP_ReduceSum, each, 0, false);
		dims[axis] = infer_contents(in, n, sum, &count)[0];
		if (dim_as_sym(dims[axis]))
			sym_bound(c, dim_as_sym(dims[axis]), 0, DIM_FAR);
	}
	data = s.data;
	if (!dim_equals(dims_product(c, dims, axis), 1))
		data = taken(in, n, data, concat_elements(in, n, each, axis, dims, rank + stack));
	out[0] = expand_reshape(in, n, data, dims, rank + stack);
	return true;
}

const Op op_ConcatFromSequence = {
	.expand = expand_concat_from_sequence, .compound = true, .types = "fiubs",
	.attrs = "axis: int, new_axis: int",
};

/* ---- Optionals ---- */

static bool infer_optional(Infer *in, Node *n)
{
	const Attr *a = node_attr(n, "type");
	const Type *x = infer_type(n, 0), *t;

	if (x)
		t = x->kind == TYPE_TENSOR ? type_items(infer_ctx(in), x->dtype, x->rank) : x;
	else if (a && a->kind == ATTR_TYPE)
		t = a->type;
	else
		return infer_error(in, n, "has neither an operand nor the attribute \"type\"");
	n->out[0]->type = type_optional(infer_ctx(in), t);
	return type_listed(n->out[0]->type) ||
	       infer_error(in, n, "only tensors and sequences of tensors may be optional");
}

const Op op_Optional = {
	.infer = infer_optional, .compound = true, .types = "fiubs",
	.attrs = "type: type",
};

static bool expand_has_element(Infer *in, Node *n, Value **out)
{
	const Value *v = node_in(n, 0);
	Ctx *c = infer_ctx(in);
	Dim *has = dim_const(c, v != NULL);

	if (v && v->type->kind == TYPE_OPTIONAL) {
		Items s = items_of(in, n, node_in(n, 0));

		if (s.count)
			has = s.count->type->dims[0];
		else if (v->type->elem->kind == TYPE_TENSOR)
			has = items_count(in, &s);
		else
			has = dim_const(c, !s.absent);
	}
	out[0] = expand_cast(in, n, expand_size(in, n, has), DT_BOOL);
	return true;
}

const Op op_OptionalHasElement = {.expand = expand_has_element, .compound = true, .types = "fiubs"};

static bool expand_get_element(Infer *in, Node *n, Value **out)
{
	Ctx *c = infer_ctx(in);
	Value *v = node_in(n, 0);
	Items s;

	out[0] = v;
	if (v->type->kind != TYPE_OPTIONAL)
		return true;
	s = items_of(in, n, v);
	if (s.absent)
		return infer_error(in, n, "the optional has no element");
	if (v->type->elem->kind != TYPE_TENSOR) {
		if (s.count && !infer_equal(in, n, s.count->type->dims[0], dim_const(c, 1),
					    "the optional has no element"))
			return false;
		out[0] = s.listed ? list(in, n, s.elem, s.at, s.n)
				  : join(in, n, s.elem, s.data, s.shapes);
		return true;
	}
	if (!s.listed && !need_some(in, n, &s, "the optional has no element"))
		return false;
	out[0] = s.listed ? s.at[0] : sequence_at(in, n, &s, number(in, n, 0));
	return true;
}

const Op op_OptionalGetElement = {.expand = expand_get_element, .compound = true, .types = "fiubs"};
