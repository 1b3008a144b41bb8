/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that read PTX: tokens, scopes and operands. */
#ifndef TOOLS_PTXSIM_PARSE_H
#define TOOLS_PTXSIM_PARSE_H

#include "tools/ptxsim/ptx.h"

#include "base/str.h"

#include <setjmp.h>

typedef enum TokKind { TK_END, TK_WORD, TK_NUMBER, TK_STRING, TK_PUNCT } TokKind;

typedef struct Token {
	TokKind kind;
	const char *s; /* TK_WORD, TK_STRING: interned */
	int punct;     /* TK_PUNCT */
	uint64_t bits; /* TK_NUMBER: an integer, or a double's bits */
	bool is_float, is_single;
	int line;
} Token;

/* A name in a scope: a register, or a variable. */
typedef struct Name {
	const char *name;
	Var *var;
	Slot slot;
	Type type;
	int count; /* of `%r<N>`; -1: one register */
	uint32_t stride;
} Name;

typedef struct Label {
	const char *name;
	int at;
	const char **targets; /* of .branchtargets */
	int n_targets;
} Label;

typedef struct Parser {
	Module *m;
	Arena *arena;
	Interner *names;
	const char *p;
	int line;
	Token tok;
	jmp_buf *fail;
	VEC(Name) scope; /* inner names last */
	VEC(Label) labels;
	Func *f;
	VEC(Inst) code;
	VEC(uint8_t) consts;
	int nesting;
	/* The instruction that is being read. */
	const char *mods[24]; /* mods[0]: the opcode's name */
	int n_mods;
	Operand op[8];
	int n_op;
	Inst *in;
} Parser;

/* ---- lex.c ---- */
_Noreturn void parse_fail(Parser *p, const char *fmt, ...) BASE_PRINTF(2, 3);
void next(Parser *p);
bool at_punct(const Parser *p, int c);
bool at_word(const Parser *p, const char *word);
bool take_punct(Parser *p, int c);
bool take_word(Parser *p, const char *word);
void expect(Parser *p, int c);
const char *expect_word(Parser *p, const char *what);
int64_t expect_int(Parser *p);

/* ---- module.c ---- */
Name *find_name(Parser *p, const char *name);
/* A new register of the function. */
Slot new_slot(Parser *p, Type t, int count);

/* ---- link.c ---- */
void place_var(Var *v, uint32_t *bytes);
void link_module(Parser *p);

/* ---- operand.c ---- */
void read_operands(Parser *p);
/* OP as a slot of SIZE bytes a lane (KIND as type_kind); a number becomes a constant. Fails
 * where a register of another size is used, unless WIDER, which allows greater ones. */
Slot slot_of(Parser *p, Operand *op, Type t, bool wider);
Slot pred_of(Parser *p, Operand *op);
/* OP is where results go; `_` gives none. */
Slot dest_of(Parser *p, Operand *op, Type t, bool wider);
/* A constant slot with the low SIZE bytes of BITS in every lane. */
Slot const_slot(Parser *p, uint64_t bits, int size);
/* The value of a number as T's bits. */
uint64_t imm_bits(Parser *p, const Operand *op, Type t);

/* ---- decode.c ---- */
/* P->mods and p->in->op become the rest of p->in. */
void decode(Parser *p);
/* Fails where no instruction begins with p->mods[0]. */
void check_opcode(Parser *p);

/* ---- control.c ---- */
/* Whether a call matches the function that it calls. */
void check_call(Parser *p, const Inst *in);
#endif
