/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises attention in a kernel for CPUs (for GPUs: passes/forms/online.h): a product,
 * statements that share its rows, and a second product that sums over these rows. In a model these
 * are the scores Q*K with scale, bias and mask, a softmax, and the product of the softmax's weights
 * with V. Kernels are recognised by their access relations, so the statements between the products
 * may compute anything row by row: a softmax with or without a guard against fully masked rows, a
 * soft cap, or another normalisation.
 */
#ifndef PASSES_FORMS_ATTENTION_H
#define PASSES_FORMS_ATTENTION_H

#include "passes/forms/product.h"

typedef struct AttentionForm {
	Kernel *k;
	/* scores[g,m,n] = sum over k of Q*K, with the maps after it; values[g,m,d] = sum over n of
	 * weights[g,m,n] * V, with the maps after it. Both products pack B; `values` packs A,
	 * too. */
	Product scores, values;
	Band band;       /* g and m, shared by all statements */
	int first, last; /* the statements between the two products, which compute the weights */
	/* by Buf.id, NBUFS entries: the temporary is stored as whole rows. These are the scores
	 * that FIRST..LAST read, and the weights. */
	bool *rows;
	int nbufs;
	Buf *weights;
} AttentionForm;

/* Initialises A if CPUs take kernel K as an attention; else returns false. */
bool attention_begin(AttentionForm *a, Kernel *k);
/* Whether CPUs take K as an attention. */
bool attention_takes(Kernel *k);
/* The number of temporaries that are stored as whole rows. */
int attention_row_temps(const AttentionForm *a);
/* The iterator of the second product that corresponds to iterator IT of the scores. */
Iter *attention_in_values(const AttentionForm *a, const Iter *it);
/* Whether IDX, an index with which S accesses a temporary, is constant or an iterator of the
 * band. */
bool attention_in_band(const AttentionForm *a, const Stmt *s, const Expr *idx);
/* The dim of a temporary that S writes whose index varies in a row; -1: none. */
int attention_dim_of_rows(const AttentionForm *a, const Stmt *s);
/* The only statement that writes T, if T is its only result; null: none, or several statements. */
Stmt *attention_writer(const Kernel *k, const Buf *t);

#endif
