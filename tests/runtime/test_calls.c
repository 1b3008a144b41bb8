/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of single calls: runs and their memory, tensors and arguments, data-dependent sizes. */
#include "tests/runtime/test_runtime.h"

#include <sys/mman.h>

void test_run(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	static const int64_t rows[] = {0, 1, 7, 64, 65, 1000, 3, 100000};

	CHECK(api->size == sizeof(dl_api) && api->abi == DL_ABI_VERSION);
	CHECK(!strcmp(api->describe()->name, "relu_mul") && api->describe()->out[0].alias == 0);
	CHECK(!strcmp(api->status_text(DL_INDEX), "index out of range"));
	for (int32_t threads = 0; threads < 6; threads++) {
		dl_model *m = load(api, threads);
		dl_context *c;

		c = context(api, m);
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			CHECK(run_relu(api, c, rows[i]));
		EXPECT(DL_BUSY, api->unload(m), m);
		unload(api, m, c);
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

void test_workspace(void)
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

void test_callbacks(void)
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
	c = context(api, m);
	CHECK(run_relu(api, c, 1000));
	api->context_free(c);
	CHECK(atomic_load(&allocs) > 0 && atomic_load(&log_lines) > 0);
	EXPECT(DL_OK, api->unload(m), NULL);
	CHECK(atomic_load(&allocs) == 0);
	o.free = NULL;
	EXPECT(DL_INVALID, api->load(&o, &m), NULL);
	o = (dl_load_options){.size = sizeof(o), .alloc = no_alloc, .free = plain_free};
	EXPECT(DL_OK, api->load(&o, &m), NULL);
	c = context(api, m);
	CHECK(!run_relu(api, c, 100000) && strstr(api->error(c), "memory"));
	CHECK(run_relu(api, c, 100));
	unload(api, m, c);
}

void test_no_malloc(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_model *m = load(api, 4);
	static float x[4000], y[4000], z[4000];
	int64_t N = 1000, shape[2] = {1000, 4}, sy[2], sz[2];
	dl_tensor in = tensor(DL_F32, 2, shape, x, 0);
	dl_context *c;
	long before;

	c = context(api, m);
	EXPECT(DL_OK, api->prepare(c, &N, 1), c);
	before = atomic_load(&n_mallocs);
	for (int i = 0; i < 100; i++) {
		dl_tensor out[2] = {tensor(DL_F32, 2, sy, y, sizeof(y)),
				    tensor(DL_F32, 2, sz, z, sizeof(z))};

		shape[0] = 1000 - i;
		EXPECT(DL_OK, api->run(c, &in, 1, out, 2, NULL), c);
	}
	CHECK(atomic_load(&n_mallocs) == before);
	unload(api, m, c);
}

void test_tensors(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_model *m = load(api, 2);
	float x[12], t[12], y[12], z[12];
	int64_t shape[2] = {3, 4}, strides[2] = {1, 3}, sy[2], sz[2];
	dl_tensor in = tensor(DL_F32, 2, shape, t, 0), out[2];
	dl_context *c;

	c = context(api, m);
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
	shape[0] = -1, shape[1] = 4;
	EXPECT(DL_SHAPE, api->run(c, &in, 1, out, 2, NULL), c);
	CHECK(!strcmp(api->error(c), "input \"x\": dim 0 is -1, and must be at least 0"));
	in.form = DL_SEQUENCE;
	EXPECT(DL_INVALID, api->run(c, &in, 1, out, 2, NULL), c);
	CHECK(!strcmp(api->error(c), "input \"x\" is a sequence, expected a tensor"));
	in = tensor(0, 0, NULL, NULL, 0);
	EXPECT(DL_INVALID, api->run(c, &in, 1, out, 2, NULL), c);
	CHECK(!strcmp(api->error(c), "input \"x\" is not set"));
	in = tensor(DL_F32, 2, shape, NULL, 0);
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
	unload(api, m, c);
}

/* What the caller says of an input's memory is believed only as far as it goes. */
void test_input_bytes(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_model *m = load(api, 1);
	float x[12] = {0}, y[12], z[12];
	int64_t shape[2] = {3, 4}, strides[2] = {4, 1}, sy[2], sz[2];
	dl_tensor in = tensor(DL_F32, 2, shape, x, sizeof(x));
	dl_tensor out[2] = {tensor(DL_F32, 2, sy, y, sizeof(y)),
			    tensor(DL_F32, 2, sz, z, sizeof(z))};
	dl_context *c;

	c = context(api, m);
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
	unload(api, m, c);
}

/* Memory that a context serves is gone with the next run, so it cannot be an input of that run. */
void test_served_input(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_model *m = load(api, 1);
	float x[12] = {0}, z[400];
	int64_t shape[2] = {3, 4}, sy[2], sz[2];
	dl_tensor in = tensor(DL_F32, 2, shape, x, 0);
	dl_tensor out[2] = {tensor(DL_F32, 2, sy, NULL, 0), tensor(DL_F32, 2, sz, z, sizeof(z))};
	dl_context *c;

	c = context(api, m);
	EXPECT(DL_OK, api->run(c, &in, 1, out, 2, NULL), c);
	in.data = out[0].data;
	out[0].data = NULL;
	EXPECT(DL_INVALID, api->run(c, &in, 1, out, 2, NULL), c);
	CHECK(strstr(api->error(c), "serves for output \"y\""));
	unload(api, m, c);
}

/* Options that make no sense, and no objects at all. */
void test_arguments(void)
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
	c = context(api, m);
	EXPECT(DL_INVALID, api->run(c, NULL, 1, NULL, 2, NULL), c);
	EXPECT(DL_INVALID, api->unload((dl_model *)(void *)c), NULL);
	unload(api, m, c);
}

/* Structs that end early, as in programs that were compiled with an earlier dlrt.h. */
void test_short_structs(void)
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
	unload(api, m, c);
}

void test_data_dependent(void)
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
	c = context(api, m);
	for (int64_t n = 1; n < 64; n++)
		if (n != 13)
			EXPECT(DL_OK, run_nonzero(api, c, n, n % 2, n + 1), c);
	EXPECT(DL_SHAPE, run_nonzero(api, c, 13, 0, 14), c);
	CHECK(strstr(api->error(c), "/Reshape"));
	EXPECT(DL_SHAPE, run_nonzero(api, c, 12, 0, 12), c);
	CHECK(strstr(api->error(c), "N + 1 = 13"));
	EXPECT(DL_INDEX, run_nonzero(api, c, 5, 16, 6), c);
	CHECK(!strcmp(api->error(c), "node \"/Gather\" (Gather): index out of range: 16, in a dim of 16"));
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
	unload(api, m, c);
}

static void fp_state(const char *name, bool flush)
{
#if defined(__x86_64__)
	const dl_api *api = open_api(name, NULL);
	dl_model *m = load(api, 2);
	float x[4] = {0x1p-130f, -0x1p-130f, 0x1p-130f, 0x1p-130f}, y[4], z[4];
	int64_t shape[2] = {1, 4}, sy[2], sz[2];
	dl_tensor in = tensor(DL_F32, 2, shape, x, 0);
	dl_tensor out[2] = {tensor(DL_F32, 2, sy, y, sizeof(y)),
			    tensor(DL_F32, 2, sz, z, sizeof(z))};
	/* flush to zero where the model does not; round to zero */
	const unsigned strange = 0x1f80 | (flush ? 0 : 0x8040) | 0x6000;
	unsigned now = strange;
	dl_context *c;

	c = context(api, m);
	__asm__ volatile("ldmxcsr %0" : : "m"(strange));
	CHECK(api->run(c, &in, 1, out, 2, NULL) == DL_OK);
	__asm__ volatile("stmxcsr %0" : "=m"(now));
	__asm__ volatile("ldmxcsr %0" : : "m"((const unsigned){0x1f80}));
	CHECK(now == strange);
	if (flush)
		CHECK(z[2] == 0 && z[3] == 0);
	else
		CHECK(y[0] == 0x1p-130f && y[1] == 0x1p-130f && z[2] == 0x1p-130f);
	unload(api, m, c);
#else
	(void)name;
	(void)flush;
#endif
}

void test_fp_state(void)
{
	fp_state("relu_mul", false);
	fp_state("relu_mul_flush", true);
}
