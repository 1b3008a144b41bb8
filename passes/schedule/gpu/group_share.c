/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a thread group shares out the points of a row: the number of its threads, the vector width,
 * and the number of vectors that a thread keeps in registers. Vectors have 16 bytes where rows
 * begin at multiples of that, else fewer. Where rows begin within a sector, the first access is
 * peeled so that all requests of a warp begin at boundaries of sectors.
 *
 * Where a row of known length has more points than the registers of the largest block hold, the
 * elements of the remaining points are in the block's shared memory, those of each thread apart, as
 * far as they are read from memory: what is computed from them is computed again.
 */
#include "passes/forms/form.h"

#include "base/round.h"
#include "passes/schedule/gpu/group_impl.h"

enum {
	/* registers of a thread for kept elements, of its 255: */
	REGISTERS = 64,       /* in blocks of up to 1024 threads */
	WARP_REGISTERS = 128, /* in warps, whose blocks have at most 256 threads */
	/* points that a thread keeps where the length of the row is unknown */
	UNKNOWN = 16,
	/* Registers for each further product of an iterator and a stride in the address of a row:
	 * ptxas holds all of them for as long as the row is in registers. */
	STRIDE_REGISTERS = 2,
	LONGEST =
		16
		<< 10, /* the row length that the last variant is planned for, if it has no bound */
	/* bytes of a register; for wider elements of rows of unknown length, blocks have half the
	 * threads */
	WORD = 4,
	MOST_THREADS = 1024, /* threads of a block, at most, on all GPUs */
	/* registers for kept elements in a block of MOST_THREADS, whose threads have 64: without
	 * scratch, and with */
	FULL_REGISTERS = 32,
	SCRATCH_REGISTERS = 20
};

/* Accesses along the row: the elements of one access, the bytes of the largest element, and an
 * index that does not depend on a statement's own loops. */
typedef struct RowAccesses {
	const Group *t;
	int vector, bytes;
	Expr *at;
	bool apart; /* some accesses are not contiguous along the row */
} RowAccesses;

bool group_knows_loop(const Group *t, Expr *e)
{
	for (int i = 0; i < t->n; i++)
		if (expr_has_any(e, t->part[i].s->iter, t->part[i].s->niters))
			return true;
	return false;
}

static void access_along(RowAccesses *x, const Buf *b, Expr *at)
{
	Ctx *c = x->t->r->k->ctx;
	const int bytes = dtype_bytes(b->dtype);
	Affine a;

	x->apart = x->apart ||
		   (!b->data && expr_has_iter(at, x->t->it) && !ex_runs_along(c, at, x->t->it));
	if (b->data || dtype_info[b->dtype].bits < 8 || !ex_runs_along(c, at, x->t->it) ||
	    !ex_affine(c, at, &a))
		return;
	if (!group_is_bulk(x->t, b)) {
		x->at = group_knows_loop(x->t, at) ? x->at : at;
		x->bytes = bytes > x->bytes ? bytes : x->bytes;
	}
	x->vector = (int)gpu_aligned(c, &a, x->t->it, gpu_vector(bytes, x->vector));
}

static void load_along(RowAccesses *x, const Expr *e)
{
	for (int i = 0; i < x->t->nkept; i++)
		if (x->t->kept[i].buf == e->load.buf)
			return;
	access_along(x, e->load.buf, e->load.idx[0]);
}

/* E, which may be null, reads B. */
static bool reads_buf(Expr *e, const Buf *b)
{
	EX_EACH_LOAD (load, e)
		if (load->load.buf == b)
			return true;
	return false;
}

/* Kept value X, written by part AT or before, is read after AT. */
static bool alive_after(const Group *t, const Kept *x, int at)
{
	bool read = false;

	for (int i = at + 1; i < t->n; i++) {
		if (t->part[i].out == x->buf)
			return false;
		for (int j = 0; j < t->part[i].p.ne && !read; j++)
			read = reads_buf(t->part[i].p.e[j], x->buf);
		read = read || reads_buf(t->part[i].p.guard, x->buf);
	}
	return read;
}

/* The maximum number of registers for kept values of one point that are live at a time. */
static int words_kept(const Group *t)
{
	int most = 1;

	for (int at = -1; at < t->n; at++) {
		int n = 0;

		for (int i = 0; i < t->nkept; i++)
			if (!t->kept[i].block && alive_after(t, &t->kept[i], at))
				n += (dtype_info[t->kept[i].buf->dtype].bits + 31) / 32;
		most = n > most ? n : most;
	}
	return most;
}

static int in_registers(const Group *t)
{
	int n = 0;

	for (int i = 0; i < t->nkept; i++)
		n += !t->kept[i].block;
	return n;
}

int group_most_kept(int group, int registers)
{
	return (group <= WARP ? WARP_REGISTERS : REGISTERS) / (registers ? registers : 1);
}

/* The maximum length of the row. If it has no bound, and variants are made by length (KEEPS), the
 * last one is planned for LONGEST. */
static int64_t longest(const Group *t, bool keeps)
{
	const int64_t n = group_length(t, t->it->extent);

	return n == INT64_MAX && keeps && t->it->extent == gpu_row_length(t->r->k) ? LONGEST : n;
}

/* ---- What registers do not hold ---- */

/* Recomputing X reads memory. */
static bool from_memory(const Group *t, const Kept *x)
{
	EX_EACH_LOAD (e, x->is) {
		const Buf *b = e->load.buf;
		bool kept = !b->rank || b->data;

		for (int i = 0; i < t->nkept && !kept; i++)
			kept = t->kept[i].buf == b;
		if (!kept)
			return true;
	}
	return false;
}

/* Chooses the kept values that have a place in scratch: inputs, and values whose recomputation
 * reads memory. Returns the bytes of a point. Kept.at is in bytes of one point until the number of
 * points is known. */
static int64_t choose_more(Group *t)
{
	int64_t bytes = 0;

	for (int i = 0; i < t->nkept; i++) {
		Kept *x = &t->kept[i];

		x->in_scratch = !x->block && (!x->temp || from_memory(t, x));
		x->at = bytes;
		bytes += x->in_scratch ? dtype_info[x->buf->dtype].bits / 8 : 0;
	}
	return bytes;
}

/* Puts the points that registers do not hold into the block's scratch, as far as shared memory
 * suffices. */
static void share_scratch(Group *t, const Gpu *gpu, int64_t points)
{
	const Stage *st = t->r->b->stage;
	int64_t other = t->shared + GPU_DRIVER + STATES, room, bytes, most;

	if (points <= t->keep || !t->keep)
		return;
	for (int i = 0; i < t->nkept; i++)
		other += t->kept[i].block ? gpu_shared_bytes(gpu_bytes_of(t->kept[i].buf)) : 0;
	bytes = choose_more(t);
	room = gpu_block_room(t->r->b->sched, gpu,
			      other + st->block.threads * (points - t->keep) * bytes) -
	       other;
	most = bytes && room > 0 ? room / (st->block.threads * bytes) : 0;
	t->scratch_points = (int)(most < points - t->keep ? most : points - t->keep) / t->vector *
			    t->vector;
	for (int i = 0; i < t->nkept; i++) {
		t->kept[i].in_scratch = t->kept[i].in_scratch && t->scratch_points;
		t->kept[i].at *= (int64_t)st->block.threads * t->scratch_points;
	}
	t->r->b->stage->scratch = dim_const(t->r->k->ctx,
					    (int64_t)st->block.threads * t->scratch_points * bytes);
}

/* Further products in the address AT of a row: 2 for x[n][h][i][:]. */
static int further_strides(const Group *t, Expr *at)
{
	Affine a;

	return at && ex_affine(t->r->k->ctx, at, &a) && a.n > 2 ? a.n - 2 : 0;
}

/* Points that a thread of the largest block keeps in registers. There are fewer in persistent
 * blocks, where each point has an address of its own, and where the address of a row is a sum of
 * several products. */
static int registers_of(const Group *t, const RowAccesses *x, bool scratch)
{
	const bool known = group_length(t, t->it->extent) < INT64_MAX;
	const int most = !known    ? UNKNOWN - STRIDE_REGISTERS * further_strides(t, x->at)
			 : scratch ? SCRATCH_REGISTERS
				   : FULL_REGISTERS,
		  all = x->apart ? most / 2 : most;
	const int each = (t->persistent ? all - all / 4 : all) / words_kept(t);

	return each > 0 ? each : 1;
}

/* points of one register that a persistent block holds: without elements in scratch, and beside
 * those */
enum {
	HELD = MOST_THREADS * FULL_REGISTERS * 3 / 4,
	HELD_BESIDE = MOST_THREADS * SCRATCH_REGISTERS * 3 / 4
};

int64_t group_scratch(int64_t points, int bytes)
{
	return points < INT64_MAX && points > HELD ? (points - HELD_BESIDE) * bytes + LINE : 0;
}

/* Accesses of a thread to a row of POINTS. */
static int64_t runs_of(const Group *t, int64_t points)
{
	const int64_t each = (int64_t)t->r->b->stage->block.group * t->vector;

	return ceil_div(points, each);
}

/* A sum of products, as of a matrix and a vector, whose terms have the same order in every row. */
static bool sums_products(const Group *t)
{
	for (int i = 0; i < t->n; i++)
		if (form_of_stmt(t->r->k, t->part[i].s).kind == FORM_CONTRACTION)
			return true;
	return false;
}

void group_share_out(Group *t, const Gpu *gpu)
{
	Stage *st = t->r->b->stage;
	Ctx *c = t->r->k->ctx;
	RowAccesses x = {.t = t, .vector = MOST_VECTOR};
	const int registers = in_registers(t);
	const int64_t n = longest(t, registers > 0);
	int each = group_most_kept(st->block.group, registers),
	    need = each < UNKNOWN ? each : UNKNOWN, widest = MOST_THREADS;
	int64_t runs, sector;
	bool scratch;

	for (int i = 0; i < t->n; i++) {
		const RowStmt *y = &t->part[i];

		for (int j = 0; j < y->p.ne && y->along; j++)
			EX_EACH_LOAD (e, y->p.e[j])
				load_along(&x, e);
		if (y->along && y->p.write && !group_at_point(t, y->p.write))
			access_along(&x, y->out, y->p.write);
		x.vector = y->along && y->p.guard ? 1 : x.vector;
	}
	for (int i = 0; i < t->nkept; i++)
		if (!t->kept[i].temp && !t->kept[i].block)
			access_along(&x, t->kept[i].is->load.buf, t->kept[i].is->load.idx[0]);
	while (x.vector > 1 && (!dim_multiple(c, t->it->extent, x.vector) || n / x.vector < WARP))
		x.vector /= 2;
	t->vector = x.vector;
	sector = x.bytes ? gpu_sector(x.bytes) : 1;
	if (st->block.group >= WARP && x.at && sector > x.vector &&
	    !dim_multiple(c, t->it->extent, sector) && !sums_products(t))
		t->peel = gpu_peel(t->r->b, x.at, &t->it, &(Expr *){l_int(t->r->b, 0)}, 1, x.bytes);
	if (x.bytes > WORD && group_length(t, t->it->extent) == INT64_MAX) {
		widest /= 2;
		each /= 2;
	}
	while (st->block.group > WARP && n < INT64_MAX && st->block.threads < widest &&
	       st->block.threads * (int64_t)(each / 2) < n)
		st->block.group = st->block.threads *= 2;
	runs = n < INT64_MAX ? runs_of(t, n + (t->peel ? sector : 0)) : 0;
	scratch = st->block.threads == MOST_THREADS && dim_is_const(t->it->extent, NULL);
	if (st->block.threads == MOST_THREADS)
		each = registers_of(t, &x, false);
	if (scratch && runs * t->vector > each)
		each = registers_of(t, &x, true);
	while (registers && t->vector > 1 && t->vector > each)
		t->vector /= 2;
	runs = n < INT64_MAX ? runs_of(t, n + (t->peel ? sector : 0)) : 0;
	if (n < INT64_MAX)
		need = runs * t->vector < each ? (int)runs * t->vector : each;
	t->keep = registers ? need / t->vector * t->vector : 0;
	if (scratch)
		share_scratch(t, gpu, runs * t->vector);
}
