/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names within one printed function, and how the named buffers are loaded and stored.
 *
 * There are two name spaces. An identifier of a buffer, an iterator or a size of the IR ends in an
 * underscore: `out_`, `i0_`, `batch_`. Models and texts may give these any names, such as
 * `default`, `NULL` or `valid`. No other identifier of a kernel ends in an underscore: no keyword,
 * no name of C's headers, of runtime/dlrt.h or of ir/expr/scalar.h, and none that code generation
 * creates, such as `begin` or `t3`. (Some predefined macros of compilers do, but they begin with an
 * underscore; identifiers from the IR begin with a letter.)
 */
#include "codegen/c/gen_c_impl.h"
#include "passes/forms/kernels.h"

#include <ctype.h>
#include <string.h>

enum { MOST = 40 }; /* letters of a name, at most */

int fn_find_name(const Fn *f, const char *s, size_t n)
{
	for (int i = 0; i < f->names.n; i++)
		if (strlen(f->names.at[i].text) == n && !memcmp(f->names.at[i].text, s, n))
			return i;
	return -1;
}

const char *fn_name(Fn *f, const void *key, const char *base)
{
	Arena *a = f->g->arena;
	const char *word, *s;

	for (int i = 0; i < f->names.n; i++)
		if (f->names.at[i].key == key)
			return f->names.at[i].text;
	word = str_word(a, base ? base : "", MOST);
	if (!isalpha((unsigned char)*word))
		word = arena_printf(a, "v%s", word);
	s = arena_printf(a, "%s_", word);
	for (int i = 2; fn_find_name(f, s, strlen(s)) >= 0; i++)
		s = arena_printf(a, "%s_%d_", word, i);
	vec_push(a, &f->names, ((FnName){key, s}));
	return s;
}

static int local_index(const Fn *f, const Buf *b)
{
	for (int i = 0; i < f->locals.n; i++)
		if (f->locals.at[i] == b)
			return i;
	return -1;
}

const char *fn_buf(Fn *f, Buf *b)
{
	if (local_index(f, b) < 0) {
		bool seen = false;

		for (int i = 0; i < f->bufs.n; i++)
			seen = seen || f->bufs.at[i] == b;
		for (int i = 0; i < f->tables.n; i++)
			seen = seen || f->tables.at[i] == b;
		if (!seen && b->data)
			vec_push(f->g->arena, &f->tables, b);
		else if (!seen)
			vec_push(f->g->arena, &f->bufs, b);
	}
	return fn_name(f, b, b->name);
}

/* ---- Leaves of expressions ---- */

static void print_iter(void *arg, StrBuf *b, const Iter *it)
{
	strbuf_puts(b, fn_name(arg, it, it->name));
}

/* D, which has no constant term, is *K times OF. */
static bool is_multiple(Ctx *c, Dim *d, Dim *of, int64_t *k)
{
	Dim *q;

	return dim_divides(c, d, of, &q) && dim_is_const(q, k);
}

/* The parameter of F such that D, which has no constant term, is *K times it. Adds the parameter if
 * F has none; for a multiple of a symbol it is the symbol, so that its name appears. */
static Dim *parameter_of(Fn *f, Dim *d, int64_t *k)
{
	Ctx *c = f->sched->kernel->ctx;
	int64_t coef = 0;
	Dim *mono, *negated;

	for (int i = 0; i < f->sizes.n; i++)
		if (is_multiple(c, d, f->sizes.at[i], k))
			return f->sizes.at[i];
	*k = 1;
	if (dim_term(c, d, 0, &coef, &mono) && dim_as_sym(mono) && is_multiple(c, d, mono, k)) {
		d = mono;
	} else if (coef < 0) {
		negated = dim_mul(c, d, dim_const(c, -1));
		*k = dim_has_opaque(negated) ? 1 : -1;
		d = *k < 0 ? negated : d;
	}
	vec_push(f->g->arena, &f->sizes, d);
	return d;
}

/* The caller computes sizes: then a function does not depend on how its sizes follow from the
 * symbols, and the branches of a quotient, a minimum or a maximum do not prevent vectorising a
 * loop. A multiple of a size, such as a stride, or a size plus a constant needs no separate
 * parameter. */
static void print_dim(void *arg, StrBuf *b, Dim *d)
{
	Fn *f = arg;
	Ctx *c = f->sched->kernel->ctx;
	int64_t k, rest = dim_const_part(d);
	const char *name;
	const Sym *s;

	if (dim_is_const(d, NULL)) {
		strbuf_printf(b, rest == INT64_MIN ? "INT64_MIN" : "%lld", (long long)rest);
		return;
	}
	if (rest == INT64_MIN) /* its negation would overflow */
		rest = 0;
	d = parameter_of(f, dim_sub(c, d, dim_const(c, rest)), &k);
	s = dim_as_sym(d);
	name = fn_name(f, d, s ? s->name : "size");
	if (k == 1 || k == -1)
		strbuf_printf(b, "%s%s", k < 0 ? "-" : "", name);
	else if (k == INT64_MIN)
		strbuf_printf(b, "INT64_MIN*%s", name);
	else
		strbuf_printf(b, "%lld*%s", (long long)k, name);
	if (rest)
		strbuf_printf(b, " %c %lld", rest < 0 ? '-' : '+',
			      (long long)(rest < 0 ? -rest : rest));
}

const char *c_memory_type(DType t)
{
	switch (t) {
	case DT_F32: return "float";
	case DT_F64: return "double";
	case DT_I8: return "int8_t";
	case DT_U8:
	case DT_BOOL: return "uint8_t";
	case DT_I16: return "int16_t";
	case DT_U16: return "uint16_t";
	case DT_I32: return "int32_t";
	case DT_U32: return "uint32_t";
	case DT_I64:
	case DT_STR: return "int64_t";
	case DT_U64: return "uint64_t";
	case DT_F16:
	case DT_BF16: return "uint16_t";
	default: return NULL; /* accessed by dl_load_* and dl_store_* */
	}
}

bool c_converts(DType t)
{
	return !c_memory_type(t) || dtype_is_half(t);
}

bool fn_is_scalar(const Fn *f, const Buf *b)
{
	int i = local_index(f, b);

	return i >= 0 && f->scalar.at[i];
}

bool fn_writes(const LNode *n, const Buf *b)
{
	for (; n; n = n->next)
		if (((n->kind == LN_STORE || n->kind == LN_UPDATE || n->kind == LN_REDUCE) &&
		     (n->store.buf[0] == b || n->store.buf[1] == b)) ||
		    fn_writes(n->body, b))
			return true;
	return false;
}

/* Whether B is an operand, or a temporary of the kernel in memory, that may be read at any time. */
static bool is_memory(const Fn *f, const Buf *b)
{
	return b->kind == BUF_IN || (b->kind == BUF_TEMP && local_index(f, b) < 0);
}

bool fn_is_value(const Fn *f, const Buf *b)
{
	int64_t n;

	for (int i = 0; i < b->rank; i++)
		if (!dim_is_const(b->dims[i], &n) || n != 1)
			return false;
	return is_memory(f, b) && !b->data && b->dtype != DT_STR && !fn_writes(f->stage->body, b);
}

const char *fn_value(Fn *f, const Buf *b)
{
	return fn_name(f, &b->dims, arena_printf(f->g->arena, "%s_value", b->name));
}

static void print_value(Fn *f, StrBuf *b, const Buf *buf)
{
	bool seen = false;

	for (int i = 0; i < f->values.n; i++)
		seen = seen || f->values.at[i] == buf;
	if (!seen)
		vec_push(f->g->arena, &f->values, (Buf *)buf);
	strbuf_puts(b, fn_value(f, buf));
}

/* An index that may be out of range is computed, though only the first element is in range. */
static void print_load(void *arg, StrBuf *b, const Expr *load, const char *at)
{
	const Buf *buf = load->load.buf;
	Fn *f = arg;

	fn_buf(f, (Buf *)buf);
	if (!fn_is_scalar(f, buf) && fn_is_value(f, buf) &&
	    !(load->load.nidx && expr_can_fault(load->load.idx[0])))
		print_value(f, b, buf);
	else
		fn_load(f, b, buf, at);
}

void fn_load(Fn *f, StrBuf *b, const Buf *buf, const char *at)
{
	const char *name = fn_buf(f, (Buf *)buf);

	if (fn_is_scalar(f, buf))
		strbuf_puts(b, name);
	else if (c_converts(buf->dtype))
		strbuf_printf(b, "dl_load_%s(%s, %s)", dtype_info[buf->dtype].name, name, at);
	else if (buf->dtype == DT_BOOL)
		strbuf_printf(b, "(%s[%s] != 0)", name, at);
	else if (dtype_info[buf->dtype].bits < 32)
		strbuf_printf(b, "(int32_t)%s[%s]", name, at);
	else
		strbuf_printf(b, "%s[%s]", name, at);
}

void fn_store(Fn *f, StrBuf *b, Buf *buf, const char *at, const char *val)
{
	const char *name = fn_buf(f, buf);

	if (fn_is_scalar(f, buf))
		strbuf_printf(b, "%s = %s;\n", name, val);
	else if (c_converts(buf->dtype))
		strbuf_printf(b, "dl_store_%s(%s, %s, %s);\n", dtype_info[buf->dtype].name, name,
			      at, val);
	else if (dtype_info[buf->dtype].bits < 32)
		strbuf_printf(b,
			      c_is_operation(val) ? "%s[%s] = (%s)(%s);\n" : "%s[%s] = (%s)%s;\n",
			      name, at, c_memory_type(buf->dtype), val);
	else
		strbuf_printf(b, "%s[%s] = %s;\n", name, at, val);
}

const Tile *fn_tile_with_runs(const LNode *n)
{
	const Tile *t = NULL;

	for (; n && !t; n = n->next)
		t = n->tile && n->tile->by_runs.starts ? n->tile : fn_tile_with_runs(n->body);
	return t;
}

static void use_func(void *arg, Inst fn, FuncForm form)
{
	((Fn *)arg)->g->used_funcs.used[fn][form] = true;
}

static bool natural_inst(void *fn, const Expr *e)
{
	const Expr *a = e->op.arg[0], *b = e->op.arg[1];

	switch (e->op.inst) {
	case IN_add:
	case IN_mul:
	case IN_floordiv:
	case IN_mod:
	case IN_min: return fn_natural(fn, a) && fn_natural(fn, b);
	case IN_max: return fn_natural(fn, a) || fn_natural(fn, b);
	default: return false;
	}
}

bool fn_natural(void *fn, const Expr *e)
{
	const Fn *f = fn;
	int64_t lo, hi;

	if (e->kind == EX_CONST)
		return e->i >= 0;
	if (e->kind == EX_INST && e->ct == CT_I64 && e->op.n == 2)
		return natural_inst(fn, e);
	if (e->kind == EX_DIM) {
		dim_bounds(f->sched->kernel->ctx, e->dim, &lo, &hi);
		return lo >= 0;
	}
	for (int i = 0; i < f->naturals.n && e->kind == EX_ITER; i++)
		if (f->naturals.at[i] == e->iter)
			return true;
	return false;
}

void fn_note_natural(Fn *f, const LNode *n)
{
	bool natural = fn_natural(f, n->range.lo);

	for (int i = 0; i < f->naturals.n; i++)
		if (f->naturals.at[i] == n->range.var)
			f->naturals.at[i] = NULL;
	if (natural)
		vec_push(f->g->arena, &f->naturals, n->range.var);
}

/* Loads from inputs and temporaries. An element of a temporary need not have a value yet. */
static bool in_bounds(void *fn, const Expr *load)
{
	const Fn *f = fn;
	Kernel *k = f->sched->kernel;
	const Buf *b = load->load.buf;

	return b->kind != BUF_OUT && load->load.nidx == 1 &&
	       ex_in_range(k->pool, load->load.idx[0], buf_numel(k->ctx, b));
}

CExprNames fn_leaves(Fn *f)
{
	return (CExprNames){.iter = print_iter,
			    .dim = print_dim,
			    .load = print_load,
			    .func = use_func,
			    .natural = fn_natural,
			    .in_bounds = in_bounds,
			    .arg = f};
}
