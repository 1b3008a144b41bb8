/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a kernel: which buffers and sizes are its parameters, the storage of locals, and
 * the loads and stores of elements and of vectors. An element in memory has its stored form; a load
 * converts it to the scalar type of the computation.
 */
#include "codegen/nvptx/kernel.h"

#include "passes/forms/kernels.h"

#include <assert.h>
#include <string.h>

/* ---- Names ---- */

static bool name_taken(const LlKernel *k, const char *name)
{
	for (int i = 0; i < k->places.n; i++)
		if (!strcmp(k->places.at[i].name, name))
			return true;
	return false;
}

/* A new name for B in LLVM IR. No other kind of name begins with PREFIX and a dot. */
static const char *new_name(LlKernel *k, const char *prefix, const Buf *b)
{
	const char *word = str_word(k->f.arena, b->name ? b->name : "v", 64);
	const char *base = arena_printf(k->f.arena, "%s.%s", prefix, word), *name = base;

	for (int i = 2; name_taken(k, name); i++)
		name = arena_printf(k->f.arena, "%s.%d", base, i);
	return name;
}

/* ---- Places ---- */

int ll_log2(int64_t n)
{
	int i = 0;

	while (n > 1) {
		assert(n % 2 == 0);
		n /= 2;
		i++;
	}
	return i;
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

/* Prints the stored form of element I of a constant. */
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
		memcpy(&code, p + i * dtype_bytes(t->dtype), (size_t)dtype_bytes(t->dtype));
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
	LlBuf p = {.buf = b, .name = new_name(k, "@" KERNEL_NAME ".table", b), .space = 1};
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

/* Bytes of the block's scratch, a single shared array in which LN_LOCAL places locals. */
static int64_t scratch(const LlKernel *k)
{
	int64_t v = 0;

	return k->stage->scratch && dim_is_const(k->stage->scratch, &v) ? v : 0;
}

/* N or a sibling declares shared memory outside of scratch. */
static bool declares(const LNode *n)
{
	for (; n; n = n->next)
		if (n->kind == LN_REDUCE || declares(n->body) ||
		    (n->kind == LN_LOCAL && !n->local.buf->tile && n->local.buf->rank &&
		     !n->local.at && !n->local.keep))
			return true;
	return false;
}

/* The scratch is dynamic shared memory: it may exceed the limit of static declarations, and there
 * may also be static declarations. */
static bool launch_gives(const LlKernel *k)
{
	return scratch(k) > STATIC_SHARED ||
	       (scratch(k) && (k->stage->block.bulk.n || declares(k->stage->block.head) ||
			       declares(k->stage->body)));
}

int64_t ll_static_shared(const LlKernel *k)
{
	return k->shared + (k->scratch && !ll_dynamic_shared(k) ? scratch(k) : 0);
}

/* Some tile of N or a sibling is xored. */
static bool xors(const LNode *n)
{
	for (; n; n = n->next) {
		const TileLayout *l = n->kind == LN_LOCAL ? n->local.buf->tile : NULL;

		for (int i = 0; l && i < l->n; i++)
			if (l->axis[i].xored)
				return true;
		if (xors(n->body))
			return true;
	}
	return false;
}

static const char *scratch_name(LlKernel *k)
{
	const int align = xors(k->stage->body) ? TILE_ATOM : 128;
	const char *name = "@" KERNEL_NAME "_scratch";

	if (!k->scratch && !launch_gives(k))
		strbuf_printf(&k->globals,
			      "%s = internal addrspace(3) global [%lld x i8] undef, align %d\n",
			      name, (long long)scratch(k), align);
	else if (!k->scratch)
		strbuf_printf(&k->globals, "%s = external addrspace(3) global [0 x i8], align %d\n",
			      name, align);
	k->scratch = true;
	return name;
}

void ll_shared(LlKernel *k, const char *name, int64_t n, DType t)
{
	strbuf_printf(&k->globals,
		      "%s = internal addrspace(3) global [%lld x %s] undef, align 16\n", name,
		      (long long)n, ll_stored(t));
	k->shared += (n * ((dtype_info[t].bits + 7) / 8) + 15) / 16 * 16;
}

int ll_dynamic_shared(const LlKernel *k)
{
	return k->scratch && launch_gives(k) ? (int)scratch(k) : 0;
}

void ll_declare(LlKernel *k, Buf *b, const LLocal *local)
{
	const int groups = k->stage->block.threads / k->stage->block.group;
	LlBuf p = {.buf = b};

	if (local && local->keep) {
		p.local = local;
		p.rest = local->scratch ? scratch_name(k) : NULL;
		p.at = local->scratch ? local->at->i : 0;
		p.end = local->scratch ? INT64_MAX : 0;
		p.name = ll_slot(k, ll_stored(b->dtype), local->keep);
	} else if (b->tile && !local->at) {
		p.name = ll_slot(k, ll_stored(b->dtype), layout_count(b->tile, AT_REGISTER));
	} else if (b->tile) {
		p.space = 3;
		p.name = scratch_name(k);
		p.at = local->at->i;
		p.end = p.at + 1; /* the tree has the barriers for accesses to tiles */
	} else if (local && local->at) {
		p.space = 3;
		p.group = elements(b);
		p.name = scratch_name(k);
		p.at = local->at->i;
		assert(p.group);
		p.end = p.at + p.group * groups * ((dtype_info[b->dtype].bits + 7) / 8);
	} else if (b->rank && !ll_alone(k)) {
		const bool block = k->group == k->stage->block.threads;

		p.space = 3;
		p.group = block ? 0 : elements(b);
		p.name = arena_printf(k->f.arena, "@" KERNEL_NAME ".shared%d", k->nshared++);
		ll_shared(k, p.name, elements(b) ? elements(b) * (block ? 1 : groups) : 1,
			  b->dtype);
	} else {
		p.name = ll_slot(k, ll_stored(b->dtype), b->rank ? elements(b) : 0);
	}
	add_place(k, p);
}

bool ll_in_register(LlKernel *k, const Buf *b)
{
	return place_of(k, b)->space == 0;
}

int ll_space(LlKernel *k, const Buf *b)
{
	const LlBuf *p = place_of(k, b);

	return p->copied ? 3 : p->space;
}

const char *ll_declare_bulk(LlKernel *k, const Buf *b, int64_t n, const char *first)
{
	LlBuf *p = place_of(k, b);

	p->copied = arena_printf(k->f.arena, "@" KERNEL_NAME ".shared%d", k->nshared++);
	p->first = first;
	ll_shared(k, p->copied, n, b->dtype);
	return p->copied;
}

const char *ll_bulk_name(LlKernel *k, const Buf *b)
{
	return place_of(k, b)->copied;
}

const LLocal *ll_local(LlKernel *k, const Buf *b)
{
	return place_of(k, b)->local;
}

/* ---- Elements ---- */

/* A pointer to byte AT of shared memory P. */
static const char *byte_of(LlKernel *k, const char *p, int64_t at)
{
	return ll_gep(&k->f, "i8", 3, p, ll_number(&k->f, at));
}

const char *ll_tile_memory(LlKernel *k, const Buf *b)
{
	const LlBuf *p = place_of(k, b);

	return byte_of(k, p->name, p->at);
}

const char *ll_element(LlKernel *k, const char *array, DType t, int64_t i)
{
	return ll_gep(&k->f, ll_stored(t), 0, array, ll_number(&k->f, i));
}

/* AT, a pointer into B as if B began where scratch does, moved to B. The constant is added last, so
 * that buffers share the rest of the address. */
static const char *at_offset(LlKernel *k, const LlBuf *p, const char *at)
{
	return p->at ? byte_of(k, at, p->at) : at;
}

/* A pointer to held element KEPT of the current access in scratch, where those of adjacent lanes
 * are adjacent. */
static const char *in_rest(LlKernel *k, const LlBuf *p)
{
	const char *at = ll_plus(&k->f, k->in_scratch, (long long)k->kept * k->stage->block.group);

	return ll_gep(&k->f, ll_stored(p->buf->dtype), 3, byte_of(k, p->rest, p->at), at);
}

/* A pointer to element IDX of a buffer in its bulk copy. */
static const char *in_copied(LlKernel *k, const LlBuf *p, const char *idx)
{
	return ll_gep(&k->f, ll_stored(p->buf->dtype), 3, p->copied,
		      ll_set(&k->f, "sub nsw i64 %s, %s", idx, p->first));
}

/* Records accesses to P; if OWN is set, threads access disjoint elements. */
static void note_access(LlKernel *k, const LlBuf *p, bool write, bool own)
{
	MemAccess a = {.memory = p->buf, .to = 1, .write = write};

	if (own) {
		a.own = p->buf;
		a.threads = k->group;
	}
	if (p->copied) {
		a.memory = p->copied;
	} else if (p->end) {
		a.memory = k;
		a.from = p->at;
		a.to = p->end;
	}
	ll_access(k, a);
}

void ll_access_buf(LlKernel *k, const Buf *b, bool write)
{
	const LlBuf copy = *place_of(k, b);

	note_access(k, &copy, write, false);
}

const char *ll_pointer(LlKernel *k, const Buf *b, const char *idx, int n, bool write,
		       const char **type)
{
	LlFn *f = &k->f;
	const LlBuf copy = *place_of(k, b), *p = &copy;
	const char *r;

	if (p->rest && k->in_scratch)
		note_access(k, p, write, true);
	else if (p->copied || p->space)
		note_access(k, p, write, n == 1 && ll_is_own(k, idx));
	*type = "ptr addrspace(3)";
	if (p->copied)
		return in_copied(k, p, idx);
	if (p->rest && k->in_scratch)
		return in_rest(k, p);
	if (p->local) {
		assert(k->kept >= 0 && k->kept < p->local->keep);
		idx = ll_number(f, k->kept);
	}
	*type = arena_printf(f->arena, "ptr addrspace(%d)", p->space);
	if (p->space == 3 && k->stage->block.group < k->stage->block.threads)
		idx = ll_set(f, "add i64 %s, %s", ll_op(f, "mul i64", "%group", p->group), idx);
	r = ll_gep(f, ll_stored(p->buf->dtype), p->space, p->name, idx);
	return p->local ? r : at_offset(k, p, r);
}

/* The name of a type for conversions from and to its stored form; the id of a string is an i64. */
static const char *stored_name(DType t)
{
	return dtype_info[t == DT_STR ? DT_I64 : t].name;
}

const char *ll_decoded(LlKernel *k, DType t, const char *code)
{
	return ll_call(&k->f, arena_printf(k->f.arena, "decode_%s", stored_name(t)), &code, 1);
}

const char *ll_encoded(LlKernel *k, DType t, const char *val)
{
	return ll_call(&k->f, arena_printf(k->f.arena, "encode_%s", stored_name(t)), &val, 1);
}

const char *ll_load(LlKernel *k, const Buf *b, const char *idx)
{
	const LlBuf p = *place_of(k, b);
	const char *type, *code, *at;

	if (p.packed) {
		const char *arg[] = {p.name, idx, ll_number(&k->f, dtype_info[b->dtype].bits)};

		note_access(k, &p, false, false);
		return ll_decoded(k, b->dtype, ll_call(&k->f, "load_packed", arg, 3));
	}
	at = ll_pointer(k, b, idx, 1, false, &type);
	code = ll_set(&k->f, "load %s, %s %s", ll_stored(b->dtype), type, at);
	return ll_decoded(k, b->dtype, code);
}

void ll_store(LlKernel *k, Buf *b, const char *idx, const char *val)
{
	const LlBuf p = *place_of(k, b);
	const char *code = ll_encoded(k, b->dtype, val), *type, *at;

	if (p.packed) {
		note_access(k, &p, true, false);
		ll_put(&k->f, "call void @store_packed(ptr addrspace(1) %s, i64 %s, i64 %d, i8 %s)",
		       p.name, idx, dtype_info[b->dtype].bits, code);
		return;
	}
	at = ll_pointer(k, b, idx, 1, true, &type);
	ll_put(&k->f, "store %s %s, %s %s", ll_stored(b->dtype), code, type, at);
}

void ll_store_run(LlKernel *k, const Buf *b, const char *idx, const char *const *val, int n)
{
	LlFn *f = &k->f;
	const char *type, *t = ll_stored(b->dtype), *at = ll_pointer(k, b, idx, n, true, &type);

	if (n == 1) {
		ll_put(f, "store %s %s, %s %s", t, val[0], type, at);
		return;
	}
	ll_put(f, "store <%d x %s> %s, %s %s, align %d", n, t, ll_together(f, t, val, n), type, at,
	       (int)dtype_size(b->dtype, n));
}

static const char *load_expr(void *arg, const Expr *e, const char *const *idx)
{
	if (e->load.nidx)
		ll_note_own(arg, e->load.idx[0], idx[0]);
	return ll_load(arg, e->load.buf, e->load.nidx ? idx[0] : "0");
}

/* ---- The kernel ---- */

bool ll_calls(const LlFn *f, const char *name)
{
	const char *call = arena_printf(f->arena, "@%s(", name);

	return strstr(strbuf_str(&f->b), call) != NULL;
}

/* A select need not branch around it. */
static bool reads_register(void *k, const Expr *load)
{
	(void)k;
	return tile_in_registers(load->load.buf);
}

LlKernel *ll_kernel_new(GenPtx *g, const Schedule *s, const Stage *st)
{
	LlKernel *k = NEW(g->arena, LlKernel);

	k->f = (LlFn){.g = g,
		      .arena = g->arena,
		      .arg = k,
		      .iter = ll_iter,
		      .dim = ll_dim,
		      .depth = ll_depth,
		      .load = load_expr,
		      .is_short = ll_is_short,
		      .names.in_bounds = reads_register};
	k->sched = s;
	k->stage = st;
	k->kept = -1;
	k->group = st->block.group;
	k->lane = "%lane";
	k->mask = "-1";
	return k;
}
