/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants of kernels (ir/kernel/kernel.h). An undecidable property is a fault only if it is
 * provably violated: an index provably leaves its buffer at some point, or a map provably writes
 * one element twice.
 */
#include "ir/kernel/kernel.h"

#include <assert.h>

typedef struct KernelVerifier {
	Kernel *k;
	Diag *d;
	const char *pass;
	const Stmt *s;    /* null: the fault is of the kernel itself */
	const char *part; /* the part of the statement, for messages */
	int niters;       /* number of iterators that the part may mention */
	bool sure;        /* whether the expression is evaluated at every point */
	bool *written;    /* by Buf.id */
	bool ok;
} KernelVerifier;

static bool fault(KernelVerifier *v, const char *what, const char *name)
{
	DiagLoc at = {0};
	char stmt[48] = "";

	if (v->s)
		at = (DiagLoc){.node = v->s->loc.node, .op = v->s->loc.op};
	if (v->s)
		snprintf(stmt, sizeof stmt, ", statement %d", v->s->id);
	v->ok = false;
	return diag_error(v->d, at, "%s%s%skernel %s%s%s%s: %s%s%s%s", v->pass ? "after " : "",
			  v->pass ? v->pass : "", v->pass ? ": " : "", v->k->name, stmt,
			  v->s && v->part ? ", " : "", v->s && v->part ? v->part : "", what,
			  name ? " '" : "", name ? name : "", name ? "'" : "");
}

static bool has_buf(const Kernel *k, const Buf *b)
{
	return b && b->id >= 0 && b->id < k->bufs.n && k->bufs.at[b->id] == b;
}

/* ---- Index ranges ---- */

/* The sign of D: -1, 0, 1; 2 if it cannot be proved. */
static int sign_of(Ctx *c, Dim *d)
{
	Dim *zero = dim_const(c, 0);

	if (d == zero)
		return 0;
	if (dim_prove_lt(c, zero, d))
		return 1;
	return dim_prove_lt(c, d, zero) ? -1 : 2;
}

/* The least and greatest value of an affine index. False if they are not known, or a domain may
 * be empty. */
static bool index_range(Ctx *c, Expr *e, Dim **lo, Dim **hi)
{
	Affine a;
	Dim *one = dim_const(c, 1);

	if (!ex_affine(c, e, &a))
		return false;
	*lo = *hi = a.base;
	for (int i = 0; i < a.n; i++) {
		int sign = sign_of(c, a.coef[i]);
		Dim *far;

		if (sign == 2 || !dim_prove_le(c, one, a.iter[i]->extent))
			return false;
		far = dim_mul(c, a.coef[i], dim_sub(c, a.iter[i]->extent, one));
		if (sign > 0)
			*hi = dim_add(c, *hi, far);
		else
			*lo = dim_add(c, *lo, far);
	}
	return true;
}

static bool domain_not_empty(Ctx *c, const Stmt *s)
{
	for (int i = 0; i < s->niters; i++)
		if (!dim_prove_le(c, dim_const(c, 1), s->iter[i]->extent))
			return false;
	return true;
}

static void check_ranges(KernelVerifier *v, const Buf *b, Expr *const *idx, int n)
{
	Ctx *c = v->k->ctx;
	Dim *lo, *hi;

	if (!v->sure || n != b->rank)
		return;
	for (int i = 0; i < n; i++)
		if (index_range(c, idx[i], &lo, &hi) &&
		    (dim_prove_lt(c, lo, dim_const(c, 0)) || dim_prove_le(c, b->dims[i], hi)))
			fault(v, "an index leaves buffer", b->name);
}

/* ---- Expressions ---- */

static CType result_type(const Expr *e)
{
	CType t = e->op.arg[0]->ct;

	switch (inst_info[e->op.inst].rule) {
	case RULE_CMP:
	case RULE_TEST: return CT_BOOL;
	case RULE_SELECT: return e->op.arg[1]->ct;
	case RULE_CVT:
	case RULE_BITCAST: return e->ct;
	case RULE_INDEX: return CT_I64;
	case RULE_ROUTINE: return inst_info[e->op.inst].result;
	default: return t;
	}
}

static void check_load(KernelVerifier *v, const Expr *e)
{
	const Buf *b = e->load.buf;

	if (!has_buf(v->k, b)) {
		fault(v, "a load from a buffer of another kernel", NULL);
		return;
	}
	if (e->load.nidx != b->rank && e->load.nidx != 1)
		fault(v, "wrong number of indices of", b->name);
	for (int i = 0; i < e->load.nidx; i++)
		if (e->load.idx[i]->ct != CT_I64)
			fault(v, "an index that is not i64 of", b->name);
	if (e->ct != dtype_ctype(b->dtype))
		fault(v, "a load of another type than", b->name);
	if (b->kind != BUF_IN && !b->data && !v->written[b->id])
		fault(v, "a read before any write of", b->name);
	check_ranges(v, b, e->load.idx, e->load.nidx);
}

/* Whether the operands follow the instruction's rule. */
static bool takes(const Expr *e)
{
	Expr *a = e->op.arg[0];

	if (e->op.n != inst_info[e->op.inst].nargs)
		return false;
	switch (inst_info[e->op.inst].rule) {
	case RULE_CVT: return true;
	case RULE_BITCAST:
		return dtype_info[ctype_dtype(a->ct)].bits == dtype_info[ctype_dtype(e->ct)].bits;
	case RULE_ROUND: return e->op.dtype != DT_NONE;
	default: return ex_inst_takes(e->op.inst, e->op.arg, e->op.n);
	}
}

static void check_inst(KernelVerifier *v, const Expr *e)
{
	for (int i = 0; i < e->op.n; i++)
		if (e->op.arg[i]->id >= e->id)
			fault(v, "an operand made after its user in", inst_info[e->op.inst].name);
	if (!takes(e))
		fault(v, "operand types of", inst_info[e->op.inst].name);
	else if (result_type(e) != e->ct)
		fault(v, "result type of", inst_info[e->op.inst].name);
}

static void check_node(KernelVerifier *v, Expr *e)
{
	bool found = false;

	switch (e->kind) {
	case EX_ITER:
		for (int i = 0; i < v->niters; i++)
			found |= v->s->iter[i] == e->iter;
		if (!found)
			fault(v, "an iterator that is not of this part", e->iter->name);
		break;
	case EX_LOAD: check_load(v, e); break;
	case EX_INST: check_inst(v, e); break;
	case EX_PARAM: fault(v, "a parameter outside a function", NULL); break;
	case EX_CONST:
	case EX_DIM: break;
	}
}

static bool has_select(Expr *e)
{
	EX_EACH (x, e)
		if (ex_is_op(x, IN_select))
			return true;
	return false;
}

static void check_expr(KernelVerifier *v, const char *part, Expr *e, CType t, int niters)
{
	bool sure = v->sure;

	v->part = part;
	v->niters = niters;
	if (!e) {
		fault(v, "is missing", NULL);
		return;
	}
	v->sure = sure && !has_select(e);
	EX_EACH (x, e)
		check_node(v, x);
	v->sure = sure;
	if (e->ct != t)
		fault(v, "has another type than", ctype_name[t]);
	v->part = NULL;
}

/* ---- Statements ---- */

static void check_domain(KernelVerifier *v)
{
	const Stmt *s = v->s;

	if (s->niters < 0 || s->niters > MAX_ITERS || s->nband < 0 || s->nband > s->niters) {
		fault(v, "counts of iterators", NULL);
		return;
	}
	for (int i = 0; i < s->niters; i++) {
		const Iter *it = s->iter[i];

		if (it->id < 0 || it->id >= v->k->iters.n || v->k->iters.at[it->id] != it)
			fault(v, "an iterator of another kernel", it->name);
		for (int j = 0; j < i; j++)
			if (s->iter[j] == it)
				fault(v, "an iterator that stands twice", it->name);
	}
	if (s->red == MONOID_NONE && s->nband != s->niters)
		fault(v, "a map with reduced iterators", NULL);
	if (s->scan && (s->red == MONOID_NONE || s->niters != s->nband + 1 || s->update))
		fault(v, "a prefix needs a monoid, one iterator beside the band, and no update",
		      NULL);
}

static bool mentions(Ctx *c, Expr *const *idx, int n, const Iter *it, bool *affine)
{
	bool found = false;
	Affine a;

	/* An index that is not affine is assumed to mention all iterators. */
	for (int i = 0; i < n; i++) {
		if (idx[i]->kind == EX_CONST)
			continue;
		if (!ex_affine(c, idx[i], &a))
			*affine = false;
		for (int t = 0; *affine && t < a.n; t++)
			found |= a.iter[t] == it;
	}
	return found;
}

/* A map writes an element more than once if its indices do not mention one of its iterators. */
static void check_injective(KernelVerifier *v)
{
	const Stmt *s = v->s;
	Dim *two = dim_const(v->k->ctx, 2);

	if (s->red != MONOID_NONE || s->ordered || s->guard || !domain_not_empty(v->k->ctx, s))
		return;
	for (int i = 0; i < s->niters; i++) {
		bool affine = true;

		if (dim_prove_le(v->k->ctx, two, s->iter[i]->extent) &&
		    !mentions(v->k->ctx, s->widx, s->nwidx, s->iter[i], &affine) && affine)
			fault(v, "every value of one iterator writes the same elements",
			      s->iter[i]->name);
	}
}

static void check_write(KernelVerifier *v)
{
	const Stmt *s = v->s;
	int band = s->scan ? s->niters : s->nband;

	if (s->nout < 1 || s->nout > (s->red == MONOID_NONE ? 2 : monoid_info[s->red].n)) {
		fault(v, "number of outputs", NULL);
		return;
	}
	for (int i = 0; i < s->nout; i++) {
		const Buf *b = s->out[i];

		if (!has_buf(v->k, b)) {
			fault(v, "a write to a buffer of another kernel", NULL);
			continue;
		}
		if (b->kind == BUF_IN || b->data)
			fault(v, "a write to an input or table", b->name);
		if (s->update && !v->written[b->id])
			fault(v, "an update of a buffer that nothing wrote", b->name);
		if (i && b->rank != s->out[0]->rank)
			fault(v, "outputs of different ranks", b->name);
		if (s->nwidx != b->rank && s->nwidx != 1)
			fault(v, "wrong number of indices of", b->name);
		else
			check_ranges(v, b, s->widx, s->nwidx);
	}
	for (int i = 0; i < s->nwidx; i++)
		check_expr(v, "a write index", s->widx[i], CT_I64, band);
	check_injective(v);
}

/* The range of index I of S's write, if every element in it is written. */
static bool dense_range(Ctx *c, const Stmt *s, int i, Dim **lo, Dim **hi)
{
	Affine a;

	return ex_affine(c, s->widx[i], &a) && a.n <= 1 && (!a.n || dim_equals(a.coef[0], 1)) &&
	       index_range(c, s->widx[i], lo, hi);
}

/* Whether S and T write an element of one buffer both, whatever the sizes are. */
static bool surely_overlap(Ctx *c, const Stmt *s, const Stmt *t)
{
	Dim *lo[2], *hi[2];

	if (s->guard || t->guard || s->nwidx != t->nwidx || !domain_not_empty(c, s) ||
	    !domain_not_empty(c, t))
		return false;
	for (int i = 0; i < s->nwidx; i++)
		if (!dense_range(c, s, i, &lo[0], &hi[0]) ||
		    !dense_range(c, t, i, &lo[1], &hi[1]) || !dim_prove_le(c, lo[0], hi[1]) ||
		    !dim_prove_le(c, lo[1], hi[0]))
			return false;
	return true;
}

/* Statements that are not updates write elements that no earlier statement has written. */
static void check_rewritten(KernelVerifier *v, const Stmt *s)
{
	for (int i = 0; i < s->id && i < v->k->stmts.n && !s->update; i++) {
		const Stmt *t = v->k->stmts.at[i];

		for (int j = 0; j < s->nout; j++)
			for (int o = 0; o < t->nout; o++)
				if (t->out[o] == s->out[j] && surely_overlap(v->k->ctx, s, t))
					fault(v,
					      "elements are written that an earlier statement has written, of",
					      s->out[j]->name);
	}
}

static void check_stmt(KernelVerifier *v, const Stmt *s)
{
	int n = s->red == MONOID_NONE ? s->nout : monoid_info[s->red].n;

	v->s = s;
	v->sure = false;
	check_domain(v);
	if (s->guard)
		check_expr(v, "the guard", s->guard, CT_BOOL, s->niters);
	v->sure = !s->guard && domain_not_empty(v->k->ctx, s);
	check_write(v);
	if (v->ok)
		check_rewritten(v, s);
	for (int i = 0; i < n && i < 2; i++) {
		bool kept = i < s->nout && has_buf(v->k, s->out[i]);
		CType t = kept        ? dtype_ctype(s->out[i]->dtype)
			  : s->val[i] ? s->val[i]->ct
				      : CT_NONE;

		check_expr(v, "a value", s->val[i], t, s->niters);
	}
	for (int i = 0; i < s->nout; i++)
		if (has_buf(v->k, s->out[i]))
			v->written[s->out[i]->id] = true;
}

static void check_parts(KernelVerifier *v)
{
	for (int i = 0; i < v->k->bufs.n; i++) {
		const Buf *b = v->k->bufs.at[i];

		if (b->id != i)
			fault(v, "buffer ids are not dense", b->name);
		if (dtype_ctype(b->dtype) == CT_NONE)
			fault(v, "a buffer without numbers", b->name);
		if (b->rank < 0 || b->rank > MAX_RANK)
			fault(v, "rank of buffer", b->name);
		if (b->kind != BUF_TEMP && b->param < 0)
			fault(v, "an operand without a number", b->name);
	}
	for (int i = 0; i < v->k->iters.n; i++)
		if (v->k->iters.at[i]->id != i)
			fault(v, "iterator ids are not dense", v->k->iters.at[i]->name);
	for (int i = 0; i < v->k->stmts.n; i++)
		if (v->k->stmts.at[i]->id != i)
			fault(v, "statement ids are not dense", NULL);
}

static bool is_empty(const Buf *b)
{
	for (int i = 0; i < b->rank; i++)
		if (dim_equals(b->dims[i], 0))
			return true;
	return false;
}

bool kernel_verify(Kernel *k, Diag *d, const char *pass)
{
	ARENA_LOCAL(tmp);
	KernelVerifier v = {.k = k, .d = d, .pass = pass, .ok = true};

	v.written = NEW_ARRAY(tmp, k->bufs.n, bool);
	check_parts(&v);
	for (int i = 0; i < k->stmts.n && v.ok; i++)
		check_stmt(&v, k->stmts.at[i]);
	for (int i = 0; i < k->bufs.n && v.ok; i++) {
		v.s = NULL;
		if (k->bufs.at[i]->kind == BUF_OUT && !v.written[i] && !is_empty(k->bufs.at[i]))
			fault(&v, "an output that nothing writes", k->bufs.at[i]->name);
	}
	return v.ok;
}
