/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call of the driver fails once, and so does every kernel: faults DIR, over dense: y[N,10] =
 * x[N,64] w + b, plainly, with a profile, and in the caller's stream; on the host's memory and on
 * the GPU's. Whatever fails is a status with a text, nothing stays allocated, the caller's context
 * is current again, and the next session works; after an error that stays the GPU is lost and the
 * CPU is not, and the text names a kernel from the first launch on.
 */
#include "tests/gpu/sim.h"

#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 6, IN = 64, OUT = 10 };
enum { UNKNOWN = 999, NO_MEMORY = 2, LAUNCH_FAILED = 719 };
enum { PLAIN, PROFILED, IN_STREAM, WAYS };

static float x[ROWS * IN], y[ROWS * OUT], want[ROWS * OUT];
static char said[1024];
static int way;
static void *stream;
static const char *failed; /* the call that did last, or "none" */
static bool speed_known;   /* of the memory: the driver said it to the last session */
static int unsaid;         /* failures of calls for it: the model does without */

/* What api says of a failure. */
static int note(const dl_api *api, const void *object, int status)
{
	if (status && !said[0])
		snprintf(said, sizeof(said), "%s", api->error(object));
	return status;
}

static int run(const dl_api *api, dl_context *c, int rows, void *px, void *py)
{
	int64_t xs[] = {rows, IN}, ys[2];
	dl_tensor in = tensor(DL_F32, px, xs, 2, sizeof(x));
	dl_tensor out = tensor(DL_F32, py, ys, 2, sizeof(y));
	const int rc = note(api, c, api->run(c, &in, 1, &out, 1, way == IN_STREAM ? stream : NULL));

	return rc ? rc : note(api, c, api->wait(c));
}

static int host_run(const dl_api *api, dl_context *c, int rows)
{
	int rc;

	memset(y, 0, sizeof(y));
	rc = run(api, c, rows, x, y);
	for (int i = 0; !rc && i < rows * OUT; i++)
		if (fabsf(y[i] - want[i]) > 1e-4f)
			rc = -1;
	return rc;
}

static bool knows_speed(const dl_api *api, const dl_model *m)
{
	dl_device_info info = {.size = sizeof(info)};

	return api->device_info(m, &info) == DL_OK && info.bytes_per_second;
}

/* Runs in every way; the first status that is a failure, -1 for a wrong result. All is freed
 * after. */
static int session(const dl_api *api, const char *device, const CUdeviceptr *d)
{
	dl_load_options o = {
		.size = sizeof(o), .device = device, .threads = 1, .profile = way == PROFILED};
	int64_t dims[] = {ROWS};
	dl_context *c = NULL;
	dl_model *m;
	int rc;

	said[0] = '\0';
	cu.ptxsim_mark();
	rc = note(api, NULL, api->load(&o, &m));
	if (rc)
		return rc;
	speed_known = knows_speed(api, m);
	rc = note(api, m, api->context(m, NULL, &c));
	rc = rc ? rc : host_run(api, c, ROWS - 1);
	rc = rc ? rc : note(api, c, api->prepare(c, dims, 1));
	rc = rc ? rc : host_run(api, c, ROWS);
	rc = rc || !d ? rc : run(api, c, ROWS, on_device(d[0]), on_device(d[1]));
	rc = rc || !d ? rc : run(api, c, ROWS - 1, on_device(d[0] + 4), on_device(d[1] + 4));
	/* What a failure leaves is a context that works or says that it does not. */
	if (c && rc > 0 && rc != DL_DEVICE_LOST) {
		char first[sizeof(said)];

		memcpy(first, said, sizeof(said));
		if (host_run(api, c, ROWS) || host_run(api, c, 2))
			rc = -2;
		memcpy(said, first, sizeof(said));
	}
	api->context_free(c);
	if (api->unload(m) != DL_OK)
		rc = rc ? rc : -3;
	return rc;
}

/* Whether the text of a failure of call NAME says which kernel it was, or which the graph held,
 * where it can know. One that LASTS may be that of a kernel which was launched before. */
static bool says_kernel(const char *name, bool lasts)
{
	static const char *const names[] = {
		"cuLaunchKernel", "cuGraphAddKernelNode",  "cuGraphInstantiate", "cuGraphUpload",
		"cuGraphLaunch",  "cuGraphExecKernelNode", "cuStreamSynchronize"};

	if (strstr(said, "MatMul_0") || strstr(said, "the weights"))
		return true;
	if (lasts && (cu.ptxsim_calls("cuLaunchKernel") || cu.ptxsim_calls("cuGraphLaunch")))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return false;
	return true;
}

/* Call N fails with CODE. False: a fault of the runtime's, which was printed. *DONE: there are
 * no N calls. */
static bool one(const dl_api *api, const CUdeviceptr *d, unsigned n, int code, const char *device,
		bool *done)
{
	const int before = cu.ptxsim_live();
	const int expected = code == LAUNCH_FAILED ? DL_DEVICE_LOST
			     : code == NO_MEMORY   ? DL_NOMEM
						   : DL_DEVICE;
	const char *name;
	void *mine, *now;
	int rc, left;

	cu.cuCtxGetCurrent(&mine);
	cu.ptxsim_fail(n, code);
	rc = session(api, device, d);
	name = cu.ptxsim_failed();
	*done = !name;
	cu.ptxsim_fail(0, 0);
	cu.cuCtxGetCurrent(&now);
	failed = name = name ? name : "none";
	left = cu.ptxsim_live() - before;
	unsaid += !rc && !*done && !speed_known;
	if (rc < 0 || (*done && rc) || (rc && !strstr(said, "cuda:0") && !strstr(said, "no GPU")) ||
	    (rc && rc != expected && strcmp(name, "cuInit")) ||
	    (rc && !says_kernel(name, code == LAUNCH_FAILED)) || now != mine ||
	    (device && !rc && !*done && !frees(name) && strcmp(name, "cuCtxPushCurrent_v2") &&
	     (code != NO_MEMORY || strcmp(name, "cuMemAllocAsync")) && /* it is asked again */
	     (speed_known || strcmp(name, "cuDeviceGetAttribute"))) ||
	    (left && !frees(name))) {
		printf("way %d, call %u, %s, fails with %d: status %d, %d left: %s\n", way, n, name,
		       code, rc, left, said);
		return false;
	}
	return true;
}

/* The call after N to fail: of the events of a profile, which are alike, the first and the last
 * few. */
static unsigned after(unsigned n)
{
	static int events;

	events = strcmp(failed, "cuEventCreate") ? 0 : events + 1;
	return n + (events == 4 ? 248 : 1);
}

/* Failures that pass, in one process. */
static bool passing(const dl_api *api, const CUdeviceptr *d, int code, const char *device)
{
	bool done = false;

	unsaid = 0;
	for (unsigned n = 1; !done; n = after(n)) {
		MUST(one(api, d, n, code, device, &done));
		if (session(api, "cuda", d)) {
			printf("after call %u: %s\n", n, said);
			return false;
		}
	}
	MUST(unsaid == 2); /* clock and bus */
	return true;
}

/* The GPU is lost, and the CPU is not. */
static bool is_lost(const dl_api *api)
{
	const int rc = session(api, "cuda", NULL);

	MUST(rc == DL_DEVICE_LOST && strstr(said, "cuda:0"));
	MUST(session(api, "cpu", NULL) == DL_OK && session(api, NULL, NULL) == DL_OK);
	return true;
}

/* Call N fails for good. */
static bool call_fails(const dl_api *api, const CUdeviceptr *d, unsigned n, bool *done)
{
	MUST(one(api, d, n, LAUNCH_FAILED, "cuda", done));
	return *done || is_lost(api);
}

/* Kernel N fails when the GPU gets to it, and it shows in whatever call comes then: later with
 * some seeds. */
static bool kernel_fails(const dl_api *api, const CUdeviceptr *d, unsigned n, bool *done)
{
	const unsigned seeds = 3;
	int rc;

	cu.ptxsim_seed(n % seeds);
	cu.ptxsim_break(1 + n / seeds, LAUNCH_FAILED);
	rc = session(api, "cuda", d);
	*done = !cu.ptxsim_broke();
	if (*done ? rc : rc != DL_DEVICE_LOST || !strstr(said, "MatMul_0")) {
		printf("way %d, kernel %u, seed %u: status %d: %s\n", way, 1 + n / seeds, n % seeds,
		       rc, said);
		return false;
	}
	return *done || is_lost(api);
}

/* Failures that stay, each in a process of its own, until there are no more: how many at LEAST. */
static bool lasting(const dl_api *api, const CUdeviceptr *d,
		    bool (*fails)(const dl_api *api, const CUdeviceptr *d, unsigned n, bool *done),
		    unsigned least)
{
	for (unsigned n = 1;; n++) {
		int status = -1;
		const pid_t child = fork();

		MUST(child >= 0);
		if (!child) {
			bool done;
			const bool ok = fails(api, d, n, &done);

			fflush(stdout);
			_exit(!ok ? 1 : done ? 2 : 0);
		}
		MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
		if (WEXITSTATUS(status) == 2)
			return n > least;
		MUST(WEXITSTATUS(status) == 0);
	}
}

/* More than there is: a status, and then less works. */
static bool too_much(const dl_api *api)
{
	dl_load_options o = {.size = sizeof(o), .device = "cuda"};
	int64_t dims[] = {INT64_C(1) << 30};
	dl_context *c;
	dl_model *m;

	MUST(api->load(&o, &m) == DL_OK && api->context(m, NULL, &c) == DL_OK);
	for (int k = 0; k < 3; k++) {
		MUST(api->prepare(c, dims, 1) == DL_NOMEM &&
		     strstr(api->error(c), "OUT_OF_MEMORY"));
		MUST(host_run(api, c, ROWS) == DL_OK);
	}
	api->context_free(c);
	MUST(api->unload(m) == DL_OK);
	return true;
}

static bool all(const char *dir)
{
	const dl_api *api = open_model(dir, "dense");
	CUdeviceptr d[2];
	void *gpu;

	MUST(api);
	for (int i = 0; i < ROWS * IN; i++)
		x[i] = (float)(i % 11) - 5;
	memset(want, 0, sizeof(want));
	/* The CPU says what is right. */
	{
		dl_load_options o = {.size = sizeof(o), .device = "cpu", .threads = 1};
		dl_context *c;
		dl_model *m;

		MUST(api->load(&o, &m) == DL_OK && api->context(m, NULL, &c) == DL_OK);
		MUST(run(api, c, ROWS, x, want) == DL_OK);
		api->context_free(c);
		MUST(api->unload(m) == DL_OK);
	}
	cu.ptxsim_quiet(1);
	MUST(!cu.cuDevicePrimaryCtxRetain(&gpu, 0));
	MUST(!cu.cuCtxPushCurrent_v2(gpu) && !cu.cuStreamCreate(&stream, 1));
	for (int i = 0; i < 2; i++)
		MUST(!cu.cuMemAlloc_v2(&d[i], sizeof(x) + 16));
	MUST(!cu.cuMemcpyHtoD_v2(d[0], x, sizeof(x)) &&
	     !cu.cuMemcpyHtoD_v2(d[0] + sizeof(x), x, 16));
	for (way = 0; way < WAYS; way++) {
		MUST(lasting(api, d, kernel_fails, 9));
		MUST(way != IN_STREAM || lasting(api, d, call_fails, 80));
		MUST(passing(api, d, way == PLAIN ? NO_MEMORY : UNKNOWN, "cuda"));
	}
	way = PLAIN;
	MUST(too_much(api));
	for (int i = 0; i < 2; i++)
		MUST(!cu.cuMemFree_v2(d[i]));
	MUST(!cu.cuStreamDestroy_v2(stream));
	return true;
}

int main(int argc, char **argv)
{
	return sim_main(argc, argv, all);
}
