/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the functions of docs/c-api.md about strings, sequences, optionals, maps and requests, over
 * models that double words, negate a list and an optional, and make a map a dense row. Ends with
 * status 0 if all results are right.
 */
#include "dlrt.h"

#include <stdio.h>
#include <stdlib.h>

int run_strings(const dl_api *api, dl_context *c);
int run_sequence(const dl_api *api, dl_context *c);
int run_optional(const dl_api *api, dl_context *c, float *x, int64_t n, int64_t *items);
int run_map(const dl_api *api, dl_context *c, int64_t *keys, float *values, int64_t n,
	    dl_tensor *out);
int values_type(const dl_io *map);
int run_requests(const dl_api *api, dl_context *c, float *x[2], float *y[2], const int64_t n[2]);

const dl_api *words_get_api(uint32_t abi), *list_get_api(uint32_t abi),
	*maybe_get_api(uint32_t abi), *pairs_get_api(uint32_t abi), *model_get_api(uint32_t abi);

static const dl_api *api;
static dl_model *model;

static dl_context *opened(const dl_api *of)
{
	dl_context *c = NULL;

	api = of;
	if (api->load(NULL, &model) || api->context(model, NULL, &c))
		exit(1);
	return c;
}

static void closed(dl_context *c, int good)
{
	if (!good)
		printf("failed: %s\n", api->error(c));
	api->context_free(c);
	if (api->unload(model) || !good)
		exit(1);
}

int main(void)
{
	int64_t keys[2] = {0, 2}, shape[2], some, none;
	float x[2] = {1, 2}, row[3];
	dl_tensor out = dl_tensor_of(DL_F32, 2, shape, row, sizeof(row));
	dl_context *c = opened(words_get_api(DL_ABI_VERSION));

	closed(c, !run_strings(api, c));
	c = opened(list_get_api(DL_ABI_VERSION));
	closed(c, !run_sequence(api, c));
	c = opened(maybe_get_api(DL_ABI_VERSION));
	closed(c, !run_optional(api, c, x, 2, &some) && some == 1 &&
			  !run_optional(api, c, NULL, 0, &none) && none == 0);
	c = opened(pairs_get_api(DL_ABI_VERSION));
	closed(c, values_type(dl_desc_in(api->describe(), 0)) == DL_F32 &&
			  !run_map(api, c, keys, x, 2, &out) && shape[1] == 3 && row[0] == 1 &&
			  row[1] == 0 && row[2] == 2);
	float a[128], b[64], ya[20], yb[10], *xs[2] = {a, b}, *ys[2] = {ya, yb};
	for (int i = 0; i < 128; i++)
		a[i] = b[i % 64] = i < 64 ? 1 : 2;
	c = opened(model_get_api(DL_ABI_VERSION)); /* the last of each row of b is 2 */
	closed(c, !run_requests(api, c, xs, ys, (int64_t[]){2, 1}) && ya[0] == 64 &&
			  ya[19] == 128 && yb[0] == 128);
	return 0;
}
