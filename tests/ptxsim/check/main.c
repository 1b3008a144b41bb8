/* SPDX-License-Identifier: Apache-2.0 */
/* Runs every case in a process of its own, since an error of a kernel stays. check [PATTERN]: cases whose name has it. */
#include "tests/ptxsim/check/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int check_failures(void);

static int run(const Case *c)
{
	CUdevice device;
	CUcontext context;

	if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
	    cuCtxSetCurrent(context)) {
		printf("no device");
		return 2;
	}
	c->run();
	return check_failures() != 0;
}

int main(int argc, char **argv)
{
	const Case *const all[] = {cuda_cases,	 number_cases, conversion_cases,
				   warp_cases,	 fault_cases,  count_cases,
				   driver_cases, triton_cases, matrix_cases};
	int passed = 0, failed = 0;

	ptxsim_quiet(argc < 3);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		for (const Case *c = all[i]; c->name; c++) {
			if (argc > 1 && !strstr(c->name, argv[1]))
				continue;
			int out[2], status;
			char text[4000];
			ssize_t n, length = 0;
			if (pipe(out))
				return 2;
			fflush(stdout);
			pid_t pid = fork();
			if (pid == 0) {
				dup2(out[1], 1);
				int r = run(c);
				fflush(stdout);
				_exit(r);
			}
			close(out[1]);
			while ((n = read(out[0], text + length, sizeof text - 1 - (size_t)length)) >
			       0)
				length += n;
			text[length] = 0;
			close(out[0]);
			waitpid(pid, &status, 0);
			bool good = WIFEXITED(status) && !WEXITSTATUS(status);
			passed += good;
			failed += !good;
			if (!good && WIFSIGNALED(status))
				printf("FAIL: %s: signal %d; %s\n", c->name, WTERMSIG(status),
				       text);
			else if (!good)
				printf("FAIL: %s: %s\n", c->name, text);
		}
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
