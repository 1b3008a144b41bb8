/* SPDX-License-Identifier: Apache-2.0 */
/* Runs both models of the project on ones, and prints the first element of each result. */
#include "first.h"
#include "other.h"

#include <stdio.h>

static int run(const dl_api *api)
{
	float x[64], y[10];
	int64_t in_shape[2] = {1, 64}, out_shape[2];
	dl_tensor in = dl_tensor_of(DL_F32, 2, in_shape, x, sizeof(x));
	dl_tensor out = dl_tensor_of(DL_F32, 2, out_shape, y, sizeof(y));
	dl_model *m;
	dl_context *c;

	for (int i = 0; i < 64; i++)
		x[i] = 1;
	if (api->load(NULL, &m) || api->context(m, NULL, &c) || api->run(c, &in, 1, &out, 1, NULL))
		return 1;
	printf("%g\n", (double)y[0]);
	api->context_free(c);
	return api->unload(m);
}

int main(void)
{
	return run(first_get_api(DL_ABI_VERSION)) || run(other_get_api(DL_ABI_VERSION));
}
