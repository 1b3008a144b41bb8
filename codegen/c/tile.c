/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The micro-kernel acc[i][j] = sum over k of a(i, k) * b(k, j), for a tile of mr rows by nr
 * columns. It is an outer product for each k, with the accumulators in vector registers, A
 * broadcast, and B from a panel. It uses GNU vector types, from which gcc and clang generate the
 * same code. Contraction to fma is enabled for these sums of products alone (the rule of `mad`). A
 * tile with few valid rows runs a shorter function.
 *
 * Terms of bytes are multiplied four at a time, u8 by i8, and added to i32 lanes by the
 * function dot_u8_i8. It is one instruction on targets that have it, and portable C on other targets than x86-64 or if
 * DL_PORTABLE_DOT is defined. Other x86-64 CPUs have an instruction that adds products in pairs, saturating at 16
 * bits: it is exact if the two bytes of B add up to -128 to 127 (dot_narrow). The terms of B for which they do not
 * are searched when a panel is first used (dot_find). These terms alone are widened to 16 bits in registers, the even
 * bytes first and then the odd ones (dot_even, dot_odd), so that all results are exact. They take 1.4 times as long.
 *
 * A panel of f16 or bf16 is read as floats, by a function of codegen/c/tile_wide.c.
 */
#include "codegen/c/tile.h"

#include "codegen/c/expr.h"
#include "codegen/c/gen_c_impl.h"
#include "codegen/targets.h"

#include <string.h>

const char *c_tile_use(GenC *g, const Tile *t)
{
	const char *key = arena_printf(
		g->arena, "tile_%s_%dx%d%s%s%s%s%s%s", ctype_name[t->ct], t->mr, t->nr,
		t->quad == 1           ? ""
		: t->a->dtype == DT_U8 ? "_u8_i8"
				       : "_i8_u8",
		c_tile_pairs(g, t) ? "_pairs" : "", t->runs ? "_runs" : "",
		t->scale || c_tile_widens(t)
			? arena_printf(g->arena, "_%s", dtype_info[t->b->dtype].name)
			: "",
		t->zero ? "_zero" : "",
		t->row_scale ? arena_printf(g->arena, "_rows%lld", (long long)t->row_group) : "");

	for (int i = 0; i < g->tiles.n; i++)
		if (!strcmp(g->tiles.at[i], key))
			return g->tiles.at[i];
	vec_push(g->arena, &g->tiles, key);
	vec_push(g->arena, &g->tile, *t);
	return key;
}

/* ---- Products of bytes ---- */

static bool uses_dot(const GenC *g)
{
	for (int i = 0; i < g->tile.n; i++)
		if (g->tile.at[i].quad > 1 || g->tile.at[i].row_scale)
			return true;
	return false;
}

bool c_tile_pairs(const GenC *g, const Tile *t)
{
	return t->quad > 1 && target_is_x86(g->target) && g->target->dot == DOT_PAIRS &&
	       t->a->dtype == DT_U8 && t->b->kind == BUF_IN;
}

static bool uses_pairs(const GenC *g)
{
	for (int i = 0; i < g->tile.n; i++)
		if (c_tile_pairs(g, &g->tile.at[i]))
			return true;
	return false;
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

/* Prints what finds the terms of a panel that dot_narrow must not take. */
static void put_find(const GenC *g, StrBuf *b)
{
	const int bytes = g->target->vector_bytes;

	strbuf_printf(
		b,
		"/* These terms of a panel, in order; from the last one on, none is known. */\n"
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

/* The name of the sums of row I and column vector J in SET. */
static const char *sums_of(const GenC *g, int i, int j, int set)
{
	return set ? arena_printf(g->arena, "c%d_%d_%d", i, j, set)
		   : arena_printf(g->arena, "c%d_%d", i, j);
}

/* The term of row I and column vector J; of bytes, by the function DOT. */
static void put_term(const GenC *g, StrBuf *b, const Tile *t, int i, int j, int set,
		     const char *dot, const char *tabs)
{
	if (t->quad == 1)
		strbuf_printf(b, "%s\t%s += *a%d * b%d;\n", tabs, sums_of(g, i, j, set), i, j);
	else if (t->a->dtype == DT_U8)
		strbuf_printf(b, "%s\tc%d_%d = %s(c%d_%d, q%d, b%d);\n", tabs, i, j, dot, i, j, i,
			      j);
	else
		strbuf_printf(b, "%s\tc%d_%d = %s(c%d_%d, b%d, q%d);\n", tabs, i, j, dot, i, j, j,
			      i);
}

/* ---- The functions ---- */

/* The element type of A and of B. */
static const char *type_of(const Tile *t, const Buf *operand)
{
	return t->quad > 1 || t->row_scale || (operand == t->b && c_tile_widens(t))
		       ? c_memory_type(operand->dtype)
		       : c_type(t->ct);
}

/* The parameters of a micro-kernel between "n, first, a" and "b": how A is read. */
static void put_parameters(StrBuf *b, const Tile *t, const char *type)
{
	if (t->runs)
		strbuf_printf(
			b,
			"const %s *edge, const int64_t *row, int64_t row_step, int64_t run, int64_t k0, int64_t a_step,\n",
			type);
	else
		strbuf_puts(b, "const int64_t *row, int64_t a_step,\n");
}

/* The products of one term, into the sums of SET. */
static void put_products(const GenC *g, StrBuf *b, const Tile *t, int rows, int nv, int set,
			 const char *dot, const char *tabs)
{
	const int lanes = c_tile_lanes(g, t);

	for (int j = 0; j < nv; j++)
		strbuf_printf(b, "%s\tconst vec b%d = %s(b + %d);\n", tabs, j,
			      c_tile_widens(t) ? c_tile_wide(g, t) : "*(const vec *)",
			      j * lanes * t->quad);
	for (int i = 0; i < rows; i++) {
		if (t->quad > 1)
			strbuf_printf(b, "%s\tvec q%d = (vec){0} + *(const dot_word *)a%d;\n", tabs,
				      i, i);
		/* else clang masks the word before it is broadcast, with two instructions for one */
		if (!strcmp(dot, "dot_even"))
			strbuf_printf(b, "%s\tDL_PIN(q%d);\n", tabs, i);
		for (int j = 0; j < nv; j++)
			put_term(g, b, t, i, j, set, dot, tabs);
	}
}

/* Moves on to the next term. */
static void put_next(StrBuf *b, int rows, const char *tabs)
{
	for (int i = 0; i < rows; i++)
		strbuf_printf(b, "%s\ta%d += a_step;\n", tabs, i);
	strbuf_printf(
		b,
		"%s\t__builtin_prefetch(ahead, 0, 2);\n%s\tahead += ahead_step;\n%s\tb += b_step;\n",
		tabs, tabs, tabs);
}

/* A term that is widened: all even bytes, then all odd ones. Between the two the operands are read again, as registers
 * have no room for them beside the sums. */
static void put_wide_term(const GenC *g, StrBuf *b, const Tile *t, int rows, int nv,
			  const char *tabs)
{
	const char *in = arena_printf(g->arena, "%s\t", tabs);

	strbuf_printf(b, "%s\t{\n", tabs);
	put_products(g, b, t, rows, nv, 0, "dot_even", in);
	strbuf_printf(b, "%s\t}\n%s\t__asm__ volatile(\"\" ::: \"memory\");\n%s\t{\n", tabs, tabs,
		      tabs);
	put_products(g, b, t, rows, nv, 0, "dot_odd", in);
	strbuf_printf(b, "%s\t}\n", tabs);
	put_next(b, rows, tabs);
}

/* The loop over terms k to END of a tile whose rows of A start at a0, a1 and so on. */
static void put_terms(const GenC *g, StrBuf *b, const Tile *t, int rows, int nv, const char *end,
		      const char *tabs)
{
	const char *in = c_tile_pairs(g, t) ? arena_printf(g->arena, "%s\t", tabs) : tabs,
		   *last = in == tabs ? end : "narrow";

	strbuf_puts(b, "\n");
	if (in != tabs)
		strbuf_printf(
			b,
			"%swhile (k < %s) {\n%sconst int64_t narrow = *wide < %s ? *wide : %s;\n\n",
			tabs, end, in, end, end);
	strbuf_printf(b, "%sfor (; k < %s; k++) {\n", in, last);
	put_products(g, b, t, rows, nv, 0, in == tabs ? "dot_u8_i8" : "dot_narrow", in);
	put_next(b, rows, in);
	strbuf_printf(b, "%s}\n", in);
	if (in == tabs)
		return;
	strbuf_printf(b, "%sif (k < %s) {\n", in, end);
	put_wide_term(g, b, t, rows, nv, in);
	strbuf_printf(b, "%s\tk++;\n%s\twide += wide < last_wide;\n%s}\n%s}\n", in, in, in, tabs);
}

/* Sums for each element of a tile of ROWS rows: several where few rows of a panel of halves, which is read twice as fast as one of
 * floats, would wait for the latency of the multiply-add. */
static int sets_of(const Tile *t, int rows, int nv)
{
	const int sets = HALF_SUMS / (rows * nv);

	return c_tile_widens(t) && !t->runs && sets > 1 ? sets : 1;
}

/* The loop over as many terms to END as there are SETS of sums; then the sums are added. Terms that are left over
 * are put_terms'. */
static void put_sets(const GenC *g, StrBuf *b, const Tile *t, int rows, int nv, int sets)
{
	strbuf_printf(b, "\n\t\twhile (k + %d <= end) {\n", sets);
	for (int set = 0; set < sets; set++) {
		strbuf_puts(b, "\t\t\t{\n");
		put_products(g, b, t, rows, nv, set, "", "\t\t\t");
		put_next(b, rows, "\t\t\t");
		strbuf_puts(b, "\t\t\t}\n");
	}
	strbuf_printf(b, "\t\t\tk += %d;\n\t\t}\n", sets);
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < nv; j++)
			for (int set = 1; set < sets; set++)
				strbuf_printf(b, "\t\t%s += %s;\n", sums_of(g, i, j, 0),
					      sums_of(g, i, j, set));
}

/* As put_terms, by runs of A's rows: the current one has terms left until k is LAST. */
static void put_runs(const GenC *g, StrBuf *b, const Tile *t, int rows, int nv)
{
	const char *type = type_of(t, t->a);

	strbuf_puts(
		b,
		"\n\t\twhile (k < end) {\n\t\t\tconst int64_t last = end - k < run - in ? end : k + run - in;\n");
	for (int i = 0; i < rows; i++) {
		strbuf_printf(b, "\t\t\tconst %s *a%d = in * a_step + ", type, i);
		strbuf_printf(b,
			      t->edge ? "(row[%d] < 0 ? edge - 1 - row[%d] : a + row[%d]);\n"
				      : "(a + row[%d]);\n",
			      i, i, i);
	}
	strbuf_puts(b, "\n\t\t\tin += last - k;\n");
	put_terms(g, b, t, rows, nv, "last", "\t\t\t");
	strbuf_puts(
		b,
		"\t\t\tif (in == run) {\n\t\t\t\tin = 0;\n\t\t\t\trow += row_step;\n\t\t\t}\n\t\t}\n");
}

/* The parameters of a micro-kernel from "b" on, with types; or, if not DECLARE, their names. */
static const char *last_parameters(GenC *g, const Tile *t, bool declare)
{
	if (t->scale && declare)
		return arena_printf(
			g->arena,
			"const uint8_t *b, int64_t b_step, %sconst float *scale,%s int64_t group, float *acc",
			t->row_scale ? "const float *row_scale, " : "",
			t->zero ? " const float *zero," : "");
	if (t->scale)
		return arena_printf(g->arena, "b, b_step, %sscale,%s group, acc",
				    t->row_scale ? "row_scale, " : "", t->zero ? " zero," : "");
	return declare ? arena_printf(
				 g->arena,
				 "const %s *b, int64_t b_step, const char *ahead, int64_t ahead_step, %s%s *acc",
				 type_of(t, t->b), c_tile_pairs(g, t) ? "dot_wide *found, " : "",
				 c_type(t->ct))
	       : c_tile_pairs(g, t) ? "b, b_step, ahead, ahead_step, found, acc"
				    : "b, b_step, ahead, ahead_step, acc";
}

static void rows_function(GenC *g, StrBuf *b, const Tile *t, const char *key, int rows)
{
	const char *type = c_type(t->ct), *a = type_of(t, t->a);
	const int esize = dtype_info[ctype_dtype(t->ct)].bits / 8, lanes = c_tile_lanes(g, t),
		  nv = t->nr / lanes, sets = sets_of(t, rows, nv);

	strbuf_printf(b, "%s static void %s_%d(int64_t n, int first, const %s *a, ",
		      t->quad > 1 ? "DL_DOT" : "DL_CONTRACT", key, rows, a);
	put_parameters(b, t, a);
	strbuf_printf(b, "\t\t%s)\n{\n%s", last_parameters(g, t, true),
		      t->quad > 1 ? "" : "\tDL_CONTRACT_ON\n");
	strbuf_printf(
		b, "\ttypedef %s vec __attribute__((vector_size(%d), aligned(%d), may_alias));\n",
		type, lanes * esize, esize);
	if (c_tile_pairs(g, t))
		strbuf_puts(
			b,
			"\tconst int32_t *wide = found->at, *last_wide = wide + found->count;\n");
	if (t->runs)
		strbuf_printf(b, "\tint64_t in = k0 %% run;\n%s\n\trow += k0 / run * row_step;\n",
			      t->edge ? "" : "\n\t(void)edge;");
	for (int i = 0; i < rows && !t->runs; i++)
		strbuf_printf(b, "\tconst %s *a%d = a + row[%d];\n", a, i, i);
	strbuf_printf(
		b,
		"\n\tfor (int64_t k = 0; first || k < n; first = 0) {\n\t\tconst int64_t end = n - k > %d ? k + %d : n;\n",
		TILE_DEPTH, TILE_DEPTH);
	for (int i = 0; i < rows; i++) {
		strbuf_puts(b, "\t\tvec ");
		for (int j = 0; j < nv * sets; j++)
			strbuf_printf(b, "%s%s = {0}", j ? ", " : "",
				      sums_of(g, i, j / sets, j % sets));
		strbuf_puts(b, ";\n");
	}
	if (sets > 1)
		put_sets(g, b, t, rows, nv, sets);
	if (t->runs)
		put_runs(g, b, t, rows, nv);
	else
		put_terms(g, b, t, rows, nv, "end", "\t\t");
	strbuf_puts(b, "\t\tif (!first) {\n");
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < nv; j++)
			strbuf_printf(b, "\t\t\tc%d_%d += *(const vec *)(acc + %d);\n", i, j,
				      i * t->nr + j * lanes);
	strbuf_puts(b, "\t\t}\n");
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < nv; j++)
			strbuf_printf(b, "\t\t*(vec *)(acc + %d) = c%d_%d;\n",
				      i * t->nr + j * lanes, i, j);
	strbuf_puts(b, "\t}\n");
	strbuf_puts(b, "}\n\n");
}

static void tile_function(GenC *g, StrBuf *b, const Tile *t, const char *key)
{
	const char *a = type_of(t, t->a),
		   *how = t->runs ? "edge, row, row_step, run, k0, a_step" : "row, a_step";
	int sizes[8], n = 0;

	for (int r = t->mr; r >= 1; r = r > 4 ? 4 : r > 2 ? 2 : r - 1) {
		sizes[n++] = r;
		if (t->row_scale)
			c_tile_scaled_rows(g, b, t, key, r, last_parameters(g, t, true));
		else if (t->scale)
			c_tile_scaled(g, b, t, key, r, last_parameters(g, t, true));
		else
			rows_function(g, b, t, key, r);
	}
	strbuf_printf(b, "static inline void %s(int64_t valid, int64_t n, int first, const %s *a, ",
		      key, a);
	put_parameters(b, t, a);
	strbuf_printf(b, "\t\t%s)\n{\n", last_parameters(g, t, true));
	if (c_tile_pairs(g, t))
		strbuf_printf(
			b,
			"\tif (found->of != b || found->n != n)\n\t\tdot_find(found, b, n, b_step, %d);\n",
			t->nr * t->quad);
	for (int i = 0; i < n; i++) {
		strbuf_puts(b, i ? "\telse" : "\t");
		if (i + 1 < n)
			strbuf_printf(b, "%sif (valid > %d)", i ? " " : "", sizes[i + 1]);
		if (n == 1)
			strbuf_puts(b, "(void)valid;\n\t\t");
		strbuf_printf(b, "%s%s_%d(n, first, a, %s, %s);\n", n == 1 ? "" : "\n\t\t", key,
			      sizes[i], how, last_parameters(g, t, false));
	}
	strbuf_puts(b, "}\n\n");
}

void c_tiles(GenC *g, StrBuf *b)
{
	if (uses_dot(g))
		put_dot(g, b);
	if (uses_pairs(g))
		put_find(g, b);
	c_tile_wide_functions(g, b);
	for (int i = 0; i < g->tiles.n; i++)
		tile_function(g, b, &g->tile.at[i], g->tiles.at[i]);
}
