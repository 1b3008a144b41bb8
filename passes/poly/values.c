/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of values: each node computes what its statement computes at the point that the node
 * names, from the elements that the statement reads there, and stores it where the statement
 * writes. Without this check, a strategy that loses an iterator only in a value would be proved,
 * as all points are still carried out once.
 *
 * The statement's expression, with the node's point in place of its iterators, is compared with the
 * node's own. Where their forms differ, indices are compared by isl over all times of the node. A
 * load of a local that other nodes store to must read the element that holds the statement's value:
 * such pairs are recorded (Read) and compared with each flow between statements
 * (poly_check_holder).
 *
 * Not checked: the contents of copies of operands (packing, tiles in shared memory). The schedule
 * of a text that has them is not proved.
 */
#include "passes/forms/read_when.h"
#include "passes/poly/poly_impl.h"

static Answer worse(Answer a, Answer b)
{
	return a == DIFFERENT || b == DIFFERENT ? DIFFERENT : a == UNKNOWN ? a : b;
}

/* ---- Indices and conditions ---- */

/* SET (taken) holds at no time of E. */
static bool never(const ValueMatch *m, isl_set *set)
{
	return poly_empty(m->p, isl_set_intersect(set, isl_map_domain(isl_map_copy(m->e->map))));
}

static Answer same_index(const ValueMatch *m, Expr *a, Expr *b)
{
	Expr *off = a == b ? NULL : ex_sub(m->p->pool, a, b);
	isl_pw_aff *x;
	isl_set *apart;

	if (!off || (off->kind == EX_CONST && !off->i))
		return SAME;
	x = poly_aff(m->p, &m->sc, off);
	if (!x)
		return UNKNOWN;
	apart = isl_pw_aff_ne_set(x, poly_aff(m->p, &m->sc, ex_int(m->p->pool, CT_I64, 0)));
	if (never(m, apart))
		return SAME;
	return off->kind == EX_CONST || !m->e->weak ? DIFFERENT : UNKNOWN;
}

bool poly_always(const ValueMatch *m, Expr *c, bool value)
{
	isl_set *set = poly_cond(m->p, &m->sc, c);

	if (!set)
		return false;
	return never(m, value ? isl_set_complement(set) : set);
}

/* The operand of E, a min, max or select, that E is at all times; null: there is none. */
static Expr *settled(const ValueMatch *m, const Expr *e)
{
	Expr *first = NULL;

	if (e->ct != CT_I64)
		return NULL;
	if (ex_is_op(e, IN_select))
		return poly_always(m, e->op.arg[0], true)    ? e->op.arg[1]
		       : poly_always(m, e->op.arg[0], false) ? e->op.arg[2]
							     : NULL;
	if (ex_is_op(e, IN_min) || ex_is_op(e, IN_max))
		first = ex_op2(m->p->pool, ex_is_op(e, IN_min) ? IN_le : IN_ge, e->op.arg[0],
			       e->op.arg[1]);
	return !first                         ? NULL
	       : poly_always(m, first, true)  ? e->op.arg[0]
	       : poly_always(m, first, false) ? e->op.arg[1]
					      : NULL;
}

Answer poly_same_index(const ValueMatch *m, Expr *a, Expr *b)
{
	Answer is = same_index(m, a, b);

	if (is != UNKNOWN)
		return is;
	EX_MAP (x, m->p->pool, &a)
		x = settled(m, x) ?: x;
	EX_MAP (x, m->p->pool, &b)
		x = settled(m, x) ?: x;
	return same_index(m, a, b);
}

/* ---- Loads ---- */

const Buf *poly_original(const Poly *p, const Buf *b)
{
	return b->id < p->k->bufs.n ? p->k->bufs.at[b->id] : NULL;
}

/* A node that carries out a statement stores to local B. */
static bool is_stored(const Poly *p, const Buf *b)
{
	for (int i = 0; i < p->execs.n; i++)
		if (p->execs.at[i]->buf[0] == b || p->execs.at[i]->buf[1] == b)
			return true;
	return false;
}

Expr *poly_flat(Poly *p, const Buf *b, Expr *const *idx, int n)
{
	Kernel k = {.ctx = p->ctx, .pool = p->pool};

	return n == b->rank ? flat_index(&k, b, idx) : idx[0];
}

/* The value that E loads from a local that is only copied to, from the local's declaration
 * (LN_LOCAL); or null. */
static Expr *declared(const Poly *p, const Expr *e)
{
	VEC_EACH_AT (k, &p->kept)
		if (k->buf == e->load.buf && !is_stored(p, k->buf))
			return ex_subst_iters(p->pool, k->is, &k->var, e->load.idx, 1);
	return NULL;
}

/*
 * The canonical form. Buffers that the kernel only reads are accessed by flat indices into the
 * original's buffers; those that it writes may be locals. Remainders are written as x - x div n *
 * n, so that a quotient and its remainder combine to one number again.
 */
static Expr *one_form(Poly *p, Expr *e)
{
	const Buf *b = e->kind == EX_LOAD ? poly_original(p, e->load.buf) : NULL;
	Expr *at;

	if (b && b->kind == BUF_IN) {
		at = poly_flat(p, b, e->load.idx, e->load.nidx);
		return ex_load(p->pool, (Buf *)(uintptr_t)b, &at, 1);
	}
	if (e->kind == EX_LOAD && !b) {
		at = declared(p, e);
		EX_MAP (x, p->pool, &at)
			x = one_form(p, x) ?: x;
		return at;
	}
	if (e->ct != CT_I64 || !ex_is_op(e, IN_mod) || !ex_as_dim(p->ctx, e->op.arg[1]))
		return NULL;
	at = ex_op2(p->pool, IN_floordiv, e->op.arg[0], e->op.arg[1]);
	return ex_sub(p->pool, e->op.arg[0], ex_mul(p->pool, at, e->op.arg[1]));
}

/* repeated, as simplification may create new remainders */
Expr *poly_form(Poly *p, Expr *e)
{
	enum { ROUNDS = 4 };
	Expr *before = NULL;

	e = poly_by_parts(p, e);
	for (int i = 0; i < ROUNDS && e != before; i++) {
		before = e;
		EX_MAP (x, p->pool, &e)
			x = one_form(p, x) ?: x;
	}
	return e;
}

static Answer same(const ValueMatch *m, Expr *want, Expr *got);

static Answer same_load(const ValueMatch *m, Expr *want, Expr *got)
{
	const Buf *w = want->load.buf, *b = got->load.buf;
	Read r = {w, want->load.idx, want->load.nidx, b, got->load.idx[0]};

	if (poly_original(m->p, b))
		return same(m, poly_form(m->p, poly_flat(m->p, w, r.idx, r.nidx)),
			    poly_form(m->p, poly_flat(m->p, b, got->load.idx, got->load.nidx)));
	if (is_stored(m->p, b))
		vec_push(m->p->arena, &m->e->reads, r);
	else
		poly_unchecked(m->p, "that %s holds copies of the elements that are read", b->name);
	return SAME;
}

/* ---- Values of the kernel that the schedule recomputes instead of reading ---- */

/* A point of a map: its iterators and their values. */
typedef struct MapPoint {
	Iter *from[MAX_RANK];
	Expr *is[MAX_RANK];
	int n;
} MapPoint;

/* Whether S, at some point, writes elements whose index D is AT at all times. An iterator that is
 * that index but for an offset is added to POINT. */
static bool reaches(const ValueMatch *m, const Stmt *s, int d, Expr *at, MapPoint *point)
{
	ExprPool *p = m->p->pool;
	Expr *w = ex_subst_iters(p, s->widx[d], NULL, NULL, 0), *off, *is; /* in pool P */

	for (int i = 0; i < s->niters; i++) {
		Iter *it = s->iter[i];

		off = ex_sub(p, w, ex_iter(p, it));
		if (off->kind != EX_CONST && off->kind != EX_DIM)
			continue;
		is = ex_sub(p, at, off);
		point->from[point->n] = it;
		point->is[point->n++] = is;
		return it->extent == s->out[0]->dims[d] ||
		       (poly_always(m, ex_op2(p, IN_ge, is, ex_int(p, CT_I64, 0)), true) &&
			poly_always(m, ex_op2(p, IN_lt, is, ex_dim(p, it->extent)), true));
	}
	return w->kind == EX_CONST && poly_always(m, ex_op2(p, IN_eq, at, w), true);
}

/* Whether S, a map, writes the element that E loads at all times, and if so at which point. */
static bool point_of(const ValueMatch *m, const Stmt *s, const Expr *e, MapPoint *point)
{
	point->n = 0;
	if (e->load.nidx != s->nwidx)
		return false;
	for (int d = 0; d < s->nwidx; d++)
		if (!reaches(m, s, d, e->load.idx[d], point))
			return false;
	for (int i = 0; i < s->niters; i++) {
		int found = 0;

		for (int k = 0; k < point->n; k++)
			found += point->from[k] == s->iter[i];
		if (found != 1)
			return false;
	}
	return true;
}

/* The value of the element that E loads, as computed by the map that writes it, one of several
 * where they write parts of the buffer; null if there is none. */
static Expr *map_value(const ValueMatch *m, const Expr *e)
{
	ExprPool *p = m->p->pool;
	const Buf *b = e->load.buf;
	Expr *value = NULL;
	MapPoint at;

	for (int i = 0; i < m->p->k->stmts.n && b->kind != BUF_IN; i++) {
		const Stmt *s = m->p->k->stmts.at[i];

		if (!stmt_writes(s, b))
			continue;
		if (!stmt_is_map(s) || s->guard) /* it may write this element, too */
			return NULL;
		if (!value && point_of(m, s, e, &at))
			value = ex_subst_iters(p, s->val[0], at.from, at.is, at.n);
	}
	return value ? poly_form(m->p, ex_round(p, b->dtype, value)) : NULL;
}

/* ---- Expressions ---- */

/* WANT and GOT are the same; otherwise the reads that were found are dropped. */
static bool is_same(const ValueMatch *m, Expr *want, Expr *got)
{
	const int reads = m->e->reads.n;

	if (same(m, want, got) == SAME)
		return true;
	m->e->reads.n = reads;
	return false;
}

/* The terms of a sum of integers, with their signs. */
enum { MAX_SUMMANDS = 16 };

typedef struct Summands {
	Expr *at[MAX_SUMMANDS];
	bool minus[MAX_SUMMANDS];
	int n;
} Summands;

static void summands(Expr *e, bool minus, Summands *s)
{
	if (ex_is_op(e, IN_add) || ex_is_op(e, IN_sub)) {
		summands(e->op.arg[0], minus, s);
		summands(e->op.arg[1], ex_is_op(e, IN_sub) ? !minus : minus, s);
	} else if (ex_is_op(e, IN_neg)) {
		summands(e->op.arg[0], !minus, s);
	} else if (s->n < MAX_SUMMANDS) {
		s->at[s->n] = e;
		s->minus[s->n++] = minus;
	}
}

/* WANT and GOT are sums of integers with the same terms in any order. */
static bool same_sum(const ValueMatch *m, Expr *want, Expr *got)
{
	Summands w = {.n = 0}, g = {.n = 0};
	bool found = want->ct == CT_I64;

	summands(want, false, &w);
	summands(got, false, &g);
	found = found && w.n > 1 && w.n == g.n && w.n < MAX_SUMMANDS;
	for (int i = 0; i < w.n && found; i++) {
		found = false;
		for (int j = i; j < g.n && !found; j++) {
			found = w.minus[i] == g.minus[j] && is_same(m, w.at[i], g.at[j]);
			if (found) {
				g.at[j] = g.at[i];
				g.minus[j] = g.minus[i];
			}
		}
	}
	return found;
}

static Answer same_operands(const ValueMatch *m, Expr *want, Expr *got)
{
	Answer a = SAME;

	if (want->op.inst != got->op.inst || want->op.dtype != got->op.dtype ||
	    want->op.n != got->op.n)
		return DIFFERENT;
	for (int i = 0; i < want->op.n && a != DIFFERENT; i++)
		a = worse(a, same(m, want->op.arg[i], got->op.arg[i]));
	return a;
}

/* E; if it is a select that always takes the same arm, that arm. */
static Expr *taken_arm(const ValueMatch *m, Expr *e)
{
	while (ex_is_op(e, IN_select)) {
		if (poly_always(m, e->op.arg[0], true))
			e = e->op.arg[1];
		else if (poly_always(m, e->op.arg[0], false))
			e = e->op.arg[2];
		else
			break;
	}
	return e;
}

/* E is a select whose condition both holds and fails at all times: there are none, as in the
 * part of a divided loop that is empty whatever the sizes are. */
static bool never_runs(const ValueMatch *m, Expr *e)
{
	return ex_is_op(e, IN_select) && poly_always(m, e->op.arg[0], true) &&
	       poly_always(m, e->op.arg[0], false);
}

/* When the condition of CHOICE, a select, holds is known exactly. */
static bool decided(const ValueMatch *m, const Expr *choice)
{
	isl_set *c = poly_cond(m->p, &m->sc, choice->op.arg[0]);
	const bool known = c && !m->e->weak;

	isl_set_free(c);
	return known;
}

/* CHOICE, a select that takes both arms, differs from ONE if an arm does. */
static Answer same_choice(const ValueMatch *m, Expr *choice, Expr *one)
{
	return decided(m, choice) && (same(m, choice->op.arg[1], one) == DIFFERENT ||
				      same(m, choice->op.arg[2], one) == DIFFERENT)
		       ? DIFFERENT
		       : UNKNOWN;
}

static bool has_undecided(const ValueMatch *m, Expr *e)
{
	EX_EACH (x, e)
		if (ex_is_op(x, IN_select) && !decided(m, x))
			return true;
	return false;
}

/* E loads from a copy of WANT's elements, which may be held in a wider type. */
static bool is_copy(const ValueMatch *m, const Expr *want, const Expr *e)
{
	if (want->kind == EX_LOAD && ex_is_op(e, IN_round) &&
	    e->op.dtype == want->load.buf->dtype)
		e = e->op.arg[0];
	return e->kind == EX_LOAD && !poly_original(m->p, e->load.buf) &&
	       !is_stored(m->p, e->load.buf);
}

static Answer same(const ValueMatch *m, Expr *want, Expr *got)
{
	Answer a;

	if (want == got)
		return SAME;
	if (is_copy(m, want, got)) {
		poly_unchecked(m->p, "that %s holds copies of the elements that are read",
			       got->kind == EX_LOAD ? got->load.buf->name : "a local");
		return SAME;
	}
	if (want->kind == EX_LOAD && got->kind == EX_LOAD &&
	    (!poly_original(m->p, got->load.buf) ||
	     poly_original(m->p, got->load.buf) == want->load.buf))
		return same_load(m, want, got);
	if (want->kind == EX_LOAD) {
		want = map_value(m, want);
		return want ? same(m, want, got) : DIFFERENT;
	}
	if (want->ct != got->ct)
		return DIFFERENT;
	if (want->ct == CT_I64 && (poly_same_index(m, want, got) == SAME || same_sum(m, want, got)))
		return SAME;
	if (ex_is_op(want, IN_select) != ex_is_op(got, IN_select)) {
		if (never_runs(m, want))
			return SAME;
		want = taken_arm(m, want);
		got = taken_arm(m, got);
		if (ex_is_op(want, IN_select) == ex_is_op(got, IN_select))
			return same(m, want, got);
		return ex_is_op(want, IN_select) ? same_choice(m, want, got) : UNKNOWN;
	}
	a = want->kind == EX_INST && got->kind == EX_INST ? same_operands(m, want, got) : DIFFERENT;
	if (a == DIFFERENT) {
		/* as a rounded choice: in a loop over one arm's points, the node has that arm
		 * rounded */
		Expr *w = want;

		EX_MAP (x, m->p->pool, &w)
			x = taken_arm(m, x);
		if (w != want)
			return same(m, w, got);
		a = has_undecided(m, want) ? UNKNOWN : a;
	}
	return a == DIFFERENT && want->ct == CT_I64 ? poly_same_index(m, want, got) : a;
}

/* ---- Nodes ---- */

Expr *poly_at_point(const ValueMatch *m, const Stmt *s, Expr *e)
{
	return poly_form(m->p, ex_subst_iters(m->p->pool, e, s->iter, m->e->point, m->e->npoint));
}

const char *poly_text(const ValueMatch *m, const Expr *e)
{
	STRBUF_LOCAL(b);

	ex_print(&b, e);
	return arena_strdup(m->p->arena, strbuf_str(&b));
}

/* Reports if WANT, the statement's WHAT, differs from GOT, the node's. */
static void compare(const ValueMatch *m, const char *what, Expr *want, Expr *got)
{
	const Answer a = same(m, want, got);

	if (a == DIFFERENT)
		poly_wrong(
			m->p,
			"the %s of statement %d at the point of a node is %s, and that of the node %s",
			what, m->e->stmt, poly_text(m, want), poly_text(m, got));
	else if (a == UNKNOWN)
		poly_unproved(
			m->p,
			"that the %s of statement %d at the point of a node, %s, is that of the node, %s",
			what, m->e->stmt, poly_text(m, want), poly_text(m, got));
}

/* Terms of statement S are added to component C of state B, or to a partial state that another node
 * adds to B, or to registers that one copies to B. */
static bool has_terms(const Poly *p, const Stmt *s, int c, const Buf *b)
{
	VEC_EACH (e, &p->execs) {
		if (e->stmt != s->id || e->part != PART_TERM)
			continue;
		if (e->buf[c] == b)
			return true;
		VEC_EACH (n, &p->copies) {
			if (n->store.buf[c] != b)
				continue;
			if (n->op && n->store.val[c]->kind == EX_LOAD &&
			    n->store.val[c]->load.buf == e->buf[c])
				return true;
			if (n->kind == LN_UPDATE && n->store.red == s->red &&
			    n->store.val[c]->kind == EX_LOAD &&
			    n->store.val[c]->load.buf == e->buf[c])
				return true;
		}
	}
	return false;
}

/* The write of reduction S must store its state. Where its guard is false, that has no terms. */
static void check_state(const ValueMatch *m, const Stmt *s, int c, const Expr *got)
{
	const bool none = s->guard && s->guard->kind == EX_CONST && !s->guard->i;

	if (got->kind != EX_LOAD || (!none && !has_terms(m->p, s, c, got->load.buf)))
		poly_wrong(m->p, "a node stores %s, which is not a state of statement %d",
			   poly_text(m, got), s->id);
}

/* Checks GOT, component C of the value of execution m->e. */
static void check_value(const ValueMatch *m, const Stmt *s, int c, Expr *got)
{
	Expr *want = NULL;

	if (m->e->part == PART_TERM || !s->red)
		want = poly_at_point(m, s, s->val[c]);
	else if (m->e->part == PART_INIT && !(s->update && c < s->nout))
		want = monoid_identity(m->p->pool, s->red, c, got->ct);
	else if (m->e->part == PART_WRITE)
		check_state(m, s, c, got);
	/* a stored value is rounded to the element's type */
	if (want && m->e->part == PART_WRITE) {
		want = ex_round(m->p->pool, s->out[c]->dtype, want);
		got = ex_round(m->p->pool, s->out[c]->dtype, got);
	}
	if (want)
		compare(m, "value", want, poly_form(m->p, got));
}

static void check_place(const ValueMatch *m, const Stmt *s, const Buf *b)
{
	const Buf *is = poly_original(m->p, b);
	Expr *idx[MAX_RANK];

	if (!is || !m->e->idx)
		return;
	for (int d = 0; d < s->nwidx; d++)
		idx[d] = poly_at_point(m, s, s->widx[d]);
	compare(m, "place", poly_form(m->p, poly_flat(m->p, is, idx, s->nwidx)),
		poly_form(m->p, m->e->idx));
}

/* Conjunct WANT is one of GOT's. */
static bool has_conjunct(const ValueMatch *m, Expr *got, Expr *want)
{
	if (ex_is_op(got, IN_and))
		return has_conjunct(m, got->op.arg[0], want) ||
		       has_conjunct(m, got->op.arg[1], want);
	return same(m, want, got) == SAME;
}

/* The range that ends at HI is empty where WANT fails. */
static bool ends_where(const ValueMatch *m, Expr *hi, Expr *want)
{
	if (ex_is_op(hi, IN_min))
		return ends_where(m, hi->op.arg[0], want) || ends_where(m, hi->op.arg[1], want);
	return ex_is_op(hi, IN_select) &&
	       (has_conjunct(m, hi->op.arg[0], want) || ends_where(m, hi->op.arg[1], want));
}

/* Conjuncts of the statement's guard that have no affine form must be the node's, or bound one of
 * its loops. The others are part of the points that the node carries out. */
static void check_guard(const ValueMatch *m, Expr *want)
{
	isl_set *c;
	bool found = false;

	if (ex_is_op(want, IN_and)) {
		check_guard(m, want->op.arg[0]);
		check_guard(m, want->op.arg[1]);
		return;
	}
	c = poly_cond(m->p, &m->sc, want);
	isl_set_free(c);
	if (c)
		return;
	for (int i = 0; i < m->e->guard.n; i++)
		found = found || has_conjunct(m, poly_form(m->p, m->e->guard.at[i]), want);
	for (int i = 0; i < m->e->bound.n; i++)
		found = found || ends_where(m, poly_form(m->p, m->e->bound.at[i].hi), want);
	if (!found)
		poly_unproved(m->p, "that a node of statement %d is guarded by %s", m->e->stmt,
			      poly_text(m, want));
}

/* A tile of S leaves out terms only of sums that no statement reads. */
static void check_when(const ValueMatch *m, const Stmt *s)
{
	const bool bounded = m->e->node->tile->mask.squares;
	Expr *want = kernel_read_when(m->p->k, s->id, bounded);

	if (bounded)
		poly_check_squares(m->p, m->e);

	if (want)
		compare(m, "condition", poly_at_point(m, s, want), poly_form(m->p, m->e->when));
	else
		poly_wrong(m->p, "a node leaves out terms of statement %d, whose sums are all read",
			   s->id);
}

/* The node can carry out this part of S: it combines terms as S does, or stores a value. */
static void check_part(const ValueMatch *m, const Stmt *s)
{
	const LNode *n = m->e->node;
	bool fits;

	switch (n->kind) {
	case LN_UPDATE:
	case LN_ATOMIC:
	case LN_REDUCE:
	case LN_COLUMNS: fits = m->e->part == PART_TERM && s->red && n->store.red == s->red; break;
	case LN_TILE:
	case LN_OP: fits = s->red == MONOID_sum; break;
	default: fits = m->e->part != PART_TERM; break;
	}
	if (!fits && s->red && m->e->part == PART_TERM && n->store.red)
		poly_wrong(m->p, "a node combines terms of statement %d by %s, not by %s", s->id,
			   monoid_info[n->store.red].name, monoid_info[s->red].name);
	else if (!fits)
		poly_wrong(m->p, "a node of this kind cannot carry out this part of statement %d",
			   s->id);
}

void poly_check_values(Poly *p)
{
	VEC_EACH (e, &p->execs) {
		const Stmt *s = p->k->stmts.at[e->stmt];
		ValueMatch m = {p, e, {NULL, e->axis.n}};
		Iter **it = NEW_ARRAY(p->arena, e->axis.n + 1, Iter *);
		const LNodeKind kind = e->node->kind;
		bool none = false;

		for (int j = 0; j < s->niters; j++)
			none = none || dim_equals(s->iter[j]->extent, 0);
		if (none)
			continue;
		for (int j = 0; j < e->axis.n; j++)
			it[j] = e->axis.at[j].it;
		m.sc.it = it;
		check_part(&m, s);
		if (p->wrong)
			return;
		if (e->when)
			check_when(&m, s);
		if (kind == LN_TILE && e->part == PART_TERM)
			poly_check_operands(&m, s);
		if (kind == LN_TILE && e->part == PART_TERM && e->node->tile->mask.trim)
			poly_check_trim(p, e);
		if (kind == LN_TILE || kind == LN_OP)
			continue;
		if (e->part == PART_TERM)
			for (int c = 0; c < monoid_info[s->red].n; c++)
				check_value(&m, s, c, e->val[c]);
		else
			check_value(&m, s, e->comp, e->val[0]);
		check_place(&m, s, e->buf[0]);
		if (s->guard && (e->part == PART_TERM || (e->part == PART_WRITE && !s->red)))
			check_guard(&m, poly_at_point(&m, s, s->guard));
	}
}
