/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops of a kernel: loops of one thread, and loops whose points the threads of a group share out.
 */
#include "codegen/nvptx/kernel.h"

#include <string.h>

LlLoop ll_open_loop(LlKernel *k, const Iter *var, const char *from, const char *to,
		    const char *step)
{
	LlFn *f = &k->f;
	LlLoop l = {ll_slot(k, "i64", 0), ll_new(f),           step,
		    ll_label(f, "loop"),  ll_label(f, "done"), false};
	const char *body = ll_label(f, "body");

	ll_sync_open(k, SYNC_LOOP);
	ll_put(f, "store i64 %s, ptr %s", from, l.slot);
	ll_put(f, "br label %%%s", l.head);
	ll_begin(f, l.head);
	ll_put(f, "%s = load i64, ptr %s", l.var, l.slot);
	ll_put(f, "br i1 %s, label %%%s, label %%%s", ll_set(f, "icmp slt i64 %s, %s", l.var, to),
	       body, l.end);
	ll_begin(f, body);
	k->loops++;
	ll_bind(k, var, l.var);
	return l;
}

void ll_close_loop(LlKernel *k, const LlLoop *l)
{
	const char *next = ll_set(&k->f, "add nsw i64 %s, %s", l->var, l->step);

	ll_put(&k->f, "store i64 %s, ptr %s", next, l->slot);
	ll_put(&k->f, "br label %%%s%s", l->head, l->once ? LL_LOOP_ONCE : "");
	ll_begin(&k->f, l->end);
	k->loops--;
	ll_sync_close(k);
	ll_forget(&k->f);
}

void ll_strided(LlKernel *k, const Iter *var, const char *from, const char *to, long long stride,
		bool unrolled, void (*body)(void *arg, const char *at), void *arg)
{
	LlFn *f = &k->f;
	const char *last, *at;
	LlLoop l;

	if (unrolled) {
		last = ll_plus(f, to, -(LL_UNROLL - 1) * stride);
		l = ll_open_loop(k, var, from, last, ll_number(f, LL_UNROLL * stride));
		l.once = true;
		for (int u = 0; u < LL_UNROLL; u++)
			body(arg, ll_plus(f, l.var, u * stride));
		ll_close_loop(k, &l);
		at = ll_set(f, "load i64, ptr %s", l.slot);
		from = at;
	}
	l = ll_open_loop(k, var, from, to, ll_number(f, stride));
	body(arg, l.var);
	ll_close_loop(k, &l);
}

void ll_ends(LlKernel *k, const LNode *n, const char **lo, const char **hi)
{
	ll_forget(&k->f);
	*lo = ll_expr(&k->f, n->range.lo);
	*hi = ll_expr(&k->f, n->range.hi);
	ll_forget(&k->f);
}

static const char *from_lane(LlKernel *k, const char *lo)
{
	return ll_set(&k->f, "add nsw i64 %s, %s", lo, k->lane);
}

/* Registers for the operands of N, an unrolled row of terms of several elements each; 0: N is not
 * such a row. */
static int row_registers(const LNode *n)
{
	int words = 0;

	for (const LNode *in = n->body; in; in = in->next) {
		if (in->kind != LN_LOOP || in->share.vector <= 1 || in->body->kind != LN_UPDATE)
			continue;
		EX_EACH_LOAD (e, in->body->store.val[0])
			words += dtype_info[ctype_dtype(e->ct)].bits > 32 ? 2 : 1;
		return (int)(n->range.hi->i - n->range.lo->i) * in->share.vector * words;
	}
	return 0;
}

static void unrolled_node(LlKernel *k, const LNode *n)
{
	const int row = row_registers(n);

	k->ahead = row > k->ahead ? row : k->ahead;
	for (int64_t i = n->range.lo->i; i < n->range.hi->i; i += n->loop.step) {
		ll_forget(&k->f);
		ll_bind(k, n->range.var, ll_number(&k->f, i));
		ll_nodes(k, n->body);
	}
	ll_forget(&k->f);
}

typedef struct Strided {
	LlKernel *k;
	const LNode *n;
} Strided;

/* Emits the body of a strided loop over independent points at point AT; several points are in
 * flight at once. */
static void strided_node(void *arg, const char *at)
{
	const Strided *s = arg;

	ll_forget(&s->k->f);
	ll_bind(s->k, s->n->range.var, at);
	ll_nodes(s->k, s->n->body);
	ll_forget(&s->k->f);
}

/* Loop N has at most one point for each thread of the group, so it needs no loop. */
static bool one_each(const LlKernel *k, const LNode *n)
{
	int64_t lo = 0, hi = n->range.hi->kind == EX_CONST ? n->range.hi->i : INT64_MAX;

	if (n->range.hi->kind == EX_ITER) {
		dim_bounds(k->f.g->ctx, n->range.hi->iter->extent, &lo, &hi);
		hi--;
	}
	return n->range.lo->kind == EX_CONST && n->range.lo->i >= 0 &&
	       hi - n->range.lo->i <= k->group;
}

static bool has_kind(const LNode *n, LNodeKind kind)
{
	for (; n; n = n->next)
		if (n->kind == kind || has_kind(n->body, kind))
			return true;
	return false;
}

/* N or a sibling contains unrolled terms of sums. A loop around them must not be unrolled: ptxas
 * would, until it spills. Copies may be, as their loads are then in flight together. */
static bool has_terms(const LNode *n)
{
	for (; n; n = n->next)
		if (n->kind == LN_LOOP &&
		    (n->loop.kind == LOOP_UNROLL ? has_kind(n->body, LN_UPDATE)
						 : has_terms(n->body)))
			return true;
	return false;
}

static void group_node(LlKernel *k, const LNode *n, const char *lo, const char *hi)
{
	const bool once = one_each(k, n);
	const char *at = from_lane(k, lo), *after = NULL;
	LlLoop l;

	if (!once) {
		l = ll_open_loop(k, n->range.var, at, hi, ll_number(&k->f, k->group));
		l.once = has_terms(n->body);
		at = l.var;
	} else {
		if (n->range.hi->kind != EX_CONST || n->range.hi->i - n->range.lo->i < k->group)
			after = ll_open_if_in(k, at, NULL, hi);
		ll_bind(k, n->range.var, at);
	}
	if (!strcmp(lo, "0"))
		vec_push(k->f.arena, &k->own, at);
	k->in_group++;
	ll_nodes(k, n->body);
	k->in_group--;
	if (once)
		ll_close_if(k, after);
	else
		ll_close_loop(k, &l);
	ll_forget(&k->f);
	ll_barrier(k);
}

/* HI, or, where WHEN is 0, LO: the loop is empty then. */
static const char *end_when(LlKernel *k, Dim *when, const char *lo, const char *hi)
{
	return ll_set(&k->f, "select i1 %s, i64 %s, i64 %s",
		      ll_op(&k->f, "icmp sgt i64", ll_dim(k, when), 0), hi, lo);
}

/*
 * LOOP_LAST. After a barrier, thread 0 sees all that the block's threads stored, and its atomic
 * operation releases it to other blocks. The counter wraps to 0 after COUNT blocks, so the next
 * launch finds 0 again. In the last block, a barrier after that operation makes the other blocks'
 * stores visible to all threads.
 */
static void last_block(LlKernel *k, const LNode *n)
{
	LlFn *f = &k->f;
	const char *count = ll_expr(f, n->range.hi),
		   *group = ll_set(f, "udiv i64 %%block, %s", count),
		   *bound = ll_op(f, "sub i64", count, 1),
		   *first = ll_op(f, "icmp eq i32", "%tid32", 0),
		   *one = ll_op(f, "icmp eq i64", bound, 0),
		   *alone = ll_set(f, "and i1 %s, %s", first, one),
		   *waits = ll_set(f, "xor i1 %s, %s", first, alone), *slot = ll_slot(k, "i32", 0),
		   *at, *arrived, *is, *word, *end;

	k->arrives = true;
	word = ll_set(f, "zext i1 %s to i32", alone);
	ll_put(f, "store i32 %s, ptr %s", word, slot);
	ll_put(f, "call void @llvm.nvvm.barrier0()");
	end = ll_open_if(k, waits);
	at = ll_gep(f, "i32", 1, "%arrivals", group);
	word = ll_narrow(f, bound);
	arrived = ll_set(
		f,
		"call i32 asm sideeffect \"atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;\", "
		"\"=r,l,r,~{memory}\"(ptr addrspace(1) %s, i32 %s)",
		at, word);
	is = ll_set(f, "icmp eq i32 %s, %s", arrived, word);
	word = ll_set(f, "zext i1 %s to i32", is);
	ll_put(f, "store i32 %s, ptr %s", word, slot);
	ll_close_if(k, end);
	word = ll_set(f, "load i32, ptr %s", slot);
	is = ll_set(f, "call i32 @llvm.nvvm.barrier0.or(i32 %s)", word);
	end = ll_open_if(k, ll_op(f, "icmp ne i32", is, 0));
	k->conditions--; /* the same in all threads of the block */
	ll_bind(k, n->range.var, group);
	ll_nodes(k, n->body);
	k->conditions++;
	ll_close_if(k, end);
	ll_forget(f);
}

void ll_loop(LlKernel *k, const LNode *n)
{
	const bool share = n->loop.kind == LOOP_GROUP && !ll_alone(k);
	const char *lo, *hi;
	LlLoop l;

	if (n->loop.kind == LOOP_LAST) {
		last_block(k, n);
		return;
	}
	if (n->share.vector > 1 && ll_alone(k) && ll_vector(k, n))
		return;
	if (share && (n->share.vector || n->share.keep)) {
		ll_share(k, n);
		return;
	}
	if (n->loop.kind == LOOP_UNROLL && n->range.lo->kind == EX_CONST &&
	    n->range.hi->kind == EX_CONST) {
		unrolled_node(k, n);
		return;
	}
	ll_ends(k, n, &lo, &hi);
	if (n->loop.when)
		hi = end_when(k, n->loop.when, lo, hi);
	if (n->loop.kind == LOOP_VECTOR && n->loop.step > 1) {
		ll_strided(k, n->range.var, lo, hi, n->loop.step, true, strided_node,
			   &(Strided){k, n});
		return;
	}
	if (share) {
		group_node(k, n, lo, hi);
		return;
	}
	l = ll_open_loop(k, n->range.var, lo, hi, ll_number(&k->f, n->loop.step));
	l.once = has_terms(n->body);
	ll_nodes(k, n->body);
	ll_close_loop(k, &l);
}
