/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/targets.h"

#include <string.h>

/* Bits of dlrt.h's DL_CPU_X86_*, which this folder does not include. */
enum { V2 = 1, V3 = 2, V4 = 4 };

const Target target_table[] = {
	/* name, -march, features, vector bytes, vector registers, fma, L1, L2 */
	{"x86-64-v4", "x86-64-v4", V2 | V3 | V4, 64, 32, true, 32 << 10, 1 << 20},
	{"x86-64-v3", "x86-64-v3", V2 | V3, 32, 16, true, 32 << 10, 512 << 10},
	{"x86-64-v2", "x86-64-v2", V2, 16, 16, false, 32 << 10, 256 << 10},
	/* Plain C for whatever the C compiler makes code for. */
	{"generic", NULL, 0, 16, 32, false, 32 << 10, 256 << 10},
	{0},
};

static const char *native(void)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd"))
		return "x86-64-v4";
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
		return "x86-64-v3";
	if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"))
		return "x86-64-v2";
#endif
	return "generic";
}

const Target *target_by_name(const char *name)
{
	if (!strcmp(name, "native"))
		name = native();
	for (const Target *t = target_table; t->name; t++)
		if (!strcmp(t->name, name))
			return t;
	return NULL;
}
