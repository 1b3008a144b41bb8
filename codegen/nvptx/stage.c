/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stage as one LLVM function: the entry and the nodes of its loop tree. Loop counters, states and
 * other scalars are stack slots, which LLVM promotes to registers.
 *
 * ll_barrier marks the places where barriers may be: after each node whose threads share memory,
 * and inside nodes that pass data between threads, such as reductions (group.c, column_reduce.c),
 * bulk copies (bulk.c) and loops (loop.c). barriers.c chooses among them. For operations on tiles
 * the scheduler has put barriers into the tree (TILE_SYNC). Threads of one warp have bar.warp.sync,
 * larger groups bar.sync.
 */
#include "codegen/names.h"
#include "codegen/nvptx/kernel.h"
#include "passes/forms/kernels.h"

#include <assert.h>
#include <string.h>

/* ---- Nodes ---- */

bool ll_alone(const LlKernel *k)
{
	return k->stage->block.group == 1 || k->in_group;
}

const char *ll_open_if(LlKernel *k, const char *cond)
{
	const char *yes = ll_label(&k->f, "if"), *after = ll_label(&k->f, "end");

	ll_put(&k->f, "br i1 %s, label %%%s, label %%%s", cond, yes, after);
	ll_begin(&k->f, yes);
	ll_sync_open(k, SYNC_IF);
	k->conditions++;
	return after;
}

const char *ll_open_if_in(LlKernel *k, const char *at, const char *lo, const char *hi)
{
	const char *in = ll_set(&k->f, "icmp slt i64 %s, %s", at, hi);

	if (lo)
		in = ll_set(&k->f, "and i1 %s, %s", in,
			    ll_set(&k->f, "icmp sge i64 %s, %s", at, lo));
	return ll_open_if(k, in);
}

void ll_close_if(LlKernel *k, const char *after)
{
	if (!after)
		return;
	ll_sync_close(k);
	k->conditions--;
	ll_put(&k->f, "br label %%%s", after);
	ll_begin(&k->f, after);
}

static const char *open_guard(LlKernel *k, Expr *guard)
{
	return guard ? ll_open_if(k, ll_expr(&k->f, guard)) : NULL;
}

/* Opens a block that only the group's first thread executes. */
static const char *open_once(LlKernel *k, const Buf *b)
{
	const char *first;

	if (ll_alone(k) || ll_in_register(k, b))
		return NULL;
	first = ll_set(&k->f, "icmp eq i64 %%lane, 0");
	return ll_open_if(k, first);
}

static void store_node(LlKernel *k, const LNode *n)
{
	const char *guard, *once, *idx, *val;

	ll_forget(&k->f);
	guard = open_guard(k, n->store.guard);
	once = open_once(k, n->store.buf[0]);
	val = ll_expr(&k->f, n->store.val[0]);
	idx = ll_expr(&k->f, n->store.idx);
	ll_note_own(k, n->store.idx, idx);
	ll_store(k, n->store.buf[0], idx, val);
	ll_forget(&k->f);
	ll_close_if(k, once);
	ll_close_if(k, guard);
	if (once)
		ll_barrier(k);
}

void ll_combine(LlKernel *k, Monoid red, Buf *const *state, const char *idx, const char *const *val,
		const CType *ct, int n, bool step)
{
	ExprPool *p = k->sched->kernel->pool;
	Expr *a[2] = {NULL, NULL}, *b[2] = {NULL, NULL};
	const char *made[2];

	for (int i = 0; i < n; i++) {
		a[i] = ex_param(p, ct[i], i);
		b[i] = ex_param(p, ct[i], 2 + i);
		k->f.param[i] = ll_load(k, state[i], idx);
		k->f.param[2 + i] = val[i];
	}
	ll_forget(&k->f);
	for (int i = 0; i < n; i++)
		made[i] = ll_expr(&k->f, step ? monoid_step(p, red, i, a, b)
					      : monoid_combine(p, red, i, a, b));
	for (int i = 0; i < n; i++)
		ll_store(k, state[i], idx, made[i]);
	ll_forget(&k->f);
}

const char *ll_combined(LlKernel *k, Monoid red, CType t, const char *x, const char *y)
{
	ExprPool *p = k->sched->kernel->pool;
	Expr *a = ex_param(p, t, 0), *b = ex_param(p, t, 1);
	const char *r;

	k->f.param[0] = x;
	k->f.param[1] = y;
	ll_forget(&k->f);
	r = ll_expr(&k->f, monoid_combine(p, red, 0, &a, &b));
	ll_forget(&k->f);
	return r;
}

void ll_step(LlKernel *k, const LNode *n, Buf *const *state, Expr *at)
{
	ExprPool *p = k->sched->kernel->pool;
	Expr *a[2] = {NULL, NULL};
	const char *idx, *made[2];

	for (int i = 0; i < n->store.nout; i++)
		a[i] = ex_load(p, state[i], &at, 1);
	idx = ll_expr(&k->f, at);
	for (int i = 0; i < n->store.nout; i++)
		made[i] = ll_expr(&k->f, monoid_step(p, n->store.red, i, a, n->store.val));
	for (int i = 0; i < n->store.nout; i++)
		ll_store(k, state[i], idx, made[i]);
}

void ll_update(LlKernel *k, const LNode *n, Buf *const *state, Expr *at)
{
	const char *guard, *once;

	ll_forget(&k->f);
	guard = open_guard(k, n->store.guard);
	once = open_once(k, state[0]);
	ll_step(k, n, state, at);
	ll_forget(&k->f);
	ll_close_if(k, once);
	ll_close_if(k, guard);
	if (once)
		ll_barrier(k);
}

void ll_nodes(LlKernel *k, const LNode *n)
{
	for (; n; n = n->next) {
		switch (n->kind) {
		case LN_LOOP: ll_loop(k, n); break;
		case LN_LET:
			ll_forget(&k->f);
			ll_let(k, n->range.var, n->range.lo);
			break;
		case LN_STORE: store_node(k, n); break;
		case LN_UPDATE: ll_update(k, n, n->store.buf, n->store.idx); break;
		case LN_ATOMIC: ll_atomic(k, n); break;
		case LN_REDUCE: ll_reduce(k, n); break;
		case LN_LOCAL: ll_declare(k, n->local.buf, &n->local); break;
		case LN_TILE:
		case LN_SPLIT: assert(n->op); break;
		case LN_COLUMNS: ll_columns(k, n); break;
		case LN_OP: ll_tile_op(k, n->op); break;
		}
	}
}

/* ---- The entry ---- */

/* Computes this thread's number. */
static void begin_block(LlKernel *k)
{
	LlFn *f = &k->f;
	const Stage *st = k->stage;

	ll_put(f, "%%tid32 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !range !{i32 0, i32 %d}",
	       st->block.threads + st->block.producers);
	ll_put(f,
	       "%%block32 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !range !{i32 0, i32 %d}",
	       INT32_MAX);
	ll_put(f, "%%tid = zext i32 %%tid32 to i64");
	ll_put(f, "%%block = zext i32 %%block32 to i64");
	if (st->block.group == st->block.threads) {
		ll_put(f, "%%lane = add i64 %%tid, 0");
		ll_put(f, "%%group = add i64 0, 0");
	} else {
		ll_put(f, "%%group = lshr i64 %%tid, %d", ll_log2(st->block.group));
		ll_put(f, "%%lane = and i64 %%tid, %d", st->block.group - 1);
	}
}

/* Computes this thread's point; BLOCK is the number of its block in the stage. */
static void begin(LlKernel *k, const char *block)
{
	LlFn *f = &k->f;
	const Stage *st = k->stage;
	const bool only = !strcmp(block, "%block");
	const char *first = only ? "%first" : ll_new(f), *p = only ? "%p" : ll_new(f);

	if (st->block.group == st->block.threads) {
		ll_put(f, "%s = add i64 %s, 0", p, block);
	} else {
		ll_put(f, "%s = mul nuw nsw i64 %s, %d", first, block,
		       st->block.threads / st->block.group);
		ll_put(f, "%s = add nuw nsw i64 %s, %%group", p, first);
	}
	ll_bind(k, st->var, p);
	if (st->block.first)
		ll_bind(k, st->block.first, first);
}

/* Opens a block for the groups that have a point; null: all have one. Pass the result to
 * close_points. */
static const char *open_points(LlKernel *k)
{
	LlFn *f = &k->f;
	const char *after;
	const Stage *st = k->stage;
	Ctx *c = f->g->ctx;
	Dim *groups = dim_const(c, st->block.threads / st->block.group);
	const char *inside;

	if (dim_mul(c, dim_ceildiv(c, st->extent, groups), groups) == st->extent)
		return NULL;
	inside = ll_set(f, "icmp slt i64 %s, %s", ll_iter(k, st->var), ll_dim(k, st->extent));
	if (st->block.group > 1 &&
	    st->block.group < 32) { /* some groups of a warp may have no point */
		ll_put(f, "%%mask = call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 %s)", inside);
		k->mask = "%mask";
	}
	after = ll_open_if(k, inside);
	k->conditions--;
	return after;
}

static void close_points(LlKernel *k, const char *after)
{
	k->conditions += after != NULL;
	ll_close_if(k, after);
}

/* Emits the current stage of K. BLOCK is the number of the block in it. */
static void stage_body(LlKernel *k, const char *block)
{
	LlFn *f = &k->f;
	const char *after;

	begin(k, block);
	k->group = k->stage->block.threads;
	k->lane = "%tid";
	ll_bulk_in(k);
	if (k->stage->block.bulk.n)
		ll_barrier(k);
	ll_nodes(k, k->stage->block.head);
	k->group = k->stage->block.group;
	k->lane = "%lane";
	after = open_points(k);
	if (k->stage->block.producers)
		ll_tile_roles(k, k->stage->body);
	else
		ll_nodes(k, k->stage->body);
	if (ll_calls(f, "index")) {
		const char *bad = ll_set(f, "load i32, ptr %%fault"),
			   *end = ll_open_if(k, ll_op(f, "icmp ne i32", bad, 0));

		k->faults = true;
		/* the word is in host memory */
		ll_put(f, "store volatile i64 %%site, ptr addrspace(1) %%status, align 8");
		ll_close_if(k, end);
	}
	close_points(k, after);
	k->group = k->stage->block.threads;
	k->lane = "%tid";
	ll_bulk_out(k);
}

/* The N stages ST of the launch, each of which has a contiguous range of block numbers. */
static const char *body(LlKernel *k, Stage *const *st, int n)
{
	LlFn *f = &k->f;
	Ctx *c = f->g->ctx;
	const char *block = "%block";

	f->block = "entry";
	begin_block(k);
	for (int i = 0; i < n; i++) {
		const char *is, *here, *rest, *blocks;

		k->stage = st[i];
		if (i + 1 == n) {
			stage_body(k, block);
			break;
		}
		blocks = ll_dim(k, stage_blocks(c, st[i]));
		here = ll_label(f, "stage");
		rest = ll_label(f, "rest");
		is = ll_set(f, "icmp slt i64 %s, %s", block, blocks);
		ll_put(f, "br i1 %s, label %%%s, label %%%s", is, here, rest);
		ll_begin(f, here);
		stage_body(k, block);
		ll_forget(f);
		ll_put(f, "ret void");
		ll_begin(f, rest);
		block = ll_set(f, "sub i64 %s, %s", block, blocks);
	}
	ll_put(f, "ret void");
	return ll_with_barriers(k);
}

/* Loads of buffers that nothing writes during the launch may go through the read-only cache. */
static void put_params(LlKernel *k, StrBuf *b)
{
	const char *comma = "";

	for (int i = 0; i < k->bufs.n; i++, comma = ", ")
		strbuf_printf(b, "%sptr addrspace(1) %s%s", comma,
			      schedule_only_reads(k->sched, k->bufs.at[i]) ? "noalias readonly "
									   : "",
			      ll_buf_name(k, k->bufs.at[i]));
	for (int i = 0; i < k->dims.n; i++, comma = ", ")
		strbuf_printf(b, "%si64 %%dim%d", comma, i);
	if (k->faults)
		strbuf_printf(b, "%sptr addrspace(1) %%status, i64 %%site", comma), comma = ", ";
	if (k->arrives)
		strbuf_printf(b, "%sptr addrspace(1) %%arrivals", comma);
}

static const char *make_func(void *arg, const char *name)
{
	const char *at = strrchr(name, '_');
	Inst i = at ? inst_by_name(name, (size_t)(at - name)) : INST_COUNT;

	if (i == INST_COUNT || !inst_is_func(i))
		return NULL; /* the kernel's own globals */
	return ll_func(arg, i, !strcmp(at, "_f64") ? CT_F64 : CT_F32);
}

static void put_metadata(const LlKernel *k, StrBuf *b, bool once)
{
	strbuf_printf(b,
		      "\n!nvvm.annotations = !{!0}\n!0 = !{ptr @" KERNEL_NAME
		      ", !\"maxntidx\", i32 %d}\n",
		      k->stage->block.threads + k->stage->block.producers);
	if (once)
		strbuf_puts(b, "!1 = distinct !{!1, !2}\n"
			       "!2 = !{!\"llvm.loop.unroll.disable\"}\n");
}

/* The data layout (LLVM's guide to NVPTX), and the dynamic shared memory of the launch, which
 * distinguishes kernels whose code is otherwise the same. */
static void put_head(LlKernel *k, StrBuf *b)
{
	strbuf_puts(b, "target datalayout = \"e-i64:64-i128:128-v16:16-v32:32-n16:32:64\"\n");
	if (ll_dynamic_shared(k))
		strbuf_printf(b, "; %d bytes of shared memory that the launch gives\n",
			      ll_dynamic_shared(k));
}

/* The module, with KERNEL_NAME in place of the name. */
static const char *module_text(LlKernel *k, Stage *const *st, int n)
{
	StrBuf b = {0};
	const char *code = body(k, st, n), *text;

	put_head(k, &b);
	strbuf_put(&b, strbuf_str(&k->globals), k->globals.n);
	strbuf_printf(&b, "define ptx_kernel void @" KERNEL_NAME "(");
	put_params(k, &b);
	strbuf_puts(&b, ") {\nentry:\n");
	if (k->faults)
		strbuf_puts(&b, "  %fault = alloca i32\n");
	strbuf_put(&b, strbuf_str(&k->f.allocas), k->f.allocas.n);
	if (k->faults)
		strbuf_puts(&b, "  store i32 0, ptr %fault\n");
	strbuf_printf(&b, "%s}\n", code);
	ll_lib_define(k->f.g->lib, k->f.arena, &b, code, make_func, k->f.g);
	put_metadata(k, &b, strstr(code, LL_LOOP_ONCE));
	text = arena_strdup(k->f.arena, strbuf_str(&b));
	strbuf_free(&b);
	strbuf_free(&k->f.b);
	strbuf_free(&k->f.allocas);
	strbuf_free(&k->globals);
	return text;
}

static const char *named(Arena *a, const char *text, const char *name)
{
	StrBuf b = {0};
	const char *at, *s;

	for (; (at = strstr(text, KERNEL_NAME)); text = at + strlen(KERNEL_NAME)) {
		strbuf_put(&b, text, (size_t)(at - text));
		strbuf_puts(&b, name);
	}
	strbuf_puts(&b, text);
	s = arena_strdup(a, strbuf_str(&b));
	strbuf_free(&b);
	return s;
}

static PtxFunc *intern_func(GenPtx *g, const LlKernel *k, const char *text)
{
	uint64_t h = hash_bytes(HASH_SEED, text, strlen(text));
	PtxFunc *fn;

	for (int i = 0; i < g->funcs.n; i++)
		if (g->funcs.at[i]->hash == h && !strcmp(g->funcs.at[i]->text, text))
			return g->funcs.at[i];
	fn = NEW(g->arena, PtxFunc);
	*fn = (PtxFunc){.name = codegen_name(g->arena, g->prefix, g->funcs.n, k->stage->name),
			.text = text,
			.hash = h,
			.faults = k->faults,
			.arrives = k->arrives,
			.threads = k->stage->block.threads + k->stage->block.producers,
			.ahead = k->ahead,
			.hoisted = k->hoisted,
			.group = k->stage->block.group + k->stage->block.producers,
			.words = k->bufs.n + k->dims.n + (k->faults ? 2 : 0) + k->arrives,
			.shared = ll_dynamic_shared(k),
			.declared = ll_static_shared(k),
			.most = k->sched->where.shared ? k->sched->where.shared
						       : g->target->gpu->block_shared};
	fn->ir = named(g->arena, text, fn->name);
	vec_push(g->arena, &g->funcs, fn);
	return fn;
}

PtxStage gen_nvptx_stage(GenPtx *g, const Schedule *s, int at)
{
	const Stage *st = s->stages.at[at];
	LlKernel *k = ll_kernel_new(g, s, st);
	PtxStage r;
	const char *text;

	for (int i = 0; i < g->done.n; i++)
		if (g->done.at[i].stage == st)
			return g->done.at[i].s;
	text = module_text(k, s->stages.at + at, stage_launch(s, at));
	k->stage = st;
	r = (PtxStage){intern_func(g, k, text), k->bufs.at, k->bufs.n, k->dims.at, k->dims.n};
	r.fn->locs = locs_union(g->arena, r.fn->locs, s->kernel->locs);
	vec_push(g->arena, &g->done, ((PtxDone){st, r}));
	return r;
}

GenPtx *gen_nvptx_new(Ctx *c, Arena *a, const Target *t, const char *prefix)
{
	GenPtx *g = NEW(a, GenPtx);

	*g = (GenPtx){.arena = a,
		      .ctx = c,
		      .target = t,
		      .prefix = prefix,
		      .pool = expr_pool_new(c, a),
		      .lib = ll_lib_new(a, t->gpu->sm)};
	return g;
}

/* ---- Modules ---- */

static void put_locs(StrBuf *b, const PtxFunc *fn, const char *comment)
{
	enum { MOST = 8 };
	Arena *tmp = arena_new();
	const LocList all = locs_all(tmp, fn->locs);

	strbuf_puts(b, comment);
	for (int i = 0; i < all.n && i < MOST; i++) {
		strbuf_puts(b, i ? ", " : " ");
		codegen_put_loc(b, all.at[i], escape_line_comment);
	}
	if (all.n > MOST)
		strbuf_printf(b, ", and %d more", all.n - MOST);
	strbuf_puts(b, "\n");
	arena_free(tmp);
}

void gen_nvptx_ir(GenPtx *g, StrBuf *b)
{
	for (int i = 0; i < g->funcs.n; i++) {
		put_locs(b, g->funcs.at[i], ";");
		strbuf_printf(b, "%s\n", g->funcs.at[i]->ir);
	}
}

void gen_nvptx_ptx(GenPtx *g, int from, int end, StrBuf *b)
{
	const Gpu *gpu = g->target->gpu;

	strbuf_printf(b,
		      "// Kernels for %s, by dlcc.\n.version %d.%d\n.target %s\n.address_size 64\n",
		      g->target->name, gpu->ptx / 10, gpu->ptx % 10, g->target->name);
	for (int i = from; i < end; i++) {
		strbuf_puts(b, "\n");
		put_locs(b, g->funcs.at[i], "//");
		if (g->funcs.at[i]->shared)
			strbuf_printf(b, "// %d bytes of dynamic shared memory\n",
				      g->funcs.at[i]->shared);
		strbuf_puts(b, g->funcs.at[i]->ptx);
	}
}
