/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contractions. MatMul, Gemm and Einsum are products of operands whose dims have labels: the labels
 * of the result form the band, the others are summed. Each product is one reduction of mul(a, b)
 * into an accumulator of acc_dtype, followed by a map. Schedulers rely only on that.
 */
#include "ops/infer/build.h"

#include <assert.h>
#include <ctype.h>

/* ---- Labelled products ---- */

enum { LETTERS = 52, MAX_LABELS = LETTERS + MAX_RANK };

typedef struct Labels {
	int n;
	int at[MAX_RANK];
} Labels;

typedef struct EinsumProduct {
	int nops;
	Labels *op; /* one label for each dim */
	Labels out;
	Dim *extent[MAX_LABELS]; /* null: the label does not occur */
} EinsumProduct;

static void labels_add(Labels *l, int label)
{
	assert(l->n < MAX_RANK);
	l->at[l->n++] = label;
}

static bool labels_have(const Labels *l, int label)
{
	for (int i = 0; i < l->n; i++)
		if (l->at[i] == label)
			return true;
	return false;
}

/* B's element at the point whose index for each label is IDX[label]. */
static Expr *product_load(Kernel *k, const EinsumProduct *p, Buf *b, const Labels *l,
			  Expr *const *idx)
{
	Expr *at[MAX_RANK];

	for (int d = 0; d < b->rank; d++)
		at[d] = broadcast_index(k, b->dims[d], p->extent[l->at[d]], idx[l->at[d]]);
	return kernel_load(k, b, at);
}

/* out = sum over the labels that out lacks of A * B (B may be null). */
static void product_stmt(Kernel *k, const EinsumProduct *p, Buf *a, const Labels *la, Buf *b,
			 const Labels *lb, Buf *out, const Labels *lo)
{
	Expr *idx[MAX_LABELS] = {0}, *widx[MAX_RANK], *val;
	CType ct = dtype_ctype(out->dtype);
	Point band = {0}, red = {0};
	bool sum = false;
	char name[8] = "";

	for (int pass = 0; pass < 3; pass++) {
		const Labels *l = pass == 0 ? lo : pass == 1 ? la : lb;

		for (int i = 0; l && i < l->n; i++) {
			int at = l->at[i];

			if (idx[at])
				continue;
			snprintf(name, sizeof name, "%c",
				 at < 26        ? 'a' + at
				 : at < LETTERS ? 'A' + at - 26
						: 'g');
			sum |= pass > 0 && !dim_equals(p->extent[at], 1);
			idx[at] = point_add(k, pass ? &red : &band, name, p->extent[at]);
		}
	}
	for (int i = 0; i < lo->n; i++)
		widx[i] = idx[lo->at[i]];
	val = ex_cvt(k->pool, ct, product_load(k, p, a, la, idx));
	if (b)
		val = ex_op2(k->pool, IN_mul, val,
			     ex_cvt(k->pool, ct, product_load(k, p, b, lb, idx)));
	if (sum)
		point_reduce(k, MONOID_sum, &band, &red, out, widx, val, NULL);
	else
		point_map(k, &band, out, widx, val, NULL);
}

/* The labels of A and of operand NEXT that the result or a later operand needs. False if there
 * are more than a tensor may have dims. */
static bool labels_kept(const EinsumProduct *p, const Labels *a, int next, Labels *out)
{
	*out = (Labels){0};
	for (int pass = 0; pass < 2; pass++) {
		const Labels *l = pass ? &p->op[next] : a;

		for (int i = 0; i < l->n; i++) {
			bool need = labels_have(&p->out, l->at[i]);

			for (int j = next + 1; j < p->nops; j++)
				need |= labels_have(&p->op[j], l->at[i]);
			if (!need || labels_have(out, l->at[i]))
				continue;
			if (out->n == MAX_RANK)
				return false;
			labels_add(out, l->at[i]);
		}
	}
	return true;
}

/* Whether all intermediate products, from left to right, have few enough dims. */
static bool product_fits(const EinsumProduct *p)
{
	Labels a = p->op[0], t;

	for (int i = 1; i < p->nops - 1; i++) {
		if (!labels_kept(p, &a, i, &t))
			return false;
		a = t;
	}
	return true;
}

/* Writes P over the kernel's operands into OUT, multiplying two at a time from left to right. */
static void product_lower(Kernel *k, const EinsumProduct *p, Buf *out)
{
	Buf *a = lower_in(k, 0);
	Labels la = p->op[0], lt;
	bool direct = acc_dtype(out->dtype) == out->dtype;
	Buf *acc = direct ? out : acc_buf(k, out, false);
	Point all = {0};
	Expr *idx[MAX_RANK];

	for (int i = 1; i < p->nops - 1; i++) {
		Dim *dims[MAX_RANK];
		Buf *t;

		labels_kept(p, &la, i, &lt);
		for (int d = 0; d < lt.n; d++)
			dims[d] = p->extent[lt.at[d]];
		t = kernel_temp(k, "part", acc_dtype(out->dtype), lt.n, dims);
		product_stmt(k, p, a, &la, lower_in(k, i), &p->op[i], t, &lt);
		a = t;
		la = lt;
	}
	if (p->nops > 1)
		product_stmt(k, p, a, &la, lower_in(k, p->nops - 1), &p->op[p->nops - 1], acc,
			     &p->out);
	else
		product_stmt(k, p, a, &la, NULL, NULL, acc, &p->out);
	if (direct)
		return;
	point_add_dims(k, &all, out, idx);
	point_map(k, &all, out, idx, kernel_load(k, acc, idx), NULL);
}

/* ---- MatMul ---- */

enum { LABEL_K = 'k' - 'a', LABEL_M = 'm' - 'a', LABEL_N = 'n' - 'a' };

/* Labels of a MatMul: a 1-D operand has no m or no n; leading dims are aligned at their ends. */
static void matmul_labels(Arena *a, int ra, int rb, EinsumProduct *p)
{
	int ba = ra > 2 ? ra - 2 : 0, bb = rb > 2 ? rb - 2 : 0, batch = ba > bb ? ba : bb;

	*p = (EinsumProduct){.nops = 2, .op = NEW_ARRAY(a, 2, Labels)};
	for (int i = 0; i < batch; i++) {
		if (i >= batch - ba)
			labels_add(&p->op[0], LETTERS + i);
		if (i >= batch - bb)
			labels_add(&p->op[1], LETTERS + i);
		labels_add(&p->out, LETTERS + i);
	}
	if (ra > 1) {
		labels_add(&p->op[0], LABEL_M);
		labels_add(&p->out, LABEL_M);
	}
	labels_add(&p->op[0], LABEL_K);
	labels_add(&p->op[1], LABEL_K);
	if (rb > 1) {
		labels_add(&p->op[1], LABEL_N);
		labels_add(&p->out, LABEL_N);
	}
}

static bool infer_matmul(Infer *in, Node *n)
{
	const Type *a = infer_type(n, 0), *b = infer_type(n, 1);
	Dim *dims[MAX_RANK + 2];
	int rank;

	if (!contract_types(in, n))
		return false;
	if (!a->rank || !b->rank)
		return infer_error(in, n, "an operand is a scalar; both need rank 1 or more");
	if (!infer_equal_dims(in, n, &a->dims[a->rank - 1], &b->dims[b->rank > 1 ? b->rank - 2 : 0],
			      "inner dimensions differ"))
		return false;
	rank = infer_broadcast(in, n, a->dims, a->rank > 2 ? a->rank - 2 : 0, b->dims,
			       b->rank > 2 ? b->rank - 2 : 0, dims);
	if (rank < 0)
		return false;
	if (a->rank > 1)
		dims[rank++] = a->dims[a->rank - 2];
	if (b->rank > 1)
		dims[rank++] = b->dims[b->rank - 1];
	return infer_result(in, n, 0, a->dtype, rank, dims);
}

/* A dim in its constant form, if either side has one. */
static Dim *known_dim(Dim *a, Dim *b)
{
	return dim_is_const(a, NULL) ? a : b;
}

static void lower_matmul(Infer *in, Node *n, Kernel *k)
{
	Buf *a = lower_in(k, 0), *b = lower_in(k, 1), *out = lower_out(k, 0);
	EinsumProduct p;

	(void)n;
	matmul_labels(infer_arena(in), a->rank, b->rank, &p);
	p.extent[LABEL_K] = known_dim(a->dims[a->rank - 1], b->dims[b->rank > 1 ? b->rank - 2 : 0]);
	for (int i = 0; i < out->rank; i++)
		p.extent[p.out.at[i]] = out->dims[i];
	product_lower(k, &p, out);
}

/* ---- Gemm ---- */

static void gemm_labels(Arena *a, Node *n, EinsumProduct *p)
{
	bool ta = node_int(n, "transA", 0) != 0, tb = node_int(n, "transB", 0) != 0;

	*p = (EinsumProduct){.nops = 2, .op = NEW_ARRAY(a, 2, Labels)};
	p->op[0] = (Labels){2, {ta ? LABEL_K : LABEL_M, ta ? LABEL_M : LABEL_K}};
	p->op[1] = (Labels){2, {tb ? LABEL_N : LABEL_K, tb ? LABEL_K : LABEL_N}};
	p->out = (Labels){2, {LABEL_M, LABEL_N}};
}

static void gemm_extents(const EinsumProduct *p, int op, Dim *const *dims, Dim **extent)
{
	for (int d = 0; d < 2; d++)
		extent[p->op[op].at[d]] = dims[d];
}

static bool infer_gemm(Infer *in, Node *n)
{
	const Type *a = infer_type(n, 0), *b = infer_type(n, 1), *c = infer_type(n, 2);
	Dim *ea[LETTERS], *eb[LETTERS], *dims[MAX_RANK], *whole[2];
	EinsumProduct p;

	if (!contract_types(in, n))
		return false;
	if (a->rank != 2 || b->rank != 2)
		return infer_error(in, n, "operands have rank %d and %d, not 2", a->rank, b->rank);
	gemm_labels(infer_arena(in), n, &p);
	gemm_extents(&p, 0, a->dims, ea);
	gemm_extents(&p, 1, b->dims, eb);
	if (!infer_equal_dims(in, n, &a->dims[node_int(n, "transA", 0) ? 0 : 1],
			      &b->dims[node_int(n, "transB", 0) ? 1 : 0],
			      "inner dimensions differ"))
		return false;
	whole[0] = ea[LABEL_M];
	whole[1] = eb[LABEL_N];
	if (c && c->rank > 2)
		return infer_error(in, n, "C has rank %d, more than 2", c->rank);
	if (c && infer_broadcast(in, n, c->dims, c->rank, whole, 2, dims) < 0)
		return false;
	for (int d = 0; c && d < 2; d++)
		if (!infer_equal_shown(
			    in, n, dims[d], whole[d], "C does not broadcast to the product",
			    (FactSize){arena_printf(infer_arena(in), "dim %d of the product is", d),
				       whole[d]},
			    (FactSize){"with C it is", dims[d]}))
			return false;
	return infer_result(in, n, 0, a->dtype, 2, whole);
}

/* V * FACTOR in the type of V; computed in f64 if V is an integer and FACTOR is not. */
static Expr *scaled(ExprPool *p, Expr *v, float factor)
{
	if (factor == 1.0F)
		return v;
	if (ctype_is_float(v->ct) || factor == (float)(int32_t)factor)
		return ex_op2(p, IN_mul, v, ex_num(p, v->ct, (double)factor));
	return ex_cvt(p, v->ct,
		      ex_op2(p, IN_mul, ex_cvt(p, CT_F64, v), ex_num(p, CT_F64, (double)factor)));
}

static Expr *load_at(Kernel *k, Buf *b, const Buf *out, Expr *const *idx)
{
	Expr *at[MAX_RANK];
	int lead = out->rank - b->rank;

	for (int d = 0; d < b->rank; d++)
		at[d] = broadcast_index(k, b->dims[d], out->dims[lead + d], idx[lead + d]);
	return kernel_load(k, b, at);
}

static void lower_gemm(Infer *in, Node *n, Kernel *k)
{
	Buf *a = lower_in(k, 0), *b = lower_in(k, 1), *c = lower_in(k, 2), *out = lower_out(k, 0),
	    *acc;
	float alpha = node_float(n, "alpha", 1.0F), beta = node_float(n, "beta", 1.0F);
	Dim *ea[LETTERS], *eb[LETTERS];
	Expr *idx[2], *val;
	Point all = {0};
	EinsumProduct p;

	if (beta == 0.0F)
		c = NULL;
	gemm_labels(infer_arena(in), n, &p);
	gemm_extents(&p, 0, a->dims, ea);
	gemm_extents(&p, 1, b->dims, eb);
	p.extent[LABEL_M] = out->dims[0];
	p.extent[LABEL_N] = out->dims[1];
	p.extent[LABEL_K] = known_dim(ea[LABEL_K], eb[LABEL_K]);
	acc = acc_buf(k, out, alpha == 1.0F && !c);
	product_stmt(k, &p, a, &p.op[0], b, &p.op[1], acc, &p.out);
	if (acc == out)
		return;
	point_add_dims(k, &all, out, idx);
	val = scaled(k->pool, kernel_load(k, acc, idx), alpha);
	if (c)
		val = ex_op2(k->pool, IN_add, val, scaled(k->pool, load_at(k, c, out, idx), beta));
	point_map(k, &all, out, idx, val, NULL);
}

/* ---- Einsum ---- */

static int letter_label(char c)
{
	return islower((unsigned char)c) ? c - 'a' : c - 'A' + 26;
}

/* Reads one term at *S, up to ',' or '-' or the end. The e dims of an ellipsis have the labels
 * LETTERS + [WIDTH - e, WIDTH). RANK -1: the term is the result's, where an ellipsis stands for
 * all WIDTH dims. */
static const char *einsum_term(const char **s, int rank, int width, Labels *out)
{
	const char *p = *s;
	int letters = 0, e;

	for (const char *q = p; *q && *q != ',' && *q != '-'; q++)
		letters += isalpha((unsigned char)*q) != 0;
	e = rank < 0 ? width : rank - letters;
	*out = (Labels){0};
	for (; *p && *p != ',' && *p != '-'; p++) {
		if (*p == ' ')
			continue;
		if (*p == '.') {
			if (p[1] != '.' || p[2] != '.' || e < 0 || out->n + e > MAX_RANK ||
			    e > width)
				return "an ellipsis is misplaced";
			for (int i = 0; i < e; i++)
				labels_add(out, LETTERS + width - e + i);
			e = -1;
			p += 2;
		} else if (isalpha((unsigned char)*p)) {
			if (out->n == MAX_RANK)
				return "a term has too many letters";
			labels_add(out, letter_label(*p));
		} else {
			return "the equation has a character that is not a letter";
		}
	}
	*s = p;
	return rank >= 0 && out->n != rank ? "a term's letters and its operand's rank differ"
					   : NULL;
}

/* The result without "->": an ellipsis, then the letters that occur once, in alphabetical order. */
static const char *einsum_implicit(EinsumProduct *p, int width)
{
	for (int i = 0; i < width; i++)
		labels_add(&p->out, LETTERS + i);
	for (int i = 0; i < LETTERS; i++) {
		int label = (i + 26) % LETTERS, seen = 0;

		for (int o = 0; o < p->nops; o++)
			for (int d = 0; d < p->op[o].n; d++)
				seen += p->op[o].at[d] == label;
		if (seen != 1)
			continue;
		if (p->out.n == MAX_RANK)
			return "the result has too many dims";
		labels_add(&p->out, label);
	}
	return NULL;
}

static int einsum_width(Node *n, const char *s)
{
	int width = 0;

	for (int i = 0; i < n->nin && *s; i++) {
		int letters = 0;
		bool dots = false;

		for (; *s && *s != ',' && *s != '-'; s++) {
			letters += isalpha((unsigned char)*s) != 0;
			dots |= *s == '.';
		}
		if (dots && infer_type(n, i)->rank - letters > width)
			width = infer_type(n, i)->rank - letters;
		s += *s == ',';
	}
	return width;
}

/* Reads the equation as labels; returns a message if it is wrong, else null. */
static const char *einsum_parse(Arena *a, Node *n, EinsumProduct *p)
{
	const char *s = node_str(n, "equation", ""), *err;
	int width = einsum_width(n, s);

	*p = (EinsumProduct){.nops = n->nin, .op = NEW_ARRAY(a, n->nin, Labels)};
	for (int i = 0; i < n->nin; i++) {
		if (i && *s++ != ',')
			return "the equation has fewer terms than there are operands";
		err = einsum_term(&s, infer_type(n, i)->rank, width, &p->op[i]);
		if (err)
			return err;
	}
	if (!*s)
		return einsum_implicit(p, width);
	if (s[0] != '-' || s[1] != '>')
		return "the equation has more terms than there are operands";
	s += 2;
	err = einsum_term(&s, -1, width, &p->out);
	if (err || *s)
		return err ? err : "the equation has a second result";
	for (int i = 0; i < p->out.n; i++)
		for (int j = 0; j < i; j++)
			if (p->out.at[i] == p->out.at[j])
				return "a letter stands twice in the result";
	return NULL;
}

/* Whether dim D of operand O has the label of an earlier dim of that operand, whose diagonal is
 * then taken, as *FIRST. */
static bool repeats_label(const EinsumProduct *p, int o, int d, int *first)
{
	for (*first = 0; *first < d; ++*first)
		if (p->op[o].at[*first] == p->op[o].at[d])
			return true;
	return false;
}

/* Sets the extents of all labels. Dims of 1 broadcast, even those of a letter, as in NumPy. */
static bool einsum_extents(Infer *in, Node *n, EinsumProduct *p)
{
	int first;

	for (int o = 0; o < p->nops; o++) {
		Dim **dims = infer_type(n, o)->dims;

		for (int d = 0; d < p->op[o].n; d++) {
			Dim **e = &p->extent[p->op[o].at[d]];

			if (repeats_label(p, o, d, &first)
				    ? !infer_equal_dims(in, n, &dims[d], &dims[first],
							"dims of one letter of a term differ")
				    : *e && infer_broadcast(in, n, e, 1, &dims[d], 1, e) < 0)
				return false;
			if (!*e)
				*e = dims[d];
		}
	}
	return true;
}

static bool infer_einsum(Infer *in, Node *n)
{
	Dim *dims[MAX_RANK];
	const char *err;
	EinsumProduct p;

	if (!contract_types(in, n))
		return false;
	err = einsum_parse(infer_arena(in), n, &p);
	if (err)
		return infer_error(in, n, "equation \"%s\": %s", node_str(n, "equation", ""), err);
	if (!einsum_extents(in, n, &p))
		return false;
	for (int i = 0; i < p.out.n; i++) {
		dims[i] = p.extent[p.out.at[i]];
		if (!dims[i])
			return infer_error(in, n,
					   "equation \"%s\": a letter of the result is in no term",
					   node_str(n, "equation", ""));
	}
	if (!product_fits(&p))
		return infer_error(
			in, n,
			"the product of the operands has more than %d dims before it is summed, which is not supported",
			MAX_RANK);
	return infer_result(in, n, 0, infer_type(n, 0)->dtype, p.out.n, dims);
}

static void lower_einsum(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	EinsumProduct p;

	einsum_parse(infer_arena(in), n, &p);
	einsum_extents(in, n, &p);
	for (int i = 0; i < out->rank; i++)
		p.extent[p.out.at[i]] = out->dims[i];
	product_lower(k, &p, out);
}

static WeightsAxes matmul_weights_axes(const Node *n)
{
	const int rank = node_in(n, 1)->type->rank;

	return (WeightsAxes){rank - 1, node_in(n, 0)->type->rank - 1, rank - 2};
}

static WeightsAxes gemm_weights_axes(const Node *n)
{
	const int columns = node_int(n, "transB", 0) ? 0 : 1;

	return (WeightsAxes){columns, node_int(n, "transA", 0) ? 0 : 1, 1 - columns};
}

const Op op_MatMul = {
	.infer = infer_matmul,
	.lower = lower_matmul,
	.types = "fiu",
	.weights_axes = matmul_weights_axes,
};
const Op op_Gemm = {
	.infer = infer_gemm,
	.lower = lower_gemm,
	.types = "fiu",
	.weights_axes = gemm_weights_axes,
	.attrs = "alpha: float, beta: float, transA: int, transB: int",
};
const Op op_Einsum = {
	.infer = infer_einsum,
	.lower = lower_einsum,
	.types = "fiu",
	.doc = "at most 16 dims in a product of some of the operands",
	.attrs = "equation: string",
};
