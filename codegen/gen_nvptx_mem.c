/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a kernel: which buffers and sizes are its parameters, where locals lie, single elements, and accesses
 * of 16 bytes. An element is kept in its stored form and computed with as its scalar type, here as everywhere.
 */
#include "codegen/gen_nvptx_kernel.h"

#include "passes/kernels.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

/* ---- Names ---- */

void ll_bind(LlKernel *k, const Iter *it, const char *value)
{
	for (int i = 0; i < k->iters.n; i++)
		if (k->iters.at[i].it == it) {
			k->iters.at[i].value = value;
			return;
		}
	vec_push(k->f.arena, &k->iters, ((LlIter){it, value}));
}

static const char *iter_value(void *arg, const Iter *it)
{
	LlKernel *k = arg;

	for (int i = 0; i < k->iters.n; i++)
		if (k->iters.at[i].it == it)
			return k->iters.at[i].value;
	assert(it == NULL); /* a loop or a let binds each */
	return "0";
}

const char *ll_dim(void *arg, Dim *d)
{
	LlKernel *k = arg;
	int64_t v;
	int i;

	if (dim_is_const(d, &v))
		return arena_printf(k->f.arena, "%lld", (long long)v);
	for (i = 0; i < k->dims.n && k->dims.at[i] != d; i++)
		;
	if (i == k->dims.n)
		vec_push(k->f.arena, &k->dims, d);
	return arena_printf(k->f.arena, "%%dim%d", i);
}

/* NAME as a part of LLVM's and PTX's names. */
static const char *plain(Arena *a, const char *name)
{
	char *s = arena_strdup(a, name ? name : "v");

	for (char *p = s; *p; p++)
		if (!isalnum((unsigned char)*p))
			*p = '_';
	return s;
}

static bool name_taken(const LlKernel *k, const char *name)
{
	for (int i = 0; i < k->places.n; i++)
		if (!strcmp(k->places.at[i].name, name))
			return true;
	return false;
}

static const char *new_name(LlKernel *k, const char *prefix, const Buf *b)
{
	const char *base = arena_printf(k->f.arena, "%s.%s", prefix, plain(k->f.arena, b->name)),
		   *name = base;

	for (int i = 2; name_taken(k, name); i++)
		name = arena_printf(k->f.arena, "%s.%d", base, i);
	return name;
}

/* ---- Places ---- */

static int log2_of(int64_t n)
{
	int i = 0;

	while (n > 1) {
		assert(n % 2 == 0);
		n /= 2;
		i++;
	}
	return i;
}

LlMove ll_move(const Buf *b)
{
	const int piece = 16 / (dtype_info[b->dtype].bits / 8);
	int64_t cols = 0, pieces;
	LlMove m = {0};

	dim_is_const(b->dims[2], &cols);
	pieces = cols / piece;
	m.row = log2_of(cols);
	m.piece = log2_of(piece);
	m.shift = pieces >= 8 ? 0 : pieces == 4 ? 1 : 2;
	m.mask = pieces >= 8 ? 7 : (int)pieces - 1;
	return m;
}

static int64_t elements(const Buf *b)
{
	int64_t n = 1, v = 1;

	for (int i = 0; i < b->rank; i++)
		n *= dim_is_const(b->dims[i], &v) ? v : 0;
	return n;
}

static LlBuf *add_place(LlKernel *k, LlBuf p)
{
	vec_push(k->f.arena, &k->places, p);
	return &vec_last(&k->places);
}

/* The stored bits of element I of a constant. */
static void put_code(StrBuf *b, const Buf *t, int64_t i)
{
	const int bits = dtype_info[t->dtype].bits;
	const unsigned char *p = t->data;
	uint64_t code = 0;
	double d;

	if (bits < 8) {
		unsigned both = p[i * bits / 8] |
				(i * bits % 8 + bits > 8 ? (unsigned)p[i * bits / 8 + 1] << 8 : 0u);

		code = both >> (i * bits % 8) & ((1u << bits) - 1);
	} else {
		memcpy(&code, p + i * (bits / 8), (size_t)(bits / 8));
	}
	if (t->dtype == DT_F32 || t->dtype == DT_F64) {
		d = dtype_load_f64(t->dtype, t->data, i);
		memcpy(&code, &d, sizeof code);
		strbuf_printf(b, "0x%016llX",
			      (unsigned long long)(d == d ? code : UINT64_C(0x7ff8000000000000)));
	} else {
		strbuf_printf(b, "%llu", (unsigned long long)code);
	}
}

static LlBuf *add_table(LlKernel *k, const Buf *b)
{
	LlBuf p = {.buf = b, .name = new_name(k, "@" KERNEL_NAME, b), .space = 1};
	int64_t n = elements(b);

	strbuf_printf(&k->globals, "%s = internal addrspace(1) constant [%lld x %s] [", p.name,
		      (long long)(n ? n : 1), ll_stored(b->dtype));
	for (int64_t i = 0; i < n; i++) {
		strbuf_printf(&k->globals, "%s%s ", i ? ", " : "", ll_stored(b->dtype));
		put_code(&k->globals, b, i);
	}
	strbuf_printf(&k->globals, "%s], align 16\n", n ? "" : "i8 0");
	return add_place(k, p);
}

static LlBuf *place_of(LlKernel *k, const Buf *b)
{
	for (int i = 0; i < k->places.n; i++)
		if (k->places.at[i].buf == b)
			return &k->places.at[i];
	if (b->data)
		return add_table(k, b);
	vec_push(k->f.arena, &k->bufs, (Buf *)(uintptr_t)b);
	return add_place(k, (LlBuf){.buf = b,
				    .name = new_name(k,
						     b->kind == BUF_IN    ? "%in"
						     : b->kind == BUF_OUT ? "%out"
									  : "%temp",
						     b),
				    .space = 1,
				    .packed = dtype_info[b->dtype].bits < 8});
}

const char *ll_buf_name(LlKernel *k, const Buf *b)
{
	return place_of(k, b)->name;
}

const char *ll_slot(LlKernel *k, const char *type, int64_t n)
{
	const char *name = arena_printf(k->f.arena, "%%slot%d", k->nslots++);

	if (n)
		strbuf_printf(&k->f.allocas, "  %s = alloca [%lld x %s], align 16\n", name,
			      (long long)n, type);
	else
		strbuf_printf(&k->f.allocas, "  %s = alloca %s\n", name, type);
	return name;
}

enum { STATIC_SHARED = 48 << 10 };

/* Bytes of the block's scratch, one piece of shared memory, that LN_LOCAL places locals in. */
static int64_t scratch(const LlKernel *k)
{
	int64_t v = 0;

	return k->stage->scratch && dim_is_const(k->stage->scratch, &v) ? v : 0;
}

static const char *in_scratch(LlKernel *k, int64_t at)
{
	const char *name = "@" KERNEL_NAME ".scratch";

	if (!k->scratch && scratch(k) <= STATIC_SHARED)
		strbuf_printf(&k->globals,
			      "%s = internal addrspace(3) global [%lld x i8] undef, align 128\n",
			      name, (long long)scratch(k));
	else if (!k->scratch)
		strbuf_printf(&k->globals,
			      "%s = external addrspace(3) global [0 x i8], align 128\n", name);
	k->scratch = true;
	return at ? arena_printf(k->f.arena, "getelementptr (i8, ptr addrspace(3) %s, i64 %lld)",
				 name, (long long)at)
		  : name;
}

int ll_dynamic_shared(const LlKernel *k)
{
	return k->scratch && scratch(k) > STATIC_SHARED ? (int)scratch(k) : 0;
}

void ll_declare(LlKernel *k, Buf *b, const Expr *at)
{
	const int teams = k->stage->threads / k->stage->team;
	LlBuf p = {.buf = b};

	if (at) {
		p.space = 3;
		p.team = elements(b);
		p.name = in_scratch(k, at->i);
	} else if (b->spread == SPREAD_FRAG) {
		const int64_t n = elements(b) / k->stage->threads;

		p.name = ll_slot(k, ll_stored(b->dtype), n);
		for (int64_t i = 0; i < n; i++)
			ll_put(&k->f, "store %s %s, ptr %s", ll_stored(b->dtype),
			       dtype_is_float(b->dtype) ? "0.0" : "0",
			       ll_element(k, p.name, b->dtype, i));
	} else if (b->rank && k->stage->team > 1) {
		p.space = 3;
		p.team = elements(b);
		p.name = arena_printf(k->f.arena, "@" KERNEL_NAME ".shared%d", k->nshared++);
		strbuf_printf(&k->globals,
			      "%s = internal addrspace(3) global [%lld x %s] undef, align 16\n",
			      p.name, (long long)(p.team ? p.team * teams : 1),
			      ll_stored(b->dtype));
	} else {
		p.name = ll_slot(k, ll_stored(b->dtype), b->rank ? elements(b) : 0);
	}
	add_place(k, p);
}

bool ll_in_register(LlKernel *k, const Buf *b)
{
	return place_of(k, b)->space == 0;
}

/* ---- Elements ---- */

const char *ll_element(LlKernel *k, const char *array, DType t, int64_t i)
{
	const char *r = ll_new(&k->f);

	ll_put(&k->f, "%s = getelementptr %s, ptr %s, i64 %lld", r, ll_stored(t), array,
	       (long long)i);
	return r;
}

/* Element IDX of a buffer whose pieces moved (kernel.h, Spread). */
static const char *moved(LlKernel *k, const Buf *b, const char *idx)
{
	LlFn *f = &k->f;
	const LlMove m = ll_move(b);
	const char *row = ll_new(f), *with = ll_new(f), *by = ll_new(f), *r = ll_new(f);

	ll_put(f, "%s = lshr i64 %s, %d", row, idx, m.row + m.shift);
	ll_put(f, "%s = and i64 %s, %d", with, row, m.mask);
	ll_put(f, "%s = shl i64 %s, %d", by, with, m.piece);
	ll_put(f, "%s = xor i64 %s, %s", r, idx, by);
	return r;
}

/* A pointer to element IDX of P; its type in *TYPE. */
static const char *pointer(LlKernel *k, const LlBuf *p, const char *idx, const char **type)
{
	LlFn *f = &k->f;
	const char *r = ll_new(f);

	if (p->buf->spread == SPREAD_ROWS)
		idx = moved(k, p->buf, idx);
	*type = p->space ? arena_printf(f->arena, "ptr addrspace(%d)", p->space) : "ptr";
	if (p->space == 3 && k->stage->team < k->stage->threads) {
		const char *mine = ll_new(f), *at = ll_new(f);

		ll_put(f, "%s = mul i64 %%team, %lld", mine, (long long)p->team);
		ll_put(f, "%s = add i64 %s, %s", at, mine, idx);
		idx = at;
	}
	ll_put(f, "%s = getelementptr %s, %s %s, i64 %s", r, ll_stored(p->buf->dtype), *type,
	       p->name, idx);
	return r;
}

static const char *decoded(LlKernel *k, DType t, const char *code)
{
	return ll_call(&k->f, arena_printf(k->f.arena, "decode_%s", dtype_info[t].name), &code, 1);
}

static const char *encoded(LlKernel *k, DType t, const char *val)
{
	return ll_call(&k->f, arena_printf(k->f.arena, "encode_%s", dtype_info[t].name), &val, 1);
}

const char *ll_load(LlKernel *k, const Buf *b, const char *idx)
{
	const LlBuf p = *place_of(k, b);
	const char *type, *code, *at;

	if (p.packed) {
		const char *arg[] = {p.name, idx,
				     arena_printf(k->f.arena, "%d", dtype_info[b->dtype].bits)};

		return decoded(k, b->dtype, ll_call(&k->f, "load_packed", arg, 3));
	}
	at = pointer(k, &p, idx, &type);
	code = ll_new(&k->f);
	ll_put(&k->f, "%s = load %s, %s %s", code, ll_stored(b->dtype), type, at);
	return decoded(k, b->dtype, code);
}

void ll_store(LlKernel *k, Buf *b, const char *idx, const char *val)
{
	const LlBuf p = *place_of(k, b);
	const char *code = encoded(k, b->dtype, val), *type, *at;

	if (p.packed) {
		ll_put(&k->f, "call void @store_packed(ptr addrspace(1) %s, i64 %s, i64 %d, i8 %s)",
		       p.name, idx, dtype_info[b->dtype].bits, code);
		return;
	}
	at = pointer(k, &p, idx, &type);
	ll_put(&k->f, "store %s %s, %s %s", ll_stored(b->dtype), code, type, at);
}

void ll_store_run(LlKernel *k, const Buf *b, const char *idx, const char *const *val, int n)
{
	LlFn *f = &k->f;
	const char *type, *t = ll_stored(b->dtype), *at = pointer(k, place_of(k, b), idx, &type),
			  *all = "undef";

	if (n == 1) {
		ll_put(f, "store %s %s, %s %s", t, val[0], type, at);
		return;
	}
	for (int i = 0; i < n; i++) {
		const char *next = ll_new(f);

		ll_put(f, "%s = insertelement <%d x %s> %s, %s %s, i32 %d", next, n, t, all, t,
		       val[i], i);
		all = next;
	}
	ll_put(f, "store <%d x %s> %s, %s %s, align %d", n, t, all, type, at,
	       n * dtype_info[b->dtype].bits / 8);
}

static const char *load_expr(void *arg, const Expr *e, const char *const *idx)
{
	return ll_load(arg, e->load.buf, e->load.nidx ? idx[0] : "0");
}

const char *ll_partial(LlKernel *k, int c, CType t, const char *at, const char *val)
{
	const char *name = arena_printf(k->f.arena, "@" KERNEL_NAME ".warps_%s%d", ctype_name[t],
					c),
		   *p = ll_new(&k->f), *r;
	const DType d = ctype_dtype(t);

	if (!k->partial[c][t])
		strbuf_printf(&k->globals,
			      "%s = internal addrspace(3) global [32 x %s] undef, align 16\n", name,
			      ll_stored(d));
	k->partial[c][t] = true;
	ll_put(&k->f, "%s = getelementptr %s, ptr addrspace(3) %s, i64 %s", p, ll_stored(d), name,
	       at);
	if (val) {
		ll_put(&k->f, "store %s %s, ptr addrspace(3) %s", ll_stored(d), encoded(k, d, val),
		       p);
		return NULL;
	}
	r = ll_new(&k->f);
	ll_put(&k->f, "%s = load %s, ptr addrspace(3) %s", r, ll_stored(d), p);
	return decoded(k, d, r);
}

/* ---- Accesses of several elements ---- */

typedef struct Wide {
	Expr *load;
	const char *vector; /* its codes */
} Wide;

typedef struct Pack {
	LlKernel *k;
	const LNode *n;
	VEC(Wide) wide;
} Pack;

static bool divides(Ctx *c, Dim *d, int n)
{
	Dim *q;

	return dim_divides(c, d, dim_const(c, n), &q);
}

/* Whether the elements of B at IDX, VAR from a multiple of PACK on, are one aligned access. */
static bool one_access(const Pack *p, const Buf *b, Expr *idx)
{
	Ctx *c = p->k->f.g->ctx;
	Affine a;

	if (b->data || dtype_info[b->dtype].bits < 8 || place_of(p->k, b)->space == 0 ||
	    (place_of(p->k, b)->space == 3 && p->n->pack * dtype_info[b->dtype].bits > 128) ||
	    !ex_affine(c, idx, &a) || !dim_equals(affine_coef(c, &a, p->n->var), 1) ||
	    !divides(c, a.base, p->n->pack))
		return false;
	for (int i = 0; i < a.n; i++)
		if (a.iter[i] != p->n->var && !divides(c, a.coef[i], p->n->pack))
			return false;
	return true;
}

/* Loads that every element makes: not those behind a select. */
static void find_wide(Pack *p, Expr *e)
{
	Expr *const *arg;
	int n = ex_operands(e, &arg);

	for (int i = 0; i < p->wide.n; i++)
		if (p->wide.at[i].load == e)
			return;
	if (e->kind == EX_LOAD && one_access(p, e->load.buf, e->load.idx[0]))
		vec_push(p->k->f.arena, &p->wide, ((Wide){e, NULL}));
	else if (ex_is_op(e, IN_select))
		find_wide(p, e->op.arg[0]);
	else
		for (int i = 0; i < n; i++)
			find_wide(p, arg[i]);
}

static const char *vector_type(Arena *a, const Buf *b, int n)
{
	return arena_printf(a, "<%d x %s>", n, ll_stored(b->dtype));
}

static int bytes_of(const Buf *b, int n)
{
	return n * dtype_info[b->dtype].bits / 8;
}

static const char *further(LlKernel *k, const char *lo, int v)
{
	const char *i;

	if (!v)
		return lo;
	i = ll_new(&k->f);
	ll_put(&k->f, "%s = add nsw i64 %s, %d", i, lo, v);
	return i;
}

static void load_wide(Pack *p, Wide *w)
{
	LlKernel *k = p->k;
	LlFn *f = &k->f;
	const Buf *b = w->load->load.buf;
	const char *type, *at = pointer(k, place_of(k, b), ll_expr(f, w->load->load.idx[0]), &type);

	w->vector = ll_new(f);
	ll_put(f, "%s = load %s, %s %s, align %d", w->vector, vector_type(f->arena, b, p->n->pack),
	       type, at, bytes_of(b, p->n->pack));
}

/* What the store has for element V. */
static const char *element_value(Pack *p, const char *lo, int v)
{
	LlKernel *k = p->k;
	LlFn *f = &k->f;

	ll_forget(f);
	ll_bind(k, p->n->var, further(k, lo, v));
	for (int j = 0; j < p->wide.n; j++) {
		const Wide *w = &p->wide.at[j];
		const Buf *b = w->load->load.buf;
		const char *code = ll_new(f);

		ll_put(f, "%s = extractelement %s %s, i32 %d", code,
		       vector_type(f->arena, b, p->n->pack), w->vector, v);
		ll_name(f, w->load, decoded(k, b->dtype, code));
	}
	return ll_expr(f, p->n->body->val[0]);
}

static const char *pack_values(Pack *p, const char *lo)
{
	LlKernel *k = p->k;
	LlFn *f = &k->f;
	const Buf *to = p->n->body->buf[0];
	const char *all = "undef", *type = vector_type(f->arena, to, p->n->pack);

	for (int v = 0; v < p->n->pack; v++) {
		const char *code = encoded(k, to->dtype, element_value(p, lo, v)),
			   *next = ll_new(f);

		ll_put(f, "%s = insertelement %s %s, %s %s, i32 %d", next, type, all,
		       ll_stored(to->dtype), code, v);
		all = next;
	}
	ll_forget(f);
	ll_bind(k, p->n->var, lo);
	return all;
}

static void load_all_wide(Pack *p, const char *lo)
{
	ll_bind(p->k, p->n->var, lo);
	for (int i = 0; i < p->wide.n; i++)
		load_wide(p, &p->wide.at[i]);
}

static void store_pack(LlKernel *k, const LNode *st, int pack, const char *all)
{
	LlFn *f = &k->f;
	const char *type, *at = pointer(k, place_of(k, st->buf[0]), ll_expr(f, st->idx), &type);

	ll_put(f, "store %s %s, %s %s, align %d", vector_type(f->arena, st->buf[0], pack), all,
	       type, at, bytes_of(st->buf[0], pack));
	ll_forget(f);
}

static void whole_pack(Pack *p, const char *lo)
{
	LlKernel *k = p->k;
	const LNode *st = p->n->body;

	load_all_wide(p, lo);
	if (one_access(p, st->buf[0], st->idx)) {
		store_pack(k, st, p->n->pack, pack_values(p, lo));
		return;
	}
	for (int v = 0; v < p->n->pack; v++) {
		const char *val = element_value(p, lo, v);

		ll_store(k, st->buf[0], ll_expr(&k->f, st->idx), val);
	}
	ll_forget(&k->f);
	ll_bind(k, p->n->var, lo);
}

/* Elements of less than a byte, a whole number of bytes: gathered in a word, byte after byte stored as far as there are
 * elements. What is past the last one is 0. */
static void packed_bytes(Pack *p, const char *lo, const char *hi)
{
	LlKernel *k = p->k;
	LlFn *f = &k->f;
	const LNode *st = p->n->body;
	const int bits = dtype_info[st->buf[0]->dtype].bits;
	const char *word = ll_slot(k, "i64", 0), *first, *i, *is, *after, *code, *old, *all;

	ll_put(f, "store i64 0, ptr %s", word);
	ll_bind(k, p->n->var, lo);
	first = ll_new(f);
	i = ll_expr(f, st->idx);
	ll_put(f, "%s = mul i64 %s, %d", first, i, bits);
	for (int v = 0; v < p->n->pack; v++) {
		ll_forget(f);
		i = ll_new(f);
		is = ll_new(f);
		ll_put(f, "%s = add nsw i64 %s, %d", i, lo, v);
		ll_put(f, "%s = icmp slt i64 %s, %s", is, i, hi);
		after = ll_open_if(k, is);
		ll_bind(k, p->n->var, i);
		code = encoded(k, st->buf[0]->dtype, ll_expr(f, st->val[0]));
		old = ll_new(f);
		all = ll_new(f);
		ll_put(f, "%s = zext i8 %s to i64", old, code);
		ll_put(f, "%s = and i64 %s, %d", all, old, (1 << bits) - 1);
		old = all;
		all = ll_new(f);
		ll_put(f, "%s = shl i64 %s, %d", all, old, v * bits);
		old = ll_new(f);
		code = ll_new(f);
		ll_put(f, "%s = load i64, ptr %s", old, word);
		ll_put(f, "%s = or i64 %s, %s", code, old, all);
		ll_put(f, "store i64 %s, ptr %s", code, word);
		ll_close_if(k, after);
	}
	ll_forget(f);
	for (int byte = 0; byte < p->n->pack * bits / 8; byte++) {
		const char *at = ll_new(f), *to = ll_new(f);

		i = ll_new(f);
		is = ll_new(f);
		ll_put(f, "%s = add nsw i64 %s, %d", i, lo, byte * 8 / bits);
		ll_put(f, "%s = icmp slt i64 %s, %s", is, i, hi);
		after = ll_open_if(k, is);
		old = ll_new(f);
		all = ll_new(f);
		code = ll_new(f);
		ll_put(f, "%s = load i64, ptr %s", old, word);
		ll_put(f, "%s = lshr i64 %s, %d", all, old, byte * 8);
		ll_put(f, "%s = trunc i64 %s to i8", code, all);
		i = ll_new(f);
		ll_put(f, "%s = lshr i64 %s, 3", at, first);
		ll_put(f, "%s = add i64 %s, %d", i, at, byte);
		ll_put(f, "%s = getelementptr i8, ptr addrspace(1) %s, i64 %s", to,
		       place_of(k, st->buf[0])->name, i);
		ll_put(f, "store i8 %s, ptr addrspace(1) %s", code, to);
		ll_close_if(k, after);
	}
}

bool ll_pack(LlKernel *k, const LNode *n)
{
	Pack p = {.k = k, .n = n};
	LlFn *f = &k->f;
	LNode rest = *n;
	Expr *span;
	const char *lo, *hi, *end, *full, *label[3];

	if (!n->body || n->body->next || n->body->kind != LN_STORE ||
	    (n->body->guard && expr_has_iter(n->body->guard, n->var)))
		return false;
	if (n->body->guard) {
		LNode all = *n, store = *n->body;
		const char *after;

		ll_forget(f);
		after = ll_open_if(k, ll_expr(f, store.guard));
		store.guard = NULL;
		all.body = &store;
		all.next = NULL;
		ll_nodes(k, &all);
		ll_forget(f);
		ll_close_if(k, after);
		return true;
	}
	find_wide(&p, n->body->val[0]);
	ll_forget(f);
	lo = ll_expr(f, n->lo);
	hi = ll_expr(f, n->hi);
	ll_forget(f);
	if (place_of(k, n->body->buf[0])->packed) {
		packed_bytes(&p, lo, hi);
		return true;
	}
	span = ex_sub(k->sched->kernel->pool, n->hi, n->lo);
	if (span->kind == EX_CONST && span->i == n->pack) {
		whole_pack(&p, lo);
		return true;
	}
	end = ll_new(f);
	full = ll_new(f);
	label[0] = ll_label(f, "whole");
	label[1] = ll_label(f, "rest");
	label[2] = ll_label(f, "stored");
	ll_put(f, "%s = add nsw i64 %s, %d", end, lo, n->pack);
	ll_put(f, "%s = icmp sle i64 %s, %s", full, end, hi);
	ll_put(f, "br i1 %s, label %%%s, label %%%s", full, label[0], label[1]);
	ll_begin(f, label[0]);
	whole_pack(&p, lo);
	ll_put(f, "br label %%%s", label[2]);
	ll_begin(f, label[1]);
	rest.pack = 0;
	rest.next = NULL;
	ll_nodes(k, &rest);
	ll_put(f, "br label %%%s", label[2]);
	ll_begin(f, label[2]);
	return true;
}

/* ---- Chunks of a fill ---- */

static const LNode *last_of(const LNode *n)
{
	while (n->next)
		n = n->next;
	return n;
}

static Pack chunk(LlKernel *k, LNode *loop, LNode *store, const LNode *fill)
{
	Pack p = {.k = k, .n = loop};

	*store = *last_of(fill->body);
	store->guard = NULL;
	*loop = (LNode){
		.kind = LN_LOOP, .var = fill->fill->elem, .pack = fill->fill->pack, .body = store};
	return p;
}

const char *ll_chunk_load(LlKernel *k, const LNode *fill)
{
	LNode loop, store;
	Pack p = chunk(k, &loop, &store, fill);

	if (loop.pack > 1)
		find_wide(&p, store.val[0]);
	load_all_wide(&p, "0");
	return pack_values(&p, "0");
}

void ll_chunk_store(LlKernel *k, const LNode *fill, const char *all)
{
	LNode loop, store;

	chunk(k, &loop, &store, fill);
	ll_forget(&k->f);
	ll_bind(k, loop.var, "0");
	store_pack(k, &store, loop.pack, all);
}

const char *ll_chunk_type(LlKernel *k, const LNode *fill)
{
	return vector_type(k->f.arena, last_of(fill->body)->buf[0], fill->fill->pack);
}

void ll_chunk_copy(LlKernel *k, const LNode *fill, const char *cond)
{
	LNode loop, store;
	const int bytes = (chunk(k, &loop, &store, fill), bytes_of(store.buf[0], loop.pack));
	LlFn *f = &k->f;
	const Expr *load = store.val[0];
	const char *to, *from, *size = ll_new(f), *type;

	assert(load->kind == EX_LOAD);
	ll_forget(f);
	ll_bind(k, loop.var, "0");
	to = pointer(k, place_of(k, store.buf[0]), ll_expr(f, store.idx), &type);
	from = pointer(k, place_of(k, load->load.buf), ll_expr(f, load->load.idx[0]), &type);
	if (!cond) {
		ll_put(f,
		       "call void @llvm.nvvm.cp.async.c%c.shared.global.%d(ptr addrspace(3) %s, ptr addrspace(1) %s)",
		       bytes == 16 ? 'g' : 'a', bytes, to, from);
		return;
	}
	ll_put(f, "%s = select i1 %s, i32 %d, i32 0", size, cond, bytes);
	ll_put(f,
	       "call void @llvm.nvvm.cp.async.c%c.shared.global.%d.s(ptr addrspace(3) %s, ptr addrspace(1) %s, i32 %s)",
	       bytes == 16 ? 'g' : 'a', bytes, to, from, size);
}

/* ---- The kernel ---- */

bool ll_calls(const LlFn *f, const char *name)
{
	const char *call = arena_printf(f->arena, "@%s(", name);

	return strstr(strbuf_str(&f->b), call) != NULL;
}

LlKernel *ll_kernel_new(GenPtx *g, const Schedule *s, const Stage *st)
{
	LlKernel *k = NEW(g->arena, LlKernel);

	k->f = (LlFn){.g = g,
		      .arena = g->arena,
		      .arg = k,
		      .iter = iter_value,
		      .dim = ll_dim,
		      .load = load_expr};
	k->sched = s;
	k->stage = st;
	return k;
}
