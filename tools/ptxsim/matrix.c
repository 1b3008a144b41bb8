/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ldmatrix, stmatrix, movmatrix and mma: the instructions of a warp on small matrices.
 *
 * All fragments follow one rule. With g = lane / 4, t = lane % 4 and E elements in a register,
 * register r of A (M rows, in M / 8 groups) holds row g + 8 (r mod groups), columns E t + 4 E (r /
 * groups) and on; register r of B holds rows E t + 4 E r and on of column g; element i of C and D
 * is in row g + 8 (i / 2), column 2 t + i mod 2.
 */
#include "tools/ptxsim/decode.h"
#include "tools/ptxsim/half.h"
#include "tools/ptxsim/shadow.h"

#include <string.h>

static bool warp_here(Warp *w, uint32_t mask)
{
	if (!all_here(w, ~0u, mask, "divergent"))
		return false;
	if (mask != ~0u)
		fault(w, -1, CUDA_ERROR_LAUNCH_FAILED, "32 threads are to meet here, %08x live",
		      mask);
	return true;
}

/* ---- Matrices of 8x8 elements of 16 bits in shared memory ---- */

/* The rows of VEC matrices: lane 8j + i has the address of row i of matrix j. */
static void rows(Warp *w, const Inst *in, const Operand *op, int how, uint8_t *row[32])
{
	uint64_t addr[32], within;
	uint32_t used = in->vec == 4 ? ~0u : (1u << (8 * in->vec)) - 1;
	Space space = (Space)in->space;

	addresses(w, op, addr);
	for (int i = 0; i < 8 * in->vec; i++) {
		if (space == SP_GENERIC && space_of(addr[i], &within) == SP_SHARED)
			addr[i] = within;
		row[i] = access_at(w, i, SP_SHARED, addr[i], 16, how | SILENT);
		shadow_use(w, WHOLE_WARP, (uint32_t)addr[i], 16, how);
	}
	count_shared(&w->block->worker->count, addr, used, 16, how == WRITE);
}

static Slot item_slot(const Operand *op, int k)
{
	return op->kind == O_VEC ? op->item[k].slot : op->slot;
}

/* Which row and column of a matrix element E (0 or 1) of LANE's register is. */
static void place(int lane, int e, bool transposed, int *row, int *column)
{
	int a = lane / 4, b = 2 * (lane % 4) + e;

	*row = transposed ? b : a;
	*column = transposed ? a : b;
}

static void exec_ldmatrix(Warp *w, const Inst *in, uint32_t mask)
{
	uint8_t *row[32];

	if (!warp_here(w, mask))
		return;
	rows(w, in, &in->op[1], READ, row);
	for (int k = 0; k < in->vec; k++) {
		uint32_t out[32];
		for (int lane = 0; lane < 32; lane++) {
			uint16_t v[2];
			for (int e = 0; e < 2; e++) {
				int i, j;
				place(lane, e, in->flag, &i, &j);
				memcpy(&v[e], row[8 * k + i] + 2 * j, 2);
			}
			out[lane] = v[0] | (uint32_t)v[1] << 16;
		}
		put_lanes(w, item_slot(&in->op[0], k), out, mask);
	}
}

static void exec_stmatrix(Warp *w, const Inst *in, uint32_t mask)
{
	uint8_t *row[32];

	if (!warp_here(w, mask))
		return;
	rows(w, in, &in->op[0], WRITE, row);
	for (int k = 0; k < in->vec; k++)
		for (int lane = 0; lane < 32; lane++)
			for (int e = 0; e < 2; e++) {
				uint16_t v = (uint16_t)(lane_at(w, item_slot(&in->op[1], k),
								lane) >>
							(16 * e));
				int i, j;
				place(lane, e, in->flag, &i, &j);
				memcpy(row[8 * k + i] + 2 * j, &v, 2);
			}
}

static void exec_movmatrix(Warp *w, const Inst *in, uint32_t mask)
{
	uint16_t m[8][8];
	uint32_t out[32];

	if (!warp_here(w, mask))
		return;
	for (int lane = 0; lane < 32; lane++)
		for (int e = 0; e < 2; e++)
			m[lane / 4][2 * (lane % 4) + e] = (uint16_t)(lane_at(w, in->s[0], lane) >>
								     (16 * e));
	for (int lane = 0; lane < 32; lane++)
		out[lane] = m[2 * (lane % 4)][lane / 4] | (uint32_t)m[2 * (lane % 4) + 1][lane / 4]
								  << 16;
	put_lanes(w, in->d, out, mask);
}

void decode_ldmatrix(Parser *p)
{
	static const char *const counts[] = {"x1", "x2", "x4", NULL};
	Inst *in = p->in;
	bool store = !strcmp(p->mods[0], "stmatrix");
	Operand *data = &in->op[store], *addr = &in->op[!store];

	need_operands(p, 2, 2);
	take_mod(p, "sync");
	take_mod(p, "aligned");
	bool shape = take_mod(p, "m8n8");
	int n = take_choice(p, counts);
	in->flag2 = false;
	in->space = (uint8_t)take_space(p, addr);
	in->flag = take_mod(p, "trans");
	bool b16 = take_mod(p, "b16");
	no_mods(p);
	if (!shape || !b16 || n < 0 || addr->kind != O_ADDR)
		parse_fail(p, "%s is not supported", in->text);
	in->vec = (uint8_t)(1 << n);
	if ((data->kind == O_VEC ? data->n_items : 1) != in->vec)
		parse_fail(p, "a vector of %d expected", in->vec);
	in->exec = store ? exec_stmatrix : exec_ldmatrix;
	in->cls = C_matrix;
	for (int k = 0; k < in->vec; k++) {
		Operand *op = data->kind == O_VEC ? &data->item[k] : data;
		op->slot = store ? slot_of(p, op, T_b32, false) : dest_of(p, op, T_b32, false);
	}
}

void decode_movmatrix(Parser *p)
{
	static const char *const known[] = {"sync", "aligned", "m8n8", "trans", "b16", NULL};
	Inst *in = p->in;

	drop_mods(p, known);
	no_mods(p);
	need_operands(p, 2, 2);
	in->exec = exec_movmatrix;
	in->cls = C_matrix;
	in->d = dest_of(p, &in->op[0], T_b32, false);
	in->s[0] = slot_of(p, &in->op[1], T_b32, false);
}

/* ---- mma ---- */

typedef enum Elem {
	E_F16,
	E_BF16,
	E_TF32,
	E_F64,
	E_E4M3,
	E_E5M2,
	E_S8,
	E_U8,
	E_S4,
	E_U4,
	E_F32,
	E_S32
} Elem;

static const struct {
	const char *name;
	int bits; /* in a register; tf32 takes one whole */
} elems[] = {
	[E_F16] = {"f16", 16}, [E_BF16] = {"bf16", 16}, [E_TF32] = {"tf32", 32},
	[E_F64] = {"f64", 64}, [E_E4M3] = {"e4m3", 8},  [E_E5M2] = {"e5m2", 8},
	[E_S8] = {"s8", 8},    [E_U8] = {"u8", 8},      [E_S4] = {"s4", 4},
	[E_U4] = {"u4", 4},    [E_F32] = {"f32", 32},   [E_S32] = {"s32", 32},
};
enum { N_ELEMS = sizeof elems / sizeof *elems };

/* An mma's shape and elements: Inst.more. */
typedef struct Mma {
	int m, n, k;
	Elem d, a, b, c;
	bool saturate;
} Mma;

/* Element PART of register S in each lane. */
#define EACH(type, expr)                         \
	for (int i = 0; i < 32; i++) {           \
		type v = ((const type *)reg)[i]; \
		out[i] = (expr);                 \
	}                                        \
	break
static void widen(const Warp *w, Elem e, Slot s, int part, double out[32])
{
	const void *reg = slot_at(w, s);
	int at = part * elems[e].bits;

	switch (e) {
	case E_F16: EACH(uint32_t, (double)f32_of_f16((uint16_t)(v >> at)));
	case E_BF16: EACH(uint32_t, (double)f32_of_bf16((uint16_t)(v >> at)));
	case E_TF32: EACH(uint32_t, (double)f32_from(v & 0xffffe000));
	case E_F32: EACH(uint32_t, (double)f32_from(v));
	case E_F64: EACH(uint64_t, f64_from(v));
	case E_E4M3: EACH(uint32_t, float_value(v >> at & 0xff, (FloatForm){3, 4, true}));
	case E_E5M2: EACH(uint32_t, float_value(v >> at & 0xff, (FloatForm){2, 5, false}));
	case E_S8: EACH(uint32_t, (int8_t)(v >> at));
	case E_U8: EACH(uint32_t, (uint8_t)(v >> at));
	case E_S4: EACH(uint32_t, (int8_t)(v >> at << 4) >> 4);
	case E_U4: EACH(uint32_t, (double)(v >> at & 15));
	default: EACH(uint32_t, (int32_t)v);
	}
}

enum { MAX_K = 64 };

static int per_register(Elem e)
{
	return elems[e].bits >= 32 ? 1 : 32 / elems[e].bits;
}

static void load_a(const Warp *w, const Mma *m, const Operand *op, double out[16][MAX_K])
{
	int n = per_register(m->a), groups = m->m / 8;
	double v[32];

	for (int r = 0; r < op->n_items; r++)
		for (int e = 0; e < n; e++) {
			widen(w, m->a, op->item[r].slot, e, v);
			for (int lane = 0; lane < 32; lane++)
				out[lane / 4 + 8 * (r % groups)]
				   [n * (lane % 4) + 4 * n * (r / groups) + e] = v[lane];
		}
}

static void load_b(const Warp *w, const Mma *m, const Operand *op, double out[MAX_K][8])
{
	int n = per_register(m->b);
	double v[32];

	for (int r = 0; r < op->n_items; r++)
		for (int e = 0; e < n; e++) {
			widen(w, m->b, op->item[r].slot, e, v);
			for (int lane = 0; lane < 32; lane++)
				out[n * (lane % 4) + 4 * n * r + e][lane / 4] = v[lane];
		}
}

static void load_c(const Warp *w, const Mma *m, const Operand *op, double out[16][8])
{
	int n = per_register(m->c);
	double v[32];

	for (int i = 0; i < m->m / 4; i++) {
		widen(w, m->c, op->item[i / n].slot, i % n, v);
		for (int lane = 0; lane < 32; lane++)
			out[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + (i & 1)] = v[lane];
	}
}

static void store_d(const Warp *w, const Mma *m, const Operand *op, double d[16][8])
{
	for (int i = 0; i < m->m / 4; i++)
		for (int lane = 0; lane < 32; lane++) {
			double v = d[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + (i & 1)];
			Slot s = op->item[m->d == E_F16 ? i / 2 : i].slot;
			if (m->d == E_F64)
				set_lane(w, s, lane, f64_bits(v));
			else if (m->d == E_F32)
				set_lane(w, s, lane, v == v ? f32_bits((float)v) : 0x7fffffff);
			else if (m->d == E_S32 && m->saturate)
				set_lane(w, s, lane,
					 (uint32_t)(int32_t)fmin(fmax(v, INT32_MIN), INT32_MAX));
			else if (m->d == E_S32)
				set_lane(w, s, lane, (uint32_t)(int64_t)v);
			else if (i & 1)
				set_lane(w, s, lane,
					 (lane_at(w, s, lane) & 0xffff) | (uint32_t)f16_of_f64(v)
										  << 16);
			else
				set_lane(w, s, lane, f16_of_f64(v));
		}
}

/* Sums of products, exact or nearly so in double; f64 rounds at each step. */
static void multiply(const Mma *m, double a[16][MAX_K], double b[MAX_K][8], double d[16][8])
{
	typedef double Row __attribute__((vector_size(64)));
	Row row[MAX_K], sum;

	memcpy(row, b, (size_t)m->k * sizeof *row);
	for (int i = 0; i < m->m; i++) {
		memcpy(&sum, d[i], sizeof sum);
		for (int k = 0; k < m->k; k++)
			sum += a[i][k] * row[k];
		memcpy(d[i], &sum, sizeof sum);
	}
}

static void multiply_f64(const Mma *m, double a[16][MAX_K], double b[MAX_K][8], double d[16][8])
{
	for (int i = 0; i < m->m; i++)
		for (int k = 0; k < m->k; k++)
			for (int j = 0; j < 8; j++)
				d[i][j] = fma(a[i][k], b[k][j], d[i][j]);
}

static void exec_mma(Warp *w, const Inst *in, uint32_t mask)
{
	const Mma *m = in->more;
	double a[16][MAX_K], b[MAX_K][8], d[16][8];

	if (!warp_here(w, mask))
		return;
	w->block->worker->count.mma++;
	load_a(w, m, &in->op[1], a);
	load_b(w, m, &in->op[2], b);
	load_c(w, m, &in->op[3], d);
	if (m->d == E_F64)
		multiply_f64(m, a, b, d);
	else
		multiply(m, a, b, d);
	store_d(w, m, &in->op[0], d);
}

static Elem take_elem(Parser *p)
{
	for (int i = 0; i < N_ELEMS; i++)
		if (p->n_mods > 1 && !strcmp(p->mods[p->n_mods - 1], elems[i].name)) {
			p->n_mods--;
			return (Elem)i;
		}
	parse_fail(p, "%s: expected four types at its end", p->in->text);
}

static void fragment(Parser *p, Operand *op, int n, Type t, bool dest)
{
	if (op->kind != O_VEC && n == 1) {
		Operand *item = arena_copy(p->arena, op, sizeof *op);
		*op = (Operand){.kind = O_VEC, .item = item, .n_items = 1};
	}
	if (op->kind != O_VEC || op->n_items != n)
		parse_fail(p, "a vector of %d expected", n);
	for (int i = 0; i < n; i++)
		op->item[i].slot = dest ? dest_of(p, &op->item[i], t, false)
					: slot_of(p, &op->item[i], t, false);
}

static Type register_of(Elem e)
{
	return e == E_F64 ? T_f64 : T_b32;
}

static bool is_mma(const Mma *m)
{
	static const struct {
		Elem a;
		int k[4]; /* for m = 16 */
		int k8;   /* for m = 8; 0: none */
	} shapes[] = {
		{E_F16, {8, 16}, 0},    {E_BF16, {8, 16}, 0},  {E_TF32, {4, 8}, 0},
		{E_F64, {4, 8, 16}, 4}, {E_E4M3, {16, 32}, 0}, {E_E5M2, {16, 32}, 0},
		{E_S8, {16, 32}, 16},   {E_U8, {16, 32}, 16},  {E_S4, {32, 64}, 32},
		{E_U4, {32, 64}, 32},
	};
	bool small = m->a >= E_S8 && m->a <= E_U4, eight = m->a == E_E4M3 || m->a == E_E5M2;
	bool types = small ? m->d == E_S32 && m->c == E_S32 && elems[m->a].bits == elems[m->b].bits
		     : m->a == E_F64
			     ? m->d == E_F64 && m->c == E_F64 && m->b == E_F64
			     : (m->d == E_F32 || (m->d == E_F16 && (m->a == E_F16 || eight))) &&
				       (m->c == E_F32 || m->c == E_F16) &&
				       (m->b == m->a ||
					(eight && (m->b == E_E4M3 || m->b == E_E5M2)));

	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		for (int k = 0; k < 4; k++)
			if (shapes[i].a == m->a && m->n == 8 &&
			    ((m->m == 16 && m->k == shapes[i].k[k]) ||
			     (m->m == 8 && m->k == shapes[i].k8)))
				return types;
	return false;
}

void decode_mma(Parser *p)
{
	Inst *in = p->in;
	Mma *m = NEW(p->arena, Mma);
	int shape = 0, used = 0;

	need_operands(p, 4, 4);
	m->c = take_elem(p);
	m->b = take_elem(p);
	m->a = take_elem(p);
	m->d = take_elem(p);
	for (int i = 1; i < p->n_mods; i++)
		if (sscanf(p->mods[i], "m%dn%dk%d%n", &m->m, &m->n, &m->k, &used) == 3 &&
		    !p->mods[i][used])
			shape = i;
	bool known = shape && take_mod(p, p->mods[shape]) && take_mod(p, "row") &&
		     take_mod(p, "col");
	take_mod(p, "sync");
	take_mod(p, "aligned");
	take_mod(p, "kind::f8f6f4");
	m->saturate = take_mod(p, "satfinite");
	no_mods(p);
	if (!known || !is_mma(m))
		parse_fail(p, "%s is not supported", in->text);
	int n = per_register(m->a);
	fragment(p, &in->op[0], m->m / (m->d == E_F16 ? 8 : 4), register_of(m->d), true);
	fragment(p, &in->op[1], m->m / 8 * m->k / (4 * n), register_of(m->a), false);
	fragment(p, &in->op[2], m->k / (4 * n), register_of(m->b), false);
	fragment(p, &in->op[3], m->m / (m->c == E_F16 ? 8 : 4), register_of(m->c), false);
	in->exec = exec_mma;
	in->cls = C_matrix;
	in->more = m;
}
