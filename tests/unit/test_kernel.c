/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults in kernels and in their text: the reader or the verifier rejects each one with a message.
 * Also names that clash, or are not words, which are printed as other names that can be read back.
 */
#include "ir/kernel/kernel.h"

#include <stdlib.h>
#include <string.h>

static int failed;

#define CHECK(x) ((x) ? (void)0 : fail(__LINE__, #x))

static void fail(int line, const char *what)
{
	printf("test_kernel.c:%d: %s\n", line, what);
	failed++;
}

typedef struct Bad {
	const char *text, *message;
} Bad;

#define K "kernel @k(%x: f32[8,9], %i: i64[8]) -> (%y: f32[8,9]) {\n"
#define ITERS " for i < 8, j < 9\n}"

static const Bad unreadable[] = {
	{"kernel k() -> () {\n}", "expected @"},
	{"kernel @k(%x: f32[8]) -> (%y: f32[8] {\n}", "expected )"},
	{"kernel @k(%x: seq(f32[8])) -> (%y: f32[8]) {\n}", "a tensor type"},
	{K "  y[i,j] = x[i,j]\n}", "without 'for' or 'over'"},
	/* one flat index: can be read, then the verifier rejects it */
	{K "  y[i,j] = x[i]" ITERS, "wrong number of indices"},
	{K "  y[i] = x[i,j]" ITERS, "wrong number of indices"},
	{K "  y[i,j] = x[i,j,0]" ITERS, "wrong number of indices"},
	{K "  y[i,j] = z[i,j]" ITERS, "no buffer"},
	{K "  y[i,j] = i" ITERS, "another type"},
	{K "  y[i,j] = add(x[i,j], i)" ITERS, "operand types"},
	{K "  y[i,j] = x[i,j] for i < 8, j < 9, i < 3\n}", "two extents"},
	{K "  y[i,j] = sum max x[i,j]" ITERS, "two monoids"},
	{K "  y[i,j] = x[i,j] x[i,j]" ITERS, "expected 'for' or 'over'"},
	{K "  t: f32[3] = {1, 2}\n}", "expected"},
	{K "  x: f32[3]\n}", "second buffer"},
	{K "  y[i,j] = x[i,j] for i < 8, j < 9 where x[i,j]\n}", "another type"},
};

static const Bad unverified[] = {
	{K "  y[i,j] = x[i + 1,j]" ITERS, "leaves buffer 'x'"},
	{K "  y[i,j + 1] = x[i,j]" ITERS, "leaves buffer 'y'"},
	{K "  y[i,j] = x[i,j - 1]" ITERS, "leaves buffer 'x'"},
	{K "  y[i,0] = x[i,j]" ITERS, "writes the same elements 'j'"},
	{K "  t: f32[8,9]\n  y[i,j] = t[i,j]" ITERS, "read before any write of 't'"},
	{K "  x[i,j] = 0.0" ITERS, "write to an input"},
	{K "  y[i,j] = update sum x[i,j]" ITERS, "nothing wrote 'y'"},
	{K "  y[i,j] = x[i,j] for i < 8 over j < 9\n}", "map with reduced"},
	{K "  y[i,j] = sum x[i,j] for i < 8 over j < 9\n}", "not of this part 'j'"},
	{K "  y[i,j] = scan sum x[i,j]" ITERS, "a prefix needs"},
	{K "  y[i,j] = 1 for i < 8, i < 8\n}", ""},
	{K "}", "an output that nothing writes"},
	{"kernel @k(%x: f32[N]) -> (%y: f32[N]) {\n  y[i] = x[i + 1] for i < N\n}", ""},
};

/* The text of the diagnostics from reading and verifying TEXT. */
static char *messages(const char *text, bool *read, bool *good)
{
	char *out = NULL;
	size_t n;
	Diag diag = {.out = open_memstream(&out, &n)};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	int line = 1;
	Kernel *k = kernel_parse(c, a, &text, &line);

	*read = k != NULL;
	*good = k && kernel_verify(k, &diag, "test");
	CHECK((diag.errors == 0) == *good);
	fclose(diag.out);
	arena_free(a);
	ctx_free(c);
	return out;
}

static void check_bad(const Bad *b, size_t n, bool readable)
{
	for (size_t i = 0; i < n; i++) {
		bool read, good;
		char *said = messages(b[i].text, &read, &good);

		if (*b[i].message && (good || read != readable || !strstr(said, b[i].message))) {
			printf("%s\n  said: %s  not: %s\n", b[i].text, said, b[i].message);
			failed++;
		}
		free(said);
	}
}

/* Names of ONNX values and iterators that are used for different things. */
static void check_names(void)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Dim *n = sym_get(c, "batch.size")->dim, *m = dim_const(c, 4);
	const Type *t = type_tensor(c, DT_F32, 2, (Dim *[]){n, m});
	Kernel *k = kernel_new(c, a, "names"), *again;
	Buf *x = kernel_buf(k, BUF_IN, "/conv/Out:0", t),
	    *y = kernel_buf(k, BUF_OUT, "/conv/Out_0", t);
	Buf *sum = kernel_temp(k, "sum", DT_F32, 1, &n);
	Iter *it[2], *other[3] = {kernel_iter(k, "for", n), kernel_iter(k, "i0", m),
				  kernel_iter(k, "_1", m)};
	StrBuf one = {0}, two = {0};
	const char *p;
	int line = 1;

	kernel_reduce(k, MONOID_sum, other, 1, other + 1, 1, sum, kernel_load_iters(k, x, other),
		      NULL);
	kernel_iters_of(k, y, it);
	kernel_map_id(k, it, y,
		      ex_op2(k->pool, IN_add, kernel_load_iters(k, x, it),
			     kernel_load_iters(k, sum, it)));
	CHECK(kernel_verify(k, &diag, "test"));
	kernel_print(&one, k);
	p = strbuf_str(&one);
	again = kernel_parse(c, a, &p, &line);
	CHECK(again && kernel_verify(again, &diag, "test"));
	if (again)
		kernel_print(&two, again);
	CHECK(!strcmp(strbuf_str(&one), strbuf_str(&two)));
	if (failed)
		printf("%s%s", strbuf_str(&one), strbuf_str(&two));
	strbuf_free(&one);
	strbuf_free(&two);
	arena_free(a);
	ctx_free(c);
}

int main(void)
{
	check_bad(unreadable, sizeof unreadable / sizeof *unreadable, false);
	check_bad(unverified, sizeof unverified / sizeof *unverified, true);
	check_names();
	printf("%s\n", failed ? "FAILED" : "ok");
	return failed != 0;
}
