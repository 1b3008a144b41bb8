/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and stores: where an address leads, and whether the thread may use it so. */
#include "tools/ptxsim/decode.h"
#include "tools/ptxsim/shadow.h"

#include <string.h>

static const char *doing(int how)
{
	return how & ATOMIC ? "an atomic on" : how & WRITE ? "writes" : "reads";
}

Space space_of(uint64_t addr, uint64_t *within)
{
	static const Space spaces[] = {SP_GLOBAL, SP_SHARED, SP_LOCAL, SP_PARAM};
	uint64_t k = addr / WINDOW_SIZE;

	*within = addr % WINDOW_SIZE;
	if (k >= 4) {
		*within = addr;
		return SP_GLOBAL;
	}
	if (k == 0 && addr) {
		const Alloc *a = memory_at(addr, 1);
		if (a && a->kind == A_CONST)
			return SP_CONST;
	}
	return spaces[k];
}

_Noreturn static void out_of_bounds(Warp *w, int lane, const char *space, uint64_t addr,
				    unsigned len, uint64_t size, int how)
{
	fault(w, lane, CUDA_ERROR_ILLEGAL_ADDRESS,
	      "out of bounds: %s %u bytes at %llu of %s memory, which has %llu", doing(how), len,
	      (unsigned long long)addr, space, (unsigned long long)size);
}

_Noreturn static void bad_global(Warp *w, int lane, uint64_t addr, unsigned len, int how)
{
	const Alloc *a = memory_below(addr);

	if (!a)
		fault(w, lane, CUDA_ERROR_ILLEGAL_ADDRESS,
		      "out of bounds: %s %u bytes at 0x%llx, where nothing is allocated",
		      doing(how), len, (unsigned long long)addr);
	fault(w, lane, CUDA_ERROR_ILLEGAL_ADDRESS,
	      "out of bounds: %s %u bytes at 0x%llx, offset %llu of the allocation of %llu bytes "
	      "at 0x%llx",
	      doing(how), len, (unsigned long long)addr, (unsigned long long)(addr - a->addr),
	      (unsigned long long)a->size, (unsigned long long)a->addr);
}

static uint8_t *global_at(Warp *w, int lane, uint64_t addr, unsigned len, int how)
{
	Alloc *a = w->block->worker->last;

	if (!a || addr - a->addr >= a->size || len > a->size - (addr - a->addr)) {
		a = memory_at(addr, len);
		if (!a)
			bad_global(w, lane, addr, len, how);
		w->block->worker->last = a;
	}
	uint64_t at = addr - a->addr;
	if (how & (READ | ATOMIC) && !memory_is_init(a, at, len) && !(how & SILENT))
		fault(w, lane, CUDA_ERROR_LAUNCH_FAILED,
		      "reads %u bytes at offset %llu of the allocation of %llu bytes at 0x%llx, "
		      "which were never written",
		      len, (unsigned long long)at, (unsigned long long)a->size,
		      (unsigned long long)a->addr);
	if (how & (WRITE | ATOMIC)) {
		if (a->kind == A_CONST)
			fault(w, lane, CUDA_ERROR_ILLEGAL_ADDRESS, "writes constant memory");
		memory_mark(a, at, len);
	}
	return a->host + at;
}

static uint8_t *private_at(Warp *w, int lane, Private *p, const char *name, uint64_t addr,
			   unsigned len, int how)
{
	size_t at = (size_t)lane * p->size + addr;

	if (addr >= p->size || len > p->size - addr)
		out_of_bounds(w, lane, name, addr, len, p->size, how);
	if (how & WRITE)
		memset(p->init + at, 1, len);
	else if (memchr(p->init + at, 0, len))
		fault(w, lane, CUDA_ERROR_LAUNCH_FAILED,
		      "reads %u bytes at %llu of %s memory, which were never written", len,
		      (unsigned long long)addr, name);
	return p->bytes + at;
}

uint8_t *access_at(Warp *w, int lane, Space space, uint64_t addr, unsigned len, int how)
{
	Block *b = w->block;

	if (addr & (len - 1))
		fault(w, lane, CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned: %s %u bytes at 0x%llx",
		      doing(how), len, (unsigned long long)addr);
	if (space == SP_GENERIC)
		space = space_of(addr, &addr);
	switch (space) {
	case SP_SHARED:
		if (addr >= b->shared_bytes || len > b->shared_bytes - addr)
			out_of_bounds(w, lane, "shared", addr, len, b->shared_bytes, how);
		if (!(how & SILENT))
			shadow_use(w, lane, (uint32_t)addr, len, how);
		return b->shared + addr;
	case SP_LOCAL: return private_at(w, lane, &w->local, "local", addr, len, how);
	case SP_FRAME: return private_at(w, lane, &w->params, "parameter", addr, len, how);
	case SP_PARAM:
		if (how & (WRITE | ATOMIC) || addr >= b->launch->f->param_bytes ||
		    len > b->launch->f->param_bytes - addr)
			out_of_bounds(w, lane, "parameter", addr, len, b->launch->f->param_bytes,
				      how);
		return (uint8_t *)(uintptr_t)(b->launch->params + addr);
	default: return global_at(w, lane, addr, len, how);
	}
}

void addresses(const Warp *w, const Operand *op, uint64_t out[32])
{
	uint64_t base = (uint64_t)op->offset + (op->var ? var_address(w, op->var) : 0);

	if (op->slot.none)
		for (int i = 0; i < 32; i++)
			out[i] = base;
	else if (op->slot.size == 4) {
		const uint32_t *s = slot_at(w, op->slot);
		for (int i = 0; i < 32; i++)
			out[i] = s[i] + base;
	} else {
		const uint64_t *s = slot_at(w, op->slot);
		for (int i = 0; i < 32; i++)
			out[i] = s[i] + base;
	}
}

void count_access(Warp *w, Space space, const uint64_t addr[32], uint32_t mask, unsigned len,
		  bool store)
{
	Counters *c = &w->block->worker->count;

	if (space == SP_GENERIC) {
		uint64_t within[32];
		uint32_t shared = 0, global = 0;
		EACH_LANE (i, mask) {
			Space s = space_of(addr[i], &within[i]);
			shared |= (uint32_t)(s == SP_SHARED) << i;
			global |= (uint32_t)(s == SP_GLOBAL) << i;
		}
		if (shared)
			count_shared(c, within, shared, len, store);
		if (global)
			count_global(c, addr, global, len, store);
	} else if (space == SP_SHARED) {
		count_shared(c, addr, mask, len, store);
	} else if (space == SP_GLOBAL) {
		count_global(c, addr, mask, len, store);
	} else if (space == SP_LOCAL) {
		c->local_bytes += (uint64_t)len * (unsigned)__builtin_popcount(mask);
	}
}

/* ---- ld ---- */

static uint64_t extend(uint64_t v, Type t)
{
	int unused = 64 - 8 * type_size(t);

	return type_kind(t) == 's' ? (uint64_t)((int64_t)(v << unused) >> unused) : v;
}

/* Element K of what P points to, for the lanes in MASK. */
static void load_element(const Warp *w, const Inst *in, Slot d, int k, uint8_t *const p[32],
			 uint32_t mask)
{
	size_t size = (size_t)type_size((Type)in->type);

	if (d.none)
		return;
	if (size == 4 && d.size == 4) {
		uint32_t *to = slot_at(w, d);
		EACH_LANE (i, mask)
			memcpy(&to[i], p[i] + (size_t)k * 4, 4);
		return;
	}
	EACH_LANE (i, mask) {
		uint64_t v = 0;
		memcpy(&v, p[i] + (size_t)k * size, size);
		set_lane(w, d, i, extend(v, (Type)in->type));
	}
}

static void exec_ld(Warp *w, const Inst *in, uint32_t mask)
{
	uint64_t addr[32];
	uint8_t *p[32];
	const Operand *d = &in->op[0];
	unsigned len = (unsigned)in->imm;
	int how = in->flag ? READ | STRONG : READ;

	addresses(w, &in->op[1], addr);
	EACH_LANE (i, mask)
		p[i] = access_at(w, i, (Space)in->space, addr[i], len, how);
	count_access(w, (Space)in->space, addr, mask, len, false);
	if (d->kind != O_VEC)
		load_element(w, in, d->slot, 0, p, mask);
	for (int k = 0; d->kind == O_VEC && k < d->n_items; k++)
		load_element(w, in, d->item[k].slot, k, p, mask);
}

/* ---- st ---- */

/* Lanes of MASK whose address an earlier lane has, too; *FIRST: the first lane of each address. */
static uint32_t repeated(const uint64_t addr[32], uint32_t mask, uint32_t *first)
{
	uint32_t again = 0;
	uint64_t last = 0;
	bool rising = true;

	*first = 0;
	EACH_LANE (i, mask) {
		rising &= addr[i] > last || i == __builtin_ctz(mask);
		last = addr[i];
	}
	for (int i = 0; i < 32 && !rising; i++)
		for (int k = 0; k < i; k++)
			if (mask >> i & mask >> k & 1 && addr[i] == addr[k]) {
				again |= 1u << i;
				*first |= 1u << k;
				break;
			}
	return again;
}

/* Lanes may store to one address in one instruction if they store the same value: otherwise the
 * result is undefined. */
static void check_same(Warp *w, const Inst *in, const uint64_t addr[32], uint32_t mask,
		       uint32_t again)
{
	const Operand *s = &in->op[1];

	EACH_LANE (i, again)
		EACH_LANE (k, mask & ((1u << i) - 1))
			for (int e = 0; e < in->vec && addr[i] == addr[k]; e++) {
				Slot from = s->kind == O_VEC ? s->item[e].slot : s->slot;
				if (lane_at(w, from, i) != lane_at(w, from, k))
					fault(w, i, CUDA_ERROR_LAUNCH_FAILED,
					      "race: lanes %d and %d store different values to one "
					      "address",
					      k, i);
			}
}

static void exec_st(Warp *w, const Inst *in, uint32_t mask)
{
	uint64_t addr[32], within;
	uint8_t *p[32];
	const Operand *s = &in->op[1];
	unsigned len = (unsigned)in->imm;
	size_t size = (size_t)type_size((Type)in->type);
	int how = in->flag ? WRITE | STRONG : WRITE;
	bool may_share = in->space == SP_SHARED || in->space == SP_GENERIC;
	uint32_t first = 0, again;

	addresses(w, &in->op[0], addr);
	again = may_share ? repeated(addr, mask, &first) : 0;
	if (again && !in->flag &&
	    (in->space == SP_SHARED || space_of(addr[__builtin_ctz(again)], &within) == SP_SHARED))
		check_same(w, in, addr, mask, again);
	EACH_LANE (i, mask) {
		p[i] = access_at(w, i, (Space)in->space, addr[i], len,
				 again >> i & 1 ? how | SILENT : how);
		if (first >> i & 1 &&
		    (in->space == SP_SHARED || space_of(addr[i], &within) == SP_SHARED))
			shadow_use(w, WHOLE_WARP, (uint32_t)addr[i], len, how | SAME);
	}
	count_access(w, (Space)in->space, addr, mask, len, true);
	for (int k = 0; k < in->vec; k++) {
		Slot from = s->kind == O_VEC ? s->item[k].slot : s->slot;
		EACH_LANE (i, mask) {
			uint64_t v = lane_at(w, from, i);
			memcpy(p[i] + (size_t)k * size, &v, size);
		}
	}
}

/* ---- Decoding ---- */

static const char *const hints[] = {
	"ca",
	"cg",
	"cs",
	"lu",
	"cv",
	"nc",
	"wb",
	"wt",
	"L2::64B",
	"L2::128B",
	"L2::256B",
	"L1::evict_normal",
	"L1::no_allocate",
	"L1::evict_unchanged",
	"L1::evict_first",
	"L1::evict_last",
	"L2::evict_last",
	"L2::evict_normal",
	"L2::evict_first",
	"L2::cache_hint",
	"weak",
	"cta",
	"cluster",
	"gpu",
	"sys",
	"unified",
	NULL,
};
static const char *const strengths[] = {"volatile", "relaxed", "acquire", "release", "mmio", NULL};

Space take_space(Parser *p, const Operand *addr)
{
	static const struct {
		const char *name;
		Space space;
	} names[] = {{"global", SP_GLOBAL},      {"shared", SP_SHARED},
		     {"shared::cta", SP_SHARED}, {"local", SP_LOCAL},
		     {"const", SP_CONST},        {"param", SP_PARAM},
		     {"param::entry", SP_PARAM}, {"param::func", SP_FRAME}};

	for (int i = 0; i < 8; i++)
		if (take_mod(p, names[i].name)) {
			if (names[i].space == SP_PARAM &&
			    (addr->var ? addr->var->space == SP_FRAME : !p->f->kernel))
				return SP_FRAME;
			return names[i].space;
		}
	return SP_GENERIC;
}

void take_hints(Parser *p)
{
	drop_mods(p, hints);
	p->in->flag = take_choice(p, strengths) >= 0;
}

void note_granule(Parser *p, Space space, unsigned len)
{
	if ((space == SP_SHARED || space == SP_GENERIC) && len < p->m->granule)
		p->m->granule = (uint8_t)len;
}

static int take_vector(Parser *p)
{
	static const char *const sizes[] = {"v2", "v4", "v8", NULL};
	int k = take_choice(p, sizes);

	return k < 0 ? 1 : 2 << k;
}

/* Operand K has the data; ADDR is the address. */
static void decode_access(Parser *p, Operand *data, Operand *addr, bool store)
{
	Inst *in = p->in;
	Type t = take_type(p);

	in->vec = (uint8_t)take_vector(p);
	in->space = (uint8_t)take_space(p, addr);
	take_hints(p);
	no_mods(p);
	if (addr->kind != O_ADDR)
		parse_fail(p, "expected an address");
	if ((data->kind == O_VEC ? data->n_items : 1) != in->vec || in->vec * type_size(t) > 32)
		parse_fail(p, "a vector of %d expected", in->vec);
	in->cls = store ? C_store : C_load;
	in->type = (uint8_t)t;
	in->imm = in->vec * type_size(t);
	note_granule(p, (Space)in->space, (unsigned)in->imm);
	for (int k = 0; k < in->vec; k++) {
		Operand *op = data->kind == O_VEC ? &data->item[k] : data;
		op->slot = store ? slot_of(p, op, t, true) : dest_of(p, op, t, true);
	}
}

void decode_ld(Parser *p)
{
	need_operands(p, 2, 3);
	p->in->exec = exec_ld;
	decode_access(p, &p->in->op[0], &p->in->op[1], false);
}

void decode_st(Parser *p)
{
	need_operands(p, 2, 3);
	p->in->exec = exec_st;
	decode_access(p, &p->in->op[1], &p->in->op[0], true);
}
