/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise operators. Most need one line: their meaning at one point, over x, y, z and attribute
 * names. The expressions are accurate near 0 and for large |x|: they use expm1 and log1p where
 * adding 1 would round the small term away, and exp only of arguments <= 0, so that no intermediate
 * result overflows.
 */
#include "ops/infer/infer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- What all of them share ---- */

/* The shape to which N's operands from FROM onwards broadcast; -1 after a diagnostic. */
static int broadcast_all(Infer *in, Node *n, int from, Dim **dims)
{
	Dim *const *before =
		NULL; /* of the previous operands, for messages; at first those of the first one */
	int rank = 0;

	for (int i = from; i < n->nin && rank >= 0; i++) {
		const Type *t = infer_type(n, i);

		if (!t)
			continue;
		rank = infer_broadcast(in, n, before, rank, t->dims, t->rank, dims);
		before = before ? dims : t->dims;
	}
	return rank;
}

static bool same_types(Infer *in, Node *n, int from)
{
	for (int i = from + 1; i < n->nin; i++) {
		const Type *t = infer_type(n, i);

		if (t && t->dtype != infer_type(n, from)->dtype)
			return infer_error(in, n,
					   "operands have different element types: %s and %s",
					   dtype_info[infer_type(n, from)->dtype].name,
					   dtype_info[t->dtype].name);
	}
	return true;
}

bool infer_elementwise(Infer *in, Node *n)
{
	const Op *op = op_table[n->op];
	DType t = infer_type(n, 0)->dtype;
	Dim *dims[MAX_RANK];
	int rank;

	if (!infer_takes(in, n, op->types, t) || !same_types(in, n, 0))
		return false;
	rank = broadcast_all(in, n, 0, dims);
	if (rank < 0)
		return false;
	return infer_result(in, n, 0, op->result ? op->result : t, rank, dims);
}

static double attr_value(Node *n, const char *name, double otherwise)
{
	const Attr *a = node_attr(n, name);

	if (!a)
		return otherwise;
	return a->kind == ATTR_INT     ? (double)a->i
	       : a->kind == ATTR_FLOAT ? (double)a->f
				       : otherwise;
}

/* Binds each name of ATTRS, a list as in Op, that has a default to the node's value or that
 * default. As all of ONNX's float attributes these are f32: on f64 operands alpha is the f32
 * nearest to 0.01. */
static int bind_attrs(Kernel *k, Node *n, const char *attrs, CType t, ExprName *names, int count)
{
	OpAttr a;

	while (op_attr_next(&attrs, &a)) {
		double v;

		if (!a.value)
			continue;
		assert(count < 8);
		v = attr_value(n, a.name, (double)strtof(a.value, NULL));
		names[count++] = (ExprName){arena_strdup(k->arena, a.name), ex_num(k->pool, t, v)};
	}
	return count;
}

static Expr *parse_text(Kernel *k, Node *n, const Op *op, const char *text, CType t,
			Expr *const *args, int nargs)
{
	static const char *const letters[] = {"x", "y", "z"};
	ExprName names[8];
	const char *err = NULL;
	int count = 0;
	Expr *e;

	for (; count < nargs && count < 3; count++)
		names[count] = (ExprName){letters[count], args[count]};
	count = bind_attrs(k, n, op->attrs, t, names, count);
	e = ex_parse(k->pool, text, t, names, count, &err);
	if (!e) { /* a mistake in the table, which every run would report */
		fprintf(stderr,
			"operator %s, for %s: %s in \"%s\"; it may name the operands x, y, z and the attributes of .attrs\n",
			op_row[n->op].name, ctype_name[t], err, text);
		abort();
	}
	return e;
}

Expr *lower_scalar(Kernel *k, Node *n, const Op *op, CType t, Expr *const *args, int nargs)
{
	const char *text = op->scalar;
	Expr *acc;

	if (t == CT_BOOL && op->scalar_bool)
		text = op->scalar_bool;
	else if (!ctype_is_float(t) && t != CT_BOOL && op->scalar_int)
		text = op->scalar_int;
	if (!op->variadic)
		return parse_text(k, n, op, text, t, args, nargs);
	acc = args[0];
	for (int i = 1; i < nargs; i++)
		acc = parse_text(k, n, op, text, t, (Expr *[]){acc, args[i]}, 2);
	return acc;
}

/* Makes the result's iterators IT and the loads of all operands at that point. */
static Expr **load_all(Kernel *k, Node *n, Iter **it)
{
	Expr **args = NEW_ARRAY(k->arena, n->nin + 1, Expr *);
	Buf *out = lower_out(k, 0);

	kernel_iters_of(k, out, it);
	for (int i = 0; i < n->nin; i++)
		if (lower_in(k, i))
			args[i] = lower_load_broadcast(k, lower_in(k, i), it, out->rank);
	return args;
}

void lower_elementwise(Infer *in, Node *n, Kernel *k)
{
	Iter *it[MAX_RANK];
	Expr **args = load_all(k, n, it);
	CType t = dtype_ctype(infer_type(n, 0)->dtype);

	(void)in;
	kernel_map_id(k, it, lower_out(k, 0), lower_scalar(k, n, op_table[n->op], t, args, n->nin));
}

/* Lowers the node with TEXT instead of its operator's expression. */
static void lower_text(Node *n, Kernel *k, const char *text)
{
	Iter *it[MAX_RANK];
	Expr **args = load_all(k, n, it);
	CType t = dtype_ctype(infer_type(n, 0)->dtype);

	kernel_map_id(k, it, lower_out(k, 0),
		      parse_text(k, n, op_table[n->op], text, t, args, n->nin));
}

/* ---- The ops that are a line ---- */

#define UNARY_FLOAT(op, text) const Op op_##op = {.scalar = text, .types = "f"}
#define ELEMENTWISE(op, text, ty) const Op op_##op = {.scalar = text, .types = ty}
#define COMMUTATIVE(op, text, ty) \
	const Op op_##op = {.scalar = text, .types = ty, .commutative = true}
#define COMPARISON(op, text, ty) const Op op_##op = {.scalar = text, .types = ty, .result = DT_BOOL}

ELEMENTWISE(Abs, "abs(x)", "fiu");
UNARY_FLOAT(Acos, "acos(x)");
UNARY_FLOAT(Acosh, "acosh(x)");
UNARY_FLOAT(Asin, "asin(x)");
UNARY_FLOAT(Asinh, "asinh(x)");
UNARY_FLOAT(Atan, "atan(x)");
UNARY_FLOAT(Atanh, "atanh(x)");
UNARY_FLOAT(Ceil, "ceil(x)");
UNARY_FLOAT(Cos, "cos(x)");
UNARY_FLOAT(Cosh, "cosh(x)");
UNARY_FLOAT(Erf, "erf(x)");
UNARY_FLOAT(Exp, "exp(x)");
UNARY_FLOAT(Floor, "floor(x)");
UNARY_FLOAT(Log, "log(x)");
ELEMENTWISE(Neg, "neg(x)", "fi");
UNARY_FLOAT(Reciprocal, "div(1, x)");
UNARY_FLOAT(Round, "rint(x)");
UNARY_FLOAT(Sin, "sin(x)");
UNARY_FLOAT(Sinh, "sinh(x)");
UNARY_FLOAT(Sqrt, "sqrt(x)");
UNARY_FLOAT(Tan, "tan(x)");
UNARY_FLOAT(Tanh, "tanh(x)");
const Op op_Sign = {
	.scalar = "select(gt(x, 0), 1, select(lt(x, 0), sub(0, 1), x))",
	.types = "fiu",
};
ELEMENTWISE(Not, "not(x)", "b");
ELEMENTWISE(BitwiseNot, "not(x)", "iu");
COMPARISON(IsNaN, "isnan(x)", "f");
const Op op_IsInf = {
	.scalar =
		"or(and(eq(x, inf), ne(detect_positive, 0)), and(eq(x, neg(inf)), ne(detect_negative, 0)))",
	.attrs = "detect_positive: int = 1, detect_negative: int = 1",
	.types = "f",
	.result = DT_BOOL,
};

COMMUTATIVE(Add, "add(x, y)", "fiu");
ELEMENTWISE(Sub, "sub(x, y)", "fiu");
COMMUTATIVE(Mul, "mul(x, y)", "fiu");
ELEMENTWISE(Div, "div(x, y)", "fiu");
COMMUTATIVE(And, "and(x, y)", "b");
COMMUTATIVE(Or, "or(x, y)", "b");
COMMUTATIVE(Xor, "xor(x, y)", "b");
COMMUTATIVE(BitwiseAnd, "and(x, y)", "iu");
COMMUTATIVE(BitwiseOr, "or(x, y)", "iu");
COMMUTATIVE(BitwiseXor, "xor(x, y)", "iu");
const Op op_Equal = {
	.scalar = "eq(x, y)",
	.scalar_bool = "not(xor(x, y))",
	.types = "fiubs",
	.result = DT_BOOL,
	.commutative = true,
};
COMPARISON(Less, "lt(x, y)", "fiu");
COMPARISON(LessOrEqual, "le(x, y)", "fiu");
COMPARISON(Greater, "gt(x, y)", "fiu");
COMPARISON(GreaterOrEqual, "ge(x, y)", "fiu");
#define VARIADIC(op, text, ty)       \
	const Op op_##op = {         \
		.scalar = text,      \
		.types = ty,         \
		.variadic = true,    \
		.commutative = true, \
		.grouped = true,     \
	}
VARIADIC(Max, "max(x, y)", "fiu");
VARIADIC(Min, "min(x, y)", "fiu");
VARIADIC(Sum, "add(x, y)", "f");

ELEMENTWISE(Relu, "max(x, 0)", "fi");
const Op op_LeakyRelu = {
	.scalar = "select(lt(x, 0), mul(alpha, x), x)", .attrs = "alpha: float = 0.01", .types = "f"};
const Op op_ThresholdedRelu = {
	.scalar = "select(gt(x, alpha), x, 0)", .attrs = "alpha: float = 1", .types = "f"};
const Op op_Elu = {
	.scalar = "select(lt(x, 0), mul(alpha, expm1(x)), x)", .attrs = "alpha: float = 1", .types = "f"};
const Op op_Selu = {
	.scalar = "mul(gamma, select(gt(x, 0), x, mul(alpha, expm1(x))))",
	.attrs = "alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875",
	.types = "f",
};
const Op op_Celu = {
	.scalar = "add(max(x, 0), min(0, mul(alpha, expm1(div(x, alpha)))))",
	.attrs = "alpha: float = 1",
	.types = "f",
};
/* Others compute it as 0.5 plus a quotient. */
const Op op_Sigmoid = {.scalar = "sigmoid(x)", .types = "f", .unit = 1};
const Op op_HardSigmoid = {
	.scalar = "max(0, min(1, add(mul(alpha, x), beta)))",
	.attrs = "alpha: float = 0.2, beta: float = 0.5",
	.types = "f",
	.unit = 1,
};
/* Operators of the standard's first opsets, which files of that time still have. */
const Op op_Affine = {
	.scalar = "add(mul(alpha, x), beta)", .attrs = "alpha: float = 1, beta: float = 0", .types = "f"};
const Op op_Scale = {.scalar = "mul(scale, x)", .attrs = "scale: float = 1", .types = "f"};
const Op op_ScaledTanh = {
	.scalar = "mul(alpha, tanh(mul(beta, x)))", .types = "f",
	.attrs = "alpha: float = 1, beta: float = 1"};
/* ONNX defines HardSwish by HardSigmoid with an attribute, so its 1/6 is an f32. */
UNARY_FLOAT(HardSwish, "mul(x, max(0, min(1, add(mul(0.166666671633720397949, x), 0.5))))");
UNARY_FLOAT(Softplus, "add(max(x, 0), log1p(exp(neg(abs(x)))))");
const Op op_ParametricSoftplus = {
	.scalar = "mul(alpha, add(max(mul(beta, x), 0), log1p(exp(neg(abs(mul(beta, x)))))))",
	.attrs = "alpha: float = 1, beta: float = 1",
	.types = "f"};
UNARY_FLOAT(Softsign, "div(x, add(1, abs(x)))");
/* tanh(softplus(x)) is n / (n + 2), where n = e^x (e^x + 2). For x >= 0 both sides are divided
 * by e^2x. */
UNARY_FLOAT(Mish, "let e = exp(neg(abs(x)));"
		  "let n = select(lt(x, 0), mul(e, add(e, 2)), add(1, mul(2, e)));"
		  "mul(x, div(n, add(n, select(lt(x, 0), 2, mul(2, mul(e, e))))))");
const Op op_Swish = {
	.scalar = "mul(x, sigmoid(mul(alpha, x)))",
	.attrs = "alpha: float = 1",
	.types = "f",
};

/* Checks that attribute NAME (default USUALLY) is A or B. */
static bool infer_either(Infer *in, Node *n, const char *name, const char *usually, const char *a,
			 const char *b)
{
	const char *is = node_str(n, name, usually);

	if (strcmp(is, a) && strcmp(is, b))
		return infer_error(in, n, "%s is \"%s\", not \"%s\" or \"%s\"", name, is, a, b);
	return infer_elementwise(in, n);
}

/* ---- Gelu ---- */

static bool infer_gelu(Infer *in, Node *n)
{
	return infer_either(in, n, "approximate", "none", "none", "tanh");
}

/* (1 + tanh(u)) / 2 is the sigmoid of 2u, which has no cancellation for negative x. */
static void lower_gelu(Infer *in, Node *n, Kernel *k)
{
	if (!strcmp(node_str(n, "approximate", "none"), "none"))
		lower_elementwise(in, n, k);
	else
		lower_text(
			n, k,
			"let u = mul(1.5957691216057308, add(x, mul(0.044715, mul(x, mul(x, x)))));"
			"mul(x, sigmoid(u))");
}

const Op op_Gelu = {
	.scalar = "mul(mul(0.5, x), add(1, erf(mul(x, 0.7071067811865476))))",
	.types = "f",
	.infer = infer_gelu,
	.lower = lower_gelu,
	.attrs = "approximate: string",
};

/* ---- Mod, BitShift ---- */

static void lower_mod(Infer *in, Node *n, Kernel *k)
{
	(void)in;
	lower_text(n, k, node_int(n, "fmod", 0) ? "rem(x, y)" : "mod(x, y)");
}

const Op op_Mod = {
	.types = "fiu", .infer = infer_elementwise, .lower = lower_mod,
	.attrs = "fmod: int",
};

static bool infer_bitshift(Infer *in, Node *n)
{
	return infer_either(in, n, "direction", "", "LEFT", "RIGHT");
}

static void lower_bitshift(Infer *in, Node *n, Kernel *k)
{
	(void)in;
	lower_text(n, k, strcmp(node_str(n, "direction", ""), "LEFT") ? "shr(x, y)" : "shl(x, y)");
}

const Op op_BitShift = {
	.types = "iu", .infer = infer_bitshift, .lower = lower_bitshift,
	.attrs = "direction: string",
};

/* ---- Pow ---- */

static bool infer_pow(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0), *y = infer_type(n, 1);
	Dim *dims[MAX_RANK];
	int rank;

	if (!infer_takes(in, n, "fiu", x->dtype) || !infer_takes(in, n, "fiu", y->dtype))
		return false;
	rank = broadcast_all(in, n, 0, dims);
	if (rank < 0)
		return false;
	return infer_result(in, n, 0, x->dtype, rank, dims);
}

/* The exponent, if it is one that is common in models, which becomes a product; else 0. */
static int constant_power(Infer *in, Value *y)
{
	const Tensor *t = infer_const_tensor(in, y);
	double v;

	if (!t || tensor_numel(t) != 1)
		return 0;
	v = dtype_is_float(t->dtype) ? dtype_load_f64(t->dtype, t->data, 0)
				     : (double)dtype_load_i64(t->dtype, t->data, 0);
	return v >= 1 && v <= 3 && v == (int)v ? (int)v : 0;
}

static void lower_pow(Infer *in, Node *n, Kernel *k)
{
	Iter *it[MAX_RANK];
	Expr **a = load_all(k, n, it), *e = a[0];
	CType t = a[0]->ct, u = a[1]->ct;
	int power = constant_power(in, node_in(n, 1));

	if (power) {
		for (int i = 1; i < power; i++)
			e = ex_op2(k->pool, IN_mul, e, a[0]);
	} else if (ctype_is_float(t) || ctype_is_float(u)) {
		u = ctype_is_float(t) ? t : CT_F64;
		a[0] = ex_cvt(k->pool, u, a[0]);
		a[1] = ex_cvt(k->pool, u, a[1]);
		/* Rounds towards zero to an integer, but to the nearest one if the result is an
		 * integer up to rounding. */
		e = lower_scalar(
			k, n,
			&(Op){.scalar =
				      ctype_is_float(t)
					      ? "pow(x, y)"
					      : "let r = pow(x, y); let i = rint(r); select(le(abs(sub(r, i)), mul(0x1p-50, abs(r))), i, r)"},
			u, a, 2);
		e = ex_cvt(k->pool, t, e);
	} else {
		e = ex_op2(k->pool, IN_ipow, a[0], ex_cvt(k->pool, t, a[1]));
	}
	kernel_map_id(k, it, lower_out(k, 0), e);
}

const Op op_Pow = {.infer = infer_pow, .lower = lower_pow, .types = "fi"};

/* ---- Mean, Shrink ---- */

static void lower_mean(Infer *in, Node *n, Kernel *k)
{
	Iter *it[MAX_RANK];
	Expr **a = load_all(k, n, it), *e = a[0];

	(void)in;
	for (int i = 1; i < n->nin; i++)
		e = ex_op2(k->pool, IN_add, e, a[i]);
	e = ex_op2(k->pool, IN_div, e, ex_num(k->pool, e->ct, n->nin));
	kernel_map_id(k, it, lower_out(k, 0), e);
}

const Op op_Mean = {
	.types = "f", .commutative = true, .infer = infer_elementwise, .lower = lower_mean};

/* The attributes are floats, so integers are compared with them in floats, and biased in floats. */
static void lower_shrink(Infer *in, Node *n, Kernel *k)
{
	Iter *it[MAX_RANK];
	Expr *x = load_all(k, n, it)[0];
	CType t = ctype_is_float(x->ct) ? x->ct : CT_F64;
	Op op = {
		.scalar =
			"select(lt(x, neg(lambd)), add(x, bias), select(gt(x, lambd), sub(x, bias), 0))",
		.attrs = op_table[n->op]->attrs};

	(void)in;
	x = ex_cvt(k->pool, t, x);
	kernel_map_id(k, it, lower_out(k, 0), lower_scalar(k, n, &op, t, &x, 1));
}

const Op op_Shrink = {
	.types = "fiu", .infer = infer_elementwise, .lower = lower_shrink,
	.attrs = "bias: float = 0, lambd: float = 0.5",
};

/* ---- Where, Clip, PRelu ---- */

static bool infer_where(Infer *in, Node *n)
{
	Dim *dims[MAX_RANK];
	int rank;

	if (infer_type(n, 0)->dtype != DT_BOOL)
		return infer_error(in, n, "the condition is %s, not bool",
				   dtype_info[infer_type(n, 0)->dtype].name);
	if (!infer_takes(in, n, "fiubs", infer_type(n, 1)->dtype) || !same_types(in, n, 1))
		return false;
	rank = broadcast_all(in, n, 0, dims);
	if (rank < 0)
		return false;
	return infer_result(in, n, 0, infer_type(n, 1)->dtype, rank, dims);
}

static void lower_where(Infer *in, Node *n, Kernel *k)
{
	Iter *it[MAX_RANK];
	Expr **a = load_all(k, n, it);

	(void)in;
	kernel_map_id(k, it, lower_out(k, 0), ex_op3(k->pool, IN_select, a[0], a[1], a[2]));
}

const Op op_Where = {.infer = infer_where, .lower = lower_where};

/* The result has the shape of X; the other operands must broadcast to it. */
static bool infer_like_first(Infer *in, Node *n)
{
	const Op *op = op_table[n->op];
	const Type *x = infer_type(n, 0);
	Dim *dims[MAX_RANK];
	int rank;

	if (!infer_takes(in, n, op->types, x->dtype) || !same_types(in, n, 0))
		return false;
	rank = broadcast_all(in, n, 0, dims);
	if (rank < 0)
		return false;
	if (rank != x->rank)
		return infer_error(in, n, "an operand of rank %d does not broadcast to rank %d",
				   rank, x->rank);
	for (int i = 0; i < rank; i++)
		if (!infer_equal_shown(in, n, dims[i], x->dims[i],
				       "an operand does not broadcast to the first",
				       infer_dim_shown(in, n, &x->dims[i]),
				       (FactSize){"with all operands it is", dims[i]}))
			return false;
	return infer_result(in, n, 0, x->dtype, x->rank, x->dims);
}

/* The bound of a Clip of elements of T that is operand I of N: the number in it, where it is
 * constant, as to compare with a number, which is not NaN, takes fewer instructions. A bound that
 * is missing is the lowest or the largest finite number. Null: every integer is within it. */
static Expr *clip_bound(Kernel *k, const Node *n, int i, Expr *operand, DType t)
{
	const CType c = dtype_ctype(t);
	const Tensor *given = node_in(n, i) ? value_const(node_in(n, i)) : NULL;

	if (!ctype_is_float(c))
		return operand;
	if (!operand)
		return ex_float(k->pool, c, i == 1 ? -dtype_largest(t) : dtype_largest(t));
	return given && tensor_numel(given) == 1
		       ? ex_float(k->pool, c, dtype_load_f64(t, given->data, 0))
		       : operand;
}

static void lower_clip(Infer *in, Node *n, Kernel *k)
{
	Iter *it[MAX_RANK];
	Expr **a = load_all(k, n, it), *e = a[0];
	const DType t = lower_in(k, 0)->dtype;
	Expr *low = clip_bound(k, n, 1, lower_in(k, 1) ? a[1] : NULL, t);
	Expr *high = clip_bound(k, n, 2, lower_in(k, 2) ? a[2] : NULL, t);

	(void)in;
	if (low)
		e = ex_op2(k->pool, IN_max, e, low);
	if (high)
		e = ex_op2(k->pool, IN_min, e, high);
	kernel_map_id(k, it, lower_out(k, 0), e);
}

const Op op_Clip = {.types = "fiu", .infer = infer_like_first, .lower = lower_clip};
const Op op_PRelu = {
	.scalar = "select(lt(x, 0), mul(y, x), x)", .types = "fiu", .infer = infer_like_first};

/* ---- Identity, Dropout ---- */

static bool infer_identity(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);

	if (x->kind != TYPE_TENSOR) {
		n->out[0]->type = x;
		return true;
	}
	if (!infer_takes(in, n, "fiubs", x->dtype))
		return false;
	return infer_result(in, n, 0, x->dtype, x->rank, x->dims);
}

static void lower_identity(Infer *in, Node *n, Kernel *k)
{
	Iter *it[MAX_RANK];

	(void)in;
	kernel_map_id(k, it, lower_out(k, 0), load_all(k, n, it)[0]);
}

const Op op_Identity = {
	.infer = infer_identity,
	.lower = lower_identity,
	.within = true,
	.compound = true,
	.types = "fiubs",
};

/* Whether Dropout copies its operand for sure: outside of training, or if the ratio is 0. */
static bool drops_nothing(Infer *in, Node *n)
{
	Value *ratio = node_in(n, 1), *mode = node_in(n, 2);
	int count;
	const int64_t *training = mode ? infer_const_ints(in, mode, &count) : NULL;
	const double *r = ratio ? infer_const_floats(in, ratio, &count) : NULL;

	return !mode || (training && !training[0]) || (r && r[0] == 0);
}

/* In training, an element is retained with the probability 1 - ratio, and divided by it. */
static bool expand_dropout(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0);
	DType real = dtype_is_float(x->dtype) ? ctype_dtype(dtype_ctype(x->dtype)) : DT_NONE;
	Value *v, *ratio, *keep = expand_scalar(in, n, DT_BOOL, 1), *one, *share;

	if (!infer_takes(in, n, "f", x->dtype))
		return false;
	if (drops_nothing(in, n)) {
		out[0] = EXPAND(in, n, Identity, node_in(n, 0));
		out[1] = EXPAND(in, n, Expand, keep, expand_sizes(in, n, x->dims, x->rank));
		return true;
	}
	one = expand_scalar(in, n, real, 1);
	ratio = node_in(n, 1) ? expand_cast(in, n, node_in(n, 1), real)
			      : expand_scalar(in, n, real, 0.5);
	ratio = EXPAND(in, n, Where, node_in(n, 2), ratio, expand_scalar(in, n, real, 0));
	v = random_numbers(in, n, real, x->rank, x->dims, false);
	keep = EXPAND(in, n, GreaterOrEqual, v, ratio);
	share = EXPAND(in, n, Sub, one, ratio);
	v = EXPAND(in, n, Div, expand_cast(in, n, node_in(n, 0), real), share);
	v = EXPAND(in, n, Where, keep, v, expand_scalar(in, n, real, 0));
	out[0] = expand_cast(in, n, v, x->dtype);
	out[1] = keep;
	return true;
}

const Op op_Dropout = {.expand = expand_dropout, .types = "f", .attrs = "seed: int since 12"};
