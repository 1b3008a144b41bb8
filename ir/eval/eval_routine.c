/* SPDX-License-Identifier: Apache-2.0 */
/* Routines over strips (ir/expr/routines.def). */
#define DLRT_GENERATED 1 /* which declares the routines */
#include "runtime/strtable.h"

#include "ir/eval/eval_impl.h"

typedef bool T_BOOL;
typedef int64_t T_I64;
typedef uint64_t T_U64;
typedef float T_F32;
typedef double T_F64;
typedef char T_NONE;

#define CALL_1(name, a, b, c) dl_##name(t, ((const T_##a *)arg[0])[l])
#define CALL_2(name, a, b, c) dl_##name(t, ((const T_##a *)arg[0])[l], ((const T_##b *)arg[1])[l])
#define CALL_3(name, a, b, c)                                                \
	dl_##name(t, ((const T_##a *)arg[0])[l], ((const T_##b *)arg[1])[l], \
		  ((const T_##c *)arg[2])[l])

void eval_routine(Inst i, dl_strings *t, void *dst, const void *const *arg, const uint8_t *mask,
		  int n)
{
	switch (i) {
#define ROUTINE(name, result, nargs, a, b, c)                                                   \
	case RT_##name:                                                                         \
		for (int l = 0; l < n; l++)                                                     \
			((T_##result *)dst)[l] = !mask || mask[l] ? CALL_##nargs(name, a, b, c) \
								  : 0;                          \
		break;
#include "ir/expr/routines.def"
#undef ROUTINE
	default: break;
	}
}
