/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses how many blocks an SM runs at once (.minnctapersm), and so how many registers ptxas may
 * give a thread, from the number of registers that are live at once in the PTX that LLVM generated.
 * Liveness is computed backwards over the instructions, and passed between them where labels are
 * (Aho, Lam, Sethi, Ullman: Compilers, 9.2.5).
 *
 * Without that directive ptxas spills a few registers to run more threads at once. With it, ptxas
 * uses all registers that the number of blocks allows, to unroll and to hoist loads, and spills if
 * the live registers leave few. Over the model suites, kernels with few live registers need up to
 * 38 more, and those with 60 or more need up to 4 more. The margins used here are larger.
 *
 * If the operands of an unrolled loop exceed the free registers, ptxas hoists loads until none is
 * free. On GPUs that need more registers for the same code (Gpu.spare) it then spills a few of
 * them, so one STEP of the registers is withheld from it (.maxnreg).
 */
#include "codegen/nvptx/nvptx_impl.h"

#include "base/round.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Registers of a thread: BESIDE more than the live ones; only BESIDE_MANY more if that makes
 * ENOUGH, but all that ptxas may load ahead (PtxFunc.ahead). STEP: granularity of their number;
 * ALL: the maximum. */
enum { BESIDE = 40, BESIDE_MANY = 8, ENOUGH = 80, STEP = 8, ALL = 255, MOST_BLOCKS = 16 };

typedef struct RegClass { /* .reg .b32 %r<45>: */
	const char *name;
	int len, first, n;
} RegClass;

typedef struct PtxLabel {
	const char *name; /* ends with a colon */
	/* the branch table that it names, or null: labels with commas between them, and a
	 * semicolon */
	const char *table;
	int at;          /* index of the instruction after it */
	uint64_t *alive; /* bit set of the registers that are live here */
} PtxLabel;

typedef struct PtxInst {
	/* its N registers in LiveRegs.regs: first the MADE that it defines, then those that it
	 * reads */
	int first, made, n;
	/* it is predicated; control does not continue after it, except at its targets */
	bool guarded, ends;
	const char *targets; /* as PtxLabel.table, or null */
} PtxInst;

typedef struct LiveRegs {
	Arena *arena;
	VEC(RegClass) classes;
	VEC(PtxLabel) labels;
	VEC(PtxInst) insts;
	VEC(int) regs;
	VEC(int) words; /* 32-bit words of each register; 0 for predicates */
	uint64_t *now;  /* bit set of the live registers; the number of their words */
	int sets;       /* the words of a bit set */
	int alive, most;
} LiveRegs;

/* ---- Reading ---- */

static const char *past(const char *s, char c)
{
	const char *at = strchr(s, c);

	return at ? at + 1 : s + strlen(s);
}

static const char *word_end(const char *s)
{
	while (isalnum((unsigned char)*s) || *s == '_' || *s == '$' || *s == '.')
		s++;
	return s;
}

/* S begins with the word WORD, which may be followed by a dot. */
static bool is_op(const char *s, const char *word)
{
	const size_t n = strlen(word);

	return !strncmp(s, word, n) && !isalnum((unsigned char)s[n]);
}

/* .reg .b32 %r<45>; */
static void read_class(LiveRegs *l, const char *s)
{
	const char *type = past(past(s, '.'), '.'), *name = past(s, '%');
	const int bits = is_op(type, "pred") ? 0 : atoi(type + 1);
	RegClass c = {name, (int)strcspn(name, "<"), l->words.n, 0};

	if (s + strcspn(s, "%;") + 1 != name)
		return; /* a register of inline assembly, local to braces */
	c.n = atoi(past(name, '<'));
	for (int i = 0; i < c.n; i++)
		vec_push(l->arena, &l->words, (bits + 31) / 32);
	vec_push(l->arena, &l->classes, c);
}

/* The register at S, after the %; -1 if it is of no class, as %tid.x. */
static int find_register(const LiveRegs *l, const char *s)
{
	const int len = (int)strcspn(s, "0123456789,;]}. \t\n");

	VEC_EACH_AT (c, &l->classes) {
		if (len == c->len && !strncmp(s, c->name, (size_t)len) &&
		    isdigit((unsigned char)s[len]))
			return c->first + atoi(s + len);
	}
	return -1;
}

static void read_registers(LiveRegs *l, const char *s, const char *end)
{
	for (; s < end; s++) {
		const int r = *s == '%' ? find_register(l, s + 1) : -1;

		if (r >= 0)
			vec_push(l->arena, &l->regs, r);
	}
}

/* Instructions whose first operand is read; the sums of wgmma are read, too. */
static bool makes_nothing(const char *op)
{
	static const char *const ops[] = {"st",    "red",    "cp",       "bar",  "barrier",
					  "bra",   "brx",    "ret",      "exit", "trap",
					  "fence", "membar", "prefetch", "wgmma"};

	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
		if (is_op(op, ops[i]))
			return true;
	return false;
}

static void read_inst(LiveRegs *l, const char *s)
{
	PtxInst in = {.first = l->regs.n};
	const char *end = past(s, ';'), *op = s, *made;

	if (*s == '@') {
		in.guarded = true;
		op += strcspn(s, " \t");
		op += strspn(op, " \t");
	}
	made = word_end(op);
	if (!makes_nothing(op)) {
		made += strspn(made, " \t\n");
		made += strcspn(made, *made == '{' ? "}" : ",;");
		read_registers(l, op, made);
	}
	in.made = l->regs.n - in.first;
	if (in.guarded)
		read_registers(l, s, made);
	read_registers(l, made, end);
	in.n = l->regs.n - in.first;
	if (is_op(op, "bra") || is_op(op, "brx"))
		in.targets = strchr(op, '$');
	in.ends = !in.guarded &&
		  (in.targets || is_op(op, "ret") || is_op(op, "exit") || is_op(op, "trap"));
	vec_push(l->arena, &l->insts, in);
}

/* Reads a body from after its opening brace on; it may contain further braces. */
static void read_body(LiveRegs *l, const char *s)
{
	for (int depth = 1;;) {
		const char *end;

		s += strspn(s, " \t\n");
		end = word_end(s);
		depth += *s == '{' ? 1 : *s == '}' ? -1 : 0;
		if (!*s || !depth)
			return;
		if (*s == '{' || *s == '}') {
			s++;
		} else if (*s == '/') {
			s = past(s, '\n');
		} else if (*s == '$' && *end == ':') {
			PtxLabel label = {.name = s, .at = l->insts.n};

			s = end + 1 + strspn(end + 1, " \t\n");
			if (is_op(s, ".branchtargets")) {
				label.table = word_end(s);
				s = past(s, ';');
			}
			vec_push(l->arena, &l->labels, label);
		} else {
			if (is_op(s, ".reg"))
				read_class(l, s);
			else if (*s != '.')
				read_inst(l, s);
			s = past(s, ';');
		}
	}
}

/* ---- Liveness ---- */

static const PtxLabel *find_label(const LiveRegs *l, const char *s)
{
	const size_t n = (size_t)(word_end(s) - s);

	for (int i = 0; i < l->labels.n; i++)
		if (!strncmp(l->labels.at[i].name, s, n) && l->labels.at[i].name[n] == ':')
			return &l->labels.at[i];
	return NULL;
}

/* What is live at TARGETS is live. */
static void see_targets(LiveRegs *l, const char *targets)
{
	for (const char *s = targets + strcspn(targets, "$;"); *s != ';'; s += strcspn(s, "$;")) {
		const PtxLabel *to = find_label(l, s);

		if (to && to->table)
			see_targets(l, to->table);
		for (int w = 0; to && w < l->sets; w++)
			for (uint64_t left = to->alive[w] & ~l->now[w]; left; left &= left - 1) {
				l->now[w] |= left & -left;
				l->alive += l->words.at[w * 64 + __builtin_ctzll(left)];
			}
		s = word_end(s);
	}
}

static void set_alive(LiveRegs *l, int r, bool alive)
{
	const uint64_t bit = (uint64_t)1 << (r & 63);

	if (!(l->now[r >> 6] & bit) == !alive)
		return;
	l->now[r >> 6] ^= bit;
	l->alive += alive ? l->words.at[r] : -l->words.at[r];
	l->most = l->alive > l->most ? l->alive : l->most;
}

static void before_inst(LiveRegs *l, const PtxInst *in)
{
	const int *r = &l->regs.at[in->first];

	if (in->ends) {
		memset(l->now, 0, (size_t)l->sets * sizeof *l->now);
		l->alive = 0;
	}
	if (in->targets)
		see_targets(l, in->targets);
	for (int i = 0; i < in->made; i++)
		set_alive(l, r[i], true);
	for (int i = 0; i < in->made && !in->guarded; i++)
		set_alive(l, r[i], false);
	for (int i = in->made; i < in->n; i++)
		set_alive(l, r[i], true);
}

/* Computes the registers that are live at all labels from those at the labels after; returns
 * whether any changed. */
static bool before_all(LiveRegs *l)
{
	const size_t bytes = (size_t)l->sets * sizeof *l->now;
	int label = l->labels.n;
	bool changed = false;

	memset(l->now, 0, bytes);
	l->alive = 0;
	for (int i = l->insts.n; i >= 0; i--) {
		if (i < l->insts.n)
			before_inst(l, &l->insts.at[i]);
		for (; label && l->labels.at[label - 1].at == i; label--) {
			changed = changed || memcmp(l->labels.at[label - 1].alive, l->now, bytes);
			memcpy(l->labels.at[label - 1].alive, l->now, bytes);
		}
	}
	return changed;
}

/* The begin of the body of PTX's entry, after its helper functions; null: there is none. */
static const char *entry_body(const char *ptx)
{
	const char *entry = strstr(ptx, ".entry");

	return entry ? strstr(entry, "\n{") : NULL;
}

int ptx_most_alive(const char *ptx)
{
	const char *body = entry_body(ptx);
	LiveRegs l = {.arena = arena_new()};

	read_body(&l, body ? past(body, '{') : "");
	l.sets = (l.words.n + 63) / 64;
	l.now = NEW_ARRAY(l.arena, l.sets, uint64_t);
	VEC_EACH_AT (label, &l.labels) {
		label->alive = NEW_ARRAY(l.arena, l.sets, uint64_t);
	}
	while (before_all(&l))
		;
	arena_free(l.arena);
	return l.most;
}

/* The registers that a thread of FN with ALIVE live ones is to have, a multiple of STEP. */
static int wanted_registers(const Gpu *gpu, int alive, const PtxFunc *fn)
{
	const int few = alive + BESIDE < ENOUGH ? alive + BESIDE : ENOUGH,
		  many = alive + (fn->ahead > BESIDE_MANY ? fn->ahead : BESIDE_MANY),
		  least = (few > many ? few : many) + gpu->spare;

	return (int)round_up(least, STEP);
}

/* The number of blocks per SM whose threads can have WANTED registers. An SM's registers are in
 * four parts, and a warp's are in one of them, so warps are allocated in fours. A block's last warp
 * may have fewer threads. */
static int blocks_at_once(const Gpu *gpu, int wanted, const PtxFunc *fn)
{
	const int warps = gpu->registers / ((wanted < ALL ? wanted : ALL) * 32) / 4 * 4,
		  each = (fn->threads + 31) / 32, blocks = warps / each,
		  most = gpu->threads / (each * 32) < MOST_BLOCKS ? gpu->threads / (each * 32)
								  : MOST_BLOCKS;

	return blocks > most ? most : blocks ? blocks : 1;
}

/* The maximum for a thread where BLOCKS blocks per SM leave too few registers for all loads that
 * ptxas would hoist, and it must not use all of them; 0: it may. */
static int register_limit(const Gpu *gpu, int alive, int wanted, int blocks, const PtxFunc *fn)
{
	const int each = (fn->threads + 31) / 32,
		  left = gpu->registers / (blocks * each * 32) / STEP * STEP;

	return gpu->spare && fn->hoisted && left < ALL && alive + fn->hoisted + gpu->spare > left &&
			       wanted < left
		       ? left - STEP
		       : 0;
}

char *ptx_limited(const char *ptx, const Gpu *gpu, const PtxFunc *fn)
{
	const char *body = entry_body(ptx);
	StrBuf b = {0};
	int alive, wanted, blocks, limit;
	char *text;

	if (!body)
		return strdup(ptx);
	alive = ptx_most_alive(ptx);
	wanted = wanted_registers(gpu, alive, fn);
	blocks = blocks_at_once(gpu, wanted, fn);
	limit = register_limit(gpu, alive, wanted, blocks, fn);
	strbuf_put(&b, ptx, (size_t)(body - ptx));
	strbuf_printf(&b, "\n.minnctapersm %d", blocks);
	if (limit)
		strbuf_printf(&b, "\n.maxnreg %d", limit);
	strbuf_puts(&b, body);
	text = strdup(strbuf_str(&b));
	strbuf_free(&b);
	return text;
}
