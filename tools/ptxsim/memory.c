/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ptxsim/memory.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t FIRST = 0x0a0000000000, GUARD = 1 << 16;

static Alloc **table; /* by address */
static int n_table, cap_table;
static uint64_t used, limit = 80ull << 30, next_addr;

static int position(uint64_t addr)
{
	int lo = 0, hi = n_table;

	while (lo < hi) {
		int mid = (lo + hi) / 2;
		if (table[mid]->addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool insert(Alloc *a)
{
	if (n_table == cap_table) {
		int cap = cap_table ? cap_table * 2 : 64;
		Alloc **grown = realloc(table, (size_t)cap * sizeof(Alloc *));
		if (!grown)
			return false;
		table = grown;
		cap_table = cap;
	}
	int at = position(a->addr);
	memmove(table + at + 1, table + at, (size_t)(n_table - at) * sizeof(Alloc *));
	table[at] = a;
	n_table++;
	return true;
}

Alloc *memory_new(uint64_t size, AllocKind kind)
{
	Alloc *a = calloc(1, sizeof *a);

	if (!a || size > limit - used || (kind == A_DEVICE && used > limit))
		return free(a), NULL;
	a->size = size;
	a->kind = kind;
	if (posix_memalign((void **)&a->host, 4096, size + !size))
		return free(a), NULL;
	if (kind == A_PINNED) {
		a->addr = (uint64_t)(uintptr_t)a->host;
	} else {
		a->init = calloc(1, size / 8 + 2);
		a->addr = (next_addr ? next_addr : FIRST);
		next_addr = (a->addr + size + GUARD + 511) & ~511ull;
		if (a->init)
			memset(a->host, POISON, size);
	}
	if ((kind != A_PINNED && !a->init) || !insert(a)) {
		free(a->host);
		free(a->init);
		return free(a), NULL;
	}
	used += kind == A_PINNED ? 0 : size;
	return a;
}

void memory_free(Alloc *a)
{
	int at = position(a->addr) - 1;

	memmove(table + at, table + at + 1, (size_t)(n_table - at - 1) * sizeof(Alloc *));
	n_table--;
	used -= a->kind == A_PINNED ? 0 : a->size;
	free(a->host);
	free(a->init);
	free(a);
}

Alloc *memory_below(uint64_t addr)
{
	int at = position(addr);

	return at ? table[at - 1] : NULL;
}

Alloc *memory_at(uint64_t addr, uint64_t size)
{
	Alloc *a = memory_below(addr);

	return a && addr - a->addr < a->size + !a->size && size <= a->size - (addr - a->addr)
		       ? a
		       : NULL;
}

uint64_t memory_used(void)
{
	return used;
}

uint64_t memory_total(void)
{
	return limit;
}

int memory_count(void)
{
	return n_table;
}

void memory_limit(uint64_t bytes)
{
	limit = bytes;
}

static void set_bits(uint8_t *byte, uint8_t bits)
{
	/* Other threads may set other bits of the byte. */
	if ((__atomic_load_n(byte, __ATOMIC_RELAXED) & bits) != bits)
		__atomic_fetch_or(byte, bits, __ATOMIC_RELAXED);
}

void memory_mark(Alloc *a, uint64_t at, uint64_t n)
{
	if (!a->init || !n)
		return;
	uint64_t first = at / 8, last = (at + n - 1) / 8;
	uint8_t head = (uint8_t)(0xff << (at & 7)),
		tail = (uint8_t)(0xff >> (7 - ((at + n - 1) & 7)));
	if (first == last) {
		set_bits(a->init + first, head & tail);
		return;
	}
	set_bits(a->init + first, head);
	memset(a->init + first + 1, 0xff, last - first - 1);
	set_bits(a->init + last, tail);
}

bool memory_is_init(const Alloc *a, uint64_t at, uint64_t n)
{
	if (!a->init || !n)
		return true;
	uint64_t first = at / 8, last = (at + n - 1) / 8;
	uint8_t head = (uint8_t)(0xff << (at & 7)),
		tail = (uint8_t)(0xff >> (7 - ((at + n - 1) & 7)));
	if (first == last)
		return (a->init[first] & head & tail) == (head & tail);
	if ((a->init[first] & head) != head || (a->init[last] & tail) != tail)
		return false;
	for (uint64_t i = first + 1; i < last; i++)
		if (a->init[i] != 0xff)
			return false;
	return true;
}

void memory_copy(Alloc *to, uint8_t *dst, const Alloc *from, const uint8_t *src, uint64_t n)
{
	memmove(dst, src, n);
	if (!to || !to->init)
		return;
	uint64_t at = (uint64_t)(dst - to->host), from_at = from ? (uint64_t)(src - from->host) : 0;
	if (!from || !from->init || memory_is_init(from, from_at, n)) {
		memory_mark(to, at, n);
		return;
	}
	for (uint64_t i = 0; i < n; i++) {
		uint8_t bit = (uint8_t)(1 << ((at + i) & 7));
		if (memory_is_init(from, from_at + i, 1))
			to->init[(at + i) / 8] |= bit;
		else
			to->init[(at + i) / 8] &= (uint8_t)~bit;
	}
}
