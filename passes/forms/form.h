/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of a kernel: what it is by the access relations of its statements alone, whatever
 * operators they came from. Layouts and schedules ask here and do not match statements themselves.
 *
 * Passes before `fuse` ask for the form of a statement, or of a kernel that they would make. From
 * the pass `forms` on, every kernel has its form in a side array of the module. A pass that makes
 * or changes a kernel says so by form_changed; the verifier recomputes the forms after each pass
 * and compares.
 */
#ifndef PASSES_FORMS_FORM_H
#define PASSES_FORMS_FORM_H

#include "passes/forms/product.h"

/* An operand of a contraction. */
typedef struct FormOperand {
	bool weights; /* it depends on constants alone, and on no size */
	bool slides;  /* it is an image that the window of a convolution slides over */
	bool in_rows; /* it is one whose rows of pixels are read in place (product_reads_rows) */
} FormOperand;

typedef struct Form {
	FormKind kind;

	/* contraction and attention, whose first product it is; else c.s is null: its m and n
	 * iterators are in the order in which the result is stored, and n go along the vectors */
	Contraction c;
	FormOperand a, b;
	int kpack; /* contraction_kpack */

	/* contraction: every iterator of the maps after it is one of its m, n and g */
	bool whole;
	/* contraction: tiles take it on CPUs with B as it is; with B packed; on GPUs, with B packed */
	bool tiled, tiled_packed, tiled_gpu;
	int64_t panel; /* CPUs: columns of a panel of packed B (product_panel); else 0 */
	int winograd;  /* CPUs: rows of the tiles of Winograd's filtering; 0: none */
} Form;

/* What statement S of K is by itself: a contraction, whose C has its iterators in S's order; or a
 * map, a row, or something else. Other members are 0. */
Form form_of_stmt(Kernel *k, Stmt *s);
/* What N's kernel is. */
Form form_of(Module *m, Node *n);

/* The form of N's kernel in the side array of M. */
const Form *module_form(Module *m, Node *n);
/* N's kernel has changed, or its operands have. */
void form_changed(Module *m, const Node *n);
/* All kernels may have changed. */
void forms_changed(Module *m);

/* Appends F, the form of K, with the names that the text of K has. What depends on the target follows a
 * semicolon: "contraction g(b) m(i) n(j) k(c), A data slides, B weights; tiled, panels of 16". */
void form_print(StrBuf *b, const Kernel *k, const Form *f);
/* Gives each node of a kernel its form as text (ATTR_FORM), for a dump; forms_unstate takes it away. */
void forms_state(Module *m);
void forms_unstate(Module *m);
/* Where a node has such a text, from a dump that was read, what its kernel is must be so, apart from
 * what depends on the target; else false after a diagnostic. Takes the texts away. */
bool forms_check_stated(Module *m);
/* Whether every form in the side array is that of its kernel; else false after a diagnostic that
 * names pass P. */
bool forms_verify(Module *m, const char *p);

#endif
