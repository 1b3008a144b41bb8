/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/upgrade.h"

#include <math.h>

typedef struct Upgrade {
	Graph *g;
	Node *n; /* the node that is upgraded */
	int version;
	Value **out;
} Upgrade;

/* ---- What rules are made of ---- */

static void drop_attr(Node *n, const char *name)
{
	int k = 0;

	for (int i = 0; i < n->attrs.n; i++)
		if (strcmp(n->attrs.at[i].name, name) != 0)
			n->attrs.at[k++] = n->attrs.at[i];
	n->attrs.n = k;
}

static bool complain(Upgrade *u, const char *what)
{
	return diag_error(u->g->ctx->diag, node_diag(u->n), "%s (opset %d)", what, u->version);
}

/* Makes a node of one result before N, which N may read, or after N. */
static Value *emit_at(Upgrade *u, OpKind op, Value *const *in, int nin, Node *before)
{
	Node *m = node_new(u->g, op, in, nin, 1, before);

	node_locs_from(m, u->n);
	return m->out[0];
}

static Value *emit(Upgrade *u, OpKind op, Value *a, Value *b)
{
	return emit_at(u, op, (Value *[]){a, b}, b ? 2 : 1, u->n);
}

static Value *emit_attr(Upgrade *u, OpKind op, Value *a, Value *b, const char *attr, int64_t v)
{
	Value *r = emit(u, op, a, b);

	node_set_int(r->def, attr, v);
	return r;
}

/* Sets the location of the new constant V. */
static Value *located(Upgrade *u, Value *v)
{
	node_locs_from(v->def, u->n);
	return v;
}

static Value *ints(Upgrade *u, const int64_t *v, int n)
{
	return located(u, graph_const_ints(u->g, v, n, u->n));
}

static Value *one_int(Upgrade *u, int64_t v)
{
	return ints(u, &v, 1);
}

/* V as a scalar of LIKE's element type. */
static Value *scalar_like(Upgrade *u, double v, Value *like)
{
	if (like->type && like->type->kind == TYPE_TENSOR && dtype_is_float(like->type->dtype))
		return located(u, graph_const_scalar(u->g, like->type->dtype, v, u->n));
	return emit(u, OP_CastLike, located(u, graph_const_scalar(u->g, DT_F32, v, u->n)), like);
}

static Value *shape_of(Upgrade *u, Value *v)
{
	return emit(u, OP_Shape, v, NULL);
}

static Value *rank_of(Upgrade *u, Value *v)
{
	return shape_of(u, shape_of(u, v));
}

/* V as 64-bit integers. */
static Value *whole(Upgrade *u, Value *v)
{
	return emit_attr(u, OP_Cast, v, NULL, "to", 7);
}

/* COUNT ones; COUNT is one integer in a tensor of rank 1. */
static Value *ones(Upgrade *u, Value *count)
{
	Value *r = emit(u, OP_ConstantOfShape, count, NULL);
	int64_t dim = 1, one = 1;
	Tensor *t = tensor_new(u->g->arena, DT_I64, 1, &dim);
	Attr a = {.name = ctx_name(u->g->ctx, "value"), .kind = ATTR_TENSOR, .t = t};

	t->data = arena_copy(u->g->arena, &one, sizeof one);
	node_set_attr(r->def, a);
	return r;
}

static Value *concat(Upgrade *u, Value *a, Value *b)
{
	return emit_attr(u, OP_Concat, a, b, "axis", 0);
}

/* Sets operand K, which may be one more than there are. */
static void set_in(Node *n, int k, Value *v)
{
	while (n->nin < k)
		node_set_input(n, n->nin, NULL);
	node_set_input(n, k, v);
}

/* Makes the list attribute ATTR, if present, operand K. */
static bool ints_to_input(Upgrade *u, const char *attr, int k)
{
	int count;
	const int64_t *v = node_ints(u->n, attr, &count);

	if (count < 0)
		return false;
	set_in(u->n, k, ints(u, v, count));
	drop_attr(u->n, attr);
	return true;
}

/* ---- The rules ---- */

/* In the old form B was aligned at axis AXIS of A, not at A's end: adds the trailing dims of 1
 * for that. A negative axis counts from A's end; -1 also stood for B at the end, whatever B's
 * rank. */
static Value *align_at(Upgrade *u, Value *a, Value *b, int64_t axis)
{
	Value *dims = axis < 0 ? one_int(u, -axis)
			       : emit(u, OP_Sub, rank_of(u, a), one_int(u, axis));
	Value *rest = emit(u, OP_Sub, dims, rank_of(u, b));

	if (axis == -1)
		rest = emit(u, OP_Max, rest, one_int(u, 0));
	return emit_attr(u, OP_Reshape, b, concat(u, shape_of(u, b), ones(u, rest)), "allowzero",
			 1);
}

static bool broadcast_axis(Upgrade *u)
{
	int64_t axis = node_int(u->n, "axis", -1);
	bool given = node_attr(u->n, "axis") && node_int(u->n, "broadcast", 0);

	if (given && node_in(u->n, 0) && node_in(u->n, 1))
		node_set_input(u->n, 1, align_at(u, node_in(u->n, 0), node_in(u->n, 1), axis));
	drop_attr(u->n, "axis");
	drop_attr(u->n, "broadcast");
	return true;
}

/* The old form had one slope for each channel. */
static bool prelu(Upgrade *u)
{
	if (node_in(u->n, 0) && node_in(u->n, 1))
		node_set_input(u->n, 1, align_at(u, node_in(u->n, 0), node_in(u->n, 1), 1));
	return true;
}

static bool gemm(Upgrade *u)
{
	drop_attr(u->n, "broadcast");
	return true;
}

static bool axes_input(Upgrade *u)
{
	int count;

	node_ints(u->n, "axes", &count);
	if (count > 0)
		ints_to_input(u, "axes", 1);
	drop_attr(u->n, "axes");
	return true;
}

/* The results of the node say already whether the sequence is wanted. */
static bool no_output_sequence(Upgrade *u)
{
	drop_attr(u->n, "output_sequence");
	return true;
}

static bool unsqueeze(Upgrade *u)
{
	return ints_to_input(u, "axes", 1) || complain(u, "attribute \"axes\" is missing");
}

static bool reshape(Upgrade *u)
{
	return ints_to_input(u, "shape", 1) || complain(u, "attribute \"shape\" is missing");
}

static bool slice(Upgrade *u)
{
	if (!ints_to_input(u, "starts", 1) || !ints_to_input(u, "ends", 2))
		return complain(u, "attribute \"starts\" or \"ends\" is missing");
	ints_to_input(u, "axes", 3);
	return true;
}

static bool split(Upgrade *u)
{
	int count;

	node_ints(u->n, "split", &count);
	if (count > 0 && !node_in(u->n, 1))
		ints_to_input(u, "split", 1);
	drop_attr(u->n, "split");
	if (u->version < 2 && node_in(u->n, 1)) /* it had the data's type */
		node_set_input(u->n, 1, whole(u, node_in(u->n, 1)));
	return true;
}

static bool split_count(Upgrade *u)
{
	if (!node_in(u->n, 1))
		node_set_int(u->n, "num_outputs", u->n->nout);
	return true;
}

static bool pad(Upgrade *u)
{
	Node *n = u->n;
	float value = node_float(n, "value", 0);

	if (!ints_to_input(u, u->version < 2 ? "paddings" : "pads", 1))
		return complain(u, "attribute \"pads\" is missing");
	if (value != 0 && node_in(n, 0))
		set_in(n, 2, scalar_like(u, (double)value, node_in(n, 0)));
	drop_attr(n, "value");
	return true;
}

static void clip_bound(Upgrade *u, const char *attr, int k, float otherwise)
{
	Node *n = u->n;

	if (!node_attr(n, attr) && u->version >= 6)
		return;
	set_in(n, k, scalar_like(u, (double)node_float(n, attr, otherwise), node_in(n, 0)));
	drop_attr(n, attr);
}

/* A bound that is missing stands for the largest finite number; before version 6 for none. */
static bool clip(Upgrade *u)
{
	if (!node_in(u->n, 0))
		return true;
	clip_bound(u, "min", 1, -INFINITY);
	clip_bound(u, "max", 2, INFINITY);
	return true;
}

/* Inference: Dropout returns the data. The mask had the data's type. */
static bool dropout(Upgrade *u)
{
	Node *n = u->n;

	drop_attr(n, "ratio");
	if (u->version < 7)
		drop_attr(n, "is_test");
	if (u->version < 10 && n->nout > 1 && n->out[1] && node_in(n, 0))
		u->out[1] = emit_at(u, OP_CastLike, (Value *[]){n->out[1], node_in(n, 0)}, 2, NULL);
	return true;
}

/* In the old form a row was everything after AXIS, merged; and so was everything before it. */
static bool softmax(Upgrade *u)
{
	Node *n = u->n;
	int64_t axis = node_int(n, "axis", 1);
	Value *x = node_in(n, 0), *shape;

	if (!x || axis == -1 ||
	    (x->type && x->type->kind == TYPE_TENSOR && axis == x->type->rank - 1))
		return true;
	shape = shape_of(u, x);
	node_set_input(n, 0, emit_attr(u, OP_Flatten, x, NULL, "axis", axis));
	node_set_int(n, "axis", -1);
	u->out[0] = emit_at(u, OP_Reshape, (Value *[]){n->out[0], shape}, 2, NULL);
	node_set_int(u->out[0]->def, "allowzero", 1);
	return true;
}

/* The old form had statistics and parameters for every element of a sample, not for each
 * channel. */
static bool batch_norm_elements(Upgrade *u)
{
	Node *n = u->n;
	Value *x = node_in(n, 0), *eps, *y;

	eps = scalar_like(u, (double)node_float(n, "epsilon", 1e-5f), x);
	y = emit(u, OP_Sub, x, node_in(n, 3));
	y = emit(u, OP_Div, y, emit(u, OP_Sqrt, emit(u, OP_Add, node_in(n, 4), eps), NULL));
	u->out[0] = emit(u, OP_Add, emit(u, OP_Mul, y, node_in(n, 1)), node_in(n, 2));
	node_remove(n);
	u->n = NULL;
	return true;
}

static bool batch_norm(Upgrade *u)
{
	Node *n = u->n;
	int64_t spatial = node_int(n, "spatial", 1);

	for (int i = 1; i < n->nout; i++) {
		if (n->out[i] && u->version >= 7)
			return complain(u,
					"the training form with several results is not supported; "
					"export the model for inference");
		u->out[i] = NULL;
	}
	if (u->version < 9)
		drop_attr(n, "spatial");
	if (u->version < 7)
		drop_attr(n, "is_test");
	n->nout = 1;
	for (int i = 0; i < 5; i++)
		if (!node_in(n, i))
			return complain(u, "an operand is missing");
	return spatial || u->version >= 9 || batch_norm_elements(u);
}

/* The old form had a scale and a bias for each group. */
static bool group_norm(Upgrade *u)
{
	Node *n = u->n;
	int64_t groups = node_int(n, "num_groups", 0), axis = 1;
	Value *channels, *each;

	if (groups < 1)
		return complain(u, "attribute \"num_groups\" is missing or not positive");
	if (!node_in(n, 0) || !node_in(n, 1) || !node_in(n, 2))
		return complain(u, "an operand is missing");
	channels = emit_attr(u, OP_Gather, shape_of(u, node_in(n, 0)), one_int(u, 1), "axis", 0);
	each = emit(u, OP_Div, channels, one_int(u, groups));
	for (int i = 1; i < 3; i++) {
		Value *v = emit(u, OP_Unsqueeze, node_in(n, i), ints(u, &axis, 1));

		v = emit(u, OP_Expand, v, concat(u, one_int(u, groups), each));
		node_set_input(n, i, emit(u, OP_Reshape, v, channels));
	}
	return true;
}

static bool concat_axis(Upgrade *u)
{
	if (!node_attr(u->n, "axis"))
		node_set_int(u->n, "axis", 1);
	return true;
}

/* The old form named the element type by a string. */
static bool cast(Upgrade *u)
{
	static const struct {
		const char *name;
		int code;
	} types[] = {
		{"FLOAT", 1},   {"UINT8", 2},   {"INT8", 3},    {"UINT16", 4}, {"INT16", 5},
		{"INT32", 6},   {"INT64", 7},   {"STRING", 8},  {"BOOL", 9},   {"FLOAT16", 10},
		{"DOUBLE", 11}, {"UINT32", 12}, {"UINT64", 13},
	};
	const char *to = node_str(u->n, "to", NULL);

	for (size_t i = 0; to && i < sizeof types / sizeof *types; i++)
		if (!strcmp(to, types[i].name)) {
			drop_attr(u->n, "to");
			node_set_int(u->n, "to", types[i].code);
			return true;
		}
	if (!to && node_attr(u->n, "to"))
		return complain(u, "attribute \"to\" is of another kind than string");
	return to ? complain(u, "attribute \"to\" names no element type that is supported") : true;
}

static bool selu(Upgrade *u)
{
	if (!node_attr(u->n, "alpha"))
		node_set_float(u->n, "alpha", 1.6732f);
	if (!node_attr(u->n, "gamma"))
		node_set_float(u->n, "gamma", 1.0507f);
	return true;
}

/* Before opset 9, as in ONNX Runtime: over the rows and columns of an image, with across_channels
 * also over the channels, but never over the batch. */
static bool mean_variance(Upgrade *u)
{
	static const int64_t axes[] = {1, 2, 3};
	const int across = node_int(u->n, "across_channels", 0) != 0;

	if (node_attr(u->n, "axes"))
		return true;
	if (!node_int(u->n, "normalize_variance", 1))
		return complain(u, "normalize_variance = 0 is not supported");
	drop_attr(u->n, "across_channels");
	drop_attr(u->n, "normalize_variance");
	node_set_ints(u->n, "axes", axes + !across, 2 + across);
	return true;
}

static bool lp_order(Upgrade *u)
{
	const Attr *p = node_attr(u->n, "p");

	if (p && p->kind != ATTR_FLOAT)
		return complain(u, "attribute \"p\" is of another kind than float");
	if (p) {
		float v = p->f;

		if (!(v >= 1 && v <= 1024) || (float)(int)v != v)
			return complain(u, "attribute \"p\" is not a small whole number");
		drop_attr(u->n, "p");
		node_set_int(u->n, "p", (int64_t)v);
	}
	return true;
}

/* The old form repeated along one axis; the axis and the count were operands. */
static bool tile(Upgrade *u)
{
	Node *n = u->n;
	Value *tiles = node_in(n, 1), *axis = node_in(n, 2), *all, *one = one_int(u, 1);

	if (!node_in(n, 0) || !tiles || !axis)
		return complain(u, "an operand is missing");
	tiles = emit(u, OP_Reshape, whole(u, tiles), one);
	axis = emit(u, OP_Reshape, whole(u, axis), one);
	all = emit_at(u, OP_ScatterElements,
		      (Value *[]){ones(u, rank_of(u, node_in(n, 0))), axis, tiles}, 3, u->n);
	node_set_input(n, 1, all);
	for (int i = 2; i < n->nin; i++)
		node_set_input(n, i, NULL);
	n->nin = 2;
	return true;
}

static bool resize_floats(Upgrade *u, const float *scales, int count)
{
	int64_t dim = count;
	Tensor *t = tensor_new(u->g->arena, DT_F32, 1, &dim);

	t->data = arena_copy(u->g->arena, scales, (size_t)count * sizeof *scales);
	set_in(u->n, 1, located(u, graph_const(u->g, t, u->n)));
	return true;
}

static bool upsample_1(Upgrade *u)
{
	float s[4] = {1, 1, node_float(u->n, "height_scale", 1),
		      node_float(u->n, "width_scale", 1)};
	const char *mode = node_str(u->n, "mode", "nearest");

	if (!strcmp(mode, "bilinear"))
		node_set_str(u->n, "mode", "linear");
	drop_attr(u->n, "height_scale");
	drop_attr(u->n, "width_scale");
	return resize_floats(u, s, 4);
}

static bool upsample_7(Upgrade *u)
{
	int count;
	const float *s = node_floats(u->n, "scales", &count);

	if (u->version < 7) /* upsample_1 did it, and "scales" did not exist */
		return true;
	if (count < 0)
		return u->n->nin > 1 || complain(u, "attribute \"scales\" is missing");
	resize_floats(u, s, count);
	drop_attr(u->n, "scales");
	return true;
}

/* The old form sampled pixels at their upper left corners. Nearest rounded the coordinate down
 * where an axis grows, and up where it shrinks, as in ONNX's cases of opset 10. */
static bool resize_10(Upgrade *u)
{
	Node *n = u->n;

	if (!node_in(n, 1))
		return complain(u, "operand \"scales\" is missing");
	set_in(n, 2, node_in(n, 1));
	node_set_input(n, 1, NULL);
	node_set_str(n, "coordinate_transformation_mode", "asymmetric");
	node_set_str(n, "nearest_mode", "floor");
	node_set_int(n, "ceil_below_one", 1);
	return true;
}

/* In the old form operands could not be omitted and were empty tensors instead. */
static bool resize_empty(Upgrade *u)
{
	for (int i = 1; i < u->n->nin; i++) {
		const Tensor *t = node_in(u->n, i) ? value_const(node_in(u->n, i)) : NULL;

		if (t && t->bytes == 0)
			node_set_input(u->n, i, NULL);
	}
	return true;
}

/* Scan had a first operand, the lengths of the sequences, and a batch as the first axis of all
 * others. */
static bool scan_8(Upgrade *u)
{
	Node *n = u->n;
	int count;
	const int64_t *reverse = node_ints(n, "directions", &count);

	if (node_in(n, 0)) {
		node_set_int(n, "lengths", 1);
	} else {
		for (int k = 1; k < n->nin; k++)
			node_set_input(n, k - 1, node_in(n, k));
		node_truncate_inputs(n, n->nin - 1);
	}
	if (count > 0)
		node_set_ints(n, "scan_input_directions", reverse, count);
	drop_attr(n, "directions");
	node_set_int(n, "batched", 1);
	return true;
}

/* The axis became an operand, whose default is another one. */
static bool dft_17(Upgrade *u)
{
	set_in(u->n, 2,
	       located(u,
		       graph_const_scalar(u->g, DT_I64, (double)node_int(u->n, "axis", 1), u->n)));
	drop_attr(u->n, "axis");
	return true;
}

/* The modes were named after images. */
static bool grid_16(Upgrade *u)
{
	const char *mode = node_str(u->n, "mode", "bilinear");

	if (!strcmp(mode, "bilinear"))
		node_set_str(u->n, "mode", "linear");
	else if (!strcmp(mode, "bicubic"))
		node_set_str(u->n, "mode", "cubic");
	return true;
}

/* Coordinates were not shifted by half a pixel. */
static bool roi_align_10(Upgrade *u)
{
	node_set_str(u->n, "coordinate_transformation_mode", "output_half_pixel");
	return true;
}

/* The number of elements was an attribute. */
static bool topk_1(Upgrade *u)
{
	const int64_t k = node_int(u->n, "k", -1);

	if (k < 0)
		return complain(u, "attribute \"k\" is missing");
	node_set_input(u->n, 1, located(u, graph_const_ints(u->g, &k, 1, u->n)));
	drop_attr(u->n, "k");
	return true;
}

typedef struct UpgradeRule {
	const char *op;
	int until; /* the version of the new form: the rule applies to older nodes */
	bool (*apply)(Upgrade *u);
	const char *inputs; /* attributes that are operands of the new form: "axes, steps"; or null */
} UpgradeRule;

/* If an operator has several rules they apply in this order, which is that of the versions. */
static const UpgradeRule rules[] = {
	{"Add", 7, broadcast_axis, NULL},
	{"And", 7, broadcast_axis, NULL},
	{"BatchNormalization", 14, batch_norm, NULL},
	{"Cast", 6, cast, NULL},
	{"Clip", 11, clip, "min, max"},
	{"Concat", 4, concat_axis, NULL},
	{"DFT", 20, dft_17, NULL},
	{"Div", 7, broadcast_axis, NULL},
	{"Dropout", 12, dropout, "ratio"},
	{"Equal", 7, broadcast_axis, NULL},
	{"Gemm", 7, gemm, NULL},
	{"GlobalLpPool", 2, lp_order, NULL},
	{"Greater", 7, broadcast_axis, NULL},
	{"GRU", 7, no_output_sequence, NULL},
	{"GridSample", 20, grid_16, NULL},
	{"GroupNormalization", 21, group_norm, NULL},
	{"Hardmax", 13, softmax, NULL},
	{"Less", 7, broadcast_axis, NULL},
	{"LogSoftmax", 13, softmax, NULL},
	{"LSTM", 7, no_output_sequence, NULL},
	{"LpPool", 2, lp_order, NULL},
	{"MeanVarianceNormalization", 9, mean_variance, NULL},
	{"Mul", 7, broadcast_axis, NULL},
	{"Or", 7, broadcast_axis, NULL},
	{"PRelu", 7, prelu, NULL},
	{"Pad", 11, pad, "pads, value"},
	{"Pow", 7, broadcast_axis, NULL},
	{"RNN", 7, no_output_sequence, NULL},
	{"ReduceL1", 18, axes_input, "axes"},
	{"ReduceL2", 18, axes_input, "axes"},
	{"ReduceLogSum", 18, axes_input, "axes"},
	{"ReduceLogSumExp", 18, axes_input, "axes"},
	{"ReduceMax", 18, axes_input, "axes"},
	{"ReduceMean", 18, axes_input, "axes"},
	{"ReduceMin", 18, axes_input, "axes"},
	{"ReduceProd", 18, axes_input, "axes"},
	{"ReduceSum", 13, axes_input, "axes"},
	{"ReduceSumSquare", 18, axes_input, "axes"},
	{"Reshape", 5, reshape, "shape"},
	{"Resize", 11, resize_10, NULL},
	{"Resize", OPSET_MAX + 1, resize_empty, NULL},
	{"RoiAlign", 16, roi_align_10, NULL},
	{"Scan", 9, scan_8, NULL},
	{"Selu", 6, selu, NULL},
	{"Slice", 10, slice, "starts, ends, axes"},
	{"Softmax", 13, softmax, NULL},
	{"Split", 13, split, "split"},
	{"Split", 18, split_count, NULL},
	{"Squeeze", 13, axes_input, "axes"},
	{"Sub", 7, broadcast_axis, NULL},
	{"Tile", 6, tile, NULL},
	{"TopK", 10, topk_1, "k"},
	{"Unsqueeze", 13, unsqueeze, "axes"},
	{"Upsample", 7, upsample_1, NULL},
	{"Upsample", 9, upsample_7, "scales"},
	{"Upsample", OPSET_MAX + 1, resize_10, NULL},
	{"Xor", 7, broadcast_axis, NULL},
};

static const struct {
	const char *old, *now;
	int until; /* the version that ended the old name */
} renamed[] = {{"Scatter", "ScatterElements", 11}, {"Upsample", "Resize", 10}};

enum { NRULES = sizeof rules / sizeof *rules, NRENAMED = sizeof renamed / sizeof *renamed };

const char *upgrade_name(const char *op_type)
{
	for (int i = 0; i < NRENAMED; i++)
		if (!strcmp(renamed[i].old, op_type))
			return renamed[i].now;
	return op_type;
}

int upgrade_attrs_version(const char *op_type, int version)
{
	for (int i = 0; i < NRENAMED; i++)
		if (!strcmp(renamed[i].old, op_type) && version >= renamed[i].until)
			return renamed[i].until - 1;
	return version;
}

const char *upgrade_form(const char *name, int i, int *until)
{
	for (int k = 0; k < NRULES + NRENAMED; k++) {
		const char *old = k < NRULES ? rules[k].op : renamed[k - NRULES].old;

		*until = k < NRULES ? rules[k].until : 0;
		if (*until <= OPSET_MAX && !strcmp(upgrade_name(old), name) && !i--)
			return old;
	}
	return NULL;
}

/* Whether LIST, "axes, steps", has WORD. */
static bool list_has(const char *list, const char *word)
{
	const size_t n = strlen(word);

	for (const char *at = list; at && *at; at += strspn(at, ", ")) {
		const size_t m = strcspn(at, ",");

		if (m == n && !strncmp(at, word, n))
			return true;
		at += m;
	}
	return false;
}

int upgrade_input_since(const char *op_type, const char *attr)
{
	for (int i = 0; i < NRULES; i++)
		if (!strcmp(rules[i].op, op_type) && list_has(rules[i].inputs, attr))
			return rules[i].until;
	return 0;
}

bool upgrade_node(Node **n, const char *op_type, int version, Value **out)
{
	Upgrade u = {.g = (*n)->graph, .n = *n, .version = version, .out = out};
	bool ok = true;

	if (version < 6)
		drop_attr(*n, "consumed_inputs");
	for (int i = 0; i < NRULES && ok && u.n; i++)
		if (version < rules[i].until && !strcmp(rules[i].op, op_type))
			ok = rules[i].apply(&u);
	*n = u.n;
	return ok;
}
