/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The largest error of each function of ir/expr/funcs.def in units of the last place, in the very C
 * that models get, with `mad` fused and in two roundings.
 *
 *     ulp [--share=N] [--jobs=N] FOLDER [NAME...]
 *
 * A task writes a record FOLDER/FUNCTION.INPUTS, a line a variant; what is there already is not run
 * again, so that an interrupted run continues. The inputs:
 *
 *     f32       one operand: every f32
 *     f32.yK    two: every f32 as the first, the K-th of 64 listed numbers as the second
 *     f32.pairs 2^32 pairs, and all pairs of edges
 *     f64       edges and 2^23 samples
 *     f16 bf16  every one, with each listed second operand; the result rounded from f32
 *
 * --share=N takes one in N of them. A quick reference (vectors of f64, or libm in 80 bits) chooses
 * the inputs whose error may be the largest, or whose value is special; MPFR says what it is.
 * tests/numerics/table.py reads the records.
 */
#include "tests/numerics/oracle.h"
#include "tests/numerics/strips.h"

#include "ir/expr/scalar.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_BAD = 100 };

static const Format f32 = {"f32", 24, -125, 128}, f64 = {"f64", 53, -1021, 1024},
		    f16 = {"f16", 11, -13, 16}, bf16 = {"bf16", 8, -125, 128};
/* How far off the quick reference may be. */
static const double slack_f32 = 0x1p-22, slack_f64 = 0x1p-6;

typedef struct Worst {
	double ulp, x, y;
	int bad;             /* special values that are wrong: so many, up to MAX_BAD */
	double bad_x, bad_y; /* the first */
} Worst;

typedef struct Task {
	const Function *f;
	const char *name, *inputs;
	const Strips *strips[VARIANTS];
	Worst worst[VARIANTS];
	uint64_t share;
} Task;

/* clang-format off */
static const double edges[] = {
	0.0, -0.0, 1, -1, 0.5, -0.5, 2, 3, 10, -2, -3, 0.25, 0.999999999999999, INFINITY, -INFINITY, NAN, 709.78, -745.1,
	88.7, -103.9, 1024, 1023, -1074, 128, -149, 0x1p-1022, 0x1p-1074, -0x1p-1074, 0x1p-126, 0x1p-149, -0x1p-149,
	0x1.fffffffffffffp1023, 0x1.fffffep127, -0x1.fffffep127, 1.5707963267948966, 3.141592653589793, 16777215, 16777216,
	-16777217, 0x1p52, 0x1.fffffffffffffp52, -0x1.fffffffffffffp52, 0x1p53, 1e300, -1e300, 1e-300, 1e30, 1e-30
};
/* Second operands: exponents that models use and roots first, whole and not, tiny and huge, and
 * what is special. */
static const double seconds[] = {
	0.5, 2, 3, -1, 2.2, -0.5, 1.5, 10, 1 / 3.0, 0.1, 4, -2, 0.75, 1.1, 5, 0.45, 1 / 2.2, 0.9, 2.5, 100, 0.25, -0.25, 7, 2.4,
	3.14159265, 0.01, -3, 8, 16, 64, -0.75, 0.2, 2 / 3.0, -1 / 3.0, 0.125, -4, -8, -1.5, 3.5, 31, 32, -33, 63, 127, 128, -149,
	255, 1000, 1e-3, -1e-3, 1e-6, 1e5, 16777215, -16777217, 1e30, 1e-30, 0x1p-149, -0x1.fffffep127,
	1, 0.0, -0.0, INFINITY, -INFINITY, NAN
};
/* clang-format on */
enum { EDGES = sizeof edges / sizeof *edges, SECONDS = sizeof seconds / sizeof *seconds };

static uint64_t next_random(uint64_t *s)
{
	uint64_t z = *s += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Any bits, a number of ordinary size, or one near an edge. */
static double random_f64(uint64_t *s)
{
	uint64_t r = next_random(s), m = next_random(s);
	double whole = (double)(int64_t)m * 0x1p-63;

	switch (r >> 8 & 7) {
	case 0: return dl_bits_u64_f64(m);
	case 1:
		return edges[m % EDGES] *
		       (1 + ((double)(r >> 40) - 0x1p23) * 0x1p-52 * (double)(r & 3));
	case 2:
	case 3: return whole * dl_bits_u64_f64((1023 + r % 12) << 52);
	default: return whole * dl_bits_u64_f64((1035 - r % 24) << 52);
	}
}

/* ---- Judging ---- */

/* Asks MPFR. */
static void note(const Task *t, Worst *w, const Format *format, double x, double y, double got)
{
	double e = w->bad < MAX_BAD ? exact_error(t->f, format, x, y, got) : 0;

	if (isinf(e) && !w->bad++) {
		w->bad_x = x;
		w->bad_y = y;
	} else if (isfinite(e) && e > w->ulp) {
		w->ulp = e;
		w->x = x;
		w->y = y;
	}
}

static double floor_of(const Worst *w, double slack)
{
	return w->ulp - slack > slack ? w->ulp - slack : slack;
}

/* Errors of f32 results from f64 references, as the bits of an f64, and the largest of them: NaN
 * and infinity where a value is special and not the same, and so need a closer look. */
static int64_t quick_errors(const float *got, const double *ref, int64_t *error)
{
	int64_t most = 0;

	for (int i = 0; i < STRIP; i++) {
		double g = got[i], a = fabs(ref[i]);
		double r = a >= 0x1.ffffffp127 ? copysign(INFINITY, ref[i]) : ref[i];
		int64_t e = dl_bits_f64_i64(a) & 0x7ffll << 52, least = dl_bits_f64_i64(0x1p-126);
		double scale = dl_bits_i64_f64(
			dl_bits_f64_i64(0x1p46) -
			((e > least ? e : least) - dl_bits_f64_i64(0x1p-23)));
		double d = fabs(g - r) * scale;
		bool same = g == r || (g != g && r != r);
		bool sign = g == 0 && (dl_bits_f64_i64(g) ^ dl_bits_f64_i64(r)) < 0;

		error[i] = sign ? INT64_MAX : same ? 0 : dl_bits_f64_i64(d) & INT64_MAX;
		most = error[i] > most ? error[i] : most;
	}
	return most;
}

/* What gives the last asked one's result for its reference is not asked after: the errors are
 * the same but for the reference's own. Else a function that is the same for all x would be
 * asked after everywhere. */
static void judge(Task *t, int v, const float *x, const float *y, const float *got,
		  const double *ref)
{
	Worst *w = &t->worst[v];
	static int64_t error[STRIP];
	int asked = -1;

	if (quick_errors(got, ref, error) <= dl_bits_f64_i64(floor_of(w, slack_f32)))
		return;
	for (int i = 0; i < STRIP; i++) {
		bool again = asked >= 0 && got[i] == got[asked] && ref[i] == ref[asked];

		if (again || error[i] <= dl_bits_f64_i64(floor_of(w, slack_f32)))
			continue;
		note(t, w, &f32, x[i], y[i], got[i]);
		asked = i;
	}
}

static bool same_bits(float a, float b)
{
	return (a != a && b != b) || dl_bits_f32_i32(a) == dl_bits_f32_i32(b);
}

/* One strip of each variant against one reference; GOT: what they gave. */
static void strip_f32(Task *t, const float *x, const float *y, float (*got)[STRIP])
{
	static double ref[STRIP];

	ref_strip(t->name, x, y, ref);
	for (int v = 0; v < VARIANTS; v++) {
		t->strips[v]->f32(x, y, got[v]);
		judge(t, v, x, y, got[v], ref);
	}
}

/* ---- Inputs ---- */

static float x32[STRIP], y32[STRIP], out32[VARIANTS][STRIP];

/* Ordinary values and edges first: they raise the bar, so that few of the others are asked
 * after. */
static void warm_up(Task *t, const float *second)
{
	uint64_t seed = 1;

	for (int k = 0; k < 4; k++) {
		for (int i = 0; i < STRIP; i++) {
			x32[i] = (float)(k == 0 && i < EDGES ? edges[i] : random_f64(&seed));
			y32[i] = second ? *second : 0;
		}
		strip_f32(t, x32, y32, out32);
	}
}

static void all_f32(Task *t)
{
	memset(y32, 0, sizeof y32);
	warm_up(t, NULL);
	for (uint64_t base = 0; base < 1ull << 32; base += STRIP * t->share) {
		for (uint64_t i = 0; i < STRIP; i++)
			x32[i] = dl_bits_u32_f32((uint32_t)(base + i * t->share));
		strip_f32(t, x32, y32, out32);
	}
}

/* F such that f(-x, y) = F f(x, y), but for some special values. */
static float mirror_of(const Task *t, float y)
{
	bool whole = rintf(y) == y, odd = whole && rintf(y / 2) != y / 2;

	return strcmp(t->name, "pow") || odd ? -1 : whole ? 1 : NAN;
}

/* The first operand: half of all f32 against the reference, the other half against that one. */
static void all_with_second(Task *t, float y)
{
	static float neg[STRIP], got[STRIP];
	float mirror = mirror_of(t, y);

	warm_up(t, &y);
	for (uint64_t base = 0; base < 1ull << 31; base += STRIP * t->share) {
		for (uint64_t i = 0; i < STRIP; i++) {
			x32[i] = dl_bits_u32_f32((uint32_t)(base + i * t->share) & INT32_MAX);
			neg[i] = -x32[i];
		}
		strip_f32(t, x32, y32, out32);
		for (int v = 0; v < VARIANTS; v++) {
			int other = 0;

			t->strips[v]->f32(neg, y32, got);
			for (int i = 0; i < STRIP; i++)
				other += !same_bits(mirror * out32[v][i], got[i]);
			for (int i = 0; i < STRIP && other; i++)
				if (!same_bits(mirror * out32[v][i], got[i]))
					note(t, &t->worst[v], &f32, neg[i], y, got[i]);
		}
	}
}

static void pairs_f32(Task *t)
{
	uint64_t seed = 2, n = EDGES * EDGES + (1ull << 32) / t->share;

	for (uint64_t at = 0; at < n; at += STRIP) {
		for (uint64_t i = 0; i < STRIP; i++) {
			bool edge = at + i < EDGES * EDGES;

			x32[i] = (float)(edge ? edges[(at + i) / EDGES] : random_f64(&seed));
			y32[i] = (float)(edge ? edges[(at + i) % EDGES] : random_f64(&seed));
		}
		strip_f32(t, x32, y32, out32);
	}
}

static void samples_f64(Task *t)
{
	static double x[STRIP], y[STRIP], got[STRIP];
	uint64_t seed = 3, n = EDGES * EDGES + (1ull << 23) / t->share;

	for (uint64_t at = 0; at < n; at += STRIP) {
		for (uint64_t i = 0; i < STRIP; i++) {
			bool edge = at + i < EDGES * EDGES;

			x[i] = edge ? edges[(at + i) / EDGES] : random_f64(&seed);
			y[i] = edge ? edges[(at + i) % EDGES] : random_f64(&seed);
		}
		for (int v = 0; v < VARIANTS; v++) {
			t->strips[v]->f64(x, y, got);
			for (int i = 0; i < STRIP; i++)
				if (!(rough_error(t->f, &f64, x[i], y[i], got[i]) <=
				      floor_of(&t->worst[v], slack_f64)))
					note(t, &t->worst[v], &f64, x[i], y[i], got[i]);
		}
	}
}

static void all_half(Task *t, const Format *h)
{
	bool wide = h == &bf16;
	uint32_t step = t->share > 16 ? 16 : 1;

	for (int k = 0; k < (t->strips[0]->operands == 2 ? SECONDS : 1); k++) {
		float y = (float)seconds[k];

		y = wide ? dl_round_bf16(y) : dl_round_f16(y);
		for (uint32_t base = 0; base < 1u << 16; base += STRIP * step) {
			for (uint32_t i = 0; i < STRIP; i++) {
				uint32_t bits = base + i * step;

				x32[i] = wide ? dl_decode_bf16(bits) : dl_decode_f16(bits);
				y32[i] = y;
			}
			for (int v = 0; v < VARIANTS; v++) {
				t->strips[v]->f32(x32, y32, out32[v]);
				for (int i = 0; i < STRIP; i++) {
					float g = wide ? dl_round_bf16(out32[v][i])
						       : dl_round_f16(out32[v][i]);

					if (!(rough_error(t->f, h, x32[i], y, g) <=
					      floor_of(&t->worst[v], slack_f32)))
						note(t, &t->worst[v], h, x32[i], y, g);
				}
			}
		}
	}
}

/* ---- Tasks ---- */

static void run(Task *t)
{
	if (!strcmp(t->inputs, "f32"))
		all_f32(t);
	else if (!strcmp(t->inputs, "f32.pairs"))
		pairs_f32(t);
	else if (!strncmp(t->inputs, "f32.y", 5))
		all_with_second(t, (float)seconds[atoi(t->inputs + 5)]);
	else if (!strcmp(t->inputs, "f64"))
		samples_f64(t);
	else
		all_half(t, strcmp(t->inputs, "f16") ? &bf16 : &f16);
}

/* Whole or not at all. */
static void record(const Task *t, const char *path)
{
	static const char *const variant[VARIANTS] = {"fused", "rounded"};
	char temp[4096 + 8];
	FILE *f;

	snprintf(temp, sizeof temp, "%s.tmp", path);
	f = fopen(temp, "w");
	if (!f)
		return perror(temp);
	for (int v = 0; v < VARIANTS; v++) {
		const Worst *w = &t->worst[v];

		fprintf(f, "%s %s %s share %llu ulp %.6f at %a %a wrong %d at %a %a\n", t->name,
			t->inputs, variant[v], (unsigned long long)t->share, w->ulp, w->x, w->y,
			w->bad, w->bad_x, w->bad_y);
	}
	fclose(f);
	rename(temp, path);
}

static void attempt(Task t, const char *folder)
{
	char path[4096];

	snprintf(path, sizeof path, "%s/%s.%s", folder, t.name, t.inputs);
	if (access(path, F_OK)) {
		run(&t);
		record(&t, path);
	}
}

static bool chosen(char **names, const char *name)
{
	bool any = *names;

	for (; *names; names++)
		if (!strcmp(*names, name))
			return true;
	return !any;
}

/* The K-th task of a function: the short ones first. Null past the last. */
static const char *inputs_of(int operands, int k, char *row, size_t size)
{
	static const char *const unary[] = {"f32", "f64", "f16", "bf16"}, *const binary[] = {
										  "f32.pairs",
										  "f64", "f16",
										  "bf16"};

	if (k < 4)
		return operands == 2 ? binary[k] : unary[k];
	if (operands == 1 || k >= 4 + SECONDS)
		return NULL;
	snprintf(row, size, "f32.y%d", k - 4);
	return row;
}

/* Those tasks whose turn *NEXT says it is. */
static void work(const char *folder, char **names, uint64_t share, int *next)
{
	int turn = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED), at = 0;

	for (int k = 0; k < 4 + SECONDS; k++)
		for (int i = 0; strips_fused[i].name; i++) {
			Task t = {.name = strips_fused[i].name,
				  .strips = {&strips_fused[i], &strips_rounded[i]},
				  .share = share};
			char row[16];

			t.inputs = inputs_of(t.strips[0]->operands, k, row, sizeof row);
			if (!t.inputs || !chosen(names, t.name) || at++ != turn)
				continue;
			t.f = function_find(t.name);
			if (!t.f) {
				fprintf(stderr, "%s has no row in tests/numerics/oracle.c\n", t.name);
				_exit(1);
			}
			attempt(t, folder);
			turn = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED);
		}
}

int main(int argc, char **argv)
{
	int *next = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t share = 1;
	int jobs = 1, status = 0, ended;

	for (; argc > 1 && !strncmp(argv[1], "--", 2); argc--, argv++)
		if (!strncmp(argv[1], "--share=", 8))
			share = strtoull(argv[1] + 8, NULL, 10);
		else if (!strncmp(argv[1], "--jobs=", 7))
			jobs = atoi(argv[1] + 7);
	if (argc < 2 || next == MAP_FAILED || !share || jobs < 1)
		return fputs("usage: ulp [--share=N] [--jobs=N] FOLDER [NAME...]\n", stderr), 2;
	for (int j = 0; j < jobs; j++)
		if (fork() == 0) {
			work(argv[1], argv + 2, share, next);
			_exit(0);
		}
	while (wait(&ended) > 0)
		status |= ended;
	return status != 0;
}
