/* SPDX-License-Identifier: Apache-2.0 */
/* How exactly operators determine their results: the freedom of other implementations beyond the
 * rounding of floats. */
#include "ops/op.h"

/* More operators than any model has in a row whose accuracy depends on an operand's. */
enum { MOST_DEPTH = 64 };

static bool is_within(const Node *n)
{
	return op_table[n->op]->within || (op_row[n->op].flags & OPF_VIEW);
}

/* value_within; *MOVED: an element may have another index. */
static const Value *follow(const Value *v, bool *moved)
{
	*moved = false;
	while (v->def && is_within(v->def) && v == node_out(v->def, 0) && node_in(v->def, 0)) {
		*moved = *moved || v->def->op != OP_Identity;
		v = node_in(v->def, 0);
	}
	return v;
}

const Value *value_within(const Value *v)
{
	bool moved;

	return follow(v, &moved);
}

Accuracy value_accuracy(const Value *v, int depth)
{
	bool moved;
	const Value *from = follow(v, &moved);
	const Node *n = from->def;
	Accuracy a = {0};

	if (!n || depth > MOST_DEPTH)
		return a;
	if (op_table[n->op]->accuracy)
		for (int o = 0; o < n->nout; o++)
			if (node_out(n, o) == from)
				op_table[n->op]->accuracy(n, o, depth + 1, &a);
	if (op_table[n->op]->unit != 0)
		a.unit = op_table[n->op]->unit;
	if (moved)
		a.unordered = NULL;
	return a;
}
