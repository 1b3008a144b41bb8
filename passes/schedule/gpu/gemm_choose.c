/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the tile of a contraction on a GPU by an analytic model of the target. The time of a
 * block is that of its arithmetic, its traffic from L2, its reads of shared memory and its
 * instructions, of which the slowest counts most. The traffic takes at least the latency of the
 * loads that the pipeline does not overlap. The time of the product follows from how many blocks an
 * SM runs at once, how many waves of blocks there are, and a penalty where an SM has few warps. For
 * sizes that are not known it is the sum over several assumed sizes.
 *
 * Shapes are left out if they need more registers or shared memory than there is, or if their
 * accesses do not fill sectors. A thread's registers hold its sums, the operands of one step, and
 * for each piece that it fills the address and perhaps the value. Of equal cost the smallest tile
 * is taken, and of those the first candidate. So the choice depends on the sizes, the element
 * types, how the operands lie in memory, the matrix instruction (gemm.c) and the target's row, and
 * not on the machine that compiles. A long sum is split if the model says that this saves time.
 *
 * A variant for few results limits the choice (gemm_variants.c). Products of few rows or columns
 * have no tile (skinny.c).
 */
#include "passes/schedule/gpu/gemm_impl.h"

#include "base/round.h"

#include <math.h>

enum {
	ROW_BYTES = 64,  /* bytes of a tile's row along k */
	REGISTERS = 255, /* registers of a thread, at most */
	COMMON = 24,     /* registers for loops, edges and the lane's addresses */
	COPIED = 4,      /* registers of a chunk that is copied: source and destination address */
	MOVED = 2,       /* registers of a chunk that goes through registers, beside its value */
	/* further registers of a chunk whose elements are computed: measured with ptxas */
	COMPUTED = 3,
	/* further registers where chunks are single elements and tiles are cut by the edge:
	 * comparisons */
	EDGED = 2,
	SPLIT = 8, /* registers of a chunk whose row of the tile is split into several indices */
	/* further registers if these indices, of unknown extents, are compared with bounds */
	ASKED = 5,
	PAIRED = 30,    /* registers that ptxas needs more where two instructions share the sums */
	MOST_PARTS = 64 /* parts of a sum, at most */
};

/* Constants of the model for all GPUs; the rates that differ are in the target's row. */
/* bytes of shared memory per SM and clock: 32 banks of 4 bytes */
static const double SHARED_BYTES = 128;
static const double L2_BYTES = 32; /* bytes from L2 per SM and clock, at most: an estimate */
/* fraction of the time of all but the slowest resource that is not hidden behind it: an estimate */
static const double OVERLAP = 0.25;
static const double BESIDE_SUMS = 56; /* registers for fragments and addresses: an estimate */
/* Warps that keep an SM busy: one for each of its 4 schedulers, or two if lanes multiply: an
 * estimate. */
static const double WARPS_MATRIX = 4, WARPS_SCALAR = 8;
static const double L2_RATE = 3.0; /* bandwidth of L2 over that of memory: an estimate */
static const double ISSUES = 128;  /* thread instructions per SM and clock: 4 warps */
/* Instructions for a chunk that is copied, for one that goes through registers, and further ones
 * where its index in the operand, or whether it exists, is computed in each round: counted in
 * PTX. */
static const double ISSUE_COPIED = 4, ISSUE_MOVED = 8, ISSUE_PLACE = 14;
static const double LATENCY = 4e-7; /* seconds until a load from memory arrives: about 500 clocks */
static const double EDGES = 2e-6; /* seconds for the first loads and last stores: an estimate */
/* seconds until the last block of a tile has counted itself and the first partial sums arrive: an
 * estimate */
static const double ARRIVAL = 1.5e-6;
/* a split must take at most this part of the time, as the model is rough */
static const double GAIN = 0.9;

int gemm_gpu_threads(const BlockShape *s)
{
	return 32 * s->wm * s->wn;
}

int64_t gemm_gpu_tiles(const BlockShape *s, const TileOperand *o, int side)
{
	const OperandTile t = gpu_operand_tile(o, s->kind, side, s->bk);

	return s->stages * t.rows * t.pitch;
}

TileGrid gemm_gpu_grid(const GpuGemm *g)
{
	const bool bytes = g->s.kind && dtype_bytes(g->a.type) == 1;

	return (TileGrid){g->s.wm, g->s.wn, bytes && !g->a.along, bytes && !g->b.along};
}

int gemm_gpu_staged_row(const GpuGemm *g, const BlockShape *s)
{
	const TileGrid grid = gemm_gpu_grid(g);
	const int adjacent = grid.every_column ? 4 : 2, rows = grid.every_row ? 2 : 1;

	/* lanes of one store use different banks */
	return g->by_columns ? MMA_ROWS * s->wm + 4 : s->bn + 4 * adjacent / rows;
}

int64_t gemm_gpu_shared(const GpuGemm *g, const BlockShape *s)
{
	const int64_t tiles = gemm_gpu_tiles(s, &g->a, s->bm) + gemm_gpu_tiles(s, &g->b, s->bn),
		      staged = (int64_t)(g->by_columns ? s->bn : MMA_ROWS * s->wm) *
			       gemm_gpu_staged_row(g, s) * dtype_bytes(ctype_dtype(g->g.p.c.ct));

	/* two mbarriers for each buffer, and one more */
	return (tiles > staged ? tiles : staged) +
	       (s->producers ? (s->stages * 2 + 1) * MBARRIER_BYTES : 0);
}

/* Rows and columns of a lane that multiplies. */
static int lane_sides(const BlockShape *s)
{
	return s->bm / s->wm / 8 + s->bn / s->wn / 4;
}

/* Registers of a chunk of O whose row of the tile is split into several indices. */
static int split_registers(const TileOperand *o)
{
	for (int i = 1; i < o->nside && o->guard; i++)
		if (!dim_is_const(o->side[i]->extent, NULL))
			return SPLIT + ASKED;
	return SPLIT;
}

/* Registers of a thread for its chunks of O's tile, SIDE of the block, throughout the pipeline. */
static int fill_registers(const GpuGemm *g, const BlockShape *s, const TileOperand *o, int side)
{
	Dim *all = o == &g->a ? g->g.p.m : g->g.p.n;
	const int elems = side * s->bk, chunks = elems / o->vector, threads = gemm_gpu_threads(s),
		  each = (int)ceil_div(chunks, threads),
		  words = (o->vector * dtype_bytes(o->type) + 3) / 4,
		  edge = o->vector == 1 && !dim_multiple(g->g.p.k->ctx, all, side) ? EDGED : 0,
		  computed = o->val->kind == EX_LOAD ? 0 : COMPUTED,
		  place = (o->along && !o->side_joins ? split_registers(o) : MOVED + edge) +
			  computed;

	return each * (!o->async ? place + words : place > COPIED ? place : COPIED);
}

/* Estimated registers of a thread in the pipeline: the sums, the operands of one step (of bytes,
 * both steps of a row of the tile: ptxas loads them together), and the chunks that it fills. */
static int pipeline_registers(const GpuGemm *g, const BlockShape *s)
{
	const int word = dtype_bytes(ctype_dtype(g->g.p.c.ct)) / 4,
		  piece = 16 / dtype_bytes(g->a.type);
	const bool paired = s->kind && mma_info[s->kind].m < MMA_ROWS;
	const int sums = s->bm * s->bn / gemm_gpu_threads(s) * word,
		  read = mma_is_wgmma(s->kind) ? 0
			 : s->kind             ? (s->bm / s->wm + s->bn / s->wn) / 16 * 4 *
					     (piece == 16 && !paired ? 2 : 1)
				   : lane_sides(s) * piece * word;

	return sums + read +
	       (s->producers
			? 0
			: fill_registers(g, s, &g->a, s->bm) + fill_registers(g, s, &g->b, s->bn)) +
	       COMMON + (paired ? PAIRED : 0);
}

static double blocks_along(double n, int block)
{
	return (double)(((int64_t)n + block - 1) / block);
}

/* Blocks along size D, which is assumed to be N. If D is unknown, the last block is assumed to be
 * half empty. */
static double blocks_of(const Dim *d, double n, int block)
{
	const double count = n / block + 0.5;

	return dim_is_const(d, NULL) ? blocks_along(n, block) : count > 1 ? count : 1;
}

/* Warps of shape S that keep an SM busy. */
static double busy(const BlockShape *s)
{
	return s->kind ? WARPS_MATRIX : WARPS_SCALAR;
}

/* Blocks per SM, a fraction. */
static double blocks_each(const GpuGemm *g, const BlockShape *s, const double size[4])
{
	return size[3] * blocks_of(g->g.p.m, size[0], s->bm) * blocks_of(g->g.p.n, size[1], s->bn) /
	       g->g.t->gpu->sms;
}

/* M, N and the number of matrices are known. */
static bool all_known(const GpuGemm *g)
{
	Gemm *x = (Gemm *)(uintptr_t)&g->g;

	return dim_is_const(x->p.m, NULL) && dim_is_const(x->p.n, NULL) &&
	       dim_is_const(iters_points(x->p.k->ctx, x->p.c.g, x->p.c.ng), NULL);
}

/* The clock of an SM in Hz, from its f32 rate. */
static double clock_of(const Gpu *gpu)
{
	return gpu->f32 * 1e12 / (2.0 * gpu->lanes * gpu->sms);
}

/* Bytes per second that an SM gets from L2. */
static double l2_rate(const Gpu *gpu)
{
	const double of_all = L2_RATE * gpu->memory * 1e9 / gpu->sms,
		     sm_rate = L2_BYTES * clock_of(gpu);

	return of_all < sm_rate ? of_all : sm_rate;
}

/* Seconds of each resource for one block, if the SM did nothing else. */
typedef struct Work {
	double math, l2, shared, issue, out;
	double wait; /* for the latency of loads, however many blocks an SM runs */
} Work;

/* Instructions of a block to fill O's tiles: SIDE by all K terms. */
static double fill_issues(const TileOperand *o, double side, double k)
{
	return side * k / o->vector *
	       ((o->async ? ISSUE_COPIED : ISSUE_MOVED) +
		(o->k_joins && !o->guard ? 0 : ISSUE_PLACE));
}

static Work work_of(const GpuGemm *g, const BlockShape *s, double terms)
{
	const Gpu *gpu = g->g.t->gpu;
	const double k = blocks_along(terms, s->bk) * s->bk, bytes = dtype_bytes(g->a.type),
		     wide = dtype_bytes(ctype_dtype(g->g.p.c.ct)) == 8 ? 2 : 1,
		     warps = s->wm * s->wn,
		     /* the matrix unit's rate is in bytes, whatever the type */
		rate = (s->kind ? gpu->f16 * 2 / bytes : gpu->f32) * 1e12 / gpu->sms,
		     /* ldmatrix reads each byte once; scalar lanes read again what adjacent lanes
		 * read */
		read = s->kind ? warps * (s->bm / s->wm + s->bn / s->wn)
			       : warps * 32 * lane_sides(s),
		     issues = fill_issues(&g->a, s->bm, k) + fill_issues(&g->b, s->bn, k) +
			      (s->kind ? 0
				       : wide * s->bm * s->bn * k +
						 read * k * bytes / (double)VECTOR_BYTES);

	return (Work){.math = 2.0 * s->bm * s->bn * k / rate * wide,
		      .l2 = (s->bm + s->bn) * k * bytes / l2_rate(gpu),
		      .shared = read * k * bytes / (SHARED_BYTES * clock_of(gpu)),
		      .wait = k / s->bk / (s->stages - 1) * LATENCY,
		      .issue = issues / (ISSUES * clock_of(gpu)),
		      .out = 2.0 * s->bm * s->bn * 4 / (gpu->memory * 1e9 / gpu->sms)};
}

/* Seconds of N concurrent blocks of S on an SM, each with work W. If their warps are too few to
 * keep the SM busy, what they issue takes as long as if they were enough; asynchronous copies do
 * not. */
static double together(const BlockShape *s, const Work *w, double n)
{
	const double slow = n * fmax(1, busy(s) / (n * s->wm * s->wn)), math = slow * w->math,
		     shared = slow * w->shared, issue = slow * w->issue,
		     l2 = fmax(n * w->l2, w->wait),
		     slowest = fmax(fmax(math, l2), fmax(shared, issue));

	return slowest + OVERLAP * (math + l2 + shared + issue - slowest) + n * w->out + EDGES;
}

/* Blocks that fit on an SM. */
static double room_for(const GpuGemm *g, const BlockShape *s)
{
	const Gpu *gpu = g->g.t->gpu;
	const double threads = gemm_gpu_threads(s),
		     wide = dtype_bytes(ctype_dtype(g->g.p.c.ct)) == 8 ? 2 : 1,
		     registers = (s->bm * s->bn / threads) * wide + BESIDE_SUMS,
		     room = floor(gpu->shared / (double)(gemm_gpu_shared(g, s) + GPU_DRIVER)),
		     fit = floor(gpu->registers / (registers * threads));

	return fmax(1, fit < room ? fit : room);
}

/* Seconds, without what all candidates have in common. If sizes are unknown, the sum over several
 * sizes around SIZE. */
static double cost(const GpuGemm *g, const BlockShape *s, const double size[4])
{
	const int around = 4; /* half the number of sizes: SIZE is the middle one */
	const Work w = work_of(g, s, size[2]);
	const double each = blocks_each(g, s, size), most = room_for(g, s),
		     all = together(s, &w, most);
	const bool known = all_known(g);
	double x = 0;

	for (int i = 1; i <= (known ? 1 : 2 * around); i++) {
		const double n = ceil(known ? each : each * i / around), times = floor(n / most),
			     rest = n - times * most;

		x += times * all + (rest > 0 ? together(s, &w, rest) : 0);
	}
	return x;
}

/* Enumerates the candidates, larger tiles first. */
static bool next_shape(const GpuGemm *g, BlockShape *s, int *at)
{
	static const struct {
		signed char wm, wn;
	} warps[] = {{4, 2}, {2, 4}, {2, 2}, {4, 1}, {1, 4}, {2, 1}, {1, 2}, {1, 1}};
	static const struct {
		unsigned char m, n;
	} lane[] = {{64, 32}, {32, 32}, {16, 32}},
	  warp[] = {{64, 64}, {64, 32}, {32, 64}, {32, 32}, {16, 32}, {32, 16}, {16, 16}};
	enum {
		WARPS = sizeof warps / sizeof *warps,
		LANE_TILES = sizeof lane / sizeof *lane,
		WARP_TILES = sizeof warp / sizeof *warp
	};
	const int each = *at / WARPS, w = *at % WARPS;

	if (each >= (s->kind ? (int)WARP_TILES : (int)LANE_TILES))
		return false;
	++*at;
	s->wm = warps[w].wm;
	s->wn = warps[w].wn;
	s->bm = s->wm * (s->kind ? warp[each].m : lane[each].m);
	s->bn = s->wn * (s->kind ? warp[each].n : lane[each].n);
	s->bk = ROW_BYTES / dtype_bytes(g->a.type);
	return true;
}

/* Stages of the pipeline: enough to cover a load's latency, and no more than rounds. */
static int stages(const GpuGemm *g, const BlockShape *s, double k)
{
	const int most = !g->a.async || !g->b.async ? 2 : s->kind ? 4 : 3;
	const double rounds = blocks_along(k, s->bk) + 1;

	return rounds < 2 ? 2 : rounds < most ? (int)rounds : most;
}

/* A row of O's tile, SIDE of the block, has at least a sector. */
static bool whole_sectors(const TileOperand *o, int side)
{
	return o->along || side * dtype_bytes(o->type) >= SECTOR;
}

bool gemm_gpu_possible(const GpuGemm *g, const BlockShape *s, StrBuf *why)
{
	const bool wide = dtype_bytes(ctype_dtype(g->g.p.c.ct)) == 8;
	const char *breaks = s->bn < PART_COLUMNS ? "a block has less than 32 columns"
			     : !whole_sectors(&g->a, s->bm) || !whole_sectors(&g->b, s->bn)
				     ? "a row of a tile is less than a sector of 32 bytes"
			     : wide && s->bm * s->bn / gemm_gpu_threads(s) > 32
				     ? "a thread has more than 32 sums of 64 bits"
				     : NULL;

	if (why && breaks)
		strbuf_puts(why, breaks);
	return !breaks && gpu_fits(gemm_gpu_shared(g, s), g->g.t->gpu->block_shared - GPU_DRIVER,
				   pipeline_registers(g, s), REGISTERS, why);
}

/* The raster for tiles of BM rows. */
static int raster_of(const GpuGemm *g, int bm)
{
	enum { RASTER = 8 };
	int64_t n;

	return dim_is_const(g->g.p.m, &n) && ceil_div(n, bm) > RASTER &&
			       ceil_div(n, bm) % RASTER == 0
		       ? RASTER
		       : 1;
}

static bool same_tile(const BlockShape *a, const BlockShape *b)
{
	return a->bm == b->bm && a->bn == b->bn && a->bk == b->bk;
}

/* The next possible shape and its cost; 0: there are no more. WANT: only the shapes with WANT's
 * tile and stages; null: any tile that G's schedule allows. */
static double next_cost(const GpuGemm *g, const double size[4], const BlockShape *want,
			BlockShape *s, int *at)
{
	const int most = g->serves->where.tile;

	s->kind = g->s.kind;
	while (next_shape(g, s, at)) {
		if (want ? !same_tile(s, want) : most && s->bm * s->bn > most)
			continue;
		s->stages = want ? want->stages : stages(g, s, size[2]);
		while (!want && s->stages > 2 &&
		       gemm_gpu_shared(g, s) + GPU_DRIVER > g->g.t->gpu->block_shared)
			s->stages--;
		s->raster = raster_of(g, s->bm);
		if (gemm_gpu_possible(g, s, NULL))
			return cost(g, s, size);
	}
	return 0;
}

double gemm_gpu_next(const GpuGemm *g, const double size[4], BlockShape *s, int *at)
{
	return next_cost(g, size, NULL, s, at);
}

/* S, of cost X, is better than T, of cost Y: cheaper, or as cheap and smaller, as more blocks keep
 * more SMs busy. */
static bool better(const BlockShape *s, double x, const BlockShape *t, double y)
{
	return x < y || (x <= y && s->bm * s->bn < t->bm * t->bn);
}

/* Finds the best shape for SIZE and returns its cost; 0: there is none. WANT: as for next_cost. */
static double best_shape(const GpuGemm *g, const double size[4], const BlockShape *want,
			 BlockShape *out)
{
	BlockShape s = {0};
	double best = 0, x;
	int at = 0;

	while ((x = next_cost(g, size, want, &s, &at)) > 0)
		if (best <= 0 || better(&s, x, out, best)) {
			best = x;
			*out = s;
		}
	return best;
}

/* The least rows for which a tile pays; with fewer, one thread per result is faster. In a grouped
 * convolution, tiles read the terms that adjacent points share only once, so they pay from 2 rows
 * on. A matrix in the order of fragments has a tile for any number of rows: its cost is that of
 * reading the matrix, and no other thread reads whole sectors of it. */
static int least_rows(const GpuGemm *g)
{
	enum { GROUP_ROWS = 2 };

	return g->b.lanes ? 1 : g->g.p.c.ng && !g->b.k_joins ? GROUP_ROWS : GEMM_ROWS;
}

/* A product of SIZE is large enough for tiles. */
static bool tiles_pay(const GpuGemm *g, const double size[4])
{
	const double columns = GEMM_ROWS, terms = GEMM_TERMS;

	return size[0] >= least_rows(g) && size[1] >= columns && size[2] >= terms;
}

int64_t gemm_gpu_longest(const GpuGemm *g, double n, Iter **along)
{
	const Contraction *c = &g->g.p.c;
	int64_t most = 0, v;

	for (int i = 0; i < c->nk; i++)
		if (!dim_is_const(c->k[i]->extent, &v)) {
			*along = c->k[i];
			return c->nk == 1 && !g->serves->where.also ? (int64_t)n : 0;
		} else if (v > most) {
			most = v;
			*along = c->k[i];
		}
	return most;
}

/* The cost of G's product in P parts with the best tile, or with WANT's; *S is the shape. 0: not
 * possible. */
static double cost_of_parts(const GpuGemm *g, const double size[4], int64_t p,
			    const BlockShape *want, BlockShape *s)
{
	const Gpu *gpu = g->g.t->gpu;
	const double part[4] = {size[0], size[1], size[2] / (double)p, size[3] * (double)p},
		     bytes = dtype_bytes(ctype_dtype(g->g.p.c.ct)),
		     x = best_shape(g, part, want, s),
		     all = size[0] * size[1] * part[3] * bytes / (L2_RATE * gpu->memory * 1e9),
		     /* one block adds the parts of a tile */
		tile = (double)p * s->bm * s->bn * bytes / (L2_BYTES * clock_of(gpu));

	return p > 1 && x > 0 ? x + ARRIVAL + (all > tile ? all : tile) : x;
}

double gemm_gpu_cost(const GpuGemm *g, const ProductVariant *v)
{
	double size[4];
	BlockShape s;

	gemm_gpu_sizes(g, size);
	return cost_of_parts(g, size, v->parts, &v->s, &s);
}

double gemm_gpu_plan(const GpuGemm *g, ProductVariant *v)
{
	double size[4], best, whole;
	BlockShape s = {0};
	Iter *along;
	int64_t n;

	gemm_gpu_sizes(g, size);
	*v = (ProductVariant){.multiples = g->serves->where.nof > 0,
			      .async = {g->a.async, g->b.async},
			      .parts = 1};
	best = whole = tiles_pay(g, size) ? cost_of_parts(g, size, 1, NULL, &v->s) : 0;
	/* with many tiles, splitting would cost more than it gains for few tiles */
	if (whole <= 0 || !gemm_gpu_bounded(g))
		return whole;
	n = gemm_gpu_longest(g, size[2], &along);
	for (int64_t p = 2; p <= MOST_PARTS && n / p >= v->s.bk; p++) {
		const double x = n % (p * v->s.bk) ? 0 : cost_of_parts(g, size, p, NULL, &s);

		if (x <= 0 || x >= best || x >= GAIN * whole)
			continue;
		best = x;
		v->s = s;
		v->parts = p;
	}
	return best;
}
