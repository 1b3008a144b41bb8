/* SPDX-License-Identifier: Apache-2.0 */
#define DLRT_GENERATED 1 /* for the type of a stage */
#include "tests/tools/batch/kernels.h"

#include "ir/eval/eval.h"
#include "ops/op.h"
#include "passes/forms/kernels.h"
#include "runtime/dlrt.h"
#include "tests/tools/batch/gpu.h"
#include "tests/tools/batch/judge.h"
#include "tests/oracle/eval_graph.h"

#include <math.h>

enum { ALIGN = 64 };

typedef struct Judge {
	Arena *arena; /* for the answer */
	Module *m;
	GenC *g;
	GenPtx *ptx; /* null: there is no GPU */
	TestGpu *gpu;
	dl_kernel_fn const *stages;
	int *first; /* by Node.id: the index of its first stage in the table; a loop runs it many times */
	int next; /* index of the next stage in the table */
	const char *bad;
} Judge;

/* The schedule of a kernel that runs with the model; null for other nodes. */
static Schedule *schedule_of(Module *m, const Node *n)
{
	Schedule *s = n->id < m->nsched ? m->sched[0][n->id] : NULL;

	return s && !(n->nout && value_is_weights(m, n->out[0])) ? s : NULL;
}

static bool is_on_gpu(const Module *m, const Node *n)
{
	return m->target[0]->gpu && !node_on_host(n);
}

void kernels_table(StrBuf *b, Module *m, GenC *g, const char *name)
{
	strbuf_printf(b,
		      "\nDL_EXPORT extern const dl_kernel_fn %s[];\nconst dl_kernel_fn %s[] = {\n",
		      name, name);
	for (Node *n = m->graph->first; n; n = n->next) {
		Schedule *s = is_on_gpu(m, n) ? NULL : schedule_of(m, n);

		for (; s; s = s->next)
			for (int i = 0; i < s->stages.n; i++)
				strbuf_printf(b, "\t%s,\n",
					      gen_c_stage(g, s, s->stages.at[i]).fn->name);
	}
	strbuf_puts(b, "\t0\n};\n");
}

/* ---- Running ---- */

static void dims_of(const Buf *b, const int64_t *sym, int64_t *dims)
{
	for (int d = 0; d < b->rank; d++)
		if (!dim_eval(b->dims[d], sym, &dims[d]))
			dims[d] = 0;
}

static int64_t bytes_of(const Buf *b, const int64_t *sym)
{
	int64_t dims[MAX_RANK];

	dims_of(b, sym, dims);
	return dtype_size(b->dtype, layout_elements(b, dims));
}

/* Memory filled with values that no result has. */
static void *fresh(Arena *a, int64_t bytes)
{
	char *p = arena_alloc(a, (size_t)bytes + 2 * ALIGN);

	p += ALIGN - (uintptr_t)p % ALIGN;
	memset(p, 0x7f, (size_t)bytes);
	return p;
}

static void *fresh_buf(Arena *a, const Buf *b, const int64_t *sym)
{
	return fresh(a, bytes_of(b, sym));
}

/* The buffer of kernel K that is parameter PARAM of this kind. */
static int param_of(const Kernel *k, BufKind kind, int param)
{
	for (int i = 0; i < k->bufs.n; i++)
		if (k->bufs.at[i]->kind == kind && k->bufs.at[i]->param == param)
			return i;
	return -1;
}

/* A copy at the alignment that a run has; data in a mapped file may be unaligned. */
static void *aligned(Arena *a, const Buf *b, const int64_t *sym, void *data)
{
	if ((uintptr_t)data % sizeof(double) == 0)
		return data;
	return memcpy(fresh_buf(a, b, sym), data, (size_t)bytes_of(b, sym));
}

typedef struct Memory {
	const Kernel *k; /* the kernel that eval ran */
	const Schedule *s;
	void **data;                 /* by Buf.id of K */
	void **temp;                 /* by index in S->temps */
	uint64_t *data_at, *temp_at; /* their addresses on the GPU, or null */
} Memory;

static void *memory_of(const Memory *m, const Buf *b)
{
	int i = b->kind == BUF_IN || b->kind == BUF_OUT ? param_of(m->k, b->kind, b->param) : -1;

	if (i >= 0)
		return m->data[i];
	for (i = 0; i < m->s->temps.n; i++)
		if (m->s->temps.at[i] == b)
			return m->temp[i];
	return NULL;
}

static uint64_t address_of(const Memory *m, const Buf *b)
{
	int i = b->kind == BUF_IN || b->kind == BUF_OUT ? param_of(m->k, b->kind, b->param) : -1;

	if (i >= 0)
		return m->data_at[i];
	for (i = 0; i < m->s->temps.n; i++)
		if (m->s->temps.at[i] == b)
			return m->temp_at[i];
	return 0;
}

/* Runs a stage in two parts, as two threads do. */
static void run_stage(dl_kernel_fn fn, const dl_kctx *x, int64_t extent, int64_t grain,
		      void *scratch)
{
	int64_t half = extent / 2 / grain * grain;

	if (half > 0)
		fn(x, 0, half, scratch);
	if (extent > half)
		fn(x, half, extent, scratch);
}

static void launch(Judge *j, Arena *a, const Memory *m, const Stage *st, const int64_t *sym)
{
	CStage c = gen_c_stage(j->g, m->s, st);
	void **buf = NEW_ARRAY(a, c.nbuf + 1, void *);
	int64_t *dim = NEW_ARRAY(a, c.ndim + 1, int64_t), extent = 0, grain = 1, scratch = 0;
	int64_t bad_index[2];
	int32_t fault = 0;
	bool fits = true;

	for (int i = 0; i < c.nbuf; i++)
		buf[i] = memory_of(m, c.buf[i]);
	for (int i = 0; i < c.ndim; i++)
		fits = fits && dim_eval(c.dim[i], sym, &dim[i]);
	if (fits && dim_eval(st->extent, sym, &extent) && dim_eval(st->cpu.grain, sym, &grain) &&
	    dim_eval(st->scratch, sym, &scratch))
		run_stage(j->stages[j->next],
			  &(dl_kctx){buf, dim, &fault, m->k->ctx->strings, bad_index, 0}, extent,
			  grain < 1 ? 1 : grain, fresh(a, scratch));
	j->next++;
}

/* ---- On the GPU ---- */

static bool holds(Dim *size, int64_t most, const int64_t *sym)
{
	int64_t n;

	return !size || (dim_eval(size, sym, &n) && n <= most);
}

static bool guard_holds(const Judge *j, const SizeStep *x, const int64_t *sym)
{
	int64_t n;

	for (int i = 0; i < x->nof; i++)
		if (!dim_eval(x->of[i], sym, &n) || n % x->each)
			return false;
	return holds(x->size, x->most, sym) && holds(x->also, x->also_most, sym) &&
	       (!j->gpu || x->shared <= test_gpu_shared(j->gpu));
}

/* Launches the stages from AT on that are one launch; returns their number. */
static int launch_on_gpu(Judge *j, Arena *a, const Memory *m, int at, const int64_t *sym)
{
	const PtxStage c = gen_nvptx_stage(j->ptx, m->s, at);
	const int stages = stage_launch(m->s, at);
	uint64_t *arg = NEW_ARRAY(a, c.nbuf + c.ndim + 1, uint64_t);
	int64_t blocks = 0, v;

	for (int i = 0; i < c.nbuf; i++)
		arg[i] = address_of(m, c.buf[i]);
	for (int i = 0; i < c.ndim; i++)
		arg[c.nbuf + i] = dim_eval(c.dim[i], sym, &v) ? (uint64_t)v : 0;
	for (int i = 0; i < stages; i++)
		blocks += dim_eval(stage_blocks(m->k->ctx, m->s->stages.at[at + i]), sym, &v) ? v
											      : 0;
	test_gpu_launch(
		j->gpu,
		(TestEntry){c.fn->name, c.fn->threads, c.fn->shared, c.fn->faults, c.fn->arrives},
		arg, c.nbuf + c.ndim, blocks);
	return stages;
}

/* Runs the stages of M.s on the GPU, with copies of its memory, and copies the results back. */
static void run_on_gpu(Judge *j, Arena *a, Memory *m, const int64_t *sym)
{
	m->data_at = NEW_ARRAY(a, m->k->bufs.n + 1, uint64_t);
	m->temp_at = NEW_ARRAY(a, m->s->temps.n + 1, uint64_t);
	for (int i = 0; i < m->k->bufs.n; i++)
		if (m->data[i])
			m->data_at[i] = test_gpu_put(j->gpu, m->data[i],
						     bytes_of(m->k->bufs.at[i], sym));
	for (int i = 0; i < m->s->temps.n; i++)
		m->temp_at[i] = test_gpu_put(j->gpu, m->temp[i], bytes_of(m->s->temps.at[i], sym));
	for (int i = 0; i < m->s->stages.n;)
		i += launch_on_gpu(j, a, m, i, sym);
	for (int i = 0; i < m->k->bufs.n; i++)
		if (m->k->bufs.at[i]->kind == BUF_OUT)
			test_gpu_get(j->gpu, m->data[i], m->data_at[i],
				     bytes_of(m->k->bufs.at[i], sym));
	test_gpu_clear(j->gpu);
	if (test_gpu_failure(j->gpu))
		j->bad = test_gpu_failure(j->gpu);
}

/* ---- Judging ---- */

/* Whether X, computed by the C, is within B of eval's Y. ZEROS: -0 equals +0. */
static bool agree(double x, double y, double b, bool zeros)
{
	if (isnan(x) || isnan(y) || isinf(b))
		return (isnan(x) && isnan(y)) || isinf(b);
	return b > 0 ? x == y || fabs(x - y) <= b : x == y && (zeros || !signbit(x) == !signbit(y));
}

static const char *name_of(const Node *n)
{
	const char *name = locs_first(n->locs).node;

	return name ? name : op_row[n->op].name;
}

static void compare_buf(Judge *j, Arena *a, const Node *n, const Buf *b, const void *got,
			const EvalBuf *want, const int64_t *sym, bool zeros)
{
	int64_t dims[MAX_RANK], total = 1;
	void *x, *y;

	dims_of(b, sym, dims);
	for (int d = 0; d < b->rank; d++)
		total *= dims[d];
	x = (void *)(uintptr_t)got;
	y = want->data;
	if (b->layout) {
		x = fresh(a, dtype_size(b->dtype, total));
		y = fresh(a, dtype_size(b->dtype, total));
		layout_unpack(b, dims, got, x);
		layout_unpack(b, dims, want->data, y);
	}
	for (int64_t i = 0; i < total && !j->bad; i++) {
		double bound = want->bound ? want->bound[i] : 0, u, v;

		if (!dtype_is_float(b->dtype) &&
		    dtype_load_i64(b->dtype, x, i) == dtype_load_i64(b->dtype, y, i))
			continue;
		u = dtype_is_float(b->dtype) ? dtype_load_f64(b->dtype, x, i)
					     : (double)dtype_load_i64(b->dtype, x, i);
		v = dtype_is_float(b->dtype) ? dtype_load_f64(b->dtype, y, i)
					     : (double)dtype_load_i64(b->dtype, y, i);
		if (!agree(u, v, bound, zeros) || (!dtype_is_float(b->dtype) && bound <= 0))
			j->bad = arena_printf(
				j->arena,
				"kernel \"%s\": [%lld] of result %d is %.9g, not %.9g within %.3g",
				name_of(n), (long long)i, b->param, u, v, bound);
	}
}

static void judge_schedule(Judge *j, Node *n, Kernel *k, Schedule *s, const EvalBuf *bufs,
			   const int64_t *sym)
{
	Arena *a = arena_new();
	const bool *unsigned_zeros = kernel_unsigned_zeros(a, k);
	Memory m = {.k = k,
		    .s = s,
		    .data = NEW_ARRAY(a, k->bufs.n + 1, void *),
		    .temp = NEW_ARRAY(a, s->temps.n + 1, void *)};

	for (int i = 0; i < s->temps.n; i++)
		m.temp[i] = fresh_buf(a, s->temps.at[i], sym);
	for (int i = 0; i < k->bufs.n; i++)
		if (k->bufs.at[i]->kind == BUF_OUT)
			m.data[i] = fresh_buf(a, k->bufs.at[i], sym);
		else if (k->bufs.at[i]->kind == BUF_IN)
			m.data[i] = aligned(a, k->bufs.at[i], sym, bufs[i].data);
	if (is_on_gpu(j->m, n))
		run_on_gpu(j, a, &m, sym);
	else
		for (int i = 0; i < s->stages.n; i++)
			launch(j, a, &m, s->stages.at[i], sym);
	for (int i = 0; i < k->bufs.n && !j->bad; i++)
		if (k->bufs.at[i]->kind == BUF_OUT)
			compare_buf(j, a, n, k->bufs.at[i], m.data[i], &bufs[i], sym,
				    unsigned_zeros[i]);
	arena_free(a);
}

static int *first_stages(Arena *a, Module *m)
{
	int *first = NEW_ARRAY(a, m->graph->nnodes + 1, int), at = 0;

	for (Node *n = m->graph->first; n; n = n->next) {
		const Schedule *s = is_on_gpu(m, n) ? NULL : schedule_of(m, n);

		first[n->id] = at;
		for (; s; s = s->next)
			at += s->stages.n;
	}
	return first;
}

static bool judge(void *arg, Node *n, Kernel *k, const EvalBuf *bufs, const int64_t *sym)
{
	Judge *j = arg;

	j->next = j->first[n->id];
	for (Schedule *s = schedule_of(j->m, n); s && !j->bad; s = s->next) {
		const int next = j->next + s->stages.n;

		if (guard_holds(j, &s->where, sym))
			judge_schedule(j, n, k, s, bufs, sym);
		j->next = next;
	}
	return !j->bad;
}

const char *kernels_differ(Arena *a, Module *m, GenC *g, GenPtx *ptx, const void *stages,
			   const Tensor *const *inputs, Diag *diag)
{
	Judge j = {.arena = a,
		   .m = m,
		   .g = g,
		   .ptx = ptx,
		   .stages = stages,
		   .first = first_stages(a, m)};
	Tensor **out = NEW_ARRAY(a, m->graph->results.n + 1, Tensor *);
	EvalGraphOpts o = {m->target[0]->fma, judge, &j};
	StrBuf text = {0};

	if (ptx && ptx->funcs.n) {
		gen_nvptx_ptx(ptx, 0, ptx->funcs.n, &text);
		j.gpu = test_gpu_open(a, strbuf_str(&text), &j.bad);
		strbuf_free(&text);
	}
	if (!j.bad && !eval_graph_with(m->graph, inputs, out, a, diag, &o) && !j.bad)
		j.bad = "the kernels cannot be evaluated";
	if (j.gpu)
		test_gpu_close(j.gpu);
	return j.bad;
}
