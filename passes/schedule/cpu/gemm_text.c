/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on products and on attention as text:
 *
 *	product tile 6x16 block 132x64xall pack a order m,n parallel g,n,m grain 65536
 *	attention tile 6x16 block 132 rows 66 pack none parallel g,m grain 65536
 *	product tile 8x32 block 64x256xall pack none order n,m fetch rows parallel m,n grain 65536
 *	product tile 32x32 block 64x256xall pack none matrix order n,m parallel m,n grain 65536
 */
#include "passes/schedule/cpu/cpu.h"

static const char axis_name[] = "gnm";
static const char *const fetch_name[] = {[FETCH_PANEL] = "panel", [FETCH_ROWS] = "rows"};

static void print_axes(StrBuf *b, const ProductAxis *axis, int n)
{
	strbuf_puts(b, " parallel ");
	for (int i = 0; i < n; i++)
		strbuf_printf(b, "%s%c", i ? "," : "", axis_name[axis[i]]);
	if (!n)
		strbuf_puts(b, "none");
}

void product_print(StrBuf *b, Kernel *k, const Decision *d)
{
	const ProductDecision *p = &d->product;

	(void)k;
	strbuf_printf(b, " tile %lldx%lld block %lldx%lldx", (long long)p->mr, (long long)p->nr,
		      (long long)p->mc, (long long)p->nc);
	if (p->kc)
		strbuf_printf(b, "%lld", (long long)p->kc);
	else
		strbuf_puts(b, "all");
	strbuf_printf(b, " pack %s%s%s order %s",
		      p->pack_a   ? p->pack_b ? "a,b" : "a"
		      : p->pack_b ? "b"
				  : "none",
		      p->dot ? " dot" : "", p->matrix ? " matrix" : "",
		      p->panels_first ? "n,m" : "m,n");
	if (p->fetch)
		strbuf_printf(b, " fetch %s", fetch_name[p->fetch]);
	print_axes(b, p->parallel, p->nparallel);
}

void attention_print(StrBuf *b, Kernel *k, const Decision *d)
{
	const AttentionDecision *a = &d->attention;

	(void)k;
	strbuf_printf(b, " tile %lldx%lld block %lld rows %lld pack %s%s", (long long)a->mr,
		      (long long)a->nr, (long long)a->mc, (long long)a->rows,
		      a->pack_a ? "a" : "none", a->fetch ? " fetch batch" : "");
	print_axes(b, a->parallel, a->nparallel);
}

/* The x between two sizes, which a digit or a word follows. */
static bool read_x(const char **p, StrBuf *why)
{
	if (**p != 'x')
		return line_expect(p, "x", why);
	(*p)++;
	return true;
}

/* Reads AxB to V[0] and V[1]. */
static bool read_sides(const char **p, int64_t v[2], StrBuf *why)
{
	return line_number(p, &v[0], why) && read_x(p, why) && line_number(p, &v[1], why);
}

static bool read_tile(const char **p, ProductDecision *d, StrBuf *why)
{
	int64_t tile[2], block[2];

	if (!line_expect(p, "tile", why) || !read_sides(p, tile, why) ||
	    !line_expect(p, "block", why) || !read_sides(p, block, why) || !read_x(p, why))
		return false;
	d->mr = tile[0];
	d->nr = tile[1];
	d->mc = block[0];
	d->nc = block[1];
	return line_accept(p, "all") || line_number(p, &d->kc, why);
}

static bool read_packing(const char **p, ProductDecision *d, StrBuf *why)
{
	if (!line_expect(p, "pack", why))
		return false;
	if (line_accept(p, "none"))
		return true;
	d->pack_a = line_accept(p, "a");
	d->pack_b = d->pack_a ? line_accept(p, ",") && line_accept(p, "b") : line_accept(p, "b");
	return d->pack_a || d->pack_b || decision_refuse(why, "pack takes a, b, \"a,b\" or none");
}

static bool read_dot_and_order(const char **p, ProductDecision *d, StrBuf *why)
{
	char first[MOST_NAME], second[MOST_NAME];

	d->dot = line_accept(p, "dot");
	d->matrix = line_accept(p, "matrix");
	if (!line_expect(p, "order", why) || !line_name(p, first, why) ||
	    !line_expect(p, ",", why) || !line_name(p, second, why))
		return false;
	d->panels_first = !strcmp(first, "n") && !strcmp(second, "m");
	return d->panels_first || (!strcmp(first, "m") && !strcmp(second, "n")) ||
	       decision_refuse(why, "the order of tiles is n,m or m,n");
}

static bool read_fetch(const char **p, ProductDecision *d, StrBuf *why)
{
	if (!line_accept(p, "fetch"))
		return true;
	for (ProductFetch f = FETCH_PANEL; f <= FETCH_ROWS; f++)
		if (line_accept(p, fetch_name[f])) {
			d->fetch = f;
			return true;
		}
	return decision_refuse(why, "fetch takes panel or rows");
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

/* Reads the parallel axes to PARALLEL, *N of them. */
static bool read_parallel(const char **p, const AxisNames *axes, ProductAxis *parallel, int *n,
			  StrBuf *why)
{
	char name[MOST_NAME];

	if (!line_expect(p, "parallel", why))
		return false;
	if (line_accept(p, "none"))
		return true;
	do {
		const char *axis;

		if (!line_name(p, name, why))
			return false;
		axis = strlen(name) == 1 && strchr(axes->may, *name) ? strchr(axis_name, *name)
								     : NULL;
		if (strlen(name) == 1 && strchr(axes->may_not, *name))
			return decision_refuse(
				why,
				"iterator %s carries a dependence: %s, so it cannot be parallel",
				name, axes->since);
		if (!axis)
			return decision_refuse(why, "there is no iterator \"%s\"; %s", name,
					       axes->has);
		for (int i = 0; i < *n; i++)
			if (parallel[i] == (ProductAxis)(axis - axis_name))
				return decision_refuse(why, "iterator %s is named twice", name);
		parallel[(*n)++] = (ProductAxis)(axis - axis_name);
	} while (line_accept(p, ","));
	return true;
}

bool product_parse(Kernel *k, const char *text, Decision *d, StrBuf *why)
{
	ProductDecision *p = &d->product;

	(void)k;
	return read_tile(&text, p, why) && read_packing(&text, p, why) &&
	       read_dot_and_order(&text, p, why) && read_fetch(&text, p, why) &&
	       read_parallel(&text, &product_axes, p->parallel, &p->nparallel, why) &&
	       line_expect(&text, "grain", why) && line_number(&text, &d->grain, why) &&
	       line_end(text, why);
}

/* Reads WORD and a number. */
static bool read_size(const char **p, const char *word, int64_t *v, StrBuf *why)
{
	return line_expect(p, word, why) && line_number(p, v, why);
}

static bool read_attention(const char **p, AttentionDecision *d, StrBuf *why)
{
	int64_t tile[2];

	if (!line_expect(p, "tile", why) || !read_sides(p, tile, why) ||
	    !read_size(p, "block", &d->mc, why) || !read_size(p, "rows", &d->rows, why) ||
	    !line_expect(p, "pack", why))
		return false;
	d->mr = tile[0];
	d->nr = tile[1];
	d->pack_a = line_accept(p, "a");
	if (!d->pack_a && !line_expect(p, "none", why))
		return false;
	d->fetch = line_accept(p, "fetch");
	return !d->fetch || line_expect(p, "batch", why);
}

bool attention_parse(Kernel *k, const char *text, Decision *d, StrBuf *why)
{
	AttentionDecision *a = &d->attention;

	(void)k;
	return read_attention(&text, a, why) &&
	       read_parallel(&text, &attention_axes, a->parallel, &a->nparallel, why) &&
	       read_size(&text, "grain", &d->grain, why) && line_end(text, why);
}
