/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that grows while runs are in flight: grow DIR, over chain: y[N,8] = (x[N,8] w[8,8]) w. The
 * device has memory for the tensors and the larger workspace, but not for both workspaces at once;
 * PTXSIM_POOLS is set where it has no pools.
 */
#include "tests/gpu/sim.h"

enum { COLS = 8, SOME = 500, FEW = 1000, MANY = 2000 };

static float x[MANY * COLS], w[COLS * COLS], y[MANY * COLS];
static CUdeviceptr dx, dw, dy;

static int run(const dl_api *api, dl_context *c, int64_t rows)
{
	int64_t xs[] = {rows, COLS}, ws[] = {COLS, COLS}, ys[2];
	dl_tensor in[] = {tensor(DL_F32, on_device(dx), xs, 2, sizeof(x)),
			  tensor(DL_F32, on_device(dw), ws, 2, sizeof(w))};
	dl_tensor out = tensor(DL_F32, on_device(dy), ys, 2, sizeof(y));

	return api->run(c, in, 2, &out, 1, NULL);
}

static bool all(const char *dir)
{
	const bool pools = !getenv("PTXSIM_POOLS");
	const dl_api *api = open_model(dir, "chain");
	dl_load_options load = {.size = sizeof(load), .device = "cuda"};
	dl_context_options own = {.size = sizeof(own), .flags = DL_CONTEXT_OWN_STREAM};
	dl_context *c;
	dl_model *m;
	void *gpu;

	MUST(!cu.cuDevicePrimaryCtxRetain(&gpu, 0) && !cu.cuCtxPushCurrent_v2(gpu));
	cu.ptxsim_seed(0);
	for (int i = 0; i < MANY * COLS; i++)
		x[i] = (float)(i % 13) - 6;
	for (int i = 0; i < COLS; i++)
		w[i * (COLS + 1)] = 2;
	MUST(!cu.cuMemAlloc_v2(&dx, sizeof(x)) && !cu.cuMemcpyHtoD_v2(dx, x, sizeof(x)));
	MUST(!cu.cuMemAlloc_v2(&dw, sizeof(w)) && !cu.cuMemcpyHtoD_v2(dw, w, sizeof(w)));
	MUST(!cu.cuMemAlloc_v2(&dy, sizeof(y)));
	MUST(api && api->load(&load, &m) == DL_OK && api->context(m, &own, &c) == DL_OK);
	MUST(run(api, c, SOME) == DL_OK); /* in flight from here on */
	cu.ptxsim_mark();
	MUST(run(api, c, FEW) == DL_OK);
	MUST(cu.ptxsim_calls("cuStreamSynchronize") == !pools);
	MUST(cu.ptxsim_calls("cuMemFree_v2") == !pools);
	cu.ptxsim_mark();
	MUST(run(api, c, MANY) == DL_OK);
	MUST(cu.ptxsim_calls("cuStreamSynchronize") == 1); /* memory is short */
	MUST(api->wait(c) == DL_OK && !cu.cuMemcpyDtoH_v2(y, dy, sizeof(y)));
	for (int i = 0; i < MANY * COLS; i++)
		MUST(y[i] == 4 * x[i]);
	api->context_free(c);
	MUST(api->unload(m) == DL_OK);
	return !cu.cuMemFree_v2(dx) && !cu.cuMemFree_v2(dw) && !cu.cuMemFree_v2(dy) &&
	       cu.ptxsim_live() == 0;
}

int main(int argc, char **argv)
{
	return sim_main(argc, argv, all);
}
