/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of bytes: the function dot_u8_i8 adds to each i32 lane the four products of a lane of u8
 * by one of i8. It is one instruction on targets that have it, and portable C on targets without
 * any such instruction or if DL_PORTABLE_DOT is defined: on x86-64, `--cc="gcc -DDL_PORTABLE_DOT"`
 * gives an artifact that runs without it.
 *
 * Other x86-64 CPUs have an instruction that adds products in pairs, saturating at 16 bits: it is
 * exact if the two i8 bytes add up to -128 to 127 (dot_narrow). Other terms are widened to 16 bits
 * in registers, the even bytes first and then the odd ones (dot_even, dot_odd), so that all results
 * are exact. They take 1.4 times as long. Sums of integers do not depend on the order of their
 * terms, so all narrow terms come before all wide ones in each stretch, the terms that a tile reads
 * one after another: those of a block of TILE_DEPTH that are in one run of A (dot_order). Taken as
 * they come, each change between the two kinds would be a mispredicted branch.
 *
 * Products of bf16: the function dot_bf16 adds to each f32 lane the products of a pair of bf16 by
 * another pair, by one instruction or by portable C likewise.
 */
#include "codegen/c/tile.h"

#include "codegen/c/gen_c_impl.h"
#include "codegen/targets.h"

bool c_tile_pairs(const GenC *g, const Tile *t)
{
	return t->kpack > 1 && target_is_x86(g->target) && g->target->dot == DOT_PAIRS &&
	       t->a->dtype == DT_U8 && t->b->kind == BUF_IN;
}

/* Prints an instruction of two operands for vectors of the target, which replaces TO, or with
 * VEX is of FROM. */
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

/* Prints the instructions for vectors on x86-64: C += U * S, by fours. Sums of pairs saturate at
 * 16 bits without a dot product of bytes. */
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

/* Prints dot_find, which finds the order of the terms of a panel. It looks at blocks of eight
 * terms, most of which have no wide one. */
static void put_find(const GenC *g, StrBuf *b)
{
	const int bytes = g->target->vector_bytes;

	strbuf_puts(
		b,
		"/* Sums of pairs of S. */\n"
		"static inline __attribute__((always_inline)) dot_words dot_sums(dot_lanes s)\n{\n"
		"#ifndef DL_PORTABLE_DOT\n");
	put_pairs(b, g->target, "(dot_lanes){0} + 0x01010101");
	strbuf_printf(
		b,
		"\treturn sums;\n#else\n"
		"\treturn ((dot_words)s << 8 >> 8) + ((dot_words)s >> 8);\n#endif\n}\n\n"
		"/* Whether any of COUNT rows of BYTES, with a distance of STEP, has a pair that does not add up to -128 to 127. */\n"
		"static inline __attribute__((always_inline)) int dot_is_wide(const int8_t *s, int64_t count, int64_t step, int bytes)\n{\n"
		"\tdot_words far = {0};\n"
		"\tint64_t part[%d], any = 0;\n\n"
		"\tfor (int64_t i = 0; i < count; i++)\n"
		"\t\tfor (int j = 0; j < bytes; j += %d)\n"
		"\t\t\tfar |= dot_sums(*(const dot_lanes *)(s + i * step + j)) + 128;\n"
		"\t__builtin_memcpy(part, &far, sizeof(part));\n"
		"\tfor (int i = 0; i < %d; i++)\n"
		"\t\tany |= part[i];\n"
		"\treturn (any & (int64_t)0xff00ff00ff00ff00u) != 0;\n}\n\n",
		bytes / 8, bytes, bytes / 8);
	strbuf_printf(
		b,
		"/* Finds the order of panel P, whose rows of BYTES have a distance of STEP. It starts IN terms into a run of A, of RUN terms.\n"
		" * Where more than about half of the terms so far are wide, those that are left are taken as wide, too. */\n"
		"static __attribute__((noinline)) void dot_find(dot_order *order, dot_panel *p, int64_t step, int bytes, int64_t run, int64_t in)\n{\n"
		"\tuint16_t *at = order->at + order->used;\n"
		"\tint64_t k = 0;\n\n"
		"\tp->at = at;\n"
		"\twhile (k < p->n) {\n"
		"\t\tconst int64_t block = (k / %d + 1) * %d, end = block < p->n ? block : p->n,\n"
		"\t\t\t      last = end - k < run - in ? end : k + run - in;\n"
		"\t\tint64_t narrow = 1, wide = last - k;\n\n"
		"\t\tif (at - order->at + 1 + (last - k) > %d)\n"
		"\t\t\tbreak;\n"
		"\t\tfor (int64_t i = 0, count; i < last - k; i += count) {\n"
		"\t\t\tcount = last - k - i < 8 ? last - k - i : 8;\n"
		"\t\t\tif (i - (narrow - 1) > i / 2 + 4) {\n"
		"\t\t\t\tfor (int64_t j = 0; j < count; j++)\n"
		"\t\t\t\t\tat[wide--] = (uint16_t)(i + j);\n"
		"\t\t\t\tcontinue;\n"
		"\t\t\t}\n"
		"\t\t\tif (!dot_is_wide(p->of + (k + i) * step, count, step, bytes)) {\n"
		"\t\t\t\tfor (int64_t j = 0; j < count; j++)\n"
		"\t\t\t\t\tat[narrow++] = (uint16_t)(i + j);\n"
		"\t\t\t\tcontinue;\n"
		"\t\t\t}\n"
		"\t\t\tfor (int64_t j = i; j < i + count; j++) {\n"
		"\t\t\t\tconst int is_wide = dot_is_wide(p->of + (k + j) * step, 1, step, bytes);\n\n"
		"\t\t\t\tat[is_wide ? wide : narrow] = (uint16_t)j;\n"
		"\t\t\t\tnarrow += !is_wide;\n"
		"\t\t\t\twide -= is_wide;\n"
		"\t\t\t}\n"
		"\t\t}\n"
		"\t\tat[0] = (uint16_t)(narrow - 1);\n"
		"\t\tat += 1 + (last - k);\n"
		"\t\tin = (in + last - k) %% run;\n"
		"\t\tk = last;\n"
		"\t}\n"
		"\tp->listed = k;\n"
		"\torder->used = at - order->at;\n}\n\n",
		TILE_DEPTH, TILE_DEPTH, MOST_ORDERED);
}

/* Prints dot_order and its functions. */
static void put_order(const GenC *g, StrBuf *b)
{
	strbuf_printf(
		b,
		"/* The order of the terms of the panel OF, which has N. They come in stretches that end with a run of A or a block of %d\n"
		" * terms. AT has for each stretch the number of its narrow terms, and then its terms, counted from its first one: the narrow\n"
		" * ones, then the wide ones. It has the stretches of the first LISTED terms; the others are all taken as wide, in the order ALL. */\n"
		"typedef struct dot_panel {\n"
		"\tconst int8_t *of;\n"
		"\tint64_t n, listed;\n"
		"\tint64_t rows; /* of the tiles that have read it until its order was found */\n"
		"\tconst uint16_t *at;\n"
		"} dot_panel;\n\n"
		"/* The panels that tiles have read recently, the current one, and how many numbers of AT they use. */\n"
		"typedef struct dot_order {\n"
		"\tdot_panel panel[%d];\n"
		"\tint count, current;\n"
		"\tint64_t used;\n"
		"\tuint16_t at[%d], all[%d];\n"
		"} dot_order;\n\n"
		"static void dot_begin(dot_order *order)\n{\n"
		"\torder->count = order->current = 0;\n"
		"\torder->used = 0;\n"
		"\torder->panel[0].of = 0;\n"
		"\torder->all[0] = 0;\n"
		"\tfor (int i = 0; i < %d; i++)\n"
		"\t\torder->all[1 + i] = (uint16_t)i;\n"
		"}\n\n",
		TILE_DEPTH, MOST_PANELS, MOST_ORDERED, TILE_DEPTH + 1, TILE_DEPTH);
	put_find(g, b);
	strbuf_printf(
		b,
		"/* Makes the panel at S, of N terms, the current one: mostly it follows the last one in the order in which they came first. */\n"
		"static __attribute__((noinline)) dot_panel *dot_select(dot_order *order, const int8_t *s, int64_t n, int64_t run)\n{\n"
		"\tfor (int i = 0; i < order->count; i++) {\n"
		"\t\torder->current = order->current + 1 < order->count ? order->current + 1 : 0;\n"
		"\t\tif (order->panel[order->current].of == s && order->panel[order->current].n == n)\n"
		"\t\t\treturn &order->panel[order->current];\n"
		"\t}\n"
		"\tif (order->count == %d || order->used + n + n / run + n / %d + 3 > %d)\n"
		"\t\torder->count = 0, order->used = 0;\n"
		"\torder->current = order->count++;\n"
		"\torder->panel[order->current] = (dot_panel){s, n, 0, 0, order->at};\n"
		"\treturn &order->panel[order->current];\n}\n\n"
		"/* A tile of ROWS is about to read the panel at S, of N terms. Finding its order costs about as much as narrow terms save on\n"
		" * a few rows, so it is done once more rows have come. */\n"
		"static inline void dot_use(dot_order *order, int64_t rows, const int8_t *s, int64_t n, int64_t step, int bytes, int64_t run, int64_t in)\n{\n"
		"\tdot_panel *p = &order->panel[order->current];\n\n"
		"\tif (p->of != s || p->n != n)\n"
		"\t\tp = dot_select(order, s, n, run);\n"
		"\tif (p->rows > %d)\n"
		"\t\treturn;\n"
		"\tp->rows += rows;\n"
		"\tif (p->rows > %d)\n"
		"\t\tdot_find(order, p, step, bytes, run, in);\n}\n\n",
		MOST_PANELS, TILE_DEPTH, MOST_ORDERED, FEW_ROWS, FEW_ROWS);
}

/* Prints dot_even and dot_odd, two of the four products of each lane in 16 bits, which are exact
 * for all bytes. */
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

/* Prints the types of vectors whose lanes are words of 32 bits, and of such a word. */
static void put_types(const GenC *g, StrBuf *b)
{
	const int bytes = g->target->vector_bytes;

	strbuf_printf(
		b,
		"typedef int32_t dot_lanes __attribute__((vector_size(%d), aligned(1), may_alias));\n"
		"typedef uint32_t dot_ulanes __attribute__((vector_size(%d)));\n"
		"typedef int32_t dot_word __attribute__((aligned(1), may_alias));\n",
		bytes, bytes);
}

/* Prints the function dot_u8_i8: each lane of C plus the four products of a lane of U by one of
 * S. Where sums of pairs saturate, that function is dot_narrow, for bytes of S whose pairs add
 * up to -128 to 127, and dot_u8_i8 widens them. */
static void put_dot(const GenC *g, StrBuf *b)
{
	const Target *t = g->target;
	const bool x86 = target_is_x86(t), pairs = x86 && t->dot == DOT_PAIRS,
		   instruction = x86 || t->dot == DOT_BYTES;
	const char *head = "static inline __attribute__((always_inline)) dot_lanes";

	if (pairs)
		strbuf_printf(b,
			      "typedef int16_t dot_words __attribute__((vector_size(%d)));\n"
			      "typedef uint16_t dot_uwords __attribute__((vector_size(%d)));\n",
			      t->vector_bytes, t->vector_bytes);
	if (x86 && t->dot == DOT_BYTES)
		strbuf_printf(
			b,
			"#ifndef DL_PORTABLE_DOT\n#define DL_DOT __attribute__((target(\"%s\")))\n#else\n#define DL_DOT\n#endif\n",
			t->vector_bytes == 64 ? "avx512vnni" : "avxvnni");
	else
		strbuf_puts(b, "#define DL_DOT\n");
	strbuf_printf(b, "\nDL_DOT %s %s(dot_lanes c, dot_lanes u, dot_lanes s)\n{\n", head,
		      pairs ? "dot_narrow" : "dot_u8_i8");
	if (instruction) {
		strbuf_puts(b, "#ifndef DL_PORTABLE_DOT\n");
		if (x86)
			put_x86_dot(b, t);
		else
			strbuf_puts(
				b,
				"\t__asm__(\"usdot %0.4s, %1.16b, %2.16b\" : \"+w\"(c) : \"w\"(u), \"w\"(s));\n");
		strbuf_puts(b, "\treturn c;\n#else\n");
	}
	strbuf_puts(b, "\tc += (u & 255) * (s << 24 >> 24);\n"
		       "\tc += (u >> 8 & 255) * (s << 16 >> 24);\n"
		       "\tc += (u >> 16 & 255) * (s << 8 >> 24);\n"
		       "\treturn c + (dot_lanes)((dot_ulanes)u >> 24) * (s >> 24);\n");
	strbuf_puts(b, instruction ? "#endif\n}\n\n" : "}\n\n");
	if (pairs)
		put_wide_dot(b, t, head);
}

/* Prints the function dot_bf16: each lane of C plus the products of a pair of X by a pair of Y.
 * The instruction takes subnormal numbers for zero. */
static void put_dot_bf16(const GenC *g, StrBuf *b)
{
	const Target *t = g->target;

	strbuf_printf(b,
		      "typedef float dot_sums_f32 __attribute__((vector_size(%d), may_alias));\n\n",
		      t->vector_bytes);
	if (t->bf16)
		strbuf_puts(
			b,
			"#ifndef DL_PORTABLE_DOT\n"
			"#define DL_DOT_BF16 __attribute__((target(\"avx512bf16\")))\n"
			"static inline __attribute__((always_inline)) dot_sums_f32 dot_bf16(dot_sums_f32 c, dot_lanes x, dot_lanes y)\n{\n"
			"\t__asm__(\"vdpbf16ps %2, %1, %0\" : \"+v\"(c) : \"v\"(x), \"v\"(y));\n"
			"\treturn c;\n}\n"
			"#else\n");
	strbuf_printf(
		b,
		"#define DL_DOT_BF16 DL_CONTRACT\n"
		"DL_CONTRACT static inline __attribute__((always_inline)) dot_sums_f32 dot_bf16(dot_sums_f32 c, dot_lanes x, dot_lanes y)\n{\n"
		"\tDL_CONTRACT_ON\n"
		"\tc += (dot_sums_f32)(x << 16) * (dot_sums_f32)(y << 16);\n"
		"\treturn c + (dot_sums_f32)(x & -65536) * (dot_sums_f32)(y & -65536);\n}\n"
		"%s\n",
		t->bf16 ? "#endif\n" : "");
}

/* ---- The functions of all tiles ---- */

void c_tile_dot_functions(const GenC *g, StrBuf *b)
{
	bool words = false, dot = false, pairs = false, bf16 = false;

	for (int i = 0; i < g->tile.n; i++) {
		const Tile *t = &g->tile.at[i];

		dot = dot || (t->kpack > 1 && t->ct == CT_I32) || t->row_scale;
		words = words || t->kpack > 1 || t->row_scale;
		pairs = pairs || c_tile_pairs(g, t);
		bf16 = bf16 || (t->kpack > 1 && t->a->dtype == DT_BF16);
	}
	if (words)
		put_types(g, b);
	if (dot)
		put_dot(g, b);
	if (bf16)
		put_dot_bf16(g, b);
	if (pairs)
		put_order(g, b);
}
