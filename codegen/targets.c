/* SPDX-License-Identifier: Apache-2.0 */
/* The table of targets, one row each, and the names that --target takes; see targets.h. */
/* clang-format off: tables */
#include "codegen/targets.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

/* Bits of dlrt.h's DL_CPU_X86_* and DL_CPU_ARM_*, which this folder does not include. */
enum { V2 = 1, V3 = 2, V4 = 4, VNNI_256 = 8, VNNI_512 = 16, BF16_512 = 32, A64 = 512, I8MM = 1024 };

/* A GPU has fused multiply-add; registers are counted per lane. */
#define GPU(name, ...)                                                  \
	{                                                               \
#name, NULL, NULL, 0, 16, 255, true, false, false, false, 0, 0, 0, 0, \
			&(const Gpu){__VA_ARGS__ }, 0, 0                \
	}

/* The same for every CPU, as no row names a single machine. With fewer cores, blocks for 4 cost
 * little. A thread that shares a kernel costs a microsecond, a few times as many as this pays. */
enum { CORES = 4, WAKE_NS = 4096 };

/* Rows are in the order in which an artifact tries its targets: CPUs before GPUs, and the best of
 * each kind first. */
const Target target_table[] = {
	/* name, machine, -march, features, bytes of a vector, vector registers, fma, dot, f16,
	 * bf16, bytes of L1 and L2, cores, time to wake a thread, GPU; GFLOP/s of a core (at 2.5
	 * GHz with two fma units, without fma one unit each for products and sums) and GB/s from
	 * memory */
	{"x86-64-v4-bf16", "x86_64", "x86-64-v4", V2 | V3 | V4 | VNNI_512 | BF16_512, 64, 32, true, DOT_BYTES, true,
	 true, 32 << 10, 1 << 20, CORES, WAKE_NS, NULL, 160, 10},
	{"x86-64-v4-vnni", "x86_64", "x86-64-v4", V2 | V3 | V4 | VNNI_512, 64, 32, true, DOT_BYTES, true,
	 false, 32 << 10, 1 << 20, CORES, WAKE_NS, NULL, 160, 10},
	{"x86-64-v4", "x86_64", "x86-64-v4", V2 | V3 | V4, 64, 32, true, DOT_PAIRS, true, false, 32 << 10, 1 << 20,
	 CORES, WAKE_NS, NULL, 160, 10},
	{"x86-64-v3-vnni", "x86_64", "x86-64-v3", V2 | V3 | VNNI_256, 32, 16, true, DOT_BYTES, true, false, 32 << 10,
	 512 << 10, CORES, WAKE_NS, NULL, 80, 10},
	{"x86-64-v3", "x86_64", "x86-64-v3", V2 | V3, 32, 16, true, DOT_PAIRS, true, false, 32 << 10, 512 << 10,
	 CORES, WAKE_NS, NULL, 80, 10},
	{"x86-64-v2", "x86_64", "x86-64-v2", V2, 16, 16, false, DOT_PAIRS, false, false, 32 << 10, 256 << 10, CORES,
	 WAKE_NS, NULL, 20, 10},
	{"aarch64-i8mm", "aarch64", "armv8.2-a+i8mm", A64 | I8MM, 16, 32, true, DOT_BYTES, true, false, 32 << 10,
	 512 << 10, CORES, WAKE_NS, NULL, 40, 10},
	{"aarch64", "aarch64", "armv8-a", A64, 16, 32, true, DOT_NONE, true, false, 32 << 10, 512 << 10, CORES,
	 WAKE_NS, NULL, 40, 10},
	/* plain C for any CPU that the C compiler supports */
	{"generic", NULL, NULL, 0, 16, 32, false, DOT_NONE, false, false, 32 << 10, 256 << 10, CORES, WAKE_NS, NULL,
	 20, 10},
	/* compute capability, its code runs on it only, PTX version, LLVM version, SMs, shared
	 * memory of a block on it and on all GPUs that run its code, registers of an SM, extra
	 * registers per thread relative to sm_80, threads of an SM, f32 lanes, MiB of L2, GB/s of
	 * memory, TFLOP/s of f32 and f16; all of the most common card */
	GPU(sm_120, 120, false, 87, 20, 170, 99 << 10, 99 << 10, 65536, 9, 1536, 128, 96, 1792, 105,
	    210), /* RTX 5090 */
	GPU(sm_100, 100, false, 86, 20, 148, 227 << 10, 99 << 10, 65536, 0, 2048, 128, 126, 8000,
	    75, 2250), /* B200 */
	GPU(sm_90a, 90, true, 80, 19, 132, 227 << 10, 227 << 10, 65536, 0, 2048, 128, 50, 3350, 67,
	    989), /* H100, H200 */
	GPU(sm_89, 89, false, 78, 19, 128, 99 << 10, 99 << 10, 65536, 0, 1536, 128, 72, 1008, 83,
	    165), /* RTX 4090, L40 */
	GPU(sm_86, 86, false, 71, 19, 84, 99 << 10, 99 << 10, 65536, 0, 1536, 128, 6, 936, 36,
	    142), /* RTX 3090, A40 */
	GPU(sm_80, 80, false, 70, 19, 108, 163 << 10, 99 << 10, 65536, 0, 2048, 64, 40, 1555, 19,
	    312), /* A100 */
	GPU(sm_75, 75, false, 65, 19, 40, 64 << 10, 64 << 10, 65536, 5, 1024, 64, 4, 320, 8,
	    65), /* T4 */
	{0},
};

/* The features of this machine. */
static uint32_t machine_features(void)
{
	uint32_t f = 0;

#if defined(__x86_64__)
	unsigned a, b, c, d;

	__builtin_cpu_init();
	if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"))
		f |= V2;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	    __builtin_cpu_supports("bmi2"))
		f |= V3;
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512cd"))
		f |= V4;
	if (f & V3 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & 1u << 4)
		f |= VNNI_256;
	if (f & V4 && __builtin_cpu_supports("avx512vnni"))
		f |= VNNI_512;
	if (f & V4 && __builtin_cpu_supports("avx512bf16"))
		f |= BF16_512;
#elif defined(__aarch64__)
	f |= A64;
#if defined(__linux__)
	if (getauxval(AT_HWCAP2) & 1ul << 13) /* HWCAP2_I8MM, which old headers lack */
		f |= I8MM;
#endif
#endif
	return f;
}

static const Target *native(void)
{
	const uint32_t features = machine_features();
	const Target *t = target_table;

	while (t->gpu || t->features & ~features)
		t++;
	return t;
}

uint64_t target_dot_features(const Target *t)
{
	return target_is_x86(t) ? t->features & (VNNI_256 | VNNI_512 | BF16_512) : 0;
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
		"--target: \"%s\" is not known; write cpu: with native, v4 (AVX-512), v3 (AVX2), v2 (SSE4.2), v4-vnni or v3-vnni (the same with VNNI), v4-bf16 (with AVX512-BF16, too), ",
		name);
	target_names(b, false);
	strbuf_puts(b, ", or cuda: with ");
	target_names(b, true);
	strbuf_puts(b, ", or several of them with commas");
	if (str_starts(name, "sm_"))
		strbuf_puts(
			b,
			"; code for one sm_ runs on all GPUs of a higher number, but sm_90a's, which is for sm_90 alone");
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
