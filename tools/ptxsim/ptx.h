/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX, decoded: the form of a module for execution.
 *
 * A value of a warp is a vector of 32 lanes, so every register has a slot: 32 elements of its
 * type's size, or one 32-bit mask for a predicate. Immediates are slots too, filled once, so that
 * instructions only access registers. A slot is a bank and an offset: the frame's registers, the
 * function's constants, or the warp's special registers. Branches have indices of instructions, and
 * each divergent branch the index where its paths meet: the immediate post-dominator (flow.c).
 */
#ifndef TOOLS_PTXSIM_PTX_H
#define TOOLS_PTXSIM_PTX_H

#include "base/arena.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct Warp Warp;
typedef struct Inst Inst;
typedef struct Func Func;
typedef struct Module Module;

typedef enum Type {
	T_none,
#define TYPE(name, bytes, kind) T_##name,
#include "tools/ptxsim/types.def"
#undef TYPE
	N_TYPES
} Type;

int type_size(Type t);
char type_kind(Type t); /* p b u s f */
const char *type_name(Type t);
/* The type of that NAME, T_none for another word. */
Type type_named(const char *name);

enum { ZONE = 16 }; /* bytes */

typedef enum Space {
	SP_GENERIC,
	SP_GLOBAL,
	SP_SHARED,
	SP_LOCAL,
	SP_CONST,
	SP_PARAM,
	SP_FRAME
} Space;

typedef enum Bank { BANK_REG, BANK_CONST, BANK_SPECIAL, N_BANKS } Bank;

typedef struct Slot {
	uint32_t at; /* bytes from the bank's beginning */
	uint8_t bank;
	uint8_t size; /* bytes a lane; 0: a predicate's mask, or nothing */
	bool none, negated;
} Slot;

/* Computes 32 lanes of D from up to four sources; D overlaps none. */
typedef void MapFn(void *restrict d, const void *const s[4]);
/* Runs an instruction for the lanes in MASK, which is not empty. */
typedef void ExecFn(Warp *w, const Inst *in, uint32_t mask);

/* Classes that counters tell apart. */
#define INST_CLASSES(X) \
	X(integer)      \
	X(float)        \
	X(half)         \
	X(convert) X(move) X(load) X(store) X(atomic) X(async) X(matrix) X(warp) X(sync) X(control)
typedef enum Class {
#define X(name) C_##name,
	INST_CLASSES(X)
#undef X
		N_CLASSES
} Class;

typedef enum Round { RN, RZ, RM, RP, RNA, RNI, RZI, RMI, RPI, RS } Round;

typedef enum OpKind { O_SLOT, O_VEC, O_ADDR, O_VAR, O_LABEL, O_FUNC, O_IMM, O_LIST, O_SINK } OpKind;

/* A variable: where it lives is known when its module is loaded. */
typedef struct Var {
	const char *name;
	Space space;
	Type type;
	uint64_t size, align;
	uint64_t at; /* global, const: address; shared, local, param, frame: offset */
	uint8_t *init;
	bool is_extern, dynamic;
	Func *owner; /* null: outside functions */
	int line;
	struct Patch {
		uint64_t at;
		const char *symbol;
		int64_t add;
		bool generic;
	} * patches; /* addresses of other variables in the initialiser */
	int n_patches;
} Var;

typedef struct Operand Operand;
struct Operand {
	OpKind kind;
	Slot slot, second; /* O_SLOT; second: the q of p|q; O_ADDR: the base, none without one */
	int64_t offset;	   /* O_ADDR, O_VAR */
	Var *var;	   /* O_VAR, O_ADDR */
	int label;	   /* O_LABEL: index of an instruction, after linking */
	Func *func;
	const char *name; /* as written, for messages and late binding */
	uint64_t bits;	  /* O_IMM: an integer, or the bits of a double where is_float */
	bool is_float, is_single, has_second;
	Operand *item; /* O_VEC, O_LIST */
	int n_items;
};

struct Inst {
	ExecFn *exec;
	MapFn *map;
	Slot d, s[4];
	Slot guard;  /* none: always */
	uint8_t cls; /* Class */
	bool ftz, sat, relu, guarded, uniform;
	uint8_t n_sources, source_type[4]; /* of a row of isa.def */
	uint8_t round;			   /* Round */
	/* The operands of exec functions; the comment at each says which it reads. */
	uint8_t type, type2, space, space2, vec, sub, sub2;
	bool flag, flag2;
	int32_t target, meet; /* of a branch; -1 */
	int64_t imm;
	Operand *op;
	int n_op;
	Var *var;
	Func *callee;
	void *more;
	int line;
	const char *text; /* the opcode as written */
};

struct Func {
	const char *name;
	Module *module;
	bool kernel, defined;
	Inst *inst;
	int n_inst;
	uint32_t reg_bytes; /* of a frame */
	uint8_t *consts;    /* the constant bank */
	uint32_t const_bytes;
	uint32_t local_bytes, frame_bytes;
	VEC(Var *) params, results;
	uint32_t param_bytes;	  /* of a kernel */
	uint32_t static_shared;	  /* with a zone after each variable that no access may touch */
	uint32_t declared_shared; /* without */
	VEC(uint32_t) zones;
	int max_threads, reqntid[3], line, regs, mark;
};

struct Module {
	Arena *arena;
	const char *text;
	const char **lines;
	int n_lines;
	VEC(Func *) funcs;
	VEC(Var *) vars;
	int sm;
	uint32_t shared_bytes; /* of variables outside functions */
	bool atomics;	       /* of global memory: blocks run one after another */
	uint8_t granule;       /* the smallest access of shared memory */
	int mark;
	char error[1024];
};

/* The module owns the arena; module_free releases everything. */
Module *module_new(void);
void module_free(Module *m);
Func *module_func(const Module *m, const char *name);
Var *module_var(const Module *m, const char *name);
/* Source line LINE (from 1), without its leading blanks; never null. */
const char *module_line(const Module *m, int line, int *length);

/* ---- module.c ---- */
/* Reads and decodes TEXT, which is NUL-terminated. False: m->error says why, with line and text.
 * Variables in global and const memory have no address yet. */
bool module_parse(Module *m, const char *text);

/* ---- flow.c ---- */
/* Fills `meet` of every branch of F. */
void flow_meets(Func *f, Arena *scratch);

#endif
