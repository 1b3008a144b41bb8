/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signal processing, as composites: windows, MelWeightMatrix, DFT, STFT. Values that do not depend
 * on the signal are computed in f64, and are constants if the sizes are.
 *
 * A transform of a few points is a matrix product with a table of cosines and sines. Each entry is
 * looked up in the N values of one period, at (time * frequency) mod N, which is exact for every
 * size. Longer transforms are composed of several products (ops/onnx/fourier.c).
 */
#include "ops/onnx/fourier.h"
#include "ops/onnx/shape.h"

#define PI 3.141592653589793

/* ---- What all of them share ---- */

static Value *number(Infer *in, Node *n, double v)
{
	return expand_scalar(in, n, DT_F64, v);
}

static Value *whole(Infer *in, Node *n, int64_t v)
{
	return expand_scalar(in, n, DT_I64, (double)v);
}

/* The numbers from 0 to COUNT - 1, as f64. */
static Value *counted(Infer *in, Node *n, Dim *count)
{
	return expand_cast(in, n, expand_range(in, n, count), DT_F64);
}

/* The type that attribute output_datatype names; DT_NONE after a diagnostic. */
static DType output_type(Infer *in, Node *n)
{
	int64_t code = node_int(n, "output_datatype", 1);
	DType t = code > 0 && code < 1000 ? dtype_by_onnx((int)code) : DT_NONE;

	if (!dtype_is_float(t) && !dtype_is_int(t)) {
		infer_error(in, n, "attribute \"output_datatype\" is %lld, which is not a type of numbers",
			    (long long)code);
		return DT_NONE;
	}
	return t;
}

/* Operand K as a size of at least LEAST; null after a diagnostic. */
static Dim *size_operand(Infer *in, Node *n, int k, int64_t least)
{
	Dim *d = infer_single(in, n, k);

	if (!d || !infer_le(in, n, dim_const(infer_ctx(in), least), d, "a size is too small"))
		return NULL;
	return d;
}

/* ---- Windows ---- */

/* a + b cos(2 pi i / size) + c cos(4 pi i / size); with periodic = 0, SIZE is one less. */
static bool window(Infer *in, Node *n, double a, double b, double c, Value **out)
{
	DType t = output_type(in, n);
	Dim *size = size_operand(in, n, 0, 0);
	Ctx *x = infer_ctx(in);
	Value *turn, *v, *w;

	if (!size || t == DT_NONE)
		return false;
	turn = expand_cast(
		in, n,
		expand_size(in, n,
			    node_int(n, "periodic", 1) ? size : dim_sub(x, size, dim_const(x, 1))),
		DT_F64);
	turn = EXPAND(in, n, Div, EXPAND(in, n, Mul, counted(in, n, size), number(in, n, 2 * PI)),
		      turn);
	v = EXPAND(in, n, Mul, EXPAND(in, n, Cos, turn), number(in, n, b));
	if (c != 0) {
		w = EXPAND(in, n, Cos, EXPAND(in, n, Mul, turn, number(in, n, 2)));
		v = EXPAND(in, n, Add, v, EXPAND(in, n, Mul, w, number(in, n, c)));
	}
	v = EXPAND(in, n, Add, v, number(in, n, a));
	out[0] = expand_cast(in, n, v, t);
	return true;
}

static bool expand_hann(Infer *in, Node *n, Value **out)
{
	return window(in, n, 0.5, -0.5, 0, out);
}

static bool expand_hamming(Infer *in, Node *n, Value **out)
{
	return window(in, n, 25.0 / 46.0, -21.0 / 46.0, 0, out);
}

static bool expand_blackman(Infer *in, Node *n, Value **out)
{
	return window(in, n, 0.42, -0.5, 0.08, out);
}

const Op op_HannWindow = {
	.expand = expand_hann, .types = "i",
	.attrs = "output_datatype: int, periodic: int",
};
const Op op_HammingWindow = {
	.expand = expand_hamming, .types = "i",
	.attrs = "output_datatype: int, periodic: int",
};
const Op op_BlackmanWindow = {
	.expand = expand_blackman, .types = "i",
	.attrs = "output_datatype: int, periodic: int",
};

/* ---- MelWeightMatrix ---- */

enum { MEL_BINS, DFT_LENGTH, SAMPLE_RATE, LOWER_EDGE, UPPER_EDGE };

#define MEL_FACTOR (2595 / 2.302585092994046) /* of the natural logarithm */

/* Operand K as a scalar of f64. */
static Value *scalar_operand(Infer *in, Node *n, int k)
{
	return expand_cast(in, n, expand_reshape(in, n, node_in(n, k), NULL, 0), DT_F64);
}

static Value *mel_of_hertz(Infer *in, Node *n, int k)
{
	Value *v = EXPAND(in, n, Div, scalar_operand(in, n, k), number(in, n, 700));

	v = EXPAND(in, n, Log, EXPAND(in, n, Add, v, number(in, n, 1)));
	return EXPAND(in, n, Mul, v, number(in, n, MEL_FACTOR));
}

/* The spectrum's bins at the edges of the COUNT bands, which overlap: COUNT + 2 of them, as whole
 * numbers in f64. */
static Value *mel_edges(Infer *in, Node *n, Dim *count)
{
	Ctx *c = infer_ctx(in);
	Dim *edges = dim_add(c, count, dim_const(c, 2));
	Value *low = mel_of_hertz(in, n, LOWER_EDGE), *high = mel_of_hertz(in, n, UPPER_EDGE), *v,
	      *length;

	v = expand_cast(in, n, expand_size(in, n, edges), DT_F64);
	v = EXPAND(in, n, Div, EXPAND(in, n, Sub, high, low), v);
	v = EXPAND(in, n, Add, EXPAND(in, n, Mul, counted(in, n, edges), v), low);
	v = EXPAND(in, n, Exp, EXPAND(in, n, Div, v, number(in, n, MEL_FACTOR)));
	v = EXPAND(in, n, Mul, EXPAND(in, n, Sub, v, number(in, n, 1)), number(in, n, 700));
	length = EXPAND(in, n, Add, scalar_operand(in, n, DFT_LENGTH), number(in, n, 1));
	v = EXPAND(in, n, Div, EXPAND(in, n, Mul, length, v), scalar_operand(in, n, SAMPLE_RATE));
	return EXPAND(in, n, Floor, v);
}

/* Each band is a triangle: it rises from its first edge to the second, where it is 1, and falls to
 * the third. */
static bool expand_mel(Infer *in, Node *n, Value **out)
{
	DType t = output_type(in, n);
	Dim *bands = size_operand(in, n, MEL_BINS, 0), *length = size_operand(in, n, DFT_LENGTH, 0);
	Value *edge, *at[3], *bin, *zero = number(in, n, 0), *one = number(in, n, 1), *rise, *up,
				   *down, *in_up, *in_down;
	Ctx *c = infer_ctx(in);
	Dim *bins;

	if (!bands || !length || t == DT_NONE)
		return false;
	edge = mel_edges(in, n, bands);
	for (int i = 0; i < 3; i++)
		at[i] = EXPAND(in, n, Gather, edge,
			       EXPAND(in, n, Add, expand_range(in, n, bands), whole(in, n, i)));
	bins = dim_add(c, dim_floordiv(c, length, dim_const(c, 2)), dim_const(c, 1));
	bin = expand_unsqueeze(in, n, counted(in, n, bins), 1);
	rise = EXPAND(in, n, Sub, at[1], at[0]);
	up = EXPAND(in, n, Div, EXPAND(in, n, Sub, bin, at[0]), rise);
	up = EXPAND(in, n, Where, EXPAND(in, n, Equal, rise, zero), one, up);
	in_up = EXPAND(in, n, And, EXPAND(in, n, GreaterOrEqual, bin, at[0]),
		       EXPAND(in, n, LessOrEqual, bin, at[1]));
	down = EXPAND(in, n, Div, EXPAND(in, n, Sub, at[2], bin), EXPAND(in, n, Sub, at[2], at[1]));
	in_down = EXPAND(in, n, And, EXPAND(in, n, GreaterOrEqual, bin, at[1]),
			 EXPAND(in, n, Less, bin, at[2]));
	up = EXPAND(in, n, Where, in_down, down, EXPAND(in, n, Where, in_up, up, zero));
	out[0] = expand_cast(in, n, up, t);
	return true;
}

const Op op_MelWeightMatrix = {.expand = expand_mel, .types = "i", .attrs = "output_datatype: int"};

/* ---- DFT ---- */

/* The axis of a transform. If only run time knows which one it is, its size and the numbers of
 * elements before and after it depend on that. */
typedef struct SignalAxis {
	Dim *at;
	Dim *before, *size, *after;
	Dim *rows; /* before * after */
	int rank;
	Dim *dims[MAX_RANK]; /* of the result */
} SignalAxis;

/* cos or sin of 2 pi i / N at i = (a * b) mod N, for a < A and b < B: [A, B], in f64. */
static Value *waves(Infer *in, Node *n, OpKind op, Dim *length, Dim *a, Dim *b)
{
	Value *size = expand_size(in, n, length), *turn, *at;

	turn = EXPAND(in, n, Mul, counted(in, n, length), number(in, n, 2 * PI));
	turn = EXPAND(in, n, Div, turn, expand_cast(in, n, size, DT_F64));
	turn = expand_node(in, n, op, &turn, 1);
	at = EXPAND(in, n, Mul, expand_unsqueeze(in, n, expand_range(in, n, a), 1),
		    expand_range(in, n, b));
	return EXPAND(in, n, Gather, turn, EXPAND(in, n, Mod, at, size));
}

static Value *stacked(Infer *in, Node *n, Value *a, Value *b, int64_t axis)
{
	a = expand_unsqueeze(in, n, a, axis);
	b = expand_unsqueeze(in, n, b, axis);
	return expand_node_ints(in, n, OP_Concat, (Value *[]){a, b}, 2, "axis", axis);
}

/* The matrix from (term, part) to (result, part); the inverse of a onesided spectrum has only real
 * results. */
static Value *transform_table(Infer *in, Node *n, const Fourier *t)
{
	Value *c = waves(in, n, OP_Cos, t->length, t->terms, t->results),
	      *s = waves(in, n, OP_Sin, t->length, t->terms, t->results), *minus, *v, *w, *k;
	Ctx *x = infer_ctx(in);
	Dim *d[2], *two = dim_const(x, 2);
	bool real = t->inverse && t->onesided;

	if (t->inverse) { /* the same with e^+i.., over N */
		v = expand_cast(in, n, expand_size(in, n, t->length), DT_F64);
		c = EXPAND(in, n, Div, c, v);
		s = EXPAND(in, n, Neg, EXPAND(in, n, Div, s, v));
	}
	if (real) { /* entries that the spectrum lacks are conjugates of others, which count twice */
		k = expand_range(in, n, t->terms);
		w = EXPAND(in, n, Equal, EXPAND(in, n, Mul, k, whole(in, n, 2)),
			   expand_size(in, n, t->length));
		w = EXPAND(in, n, Or, w, EXPAND(in, n, Equal, k, whole(in, n, 0)));
		w = expand_unsqueeze(
			in, n, EXPAND(in, n, Where, w, number(in, n, 1), number(in, n, 2)), 1);
		c = EXPAND(in, n, Mul, c, w);
		s = EXPAND(in, n, Mul, s, w);
	}
	minus = EXPAND(in, n, Neg, s);
	v = real ? c : stacked(in, n, c, minus, 2);
	if (t->parts == 2)
		v = stacked(in, n, v, real ? s : stacked(in, n, s, c, 2), 1);
	d[0] = dim_mul(x, t->terms, dim_const(x, t->parts));
	d[1] = real ? t->results : dim_mul(x, t->results, two);
	return expand_cast(in, n, expand_reshape(in, n, v, d, 2), t->real);
}

/*
 * Transforms V along the axis at *AXIS, whose dims are taken together: [before, axis, after, parts]
 * becomes [before, after, axis * parts] for the product. The last dim holds the parts of a number.
 * DIMS are those of the result.
 */
static Value *transformed(Infer *in, Node *n, Value *v, const SignalAxis *a, const Fourier *t)
{
	static const int64_t perm[] = {0, 2, 1, 3};
	Ctx *c = infer_ctx(in);
	Dim *parts = dim_const(c, t->parts), *d[4] = {a->before, a->size, a->after, parts};

	v = expand_reshape(in, n, expand_cast(in, n, v, t->real), d, 4);
	if (t->terms != a->size)
		v = expand_part(in, n, v, 1, dim_const(c, 0), t->terms);
	v = expand_transpose(in, n, v, perm, 4);
	d[0] = a->rows;
	if (fourier_is_direct(in, t)) {
		d[1] = dim_mul(c, t->terms, parts);
		v = expand_reshape(in, n, v, d, 2);
		v = EXPAND(in, n, MatMul, v, transform_table(in, n, t));
	} else {
		d[1] = t->terms;
		d[2] = parts;
		v = fourier(in, n, expand_reshape(in, n, v, d, 3), d[0], t);
	}
	d[0] = a->before;
	d[1] = a->after;
	d[2] = t->results;
	d[3] = a->dims[a->rank - 1];
	v = expand_transpose(in, n, expand_reshape(in, n, v, d, 4), perm, 4);
	return expand_reshape(in, n, v, a->dims, a->rank);
}

/* Checks a signal, whose last dim holds 1 or 2 parts; *T gets them and the type to compute in. */
static bool signal_operand(Infer *in, Node *n, Fourier *t)
{
	const Type *x = infer_type(n, 0);

	if (x->rank < 2)
		return infer_error(in, n, "the operand has rank %d, less than 2", x->rank);
	if (!dim_is_const(x->dims[x->rank - 1], &t->parts) || t->parts < 1 || t->parts > 2)
		return infer_error(in, n, "the last dim must be the number 1 or 2");
	t->real = ctype_dtype(dtype_ctype(x->dtype));
	return true;
}

/* The product of the dims other than that at AT and the last one. It is computed for each choice of
 * AT, so that its bounds have no more factors than there are dims. */
static Dim *rows_beside(Ctx *c, Dim *at, Dim *const *dims, int rank)
{
	Dim *rows = NULL;

	for (int i = rank - 2; i >= 0; i--) {
		Dim *others = dim_mul(c, dims_product(c, dims, i),
				      dims_product(c, dims + i + 1, rank - 2 - i));

		rows = rows ? dim_select(c, dim_eq(c, at, dim_const(c, i)), others, rows) : others;
	}
	return rows;
}

/* Reads the axis of DIMS. The last dim, of parts, cannot be it. */
static bool axis_init(Infer *in, Node *n, Value *operand, Dim *const *dims, int rank, SignalAxis *a)
{
	Ctx *c = infer_ctx(in);
	Dim *one = dim_const(c, 1), *zero = dim_const(c, 0), *count = dim_const(c, rank), *given;
	int which;

	given = operand ? infer_single(in, n, 2) : dim_const(c, -2);
	if (!given)
		return false;
	if (dim_is_const(given, NULL)) {
		int64_t v;

		dim_is_const(given, &v);
		if (!infer_axis(in, n, v, rank, &which))
			return false;
		given = dim_const(c, which);
	}
	a->at = dim_add(c, given, dim_mul(c, count, dim_le(c, given, dim_const(c, -1))));
	if (!infer_le(in, n, zero, a->at, "the axis is out of range") ||
	    !infer_le(in, n, a->at, dim_const(c, rank - 2), "the axis is that of a number's parts"))
		return false;
	a->rank = rank;
	a->size = a->before = a->after = a->rows = one;
	for (int i = rank - 2; i >= 0; i--) {
		Dim *here = dim_eq(c, a->at, dim_const(c, i));

		a->size = i == rank - 2 ? dims[i] : dim_select(c, here, dims[i], a->size);
		a->before = dim_mul(c, a->before,
				    dim_select(c, dim_le(c, a->at, dim_const(c, i)), one, dims[i]));
		a->after = dim_mul(c, a->after,
				   dim_select(c, dim_le(c, dim_const(c, i), a->at), one, dims[i]));
	}
	a->rows = dim_mul(c, a->before, a->after);
	if (!dim_is_const(a->at, NULL)) {
		a->size = dim_symbol(c, a->size, "size");
		a->rows = dim_symbol(c, rows_beside(c, a->at, dims, rank), "rows");
	}
	return true;
}

/* Sets the dims of the result of T, for an operand of DIMS. */
static void axis_results(Ctx *c, SignalAxis *a, Dim *const *dims, const Fourier *t)
{
	for (int i = 0; i < a->rank - 1; i++)
		a->dims[i] = dim_select(c, dim_eq(c, a->at, dim_const(c, i)), t->results, dims[i]);
	a->dims[a->rank - 1] = dim_const(c, t->inverse && t->onesided ? 1 : 2);
}

static bool expand_dft(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0);
	Fourier t = {.inverse = node_int(n, "inverse", 0) != 0,
		     .onesided = node_int(n, "onesided", 0) != 0};
	Ctx *c = infer_ctx(in);
	Dim *one = dim_const(c, 1), *two = dim_const(c, 2), *half;
	SignalAxis a;

	if (!signal_operand(in, n, &t) || !axis_init(in, n, node_in(n, 2), x->dims, x->rank, &a))
		return false;
	t.length = a.size;
	if (t.inverse && t.onesided)
		t.length = dim_mul(c, two, dim_sub(c, a.size, one));
	if (node_in(n, 1) && !(t.length = infer_single(in, n, 1)))
		return false;
	if (!fourier_check(in, n, &t))
		return false;
	half = dim_add(c, dim_floordiv(c, t.length, two), one);
	t.results = t.onesided && !t.inverse ? half : t.length;
	t.terms = dim_min(c, a.size, t.onesided && t.inverse ? half : t.length);
	axis_results(c, &a, x->dims, &t);
	return expand_result(in, n, 0, transformed(in, n, node_in(n, 0), &a, &t), &out[0]);
}

const Op op_DFT = {
	.types = "f",
	.expand = expand_dft,
	.doc = "the last dim must be a constant; at most 2^31 - 1 points, and 2^25 if their number is known only at run time",
	.attrs = "inverse: int, onesided: int",
};

/* ---- STFT ---- */

/* [batch, frame, time, parts]: FRAMES pieces of SIZE elements, STEP apart. */
static Value *frames(Infer *in, Node *n, Dim *count, Dim *size, Dim *step)
{
	Value *at = EXPAND(in, n, Mul, expand_range(in, n, count), expand_size(in, n, step));

	at = EXPAND(in, n, Add, expand_unsqueeze(in, n, at, 1), expand_range(in, n, size));
	return expand_node_ints(in, n, OP_Gather, (Value *[]){node_in(n, 0), at}, 2, "axis", 1);
}

/* A signal [batch, length] is taken as [batch, length, 1], as ONNX Runtime does. */
static void signal_with_parts(Infer *in, Node *n)
{
	if (infer_type(n, 0)->rank == 2)
		node_set_input(n, 0, expand_unsqueeze(in, n, node_in(n, 0), 2));
}

static bool expand_stft(Infer *in, Node *n, Value **out)
{
	const Type *x, *w = infer_type(n, 2);
	Fourier t = {.onesided = node_int(n, "onesided", 1) != 0};
	Ctx *c = infer_ctx(in);
	Dim *one = dim_const(c, 1), *step, *count, *dims[4];
	Value *v, *by;
	SignalAxis a;

	signal_with_parts(in, n);
	x = infer_type(n, 0);
	if (!signal_operand(in, n, &t))
		return false;
	if (x->rank != 3 || (w && w->rank != 1))
		return infer_error(in, n,
				   "the signal has rank %d and the window %d; expected 3 and 1",
				   x->rank, w ? w->rank : 1);
	t.length = w ? w->dims[0] : x->dims[1];
	if (node_in(n, 3) && !(t.length = infer_single(in, n, 3)))
		return false;
	if (w && !infer_dim_equals(in, n, &w->dims[0], t.length, "window and frame_length differ"))
		return false;
	step = infer_single(in, n, 1);
	if (!step || !fourier_check(in, n, &t) ||
	    !infer_le(in, n, one, step, "frame_step is less than 1") ||
	    !infer_le(in, n, t.length, x->dims[1], "a frame is longer than the signal"))
		return false;
	count = dim_add(c, dim_floordiv(c, dim_sub(c, x->dims[1], t.length), step), one);
	v = frames(in, n, count, t.length, step);
	if (w) {
		by = expand_unsqueeze(in, n, node_in(n, 2), 1);
		v = EXPAND(in, n, Mul, v, by);
	}
	t.terms = t.length;
	t.results = t.length;
	if (t.onesided)
		t.results = dim_add(c, dim_floordiv(c, t.length, dim_const(c, 2)), one);
	for (int i = 0; i < 4; i++)
		dims[i] = v->type->dims[i];
	if (!axis_init(in, n, NULL, dims, 4, &a))
		return false;
	axis_results(c, &a, dims, &t);
	return expand_result(in, n, 0, transformed(in, n, v, &a, &t), &out[0]);
}

const Op op_STFT = {
	.types = "f",
	.expand = expand_stft,
	.doc = "the last of three dims must be a constant; at most 2^31 - 1 points, and 2^25 if their number is known only at run time",
	.attrs = "onesided: int",
};
