/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs, streams, waiting and the caller's workspace: graphs DIR, over the models
 *	add	y[N,17] = relu(x[N,17] + b[17])
 *	pick	y[N,3] = t[i[N]], t[4,3]
 *	chain	y[N,8] = (x[N,8] w[8,8]) w
 *	twice	y[3*N] = x[N] then z[2*N]
 *	same	y[N] = x[N], z[N] = relu(x)
 */
#include "tests/gpu/mallocs.h"
#include "tests/gpu/sim.h"

enum { COLS = 17, MOST = 300 };

static float x[MOST * COLS], b[COLS], y[MOST * COLS];
static const char *dir;
static bool expected(int rows)
{
	for (int i = 0; i < rows * COLS; i++) {
		const float want = x[i] + b[i % COLS];

		MUST(y[i] == (want > 0 ? want : 0));
	}
	memset(y, 0, sizeof(y));
	return true;
}

static void fill(int seed)
{
	for (int i = 0; i < MOST * COLS; i++)
		x[i] = (float)((i * 7 + seed) % 23) - 11;
	for (int i = 0; i < COLS; i++)
		b[i] = (float)((i + seed) % 5) / 4 - 2;
}

static int run_add(const dl_api *api, dl_context *c, int rows, void *px, void *pb, void *py,
		   void *stream)
{
	int64_t xs[] = {rows, COLS}, bs[] = {COLS}, ys[2];
	const size_t bytes = sizeof(float) * (size_t)rows * COLS;
	dl_tensor in[] = {tensor(DL_F32, px, xs, 2, bytes), tensor(DL_F32, pb, bs, 1, sizeof(b))};
	dl_tensor out[] = {tensor(DL_F32, py, ys, 2, bytes)};

	cu.ptxsim_mark();
	mallocs = 0;
	return api->run(c, in, 2, out, 1, stream);
}

static bool counts(unsigned graphs, unsigned launches, unsigned waits)
{
	MUST(cu.ptxsim_calls("cuGraphLaunch") == graphs);
	MUST(cu.ptxsim_calls("cuLaunchKernel") == launches);
	MUST(cu.ptxsim_calls("cuStreamSynchronize") == waits);
	return true;
}

/* After prepare, one launch and nothing allocated; a wait only where something is on the host. */
static bool one_launch(const dl_api *api, dl_context *c, CUdeviceptr d[2][3], void *stream)
{
	int64_t dims[] = {9};

	MUST(api->prepare(c, dims, 1) == DL_OK);
	for (int k = 0; k < 3; k++) {
		fill(k);
		MUST(run_add(api, c, 9, x, b, y, NULL) == DL_OK);
		MUST(counts(1, 0, 1) && !cu.ptxsim_calls("cuMemcpy"));
		MUST(!cu.ptxsim_allocations() && !mallocs);
		MUST(!cu.ptxsim_calls("cuGraphExec"));
		MUST(expected(9));
	}
	for (int k = 0; k < 6; k++) {
		CUdeviceptr *p = d[k / 3];

		fill(k);
		MUST(!cu.cuMemcpyHtoD_v2(p[0], x, sizeof(x)) &&
		     !cu.cuMemcpyHtoD_v2(p[1], b, sizeof(b)));
		MUST(run_add(api, c, 9, on_device(p[0]), on_device(p[1]), on_device(p[2]),
			     stream) == DL_OK);
		MUST(counts(1, 0, 0) && !cu.ptxsim_calls("cuMemcpy"));
		MUST(!cu.ptxsim_allocations() && !mallocs);
		/* Only nodes whose pointers changed. */
		MUST((cu.ptxsim_calls("cuGraphExecKernelNodeSetParams") > 0) == (k % 3 == 0));
		MUST((cu.ptxsim_calls("cuGraphNodeSetEnabled") > 0) == (k == 0));
		MUST(!cu.cuStreamSynchronize(stream) &&
		     !cu.cuMemcpyDtoH_v2(y, p[2], sizeof(float) * 9 * COLS));
		MUST(expected(9));
	}
	/* Some here, some there. */
	fill(3);
	MUST(run_add(api, c, 9, x, on_device(d[1][1]), y, stream) == DL_OK);
	MUST(!cu.cuMemcpyDtoH_v2(b, d[1][1], sizeof(b)));
	MUST(expected(9));
	return true;
}

/* Dims that were not prepared, more sets of dims than a context keeps, memory that grows under a
 * graph. */
static bool many_dims(const dl_api *api, dl_context *c)
{
	fill(1);
	MUST(run_add(api, c, 5, x, b, y, NULL) == DL_OK && expected(5));
	MUST(counts(0, 1, 1));
	for (int64_t n = 10; n < 19; n++)
		MUST(api->prepare(c, &n, 1) == DL_OK);
	MUST(run_add(api, c, 18, x, b, y, NULL) == DL_OK && expected(18) && counts(1, 0, 1));
	MUST(run_add(api, c, 11, x, b, y, NULL) == DL_OK && expected(11) && counts(1, 0, 1));
	MUST(run_add(api, c, 10, x, b, y, NULL) == DL_OK && expected(10) && counts(0, 1, 1));
	MUST(run_add(api, c, MOST, x, b, y, NULL) == DL_OK && expected(MOST) && counts(0, 1, 1));
	MUST(run_add(api, c, 18, x, b, y, NULL) == DL_OK && expected(18) && counts(1, 0, 1));
	MUST(cu.ptxsim_calls("cuGraphExec") > 0 && !cu.ptxsim_allocations());
	MUST(run_add(api, c, 18, x, b, y, NULL) == DL_OK && expected(18) && counts(1, 0, 1));
	MUST(!cu.ptxsim_calls("cuGraphExec"));
	api->cancel(c);
	MUST(run_add(api, c, 18, x, b, y, NULL) == DL_CANCELLED);
	MUST(run_add(api, c, 18, x, b, y, NULL) == DL_OK && expected(18));
	return true;
}

/* Runs of one context in streams of its own and of the caller, none of them waited for. */
static bool several_streams(const dl_api *api, dl_context *c, CUdeviceptr d[2][3])
{
	void *stream[3] = {NULL};

	MUST(!cu.cuStreamCreate(&stream[0], 1) && !cu.cuStreamCreate(&stream[1], 1));
	fill(2);
	MUST(!cu.cuMemcpyHtoD_v2(d[0][0], x, sizeof(x)) &&
	     !cu.cuMemcpyHtoD_v2(d[0][1], b, sizeof(b)));
	for (int k = 0; k < 12; k++) /* each writes over what the last wrote */
		MUST(run_add(api, c, 18 + k % 2 * 7, on_device(d[0][0]), on_device(d[0][1]),
			     on_device(d[0][2]), stream[k % 3]) == DL_OK);
	MUST(api->wait(c) == DL_OK);
	MUST(!cu.cuMemcpyDtoH_v2(y, d[0][2], sizeof(float) * 25 * COLS));
	MUST(expected(25));
	MUST(!cu.cuStreamDestroy_v2(stream[0]) && !cu.cuStreamDestroy_v2(stream[1]));
	MUST(run_add(api, c, 18, x, b, y, NULL) == DL_OK && expected(18));
	return true;
}

static int run_chain(const dl_api *api, dl_context *c, int rows)
{
	int64_t xs[] = {rows, 8}, ws[] = {8, 8}, ys[2];
	float w[64] = {0};
	dl_tensor in[] = {tensor(DL_F32, x, xs, 2, sizeof(x)), tensor(DL_F32, w, ws, 2, sizeof(w))};
	dl_tensor out[] = {tensor(DL_F32, y, ys, 2, sizeof(y))};
	int rc;

	for (int i = 0; i < 8; i++)
		w[i * 9] = 2;
	memset(y, 0, sizeof(y));
	cu.ptxsim_mark();
	rc = api->run(c, in, 2, out, 1, NULL);
	for (int i = 0; !rc && i < rows * 8; i++)
		rc = y[i] != 4 * x[i];
	return rc;
}

/* Runs in two streams that use one arena: in the order they were asked for, or one writes over
 * what another reads. */
static bool one_arena(void)
{
	const dl_api *api = open_model(dir, "chain");
	dl_load_options load = {.size = sizeof(load), .device = "cuda"};
	int64_t xs[] = {40, 8}, ws[] = {8, 8}, ys[2];
	CUdeviceptr dx[2], dw, dy[2];
	float w[64] = {0};
	dl_context *c;
	dl_model *m;
	void *stream[2];

	MUST(api && api->load(&load, &m) == DL_OK && api->context(m, NULL, &c) == DL_OK);
	for (int i = 0; i < 8; i++)
		w[i * 9] = 2;
	MUST(!cu.cuMemAlloc_v2(&dw, sizeof(w)) && !cu.cuMemcpyHtoD_v2(dw, w, sizeof(w)));
	for (int s = 0; s < 2; s++) {
		fill(s);
		MUST(!cu.cuMemAlloc_v2(&dx[s], 1280) && !cu.cuMemAlloc_v2(&dy[s], 1280));
		MUST(!cu.cuMemcpyHtoD_v2(dx[s], x, 1280) && !cu.cuStreamCreate(&stream[s], 1));
	}
	for (int k = 0; k < 40; k++) {
		for (int s = 0; s < 2; s++) {
			dl_tensor in[] = {tensor(DL_F32, on_device(dx[s]), xs, 2, 1280),
					  tensor(DL_F32, on_device(dw), ws, 2, sizeof(w))};
			dl_tensor out[] = {tensor(DL_F32, on_device(dy[s]), ys, 2, 1280)};

			MUST(api->run(c, in, 2, out, 1, stream[s]) == DL_OK);
		}
		MUST(api->wait(c) == DL_OK);
		for (int s = 0; s < 2; s++) {
			fill(s);
			MUST(!cu.cuMemcpyDtoH_v2(y, dy[s], 1280));
			for (int i = 0; i < 320; i++)
				MUST(y[i] == 4 * x[i]);
		}
	}
	for (int s = 0; s < 2; s++)
		MUST(!cu.cuMemFree_v2(dx[s]) && !cu.cuMemFree_v2(dy[s]) &&
		     !cu.cuStreamDestroy_v2(stream[s]));
	api->context_free(c);
	MUST(!cu.cuMemFree_v2(dw) && api->unload(m) == DL_OK);
	MUST(cu.ptxsim_live() == 0);
	return true;
}

/* Two contexts have a stream each, or the caller's: waiting for one does not wait for the other,
 * which began before it. */
static bool contexts_overlap(void)
{
	const dl_api *api = open_model(dir, "add");
	dl_load_options load = {.size = sizeof(load), .device = "cuda"};
	dl_context_options own = {.size = sizeof(own), .flags = DL_CONTEXT_OWN_STREAM};
	CUdeviceptr d[3];
	dl_context *c[2];
	dl_model *m;
	uint64_t before;

	MUST(api && api->load(&load, &m) == DL_OK);
	for (int i = 0; i < 2; i++)
		MUST(api->context(m, &own, &c[i]) == DL_OK);
	for (int i = 0; i < 3; i++)
		MUST(!cu.cuMemAlloc_v2(&d[i], 4096) && !cu.cuMemcpyHtoD_v2(d[i], x, 4096));
	cu.ptxsim_seed(0); /* everything as late as it can be */
	for (int k = 0; k < 2; k++) {
		void *stream[2] = {NULL}; /* the contexts' own, then the caller's */

		for (int i = 0; i < 2 && k; i++)
			MUST(!cu.cuStreamCreate(&stream[i], 1));
		before = cu.ptxsim_counter("add_k0_Relu_1", "launches");
		for (int i = 0; i < 2; i++)
			MUST(run_add(api, c[i], 3, on_device(d[0]), on_device(d[1]),
				     on_device(d[2]), stream[i]) == DL_OK);
		MUST(cu.ptxsim_counter("add_k0_Relu_1", "launches") == before);
		MUST(k ? !cu.cuStreamSynchronize(stream[1]) : api->wait(c[1]) == DL_OK);
		MUST(cu.ptxsim_counter("add_k0_Relu_1", "launches") == before + 1);
		MUST(api->wait(c[0]) == DL_OK);
		MUST(cu.ptxsim_counter("add_k0_Relu_1", "launches") == before + 2);
		for (int i = 0; i < 2 && k; i++)
			MUST(!cu.cuStreamDestroy_v2(stream[i]));
	}
	for (int i = 0; i < 3; i++)
		MUST(!cu.cuMemFree_v2(d[i]));
	for (int i = 0; i < 2; i++)
		api->context_free(c[i]);
	MUST(api->unload(m) == DL_OK && cu.ptxsim_live() == 0);
	return true;
}

/* The exact bytes that workspace gives, on the GPU; one less is refused, and so is the host's
 * memory. */
static bool workspace(void)
{
	const dl_api *api = open_model(dir, "chain");
	int64_t dims[] = {40};
	dl_workspace w = {.size = sizeof(w)};
	dl_load_options load = {.size = sizeof(load), .device = "cuda"};
	dl_context_options o = {.size = sizeof(o), .max_dims = dims, .n_dims = 1};
	static _Alignas(64) char host[4096];
	CUdeviceptr at;
	dl_context *c;
	dl_model *m;

	MUST(api && api->load(&load, &m) == DL_OK);
	MUST(api->workspace(m, dims, 1, &w) == DL_OK && !w.host_bytes && w.device_bytes >= 40 * 32);
	MUST(!cu.cuMemAlloc_v2(&at, w.device_bytes));
	o.workspace = on_device(at);
	o.workspace_bytes = w.device_bytes - 1;
	MUST(api->context(m, &o, &c) == DL_WORKSPACE);
	o.workspace_bytes = w.device_bytes;
	MUST(api->context(m, &o, &c) == DL_OK);
	MUST(run_chain(api, c, 40) == DL_OK && run_chain(api, c, 41) == DL_WORKSPACE);
	MUST(api->prepare(c, dims, 1) == DL_OK && run_chain(api, c, 40) == DL_OK &&
	     counts(1, 0, 1));
	api->context_free(c);
	o.workspace = host;
	MUST(api->context(m, &o, &c) == DL_INVALID && strstr(api->error(m), "of this GPU"));
	MUST(!cu.cuMemFree_v2(at));
	MUST(api->unload(m) == DL_OK);
	MUST(cu.ptxsim_live() == 0);
	return true;
}

static bool add(void)
{
	const dl_api *api = open_model(dir, "add");
	dl_load_options o = {.size = sizeof(o), .device = "cuda"};
	CUdeviceptr d[2][3];
	dl_context *c;
	dl_model *m;
	void *stream;

	MUST(api && count_mallocs((void *)(uintptr_t)api->load));
	MUST(api->load(&o, &m) == DL_OK && api->context(m, NULL, &c) == DL_OK);
	for (int i = 0; i < 6; i++)
		MUST(!cu.cuMemAlloc_v2(&d[i / 3][i % 3], sizeof(x)));
	MUST(!cu.cuStreamCreate(&stream, 1));
	MUST(one_launch(api, c, d, stream) && many_dims(api, c) && several_streams(api, c, d));
	MUST(!cu.cuStreamDestroy_v2(stream));
	for (int i = 0; i < 6; i++)
		MUST(!cu.cuMemFree_v2(d[i / 3][i % 3]));
	api->context_free(c);
	MUST(api->unload(m) == DL_OK);
	MUST(cu.ptxsim_live() == 0);
	return true;
}

/* An index out of range in a run that returned before it was done. */
static bool pick(void)
{
	const dl_api *api = open_model(dir, "pick");
	dl_load_options o = {.size = sizeof(o), .device = "cuda"};
	int64_t index[] = {1, 9, 2}, n = 3, ts[] = {4, 3}, is[] = {3}, ys[2];
	float t[12];
	CUdeviceptr d[3];
	dl_context *c;
	dl_model *m;
	void *stream;

	for (int i = 0; i < 12; i++)
		t[i] = (float)i;
	MUST(api && api->load(&o, &m) == DL_OK && api->context(m, NULL, &c) == DL_OK);
	for (int i = 0; i < 3; i++)
		MUST(!cu.cuMemAlloc_v2(&d[i], 256));
	MUST(!cu.cuStreamCreate(&stream, 1));
	dl_tensor in[] = {tensor(DL_F32, on_device(d[0]), ts, 2, sizeof(t)),
			  tensor(DL_I64, on_device(d[1]), is, 1, sizeof(index))};
	dl_tensor out[] = {tensor(DL_F32, on_device(d[2]), ys, 2, 36)};
	MUST(!cu.cuMemcpyHtoD_v2(d[0], t, sizeof(t)));
	for (int k = 0; k < 4; k++) { /* launched one by one, then as a graph */
		if (k == 2)
			MUST(api->prepare(c, &n, 1) == DL_OK);
		index[1] = 9;
		MUST(!cu.cuMemcpyHtoD_v2(d[1], index, sizeof(index)));
		cu.ptxsim_mark();
		MUST(api->run(c, in, 2, out, 1, stream) == DL_OK);
		MUST(counts(k >= 2, k < 2, 0));
		if (k % 2 == 0)
			MUST(api->wait(c) == DL_INDEX && strstr(api->error(c), "(Gather)"));
		MUST(!cu.cuStreamSynchronize(stream));
		index[1] = 3;
		MUST(!cu.cuMemcpyHtoD_v2(d[1], index, sizeof(index)));
		if (k % 2)
			MUST(api->run(c, in, 2, out, 1, NULL) == DL_INDEX &&
			     strstr(api->error(c), "an earlier run: node"));
		MUST(api->run(c, in, 2, out, 1, NULL) == DL_OK && api->wait(c) == DL_OK);
		MUST(!cu.cuMemcpyDtoH_v2(y, d[2], 36) && y[3] == 9 && y[8] == 8);
	}
	MUST(!cu.cuStreamDestroy_v2(stream));
	for (int i = 0; i < 3; i++)
		MUST(!cu.cuMemFree_v2(d[i]));
	api->context_free(c);
	MUST(api->unload(m) == DL_OK);
	MUST(cu.ptxsim_live() == 0);
	return true;
}

/* A dim of an input that is an expression: prepare knows it. */
static bool twice(void)
{
	const dl_api *api = open_model(dir, "twice");
	dl_load_options o = {.size = sizeof(o), .device = "cuda"};
	int64_t n = 5, xs[] = {5}, zs[] = {10}, ys[1];
	dl_tensor in[] = {tensor(DL_F32, x, xs, 1, 20), tensor(DL_F32, x + 5, zs, 1, 40)};
	dl_tensor out = tensor(DL_F32, y, ys, 1, sizeof(y));
	dl_context *c;
	dl_model *m;

	MUST(api && api->load(&o, &m) == DL_OK && api->context(m, NULL, &c) == DL_OK);
	MUST(api->prepare(c, &n, 1) == DL_OK);
	fill(4);
	cu.ptxsim_mark();
	MUST(api->run(c, in, 2, &out, 1, NULL) == DL_OK && counts(1, 0, 1));
	MUST(!cu.ptxsim_allocations() && ys[0] == 15 && !memcmp(x, y, 60));
	api->context_free(c);
	MUST(api->unload(m) == DL_OK);
	MUST(cu.ptxsim_live() == 0);
	return true;
}

/* Tensors of N elements on the host, in so many pieces: they are copied while others are on
 * their way. */
static bool in_pieces(const dl_api *api, dl_context *c, int64_t n, unsigned pieces, bool prepared)
{
	int64_t xs[] = {n}, ys[1], zs[1];
	float *v = malloc((size_t)n * 4), *r = malloc((size_t)n * 8);
	dl_tensor in = tensor(DL_F32, v, xs, 1, (size_t)n * 4);
	dl_tensor out[] = {tensor(DL_F32, r, ys, 1, (size_t)n * 4),
			   tensor(DL_F32, r + n, zs, 1, (size_t)n * 4)};

	MUST(v && r && (!prepared || api->prepare(c, xs, 1) == DL_OK));
	for (int k = 0; k < 2; k++) {
		for (int64_t i = 0; i < n; i++)
			v[i] = (float)((i * 7 + k) % 1013) - 500;
		memset(r, 0, (size_t)n * 8);
		cu.ptxsim_mark();
		mallocs = 0;
		MUST(api->run(c, &in, 1, out, 2, NULL) == DL_OK);
		MUST(cu.ptxsim_calls("cuMemcpyHtoDAsync") == pieces);
		MUST(cu.ptxsim_calls("cuMemcpyDtoHAsync") == 2 * pieces);
		MUST(cu.ptxsim_calls("cuEventSynchronize") == 2 * pieces);
		MUST(cu.ptxsim_calls("cuGraphLaunch") == prepared);
		MUST((!prepared && !k) || (!cu.ptxsim_allocations() && !mallocs));
		for (int64_t i = 0; i < n; i++)
			MUST(r[i] == v[i] && r[n + i] == (v[i] > 0 ? v[i] : 0));
	}
	free(v);
	free(r);
	return true;
}

/* Each call of a run in pieces fails once, first of one that makes what it needs: a status, and
 * the next run is right. */
static bool pieces_fail(const dl_api *api, dl_model *m, int64_t n)
{
	int64_t xs[] = {n}, ys[1], zs[1];
	float *v = calloc((size_t)n, 4), *r = malloc((size_t)n * 8);
	bool done = false;
	int calls = 0;

	MUST(v && r);
	for (; !done; calls++) {
		dl_tensor in = tensor(DL_F32, v, xs, 1, (size_t)n * 4);
		dl_tensor out[] = {tensor(DL_F32, r, ys, 1, (size_t)n * 4),
				   tensor(DL_F32, r + n, zs, 1, (size_t)n * 4)};
		dl_context *c;
		int rc;

		MUST(api->context(m, NULL, &c) == DL_OK);
		cu.ptxsim_fail((uint64_t)calls + 1, 999);
		rc = api->run(c, &in, 1, out, 2, NULL);
		done = !cu.ptxsim_failed();
		MUST(done || rc == DL_DEVICE || !strncmp(cu.ptxsim_failed(), "cuCtxP", 6));
		cu.ptxsim_fail(0, 0);
		if (calls % 8 == 0) {
			v[n - 1] = (float)calls;
			MUST(api->run(c, &in, 1, out, 2, NULL) == DL_OK && r[n - 1] == v[n - 1]);
		}
		api->context_free(c);
	}
	free(v);
	free(r);
	return calls > 30;
}

static bool large(void)
{
	const dl_api *api = open_model(dir, "same");
	dl_load_options o = {.size = sizeof(o), .device = "cuda"};
	const int64_t mib = 1 << 18; /* in elements */
	dl_context *c;
	dl_model *m;

	MUST(api && count_mallocs((void *)(uintptr_t)api->load) && api->load(&o, &m) == DL_OK);
	for (int prepared = 0; prepared < 2; prepared++) {
		MUST(api->context(m, NULL, &c) == DL_OK);
		MUST(in_pieces(api, c, 2 * mib, 2, prepared));
		MUST(in_pieces(api, c, 2 * mib + 1, 3, prepared));
		MUST(!prepared || in_pieces(api, c, 17 * mib + 3, 16, prepared));
		api->context_free(c);
	}
	cu.ptxsim_seed(0);
	MUST(pieces_fail(api, m, 2 * mib + 1));
	MUST(api->unload(m) == DL_OK && cu.ptxsim_live() == 0);
	return true;
}

static bool all(const char *models)
{
	void *gpu;

	dir = models;
	MUST(!cu.cuDevicePrimaryCtxRetain(&gpu, 0) && !cu.cuCtxPushCurrent_v2(gpu));
	return add() && one_arena() && workspace() && pick() && twice() && contexts_overlap() &&
	       large();
}

int main(int argc, char **argv)
{
	return sim_main(argc, argv, all);
}
