/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves (codegen/weights/move.h): kernels that only move elements are recognised, and no others.
 * Any box of a move has the values that the interpreter computes.
 */
#include "codegen/weights/move.h"
#include "ir/eval/eval.h"

#include <stdlib.h>
#include <string.h>

static int failed;

static void fail(const char *what, const char *text)
{
	printf("test_move.c: %s: %s\n", what, text);
	failed++;
}

#define K(type, in, out) "kernel @k(%x: " type in ") -> (%y: " type out ") {\n  "

static const char *const moves[] = {
	K("f32", "[7,9]", "[7,9]") "y[i,j] = x[i,j] for i < 7, j < 9\n}",
	K("f32", "[70,90]", "[90,70]") "y[j,i] = x[i,j] for j < 90, i < 70\n}",
	K("i8", "[33,5,17]", "[17,5,33]") "y[a,b,c] = x[c,b,a] for a < 17, b < 5, c < 33\n}",
	K("f16", "[33,5,17]", "[5,33,17]") "y[a,b,c] = x[b,a,c] for a < 5, b < 33, c < 17\n}",
	K("i64", "[6,40]", "[40,6]") "y[a,b] = x[b,a] for a < 40, b < 6\n}",
	K("f32", "[20,12]", "[8,5]") "y[a,b] = x[a*2 + 3,b + 7] for a < 8, b < 5\n}",
	K("f32", "[20]", "[20]") "y[a] = x[19 - a] for a < 20\n}",
	K("f32", "[5]", "[3,5,4]") "y[a,b,c] = x[b] for a < 3, b < 5, c < 4\n}",
	K("f32", "[12,1]", "[1,12]") "y[0,b] = x[b,0] for b < 12\n}",
	K("f32", "[40,37]", "[2,40,32]") "y[a,b,c] = select(lt(a*32 + c, 37), x[b,a*32 + c], 0) "
					 "for a < 2, b < 40, c < 32\n}",
	K("f64", "[37,40]", "[3,40,16]") "y[a,b,c] = select(lt(a*16 + c, 37), x[a*16 + c,b], 0) "
					 "for a < 3, b < 40, c < 16\n}",
	K("u8", "[3,4,5,6]",
	  "[6,4,3,5]") "y[a,b,c,d] = x[c,b,d,a] for a < 6, b < 4, c < 3, d < 5\n}",
};

static const char *const others[] = {
	K("f32", "[7]", "[7]") "y[i] = neg(x[i]) for i < 7\n}",
	K("f32", "[7]", "[7]") "y[i] = x[mod(i * 2, 7)] for i < 7\n}",
	K("f32", "[7]", "[9]") "y[i] = select(lt(i, 7), x[i], 1) for i < 9\n}",
	K("f32", "[7]", "[9]") "y[i] = select(lt(i, 7), x[i], -0.0) for i < 9\n}",
	K("f32", "[7]", "[7]") "y[i] = x[i] for i < 7 where lt(i, 3)\n}",
	K("u4", "[7]", "[7]") "y[i] = x[i] for i < 7\n}",
	"kernel @k(%x: f32[N]) -> (%y: f32[N]) {\n  y[i] = x[i] for i < N\n}",
	"kernel @k(%x: f32[7]) -> (%y: f16[7]) {\n  y[i] = x[i] for i < 7\n}",
	"kernel @k(%x: f32[7,5]) -> (%y: f32[7]) {\n  y[i] = sum x[i,j] for i < 7 over j < 5\n}",
};

static uint64_t seed = 1;

static int64_t below(int64_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)((seed >> 33) % (uint64_t)n);
}

static Kernel *parse(Ctx *c, Arena *a, const char *text)
{
	int line = 1;
	Kernel *k = kernel_parse(c, a, &text, &line);

	if (!k || !kernel_verify(k, c->diag, "test"))
		abort();
	return k;
}

static void try_boxes(const char *text, const Move *m, const char *in, const char *want)
{
	int64_t lo[MAX_ITERS], hi[MAX_ITERS], x[MAX_ITERS], n = 1, at, first, last;
	char *got;

	for (int i = 0; i < m->n; i++) {
		lo[i] = below(m->extent[i]);
		hi[i] = lo[i] + 1 + below(m->extent[i] - lo[i]);
		n *= hi[i] - lo[i];
	}
	got = malloc((size_t)(n * m->size));
	memset(got, 0x55, (size_t)(n * m->size));
	move_box(m, in, lo, hi, got);
	memcpy(x, lo, sizeof x);
	for (int64_t i = 0; i < n; i++, move_step(m->n, lo, hi, x)) {
		at = 0;
		for (int d = 0; d < m->n; d++)
			at = at * m->extent[d] + x[d];
		if (memcmp(got + i * m->size, want + at * m->size, (size_t)m->size)) {
			fail("another element", text);
			break;
		}
	}
	if (move_range(m, lo, hi, &first, &last) && (first < 0 || last >= m->total))
		fail("range", text);
	free(got);
}

static void try_move(Ctx *c, Arena *a, const char *text)
{
	Kernel *k = parse(c, a, text);
	EvalOpts o = {.sym = NEW_ARRAY(a, sym_count(c) + 1, int64_t)};
	EvalBuf bufs[2] = {{0}};
	Move m;
	int64_t n = 1;

	if (!kernel_move(k, &m)) {
		fail("not recognised", text);
		return;
	}
	for (int i = 0; i < m.n; i++)
		n *= m.extent[i];
	for (int i = 0; i < 2; i++)
		bufs[k->bufs.at[i]->id].data = malloc(
			(size_t)((k->bufs.at[i]->kind == BUF_IN ? m.total : n) * m.size));
	for (int64_t i = 0; i < m.total * m.size; i++)
		((char *)bufs[0].data)[i] = (char)below(60); /* not a NaN in any type */
	if (eval_kernel(k, &o, bufs, NULL) != EVAL_OK)
		fail("not evaluated", text);
	for (int i = 0; i < 200 && !failed; i++)
		try_boxes(text, &m, bufs[0].data, bufs[1].data);
	free(bufs[0].data);
	free(bufs[1].data);
}

int main(void)
{
	Diag d = {.out = stderr};
	Ctx *c = ctx_new(&d);
	Arena *a = arena_new();
	Move m = move_plain(10, 4);

	for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
		try_move(c, a, moves[i]);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (kernel_move(parse(c, a, others[i]), &m))
			fail("no move", others[i]);
	arena_free(a);
	ctx_free(c);
	return failed != 0;
}
