/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a team shares out the points of a row: how many threads it has, how many neighbouring points are one access, and
 * for how many a thread has registers. Runs of neighbouring points are one access of 16 bytes where rows begin at
 * multiples, else a shorter one; then the first run begins so far before the row that the requests of a warp begin where
 * sectors do.
 */
#include "passes/gpu_team_impl.h"

enum {
	/* For what it keeps a thread has, of the 255 that it may have, */
	REGISTERS = 64,       /* in blocks, which may have 1024 threads, */
	WARP_REGISTERS = 128, /* in warps, whose blocks have 256 at most */
	/* Where the length of the row is not known: points that a thread keeps, or, where variants go by it, for how long
	 * a row the last one is. */
	UNKNOWN = 16,
	LONGEST = 24 << 10,
	MOST_THREADS = 1024, /* of a block, on all GPUs */
	FULL_REGISTERS = 32  /* of the 64 that a thread of so large a block may have */
};

/* Accesses along the row: PACK elements are one; the largest element; one of the flat indices. */
typedef struct Along {
	const Team *t;
	int pack, bytes;
	Expr *at;
} Along;

static void access_along(Along *x, const Buf *b, Expr *at)
{
	Ctx *c = x->t->r->k->ctx;
	const int bits = dtype_info[b->dtype].bits;
	Affine a;

	if (b->data || bits < 8 || !ex_runs_along(c, at, x->t->it) || !ex_affine(c, at, &a))
		return;
	x->at = at;
	x->bytes = bits / 8 > x->bytes ? bits / 8 : x->bytes;
	while (x->pack > 1 &&
	       (x->pack * bits / 8 > PACK_BYTES || !affine_aligned(c, &a, x->t->it, x->pack)))
		x->pack /= 2;
}

static void load_along(void *arg, Expr *e)
{
	Along *x = arg;

	if (e->kind != EX_LOAD)
		return;
	for (int i = 0; i < x->t->nkept; i++)
		if (x->t->kept[i].buf == e->load.buf)
			return;
	access_along(x, e->load.buf, e->load.idx[0]);
}

typedef struct Reads {
	const Buf *buf;
	bool yes;
} Reads;

static void reads_buf(void *arg, Expr *e)
{
	Reads *r = arg;

	r->yes = r->yes || (e->kind == EX_LOAD && e->load.buf == r->buf);
}

/* A statement after AT reads what is kept as B, which one up to AT, or none, writes. */
static bool alive_after(const Team *t, const Kept *x, int at)
{
	Reads r = {x->buf, false};

	for (int i = at + 1; i < t->n; i++) {
		if (t->part[i].out == x->buf)
			return false;
		for (int j = 0; j < t->part[i].p.ne; j++)
			ex_walk(t->part[i].p.e[j], reads_buf, &r);
	}
	return r.yes;
}

/* The most registers of what a thread keeps of one point that are in use between two statements. */
static int words_kept(const Team *t)
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

static int in_registers(const Team *t)
{
	int n = 0;

	for (int i = 0; i < t->nkept; i++)
		n += !t->kept[i].block;
	return n;
}

int team_most_kept(int team, int registers)
{
	return (team <= WARP ? WARP_REGISTERS : REGISTERS) / (registers ? registers : 1);
}

/* The most points of the row. Where that is not known, and variants go by it, the last one KEEPS very many. */
static int64_t longest(const Team *t, bool keeps)
{
	const int64_t n = team_length(t, t->it->extent);

	return n == INT64_MAX && keeps && t->it->extent == gpu_row_length(t->r->k) ? LONGEST : n;
}

void team_share_out(Team *t)
{
	Stage *st = t->r->b->stage;
	Ctx *c = t->r->k->ctx;
	Along x = {.t = t, .pack = MOST_PACK};
	const int registers = in_registers(t);
	const int64_t n = longest(t, registers > 0);
	int each = team_most_kept(st->team, registers), need = each < UNKNOWN ? each : UNKNOWN,
	    sector;

	for (int i = 0; i < t->n; i++) {
		const Part *y = &t->part[i];

		for (int j = 0; j < y->p.ne && y->along; j++)
			ex_walk(y->p.e[j], load_along, &x);
		if (y->along && y->p.write && !team_at_point(t, y->p.write))
			access_along(&x, y->out, y->p.write);
		x.pack = y->along && y->p.guard ? 1 : x.pack;
	}
	for (int i = 0; i < t->nkept; i++)
		if (!t->kept[i].temp && !t->kept[i].block)
			access_along(&x, t->kept[i].is->load.buf, t->kept[i].is->load.idx[0]);
	while (x.pack > 1 && (!dim_multiple(c, t->it->extent, x.pack) || n / x.pack < WARP))
		x.pack /= 2;
	t->pack = x.pack;
	sector = x.bytes ? SECTOR / x.bytes : 1;
	if (st->team >= WARP && x.at && sector > x.pack && !dim_multiple(c, t->it->extent, sector))
		t->skew = ex_op2(t->r->k->pool, IN_mod,
				 ex_subst_iters(t->r->k->pool, x.at, &t->it,
						&(Expr *){l_int(t->r->b, 0)}, 1),
				 l_int(t->r->b, sector));
	while (st->team > WARP && n < INT64_MAX && st->threads < MOST_THREADS &&
	       st->threads * (int64_t)(each / 2) < n)
		st->team = st->threads *= 2;
	if (st->threads == MOST_THREADS)
		each = FULL_REGISTERS / words_kept(t);
	if (n < INT64_MAX) {
		const int64_t runs = (n + (t->skew ? sector : 0) + st->team * t->pack - 1) /
				     (st->team * t->pack);

		need = runs * t->pack < each ? (int)runs * t->pack : each;
	}
	t->keep = registers ? need / t->pack * t->pack : 0;
}
