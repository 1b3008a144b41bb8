/* SPDX-License-Identifier: Apache-2.0 */
/* The text of operations on tiles (TileNode), both ways. */
#include "ir/loop/loop_impl.h"

static void points(LoopText *t, TileNode *n)
{
	const int rank = n->n;

	for (int i = 0; i == 0 || lt_opt(t, i < rank, ", "); i++) {
		if (i == TILE_RANK)
			lt_fault(t, "an operation on tiles has %d iterators at most", TILE_RANK);
		if (t->failed)
			return;
		lt_bounded(t, &n->it[i]);
		n->n = i + 1;
	}
}

static void element(LoopText *t, TileNode *n)
{
	const int rank = n->nidx;

	lt_buf(t, &n->to);
	lt_put(t, "[");
	for (int i = 0; i == 0 || lt_opt(t, i < rank, ","); i++) {
		if (i == TILE_RANK)
			lt_fault(t, "a tile has %d dims at most", TILE_RANK);
		if (t->failed)
			return;
		lt_expr(t, &n->idx[i], CT_I64);
		n->nidx = i + 1;
	}
	lt_put(t, "]");
}

static void sync(LoopText *t, TileNode *n)
{
	static const char *const kinds[] = {
		[TILE_COMMIT] = "commit", [TILE_WAIT] = "wait ",  [TILE_ARRIVE] = "arrive ",
		[TILE_AWAIT] = "await ",  [TILE_FENCE] = "fence", [TILE_BARRIER] = "barrier"};
	const int kind = lt_choice(t, kinds, TILE_BARRIER + 1, (int)n->sync);

	if (kind < 0)
		lt_expected(t, "'commit', 'wait', 'arrive', 'await', 'fence' or 'barrier'");
	n->sync = kind < 0 ? TILE_BARRIER : (TileSync)kind;
	if (n->sync == TILE_WAIT)
		lt_count(t, &n->pending, 0, INT32_MAX);
	if (n->sync == TILE_ARRIVE || n->sync == TILE_AWAIT)
		element(t, n);
	if (n->sync == TILE_AWAIT && !t->failed) {
		lt_put(t, " parity ");
		lt_expr(t, &n->val, CT_BOOL);
	}
	n->producers = lt_opt(t, n->producers, " by producers");
}

/* Prints the text between the points of an operation and its element. */
static void how(LoopText *t, TileNode *n)
{
	if (n->op == TILE_DOT) {
		lt_put(t, " by ");
		lt_mma(t, &n->mma);
	} else if (n->op == TILE_COPY) {
		lt_put(t, " vector ");
		lt_count(t, &n->vector, 1, 16);
		n->async = lt_opt(t, n->async, " async");
		n->producers = lt_opt(t, n->producers, " by producers");
	} else {
		lt_put(t, " in ");
		lt_layout(t, &n->points, n->n);
	}
	lt_put(t, ": ");
}

/* How the element gets the value: "= ", "+= " of a dot, "sum= " and "= sum " of a fold. */
static void assignment(LoopText *t, TileNode *n)
{
	if (n->op == TILE_FOLD) {
		n->adds = !lt_opt(t, !n->adds, " = ");
		lt_put(t, n->adds ? " " : "");
		lt_monoid(t, &n->red);
		lt_put(t, n->adds ? "= " : " ");
		return;
	}
	n->adds = n->op == TILE_DOT && lt_opt(t, n->adds, " += ");
	if (!n->adds)
		lt_put(t, " = ");
}

void lt_tile_op(LoopText *t, LNode *node)
{
	static const char *const names[] = {[TILE_COPY] = "copy ",
					    [TILE_MAP] = "map ",
					    [TILE_FOLD] = "fold ",
					    [TILE_DOT] = "dot ",
					    [TILE_SYNC] = "sync "};
	TileNode *n = node->op = t->out ? node->op : NEW(t->arena, TileNode);
	CType ct;

	n->op = (TileOp)lt_choice(t, names, TILE_SYNC + 1, (int)n->op);
	if (n->op == TILE_SYNC) {
		sync(t, n);
		return;
	}
	points(t, n);
	how(t, n);
	element(t, n);
	if (t->failed)
		return;
	ct = dtype_ctype(n->to->dtype);
	assignment(t, n);
	lt_expr(t, &n->val, ct);
	if (n->op == TILE_DOT) {
		lt_put(t, " times ");
		lt_expr(t, &n->by, ct);
	} else if (n->op == TILE_FOLD && lt_opt(t, n->mma != MMA_FMA, " by ")) {
		lt_mma(t, &n->mma);
	}
	lt_opt_expr(t, " where ", &n->guard, CT_BOOL);
	lt_opt_expr(t, " executes where ", &node->store.guard, CT_BOOL);
}

void tile_print(StrBuf *b, const TileNode *n)
{
	LoopText t = {.out = b};
	TileNode op = *n;

	lt_tile_op(&t, &(LNode){.op = &op});
}
