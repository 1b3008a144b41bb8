/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The micro-kernel over rows and a panel that are both quantised (TileScales.row_scale in
 * ir/loop/loop.h). For each group of terms it adds up products of bytes, u8 of the rows by i8 of
 * the panel, as integers, by the function dot_u8_i8 (codegen/c/tile_dot.c). Each integer sum, times
 * both scales, is added to the f32 sums of the tile, group by group in order. So results depend
 * neither on the shape of the tile nor on the number of threads.
 *
 * Numbers of fewer than 8 bits are multiplied as bytes that have them in the upper bits and zeros
 * below, which a shift and a mask produce. The sum of a group is shifted back. With a number w of
 * the panel so placed,
 *
 *     sum (x - 128) w  =  sum x w  -  sum 128 w
 *
 * has a second sum that depends only on the column, so all rows share it. Flipping the highest bit
 * of unsigned numbers makes them signed. That subtracts a constant, which is added to their zero
 * point; the zero point is multiplied by the sum of the row.
 */
#include "codegen/c/tile.h"

#include "codegen/c/gen_c_impl.h"
#include "passes/forms/scaled.h"

/* how far ahead scales are prefetched, in bytes, for groups of 32 numbers of 4 bits */
enum { FETCH_SCALES = 1024 };

/* How one function is printed. */
typedef struct RowsTile {
	StrBuf *b;
	const Tile *t;
	int rows, nv, lanes, bits;
	bool sums; /* sums of the rows are needed, too, for zero points */
	/* the function that reads scales, which are halves; null: they are floats */
	const char *wide;
} RowsTile;

/* Declares TYPE's variables NAMEi_j, or NAMEi if there are no COLUMNS of them. */
static void put_zeros(const RowsTile *s, const char *tabs, const char *type, const char *name,
		      int rows, int columns)
{
	strbuf_printf(s->b, "%s%s ", tabs, type);
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < (columns ? columns : 1); j++) {
			strbuf_printf(s->b, "%s%s%d", i + j ? ", " : "", name, i);
			if (columns)
				strbuf_printf(s->b, "_%d", j);
			strbuf_puts(s->b, " = {0}");
		}
	strbuf_puts(s->b, ";\n");
}

/* Declares v0, v1 ...: bytes with the numbers in part PART of the bytes of words w0, w1 ... */
static void put_numbers(const RowsTile *s, int part)
{
	const int left = 8 - s->bits * (part + 1);
	const unsigned mask = (0xffu << (8 - s->bits) & 0xff) * 0x01010101u;

	for (int j = 0; j < s->nv; j++) {
		strbuf_printf(s->b, "\t\t\t\tconst dot_lanes v%d = ", j);
		if (s->bits == 8)
			strbuf_printf(s->b, "w%d;\n", j);
		else if (left)
			strbuf_printf(s->b, "w%d << %d & (int32_t)0x%xu;\n", j, left, mask);
		else
			strbuf_printf(s->b, "w%d & (int32_t)0x%xu;\n", j, mask);
	}
}

/* Adds the products of the terms in part PART of each byte. */
static void put_products(const RowsTile *s, int part)
{
	StrBuf *b = s->b;

	strbuf_puts(b, "\t\t\t{\n");
	put_numbers(s, part);
	for (int j = 0; j < s->nv; j++)
		strbuf_printf(b, "\t\t\t\tz%d = dot_u8_i8(z%d, zero_bytes, v%d);\n", j, j, j);
	for (int i = 0; i < s->rows; i++) {
		strbuf_printf(
			b,
			"\t\t\t\tconst dot_lanes q%d = (dot_lanes){0} + *(const dot_word *)(a%d + %d);\n",
			i, i, part * WORD_BYTES);
		for (int j = 0; j < s->nv; j++)
			strbuf_printf(b, "\t\t\t\tc%d_%d = dot_u8_i8(c%d_%d, q%d, v%d);\n", i, j, i,
				      j, i, j);
		if (s->sums)
			strbuf_printf(b, "\t\t\t\tr%d = dot_u8_i8(r%d, q%d, one_bytes);\n", i, i,
				      i);
	}
	strbuf_puts(b, "\t\t\t}\n");
}

/* The loop over the words of a group. */
static void put_group(const RowsTile *s)
{
	StrBuf *b = s->b;
	const unsigned sign = dtype_is_signed(s->t->b->dtype) ? 0 : 1u << (s->bits - 1);
	unsigned flip = 0;

	for (int bit = 0; bit < 32; bit += s->bits)
		flip |= sign << bit;
	put_zeros(s, "\t\t", "dot_lanes", "c", s->rows, s->nv);
	put_zeros(s, "\t\t", "dot_lanes", "z", s->nv, 0);
	if (s->sums)
		put_zeros(s, "\t\t", "dot_lanes", "r", s->rows, 0);
	strbuf_printf(b, "\n\t\tfor (int t = 0; t < %lld; t += %d) {\n",
		      (long long)s->t->scaled.row_group, s->t->scaled.terms);
	for (int j = 0; j < s->nv; j++) {
		strbuf_printf(b, "\t\t\tconst dot_lanes w%d = *(const dot_lanes *)(b + %d)", j,
			      j * s->lanes * WORD_BYTES);
		strbuf_printf(b, flip ? " ^ (int32_t)0x%xu;\n" : ";\n", flip);
	}
	for (int part = 0; part < 8 / s->bits; part++)
		put_products(s, part);
	for (int i = 0; i < s->nv * s->lanes * WORD_BYTES; i += CACHE_LINE)
		strbuf_printf(b, "\t\t\t__builtin_prefetch(b + %d, 0, 2);\n", FETCH_AHEAD + i);
	strbuf_printf(b, "\t\t\tb += b_step * %d;\n", WORD_BYTES);
	for (int i = 0; i < s->rows; i++)
		strbuf_printf(b, "\t\t\ta%d += %d;\n", i, s->t->scaled.terms);
	strbuf_puts(b, "\t\t}\n");
}

/* Adds the sums of a group, times its scales, to those of the tile. */
static void put_scaled_sums(const RowsTile *s)
{
	StrBuf *b = s->b;
	const Tile *t = s->t;
	const int middle = dtype_is_signed(t->b->dtype) ? 0 : 1 << (s->bits - 1);

	for (int j = 0; j < s->nv; j++) {
		strbuf_printf(b, "\t\tconst vec s%d = %s(scale + %d);\n", j,
			      s->wide ? s->wide : "*(const vec *)", j * s->lanes);
		if (!s->sums)
			continue;
		strbuf_printf(b, "\t\tconst vec m%d = ", j);
		if (t->scaled.zero)
			strbuf_printf(b, "*(const vec *)(zero + %d) - %d;\n", j * s->lanes, middle);
		else
			strbuf_printf(b, "(vec){0} - %d;\n", middle);
	}
	for (int i = 0; i < s->rows; i++)
		for (int j = 0; j < s->nv; j++) {
			strbuf_printf(
				b,
				"\t\tt%d_%d += (__builtin_convertvector((c%d_%d - z%d) >> %d, vec)",
				i, j, i, j, j, 8 - s->bits);
			if (s->sums)
				strbuf_printf(b,
					      " - m%d * __builtin_convertvector(r%d - %lld, vec)",
					      j, i, (long long)t->scaled.row_group * ROW_ZERO);
			strbuf_printf(b, ") * *p%d * s%d;\n", i, j);
		}
	for (int i = 0; i < s->rows; i++)
		strbuf_printf(b, "\t\tp%d++;\n", i);
	for (int i = 0, bytes = dtype_bytes(t->scaled.scale->dtype); i < s->nv * s->lanes;
	     i += CACHE_LINE / bytes)
		strbuf_printf(b, "\t\t__builtin_prefetch(scale + %d, 0, 2);\n",
			      FETCH_SCALES / bytes + i);
	strbuf_puts(b, "\t\tscale += scale_step;\n");
	if (t->scaled.zero)
		strbuf_puts(b, "\t\tzero += scale_step;\n");
}

/* The sums of the tile: t0_0 and so on from the memory at ACC, or to it. */
static void put_tile_sums(const RowsTile *s, bool load)
{
	for (int i = 0; i < s->rows; i++)
		for (int j = 0; j < s->nv; j++) {
			const int at = i * s->t->nr + j * s->lanes;

			if (load)
				strbuf_printf(
					s->b,
					"\tvec t%d_%d = first ? (vec){0} : *(const vec *)(acc + %d);\n",
					i, j, at);
			else
				strbuf_printf(s->b, "\t*(vec *)(acc + %d) = t%d_%d;\n", at, i, j);
		}
}

void c_tile_scaled_rows(const GenC *g, StrBuf *b, const Tile *t, const char *name, int rows,
			const char *parameters)
{
	RowsTile s = {.b = b,
		      .t = t,
		      .rows = rows,
		      .lanes = g->target->vector_bytes / WORD_BYTES,
		      .bits = dtype_info[t->b->dtype].bits,
		      .wide = c_tile_widens(t) ? c_tile_wide(g, t) : NULL};

	s.nv = t->nr / s.lanes;
	s.sums = t->scaled.zero || !dtype_is_signed(t->b->dtype);
	strbuf_printf(
		b,
		"DL_DOT static void %s(int64_t n, int first, const uint8_t *a, const int64_t *row, int64_t a_step,\n"
		"\t\t%s)\n{\n"
		"\ttypedef float vec __attribute__((vector_size(%d), aligned(4), may_alias));\n"
		"\tconst dot_lanes zero_bytes = (dot_lanes){0} + (int32_t)0x80808080u;\n",
		name, parameters, g->target->vector_bytes);
	if (s.sums)
		strbuf_puts(b, "\tconst dot_lanes one_bytes = (dot_lanes){0} + 0x01010101;\n");
	for (int i = 0; i < rows; i++)
		strbuf_printf(
			b,
			"\tconst uint8_t *a%d = a + row[%d];\n\tconst float *p%d = row_scale + row[%d] / %lld;\n",
			i, i, i, i, (long long)t->scaled.row_group);
	put_tile_sums(&s, true);
	strbuf_printf(
		b,
		"\tconst int64_t scale_step = group == INT64_MAX ? 0 : b_step;\n\n\t(void)a_step;\n\tfor (int64_t k = 0; k < n; k += %lld) {\n",
		(long long)t->scaled.row_group);
	put_group(&s);
	put_scaled_sums(&s);
	strbuf_puts(b, "\t}\n");
	put_tile_sums(&s, false);
	strbuf_puts(b, "}\n\n");
}
