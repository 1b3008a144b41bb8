/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: monoids, the functions that an operator's `lower` calls, and deep copies. */
#include "ir/kernel/kernel.h"

#include <assert.h>
#include <math.h>

const MonoidInfo monoid_info[MONOID_COUNT] = {
	[MONOID_NONE] = {"none", 0, "", "", ""},
#define MONOID(name, n, identity, combine, atomic) \
	[MONOID_##name] = {#name, n, identity, combine, atomic},
#include "ir/kernel/monoids.def"
#undef MONOID
};

/* ---- Monoids ---- */

/* The part number K of TEXT, whose parts are separated by '|', as a new string. */
static const char *text_part(Arena *a, const char *text, int k)
{
	const char *end;

	for (; k > 0; k--) {
		text = strchr(text, '|');
		assert(text);
		text++;
	}
	while (*text == ' ')
		text++;
	end = strchr(text, '|');
	return arena_strndup(a, text, end ? (size_t)(end - text) : strlen(text));
}

static Expr *type_end(ExprPool *p, CType t, bool high)
{
	switch (t) {
	case CT_BOOL: return ex_int(p, t, high);
	case CT_I32: return ex_int(p, t, high ? INT32_MAX : INT32_MIN);
	case CT_I64: return ex_int(p, t, high ? INT64_MAX : INT64_MIN);
	case CT_U32: return ex_int(p, t, high ? UINT32_MAX : 0);
	case CT_U64: return ex_int(p, t, high ? -1 : 0);
	case CT_F32:
	case CT_F64: return ex_float(p, t, high ? INFINITY : -INFINITY);
	case CT_NONE:
	case CT_COUNT: break;
	}
	assert(t != CT_NONE && t != CT_COUNT);
	return NULL;
}

static Expr *parse_row(ExprPool *p, const char *text, int k, CType t, const ExprName *names, int n)
{
	ARENA_LOCAL(tmp);
	const char *err = NULL;
	Expr *e = ex_parse(p, text_part(tmp, text, k), t, names, n, &err);

	assert(e && !err);
	return e;
}

Expr *monoid_identity(ExprPool *p, Monoid m, int k, CType t)
{
	ExprName names[] = {{"lowest", NULL}, {"highest", NULL}};

	assert(m != MONOID_NONE && k < monoid_info[m].n);
	names[0].e = type_end(p, t, false);
	names[1].e = type_end(p, t, true);
	return parse_row(p, monoid_info[m].identity, k, t, names, 2);
}

Expr *monoid_combine(ExprPool *p, Monoid m, int k, Expr *const *a, Expr *const *b)
{
	int n = monoid_info[m].n;
	ExprName names[] = {{"a0", a[0]},
			    {"b0", b[0]},
			    {"a1", n > 1 ? a[1] : NULL},
			    {"b1", n > 1 ? b[1] : NULL}};

	assert(m != MONOID_NONE && k < n);
	return parse_row(p, monoid_info[m].combine, k, a[k]->ct, names, 2 * n);
}

/* ---- Building ---- */

Kernel *kernel_new(Ctx *c, Arena *a, const char *name)
{
	Kernel *k = NEW(a, Kernel);

	k->name = ctx_name(c, name);
	k->ctx = c;
	k->arena = a;
	k->pool = expr_pool_new(c, a);
	return k;
}

static Buf *add_buf(Kernel *k, BufKind kind, const char *name, DType t, int rank, Dim *const *dims)
{
	Buf *b = NEW(k->arena, Buf);

	b->name = ctx_name(k->ctx, name);
	b->id = k->bufs.n;
	b->kind = kind;
	b->dtype = t;
	b->rank = rank;
	b->dims = NEW_ARRAY(k->arena, rank, Dim *);
	for (int i = 0; i < rank; i++)
		b->dims[i] = dims[i];
	b->param = -1;
	vec_push(k->arena, &k->bufs, b);
	return b;
}

Buf *kernel_buf(Kernel *k, BufKind kind, const char *name, const Type *t)
{
	int param = 0;
	Buf *b;

	for (int i = 0; i < k->bufs.n; i++)
		if (k->bufs.at[i]->kind == kind && k->bufs.at[i]->param >= param)
			param = k->bufs.at[i]->param + 1;
	b = add_buf(k, kind, name, t->dtype, t->rank, t->dims);
	b->layout = t->layout;
	b->param = kind == BUF_TEMP ? -1 : param;
	return b;
}

Buf *kernel_temp(Kernel *k, const char *name, DType t, int rank, Dim *const *dims)
{
	return add_buf(k, BUF_TEMP, name, t, rank, dims);
}

Buf *kernel_table(Kernel *k, const char *name, DType t, int64_t n, const void *data)
{
	Dim *dim = dim_const(k->ctx, n);
	Buf *b = add_buf(k, BUF_TEMP, name, t, 1, &dim);
	int64_t bytes = dtype_size(t, n);

	assert(bytes >= 0);
	b->data = arena_copy(k->arena, data, (size_t)bytes);
	return b;
}

Iter *kernel_iter(Kernel *k, const char *name, Dim *extent)
{
	Iter *it = NEW(k->arena, Iter);

	it->name = ctx_name(k->ctx, name);
	it->id = k->iters.n;
	it->extent = extent;
	vec_push(k->arena, &k->iters, it);
	return it;
}

void kernel_iters_of(Kernel *k, const Buf *b, Iter **out)
{
	char name[24];

	for (int i = 0; i < b->rank; i++) {
		snprintf(name, sizeof name, "i%d", i);
		out[i] = kernel_iter(k, name, b->dims[i]);
	}
}

static Stmt *add_stmt(Kernel *k, Iter *const *iters, int n, int nband, Buf *out)
{
	Stmt *s = NEW(k->arena, Stmt);

	assert(n <= MAX_ITERS && nband <= n);
	s->id = k->stmts.n;
	for (int i = 0; i < n; i++)
		s->iter[i] = iters[i];
	s->niters = n;
	s->nband = nband;
	s->nout = 1;
	s->out[0] = out;
	s->loc = locs_first(k->locs);
	vec_push(k->arena, &k->stmts, s);
	return s;
}

static void set_widx(Kernel *k, Stmt *s, Expr *const *widx, int n)
{
	s->nwidx = n;
	s->widx = NEW_ARRAY(k->arena, n, Expr *);
	for (int i = 0; i < n; i++)
		s->widx[i] = widx[i];
}

static void set_identity_widx(Kernel *k, Stmt *s, Iter *const *iters, int n)
{
	s->nwidx = n;
	s->widx = NEW_ARRAY(k->arena, n, Expr *);
	for (int i = 0; i < n; i++)
		s->widx[i] = ex_iter(k->pool, iters[i]);
}

/* Sets S's value, converted from the ctype that the operator chose to the buffer's. */
static void set_val(Kernel *k, Stmt *s, Expr *val, Expr *guard)
{
	s->val[0] = ex_cvt(k->pool, dtype_ctype(s->out[0]->dtype), val);
	if (guard && guard->kind == EX_CONST && guard->i)
		guard = NULL;
	s->guard = guard;
}

Stmt *kernel_map(Kernel *k, Iter *const *iters, int n, Buf *out, Expr *const *widx, Expr *val,
		 Expr *guard)
{
	Stmt *s = add_stmt(k, iters, n, n, out);

	set_widx(k, s, widx, out->rank);
	set_val(k, s, val, guard);
	return s;
}

Stmt *kernel_map_id(Kernel *k, Iter *const *iters, Buf *out, Expr *val)
{
	Stmt *s = add_stmt(k, iters, out->rank, out->rank, out);

	set_identity_widx(k, s, iters, out->rank);
	set_val(k, s, val, NULL);
	return s;
}

bool stmt_is_phase(Ctx *c, const Stmt *s, const Iter *it)
{
	const bool guarded = s->guard && expr_has_iter(s->guard, it);
	Affine a;

	for (int d = 0; d < s->nwidx && guarded; d++)
		if (s->widx[d]->kind != EX_ITER && ex_affine(c, s->widx[d], &a) && a.n > 1 &&
		    dim_equals(affine_coef(c, &a, it), 1))
			return true;
	return false;
}

Stmt *kernel_reduce(Kernel *k, Monoid m, Iter *const *band, int nband, Iter *const *red, int nred,
		    Buf *out, Expr *val, Expr *guard)
{
	Iter *iters[MAX_ITERS];
	Stmt *s;

	assert(m != MONOID_NONE && nband == out->rank && nband + nred <= MAX_ITERS);
	for (int i = 0; i < nband; i++)
		iters[i] = band[i];
	for (int i = 0; i < nred; i++)
		iters[nband + i] = red[i];
	s = add_stmt(k, iters, nband + nred, nband, out);
	s->red = m;
	set_identity_widx(k, s, band, nband);
	set_val(k, s, val, guard);
	return s;
}

Expr *kernel_load(Kernel *k, Buf *b, Expr *const *idx)
{
	return ex_load(k->pool, b, idx, b->rank);
}

Expr *kernel_load_iters(Kernel *k, Buf *b, Iter *const *it)
{
	Expr *idx[MAX_RANK];

	assert(b->rank <= MAX_RANK);
	for (int i = 0; i < b->rank; i++)
		idx[i] = ex_iter(k->pool, it[i]);
	return ex_load(k->pool, b, idx, b->rank);
}

/* ---- Walks ---- */

Expr **stmt_expr(Stmt *s, int i)
{
	const int at = i - s->nwidx;

	return at < 0 ? &s->widx[i] : at < 2 ? &s->val[at] : &s->guard;
}

_Static_assert(EXPR_ROOTS == MAX_RANK + 3, "a statement has an index for each dim, two values and a guard");

ExprNodes *stmt_nodes(ExprNodes *w, const Stmt *s)
{
	ex_nodes(w, s->val[0], ex_operands);
	w->root[1] = s->val[1];
	w->root[2] = s->guard;
	w->nroots = 3 + s->nwidx;
	for (int i = 0; i < s->nwidx; i++)
		w->root[3 + i] = s->widx[i];
	return w;
}

void kernel_dims(const Kernel *k, Arena *a, DimList *out)
{
	VEC_EACH (b, &k->bufs)
		for (int d = 0; d < b->rank; d++)
			vec_push(a, out, b->dims[d]);
	VEC_EACH (s, &k->stmts) {
		for (int j = 0; j < s->niters; j++)
			vec_push(a, out, s->iter[j]->extent);
		STMT_EACH (e, s)
			if (e->kind == EX_DIM)
				vec_push(a, out, e->dim);
	}
}

bool kernel_has_syms(const Kernel *k)
{
	ARENA_LOCAL(tmp);
	DimList dims = {0};

	kernel_dims(k, tmp, &dims);
	VEC_EACH (d, &dims)
		if (dim_syms(d)[0])
			return true;
	return false;
}

/* ---- Copies ---- */

typedef struct Cloner {
	Kernel *to;
	Expr **done; /* by Expr.id of the source pool: the copies */
} Cloner;

static void clone_node(Cloner *cl, Expr *e)
{
	ExprPool *p = cl->to->pool;
	Expr *const *arg, *with[MAX_ITERS];

	if (cl->done[e->id])
		return;
	for (int i = ex_operands(e, &arg); i-- > 0;)
		with[i] = cl->done[arg[i]->id];
	cl->done[e->id] = e->kind == EX_ITER ? ex_iter(p, cl->to->iters.at[e->iter->id])
			  : e->kind == EX_LOAD
				  ? ex_load(p, cl->to->bufs.at[e->load.buf->id], with, e->load.nidx)
				  : ex_rebuild(p, e, with);
}

static Expr *clone_expr(Cloner *cl, Expr *e)
{
	if (!e)
		return NULL;
	EX_EACH (x, e)
		clone_node(cl, x);
	return cl->done[e->id];
}

static Loc clone_loc(Ctx *c, Loc l)
{
	return (Loc){l.node ? ctx_name(c, l.node) : NULL, l.op ? ctx_name(c, l.op) : NULL};
}

static void clone_stmt(Cloner *cl, const Stmt *s)
{
	Kernel *k = cl->to;
	Stmt *t = arena_copy(k->arena, s, sizeof *s);

	for (int i = 0; i < s->niters; i++)
		t->iter[i] = k->iters.at[s->iter[i]->id];
	t->widx = NEW_ARRAY(k->arena, s->nwidx, Expr *);
	for (int i = 0; i < s->nwidx; i++)
		t->widx[i] = clone_expr(cl, s->widx[i]);
	for (int i = 0; i < s->nout; i++)
		t->out[i] = k->bufs.at[s->out[i]->id];
	for (int i = 0; i < 2; i++)
		t->val[i] = clone_expr(cl, s->val[i]);
	t->guard = clone_expr(cl, s->guard);
	t->loc = clone_loc(k->ctx, s->loc);
	vec_push(k->arena, &k->stmts, t);
}

bool kernel_calls_routine(const Kernel *k)
{
	for (int i = 0; i < k->stmts.n; i++)
		STMT_EACH (e, k->stmts.at[i])
			if (e->kind == EX_INST && inst_is_routine(e->op.inst))
				return true;
	return false;
}

bool kernel_has_strings(const Kernel *k)
{
	for (int i = 0; i < k->bufs.n; i++)
		if (k->bufs.at[i]->dtype == DT_STR)
			return true;
	return kernel_calls_routine(k);
}

Dim *buf_numel(Ctx *c, const Buf *b)
{
	return dims_product(c, b->dims, b->rank);
}

int64_t buf_bytes(const Buf *b, int64_t most)
{
	int64_t n = dtype_bytes(b->dtype), v;

	for (int i = 0; i < b->rank; i++) {
		if (!dim_is_const(b->dims[i], &v) || v < 0 || (v && n > most / v))
			return -1;
		n *= v;
	}
	return n;
}

int buf_axis(const Buf *b, int d)
{
	for (int i = b->layout ? b->layout->n - 1 : -1; i >= 0; i--)
		if (b->layout->ax[i].dim == d)
			return i;
	return d;
}

int buf_memory_dim(const Buf *b, int i)
{
	return b->layout ? b->layout->ax[i].dim : i;
}

int buf_innermost(const Buf *b)
{
	for (int i = (b->layout ? b->layout->n : b->rank) - 1; i >= 0; i--)
		if (!dim_equals(b->dims[buf_memory_dim(b, i)], 1))
			return buf_memory_dim(b, i);
	return -1;
}

Buf *buf_copy(Arena *a, const Buf *b)
{
	Buf *c = arena_copy(a, b, sizeof *b);
	int64_t n = 1, v = 0;

	c->dims = arena_copy(a, b->dims, (size_t)b->rank * sizeof *b->dims);
	if (!b->data)
		return c;
	for (int i = 0; i < b->rank; i++) {
		bool is_const = dim_is_const(b->dims[i], &v);

		assert(is_const);
		n *= is_const ? v : 0;
	}
	c->data = arena_copy(a, b->data, (size_t)dtype_size(b->dtype, n));
	return c;
}

/* K's locations, in A. */
static const Locs *clone_locs(const Kernel *k, Arena *tmp, Arena *a)
{
	const LocList all = locs_all(tmp, k->locs);
	const Locs *locs = NULL;

	for (int i = 0; i < all.n; i++)
		locs = locs_union(a, locs, locs_one(a, clone_loc(k->ctx, all.at[i])));
	return locs;
}

int64_t iter_count(const Iter *it)
{
	int64_t v = 0;

	return it->extent && dim_is_const(it->extent, &v) ? v : 0;
}

bool iter_among(const Iter *it, Iter *const *list, int n)
{
	for (int i = 0; i < n; i++)
		if (list[i] == it)
			return true;
	return false;
}

void kernel_renumber(Kernel *k)
{
	for (int i = 0; i < k->bufs.n; i++)
		k->bufs.at[i]->id = i;
	for (int i = 0; i < k->iters.n; i++)
		k->iters.at[i]->id = i;
	for (int i = 0; i < k->stmts.n; i++)
		k->stmts.at[i]->id = i;
}

Buf *kernel_param(const Kernel *k, BufKind kind, int param)
{
	for (int i = 0; i < k->bufs.n; i++)
		if (k->bufs.at[i]->kind == kind && k->bufs.at[i]->param == param)
			return k->bufs.at[i];
	return NULL;
}

Kernel *kernel_clone(Kernel *k, Arena *a)
{
	Kernel *n = kernel_new(k->ctx, a, k->name);
	ARENA_LOCAL(tmp);
	Cloner cl = {n, NEW_ARRAY(tmp, expr_count(k->pool), Expr *)};

	for (int i = 0; i < k->bufs.n; i++) {
		vec_push(a, &n->bufs, buf_copy(a, k->bufs.at[i]));
		vec_last(&n->bufs)->id = i;
	}
	for (int i = 0; i < k->iters.n; i++)
		kernel_iter(n, k->iters.at[i]->name, k->iters.at[i]->extent);
	for (int i = 0; i < k->stmts.n; i++)
		clone_stmt(&cl, k->stmts.at[i]);
	n->locs = clone_locs(k, tmp, a);
	return n;
}
