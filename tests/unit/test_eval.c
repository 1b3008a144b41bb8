/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter, in parts (tests/unit/test_eval/parts.h): kernels, compared with a second, much
 * simpler interpreter; layouts; error bounds; symbolic values. Each kernel is also printed, read
 * back, copied and verified. `test_eval speed` measures its speed.
 */
#include "tests/unit/test_eval/parts.h"

#include <stdlib.h>
#include <string.h>

int failed;

void fail(const char *file, int line, const char *what)
{
	printf("%s:%d: %s\n", file, line, what);
	failed++;
}

Kernel *read_kernel(Ctx *c, Arena *a, const char *text)
{
	const char *p = text;
	int line = 1;
	Kernel *k = kernel_parse(c, a, &p, &line);

	p += strspn(p, " \n");
	if (!k || *p)
		printf("cannot read:\n%s\n", text);
	return k;
}

static uint64_t random_state = 88172645463325252u;

uint64_t random_bits(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state >> 11;
}

int64_t numel(const Buf *b, const int64_t *sym)
{
	int64_t n = 1, v;

	for (int d = 0; d < b->rank; d++)
		n *= dim_eval(b->dims[d], sym, &v) ? v : 0;
	return n;
}

void *filled(const Buf *b, int64_t n)
{
	void *p = calloc(1, (size_t)dtype_size(b->dtype, n) + 16);
	bool small = dtype_info[b->dtype].bits < 8;

	for (int64_t i = 0; i < n; i++) {
		int64_t v = (int64_t)(random_bits() % 9) - 4;

		if (b->dtype == DT_BOOL || small || !dtype_is_signed(b->dtype))
			v = v < 0 ? -v : v;
		if (b->dtype == DT_BOOL || dtype_info[b->dtype].bits == 2)
			v &= 1;
		if (dtype_is_float(b->dtype))
			dtype_store_f64(b->dtype, p, i, (double)(v & ~(int64_t)small));
		else
			dtype_store_i64(b->dtype, p, i, v);
	}
	return p;
}

void check_text(Ctx *c, Kernel *k)
{
	Arena *a = arena_new();
	StrBuf one = {0}, two = {0}, three = {0};
	Kernel *again;

	kernel_print(&one, k);
	again = read_kernel(c, a, strbuf_str(&one));
	CHECK(again);
	if (again) {
		kernel_print(&two, again);
		kernel_print(&three, kernel_clone(again, a));
		CHECK(kernel_verify(again, c->diag, "test"));
		CHECK(!strcmp(strbuf_str(&one), strbuf_str(&two)));
		CHECK(!strcmp(strbuf_str(&one), strbuf_str(&three)));
		if (strcmp(strbuf_str(&one), strbuf_str(&two)))
			printf("%s---\n%s\n", strbuf_str(&one), strbuf_str(&two));
	}
	strbuf_free(&one);
	strbuf_free(&two);
	strbuf_free(&three);
	arena_free(a);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "speed")) {
		time_kernels();
		return failed != 0;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	check_kernels();
	check_layouts();
	check_bounds();
	check_symbolics();
	printf("%s\n", failed ? "FAILED" : "ok");
	return failed != 0;
}
