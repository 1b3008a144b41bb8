/* SPDX-License-Identifier: Apache-2.0 */
/* Values in buffers with a layout. */
#include "tests/unit/test_eval/parts.h"

#include <string.h>

/* A layout only moves elements: one kernel packs M rows of N elements, counted from 1, into
 * ELEMENTS elements at PACKED, and another kernel unpacks them. */
static void pack_and_back(const char *layout, int m, int n, float *packed, size_t elements)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	const char *body = arena_printf(a, "{\n  y[i,j] = x[i,j] for i < %d, j < %d\n}", m, n);
	Kernel *pack = read_kernel(
		c, a,
		arena_printf(a, "kernel @p(%%x: f32[%d,%d]) -> (%%y: f32[%d,%d]%s) %s", m, n, m, n,
			     layout, body));
	Kernel *unpack = read_kernel(
		c, a,
		arena_printf(a, "kernel @u(%%x: f32[%d,%d]%s) -> (%%y: f32[%d,%d]) %s", m, n,
			     layout, m, n, body));
	float *plain = NEW_ARRAY(a, m * n, float), *back = NEW_ARRAY(a, m * n, float);
	EvalOpts o = {0};

	for (int i = 0; i < m * n; i++)
		plain[i] = (float)i + 1;
	memset(packed, 7, elements * sizeof *packed);
	EvalBuf to[] = {{plain, NULL}, {packed, NULL}}, from[] = {{packed, NULL}, {back, NULL}};

	check_text(c, pack);
	CHECK(pack && eval_kernel(pack, &o, to, NULL) == EVAL_OK);
	CHECK(unpack && eval_kernel(unpack, &o, from, NULL) == EVAL_OK);
	CHECK(!memcmp(plain, back, (size_t)(m * n) * sizeof *plain));
	arena_free(a);
	ctx_free(c);
}

static void check_layout(void)
{
	float packed[3 * 5 * 16];

	pack_and_back("{1/16,0,1%16}", 5, 37, packed, sizeof packed / sizeof *packed);
	CHECK(packed[16] == 38 && packed[2 * 5 * 16 + 4] == 37 && packed[2 * 5 * 16 + 5] == 0);
}

/* The same if both dims are split: [k,n] in blocks of 16 columns by 32 terms, in the order of
 * fragments. */
static void check_digits(void)
{
	enum { K = 45, N = 21, BLOCK = 16 * 32 };
	float packed[4 * BLOCK];
	int zeros = 0;

	pack_and_back("{1/16,0/32,0/16%2,1%8,0/2%4,1/8%2,0/8%2,0%2}", K, N, packed,
		      sizeof packed / sizeof *packed);
	for (int i = 0; i < 4 * BLOCK; i++)
		zeros += packed[i] == 0;
	CHECK(zeros == 4 * BLOCK - K * N);
	/* Lane 4 * 3 + 2 of column 16 + 3 has terms 36, 37 and 44 of the second block, in the
	 * first half. */
	CHECK(packed[3 * BLOCK + 14 * 8] == 36 * N + 19 + 1);
	CHECK(packed[3 * BLOCK + 14 * 8 + 1] == 37 * N + 19 + 1);
	CHECK(packed[3 * BLOCK + 14 * 8 + 2] == 44 * N + 19 + 1);
	CHECK(packed[3 * BLOCK + 14 * 8 + 3] == 0);
	/* Lane 4 * 3 + 2 of column 8 + 3 in the first block has, of its second half, terms 20
	 * and 28. */
	CHECK(packed[BLOCK / 2 + 14 * 8 + 4] == 20 * N + 11 + 1);
	CHECK(packed[BLOCK / 2 + 14 * 8 + 6] == 28 * N + 11 + 1);
}

/* A layout whose axes miss a part of a dim, overlap, or do not follow one another is rejected. */
static void check_bad_layouts(void)
{
	static const char *const bad[] = {"{0}",          "{0,1/16}",    "{0,1%16}",
					  "{0,1/8,1%16}", "{0,1,1}",     "{0,1/16,1/4%2,1%4}",
					  "{0,1/0,1%4}",  "{0,1/1,1%1}", "{0,1/16,1%8,1%8}"};
	static const char *const good[] = {"{1,0}", "{0,1/16,1%16}", "{0,1/16,1/8%2,1%8}"};
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		StrBuf b = {0};
		const char *text;

		strbuf_printf(&b, "f32[5,37]%s", bad[i]);
		text = strbuf_str(&b);
		CHECK(!type_parse(c, &text));
		strbuf_free(&b);
	}
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		StrBuf b = {0}, again = {0};
		const char *text;
		const Type *t;

		strbuf_printf(&b, "f32[5,37]%s", good[i]);
		text = strbuf_str(&b);
		t = type_parse(c, &text);
		CHECK(t);
		if (t)
			type_print(&again, t);
		CHECK(!strcmp(strbuf_str(&b), strbuf_str(&again)));
		strbuf_free(&b);
		strbuf_free(&again);
	}
	ctx_free(c);
}

void check_layouts(void)
{
	check_layout();
	check_digits();
	check_bad_layouts();
}
