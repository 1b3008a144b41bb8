/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of a kernel: the class that the access relations of its statements give it, whatever
 * operators they came from. Layouts and schedules ask here and match no statements themselves. The
 * files that recognise: contraction.h (products, convolutions), attention.h (CPUs) and online.h
 * (GPUs), conv3x3.h (convolutions for Winograd).
 *
 * Passes before `fuse` ask for the form of a statement, or of a kernel that they would make. From
 * the pass `forms` on, every kernel has its form in a side array of the module. A pass that creates
 * or changes a kernel calls form_changed; the verifier recomputes the forms after each pass and
 * compares.
 */
#ifndef PASSES_FORMS_FORM_H
#define PASSES_FORMS_FORM_H

#include "passes/forms/product.h"

/* An operand of a contraction. */
typedef struct FormOperand {
	bool weights; /* it depends only on constants, and on no size */
	bool slides;  /* it is an image that the stencil of a convolution slides over */
	bool in_rows; /* its rows of pixels are read in place (product_reads_rows) */
} FormOperand;

typedef struct Form {
	FormKind kind;

	/* the contraction, or the first product of an attention; otherwise c.s is null. Its m and n
	 * iterators are in the order in which the result is stored, and n is vectorised. */
	Contraction c;
	FormOperand a, b;
	int kpack; /* contraction_kpack */

	/* contraction: every iterator of the maps after it is one of its m, n and g */
	bool whole;
	/* contraction: CPUs can tile it without packing B; with B packed; GPUs can, with B
	 * packed */
	bool tiled, tiled_packed, tiled_gpu;
	int64_t panel; /* CPUs: columns of a panel of packed B (product_panel), or 0 */
	/* CPUs: rows of Winograd's tiles, as conv3x3_tile chooses them; 0: the direct form. It
	 * depends on the layout of the image, so it is final once the pass `layout` has set that */
	int winograd;
} Form;

/* The form of only statement S of K: a contraction, whose C has its iterators in S's order, or a
 * map, a row, or something else. Other members are 0. */
Form form_of_stmt(Kernel *k, Stmt *s);
/* Recognises N's kernel. */
Form form_of(Module *m, Node *n);

/* Looks up the form of N's kernel in the side array of M. */
const Form *module_form(Module *m, Node *n);
/* Call this after a change of N's kernel or of its operands. */
void form_changed(Module *m, const Node *n);
/* Call this if all kernels may have changed. */
void forms_changed(Module *m);

/* Gives each node of a kernel its form as text (ATTR_FORM), for a dump; forms_unstate takes it
 * away. */
void forms_state(Module *m);
void forms_unstate(Module *m);
/* Where a node has such a text, from a dump that was read, what its kernel is must be so, apart
 * from what depends on the target; else false after a diagnostic. Takes the texts away. */
bool forms_check_stated(Module *m);
/* Whether every form in the side array is that of its kernel; else false after a diagnostic that
 * names pass P. */
bool forms_verify(Module *m, const char *p);

#endif
