/* SPDX-License-Identifier: Apache-2.0 */
/* Decides how a GPU computes attention, by the time of the fullest pipe of an SM, and says which decisions of
 * a user are legal. */
#include "passes/schedule/gpu/attention_impl.h"

#include <math.h>

enum {
	MOST_WARPS = 8,
	MOST_FRAGMENTS = 2,
	MOST_KEYS = 128,
	MOST_STAGES = 3,
	MOST_REGISTERS = 232, /* of a thread, by the estimate; ptxas has 255 */
	ASSUMED = 512         /* rows and keys, where their number is not known */
};

static const int warps_tried[] = {4, 8, 2, 1}, keys_tried[] = {64, 32, 128, 16};

/* ---- The model ---- */

typedef struct AttentionCost {
	double tensor, issue, memory; /* seconds of each pipe, of all SMs together */
	double share; /* of the SMs' time that is used: the last wave, and warps that hide latencies */
	double total;
} AttentionCost;

static double size_of(const Dim *d)
{
	int64_t v;

	return dim_is_const(d, &v) ? (double)v : (double)ASSUMED;
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
	const int threads = a->warps * WARP, registers = (gpu_attention_registers(a) + 7) / 8 * 8;
	const double by_shared = floor((double)gpu->shared / (double)(a->shared + GPU_DRIVER)),
		     by_registers = floor((double)gpu->registers / (registers * threads)),
		     by_threads = floor((double)gpu->threads / threads);

	return fmax(1, fmin(by_shared, fmin(by_registers, by_threads)));
}

/* The seconds for the decision that A has the shape of. */
static AttentionCost cost_of(const GpuAttention *a)
{
	/* instructions: of a score from the sum to the weight, with an exponential, of a result that is scaled; of a
	 * product by multiply-adds besides the multiply-add, in registers loaded; warps of an SM that hide latencies */
	const double score = 34, result = 3, issues = 4, hide = 8, clock = 1.4e9, epilogue = 400;
	const Gpu *gpu = a->t->gpu;
	const double m = size_of(a->rows), n = size_of(a->keys), batch = size_of(a->batch),
		     blocks = batch * ceil(m / a->bm), steps = ceil(n / a->bn),
		     warps = blocks * a->warps;
	const double scores = (double)a->fragments * a->bn / 2,
		     results = (double)a->fragments * a->ep / 2;
	const double mmas[2] = {scores / 4 * a->dp / 16, results / 4 * a->bn / 16};
	/* loads of operands from shared memory: four registers of 16 rows, or for multiply-adds a vector of terms */
	const double loads = a->mma[0] == MMA_FMA
				     ? (scores * 2 * a->dp + results * 2 * a->bn) * 1.3
				     : a->bn / 16.0 * a->dp / 16 + a->ep / 16.0 * a->bn / 16 +
					       a->fragments * a->dp / 16.0 + mmas[0] + mmas[1];
	const double slots = gpu->sms * resident(a);
	AttentionCost c = {0};

	c.tensor = blocks * steps * a->bm * a->bn * 2.0 *
		   (a->dp / rate(gpu, a->mma[0]) + a->ep / rate(gpu, a->mma[1]));
	c.issue = warps * (steps * (scores * score + results * result + loads) + epilogue) /
		  (gpu->sms * issues * clock);
	c.memory = (blocks * steps * a->bn * (double)(a->d + a->e) * 4 / 4 +
		    batch * m * (double)(a->d + a->e)) *
		   (dtype_info[a->op[OPERAND_K].type].bits / 8) / (gpu->memory * 1e9);
	c.share = blocks / (ceil(blocks / slots) * slots) * fmin(1, resident(a) * a->warps / hide);
	c.total = fmax(c.tensor, fmax(c.issue, c.memory)) / fmax(c.share, 1e-6);
	return c;
}

/* ---- Choice ---- */

/* Null if the block of A's shape can run on every GPU that runs T's code; else which bound it breaks. */
static bool fits(const GpuAttention *a, StrBuf *why)
{
	const int registers = gpu_attention_registers(a);

	if (registers > MOST_REGISTERS)
		return decision_refuse(why, "about %d registers of a thread are more than %d",
				       registers, MOST_REGISTERS);
	if (a->shared > a->t->gpu->block_shared)
		return decision_refuse(why,
				       "%lld bytes of shared memory are more than a block's %d",
				       (long long)a->shared, a->t->gpu->block_shared);
	return true;
}

static bool try_shape(GpuAttention *a, const GpuDecision *d)
{
	StrBuf why = {0};
	bool ok;

	gpu_attention_shape(a, d);
	ok = fits(a, &why);
	strbuf_free(&why);
	return ok;
}

bool gpu_attention_choose(const Target *t, Kernel *k, Decision *d)
{
	double best = 0;
	GpuAttention a;

	if (!gpu_attention_open(&a, t, k))
		return false;
	for (size_t w = 0; w < 4; w++)
		for (size_t n = 0; n < 4; n++)
			for (int fragments = 1; fragments <= MOST_FRAGMENTS; fragments++) {
				const GpuDecision x = gpu_attention_digits(
					&a, warps_tried[w], fragments, keys_tried[n], 2);
				AttentionCost c;

				if (!try_shape(&a, &x))
					continue;
				c = cost_of(&a);
				if (best > 0 && c.total >= best)
					continue;
				best = c.total;
				d->gpu = x;
			}
	return best > 0;
}

static bool same_digits(const GpuDecision *a, const GpuDecision *b)
{
	if (a->ndigits != b->ndigits)
		return false;
	for (int i = 0; i < a->ndigits; i++)
		if (a->digit[i].group != b->digit[i].group || a->digit[i].at != b->digit[i].at ||
		    a->digit[i].n != b->digit[i].n)
			return false;
	return true;
}

static bool holds_are_legal(const GpuAttention *a, const GpuDecision *g, StrBuf *why)
{
	static const char *const names[] = {"q", "k", "v"};

	for (int i = 0; i < OPERAND_COUNT; i++) {
		if (g->hold[i].async && !a->op[i].async)
			return decision_refuse(
				why,
				"%s cannot be copied asynchronously: it is not a load of 4 bytes or more at a time as the product multiplies them, or the GPU is older than sm_80",
				names[i]);
		if (i == OPERAND_Q ? g->hold[i].stages != 1 : g->hold[i].stages > MOST_STAGES)
			return decision_refuse(why,
					       "%s has %d buffers; q has 1, k and v have up to %d",
					       names[i], g->hold[i].stages, MOST_STAGES);
	}
	return g->hold[OPERAND_K].stages == g->hold[OPERAND_V].stages ||
	       decision_refuse(why, "k and v have %d and %d buffers: they are filled together",
			       g->hold[OPERAND_K].stages, g->hold[OPERAND_V].stages);
}

bool gpu_attention_legal(const Target *t, Kernel *k, const Decision *d, StrBuf *why)
{
	const GpuDecision *g = &d->gpu;
	GpuAttention a;
	GpuDecision as;

	if (!gpu_attention_open(&a, t, k))
		return decision_refuse(why, "the kernel is not an attention that GPUs take");
	if (g->mma[0] != a.mma[0] || g->mma[1] != a.mma[1])
		return decision_refuse(why, "the instructions for these types are %s,%s",
				       mma_info[a.mma[0]].name, mma_info[a.mma[1]].name);
	if (!holds_are_legal(&a, g, why))
		return false;
	gpu_attention_shape(&a, g);
	as = gpu_attention_digits(&a, a.warps, a.fragments, a.bn, 1);
	if (a.bn % 16 || a.bn > MOST_KEYS || a.bn < 16)
		return decision_refuse(why, "%d keys of a block are not a multiple of 16 up to %d",
				       a.bn, MOST_KEYS);
	if (a.warps > MOST_WARPS || a.fragments > MOST_FRAGMENTS)
		return decision_refuse(why, "%d warps of %d fragments are more than %d of %d",
				       a.warps, a.fragments, MOST_WARPS, MOST_FRAGMENTS);
	if (!same_digits(g, &as)) {
		decision_refuse(why, "with these warps and keys the digits are:");
		gpu_attention_print(why, k, &(Decision){.gpu = as});
		return false;
	}
	return fits(&a, why);
}

void gpu_attention_offer(Offers *o, Kernel *k, const Decision *base)
{
	GpuAttention a;
	double first;

	if (!gpu_attention_open(&a, o->target, k))
		return;
	gpu_attention_shape(&a, &base->gpu);
	first = cost_of(&a).total;
	for (size_t w = 0; w < 4; w++)
		for (size_t n = 0; n < 4; n++)
			for (int i = 0; i < MOST_FRAGMENTS * MOST_STAGES; i++) {
				Decision d = {.strategy = base->strategy};

				d.gpu = gpu_attention_digits(&a, warps_tried[w],
							     1 + i % MOST_FRAGMENTS, keys_tried[n],
							     1 + i / MOST_FRAGMENTS);
				if (same_digits(&d.gpu, &base->gpu) &&
				    d.gpu.hold[OPERAND_K].stages ==
					    base->gpu.hold[OPERAND_K].stages)
					continue;
				gpu_attention_shape(&a, &d.gpu);
				offer_add(o, &d, cost_of(&a).total / first);
			}
}

void gpu_attention_reason(const Target *t, Kernel *k, const Decision *d, StrBuf *b)
{
	GpuAttention a;
	AttentionCost c;

	if (!gpu_attention_open(&a, t, k))
		return;
	gpu_attention_shape(&a, &d->gpu);
	c = cost_of(&a);
	strbuf_printf(
		b,
		"%d rows by %d keys in a block of %d warps, %lld bytes of shared memory, about %d registers; predicted: %.3g us, of products %.3g, issue %.3g, memory %.3g, at %.0f %% of the SMs' time",
		a.bm, a.bn, a.warps, (long long)a.shared, gpu_attention_registers(&a),
		c.total * 1e6, c.tensor * 1e6, c.issue * 1e6, c.memory * 1e6, c.share * 100);
}
