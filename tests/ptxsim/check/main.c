/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs every case in a process of its own, since an error of a kernel stays.
 *
 *	check [PATTERN [v]]          cases whose name has it; v: errors of kernels are printed
 *	check --record FILE          those that any GPU can run, and what they read goes to FILE (vectors.h)
 *	check --replay FILE          those that FILE has: they must read the same
 */
#include "tests/ptxsim/check/gpu.h"

#include "tests/ptxsim/check/vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int check_failures(void);

static const Case *const all[] = {cuda_cases,   number_cases, conversion_cases, warp_cases,
				  fault_cases,  count_cases,  driver_cases,     capture_cases,
				  triton_cases, matrix_cases};
/* Others ask the simulator. */
static const Case *const on_any_gpu[] = {cuda_cases, number_cases, conversion_cases, warp_cases,
					 matrix_cases};

typedef struct Options {
	const char *pattern, *vectors;
	bool record, replay;
} Options;

static int run(const Case *c, const Options *o)
{
	CUdevice device;
	CUcontext context;

	if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
	    cuCtxSetCurrent(context)) {
		printf("no device");
		return 2;
	}
	if (o->vectors && !vectors_begin(o->vectors, o->record, c->name)) {
		printf("cannot open %s", o->vectors);
		return 2;
	}
	c->run();
	return check_failures() != 0;
}

enum { PASSED, FAILED, LEFT, RESULTS };

/* How C ends; where it fails, why is printed. */
static int try(const Case *c, const Options *o)
{
	int out[2], status;
	char text[4000];
	ssize_t n, length = 0;

	if (pipe(out))
		exit(2);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(out[1], 1);
		int r = run(c, o);
		fflush(stdout);
		_exit(r);
	}
	close(out[1]);
	while ((n = read(out[0], text + length, sizeof text - 1 - (size_t)length)) > 0)
		length += n;
	text[length] = 0;
	close(out[0]);
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		printf("FAIL: %s: signal %d; %s\n", c->name, WTERMSIG(status), text);
	else if (WEXITSTATUS(status) && WEXITSTATUS(status) != SKIPPED)
		printf("FAIL: %s: %s\n", c->name, text);
	return !WIFEXITED(status)               ? FAILED
	       : !WEXITSTATUS(status)           ? PASSED
	       : WEXITSTATUS(status) == SKIPPED ? LEFT
						: FAILED;
}

int main(int argc, char **argv)
{
	Options o = {.pattern = argc > 1 && *argv[1] != '-' ? argv[1] : ""};
	int n[RESULTS] = {0};

	o.record = argc == 3 && !strcmp(argv[1], "--record");
	o.replay = argc == 3 && !strcmp(argv[1], "--replay");
	o.vectors = o.record || o.replay ? argv[2] : NULL;
	if (o.record)
		remove(o.vectors);
	ptxsim_quiet(argc < 3);

	const Case *const *group = o.vectors ? on_any_gpu : all;
	size_t groups = o.vectors ? sizeof on_any_gpu / sizeof *on_any_gpu
				  : sizeof all / sizeof *all;
	for (size_t i = 0; i < groups; i++)
		for (const Case *c = group[i]; c->name; c++)
			if (strstr(c->name, o.pattern))
				n[try(c, &o)]++;
	printf("%d passed, %d failed, %d skipped\n", n[PASSED], n[FAILED], n[LEFT]);
	return n[FAILED] != 0;
}
