/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of decisions, for `dlcc --schedule=FILE` and `--dump-ir=decide`. A line is
 *
 *	KEY TARGET: DECISION  ; names
 *	conv_relu_3f2a91c0 x86-64-v3: product tile 6x16 ...  ; "/layer1/conv2"
 *
 * for all kernels of that key on that CPU or GPU. The key ends with eight digits, a hash of the
 * kernel's structure: what it computes, its sizes, types and layouts, and the names of its
 * iterators, but no name from the model. So equal kernels share a line, whichever models they are
 * of. What precedes the digits names operators, for readers only. Text after ; is a comment.
 */
#include "passes/forms/kernels.h"
#include "passes/schedule/common/decision.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 8, MOST_OPS = 2, MOST_OP = 24, MOST_NAMES = 4 };

/* ---- Keys ---- */

/* A hash of what K computes. Decisions name its iterators, so their names count. */
static uint64_t kernel_hash(const Kernel *k)
{
	STRBUF_LOCAL(b);

	kernel_print_bare(&b, k);
	for (int i = 0; i < k->iters.n; i++)
		strbuf_printf(&b, "%s ", k->iters.at[i]->name);
	return hash_bytes(HASH_SEED, strbuf_str(&b), b.n);
}

static uint32_t digits_of(uint64_t hash)
{
	return (uint32_t)(hash ^ hash >> 32);
}

/* The operators of K, in small letters, with underscores between them. */
static void print_ops(StrBuf *b, const Kernel *k)
{
	ARENA_LOCAL(tmp);
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
}

/* ---- Printing ---- */

uint64_t *schedule_hashes(Module *m, Arena *a)
{
	uint64_t *hash = NEW_ARRAY(a, m->ndecisions + 1, uint64_t);

	for (Node *n = m->graph->first; n; n = n->next)
		if (node_kernel(n) && n->id < m->ndecisions)
			hash[n->id] = kernel_hash(node_kernel(n)) | 1;
	return hash;
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
			strbuf_puts(b, names > 1 ? ", " : " ");
			strbuf_quote(b, name);
		}
	}
	if (names > MOST_NAMES)
		strbuf_printf(b, " and %d more", names - MOST_NAMES);
}

void schedule_print_line(StrBuf *b, const Module *m, int t, Node *n, const uint64_t *hash,
			 const char *note)
{
	ARENA_LOCAL(tmp);
	STRBUF_LOCAL(names);

	print_ops(b, node_kernel(n));
	strbuf_printf(b, "%0*x %s: ", DIGITS, digits_of(hash[n->id]), m->target[t]->name);
	decision_print(b, kernel_clone(node_kernel(n), tmp), m->decision[t][n->id]);
	print_names(&names, m, n, hash);
	if (note || names.n)
		strbuf_printf(b, "  ;%s%s%s", note ? " " : "", note ? note : "",
			      note && names.n ? ":" : "");
	strbuf_printf(b, "%s\n", strbuf_str(&names));
}

void decisions_print(StrBuf *b, Module *m, const char *node)
{
	ARENA_LOCAL(a);
	const uint64_t *hash = schedule_hashes(m, a);

	for (int t = 0; t < m->ntargets; t++) {
		VEC(uint64_t) seen = {0};

		for (Node *n = m->graph->first; n; n = n->next) {
			bool first = hash[n->id] && m->decision[t][n->id] && module_schedules(m, n) &&
				     kernel_serves(node_kernel(n), node);

			for (int i = 0; i < seen.n && first; i++)
				first = seen.at[i] != hash[n->id];
			if (!first)
				continue;
			vec_push(a, &seen, hash[n->id]);
			schedule_print_line(b, m, t, n, hash, NULL);
		}
	}
}

/* ---- Reading ---- */

typedef struct FileLine {
	DiagLoc loc;
	uint32_t digits;
	char target[MOST_NAME];
	const char *decision;
} FileLine;

typedef VEC(FileLine) FileLines;

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
static bool read_line(Diag *d, const char *text, FileLine *l)
{
	char key[4 * MOST_NAME];
	size_t n;

	text += strspn(text, " \t\r");
	n = strcspn(text, " \t\r:");
	snprintf(key, sizeof key, "%.*s", (int)(n < sizeof key ? n : 0), text);
	if (!read_key(key, &l->digits))
		return diag_error(
			d, l->loc,
			"a line is \"KEY TARGET: DECISION\", as dlcc --dump-ir=decide prints it; this key does not end with %d hexadecimal digits",
			DIGITS);
	text += n;
	text += strspn(text, " \t\r");
	n = strcspn(text, " \t\r:");
	snprintf(l->target, sizeof l->target, "%.*s", (int)n, text);
	if (!n || text[n] != ':')
		return diag_error(d, l->loc, "expected a CPU or GPU and \":\" after the key");
	l->decision = text + n + 1;
	return true;
}

/* Reads all of TEXT, the file FILE. A line that is at fault is reported and left out. */
static FileLines read_lines(Arena *a, Diag *d, const char *text, const char *file)
{
	FileLines lines = {0};
	FileLine l = {.loc = {.file = file}};

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		const char *line = arena_strndup(a, text, strcspn(text, ";\n"));

		l.loc.line++;
		if (!text[strcspn(text, "\n")])
			diag_error(d, l.loc, "the file is cut off: its last line does not end");
		else if (line[strspn(line, " \t\r")] && read_line(d, line, &l))
			vec_push(a, &lines, l);
	}
	return lines;
}

bool schedule_file_check(const char *text, const char *file, bool (*is_target)(const char *), Diag *d)
{
	const int errors = d->errors;
	ARENA_LOCAL(a);
	const FileLines lines = read_lines(a, d, text, file);

	for (int i = 0; i < lines.n; i++)
		if (!is_target(lines.at[i].target))
			diag_error(d, lines.at[i].loc,
				   "there is no CPU or GPU \"%s\"; dlcc --list-targets names all",
				   lines.at[i].target);
	return d->errors == errors;
}

static bool same_text(Kernel *k, const Decision *x, const Decision *y)
{
	STRBUF_LOCAL(a);
	STRBUF_LOCAL(b);

	decision_print(&a, k, x);
	decision_print(&b, k, y);
	return !strcmp(strbuf_str(&a), strbuf_str(&b));
}

/* Decides N on target number T as L says. If it is the first kernel of L, its schedule has to be
 * proved. */
static bool decide_as(Module *m, int t, Node *n, const FileLine *l, bool first)
{
	ARENA_LOCAL(tmp);
	Kernel *k = kernel_clone(node_kernel(n), tmp);
	STRBUF_LOCAL(why);
	Decision *d = decision_parse(decide_target(m, m->target[t]), k, l->decision, &why);

	if (!d)
		return diag_error(m->ctx->diag, l->loc, "%s", strbuf_str(&why));
	if (!m->decision[t][n->id])
		return diag_error(m->ctx->diag, l->loc, "%s does not take this attention as one kernel",
				  m->target[t]->name);
	d->edited = first && !same_text(k, d, m->decision[t][n->id]);
	m->decision[t][n->id] = decision_copy(m->arena, d, k->stmts.n);
	return true;
}

/* Decides the kernels of target number T that L names. Whether there are any. */
static bool apply_line(Module *m, int t, const FileLine *l, const uint64_t *hash)
{
	bool any = false;
	uint64_t first = 0;

	for (Node *n = m->graph->first; n; n = n->next) {
		if (n->id >= m->ndecisions || !hash[n->id] || digits_of(hash[n->id]) != l->digits)
			continue;
		any = true;
		if (!decide_as(m, t, n, l, first != hash[n->id]))
			break;
		first = hash[n->id];
	}
	return any;
}

/* Whether a line of LINES before number I decides the same. */
static bool is_decided(const FileLines *lines, int i)
{
	const FileLine *l = &lines->at[i];

	for (int j = 0; j < i; j++)
		if (lines->at[j].digits == l->digits && !strcmp(lines->at[j].target, l->target))
			return true;
	return false;
}

/* Some line of LINES is for a target of M, which may be null. */
static bool names_target(const Module *m, const FileLines *lines)
{
	for (int t = 0; m && t < m->ntargets; t++)
		for (int i = 0; i < lines->n; i++)
			if (!strcmp(lines->at[i].target, m->target[t]->name))
				return true;
	return false;
}

bool schedule_file_apply(Module *m)
{
	Diag *d = m->ctx->diag;
	ARENA_LOCAL(a);
	const uint64_t *hash = schedule_hashes(m, a);
	const int errors = d->errors;
	const FileLines lines = read_lines(a, d, m->opt.schedule, m->opt.schedule_file);
	bool any = false, unknown = false;

	for (int t = 0; t < m->ntargets; t++)
		for (int i = 0; i < lines.n; i++) {
			if (strcmp(lines.at[i].target, m->target[t]->name))
				continue;
			any = true;
			if (is_decided(&lines, i))
				diag_error(d, lines.at[i].loc,
					   "an earlier line decides this kernel");
			else if (!apply_line(m, t, &lines.at[i], hash)) {
				diag_warning(
					d, lines.at[i].loc, "schedule",
					"no kernel has this key, so the line has no effect%s",
					unknown ? ""
						: "; keys are of a model, its --dim, -O and other options: --dump-ir=decide with the same options prints those there are");
				unknown = true;
			}
		}
	if (lines.n && !any && m->ntargets && !module_on_gpu(m) && !names_target(m->gpu, &lines))
		diag_warning(
			d, lines.at[0].loc, "schedule",
			"all lines are for other targets, this one for \"%s\", so the file has no effect; the model is compiled for \"%s\"",
			lines.at[0].target, m->target[0]->name);
	return d->errors == errors;
}
