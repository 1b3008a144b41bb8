/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast Fourier transform of N = r0 r1 .. points, in stages that are matrix products (Stockham's
 * form of Cooley and Tukey's algorithm, which needs no reordering at the end).
 * With K = r0 .. r(i-1), the product of the radices before stage i, and M = N / (K ri), the state
 * before that stage is x[n][m][K], complex, and the stage computes
 *
 *     y[m][k][K]  =  sum over n < ri of  W^(k (n M + m) K)  x[n][m][K]      W = e^(-2 pi i / N)
 *
 * which is for each m a product of a matrix of 2 ri by 2 ri real numbers and K columns. The state
 * after it has the columns [k][K]. The first stage has no columns: there a matrix that is the same
 * for all m is on the right, and a multiplication by W^(k m) follows.
 *
 * A length with a large prime factor is transformed by Bluestein's algorithm ("A linear filtering
 * approach to the computation of discrete Fourier transform", 1970): n k = (n^2 + k^2 - (k - n)^2)
 * / 2 makes the transform a convolution with a chirp e^(pi i n^2 / N), and that is computed by
 * transforms of a length L >= 2 N - 1 with small factors. If N is known only at run time, L is N if
 * N is a power of two, and otherwise the least power of two that is at least 2 N - 1.
 *
 * All cosines and sines are computed in f64 at exact integers modulo the period. Values that do not
 * depend on the signal are constants if N is constant.
 */
#include "ops/onnx/fourier.h"

#include "ops/infer/control.h"

#include <math.h>

#define PI 3.141592653589793

enum {
	MAX_STAGES = 12,
	MOST_RADIX = 128,
	/* the cost of a pass over the points besides its arithmetic, in multiply-adds for each:
	 * measured with AVX-512, 0.35 ns beside 73 multiply-adds in a nanosecond */
	PASS = 24,
	MOST_BITS = 32 /* of the length of stages */
};

/* The radices for a length that is known only at run time. */
static const int stage_bits[] = {6, 5, 5, 5, 5, 6};

typedef struct Stages {
	int n;
	Dim *radix[MAX_STAGES], *length;
	Dim *rest[MAX_STAGES]; /* the product of the radices after each */
	/* a multiple of 4 points, STEP to each of LENGTH, at which cosines are computed */
	Dim *wave, *quarter;
	int64_t step;
} Stages;

/* ---- Which stages ---- */

/* The divisor of N, up to MOST_RADIX, that is nearest to WANT in proportion. */
static int64_t divisor_near(int64_t n, double want)
{
	int64_t best = 1;

	for (int64_t d = 2; d <= MOST_RADIX && d <= n; d++)
		if (n % d == 0 && fabs(log((double)d / want)) < fabs(log((double)best / want)))
			best = d;
	return best;
}

/* Divides N into STAGES radices, the largest first. Returns the multiply-adds for a point, of
 * which the first stage has half as many if the operand is real. */
static double divided(int64_t n, int stages, int64_t *radix, int64_t parts)
{
	double cost = 0;

	for (int s = 0; s < stages; s++) {
		int64_t r = s == stages - 1 ? n
					    : divisor_near(n, pow((double)n, 1.0 / (stages - s)));
		int at = s;

		for (; at > 0 && radix[at - 1] < r; at--)
			radix[at] = radix[at - 1];
		radix[at] = r;
		n /= r;
	}
	for (int s = 0; s < stages; s++)
		cost += (double)(2 * radix[s] * (s ? 2 : parts) + PASS);
	return cost;
}

/* The cheapest stages for N points; returns their number, and in *COST the multiply-adds. */
static int cheapest(int64_t n, int64_t parts, int64_t *radix, double *cost)
{
	int64_t tried[MAX_STAGES];
	int best = 0;

	*cost = INFINITY;
	for (int s = 1; s <= MAX_STAGES; s++) {
		double c = (double)n * divided(n, s, tried, parts);

		if (c >= *cost)
			continue;
		*cost = c;
		best = s;
		memcpy(radix, tried, (size_t)s * sizeof *radix);
	}
	return best;
}

/* The length of at least LEAST, a product of 2, 3 and 5, that is transformed fastest. */
static int64_t smooth_length(int64_t least, double *cost)
{
	int64_t radix[MAX_STAGES], best = 0;

	*cost = INFINITY;
	for (int64_t five = 1; five < 2 * least; five *= 5)
		for (int64_t odd = five; odd < 2 * least; odd *= 3) {
			int64_t n = odd;
			double c;

			while (n < least)
				n *= 2;
			cheapest(n, 2, radix, &c);
			if (c < *cost) {
				*cost = c;
				best = n;
			}
		}
	return best;
}

static void stages_finish(Ctx *c, Stages *s)
{
	s->length = dim_const(c, 1);
	for (int i = s->n - 1; i >= 0; i--) {
		s->rest[i] = s->length;
		s->length = dim_mul(c, s->length, s->radix[i]);
	}
	s->step = 1;
	while (!dim_multiple(c, dim_mul(c, s->length, dim_const(c, s->step)), 4))
		s->step *= 2;
	s->wave = dim_mul(c, s->length, dim_const(c, s->step));
	s->quarter = dim_floordiv(c, s->wave, dim_const(c, 4));
}

static void stages_of(Ctx *c, int64_t n, int64_t parts, Stages *s)
{
	int64_t radix[MAX_STAGES];
	double cost;

	s->n = cheapest(n, parts, radix, &cost);
	for (int i = 0; i < s->n; i++)
		s->radix[i] = dim_const(c, radix[i]);
	stages_finish(c, s);
}

/* 2^min(max(B - FROM, 0), COUNT), for the B with 2^(B-1) < D <= 2^B. */
static Dim *power_of(Ctx *c, Dim *d, int from, int count)
{
	Dim *v = dim_const(c, 1);

	for (int b = 0; b < count; b++)
		v = dim_add(c, v,
			    dim_mul(c, dim_const(c, (int64_t)1 << b),
				    dim_le(c, dim_const(c, ((int64_t)1 << (from + b)) + 1), d)));
	return v;
}

/* The least power of two that is at least D, and at least 4. */
static Dim *power_from(Ctx *c, Dim *d)
{
	Dim *v = dim_const(c, 4);

	for (int at = 2; at < MOST_BITS; at += MOST_BITS / 4)
		v = dim_mul(c, v, dim_symbol(c, power_of(c, d, at, MOST_BITS / 4), "power"));
	return dim_symbol(c, v, "power");
}

/* The number of bits that D may have. */
static int most_bits(Ctx *c, Dim *d)
{
	int64_t lo, hi;
	int bits = 0;

	dim_bounds(c, d, &lo, &hi);
	while (bits < MOST_BITS && (int64_t)1 << bits < hi)
		bits++;
	return bits;
}

/* Stages for the least power of two that is at least D, and at least 4. */
static void stages_to(Ctx *c, Dim *d, Stages *s)
{
	const int bits = most_bits(c, d);
	int at = stage_bits[0];

	s->radix[0] = dim_mul(c, dim_const(c, 4),
			      dim_symbol(c, power_of(c, d, 2, at - 2), "radix"));
	for (s->n = 1; at < bits; at += stage_bits[s->n++])
		s->radix[s->n] = dim_symbol(c, power_of(c, d, at, stage_bits[s->n]), "radix");
	stages_finish(c, s);
}

/* ---- Values that do not depend on the signal ---- */

/* 0, 1 .. COUNT - 1 along axis AXIS of RANK. */
static Value *counter(Infer *in, Node *n, Dim *count, int axis, int rank)
{
	Dim *d[MAX_RANK];

	for (int i = 0; i < rank; i++)
		d[i] = i == axis ? count : dim_const(in->ctx, 1);
	return expand_reshape(in, n, expand_range(in, n, count), d, rank);
}

static Value *times(Infer *in, Node *n, Value *v, Dim *d)
{
	return dim_equals(d, 1) ? v : EXPAND(in, n, Mul, v, expand_size(in, n, d));
}

/* The cosine or sine of 2 pi J / S->wave, of the integers J, in f64. */
static Value *turned(Infer *in, Node *n, const Stages *s, OpKind op, Value *j)
{
	Value *v = EXPAND(in, n, Mul, expand_cast(in, n, j, DT_F64),
			  expand_scalar(in, n, DT_F64, 2 * PI));

	v = EXPAND(in, n, Div, v, expand_cast(in, n, expand_size(in, n, s->wave), DT_F64));
	return expand_node(in, n, op, &v, 1);
}

/* A period of the cosine, by cos(a + b) = cos(a) cos(b) - sin(a) sin(b) from few cosines. */
static Value *wave(Infer *in, Node *n, const Stages *s, DType real)
{
	Ctx *c = in->ctx;
	Dim *fine = dim_mul(c, s->radix[0], dim_const(c, s->step));
	Value *b = counter(in, n, fine, 1, 2),
	      *a = times(in, n, counter(in, n, s->rest[0], 0, 2), fine);
	Value *v = EXPAND(in, n, Mul, turned(in, n, s, OP_Cos, a), turned(in, n, s, OP_Cos, b)),
	      *w = EXPAND(in, n, Mul, turned(in, n, s, OP_Sin, a), turned(in, n, s, OP_Sin, b));

	v = expand_cast(in, n, EXPAND(in, n, Sub, v, w), real);
	return expand_reshape(in, n, v, &(Dim *){s->wave}, 1);
}

/* A transform that is being made: of [ROWS, length, parts]. */
typedef struct StageBuild {
	Infer *in;
	Node *n;
	const Stages *s;
	Dim *rows;
	Value *wave;
	bool inverse;
} StageBuild;

/* The contribution of part P of a number to part Q of its product with W^TURN, W = e^(-2 pi i /
 * length), or W^-TURN for the inverse: cos(2 pi TURN / length + (Q - P) pi / 2). TURN and Q - P are
 * integers. */
static Value *wave_at(const StageBuild *t, Value *turn, Value *q_minus_p)
{
	Infer *in = t->in;
	Node *n = t->n;
	Dim *quarter = t->inverse ? dim_sub(in->ctx, dim_const(in->ctx, 0), t->s->quarter)
				  : t->s->quarter;
	Value *v = EXPAND(in, n, Add, times(in, n, turn, dim_const(in->ctx, t->s->step)),
			  times(in, n, q_minus_p, quarter));

	/* a size that only run time knows is a power of two */
	v = dim_is_const(t->s->wave, NULL)
		    ? EXPAND(in, n, Mod, v, expand_size(in, n, t->s->wave))
		    : EXPAND(in, n, BitwiseAnd, v,
			     expand_size(in, n,
					 dim_sub(in->ctx, t->s->wave, dim_const(in->ctx, 1))));
	return EXPAND(in, n, Gather, t->wave, v);
}

/* ---- Stages ---- */

/* The first COUNT elements of V's axis AXIS. */
static Value *first(Infer *in, Node *n, Value *v, int axis, Dim *count)
{
	Dim *d[MAX_RANK];

	if (v->type->dims[axis] == count)
		return v;
	memcpy(d, v->type->dims, (size_t)v->type->rank * sizeof *d);
	d[axis] = count;
	v = expand_part(in, n, v, axis, dim_const(in->ctx, 0), count);
	return expand_reshape(in, n, v, d, v->type->rank);
}

/* V with zeros up to SIZE elements in axis 1 of 3. */
static Value *padded(Infer *in, Node *n, Value *v, Dim *size)
{
	Ctx *c = in->ctx;
	Dim *none = dim_const(c, 0), *pads[6] = {none, none, none, none, NULL, none};

	if (v->type->dims[1] == size)
		return v;
	pads[4] = dim_sub(c, size, v->type->dims[1]);
	return EXPAND(in, n, Pad, v, expand_sizes(in, n, pads, 6));
}

/* V, whose axis AXIS has the two parts of a number, times c + i s. */
static Value *rotated(Infer *in, Node *n, Value *v, int axis, Value *c, Value *s)
{
	Value *re = expand_slice(in, n, v, axis, 0, 1, 1),
	      *im = expand_slice(in, n, v, axis, 1, 2, 1);
	Value *parts[2] = {
		EXPAND(in, n, Sub, EXPAND(in, n, Mul, re, c), EXPAND(in, n, Mul, im, s)),
		EXPAND(in, n, Add, EXPAND(in, n, Mul, re, s), EXPAND(in, n, Mul, im, c)),
	};

	return expand_node_ints(in, n, OP_Concat, parts, 2, "axis", axis);
}

/* The first stage, of V, [rows, N, parts]: [rows, M, 2, r]. */
static Value *first_stage(const StageBuild *t, Value *v, int64_t parts)
{
	static const int64_t perm[] = {0, 2, 1, 3};
	Infer *in = t->in;
	Node *n = t->n;
	Ctx *c = in->ctx;
	Dim *r = t->s->radix[0], *m = t->s->rest[0], *p = dim_const(c, parts),
	    *two = dim_const(c, 2);
	Value *turn, *table, *shift;

	v = expand_reshape(in, n, v, (Dim *[]){t->rows, r, m, p}, 4);
	v = expand_transpose(in, n, v, perm, 4);
	v = expand_reshape(in, n, v, (Dim *[]){dim_mul(c, t->rows, m), dim_mul(c, r, p)}, 2);
	/* [r, parts, 2, r]: n, p, q, k */
	turn = EXPAND(in, n, Mul, counter(in, n, r, 0, 4), counter(in, n, r, 3, 4));
	shift = EXPAND(in, n, Sub, counter(in, n, two, 2, 4), counter(in, n, p, 1, 4));
	table = wave_at(t, times(in, n, turn, m), shift);
	table = expand_reshape(in, n, table, (Dim *[]){dim_mul(c, r, p), dim_mul(c, two, r)}, 2);
	v = EXPAND(in, n, MatMul, v, table);
	v = expand_reshape(in, n, v, (Dim *[]){t->rows, m, two, r}, 4);
	/* [M, 1, r]: m, -, k */
	turn = EXPAND(in, n, Mul, counter(in, n, m, 0, 3), counter(in, n, r, 2, 3));
	return rotated(in, n, v, 2, wave_at(t, turn, expand_scalar(in, n, DT_I64, 0)),
		       wave_at(t, turn, expand_scalar(in, n, DT_I64, 1)));
}

/* Stage I, not the first, of V, [rows, r, M, 2, K]: [rows, M, PARTS, r, K]. It computes the first
 * KEPT of r, and PARTS of a number's parts. */
static Value *stage(const StageBuild *t, int i, Value *v, Dim *k, Dim *kept, int64_t parts)
{
	static const int64_t perm[] = {0, 2, 1, 3, 4};
	Infer *in = t->in;
	Node *n = t->n;
	Ctx *c = in->ctx;
	Dim *r = t->s->radix[i], *m = t->s->rest[i], *two = dim_const(c, 2),
	    *q = dim_const(c, parts);
	Value *turn, *table, *shift;

	v = expand_reshape(in, n, v, (Dim *[]){t->rows, r, m, two, k}, 5);
	v = expand_transpose(in, n, v, perm, 5);
	v = expand_reshape(in, n, v, (Dim *[]){t->rows, m, dim_mul(c, r, two), k}, 4);
	/* [M, PARTS, KEPT, r, 2]: m, q, k, n, p */
	turn = EXPAND(in, n, Add, times(in, n, counter(in, n, r, 3, 5), m),
		      counter(in, n, m, 0, 5));
	turn = times(in, n, EXPAND(in, n, Mul, turn, counter(in, n, kept, 2, 5)), k);
	shift = EXPAND(in, n, Sub, counter(in, n, q, 1, 5), counter(in, n, two, 4, 5));
	table = expand_reshape(in, n, wave_at(t, turn, shift),
			       (Dim *[]){m, dim_mul(c, q, kept), dim_mul(c, r, two)}, 3);
	return EXPAND(in, n, MatMul, table, v);
}

/* The transform of V, whose numbers have PARTS parts: [rows, 2, results], or, with REAL,
 * [rows, 1, results]. */
static Value *by_stages(const StageBuild *t, Value *v, int64_t parts, Dim *results, bool real)
{
	const Stages *s = t->s;
	Ctx *c = t->in->ctx;
	Dim *k = s->radix[0], *q = dim_const(c, 2);

	v = first_stage(t, v, parts);
	for (int i = 1; i < s->n; i++) {
		const bool last = i == s->n - 1;
		Dim *kept = s->radix[i];

		if (last && dim_is_const(s->length, NULL))
			kept = dim_ceildiv(c, results, k);
		if (last && real)
			q = dim_const(c, 1);
		v = stage(t, i, v, k, kept, last && real ? 1 : 2);
		k = dim_mul(c, k, kept);
	}
	v = expand_reshape(t->in, t->n, v, (Dim *[]){t->rows, q, k}, 3);
	return first(t->in, t->n, v, 2, results);
}

/* ---- Bluestein's algorithm ---- */

/* V with the imaginary parts, in axis AXIS, times SIGN. */
static Value *imaginary_times(Infer *in, Node *n, Value *v, int axis, Value *sign)
{
	Value *parts[2] = {expand_slice(in, n, v, axis, 0, 1, 1),
			   EXPAND(in, n, Mul, expand_slice(in, n, v, axis, 1, 2, 1), sign)};

	return expand_node_ints(in, n, OP_Concat, parts, 2, "axis", axis);
}

static Value *conjugate(Infer *in, Node *n, Value *v, int axis)
{
	return imaginary_times(in, n, v, axis, expand_scalar(in, n, v->type->dtype, -1));
}

typedef struct Bluestein {
	Infer *in;
	Node *n;
	const Fourier *f;
	Stages s;
	Dim *rows;
	/* 1 where the length is that of the stages, so that the chirp is 1 */
	Dim *fast;
	Dim *chirps;     /* N, or 1 where FAST */
	Value *chirp[2]; /* real and imaginary parts of the chirp at 0 .. CHIRPS - 1 */
} Bluestein;

static void chirp_init(Bluestein *b)
{
	Infer *in = b->in;
	Node *n = b->n;
	Dim *length = b->f->length, *one = dim_const(in->ctx, 1),
	    *slow = dim_sub(in->ctx, one, b->fast);
	Value *v;

	b->chirps = dim_symbol(in->ctx, dim_max(in->ctx, one, dim_mul(in->ctx, length, slow)),
			       "chirps");
	v = expand_range(in, n, b->chirps);
	v = EXPAND(in, n, Mod, EXPAND(in, n, Mul, v, v),
		   expand_size(in, n, dim_mul(in->ctx, length, dim_const(in->ctx, 2))));
	v = EXPAND(in, n, Mul, expand_cast(in, n, v, DT_F64), expand_scalar(in, n, DT_F64, PI));
	v = EXPAND(in, n, Div, v, expand_cast(in, n, expand_size(in, n, length), DT_F64));
	b->chirp[0] = expand_cast(in, n, EXPAND(in, n, Cos, v), b->f->real);
	b->chirp[1] = expand_cast(in, n, EXPAND(in, n, Sin, v), b->f->real);
}

/* Part PART of the chirp at J, integers of at least 0. */
static Value *chirp_at(const Bluestein *b, Value *j, int part)
{
	Infer *in = b->in;
	Node *n = b->n;

	j = EXPAND(in, n, Min, j,
		   expand_size(in, n, dim_sub(in->ctx, b->chirps, dim_const(in->ctx, 1))));
	return EXPAND(in, n, Gather, b->chirp[part], j);
}

/* V, [rows, terms, parts], times the conjugate of the chirp: [rows, length of the stages, 2]. */
static Value *chirped(const Bluestein *b, Value *v)
{
	Infer *in = b->in;
	Node *n = b->n;
	Value *at = counter(in, n, v->type->dims[1], 0, 2);
	Value *c = chirp_at(b, at, 0), *s = EXPAND(in, n, Neg, chirp_at(b, at, 1));

	if (dim_equals(v->type->dims[2], 2)) {
		v = rotated(in, n, b->f->inverse ? conjugate(in, n, v, 2) : v, 2, c, s);
	} else {
		Value *parts[2] = {EXPAND(in, n, Mul, v, c), EXPAND(in, n, Mul, v, s)};

		v = expand_node_ints(in, n, OP_Concat, parts, 2, "axis", 2);
	}
	return padded(in, n, v, b->s.length);
}

/* The chirp at -(N - 1) .. N - 1, negative indices from the end of the stages' length backwards:
 * [1, length, 2]. A transform without a chirp has the filter 1, 0, 0 .. */
static Value *chirp_filter(const Bluestein *b)
{
	Infer *in = b->in;
	Node *n = b->n;
	Value *at = counter(in, n, b->s.length, 1, 3), *inside, *parts[2];

	at = EXPAND(in, n, Min, at, EXPAND(in, n, Sub, expand_size(in, n, b->s.length), at));
	inside = EXPAND(in, n, Less, at, expand_size(in, n, b->chirps));
	for (int p = 0; p < 2; p++)
		parts[p] = EXPAND(in, n, Where, inside, chirp_at(b, at, p),
				  expand_scalar(in, n, b->f->real, 0));
	return expand_node_ints(in, n, OP_Concat, parts, 2, "axis", 2);
}

/* The conjugate of A * B, of [rows, 2, length] and [1, 2, length]: [rows, length, 2]. */
static Value *filtered(const Bluestein *b, Value *a, Value *f)
{
	Infer *in = b->in;
	Node *n = b->n;

	a = rotated(in, n, a, 1, expand_slice(in, n, f, 1, 0, 1, 1),
		    expand_slice(in, n, f, 1, 1, 2, 1));
	return expand_transpose(in, n, conjugate(in, n, a, 1), (int64_t[]){0, 2, 1}, 3);
}

/* The transform of V, known to take the filter: the conjugate of L times the convolution. */
static Value *convolved(const Bluestein *b, Value *v)
{
	Infer *in = b->in;
	Value *w = wave(in, b->n, &b->s, b->f->real), *filter = chirp_filter(b);
	StageBuild t = {in, b->n, &b->s, b->rows, w, false},
		   one = {in, b->n, &b->s, dim_const(in->ctx, 1), w, false};

	v = by_stages(&t, v, 2, b->s.length, false);
	filter = by_stages(&one, filter, 2, b->s.length, false);
	return by_stages(&t, filtered(b, v, filter), 2, b->f->results, false);
}

/*
 * The same where only run time knows whether it takes the filter, in one or two iterations: signal
 * and filter are transformed together, and the conjugate of the product of the transforms is the
 * next signal. The next filter is 1, 0, 0 ..,
 * whose transform is 1, 1, 1 .. After one iteration that is the conjugate of the result.
 */
static Value *convolved_if(const Bluestein *b, Value *v)
{
	static const int64_t perm[] = {0, 2, 1};
	Infer *in = b->in;
	Node *n = b->n;
	Ctx *c = in->ctx;
	Dim *one = dim_const(c, 1), *two = dim_const(c, 2), *all = dim_add(c, b->rows, one),
	    *dims[3] = {all, b->s.length, two};
	Value *both[2] = {v, chirp_filter(b)}, *state, *next, *unit,
	      *w = wave(in, n, &b->s, b->f->real);
	StageBuild t = {in, n, &b->s, all, w, false};
	LoopBuild l;

	state = expand_node_ints(in, n, OP_Concat, both, 2, "axis", 0);
	unit = EXPAND(in, n, Add, counter(in, n, b->s.length, 1, 3), counter(in, n, two, 2, 3));
	unit = expand_cast(in, n, EXPAND(in, n, Equal, unit, expand_scalar(in, n, DT_I64, 0)),
			   b->f->real);
	l = loop_open(in, n, dim_sub(c, two, b->fast), &state, 1);
	v = by_stages(&t, l.carried[0], 2, b->s.length, false);
	both[0] = filtered(b, first(in, n, v, 0, b->rows), expand_part(in, n, v, 0, b->rows, all));
	both[1] = unit;
	next = expand_node_ints(in, n, OP_Concat, both, 2, "axis", 0);
	next = expand_reshape(in, n, next, dims, 3);
	loop_close(&l, &next, NULL, 0, NULL, dim_const(c, 0), &v, NULL);
	v = first(in, n, first(in, n, v, 0, b->rows), 1, b->f->results);
	return expand_transpose(in, n, v, perm, 3);
}

/* [rows, 2, results] of [rows, terms, parts] */
static Value *bluestein(Bluestein *b, Value *v)
{
	Infer *in = b->in;
	Node *n = b->n;
	Ctx *c = in->ctx;
	Dim *one = dim_const(c, 1), *length = dim_select(c, b->fast, one, b->s.length),
	    *sign = dim_sub(c, dim_mul(c, dim_const(c, 2), b->fast), one);
	const bool known = dim_is_const(b->fast, NULL);
	Value *at = expand_range(in, n, b->f->results), *scale;

	chirp_init(b);
	v = chirped(b, v);
	v = known ? convolved(b, v) : convolved_if(b, v);
	scale = expand_size(in, n, b->f->inverse ? dim_mul(c, length, b->f->length) : length);
	v = EXPAND(in, n, Div, v, expand_cast(in, n, scale, b->f->real));
	scale = expand_size(in, n, known ? sign : dim_sub(c, dim_const(c, 0), sign));
	v = imaginary_times(in, n, v, 1, expand_cast(in, n, scale, b->f->real));
	v = rotated(in, n, v, 1, chirp_at(b, at, 0), EXPAND(in, n, Neg, chirp_at(b, at, 1)));
	return b->f->inverse ? conjugate(in, n, v, 1) : v;
}

/* ---- Which algorithm ---- */

bool fourier_check(Infer *in, Node *n, const Fourier *t)
{
	const bool known = dim_is_const(t->length, NULL);
	Dim *one = dim_const(in->ctx, 1),
	    *most = dim_const(in->ctx, known ? FOURIER_MOST : FOURIER_MOST_RUN);
	const char *name = known ? "it is" : NULL;

	return infer_le(in, n, one, t->length, "the transform has no elements") &&
	       infer_le_shown(in, n, t->length, most, "more points than can be transformed",
			      (FactSize){name, t->length}, (FactSize){"expected at most", most});
}

bool fourier_is_direct(Infer *in, const Fourier *t)
{
	int64_t radix[MAX_STAGES], lo, most, size;
	double staged, padded_cost;

	dim_bounds(in->ctx, t->length, &lo, &most);
	if (most <= FOURIER_DIRECT)
		return true;
	if (!dim_is_const(t->length, &size) || cheapest(size, t->parts, radix, &staged) > 1)
		return false;
	smooth_length(2 * size - 1, &padded_cost);
	return staged <= 2 * padded_cost;
}

/* The whole spectrum, [rows, N, 2], from its first half, V, [rows, terms, 2]: an entry that the
 * half lacks is the conjugate of entry N - k. */
static Value *whole_spectrum(Infer *in, Node *n, Value *v, const Fourier *t)
{
	Ctx *c = in->ctx;
	Dim *half = dim_add(c, dim_floordiv(c, t->length, dim_const(c, 2)), dim_const(c, 1));
	Value *at = expand_range(in, n, t->length), *from, *sign;

	from = EXPAND(in, n, Min, at, EXPAND(in, n, Sub, expand_size(in, n, t->length), at));
	v = padded(in, n, v, half);
	v = expand_node_ints(in, n, OP_Gather, (Value *[]){v, from}, 2, "axis", 1);
	if (t->parts == 1)
		return v;
	sign = EXPAND(in, n, Where, EXPAND(in, n, Less, at, expand_size(in, n, half)),
		      expand_scalar(in, n, t->real, 1), expand_scalar(in, n, t->real, -1));
	return imaginary_times(in, n, v, 2, expand_unsqueeze(in, n, sign, 1));
}

/* [rows, 2, results], or with REAL at least the first of these parts */
static Value *transform(Infer *in, Node *n, Value *v, Dim *rows, const Fourier *t, bool real)
{
	Ctx *c = in->ctx;
	const int64_t parts = v->type->dims[2] == dim_const(c, 2) ? 2 : 1;
	Bluestein b = {.in = in, .n = n, .f = t, .rows = rows, .fast = dim_const(c, 0)};
	Dim *twice = dim_sub(c, dim_mul(c, t->length, dim_const(c, 2)), dim_const(c, 1)), *longer;
	int64_t radix[MAX_STAGES], size, other;
	double staged, padded_cost;

	if (!dim_is_const(t->length, &size)) {
		b.fast = dim_symbol(c, dim_eq(c, power_from(c, t->length), t->length), "fast");
		longer = dim_max(c, t->length, dim_select(c, b.fast, t->length, twice));
		stages_to(c, dim_symbol(c, longer, "length"), &b.s);
		return bluestein(&b, v);
	}
	cheapest(size, parts, radix, &staged);
	other = smooth_length(2 * size - 1, &padded_cost);
	if (2 * padded_cost < staged) {
		stages_of(c, other, 2, &b.s);
		return bluestein(&b, v);
	}
	stages_of(c, size, parts, &b.s);
	v = by_stages(&(StageBuild){in, n, &b.s, rows, wave(in, n, &b.s, t->real), t->inverse},
		      padded(in, n, v, t->length), parts, t->results, real);
	if (t->inverse)
		v = EXPAND(in, n, Mul, v, expand_scalar(in, n, t->real, 1 / (double)size));
	return v;
}

Value *fourier(Infer *in, Node *n, Value *v, Dim *rows, const Fourier *t)
{
	const bool real = t->inverse && t->onesided;

	if (real)
		v = whole_spectrum(in, n, v, t);
	v = transform(in, n, v, rows, t, real);
	if (real)
		v = first(in, n, v, 1, dim_const(in->ctx, 1));
	return expand_transpose(in, n, v, (int64_t[]){0, 2, 1}, 3);
}
