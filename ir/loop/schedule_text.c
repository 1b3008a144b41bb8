/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints and reads schedules. Their stages are in ir/loop/loop_text.c.
 *
 *     schedules = "schedules for" target {schedule}
 *     schedule  = "schedule @" name [guard] [kernel] {"temp" declaration} stage {stage}
 *
 * The schedules are those of the graph's kernels, in order. A kernel has several, its variants, of
 * which all but the last have a guard. A kernel is given if it replaces the node's. `temp` names a
 * temporary that is in memory between stages, and declares it if the kernel has none of this name.
 */
#include "ir/loop/loop_impl.h"

#include <ctype.h>

/* ---- Questions ---- */

Buf *schedule_temp(const Schedule *s, int i)
{
	for (; s; i -= s->temps.n, s = s->next)
		if (i < s->temps.n)
			return s->temps.at[i];
	return NULL;
}

bool schedule_guarded(const Schedule *s)
{
	return s->where.size || s->where.shared || s->where.nof;
}

Dim **schedule_multiples(Ctx *c, Arena *a, const SizeStep *x, int *n)
{
	Dim **to = NEW_ARRAY(a, sym_count(c) + 1, Dim *), *each = dim_const(c, x->each);

	*n = sym_count(c);
	for (int i = 0; i < x->nof; i++) {
		Sym *of = dim_as_sym(x->of[i]);
		const int old = sym_count(c);
		Dim *vectors = dim_symbol(c, dim_floordiv(c, of->dim, each), of->name);

		if (sym_count(c) > old)
			dim_as_sym(vectors)->inlined = true;
		to[of->id] = dim_mul(c, each, vectors);
	}
	return to;
}

/* ---- Printing ---- */

void schedule_print_guard(StrBuf *b, const Schedule *s)
{
	LoopText t = {.out = b, .ctx = s->kernel->ctx};
	SizeStep x = s->where;

	lt_guard(&t, &x);
}

static void put_stages(StrBuf *b, const Schedule *s, bool bare)
{
	LoopText t = {.out = b, .bare = bare, .arena = s->kernel->arena};

	for (int i = 0; i < s->stages.n; i++) {
		strbuf_puts(b, "  ");
		lt_stage(&t, s->stages.at[i]);
	}
}

void schedule_print_bare(StrBuf *b, const Schedule *s)
{
	put_stages(b, s, true);
}

static void put_loc(StrBuf *b, Loc l)
{
	strbuf_puts(b, "  ; ");
	strbuf_escape(b, l.node ? l.node : "?", escape_plain);
	strbuf_puts(b, " (");
	strbuf_escape(b, l.op ? l.op : "?", escape_plain);
	strbuf_puts(b, ")\n");
}

static void put_locs(StrBuf *b, const Kernel *k)
{
	ARENA_LOCAL(tmp);
	const LocList all = locs_all(tmp, k->locs);

	for (int i = 0; i < all.n; i++)
		put_loc(b, all.at[i]);
}

/* The kernel K, indented. */
static void put_split(StrBuf *b, const Kernel *k)
{
	STRBUF_LOCAL(text);

	kernel_print(&text, k);
	for (const char *p = strbuf_str(&text); *p; p++) {
		if (p == text.at || p[-1] == '\n')
			strbuf_puts(b, "  ");
		strbuf_put(b, p, 1);
	}
}

void schedule_print(StrBuf *b, const Schedule *s)
{
	for (; s; s = s->next) {
		const Kernel *k = s->kernel;

		strbuf_printf(b, "schedule @%s%s", k->name, schedule_guarded(s) ? " " : "");
		schedule_print_guard(b, s);
		strbuf_puts(b, "\n");
		put_locs(b, k);
		if (s->split)
			put_split(b, s->split);
		for (int i = 0; i < s->temps.n; i++) {
			strbuf_puts(b, "  temp ");
			kernel_print_temp(b, k, s->temps.at[i]);
			strbuf_puts(b, "\n");
		}
		put_stages(b, s, false);
	}
}

/* ---- Reading ---- */

/* Whether a line of the schedule, which is indented, begins with WORD. */
static bool part_ahead(LoopText *t, const char *word)
{
	const char *at;
	bool element;

	if (t->failed)
		return false;
	lt_next_line(t);
	return t->p > t->line_start && lt_ahead(t, &at, &element) == strlen(word) && !element &&
	       str_starts(at, word);
}

/* After other functions have read from FROM on: goes back to the end of what they read, and sets
 * where its line begins. */
static void find_line_start(LoopText *t, const char *from)
{
	for (; t->p > from && isspace((unsigned char)t->p[-1]); t->p--)
		*t->line -= t->p[-1] == '\n';
	for (t->line_start = t->p; t->line_start > from && t->line_start[-1] != '\n';)
		t->line_start--;
}

/* A buffer of S->split that does not have the type of the node's operand or result; null: there is
 * none. */
static const Buf *other_param(Ctx *c, const Schedule *s, const Kernel *of)
{
	int n;
	Dim *const *to = schedule_multiples(c, s->split->arena, &s->where, &n);

	for (int i = 0; i < s->split->bufs.n; i++) {
		const Buf *b = s->split->bufs.at[i],
			  *x = b->kind == BUF_TEMP ? b : kernel_param(of, b->kind, b->param);
		bool same = x && b->dtype == x->dtype && b->rank == x->rank &&
			    b->layout == x->layout;

		for (int d = 0; same && d < b->rank; d++)
			same = b->dims[d] == x->dims[d] ||
			       b->dims[d] == dim_subst(c, x->dims[d], to, n);
		if (!same)
			return b;
	}
	return NULL;
}

/* Reads the kernel that replaces the node's, OF, whose statements the schedule has. */
static void read_split(LoopText *t, Schedule *s, const Kernel *of)
{
	const char *from = t->line_start, *begin = t->p;
	const int line = *t->line;
	const Buf *b;

	s->split = kernel_parse(t->ctx, t->arena, &t->p, t->line);
	t->failed = t->failed || !s->split || !kernel_verify(s->split, t->ctx->diag, NULL);
	if (t->failed)
		return;
	if ((b = other_param(t->ctx, s, of))) {
		t->p = begin;
		*t->line = line;
		lt_fault(
			t,
			"%s does not have the type of the operand or result that it has in kernel @%s",
			b->name, of->name);
		return;
	}
	find_line_start(t, from);
	lt_end(t);
	t->k = s->kernel = kernel_clone(s->split, t->arena);
}

static bool same_type(const Buf *a, const Buf *b)
{
	if (a->dtype != b->dtype || a->rank != b->rank || a->layout != b->layout)
		return false;
	for (int i = 0; i < a->rank; i++)
		if (a->dims[i] != b->dims[i])
			return false;
	return true;
}

static void read_temp(LoopText *t, Schedule *s)
{
	const int n = t->k->bufs.n;
	const char *from = t->line_start, *name;
	Buf *b, *old = NULL;

	lt_put(t, "temp ");
	name = t->p;
	lt_word(t, &name);
	for (int i = 0; i < n && !t->failed; i++)
		if (!strcmp(t->k->bufs.at[i]->name, name))
			old = t->k->bufs.at[i];
	lt_put(t, ": ");
	if (t->failed)
		return;
	if (!(b = kernel_parse_temp(t->k, old ? "" : name, &t->p, t->line))) {
		t->failed = true;
		return;
	}
	find_line_start(t, from);
	if (old) {
		t->k->bufs.n = n;
		if (old->kind != BUF_TEMP || old->data || !same_type(old, b))
			lt_fault(t, "the kernel has no temporary %s of this type", name);
	}
	vec_push(t->arena, &s->temps, old ? old : b);
	lt_end(t);
}

/* Declares the names that a schedule has in scope before its first stage. */
static void open_scope(LoopText *t)
{
	t->bufs.n = t->iters.n = t->known.n = 0;
	t->group = NULL;
	t->kept.n = 0;
	t->nglobal = t->k->bufs.n;
	t->niters = t->k->iters.n;
	for (int i = 0; i < t->k->bufs.n; i++)
		vec_push(t->arena, &t->bufs, t->k->bufs.at[i]);
	for (int i = 0; i < t->k->iters.n; i++)
		vec_push(t->arena, &t->known, t->k->iters.at[i]);
}

static void read_stages(LoopText *t, Schedule *s)
{
	int first = 0;

	open_scope(t);
	while (part_ahead(t, "stage")) {
		const int at = s->stages.n;
		Stage *st = NEW(t->arena, Stage);

		vec_push(t->arena, &s->stages, st);
		lt_stage(t, st);
		first = st->block.beside ? first : at;
		if (!t->failed && st->block.beside && (!at || !stages_beside(s, first, at)))
			lt_fault(t, "stage %s cannot be in the launch before it", st->name);
	}
	if (!t->failed && !s->stages.n)
		lt_expected(t, "a stage");
}

/* Reads a schedule of the kernel OF. */
static Schedule *read_schedule(LoopText *t, Kernel *of)
{
	Schedule *s = NEW(t->arena, Schedule);
	const char *name = NULL;

	s->stated = true;
	t->k = s->kernel = kernel_clone(of, t->arena);
	lt_next_line(t);
	lt_put(t, "schedule @");
	lt_word(t, &name);
	if (!t->failed && !str_starts(name, of->name))
		lt_fault(t, "expected a schedule of kernel @%s, the next one of the graph",
			 of->name);
	lt_guard(t, &s->where);
	lt_end(t);
	if (part_ahead(t, "kernel"))
		read_split(t, s, of);
	s->kernel->name = name;
	while (part_ahead(t, "temp"))
		read_temp(t, s);
	read_stages(t, s);
	if (!t->failed)
		schedule_settle(s, s->split ? s->split : of);
	return s;
}

/* Reads the schedules of OF: its variants, and the last one, which has no guard. */
static Schedule *read_variants(LoopText *t, Kernel *of)
{
	Schedule *first = read_schedule(t, of), *last = first;

	while (!t->failed && schedule_guarded(last))
		last = last->next = read_schedule(t, of);
	return first;
}

static const char *read_target(LoopText *t)
{
	const char *from;

	lt_put(t, "schedules for ");
	lt_next_line(t);
	from = t->p;
	while (*t->p && !isspace((unsigned char)*t->p))
		t->p++;
	if (t->p == from)
		lt_expected(t, "a target");
	return intern_n(t->ctx->names, from, (size_t)(t->p - from));
}

Schedule *schedule_parse_bare(Kernel *k, const char *text)
{
	int line = 1;
	LoopText t = {.bare = true,
		      .k = k,
		      .ctx = k->ctx,
		      .arena = k->arena,
		      .p = text,
		      .line_start = text,
		      .line = &line,
		      .nsyms = sym_count(k->ctx)};
	Schedule *s = NEW(k->arena, Schedule);

	s->kernel = k;
	read_stages(&t, s);
	if (!t.failed && *t.p)
		lt_expected(&t, "a stage");
	return t.failed ? NULL : s;
}

bool schedules_parse(Ctx *c, Arena *a, const char *file, Kernel *const *of, int n, const char **p,
		     int *line, const char **target, Schedule **to)
{
	LoopText t = {.ctx = c,
		      .arena = a,
		      .file = file,
		      .p = *p,
		      .line_start = *p,
		      .line = line,
		      .nsyms = sym_count(c)};

	*target = read_target(&t);
	lt_end(&t);
	for (int i = 0; i < n && !t.failed; i++)
		to[i] = read_variants(&t, of[i]);
	if (!t.failed)
		lt_next_line(&t);
	if (!t.failed && str_starts(t.p, "schedule "))
		lt_fault(&t, "the graph has no further kernel");
	*p = t.p;
	return !t.failed;
}
