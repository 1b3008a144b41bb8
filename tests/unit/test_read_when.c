/* SPDX-License-Identifier: Apache-2.0 */
/* When a sum is read (passes/forms/read_when.h): the first statement of each kernel computes t
 * from x. */
#include "passes/forms/read_when.h"

#include <stdio.h>
#include <string.h>

static int failed;

typedef struct ReadCase {
	const char *temps, *readers, *when; /* WHEN null: always */
} ReadCase;

static const ReadCase cases[] = {
	{"", "y[i,j] = select(le(j, i), t[i,j], 0) for i < M, j < N", "le(n, m)"},
	{"", "y[i,j] = select(le(j, i), 0, t[i,j]) for i < M, j < N", "not(le(n, m))"},
	{"", "y[i,j] = select(b[i,j], exp(t[i,j]), 0) for i < M, j < N", "b[m,n]"},
	/* the arm loads what may be there only where the condition holds */
	{"", "y[i,j] = select(le(j, i), select(b[i,j], t[i,j], 0), 0) for i < M, j < N",
	 "select(le(n, m), b[m,n], false)"},
	{"", "y[i,j] = t[i,j] for i < M, j < N where b[i,j]", "b[m,n]"},
	/* several readers; a map that passes t on; a temporary of which nothing else is read */
	{"",
	 "y[i,j] = add(select(le(j, i), t[i,j], 0), select(b[i,j], t[i,j], 0)) for i < M, j < N",
	 "or(le(n, m), b[m,n])"},
	{"u: f32[M,N]",
	 "u[i,j] = neg(t[i,j]) for i < M, j < N\n  "
	 "y[k,l] = select(le(l, k), u[k,l], 0) for k < M, l < N",
	 "le(n, m)"},
	{"u: f32[M]",
	 "u[i] = max select(le(j, i), t[i,j], 0) for i < M over j < N\n  "
	 "y[k,l] = select(b[k,l], sub(t[k,l], u[k]), 0) for k < M, l < N",
	 "or(le(n, m), b[m,n])"},
	/* always: an element may be read elsewhere, by the condition itself, or by the place of a
	 * write */
	{"", "y[i,j] = add(select(le(j, i), t[i,j], 0), t[i,j]) for i < M, j < N", NULL},
	{"", "y[i,j] = mul(select(le(j, i), 1, 0), t[i,j]) for i < M, j < N", NULL},
	{"", "y[i,j] = select(lt(t[i,j], 0), t[i,j], 0) for i < M, j < N", NULL},
	{"u: f32[M,N]",
	 "u[i,j] = neg(t[i,j]) for i < M, j < N\n  "
	 "y[k,l] = add(select(le(l, k), u[k,l], 0), u[k,l]) for k < M, l < N",
	 NULL},
	/* another element than that of the point, or two of them, or not those of all points */
	{"", "y[i,j] = select(le(j, i), t[i,j], 0) for i < M, j < 9", NULL},
	{"", "y[i,j] = select(le(j, i), t[i,N - 1 - j], 0) for i < M, j < N", NULL},
	{"", "y[i,j] = select(le(j, i), t[i,j], t[i,0]) for i < M, j < N", NULL},
	{"", "y[i,j] = sum select(le(j, p), t[i,j], 0) for i < M, j < N over p < 9", NULL},
	/* conditions that are not simple: a value of the kernel, a fault, a cost */
	{"u: f32[M,N]",
	 "u[i,j] = neg(x[i,j]) for i < M, j < N\n  "
	 "y[k,l] = select(lt(u[k,l], 0), t[k,l], 0) for k < M, l < N",
	 NULL},
	{"", "y[i,j] = select(b[i,index(i64(x[i,j]), dim(N))], t[i,j], 0) for i < M, j < N", NULL},
	{"", "y[i,j] = select(lt(exp(x[i,j]), 1), t[i,j], 0) for i < M, j < N", NULL},
	{"", "y[i,j] = add(t[i,j], x[i,j]) for i < M, j < N", NULL},
};

/* What is read of a bounded t: where a mask that is added is not low. A scale may make t
 * smaller. */
static const ReadCase bounded[] = {
	{"", "y[i,j] = add(t[i,j], x[i,j]) for i < M, j < N", "gt(x[m,n], -8.507059e+37)"},
	{"", "y[i,j] = add(x[i,j], mul(t[i,j], 0.125)) for i < M, j < N",
	 "gt(x[m,n], -8.507059e+37)"},
	{"u: f32[M,N]",
	 "u[i,j] = div(t[i,j], 8) for i < M, j < N\n  "
	 "y[k,l] = add(add(u[k,l], x[k,l]), 1) for k < M, l < N",
	 "gt(x[m,n], -8.507059e+37)"},
	{"", "y[i,j] = add(mul(t[i,j], x[0,0]), x[i,j]) for i < M, j < N",
	 "or(gt(x[m,n], -8.507059e+37), not(le(abs(x[0,0]), 1)))"},
	{"", "y[i,j] = add(mul(t[i,j], 2), x[i,j]) for i < M, j < N", NULL},
	{"", "y[i,j] = add(exp(t[i,j]), x[i,j]) for i < M, j < N", NULL},
	{"", "y[i,j] = add(t[i,j], mul(x[i,j], t[i,j])) for i < M, j < N", NULL},
	{"u: f32[M,N]",
	 "u[i,j] = neg(x[i,j]) for i < M, j < N\n  "
	 "y[k,l] = add(t[k,l], u[k,l]) for k < M, l < N",
	 NULL},
	{"", "y[i,j] = mul(t[i,j], x[i,j]) for i < M, j < N", NULL},
	/* a scale that is not the same for all elements of a temporary */
	{"u: f32[M,N]",
	 "u[i,j] = mul(t[i,j], x[i,0]) for i < M, j < N\n  "
	 "y[k,l] = add(u[k,l], x[k,l]) for k < M, l < N",
	 NULL},
};

static void check(const ReadCase *c, bool is_bounded)
{
	Diag diag = {.limit = 100};
	Ctx *ctx = ctx_new(&diag);
	Arena *a = arena_new();
	const char *text = arena_printf(
		a,
		"kernel @k(%%x: f32[M,N], %%b: bool[M,N]) -> (%%y: f32[M,N]) {\n"
		"  t: f32[M,N]\n  %s\n"
		"  t[m,n] = sum mul(x[m,n], x[m,r]) for m < M, n < N over r < N\n"
		"  %s\n}",
		c->temps, c->readers);
	const char *p = text, *want = c->when ? c->when : "always";
	StrBuf got = {0};
	int line = 1;
	Kernel *k = kernel_parse(ctx, a, &p, &line);
	Expr *when = k ? kernel_read_when(k, 0, is_bounded) : NULL;

	if (when)
		ex_print(&got, when);
	else
		strbuf_puts(&got, k ? "always" : "a kernel that cannot be read");
	if (strcmp(strbuf_str(&got), want)) {
		printf("test_read_when.c: %s, not %s\n%s\n", strbuf_str(&got), want, text);
		failed++;
	}
	strbuf_free(&got);
	ctx_free(ctx);
	arena_free(a);
}

int main(void)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		check(&cases[i], false);
	for (size_t i = 0; i < sizeof bounded / sizeof *bounded; i++)
		check(&bounded[i], true);
	return failed > 0;
}
