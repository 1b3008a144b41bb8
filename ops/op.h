/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The definition of an operator: one `const Op op_NAME` in its family's file, next to its row in
 * ir/graph/ops.def. Import, verification, inference, folding, evaluation, lowering and docs/ops.md
 * read this struct. There are three kinds:
 *
 * elementwise   `scalar` is its meaning at one point, over x, y, z (operands 0, 1, 2) and attribute
 *               names. Nothing else defines it. Operands broadcast as in numpy.
 * structured    `infer` computes the result types, `lower` makes statements.
 * composite     `expand` makes other nodes that compute the same; inference replaces the node by
 *               them.
 */
#ifndef OPS_OP_H
#define OPS_OP_H

#include "ir/eval/eval.h"
#include "ir/graph/graph.h"

/* The state of inference on a graph: types, and the contents of small integer tensors as dims. */
typedef struct Infer Infer;

/* Axes of a sum of products of an activation and weights. The results' channels are along axis
 * CHANNELS of the weights. The weights that an element of the activation is multiplied by are
 * those of its index in axis OF, as index of axis TERMS of the weights; TERMS below 0: that is
 * not so. */
typedef struct WeightsAxes {
	int channels, of, terms;
} WeightsAxes;

typedef struct Op {
	/* Elementwise. If set, SCALAR_INT and SCALAR_BOOL replace SCALAR for operands of those
	 * types. */
	const char *scalar, *scalar_int, *scalar_bool;
	/* All attributes of the newest form, as a definition of an operator declares them:
	 * "axis: int, alpha: float = 0.01" (ir/graph/definition.h), and "graph" or "type" for the
	 * kinds that definitions lack. Others are refused. One that ONNX lacks, which passes and
	 * upgrades set, is declared "batched: int own": texts take it, and files do not. A
	 * default stands where SCALAR mentions the attribute; elsewhere INFER and EXPAND know
	 * it. An attribute that the operator did not always have is declared "mode: string since
	 * 11", one that a version ended "mode: string until 2". The versions are those of the
	 * operator's domain. What frontend/upgrade.c removes from old forms is not declared.
	 * Null: none. */
	const char *attrs;
	/* element type of the result (DT_BOOL for comparisons); DT_NONE: that of the operands */
	DType result;
	/* element types that operand 0 may have, of "f i u b s" (float, signed, unsigned, bool,
	 * string); null: f i u */
	const char *types;
	bool variadic;     /* any number of operands, combined by SCALAR over x and y (Max, Sum) */
	bool commutative;  /* op(a, b) is op(b, a) */
	/* with many operands: op(a, b, c) is op(op(a, b), c); unless VARIADIC, also op(a, op(b,
	 * c)) */
	bool grouped;

	/* Sets the result types by infer_result. False after a diagnostic. */
	bool (*infer)(Infer *in, Node *n);
	/* Adds N's statements to K, whose buffers for operands and results exist (lower_in,
	 * lower_out). It is called after inference: types are known and faults were reported. */
	void (*lower)(Infer *in, Node *n, Kernel *k);
	/* Makes nodes before N that compute the same; OUT gets the values that replace N's
	 * results. False after a diagnostic. It is called when the operands' types are known. If
	 * there is INFER, too, that is called first, and OUT may stay as it is: N is lowered. */
	bool (*expand)(Infer *in, Node *n, Value **out);

	/* Of an operator that sums products of operand 0 and weights, operand 1: how their axes
	 * go together (passes/graph/quantise.h). Null: other operators. */
	WeightsAxes (*weights_axes)(const Node *n);

	/* Each element of the first result is one of operand 0, or lies between some of them or
	 * between one and 0. */
	bool within;
	/* The magnitude of numbers whose difference a result near 0 is (Accuracy.unit); 0: it is
	 * not such a difference. */
	double unit;
	/* Sets *A, which is zero, to the accuracy of result O of N, which may depend on that of
	 * operands as value_accuracy(operand, DEPTH) gives it. Null: it follows from WITHIN and
	 * UNIT. */
	void (*accuracy)(const Node *n, int o, int depth, Accuracy *a);

	bool regions;      /* takes graphs as attributes, and may omit any operand; only with EXPAND */
	bool compound;     /* takes values that are not tensors (ops/infer/parts.h) */

	/* The forms that call a routine, and thus run on the host in a program for GPUs: "for
	 * strings", or "" for all forms; null: none. lower_node checks it for LOWER. */
	const char *host;
	const char *doc;   /* a line for docs/ops.md about what is not supported, or null */
} Op;

/* ---- table.c ---- */

extern const Op *const op_table[OP_COUNT]; /* by OpKind */

/* An attribute that an operator takes. */
typedef struct OpAttr {
	char name[48], kind[8];
	int since, until;  /* the versions that began and that ended it; 0: none did */
	bool own;          /* the compiler's, not ONNX's */
	const char *value; /* the text of its default; null: none is given */
} OpAttr;

/* Reads the attribute at *LIST, a part of Op.attrs, and moves *LIST to the next. False at the
 * end. */
bool op_attr_next(const char **list, OpAttr *a);
/* Sets *A to attribute NAME of operator OP; false if OP does not declare one. */
bool op_attr_find(OpKind op, const char *name, OpAttr *a);
/* Prints the names of ONNX's attributes that operator OP takes, or "none". */
void op_attrs_print(StrBuf *b, OpKind op);

/* ---- infer/infer.c ---- */

Ctx *infer_ctx(Infer *in);
Arena *infer_arena(Infer *in);
/* Reports "node "NAME" (Op): ..."; returns false. */
bool infer_error(Infer *in, Node *n, const char *fmt, ...) BASE_PRINTF(3, 4);
/* Operand K's type; null if the operand is omitted. */
const Type *infer_type(const Node *n, int k);
/* Makes result K a tensor of these dims. If it has a type already, checks it, with facts for its
 * dims. False after a diagnostic. */
bool infer_result(Infer *in, Node *n, int k, DType t, int rank, Dim *const *dims);
/* Checks that operand K, if there is one, has elements of a float type. */
bool infer_floats(Infer *in, Node *n, int k);
/* An axis in [-rank, rank), wrapped to [0, rank); else an error. */
bool infer_axis(Infer *in, Node *n, int64_t axis, int rank, int *out);
/* Sets *OUT to the number of attribute ATTR's value among the COUNT NAMES, of which the first is
 * the default; 0 and an error if it is not among them. A null IN means `lower`, where inference
 * has checked it. */
bool infer_choice(Infer *in, Node *n, const char *attr, const char *const *names, int count, int *out);
/* Broadcasts two shapes as numpy does. OUT has room for max(ra, rb) dims; returns their number,
 * or -1. */
int infer_broadcast(Infer *in, Node *n, Dim *const *a, int ra, Dim *const *b, int rb, Dim **out);
/* Requires that *A, a dim of an operand's type, is 1 or *R, so that it broadcasts to *R. */
bool infer_broadcasts_to(Infer *in, Node *n, Dim *const *a, Dim *const *r, const char *what);
/* Pass `infer`: computes the types of all values of G, and replaces composites by their
 * expansion. The contents of operands come from evaluating lowered statements symbolically
 * (eval_symbolic). If a result's shape depends on data in a complicated way, nodes that compute
 * it are added before the operator. Reports all faults; null after any. */
Infer *infer_new(Graph *g);
bool infer_graph_run(Infer *in);
/* A copy of IN for G, which is a copy of IN's graph (graph_clone). */
Infer *infer_clone(const Infer *in, Graph *g);
bool infer_node(Infer *in, Node *n);

/* ---- infer/facts.c ---- */

/* Requires A == B: proves it, or adds a fact for run time, or, if it is false, reports the error
 * WHAT. */
bool infer_equal(Infer *in, Node *n, Dim *a, Dim *b, const char *what);
bool infer_le(Infer *in, Node *n, Dim *a, Dim *b, const char *what);
/* As the two above, for A and B that say little to a reader, such as remainders: the message shows
 * X and Y instead, each of which may be without a dim. A size without a name is shown if it is a
 * dim or an element of an operand. */
bool infer_equal_shown(Infer *in, Node *n, Dim *a, Dim *b, const char *what, FactSize x, FactSize y);
bool infer_le_shown(Infer *in, Node *n, Dim *a, Dim *b, const char *what, FactSize x, FactSize y);
/* Requires that *A and *B, which are dims of operands' types, are equal. */
bool infer_equal_dims(Infer *in, Node *n, Dim *const *a, Dim *const *b, const char *what);
/* Requires that types A and B have the same dims. */
bool infer_same_shape(Infer *in, Node *n, const Type *a, const Type *b, const char *what);
/* Requires that *A, a dim of an operand's type, equals B, of which the message says that it is
 * expected. */
bool infer_dim_equals(Infer *in, Node *n, Dim *const *a, Dim *b, const char *what);
/* *AT, a dim of an operand's type, with its name in messages. */
FactSize infer_dim_shown(Infer *in, Node *n, Dim *const *at);

/* ---- infer/contents.c ---- */

/* The elements of V (integer or bool, of constant size at most 64) as dims. Constants and shape
 * arithmetic are known; an element that only run time knows becomes a symbol with SRC = V. Null
 * if V is null, too large, or not of constant size; then a diagnostic is reported if NODE is not
 * null. */
Dim **infer_contents(Infer *in, Node *n, Value *v, int *count);
/* As infer_contents, but only if the elements are known without a symbol that is read from data;
 * else null, without a diagnostic. */
Dim **infer_known(Infer *in, Value *v, int *count);
/* The contents that inference has computed for V; null if it was not asked for them. */
Dim **infer_asked(Infer *in, const Value *v, int *count);
/* As infer_contents, but null if any element is not constant. */
const int64_t *infer_const_ints(Infer *in, Value *v, int *count);
/* The elements of V, a constant of any float type; or null. */
const double *infer_const_floats(Infer *in, Value *v, int *count);

/* ---- infer/lower.c ---- */

/* The buffer of an operand or result; null if it is omitted. */
Buf *lower_in(Kernel *k, int i);
Buf *lower_out(Kernel *k, int i);
/* Loads B at the point IT[0..n) of a result that it broadcasts to. Trailing dims are aligned.
 * Dims of 1 are indexed by 0; for a dim that may be 1 at run time the stride is computed. */
Expr *lower_load_broadcast(Kernel *k, Buf *b, Iter *const *it, int n);
/* Makes the kernel of one node, in ARENA: buffers for its operands and results, then op->lower. */
Kernel *lower_node(Infer *in, Node *n, Arena *arena);

/* ---- infer/accuracy.c ---- */

/* The value that V has its elements from, or numbers between which they are, by operators that do
 * nothing else. */
const Value *value_within(const Value *v);
/* The accuracy of V, as the operators say that make it; they are the model's own, before any are
 * expanded. DEPTH: how many operators asked for that of an operand to answer; 0 to begin with. */
Accuracy value_accuracy(const Value *v, int depth);

/* ---- onnx/elementwise.c ---- */

/* The expression of OP over ARGS, with N's attributes, computed in the ctype T. */
Expr *lower_scalar(Kernel *k, Node *n, const Op *op, CType t, Expr *const *args, int nargs);

/* ---- infer/expand.c ---- */

/* Make nodes in `expand` and `infer`: inserted before N, with N's locations, and typed at once.
 * Operands that are null at the end of ARGS are left out. Where a node cannot be typed, they do
 * not return: `expand` ends as if it had returned false. */
Value *expand_node(Infer *in, Node *n, OpKind op, Value *const *args, int nargs);
Value *expand_node_ints(Infer *in, Node *n, OpKind op, Value *const *args, int nargs, const char *attr, int64_t v);
/* expand_node in two steps, between which attributes are set. expand_finish gives the only result;
 * expand_finish_all sets OUT to all of them. */
Node *expand_start(Infer *in, Node *n, OpKind op, Value *const *args, int nargs, int nout);
Value *expand_finish(Infer *in, Node *m);
void expand_finish_all(Infer *in, Node *m, Value **out);
/* As expand_node; the node has those of N's attributes that OP takes, and all where OP is no
 * operator of ONNX. */
Value *expand_node_like(Infer *in, Node *n, OpKind op, Value *const *args, int nargs);
Value *expand_scalar(Infer *in, Node *n, DType t, double v);
/* The constant T. */
Value *expand_tensor(Infer *in, Node *n, const Tensor *t);
Value *expand_ints(Infer *in, Node *n, const int64_t *v, int count);
/* The dims D as a 1-D tensor of i64; a single one as a scalar. */
Value *expand_sizes(Infer *in, Node *n, Dim *const *d, int count);
Value *expand_size(Infer *in, Node *n, Dim *d);
Value *expand_reshape(Infer *in, Node *n, Value *v, Dim *const *d, int count);
Value *expand_transpose(Infer *in, Node *n, Value *v, const int64_t *perm, int rank);
/* 0, 1 ... COUNT - 1 */
Value *expand_range(Infer *in, Node *n, Dim *count);
/* V, integers, as i64; the run reports an element outside of [0, COUNT) as an index out of
 * range. */
Value *expand_bounded(Infer *in, Node *n, Value *v, Dim *count);
/* The elements of V at FROM up to TO - 1 in AXIS, in steps of STEP. */
Value *expand_slice(Infer *in, Node *n, Value *v, int axis, int64_t from, int64_t to, int64_t step);
/* The elements of V from FROM up to TO in AXIS, without TO. */
Value *expand_part(Infer *in, Node *n, Value *v, int axis, Dim *from, Dim *to);
/* V with a dim of 1 at AXIS. */
Value *expand_unsqueeze(Infer *in, Node *n, Value *v, int64_t axis);
/* V reduced over AXIS by OP, such as ReduceMax; KEEP: a dim of 1 remains. */
Value *expand_reduce(Infer *in, Node *n, OpKind op, Value *v, int64_t axis, bool keep);
/* V, which has one element, as a scalar. */
Value *expand_as_scalar(Infer *in, Node *n, Value *v);
/* V itself if it already has the type */
Value *expand_cast(Infer *in, Node *n, Value *v, DType to);
/* Sets *OUT to V with the element type of operand K; returns true, as `expand` does. */
bool expand_result(Infer *in, Node *n, int k, Value *v, Value **out);
#define EXPAND(in, n, op, ...) \
	expand_node((in), (n), OP_##op, (Value *[]){__VA_ARGS__}, (int)(sizeof((Value *[]){__VA_ARGS__}) / sizeof(Value *)))

#endif
