/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/numerics/strips.h"

#include "funcs.h"

#define STRIP_OF(name, type, T, ...)                              \
	static void name##_##type(const T *x, const T *y, T *out) \
	{                                                         \
		(void)y;                                          \
		for (int i = 0; i < STRIP; i++)                   \
			out[i] = dl_##name##_##type(__VA_ARGS__); \
	}
#define STRIPS_1(name) STRIP_OF(name, f32, float, x[i]) STRIP_OF(name, f64, double, x[i])
#define STRIPS_2(name) \
	STRIP_OF(name, f32, float, x[i], y[i]) STRIP_OF(name, f64, double, x[i], y[i])
FUNCS_1(STRIPS_1)
FUNCS_2(STRIPS_2)

#define ROW_1(name) {#name, 1, name##_f32, name##_f64},
#define ROW_2(name) {#name, 2, name##_f32, name##_f64},
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
const Strips PASTE(strips_, VARIANT)[] = {FUNCS_1(ROW_1) FUNCS_2(ROW_2){0}};
const bool PASTE(fused_, VARIANT) = DL_FUSED;
