/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the runtime through its public ABI, on the artifacts written by hand beside this file.
 *	test_runtime DIR                 runs all tests on DIR/{relu_mul,nonzero,...}.so
 *	test_runtime --weights FILE      writes the weights of nonzero and prints their hash
 * Built plain (with -DCOUNT_MALLOC), under ASan + UBSan, and under TSan, by run.sh.
 */
#include "tests/runtime/test_runtime.h"

#include <dirent.h>
#include <dlfcn.h>

const char *dir;
atomic_int failures;
atomic_long n_mallocs;

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

const dl_api *open_api(const char *name, void **handle)
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

dl_tensor tensor(int32_t dtype, int32_t rank, int64_t *shape, void *data, uint64_t bytes)
{
	return (dl_tensor){.size = sizeof(dl_tensor),
			   .dtype = dtype,
			   .rank = rank,
			   .shape = shape,
			   .data = data,
			   .bytes = bytes};
}

float relu_mul(int64_t i)
{
	static const float w[4] = {1.0f, -1.0f, 0.5f, 2.0f};
	const float v = (float)(i % 17 - 8) * w[i % 4];

	return v < 0.0f ? 0.0f : v;
}

bool run_relu(const dl_api *api, dl_context *c, int64_t N)
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

dl_model *load(const dl_api *api, int32_t threads)
{
	dl_load_options o = {.size = sizeof(o), .threads = threads};
	dl_model *m;

	EXPECT(DL_OK, api->load(&o, &m), NULL);
	return m;
}

dl_context *context(const dl_api *api, dl_model *m)
{
	dl_context *c = NULL;

	EXPECT(DL_OK, api->context(m, NULL, &c), m);
	return c;
}

void unload(const dl_api *api, dl_model *m, dl_context *c)
{
	api->context_free(c);
	EXPECT(DL_OK, api->unload(m), NULL);
}

int count_dir(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

int run_nonzero(const dl_api *api, dl_context *c, int64_t n, int64_t first, int64_t n_mask)
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
	{"slices", test_slices},
	{"weights", test_weights},
	{"fp state", test_fp_state},
	{"hash", test_hash},
};

int main(int argc, char **argv)
{
	int passed = 0, failed = 0;

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
