/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value that a loop stacks, in turns whose number only the run knows: stack DIR. Its memory grows
 * from iteration to iteration and keeps what it has. Every call of the driver fails once; nothing
 * stays allocated, but for what a call that frees left.
 */
#include "tests/gpu/sim.h"

enum { WIDTH = 100, ITERATIONS = 9, UNKNOWN = 999 };

/* Stacks x, 2x, 4x ... until it reaches LIMIT. */
static int session(const dl_api *api)
{
	static float x[WIDTH], last[WIDTH], all[ITERATIONS * WIDTH];
	float limit = (float)(1 << ITERATIONS);
	int64_t width[] = {WIDTH}, none[1], shape[2];
	dl_load_options load = {.size = sizeof(load), .device = "cuda", .threads = 1};
	dl_tensor in[] = {tensor(DL_F32, x, width, 1, sizeof(x)),
			  tensor(DL_F32, &limit, none, 0, sizeof(limit))};
	dl_tensor out[] = {tensor(DL_F32, last, shape, 1, sizeof(last)),
			   tensor(DL_F32, all, shape, 2, sizeof(all))};
	dl_context *c = NULL;
	dl_model *m;
	int rc;

	for (int i = 0; i < WIDTH; i++)
		x[i] = 1;
	memset(all, 0, sizeof(all));
	rc = api->load(&load, &m);
	if (rc)
		return rc;
	rc = api->context(m, NULL, &c);
	rc = rc ? rc : api->run(c, in, 2, out, 2, NULL);
	for (int i = 0; !rc && i < ITERATIONS * WIDTH; i++)
		if (all[i] != (float)(2 << i / WIDTH))
			rc = -1;
	api->context_free(c);
	api->unload(m);
	return rc;
}

static bool all(const char *dir)
{
	const dl_api *api = open_model(dir, "stack");
	const int before = cu.ptxsim_live();
	int copies = 0;

	MUST(api);
	cu.ptxsim_mark();
	MUST(session(api) == DL_OK && cu.ptxsim_live() == before);
	MUST(cu.ptxsim_calls("cuMemcpyDtoDAsync_v2") > 2);
	cu.ptxsim_quiet(1);
	for (unsigned n = 1;; n++) {
		const int live = cu.ptxsim_live();
		const char *name;
		int rc;

		cu.ptxsim_fail(n, UNKNOWN);
		rc = session(api);
		name = cu.ptxsim_failed();
		cu.ptxsim_fail(0, 0);
		if (!name)
			break;
		if (rc < 0 || (cu.ptxsim_live() != live && !frees(name))) {
			printf("call %u, %s: status %d, %d left\n", n, name, rc,
			       cu.ptxsim_live() - live);
			return false;
		}
		copies += !strcmp(name, "cuMemcpyDtoDAsync_v2");
	}
	MUST(copies > 2);
	return true;
}

int main(int argc, char **argv)
{
	return sim_main(argc, argv, all);
}
