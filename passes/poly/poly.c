/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a schedule executes each point of each statement exactly once, and reports the
 * result. */
#include "passes/poly/poly_impl.h"

#include <isl/options.h>
#include <string.h>

/* WHY, a list of reasons, has TEXT. */
static bool has_reason(const StrBuf *why, const char *text)
{
	const size_t n = strlen(text);
	const char *all = why->n ? strbuf_str(why) : "", *at = all;

	for (; (at = strstr(at, text)); at++)
		if ((at == all || at[-1] == ' ') && (!at[n] || at[n] == ';'))
			return true;
	return false;
}

static void put(Poly *p, const char *fmt, va_list ap)
{
	char *text = arena_vprintf(p->arena, fmt, ap);

	if (has_reason(p->why, text))
		return;
	if (p->why->n)
		strbuf_puts(p->why, "; ");
	strbuf_puts(p->why, text);
}

void poly_wrong(Poly *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (!p->wrong)
		p->why->n = 0;
	put(p, fmt, ap);
	p->wrong = true;
	va_end(ap);
}

void poly_unproved(Poly *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (!p->wrong)
		put(p, fmt, ap);
	p->unproved = true;
	va_end(ap);
}

void poly_unchecked(Poly *p, const char *fmt, ...)
{
	va_list ap;

	if (!p->s->stated)
		return;
	va_start(ap, fmt);
	if (!p->wrong)
		put(p, fmt, ap);
	p->unproved = true;
	va_end(ap);
}

/* ---- Every point, once ---- */

static const char *const part_names[] = {"nothing", "the first value of the state", "a term",
					 "the write"};

typedef struct WholePart {
	Stmt *s;
	LPart part;
	int comp, n; /* number of coordinates of the points */
} WholePart;

/* E reads its terms from copies of operands. Where the guard fails, these hold values that do not
 * change the state. */
static bool is_padded(const Poly *p, const Exec *e)
{
	if (e->node->kind == LN_TILE || e->node->kind == LN_OP)
		return true;
	for (int i = 0; i < p->locals.n && e->part == PART_TERM; i++) {
		const Buf *b = p->locals.at[i].buf;
		bool holds = false;

		for (int j = 0; j < p->execs.n; j++)
			holds = holds || p->execs.at[j]->buf[0] == b || p->execs.at[j]->buf[1] == b;
		if (!holds && poly_node_loads(e->node, b))
			return true;
	}
	return false;
}

static bool any_padded(const Poly *p, int stmt)
{
	for (int i = 0; i < p->execs.n; i++)
		if (p->execs.at[i]->stmt == stmt && is_padded(p, p->execs.at[i]))
			return true;
	return false;
}

/* The set of points; only those where the guard holds, unless ALL. */
static isl_set *domain(Poly *p, const WholePart *w, bool all, int *odd)
{
	const Coords *c = &p->coords[w->s->id];
	SetDims sc = {c->it, w->n};
	isl_set *set = poly_universe(p, w->n);
	bool guarded = !all && (w->part == PART_TERM || (w->part == PART_WRITE && !w->s->red));

	for (int i = 0; i < w->n; i++) {
		Expr *x = ex_iter(p->pool, c->it[i]);

		poly_at_least(p, &sc, &set, x, ex_int(p->pool, CT_I64, 0));
		poly_below(p, &sc, &set, x, ex_dim(p->pool, c->it[i]->extent), odd);
	}
	if (guarded)
		*odd += poly_guard(p, &sc, &set, w->s->guard);
	return set;
}

static void point(Poly *p, const WholePart *w, isl_set *bad, const char *how)
{
	isl_set *one = isl_set_from_basic_set(
		isl_set_sample(isl_set_intersect_params(bad, poly_context(p))));
	char *text = isl_set_to_str(one);

	if (text)
		poly_wrong(p, "%s of statement %d at %s %s", part_names[w->part], w->s->id, text,
			   how);
	free(text);
	isl_set_free(one);
}

/* The points that E carries out twice. */
static isl_set *twice(const Exec *e)
{
	isl_map *pairs = isl_map_apply_range(isl_map_copy(e->map),
					     isl_map_reverse(isl_map_copy(e->map)));
	isl_map *other;

	pairs = isl_map_subtract(pairs, isl_map_identity(isl_map_get_space(pairs)));
	other = isl_map_intersect_domain(isl_map_copy(e->map), isl_map_domain(pairs));
	return isl_map_range(other);
}

static void check_once(Poly *p, const WholePart *w, Exec *const *e, int n)
{
	for (int i = 0; i < n; i++) {
		isl_map *m = isl_map_intersect_params(isl_map_copy(e[i]->map), poly_context(p));

		if (isl_map_is_injective(m) == isl_bool_false) {
			isl_set *bad = twice(e[i]);

			if (!poly_empty(p, isl_set_copy(bad)))
				point(p, w, isl_set_copy(bad), "is executed twice");
			isl_set_free(bad);
		}
		isl_map_free(m);
		for (int j = 0; j < i; j++) {
			isl_set *both = isl_set_intersect(isl_map_range(isl_map_copy(e[i]->map)),
							  isl_map_range(isl_map_copy(e[j]->map)));

			if (!poly_empty(p, isl_set_copy(both)))
				point(p, w, isl_set_copy(both), "is executed twice");
			isl_set_free(both);
		}
	}
}

static void check_whole(Poly *p, const WholePart *w)
{
	Exec **e = NEW_ARRAY(p->arena, p->execs.n + 1, Exec *);
	int n = 0, odd = 0, none = 0;
	bool weak = false, rests = false, lacks,
	     padded = w->part == PART_TERM && any_padded(p, w->s->id);
	isl_set *need = domain(p, w, false, &odd), *may = domain(p, w, padded, &none),
		*done = isl_set_empty(isl_set_get_space(need));
	isl_set *left, *extra;

	VEC_EACH (x, &p->execs) {
		if (x->stmt != w->s->id || x->part != w->part ||
		    (x->part != PART_TERM && x->comp != w->comp && x->node->kind != LN_TILE))
			continue;
		if (x->nat != w->n) {
			poly_wrong(p, "%s of statement %d is not done at a point of it",
				   part_names[w->part], w->s->id);
			isl_set_free(need);
			isl_set_free(may);
			isl_set_free(done);
			return;
		}
		weak = weak || x->weak || x->odd != (padded ? 0 : odd);
		/* a guard may depend on a rest, which is not a free number at a point, so that what
		 * is left may be empty after all */
		rests = rests || (w->s->guard && poly_has_rests(p, x));
		e[n++] = x;
		done = isl_set_union(done, isl_map_range(isl_map_copy(x->map)));
	}
	left = isl_set_subtract(need, isl_set_copy(done));
	extra = isl_set_subtract(done, may);
	lacks = !poly_empty(p, isl_set_copy(left));
	if (lacks && !rests)
		point(p, w, isl_set_copy(left), "is not carried out");
	else if (weak || lacks)
		poly_unproved(p, "that %s of statement %d is done everywhere, once",
			      part_names[w->part], w->s->id);
	else if (!poly_empty(p, isl_set_copy(extra)))
		point(p, w, isl_set_copy(extra),
		      "is executed, but is not a point of the statement");
	else
		check_once(p, w, e, n);
	isl_set_free(left);
	isl_set_free(extra);
}

static void check_points(Poly *p)
{
	for (int i = 0; i < p->k->stmts.n; i++) {
		Stmt *s = p->k->stmts.at[i];
		bool scatter = s->red && s->update && s->nband == s->niters;
		const Coords *c = &p->coords[i];
		WholePart w = {.s = s};

		if (s->red) {
			w.part = PART_TERM;
			w.n = c->n;
			check_whole(p, &w);
		}
		for (w.comp = 0; s->red && !scatter && w.comp < monoid_info[s->red].n; w.comp++) {
			w.part = PART_INIT;
			w.n = c->nband;
			check_whole(p, &w);
		}
		for (w.comp = 0; !scatter && w.comp < s->nout; w.comp++) {
			w.part = PART_WRITE;
			w.n = s->red && !s->scan ? c->nband : c->n;
			check_whole(p, &w);
		}
	}
}

/* ---- Verdicts ---- */

static void free_all(Poly *p)
{
	for (int i = 0; i < p->execs.n; i++)
		isl_map_free(p->execs.at[i]->map);
	for (int i = 0; i < p->moves.n; i++)
		isl_map_free(p->moves.at[i]->map);
	for (int i = 0; i < p->outers.n; i++)
		isl_set_free(p->outers.at[i].set);
	for (int i = 0; i < p->params.n; i++)
		isl_id_free(p->params.at[i].id);
	for (int i = 0; i < p->rests.n; i++)
		isl_id_free(p->rests.at[i].id);
	isl_set_free(p->context);
	isl_ctx_free(p->isl);
}

/* N, or a node after it, folds a tile, other than by terms of a statement. */
static bool has_folds(const LNode *n)
{
	for (; n; n = n->next)
		if ((n->kind == LN_OP && n->point.part == PART_NONE && n->op->op == TILE_FOLD) ||
		    has_folds(n->body))
			return true;
	return false;
}

PolyVerdict poly_verdict(Kernel *original, Schedule *s, unsigned long operations, StrBuf *why)
{
	enum { OPERATIONS = 1600000 };
	Arena *a;
	Poly p;

	for (int i = 0; i < s->stages.n; i++)
		if (has_folds(s->stages.at[i]->block.head) || has_folds(s->stages.at[i]->body)) {
			strbuf_puts(why, "it folds tiles, of which isl knows nothing");
			return POLY_UNPROVED;
		}
	a = arena_new();
	p = (Poly) {.ctx = original->ctx, .arena = a, .k = original, .s = s, .why = why};

	p.pool = expr_pool_new(p.ctx, a);
	p.isl = isl_ctx_alloc();
	isl_options_set_on_error(p.isl, ISL_ON_ERROR_CONTINUE);
	isl_ctx_set_max_operations(p.isl, operations ? operations : OPERATIONS);
	poly_read_tree(&p);
	check_points(&p);
	if (!p.wrong)
		poly_check_values(&p);
	if (!p.wrong)
		poly_check_deps(&p);
	if (!p.wrong)
		poly_check_memory(&p);
	if (isl_ctx_last_error(p.isl) == isl_error_quota)
		poly_unproved(&p, "the budget is spent");
	else if (isl_ctx_last_error(p.isl) != isl_error_none)
		poly_unproved(&p, "isl: %s", isl_ctx_last_error_msg(p.isl));
	if (p.wrong && p.opaque) {
		p.wrong = false;
		why->n = 0;
		poly_unproved(&p, "sizes of it are products that are too long");
	}
	free_all(&p);
	arena_free(a);
	return p.wrong ? POLY_WRONG : p.unproved ? POLY_UNPROVED : POLY_PROVED;
}

PolyVerdict poly_check(Kernel *original, Schedule *s, Diag *d)
{
	STRBUF_LOCAL(why);
	const Loc first = locs_first(original->locs);
	const DiagLoc loc = {.node = first.node, .op = first.op};
	PolyVerdict v = poly_verdict(original, s, 0, &why);

	if (v == POLY_WRONG)
		diag_error(d, loc, "the schedule of kernel @%s is wrong: %s", s->kernel->name,
			   strbuf_str(&why));
	else if (v == POLY_UNPROVED)
		diag_warning(d, loc, "unproved", "the schedule of kernel @%s is not proved: %s",
			     s->kernel->name, strbuf_str(&why));
	return v;
}

/* Hashes of the texts of checked schedules. */
typedef VEC(uint64_t) Seen;

/* A hash of K and S without names and source locations. */
static uint64_t shape_hash(Kernel *k, Schedule *s)
{
	Kernel plain = *k;
	Loc *locs = NEW_ARRAY(k->arena, k->stmts.n + 1, Loc);
	STRBUF_LOCAL(b);

	plain.name = "k";
	plain.locs = NULL;
	for (int i = 0; i < k->stmts.n; i++) {
		locs[i] = k->stmts.at[i]->loc;
		k->stmts.at[i]->loc = (Loc){0};
	}
	kernel_print(&b, &plain);
	for (int i = 0; i < k->stmts.n; i++)
		k->stmts.at[i]->loc = locs[i];
	schedule_print_bare(&b, s);
	return hash_bytes(HASH_SEED, strbuf_str(&b), b.n);
}

static bool seen_before(Arena *a, Seen *seen, Kernel *k, Schedule *s)
{
	uint64_t h = shape_hash(k, s);

	for (int i = 0; i < seen->n; i++)
		if (seen->at[i] == h)
			return true;
	vec_push(a, seen, h);
	return false;
}

bool poly_check_module(Module *m, Diag *d)
{
	const int errors = d->errors;
	ARENA_LOCAL(a);

	m->verified = (Verified){0};
	for (int t = 0; t < m->ntargets; t++) {
		Seen seen = {0};

		for (Node *n = m->graph->first; n; n = n->next)
			for (Schedule *s = n->id < m->nsched ? m->sched[t][n->id] : NULL; s;
			     s = s->next) {
				int *const count[] = {[POLY_PROVED] = &m->verified.proved,
						      [POLY_UNPROVED] = &m->verified.unproved,
						      [POLY_WRONG] = &m->verified.wrong};

				if (seen_before(a, &seen, node_kernel(n), s))
					m->verified.equal++;
				else
					++*count[poly_check(s->split ? s->split : node_kernel(n), s,
							    d)];
			}
	}
	return d->errors == errors;
}
