/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settles a schedule: what code generation takes from it follows from its text, so that code
 * generated from a tree that was read is that of the tree that was printed. Three things are made
 * canonical; what the tree computes stays.
 *
 *   Names. A buffer of the kernel has the name of the kernel's text, and any other a name of its own.
 *   An iterator's name has one extent in the schedule. Iterators of the same name and extent become
 *   one, unless one is in scope where the other is bound: then they get different names.
 *
 *   The order of expressions. They get a new pool, first the iterators, in the order in which the
 *   tree binds them, then all others in the order of the tree's text. The terms of sums are in the
 *   order of their iterators (expr_cmp), so what inner loops do not change is first, and sums that
 *   code generation makes equal those of the tree.
 */
#include "ir/loop/loop.h"

#include <string.h>

/* ---- Iterators ---- */

/* The iterators that were called NAME and had one extent, of which the first stands for all. */
typedef struct SameIter {
	Iter *is;
	VEC(Iter *) all;
} SameIter;

typedef struct IterNames {
	Arena *tmp;
	Kernel *k;
	int nfixed;        /* iterators of the kernel, whose names stay */
	bool *meet;        /* [i * n + j]: iterators i and j are in scope together */
	bool *bound;       /* by Iter.id: it is in `order` */
	VEC(Iter *) order; /* as they are bound */
	VEC(Iter *) scope;
	VEC(SameIter) same;
	Iter **to; /* by Iter.id: what it becomes */
} IterNames;

static void enter(IterNames *x, Iter *it)
{
	const size_t n = (size_t)x->k->iters.n;

	for (int i = 0; i < x->scope.n; i++)
		x->meet[(size_t)it->id * n + (size_t)x->scope.at[i]->id] =
			x->meet[(size_t)x->scope.at[i]->id * n + (size_t)it->id] = true;
	vec_push(x->tmp, &x->scope, it);
	if (!x->bound[it->id])
		vec_push(x->tmp, &x->order, it);
	x->bound[it->id] = true;
}

/* The same, unless IT is in scope. */
static void enter_new(IterNames *x, Iter *it)
{
	if (!iter_among(it, x->scope.at, x->scope.n))
		enter(x, it);
}

/* The iterators of N, and those of its statement that only its point mentions (of a tile's
 * terms). */
static void enter_all(IterNames *x, LNode *n)
{
	LNODE_EACH_ITER (it, n)
		enter_new(x, *it);
	for (int i = 0; i < n->point.nat; i++)
		EX_EACH (e, n->point.at[i])
			if (e->kind == EX_ITER)
				enter_new(x, e->iter);
}

static void find_scopes(IterNames *x, LNode *n)
{
	const int outside = x->scope.n;

	for (; n; n = n->next) {
		const int before = x->scope.n;

		enter_all(x, n);
		find_scopes(x, n->body);
		if (n->kind != LN_LET)
			x->scope.n = before;
	}
	x->scope.n = outside;
}

/* Whether IT may be one with all of S. */
static bool may_join(const IterNames *x, const SameIter *s, const Iter *it)
{
	if (s->is->extent != it->extent)
		return false;
	for (int i = 0; i < s->all.n; i++)
		if (s->all.at[i] == it ||
		    x->meet[(size_t)s->all.at[i]->id * (size_t)x->k->iters.n + (size_t)it->id])
			return s->all.at[i] == it;
	return true;
}

static void name_iter(IterNames *x, Iter *it)
{
	const char *word = kernel_word(x->k->ctx, it->name), *name = word;

	for (int n = 2;; n++) {
		SameIter *s = NULL;

		for (int i = 0; i < x->same.n && !s; i++)
			if (!strcmp(x->same.at[i].is->name, name))
				s = &x->same.at[i];
		if (!s) {
			vec_push(x->tmp, &x->same, (SameIter){.is = it});
			s = &vec_last(&x->same);
			it->name = name;
		} else if (!may_join(x, s, it)) {
			name = ctx_name(x->k->ctx, arena_printf(x->tmp, "%s_%d", word, n));
			continue;
		}
		vec_push(x->tmp, &s->all, it);
		x->to[it->id] = s->is;
		return;
	}
}

static void name_iters(IterNames *x, Schedule *s, const Kernel *of)
{
	const char **fixed = kernel_iter_names(of, x->tmp);
	const size_t n = (size_t)x->k->iters.n;

	x->nfixed = of->iters.n;
	x->meet = NEW_ARRAY(x->tmp, n * n + 1, bool);
	x->bound = NEW_ARRAY(x->tmp, n + 1, bool);
	x->to = NEW_ARRAY(x->tmp, n + 1, Iter *);
	VEC_EACH (st, &s->stages) {
		x->scope.n = 0;
		enter(x, st->var);
		if (st->block.first)
			enter(x, st->block.first);
		find_scopes(x, st->block.head);
		find_scopes(x, st->body);
	}
	for (int i = 0; i < x->nfixed; i++) {
		x->k->iters.at[i]->name = fixed[i];
		name_iter(x, x->k->iters.at[i]);
	}
	for (int i = 0; i < x->order.n; i++)
		if (x->order.at[i]->id >= x->nfixed)
			name_iter(x, x->order.at[i]);
}

/* ---- Buffers ---- */

typedef struct NamedBufs {
	Arena *tmp;
	Kernel *k;
	bool *named;
	int nfixed;
} NamedBufs;

static bool is_taken(const NamedBufs *x, const char *name)
{
	for (int i = 0; i < x->k->bufs.n; i++)
		if (x->named[i] && !strcmp(x->k->bufs.at[i]->name, name))
			return true;
	return false;
}

static void name_buf(NamedBufs *x, Buf *b)
{
	const char *word = kernel_word(x->k->ctx, b->name), *name = word;

	if (x->named[b->id])
		return;
	for (int n = 2; is_taken(x, name); n++)
		name = ctx_name(x->k->ctx, arena_printf(x->tmp, "%s_%d", word, n));
	b->name = name;
	x->named[b->id] = true;
}

static void name_locals(NamedBufs *x, const LNode *n)
{
	for (; n; n = n->next) {
		const LBufs bufs = lnode_bufs(n);

		VEC_EACH_AT (u, &bufs)
			if (u->use == LUSE_DECLARES)
				name_buf(x, u->b);
		name_locals(x, n->body);
	}
}

static void name_bufs(Arena *tmp, Schedule *s, const Kernel *of)
{
	Kernel *k = s->kernel;
	NamedBufs x = {tmp, k, NEW_ARRAY(tmp, k->bufs.n + 1, bool), of->bufs.n};
	const char **fixed = kernel_buf_names(of, tmp);

	for (int i = 0; i < x.nfixed; i++) {
		k->bufs.at[i]->name = fixed[i];
		x.named[i] = true;
	}
	for (int i = 0; i < s->temps.n; i++)
		name_buf(&x, s->temps.at[i]);
	for (int i = 0; i < s->stages.n; i++) {
		name_locals(&x, s->stages.at[i]->block.head);
		name_locals(&x, s->stages.at[i]->body);
	}
}

/* ---- Copies of expressions ---- */

/* Copies expressions of a pool to another one, the operands first, from the left. */
typedef struct ExprCopies {
	Arena *tmp;
	ExprPool *to;
	Iter *const *iters; /* by Iter.id: what an iterator becomes */
	Expr **copy;        /* by Expr.id in the old pool */
	VEC(Expr *) todo;
} ExprCopies;

static Expr *copy_expr(ExprCopies *x, Expr *e)
{
	vec_push(x->tmp, &x->todo, e);
	while (x->todo.n) {
		Expr *at = vec_last(&x->todo), *const * arg, *with[MAX_RANK * 2];
		const int n = ex_operands(at, &arg), before = x->todo.n;

		for (int i = n; i-- > 0 && !x->copy[at->id];)
			if (!x->copy[arg[i]->id])
				vec_push(x->tmp, &x->todo, arg[i]);
		if (x->todo.n > before)
			continue;
		x->todo.n--;
		if (x->copy[at->id])
			continue;
		for (int i = 0; i < n; i++)
			with[i] = x->copy[arg[i]->id];
		x->copy[at->id] = at->kind == EX_ITER ? ex_iter(x->to, x->iters[at->iter->id])
						      : ex_with_operands(x->to, at, with);
	}
	return x->copy[e->id];
}

static void copy_all(ExprCopies *x, LNode *n)
{
	for (; n; n = n->next) {
		LNODE_EACH_EXPR (e, n)
			*e = copy_expr(x, *e);
		for (int i = 0; i < n->point.nat; i++)
			n->point.at[i] = copy_expr(x, n->point.at[i]);
		copy_all(x, n->body);
	}
}

/* Moves the expressions of S to the pool TO. BOUND: its iterators as they are bound; INTO: what
 * each becomes, by Iter.id. */
static void move_tree(Schedule *s, ExprPool *to, Iter *const *bound, int n, Iter *const *into)
{
	ARENA_LOCAL(tmp);
	Kernel *k = s->kernel;
	ExprCopies x = {.tmp = tmp,
			.to = to,
			.iters = into,
			.copy = NEW_ARRAY(tmp, expr_count(k->pool) + 1, Expr *)};

	for (int i = 0; i < n; i++)
		ex_iter(to, into[bound[i]->id]);
	VEC_EACH (st, &s->stages) {
		copy_all(&x, st->block.head);
		copy_all(&x, st->body);
	}
	k->pool = to;
}

/* ---- All of it ---- */

static void map_iters(LNode *n, Iter *const *to)
{
	for (; n; n = n->next) {
		LNODE_EACH_ITER (it, n)
			*it = to[(*it)->id];
		map_iters(n->body, to);
	}
}

void schedule_settle(Schedule *s, const Kernel *of)
{
	ARENA_LOCAL(tmp);
	Kernel *k = s->kernel;
	IterNames x = {.tmp = tmp, .k = k};

	name_bufs(tmp, s, of);
	name_iters(&x, s, of);
	for (int i = 0; i < k->iters.n; i++)
		x.to[i] = x.to[i] ? x.to[i] : k->iters.at[i];
	/* The first copy puts the terms of sums in order, and the second one is in the order of the
	 * text that this gives. */
	move_tree(s, expr_pool_new(k->ctx, tmp), x.order.at, x.order.n, x.to);
	move_tree(s, expr_pool_new(k->ctx, k->arena), x.order.at, x.order.n, x.to);
	VEC_EACH (st, &s->stages) {
		map_iters(st->block.head, x.to);
		map_iters(st->body, x.to);
		st->var = x.to[st->var->id];
		if (st->block.first)
			st->block.first = x.to[st->block.first->id];
	}
	VEC_EACH (stmt, &k->stmts)
		for (int j = 0; j < stmt->nwidx + 3; j++)
			*stmt_expr(stmt, j) =
				ex_replace(k->pool, *stmt_expr(stmt, j), NULL, NULL);
}
