/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child of fork cannot use its parent's GPU: it is told so, the driver is not called, and the CPU
 * computes: forked DIR, over dense: y[N,10] = x[N,64] w + b.
 */
#include "tests/gpu/sim.h"

#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 5, IN = 64, OUT = 10 };

static const dl_api *api;
static float x[ROWS * IN], y[ROWS * OUT], want[ROWS * OUT];

static int run(dl_context *c)
{
	int64_t xs[] = {ROWS, IN}, ys[2];
	dl_tensor in = tensor(DL_F32, x, xs, 2, sizeof(x));
	dl_tensor out = tensor(DL_F32, y, ys, 2, sizeof(y));

	memset(y, 0, sizeof(y));
	return api->run(c, &in, 1, &out, 1, NULL);
}

static bool start(const char *device, dl_model **m, dl_context **c)
{
	dl_load_options o = {.size = sizeof(o), .device = device, .threads = 1};

	MUST(api->load(&o, m) == DL_OK && api->context(*m, NULL, c) == DL_OK);
	return true;
}

static bool right(dl_context *c)
{
	MUST(run(c) == DL_OK);
	for (int i = 0; i < ROWS * OUT; i++)
		MUST(fabsf(y[i] - want[i]) <= 1e-4f);
	return true;
}

static bool told(int status, const void *object)
{
	MUST(status == DL_DEVICE_LOST && strstr(api->error(object), "opened before fork"));
	return true;
}

static bool child(dl_model *m, dl_context *c)
{
	dl_context *other, *cpu;
	int64_t dims[] = {ROWS};
	dl_model *mc;

	cu.ptxsim_mark();
	MUST(told(run(c), c) && told(api->wait(c), c) && told(api->prepare(c, dims, 1), c));
	MUST(told(api->context(m, NULL, &other), m) && !other);
	api->context_free(c);
	MUST(api->unload(m) == DL_OK && !cu.ptxsim_calls("cu"));
	MUST(start("cpu", &mc, &cpu) && right(cpu));
	api->context_free(cpu);
	MUST(api->unload(mc) == DL_OK);
	return true;
}

static bool all(const char *dir)
{
	dl_context *c, *cpu;
	dl_model *m, *mc;
	int64_t dims[] = {ROWS};
	int status = -1;

	api = open_model(dir, "dense");
	MUST(api);
	for (int i = 0; i < ROWS * IN; i++)
		x[i] = (float)(i % 11) - 5;
	MUST(start("cpu", &mc, &cpu) && run(cpu) == DL_OK);
	memcpy(want, y, sizeof(y));
	api->context_free(cpu);
	MUST(api->unload(mc) == DL_OK);
	MUST(start("cuda", &m, &c) && right(c) && api->prepare(c, dims, 1) == DL_OK);
	fflush(stdout);
	const pid_t pid = fork();
	if (!pid) {
		const bool ok = child(m, c);

		fflush(stdout);
		_exit(!ok);
	}
	MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
	MUST(right(c));
	api->context_free(c);
	MUST(api->unload(m) == DL_OK && cu.ptxsim_live() == 0);
	return true;
}

int main(int argc, char **argv)
{
	return sim_main(argc, argv, all);
}
