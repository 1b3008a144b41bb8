/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts of one model in eight threads, and another model on a second device: threads DIR, over
 * dense: y[N,10] = x[N,64] w + b.
 */
#include "tests/gpu/sim.h"

#include <pthread.h>

enum { ROWS = 9, IN = 64, OUT = 10, THREADS = 9 };

static const dl_api *api;
static float x[ROWS * IN], want[ROWS * OUT];

static int run(dl_context *c, int rows, void *px, void *py)
{
	int64_t xs[] = {rows, IN}, ys[2];
	dl_tensor in = tensor(DL_F32, px, xs, 2, sizeof(x));
	dl_tensor out = tensor(DL_F32, py, ys, 2, sizeof(want));

	return api->run(c, &in, 1, &out, 1, NULL);
}

static bool right(dl_context *c, int rows)
{
	float y[ROWS * OUT];

	MUST(run(c, rows, x, y) == DL_OK);
	for (int i = 0; i < rows * OUT; i++)
		MUST(fabsf(y[i] - want[i]) <= 1e-4f);
	return true;
}

static bool in_a_context(dl_model *m)
{
	int64_t dims[] = {ROWS};
	dl_context *c;

	for (int k = 0; k < 3; k++) {
		MUST(api->context(m, NULL, &c) == DL_OK && right(c, 3));
		MUST(api->prepare(c, dims, 1) == DL_OK && right(c, ROWS) && right(c, 4));
		api->context_free(c);
	}
	return true;
}

static pthread_barrier_t all_there;

static void *thread(void *m)
{
	pthread_barrier_wait(&all_there);
	return in_a_context(m) ? m : NULL;
}

static bool load(const char *device, dl_model **m)
{
	dl_load_options o = {.size = sizeof(o), .device = device, .threads = 1};

	MUST(api->load(&o, m) == DL_OK && !strncmp(api->device(*m), device, strlen(device)));
	return true;
}

static bool all(const char *dir)
{
	pthread_t id[THREADS];
	dl_model *m[2], *cpu;
	dl_context *c;
	CUdeviceptr at;
	void *gpu, *result;

	api = open_model(dir, "dense");
	MUST(api);
	for (int i = 0; i < ROWS * IN; i++)
		x[i] = (float)(i % 11) - 5;
	MUST(load("cpu", &cpu) && api->context(cpu, NULL, &c) == DL_OK);
	MUST(run(c, ROWS, x, want) == DL_OK);
	api->context_free(c);
	cu.ptxsim_mark();
	MUST(load("cuda:0", &m[0]) && load("cuda:1", &m[1]) && !cu.ptxsim_calls("cuModule"));
	pthread_barrier_init(&all_there, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		MUST(!pthread_create(&id[i], NULL, thread, m[i == THREADS - 1]));
	for (int i = 0; i < THREADS; i++)
		MUST(!pthread_join(id[i], &result) && result);
	/* Each of the product's variants that some thread used was loaded once on each device. */
	const unsigned loads = (unsigned)cu.ptxsim_calls("cuModuleLoad");
	MUST(loads >= 2 && loads <= 8 && cu.ptxsim_calls("cuModuleGetFunction") == loads);
	/* The weights stand on each device once. */
	MUST(api->context(m[1], NULL, &c) == DL_OK);
	cu.ptxsim_mark();
	MUST(in_a_context(m[1]) && !cu.ptxsim_calls("cuModuleLoad"));
	MUST(cu.ptxsim_calls("cuMemcpyHtoD") == 3 * 2); /* inputs of runs without a graph */
	/* A tensor on the other device. */
	MUST(!cu.cuDevicePrimaryCtxRetain(&gpu, 0) && !cu.cuCtxPushCurrent_v2(gpu));
	MUST(!cu.cuMemAlloc_v2(&at, sizeof(x)) && !cu.cuMemcpyHtoD_v2(at, x, sizeof(x)));
	MUST(run(c, ROWS, on_device(at), want) == DL_INVALID &&
	     strstr(api->error(c), "another GPU, cuda:0"));
	MUST(right(c, ROWS) && !cu.cuMemFree_v2(at));
	api->context_free(c);
	MUST(api->unload(m[0]) == DL_OK && api->unload(m[1]) == DL_OK && api->unload(cpu) == DL_OK);
	MUST(cu.ptxsim_live() == 0);
	return true;
}

int main(int argc, char **argv)
{
	return sim_main(argc, argv, all);
}
