/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on products as text:
 *
 *	product tile 6x16 block 132x64xall pack a order m,n parallel g,n,m grain 65536
 */
#include "passes/schedule/cpu/cpu.h"

static const char axis_name[] = "gnm";

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
	strbuf_printf(b, " pack %s order %s parallel ",
		      p->pack_a   ? p->pack_b ? "a,b" : "a"
		      : p->pack_b ? "b"
				  : "none",
		      p->panels_first ? "n,m" : "m,n");
	for (int i = 0; i < p->nparallel; i++)
		strbuf_printf(b, "%s%c", i ? "," : "", axis_name[p->parallel[i]]);
	if (!p->nparallel)
		strbuf_puts(b, "none");
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

static bool read_order(const char **p, ProductDecision *d, StrBuf *why)
{
	char first[MOST_NAME], second[MOST_NAME];

	if (!line_expect(p, "order", why) || !line_name(p, first, why) ||
	    !line_expect(p, ",", why) || !line_name(p, second, why))
		return false;
	d->panels_first = !strcmp(first, "n") && !strcmp(second, "m");
	return d->panels_first || (!strcmp(first, "m") && !strcmp(second, "n")) ||
	       decision_refuse(why, "the order of tiles is n,m or m,n");
}

static bool read_parallel(const char **p, ProductDecision *d, StrBuf *why)
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
		axis = strlen(name) == 1 ? strchr(axis_name, *name) : NULL;
		if (!strcmp(name, "k"))
			return decision_refuse(
				why,
				"iterator k carries a dependence: the product sums over it, so it cannot be parallel");
		if (!axis)
			return decision_refuse(
				why, "there is no iterator \"%s\"; a product has g, n and m", name);
		for (int i = 0; i < d->nparallel; i++)
			if (d->parallel[i] == (ProductAxis)(axis - axis_name))
				return decision_refuse(why, "iterator %s is named twice", name);
		d->parallel[d->nparallel++] = (ProductAxis)(axis - axis_name);
	} while (line_accept(p, ","));
	return true;
}

bool product_parse(Kernel *k, const char *text, Decision *d, StrBuf *why)
{
	ProductDecision *p = &d->product;

	(void)k;
	return read_tile(&text, p, why) && read_packing(&text, p, why) &&
	       read_order(&text, p, why) && read_parallel(&text, p, why) &&
	       line_expect(&text, "grain", why) && line_number(&text, &d->grain, why) &&
	       line_end(text, why);
}
