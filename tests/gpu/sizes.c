/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs that sizes depend on, in host memory and on the GPU: sizes DIR, whose model makes y[K] of
 * x[1] and e[1], with K = 2^e computed on the host. The GPU has no use for e.
 */
#include "tests/gpu/sim.h"

enum { ROOM = 64 };

/* y must be x, 2^e times. Whether run waited for the GPU is in *WAITED. */
static bool run(const dl_api *api, dl_context *c, CUdeviceptr x, void *e, CUdeviceptr y,
		int64_t count, bool *waited)
{
	int64_t one[] = {1}, shape[1];
	dl_tensor in[] = {tensor(DL_F32, on_device(x), one, 1, sizeof(float)),
			  tensor(DL_F32, e, one, 1, sizeof(float))};
	dl_tensor out[] = {tensor(DL_F32, on_device(y), shape, 1, ROOM * sizeof(float))};
	float got[ROOM];

	cu.ptxsim_mark();
	MUST(api->run(c, in, 2, out, 1, NULL) == DL_OK);
	*waited = cu.ptxsim_calls("cuStreamSynchronize") != 0;
	MUST(api->wait(c) == DL_OK && shape[0] == count);
	MUST(!cu.cuMemcpyDtoH_v2(got, y, (size_t)count * sizeof(float)));
	for (int64_t i = 0; i < count; i++)
		MUST(got[i] == 1.5F);
	return true;
}

static bool all(const char *dir)
{
	const dl_load_options o = {.size = sizeof o, .device = "cuda"};
	const dl_api *api = open_model(dir, "sizes");
	dl_workspace w = {.size = sizeof w};
	float x = 1.5F, three = 3, five = 5;
	CUdeviceptr dx, de, dy;
	dl_context *c;
	dl_model *m;
	bool waited;
	void *gpu;

	MUST(!cu.cuDevicePrimaryCtxRetain(&gpu, 0) && !cu.cuCtxPushCurrent_v2(gpu));
	MUST(!cu.cuMemAlloc_v2(&dx, 16) && !cu.cuMemAlloc_v2(&de, 16) &&
	     !cu.cuMemAlloc_v2(&dy, ROOM * sizeof(float)));
	MUST(!cu.cuMemcpyHtoD_v2(dx, &x, sizeof x) && !cu.cuMemcpyHtoD_v2(de, &five, sizeof five));
	MUST(api && api->load(&o, &m) == DL_OK && api->context(m, NULL, &c) == DL_OK);
	MUST(dl_desc_in(api->describe(), 0)->flags == 0);
	MUST(dl_desc_in(api->describe(), 1)->flags == (DL_IO_HOST | DL_IO_HOST_ONLY));
	MUST(api->workspace(m, (int64_t[4]){0}, api->describe()->n_sym, &w) == DL_OK);
	MUST(w.host_bytes > 0);
	MUST(run(api, c, dx, &three, dy, 8, &waited));
	MUST(run(api, c, dx, &five, dy, 32, &waited) && !waited);
	MUST(run(api, c, dx, on_device(de), dy, 32, &waited) && waited);
	MUST(run(api, c, dx, &three, dy, 8, &waited) && !waited);
	api->context_free(c);
	MUST(api->unload(m) == DL_OK);
	return true;
}

int main(int argc, char **argv)
{
	return sim_main(argc, argv, all);
}
