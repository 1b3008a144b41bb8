/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tree ensembles of ai.onnx.ml: TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier. All
 * are composites of Descend, which leads every row through every tree to a leaf, and a reduction
 * over the trees.
 *
 * Descend makes `steps` steps in every tree, without a branch: a leaf leads to itself. A node is a
 * word of 64 bits, so that a step loads it and one feature:
 *
 *     slot = child(word[slot]) + (feature(word[slot]) <= threshold(word[slot]))
 *
 * The two children of a node have slots in a row. A node with several parents has a slot for each,
 * with equal words. The roots have the first slots. Starting at the low bits, a word has the
 * threshold as f32, a bit that negates the feature, the number of the feature, and the slot of the
 * first child. Thresholds of f64 are a separate operand. If the other fields do not fit into 32
 * bits, the thresholds are also a separate operand, of f64. The threshold of a leaf is NaN.
 */
#include "ops/infer/build.h"
#include "ops/infer/infer.h"
#include "ops/ml/ml.h"
#include "ops/ml/ml_forest.h"

#include <math.h>

enum { X, NODES, THRESHOLDS, RESULTS, FROM };

/* ---- Descend ---- */

static bool infer_descend(Infer *in, Node *n)
{
	const Type *x = infer_type(n, X), *nodes = infer_type(n, NODES);
	const Type *t = infer_type(n, THRESHOLDS), *y = infer_type(n, RESULTS);
	const Type *from = infer_type(n, FROM);
	int64_t bits = node_int(n, "feature_bits", 0), trees = node_int(n, "trees", 0);
	Dim *dims[2];

	if (x->rank != 2 || x->dtype != (t ? DT_F64 : DT_F32) || nodes->rank != 1 ||
	    nodes->dtype != DT_U64 || (t && (t->rank != 1 || t->dtype != DT_F64)) ||
	    (y && y->rank != 1) || (from && (from->rank != 2 || from->dtype != DT_I64)) ||
	    bits < 0 || bits > 31 || trees < 0)
		return infer_error(in, n, "the operands are not trees");
	dims[0] = x->dims[0];
	dims[1] = dim_const(infer_ctx(in), trees);
	return infer_result(in, n, 0, y ? y->dtype : DT_I64, 2, dims);
}

/* The bits of E, of u64, from number AT on, up to 32 of them. */
static Expr *high_bits(ExprPool *p, Expr *e, int at)
{
	return at ? ex_op2(p, IN_shr, e, ex_int(p, CT_U64, at)) : e;
}

static Expr *masked(ExprPool *p, Expr *e, int bits)
{
	return ex_op2(p, IN_and, e, ex_int(p, CT_U64, (INT64_C(1) << bits) - 1));
}

/* -V where the lowest bit of WORD is set. */
static Expr *negated_if(ExprPool *p, Expr *v, Expr *word)
{
	const bool f64 = v->ct == CT_F64;
	const CType bits = f64 ? CT_U64 : CT_U32;
	Expr *sign = f64 ? word : ex_cvt(p, CT_U32, masked(p, word, 32));

	sign = ex_op2(p, IN_shl, sign, ex_int(p, bits, f64 ? 63 : 31));
	return ex_bits(p, v->ct, ex_op2(p, IN_xor, ex_bits(p, bits, v), sign));
}

/* The slot after SLOT, for the row at index ROW of the features. */
static Expr *step(Kernel *k, Node *n, Expr *row, Expr *slot)
{
	ExprPool *p = k->pool;
	Buf *thresholds = lower_in(k, THRESHOLDS);
	const int feature_bits = (int)node_int(n, "feature_bits", 0);
	const bool flips = node_int(n, "flips", 0) != 0;
	Expr *word = kernel_load(k, lower_in(k, NODES), &slot), *rest, *at[2], *v, *t;

	t = thresholds ? kernel_load(k, thresholds, &slot)
		       : ex_bits(p, CT_F32, ex_cvt(p, CT_U32, masked(p, word, 32)));
	rest = high_bits(p, word, thresholds ? 0 : 32);
	at[0] = row;
	at[1] = ex_cvt(p, CT_I64, masked(p, high_bits(p, rest, flips), feature_bits));
	v = kernel_load(k, lower_in(k, X), at);
	if (flips)
		v = negated_if(p, v, rest);
	return ex_add(p, ex_cvt(p, CT_I64, high_bits(p, rest, flips + feature_bits)),
		      ex_cvt(p, CT_I64, ex_op2(p, IN_le, v, t)));
}

/* The slot that step number FROM and those after it lead to from SLOT. A step that does not move
 * has reached a leaf. This is tested occasionally, since most paths end long before the longest
 * one. */
static Expr *steps(Kernel *k, Node *n, Expr *row, Expr *slot, int64_t from)
{
	enum { FIRST_TEST = 8, EACH = 4 };
	ExprPool *p = k->pool;
	const int64_t count = node_int(n, "steps", 0);
	Expr *next, *last;

	if (from >= count)
		return slot;
	next = step(k, n, row, slot);
	last = steps(k, n, row, next, ++from);
	if (from < FIRST_TEST || from % EACH || from + 1 >= count)
		return last;
	return ex_op3(p, IN_select, ex_op2(p, IN_eq, next, slot), next, last);
}

static void lower_descend(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0), *from = lower_in(k, FROM), *results = lower_in(k, RESULTS);
	Point p = {0};
	Expr *at[MAX_RANK], *slot;

	(void)in;
	point_add_dims(k, &p, out, at);
	slot = from ? kernel_load(k, from, at) : at[1];
	slot = steps(k, n, at[0], slot, 0);
	point_map(k, &p, out, at, results ? kernel_load(k, results, &slot) : slot, NULL);
}

const Op op_Descend = {.infer = infer_descend, .lower = lower_descend};

/* ---- The tables ---- */

/* How many steps one Descend makes: enough that the slots between two of them hardly matter. */
enum { STEPS = 32 };

/* The most weights that a table of leaves may have. */
enum { MOST_WEIGHTS = 1 << 28 };

/* The tables of a forest. */
typedef struct Trees {
	Infer *in;
	Node *n;
	const Forest *f;
	const Decisions *d;
	DType real; /* of the features, the thresholds and the weights */
	int *order; /* the trees, in the order of their results; -1: a tree without votes */
	int ntrees; /* number of those */
	int *leaf;  /* of each slot: the number of the leaf, or -1 */
	int64_t nslots;
	uint64_t *word;
	double *threshold;
	int feature_bits, steps;
	bool split; /* whether the thresholds are a separate operand */
} Trees;

static int bits_for(int64_t values)
{
	int bits = 0;

	while (bits < 62 && (INT64_C(1) << bits) < values)
		bits++;
	return bits;
}

/* Sets the word of SLOT, which is decision D; PAIR: the slots of the children of each decision. */
static void put_slot(Trees *t, int64_t slot, int d, const int64_t *pair)
{
	const DecisionNode *e = &t->d->at.at[d];
	const bool leaf = e->leaf >= 0;
	uint64_t child = (uint64_t)(leaf ? slot : pair[d]);
	int at = t->d->flips;

	t->leaf[slot] = e->leaf;
	t->threshold[slot] = leaf ? NAN : e->threshold;
	t->word[slot] = leaf ? 0 : (uint64_t)e->feature << at | (at ? (uint64_t)e->flip : 0);
	t->word[slot] |= child << (at + t->feature_bits);
}

static void put_threshold(Trees *t, int64_t slot)
{
	float v = (float)t->threshold[slot];
	uint32_t bits;

	memcpy(&bits, &v, sizeof bits);
	t->word[slot] = t->word[slot] << 32 | bits;
}

/* Assigns slots: first to the roots, then to the children of each tree's decisions, level by level.
 * PAIR gets the slots of each decision's children. Returns the queue of decisions. */
static int number_slots(Trees *t, int64_t *pair, int *queue)
{
	int done = 0, n = 0;

	t->nslots = t->ntrees;
	for (int i = 0; i < t->ntrees; i++) {
		int root = t->order[i] < 0 ? -1 : t->d->root[t->order[i]];

		if (root < 0 || t->d->at.at[root].leaf >= 0 || pair[root])
			continue;
		for (queue[n++] = root, pair[root] = -1; done < n; done++) {
			const DecisionNode *e = &t->d->at.at[queue[done]];

			pair[queue[done]] = t->nslots;
			t->nslots += 2;
			for (int k = 0; k < 2; k++)
				if (t->d->at.at[e->next[k]].leaf < 0 && !pair[e->next[k]]) {
					pair[e->next[k]] = -1;
					queue[n++] = e->next[k];
				}
		}
	}
	return n;
}

/* Makes the tables of the trees in their order. */
static void make_tables(Trees *t)
{
	Arena *a = infer_arena(t->in);
	int64_t *pair = NEW_ARRAY(a, t->d->at.n + 1, int64_t);
	int *queue = NEW_ARRAY(a, t->d->at.n + 1, int);
	int n = number_slots(t, pair, queue);

	t->feature_bits = bits_for(t->d->nfeatures);
	t->split = t->real == DT_F64 ||
		   t->d->flips + t->feature_bits + bits_for(t->nslots + 1) > 32;
	t->word = NEW_ARRAY(a, t->nslots + 1, uint64_t);
	t->threshold = NEW_ARRAY(a, t->nslots + 1, double);
	t->leaf = NEW_ARRAY(a, t->nslots + 1, int);
	for (int i = 0; i < t->ntrees; i++) {
		if (t->order[i] >= 0) {
			put_slot(t, i, t->d->root[t->order[i]], pair);
			if (t->d->at.at[t->d->root[t->order[i]]].depth > t->steps)
				t->steps = t->d->at.at[t->d->root[t->order[i]]].depth;
			continue;
		}
		t->leaf[i] = -1;
		t->threshold[i] = NAN;
		t->word[i] = (uint64_t)i << (t->d->flips + t->feature_bits);
	}
	for (int i = 0; i < n; i++)
		for (int k = 0; k < 2; k++)
			put_slot(t, pair[queue[i]] + k, t->d->at.at[queue[i]].next[k], pair);
	for (int64_t i = 0; i < t->nslots && !t->split; i++)
		put_threshold(t, i);
}

static Value *words(Trees *t)
{
	Tensor *c = tensor_new(infer_arena(t->in), DT_U64, 1, &t->nslots);

	c->data = t->word;
	return expand_tensor(t->in, t->n, c);
}

/* Descends the trees from ROWS; the result is RESULTS at the slot of each leaf, [N, trees]. */
static Value *descend(Trees *t, Value *rows, Value *results)
{
	Value *in[5] = {expand_cast(t->in, t->n, rows, t->split ? DT_F64 : DT_F32), words(t)};
	int left = t->steps;

	if (t->split)
		in[THRESHOLDS] = ml_vector(t->in, t->n, DT_F64, t->threshold, t->nslots);
	do {
		int nin = in[FROM] ? 5 : left <= STEPS ? 4 : in[THRESHOLDS] ? 3 : 2;
		Node *m;

		in[RESULTS] = left <= STEPS ? results : NULL;
		m = expand_start(t->in, t->n, OP_Descend, in, nin, 1);
		node_set_int(m, "feature_bits", t->feature_bits);
		node_set_int(m, "flips", t->d->flips);
		node_set_int(m, "steps", left < STEPS ? left : STEPS);
		node_set_int(m, "trees", t->ntrees);
		in[FROM] = expand_finish(t->in, m);
		left -= STEPS;
	} while (left > 0);
	return in[FROM];
}

Value *ml_lookup(Infer *in, Node *n, Value *x, const double *keys, int count, const Tensor *results)
{
	const Type *t = x->type;
	const bool f64 = t->dtype != DT_F32 && t->dtype != DT_F16;
	int tree = 0;
	Trees trees = {
		.in = in, .n = n, .real = f64 ? DT_F64 : DT_F32, .order = &tree, .ntrees = 1};
	Dim *dims[2] = {dims_product(infer_ctx(in), t->dims, t->rank), dim_const(infer_ctx(in), 1)};
	Tensor *at_slot;
	char *data;
	size_t size = (size_t)dtype_size(results->dtype, 1);
	Value *v;

	trees.d = forest_of_keys(in, keys, count, f64);
	make_tables(&trees);
	at_slot = tensor_new(infer_arena(in), results->dtype, 1, &trees.nslots);
	data = NEW_ARRAY(infer_arena(in), (size_t)trees.nslots * size + 1, char);
	for (int64_t s = 0; s < trees.nslots; s++)
		if (trees.leaf[s] >= 0)
			memcpy(data + (size_t)s * size,
			       (const char *)results->data + (size_t)trees.leaf[s] * size, size);
	at_slot->data = data;
	v = expand_cast(in, n, expand_reshape(in, n, x, dims, 2), trees.real);
	v = descend(&trees, v, expand_tensor(in, n, at_slot));
	return expand_reshape(in, n, v, t->dims, t->rank);
}

/* ---- Votes ---- */

typedef enum Aggregate { AVERAGE, SUM, MIN, MAX } Aggregate; /* as TreeEnsemble numbers them */

/* The contribution of a leaf without a vote for a target. */
static double identity(Aggregate how)
{
	return how == MIN ? (double)INFINITY : how == MAX ? -(double)INFINITY : 0;
}

static double combine(Aggregate how, double a, double b)
{
	return how == MIN ? (b < a ? b : a) : how == MAX ? (b > a ? b : a) : a + b;
}

/* The contribution of leaf K to TARGET; *VOTES, unless null, is set if it votes for it. */
static double weight_of(const Forest *f, int k, int64_t target, Aggregate how, bool *votes)
{
	double w = identity(how);

	for (int i = k < 0 ? 0 : f->first[k]; k >= 0 && i < f->first[k + 1]; i++)
		if (f->votes[i].target == target) {
			w = combine(how, w, f->votes[i].weight);
			if (votes)
				*votes = true;
		}
	return w;
}

/* The only target that the leaves of each tree vote for, in OF: -1, none; -2, several. ALWAYS
 * gets the targets for which all leaves of some tree vote. */
static void voted(const Trees *t, int64_t *of, bool *always)
{
	const Forest *f = t->f;
	ARENA_LOCAL(tmp);
	int *seen = NEW_ARRAY(tmp, t->d->at.n + 1, int),
	    *path = NEW_ARRAY(tmp, 2 * t->d->at.n + 2, int);
	int *leaves = NEW_ARRAY(tmp, f->ntargets + 1, int),
	    *last = NEW_ARRAY(tmp, f->ntargets + 1, int);

	for (int i = 0; i < f->roots.n; i++) {
		int n = 0, nleaves = 0;

		of[i] = -1;
		memset(leaves, 0, (size_t)f->ntargets * sizeof *leaves);
		memset(last, -1, (size_t)f->ntargets * sizeof *last);
		seen[t->d->root[i]] = i + 1;
		for (path[n++] = t->d->root[i]; n;) {
			const DecisionNode *e = &t->d->at.at[path[--n]];

			for (int k = 0; k < 2 && e->leaf < 0; k++)
				if (seen[e->next[k]] != i + 1) {
					seen[e->next[k]] = i + 1;
					path[n++] = e->next[k];
				}
			if (e->leaf < 0)
				continue;
			nleaves++;
			for (int v = f->first[e->leaf]; v < f->first[e->leaf + 1]; v++) {
				int64_t target = f->votes[v].target;

				of[i] = of[i] == -1 || of[i] == target ? target : -2;
				leaves[target] += last[target] != e->leaf;
				last[target] = e->leaf;
			}
		}
		for (int64_t c = 0; c < f->ntargets; c++)
			always[c] = always[c] || leaves[c] == nleaves;
	}
}

/* Orders the trees by their only target, and pads each target's list to the same length *EACH.
 * False where that is not possible, or makes many more trees. */
static bool group_by_target(Trees *t, const int64_t *of, int *each)
{
	ARENA_LOCAL(tmp);
	const int64_t ntargets = t->f->ntargets;
	int *have = NEW_ARRAY(tmp, ntargets + 1, int);
	bool ok = true;

	*each = 0;
	for (int i = 0; i < t->f->roots.n && ok; i++) {
		int64_t c = of[i] < 0 ? 0 : of[i];

		ok = of[i] != -2;
		*each = ++have[c] > *each ? have[c] : *each;
	}
	ok = ok && ntargets * *each <= 2 * (int64_t)t->f->roots.n;
	if (ok) {
		t->ntrees = (int)(ntargets * *each);
		t->order = NEW_ARRAY(infer_arena(t->in), t->ntrees + 1, int);
		memset(t->order, -1, (size_t)t->ntrees * sizeof *t->order);
		memset(have, 0, (size_t)ntargets * sizeof *have);
		for (int i = 0; i < t->f->roots.n; i++) {
			int64_t c = of[i] < 0 ? 0 : of[i];

			t->order[c * *each + have[c]++] = i;
		}
	}
	return ok;
}

static Value *reduced(Trees *t, Value *v, int64_t axis, Aggregate how)
{
	OpKind op = how == MIN ? OP_ReduceMin : how == MAX ? OP_ReduceMax : OP_ReduceSum;

	return expand_reduce(t->in, t->n, op, v, axis, false);
}

/* The scores if each tree votes for one target: a slot gives the weight itself. */
static Value *grouped_scores(Trees *t, Value *rows, Aggregate how, int each)
{
	double *w;
	Value *v;
	Dim *dims[3];

	make_tables(t);
	w = NEW_ARRAY(infer_arena(t->in), t->nslots + 1, double);
	for (int64_t s = 0; s < t->nslots; s++) {
		w[s] = identity(how);
		for (int i = t->leaf[s] < 0 ? 0 : t->f->first[t->leaf[s]];
		     t->leaf[s] >= 0 && i < t->f->first[t->leaf[s] + 1]; i++)
			w[s] = combine(how, w[s], t->f->votes[i].weight);
	}
	v = descend(t, rows, ml_vector(t->in, t->n, t->real, w, t->nslots));
	dims[0] = v->type->dims[0];
	dims[1] = dim_const(infer_ctx(t->in), t->f->ntargets);
	dims[2] = dim_const(infer_ctx(t->in), each);
	return reduced(t, expand_reshape(t->in, t->n, v, dims, 3), 2, how);
}

/* The table W, [leaves, targets]. */
static Value *leaf_table(Trees *t, const double *w)
{
	Value *v = ml_vector(t->in, t->n, t->real, w, t->f->nleaves * t->f->ntargets);
	Dim *dims[2] = {dim_const(infer_ctx(t->in), t->f->nleaves),
			dim_const(infer_ctx(t->in), t->f->ntargets)};

	return expand_reshape(t->in, t->n, v, dims, 2);
}

/* The scores where a tree votes for several targets: a slot results in the number of the leaf,
 * whose row of weights is added. *ANY, unless ANY is null, gets whether any tree has voted for
 * the target. */
static Value *table_scores(Trees *t, Value *rows, Aggregate how, Value **any)
{
	const Forest *f = t->f;
	const int64_t size = f->nleaves * f->ntargets;
	Arena *a = infer_arena(t->in);
	double *w = NEW_ARRAY(a, size + 1, double), *votes = NEW_ARRAY(a, size + 1, double);
	double *leaf;
	Value *v;

	t->ntrees = f->roots.n;
	t->order = NEW_ARRAY(a, t->ntrees + 1, int);
	for (int i = 0; i < t->ntrees; i++)
		t->order[i] = i;
	make_tables(t);
	leaf = NEW_ARRAY(a, t->nslots + 1, double);
	for (int64_t s = 0; s < t->nslots; s++)
		leaf[s] = t->leaf[s] < 0 ? 0 : t->leaf[s];
	for (int k = 0; k < f->nleaves; k++)
		for (int64_t c = 0; c < f->ntargets; c++) {
			bool votes_here = false;

			w[k * f->ntargets + c] = weight_of(f, k, c, how, &votes_here);
			votes[k * f->ntargets + c] = votes_here;
		}
	v = descend(t, rows, ml_vector(t->in, t->n, DT_I32, leaf, t->nslots));
	if (any)
		*any = EXPAND(
			t->in, t->n, Greater,
			reduced(t, EXPAND(t->in, t->n, Gather, leaf_table(t, votes), v), 1, MAX),
			expand_scalar(t->in, t->n, t->real, 0));
	return reduced(t, EXPAND(t->in, t->n, Gather, leaf_table(t, w), v), 1, how);
}

/* The scores of F, [N, targets], in the type that features are compared in. *ANY gets whether
 * any tree has voted for a target, or null where one always has; it is needed only where WANTED,
 * or for a smallest or largest vote. */
static Value *scores(Infer *in, Node *n, const Forest *f, Aggregate how, bool wanted, Value **any)
{
	const bool f64 = ml_real(n) == DT_F64 || f->wide;
	Trees t = {.in = in, .n = n, .f = f, .real = f64 ? DT_F64 : DT_F32};
	const Type *x = infer_type(n, 0);
	Value *rows, *v;
	Dim *most;
	int64_t *of;
	bool *always, sure = how == SUM || how == AVERAGE;
	int each;

	*any = NULL;
	t.d = forest_decisions(in, n, f, f64);
	rows = t.d ? ml_rows(in, n, t.real) : NULL;
	if (!rows)
		return NULL;
	if (!f->roots.n) {
		infer_error(in, n, "has no trees");
		return NULL;
	}
	most = dim_const(infer_ctx(in), t.d->nfeatures);
	if (!infer_le_shown(in, n, most, rows->type->dims[1],
			    "the trees compare more features than there are",
			    (FactSize){"they compare", most},
			    infer_dim_shown(in, n, &x->dims[x->rank - 1])))
		return NULL;
	of = NEW_ARRAY(infer_arena(in), f->roots.n + 1, int64_t);
	always = NEW_ARRAY(infer_arena(in), f->ntargets + 1, bool);
	voted(&t, of, always);
	sure = sure && !wanted;
	if (!sure) {
		sure = true;
		for (int64_t c = 0; c < f->ntargets; c++)
			sure = sure && always[c];
	}
	if (sure && group_by_target(&t, of, &each))
		v = grouped_scores(&t, rows, how, each);
	else if (f->nleaves > MOST_WEIGHTS / f->ntargets) {
		infer_error(in, n, "%d leaves times %lld targets are too many", f->nleaves,
			    (long long)f->ntargets);
		return NULL;
	} else
		v = table_scores(&t, rows, how, sure ? NULL : any);
	if (how == AVERAGE)
		v = EXPAND(in, n, Div, v, expand_scalar(in, n, t.real, f->roots.n));
	if (*any && (how == MIN || how == MAX))
		v = EXPAND(in, n, Where, *any, v, expand_scalar(in, n, t.real, 0));
	return v;
}

/* V + the COUNT base values B. */
static Value *based(Infer *in, Node *n, Value *v, const double *b, int count)
{
	return count ? EXPAND(in, n, Add, v, ml_vector(in, n, v->type->dtype, b, count)) : v;
}

/* ---- The operators ---- */

static bool targets_of(Infer *in, Node *n, int64_t *out)
{
	if (!node_attr(n, "n_targets"))
		return infer_error(in, n, "attribute \"n_targets\" is missing");
	*out = node_int(n, "n_targets", 1);
	return (*out >= 1 && *out <= INT32_MAX) ||
	       infer_error(in, n, "n_targets is %lld", (long long)*out);
}

static bool expand_ensemble(Infer *in, Node *n, Value **out)
{
	int64_t how = node_int(n, "aggregate_function", SUM), targets;
	int64_t post = node_int(n, "post_transform", ML_NONE);
	Forest *f;
	Value *v, *any;

	if (how < AVERAGE || how > MAX || post < ML_NONE || post > ML_PROBIT)
		return infer_error(in, n, "aggregate_function is %lld and post_transform %lld",
				   (long long)how, (long long)post);
	if (!targets_of(in, n, &targets))
		return false;
	f = forest_of_ensemble(in, n, targets);
	v = f ? scores(in, n, f, (Aggregate)how, false, &any) : NULL;
	if (!v)
		return false;
	out[0] = expand_cast(in, n, ml_post(in, n, v, (MlPost)post), infer_type(n, 0)->dtype);
	return true;
}

static bool expand_regressor(Infer *in, Node *n, Value **out)
{
	static const char *const names[] = {"SUM", "AVERAGE", "MIN", "MAX"};
	static const Aggregate aggregates[] = {SUM, AVERAGE, MIN, MAX};
	int how, nbase;
	int64_t targets;
	double *base;
	MlPost post;
	Forest *f;
	Value *v, *any;

	if (!infer_choice(in, n, "aggregate_function", names, 4, &how) ||
	    !ml_post_of(in, n, &post) || !targets_of(in, n, &targets))
		return false;
	base = ml_numbers(in, n, "base_values", &nbase);
	if (base && nbase && nbase != targets)
		return infer_error(in, n, "has %d base values for %lld targets", nbase,
				   (long long)targets);
	f = base ? forest_of_nodes(in, n, "target", targets) : NULL;
	v = f ? scores(in, n, f, aggregates[how], false, &any) : NULL;
	if (!v)
		return false;
	v = ml_post(in, n, based(in, n, v, base, nbase), post);
	out[0] = expand_cast(in, n, v, DT_F32);
	return true;
}

/* The only class that any leaf of F votes for; -1 if there are several, or none. */
static int64_t only_class(const Forest *f)
{
	int64_t c = -1;

	for (int i = 0; i < f->first[f->nleaves]; i++) {
		if (c >= 0 && f->votes[i].target != c)
			return -1;
		c = f->votes[i].target;
	}
	return c;
}

static bool all_positive(const Forest *f)
{
	for (int i = 0; i < f->first[f->nleaves]; i++)
		if (f->votes[i].weight < 0)
			return false;
	return true;
}

/*
 * Two classes, where all votes are for class ONLY: they are the probability of the second class,
 * which wins above 1/2, or where there are negative weights, its margin, which wins above 0. Votes
 * for class 0 count for the second class, too. *S are the scores, [N, 2].
 */
static Value *two_classes(Infer *in, Node *n, const Forest *f, int64_t only, bool complement,
			  MlPost post, Value **s)
{
	const bool positive = all_positive(f);
	Value *v = expand_slice(in, n, *s, 1, only, only + 1, 1);

	*s = complement ? ml_two_scores(in, n, v, positive, post) : ml_post(in, n, *s, post);
	return ml_above(in, n, v, positive ? 0.5 : 0);
}

static bool expand_classifier(Infer *in, Node *n, Value **out)
{
	int classes, nbase;
	const Tensor *labels = ml_labels(in, n, "classlabels_int64s", "classlabels_strings",
					 &classes);
	double *base = !labels ? NULL : ml_numbers(in, n, "base_values", &nbase);
	bool complement;
	int64_t only;
	MlPost post;
	Forest *f;
	Value *v, *any, *best;

	if (!base || !ml_post_of(in, n, &post))
		return false;
	if (nbase && nbase != classes && (classes != 2 || nbase != 1))
		return infer_error(in, n, "has %d base values for %d classes", nbase, classes);
	f = forest_of_nodes(in, n, "class", classes);
	v = f ? scores(in, n, f, SUM, classes > 2 && !nbase, &any) : NULL;
	if (!v)
		return false;
	only = only_class(f);
	complement = classes == 2 && only == 0 && nbase < 2;
	if (nbase == classes || complement)
		v = based(in, n, v, base, nbase);
	if (classes == 1) {
		best = ml_above(in, n, v, 0);
		v = post == ML_PROBIT ? ml_post(in, n, v, post) : v;
	} else if (classes == 2 && only >= 0) {
		best = two_classes(in, n, f, only, complement, post, &v);
	} else {
		best = any ? EXPAND(in, n, Where, any, v,
				    expand_scalar(in, n, v->type->dtype, -(double)INFINITY))
			   : v;
		best = ml_best(in, n, best);
		v = ml_post(in, n, v, post);
	}
	out[0] = classes == 1 ? ml_only_label(in, n, labels, best)
			      : ml_label_of(in, n, labels, best);
	if (node_out(n, 1))
		out[1] = expand_cast(in, n, v, DT_F32);
	return true;
}

const Op op_ml_TreeEnsemble = {
	.expand = expand_ensemble,
	.types = "f",
	.doc = "post_transform is numbered as in the standard, unlike in ONNX Runtime, and also applied to a single score",
	.attrs = "aggregate_function: int, leaf_targetids: ints, leaf_weights: tensor, "
		 "membership_values: tensor, n_targets: int, nodes_falseleafs: ints, "
		 "nodes_falsenodeids: ints, nodes_featureids: ints, nodes_hitrates: tensor, "
		 "nodes_missing_value_tracks_true: ints, nodes_modes: tensor, "
		 "nodes_splits: tensor, nodes_trueleafs: ints, nodes_truenodeids: ints, "
		 "post_transform: int, tree_roots: ints",
};
const Op op_ml_TreeEnsembleRegressor = {
	.expand = expand_regressor,
	.types = "fi",
	.doc = "post_transform is also applied to a single score, unlike in ONNX Runtime",
	.attrs = "aggregate_function: string, base_values: floats, "
		 "base_values_as_tensor: tensor since 3, n_targets: int, "
		 "nodes_falsenodeids: ints, nodes_featureids: ints, nodes_hitrates: floats, "
		 "nodes_hitrates_as_tensor: tensor since 3, "
		 "nodes_missing_value_tracks_true: ints, nodes_modes: strings, "
		 "nodes_nodeids: ints, nodes_treeids: ints, nodes_truenodeids: ints, "
		 "nodes_values: floats, nodes_values_as_tensor: tensor since 3, "
		 "post_transform: string, target_ids: ints, target_nodeids: ints, "
		 "target_treeids: ints, target_weights: floats, "
		 "target_weights_as_tensor: tensor since 3",
};
const Op op_ml_TreeEnsembleClassifier = {
	.expand = expand_classifier, .types = "fi",
	.attrs = "base_values: floats, base_values_as_tensor: tensor since 3, class_ids: ints, "
		 "class_nodeids: ints, class_treeids: ints, class_weights: floats, "
		 "class_weights_as_tensor: tensor since 3, classlabels_int64s: ints, "
		 "classlabels_strings: strings, nodes_falsenodeids: ints, nodes_featureids: ints, "
		 "nodes_hitrates: floats, nodes_hitrates_as_tensor: tensor since 3, "
		 "nodes_missing_value_tracks_true: ints, nodes_modes: strings, "
		 "nodes_nodeids: ints, nodes_treeids: ints, nodes_truenodeids: ints, "
		 "nodes_values: floats, nodes_values_as_tensor: tensor since 3, "
		 "post_transform: string",
};
