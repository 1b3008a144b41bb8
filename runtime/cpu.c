/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU features as DL_CPU_ bits, including whether the system saves their registers and permits
 * their use; and the floating point environment. Kernels run in the default environment (round to
 * nearest, with subnormals, without traps), whatever the caller has set, and the caller's
 * environment is restored.
 */
#include "runtime/rt.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

typedef struct Cpuid {
	unsigned a, b, c, d;
} Cpuid;

static Cpuid cpuid(unsigned leaf, unsigned sub)
{
	Cpuid r = {0, 0, 0, 0};

	if ((unsigned)__get_cpuid_max(leaf & 0x80000000u, NULL) >= leaf)
		__cpuid_count(leaf, sub, r.a, r.b, r.c, r.d);
	return r;
}

static uint64_t xgetbv0(void)
{
	unsigned lo, hi;

	__asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	return (uint64_t)hi << 32 | lo;
}

static bool all(unsigned word, unsigned mask)
{
	return (word & mask) == mask;
}

/* Asks Linux for the permission to use the tile registers of AMX, which it keeps for the whole
 * process. It refuses where a thread has a stack for signals that is too small to save them. */
static bool tiles_permitted(void)
{
#if defined(__linux__)
	const long request = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA */

	return !syscall(SYS_arch_prctl, request, tile_data);
#else
	return false;
#endif
}

/* The processor manuals define the bits, the x86-64 psABI the levels. */
uint64_t rt_cpu_features(uint64_t of)
{
	const Cpuid f1 = cpuid(1, 0), f7 = cpuid(7, 0), f71 = cpuid(7, 1),
		    e1 = cpuid(0x80000001u, 0);
	/* cx16, lahf, popcnt, sse3, ssse3, sse4.1, sse4.2 */
	const bool v2 = all(f1.c, 1u << 13 | 1u << 23 | 1u << 0 | 1u << 9 | 1u << 19 | 1u << 20) &&
			all(e1.c, 1u << 0);
	const uint64_t xcr = all(f1.c, 1u << 27) ? xgetbv0() : 0;
	const bool ymm = (xcr & 6) == 6, zmm = (xcr & 0xe6) == 0xe6;
	const uint64_t amx = DL_CPU_AMX_INT8 | DL_CPU_AMX_BF16;
	uint64_t r = 0;

	if (!v2)
		return 0;
	r |= DL_CPU_X86_V2;
	/* avx, f16c, fma, movbe; avx2, bmi1, bmi2; lzcnt */
	if (!ymm || !all(f1.c, 1u << 28 | 1u << 29 | 1u << 12 | 1u << 22) ||
	    !all(f7.b, 1u << 5 | 1u << 3 | 1u << 8) || !all(e1.c, 1u << 5))
		return r & of;
	r |= DL_CPU_X86_V3;
	if (f71.a & 1u << 4)
		r |= DL_CPU_AVX_VNNI;
	/* avx512 f, bw, cd, dq, vl */
	if (!zmm || !all(f7.b, 1u << 16 | 1u << 30 | 1u << 28 | 1u << 17 | 1u << 31))
		return r & of;
	r |= DL_CPU_X86_V4;
	if (f7.c & 1u << 11)
		r |= DL_CPU_AVX512_VNNI;
	if (f71.a & 1u << 5)
		r |= DL_CPU_AVX512_BF16;
	if (f7.d & 1u << 23)
		r |= DL_CPU_AVX512_FP16;
	/* amx-tile */
	if (!(f7.d & 1u << 24) || (xcr & 0x60000) != 0x60000)
		return r & of;
	if (f7.d & 1u << 25)
		r |= DL_CPU_AMX_INT8;
	if (f7.d & 1u << 22)
		r |= DL_CPU_AMX_BF16;
	if (r & of & amx && !tiles_permitted())
		r &= ~amx;
	return r & of;
}

uint64_t rt_fp_enter(bool flush)
{
	const uint32_t normal = flush ? 0x9fc0 : 0x1f80; /* FTZ and DAZ */
	uint32_t saved;

	__asm__ volatile("stmxcsr %0" : "=m"(saved));
	if (saved != normal)
		__asm__ volatile("ldmxcsr %0" : : "m"(normal));
	return saved;
}

void rt_fp_leave(uint64_t saved)
{
	const uint32_t word = (uint32_t)saved;

	__asm__ volatile("ldmxcsr %0" : : "m"(word));
}

#elif defined(__aarch64__)
#if defined(__linux__)
#include <sys/auxv.h>
#endif

uint64_t rt_cpu_features(uint64_t of)
{
	uint64_t r = DL_CPU_ARM_V8;

#if defined(__linux__)
	if (getauxval(AT_HWCAP2) & 1ul << 13) /* HWCAP2_I8MM, which old headers lack */
		r |= DL_CPU_ARM_I8MM;
#endif
	return r & of;
}

uint64_t rt_fp_enter(bool flush)
{
	const uint64_t normal = flush ? 1 << 24 : 0; /* FZ */
	uint64_t saved;

	__asm__ volatile("mrs %0, fpcr" : "=r"(saved));
	if (saved != normal)
		__asm__ volatile("msr fpcr, %0" : : "r"(normal));
	return saved;
}

void rt_fp_leave(uint64_t saved)
{
	__asm__ volatile("msr fpcr, %0" : : "r"(saved));
}

#else

uint64_t rt_cpu_features(uint64_t of)
{
	(void)of;
	return 0;
}

uint64_t rt_fp_enter(bool flush)
{
	(void)flush;
	return 0;
}

void rt_fp_leave(uint64_t saved)
{
	(void)saved;
}

#endif
