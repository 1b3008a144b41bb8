/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The micro-kernel acc[i][j] = sum over k of a(i, k) * b(k, j), for a tile of mr rows by nr
 * columns. It is an outer product for each k, with the accumulators in vector registers, A
 * broadcast, and B from a panel. It uses GNU vector types, from which gcc and clang generate the
 * same code. Contraction to fma is enabled only for these sums of products; ir/expr defines `mad`.
 * A tile with few valid rows runs a shorter function.
 *
 * Of bytes, four products u8 by i8 are added to an i32 lane at a time; of bf16, two products to an
 * f32 lane. Both use functions of codegen/c/tile_dot.c. A panel of bf16 also has pairs of terms if
 * A is f32; one instruction widens each half of a pair to f32. A panel of f16 is read as floats by
 * a function of codegen/c/tile_wide.c.
 */
#include "codegen/c/tile.h"

#include "base/round.h"
#include "codegen/c/expr.h"
#include "codegen/c/gen_c_impl.h"
#include "codegen/targets.h"

#include <assert.h>
#include <string.h>

enum {
	/* A tile of at least so many rows fetches its panel so many terms ahead, if the panel is
	 * larger than L1. On a CPU with 2 MiB of L2 products of 512 and 768 terms took 0.95 of the
	 * time; those whose panels fit into L1 took 1.02 of it, so they fetch nothing. With vectors
	 * of half a cache line the difference was below 0.01. CPUs of AMD were not measured. */
	DEEP_AHEAD = 8,
	DEEP_ROWS = 4
};

/* The columns that the micro-kernel for T computes. If the number of valid columns is constant, it
 * is rounded up to whole vectors, or to a half vector at the end. A tile without columns, which
 * never runs, is as wide as the others. */
static int columns_of(const GenC *g, const Tile *t)
{
	const int lanes = c_tile_lanes(g, t),
		  columns = t->n_valid->kind == EX_CONST && t->n_valid->i > 0 ? (int)t->n_valid->i
									      : t->nr,
		  rest = columns % lanes;
	const bool halves = t->kpack == 1 && !c_tile_widens(t) && lanes > 1;

	if (t->scaled.scale || !rest)
		return t->scaled.scale ? t->nr : columns;
	return columns - rest + (halves && rest <= lanes / 2 ? lanes / 2 : lanes);
}

bool c_tile_skips(const GenC *g, const Tile *t)
{
	/* Testing whether a shorter segment can be skipped costs more than multiplying it: a first
	 * layer of 3x3 from 3 channels took 1.5 times as long on AVX2. */
	enum { LEAST_SKIPPED = 32 };
	const Expr *terms = t->by_runs.terms;

	return t->by_runs.edge && !c_tile_pairs(g, t) && !t->matrix &&
	       !(terms->kind == EX_CONST && terms->i < LEAST_SKIPPED);
}

int c_tile_whole_runs(const Tile *t)
{
	return t->whole && t->by_runs.starts && t->by_runs.terms->kind == EX_CONST &&
			       !t->accumulate && !t->partial && t->k->i % t->by_runs.terms->i == 0
		       ? (int)t->by_runs.terms->i
		       : 0;
}

/* ---- Several sums for an element ---- */

/* Vectors of sums in a row of T. A narrower last tile has the same number as the others, so that
 * all columns add their terms in the same order. */
static int vectors_of_row(const GenC *g, const Tile *t)
{
	return t->nr / c_tile_lanes(g, t);
}

/* Sums for each element of a tile of T if the whole product has ROWS rows. With few rows a single
 * sum would wait for the latency of the multiply-add, so there are several. */
static int sets_of(const GenC *g, const Tile *t, int rows)
{
	const bool float_terms = dtype_is_half(t->b->dtype) ||
				 (t->kpack == 1 && ctype_is_float(t->ct));
	const int sets = (t->scaled.scale ? TILE_SUMS_SCALED : TILE_SUMS) /
			 (rows * vectors_of_row(g, t));

	return t->by_runs.starts || t->scaled.row_scale || t->matrix || !float_terms || sets < 1
		       ? 1
		       : sets;
}

/* Whether the code decides during the run: a product with few rows has several sums for each
 * element in all of its tiles, and any other product has one. */
bool c_tile_counts_rows(const GenC *g, const Tile *t)
{
	return t->rows && t->rows->kind != EX_CONST && !t->whole && sets_of(g, t, 1) > 1;
}

/* A panel for T is larger than L1, so each tile reads it from L2, in vectors of a cache line. */
static bool is_deep(const GenC *g, const Tile *t)
{
	return t->k->kind == EX_CONST && t->b_step->kind == EX_CONST && !t->scaled.scale &&
	       g->target->vector_bytes >= CACHE_LINE && t->b_step->i > 0 &&
	       t->k->i > g->target->l1 / dtype_size(t->b->dtype, t->b_step->i);
}

/* The common prefix of the names of T's functions. It has everything that their code depends on,
 * except their numbers of rows and of sums. */
static const char *key_of(const GenC *g, const Tile *t)
{
	const int columns = columns_of(g, t), run = c_tile_whole_runs(t);

	return arena_printf(
		g->arena, "tile_%s_%dx%d%s%s%s%s%s%s%s%s%s%s%s", ctype_name[t->ct], t->usual,
		columns, columns < t->nr ? arena_printf(g->arena, "of%d", t->nr) : "",
		t->kpack == 1            ? ""
		: t->b->dtype == DT_BF16 ? t->a->dtype == DT_BF16 ? "_bf16_bf16" : "_f32_bf16"
		: t->a->dtype == DT_U8   ? "_u8_i8"
					 : "_i8_u8",
		!c_tile_pairs(g, t) ? ""
		: t->order.flips_at ? "_flips"
				    : "_pairs",
		c_tile_skips(g, t)  ? "_skip_runs"
		: t->by_runs.starts ? "_runs"
				    : "",
		run ? arena_printf(g->arena, "%d", run) : "",
		t->scaled.scale || c_tile_widens(t)
			? arena_printf(g->arena, t->scaled.terms > 1 ? "_%sx%d" : "_%s",
				       dtype_info[t->b->dtype].name, t->scaled.terms)
			: "",
		t->scaled.scale && c_tile_widens(t)
			? arena_printf(g->arena, "_%s", dtype_info[t->scaled.scale->dtype].name)
			: "",
		t->scaled.zero ? "_zero" : "",
		t->scaled.row_scale
			? arena_printf(g->arena, "_rows%lld", (long long)t->scaled.row_group)
			: "",
		t->whole ? "_whole" : "", is_deep(g, t) ? "_deep" : "");
}

/* Tiles of one name share the function. */
const char *c_tile_use(GenC *g, const Tile *t)
{
	const bool many = t->rows && sets_of(g, t, t->whole ? t->mr : 1) > 1;
	const char *key = arena_printf(
		g->arena, "%s%s%s", key_of(g, t),
		t->usual < t->mr ? arena_printf(g->arena, "_to%d", t->mr) : "",
		!many ? "" : c_tile_counts_rows(g, t) ? "_any" : "_many");

	if (t->by_runs.shift)
		key = arena_printf(g->arena, "tile_%s_%dx%d_groups%d", ctype_name[t->ct], t->mr,
				   t->nr, (int)t->by_runs.terms->i);
	if (t->matrix)
		key = c_tile_matrix_key(g, t);
	for (int i = 0; i < g->tiles.n; i++)
		if (!strcmp(g->tiles.at[i], key))
			return g->tiles.at[g->last_tile = i];
	g->last_tile = g->tiles.n;
	vec_push(g->arena, &g->tiles, key);
	vec_push(g->arena, &g->tile, *t);
	return key;
}

/* ---- Columns ---- */

/* The vectors of columns of T, of which the last may be half of one. */
static int vectors_of(const GenC *g, const Tile *t)
{
	const int lanes = c_tile_lanes(g, t);

	return (int)ceil_div(columns_of(g, t), lanes);
}

/* The type of column vector J. */
static const char *vector_type(const GenC *g, const Tile *t, int j)
{
	return (j + 1) * c_tile_lanes(g, t) > columns_of(g, t) ? "half_vec" : "vec";
}

/* ---- Terms ---- */

/* The name of the sums of row I and column vector J in SET. */
static const char *sums_of(const GenC *g, int i, int j, int set)
{
	return set ? arena_printf(g->arena, "c%d_%d_%d", i, j, set)
		   : arena_printf(g->arena, "c%d_%d", i, j);
}

/* Prints one multiply-add for row I and column vector J. Bytes use the function DOT, and pairs of
 * bf16 dot_bf16. */
static void put_term(const GenC *g, StrBuf *b, const Tile *t, int i, int j, int set,
		     const char *dot, const char *tabs)
{
	if (t->kpack == 1)
		strbuf_printf(b, "%s\t%s += *a%d * b%d;\n", tabs, sums_of(g, i, j, set), i, j);
	else if (t->b->dtype == DT_BF16)
		strbuf_printf(b, "%s\t%s = dot_bf16(%s, q%d, b%d);\n", tabs, sums_of(g, i, j, set),
			      sums_of(g, i, j, set), i, j);
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
	return t->kpack > 1 || t->scaled.row_scale || (operand == t->b && c_tile_widens(t))
		       ? c_memory_type(operand->dtype)
		       : c_type(t->ct);
}

const char *c_tile_run(const GenC *g, const Tile *t)
{
	return arena_printf(g->arena, "const %s *", type_of(t, t->a));
}

/* The parameters of a micro-kernel between "n, first" and "b": how A is read. */
static void put_parameters(const GenC *g, StrBuf *b, const Tile *t, const char *type)
{
	if (t->by_runs.starts)
		strbuf_printf(b, "const %s *const *row, int64_t row_step, %s%sint64_t a_step,\n",
			      type, c_tile_whole_runs(t) ? "" : "int64_t run, int64_t k0, ",
			      c_tile_skips(g, t) ? arena_printf(g->arena, "const %s *none, ", type)
						 : "");
	else
		strbuf_printf(b, "const %s *a, const int64_t *row, int64_t a_step,\n", type);
}

/* B of T has pairs of bf16, and A is of f32. */
static bool splits_pairs(const Tile *t)
{
	return t->kpack > 1 && t->a->dtype == DT_F32;
}

/* The products of two terms by vectors of pairs of bf16, each the upper half of an f32. Where
 * registers have no room for the pairs beside the sums, they are read again for the second term. */
static void put_pair(const GenC *g, StrBuf *b, const Tile *t, int rows, int nv, int set,
		     const char *tabs)
{
	static const char *const half[] = {"<< 16", "& -65536"};

	for (int h = 0; h < 2; h++) {
		if (h && rows * nv + 2 * nv + 1 > g->target->registers)
			strbuf_printf(b, "%s\t__asm__ volatile(\"\" ::: \"memory\");\n", tabs);
		for (int j = 0; j < nv; j++)
			strbuf_printf(
				b,
				"%s\tconst vec b%d_%d = (vec)(*(const dot_lanes *)(b + %d) %s);\n",
				tabs, j, h, j * c_tile_lanes(g, t) * t->kpack, half[h]);
		for (int i = 0; i < rows; i++)
			for (int j = 0; j < nv; j++)
				strbuf_printf(b, "%s\t%s += a%d[%d] * b%d_%d;\n", tabs,
					      sums_of(g, i, j, set), i, h, j, h);
	}
}

/* Whether a tile of ROWS rows of T takes narrow terms before wide ones. With one row the panel's
 * memory is the bottleneck, and reading it in the order of addresses prefetches better:
 * bert_base_int8 of one token took 1.1 times as long with narrow terms first. */
static bool is_ordered(const GenC *g, const Tile *t, int rows)
{
	return c_tile_pairs(g, t) && rows > 1;
}

/* Loads group TERM (null: the current one) of the kpack terms of row I, and broadcasts it to all
 * lanes. */
static void put_word(StrBuf *b, int i, const char *term, const char *tabs)
{
	strbuf_printf(b, "%s\tconst dot_lanes q%d = (dot_lanes){0} + *(const dot_word *)", tabs, i);
	strbuf_printf(b, term ? "(a%d + %s * a_step);\n" : "a%d;\n", i, term);
}

/* The products of one term, into the sums of SET: of term TERM (null: the current one). */
static void put_products(const GenC *g, StrBuf *b, const Tile *t, int rows, int nv, int set,
			 const char *dot, const char *term, const char *tabs)
{
	const int lanes = c_tile_lanes(g, t);

	if (splits_pairs(t)) {
		put_pair(g, b, t, rows, nv, set, tabs);
		return;
	}
	for (int j = 0; j < nv; j++)
		strbuf_printf(b, "%s\tconst %s b%d = %s(b + %s%d);\n", tabs,
			      t->kpack > 1 ? "dot_lanes" : vector_type(g, t, j), j,
			      c_tile_widens(t) ? c_tile_wide(g, t)
			      : t->kpack > 1   ? "*(const dot_lanes *)"
					       : arena_printf(g->arena, "*(const %s *)",
							      vector_type(g, t, j)),
			      term ? "term * b_step + " : "", j * lanes * t->kpack);
	for (int i = 0; i < rows; i++) {
		if (t->kpack > 1)
			put_word(b, i, term, tabs);
		for (int j = 0; j < nv; j++)
			put_term(g, b, t, i, j, set, dot, tabs);
	}
}

/* Fetches into L1 what a tile reads DEEP_AHEAD later of its own panel. */
static void put_deep_fetch(const GenC *g, StrBuf *b, const Tile *t, int rows, int nv,
			   const char *tabs)
{
	if (!is_deep(g, t) || rows < DEEP_ROWS)
		return;
	for (int j = 0; j < nv; j++)
		strbuf_printf(b, "%s\t__builtin_prefetch(b + %d * b_step + %d, 0, 3);\n", tabs,
			      DEEP_AHEAD, j * c_tile_lanes(g, t) * t->kpack);
}

/* Fetches some of what later tiles read. */
static void put_fetch(StrBuf *b, const char *tabs)
{
	strbuf_printf(b, "%s\t__builtin_prefetch(ahead, 0, 2);\n%s\tahead += ahead_step;\n", tabs,
		      tabs);
}

/* Moves on to the next term; FETCH: what later tiles read is fetched. */
static void put_next(StrBuf *b, int rows, bool fetch, const char *tabs)
{
	for (int i = 0; i < rows; i++)
		strbuf_printf(b, "%s\ta%d += a_step;\n", tabs, i);
	if (fetch)
		put_fetch(b, tabs);
	else
		strbuf_printf(b, "%s\tahead += ahead_step;\n", tabs);
	strbuf_printf(b, "%s\tb += b_step;\n", tabs);
}

/* A wide term (codegen/c/tile_dot.c): term TERM, or the current one of a panel with flips. */
static void put_wide_term(const GenC *g, StrBuf *b, const Tile *t, int rows, int nv,
			  const char *term, const char *tabs)
{
	for (int j = 0; j < nv; j++) {
		const int at = j * c_tile_lanes(g, t) * t->kpack;

		strbuf_printf(
			b,
			"%s\tconst dot_lanes s%d = *(const dot_lanes *)(b + %s%d), b%d = dot_size(s%d), ",
			tabs, j, term ? "term * b_step + " : "", at, j, j);
		if (term)
			strbuf_printf(b, "f%d = dot_flip(s%d);\n", j, j);
		else
			strbuf_printf(b, "f%d = *(const dot_lanes *)(flips + %d);\n", j, at);
	}
	for (int i = 0; i < rows; i++) {
		put_word(b, i, term, tabs);
		for (int j = 0; j < nv; j++)
			strbuf_printf(b, "%s\tc%d_%d = dot_narrow(c%d_%d, b%d, q%d ^ f%d);\n", tabs,
				      i, j, i, j, j, i, j);
	}
}

/* Prints the loop over terms k to END, all of which are wide, of a panel with flips. */
static void put_flipped_terms(const GenC *g, StrBuf *b, const Tile *t, int rows, int nv,
			      const char *end, const char *tabs)
{
	strbuf_printf(b, "%sfor (; k < %s; k++) {\n", tabs, end);
	put_wide_term(g, b, t, rows, nv, NULL, tabs);
	put_next(b, rows, true, tabs);
	strbuf_printf(b, "%s\tflips += b_step;\n%s}\n", tabs, tabs);
}

/* Prints the loop over terms k to END. In each block of 64 terms all narrow ones come before all
 * wide ones. */
static void put_ordered_terms(const GenC *g, StrBuf *b, const Tile *t, int rows, int nv,
			      const char *end, const char *tabs)
{
	const char *in = arena_printf(g->arena, "%s\t", tabs);

	strbuf_printf(
		b,
		"%swhile (k < %s) {\n"
		"%sconst int64_t at = (k0 + k) %% 64, part = %s - k < 64 - at ? %s - k : 64 - at;\n"
		"%sconst uint64_t all = ~(uint64_t)0 >> (64 - part) << at, wide = dot_wide(bits, k0 + k) & all;\n"
		"%sconst uint8_t *after = (const uint8_t *)next + (k0 + k - at);\n\n",
		tabs, end, in, end, end, in, in);
	for (int wide = 0; wide < 2; wide++) {
		strbuf_printf(b,
			      "%sfor (int64_t t = dot_first(%s); t < at + part; t = after[t]) {\n"
			      "%s\tconst int64_t term = t - at;\n",
			      in, wide ? "wide" : "all ^ wide", in);
		if (wide)
			put_wide_term(g, b, t, rows, nv, "term", in);
		else
			put_products(g, b, t, rows, nv, 0, "dot_narrow", "term", in);
		put_fetch(b, in);
		strbuf_printf(b, "%s}\n", in);
	}
	strbuf_printf(b, "%sb += part * b_step;\n", in);
	for (int i = 0; i < rows; i++)
		strbuf_printf(b, "%sa%d += part * a_step;\n", in, i);
	strbuf_printf(b, "%sk += part;\n%s}\n", in, tabs);
}

/* The loop over terms k to END of a tile whose rows of A start at a0, a1 and so on. */
static void put_terms(const GenC *g, StrBuf *b, const Tile *t, int rows, int nv, const char *end,
		      const char *tabs)
{
	const bool ordered = is_ordered(g, t, rows);

	strbuf_printf(b, "\n%s%sfor (; k < %s; k++) {\n", tabs, ordered ? "if (!wide_terms) " : "",
		      end);
	put_deep_fetch(g, b, t, rows, nv, tabs);
	put_products(g, b, t, rows, nv, 0, ordered ? "dot_narrow" : "dot_u8_i8", NULL, tabs);
	put_next(b, rows, true, tabs);
	strbuf_printf(b, "%s}\n", tabs);
	if (ordered && t->order.flips_at)
		put_flipped_terms(g, b, t, rows, nv, end, tabs);
	else if (ordered)
		put_ordered_terms(g, b, t, rows, nv, end, tabs);
}

/* Prints a loop that handles SETS terms in each iteration, one for each set of sums, and then adds
 * the sets. put_terms prints the loop over the remaining terms. CPUs fetch lines in pairs, so one
 * is fetched ahead for two of the panel: fetching each took one row 1.25 times as long. */
static void put_sets(const GenC *g, StrBuf *b, const Tile *t, int rows, int nv, int sets)
{
	const int bytes = (int)dtype_size(t->b->dtype, columns_of(g, t) * t->kpack);

	strbuf_printf(b, "\n\t\twhile (k + %d <= end) {\n", sets);
	for (int set = 0; set < sets; set++) {
		strbuf_puts(b, "\t\t\t{\n");
		put_products(g, b, t, rows, nv, set, "", NULL, "\t\t\t");
		put_next(b, rows, set * bytes % (2 * CACHE_LINE) == 0, "\t\t\t");
		strbuf_puts(b, "\t\t\t}\n");
	}
	strbuf_printf(b, "\t\t\tk += %d;\n\t\t}\n", sets);
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < nv; j++)
			for (int set = 1; set < sets; set++)
				strbuf_printf(b, "\t\t%s += %s;\n", sums_of(g, i, j, 0),
					      sums_of(g, i, j, set));
}

/* Skips the current segment, to term LAST, if all rows read padding there, as they do for some taps
 * of a dilated convolution, and for all taps above the first row. */
static void put_skip(StrBuf *b, int rows, int run)
{
	strbuf_puts(b, "\t\t\tif (");
	for (int i = 0; i < rows; i++)
		strbuf_printf(b, "%srow[%d] == none", i ? " && " : "", i);
	strbuf_puts(
		b,
		") {\n\t\t\t\tahead += (last - k) * ahead_step;\n\t\t\t\tb += (last - k) * b_step;\n");
	if (!run)
		strbuf_puts(
			b,
			"\t\t\t\tin += last - k;\n\t\t\t\tif (in == run) {\n\t\t\t\t\tin = 0;\n\t\t\t\t\trow += row_step;\n\t\t\t\t}\n");
	strbuf_puts(b, "\t\t\t\tk = last;\n\t\t\t\tcontinue;\n\t\t\t}\n");
}

/* As put_terms, one segment of A's rows after the other; the current one ends at term LAST. All
 * segments are whole if RUN, their number of terms, is not 0. */
static void put_runs(const GenC *g, StrBuf *b, const Tile *t, int rows, int nv, int run)
{
	const char *type = type_of(t, t->a);

	if (run)
		strbuf_printf(
			b,
			"\n\t\tfor (; k < end; row += row_step) {\n\t\t\tconst int64_t last = k + %d;\n",
			run);
	else
		strbuf_puts(
			b,
			"\n\t\twhile (k < end) {\n\t\t\tconst int64_t last = end - k < run - in ? end : k + run - in;\n");
	if (c_tile_skips(g, t))
		put_skip(b, rows, run);
	for (int i = 0; i < rows; i++)
		strbuf_printf(b, "\t\t\tconst %s *a%d = row[%d]%s;\n", type, i, i,
			      run ? "" : " + in * a_step");
	if (!run)
		strbuf_puts(b, "\n\t\t\tin += last - k;\n");
	put_terms(g, b, t, rows, nv, "last", "\t\t\t");
	strbuf_puts(
		b,
		run ? "\t\t}\n"
		    : "\t\t\tif (in == run) {\n\t\t\t\tin = 0;\n\t\t\t\trow += row_step;\n\t\t\t}\n\t\t}\n");
}

/* The list that a panel with an order stores besides the bits of wide terms. */
static const char *order_of(const Tile *t)
{
	return t->order.flips_at ? "flips" : "next";
}

/* A micro-kernel's parameters from "b" on: with types if DECLARE, otherwise as the arguments of a
 * call. */
static const char *last_parameters(GenC *g, const Tile *t, bool declare)
{
	const bool first_term = c_tile_pairs(g, t) && !t->by_runs.starts;

	if (t->scaled.scale && declare)
		return arena_printf(
			g->arena,
			"const uint8_t *b, int64_t b_step, %sconst %s *scale,%s int64_t group, float *acc",
			t->scaled.row_scale ? "const float *row_scale, " : "",
			c_tile_widens(t) ? "uint16_t" : "float",
			t->scaled.zero ? " const float *zero," : "");
	if (t->scaled.scale)
		return arena_printf(g->arena, "b, b_step, %sscale,%s group, acc",
				    t->scaled.row_scale ? "row_scale, " : "",
				    t->scaled.zero ? " zero," : "");
	return declare ? arena_printf(
				 g->arena,
				 "const %s *b, int64_t b_step, const char *ahead, int64_t ahead_step, %s%s%s *acc",
				 type_of(t, t->b),
				 c_tile_pairs(g, t)
					 ? arena_printf(
						   g->arena,
						   "const int8_t *sums, const int8_t *bits, const int8_t *%s, ",
						   order_of(t))
					 : "",
				 first_term ? "int64_t k0, " : "", c_type(t->ct))
		       : arena_printf(
				 g->arena, "b, b_step, ahead, ahead_step, %s%sacc",
				 c_tile_pairs(g, t)
					 ? arena_printf(g->arena, "sums, bits, %s, ", order_of(t))
					 : "",
				 first_term ? "k0, " : "");
}

/* Whether the function for ROWS rows of T is part of the function that chooses between those for
 * several numbers of rows. Then that one is called, so that kernels share it: inlined, it would be
 * compiled for each of them, a sixteenth of the time of a compile. */
static bool is_in_choice(const GenC *g, const Tile *t, int rows)
{
	return t->kpack == 1 && !t->scaled.scale && g->target->registers >= 32 && rows == t->usual;
}

/* The function NAME for ROWS rows, with SETS of sums. */
static void rows_function(GenC *g, StrBuf *b, const Tile *t, const char *name, int rows, int sets)
{
	const char *type = c_type(t->ct), *a = type_of(t, t->a),
		   *how = rows < t->usual                        ? ""
			  : t->whole || is_in_choice(g, t, rows) ? "DL_TILE "
								 : "DL_APART ";
	const int esize = ctype_bytes(t->ct), lanes = c_tile_lanes(g, t), nv = vectors_of(g, t),
		  run = c_tile_whole_runs(t);

	strbuf_printf(b, "%s static %svoid %s(int64_t n, int first, ",
		      t->kpack == 1 || splits_pairs(t) ? "DL_CONTRACT"
		      : t->b->dtype == DT_BF16         ? "DL_DOT_BF16"
						       : "DL_DOT",
		      how, name);
	put_parameters(g, b, t, a);
	strbuf_printf(b, "\t\t%s)\n{\n%s", last_parameters(g, t, true),
		      t->kpack == 1 || t->ct == CT_F32 ? "\tDL_CONTRACT_ON\n" : "");
	if (columns_of(g, t) >= lanes)
		strbuf_printf(
			b,
			"\ttypedef %s vec __attribute__((vector_size(%d), aligned(%d), may_alias));\n",
			type, lanes * esize, esize);
	if (columns_of(g, t) % lanes)
		strbuf_printf(
			b,
			"\ttypedef %s half_vec __attribute__((vector_size(%d), aligned(%d), may_alias));\n",
			type, lanes / 2 * esize, esize);
	if (t->whole && g->target->registers < 32)
		strbuf_puts(b, "\n\tDL_FREE_REGISTERS;\n");
	if (c_tile_pairs(g, t) && !is_ordered(g, t, rows))
		strbuf_printf(b, "\t(void)sums, (void)bits, (void)%s;\n", order_of(t));
	if (c_tile_pairs(g, t) && !is_ordered(g, t, rows) && !t->by_runs.starts)
		strbuf_puts(b, "\t(void)k0;\n");
	if (is_ordered(g, t, rows))
		strbuf_puts(b, "\tconst int wide_terms = dot_any(bits, k0, n);\n");
	if (t->by_runs.starts && !run)
		strbuf_puts(b, "\tint64_t in = k0 % run;\n\n\trow += k0 / run * row_step;\n");
	for (int i = 0; i < rows && !t->by_runs.starts; i++)
		strbuf_printf(b, "\tconst %s *a%d = a + row[%d];\n", a, i, i);
	strbuf_printf(
		b,
		"\n\tint64_t k = 0;\n\n\tdo {\n\t\tconst int64_t end = n - k > %d ? k + %d : n;\n",
		TILE_DEPTH, TILE_DEPTH);
	for (int j = 0; j < nv && is_ordered(g, t, rows); j++)
		strbuf_printf(
			b,
			"\t\tconst vec begin%d = first ? *(const vec *)(sums + %d) : (vec){0};\n",
			j, j * lanes * esize);
	for (int i = 0; i < rows; i++) {
		for (int j = 0; j < nv * sets; j++) {
			const char *of = vector_type(g, t, j / sets);

			if (!j || strcmp(of, vector_type(g, t, (j - 1) / sets)) != 0)
				strbuf_printf(b, "%s\t\t%s ", j ? ";\n" : "", of);
			else
				strbuf_puts(b, ", ");
			strbuf_printf(b, is_ordered(g, t, rows) ? "%s = begin%d" : "%s = {0}",
				      sums_of(g, i, j / sets, j % sets), j);
		}
		strbuf_puts(b, ";\n");
	}
	if (sets > 1)
		put_sets(g, b, t, rows, nv, sets);
	if (t->by_runs.starts)
		put_runs(g, b, t, rows, nv, run);
	else
		put_terms(g, b, t, rows, nv, "end", "\t\t");
	strbuf_puts(b, "\t\tif (!first) {\n");
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < nv; j++)
			strbuf_printf(b, "\t\t\tc%d_%d += *(const %s *)(acc + %d);\n", i, j,
				      vector_type(g, t, j), i * t->nr + j * lanes);
	strbuf_puts(b, "\t\t}\n");
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < nv; j++)
			strbuf_printf(b, "\t\t*(%s *)(acc + %d) = c%d_%d;\n", vector_type(g, t, j),
				      i * t->nr + j * lanes, i, j);
	strbuf_puts(b, "\t\tfirst = 0;\n\t} while (k < n);\n}\n\n");
}

/* A function for up to so many rows, with SETS of sums for each element. */
typedef struct RowsFunction {
	int rows, sets;
	const char *name;
} RowsFunction;

enum { MOST_FUNCTIONS = 10 };

/* The next smaller number of rows for which a function exists, after R. HALF is always one. */
static int next_rows(int r, int half)
{
	const int next = r > 4 ? 4 : r > 2 ? 2 : r - 1;

	return half < r && half > next ? half : next;
}

/* The functions of T: those with one sum for each element, the most rows first, and then those with
 * several. Returns how many there are. If the sums of a tile do not fit in registers, two calls
 * compute half of its rows each. */
static int rows_functions(const GenC *g, const Tile *t, RowsFunction *f)
{
	const char *key = key_of(g, t);
	const bool fits = (t->mr + 1) * vectors_of_row(g, t) + 1 <= g->target->registers;
	const int half = t->mr > t->usual && !fits ? t->mr / 2 : 0;
	int n = 0;

	if (t->mr > t->usual && fits)
		f[n++] = (RowsFunction){t->mr, 1, arena_printf(g->arena, "%s_%d", key, t->mr)};
	for (int several = 0; several < 2; several++)
		for (int r = t->usual; r >= 1; r = next_rows(r, half)) {
			const int sets = sets_of(g, t, r);
			/* even the largest tile has several sums in a product of few rows; a
			 * product of more rows needs it with one */
			const bool one = !several && sets > 1 && t->rows && !n;

			if ((sets > 1) != several && !one)
				continue;
			if (several && t->rows && !c_tile_counts_rows(g, t))
				continue;
			f[n++] = (RowsFunction){
				r, one ? 1 : sets,
				arena_printf(g->arena, one ? "%s_%d_one" : "%s_%d", key, r)};
		}
	return n;
}

/* The call of the function NAME of T for the rows from FIRST on. */
static void put_rows_call(GenC *g, StrBuf *b, const Tile *t, const char *name, int first)
{
	const char *last = last_parameters(g, t, false);

	strbuf_printf(b, "%s(n, first, ", name);
	if (t->by_runs.starts)
		strbuf_printf(b, "row, row_step, run, k0, %s", c_tile_skips(g, t) ? "none, " : "");
	else
		strbuf_printf(b, first ? "a, row + %d, " : "a, row, ", first);
	strbuf_printf(b, first ? "a_step, %s + %d);" : "a_step, %s);", last, first * t->nr);
}

/* Prints the choice between the N functions F of T: by the number of valid rows, and by that of all
 * rows, since all elements of a product are summed in one order. */
static void put_choice(GenC *g, StrBuf *b, const Tile *t, const RowsFunction *f, int n)
{
	const int half = t->mr / 2;
	int at = 0;

	strbuf_puts(b, "\t");
	if (t->mr > f[0].rows) { /* more sums than there are registers */
		while (at + 1 < n && f[at].rows > half)
			at++;
		assert(f[at].rows == half && f[at].sets == 1);
		strbuf_printf(b, "if (valid > %d) {\n\t\t", t->usual);
		put_rows_call(g, b, t, f[at].name, 0);
		strbuf_puts(b, "\n\t\t");
		put_rows_call(g, b, t, f[at].name, half);
		strbuf_puts(b, "\n\t} else");
		strbuf_puts(b, n > 1 ? " " : "");
	} else if (n == 1) {
		strbuf_puts(b, "(void)valid;");
	}
	for (int i = 0; i < n; i++) {
		if (i + 1 < n)
			strbuf_printf(b, "if (%s > %d)",
				      f[i].sets == 1 && f[i + 1].sets > 1 && t->rows ? "rows"
										      : "valid",
				      f[i + 1].rows);
		strbuf_puts(b, "\n\t\t");
		put_rows_call(g, b, t, f[i].name, 0);
		strbuf_puts(b, i + 2 < n ? "\n\telse " : i + 1 < n ? "\n\telse" : "\n");
	}
}

typedef VEC(const char *) Names;

/* Whether NAME is new in PRINTED, to which it is added. */
static bool is_new(GenC *g, Names *printed, const char *name)
{
	for (int i = 0; i < printed->n; i++)
		if (!strcmp(printed->at[i], name))
			return false;
	vec_push(g->arena, printed, name);
	return true;
}

/* Prints the functions of tile T, whose names begin with KEY, except those in PRINTED. */
static void tile_function(GenC *g, StrBuf *b, const Tile *t, const char *key, Names *printed)
{
	const char *a = type_of(t, t->a), *last = last_parameters(g, t, true);
	RowsFunction f[MOST_FUNCTIONS];
	int n;

	if (t->by_runs.shift) {
		c_tile_groups(b, t, key);
		return;
	}
	if (t->matrix) {
		c_tile_matrix(g, b, t, key);
		return;
	}
	if (t->whole) {
		rows_function(g, b, t, key, t->mr, t->rows ? 1 : sets_of(g, t, t->mr));
		return;
	}
	n = rows_functions(g, t, f);
	for (int i = 0; i < n; i++)
		if (!is_new(g, printed, f[i].name))
			continue;
		else if (t->scaled.row_scale)
			c_tile_scaled_rows(g, b, t, f[i].name, f[i].rows, last);
		else if (t->scaled.scale)
			c_tile_scaled(g, b, t, f[i].name, f[i].rows, f[i].sets, last);
		else
			rows_function(g, b, t, f[i].name, f[i].rows, f[i].sets);
	strbuf_printf(b, "static %s void %s(int64_t valid, %sint64_t n, int first, ",
		      is_in_choice(g, t, t->usual) ? "DL_APART" : "inline", key,
		      c_tile_counts_rows(g, t) ? "int64_t rows, " : "");
	put_parameters(g, b, t, a);
	strbuf_printf(b, "\t\t%s)\n{\n", last);
	put_choice(g, b, t, f, n);
	strbuf_puts(b, "}\n\n");
}

void c_tiles(GenC *g, StrBuf *b, int file)
{
	Names printed = {0};

	c_tile_matrix_functions(g, b);
	c_tile_dot_functions(g, b);
	c_tile_wide_functions(g, b);
	c_tile_look_functions(g, b);
	for (int i = 0; i < g->tiles.n; i++)
		if (gen_c_calls(g, g->tiles.at[i], file))
			tile_function(g, b, &g->tile.at[i], g->tiles.at[i], &printed);
}
