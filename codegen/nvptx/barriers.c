/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes unnecessary barriers, bar.sync and bar.warp.sync, from the text of a function in LLVM's
 * IR, before LLVM optimises it. ll_barrier (stage.c) emitted them. Every node of the loop tree whose threads share memory ends with a
 * barrier (stage.c), as the next node may read what it stored; here the whole function is known. A
 * barrier is needed if on some path through it, up to the next barriers on either side, there is an
 * access before it and an access after it to the same buffer, of which one is a store. It is not
 * needed if each thread only accesses elements of its own. Barriers are tested one by one, so that
 * one of two adjacent ones stays.
 *
 * The buffer of an address is known, or else it may be any buffer; so it is for atomics, fences and
 * inline assembly.
 */
#include "codegen/nvptx/kernel.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* How memory is accessed: by any thread; shifted by OWN, each thread accesses its own elements. */
enum { READ = 1, WRITE = 2, OWN = 2, ALL = READ | WRITE };

typedef enum Level { LEVEL_NONE, LEVEL_WARP, LEVEL_BLOCK } Level;

/* A line of interest: a label, a branch, a barrier, or one with accesses. */
typedef struct Step {
	const char *line;
	Level level;
	bool ends;    /* control does not continue at the next line */
	int first, n; /* its accesses */
	int edge[2];  /* the first edge to a successor, and the first to a predecessor; -1: none */
} Step;

typedef struct Edge {
	int step, next; /* its target; the next edge of the same step */
} Edge;

typedef struct MemAccess {
	int root;
	unsigned how;
} MemAccess;

enum { ROOT_ANY = 0 };

/* The buffer that a value of the function points into, and whether to an element of the thread's
 * own. */
typedef struct Pointer {
	int root;
	bool own;
} Pointer;

typedef struct Sync {
	const LlKernel *k;
	Arena *arena;
	VEC(Step) steps;
	VEC(Edge) edges;
	VEC(MemAccess) accesses;
	VEC(const char *) roots; /* names of buffers; the first stands for any buffer */
	VEC(int) async;          /* buffers that asynchronous copies in flight write */
	Pointer *value;          /* pointers, by number of the value */
	int *label;              /* the label's step, by number */
	/* state of a walk: the number of the last walk that visited a step; the steps to continue
	 * from; how buffers are accessed, [0] after and [1] before the step where it began */
	int *seen, walks, *todo;
	unsigned *how[2];
} Sync;

/* ---- The lines ---- */

static size_t name_length(const char *s)
{
	size_t n = 1;

	while (isalnum((unsigned char)s[n]) || s[n] == '.' || s[n] == '_' || s[n] == '$')
		n++;
	return n;
}

static bool is_name(const char *s, const char *name)
{
	return strlen(name) == name_length(s) && !memcmp(s, name, name_length(s));
}

/* Finds WHAT in the line; null if it is not there. */
static const char *find(const char *line, const char *what)
{
	return memmem(line, strcspn(line, "\n"), what, strlen(what));
}

static bool contains(const char *line, const char *what)
{
	return find(line, what) != NULL;
}

/* The number of value "%t12" (ll_new); -1: another name. */
static int value_number(const char *s)
{
	return s[0] == '%' && s[1] == 't' && isdigit((unsigned char)s[2]) ? atoi(s + 2) : -1;
}

/* The number of label "body3" (ll_label); 0: the entry, which nothing leads to. */
static int label_number(const char *s)
{
	return atoi(s + strcspn(s, "0123456789:,\n"));
}

static int root_named(Sync *s, const char *name)
{
	for (int i = 1; i < s->roots.n; i++)
		if (is_name(name, s->roots.at[i]))
			return i;
	vec_push(s->arena, &s->roots, arena_strndup(s->arena, name, name_length(name)));
	return s->roots.n - 1;
}

/* The buffer that the first name in TEXT points into. */
static Pointer pointer_at(Sync *s, const char *text)
{
	const char *name = text + strcspn(text, "%@\n");
	const int i = value_number(name);

	if (i >= 0)
		return s->value[i];
	return (Pointer){*name == '\n' ? ROOT_ANY : root_named(s, name), false};
}

/* The pointer of "TYPE, ptr addrspace(3) BASE, i64 INDEX". It is the thread's own if BASE is a
 * variable and INDEX differs between all threads. */
static Pointer element_at(Sync *s, const char *text)
{
	const char *base = text + strcspn(text, "@\n"), *index = base + strcspn(base, "%\n");
	Pointer p = pointer_at(s, text);

	if (*base == '\n' || *index == '\n' || contains(base, "_scratch"))
		return p;
	for (int i = 0; i < s->k->own.n; i++)
		p.own = p.own || is_name(index, s->k->own.at[i]);
	return p;
}

static void add_access(Sync *s, int root, unsigned how)
{
	vec_push(s->arena, &s->accesses, ((MemAccess){root, how}));
	vec_last(&s->steps).n++;
}

/* Adds an access for each pointer in TEXT to shared or global memory: FIRST for the first, HOW for
 * the others. */
static void add_accesses(Sync *s, const char *text, unsigned first, unsigned how)
{
	static const char shared[] = "ptr addrspace(";

	for (; (text = find(text, shared)); first = how) {
		Pointer p;

		text += sizeof shared - 1;
		p = pointer_at(s, text);
		add_access(s, p.root, p.own ? first << OWN : first);
	}
}

static void add_copy(Sync *s, const char *text)
{
	if (contains(text, ".wait")) {
		for (int i = 0; i < s->async.n; i++)
			add_access(s, s->async.at[i], WRITE);
	} else if (contains(text, "addrspace(3)")) {
		vec_push(s->arena, &s->async, pointer_at(s, find(text, "addrspace(3)")).root);
		add_accesses(s, text, WRITE, READ);
	}
}

/* Records an instruction: the buffer its result points into, and its accesses. */
static void add_instruction(Sync *s, const char *line)
{
	const char *is = find(line, " = "), *text = is ? is + 3 : line;
	const int made = is ? value_number(line) : -1;

	if (made >= 0 && str_starts(text, "getelementptr"))
		s->value[made] = element_at(s, text);
	else if (made >= 0 && (str_starts(text, "ptrtoint") || str_starts(text, "inttoptr") ||
			       str_starts(text, "xor")))
		s->value[made] = (Pointer){pointer_at(s, text).root, false};
	else if (contains(text, "barrier0()"))
		vec_last(&s->steps).level = LEVEL_BLOCK;
	else if (contains(text, "@llvm.nvvm.bar.warp.sync("))
		vec_last(&s->steps).level = LEVEL_WARP;
	else if (contains(text, "@llvm.nvvm.cp.async."))
		add_copy(s, text);
	else if (str_starts(text, "load ") || contains(text, "ldmatrix") ||
		 contains(text, "@load_packed("))
		add_accesses(s, text, READ, READ);
	else if (str_starts(text, "store "))
		add_accesses(s, text, WRITE, WRITE);
	else if (str_starts(text, "atomicrmw") || str_starts(text, "cmpxchg") ||
		 str_starts(text, "fence") || contains(text, " asm "))
		add_access(s, ROOT_ANY, ALL);
	else
		add_accesses(s, text, ALL, ALL);
}

static void add_line(Sync *s, const char *line)
{
	const size_t n = strcspn(line, "\n");
	const Step *st;

	vec_push(s->arena, &s->steps,
		 ((Step){.line = line, .first = s->accesses.n, .edge = {-1, -1}}));
	line += strspn(line, " ");
	if (n && line[strcspn(line, ":\n")] == ':' && !contains(line, " ")) {
		s->label[label_number(line)] = s->steps.n - 1;
		return;
	}
	vec_last(&s->steps).ends = str_starts(line, "br ") || str_starts(line, "ret ");
	add_instruction(s, line);
	st = &vec_last(&s->steps);
	if (!st->ends && !st->level && !st->n)
		s->steps.n--;
}

/* ---- The ways ---- */

static void add_edge(Sync *s, int from, int to)
{
	for (int back = 0; back < 2; back++) {
		Step *st = &s->steps.at[back ? to : from];

		vec_push(s->arena, &s->edges, ((Edge){back ? from : to, st->edge[back]}));
		st->edge[back] = s->edges.n - 1;
	}
}

static void add_edges(Sync *s)
{
	for (int i = 0; i < s->steps.n; i++) {
		const char *line = s->steps.at[i].line;

		if (!s->steps.at[i].ends && i + 1 < s->steps.n)
			add_edge(s, i, i + 1);
		while (s->steps.at[i].ends && (line = find(line, "label %")))
			add_edge(s, i, s->label[label_number(line += strlen("label %"))]);
	}
}

static void make_room_for_walks(Sync *s)
{
	s->seen = NEW_ARRAY(s->arena, s->steps.n, int);
	s->todo = NEW_ARRAY(s->arena, s->steps.n + 1, int);
	for (int back = 0; back < 2; back++)
		s->how[back] = NEW_ARRAY(s->arena, s->roots.n, unsigned);
}

/* How each buffer is accessed after step AT (BACK: before it), up to the next barriers of its
 * level. */
static const unsigned *around(Sync *s, int at, bool back)
{
	unsigned *how = s->how[back];
	int n = 0;

	memset(how, 0, (size_t)s->roots.n * sizeof *how);
	s->walks++;
	s->todo[n++] = at;
	while (n) {
		const Step *from = &s->steps.at[s->todo[--n]];

		for (int e = from->edge[back]; e >= 0; e = s->edges.at[e].next) {
			const int to = s->edges.at[e].step;
			const Step *st = &s->steps.at[to];

			if (s->seen[to] == s->walks || st->level >= s->steps.at[at].level)
				continue;
			s->seen[to] = s->walks;
			for (int i = 0; i < st->n; i++)
				how[s->accesses.at[st->first + i].root] |=
					s->accesses.at[st->first + i].how;
			s->todo[n++] = to;
		}
	}
	return how;
}

/* Accesses A and B of a buffer by different threads may be to one element, and one of them is a
 * store. */
static bool conflict(unsigned a, unsigned b)
{
	const unsigned all_a = (a | a >> OWN) & ALL, all_b = (b | b >> OWN) & ALL;

	return ((a & WRITE) && all_b) || (all_a && (b & WRITE)) ||
	       ((all_a & WRITE) && (b & READ)) || ((a & READ) && (all_b & WRITE));
}

static bool is_needed(Sync *s, int at)
{
	const unsigned *before = around(s, at, true), *after = around(s, at, false);

	for (int i = 0; i < s->roots.n; i++)
		if (conflict(before[i], after[i]) || conflict(before[ROOT_ANY], after[i]) ||
		    conflict(before[i], after[ROOT_ANY]))
			return true;
	return false;
}

const char *ll_needed_barriers(const LlKernel *k, const char *code)
{
	Arena *a = arena_new();
	Sync s = {.k = k,
		  .arena = a,
		  .value = NEW_ARRAY(a, k->f.temp + 1, Pointer),
		  .label = NEW_ARRAY(a, k->f.labels + 1, int)};
	StrBuf b = {0};
	const char *text;

	vec_push(a, &s.roots, "");
	for (const char *line = code; *line; line += strcspn(line, "\n") + 1)
		add_line(&s, line);
	add_edges(&s);
	make_room_for_walks(&s);
	for (int i = 0; i < s.steps.n; i++) {
		Step *st = &s.steps.at[i];

		if (!st->level || is_needed(&s, i))
			continue;
		st->level = LEVEL_NONE;
		strbuf_put(&b, code, (size_t)(st->line - code));
		code = st->line + strcspn(st->line, "\n") + 1;
	}
	strbuf_puts(&b, code);
	text = arena_strdup(k->f.arena, strbuf_str(&b));
	strbuf_free(&b);
	arena_free(a);
	return text;
}
