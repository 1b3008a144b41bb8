/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/dlrun/unordered.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An element of a line: its value, as a float or as an integer, and its place in the line. */
typedef struct LineKey {
	double real;
	int64_t whole;
	int64_t place;
} LineKey;

static int sign(bool less, bool greater)
{
	return less ? -1 : greater;
}

static int by_value(const void *pa, const void *pb)
{
	const LineKey *a = pa, *b = pb;

	if (isnan(a->real) || isnan(b->real))
		return sign(isnan(b->real) && !isnan(a->real), isnan(a->real) && !isnan(b->real));
	if (a->real != b->real)
		return sign(a->real < b->real, true);
	return sign(a->whole < b->whole, a->whole > b->whole);
}

/* The lines along a dim: COUNT of them, of N elements at a distance of STEP. */
typedef struct Lines {
	int64_t n, step, count;
} Lines;

static Lines lines_of(const Array *v, int dim)
{
	Lines l = {v->dims[dim], 1, 1};

	for (int d = 0; d < v->rank; d++) {
		l.step *= d > dim ? v->dims[d] : 1;
		l.count *= d != dim ? v->dims[d] : 1;
	}
	return l;
}

/* The number of the first element of line I. */
static int64_t first_of(Lines l, int64_t i)
{
	return i / l.step * l.n * l.step + i % l.step;
}

/* Puts the elements of V in the line of L that begins at FIRST into KEY, sorted. */
static void sort_line(const Array *v, Lines l, int64_t first, LineKey *key)
{
	for (int64_t j = 0; j < l.n; j++) {
		const int64_t at = first + j * l.step;

		key[j] = (LineKey){dtype_load_f64(v->dtype, v->data, at),
			       dtype_is_float(v->dtype) ? 0 : dtype_load_i64(v->dtype, v->data, at),
			       j};
	}
	qsort(key, (size_t)l.n, sizeof *key, by_value);
}

Array unordered_values(Arena *a, const Array *v, int dim)
{
	const Lines l = lines_of(v, dim);
	const size_t bytes = (size_t)dtype_bytes(v->dtype);
	Array to = array_copy(a, v);
	LineKey *key = NEW_ARRAY(a, l.n + 1, LineKey);

	for (int64_t i = 0; i < l.count && array_count(v); i++) {
		const int64_t first = first_of(l, i);

		sort_line(v, l, first, key);
		for (int64_t j = 0; j < l.n; j++)
			memcpy((char *)to.data + (size_t)(first + j * l.step) * bytes,
			       (const char *)v->data + (size_t)(first + key[j].place * l.step) * bytes,
			       bytes);
	}
	return to;
}

static int by_number(const void *pa, const void *pb)
{
	const int64_t *a = pa, *b = pb;

	return sign(*a < *b, *a > *b);
}

/* The elements of V at the places of KEY. */
static void numbers_at(const Array *v, Lines l, int64_t first, const LineKey *key, int64_t *out)
{
	for (int64_t j = 0; j < l.n; j++)
		out[j] = dtype_load_i64(v->dtype, v->data, first + key[j].place * l.step);
}

/* Elements I and I + 1 of KEY are of one group. */
static bool is_tied(const LineKey *key, int64_t i, double tie)
{
	const LineKey *a = &key[i], *b = &key[i + 1];

	return !by_value(a, b) || (tie > 0 && fabs(a->real - b->real) <= tie);
}

static void put_line(Array *to, Lines l, int64_t first, const int64_t *number)
{
	for (int64_t j = 0; j < l.n; j++)
		dtype_store_i64(to->dtype, to->data, first + j * l.step, number[j]);
}

void unordered_indices(Arena *a, Array *got, Array *want, int dim, const Array *got_by,
		       const Array *want_by, double tie)
{
	const Lines l = lines_of(want, dim);
	const Array old_got = *got, old_want = *want;
	LineKey *got_key = NEW_ARRAY(a, l.n + 1, LineKey), *want_key = NEW_ARRAY(a, l.n + 1, LineKey);
	int64_t *new_got = NEW_ARRAY(a, l.n + 1, int64_t),
		*new_want = NEW_ARRAY(a, l.n + 1, int64_t);

	*got = array_copy(a, got);
	*want = array_copy(a, want);
	for (int64_t i = 0; i < l.count && array_count(want); i++) {
		const int64_t first = first_of(l, i);

		sort_line(got_by, l, first, got_key);
		sort_line(want_by, l, first, want_key);
		numbers_at(&old_got, l, first, got_key, new_got);
		numbers_at(&old_want, l, first, want_key, new_want);
		for (int64_t begin = 0, end; begin < l.n; begin = end) {
			for (end = begin + 1; end < l.n && is_tied(want_key, end - 1, tie);)
				end++;
			qsort(new_got + begin, (size_t)(end - begin), sizeof *new_got, by_number);
			qsort(new_want + begin, (size_t)(end - begin), sizeof *new_want,
			      by_number);
		}
		put_line(got, l, first, new_got);
		put_line(want, l, first, new_want);
	}
}
