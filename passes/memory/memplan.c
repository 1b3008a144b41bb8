/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memplan: one arena for all values that live between kernels. In program order each value takes a
 * slot, and releases it after its last reader; memplan_pack.c then places the slots so that those
 * in use at the same time do not overlap. Sizes are dims, so the plan holds for every shape; the
 * artifact evaluates it at run time.
 *
 * A kernel that is a single map may overwrite an operand that is not read later, if it reads it
 * only at the point that it writes. Values of data-dependent size are planned at their upper bound,
 * or are stored in blocks of the second region, which are allocated when their sizes are known. A
 * block is reused after the last reader of its value, for a value of about the same size.
 *
 * Values that a loop carries are double-buffered: an iteration reads the slot that the previous
 * iteration wrote, and writes to the other one of two slots; those of which an iteration replaces
 * elements have one slot (passes/memory/alias_carried.c). Values that the loop stacks are written
 * directly to their element of its output.
 */
#include "ir/graph/blocks.h"
#include "passes/forms/kernels.h"
#include "passes/memory/alias.h"
#include "passes/memory/memplan_pack.h"
#include "runtime/vector.h"

#include <assert.h>
#include <string.h>

/* A block of the second region. */
typedef struct Region {
	int64_t bytes; /* the most of its values, in the sample */
	bool host, used;
} Region;

typedef struct MemPlanner {
	Module *m;
	MemPlan *p;
	int64_t *sample; /* memplan_sample */
	VEC(Region) regions;
	int *order;    /* by Node.id: position in program order */
	int *output;   /* by Value.id: the output whose memory it uses, or -1 */
	Value **dying; /* by position: the first value whose last use is there */
	Value **next;  /* by Value.id: the next value with the same last use */
	bool *reused;  /* by Value.id: the value that overwrites it has its slot */
	Blocks blocks;
} MemPlanner;

Value *value_base(Value *v)
{
	while (v->def && (op_row[v->def->op].flags & OPF_VIEW))
		v = node_in(v->def, 0);
	return v;
}

/* A bound such as the range of a 32-bit type, or a product of many small bounds, would reserve a
 * workspace that is mostly unused, and that not every machine can provide. */
static const int64_t MOST_BOUND = 64 << 20;

Dim *memplan_size(Module *m, Dim *size)
{
	Dim **to = NULL, *most = size; /* TO: bounds by symbol; null while there are none */
	int64_t least;

	DIM_EACH_SYM (s, size) {
		if (!sym_from_data(s))
			continue;
		if (s->hi > MOST_BOUND)
			return NULL;
		if (!to)
			to = NEW_ARRAY(m->arena, sym_count(m->ctx), Dim *);
		to[s->id] = dim_const(m->ctx, s->hi);
	}
	if (to) {
		most = dim_subst(m->ctx, size, to, sym_count(m->ctx));
		if (!dim_least(m->ctx, most, &least) || least > MOST_BOUND)
			return NULL;
	}
	return dim_prove_le(m->ctx, size, most) ? most : NULL;
}

static void live_until(MemPlanner *p, Value *v, int at)
{
	v = value_base(v);
	if (p->p->last[v->id] < at)
		p->p->last[v->id] = at;
}

/* V is read in BLOCK, at AT. If V is computed outside of a loop that contains BLOCK, every
 * iteration reads it, so it lives until the loop ends. */
static void use(MemPlanner *p, Value *v, int block, int at)
{
	const int home = block_of_value(&p->blocks, value_base(v));

	for (; block && block != home; block = p->blocks.at.at[block].outer)
		if (block_is_loop(&p->blocks.at.at[block]))
			at = p->order[p->blocks.at.at[block].close->id];
	live_until(p, v, at);
}

/* Extends V's lifetime to AT, and the lifetimes of END's other results that V may be written to: a
 * carried value or a stack that contains V. */
static void keep_passed_on(MemPlanner *p, const Node *end, Value *v, int at)
{
	live_until(p, v, at);
	for (int i = 0; end->op == OP_EndFor && i < end->nin; i++)
		if (value_base(node_in(end, i)) == value_base(v))
			live_until(p, end->out[i], at);
}

/* A bracket's results may point to other values, which must live as long as the results do. */
static void keep_pointed_to(MemPlanner *p)
{
	for (Node *n = p->m->graph->last; n; n = n->prev) {
		const int carried = loop_carried(n);
		Node *open = n->op == OP_EndFor ? block_open(n) : NULL;

		for (int i = 0; i < carried; i++) {
			keep_passed_on(p, n, node_in(n, i), p->p->last[n->out[i]->id]);
			live_until(p, node_in(open, i), p->p->last[n->out[i]->id]);
		}
		for (int i = 0; n->op == OP_EndWhen && i < n->nin; i++)
			live_until(p, node_in(n, i), p->p->last[n->out[i % n->nout]->id]);
	}
}

static void lifetimes(MemPlanner *p)
{
	Graph *g = p->m->graph;
	int at = 0;

	for (Node *n = g->first; n; n = n->next)
		p->order[n->id] = at++;
	for (Node *n = g->first; n; n = n->next) {
		for (int i = 0; i < n->nin; i++)
			if (node_in(n, i))
				use(p, node_in(n, i), block_of_operand(&p->blocks, n, i),
				    p->order[n->id]);
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				live_until(p, n->out[i], p->order[n->id]);
	}
	for (int i = 0; i < g->results.n; i++)
		live_until(p, g->results.at[i]->value, at);
	keep_pointed_to(p);
	for (Node *n = g->first; n; n = n->next)
		for (int i = 0; i < n->nout; i++)
			if (n->out[i]) {
				p->next[n->out[i]->id] = p->dying[p->p->last[n->out[i]->id]];
				p->dying[p->p->last[n->out[i]->id]] = n->out[i];
			}
}

/* A block of the second region for BYTES: an unused one whose values have about that size, or else
 * a new one. Values that share a block take the memory of the largest, so that more than this ratio
 * of sizes would cost more than a block of its own. */
static Place place_region(MemPlanner *p, Dim *bytes, bool host)
{
	enum { MOST_RATIO = 2 };
	double least = MOST_RATIO, ratio;
	int64_t size;
	int at = p->regions.n;

	if (!dim_eval(bytes, p->sample, &size) || size < 1)
		size = 1;
	for (int i = 0; i < p->regions.n; i++) {
		const Region *r = &p->regions.at[i];

		ratio = (double)size / (double)r->bytes;
		ratio = ratio < 1 ? 1 / ratio : ratio;
		if (r->used || r->host != host || ratio > least)
			continue;
		least = ratio;
		at = i;
	}
	if (at == p->regions.n)
		vec_push(p->m->arena, &p->regions, (Region){0});
	p->regions.at[at] = (Region){
		.bytes = size > p->regions.at[at].bytes ? size : p->regions.at[at].bytes,
		.host = host,
		.used = true};
	p->p->nregions = p->regions.n;
	return (Place){PLACE_REGION, at, 0, bytes};
}

/* Memory for BYTES that node N writes. */
static Place place_bytes(MemPlanner *p, const Node *n, Dim *bytes)
{
	Dim *size = memplan_size(p->m, bytes);
	const bool host = node_on_host(n);

	if (!size)
		return place_region(p, bytes, host);
	return (Place){host ? PLACE_HOST : PLACE_SLOT,
		       memplan_take(p->m, host ? &p->p->host : &p->p->slots, size), 0, size};
}

static void give_back(MemPlanner *p, const Place *pl)
{
	if (pl->kind == PLACE_CARRY) {
		const Carry *c = &p->p->carry.at[pl->at];

		give_back(p, &c->pair[0]);
		if (!c->in_place)
			give_back(p, &c->pair[1]);
	}
	if (pl->kind == PLACE_SLOT)
		memplan_give_back(&p->p->slots, pl->at);
	if (pl->kind == PLACE_HOST)
		memplan_give_back(&p->p->host, pl->at);
	if (pl->kind == PLACE_REGION)
		p->regions.at[pl->at].used = false;
}

/* Whether N is one map that reads operand K only at the point that it writes. */
static bool in_place_ok(Node *n, int k)
{
	Kernel *kn = node_kernel(n);
	Stmt *s = kn->stmts.at[0];
	const Buf *b = kernel_param(kn, BUF_IN, k), *out = s->out[0];

	if (kn->stmts.n != 1 || s->red || s->ordered || s->update || s->guard || n->nout != 1)
		return false;
	if (!b || b->layout != out->layout ||
	    dtype_info[b->dtype].bits != dtype_info[out->dtype].bits ||
	    dtype_info[b->dtype].bits < 8 || b->rank != out->rank)
		return false;
	for (int i = 0; i < b->rank; i++)
		if (b->dims[i] != out->dims[i])
			return false;
	STMT_EACH_LOAD (x, s)
		for (int i = 0; x->load.buf == b && i < x->load.nidx; i++)
			if (x->load.nidx != s->nwidx || x->load.idx[i] != s->widx[i])
				return false;
	return true;
}

static bool try_in_place(MemPlanner *p, Node *n, Value *out)
{
	for (int i = 0; i < n->nin; i++) {
		Value *v = node_in(n, i), *b = v ? value_base(v) : NULL;
		Place *pl = b ? &p->p->value[b->id] : NULL;
		int readers = 0;

		for (int j = 0; j < n->nin; j++)
			readers += node_in(n, j) && value_base(node_in(n, j)) == b;
		if (!pl || readers != 1 || pl->kind != PLACE_SLOT ||
		    p->p->last[b->id] != p->order[n->id] || !in_place_ok(n, i))
			continue;
		p->p->value[out->id] = *pl;
		p->p->value[out->id].size = p->p->slots.at[pl->at].size;
		p->p->over[out->id] = b;
		p->reused[b->id] = true;
		return true;
	}
	return false;
}

/* ---- What kernels write ---- */

/* The value at A, which an operation reads, has no memory in common with that at B, which it
 * writes. Slots that are used at the same time are disjoint, as are the caller's tensors unless
 * they may be shared. */
static bool places_apart(const Graph *g, const Place *a, const Place *b)
{
	const bool known = (a->kind == PLACE_SLOT || a->kind == PLACE_INPUT) &&
			   (b->kind == PLACE_SLOT || b->kind == PLACE_OUTPUT);

	if (!known || (a->kind == PLACE_SLOT && b->kind == PLACE_SLOT && a->at == b->at))
		return a->kind == PLACE_WEIGHTS;
	for (int i = 0; i < g->aliases.n && a->kind == PLACE_INPUT && b->kind == PLACE_OUTPUT; i++)
		if (g->aliases.at[i].input == a->at && g->aliases.at[i].result == b->at)
			return false;
	return true;
}

/* Sets Schedule.apart of N. */
static void find_apart(MemPlanner *p, const Node *n)
{
	Module *m = p->m;
	bool *apart = NEW_ARRAY(m->arena, n->nin + 1, bool);

	for (int i = 0; i < n->nin; i++) {
		Value *v = node_in(n, i);

		apart[i] = v;
		for (int o = 0; o < n->nout && v; o++)
			apart[i] = apart[i] &&
				   places_apart(m->graph, &p->p->value[value_base(v)->id],
						&p->p->value[value_base(n->out[o])->id]);
	}
	for (int t = 0; t < m->ntargets && n->id < m->nsched; t++)
		for (Schedule *s = m->sched[t][n->id]; s; s = s->next)
			s->apart = apart;
}

/* Whether all data-dependent symbols in the sizes of VIEW are also symbols of OF, the viewed value,
 * so that the size of VIEW is known when OF is written. Data that determine it might be read only
 * later. */
static bool size_known_at(const Value *view, const Value *of)
{
	for (int i = 0; i < view->type->rank; i++)
		DIM_EACH_SYM (s, view->type->dims[i]) {
			bool known = !sym_from_data(s);

			for (int j = 0; j < of->type->rank; j++)
				DIM_EACH_SYM (x, of->type->dims[j])
					known = known || x == s;
			if (!known)
				return false;
		}
	return true;
}

/* Finds the values that are written to an output's memory: the output itself, or a value that the
 * output views completely. */
static void find_outputs(MemPlanner *p)
{
	Graph *g = p->m->graph;

	for (int i = 0; i < g->nvalues; i++)
		p->output[i] = -1;
	for (int i = g->results.n; i-- > 0;)
		if (g->results.at[i]->value->place != ON_HOST)
			p->output[g->results.at[i]->value->id] = i;
	for (Node *n = g->last; n; n = n->prev)
		if ((op_row[n->op].flags & OPF_VIEW) && n->nout &&
		    p->output[node_in(n, 0)->id] < 0 && size_known_at(n->out[0], node_in(n, 0)))
			p->output[node_in(n, 0)->id] = p->output[n->out[0]->id];
}

/* Places V in the weights if its size is known at compile time. V itself may be a view whose dims
 * are read from data. */
static void weights_place(MemPlanner *p, Value *v)
{
	Place *pl;
	int64_t n, bytes;

	v = value_base(v);
	pl = &p->p->value[v->id];
	if (!value_is_weights(p->m, v) || pl->kind != PLACE_NONE ||
	    !dim_is_const(type_storage(p->m->ctx, v->type), &n))
		return;
	bytes = (n * dtype_info[v->type->dtype].bits + 7) / 8;
	*pl = (Place){PLACE_WEIGHTS, 0, p->p->weights, dim_const(p->m->ctx, bytes)};
	p->p->weights += (bytes + 63) / 64 * 64;
	vec_push(p->m->arena, &p->p->stored, v);
}

/* N reads its operands at their planned addresses, unless it runs on the host, whose kernels have
 * copies of constants. */
static bool reads_weights(Module *m, const Node *n)
{
	return n->op == OP_Copy || op_is_control(n->op) ||
	       (node_kernel(n) && n->nout && !node_on_host(n) && !value_is_weights(m, n->out[0]));
}

/* Places constants, and values that depend only on constants, in the weights if other kernels or
 * sizes read them. */
static void place_weights(MemPlanner *p)
{
	Graph *g = p->m->graph;

	for (Node *n = g->first; n; n = n->next) {
		if (reads_weights(p->m, n))
			for (int i = 0; i < n->nin; i++)
				if (node_in(n, i))
					weights_place(p, node_in(n, i));
		for (int i = 0; i < n->nout; i++)
			if (n->out[i] && n->out[i]->syms)
				weights_place(p, n->out[i]);
	}
	for (int i = 0; i < g->results.n; i++)
		weights_place(p, g->results.at[i]->value);
}

/* Places the default values of inputs after the weights, since only the host reads them. */
static void place_presets(MemPlanner *p)
{
	const Graph *g = p->m->graph;

	if (module_on_gpu(p->m))
		return;
	for (int i = 0; i < g->inputs.n; i++) {
		const Tensor *t = g->inputs.at[i]->preset;

		if (!t)
			continue;
		if (!p->p->presets) {
			p->p->presets = NEW_ARRAY(p->m->arena, g->inputs.n, int64_t);
			memset(p->p->presets, -1, (size_t)g->inputs.n * sizeof(int64_t));
		}
		p->p->presets[i] = p->p->weights;
		p->p->weights += (t->bytes + 63) / 64 * 64;
	}
}

/* Places buffer B of schedule S, at its maximum size in the runs that S serves. Variants share a
 * slot, even if no variant's size is the maximum in all dims. */
static Place place_temp(MemPlanner *p, const Node *n, const Schedule *s, const Buf *b)
{
	Ctx *c = p->m->ctx;
	Dim *bytes = dim_const(c, (dtype_info[b->dtype].bits + 7) / 8), *each, *cap;
	int64_t lo, most, hi;

	for (int d = 0; d < b->rank; d++)
		bytes = dim_mul(c, bytes, b->dims[d]);
	if (s->where.size && dim_divides(c, bytes, s->where.size, &each)) {
		dim_bounds(c, each, &lo, &hi);
		dim_bounds(c, bytes, &lo, &most);
		if (hi < most / s->where.most) {
			cap = dim_const(c, hi * s->where.most);
			bytes = dim_min(c, bytes, cap);
			bytes = memplan_size(p->m, bytes) ? bytes : cap;
		}
	}
	return place_bytes(p, n, bytes);
}

static void give_back_all(MemPlanner *p, const Place *pl, int n)
{
	for (int i = 0; i < n; i++)
		give_back(p, &pl[i]);
}

/* Places the temporaries of N on target T. Variants may share slots, as only one of them is
 * executed; the slots of the last variant stay in use until all targets are placed. Returns the
 * number of temporaries, and the first one in *LAST. */
static int place_temps(MemPlanner *p, const Node *n, int t, Place **last)
{
	const Schedule *s = n->id < p->m->nsched ? p->m->sched[t][n->id] : NULL;
	int all = 0;

	if (!s)
		return 0;
	while (schedule_temp(s, all))
		all++;
	*last = p->p->temp[t][n->id] = NEW_ARRAY(p->m->arena, all + 1, Place);
	for (;; s = s->next) {
		for (int i = 0; i < s->temps.n; i++)
			(*last)[i] = place_temp(p, n, s, s->temps.at[i]);
		if (!s->next)
			return s->temps.n;
		give_back_all(p, *last, s->temps.n);
		*last += s->temps.n;
	}
}

/* Frees the slots of values whose last use was at AT. */
static void release_dead(MemPlanner *p, int at)
{
	for (Value *v = p->dying[at]; v; v = p->next[v->id])
		if (!p->reused[v->id] && v->def->op != OP_For)
			give_back(p, &p->p->value[v->id]);
}

/* ---- Control flow ---- */

/* Whether V, which an iteration of LOOP passes to the next one or to a stack, is written by a
 * kernel of the iteration whose output can be placed elsewhere. */
static bool can_write_elsewhere(MemPlanner *p, int loop, const Value *v)
{
	return v->def && node_kernel(v->def) && p->blocks.of[v->def->id] == loop &&
	       !value_is_weights(p->m, v) && v->place != ON_HOST;
}

/* Whether a pointer to V, the next value of carried value K of LOOP, remains valid in the next
 * iteration. */
static bool stays(MemPlanner *p, int loop, int k, const Value *v)
{
	const Node *open = p->blocks.at.at[loop].open;

	return !block_within(&p->blocks, block_of_value(&p->blocks, v), loop) ||
	       v == open->out[k] || value_is_weights(p->m, v) ||
	       p->p->value[v->id].kind == PLACE_NEXT || p->p->value[v->id].kind == PLACE_STACK;
}

/* Places carried value K of LOOP; END is its EndFor. */
static void place_carried(MemPlanner *p, int loop, int k, Node *end)
{
	Node *open = p->blocks.at.at[loop].open;
	Value *next = value_base(node_in(end, k));
	Dim *bytes = type_bytes(p->m->ctx, node_in(end, k)->type);
	const Place at = {PLACE_CARRY, p->p->carry.n, 0, NULL};
	Carry c = {0};

	p->p->value[open->out[k]->id] = p->p->value[end->out[k]->id] = at;
	if (!stays(p, loop, k, next)) {
		c.copied = !can_write_elsewhere(p, loop, next);
		c.pair[0] = place_bytes(p, end, bytes);
		c.in_place = !c.copied && c.pair[0].kind == PLACE_SLOT &&
			     alias_in_place(open->out[k], next, p->order);
		c.pair[1] = c.in_place ? c.pair[0] : place_bytes(p, end, bytes);
		if (!c.copied)
			p->p->value[next->id] = (Place){PLACE_NEXT, at.at, 0, bytes};
	}
	vec_push(p->m->arena, &p->p->carry, c);
}

/* Whether ALL has the dims of EACH after its first dim. If not, the dims of EACH depend on the
 * iteration, and ALL has those of the last one. */
static bool same_sizes_after(const Type *all, const Type *each)
{
	for (int d = 0; d < each->rank; d++)
		if (all->dims[d + 1] != each->dims[d])
			return false;
	return true;
}

/* Places result number K of END, a stack. */
static void place_stack(MemPlanner *p, int loop, int k, Node *end)
{
	Ctx *c = p->m->ctx;
	const Block *b = &p->blocks.at.at[loop];
	Value *each = value_base(node_in(end, k));
	Dim *trip = control_dim(b->open, "trip"), *bytes = type_bytes(c, node_in(end, k)->type);
	const int out = p->output[end->out[k]->id];
	const bool varies = !same_sizes_after(end->out[k]->type, node_in(end, k)->type);
	/* A While may end the loop after any iteration, and a trip count may then be INT64_MAX, "no
	 * limit". */
	const bool ends_early = end->out[k]->type->dims[0] != trip;
	Stack s = {.all = end->out[k],
		   .open = b->open,
		   .each = bytes,
		   .grows = ends_early || varies,
		   .reverse = stack_is_reversed(end, k)};
	Place *all = &p->p->value[end->out[k]->id];

	s.copied = s.grows || !can_write_elsewhere(p, loop, each) ||
		   p->p->value[each->id].kind != PLACE_NONE ||
		   (module_on_gpu(p->m) && !dim_multiple(c, bytes, GPU_VECTOR));
	if (out >= 0 && !s.grows)
		*all = (Place){PLACE_OUTPUT, out, 0, type_bytes(c, end->out[k]->type)};
	else if (!s.grows)
		*all = place_bytes(p, end, dim_mul(c, trip, bytes));
	else
		*all = place_region(p, dim_const(c, 0), false);
	if (!s.copied)
		p->p->value[each->id] = (Place){PLACE_STACK, p->p->stack.n, 0, bytes};
	vec_push(p->m->arena, &p->p->stack, s);
}

/* Places the results of a bracket when control reaches it. */
static void place_bracket(MemPlanner *p, Node *n)
{
	const int loop = p->blocks.opens[n->id];
	Node *end;

	if (n->op == OP_Iteration)
		p->p->value[n->out[0]->id] = (Place){PLACE_ITERATION, 0, 0, NULL};
	for (int i = 0; n->op == OP_EndWhen && i < n->nout; i++) {
		p->p->value[n->out[i]->id] = (Place){PLACE_CARRY, p->p->carry.n, 0, NULL};
		vec_push(p->m->arena, &p->p->carry, (Carry){0});
	}
	if (n->op != OP_For)
		return;
	end = p->blocks.at.at[loop].close;
	for (int i = n->nout; i < end->nout; i++)
		place_stack(p, loop, i, end);
	for (int i = 0; i < n->nout; i++)
		place_carried(p, loop, i, end);
}

static void place_results(MemPlanner *p, Node *n)
{
	for (int i = 0; i < n->nout; i++) {
		Value *v = n->out[i];
		int out = v ? p->output[v->id] : -1;

		if (!v || p->p->value[v->id].kind == PLACE_NEXT ||
		    p->p->value[v->id].kind == PLACE_STACK)
			continue;
		if (out >= 0)
			p->p->value[v->id] = (Place){PLACE_OUTPUT, out, 0,
						     type_bytes(p->m->ctx, v->type)};
		else if (!node_kernel(n) || !try_in_place(p, n, v))
			p->p->value[v->id] = place_bytes(p, n, type_bytes(p->m->ctx, v->type));
	}
}

bool pass_memplan(Module *m)
{
	Graph *g = m->graph;
	MemPlanner p = {.m = m, .p = NEW(m->arena, MemPlan)};
	int at = 0;

	m->mem = p.p;
	p.p->value = NEW_ARRAY(m->arena, g->nvalues + 1, Place);
	p.p->last = NEW_ARRAY(m->arena, g->nvalues + 1, int);
	p.p->over = NEW_ARRAY(m->arena, g->nvalues + 1, Value *);
	p.reused = NEW_ARRAY(m->arena, g->nvalues + 1, bool);
	p.order = NEW_ARRAY(m->arena, g->nnodes + 1, int);
	p.output = NEW_ARRAY(m->arena, g->nvalues + 1, int);
	p.dying = NEW_ARRAY(m->arena, g->nnodes + 1, Value *);
	p.next = NEW_ARRAY(m->arena, g->nvalues + 1, Value *);
	p.blocks = blocks_of(g, m->arena);
	p.sample = memplan_sample(m, m->arena);
	for (int t = 0; t < m->ntargets; t++)
		p.p->temp[t] = NEW_ARRAY(m->arena, g->nnodes + 1, Place *);
	lifetimes(&p);
	find_outputs(&p);
	for (int i = 0; i < g->inputs.n; i++)
		p.p->value[g->inputs.at[i]->id] = (Place){PLACE_INPUT, i, 0, NULL};
	place_weights(&p);
	place_presets(&p);
	for (Node *n = g->first; n; n = n->next, at++) {
		Place *temp[MAX_TARGETS];
		int ntemp[MAX_TARGETS];

		if (op_is_control(n->op)) {
			place_bracket(&p, n);
			release_dead(&p, at);
		}
		if ((!node_kernel(n) && n->op != OP_Copy) ||
		    (n->nout && value_is_weights(m, n->out[0])))
			continue;
		place_results(&p, n);
		for (int t = 0; t < m->ntargets; t++)
			ntemp[t] = place_temps(&p, n, t, &temp[t]);
		for (int t = 0; t < m->ntargets; t++)
			give_back_all(&p, temp[t], ntemp[t]);
		release_dead(&p, at);
	}
	memplan_pack(m, &p.p->slots);
	memplan_pack(m, &p.p->host);
	for (Node *n = g->first; n; n = n->next)
		if (op_row[n->op].flags & OPF_VIEW)
			p.p->value[n->out[0]->id] = p.p->value[value_base(n->out[0])->id];
	for (Node *n = g->first; n; n = n->next)
		if (node_kernel(n))
			find_apart(&p, n);
	return true;
}
