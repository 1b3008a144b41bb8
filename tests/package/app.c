/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the linked model NAME (and TWO, where defined) over a file of inputs and what they give: app
 * DATA DIM..., a value for each symbol. Checks the result, the exact workspace between guard pages,
 * that nothing is allocated once a context is prepared, and eight threads on one model. All tensors
 * are f32.
 */
#include "dlrt.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define JOIN(a, b) a##b
#define GET_API(name) JOIN(name, _get_api)

const dl_api *GET_API(NAME)(uint32_t abi_version);
#ifdef TWO
const dl_api *GET_API(TWO)(uint32_t abi_version);
#endif

enum { MAX = 4, PAGE = 4096, THREADS = 8 };

static long allocations;

#ifdef COUNT_MALLOC
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static void *counted(void *p)
{
	__atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
	return p;
}

void *malloc(size_t n)
{
	return counted(__libc_malloc(n));
}
void *calloc(size_t n, size_t size)
{
	return counted(__libc_calloc(n, size));
}
void *realloc(void *p, size_t n)
{
	return counted(__libc_realloc(p, n));
}
void *aligned_alloc(size_t align, size_t n)
{
	return counted(__libc_memalign(align, n));
}
int posix_memalign(void **p, size_t align, size_t n)
{
	*p = counted(__libc_memalign(align, n));
	return *p ? 0 : 12;
}
#endif

typedef struct AppCase {
	const dl_api *api;
	dl_model *model;
	float *data; /* inputs, then the output */
	int64_t dims[8];
	int n_dims;
} AppCase;

static void die(const char *what, const char *why)
{
	printf("%s: %s\n", what, why);
	exit(1);
}

static void need(int ok, const char *what)
{
	if (!ok)
		die("wrong", what);
}

/* Fills SHAPE and gives the number of elements. */
static int64_t shape_of(const AppCase *c, const dl_io *io, int64_t *shape)
{
	int64_t n = 1;

	for (int d = 0; d < io->rank; d++) {
		const dl_dim *dim = dl_io_dim(io, d);

		shape[d] = dim->sym >= 0 ? c->dims[dim->sym] : dim->value;
		n *= shape[d];
	}
	return n;
}

/* One run; the largest error, relative to 1 or to the value expected. */
static double run(const AppCase *c, dl_context *ctx)
{
	const dl_desc *desc = c->api->describe();
	int64_t in_shape[MAX][MAX], out_shape[MAX], n;
	dl_tensor in[MAX], out = {.size = sizeof(out), .rank = MAX, .shape = out_shape};
	float *at = c->data;
	static _Thread_local float result[1 << 14];
	double worst = 0;

	for (int i = 0; i < desc->n_in; i++) {
		const dl_io *io = dl_desc_in(desc, i);

		n = shape_of(c, io, in_shape[i]);
		in[i] = dl_tensor_of(DL_F32, io->rank, in_shape[i], at,
				     (uint64_t)n * sizeof(float));
		at += n;
	}
	n = shape_of(c, dl_desc_out(desc, 0), out_shape);
	need(n <= 1 << 14, "an output too large for this test");
	out.data = result;
	out.bytes = (uint64_t)n * sizeof(float);
	if (c->api->run(ctx, in, desc->n_in, &out, 1, NULL))
		die("run", c->api->error(ctx));
	for (int64_t i = 0; i < n; i++) {
		double e = fabs(result[i] - at[i]) / fmax(1, fabs(at[i]));

		worst = e <= worst ? worst : e; /* a NaN is worst */
	}
	return worst;
}

/* The workspace at the end, then at the beginning of memory between two pages that must not be
 * touched. */
static void guarded(const AppCase *c)
{
	dl_workspace w = {.size = sizeof(w)};
	dl_context_options o = {.size = sizeof(o), .n_dims = c->n_dims, .max_dims = c->dims};
	dl_context *ctx = NULL;
	size_t pages;
	char *p;

	if (c->api->workspace(c->model, c->dims, c->n_dims, &w))
		die("workspace", c->api->error(c->model));
	pages = (w.host_bytes + PAGE - 1) / PAGE * PAGE;
	p = mmap(NULL, pages + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(p != MAP_FAILED && !mprotect(p + PAGE, pages + !pages, PROT_READ | PROT_WRITE),
	     "mmap");
	for (int at_end = 0; at_end < 2; at_end++) {
		o.workspace = p + PAGE + (at_end ? (pages - w.host_bytes) / 64 * 64 : 0);
		o.workspace_bytes = w.host_bytes;
		if (c->api->context(c->model, &o, &ctx))
			die("context", c->api->error(c->model));
		need(run(c, ctx) < 1e-4, "the result in the caller's workspace");
		c->api->context_free(ctx);
	}
	if (!w.host_bytes)
		return;
	o.workspace_bytes--;
	need(c->api->context(c->model, &o, &ctx) == DL_WORKSPACE, "one byte less is not refused");
	munmap(p, pages + 2 * PAGE);
}

static void *thread(void *arg)
{
	const AppCase *c = arg;
	dl_context *ctx;
	AppCase less = *c;

	if (c->api->context(c->model, NULL, &ctx))
		die("context", c->api->error(c->model));
	for (int i = 0; i < 4; i++) {
		need(run(c, ctx) < 1e-4, "the result in a thread");
		for (int d = 0; d < less.n_dims; d++)
			less.dims[d] = c->dims[d] > 1 ? c->dims[d] - 1 : 1;
		run(&less, ctx);
	}
	c->api->context_free(ctx);
	return NULL;
}

static void check(const dl_api *api, float *data, char **dims, int n)
{
	AppCase c = {.api = api, .data = data, .n_dims = n};
	dl_load_options load = {.size = sizeof(load), .threads = 2};
	dl_context_options o = {.size = sizeof(o), .n_dims = n, .max_dims = c.dims};
	dl_context *ctx;
	pthread_t t[THREADS];
	long before;

#ifdef CHECK_WEIGHTS
	load.flags = DL_LOAD_CHECK_WEIGHTS;
#endif
	need(api != NULL && api->describe()->n_sym == n, "get_api, or the number of dims");
	for (int i = 0; i < n; i++)
		c.dims[i] = atoll(dims[i]);
	if (api->load(&load, &c.model))
		die("load", api->error(NULL));
	if (api->context(c.model, &o, &ctx) || api->prepare(ctx, c.dims, n))
		die("context", api->error(c.model));
	before = allocations;
	for (int i = 0; i < 3; i++)
		need(run(&c, ctx) < 1e-4, "the result");
	need(allocations == before, "memory was allocated after context");
	api->context_free(ctx);
	guarded(&c);
	for (int i = 0; i < THREADS; i++)
		need(!pthread_create(&t[i], NULL, thread, &c), "pthread_create");
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	need(!api->unload(c.model), "unload");
}

int main(int argc, char **argv)
{
	static float data[1 << 16];
	FILE *f = argc > 2 ? fopen(argv[1], "rb") : NULL;

	need(f && fread(data, sizeof(float), 1 << 16, f) > 0, "usage: app DATA DIM...");
	fclose(f);
	check(GET_API(NAME)(DL_ABI_VERSION), data, argv + 2, argc - 2);
#ifdef TWO
	check(GET_API(TWO)(DL_ABI_VERSION), data, argv + 2, argc - 2);
#endif
	puts("ok");
	return 0;
}
