/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the GPU pack needs where there is only a driver:
 *
 *	tool info                    the GPU, its clocks and the driver as JSON
 *	tool fill RECIPE OUT         a file whose weights the recipe only describes (make.py writes recipes)
 *	tool gemm TYPE M N K S       cuBLAS on row-major matrices for S seconds, as a line of JSON; TYPE: f32, tf32, f16, bf16
 *
 * It is linked with the driver; cuBLAS is opened when it is asked for. Exit status: 0; 1 where something failed; 77 where a library is not there.
 */
#include "tests/ptxsim/check/gpu.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CUresult cuDriverGetVersion(int *version);
CUresult cuDeviceGetName(char *name, int room, CUdevice device);
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);

#define CU(call) expect((call), #call)

static void expect(CUresult r, const char *call)
{
	if (r) {
		fprintf(stderr, "gpu_pack: %s gives %d\n", call, (int)r);
		exit(1);
	}
}

static CUdevice device;

static void open_device(void)
{
	CUcontext context;

	CU(cuInit(0));
	CU(cuDeviceGet(&device, 0));
	CU(cuDevicePrimaryCtxRetain(&context, device));
	CU(cuCtxSetCurrent(context));
}

static int info(void)
{
	static const struct {
		const char *name;
		int attribute;
	} rows[] = {{"capability_major", 75}, {"capability_minor", 76}, {"multiprocessors", 16},
		    {"clock_khz", 13},        {"memory_clock_khz", 36}, {"memory_bus_bits", 37},
		    {"l2_bytes", 38},         {"shared_bytes", 81}};
	char name[128] = "";
	int version = 0, value;
	size_t bytes = 0;

	open_device();
	CU(cuDeviceGetName(name, sizeof name, device));
	CU(cuDriverGetVersion(&version));
	CU(cuDeviceTotalMem_v2(&bytes, device));
	printf("{\"gpu\":\"%s\",\"driver_cuda\":\"%d.%d\",\"memory_bytes\":%zu", name,
	       version / 1000, version % 1000 / 10, bytes);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		CU(cuDeviceGetAttribute(&value, rows[i].attribute, device));
		printf(",\"%s\":%d", rows[i].name, value);
	}
	puts("}");
	return 0;
}

/* ---- Weights ---- */

static uint64_t state = 2026;

static uint32_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 32);
}

/* Whatever float format WORD holds, one of 32 bits or two of 16: their exponents stay, signs and mantissas are drawn. */
static uint32_t near(uint32_t word, int bits)
{
	const uint32_t drawn = bits == 16 ? 0x807f807f : 0x807fffff;

	return (word & ~drawn) | (draw() & drawn);
}

static int fill(const char *recipe, const char *path)
{
	enum { CHUNK = 1 << 14 };
	static uint32_t words[CHUNK];
	FILE *in = fopen(recipe, "rb"), *out = fopen(path, "wb");
	char line[64], what[8];
	unsigned long n;
	uint32_t word;

	if (!in || !out)
		return fprintf(stderr, "gpu_pack: cannot open %s\n", in ? path : recipe), 1;
	while (fgets(line, sizeof line, in)) {
		if (sscanf(line, "%7s %lu %x", what, &n, &word) != 3)
			return fprintf(stderr, "gpu_pack: %s: %s", recipe, line), 1;
		const int bits = !strcmp(what, "f16") ? 16 : !strcmp(what, "f32") ? 32 : 0;
		for (unsigned long left = n; left;) {
			const size_t part = left < sizeof words ? left : sizeof words;
			if (!strcmp(what, "raw") && fread(words, 1, part, in) != part)
				return fprintf(stderr, "gpu_pack: %s is cut\n", recipe), 1;
			for (size_t i = 0; strcmp(what, "raw") && i < part / 4; i++)
				words[i] = bits ? near(word, bits) : word;
			if (fwrite(words, 1, part, out) != part)
				return fprintf(stderr, "gpu_pack: %s: the disk is full\n", path), 1;
			left -= part;
		}
	}
	fclose(in);
	return fclose(out) != 0;
}

/* ---- cuBLAS ---- */

/* Entry NAME of LIBRARY; exits where it has none. */
static void *entry(void *library, const char *name)
{
	void *p = dlsym(library, name);

	if (!p) {
		fprintf(stderr, "gpu_pack: %s is not there\n", name);
		exit(1);
	}
	return p;
}

static const struct Type {
	const char *name;
	int bytes, type, compute; /* cudaDataType, cublasComputeType_t */
	uint32_t one;
} types[] = {{"f32", 4, 0, 68, 0x3f000000},
	     {"tf32", 4, 0, 77, 0x3f000000},
	     {"f16", 2, 2, 68, 0x38003800},
	     {"bf16", 2, 14, 68, 0x3f003f00}};

/* N elements on the device, of magnitudes from 0.5 to 1. */
static CUdeviceptr matrix(const struct Type *t, size_t n)
{
	enum { CHUNK = 1 << 20 };
	static uint32_t words[CHUNK];
	const size_t bytes = (n * (size_t)t->bytes + 3) / 4 * 4;
	CUdeviceptr p;

	CU(cuMemAlloc_v2(&p, bytes));
	for (size_t at = 0; at < bytes; at += sizeof words) {
		const size_t part = bytes - at < sizeof words ? bytes - at : sizeof words;
		for (size_t i = 0; i < part / 4; i++)
			words[i] = near(t->one, t->bytes * 8);
		CU(cuMemcpyHtoD_v2(p + at, words, part));
	}
	return p;
}

static void *open_cublas(void)
{
	static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11",
					    "libcublas.so"};
	void *library = NULL;

	for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
		library = dlopen(names[i], RTLD_NOW);
	if (!library) {
		fprintf(stderr, "gpu_pack: no libcublas\n");
		exit(77);
	}
	return library;
}

typedef int GemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,
		   const void *a, int at, int lda, const void *b, int bt, int ldb, const void *beta,
		   void *c, int ct, int ldc, int compute, int algorithm);

static int by_value(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static int gemm(const struct Type *t, int m, int n, int k, double seconds)
{
	enum { MAX = 1000, WARM = 3 };
	const float one = 1, zero = 0;
	float ms[MAX], total = 0;
	void *handle, *at;
	CUevent begin, end;
	int (*create)(void **), rc, runs = 0;
	GemmEx *run;

	open_device();
	void *library = open_cublas();
	at = entry(library, "cublasCreate_v2");
	memcpy(&create, &at, sizeof create);
	at = entry(library, "cublasGemmEx");
	memcpy(&run, &at, sizeof run);
	rc = create(&handle);
	if (rc)
		return fprintf(stderr, "gpu_pack: cublasCreate gives %d\n", rc), 1;
	const CUdeviceptr a = matrix(t, (size_t)m * (size_t)k),
			  b = matrix(t, (size_t)k * (size_t)n),
			  c = matrix(t, (size_t)m * (size_t)n);
	CU(cuEventCreate(&begin, 0));
	CU(cuEventCreate(&end, 0));
	for (int i = -WARM; i < MAX && (i < 3 || total < seconds * 1e3); i++) {
		float took;
		CU(cuEventRecord(begin, NULL));
		/* Row-major C = A B is column-major C' = B' A'. */
		rc = run(handle, 0, 0, n, m, k, &one, (void *)(uintptr_t)b, t->type, n,
			 (void *)(uintptr_t)a, t->type, k, &zero, (void *)(uintptr_t)c, t->type, n,
			 t->compute, -1);
		if (rc)
			return fprintf(stderr, "gpu_pack: cublasGemmEx gives %d\n", rc), 1;
		CU(cuEventRecord(end, NULL));
		CU(cuEventSynchronize(end));
		CU(cuEventElapsedTime(&took, begin, end));
		if (i >= 0) {
			ms[runs++] = took;
			total += took;
		}
	}
	qsort(ms, (size_t)runs, sizeof *ms, by_value);
	printf("{\"library\":\"cublas\",\"type\":\"%s\",\"m\":%d,\"n\":%d,\"k\":%d,\"median_ms\":%.6g,"
	       "\"min_ms\":%.6g,\"runs\":%d}\n",
	       t->name, m, n, k, (double)ms[runs / 2], (double)ms[0], runs);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "info"))
		return info();
	if (argc == 4 && !strcmp(argv[1], "fill"))
		return fill(argv[2], argv[3]);
	for (size_t i = 0; argc == 7 && i < sizeof types / sizeof *types; i++)
		if (!strcmp(argv[1], "gemm") && !strcmp(argv[2], types[i].name))
			return gemm(&types[i], atoi(argv[3]), atoi(argv[4]), atoi(argv[5]),
				    atof(argv[6]));
	fprintf(stderr, "usage: tool info | fill RECIPE OUT | gemm TYPE M N K SECONDS\n");
	return 2;
}
