/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ptxsim/check/gpu.h"

#include "tests/ptxsim/check/vectors.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

int check_failures(void)
{
	return failures;
}

void wrong(const char *fmt, ...)
{
	va_list ap;

	if (failures++ >= 8)
		return;
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("; ");
}

bool check(bool holds, const char *file, int line, const char *what)
{
	if (!holds)
		wrong("%s:%d: %s", strrchr(file, '/') + 1, line, what);
	return holds;
}

bool check_ok(CUresult r, const char *file, int line, const char *what)
{
	if (r)
		wrong("%s:%d: %s gives %d (%s)", strrchr(file, '/') + 1, line, what, (int)r,
		      ptxsim_message());
	return !r;
}

static char *read_all(const char *path)
{
	FILE *f = fopen(path, "rb");
	size_t cap = 1 << 22;
	char *text = malloc(cap);

	if (!f || !text) {
		printf("cannot read %s\n", path);
		exit(2);
	}
	text[fread(text, 1, cap - 1, f)] = 0;
	fclose(f);
	return text;
}

char *module_text(const char *name)
{
	char path[200];

	snprintf(path, sizeof path, "tests/ptxsim/%s.ptx", name);
	return read_all(path);
}

CUmodule module(const char *name)
{
	static struct {
		char name[64];
		CUmodule m;
	} loaded[32];
	static int n;
	for (int i = 0; i < n; i++)
		if (!strcmp(loaded[i].name, name))
			return loaded[i].m;
	char *text = module_text(name);
	CUmodule m = NULL;
	CUresult r = cuModuleLoadDataEx(&m, text, 0, NULL, NULL);
	free(text);
	if (r) {
		printf("%s: %s\n", name, ptxsim_message());
		exit(2);
	}
	snprintf(loaded[n].name, sizeof loaded[n].name, "%s", name);
	loaded[n++].m = m;
	return m;
}

CUfunction function(const char *module_name, const char *name)
{
	CUfunction f = NULL;

	if (cuModuleGetFunction(&f, module(module_name), name)) {
		printf("%s has no kernel %s\n", module_name, name);
		exit(2);
	}
	return f;
}

CUdeviceptr put(const void *src, size_t n)
{
	CUdeviceptr p = 0;

	OK(cuMemAlloc_v2(&p, n));
	if (src)
		OK(cuMemcpyHtoD_v2(p, src, n));
	return p;
}

void get(void *dst, CUdeviceptr src, size_t n)
{
	if (OK(cuMemcpyDtoH_v2(dst, src, n)))
		vectors_take(dst, n);
}

CUresult launch(CUfunction f, unsigned grid, unsigned block, unsigned shared, ...)
{
	void *params[32];
	int n = 0;
	va_list ap;

	va_start(ap, shared);
	do
		params[n] = va_arg(ap, void *);
	while (params[n++]);
	va_end(ap);
	return launch2(f, grid, 1, block, shared, params);
}

CUresult launch2(CUfunction f, unsigned gx, unsigned gy, unsigned block, unsigned shared,
		 void **params)
{
	CUresult r = cuLaunchKernel(f, gx, gy, 1, block, 1, 1, shared, NULL, params, NULL);

	return r ? r : cuCtxSynchronize();
}

static uint64_t state = 1;

uint32_t below(uint32_t n)
{
	state = state * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)((state >> 32) * n >> 32);
}

float uniform(void)
{
	return (float)below(1 << 24) / (1 << 24);
}

void same_u32(const uint32_t *got, const uint32_t *want, int n, const char *what)
{
	for (int i = 0; i < n; i++)
		if (got[i] != want[i]) {
			wrong("%s: element %d is 0x%x, not 0x%x", what, i, got[i], want[i]);
			return;
		}
}

void close_f32(const float *got, const float *want, int n, float tolerance, const char *what)
{
	for (int i = 0; i < n; i++)
		if (!(fabsf(got[i] - want[i]) <= tolerance * (1 + fabsf(want[i]))) &&
		    !(got[i] != got[i] && want[i] != want[i])) {
			wrong("%s: element %d is %g, not %g", what, i, (double)got[i],
			      (double)want[i]);
			return;
		}
}
