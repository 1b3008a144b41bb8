/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs of runs whose sizes depend on values, and of runs that are declared to be on the GPU:
 * values DIR, over the models
 *	few	y[n] = x[1], n an input
 *	largest	y[max(v[100])] = x[1]
 *	same	y[N] = x[N], z[N] = relu(x)
 *	either	y[N] = c ? a[N] : b[N], z[N] = relu(y), c an input
 */
#include "tests/gpu/mallocs.h"
#include "tests/gpu/sim.h"

enum { MOST = 100 };

static float x[MOST], y[MOST];
static const char *dir;
static char log_text[4096];

static void take_log(void *user, int32_t level, const char *text)
{
	(void)user;
	(void)level;
	snprintf(log_text + strlen(log_text), sizeof(log_text) - strlen(log_text), "%s\n", text);
}

static bool counts(unsigned graphs, unsigned waits)
{
	MUST(cu.ptxsim_calls("cuGraphLaunch") == graphs && !cu.ptxsim_calls("cuLaunchKernel"));
	MUST(cu.ptxsim_calls("cuStreamSynchronize") == waits);
	return true;
}

/* Sizes that depend on values of an input: the first run makes the graph, later ones tell it of
 * other sizes. */
static bool few(void)
{
	const dl_api *api = open_model(dir, "few");
	dl_load_options o = {.size = sizeof(o), .device = "cuda", .log = take_log};
	static const int64_t sizes[] = {5, 5, 7, 0, 7, 7, 3};
	int64_t dims[8] = {-1, -1, -1, -1, -1, -1, -1, -1}, one[] = {1}, ys[1], n;
	dl_tensor in[] = {tensor(DL_F32, x, one, 1, 4), tensor(DL_I64, &n, one, 1, 8)};
	dl_context *c;
	dl_model *m;

	MUST(api && count_mallocs((void *)(uintptr_t)api->load) && api->load(&o, &m) == DL_OK &&
	     api->context(m, NULL, &c) == DL_OK);
	MUST(api->prepare(c, dims, api->describe()->n_sym) == DL_OK);
	MUST(strstr(log_text, "few: its first run makes the graphs"));
	for (int k = 0; k < 7; k++) {
		const bool anew = !k || !sizes[k] || !sizes[k - 1];
		dl_tensor out = tensor(DL_F32, y, ys, 1, sizeof(y));

		n = sizes[k];
		x[0] = (float)k + 3;
		y[n] = -1;
		cu.ptxsim_mark();
		mallocs = 0;
		MUST(api->run(c, in, 2, &out, 1, NULL) == DL_OK && ys[0] == n && y[n] == -1);
		for (int i = 0; i < n; i++)
			MUST(y[i] == x[0]);
		MUST(cu.ptxsim_calls("cuGraphLaunch") == 1 && !cu.ptxsim_calls("cuLaunchKernel"));
		if (k == 1 || k > 4)
			MUST(counts(1, 1));
		MUST((cu.ptxsim_calls("cuGraphAddKernelNode") > 0) == (anew && n));
		if (k == 1 || k == 5)
			MUST(!cu.ptxsim_allocations() && !cu.ptxsim_calls("cuGraphExec") &&
			     !mallocs);
		if (k == 6)
			MUST(!cu.ptxsim_allocations() && cu.ptxsim_calls("cuGraphExec") > 0);
	}
	api->context_free(c);
	MUST(api->unload(m) == DL_OK);
	MUST(cu.ptxsim_live() == 0);
	return true;
}

/* Sizes that depend on values that the GPU computes: a graph before the host reads them, and one
 * after. */
static bool largest(void)
{
	const dl_api *api = open_model(dir, "largest");
	dl_load_options o = {.size = sizeof(o), .device = "cuda"};
	static const int most[] = {4, 4, 9, 40, 40};
	int64_t dims[8] = {-1, -1, -1, -1, -1, -1, -1, -1}, one[] = {1}, many[] = {100}, ys[1];
	static float v[100];
	CUdeviceptr d[3];
	dl_context *c;
	dl_model *m;
	void *stream;

	MUST(api && count_mallocs((void *)(uintptr_t)api->load) && api->load(&o, &m) == DL_OK &&
	     api->context(m, NULL, &c) == DL_OK);
	MUST(api->prepare(c, dims, api->describe()->n_sym) == DL_OK);
	for (int i = 0; i < 3; i++)
		MUST(!cu.cuMemAlloc_v2(&d[i], sizeof(v)));
	MUST(!cu.cuStreamCreate(&stream, 1));
	for (int k = 0; k < 10; k++) { /* in the host's memory, and in the GPU's */
		const bool here = k < 5;
		dl_tensor in[] = {tensor(DL_F32, here ? (void *)x : on_device(d[0]), one, 1, 4),
				  tensor(DL_F32, here ? (void *)v : on_device(d[1]), many, 1, 400)};
		dl_tensor out = tensor(DL_F32, here ? (void *)y : on_device(d[2]), ys, 1,
				       sizeof(v));

		x[0] = (float)k + 3;
		memset(v, 0, sizeof(v));
		v[k * 9] = (float)most[k % 5];
		MUST(!cu.cuMemcpyHtoD_v2(d[0], x, 4) && !cu.cuMemcpyHtoD_v2(d[1], v, sizeof(v)));
		cu.ptxsim_mark();
		mallocs = 0;
		MUST(api->run(c, in, 2, &out, 1, stream) == DL_OK && ys[0] == most[k % 5]);
		/* Reading waits once, and a result in the host's memory once more. */
		MUST(cu.ptxsim_calls("cuGraphLaunch") == 2 && !cu.ptxsim_calls("cuLaunchKernel"));
		if (k % 5 == 1 || k % 5 == 4)
			MUST(counts(2, here ? 2 : 1) && !cu.ptxsim_allocations() && !mallocs);
		if (!here)
			MUST(api->wait(c) == DL_OK && !cu.cuMemcpyDtoH_v2(y, d[2], sizeof(v)));
		for (int i = 0; i < ys[0]; i++)
			MUST(y[i] == x[0]);
	}
	MUST(!cu.cuStreamDestroy_v2(stream));
	for (int i = 0; i < 3; i++)
		MUST(!cu.cuMemFree_v2(d[i]));
	api->context_free(c);
	MUST(api->unload(m) == DL_OK);
	MUST(cu.ptxsim_live() == 0);
	return true;
}

/* Each call of a first run, which makes the graphs of largest, fails once: a status, and the
 * next run is right. */
static bool a_first_run_fails(void)
{
	const dl_api *api = open_model(dir, "largest");
	dl_load_options o = {.size = sizeof(o), .device = "cuda"};
	int64_t dims[8] = {-1, -1, -1, -1, -1, -1, -1, -1}, one[] = {1}, many[] = {100}, ys[1];
	static float v[100];
	dl_tensor in[] = {tensor(DL_F32, x, one, 1, 4), tensor(DL_F32, v, many, 1, 400)};
	bool done = false;
	int n, failed = 0;

	v[3] = 30;
	x[0] = 7;
	for (n = 1; !done; n++) {
		dl_tensor out = tensor(DL_F32, y, ys, 1, sizeof(y));
		dl_context *c;
		dl_model *m;

		MUST(api->load(&o, &m) == DL_OK && api->context(m, NULL, &c) == DL_OK);
		MUST(api->prepare(c, dims, api->describe()->n_sym) == DL_OK);
		cu.ptxsim_fail((uint64_t)n, 999);
		failed += api->run(c, in, 2, &out, 1, NULL) != DL_OK;
		done = !cu.ptxsim_failed();
		cu.ptxsim_fail(0, 0);
		for (int k = 0; k < 2; k++) {
			memset(y, 0, sizeof(y));
			out = tensor(DL_F32, y, ys, 1, sizeof(y));
			MUST(api->run(c, in, 2, &out, 1, NULL) == DL_OK && ys[0] == 30);
			for (int i = 0; i < 30; i++)
				MUST(y[i] == 7);
		}
		api->context_free(c);
		MUST(api->unload(m) == DL_OK && cu.ptxsim_live() == 0);
	}
	MUST(n > 20 && failed > 15);
	return true;
}

/* Declared to be on the GPU: prepare takes no memory for what is not; where that is wrong, a run
 * takes it. */
static bool declared(void)
{
	const dl_api *api = open_model(dir, "same");
	dl_load_options load = {.size = sizeof(load), .device = "cuda"};
	dl_context_options o = {.size = sizeof(o), .flags = DL_CONTEXT_ON_GPU};
	int64_t dims[] = {40}, xs[] = {40}, ys[1], zs[1];
	static float z[40];
	CUdeviceptr d[3];
	dl_context *c;
	dl_model *m;

	MUST(api && count_mallocs((void *)(uintptr_t)api->load) && api->load(&load, &m) == DL_OK &&
	     api->context(m, &o, &c) == DL_OK);
	cu.ptxsim_mark();
	MUST(api->prepare(c, dims, 1) == DL_OK && !cu.ptxsim_calls("cuMemHostAlloc"));
	MUST(cu.ptxsim_calls("cuMemAlloc") == 1); /* the arena */
	for (int i = 0; i < 3; i++)
		MUST(!cu.cuMemAlloc_v2(&d[i], 256));
	for (int k = 0; k < 6; k++) { /* on the GPU, on the host, on the GPU */
		const bool here = k / 2 == 1;
		dl_tensor in = tensor(DL_F32, here ? (void *)x : on_device(d[0]), xs, 1, 160);
		dl_tensor out[] = {tensor(DL_F32, here ? (void *)y : on_device(d[1]), ys, 1, 160),
				   tensor(DL_F32, here ? (void *)z : on_device(d[2]), zs, 1, 160)};

		for (int i = 0; i < MOST; i++)
			x[i] = (float)((i * 7 + k) % 23) - 11;
		MUST(!cu.cuMemcpyHtoD_v2(d[0], x, 160));
		cu.ptxsim_mark();
		mallocs = 0;
		MUST(api->run(c, &in, 1, out, 2, NULL) == DL_OK);
		MUST(cu.ptxsim_calls("cuGraphLaunch") == 1 && !cu.ptxsim_calls("cuLaunchKernel"));
		/* The first run makes the graph, and copies from and to the host are new nodes. */
		MUST((cu.ptxsim_calls("cuGraphInstantiate") > 0) == (!k || k == 2));
		if (k % 2)
			MUST(counts(1, here) && !cu.ptxsim_allocations() && !mallocs &&
			     !cu.ptxsim_calls("cuGraphExec"));
		if (!here)
			MUST(api->wait(c) == DL_OK && !cu.cuMemcpyDtoH_v2(y, d[1], 160) &&
			     !cu.cuMemcpyDtoH_v2(z, d[2], 160));
		for (int i = 0; i < 40; i++)
			MUST(y[i] == x[i] && z[i] == (x[i] > 0 ? x[i] : 0));
	}
	for (int i = 0; i < 3; i++)
		MUST(!cu.cuMemFree_v2(d[i]));
	api->context_free(c);
	MUST(api->unload(m) == DL_OK && cu.ptxsim_live() == 0);
	return true;
}

/* A run copies the input that its branch gives: the copy waits for that input to arrive, and not
 * for the input of the run before. The caller's tensors are on the host, and in some runs one of
 * them is on the GPU. */
static bool either(void)
{
	const dl_api *api = open_model(dir, "either");
	dl_load_options load = {.size = sizeof(load), .device = "cuda"};
	int64_t dims[8] = {40, 40, -1, -1, -1, -1, -1, -1}, one[] = {1}, xs[] = {40}, ys[1], zs[1];
	static float v[2][40], z[40];
	bool first;
	CUdeviceptr d;
	dl_context *c;
	dl_model *m;

	MUST(api && api->load(&load, &m) == DL_OK && api->context(m, NULL, &c) == DL_OK);
	MUST(api->prepare(c, dims, api->describe()->n_sym) == DL_OK);
	MUST(!cu.cuMemAlloc_v2(&d, sizeof(v[0])));
	for (int k = 0; k < 12; k++) {
		void *a = k % 5 == 4 ? on_device(d) : (void *)v[0];
		dl_tensor in[] = {tensor(DL_BOOL, &first, one, 1, 1), tensor(DL_F32, a, xs, 1, 160),
				  tensor(DL_F32, v[1], xs, 1, 160)};
		dl_tensor out[] = {tensor(DL_F32, y, ys, 1, 160), tensor(DL_F32, z, zs, 1, 160)};

		first = k % 3 == 1;
		for (int i = 0; i < 80; i++)
			v[i / 40][i % 40] = (float)((i * 7 + k) % 23) - 11;
		MUST(!cu.cuMemcpyHtoD_v2(d, v[0], sizeof(v[0])));
		cu.ptxsim_mark();
		MUST(api->run(c, in, 3, out, 2, NULL) == DL_OK);
		MUST(cu.ptxsim_calls("cuGraphLaunch") == 1 && !cu.ptxsim_calls("cuLaunchKernel"));
		MUST((cu.ptxsim_calls("cuGraphInstantiate") > 0) == (!k || k % 3 != 0));
		for (int i = 0; i < 40; i++) {
			const float want = v[!first][i];

			MUST(y[i] == want && z[i] == (want > 0 ? want : 0));
		}
	}
	MUST(!cu.cuMemFree_v2(d));
	api->context_free(c);
	MUST(api->unload(m) == DL_OK && cu.ptxsim_live() == 0);
	return true;
}

static bool all(const char *models)
{
	void *gpu;

	dir = models;
	MUST(!cu.cuDevicePrimaryCtxRetain(&gpu, 0) && !cu.cuCtxPushCurrent_v2(gpu));
	return few() && largest() && a_first_run_fails() && declared() && either();
}

int main(int argc, char **argv)
{
	return sim_main(argc, argv, all);
}
