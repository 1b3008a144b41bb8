/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same scans on the CPU and on a GPU, by one model that has code for both: devices HELDOUT.bin.
 * digits.h and digits.a are what `dlcc digits.onnx --target=cuda:sm_80 -o digits.a` made. See
 * run.sh.
 */
#include "digits.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 8, PIXELS = SIDE * SIDE, CLASSES = 10 };

/* The logits of N scans X, by DEVICE; prints what it is. Exits where that fails. */
static float *logits(const char *device, float *x, int64_t n)
{
	const dl_api *api = digits_get_api(DL_ABI_VERSION);
	dl_load_options options = {.size = sizeof(options), .device = device};
	int64_t x_shape[] = {n, 1, SIDE, SIDE}, y_shape[] = {n, CLASSES};
	const size_t bytes = (size_t)n * CLASSES * sizeof(float);
	float *y = malloc(bytes);
	dl_tensor in = {
		.size = sizeof(in), .dtype = DL_F32, .rank = 4, .shape = x_shape, .data = x};
	dl_tensor out = {.size = sizeof(out),
			 .dtype = DL_F32,
			 .rank = 2,
			 .shape = y_shape,
			 .data = y,
			 .bytes = bytes};
	dl_model *model;
	dl_context *context = NULL;

	if (api->load(&options, &model) || api->context(model, NULL, &context) ||
	    api->run(context, &in, 1, &out, 1, NULL)) {
		fprintf(stderr, "digits: %s\n", api->error(context));
		exit(1);
	}
	printf("%s %s", device[1] == 'p' ? "devices     " : " and", api->device(model));
	api->context_free(context);
	api->unload(model);
	return y;
}

int main(int argc, char **argv)
{
	FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
	int32_t n;

	if (!f || fread(&n, sizeof(n), 1, f) != 1 || n < 1)
		return fprintf(stderr, "usage: devices HELDOUT.bin\n"), 2;

	const size_t pixels = (size_t)n * PIXELS;
	unsigned char *scan = malloc(pixels);
	float *x = malloc(pixels * sizeof(*x));

	if (fread(scan, 1, pixels, f) != pixels)
		return fprintf(stderr, "%s: too short\n", argv[1]), 1;
	for (size_t i = 0; i < pixels; i++)
		x[i] = (float)scan[i] / 16;

	float *cpu = logits("cpu", x, n), *gpu = logits("cuda", x, n);
	double apart = 0, largest = 0;

	for (int32_t i = 0; i < n * CLASSES; i++) {
		apart = fmax(apart, fabs((double)cpu[i] - (double)gpu[i]));
		largest = fmax(largest, fabs((double)cpu[i]));
	}
	printf(": %d scans on each, ", n);
	if (apart > 0)
		printf("logits %.0e apart", apart);
	else
		printf("the same logits");
	printf(", the largest %.0f\n", largest);
	free(scan), free(x), free(cpu), free(gpu), fclose(f);
	return !(apart <= 2e-5 * largest);
}
