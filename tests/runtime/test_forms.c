/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callers that pass sequences, optionals and maps, and callers that pass them wrongly, to the model
 * of forms.dl, which gives back what it takes. test_forms LIBRARY; prints "N passed, N failed".
 */
#include "runtime/dlrt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 5, ITEMS = 64 };

static const dl_api *api;
static dl_model *model;
static int passed, failed;

static void check(int ok, const char *what, const char *more)
{
	if (!ok)
		printf("FAIL: forms: %s: %s\n", what, more);
	ok ? passed++ : failed++;
}

/* What a caller passes; a test changes some of it. */
typedef struct Call {
	dl_context *c;
	dl_tensor in[INPUTS], out[INPUTS];
	dl_tensor s[ITEMS], w[2], inner, q[1], m[2];
	int64_t s_shape[ITEMS][2], w_shape[2], q_shape, m_shape, x_shape, y_shape;
	float data[ITEMS], values[2], x[3];
	int64_t q_data[2];
	dl_str words[3], keys[2];
} Call;

static dl_tensor list(int32_t form, dl_tensor *items, int64_t n)
{
	dl_tensor t = dl_tensor_of(0, 0, NULL, NULL, 0);

	t.form = form;
	t.items = items;
	t.n_items = n;
	return t;
}

/* N matrices of 1 x (i % 3) elements; two vectors of strings, one of them empty; an optional
 * sequence of one vector; a map. */
static void fill(Call *k, int64_t n)
{
	static const char *const word[] = {"a", "", "long enough to be on the heap"};

	for (int64_t i = 0; i < n; i++) {
		k->s_shape[i][0] = 1;
		k->s_shape[i][1] = i % 3;
		k->data[i] = (float)i;
		k->s[i] = dl_tensor_of(DL_F32, 2, k->s_shape[i], k->data, 0);
	}
	for (int i = 0; i < 3; i++)
		k->words[i] = (dl_str){word[i], strlen(word[i])};
	k->keys[0] = k->words[2];
	k->keys[1] = k->words[0];
	k->w_shape[0] = 3;
	k->w_shape[1] = 0;
	k->w[0] = dl_tensor_of(DL_STR, 1, &k->w_shape[0], k->words, 0);
	k->w[1] = dl_tensor_of(DL_STR, 1, &k->w_shape[1], NULL, 0);
	k->q_shape = 2;
	k->q_data[0] = 7;
	k->q[0] = dl_tensor_of(DL_I64, 1, &k->q_shape, k->q_data, 0);
	k->inner = list(DL_SEQUENCE, k->q, 1);
	k->m_shape = 2;
	k->values[0] = 1.5f;
	k->m[0] = dl_tensor_of(DL_STR, 1, &k->m_shape, k->keys, 0);
	k->m[1] = dl_tensor_of(DL_F32, 1, &k->m_shape, k->values, 0);
	k->x_shape = 3;
	k->in[0] = list(DL_SEQUENCE, k->s, n);
	k->in[1] = list(DL_SEQUENCE, k->w, 2);
	k->in[2] = list(DL_OPTIONAL, &k->inner, 1);
	k->in[3] = list(DL_MAP, k->m, 2);
	k->in[4] = dl_tensor_of(DL_F32, 1, &k->x_shape, k->x, 0);
	for (int i = 0; i < INPUTS; i++)
		k->out[i] = list(k->in[i].form, NULL, 0);
	k->out[4] = dl_tensor_of(0, 1, &k->y_shape, NULL, 0);
}

static int run(Call *k)
{
	return api->run(k->c, k->in, INPUTS, k->out, INPUTS, NULL);
}

static int same_string(dl_str a, dl_str b)
{
	return a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n));
}

/* Whether the outputs are what fill() made of N. */
static int is_same(const Call *k, int64_t n)
{
	const dl_tensor *s = k->out[0].items, *w = k->out[1].items, *q = k->out[2].items,
			*m = k->out[3].items;

	if (k->out[0].n_items != n || k->out[1].n_items != 2 || k->out[2].n_items != 1 ||
	    q[0].form != DL_SEQUENCE || q[0].n_items != 1 || k->out[3].n_items != 2)
		return 0;
	for (int64_t i = 0; i < n; i++)
		if (s[i].rank != 2 || s[i].shape[0] != 1 || s[i].shape[1] != i % 3 ||
		    (i % 3 && memcmp(s[i].data, k->data, (size_t)(i % 3) * sizeof(float)) != 0))
			return 0;
	for (int i = 0; i < 3; i++)
		if (!same_string(((dl_str *)w[0].data)[i], k->words[i]))
			return 0;
	return w[0].shape[0] == 3 && w[1].shape[0] == 0 &&
	       ((int64_t *)q[0].items[0].data)[0] == 7 && m[0].shape[0] == 2 &&
	       same_string(((dl_str *)m[0].data)[0], k->keys[0]) && ((float *)m[1].data)[0] == 1.5f;
}

/* Runs that grow and shrink: the memory of the outputs is that of the context. */
static void sizes(Call *k)
{
	static const int64_t n[] = {1, 0, 5, 2, ITEMS, 3, 0, ITEMS};

	for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
		fill(k, n[i]);
		check(!run(k), "a run", api->error(k->c));
		check(is_same(k, n[i]), "a run", "other values");
	}
	fill(k, 2);
	k->in[2] = list(DL_OPTIONAL, NULL, 0);
	check(!run(k) && !k->out[2].n_items, "an absent optional", api->error(k->c));
	fill(k, 2);
	k->inner = list(DL_SEQUENCE, NULL, 0);
	check(!run(k) && k->out[2].n_items == 1 && !k->out[2].items[0].n_items,
	      "an optional empty sequence", api->error(k->c));
	fill(k, 2);
	k->m_shape = 0;
	check(!run(k) && !k->out[3].items[0].shape[0], "an empty map", api->error(k->c));
}

/* Items of an older struct, and of a later one, and strides. */
static void structs(Call *k)
{
	enum { LATER = sizeof(dl_tensor) + 16 };
	const uint32_t old = offsetof(dl_tensor, items);
	static const int64_t back[] = {2, -1};
	static char memory[4 * LATER];

	for (uint32_t size = old; size <= LATER; size += LATER - old) {
		fill(k, 4);
		memset(memory, 0, sizeof memory);
		for (size_t i = 0; i < 4; i++) {
			k->s[i].size = size;
			memcpy(memory + i * size, &k->s[i],
			       size < sizeof(dl_tensor) ? size : sizeof(dl_tensor));
		}
		k->in[0].items = (dl_tensor *)(void *)memory;
		check(!run(k) && is_same(k, 4), "items of another version", api->error(k->c));
	}
	fill(k, 3);
	k->s[2].strides = back;
	k->s[2].data = k->data + 1;
	check(!run(k) && ((float *)k->out[0].items[2].data)[0] == 1.0f &&
		      ((float *)k->out[0].items[2].data)[1] == 0.0f,
	      "items with strides", api->error(k->c));
}

/* The outputs of a run as the inputs of the next one: they are read before they are written. */
static void overlap(Call *k)
{
	fill(k, ITEMS);
	check(!run(k), "a run", api->error(k->c));
	k->in[0] = k->out[0];
	k->in[1] = k->out[1];
	k->in[2] = k->out[2];
	k->in[3] = k->out[3];
	check(!run(k) && is_same(k, ITEMS), "outputs as inputs", api->error(k->c));
}

typedef enum Wrong {
	NULL_ITEMS,
	NEGATIVE,
	TENSOR_FOR_LIST,
	LIST_FOR_TENSOR,
	OPTIONAL_FOR_LIST,
	UNKNOWN_FORM,
	LIST_IN_LIST,
	OTHER_TYPE,
	OTHER_RANK,
	NEGATIVE_DIM,
	LARGE_DIM,
	LARGE_DIMS,
	NULL_DATA,
	NULL_SHAPE,
	SHORT_MEMORY,
	SHORT_STRUCT,
	LONG_STRUCT,
	TWO_OF_OPTIONAL,
	TENSOR_OF_OPTIONAL,
	INNER_NULL,
	INNER_NEGATIVE,
	ONE_OF_MAP,
	UNEQUAL_MAP,
	NULL_STRING,
	SHORT_STRINGS,
	WRONG_KEYS,
	WRONGS
} Wrong;

static void spoil(Call *k, Wrong wrong)
{
	static int64_t one = 1;

	switch (wrong) {
	case NULL_ITEMS: k->in[0].items = NULL; break;
	case NEGATIVE: k->in[0].n_items = -1; break;
	case TENSOR_FOR_LIST: k->in[0] = k->in[4]; break;
	case LIST_FOR_TENSOR: k->in[4] = k->in[0]; break;
	case OPTIONAL_FOR_LIST: k->in[0].form = DL_OPTIONAL; break;
	case UNKNOWN_FORM: k->in[0].form = 99; break;
	case LIST_IN_LIST: k->s[1] = list(DL_SEQUENCE, k->s, 1); break;
	case OTHER_TYPE: k->s[1].dtype = DL_I64; break;
	case OTHER_RANK: k->s[1].rank = 1; break;
	case NEGATIVE_DIM: k->s_shape[1][1] = -1; break;
	case LARGE_DIM: k->s_shape[1][1] = INT64_MAX; break;
	case LARGE_DIMS: k->s_shape[1][0] = k->s_shape[1][1] = (int64_t)1 << 40; break;
	case NULL_DATA: k->s[1].data = NULL; break;
	case NULL_SHAPE: k->s[1].shape = NULL; break;
	case SHORT_MEMORY: k->s[1].bytes = 3; break;
	case SHORT_STRUCT: k->s[0].size = 8; break;
	case LONG_STRUCT: k->s[0].size = 1u << 30; break;
	case TWO_OF_OPTIONAL: k->in[2].n_items = 2; break;
	case TENSOR_OF_OPTIONAL: k->inner = k->q[0]; break;
	case INNER_NULL: k->inner.items = NULL; break;
	case INNER_NEGATIVE: k->inner.n_items = -5; break;
	case ONE_OF_MAP: k->in[3].n_items = 1; break;
	case UNEQUAL_MAP: k->m[1].shape = &one; break;
	case NULL_STRING: k->words[2].p = NULL; break;
	case SHORT_STRINGS: k->w[0].bytes = 2 * sizeof(dl_str); break;
	case WRONG_KEYS: k->m[0].dtype = DL_I64; break;
	case WRONGS: break;
	}
}

/* Each is refused with a text that names the input, and the context works after. */
static void hostile(Call *k)
{
	for (int w = 0; w < WRONGS; w++) {
		char what[32];
		int status;

		snprintf(what, sizeof what, "wrong value %d", w);
		fill(k, 3);
		spoil(k, (Wrong)w);
		status = run(k);
		check(status == DL_INVALID || status == DL_SHAPE || status == DL_ABI, what,
		      status ? api->error(k->c) : "accepted");
		check(strstr(api->error(k->c), "input \"") != NULL, what, api->error(k->c));
		fill(k, 3);
		check(!run(k) && is_same(k, 3), what, "the run after fails");
	}
}

/* Outputs that the caller set wrongly. */
static void outputs(Call *k)
{
	fill(k, 3);
	k->out[0].form = DL_TENSOR;
	k->out[1].items = k->w; /* left as they are by an earlier run: not read */
	k->out[1].n_items = 77;
	check(!run(k) && is_same(k, 3), "outputs that are not cleared", api->error(k->c));
	fill(k, 3);
	check(!api->infer_shapes(k->c, k->in, INPUTS, k->out, INPUTS), "infer_shapes",
	      api->error(k->c));
}

int main(int argc, char **argv)
{
	void *library = dlopen(argc > 1 ? argv[1] : "./forms.so", RTLD_NOW | RTLD_LOCAL), *fn;
	Call *k = calloc(1, sizeof *k);
	dl_get_api_fn get;

	if (!library || !k)
		return puts("0 passed, 1 failed"), 1;
	fn = dlsym(library, "forms_get_api");
	memcpy(&get, &fn, sizeof get);
	api = get(DL_ABI_VERSION);
	if (api->load(NULL, &model) || api->context(model, NULL, &k->c))
		return puts("0 passed, 1 failed"), 1;
	sizes(k);
	structs(k);
	overlap(k);
	hostile(k);
	outputs(k);
	api->context_free(k->c);
	check(!api->unload(model), "unload", api->error(model));
	free(k);
	printf("%d passed, %d failed\n", passed, failed);
	return failed > 0;
}
