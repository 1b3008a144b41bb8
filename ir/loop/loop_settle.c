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
 *   The order of expressions. Sums keep their terms in the order in which their pool made them
 *   (ir/expr/affine.c), and code generation makes further sums of them. The expressions get a new
 *   pool, in the order of the tree's text, except that a term follows those before it in any sum. So
 *   no sum changes.
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

/* The iterators of N, and those of its statement that only its point mentions (of a tile's terms). */
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

/* Copies expressions to a pool, the operands first, from the left. */
typedef struct ExprCopies {
	Arena *tmp;
	ExprPool *to;
	Iter *const *iters; /* by Iter.id: what an iterator becomes */
	Expr **copy;        /* by Expr.id in the old pool */
	VEC(Expr *) todo, roots; /* ROOTS: the copies of those that the tree mentions */
} ExprCopies;

static void copy_expr(ExprCopies *x, Expr *e)
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
	vec_push(x->tmp, &x->roots, x->copy[e->id]);
}

static void copy_all(ExprCopies *x, const LNode *n)
{
	for (; n; n = n->next) {
		LNODE_EACH_EXPR (e, n)
			copy_expr(x, *e);
		for (int i = 0; i < n->point.nat; i++)
			copy_expr(x, n->point.at[i]);
		copy_all(x, n->body);
	}
}

/* ---- The order of expressions ---- */

typedef struct LaterExpr {
	int id, next; /* NEXT: of the same expression's followers; -1: none */
} LaterExpr;

/* All by Expr.id. */
typedef struct ExprOrder {
	Arena *tmp;
	ExprPool *to;
	Expr **all, **copy;
	int n;
	int *first;         /* of the followers of an expression */
	int *waits, *terms; /* operands, and terms before it, that are not copied yet */
	VEC(LaterExpr) after, after_term;
	int *first_term;
	VEC(int) ready; /* a heap: the smallest id first */
} ExprOrder;

static bool is_size(const Expr *e)
{
	return e->kind == EX_CONST || e->kind == EX_DIM;
}

/* The atom of the term E of a sum; null: E is a size. */
static Expr *atom_of(Expr *e)
{
	if (ex_is_op(e, IN_mul) && is_size(e->op.arg[1]))
		e = e->op.arg[0];
	return is_size(e) ? NULL : e;
}

static void follow(ExprOrder *x, const Expr *a, const Expr *b, bool term)
{
	int *first = term ? &x->first_term[a->id] : &x->first[a->id];

	if (term) {
		vec_push(x->tmp, &x->after_term, ((LaterExpr){b->id, *first}));
		*first = x->after_term.n - 1;
		x->terms[b->id]++;
	} else {
		vec_push(x->tmp, &x->after, ((LaterExpr){b->id, *first}));
		*first = x->after.n - 1;
		x->waits[b->id]++;
	}
}

static void find_order(ExprOrder *x, Expr *e)
{
	Expr *const *arg;

	for (int i = ex_operands(e, &arg); i-- > 0;)
		follow(x, arg[i], e, false);
	if (ex_is_op(e, IN_add) && e->ct == CT_I64) {
		Expr *before = e->op.arg[0], *a, *b = atom_of(e->op.arg[1]);

		a = atom_of(ex_is_op(before, IN_add) ? before->op.arg[1] : before);
		if (a && b && a != b)
			follow(x, a, b, true);
	}
}

static void push_ready(ExprOrder *x, int id)
{
	int k = x->ready.n;

	if (x->waits[id] || x->terms[id] || x->copy[id])
		return;
	vec_push(x->tmp, &x->ready, id);
	for (int *h = x->ready.at; k > 0 && h[(k - 1) / 2] > id; k = (k - 1) / 2) {
		h[k] = h[(k - 1) / 2];
		h[(k - 1) / 2] = id;
	}
}

static int pop_ready(ExprOrder *x)
{
	int *h = x->ready.at, top = h[0], last = h[--x->ready.n], k = 0;
	const int n = x->ready.n;

	for (int child; (child = 2 * k + 1) < n; k = child) {
		if (child + 1 < n && h[child + 1] < h[child])
			child++;
		if (h[child] >= last)
			break;
		h[k] = h[child];
	}
	h[k] = last;
	return top;
}

static void emit(ExprOrder *x, int id)
{
	Expr *const *arg, *with[MAX_RANK * 2];

	for (int i = ex_operands(x->all[id], &arg); i-- > 0;)
		with[i] = x->copy[arg[i]->id];
	x->copy[id] = ex_with_operands(x->to, x->all[id], with);
	for (int i = x->first[id]; i >= 0; i = x->after.at[i].next) {
		x->waits[x->after.at[i].id]--;
		push_ready(x, x->after.at[i].id);
	}
	for (int i = x->first_term[id]; i >= 0; i = x->after_term.at[i].next) {
		x->terms[x->after_term.at[i].id]--;
		push_ready(x, x->after_term.at[i].id);
	}
}

/* Copies ROOT[0..NROOTS), of a pool of N expressions, to the pool TO; returns the copies by the ids
 * in the first pool. */
static Expr **in_order(Arena *tmp, Expr *const *root, int nroots, int n, ExprPool *to)
{
	Expr *const *arg;
	ExprOrder x = {.tmp = tmp,
		       .to = to,
		       .n = n,
		       .all = NEW_ARRAY(tmp, n + 1, Expr *),
		       .copy = NEW_ARRAY(tmp, n + 1, Expr *),
		       .first = NEW_ARRAY(tmp, n + 1, int),
		       .first_term = NEW_ARRAY(tmp, n + 1, int),
		       .waits = NEW_ARRAY(tmp, n + 1, int),
		       .terms = NEW_ARRAY(tmp, n + 1, int)};

	for (int i = 0; i < nroots; i++)
		x.all[root[i]->id] = root[i];
	for (int i = n - 1; i >= 0; i--) /* operands have smaller ids */
		for (int j = x.all[i] ? ex_operands(x.all[i], &arg) : 0; j-- > 0;)
			x.all[arg[j]->id] = arg[j];
	for (int i = 0; i < n; i++)
		x.first[i] = x.first_term[i] = -1;
	for (int i = 0; i < n; i++)
		if (x.all[i])
			find_order(&x, x.all[i]);
	for (int i = 0; i < n; i++)
		if (x.all[i])
			push_ready(&x, i);
	for (int left = 0; x.ready.n || left < n;) {
		if (x.ready.n) {
			const int id = pop_ready(&x);

			if (!x.copy[id])
				emit(&x, id);
		} else if (x.all[left] && !x.copy[left]) {
			/* Sums disagree about the order of terms: this one decides. */
			emit(&x, left);
			left = 0;
		} else {
			left++;
		}
	}
	return x.copy;
}

/* ---- All of it ---- */

/* The copies of a tree's expressions and iterators: ITERS by Iter.id, TEXT by Expr.id, and
 * ORDERED by the id of that copy. */
typedef struct Settled {
	Iter *const *iters;
	Expr *const *text, *const *ordered;
} Settled;

static void replace_all(const Settled *x, LNode *n)
{
	for (; n; n = n->next) {
		LNODE_EACH_EXPR (e, n)
			*e = x->ordered[x->text[(*e)->id]->id];
		for (int i = 0; i < n->point.nat; i++)
			n->point.at[i] = x->ordered[x->text[n->point.at[i]->id]->id];
		LNODE_EACH_ITER (it, n)
			*it = x->iters[(*it)->id];
		replace_all(x, n->body);
	}
}

/* The statements' expressions in the new pool. */
static void move_stmts(Kernel *k, ExprPool *to)
{
	VEC_EACH (s, &k->stmts)
		for (int j = 0; j < s->nwidx + 3; j++)
			*stmt_expr(s, j) = ex_replace(to, *stmt_expr(s, j), NULL, NULL);
	k->pool = to;
}

void schedule_settle(Schedule *s, const Kernel *of)
{
	ARENA_LOCAL(tmp);
	Kernel *k = s->kernel;
	const int n = expr_count(k->pool);
	ExprPool *by_text = expr_pool_new(k->ctx, tmp), *last = expr_pool_new(k->ctx, k->arena);
	IterNames x = {.tmp = tmp, .k = k};
	ExprCopies copies = {.tmp = tmp, .to = by_text, .copy = NEW_ARRAY(tmp, n + 1, Expr *)};
	Settled to;

	name_bufs(tmp, s, of);
	name_iters(&x, s, of);
	for (int i = 0; i < k->iters.n; i++)
		x.to[i] = x.to[i] ? x.to[i] : k->iters.at[i];
	copies.iters = x.to;
	VEC_EACH (st, &s->stages) {
		copy_all(&copies, st->block.head);
		copy_all(&copies, st->body);
	}
	to = (Settled){x.to, copies.copy,
		       in_order(tmp, copies.roots.at, copies.roots.n, expr_count(by_text), last)};
	VEC_EACH (st, &s->stages) {
		replace_all(&to, st->block.head);
		replace_all(&to, st->body);
		st->var = x.to[st->var->id];
		if (st->block.first)
			st->block.first = x.to[st->block.first->id];
	}
	move_stmts(k, last);
}
