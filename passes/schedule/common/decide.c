/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decide: chooses how every CPU runs every kernel. The kernel's form says which strategy is tried
 * first (passes/forms/form.h), and the others follow in the order of their table: *product* takes
 * contractions that are tiled (cpu/gemm_decide.c), *attention* attentions, *map* and *row*
 * everything else whose statements have a common parallel band, a softmax for example
 * (cpu/row_decide.c). A kernel that none of these takes is run statement by statement, one stage
 * for each (*order*).
 *
 * On GPUs attention and products have decisions (gpu/attention_decide.c, gpu/gemm_decide.c). The
 * strategies of all other kernels decide while they emit (gpu/sched_gpu.c).
 *
 * A file of the user replaces decisions (schedule_file.c).
 */
#include "passes/forms/form.h"
#include "passes/schedule/common/decision.h"
#include "passes/schedule/cpu/cpu.h"
#include "passes/schedule/gpu/gpu.h"

const StrategyInfo strategy_table[STRATEGY_COUNT] = {
	[STRATEGY_PRODUCT] = {"product", false, product_choose, product_legal, product_steps,
			      product_emit, product_text, product_offer, product_reason},
	[STRATEGY_ATTENTION] = {"attention", false, attention_choose, attention_legal, NULL,
				attention_emit, attention_text, attention_offer, NULL},
	[STRATEGY_MAP] = {"map", false, map_choose, rows_legal, NULL, rows_emit, rows_text,
			  rows_offer, NULL},
	[STRATEGY_ROW] = {"row", false, row_choose_all, rows_legal, NULL, rows_emit, rows_text,
			  rows_offer, rows_reason},
	[STRATEGY_ORDER] = {"order", false, order_choose, rows_legal, NULL, rows_emit, rows_text,
			    rows_offer, rows_reason},
	[STRATEGY_GPU_ATTENTION] = {"attention", true, gpu_attention_choose, gpu_attention_legal,
				    gpu_attention_steps, gpu_attention_emit, gpu_attention_text,
				    gpu_attention_offer, gpu_attention_reason},
	[STRATEGY_GPU_PRODUCT] = {"product", true, gpu_product_choose, gpu_product_legal,
				  gpu_product_steps, gpu_product_emit, gpu_product_text,
				  gpu_product_offer, gpu_product_reason},
};

/* The first strategy to try for a kernel of form F. F is null for a kernel that runs on the host
 * beside code for a GPU: it has few elements and needs no tiles. */
static Strategy first_strategy(const Form *f)
{
	if (f && f->tiled)
		return STRATEGY_PRODUCT;
	return f && f->kind == FORM_ATTENTION ? STRATEGY_ATTENTION : STRATEGY_MAP;
}

/* How K, of form F, is scheduled on CPU T. K is a copy that the function may change; its arena
 * holds the result. */
static Decision *decide(const Target *t, Kernel *k, const Form *f)
{
	Decision *d = NEW(k->arena, Decision);

	for (int s = (int)first_strategy(f); s <= STRATEGY_ORDER; s++) {
		*d = (Decision){.strategy = (Strategy)s};
		if (strategy_table[s].choose(t, k, d))
			break;
	}
	return d;
}

/* The same on GPU T; null: K is neither an attention nor a product, or T does not take it. */
static Decision *decide_gpu(const Target *t, Kernel *k, const Form *f)
{
	Decision *d = NEW(k->arena, Decision);

	*d = (Decision){.strategy = STRATEGY_GPU_ATTENTION};
	if (f && f->kind == FORM_ATTENTION && gpu_attention_choose(t, k, d))
		return d;
	*d = (Decision){.strategy = STRATEGY_GPU_PRODUCT};
	return f && gpu_product_choose(t, k, d) ? d : NULL;
}

Decision *decision_copy(Arena *a, const Decision *d, int nstmts)
{
	Decision *c = arena_copy(a, d, sizeof *d);

	if (d->strategy == STRATEGY_PRODUCT || d->strategy == STRATEGY_ATTENTION ||
	    d->strategy == STRATEGY_GPU_ATTENTION || d->strategy == STRATEGY_GPU_PRODUCT)
		return c;
	c->rows.stage = arena_copy(a, d->rows.stage,
				   (size_t)d->rows.nstages * sizeof *d->rows.stage);
	c->rows.stmt = arena_copy(a, d->rows.stmt, (size_t)nstmts * sizeof *d->rows.stmt);
	return c;
}

const Target *decide_target(const Module *m, const Target *t)
{
	Target *as;
	Gpu *gpu;

	if (t->gpu && m->opt.tf32) {
		gpu = arena_copy(m->arena, t->gpu, sizeof *gpu);
		gpu->rounds = true;
		as = arena_copy(m->arena, t, sizeof *t);
		as->gpu = gpu;
		return as;
	}
	if (!t->bf16 || m->opt.bf16_activations || m->opt.flush)
		return t;
	as = arena_copy(m->arena, t, sizeof *t);
	as->bf16 = false;
	return as;
}

bool pass_decide(Module *m)
{
	m->ndecisions = m->graph->nnodes;
	for (int t = 0; t < m->ntargets; t++) {
		const Target *target = decide_target(m, m->target[t]);

		m->decision[t] = NEW_ARRAY(m->arena, m->ndecisions + 1, Decision *);
		for (Node *n = module_first(m); n; n = module_next(m, n)) {
			const bool host = node_on_host(n);
			const Target *of = host ? m->host : target;
			Kernel *k = node_kernel(n);
			const Form *f = k && !host ? module_form(m, n) : NULL;
			const Decision *d;
			Arena *tmp;

			if (!k)
				continue;
			diag_at(m->ctx, node_diag(n));
			tmp = arena_new();
			d = of->gpu ? decide_gpu(of, kernel_clone(k, tmp), f)
				    : decide(of, kernel_clone(k, tmp), f);
			m->decision[t][n->id] = d ? decision_copy(m->arena, d, k->stmts.n) : NULL;
			arena_free(tmp);
		}
	}
	diag_at(m->ctx, (DiagLoc){0});
	return !m->opt.schedule || schedule_file_apply(m);
}
