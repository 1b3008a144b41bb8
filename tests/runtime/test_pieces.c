/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of the model of pieces.dl for several requests at once, whose tensors are in pieces, beside
 * a run for each; and pieces that do not fit together. test_pieces LIBRARY; prints "N passed, N
 * failed".
 */
#include "runtime/dlrt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 4, OUTPUTS = 4, MAX_PIECES = 5, ROWS = 8 };

static const dl_api *api;
static dl_model *model;
static int passed, failed;

static void check(int ok, const char *what, const char *more)
{
	if (!ok)
		printf("FAIL: pieces: %s: %s\n", what, more);
	ok ? passed++ : failed++;
}

/* The tensors of a request of N elements. */
typedef struct Request {
	int64_t n, shape[INPUTS][3], out_shape[OUTPUTS][3];
	float x[ROWS * 6], y[ROWS * 6], w[3], v[3];
	int64_t t[2 * ROWS], u[2 * ROWS];
	dl_str s[ROWS], r[ROWS];
	char text[ROWS][8];
} Request;

static void fill(Request *q, int64_t n, int from)
{
	memset(q, 0, sizeof(*q));
	q->n = n;
	for (int i = 0; i < n * 6; i++)
		q->x[i] = (float)(from + i) - 10;
	for (int i = 0; i < 2 * n; i++)
		q->t[i] = from * 100 + i;
	for (int i = 0; i < n; i++) {
		snprintf(q->text[i], sizeof(q->text[i]), "%d.%d", from, i);
		q->s[i] = (dl_str){q->text[i], strlen(q->text[i])};
	}
	for (int i = 0; i < 3; i++)
		q->w[i] = (float)i;
	memcpy(q->shape, (int64_t[INPUTS][3]){{n, 2, 3}, {2, n}, {3}, {n}}, sizeof(q->shape));
}

static dl_tensor input(Request *q, int i)
{
	static const int type[INPUTS] = {DL_F32, DL_I64, DL_F32, DL_STR},
			 rank[INPUTS] = {3, 2, 1, 1};
	void *const data[INPUTS] = {q->x, q->t, q->w, q->s};

	return dl_tensor_of(type[i], rank[i], q->shape[i], data[i], 0);
}

static dl_tensor output(Request *q, int o)
{
	static const int rank[OUTPUTS] = {3, 2, 1, 1};
	void *const data[OUTPUTS] = {q->y, q->u, q->r, q->v};
	const size_t bytes[OUTPUTS] = {sizeof(q->y), sizeof(q->u), sizeof(q->r), sizeof(q->v)};

	return dl_tensor_of(0, rank[o], q->out_shape[o], data[o], bytes[o]);
}

/* A run of N requests in pieces; the shared tensors are those of the first. */
typedef struct Joint {
	dl_context *c;
	int n;
	Request *q;
	dl_tensor in[INPUTS], out[OUTPUTS], piece[INPUTS][MAX_PIECES], cut[OUTPUTS][MAX_PIECES];
} Joint;

static dl_tensor pieces(dl_tensor *items, int64_t n)
{
	dl_tensor t = dl_tensor_of(0, 0, NULL, NULL, 0);

	t.form = DL_PIECES;
	t.items = items;
	t.n_items = n;
	return t;
}

static void prepare(Joint *j, dl_context *c, Request *q, int n)
{
	*j = (Joint){.c = c, .n = n, .q = q};
	for (int i = 0; i < INPUTS; i++) {
		for (int r = 0; r < n; r++)
			j->piece[i][r] = input(&q[r], i);
		j->in[i] = i == 2 ? input(&q[0], i) : pieces(j->piece[i], n);
	}
	for (int o = 0; o < OUTPUTS; o++) {
		for (int r = 0; r < n; r++)
			j->cut[o][r] = output(&q[r], o);
		j->out[o] = o == 3 ? output(&q[0], o) : pieces(j->cut[o], n);
	}
}

static int run(Joint *j)
{
	return api->run(j->c, j->in, INPUTS, j->out, OUTPUTS, NULL);
}

static int same_text(dl_str a, const char *text)
{
	char twice[32];

	snprintf(twice, sizeof(twice), "%s%s", text, text);
	return a.n == strlen(twice) && !memcmp(a.p, twice, a.n);
}

/* Whether request Q has what the model computes of its own inputs. */
static int is_right(const Request *q, const dl_tensor *y, const dl_tensor *u, const dl_tensor *r)
{
	const float *fy = y->data;
	const int64_t *iu = u->data;
	const dl_str *sr = r->data;

	if (y->rank != 3 || y->shape[0] != q->n || y->shape[2] != 3 || u->rank != 2 ||
	    u->shape[0] != 2 || u->shape[1] != q->n || r->shape[0] != q->n || y->dtype != DL_F32)
		return 0;
	for (int i = 0; i < q->n * 6; i++)
		if (fy[i] != (q->x[i] > 0 ? q->x[i] : 0) + (float)(i % 3))
			return 0;
	for (int i = 0; i < 2 * q->n; i++)
		if (iu[i] != 2 * q->t[i])
			return 0;
	for (int i = 0; i < q->n; i++)
		if (!same_text(sr[i], q->text[i]))
			return 0;
	return 1;
}

static void joined(dl_context *c)
{
	static const int sizes[][MAX_PIECES] = {{3},    {1, 2},   {2, 1, 3}, {1, 1, 1, 1, 1},
						{0, 2}, {2, 0, 1}};

	for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		Request q[MAX_PIECES];
		Joint j;
		int n = 0, good = 1;

		for (; n < MAX_PIECES && (sizes[k][n] || (n < 2 && sizes[k][n + 1])); n++)
			fill(&q[n], sizes[k][n], 7 * n);
		prepare(&j, c, q, n);
		check(!run(&j), "a run in pieces", api->error(c));
		for (int r = 0; r < n; r++)
			good &= is_right(&q[r], &j.cut[0][r], &j.cut[1][r], &j.cut[2][r]);
		check(good && q[0].v[0] == 1 && j.out[3].rank == 1, "what each request gets", "");
	}
}

/* Strides of a piece, outputs as one tensor, and the context's memory for pieces. */
static void variants(dl_context *c)
{
	Request q[2], whole;
	const int64_t backwards[3] = {-6, 3, 1};
	int64_t shape[3];
	Joint j;

	fill(&q[0], 2, 0);
	fill(&q[1], 3, 5);
	prepare(&j, c, q, 2);
	j.piece[0][1].strides = backwards;
	j.piece[0][1].data = q[1].x + 12;
	check(!run(&j) && q[1].y[0] == 7 + 0 && q[1].y[17] == 0 + 2, "strides of a piece",
	      api->error(c));
	prepare(&j, c, q, 2);
	fill(&whole, 0, 0);
	j.out[0] = output(&whole, 0);
	check(!run(&j) && j.out[0].shape[0] == 5 && whole.y[12 + 17] == q[1].x[17] + 2,
	      "an output that is not cut", api->error(c));
	prepare(&j, c, q, 2);
	for (int r = 0; r < 2; r++)
		j.cut[0][r] = dl_tensor_of(0, 3, q[r].out_shape[0], NULL, 0);
	check(!run(&j) && is_right(&q[1], &j.cut[0][1], &j.cut[1][1], &j.cut[2][1]) &&
		      j.cut[0][1].bytes == 72,
	      "the context's memory for pieces", api->error(c));
	prepare(&j, c, q, 2);
	j.out[0] = dl_tensor_of(0, 3, shape, NULL, 0);
	check(!api->infer_shapes(c, j.in, INPUTS, j.out, 1) ||
		      !api->infer_shapes(c, j.in, INPUTS,
					 (dl_tensor[]){j.out[0], output(&whole, 1),
						       output(&whole, 2), output(&whole, 3)},
					 OUTPUTS),
	      "shapes of a run in pieces", api->error(c));
	check(shape[0] == 5, "the inferred shape", "");
}

/* Changes a joint run, which is then refused with STATUS and a text with WORDS. */
#define REFUSED(status, words, change)                                                      \
	do {                                                                                \
		Request q[2];                                                               \
		Joint j;                                                                    \
                                                                                            \
		fill(&q[0], 2, 0);                                                          \
		fill(&q[1], 3, 5);                                                          \
		prepare(&j, c, q, 2);                                                       \
		change;                                                                     \
		const int got = run(&j);                                                    \
		check(got == status && strstr(api->error(c), words), words, api->error(c)); \
	} while (0)

static void refused(dl_context *c)
{
	REFUSED(DL_INVALID, "input \"w\" in pieces: it has no dim whose elements are independent",
		j.in[2] = pieces(j.piece[2], 2));
	REFUSED(DL_INVALID, "input \"x\" in pieces: 0 pieces", j.in[0].n_items = 0);
	REFUSED(DL_INVALID, "input \"x\" in pieces: -3 pieces", j.in[0].n_items = -3);
	REFUSED(DL_INVALID, "input \"x\" in pieces: 2 pieces, or null", j.in[0].items = NULL);
	REFUSED(DL_ABI, "dl_tensor", j.piece[0][0].size = 12);
	REFUSED(DL_INVALID, "has 1 pieces, and another input 2", j.in[1].n_items = 1);
	REFUSED(DL_SHAPE, "input \"t\": piece 1: it has 2 elements, and in another input 3",
		q[1].shape[1][1] = 2);
	REFUSED(DL_SHAPE, "piece 1: dim 2 is 4, and of piece 0 it is 3", q[1].shape[0][2] = 4);
	REFUSED(DL_SHAPE, "piece 0: dim 0 is -1", q[0].shape[0][0] = -1);
	REFUSED(DL_SHAPE, "piece 1: rank is 2, expected 3", j.piece[0][1].rank = 2);
	REFUSED(DL_SHAPE, "piece 1: rank is", j.piece[0][1].shape = NULL);
	REFUSED(DL_INVALID, "piece 0: elements are i64, expected f32",
		j.piece[0][0].dtype = DL_I64);
	REFUSED(DL_INVALID, "piece 1: data is null", j.piece[1][1].data = NULL);
	REFUSED(DL_INVALID, "piece 1 is a sequence, expected a tensor",
		j.piece[0][1].form = DL_SEQUENCE);
	REFUSED(DL_INVALID, "piece 1 is a tensor in pieces, expected a tensor",
		j.piece[0][1].form = DL_PIECES);
	REFUSED(DL_INVALID, "piece 0: its memory has 40 bytes, and its shape needs 48",
		j.piece[0][0].bytes = 40);
	REFUSED(DL_SHAPE, "its shape is too large",
		q[0].shape[0][0] = q[1].shape[0][0] = INT64_MAX / 64);
	REFUSED(DL_SHAPE, "too large", q[0].shape[0][0] = INT64_MAX);
	/* outputs */
	REFUSED(DL_INVALID, "output \"y\" has 1 pieces, and the inputs 2", j.out[0].n_items = 1);
	REFUSED(DL_INVALID, "output \"v\" in pieces: it has no dim",
		j.out[3] = pieces(j.cut[3], 2));
	REFUSED(DL_CAPACITY, "piece 1: needs 72 bytes, has room for 71", j.cut[0][1].bytes = 71);
	REFUSED(DL_INVALID, "piece 1: not a tensor, or room for 2 dims; its rank is 3",
		j.cut[0][1].rank = 2);
	REFUSED(DL_INVALID, "piece 0: elements are of another type", j.cut[0][0].dtype = DL_I32);
	REFUSED(DL_UNSUPPORTED, "piece 0: data is null, and the piece is not contiguous",
		j.cut[1][0].data = NULL);
	REFUSED(DL_INVALID, "no input is in pieces", {
		for (int i = 0; i < INPUTS; i++)
			j.in[i] = input(&q[0], i);
	});
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	dl_get_api_fn get = library ? (dl_get_api_fn)(uintptr_t)dlsym(library, "pieces_get_api")
				    : NULL;
	dl_context *c;
	const dl_desc *d;

	if (!get) {
		printf("usage: test_pieces LIBRARY: %s\n", dlerror());
		return 1;
	}
	api = get(DL_ABI_VERSION);
	d = api->describe();
	check(dl_sym_flags(dl_desc_sym(d, 0)) == DL_SYM_INDEPENDENT, "the flag of the symbol", "");
	check(dl_desc_find_in(d, "w") == 2 && dl_desc_find_in(d, "y") == -1 &&
		      dl_desc_find_out(d, "r") == 2 && dl_desc_find_out(d, "") == -1,
	      "names", "");
	check(!dl_desc_metadata(d), "no metadata", "");
	if (api->load(NULL, &model) || api->context(model, NULL, &c)) {
		printf("%s\n", api->error(NULL));
		return 1;
	}
	joined(c);
	variants(c);
	refused(c);
	joined(c); /* the context stays usable */
	api->context_free(c);
	check(!api->unload(model), "unload", "");
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
