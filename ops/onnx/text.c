/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators on strings. Operations on the bytes of a string are routines (ir/expr/routines.def);
 * comparing and moving strings works on ids, as for integers.
 */
#define DLRT_GENERATED 1 /* which declares the routines */
#include "runtime/strtable.h"

#include "ir/graph/blocks.h"
#include "ops/infer/build.h"
#include "ops/infer/infer.h"
#include "ops/onnx/shape.h"

#include <string.h>

/* ---- StringConcat, and case ---- */

const Op op_StringConcat = {.scalar = "str_concat(x, y)", .types = "s", .host = ""};
const Op op_StringLower = {.scalar = "str_lower(x)", .types = "s", .host = ""};
const Op op_StringUpper = {.scalar = "str_upper(x)", .types = "s", .host = ""};

static int64_t id_of(Ctx *c, const char *s)
{
	return strings_intern(c->strings, s, strlen(s));
}

/* ---- RegexFullMatch ---- */

static bool infer_regex(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	const char *pattern = node_str(n, "pattern", ""), *why;
	Regex *r;

	r = regex_new(in->ctx->strings, (dl_str){pattern, strlen(pattern)}, &why);
	if (!r)
		return infer_error(in, n, "the pattern \"%.100s\" %s", pattern,
				   why ? why : "needs too much memory");
	regex_free(in->ctx->strings, r);
	return infer_result(in, n, 0, DT_BOOL, x->rank, x->dims);
}

static void lower_regex(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	Expr *pattern = build_string(k, id_of(k->ctx, node_str(n, "pattern", "")));

	(void)in;
	kernel_iters_of(k, out, it);
	kernel_map_id(k, it, out,
		      BUILD_EXPR(k, CT_I64, "str_matches(x, pattern)",
				 {"x", kernel_load_iters(k, lower_in(k, 0), it)},
				 {"pattern", pattern}));
}

const Op op_RegexFullMatch = {
	.infer = infer_regex,
	.lower = lower_regex,
	.host = "",
	.types = "s",
	.doc = "the syntax of RE2 without \\p and \\C",
	.attrs = "pattern: string",
};

/* ---- StringSplit ---- */

/* Pieces: the number of pieces of each string. Attributes `delimiter` and `maxsplit` as
 * StringSplit has them. */
static bool infer_pieces(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);

	return infer_result(in, n, 0, DT_I64, x->rank, x->dims);
}

static void lower_pieces(Infer *in, Node *n, Kernel *k)
{
	const int64_t most = node_int(n, "maxsplit", -1);
	Buf *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	Expr *e;

	(void)in;
	kernel_iters_of(k, out, it);
	e = BUILD_EXPR(k, CT_I64, "str_pieces(x, delimiter)",
		       {"x", kernel_load_iters(k, lower_in(k, 0), it)},
		       {"delimiter", build_string(k, id_of(k->ctx, node_str(n, "delimiter", "")))});
	if (most >= 0 && most < INT64_MAX)
		e = ex_op2(k->pool, IN_min, e, at_int(k, most + 1));
	kernel_map_id(k, it, out, e);
}

const Op op_Pieces = {.infer = infer_pieces, .lower = lower_pieces, .host = ""};

/* Piece: the pieces, along a last axis whose extent is attribute `at`; "" where there are fewer. */
static bool infer_piece(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	Dim *dims[MAX_RANK];

	if (!control_dim(n, "at") || x->rank == MAX_RANK)
		return infer_error(in, n, "the result has too many dimensions");
	if (x->rank)
		memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
	dims[x->rank] = control_dim(n, "at");
	return infer_result(in, n, 0, DT_STR, x->rank + 1, dims);
}

static void lower_piece(Infer *in, Node *n, Kernel *k)
{
	const int64_t most = node_int(n, "maxsplit", -1);
	Buf *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	Expr *x, *at, *delimiter, *e;

	(void)in;
	kernel_iters_of(k, out, it);
	x = kernel_load_iters(k, lower_in(k, 0), it);
	at = at_iter(k, it[out->rank - 1]);
	delimiter = build_string(k, id_of(k->ctx, node_str(n, "delimiter", "")));
	e = BUILD_EXPR(k, CT_I64, "str_piece(x, delimiter, k)", {"x", x}, {"delimiter", delimiter},
		       {"k", at});
	if (most >= 0)
		e = BUILD_EXPR(k, CT_I64, "select(lt(k, most), piece, str_rest(x, delimiter, k))",
			       {"k", at}, {"most", at_int(k, most)}, {"piece", e}, {"x", x},
			       {"delimiter", delimiter});
	kernel_map_id(k, it, out, e);
}

const Op op_Piece = {.infer = infer_piece, .lower = lower_piece, .host = ""};

static bool expand_split_strings(Infer *in, Node *n, Value **out)
{
	const int64_t zero = 0, all = -1;
	Value *x = node_in(n, 0), *pieces, *most;
	int elements;
	Dim **size;
	Node *p;

	pieces = expand_node_like(in, n, OP_Pieces, &x, 1);
	most = EXPAND(in, n, Reshape, pieces, expand_ints(in, n, &all, 1));
	/* at least 0, even if there are no strings */
	most = expand_node_ints(in, n, OP_Concat, (Value *[]){most, expand_ints(in, n, &zero, 1)},
				2, "axis", 0);
	most = expand_node_ints(in, n, OP_ReduceMax, &most, 1, "keepdims", 0);
	size = infer_contents(in, n, most, &elements);
	if (!size)
		return false;
	if (dim_as_sym(size[0]) && dim_as_sym(size[0])->from_data)
		sym_bound(in->ctx, dim_as_sym(size[0]), 0, DIM_INF);
	p = expand_start(in, n, OP_Piece, &x, 1, 1);
	node_set_str(p, "delimiter", node_str(n, "delimiter", ""));
	node_set_int(p, "maxsplit", node_int(n, "maxsplit", -1));
	control_set_dim(p, "at", size[0]);
	out[0] = expand_finish(in, p);
	out[1] = pieces;
	return true;
}

const Op op_StringSplit = {
	.expand = expand_split_strings, .types = "s", .host = "",
	.attrs = "delimiter: string, maxsplit: int",
};

/* ---- StringNormalizer ---- */

static Value *stopwords(Infer *in, Node *n, const Attr *a, bool lower)
{
	const int64_t count = a->n;
	Tensor *t = tensor_new(in->graph->arena, DT_STR, 1, &count);

	for (int i = 0; i < a->n; i++) {
		const int64_t id = id_of(in->ctx, a->ss[i]);

		dtype_store_i64(DT_STR, (void *)(uintptr_t)t->data, i,
				lower ? dl_str_lower(in->ctx->strings, id) : id);
	}
	return expand_tensor(in, n, t);
}

/* The vector X without the stopwords: the remaining strings, or one empty string. */
static Value *without_stopwords(Infer *in, Node *n, Value *x, const Attr *a)
{
	const bool exact = node_int(n, "is_case_sensitive", 0) != 0;
	const int64_t one = 1;
	Ctx *c = in->ctx;
	Value *keys = expand_unsqueeze(in, n, exact ? x : EXPAND(in, n, StringLower, x), one);
	Value *is = EXPAND(in, n, Equal, keys, stopwords(in, n, a, !exact));
	Dim *pad[2] = {dim_const(c, 0), NULL};

	is = expand_reduce(in, n, OP_ReduceMax, expand_cast(in, n, is, DT_U8), one, false);
	x = EXPAND(in, n, Compress, x, EXPAND(in, n, Not, expand_cast(in, n, is, DT_BOOL)));
	pad[1] = dim_max(c, dim_sub(c, dim_const(c, 1), x->type->dims[0]), pad[0]);
	return EXPAND(in, n, Pad, x, expand_sizes(in, n, pad, 2));
}

static bool expand_normalizer(Infer *in, Node *n, Value **out)
{
	static const char *const actions[] = {"NONE", "LOWER", "UPPER"};
	const Attr *a = node_attr(n, "stopwords");
	const Type *x = infer_type(n, 0);
	Value *v = node_in(n, 0);
	Dim *dims[2] = {dim_const(in->ctx, 1), NULL};
	int action;

	if (!infer_choice(in, n, "case_change_action", actions, 3, &action))
		return false;
	if (x->rank != 1 && x->rank != 2)
		return infer_error(in, n, "the operand has rank %d, not 1 or 2", x->rank);
	if (x->rank == 2 &&
	    !infer_dim_equals(in, n, &x->dims[0], dims[0], "the first dim is not 1"))
		return false;
	if (a && a->kind == ATTR_STRS && a->n) {
		v = expand_reshape(in, n, v, &x->dims[x->rank - 1], 1);
		v = without_stopwords(in, n, v, a);
		if (x->rank == 2) {
			dims[1] = v->type->dims[0];
			v = expand_reshape(in, n, v, dims, 2);
		}
	}
	out[0] = action ? expand_node(in, n, action == 1 ? OP_StringLower : OP_StringUpper, &v, 1)
		 : v == node_in(n, 0) ? EXPAND(in, n, Identity, v)
				      : v;
	return true;
}

const Op op_StringNormalizer = {
	.expand = expand_normalizer,
	.types = "s",
	.host = "where the case changes",
	.doc = "case is mapped by Unicode's simple mapping; the locale is ignored",
	.attrs = "case_change_action: string, is_case_sensitive: int, locale: string, "
		 "stopwords: strings",
};

/* ---- TfIdfVectorizer ---- */

/*
 * Ngrams: the number of times that each n-gram, a row of operand 1, occurs in each row of operand
 * 0. Items of an n-gram may be 1 to `skips` + 1 positions apart, all by the same distance.
 */
static bool infer_ngrams(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0), *grams = infer_type(n, 1);

	return infer_result(in, n, 0, DT_F32, 2, (Dim *[]){x->dims[0], grams->dims[0]});
}

static void lower_ngrams(Infer *in, Node *n, Kernel *k)
{
	Buf *x = lower_in(k, 0), *grams = lower_in(k, 1), *out = lower_out(k, 0);
	Point band = {0}, red = {0};
	Expr *to[2], *same = NULL, *first, *step, *guard;
	int64_t items = 1, skips = node_int(n, "skips", 0);

	(void)in;
	dim_is_const(grams->dims[1], &items);
	point_add_dims(k, &band, out, to);
	step = point_add(k, &red, "s", dim_const(k->ctx, items > 1 ? skips + 1 : 1));
	step = ex_add(k->pool, step, at_int(k, 1));
	first = point_add(k, &red, "i", x->dims[1]);
	guard = ex_op2(k->pool, IN_lt,
		       ex_add(k->pool, first, ex_mul(k->pool, step, at_int(k, items - 1))),
		       at_dim(k, x->dims[1]));
	for (int64_t j = 0; j < items; j++) {
		Expr *at = ex_add(k->pool, first, ex_mul(k->pool, step, at_int(k, j)));

		same = ex_and(k->pool, same,
			      ex_op2(k->pool, IN_eq, kernel_load(k, x, (Expr *[]){to[0], at}),
				     kernel_load(k, grams, (Expr *[]){to[1], at_int(k, j)})));
	}
	point_reduce(k, MONOID_sum, &band, &red, out, to, ex_cvt(k->pool, CT_F32, same),
		     items > 1 ? guard : NULL);
}

const Op op_Ngrams = {.infer = infer_ngrams, .lower = lower_ngrams};

/* The pool of N: its items, as a tensor of the operand's type, and where the n-grams of each length
 * begin. */
typedef struct NgramPool {
	const Attr *items;
	const int64_t *counts, *indexes;
	int ncounts, nindexes;
	int64_t first[MAX_CONTENTS + 1]; /* the item where the n-grams of k + 1 items begin */
	int64_t grams;
} NgramPool;

static bool read_pool(Infer *in, Node *n, bool strings, NgramPool *p)
{
	*p = (NgramPool){.items = node_attr(n, strings ? "pool_strings" : "pool_int64s")};
	p->counts = node_ints(n, "ngram_counts", &p->ncounts);
	p->indexes = node_ints(n, "ngram_indexes", &p->nindexes);
	if (!p->items || p->items->kind != (strings ? ATTR_STRS : ATTR_INTS))
		return infer_error(in, n, "has no attribute \"pool_%s\", for an operand of %s",
				   strings ? "strings" : "int64s",
				   strings ? "strings" : "integers");
	if (!p->counts || !p->indexes || p->ncounts < 1 || p->ncounts > MAX_CONTENTS)
		return infer_error(
			in, n,
			"has no attribute ngram_counts of 1 to %d elements, or no ngram_indexes",
			MAX_CONTENTS);
	for (int i = 0; i < p->ncounts; i++) {
		const int64_t end = i + 1 < p->ncounts ? p->counts[i + 1] : p->items->n;

		p->first[i] = p->counts[i];
		if (p->counts[i] < 0 || p->counts[i] > end || (end - p->counts[i]) % (i + 1) ||
		    (!i && p->counts[0]))
			return infer_error(in, n,
					   "ngram_counts does not divide the pool of %d items",
					   p->items->n);
		p->grams += (end - p->counts[i]) / (i + 1);
	}
	p->first[p->ncounts] = p->items->n;
	if (p->grams != p->nindexes)
		return infer_error(in, n,
				   "the pool has %lld n-grams, and ngram_indexes %d elements",
				   (long long)p->grams, p->nindexes);
	return true;
}

/* The n-grams of LENGTH items, one in each row. */
static Value *ngrams_of(Infer *in, Node *n, const NgramPool *p, int length)
{
	const int64_t from = p->first[length - 1];
	const int64_t dims[2] = {(p->first[length] - from) / length, length};
	const bool strings = p->items->kind == ATTR_STRS;
	Tensor *t = tensor_new(in->graph->arena, strings ? DT_STR : DT_I64, 2, dims);

	for (int64_t i = 0; i < dims[0] * length; i++)
		dtype_store_i64(t->dtype, (void *)(uintptr_t)t->data, i,
				strings ? id_of(in->ctx, p->items->ss[from + i])
					: p->items->is[from + i]);
	return expand_tensor(in, n, t);
}

/* The counts of all n-grams in the rows of X; 0 for n-grams of another length. */
static Value *count_ngrams(Infer *in, Node *n, const NgramPool *p, Value *x)
{
	const int64_t least = node_int(n, "min_gram_length", 1),
		      most = node_int(n, "max_gram_length", 1);
	Value *part[MAX_CONTENTS], *v;
	int parts = 0;

	for (int length = 1; length <= p->ncounts; length++) {
		v = ngrams_of(in, n, p, length);
		if (!value_const(v) || !tensor_numel(value_const(v)))
			continue;
		if (length < least || length > most) {
			Dim *d[2] = {x->type->dims[0], v->type->dims[0]};

			v = EXPAND(in, n, Expand, expand_scalar(in, n, DT_F32, 0),
				   expand_sizes(in, n, d, 2));
		} else {
			v = expand_node_ints(in, n, OP_Ngrams, (Value *[]){x, v}, 2, "skips",
					     node_int(n, "max_skip_count", 0));
		}
		part[parts++] = v;
	}
	if (parts == 1)
		return part[0];
	return parts ? expand_node_ints(in, n, OP_Concat, part, parts, "axis", 1) : NULL;
}

/* The counts V as columns of the result, by ngram_indexes; n-grams with one index are added. */
static Value *place_ngrams(Infer *in, Node *n, const NgramPool *p, Value *v)
{
	const int64_t count = p->nindexes;
	int64_t columns = 0, *at;
	Tensor *t = tensor_new(in->graph->arena, DT_I64, 1, &count);
	Dim *d[2] = {v->type->dims[0], NULL};
	Value *zero, *index;
	Node *s;

	at = (int64_t *)(uintptr_t)t->data;
	for (int i = 0; i < p->nindexes; i++) {
		at[i] = p->indexes[i];
		columns = at[i] >= columns ? at[i] + 1 : columns;
	}
	d[1] = dim_const(in->ctx, columns);
	zero = EXPAND(in, n, Expand, expand_scalar(in, n, DT_F32, 0), expand_sizes(in, n, d, 2));
	index = EXPAND(in, n, Expand, expand_tensor(in, n, t), EXPAND(in, n, Shape, v));
	s = expand_start(in, n, OP_ScatterElements, (Value *[]){zero, index, v}, 3, 1);
	node_set_int(s, "axis", 1);
	node_set_str(s, "reduction", "add");
	return expand_finish(in, s);
}

static Value *weights_of(Infer *in, Node *n, const float *w, int count)
{
	const int64_t dim = count;
	Tensor *t = tensor_new(in->graph->arena, DT_F32, 1, &dim);

	for (int i = 0; i < count; i++)
		((float *)(uintptr_t)t->data)[i] = w[i];
	return expand_tensor(in, n, t);
}

static bool expand_tfidf(Infer *in, Node *n, Value **out)
{
	static const char *const modes[] = {"TF", "IDF", "TFIDF"};
	const Type *x = infer_type(n, 0);
	Value *v = node_in(n, 0), *w;
	Dim *rows[2] = {dim_const(in->ctx, 1), NULL};
	const float *weights;
	NgramPool p;
	int mode, count;

	if (x->dtype != DT_STR && x->dtype != DT_I32 && x->dtype != DT_I64)
		return infer_error(in, n, "elements of type %s are not supported",
				   dtype_info[x->dtype].name);
	if (x->rank != 1 && x->rank != 2)
		return infer_error(in, n, "the operand has rank %d, not 1 or 2", x->rank);
	if (!infer_choice(in, n, "mode", modes, 3, &mode) ||
	    !read_pool(in, n, x->dtype == DT_STR, &p))
		return false;
	for (int i = 0; i < p.nindexes; i++)
		if (p.indexes[i] < 0 || p.indexes[i] > INT32_MAX)
			return infer_error(in, n, "ngram_indexes has the element %lld",
					   (long long)p.indexes[i]);
	weights = node_floats(n, "weights", &count);
	if (weights && count != p.nindexes)
		return infer_error(in, n, "has %d weights for %d n-grams", count, p.nindexes);
	rows[1] = x->dims[x->rank - 1];
	if (x->rank == 1)
		v = expand_reshape(in, n, v, rows, 2);
	v = count_ngrams(in, n, &p, x->dtype == DT_I32 ? expand_cast(in, n, v, DT_I64) : v);
	if (!v)
		return v ? false : infer_error(in, n, "the pool is empty");
	if (mode == 1) /* each n-gram that occurs has its weight */
		v = expand_cast(in, n, EXPAND(in, n, Greater, v, expand_scalar(in, n, DT_F32, 0)),
				DT_F32);
	if (mode && weights) {
		w = weights_of(in, n, weights, count);
		v = EXPAND(in, n, Mul, v, w);
	}
	v = place_ngrams(in, n, &p, v);
	if (x->rank == 1)
		v = expand_reshape(in, n, v, v->type->dims + 1, 1);
	out[0] = v;
	return true;
}

const Op op_TfIdfVectorizer = {
	.expand = expand_tfidf, .types = "is",
	.attrs = "max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: string, "
		 "ngram_counts: ints, ngram_indexes: ints, pool_int64s: ints, "
		 "pool_strings: strings, weights: floats",
};
