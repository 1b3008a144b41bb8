/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model is a guest of the application: it waits for nothing of the application's, and leaves the
 * current context and the caller's streams alone: guest DIR, over the models
 *	dense	y[N,10] = x[N,64] w + b
 *	chain	y[N,8] = (x[N,8] w[8,8]) w
 */
#include "tests/gpu/sim.h"

enum { ROWS = 6, IN = 64, OUT = 10 };

static const char *dir;
static float x[ROWS * IN], y[ROWS * OUT], want[ROWS * OUT];

static int run(const dl_api *api, dl_context *c, int64_t rows, void *px, void *py, void *stream)
{
	int64_t xs[] = {rows, IN}, ys[2];
	dl_tensor in = tensor(DL_F32, px, xs, 2, sizeof(x));
	dl_tensor out = tensor(DL_F32, py, ys, 2, sizeof(y));

	return api->run(c, &in, 1, &out, 1, stream);
}

static bool right(const float *got, int rows)
{
	for (int i = 0; i < rows * OUT; i++)
		MUST(fabsf(got[i] - want[i]) <= 1e-4f);
	return true;
}

static bool load(const dl_api *api, const char *device, dl_model **m, dl_context **c)
{
	dl_load_options o = {.size = sizeof(o), .device = device, .threads = 1};
	dl_context_options own = {.size = sizeof(own), .flags = DL_CONTEXT_OWN_STREAM};

	MUST(api->load(&o, m) == DL_OK && api->context(*m, &own, c) == DL_OK);
	return true;
}

static void arrived(void *flag)
{
	*(int *)flag = 1;
}

/* Work of the application, in the default stream and in one that goes with it, is as far after
 * all calls as it was before. */
static bool others_work_waits(void)
{
	const dl_api *api = open_model(dir, "dense");
	int64_t dims[] = {ROWS};
	int flag[2] = {0};
	CUdeviceptr d[2];
	dl_context *c;
	dl_model *m;
	void *others, *stream;

	MUST(api && !cu.cuStreamCreate(&others, 0) && !cu.cuStreamCreate(&stream, 1));
	MUST(!cu.cuMemAlloc_v2(&d[0], sizeof(x)) && !cu.cuMemAlloc_v2(&d[1], sizeof(y)));
	MUST(!cu.cuMemcpyHtoD_v2(d[0], x, sizeof(x)));
	MUST(!cu.cuLaunchHostFunc(others, arrived, &flag[0]) &&
	     !cu.cuLaunchHostFunc(NULL, arrived, &flag[1]));
	MUST(load(api, "cuda", &m, &c));
	MUST(run(api, c, ROWS, x, y, NULL) == DL_OK && right(y, ROWS));
	MUST(api->prepare(c, dims, 1) == DL_OK);
	MUST(run(api, c, ROWS, x, y, NULL) == DL_OK && right(y, ROWS));
	MUST(run(api, c, ROWS, on_device(d[0]), on_device(d[1]), stream) == DL_OK);
	MUST(api->wait(c) == DL_OK && !flag[0] && !flag[1]);
	MUST(!cu.cuStreamSynchronize(NULL) && flag[0] && flag[1]);
	MUST(!cu.cuMemcpyDtoH_v2(y, d[1], sizeof(y)) && right(y, ROWS));
	api->context_free(c);
	MUST(api->unload(m) == DL_OK && !cu.cuStreamDestroy_v2(others) &&
	     !cu.cuStreamDestroy_v2(stream) && !cu.cuMemFree_v2(d[0]) && !cu.cuMemFree_v2(d[1]));
	return true;
}

/* What was current before a call is current after it: a context of another device, or none. */
static bool current_stays(void)
{
	const dl_api *api = open_model(dir, "dense");
	int64_t dims[] = {ROWS}, huge[] = {INT64_C(1) << 40}, xs[] = {3, IN}, ys[2];
	dl_tensor in = tensor(DL_F32, x, xs, 2, sizeof(x)), out = tensor(DL_F32, y, ys, 2, 0);
	dl_load_options o = {.size = sizeof(o), .device = "cuda:0"},
			auto_ = {.size = sizeof(auto_)};
	dl_model *m, *other;
	dl_context *c;
	void *mine = NULL, *before, *now;

	MUST(api && !cu.cuDevicePrimaryCtxRetain(&mine, 1) && !cu.cuCtxGetCurrent(&before));
#define STAYS(call) MUST((call) && !cu.cuCtxGetCurrent(&now) && now == (k ? NULL : mine))
	for (int k = 0; k < 2; k++) {
		MUST(!cu.cuCtxPushCurrent_v2(k ? before : mine));
		if (k)
			while (!cu.cuCtxPopCurrent_v2(&now))
				;
		STAYS(api->load(&o, &m) == DL_OK);
		STAYS(api->load(&auto_, &other) == DL_OK && api->unload(other) == DL_OK);
		STAYS(api->context(m, NULL, &c) == DL_OK);
		STAYS(run(api, c, 4, x, y, NULL) == DL_OK && right(y, 4));
		STAYS(api->prepare(c, dims, 1) == DL_OK);
		STAYS(api->prepare(c, huge, 1) == DL_NOMEM);
		STAYS(run(api, c, ROWS, x, y, NULL) == DL_OK && right(y, ROWS));
		STAYS(api->infer_shapes(c, &in, 1, &out, 1) == DL_OK && ys[0] == 3);
		STAYS(run(api, c, 0, NULL, NULL, NULL) == DL_OK);
		out.bytes = 1;
		STAYS(api->run(c, &in, 1, &out, 1, NULL) == DL_CAPACITY);
		STAYS(api->wait(c) == DL_OK);
		STAYS((api->context_free(c), true));
		STAYS(api->unload(m) == DL_OK);
		if (!k)
			MUST(!cu.cuCtxPopCurrent_v2(&now));
	}
#undef STAYS
	MUST(!cu.cuDevicePrimaryCtxRelease_v2(1) && !cu.cuCtxPushCurrent_v2(before));
	return true;
}

/* The caller's stream goes, and so do context, model and library, while the GPU has all of it
 * before it; another stream may have the handle of the first. */
static bool all_goes_early(void)
{
	const dl_api *api = open_model(dir, "dense");
	CUdeviceptr d[2];
	dl_context *c;
	dl_model *m;
	void *stream, *lib;
	char path[4096];

	MUST(api && load(api, "cuda", &m, &c));
	MUST(!cu.cuMemAlloc_v2(&d[0], sizeof(x)) && !cu.cuMemAlloc_v2(&d[1], sizeof(y)));
	MUST(!cu.cuMemcpyHtoD_v2(d[0], x, sizeof(x)));
	for (int k = 0; k < 4; k++) {
		MUST(!cu.cuStreamCreate(&stream, 1));
		MUST(run(api, c, ROWS - k, on_device(d[0]), on_device(d[1]), stream) == DL_OK);
		MUST(!cu.cuStreamDestroy_v2(stream));
	}
	MUST(run(api, c, ROWS, on_device(d[0]), on_device(d[1]), NULL) == DL_OK);
	MUST(api->wait(c) == DL_OK && !cu.cuMemcpyDtoH_v2(y, d[1], sizeof(y)) && right(y, ROWS));
	MUST(!cu.cuStreamCreate(&stream, 1));
	MUST(run(api, c, ROWS, on_device(d[0]), on_device(d[1]), stream) == DL_OK);
	MUST(!cu.cuStreamDestroy_v2(stream));
	api->context_free(c);
	MUST(api->unload(m) == DL_OK);
	snprintf(path, sizeof(path), "%s/dense.so", dir);
	lib = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	MUST(lib);
	for (int k = 0; k < 8 && lib; k++) { /* each opening of it, and this one */
		dlclose(lib);
		lib = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
		if (lib)
			dlclose(lib);
	}
	MUST(!lib && !cu.cuMemcpyDtoH_v2(y, d[1], sizeof(y)) && right(y, ROWS));
	MUST(!cu.cuMemFree_v2(d[0]) && !cu.cuMemFree_v2(d[1]));
	return true;
}

/* Call N of the driver, in a run in STREAM, does not work. The run's status; *DONE: there is no
 * such call. */
static int broken_run(const dl_api *api, dl_context *c, const CUdeviceptr *d, void *stream,
		      unsigned n, bool *done)
{
	const int unknown = 999;
	int rc;

	cu.ptxsim_fail(n, unknown);
	rc = run(api, c, ROWS, on_device(d[0]), on_device(d[1]), stream);
	*done = !cu.ptxsim_failed();
	cu.ptxsim_fail(0, 0);
	return rc;
}

/* What a run in STREAM ends with that is refused in way K, or where a call does not work. */
static int failing_run(const dl_api *api, dl_context *c, const CUdeviceptr *d, void *stream,
		       unsigned k, bool *done)
{
	int64_t xs[] = {ROWS, IN}, ys[2];
	dl_tensor in = tensor(DL_F32, on_device(d[0]), xs, 2, sizeof(x));
	dl_tensor out = tensor(DL_F32, on_device(d[1]), ys, 2, sizeof(y));

	*done = false;
	if (k > 3)
		return broken_run(api, c, d, stream, k - 3, done);
	if (k == 1)
		out.bytes = 1;
	else if (k == 2)
		out.data = in.data;
	else if (k == 3)
		api->cancel(c);
	else
		xs[1]--;
	return api->run(c, &in, 1, &out, 1, stream);
}

/* A run fails in the caller's stream, which goes then, while the run before it is still under
 * way. */
static bool stream_of_failure_goes(bool prepared)
{
	static const int want_status[] = {DL_SHAPE, DL_CAPACITY, DL_INVALID, DL_CANCELLED};
	const dl_api *api = open_model(dir, "dense");
	int64_t dims[] = {ROWS};
	bool done = false;
	CUdeviceptr d[2];
	dl_context *c;
	dl_model *m;

	MUST(api && load(api, "cuda", &m, &c));
	MUST(!cu.cuMemAlloc_v2(&d[0], sizeof(x)) && !cu.cuMemAlloc_v2(&d[1], sizeof(y)));
	MUST(!cu.cuMemcpyHtoD_v2(d[0], x, sizeof(x)));
	MUST(!prepared || api->prepare(c, dims, 1) == DL_OK);
	for (unsigned k = 0; !done; k++) {
		void *s[2];
		int rc;

		MUST(!cu.cuStreamCreate(&s[0], 1) && !cu.cuStreamCreate(&s[1], 1));
		MUST(run(api, c, ROWS, on_device(d[0]), on_device(d[1]), s[0]) == DL_OK);
		MUST(!cu.cuStreamDestroy_v2(s[0]));
		rc = failing_run(api, c, d, s[1], k, &done);
		MUST(k >= 4 || rc == want_status[k]);
		MUST(!cu.cuStreamDestroy_v2(s[1]) && api->wait(c) == DL_OK);
		MUST(!cu.cuMemcpyDtoH_v2(y, d[1], sizeof(y)) && right(y, ROWS));
		MUST(!done || (rc == DL_OK && k > 8));
	}
	api->context_free(c);
	MUST(api->unload(m) == DL_OK && !cu.cuMemFree_v2(d[0]) && !cu.cuMemFree_v2(d[1]));
	return true;
}

/* No rows at all, where there is memory and where there is none; and an output over its input,
 * which is refused. */
static bool nothing_to_compute(void)
{
	const dl_api *api = open_model(dir, "dense");
	CUdeviceptr d;
	dl_context *c;
	dl_model *m;

	MUST(api && load(api, "cuda", &m, &c) && !cu.cuMemAlloc_v2(&d, sizeof(x)));
	MUST(!cu.cuMemcpyHtoD_v2(d, x, sizeof(x)));
	for (int prepared = 0; prepared < 2; prepared++) {
		int64_t none[] = {0}, dims[] = {ROWS};

		MUST(!prepared ||
		     (api->prepare(c, none, 1) == DL_OK && api->prepare(c, dims, 1) == DL_OK));
		memset(y, 1, sizeof(y));
		MUST(run(api, c, 0, NULL, NULL, NULL) == DL_OK);
		MUST(run(api, c, 0, x, y, NULL) == DL_OK);
		MUST(run(api, c, 0, on_device(d), on_device(d), NULL) == DL_OK);
		MUST(api->wait(c) == DL_OK && y[0] == y[OUT]);
		MUST(run(api, c, ROWS, on_device(d), on_device(d), NULL) == DL_INVALID);
		MUST(strstr(api->error(c), "overlaps input"));
		MUST(run(api, c, ROWS, on_device(d), on_device(d + IN * 4), NULL) == DL_INVALID);
		MUST(run(api, c, ROWS, on_device(d), y, NULL) == DL_OK && right(y, ROWS));
	}
	api->context_free(c);
	MUST(api->unload(m) == DL_OK && !cu.cuMemFree_v2(d));
	return true;
}

/* Two models of two libraries in one context of the device: calls in turn, and one goes while
 * the other works. */
static bool two_models(void)
{
	const dl_api *dense = open_model(dir, "dense"), *chain = open_model(dir, "chain");
	int64_t xs[] = {5, 8}, ws[] = {8, 8}, ys[2];
	float w[64] = {0}, z[40];
	dl_tensor in[] = {tensor(DL_F32, x, xs, 2, 160), tensor(DL_F32, w, ws, 2, sizeof(w))};
	dl_tensor out = tensor(DL_F32, z, ys, 2, sizeof(z));
	CUdeviceptr d[2];
	dl_context *c, *other;
	dl_model *m, *mo;

	MUST(dense && chain && load(dense, "cuda", &m, &c) && load(chain, "cuda", &mo, &other));
	MUST(!cu.cuMemAlloc_v2(&d[0], sizeof(x)) && !cu.cuMemAlloc_v2(&d[1], sizeof(y)));
	MUST(!cu.cuMemcpyHtoD_v2(d[0], x, sizeof(x)));
	for (int i = 0; i < 8; i++)
		w[i * 9] = 2;
	for (int k = 0; k < 3; k++) {
		MUST(run(dense, c, ROWS, on_device(d[0]), on_device(d[1]), NULL) == DL_OK);
		memset(z, 0, sizeof(z));
		MUST(chain->run(other, in, 2, &out, 1, NULL) == DL_OK);
		for (int i = 0; i < 40; i++)
			MUST(z[i] == 4 * x[i]);
	}
	chain->context_free(other);
	MUST(chain->unload(mo) == DL_OK);
	MUST(dense->wait(c) == DL_OK && !cu.cuMemcpyDtoH_v2(y, d[1], sizeof(y)) && right(y, ROWS));
	dense->context_free(c);
	MUST(dense->unload(m) == DL_OK && !cu.cuMemFree_v2(d[0]) && !cu.cuMemFree_v2(d[1]));
	return true;
}

static bool all(const char *models)
{
	const dl_api *api = open_model(models, "dense");
	dl_context *c;
	dl_model *m;
	void *gpu;
	int before;

	dir = models;
	MUST(!cu.cuDevicePrimaryCtxRetain(&gpu, 0) && !cu.cuCtxPushCurrent_v2(gpu));
	for (int i = 0; i < ROWS * IN; i++)
		x[i] = (float)(i % 11) - 5;
	MUST(api && load(api, "cpu", &m, &c) && run(api, c, ROWS, x, want, NULL) == DL_OK);
	api->context_free(c);
	MUST(api->unload(m) == DL_OK);
	before = cu.ptxsim_live();
	cu.ptxsim_seed(0); /* everything as late as it can be */
	MUST(others_work_waits() && current_stays() && nothing_to_compute() && two_models());
	for (unsigned seed = 0; seed < 4; seed++) {
		cu.ptxsim_seed(seed);
		MUST(all_goes_early());
		MUST(stream_of_failure_goes(seed % 2));
	}
	MUST(cu.ptxsim_live() == before);
	return true;
}

int main(int argc, char **argv)
{
	return sim_main(argc, argv, all);
}
