/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a compiled model at run time, asks what it takes, and runs it on zeros: dlopen MODEL.so
 * NAME. Nothing of the model is known when this program is compiled.
 *
 *     cc -O2 dlopen.c -o dlopen -ldl
 *     dlcc ../digits/digits.onnx -o digits.so && ./dlopen ./digits.so digits
 */
#include "dlrt.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Bits of an element; its numbers are those of dl_dtype. */
static const int bits[] = {
	[DL_F32] = 32,   [DL_U8] = 8,         [DL_I8] = 8,       [DL_U16] = 16,
	[DL_I16] = 16,   [DL_I32] = 32,       [DL_I64] = 64,     [DL_STR] = 8 * (int)sizeof(dl_str),
	[DL_BOOL] = 8,   [DL_F16] = 16,       [DL_F64] = 64,     [DL_U32] = 32,
	[DL_U64] = 64,   [DL_BF16] = 16,      [DL_F8E4M3FN] = 8, [DL_F8E4M3FNUZ] = 8,
	[DL_F8E5M2] = 8, [DL_F8E5M2FNUZ] = 8, [DL_U4] = 4,       [DL_I4] = 4,
	[DL_F4E2M1] = 4, [DL_F8E8M0] = 8,     [DL_U2] = 2,       [DL_I2] = 2,
	[DL_F6E2M3] = 6, [DL_F6E3M2] = 6};

static void describe(const char *what, const dl_io *io)
{
	printf("%-6s %s: type %d, [", what, io->name, io->dtype);
	for (int d = 0; d < io->rank; d++)
		printf("%s%s", d ? "," : "", dl_io_dim(io, d)->text);
	puts("]");
}

/* A tensor of zeros for IO, with every symbol at its lower bound, or 1. */
static dl_tensor zeros(const dl_desc *desc, const dl_io *io)
{
	int64_t n = 1, *shape = calloc((size_t)io->rank + 1, sizeof(*shape));
	uint64_t bytes;

	for (int d = 0; d < io->rank; d++) {
		const dl_dim *dim = dl_io_dim(io, d);
		const int64_t lower = dim->sym >= 0 ? dl_desc_sym(desc, dim->sym)->lower : 1;

		shape[d] = dim->value >= 0 ? dim->value : lower > 0 ? lower : 1;
		n *= shape[d];
	}
	bytes = (uint64_t)(n * bits[io->dtype] + 7) / 8;
	return dl_tensor_of(io->dtype, io->rank, shape, calloc(1, bytes), bytes);
}

int main(int argc, char **argv)
{
	char symbol[256];
	void *so = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;

	if (!so)
		return fprintf(stderr, "usage: dlopen MODEL.so NAME\n%s\n",
			       argc == 3 ? dlerror() : ""),
		       2;
	snprintf(symbol, sizeof(symbol), "%s_get_api", argv[2]);

	dl_get_api_fn get_api;

	*(void **)&get_api = dlsym(so, symbol);

	const dl_api *api = get_api ? get_api(DL_ABI_VERSION) : NULL;

	if (!api)
		return fprintf(stderr, "%s: no %s for version %u\n", argv[1], symbol,
			       DL_ABI_VERSION),
		       1;

	const dl_desc *desc = api->describe();
	dl_tensor *in = calloc((size_t)desc->n_in, sizeof(*in));
	dl_tensor *out = calloc((size_t)desc->n_out, sizeof(*out));
	dl_model *model;
	dl_context *context;

	printf("model  %s, for %s, by dlcc %s\n", desc->name, desc->targets, desc->version);
	for (int i = 0; i < desc->n_in; i++) {
		describe("input", dl_desc_in(desc, i));
		in[i] = zeros(desc, dl_desc_in(desc, i));
	}
	for (int o = 0; o < desc->n_out; o++) {
		const dl_io *io = dl_desc_out(desc, o);
		int64_t *shape = calloc((size_t)io->rank + 1, sizeof(*shape));

		describe("output", io);
		/* data stays null: the context serves the memory */
		out[o] = dl_tensor_of(io->dtype, io->rank, shape, NULL, 0);
	}
	if (api->load(NULL, &model) || api->context(model, NULL, &context))
		return fprintf(stderr, "%s\n", api->error(NULL)), 1;
	if (api->run(context, in, desc->n_in, out, desc->n_out, NULL))
		return fprintf(stderr, "%s\n", api->error(context)), 1;
	for (int o = 0; o < desc->n_out; o++)
		if (out[o].dtype == DL_F32)
			printf("%s[0] = %g, %" PRIu64 " bytes\n", dl_desc_out(desc, o)->name,
			       (double)*(float *)out[o].data, out[o].bytes);
	for (int o = 0; o < desc->n_out; o++)
		free(out[o].shape);
	for (int i = 0; i < desc->n_in; i++)
		free(in[i].shape), free(in[i].data);
	free(in), free(out);
	api->context_free(context);
	api->unload(model); /* joins its threads: before dlclose */
	return dlclose(so);
}
