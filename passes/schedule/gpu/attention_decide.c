/* SPDX-License-Identifier: Apache-2.0 */
/* Decides how a GPU computes attention, by the time of the fullest pipe of an SM, and says which
 * decisions of a user are legal. */
#include "passes/schedule/gpu/attention_impl.h"

#include <math.h>

enum {
	MOST_WARPS = 8,
	MOST_FRAGMENTS = 2,
	MOST_KEYS = 128,
	MOST_STAGES = 3,
	MOST_PARTS = 128,
	MOST_REGISTERS = 240, /* of a thread, by the estimate; ptxas has 255 */
	ASSUMED = 512,        /* rows and keys, where their number is not known, */
	ASSUMED_CACHE = 4096  /* and keys where the rows are few */
};

static const int warps_tried[] = {4, 8, 2, 1}, keys_tried[] = {64, 32, 128, 48, 16},
		 parts_tried[] = {1, 8, 16, 32, 64};

/* ---- The model ---- */

typedef struct AttentionCost {
	double tensor, issue, shared, special,
		memory; /* seconds of each pipe, of all SMs together */
	double share; /* of the SMs' time that is used: some have fewer blocks, or too few warps to hide latencies */
	double total;
} AttentionCost;

static double size_of(const Dim *d)
{
	int64_t v;

	return dim_is_const(d, &v) ? (double)v : (double)ASSUMED;
}

/* The rows are, or are assumed to be, those of one block at most. */
static bool is_few(const GpuAttention *a, bool few)
{
	return few || size_of(a->rows) <= a->rm;
}

/* Products a second, in units of 2 operations. */
static double rate(const Gpu *gpu, MmaKind kind)
{
	const double f16 = gpu->f16 * 1e12, f32 = gpu->f32 * 1e12;

	return kind == MMA_FMA                                 ? f32
	       : dtype_info[mma_info[kind].type[0]].bits == 32 ? f16 / 2
							       : f16;
}

/* Blocks that an SM runs at once. */
static double resident(const GpuAttention *a)
{
	const Gpu *gpu = a->t->gpu;
	const int threads = a->warps * a->splits * WARP,
		  registers = (gpu_attention_registers(a) + 7) / 8 * 8;
	const double by_shared = floor((double)gpu->shared / (double)(a->shared + GPU_DRIVER)),
		     by_registers = floor((double)gpu->registers / (registers * threads)),
		     by_threads = floor((double)gpu->threads / threads);

	return fmax(1, fmin(by_shared, fmin(by_registers, by_threads)));
}

/* What a warp does in a step over the keys, in clocks of an SM for each pipe. */
typedef struct StepClocks {
	double issue, shared, special;
} StepClocks;

static StepClocks clocks_of(const GpuAttention *a)
{
	/* instructions: of a score with its exponential, besides those of the form's expression; of
	 * a result that is scaled; of a step, for addresses, copies and barriers. In f16 with 128
	 * columns, 64 keys and 32 rows of a warp, that is 810, where ptxas has 816 for sm_80. */
	const double score = 3.5, result = 1, step = 60;
	/* clocks of an SM: an instruction of a warp; 16 bytes for each lane; an exponential */
	const double issue = 0.25, wide = 4, ex2 = 2;
	const int threads = a->warps * a->splits * WARP, bytes = dtype_bytes(a->op[OPERAND_K].type),
		  vector = VECTOR_BYTES, fragment = MMA_STEP_BYTES, keys = KEYS, rows = MMA_ROWS;
	const double scores = (double)a->fragments * a->bn / 2,
		     results = (double)a->fragments * a->ep / 2;
	/* copies of keys and values, of 16 bytes; loads of four registers of 16 rows or columns;
	 * for multiply-adds, of vectors of four terms for two rows by 64 keys or columns */
	const double copies = (double)a->bn * a->splits * (a->dp + a->ep) * bytes / vector /
			      threads,
		     fragments = (double)bytes / fragment / keys *
				 ((double)a->bn * a->dp + (double)a->ep * a->bn +
				  (double)a->fragments * rows * a->dp),
		     loads = a->mma[0] == MMA_FMA ? 0.15 * (scores * a->dp + results * a->bn)
						  : fragments,
		     products = a->mma[0] == MMA_FMA
					? scores * a->dp + results * a->bn
					: (scores * a->dp + results * a->bn) * bytes / 4 / fragment;
	int ops = 0;

	EX_EACH (e, a->f.x)
		ops += e->kind == EX_INST;
	if (!gpu_is_multiple(a->keys, (int64_t)a->bn * a->splits))
		ops++; /* which keys exist */
	return (StepClocks){
		.issue = issue * (scores * (score + ops) + results * result + step + copies +
				  loads + products),
		.shared = wide * (copies + loads),
		.special = ex2 * scores,
	};
}

/* The seconds for the decision that A has the shape of, in runs with few rows or in all. */
static AttentionCost cost_of(const GpuAttention *a, bool few)
{
	/* warps of an SM that hide latencies; instructions of a warp besides its steps; bytes from
	 * L2 to an SM in a clock; clocks that a block waits in a step; seconds of a launch, and for
	 * the combination of a part */
	const double hide = 8, clock = 1.4e9, epilogue = 400, overlap = 0.1, l2 = 32, barrier = 150,
		     launch = 2.5e-6, combine = 4e-8;
	const Gpu *gpu = a->t->gpu;
	const bool cache = is_few(a, few);
	int64_t known;
	const double m = few ? fmin(size_of(a->rows), a->rm) : size_of(a->rows),
		     n = cache && !dim_is_const(a->keys, &known) ? (double)ASSUMED_CACHE
								 : size_of(a->keys),
		     batch = cache ? (double)gpu_least(a->f.k->ctx, a->batch) : size_of(a->batch),
		     all = fmax(1, ceil(n / (a->bn * a->splits))), parts = fmin(a->parts, all),
		     steps = ceil(all / parts), blocks = batch * ceil(m / a->rm) * parts,
		     warps = blocks * a->warps * a->splits, each = fmax(1, ceil(blocks / gpu->sms)),
		     pipes = gpu->sms * clock;
	const StepClocks s = clocks_of(a);
	AttentionCost c = {0};
	double fill, hidden, pipe;

	c.tensor = blocks * steps * a->bm * a->bn * 2.0 *
		   (a->dp / rate(gpu, a->mma[0]) + a->ep / rate(gpu, a->mma[1]));
	c.issue = warps * (steps * s.issue + epilogue / 4) / pipes;
	c.shared = warps * steps * s.shared / pipes;
	c.special = warps * steps * s.special / pipes;
	/* the blocks of a matrix run at once, so they read its keys and values from L2 */
	c.memory = fmax(batch * (m + n) / (gpu->memory * 1e9),
			(blocks * steps * a->bn * a->splits + batch * m) / (pipes * l2)) *
		   (double)(a->d + a->e) * dtype_bytes(a->op[OPERAND_K].type);
	fill = fmax(blocks / (each * gpu->sms), 1e-6);
	hidden = fmin(1, fmin(resident(a), each) * a->warps * a->splits / hide);
	c.share = fill * hidden;
	/* pipes that share a step overlap, but not wholly, and none is full at a barrier; copies
	 * are in flight whatever the number of warps */
	pipe = fmax(fmax(c.tensor, c.issue), fmax(c.shared, c.special)) +
	       overlap * (c.tensor + c.issue + c.shared + c.special);
	c.total = (fmax(pipe / hidden, c.memory) + blocks * steps * barrier / pipes) / fill;
	if (gpu_attention_splits(a))
		c.total += launch + a->parts * a->splits * combine;
	return c;
}

/* ---- Choice ---- */

/* The block of A's shape can run on every GPU that runs T's code; else false, after WHY. */
static bool fits(const GpuAttention *a, StrBuf *why)
{
	return gpu_fits(a->shared, a->t->gpu->block_shared, gpu_attention_registers(a),
			MOST_REGISTERS, why);
}

static bool try_shape(GpuAttention *a, const GpuDecision *d)
{
	gpu_attention_shape(a, d);
	return fits(a, NULL);
}

/* Whether a variant for few rows may be of use, if its blocks have RM: the number of rows is not
 * known, may be so small, and is not that of the keys. */
static bool may_be_few(const GpuAttention *a, int rm)
{
	for (int i = 0; i < a->f.scores.nm; i++)
		if (a->f.scores.m[i]->extent == a->keys)
			return false;
	return !dim_is_const(a->rows, NULL) && gpu_least(a->f.k->ctx, a->rows) <= rm;
}

/* Calls FN for each shape that is tried. */
static void for_shapes(const GpuAttention *a, bool few, bool stages,
		       void (*fn)(void *arg, const GpuDecision *d), void *arg)
{
	const bool parts = few || dim_is_const(a->rows, NULL);
	GpuDecision d = {.mma = {a->mma[0], a->mma[1]}, .terms = a->dp, .columns = a->ep};

	for (int i = 0; i < OPERAND_COUNT; i++)
		d.async[i] = a->op[i].async;
	for (size_t w = 0; w < sizeof warps_tried / sizeof *warps_tried; w++)
		for (size_t n = 0; n < sizeof keys_tried / sizeof *keys_tried; n++)
			for (size_t p = 0;
			     p < (parts ? sizeof parts_tried / sizeof *parts_tried : 1); p++)
				for (int i = 0; i < MOST_FRAGMENTS * (stages ? MOST_STAGES : 1);
				     i++) {
					const int fragments = 1 + i % MOST_FRAGMENTS;
					const bool split = few || (parts && parts_tried[p] > 1);

					d.warps = split ? 1 : warps_tried[w];
					d.splits = split ? warps_tried[w] : 1;
					d.fragments = fragments;
					d.keys = keys_tried[n];
					d.stages = stages ? 1 + i / MOST_FRAGMENTS : 2;
					d.parts = parts_tried[p];
					if (!split || fragments == 1)
						fn(arg, &d);
				}
}

typedef struct AttentionChoice {
	GpuAttention *a;
	bool few;
	double best; /* 0: none yet */
	GpuDecision decision;
} AttentionChoice;

/* With one buffer for keys and one for values each copy overlaps the product that reads the other,
 * which takes as long only beside other blocks. So that is tried where two do not fit. */
static void see_shape(void *arg, const GpuDecision *shape)
{
	AttentionChoice *c = arg;
	GpuDecision d = *shape;
	double cost;

	if (!try_shape(c->a, &d)) {
		d.stages = 1;
		if (d.splits > 1 || !try_shape(c->a, &d) || resident(c->a) < 2)
			return;
	}
	cost = cost_of(c->a, c->few).total;
	if (c->best > 0 && cost >= c->best)
		return;
	c->best = cost;
	c->decision = d;
}

bool gpu_attention_choose(const Target *t, Kernel *k, Decision *d)
{
	GpuAttention a;
	AttentionChoice all = {.a = &a}, few = {.a = &a, .few = true};

	if (!gpu_attention_open(&a, t, k))
		return false;
	for_shapes(&a, false, false, see_shape, &all);
	if (all.best > 0 && may_be_few(&a, MMA_ROWS))
		for_shapes(&a, true, false, see_shape, &few);
	d->gpu = (GpuAttentionDecision){all.decision, few.decision};
	return all.best > 0;
}

int gpu_attention_steps(const Target *t, Kernel *k, const Decision *d, SizeStep *step)
{
	GpuAttention a;

	if (!d->gpu.few.warps || !gpu_attention_open(&a, t, kernel_clone(k, k->arena)))
		return 0;
	gpu_attention_shape(&a, &d->gpu.few);
	*step = (SizeStep){.size = a.rows, .most = a.rm};
	return 1;
}

/* Whether variant G, for few rows or all, is legal. */
static bool variant_is_legal(GpuAttention *a, const GpuDecision *g, bool few, StrBuf *why)
{
	static const char *const names[] = {"q", "k", "v"};

	for (int i = 0; i < OPERAND_COUNT; i++)
		if (!gpu_hold_is_legal(names[i], g->async[i], a->op[i].async, why))
			return false;
	if (g->stages > MOST_STAGES)
		return decision_refuse(why, "%d buffers of k and v are more than %d", g->stages,
				       MOST_STAGES);
	gpu_attention_shape(a, g);
	if (a->bn % 16 || a->bn > MOST_KEYS || a->bn < 16)
		return decision_refuse(why, "%d keys of a block are not a multiple of 16 up to %d",
				       a->bn, MOST_KEYS);
	if (a->warps * a->splits > MOST_WARPS || a->fragments > MOST_FRAGMENTS)
		return decision_refuse(why, "%d warps of %d fragments are more than %d of %d",
				       a->warps * a->splits, a->fragments, MOST_WARPS,
				       MOST_FRAGMENTS);
	if (a->parts > MOST_PARTS)
		return decision_refuse(why, "%d parts of the keys are more than %d", a->parts,
				       MOST_PARTS);
	if (few && !may_be_few(a, a->rm))
		return decision_refuse(why, "there are never %d rows or fewer, or always", a->rm);
	if (g->terms != a->dp || g->columns != a->ep)
		return decision_refuse(
			why, "%d terms by d and %d columns by e are not this attention's %d and %d",
			g->terms, g->columns, a->dp, a->ep);
	return fits(a, why);
}

bool gpu_attention_legal(const Target *t, Kernel *k, const Decision *d, StrBuf *why)
{
	const GpuAttentionDecision *g = &d->gpu;
	GpuAttention a;

	if (!gpu_attention_open(&a, t, k))
		return decision_refuse(why, "the kernel is not an attention that GPUs take");
	if (g->all.mma[0] != a.mma[0] || g->all.mma[1] != a.mma[1])
		return decision_refuse(why, "the instructions for these types are %s,%s",
				       mma_info[a.mma[0]].name, mma_info[a.mma[1]].name);
	return variant_is_legal(&a, &g->all, false, why) &&
	       (!g->few.warps || variant_is_legal(&a, &g->few, true, why));
}

typedef struct AttentionOffers {
	Offers *o;
	GpuAttention *a;
	const Decision *base;
	bool few;
	double first; /* seconds of BASE */
} AttentionOffers;

static void offer_shape(void *arg, const GpuDecision *shape)
{
	AttentionOffers *f = arg;
	Decision d = *f->base;
	GpuDecision *g = f->few ? &d.gpu.few : &d.gpu.all;
	const GpuDecision *was = f->few ? &f->base->gpu.few : &f->base->gpu.all;

	*g = *shape;
	if (g->warps == was->warps && g->splits == was->splits && g->fragments == was->fragments &&
	    g->keys == was->keys && g->parts == was->parts && g->stages == was->stages)
		return;
	gpu_attention_shape(f->a, g);
	d.edited = false;
	offer_add(f->o, &d, cost_of(f->a, f->few).total / f->first);
}

void gpu_attention_offer(Offers *o, Kernel *k, const Decision *base)
{
	GpuAttention a;

	if (!gpu_attention_open(&a, o->target, k))
		return;
	for (int few = 0; few <= (base->gpu.few.warps > 0); few++) {
		AttentionOffers f = {.o = o, .a = &a, .base = base, .few = few};

		gpu_attention_shape(&a, few ? &base->gpu.few : &base->gpu.all);
		f.first = cost_of(&a, few).total;
		for_shapes(&a, few, true, offer_shape, &f);
	}
}

static void print_reason(GpuAttention *a, const GpuDecision *g, bool few, StrBuf *b)
{
	AttentionCost c;

	gpu_attention_shape(a, g);
	c = cost_of(a, few);
	strbuf_printf(
		b,
		"%d rows by %d keys in a block of %d warps, %lld bytes of shared memory, about %d registers; predicted: %.3g us, of products %.3g, issue %.3g, shared memory %.3g, exponentials %.3g, memory %.3g, at %.0f %% of the SMs' time",
		a->rm, a->bn * a->splits, a->warps * a->splits, (long long)a->shared,
		gpu_attention_registers(a), c.total * 1e6, c.tensor * 1e6, c.issue * 1e6,
		c.shared * 1e6, c.special * 1e6, c.memory * 1e6, c.share * 100);
}

void gpu_attention_reason(const Target *t, Kernel *k, const Decision *d, StrBuf *b)
{
	GpuAttention a;

	if (!gpu_attention_open(&a, t, k))
		return;
	print_reason(&a, &d->gpu.all, false, b);
	if (!d->gpu.few.warps)
		return;
	strbuf_puts(b, "; for few rows: ");
	print_reason(&a, &d->gpu.few, true, b);
}
