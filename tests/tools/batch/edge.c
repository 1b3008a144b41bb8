/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tools/batch/edge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool edge_is(const char *dir)
{
	size_t n = strlen(dir);

	return n > 3 && !strcmp(dir + n - 3, ".dl");
}

Graph *edge_graph(Arena *a, Diag *d, const char *text)
{
	return graph_parse(ctx_new(d), a, text, "edge");
}

/* The rest of the K-th line that begins with WORD; null if there are fewer. */
static const char *line_of(Arena *a, const char *text, const char *word, int k)
{
	for (; text && *text == ';'; text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL)
		if (!strncmp(text + 2, word, strlen(word)) && k-- == 0)
			return arena_strndup(a, text + 2 + strlen(word),
					     strcspn(text + 2 + strlen(word), "\n"));
	return NULL;
}

bool edge_is_close(const char *text)
{
	Arena *a = arena_new();
	bool close = line_of(a, text, "close", 0) != NULL;

	arena_free(a);
	return close;
}

int edge_count(const char *text)
{
	Arena *a = arena_new();
	int n = 0;

	while (line_of(a, text, "sizes", n))
		n++;
	arena_free(a);
	return n ? n : 1;
}

/* The text after NAME= in LINE; null if it is not there. */
static const char *value_in(const char *line, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = line; p; p = strchr(p + 1, ' '))
		if (*p == ' ' && !strncmp(p + 1, name, n) && p[1 + n] == '=')
			return p + n + 2;
	return NULL;
}

/* ---- Values ---- */

static uint64_t next_random(uint64_t *s)
{
	uint64_t z = *s += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void put(Array *v, int64_t i, double d)
{
	if (dtype_is_float(v->dtype))
		dtype_store_f64(v->dtype, v->data, i, d);
	else
		dtype_store_i64(v->dtype, v->data, i, (int64_t)d);
}

static double one_of(uint64_t r, const char *kind, bool is_signed)
{
	if (!strcmp(kind, "hot"))
		return r % 3 ? 0 : -INFINITY;
	if (!strcmp(kind, "floats"))
		return (double)(int64_t)r * 0x1p-63;
	if (!strcmp(kind, "signs"))
		return r % 16 == 0 ? 2 : is_signed && r % 2 ? -1 : 1;
	return (double)(r % 5) - (is_signed ? 2 : 0);
}

static void small(Array *v, const char *kind, uint64_t *seed)
{
	bool is_signed = dtype_is_float(v->dtype) || dtype_is_signed(v->dtype);
	int64_t row = v->rank ? v->dims[v->rank - 1] : 1;
	double last = 0;

	for (int64_t i = 0; i < array_count(v); i++) {
		double d = v->dtype == DT_BOOL ? (double)(next_random(seed) & 1)
					       : one_of(next_random(seed), kind, is_signed);

		if (!strcmp(kind, "pairs"))
			d = i % row % 2 ? -last : i % row + 1 == row ? 0 : d;
		put(v, i, d);
		last = d;
	}
}

/* clang-format off */
static const double special_floats[] = {
	0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, -1.5, 2, -2, 2.5, -2.5, 3, -3, INFINITY, -INFINITY, NAN, 1e-3, 10, -10,
	0x1p-1074, -0x1p-1074, 0x1p-1022, 0x1p-149, -0x1p-149, 0x1p-126, 0x1.fffffcp-127, 0x1p-24, 0x1p-14, 0x1p-133,
	0x1.fffffffffffffp1023, -0x1.fffffffffffffp1023, 0x1.fffffep127, -0x1.fffffep127, 65504, 65520, -65504, 448, 464, 57344,
	127, 127.5, -128, -128.5, 255, 255.5, 256, 32767.5, 65535.5, 0x1p23, 0x1.000002p23, 8388607.5, 0x1p31, -0x1p31,
	2147483520, 0x1p32, 0x1p52, 4503599627370495.5, 0x1p63, -0x1p63, 0x1p64, 88.7, -103.9, 709.7, -745, 3.141592653589793
};
static const int64_t special_ints[] = {
	0, 1, -1, 2, -2, 3, -3, 7, -7, 8, 10, 15, 16, 31, 32, 33, 63, 64, 65, 100, -100, 127, 128, -127, -128, -129, 255,
	256, 257, 32767, 32768, -32768, -32769, 65535, 65536, 16777216, 16777217, INT32_MAX, INT32_MIN, INT32_MIN + 1,
	INT64_C(2147483648), INT64_C(4294967295), INT64_C(4294967296), INT64_C(9007199254740993), INT64_MAX, INT64_MIN, INT64_MIN + 1
};
/* clang-format on */
enum {
	FLOATS = sizeof special_floats / sizeof *special_floats,
	INTS = sizeof special_ints / sizeof *special_ints
};

static void special(Array *v, uint64_t *seed)
{
	int64_t n = array_count(v);
	bool f = dtype_is_float(v->dtype);

	for (int64_t i = 0; i < n; i++) {
		uint64_t r = next_random(seed);

		if (v->dtype == DT_BOOL)
			put(v, i, (double)(r & 1));
		else if (f && i < FLOATS)
			put(v, i, special_floats[i]);
		else if (!f)
			dtype_store_i64(v->dtype, v->data, i,
					i < INTS ? special_ints[i] : (int64_t)r);
		else if (dtype_info[v->dtype].bits == 64)
			((uint64_t *)v->data)[i] = r;
		else if (dtype_info[v->dtype].bits == 32)
			((uint32_t *)v->data)[i] = (uint32_t)r;
		else if (dtype_info[v->dtype].bits == 16)
			((uint16_t *)v->data)[i] = (uint16_t)r;
		else if (dtype_info[v->dtype].bits == 8)
			((uint8_t *)v->data)[i] = (uint8_t)r;
		else
			put(v, i, (double)(r % 64) / 8 - 4);
	}
}

static void spots(Array *v, uint64_t *seed)
{
	int64_t n = array_count(v), one = n / (v->rank && v->dims[0] ? v->dims[0] : 1);

	small(v, "ints", seed);
	for (int64_t i = 0; i < n; i++) {
		uint64_t r = next_random(seed) % 128;

		if (i / one % 2 == 0 && r < 3)
			put(v, i, r == 0 ? NAN : r == 1 ? INFINITY : -INFINITY);
	}
}

static void fill(Array *v, const char *kind, uint64_t seed)
{
	if (!strcmp(kind, "special"))
		special(v, &seed);
	else if (!strcmp(kind, "spots"))
		spots(v, &seed);
	else
		small(v, kind, &seed);
}

/* ---- Inputs ---- */

bool edge_inputs(Arena *a, Diag *d, const char *text, const Graph *g, int k, Array *in)
{
	const char *sizes = line_of(a, text, "sizes", k), *data = line_of(a, text, "data", 0);
	int64_t *sym = NEW_ARRAY(a, sym_count(g->ctx) + 1, int64_t);

	for (int i = 0; i < sym_count(g->ctx); i++) {
		const char *v = value_in(sizes, sym_at(g->ctx, i)->name);

		sym[i] = v ? strtoll(v, NULL, 10) : -1;
	}
	for (int i = 0; i < g->inputs.n; i++) {
		const Value *x = g->inputs.at[i];
		const char *kind = value_in(data, x->name ? x->name : "");
		Array *v = &in[i];

		*v = array_make(x->name ? x->name : "", x->type->dtype, x->type->rank,
				NEW_ARRAY(a, x->type->rank + 1, int64_t), NULL);
		for (int j = 0; j < v->rank; j++)
			if (!dim_eval(x->type->dims[j], sym, &v->dims[j]) || v->dims[j] < 0) {
				diag_error(d, (DiagLoc){.file = "edge"},
					   "no size for dim %d of input %s", j, v->name);
				return false;
			}
		v->data = arena_alloc(a, (size_t)dtype_size(v->dtype, array_count(v)) + 16);
		fill(v, kind ? arena_strndup(a, kind, strcspn(kind, " ")) : "ints",
		     (uint64_t)k * 100 + (uint64_t)i);
	}
	return true;
}
