/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of tiles (ir/loop/loop.h, TILE_DOT). The sums are in registers, in the layout of the
 * matrix instruction's accumulators; B is in shared memory, A there or in registers.
 *
 * With matrix instructions, one step covers 32 bytes of terms: four registers per lane for 16 rows
 * of A, or for 16 columns of B. Where the terms are contiguous, ldmatrix loads them. Where the
 * other side is contiguous, its transposing form loads elements of 16 bits. It delivers bytes in
 * pairs, which `prmt` separates; elements of 32 bits are loaded one by one. All elements are loaded
 * one by one if A's terms are in another order than the instruction's: then lane t of a quad has
 * terms 2t and 2t + 1 in its two registers. In tiles in the order of fragments the four registers
 * of a lane are adjacent.
 *
 * With multiply-adds, a lane has the same sums as with a matrix instruction. If A is in registers,
 * the lanes of a quad pass its elements to one another by shuffles.
 */
#include "codegen/nvptx/kernel.h"

#include <assert.h>
#include <string.h>

enum {
	PAIR = 2,
	FOUR = 4,
	/* registers of operands that ptxas loads ahead of their products; without this allowance an
	 * f16 attention with a soft cap and 64 columns spilled registers on sm_90a */
	AHEAD = 32
};

/* An operand in shared memory, TILE[row][col]. If ALONG, a row is an index of the free side (m
 * of A, n of B), else a term. With FRAGMENTS, a row is MMA_ROWS indices of the free side. */
typedef struct SharedOperand {
	const Buf *buf;
	bool along, fragments;
	int64_t pitch;    /* bytes from row to row */
	const char *base; /* i32: the byte in the tile's memory of the warp's first row or column */
} SharedOperand;

typedef struct TileDot {
	LlKernel *k;
	LlFn *f;
	const TileNode *n;
	const MmaInfo *in;
	int bytes, elems;                /* of an element, and elements of a register */
	const char *type, *sum;          /* LLVM's types of an element and of a sum */
	CType ct;                        /* of the sums */
	int fragments, columns, terms;   /* fragments of 16 rows of this warp; columns; terms */
	bool permuted;                   /* A's order of terms is not the instruction's */
	const char *lane, *group, *quad; /* i32: lane, lane / 4, lane % 4 */
	const char **acc;
	int nacc;
	SharedOperand a, b; /* A.buf null: A is in registers */
} TileDot;

static const char *op2(TileDot *d, const char *op, const char *x, const char *y)
{
	return ll_set(d->f, "%s i32 %s, %s", op, x, y);
}

static const char *opn(TileDot *d, const char *op, const char *x, int64_t v)
{
	if (!v && (!strcmp(op, "add") || !strcmp(op, "shl")))
		return x;
	return op2(d, op, x, ll_number(d->f, v));
}

/* The operand that E loads, with SIDE its free iterator. FIRST: i32, the warp's first element of
 * that side. */
static SharedOperand open_shared(TileDot *d, const Expr *e, const Iter *side, const char *first)
{
	const TileLayout *l = e->load.buf->tile;
	const int n = e->load.nidx;
	const bool fragments = tile_in_fragments(d->k->sched->kernel->pool, e, side, d->n->it[2]);
	SharedOperand o = {.buf = e->load.buf,
			   .fragments = fragments,
			   .along = fragments || e->load.idx[n - 2]->iter == side,
			   .base = "0"};
	int64_t slots = 0;

	for (int i = 0; i < l->n; i++) {
		if (l->axis[i].dim == n - 2)
			o.pitch = l->axis[i].pitch;
		if (n > 2 && l->axis[i].dim == 0)
			slots = l->axis[i].pitch;
	}
	if (slots) {
		o.base = opn(d, "mul", ll_narrow(d->f, ll_expr(d->f, e->load.idx[0])), slots);
	}
	if (first && fragments)
		first = opn(d, "lshr", first, 4);
	if (first)
		o.base = op2(d, "add", o.base, opn(d, "mul", first, o.along ? o.pitch : d->bytes));
	return o;
}

/* A pointer to byte AT (i32, or null) of O's tile, and ROW rows and BYTES further. */
static const char *address(TileDot *d, const SharedOperand *o, const char *at, int64_t row,
			   int64_t bytes)
{
	at = at ? op2(d, "add", o->base, at) : o->base;
	at = ll_set(d->f, "getelementptr i8, ptr addrspace(3) %s, i32 %s",
		    ll_tile_memory(d->k, o->buf), at);
	return ll_gep(d->f, "i8", 3, at, ll_number(d->f, row * o->pitch + bytes));
}

/* ---- Matrix instructions ---- */

/* OUT[0..n) = the elements of ALL, a vector or a struct of TYPE. */
static void take_apart(TileDot *d, const char *type, const char *all, int n, const char **out)
{
	for (int i = 0; i < n; i++)
		out[i] = *type == '<' ? ll_set(d->f, "extractelement %s %s, i32 %d", type, all, i)
				      : ll_set(d->f, "extractvalue %s %s, %d", type, all, i);
}

static void ldmatrix(TileDot *d, bool transposed, const char *where, const char **out)
{
	const char *type = "{ i32, i32, i32, i32 }";

	take_apart(
		d, type,
		ll_set(d->f,
		       "call %s @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4%s.b16.p3(ptr addrspace(3) %s) convergent",
		       type, transposed ? ".trans" : "", where),
		FOUR, out);
}

/*
 * The four registers of the 16 rows (IS_A) or columns that begin at AT, for step STEP. In A,
 * register 0 has rows 0-7 and the first 16 bytes of terms, register 1 rows 8-15 and the first,
 * register 2 rows 0-7 and the second 16 bytes, register 3 rows 8-15 and the second. In B, registers
 * 1 and 2 change places. Lane l gives the address of row l % 8 of matrix l / 8, which is register l
 * / 8.
 */
static void read_matrices(TileDot *d, const SharedOperand *o, bool is_a, int at, int step,
			  const char **out)
{
	const char *row = opn(d, "and", d->lane, 7),
		   *low = opn(d, "and", opn(d, "lshr", d->lane, 3), 1),
		   *high = opn(d, "lshr", d->lane, 4), *further = is_a ? low : high,
		   *half = is_a ? high : low, *where;

	if (o->along) {
		row = op2(d, "add", row, opn(d, "shl", further, 3));
		where = op2(d, "add", opn(d, "mul", row, o->pitch), opn(d, "shl", half, 4));
		ldmatrix(d, false, address(d, o, where, at, step * MMA_STEP_BYTES), out);
		return;
	}
	row = op2(d, "add", row, opn(d, "shl", half, 3));
	where = op2(d, "add", opn(d, "mul", row, o->pitch), opn(d, "shl", further, 4));
	ldmatrix(d, true,
		 address(d, o, where, (int64_t)step * MMA_STEP_BYTES / d->bytes,
			 (int64_t)at * d->bytes),
		 out);
}

static const char *permute(TileDot *d, const char *a, const char *b, const char *which)
{
	return ll_set(d->f, "call i32 @llvm.nvvm.prmt(i32 %s, i32 %s, i32 %s)", a, b, which);
}

/* Which of the four registers of an operand has the 8 rows (columns) from 8 * FURTHER and half HALF
 * of the terms. */
static int register_of(bool is_a, int further, int half)
{
	return is_a ? PAIR * half + further : PAIR * further + half;
}

/*
 * As read_matrices, for a tile of bytes whose rows are terms. The transposing load moves pairs of
 * bytes, so a register has two terms of rows (columns) 2g and 2g + 1. Two registers yield four
 * terms of each; these are fragments of the even and of the odd rows (columns). Lane t needs terms
 * 4t to 4t + 3. So the matrices are of terms 0 1 4 5 10 11 14 15 and 2 3 6 7 8 9 12 13, which are
 * in different banks.
 */
static void read_bytes(TileDot *d, const SharedOperand *o, bool is_a, int at, int step,
		       const char **out)
{
	const char *lane = d->lane, *result[FOUR], *even, *odd,
		   *low = op2(d, "add", opn(d, "and", lane, 1),
			      opn(d, "shl", opn(d, "and", lane, 6), 1)),
		   *swap = op2(d, "xor", opn(d, "lshr", lane, 3), opn(d, "lshr", lane, 2)),
		   *row = op2(d, "add",
			      op2(d, "add", low, opn(d, "shl", opn(d, "and", swap, 1), 1)),
			      opn(d, "shl", opn(d, "lshr", lane, 4), 4));

	ldmatrix(d, true,
		 address(d, o, opn(d, "mul", row, o->pitch), (int64_t)step * MMA_STEP_BYTES, at),
		 result);
	even = ll_set(d->f, "select i1 %s, i32 %d, i32 %d",
		      ll_op(d->f, "icmp eq i32", opn(d, "and", lane, 2), 0), 0x6420, 0x2064);
	odd = opn(d, "add", even, 0x1111);
	for (int half = 0; half < PAIR; half++)
		for (int i = 0; i < PAIR; i++)
			out[register_of(is_a, i, half)] = permute(
				d, result[PAIR * half], result[PAIR * half + 1], i ? odd : even);
}

/* As read_matrices, from a tile in the order of fragments. */
static void read_fragments(TileDot *d, const SharedOperand *o, bool is_a, int at, int step,
			   const char **out)
{
	const char *regs[FOUR], *v = ll_set(d->f, "load <4 x i32>, ptr addrspace(3) %s, align 16",
					    address(d, o, opn(d, "shl", d->lane, 4), at / MMA_ROWS,
						    (int64_t)step * WARP_LANES * FOUR * 4));

	take_apart(d, "<4 x i32>", v, FOUR, regs);
	for (int i = 0; i < FOUR; i++)
		out[register_of(is_a, i / PAIR, i % PAIR)] = regs[i];
}

/* As read_matrices, by loads of single words. */
static void read_words(TileDot *d, const SharedOperand *o, bool is_a, int at, int step,
		       const char **out)
{
	const int terms = MMA_STEP_BYTES / d->bytes;
	const char *term = opn(d, "mul", d->quad, d->permuted ? PAIR : 1),
		   *where = o->along ? op2(d, "add", opn(d, "mul", d->group, o->pitch),
					   opn(d, "mul", term, d->bytes))
				     : op2(d, "add", opn(d, "mul", term, o->pitch),
					   opn(d, "mul", d->group, d->bytes));

	for (int i = 0; i < FOUR; i++) {
		const int further = is_a ? i % 2 : i / 2, half = is_a ? i / 2 : i % 2,
			  side = at + 8 * further,
			  k = step * terms + half * (d->permuted ? 1 : FOUR);

		out[i] = ll_set(d->f, "load i32, ptr addrspace(3) %s, align 4",
				address(d, o, where, o->along ? side : k,
					(int64_t)(o->along ? k : side) * d->bytes));
	}
}

/* The stored element REG of A's tile in registers. */
static const char *element(TileDot *d, const Buf *b, int reg)
{
	return ll_set(d->f, "load %s, ptr %s", ll_stored(b->dtype),
		      ll_element(d->k, ll_buf_name(d->k, b), b->dtype, reg));
}

/* The four registers of A's fragment FRAGMENT, at step STEP, from a tile in registers. */
static void read_registers(TileDot *d, const TileLayout *want, int fragment, int step,
			   const char **out)
{
	const Buf *b = d->n->val->load.buf;
	const int steps = d->terms * d->bytes / MMA_STEP_BYTES;

	for (int i = 0; i < FOUR; i++) {
		const int first = ((fragment * steps + step) * FOUR + i) * d->elems;
		const char *x[FOUR];

		for (int e = 0; e < d->elems; e++)
			x[e] = element(d, b, layout_register(b->tile, want, first + e));
		out[i] = ll_set(d->f, "bitcast <%d x %s> %s to i32", d->elems, ll_stored(b->dtype),
				ll_together(d->f, ll_stored(b->dtype), x, d->elems));
	}
}

/* REG, an i32, as an operand of the instruction: rounded to tf32, or bitcast. */
static const char *operand(TileDot *d, const char *reg)
{
	if (d->in->round)
		return ll_set(d->f, "call %s @%s(float %s)", d->in->reg, d->in->round,
			      ll_set(d->f, "bitcast i32 %s to float", reg));
	return strcmp(d->in->reg, "i32") ? ll_set(d->f, "bitcast i32 %s to %s", reg, d->in->reg)
					 : reg;
}

static void read_shared(TileDot *d, const SharedOperand *o, bool is_a, int at, int step,
			const char **out)
{
	if (o->fragments)
		read_fragments(d, o, is_a, at, step, out);
	else if (d->bytes == 1 && !o->along)
		read_bytes(d, o, is_a, at, step, out);
	else if (d->bytes == 4 && (!o->along || d->permuted))
		read_words(d, o, is_a, at, step, out);
	else
		read_matrices(d, o, is_a, at, step, out);
}

/* SUM += A * B, one instruction. */
static void multiply(TileDot *d, const char *const *a, const char *const *b, const char **sum)
{
	const MmaInfo *in = d->in;
	const int n = in->m / FOUR;
	const char *result, *type;
	STRBUF_LOCAL(arg);
	STRBUF_LOCAL(list);

	for (int i = 0; i < in->a; i++)
		strbuf_printf(&arg, "%s %s, ", in->reg, a[i]);
	for (int i = 0; i < in->b; i++)
		strbuf_printf(&arg, "%s %s, ", in->reg, b[i]);
	for (int i = 0; i < n; i++) {
		strbuf_printf(&arg, "%s%s %s", i ? ", " : "", d->sum, sum[i]);
		strbuf_printf(&list, "%s%s", i ? ", " : "", d->sum);
	}
	type = arena_printf(d->f->arena, "{ %s }", strbuf_str(&list));
	result = ll_set(d->f, "call %s @%s(%s) convergent", type, in->call, strbuf_str(&arg));
	take_apart(d, type, result, n, sum);
}

/* SUM[0..4) += A * B for part PART of a step's terms, which are those of one instruction. If the
 * instruction has only 8 rows, two compute the 16. */
static void multiply_part(TileDot *d, int part, const char *const *a, const char *const *b,
			  const char **sum)
{
	const MmaInfo *in = d->in;
	const int times = MMA_ROWS / in->m;

	for (int i = 0; i < times; i++)
		multiply(d, a + (part * times + i) * in->a, b + part * in->b,
			 sum + i * (in->m / FOUR));
}

/* The four sums of fragment ROW by COLUMN, of 16 rows by 8 columns: two in the first row, and
 * two in the row 8 below it. */
static const char **sums_of(TileDot *d, int row, int column)
{
	return d->acc + (size_t)(row * (d->columns / 8) + column) * FOUR;
}

enum { MOST_PANELS = 16 }; /* of 16 columns, or fragments of rows */

static void by_matrices(TileDot *d, int warps)
{
	const int steps = d->terms * d->bytes / MMA_STEP_BYTES, panels = d->columns / MMA_ROWS;
	const TileLayout want = tile_operand(d->n->mma, warps, d->fragments * MMA_ROWS * warps,
					     d->terms, true);
	const char *x[MOST_PANELS][FOUR], *y[FOUR];

	for (int step = 0; step < steps; step++) {
		for (int i = 0; i < d->fragments; i++) {
			if (d->a.buf)
				read_shared(d, &d->a, true, MMA_ROWS * i, step, x[i]);
			else
				read_registers(d, &want, i, step, x[i]);
			for (int r = 0; r < FOUR; r++)
				x[i][r] = operand(d, x[i][r]);
		}
		for (int j = 0; j < panels; j++) {
			read_shared(d, &d->b, false, MMA_ROWS * j, step, y);
			for (int r = 0; r < FOUR; r++)
				y[r] = operand(d, y[r]);
			for (int part = 0; part * d->in->b < PAIR; part++)
				for (int i = 0; i < d->fragments; i++)
					for (int h = 0; h < PAIR; h++)
						multiply_part(d, part, x[i], y + h * PAIR,
							      sums_of(d, i, j * PAIR + h));
		}
	}
}

/* ---- wgmma ---- */

/* The low word of wgmma's descriptor of operand O, whose tile is stored in swizzle atoms (8 rows
 * of 128 bytes or fewer), starting at index FIRST (i32, or null) of its free side: bits 0-13
 * have the address, and 16-29 the distance of atoms along the side, if rows are terms, in units
 * of 16 bytes. All values have 32 bits and are the same in all threads, so ptxas computes them
 * once for a warp. */
static const char *descriptor(TileDot *d, const SharedOperand *o, const char *first)
{
	enum { UNIT_BITS = 4, LEAD = 16 };
	const int64_t lead = o->along ? 0 : (int64_t)d->terms * TILE_ATOM / ATOM_ROWS;
	const char *at = ll_set(d->f, "ptrtoint ptr addrspace(3) %s to i32",
				ll_tile_memory(d->k, o->buf));

	at = opn(d, "add", opn(d, "lshr", at, UNIT_BITS), lead >> UNIT_BITS << LEAD);
	if (first) /* the bytes of all terms of a row or column: those of whole atoms are together */
		at = op2(d, "add", at,
			 opn(d, "mul", first, (int64_t)d->terms * d->bytes >> UNIT_BITS));
	if (strcmp(o->base, "0"))
		at = op2(d, "add", at, opn(d, "lshr", o->base, UNIT_BITS));
	return ll_set(d->f, "call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %s, i32 0, i32 31)",
		      at);
}

/* From one instruction's terms to the next one's, in units of 16 bytes. */
static int next_terms(const TileDot *d, const SharedOperand *o)
{
	return d->in->k * (o->along ? d->bytes : TILE_ATOM / ATOM_ROWS) / TILE_VECTOR;
}

/* All instructions of a warpgroup, whose first row is FIRST, in one piece of assembly: nothing may
 * use the sums between them. */
static void by_warpgroups(TileDot *d, const char *first)
{
	/* the swizzle, and the distance of the next 8 rows in units of 16 bytes */
	const int swizzle = 1 << 30, next = TILE_ATOM / TILE_VECTOR;
	const char *a = descriptor(d, &d->a, first), *b = descriptor(d, &d->b, NULL),
		   *high = opn(d, "add", d->k->role == ROLE_ALL ? "0" : "%zero", swizzle | next),
		   *all, *type;
	STRBUF_LOCAL(code);
	STRBUF_LOCAL(out);
	STRBUF_LOCAL(in);
	STRBUF_LOCAL(arg);
	STRBUF_LOCAL(list);

	for (int i = 0; i < d->nacc; i++) {
		strbuf_printf(&list, "%s$%d", i ? "," : "", i);
		strbuf_printf(&out, "%s%s", i ? ", " : "", d->sum);
		strbuf_puts(&in, "=f,");
		strbuf_printf(&arg, "%s %s, ", d->sum, d->acc[i]);
	}
	for (int i = 0; i < d->nacc; i++)
		strbuf_printf(&in, "%d,", i);
	strbuf_printf(
		&code,
		"{ .reg .pred adds; .reg .b32 la, lb; .reg .b64 a, b; setp.eq.u32 adds, 0, 0; "
		"mov.b32 la, $%d; mov.b32 lb, $%d; wgmma.fence.sync.aligned; ",
		2 * d->nacc, 2 * d->nacc + 1);
	for (int k = 0; k < d->terms / d->in->k; k++)
		strbuf_printf(
			&code,
			"mov.b64 a, {la, $%d}; mov.b64 b, {lb, $%d}; add.u32 la, la, %d; add.u32 lb, lb, %d; "
			"wgmma.mma_async.sync.aligned.m%dn%dk%d.%s {%s}, a, b, adds, 1, 1, %d, %d; ",
			2 * d->nacc + 2, 2 * d->nacc + 2, next_terms(d, &d->a),
			next_terms(d, &d->b), d->in->m, d->columns, d->in->k, d->in->call,
			strbuf_str(&list), !d->a.along, !d->b.along);
	strbuf_puts(&code, "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; }");
	type = arena_printf(d->f->arena, "{ %s }", strbuf_str(&out));
	all = ll_set(
		d->f,
		"call %s asm sideeffect \"%s\", \"%sr,r,r,~{memory}\"(%si32 %s, i32 %s, i32 %s) convergent",
		type, strbuf_str(&code), strbuf_str(&in), strbuf_str(&arg), a, b, high);
	take_apart(d, type, all, d->nacc, d->acc);
}

/* ---- Multiply-adds ---- */

/* N adjacent elements at AT. */
static void load_elements(TileDot *d, const char *at, int n, const char **out)
{
	const char *type = arena_printf(d->f->arena, "<%d x %s>", n, d->type);
	const int bytes = n * d->bytes;

	take_apart(d, type,
		   ll_set(d->f, "load %s, ptr addrspace(3) %s, align %d", type, at,
			  bytes < TILE_VECTOR ? bytes : TILE_VECTOR),
		   n, out);
}

/* SUM + X * Y. */
static const char *multiply_add(TileDot *d, const char *x, const char *y, const char *sum)
{
	Arena *a = d->f->arena;
	const char *type = ctype_name[d->ct], *arg[] = {x, y, sum};

	if (ctype_is_float(d->ct))
		return ll_call(d->f, arena_printf(a, "mad_%s", type), arg, 3);
	arg[0] = ll_call(d->f, arena_printf(a, "mul_%s", type), arg, 2);
	arg[1] = sum;
	return ll_call(d->f, arena_printf(a, "add_%s", type), arg, 2);
}

/* The first of four terms: a constant, and a variable (i32), or null. */
typedef struct FourTerms {
	int at;
	const char *loop;
} FourTerms;

/* A pointer to term K of row (column) SIDE of O, where LANE (i32) is the offset in bytes of
 * the lane's first row (column). */
static const char *term_at(TileDot *d, const SharedOperand *o, FourTerms k, const char *lane,
			   int side)
{
	const int64_t bytes = o->along ? d->bytes : o->pitch;

	if (k.loop)
		lane = op2(d, "add", lane, opn(d, "mul", k.loop, bytes));
	return o->along ? address(d, o, lane, side, k.at * bytes)
			: address(d, o, lane, k.at, (int64_t)side * d->bytes);
}

/* OUT[0..4) = terms K to K + 3 of the row of A that is 8 * ROW below the lane's first row. */
static void read_a(TileDot *d, FourTerms k, int row, const char **out)
{
	const SharedOperand *o = &d->a;
	const char *lane = opn(d, "mul", d->group, o->along ? o->pitch : d->bytes);

	if (o->along) {
		load_elements(d, term_at(d, o, k, lane, 8 * row), FOUR, out);
		return;
	}
	for (int i = 0; i < FOUR; i++, k.at++)
		load_elements(d, term_at(d, o, k, lane, 8 * row), 1, out + i);
}

/* Terms K to K + 3 of the lane's two columns of block COL of 8: OUT[term * 2 + column]. */
static void read_b(TileDot *d, FourTerms k, int col, const char **out)
{
	const SharedOperand *o = &d->b;
	const char *lane = opn(d, "mul", d->quad, PAIR * (o->along ? o->pitch : d->bytes)),
		   *row[FOUR];

	for (int c = 0; c < PAIR && o->along; c++) {
		load_elements(d, term_at(d, o, k, lane, 8 * col + c), FOUR, row);
		for (int i = 0; i < FOUR; i++)
			out[i * PAIR + c] = row[i];
	}
	for (int i = 0; i < FOUR && !o->along; i++, k.at++)
		load_elements(d, term_at(d, o, k, lane, 8 * col), PAIR, out + i * PAIR);
}

/* Term K of row ROW of A in fragment FRAGMENT, shuffled from the lane of the quad that has it. */
static const char *shuffled(TileDot *d, int fragment, int row, int k)
{
	const Buf *b = d->n->val->load.buf;
	const int reg = ((fragment * (d->terms / 8) + k / 8) * PAIR + row) * PAIR + k % PAIR;
	const char *from = op2(d, "or", opn(d, "and", d->lane, 28),
			       opn(d, "add", "0", k / PAIR % FOUR)),
		   *x = ll_set(d->f, "bitcast float %s to i32", element(d, b, reg));

	x = ll_set(d->f, "call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %s, i32 %s, i32 31)", x,
		   from);
	return ll_set(d->f, "bitcast i32 %s to float", x);
}

/* Adds terms K to K + 3 to all sums; those of A are X[row * 4 + term]. */
static void add_terms(TileDot *d, FourTerms k, const char *const *x)
{
	const int rows = d->fragments * PAIR, cols = d->columns / 8;
	const char *y[FOUR * PAIR];

	for (int j = 0; j < cols; j++) {
		read_b(d, k, j, y);
		for (int i = 0; i < FOUR; i++)
			for (int r = 0; r < rows; r++)
				for (int c = 0; c < PAIR; c++) {
					const char **sum =
						&d->acc[((r / PAIR * cols + j) * PAIR + r % PAIR) *
								PAIR +
							c];

					*sum = multiply_add(d, x[r * FOUR + i], y[i * PAIR + c],
							    *sum);
				}
	}
}

enum { MOST_ROWS = 8, UNROLLED_TERMS = 16 };

static void store_sums(TileDot *d)
{
	for (int i = 0; i < d->nacc; i++)
		ll_put(d->f, "store %s %s, ptr %s", d->sum, d->acc[i],
		       ll_element(d->k, ll_buf_name(d->k, d->n->to), d->n->to->dtype, i));
}

static void load_sums(TileDot *d, bool zero)
{
	for (int i = 0; i < d->nacc; i++)
		d->acc[i] = !zero ? element(d, d->n->to, i) : ctype_is_float(d->ct) ? "0.0" : "0";
}

static void read_and_add(TileDot *d, FourTerms k)
{
	const char *x[MOST_ROWS * FOUR];

	for (int r = 0; r < d->fragments * PAIR; r++)
		read_a(d, k, r, x + r * FOUR);
	add_terms(d, k, x);
}

/* A is shared: a loop over its terms, four at a time. */
static void loop_over_terms(TileDot *d)
{
	LlKernel *k = d->k;
	const Iter *it = d->n->it[2];
	const char *at;
	LlLoop l;

	store_sums(d);
	l = ll_open_loop(k, it, "0", ll_number(d->f, d->terms), "4");
	l.once = true;
	at = ll_set(d->f, "trunc i64 %s to i32", l.var);
	load_sums(d, false);
	read_and_add(d, (FourTerms){0, at});
	store_sums(d);
	ll_close_loop(k, &l);
	load_sums(d, false);
}

static void by_multiply_adds(TileDot *d)
{
	const char *x[MOST_ROWS * FOUR];

	assert(d->fragments * PAIR <= MOST_ROWS);
	for (int k = 0; k < d->terms && d->a.buf && d->terms <= UNROLLED_TERMS; k += FOUR)
		read_and_add(d, (FourTerms){k, NULL});
	if (d->a.buf && d->terms > UNROLLED_TERMS)
		loop_over_terms(d);
	if (d->a.buf)
		return;
	for (int k = 0; k < d->terms; k += FOUR) {
		for (int r = 0; r < d->fragments * PAIR; r++)
			for (int i = 0; i < FOUR; i++)
				x[r * FOUR + i] = shuffled(d, r / PAIR, r % PAIR, k + i);
		add_terms(d, (FourTerms){k, NULL}, x);
	}
}

void ll_tile_dot(LlKernel *k, const TileNode *n)
{
	const TileGrid g = tile_grid(n->to->tile);
	const int m = (int)iter_count(n->it[0]);
	TileDot d = {.k = k, .f = &k->f, .n = n, .in = &mma_info[n->mma]};
	const bool wgmma = mma_is_wgmma(n->mma);
	const char *warp, *rows, *columns, *wide;

	d.bytes = dtype_bytes(n->by->load.buf->dtype);
	d.elems = d.bytes < 4 ? 4 / d.bytes : 1;
	d.type = ll_stored(n->by->load.buf->dtype);
	d.sum = ll_stored(n->to->dtype);
	d.ct = dtype_ctype(n->to->dtype);
	d.fragments = m / g.wm / MMA_ROWS;
	d.columns = (int)iter_count(n->it[1]) / g.wn;
	d.terms = (int)iter_count(n->it[2]);
	d.lane = opn(&d, "and", "%tid32", WARP_LANES - 1);
	d.group = opn(&d, "lshr", d.lane, 2);
	d.quad = opn(&d, "and", d.lane, 3);
	d.nacc = (int)layout_count(n->to->tile, AT_REGISTER);
	d.acc = NEW_ARRAY(k->f.arena, d.nacc, const char *);
	warp = opn(&d, "lshr", "%tid32", 5);
	rows = opn(&d, "mul", g.wn > 1 ? opn(&d, "udiv", warp, g.wn) : warp, m / g.wm);
	columns = g.wn > 1 ? opn(&d, "mul", opn(&d, "urem", warp, g.wn), d.columns) : NULL;
	if (layout_count(n->val->load.buf->tile, AT_ADDRESS) > 1)
		d.a = open_shared(&d, n->val, n->it[0], wgmma ? NULL : rows);
	d.permuted = !d.a.buf && d.elems == 1;
	wide = ll_set(&k->f, "zext i32 %s to i64", rows);
	ll_bind(k, n->it[0], wide); /* all rows of a warp read the same buffer of B */
	d.b = open_shared(&d, n->by, n->it[1], columns);
	k->ahead = k->ahead > AHEAD ? k->ahead : AHEAD;
	load_sums(&d, !n->adds);
	if (wgmma)
		by_warpgroups(&d, m > d.in->m ? opn(&d, "and", rows, -d.in->m) : NULL);
	else if (n->mma == MMA_FMA)
		by_multiply_adds(&d);
	else
		by_matrices(&d, g.wm);
	store_sums(&d);
}

/* ---- Sums of rows ---- */

/* A register of elements that are 1. */
static const char *ones(const TileDot *d, DType type)
{
	const unsigned half = type == DT_F16 ? 0x3c00 : 0x3f80;

	return arena_printf(d->f->arena, "%u", d->elems == 1 ? half << 16 : half << 16 | half);
}

/* The register of N's tile with the sum of the lane's row 8 * FURTHER of fragment FRAGMENT. */
static int register_of_row(const TileNode *n, int fragment, int further)
{
	const TileLayout *l = n->to->tile;
	int64_t idx[TILE_RANK];
	int r = 0;

	do
		layout_element(l, r++, 0, 0, idx);
	while (idx[0] != MMA_ROWS * fragment + 8 * further);
	return r - 1;
}

void ll_tile_sums(LlKernel *k, const TileNode *n)
{
	const Buf *a = n->val->load.buf;
	const int warps = k->stage->block.threads / WARP_LANES, rows = (int)iter_count(n->it[0]),
		  terms = (int)iter_count(n->it[1]), bytes = dtype_bytes(a->dtype);
	const TileLayout want = tile_operand(n->mma, warps, rows, terms, true);
	TileDot d = {.k = k, .f = &k->f, .n = n, .in = &mma_info[n->mma], .bytes = bytes};
	const char *x[FOUR], *y[PAIR], *sum[FOUR];

	d.elems = 4 / bytes;
	d.terms = terms;
	d.sum = ll_stored(n->to->dtype);
	y[0] = y[1] = operand(&d, ones(&d, a->dtype));
	for (int i = 0; i < rows / warps / MMA_ROWS; i++) {
		for (int s = 0; s < FOUR; s++) {
			sum[s] = n->adds ? "undef" : "0.0"; /* other columns are not read */
			if (n->adds && s % PAIR == 0)
				sum[s] = ll_set(d.f, "load %s, ptr %s", d.sum,
						ll_element(k, ll_buf_name(k, n->to), n->to->dtype,
							   register_of_row(n, i, s / PAIR)));
		}
		for (int step = 0; step < terms * bytes / MMA_STEP_BYTES; step++) {
			read_registers(&d, &want, i, step, x);
			for (int r = 0; r < FOUR; r++)
				x[r] = operand(&d, x[r]);
			for (int part = 0; part * d.in->b < PAIR; part++)
				multiply_part(&d, part, x, y, sum);
		}
		for (int s = 0; s < FOUR; s += PAIR)
			ll_put(d.f, "store %s %s, ptr %s", d.sum, sum[s],
			       ll_element(k, ll_buf_name(k, n->to), n->to->dtype,
					  register_of_row(n, i, s / PAIR)));
	}
}
