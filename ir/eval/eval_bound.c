/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error bounds. A buffer may have a bound for each element: how far the value that a target
 * computes may differ from the interpreter's. Bounds originate at sums (reassociation) and
 * propagate: an expression moves by at most the sum over its loads of the larger of |f(x+e) - f(x)|
 * and |f(x-e) - f(x)|, where only one load x is shifted at a time.
 *
 * To first order this is exact for sums and products, and for monotone functions of one load. A
 * jump inside the interval (a comparison, a rounding) is noticed if the ends differ from the
 * middle. A shifted load also makes later operations round differently: this is measured by moving
 * the result of every such operation one ulp up or down at random, results of functions by a few
 * ulps, and those of roundings to a narrower type by an ulp of it. The measured effect is at least
 * one ulp if the result itself is rounded. Near an extremum, and where terms cancel, only this
 * second part is not 0.
 */
#include "ir/eval/eval_impl.h"

#include <math.h>
#include <string.h>

double ctype_eps(CType t)
{
	return t == CT_F32 ? 0x1p-23 : t == CT_F64 ? 0x1p-52 : 0;
}

double ctype_tiny(CType t)
{
	return t == CT_F32 ? 0x1p-149 : t == CT_F64 ? 0x1p-1074 : 0;
}

double ulp_of(DType t, double v)
{
	static const struct {
		int man, emin;
	} format[DT_COUNT] = {
		[DT_F64] = {52, -1022}, [DT_F32] = {23, -126},      [DT_F16] = {10, -14},
		[DT_BF16] = {7, -126},  [DT_F8E4M3FN] = {3, -6},    [DT_F8E4M3FNUZ] = {3, -7},
		[DT_F8E5M2] = {2, -14}, [DT_F8E5M2FNUZ] = {2, -15}, [DT_F4E2M1] = {1, 0},
		[DT_F6E2M3] = {3, 0},   [DT_F6E3M2] = {2, -2},      [DT_F8E8M0] = {0, -127},
	};
	int e;

	if (t == DT_STR)
		return INFINITY; /* no string is near another one */
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

/* Raises MOST to the distance of each root's current value from NOMINAL. Roots whose OUT is
 * null are skipped. */
static void see_roots(Prog *p, double *const *out, double (*nominal)[STRIP], double (*most)[STRIP])
{
	double now[STRIP];

	for (int r = 0; r < p->nroots; r++) {
		if (!out[r])
			continue;
		strip_to_f64(p->nodes.at[p->root[r]].ct, prog_val(p, r), now, p->at->n);
		for (int l = 0; l < p->at->n; l++)
			most[r][l] = fmax(most[r][l], p->lost[l] ? (double)INFINITY
								 : moved(nominal[r][l], now[l]));
	}
}

/* Adds the effect of rounding: operations that depend on LOAD round differently for a shifted
 * value. */
static void add_roundings(Prog *p, int load, double *const *out, double (*nominal)[STRIP],
			  const double *low, const double *high)
{
	enum { TRIALS = 3 };
	double most[4][STRIP];
	int n = p->at->n, any = 0;

	for (int l = 0; l < n; l++)
		any |= low[l] != high[l];
	if (!any)
		return;
	memset(most, 0, sizeof most);
	for (p->jitter = TRIALS; p->jitter; p->jitter--) {
		prog_shift(p, load, 0);
		see_roots(p, out, nominal, most);
	}
	for (int r = 0; r < p->nroots; r++) {
		const PNode *root = &p->nodes.at[p->root[r]];
		const DType t = ctype_dtype(root->ct);

		for (int l = 0; out[r] && l < n; l++) {
			/* in all trials, the last operation may undo the moves of those before
			 * it */
			const double ulp = prog_rounds(root) && root->touched
						   ? ulp_of(t, nominal[r][l])
						   : 0;

			out[r][l] += low[l] != high[l] ? (double)SAFETY * fmax(most[r][l], ulp) : 0;
		}
	}
}

static void add_moves(Prog *p, int load, double *const *out, double (*nominal)[STRIP])
{
	double x[2][STRIP], most[4][STRIP];
	int n = p->at->n;

	memset(most, 0, sizeof most);
	for (int side = 0; side < 2; side++) {
		prog_shift(p, load, side ? 1 : -1);
		strip_to_f64(p->nodes.at[load].ct, p->nodes.at[load].val, x[side], n);
		see_roots(p, out, nominal, most);
	}
	for (int r = 0; r < p->nroots; r++)
		for (int l = 0; out[r] && l < n; l++)
			out[r][l] += most[r][l];
	add_roundings(p, load, out, nominal, x[0], x[1]);
	prog_shift(p, load, 0);
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
