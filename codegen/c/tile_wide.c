/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that read a vector of halves as floats: of a panel of f16 whose sums are of f32, and
 * of the scales of quantised numbers. For f16, x86-64 CPUs from AVX2 on and 64-bit Arm have an
 * instruction; elsewhere, or if DL_PORTABLE_HALF is defined, it is done in integers, which all C
 * compilers make vectors of.
 */
#include "codegen/c/tile.h"

#include "codegen/c/gen_c_impl.h"
#include "codegen/targets.h"

#include <string.h>

int c_tile_lanes(const GenC *g, const Tile *t)
{
	const int lanes = g->target->vector_bytes / (dtype_info[ctype_dtype(t->ct)].bits / 8);

	return lanes < t->nr ? lanes : t->nr;
}

/* The type of the halves that T reads as floats: its scales, or else B. */
static DType narrow_type(const Tile *t)
{
	return t->scale ? t->scale->dtype : t->b->dtype;
}

bool c_tile_widens(const Tile *t)
{
	return t->scale ? dtype_is_half(t->scale->dtype) : t->ct == CT_F32 && t->b->dtype == DT_F16;
}

const char *c_tile_wide(const GenC *g, const Tile *t)
{
	return arena_printf(g->arena, "wide_%s_%d", dtype_info[narrow_type(t)].name,
			    c_tile_lanes(g, t));
}

/* The elements of an f16 with the largest exponent are infinities and NaN; those with the least
 * one are multiples of 2^-24, which is right where subnormal floats count as zero, too. */
static void put_portable(StrBuf *b, int lanes)
{
	strbuf_printf(
		b,
		"\ttypedef int32_t ints __attribute__((vector_size(%d)));\n"
		"\tconst words h = __builtin_convertvector(*(const halfs *)p, words), e = h & 0x7c00;\n"
		"\tconst words normal = ((h & 0x7fff) << 13) + (112u << 23) + ((words)(e == 0x7c00) & (112u << 23));\n"
		"\tconst words small = (words)(__builtin_convertvector((ints)(h & 0x3ff), floats) * 0x1p-24f);\n"
		"\tconst words is_small = (words)(e == 0);\n\n"
		"\treturn (floats)((normal & ~is_small) | (small & is_small) | (h & 0x8000) << 16);\n",
		lanes * 4);
}

static void put_body(const GenC *g, StrBuf *b, DType narrow, int lanes)
{
	if (narrow == DT_BF16) {
		strbuf_puts(
			b,
			"\treturn (floats)(__builtin_convertvector(*(const halfs *)p, words) << 16);\n");
		return;
	}
	if (!g->target->f16) {
		put_portable(b, lanes);
		return;
	}
	strbuf_puts(b, "#ifndef DL_PORTABLE_HALF\n");
	if (target_is_x86(g->target))
		strbuf_printf(
			b,
			"\tfloats v;\n\n\t__asm__(\"vcvtph2ps %%1, %%0\" : \"=%s\"(v) : \"m\"(*(const halfs *)p));\n\treturn v;\n",
			lanes * 4 == 64 ? "v" : "x");
	else
		strbuf_printf(
			b,
			"\ttypedef _Float16 numbers __attribute__((vector_size(%d), aligned(2), may_alias));\n\n"
			"\treturn __builtin_convertvector(*(const numbers *)p, floats);\n",
			lanes * 2);
	strbuf_puts(b, "#else\n");
	put_portable(b, lanes);
	strbuf_puts(b, "#endif\n");
}

static void put_function(const GenC *g, StrBuf *b, const Tile *t, const char *name)
{
	const int lanes = c_tile_lanes(g, t);

	strbuf_printf(
		b,
		"typedef float floats_%d __attribute__((vector_size(%d), aligned(4), may_alias));\n"
		"static inline __attribute__((always_inline)) floats_%d %s(const uint16_t *p)\n{\n"
		"\ttypedef floats_%d floats;\n"
		"\ttypedef uint16_t halfs __attribute__((vector_size(%d), aligned(2), may_alias));\n"
		"\ttypedef uint32_t words __attribute__((vector_size(%d)));\n\n",
		lanes, lanes * 4, lanes, name, lanes, lanes * 2, lanes * 4);
	put_body(g, b, narrow_type(t), lanes);
	strbuf_puts(b, "}\n\n");
}

void c_tile_wide_functions(const GenC *g, StrBuf *b)
{
	for (int i = 0; i < g->tile.n; i++) {
		const Tile *t = &g->tile.at[i];
		bool first = c_tile_widens(t);

		for (int j = 0; j < i && first; j++)
			first = !c_tile_widens(&g->tile.at[j]) ||
				strcmp(c_tile_wide(g, &g->tile.at[j]), c_tile_wide(g, t)) != 0;
		if (first)
			put_function(g, b, t, c_tile_wide(g, t));
	}
}
