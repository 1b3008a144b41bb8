/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of bytes: the function dot_u8_i8 adds to each i32 lane the four products of a lane of u8
 * by one of i8. It is one instruction on targets that have it, and portable C on targets without
 * any such instruction or if DL_PORTABLE_DOT is defined: on x86-64, `--cc="gcc -DDL_PORTABLE_DOT"`
 * gives an artifact that runs without it.
 *
 * Other x86-64 CPUs have an instruction that adds products of u8 by i8 in pairs, saturating at 16
 * bits (dot_narrow). Panels of constants say for which terms that is exact
 * (passes/layout/panels_order.c): the narrow ones. For wide terms an identity makes the pairs fit,
 * for all bytes: with ~x = -x - 1,
 *
 *     u * s = |s| * (u - 128) + 128 * s       if s >= 0
 *     u * s = |s| * ~(u - 128) + 127 * s      if s < 0
 *
 * where the first factor of the first product is at most 128, and the second from -128 to 127. The
 * second products are constants of the column, and its sum begins with their sum. A wide term takes
 * 1.6 times as long as a narrow one, or 1.3 times if the panel has the bytes that flip the second
 * factor: 14.1, 11.7 and 8.8 cycles for 4x16 sums on a CPU with three units for vectors. Panels of
 * few terms have these bytes; other ones would need twice the memory for a few wide terms.
 *
 * Sums of integers do not depend on the order of their terms, so each block of 64 terms has the
 * narrow ones first. In mixed order each change between the two kinds would be a mispredicted
 * branch. The number of the next term is read from the panel: found in the bits, by
 * instructions that wait for the unit of the products, it came too late for the loads, and a narrow
 * term took 10.8 cycles instead of 9.1.
 *
 * Panels that are packed at run time have no order: all their terms are widened to 16 bits in
 * registers, the even bytes and then the odd ones, which takes 1.5 times as long.
 *
 * Products of bf16: the function dot_bf16 adds to each f32 lane the products of a pair of bf16 by
 * another pair, as for bytes by one instruction or by portable C.
 */
#include "codegen/c/tile.h"

#include "codegen/c/gen_c_impl.h"
#include "codegen/c/text.h"
#include "codegen/targets.h"

bool c_tile_pairs(const GenC *g, const Tile *t)
{
	return t->order.sums_at && g->target->dot == DOT_PAIRS;
}

/* Prints TO = OP(FROM, BY) for vectors of the target. Without VEX, OP overwrites its first operand,
 * so FROM is copied to TO first. */
static const char *x86(const GenC *g, const char *op, const char *to, const char *from,
		       const char *by)
{
	const char *reg = g->target->vector_bytes == 64 ? "v" : "x";

	if (g->target->vector_bytes == 16)
		return arena_printf(
			g->arena,
			"\t%s = (dot_words)(%s);\n\t__asm__(\"%s %%1, %%0\" : \"+x\"(%s) : \"x\"(%s));\n",
			to, from, op, to, by);
	return arena_printf(
		g->arena,
		"\t__asm__(\"v%s %%2, %%1, %%0\" : \"=%s\"(%s) : \"%s\"(%s), \"%s\"(%s));\n", op,
		reg, to, reg, from, reg, by);
}

/* The instructions for C += dot(U, S) of vectors, four bytes for each lane. If the target has no
 * dot product of bytes, pmaddubsw adds pairs, saturating at 16 bits. Null: it has neither. */
static const char *dot_of(const GenC *g)
{
	const Target *t = g->target;
	const char *reg = t->vector_bytes == 64 ? "v" : "x";

	if (!target_is_x86(t))
		return t->dot == DOT_BYTES
			       ? "\t__asm__(\"usdot %0.4s, %1.16b, %2.16b\" : \"+w\"(c) : \"w\"(u), \"w\"(s));\n"
			       : NULL;
	if (t->dot == DOT_BYTES)
		return arena_printf(
			g->arena,
			"\t__asm__(\"%svpdpbusd %%2, %%1, %%0\" : \"+%s\"(c) : \"%s\"(u), \"%s\"(s));\n",
			t->vector_bytes == 64 ? "" : "%{vex%} ", reg, reg, reg);
	return arena_printf(g->arena, "\tdot_words sums;\n\n%s%s\tc += (dot_lanes)sums;\n",
			    x86(g, "pmaddubsw", "sums", "u", "s"),
			    x86(g, "pmaddwd", "sums", "sums", "(dot_words){0} + 1"));
}

/* Prints the function dot_u8_i8: each lane of C plus the four products of a lane of U by one of
 * S. Where sums of pairs saturate, the instruction is that of dot_narrow, which requires that each
 * pair of S adds up to -128 to 127, and dot_u8_i8 takes any bytes by widening them to 16 bits. */
static void put_dot(const GenC *g, StrBuf *b)
{
	const Target *t = g->target;
	const bool wide = t->vector_bytes == 64, pairs = target_is_x86(t) && t->dot == DOT_PAIRS;
	const char *instruction = dot_of(g);
	const CWord *words = C_WORDS(
		{"NAME", pairs ? "dot_narrow" : "dot_u8_i8", 0}, {"INSTRUCTION", instruction, 0},
		{"FEATURE", wide ? "avx512vnni" : "avxvnni", 0}, {"REGISTER", wide ? "v" : "x", 0},
		{"BYTES", NULL, t->vector_bytes},
		{"PRODUCTS", pairs ? x86(g, "pmaddwd", "sums", "w", "v") : "", 0});

	if (pairs)
		strbuf_puts(b, c_text(g->arena, "dot: types for pairs", words));
	if (target_is_x86(t) && t->dot == DOT_BYTES)
		strbuf_puts(b, c_text(g->arena, "dot: target", words));
	else
		strbuf_puts(b, "#define DL_DOT\n");
	strbuf_puts(b,
		    c_text(g->arena, instruction ? "dot: by an instruction" : "dot: in C", words));
	if (pairs)
		strbuf_puts(b, c_text(g->arena, "dot: of 16 bits", words));
}

static void put_dot_bf16(const GenC *g, StrBuf *b)
{
	const bool has = g->target->bf16;

	strbuf_puts(b,
		    c_text(g->arena, "dot: of bf16",
			   C_WORDS({"BYTES", NULL, g->target->vector_bytes},
				   {"INSTRUCTION",
				    has ? c_text(g->arena, "dot: of bf16, by an instruction", NULL)
					: "",
				    0},
				   {"END", has ? "#endif\n" : "", 0})));
}

/* ---- The functions of all tiles ---- */

void c_tile_dot_functions(const GenC *g, StrBuf *b)
{
	bool words = false, dot = false, pairs = false, bf16 = false;

	VEC_EACH_AT (t, &g->tile) {
		if (t->matrix)
			continue;
		dot = dot || (t->kpack > 1 && t->ct == CT_I32) || t->scaled.row_scale;
		words = words || t->kpack > 1 || t->scaled.row_scale;
		pairs = pairs || c_tile_pairs(g, t);
		bf16 = bf16 || (t->kpack > 1 && t->a->dtype == DT_BF16);
	}
	if (words)
		strbuf_puts(b, c_text(g->arena, "dot: types",
				      C_WORDS({"BYTES", NULL, g->target->vector_bytes})));
	if (dot)
		put_dot(g, b);
	if (bf16)
		put_dot_bf16(g, b);
	if (pairs)
		strbuf_puts(b, c_text(g->arena, "dot: wide terms",
				      C_WORDS({"BYTES", NULL, g->target->vector_bytes})));
}
