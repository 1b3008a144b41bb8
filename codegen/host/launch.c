/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the launches of kernels, each of which may have variants for certain sizes. */
#include "codegen/host/host_impl.h"
#include "passes/forms/kernels.h"
#include "passes/forms/work.h"

#include <string.h>

/* The name of N's kernel in profiles: all of the model's nodes, as --dump-node takes them, or,
 * for a text without any, its result. */
static void kernel_label(StrBuf *b, Arena *a, const Node *n)
{
	const LocList all = locs_all(a, n->locs);

	if (!all.n)
		strbuf_puts(b,
			    n->out[0] && n->out[0]->name ? n->out[0]->name : node_kernel(n)->name);
	for (int i = 0; i < all.n; i++)
		strbuf_printf(b, "%s%s", i ? ", " : "", all.at[i].node ? all.at[i].node : "?");
}

void gen_host_kernel_name(StrBuf *b, Arena *a, const Node *n, const Schedule *s)
{
	kernel_label(b, a, n);
	strbuf_puts(b, schedule_guarded(s) ? " " : "");
	schedule_print_guard(b, s);
}

/* The number of the fault that the statements may report: fuse gives a kernel the faults of only
 * one node. */
static int fault_site(Host *h, const Schedule *s)
{
	Loc l = s->kernel->locs ? locs_first(s->kernel->locs) : (Loc){"?", NULL};

	VEC_EACH (st, &s->kernel->stmts)
		if (stmt_can_fault(st) && st->loc.node)
			l = st->loc;
	vec_push(h->m->arena, &h->faults,
		 arena_printf(h->m->arena, "%s: index out of range", host_node(h, l)));
	return h->faults.n - 1;
}

/* The number of iterations of ST, N; none where the stage would do nothing. */
static const char *launched(Host *h, const Stage *st, Dim *n)
{
	const char *all = host_dim(h, n);

	return st->when ? arena_printf(h->m->arena, "%s ? %s : 0", host_dim(h, st->when), all)
			: all;
}

static void print_gpu_launch(Host *h, int t, Node *n, const Schedule *s, int at)
{
	GenPtx *g = h->o->ptx[t];
	const Stage *st = s->stages.at[at];
	PtxStage c = gen_nvptx_stage(g, s, at);
	const int nargs = c.nbuf + c.ndim, stages = stage_launch(s, at);
	const LNode *last = stage_last(st);
	Ctx *ctx = h->m->ctx;
	Dim *blocks = stage_blocks(ctx, st);
	int fn = 0;

	for (int i = 1; i < stages; i++)
		blocks = dim_add(ctx, blocks, stage_blocks(ctx, s->stages.at[at + i]));
	while (g->funcs.at[fn] != c.fn)
		fn++;
	if (last) {
		Dim *count = ex_as_dim(ctx, last->range.hi);
		const char *parts = host_dim(h, count),
			   *sums = host_dim(h, dim_floordiv(ctx, st->extent, count));

		strbuf_printf(h->b, "\tdl_gpu_arrivals(x, %s > 1 ? %s : 0);\n", parts, sums);
	}
	strbuf_printf(h->b, "\tdl_gpu_launch(x, %d, %d, ", h->kernel, fn);
	strbuf_puts(h->b, nargs ? "(uint64_t[]){" : "NULL");
	for (int i = 0; i < c.nbuf; i++)
		strbuf_printf(h->b, "%s(uint64_t)(uintptr_t)(%s)", i ? ", " : "",
			      host_buf(h, t, n, c.buf[i]));
	for (int i = 0; i < c.ndim; i++)
		strbuf_printf(h->b, "%s(uint64_t)(%s)", i || c.nbuf ? ", " : "",
			      host_argument(h, c.dim[i]));
	strbuf_printf(h->b, "%s, %d, %s, %d);\n", nargs ? "}" : "", nargs,
		      stages > 1 ? host_dim(h, blocks) : launched(h, st, blocks),
		      c.fn->faults ? fault_site(h, s) : -1);
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

static void print_launch(Host *h, int t, Node *n, const Schedule *s, int at)
{
	const Stage *st = s->stages.at[at];
	CStage c;
	const char **buf, **dim, *extent;
	int64_t least, most;
	int nd;

	if (h->gpu && !node_on_host(n)) {
		print_gpu_launch(h, t, n, s, at);
		return;
	}
	h->reads = h->reads || h->gpu;
	c = gen_c_stage(h->gpu ? h->o->beside : h->gc[t], s, st);
	buf = NEW_ARRAY(h->m->arena, c.nbuf + 1, const char *);
	dim = NEW_ARRAY(h->m->arena, c.ndim + 1, const char *);
	nd = c.ndim;
	for (int i = 0; i < c.nbuf; i++)
		buf[i] = host_buf(h, t, n, c.buf[i]);
	for (int i = 0; i < c.ndim; i++)
		dim[i] = host_argument(h, c.dim[i]);
	if (c.fn->faults)
		dim[nd++] = arena_printf(h->m->arena, "%d", fault_site(h, s));
	if (!memplan_size(h->m, st->scratch))
		strbuf_printf(h->b, "\tif (dl_scratch(x, %s))\n\t\treturn x->status;\n",
			      host_dim(h, st->scratch));
	print_assign(h, 'b', buf, c.nbuf);
	print_assign(h, 'd', dim, nd);
	extent = launched(h, st, st->extent);
	dim_bounds(h->m->ctx, st->extent, &least, &most);
	strbuf_printf(h->b, "\tdl_launch(x, %d, %s, %s, %s, %s, %s);\n", h->kernel, c.fn->name,
		      c.nbuf ? "b" : "NULL", nd ? "d" : "NULL", extent,
		      most <= 1 ? "1" : host_dim(h, st->cpu.grain));
	h->nb = c.nbuf > h->nb ? c.nbuf : h->nb;
	h->nd = nd > h->nd ? nd : h->nd;
}

static bool same_guard(const SizeStep *a, const SizeStep *b)
{
	return a->size == b->size && a->most == b->most && a->also == b->also &&
	       a->also_most == b->also_most && a->shared == b->shared && a->nof == b->nof &&
	       a->each == b->each && !memcmp(a->of, b->of, (size_t)a->nof * sizeof *a->of);
}

/* The kernel number of schedule S of N; the name of a variant includes its guard. */
static int kernel_number(Host *h, const Node *n, const Schedule *s)
{
	STRBUF_LOCAL(b);

	if (!schedule_guarded(s) && h->kernel_id[n->id] >= 0)
		return h->kernel_id[n->id];
	for (int i = 0; i < h->guarded.n && schedule_guarded(s); i++)
		if (h->guarded.at[i].node == n && same_guard(&h->guarded.at[i].s->where, &s->where))
			return h->guarded.at[i].kernel;
	gen_host_kernel_name(&b, h->m->arena, n, s);
	if (schedule_guarded(s))
		vec_push(h->m->arena, &h->guarded, ((Guarded){n, s, h->kernels.n}));
	else
		h->kernel_id[n->id] = h->kernels.n;
	vec_push(h->m->arena, &h->kernels, arena_strdup(h->m->arena, strbuf_str(&b)));
	return h->kernels.n - 1;
}

/* Prints the call that tells a profile the work of the kernel, if sizes that the stub knows
 * determine it. */
static void print_work(Host *h, const Schedule *s)
{
	const KernelWork w = kernel_work(s->kernel);
	LoopSizes *loop = h->loop;

	h->loop = NULL; /* a run without a profile needs none of these sizes */
	if (host_dim_indexed(h, w.flops) && host_dim_indexed(h, w.bytes)) {
		const char *flops = host_dim(h, w.flops), *bytes = host_dim(h, w.bytes);

		strbuf_printf(h->b, "\tif (x->counts)\n\t\tdl_count(x, %s, %s);\n", flops, bytes);
	}
	h->loop = loop;
}

static void print_stages(Host *h, int t, Node *n, const Schedule *s, const Place *temp)
{
	h->kernel = kernel_number(h, n, s);
	print_work(h, s);
	for (int i = 0; i < s->temps.n; i++)
		host_region(h, &temp[i], node_on_host(n));
	for (int i = 0; i < s->stages.n; i += stage_launch(s, i))
		print_launch(h, t, n, s, i);
}

/* The size D as guards have it. All parts of a batch are to be computed alike, so in each of them
 * it is that of a whole slice. */
static const char *guard_size(Host *h, Dim *d)
{
	Ctx *c = h->m->ctx;
	const Slice *s = &h->m->slice;
	const int n = sym_count(c);
	Dim **to = NEW_ARRAY(h->m->arena, n + 1, Dim *), *part;

	if (!s->sym)
		return host_dim(h, d);
	to[s->sym->id] = dim_const(c, s->parts);
	part = dim_subst(c, d, to, n);
	return part == d ? host_dim(h, d)
			 : arena_printf(h->m->arena, "(x->part ? %s : %s)", host_dim(h, part),
					host_dim(h, d));
}

/* Prints the condition of S's guard. */
static void print_guard(Host *h, const SizeStep *x)
{
	const char *and = "";

	if (x->size) {
		strbuf_printf(h->b, "%s <= %lld", guard_size(h, x->size), (long long)x->most);
		and = " && ";
	}
	if (x->also)
		strbuf_printf(h->b, "%s%s <= %lld", and, host_dim(h, x->also),
			      (long long)x->also_most);
	if (x->shared)
		strbuf_printf(h->b, "%sdl_gpu_shared(x) >= %d", and, x->shared);
	if (x->shared)
		and = " && ";
	for (int i = 0; i < x->nof; i++, and = " && ")
		strbuf_printf(h->b, "%s%s %% %lld == 0", and, host_dim(h, x->of[i]),
			      (long long)x->each);
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
		host_indent(b, &body);
		before = "\t} else ";
		if (s->next->next)
			continue;
		strbuf_puts(b, "\t} else {\n");
	}
	h->b = &body;
	print_stages(h, t, n, s, temp);
	h->b = b;
	host_indent(b, &body);
	strbuf_puts(b, "\t}\n");
}

void host_launch(Host *h, int t, Node *n)
{
	Schedule *s = n->id < h->m->nsched ? h->m->sched[t][n->id] : NULL;

	if (!s || (n->nout && value_is_weights(h->m, n->out[0])))
		return;
	host_result_memory(h, n);
	if (s->next)
		print_variants(h, t, n, s);
	else
		print_stages(h, t, n, s, h->m->mem->temp[t][n->id]);
}
