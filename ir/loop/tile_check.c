/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds races and missing waits in a finished tree of operations on tiles. It knows nothing of how
 * the tree was made: it walks through the tree as the threads of a block do, with each loop taken 0
 * to MOST_TRIPS times, and follows what happened to each buffer of a tile in shared memory, one
 * buffer for each value of the first of three indices.
 *
 *   - What a thread copied itself may be read by others after a barrier; what is copied asynchronously, after a
 *     wait for its group, and then a barrier. wgmma also needs a fence before that barrier.
 *   - A buffer may be written after a barrier that follows the last read, and the last write, of it and of every buffer
 *     that overlaps it in memory, whose contents are then lost.
 *   - Producers and other threads are ordered by mbarriers only. The order of the tree is one order in which they
 *     may run; a wait guarantees as many phases as its parities tell, and no more.
 */
#include "ir/loop/loop.h"

#include "base/round.h"

/* The trees of products and attention have at most 3 loops in each other. */
enum { MOST_TRIPS = 7, MOST_LOOPS = 6, MOST_BUFFERS = 64 };

typedef enum Content {
	CONTENT_NONE,
	CONTENT_IN_FLIGHT,   /* asynchronous copies of group GROUP */
	CONTENT_UNPUBLISHED, /* there, but no barrier was since */
	CONTENT_PUBLISHED
} Content;

/* An mbarrier in a tile, and how many of its phases each side knows to have ended. */
typedef struct MbarState {
	const Buf *tile;
	int64_t number;
	int arrived, known[2];
} MbarState;

/* A point in time: the end of PHASE phases of the mbarrier BY; 0: the start. */
typedef struct PhaseEnd {
	const MbarState *by;
	int phase;
} PhaseEnd;

typedef struct BufferState {
	const Buf *tile;
	int64_t number, from, to; /* bytes of the block's scratch */
	Content content;
	int group;
	bool read;     /* since the last barrier */
	bool busy;     /* read, and the producers do not know that it is done */
	bool produced; /* by the producers */
	PhaseEnd filled, freed;
	bool fenced; /* since it was filled, and before the barrier */
} BufferState;

typedef struct RaceCheck {
	Ctx *c;
	ExprPool *p;
	Diag *d;
	const Stage *st;
	const TileNode *n;
	BufferState buffer[MOST_BUFFERS];
	int nbuffers, commits, nmbars;
	MbarState mbar[MOST_BUFFERS];
	Iter *loop[MOST_LOOPS];
	Expr *trip[MOST_LOOPS];
	int nloops, most; /* MOST: how often loops are taken */
	bool ok;
} RaceCheck;

static void fault(RaceCheck *r, const char *what, const Buf *tile)
{
	STRBUF_LOCAL(b);

	if (r->n)
		tile_print(&b, r->n);
	if (r->ok)
		diag_error(r->d, (DiagLoc){0}, "stage %s: %s %s, with loops of %d iterations%s%s",
			   r->st->name, what, tile->name, r->most, r->n ? ": " : "",
			   strbuf_str(&b));
	r->ok = false;
}

/* The number of the buffer that index IDX of a tile with N indices selects, in the warp whose first
 * row is ROW; -1: it is not known. */
static int64_t number_of(RaceCheck *r, Expr *const *idx, int n, int64_t row)
{
	Expr *e = n < TILE_RANK ? NULL : ex_subst_iters(r->p, idx[0], r->loop, r->trip, r->nloops),
	     *at = ex_int(r->p, CT_I64, row);

	if (e && r->n->op == TILE_DOT)
		e = ex_subst_iters(r->p, e, &r->n->it[0], &at, 1);
	return !e ? 0 : e->kind == EX_CONST ? e->i : -1;
}

/* Bytes from the first to the last element of a tile, or of one of its buffers. */
static int64_t bytes_of(const Buf *b)
{
	int64_t last = dtype_bytes(b->dtype);

	for (int i = 0; i < b->tile->n; i++)
		if (b->rank < TILE_RANK || b->tile->axis[i].dim > 0)
			last += (b->tile->axis[i].extent - 1) * b->tile->axis[i].pitch;
	return last;
}

/* Bytes from one buffer of a tile to the next. */
static int64_t apart(const Buf *b)
{
	for (int i = 0; i < b->tile->n && b->rank == TILE_RANK; i++)
		if (b->tile->axis[i].dim == 0)
			return b->tile->axis[i].pitch;
	return 0;
}

static int64_t declared_at(const LNode *n, const Buf *tile)
{
	for (int64_t at; n; n = n->next) {
		if (n->kind == LN_LOCAL && n->local.buf == tile && n->local.at)
			return n->local.at->i;
		at = n->kind == LN_LOOP ? declared_at(n->body, tile) : -1;
		if (at >= 0)
			return at;
	}
	return -1;
}

static BufferState *buffer_of(RaceCheck *r, const Buf *tile, int64_t number)
{
	int64_t at;

	for (int i = 0; i < r->nbuffers; i++)
		if (r->buffer[i].tile == tile && r->buffer[i].number == number)
			return &r->buffer[i];
	if (number < 0 || r->nbuffers == MOST_BUFFERS) {
		fault(r, "it is not known which buffer is accessed of", tile);
		return &r->buffer[0];
	}
	at = declared_at(r->st->body, tile) + number * apart(tile);
	r->buffer[r->nbuffers] = (BufferState){
		.tile = tile, .number = number, .from = at, .to = at + bytes_of(tile)};
	return &r->buffer[r->nbuffers++];
}

static void read_buffer(RaceCheck *r, BufferState *b)
{
	if (b->content == CONTENT_IN_FLIGHT)
		fault(r, "no wait is between the asynchronous copies and this read of", b->tile);
	else if (b->content == CONTENT_UNPUBLISHED)
		fault(r, "no barrier is between the copies of other threads and this read of",
		      b->tile);
	else if (b->content == CONTENT_NONE)
		fault(r, "nothing is copied before this read of", b->tile);
	else if (r->n->op == TILE_DOT && mma_is_wgmma(r->n->mma) && !b->fenced)
		fault(r, "no fence is between the copies and the barrier before this read of",
		      b->tile);
	b->read = true;
	b->busy = r->st->block.producers > 0;
	b->freed.phase = 0;
}

/* The number of the buffer may depend on the rows of a product, by warp. */
static void see_read(RaceCheck *r, const Expr *load)
{
	int64_t rows = 1, step = 1;

	if (!tile_in_shared(load->load.buf))
		return;
	if (r->n->op == TILE_DOT && load->load.nidx == TILE_RANK &&
	    expr_has_iter(load->load.idx[0], r->n->it[0])) {
		dim_is_const(r->n->it[0]->extent, &rows);
		step = rows / tile_grid(r->n->to->tile).wm;
	}
	for (int64_t row = 0; row < rows && r->ok; row += step)
		read_buffer(r, buffer_of(r, load->load.buf,
					 number_of(r, load->load.idx, load->load.nidx, row)));
}

static void see_write(RaceCheck *r)
{
	BufferState *b = buffer_of(r, r->n->to, number_of(r, r->n->idx, r->n->nidx, 0));

	for (int i = 0; i < r->nbuffers; i++) {
		BufferState *o = &r->buffer[i];

		if (o->to <= b->from || b->to <= o->from)
			continue;
		if (r->n->producers ? o->busy : o->read)
			fault(r, "no barrier is between reads of other threads and this write to",
			      o->tile);
		else if (o->content == CONTENT_IN_FLIGHT || o->content == CONTENT_UNPUBLISHED)
			fault(r, "no barrier is between other copies and this write to", o->tile);
		o->content = CONTENT_NONE;
	}
	b->fenced = b->busy = false;
	b->produced = r->n->producers;
	b->filled.phase = 0;
	b->content = r->n->async ? CONTENT_IN_FLIGHT : CONTENT_UNPUBLISHED;
	b->group = r->commits;
}

static MbarState *mbar_of(RaceCheck *r)
{
	const Expr *idx = ex_subst_iters(r->p, r->n->idx[0], r->loop, r->trip, r->nloops);
	const int64_t at = idx->kind == EX_CONST ? idx->i : -1;

	if (at < 0)
		fault(r, "it is not known which mbarrier this is of", r->n->to);
	for (int i = 0; i < r->nmbars; i++)
		if (r->mbar[i].tile == r->n->to && r->mbar[i].number == at)
			return &r->mbar[i];
	if (r->nmbars == MOST_BUFFERS) {
		fault(r, "there are too many mbarriers in", r->n->to);
		return &r->mbar[0];
	}
	r->mbar[r->nmbars] = (MbarState){.tile = r->n->to, .number = at};
	return &r->mbar[r->nmbars++];
}

/* Orders everything that the arriving side has done before a phase of the mbarrier. */
static void see_arrive(RaceCheck *r, MbarState *m)
{
	m->arrived++;
	for (int i = 0; i < r->nbuffers; i++) {
		BufferState *b = &r->buffer[i];
		PhaseEnd *o = r->n->producers ? &b->filled : &b->freed;

		if (!o->phase &&
		    (r->n->producers ? b->produced && b->content == CONTENT_UNPUBLISHED : b->busy))
			*o = (PhaseEnd){m, m->arrived};
	}
}

static void see_await(RaceCheck *r, MbarState *m)
{
	const Expr *parity = ex_subst_iters(r->p, r->n->val, r->loop, r->trip, r->nloops);
	int *known = &m->known[r->n->producers];

	if (parity->kind == EX_CONST)
		*known += (*known & 1) == parity->i;
	if (parity->kind != EX_CONST || *known > m->arrived)
		fault(r, "a wait never ends, or ends before the accesses that it orders, on",
		      m->tile);
	for (int i = 0; i < r->nbuffers; i++) {
		BufferState *b = &r->buffer[i];
		const PhaseEnd *o = r->n->producers ? &b->freed : &b->filled;

		if (o->by != m || !o->phase || o->phase > *known)
			continue;
		if (r->n->producers)
			b->busy = false;
		else if (b->content == CONTENT_UNPUBLISHED)
			b->content = CONTENT_PUBLISHED;
	}
}

static void see_sync(RaceCheck *r)
{
	if (r->n->sync == TILE_ARRIVE)
		see_arrive(r, mbar_of(r));
	if (r->n->sync == TILE_AWAIT)
		see_await(r, mbar_of(r));
	r->commits += r->n->sync == TILE_COMMIT;
	for (int i = 0; i < r->nbuffers; i++) {
		BufferState *b = &r->buffer[i];

		/* of the threads that copied, before they arrive at an mbarrier */
		const bool own = b->produced == r->n->producers && !b->filled.phase;

		if (r->n->sync == TILE_WAIT && b->content == CONTENT_IN_FLIGHT && own &&
		    b->group < r->commits - r->n->pending)
			b->content = CONTENT_UNPUBLISHED;
		if (r->n->sync == TILE_FENCE && b->content == CONTENT_UNPUBLISHED && own)
			b->fenced = true;
		if (r->n->sync != TILE_BARRIER)
			continue;
		b->read = false;
		if (b->content == CONTENT_UNPUBLISHED && !b->produced)
			b->content = CONTENT_PUBLISHED;
	}
}

static void see_op(RaceCheck *r)
{
	const TileNode *n = r->n;

	if (n->op == TILE_SYNC) {
		see_sync(r);
		return;
	}
	EX_EACH_LOAD (load, n->val)
		see_read(r, load);
	EX_EACH_LOAD (load, n->by)
		see_read(r, load);
	if (tile_in_shared(n->to))
		see_write(r);
}

static int64_t first_of(const LNode *n)
{
	return n->range.lo->kind == EX_CONST ? n->range.lo->i : 0;
}

/* How often loop N is taken: as it says, or as its iterator has values, if that is less than
 * MOST. */
static int64_t trips(const RaceCheck *r, const LNode *n)
{
	int64_t end = INT64_MAX, known;

	if (n->loop.kind == LOOP_LAST)
		return 1;
	if (n->range.hi->kind == EX_CONST)
		end = n->range.hi->i;
	else if (!dim_is_const(n->range.var->extent, &end))
		return r->most;
	known = ceil_div(end - first_of(n), n->loop.step);
	return known < r->most ? known : r->most;
}

/* Follows the operations on tiles from N on; loops without any are left out. */
static void walk(RaceCheck *r, const LNode *n)
{
	for (; n && r->ok; n = n->next) {
		if (n->kind == LN_LOOP && !nodes_have_tiles(n->body))
			continue;
		if (n->kind == LN_LOOP && r->nloops == MOST_LOOPS) {
			diag_error(r->d, (DiagLoc){0}, "stage %s: more than %d loops are in each other",
				   r->st->name, MOST_LOOPS);
			r->ok = false;
		} else if (n->kind == LN_LOOP) {
			r->loop[r->nloops++] = n->range.var;
			for (int64_t i = 0, count = trips(r, n); i < count && r->ok; i++) {
				r->trip[r->nloops - 1] = ex_int(r->p, CT_I64,
								first_of(n) + i * n->loop.step);
				walk(r, n->body);
			}
			r->nloops--;
		}
		r->n = n->op;
		if (n->kind == LN_OP)
			see_op(r);
	}
}

bool tiles_check(Ctx *c, const Schedule *s, Diag *d)
{
	RaceCheck r = {.c = c, .p = s->kernel->pool, .d = d, .ok = true};

	for (int i = 0; i < s->stages.n; i++) {
		r.st = s->stages.at[i];
		for (r.most = 0; r.most <= MOST_TRIPS && r.ok; r.most++) {
			r.nbuffers = r.commits = r.nmbars = 0;
			walk(&r, r.st->block.head);
			walk(&r, r.st->body);
		}
	}
	return r.ok;
}
