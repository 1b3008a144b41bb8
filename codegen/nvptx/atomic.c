/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic updates of elements that other threads may update, too: by `red` if the hardware's
 * operation has the meaning of the monoid's table, else by a loop of compare-and-swap. The
 * hardware's max and min of floats, for instance, lose NaNs. The next launch sees the stores of a
 * launch, and within one launch no order is needed (`relaxed`). LLVM's own atomic instructions have
 * no form for 16 bits on all targets.
 */
#include "codegen/nvptx/kernel.h"

#include <assert.h>
#include <string.h>

/*
 * Native operations of memory, by their names in monoids.def.
 *
 * Addition to an f32 in global memory takes subnormals as zero (PTX ISA, red). If the magnitude of
 * the addend is at least 2^-101, it has no bits below 2^-124, and a sum that cancels has none below
 * 2^-125. So no sum is subnormal, and a subnormal cell does not change the rounding.
 */
typedef struct Native {
	const char *op;
	DType t;
	int sm; /* least compute capability */
	const char *name;
	uint32_t least; /* least magnitude, as 32 bits, for which it is exact; 0: any */
} Native;

static const Native natives[] = {
	{"add", DT_I32, 0, "add.u32", 0},
	{"add", DT_U32, 0, "add.u32", 0},
	{"add", DT_I64, 0, "add.u64", 0},
	{"add", DT_U64, 0, "add.u64", 0},
	{"add", DT_F32, 0, "add.f32", 0x0d000000 /* 2^-101 */},
	{"add", DT_F64, 0, "add.f64", 0},
	{"add", DT_F16, 0, "add.noftz.f16", 0},
	{"add", DT_BF16, 90, "add.noftz.bf16", 0},
	{"max", DT_I32, 0, "max.s32", 0},
	{"max", DT_U32, 0, "max.u32", 0},
	{"max", DT_I64, 0, "max.s64", 0},
	{"max", DT_U64, 0, "max.u64", 0},
	{"min", DT_I32, 0, "min.s32", 0},
	{"min", DT_U32, 0, "min.u32", 0},
	{"min", DT_I64, 0, "min.s64", 0},
	{"min", DT_U64, 0, "min.u64", 0},
};

static const Native *native_of(const LlKernel *k, Monoid m, DType t)
{
	for (size_t i = 0; i < sizeof natives / sizeof *natives; i++)
		if (natives[i].t == t && !strcmp(natives[i].op, monoid_info[m].atomic) &&
		    natives[i].sm <= k->f.g->target->gpu->sm)
			return &natives[i];
	return NULL;
}

/* The constraint letter of an inline assembly operand for a stored element. */
static const char *register_of(DType t)
{
	switch (dtype_info[t].bits) {
	case 64: return t == DT_F64 ? "d" : "l";
	case 32: return t == DT_F32 ? "f" : "r";
	default: return "h";
	}
}

/* Bitcasts CODE from TYPE to AS. */
static const char *as_bits(LlFn *f, const char *code, const char *type, const char *as)
{
	return strcmp(type, as) ? ll_set(f, "bitcast %s %s to %s", type, code, as) : code;
}

/* An element in memory that is updated atomically. */
typedef struct Cell {
	LlKernel *k;
	const LNode *n;
	const char *at;   /* its address, an i64 */
	const char *bits; /* LLVM's integer type of its size */
	const char *reg;
	int nbits;
} Cell;

/* The stored form of the cell after VAL is combined with OLD, a stored form. */
static const char *combined(const Cell *c, const char *old, const char *val)
{
	LlKernel *k = c->k;
	const DType t = c->n->store.buf[0]->dtype;
	const char *now = ll_decoded(k, t, as_bits(&k->f, old, c->bits, ll_stored(t)));

	now = ll_combined(k, c->n->store.red, c->n->store.val[0]->ct, now, val);
	return as_bits(&k->f, ll_encoded(k, t, now), ll_stored(t), c->bits);
}

/* Compare-and-swap loop: combines the cell with VAL until no other thread intervenes. A value that
 * would not change is not stored. */
static void swap(const Cell *c, const char *val)
{
	LlFn *f = &c->k->f;
	const char *slot = ll_slot(c->k, c->bits, 0), *old, *now, *made,
		   *seen = ll_set(f,
				  "call %s asm sideeffect \"ld.relaxed.gpu.global.b%d $0, [$1];\", "
				  "\"=%s,l,~{memory}\"(i64 %s)",
				  c->bits, c->nbits, c->reg, c->at);
	const char *retry = ll_label(f, "again"), *try = ll_label(f, "try"),
		   *done = ll_label(f, "done");

	ll_put(f, "store %s %s, ptr %s", c->bits, seen, slot);
	ll_put(f, "br label %%%s", retry);
	ll_begin(f, retry);
	old = ll_set(f, "load %s, ptr %s", c->bits, slot);
	made = combined(c, old, val);
	ll_put(f, "br i1 %s, label %%%s, label %%%s",
	       ll_set(f, "icmp eq %s %s, %s", c->bits, made, old), done, try);
	ll_begin(f, try);
	now = ll_set(
		f,
		"call %s asm sideeffect \"atom.relaxed.gpu.global.cas.b%d $0, [$1], $2, $3;\", "
		"\"=%s,l,%s,%s,~{memory}\"(i64 %s, %s %s, %s %s)",
		c->bits, c->nbits, c->reg, c->reg, c->reg, c->at, c->bits, old, c->bits, made);
	ll_put(f, "store %s %s, ptr %s", c->bits, now, slot);
	ll_put(f, "br i1 %s, label %%%s, label %%%s",
	       ll_set(f, "icmp eq %s %s, %s", c->bits, now, old), done, retry);
	ll_begin(f, done);
}

/* Emits a native atomic operation with CODE, a stored form. */
static void native(const Cell *c, const Native *n, const char *code)
{
	const DType t = c->n->store.buf[0]->dtype;

	ll_put(&c->k->f,
	       "call void asm sideeffect \"red.relaxed.gpu.global.%s [$0], $1;\", "
	       "\"l,%s,~{memory}\"(i64 %s, %s %s)",
	       n->name, register_of(t), c->at, ll_stored(t), code);
}

/* Native operation where it is exact, else a compare-and-swap loop. */
static void native_or_swap(const Cell *c, const Native *n, const char *val)
{
	LlFn *f = &c->k->f;
	const DType t = c->n->store.buf[0]->dtype;
	const char *code = ll_encoded(c->k, t, val),
		   *bits = as_bits(f, code, ll_stored(t), c->bits), *exact,
		   *one = ll_label(f, "native"), *other = ll_label(f, "swap"),
		   *done = ll_label(f, "done");

	exact = ll_op(f, "icmp uge i32", ll_op(f, "and i32", bits, INT32_MAX), n->least);
	ll_put(f, "br i1 %s, label %%%s, label %%%s", exact, one, other);
	ll_begin(f, one);
	native(c, n, code);
	ll_put(f, "br label %%%s", done);
	ll_begin(f, other);
	swap(c, val);
	ll_put(f, "br label %%%s", done);
	ll_begin(f, done);
}

void ll_atomic(LlKernel *k, const LNode *n)
{
	LlFn *f = &k->f;
	const Native *native_op = native_of(k, n->store.red, n->store.buf[0]->dtype);
	const int bits = dtype_info[n->store.buf[0]->dtype].bits;
	Cell c = {.k = k,
		  .n = n,
		  .nbits = bits,
		  .bits = arena_printf(f->arena, "i%d", bits),
		  .reg = bits == 64   ? "l"
			 : bits == 32 ? "r"
				      : "h"};
	const char *guard, *val, *type, *at;

	assert(n->store.nout == 1 && ll_space(k, n->store.buf[0]) == 1 && ll_alone(k) &&
	       bits >= 16);
	ll_forget(f);
	guard = n->store.guard ? ll_open_if(k, ll_expr(f, n->store.guard)) : NULL;
	val = ll_expr(f, n->store.val[0]);
	at = ll_pointer(k, n->store.buf[0], ll_expr(f, n->store.idx), 1, true, &type);
	c.at = ll_set(f, "ptrtoint %s %s to i64", type, at);
	if (native_op && native_op->least)
		native_or_swap(&c, native_op, val);
	else if (native_op)
		native(&c, native_op, ll_encoded(k, n->store.buf[0]->dtype, val));
	else
		swap(&c, val);
	ll_forget(f);
	ll_close_if(k, guard);
}
