/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the GPU pack that run on a machine with only a driver:
 *
 *	tool info                    the GPU, its clocks and the driver as JSON
 *	tool fill RECIPE OUT         a file whose weights the recipe only describes (make.py writes recipes)
 *	tool best <TIMES             the fastest decision on each product, as dlcc reads it; TIMES: lines DECISION|profile, both as run.sh has them
 *	tool gemm TYPE M N K S       cuBLAS on row-major matrices for S seconds, as a line of JSON; TYPE: f32, tf32, f16, bf16
 *	tool conv TYPE N C H W K SIDE STRIDE PAD S    cuDNN, all in NHWC, K filters of SIDE by SIDE
 *
 * It is linked with the driver; libraries.c opens the others when they are asked for. Exit status:
 * 0; 1 where something failed; 77 where a library is not there.
 */
#include "bench/gpu_pack/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CUresult cuDriverGetVersion(int *version);
CUresult cuDeviceGetName(char *name, int room, CUdevice device);
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);

void expect(int r, const char *call)
{
	if (r) {
		fprintf(stderr, "gpu_pack: %s gives %d\n", call, r);
		exit(1);
	}
}

static CUdevice device;

void open_device(void)
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

uint32_t near(uint32_t word, int bits)
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

/* ---- Decisions ---- */

/* The time of all kernels of a profile together, for one call of each. */
static double time_of(const char *json)
{
	double ms = 0, total;
	unsigned long calls;

	for (const char *at = json; (at = strstr(at, "\"total_ms\":")); at++)
		if (sscanf(at, "\"total_ms\":%lf,\"calls\":%lu", &total, &calls) == 2 && calls)
			ms += total / (double)calls;
	return ms;
}

static int best(void)
{
	enum { PRODUCTS = 256 };
	static struct {
		char decision[512];
		size_t product; /* bytes of it, up to the colon */
		double ms;
	} of[PRODUCTS];
	static char line[1 << 16];
	int n = 0, i;

	while (fgets(line, sizeof line, stdin)) {
		char *bar = strchr(line, '|'), *colon;
		const double ms = bar ? time_of(bar) : 0;

		if (bar)
			*bar = '\0';
		colon = strchr(line, ':');
		if (!bar || !colon || ms <= 0 || strlen(line) >= sizeof of->decision ||
		    n == PRODUCTS)
			return fprintf(stderr, "gpu_pack: no time of a decision: %s\n", line), 1;
		const size_t product = (size_t)(colon - line);
		for (i = 0; i < n; i++)
			if (of[i].product == product && !strncmp(of[i].decision, line, product))
				break;
		if (i < n && of[i].ms <= ms)
			continue;
		n += i == n;
		strcpy(of[i].decision, line);
		of[i].product = product;
		of[i].ms = ms;
	}
	for (i = 0; i < n; i++)
		printf("%s  ; %.6g ms\n", of[i].decision, of[i].ms);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	const struct LibraryType *type = argc > 2 ? type_named(argv[2]) : NULL;
	int size[9] = {0};

	for (int i = 3; i < argc - 1 && i < 12; i++)
		size[i - 3] = atoi(argv[i]);
	if (argc == 2 && !strcmp(what, "info"))
		return info();
	if (argc == 4 && !strcmp(what, "fill"))
		return fill(argv[2], argv[3]);
	if (argc == 2 && !strcmp(what, "best"))
		return best();
	if (argc == 7 && !strcmp(what, "gemm") && type)
		return gemm(type, size[0], size[1], size[2], atof(argv[6]));
	if (argc == 12 && !strcmp(what, "conv") && type)
		return conv(type, size, atof(argv[11]));
	fprintf(stderr, "usage: tool info | fill RECIPE OUT | best | gemm TYPE M N K SECONDS |\n"
			"       conv TYPE N C HEIGHT WIDTH K SIDE STRIDE PAD SECONDS\n");
	return 2;
}
