/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash, a hash with a secret key: whoever does not know the key cannot find strings with equal
 * hashes. J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012.
 * The table of strings uses SipHash-1-3: one round for each 8 bytes and three at the end.
 */
#ifndef RUNTIME_SIPHASH_H
#define RUNTIME_SIPHASH_H

#include <stdint.h>
#include <string.h>

typedef struct SipKey {
	uint64_t k[2];
} SipKey;

typedef struct SipState {
	uint64_t v[4];
} SipState;

static inline uint64_t sip_rotate(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static inline void sip_rounds(SipState *s, int n)
{
	uint64_t *v = s->v;

	for (int i = 0; i < n; i++) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = sip_rotate(v[1], 13) ^ v[0];
		v[3] = sip_rotate(v[3], 16) ^ v[2];
		v[0] = sip_rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = sip_rotate(v[1], 17) ^ v[2];
		v[3] = sip_rotate(v[3], 21) ^ v[0];
		v[2] = sip_rotate(v[2], 32);
	}
}

static inline void sip_word(SipState *s, uint64_t word, int rounds)
{
	s->v[3] ^= word;
	sip_rounds(s, rounds);
	s->v[0] ^= word;
}

/* The hash of the N bytes at P with ROUNDS rounds for each word of them, and LAST at the end. */
static inline uint64_t sip_hash(SipKey key, const void *p, uint64_t n, int rounds, int last)
{
	const unsigned char *byte = p;
	SipState s = {{key.k[0] ^ 0x736f6d6570736575u, key.k[1] ^ 0x646f72616e646f6du,
		       key.k[0] ^ 0x6c7967656e657261u, key.k[1] ^ 0x7465646279746573u}};
	uint64_t word, left = n;

	for (; left >= 8; left -= 8, byte += 8) {
		memcpy(&word, byte, 8);
		sip_word(&s, word, rounds);
	}
	word = n << 56;
	for (uint64_t i = 0; i < left; i++)
		word |= (uint64_t)byte[i] << (8 * i);
	sip_word(&s, word, rounds);
	s.v[2] ^= 0xff;
	sip_rounds(&s, last);
	return s.v[0] ^ s.v[1] ^ s.v[2] ^ s.v[3];
}

#endif
