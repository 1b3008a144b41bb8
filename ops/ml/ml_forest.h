/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tree ensembles of ai.onnx.ml in one form: decisions `x[feature] <= threshold`, and leaves. Every
 * comparison of the standard becomes one or several of these.
 */
#ifndef OPS_ML_ML_FOREST_H
#define OPS_ML_ML_FOREST_H

#include "ops/op.h"

#include "base/vec.h"

enum { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF }; /* the modes of nodes, as TreeEnsemble numbers them */

/* A node of the model. */
typedef struct TreeNode {
	int mode;
	bool nan_true;   /* where a NaN goes: to child[0] or to child[1] */
	int64_t feature;
	double value;
	int child[2];    /* where the comparison holds, and where not; -1: not in the model */
	int member, nmembers; /* of MEMBER: which of Forest.members */
	int leaf;        /* of LEAF: its number */
} TreeNode;

typedef struct Vote {
	int64_t target;
	double weight;
} Vote;

/* An ensemble as the model has it. */
typedef struct Forest {
	VEC(TreeNode) nodes;
	VEC(int) roots;
	double *members;
	int nleaves;
	Vote *votes; /* of leaf k: votes[first[k]] up to votes[first[k + 1]] */
	int *first;
	int64_t ntargets;
	bool wide;  /* a threshold or weight is not exact in f32 */
} Forest;

/* Reads the attributes of TreeEnsembleRegressor or TreeEnsembleClassifier, where VOTES is "target"
 * or "class", for NTARGETS targets. Null after a diagnostic. */
Forest *forest_of_nodes(Infer *in, Node *n, const char *votes, int64_t ntargets);
/* Reads the attributes of TreeEnsemble. */
Forest *forest_of_ensemble(Infer *in, Node *n, int64_t ntargets);

/* A decision: `x <= threshold` of one feature x, or of -x if FLIP, leads to next[1]; otherwise, and
 * for NaN, next[0]. */
typedef struct DecisionNode {
	int64_t feature;
	double threshold;
	bool flip;
	int next[2]; /* by number */
	int leaf;    /* a leaf's number; -1: a decision */
	int depth;   /* decisions on the longest path down from here, this one included */
} DecisionNode;

typedef struct Decisions {
	VEC(DecisionNode) at;
	int *root;      /* of each tree */
	int64_t nfeatures; /* 1 + the highest feature */
	bool flips;     /* some decision has FLIP */
} Decisions;

/* The decisions of F; F64: thresholds are compared with features of f64, else of f32. Null after
 * a diagnostic: a cycle, a missing node. */
Decisions *forest_decisions(Infer *in, Node *n, const Forest *f, bool f64);
/* One tree that leads the only feature to leaf K if it equals the first of the KEYS that is
 * number K, else to leaf COUNT. NaN equals NaN. */
Decisions *forest_of_keys(Infer *in, const double *keys, int count, bool f64);

#endif
