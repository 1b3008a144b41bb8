/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectorised accesses: consecutive points of one iterator, whose loads and stores of adjacent,
 * aligned elements become one access each. Stores of the pieces of tiles in shared memory are
 * vectorised, too.
 */
#include "codegen/nvptx/kernel.h"

#include "passes/forms/kernels.h"

#include <assert.h>

enum {
	SHARED_ALIGN = 16
}; /* bytes: alignment of shared arrays and accesses; a larger access becomes two (align_of) */

bool ll_one_access(const LlVector *p, const Buf *b, Expr *idx)
{
	Ctx *c = p->k->f.g->ctx;

	if (b->data || dtype_info[b->dtype].bits < 8 || ll_space(p->k, b) == 0 ||
	    (ll_space(p->k, b) == 3 && dtype_size(b->dtype, p->vector) > 2 * SHARED_ALIGN))
		return false;
	return ex_aligned_along(c, idx, p->var, p->vector);
}

void ll_vector_find(LlVector *p, Expr *e)
{
	Expr *const *arg;
	int n = ex_operands(e, &arg);

	for (int i = 0; i < p->wide.n; i++)
		if (p->wide.at[i].load == e)
			return;
	if (e->kind == EX_LOAD && ll_one_access(p, e->load.buf, e->load.idx[0]))
		vec_push(p->k->f.arena, &p->wide, ((LlWide){e, NULL}));
	else if (ex_is_op(e, IN_select))
		ll_vector_find(p, e->op.arg[0]);
	else
		for (int i = 0; i < n; i++)
			ll_vector_find(p, arg[i]);
}

static const char *vector_type(Arena *a, const Buf *b, int n)
{
	return arena_printf(a, "<%d x %s>", n, ll_stored(b->dtype));
}

static int bytes_of(const Buf *b, int n)
{
	return (int)dtype_size(b->dtype, n);
}

/* The alignment of an access of N elements. Shared arrays are aligned to SHARED_ALIGN (ll_shared),
 * so LLVM splits a larger access in two. */
static int align_of(LlKernel *k, const Buf *b, int n)
{
	const int bytes = bytes_of(b, n);

	return ll_space(k, b) == 3 && bytes > SHARED_ALIGN ? SHARED_ALIGN : bytes;
}

void ll_vector_fetch(LlVector *p, const char *lo)
{
	LlKernel *k = p->k;
	LlFn *f = &k->f;

	ll_bind(k, p->var, lo);
	VEC_EACH_AT (w, &p->wide) {
		const Buf *b = w->load->load.buf;
		const char *type, *at = ll_pointer(k, b, ll_expr(f, w->load->load.idx[0]),
						   p->vector, false, &type);

		w->vector = ll_set(f, "load %s, %s %s, align %d",
				   vector_type(f->arena, b, p->vector), type, at,
				   align_of(k, b, p->vector));
	}
}

void ll_vector_element(LlVector *p, const char *lo, int v)
{
	LlKernel *k = p->k;
	LlFn *f = &k->f;

	ll_forget(f);
	ll_bind(k, p->var, ll_plus(f, lo, v));
	k->kept = p->kept < 0 ? -1 : p->kept + v;
	VEC_EACH_AT (w, &p->wide) {
		const Buf *b = w->load->load.buf;
		const char *code = ll_set(f, "extractelement %s %s, i32 %d",
					  vector_type(f->arena, b, p->vector), w->vector, v);

		ll_name(f, w->load, ll_decoded(k, b->dtype, code));
	}
}

static void end_elements(LlVector *p, const char *lo)
{
	ll_forget(&p->k->f);
	ll_bind(p->k, p->var, lo);
	p->k->kept = -1;
}

/* The values that ST stores, as one vector. */
static const char *vector_values(LlVector *p, const LNode *st, const char *lo)
{
	LlKernel *k = p->k;
	LlFn *f = &k->f;
	const Buf *to = st->store.buf[0];
	const char *all = "undef", *code;

	for (int v = 0; v < p->vector; v++) {
		ll_vector_element(p, lo, v);
		code = ll_encoded(k, to->dtype, ll_expr(f, st->store.val[0]));
		all = ll_set(f, "insertelement %s %s, %s %s, i32 %d",
			     vector_type(f->arena, to, p->vector), all, ll_stored(to->dtype), code,
			     v);
	}
	end_elements(p, lo);
	return all;
}

/* Stores ALL, a vector of VECTOR elements, of type WHOLE. */
static void store_vector(LlKernel *k, const LNode *st, int vector, const char *whole,
			 const char *all)
{
	LlFn *f = &k->f;
	const char *type, *at = ll_pointer(k, st->store.buf[0], ll_expr(f, st->store.idx), vector,
					   true, &type);

	ll_put(f, "store %s %s, %s %s, align %d", whole, all, type, at,
	       align_of(k, st->store.buf[0], vector));
	ll_forget(f);
}

void ll_vector_store(LlVector *p, const LNode *st, const char *lo)
{
	LlKernel *k = p->k;

	ll_vector_fetch(p, lo);
	if (ll_one_access(p, st->store.buf[0], st->store.idx)) {
		store_vector(k, st, p->vector, vector_type(k->f.arena, st->store.buf[0], p->vector),
			     vector_values(p, st, lo));
		return;
	}
	for (int v = 0; v < p->vector; v++) {
		const char *val;

		ll_vector_element(p, lo, v);
		val = ll_expr(&k->f, st->store.val[0]);
		ll_store(k, st->store.buf[0], ll_expr(&k->f, st->store.idx), val);
	}
	end_elements(p, lo);
}

/* Stores elements of less than a byte that fill whole bytes: they are gathered in a word, and each
 * byte of it with elements is stored. Bits past the last element are 0. */
static void packed_bytes(LlVector *p, const LNode *st, const char *lo, const char *hi)
{
	LlKernel *k = p->k;
	LlFn *f = &k->f;
	const int bits = dtype_info[st->store.buf[0]->dtype].bits;
	const char *word = ll_slot(k, "i64", 0), *first, *i, *after, *code, *old, *all;

	ll_put(f, "store i64 0, ptr %s", word);
	ll_bind(k, p->var, lo);
	first = ll_op(f, "mul i64", ll_expr(f, st->store.idx), bits);
	for (int v = 0; v < p->vector; v++) {
		ll_forget(f);
		i = ll_plus(f, lo, v);
		after = ll_open_if_in(k, i, NULL, hi);
		ll_bind(k, p->var, i);
		code = ll_encoded(k, st->store.buf[0]->dtype, ll_expr(f, st->store.val[0]));
		old = ll_set(f, "zext i8 %s to i64", code);
		all = ll_op(f, "shl i64", ll_op(f, "and i64", old, (1 << bits) - 1), v * bits);
		old = ll_set(f, "load i64, ptr %s", word);
		ll_put(f, "store i64 %s, ptr %s", ll_set(f, "or i64 %s, %s", old, all), word);
		ll_close_if(k, after);
	}
	ll_forget(f);
	for (int byte = 0; byte < p->vector * bits / 8; byte++) {
		after = ll_open_if_in(k, ll_plus(f, lo, byte * 8 / bits), NULL, hi);
		all = ll_op(f, "lshr i64", ll_set(f, "load i64, ptr %s", word), byte * 8);
		code = ll_set(f, "trunc i64 %s to i8", all);
		i = ll_plus(f, ll_op(f, "lshr i64", first, 3), byte);
		ll_access_buf(k, st->store.buf[0], true);
		ll_put(f, "store i8 %s, ptr addrspace(1) %s", code,
		       ll_gep(f, "i8", 1, ll_buf_name(k, st->store.buf[0]), i));
		ll_close_if(k, after);
	}
}

/* Emits N, a store or an update of states, for all elements of the vector. */
static void vector_node(LlVector *p, const LNode *n, const char *lo)
{
	if (n->kind == LN_STORE) {
		ll_vector_store(p, n, lo);
		return;
	}
	ll_vector_fetch(p, lo);
	for (int v = 0; v < p->vector; v++) {
		ll_vector_element(p, lo, v);
		ll_step(p->k, n, n->store.buf, n->store.idx);
	}
	end_elements(p, lo);
}

bool ll_vector(LlKernel *k, const LNode *n)
{
	LlVector p = {.k = k, .var = n->range.var, .vector = n->share.vector, .kept = -1};
	LlFn *f = &k->f;
	LNode rest = *n;
	Expr *span;
	const char *lo, *hi, *end, *full, *label[3];

	if (!n->body || n->body->next ||
	    (n->body->kind != LN_STORE && n->body->kind != LN_UPDATE) ||
	    (n->body->store.guard && expr_has_iter(n->body->store.guard, n->range.var)))
		return false;
	if (n->body->store.guard) {
		LNode all = *n, store = *n->body;
		const char *after;

		ll_forget(f);
		after = ll_open_if(k, ll_expr(f, store.store.guard));
		store.store.guard = NULL;
		all.body = &store;
		all.next = NULL;
		ll_nodes(k, &all);
		ll_forget(f);
		ll_close_if(k, after);
		return true;
	}
	for (int i = 0; i < n->body->store.nout; i++)
		ll_vector_find(&p, n->body->store.val[i]);
	ll_forget(f);
	lo = ll_expr(f, n->range.lo);
	hi = ll_expr(f, n->range.hi);
	ll_forget(f);
	if (n->body->kind == LN_STORE && dtype_info[n->body->store.buf[0]->dtype].bits < 8) {
		packed_bytes(&p, n->body, lo, hi);
		return true;
	}
	span = ex_sub(k->sched->kernel->pool, n->range.hi, n->range.lo);
	if (span->kind == EX_CONST && span->i == n->share.vector) {
		vector_node(&p, n->body, lo);
		return true;
	}
	label[0] = ll_label(f, "whole");
	label[1] = ll_label(f, "rest");
	label[2] = ll_label(f, "stored");
	end = ll_plus(f, lo, n->share.vector);
	full = ll_set(f, "icmp sle i64 %s, %s", end, hi);
	ll_put(f, "br i1 %s, label %%%s, label %%%s", full, label[0], label[1]);
	ll_begin(f, label[0]);
	vector_node(&p, n->body, lo);
	ll_put(f, "br label %%%s", label[2]);
	ll_begin(f, label[1]);
	rest.share.vector = 0;
	rest.next = NULL;
	ll_nodes(k, &rest);
	ll_put(f, "br label %%%s", label[2]);
	ll_begin(f, label[2]);
	return true;
}

/* ---- Pieces of a copy ---- */

static LlVector elements(LlKernel *k, const LlPiece *c)
{
	return (LlVector){.k = k, .var = c->elem, .vector = c->vector, .kept = -1};
}

/* Vectors of bytes pass between basic blocks as words: LLVM splits vectors of more than four
 * elements. */
static bool in_words(const Buf *b, int vector)
{
	return dtype_info[b->dtype].bits == 8 && vector % 4 == 0;
}

const char *ll_piece_load(LlKernel *k, const LlPiece *c)
{
	LlVector p = elements(k, c);
	const Buf *to = c->store.store.buf[0];
	const char *all;

	if (p.vector > 1)
		ll_vector_find(&p, c->store.store.val[0]);
	ll_vector_fetch(&p, "0");
	all = vector_values(&p, &c->store, "0");
	if (!in_words(to, p.vector))
		return all;
	return ll_set(&k->f, "bitcast %s %s to %s", vector_type(k->f.arena, to, p.vector), all,
		      ll_piece_type(k, c));
}

void ll_piece_store(LlKernel *k, const LlPiece *c, const char *all)
{
	ll_forget(&k->f);
	ll_bind(k, c->elem, "0");
	store_vector(k, &c->store, c->vector, ll_piece_type(k, c), all);
}

const char *ll_piece_type(LlKernel *k, const LlPiece *c)
{
	const Buf *b = c->store.store.buf[0];

	return in_words(b, c->vector) ? arena_printf(k->f.arena, "<%d x i32>", c->vector / 4)
				      : vector_type(k->f.arena, b, c->vector);
}

void ll_piece_copy(LlKernel *k, const LlPiece *c, const char *cond)
{
	const LlVector p = elements(k, c);
	const Buf *b = c->store.store.buf[0];
	const int bytes = bytes_of(b, p.vector);
	LlFn *f = &k->f;
	const Expr *load = c->store.store.val[0];
	const char *to, *from, *size, *type;

	/* the schedule ensures (passes/schedule/gpu/gemm.c) that a copy is contiguous and aligned
	 * to its size at both ends */
	assert(load->kind == EX_LOAD && (bytes == 4 || bytes == 8 || bytes == 16));
	assert(p.vector == 1 || (ll_one_access(&p, load->load.buf, load->load.idx[0]) &&
				 ll_one_access(&p, b, c->store.store.idx)));
	ll_forget(f);
	ll_bind(k, p.var, "0");
	to = ll_pointer(k, b, ll_expr(f, c->store.store.idx), p.vector, true, &type);
	from = ll_pointer(k, load->load.buf, ll_expr(f, load->load.idx[0]), p.vector, false, &type);
	if (!cond) {
		ll_put(f,
		       "call void @llvm.nvvm.cp.async.c%c.shared.global.%d(ptr addrspace(3) %s, ptr addrspace(1) %s)",
		       bytes == 16 ? 'g' : 'a', bytes, to, from);
		return;
	}
	size = ll_set(f, "select i1 %s, i32 %d, i32 0", cond, bytes);
	ll_put(f,
	       "call void @llvm.nvvm.cp.async.c%c.shared.global.%d.s(ptr addrspace(3) %s, ptr addrspace(1) %s, i32 %s)",
	       bytes == 16 ? 'g' : 'a', bytes, to, from, size);
}
