/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys: elements of up to 32 bits and their indices as one i64 each, so that the largest key is
 * that of the element that comes first. The upper half of a key orders the elements, NaN above all
 * numbers, or below them if the smallest element comes first; the lower half is 2^32 - 1 - index,
 * so that among equal elements the one with the lower index comes first. All keys are different,
 * and differ from NO_KEY. Elements of 64 bits have a key for each half.
 *
 * The first few elements of many are found by blocks. Each block has its largest key; an iteration
 * takes the largest of these, and then searches only that block for the next smaller key.
 */
#include "ops/onnx/sort.h"

#include "ops/infer/build.h"
#include "ops/infer/control.h"
#include "ops/onnx/shape.h"

#define NO_KEY INT64_MIN

enum {
	UNKNOWN_BLOCK = 64, /* keys of a block, if the number of elements is not known */
	LEAST_BLOCK = 8,
	LAUNCH = 600, /* keys that are compared in the time that an iteration takes anyway */
	/* limit for selecting by blocks if the number of candidates is unknown, since it is
	 * probably larger */
	MOST_TAKEN = 1024
};

static const int64_t low_bits = 0xffffffff;

bool sort_has_keys(DType t)
{
	return (dtype_is_float(t) || dtype_is_int(t)) && dtype_info[t].bits <= 32;
}

bool sort_has_halves(DType t)
{
	return (dtype_is_float(t) || dtype_is_int(t)) && dtype_info[t].bits == 64;
}

/* ---- SortKeys: the keys of a row ---- */

/* Operand: elements. Result: their keys along the last axis; with attribute `block`, that axis
 * in blocks of as many keys, the last of which may end with NO_KEY; with `half`, of a half of
 * elements of 64 bits. */
static bool infer_sort_keys(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	const bool whole = node_int(n, "half", SORT_WHOLE) == SORT_WHOLE;
	const int64_t block = node_int(n, "block", 0);
	Dim *dims[MAX_RANK], *size = dim_const(in->ctx, block ? block : 1);
	const int last = x->rank - 1;

	if (x->rank < 1 || x->rank + (block > 0) > MAX_RANK ||
	    !(whole ? sort_has_keys(x->dtype) : sort_has_halves(x->dtype)))
		return infer_error(in, n, "has no axis, or elements of another type");
	memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
	if (block) {
		dims[last] = dim_ceildiv(in->ctx, x->dims[last], size);
		dims[last + 1] = size;
	}
	return infer_result(in, n, 0, DT_I64, x->rank + (block > 0), dims);
}

/* An i64 that orders X among the elements of its type D; for up to 32 bits, an i32. */
static Expr *rank_of(Kernel *k, DType d, Expr *x)
{
	const bool wide = dtype_info[d].bits > 32;
	const CType whole = wide ? CT_I64 : CT_I32;
	ExprPool *p = k->pool;
	Expr *f, *bits;

	if (dtype_is_int(d))
		return ex_op2(p, IN_add, ex_cvt(p, CT_I64, x),
			      ex_int(p, CT_I64,
				     d == DT_U32   ? INT32_MIN
				     : d == DT_U64 ? INT64_MIN
						   : 0));
	f = ex_cvt(p, wide ? CT_F64 : CT_F32, x);
	bits = ex_bits(p, whole, f);
	/* numbers below 0 have the order of their magnitudes reversed; -0 is equal to 0 */
	return ex_cvt(
		p, CT_I64,
		BUILD_EXPR(
			k, whole,
			"select(isnan(f), most, select(eq(f, 0), zero, select(lt(b, zero), xor(b, most), b)))",
			{"f", f}, {"b", bits},
			{"most", ex_int(p, whole, wide ? INT64_MAX : INT32_MAX)},
			{"zero", ex_int(p, whole, 0)}));
}

/* The upper half of X's key: half HALF of its rank. */
static Expr *half_of(Kernel *k, DType d, Expr *x, int64_t half)
{
	Expr *rank = rank_of(k, d, x);

	return half == SORT_WHOLE ? rank
	       : half == SORT_HIGH
		       ? BUILD_EXPR(k, CT_I64, "floordiv(r, 4294967296)", {"r", rank})
		       : BUILD_EXPR(k, CT_I64, "sub(and(r, 4294967295), 2147483648)", {"r", rank});
}

static void lower_sort_keys(Infer *in, Node *n, Kernel *k)
{
	Buf *x = lower_in(k, 0), *out = lower_out(k, 0);
	const int last = x->rank - 1;
	Expr *at[MAX_RANK], *from[MAX_RANK], *i, *size = at_dim(k, x->dims[last]), *rank, *key;
	ExprPool *p = k->pool;
	Point point = {0};

	(void)in;
	point_add_dims(k, &point, out, at);
	memcpy(from, at, sizeof from);
	i = at[last];
	if (out->rank > x->rank) {
		i = ex_add(p, ex_mul(p, i, at_dim(k, out->dims[last + 1])), at[last + 1]);
		from[last] = BUILD_EXPR(k, CT_I64, "min(i, sub(n, 1))", {"i", i}, {"n", size});
	}
	rank = half_of(k, x->dtype, kernel_load(k, x, from), node_int(n, "half", SORT_WHOLE));
	if (!node_int(n, "largest", 1))
		rank = BUILD_EXPR(k, CT_I64, "sub(-1, r)", {"r", rank});
	key = BUILD_EXPR(k, CT_I64, "add(mul(r, 4294967296), sub(4294967295, i))", {"r", rank},
			 {"i", i});
	if (out->rank > x->rank)
		key = ex_op3(p, IN_select, BUILD_EXPR(k, CT_I64, "lt(i, n)", {"i", i}, {"n", size}),
			     key, ex_int(p, CT_I64, NO_KEY));
	point_map(k, &point, out, at, key, NULL);
}

const Op op_SortKeys = {.infer = infer_sort_keys, .lower = lower_sort_keys};

/* ---- NextKey: the key after another one in its block ---- */

/* Operands: keys in blocks, [.., blocks, block], and a key of each row, [.., 1]. Result: the
 * largest key of the same block that is less, [.., 1]; NO_KEY if there is none. */
static bool infer_next_key(Infer *in, Node *n)
{
	const Type *t = infer_type(n, 1);

	if (infer_type(n, 0)->rank != t->rank + 1)
		return infer_error(in, n, "has keys of other blocks");
	return infer_result(in, n, 0, DT_I64, t->rank, t->dims);
}

static void lower_next_key(Infer *in, Node *n, Kernel *k)
{
	Buf *keys = lower_in(k, 0), *of = lower_in(k, 1), *out = lower_out(k, 0);
	const int last = of->rank - 1;
	Expr *at[MAX_RANK], *from[MAX_RANK], *key, *next;
	Point band = {0}, red = {0};

	(void)in;
	(void)n;
	point_add_dims(k, &band, out, at);
	key = kernel_load(k, of, at);
	memcpy(from, at, sizeof from);
	/* a row without keys has no index; then it has block 0 */
	from[last] = BUILD_EXPR(
		k, CT_I64,
		"max(min(floordiv(sub(4294967295, and(key, 4294967295)), block), sub(n, 1)), 0)",
		{"key", key}, {"block", at_dim(k, keys->dims[last + 1])},
		{"n", at_dim(k, keys->dims[last])});
	from[last + 1] = point_add(k, &red, "b", keys->dims[last + 1]);
	next = kernel_load(k, keys, from);
	next = ex_op3(k->pool, IN_select,
		      BUILD_EXPR(k, CT_I64, "lt(a, b)", {"a", next}, {"b", key}), next,
		      ex_int(k->pool, CT_I64, NO_KEY));
	point_reduce(k, MONOID_max, &band, &red, out, at, next, NULL);
}

const Op op_NextKey = {.infer = infer_next_key, .lower = lower_next_key};

/* ---- What operators are made of ---- */

static Node *keys_of(Infer *in, Node *n, Value *x, bool largest)
{
	Node *e = expand_start(in, n, OP_SortKeys, &x, 1, 1);

	node_set_int(e, "largest", largest);
	return e;
}

Value *sort_keys(Infer *in, Node *n, Value *x, bool largest, int64_t block)
{
	Node *e = keys_of(in, n, x, largest);

	node_set_int(e, "block", block);
	return expand_finish(in, e);
}

Value *sort_half_keys(Infer *in, Node *n, Value *x, bool largest, SortHalf half)
{
	Node *e = keys_of(in, n, x, largest);

	node_set_int(e, "half", half);
	return expand_finish(in, e);
}

Value *sort_key_index(Infer *in, Node *n, Value *keys)
{
	Value *low = expand_scalar(in, n, DT_I64, (double)low_bits);

	return EXPAND(in, n, Sub, low, EXPAND(in, n, BitwiseAnd, keys, low));
}

Value *sort_key_elements(Infer *in, Node *n, Value *x, Value *index)
{
	return expand_node_ints(in, n, OP_GatherElements, (Value *[]){x, index}, 2, "axis",
				x->type->rank - 1);
}

/* Keys of a block of SIZE elements (-1: unknown): about as many as there are blocks. */
static int64_t block_of(int64_t size)
{
	int64_t block = LEAST_BLOCK;

	if (size < 0)
		return UNKNOWN_BLOCK;
	while (block * block < size)
		block += LEAST_BLOCK;
	return block;
}

bool sort_takes_few(Ctx *c, Value *x, Dim *count)
{
	const Type *t = x->type;
	int64_t size, n, lo, rows, bits = 0, block, steps;
	double sort, few;

	if (!sort_has_keys(t->dtype) || t->rank >= MAX_RANK || count == t->dims[t->rank - 1])
		return false;
	if (!dim_is_const(count, &n) || !dim_is_const(t->dims[t->rank - 1], &size)) {
		/* unknown numbers are few, but those that are bounded by many */
		dim_bounds(c, count, &lo, &n);
		return n <= MOST_TAKEN || n >= DIM_FAR;
	}
	if (!dim_is_const(dims_product(c, t->dims, t->rank - 1), &rows))
		rows = 1;
	while ((int64_t)1 << bits < size)
		bits++;
	block = block_of(size);
	steps = bits * (bits + 1) / 2;
	sort = (double)steps * ((double)rows * (double)size + (double)LAUNCH);
	few = (double)n *
	      ((double)rows * (double)(block + 2 * ((size + block - 1) / block)) + (double)LAUNCH);
	return few < sort;
}

void sort_blocks(Infer *in, Node *n, Value *x, bool largest, SortBlocks *b)
{
	const int last = x->type->rank - 1;
	int64_t size;

	b->block = block_of(dim_is_const(x->type->dims[last], &size) ? size : -1);
	b->keys = sort_keys(in, n, x, largest, b->block);
	b->best = expand_reduce(in, n, OP_ReduceMax, b->keys, last + 1, false);
}

Value *sort_blocks_take(Infer *in, Node *n, const SortBlocks *b, Value *best, Value **rest)
{
	const int last = best->type->rank - 1;
	Value *key = expand_reduce(in, n, OP_ReduceMax, best, last, true);
	Value *same = EXPAND(in, n, Equal, expand_range(in, n, best->type->dims[last]),
			     EXPAND(in, n, Div, sort_key_index(in, n, key),
				    expand_scalar(in, n, DT_I64, (double)b->block)));

	*rest = EXPAND(in, n, Where, same, EXPAND(in, n, NextKey, b->keys, key), best);
	return key;
}

Value *sort_few(Infer *in, Node *n, Value *x, bool largest, Dim *count, Value **index)
{
	const int last = x->type->rank - 1;
	int64_t perm[MAX_RANK];
	Value *key, *next, *rest, *all;
	Dim *dims[MAX_RANK];
	SortBlocks blocks;
	LoopBuild b;

	sort_blocks(in, n, x, largest, &blocks);
	b = loop_open(in, n, count, &blocks.best, 1);
	key = sort_blocks_take(in, n, &blocks, b.carried[0], &next);
	loop_close(&b, &next, &key, 1, NULL, count, &rest, &all);
	/* [count, .., 1] becomes [.., count] */
	for (int d = 0; d <= last; d++) {
		perm[d] = d + 1;
		dims[d] = d < last ? x->type->dims[d] : count;
	}
	perm[last] = 0;
	perm[last + 1] = last + 1;
	all = expand_reshape(in, n, expand_transpose(in, n, all, perm, last + 2), dims, last + 1);
	*index = sort_key_index(in, n, all);
	return sort_key_elements(in, n, x, *index);
}
