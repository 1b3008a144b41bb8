/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a compiled model of f32 inputs and outputs on many cases: drive MODEL.so NAME CASES RESULTS
 * [THREADS]. CASES holds, for each case, each input as its rank, its dims (64-bit) and its
 * elements; RESULTS gets the outputs in the same form. It is compiled for the CPU under test, so it
 * stands alone.
 */
#include "runtime/dlrt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 8 };

/* Reads a tensor; false at the end of the file. */
static int read_tensor(FILE *f, dl_tensor *t, int64_t *shape)
{
	int64_t rank, n = 1;
	float *data;

	if (fread(&rank, 8, 1, f) != 1)
		return 0;
	if (rank < 0 || rank > RANK || fread(shape, 8, (size_t)rank, f) != (size_t)rank)
		exit(2);
	for (int64_t d = 0; d < rank; d++)
		n *= shape[d];
	data = malloc((size_t)n * 4 + 4);
	if (!data || fread(data, 4, (size_t)n, f) != (size_t)n)
		exit(2);
	*t = dl_tensor_of(DL_F32, (int32_t)rank, shape, data, (uint64_t)n * 4);
	return 1;
}

static void write_tensor(FILE *f, const dl_tensor *t)
{
	const int64_t rank = t->rank;
	int64_t n = 1;

	for (int d = 0; d < t->rank; d++)
		n *= t->shape[d];
	fwrite(&rank, 8, 1, f);
	fwrite(t->shape, 8, (size_t)rank, f);
	fwrite(t->data, 4, (size_t)n, f);
}

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "drive: %s: %s\n", what, why);
	return 1;
}

int main(int argc, char **argv)
{
	void *so = argc == 5 || argc == 6 ? dlopen(argv[1], RTLD_NOW) : NULL;
	char symbol[64];
	dl_get_api_fn get;
	const dl_api *api;
	const dl_desc *desc;
	dl_load_options options = {.size = sizeof(options)};
	dl_model *model = NULL;
	dl_context *context = NULL;
	FILE *cases, *results;

	if (!so)
		return fail(argc > 1 ? argv[1] : "usage", argc == 5 || argc == 6 ? dlerror() : "drive MODEL.so NAME CASES RESULTS [THREADS]");
	snprintf(symbol, sizeof symbol, "%s_get_api", argv[2]);
	*(void **)&get = dlsym(so, symbol);
	api = get ? get(DL_ABI_VERSION) : NULL;
	cases = fopen(argv[3], "rb");
	results = fopen(argv[4], "wb");
	if (!api || !cases || !results)
		return fail(argv[1], "no such function or file");
	options.threads = argc == 6 ? atoi(argv[5]) : 0;
	if (api->load(&options, &model) || api->context(model, NULL, &context))
		return fail("load", api->error(NULL));
	desc = api->describe();
	for (;;) {
		dl_tensor in[64], out[64];
		int64_t shape[64][RANK], result[64][RANK];

		for (int i = 0; i < desc->n_in; i++)
			if (!read_tensor(cases, &in[i], shape[i]))
				return fclose(results) ? 1 : 0;
		for (int o = 0; o < desc->n_out; o++)
			out[o] = dl_tensor_of(DL_F32, dl_desc_out(desc, o)->rank, result[o], NULL, 0);
		if (api->run(context, in, desc->n_in, out, desc->n_out, NULL))
			return fail("run", api->error(context));
		for (int o = 0; o < desc->n_out; o++)
			write_tensor(results, &out[o]);
		for (int i = 0; i < desc->n_in; i++)
			free(in[i].data);
	}
}
