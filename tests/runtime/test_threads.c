/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of threads and processes: concurrent runs, fork, dlclose, executors, and what a profile
 * tells. */
#include "tests/runtime/test_runtime.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

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

void test_concurrent(void)
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
void test_errors_of_threads(void)
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
void test_fork(void)
{
#if defined(__SANITIZE_THREAD__)
	return; /* gcc's TSan cannot start threads in a forked child; clang's can */
#endif
	const dl_api *api = open_api("relu_mul", NULL);
	dl_model *m = load(api, 4);
	dl_context *c;
	int status = 0;

	c = context(api, m);
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
	unload(api, m, c);
}

/* A child that closes all descriptors, as a daemon does, and opens others: none of those is the
 * runtime's to close. */
void test_fork_and_descriptors(void)
{
	const dl_api *api = open_api("relu_mul", NULL);
	dl_model *m = load(api, 1);
	dl_context *c;
	pid_t pid;
	int status = 0;

	c = context(api, m);
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
	unload(api, m, c);
}

void test_dlclose(void)
{
	int tasks = 0, fds = 0;

	for (int i = 0; i < 20; i++) {
		void *h;
		const dl_api *api = open_api("relu_mul", &h);
		dl_model *m = load(api, 1 + i % 4);
		dl_context *c;

		CHECK(i % 4 || count_dir("/proc/self/task") <= (i ? tasks : 1000));
		c = context(api, m);
		CHECK(run_relu(api, c, 1000));
		unload(api, m, c);
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

void test_executor_and_cancel(void)
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
	c = context(api, m);
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
	unload(api, m, c);
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

void test_busy(void)
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

/* Runs the model that computes slices of 3 rows, with X[AT] as given; returns the status. */
static int run_with(const dl_api *api, dl_context *c, int64_t N, int64_t at, float value)
{
	static float x[400], y[400], z[400];
	int64_t shape[2] = {N, 4}, sy[2], sz[2];
	dl_tensor in = tensor(DL_F32, 2, shape, x, 0);
	dl_tensor out[2] = {tensor(DL_F32, 2, sy, y, sizeof(y)),
			    tensor(DL_F32, 2, sz, z, sizeof(z))};
	int rc;

	x[at] = value;
	rc = api->run(c, &in, 1, out, 2, NULL);
	x[at] = 0;
	return rc;
}

/* From two slices for each thread on, each thread computes slices on its own: their failures are
 * reported once, and a workspace for the largest batch holds all smaller ones. */
void test_slices(void)
{
	const dl_api *api = open_api("relu_mul_slices", NULL);
	dl_load_options o = {.size = sizeof(o), .user = &canceller, .executor = reverse};

	for (int32_t threads = 1; threads < 8; threads++) {
		int64_t most = 1 + 5 * threads * threads;
		dl_context_options co = {.size = sizeof(co), .n_dims = 1, .max_dims = &most};
		dl_workspace w = {.size = sizeof(w)};
		dl_context *c;
		dl_model *m;

		o.executor = threads % 4 == 3 ? reverse : NULL;
		o.threads = o.executor_threads = threads;
		EXPECT(DL_OK, api->load(&o, &m), NULL);
		EXPECT(DL_OK, api->workspace(m, &most, 1, &w), m);
		co.workspace = aligned_alloc(w.align, w.host_bytes);
		co.workspace_bytes = w.host_bytes;
		EXPECT(DL_OK, api->context(m, &co, &c), m);
		for (int64_t N = most; N >= 0; N--)
			CHECK(run_relu(api, c, N));
		if (o.executor) { /* two slices for each thread: one job, and no other is divided */
			canceller = (Canceller){api, NULL, 0};
			CHECK(run_relu(api, c, 6 * threads - 1) && canceller.calls == 0);
			CHECK(run_relu(api, c, 6 * threads + 2) && canceller.calls == 1);
		}
		for (int64_t N = 6 * threads; N <= 6 * threads + 2; N += 2) {
			for (int64_t row = 0; row < N; row++) {
				EXPECT(DL_INDEX, run_with(api, c, N, 4 * row, 3000), c);
				CHECK(strstr(api->error(c),
					     "/Add\": a value is too large: 3000, in a dim of "
					     "1000"));
			}
			EXPECT(DL_OK, run_with(api, c, N, 0, 0), c);
		}
		api->cancel(c);
		EXPECT(DL_CANCELLED, run_with(api, c, 6 * threads + 2, 0, 0), c);
		CHECK(api->error(c)[0] && run_relu(api, c, most));
		unload(api, m, c);
		free(co.workspace);
	}
}

void test_profile(void)
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
	c = context(api, m);
	CHECK(run_relu(api, c, 1000) && run_relu(api, c, 1000));
	EXPECT(DL_OK, api->profile(m, 0, &e), m);
	CHECK(!strcmp(e.name, "/Mul, /Relu") && e.calls == 2 && e.nanoseconds > 0);
	EXPECT(DL_INVALID, api->profile(m, 3, &e), m);
	unload(api, m, c);
	snprintf(path, sizeof(path), "%s/trace-relu_mul-%d.json", dir, (int)getpid());
	f = fopen(path, "r");
	CHECK(f && fread(text, 1, sizeof(text) - 1, f) > 100);
	CHECK(strstr(text, "\"traceEvents\"") && strstr(text, "\"name\":\"/Mul, /Relu\""));
	CHECK(strstr(text, "\"dropped\":0,\"kernels\":["));
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
