/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two models in one program, the output of one the input of the other: two_models HELDOUT.bin reads
 * scans after `smooth` has blurred them. Each archive has the runtime inside; nothing collides.
 *
 *     dlcc ../digits/digits.onnx -o digits.a && dlcc smooth.onnx -o smooth.a
 *     cc -O2 -I. two_models.c digits.a smooth.a -o two_models -lm -lpthread -ldl
 *     ./two_models ../digits/heldout.bin
 */
#include "digits.h"
#include "smooth.h"

#include <stdio.h>
#include <stdlib.h>

enum { PIXELS = 64, CLASSES = 10 };

typedef struct Model {
	const dl_api *api;
	dl_model *model;
	dl_context *context;
} Model;

static int open_model(Model *m, const dl_api *api)
{
	m->api = api;
	return !api || api->load(NULL, &m->model) || api->context(m->model, NULL, &m->context);
}

static int run(Model *m, dl_tensor *in, dl_tensor *out)
{
	const int status = m->api->run(m->context, in, 1, out, 1, NULL);

	if (status)
		fprintf(stderr, "%s\n", m->api->error(m->context));
	return status;
}

static void close_model(Model *m)
{
	m->api->context_free(m->context);
	m->api->unload(m->model);
}

int main(int argc, char **argv)
{
	FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
	Model smooth, digits;
	int32_t n;

	if (!f || fread(&n, sizeof(n), 1, f) != 1 || n < 1)
		return fprintf(stderr, "usage: two_models HELDOUT.bin\n"), 2;
	if (open_model(&smooth, smooth_get_api(DL_ABI_VERSION)) ||
	    open_model(&digits, digits_get_api(DL_ABI_VERSION)))
		return fprintf(stderr, "a model does not load\n"), 1;

	const size_t count = (size_t)n;
	unsigned char *scan = malloc(count * PIXELS), *label = malloc(count);
	float *x = malloc(count * PIXELS * sizeof(*x));
	int64_t shape[] = {n, 1, 8, 8}, blurred_shape[4], logits_shape[2];
	dl_tensor in = {.size = sizeof(in), .dtype = DL_F32, .rank = 4, .shape = shape, .data = x};
	/* data stays null: the context serves the memory, which lasts until its next run */
	dl_tensor blurred = {
		.size = sizeof(in), .dtype = DL_F32, .rank = 4, .shape = blurred_shape};
	dl_tensor logits = {.size = sizeof(in), .dtype = DL_F32, .rank = 2, .shape = logits_shape};
	int right = 0;

	if (fread(scan, PIXELS, count, f) != count || fread(label, 1, count, f) != count)
		return fprintf(stderr, "%s: too short\n", argv[1]), 1;
	for (size_t i = 0; i < count * PIXELS; i++)
		x[i] = (float)scan[i] / 16;
	if (run(&smooth, &in, &blurred) || run(&digits, &blurred, &logits))
		return 1;
	for (int i = 0; i < n; i++) {
		const float *y = (const float *)logits.data + i * CLASSES;
		int k = 0;

		for (int j = 1; j < CLASSES; j++)
			k = y[j] > y[k] ? j : k;
		right += k == label[i];
	}
	printf("of %d blurred scans %d are read rightly\n", n, right);
	close_model(&smooth);
	close_model(&digits);
	free(scan), free(label), free(x), fclose(f);
	return right < 0.9 * n;
}
