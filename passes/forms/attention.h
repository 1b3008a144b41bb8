/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention as a kernel has it: a product, statements that share its rows, and a second product whose
 * sum goes along these rows: scores Q*K with scale, bias and mask, a softmax, and the product of its
 * weights with V. Kernels are recognised by their access relations, so the statements between the
 * products may be any: a softmax with or without a guard against rows that are masked completely, a
 * soft cap, a normalisation of another kind.
 */
#ifndef PASSES_FORMS_ATTENTION_H
#define PASSES_FORMS_ATTENTION_H

#include "passes/forms/product.h"

typedef struct AttentionForm {
	Kernel *k;
	/* scores[g,m,n] = sum over k of Q*K, with the maps after it; values[g,m,d] = sum over n of
	 * weights[g,m,n] * V, with the maps after it. Both pack B, and the values A, too. */
	Product scores, values;
	Band band;       /* g and m, of all statements */
	int first, last; /* the statements between the two products, which make the weights */
	/* by Buf.id, NBUFS of them: whole rows of the temporary are in memory at once: the scores
	 * that FIRST..LAST read, and the weights */
	bool *rows;
	int nbufs;
	Buf *weights;
} AttentionForm;

/* Makes A the attention that kernel K is; false if K is none. */
bool attention_begin(AttentionForm *a, Kernel *k);
/* K is an attention. */
bool attention_takes(Kernel *k);
/* The temporaries of which whole rows are in memory. */
int attention_row_temps(const AttentionForm *a);
/* The iterator of the second product that is iterator IT of the scores. */
Iter *attention_in_values(const AttentionForm *a, const Iter *it);
/* Whether IDX, with which S accesses a temporary, is constant or an iterator of the band. */
bool attention_in_band(const AttentionForm *a, const Stmt *s, const Expr *idx);
/* The dim of a temporary that S writes along which the rows go; -1: none. */
int attention_dim_of_rows(const AttentionForm *a, const Stmt *s);
/* The only statement that writes T, and nothing else; null: none, or several. */
Stmt *attention_writer(const Kernel *k, const Buf *t);

#endif
