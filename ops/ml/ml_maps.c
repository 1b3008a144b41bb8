/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of ai.onnx.ml on maps: ZipMap, which makes one map for each row of scores,
 * DictVectorizer and CastMap. A map is a tensor of keys and a tensor of values (ops/infer/parts.h),
 * so all are composites.
 */
#include "ops/ml/ml.h"
#include "ops/infer/parts.h"
#include "ops/onnx/sort.h"

#include <stdlib.h>

/* ---- ZipMap ---- */

static int compare_ids(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Whether no two of the labels T, of i64 or strings, are equal. */
static bool distinct(Infer *in, Node *n, const Tensor *t)
{
	const int64_t count = tensor_numel(t);
	int64_t *v = NEW_ARRAY(infer_arena(in), count + 1, int64_t);

	for (int64_t i = 0; i < count; i++)
		v[i] = dtype_load_i64(t->dtype, t->data, i);
	qsort(v, (size_t)count, sizeof *v, compare_ids);
	for (int64_t i = 1; i < count; i++)
		if (v[i] == v[i - 1])
			return infer_error(in, n, "two classes have the same label");
	return true;
}

static bool expand_zipmap(Infer *in, Node *n, Value **out)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0), *map;
	int count;
	const Tensor *labels = ml_labels(in, n, "classlabels_int64s", "classlabels_strings",
					 &count);
	Value *part[2];

	if (!labels || !distinct(in, n, labels) || !(part[1] = ml_rows(in, n, DT_F32)))
		return false;
	if (!infer_dim_equals(in, n, &x->dims[x->rank - 1], dim_const(c, count),
			      "there are not as many scores as class labels"))
		return false;
	part[0] = expand_tensor(in, n, labels);
	map = type_map(c, labels->dtype, type_items(c, DT_F32, 0));
	out[0] = parts_join(in, n, type_sequence(c, map), part);
	return true;
}

const Op op_ml_ZipMap = {
	.expand = expand_zipmap, .types = "f",
	.attrs = "classlabels_int64s: ints, classlabels_strings: strings",
};

/* ---- From maps to tensors ---- */

/* The keys and the values of operand 0, vectors. */
static bool map_of(Infer *in, Node *n, Value **part)
{
	const Type *t = infer_type(n, 0);

	if (t->kind != TYPE_MAP)
		return infer_error(in, n, "the operand must be a map");
	return parts_of(in, n, node_in(n, 0), t, part);
}

/* [1, the length of WANTED]: for each key that is WANTED, a vector, its value in the map PART,
 * or else OTHERWISE, a constant of one element. */
static Value *values_of(Infer *in, Node *n, Value *const *part, Value *wanted, Value *otherwise)
{
	Value *v = expand_node_ints(in, n, OP_Concat, (Value *[]){part[1], otherwise}, 2, "axis",
				    0);
	Dim *dims[2] = {dim_const(infer_ctx(in), 1), wanted->type->dims[0]};

	v = EXPAND(in, n, Gather, v, ml_place(in, n, wanted, part[0]));
	return expand_reshape(in, n, v, dims, 2);
}

static bool expand_dict_vectorizer(Infer *in, Node *n, Value **out)
{
	const Tensor *words = ml_list(in, n, "vocabulary", "int64_vocabulary", "string_vocabulary");
	const int64_t one = 1;
	Value *part[PARTS_MAX], *zero;

	if (!words || !map_of(in, n, part))
		return false;
	if (part[0]->type->dtype != words->dtype)
		return infer_error(in, n, "the vocabulary is %s, the keys of the map %s",
				   dtype_info[words->dtype].name,
				   dtype_info[part[0]->type->dtype].name);
	zero = expand_tensor(in, n, tensor_new(infer_arena(in), part[1]->type->dtype, 1, &one));
	out[0] = values_of(in, n, part, expand_tensor(in, n, words), zero);
	return true;
}

const Op op_ml_DictVectorizer = {
	.expand = expand_dict_vectorizer, .compound = true,
	.attrs = "int64_vocabulary: ints, string_vocabulary: strings",
};

/* The values of the map PART in the order of their keys. */
static Value *by_key(Infer *in, Node *n, Value *const *part)
{
	Value *order;
	Dim *dims[2] = {dim_const(infer_ctx(in), 1), part[0]->type->dims[0]};

	if (!sort_last(in, n, part[0], false, false, &order))
		return NULL;
	return expand_reshape(in, n, EXPAND(in, n, Gather, part[1], order), dims, 2);
}

static bool expand_cast_map(Infer *in, Node *n, Value **out)
{
	static const char *const targets[] = {"TO_FLOAT", "TO_STRING", "TO_INT64"};
	static const DType types[] = {DT_F32, DT_STR, DT_I64};
	static const char *const forms[] = {"DENSE", "SPARSE"};
	const int64_t size = node_int(n, "max_map", 1), one = 1;
	Value *part[PARTS_MAX], *wanted;
	Tensor *pad;
	int to, sparse;

	if (!infer_choice(in, n, "cast_to", targets, 3, &to) ||
	    !infer_choice(in, n, "map_form", forms, 2, &sparse) || !map_of(in, n, part))
		return false;
	if (part[0]->type->dtype != DT_I64)
		return infer_error(in, n, "the keys of the map are %s, expected i64",
				   dtype_info[part[0]->type->dtype].name);
	if (sparse && (size < 1 || size > INT32_MAX))
		return infer_error(in, n, "attribute \"max_map\" is %lld", (long long)size);
	part[1] = expand_cast(in, n, part[1], types[to]);
	if (!sparse) {
		out[0] = by_key(in, n, part);
		return out[0] != NULL;
	}
	pad = tensor_new(infer_arena(in), types[to], 1, &one);
	if (types[to] == DT_STR) /* as in ONNX Runtime */
		dtype_store_i64(DT_STR, (void *)(uintptr_t)pad->data, 0, ml_string(in, "0.f"));
	wanted = expand_range(in, n, dim_const(infer_ctx(in), size));
	out[0] = values_of(in, n, part, wanted, expand_tensor(in, n, pad));
	return true;
}

const Op op_ml_CastMap = {
	.expand = expand_cast_map,
	.compound = true,
	.doc = "values are cast as by Cast; keys outside of a sparse result are ignored",
	.attrs = "cast_to: string, map_form: string, max_map: int",
};
