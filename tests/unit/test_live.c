/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of registers that are live at once in PTX, compared with numbers counted by hand; and
 * the resulting blocks per SM. */
#include "codegen/nvptx/nvptx_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY ".visible .entry k(\n\t.param .u64 k_0\n)\n.maxntid 256\n{\n"
/* A function that the entry calls precedes it. */
#define FUNCTION ".func f\n(\n)\n{\n\t.reg .b32 \t%r<9>;\n\tret;\n}\n"
#define REGS \
	"\t.reg .pred \t%p<3>;\n\t.reg .b16 \t%rs<2>;\n\t.reg .b32 \t%r<40>;\n\t.reg .b64 \t%rd<9>;\n"

static int failed;

static const struct {
	const char *what, *body;
	int alive;
} cases[] = {
	{"nothing", "\tret;\n", 0},
	{"a value of 64 bits, and one of 16 that is never read",
	 "\tld.param.b64 \t%rd1, [k_0];\n\tmov.b16 \t%rs1, 0;\n\tst.global.b64 \t[%rd1], %rd1;\n"
	 "\tret;\n",
	 3},
	{"predicates and special registers do not count",
	 "\tmov.u32 \t%r1, %tid.x; // lane\n\tsetp.eq.b32 \t%p1, %r1, 0;\n\t@%p1 bra \t$L__BB0_1;\n"
	 "$L__BB0_1:\n\tret;\n",
	 1},
	{"one that a loop reads in the next round",
	 "\tmov.b32 \t%r1, 0;\n\tmov.b32 \t%r2, 7;\n\tmov.b32 \t%r3, 9;\n$L__BB0_1:\n\t.pragma \"nounroll\";\n"
	 "\tadd.s32 \t%r1, %r1, %r2;\n\tsetp.lt.s32 \t%p1, %r1, 9;\n\t@%p1 bra \t$L__BB0_1;\n"
	 "\tst.global.b32 \t[k_0], %r3;\n\tret;\n",
	 3},
	{"one that only a jump past others reads",
	 "\tmov.b32 \t%r1, 0;\n\tmov.b32 \t%r2, 7;\n\t@%p1 bra \t$L__BB0_2;\n\tst.global.b32 \t[k_0], %r2;\n"
	 "\tbra.uni \t$L__BB0_3;\n$L__BB0_2:\n\tst.global.b32 \t[k_0], %r1;\n$L__BB0_3:\n\tret;\n",
	 2},
	{"one that only a place of a table reads",
	 "\tmov.b32 \t%r1, 0;\n\tmov.b32 \t%r2, 7;\n\tmov.b32 \t%r3, 7;\n$L_brx_0: .branchtargets\n\t\t$L__BB0_1,\n\t\t$L__BB0_2;\n"
	 "\tbrx.idx \t%r3, $L_brx_0;\n$L__BB0_1:\n\tst.global.b32 \t[k_0], %r2;\n\tret;\n"
	 "$L__BB0_2:\n\tst.global.b32 \t[k_0], %r1;\n\tret;\n",
	 3},
	{"what may not be written keeps its value",
	 "\tmov.b32 \t%r1, 0;\n\tmov.b32 \t%r2, 7;\n\t@%p1 mov.b32 \t%r1, 8;\n\tadd.s32 \t%r3, %r1, %r2;\n"
	 "\tst.global.b32 \t[k_0], %r3;\n\tret;\n",
	 2},
	{"an instruction of several lines",
	 "\tmov.b32 \t{%r1, %r2}, %rd1;\n\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32\n"
	 "\t\t{%r11, %r12, %r13, %r14},\n\t\t{%r1, %r2, %r1, %r2},\n\t\t{%r3, %r4},\n"
	 "\t\t{%r5, %r6, %r7, %r8};\n\tst.global.v4.b32 \t[k_0], {%r11, %r12, %r13, %r14};\n\tret;\n",
	 8},
	{"braces inside, of a call and of assembly",
	 "\tmov.b32 \t%r1, 0;\n\tmov.b32 \t%r2, 7;\n\t{ // callseq 0, 0\n\t.param .b32 param0;\n\tcall.uni f, ();\n\t} // callseq 0\n"
	 "\t{ .reg .b32 tmp; mov.b32 tmp, %r1; mov.b32 %r3, tmp; }\n\tadd.s32 \t%r3, %r3, %r2;\n\tst.global.b32 \t[k_0], %r3;\n\tret;\n",
	 2},
};

static void check(const char *what, int found, int wanted)
{
	if (found == wanted)
		return;
	printf("test_live.c: %s: %d, not %d\n", what, found, wanted);
	failed++;
}

static void test_alive(void)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		StrBuf b = {0};

		strbuf_puts(&b, FUNCTION ENTRY REGS);
		strbuf_puts(&b, cases[i].body);
		strbuf_puts(&b, "}\n");
		check(cases[i].what, ptx_most_alive(strbuf_str(&b)), cases[i].alive);
		strbuf_free(&b);
	}
}

/* PTX with ALIVE live registers. */
static void put_many(StrBuf *b, int alive, int threads)
{
	strbuf_puts(b, FUNCTION);
	strbuf_printf(b, ".visible .entry k()\n.maxntid %d\n{\n\t.reg .b32 \t%%r<%d>;\n", threads,
		      alive);
	for (int i = 0; i < alive; i++)
		strbuf_printf(b, "\tmov.b32 \t%%r%d, 0;\n", i);
	for (int i = 0; i < alive; i++)
		strbuf_printf(b, "\tst.global.b32 \t[k], %%r%d;\n", i);
	strbuf_puts(b, "\tret;\n}\n");
}

static int blocks_of(int alive, const Gpu *gpu, int threads, int ahead)
{
	StrBuf b = {0};
	char *text;
	int n;

	put_many(&b, alive, threads);
	text = ptx_limited(strbuf_str(&b), gpu, &(PtxFunc){.threads = threads, .ahead = ahead});
	n = atoi(strstr(text, "\n.minnctapersm ") + strlen("\n.minnctapersm "));
	check("the rest of it is as it was", strstr(text, "\n{\n\t.reg") != NULL, 1);
	free(text);
	strbuf_free(&b);
	return n;
}

/* The .maxnreg of a block of 256 threads that may hoist loads; 0: none. */
static int limit_of(int alive, const Gpu *gpu, int hoisted)
{
	StrBuf b = {0};
	char *text;
	const char *at;
	int n;

	put_many(&b, alive, 256);
	text = ptx_limited(strbuf_str(&b), gpu, &(PtxFunc){.threads = 256, .hoisted = hoisted});
	at = strstr(text, "\n.maxnreg ");
	n = at ? atoi(at + strlen("\n.maxnreg ")) : 0;
	free(text);
	strbuf_free(&b);
	return n;
}

static int blocks(int alive, const Gpu *gpu, int threads)
{
	return blocks_of(alive, gpu, threads, 0);
}

int main(void)
{
	const Gpu gpu = {.registers = 65536, .threads = 1536};
	Gpu hungry = gpu;

	test_alive();
	check("few", blocks(1, &gpu, 256), 5);
	check("many", blocks(120, &gpu, 256), 2);
	check("more than that", blocks(121, &gpu, 256), 1);
	check("a multiple of four warps", blocks(195, &gpu, 32), 8);
	check("a warp in part is a warp", blocks(1, &gpu, 130), blocks(1, &gpu, 160));
	check("loads in flight", blocks_of(52, &gpu, 256, 32), 2);
	check("more loads in flight", blocks_of(40, &gpu, 256, 56), 2);
	check("fewer loads", blocks_of(40, &gpu, 256, 40), 3);
	check("none", blocks_of(52, &gpu, 256, 0), 3);
	check("as many as there are", blocks(300, &gpu, 128), 2);
	check("no more than the SM has threads for", blocks(1, &gpu, 512), 2);
	check("a block of more than that", blocks(100, &gpu, 1024), 1);
	check("small blocks", blocks(1, &gpu, 32), 16);
	hungry.spare = 9;
	check("loads that there are not enough registers for", limit_of(100, &hungry, 36), 120);
	check("enough registers for all loads", limit_of(100, &hungry, 19), 0);
	check("no registers to keep", limit_of(111, &hungry, 36), 0);
	check("a GPU that needs no further registers", limit_of(100, &gpu, 36), 0);
	printf("%s\n", failed ? "FAILED" : "ok");
	return failed != 0;
}
