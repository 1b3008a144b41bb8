/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that read a vector of halves as floats: of a panel of f16 whose sums are of f32, and
 * of the scales of quantised numbers. For f16, x86-64 CPUs from AVX2 on and 64-bit Arm have an
 * instruction; elsewhere, or if DL_PORTABLE_HALF is defined, it is done in integers, which all C
 * compilers make vectors of.
 */
#include "codegen/c/tile.h"

#include "codegen/c/gen_c_impl.h"
#include "codegen/c/text.h"
#include "codegen/targets.h"

#include <string.h>

int c_tile_lanes(const GenC *g, const Tile *t)
{
	const int lanes = g->target->vector_bytes / ctype_bytes(t->ct);

	return lanes < t->nr ? lanes : t->nr;
}

/* The type of the halves that T reads as floats: its scales, or else B. */
static DType narrow_type(const Tile *t)
{
	return t->scaled.scale ? t->scaled.scale->dtype : t->b->dtype;
}

bool c_tile_widens(const Tile *t)
{
	return t->scaled.scale ? dtype_is_half(t->scaled.scale->dtype)
			       : t->ct == CT_F32 && t->b->dtype == DT_F16;
}

const char *c_tile_wide(const GenC *g, const Tile *t)
{
	return arena_printf(g->arena, "wide_%s_%d", dtype_info[narrow_type(t)].name,
			    c_tile_lanes(g, t));
}

/* The statements of the function for T; WORDS are those of the parts. */
static const char *body(const GenC *g, const Tile *t, const CWord *words)
{
	const char *portable;

	if (narrow_type(t) == DT_BF16)
		return c_text(g->arena, "wide, bf16", NULL);
	portable = c_text(g->arena, "wide, f16 in integers", words);
	if (!g->target->f16)
		return portable;
	return arena_printf(g->arena, "#ifndef DL_PORTABLE_HALF\n%s#else\n%s#endif\n",
			    c_text(g->arena,
				   target_is_x86(g->target) ? "wide, f16 by an instruction of x86"
							    : "wide, f16 by an instruction of Arm",
				   words),
			    portable);
}

static void put_function(const GenC *g, StrBuf *b, const Tile *t, const char *name)
{
	const int lanes = c_tile_lanes(g, t);
	CWord words[] = {{"NAME", name, 0},
			 {"LANES", NULL, lanes},
			 {"BYTES", NULL, lanes * 4},
			 {"HALF_BYTES", NULL, lanes * 2},
			 {"REGISTER", lanes * 4 == 64 ? "v" : "x", 0},
			 {"BODY", "", 0},
			 {NULL, NULL, 0}};

	words[5].text = body(g, t, words);
	strbuf_puts(b, c_text(g->arena, "wide", words));
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
