/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the matrices of passes/layout/winograd_form.c for errors.py: m, then the rows of A, B
 * and F. */
#include "passes/layout/winograd_form.h"

#include <stdio.h>

static void rows(const double *of, int n, int width, int pitch)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < width; j++)
			printf("%.17g%c", of[i * pitch + j], j + 1 < width ? ' ' : '\n');
}

int main(void)
{
	for (int m = 2; m <= WINOGRAD_MOST; m += 2) {
		WinogradForm f;

		winograd_form(m, &f);
		printf("%d\n", m);
		rows(f.a[0], m, f.points, WINOGRAD_POINTS);
		rows(f.b[0], f.points, f.points, WINOGRAD_POINTS);
		rows(f.f[0], f.points, WINOGRAD_TAPS, WINOGRAD_TAPS);
	}
	return 0;
}
