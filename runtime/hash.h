/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A 64-bit hash of long byte strings, to detect weights of another build. It is not cryptographic.
 * The compiler computes it while it writes the weights, the runtime checks it; both include this
 * file, which includes nothing of dlcc.
 *
 * Four lanes process little-endian 8-byte words in turn, each by xor, multiply, rotate (like
 * FNV-1a, with a rotation so that high bits affect low ones). The tail is padded with zeros, and
 * the length is mixed in at the end. The result does not depend on how the input is divided between
 * calls.
 */
#ifndef RUNTIME_HASH_H
#define RUNTIME_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DL_HASH_BLOCK 32u

typedef struct dl_hash {
	uint64_t lane[4];
	uint64_t length;
	unsigned char tail[DL_HASH_BLOCK];
} dl_hash;

static inline uint64_t dl_hash_mix(uint64_t h, uint64_t word)
{
	h = (h ^ word) * 0x9e3779b97f4a7c15ull;
	return h << 29 | h >> 35;
}

static inline void dl_hash_block(dl_hash *h, const unsigned char *p)
{
	uint64_t w[4];

	memcpy(w, p, sizeof(w));
	for (int i = 0; i < 4; i++)
		h->lane[i] = dl_hash_mix(h->lane[i], w[i]);
}

static inline void dl_hash_init(dl_hash *h)
{
	memset(h, 0, sizeof(*h));
	for (unsigned i = 0; i < 4; i++)
		h->lane[i] = 0xcbf29ce484222325ull + i;
}

/* Adds the next n bytes. */
static inline void dl_hash_update(dl_hash *h, const void *data, size_t n)
{
	const unsigned char *p = data;
	size_t used = (size_t)(h->length % DL_HASH_BLOCK);

	h->length += n;
	if (used) {
		size_t take = DL_HASH_BLOCK - used < n ? DL_HASH_BLOCK - used : n;

		memcpy(h->tail + used, p, take);
		if (used + take < DL_HASH_BLOCK)
			return;
		dl_hash_block(h, h->tail);
		p += take;
		n -= take;
	}
	for (; n >= DL_HASH_BLOCK; p += DL_HASH_BLOCK, n -= DL_HASH_BLOCK)
		dl_hash_block(h, p);
	if (n)
		memcpy(h->tail, p, n);
}

/* The hash of all bytes so far; more may be added afterwards. */
static inline uint64_t dl_hash_value(const dl_hash *h)
{
	dl_hash c = *h;
	size_t used = (size_t)(c.length % DL_HASH_BLOCK);
	uint64_t r = c.length;

	if (used) {
		memset(c.tail + used, 0, DL_HASH_BLOCK - used);
		dl_hash_block(&c, c.tail);
	}
	for (int i = 0; i < 4; i++)
		r = dl_hash_mix(r, c.lane[i]);
	r ^= r >> 32;
	return r * 0x9e3779b97f4a7c15ull;
}

/* The hash of n bytes. */
static inline uint64_t dl_hash_bytes(const void *data, size_t n)
{
	dl_hash h;

	dl_hash_init(&h);
	dl_hash_update(&h, data, n);
	return dl_hash_value(&h);
}

#endif
