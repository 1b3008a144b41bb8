/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the runtime through its public ABI, on the artifacts written by hand beside this file.
 *	test_runtime DIR                 runs all tests on DIR/{relu_mul,nonzero,...}.so
 *	test_runtime --weights FILE      writes the weights of nonzero and prints their hash
 * Built plain (with -DCOUNT_MALLOC), under ASan + UBSan, and under TSan, by run.sh.
 */
#include "runtime/dlrt.h"
#include "runtime/hash.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_long n_mallocs;

#ifdef COUNT_MALLOC
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n)
{
	atomic_fetch_add(&n_mallocs, 1);
	return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	atomic_fetch_add(&n_mallocs, 1);
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	atomic_fetch_add(&n_mallocs, 1);
	return __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
	atomic_fetch_add(&n_mallocs, 1);
	return __libc_memalign(align, n);
}
#endif

static const char *dir;
static atomic_int failures; /* of the test at hand */

#define CHECK(cond)                                                                \
	do {                                                                       \
		if (!(cond)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
			atomic_fetch_add(&failures, 1);                            \
		}                                                                  \
	} while (0)

/* Checks that a call gives the status, and else shows the error of object. */
#define EXPECT(status, call, object)                                                         \
	do {                                                                                 \
		const int rc_ = (call);                                                      \
		if (rc_ != (status)) {                                                       \
			fprintf(stderr, "%s:%d: %s: status %d, expected %d: %s\n", __FILE__, \
				__LINE__, #call, rc_, (status), api->error(object));         \
			atomic_fetch_add(&failures, 1);                                      \
		}                                                                            \
	} while (0)

static const dl_api *open_api(const char *name, void **handle)
{
	char path[4096], symbol[256];
	void *h, *f;
	dl_get_api_fn get;

	snprintf(path, sizeof(path), "%s/%s.so", dir, name);
	h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	snprintf(symbol, sizeof(symbol), "%s_get_api",
		 strstr(name, "nonzero") ? "nonzero" : "relu_mul");
	f = dlsym(h, symbol);
	memcpy(&get, &f, sizeof(get));
	if (handle)
		*handle = h;
	return get(DL_ABI_VERSION);
}

static dl_tensor tensor(int32_t dtype, int32_t rank, int64_t *shape, void *data, uint64_t bytes)
{
	return (dl_tensor){.size = sizeof(dl_tensor),
			   .dtype = dtype,
			   .rank = rank,
			   .shape = shape,
			   .data = data,
			   .bytes = bytes};
}

static float relu_mul(int64_t i)
{
	static const float w[4] = {1.0f, -1.0f, 0.5f, 2.0f};
	const float v = (float)(i % 17 - 8) * w[i % 4];

	return v < 0.0f ? 0.0f : v;
}

/* Runs relu_mul with N rows in the context and checks both outputs. */
static bool run_relu(const dl_api *api, dl_context *c, int64_t N)
{
	const size_t n = (size_t)N * 4;
	float *x = malloc(n * 4 + 1), *y = malloc(n * 4 + 1), *z = malloc(n * 4 + 1);
	int64_t shape[2] = {N, 4}, sy[2], sz[2];
	dl_tensor in = tensor(DL_F32, 2, shape, x, 0);
	dl_tensor out[2] = {tensor(DL_F32, 2, sy, y, n * 4), tensor(DL_F32, 2, sz, z, n * 4)};
	bool ok;

	for (size_t i = 0; i < n; i++)
		x[i] = (float)((int64_t)i % 17 - 8);
	ok = api->run(c, &in, 1, out, 2, NULL) == DL_OK && sy[0] == N && sz[1] == 4;
	for (size_t i = 0; ok && i < n; i++)
		ok = y[i] == relu_mul((int64_t)i) && z[i] == 2.0f * relu_mul((int64_t)i);
	free(x);
	free(y);
	free(z);
	return ok;
}

static dl_model *load(const dl_api *api, int32_t threads)
{
	dl_load_options o = {.size = sizeof(o), .threads = threads};
	dl_model *m;

	EXPECT(DL_OK, api->load(&o, &m), NULL);
	return m;
}

static int count_dir(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void test_run(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	static const int64_t rows[] = {0, 1, 7, 64, 65, 1000, 3, 100000};

	CHECK(api->size == sizeof(dl_api) && api->abi == DL_ABI_VERSION);
	CHECK(!strcmp(api->describe()->name, "relu_mul") && api->describe()->out[0].alias == 0);
	CHECK(!strcmp(api->status_text(DL_INDEX), "index out of range"));
	for (int32_t threads = 0; threads < 6; threads++) {
		dl_model *m = load(api, threads);
		dl_context *c;

		EXPECT(DL_OK, api->context(m, NULL, &c), m);
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			CHECK(run_relu(api, c, rows[i]));
		EXPECT(DL_BUSY, api->unload(m), m);
		api->context_free(c);
		EXPECT(DL_OK, api->unload(m), NULL);
	}
}

/* bytes of memory between two pages that trap, at the end or the beginning. */
static char *guarded(size_t bytes, bool at_end)
{
	const size_t page = 4096, room = (bytes + page - 1) / page * page;
	char *p = mmap(NULL, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(p + page, room, PROT_READ | PROT_WRITE);
	return p + page + (at_end ? room - bytes : 0);
}

static void test_workspace(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_model *m = load(api, 3);
	dl_workspace w = {.size = sizeof(w)};
	int64_t N = 1000, none = -1, huge = INT64_MAX / 2;
	dl_context_options o = {.size = sizeof(o), .n_dims = 1, .max_dims = &N};
	dl_context *c;

	EXPECT(DL_OK, api->workspace(m, &N, 1, &w), m);
	CHECK(w.host_bytes == 1000 * 16 + 3 * 64 && w.align == 64 && !w.device_bytes);
	EXPECT(DL_UNBOUNDED, api->workspace(m, &none, 1, &w), m);
	EXPECT(DL_NOMEM, api->workspace(m, &huge, 1, &w), m);
	EXPECT(DL_INVALID, api->workspace(m, &N, 2, &w), m);
	for (int at_end = 0; at_end < 2; at_end++) {
		o.workspace = guarded(w.host_bytes, at_end);
		o.workspace_bytes = w.host_bytes;
		EXPECT(DL_OK, api->context(m, &o, &c), m);
		CHECK(run_relu(api, c, 1000));
		CHECK(run_relu(api, c, 999));
		CHECK(!run_relu(api, c, 1100));
		CHECK(strstr(api->error(c), "workspace"));
		CHECK(run_relu(api, c, 10));
		api->context_free(c);
	}
	o.workspace_bytes--;
	EXPECT(DL_WORKSPACE, api->context(m, &o, &c), m);
	CHECK(api->error(NULL)[0] && !strcmp(api->error(NULL), api->error(m)));
	CHECK(!c && strstr(api->error(m), "workspace"));
	o.max_dims = NULL; /* then the run says so */
	EXPECT(DL_OK, api->context(m, &o, &c), m);
	CHECK(!run_relu(api, c, 1000));
	CHECK(run_relu(api, c, 500));
	api->context_free(c);
	o.workspace = (char *)o.workspace + 1;
	EXPECT(DL_INVALID, api->context(m, &o, &c), m);
	EXPECT(DL_OK, api->unload(m), NULL);
}

static atomic_int log_lines, allocs;

static void log_line(void *user, int32_t level, const char *text)
{
	CHECK(user == dir && level <= DL_LOG_INFO && text[0]);
	atomic_fetch_add(&log_lines, 1);
}

static void *count_alloc(void *user, uint64_t bytes, uint64_t align)
{
	CHECK(user == dir);
	atomic_fetch_add(&allocs, 1);
	return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void count_free(void *user, void *p, uint64_t bytes)
{
	CHECK(user == dir && p && bytes);
	atomic_fetch_sub(&allocs, 1);
	free(p);
}

static void *no_alloc(void *user, uint64_t bytes, uint64_t align)
{
	(void)user;
	return bytes > 100000 ? NULL : aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void plain_free(void *user, void *p, uint64_t bytes)
{
	(void)user;
	(void)bytes;
	free(p);
}

static void test_callbacks(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_load_options o = {.size = sizeof(o),
			     .threads = 2,
			     .user = (void *)(uintptr_t)dir,
			     .log = log_line,
			     .alloc = count_alloc,
			     .free = count_free};
	dl_model *m;
	dl_context *c;

	EXPECT(DL_OK, api->load(&o, &m), NULL);
	EXPECT(DL_OK, api->context(m, NULL, &c), m);
	CHECK(run_relu(api, c, 1000));
	api->context_free(c);
	CHECK(atomic_load(&allocs) > 0 && atomic_load(&log_lines) > 0);
	EXPECT(DL_OK, api->unload(m), NULL);
	CHECK(atomic_load(&allocs) == 0);
	o.free = NULL;
	EXPECT(DL_INVALID, api->load(&o, &m), NULL);
	o = (dl_load_options){.size = sizeof(o), .alloc = no_alloc, .free = plain_free};
	EXPECT(DL_OK, api->load(&o, &m), NULL);
	EXPECT(DL_OK, api->context(m, NULL, &c), m);
	CHECK(!run_relu(api, c, 100000) && strstr(api->error(c), "memory"));
	CHECK(run_relu(api, c, 100));
	api->context_free(c);
	EXPECT(DL_OK, api->unload(m), NULL);
}

static void test_no_malloc(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_model *m = load(api, 4);
	static float x[4000], y[4000], z[4000];
	int64_t N = 1000, shape[2] = {1000, 4}, sy[2], sz[2];
	dl_tensor in = tensor(DL_F32, 2, shape, x, 0);
	dl_context *c;
	long before;

	EXPECT(DL_OK, api->context(m, NULL, &c), m);
	EXPECT(DL_OK, api->prepare(c, &N, 1), c);
	before = atomic_load(&n_mallocs);
	for (int i = 0; i < 100; i++) {
		dl_tensor out[2] = {tensor(DL_F32, 2, sy, y, sizeof(y)),
				    tensor(DL_F32, 2, sz, z, sizeof(z))};

		shape[0] = 1000 - i;
		EXPECT(DL_OK, api->run(c, &in, 1, out, 2, NULL), c);
	}
	CHECK(atomic_load(&n_mallocs) == before);
	api->context_free(c);
	EXPECT(DL_OK, api->unload(m), NULL);
}

static void test_tensors(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_model *m = load(api, 2);
	float x[12], t[12], y[12], z[12];
	int64_t shape[2] = {3, 4}, strides[2] = {1, 3}, sy[2], sz[2];
	dl_tensor in = tensor(DL_F32, 2, shape, t, 0), out[2];
	dl_context *c;

	EXPECT(DL_OK, api->context(m, NULL, &c), m);
	for (int i = 0; i < 12; i++)
		x[i] = t[i % 4 * 3 + i / 4] = (float)(i % 17 - 8);
#define OUTPUTS(Y, n) \
	(out[0] = tensor(DL_F32, 2, sy, Y, n), out[1] = tensor(DL_F32, 2, sz, z, sizeof(z)))
	in.strides = strides; /* a transposed input */
	OUTPUTS(y, sizeof(y));
	EXPECT(DL_OK, api->run(c, &in, 1, out, 2, NULL), c);
	for (int i = 0; i < 12; i++)
		CHECK(y[i] == relu_mul(i));
	in = tensor(DL_F32, 2, shape, x, 0);
	OUTPUTS(y, 47); /* too small: the shape says so */
	EXPECT(DL_CAPACITY, api->run(c, &in, 1, out, 2, NULL), c);
	CHECK(out[0].rank == 2 && sy[0] == 3 && sy[1] == 4);
	OUTPUTS(NULL, 0); /* served by the context */
	EXPECT(DL_OK, api->run(c, &in, 1, out, 2, NULL), c);
	CHECK(out[0].data && out[0].bytes == 48 && ((float *)out[0].data)[11] == relu_mul(11));
	EXPECT(DL_OK, api->run(c, &in, 1, out, 2, NULL), c); /* and again, as it is */
	OUTPUTS(x, sizeof(x));                               /* in place */
	EXPECT(DL_OK, api->run(c, &in, 1, out, 2, NULL), c);
	for (int i = 0; i < 12; i++)
		CHECK(x[i] == relu_mul(i));
	OUTPUTS(x + 1, 48);
	EXPECT(DL_INVALID, api->run(c, &in, 1, out, 2, NULL), c);
	OUTPUTS(z, sizeof(z));
	EXPECT(DL_INVALID, api->run(c, &in, 1, out, 2, NULL), c);
	OUTPUTS(y, sizeof(y));
	out[0].rank = 1;
	EXPECT(DL_INVALID, api->run(c, &in, 1, out, 2, NULL), c);
	OUTPUTS(y, sizeof(y));
	EXPECT(DL_INVALID, api->run(c, &in, 1, out, 1, NULL), c);
	OUTPUTS(y, sizeof(y));
	out[1].dtype = DL_F64;
	EXPECT(DL_INVALID, api->run(c, &in, 1, out, 2, NULL), c);
	CHECK(out[1].dtype == DL_F64 && strstr(api->error(c), "output \"z\": elements are f64"));
	out[1].dtype = 0; /* is filled in */
	EXPECT(DL_OK, api->run(c, &in, 1, out, 2, NULL), c);
	CHECK(out[1].dtype == DL_F32);
	in.dtype = DL_F64;
	EXPECT(DL_INVALID, api->run(c, &in, 1, out, 2, NULL), c);
	CHECK(!strcmp(api->error(c), "input \"x\": elements are f64, expected f32"));
	in = tensor(DL_F32, 2, shape, (char *)t + 1, 0);
	EXPECT(DL_INVALID, api->run(c, &in, 1, out, 2, NULL), c);
	CHECK(strstr(api->error(c), "aligned"));
	in = tensor(DL_F32, 2, shape, x, 0);
	OUTPUTS((char *)y + 2, 40);
	shape[0] = 2;
	EXPECT(DL_INVALID, api->run(c, &in, 1, out, 2, NULL), c);
	CHECK(strstr(api->error(c), "aligned"));
	shape[0] = 3;
	OUTPUTS(y, sizeof(y));
	in = tensor(DL_F32, 1, shape, x, 0);
	EXPECT(DL_SHAPE, api->run(c, &in, 1, out, 2, NULL), c);
	in = tensor(DL_F32, 2, shape, NULL, 0);
	EXPECT(DL_INVALID, api->run(c, &in, 1, out, 2, NULL), c);
	shape[1] = 5;
	EXPECT(DL_SHAPE, api->run(c, &in, 1, out, 2, NULL), c);
	CHECK(!strcmp(api->error(c), "input \"x\": dim 1 is 5, expected 4"));
	shape[0] = INT64_MAX, shape[1] = 4;
	EXPECT(DL_SHAPE, api->infer_shapes(c, &in, 1, out, 2), c);
	shape[0] = 6;
	EXPECT(DL_OK, api->infer_shapes(c, &in, 1, out, 2), c);
	CHECK(out[0].bytes == 96 && sy[0] == 6 && sz[1] == 4);
	shape[0] = 0; /* nothing at all: data may be null */
	OUTPUTS(NULL, 0);
	EXPECT(DL_OK, api->run(c, &in, 1, out, 2, NULL), c);
	CHECK(sy[0] == 0);
	in.size = 8;
	EXPECT(DL_ABI, api->run(c, &in, 1, out, 2, NULL), c);
	api->context_free(c);
	EXPECT(DL_OK, api->unload(m), NULL);
}

/* What the caller says of an input's memory is believed only as far as it goes. */
static void test_input_bytes(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_model *m = load(api, 1);
	float x[12] = {0}, y[12], z[12];
	int64_t shape[2] = {3, 4}, strides[2] = {4, 1}, sy[2], sz[2];
	dl_tensor in = tensor(DL_F32, 2, shape, x, sizeof(x));
	dl_tensor out[2] = {tensor(DL_F32, 2, sy, y, sizeof(y)),
			    tensor(DL_F32, 2, sz, z, sizeof(z))};
	dl_context *c;

	EXPECT(DL_OK, api->context(m, NULL, &c), m);
	EXPECT(DL_OK, api->run(c, &in, 1, out, 2, NULL), c);
	in.bytes = 47;
	EXPECT(DL_INVALID, api->run(c, &in, 1, out, 2, NULL), c);
	CHECK(strstr(api->error(c),
		     "input \"x\": its memory has 47 bytes, and its shape needs 48"));
	in.bytes = 0; /* not told */
	EXPECT(DL_OK, api->run(c, &in, 1, out, 2, NULL), c);
	shape[0] = 2, strides[0] = 8; /* rows 0 and 2: the last element is number 11 */
	in.strides = strides, in.bytes = 48;
	EXPECT(DL_OK, api->run(c, &in, 1, out, 2, NULL), c);
	in.bytes = 47;
	EXPECT(DL_INVALID, api->run(c, &in, 1, out, 2, NULL), c);
	strides[0] = INT64_MAX / 2;
	EXPECT(DL_INVALID, api->run(c, &in, 1, out, 2, NULL), c);
	api->context_free(c);
	EXPECT(DL_OK, api->unload(m), NULL);
}

/* Memory that a context serves is gone with the next run, so it is no input of that run. */
static void test_served_input(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_model *m = load(api, 1);
	float x[12] = {0}, z[400];
	int64_t shape[2] = {3, 4}, sy[2], sz[2];
	dl_tensor in = tensor(DL_F32, 2, shape, x, 0);
	dl_tensor out[2] = {tensor(DL_F32, 2, sy, NULL, 0), tensor(DL_F32, 2, sz, z, sizeof(z))};
	dl_context *c;

	EXPECT(DL_OK, api->context(m, NULL, &c), m);
	EXPECT(DL_OK, api->run(c, &in, 1, out, 2, NULL), c);
	in.data = out[0].data;
	out[0].data = NULL;
	EXPECT(DL_INVALID, api->run(c, &in, 1, out, 2, NULL), c);
	CHECK(strstr(api->error(c), "serves for output \"y\""));
	api->context_free(c);
	EXPECT(DL_OK, api->unload(m), NULL);
}

/* Options that make no sense, and no objects at all. */
static void test_arguments(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_load_options o = {.size = 0};
	dl_context_options co = {.size = sizeof(co), .flags = 64};
	dl_workspace w = {.size = sizeof(w)};
	dl_profile_entry e = {.size = sizeof(e)};
	dl_device_info info = {.size = sizeof(info)};
	int64_t N = 1;
	dl_model *m;
	dl_context *c;

	EXPECT(DL_ABI, api->load(&o, &m), NULL);
	CHECK(strstr(api->error(NULL), "size to sizeof(dl_load_options)"));
	o = (dl_load_options){.size = 0xcccccccc};
	EXPECT(DL_ABI, api->load(&o, &m), NULL);
	o = (dl_load_options){.size = sizeof(o), .threads = -5};
	EXPECT(DL_INVALID, api->load(&o, &m), NULL);
	CHECK(strstr(api->error(NULL), "threads is -5"));
	o = (dl_load_options){.size = sizeof(o), .executor = NULL, .executor_threads = -1};
	EXPECT(DL_INVALID, api->load(&o, &m), NULL);
	o = (dl_load_options){.size = sizeof(o), .flags = 64};
	EXPECT(DL_UNSUPPORTED, api->load(&o, &m), NULL);
	CHECK(strstr(api->error(NULL), "0x40"));

	EXPECT(DL_INVALID, api->context(NULL, NULL, &c), NULL);
	CHECK(!c && !strcmp(api->error(NULL), "context: the model is null"));
	EXPECT(DL_INVALID, api->workspace(NULL, &N, 1, &w), NULL);
	CHECK(!strcmp(api->error(NULL), "workspace: the model is null"));
	EXPECT(DL_INVALID, api->profile(NULL, 0, &e), NULL);
	EXPECT(DL_INVALID, api->device_info(NULL, &info), NULL);
	EXPECT(DL_INVALID, api->run(NULL, NULL, 0, NULL, 0, NULL), NULL);
	CHECK(!strcmp(api->error(NULL), "the context is null"));
	EXPECT(DL_INVALID, api->infer_shapes(NULL, NULL, 0, NULL, 0), NULL);
	EXPECT(DL_INVALID, api->prepare(NULL, &N, 1), NULL);
	EXPECT(DL_INVALID, api->wait(NULL), NULL);
	EXPECT(DL_OK, api->unload(NULL), NULL);
	api->context_free(NULL);
	api->cancel(NULL);
	CHECK(!api->device(NULL)[0]);

	m = load(api, 1);
	EXPECT(DL_INVALID, api->workspace(m, &N, 1, NULL), m);
	EXPECT(DL_INVALID, api->context(m, NULL, NULL), m);
	EXPECT(DL_UNSUPPORTED, api->context(m, &co, &c), m);
	EXPECT(DL_INVALID, api->profile(m, 0, &e), m);
	EXPECT(DL_TARGET, api->device_info(m, &info), m);
	EXPECT(DL_OK, api->context(m, NULL, &c), m);
	EXPECT(DL_INVALID, api->run(c, NULL, 1, NULL, 2, NULL), c);
	EXPECT(DL_INVALID, api->unload((dl_model *)(void *)c), NULL);
	api->context_free(c);
	EXPECT(DL_OK, api->unload(m), NULL);
}

/* Structs that end early, as in programs that were compiled with an earlier dlrt.h. */
static void test_short_structs(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_load_options o;
	dl_context_options co;
	dl_workspace w;
	dl_profile_entry e;
	int64_t N = 1000, shape[2] = {3, 4}, strides[2] = {4, 1}, sy[2], sz[2];
	float x[12] = {0}, y[12], z[12];
	/* An array of tensors without the members behind bytes. */
	_Alignas(8) char room[2][offsetof(dl_tensor, items)];
	dl_tensor in = tensor(DL_F32, 2, shape, x, 0), out[2];
	dl_model *m;
	dl_context *c;

	memset(&o, 0xff, sizeof(o));
	memset(&o, 0, offsetof(dl_load_options, device));
	o.size = offsetof(dl_load_options, device);
	o.profile = 1;
	o.size--;
	EXPECT(DL_ABI, api->load(&o, &m), NULL);
	o.size++;
	EXPECT(DL_OK, api->load(&o, &m), NULL);

	memset(&w, 0xff, sizeof(w));
	w.size = offsetof(dl_workspace, device_bytes);
	EXPECT(DL_OK, api->workspace(m, &N, 1, &w), m);
	CHECK(w.size == offsetof(dl_workspace, device_bytes) && w.align == 64);
	CHECK(w.host_bytes >= 1000 * 16 && w.device_bytes == UINT64_MAX);
	w.size = 4;
	EXPECT(DL_ABI, api->workspace(m, &N, 1, &w), m);
	CHECK(strstr(api->error(m), "sizeof(dl_workspace)"));

	memset(&co, 0xff, sizeof(co));
	memset(&co, 0, offsetof(dl_context_options, flags));
	co.size = offsetof(dl_context_options, flags);
	EXPECT(DL_OK, api->context(m, &co, &c), m);

	in.strides = strides;
	for (int i = 0; i < 2; i++) {
		out[i] = tensor(DL_F32, 2, i ? sz : sy, i ? z : y, sizeof(y));
		out[i].size = sizeof(room[i]);
		memcpy(room[i], &out[i], sizeof(room[i]));
	}
	in.size = sizeof(room[0]);
	EXPECT(DL_OK, api->run(c, &in, 1, (dl_tensor *)(void *)room, 2, NULL), c);
	in.size = offsetof(dl_tensor, bytes);
	EXPECT(DL_ABI, api->run(c, &in, 1, (dl_tensor *)(void *)room, 2, NULL), c);
	CHECK(strstr(api->error(c), "sizeof(dl_tensor)"));

	memset(&e, 0xff, sizeof(e));
	e.size = offsetof(dl_profile_entry, calls);
	EXPECT(DL_OK, api->profile(m, 0, &e), m);
	CHECK(!strcmp(e.name, "/Mul, /Relu") && e.calls == UINT64_MAX);
	e.size = 4;
	EXPECT(DL_ABI, api->profile(m, 0, &e), m);
	api->context_free(c);
	EXPECT(DL_OK, api->unload(m), NULL);
}

/* Runs nonzero on 0..n-1 (or with x[0] = first), and checks. */
static int run_nonzero(const dl_api *api, dl_context *c, int64_t n, int64_t first, int64_t n_mask)
{
	int64_t x[64], e[128], i[64], sx[1] = {n}, sm[1] = {n_mask}, si[2], sg[1], se[1];
	char mask[65] = {0};
	float g[64];
	dl_tensor in[2] = {tensor(DL_I64, 1, sx, x, 0), tensor(DL_BOOL, 1, sm, mask, 0)};
	dl_tensor out[3] = {tensor(DL_I64, 2, si, i, sizeof(i)),
			    tensor(DL_F32, 1, sg, g, sizeof(g)),
			    tensor(DL_I64, 1, se, e, sizeof(e))};
	int rc;

	for (int64_t k = 0; k < n; k++)
		x[k] = k % 3 ? k % 16 : 0;
	x[0] = first;
	rc = api->run(c, in, 2, out, 3, NULL);
	if (rc)
		return rc;
	CHECK(out[0].rank == 2 && si[0] == 1 && se[0] == 2 * n && sg[0] == n);
	for (int64_t k = 0, at = 0; k < n; k++) {
		CHECK(g[k] == (float)((x[k] + 16) % 16) * 0.5f && e[k] == x[k] && e[n + k] == x[k]);
		if (x[k])
			CHECK(at < si[1] && i[at++] == k);
		CHECK(k + 1 < n || at == si[1]);
	}
	return DL_OK;
}

static void test_data_dependent(void)
{
	const dl_api *api = open_api("nonzero", NULL);
	dl_model *m = load(api, 2);
	dl_context *c;
	int64_t sx[1] = {7}, sm[1] = {8}, si[2], sg[1], se[1];
	dl_tensor in[2] = {tensor(DL_I64, 1, sx, NULL, 0), tensor(DL_BOOL, 1, sm, NULL, 0)};
	dl_tensor out[3] = {tensor(0, 2, si, NULL, 0), tensor(0, 1, sg, NULL, 0),
			    tensor(0, 1, se, NULL, 0)};

	if (!m)
		return;
	EXPECT(DL_OK, api->context(m, NULL, &c), m);
	for (int64_t n = 1; n < 64; n++)
		if (n != 13)
			EXPECT(DL_OK, run_nonzero(api, c, n, n % 2, n + 1), c);
	EXPECT(DL_SHAPE, run_nonzero(api, c, 13, 0, 14), c);
	CHECK(strstr(api->error(c), "/Reshape"));
	EXPECT(DL_SHAPE, run_nonzero(api, c, 12, 0, 12), c);
	CHECK(strstr(api->error(c), "N + 1 = 13"));
	EXPECT(DL_INDEX, run_nonzero(api, c, 5, 16, 6), c);
	CHECK(!strcmp(api->error(c), "node \"/Gather\" (Gather): index out of range"));
	EXPECT(DL_OK, run_nonzero(api, c, 5, -16, 6), c);
	sx[0] = 5000, sm[0] = 5001;
	EXPECT(DL_SHAPE, api->infer_shapes(c, in, 2, out, 3), c);
	CHECK(strstr(api->error(c), "1..4096"));
	sx[0] = 7, sm[0] = 8;
	EXPECT(DL_OK, api->infer_shapes(c, in, 2, out, 3), c);
	CHECK(si[0] == 1 && si[1] == -1 && !out[0].bytes && sg[0] == 7 && se[0] == 14);
	CHECK(out[2].dtype == DL_I64 && out[2].bytes == 112);
	{
		int64_t x[7] = {1, 2, 3, 4, 5, 6, 7}, i[7];
		char mask[8] = {0};

		in[0].data = x;
		in[1].data = mask;
		for (int o = 0; o < 3; o++)
			out[o].data = NULL;
		out[0].data = i, out[0].bytes = 48;
		EXPECT(DL_CAPACITY, api->run(c, in, 2, out, 3, NULL), c);
		CHECK(si[0] == 1 && si[1] == 7);
		out[0].bytes = 56;
		EXPECT(DL_OK, api->run(c, in, 2, out, 3, NULL), c);
		CHECK(i[6] == 6 && ((int64_t *)out[2].data)[13] == 7);
	}
	api->context_free(c);
	EXPECT(DL_OK, api->unload(m), NULL);
}

typedef struct SharedRun {
	const dl_api *api;
	dl_model *model;
	int ok;
} SharedRun;

static void *use_model(void *arg)
{
	SharedRun *s = arg;
	dl_context *c;

	s->ok = s->api->context(s->model, NULL, &c) == DL_OK;
	for (int64_t i = 0; s->ok && i < 40; i++)
		s->ok = run_relu(s->api, c, 100 + i * 37 % 900);
	if (c)
		s->api->context_free(c);
	return NULL;
}

static void test_concurrent(void)
{
	const dl_api *api = open_api("relu_mul", NULL), *other = open_api("relu_mul2", NULL);
	dl_model *m = load(api, 4), *m2 = load(other, 4);
	pthread_t t[8];
	SharedRun s[8];

	CHECK(api != other);
	for (int i = 0; i < 8; i++) {
		s[i] = i % 2 ? (SharedRun){api, m, 0} : (SharedRun){other, m2, 0};
		pthread_create(&t[i], NULL, use_model, &s[i]);
	}
	for (int i = 0; i < 8; i++) {
		pthread_join(t[i], NULL);
		CHECK(s[i].ok);
	}
	EXPECT(DL_OK, api->unload(m), NULL);
	EXPECT(DL_OK, other->unload(m2), NULL);
}

static void *fail_often(void *arg)
{
	SharedRun *s = arg;
	dl_workspace w = {.size = sizeof(w)};
	int64_t N = 1;

	s->ok = 1;
	for (int i = 0; i < 200 && s->ok; i++) {
		const int n = i % 2 ? 7 : 77777;
		const char *text;

		s->ok = s->api->workspace(s->model, &N, n, &w) == DL_INVALID;
		text = s->api->error(s->model); /* this thread's or another's, but whole */
		s->ok &= !strcmp(text, "relu_mul: dims of 1 symbols are asked for, 7 given") ||
			 !strcmp(text, "relu_mul: dims of 1 symbols are asked for, 77777 given");
		s->ok &= strstr(s->api->error(NULL), n == 7 ? " 7 given" : " 77777 given") != NULL;
	}
	return NULL;
}

/* The text of a model's failure, read while other threads write it. */
static void test_errors_of_threads(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_model *m = load(api, 1);
	pthread_t t[4];
	SharedRun s[4];

	for (int i = 0; i < 4; i++) {
		s[i] = (SharedRun){api, m, 0};
		pthread_create(&t[i], NULL, fail_often, &s[i]);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		CHECK(s[i].ok);
	}
	EXPECT(DL_OK, api->unload(m), NULL);
}

/* In a child, after threads ran in the parent: runs, makes its own threads, unloads. */
static void test_fork(void)
{
#if defined(__SANITIZE_THREAD__)
	return; /* gcc's TSan cannot start threads in a forked child; clang's can */
#endif
	const dl_api *api = open_api("relu_mul", NULL);
	dl_model *m = load(api, 4);
	dl_context *c;
	int status = 0;

	EXPECT(DL_OK, api->context(m, NULL, &c), m);
	CHECK(run_relu(api, c, 1000));
	for (int i = 0; i < 3; i++) {
		const pid_t pid = fork();

		if (!pid) {
			alarm(20);
			status = run_relu(api, c, 1000) && run_relu(api, c, 500);
			status = status && count_dir("/proc/self/task") >= 2 + 4;
			api->context_free(c);
			_exit(status && api->unload(m) == DL_OK ? 0 : 1);
		}
		CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
		CHECK(run_relu(api, c, 1000));
	}
	api->context_free(c);
	EXPECT(DL_OK, api->unload(m), NULL);
}

/* A child that closes all descriptors, as a daemon does, and opens others: none of those is the runtime's to close. */
static void test_fork_and_descriptors(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_model *m = load(api, 1);
	dl_context *c;
	pid_t pid;
	int status = 0;

	EXPECT(DL_OK, api->context(m, NULL, &c), m);
	CHECK(run_relu(api, c, 1000));
	pid = fork();
	if (!pid) {
		bool ok = true;

		for (int fd = 3; fd < 100; fd++)
			close(fd);
		for (int fd = 3; fd < 100; fd++)
			ok = ok && dup(0) == fd;
		ok = ok && run_relu(api, c, 1000);
		api->context_free(c);
		ok = api->unload(m) == DL_OK && ok;
		for (int fd = 3; fd < 100; fd++)
			ok = ok && fcntl(fd, F_GETFD) != -1;
		_exit(ok ? 0 : 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
	api->context_free(c);
	EXPECT(DL_OK, api->unload(m), NULL);
}

static void test_dlclose(void)
{
	int tasks = 0, fds = 0;

	for (int i = 0; i < 20; i++) {
		void *h;
		const dl_api *api = open_api("relu_mul", &h);
		dl_model *m = load(api, 1 + i % 4);
		dl_context *c;

		CHECK(i % 4 || count_dir("/proc/self/task") <= (i ? tasks : 1000));
		EXPECT(DL_OK, api->context(m, NULL, &c), m);
		CHECK(run_relu(api, c, 1000));
		api->context_free(c);
		EXPECT(DL_OK, api->unload(m), NULL);
		CHECK(!dlclose(h));
		if (!i) {
			tasks = count_dir("/proc/self/task");
			fds = count_dir("/proc/self/fd");
		}
	}
	CHECK(count_dir("/proc/self/fd") == fds);
}

typedef struct Canceller {
	const dl_api *api;
	dl_context *context;
	int32_t calls;
} Canceller;

static Canceller canceller;

/* An executor that runs the parts in reverse order, and cancels at the first launch. */
static void reverse(void *user, int32_t n, void (*task)(void *arg, int32_t i), void *arg)
{
	Canceller *me = user;

	while (n-- > 0)
		task(arg, n);
	me->calls++;
	if (me->context)
		me->api->cancel(me->context);
}

static void test_executor_and_cancel(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_load_options o = {
		.size = sizeof(o), .user = &canceller, .executor = reverse, .executor_threads = 5};
	const int tasks = count_dir("/proc/self/task");
	int64_t shape[2] = {1000, 4}, sy[2], sz[2];
	static float x[4000], y[4000], z[4000];
	dl_tensor in = tensor(DL_F32, 2, shape, x, 0);
	dl_tensor out[2] = {tensor(DL_F32, 2, sy, y, sizeof(y)),
			    tensor(DL_F32, 2, sz, z, sizeof(z))};
	dl_model *m;
	dl_context *c;

	EXPECT(DL_OK, api->load(&o, &m), NULL);
	EXPECT(DL_OK, api->context(m, NULL, &c), m);
	canceller.api = api;
	CHECK(run_relu(api, c, 1000));
	CHECK(canceller.calls == 3 && count_dir("/proc/self/task") == tasks);
	canceller.context = c;
	EXPECT(DL_CANCELLED, api->run(c, &in, 1, out, 2, NULL), c);
	CHECK(canceller.calls == 4 && strstr(api->error(c), "/Copy"));
	canceller.context = NULL;
	EXPECT(DL_OK, api->run(c, &in, 1, out, 2, NULL), c);
	api->cancel(c); /* between runs: the next one */
	EXPECT(DL_CANCELLED, api->run(c, &in, 1, out, 2, NULL), c);
	EXPECT(DL_OK, api->run(c, &in, 1, out, 2, NULL), c);
	api->context_free(c);
	EXPECT(DL_OK, api->unload(m), NULL);
}

static int busy_status;
static char busy_text[200];

/* An executor that uses the context whose run called it. */
static void again(void *user, int32_t n, void (*task)(void *arg, int32_t i), void *arg)
{
	Canceller *me = user;

	while (n-- > 0)
		task(arg, n);
	busy_status = me->api->infer_shapes(me->context, NULL, 0, NULL, 0);
	snprintf(busy_text, sizeof(busy_text), "%s", me->api->error(me->context));
}

static void test_busy(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_load_options o = {
		.size = sizeof(o), .user = &canceller, .executor = again, .executor_threads = 2};
	dl_model *m;

	EXPECT(DL_OK, api->load(&o, &m), NULL);
	EXPECT(DL_OK, api->context(m, NULL, &canceller.context), m);
	canceller.api = api;
	CHECK(run_relu(api, canceller.context, 1000));
	CHECK(busy_status == DL_BUSY && strstr(busy_text, "in use"));
	CHECK(run_relu(api, canceller.context, 1)); /* of one part, so no executor is asked */
	CHECK(!api->error(canceller.context)[0]);
	api->context_free(canceller.context);
	canceller.context = NULL;
	EXPECT(DL_OK, api->unload(m), NULL);
}

static void test_profile(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	char path[4096], text[4096] = {0};
	dl_load_options o = {.size = sizeof(o), .threads = 2, .profile_path = path};
	dl_profile_entry e = {.size = sizeof(e)};
	dl_model *m;
	dl_context *c;
	FILE *f;

	snprintf(path, sizeof(path), "%s/trace-%%n-%%p.json", dir);
	EXPECT(DL_OK, api->load(&o, &m), NULL);
	EXPECT(DL_OK, api->context(m, NULL, &c), m);
	CHECK(run_relu(api, c, 1000) && run_relu(api, c, 1000));
	EXPECT(DL_OK, api->profile(m, 0, &e), m);
	CHECK(!strcmp(e.name, "/Mul, /Relu") && e.calls == 2 && e.nanoseconds > 0);
	EXPECT(DL_INVALID, api->profile(m, 3, &e), m);
	api->context_free(c);
	EXPECT(DL_OK, api->unload(m), NULL);
	snprintf(path, sizeof(path), "%s/trace-relu_mul-%d.json", dir, (int)getpid());
	f = fopen(path, "r");
	CHECK(f && fread(text, 1, sizeof(text) - 1, f) > 100);
	CHECK(strstr(text, "\"traceEvents\"") && strstr(text, "\"name\":\"/Mul, /Relu\""));
	CHECK(strstr(text, "\"dropped\":0}}"));
	if (f)
		fclose(f);
	remove(path);
	o.profile_path = "/nowhere/at/all.json";
	EXPECT(DL_OK, api->load(&o, &m), NULL);
	EXPECT(DL_IO, api->unload(m), NULL);
	setenv("DLCC_PROFILE", path, 1);
	m = load(api, 1);
	EXPECT(DL_OK, api->unload(m), NULL);
	unsetenv("DLCC_PROFILE");
	CHECK(!remove(path));
}

static _Alignas(64) float table[16];

static int read_weights(void *user, void *dst, uint64_t offset, uint64_t bytes)
{
	(void)user;
	memcpy(dst, (char *)table + offset, bytes);
	return 0;
}

static char last_text[512]; /* of the last load that failed */

static void try_weights(const char *name, const dl_load_options *o, int status)
{
	const dl_api *api = open_api(name, NULL);
	dl_model *m;
	dl_context *c;

	EXPECT(status, api->load(o, &m), NULL);
	snprintf(last_text, sizeof(last_text), "%s", api->error(NULL));
	CHECK(!m == !!status && (!status || last_text[0]));
	if (!m)
		return;
	EXPECT(DL_OK, api->context(m, NULL, &c), m);
	EXPECT(DL_OK, run_nonzero(api, c, 20, 3, 21), c);
	api->context_free(c);
	EXPECT(DL_OK, api->unload(m), NULL);
}

static void test_weights(void)
{
	char path[4096], here[4096];
	dl_load_options o = {.size = sizeof(o), .flags = DL_LOAD_CHECK_WEIGHTS};

	try_weights("nonzero", &o, DL_OK);
	try_weights("nonzero_beside", &o, DL_OK);
	try_weights("apart/nonzero_beside", &o, DL_OK); /* beside the program */
	snprintf(path, sizeof(path), "%s/nonzero.weights", dir);
	snprintf(here, sizeof(here), "%s/hidden.weights", dir);
	CHECK(!rename(path, here));
	try_weights("apart/nonzero_beside", &o, DL_WEIGHTS);
	CHECK(strstr(last_text, "/apart/nonzero.weights (beside the model's code) nor "));
	CHECK(strstr(last_text, "/nonzero.weights (beside the program)"));
	CHECK(!rename(here, path));
	CHECK(getcwd(here, sizeof(here)) && !chdir("/"));
	try_weights("nonzero", &o, DL_OK); /* loaded by a relative path, and then chdir */
	CHECK(!chdir(here));
	try_weights("nonzero_stripped", &o, DL_WEIGHTS);
	o.weights = read_weights;
	try_weights("nonzero_stripped", &o, DL_OK);
	o.weights_data = table;
	try_weights("nonzero_stripped", &o, DL_OK);
	table[3] += 1.0f;
	try_weights("nonzero", &o, DL_WEIGHTS);
	table[3] -= 1.0f;
	o = (dl_load_options){.size = sizeof(o), .weights_path = path};
	snprintf(path, sizeof(path), "%s/nonzero.weights", dir);
	try_weights("nonzero_stripped", &o, DL_OK);
	snprintf(path, sizeof(path), "%s/nonzero.so", dir);
	try_weights("nonzero", &o, DL_WEIGHTS);
	snprintf(path, sizeof(path), "%s/missing", dir);
	try_weights("nonzero", &o, DL_WEIGHTS);
	o = (dl_load_options){.size = 4};
	try_weights("nonzero", &o, DL_ABI);
	o = (dl_load_options){.size = sizeof(o), .cpu_mask = 1ull << 63}; /* no feature at all */
	try_weights("nonzero", &o, DL_OK);
}

static void test_fp_state(void)
{
#if defined(__x86_64__)
	const dl_api *api = open_api("relu_mul", NULL);
	dl_model *m = load(api, 2);
	float x[4] = {0x1p-130f, -0x1p-130f, 0x1p-130f, 0x1p-130f}, y[4],
	      z[4]; /* subnormals are kept */
	int64_t shape[2] = {1, 4}, sy[2], sz[2];
	dl_tensor in = tensor(DL_F32, 2, shape, x, 0);
	dl_tensor out[2] = {tensor(DL_F32, 2, sy, y, sizeof(y)),
			    tensor(DL_F32, 2, sz, z, sizeof(z))};
	const unsigned strange = 0x1f80 | 0x8040 | 0x6000; /* flush to zero, round to zero */
	unsigned now = strange;
	dl_context *c;

	EXPECT(DL_OK, api->context(m, NULL, &c), m);
	__asm__ volatile("ldmxcsr %0" : : "m"(strange));
	CHECK(api->run(c, &in, 1, out, 2, NULL) == DL_OK);
	__asm__ volatile("stmxcsr %0" : "=m"(now));
	__asm__ volatile("ldmxcsr %0" : : "m"((const unsigned){0x1f80}));
	CHECK(now == strange && y[0] == 0x1p-130f && y[1] == 0x1p-130f && z[2] == 0x1p-130f);
	api->context_free(c);
	EXPECT(DL_OK, api->unload(m), NULL);
#endif
}

/* The hash does not depend on how the input is cut. */
static void test_hash(void)
{
	unsigned char b[200];
	uint64_t whole;

	for (unsigned i = 0; i < sizeof(b); i++)
		b[i] = (unsigned char)(i * 7);
	whole = dl_hash_bytes(b, sizeof(b));
	for (size_t k = 0; k <= sizeof(b); k++) {
		dl_hash h;

		dl_hash_init(&h);
		dl_hash_update(&h, b, k / 2);
		dl_hash_update(&h, b + k / 2, k - k / 2);
		dl_hash_update(&h, b + k, sizeof(b) - k);
		CHECK(dl_hash_value(&h) == whole);
		CHECK(k == sizeof(b) || dl_hash_bytes(b, k) != whole);
	}
	b[100] ^= 1;
	CHECK(dl_hash_bytes(b, sizeof(b)) != whole);
}

static int write_weights(const char *path)
{
	FILE *f = fopen(path, "wb");

	if (!f || fwrite(table, sizeof(table), 1, f) != 1 || fclose(f))
		return 1;
	printf("0x%llxull\n", (unsigned long long)dl_hash_bytes(table, sizeof(table)));
	return 0;
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{"run", test_run},
	{"workspace", test_workspace},
	{"callbacks", test_callbacks},
	{"no malloc", test_no_malloc},
	{"tensors", test_tensors},
	{"bytes of an input", test_input_bytes},
	{"served memory as an input", test_served_input},
	{"arguments", test_arguments},
	{"short structs", test_short_structs},
	{"data-dependent", test_data_dependent},
	{"concurrent", test_concurrent},
	{"errors of threads", test_errors_of_threads},
	{"fork", test_fork},
	{"fork and descriptors", test_fork_and_descriptors},
	{"dlclose", test_dlclose},
	{"executor, cancel", test_executor_and_cancel},
	{"busy", test_busy},
	{"profile", test_profile},
	{"weights", test_weights},
	{"fp state", test_fp_state},
	{"hash", test_hash},
};

int main(int argc, char **argv)
{
	int passed = 0, failed = 0;

	for (int i = 0; i < 16; i++)
		table[i] = (float)i * 0.5f;
	if (argc == 3 && !strcmp(argv[1], "--weights"))
		return write_weights(argv[2]);
	dir = argc > 1 ? argv[1] : ".";
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		atomic_store(&failures, 0);
		tests[i].run();
		if (atomic_load(&failures))
			printf("FAIL: %s\n", tests[i].name);
		*(atomic_load(&failures) ? &failed : &passed) += 1;
	}
	printf("%d passed, %d failed\n", passed, failed);
	return failed > 0;
}
