/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that use a model wrongly, or run out of memory: they get a status, and the next run is
 * right. test_misuse FOLDER [TEST], with the libraries of models.py in FOLDER; prints "N passed, N
 * failed". Built under ASan + UBSan and under TSan by run.sh.
 */
#include "tests/misuse/values.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4096, TENSORS = 4 };

static const char *folder;
static int passed, failed;

static bool check(bool ok, const char *what, const char *more)
{
	if (!ok)
		printf("FAIL: %s: %s\n", what, more);
	ok ? passed++ : failed++;
	return ok;
}

/* ---- Calls ---- */

/* Tensors for a model, and the memory behind them. */
typedef struct Call {
	const dl_api *api;
	dl_model *model;
	dl_context *c;
	Allocator memory;
	dl_tensor in[TENSORS], out[TENSORS], item[TENSORS];
	int32_t n_in, n_out;
	int64_t shape[TENSORS][4], out_shape[TENSORS][4], item_shape[TENSORS][4], scalar[TENSORS];
	float number[MOST];
	dl_str word[MOST];
	bool yes;
} Call;

/* The context provides the memory of all outputs. */
static void set_outputs(Call *k)
{
	for (int32_t o = 0; o < k->n_out; o++)
		k->out[o] = dl_tensor_of(0, 4, k->out_shape[o], NULL, 0);
}

static void new_context(Call *k)
{
	k->api->context_free(k->c);
	if (k->api->context(k->model, NULL, &k->c)) {
		printf("%s\n", k->api->error(k->model));
		exit(2);
	}
	set_outputs(k);
}

static void open_call(Call *k, const char *name, int32_t threads)
{
	dl_load_options o = {.size = sizeof(o), .threads = threads, .device = "cpu"};

	memset(k, 0, sizeof(*k));
	o.user = &k->memory;
	o.alloc = counted_alloc;
	o.free = counted_free;
	k->api = open_api(folder, name);
	k->yes = true;
	for (int i = 0; i < MOST; i++) {
		static const char *const words[] = {"aaab", "two words", "", "badcdefxYz"};

		k->number[i] = (float)(i % 13) - 5;
		k->word[i] = (dl_str){words[i % 4], strlen(words[i % 4])};
	}
	if (k->api->load(&o, &k->model) || k->api->context(k->model, NULL, &k->c)) {
		printf("%s: %s\n", name, k->api->error(NULL));
		exit(2);
	}
	k->n_in = k->api->describe()->n_in;
	k->n_out = k->api->describe()->n_out;
	set_outputs(k);
}

static void close_call(Call *k)
{
	k->api->context_free(k->c);
	check(!k->api->unload(k->model), "unload", k->api->error(k->model));
}

/* Makes input I a vector of N numbers or words, or, if it has rank 0, N itself. */
static void set_input(Call *k, int32_t i, int64_t n)
{
	const dl_io *io = dl_desc_in(k->api->describe(), i);
	dl_tensor *t = &k->in[i];

	*t = dl_tensor_of(io->dtype, io->rank, k->shape[i], k->number, 0);
	for (int32_t d = 0; d < io->rank; d++)
		k->shape[i][d] = dl_io_dim(io, d)->value >= 0 ? dl_io_dim(io, d)->value : n;
	if (io->form == DL_SEQUENCE) {
		for (int j = 0; j < TENSORS; j++) {
			k->item_shape[j][0] = n / (j + 1);
			k->item[j] = dl_tensor_of(io->item->dtype, 1, k->item_shape[j], k->number,
						  0);
			if (io->item->dtype == DL_STR)
				k->item[j].data = k->word;
		}
		*t = dl_tensor_of(0, 0, NULL, NULL, 0);
		t->form = DL_SEQUENCE;
		t->items = k->item;
		t->n_items = n % 3 + 1;
	} else if (io->dtype == DL_STR) {
		t->data = k->word;
	} else if (io->dtype == DL_I64) {
		k->scalar[i] = n;
		t->data = &k->scalar[i];
	} else if (io->dtype == DL_BOOL) {
		t->data = &k->yes;
	}
}

static void set_inputs(Call *k, int64_t n)
{
	for (int32_t i = 0; i < k->n_in; i++)
		set_input(k, i, n);
}

/* A run. The outputs' tensors stay as they were left, but for the room in their shapes. */
static int run(Call *k)
{
	for (int32_t o = 0; o < k->n_out; o++) {
		k->out[o].rank = 4;
		k->out[o].form = dl_desc_out(k->api->describe(), o)->form;
	}
	return k->api->run(k->c, k->in, k->n_in, k->out, k->n_out, NULL);
}

static uint64_t results(const Call *k)
{
	uint64_t h = 1;

	for (int32_t o = 0; o < k->n_out; o++)
		h = digest(h, &k->out[o]);
	return h;
}

/* What a context of its own gives for N. */
static uint64_t expected(const char *name, int64_t n)
{
	static Call k;
	uint64_t h;

	open_call(&k, name, 1);
	set_inputs(&k, n);
	check(!run(&k), name, k.api->error(k.c));
	h = results(&k);
	close_call(&k);
	return h;
}

/* ---- Memory ---- */

/* After a failed allocation, whichever it is, runs of one context with the outputs left as they are
 * give what they give in contexts of their own: of the size before, of the size that failed, and of
 * another one. */
static void allocations_fail(const char *name, int64_t small, int64_t large, int32_t threads)
{
	const int64_t other = (small + large) / 2;
	const uint64_t of_small = expected(name, small), of_large = expected(name, large),
		       of_other = expected(name, other);
	static Call k;
	int status = -1;

	open_call(&k, name, threads);
	for (long fails = 1; status && fails < 100000; fails += 1 + fails / 16) {
		new_context(&k);
		set_inputs(&k, small);
		check(!run(&k) && results(&k) == of_small, name, "the first run");
		set_inputs(&k, large);
		k.memory.count = 0;
		k.memory.fails = fails;
		status = run(&k);
		k.memory.fails = 0;
		check(status ? status == DL_NOMEM : results(&k) == of_large, name, "the failure");
		set_inputs(&k, small);
		check(!run(&k) && results(&k) == of_small, name, "the size before the failure");
		set_inputs(&k, other);
		check(!run(&k) && results(&k) == of_other, name, "another size");
		set_inputs(&k, large);
		check(!run(&k) && results(&k) == of_large, name, "the size that failed");
	}
	check(!status, name, "it allocates without end");
	close_call(&k);
}

/* The same of infer_shapes, which reads the items of lists. */
static void infer_fails(const char *name)
{
	static Call k;
	int status = -1;

	open_call(&k, name, 1);
	for (long fails = 1; status && fails < 100; fails++) {
		set_inputs(&k, 2);
		check(!run(&k), name, k.api->error(k.c));
		set_inputs(&k, 1000 * fails);
		k.memory.count = 0;
		k.memory.fails = fails;
		status = k.api->infer_shapes(k.c, k.in, k.n_in, k.out, k.n_out);
		k.memory.fails = 0;
		check(!status || status == DL_NOMEM, name, k.api->error(k.c));
	}
	close_call(&k);
}

static void test_memory(void)
{
	static const struct {
		const char *name;
		int64_t small, large;
	} models[] = {
		{"twice", 5, 3000},      {"texts", 5, 300},   {"pieces", 5, 300},
		{"pattern", 5, 200},     {"lists", 5, 300},   {"named", 5, 300},
		{"lengths", 5, 300},     {"stacked", 5, 300}, {"window", 10, 30000},
		{"transform", 100, 200},
	};

	for (int32_t threads = 1; threads < 4; threads += 2)
		for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++)
			allocations_fail(models[i].name, models[i].small, models[i].large, threads);
	infer_fails("lists");
	infer_fails("named");
}

/* ---- Sizes of structs ---- */

/* A copy of the SIZE bytes at FROM, or as many as there are, in memory of exactly SIZE bytes, whose
 * first member is SIZE. */
static void *sized(const void *from, size_t bytes, uint32_t size)
{
	char *p = calloc(1, size < 4 ? 4 : size);

	memcpy(p, from, bytes < size ? bytes : size);
	memcpy(p, &size, size < 4 ? size : 4);
	return p;
}

/* Whether versions of a struct may have this size: whole members from the first version on. */
static bool possible(uint32_t size, size_t least)
{
	return size >= least && size % 8 == 0;
}

/* Checks the status of a call with a struct of SIZE bytes; OBJECT has the text. */
static void expect_size(int status, uint32_t size, size_t least, const char *what,
			const dl_api *api, const void *object)
{
	const char *text = api->error(object);
	char name[100];

	snprintf(name, sizeof(name), "%s of %u bytes", what, (unsigned)size);
	check(status == (possible(size, least) ? DL_OK : DL_ABI), name, text);
	check(status != DL_ABI || strstr(text, "sizeof("), name, text);
}

/* Every size from 0 on of every struct that a program passes. */
static void test_sizes(void)
{
	enum { LARGEST = 200 };
	const dl_load_options load = {.threads = 1, .device = "cpu", .profile = 1};
	const dl_context_options context = {.flags = 0};
	static Call k;
	int64_t n = 7;

	open_call(&k, "twice", 1);
	set_inputs(&k, 7);
	for (uint32_t size = 0; size < LARGEST; size++) {
		dl_load_options *o = sized(&load, sizeof(load), size);
		dl_context_options *co = sized(&context, sizeof(context), size);
		dl_workspace *w = sized(&size, 4, size);
		dl_profile_entry *e = sized(&size, 4, size);
		dl_model *m = NULL;
		dl_context *c = NULL;

		expect_size(k.api->load(o, &m), size, offsetof(dl_load_options, device),
			    "dl_load_options", k.api, NULL);
		expect_size(k.api->context(k.model, co, &c), size,
			    offsetof(dl_context_options, flags), "dl_context_options", k.api,
			    k.model);
		expect_size(k.api->workspace(k.model, &n, 1, w), size,
			    offsetof(dl_workspace, device_bytes), "dl_workspace", k.api, k.model);
		if (m)
			expect_size(k.api->profile(m, 0, e), size,
				    offsetof(dl_profile_entry, calls), "dl_profile_entry", k.api,
				    m);
		k.api->context_free(c);
		k.api->unload(m);
		free(o);
		free(co);
		free(w);
		free(e);
	}
	close_call(&k);
}

/* The same of tensors: an input, the array of two outputs, and the items of a list. */
static void test_sizes_of_tensors(void)
{
	enum { LARGEST = 120 };
	const size_t least = offsetof(dl_tensor, items), lists = offsetof(dl_tensor, cap_items);
	static Call k, l;

	open_call(&k, "twice", 1);
	open_call(&l, "lists", 1);
	set_inputs(&k, 7);
	set_inputs(&l, 7);
	l.out[0].form = DL_SEQUENCE;
	for (uint32_t size = 4; size < LARGEST; size++) {
		dl_tensor *in = sized(&k.in[0], sizeof(*in), size), *item, *one;
		char *two = calloc(2, size);

		for (int o = 0; o < 2; o++) {
			dl_tensor t = dl_tensor_of(0, 4, k.out_shape[o], NULL, 0);

			t.size = size;
			memcpy(two + o * (ptrdiff_t)size, &t, size < sizeof(t) ? size : sizeof(t));
		}
		expect_size(k.api->run(k.c, in, 1, &(dl_tensor[2]){k.out[0], k.out[1]}[0], 2, NULL),
			    size, least, "an input", k.api, k.c);
		expect_size(k.api->run(k.c, k.in, 1, (dl_tensor *)(void *)two, 2, NULL), size,
			    least, "outputs", k.api, k.c);
		item = sized(&l.item[0], sizeof(*item), size);
		l.in[0].items = item;
		l.in[0].n_items = 1;
		expect_size(l.api->run(l.c, l.in, 2, l.out, 1, NULL), size, least, "items", l.api,
			    l.c);
		l.in[0].items = l.item;
		one = sized(&l.out[0], sizeof(*one), size);
		expect_size(l.api->run(l.c, l.in, 2, one, 1, NULL), size, lists, "a list", l.api,
			    l.c);
		free(in);
		free(two);
		free(item);
		free(one);
	}
	close_call(&k);
	close_call(&l);
}

/* An item's own size does not matter: the first one's is that of all. */
static void test_sizes_of_items(void)
{
	static Call k;

	open_call(&k, "lists", 1);
	for (uint32_t size = 0; size < 100; size += 11) {
		uint64_t want;

		set_inputs(&k, 8);
		check(!run(&k), "items", k.api->error(k.c));
		want = results(&k);
		set_inputs(&k, 8);
		k.item[1].size = size;
		check(!run(&k) && results(&k) == want, "a later item's size", k.api->error(k.c));
	}
	close_call(&k);
}

/* ---- Overlaps ---- */

static void refused(Call *k, const char *what, const char *text)
{
	const int status = run(k);

	check(status == DL_INVALID, what, status ? k->api->error(k->c) : "is accepted");
	check(strstr(k->api->error(k->c), text) != NULL, what, k->api->error(k->c));
}

static void set_own(Call *k, int32_t o, void *data, uint64_t bytes)
{
	k->out[o].data = data;
	k->out[o].bytes = bytes;
}

/* Memory for two outputs, or for an output and an input, where one of them is of strings. */
static void test_overlap(void)
{
	static Call k;
	static dl_str room[20];
	void *no_strides = malloc(1);
	void *served;

	open_call(&k, "texts", 1);
	set_inputs(&k, 8);
	set_own(&k, 0, room, sizeof(room));
	set_own(&k, 1, room, sizeof(room));
	refused(&k, "one array for two outputs", "output \"y\" overlaps output \"z\"");
	set_own(&k, 1, room + 7, 13 * sizeof(*room));
	refused(&k, "arrays that overlap in one string", "overlaps output \"z\"");
	set_own(&k, 1, room + 8, 12 * sizeof(*room));
	check(!run(&k), "arrays side by side", k.api->error(k.c));
	set_own(&k, 1, k.word + 7, 8 * sizeof(*room));
	refused(&k, "the end of an input", "output \"z\" overlaps input \"x\"");
	check(k.word[8].n == 4, "the input", "it was written to");
	set_own(&k, 1, NULL, 0);
	check(!run(&k), "one array, one of the context", k.api->error(k.c));
	set_own(&k, 0, k.out[1].data, k.out[1].bytes);
	set_own(&k, 1, NULL, 0);
	refused(&k, "an array that the context gives again", "overlaps output \"z\"");
	set_own(&k, 0, NULL, 0);
	check(!run(&k), "after refusals", k.api->error(k.c));
	close_call(&k);

	open_call(&k, "lengths", 1);
	set_inputs(&k, 8);
	set_own(&k, 0, room, sizeof(room));
	set_own(&k, 1, room + 7, 8 * sizeof(float));
	refused(&k, "numbers in an array of strings", "overlaps output");
	set_own(&k, 1, &k.word[7].n, 8 * sizeof(float));
	refused(&k, "numbers in an input of strings", "output \"z\" overlaps input \"x\"");
	set_own(&k, 0, &k.number[6], 8 * sizeof(*room));
	set_own(&k, 1, NULL, 0);
	refused(&k, "strings in an input of numbers", "output \"y\" overlaps input \"w\"");
	set_own(&k, 0, NULL, 0);
	check(!run(&k), "after refusals", k.api->error(k.c));
	served = k.out[1].data;
	set_own(&k, 0, served, 8 * sizeof(*room));
	refused(&k, "strings in numbers of the context", "overlaps output \"z\"");
	set_own(&k, 0, room, sizeof(room));
	set_own(&k, 1, NULL, 0);
	k.out[0].rank = 0;
	k.out[0].strides = no_strides;
	check(k.api->run(k.c, k.in, k.n_in, k.out, k.n_out, NULL) == DL_INVALID,
	      "strides without a dim", k.api->error(k.c));
	free(no_strides);
	close_call(&k);

	open_call(&k, "twice", 1);
	set_inputs(&k, 2);
	check(!run(&k), "a run", k.api->error(k.c));
	set_own(&k, 0, k.out[1].data, k.out[1].bytes);
	set_own(&k, 1, NULL, 0);
	set_inputs(&k, 3000); /* the context's memory for z grows */
	k.out[0].bytes = 3000 * sizeof(float);
	refused(&k, "memory that the context gives again", "serves for output \"z\"");
	close_call(&k);
}

/* Inputs and outputs in a workspace that the caller gives. */
static void test_workspace(void)
{
	static Call k;
	static _Alignas(64) char space[1 << 16];
	const dl_context_options o = {
		.size = sizeof(o), .workspace = space, .workspace_bytes = sizeof(space)};

	open_call(&k, "twice", 1);
	k.api->context_free(k.c);
	check(!k.api->context(k.model, &o, &k.c), "a workspace", k.api->error(k.model));
	set_inputs(&k, 8);
	check(!run(&k), "a workspace", k.api->error(k.c));
	k.in[0].data = space + 64;
	refused(&k, "an input in it", "input \"x\" overlaps the workspace");
	set_inputs(&k, 8);
	set_own(&k, 1, space + sizeof(space) - 64, 64);
	refused(&k, "an output in it", "output \"z\" overlaps the workspace");
	set_own(&k, 1, NULL, 0);
	check(!run(&k), "a workspace again", k.api->error(k.c));
	close_call(&k);
}

/* ---- Loops ---- */

static void *cancel_soon(void *call)
{
	Call *k = call;

	usleep(30000);
	k->api->cancel(k->c);
	return NULL;
}

/* A loop without end: cancel from another thread ends it. */
static void cancelled(const char *name, int32_t threads)
{
	static float limit[2] = {-1e30f, 1e30f};
	static Call k;
	const bool by_limit = !strcmp(name, "endless");
	pthread_t thread;
	int status;

	open_call(&k, name, threads);
	set_inputs(&k, (int64_t)1 << 62);
	if (by_limit)
		k.in[0].data = &limit[1];
	pthread_create(&thread, NULL, cancel_soon, &k);
	status = run(&k);
	pthread_join(thread, NULL);
	check(status == DL_CANCELLED, name, status ? k.api->error(k.c) : "it ends");
	check(strstr(k.api->error(k.c), "cancelled ") != NULL, name, k.api->error(k.c));
	set_inputs(&k, 3);
	if (by_limit)
		k.in[0].data = &limit[0];
	check(!run(&k), "the run after", k.api->error(k.c));
	k.api->cancel(k.c);
	check(run(&k) == DL_CANCELLED, "cancel before a run", name);
	close_call(&k);
}

/* Iterations that fail end the loop: an index, memory of a stack. */
static void test_failing_loops(void)
{
	static int64_t at[4] = {1, 0, 3, 2};
	static Call k;

	open_call(&k, "failing", 1);
	for (int64_t wrong = 0; wrong < 2; wrong++) {
		set_inputs(&k, wrong ? (int64_t)1 << 62 : 5);
		at[2] = wrong ? 4 : 3;
		k.in[3].data = at;
		check(run(&k) == (wrong ? DL_INDEX : DL_OK), "an index in a loop",
		      k.api->error(k.c));
	}
	close_call(&k);
	open_call(&k, "stacked", 1);
	set_inputs(&k, 1 << 20);
	k.shape[2][0] = MOST;
	check(run(&k) == DL_NOMEM, "a stack", k.api->error(k.c));
	set_inputs(&k, 3);
	check(!run(&k), "a stack again", k.api->error(k.c));
	close_call(&k);
}

static void test_loops(void)
{
	static const char *const loops[] = {"counted", "endless", "nested", "sides", "swapped"};

	for (size_t i = 0; i < sizeof(loops) / sizeof(*loops); i++)
		for (int32_t threads = 1; threads < 3; threads++)
			cancelled(loops[i], threads);
	test_failing_loops();
}

/* ---- No elements ---- */

/* A run whose first input has these dims, and no elements. It ends at once, with a result or for
 * lack of memory for temporaries. */
static int run_empty(Call *k, const char *name, int64_t d0, int64_t d1, int64_t d2)
{
	const clock_t begin = clock();
	int status;

	k->shape[0][0] = d0;
	k->shape[0][1] = d1;
	k->shape[0][2] = d2;
	k->in[0].data = NULL;
	set_outputs(k);
	status = run(k);
	check(!status || status == DL_NOMEM, name, k->api->error(k->c));
	check(clock() - begin < 5 * CLOCKS_PER_SEC, name, "it takes more than 5 seconds");
	return status;
}

/* Empty tensors of more rows than could be counted in hours. */
static void test_empty(void)
{
	const int64_t huge = (int64_t)1 << 40;
	static int64_t axis;
	static Call k;

	open_call(&k, "rows", 1);
	set_inputs(&k, 2);
	check(!run_empty(&k, "rows", huge, 0, 0) && k.out_shape[0][0] == huge, "rows", "dims");
	run_empty(&k, "rows", 0, huge, 0); /* a thread's scratch has a row */
	close_call(&k);
	open_call(&k, "largest", 1);
	set_inputs(&k, 2);
	for (int way = 0; way < 2; way++) {
		check(!run_empty(&k, "largest", way ? huge : 0, 2, way ? 0 : huge), "largest",
		      "no result");
		for (int i = 0; i < 2 && k.out[0].data; i++)
			check(((float *)k.out[0].data)[i] < -1e38f, "the largest of nothing",
			      "is not -inf");
	}
	close_call(&k);
	open_call(&k, "prefix", 2);
	set_inputs(&k, 2);
	k.in[1].data = &axis;
	for (axis = -2; axis < 2; axis++) {
		check(!run_empty(&k, "prefix", 0, huge, 0), "prefix of [0, huge]", "no result");
		check(!run_empty(&k, "prefix", huge, 0, 0), "prefix of [huge, 0]", "no result");
	}
	close_call(&k);
	open_call(&k, "recurrent", 1);
	set_inputs(&k, 1);
	check(!run_empty(&k, "recurrent", huge, 0, 1), "recurrent", "no result");
	close_call(&k);
	open_call(&k, "both", 1);
	set_inputs(&k, 2);
	k.shape[1][0] = huge;
	k.shape[1][1] = 0;
	k.in[1].data = NULL;
	check(!run_empty(&k, "both", huge, 0, 0), "both", "no result");
	close_call(&k);
	open_call(&k, "walk", 1);
	set_inputs(&k, 0);
	k.shape[1][0] = huge;
	k.shape[1][1] = 0;
	check(!run(&k) && k.out_shape[1][0] == huge, "walk", k.api->error(k.c));
	close_call(&k);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{"memory", test_memory},
	{"sizes", test_sizes},
	{"sizes of tensors", test_sizes_of_tensors},
	{"sizes of items", test_sizes_of_items},
	{"overlap", test_overlap},
	{"workspace", test_workspace},
	{"loops", test_loops},
	{"empty", test_empty},
};

int main(int argc, char **argv)
{
	folder = argc > 1 ? argv[1] : ".";
	alarm(120); /* a loop that does not end is a failure */
	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++)
		if (argc < 3 || !strcmp(argv[2], tests[i].name))
			tests[i].run();
	printf("%d passed, %d failed\n", passed, failed);
	return failed > 0;
}
