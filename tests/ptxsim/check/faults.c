/* SPDX-License-Identifier: Apache-2.0 */
/* Planted faults: each is caught under every seed, and its kernel runs where it is not planted. */
#include "tests/ptxsim/check/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { T = 128, SEEDS = 4 };

/* Runs KERNEL; where BAD it must end with RESULT and a message that has TEXT. */
static void run_one(const char *kernel, int bad, CUresult result, const char *text)
{
	float in[T];

	for (int i = 0; i < T; i++)
		in[i] = 1 + uniform();
	CUdeviceptr p = put(in, sizeof in), q = put(NULL, sizeof in);
	CUresult r = launch(function("cuda/faults", kernel), 1, T, T * 4, &p, &q, &bad, NULL);
	if (!bad) {
		OK(r);
		return;
	}
	if (r != result)
		wrong("gives %d, not %d", (int)r, (int)result);
	if (!strstr(ptxsim_message(), text) || !strstr(ptxsim_message(), kernel) ||
	    !strstr(ptxsim_message(), "line "))
		wrong("says '%s', without '%s'", ptxsim_message(), text);
	/* The error stays. */
	CHECK(cuMemAlloc_v2(&p, 4) == result);
}

int check_failures(void);

/* A product of 64 by 16 by 64 ones by wgmma; where BAD and RESULT is 0 the sums are wrong. */
static void run_wgmma(const char *kernel, int bad, CUresult result, const char *text)
{
	static uint16_t ones[64 * 64];
	float got[64 * 16];

	CHECK(!ptxsim_device(90));
	for (int i = 0; i < 64 * 64; i++)
		ones[i] = 0x3c00;
	CUdeviceptr p = put(ones, sizeof ones), q = put(NULL, sizeof got);
	CUresult r = launch(function("cuda/wgmma", kernel), 1, 128, 0, &p, &p, &q, &bad, NULL);
	if (r != (bad ? result : CUDA_SUCCESS) || (bad && !strstr(ptxsim_message(), text)))
		wrong("fault %d gives %d: '%s', without '%s'", bad, (int)r, ptxsim_message(), text);
	if (r)
		return;
	get(got, q, sizeof got);
	for (int i = 0; i < 64 * 16; i++)
		if ((got[i] == 64) == (bad != 0)) {
			wrong("fault %d: element %d is %g", bad, i, (double)got[i]);
			return;
		}
}

static void run_bulk(const char *kernel, int bad, CUresult result, const char *text)
{
	int in[3 * 256] = {0}, rounds = bad == 1 ? 1 : 3;
	CUdeviceptr p = put(in, sizeof in), q = put(NULL, 96 * sizeof *in);

	CHECK(!ptxsim_device(90));
	CUresult r = launch(function("cuda/wgmma", kernel), 1, 128, 0, &p, &q, &rounds, &bad, NULL);
	if (r != (bad ? result : CUDA_SUCCESS) || (bad && !strstr(ptxsim_message(), text)))
		wrong("fault %d gives %d: '%s', without '%s'", bad, (int)r, ptxsim_message(), text);
}

typedef void Planted(const char *kernel, int bad, CUresult result, const char *text);

static void plant(Planted *run, const char *kernel, int bad, CUresult result, const char *text)
{
	for (int k = 0; k < 2 * SEEDS; k++) {
		int status;
		fflush(stdout);
		pid_t pid = fork();
		if (pid == 0) {
			ptxsim_seed((uint64_t)k / 2);
			ptxsim_limit(20000);
			run(kernel, k & 1 ? bad : 0, result, text);
			fflush(stdout);
			_exit(check_failures() != 0);
		}
		waitpid(pid, &status, 0);
		if (!WIFEXITED(status) || WEXITSTATUS(status)) {
			wrong("seed %d%s", k / 2, k & 1 ? "" : " without the fault");
			return;
		}
	}
}

#define FAULTS(X)                                                                             \
	X(missing_barrier, CUDA_ERROR_LAUNCH_FAILED, "")                                      \
	X(missing_second_barrier, CUDA_ERROR_LAUNCH_FAILED, "race")                           \
	X(missing_warp_sync, CUDA_ERROR_LAUNCH_FAILED, "race")                                \
	X(missing_wait, CUDA_ERROR_LAUNCH_FAILED, "cp.async may not have landed")             \
	X(weak_wait, CUDA_ERROR_LAUNCH_FAILED, "cp.async may not have landed")                \
	X(missing_commit, CUDA_ERROR_LAUNCH_FAILED, "cp.async may not have landed")           \
	X(read_past_end, CUDA_ERROR_ILLEGAL_ADDRESS, "reads 4 bytes")                         \
	X(write_past_end, CUDA_ERROR_ILLEGAL_ADDRESS, "writes 4 bytes")                       \
	X(read_before_begin, CUDA_ERROR_ILLEGAL_ADDRESS, "out of bounds")                     \
	X(shared_past_end, CUDA_ERROR_ILLEGAL_ADDRESS, "of shared memory, which has 512")     \
	X(behind_a_variable, CUDA_ERROR_ILLEGAL_ADDRESS, "behind a variable")                 \
	X(shared_never_written, CUDA_ERROR_LAUNCH_FAILED, "never written")                    \
	X(local_never_written, CUDA_ERROR_LAUNCH_FAILED, "of local memory, which were never") \
	X(global_never_written, CUDA_ERROR_LAUNCH_FAILED, "never written")                    \
	X(barrier_in_half_a_warp, CUDA_ERROR_LAUNCH_FAILED, "divergent barrier")              \
	X(barrier_in_one_warp, CUDA_ERROR_LAUNCH_FAILED, "divergent barrier")                 \
	X(barrier_after_return, CUDA_ERROR_LAUNCH_FAILED, "divergent barrier")                \
	X(misaligned, CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned: writes 16 bytes")           \
	X(misaligned_shared, CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned: reads 8 bytes")      \
	X(shuffle_from_absent, CUDA_ERROR_LAUNCH_FAILED, "divergent")                         \
	X(two_values, CUDA_ERROR_LAUNCH_FAILED, "different values")                           \
	X(null_pointer, CUDA_ERROR_ILLEGAL_ADDRESS, "out of bounds")                          \
	X(endless, CUDA_ERROR_LAUNCH_TIMEOUT, "no end after")                                 \
	X(trapped, CUDA_ERROR_ILLEGAL_INSTRUCTION, "thread (77,0,0)")

#define X(kernel, result, text)                           \
	static void kernel(void)                          \
	{                                                 \
		plant(run_one, #kernel, 1, result, text); \
	}
FAULTS(X)
#undef X

typedef struct Expected {
	CUresult result;
	const char *text;
} Expected;

/* Faults by number (tests/ptxsim/cuda/wgmma.cu). */
static void plant_all(Planted *run, const char *kernel, const Expected *want, int n)
{
	for (int i = 0; i < n; i++)
		plant(run, kernel, i + 1, want[i].result, want[i].text);
}

static void wgmma_faults(void)
{
	static const Expected want[] = {
		{CUDA_ERROR_LAUNCH_FAILED, "no fence.proxy.async is between"},
		{CUDA_SUCCESS, ""}, /* no wait */
		{CUDA_SUCCESS, ""}, /* a wait that leaves a group in flight */
		{CUDA_ERROR_LAUNCH_FAILED, "no wgmma.fence is before"},
		{CUDA_SUCCESS, ""}, /* no commit */
		{CUDA_ERROR_LAUNCH_FAILED, "race"},
		{CUDA_ERROR_LAUNCH_FAILED, "the first warp of its warpgroup"},
		{CUDA_ERROR_LAUNCH_FAILED, "does not begin at a multiple of 1024 bytes"}};

	plant_all(run_wgmma, "faulty", want, sizeof want / sizeof *want);
}

static void bulk_faults(void)
{
	static const Expected want[] = {
		{CUDA_ERROR_LAUNCH_FAILED, "the block ends before this bulk copy has landed"},
		{CUDA_ERROR_LAUNCH_TIMEOUT, "no end after"}, /* fewer bytes are expected */
		{CUDA_ERROR_LAUNCH_FAILED, "reads shared memory at"},
		{CUDA_ERROR_LAUNCH_FAILED, ""}, /* overwritten while it is read */
		{CUDA_ERROR_LAUNCH_FAILED, "no fence.proxy.async is between"}, /* the mbarrier */
		{CUDA_ERROR_LAUNCH_FAILED,
		 "no fence.proxy.async is between"}}; /* a store before it */

	plant_all(run_bulk, "ring_of_bulk", want, sizeof want / sizeof *want);
}

/* ---- Texts that are no modules ---- */

static void refuse(const char *body, const char *text)
{
	char ptx[600];
	CUmodule m;

	snprintf(ptx, sizeof ptx, ".version 7.0\n.target sm_80\n.address_size 64\n%s", body);
	CHECK(cuModuleLoadDataEx(&m, ptx, 0, NULL, NULL) == CUDA_ERROR_INVALID_PTX);
	if (!strstr(ptxsim_message(), text))
		wrong("'%s' gives '%s', without '%s'", body, ptxsim_message(), text);
}

static void bad_texts(void)
{
	CUmodule m;

	refuse(".entry k() {\n\tfrobnicate.b32 %r1;\n}",
	       "line 5: the instruction frobnicate.b32 is not supported: frobnicate.b32 %r1;");
	refuse(".entry k() {\n\t.reg .b32 %r<3>;\n\tadd.s32 %r1, %r2, %r9;\n}",
	       "line 6: the register %r9 is not declared");
	refuse(".entry k() {\n\t.reg .b32 %r<3>;\n\tadd.s64 %r1, %r2, %r2;\n}",
	       "line 6: %r1 has 32 bits, the instruction takes 64");
	refuse(".entry k() {\n\tbra nowhere;\n}", "'nowhere' is not defined");
	refuse(".entry k() {\n\t.reg .b32 %r<3>;\n\tadd.rn.s32 %r1, %r2, %r2;\n}",
	       "is not supported");
	refuse(".entry k() {\n\t.reg .f32 %f<3>;\n\tld.global.sideways.f32 %f1, [0];\n}",
	       "ld with .sideways");
	refuse(".extern .func f;\n.entry k() {\n\tcall f;\n}", "f has no body");
	refuse(".entry k() {\n\tret\n}", "line 6: expected an operand");
	refuse(".extern .shared .b8 k.all[];\n.entry k() {\n\tret;\n}",
	       "k.all: a name has no dot");
	CHECK(cuModuleLoadDataEx(&m, "\177ELF", 0, NULL, NULL) == CUDA_ERROR_NO_BINARY_FOR_GPU);
	CHECK(cuModuleLoadDataEx(&m, ".version 8.7\n.target sm_120\n.address_size 64\n", 0, NULL,
				 NULL) == CUDA_ERROR_INVALID_PTX);
}

const Case fault_cases[] = {
#define X(kernel, result, text) {"fault: " #kernel, kernel},
	FAULTS(X)
#undef X
		{"fault: wgmma", wgmma_faults},
	{"fault: bulk copies", bulk_faults},
	{"fault: texts that are no modules", bad_texts},
	{NULL, NULL},
};
