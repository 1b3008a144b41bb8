/* SPDX-License-Identifier: Apache-2.0 */
/* Invariants of the table of targets. */
#include "codegen/targets.h"

#include <stdio.h>

/* Whether code for T runs on the GPU of U. */
static bool runs_on(const Target *t, const Target *u)
{
	return t == u || (!t->gpu->only && u->gpu->sm > t->gpu->sm);
}

static int least_shared(const Target *t)
{
	int least = t->gpu->shared;

	for (const Target *u = target_table; u->name; u++)
		if (u->gpu && runs_on(t, u) && u->gpu->shared < least)
			least = u->gpu->shared;
	return least;
}

int main(void)
{
	int failed = 0, gpus = 0;

	for (const Target *t = target_table; t->name; t++) {
		if (!t->gpu)
			continue;
		gpus++;
		if (t->gpu->block_shared == least_shared(t))
			continue;
		printf("%s: blocks plan for %d bytes of shared memory, and all GPUs that run the code give %d\n",
		       t->name, t->gpu->block_shared, least_shared(t));
		failed++;
	}
	printf("%s\n", failed || !gpus ? "FAILED" : "ok");
	return failed || !gpus;
}
