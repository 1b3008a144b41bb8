/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams as CUDA's users mean them: the default stream, and runs that the application captures
 * into a graph of its own: capture DIR, over the models
 *	chain	y[N,8] = (x[N,8] w[8,8]) w
 *	largest	y[max(v[100])] = x[1]
 *	pick	y[N,3] = t[i[N]], t[4,3]
 */
#include "tests/gpu/sim.h"

enum { ROWS = 40, COLS = 8, ELEMS = ROWS * COLS, BYTES = ELEMS * 4 };
enum { GLOBAL = 0, RELAXED = 2, BLOCKING = 0, NON_BLOCKING = 1 };

static const char *dir;
static float x[ELEMS], w[COLS * COLS], y[ELEMS];

typedef struct CaptureChain {
	const dl_api *api;
	dl_model *m;
	dl_context *c;
	CUdeviceptr x, w, y; /* on the GPU */
	void *s;             /* a stream */
} CaptureChain;

static int run_rows(const CaptureChain *k, int64_t rows, void *px, void *py, void *stream)
{
	int64_t xs[] = {rows, COLS}, ws[] = {COLS, COLS}, ys[2];
	dl_tensor in[] = {tensor(DL_F32, px, xs, 2, BYTES),
			  tensor(DL_F32, on_device(k->w), ws, 2, sizeof(w))};
	dl_tensor out = tensor(DL_F32, py, ys, 2, BYTES);

	return k->api->run(k->c, in, 2, &out, 1, stream);
}

static int run(const CaptureChain *k, void *stream)
{
	return run_rows(k, ROWS, on_device(k->x), on_device(k->y), stream);
}

static void fill(int seed)
{
	for (int i = 0; i < ELEMS; i++)
		x[i] = (float)((i * 7 + seed) % 23) - 11;
}

/* What is at AT is four times what fill(SEED) gives. */
static bool right(const float *at, int seed)
{
	fill(seed);
	for (int i = 0; i < ELEMS; i++)
		MUST(at[i] == 4 * x[i]);
	return true;
}

static bool fetched(const CaptureChain *k, int seed)
{
	memset(y, 0, sizeof(y));
	MUST(!cu.cuMemcpyDtoH_v2(y, k->y, BYTES));
	return right(y, seed);
}

static bool give(const CaptureChain *k, int seed)
{
	fill(seed);
	MUST(!cu.cuMemcpyHtoD_v2(k->x, x, BYTES));
	return true;
}

static bool open_chain(CaptureChain *k, uint32_t flags, unsigned stream_flags)
{
	dl_load_options load = {.size = sizeof(load), .device = "cuda"};
	dl_context_options o = {.size = sizeof(o), .flags = flags};

	for (int i = 0; i < COLS; i++)
		w[i * (COLS + 1)] = 2;
	k->api = open_model(dir, "chain");
	MUST(k->api && k->api->load(&load, &k->m) == DL_OK);
	MUST(k->api->context(k->m, &o, &k->c) == DL_OK);
	MUST(!cu.cuMemAlloc_v2(&k->x, BYTES) && !cu.cuMemAlloc_v2(&k->y, BYTES));
	MUST(!cu.cuMemAlloc_v2(&k->w, sizeof(w)) && !cu.cuMemcpyHtoD_v2(k->w, w, sizeof(w)));
	MUST(!cu.cuStreamCreate(&k->s, stream_flags));
	return true;
}

static bool close_chain(CaptureChain *k)
{
	k->api->context_free(k->c);
	MUST(k->api->unload(k->m) == DL_OK && !cu.cuStreamDestroy_v2(k->s));
	MUST(!cu.cuMemFree_v2(k->x) && !cu.cuMemFree_v2(k->y) && !cu.cuMemFree_v2(k->w));
	return true;
}

/* ---- The default stream ---- */

/* A null stream is the default stream: a run in it comes after what the application has put
 * there, and before what it puts there next; where a context has a stream of its own for that,
 * it does not. */
static bool default_stream(uint32_t flags)
{
	int64_t dims[] = {ROWS};
	float *pinned;
	CaptureChain k;

	MUST(open_chain(&k, flags, NON_BLOCKING));
	MUST(!cu.cuMemHostAlloc((void **)&pinned, 2 * BYTES, 0));
	for (int prepared = 0; prepared < 2; prepared++) {
		MUST(!prepared || k.api->prepare(k.c, dims, 1) == DL_OK);
		MUST(give(&k, 50) && run(&k, NULL) == DL_OK && k.api->wait(k.c) == DL_OK);
		fill(prepared);
		memcpy(pinned, x, BYTES);
		MUST(!cu.cuMemcpyHtoDAsync_v2(k.x, pinned, BYTES, NULL));
		MUST(run(&k, NULL) == DL_OK);
		MUST(!cu.cuMemcpyDtoHAsync_v2(pinned + ELEMS, k.y, BYTES, NULL));
		MUST(!cu.cuStreamSynchronize(NULL));
		MUST(right(pinned + ELEMS, flags & DL_CONTEXT_OWN_STREAM ? 50 : prepared));
		MUST(k.api->wait(k.c) == DL_OK);
	}
	MUST(!cu.cuMemFreeHost(pinned));
	return close_chain(&k);
}

/* ---- Captured runs ---- */

static bool capture(const CaptureChain *k, int mode)
{
	return !cu.cuStreamBeginCapture_v2(k->s, mode);
}

/* The capture is over and was not disturbed. *EXEC: its graph, that of NODES. */
static bool captured(const CaptureChain *k, void **exec, size_t nodes)
{
	size_t n = 0;
	void *graph;

	MUST(!cu.cuStreamEndCapture(k->s, &graph));
	MUST(!cu.cuGraphGetNodes(graph, NULL, &n) && n == nodes);
	MUST(!cu.cuGraphInstantiateWithFlags(exec, graph, 0) && !cu.cuGraphDestroy(graph));
	return true;
}

/* The graph of two runs computes what they would, whenever it is launched; other runs of the
 * context go on before, during and after the capture. */
static bool two_runs(const CaptureChain *k, int mode, bool prepared, void *other)
{
	int64_t dims[] = {ROWS};
	void *exec, *again;

	if (prepared)
		MUST(k->api->prepare(k->c, dims, 1) == DL_OK);
	MUST(give(k, 1) && run(k, other) == DL_OK); /* in flight when the capture begins */
	MUST(capture(k, mode));
	MUST(run_rows(k, ROWS, on_device(k->x), on_device(k->y), k->s) == DL_OK);
	MUST(run_rows(k, ROWS, on_device(k->x), on_device(k->y), k->s) == DL_OK);
	MUST(captured(k, &exec, 4)); /* two products each */
	MUST(k->api->wait(k->c) == DL_OK && fetched(k, 1));
	for (int n = 2; n < 5; n++) {
		MUST(give(k, n) && !cu.cuGraphLaunch(exec, k->s) && !cu.cuStreamSynchronize(k->s));
		MUST(fetched(k, n));
		MUST(give(k, n + 10) && run(k, n % 2 ? k->s : other) == DL_OK);
		MUST(k->api->wait(k->c) == DL_OK && fetched(k, n + 10));
	}
	/* A second capture, after runs in both. */
	MUST(capture(k, mode) && run(k, k->s) == DL_OK && captured(k, &again, 2));
	MUST(give(k, 7) && !cu.cuGraphLaunch(again, k->s) && !cu.cuStreamSynchronize(k->s));
	MUST(fetched(k, 7));
	return !cu.cuGraphExecDestroy(exec) && !cu.cuGraphExecDestroy(again);
}

static bool captures(uint32_t flags)
{
	int64_t dims[] = {ROWS};
	CaptureChain k;

	for (int i = 0; i < 8; i++) {
		void *other = NULL;

		MUST(open_chain(&k, flags, i & 4 ? BLOCKING : NON_BLOCKING));
		if (i & 1)
			MUST(!cu.cuStreamCreate(&other, NON_BLOCKING));
		/* With memory for the dims, by a run or by prepare, a run needs none. */
		if (!(i & 2))
			MUST(give(&k, 9) && run(&k, k.s) == DL_OK && k.api->wait(k.c) == DL_OK &&
			     fetched(&k, 9));
		else
			MUST(k.api->prepare(k.c, dims, 1) == DL_OK);
		/* The default stream is of no use while a blocking one is captured. */
		MUST(two_runs(&k, i & 1 ? GLOBAL : RELAXED, i & 2, other));
		MUST(!other || !cu.cuStreamDestroy_v2(other));
		MUST(close_chain(&k));
	}
	return true;
}

/* A run that cannot be captured says so, and why; the capture goes on, and so does the context. */
static bool refused(const CaptureChain *k, int rc, const char *why, size_t nodes)
{
	void *exec;

	MUST(rc == DL_UNSUPPORTED);
	if (!strstr(k->api->error(k->c), why)) {
		printf("%s\n", k->api->error(k->c));
		return false;
	}
	MUST(captured(k, &exec, nodes) && !cu.cuGraphExecDestroy(exec));
	MUST(give(k, 3) && run(k, k->s) == DL_OK && k->api->wait(k->c) == DL_OK && fetched(k, 3));
	return true;
}

static bool refusals(void)
{
	int64_t dims[] = {ROWS}, many[] = {100 * ROWS};
	void *exec;
	CaptureChain k;

	MUST(open_chain(&k, DL_CONTEXT_ON_GPU, NON_BLOCKING));
	MUST(capture(&k, GLOBAL));
	MUST(refused(&k, run(&k, k.s), "prepare its dims before the capture", 0));
	MUST(k.api->prepare(k.c, dims, 1) == DL_OK && capture(&k, GLOBAL));
	MUST(refused(&k, run_rows(&k, ROWS, x, on_device(k.y), k.s), "in host memory", 0));
	MUST(capture(&k, GLOBAL));
	MUST(refused(&k, run_rows(&k, ROWS, on_device(k.x), y, k.s), "in host memory", 0));
	/* What a captured graph may use stays where it is. */
	MUST(k.api->prepare(k.c, dims, 1) == DL_OK && capture(&k, GLOBAL));
	MUST(run(&k, k.s) == DL_OK && captured(&k, &exec, 2));
	MUST(k.api->prepare(k.c, many, 1) == DL_UNSUPPORTED);
	MUST(strstr(k.api->error(k.c), "cannot grow"));
	MUST(give(&k, 5) && !cu.cuGraphLaunch(exec, k.s) && !cu.cuStreamSynchronize(k.s));
	MUST(fetched(&k, 5) && !cu.cuGraphExecDestroy(exec));
	return close_chain(&k);
}

/* While the application captures a stream that waits for the default stream, a run in that one
 * is refused, and harms nothing. */
static bool beside_a_capture(void)
{
	int64_t dims[] = {ROWS};
	CaptureChain k;

	MUST(open_chain(&k, 0, BLOCKING));
	MUST(k.api->prepare(k.c, dims, 1) == DL_OK && capture(&k, RELAXED));
	MUST(refused(&k, run(&k, NULL), "the default stream cannot be used", 0));
	return close_chain(&k);
}

/* Each call of a run in a capture fails once. */
static bool failures(void)
{
	const int unknown = 999;
	int64_t dims[] = {ROWS};
	bool done = false;
	unsigned n;
	CaptureChain k;

	MUST(open_chain(&k, 0, NON_BLOCKING) && k.api->prepare(k.c, dims, 1) == DL_OK);
	for (n = 1; !done; n++) {
		void *graph;
		int rc;

		MUST(capture(&k, GLOBAL));
		cu.ptxsim_fail(n, unknown);
		rc = run(&k, k.s);
		done = !cu.ptxsim_failed();
		MUST(rc == (done || !strcmp(cu.ptxsim_failed(), "cuCtxPopCurrent_v2") ? DL_OK
										      : DL_DEVICE));
		cu.ptxsim_fail(0, 0);
		MUST(!cu.cuStreamEndCapture(k.s, &graph) && !cu.cuGraphDestroy(graph));
		MUST(give(&k, (int)n) && run(&k, NULL) == DL_OK && k.api->wait(k.c) == DL_OK);
		MUST(fetched(&k, (int)n));
	}
	MUST(n > 6);
	return close_chain(&k);
}

/* Values that sizes depend on cannot come to the host, nor can a run be timed. */
static bool what_waits(void)
{
	const dl_api *api = open_model(dir, "largest");
	dl_load_options o = {.size = sizeof(o), .device = "cuda"};
	int64_t one[] = {1}, many[] = {100}, ys[1];
	float v[100] = {3};
	CUdeviceptr d[3];
	dl_context *c;
	dl_model *m;
	void *s, *graph;

	MUST(api && !cu.cuStreamCreate(&s, NON_BLOCKING));
	for (int i = 0; i < 3; i++)
		MUST(!cu.cuMemAlloc_v2(&d[i], 512) && !cu.cuMemcpyHtoD_v2(d[i], v, sizeof(v)));
	dl_tensor in[] = {tensor(DL_F32, on_device(d[0]), one, 1, 4),
			  tensor(DL_F32, on_device(d[1]), many, 1, 400)};
	for (int profile = 0; profile < 2; profile++) {
		o.profile = profile;
		MUST(api->load(&o, &m) == DL_OK && api->context(m, NULL, &c) == DL_OK);
		for (int k = 0; k < 3; k++) {
			dl_tensor out = tensor(DL_F32, on_device(d[2]), ys, 1, 512);

			if (k == 1) {
				MUST(!cu.cuStreamBeginCapture_v2(s, GLOBAL));
				MUST(api->run(c, in, 2, &out, 1, s) == DL_UNSUPPORTED);
				MUST(strstr(api->error(c),
					    profile ? "a profile" : "the host"));
				MUST(!cu.cuStreamEndCapture(s, &graph) &&
				     !cu.cuGraphDestroy(graph));
				continue;
			}
			MUST(api->run(c, in, 2, &out, 1, s) == DL_OK && ys[0] == 3);
			MUST(api->wait(c) == DL_OK && !cu.cuMemcpyDtoH_v2(y, d[2], 12));
			MUST(y[0] == 3 && y[2] == 3);
		}
		api->context_free(c);
		MUST(api->unload(m) == DL_OK);
	}
	for (int i = 0; i < 3; i++)
		MUST(!cu.cuMemFree_v2(d[i]));
	return !cu.cuStreamDestroy_v2(s);
}

/* An index out of range in a replay is the status of wait. */
static bool index_of_a_replay(void)
{
	const dl_api *api = open_model(dir, "pick");
	dl_load_options o = {.size = sizeof(o), .device = "cuda"};
	int64_t index[] = {1, 3, 2}, ts[] = {4, 3}, is[] = {3}, ys[2], n = 3;
	float t[12] = {0};
	CUdeviceptr d[3];
	dl_context *c;
	dl_model *m;
	void *s, *graph, *exec;

	MUST(api && api->load(&o, &m) == DL_OK && api->context(m, NULL, &c) == DL_OK);
	MUST(api->prepare(c, &n, 1) == DL_OK && !cu.cuStreamCreate(&s, NON_BLOCKING));
	for (int i = 0; i < 3; i++)
		MUST(!cu.cuMemAlloc_v2(&d[i], 256));
	dl_tensor in[] = {tensor(DL_F32, on_device(d[0]), ts, 2, sizeof(t)),
			  tensor(DL_I64, on_device(d[1]), is, 1, sizeof(index))};
	dl_tensor out[] = {tensor(DL_F32, on_device(d[2]), ys, 2, 36)};
	MUST(!cu.cuMemcpyHtoD_v2(d[0], t, sizeof(t)) && !cu.cuStreamBeginCapture_v2(s, GLOBAL));
	MUST(api->run(c, in, 2, out, 1, s) == DL_OK && !cu.cuStreamEndCapture(s, &graph));
	MUST(!cu.cuGraphInstantiateWithFlags(&exec, graph, 0) && !cu.cuGraphDestroy(graph));
	for (int k = 0; k < 4; k++) {
		index[1] = k % 2 ? 9 : 3;
		MUST(!cu.cuMemcpyHtoD_v2(d[1], index, sizeof(index)));
		MUST(!cu.cuGraphLaunch(exec, s) && !cu.cuStreamSynchronize(s));
		MUST(api->wait(c) == (k % 2 ? DL_INDEX : DL_OK));
	}
	MUST(!cu.cuGraphLaunch(exec, s) && !cu.cuStreamSynchronize(s)); /* astray again */
	MUST(!cu.cuStreamBeginCapture_v2(s, GLOBAL));
	MUST(api->run(c, in, 2, out, 1, s) == DL_INDEX && strstr(api->error(c), "an earlier run"));
	MUST(api->run(c, in, 2, out, 1, s) == DL_OK && !cu.cuStreamEndCapture(s, &graph));
	MUST(!cu.cuGraphDestroy(graph) && !cu.cuGraphExecDestroy(exec));
	api->context_free(c);
	MUST(api->unload(m) == DL_OK && !cu.cuStreamDestroy_v2(s));
	for (int i = 0; i < 3; i++)
		MUST(!cu.cuMemFree_v2(d[i]));
	return true;
}

static bool all(const char *models)
{
	void *gpu;
	int before;

	dir = models;
	MUST(!cu.cuDevicePrimaryCtxRetain(&gpu, 0) && !cu.cuCtxPushCurrent_v2(gpu));
	before = cu.ptxsim_live();
	cu.ptxsim_seed(0); /* everything as late as it can be */
	MUST(default_stream(0) && default_stream(DL_CONTEXT_OWN_STREAM));
	for (unsigned seed = 0; seed < 3; seed++) {
		cu.ptxsim_seed(seed);
		MUST(captures(0) && captures(DL_CONTEXT_OWN_STREAM | DL_CONTEXT_ON_GPU));
		MUST(refusals() && beside_a_capture() && failures());
		MUST(what_waits() && index_of_a_replay());
	}
	MUST(cu.ptxsim_live() == before);
	return true;
}

int main(int argc, char **argv)
{
	return sim_main(argc, argv, all);
}
