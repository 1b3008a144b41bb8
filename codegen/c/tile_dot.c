/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of bytes: the function dot_u8_i8 adds to each i32 lane the four products of a lane of u8 by one of i8. It
 * is one instruction on targets that have it, and portable C on other targets than x86-64 or if DL_PORTABLE_DOT is
 * defined.
 *
 * Other x86-64 CPUs have an instruction that adds products in pairs, saturating at 16 bits: it is exact if the two i8
 * bytes add up to -128 to 127 (dot_narrow). The terms of a panel for which they do not are searched when the panel is
 * first used (dot_find). These terms alone are widened to 16 bits in registers, the even bytes first and then the
 * odd ones (dot_even, dot_odd), so that all results are exact. They take 1.4 times as long.
 */
#include "codegen/c/tile.h"

#include "codegen/c/gen_c_impl.h"
#include "codegen/targets.h"

bool c_tile_pairs(const GenC *g, const Tile *t)
{
	return t->quad > 1 && target_is_x86(g->target) && g->target->dot == DOT_PAIRS &&
	       t->a->dtype == DT_U8 && t->b->kind == BUF_IN;
}

/* Prints an instruction of two operands for vectors of the target, which replaces TO, or with VEX is of FROM. */
static void put_x86(StrBuf *b, const Target *t, const char *op, const char *to, const char *from,
		    const char *by)
{
	const char *reg = t->vector_bytes == 64 ? "v" : "x";

	if (t->vector_bytes == 16)
		strbuf_printf(
			b,
			"\t%s = (dot_words)(%s);\n\t__asm__(\"%s %%1, %%0\" : \"+x\"(%s) : \"x\"(%s));\n",
			to, from, op, to, by);
	else
		strbuf_printf(
			b,
			"\t__asm__(\"v%s %%2, %%1, %%0\" : \"=%s\"(%s) : \"%s\"(%s), \"%s\"(%s));\n",
			op, reg, to, reg, from, reg, by);
}

/* Prints the declaration of SUMS, those of pairs of products of U and S, which saturate at 16 bits. */
static void put_pairs(StrBuf *b, const Target *t, const char *u)
{
	strbuf_puts(b, "\tdot_words sums;\n\n");
	put_x86(b, t, "pmaddubsw", "sums", u, "s");
}

/* Prints the instructions for vectors on x86-64: C += U * S, by fours. Sums of pairs saturate at 16 bits
 * without a dot product of bytes. */
static void put_x86_dot(StrBuf *b, const Target *t)
{
	const int bytes = t->vector_bytes;
	const char *reg = bytes == 64 ? "v" : "x";

	if (t->dot == DOT_BYTES) {
		strbuf_printf(
			b,
			"\t__asm__(\"%svpdpbusd %%2, %%1, %%0\" : \"+%s\"(c) : \"%s\"(u), \"%s\"(s));\n",
			bytes == 64 ? "" : "%{vex%} ", reg, reg, reg);
		return;
	}
	put_pairs(b, t, "u");
	put_x86(b, t, "pmaddwd", "sums", "sums", "(dot_words){0} + 1");
	strbuf_puts(b, "\tc += (dot_lanes)sums;\n");
}

/* Prints dot_find, which finds the terms of a panel that dot_narrow must not take. It looks at blocks of eight terms, so that
 * most of them are passed with one test. */
static void put_find(const GenC *g, StrBuf *b)
{
	const int bytes = g->target->vector_bytes;

	strbuf_printf(
		b,
		"/* The wide terms of the panel OF, which has N: at[0 .. count), and all from at[count] on. */\n"
		"typedef struct dot_wide {\n"
		"\tconst int8_t *of;\n"
		"\tint64_t n, count;\n"
		"\tint32_t at[%d];\n"
		"} dot_wide;\n\n"
		"/* Sums of pairs of S. */\n"
		"static inline __attribute__((always_inline)) dot_words dot_sums(dot_lanes s)\n{\n"
		"#ifndef DL_PORTABLE_DOT\n",
		MOST_WIDE + 8);
	put_pairs(b, g->target, "(dot_lanes){0} + 0x01010101");
	strbuf_printf(
		b,
		"\treturn sums;\n#else\n"
		"\treturn ((dot_words)s << 8 >> 8) + ((dot_words)s >> 8);\n#endif\n}\n\n"
		"/* Bits beyond the lowest eight are set where pairs of the BYTES at S do not add up to -128 to 127. */\n"
		"static inline __attribute__((always_inline)) dot_words dot_far(const int8_t *s, int bytes)\n{\n"
		"\tdot_words far = {0};\n\n"
		"\tfor (int i = 0; i < bytes; i += %d)\n"
		"\t\tfar |= dot_sums(*(const dot_lanes *)(s + i)) + 128;\n"
		"\treturn far;\n}\n\n"
		"static inline int dot_is_wide(dot_words far)\n{\n"
		"\tint64_t part[%d], any = 0;\n\n"
		"\t__builtin_memcpy(part, &far, sizeof(part));\n"
		"\tfor (int i = 0; i < %d; i++)\n"
		"\t\tany |= part[i];\n"
		"\treturn (any & (int64_t)0xff00ff00ff00ff00u) != 0;\n}\n\n"
		"/* The panel at S has N rows of BYTES with a distance of STEP. */\n"
		"static __attribute__((noinline)) void dot_find(dot_wide *wide, const int8_t *s, int64_t n, int64_t step, int bytes)\n{\n"
		"\tint64_t k = 0, count = 0;\n\n"
		"\tfor (; k < n && count < %d && count <= k / 2 + 4; k += 8) {\n"
		"\t\tconst int64_t end = n - k < 8 ? n : k + 8;\n"
		"\t\tdot_words far = {0};\n\n"
		"\t\tfor (int64_t i = k; i < end; i++)\n"
		"\t\t\tfar |= dot_far(s + i * step, bytes);\n"
		"\t\tfor (int64_t i = k; i < end && dot_is_wide(far); i++) {\n"
		"\t\t\twide->at[count] = (int32_t)i;\n"
		"\t\t\tcount += dot_is_wide(dot_far(s + i * step, bytes));\n"
		"\t\t}\n"
		"\t}\n"
		"\twide->of = s;\n"
		"\twide->n = n;\n"
		"\twide->at[count] = (int32_t)(k < n ? k : n);\n"
		"\twide->count = count;\n}\n\n",
		bytes, bytes / 8, bytes / 8, MOST_WIDE);
}

/* Prints dot_even and dot_odd, two of the four products of each lane in 16 bits, which are exact for all bytes. */
static void put_wide_dot(StrBuf *b, const Target *t, const char *head)
{
	static const struct {
		const char *name, *u, *s, *portable;
	} half[] = {
		{"even", "(dot_words)u & 255", "(dot_words)s << 8 >> 8",
		 "\tc += (u & 255) * (s << 24 >> 24);\n\treturn c + (u >> 16 & 255) * (s << 8 >> 24);\n"},
		{"odd", "(dot_words)((dot_uwords)u >> 8)", "(dot_words)s >> 8",
		 "\tc += (u >> 8 & 255) * (s << 16 >> 24);\n\treturn c + (dot_lanes)((dot_ulanes)u >> 24) * (s >> 24);\n"},
	};

	strbuf_printf(b,
		      "/* The compiler takes V for a new value, which it keeps in a register. */\n"
		      "#define DL_PIN(v) __asm__(\"\" : \"+%s\"(v))\n\n",
		      t->vector_bytes == 64 ? "v" : "x");
	for (int i = 0; i < 2; i++) {
		strbuf_printf(b,
			      "%s dot_%s(dot_lanes c, dot_lanes u, dot_lanes s)\n{\n"
			      "#ifndef DL_PORTABLE_DOT\n"
			      "\tconst dot_words w = %s, v = %s;\n\tdot_words sums;\n\n",
			      head, half[i].name, half[i].u, half[i].s);
		put_x86(b, t, "pmaddwd", "sums", "w", "v");
		/* else sums of even bytes would wait in memory for those of odd ones */
		strbuf_printf(
			b,
			"\tc += (dot_lanes)sums;\n\tDL_PIN(c);\n\treturn c;\n#else\n%s#endif\n}\n\n",
			half[i].portable);
	}
	strbuf_printf(
		b,
		"%s dot_u8_i8(dot_lanes c, dot_lanes u, dot_lanes s)\n{\n\treturn dot_odd(dot_even(c, u, s), u, s);\n}\n\n",
		head);
}

/* Prints the function dot_u8_i8: each lane of C plus the four products of a lane of U by one of S. Where sums of pairs
 * saturate, that function is dot_narrow, for bytes of S whose pairs add up to -128 to 127, and dot_u8_i8 widens them. */
static void put_dot(const GenC *g, StrBuf *b)
{
	const Target *t = g->target;
	const bool x86 = target_is_x86(t), pairs = x86 && t->dot == DOT_PAIRS;
	const char *head = "static inline __attribute__((always_inline)) dot_lanes";

	strbuf_printf(
		b,
		"typedef int32_t dot_lanes __attribute__((vector_size(%d), aligned(1), may_alias));\n"
		"typedef uint32_t dot_ulanes __attribute__((vector_size(%d)));\n"
		"typedef int32_t dot_word __attribute__((aligned(1), may_alias));\n",
		t->vector_bytes, t->vector_bytes);
	if (pairs)
		strbuf_printf(b,
			      "typedef int16_t dot_words __attribute__((vector_size(%d)));\n"
			      "typedef uint16_t dot_uwords __attribute__((vector_size(%d)));\n",
			      t->vector_bytes, t->vector_bytes);
	strbuf_printf(b, "#define DL_DOT%s\n",
		      t->dot != DOT_BYTES || !x86 ? ""
		      : t->vector_bytes == 64     ? " __attribute__((target(\"avx512vnni\")))"
						  : " __attribute__((target(\"avxvnni\")))");
	strbuf_printf(b, "\nDL_DOT %s %s(dot_lanes c, dot_lanes u, dot_lanes s)\n{\n", head,
		      pairs ? "dot_narrow" : "dot_u8_i8");
	if (x86) {
		strbuf_puts(b, "#ifndef DL_PORTABLE_DOT\n");
		put_x86_dot(b, t);
		strbuf_puts(b, "\treturn c;\n#else\n");
	}
	strbuf_puts(b, "\tc += (u & 255) * (s << 24 >> 24);\n"
		       "\tc += (u >> 8 & 255) * (s << 16 >> 24);\n"
		       "\tc += (u >> 16 & 255) * (s << 8 >> 24);\n"
		       "\treturn c + (dot_lanes)((dot_ulanes)u >> 24) * (s >> 24);\n");
	strbuf_puts(b, x86 ? "#endif\n}\n\n" : "}\n\n");
	if (pairs)
		put_wide_dot(b, t, head);
}

/* ---- The functions of all tiles ---- */

void c_tile_dot_functions(const GenC *g, StrBuf *b)
{
	bool dot = false, pairs = false;

	for (int i = 0; i < g->tile.n; i++) {
		const Tile *t = &g->tile.at[i];

		dot = dot || t->quad > 1 || t->row_scale;
		pairs = pairs || c_tile_pairs(g, t);
	}
	if (dot)
		put_dot(g, b);
	if (pairs)
		put_find(g, b);
}
