/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matrices of Winograd's minimal filtering, by the algorithm of Toom and Cook: the polynomials
 * of the inputs and of the taps are evaluated at points p, multiplied there, and interpolated; the
 * last point is infinity. F(m,3) needs m + 1 finite points besides. See Lavin and Gray, "Fast
 * algorithms for convolutional neural networks" (2016).
 *
 * The choice of points determines the error, which grows with the powers of their magnitudes and of
 * the inverses. These are symmetric, so that half of each row of B is zero, and have few bits, so
 * that A and B are exact in f32. Among those they have the least error (docs/numerics.md): for
 * F(4,3) a quarter of the error of the usual 1, -1, 2, -2 (Barabasz et al., "Error analysis and
 * improving the accuracy of Winograd convolution for deep neural networks", 2020). F(6,3) is left
 * out: it has twice as many points, its error is ten times as large, and its transforms cost as
 * much as its products save.
 */
#include "passes/layout/winograd_form.h"

#include <assert.h>
#include <stddef.h>

/* The finite points of F(m,3). */
static const struct {
	int m;
	double point[WINOGRAD_POINTS - 1];
} table[] = {
	{2, {0, 1, -1}},
	{4, {0, 0.625, -0.625, 1.5, -1.5}},
};

/* The coefficients of the product of (x - p[i]) over the N points P except number BUT. */
static void product_of_roots(const double *p, int n, int but, double *coef)
{
	coef[0] = 1;
	for (int i = 1; i <= n; i++)
		coef[i] = 0;
	for (int i = 0; i < n; i++) {
		if (i == but)
			continue;
		for (int k = n; k > 0; k--)
			coef[k] = coef[k - 1] - p[i] * coef[k];
		coef[0] *= -p[i];
	}
}

static double power(double x, int n)
{
	return n ? x * power(x, n - 1) : 1;
}

void winograd_form(int m, WinogradForm *f)
{
	const double *p = NULL;
	int last = m + WINOGRAD_TAPS - 2;

	*f = (WinogradForm){.m = m, .points = last + 1};
	for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
		if (table[i].m == m)
			p = table[i].point;
	assert(p);
	for (int i = 0; i < last; i++) {
		double scale = 1;

		for (int j = 0; j < last; j++)
			scale *= j == i ? 1 : p[i] - p[j];
		product_of_roots(p, last, i, f->b[i]);
		for (int t = 0; t < WINOGRAD_TAPS; t++)
			f->f[i][t] = power(p[i], t) / scale;
		for (int y = 0; y < m; y++)
			f->a[y][i] = power(p[i], y);
	}
	product_of_roots(p, last, -1, f->b[last]);
	f->f[last][WINOGRAD_TAPS - 1] = 1;
	f->a[m - 1][last] = 1;
}
