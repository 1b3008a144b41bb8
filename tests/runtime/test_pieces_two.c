/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of the model of pieces_two.dl, which has two independent symbols, in pieces along either;
 * and pieces whose memory overlaps. test_pieces_two LIBRARY; prints "N passed, N failed".
 */
#include "runtime/dlrt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { X, T, INPUTS, Y = 0, Z, U, OUTPUTS, REQUESTS = 2, ROOM = 32 };

static const dl_api *api;
static int passed, failed;

static void check(int ok, const char *what, const char *more)
{
	if (!ok)
		printf("FAIL: pieces_two: %s: %s\n", what, more);
	ok ? passed++ : failed++;
}

/* A run for two requests. IN[X] and the outputs are in pieces; IN[T] is not. */
typedef struct Joint {
	dl_context *c;
	dl_tensor in[INPUTS], out[OUTPUTS], x[REQUESTS], t[REQUESTS], cut[OUTPUTS][REQUESTS];
	int64_t x_shape[REQUESTS][2], t_shape[REQUESTS][1], shape[OUTPUTS][REQUESTS][2];
	float x_data[REQUESTS][ROOM], t_data[ROOM], data[OUTPUTS][REQUESTS][ROOM];
} Joint;

static dl_tensor pieces(dl_tensor *items)
{
	dl_tensor t = dl_tensor_of(0, 0, NULL, NULL, 0);

	t.form = DL_PIECES;
	t.items = items;
	t.n_items = REQUESTS;
	return t;
}

/* Requests with x of f32[n0,s0] and f32[n1,s1]; t has the elements of the first along S. */
static void prepare(Joint *j, dl_context *c, const int64_t n[REQUESTS], const int64_t s[REQUESTS])
{
	memset(j, 0, sizeof(*j));
	j->c = c;
	for (int r = 0; r < REQUESTS; r++) {
		j->x_shape[r][0] = n[r];
		j->x_shape[r][1] = s[r];
		j->t_shape[r][0] = s[r];
		for (int i = 0; i < n[r] * s[r]; i++)
			j->x_data[r][i] = (float)(10 * r + i);
		j->x[r] = dl_tensor_of(DL_F32, 2, j->x_shape[r], j->x_data[r], 0);
		j->t[r] = dl_tensor_of(DL_F32, 1, j->t_shape[r], j->t_data, 0);
		for (int o = 0; o < OUTPUTS; o++)
			j->cut[o][r] = dl_tensor_of(0, o == U ? 1 : 2, j->shape[o][r],
						    j->data[o][r], sizeof(j->data[o][r]));
	}
	j->in[X] = pieces(j->x);
	j->in[T] = j->t[0];
	j->out[Y] = pieces(j->cut[Y]);
	j->out[Z] = pieces(j->cut[Z]);
	j->out[U] = j->cut[U][0];
}

static int run(Joint *j)
{
	return api->run(j->c, j->in, INPUTS, j->out, OUTPUTS, NULL);
}

/* Whether each request got its own x and its transpose. */
static int is_right(const Joint *j)
{
	for (int r = 0; r < REQUESTS; r++) {
		const int64_t n = j->x_shape[r][0], s = j->x_shape[r][1];
		const dl_tensor *y = &j->cut[Y][r], *z = &j->cut[Z][r];

		if (y->shape[0] != s || y->shape[1] != n || z->shape[0] != n || z->shape[1] != s)
			return 0;
		for (int64_t a = 0; a < n; a++)
			for (int64_t b = 0; b < s; b++)
				if (((float *)y->data)[b * n + a] != j->x_data[r][a * s + b] ||
				    ((float *)z->data)[a * s + b] != j->x_data[r][a * s + b])
					return 0;
	}
	return 1;
}

#define SIZES(a, b) ((const int64_t[]){a, b})

static void either_symbol(dl_context *c)
{
	Joint j;

	prepare(&j, c, SIZES(2, 3), SIZES(1, 1));
	check(!run(&j) && is_right(&j), "along N", api->error(c));
	prepare(&j, c, SIZES(2, 2), SIZES(2, 2));
	check(!run(&j) && is_right(&j), "along N, pieces of the same shape", api->error(c));
	prepare(&j, c, SIZES(2, 2), SIZES(1, 3));
	j.in[T] = pieces(j.t);
	j.out[U] = pieces(j.cut[U]);
	check(!run(&j) && is_right(&j) && j.shape[U][0][0] == 1 && j.shape[U][1][0] == 3, "along S",
	      api->error(c));
}

/* Changes a run for two requests whose pieces lie along N, which then gives STATUS and a text with
 * WORDS. */
#define RUN(status, words, change)                                                          \
	do {                                                                                \
		Joint j;                                                                    \
                                                                                            \
		prepare(&j, c, SIZES(2, 3), SIZES(2, 2));                                   \
		change;                                                                     \
		const int got = run(&j);                                                    \
		check(got == status && strstr(api->error(c), words), words, api->error(c)); \
	} while (0)

static void other_symbol(dl_context *c)
{
	RUN(DL_INVALID, "input \"t\" in pieces: it has no dim \"N\", along which",
	    j.in[T] = pieces(j.t));
	RUN(DL_INVALID, "output \"u\" in pieces: it has no dim \"N\", along which",
	    j.out[U] = pieces(j.cut[U]));
	RUN(DL_SHAPE, "piece 1: dim 1 is 1, and of piece 0 it is 2", j.x_shape[1][1] = 1);
}

static void overlapping(dl_context *c)
{
	RUN(DL_INVALID, "output \"z\": piece 0 overlaps output \"y\": piece 0",
	    j.cut[Z][0].data = j.cut[Y][0].data);
	RUN(DL_INVALID, "output \"y\": piece 1 overlaps output \"y\": piece 0",
	    j.cut[Y][1].data = j.data[Y][0] + 3);
	RUN(DL_OK, "", j.cut[Y][1].data = j.data[Y][0] + 4);
	RUN(DL_INVALID, "output \"y\": piece 0 overlaps input \"x\": piece 1",
	    j.cut[Y][0].data = j.x_data[1] + 5);
	RUN(DL_OK, "", j.cut[Y][0].data = j.x_data[1] + 6);
	RUN(DL_INVALID, "output \"y\": piece 1 overlaps input \"t\"",
	    j.cut[Y][1].data = j.t_data + 1);
	RUN(DL_INVALID, "output \"u\" overlaps input \"x\": piece 1",
	    j.out[U].data = j.x_data[1] + 5);
	RUN(DL_INVALID, "output \"y\": piece 0 overlaps output \"u\"",
	    j.cut[Y][0].data = j.data[U][0] + 1);
	RUN(DL_OK, "", j.x[1].data = j.x[0].data);
	/* the context's memory, of a run before */
	RUN(DL_INVALID, "piece 1: it lies in the context's memory", {
		prepare(&j, c, SIZES(3, 2), SIZES(2, 2));
		j.cut[Z][0].data = j.cut[Z][1].data = NULL;
		check(!run(&j) && is_right(&j) && !run(&j) && is_right(&j), "the same memory",
		      api->error(c));
		j.x_shape[0][0] = 2;
	});
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	dl_get_api_fn get = library ? (dl_get_api_fn)(uintptr_t)dlsym(library, "pieces_two_get_api")
				    : NULL;
	dl_model *model;
	dl_context *c;

	if (!get) {
		printf("usage: test_pieces_two LIBRARY: %s\n", dlerror());
		return 1;
	}
	api = get(DL_ABI_VERSION);
	if (api->load(NULL, &model) || api->context(model, NULL, &c)) {
		printf("%s\n", api->error(NULL));
		return 1;
	}
	either_symbol(c);
	other_symbol(c);
	overlapping(c);
	either_symbol(c); /* the context stays usable */
	api->context_free(c);
	check(!api->unload(model), "unload", "");
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
