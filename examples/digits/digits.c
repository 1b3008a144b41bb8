/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads handwritten digits with a model compiled into this program: digits HELDOUT.bin.
 * digits.h and digits.a are what `dlcc digits.onnx -o digits.a` made. See run.sh.
 */
#include "digits.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SIDE = 8, PIXELS = SIDE * SIDE, CLASSES = 10, SHOWN = 6 };

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int best(const float *logits)
{
	int k = 0;

	for (int i = 1; i < CLASSES; i++)
		if (logits[i] > logits[k])
			k = i;
	return k;
}

/* SHOWN scans side by side: the first one read wrongly, if any, is the last. */
static void show(const unsigned char *scan, const unsigned char *label, const float *logits, int n)
{
	int pick[SHOWN];

	for (int i = 0; i < SHOWN; i++)
		pick[i] = i;
	for (int i = SHOWN; i < n; i++)
		if (best(logits + i * CLASSES) != label[i]) {
			pick[SHOWN - 1] = i;
			break;
		}
	for (int y = 0; y < SIDE; y++, puts(""))
		for (int i = 0; i < SHOWN; i++, printf("   "))
			for (int x = 0; x < SIDE; x++) {
				const char c =
					" .:-=+*%@"[scan[pick[i] * PIXELS + y * SIDE + x] / 2];

				printf("%c%c", c, c);
			}
	for (int i = 0; i < SHOWN; i++) {
		const int read = best(logits + pick[i] * CLASSES);

		printf("is %d, read %d%s     ", label[pick[i]], read,
		       read == label[pick[i]] ? "  " : " !");
	}
	puts("\n");
}

int main(int argc, char **argv)
{
	const dl_api *api = digits_get_api(DL_ABI_VERSION);
	FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
	int32_t n;

	if (!api || !f || fread(&n, sizeof(n), 1, f) != 1 || n < SHOWN)
		return fprintf(stderr, "usage: digits HELDOUT.bin\n"), 2;

	const size_t count = (size_t)n;
	unsigned char *scan = malloc(count * PIXELS), *label = malloc(count);
	float *x = malloc(count * PIXELS * sizeof(*x)), *y = malloc(count * CLASSES * sizeof(*y));

	if (fread(scan, PIXELS, count, f) != count || fread(label, 1, count, f) != count)
		return fprintf(stderr, "%s: too short\n", argv[1]), 1;
	for (size_t i = 0; i < count * PIXELS; i++)
		x[i] = (float)scan[i] / 16;

	/* The model: load it once, a context a thread, then run it on batches of any size. */
	dl_model *model;
	dl_context *context;
	int64_t x_shape[] = {n, 1, SIDE, SIDE}, y_shape[] = {n, CLASSES};
	dl_tensor in = {
		.size = sizeof(in), .dtype = DL_F32, .rank = 4, .shape = x_shape, .data = x};
	dl_tensor out = {.size = sizeof(out),
			 .dtype = DL_F32,
			 .rank = 2,
			 .shape = y_shape,
			 .data = y,
			 .bytes = count * CLASSES * sizeof(*y)};

	if (api->load(NULL, &model) || api->context(model, NULL, &context))
		return fprintf(stderr, "digits: %s\n", api->error(NULL)), 1;
	for (int round = 0; round < 20; round++) /* the last one is timed, warm */
		if (api->run(context, &in, 1, &out, 1, NULL))
			return fprintf(stderr, "digits: %s\n", api->error(context)), 1;

	const double start = now();

	api->run(context, &in, 1, &out, 1, NULL);

	const double batch = now() - start;
	int right = 0, same = 1;

	for (int i = 0; i < n; i++)
		right += best(y + i * CLASSES) == label[i];
	show(scan, label, y, n);

	/* The same model, an image at a time. */
	float one[CLASSES];

	x_shape[0] = 1;
	out.data = one;
	out.bytes = sizeof(one);

	const double single = now();

	for (int i = 0; i < n; i++) {
		in.data = x + i * PIXELS;
		if (api->run(context, &in, 1, &out, 1, NULL))
			return fprintf(stderr, "digits: %s\n", api->error(context)), 1;
		same &= best(one) == best(y + i * CLASSES);
	}
	printf("accuracy     %.4f: %d of %d scans that training never saw\n", right / (double)n,
	       right, n);
	printf("speed        %.2f us an image in a batch of %d, %.2f us one at a time\n",
	       batch * 1e6 / n, n, (now() - single) * 1e6 / n);
	api->context_free(context);
	api->unload(model);
	free(scan), free(label), free(x), free(y), fclose(f);
	return right < 0.97 * n || !same;
}
