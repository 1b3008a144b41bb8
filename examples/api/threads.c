/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several threads share one model; each has a context of its own: threads. Every thread must see
 * the same logits as the others for the same image.
 *
 *     dlcc ../digits/digits.onnx -o digits.a
 *     cc -O2 -I. threads.c digits.a -o threads -lm -lpthread -ldl && ./threads
 */
#include "digits.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 200, PIXELS = 64, CLASSES = 10 };

static const dl_api *api;
static dl_model *model;
static float logits[THREADS][CLASSES];

static void *worker(void *arg)
{
	float *const y = arg;
	float x[PIXELS];
	int64_t x_shape[] = {1, 1, 8, 8}, y_shape[] = {1, CLASSES};
	dl_tensor in = {
		.size = sizeof(in), .dtype = DL_F32, .rank = 4, .shape = x_shape, .data = x};
	dl_tensor out = {.size = sizeof(out),
			 .dtype = DL_F32,
			 .rank = 2,
			 .shape = y_shape,
			 .data = y,
			 .bytes = CLASSES * sizeof(*y)};
	/* On a GPU: the threads' runs overlap. In the default stream they would follow one
	 * another. */
	const dl_context_options own = {.size = sizeof(own), .flags = DL_CONTEXT_OWN_STREAM};
	dl_context *context;

	for (int i = 0; i < PIXELS; i++)
		x[i] = (float)(i * 7 % 17) / 16;
	if (api->context(model, &own, &context))
		return "no context";
	for (int i = 0; i < ROUNDS; i++)
		if (api->run(context, &in, 1, &out, 1, NULL))
			return "a run failed";
	api->context_free(context);
	return NULL;
}

int main(void)
{
	pthread_t thread[THREADS];
	const dl_load_options options = {.size = sizeof(options),
					 .threads = 1}; /* no pool: we have threads */
	int failed = 0;

	api = digits_get_api(DL_ABI_VERSION);
	if (!api || api->load(&options, &model))
		return fprintf(stderr, "%s\n", api ? api->error(NULL) : "another ABI"), 1;
	for (int t = 0; t < THREADS; t++)
		if (pthread_create(&thread[t], NULL, worker, logits[t]))
			return fprintf(stderr, "no thread\n"), 1;
	for (int t = 0; t < THREADS; t++) {
		void *why;

		pthread_join(thread[t], &why);
		if (why)
			fprintf(stderr, "thread %d: %s\n", t, (char *)why);
		failed |= why || memcmp(logits[t], logits[0], sizeof(logits[0]));
	}
	api->unload(model);
	printf("%d threads, %d runs each: %s\n", THREADS, ROUNDS,
	       failed ? "they differ" : "the same logits");
	return failed;
}
