/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/graph/blocks.h"

#include <string.h>

static bool opens(OpKind op)
{
	return op == OP_For || op == OP_When || op == OP_Else;
}

static bool closes(OpKind op)
{
	return op == OP_EndFor || op == OP_EndWhen || op == OP_Else;
}

Blocks blocks_of(const Graph *g, Arena *a)
{
	Blocks b = {.of = NEW_ARRAY(a, g->nnodes + 1, int),
		    .opens = NEW_ARRAY(a, g->nnodes + 1, int),
		    .closes = NEW_ARRAY(a, g->nnodes + 1, int)};
	int now = 0;

	vec_push(a, &b.at, ((Block){NULL, NULL, 0}));
	for (Node *n = g->first; n; n = n->next) {
		if (closes(n->op)) {
			b.at.at[now].close = n;
			b.closes[n->id] = now;
			now = b.at.at[now].outer;
		}
		b.of[n->id] = now;
		if (opens(n->op)) {
			vec_push(a, &b.at, ((Block){n, NULL, now}));
			now = b.opens[n->id] = b.at.n - 1;
		}
	}
	return b;
}

bool block_within(const Blocks *b, int inner, int outer)
{
	while (inner && inner != outer)
		inner = b->at.at[inner].outer;
	return inner == outer;
}

int block_of_value(const Blocks *b, const Value *v)
{
	const Node *n = v->def;

	return !n ? 0 : n->op == OP_For ? b->opens[n->id] : b->of[n->id];
}

int block_of_operand(const Blocks *b, const Node *n, int k)
{
	int block;

	if (n->op != OP_EndFor && n->op != OP_EndWhen)
		return b->of[n->id];
	block = b->closes[n->id];
	return n->op == OP_EndWhen && k < n->nout ? b->closes[b->at.at[block].open->id] : block;
}

/* The bracket that belongs to N, after it if AFTER, else before it. Null: there is none. */
static Node *other_bracket(const Node *n, bool after)
{
	int depth = 1;
	Node *m = after ? n->next : n->prev;

	for (; m; m = after ? m->next : m->prev) {
		depth -= after ? closes(m->op) : opens(m->op);
		if (!depth)
			break;
		depth += after ? opens(m->op) : closes(m->op);
	}
	return m;
}

Node *block_close(const Node *n)
{
	return other_bracket(n, true);
}

Node *block_open(const Node *n)
{
	return other_bracket(n, false);
}

int loop_carried(const Node *close)
{
	return close->op == OP_EndFor ? (int)node_int(close, "carried", 0) : 0;
}

bool stack_is_reversed(const Node *close, int k)
{
	int n;
	const int64_t *reverse = node_ints(close, "reverse", &n);
	const int number = k - loop_carried(close);

	return number < n && reverse[number];
}

Dim *control_dim(const Node *n, const char *name)
{
	const Attr *a = node_attr(n, name);

	return a && a->kind == ATTR_TYPE && a->type->kind == TYPE_TENSOR && a->type->rank == 1
		       ? a->type->dims[0]
		       : NULL;
}

void control_set_dim(Node *n, const char *name, Dim *d)
{
	node_set_attr(n, (Attr){.name = name,
				.kind = ATTR_TYPE,
				.type = type_tensor(n->graph->ctx, DT_I64, 1, &d)});
}

/* ---- Checks ---- */

Node *loop_while_of(const Node *open)
{
	int depth = 0;

	for (Node *n = open->next; depth || n->op != OP_EndFor; n = n->next) {
		if (!depth && n->op == OP_While)
			return n;
		depth += (n->op == OP_For || n->op == OP_When) -
			 (n->op == OP_EndFor || n->op == OP_EndWhen);
	}
	return NULL;
}

Dim *loop_elements(Ctx *c, const Node *open, const Node *close)
{
	Dim *all = dim_const(c, 0);

	if (loop_while_of(open))
		return NULL;
	for (int i = 0; i < close->nout; i++)
		all = dim_add(c, all,
			      type_numel(c, i < open->nout ? open->out[i]->type
							   : node_in(close, i)->type));
	return all;
}

static const char *end_fault(const Node *open, const Node *n, Arena *a)
{
	const int64_t carried = node_int(n, "carried", 0);

	if (n->op == OP_EndFor && !control_dim(open, "trip") && !loop_while_of(open))
		return "the loop has no number of iterations, and no While ends it";
	if (n->op == OP_EndFor && (carried != open->nout || carried > n->nin || n->nin != n->nout))
		return arena_printf(
			a, "the loop carries %d values, and its end has %d operands and %d results",
			open->nout, n->nin, n->nout);
	if (n->op == OP_EndWhen && n->nin != 2 * n->nout)
		return arena_printf(a, "%d results of two sides have %d operands", n->nout, n->nin);
	return NULL;
}

/* Brackets leave out no operand and no result. */
static const char *gap_fault(const Node *n, Arena *a)
{
	for (int i = 0; i < n->nin; i++)
		if (!node_in(n, i))
			return arena_printf(a, "operand %d is missing", i);
	for (int i = 0; i < n->nout; i++)
		if (!n->out[i])
			return arena_printf(a, "result %d is missing", i);
	return NULL;
}

static const char *open_fault(const Node *n, Arena *a)
{
	if (n->op == OP_For && n->nin != n->nout)
		return arena_printf(a, "%d values begin the loop, and %d are carried", n->nin,
				    n->nout);
	if ((n->op == OP_When || n->op == OP_While) && !control_dim(n, "value"))
		return "has no size to depend on";
	return NULL;
}

/* Whether the bracket N may follow the last one that is open, which is OPEN. */
static bool fits(const Node *open, OpKind op)
{
	const OpKind with = open ? open->op : OP_NONE;

	return op == OP_EndWhen                                          ? with == OP_Else
	       : op == OP_Else                                           ? with == OP_When
	       : op == OP_Iteration || op == OP_While || op == OP_EndFor ? with == OP_For
									 : true;
}

/* Whether brackets match. */
static const char *match_fault(const Graph *g, Arena *a, const Node **at)
{
	VEC(const Node *) open = {0};
	const char *fault = NULL;

	for (const Node *n = g->first; n && !fault; n = n->next) {
		const Node *with = open.n ? open.at[open.n - 1] : NULL;

		if (!op_is_control(n->op))
			continue;
		*at = n;
		if (!fits(with, n->op))
			return "a bracket of control flow stands where it has no counterpart";
		fault = gap_fault(n, a);
		fault = fault ? fault : open_fault(n, a);
		if (closes(n->op)) {
			fault = fault ? fault : end_fault(with, n, a);
			open.n--;
		}
		if (opens(n->op))
			vec_push(a, &open, n);
	}
	if (!fault && open.n) {
		*at = open.at[open.n - 1];
		return "a bracket of control flow is not closed";
	}
	return fault;
}

/* Whether values are used only in their own block, or in a block inside of it. */
static const char *use_fault(const Graph *g, Arena *a, const Node **at)
{
	const Blocks b = blocks_of(g, a);

	for (const Node *n = g->first; n && b.at.n > 1; n = n->next)
		for (int k = 0; k < n->nin; k++) {
			*at = n;
			if (node_in(n, k) && !block_within(&b, block_of_operand(&b, n, k),
							   block_of_value(&b, node_in(n, k))))
				return arena_printf(
					a,
					"operand %d is computed in a block that may not have run",
					k);
		}
	*at = NULL;
	for (int i = 0; i < g->results.n; i++)
		if (block_of_value(&b, g->results.at[i]->value))
			return arena_printf(
				a, "result %d is computed in a block that may not have run", i);
	return NULL;
}

const char *blocks_fault(const Graph *g, Arena *a, const Node **at)
{
	const char *fault;

	*at = NULL;
	fault = match_fault(g, a, at);
	return fault ? fault : use_fault(g, a, at);
}
