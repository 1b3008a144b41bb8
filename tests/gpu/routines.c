/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs with routines on the host: routines DIR, over the model
 *	rounds	d = 2 * x[N], text = string(d) + unit[N], y = number(string(d)) * d, long = text matches a pattern
 */
#include "tests/gpu/sim.h"

enum { MOST = 8 };

static bool all(const char *dir)
{
	const dl_api *api = open_model(dir, "rounds");
	dl_load_options o = {.size = sizeof(o), .device = "cuda"};
	int64_t dims[8] = {-1, -1, -1, -1, -1, -1, -1, -1}, n[] = {3}, shape[3][1];
	float x[MOST] = {1, 2.5f, -8}, y[MOST];
	dl_str unit[MOST] = {{"m", 1}, {"cm", 2}, {"km", 2}}, text[MOST];
	unsigned char match[MOST];
	dl_tensor in[] = {tensor(DL_F32, x, n, 1, 12),
			  tensor(DL_STR, unit, n, 1, 3 * sizeof(*unit))};
	dl_context *c;
	dl_model *m;
	void *stream, *graph = NULL, *gpu;

	MUST(!cu.cuDevicePrimaryCtxRetain(&gpu, 0) && !cu.cuCtxPushCurrent_v2(gpu));
	MUST(api && api->load(&o, &m) == DL_OK && api->context(m, NULL, &c) == DL_OK);
	dims[0] = 3;
	MUST(api->prepare(c, dims, api->describe()->n_sym) == DL_OK);
	MUST(!cu.cuStreamCreate(&stream, 1));
	for (int k = 0; k < 4; k++) {
		dl_tensor out[] = {tensor(DL_F32, y, shape[0], 1, sizeof(y)),
				   tensor(DL_STR, text, shape[1], 1, sizeof(text)),
				   tensor(DL_BOOL, match, shape[2], 1, sizeof(match))};

		x[0] = (float)k;
		memset(y, 0, sizeof(y));
		memset(text, 0, sizeof(text));
		cu.ptxsim_mark();
		MUST(api->run(c, in, 2, out, 3, stream) == DL_OK);
		MUST(y[0] == (float)(4 * k * k) && y[1] == 25 && y[2] == 256);
		MUST(shape[1][0] == 3 && text[2].n == 5 && !memcmp(text[2].p, "-16km", 5));
		MUST(!match[0] && match[1] && match[2]);
		MUST(cu.ptxsim_calls("cuGraphLaunch") == 2 && !cu.ptxsim_calls("cuLaunchKernel"));
	}
	{
		dl_tensor out[] = {tensor(DL_F32, y, shape[0], 1, sizeof(y)),
				   tensor(DL_STR, text, shape[1], 1, sizeof(text)),
				   tensor(DL_BOOL, match, shape[2], 1, sizeof(match))};

		MUST(!cu.cuStreamBeginCapture_v2(stream, 0));
		MUST(api->run(c, in, 2, out, 3, stream) == DL_UNSUPPORTED);
		MUST(strstr(api->error(c), "captured"));
		cu.cuStreamEndCapture(stream, &graph);
		MUST(!graph || !cu.cuGraphDestroy(graph));
		MUST(api->run(c, in, 2, out, 3, stream) == DL_OK && y[2] == 256);
	}
	MUST(!cu.cuStreamDestroy_v2(stream));
	api->context_free(c);
	MUST(api->unload(m) == DL_OK);
	return true;
}

int main(int argc, char **argv)
{
	return sim_main(argc, argv, all);
}
