/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting: TopK and Unique. A few elements of many are selected one by one (ops/onnx/sort_keys.c).
 * Otherwise the elements are sorted by merge exchange (Knuth, The Art of Computer Programming,
 * volume 3, Algorithm 5.2.2M), a network of comparisons for any number of elements: a loop of about
 * log2(n)^2 / 2 iterations, each of which compares every element with another one, in any order. So
 * sorting consists of maps, on a GPU as on a CPU. Numbers are sorted with their indices as keys of
 * 64 bits; 64-bit numbers are sorted half by half. Among equal elements the one with the lower
 * index comes first.
 */
#include "ops/onnx/sort.h"

#include "ir/graph/blocks.h"
#include "ops/infer/build.h"
#include "ops/infer/control.h"
#include "ops/onnx/shape.h"

enum {
	MOST_BITS = 31, /* at most 2^31 elements are sorted */
	/* Unique: the largest table of integers, in entries for each element. It then takes 4.8 ms
	 * for 100,000 elements, and sorting them 11. */
	TABLE_ENTRIES = 4,
};

/* ---- The network ---- */

/* The pairs of an iteration: the element at i, for every i with (i & P) == R, is compared with the
 * element at i + D. */
typedef struct ExchangeStep {
	int64_t p, r, d;
} ExchangeStep;

/* The iterations for 2^(T-1) < n <= 2^T elements: T*(T+1)/2. */
static int network(int t, ExchangeStep *out)
{
	int n = 0;

	for (int64_t p = t ? (int64_t)1 << (t - 1) : 0; p > 0; p /= 2) {
		int64_t q = (int64_t)1 << (t - 1), r = 0, d = p;

		for (;;) {
			out[n++] = (ExchangeStep){p, r, d};
			if (q == p)
				break;
			d = q - p;
			q /= 2;
			r = p;
		}
	}
	return n;
}

/* The networks for FIRST..LAST bits, one after another, as a tensor. */
static Value *network_table(Infer *in, Node *n, int first, int last)
{
	ExchangeStep all[MOST_BITS * (MOST_BITS + 1) / 2];
	int64_t dims[2] = {0, 3}, *to;
	Tensor *t;

	for (int b = first; b <= last; b++)
		dims[0] += b * (b + 1) / 2;
	t = tensor_new(in->graph->arena, DT_I64, 2, dims);
	to = (int64_t *)(uintptr_t)t->data;
	for (int b = first; b <= last; b++) {
		const int count = network(b, all);

		for (int i = 0; i < count; i++) {
			*to++ = all[i].p;
			*to++ = all[i].r;
			*to++ = all[i].d;
		}
	}
	return expand_tensor(in, n, t);
}

/* The number of bits T with 2^(T-1) < D <= 2^T; LAST is the most. */
static Dim *bits_of(Ctx *c, Dim *d, int last)
{
	Dim *bits = dim_const(c, 0);

	for (int b = 0; b < last; b++)
		bits = dim_add(c, bits, dim_le(c, dim_const(c, ((int64_t)1 << b) + 1), d));
	return dim_named(c, bits, "bits");
}

/* ---- Exchange: one iteration ---- */

/* Operands: keys, or elements and their indices; the table of comparisons; the last axis is
 * sorted. Attribute `at` has the row of the table. */
static bool infer_exchange(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);

	if (!control_dim(n, "at") || x->rank < 1)
		return infer_error(in, n, "has no row, or the operand no axis");
	for (int o = 0; o < n->nin - 1; o++)
		infer_result(in, n, o, infer_type(n, o)->dtype, x->rank, x->dims);
	return true;
}

/* Whether element A of type D, with index I, comes before B, with index J. A NaN is larger than all
 * numbers. */
static Expr *before(Kernel *k, DType d, Expr *a, Expr *i, Expr *b, Expr *j, bool largest)
{
	const CType t = dtype_ctype(d);
	const char *larger = dtype_is_float(d) ? "or(gt(a, b), and(isnan(a), not(isnan(b))))"
			     : d == DT_STR     ? "str_less(b, a)"
					       : "gt(a, b)";
	Expr *first = largest ? a : b, *second = largest ? b : a;
	Expr *yes = BUILD_EXPR(k, t, larger, {"a", first}, {"b", second}),
	     *no = BUILD_EXPR(k, t, larger, {"a", second}, {"b", first});

	return BUILD_EXPR(k, CT_I64, "or(yes, and(not(no), lt(i, j)))", {"yes", yes}, {"no", no},
			  {"i", i}, {"j", j});
}

/* The partner of index I in an iteration, on an axis of SIZE elements. */
typedef struct Compared {
	Expr *low, *high; /* the element has the lower, or the higher index of two */
	Expr *with;       /* the index of the other one; I itself if there is none */
} Compared;

static Compared compared(Kernel *k, Node *n, Buf *table, Expr *i, Dim *size)
{
	Expr *row[3];
	Compared c;

	for (int e = 0; e < 3; e++)
		row[e] = kernel_load(k, table,
				     (Expr *[]){at_dim(k, control_dim(n, "at")), at_int(k, e)});
	c.low = BUILD_EXPR(k, CT_I64, "and(eq(and(i, p), r), lt(add(i, d), n))", {"i", i},
			   {"p", row[0]}, {"r", row[1]}, {"d", row[2]}, {"n", at_dim(k, size)});
	c.high = BUILD_EXPR(k, CT_I64, "and(ne(and(i, p), r), ge(i, d))", {"i", i}, {"p", row[0]},
			    {"r", row[1]}, {"d", row[2]});
	c.with = BUILD_EXPR(k, CT_I64, "select(low, add(i, d), select(high, sub(i, d), i))",
			    {"low", c.low}, {"high", c.high}, {"i", i}, {"d", row[2]});
	return c;
}

/* Keys: the larger one of two comes first. */
static void exchange_keys(Node *n, Kernel *k)
{
	Buf *x = lower_in(k, 0), *out = lower_out(k, 0);
	const int last = x->rank - 1;
	Expr *at[MAX_RANK], *other[MAX_RANK];
	Point p = {0};
	Compared c;

	point_add_dims(k, &p, x, at);
	memcpy(other, at, sizeof other);
	c = compared(k, n, lower_in(k, 1), at[last], x->dims[last]);
	other[last] = c.with;
	point_map(k, &p, out, at,
		  BUILD_EXPR(k, CT_I64, "select(low, max(a, b), select(high, min(a, b), a))",
			     {"low", c.low}, {"high", c.high}, {"a", kernel_load(k, x, at)},
			     {"b", kernel_load(k, x, other)}),
		  NULL);
}

static void lower_exchange(Infer *in, Node *n, Kernel *k)
{
	Buf *x = lower_in(k, 0), *index = lower_in(k, 1), *table = lower_in(k, 2);
	const bool largest = node_int(n, "largest", 1) != 0;
	const int last = x->rank - 1;
	Expr *at[MAX_RANK], *other[MAX_RANK], *take;

	(void)in;
	if (!table) {
		exchange_keys(n, k);
		return;
	}
	for (int o = 0; o < 2; o++) {
		Buf *out = lower_out(k, o);
		Point p = {0};
		Expr *a, *b, *i, *j;
		Compared c;

		if (!out)
			continue;
		point_add_dims(k, &p, x, at);
		memcpy(other, at, sizeof other);
		c = compared(k, n, table, at[last], x->dims[last]);
		other[last] = c.with;
		a = kernel_load(k, x, at);
		b = kernel_load(k, x, other);
		i = kernel_load(k, index, at);
		j = kernel_load(k, index, other);
		take = BUILD_EXPR(
			k, CT_I64, "or(and(low, later), and(high, earlier))", {"low", c.low},
			{"later", before(k, x->dtype, b, j, a, i, largest)}, {"high", c.high},
			{"earlier", before(k, x->dtype, a, i, b, j, largest)});
		point_map(k, &p, out, at, ex_op3(k->pool, IN_select, take, o ? j : b, o ? i : a),
			  NULL);
	}
}

const Op op_Exchange = {.infer = infer_exchange, .lower = lower_exchange, .host = "for strings"};

/* ---- TopK ---- */

/* Sorts the COUNT elements of the last axis of INIT: keys, or, of two values, elements and their
 * indices. SORTED gets as many. Nothing is done if TIMES is 0, else it is 1. */
static bool sort_by_network(Infer *in, Node *n, Value *const *init, int carried, Dim *count,
			    Dim *times, bool largest, Value **sorted)
{
	Ctx *c = in->ctx;
	Dim *bits, *one = dim_const(c, 1), *first, *trip;
	int64_t lo, hi, fixed;
	int least = 0, most = 0;
	Value *made[2], *operands[3];
	LoopBuild b;
	Node *e;

	dim_bounds(c, count, &lo, &hi);
	while (most < MOST_BITS && (int64_t)1 << most < hi)
		most++;
	if (dim_is_const(count, &fixed))
		least = most;
	if (!infer_le(in, n, count, dim_const(c, (int64_t)1 << MOST_BITS),
		      "more elements than can be sorted"))
		return false;
	bits = bits_of(c, count, most);
	operands[carried] = network_table(in, n, least, most);
	/* the networks of fewer bits are before that of BITS: (bits - 1) * bits * (bits + 1) / 6
	 * rows */
	first = dim_floordiv(
		c, dim_mul(c, dim_mul(c, dim_sub(c, bits, one), bits), dim_add(c, bits, one)),
		dim_const(c, 6));
	trip = dim_floordiv(c, dim_mul(c, bits, dim_add(c, bits, one)), dim_const(c, 2));
	b = loop_open(in, n, dim_mul(c, trip, times), init, carried);
	memcpy(operands, b.carried, (size_t)carried * sizeof *operands);
	e = expand_start(in, n, OP_Exchange, operands, carried + 1, carried);
	control_set_dim(e, "at", least == most ? b.iteration : dim_add(c, first, b.iteration));
	node_set_int(e, "largest", largest);
	expand_finish_all(in, e, made);
	loop_close(&b, made, NULL, 0, NULL, b.trip, sorted, NULL);
	return true;
}

/* 1 if the elements of V, i64, are not all equal, else 0. */
static Dim *differ(Infer *in, Node *n, Value *v)
{
	const int rank = v->type->rank;
	Value *most = v, *least = v, *yes;
	int count;

	for (int i = 0; i < rank; i++) {
		most = expand_reduce(in, n, OP_ReduceMax, most, 0, false);
		least = expand_reduce(in, n, OP_ReduceMin, least, 0, false);
	}
	yes = expand_cast(in, n, EXPAND(in, n, Greater, most, least), DT_I64);
	return infer_contents(in, n, yes, &count)[0];
}

/*
 * The indices of the elements of X, of 64 bits, sorted: by their lower halves and then, with a
 * stable sort, by their upper halves. MEASURED: at run time, if the upper halves are all equal, as
 * for small numbers, the elements are sorted only once.
 */
static Value *sort_halves(Infer *in, Node *n, Value *x, bool largest, bool measured)
{
	Ctx *c = in->ctx;
	Dim *count = x->type->dims[x->type->rank - 1], *times = dim_const(c, 1);
	Value *keys = sort_half_keys(in, n, x, largest, SORT_LOW), *index, *high;

	if (!sort_by_network(in, n, &keys, 1, count, times, true, &keys))
		return NULL;
	index = sort_key_index(in, n, keys);
	if (measured) {
		/* the index taken out of the key */
		high = EXPAND(in, n, Add, sort_half_keys(in, n, x, largest, SORT_HIGH),
			      expand_range(in, n, count));
		times = differ(in, n, high);
	}
	keys = sort_half_keys(in, n, sort_key_elements(in, n, x, index), largest, SORT_HIGH);
	if (!sort_by_network(in, n, &keys, 1, count, times, true, &keys))
		return NULL;
	return sort_key_elements(in, n, index, sort_key_index(in, n, keys));
}

Value *sort_last(Infer *in, Node *n, Value *x, bool largest, bool measured, Value **index)
{
	Dim *count = x->type->dims[x->type->rank - 1], *once = dim_const(in->ctx, 1);
	Value *init[2] = {x, NULL}, *last[2];

	if (sort_has_keys(x->type->dtype)) {
		init[0] = sort_keys(in, n, x, largest, 0);
		if (!sort_by_network(in, n, init, 1, count, once, largest, last))
			return NULL;
		*index = sort_key_index(in, n, last[0]);
		return sort_key_elements(in, n, x, *index);
	}
	if (sort_has_halves(x->type->dtype)) {
		*index = sort_halves(in, n, x, largest, measured);
		return *index ? sort_key_elements(in, n, x, *index) : NULL;
	}
	init[1] = EXPAND(in, n, Expand, expand_range(in, n, count),
			 expand_sizes(in, n, x->type->dims, x->type->rank));
	if (!sort_by_network(in, n, init, 2, count, once, largest, last))
		return NULL;
	*index = last[1];
	return last[0];
}

/* The first COUNT elements of V's last axis, which has as many. */
static Value *sort_first(Infer *in, Node *n, Value *v, Dim *count)
{
	const int axis = v->type->rank - 1;
	Dim *dims[MAX_RANK];
	Value *part = expand_part(in, n, v, axis, dim_const(in->ctx, 0), count);

	memcpy(dims, part->type->dims, (size_t)part->type->rank * sizeof *dims);
	if (dims[axis] == count)
		return part;
	dims[axis] = count;
	return expand_reshape(in, n, part, dims, part->type->rank);
}

static bool expand_topk(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0);
	Dim *count = infer_single(in, n, 1);
	const bool largest = node_int(n, "largest", 1) != 0;
	int64_t perm[MAX_RANK];
	int axis;
	Value *v, *index;

	if (!count || !infer_axis(in, n, node_int(n, "axis", -1), x->rank, &axis))
		return false;
	if (!infer_le(in, n, dim_const(in->ctx, 0), count, "the number of elements is negative") ||
	    !infer_le(in, n, count, x->dims[axis], "more elements are asked for than there are"))
		return false;
	for (int d = 0; d < x->rank; d++)
		perm[d] = d;
	perm[axis] = x->rank - 1;
	perm[x->rank - 1] = axis;
	v = axis == x->rank - 1 ? node_in(n, 0)
				: expand_transpose(in, n, node_in(n, 0), perm, x->rank);
	if (sort_takes_few(in->ctx, v, count)) {
		out[0] = sort_few(in, n, v, largest, count, &out[1]);
	} else {
		v = sort_last(in, n, v, largest, false, &index);
		if (!v)
			return false;
		out[0] = sort_first(in, n, v, count);
		out[1] = sort_first(in, n, index, count);
	}
	for (int k = 0; k < 2 && axis != x->rank - 1; k++)
		out[k] = expand_transpose(in, n, out[k], perm, x->rank);
	return true;
}

static void topk_accuracy(const Node *n, int o, int depth, Accuracy *a)
{
	(void)depth;
	if (node_int(n, "sorted", 1))
		return;
	a->unordered = n;
	a->part = o;
	a->axis = node_int(n, "axis", -1);
}

const Op op_TopK = {
	.expand = expand_topk, .accuracy = topk_accuracy, .doc = "results are always sorted", .types = "fiu",
	.attrs = "axis: int, largest: int since 11, sorted: int since 11",
};

/* ---- Unique ---- */

/* A vector of i64 that has SOURCE[i] at the place AT[i], for a permutation AT. */
static Value *put_at(Infer *in, Node *n, Value *at, Value *source)
{
	return EXPAND(in, n, ScatterElements, at, at, source);
}

/* Whether each row of V, along its first axis, differs from the row before it. The first row
 * does. */
static Value *begins_run(Infer *in, Node *n, Value *v)
{
	const int64_t one = 1;
	Value *zero = expand_scalar(in, n, DT_I64, 0),
	      *range = expand_range(in, n, v->type->dims[0]);
	Value *sooner = EXPAND(in, n, Max,
			       EXPAND(in, n, Sub, range, expand_scalar(in, n, DT_I64, 1)), zero);
	Value *differs = EXPAND(in, n, Not,
				EXPAND(in, n, Equal, v, EXPAND(in, n, Gather, v, sooner)));

	if (v->type->rank > 1)
		differs = expand_cast(in, n,
				      expand_reduce(in, n, OP_ReduceMax,
						    expand_cast(in, n, differs, DT_U8), one, false),
				      DT_BOOL);
	return EXPAND(in, n, Or, EXPAND(in, n, Equal, range, zero), differs);
}

/* The order in which the rows of the matrix X are sorted, by their first element, then by their
 * second one, and so on: they are sorted by each column, the last one first, and keep their order
 * where it is the same. */
static Value *sort_rows(Infer *in, Node *n, Value *x)
{
	Ctx *c = in->ctx;
	Dim *columns = x->type->dims[1];
	Value *init = expand_range(in, n, x->type->dims[0]), *key, *index, *next, *last;
	LoopBuild b = loop_open(in, n, columns, &init, 1);

	key = expand_row(in, n, expand_transpose(in, n, x, (int64_t[]){1, 0}, 2),
			 dim_sub(c, dim_sub(c, columns, dim_const(c, 1)), b.iteration));
	key = sort_last(in, n, EXPAND(in, n, Gather, key, b.carried[0]), false, false, &index);
	if (!key)
		return NULL;
	next = EXPAND(in, n, Gather, b.carried[0], index);
	loop_close(&b, &next, NULL, 0, NULL, columns, &last, NULL);
	return last;
}

/* The operand for Unique: its elements as a vector, or, with an axis, a matrix with a row for each
 * index of the axis. */
static Value *unique_rows(Infer *in, Node *n, int axis, Value **whole)
{
	Ctx *c = in->ctx;
	Value *x = node_in(n, 0);
	const Type *t = x->type;
	int64_t perm[MAX_RANK];
	Dim *d[2] = {dims_product(c, t->dims, t->rank), NULL};

	if (axis < 0)
		return *whole = expand_reshape(in, n, x, d, 1);
	*whole = x;
	for (int k = 0; k < t->rank; k++)
		perm[k] = k == 0 ? axis : k <= axis ? k - 1 : k;
	x = axis ? expand_transpose(in, n, x, perm, t->rank) : x;
	d[0] = x->type->dims[0];
	d[1] = dims_product(c, x->type->dims + 1, t->rank - 1);
	return t->rank == 1 ? x : expand_reshape(in, n, x, d, 2);
}

/* The groups of equal rows of an operand of Unique, in some order. */
typedef struct Groups {
	Value *first;  /* for each group: the lowest index of its rows */
	Value *number; /* for each row of the operand: the number of its group */
	Value *size;   /* for each group: how many rows it has */
} Groups;

/* The groups of rows that sorting has brought together: SORTED has the rows, INDEX where they
 * were. */
static Groups groups_of_sorted(Infer *in, Node *n, Value *sorted, Value *index)
{
	const int64_t none = 0, next = 1;
	Value *starts = begins_run(in, n, sorted), *begin = select_positions(in, n, starts), *end;
	Value *run = EXPAND(in, n, Sub,
			    EXPAND(in, n, CumSum, expand_cast(in, n, starts, DT_I64),
				   expand_scalar(in, n, DT_I64, 0)),
			    expand_scalar(in, n, DT_I64, 1));

	end = expand_node_ints(
		in, n, OP_Concat,
		(Value *[]){EXPAND(in, n, Slice, begin, expand_ints(in, n, &next, 1),
				   EXPAND(in, n, Shape, begin), expand_ints(in, n, &none, 1)),
			    expand_sizes(in, n, index->type->dims, 1)},
		2, "axis", 0);
	end = EXPAND(in, n, Slice, end, expand_ints(in, n, &none, 1), EXPAND(in, n, Shape, begin));
	return (Groups){
		.first = EXPAND(in, n, Gather, index, begin),
		.number = put_at(in, n, index, run),
		.size = EXPAND(in, n, Sub, expand_reshape(in, n, end, begin->type->dims, 1), begin),
	};
}

/* INTO, a vector, with SOURCE combined into it at the places AT. */
static Value *scatter_into(Infer *in, Node *n, Value *into, Value *at, Value *source,
			   const char *reduction)
{
	Node *s = expand_start(in, n, OP_ScatterElements, (Value *[]){into, at, source}, 3, 1);

	node_set_str(s, "reduction", reduction);
	return expand_finish(in, s);
}

/* The groups of the integers X, a vector, all of which are from LEAST to LEAST + SIZE - 1: a table
 * has an entry for each of these numbers. */
static Groups groups_in_table(Infer *in, Node *n, Value *x, Value *least, Dim *size)
{
	Dim *count = x->type->dims[0];
	Value *place = expand_cast(in, n, EXPAND(in, n, Sub, x, least), DT_I64);
	Value *ends = expand_sizes(in, n, &count, 1), *table = expand_sizes(in, n, &size, 1);
	Value *all = expand_range(in, n, count), *zero = expand_scalar(in, n, DT_I64, 0),
	      *one = expand_scalar(in, n, DT_I64, 1);
	Value *first = scatter_into(in, n, EXPAND(in, n, Expand, ends, table), place, all, "min");
	Value *taken = EXPAND(in, n, Less, first, ends), *number, *sizes, *found;

	number = EXPAND(in, n, Sub, EXPAND(in, n, CumSum, expand_cast(in, n, taken, DT_I64), zero),
			one);
	sizes = scatter_into(in, n, EXPAND(in, n, Expand, zero, table), place,
			     EXPAND(in, n, Expand, one, ends), "add");
	found = select_positions(in, n, taken);
	select_bound(in->ctx, found->type->dims[0], count);
	return (Groups){
		.first = EXPAND(in, n, Gather, first, found),
		.number = EXPAND(in, n, Gather, number, place),
		.size = EXPAND(in, n, Gather, sizes, found),
	};
}

/*
 * The numbers from the least of the integers X, a vector, to the largest one, if a table of them
 * costs less than sorting X, else
 * 0. Found at run time. A difference that i64 cannot hold is seen in f64.
 */
static Dim *table_size(Infer *in, Node *n, Value *x, Value *least)
{
	Ctx *c = in->ctx;
	const double most_exact = 0x1p62;
	const int64_t entries = TABLE_ENTRIES;
	Value *most = expand_reduce(in, n, OP_ReduceMax, x, 0, false);
	Value *exact = expand_cast(in, n, EXPAND(in, n, Sub, most, least), DT_I64);
	Value *about = EXPAND(in, n, Sub, expand_cast(in, n, most, DT_F64),
			      expand_cast(in, n, least, DT_F64));
	Value *limit = EXPAND(in, n, Mul, expand_sizes(in, n, x->type->dims, 1),
			      expand_ints(in, n, &entries, 1));
	Value *fits = EXPAND(
		in, n, And, EXPAND(in, n, LessOrEqual, exact, limit),
		EXPAND(in, n, And,
		       EXPAND(in, n, GreaterOrEqual, about, expand_scalar(in, n, DT_F64, 0)),
		       EXPAND(in, n, Less, about, expand_scalar(in, n, DT_F64, most_exact))));
	Value *size = EXPAND(in, n, Add, expand_cast(in, n, exact, DT_F64),
			     expand_scalar(in, n, DT_F64, 1));
	Dim *found;
	int count;

	size = expand_cast(in, n, EXPAND(in, n, Where, fits, size, expand_scalar(in, n, DT_F64, 0)),
			   DT_I64);
	found = infer_contents(in, n, size, &count)[0];
	select_bound(c, found,
		     dim_add(c, dim_mul(c, x->type->dims[0], dim_const(c, TABLE_ENTRIES)),
			     dim_const(c, 1)));
	return found;
}

static bool sorted_groups(Infer *in, Node *n, Value *rows, Groups *g)
{
	Value *sorted, *index;

	if (rows->type->rank == 1) {
		sorted = sort_last(in, n, rows, false, true, &index);
	} else {
		index = sort_rows(in, n, rows);
		sorted = index ? EXPAND(in, n, Gather, rows, index) : NULL;
	}
	if (!sorted)
		return false;
	*g = groups_of_sorted(in, n, sorted, index);
	return true;
}

/* The groups of the integers X, a vector: by a table of no entries, and by sorting all, or by a
 * table, and by sorting none. */
static bool integer_groups(Infer *in, Node *n, Value *x, Groups *g)
{
	Ctx *c = in->ctx;
	Dim *count = x->type->dims[0], *zero = dim_const(c, 0), *size, *in_table;
	Value *wide = x->type->dtype == DT_U64 ? x : expand_cast(in, n, x, DT_I64);
	Value *least = expand_reduce(in, n, OP_ReduceMin, wide, 0, false);
	Groups table;

	size = table_size(in, n, wide, least);
	in_table = dim_mul(c, count, dim_le(c, dim_const(c, 1), size));
	table = groups_in_table(in, n, expand_part(in, n, wide, 0, zero, in_table), least, size);
	if (!sorted_groups(in, n, expand_part(in, n, x, 0, in_table, count), g))
		return false;
#define BOTH(member) \
	expand_node_ints(in, n, OP_Concat, (Value *[]){table.member, g->member}, 2, "axis", 0)
	*g = (Groups){BOTH(first), expand_reshape(in, n, BOTH(number), &count, 1), BOTH(size)};
#undef BOTH
	return true;
}

/* Puts the groups *G of COUNT rows in the order of their first rows. */
static void order_by_first(Infer *in, Node *n, Dim *count, Groups *g)
{
	Value *zero = expand_scalar(in, n, DT_I64, 0), *one = expand_scalar(in, n, DT_I64, 1),
	      *before, *order;
	Value *is_first = EXPAND(
		in, n, ScatterElements, EXPAND(in, n, Expand, zero, expand_sizes(in, n, &count, 1)),
		g->first, EXPAND(in, n, Expand, one, EXPAND(in, n, Shape, g->first)));

	before = EXPAND(in, n, Gather,
			EXPAND(in, n, Sub, EXPAND(in, n, CumSum, is_first, zero), one), g->first);
	order = put_at(in, n, before, expand_range(in, n, g->first->type->dims[0]));
	*g = (Groups){EXPAND(in, n, Gather, g->first, order),
		      EXPAND(in, n, Gather, before, g->number),
		      EXPAND(in, n, Gather, g->size, order)};
}

/* Selects distinct elements or rows: the first one of each group of equal ones. */
static bool expand_unique(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0);
	Value *rows, *whole;
	int axis = -1;
	Groups g;

	if (node_attr(n, "axis") && !infer_axis(in, n, node_int(n, "axis", 0), x->rank, &axis))
		return false;
	rows = unique_rows(in, n, axis, &whole);
	if (rows->type->rank == 1 && (dtype_is_int(x->dtype) || x->dtype == DT_BOOL)) {
		if (!integer_groups(in, n, rows, &g))
			return false;
	} else if (!sorted_groups(in, n, rows, &g)) {
		return false;
	}
	if (!node_int(n, "sorted", 1))
		order_by_first(in, n, rows->type->dims[0], &g);
	out[0] = expand_node_ints(in, n, OP_Gather, (Value *[]){whole, g.first}, 2, "axis",
				  axis < 0 ? 0 : axis);
	for (int k = 1; k <= 3; k++)
		if (node_out(n, k))
			out[k] = k == 1 ? g.first : k == 2 ? g.number : g.size;
	return true;
}

const Op op_Unique = {
	.expand = expand_unique,
	.host = "for strings",
	.types = "fiubs",
	.attrs = "axis: int, sorted: int",
};
