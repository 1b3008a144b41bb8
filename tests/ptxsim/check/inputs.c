/* SPDX-License-Identifier: Apache-2.0 */
/* The inputs that the checks of single instructions run over, and the launch that runs them. */
#include "tests/ptxsim/check/numbers.h"

#include <math.h>

void run_rows(const char *module_name, const char *kernel, int n_in, const void *const *in,
	      const size_t *in_size, void *out, size_t out_size)
{
	CUdeviceptr p[4], q = put(NULL, out_size);
	int n = N;

	for (int i = 0; i < n_in; i++)
		p[i] = put(in[i], in_size[i]);
	CUfunction f = function(module_name, kernel);
	CUresult r = n_in == 2   ? launch(f, 5, 128, 0, &p[0], &p[1], &q, &n, NULL)
		     : n_in == 3 ? launch(f, 5, 128, 0, &p[0], &p[1], &p[2], &q, &n, NULL)
				 : 1;
	OK(r);
	get(out, q, out_size);
}

u32 odd_bits(void)
{
	static const u32 special[] = {0,  1,  0xffffffff, 0x80000000, 0x7fffffff,
				      31, 32, 0x8000,     0xffff};
	u32 k = below(12);

	return k < 9 ? special[k] : below(0xffffffff) >> below(28);
}

float odd_float(void)
{
	static const float special[] = {0,     -0.0f,    1,       -1,      INFINITY, -INFINITY,
					NAN,   1e-40f,   -3e-45f, 3.4e38f, 0.5f,     2.5f,
					-1.5f, 16777216, 65504,   65520,   1e-8f};
	u32 k = below(40);

	if (k < sizeof special / sizeof *special)
		return special[k];
	return k < 30 ? (uniform() - 0.5f) * 8 : ldexpf(uniform() - 0.5f, (int)below(60) - 30);
}

float least(float a, float b)
{
	return a != a ? b : b != b ? a : a < b || (a == b && signbit(a)) ? a : b;
}

float most(float a, float b)
{
	return a != a ? b : b != b ? a : a > b || (a == b && !signbit(a)) ? a : b;
}
