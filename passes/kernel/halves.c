/* SPDX-License-Identifier: Apache-2.0 */
/*
 * halves (--activations-as=f16, bf16): on GPUs, the f32 values that one kernel stores for others
 * become f16 or bf16. Each kernel still computes in f32: a load widens and a store rounds. So
 * norms, softmax, losses and reductions are of f32, and a product of two halves, with sums in f32,
 * is what the matrix instructions compute:
 *
 *     y[m,n] = sum f32(f16 x[m,k]) * f32(f16 w[k,n])
 *
 * A product whose factors are not both stored as halves gets them rounded as it reads them, unless
 * one is a constant of f32, which --weights-as makes narrow. The image of a convolution that is an
 * input of the model is first copied to halves, because the taps read each of its elements several
 * times.
 *
 * Inputs and results of the model keep their types. These values stay f32, too:
 *
 *   - statistics: results of long reductions, and values that readers broadcast. They have few
 *     elements, so halves would save nothing, and sums of squares exceed the range of f16;
 *   - values on which the argument of a sine, a rounding to integers, an index or a comparison depends,
 *     through any maps and loops: an angle of 1000 rounded to f16 is off by a quarter. Products end the
 *     chain, since their own terms are not such arguments. Comparisons with zero or infinity do not count:
 *     LeakyRelu and its kind compare with zero, and rounding keeps the sign of a number, unless a half
 *     is zero there. The sign of a sum of halves near zero may still be another;
 *   - values of scatters and prefixes, whose elements are states of a sum;
 *   - what the kernel of a node that --keep names reads and writes.
 *
 * Finite numbers beyond the range of the type become its largest: a mask of -3e38 must not become
 * -inf, since a row of only those would be NaN.
 *
 * It runs after `fuse`, when the values between kernels are known, and `forms` has yet to say what
 * each kernel is.
 */
#include "passes/forms/form.h"
#include "passes/forms/scaled.h"
#include "passes/module.h"

#include "ir/graph/blocks.h"

#include <math.h>
#include <string.h>

enum {
	/* A reduction of at least this many terms has so few results, and a value that is broadcast
	 * to at least this many points so few elements, that its type is a few percent of the
	 * traffic. */
	MANY = 32,
	LARGEST_F16 = 65504,
	ADDED = 2 /* operands that a product gets at most */
};

static const double LARGEST_BF16 = 0x1.fep127;

/* An input of the model as halves. */
typedef struct HalfInput {
	const Value *from;
	int block;
	Value *to;
} HalfInput;

typedef struct Halves {
	Module *m;
	DType type;
	bool *exact; /* by Value.id: an argument that must not be rounded depends on it */
	bool *kept;  /* by Node.id: --keep names it */
	int nkept;   /* entries of KEPT */
	VEC(HalfInput) inputs;
	HalvesProbe *probe;             /* null: values are rounded without it */
	Value *on;                      /* its input */
	int *unit;                      /* by Node.id: the unit + 1; 0: none */
	int64_t values, products, wide; /* narrow values; products of halves; those that stay f32 */
} Halves;

/* ---- Which values must stay exact ---- */

/* Whether E compares with zero or with infinity: rounding a number to a half changes neither its
 * sign, unless it becomes zero, nor whether it is finite. Most such comparisons choose between the
 * pieces of a continuous function. */
static bool compares_with_limit(const Expr *e)
{
	for (int i = 0; i < e->op.n; i++) {
		const Expr *x = e->op.arg[i];

		if (x->kind == EX_CONST && (x->f == 0 || isinf(x->f)))
			return true;
	}
	return false;
}

/* Functions whose result jumps or oscillates, so that the relative error of a half in the argument
 * is not one of that magnitude in the result. */
static bool is_exacting(const Expr *e)
{
	static const Inst insts[] = {FN_sin,   FN_cos,  FN_tan, IN_floor, IN_ceil,
				     IN_trunc, IN_rint, IN_mod, IN_rem,   IN_bits};

	for (size_t i = 0; i < sizeof insts / sizeof *insts; i++)
		if (ex_is_op(e, insts[i]))
			return true;
	if (e->kind == EX_INST && inst_compares(e->op.inst))
		return !compares_with_limit(e);
	return ex_is_op(e, IN_cvt) && e->ct != CT_F32 && e->ct != CT_F64;
}

static bool is_product(Kernel *k, Stmt *s, Contraction *c)
{
	const Form f = form_of_stmt(k, s);

	*c = f.c;
	return f.kind == FORM_CONTRACTION && c->ct == CT_F32;
}

/* Marks V, which may be null. Returns whether it was not marked. */
static bool mark_value(Halves *h, const Value *v)
{
	if (!v || h->exact[v->id])
		return false;
	return h->exact[v->id] = true;
}

/* Marks the operands of N, a kernel, from its results. Returns whether one was not marked. */
static bool mark_exact(Halves *h, Arena *tmp, const Node *n)
{
	Kernel *k = node_kernel(n);
	bool *exact = NEW_ARRAY(tmp, k->bufs.n + 1, bool), any = false;
	Contraction c;

	for (int i = 0; i < k->bufs.n; i++) {
		Buf *b = k->bufs.at[i];
		const Value *v = b->kind == BUF_OUT ? node_out(n, b->param) : NULL;

		exact[i] = v && h->exact[v->id];
	}
	for (int i = k->stmts.n - 1; i >= 0; i--) {
		Stmt *s = k->stmts.at[i];
		bool needed = false;

		for (int o = 0; o < s->nout; o++)
			needed = needed || exact[s->out[o]->id];
		needed = needed && !is_product(k, s, &c);
		/* the buffers that are loaded for the arguments of exacting functions */
		STMT_EACH (e, s)
			if (e->kind == EX_INST && e->op.n && e->op.arg[0]->ct == CT_F32 &&
			    is_exacting(e))
				for (int o = 0; o < e->op.n; o++)
					EX_EACH_LOAD (x, e->op.arg[o])
						exact[x->load.buf->id] = true;
		if (needed)
			stmt_mark_loads(s, exact);
	}
	for (int i = 0; i < k->bufs.n; i++) {
		const Buf *b = k->bufs.at[i];

		if (b->kind == BUF_IN && exact[i])
			any |= mark_value(h, node_in(n, b->param));
	}
	return any;
}

/* Marks the operands of N, another node, on which its marked results may depend: all operands; of a
 * bracket only those that correspond to the result, one for each side of a When. What a loop
 * carries depends on its first value and on that of the iteration before. Returns whether one was
 * not marked. */
static bool mark_operands(Halves *h, const Node *n)
{
	const Node *other = n->op == OP_For      ? block_close(n)
			    : n->op == OP_EndFor ? block_open(n)
						 : NULL;
	const int carried = n->op == OP_For ? n->nout : loop_carried(n);
	bool any = false;

	for (int k = 0; k < n->nout; k++) {
		if (!n->out[k] || !h->exact[n->out[k]->id])
			continue;
		for (int i = 0; i < n->nin; i++)
			if (!op_is_control(n->op) || i % n->nout == k)
				any |= mark_value(h, node_in(n, i));
		if (other && k < carried)
			any |= mark_value(h, node_in(other, k));
	}
	return any;
}

/* Backwards, and again while loops carry a mark back. */
static void find_exact(Halves *h)
{
	ARENA_LOCAL(tmp);
	bool again = true;

	while (again) {
		again = false;
		for (Node *n = h->m->graph->last; n; n = n->prev)
			again |= node_kernel(n) ? mark_exact(h, tmp, n) : mark_operands(h, n);
	}
}

/* ---- Which values become halves ---- */

static bool is_kept(const Halves *h, const Node *n)
{
	return n->id < h->nkept && h->kept[n->id];
}

/* Whether N is a kernel whose operands and results may become narrow. */
static bool takes_halves(const Halves *h, const Node *n)
{
	return node_kernel(n) && module_schedules(h->m, n) && !is_kept(h, n) &&
	       !kernel_calls_routine(node_kernel(n));
}

/* The number of points of the N iterators IT that are not in E; MANY or more, or unknown: MANY. */
static int64_t points_without(Iter *const *it, int n, Expr *e)
{
	int64_t points = 1, extent;

	for (int i = 0; i < n && points < MANY; i++)
		if (!e || !expr_has_iter(e, it[i]))
			points *= dim_is_const(it[i]->extent, &extent) ? extent : MANY;
	return points < MANY ? points : MANY;
}

/* *BROADCASTS: a statement of K reads an element of B at many points, and is not a product.
 * *FACTORS is cleared if a load is not a factor of a product. */
static void see_reads(Kernel *k, const Buf *b, bool *broadcasts, bool *factors)
{
	VEC_EACH (s, &k->stmts) {
		STMT_EACH_LOAD (x, s) {
			Contraction c;

			if (x->load.buf != b || (is_product(k, s, &c) && (c.a == x || c.b == x)))
				continue;
			*factors = false;
			*broadcasts |= points_without(s->iter, s->niters, x) >= MANY;
		}
	}
}

/* Whether the readers of V take halves. FACTORS is cleared if one is not a product of V. */
static bool readers_take(const Halves *h, const Value *v, bool *factors)
{
	for (const Use *u = v->uses; u; u = u->next) {
		Node *n = u->user;
		Kernel *k = n ? node_kernel(n) : NULL;
		bool broadcasts = false;

		if (n && !k && (op_row[n->op].flags & OPF_VIEW) && u->slot == 0) {
			if (value_feeds_sym(n->out[0]) || !readers_take(h, n->out[0], factors))
				return false;
			continue;
		}
		if (!n || !takes_halves(h, n))
			return false;
		see_reads(k, kernel_param(k, BUF_IN, u->slot), &broadcasts, factors);
		if (broadcasts)
			return false;
	}
	return true;
}

/* Whether V may become narrow as far as the kernel that computes it is concerned. FACTORS: only
 * products read it. */
static bool writer_gives(const Value *v, bool factors)
{
	Kernel *k = node_kernel(v->def);
	const Buf *b = kernel_param(k, BUF_OUT, v->index);
	Contraction c;

	for (int i = 0; b && i < k->stmts.n; i++) {
		Stmt *s = k->stmts.at[i];

		if (!stmt_writes(s, b))
			continue;
		if (s->update || s->scan || s->ordered || s->nout != 1)
			return false;
		if (s->red != MONOID_NONE && !factors && !is_product(k, s, &c) &&
		    points_without(s->iter + s->nband, s->niters - s->nband, NULL) >= MANY)
			return false;
	}
	return b;
}

static bool becomes_narrow(const Halves *h, const Value *v)
{
	bool factors = true;

	return v->uses && v->type->dtype == DT_F32 && v->type->rank > 0 && !v->type->layout &&
	       !h->exact[v->id] && !value_feeds_sym(v) && readers_take(h, v, &factors) &&
	       writer_gives(v, factors);
}

/* ---- Rounding ---- */

/* E as a number of T, the nearest one; for a finite E, a finite one. */
static Expr *as_half(ExprPool *p, DType t, Expr *e)
{
	const double most = t == DT_F16 ? (double)LARGEST_F16 : LARGEST_BF16;
	Expr *limited = ex_op2(p, IN_min, ex_num(p, CT_F32, most),
			       ex_op2(p, IN_max, ex_num(p, CT_F32, -most), e));
	Expr *finite = ex_op2(p, IN_lt, ex_op1(p, IN_abs, e), ex_num(p, CT_F32, (double)INFINITY));

	return ex_round(p, t, ex_op3(p, IN_select, finite, limited, e));
}

/* ---- The probe ---- */

/* And's to *YES, in N's kernel, whether UNIT rounds. */
static void add_unit(const Halves *h, Node *n, int unit, Expr **yes)
{
	ExprPool *p = node_kernel(n)->pool;
	Buf *on = NULL;
	Expr *at = ex_int(p, CT_I64, unit);

	for (int i = 0; i < n->nin; i++)
		if (node_in(n, i) == h->on)
			on = kernel_param(node_kernel(n), BUF_IN, i);
	on = on ? on : node_add_operand(n, "on", h->on);
	*yes = ex_and(p, *yes, ex_op2(p, IN_ne, ex_load(p, on, &at, 1), ex_num(p, CT_F32, 0)));
}

static void add_readers(const Halves *h, Node *n, const Value *v, Expr **yes)
{
	for (const Use *u = v->uses; u; u = u->next)
		if (node_kernel(u->user))
			add_unit(h, n, h->unit[u->user->id] - 1, yes);
		else
			add_readers(h, n, u->user->out[0], yes);
}

/* E in N's kernel, rounded if N and the kernels that read V (null: none) all round. */
static Expr *as_half_if(const Halves *h, Node *n, const Value *v, Expr *e)
{
	ExprPool *p = node_kernel(n)->pool;
	Expr *yes = NULL;

	add_unit(h, n, h->unit[n->id] - 1, &yes);
	if (v)
		add_readers(h, n, v, &yes);
	return ex_op3(p, IN_select, yes, as_half(p, h->type, e), e);
}

static void begin_probe(Halves *h)
{
	Module *m = h->m;
	const Locs **locs = NEW_ARRAY(m->arena, m->graph->nnodes + 1, const Locs *);
	Dim *n;

	h->unit = NEW_ARRAY(m->arena, m->graph->nnodes + 1, int);
	for (Node *k = m->graph->first; k; k = k->next)
		if (node_kernel(k) && module_schedules(m, k) && !is_kept(h, k)) {
			locs[h->probe->n] = k->locs;
			h->unit[k->id] = ++h->probe->n;
		}
	h->probe->locs = locs;
	n = dim_const(m->ctx, h->probe->n);
	h->on = graph_input(m->graph, ctx_name(m->ctx, "dlcc.on"),
			    type_tensor(m->ctx, DT_F32, 1, &n));
}

/* ---- The rewrite ---- */

/* A reduction S of K that writes B, whose elements become narrow: the state gets a temporary. */
static void apart(Kernel *k, int at, Buf *b)
{
	Buf *state = kernel_temp(k, b->name, DT_F32, b->rank, b->dims);
	Iter *it[MAX_RANK];
	Stmt *s = k->stmts.at[at], *copy;

	kernel_iters_of(k, b, it);
	s->out[0] = state;
	copy = kernel_map_id(k, it, b, kernel_load_iters(k, state, it));
	copy->loc = s->loc;
	kernel_move_last_stmt(k, at + 1);
	kernel_drop_unit_iters(k);
}

/* N stores its result number RESULT as halves. */
static void narrow_writer(const Halves *h, Node *n, int result)
{
	Kernel *k = node_kernel(n);
	Buf *b = kernel_param(k, BUF_OUT, result);

	for (int i = 0; i < k->stmts.n; i++) {
		Stmt *s = k->stmts.at[i];

		if (!stmt_writes(s, b))
			continue;
		if (s->red != MONOID_NONE)
			apart(k, i++, b);
		s = k->stmts.at[i];
		s->val[0] = h->probe ? as_half_if(h, n, n->out[result], s->val[0])
				     : as_half(k->pool, h->type, s->val[0]);
	}
	if (!h->probe)
		b->dtype = h->type;
}

static void narrow_readers(const Halves *h, Value *v)
{
	v->type = type_tensor(h->m->ctx, h->type, v->type->rank, v->type->dims);
	for (const Use *u = v->uses; u; u = u->next) {
		Kernel *k = node_kernel(u->user);
		Buf *b = k ? kernel_param(k, BUF_IN, u->slot) : NULL;

		if (b)
			b->dtype = h->type;
		else if (!k)
			narrow_readers(h, u->user->out[0]);
	}
}

static void narrow_values(Halves *h)
{
	for (Node *n = h->m->graph->first; n; n = n->next)
		for (int i = 0; takes_halves(h, n) && i < n->nout; i++)
			if (n->out[i] && becomes_narrow(h, n->out[i])) {
				narrow_writer(h, n, i);
				if (!h->probe)
					narrow_readers(h, n->out[i]);
				h->values++;
			}
}

/* ---- Products ---- */

static bool is_half_of(const Halves *h, const Expr *e)
{
	return contraction_type(e) == h->type;
}

/* V, an input of the model, as halves, which a kernel before N copies. */
static Value *half_input(Halves *h, Node *n, Value *v, int block)
{
	Module *m = h->m;
	Kernel *k;
	Node *kn;
	Buf *from, *to;
	Iter *it[MAX_RANK];

	for (int i = 0; i < h->inputs.n; i++)
		if (h->inputs.at[i].from == v && h->inputs.at[i].block == block)
			return h->inputs.at[i].to;
	k = kernel_new(m->ctx, m->arena, arena_printf(m->arena, "%s_image", node_kernel(n)->name));
	kn = node_new(m->graph, OP_Kernel, &v, 1, 1, n);
	node_locs_from(kn, n);
	kn->out[0]->type = type_tensor(m->ctx, h->type, v->type->rank, v->type->dims);
	from = kernel_buf(k, BUF_IN, "x", v->type);
	to = kernel_buf(k, BUF_OUT, "half", kn->out[0]->type);
	kernel_iters_of(k, to, it);
	kernel_map_id(k, it, to, as_half(k->pool, h->type, kernel_load_iters(k, from, it)));
	kernel_drop_unit_iters(k);
	kernel_node_set(kn, k);
	vec_push(m->arena, &h->inputs, ((HalfInput){v, block, kn->out[0]}));
	return kn->out[0];
}

/* Factor E of C in N as halves. */
static Expr *half_factor(Halves *h, Node *n, const Contraction *c, Expr *e, int block)
{
	Kernel *k = node_kernel(n);
	Value *v = node_loaded(n, e);

	if (h->probe)
		return as_half_if(h, n, NULL, e);
	if (v && !v->def && v->type->dtype == DT_F32 && contraction_slides(c, e))
		return ex_load(k->pool,
			       node_add_operand(n, e->load.buf->name, half_input(h, n, v, block)),
			       e->load.idx, e->load.nidx);
	return as_half(k->pool, h->type, e);
}

/* Rounds the factors of C in N that are not halves. The reason if the product stays in f32, else
 * null. */
static const char *round_factors(Halves *h, Node *n, const Contraction *c, int block)
{
	Kernel *k = node_kernel(n);
	Expr *const factor[] = {c->a, c->b};

	for (int i = 0; i < 2; i++)
		if (contraction_type(factor[i]) != DT_F32 && !is_half_of(h, factor[i]))
			return "a factor is of another type";
	for (int i = 0; i < 2; i++)
		if (!is_half_of(h, factor[i]) && expr_is_weights(h->m, n, factor[i]) &&
		    !(h->probe && h->probe->weights))
			return arena_printf(h->m->arena, "the weights are not %s",
					    dtype_info[h->type].name);
	for (int i = 0; i < 2; i++) {
		if (is_half_of(h, factor[i]))
			continue;
		c->s->val[0] = ex_replace(k->pool, c->s->val[0], factor[i],
					  half_factor(h, n, c, factor[i], block));
	}
	return NULL;
}

static bool writes_exact(const Halves *h, const Node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && h->exact[n->out[i]->id])
			return true;
	return false;
}

static void round_products(Halves *h)
{
	const int *block = blocks_of(h->m->graph, h->m->arena).of;
	const int nodes = h->m->graph->nnodes;

	for (Node *n = h->m->graph->first; n; n = n->next) {
		Kernel *k = n->id < nodes ? node_kernel(n) : NULL;
		const char *why;
		Contraction c;

		if (!k || !module_schedules(h->m, n) || n->nin + ADDED > MAX_PARAMS)
			continue;
		for (int i = 0; i < k->stmts.n; i++) {
			if (!is_product(k, k->stmts.at[i], &c) || !product_pays(k, &c, true, true))
				continue;
			why = is_kept(h, n) ? "by --keep"
			      : writes_exact(h, n)
				      ? "a rounding, an index or an angle depends on the result"
				      : round_factors(h, n, &c, block[n->id]);
			if (why)
				scaled_report(h->m, n, "activations", &h->wide, why);
			else
				h->products++;
		}
		node_drop_unused_inputs(n);
	}
}

/* ---- The pass ---- */

/* Marks the nodes that --keep names. False after a diagnostic: there is no such node. */
static bool find_kept(Halves *h)
{
	const Options *o = &h->m->opt;
	const Graph *g = h->m->graph;

	h->nkept = g->nnodes;
	h->kept = NEW_ARRAY(h->m->arena, g->nnodes + 1, bool);
	for (int i = 0; i < o->nweight_keep; i++) {
		bool found = false;

		for (const Node *n = g->first; n; n = n->next)
			if (node_kernel(n) && kernel_serves(node_kernel(n), o->weight_keep[i]))
				found = h->kept[n->id] = true;
		if (!found)
			return diag_error(
				g->ctx->diag, (DiagLoc){.file = g->file},
				"--keep=%s: no kernel computes a node of this name; --explain lists the kernels with their nodes",
				o->weight_keep[i]);
	}
	return true;
}

bool pass_halves(Module *m)
{
	Halves h = {.m = m, .type = m->opt.half_activations, .probe = m->opt.halves_probe};
	bool wanting;

	if (!h.type)
		return true;
	h.exact = NEW_ARRAY(m->arena, m->graph->nvalues + 1, bool);
	if (!find_kept(&h))
		return false;
	find_exact(&h);
	if (h.probe)
		begin_probe(&h);
	narrow_values(&h);
	round_products(&h);
	m->f16 = m->f16 || (h.type == DT_F16 && h.values + h.products);
	m->bf16 = m->bf16 || (h.type == DT_BF16 && h.values + h.products);
	wanting = h.wide && m->opt.weight_type != h.type;
	if (m->report)
		fprintf(m->report,
			"; activations: on GPUs %lld values and the factors of %lld products are %s, %lld products stay f32%s%s%s\n",
			(long long)h.values, (long long)h.products, dtype_info[h.type].name,
			(long long)h.wide, wanting ? ": give --weights-as=" : "",
			wanting ? dtype_info[h.type].name : "", wanting ? ", too" : "");
	return true;
}
