/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an op is: one `const Op op_NAME` in its family's file, beside its row in ir/ops.def. Import,
 * verification, inference, folding, evaluation, lowering and docs/ops.md read this struct.
 *
 *   elementwise   `scalar`: its meaning at one point, over x, y, z (operands 0, 1, 2) and attribute
 *                 names. It is its only semantics. Operands broadcast as numpy's.
 *   structured    `infer` gives the result types, `lower` writes statements.
 *   composite     `expand` writes the node as other nodes, which replace it in infer; no infer or lower.
 */
#ifndef OPS_OP_H
#define OPS_OP_H

#include "ir/eval.h"
#include "ir/graph.h"

/* What inference knows of a graph: types, and the contents of small integer tensors as dims. */
typedef struct Infer Infer;

typedef struct Op {
	/* Elementwise. SCALAR_INT and SCALAR_BOOL, where set, replace SCALAR on operands of those types.
	 * ATTRS: "alpha=0.01, beta=0.5": the attributes SCALAR names, with their defaults. */
	const char *scalar, *scalar_int, *scalar_bool, *attrs;
	DType result;      /* DT_NONE: the type of the operands; else this (DT_BOOL for comparisons) */
	const char *types; /* element types operand 0 may have, of "f i u b s" (float, signed, unsigned, bool,
	                      string); null: f i u */
	bool variadic;     /* SCALAR over x, y folded over any number of operands (Max, Sum) */
	bool commutative;  /* op(a, b) is op(b, a) */
	bool grouped;      /* many operands: op(a, b, c) is op(op(a, b), c), and unless VARIADIC op(a, op(b, c)) too */

	/* Sets the result types (infer_result). False after a diagnostic. */
	bool (*infer)(Infer *in, Node *n);
	/* Writes N's statements into K, whose buffers for operands and results exist (lower_in, lower_out).
	 * Called after infer succeeded: types are known, and faults were reported there. */
	void (*lower)(Infer *in, Node *n, Kernel *k);
	/* Puts nodes that mean the same before N and gives the values that replace its results in OUT.
	 * False after a diagnostic. Called after the operands' types are known. */
	bool (*expand)(Infer *in, Node *n, Value **out);

	const char *doc;   /* a line for docs/ops.md: what is not supported, or null */
} Op;

extern const Op *const op_table[OP_COUNT]; /* by OpKind; ops/table.c */

/* ---- For infer, lower and expand (ops/infer.c) ---- */

Ctx *infer_ctx(Infer *in);
Graph *infer_graph(Infer *in);
Arena *infer_arena(Infer *in);
/* "node "NAME" (Op): ..." ; returns false. */
bool infer_error(Infer *in, Node *n, const char *fmt, ...) BASE_PRINTF(3, 4);

/* Operand K's type; null where the operand is omitted. */
const Type *infer_type(const Node *n, int k);
/* Result K is a tensor of these. Checks against a type that is there already (facts for its dims). */
void infer_result(Infer *in, Node *n, int k, DType t, int rank, Dim *const *dims);
/* The elements of V (integer or bool, of constant size at most 64) as dims: constants and shape arithmetic
 * are known; an element that only run time knows becomes a symbol with SRC = V. Null where V is null, is
 * too large, or has a size that is not constant (after a diagnostic when NODE is given). */
Dim **infer_contents(Infer *in, Node *n, Value *v, int *count);
/* As infer_contents, but what is known already or needs no symbol read from data; else null, without a
 * diagnostic. */
Dim **infer_known(Infer *in, Value *v, int *count);
/* The contents that inference gave V, null where it was not asked for them. */
Dim **infer_asked(Infer *in, const Value *v, int *count);
/* As infer_contents, but constants only; null where any element is not one. */
const int64_t *infer_const_ints(Infer *in, Value *v, int *count);
/* The constant floats behind V (any float type), or null. */
const double *infer_const_floats(Infer *in, Value *v, int *count);
/* A == B must hold: proved, or a fact for run time, or (provably false) an error that says WHAT. */
bool infer_equal(Infer *in, Node *n, Dim *a, Dim *b, const char *what);
bool infer_le(Infer *in, Node *n, Dim *a, Dim *b, const char *what);
/* The same where A and B say little to a reader, as remainders do: the message shows X and Y (each may be without a
 * dim). One without a name gets that of an operand's dim or element, or is not shown. */
bool infer_equal_shown(Infer *in, Node *n, Dim *a, Dim *b, const char *what, FactSize x, FactSize y);
bool infer_le_shown(Infer *in, Node *n, Dim *a, Dim *b, const char *what, FactSize x, FactSize y);
/* infer_equal of *A and *B, which are dims of operands' types. */
bool infer_equal_dims(Infer *in, Node *n, Dim *const *a, Dim *const *b, const char *what);
/* *AT, which is a dim of an operand's type, as messages show it. Without a name where AT is no operand's. */
FactSize infer_dim_shown(Infer *in, Node *n, Dim *const *at);
/* An axis attribute or constant: in [-rank, rank) wrapped, else an error. */
bool infer_axis(Infer *in, Node *n, int64_t axis, int rank, int *out);
/* numpy's broadcast of two shapes; OUT has room for max(ra, rb), whose number is returned, or -1. */
int infer_broadcast(Infer *in, Node *n, Dim *const *a, int ra, Dim *const *b, int rb, Dim **out);

/* Operand and result buffers; null where omitted. */
Buf *lower_in(Kernel *k, int i);
Buf *lower_out(Kernel *k, int i);
/* Load of B at the point IT[0..n) of a result it broadcasts to: trailing dims aligned, dims of 1 read at 0,
 * dims that may be 1 at run time with a stride of 0 then. */
Expr *lower_load_broadcast(Kernel *k, Buf *b, Iter *const *it, int n);
/* The elementwise meaning TEXT of N's attributes over args, computed in the ctype of T (ops/elementwise.c). */
Expr *lower_scalar(Kernel *k, Node *n, const Op *op, CType t, Expr *const *args, int nargs);

/* Building nodes in `expand`: inserted before N, with N's locations, inferred at once. */
Value *expand_node(Infer *in, Node *n, OpKind op, Value *const *args, int nargs);
Value *expand_node_ints(Infer *in, Node *n, OpKind op, Value *const *args, int nargs, const char *attr, int64_t v);
#define EXPAND(in, n, op, ...) \
	expand_node((in), (n), OP_##op, (Value *[]){__VA_ARGS__}, (int)(sizeof((Value *[]){__VA_ARGS__}) / sizeof(Value *)))
Value *expand_scalar(Infer *in, Node *n, DType t, double v);
Value *expand_ints(Infer *in, Node *n, const int64_t *v, int count);
Value *expand_cast(Infer *in, Node *n, Value *v, DType to); /* V itself where it has the type */

/* ---- For passes (ops/infer.c) ---- */

/* Types every value of G (pass `infer`) and replaces composites by their expansion. Contents of operands come
 * from the lowered statements of shape arithmetic (eval_symbolic). Ops whose shape is an involved function of
 * data get nodes before them that compute it. Several faults a run; false where there was one. */
Infer *infer_new(Graph *g);
bool infer_graph_run(Infer *in);
bool infer_node(Infer *in, Node *n);
/* The kernel of one node: buffers for its operands and results, then op->lower. Its arena is ARENA. */
Kernel *lower_node(Infer *in, Node *n, Arena *arena);
/* Evaluates the whole graph: INPUTS and OUTPUTS are tensors by position; symbols are bound from the inputs'
 * shapes. Bounds: per output, or null. False after a diagnostic (a fact that fails, an index out of range). */
bool eval_graph(Graph *g, const Tensor *const *inputs, Tensor **outputs, Arena *arena, Diag *diag);
/* The same, otherwise; eval_graph fuses and watches nothing. */
typedef struct EvalGraphOpts {
	bool mad_fused; /* how the target's mad rounds */
	/* May be null. Called with ARG after each kernel: BUFS, by Buf.id, are its operands and results, these with the
	 * error bounds of class *reassoc* for operands that are exact. False ends the run. */
	bool (*watch)(void *arg, Node *n, Kernel *k, const EvalBuf *bufs, const int64_t *sym);
	void *arg;
} EvalGraphOpts;

bool eval_graph_with(Graph *g, const Tensor *const *inputs, Tensor **outputs, Arena *arena, Diag *diag, const EvalGraphOpts *o);

#endif
