/* SPDX-License-Identifier: Apache-2.0 */
/* The table of targets, one row each, and the names that --target takes; see targets.h. */
/* clang-format off: tables */
#include "codegen/targets.h"

#include "runtime/cpu.h"

#include <string.h>

/* The same for every CPU, as no row names a single machine. With fewer cores, blocks for 4 cost
 * little. A thread that shares a kernel costs a microsecond, a few times as many as this pays. */
#define CPU .l1 = 32 << 10, .cores = 4, .wake = 4096, .memory = 10

/* The rates of a core are at 2.5 GHz, with two fma units, or without fma with a unit for products
 * and another for sums. */
#define X86_V2                                                                                   \
	CPU, .machine = "x86_64", .march = "x86-64-v2", .mcpu = "x86_64_v2", .vector_bytes = 16, \
	     .registers = 16, .l2 = 256 << 10, .gflops = 20
#define X86_V3                                                                                   \
	CPU, .machine = "x86_64", .march = "x86-64-v3", .mcpu = "x86_64_v3", .vector_bytes = 32, \
	     .registers = 16, .fma = true, .f16 = true, .l2 = 512 << 10, .gflops = 80
#define X86_V4                                                                                   \
	CPU, .machine = "x86_64", .march = "x86-64-v4", .mcpu = "x86_64_v4", .vector_bytes = 64, \
	     .registers = 32, .fma = true, .f16 = true, .l2 = 1 << 20, .gflops = 160
#define ARM                                                                                     \
	CPU, .machine = "aarch64", .vector_bytes = 16, .registers = 32, .fma = true,            \
	     .f16 = true, .l2 = 512 << 10, .gflops = 40

/* The features of each level of x86-64 include those of the levels before it. */
#define V2 DL_CPU_X86_V2
#define V3 (V2 | DL_CPU_X86_V3)
#define V4 (V3 | DL_CPU_X86_V4)
#define V4_BF16 (V4 | DL_CPU_AVX512_VNNI | DL_CPU_AVX512_BF16)

/* A GPU has fused multiply-add; registers are counted per lane. The members that follow are
 * Gpu's. */
#define GPU(number, ...)                                                                        \
	{.name = "sm_" #number, .vector_bytes = 16, .registers = 255, .fma = true,              \
	 .gpu = &(const Gpu){.registers = 65536, __VA_ARGS__}}

/* Rows are in the order in which an artifact tries its targets: CPUs before GPUs, and the best of
 * each kind first. */
const Target target_table[] = {
	{X86_V4, .name = "x86-64-v4-amx", .features = V4_BF16 | DL_CPU_AMX_INT8 | DL_CPU_AMX_BF16,
	 .dot = DOT_BYTES, .bf16 = true, .matrix = true},
	{X86_V4, .name = "x86-64-v4-bf16", .features = V4_BF16, .dot = DOT_BYTES, .bf16 = true},
	{X86_V4, .name = "x86-64-v4-vnni", .features = V4 | DL_CPU_AVX512_VNNI, .dot = DOT_BYTES},
	{X86_V4, .name = "x86-64-v4", .features = V4, .dot = DOT_PAIRS},
	{X86_V3, .name = "x86-64-v3-vnni", .features = V3 | DL_CPU_AVX_VNNI, .dot = DOT_BYTES},
	{X86_V3, .name = "x86-64-v3", .features = V3, .dot = DOT_PAIRS},
	{X86_V2, .name = "x86-64-v2", .features = V2, .dot = DOT_PAIRS},
	{ARM, .name = "aarch64-i8mm", .march = "armv8.2-a+i8mm", .mcpu = "generic+v8_2a+i8mm",
	 .features = DL_CPU_ARM_V8 | DL_CPU_ARM_I8MM, .dot = DOT_BYTES},
	{ARM, .name = "aarch64", .march = "armv8-a", .mcpu = "generic", .features = DL_CPU_ARM_V8},
	/* plain C for any CPU that the C compiler supports */
	{CPU, .name = "generic", .vector_bytes = 16, .registers = 32, .l2 = 256 << 10,
	 .gflops = 20},
	/* The numbers are the most common card's of those that run a GPU's code. */
	/* RTX 5090 */
	GPU(120, .sm = 120, .ptx = 87, .llvm = 20, .sms = 170, .shared = 99 << 10,
	    .block_shared = 99 << 10, .spare = 9, .threads = 1536, .lanes = 128, .l2 = 96,
	    .memory = 1792, .f32 = 105, .f16 = 210),
	/* B200 */
	GPU(100, .sm = 100, .ptx = 86, .llvm = 20, .sms = 148, .shared = 227 << 10,
	    .block_shared = 99 << 10, .threads = 2048, .lanes = 128, .l2 = 126, .memory = 8000,
	    .f32 = 75, .f16 = 2250),
	/* H100, H200 */
	GPU(90a, .sm = 90, .only = true, .ptx = 80, .llvm = 19, .sms = 132, .shared = 227 << 10,
	    .block_shared = 227 << 10, .threads = 2048, .lanes = 128, .l2 = 50, .memory = 3350,
	    .f32 = 67, .f16 = 989),
	/* RTX 4090, L40 */
	GPU(89, .sm = 89, .ptx = 78, .llvm = 19, .sms = 128, .shared = 99 << 10,
	    .block_shared = 99 << 10, .threads = 1536, .lanes = 128, .l2 = 72, .memory = 1008,
	    .f32 = 83, .f16 = 165),
	/* RTX 3090, A40 */
	GPU(86, .sm = 86, .ptx = 71, .llvm = 19, .sms = 84, .shared = 99 << 10,
	    .block_shared = 99 << 10, .threads = 1536, .lanes = 128, .l2 = 6, .memory = 936,
	    .f32 = 36, .f16 = 142),
	/* A100 */
	GPU(80, .sm = 80, .ptx = 70, .llvm = 19, .sms = 108, .shared = 163 << 10,
	    .block_shared = 99 << 10, .threads = 2048, .lanes = 64, .l2 = 40, .memory = 1555,
	    .f32 = 19, .f16 = 312),
	/* T4 */
	GPU(75, .sm = 75, .ptx = 65, .llvm = 19, .sms = 40, .shared = 64 << 10,
	    .block_shared = 64 << 10, .spare = 5, .threads = 1024, .lanes = 64, .l2 = 4,
	    .memory = 320, .f32 = 8, .f16 = 65),
	{0},
};

static const Target *native(void)
{
	const uint64_t features = rt_cpu_features(UINT64_MAX);
	const Target *t = target_table;

	while (t->gpu || t->features & ~features)
		t++;
	return t;
}

uint64_t target_dot_features(const Target *t)
{
	const uint64_t dot = DL_CPU_AVX_VNNI | DL_CPU_AVX512_VNNI | DL_CPU_AVX512_BF16 |
			     DL_CPU_AMX_INT8 | DL_CPU_AMX_BF16;

	return target_is_x86(t) ? t->features & dot : 0;
}

bool target_is_x86(const Target *t)
{
	return t->machine && !strcmp(t->machine, "x86_64");
}

void target_names(StrBuf *b, bool gpu)
{
	const char *comma = "";

	for (const Target *t = target_table; t->name; t++)
		if (!t->gpu == !gpu) {
			strbuf_printf(b, "%s%s", comma, t->name);
			comma = ", ";
		}
}

const Target *target_by_name(const char *name)
{
	if (!strcmp(name, "native"))
		return native();
	for (const Target *t = target_table; t->name; t++)
		if (!strcmp(t->name, name))
			return t;
	return NULL;
}

static void unknown_target(const char *name, StrBuf *b)
{
	const Target *t = target_by_name(name);

	if (t) { /* of the other kind */
		strbuf_printf(b, "--target: write %s:%s; dlcc --list-targets names all",
			      t->gpu ? "cuda" : "cpu", name);
		return;
	}
	if (!strcmp(name, "cuda")) {
		strbuf_puts(
			b,
			"--target: write cuda: with a GPU, as cuda:sm_80; dlcc --list-targets names all");
		return;
	}
	strbuf_printf(
		b,
		"--target: \"%s\" is not known; write cpu: with native, v4 (AVX-512), v3 (AVX2), v2 (SSE4.2), v4-vnni or v3-vnni (the same with VNNI), v4-bf16 (with AVX512-BF16, too), v4-amx (with AMX, too), ",
		name);
	target_names(b, false);
	strbuf_puts(b, ", or cuda: with ");
	target_names(b, true);
	strbuf_puts(b, ", or several of them with commas");
	if (str_starts(name, "sm_"))
		strbuf_puts(
			b,
			"; code for one sm_ also runs on GPUs with a higher number, except code for sm_90a, which runs only on sm_90");
}

const Target *target_next(const char **list, bool *cuda, StrBuf *error)
{
	while (**list) {
		const size_t n = strcspn(*list, ",");
		char text[64], *name = text;
		const Target *t;

		snprintf(text, sizeof text, "%.*s", (int)n, *list);
		*list += n + ((*list)[n] == ',');
		if (str_starts(name, "cuda:") || str_starts(name, "cpu:")) {
			*cuda = name[1] == 'u';
			name = strchr(name, ':') + 1;
			if (!*name)
				continue;
		} else if (!strcmp(name, "cpu")) {
			*cuda = false;
			name = "native";
		}
		if (name[0] == 'v' && name[1] >= '2' && name[1] <= '4') {
			char full[80];

			snprintf(full, sizeof full, "x86-64-%s", name);
			t = target_by_name(full);
		} else {
			t = target_by_name(name);
		}
		if (t && !t->gpu == !*cuda)
			return t;
		unknown_target(name, error);
		return NULL;
	}
	return NULL;
}
