/* SPDX-License-Identifier: Apache-2.0 */
/* Capture of streams: what becomes a node, after which, and what ends a capture instead. */
#include "tests/ptxsim/check/gpu.h"

#include <pthread.h>
#include <string.h>

enum { N = 256, BYTES = N * 4, GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2, ACTIVE = 1, INVALID = 2 };

/* B = A + A on S. */
static CUresult twice(CUdeviceptr a, CUdeviceptr b, CUstream s)
{
	int n = N;
	void *params[] = {&a, &a, &b, &n};

	return cuLaunchKernel(function("cuda/basic", "vadd"), 2, 1, 1, 128, 1, 1, 0, s, params,
			      NULL);
}

static int state_of(CUstream s)
{
	int state = -1;

	OK(cuStreamIsCapturing(s, &state));
	return state;
}

static CUstream stream(unsigned flags)
{
	CUstream s = NULL;

	function("cuda/basic", "vadd"); /* loaded before a capture, which permits no loading */
	OK(cuStreamCreate(&s, flags));
	return s;
}

/* The capture of S ends with WANT; the graph, null where it failed. */
static CUgraph ended(CUstream s, CUresult want)
{
	CUgraph g = (CUgraph)&state_of;

	CHECK(cuStreamEndCapture(s, &g) == want);
	CHECK((g == NULL) == (want != CUDA_SUCCESS));
	CHECK(state_of(s) == 0);
	return g;
}

static void replay(CUgraph g, CUstream s)
{
	CUgraphExec e;

	OK(cuGraphInstantiateWithFlags(&e, g, 0));
	OK(cuGraphLaunch(e, s));
	OK(cuStreamSynchronize(s));
	OK(cuGraphExecDestroy(e));
}

/* Nothing runs while it is captured; the graph does it, also after the stream has gone. */
static void one_stream(void)
{
	static float in[N], out[N];
	CUdeviceptr a = put(in, BYTES), b = put(in, BYTES), c = put(in, BYTES);
	CUstream s = stream(1), t = stream(1);
	CUgraph g;

	OK(cuStreamBeginCapture_v2(s, GLOBAL));
	CHECK(state_of(s) == ACTIVE && state_of(t) == 0);
	OK(twice(a, b, s));
	OK(twice(b, c, s));
	g = ended(s, CUDA_SUCCESS);
	OK(cuStreamDestroy_v2(s));
	in[3] = 2;
	OK(cuMemcpyHtoD_v2(a, in, BYTES));
	get(out, c, BYTES);
	CHECK(out[3] == 0);
	for (uint64_t seed = 0; seed < 4; seed++) {
		ptxsim_seed(seed);
		replay(g, t);
		get(out, c, BYTES);
		CHECK(out[3] == 8 && out[4] == 0);
	}
	OK(cuGraphDestroy(g));
	OK(cuStreamDestroy_v2(t));
}

/* A second stream joins by an event, and must be joined again. */
static void two_streams(void)
{
	static float in[N], out[N];
	CUdeviceptr a = put(in, BYTES), b = put(in, BYTES), c = put(in, BYTES);
	CUstream s = stream(1), t = stream(1);
	CUevent fork, join;
	CUgraph g;

	OK(cuEventCreate(&fork, 0));
	OK(cuEventCreate(&join, 0));
	for (int joined = 1; joined >= 0; joined--) {
		OK(cuStreamBeginCapture_v2(s, GLOBAL));
		OK(twice(a, b, s));
		OK(cuEventRecord(fork, s));
		OK(cuStreamWaitEvent(t, fork, 0));
		CHECK(state_of(t) == ACTIVE);
		OK(twice(b, c, t));
		OK(cuEventRecord(join, t));
		if (joined)
			OK(cuStreamWaitEvent(s, join, 0));
		g = ended(s, joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
		CHECK(state_of(t) == 0);
		if (!joined)
			continue;
		in[3] = 1;
		OK(cuMemcpyHtoD_v2(a, in, BYTES));
		replay(g, s);
		get(out, c, BYTES);
		CHECK(out[3] == 4);
		OK(cuGraphDestroy(g));
	}
	/* Their events are of no use now. */
	CHECK(cuStreamWaitEvent(t, join, 0) == CUDA_ERROR_CAPTURED_EVENT);
	CHECK(cuEventSynchronize(join) == CUDA_ERROR_CAPTURED_EVENT);
	OK(cuEventRecord(join, t));
	OK(cuEventSynchronize(join));
	OK(cuEventDestroy_v2(fork));
	OK(cuEventDestroy_v2(join));
	OK(cuStreamDestroy_v2(s));
	OK(cuStreamDestroy_v2(t));
}

/* What a call that a capture of S does not permit does: it fails with CODE, and so does the
 * capture. */
static void spoils(CUstream s, CUresult code, CUresult got, const char *what)
{
	if (got != code)
		wrong("%s gives %d, not %d", what, (int)got, (int)code);
	CHECK(state_of(s) == INVALID);
	ended(s, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

#define SPOILS(code, call)                                   \
	do {                                                 \
		OK(cuStreamBeginCapture_v2(s, GLOBAL));      \
		spoils(s, CUDA_ERROR_##code, (call), #call); \
	} while (0)

static void not_permitted(void)
{
	static float here[N];
	CUdeviceptr d = put(here, BYTES), p;
	CUstream s = stream(1), t = stream(1);
	CUevent outside;

	OK(cuEventCreate(&outside, 0));
	OK(cuEventRecord(outside, t));
	SPOILS(STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(s));
	SPOILS(STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery(s));
	SPOILS(STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(t));
	SPOILS(STREAM_CAPTURE_UNSUPPORTED, cuEventSynchronize(outside));
	SPOILS(STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
	SPOILS(STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc_v2(&p, BYTES));
	SPOILS(STREAM_CAPTURE_UNSUPPORTED, cuMemFree_v2(d));
	SPOILS(STREAM_CAPTURE_UNSUPPORTED, cuMemAllocAsync(&p, BYTES, s));
	SPOILS(STREAM_CAPTURE_UNSUPPORTED, cuMemcpyDtoHAsync_v2(here, d, BYTES, s));
	SPOILS(STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(s, outside, 0));
	CHECK(cuStreamBeginCapture_v2(NULL, GLOBAL) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	/* Memory in the order of another stream is nobody's business. */
	OK(cuStreamBeginCapture_v2(s, GLOBAL));
	OK(cuMemAllocAsync(&p, BYTES, t));
	OK(cuMemFreeAsync(p, t));
	CHECK(cuStreamBeginCapture_v2(s, GLOBAL) == CUDA_ERROR_ILLEGAL_STATE);
	OK(cuGraphDestroy(ended(s, CUDA_SUCCESS)));
	CHECK(cuStreamEndCapture(s, &(CUgraph){0}) == CUDA_ERROR_ILLEGAL_STATE);
	OK(cuEventDestroy_v2(outside));
	OK(cuStreamDestroy_v2(s));
	OK(cuStreamDestroy_v2(t));
}

/* While a stream that waits for the null stream is captured, that may not be used, only asked. */
static void the_null_stream(void)
{
	CUdeviceptr d = put(NULL, BYTES);
	CUstream s = stream(0);
	int state;

	OK(cuStreamBeginCapture_v2(s, RELAXED));
	CHECK(cuStreamIsCapturing(NULL, &state) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	CHECK(state_of(s) == ACTIVE);
	spoils(s, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD32Async(d, 0, N, NULL), "a set");
	OK(cuMemsetD32Async(d, 0, N, NULL));
	OK(cuStreamDestroy_v2(s));
}

static CUresult allocated; /* what the other thread is answered */

static void *allocate(void *context)
{
	CUdeviceptr p;

	OK(cuCtxSetCurrent(context));
	allocated = cuMemAlloc_v2(&p, BYTES);
	if (!allocated)
		OK(cuMemFree_v2(p));
	return NULL;
}

/* Whom a mode forbids to take memory: all threads, the one that captures, or none; a thread may say
 * that it knows better. */
static void modes(void)
{
	CUstream s = stream(1);
	CUcontext context;
	pthread_t thread;
	CUdeviceptr p;

	OK(cuCtxGetCurrent(&context));
	for (int mode = GLOBAL; mode <= RELAXED; mode++)
		for (int other = 0; other < 2; other++) {
			const bool permitted = mode == RELAXED || (mode == THREAD_LOCAL && other);

			OK(cuStreamBeginCapture_v2(s, mode));
			if (other) {
				CHECK(!pthread_create(&thread, NULL, allocate, context));
				pthread_join(thread, NULL);
			} else {
				allocate(context);
			}
			CHECK(allocated ==
			      (permitted ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
			CHECK(state_of(s) == (permitted ? ACTIVE : INVALID));
			if (permitted)
				OK(cuGraphDestroy(ended(s, CUDA_SUCCESS)));
			else
				ended(s, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
		}
	OK(cuStreamBeginCapture_v2(s, GLOBAL));
	for (int k = 0, mode = RELAXED; k < 2; k++) {
		OK(cuThreadExchangeStreamCaptureMode(&mode));
		if (!k) {
			OK(cuMemAlloc_v2(&p, BYTES));
			OK(cuMemFree_v2(p));
		}
		CHECK(mode == (k ? RELAXED : GLOBAL));
	}
	OK(cuGraphDestroy(ended(s, CUDA_SUCCESS)));
	OK(cuStreamDestroy_v2(s));
}

const Case capture_cases[] = {
	{"capture: one stream", one_stream},
	{"capture: two streams", two_streams},
	{"capture: what is not permitted", not_permitted},
	{"capture: the null stream", the_null_stream},
	{"capture: modes", modes},
	{NULL, NULL},
};
