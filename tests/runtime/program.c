/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application that calls every function of dl_api and looks at every struct: program LIBRARY
 * RUNTIME. The library's model is relu_mul (relu_mul.c, or compiled from its graph); RUNTIME is the
 * version of its runtime. run.sh compiles it with the frozen dlrt.h, which stands for a program of
 * today, and with one whose structs are longer (-DGROWN), which stands for a program of a later
 * version.
 */
#include "dlrt.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 50000, COLUMNS = 4, COUNT = ROWS * COLUMNS };

static int failures, lines, parts;
static bool grown_runtime; /* which knows the members that GROWN appends */
static float x[COUNT], y[COUNT], z[COUNT];
static int64_t shape[2] = {ROWS, COLUMNS}, out_shape[2][2];

#define CHECK(cond)                                                                \
	do {                                                                       \
		if (!(cond)) {                                                     \
			fprintf(stderr, "program.c:%d: %s: %s\n", __LINE__, #cond, \
				api->error(c   ? (void *)c                         \
					   : m ? (void *)m                         \
					       : (void *)0));                      \
			failures++;                                                \
		}                                                                  \
	} while (0)

/* Item I of an array of structs: they are strided by the size of the first. */
#define AT(T, array, i) \
	((const T *)(const void *)((const char *)(array) + (size_t)(i) * (array)->size))

static void log_line(void *user, int32_t level, const char *text)
{
	lines += user == x && level >= DL_LOG_ERROR && text[0];
}

static void *take(void *user, uint64_t bytes, uint64_t align)
{
	return user == x ? aligned_alloc(align, (bytes + align - 1) / align * align) : NULL;
}

static void give(void *user, void *p, uint64_t bytes)
{
	(void)user;
	(void)bytes;
	free(p);
}

static void execute(void *user, int32_t n, void (*task)(void *arg, int32_t i), void *arg)
{
	(void)user;
	parts += n;
	while (n-- > 0)
		task(arg, n);
}

static dl_tensor tensor(float *data, int64_t *dims)
{
	return (dl_tensor){.size = sizeof(dl_tensor),
			   .dtype = DL_F32,
			   .rank = 2,
			   .shape = dims,
			   .data = data,
			   .bytes = data ? COUNT * sizeof(float) : 0};
}

static bool right(const float *out, float factor)
{
	static const float w[COLUMNS] = {1.0f, -1.0f, 0.5f, 2.0f};
	bool ok = true;

	for (int i = 0; i < COUNT; i++) {
		const float v = x[i] * w[i % COLUMNS];

		ok = ok && out[i] == (v < 0 ? 0 : v * factor);
	}
	return ok;
}

static void describe(const dl_api *api, const dl_model *m, const dl_context *c)
{
	const dl_desc *d = api->describe();

	CHECK(!strcmp(d->name, "relu_mul") && d->version[0] && d->hash[0] && d->targets[0]);
	CHECK(d->n_in == 1 && d->n_out == 2 && d->n_sym == 1 && !d->flags);
	CHECK(d->weights_size >= 16);
	for (int32_t i = 0; i < 3; i++) {
		const dl_io *io = i ? AT(dl_io, d->out, i - 1) : d->in;

		CHECK(io->dtype == DL_F32 && io->form == DL_TENSOR && io->rank == 2);
		CHECK(io->name[0] == "xyz"[i] && !io->name[1] && !(io->flags & DL_IO_HOST));
		CHECK(AT(dl_dim, io->dim, 0)->sym == 0 && AT(dl_dim, io->dim, 0)->value == -1);
		CHECK(AT(dl_dim, io->dim, 1)->sym == -1 && AT(dl_dim, io->dim, 1)->value == 4);
		CHECK(!strcmp(AT(dl_dim, io->dim, 1)->text, "4"));
	}
	CHECK(d->sym->kind == DL_SYM_INPUT && !strcmp(d->sym->name, "N"));
	CHECK(d->sym->lower == 0 && d->sym->upper == DL_UNLIMITED);
	CHECK(!strcmp(api->status_text(DL_BUSY), "in use"));
}

static dl_model *load(const dl_api *api, bool own_threads)
{
	const bool compiled = strcmp(api->describe()->hash, "0"); /* else by hand, without a hash */
	dl_load_options o = {.size = sizeof(o),
			     .threads = 3,
			     .user = x,
			     .log = log_line,
			     .alloc = take,
			     .free = give,
			     .executor = own_threads ? NULL : execute,
			     .executor_threads = 3,
			     .profile = 1,
			     .flags = compiled ? DL_LOAD_CHECK_WEIGHTS : 0,
			     .device = "cpu"};
	dl_model *m = NULL;
	dl_context *c = NULL;

	CHECK(api->load(&o, &m) == DL_OK);
#ifdef GROWN
	if (!grown_runtime) {
		dl_model *other = NULL;

		o.appended[1] = 1; /* the library does not know this member: it says so */
		CHECK(api->load(&o, &other) == DL_ABI && !other);
		CHECK(strstr(api->error(NULL), "a dl_load_options sets byte "));
	}
#endif
	return m;
}

/* A context in memory of the caller. */
static dl_context *context(const dl_api *api, dl_model *m, void **workspace)
{
	int64_t N = ROWS;
	dl_workspace w = {.size = sizeof(w)};
	dl_context_options o = {.size = sizeof(o), .n_dims = 1, .max_dims = &N};
	dl_context *c = NULL;

	CHECK(api->workspace(m, &N, 1, &w) == DL_OK);
	CHECK(w.size == sizeof(w) && w.align == 64 && w.host_bytes < 100 * COUNT &&
	      !w.device_bytes);
	o.workspace = *workspace = aligned_alloc(64, (w.host_bytes + 64) / 64 * 64);
	o.workspace_bytes = w.host_bytes;
	CHECK(api->context(m, &o, &c) == DL_OK);
	CHECK(api->prepare(c, &N, 1) == DL_OK);
	return c;
}

static void run(const dl_api *api, dl_context *c)
{
	dl_model *m = NULL;
	dl_tensor in = tensor(x, shape);
	dl_tensor out[2] = {tensor(y, out_shape[0]), tensor(z, out_shape[1])};

	CHECK(api->infer_shapes(c, &in, 1, out, 2) == DL_OK);
	CHECK(out_shape[0][0] == ROWS && out_shape[1][1] == COLUMNS && out[1].bytes == sizeof(z));
	CHECK(api->run(c, &in, 1, out, 2, NULL) == DL_OK && right(y, 1) && right(z, 2));
	CHECK(out[1].size == sizeof(*out) && out[1].rank == 2 && out[1].data == z);
	out[1].data = NULL; /* served by the context */
	CHECK(api->run(c, &in, 1, out, 2, NULL) == DL_OK && out[1].data && right(out[1].data, 2));
	CHECK(out[1].bytes >= sizeof(z));
	api->cancel(c);
	CHECK(api->run(c, &in, 1, out, 2, NULL) == DL_CANCELLED && api->error(c)[0]);
	CHECK(api->wait(c) == DL_OK);
	shape[1] = 5;
	CHECK(api->run(c, &in, 1, out, 2, NULL) == DL_SHAPE);
	CHECK(!strcmp(api->error(c), "input \"x\": dim 1 is 5, expected 4"));
	shape[1] = COLUMNS;
}

static void profile(const dl_api *api, dl_model *m)
{
	dl_profile_entry e = {.size = sizeof(e)};
	dl_device_info info = {.size = sizeof(info)};
	dl_context *c = NULL;
	int32_t n = 0;

	while (api->profile(m, n, &e) == DL_OK) {
		CHECK(e.size == sizeof(e) && e.name[0] && e.calls >= 2);
		n++;
	}
	CHECK(n > 0 && !strcmp(api->device(m), "cpu"));
	CHECK(api->device_info(m, &info) == DL_TARGET);
}

static void use(const dl_api *api, bool own_threads)
{
	dl_context *c = NULL;
	dl_model *m = load(api, own_threads);
	void *workspace;

	describe(api, m, c);
	if (!m)
		return;
	c = context(api, m, &workspace);
	if (c) {
		run(api, c);
		profile(api, m);
		CHECK(api->unload(m) == DL_BUSY && api->error(m)[0]);
		api->context_free(c);
		c = NULL;
	}
	CHECK(api->unload(m) == DL_OK);
	CHECK(lines > 0 && (own_threads || parts > 0));
	free(workspace);
}

int main(int argc, char **argv)
{
	void *so = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	dl_get_api_fn get_api = NULL;
	const dl_api *api;

	if (so)
		*(void **)(void *)&get_api = dlsym(so, "relu_mul_get_api");
	api = get_api ? get_api(DL_ABI_VERSION) : NULL;
	if (!api || get_api(DL_ABI_VERSION + 1))
		return fprintf(stderr, "%s: no API: %s\n", argv[1],
			       so ? "" : "usage: program LIBRARY RUNTIME"),
		       1;
	grown_runtime = !strcmp(argv[2], "grown");
	for (int i = 0; i < COUNT; i++)
		x[i] = (float)(i % 17 - 8);
	for (int own_threads = 0; own_threads < 2; own_threads++)
		use(api, own_threads);
	return failures > 0;
}
