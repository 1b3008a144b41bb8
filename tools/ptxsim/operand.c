/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of instructions, and the slots that they stand for. */
#include "tools/ptxsim/parse.h"
#include "tools/ptxsim/warp.h"

#include "tools/ptxsim/half.h"

#include <string.h>

static const struct {
	const char *name;
	uint8_t size;
} specials[] = {
#define SPECIAL(id, name, bytes) {name, bytes},
#include "tools/ptxsim/special.def"
#undef SPECIAL
};

static bool special_slot(const char *name, Slot *out)
{
	for (int i = 0; i < N_SPECIALS; i++)
		if (!strcmp(specials[i].name, name)) {
			*out = (Slot){.at = (uint32_t)i * SPECIAL_BYTES,
				      .bank = BANK_SPECIAL,
				      .size = specials[i].size};
			return true;
		}
	return false;
}

static void read_operand(Parser *p, Operand *op);

static void read_items(Parser *p, Operand *op, int end)
{
	VEC(Operand) items = {0};

	if (p->nesting++ > 100)
		parse_fail(p, "too deep a nesting");
	while (!take_punct(p, end)) {
		Operand item;
		read_operand(p, &item);
		vec_push(p->arena, &items, item);
		take_punct(p, ',');
	}
	p->nesting--;
	op->item = items.at;
	op->n_items = items.n;
}

static void read_number(Parser *p, Operand *op)
{
	if (p->tok.kind != TK_NUMBER)
		parse_fail(p, "expected a number");
	op->kind = O_IMM;
	op->bits = p->tok.bits;
	op->is_float = p->tok.is_float;
	op->is_single = p->tok.is_single;
	next(p);
}

static void read_word(Parser *p, Operand *op)
{
	const char *word = expect_word(p, "an operand");
	Name *name = find_name(p, word);

	op->name = word;
	if (name && name->var) {
		op->kind = O_VAR;
		op->var = name->var;
		if (take_punct(p, '+'))
			op->offset = expect_int(p);
	} else if (name) {
		op->kind = O_SLOT;
		op->slot = name->slot;
	} else if (special_slot(word, &op->slot)) {
		op->kind = O_SLOT;
	} else if (!strcmp(word, "WARP_SZ")) {
		op->kind = O_IMM;
		op->bits = 32;
	} else if (!strcmp(word, "_")) {
		op->kind = O_SINK;
		op->slot.none = true;
	} else if (word[0] == '%') {
		parse_fail(p, "the register %s is not declared", word);
	} else {
		op->kind = O_LABEL;
		op->label = -1;
	}
}

static void read_address(Parser *p, Operand *op)
{
	Operand base = {0};

	op->kind = O_ADDR;
	op->slot.none = true;
	if (p->tok.kind == TK_NUMBER) {
		op->offset = expect_int(p);
	} else {
		read_word(p, &base);
		op->name = base.name;
		op->offset = base.offset;
		if (base.kind == O_SLOT)
			op->slot = base.slot;
		else if (base.kind == O_VAR)
			op->var = base.var;
		else
			parse_fail(p, "'%s' is not defined", base.name);
		if (take_punct(p, '+'))
			op->offset += expect_int(p);
		else if (at_punct(p, '-'))
			op->offset += expect_int(p);
	}
	expect(p, ']');
}

static void read_operand(Parser *p, Operand *op)
{
	*op = (Operand){.second = {.none = true}};
	if (take_punct(p, '{')) {
		op->kind = O_VEC;
		read_items(p, op, '}');
	} else if (take_punct(p, '(')) {
		op->kind = O_LIST;
		read_items(p, op, ')');
	} else if (take_punct(p, '[')) {
		read_address(p, op);
	} else if (take_punct(p, '!')) {
		read_word(p, op);
		op->slot.negated = true;
	} else if (take_punct(p, '-')) {
		read_number(p, op);
		op->bits = op->is_float ? op->bits ^ (1ull << (op->is_single ? 31 : 63))
					: -op->bits;
	} else if (p->tok.kind == TK_NUMBER) {
		read_number(p, op);
	} else {
		read_word(p, op);
	}
	if (take_punct(p, '|')) {
		Operand second;
		read_word(p, &second);
		op->second = second.slot;
		op->has_second = second.kind != O_SINK;
	}
}

void read_operands(Parser *p)
{
	do {
		if (p->n_op == 8)
			parse_fail(p, "too many operands");
		read_operand(p, &p->op[p->n_op++]);
	} while (take_punct(p, ','));
}

/* ---- Slots ---- */

Slot const_slot(Parser *p, uint64_t bits, int size)
{
	Slot s = {.at = (uint32_t)p->consts.n, .bank = BANK_CONST, .size = (uint8_t)size};

	if (!size)
		bits = bits ? ~0ull : 0;
	for (int lane = 0; lane < (size ? 32 : 1); lane++)
		for (int i = 0; i < (size ? size : 4); i++)
			vec_push(p->arena, &p->consts, (uint8_t)(i < 8 ? bits >> (8 * i) : 0));
	while (p->consts.n % 64)
		vec_push(p->arena, &p->consts, 0);
	return s;
}

uint64_t imm_bits(Parser *p, const Operand *op, Type t)
{
	uint64_t bits = op->bits;
	double d;

	if (!op->is_float)
		return bits;
	if (op->is_single) /* a NaN's bits */
		return bits;
	memcpy(&d, &bits, sizeof d);
	if (t == T_f64 || type_size(t) == 8)
		return bits;
	if (t == T_f16)
		return f16_of((float)d);
	if (t == T_bf16)
		return bf16_of((float)d);
	if (type_size(t) == 4) {
		float f = (float)d;
		uint32_t u;
		memcpy(&u, &f, sizeof u);
		return u;
	}
	parse_fail(p, "a float as %s", type_name(t));
}

static void check_size(Parser *p, const Operand *op, Slot s, Type t, bool wider)
{
	int want = t == T_pred ? 0 : type_size(t);

	if (s.negated && want)
		parse_fail(p, "%s is negated", op->name ? op->name : "operand");
	if (s.none || s.size == want || (wider && s.size > want && want))
		return;
	if (!s.size || !want)
		parse_fail(p, "%s: %s a predicate", op->name ? op->name : "operand",
			   want ? "is" : "is not");
	parse_fail(p, "%s has %d bits, the instruction takes %d", op->name ? op->name : "operand",
		   s.size * 8, want * 8);
}

Slot slot_of(Parser *p, Operand *op, Type t, bool wider)
{
	if (op->kind == O_IMM)
		return const_slot(p, imm_bits(p, op, t), t == T_pred ? 0 : type_size(t));
	if (op->kind != O_SLOT)
		parse_fail(p, "expected a register or a number");
	check_size(p, op, op->slot, t, wider);
	return op->slot;
}

Slot pred_of(Parser *p, Operand *op)
{
	return slot_of(p, op, T_pred, false);
}

Slot dest_of(Parser *p, Operand *op, Type t, bool wider)
{
	if (op->kind == O_SINK)
		return (Slot){.none = true};
	if (op->kind != O_SLOT || op->slot.bank != BANK_REG || op->slot.negated)
		parse_fail(p, "expected a register for the result");
	check_size(p, op, op->slot, t, wider);
	return op->slot;
}
