/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The micro-kernel in matrix registers: AMX on x86-64. A register has 16 rows of 64 bytes. They are
 * sums of 32 bits; or 16 rows of A by a step of 16 words, of four bytes or two bf16 each; or such a
 * step of a panel of B, where a row has a word of each of 16 columns, as panels have them. One
 * instruction multiplies two such registers. Up to four registers have the sums of a tile. With two
 * by two of them a register of A or B is loaded for two products.
 *
 * If DL_PORTABLE_DOT is defined, the same tile is plain C.
 */
#include "codegen/c/tile.h"

#include "base/round.h"
#include "codegen/c/gen_c_impl.h"
#include "codegen/c/text.h"

/* Registers of factors: two of B, and two of A in turn. */
enum { FACTOR_B = MATRIX_SUMS, FACTOR_A = FACTOR_B + 2 };

/* Registers of rows and of columns of sums that a function has. */
typedef struct Registers {
	int m, n;
} Registers;

Expr *c_tile_row_step(const GenC *g, const Tile *t)
{
	Affine a;

	if (t->by_runs.starts || !ex_affine(expr_ctx(g->pool), t->a_at, &a))
		return NULL;
	return ex_dim(g->pool, affine_coef(expr_ctx(g->pool), &a, t->row));
}

static int columns_of(const Tile *t)
{
	const int n = t->n_valid->kind == EX_CONST && t->n_valid->i > 0 ? (int)t->n_valid->i
									: t->nr;

	return (int)round_up(n, MATRIX_SIDE);
}

const char *c_tile_matrix_key(const GenC *g, const Tile *t)
{
	if (t->parts.a)
		return arena_printf(g->arena, "tile_matrix_parts_%dx%dof%d", t->mr, columns_of(t),
				    t->nr);
	return arena_printf(g->arena, "tile_matrix_%s_%s_%dx%dof%d%s", dtype_info[t->a->dtype].name,
			    dtype_info[t->b->dtype].name, t->mr, columns_of(t), t->nr,
			    t->by_runs.starts       ? "_runs"
			    : c_tile_row_step(g, t) ? ""
						    : "_rows");
}

static const char *parameters(const GenC *g, const Tile *t)
{
	const char *type = c_memory_type(t->a->dtype);

	if (t->by_runs.starts)
		return arena_printf(
			g->arena,
			"const %s *const *row, int64_t row_step, int64_t run, int64_t k0, int64_t a_step,",
			type);
	return arena_printf(g->arena, "const %s *a, %s, int64_t a_step,", type,
			    c_tile_row_step(g, t) ? "int64_t row_step" : "const int64_t *row");
}

/* ---- Instructions ---- */

/* Prints that register R is loaded from the memory at AT, whose rows are STEP bytes apart. */
static void put_load(StrBuf *b, const char *tabs, int r, const char *at, const char *step)
{
	strbuf_printf(
		b,
		"%s__asm__ volatile(\"tileloadd (%%0,%%1,1), %%%%tmm%d\" : : \"r\"(%s), \"r\"(%s) : \"memory\");\n",
		tabs, r, at, step);
}

/* The instruction that multiplies T's factors. */
static const char *instruction(const Tile *t)
{
	return t->ct == CT_F32 ? "tdpbf16ps" : t->a->dtype == DT_U8 ? "tdpbusd" : "tdpbsud";
}

/* What is done for all registers of sums: clear, load or store them. */
static const char *sums(const GenC *g, const Tile *t, Registers r, const char *what)
{
	STRBUF_LOCAL(b);

	for (int i = 0; i < r.m; i++)
		for (int j = 0; j < r.n; j++) {
			const char *at = arena_printf(g->arena, "acc + %d",
						      i * MATRIX_SIDE * t->nr + j * MATRIX_SIDE),
				   *step = arena_printf(g->arena, "(int64_t)%d", t->nr * 4);

			if (*what == 'l')
				put_load(&b, "\t\t", i * r.n + j, at, step);
			else if (*what == 's')
				strbuf_printf(
					&b,
					"\t__asm__ volatile(\"tilestored %%%%tmm%d, (%%0,%%1,1)\" : : \"r\"(%s), \"r\"(%s) : \"memory\");\n",
					i * r.n + j, at, step);
			else
				strbuf_printf(&b,
					      "\t\t__asm__ volatile(\"tilezero %%%%tmm%d\" : :);\n",
					      i * r.n + j);
		}
	return arena_strdup(g->arena, strbuf_str(&b));
}

/* The products of a step. */
static const char *products(const GenC *g, const Tile *t, Registers r)
{
	STRBUF_LOCAL(b);

	for (int j = 0; j < r.n; j++)
		put_load(&b, "\t\t", FACTOR_B + j,
			 arena_printf(g->arena, "p + %d", j * MATRIX_SIDE * 4), "p_step");
	for (int i = 0; i < r.m; i++) {
		put_load(&b, "\t\t", FACTOR_A + i % 2,
			 arena_printf(g->arena, "place[now][%d].at", i),
			 arena_printf(g->arena, "place[now][%d].step", i));
		for (int j = 0; j < r.n; j++)
			strbuf_printf(
				&b,
				"\t\t__asm__ volatile(\"%s %%%%tmm%d, %%%%tmm%d, %%%%tmm%d\" : :);\n",
				instruction(t), FACTOR_B + j, FACTOR_A + i % 2, i * r.n + j);
	}
	return arena_strdup(g->arena, strbuf_str(&b));
}

/* ---- Parts of f32 ---- */

/* The parts of A and of B that are multiplied, in an order in which each product has a factor of the
 * one before it. */
#define FACTORS {0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}
#define TEXT_OF(...) #__VA_ARGS__
#define AS_TEXT(...) TEXT_OF(__VA_ARGS__)

/* Prints that register R is loaded from part PART of the operand at AT. */
static void put_load_part(const GenC *g, StrBuf *b, int r, const char *at, int64_t part)
{
	put_load(b, "\t\t", r, arena_printf(g->arena, "%s + %lld", at, (long long)part),
		 "(int64_t)64");
}

/* The six products of a step. Registers of A are kept for two products that follow each other, as
 * those of B are. */
static const char *products_of_parts(const GenC *g, const Tile *t, Registers r)
{
	static const int factors[][2] = {FACTORS};
	const int part = MATRIX_SIDE * SPLIT_TERMS;
	int have[2] = {-1, -1};
	STRBUF_LOCAL(b);

	for (size_t p = 0; p < sizeof factors / sizeof *factors; p++) {
		const int *of = factors[p];

		for (int i = 0; i < r.m; i++) {
			if (of[0] != have[0])
				put_load_part(g, &b, FACTOR_A + i, i ? "a + group" : "a",
					      of[0] * part);
			for (int j = 0; j < r.n; j++) {
				if (of[1] != have[1] && !i)
					put_load_part(g, &b, FACTOR_B + j, "b",
						      (of[1] * t->nr / MATRIX_SIDE + j) * part);
				strbuf_printf(
					&b,
					"\t\t__asm__ volatile(\"tdpbf16ps %%%%tmm%d, %%%%tmm%d, %%%%tmm%d\" : :);\n",
					FACTOR_B + j, FACTOR_A + i, i * r.n + j);
			}
		}
		have[0] = of[0];
		have[1] = of[1];
	}
	return arena_strdup(g->arena, strbuf_str(&b));
}

static void put_parts_function(const GenC *g, StrBuf *b, const Tile *t, const char *name,
			       Registers r)
{
	const CWord words[] = {{"NAME", name, 0},
			       {"SUM", c_type(t->ct), 0},
			       {"COLUMNS", NULL, r.n * MATRIX_SIDE},
			       {"OF", NULL, t->nr},
			       {"ZEROS", sums(g, t, r, "zero"), 0},
			       {"LOADS", sums(g, t, r, "load"), 0},
			       {"STORES", sums(g, t, r, "store"), 0},
			       {"PRODUCTS", products_of_parts(g, t, r), 0},
			       {"FACTORS", AS_TEXT(FACTORS), 0},
			       {NULL, NULL, 0}};

	strbuf_puts(b, c_text(g->arena, "matrix tile of parts", words));
}

/* ---- The functions ---- */

/* A product of term T in word K of row I and column J, in plain C. */
static const char *portable(const GenC *g, const Tile *t)
{
	const char *
		a = t->by_runs.starts
			    ? arena_printf(
				      g->arena,
				      "row[(k0 + k) / run * row_step + i][(k0 + k) %% run * %d + t]",
				      t->kpack)
			    : arena_printf(g->arena, "a[%s + k * %d + t]",
					   c_tile_row_step(g, t) ? "i * row_step" : "row[i]",
					   t->kpack),
	       *b = arena_printf(g->arena, "b[k * b_step + j * %d + t]", t->kpack);

	return t->ct == CT_F32
		       ? arena_printf(g->arena, "matrix_number(%s) * matrix_number(%s)", a, b)
		       : arena_printf(g->arena, "%s * %s", a, b);
}

/* The function NAME for T's rows in R.m registers. */
static void put_function(const GenC *g, StrBuf *b, const Tile *t, const char *name, Registers r)
{
	const char *reader = arena_printf(g->arena, "matrix tile: rows %s",
					  t->by_runs.starts       ? "in runs"
					  : c_tile_row_step(g, t) ? "in place"
								  : "anywhere");
	const CWord words[] = {
		{"NAME", name, 0},
		{"PARAMETERS", parameters(g, t), 0},
		{"B", c_memory_type(t->b->dtype), 0},
		{"SUM", c_type(t->ct), 0},
		{"ROWS", NULL, r.m * MATRIX_SIDE},
		{"COLUMNS", NULL, r.n * MATRIX_SIDE},
		{"WIDTH", NULL, r.n * MATRIX_SIDE * 4},
		{"OF", NULL, t->nr},
		{"PACK", NULL, t->kpack},
		{"ZEROS", sums(g, t, r, "zero"), 0},
		{"LOADS", sums(g, t, r, "load"), 0},
		{"STORES", sums(g, t, r, "store"), 0},
		{"PRODUCT", portable(g, t), 0},
		{"PRODUCTS", products(g, t, r), 0},
		{"READER", c_text(g->arena, reader, C_WORDS({"ROWS", NULL, r.m * MATRIX_SIDE})), 0},
		{NULL, NULL, 0}};

	strbuf_puts(b, c_text(g->arena, "matrix tile", words));
}

Tile c_tile_in_vectors(const Tile *t)
{
	Tile v = *t;

	v.matrix = false;
	v.parts = (TileParts){0};
	v.mr = v.usual;
	return v;
}

void c_tile_matrix(GenC *g, StrBuf *b, const Tile *t, const char *name)
{
	const int n = columns_of(t) / MATRIX_SIDE, most = t->mr / MATRIX_SIDE;
	const char *type = c_memory_type(t->b->dtype);

	for (int m = 1; m <= most; m++)
		(t->parts.a ? put_parts_function : put_function)(
			g, b, t, arena_printf(g->arena, "%s_%d", name, m), (Registers){m, n});
	if (t->parts.a) {
		strbuf_printf(
			b,
			"static inline void %s(int64_t valid, int64_t n, int first, const uint16_t *a, int64_t row, const uint16_t *b,\n"
			"\t\tconst char *ahead, int64_t ahead_step, %s *acc)\n{\n"
			"\ta += row / 16 * ((n + 31) / 32 * MATRIX_PARTS);\n",
			name, c_type(t->ct));
		for (int m = 1; m <= most; m++)
			strbuf_printf(b,
				      "%s%s_%d(valid, n, first, a, b, ahead, ahead_step, acc);\n",
				      m < most ? "\tif (valid <= 16)\n\t\t"
				      : m > 1  ? "\telse\n\t\t"
					       : "\t",
				      name, m);
		strbuf_puts(b, "}\n\n");
		return;
	}
	strbuf_printf(
		b,
		"static inline void %s(int64_t valid, int64_t n, int first, %s\n"
		"\t\tconst %s *b, int64_t b_step, const char *ahead, int64_t ahead_step, %s *acc)\n{\n\t",
		name, parameters(g, t), type, c_type(t->ct));
	for (int m = 1; m <= most; m++) {
		if (m < most)
			strbuf_printf(b, "if (valid <= %d)\n\t\t", m * MATRIX_SIDE);
		else if (m > 1)
			strbuf_puts(b, "\n\t\t");
		strbuf_printf(
			b,
			"%s_%d(valid, n, first, %s, a_step, b, b_step, ahead, ahead_step, acc);\n",
			name, m,
			t->by_runs.starts       ? "row, row_step, run, k0"
			: c_tile_row_step(g, t) ? "a, row_step"
						: "a, row");
		if (m < most)
			strbuf_puts(b, "\telse ");
	}
	strbuf_puts(b, "}\n\n");
}

void c_tile_matrix_functions(const GenC *g, StrBuf *b)
{
	bool any = false, floats = false, parts = false;

	VEC_EACH_AT (t, &g->tile) {
		any = any || t->matrix;
		floats = floats || (t->matrix && t->ct == CT_F32);
		parts = parts || t->parts.a;
	}
	if (any)
		strbuf_puts(b, c_text(g->arena, "matrix", NULL));
	if (floats)
		strbuf_puts(b, c_text(g->arena, "matrix, in C, of bf16", NULL));
	if (parts)
		strbuf_puts(b, c_text(g->arena, "matrix split", NULL));
}
