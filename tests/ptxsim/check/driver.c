/* SPDX-License-Identifier: Apache-2.0 */
/* The driver: work that waits, orders that nothing promises, graphs, faults of each call, what
 * is left over. */
#include "tests/ptxsim/check/gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { N = 256, BYTES = N * 4 };

static void *pinned(void)
{
	void *p = NULL;

	OK(cuMemHostAlloc(&p, BYTES, 0));
	return p;
}

/* C = A + B on S. */
static CUresult add(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, CUstream s)
{
	int n = N;
	void *params[] = {&a, &b, &c, &n};

	return cuLaunchKernel(function("cuda/basic", "vadd"), 2, 1, 1, 128, 1, 1, 0, s, params,
			      NULL);
}

/* ---- Time ---- */

/* With seed 0 nothing happens before it must. */
static void late(void)
{
	float *in = pinned(), *out = pinned();
	CUdeviceptr d = put(NULL, BYTES);
	CUstream s;

	ptxsim_seed(0);
	OK(cuStreamCreate(&s, 1));
	for (int i = 0; i < N; i++) {
		in[i] = 1;
		out[i] = -1;
	}
	OK(cuMemcpyHtoDAsync_v2(d, in, BYTES, s));
	OK(add(d, d, d, s));
	OK(cuMemcpyDtoHAsync_v2(out, d, BYTES, s));
	CHECK(out[7] == -1);
	/* A source that changes too early is taken as it is when the copy runs. */
	in[7] = 5;
	OK(cuStreamSynchronize(s));
	CHECK(out[7] == 10 && out[8] == 2);
	CHECK(cuStreamQuery(s) == CUDA_SUCCESS);
	OK(add(d, d, d, s));
	int asked = 0;
	while (cuStreamQuery(s) == CUDA_ERROR_NOT_READY)
		asked++;
	CHECK(asked == 0 || asked == 1);
	OK(cuStreamDestroy_v2(s));
}

/* Memory that is not pinned is read at once, and written before the call returns. */
static void pageable(void)
{
	static float in[N], out[N];
	CUdeviceptr d = put(NULL, BYTES);
	CUstream s;

	OK(cuStreamCreate(&s, 1));
	in[7] = 3;
	OK(cuMemcpyHtoDAsync_v2(d, in, BYTES, s));
	in[7] = 4;
	OK(cuMemcpyDtoHAsync_v2(out, d, BYTES, s));
	CHECK(out[7] == 3);
}

static void order(bool waits)
{
	static float in[N], out[N];
	CUdeviceptr a = put(in, BYTES), b = put(NULL, BYTES), c = put(NULL, BYTES);
	CUstream s, t;
	CUevent e;

	in[0] = 2;
	OK(cuStreamCreate(&s, 1));
	OK(cuStreamCreate(&t, 1));
	OK(cuEventCreate(&e, 0));
	OK(cuMemcpyHtoDAsync_v2(a, in, BYTES, s));
	OK(add(a, a, b, s));
	OK(cuEventRecord(e, s));
	if (waits)
		OK(cuStreamWaitEvent(t, e, 0));
	OK(add(b, b, c, t));
	if (!waits) {
		/* B was never written, as far as the second stream can tell. */
		CHECK(cuStreamSynchronize(t) == CUDA_ERROR_LAUNCH_FAILED);
		CHECK(strstr(ptxsim_message(), "never written"));
		return;
	}
	OK(cuStreamSynchronize(t));
	get(out, c, BYTES);
	CHECK(out[0] == 8 && out[1] == 0);
}

static void streams_wait(void)
{
	for (uint64_t seed = 0; seed < 8; seed++) {
		ptxsim_seed(seed);
		order(true);
	}
}

static void streams_do_not_wait(void)
{
	ptxsim_seed(0);
	order(false);
}

/* A stream that is not told otherwise goes with the null stream. */
static void null_stream(void)
{
	static float in[N], out[N];
	CUstream s;

	for (uint64_t seed = 0; seed < 8; seed++) {
		ptxsim_seed(seed);
		CUdeviceptr a = put(in, BYTES), b = put(NULL, BYTES), c = put(NULL, BYTES);
		OK(cuStreamCreate(&s, 0));
		OK(cuMemsetD32Async(a, 0x3f800000, N, s));
		OK(add(a, a, b, NULL));
		OK(add(b, b, c, s));
		OK(cuStreamSynchronize(s));
		get(out, c, BYTES);
		CHECK(out[0] == 4 && out[N - 1] == 4);
	}
}

/* One that is told otherwise does not: neither waits for the other. */
static void beside_the_null_stream(void)
{
	float *out = pinned();
	CUdeviceptr a = put(NULL, BYTES), b = put(NULL, BYTES);
	CUstream s;

	ptxsim_seed(0);
	OK(cuStreamCreate(&s, 1));
	OK(cuMemsetD32_v2(a, 0x3f800000, N));
	OK(cuMemcpyDtoHAsync_v2(out, a, BYTES, NULL));
	OK(cuMemsetD32Async(b, 0, N, s));
	out[7] = -1;
	OK(cuStreamSynchronize(s));
	CHECK(out[7] == -1);
	OK(cuStreamSynchronize(NULL));
	CHECK(out[7] == 1);
	out[7] = -1;
	OK(cuMemcpyDtoHAsync_v2(out, a, BYTES, s));
	OK(cuMemsetD32Async(b, 0, N, NULL));
	OK(cuStreamSynchronize(NULL));
	CHECK(out[7] == -1);
	OK(cuStreamSynchronize(s));
	CHECK(out[7] == 1);
}

static void events(void)
{
	CUdeviceptr a = put(NULL, BYTES);
	CUevent from, to;
	float ms = -1;

	ptxsim_seed(0);
	OK(cuEventCreate(&from, 0));
	OK(cuEventCreate(&to, 0));
	OK(cuEventRecord(from, NULL));
	OK(cuMemsetD32Async(a, 0, N, NULL));
	OK(cuEventRecord(to, NULL));
	CHECK(cuEventElapsedTime(&ms, from, to) == CUDA_ERROR_NOT_READY);
	OK(cuEventSynchronize(to));
	OK(cuEventElapsedTime(&ms, from, to));
	CHECK(ms > 0);
}

static void freed(void)
{
	CUdeviceptr a = put(NULL, BYTES), b = put(NULL, BYTES);

	OK(cuMemsetD32_v2(a, 0, N));
	OK(cuMemFreeAsync(a, NULL));
	OK(add(a, a, b, NULL));
	CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(cuMemFree_v2(b) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* ---- Graphs ---- */

typedef struct Diamond {
	CUgraph g;
	CUgraphExec exec;
	CUgraphNode copy, left, right, join;
	CUdeviceptr buffer[4]; /* in, left, right, out */
} Diamond;

static CUDA_KERNEL_NODE_PARAMS node_of(void **params)
{
	return (CUDA_KERNEL_NODE_PARAMS){.func = function("cuda/basic", "vadd"),
					 .gridDimX = 2,
					 .gridDimY = 1,
					 .gridDimZ = 1,
					 .blockDimX = 128,
					 .blockDimY = 1,
					 .blockDimZ = 1,
					 .kernelParams = params};
}

static CUDA_MEMCPY3D copy_of(CUdeviceptr dst, const void *src)
{
	return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_HOST,
			       .srcHost = src,
			       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			       .dstDevice = dst,
			       .WidthInBytes = BYTES,
			       .Height = 1,
			       .Depth = 1};
}

static CUresult kernel_node(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
			    CUdeviceptr a, CUdeviceptr b, CUdeviceptr c)
{
	int count = N;
	void *params[] = {&a, &b, &c, &count};
	CUDA_KERNEL_NODE_PARAMS p = node_of(params);

	return cuGraphAddKernelNode_v2(out, g, after, n, &p);
}

/* in -> left = 2 in, right = 2 in -> out = left + right. What fails gives its error; what was
 * made stays in D. */
static CUresult diamond(Diamond *d, const float *host)
{
	CUresult r = CUDA_SUCCESS;

	for (int i = 0; i < 4 && !r; i++)
		r = cuMemAlloc_v2(&d->buffer[i], BYTES);
	if (!r)
		r = cuGraphCreate(&d->g, 0);
	CUDA_MEMCPY3D copy = copy_of(d->buffer[0], host);
	if (!r)
		r = cuGraphAddMemcpyNode(&d->copy, d->g, NULL, 0, &copy, NULL);
	if (!r)
		r = kernel_node(&d->left, d->g, &d->copy, 1, d->buffer[0], d->buffer[0],
				d->buffer[1]);
	if (!r)
		r = kernel_node(&d->right, d->g, &d->copy, 1, d->buffer[0], d->buffer[0],
				d->buffer[2]);
	if (!r)
		r = kernel_node(&d->join, d->g, (CUgraphNode[]){d->left, d->right}, 2, d->buffer[1],
				d->buffer[2], d->buffer[3]);
	return r ? r : cuGraphInstantiateWithFlags(&d->exec, d->g, 0);
}

static void diamond_free(Diamond *d)
{
	if (d->exec)
		cuGraphExecDestroy(d->exec);
	if (d->g)
		cuGraphDestroy(d->g);
	for (int i = 0; i < 4; i++)
		if (d->buffer[i])
			cuMemFree_v2(d->buffer[i]);
}

static void graphs(void)
{
	float *host = pinned(), out[N];
	CUstream s;

	OK(cuStreamCreate(&s, 1));
	for (uint64_t seed = 0; seed < 8; seed++) {
		Diamond d = {0};
		ptxsim_seed(seed);
		OK(diamond(&d, host));
		CUdeviceptr other = put(NULL, BYTES);
		ptxsim_mark();
		for (int k = 1; k < 4; k++) {
			host[9] = (float)k;
			OK(cuGraphLaunch(d.exec, s));
			OK(cuMemcpyDtoHAsync_v2(out, d.buffer[3], BYTES, s));
			OK(cuStreamSynchronize(s));
			CHECK(out[9] == (float)(4 * k));
		}
		int n = N;
		void *params[] = {&d.buffer[1], &d.buffer[1], &other, &n};
		CUDA_KERNEL_NODE_PARAMS p = node_of(params);
		OK(cuGraphExecKernelNodeSetParams_v2(d.exec, d.join, &p));
		host[9] = 10;
		OK(cuGraphLaunch(d.exec, s));
		OK(cuStreamSynchronize(s));
		get(out, other, BYTES);
		CHECK(out[9] == 40);
		CHECK(ptxsim_allocations() == 0);
		CHECK(ptxsim_calls("cuGraphLaunch") == 4);
		CHECK(cuGraphExecKernelNodeSetParams_v2(d.exec, d.copy, &p) ==
		      CUDA_ERROR_INVALID_VALUE);
		diamond_free(&d);
	}
}

/* ---- Faults of calls ---- */

static float program_out[N];

/* Everything a program does, from a module to its end. The first error, after everything was
 * given back. */
static CUresult program(void)
{
	static const char *const ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.entry "
				       "k(.param .u64 p)\n{\n.reg .b64 %d<2>;\n"
				       "ld.param.u64 %d1, [p];\nst.global.b32 [%d1], 5;\nret;\n}\n";
	CUmodule m = NULL;
	CUfunction f = NULL;
	CUstream s = NULL;
	CUdeviceptr d = 0;
	void *h = NULL, *params[] = {&d};
	CUresult r = cuModuleLoadDataEx(&m, ptx, 0, NULL, NULL), end;

	if (!r)
		r = cuModuleGetFunction(&f, m, "k");
	if (!r)
		r = cuStreamCreate(&s, 1);
	if (!r)
		r = cuMemAlloc_v2(&d, BYTES);
	if (!r)
		r = cuMemHostAlloc(&h, BYTES, 0);
	if (!r)
		r = cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, params, NULL);
	if (!r)
		r = cuMemcpyDtoHAsync_v2(h, d, 4, s);
	if (!r)
		r = cuStreamSynchronize(s);
	if (!r)
		memcpy(program_out, h, 4);
	end = r;
	if (h && (r = cuMemFreeHost(h)))
		end = end ? end : r;
	if (d && (r = cuMemFree_v2(d)))
		end = end ? end : r;
	if (s && (r = cuStreamDestroy_v2(s)))
		end = end ? end : r;
	if (m && (r = cuModuleUnload(m)))
		end = end ? end : r;
	return end;
}

static void each_call_fails(void)
{
	enum { RELEASES = 4 };
	int before = ptxsim_live(), n;
	uint32_t five;

	ptxsim_mark();
	OK(program());
	n = (int)ptxsim_calls("");
	memcpy(&five, program_out, 4);
	CHECK(five == 5 && n == 12 && ptxsim_live() == before);
	for (int k = 1; k <= n; k++) {
		ptxsim_fail((uint64_t)k, CUDA_ERROR_OUT_OF_MEMORY);
		if (program() != CUDA_ERROR_OUT_OF_MEMORY)
			wrong("call %d fails, and the program does not tell", k);
		/* A call that fails does nothing; only one that should have released leaves
		 * something. */
		if (ptxsim_live() - before != (k > n - RELEASES ? 1 : 0))
			wrong("call %d fails, and %d are left", k, ptxsim_live() - before);
		before = ptxsim_live();
	}
	ptxsim_fail(0, CUDA_SUCCESS);
	OK(program());
}

/* After an error that stays everything can be given back. */
static void sticky(void)
{
	int before = ptxsim_live();

	ptxsim_fail(6, CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(program() == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(ptxsim_live() == before);
	CHECK(program() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void memory(void)
{
	CUdeviceptr p;
	size_t size = 0;
	void *fn = NULL;
	const char *name;
	int before = ptxsim_live();

	CHECK(cuMemAlloc_v2(&p, (size_t)1 << 50) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAlloc_v2(&p, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemFree_v2(12345) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAlloc_v2(&p, 100));
	CHECK(p % 256 == 0);
	OK(cuMemGetAddressRange_v2(NULL, &size, p + 50));
	CHECK(size == 100);
	CHECK(cuMemcpyHtoD_v2(p, &size, 101) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(p));
	CHECK(cuMemFree_v2(p) == CUDA_ERROR_INVALID_VALUE);
	CHECK(ptxsim_live() == before);
	OK(cuGetProcAddress_v2("cuMemAlloc", &fn, 12000, 0, NULL));
	CHECK(fn == (void *)(uintptr_t)cuMemAlloc_v2);
	CHECK(cuGetProcAddress_v2("cuFrobnicate", &fn, 12000, 0, NULL) == CUDA_ERROR_NOT_FOUND);
	CHECK(!cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name) &&
	      !strcmp(name, "CUDA_ERROR_ILLEGAL_ADDRESS"));
}

static void launches(void)
{
	CUdeviceptr a = put(NULL, BYTES);
	int n = N;
	CUfunction f = function("cuda/basic", "vadd"), g = function("cuda/basic", "tree_sum");

	CHECK(launch(f, 1, 1025, 0, &a, &a, &a, &n, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(launch(f, 0, 32, 0, &a, &a, &a, &n, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(launch(g, 1, 32, 49153, &a, &a, &n, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuFuncSetAttribute(g, 8, 200 << 10) == CUDA_ERROR_INVALID_VALUE);
	OK(cuFuncSetAttribute(g, 8, 100 << 10));
	OK(cuMemsetD32_v2(a, 0, N));
	OK(launch(g, 1, 32, 100 << 10, &a, &a, &n, NULL));
}

/* ---- Threads ---- */

static void *one_thread(void *arg)
{
	CUcontext context = arg;
	static float in[N];
	float out[N];
	CUstream s;

	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&s, 1));
	for (int k = 0; k < 20; k++) {
		CUdeviceptr a = 0, b = 0;
		OK(cuMemAlloc_v2(&a, BYTES));
		OK(cuMemAlloc_v2(&b, BYTES));
		OK(cuMemcpyHtoDAsync_v2(a, in, BYTES, s));
		OK(add(a, a, b, s));
		OK(cuMemcpyDtoHAsync_v2(out, b, BYTES, s));
		OK(cuStreamSynchronize(s));
		CHECK(out[3] == 0);
		OK(cuMemFree_v2(a));
		OK(cuMemFree_v2(b));
	}
	OK(cuStreamDestroy_v2(s));
	return NULL;
}

static void threads(void)
{
	pthread_t t[3];
	CUcontext context = NULL;

	OK(cuCtxGetCurrent(&context));
	function("cuda/basic", "vadd");
	ptxsim_seed(7);
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&t[i], NULL, one_thread, context));
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
}

const Case driver_cases[] = {
	{"driver: work waits", late},
	{"driver: pageable memory", pageable},
	{"driver: streams that wait", streams_wait},
	{"driver: streams that do not", streams_do_not_wait},
	{"driver: the null stream", null_stream},
	{"driver: streams beside it", beside_the_null_stream},
	{"driver: events", events},
	{"driver: freed memory", freed},
	{"driver: graphs", graphs},
	{"driver: each call fails", each_call_fails},
	{"driver: an error that stays", sticky},
	{"driver: memory", memory},
	{"driver: launches", launches},
	{"driver: threads", threads},
	{NULL, NULL},
};
