/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model with all its tensors on the GPU: whole DIR NAME [count] [below=N] [SYMBOL=VALUE...].
 * After prepare a run is one launch of a graph: no copy, no waiting, nothing allocated. Its outputs
 * are those that the same artifact computes on the CPU; with count, for large models, nothing is
 * computed, calls are counted alone. BELOW is what integers are less than, 16 where it is not
 * given.
 */
#include "tests/gpu/sim.h"

#include <unistd.h>

enum { MOST = 8, RANK = 8 };

typedef struct Io {
	dl_tensor t[MOST];
	int64_t shape[MOST][RANK];
	int n;
} Io;

static int64_t dims[64];
static bool counts_alone;
static int below = 16;

/* Values that indices and factors may have. */
static void fill(void *p, int dtype, size_t bytes, int seed)
{
	for (size_t i = 0; i < bytes / (dtype == DL_I64 ? 8 : 4); i++) {
		const int v = (int)((i * 37 + (size_t)seed * 11) % 41);

		if (dtype == DL_I64)
			((int64_t *)p)[i] = v % below;
		else
			((float *)p)[i] = (float)v / 41 - 0.5f;
	}
}

/* The inputs in host memory. */
static bool inputs(const dl_desc *d, Io *io, int seed)
{
	io->n = d->n_in;
	for (int i = 0; i < io->n; i++) {
		const dl_io *one = dl_desc_in(d, i);
		size_t bytes = one->dtype == DL_I64 ? 8 : 4;

		MUST(i < MOST && one->rank <= RANK &&
		     (one->dtype == DL_I64 || one->dtype == DL_F32));
		for (int k = 0; k < one->rank; k++) {
			io->shape[i][k] = one->dim[k].sym >= 0 ? dims[one->dim[k].sym]
							       : one->dim[k].value;
			bytes *= (size_t)io->shape[i][k];
		}
		io->t[i] = tensor(one->dtype, malloc(bytes), io->shape[i], one->rank, bytes);
		fill(io->t[i].data, one->dtype, bytes, seed);
	}
	return true;
}

static bool outputs(const dl_api *api, dl_context *c, const Io *in, Io *out)
{
	out->n = api->describe()->n_out;
	for (int i = 0; i < out->n; i++)
		out->t[i] = tensor(0, NULL, out->shape[i], RANK, 0);
	MUST(api->infer_shapes(c, in->t, in->n, out->t, out->n) == DL_OK);
	return true;
}

static bool start(const dl_api *api, const char *device, dl_model **m, dl_context **c)
{
	dl_load_options o = {.size = sizeof(o), .device = device, .threads = 1};

	MUST(api->load(&o, m) == DL_OK && api->context(*m, NULL, c) == DL_OK);
	MUST(!strncmp(api->device(*m), device, strlen(device)));
	return true;
}

/* The GPU's memory for each, with what stands in the host's. */
static bool upload(Io *io, bool copy)
{
	for (int i = 0; i < io->n; i++) {
		CUdeviceptr at;

		MUST(!cu.cuMemAlloc_v2(&at, io->t[i].bytes + 16));
		if (copy)
			MUST(!cu.cuMemcpyHtoD_v2(at, io->t[i].data, io->t[i].bytes));
		io->t[i].data = on_device(at);
	}
	return true;
}

static bool same(const float *got, const float *want, size_t n)
{
	double most = 0;

	for (size_t i = 0; i < n; i++)
		most = fmax(most, fabs((double)want[i]));
	for (size_t i = 0; i < n; i++)
		MUST(fabs((double)got[i] - (double)want[i]) <= 2e-5 * most);
	return true;
}

static bool all(const dl_api *api, int seed)
{
	Io in, out, on_cpu;
	dl_context *c, *cpu;
	dl_model *m, *mc;
	void *stream;

	MUST(start(api, "cuda:0", &m, &c) && start(api, "cpu", &mc, &cpu));
	MUST(inputs(api->describe(), &in, seed) && outputs(api, c, &in, &out) &&
	     outputs(api, cpu, &in, &on_cpu));
	for (int i = 0; i < on_cpu.n; i++)
		on_cpu.t[i].data = malloc(on_cpu.t[i].bytes);
	if (!counts_alone)
		MUST(api->run(cpu, in.t, in.n, on_cpu.t, on_cpu.n, NULL) == DL_OK);
	MUST(upload(&in, true) && upload(&out, false) && !cu.cuStreamCreate(&stream, 1));
	MUST(api->prepare(c, dims, api->describe()->n_sym) == DL_OK);
	for (int k = 0; k < 2; k++) {
		cu.ptxsim_mark();
		MUST(api->run(c, in.t, in.n, out.t, out.n, stream) == DL_OK);
		MUST(cu.ptxsim_calls("cuGraphLaunch") == 1 && !cu.ptxsim_calls("cuLaunch"));
		MUST(!cu.ptxsim_calls("cuMemcpy") && !cu.ptxsim_calls("cuStreamSynchronize") &&
		     !cu.ptxsim_calls("cuEventSynchronize") && !cu.ptxsim_allocations());
	}
	/* What the stream has been given runs when it is waited for, and that is not needed. */
	if (counts_alone)
		return true;
	MUST(api->wait(c) == DL_OK);
	for (int i = 0; i < out.n; i++) {
		float *got = malloc(out.t[i].bytes);

		MUST(!cu.cuMemcpyDtoH_v2(got, (CUdeviceptr)(uintptr_t)out.t[i].data,
					 out.t[i].bytes));
		MUST(same(got, on_cpu.t[i].data, out.t[i].bytes / 4));
	}
	api->context_free(c);
	api->context_free(cpu);
	MUST(api->unload(m) == DL_OK && api->unload(mc) == DL_OK);
	return true;
}

int main(int argc, char **argv)
{
	const dl_api *api = argc > 2 && open_sim() ? open_model(argv[1], argv[2]) : NULL;
	const dl_desc *d = api ? api->describe() : NULL;
	void *gpu;

	if (!d || cu.cuDevicePrimaryCtxRetain(&gpu, 0) || cu.cuCtxPushCurrent_v2(gpu))
		return 1;
	for (int s = 0; s < 64; s++)
		dims[s] = -1;
	for (int a = 3; a < argc; a++) {
		counts_alone = counts_alone || !strcmp(argv[a], "count");
		if (!strncmp(argv[a], "below=", 6))
			below = atoi(argv[a] + 6);
		for (int s = 0; s < d->n_sym; s++) {
			const size_t n = strlen(d->sym[s].name);

			if (!strncmp(argv[a], d->sym[s].name, n) && argv[a][n] == '=')
				dims[s] = atoi(argv[a] + n + 1);
		}
	}
	if (!all(api, 1))
		return 1;
	puts("ok");
	fflush(stdout);
	_exit(0); /* and nothing that waits */
}
