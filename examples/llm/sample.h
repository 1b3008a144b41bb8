/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses a token from the scores of a language model: greedily, or at random among the best ones.
 * Nothing is sorted: the time is proportional to the vocabulary.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct Sampler {
	float temperature; /* 0: the best token, always */
	int top_k;         /* only the K best tokens; 0: all */
	float top_p;       /* only the best tokens that have this probability together; 1: all */
	uint64_t seed;     /* not 0 */
} Sampler;

typedef struct Choice {
	float p; /* the score, then the probability */
	int token;
} Choice;

/* A random number in [0, 1), by xorshift64*. */
static float sample_random(Sampler *s)
{
	s->seed ^= s->seed >> 12;
	s->seed ^= s->seed << 25;
	s->seed ^= s->seed >> 27;
	return (float)((s->seed * 0x2545F4914F6CDD1Du) >> 40) / 16777216.0f;
}

/* Brings the fewest of the N choices C whose probabilities are WANT together, the greatest ones, to
 * the front; returns their number. As quickselect: of two parts only one is looked at again. */
static int sample_best(Choice *c, int n, float want)
{
	int from = 0;

	while (n - from > 1) {
		const float pivot = c[from + (n - from) / 2].p;
		float above = 0;
		int i = from, at = from, end = n;

		while (at < end) { /* greater ones, equal ones, smaller ones */
			const Choice x = c[at];

			if (x.p > pivot) {
				above += x.p;
				c[at++] = c[i];
				c[i++] = x;
			} else if (x.p < pivot) {
				c[at] = c[--end];
				c[end] = x;
			} else {
				at++;
			}
		}
		if (above >= want) {
			n = i;
			continue;
		}
		for (want -= above; i < end && want > 0; i++)
			want -= pivot;
		if (want <= 0)
			return i;
		from = end;
	}
	return n;
}

/* Puts C in the place of the least of the N choices in HEAP, each of which is less than the two at
 * 2i+1 and 2i+2. */
static void sample_replace(Choice *heap, int n, Choice c)
{
	int at = 0;

	for (int next = 1; next < n; at = next, next = 2 * at + 1) {
		next += next + 1 < n && heap[next + 1].p < heap[next].p;
		if (heap[next].p >= c.p)
			break;
		heap[at] = heap[next];
	}
	heap[at] = c;
}

/* The token for these SCORES of N tokens; ROOM is for N choices. */
static int sample(Sampler *s, const float *scores, int n, Choice *room)
{
	int best = 0, m = 0;
	float sum = 0, left;

	for (int i = 1; i < n; i++)
		best = scores[i] > scores[best] ? i : best;
	if (s->temperature <= 0)
		return best;
	if (s->top_k > 0 && s->top_k < n) {
		for (; m < s->top_k; m++)
			room[m] = (Choice){-INFINITY, -1};
		for (int i = 0; i < n; i++)
			if (scores[i] > room[0].p)
				sample_replace(room, m, (Choice){scores[i], i});
	} else {
		for (; m < n; m++)
			room[m] = (Choice){scores[m], m};
	}
	for (int i = 0; i < m; i++)
		sum += room[i].p = expf((room[i].p - scores[best]) / s->temperature);
	if (s->top_p < 1) {
		m = sample_best(room, m, s->top_p * sum);
		sum = 0;
		for (int i = 0; i < m; i++)
			sum += room[i].p;
	}
	left = sample_random(s) * sum;
	for (int i = 0; i < m; i++)
		if ((left -= room[i].p) < 0)
			return room[i].token;
	return best;
}

#endif
