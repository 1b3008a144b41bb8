/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of decisions, for `dlcc --schedule=FILE` and `--dump-ir=decide`. A line is
 *
 *	KEY TARGET: DECISION  ; names
 *	conv_relu_3f2a91c0 x86-64-v3: product tile 6x16 ...  ; "/layer1/conv2"
 *
 * for all kernels of that key on that CPU. The key ends with eight digits, a hash of the kernel's
 * structure: what it computes, its sizes, types and layouts, and the names of its iterators, but no
 * name from the model. So equal kernels share a line, whichever models they are of. What precedes
 * the digits names operators, for readers only. Text after ; is a comment.
 */
#include "passes/kernel/kernels.h"
#include "passes/schedule/common/decision.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 8, MOST_OPS = 2, MOST_OP = 24, MOST_NAMES = 4 };

/* ---- Keys ---- */

/* A hash of what K computes. Decisions name its iterators, so their names count. */
static uint64_t kernel_hash(const Kernel *k)
{
	StrBuf b = {0};
	uint64_t h;

	kernel_print_bare(&b, k);
	for (int i = 0; i < k->iters.n; i++)
		strbuf_printf(&b, "%s ", k->iters.at[i]->name);
	h = hash_bytes(HASH_SEED, strbuf_str(&b), b.n);
	strbuf_free(&b);
	return h;
}

static uint32_t digits_of(uint64_t hash)
{
	return (uint32_t)(hash ^ hash >> 32);
}

/* The operators of K, in small letters, with underscores between them. */
static void print_ops(StrBuf *b, const Kernel *k)
{
	Arena *tmp = arena_new();
	const LocList all = locs_all(tmp, k->locs);
	int n = 0;

	for (int i = 0; i < all.n && n < MOST_OPS; i++) {
		const char *op = all.at[i].op ? str_word(tmp, all.at[i].op, MOST_OP) : "";

		for (; *op; op++)
			strbuf_printf(b, "%c", tolower((unsigned char)*op));
		n += all.at[i].op != NULL;
		strbuf_puts(b, all.at[i].op ? "_" : "");
	}
	strbuf_puts(b, n ? "" : "kernel_");
	arena_free(tmp);
}

/* ---- Printing ---- */

/* The hashes of the kernels of M that have decisions, by Node.id; 0: the node has none. */
static uint64_t *hash_all(Module *m, Arena *a)
{
	uint64_t *hash = NEW_ARRAY(a, m->ndecisions + 1, uint64_t);

	for (Node *n = m->graph->first; n; n = n->next)
		if (node_kernel(n) && n->id < m->ndecisions)
			hash[n->id] = kernel_hash(node_kernel(n)) | 1;
	return hash;
}

static bool serves(const Kernel *k, const char *node)
{
	Arena *tmp = arena_new();
	const LocList all = locs_all(tmp, k->locs);
	bool yes = !node;

	for (int i = 0; i < all.n && !yes; i++)
		yes = all.at[i].node && !strcmp(all.at[i].node, node);
	arena_free(tmp);
	return yes;
}

/* The names of the kernels with N's hash, from N on. */
static void print_names(StrBuf *b, const Module *m, Node *n, const uint64_t *hash)
{
	const uint64_t h = hash[n->id];
	int names = 0;

	for (; n; n = n->next) {
		const char *name = n->id < m->ndecisions && hash[n->id] == h
					   ? locs_first(node_kernel(n)->locs).node
					   : NULL;

		if (!name)
			continue;
		if (names++ < MOST_NAMES) {
			strbuf_puts(b, names > 1 ? ", " : "  ; ");
			strbuf_quote(b, name);
		}
	}
	if (names > MOST_NAMES)
		strbuf_printf(b, " and %d more", names - MOST_NAMES);
}

static void print_line(StrBuf *b, const Module *m, int t, Node *n, const uint64_t *hash)
{
	Arena *tmp = arena_new();

	print_ops(b, node_kernel(n));
	strbuf_printf(b, "%0*x %s: ", DIGITS, digits_of(hash[n->id]), m->target[t]->name);
	decision_print(b, kernel_clone(node_kernel(n), tmp), m->decision[t][n->id]);
	print_names(b, m, n, hash);
	strbuf_puts(b, "\n");
	arena_free(tmp);
}

void decisions_print(StrBuf *b, Module *m, const char *node)
{
	Arena *a = arena_new();
	const uint64_t *hash = hash_all(m, a);

	for (int t = 0; t < m->ntargets && !module_on_gpu(m); t++) {
		VEC(uint64_t) seen = {0};

		for (Node *n = m->graph->first; n; n = n->next) {
			bool first = hash[n->id] && module_schedules(m, n) &&
				     serves(node_kernel(n), node);

			for (int i = 0; i < seen.n && first; i++)
				first = seen.at[i] != hash[n->id];
			if (!first)
				continue;
			vec_push(a, &seen, hash[n->id]);
			print_line(b, m, t, n, hash);
		}
	}
	arena_free(a);
}

/* ---- Reading ---- */

typedef struct FileLine {
	DiagLoc loc;
	uint32_t digits;
	const Target *target; /* null: one that is not compiled for */
	char name[MOST_NAME]; /* of the target */
	const char *decision;
} FileLine;

/* The digits at the end of KEY. */
static bool read_key(const char *key, uint32_t *digits)
{
	const size_t n = strlen(key);
	char *end;

	if (n < DIGITS || strspn(key + n - DIGITS, "0123456789abcdef") != DIGITS)
		return false;
	*digits = (uint32_t)strtoul(key + n - DIGITS, &end, 16);
	return true;
}

/* Reads TEXT, a line without its comment. */
static bool read_line(Module *m, const char *text, FileLine *l)
{
	char key[4 * MOST_NAME];
	size_t n;

	text += strspn(text, " \t\r");
	n = strcspn(text, " \t\r:");
	snprintf(key, sizeof key, "%.*s", (int)(n < sizeof key ? n : 0), text);
	if (!read_key(key, &l->digits))
		return diag_error(
			m->ctx->diag, l->loc,
			"a line is \"KEY TARGET: DECISION\", as dlcc --dump-ir=decide prints it; this key does not end with %d hexadecimal digits",
			DIGITS);
	text += n;
	text += strspn(text, " \t\r");
	n = strcspn(text, " \t\r:");
	snprintf(l->name, sizeof l->name, "%.*s", (int)n, text);
	if (!n || text[n] != ':')
		return diag_error(m->ctx->diag, l->loc, "expected a CPU and \":\" after the key");
	l->decision = text + n + 1;
	for (int t = 0; t < m->ntargets; t++)
		if (!strcmp(m->target[t]->name, l->name))
			l->target = m->target[t];
	return true;
}

static bool same_text(Kernel *k, const Decision *x, const Decision *y)
{
	StrBuf a = {0}, b = {0};
	bool same;

	decision_print(&a, k, x);
	decision_print(&b, k, y);
	same = !strcmp(strbuf_str(&a), strbuf_str(&b));
	strbuf_free(&a);
	strbuf_free(&b);
	return same;
}

/* Decides N on target number T as L says. If it is the first kernel of L, its schedule has to be
 * proved. */
static bool decide_as(Module *m, int t, Node *n, const FileLine *l, bool first)
{
	Arena *tmp = arena_new();
	Kernel *k = kernel_clone(node_kernel(n), tmp);
	StrBuf why = {0};
	Decision *d = decision_parse(l->target, k, l->decision, &why);
	const bool ok = d || diag_error(m->ctx->diag, l->loc, "%s", strbuf_str(&why));

	if (d) {
		d->edited = first && !same_text(k, d, m->decision[t][n->id]);
		m->decision[t][n->id] = decision_copy(m->arena, d, k->stmts.n);
	}
	strbuf_free(&why);
	arena_free(tmp);
	return ok;
}

static bool apply_line(Module *m, const FileLine *l, const uint64_t *hash)
{
	bool any = false;
	uint64_t first = 0;

	for (int t = 0; t < m->ntargets; t++)
		for (Node *n = m->graph->first; n && m->target[t] == l->target; n = n->next) {
			if (n->id >= m->ndecisions || !hash[n->id] ||
			    digits_of(hash[n->id]) != l->digits)
				continue;
			if (!decide_as(m, t, n, l, first != hash[n->id]))
				return false;
			first = hash[n->id];
			any = true;
		}
	return any || diag_warning(m->ctx->diag, l->loc, "schedule",
				   "no kernel has this key, so the line has no effect");
}

typedef VEC(FileLine) FileLines;

/* Whether an earlier line decides what L does. */
static bool is_decided(const FileLines *lines, const FileLine *l)
{
	for (int i = 0; i < lines->n; i++)
		if (lines->at[i].target == l->target && lines->at[i].digits == l->digits)
			return true;
	return false;
}

bool schedule_file_apply(Module *m)
{
	Arena *a = arena_new();
	const uint64_t *hash = hash_all(m, a);
	const int errors = m->ctx->diag->errors;
	FileLines lines = {0};
	FileLine l = {.loc = {.file = m->opt.schedule_file}};

	for (const char *at = m->opt.schedule; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		const char *text = arena_strndup(a, at, strcspn(at, ";\n"));

		l.loc.line++;
		l.target = NULL;
		if (!text[strspn(text, " \t\r")] || !read_line(m, text, &l) || !l.target)
			continue;
		if (is_decided(&lines, &l)) {
			diag_error(m->ctx->diag, l.loc, "an earlier line decides this kernel");
			continue;
		}
		vec_push(a, &lines, l);
		apply_line(m, &l, hash);
	}
	arena_free(a);
	return m->ctx->diag->errors == errors;
}
