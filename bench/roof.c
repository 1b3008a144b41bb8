/* SPDX-License-Identifier: Apache-2.0 */
/* Measures this machine's bounds for a number of threads, and prints them as a line of JSON:
 * roof THREADS [MILLISECONDS of each]. What is measured is described in tools/dlrun/roof.h. */
#include "tools/dlrun/roof.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	const int threads = argc > 1 ? atoi(argv[1]) : 1;
	const Roof r = roof_measure(ROOF_FLOPS | ROOF_BYTES | ROOF_L2, threads,
				    argc > 2 ? atof(argv[2]) : 300);

	printf("{\"threads\":%d,\"gflop_per_s\":%.4g,\"memory_gb_per_s\":%.4g,\"l2_gb_per_s\":%.4g}\n",
	       threads, r.flops * 1e-9, r.bytes * 1e-9, r.l2 * 1e-9);
	return 0;
}
