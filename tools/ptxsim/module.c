/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a module: directives, variables, functions. Instructions are read by operand.c and
 * decode.c. */
#include "tools/ptxsim/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits of a text, beyond which it must be a mistake. */
enum { MOST_REGS = 1 << 20, MOST_REG_BYTES = 1 << 28, MOST_INIT = 1 << 28, MOST_NESTING = 100 };
static const uint64_t MOST_BYTES = 1ull << 38, MOST_SMALL = 1 << 24;

static void index_lines(Module *m)
{
	int n = 1;

	for (const char *s = m->text; *s; s++)
		n += *s == '\n';
	m->lines = NEW_ARRAY(m->arena, n, const char *);
	m->lines[m->n_lines++] = m->text;
	for (const char *s = m->text; *s; s++)
		if (*s == '\n')
			m->lines[m->n_lines++] = s + 1;
}

/* ---- Names ---- */

Name *find_name(Parser *p, const char *name)
{
	size_t n = strlen(name), digits = 0;
	const char *stem = NULL;
	int number = 0;

	while (digits < n && digits < 9 && strchr("0123456789", name[n - 1 - digits]))
		digits++;
	if (digits && (digits == 1 || name[n - digits] != '0')) {
		stem = intern_n(p->names, name, n - digits);
		number = atoi(name + n - digits);
	}
	for (int i = p->scope.n - 1; i >= 0; i--) {
		Name *at = &p->scope.at[i];
		if (at->name == name && at->count < 0)
			return at;
		if (stem && at->name == stem && number < at->count) {
			Name *one = NEW(p->arena, Name);
			*one = *at;
			one->slot.at += (uint32_t)number * at->stride;
			return one;
		}
	}
	return NULL;
}

static void declare_var(Parser *p, Var *v)
{
	vec_push(p->arena, &p->scope, ((Name){.name = v->name, .var = v, .count = -1}));
}

static uint32_t reg_stride(Type t)
{
	return t == T_pred ? 4 : (uint32_t)type_size(t) * 32;
}

Slot new_slot(Parser *p, Type t, int count)
{
	uint32_t stride = reg_stride(t), at = (p->f->reg_bytes + 63) & ~63u;

	if ((uint64_t)at + (uint64_t)stride * (uint64_t)count > MOST_REG_BYTES)
		parse_fail(p, "too many registers");
	p->f->reg_bytes = at + stride * (uint32_t)count;
	p->f->regs += count;
	return (Slot){.at = at, .bank = BANK_REG, .size = t == T_pred ? 0 : (uint8_t)type_size(t)};
}

static Type expect_type(Parser *p)
{
	Type t = p->tok.kind == TK_WORD && p->tok.s[0] == '.' ? type_named(p->tok.s + 1) : T_none;

	if (!t)
		parse_fail(p, "expected a type");
	next(p);
	return t;
}

static void declare_regs(Parser *p)
{
	Type t = expect_type(p);

	if (type_size(t) > 8)
		parse_fail(p, "registers of 128 bits are not supported");
	do {
		Name n = {.name = expect_word(p, "a register"),
			  .type = t,
			  .count = -1,
			  .stride = reg_stride(t)};
		if (take_punct(p, '<')) {
			n.count = (int)expect_int(p);
			if (n.count < 0 || n.count > MOST_REGS)
				parse_fail(p, "%d registers", n.count);
			expect(p, '>');
		}
		n.slot = new_slot(p, t, n.count < 0 ? 1 : n.count);
		vec_push(p->arena, &p->scope, n);
	} while (take_punct(p, ','));
	expect(p, ';');
}

/* ---- Variables ---- */

static void nest(Parser *p, int by)
{
	p->nesting += by;
	if (p->nesting > MOST_NESTING)
		parse_fail(p, "too deep a nesting");
}

static void put_init(Parser *p, Var *v, uint64_t *at)
{
	if (take_punct(p, '{')) {
		nest(p, 1);
		do
			put_init(p, v, at);
		while (take_punct(p, ','));
		expect(p, '}');
		nest(p, -1);
		return;
	}
	uint64_t size = (uint64_t)type_size(v->type);
	if (*at + size > v->size)
		parse_fail(p, "too many initial values of %s", v->name);
	if (p->tok.kind == TK_WORD) {
		bool generic = take_word(p, "generic");
		if (generic)
			expect(p, '(');
		struct Patch patch = {
			.at = *at, .symbol = expect_word(p, "a symbol"), .generic = generic};
		if (generic)
			expect(p, ')');
		if (take_punct(p, '+'))
			patch.add = expect_int(p);
		struct Patch *all = NEW_ARRAY(p->arena, v->n_patches + 1, struct Patch);
		if (v->n_patches)
			memcpy(all, v->patches, (size_t)v->n_patches * sizeof *all);
		all[v->n_patches++] = patch;
		v->patches = all;
	} else {
		bool minus = take_punct(p, '-');
		Operand number = {.kind = O_IMM,
				  .bits = p->tok.bits,
				  .is_float = p->tok.is_float,
				  .is_single = p->tok.is_single};
		if (p->tok.kind != TK_NUMBER)
			parse_fail(p, "expected a number");
		next(p);
		uint64_t bits = imm_bits(p, &number, v->type);
		if (minus)
			bits = number.is_float ? bits ^ (1ull << (size * 8 - 1)) : -bits;
		memcpy(v->init + *at, &bits, size);
	}
	*at += size;
}

/* After the state space: a type, a name, dims, an initial value. */
static Var *read_var(Parser *p, Space space)
{
	Var *v = NEW(p->arena, Var);
	uint64_t count = 1;

	v->space = space;
	v->owner = p->f;
	v->line = p->line;
	for (;;) {
		if (take_word(p, ".align"))
			v->align = (uint64_t)expect_int(p);
		else if (take_word(p, ".v4"))
			count = 4;
		else if (take_word(p, ".v2"))
			count = 2;
		else if (!take_word(p, ".attribute"))
			break;
	}
	v->type = expect_type(p);
	uint64_t natural = (uint64_t)type_size(v->type) * count, pointed = v->align;
	if (take_word(p, ".ptr"))
		while (p->tok.kind == TK_WORD && p->tok.s[0] == '.') {
			if (take_word(p, ".align"))
				expect_int(p);
			else
				next(p);
		}
	v->align = pointed ? pointed : natural;
	v->name = expect_word(p, "a name");
	if (strchr(v->name, '.'))
		parse_fail(p, "%s: a name has no dot", v->name);
	while (take_punct(p, '[')) {
		uint64_t n = at_punct(p, ']') ? 0 : (uint64_t)expect_int(p);
		v->dynamic |= at_punct(p, ']') && !n;
		count = n > MOST_BYTES ? MOST_BYTES : count * n;
		expect(p, ']');
	}
	if (v->align & (v->align - 1) || v->align > 4096 ||
	    count * (uint64_t)type_size(v->type) > MOST_BYTES ||
	    (space != SP_GLOBAL && count * (uint64_t)type_size(v->type) > MOST_SMALL))
		parse_fail(p, "%s: its size or alignment cannot be", v->name);
	v->size = v->dynamic ? 0 : count * (uint64_t)type_size(v->type);
	if (take_punct(p, '=')) {
		uint64_t at = 0;
		if (v->size > MOST_INIT || type_size(v->type) > 8)
			parse_fail(p, "%s: initial values that are not supported", v->name);
		v->init = arena_alloc(p->arena, v->size);
		put_init(p, v, &at);
	}
	return v;
}

/* A variable's declaration from its state space on, in a function or outside. */
static bool read_var_statement(Parser *p, bool is_extern)
{
	static const struct {
		const char *word;
		Space space;
	} spaces[] = {{".global", SP_GLOBAL},
		      {".const", SP_CONST},
		      {".shared", SP_SHARED},
		      {".local", SP_LOCAL},
		      {".param", SP_FRAME}};
	int i = 0;

	while (i < 5 && !at_word(p, spaces[i].word))
		i++;
	if (i == 5)
		return false;
	next(p);
	do {
		Var *v = read_var(p, spaces[i].space);
		v->is_extern = is_extern;
		if (!p->f && (v->space == SP_LOCAL || v->space == SP_FRAME))
			parse_fail(p, "%s: outside a function", v->name);
		if (v->space == SP_LOCAL) {
			/* Functions stand one after another in a thread's local memory. */
			place_var(v, &p->f->local_bytes);
		} else if (v->space == SP_FRAME) {
			place_var(v, &p->f->frame_bytes);
		} else if (v->space == SP_SHARED && !v->dynamic) {
			/* Its place is found when all functions are known. */
			v->dynamic = false;
		}
		declare_var(p, v);
		vec_push(p->arena, &p->m->vars, v);
	} while (take_punct(p, ','));
	expect(p, ';');
	return true;
}

/* ---- Functions ---- */

static void read_params(Parser *p, Func *f, bool results)
{
	expect(p, '(');
	while (!take_punct(p, ')')) {
		if (!take_word(p, ".param"))
			parse_fail(p, "expected .param");
		Var *v = read_var(p, f->kernel ? SP_PARAM : SP_FRAME);
		place_var(v, f->kernel ? &f->param_bytes : &f->frame_bytes);
		declare_var(p, v);
		if (results)
			vec_push(p->arena, &f->results, v);
		else
			vec_push(p->arena, &f->params, v);
		take_punct(p, ',');
	}
}

static void read_dims(Parser *p, int dim[3])
{
	dim[0] = (int)expect_int(p);
	dim[1] = dim[2] = 1;
	for (int i = 1; i < 3 && take_punct(p, ','); i++)
		dim[i] = (int)expect_int(p);
	for (int i = 0; i < 3; i++)
		if (dim[i] < 1 || dim[i] > 1024)
			parse_fail(p, "%d threads", dim[i]);
}

static void read_tuning(Parser *p, Func *f)
{
	while (p->tok.kind == TK_WORD && p->tok.s[0] == '.') {
		int dim[3];
		if (take_word(p, ".reqntid")) {
			read_dims(p, f->reqntid);
			f->max_threads = f->reqntid[0] * f->reqntid[1] * f->reqntid[2];
		} else if (take_word(p, ".maxntid")) {
			read_dims(p, dim);
			f->max_threads = dim[0] * dim[1] * dim[2];
		} else if (take_word(p, ".minnctapersm") || take_word(p, ".maxnreg") ||
			   take_word(p, ".maxclusterrank")) {
			expect_int(p);
		} else if (!take_word(p, ".noreturn") && !take_word(p, ".blocksareclusters")) {
			parse_fail(p, "the directive %s is not supported", p->tok.s);
		}
	}
}

/* `LABEL: .branchtargets A, B;` */
static void read_targets(Parser *p, Label *label)
{
	VEC(const char *) names = {0};

	do
		vec_push(p->arena, &names, expect_word(p, "a label"));
	while (take_punct(p, ','));
	expect(p, ';');
	label->targets = names.at;
	label->n_targets = names.n;
}

static void skip_line(Parser *p)
{
	p->p += strcspn(p->p, "\n");
	next(p);
}

static void skip_statement(Parser *p)
{
	while (!at_punct(p, ';') && p->tok.kind != TK_END)
		next(p);
	next(p);
}

static void split_opcode(Parser *p, const char *word)
{
	p->n_mods = 0;
	for (const char *s = word; *s;) {
		size_t n = strcspn(s, ".");
		if (p->n_mods == 24)
			parse_fail(p, "too many modifiers");
		p->mods[p->n_mods++] = intern_n(p->names, s, n);
		s += n + (s[n] == '.');
	}
}

static void read_instruction(Parser *p, bool guarded, Slot guard)
{
	Inst in = {.guarded = guarded, .guard = guard, .target = -1, .meet = -1};

	in.line = p->tok.line;
	in.text = p->tok.s;
	split_opcode(p, p->tok.s);
	p->in = &in;
	check_opcode(p);
	next(p);
	memset(p->op, 0, sizeof p->op);
	p->n_op = 0;
	if (!at_punct(p, ';'))
		read_operands(p);
	int after = p->line;
	p->line = in.line;
	in.n_op = p->n_op;
	in.op = arena_copy(p->arena, p->op, (size_t)p->n_op * sizeof *p->op);
	decode(p);
	p->line = after;
	vec_push(p->arena, &p->code, in);
	expect(p, ';');
}

static void read_statement(Parser *p)
{
	Slot guard = {.none = true};
	bool guarded = false;

	if (take_punct(p, '@')) {
		guard.negated = take_punct(p, '!');
		Name *n = find_name(p, expect_word(p, "a predicate"));
		if (!n || n->type != T_pred)
			parse_fail(p, "the guard is not a predicate");
		bool negated = guard.negated;
		guard = n->slot;
		guard.negated = negated;
		guarded = true;
	}
	if (p->tok.kind != TK_WORD)
		parse_fail(p, "expected an instruction");
	const char *after = p->p + strspn(p->p, " \t");
	if (!guarded && p->tok.s[0] != '.' && *after == ':') {
		Label label = {.name = p->tok.s, .at = p->code.n};
		next(p);
		expect(p, ':');
		if (take_word(p, ".branchtargets"))
			read_targets(p, &label);
		else if (at_word(p, ".callprototype") || at_word(p, ".calltargets"))
			parse_fail(p, "indirect calls are not supported");
		vec_push(p->arena, &p->labels, label);
	} else if (take_word(p, ".reg")) {
		declare_regs(p);
	} else if (at_word(p, ".loc") || at_word(p, ".file")) {
		skip_line(p);
	} else if (at_word(p, ".pragma")) {
		skip_statement(p);
	} else if (p->tok.s[0] == '.') {
		if (!read_var_statement(p, false))
			parse_fail(p, "the directive %s is not supported", p->tok.s);
	} else {
		read_instruction(p, guarded, guard);
	}
}

static void read_block(Parser *p)
{
	int names = p->scope.n, labels = p->labels.n, begin = p->code.n;

	expect(p, '{');
	nest(p, 1);
	while (!take_punct(p, '}')) {
		if (at_punct(p, '{'))
			read_block(p);
		else
			read_statement(p);
	}
	nest(p, -1);
	p->scope.n = names;
	/* Branches to labels of this block are bound here; the labels are then forgotten. */
	for (int i = begin; i < p->code.n; i++) {
		Inst *in = &p->code.at[i];
		for (int k = 0; k < in->n_op; k++) {
			Operand *op = &in->op[k];
			if (op->kind != O_LABEL || op->label >= 0)
				continue;
			for (int j = labels; j < p->labels.n; j++)
				if (p->labels.at[j].name == op->name) {
					Label *label = &p->labels.at[j];
					op->label = label->at;
					in->target = label->at;
					if (label->n_targets) {
						op->n_items = label->n_targets;
						op->item = NEW_ARRAY(p->arena, label->n_targets,
								     Operand);
						for (int t = 0; t < label->n_targets; t++)
							op->item[t] = (Operand){
								.kind = O_LABEL,
								.label = -1,
								.name = label->targets[t]};
					}
				}
			for (int t = 0; t < op->n_items; t++)
				for (int j = labels; j < p->labels.n; j++)
					if (p->labels.at[j].name == op->item[t].name)
						op->item[t].label = p->labels.at[j].at;
		}
	}
	p->labels.n = labels;
}

static void finish_func(Parser *p, Func *f)
{
	int here = p->line;

	for (int i = 0; i < p->code.n; i++)
		for (int k = 0; k < p->code.at[i].n_op; k++) {
			Operand *op = &p->code.at[i].op[k];
			p->line = p->code.at[i].line;
			if (op->kind == O_LABEL && op->label < 0 && !op->n_items)
				parse_fail(p, "'%s' is not defined", op->name);
			for (int t = 0; op->kind == O_LABEL && t < op->n_items; t++)
				if (op->item[t].label < 0)
					parse_fail(p, "'%s' is not defined", op->item[t].name);
		}
	p->line = here;
	f->inst = p->code.at;
	f->n_inst = p->code.n;
	f->consts = p->consts.at;
	f->const_bytes = (uint32_t)p->consts.n;
	flow_meets(f, p->arena);
}

static void read_func(Parser *p, bool kernel)
{
	Func *f = NEW(p->arena, Func), *known;
	int names = p->scope.n;

	f->module = p->m;
	f->kernel = kernel;
	f->line = p->line;
	if (at_punct(p, '('))
		read_params(p, f, true);
	f->name = expect_word(p, "a function's name");
	if (at_punct(p, '('))
		read_params(p, f, false);
	read_tuning(p, f);
	known = module_func(p->m, f->name);
	if (known && !known->defined) {
		*known = *f;
		f = known;
	} else if (known) {
		parse_fail(p, "%s is defined twice", f->name);
	} else {
		vec_push(p->arena, &p->m->funcs, f);
	}
	if (!take_punct(p, ';')) {
		memset(&p->code, 0, sizeof p->code);
		memset(&p->consts, 0, sizeof p->consts);
		p->labels.n = 0;
		f->defined = true;
		p->f = f;
		read_block(p);
		finish_func(p, f);
		p->f = NULL;
	}
	p->scope.n = names;
}

static void skip_section(Parser *p)
{
	while (!at_punct(p, '}') && p->tok.kind != TK_END)
		next(p);
	next(p);
}

static void read_module(Parser *p)
{
	next(p);
	while (p->tok.kind != TK_END) {
		bool is_extern = false;
		for (;;) {
			if (take_word(p, ".extern"))
				is_extern = true;
			else if (!take_word(p, ".visible") && !take_word(p, ".weak") &&
				 !take_word(p, ".common"))
				break;
		}
		if (at_word(p, ".version") || at_word(p, ".file") || at_word(p, ".loc")) {
			skip_line(p);
		} else if (take_word(p, ".target")) {
			const char *target = expect_word(p, "a target");
			if (!str_starts(target, "sm_"))
				parse_fail(p, "expected sm_NN");
			p->m->sm = atoi(target + 3);
			while (take_punct(p, ','))
				expect_word(p, "an option");
		} else if (take_word(p, ".address_size")) {
			if (expect_int(p) != 64)
				parse_fail(p, "addresses have 64 bits");
		} else if (at_word(p, ".pragma")) {
			skip_statement(p);
		} else if (at_word(p, ".section")) {
			skip_section(p);
		} else if (take_word(p, ".entry")) {
			read_func(p, true);
		} else if (take_word(p, ".func")) {
			while (take_word(p, ".noreturn"))
				;
			read_func(p, false);
		} else if (!read_var_statement(p, is_extern)) {
			parse_fail(p, "expected a directive");
		}
	}
}

bool module_parse(Module *m, const char *text)
{
	Parser p = {.m = m, .arena = m->arena, .line = 1};
	jmp_buf fail;

	m->text = arena_strdup(m->arena, text);
	p.p = m->text;
	p.names = interner_new(m->arena);
	p.fail = &fail;
	index_lines(m);
	if (setjmp(fail))
		return false;
	read_module(&p);
	link_module(&p);
	return true;
}
