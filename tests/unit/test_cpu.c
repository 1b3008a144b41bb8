/* SPDX-License-Identifier: Apache-2.0 */
/* rt_cpu_features: matrix registers count only if Linux permits their use. It does not where a stack for
 * signals is too small to save them. */
#include "runtime/cpu.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The features in a new process, whose stack for signals has SIZE bytes; 0: it has none. All bits: it
 * failed. */
static uint64_t features(size_t size)
{
	uint64_t have = 0;
	int ends[2];

	if (pipe(ends))
		return UINT64_MAX;
	if (!fork()) {
		const stack_t small = {.ss_sp = malloc(size), .ss_size = size};

		if (size && sigaltstack(&small, NULL))
			_exit(1);
		have = rt_cpu_features();
		_exit(write(ends[1], &have, sizeof have) != sizeof have);
	}
	close(ends[1]);
	if (read(ends[0], &have, sizeof have) != sizeof have)
		have = UINT64_MAX;
	close(ends[0]);
	wait(NULL);
	return have;
}

int main(void)
{
	const uint64_t amx = DL_CPU_AMX_INT8 | DL_CPU_AMX_BF16, all = features(0),
		       less = features(8192);
	const int failed = all == UINT64_MAX || less != (all & ~amx);

	printf("%s\n", failed ? "FAILED" : "ok");
	return failed;
}
