/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The micro-kernel over a panel of quantised numbers (TileScales.scale in ir/loop/loop.h): numbers
 * of 2, 4 or 8 bits become floats in registers. Each group, or each TILE_DEPTH terms of a longer
 * one, is summed without the scale; the sum is then multiplied by the scale and added to the
 * tile's. So the order of the sums depends only on the shape of the tile.
 *
 * Several terms of a column that fill a word of 32 bits are taken from it one after the other, by
 * shifts. On x86-64 a permutation then looks the float up. It ignores the upper bits of its index,
 * so no mask is needed: it picks from 16 floats in vectors of 64 bytes, and from 8 in those of 32.
 *
 * In a product of few rows each element has several independent sums, to hide the latency of the
 * multiply-add.
 */
#include "codegen/c/tile.h"

#include "codegen/c/gen_c_impl.h"
#include "codegen/targets.h"

enum { BYTE_TERMS = 4 }; /* terms of bytes that one iteration of the loop has */

static int bits_of(const Tile *t)
{
	return dtype_info[t->b->dtype].bits;
}

static bool looks_up(const GenC *g, const Tile *t)
{
	const int bytes = g->target->vector_bytes;

	return t->scaled.terms > 1 && target_is_x86(g->target) &&
	       (bytes == 64 || (bytes == 32 && bits_of(t) == 2));
}

/* How one function is printed. */
typedef struct ScaledTile {
	const GenC *g;
	StrBuf *b;
	const Tile *t;
	int rows, nv, lanes;
	int sets; /* sums for each element */
} ScaledTile;

/* The types and constants that the function uses. */
static void put_types(const ScaledTile *s)
{
	const Tile *t = s->t;
	const int bits = bits_of(t), bytes = s->lanes * 4;
	const bool sign = dtype_is_signed(t->b->dtype);

	strbuf_printf(
		s->b,
		"\ttypedef float vec __attribute__((vector_size(%d), aligned(4), may_alias));\n"
		"\ttypedef int32_t ints __attribute__((vector_size(%d), aligned(4), may_alias));\n",
		bytes, bytes);
	if (t->scaled.terms == 1) {
		strbuf_printf(
			s->b,
			"\ttypedef %sint8_t bytes __attribute__((vector_size(%d), aligned(1), may_alias));\n",
			sign ? "" : "u", s->lanes);
		return;
	}
	strbuf_printf(
		s->b,
		"\ttypedef uint32_t words __attribute__((vector_size(%d), aligned(4), may_alias));\n",
		bytes);
	if (!looks_up(s->g, t))
		return;
	strbuf_puts(s->b, "\tconst vec table = {");
	for (int i = 0; i < s->lanes; i++) {
		const int v = i & ((1 << bits) - 1);

		strbuf_printf(s->b, "%s%d", i ? ", " : "",
			      sign && v >> (bits - 1) ? v - (1 << bits) : v);
	}
	strbuf_puts(s->b, "};\n");
}

/* Declares b0, b1 ...: one term as floats, taken from bit SHIFT on of the words w0, w1 ..., or
 * converted from the bytes at b. */
static void put_floats(const ScaledTile *s, const char *shift, const char *tabs)
{
	const Tile *t = s->t;
	const int bits = bits_of(t);

	for (int j = 0; j < s->nv; j++) {
		if (t->scaled.terms == 1)
			strbuf_printf(
				s->b,
				"%svec b%d = __builtin_convertvector(__builtin_convertvector(*(const bytes *)(b + %d), ints), vec);\n",
				tabs, j, j * s->lanes);
		else if (looks_up(s->g, t))
			strbuf_printf(
				s->b,
				"%svec b%d;\n%s__asm__(\"vpermps %%2, %%1, %%0\" : \"=v\"(b%d) : \"v\"(w%d >> %s), \"v\"(table));\n",
				tabs, j, tabs, j, j, shift);
		else if (dtype_is_signed(t->b->dtype))
			strbuf_printf(
				s->b,
				"%svec b%d = __builtin_convertvector((ints)(w%d << (%d - %s)) >> %d, vec);\n",
				tabs, j, j, 32 - bits, shift, 32 - bits);
		else
			strbuf_printf(
				s->b,
				"%svec b%d = __builtin_convertvector((ints)(w%d >> %s & %d), vec);\n",
				tabs, j, j, shift, (1 << bits) - 1);
		if (t->scaled.zero)
			strbuf_printf(s->b, "%sb%d -= z%d;\n", tabs, j, j);
	}
}

/* The multiply-adds of one term, into the sums of SET; A advances to the next term. */
static void put_products(const ScaledTile *s, int set, const char *tabs)
{
	for (int i = 0; i < s->rows; i++) {
		for (int j = 0; j < s->nv; j++)
			strbuf_printf(s->b, "%sc%d_%d_%d += *a%d * b%d;\n", tabs, i, j, set, i, j);
		strbuf_printf(s->b, "%sa%d += a_step;\n", tabs, i);
	}
}

static void put_words(const ScaledTile *s, const char *tabs)
{
	for (int j = 0; j < s->nv; j++)
		strbuf_printf(s->b, "%sconst words w%d = *(const words *)(b + %d);\n", tabs, j,
			      j * s->lanes * 4);
}

/* The loops over the terms of a group, from k to END. */
static void put_group(const ScaledTile *s)
{
	StrBuf *b = s->b;
	const Tile *t = s->t;
	const int unit = t->scaled.terms > 1 ? t->scaled.terms : BYTE_TERMS;
	char shift[48];

	strbuf_printf(b, "\n\t\tfor (; k + %d <= end; k += %d) {\n", unit, unit);
	if (t->scaled.terms > 1)
		put_words(s, "\t\t\t");
	for (int i = 0; i < unit; i++) {
		/* consecutive fields of one byte are terms that are WORD_BYTES apart */
		snprintf(shift, sizeof shift, "%d",
			 i % WORD_BYTES * 8 + i / WORD_BYTES * bits_of(t));
		strbuf_puts(b, "\t\t\t{\n");
		put_floats(s, shift, "\t\t\t\t");
		put_products(s, i % s->sets, "\t\t\t\t");
		if (t->scaled.terms == 1)
			strbuf_puts(b, "\t\t\t\tb += b_step;\n");
		strbuf_puts(b, "\t\t\t}\n");
	}
	for (int i = 0; i < s->nv * s->lanes * 4; i += CACHE_LINE)
		strbuf_printf(b, "\t\t\t__builtin_prefetch(b + %d, 0, 2);\n", FETCH_AHEAD + i);
	if (t->scaled.terms > 1)
		strbuf_puts(b, "\t\t\tb += b_step * 4;\n");
	strbuf_puts(b, "\t\t}\n");
	strbuf_puts(b, "\t\tfor (int t = 0; k < end; k++, t++) {\n");
	snprintf(shift, sizeof shift, "(t %% %d * 8 + t / %d * %d)", WORD_BYTES, WORD_BYTES,
		 bits_of(t));
	if (t->scaled.terms > 1)
		put_words(s, "\t\t\t");
	put_floats(s, shift, "\t\t\t");
	put_products(s, 0, "\t\t\t");
	if (t->scaled.terms == 1)
		strbuf_puts(b, "\t\t\tb += b_step;\n");
	strbuf_puts(b, "\t\t}\n");
}

/* Adds the sums of a group, times its scale, to those of the tile. */
static void put_scaled_sums(const ScaledTile *s)
{
	for (int i = 0; i < s->rows; i++)
		for (int j = 0; j < s->nv; j++) {
			const int at = i * s->t->nr + j * s->lanes;

			for (int set = 1; set < s->sets; set++)
				strbuf_printf(s->b, "\t\tc%d_%d_0 += c%d_%d_%d;\n", i, j, i, j,
					      set);
			strbuf_printf(
				s->b,
				"\t\t*(vec *)(acc + %d) = (first ? (vec){0} : *(const vec *)(acc + %d)) + c%d_%d_0 * s%d;\n",
				at, at, i, j, j);
		}
}

/* Declares NAME0, NAME1 ...: vectors loaded from FROM. WIDE, if not null, names the function that
 * loads and widens them. */
static void put_vectors(const ScaledTile *s, const char *name, const char *from, const char *wide)
{
	for (int j = 0; j < s->nv; j++)
		strbuf_printf(s->b, "\t\tconst vec %s%d = %s(%s + %d);\n", name, j,
			      wide ? wide : "*(const vec *)", from, j * s->lanes);
}

static void scaled_rows(const ScaledTile *s, const char *name, const char *parameters)
{
	StrBuf *b = s->b;

	strbuf_printf(
		b,
		"DL_CONTRACT static void %s(int64_t n, int first, const float *a, const int64_t *row, int64_t a_step,\n"
		"\t\t%s)\n{\n\tDL_CONTRACT_ON\n",
		name, parameters);
	put_types(s);
	for (int i = 0; i < s->rows; i++)
		strbuf_printf(b, "\tconst float *a%d = a + row[%d];\n", i, i);
	strbuf_printf(
		b,
		"\tint64_t left = group, k = 0;\n\n\tdo {\n"
		"\t\tconst int64_t most = left < %d ? left : %d, end = n - k > most ? k + most : n;\n",
		TILE_DEPTH, TILE_DEPTH);
	put_vectors(s, "s", "scale", c_tile_widens(s->t) ? c_tile_wide(s->g, s->t) : NULL);
	if (s->t->scaled.zero)
		put_vectors(s, "z", "zero", NULL);
	for (int i = 0; i < s->rows; i++) {
		strbuf_puts(b, "\t\tvec ");
		for (int j = 0; j < s->nv * s->sets; j++)
			strbuf_printf(b, "%sc%d_%d_%d = {0}", j ? ", " : "", i, j / s->sets,
				      j % s->sets);
		strbuf_puts(b, ";\n");
	}
	strbuf_puts(b, "\n\t\tleft -= end - k;");
	put_group(s);
	put_scaled_sums(s);
	strbuf_printf(
		b,
		"\t\tif (!left) {\n\t\t\tleft = group;\n\t\t\tscale += b_step;\n%s\t\t}\n\t\tfirst = 0;\n\t} while (k < n);\n}\n\n",
		s->t->scaled.zero ? "\t\t\tzero += b_step;\n" : "");
}

void c_tile_scaled(const GenC *g, StrBuf *b, const Tile *t, const char *name, int rows, int sets,
		   const char *parameters)
{
	ScaledTile s = {.g = g,
			.b = b,
			.t = t,
			.rows = rows,
			.sets = sets,
			.lanes = g->target->vector_bytes / 4};

	s.nv = t->nr / s.lanes;
	scaled_rows(&s, name, parameters);
}
