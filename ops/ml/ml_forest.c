/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tree ensembles and rewrites their comparisons: see ml_forest.h. */
#include "ops/ml/ml_forest.h"

#include "ops/ml/ml.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_DEPTH = 4096, MOST_NODES = 1 << 28 };

static const char *const mode_names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
					 "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};

/* ---- Attributes ---- */

/* The list of ints NAME, which must have COUNT entries; null after a diagnostic. An empty list
 * is a valid pointer. */
static const int64_t *ints(Infer *in, Node *n, const char *name, int count)
{
	int have;
	const int64_t *v = node_ints(n, name, &have);

	if (have < 0)
		have = 0;
	if (have == count)
		return v ? v : NEW_ARRAY(infer_arena(in), 1, int64_t);
	infer_error(in, n, "attribute \"%s\" has %d entries, expected %d", name, have, count);
	return NULL;
}

/* The same for numbers, which are an attribute NAME or a tensor NAME_as_tensor. */
static const double *numbers(Infer *in, Node *n, const char *name, int count)
{
	int have;
	const double *v = ml_numbers(in, n, name, &have);

	if (v && have != count) {
		infer_error(in, n, "attribute \"%s\" has %d entries, expected %d", name, have,
			    count);
		return NULL;
	}
	return v;
}

static void note_wide(Forest *f, double v)
{
	f->wide = f->wide || (!isnan(v) && (double)(float)v != v);
}

static int count_of(const Node *n, const char *name)
{
	int have;

	node_ints(n, name, &have);
	return have < 0 ? 0 : have;
}

/* ---- Votes ---- */

/* Sorts the COUNT votes V of the leaves OF into the forest's lists. */
static bool put_votes(Infer *in, Node *n, Forest *f, const int *of, const Vote *v, int count)
{
	int *at;

	f->first = NEW_ARRAY(infer_arena(in), f->nleaves + 2, int);
	f->votes = NEW_ARRAY(infer_arena(in), count + 1, Vote);
	for (int i = 0; i < count; i++) {
		if (v[i].target < 0 || v[i].target >= f->ntargets)
			return infer_error(in, n, "a leaf votes for number %lld of %lld",
					   (long long)v[i].target, (long long)f->ntargets);
		note_wide(f, v[i].weight);
		if (of[i] >= 0)
			f->first[of[i] + 1]++;
	}
	for (int k = 0; k < f->nleaves; k++)
		f->first[k + 1] += f->first[k];
	at = arena_copy(infer_arena(in), f->first, (size_t)(f->nleaves + 1) * sizeof *at);
	for (int i = 0; i < count; i++)
		if (of[i] >= 0)
			f->votes[at[of[i]]++] = v[i];
	return true;
}

/* ---- TreeEnsembleRegressor, TreeEnsembleClassifier ---- */

/* A node's index in the model, from its tree's id and its own. */
typedef struct NodeId {
	int64_t tree, node;
	int at;
} NodeId;

static int compare_ids(const void *a, const void *b)
{
	const NodeId *x = a, *y = b;

	if (x->tree != y->tree)
		return x->tree < y->tree ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* The number of the node, or -1. */
static int find_node(const NodeId *ids, int count, int64_t tree, int64_t node)
{
	NodeId key = {tree, node, 0};
	const NodeId *found = bsearch(&key, ids, (size_t)count, sizeof key, compare_ids);

	return found ? found->at : -1;
}

/* The nodes by their ids; null after a diagnostic. */
static NodeId *sorted_ids(Infer *in, Node *n, const int64_t *tree, const int64_t *node, int count)
{
	NodeId *ids = NEW_ARRAY(infer_arena(in), count + 1, NodeId);

	for (int i = 0; i < count; i++)
		ids[i] = (NodeId){tree[i], node[i], i};
	qsort(ids, (size_t)count, sizeof *ids, compare_ids);
	for (int i = 1; i < count; i++)
		if (!compare_ids(&ids[i - 1], &ids[i])) {
			infer_error(in, n, "tree %lld has two nodes with the id %lld",
				    (long long)ids[i].tree, (long long)ids[i].node);
			return NULL;
		}
	return ids;
}

static int mode_of(const char *s)
{
	for (int m = LEQ; m <= LEAF; m++)
		if (!strcmp(s, mode_names[m]))
			return m;
	return -1;
}

/* Sets the modes of the nodes, and numbers the leaves. */
static bool read_modes(Infer *in, Node *n, Forest *f, int count)
{
	const Attr *a = node_attr(n, "nodes_modes");

	if (count && (!a || a->kind != ATTR_STRS || a->n != count))
		return infer_error(in, n, "attribute \"nodes_modes\" has %d entries, expected %d",
				   a && a->kind == ATTR_STRS ? a->n : 0, count);
	for (int i = 0; i < count; i++) {
		TreeNode t = {.mode = mode_of(a->ss[i]), .child = {-1, -1}};

		if (t.mode < 0 || t.mode == MEMBER)
			return infer_error(in, n, "a node has the mode \"%s\"", a->ss[i]);
		if (t.mode == LEAF)
			t.leaf = f->nleaves++;
		vec_push(infer_arena(in), &f->nodes, t);
	}
	return true;
}

/* The first node of each tree is its root. */
static void find_roots(Infer *in, Forest *f, const NodeId *ids, int count)
{
	for (int i = 0; i < count; i++)
		if (!i || ids[i].tree != ids[i - 1].tree)
			vec_push(infer_arena(in), &f->roots, ids[i].at);
		else if (ids[i].at < vec_last(&f->roots))
			vec_last(&f->roots) = ids[i].at;
}

static bool read_votes(Infer *in, Node *n, Forest *f, const char *votes, const NodeId *ids,
		       int count)
{
	Arena *a = infer_arena(in);
	int nvotes = count_of(n, arena_printf(a, "%s_ids", votes));
	const int64_t *tree = ints(in, n, arena_printf(a, "%s_treeids", votes), nvotes);
	const int64_t *node = ints(in, n, arena_printf(a, "%s_nodeids", votes), nvotes);
	const int64_t *target = ints(in, n, arena_printf(a, "%s_ids", votes), nvotes);
	const double *weight = numbers(in, n, arena_printf(a, "%s_weights", votes), nvotes);
	Vote *v = NEW_ARRAY(a, nvotes + 1, Vote);
	int *of = NEW_ARRAY(a, nvotes + 1, int), at;

	if (!tree || !node || !target || !weight)
		return false;
	for (int i = 0; i < nvotes; i++) {
		at = find_node(ids, count, tree[i], node[i]);
		if (at < 0)
			return infer_error(in, n,
					   "node %lld of tree %lld has a weight, but is "
					   "not in the ensemble",
					   (long long)node[i], (long long)tree[i]);
		v[i] = (Vote){target[i], weight[i]};
		of[i] = f->nodes.at[at].mode == LEAF ? f->nodes.at[at].leaf : -1;
	}
	return put_votes(in, n, f, of, v, nvotes);
}

Forest *forest_of_nodes(Infer *in, Node *n, const char *votes, int64_t ntargets)
{
	Forest *f = NEW(infer_arena(in), Forest);
	int count = count_of(n, "nodes_treeids");
	const int64_t *tree = ints(in, n, "nodes_treeids", count);
	const int64_t *node = ints(in, n, "nodes_nodeids", count);
	const int64_t *feature = ints(in, n, "nodes_featureids", count);
	const int64_t *yes = ints(in, n, "nodes_truenodeids", count);
	const int64_t *no = ints(in, n, "nodes_falsenodeids", count);
	const int64_t *missing = NULL;
	const double *value = numbers(in, n, "nodes_values", count);
	NodeId *ids;

	f->ntargets = ntargets;
	if (count_of(n, "nodes_missing_value_tracks_true"))
		missing = ints(in, n, "nodes_missing_value_tracks_true", count);
	if (!tree || !node || !feature || !yes || !no || !value ||
	    (!missing && count_of(n, "nodes_missing_value_tracks_true")) ||
	    !read_modes(in, n, f, count))
		return NULL;
	ids = sorted_ids(in, n, tree, node, count);
	if (!ids)
		return NULL;
	for (int i = 0; i < count; i++) {
		TreeNode *t = &f->nodes.at[i];

		if (t->mode == LEAF)
			continue;
		t->feature = feature[i];
		t->value = value[i];
		t->nan_true = missing && missing[i] == 1;
		t->child[0] = find_node(ids, count, tree[i], yes[i]);
		t->child[1] = find_node(ids, count, tree[i], no[i]);
		note_wide(f, t->value);
	}
	find_roots(in, f, ids, count);
	return read_votes(in, n, f, votes, ids, count) ? f : NULL;
}

/* ---- TreeEnsemble ---- */

/* Sets the members of the COUNT nodes, which are delimited by NaN in one list. */
static bool read_members(Infer *in, Node *n, Forest *f, int count)
{
	int have = 0, at = 0;
	double *v = node_attr(n, "membership_values") ? ml_tensor(in, n, "membership_values", &have)
						      : NULL;

	if (node_attr(n, "membership_values") && !v)
		return false;
	f->members = v;
	for (int i = 0; i < count; i++) {
		TreeNode *t = &f->nodes.at[i];

		if (t->mode != MEMBER)
			continue;
		if (at >= have)
			return infer_error(in, n,
					   "attribute \"membership_values\" has fewer sets "
					   "than there are nodes of mode BRANCH_MEMBER");
		for (t->member = at; at < have && !isnan(v[at]); at++)
			note_wide(f, v[at]);
		t->nmembers = at++ - t->member;
	}
	return true;
}

/* The node that entry AT of a list of children names; LEAVES: entries name leaves. */
static int child_of(int64_t at, bool leaf, int count, int nleaves)
{
	if (at < 0 || at >= (leaf ? nleaves : count))
		return -1;
	return (int)at + (leaf ? count : 0);
}

Forest *forest_of_ensemble(Infer *in, Node *n, int64_t ntargets)
{
	Arena *a = infer_arena(in);
	Forest *f = NEW(a, Forest);
	int count = count_of(n, "nodes_featureids"), nleaves = count_of(n, "leaf_targetids");
	int nroots = count_of(n, "tree_roots"), have, nweights;
	const int64_t *feature = ints(in, n, "nodes_featureids", count);
	const int64_t *yes = ints(in, n, "nodes_truenodeids", count);
	const int64_t *no = ints(in, n, "nodes_falsenodeids", count);
	const int64_t *yes_leaf = ints(in, n, "nodes_trueleafs", count);
	const int64_t *no_leaf = ints(in, n, "nodes_falseleafs", count);
	const int64_t *target = ints(in, n, "leaf_targetids", nleaves);
	const int64_t *root = ints(in, n, "tree_roots", nroots), *missing = NULL;
	const double *value = ml_tensor(in, n, "nodes_splits", &have);
	const double *mode = ml_tensor(in, n, "nodes_modes", &nweights);
	const double *weight;
	Vote *v = NEW_ARRAY(a, nleaves + 1, Vote);
	int *of = NEW_ARRAY(a, nleaves + 1, int);

	f->ntargets = ntargets;
	f->nleaves = nleaves;
	if (!feature || !yes || !no || !yes_leaf || !no_leaf || !target || !root || !value || !mode)
		return NULL;
	if (have != count || nweights != count) {
		infer_error(in, n,
			    "attributes \"nodes_splits\" and \"nodes_modes\" have %d and %d "
			    "entries, expected %d",
			    have, nweights, count);
		return NULL;
	}
	weight = ml_tensor(in, n, "leaf_weights", &nweights);
	if (weight && nweights != nleaves)
		infer_error(in, n, "attribute \"leaf_weights\" has %d entries, expected %d",
			    nweights, nleaves);
	if (count_of(n, "nodes_missing_value_tracks_true")) {
		missing = ints(in, n, "nodes_missing_value_tracks_true", count);
		if (!missing)
			return NULL;
	}
	if (!weight || nweights != nleaves)
		return NULL;
	for (int i = 0; i < count; i++) {
		TreeNode t = {.mode = mode[i] >= (int)LEQ && mode[i] <= (int)MEMBER ? (int)mode[i]
										    : -1,
			      .feature = feature[i],
			      .value = value[i],
			      .nan_true = missing && missing[i] == 1};

		if (t.mode < 0) {
			infer_error(in, n, "a node has the mode %g", mode[i]);
			return NULL;
		}
		t.child[0] = child_of(yes[i], yes_leaf[i] != 0, count, nleaves);
		t.child[1] = child_of(no[i], no_leaf[i] != 0, count, nleaves);
		if (t.mode != MEMBER)
			note_wide(f, t.value);
		vec_push(a, &f->nodes, t);
	}
	for (int i = 0; i < nleaves; i++) {
		vec_push(a, &f->nodes, ((TreeNode){.mode = LEAF, .leaf = i}));
		v[i] = (Vote){target[i], weight[i]};
		of[i] = i;
	}
	for (int i = 0; i < nroots; i++) {
		if (root[i] < 0 || root[i] >= count) {
			infer_error(in, n, "a tree's root is node %lld of %d", (long long)root[i],
				    count);
			return NULL;
		}
		vec_push(a, &f->roots, (int)root[i]);
	}
	return read_members(in, n, f, count) && put_votes(in, n, f, of, v, nleaves) ? f : NULL;
}

/* ---- Decisions ---- */

typedef struct ForestWalk {
	Infer *in;
	Arena *arena;
	const Forest *f;
	Decisions *d;
	bool f64;
	int *of; /* of each node: its decision + 1; 0: not there yet; -1: on the path from the root */
} ForestWalk;

/* The smallest number greater than V; NaN where there is none. */
static double next_up(const ForestWalk *r, double v)
{
	if (v == (double)INFINITY)
		return NAN;
	return r->f64 ? nextafter(v, (double)INFINITY) : (double)nextafterf((float)v, INFINITY);
}

static double next_down(const ForestWalk *r, double v)
{
	return -next_up(r, -v);
}

static int put(ForestWalk *r, DecisionNode e)
{
	int a = r->d->at.at[e.next[0]].depth, b = r->d->at.at[e.next[1]].depth;

	e.leaf = -1;
	e.depth = 1 + (a > b ? a : b);
	r->d->flips = r->d->flips || e.flip;
	if (e.feature >= r->d->nfeatures)
		r->d->nfeatures = e.feature + 1;
	vec_push(r->arena, &r->d->at, e);
	return r->d->at.n - 1;
}

/*
 * A decision by `x <= v`, or where not STRICT by `x < v`, between the decisions LOW, where that
 * holds, and HIGH; NaN goes where NAN_LOW says. Only next[0] takes NaN, so where NaN goes with the
 * lower numbers, the decision is by `-x < -v`. No number is at most a NaN.
 */
static int split(ForestWalk *r, int64_t feature, double v, bool strict, bool nan_low, int low,
		 int high)
{
	if (!nan_low)
		return put(r, (DecisionNode){.feature = feature,
					     .threshold = strict ? next_down(r, v) : v,
					     .next = {high, low}});
	if (isnan(v))
		return put(r, (DecisionNode){.feature = feature,
					     .threshold = INFINITY,
					     .next = {low, high}});
	return put(r, (DecisionNode){.feature = feature,
				     .threshold = strict ? -v : -next_up(r, v),
				     .flip = true,
				     .next = {low, high}});
}

/* Leads x to YES[k] if it is number k of the COUNT ascending numbers V, else to NO; BELOW: x is
 * known to be at most the last of them, and to be greater than all numbers before V. NaN goes to
 * YES[0] or to NO, as NAN_YES says. */
static int among(ForestWalk *r, int64_t feature, const double *v, int count, bool below,
		 bool nan_yes, const int *yes, int no)
{
	int half = (count - 1) / 2;

	if (!count)
		return no;
	if (count == 1 && below) /* x <= v: is it less? */
		return split(r, feature, v[0], true, !nan_yes, no, yes[0]);
	return split(r, feature, v[half], false, nan_yes,
		     among(r, feature, v, half + 1, true, nan_yes, yes, no),
		     among(r, feature, v + half + 1, count - half - 1, below, nan_yes,
			   yes + half + 1, no));
}

static int equals(ForestWalk *r, const TreeNode *t, bool nan_yes, int yes, int no)
{
	return among(r, t->feature, &t->value, 1, false, nan_yes, &yes, no);
}

static int compare_doubles(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int member(ForestWalk *r, const TreeNode *t, int yes, int no)
{
	double *v = NEW_ARRAY(r->arena, t->nmembers + 1, double);
	int *to = NEW_ARRAY(r->arena, t->nmembers + 1, int), count = 0;

	memcpy(v, r->f->members + t->member, (size_t)t->nmembers * sizeof *v);
	qsort(v, (size_t)t->nmembers, sizeof *v, compare_doubles);
	for (int i = 0; i < t->nmembers; i++)
		if (!count || v[i] != v[count - 1])
			v[count++] = v[i];
	for (int i = 0; i < count; i++)
		to[i] = yes;
	if (!count)
		return split(r, t->feature, (double)NAN, false, t->nan_true, yes, no);
	return among(r, t->feature, v, count, false, t->nan_true, to, no);
}

/* The decision of node T, whose comparison leads to YES or NO. */
static int decide(ForestWalk *r, const TreeNode *t, int yes, int no)
{
	const bool none = isnan(t->value); /* of a NaN, every comparison but NEQ is false */

	if (none && t->mode != NEQ && t->mode != MEMBER)
		return split(r, t->feature, NAN, false, t->nan_true, yes, no);
	switch (t->mode) {
	case LEQ: return split(r, t->feature, t->value, false, t->nan_true, yes, no);
	case LT: return split(r, t->feature, t->value, true, t->nan_true, yes, no);
	case GTE: return split(r, t->feature, t->value, true, !t->nan_true, no, yes);
	case GT: return split(r, t->feature, t->value, false, !t->nan_true, no, yes);
	case EQ: return equals(r, t, t->nan_true, yes, no);
	case NEQ: /* NaN differs from every number */
		return none ? yes : equals(r, t, false, no, yes);
	default: return member(r, t, yes, no);
	}
}

static bool fault(ForestWalk *r, Node *n, int at, const char *what)
{
	return infer_error(r->in, n, "entry %d of the nodes %s", at + 1, what);
}

/* Makes the decision of node AT, whose children have theirs. */
static void finish(ForestWalk *r, int at)
{
	const TreeNode *t = &r->f->nodes.at[at];

	if (t->mode == LEAF) {
		vec_push(r->arena, &r->d->at, ((DecisionNode){.leaf = t->leaf}));
		r->of[at] = r->d->at.n;
	} else {
		r->of[at] = 1 + decide(r, t, r->of[t->child[0]] - 1, r->of[t->child[1]] - 1);
	}
}

/* Makes the decisions from node ROOT down. */
static bool walk(ForestWalk *r, Node *n, int root)
{
	VEC(int) path = {0};

	vec_push(r->arena, &path, root);
	while (path.n) {
		int at = vec_last(&path), wanted = -1;
		const TreeNode *t = &r->f->nodes.at[at];

		if (r->of[at] > 0) {
			path.n--;
			continue;
		}
		for (int k = 0; k < 2 && t->mode != LEAF; k++) {
			if (t->child[k] < 0)
				return fault(r, n, at, "leads to a node that is not in the tree");
			if (r->of[t->child[k]] < 0 || t->child[k] == at)
				return fault(r, n, t->child[k], "is below itself");
			if (!r->of[t->child[k]])
				wanted = t->child[k];
		}
		if (t->mode != LEAF && t->feature < 0)
			return fault(r, n, at, "compares a feature with a negative number");
		if (wanted >= 0) {
			r->of[at] = -1;
			vec_push(r->arena, &path, wanted);
			continue;
		}
		if (r->d->at.n > MOST_NODES)
			return infer_error(r->in, n, "the ensemble is too large");
		finish(r, at);
		path.n--;
		if (r->d->at.at[r->of[at] - 1].depth > MOST_DEPTH)
			return infer_error(r->in, n,
					   "a tree is deeper than %d decisions, the most that is "
					   "supported",
					   MOST_DEPTH);
	}
	return true;
}

Decisions *forest_decisions(Infer *in, Node *n, const Forest *f, bool f64)
{
	Arena *a = infer_arena(in);
	ForestWalk r = {in, a, f, NEW(a, Decisions), f64, NEW_ARRAY(a, f->nodes.n + 1, int)};

	r.d->root = NEW_ARRAY(a, f->roots.n + 1, int);
	for (int i = 0; i < f->roots.n; i++) {
		if (!walk(&r, n, f->roots.at[i]))
			return NULL;
		r.d->root[i] = r.of[f->roots.at[i]] - 1;
	}
	return r.d;
}

typedef struct Key {
	double value;
	int at;
} Key;

static int compare_keys(const void *a, const void *b)
{
	const Key *x = a, *y = b;
	int c = compare_doubles(&x->value, &y->value);

	return c ? c : x->at - y->at;
}

Decisions *forest_of_keys(Infer *in, const double *keys, int count, bool f64)
{
	Arena *a = infer_arena(in);
	ForestWalk r = {.in = in, .arena = a, .d = NEW(a, Decisions), .f64 = f64};
	Key *key = NEW_ARRAY(a, count + 1, Key);
	double *v = NEW_ARRAY(a, count + 1, double);
	int *to = NEW_ARRAY(a, count + 1, int), n = 0, sorted = 0, nan = -1;

	for (int i = 0; i <= count; i++)
		vec_push(a, &r.d->at, ((DecisionNode){.leaf = i}));
	for (int i = 0; i < count; i++)
		if (!isnan(keys[i]))
			key[sorted++] = (Key){keys[i], i};
		else if (nan < 0)
			nan = i;
	qsort(key, (size_t)sorted, sizeof *key, compare_keys);
	for (int i = 0; i < sorted; i++)
		if (!n || key[i].value != v[n - 1]) {
			v[n] = key[i].value;
			to[n++] = key[i].at;
		}
	r.d->root = NEW_ARRAY(a, 1, int);
	r.d->root[0] = among(&r, 0, v, n, false, false, to, count);
	if (nan >= 0)
		r.d->root[0] = split(&r, 0, (double)NAN, false, true, nan, r.d->root[0]);
	return r.d;
}
