/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluator of whole graphs, with which tests compare generated code. */
#ifndef TESTS_ORACLE_EVAL_GRAPH_H
#define TESTS_ORACLE_EVAL_GRAPH_H

#include "ops/op.h"

/* Options of eval_graph_with. eval_graph has mad fused and no watch function. */
typedef struct EvalGraphOpts {
	bool mad_fused; /* whether the target's mad rounds once */
	/* May be null. Called with ARG after each kernel. BUFS, by Buf.id, are its operands and
	 * results; the results have error bounds (ir/eval/eval.h) as for exact operands. False ends
	 * the run. */
	bool (*watch)(void *arg, Node *n, Kernel *k, const EvalBuf *bufs, const int64_t *sym);
	void *arg;
} EvalGraphOpts;

/* Evaluates the whole graph. INPUTS and OUTPUTS are tensors by position; symbols are bound from
 * the inputs' shapes. False after a diagnostic (a fact that fails, an index out of range). */
bool eval_graph(Graph *g, const Tensor *const *inputs, Tensor **outputs, Arena *arena, Diag *diag);
bool eval_graph_with(Graph *g, const Tensor *const *inputs, Tensor **outputs, Arena *arena, Diag *diag, const EvalGraphOpts *o);

#endif
