/* SPDX-License-Identifier: Apache-2.0 */
/* rt_cpu_features: matrix registers count only if Linux permits their use. It does not where a
 * stack for signals is too small to save them. Who asks for other features can have such a stack
 * afterwards. */
#include "runtime/cpu.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SMALL = 8192, FAILED = 1 };

/* Sets a stack for signals of SIZE bytes. */
static bool set_stack(size_t size)
{
	const stack_t s = {.ss_sp = malloc(size), .ss_size = size};

	return !sigaltstack(&s, NULL);
}

/* The features among OF in a new process, which has a small stack for signals BEFORE it asks for
 * them, or AFTER. All bits: it failed. */
static uint64_t features(uint64_t of, bool before, bool after)
{
	uint64_t have = 0;
	int ends[2];

	if (pipe(ends))
		return UINT64_MAX;
	if (!fork()) {
		if (before && !set_stack(SMALL))
			_exit(FAILED);
		have = rt_cpu_features(of);
		if (after && !set_stack(SMALL))
			_exit(FAILED);
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
	const uint64_t amx = DL_CPU_AMX_INT8 | DL_CPU_AMX_BF16,
		       all = features(UINT64_MAX, false, false);
	const int failed = all == UINT64_MAX || features(UINT64_MAX, true, false) != (all & ~amx) ||
			   features(~amx, false, true) != (all & ~amx);

	printf("%s\n", failed ? "FAILED" : "ok");
	return failed;
}
