/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partial sums of few long rows, and split-K products of few tiles, on GPUs. Where a schedule has
 * fewer blocks than there are SMs and a reduction is long, the reduction becomes two, which is what
 * a monoid allows:
 *
 *     acc[i] = sum x[i,r]                for i < 4 over r < 262144
 *
 *     part[i,p] = sum x[i,p*2048+q]      for i < 4, p < 128 over q < 2048   blocks for each part
 *     acc[i] = sum part[i,p]             for i < 4 over p < 128             and the epilogue
 *
 * Each partial sum is a point of the band, so the strategy that takes the reduction takes its
 * parts, and the epilogue is computed once. The order in which terms are added is fixed. Partial
 * sums are stored in memory between the stages, in the type of the sums. Statements that need a
 * result at each point of the row, such as a norm's last step, are a stage of their own.
 *
 * A softmax of few long rows has two reductions over the same rows: the maximum, and the sum of
 * exponentials relative to it. One stage computes the parts of both, each sum relative to the
 * maximum of its own part, and rescales them when they are combined (gpu_relative). So the rows are
 * read once for both, and once more for the output.
 *
 * The number of parts: enough to give each SM several blocks, each of at least LEAST terms; for
 * products, the number that the model of passes/schedule/gpu/gemm_choose.c finds fastest. Where the
 * number of terms is not known, a part has at least LEAST; where the number of rows is not known, a
 * large number is assumed. A product of unknown depth has as many parts as there are terms for, up
 * to a bound by the variant's guard, which bounds their memory; short sums take a variant without
 * parts.
 */
#include "passes/schedule/gpu/split_impl.h"

#include "base/round.h"
#include "passes/forms/inline.h"

#include <assert.h>

enum {
	LEAST = 2048, /* least terms of a part */
	NARROW = 8,   /* columns of the narrowest block of a column reduction */
	/* least terms of a product that is split: below, a further stage costs more than parts
	 * gain */
	DEEP = 256,
	HELD = 8192,    /* elements of a part that a block reads once */
	MANY = 1 << 16, /* parts, at most */
	/* least terms of a part if the number of rows is unknown: such parts cost little for any
	 * number */
	LARGE = 16384,
	BLOCKS = 4, /* blocks for each SM */
	/* with eight times fewer groups than SMs, most of the memory's bandwidth is unused */
	FEW = 8,
	PACK = 32, /* terms: parts begin at multiples of it, so that wide accesses are aligned */
	WHOLE = 64 /* terms: a multiple of the k of any tile */
};

typedef struct Splitter {
	const Target *t;
	Kernel *k;
	VEC(Stmt *) out;
	VEC(int) first; /* the first statement of each stage */
	Cut *cut;       /* by Stmt.id; not split if `along` is null */
	/* by Stmt.id: the combining statement of a sum whose parts have been emitted */
	Stmt **later;
	int64_t most; /* parts of a sum of unknown length; 0: there is no such sum */
	/* points of the band of the current stage; null: no statement may join it */
	Dim *points;
} Splitter;

/* Upper bound of the terms of S, at most LIMIT, in the runs that SCHED (or null) serves. *KNOWN:
 * the number is constant. */
static int64_t terms_of(Ctx *c, const Schedule *sched, const Stmt *s, int64_t limit, bool *known)
{
	int64_t n = 1, lo, hi;
	Dim *all;

	*known = true;
	for (int i = s->nband; i < s->niters; i++) {
		dim_bounds(c, s->iter[i]->extent, &lo, &hi);
		*known = *known && lo == hi;
		n = hi && n > limit / hi ? limit : n * hi;
	}
	all = iters_points(c, s->iter + s->nband, s->niters - s->nband);
	return sched && gpu_most(sched, all) < n ? gpu_most(sched, all) : n;
}

static bool may_split(Ctx *c, const Stmt *s)
{
	bool known;

	if (!s->red || s->update || s->scan || s->ordered || s->nband == s->niters ||
	    s->niters + 2 > MAX_ITERS || row_packed(s) ||
	    terms_of(c, NULL, s, 2 * LEAST, &known) < (s->red == MONOID_sum ? DEEP : 2 * LEAST))
		return false;
	for (int d = 0; d < s->nwidx; d++)
		if (s->widx[d]->kind != EX_ITER && s->widx[d]->kind != EX_CONST)
			return false;
	return s->nwidx == s->out[0]->rank;
}

bool gpu_may_split(Kernel *k)
{
	bool any = false;

	for (int i = 0; i < k->stmts.n; i++)
		any = any || may_split(k->ctx, k->stmts.at[i]);
	return any && kernel_kind(k) != FORM_ORDER;
}

/* ---- How the kernel stands without ---- */

/* Lower bound of the groups of ST, or of its blocks if each thread has an iteration. *KNOWN: the
 * number is constant. */
static int64_t blocks_of(Ctx *c, const Stage *st, bool *known)
{
	Dim *each = dim_const(c, st->block.group == 1 ? st->block.threads : 1);
	int64_t lo, hi;

	dim_bounds(c, dim_ceildiv(c, st->extent, each), &lo, &hi);
	*known = lo == hi;
	return lo < 1 ? 1 : lo;
}

/* Points of a row that a group of ST, whose nodes are N, keeps in registers; WITH_SCRATCH: and in
 * scratch. */
static int64_t kept_points(const Stage *st, const LNode *n, bool with_scratch)
{
	int64_t most = 0;

	for (; n; n = n->next) {
		const int64_t below = kept_points(st, n->body, with_scratch),
			      here = n->kind == LN_LOCAL
					     ? (int64_t)(n->local.keep +
							 (with_scratch ? n->local.scratch : 0)) *
						       st->block.group
					     : 0;

		most = most > below ? most : below;
		most = most > here ? most : here;
	}
	return most;
}

/* S and another reduction of the same rows, if both are split, read the rows once
 * (gpu_relative). */
static bool has_relative(Kernel *k, const Stmt *s)
{
	VEC_EACH (o, &k->stmts) {
		if (o->red && (gpu_is_relative(k, o, s) || gpu_is_relative(k, s, o)))
			return true;
	}
	return false;
}

/* A map reads the rows of S too, so a split makes it read them again. */
static bool read_on(Kernel *k, const Stmt *s)
{
	for (int i = 0; i < k->stmts.n; i++)
		if (!k->stmts.at[i]->red &&
		    iters_points(k->ctx, k->stmts.at[i]->iter, k->stmts.at[i]->niters) ==
			    iters_points(k->ctx, s->iter, s->niters))
			return true;
	return false;
}

/* Other statements iterate over the row of S: a split makes them read again what a group would
 * keep. */
static bool shares_row(Kernel *k, const Stmt *s)
{
	VEC_EACH (o, &k->stmts) {
		if (o != s && iters_points(k->ctx, o->iter, o->niters) !=
				      iters_points(k->ctx, s->iter, s->nband))
			return true;
	}
	return false;
}

/* LOAD of S has unit stride along the band, and depends on the term. */
static bool load_runs_along_band(Kernel *k, const Stmt *s, const Expr *load)
{
	bool along = false, term = false;
	Affine a;

	if (load->load.buf->rank == 0 || load->load.buf->data ||
	    !ex_affine(k->ctx, flat_index(k, load->load.buf, load->load.idx), &a))
		return false;
	for (int i = 0; i < s->niters; i++) {
		Dim *step = affine_coef(k->ctx, &a, s->iter[i]);

		along = along || (i < s->nband && dim_equals(step, 1));
		term = term || (i >= s->nband && !dim_equals(step, 0));
	}
	return along && term;
}

static bool runs_along_band(Kernel *k, Stmt *s)
{
	STMT_EACH_LOAD (load, s)
		if (load_runs_along_band(k, s, load))
			return true;
	return false;
}

/* The rows of a reduction in the schedule without parts. */
typedef struct RowCounts {
	const Stage *stage;
	/* lower bound of the blocks, and upper bound of the terms of a row */
	int64_t blocks, terms;
	bool known, terms_known;
} RowCounts;

/* ---- The parts ---- */

/* The largest number of parts, at most MOST and more than half of that, that divides N into
 * multiples of VECTOR; else 0. */
static int64_t even_parts(int64_t n, int64_t most, int64_t vector)
{
	for (int64_t p = most; p > 1 && 2 * p > most; p--)
		if (n % (p * vector) == 0)
			return p;
	return 0;
}

/* Cuts the terms of S into at most PARTS parts of at least LEAST terms. If their number is unknown,
 * a part has at least LEAST terms. False: there would be one part. */
static bool cut(Splitter *x, const Stmt *s, int64_t parts, int64_t least, Cut *c)
{
	Ctx *ctx = x->k->ctx;
	int64_t n = 0, v, each, beside = 1, outer = 1, even;

	c->along = c->outer = NULL;
	for (int i = s->nband; i < s->niters; i++)
		if (!dim_is_const(s->iter[i]->extent, &v)) {
			if (c->along)
				return false;
			c->along = s->iter[i];
			n = 0;
		} else if (!c->along) {
			c->along = s->iter[i];
			n = v;
		} else if (n && n < parts && v > n) {
			beside *= outer;
			outer = n;
			c->outer = c->along;
			c->along = s->iter[i];
			n = v;
		} else {
			beside *= v;
		}
	least = ceil_div(least, beside);
	parts = ceil_div(parts, outer);
	if (!n) { /* at most PARTS, each of which begins at a multiple of VECTOR */
		const int64_t vector = beside > 1 ? 1 : PACK;
		Dim *share = dim_ceildiv(ctx, c->along->extent, dim_const(ctx, parts * vector));

		share = dim_max(ctx, share, dim_const(ctx, ceil_div(least, vector)));
		c->each = dim_mul(ctx, share, dim_const(ctx, vector));
		c->parts = dim_ceildiv(ctx, c->along->extent, c->each);
		c->exact = false;
		return true;
	}
	if (parts > n / least)
		parts = n / least > 1 ? n / least : 1;
	if (parts * outer < 2)
		return false;
	even = even_parts(n, parts, beside > 1 || least < LEAST ? 1 : PACK);
	for (int64_t vector = PACK / 2; !even && beside == 1 && vector >= MOST_VECTOR; vector /= 2)
		even = even_parts(n, parts, vector);
	c->exact = even > 0;
	each = even ? n / even : (ceil_div(n, parts) + PACK - 1) / PACK * PACK;
	c->each = dim_const(ctx, each);
	c->parts = dim_const(ctx, ceil_div(n, each));
	return outer > 1 || n > each;
}

/* Map S iterates over the points of the band of a split sum. */
static bool has_points_of_sum(const Splitter *x, const Stmt *s)
{
	for (int i = 0; i < x->k->stmts.n; i++) {
		const Stmt *o = x->k->stmts.at[i];

		if (x->cut[i].along && iters_points(x->k->ctx, o->iter, o->nband) ==
					       iters_points(x->k->ctx, s->iter, s->niters))
			return true;
	}
	return false;
}

/* Cuts a product into PARTS parts of EACH terms; if the number of terms is unknown, into at most
 * PARTS parts of at least EACH. */
static bool cut_product(Splitter *x, int64_t parts, int64_t each, Cut *c)
{
	Ctx *ctx = x->k->ctx;
	Dim *n = c->along->extent, *least = dim_const(ctx, each);

	c->inner = false;
	c->exact = dim_is_const(n, NULL);
	c->parts = dim_const(ctx, parts);
	c->each = least;
	if (c->exact)
		return true;
	c->parts = dim_min(ctx, c->parts, dim_ceildiv(ctx, n, least));
	c->each = dim_mul(ctx, dim_const(ctx, WHOLE),
			  dim_ceildiv(ctx, n, dim_const(ctx, parts * WHOLE)));
	c->each = dim_max(ctx, c->each, least);
	x->most = parts;
	return true;
}

/* Least terms of a part of a sum in N: fewer for a column reduction whose block has many columns
 * and whose rows are misaligned. */
static int64_t least_terms(const LNode *n)
{
	int64_t least = LEAST;

	for (; n; n = n->next) {
		const int64_t below = least_terms(n->body),
			      own = n->columns && n->share.peel ? LEAST * NARROW / n->columns->cols
								: LEAST;

		least = below < least ? below : least;
		least = own < least ? own : least;
	}
	return least > DEEP ? least : DEEP;
}

/* Splitting S pays: its stage leaves SMs idle, and, if other statements iterate over the row, no
 * group keeps all of it. */
static bool leaves_idle(const Splitter *x, Stmt *s, const RowCounts *r)
{
	const int64_t sms = x->t->gpu->sms;

	if (!shares_row(x->k, s))
		return 2 * r->blocks <= sms && (r->known || r->terms_known);
	return FEW * r->blocks <= sms && r->known && r->terms_known &&
	       kept_points(r->stage, r->stage->body, read_on(x->k, s)) < r->terms;
}

/* Splitting S saves reads: of three passes over most of the row two remain, by more blocks. */
static bool saves_reading(const Splitter *x, Stmt *s, const RowCounts *r)
{
	return shares_row(x->k, s) && r->terms_known && has_relative(x->k, s) &&
	       (r->blocks < x->t->gpu->sms ? 2 : 4) * kept_points(r->stage, r->stage->body, true) <
		       r->terms;
}

/* Whether reduction S of schedule SCHED is split; *C: how. */
static bool choose(Splitter *x, const Schedule *sched, Stmt *s, Cut *c)
{
	RowCounts r = {.stage = schedule_stage_of(sched, s->id, PART_TERM)};
	int64_t parts, n, least;

	if (!r.stage || !may_split(x->k->ctx, s))
		return false;
	if (!strcmp(r.stage->strategy, "product")) {
		parts = sched_gpu_parts(x->t, x->k, sched, &c->along, &n);
		return parts > 1 && cut_product(x, parts, n, c);
	}
	r.blocks = blocks_of(x->k->ctx, r.stage, &r.known);
	n = r.terms = terms_of(x->k->ctx, sched, s, INT64_MAX, &r.terms_known);
	parts = (BLOCKS * x->t->gpu->sms + r.blocks - 1) / r.blocks;
	if (saves_reading(x, s, &r))
		parts = parts > n / HELD ? parts : n / HELD < MANY ? n / HELD : MANY;
	else if (!leaves_idle(x, s, &r))
		return false;
	least = r.known ? least_terms(r.stage->body) : LARGE;
	if (least < LEAST && !even_parts(n, parts < n / least ? parts : n / least, 1))
		least = LEAST; /* unequal parts need guards, which column reductions do not take */
	if (n < 2 * least)
		return false;
	c->inner = monoid_info[s->red].n > 1 || !runs_along_band(x->k, s);
	return cut(x, s, parts, least, c);
}

/* ---- All of them ---- */

static void emit(Splitter *x, Stmt *s, bool stage)
{
	if (stage)
		vec_push(x->k->arena, &x->first, x->out.n);
	s->id = x->out.n;
	vec_push(x->k->arena, &x->out, s);
}

/* Emits S; it joins the current stage if it has the same points as the sum before it. */
static void follow(Splitter *x, Stmt *s)
{
	Dim *points = iters_points(x->k->ctx, s->iter, s->nband);

	emit(x, s, points != x->points);
	x->points = s->red || stmt_is_map(s) ? points : NULL;
}

/* S is recomputed where it is read: it is a temporary of the whole row, which would go through
 * memory, or a copy that is only useful for rows that stay whole
 * (passes/kernel/hoist.c). */
static bool is_recomputed(Splitter *x, const Stmt *s)
{
	Kernel *k = x->k;

	if (!inline_may(k, s->id) || (has_points_of_sum(x, s) && !inline_is_free(s)))
		return false;
	inline_after(k, s->id);
	return true;
}

static void split(Splitter *x, int i)
{
	Kernel *k = x->k;
	const Stmt *s = k->stmts.at[i];
	Partials h;

	if (x->later[i]) {
		follow(x, x->later[i]);
		return;
	}
	gpu_partials(k, s, &x->cut[i], &h);
	emit(x, h.part, true);
	for (int j = i + 1; j < k->stmts.n; j++) {
		const Stmt *o = k->stmts.at[j];
		Partials ho;

		if (!x->cut[j].along || !gpu_is_relative(k, s, o) ||
		    !gpu_cut_alike(s, &x->cut[i], o, &x->cut[j]))
			continue;
		gpu_partials(k, o, &x->cut[j], &ho);
		gpu_relative(k, s, &h, &x->cut[i], o, &ho);
		emit(x, ho.part, false);
		x->later[j] = ho.whole;
		break;
	}
	emit(x, h.whole, true);
	x->points = iters_points(k->ctx, h.whole->iter, h.n);
}

bool gpu_split(const Target *t, Kernel *k, Schedule *sched, int **first, int *n)
{
	Splitter x = {.t = t, .k = k};
	bool any = false, *recomputed;

	x.cut = NEW_ARRAY(k->arena, k->stmts.n, Cut);
	x.later = NEW_ARRAY(k->arena, k->stmts.n, Stmt *);
	for (int i = 0; i < k->stmts.n; i++) {
		if (!choose(&x, sched, k->stmts.at[i], &x.cut[i]))
			x.cut[i].along = NULL;
		any = any || x.cut[i].along;
	}
	if (!any)
		return false;
	sched->parts = x.most;
	recomputed = NEW_ARRAY(k->arena, k->stmts.n, bool);
	for (int i = 0; i < k->stmts.n; i++)
		recomputed[i] = is_recomputed(&x, k->stmts.at[i]);
	for (int i = 0; i < k->stmts.n; i++)
		if (x.cut[i].along)
			split(&x, i);
		else if (!recomputed[i])
			follow(&x, k->stmts.at[i]);
	k->stmts.n = 0;
	for (int i = 0; i < x.out.n; i++)
		vec_push(k->arena, &k->stmts, x.out.at[i]);
	kernel_renumber(k);
	*first = x.first.at;
	*n = x.first.n;
	return true;
}
