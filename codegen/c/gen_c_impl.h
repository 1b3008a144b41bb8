/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that print one C function share: codegen/c/gen_c.c, names.c, nodes.c. */
#ifndef CODEGEN_C_GEN_C_IMPL_H
#define CODEGEN_C_GEN_C_IMPL_H

#include "codegen/c/expr.h"
#include "codegen/c/gen_c.h"

/* Names within one function (names.c). */
typedef struct FnName {
	const void *key;
	const char *text;
} FnName;

typedef struct Fn {
	GenC *g;
	const Schedule *sched;
	const Stage *stage;
	VEC(FnName) names;
	VEC(Buf *) bufs;   /* parameters, in order of use */
	VEC(Sym *) syms;
	VEC(Buf *) tables; /* constants */
	VEC(Buf *) locals;
	VEC(bool) scalar;  /* by local: a plain variable */
	VEC(const Iter *) naturals; /* variables that are 0 or more */
	StrBuf body;
	int indent, ntemp;
	bool faults, scratch; /* whether it has an index that may be out of range; uses its scratch */
	CExprNames cb;
} Fn;

/* ---- codegen/c/names.c ---- */

/* The name of KEY in F, which F knows by now or gets from BASE (null: "v"): out_, or out_2_, out_3_ ... */
const char *fn_name(Fn *f, const void *key, const char *base);
/* The name of B, which becomes a parameter or a table where it is no local. */
const char *fn_buf(Fn *f, Buf *b);
/* Whether the i64 E is 0 or more in FN, a Fn, as far as a glance tells. Overflow is none: an index is a place in
 * memory. */
bool fn_natural(void *fn, const Expr *e);
/* How the leaves of F's expressions print. */
CExprNames fn_leaves(Fn *f);
/* Types whose memory C reads and writes as they are; null: through dl_load_*, dl_store_*, as C_CONVERTS. */
const char *c_memory_type(DType t);
bool c_converts(DType t);
/* The statement that stores VAL to B[AT]. */
void fn_store(Fn *f, StrBuf *b, Buf *buf, const char *at, const char *val);

/* ---- codegen/c/nodes.c ---- */

/* Prints N and what follows it to f->body. */
void fn_nodes(Fn *f, const LNode *n);

#endif
