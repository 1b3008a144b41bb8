/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ir/loop/place.c beside brute force on random layouts: which element a register has, how two
 * layouts differ, vectors, bank conflicts, and the text. Then the layouts of matrix instructions:
 * the sums of Q*K^T are the operand of P*V, for 16 bits as they are, for tf32 in another order of
 * the terms.
 */
#include "ir/loop/loop_impl.h"

#include "ir/kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;
static uint64_t seed = 88172645463325252u;

static int random_below(int n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (int)(seed % (uint64_t)n);
}

static void print(StrBuf *b, const TileLayout *l)
{
	LoopText t = {.out = b};
	TileLayout copy = *l;

	lt_layout(&t, &copy, l->rank);
}

/* Reads a layout of rank 2 from all of TEXT. */
static bool read_text(const char *text, TileLayout *l)
{
	LoopText t = {.p = text, .line_start = text};

	lt_layout(&t, l, 2);
	return !t.failed && !*t.p;
}

static void check(bool ok, const char *what, const TileLayout *a, const TileLayout *b)
{
	StrBuf t = {0};

	if (ok)
		return;
	failed++;
	print(&t, a);
	strbuf_puts(&t, " | ");
	if (b)
		print(&t, b);
	printf("test_place.c: %s: %s\n", what, strbuf_str(&t));
	strbuf_free(&t);
}

/* Splits dims of SIZE into factors of 2, each at a random place: 32 lanes, as many warps and
 * registers as it comes. The strides are in a random order. */
static TileLayout random_layout(const int *size, int rank, int warps)
{
	TileLayout l = {.rank = rank};
	int dim[16], stride[16], n = 0, lanes = 1, w = 1;

	for (int d = 0; d < rank; d++)
		for (int s = 1; s < size[d]; s *= 2) {
			dim[n] = d;
			stride[n++] = s;
		}
	for (int i = n - 1; i > 0; i--) {
		const int j = random_below(i + 1), x = dim[i], y = stride[i];

		dim[i] = dim[j], stride[i] = stride[j];
		dim[j] = x, stride[j] = y;
	}
	for (int i = 0; i < n; i++) {
		const TilePlace at = lanes < 32 ? AT_LANE : w < warps ? AT_WARP : AT_REGISTER;

		lanes *= at == AT_LANE ? 2 : 1;
		w *= at == AT_WARP ? 2 : 1;
		layout_add(&l, dim[i], at, 2, stride[i], 0);
	}
	return l;
}

/* The element by the definition: digits are taken from the innermost axis of each place
 * outwards. */
static void element(const TileLayout *l, int reg, int lane, int warp, int64_t *idx)
{
	memset(idx, 0, TILE_RANK * sizeof *idx);
	for (int i = 0; i < l->n; i++) {
		int64_t inside = 1, number;

		for (int j = i + 1; j < l->n; j++)
			inside *= l->axis[j].at == l->axis[i].at ? l->axis[j].extent : 1;
		number = l->axis[i].at == AT_REGISTER ? reg
			 : l->axis[i].at == AT_LANE   ? lane
						      : warp;
		if (l->axis[i].dim >= 0)
			idx[l->axis[i].dim] += number / inside % l->axis[i].extent *
					       l->axis[i].stride;
	}
}

/* The change by comparison of all elements. */
static TileChange change(const TileLayout *from, const TileLayout *to)
{
	const int rf = (int)layout_count(from, AT_REGISTER),
		  rt = (int)layout_count(to, AT_REGISTER), warps = (int)layout_count(from, AT_WARP);
	bool same = rf == rt, rename = true;

	for (int r = 0; r < rt; r++) {
		bool some = false, own = true;

		for (int c = 0; c < rf; c++) {
			bool all = true;

			for (int t = 0; t < 32 * warps; t++) {
				int64_t x[TILE_RANK], y[TILE_RANK];

				element(from, c, t % 32, t / 32, x);
				element(to, r, t % 32, t / 32, y);
				all = all && !memcmp(x, y, sizeof x);
			}
			some = some || all;
			own = own && (c != r || all);
		}
		rename = rename && some;
		same = same && own;
	}
	return same ? CHANGE_NOTHING : rename ? CHANGE_RENAME : CHANGE_OTHER;
}

static int compare(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Passes of an access by lanes that move 128 bytes, at addresses AT: the bank with most words. */
static int passes(const int64_t *at, int lanes, int bytes)
{
	int64_t word[32];
	int n = 0, most = 0;

	for (int lane = 0; lane < lanes; lane++)
		for (int b = 0; b < (bytes > 4 ? bytes : 4); b += 4)
			word[n++] = (at[lane] + b) / 4;
	qsort(word, (size_t)n, sizeof *word, compare);
	for (int bank = 0; bank < 32; bank++) {
		int here = 0;

		for (int i = 0; i < n; i++)
			here += word[i] % 32 == bank && (!i || word[i] != word[i - 1]);
		most = here > most ? here : most;
	}
	return most;
}

static void test_text(const TileLayout *l)
{
	StrBuf a = {0}, b = {0};
	TileLayout back;

	print(&a, l);
	check(read_text(strbuf_str(&a), &back), "the text is not read back", l, NULL);
	print(&b, &back);
	check(!strcmp(strbuf_str(&a), strbuf_str(&b)), "another text after reading", l, &back);
	strbuf_free(&a);
	strbuf_free(&b);
}

static void test_random(void)
{
	const int size[TILE_RANK] = {8 << random_below(3), 16 << random_below(3), 1},
		  pad = random_below(5);
	const TileLayout a = random_layout(size, 2, 4),
			 b = random_below(4) ? random_layout(size, 2, 4) : a;
	TileLayout address = {.rank = 2};
	int bytes = 1 << random_below(5), v = bytes > 8 ? 1 : bytes > 4 ? 2 : 4;
	const int lanes = bank_lanes(bytes);
	int64_t at[32];

	for (int i = 0; i < 64; i++) {
		const int r = random_below((int)layout_count(&a, AT_REGISTER)),
			  l = random_below(32), w = random_below(4);
		int64_t x[TILE_RANK] = {0}, y[TILE_RANK];

		layout_element(&a, r, l, w, x);
		element(&a, r, l, w, y);
		check(!memcmp(x, y, sizeof x), "another element", &a, NULL);
	}
	check(layout_change(&a, &b) == change(&a, &b), "another change", &a, &b);
	layout_add(&address, 0, AT_ADDRESS, size[0], 1, (size[1] + pad) * bytes);
	layout_add(&address, 1, AT_ADDRESS, size[1], 1, bytes);
	for (int lane = 0; lane < lanes; lane++) {
		int64_t x[TILE_RANK];

		element(&a, 0, lane, 0, x);
		at[lane] = layout_address(&address, x);
	}
	check(bank_passes(at, lanes, bytes) == passes(at, lanes, bytes), "other bank passes", &a,
	      &address);
	for (; v > 1; v /= 2) {
		bool ok = layout_count(&a, AT_REGISTER) % v == 0;

		for (int i = 0; ok && i < 128 * (int)layout_count(&a, AT_REGISTER); i++) {
			const int r = i / 128;
			int64_t x[TILE_RANK], y[TILE_RANK];

			element(&a, r, i % 32, i / 32 % 4, x);
			element(&a, r / v * v, i % 32, i / 32 % 4, y);
			ok = layout_address(&address, x) ==
				     layout_address(&address, y) + r % v * bytes &&
			     layout_address(&address, y) % (v * bytes) == 0;
		}
		if (ok)
			break;
	}
	check(layout_vector_width(&a, &address, bytes,
				  bytes > 8   ? 1
				  : bytes > 4 ? 2
					      : 4) == v,
	      "another vector", &a, &address);
	test_text(&a);
	test_text(&address);
}

static TileLayout read_layout(const char *text)
{
	TileLayout l;

	if (!read_text(text, &l)) {
		printf("test_place.c: \"%s\" is not read\n", text);
		failed++;
	}
	return l;
}

/* The sums of m16n8 beside one another, and A of m16n8k16 (16 bits) and of m16n8k8 (tf32). */
static void test_fragments(void)
{
	const TileLayout
		sums = read_layout(
			"0 warp 4*16, 1 reg 4*8, 0 reg 2*8, 0 lane 8*1, 1 lane 4*2, 1 reg 2*1"),
		half = read_layout(
			"0 warp 4*16, 1 reg 2*16, 1 reg 2*8, 0 reg 2*8, 0 lane 8*1, 1 lane 4*2, 1 reg 2*1"),
		tf32 = read_layout(
			"0 warp 4*16, 1 reg 4*8, 1 reg 2*4, 0 reg 2*8, 0 lane 8*1, 1 lane 4*1"),
		permuted = read_layout(
			"0 warp 4*16, 1 reg 4*8, 1 reg 2*1, 0 reg 2*8, 0 lane 8*1, 1 lane 4*2"),
		columns = read_layout(
			"0 warp 2*16, 1 warp 2*16, 1 reg 2*8, 0 reg 2*8, 0 lane 8*1, 1 lane 4*2, 1 reg 2*1");

	check(layout_change(&sums, &half) == CHANGE_NOTHING, "16 bits", &sums, &half);
	check(layout_change(&sums, &tf32) == CHANGE_OTHER, "tf32", &sums, &tf32);
	check(layout_change(&sums, &permuted) == CHANGE_RENAME, "tf32 permuted", &sums, &permuted);
	check(layout_register(&sums, &permuted, 1) == 2, "tf32 permuted, register 1", &sums,
	      &permuted);
	check(layout_change(&columns, &half) == CHANGE_OTHER, "columns of other warps", &columns,
	      &half);
}

/* max[m] beside score[m, n]: registers and lanes that differ in n read the same element. */
static void test_operand(void)
{
	Diag diag = {.limit = 10};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	ExprPool *p = expr_pool_new(c, a);
	Iter m = {.name = "m", .extent = dim_const(c, 64)},
	     n = {.name = "n", .extent = dim_const(c, 32)}, *it[] = {&m, &n};
	Expr *index[] = {ex_iter(p, &m)}, *both[] = {ex_add(p, ex_iter(p, &m), ex_iter(p, &n))},
	     *twice[] = {ex_iter(p, &n), ex_iter(p, &n)};
	const TileLayout sums = read_layout(
		"0 warp 4*16, 1 reg 4*8, 0 reg 2*8, 0 lane 8*1, 1 lane 4*2, 1 reg 2*1");
	TileLayout row, rest;

	check(layout_of_operand(c, index, 1, it, 2, &sums, &row), "the rows of sums", &sums, NULL);
	for (int r = 0; r < 16; r++)
		for (int l = 0; l < 32; l++) {
			int64_t x[TILE_RANK], y[TILE_RANK];

			layout_element(&sums, r, l, 3, x);
			layout_element(&row, r, l, 3, y);
			check(x[0] == y[0], "the row of an element", &sums, &row);
		}
	check(layout_of_operand(c, both, 1, it, 2, &sums, &rest), "an index of both", &sums, NULL);
	check(!layout_of_operand(c, twice, 2, it, 2, &sums, &rest), "two indices of one iterator",
	      &sums, NULL);
	arena_free(a);
	ctx_free(c);
}

int main(void)
{
	for (int i = 0; i < 300; i++)
		test_random();
	test_fragments();
	test_operand();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
