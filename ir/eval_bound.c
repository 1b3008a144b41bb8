/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error bounds. A buffer may carry a bound for each element: how far the value that a target computes may
 * lie from eval's. Bounds begin at sums (reassociation) and pass through what follows: an expression moves
 * by at most the sum over its loads of the larger of |f(x+e) - f(x)| and |f(x-e) - f(x)|, each load alone.
 * That is exact for sums and products to first order and for monotone functions of one load; a jump (a
 * comparison, a rounding) inside the interval shows where it separates the ends from the middle.
 */
#include "ir/eval_impl.h"

#include <math.h>
#include <string.h>

double ctype_eps(CType t)
{
	return t == CT_F32 ? 0x1p-23 : t == CT_F64 ? 0x1p-52 : 0;
}

double ulp_of(DType t, double v)
{
	static const struct { int man, emin; } format[DT_COUNT] = {
		[DT_F64] = {52, -1022}, [DT_F32] = {23, -126}, [DT_F16] = {10, -14},
		[DT_BF16] = {7, -126}, [DT_F8E4M3FN] = {3, -6}, [DT_F8E4M3FNUZ] = {3, -7},
		[DT_F8E5M2] = {2, -14}, [DT_F8E5M2FNUZ] = {2, -15}, [DT_F4E2M1] = {1, 0},
		[DT_F6E2M3] = {3, 0}, [DT_F6E3M2] = {2, -2}, [DT_F8E8M0] = {0, -127},
	};
	int e;

	if (!dtype_is_float(t) || !isfinite(v))
		return 0;
	e = v == 0 ? format[t].emin : ilogb(v);
	return ldexp(1, (e < format[t].emin ? format[t].emin : e) - format[t].man);
}

static double moved(double from, double to)
{
	double d = fabs(to - from);

	if (from == to || (isnan(from) && isnan(to)))
		return 0;
	return isnan(d) ? INFINITY : d;
}

static void add_moves(Prog *p, int load, double *const *out, double (*nominal)[STRIP])
{
	double now[STRIP], most[4][STRIP];
	int n = p->at->n;

	memset(most, 0, sizeof most);
	for (int sign = -1; sign <= 1; sign += 2) {
		prog_shift(p, load, sign);
		for (int r = 0; r < p->nroots; r++) {
			if (!out[r])
				continue;
			strip_to_f64(p->nodes.at[p->root[r]].ct, prog_val(p, r), now, n);
			for (int l = 0; l < n; l++)
				most[r][l] = fmax(most[r][l], p->lost[l] ? (double)INFINITY
								: moved(nominal[r][l], now[l]));
		}
	}
	prog_shift(p, load, 0);
	for (int r = 0; r < p->nroots; r++)
		for (int l = 0; out[r] && l < n; l++)
			out[r][l] += most[r][l];
}

void prog_bounds(Prog *p, double *const *out)
{
	double nominal[4][STRIP];
	int n = p->at->n;

	for (int r = 0; r < p->nroots; r++) {
		if (!out[r])
			continue;
		strip_to_f64(p->nodes.at[p->root[r]].ct, prog_val(p, r), nominal[r], n);
		memset(out[r], 0, STRIP * sizeof *out[r]);
	}
	for (int i = 0; i < p->nodes.n; i++)
		if (p->nodes.at[i].kind == EX_LOAD && p->nodes.at[i].access->bound)
			add_moves(p, i, out, nominal);
}
