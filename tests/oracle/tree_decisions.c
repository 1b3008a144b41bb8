/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/oracle/tree_decisions.h"

#include "codegen/nvptx/nvptx.h"
#include "ir/eval/eval.h"
#include "ir/eval/eval_tiles.h"
#include "passes/schedule/common/loops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void decision_wrong(DecisionTest *x, const char *form, const char *decision, const char *what)
{
	x->failed++;
	printf("%s: %s:%s: %s\n", x->file, form, decision, what);
}

/* ---- Values ---- */

/* Null if S computes what its kernel ORIGINAL says with G, M and N; else what is wrong. */
static const char *compare(const DecisionTest *x, Ctx *c, Arena *a, Kernel *original,
			   const Schedule *s, const int64_t *want)
{
	static const char *const names[] = {"G", "M", "N"};
	int64_t *sym = NEW_ARRAY(a, sym_count(c) + 1, int64_t), n = 0;
	EvalBuf *bufs = NEW_ARRAY(a, original->bufs.n + 1, EvalBuf);
	void **memory = NEW_ARRAY(a, s->kernel->bufs.n + 1, void *), *got = NULL;
	uint64_t seed = 7;
	const char *fault;
	int y = 0;

	for (int i = 0; i < 3; i++)
		sym[sym_get(c, names[i])->id] = want[i];
	for (int i = original->bufs.n; i < s->kernel->bufs.n; i++) {
		const Buf *b = s->kernel->bufs.at[i]; /* partial results */

		if (b->kind != BUF_TEMP || b->tile || b->data)
			continue;
		dim_eval(buf_numel(c, b), sym, &n);
		memory[b->id] = memset(arena_alloc(a, (size_t)n * 4 + 16), 255, (size_t)n * 4);
	}
	for (int i = 0; i < original->bufs.n; i++) {
		const Buf *b = original->bufs.at[i];

		if (b->kind == BUF_TEMP)
			continue;
		dim_eval(buf_numel(c, b), sym, &n);
		bufs[i].data = arena_alloc(a, (size_t)n * 4 + 16);
		memory[i] = bufs[i].data;
		if (b->kind == BUF_IN)
			x->fill(b, bufs[i].data, n, &seed);
		else
			memory[y = i] = got = arena_alloc(a, (size_t)n * 4 + 16);
	}
	fault = tiles_run(s, &(TileRun){.sym = sym, .memory = memory});
	if (fault)
		return fault;
	if (eval_kernel(original, &(EvalOpts){.sym = sym}, bufs, NULL) != EVAL_OK)
		return "eval";
	dim_eval(buf_numel(c, original->bufs.at[y]), sym, &n);
	return memcmp(got, bufs[y].data, (size_t)n * 4) ? "another result than eval's" : NULL;
}

/* ---- Texts ---- */

Schedule *decision_tree(const DecisionTest *x, const Target *t, Kernel *k, const Decision *d,
			Arena *a)
{
	Schedule *s = NEW(a, Schedule);

	s->kernel = kernel_clone(k, a);
	x->emit(t, s->kernel, d, s);
	l_tidy(s);
	schedule_settle(s, k);
	return s;
}

/* A copy of K with the partial results of FROM. */
static Kernel *with_parts(Kernel *k, const Kernel *from, Arena *a)
{
	Kernel *copy = kernel_clone(k, a);

	for (int i = k->bufs.n; i < from->bufs.n; i++) {
		const Buf *b = from->bufs.at[i];

		if (b->kind == BUF_TEMP && !b->tile && !b->data)
			kernel_temp(copy, b->name, b->dtype, b->rank, b->dims);
	}
	return copy;
}

/* S, whose decision is TEXT, is read back as the same text. Returns what was read, which is run,
 * too. */
static Schedule *test_tree(DecisionTest *x, Ctx *c, Kernel *k, Schedule *s, const char *form,
			   const char *text, Arena *a)
{
	StrBuf tree = {0}, back = {0};
	Schedule *r;

	if (!tiles_verify(s, c->diag) || !tiles_check(c, s, c->diag))
		decision_wrong(x, form, text, "the verifier refuses the tree");
	schedule_print_bare(&tree, s);
	r = schedule_parse_bare(with_parts(k, s->kernel, a), strbuf_str(&tree));
	if (r && tiles_verify(r, c->diag)) {
		s = r;
		tree.n = 0;
		schedule_print_bare(&tree, s);
		r = schedule_parse_bare(with_parts(k, s->kernel, a), strbuf_str(&tree));
	}
	if (r)
		schedule_print_bare(&back, r);
	if (strcmp(strbuf_str(&tree), strbuf_str(&back)))
		decision_wrong(x, form, strbuf_str(&tree), strbuf_str(&back));
	strbuf_free(&tree);
	strbuf_free(&back);
	return s;
}

/* The stages of S become LLVM IR. */
static void emit_code(Ctx *c, const Target *t, const Schedule *s)
{
	Arena *a = arena_new();
	GenPtx *g = gen_nvptx_new(c, a, t, "");

	for (int i = 0; i < s->stages.n; i += stage_launch(s, i))
		gen_nvptx_stage(g, s, i);
	arena_free(a);
}

void decision_test(DecisionTest *x, Ctx *c, const Target *t, Kernel *k, const char *form,
		   const Decision *d, const int64_t (*sizes)[3], int nsizes)
{
	Arena *a = arena_new();
	StrBuf text = {0}, back = {0}, why = {0};
	const Decision *read;

	decision_print(&text, kernel_clone(k, a), d);
	read = decision_parse(t, kernel_clone(k, a), strbuf_str(&text), &why);
	if (!read) {
		decision_wrong(x, form, strbuf_str(&text), strbuf_str(&why));
	} else {
		Schedule *s = decision_tree(x, t, k, read, a);

		decision_print(&back, kernel_clone(k, a), read);
		if (strcmp(strbuf_str(&text), strbuf_str(&back)))
			decision_wrong(x, form, strbuf_str(&text), strbuf_str(&back));
		emit_code(c, t, s);
		s = test_tree(x, c, k, s, form, strbuf_str(&text), a);
		for (int i = 0; i < nsizes; i++) {
			const char *fault = compare(x, c, a, k, s, sizes[i]);

			if (fault)
				decision_wrong(x, form, strbuf_str(&text), fault);
		}
	}
	strbuf_free(&text);
	strbuf_free(&back);
	strbuf_free(&why);
	arena_free(a);
}

/* ---- Mutations ---- */

/* TREE with mutation M of its WHICH-th line of this kind, in *B; false: there is none. */
static bool mutate(const char *tree, const TreeMutation *m, int which, StrBuf *b)
{
	for (const char *at = tree; *at; at += strcspn(at, "\n") + 1) {
		const char *line = at + strspn(at, " "), *end = at + strcspn(at, "\n") + 1,
			   *next = end + strcspn(end, "\n") + 1;
		const int indent = (int)(line - at);

		if (!str_starts(line, m->line) || which--)
			continue;
		strbuf_put(b, tree, (size_t)(at - tree));
		if (!m->as) /* the two lines change places */
			strbuf_printf(b, "%.*s%.*s%s", (int)(next - end), end, (int)(end - at), at,
				      next);
		else if (!*m->as)
			strbuf_puts(b, end);
		else if (!strcmp(m->as, "+1"))
			strbuf_printf(b, "%*s%s %d\n%s", indent, "", m->line,
				      atoi(line + strlen(m->line)) + 1, end);
		else
			strbuf_printf(b, "%*s%s\n%s", indent, "", m->as, end);
		return true;
	}
	return false;
}

/* Whether the check reports TREE. */
static bool is_reported(DecisionTest *x, Ctx *c, Kernel *k, const char *tree)
{
	Arena *a = arena_new();
	Schedule *s = schedule_parse_bare(kernel_clone(k, a), tree);
	Diag quiet = {.out = NULL};
	const bool reported = s && !tiles_check(c, s, &quiet);

	if (!s)
		decision_wrong(x, "mutation", tree, "is not read");
	arena_free(a);
	return reported;
}

int decision_mutations(DecisionTest *x, Ctx *c, const Target *t, Kernel *k, const Decision *d,
		       const TreeMutation *m, int n)
{
	ARENA_LOCAL(a);
	STRBUF_LOCAL(tree);
	int tried = 0;

	schedule_print_bare(&tree, decision_tree(x, t, k, d, a));
	for (int i = 0; i < n; i++)
		for (int which = 0;; which++, tried++) {
			StrBuf b = {0};

			if (!mutate(strbuf_str(&tree), &m[i], which, &b))
				break;
			if (!is_reported(x, c, k, strbuf_str(&b)))
				decision_wrong(x, "mutation", m[i].line, strbuf_str(&b));
			strbuf_free(&b);
		}
	return tried;
}

/* ---- Illegal decisions ---- */

void decision_refused(DecisionTest *x, const Target *t, Kernel *k, const RefusedDecision *r, int n)
{
	for (int i = 0; i < n; i++) {
		Arena *a = arena_new();
		StrBuf why = {0};
		const Decision *d = decision_parse(t, kernel_clone(k, a), r[i].decision, &why);

		if (d || !strstr(strbuf_str(&why), r[i].why))
			decision_wrong(x, "refused", r[i].decision,
				       d ? "is accepted" : strbuf_str(&why));
		strbuf_free(&why);
		arena_free(a);
	}
}
