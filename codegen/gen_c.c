/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/gen_c.h"

#include "codegen/c_expr.h"
#include "codegen/c_tile.h"
#include "passes/kernels.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Names within one function: an iterator or buffer takes its own name, or name_2, name_3 ... */
typedef struct Name {
	const void *key;
	const char *text;
} Name;

typedef struct Fn {
	GenC *g;
	const Schedule *sched;
	const Stage *stage;
	VEC(Name) names;
	VEC(Buf *) bufs;   /* parameters, in order of use */
	VEC(Sym *) syms;
	VEC(Buf *) tables; /* constants */
	VEC(Buf *) locals;
	VEC(bool) scalar;  /* by local: a plain variable */
	StrBuf body;
	int indent, ntemp;
	bool faults;
	CExprNames cb;
} Fn;

/* ---- Names ---- */

static bool name_taken(Fn *f, const char *s)
{
	static const char *const reserved[] = {"k", "begin", "end", "scratch", "fault", "row", "x", "y", "int", "float",
					       "double", "if", "for", "do", "while", "const", "return", "static", "char",
					       "long", "short", "void", "break", "case", "auto", "register", "signed",
					       "unsigned", "goto", "else", "switch", "union", "struct", "enum", "inline"};

	for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
		if (i != 6 && i != 7 && !strcmp(reserved[i], s))
			return true;
	for (int i = 0; i < f->names.n; i++)
		if (!strcmp(f->names.at[i].text, s))
			return true;
	return false;
}

static const char *c_identifier(Arena *a, const char *s)
{
	char *c = arena_printf(a, "%s%s", (*s >= '0' && *s <= '9') || !*s ? "_" : "", s);

	for (char *p = c; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '_'))
			*p = '_';
	/* t0, t1 ... are temporaries */
	if (c[0] == 't' && c[1] >= '0' && c[1] <= '9')
		return arena_printf(a, "_%s", c);
	return c;
}

static const char *name_of(Fn *f, const void *key, const char *base)
{
	const char *c, *s;

	for (int i = 0; i < f->names.n; i++)
		if (f->names.at[i].key == key)
			return f->names.at[i].text;
	c = s = c_identifier(f->g->arena, base ? base : "v");
	for (int i = 2; name_taken(f, s); i++)
		s = arena_printf(f->g->arena, "%s_%d", c, i);
	vec_push(f->g->arena, &f->names, ((Name){key, s}));
	return s;
}

static int local_index(const Fn *f, const Buf *b)
{
	for (int i = 0; i < f->locals.n; i++)
		if (f->locals.at[i] == b)
			return i;
	return -1;
}

static const char *buf_name(Fn *f, Buf *b)
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
	return name_of(f, b, b->name);
}

/* ---- Leaves of expressions ---- */

static void print_iter(void *arg, StrBuf *b, const Iter *it)
{
	strbuf_puts(b, name_of(arg, it, it->name));
}

static const char *sym_name(void *arg, const Sym *s)
{
	Fn *f = arg;

	for (int i = 0; i < f->syms.n; i++)
		if (f->syms.at[i] == s)
			return name_of(f, s, s->name);
	vec_push(f->g->arena, &f->syms, (Sym *)s);
	return name_of(f, s, s->name);
}

static void print_dim(void *arg, StrBuf *b, Dim *d)
{
	strbuf_puts(b, "(");
	dim_print_c(b, d, sym_name, arg);
	strbuf_puts(b, ")");
}

/* Types whose memory C reads and writes as they are. */
static const char *memory_type(DType t)
{
	switch (t) {
	case DT_F32: return "float";
	case DT_F64: return "double";
	case DT_I8: return "int8_t";
	case DT_U8: case DT_BOOL: return "uint8_t";
	case DT_I16: return "int16_t";
	case DT_U16: return "uint16_t";
	case DT_I32: return "int32_t";
	case DT_U32: return "uint32_t";
	case DT_I64: return "int64_t";
	case DT_U64: return "uint64_t";
	case DT_F16: case DT_BF16: return "uint16_t";
	default: return NULL; /* through dl_load_*, dl_store_* */
	}
}

static bool converts(DType t)
{
	return !memory_type(t) || t == DT_F16 || t == DT_BF16;
}

static bool is_scalar(Fn *f, const Buf *b)
{
	int i = local_index(f, b);

	return i >= 0 && f->scalar.at[i];
}

static void print_load(void *arg, StrBuf *b, const Buf *buf, const char *at)
{
	Fn *f = arg;
	const char *name = buf_name(f, (Buf *)buf);

	if (is_scalar(f, buf))
		strbuf_puts(b, name);
	else if (converts(buf->dtype))
		strbuf_printf(b, "dl_load_%s(%s, %s)", dtype_info[buf->dtype].name, name, at);
	else if (buf->dtype == DT_BOOL)
		strbuf_printf(b, "(%s[%s] != 0)", name, at);
	else if (dtype_info[buf->dtype].bits < 32)
		strbuf_printf(b, "(int32_t)%s[%s]", name, at);
	else
		strbuf_printf(b, "%s[%s]", name, at);
}

static void print_store(Fn *f, StrBuf *b, Buf *buf, const char *at, const char *val)
{
	const char *name = buf_name(f, buf);

	if (is_scalar(f, buf))
		strbuf_printf(b, "%s = %s;\n", name, val);
	else if (converts(buf->dtype))
		strbuf_printf(b, "dl_store_%s(%s, %s, %s);\n", dtype_info[buf->dtype].name, name, at, val);
	else if (dtype_info[buf->dtype].bits < 32)
		strbuf_printf(b, "%s[%s] = (%s)%s;\n", name, at, memory_type(buf->dtype), val);
	else
		strbuf_printf(b, "%s[%s] = %s;\n", name, at, val);
}

static void use_func(void *arg, Inst fn, CType t)
{
	((Fn *)arg)->g->used_funcs.used[fn][t == CT_F64] = true;
}

static void find_fault(void *arg, Expr *e)
{
	if (e->kind == EX_INST && e->op.inst == IN_index)
		((Fn *)arg)->faults = true;
}

/* ---- Nodes ---- */

static void tabs(Fn *f)
{
	for (int i = 0; i < f->indent; i++)
		strbuf_puts(&f->body, "\t");
}

/* The texts of several expressions, their temporaries printed before; null ones stay empty. */
static void texts(Fn *f, Expr *const *e, int n, StrBuf *out)
{
	Expr *some[8] = {NULL};
	StrBuf got[8] = {{0}};
	int m = 0;

	for (int i = 0; i < n; i++)
		if (e[i]) {
			ex_walk(e[i], find_fault, f);
			some[m++] = e[i];
		}
	c_exprs(&f->body, got, some, m, &f->cb, f->indent, &f->ntemp);
	m = 0;
	for (int i = 0; i < n; i++)
		if (e[i])
			out[i] = got[m++];
}

static void print_nodes(Fn *f, const LNode *n);

/* Opens a block under a guard; what only the guarded part needs is computed inside. */
static bool open_guard(Fn *f, Expr *guard)
{
	StrBuf t = {0};

	if (!guard)
		return false;
	texts(f, &guard, 1, &t);
	tabs(f);
	strbuf_printf(&f->body, "if (%s) {\n", strbuf_str(&t));
	strbuf_free(&t);
	f->indent++;
	return true;
}

static void close_block(Fn *f)
{
	f->indent--;
	tabs(f);
	strbuf_puts(&f->body, "}\n");
}

static void print_one_store(Fn *f, const LNode *n)
{
	Expr *e[] = {n->idx, n->val[0]};
	StrBuf t[2] = {{0}};
	bool guarded = open_guard(f, n->guard);

	texts(f, e, 2, t);
	tabs(f);
	print_store(f, &f->body, n->buf[0], strbuf_str(&t[0]), strbuf_str(&t[1]));
	strbuf_free(&t[0]);
	strbuf_free(&t[1]);
	if (guarded)
		close_block(f);
}

/* state[at] = combine(state[at], val), all components at once. */
static void print_update(Fn *f, const LNode *n, Buf *const *state, Expr *at)
{
	ExprPool *p = f->sched->kernel->pool;
	Expr *a[2], *b[2], *e[3] = {at};
	StrBuf t[3] = {{0}};
	bool guarded = open_guard(f, n->guard);

	for (int i = 0; i < n->nout; i++) {
		a[i] = ex_load(p, state[i], &at, 1);
		b[i] = n->val[i];
	}
	for (int i = 0; i < n->nout; i++)
		e[i + 1] = monoid_step(p, n->red, i, a, b);
	texts(f, e, n->nout + 1, t);
	if (n->nout == 2) {
		tabs(f);
		strbuf_printf(&f->body, "const %s u%d = %s;\n", c_type(e[2]->ct), f->ntemp, strbuf_str(&t[2]));
		strbuf_free(&t[2]);
		strbuf_printf(&t[2], "u%d", f->ntemp++);
	}
	for (int i = 0; i < n->nout; i++) {
		tabs(f);
		print_store(f, &f->body, state[i], strbuf_str(&t[0]), strbuf_str(&t[i + 1]));
	}
	for (int i = 0; i < 3; i++)
		strbuf_free(&t[i]);
	if (guarded)
		close_block(f);
}

static void declare(Fn *f, Buf *b, Expr *offset)
{
	Dim *n = dim_const(f->g->ctx, 1);
	const char *type = memory_type(b->dtype), *name;
	int64_t count;

	for (int i = 0; i < b->rank; i++)
		n = dim_mul(f->g->ctx, n, b->dims[i]);
	vec_push(f->g->arena, &f->locals, b);
	vec_push(f->g->arena, &f->scalar, b->rank == 0 && !converts(b->dtype));
	name = name_of(f, b, b->name);
	tabs(f);
	if (vec_last(&f->scalar)) {
		/* A variable holds the scalar type; a bool or a small integer keeps its range by its stores. */
		strbuf_printf(&f->body, "%s %s;\n",
			      dtype_info[b->dtype].bits < 32 ? memory_type(b->dtype) : c_type(dtype_ctype(b->dtype)), name);
	} else if (offset) {
		StrBuf at = {0};

		texts(f, &offset, 1, &at);
		strbuf_printf(&f->body, "%s *const %s = (void *)((char *)scratch + %s);\n", type ? type : "uint8_t", name,
			      strbuf_str(&at));
		strbuf_free(&at);
	} else {
		if (!dim_is_const(n, &count))
			abort(); /* l_local puts these in scratch */
		if (!type)
			count = dtype_size(b->dtype, count);
		strbuf_printf(&f->body, "%s %s[%lld] __attribute__((aligned(64)));\n", type ? type : "uint8_t", name,
			      (long long)(count ? count : 1));
	}
}

static bool const_range(const LNode *n, int64_t *trips)
{
	if (n->lo->kind != EX_CONST || n->hi->kind != EX_CONST)
		return false;
	*trips = n->hi->i - n->lo->i;
	return true;
}

/* A reduction in lanes: independent partial states, so that the loop over them vectorises, then the rest,
 * then the lanes are combined in order. */
static void print_reduce(Fn *f, const LNode *n)
{
	ExprPool *p = f->sched->kernel->pool;
	int64_t lanes = 2 * f->g->target->vector_bytes / (dtype_info[ctype_dtype(n->val[0]->ct)].bits / 8), trips;
	const char *var = name_of(f, n->var, n->var->name);
	Iter *lane = NEW(f->g->arena, Iter);
	Buf *part[2] = {NULL, NULL};
	StrBuf lo = {0}, hi = {0};
	Expr *ends[] = {n->lo, n->hi};
	StrBuf t[2] = {{0}};
	int mark;
	bool small = const_range(n, &trips) && trips < 2 * lanes;

	texts(f, ends, 2, t);
	lo = t[0];
	hi = t[1];
	if (small) {
		tabs(f);
		strbuf_printf(&f->body, "for (int64_t %s = %s; %s < %s; %s++) {\n", var, strbuf_str(&lo), var, strbuf_str(&hi), var);
		f->indent++;
		print_update(f, n, n->buf, ex_int(p, CT_I64, 0));
		close_block(f);
		strbuf_free(&lo);
		strbuf_free(&hi);
		return;
	}
	tabs(f);
	strbuf_puts(&f->body, "{\n");
	f->indent++;
	mark = f->names.n;
	*lane = (Iter){.name = "lane", .extent = dim_const(f->g->ctx, lanes)};
	for (int i = 0; i < n->nout; i++) {
		Dim *d = lane->extent;
		StrBuf id = {0};
		Expr *identity = monoid_identity(p, n->red, i, n->val[i]->ct);

		part[i] = NEW(f->g->arena, Buf);
		*part[i] = (Buf){.name = "part", .dtype = ctype_dtype(n->val[i]->ct), .rank = 1, .dims = NEW(f->g->arena, Dim *)};
		part[i]->dims[0] = d;
		declare(f, part[i], NULL);
		texts(f, &identity, 1, &id);
		tabs(f);
		strbuf_printf(&f->body, "for (int l = 0; l < %d; l++)\n", (int)lanes);
		tabs(f);
		strbuf_printf(&f->body, "\t%s[l] = %s;\n", name_of(f, part[i], "part"), strbuf_str(&id));
		strbuf_free(&id);
	}
	tabs(f);
	strbuf_printf(&f->body, "const int64_t hi_%s = %s;\n", var, strbuf_str(&hi));
	tabs(f);
	strbuf_printf(&f->body, "int64_t at_%s = %s;\n", var, strbuf_str(&lo));
	tabs(f);
	strbuf_printf(&f->body, "for (; at_%s + %d <= hi_%s; at_%s += %d) {\n", var, (int)lanes, var, var, (int)lanes);
	f->indent++;
	tabs(f);
	strbuf_puts(&f->body, "DL_IVDEP\n");
	tabs(f);
	strbuf_printf(&f->body, "for (int64_t %s = 0; %s < %d; %s++) {\n", name_of(f, lane, "lane"), name_of(f, lane, "lane"),
		      (int)lanes, name_of(f, lane, "lane"));
	f->indent++;
	tabs(f);
	strbuf_printf(&f->body, "const int64_t %s = at_%s + %s;\n", var, var, name_of(f, lane, "lane"));
	print_update(f, n, part, ex_iter(p, lane));
	close_block(f);
	close_block(f);
	tabs(f);
	strbuf_printf(&f->body, "for (int64_t %s = at_%s; %s < hi_%s; %s++) {\n", var, var, var, var, var);
	f->indent++;
	print_update(f, n, part, ex_int(p, CT_I64, 0));
	close_block(f);
	tabs(f);
	strbuf_printf(&f->body, "for (int64_t %s = 0; %s < %d; %s++) {\n", name_of(f, lane, "lane"), name_of(f, lane, "lane"),
		      (int)lanes, name_of(f, lane, "lane"));
	f->indent++;
	{
		LNode fold = *n;
		Expr *at = ex_iter(p, lane);

		for (int i = 0; i < n->nout; i++)
			fold.val[i] = ex_load(p, part[i], &at, 1);
		fold.guard = NULL;
		print_update(f, &fold, n->buf, ex_int(p, CT_I64, 0));
	}
	close_block(f);
	close_block(f);
	(void)mark;
	strbuf_free(&lo);
	strbuf_free(&hi);
}

static void print_loop(Fn *f, const LNode *n)
{
	const char *var = name_of(f, n->var, n->var->name);
	Expr *ends[] = {n->lo, n->hi};
	StrBuf t[2] = {{0}};

	texts(f, ends, 2, t);
	if (n->loop == LOOP_VECTOR || n->loop == LOOP_SHORT) {
		tabs(f);
		strbuf_puts(&f->body, n->loop == LOOP_SHORT ? "DL_SHORT\n" : "DL_IVDEP\n");
	}
	tabs(f);
	strbuf_printf(&f->body, "for (int64_t %s = %s, end_%s = %s; %s < end_%s; ", var, strbuf_str(&t[0]), var, strbuf_str(&t[1]),
		      var, var);
	if (n->step == 1)
		strbuf_printf(&f->body, "%s++) {\n", var);
	else
		strbuf_printf(&f->body, "%s += %lld) {\n", var, (long long)n->step);
	strbuf_free(&t[0]);
	strbuf_free(&t[1]);
	f->indent++;
	print_nodes(f, n->body);
	close_block(f);
}

static void print_let(Fn *f, const LNode *n)
{
	StrBuf t = {0};

	texts(f, &n->lo, 1, &t);
	tabs(f);
	strbuf_printf(&f->body, "const int64_t %s = %s;\n", name_of(f, n->var, n->var->name), strbuf_str(&t));
	strbuf_free(&t);
}

static void print_tile(Fn *f, const LNode *n)
{
	const Tile *tl = n->tile;
	const char *row, *fn = c_tile_use(f->g, tl);
	Expr *e[] = {tl->m_valid, tl->a_step, tl->b_at, tl->b_step, tl->k};
	StrBuf t[5] = {{0}}, at = {0};

	tabs(f);
	strbuf_puts(&f->body, "{\n");
	f->indent++;
	texts(f, e, 5, t);
	row = name_of(f, tl->row, tl->row->name);
	tabs(f);
	strbuf_printf(&f->body, "const int64_t valid = %s;\n", strbuf_str(&t[0]));
	tabs(f);
	strbuf_printf(&f->body, "int64_t row[%d];\n\n", tl->mr);
	tabs(f);
	strbuf_printf(&f->body, "for (int64_t i_ = 0; i_ < %d; i_++) {\n", tl->mr);
	f->indent++;
	tabs(f);
	strbuf_printf(&f->body, "const int64_t %s = i_ < valid ? i_ : valid - 1;\n", row);
	texts(f, (Expr *const *)&tl->a_at, 1, &at);
	tabs(f);
	strbuf_printf(&f->body, "row[i_] = %s;\n", strbuf_str(&at));
	close_block(f);
	tabs(f);
	strbuf_printf(&f->body, "%s(valid, %s, %s, row, %s, %s + %s, %s, %s);\n", fn, strbuf_str(&t[4]), buf_name(f, tl->a),
		      strbuf_str(&t[1]), buf_name(f, tl->b), strbuf_str(&t[2]), strbuf_str(&t[3]), buf_name(f, tl->acc));
	close_block(f);
	for (int i = 0; i < 5; i++)
		strbuf_free(&t[i]);
	strbuf_free(&at);
}

static void print_nodes(Fn *f, const LNode *n)
{
	for (; n; n = n->next) {
		switch (n->kind) {
		case LN_LOOP: print_loop(f, n); break;
		case LN_LET: print_let(f, n); break;
		case LN_STORE: print_one_store(f, n); break;
		case LN_UPDATE: print_update(f, n, n->buf, n->idx); break;
		case LN_REDUCE: print_reduce(f, n); break;
		case LN_LOCAL: declare(f, n->buf[0], n->idx); break;
		case LN_TILE: print_tile(f, n); break;
		}
	}
}

/* ---- Functions ---- */

static void print_table(StrBuf *b, const Buf *t, const char *name)
{
	int64_t n = 1, v;

	for (int i = 0; i < t->rank; i++)
		n = dim_is_const(t->dims[i], &v) ? n * v : n;
	strbuf_printf(b, "\tstatic const %s %s[] = {", memory_type(t->dtype), name);
	for (int64_t i = 0; i < n; i++) {
		strbuf_puts(b, i ? ", " : "");
		if (t->dtype == DT_F32 || t->dtype == DT_F64) {
			double d = dtype_load_f64(t->dtype, t->data, i);

			if (isfinite(d))
				strbuf_printf(b, "%a%s", d, t->dtype == DT_F32 ? "f" : "");
			else
				strbuf_printf(b, isnan(d) ? "__builtin_nan(\"\")" : d < 0 ? "-__builtin_inf()" : "__builtin_inf()");
		} else if (converts(t->dtype)) {
			strbuf_printf(b, "%u", ((const uint16_t *)t->data)[i]);
		} else {
			strbuf_printf(b, "%lld", (long long)dtype_load_i64(t->dtype, t->data, i));
		}
	}
	strbuf_puts(b, n ? "};\n" : "0};\n");
}

static bool written(const LNode *n, const Buf *b)
{
	for (; n; n = n->next)
		if (((n->kind == LN_STORE || n->kind == LN_UPDATE || n->kind == LN_REDUCE) && (n->buf[0] == b || n->buf[1] == b)) ||
		    written(n->body, b))
			return true;
	return false;
}

static void print_header(Fn *f, StrBuf *b)
{
	for (int i = 0; i < f->tables.n; i++)
		print_table(b, f->tables.at[i], name_of(f, f->tables.at[i], NULL));
	for (int i = 0; i < f->bufs.n; i++) {
		Buf *buf = f->bufs.at[i];
		const char *type = memory_type(buf->dtype);

		strbuf_printf(b, "\t%s%s *const %s = k->buf[%d];\n", written(f->stage->body, buf) ? "" : "const ",
			      type ? type : "uint8_t", name_of(f, buf, NULL), i);
	}
	for (int i = 0; i < f->syms.n; i++)
		strbuf_printf(b, "\tconst int64_t %s = k->dim[%d];\n", name_of(f, f->syms.at[i], NULL), i);
	if (f->faults)
		strbuf_puts(b, "\tint fault = 0;\n");
}

static CFunc *intern_func(GenC *g, const Fn *f, const char *text)
{
	uint64_t h = hash_bytes(HASH_SEED, text, strlen(text));
	CFunc *fn;
	const char *name;
	int same = 0;

	for (int i = 0; i < g->funcs.n; i++)
		if (g->funcs.at[i]->hash == h && !strcmp(g->funcs.at[i]->text, text))
			return g->funcs.at[i];
	fn = NEW(g->arena, CFunc);
	name = arena_printf(g->arena, "%s_%s", g->prefix, c_identifier(g->arena, f->stage->name));
	for (int i = 0; i < g->funcs.n; i++)
		same += str_starts(g->funcs.at[i]->name, name);
	fn->name = same ? arena_printf(g->arena, "%s_%d", name, same + 1) : name;
	fn->text = arena_strdup(g->arena, text);
	fn->hash = h;
	fn->faults = f->faults;
	vec_push(g->arena, &g->funcs, fn);
	return fn;
}

CStage gen_c_stage(GenC *g, const Schedule *s, const Stage *st)
{
	Fn f = {.g = g, .sched = s, .stage = st, .indent = 2};
	StrBuf all = {0};
	CStage c;

	for (int i = 0; i < g->done.n; i++)
		if (g->done.at[i].stage == st)
			return g->done.at[i].c;
	f.cb = (CExprNames){print_iter, print_dim, print_load, use_func, &f};
	print_nodes(&f, st->body);
	print_header(&f, &all);
	strbuf_printf(&all, "%s\tfor (int64_t %s = begin; %s < end; %s++) {\n%s\t}\n", all.n ? "\n" : "",
		      name_of(&f, st->var, "p"), name_of(&f, st->var, "p"), name_of(&f, st->var, "p"), strbuf_str(&f.body));
	if (f.faults)
		strbuf_printf(&all, "\tif (fault)\n\t\tdl_fault(k, (int32_t)k->dim[%d]);\n", f.syms.n);
	if (!f.bufs.n && !f.syms.n && !f.faults)
		strbuf_puts(&all, "\t(void)k;\n");
	strbuf_puts(&all, "\t(void)scratch;\n");
	c.fn = intern_func(g, &f, strbuf_str(&all));
	for (int i = 0; i < s->kernel->locs.n; i++)
		vec_push(g->arena, &c.fn->locs, s->kernel->locs.at[i]);
	c.buf = f.bufs.at;
	c.nbuf = f.bufs.n;
	c.sym = f.syms.at;
	c.nsym = f.syms.n;
	vec_push(g->arena, &g->done, ((CDone){st, c}));
	strbuf_free(&all);
	strbuf_free(&f.body);
	return c;
}

GenC *gen_c_new(Ctx *c, Arena *a, const Target *t, const char *prefix)
{
	GenC *g = NEW(a, GenC);

	g->arena = a;
	g->ctx = c;
	g->target = t;
	g->prefix = prefix;
	g->pool = expr_pool_new(c, a);
	return g;
}

void gen_c_split(GenC *g, int nfiles)
{
	size_t total = 0, sum = 0;

	for (int i = 0; i < g->funcs.n; i++)
		total += strlen(g->funcs.at[i]->text) + 200;
	for (int i = 0; i < g->funcs.n; i++) {
		g->funcs.at[i]->file = (int)(sum * (size_t)nfiles / (total + 1));
		sum += strlen(g->funcs.at[i]->text) + 200;
	}
}

void gen_c_prelude(GenC *g, StrBuf *b)
{
	ex_c_funcs(b, g->pool, &g->used_funcs);
	c_tiles(g, b);
}

static void print_locs(StrBuf *b, const CFunc *fn)
{
	enum { MOST = 8 };

	strbuf_puts(b, "/*");
	for (int i = 0; i < fn->locs.n && i < MOST; i++) {
		strbuf_puts(b, i ? ", " : " ");
		for (const char *s = fn->locs.at[i].node ? fn->locs.at[i].node : "?"; *s; s++)
			strbuf_put(b, *s == '*' && s[1] == '/' ? "+" : (unsigned char)*s < 32 ? " " : s, 1);
		if (fn->locs.at[i].op)
			strbuf_printf(b, " (%s)", fn->locs.at[i].op);
	}
	if (fn->locs.n > MOST)
		strbuf_printf(b, ", and %d more", fn->locs.n - MOST);
	strbuf_puts(b, " */\n");
}

void gen_c_file(GenC *g, StrBuf *b, int file, bool statics)
{
	gen_c_prelude(g, b);
	for (int i = 0; i < g->funcs.n; i++) {
		CFunc *fn = g->funcs.at[i];

		if (fn->file != file)
			continue;
		print_locs(b, fn);
		strbuf_printf(b, "%svoid %s(const dl_kctx *k, int64_t begin, int64_t end, void *scratch)%s{\n%s}\n\n",
			      statics ? "static " : "", fn->name, "\n", fn->text);
	}
}
