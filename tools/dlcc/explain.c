/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of --explain. For each kernel: its ONNX nodes; for each stage the strategy, the reason
 * for it and the sizes that it chose, from the loop tree; the work, from the kernel's statements;
 * and a lower bound on the time for this work on the target. Symbolic sizes have the values that
 * dlrun uses without --dim, or, with a trace, the values of its runs.
 */
#include "tools/dlcc/explain.h"

#include "codegen/host/gen_host.h"
#include "passes/forms/kernels.h"
#include "passes/forms/work.h"
#include "passes/schedule/common/decision.h"

#include <string.h>

/* Why a strategy takes a kernel. */
static const struct {
	const char *strategy, *why;
} reasons[] = {
	{"product",
	 "each sum is over products of two operands, so tiles of sums fit in registers"},
	{"attention",
	 "the statements between two products share the rows of both, so that a few rows of scores fit in a cache or in registers"},
	{"row",
	 "all statements share parallel loops, so each result is still in registers or a cache when it is read"},
	{"map", "every point is computed independently"},
	{"order", "its statements share no parallel loop, so each has a separate stage"},
	{"columns", "it sums down columns that are adjacent in memory"},
	{"stencil", "adjacent points read overlapping parts of an operand"},
	{"transpose", "it reads along one axis and writes along another"},
	{"scatter", "several points may update one element"},
};

typedef struct Explain {
	Cli *cli;
	const Module *m;
	const Target *t;
	int target; /* the number of T in M */
	Arena *arena;
	const Trace *trace; /* null: none */
	int64_t *sym;       /* by Sym.id */
	bool *found;        /* by number in the trace: a kernel of some target has this name */
	bool *taken;        /* the same, of the current target */
	StrBuf b;           /* the current line */
	int number;
} Explain;

/* Prints the line, which may have names from the model. */
static void end_line(Explain *x)
{
	escape_to_file(stdout, strbuf_str(&x->b), escape_terminal);
	putchar('\n');
	strbuf_free(&x->b);
	x->b = (StrBuf){0};
}

/* ---- Sizes ---- */

static double value(const Explain *x, const Dim *d)
{
	int64_t v;

	return dim_eval(d, x->sym, &v) ? (double)v : 0;
}

/* The sizes that the line's model is explained at. */
static void put_sizes(Explain *x)
{
	const Graph *g = x->m->graph;
	const char *before = ", at ";

	for (int i = 0; i < sym_count(x->m->ctx); i++) {
		const Sym *s = sym_at(x->m->ctx, i);

		if (!graph_takes_size(g, s))
			continue;
		strbuf_printf(&x->b, "%s%s=%lld", before, s->name, (long long)x->sym[i]);
		before = ", ";
	}
}

/* D, and its number beside it where D is symbolic. The sizes of a trace differ from run to run. */
static void put_dim(Explain *x, const Dim *d)
{
	int64_t v;

	dim_print(&x->b, d);
	if (!x->trace && !dim_is_const(d, NULL) && dim_eval(d, x->sym, &v))
		strbuf_printf(&x->b, " = %lld", (long long)v);
}

/* The model's run would end with an error at these sizes: the times are about no run. */
static void note_broken_fact(Explain *x)
{
	const Graph *g = x->m->graph;

	VEC_EACH_AT (f, &g->facts) {
		int64_t a, b;

		if (!dim_eval(f->a, x->sym, &a) || !dim_eval(f->b, x->sym, &b) ||
		    (f->le ? a <= b : a == b))
			continue;
		strbuf_puts(&x->b, "note: no run has these sizes, since ");
		dim_print(&x->b, f->a);
		strbuf_puts(&x->b, f->le ? " <= " : " == ");
		dim_print(&x->b, f->b);
		strbuf_puts(&x->b, " does not hold; give others by --dim NAME=N");
		end_line(x);
		return;
	}
}

/* ---- Schedules ---- */

static void put_loop(StrBuf *b, const LNode *n)
{
	if (n->loop.kind == LOOP_VECTOR || n->loop.kind == LOOP_SHORT)
		strbuf_printf(b, "; loop %s in vectors", n->range.var->name);
	else if (n->loop.kind == LOOP_UNROLL)
		strbuf_printf(b, "; loop %s unrolled", n->range.var->name);
	else if (n->loop.kind == LOOP_GROUP)
		strbuf_printf(b, "; loop %s over the threads of a group", n->range.var->name);
	else if (n->loop.step > 1)
		strbuf_printf(b, "; loop %s in blocks of %lld", n->range.var->name,
			      (long long)n->loop.step);
}

static void put_dot(StrBuf *b, const TileNode *n)
{
	const TileGrid g = tile_grid(n->to->tile);

	strbuf_puts(b, "; blocks of ");
	for (int i = 0; i < n->n; i++) {
		strbuf_puts(b, i == 2 ? " sums, " : i ? " x " : "");
		dim_print(b, n->it[i]->extent);
	}
	strbuf_printf(b, " terms at a time, by %d warp%s", g.wm * g.wn, g.wm * g.wn > 1 ? "s" : "");
}

/* The sizes of N and the nodes after it, each text once. */
static void put_nodes(Explain *x, StrBuf *b, const LNode *n)
{
	for (; n; n = n->next) {
		StrBuf one = {0};

		if (n->kind == LN_LOOP)
			put_loop(&one, n);
		else if (n->kind == LN_TILE)
			strbuf_printf(&one, "; tiles of %d x %d sums", n->tile->mr, n->tile->nr);
		else if (n->kind == LN_OP && n->op->op == TILE_DOT)
			put_dot(&one, n->op);
		else if (n->kind == LN_REDUCE)
			strbuf_printf(&one, "; sums over %s in lanes", n->range.var->name);
		if (one.n && !strstr(strbuf_str(b), strbuf_str(&one)))
			strbuf_put(b, strbuf_str(&one), one.n);
		strbuf_free(&one);
		put_nodes(x, b, n->body);
	}
}

static void put_stage(Explain *x, const Schedule *s, const Stage *st)
{
	Ctx *c = s->kernel->ctx;
	StrBuf sizes = {0};

	strbuf_printf(&x->b, "    %s: ", st->strategy);
	put_dim(x, st->extent);
	if (st->block.group) {
		strbuf_printf(&x->b,
			      " parallel iterations, by groups of %d of a block's %d threads",
			      st->block.group, st->block.threads);
	} else {
		strbuf_puts(&x->b, " parallel iterations");
		if (dim_prove_lt(c, st->extent, dim_mul(c, dim_const(c, 2), st->cpu.grain))) {
			strbuf_puts(&x->b, ", in one thread: too little work to wake another");
		} else {
			strbuf_puts(&x->b, ", another thread for each ");
			dim_print(&x->b, st->cpu.grain);
		}
	}
	put_nodes(x, &sizes, st->block.head);
	put_nodes(x, &sizes, st->body);
	strbuf_puts(&x->b, strbuf_str(&sizes));
	end_line(x);
	strbuf_free(&sizes);
}

static void put_reason(Explain *x, const char *strategy)
{
	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
		if (!strcmp(reasons[i].strategy, strategy)) {
			strbuf_printf(&x->b, "    %s, since %s", strategy, reasons[i].why);
			end_line(x);
		}
}

static void put_schedule(Explain *x, const Schedule *s)
{
	for (int i = 0; i < s->stages.n; i++) {
		const char *strategy = s->stages.at[i]->strategy;
		bool told = false;

		for (int j = 0; j < i; j++)
			told = told || !strcmp(s->stages.at[j]->strategy, strategy);
		if (!told)
			put_reason(x, strategy);
	}
	for (int i = 0; i < s->stages.n; i++)
		put_stage(x, s, s->stages.at[i]);
}

/* ---- Times ---- */

static void put_time(StrBuf *b, double seconds)
{
	if (seconds < 1e-3)
		strbuf_printf(b, "%.3g us", seconds * 1e6);
	else
		strbuf_printf(b, "%.3g ms", seconds * 1e3);
}

static double peak_flops(const Target *t)
{
	return t->gpu ? t->gpu->f32 * 1e12 : t->gflops * 1e9;
}

static double peak_bytes(const Target *t)
{
	return (t->gpu ? t->gpu->memory : t->memory) * 1e9;
}

/* The lower bound on the seconds for this work, and the resource that determines it. */
static double least_time(const Target *t, double flops, double bytes, const char **bound)
{
	const double compute = flops / peak_flops(t), memory = bytes / peak_bytes(t);

	*bound = compute > memory ? "arithmetic" : "memory";
	return compute > memory ? compute : memory;
}

/* The entry of N's kernel in the trace. Several kernels with one name take successive entries. */
static const Traced *traced(const Explain *x, const Node *n, const Schedule *s)
{
	const Traced *found = NULL;
	StrBuf text = {0};
	const char *name;

	gen_host_kernel_name(&text, x->arena, n, s);
	name = trace_name(x->arena, strbuf_str(&text));
	for (int i = 0; x->trace && i < x->trace->kernels.n; i++)
		if (!x->taken[i] && !strcmp(x->trace->kernels.at[i].name, name)) {
			found = &x->trace->kernels.at[i];
			x->found[i] = x->taken[i] = true;
			break;
		}
	strbuf_free(&text);
	return found;
}

static void put_work(Explain *x, const Node *n, const Schedule *s)
{
	const KernelWork w = kernel_work(s->kernel);
	const Traced *k = traced(x, n, s);
	const double flops = k ? k->flops / k->runs : value(x, w.flops);
	const double bytes = k ? k->bytes / k->runs : value(x, w.bytes);
	const char *bound;
	const double least = least_time(x->t, flops, bytes, &bound);

	strbuf_puts(&x->b, "    work: ");
	put_dim(x, w.flops);
	strbuf_puts(&x->b, " operations, ");
	put_dim(x, w.bytes);
	strbuf_puts(&x->b, " bytes");
	end_line(x);
	strbuf_puts(&x->b, "    predicted: ");
	put_time(&x->b, least);
	strbuf_printf(&x->b, ", bound by %s", bound);
	if (k) {
		const double took = k->ns * 1e-9 / k->runs;

		strbuf_puts(&x->b, "; measured: ");
		put_time(&x->b, took);
		if (least > 0)
			strbuf_printf(&x->b, ", %.3g times that", took / least);
	} else if (x->trace) {
		strbuf_puts(&x->b, "; not in the trace");
	}
	end_line(x);
}

/* ---- Kernels ---- */

/* The nodes that were fused: Conv "/conv1", Relu "/relu1". */
static void put_nodes_of(Explain *x, const Node *n)
{
	const LocList all = locs_all(x->arena, n->locs);

	if (!all.n)
		strbuf_printf(&x->b, "%s",
			      n->out[0] && n->out[0]->name ? n->out[0]->name
							   : node_kernel(n)->name);
	for (int i = 0; i < all.n; i++)
		strbuf_printf(&x->b, "%s%s \"%s\"", i ? ", " : "",
			      all.at[i].op ? all.at[i].op : "?",
			      all.at[i].node ? all.at[i].node : "?");
}

/* The kernel's line of --dump-ir=decide, without the kernel's name. */
static void put_decision(Explain *x, const Node *n)
{
	const Decision *d = x->m->decision[x->target] && n->id < x->m->ndecisions
				    ? x->m->decision[x->target][n->id]
				    : NULL;
	StrBuf why = {0};

	if (!d)
		return;
	strbuf_puts(&x->b, "    decided: ");
	decision_print(&x->b, kernel_clone(node_kernel(n), x->arena), d);
	end_line(x);
	if (strategy_table[d->strategy].reason)
		strategy_table[d->strategy].reason(node_on_host(n) ? x->m->host : decide_target(x->m, x->t),
						   kernel_clone(node_kernel(n), x->arena), d, &why);
	if (why.n) {
		strbuf_printf(&x->b, "      %s", strbuf_str(&why));
		end_line(x);
	}
	strbuf_free(&why);
}

static void put_kernel(Explain *x, const Node *n, const Schedule *s)
{
	const int nodes = locs_count(n->locs);

	strbuf_printf(&x->b, "kernel %d: ", x->number++);
	put_nodes_of(x, n);
	end_line(x);
	if (nodes > 1) {
		strbuf_printf(&x->b, "    fused: %d nodes, in %d statement%s", nodes,
			      s->kernel->stmts.n, s->kernel->stmts.n > 1 ? "s" : "");
		end_line(x);
	}
	if (n->id < x->m->nnotes && x->m->note[n->id]) {
		strbuf_printf(&x->b, "    %s", x->m->note[n->id]);
		end_line(x);
	}
	put_decision(x, n);
	for (const Schedule *first = s; s; s = s->next) {
		if (schedule_guarded(s)) {
			strbuf_puts(&x->b, "  ");
			schedule_print_guard(&x->b, s);
			end_line(x);
		} else if (s != first) {
			strbuf_puts(&x->b, "  otherwise");
			end_line(x);
		}
		put_schedule(x, s);
		put_work(x, n, s);
	}
}

/* The share of the products between DequantizeLinear and QuantizeLinear that is computed in
 * integers. */
static void put_integers(Explain *x)
{
	double integers = 0, all = 0;

	VEC_EACH_AT (p, &x->m->byte_products) {
		all += value(x, p->work);
		integers += p->integers ? value(x, p->work) : 0;
	}
	if (!x->m->byte_products.n)
		return;
	strbuf_printf(&x->b, "integers: %.2f %% of the %.4g multiply-adds of dequantised tensors%s",
		      all > 0 ? 100 * integers / all : 100, all,
		      integers < all ? "; -Wfallback names the rest" : "");
	end_line(x);
}

static void put_target(Explain *x, int t)
{
	x->t = x->m->target[t];
	x->target = t;
	x->number = 0;
	x->taken = NEW_ARRAY(x->arena, x->trace ? x->trace->kernels.n + 1 : 1, bool);
	strbuf_printf(&x->b, "for %s; predicted times are the least for %.0f GFLOP/s and %.0f GB/s",
		      x->t->name, peak_flops(x->t) * 1e-9, peak_bytes(x->t) * 1e-9);
	strbuf_puts(&x->b, x->t->gpu ? "" : " of one core");
	if (!x->trace)
		put_sizes(x);
	end_line(x);
	if (!x->trace)
		note_broken_fact(x);
	if (x->m->slice.sym) {
		slice_print(&x->b, x->m);
		end_line(x);
	}
	for (const Node *n = x->m->graph->first; n; n = n->next) {
		const Schedule *s = n->id < x->m->nsched ? x->m->sched[t][n->id] : NULL;

		if (s && !(n->nout && value_is_weights((Module *)(uintptr_t)x->m, n->out[0])))
			put_kernel(x, n, s);
	}
}

/* Whether each kernel of the trace was found among the model's kernels. */
static bool trace_fits(Explain *x, const bool *found)
{
	for (int i = 0; x->trace && i < x->trace->kernels.n; i++)
		if (!found[i])
			return diag_error(
				&x->cli->diag, (DiagLoc){.file = x->cli->trace},
				"has the kernel \"%.100s\", which the model does not have with these options",
				x->trace->kernels.at[i].name);
	return true;
}

bool explain(Cli *c, const Module *m, const Module *gpu)
{
	Trace trace = {0};
	Explain x = {.cli = c, .arena = m->arena};

	if (c->trace && !trace_read(m->arena, &c->diag, c->trace, &trace))
		return false;
	x.trace = c->trace ? &trace : NULL;
	x.found = NEW_ARRAY(m->arena, trace.kernels.n + 1, bool);
	for (int k = 0; k < 2; k++) {
		x.m = k ? gpu : m;
		if (!x.m || (k && gpu == m))
			continue;
		/* the values that dlrun takes where no --dim sets one */
		x.sym = syms_sample(x.m->ctx, x.arena, 1);
		for (int t = 0; t < x.m->ntargets; t++)
			put_target(&x, t);
		put_integers(&x);
	}
	return trace_fits(&x, x.found);
}
