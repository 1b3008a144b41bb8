/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which convolutions are computed by Winograd. conv3x3_tile decides, on CPUs only, whenever form_of
 * (form.c) asks. The pass `layout` takes the answer once the image's layout is set, and rewrites
 * the kernel (passes/layout/winograd.c).
 *
 * Winograd's filtering trades multiplications for memory traffic: the transformed image and the
 * products are larger than the image and the result, and the transformed filter is larger than the
 * filter. So direct_seconds is compared with winograd_seconds, on the first CPU: the time of the
 * products, bounded by arithmetic or by reading the filter, and for Winograd WINOGRAD_TRANSFORM
 * operations for each transformed element. Winograd is chosen if its time is less than
 * WINOGRAD_GAIN percent of the direct one and the image has at least WINOGRAD_CHANNELS channels,
 * or WINOGRAD_GROUP_CHANNELS in each of several groups; --winograd bounds its tiles.
 */
#include "passes/forms/conv3x3.h"

#include "passes/forms/contraction.h"

#include <math.h>

enum {
	/* Cost, in operations, of transforming an element of the image or of the products: it is
	 * loaded about seven times, from L1, and stored twice. Measured with 64 and 128
	 * channels. */
	WINOGRAD_TRANSFORM = 28,
	/* Winograd is chosen if it takes less than this percentage of the direct convolution's
	 * time. */
	WINOGRAD_GAIN = 90,
	/* With fewer channels the sums are too short to hide the rounding of the transforms: the
	 * error could exceed that of the direct convolution (docs/numerics.md). */
	WINOGRAD_CHANNELS = 16,
	/* With fewer channels in each of several groups the matrices are too small: with 16, it
	 * took 0.83 to 1.20 of the direct convolution's time, with 24 0.59 to 1.02. */
	WINOGRAD_GROUP_CHANNELS = 24,
	/* Up to AVX2 an element beyond the last whole vector of a row of channels costs as much as
	 * so many vectors, as the vectors have no masks: groups of 20, 28 and 36 channels took
	 * 1.38, 1.23 and 1.00 of the direct time on AVX2, and 0.73, 0.60 and 0.56 on AVX-512. */
	WINOGRAD_REST = 3,
	/* Assumed value of a symbol in the rows and columns of an image. A small image loses more
	 * than a large one gains where reading the filter takes the time, and networks halve images
	 * three to seven times. A U-Net of latents of 16x24 took 1.42 times as long with 64, and
	 * 1.77 with 256; of 32x32 1.02 and 1.16; of 64x64 0.93 and 0.95. */
	WINOGRAD_IMAGE = 32
};

/* ---- Recognition ---- */

/* Dim D of B is contiguous: no later axis has more than one element. */
static bool innermost(const Buf *b, int d)
{
	const int last = buf_innermost(b);

	return last < 0 || buf_axis(b, last) <= buf_axis(b, d);
}

/* IDX is tap + position + a constant. */
static bool slides(Ctx *c, Expr *idx, const Contraction *ct, Iter **tap, Iter **position)
{
	Affine a;

	*tap = *position = NULL;
	if (!ex_affine(c, idx, &a) || a.n != 2 || !dim_is_const(a.base, NULL))
		return false;
	for (int i = 0; i < 2; i++) {
		if (!dim_equals(a.coef[i], 1))
			return false;
		for (int k = 0; k < ct->nk; k++)
			*tap = ct->k[k] == a.iter[i] ? a.iter[i] : *tap;
		for (int m = 0; m < ct->nm; m++)
			*position = ct->m[m] == a.iter[i] ? a.iter[i] : *position;
	}
	return *tap && *position && dim_equals((*tap)->extent, WINOGRAD_TAPS);
}

/* Index E is channel IT, or that of a group of channels: group*N + IT. */
static bool is_channel(const Conv3x3 *c, Expr *e, const Iter *it)
{
	Affine a;

	if (!ex_affine(c->k->ctx, e, &a) || !dim_equals(affine_coef(c->k->ctx, &a, it), 1) ||
	    !dim_equals(a.base, 0))
		return false;
	for (int i = 0; i < a.n; i++) {
		bool known = a.iter[i] == it;

		for (int g = 0; g < c->ngroup; g++)
			known = known || c->other[g] == a.iter[i];
		if (!known)
			return false;
	}
	return true;
}

/* The iterator of the sum that is the channel of index E of the image; null: there is none. */
static Iter *channel_of_image(const Conv3x3 *c, const Contraction *ct, Expr *e)
{
	for (int i = 0; i < ct->nk; i++)
		if (is_channel(c, e, ct->k[i]))
			return ct->k[i];
	return NULL;
}

/* Assigns the dims of the image. */
static bool read_image(Conv3x3 *c, const Contraction *ct)
{
	const Expr *x = c->x;
	int windows = 0;

	c->ngroup = ct->ng;
	for (int i = 0; i < ct->ng; i++)
		c->other[c->nother++] = ct->g[i];

	for (int d = 0; d < x->load.nidx; d++) {
		Expr *e = x->load.idx[d];
		Iter *channel;

		if (!expr_has_any(e, ct->k, ct->nk))
			continue;
		channel = channel_of_image(c, ct, e);
		if (channel && !c->c && innermost(x->load.buf, d)) {
			c->c = channel;
		} else {
			if (windows == 2 ||
			    !slides(c->k->ctx, e, ct, &c->tap[windows], &c->out[windows]))
				return false;
			c->at[windows++] = d;
		}
	}
	if (windows < 2 || !c->c || c->tap[0] == c->tap[1] || c->out[0] == c->out[1])
		return false;
	for (int i = 0; i < ct->nm; i++)
		if (ct->m[i] != c->out[0] && ct->m[i] != c->out[1])
			c->other[c->nother++] = ct->m[i];
	for (int d = 0; d < x->load.nidx; d++)
		if (d != c->at[0] && d != c->at[1] && expr_has_any(x->load.idx[d], c->out, 2))
			return false;
	return true;
}

static bool has_conjunct(const Expr *all, const Expr *e)
{
	return all == e || (ex_is_op(all, IN_and) &&
			    (has_conjunct(all->op.arg[0], e) || has_conjunct(all->op.arg[1], e)));
}

static bool conjuncts_of(const Expr *e, const Expr *all)
{
	return ex_is_op(e, IN_and)
		       ? conjuncts_of(e->op.arg[0], all) && conjuncts_of(e->op.arg[1], all)
		       : has_conjunct(all, e);
}

/* The guard drops exactly the terms outside of the image: padding is zero. */
static bool pads_with_zeros(const Conv3x3 *c, const Expr *guard)
{
	ExprPool *p = c->k->pool;
	Expr *inside = NULL;

	for (int d = 0; d < 2; d++)
		inside = ex_and(p, inside,
				ex_inside(p, c->x->load.idx[c->at[d]],
					  ex_dim(p, c->x->load.buf->dims[c->at[d]])));
	return !guard || conjuncts_of(guard, inside);
}

/* A statement of the epilogue, and the product's iterators that its iterators correspond to. */
typedef struct Follower {
	Conv3x3 *c;
	Iter **iter; /* by Iter.id: the iterator of the product */
	bool ok;
} Follower;

bool conv3x3_same_index(Ctx *c, Expr *e, Expr *of, Iter **iter)
{
	Affine a, b;

	if (!ex_affine(c, e, &a) || !ex_affine(c, of, &b) || a.n != b.n || a.base != b.base)
		return false;
	for (int i = 0; i < a.n; i++) {
		Iter *found = NULL;

		for (int j = 0; j < b.n; j++) {
			if (b.coef[j] != a.coef[i])
				continue;
			if (found)
				return false;
			found = b.iter[j];
		}
		if (!found || (iter[a.iter[i]->id] && iter[a.iter[i]->id] != found))
			return false;
		iter[a.iter[i]->id] = found;
	}
	return true;
}

static void follow_load(Follower *f, const Expr *load)
{
	Expr **index = f->c->index[load->load.buf->id];

	if (load->load.buf->kind == BUF_IN || load->load.buf->data)
		return;
	for (int d = 0; d < load->load.nidx; d++)
		f->ok = f->ok && index[d] &&
			conv3x3_same_index(f->c->k->ctx, load->load.idx[d], index[d], f->iter);
}

static bool is_zero(const Expr *e)
{
	return e->kind == EX_CONST && e->i == 0;
}

/* Records the indices of S's result in the product's iterators. ITER, by Iter.id: the product's
 * iterator for each iterator of S. False if S does not write one element for each point of the
 * product's result. */
static bool note_index(Conv3x3 *c, const Stmt *s, Iter *const *iter)
{
	for (int d = 0; d < s->nwidx; d++) {
		Expr *e = s->widx[d];

		EX_MAP (x, c->k->pool, &e) {
			if (x->kind != EX_ITER)
				continue;
			if (!iter[x->iter->id])
				return false;
			x = ex_iter(c->k->pool, iter[x->iter->id]);
		}
		if (e->kind != EX_ITER && !is_zero(e) && !is_channel(c, e, c->o))
			return false;
		c->index[s->out[0]->id][d] = e;
	}
	return true;
}

/* S is a map that reads earlier results at its own element. */
static bool follows(Conv3x3 *c, Stmt *s)
{
	Follower f = {c, NEW_ARRAY(c->k->arena, c->k->iters.n + 1, Iter *), true};

	if (!stmt_is_map(s) || s->guard || stmt_can_fault(s))
		return false;
	STMT_EACH_LOAD (x, s)
		follow_load(&f, x);
	for (int i = 0; i < s->niters; i++) {
		const Iter *of = f.iter[s->iter[i]->id];

		f.ok = f.ok && of && of->extent == s->iter[i]->extent;
	}
	return f.ok && note_index(c, s, f.iter);
}

/* The statements after FIRST, the product, are such maps. */
static bool has_epilogue(Conv3x3 *c, Stmt *first)
{
	Kernel *k = c->k;
	Iter **self = NEW_ARRAY(k->arena, k->iters.n + 1, Iter *);

	c->index = arena_array(k->arena, (size_t)k->bufs.n + 1, sizeof *c->index);
	for (int i = 0; i < k->iters.n; i++)
		self[i] = k->iters.at[i];
	if (!note_index(c, first, self))
		return false;
	for (int i = 1; i < k->stmts.n; i++)
		if (!follows(c, k->stmts.at[i]))
			return false;
	return true;
}

/* D is a sum of symbols and quotients. For sizes that are products, such as that of a broadcast,
 * the schedule's prover cannot count the tiles. */
static bool is_plain_size(Ctx *c, Dim *d)
{
	Dim *mono, *a, *b;
	int64_t coef;

	for (int i = 0; dim_term(c, d, i, &coef, &mono); i++)
		if (!dim_is_const(mono, NULL) && !dim_as_sym(mono) && !dim_as_floor(mono, &a, &b))
			return false;
	return true;
}

bool conv3x3_find(Module *m, Node *n, Conv3x3 *c)
{
	Kernel *k = node_kernel(n);
	Contraction ct;

	*c = (Conv3x3){.n = n, .k = k};
	if (!stmt_contraction(k, k->stmts.at[0], &ct) || ct.ct != CT_F32)
		return false;
	if (expr_is_weights(m, n, ct.a))
		contraction_swap(&ct);
	/* the filter is to be stored in 16 bits, but its transform would be f32 */
	if (dtype_is_half(m->opt.weight_type) && contraction_type(ct.b) == m->opt.weight_type)
		return false;
	if (ct.nk != 3 || ct.nn != 1 || ct.guard_b || !expr_is_weights(m, n, ct.b) ||
	    ct.a->kind != EX_LOAD || ct.a->load.buf->kind != BUF_IN ||
	    ct.a->load.buf->dtype != DT_F32 || ct.a->load.nidx != ct.a->load.buf->rank)
		return false;
	c->x = ct.a;
	c->filter = ct.b;
	c->o = ct.n[0];
	/* the product has a dim for each other iterator, and dims for tiles, points and channels */
	return read_image(c, &ct) && c->nother + 5 <= MAX_RANK &&
	       is_plain_size(k->ctx, c->out[0]->extent) &&
	       is_plain_size(k->ctx, c->out[1]->extent) && pads_with_zeros(c, ct.guard_a) &&
	       has_epilogue(c, k->stmts.at[0]);
}

int conv3x3_moved_dim(const Conv3x3 *c, const Buf *b)
{
	Expr *const *index = c->index[b->id];

	for (int d = 0; b->kind == BUF_OUT && d < b->rank; d++)
		if (index[d] && is_channel(c, index[d], c->o) && !innermost(b, d))
			return d;
	return -1;
}

/* ---- Cost ---- */

/* Estimates D with the values SYM for its symbols. */
static double estimate(const Dim *d, const int64_t *sym)
{
	int64_t v;

	return dim_eval(d, sym, &v) && v > 0 ? (double)v : 1;
}

/* The sizes of a convolution: groups, channels of a group, images, the result's rows and columns,
 * and the results that are copied to another order. */
typedef struct ConvSizes {
	double groups, c, o, images, out[2], copies;
} ConvSizes;

static ConvSizes sizes_of(Module *m, const Conv3x3 *c)
{
	/* Batches often have one image, while images are rarely small. */
	const int64_t *one = syms_sample(m->ctx, m->arena, 1),
		      *image = syms_sample(m->ctx, m->arena, WINOGRAD_IMAGE);
	ConvSizes s = {.groups = 1,
		       .c = estimate(c->c->extent, one),
		       .o = estimate(c->o->extent, one),
		       .images = 1};

	for (int i = 0; i < c->ngroup; i++)
		s.groups *= estimate(c->other[i]->extent, one);
	for (int i = c->ngroup; i < c->nother; i++)
		s.images *= estimate(c->other[i]->extent, one);
	for (int d = 0; d < 2; d++)
		s.out[d] = estimate(c->out[d]->extent, image);
	VEC_EACH (b, &c->k->bufs)
		s.copies += conv3x3_moved_dim(c, b) >= 0;
	return s;
}

/* Seconds for POINTS products, for each group, of ROWS x s->c by s->c x s->o matrices. The
 * second matrix comes from memory. */
static double products(const Target *t, const ConvSizes *s, double points, double rows)
{
	const double filter = s->groups * points * s->c * s->o,
		     compute = 2 * rows * filter / (t->gflops * 1e9),
		     memory = 4 * filter / (t->memory * 1e9);

	return compute > memory ? compute : memory;
}

static double direct_seconds(const Target *t, const ConvSizes *s)
{
	return products(t, s, WINOGRAD_TAPS * WINOGRAD_TAPS, s->images * s->out[0] * s->out[1]);
}

/* The elements that take as much time to transform as a row of C channels on T does. */
static double row_of_channels(const Target *t, double c)
{
	const double lanes = t->vector_bytes / 4, rest = fmod(c, lanes);

	return t->vector_bytes >= 64 ? c : c - rest + rest * lanes * (double)WINOGRAD_REST;
}

/* Seconds for copying results whose channels are not innermost, which the direct form stores so. */
static double copy_seconds(const Target *t, const ConvSizes *s)
{
	const double elements = s->groups * s->o * s->images * s->out[0] * s->out[1];

	return s->copies * 2 * 4 * elements / (t->memory * 1e9);
}

/* Seconds for the convolution with tiles of M x M. */
static double winograd_seconds(const Target *t, const ConvSizes *s, int m)
{
	const double points = (m + WINOGRAD_TAPS - 1) * (m + WINOGRAD_TAPS - 1),
		     tiles = s->images * ceil(s->out[0] / m) * ceil(s->out[1] / m);

	return products(t, s, points, tiles) + copy_seconds(t, s) +
	       points * tiles * s->groups * (row_of_channels(t, s->c) + row_of_channels(t, s->o)) *
		       (double)WINOGRAD_TRANSFORM / (t->gflops * 1e9);
}

void conv3x3_explain(Module *m, const Conv3x3 *c, int chosen)
{
	const Target *t = m->target[0];
	const ConvSizes s = sizes_of(m, c);
	STRBUF_LOCAL(b);

	strbuf_printf(&b, "layout: 3x3 convolution %s", chosen ? "by Winograd's " : "computed directly");
	if (chosen)
		strbuf_printf(&b, "F(%d,3)", chosen);
	strbuf_printf(&b, "; predicted: %.3g ms directly", direct_seconds(t, &s) * 1e3);
	for (int f = 2; f <= m->opt.winograd; f += 2)
		strbuf_printf(&b, ", %.3g ms by F(%d,3)", winograd_seconds(t, &s, f) * 1e3, f);
	module_note(m, c->n, strbuf_str(&b));
}

int conv3x3_tile(Module *m, const Conv3x3 *c)
{
	const Target *t = m->target[0];
	const ConvSizes s = sizes_of(m, c);
	double best = direct_seconds(t, &s) * (double)WINOGRAD_GAIN / 100;
	const int least = s.groups > 1 ? WINOGRAD_GROUP_CHANNELS : WINOGRAD_CHANNELS;
	int chosen = 0;

	for (int f = 2; f <= m->opt.winograd && s.c >= (double)least; f += 2)
		if (winograd_seconds(t, &s, f) < best) {
			best = winograd_seconds(t, &s, f);
			chosen = f;
		}
	return chosen;
}
