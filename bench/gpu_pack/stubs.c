/* SPDX-License-Identifier: Apache-2.0 */
/* Stubs of the functions of the simulator that tests/ptxsim/check calls, for runs on a real
 * driver. */
#include "tests/ptxsim/check/gpu.h"

#include <unistd.h>

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);

void ptxsim_mark(void)
{
}

uint64_t ptxsim_calls(const char *prefix)
{
	(void)prefix;
	return 0;
}

uint64_t ptxsim_allocations(void)
{
	return 0;
}

int ptxsim_live(void)
{
	return 0;
}

const char *ptxsim_message(void)
{
	return "the driver says no more";
}

uint64_t ptxsim_counter(const char *kernel, const char *name)
{
	(void)kernel, (void)name;
	return 0;
}

void ptxsim_stats_clear(void)
{
}

void ptxsim_seed(uint64_t seed)
{
	(void)seed;
}

void ptxsim_quiet(int quiet)
{
	(void)quiet;
}

void ptxsim_fail(uint64_t n, CUresult with)
{
	(void)n, (void)with;
}

/* The device stays the one that is there; a case that needs a later one ends as skipped. */
int ptxsim_device(int sm)
{
	int major = 0, minor = 0;

	cuDeviceGetAttribute(&major, 75, 0);
	cuDeviceGetAttribute(&minor, 76, 0);
	if (major * 10 + minor < sm)
		_exit(SKIPPED);
	return 0;
}

void ptxsim_limit(uint64_t n)
{
	(void)n;
}
