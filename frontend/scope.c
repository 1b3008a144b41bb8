/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/scope.h"

enum { CAP_MIN = 8 };

Scope *scope_new(Arena *a, Graph *g, Scope *parent)
{
	Scope *s = NEW(a, Scope);

	s->arena = a;
	s->graph = g;
	s->parent = parent;
	s->cap = CAP_MIN;
	s->slot = NEW_ARRAY(a, CAP_MIN, Binding *);
	return s;
}

/* The slot with NAME, or the free slot for it. */
static Binding **find(Binding **slot, int cap, const char *name)
{
	size_t mask = (size_t)cap - 1;
	size_t at = (size_t)hash_bytes(HASH_SEED, &name, sizeof name) & mask;

	while (slot[at] && slot[at]->name != name)
		at = (at + 1) & mask;
	return &slot[at];
}

Binding *scope_find(const Scope *s, const char *name)
{
	return *find(s->slot, s->cap, name);
}

static void grow(Scope *s)
{
	int cap = s->cap * 2;
	Binding **slot = NEW_ARRAY(s->arena, cap, Binding *);

	for (int i = 0; i < s->cap; i++)
		if (s->slot[i])
			*find(slot, cap, s->slot[i]->name) = s->slot[i];
	s->slot = slot;
	s->cap = cap;
}

Binding *scope_add(Scope *s, const char *name, BindKind kind)
{
	Binding **at = find(s->slot, s->cap, name), *b;

	if (*at)
		return NULL;
	if (s->n + 1 > s->cap / 2) {
		grow(s);
		at = find(s->slot, s->cap, name);
	}
	b = NEW(s->arena, Binding);
	b->name = name;
	b->kind = kind;
	s->n++;
	*at = b;
	return b;
}

Value *scope_capture(Scope *s, Value *outer, const char *name)
{
	vec_push(s->arena, &s->captures, outer);
	return graph_input(s->graph, name, outer->type);
}
