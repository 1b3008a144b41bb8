/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear models and support vector machines of ai.onnx.ml, as composites. All compute in f32, since
 * their attributes and results are of f32.
 */
#include "ir/graph/blocks.h"
#include "ops/infer/control.h"
#include "ops/ml/ml.h"

#include <math.h>

/* The numbers V, [ROWS, COLUMNS], as the constant [COLUMNS, ROWS]. */
static Value *transposed(Infer *in, Node *n, const double *v, int64_t rows, int64_t columns)
{
	int64_t dims[2] = {columns, rows};
	Tensor *t = tensor_new(infer_arena(in), DT_F32, 2, dims);
	float *data = NEW_ARRAY(infer_arena(in), rows * columns + 1, float);

	for (int64_t r = 0; r < rows; r++)
		for (int64_t c = 0; c < columns; c++)
			data[c * rows + r] = (float)v[r * columns + c];
	t->data = data;
	return expand_tensor(in, n, t);
}

static Value *number(Infer *in, Node *n, double v)
{
	return expand_scalar(in, n, DT_F32, v);
}

/* The attribute COEFFICIENTS as rows of as many numbers as there are features; sets *ROWS, which
 * must be COUNT unless that is 0, and *FEATURES. Null after a diagnostic. */
static double *rows_of(Infer *in, Node *n, const char *name, Value *x, int64_t count, int64_t *rows,
		       int64_t *features)
{
	int have;
	double *v = ml_numbers(in, n, name, &have);

	if (!v)
		return NULL;
	if (!dim_is_const(x->type->dims[1], features))
		*features = count ? have / count : 0;
	*rows = *features ? have / *features : 0;
	if (*features < 1 || *rows < 1 || *rows * *features != have || (count && *rows != count)) {
		infer_error(in, n, "attribute \"%s\" has %d entries, which do not fit the features",
			    name, have);
		return NULL;
	}
	return infer_dim_equals(in, n, &x->type->dims[1], dim_const(infer_ctx(in), *features),
				"the operand has another number of features than the model")
		       ? v
		       : NULL;
}

/* X * C^T + B, where C is COEFFICIENTS, [ROWS, FEATURES], and B has ROWS numbers or is null. */
static Value *linear(Infer *in, Node *n, Value *x, const double *c, int64_t rows, int64_t features,
		     const double *b)
{
	Value *v = EXPAND(in, n, MatMul, x, transposed(in, n, c, rows, features));

	return b ? EXPAND(in, n, Add, v, ml_vector(in, n, DT_F32, b, rows)) : v;
}

/* Attribute NAME with COUNT numbers; *OUT is null if there is none. */
static bool maybe_numbers(Infer *in, Node *n, const char *name, int64_t count, double **out)
{
	int have;

	*out = ml_numbers(in, n, name, &have);
	if (!*out)
		return false;
	if (have && have != count)
		return infer_error(in, n, "attribute \"%s\" has %d entries, expected %lld", name,
				   have, (long long)count);
	*out = have ? *out : NULL;
	return true;
}

static bool expand_regressor(Infer *in, Node *n, Value **out)
{
	int64_t targets = node_int(n, "targets", 1), rows, features;
	Value *x = ml_rows(in, n, DT_F32);
	double *c, *b;
	MlPost post;

	if (!x || !ml_post_of(in, n, &post))
		return false;
	if (targets < 1 || targets > INT32_MAX)
		return infer_error(in, n, "targets is %lld", (long long)targets);
	c = rows_of(in, n, "coefficients", x, targets, &rows, &features);
	if (!c || !maybe_numbers(in, n, "intercepts", rows, &b))
		return false;
	out[0] = ml_post(in, n, linear(in, n, x, c, rows, features, b), post);
	return true;
}

const Op op_ml_LinearRegressor = {
	.expand = expand_regressor,
	.types = "fi",
	.doc = "post_transform is also applied to a single score, unlike in ONNX Runtime",
	.attrs = "coefficients: floats, intercepts: floats, post_transform: string, targets: int",
};

static bool expand_classifier(Infer *in, Node *n, Value **out)
{
	int labels, intercepts;
	const Tensor *list = ml_labels(in, n, "classlabels_ints", "classlabels_strings", &labels);
	Value *x = !list ? NULL : ml_rows(in, n, DT_F32), *v, *best;
	int64_t rows, features;
	double *c, *b;
	MlPost post;

	if (!x || !ml_post_of(in, n, &post))
		return false;
	b = ml_numbers(in, n, "intercepts", &intercepts);
	c = b ? rows_of(in, n, "coefficients", x,
			intercepts                             ? intercepts
			: dim_is_const(x->type->dims[1], NULL) ? 0
							       : labels,
			&rows, &features)
	      : NULL;
	if (!c)
		return false;
	if (rows != labels && (rows != 1 || labels != 2))
		return infer_error(in, n, "has %lld rows of coefficients for %d classes",
				   (long long)rows, labels);
	v = linear(in, n, x, c, rows, features, intercepts ? b : NULL);
	if (rows == 1) {
		best = ml_above(in, n, v, 0);
		v = labels == 2 ? ml_two_scores(in, n, v, true, post) : ml_post(in, n, v, post);
	} else {
		best = ml_best(in, n, v);
		v = ml_post(in, n, v, post);
	}
	out[0] = labels == 1 ? ml_only_label(in, n, list, best) : ml_label_of(in, n, list, best);
	if (node_out(n, 1))
		out[1] = v;
	return true;
}

const Op op_ml_LinearClassifier = {
	.expand = expand_classifier, .types = "fi",
	.attrs = "classlabels_ints: ints, classlabels_strings: strings, coefficients: floats, "
		 "intercepts: floats, multi_class: int, post_transform: string",
};

/* ---- Support vector machines ---- */

/* The kernel function, which attribute TYPE names (null: the product), of each row of X, [N, F],
 * and each of the COUNT vectors V, [COUNT, F]: [N, COUNT]. Null after a diagnostic. */
static Value *kernel(Infer *in, Node *n, Value *x, const double *v, int64_t count, int64_t features,
		     const char *type)
{
	enum { LINEAR, POLY, RBF, SIGMOID };
	static const char *const names[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
	static const int64_t one = 1, two = 2;
	double *p;
	int how = LINEAR, have;
	Value *y;

	p = ml_numbers(in, n, "kernel_params", &have);
	if (!p || (type && !infer_choice(in, n, type, names, 4, &how)))
		return NULL;
	if (how != LINEAR && have < 3) {
		infer_error(in, n, "attribute \"kernel_params\" has %d entries, expected 3", have);
		return NULL;
	}
	if (how == RBF) {
		Dim *dims[2] = {dim_const(infer_ctx(in), count),
				dim_const(infer_ctx(in), features)};

		y = expand_reshape(in, n, ml_vector(in, n, DT_F32, v, count * features), dims, 2);
		y = EXPAND(in, n, Sub, expand_unsqueeze(in, n, x, one), y);
		y = expand_reduce(in, n, OP_ReduceSumSquare, y, two, false);
		return EXPAND(in, n, Exp, EXPAND(in, n, Mul, y, number(in, n, -p[0])));
	}
	y = linear(in, n, x, v, count, features, NULL);
	if (how == LINEAR)
		return y;
	y = EXPAND(in, n, Add, EXPAND(in, n, Mul, y, number(in, n, p[0])), number(in, n, p[1]));
	return how == POLY ? EXPAND(in, n, Pow, y, number(in, n, p[2])) : EXPAND(in, n, Tanh, y);
}

static bool expand_svm_regressor(Infer *in, Node *n, Value **out)
{
	int64_t count = node_int(n, "n_supports", 0), rows, features;
	Value *x = ml_rows(in, n, DT_F32), *v;
	double *c, *vectors, *rho;
	int have, nrho;
	MlPost post;

	if (!x || !ml_post_of(in, n, &post))
		return false;
	if (count < 0)
		return infer_error(in, n, "n_supports is %lld", (long long)count);
	vectors = rows_of(in, n, count ? "support_vectors" : "coefficients", x, count ? count : 1,
			  &rows, &features);
	c = ml_numbers(in, n, "coefficients", &have);
	rho = ml_numbers(in, n, "rho", &nrho);
	if (!vectors || !c || !rho)
		return false;
	if ((count && have != count) || nrho < 1)
		return infer_error(in, n,
				   "has %d coefficients for %lld support vectors, and %d entries "
				   "in \"rho\"",
				   have, (long long)count, nrho);
	v = kernel(in, n, x, vectors, rows, features, count ? "kernel_type" : NULL);
	if (v && count)
		v = linear(in, n, v, c, 1, count, NULL);
	if (!v)
		return false;
	v = EXPAND(in, n, Add, v, number(in, n, rho[0]));
	if (node_int(n, "one_class", 0))
		v = EXPAND(in, n, Where, EXPAND(in, n, Greater, v, number(in, n, 0)),
			   number(in, n, 1), number(in, n, -1));
	out[0] = ml_post(in, n, v, post);
	return true;
}

const Op op_ml_SVMRegressor = {
	.expand = expand_svm_regressor,
	.types = "fi",
	.doc = "post_transform is also applied to a single score, unlike in ONNX Runtime",
	.attrs = "coefficients: floats, kernel_params: floats, kernel_type: string, "
		 "n_supports: int, one_class: int, post_transform: string, rho: floats, "
		 "support_vectors: floats",
};

/* A classifier of support vectors. There is one score for each pair of classes i < j, in the order
 * (0, 1), (0, 2) ... (1, 2) ... */
typedef struct Svm {
	Infer *in;
	Node *n;
	int classes, pairs;
	int64_t vectors, features;
	const int64_t *of_class; /* the number of support vectors of each class */
	double *vector, *coefficient, *rho;
} Svm;

/* The scores of the pairs, [N, pairs]. The vectors of a class count only in its pairs; their
 * coefficients against class j are in row j, which skips the class itself. */
static Value *pair_scores(Svm *s, Value *x)
{
	double *m = NEW_ARRAY(infer_arena(s->in), s->pairs * s->vectors + 1, double);
	int64_t *start = NEW_ARRAY(infer_arena(s->in), s->classes + 1, int64_t);
	Value *k = kernel(s->in, s->n, x, s->vector, s->vectors, s->features, "kernel_type");
	int p = 0;

	if (!k)
		return NULL;
	for (int c = 0; c < s->classes; c++)
		start[c + 1] = start[c] + s->of_class[c];
	for (int i = 0; i < s->classes; i++)
		for (int j = i + 1; j < s->classes; j++, p++) {
			for (int64_t v = start[i]; v < start[i + 1]; v++)
				m[p * s->vectors + v] = s->coefficient[(j - 1) * s->vectors + v];
			for (int64_t v = start[j]; v < start[j + 1]; v++)
				m[p * s->vectors + v] = s->coefficient[i * s->vectors + v];
		}
	return linear(s->in, s->n, k, m, s->pairs, s->vectors, s->rho);
}

/* The class with the most votes: each pair votes for its first class where SCORES is above 0, else
 * for its second one. */
static Value *most_votes(Svm *s, Value *scores)
{
	double *m = NEW_ARRAY(infer_arena(s->in), s->classes * s->pairs + 1, double);
	double *b = NEW_ARRAY(infer_arena(s->in), s->classes + 1, double);
	Value *first = EXPAND(s->in, s->n, Greater, scores, number(s->in, s->n, 0));
	int p = 0;

	for (int i = 0; i < s->classes; i++)
		for (int j = i + 1; j < s->classes; j++, p++) {
			m[i * s->pairs + p] = 1;
			m[j * s->pairs + p] = -1;
			b[j]++;
		}
	return ml_best(s->in, s->n,
		       linear(s->in, s->n, expand_cast(s->in, s->n, first, DT_F32), m, s->classes,
			      s->pairs, b));
}

/* Column C of V, [N, C], as [N, 1]. */
static Value *column(Svm *s, Value *v, int64_t c)
{
	return expand_slice(s->in, s->n, v, 1, c, c + 1, 1);
}

/*
 * The probabilities of the classes from those of the pairs, by the iteration of Wu, Lin and Weng,
 * "Probability Estimates for Multi-class Classification by Pairwise Coupling", algorithm 2, as
 * libsvm has it: p minimises p' Q p. An iteration of the loop changes one class; before the first
 * one of each round, a row whose p is good enough is done.
 */
static Value *coupled(Svm *s, Value *q)
{
	enum { ROUNDS = 100 };
	static const int64_t first_axis[] = {1, 0, 2};
	Infer *in = s->in;
	Node *n = s->n;
	Ctx *c = infer_ctx(in);
	Dim *classes = dim_const(c, s->classes), *dims[2], *at;
	Value *rows = expand_transpose(in, n, q, first_axis, 3), *init[3], *next[3], *last[3];
	Value *p, *qp, *pqp, *change, *one = number(in, n, 1), *iteration, *unit, *done;
	const int64_t second = 1;
	LoopBuild l;

	dims[0] = q->type->dims[0];
	dims[1] = classes;
	init[0] = EXPAND(in, n, Expand, number(in, n, 1.0 / s->classes),
			 expand_sizes(in, n, dims, 2));
	dims[1] = dim_const(c, 1);
	init[1] = EXPAND(in, n, Expand, expand_scalar(in, n, DT_BOOL, 0),
			 expand_sizes(in, n, dims, 2));
	init[2] = expand_scalar(in, n, DT_I64, 1);
	l = loop_open(in, n, dim_const(c, (int64_t)ROUNDS * s->classes), init, 3);
	loop_while(&l, l.carried[2]);
	p = l.carried[0];
	at = dim_mod(c, l.iteration, classes);
	qp = expand_reduce(in, n, OP_ReduceSum,
			   EXPAND(in, n, Mul, q, expand_unsqueeze(in, n, p, second)), -1, false);
	pqp = expand_reduce(in, n, OP_ReduceSum, EXPAND(in, n, Mul, p, qp), -1, true);
	change = EXPAND(in, n, Abs, EXPAND(in, n, Sub, qp, pqp));
	iteration = expand_dims(in, n, DT_I64, &at, 1, true);
	done = EXPAND(in, n, Less, expand_reduce(in, n, OP_ReduceMax, change, -1, true),
		      number(in, n, 0.005 / s->classes));
	done = EXPAND(in, n, And, done,
		      EXPAND(in, n, Equal, iteration, expand_scalar(in, n, DT_I64, 0)));
	next[1] = EXPAND(in, n, Or, l.carried[1], done);
	unit = expand_cast(in, n, EXPAND(in, n, Equal, expand_range(in, n, classes), iteration),
			   DT_F32);
	change = EXPAND(
		in, n, Div,
		EXPAND(in, n, Sub, pqp,
		       expand_reduce(in, n, OP_ReduceSum, EXPAND(in, n, Mul, qp, unit), -1, true)),
		expand_reduce(in, n, OP_ReduceSum,
			      EXPAND(in, n, Mul, expand_row(in, n, rows, at), unit), -1, true));
	next[0] = EXPAND(in, n, Div, EXPAND(in, n, Add, p, EXPAND(in, n, Mul, change, unit)),
			 EXPAND(in, n, Add, one, change));
	next[0] = EXPAND(in, n, Where, next[1], p, next[0]);
	next[2] = expand_node_ints(
		in, n, OP_ReduceMax,
		(Value *[]){expand_cast(in, n, EXPAND(in, n, Not, next[1]), DT_I64)}, 1, "keepdims",
		0);
	loop_close(&l, next, NULL, 0, NULL, dim_const(c, 0), last, NULL);
	return last[0];
}

/* The probabilities of the classes, [N, classes], from the scores of the pairs. */
static Value *probabilities(Svm *s, Value *scores, const double *a, const double *b)
{
	Infer *in = s->in;
	Node *n = s->n;
	Value *r, **v = NEW_ARRAY(infer_arena(in), s->classes * s->classes + 1, Value *), **of, *q;
	const int64_t second = 1;
	int p = 0;

	r = EXPAND(in, n, Add, EXPAND(in, n, Mul, scores, ml_vector(in, n, DT_F32, a, s->pairs)),
		   ml_vector(in, n, DT_F32, b, s->pairs));
	r = EXPAND(in, n, Sigmoid, EXPAND(in, n, Neg, r));
	r = EXPAND(in, n, Clip, r, number(in, n, 1e-7), number(in, n, 1 - 1e-7));
	of = NEW_ARRAY(infer_arena(in), s->classes * s->classes + 1, Value *);
	for (int i = 0; i < s->classes; i++)
		for (int j = i + 1; j < s->classes; j++, p++) {
			of[i * s->classes + j] = column(s, r, p);
			of[j * s->classes + i] = EXPAND(in, n, Sub, number(in, n, 1),
							of[i * s->classes + j]);
		}
	for (int i = 0; i < s->classes; i++)
		for (int j = 0; j < s->classes; j++) {
			Value *sum = NULL, *x = of[j * s->classes + i];

			if (i != j) {
				v[i * s->classes + j] = EXPAND(
					in, n, Neg, EXPAND(in, n, Mul, x, of[i * s->classes + j]));
				continue;
			}
			for (int k = 0; k < s->classes; k++) {
				x = of[k * s->classes + i];
				if (k == i)
					continue;
				x = EXPAND(in, n, Mul, x, x);
				sum = sum ? EXPAND(in, n, Add, sum, x) : x;
			}
			v[i * s->classes + i] = sum;
		}
	q = expand_node_ints(in, n, OP_Concat, v, s->classes * s->classes, "axis", second);
	return coupled(
		s, expand_reshape(in, n, q,
				  (Dim *[]){q->type->dims[0], dim_const(infer_ctx(in), s->classes),
					    dim_const(infer_ctx(in), s->classes)},
				  3));
}

static bool all_positive(const double *v, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		if (v[i] < 0)
			return false;
	return true;
}

/* Without support vectors: a row of coefficients for each class. */
static bool linear_svm(Svm *s, Value *x, int have, MlPost post, Value **best, Value **scores)
{
	int64_t rows, features;
	double *c = rows_of(s->in, s->n, "coefficients", x, s->classes, &rows, &features);
	Value *v, *most;

	if (!c)
		return false;
	v = EXPAND(s->in, s->n, Add, linear(s->in, s->n, x, c, rows, features, NULL),
		   number(s->in, s->n, s->rho[0]));
	*best = ml_best(s->in, s->n, v);
	if (s->classes == 2) {
		most = expand_reduce(s->in, s->n, OP_ReduceMax, v, -1, true);
		most = ml_above(s->in, s->n, most,
				all_positive(c, have) ? (double)nextafterf(0.5F, 0) : 0);
		*best = EXPAND(s->in, s->n, Max, *best, most);
	}
	*scores = ml_post(s->in, s->n, v, post);
	return true;
}

static bool expand_svm_classifier(Infer *in, Node *n, Value **out)
{
	Svm s = {.in = in, .n = n};
	const Tensor *labels = ml_labels(in, n, "classlabels_ints", "classlabels_strings",
					 &s.classes);
	Value *x = !labels ? NULL : ml_rows(in, n, DT_F32), *v = NULL, *best = NULL;
	int nclasses, have, nrho;
	double *a, *b;
	int64_t rows;
	MlPost post;

	if (!x || !ml_post_of(in, n, &post))
		return false;
	s.of_class = node_ints(n, "vectors_per_class", &nclasses);
	s.coefficient = ml_numbers(in, n, "coefficients", &have);
	s.rho = ml_numbers(in, n, "rho", &nrho);
	if (!s.coefficient || !s.rho)
		return false;
	for (int c = 0; c < nclasses; c++) {
		if (s.of_class[c] < 0 || s.of_class[c] > INT32_MAX)
			return infer_error(in, n, "a class has %lld support vectors",
					   (long long)s.of_class[c]);
		s.vectors += s.of_class[c];
	}
	if (nrho < 1)
		return infer_error(in, n, "attribute \"rho\" is missing");
	if (!s.vectors) {
		if (!linear_svm(&s, x, have, post, &best, &v))
			return false;
	} else {
		if (nclasses != s.classes || s.classes < 2 || s.classes > 1024)
			return infer_error(in, n,
					   "has %d class labels, and support vectors of %d classes",
					   s.classes, nclasses);
		s.pairs = s.classes * (s.classes - 1) / 2;
		if (have != (s.classes - 1) * s.vectors || nrho != s.pairs)
			return infer_error(in, n,
					   "has %d coefficients and %d entries in \"rho\" for %lld "
					   "support vectors of %d classes",
					   have, nrho, (long long)s.vectors, s.classes);
		s.vector = rows_of(in, n, "support_vectors", x, s.vectors, &rows, &s.features);
		if (!s.vector || !maybe_numbers(in, n, "prob_a", s.pairs, &a) ||
		    !maybe_numbers(in, n, "prob_b", s.pairs, &b))
			return false;
		if (!a != !b)
			return infer_error(in, n, "only one of \"prob_a\" and \"prob_b\" is given");
		v = pair_scores(&s, x);
		if (!v)
			return false;
		best = most_votes(&s, v);
		if (a)
			v = ml_post(in, n, probabilities(&s, v, a, b), post);
		else
			v = s.classes == 2 ? ml_two_scores(in, n, v, post != ML_NONE, post)
					   : ml_post(in, n, v, post);
	}
	out[0] = ml_label_of(in, n, labels, best);
	if (node_out(n, 1))
		out[1] = v;
	return true;
}

const Op op_ml_SVMClassifier = {
	.expand = expand_svm_classifier, .types = "fi",
	.attrs = "classlabels_ints: ints, classlabels_strings: strings, coefficients: floats, "
		 "kernel_params: floats, kernel_type: string, post_transform: string, "
		 "prob_a: floats, prob_b: floats, rho: floats, support_vectors: floats, "
		 "vectors_per_class: ints",
};
