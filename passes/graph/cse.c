/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges common subexpressions: nodes of one operator with the same operands, attributes and result
 * types; small constants with the same elements; and constants that `layout` packs or transposes in
 * the same way. The earlier node is kept. A Concat whose first operands are those of an earlier one
 * takes its result instead of them: a dense block of a DenseNet, whose layer k concatenates all k
 * values before it, copies two values in each layer.
 */
#include "ir/graph/blocks.h"
#include "passes/graph/canon.h"
#include "passes/forms/kernels.h"

#include <string.h>

typedef struct NodeTable {
	Node **slot;
	size_t n; /* a power of two */
	Blocks blocks;
} NodeTable;

static uint64_t hash_kernel(const Kernel *k)
{
	STRBUF_LOCAL(b);

	kernel_print_bare(&b, k);
	return hash_bytes(HASH_SEED, strbuf_str(&b), b.n);
}

static uint64_t hash_attr(const Attr *a)
{
	uint64_t h = hash_bytes(HASH_SEED, a->name, strlen(a->name));

	switch (a->kind) {
	case ATTR_INT: return hash_bytes(h, &a->i, sizeof a->i);
	case ATTR_FLOAT: return hash_bytes(h, &a->f, sizeof a->f);
	case ATTR_STR: return hash_bytes(h, a->s, strlen(a->s));
	case ATTR_INTS: return hash_bytes(h, a->is, (size_t)a->n * sizeof *a->is);
	case ATTR_FLOATS: return hash_bytes(h, a->fs, (size_t)a->n * sizeof *a->fs);
	case ATTR_TYPE: return hash_bytes(h, &a->type, sizeof(a->type));
	case ATTR_TENSOR:
		return hash_bytes(h, a->t->data,
				  (size_t)(a->t->bytes <= FOLD_BYTES ? a->t->bytes : 0));
	case ATTR_KERNEL: return hash_kernel(a->kernel);
	default: return h;
	}
}

static bool same_tensor(const Tensor *a, const Tensor *b)
{
	if (a == b)
		return true;
	if (a->dtype != b->dtype || a->rank != b->rank || a->bytes != b->bytes)
		return false;
	if (a->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims))
		return false;
	return a->data == b->data || (a->bytes <= FOLD_BYTES &&
				      (!a->bytes || !memcmp(a->data, b->data, (size_t)a->bytes)));
}

static bool same_attr(const Attr *a, const Attr *b)
{
	if (!b || a->kind != b->kind || a->n != b->n)
		return false;
	switch (a->kind) {
	case ATTR_INT: return a->i == b->i;
	case ATTR_FLOAT: return !memcmp(&a->f, &b->f, sizeof a->f);
	case ATTR_STR: return !strcmp(a->s, b->s);
	case ATTR_INTS: return !a->n || !memcmp(a->is, b->is, (size_t)a->n * sizeof *a->is);
	case ATTR_FLOATS: return !a->n || !memcmp(a->fs, b->fs, (size_t)a->n * sizeof *a->fs);
	case ATTR_TYPE: return a->type == b->type;
	case ATTR_TENSOR: return same_tensor(a->t, b->t);
	case ATTR_KERNEL: return kernel_same(a->kernel, b->kernel);
	case ATTR_STRS: break;
	}
	return false;
}

static uint64_t hash_operand(uint64_t h, const Node *n, int i)
{
	int id = n->in[i].value ? n->in[i].value->id : -1;

	return hash_bytes(h, &id, sizeof id);
}

static uint64_t hash_attrs(uint64_t h, const Node *n)
{
	uint64_t attrs = 0;

	for (int i = 0; i < n->attrs.n; i++)
		attrs += hash_attr(&n->attrs.at[i]);
	return hash_bytes(h, &attrs, sizeof attrs);
}

static uint64_t hash_op(const Node *n)
{
	return hash_bytes(HASH_SEED, &n->op, sizeof n->op);
}

static uint64_t hash_node(const Node *n)
{
	uint64_t h = hash_op(n);

	for (int i = 0; i < n->nin; i++)
		h = hash_operand(h, n, i);
	return hash_attrs(h, n);
}

/* Whether A has the operator and attributes of B, and B's first operands. */
static bool same_begin(const Node *a, const Node *b)
{
	if (a->op != b->op || a->nin > b->nin || a->attrs.n != b->attrs.n)
		return false;
	for (int i = 0; i < a->nin; i++)
		if (a->in[i].value != b->in[i].value)
			return false;
	for (int i = 0; i < a->attrs.n; i++)
		if (!same_attr(&a->attrs.at[i], node_attr(b, a->attrs.at[i].name)))
			return false;
	return true;
}

static bool same_node(const Node *a, const Node *b)
{
	if (!same_begin(a, b) || a->nin != b->nin || a->nout != b->nout)
		return false;
	for (int i = 0; i < a->nout; i++)
		if (!a->out[i] != !b->out[i] || (a->out[i] && a->out[i]->type != b->out[i]->type))
			return false;
	return true;
}

/* Replaces N by KEEP, which computes the same values. */
static void merge(Node *keep, Node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i]) {
			if (!keep->out[i]->name)
				keep->out[i]->name = n->out[i]->name;
			value_move(n->out[i], keep->out[i]);
		}
	node_locs_from(keep, n);
	node_remove(n);
}

static NodeTable table_of(const Graph *g, Arena *tmp)
{
	NodeTable t = {.n = 64};
	size_t count = 0;

	for (const Node *n = g->first; n; n = n->next)
		count++;
	while (t.n < count * 2)
		t.n *= 2;
	t.slot = NEW_ARRAY(tmp, t.n, Node *);
	t.blocks = blocks_of(g, tmp);
	return t;
}

/* Whether KEEP's result is available where N would run. */
static bool runs_before(const NodeTable *t, const Node *keep, const Node *n)
{
	return block_within(&t->blocks, t->blocks.of[n->id], t->blocks.of[keep->id]);
}

/* The first node that computes the same values as N, and runs whenever N does; N itself if there is
 * none. */
static Node *first_of(NodeTable *t, Node *n)
{
	size_t at = hash_node(n) & (t->n - 1);

	while (t->slot[at] && !(runs_before(t, t->slot[at], n) && same_node(t->slot[at], n)))
		at = (at + 1) & (t->n - 1);
	if (!t->slot[at])
		t->slot[at] = n;
	return t->slot[at];
}

/* ---- Concat ---- */

/* N's first operands are those of BEGIN. */
typedef struct LongerConcat {
	Node *n;
	const Node *begin;
} LongerConcat;

/* The earlier node whose operands, two or more, are the most of N's first ones; null if there is
 * none. N is in T. */
static const Node *longest_begin(const NodeTable *t, const Node *n)
{
	const Node *best = NULL;
	uint64_t h = hash_operand(hash_op(n), n, 0);

	for (int i = 1; i < n->nin - 1; i++) {
		h = hash_operand(h, n, i);
		for (size_t at = hash_attrs(h, n) & (t->n - 1); t->slot[at]; at = (at + 1) & (t->n - 1))
			if (t->slot[at]->nin == i + 1 && same_begin(t->slot[at], n) &&
			    runs_before(t, t->slot[at], n))
				best = t->slot[at];
	}
	return best;
}

static void take_begin(Canon *c, const LongerConcat *l)
{
	Node *n = l->n;
	const int rest = n->nin - l->begin->nin;
	Value **in = NEW_ARRAY(c->tmp, rest + 1, Value *);

	in[0] = l->begin->out[0];
	for (int i = 0; i < rest; i++)
		in[i + 1] = node_in(n, l->begin->nin + i);
	canon_concat(c, n, in, rest + 1);
}

void cse_graph(Canon *c)
{
	NodeTable t = table_of(c->g, c->tmp);
	VEC(LongerConcat) longer = {0};

	for (Node *n = c->g->first, *next, *same; n && canon_may(c); n = next) {
		next = n->next;
		if (n->op == OP_Kernel || op_is_control(n->op))
			continue;
		same = first_of(&t, n);
		if (same == n) {
			const Node *begin = n->op == OP_Concat ? longest_begin(&t, n) : NULL;

			if (begin)
				vec_push(c->tmp, &longer, ((LongerConcat){n, begin}));
			continue;
		}
		merge(same, n);
		canon_count(c);
	}
	/* From the last to the first, as T has the nodes as they were. */
	while (longer.n && canon_may(c))
		take_begin(c, &longer.at[--longer.n]);
}

void cse_weights(Module *m)
{
	ARENA_LOCAL(tmp);
	NodeTable t = table_of(m->graph, tmp);

	for (Node *n = m->graph->first, *next, *same; n; n = next) {
		next = n->next;
		if (!node_kernel(n) || !value_is_weights(m, n->out[0]))
			continue;
		same = first_of(&t, n);
		if (same != n)
			merge(same, n);
	}
}
