/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on products and on attention as text:
 *
 *	product tile 6x16 block 132x64xall pack a order m,n parallel g,n,m grain 65536
 *	attention tile 6x16 block 132 rows 66 pack none parallel g,m grain 65536
 *	product tile 8x32 block 64x256xall pack none order n,m fetch rows parallel m,n grain 65536
 *	product tile 32x32 block 64x256xall pack none matrix order n,m parallel m,n grain 65536
 *	product rows 76: tile 8x32 block 64x64xall pack none order n,m parallel m,n | tile ...
 */
#include "passes/schedule/cpu/cpu.h"

#include <string.h>

/* The x between two sizes, which a digit or a word follows. */
static void by(LineText *t)
{
	if (t->out || *t->in != 'x')
		line_put(t, "x");
	else
		t->in += t->ok;
}

static void order(LineText *t, ProductDecision *p)
{
	char first[MOST_NAME] = "m", second[MOST_NAME] = "n";

	line_put(t, " order ");
	if (t->out && p->panels_first)
		*first = 'n', *second = 'm';
	line_name(t, first);
	line_put(t, ",");
	line_name(t, second);
	p->panels_first = !strcmp(first, "n") && !strcmp(second, "m");
	if (!p->panels_first && (strcmp(first, "m") || strcmp(second, "n")))
		line_wrong(t, "the order of tiles is n,m or m,n");
}

static void packing(LineText *t, ProductDecision *p)
{
	line_put(t, " pack ");
	if (line_opt(t, !p->pack_a && !p->pack_b, "none"))
		return;
	p->pack_a = line_opt(t, p->pack_a, "a");
	if (!p->pack_a || line_opt(t, p->pack_b, ","))
		p->pack_b = line_opt(t, p->pack_b, "b");
	if (!p->pack_a && !p->pack_b)
		line_wrong(t, "pack takes a, b, \"a,b\" or none");
}

static void fetch(LineText *t, ProductDecision *p)
{
	static const char *const names[] = {[FETCH_PANEL] = " panel", [FETCH_ROWS] = " rows"};
	ProductFetch f = FETCH_PANEL;

	if (!line_opt(t, p->fetch != 0, " fetch"))
		return;
	while (f <= FETCH_ROWS && !line_opt(t, f == p->fetch, names[f]))
		f++;
	if (f > FETCH_ROWS)
		line_wrong(t, "fetch takes panel or rows");
	p->fetch = f;
}

/* The axes that a decision's line may name for a strategy. */
typedef struct AxisNames {
	const char *may;             /* those that may be parallel */
	const char *has;             /* the same, in words */
	const char *may_not, *since; /* those that may not, and why */
} AxisNames;

static const AxisNames product_axes = {"gnm", "a product has g, n and m", "k",
				       "the product sums over it"};
static const AxisNames attention_axes = {"gm", "an attention has g and m", "kn",
					 "a row of scores goes along it, or the sum of one"};

/* An axis that is not among the N of PARALLEL. */
static void axis(LineText *t, const AxisNames *axes, ProductAxis *parallel, int n)
{
	static const char names[] = "gnm";
	char name[MOST_NAME] = {t->out ? names[parallel[n]] : '\0'};
	const char *at;

	line_name(t, name);
	if (!t->ok)
		return;
	at = strlen(name) == 1 && strchr(axes->may, *name) ? strchr(names, *name) : NULL;
	if (strlen(name) == 1 && strchr(axes->may_not, *name))
		line_wrong(t, "iterator %s carries a dependence: %s, so it cannot be parallel",
			   name, axes->since);
	else if (!at)
		line_wrong(t, "there is no iterator \"%s\"; %s", name, axes->has);
	for (int i = 0; i < n && at; i++)
		if (parallel[i] == (ProductAxis)(at - names))
			line_wrong(t, "iterator %s is named twice", name);
	if (t->ok)
		parallel[n] = (ProductAxis)(at - names);
}

/* The parallel axes PARALLEL, *N of them. */
static void parallel_axes(LineText *t, const AxisNames *axes, ProductAxis *parallel, int *n)
{
	int i = 0;

	line_put(t, " parallel ");
	if (line_opt(t, !*n, "none"))
		return;
	do
		axis(t, axes, parallel, i++);
	while (line_opt(t, i < *n, ","));
	*n = i;
}

static void one_product(LineText *t, ProductDecision *p)
{
	line_number(t, " tile ", &p->mr);
	by(t);
	line_number(t, "", &p->nr);
	line_number(t, " block ", &p->mc);
	by(t);
	line_number(t, "", &p->nc);
	by(t);
	if (!line_opt(t, !p->kc, "all"))
		line_number(t, "", &p->kc);
	packing(t, p);
	p->dot = line_opt(t, p->dot, " dot");
	p->matrix = line_opt(t, p->matrix, " matrix");
	order(t, p);
	fetch(t, p);
	parallel_axes(t, &product_axes, p->parallel, &p->nparallel);
}

void product_text(LineText *t, Kernel *k, Decision *d)
{
	(void)k;
	if (line_opt(t, d->few_rows > 0, " rows")) {
		line_number(t, " ", &d->few_rows);
		line_put(t, ":");
		one_product(t, &d->few);
		line_put(t, " |");
	}
	one_product(t, &d->product);
}

void attention_text(LineText *t, Kernel *k, Decision *d)
{
	AttentionDecision *a = &d->attention;

	(void)k;
	line_number(t, " tile ", &a->mr);
	by(t);
	line_number(t, "", &a->nr);
	line_number(t, " block ", &a->mc);
	line_number(t, " rows ", &a->rows);
	line_put(t, " pack ");
	a->pack_a = line_opt(t, a->pack_a, "a");
	if (!a->pack_a)
		line_put(t, "none");
	a->fetch = line_opt(t, a->fetch, " fetch");
	if (a->fetch)
		line_put(t, " batch");
	parallel_axes(t, &attention_axes, a->parallel, &a->nparallel);
}
