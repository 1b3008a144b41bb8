/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/numerics/strips.h"

#include "funcs.h"

#include <math.h>

/* A, if B has the same bits; else a number that no function has, where it is not NaN. */
static inline float agreed(float a, float b)
{
	return dl_bits_f32_i32(a) == dl_bits_f32_i32(b) ? a : a != a ? 0 : NAN;
}

#define STRIP_OF(name, type, T, call)                             \
	static void name##_##type(const T *x, const T *y, T *out) \
	{                                                         \
		(void)y;                                          \
		for (int i = 0; i < STRIP; i++)                   \
			out[i] = call;                            \
	}
#define STRIPS_1(name)                               \
	STRIP_OF(name, f32, float, F32_##name(x[i])) \
	STRIP_OF(name, f64, double, dl_##name##_f64(x[i]))
#define STRIPS_2(name)                                          \
	STRIP_OF(name, f32, float, dl_##name##_f32(x[i], y[i])) \
	STRIP_OF(name, f64, double, dl_##name##_f64(x[i], y[i]))
FUNCS_1(STRIPS_1)
FUNCS_2(STRIPS_2)

#define ROW_1(name) {#name, 1, name##_f32, name##_f64},
#define ROW_2(name) {#name, 2, name##_f32, name##_f64},
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
const Strips PASTE(strips_, VARIANT)[] = {FUNCS_1(ROW_1) FUNCS_2(ROW_2){0}};
const bool PASTE(fused_, VARIANT) = DL_FUSED;
