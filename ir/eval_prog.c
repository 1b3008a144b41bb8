/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions as programs over strips. A node whose value may fault (a load, an `index`, or what is made of
 * them) and that is reached only through an arm of a select or past the guard is evaluated on demand, for
 * the lanes that take it; every other node is evaluated once for the whole strip.
 */
#include "ir/eval_impl.h"

#include <assert.h>
#include <string.h>

/* Nodes made so far for the expressions of one body: the statement's, or a function's expansion. */
typedef struct Scope {
	const int *arg; /* the nodes that EX_PARAM stands for, or null */
	VEC(int) memo;  /* node + 1 by Expr.id */
} Scope;

static int node_of(Prog *p, Scope *sc, Expr *e);

Prog *prog_new(Arena *a, Kernel *k, const EvalOpts *o, EvalBuf *bufs, Iter *const *iter, int n)
{
	Prog *p = NEW(a, Prog);

	p->a = a;
	p->k = k;
	p->o = o;
	p->bufs = bufs;
	p->iter = iter;
	p->niters = n;
	p->guard = -1;
	p->shifted = -1;
	p->scope = NEW(a, Scope);
	return p;
}

/* ---- Linear forms ---- */

static bool lin_add(Lin *to, const Lin *l, int64_t k)
{
	int64_t v;

	if (__builtin_mul_overflow(l->base, k, &v) || __builtin_add_overflow(to->base, v, &to->base))
		return false;
	for (int i = 0; i < l->n; i++) {
		int at = 0;

		while (at < to->n && to->term[at].slot != l->term[i].slot)
			at++;
		if (at == to->n)
			to->term[to->n++] = (Term){l->term[i].slot, 0};
		if (__builtin_mul_overflow(l->term[i].coef, k, &v) ||
		    __builtin_add_overflow(to->term[at].coef, v, &to->term[at].coef))
			return false;
		if (!to->term[at].coef)
			to->term[at] = to->term[--to->n];
	}
	return true;
}

static int slot_of(Prog *p, const Iter *it)
{
	for (int i = 0; i < p->niters; i++)
		if (p->iter[i] == it)
			return i;
	p->bad = true;
	return 0;
}

static bool lin_of(Prog *p, const Expr *e, Lin *out)
{
	Lin a, b;

	*out = (Lin){0};
	switch (e->kind) {
	case EX_CONST:
		out->base = e->i;
		return true;
	case EX_DIM:
		if (!dim_eval(e->dim, p->o->sym, &out->base))
			p->bad = true;
		return true;
	case EX_ITER:
		out->n = 1;
		out->term[0] = (Term){slot_of(p, e->iter), 1};
		return true;
	case EX_INST:
		break;
	default:
		return false;
	}
	if (e->op.inst == IN_neg)
		return lin_of(p, e->op.arg[0], &a) && lin_add(out, &a, -1);
	if (e->op.inst != IN_add && e->op.inst != IN_sub && e->op.inst != IN_mul)
		return false;
	if (!lin_of(p, e->op.arg[0], &a) || !lin_of(p, e->op.arg[1], &b))
		return false;
	if (e->op.inst == IN_mul && a.n == 0)
		return lin_add(out, &b, a.base);
	if (e->op.inst == IN_mul)
		return b.n == 0 && lin_add(out, &a, b.base);
	return lin_add(out, &a, 1) && lin_add(out, &b, e->op.inst == IN_add ? 1 : -1);
}

static int64_t lin_base(const Lin *l, const Points *at)
{
	uint64_t v = (uint64_t)l->base;

	for (int i = 0; i < l->n; i++)
		v += (uint64_t)l->term[i].coef * (uint64_t)at->base[l->term[i].slot];
	return (int64_t)v;
}

static void pattern_fill(Arena *a, const Lin *l, LinPattern *p, const Points *at)
{
	bool any = false, contiguous = true;

	p->id = at->pattern;
	p->min = p->max = 0;
	p->kind = OFF_UNIFORM;
	for (int i = 0; i < l->n; i++)
		any |= at->rel[l->term[i].slot] != NULL;
	if (!any && p->rel)
		memset(p->rel, 0, STRIP * sizeof *p->rel);
	if (!any)
		return;
	if (!p->rel)
		p->rel = NEW_ARRAY(a, STRIP, int64_t);
	memset(p->rel, 0, (size_t)at->n * sizeof *p->rel);
	for (int i = 0; i < l->n; i++) {
		const int64_t *rel = at->rel[l->term[i].slot];
		uint64_t coef = (uint64_t)l->term[i].coef;

		for (int j = 0; rel && j < at->n; j++)
			p->rel[j] = (int64_t)((uint64_t)p->rel[j] + coef * (uint64_t)rel[j]);
	}
	p->min = p->max = p->rel[0];
	for (int j = 0; j < at->n; j++) {
		contiguous &= p->rel[j] == j;
		p->min = p->rel[j] < p->min ? p->rel[j] : p->min;
		p->max = p->rel[j] > p->max ? p->rel[j] : p->max;
	}
	p->kind = contiguous ? OFF_CONTIGUOUS : p->min == 0 && p->max == 0 ? OFF_UNIFORM : OFF_TABLE;
}

static const LinPattern *pattern_of(Arena *a, const Lin *l, LinPattern pat[2], const Points *at)
{
	LinPattern *p = &pat[at->pattern & 1];

	if (p->id != at->pattern)
		pattern_fill(a, l, p, at);
	return p;
}

/* ---- Building ---- */

static int add_node(Prog *p, PNode n)
{
	vec_push(p->a, &p->nodes, n);
	return p->nodes.n - 1;
}

static int const_node(Prog *p, CType t, const void *one)
{
	PNode n = {.kind = EX_CONST, .ct = t};

	n.own = n.val = arena_alloc(p->a, STRIP * 8);
	vec_fill(t, n.own, one, STRIP);
	return add_node(p, n);
}

static int expr_const(Prog *p, const Expr *e)
{
	float f = (float)e->f;
	int32_t i = (int32_t)e->i;
	uint8_t b = e->i != 0;

	switch (e->ct) {
	case CT_F32: return const_node(p, e->ct, &f);
	case CT_F64: return const_node(p, e->ct, &e->f);
	case CT_I32:
	case CT_U32: return const_node(p, e->ct, &i);
	case CT_BOOL: return const_node(p, e->ct, &b);
	default: return const_node(p, e->ct, &e->i);
	}
}

static Access *access_new(Prog *p, Scope *sc, Buf *b, Expr *const *idx, int n)
{
	Access *a = NEW(p->a, Access);
	bool flat = n != b->rank;
	int64_t stride = 1, extent;

	a->buf = b;
	a->n = n;
	a->data = b->data ? (void *)(uintptr_t)b->data : p->bufs[b->id].data;
	a->bound = b->data ? NULL : p->bufs[b->id].bound;
	a->extent = NEW_ARRAY(p->a, n + 1, int64_t);
	a->stride = NEW_ARRAY(p->a, n + 1, int64_t);
	a->lin = NEW_ARRAY(p->a, n, Lin);
	a->dim = arena_array(p->a, (size_t)n, sizeof *a->dim);
	a->idx = NEW_ARRAY(p->a, n, int);
	a->off = NEW_ARRAY(p->a, STRIP, int64_t);
	p->bad |= flat && (n != 1 || b->layout);
	for (int i = b->rank - 1; i >= 0; i--) {
		if (!dim_eval(b->dims[i], p->o->sym, &extent) || extent < 0) {
			p->bad = true;
			extent = 0;
		}
		if (!flat) {
			a->extent[i] = extent;
			a->stride[i] = stride;
		}
		if (__builtin_mul_overflow(stride, extent, &stride))
			p->bad = true;
	}
	if (flat) {
		a->extent[0] = stride;
		a->stride[0] = 1;
	}
	a->affine = true;
	for (int i = 0; i < n && a->affine; i++)
		a->affine = lin_of(p, idx[i], &a->lin[i]) && lin_add(&a->flat, &a->lin[i], a->stride[i]);
	for (int i = 0; i < n && !a->affine; i++)
		a->idx[i] = node_of(p, sc, idx[i]);
	return a;
}

static int load_node(Prog *p, Scope *sc, Expr *e)
{
	PNode n = {.kind = EX_LOAD, .ct = e->ct, .faultable = true};

	n.access = access_new(p, sc, e->load.buf, e->load.idx, e->load.nidx);
	if (e->ct != dtype_ctype(e->load.buf->dtype))
		p->bad = true;
	return add_node(p, n);
}

static int func_node(Prog *p, Expr *e, const int *arg)
{
	Scope sc = {.arg = arg};
	Expr *body = ex_func_body(p->k->pool, e->op.inst, e->ct);

	return node_of(p, &sc, body);
}

static int inst_node(Prog *p, Scope *sc, Expr *e)
{
	PNode n = {.kind = EX_INST, .ct = e->ct, .inst = e->op.inst, .dtype = e->op.dtype, .n = e->op.n};
	CType operand = e->op.arg[n.inst == IN_select ? 1 : 0]->ct;

	for (int i = 0; i < e->op.n; i++)
		n.arg[i] = node_of(p, sc, e->op.arg[i]);
	if (inst_is_func(n.inst))
		return func_node(p, e, n.arg);
	n.faultable = n.inst == IN_index;
	for (int i = 0; i < e->op.n; i++)
		n.faultable |= p->nodes.at[n.arg[i]].faultable;
	if (n.inst == IN_mad && p->o->mad_fused)
		n.inst = IN_fma;
	switch (inst_info[n.inst].rule) {
	case RULE_INDEX:
	case RULE_ROUND: return add_node(p, n);
	case RULE_CVT: n.fn = vec_cvt(operand, e->ct); break;
	case RULE_BITCAST: n.fn = vec_bits(operand, e->ct); break;
	default: n.fn = vec_inst(n.inst, operand);
	}
	p->bad |= !n.fn;
	return add_node(p, n);
}

static int make_node(Prog *p, Scope *sc, Expr *e)
{
	PNode n = {.kind = e->kind, .ct = e->ct};

	if (e->kind == EX_PARAM && sc->arg)
		return sc->arg[e->param];
	if (e->kind == EX_PARAM) {
		n.param = e->param;
		return add_node(p, n);
	}
	if (e->kind == EX_CONST)
		return expr_const(p, e);
	if (e->ct == CT_I64 && lin_of(p, e, &n.lin)) {
		if (n.lin.n == 0)
			return const_node(p, CT_I64, &n.lin.base);
		n.kind = EX_ITER;
		return add_node(p, n);
	}
	return e->kind == EX_LOAD ? load_node(p, sc, e) : inst_node(p, sc, e);
}

static int node_of(Prog *p, Scope *sc, Expr *e)
{
	int made;

	while (sc->memo.n <= e->id)
		vec_push(p->a, &sc->memo, 0);
	if (sc->memo.at[e->id])
		return sc->memo.at[e->id] - 1;
	made = make_node(p, sc, e);
	sc->memo.at[e->id] = made + 1;
	return made;
}

void prog_guard(Prog *p, Expr *guard)
{
	if (guard)
		p->guard = node_of(p, p->scope, guard);
}

int prog_root(Prog *p, Expr *e)
{
	assert(p->nroots < 4);
	p->root[p->nroots] = node_of(p, p->scope, e);
	return p->nroots++;
}

void prog_write(Prog *p, Buf *b, Expr *const *idx, int n)
{
	p->write = access_new(p, p->scope, b, idx, n);
}

/* ---- Order and storage ---- */

/* The nodes that N reads, in OUT; a select's arms are its operands 1 and 2. */
static int operands(const PNode *n, int *out)
{
	if (n->kind == EX_INST) {
		memcpy(out, n->arg, sizeof n->arg);
		return n->n;
	}
	if (n->kind == EX_LOAD && !n->access->affine) {
		memcpy(out, n->access->idx, (size_t)n->access->n * sizeof *out);
		return n->access->n;
	}
	return 0;
}

static void mark_eager(Prog *p, int at)
{
	PNode *n = &p->nodes.at[at];
	int arg[MAX_RANK + 3], count;

	if (n->eager)
		return;
	n->eager = true;
	count = operands(n, arg);
	for (int i = 0; i < count; i++)
		if (!(n->kind == EX_INST && n->inst == IN_select && i > 0))
			mark_eager(p, arg[i]);
}

static void share_storage(Prog *p)
{
	int n = p->nodes.n, arg[MAX_RANK + 3];
	int *last = NEW_ARRAY(p->a, n, int);
	VEC(void *) unused = {0};

	for (int i = 0; i < n; i++) {
		int count = operands(&p->nodes.at[i], arg);

		for (int j = 0; j < count; j++)
			last[arg[j]] = p->nodes.at[i].eager && last[arg[j]] != n ? i : n;
		if (!p->nodes.at[i].eager)
			last[i] = n;
	}
	for (int i = 0; i < p->nroots; i++)
		last[p->root[i]] = n;
	for (int i = 0; p->write && !p->write->affine && i < p->write->n; i++)
		last[p->write->idx[i]] = n;
	if (p->guard >= 0)
		last[p->guard] = n;
	for (int i = 0; i < n; i++) {
		PNode *e = &p->nodes.at[i];
		int count = operands(e, arg);

		if (e->kind == EX_CONST || e->kind == EX_PARAM)
			continue;
		e->own = unused.n && !p->keep ? unused.at[--unused.n] : arena_alloc(p->a, STRIP * 8);
		e->val = e->own;
		for (int j = 0; j < count; j++) {
			void *own = p->nodes.at[arg[j]].own;

			if (last[arg[j]] != i || p->nodes.at[arg[j]].kind == EX_CONST || !own)
				continue;
			last[arg[j]] = n; /* once */
			vec_push(p->a, &unused, own);
		}
	}
}

static bool is_range_test(const Prog *p, const PNode *n)
{
	return n->kind == EX_INST && n->inst >= IN_lt && n->inst <= IN_ge &&
	       p->nodes.at[n->arg[0]].kind == EX_ITER && p->nodes.at[n->arg[1]].kind == EX_CONST;
}

static void mark_range_tests(Prog *p)
{
	int arg[MAX_RANK + 3];

	for (int i = 0; i < p->nodes.n; i++)
		p->nodes.at[i].unread = p->nodes.at[i].kind == EX_ITER;
	for (int i = 0; i < p->nodes.n; i++) {
		PNode *n = &p->nodes.at[i];
		int count = operands(n, arg);

		n->by_range = is_range_test(p, n);
		for (int k = 0; k < count; k++)
			p->nodes.at[arg[k]].unread &= n->by_range;
	}
	for (int i = 0; i < p->nroots; i++)
		p->nodes.at[p->root[i]].unread = false;
	for (int i = 0; p->write && !p->write->affine && i < p->write->n; i++)
		p->nodes.at[p->write->idx[i]].unread = false;
}

bool prog_end(Prog *p)
{
	if (p->bad)
		return false;
	mark_range_tests(p);
	for (int i = 0; i < p->nodes.n; i++)
		if (!p->nodes.at[i].faultable)
			mark_eager(p, i);
	if (p->guard >= 0)
		mark_eager(p, p->guard);
	for (int i = 0; i < p->nroots && p->guard < 0; i++)
		mark_eager(p, p->root[i]);
	for (int i = 0; p->guard < 0 && p->write && !p->write->affine && i < p->write->n; i++)
		mark_eager(p, p->write->idx[i]);
	share_storage(p);
	for (int i = 0; i < p->nodes.n; i++)
		if (!p->nodes.at[i].eager)
			p->nodes.at[i].done = arena_alloc(p->a, STRIP);
	p->lost = arena_alloc(p->a, STRIP);
	p->all = arena_alloc(p->a, STRIP);
	memset(p->all, 1, STRIP);
	return true;
}

void prog_param(Prog *p, int param, const void *val)
{
	for (int i = 0; i < p->nodes.n; i++)
		if (p->nodes.at[i].kind == EX_PARAM && p->nodes.at[i].param == param)
			p->nodes.at[i].val = (void *)(uintptr_t)val;
}

/* ---- Places ---- */

static bool none_set(const uint8_t *mask, int n)
{
	return !memchr(mask, 1, (size_t)n);
}

/* Values of an affine form in every lane. */
static void lin_values(Prog *p, const Lin *lin, LinPattern pat[2], int64_t *out)
{
	const LinPattern *of = pattern_of(p->a, lin, pat, p->at);
	int64_t base = lin_base(lin, p->at);

	if (of->kind == OFF_UNIFORM)
		for (int l = 0; l < p->at->n; l++)
			out[l] = base;
	else
		for (int l = 0; l < p->at->n; l++)
			out[l] = (int64_t)((uint64_t)base + (uint64_t)of->rel[l]);
}

static bool inside_whole(Prog *p, Access *a, int d)
{
	const LinPattern *pat = pattern_of(p->a, &a->lin[d], a->dim[d], p->at);
	int64_t base = lin_base(&a->lin[d], p->at);

	return base + pat->min >= 0 && base + pat->max < a->extent[d];
}

/* Sets a->off and, in LOST, the lanes of MAKE whose index is outside. */
static void lane_offsets(Prog *p, Access *a, const uint8_t *make, uint8_t *lost)
{
	int64_t own[STRIP];
	int n = p->at->n;

	if (a->affine)
		lin_values(p, &a->flat, a->flat_pattern, a->off);
	else
		memset(a->off, 0, (size_t)n * sizeof *a->off);
	for (int d = 0; d < a->n; d++) {
		const int64_t *i = own;
		uint64_t extent = (uint64_t)a->extent[d], stride = (uint64_t)a->stride[d];

		if (a->affine && inside_whole(p, a, d))
			continue;
		if (a->affine)
			lin_values(p, &a->lin[d], a->dim[d], own);
		else
			i = p->nodes.at[a->idx[d]].val;
		for (int l = 0; l < n; l++)
			lost[l] |= (uint8_t)(make[l] & ((uint64_t)i[l] >= extent));
		for (int l = 0; !a->affine && l < n; l++)
			a->off[l] = (int64_t)((uint64_t)a->off[l] + (uint64_t)i[l] * stride);
	}
}

/* Only the lanes of MASK, or some index is outside: every other lane goes where one of them does. */
static bool place_lanes(Prog *p, Access *a, const uint8_t *mask, Place *out)
{
	int64_t some = -1;
	uint8_t make[STRIP], lost[STRIP] = {0};
	int n = p->at->n;
	bool outside;

	memcpy(make, mask ? mask : p->all, (size_t)n);
	lane_offsets(p, a, make, lost);
	outside = memchr(lost, 1, (size_t)n) != NULL;
	for (int l = 0; outside && l < n; l++) {
		make[l] = make[l] & !lost[l];
		p->lost[l] |= lost[l];
	}
	if (outside && p->shifted < 0)
		p->stray = a->buf;
	for (int l = 0; l < n && some < 0; l++)
		some = make[l] ? a->off[l] : some;
	for (int l = 0; l < n; l++)
		a->off[l] = make[l] ? a->off[l] : some;
	*out = (Place){OFF_TABLE, 0, a->off};
	return some >= 0;
}

static bool place_affine(Prog *p, Access *a, const uint8_t *mask, Place *out)
{
	bool inside = true;
	const LinPattern *flat;

	for (int d = 0; d < a->n; d++)
		inside &= inside_whole(p, a, d);
	if (!inside)
		return place_lanes(p, a, mask, out);
	flat = pattern_of(p->a, &a->flat, a->flat_pattern, p->at);
	*out = (Place){flat->kind, lin_base(&a->flat, p->at), flat->rel};
	return true;
}

/* Where A goes in the lanes of MASK; false where there is none to make. */
static bool place(Prog *p, Access *a, const uint8_t *mask, Place *out)
{
	uint64_t outside = 0;
	int n = p->at->n;

	if (a->affine)
		return place_affine(p, a, mask, out);
	if (mask)
		return place_lanes(p, a, mask, out);
	memset(a->off, 0, (size_t)n * sizeof *a->off);
	for (int d = 0; d < a->n; d++) {
		const int64_t *i = p->nodes.at[a->idx[d]].val;
		uint64_t extent = (uint64_t)a->extent[d], stride = (uint64_t)a->stride[d];

		for (int l = 0; l < n; l++) {
			outside |= (uint64_t)i[l] >= extent;
			a->off[l] = (int64_t)((uint64_t)a->off[l] + (uint64_t)i[l] * stride);
		}
	}
	if (outside)
		return place_lanes(p, a, mask, out);
	*out = (Place){OFF_TABLE, 0, a->off};
	return true;
}

bool prog_place(Prog *p, const Points *at, Place *out)
{
	p->at = at;
	return place(p, p->write, p->mask, out) && !p->stray;
}

/* ---- Running ---- */

static void shift_load(Prog *p, PNode *n, const Place *at)
{
	double v[STRIP], e[STRIP];
	int count = p->at->n;

	strip_to_f64(n->ct, n->val, v, count);
	strip_load_bounds(n->access, at, e, count);
	for (int l = 0; l < count; l++) {
		double by = ctype_is_float(n->ct) ? e[l] : e[l] > 0 && e[l] < 1 ? 1 : e[l];

		v[l] += p->sign * by;
		if (n->ct == CT_BOOL)
			v[l] = by == 0 ? v[l] : p->sign > 0;
	}
	n->val = n->own;
	strip_from_f64(n->ct, v, n->own, count);
}

static void exec_load(Prog *p, int i, const uint8_t *mask)
{
	PNode *n = &p->nodes.at[i];
	Access *a = n->access;
	size_t size = (size_t)ctype_bytes(n->ct);
	Place at;
	char *direct;

	n->val = n->own;
	if (!place(p, a, mask, &at)) {
		memset(n->own, 0, (size_t)p->at->n * size);
		return;
	}
	direct = (char *)a->data + (size_t)at.at * size;
	if (at.kind == OFF_CONTIGUOUS && n->ct != CT_BOOL && (uintptr_t)direct % size == 0 &&
	    dtype_info[a->buf->dtype].bits == 8 * (int)size)
		n->val = direct;
	else
		strip_load(a, &at, n->ct, n->own, p->at->n);
	if (p->shifted == i && p->sign)
		shift_load(p, n, &at);
}

static void exec_index(Prog *p, PNode *n, const uint8_t *mask)
{
	const int64_t *i = p->nodes.at[n->arg[0]].val, *extent = p->nodes.at[n->arg[1]].val;
	int64_t *out = n->own;

	for (int l = 0; l < p->at->n; l++) {
		int64_t at = i[l] < 0 ? (int64_t)((uint64_t)i[l] + (uint64_t)extent[l]) : i[l];
		bool inside = at >= 0 && at < extent[l];

		out[l] = inside ? at : 0;
		if (inside || (mask && !mask[l]))
			continue;
		if (p->shifted >= 0)
			p->lost[l] = 1;
		else
			p->fault = true;
	}
}

/* A comparison that has one answer in the whole strip, known from the range of its index. */
static bool exec_range_test(Prog *p, PNode *n)
{
	PNode *a = &p->nodes.at[n->arg[0]];
	const LinPattern *pat = pattern_of(p->a, &a->lin, a->pat, p->at);
	int64_t c = *(const int64_t *)p->nodes.at[n->arg[1]].val, base = lin_base(&a->lin, p->at);
	int64_t lo = base + pat->min, hi = base + pat->max;
	bool strict = n->inst == IN_lt || n->inst == IN_ge; /* of the sides: below c, or c and above */
	bool below = strict ? hi < c : hi <= c, above = strict ? lo >= c : lo > c;
	bool want_below = n->inst == IN_lt || n->inst == IN_le;

	if (!below && !above) {
		if (a->unread)
			lin_values(p, &a->lin, a->pat, a->own);
		return false;
	}
	memset(n->own, below == want_below, (size_t)p->at->n);
	return true;
}

static void demand(Prog *p, int i, const uint8_t *mask);

/* The arms of a select that are lazy, each in the lanes of MASK (null: all) that take it. */
static void demand_arms(Prog *p, const PNode *n, const uint8_t *mask)
{
	const uint8_t *cond = p->nodes.at[n->arg[0]].val;
	uint8_t taken[STRIP];

	for (int arm = 1; arm <= 2; arm++) {
		if (p->nodes.at[n->arg[arm]].eager)
			continue;
		for (int l = 0; l < p->at->n; l++)
			taken[l] = (uint8_t)((mask ? mask[l] : 1) & (arm == 1 ? cond[l] : !cond[l]));
		demand(p, n->arg[arm], taken);
	}
}

static void exec(Prog *p, int i, const uint8_t *mask)
{
	PNode *n = &p->nodes.at[i];
	const void *arg[3] = {NULL, NULL, NULL};

	if (n->kind == EX_LOAD) {
		exec_load(p, i, mask);
		return;
	}
	if (n->kind == EX_ITER && !n->unread)
		lin_values(p, &n->lin, n->pat, n->own);
	if (n->kind != EX_INST || (n->by_range && exec_range_test(p, n)))
		return;
	if (n->inst == IN_index) {
		exec_index(p, n, mask);
		return;
	}
	if (n->inst == IN_select)
		demand_arms(p, n, mask);
	for (int k = 0; k < n->n; k++)
		arg[k] = p->nodes.at[n->arg[k]].val;
	if (n->fn)
		n->fn(n->own, arg[0], arg[1], arg[2], p->at->n);
	else
		vec_round(n->inst, n->dtype, n->ct, n->own, arg[0], p->at->n);
}

/* Evaluates lazy node I at least in the lanes of MASK. Lanes it has from before are made again with it, so
 * that one strip holds them all. */
static void demand(Prog *p, int i, const uint8_t *mask)
{
	PNode *n = &p->nodes.at[i];
	uint8_t want[STRIP];
	int arg[MAX_RANK + 3], count, missing = 0;

	if (n->eager)
		return;
	for (int l = 0; l < p->at->n; l++) {
		missing |= mask[l] & !n->done[l];
		want[l] = mask[l] | n->done[l];
	}
	if (!missing)
		return;
	count = operands(n, arg);
	for (int k = 0; k < count; k++)
		if (!(n->kind == EX_INST && n->inst == IN_select && k > 0))
			demand(p, arg[k], want);
	exec(p, i, want);
	memcpy(n->done, want, (size_t)p->at->n);
}

static void run_roots(Prog *p)
{
	const uint8_t *mask = p->mask ? p->mask : p->all;

	for (int i = 0; i < p->nroots; i++)
		demand(p, p->root[i], mask);
	for (int i = 0; p->write && !p->write->affine && i < p->write->n; i++)
		demand(p, p->write->idx[i], mask);
}

bool prog_run(Prog *p, const Points *at)
{
	p->at = at;
	for (int i = 0; i < p->nodes.n; i++) {
		if (p->nodes.at[i].eager)
			exec(p, i, NULL);
		else
			memset(p->nodes.at[i].done, 0, (size_t)at->n);
		if (i == p->guard)
			p->mask = memchr(p->nodes.at[i].val, 0, (size_t)at->n) ? p->nodes.at[i].val : NULL;
	}
	if (!(p->mask && none_set(p->mask, at->n)))
		run_roots(p);
	return !p->fault && !p->stray;
}

void prog_shift(Prog *p, int load, int sign)
{
	int arg[MAX_RANK + 3];

	p->shifted = load;
	p->sign = sign;
	memset(p->lost, 0, STRIP);
	for (int i = 0; i < p->nodes.n; i++) {
		PNode *n = &p->nodes.at[i];
		int count = operands(n, arg);

		n->touched = i == load;
		for (int k = 0; k < count; k++)
			n->touched |= p->nodes.at[arg[k]].touched;
		if (n->touched && !n->eager)
			memset(n->done, 0, (size_t)p->at->n);
		if (n->touched && n->eager)
			exec(p, i, NULL);
		if (n->touched && i == p->guard)
			memset(p->lost, 1, STRIP);
	}
	run_roots(p);
	p->shifted = -1;
}
