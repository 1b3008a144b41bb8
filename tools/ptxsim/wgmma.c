/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wgmma: four warps multiply matrices in shared memory, asynchronously. Each warp has 16 of the 64
 * rows.
 *
 * A product waits in its warp and is computed when the warp waits for its group, not before. Until
 * then the registers of its sums have numbers that nobody wants, so that whoever reads them gets a
 * wrong result. Products that add to the same registers follow one another in one array of sums.
 * The operands are read when the product begins and again when it is computed: whoever writes them
 * between the two has a race.
 *
 * A descriptor says where an operand lies: bits 0-13 its address, 16-29 and 32-45 two distances,
 * all in units of 16 bytes, and 62-63 the swizzle, of rows of 128, 64 or 32 bytes, or none. The PTX
 * ISA, "Canonical Layouts", defines which element lies where.
 */
#include "tools/ptxsim/decode.h"
#include "tools/ptxsim/half.h"
#include "tools/ptxsim/shadow.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, WARP_ROWS = 16, TERMS = 16, GROUP_WARPS = 4, PIECE = 16 };
enum { ELEMENT = 2 }; /* bytes */

/* Inst.more */
typedef struct Shape {
	int n;
	bool bf16, a_registers, transposed[2];
	float sign[2];
} Shape;

/* The address of element TERM of row or column SIDE of the operand that DESC describes. MN: it is
 * contiguous along the side. */
static uint32_t address_of(uint64_t desc, bool mn, int side, int term)
{
	static const uint32_t widths[] = {PIECE, 128, 64, 32};
	const uint32_t start = (uint32_t)(desc & 0x3fff) << 4,
		       lead = (uint32_t)(desc >> 16 & 0x3fff) << 4,
		       stride = (uint32_t)(desc >> 32 & 0x3fff) << 4, width = widths[desc >> 62],
		       along = (uint32_t)(mn ? side : term) * ELEMENT,
		       across = (uint32_t)(mn ? term : side), whole = along / width,
		       mask = width / PIECE - 1;
	uint32_t at = start + along % width + across % 8 * width;

	/* without a swizzle, the distances of operands along the side have the other order */
	at += mn && width == PIECE ? whole * stride + across / 8 * lead
				   : whole * lead + across / 8 * stride;
	return at ^ (at >> 7 & mask) << 4;
}

/* Checks, or copies to OUT, rows FIRST to FIRST + N - 1 of operand WHICH. */
static void read_operand(Warp *w, const Wgmma *op, int which, int first, int n, float (*out)[TERMS])
{
	const Shape *s = op->in->more;
	const bool mn = s->transposed[which];
	const int along = mn ? n : TERMS, across = mn ? TERMS : n, step = PIECE / ELEMENT;

	for (int j = 0; j < across; j++)
		for (int i = 0; i < along; i += step) {
			const int side = first + (mn ? i : j), term = mn ? j : i;
			const uint8_t *p = access_at(w, WHOLE_WARP, SP_SHARED,
						     address_of(op->desc[which], mn, side, term),
						     PIECE, READ | ASYNC);
			for (int e = 0; e < step && out; e++) {
				uint16_t v;
				memcpy(&v, p + e * ELEMENT, ELEMENT);
				out[mn ? i + e : j][mn ? term : i + e] =
					s->sign[which] * (s->bf16 ? f32_of_bf16(v) : f32_of_f16(v));
			}
		}
}

/* Register R of A has rows 8 (r mod 2) and on, terms 8 (r / 2) and on. */
static void read_registers(const Wgmma *op, float (*a)[TERMS])
{
	const Shape *s = op->in->more;

	for (int r = 0; r < 4; r++)
		for (int lane = 0; lane < 32; lane++)
			for (int e = 0; e < 2; e++) {
				const uint16_t v = (uint16_t)(op->a[r][lane] >> (16 * e));
				a[lane / 4 + 8 * (r % 2)][2 * (lane % 4) + 8 * (r / 2) + e] =
					s->sign[0] * (s->bf16 ? f32_of_bf16(v) : f32_of_f16(v));
			}
}

static int first_row(const Warp *w)
{
	return w->id % GROUP_WARPS * WARP_ROWS;
}

static void multiply(Warp *w, const Wgmma *op)
{
	static _Thread_local float b[256][TERMS];
	const Shape *s = op->in->more;
	float a[WARP_ROWS][TERMS];

	if (s->a_registers)
		read_registers(op, a);
	else
		read_operand(w, op, 0, first_row(w), WARP_ROWS, a);
	read_operand(w, op, 1, 0, s->n, b);
	for (int i = 0; i < WARP_ROWS; i++)
		for (int j = 0; j < s->n; j++) {
			float *sum = &op->sums[i * s->n + j];
			double v = op->adds ? (double)*sum : 0;
			for (int k = 0; k < TERMS; k++)
				v += (double)a[i][k] * (double)b[j][k];
			*sum = (float)v;
		}
}

/* Element I of a lane's sums is in row g + 8 (i / 2 mod 2), column 8 (i / 4) + 2 t + i mod 2. */
static float *sum_of(const Wgmma *op, int i, int lane)
{
	const int n = ((const Shape *)op->in->more)->n;

	return &op->sums[(lane / 4 + 8 * (i / 2 % 2)) * n + 8 * (i / 4) + 2 * (lane % 4) + i % 2];
}

static void put_sums(const Warp *w, const Wgmma *op)
{
	for (int i = 0; i < op->in->op[0].n_items; i++)
		for (int lane = 0; lane < 32; lane++)
			set_lane(w, op->in->op[0].item[i].slot, lane,
				 f32_bits(*sum_of(op, i, lane)));
}

static bool warp_here(Warp *w, uint32_t mask)
{
	if (!all_here(w, ~0u, mask, "divergent"))
		return false;
	if (mask != ~0u || (w->id / GROUP_WARPS + 1) * GROUP_WARPS > w->block->n_warps)
		fault(w, -1, CUDA_ERROR_LAUNCH_FAILED, "a warpgroup is not 128 threads here");
	return true;
}

static void check_start(Warp *w, uint64_t desc)
{
	const uint32_t width = (uint32_t[]){PIECE, 128, 64, 32}[desc >> 62],
		       mask = width / PIECE - 1;

	if (desc >> 49 & 7 || (uint32_t)(desc & 0x3fff) >> 3 & mask)
		fault(w, -1, CUDA_ERROR_LAUNCH_FAILED,
		      "descriptor %016llx: an atom of the swizzle does not begin at a multiple of %u bytes",
		      (unsigned long long)desc, width * 8);
}

/* The last product that has the sums of OP; null: none. */
static Wgmma *same_sums(Warp *w, const Wgmma *op)
{
	for (int i = w->n_mma - 1; i >= 0; i--)
		if (w->mma[i].in->op[0].item[0].slot.at == op->in->op[0].item[0].slot.at)
			return &w->mma[i];
	return NULL;
}

static void take_sums(Warp *w, Wgmma *op)
{
	const Shape *s = op->in->more;

	op->sums = malloc((size_t)WARP_ROWS * (size_t)s->n * sizeof *op->sums);
	if (!op->sums)
		abort();
	for (int i = 0; i < op->in->op[0].n_items; i++)
		for (int lane = 0; lane < 32; lane++) {
			const Slot slot = op->in->op[0].item[i].slot;
			*sum_of(op, i, lane) = f32_from((uint32_t)lane_at(w, slot, lane));
			set_lane(w, slot, lane, 0x7fbadbad);
		}
}

/* D, A or its descriptor, B's descriptor, whether to add; S[0..1]: the descriptors; S[2]: the
 * predicate */
static void exec_begin(Warp *w, const Inst *in, uint32_t mask)
{
	const Shape *s = in->more;
	Wgmma op = {.in = in, .group = w->mma_group}, *before;

	if (!warp_here(w, mask))
		return;
	if (!w->mma_fenced)
		fault(w, -1, CUDA_ERROR_LAUNCH_FAILED, "no wgmma.fence is before this wgmma");
	op.adds = pred_at(w, in->s[2]) & 1;
	for (int i = s->a_registers; i < 2; i++) {
		op.desc[i] = lane_at(w, in->s[i], 0);
		check_start(w, op.desc[i]);
		read_operand(w, &op, i, i ? 0 : first_row(w), i ? s->n : WARP_ROWS, NULL);
	}
	for (int r = 0; r < 4 && s->a_registers; r++)
		memcpy(op.a[r], slot_at(w, in->op[1].item[r].slot), sizeof op.a[r]);
	before = same_sums(w, &op);
	if (before)
		op.sums = before->sums;
	else
		take_sums(w, &op);
	if (w->n_mma == w->cap_mma) {
		w->cap_mma = w->cap_mma ? 2 * w->cap_mma : 16;
		w->mma = realloc(w->mma, (size_t)w->cap_mma * sizeof *w->mma);
		if (!w->mma)
			abort();
	}
	w->mma[w->n_mma++] = op;
	w->all_mma++;
	w->block->worker->count.mma++;
}

static void exec_fence(Warp *w, const Inst *in, uint32_t mask)
{
	(void)in;
	if (warp_here(w, mask))
		w->mma_fenced = true;
}

static void exec_commit(Warp *w, const Inst *in, uint32_t mask)
{
	(void)in;
	if (warp_here(w, mask))
		w->mma_group++;
}

static void exec_wait(Warp *w, const Inst *in, uint32_t mask)
{
	int done = 0;

	if (!warp_here(w, mask))
		return;
	for (; done < w->n_mma && w->mma[done].group + (uint32_t)in->imm < w->mma_group; done++) {
		Wgmma op = w->mma[done];
		w->in = op.in;
		multiply(w, &op);
		w->in = in;
		memmove(w->mma, w->mma + 1, (size_t)--w->n_mma * sizeof *w->mma);
		done--;
		if (!same_sums(w, &op)) {
			put_sums(w, &op);
			free(op.sums);
		}
	}
	w->mma_fenced = false;
	shadow_tick(w);
}

void wgmma_end(Worker *k)
{
	for (int i = 0; i < k->block.n_warps; i++)
		if (k->warp[i]->all_mma != k->warp[i / GROUP_WARPS * GROUP_WARPS]->all_mma)
			fault(k->warp[i], -1, CUDA_ERROR_LAUNCH_FAILED,
			      "it began %d wgmma, and the first warp of its warpgroup %d",
			      k->warp[i]->all_mma, k->warp[i / GROUP_WARPS * GROUP_WARPS]->all_mma);
}

/* ---- Decoding ---- */

static int64_t number(Parser *p, int at)
{
	if (at >= p->in->n_op || p->in->op[at].kind != O_IMM)
		parse_fail(p, "expected a number");
	return (int64_t)p->in->op[at].bits;
}

static void decode_begin(Parser *p)
{
	static const char *const types[] = {"f16", "bf16", NULL};
	Inst *in = p->in;
	Shape *s = NEW(p->arena, Shape);
	int m = 0, k = 0, used = 0, shape = 0, at = 3;

	for (int i = 1; i < p->n_mods; i++)
		if (sscanf(p->mods[i], "m%dn%dk%d%n", &m, &s->n, &k, &used) == 3 &&
		    !p->mods[i][used])
			shape = i;
	if (!shape || !take_mod(p, p->mods[shape]) || !take_mod(p, "f32") || m != ROWS ||
	    k != TERMS || s->n < 8 || s->n > 256 || s->n % 8)
		parse_fail(p, "%s is not supported", in->text);
	s->bf16 = take_choice(p, types) == 1;
	if (!take_mod(p, s->bf16 ? "bf16" : "f16"))
		parse_fail(p, "%s is not supported", in->text);
	s->a_registers = in->op[1].kind == O_VEC;
	need_operands(p, s->a_registers ? 7 : 8, s->a_registers ? 7 : 8);
	if (in->op[0].kind != O_VEC || in->op[0].n_items != s->n / 2 ||
	    (s->a_registers && in->op[1].n_items != 4))
		parse_fail(p, "a vector of %d expected",
			   in->op[0].n_items != s->n / 2 ? s->n / 2 : 4);
	for (int i = 0; i < s->n / 2; i++)
		in->op[0].item[i].slot = dest_of(p, &in->op[0].item[i], T_b32, false);
	for (int i = 0; i < 4 && s->a_registers; i++)
		in->op[1].item[i].slot = slot_of(p, &in->op[1].item[i], T_b32, false);
	for (int i = s->a_registers; i < 2; i++)
		in->s[i] = slot_of(p, &in->op[1 + i], T_b64, false);
	in->s[2] = pred_of(p, &in->op[at++]);
	for (int i = 0; i < 2; i++)
		s->sign[i] = (float)number(p, at++);
	for (int i = s->a_registers; i < 2; i++)
		s->transposed[i] = number(p, at++);
	in->more = s;
	in->exec = exec_begin;
	in->cls = C_matrix;
	note_granule(p, SP_SHARED, PIECE);
}

void decode_wgmma(Parser *p)
{
	static const char *const kinds[] = {"mma_async", "fence", "commit_group", "wait_group",
					    NULL};
	static ExecFn *const run[] = {NULL, exec_fence, exec_commit, exec_wait};
	const int kind = take_choice(p, kinds);

	if (kind < 0 || !take_mod(p, "sync") || !take_mod(p, "aligned"))
		parse_fail(p, "%s is not supported", p->in->text);
	if (kind == 0) {
		decode_begin(p);
	} else {
		p->in->exec = run[kind];
		p->in->cls = C_sync;
		if (run[kind] == exec_wait)
			p->in->imm = number(p, 0);
	}
	no_mods(p);
}
