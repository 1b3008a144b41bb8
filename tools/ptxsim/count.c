/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ptxsim/count.h"

#include <stdlib.h>
#include <string.h>

static Stats *all;

void counters_add(Counters *to, const Counters *from)
{
	uint64_t *a = (uint64_t *)to;
	const uint64_t *b = (const uint64_t *)from;

	for (size_t i = 0; i < sizeof *to / sizeof *a; i++)
		a[i] += b[i];
}

Stats *stats_of(const char *kernel)
{
	Stats **at = &all;

	while (*at && strcmp((*at)->kernel, kernel))
		at = &(*at)->next;
	if (!*at) {
		Stats *s = calloc(1, sizeof *s);
		if (!s)
			abort();
		s->kernel = strdup(kernel);
		*at = s;
	}
	return *at;
}

void stats_clear(void)
{
	for (Stats *s = all; s; s = s->next)
		*s = (Stats){.kernel = s->kernel, .next = s->next};
}

uint64_t stats_get(const char *kernel, const char *name)
{
	const Stats *s = stats_of(kernel);

#define X(class_name)                           \
	if (!strcmp(name, "inst." #class_name)) \
		return s->c.inst[C_##class_name];
	INST_CLASSES(X)
#undef X
#define X(counter)                   \
	if (!strcmp(name, #counter)) \
		return s->c.counter;
	COUNTERS(X)
#undef X
	return !strcmp(name, "launches") ? s->launches : UINT64_MAX;
}

static void write_one(FILE *out, const Stats *s)
{
	static const char *const classes[] = {
#define X(name) #name,
		INST_CLASSES(X)
#undef X
	};
	uint64_t sum = 0;

	for (int i = 0; i < N_CLASSES; i++)
		sum += s->c.inst[i];
	fprintf(out,
		"  {\"kernel\": \"%s\", \"launches\": %llu, \"blocks\": %llu, \"threads\": %llu,\n",
		s->kernel, (unsigned long long)s->launches, (unsigned long long)s->blocks,
		(unsigned long long)s->threads);
	fprintf(out, "   \"thread_instructions\": {\"all\": %llu", (unsigned long long)sum);
	for (int i = 0; i < N_CLASSES; i++)
		fprintf(out, ", \"%s\": %llu", classes[i], (unsigned long long)s->c.inst[i]);
	fprintf(out, "}");
#define X(name) fprintf(out, ",\n   \"%s\": %llu", #name, (unsigned long long)s->c.name);
	COUNTERS(X)
#undef X
	fprintf(out, "}");
}

void stats_write(FILE *out)
{
	fprintf(out, "[\n");
	for (Stats *s = all; s; s = s->next) {
		write_one(out, s);
		fprintf(out, s->next ? ",\n" : "\n");
	}
	fprintf(out, "]\n");
}

/* ---- Requests ---- */

/* V in order; N is small, and mostly they are in order already. */
static void sort(uint64_t *v, int n)
{
	for (int i = 1; i < n; i++) {
		uint64_t x = v[i];
		int k = i;
		for (; k > 0 && v[k - 1] > x; k--)
			v[k] = v[k - 1];
		v[k] = x;
	}
}

static int gather(const uint64_t addr[32], uint32_t mask, uint64_t *out)
{
	int n = 0;

	for (; mask; mask &= mask - 1)
		out[n++] = addr[__builtin_ctz(mask)];
	return n;
}

void count_global(Counters *c, const uint64_t addr[32], uint32_t mask, unsigned width, bool store)
{
	uint64_t at[32], sectors = 1, distinct = 1;
	int n = gather(addr, mask, at);

	sort(at, n);
	for (int i = 1; i < n; i++) {
		sectors += at[i] >> 5 != at[i - 1] >> 5;
		distinct += at[i] != at[i - 1];
	}
	uint64_t fewest = (distinct * width + 31) / 32;
	if (store) {
		c->global_store_requests++;
		c->global_store_sectors += sectors;
		c->global_store_sectors_fewest += fewest;
		c->global_store_bytes += (uint64_t)n * width;
	} else {
		c->global_load_requests++;
		c->global_load_sectors += sectors;
		c->global_load_sectors_fewest += fewest;
		c->global_load_bytes += (uint64_t)n * width;
	}
}

/* Passes beyond the first that N words need: the most distinct words in one bank. */
static unsigned conflicts(uint64_t *word, int n)
{
	uint8_t in_bank[32] = {0};
	unsigned most = 1;
	uint64_t lo = word[0], hi = word[0];

	for (int i = 1; i < n; i++) {
		lo = word[i] < lo ? word[i] : lo;
		hi = word[i] > hi ? word[i] : hi;
	}
	if (hi - lo < 32)
		return 0;
	sort(word, n);
	for (int i = 0; i < n; i++)
		if (i == 0 || word[i] != word[i - 1]) {
			unsigned k = ++in_bank[word[i] & 31];
			most = k > most ? k : most;
		}
	return most - 1;
}

void count_shared(Counters *c, const uint64_t addr[32], uint32_t mask, unsigned width, bool store)
{
	unsigned lanes = width <= 4 ? 32 : width == 8 ? 16 : 8, words = width <= 4 ? 1 : width / 4;
	uint64_t extra = 0, bytes = (uint64_t)(unsigned)__builtin_popcount(mask) * width;

	for (unsigned from = 0; from < 32; from += lanes) {
		uint32_t phase = mask & (lanes == 32 ? ~0u : ((1u << lanes) - 1) << from);
		uint64_t word[64];
		int n = 0;
		for (; phase; phase &= phase - 1)
			for (unsigned k = 0; k < words; k++)
				word[n++] = addr[__builtin_ctz(phase)] / 4 + k;
		if (n)
			extra += conflicts(word, n);
	}
	if (store) {
		c->shared_store_requests++;
		c->shared_store_conflicts += extra;
		c->shared_store_bytes += bytes;
	} else {
		c->shared_load_requests++;
		c->shared_load_conflicts += extra;
		c->shared_load_bytes += bytes;
	}
}
