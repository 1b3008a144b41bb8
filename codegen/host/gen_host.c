/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/host/gen_host.h"

#include "codegen/host/host_impl.h"
#include "ir/blocks.h"
#include "passes/kernel/kernels.h"

#include <assert.h>
#include <string.h>

/* ---- plan ---- */

/* The scratch of stages: the largest constant, and each other size once. Sizes that are known only
 * during a run are not planned; print_launch allocates them. */
typedef struct StageScratch {
	int64_t constant;
	VEC(Dim *) dims;
} StageScratch;

static void find_scratch(Host *h, const Schedule *s, StageScratch *all)
{
	for (int j = 0; s && j < s->stages.n; j++) {
		Dim *d = memplan_size(h->m, s->stages.at[j]->scratch);
		bool seen = false;
		int64_t v;

		if (!d)
			continue;
		if (dim_is_const(d, &v)) {
			all->constant = v > all->constant ? v : all->constant;
			continue;
		}
		for (int i = 0; i < all->dims.n; i++)
			seen = seen || all->dims.at[i] == d;
		if (!seen)
			vec_push(h->m->arena, &all->dims, d);
	}
}

static void print_plan(Host *h)
{
	MemPlan *p = h->m->mem;
	StageScratch all = {0};

	for (int t = 0; t < h->m->ntargets; t++)
		for (const Node *n = h->m->graph->first; n; n = n->next)
			if (n->id < h->m->nsched && (!h->gpu || node_on_host(n)))
				find_scratch(h, h->m->sched[t][n->id], &all);
	strbuf_printf(
		h->b,
		"static void %s(const int64_t *sym, int64_t *offset, int64_t *total, int64_t *scratch)\n{\n"
		"\tint64_t at = 0;\n\n\t(void)sym;\n\t(void)offset;\n",
		host_own(h, "plan"));
	for (int i = 0; i < p->slots.n; i++)
		strbuf_printf(h->b,
			      "\toffset[%d] = at;\n\tat = dl_add(at, dl_align(dl_size(%s)));\n", i,
			      host_dim(h, p->slots.at[i]));
	strbuf_printf(h->b, "\t*total = at;\n\t*scratch = %lld;\n", (long long)all.constant);
	for (int i = 0; i < all.dims.n; i++)
		strbuf_printf(h->b, "\t*scratch = dl_max(*scratch, %s);\n",
			      host_dim(h, all.dims.at[i]));
	for (int i = 0; i < p->host.n; i++)
		strbuf_printf(
			h->b,
			"\toffset[%d] = dl_align(*scratch);\n\t*scratch = dl_add(offset[%d], dl_size(%s));\n",
			p->slots.n + i, p->slots.n + i, host_dim(h, p->host.at[i]));
	strbuf_puts(h->b, "}\n\n");
}

/* ---- exec ---- */

/* The variable that counts the turns of the loop that OPEN opens. */
static const char *turn_text(Host *h, const Node *open)
{
	return arena_printf(h->m->arena, "turn_%d", open->id);
}

static const char *place_text(Host *h, const Place *p);

/* The address of the part of stack S that the current turn writes. */
static const char *stack_text(Host *h, const Stack *s)
{
	Arena *a = h->m->arena;
	const char *all = place_text(h, &h->m->mem->value[s->all->id]);
	const char *turn = turn_text(h, s->open);

	if (s->reverse)
		turn = arena_printf(a, "(%s - 1 - %s)", host_dim(h, control_dim(s->open, "trip")),
				    turn);
	return arena_printf(a, "(char *)(%s) + %s * %s", all, turn, host_dim(h, s->each));
}

static const char *place_text(Host *h, const Place *p)
{
	Arena *a = h->m->arena;

	switch (p->kind) {
	case PLACE_INPUT: return arena_printf(a, "x->in[%d]", p->at);
	case PLACE_OUTPUT: return arena_printf(a, "x->out[%d]", p->at);
	case PLACE_SLOT: return arena_printf(a, "x->buf[%d]", p->at);
	case PLACE_HOST: return arena_printf(a, "x->buf[%d]", h->m->mem->slots.n + p->at);
	case PLACE_REGION: return arena_printf(a, "region[%d]", p->at);
	case PLACE_WEIGHTS:
		return p->offset ? arena_printf(a, "x->weights + %lld", (long long)p->offset)
				 : "x->weights";
	case PLACE_CARRY: return arena_printf(a, "carry[%d]", p->at);
	case PLACE_NEXT: return arena_printf(a, "next[%d]", p->at);
	case PLACE_STACK: return stack_text(h, &h->m->mem->stack.at[p->at]);
	case PLACE_TURN:
	case PLACE_NONE: break;
	}
	return "NULL";
}

static const Place *value_place(Host *h, Value *v)
{
	return &h->m->mem->value[value_base(v)->id];
}

/* A copy of a constant for a kernel on the host of a GPU, as the weights are in the GPU's
 * memory. */
static const char *const_text(Host *h, const Value *v)
{
	int i = 0;

	while (i < h->consts.n && h->consts.at[i] != v)
		i++;
	if (i == h->consts.n)
		vec_push(h->m->arena, &h->consts, v);
	return arena_printf(h->m->arena, "(void *)(uintptr_t)%s_%d", host_own(h, "const"), i);
}

/* Prints the constants that const_c has numbered from FROM on. */
static void print_consts(Host *h, int from)
{
	for (int i = from; i < h->consts.n; i++) {
		const Tensor *t = value_const(h->consts.at[i]);
		const unsigned char *byte = t->data;

		strbuf_printf(h->b, "static const _Alignas(64) unsigned char %s_%d[] = {%d",
			      host_own(h, "const"), i, t->bytes ? byte[0] : 0);
		for (int64_t k = 1; k < t->bytes; k++)
			strbuf_printf(h->b, ",%d", byte[k]);
		strbuf_puts(h->b, "};\n");
	}
	strbuf_puts(h->b, from < h->consts.n ? "\n" : "");
}

/* The address of V in host memory; in a program for CPUs, its address. */
static const char *value_text(Host *h, Value *v)
{
	v = value_base(v);
	if (h->gpu && value_const(v))
		return const_text(h, v);
	if (h->gpu && !v->def)
		return arena_printf(h->m->arena, "x->host_in[%d]", v->index);
	assert(!h->gpu || v->place == ON_HOST);
	return place_text(h, value_place(h, v));
}

static const char *int_type(DType t)
{
	switch (t) {
	case DT_I64: return "int64_t";
	case DT_U64: return "uint64_t";
	case DT_I32: return "int32_t";
	case DT_U32: return "uint32_t";
	case DT_I16: return "int16_t";
	case DT_U16: return "uint16_t";
	case DT_I8: return "int8_t";
	case DT_U8:
	case DT_BOOL: return "uint8_t";
	default: return NULL;
	}
}

/* Describes symbol S, an element of V, for messages. */
static const char *read_value(Host *h, const Value *v, const Sym *s)
{
	const char *from = v->def && v->def->locs ? host_node(h, locs_first(v->def->locs))
						  : arena_printf(h->m->arena, "input \"%.100s\"",
								 v->name ? v->name : "");

	return arena_printf(h->m->arena, "%s: element %lld", from, (long long)s->at);
}

/* Prints a check that symbol S, number I, an element of V, is within its bounds. */
static void print_bounds(Host *h, const Value *v, const Sym *s, int i)
{
	const bool low = s->lo > -DIM_FAR, high = s->hi < DIM_FAR; /* it was cut off there */
	const long long lo = s->lo, hi = s->hi;

	if (!low && !high)
		return;
	strbuf_puts(h->b, "\tif (");
	if (low)
		strbuf_printf(h->b, "sym[%d] < INT64_C(%lld)%s", i, lo, high ? " || " : "");
	if (high)
		strbuf_printf(h->b, "sym[%d] > INT64_C(%lld)", i, hi);
	strbuf_puts(h->b, ")\n\t\treturn dl_fail(x, DL_SHAPE, \"%s is %lld, expected ");
	if (low && high)
		strbuf_printf(h->b, "%lld to %lld\", ", lo, hi);
	else
		strbuf_printf(h->b, "%lld or %s\", ", low ? lo : hi, low ? "more" : "less");
	host_quote(h, read_value(h, v, s));
	strbuf_printf(h->b, ", (long long)sym[%d]);\n", i);
}

/* The For that the node N is in. */
static const Node *loop_around(const Node *n)
{
	for (n = block_open(n); n->op != OP_For;)
		n = block_open(n);
	return n;
}

/* Prints the reads of symbols that are elements of V, and what follows from them. */
static void print_reads(Host *h, Value *v)
{
	bool any = false;

	for (int i = h->nshape_syms; v->syms && i < h->syms.n; i++) {
		Sym *s = h->syms.at[i];

		if (s->src != v || h->known[s->id])
			continue;
		if (v->def && v->def->op == OP_Turn) {
			strbuf_printf(h->b, "\tsym[%d] = %s;\n", i,
				      turn_text(h, loop_around(v->def)));
			h->known[s->id] = any = true;
			continue;
		}
		h->reads = true;
		strbuf_printf(h->b, "\tif (x->status)\n\t\treturn x->status;\n");
		strbuf_printf(h->b,
			      "\tsym[%d] = (int64_t)((const %s *)(const void *)(%s))[%lld];\n", i,
			      int_type(v->type->dtype), value_text(h, v), (long long)s->at);
		if (dtype_info[v->type->dtype].bits == 64)
			strbuf_printf(
				h->b,
				"\tsym[%d] = dl_max(-INT64_C(%lld), dl_min(INT64_C(%lld), sym[%d]));\n",
				i, (long long)DIM_FAR, (long long)DIM_FAR, i);
		print_bounds(h, v, s, i);
		h->known[s->id] = any = true;
	}
	if (!any)
		return;
	host_named(h);
	host_facts(h);
}

typedef struct HasData {
	Host *h;
	bool yes;
} HasData;

static void has_data(void *arg, Sym *s)
{
	HasData *d = arg;

	d->yes = d->yes || sym_from_data(s);
}

static bool type_has_data(Host *h, const Type *t)
{
	HasData d = {h, false};

	for (int i = 0; i < t->rank; i++)
		dim_syms(t->dims[i], has_data, &d);
	return d.yes;
}

static void print_output(Host *h, int o)
{
	const Type *t = h->m->graph->results.at[o]->value->type;

	if (!type_has_data(h, t))
		return;
	strbuf_printf(h->b, "\tif (dl_output(x, %d, (int64_t[]){", o);
	for (int d = 0; d < t->rank; d++)
		strbuf_printf(h->b, "%s%s", d ? ", " : "", host_dim(h, t->dims[d]));
	strbuf_puts(h->b,
		    t->rank ? "}))\n\t\treturn x->status;\n" : "0}))\n\t\treturn x->status;\n");
}

/* Prints the memory of value number AT that a loop carries, for what this turn writes: the one of the two
 * regions that the turn does not read. */
static void print_next_region(Host *h, int at, Dim *bytes)
{
	const Place *pair = h->m->mem->carry.at[at].pair;

	if (pair[0].kind != PLACE_REGION)
		return;
	strbuf_printf(
		h->b,
		"\tat = carry[%d] == region[%d] ? %d : %d;\n"
		"\tif (!(next[%d] = region[at] = dl_region_alloc(x, at, dl_size(%s), 0)))\n\t\treturn x->status;\n",
		at, pair[0].at, pair[1].at, pair[0].at, at, host_dim(h, bytes));
	h->picks = true;
}

static void print_region(Host *h, const Place *p)
{
	if (p->kind == PLACE_NEXT)
		print_next_region(h, p->at, p->size);
	if (p->kind == PLACE_REGION)
		strbuf_printf(
			h->b,
			"\tif (!(region[%d] = dl_region_alloc(x, %d, dl_size(%s), 0)))\n\t\treturn x->status;\n",
			p->at, p->at, host_dim(h, p->size));
}

/* The name of N's kernel in profiles: all of the model's nodes, as --dump-node takes them, or, for a text without any, its
 * result. */
static const char *kernel_label(Host *h, const Node *n)
{
	const LocList all = locs_all(h->m->arena, n->locs);
	StrBuf b = {0};
	const char *s;

	if (!all.n)
		return n->out[0] && n->out[0]->name ? n->out[0]->name : node_kernel(n)->name;
	for (int i = 0; i < all.n; i++)
		strbuf_printf(&b, "%s%s", i ? ", " : "", all.at[i].node ? all.at[i].node : "?");
	s = arena_strdup(h->m->arena, strbuf_str(&b));
	strbuf_free(&b);
	return s;
}

const char *host_buf(Host *h, int t, Node *n, Buf *b)
{
	Schedule *s = h->m->sched[t][n->id];

	if (b->kind == BUF_IN && node_on_host(n))
		return value_text(h, node_in(n, b->param));
	if (b->kind == BUF_IN)
		return place_text(h, value_place(h, node_in(n, b->param)));
	if (b->kind == BUF_OUT)
		return place_text(h, value_place(h, n->out[b->param]));
	for (int i = 0; schedule_temp(s, i); i++)
		if (schedule_temp(s, i) == b)
			return place_text(h, &h->m->mem->temp[t][n->id][i]);
	return "NULL";
}

/* The fault number of the statements that may fault: fuse leaves a kernel only those of one
 * node. */
int host_fault_site(Host *h, const Schedule *s)
{
	Loc l = s->kernel->locs ? locs_first(s->kernel->locs) : (Loc){"?", NULL};

	for (int i = 0; i < s->kernel->stmts.n; i++) {
		Stmt *st = s->kernel->stmts.at[i];
		bool f = expr_can_fault(st->val[0]);

		for (int d = 0; d < st->nwidx; d++)
			f = f || expr_can_fault(st->widx[d]);
		if (f && st->loc.node)
			l = st->loc;
	}
	vec_push(h->m->arena, &h->faults,
		 arena_printf(h->m->arena, "%s: index out of range", host_node(h, l)));
	return h->faults.n - 1;
}

/* Prints ARRAY[0] = TEXT[0], ARRAY[1] = ...; in lines of about a hundred columns. */
static void print_assign(Host *h, char array, const char *const *text, int n)
{
	enum { WIDTH = 92 };
	int line = 0;

	for (int i = 0; i < n; i++) {
		const char *one = arena_printf(h->m->arena, "%c[%d] = %s", array, i, text[i]);
		bool full = line + (int)strlen(one) > WIDTH;

		strbuf_printf(h->b, "%s%s", !i ? "\t" : full ? ",\n\t" : ", ", one);
		line = (full ? 0 : line) + (int)strlen(one) + 2;
	}
	strbuf_puts(h->b, n ? ";\n" : "");
}

static void print_launch(Host *h, int t, Node *n, const Stage *st, const Schedule *s)
{
	CStage c;
	const char **buf, **dim;
	int nd;

	if (h->gpu && !node_on_host(n)) {
		host_gpu_launch(h, t, n, st, s);
		return;
	}
	c = gen_c_stage(h->gpu ? h->o->beside : h->gc[t], s, st);
	buf = NEW_ARRAY(h->m->arena, c.nbuf + 1, const char *);
	dim = NEW_ARRAY(h->m->arena, c.nsym + 1, const char *);
	nd = c.nsym;
	for (int i = 0; i < c.nbuf; i++)
		buf[i] = host_buf(h, t, n, c.buf[i]);
	for (int i = 0; i < c.nsym; i++)
		dim[i] = host_sym(h, c.sym[i]);
	if (c.fn->faults)
		dim[nd++] = arena_printf(h->m->arena, "%d", host_fault_site(h, s));
	if (!memplan_size(h->m, st->scratch))
		strbuf_printf(h->b, "\tif (dl_scratch(x, %s))\n\t\treturn x->status;\n",
			      host_dim(h, st->scratch));
	print_assign(h, 'b', buf, c.nbuf);
	print_assign(h, 'd', dim, nd);
	strbuf_printf(h->b, "\tdl_launch(x, %d, %s, %s, %s, %s, %s);\n", h->kernel, c.fn->name,
		      c.nbuf ? "b" : "NULL", nd ? "d" : "NULL", host_dim(h, st->extent),
		      host_dim(h, st->grain));
	h->nb = c.nbuf > h->nb ? c.nbuf : h->nb;
	h->nd = nd > h->nd ? nd : h->nd;
}

/* Appends the lines of BODY to B, indented by a further tab, and empties BODY. */
static void put_deeper(StrBuf *b, StrBuf *body)
{
	const char *s = strbuf_str(body);

	while (*s) {
		const size_t n = strcspn(s, "\n") + 1;

		strbuf_puts(b, "\t");
		strbuf_put(b, s, n);
		s += n;
	}
	strbuf_free(body);
	*body = (StrBuf){0};
}

static bool same_guard(const SizeStep *a, const SizeStep *b)
{
	return a->size == b->size && a->most == b->most && a->also == b->also &&
	       a->also_most == b->also_most && a->shared == b->shared;
}

/* The kernel number of schedule S of N; the name of a variant includes its guard. */
static int kernel_number(Host *h, const Node *n, const Schedule *s)
{
	StrBuf b = {0};

	if (!schedule_guarded(s) && h->kernel_id[n->id] >= 0)
		return h->kernel_id[n->id];
	for (int i = 0; i < h->guarded.n && schedule_guarded(s); i++)
		if (h->guarded.at[i].node == n && same_guard(&h->guarded.at[i].s->where, &s->where))
			return h->guarded.at[i].kernel;
	strbuf_printf(&b, "%s%s", kernel_label(h, n), schedule_guarded(s) ? " " : "");
	schedule_print_guard(&b, s);
	if (schedule_guarded(s))
		vec_push(h->m->arena, &h->guarded, ((Guarded){n, s, h->kernels.n}));
	else
		h->kernel_id[n->id] = h->kernels.n;
	vec_push(h->m->arena, &h->kernels, arena_strdup(h->m->arena, strbuf_str(&b)));
	strbuf_free(&b);
	return h->kernels.n - 1;
}

static void print_stages(Host *h, int t, Node *n, const Schedule *s, const Place *temp)
{
	h->kernel = kernel_number(h, n, s);
	for (int i = 0; i < s->temps.n; i++)
		print_region(h, &temp[i]);
	for (int i = 0; i < s->stages.n; i++)
		print_launch(h, t, n, s->stages.at[i], s);
}

/* Prints the condition of S's guard. */
static void print_guard(Host *h, const SizeStep *x)
{
	const char *and = "";

	if (x->size) {
		strbuf_printf(h->b, "%s <= %lld", host_dim(h, x->size), (long long)x->most);
		and = " && ";
	}
	if (x->also)
		strbuf_printf(h->b, "%s%s <= %lld", and, host_dim(h, x->also),
			      (long long)x->also_most);
	if (x->shared)
		strbuf_printf(h->b, "%sdl_gpu_shared(x) >= %d", and, x->shared);
}

/* Prints an if-chain over S and the variants after it. */
static void print_variants(Host *h, int t, Node *n, const Schedule *s)
{
	const Place *temp = h->m->mem->temp[t][n->id];
	StrBuf *b = h->b, body = {0};

	for (const char *before = "\t"; s->next; temp += s->temps.n, s = s->next) {
		strbuf_printf(b, "%sif (", before);
		print_guard(h, &s->where);
		strbuf_puts(b, ") {\n");
		h->b = &body;
		print_stages(h, t, n, s, temp);
		h->b = b;
		put_deeper(b, &body);
		before = "\t} else ";
		if (s->next->next)
			continue;
		strbuf_puts(b, "\t} else {\n");
	}
	h->b = &body;
	print_stages(h, t, n, s, temp);
	h->b = b;
	put_deeper(b, &body);
	strbuf_puts(b, "\t}\n");
}

static void print_node(Host *h, int t, Node *n)
{
	Schedule *s = n->id < h->m->nsched ? h->m->sched[t][n->id] : NULL;

	if (!s || (n->nout && value_is_weights(h->m, n->out[0])))
		return;
	for (int i = 0; i < n->nout; i++) {
		const Place *p = value_place(h, n->out[i]);

		print_region(h, p);
		if (p->kind == PLACE_OUTPUT)
			print_output(h, p->at);
	}
	if (s->next)
		print_variants(h, t, n, s);
	else
		print_stages(h, t, n, s, h->m->mem->temp[t][n->id]);
}

/* Copies a value that sizes depend on to the host, after all work before it is done. */
static void print_to_host(Host *h, Node *n)
{
	strbuf_printf(h->b, "\tif (dl_gpu_to_host(x, %s, %s, %s))\n\t\treturn x->status;\n",
		      value_text(h, n->out[0]), place_text(h, value_place(h, node_in(n, 0))),
		      host_dim(h, type_bytes(h->m->ctx, n->out[0]->type)));
}

/* Prints a copy of V to TO. */
static void print_copy(Host *h, const char *to, Value *v)
{
	Dim *bytes = type_bytes(h->m->ctx, v->type);
	const char *from = place_text(h, value_place(h, v));
	const char *nonempty = dim_is_const(bytes, NULL) ? ""
							 : arena_printf(h->m->arena, " && %s > 0",
									host_dim(h, bytes));

	if (dim_equals(bytes, 0))
		return;
	strbuf_printf(h->b,
		      h->gpu ? "\tif (!x->status%s)\n\t\tdl_gpu_copy(x, %s, %s, %s);\n"
			     : "\tif (!x->status%s)\n\t\tmemcpy(%s, %s, (size_t)(%s));\n",
		      nonempty, to, from, host_dim(h, bytes));
}

/* Copies results that no kernel wrote to the caller's memory. */
static void print_copies(Host *h)
{
	Graph *g = h->m->graph;

	for (int i = 0; i < g->results.n; i++) {
		Value *v = g->results.at[i]->value;
		const Place *p = value_place(h, v);

		if (p->kind == PLACE_OUTPUT && p->at == i)
			continue;
		print_output(h, i);
		print_copy(h, arena_printf(h->m->arena, "x->out[%d]", i), v);
	}
}

/* ---- Control flow ---- */

/* Prints what follows from the symbols that are read from N's results. */
static void print_results_read(Host *h, Node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			print_reads(h, n->out[i]);
}

static void print_nodes(Host *h, int t, Node *from, const Node *to);

static const Stack *stack_of(const Host *h, const Value *all)
{
	const MemPlan *m = h->m->mem;
	int i = 0;

	while (m->stack.at[i].all != all)
		i++;
	return &m->stack.at[i];
}

/* Prints the nodes between the brackets OPEN and CLOSE, indented. */
static void print_block(Host *h, int t, Node *open, const Node *close,
			void (*at_end)(Host *h, const Node *close))
{
	StrBuf body = {0}, *b = h->b;

	h->b = &body;
	print_results_read(h, open);
	print_nodes(h, t, open->next, close);
	at_end(h, close);
	h->b = b;
	put_deeper(b, &body);
	strbuf_puts(b, "\t}");
}

/* The side of a When that CLOSE ends leaves its values. */
static void print_side_end(Host *h, const Node *close)
{
	const bool first = close->op == OP_Else;
	const Node *end = first ? block_close(close) : close;

	for (int i = 0; i < end->nout; i++)
		strbuf_printf(
			h->b, "\t%s = %s;\n", place_text(h, value_place(h, end->out[i])),
			place_text(h, value_place(h, node_in(end, i + (first ? 0 : end->nout)))));
}

/* Prints memory for a further turn of stack S; for all turns where the first is the last of the stack. */
static void print_growth(Host *h, const Stack *s)
{
	const char *turn = turn_text(h, s->open), *each = host_dim(h, s->each);
	Dim *trip = control_dim(s->open, "trip");
	const int r = h->m->mem->value[s->all->id].at;

	strbuf_printf(
		h->b,
		"\tif (!(region[%d] = dl_region_alloc(x, %d, dl_size(dl_mul(%s, %s)), dl_mul(%s, %s))))\n"
		"\t\treturn x->status;\n",
		r, r, s->reverse ? host_dim(h, trip) : arena_printf(h->m->arena, "%s + 1", turn),
		each, turn, each);
}

/* Copies what a turn has written elsewhere, then lets the carried pointers move on. */
static void print_turn_end(Host *h, const Node *close)
{
	const int carried = (int)node_int(close, "carried", 0);
	const MemPlan *m = h->m->mem;

	for (int i = carried; i < close->nout; i++) {
		const Stack *s = stack_of(h, close->out[i]);

		if (s->grows)
			print_growth(h, s);
		if (s->copied)
			print_copy(h, stack_text(h, s), node_in(close, i));
	}
	for (int i = 0; i < carried; i++) {
		const int at = value_place(h, close->out[i])->at;

		if (!m->carry.at[at].copied)
			continue;
		print_next_region(h, at, type_bytes(h->m->ctx, node_in(close, i)->type));
		print_copy(h, arena_printf(h->m->arena, "next[%d]", at), node_in(close, i));
	}
	for (int i = 0; i < carried; i++) {
		const Place *p = value_place(h, close->out[i]);
		const char *to = m->carry.at[p->at].pair[0].kind == PLACE_NONE
					 ? place_text(h, value_place(h, node_in(close, i)))
					 : arena_printf(h->m->arena, "next[%d]", p->at);

		if (strcmp(to, place_text(h, p)) != 0)
			strbuf_printf(h->b, "\tcarry[%d] = %s;\n", p->at, to);
	}
	for (int i = 0; i < carried; i++) {
		const int at = value_place(h, close->out[i])->at;
		const Place *pair = m->carry.at[at].pair;

		if (pair[0].kind != PLACE_NONE && pair[0].kind != PLACE_REGION)
			strbuf_printf(h->b, "\tnext[%d] = next[%d] == %s ? %s : %s;\n", at, at,
				      place_text(h, &pair[0]), place_text(h, &pair[1]),
				      place_text(h, &pair[0]));
	}
}

static void print_loop(Host *h, int t, Node *open, Node *close)
{
	const MemPlan *m = h->m->mem;
	const char *turn = turn_text(h, open);
	Dim *trip = control_dim(open, "trip");

	for (int i = open->nout; i < close->nout; i++) {
		const Place *p = value_place(h, close->out[i]);

		if (p->kind == PLACE_OUTPUT)
			print_output(h, p->at);
		if (!stack_of(h, close->out[i])->grows)
			print_region(h, p);
	}
	for (int i = 0; i < open->nout; i++) {
		const int at = value_place(h, open->out[i])->at;
		const Place *pair = m->carry.at[at].pair;

		strbuf_printf(h->b, "\tcarry[%d] = %s;\n", at,
			      place_text(h, value_place(h, node_in(open, i))));
		if (pair[0].kind != PLACE_NONE && pair[0].kind != PLACE_REGION)
			strbuf_printf(h->b, "\tnext[%d] = %s;\n", at, place_text(h, &pair[0]));
	}
	strbuf_printf(h->b, "\tfor (int64_t %s = 0; ", turn);
	if (trip)
		strbuf_printf(h->b, "%s < %s", turn, host_dim(h, trip));
	strbuf_printf(h->b, "; %s++) {\n", turn);
	print_block(h, t, open, close, print_turn_end);
	strbuf_puts(h->b, "\n");
	print_results_read(h, close);
}

/* Prints the nodes from FROM up to, but without, TO, which is null at the end. */
static void print_nodes(Host *h, int t, Node *from, const Node *to)
{
	for (Node *n = from; n != to; n = n->next) {
		if (n->op == OP_For) {
			Node *close = block_close(n);

			print_loop(h, t, n, close);
			n = close;
			continue;
		}
		if (n->op == OP_When) {
			Node *otherwise = block_close(n), *close = block_close(otherwise);

			strbuf_printf(h->b, "\tif (%s) {\n", host_dim(h, control_dim(n, "value")));
			print_block(h, t, n, otherwise, print_side_end);
			strbuf_puts(h->b, " else {\n");
			print_block(h, t, otherwise, close, print_side_end);
			strbuf_puts(h->b, "\n");
			n = close;
		} else if (n->op == OP_While) {
			strbuf_printf(h->b, "\tif (!(%s))\n\t\tbreak;\n",
				      host_dim(h, control_dim(n, "value")));
		} else if (node_kernel(n)) {
			print_node(h, t, n);
		} else if (n->op == OP_Copy) {
			print_to_host(h, n);
		}
		print_results_read(h, n);
	}
}

/* The name of the exec function of target T; with several targets, "exec" itself selects one. */
static const char *exec_name(Host *h, int t)
{
	return host_own(h, h->m->ntargets > 1 ? arena_printf(h->m->arena, "exec_%d", t) : "exec");
}

static void print_exec(Host *h, int t)
{
	Graph *g = h->m->graph;
	int n = sym_count(h->m->ctx), nconsts = h->consts.n;
	bool *known = NEW_ARRAY(h->m->arena, n + 1, bool),
	     *done = NEW_ARRAY(h->m->arena, g->facts.n + 1, bool);
	StrBuf body = {0}, *b = h->b;

	memcpy(known, h->known, (size_t)n);
	memcpy(done, h->fact_done, (size_t)g->facts.n);
	h->b = &body;
	h->nb = h->nd = 0;
	h->reads = h->picks = false;
	for (int i = 0; i < g->inputs.n; i++)
		print_reads(h, g->inputs.at[i]);
	print_nodes(h, t, g->first, NULL);
	print_copies(h);
	h->b = b;
	print_consts(h, nconsts);
	strbuf_printf(b, "static int %s(dl_exec *x)\n{\n\tint64_t *const sym = x->sym;\n",
		      exec_name(h, t));
	if (h->m->mem->nregions)
		strbuf_printf(b, "\tvoid *region[%d] = {NULL};\n", h->m->mem->nregions);
	if (h->m->mem->carry.n)
		strbuf_printf(b, "\tvoid *carry[%d], *next[%d];\n", h->m->mem->carry.n,
			      h->m->mem->carry.n);
	if (h->picks)
		strbuf_puts(b, "\tint at;\n");
	if (h->nb)
		strbuf_printf(b, "\tvoid *b[%d];\n", h->nb);
	if (h->nd)
		strbuf_printf(b, "\tint64_t d[%d];\n", h->nd);
	strbuf_puts(b, "\n\t(void)sym;\n");
	if (h->m->mem->carry.n)
		strbuf_puts(b, "\t(void)next;\n");
	if (h->gpu && h->reads)
		strbuf_puts(b, "\tif (dl_gpu_reads(x))\n\t\treturn x->status;\n");
	strbuf_printf(b, "%s\treturn x->status;\n}\n\n", strbuf_str(&body));
	strbuf_free(&body);
	memcpy(h->known, known, (size_t)n);
	memcpy(h->fact_done, done, (size_t)g->facts.n);
}

static void print_strings(Host *h, const char *name, const char *const *s, int n)
{
	if (!n)
		return;
	strbuf_printf(h->b, "static const char *const %s[] = {\n", host_own(h, name));
	for (int i = 0; i < n; i++) {
		strbuf_puts(h->b, "\t");
		host_quote(h, s[i]);
		strbuf_puts(h->b, ",\n");
	}
	strbuf_puts(h->b, "};\n\n");
}

static const char *weights_name(Host *h)
{
	return arena_printf(h->m->arena, "weights%s", h->o->suffix ? h->o->suffix : "");
}

static void print_embedded(Host *h)
{
	/* one array serves both programs, before the first */
	if (h->o->weights != WEIGHTS_EMBEDDED || h->m->gpu)
		return;
	if (h->o->weights_path) {
		/* the assembler copies them: as C text they would take a hundred times as long to
		 * compile */
		strbuf_printf(
			h->b,
			"extern const unsigned char %s[] __attribute__((visibility(\"hidden\")));\n",
			weights_name(h));
		strbuf_printf(
			h->b,
			"__asm__(\".section .rodata\\n.balign 64\\n%s:\\n.incbin \\\"%s\\\"\\n.previous\");\n\n",
			weights_name(h), h->o->weights_path);
		return;
	}
	strbuf_printf(h->b, "static const _Alignas(64) unsigned char %s[] = {", weights_name(h));
	for (int64_t i = 0; i < h->o->weights_size; i++)
		strbuf_printf(h->b, "%s%d,", i % 24 ? "" : "\n\t", h->o->weights_data[i]);
	strbuf_puts(h->b, "\n};\n\n");
}

/* Prints the offsets, in the weights, of the default values of inputs. */
static void print_presets(Host *h)
{
	if (!h->presets)
		return;
	strbuf_printf(h->b, "static const int64_t %s[] = {", host_own(h, "defaults"));
	for (int i = 0; i < h->m->graph->inputs.n; i++)
		strbuf_printf(h->b, "%s%lld", i ? ", " : "", (long long)h->presets[i]);
	strbuf_puts(h->b, "};\n\n");
}

static void print_program(Host *h)
{
	static const char *const kinds[] = {"DL_WEIGHTS_NONE", "DL_WEIGHTS_EMBEDDED",
					    "DL_WEIGHTS_SECTION", "DL_WEIGHTS_FILE"};
	MemPlan *p = h->m->mem;

	if (h->m->ntargets > 1) {
		strbuf_printf(h->b, "static int %s(dl_exec *x)\n{\n", host_own(h, "exec"));
		strbuf_puts(h->b, "\tswitch (x->variant) {\n");
		for (int t = 0; t + 1 < h->m->ntargets; t++)
			strbuf_printf(h->b, "\tcase %d: return %s(x);\n", t, exec_name(h, t));
		strbuf_printf(h->b, "\tdefault: return %s(x);\n\t}\n}\n\n",
			      exec_name(h, h->m->ntargets - 1));
	}
	print_strings(h, "kernels", h->kernels.at, h->kernels.n);
	print_strings(h, "faults", h->faults.at, h->faults.n);
	if (h->gpu)
		host_gpu_tables(h);
	strbuf_printf(h->b, "static const uint64_t %s[] = {", host_own(h, "variants"));
	for (int t = 0; t < h->m->ntargets; t++)
		strbuf_printf(h->b, "%s%lluu", t ? ", " : "",
			      (unsigned long long)h->m->target[t]->features);
	strbuf_puts(h->b, "};\n\n");
	print_embedded(h);
	print_presets(h);
	strbuf_printf(
		h->b,
		"static const dl_program %s = {\n\t.size = sizeof(dl_program),\n\t.abi = DL_ABI_VERSION,\n\t.desc = &%s,\n"
		"\t.n_buf = %d,\n\t.n_region = %d,\n",
		host_own(h, "prog"), host_own(h, "desc"), p->slots.n + p->host.n, p->nregions);
	if (p->host.n)
		strbuf_printf(h->b, "\t.n_host_buf = %d,\n", p->host.n);
	if (h->kernels.n)
		strbuf_printf(h->b, "\t.kernels = %s,\n\t.n_kernels = %d,\n",
			      host_own(h, "kernels"), h->kernels.n);
	if (h->faults.n)
		strbuf_printf(h->b, "\t.faults = %s,\n\t.n_faults = %d,\n", host_own(h, "faults"),
			      h->faults.n);
	strbuf_printf(h->b, "\t.variants = %s,\n\t.n_variants = %d,\n\t.weights_kind = %s,\n",
		      host_own(h, "variants"), h->m->ntargets, kinds[h->o->weights]);
	if (h->o->weights == WEIGHTS_EMBEDDED)
		strbuf_printf(h->b, "\t.weights = %s,\n", weights_name(h));
	if (h->o->weights == WEIGHTS_FILE) {
		strbuf_puts(h->b, "\t.weights_file = ");
		host_quote(h, h->o->weights_file);
		strbuf_puts(h->b, ",\n");
	}
	strbuf_printf(
		h->b,
		"\t.weights_hash = UINT64_C(0x%016llx),\n\t.bind = %s,\n\t.plan = %s,\n\t.exec = %s,\n",
		(unsigned long long)h->o->weights_hash, host_own(h, "bind"), host_own(h, "plan"),
		host_own(h, "exec"));
	if (h->dims)
		strbuf_printf(h->b, "\t.dims = %s,\n", host_own(h, "dims"));
	if (h->presets)
		strbuf_printf(h->b, "\t.defaults = %s,\n", host_own(h, "defaults"));
	if (h->gpu)
		strbuf_printf(h->b, "\t.gpu = &%s,\n};\n\n", host_own(h, "gpu"));
	else if (h->m->gpu)
		strbuf_printf(h->b, "\t.on_gpu = &%s,\n};\n\nDL_DEFINE_API(%s, %s);\n",
			      host_own(h, "prog_gpu"), h->o->name, host_own(h, "prog"));
	else
		strbuf_printf(h->b, "};\n\nDL_DEFINE_API(%s, %s);\n", h->o->name,
			      host_own(h, "prog"));
}

static void print_prototypes(Host *h, const GenC *g)
{
	for (int i = 0; i < g->funcs.n; i++)
		strbuf_printf(
			h->b,
			"void %s(const dl_kctx *k, int64_t begin, int64_t end, void *scratch);\n",
			g->funcs.at[i]->name);
}

/* Prints the program of H's module to BODY. */
static bool print_all(Host *h, StrBuf *body)
{
	Module *m = h->m;

	h->b = body;
	h->kernel_id = NEW_ARRAY(m->arena, m->graph->nnodes + 1, int);
	for (int i = 0; i < m->graph->nnodes; i++)
		h->kernel_id[i] = -1;
	host_find_syms(h);
	host_desc(h);
	if (!host_bind(h))
		return false;
	print_plan(h);
	for (int t = 0; t < m->ntargets; t++)
		print_exec(h, t);
	print_program(h);
	return true;
}

bool gen_host(Module *m, GenC *const *g, const HostOpts *o, StrBuf *b)
{
	StrBuf body = {0};
	const int64_t *presets = m->mem ? m->mem->presets : NULL;
	Host h = {.m = m, .gc = g, .o = o, .presets = presets},
	     gpu = {.m = m->gpu, .o = o, .gpu = true, .presets = presets};
	bool ok = (!m->gpu || print_all(&gpu, &body)) && (!m->ntargets || print_all(&h, &body));

	h.b = b;
	for (int t = 0; t < m->ntargets && !o->one_file; t++)
		print_prototypes(&h, g[t]);
	if (o->beside && !o->one_file)
		print_prototypes(&h, o->beside);
	strbuf_puts(b, "\n");
	strbuf_puts(b, strbuf_str(&body));
	strbuf_free(&body);
	return ok;
}
