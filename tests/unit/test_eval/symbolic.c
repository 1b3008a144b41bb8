/* SPDX-License-Identifier: Apache-2.0 */
/* Symbolic values (eval_symbolic). */
#include "tests/unit/test_eval/parts.h"

#include <string.h>

static void check_symbolic(const char *text, const char *const *in, int nin, const char *want)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(c, a, text);
	Dim *dims[16], *out[16] = {0};
	Dim *const *ins[1] = {dims};
	StrBuf b = {0};
	const Buf *result = NULL;
	int64_t n = 0;

	for (int i = 0; i < nin; i++) {
		const char *p = in[i];

		dims[i] = dim_parse(c, &p);
	}
	CHECK(k);
	for (int i = 0; k && i < k->bufs.n; i++)
		if (k->bufs.at[i]->kind == BUF_OUT)
			n = numel(result = k->bufs.at[i], NULL);
	if (k && eval_symbolic(k, result, ins, out, (int)n))
		for (int i = 0; i < n; i++) {
			strbuf_puts(&b, i ? "; " : "");
			dim_print(&b, out[i]);
		}
	else
		strbuf_puts(&b, "none");
	if (strcmp(strbuf_str(&b), want)) {
		printf("%s\n  %s, not %s\n", text, strbuf_str(&b), want);
		failed++;
	}
	strbuf_free(&b);
	arena_free(a);
	ctx_free(c);
}

void check_symbolics(void)
{
	static const char *const shape[] = {"B", "S", "768"};
	static const char *const scaled[] = {"H", "2*W"};

	check_symbolic("kernel @prod(%x: i64[3]) -> (%y: i64[]) {\n  y[] = prod x[i] over i < 3\n}",
		       shape, 3, "768*B*S");
	check_symbolic("kernel @cat(%x: i64[3]) -> (%y: i64[4]) {\n  y[i] = x[i] for i < 2\n"
		       "  y[3 - i] = ordered div(x[2], 12) for i < 2\n}",
		       shape, 3, "B; S; 64; 64");
	check_symbolic("kernel @pick(%x: i64[3]) -> (%y: i64[2]) {\n"
		       "  y[i] = select(eq(i, 0), 12, add(x[index(i - 1, 3)], 1)) for i < 2\n}",
		       shape, 3, "12; B + 1");
	check_symbolic("kernel @scale(%x: i64[2]) -> (%y: i64[2]) {\n"
		       "  y[i] = i64(floor(mul(f32(x[i]), 0.5))) for i < 2\n}",
		       scaled, 2, "floor(H, 2); W");
	check_symbolic("kernel @unknown(%x: i64[2]) -> (%y: i64[2]) {\n"
		       "  y[i] = i64(sqrt(f32(x[i]))) for i < 2\n}",
		       scaled, 2, "none");
}
