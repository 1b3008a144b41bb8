/* SPDX-License-Identifier: Apache-2.0 */
/* The matrices of Winograd's minimal filtering: F(m,3) of integers is their correlation with
 * three taps. */
#include "passes/layout/winograd_form.h"

#include <math.h>
#include <stdio.h>

static int element(int i)
{
	return i * i % 7 - 3;
}

/* The largest error of a result. */
static double error(const WinogradForm *f)
{
	double worst = 0;

	for (int y = 0; y < f->m; y++) {
		double want = 0, got = 0;

		for (int t = 0; t < WINOGRAD_TAPS; t++)
			want += element(y + t) * (t + 2);
		for (int i = 0; i < f->points; i++) {
			double v = 0, u = 0;

			for (int k = 0; k < f->points; k++)
				v += f->b[i][k] * element(k);
			for (int t = 0; t < WINOGRAD_TAPS; t++)
				u += f->f[i][t] * (t + 2);
			got += f->a[y][i] * u * v;
		}
		worst = fmax(worst, fabs(got - want));
	}
	return worst;
}

/* The factors of image and products are exact in f32: the transforms are done in it. */
static int is_exact(const WinogradForm *f)
{
	int yes = 1;

	for (int i = 0; i < f->points; i++) {
		for (int k = 0; k < f->points; k++)
			yes = yes && (double)(float)f->b[i][k] == f->b[i][k];
		for (int y = 0; y < f->m; y++)
			yes = yes && (double)(float)f->a[y][i] == f->a[y][i];
	}
	return yes;
}

int main(void)
{
	int failed = 0;

	for (int m = 2; m <= WINOGRAD_MOST; m += 2) {
		WinogradForm f;

		winograd_form(m, &f);
		if (f.points != m + 2 || error(&f) > (m == 2 ? 0 : 1e-12) || !is_exact(&f)) {
			printf("test_winograd.c: F(%d,3): error %g\n", m, error(&f));
			failed = 1;
		}
	}
	return failed;
}
