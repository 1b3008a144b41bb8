/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application that has its tensors on the GPU and a stream of its own: pointers DIR, whose model
 * is y[N,17] = relu(x[N,17] + b[17]). It links to no driver: it opens the one that the model opens.
 */
#include "tests/gpu/sim.h"

enum { ROWS = 9, COLS = 17 };

static float x[ROWS * COLS], b[COLS], y[ROWS * COLS];

static bool expected(void)
{
	for (int i = 0; i < ROWS * COLS; i++) {
		float want = x[i] + b[i % COLS];

		if (y[i] != (want > 0 ? want : 0))
			return 0;
	}
	return 1;
}

/* Runs with tensors that begin OFF bytes into their memory. */
static bool run(const dl_api *api, dl_context *c, void *stream, size_t off)
{
	int64_t xs[] = {ROWS, COLS}, bs[] = {COLS}, ys[2];
	CUdeviceptr dx, db, dy;
	dl_tensor in[2], out[1];

	MUST(!cu.cuMemAlloc_v2(&dx, sizeof x + 16) && !cu.cuMemAlloc_v2(&db, sizeof b + 16) &&
	     !cu.cuMemAlloc_v2(&dy, sizeof y + 16));
	MUST(!cu.cuMemcpyHtoD_v2(dx + off, x, sizeof x) &&
	     !cu.cuMemcpyHtoD_v2(db + off, b, sizeof b));
	in[0] = tensor(DL_F32, on_device(dx + off), xs, 2, sizeof x);
	in[1] = tensor(DL_F32, on_device(db + off), bs, 1, sizeof b);
	for (int k = 0; k < 3; k++) {
		out[0] = tensor(DL_F32, on_device(dy + off), ys, 2, sizeof y);
		if (k == 1)
			cu.ptxsim_mark();
		MUST(api->run(c, in, 2, out, 1, stream) == DL_OK);
	}
	/* After the first run: no memory from the driver, and no waiting for the GPU. */
	MUST(cu.ptxsim_allocations() == 0);
	MUST(cu.ptxsim_calls("cuStreamSynchronize") == 0);
	MUST(stream ? !cu.cuStreamSynchronize(stream) : api->wait(c) == DL_OK);
	MUST(!cu.cuMemcpyDtoH_v2(y, dy + off, sizeof y));
	MUST(expected());
	memset(y, 0, sizeof y);
	return true;
}

static bool all(const char *dir)
{
	dl_load_options o = {.size = sizeof o, .device = "cuda"};
	const dl_api *api = open_model(dir, "add");
	void *gpu, *stream;
	dl_model *m;
	dl_context *c;

	for (int i = 0; i < ROWS * COLS; i++)
		x[i] = (float)(i % 23) - 11;
	for (int i = 0; i < COLS; i++)
		b[i] = (float)i / 4 - 2;
	MUST(!cu.cuDevicePrimaryCtxRetain(&gpu, 0) && !cu.cuCtxPushCurrent_v2(gpu) &&
	     !cu.cuStreamCreate(&stream, 1));
	MUST(api && api->load(&o, &m) == DL_OK && api->context(m, NULL, &c) == DL_OK);
	MUST(!strncmp(api->device(m), "cuda:0", 6));
	MUST(run(api, c, stream, 0) && run(api, c, stream, 4) && run(api, c, NULL, 0));
	api->context_free(c);
	MUST(api->unload(m) == DL_OK);
	return true;
}

int main(int argc, char **argv)
{
	return sim_main(argc, argv, all);
}
