/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of tiles in shared memory by the warps of a block, and the staging of their sums through
 * shared memory for the epilogue.
 *
 * Warp w has the part (w / wn, w % wn) of the block's tile. With multiply-adds its lanes are 4 by
 * 8, and lane (y, x) has TM rows and TN columns; reads of shared memory are 16 bytes, of V
 * elements. If an operand's rows are contiguous along k, the lane has rows y, y + 4 ... and reads V
 * terms at once; else it has, and reads, V adjacent rows of every 4 * V (or columns of every 8 *
 * V). Eight adjacent lanes then read 128 bytes of different banks, or the same bytes.
 *
 * With a matrix instruction the warp's part is fragments of 16 by 8. ldmatrix loads four matrices
 * of 8 rows by 16 bytes at once. If rows of the tile are not contiguous along k, its transposing
 * form transposes elements of 16 bits; bytes arrive in pairs, which `prmt` separates; words are
 * loaded one by one. Constants in the order of fragments (passes/layout/fragments.c) need none of
 * that: the four registers of a lane are contiguous.
 */
#include "codegen/nvptx/kernel.h"

#include <string.h>

typedef struct WarpTile {
	LlKernel *k;
	LlFn *f;
	const Mma *m;
	const MmaInfo *info;
	DType type;
	int piece;                      /* elements of a tile in 16 bytes */
	int wtm, wtn;                   /* rows and columns of the warp's part */
	const char *lane, *row0, *col0; /* i32: the warp's first row and column */
	const char **acc;               /* values of the thread's sums */
	int n;
	const char *array, *sum; /* the local array that keeps them; their LLVM type */
} WarpTile;

static const char *op2(WarpTile *p, const char *op, const char *a, const char *b)
{
	const char *r = ll_new(p->f);

	ll_put(p->f, "%s = %s i32 %s, %s", r, op, a, b);
	return r;
}

static const char *num(WarpTile *p, int v)
{
	return arena_printf(p->f->arena, "%d", v);
}

/* A OP V; A itself if V is 0 and OP a sum or shift. */
static const char *opn(WarpTile *p, const char *op, const char *a, int v)
{
	if (!v && (!strcmp(op, "add") || !strcmp(op, "shl") || !strcmp(op, "lshr")))
		return a;
	return op2(p, op, a, num(p, v));
}

static const char *add(WarpTile *p, const char *a, const char *b)
{
	return op2(p, "add nsw", a, b);
}

static WarpTile warp_tile(LlKernel *k, const Mma *m)
{
	WarpTile p = {.k = k, .f = &k->f, .m = m, .info = &mma_info[m->kind], .type = m->a->dtype};
	const char *warp;

	p.piece = 16 / (dtype_info[p.type].bits / 8);
	p.wtm = m->bm / m->wm;
	p.wtn = m->bn / m->wn;
	p.n = m->bm * m->bn / k->stage->threads;
	p.acc = NEW_ARRAY(k->f.arena, p.n, const char *);
	p.array = ll_buf_name(k, m->acc);
	p.sum = ll_stored(m->acc->dtype);
	p.lane = opn(&p, "and", "%tid32", 31);
	warp = opn(&p, "lshr", "%tid32", 5);
	p.row0 = opn(&p, "mul", opn(&p, "udiv", warp, m->wn), p.wtm);
	p.col0 = opn(&p, "mul", opn(&p, "urem", warp, m->wn), p.wtn);
	for (int i = 0; i < p.n; i++) {
		p.acc[i] = ll_new(p.f);
		ll_put(p.f, "%s = load %s, ptr %s", p.acc[i], p.sum,
		       ll_element(k, p.array, m->acc->dtype, i));
	}
	return p;
}

static void store_accumulators(WarpTile *p)
{
	for (int i = 0; i < p->n; i++)
		ll_put(p->f, "store %s %s, ptr %s", p->sum, p->acc[i],
		       ll_element(p->k, p->array, p->m->acc->dtype, i));
}

/* ---- Tiles in shared memory ---- */

/* The pipeline stage of tile B that is read. */
static const char *slot_of(WarpTile *p, const Buf *b)
{
	return ll_in_slot(p->k, b, ll_buf_name(p->k, b));
}

/* Byte offset in its stage of piece PIECE of row ROW (i32). */
static const char *piece_at(WarpTile *p, const Buf *b, const char *row, const char *piece)
{
	const LlMove m = ll_move(b);
	const char *x = opn(p, "shl", opn(p, "and", opn(p, "lshr", row, m.shift), m.mask), m.up),
		   *line = opn(p, "shl", row, m.row - m.piece + 4);

	return add(p, line, opn(p, "shl", op2(p, "xor", piece, x), 4));
}

/* SLOT + AT, and ROWS rows further, a multiple of 8. */
static const char *shared_at(WarpTile *p, const Buf *b, const char *slot, const char *at, int rows)
{
	const LlMove m = ll_move(b);
	const char *r = ll_new(p->f), *s = ll_new(p->f);

	ll_put(p->f, "%s = getelementptr i8, ptr addrspace(3) %s, i32 %s", r, slot, at);
	if (!rows)
		return r;
	ll_put(p->f, "%s = getelementptr i8, ptr addrspace(3) %s, i32 %d", s, r,
	       rows << (m.row - m.piece + 4));
	return s;
}

/* ---- Multiply-adds ---- */

/* The lanes of a warp along one side of the tile, and this lane's first address. */
typedef struct LaneSide {
	const Buf *buf;
	bool along;
	int lanes, n;
	const char *at; /* i64: address of the first piece of this lane's first row or column */
} LaneSide;

/* The address of byte offset AT in the current stage of tile B. */
static const char *address(WarpTile *p, const Buf *b, const char *at)
{
	const char *x = shared_at(p, b, slot_of(p, b), at, 0), *r = ll_new(p->f);

	ll_put(p->f, "%s = ptrtoint ptr addrspace(3) %s to i64", r, x);
	return r;
}

/*
 * Opens one side of the tile. A stage is aligned to the range of the swizzle, and the warp's part
 * to that of its lanes. So the address of any piece is the first one's, changed by an xor and a sum
 * with constants, and one address stays live.
 */
static LaneSide open_side(WarpTile *p, const Buf *b, bool along, int lanes, int n,
			  const char *first, const char *lane)
{
	const char *zero = num(p, 0);
	const char *at = along ? piece_at(p, b, add(p, first, lane), zero)
			       : piece_at(p, b, zero,
					  add(p, opn(p, "lshr", first, ll_move(b).piece), lane));

	return (LaneSide){b, along, lanes, n, address(p, b, at)};
}

/* Loads the V elements of a piece as scalars. Row ROW and piece PIECE are counted from the lane's
 * first ones. */
static void read_piece(WarpTile *p, const LaneSide *s, int row, int piece, const char **out)
{
	const LlMove m = ll_move(s->buf);
	const int low = piece & m.mask;
	const char *x = ll_new(p->f), *from = ll_new(p->f), *v = ll_new(p->f),
		   *type = ll_stored(p->type);

	ll_put(p->f, "%s = xor i64 %s, %d", x, s->at, (low ^ (row >> m.shift & m.mask)) << 4);
	ll_put(p->f, "%s = inttoptr i64 %s to ptr addrspace(3)", from, x);
	x = ll_new(p->f);
	ll_put(p->f, "%s = getelementptr i8, ptr addrspace(3) %s, i64 %d", x, from,
	       (row << (m.row - m.piece + 4)) + ((piece - low) << 4));
	ll_put(p->f, "%s = load <%d x %s>, ptr addrspace(3) %s, align 16", v, p->piece, type, x);
	for (int i = 0; i < p->piece; i++) {
		out[i] = ll_new(p->f);
		ll_put(p->f, "%s = extractelement <%d x %s> %s, i32 %d", out[i], p->piece, type, v,
		       i);
	}
}

/* Loads OUT[term * n + element] for the V terms from K onwards. */
static void read_side(WarpTile *p, const LaneSide *s, int k, const char **out)
{
	const int v = p->piece;
	const char *result[16];

	for (int e = 0; e < s->n && s->along; e++) {
		read_piece(p, s, e * s->lanes, k / v, result);
		for (int t = 0; t < v; t++)
			out[t * s->n + e] = result[t];
	}
	for (int t = 0; t < v && !s->along; t++)
		for (int e = 0; e < s->n; e += v) {
			read_piece(p, s, k + t, e / v * s->lanes, result);
			for (int i = 0; i < v; i++)
				out[t * s->n + e + i] = result[i];
		}
}

static void multiply_add(WarpTile *p)
{
	const Mma *m = p->m;
	const char *type = ctype_name[m->ct];
	const LaneSide a = open_side(p, m->a, m->a_along, 4, m->tm, p->row0,
				     opn(p, "lshr", p->lane, 3)),
		       b = open_side(p, m->b, m->b_along, 8, m->tn, p->col0,
				     opn(p, "and", p->lane, 7));
	const char *x[64], *y[64];

	for (int k = 0; k < m->bk; k += p->piece) {
		read_side(p, &a, k, x);
		read_side(p, &b, k, y);
		for (int t = 0; t < p->piece; t++)
			for (int i = 0; i < m->tm; i++)
				for (int j = 0; j < m->tn; j++) {
					const char **c = &p->acc[i * m->tn + j];
					const char *arg[] = {x[t * m->tm + i], y[t * m->tn + j],
							     *c};

					if (ctype_is_float(m->ct)) {
						*c = ll_call(
							p->f,
							arena_printf(p->f->arena, "mad_%s", type),
							arg, 3);
						continue;
					}
					arg[0] = ll_call(p->f,
							 arena_printf(p->f->arena, "mul_%s", type),
							 arg, 2);
					arg[1] = *c;
					*c = ll_call(p->f,
						     arena_printf(p->f->arena, "add_%s", type), arg,
						     2);
				}
	}
}

/* ---- Matrix instructions ---- */

/*
 * A step is 32 bytes of k. A lane has four registers of it for each 16 rows of A or columns of B,
 * in ldmatrix's order. A's are (rows 0-7, first 16 bytes), (rows 8-15, first), (rows 0-7, second),
 * (rows 8-15, second). B's are of two adjacent fragments: (columns 0-7, first), (0-7, second),
 * (8-15, first), (8-15, second).
 */
typedef struct Source {
	const Buf *buf;
	bool along, is_a;
	const char *slot;
	const char *first; /* the warp's first row or column */
} Source;

/* The one of the four registers that has half HALF of k, of rows or columns 8 * FURTHER and on. */
static int register_of(const Source *s, int further, int half)
{
	return s->is_a ? 2 * half + further : 2 * further + half;
}

/* Loads four matrices of 8 rows of 16 bytes; lane l passes the address of row l % 8 of matrix l /
 * 8. */
static void ldmatrix(WarpTile *p, bool transposed, const char *where, const char **out)
{
	LlFn *f = p->f;
	const char *result = ll_new(f);

	ll_put(f,
	       "%s = call { i32, i32, i32, i32 } @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4%s.b16.p3(ptr addrspace(3) %s) convergent",
	       result, transposed ? ".trans" : "", where);
	for (int i = 0; i < 4; i++) {
		out[i] = ll_new(f);
		ll_put(f, "%s = extractvalue { i32, i32, i32, i32 } %s, %d", out[i], result, i);
	}
}

/* Loads fragments if rows of the tile are contiguous along k, or if rows are terms of 16 bits, with
 * the transposing form. */
static void read_matrices(WarpTile *p, const Source *s, int at, int step, const char **out)
{
	const bool low_rows = s->is_a ==
			      s->along; /* matrix 1 is 8 rows further; else matrix 2 is */
	const char *row = low_rows ? opn(p, "and", p->lane, 15)
				   : add(p, opn(p, "and", p->lane, 7),
					 opn(p, "shl", opn(p, "lshr", p->lane, 4), 3)),
		   *half = low_rows ? opn(p, "lshr", p->lane, 4)
				    : opn(p, "and", opn(p, "lshr", p->lane, 3), 1);
	const char *base = s->along ? s->first : opn(p, "lshr", s->first, 3), *where;

	if (s->along)
		where = shared_at(
			p, s->buf, s->slot,
			piece_at(p, s->buf, add(p, base, row), opn(p, "add", half, 2 * step)), at);
	else
		where = shared_at(
			p, s->buf, s->slot,
			piece_at(p, s->buf, row, opn(p, "add", add(p, base, half), at / 8)),
			16 * step);
	ldmatrix(p, !s->along, where, out);
}

static const char *permute(WarpTile *p, const char *a, const char *b, const char *which)
{
	const char *r = ll_new(p->f);

	ll_put(p->f, "%s = call i32 @llvm.nvvm.prmt(i32 %s, i32 %s, i32 %s)", r, a, b, which);
	return r;
}

/*
 * Loads fragments of bytes where rows of the tile are terms. The transposing load moves pairs of
 * bytes, so a register has two terms of rows (columns) 2g and 2g + 1. Two registers make four terms
 * of each, which are fragments of every other row (column). Lane t needs terms 4t to 4t + 3. So the
 * matrices are of terms 0 1 4 5 10 11 14 15 and 2 3 6 7 8 9 12 13, which are in different banks.
 */
static void read_bytes(WarpTile *p, const Source *s, int at, int step, const char **out)
{
	const char *lane = p->lane, *result[4], *is = ll_new(p->f), *even = ll_new(p->f), *odd,
		   *low = add(p, opn(p, "and", lane, 1), opn(p, "shl", opn(p, "and", lane, 6), 1)),
		   *swap = op2(p, "xor", opn(p, "lshr", lane, 3), opn(p, "lshr", lane, 2)),
		   *row = add(p, add(p, low, opn(p, "shl", opn(p, "and", swap, 1), 1)),
			      opn(p, "shl", opn(p, "lshr", lane, 4), 4)),
		   *piece = opn(p, "add", opn(p, "lshr", s->first, 4), at / 16);

	ldmatrix(p, true, shared_at(p, s->buf, s->slot, piece_at(p, s->buf, row, piece), 32 * step),
		 result);
	ll_put(p->f, "%s = icmp eq i32 %s, 0", is, opn(p, "and", lane, 2));
	ll_put(p->f, "%s = select i1 %s, i32 %d, i32 %d", even, is, 0x6420, 0x2064);
	odd = opn(p, "add", even, 0x1111);
	for (int half = 0; half < 2; half++)
		for (int i = 0; i < 2; i++)
			out[register_of(s, i, half)] = permute(
				p, result[2 * half], result[2 * half + 1], i ? odd : even);
}

/* Loads fragments of 32-bit elements where rows of the tile are terms: one by one. */
static void read_words(WarpTile *p, const Source *s, int at, int step, const char **out)
{
	const char *side = add(p, s->first, opn(p, "lshr", p->lane, 2)),
		   *row = opn(p, "and", p->lane, 3), *in = opn(p, "shl", opn(p, "and", side, 3), 2);

	for (int i = 0; i < 2; i++) {
		const char *piece = opn(p, "add", opn(p, "lshr", side, 2), (at + 8 * i) / 4),
			   *where = add(p, piece_at(p, s->buf, row, piece), in);

		for (int half = 0; half < 2; half++) {
			const char **o = &out[register_of(s, i, half)];

			*o = ll_new(p->f);
			ll_put(p->f, "%s = load i32, ptr addrspace(3) %s, align 4", *o,
			       shared_at(p, s->buf, s->slot, where, 8 * step + 4 * half));
		}
	}
}

/* REG, an i32, as an operand of the instruction: rounded to tf32, or bitcast. */
static const char *operand(WarpTile *p, const char *reg)
{
	const MmaInfo *in = p->info;
	const char *r = ll_new(p->f);

	if (in->round) {
		const char *v = r;

		r = ll_new(p->f);
		ll_put(p->f, "%s = bitcast i32 %s to %s", v, reg, ll_stored(p->type));
		ll_put(p->f, "%s = call %s @%s(%s %s)", r, in->reg, in->round, ll_stored(p->type),
		       v);
		return r;
	}
	if (!strcmp(in->reg, "i32"))
		return reg;
	ll_put(p->f, "%s = bitcast i32 %s to %s", r, reg, in->reg);
	return r;
}

/* Loads fragments of a tile in the order of fragments: a lane's four registers are one piece. */
static void read_lanes(WarpTile *p, const Source *s, int at, int step, const char **out)
{
	const int block = MMA_ROWS * p->m->bk * (16 / p->piece), part = 32 * 16;
	const char *first = opn(p, "mul", opn(p, "lshr", s->first, 4), block),
		   *where = add(p, first, opn(p, "shl", p->lane, 4)), *r = ll_new(p->f),
		   *from = ll_new(p->f), *v = ll_new(p->f);

	ll_put(p->f, "%s = getelementptr i8, ptr addrspace(3) %s, i32 %s", r, s->slot, where);
	ll_put(p->f, "%s = getelementptr i8, ptr addrspace(3) %s, i32 %d", from, r,
	       at / MMA_ROWS * block + step * part);
	ll_put(p->f, "%s = load <4 x i32>, ptr addrspace(3) %s, align 16", v, from);
	for (int i = 0; i < 4; i++) {
		const char **o = &out[register_of(s, i / 2, i % 2)];

		*o = ll_new(p->f);
		ll_put(p->f, "%s = extractelement <4 x i32> %s, i32 %d", *o, v, i);
	}
}

/* Loads the four registers of the 16 rows (columns) from AT onwards, for step STEP. */
static void read_fragments(WarpTile *p, const Source *s, int at, int step, const char **out)
{
	if (s->buf->swizzle == SWIZZLE_FRAGMENTS)
		read_lanes(p, s, at, step, out);
	else if (mma_transposes(p->m, s->along))
		read_bytes(p, s, at, step, out);
	else if (s->buf->swizzle == SWIZZLE_WORDS)
		read_words(p, s, at, step, out);
	else
		read_matrices(p, s, at, step, out);
	for (int i = 0; i < 4; i++)
		out[i] = operand(p, out[i]);
}

/* Emits one instruction: SUM += A * B. */
static void multiply(WarpTile *p, const char *const *a, const char *const *b, const char **sum)
{
	LlFn *f = p->f;
	const MmaInfo *in = p->info;
	const int n = in->m / 4;
	const char *result = ll_new(f), *type;
	StrBuf arg = {0}, list = {0};

	for (int i = 0; i < in->a; i++)
		strbuf_printf(&arg, "%s %s, ", in->reg, a[i]);
	for (int i = 0; i < in->b; i++)
		strbuf_printf(&arg, "%s %s, ", in->reg, b[i]);
	for (int i = 0; i < n; i++) {
		strbuf_printf(&arg, "%s%s %s", i ? ", " : "", p->sum, sum[i]);
		strbuf_printf(&list, "%s%s", i ? ", " : "", p->sum);
	}
	type = arena_printf(f->arena, "{ %s }", strbuf_str(&list));
	ll_put(f, "%s = call %s @%s(%s) convergent", result, type, in->call, strbuf_str(&arg));
	strbuf_free(&arg);
	strbuf_free(&list);
	for (int i = 0; i < n; i++) {
		sum[i] = ll_new(f);
		ll_put(f, "%s = extractvalue %s %s, %d", sum[i], type, result, i);
	}
}

/* SUM[0..4) += A * B, for part PART of a step's terms: the terms of one instruction. */
static void multiply_part(WarpTile *p, int part, const char *const *a, const char *const *b,
			  const char **sum)
{
	const MmaInfo *in = p->info;
	const int times = MMA_ROWS / in->m;

	for (int i = 0; i < times; i++)
		multiply(p, a + (part * times + i) * in->a, b + part * in->b,
			 sum + i * (in->m / 4));
}

enum { MOST_FRAGMENTS = 16 };

static void matrices(WarpTile *p)
{
	const Mma *m = p->m;
	const Source a = {m->a, m->a_along, true, slot_of(p, m->a), p->row0},
		     b = {m->b, m->b_along, false, slot_of(p, m->b), p->col0};
	const int rows = p->wtm / MMA_ROWS, cols = p->wtn / 8, steps = m->bk / (2 * p->piece);
	const char *x[MOST_FRAGMENTS][4], *y[MOST_FRAGMENTS][4];

	for (int step = 0; step < steps; step++) {
		for (int i = 0; i < rows; i++)
			read_fragments(p, &a, MMA_ROWS * i, step, x[i]);
		for (int j = 0; j < cols; j += 2)
			read_fragments(p, &b, 8 * j, step, y[j / 2]);
		for (int part = 0; part * p->info->b < 2; part++)
			for (int i = 0; i < rows; i++)
				for (int j = 0; j < cols; j++)
					multiply_part(p, part, x[i], y[j / 2] + j % 2 * 2,
						      p->acc + (i * cols + j) * 4);
	}
}

void ll_mma(LlKernel *k, const LNode *n)
{
	WarpTile p;

	ll_forget(&k->f);
	p = warp_tile(k, n->mma);
	ll_access_buf(k, n->mma->a, false);
	ll_access_buf(k, n->mma->b, false);
	if (n->mma->kind == MMA_FMA)
		multiply_add(&p);
	else
		matrices(&p);
	store_accumulators(&p);
	ll_forget(&k->f);
}

/* ---- To shared memory ---- */

/* Stores adjacent sums to row LINE of the staging buffer, from element IN on. */
static void put_run(WarpTile *p, const LNode *n, const char *line, const char *in,
		    const char *const *val, int count)
{
	const char *at = ll_new(p->f), *idx;

	idx = add(p, opn(p, "mul", line, (int)n->step), in);
	ll_put(p->f, "%s = zext i32 %s to i64", at, idx);
	ll_store_run(p->k, n->buf[0], at, val, count);
}

/* Stores COUNT sums from row ROW (i32, of the staging buffer) and column COL (of the block's tile)
 * on. */
static void put_sums(WarpTile *p, const LNode *n, const char *row, const char *col,
		     const char *const *val, int count)
{
	if (!p->m->by_columns)
		put_run(p, n, row, col, val, count);
	for (int i = 0; p->m->by_columns && i < count; i++)
		put_run(p, n, i ? opn(p, "add", col, i) : col, row, val + i, 1);
}

/* Stages part S of a lane's sums: those in its rows E with E / ROWS = S. */
static void copy_lanes(WarpTile *p, const LNode *n, int s)
{
	enum { LANES = 4, MOST = 4 };
	const Mma *m = p->m;
	const int staged = mma_part_rows(m), rows = staged / LANES, run = m->b_along ? 1 : p->piece;
	const bool down = m->by_columns && !m->a_along; /* the lane's rows are adjacent in memory */
	const char *y = opn(p, "lshr", p->lane, 3), *x = opn(p, "and", p->lane, 7),
		   *warp_row = opn(p, "mul", opn(p, "udiv", opn(p, "lshr", "%tid32", 5), m->wn),
				   staged),
		   *row[MOST];

	for (int i = 0; i < rows; i++)
		row[i] = add(p, warp_row,
			     m->a_along ? opn(p, "add", y, LANES * i)
					: opn(p, "add", opn(p, "mul", y, rows), i));
	for (int j = 0; j < m->tn; j += run) {
		const char *col = add(p, p->col0, opn(p, "add", opn(p, "mul", x, run), j * 8));
		const char *const *acc = &p->acc[s * rows * m->tn + j];

		for (int i = 0; i < rows && !down; i++)
			put_sums(p, n, row[i], col, acc + i * m->tn, run);
		for (int c = 0; c < run && down; c++) {
			const char *val[MOST];

			for (int i = 0; i < rows; i++)
				val[i] = acc[i * m->tn + c];
			put_run(p, n, opn(p, "add", col, c), row[0], val, rows);
		}
	}
}

/*
 * Stages row S of the warp's fragments: a lane has two adjacent elements of rows g and g + 8 of
 * each fragment. If an operand was transposed, a fragment has every other row (column), and the
 * lane has two adjacent rows, or four adjacent elements of two fragments.
 */
static void copy_fragments(WarpTile *p, const LNode *n, int s)
{
	const bool a_transposed = mma_transposes(p->m, p->m->a_along),
		   b_transposed = mma_transposes(p->m, p->m->b_along);
	const char *warp_row = opn(p, "mul", opn(p, "udiv", opn(p, "lshr", "%tid32", 5), p->m->wn),
				   MMA_ROWS),
		   *row = add(p, warp_row,
			      opn(p, "shl", opn(p, "lshr", p->lane, 2), a_transposed ? 1 : 0)),
		   *col = add(p, p->col0,
			      opn(p, "shl", opn(p, "and", p->lane, 3), b_transposed ? 2 : 1));
	const int cols = p->wtn / 8, fragments = b_transposed ? 2 : 1;

	for (int j = 0; j < cols; j += fragments)
		for (int half = 0; half < 2; half++) {
			const char *val[4];

			for (int i = 0; i < 2 * fragments; i++)
				val[i] = p->acc[(s * cols + j + i % fragments) * 4 + 2 * half +
						i / fragments];
			put_sums(p, n, opn(p, "add", row, (a_transposed ? 1 : 8) * half),
				 opn(p, "add", col, 8 * j), val, 2 * fragments);
		}
}

void ll_copy_sums(LlKernel *k, const LNode *n)
{
	WarpTile p;
	const char *staged;
	int nparts;

	ll_forget(&k->f);
	p = warp_tile(k, n->mma);
	nparts = p.wtm / mma_part_rows(n->mma);
	staged = ll_expr(&k->f, n->idx);
	for (int s = 0; s < nparts; s++) {
		const char *is = ll_new(&k->f), *after;

		ll_put(&k->f, "%s = icmp eq i64 %s, %d", is, staged, s);
		after = ll_open_if(k, is);
		if (n->mma->kind == MMA_FMA)
			copy_lanes(&p, n, s);
		else
			copy_fragments(&p, n, s);
		ll_close_if(k, after);
	}
	ll_forget(&k->f);
	ll_barrier(k);
}
