/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much stack runs take: loads each model, makes a context, runs it and unloads it in a thread
 * with a stack of BYTES, and looks how far down the stack was written to.
 *
 *	stack BYTES LIBRARY ...     each LIBRARY is a path NAME.so
 *
 * Inputs are zeros; sizes that are not known are 40. Prints the most that a model took, and "N
 * passed, N failed".
 */
#include "tests/misuse/values.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>

enum { MOST = 256, RANK = 8, PAINT = 0x5a };

typedef struct Task {
	const dl_api *api;
	int status;
	char text[600];
} Task;

/* A tensor of zeros, or of empty strings. */
static dl_tensor input(const dl_io *io, int64_t *shape)
{
	int64_t n = 1;

	for (int32_t d = 0; d < io->rank; d++) {
		const dl_dim *dim = dl_io_dim(io, d);

		shape[d] = dim->value >= 0 ? dim->value : 40;
		n *= shape[d];
	}
	return dl_tensor_of(io->dtype, io->rank, shape, calloc((size_t)n, sizeof(dl_str)), 0);
}

static int run(const dl_api *api, dl_context *c)
{
	const dl_desc *d = api->describe();
	dl_tensor *in = calloc((size_t)d->n_in + 1, sizeof(*in)),
		  *out = calloc((size_t)d->n_out + 1, sizeof(*out));
	int64_t(*shape)[RANK] = calloc((size_t)(d->n_in + d->n_out) + 1, sizeof(*shape));
	int status;

	for (int32_t i = 0; i < d->n_in; i++) {
		const dl_io *io = dl_desc_in(d, i);

		if (io->form == DL_TENSOR) {
			in[i] = input(io, shape[i]);
			continue;
		}
		in[i] = dl_tensor_of(0, 0, NULL, NULL, 0);
		in[i].form = io->form;
	}
	for (int32_t o = 0; o < d->n_out; o++) {
		out[o] = dl_tensor_of(0, RANK, shape[d->n_in + o], NULL, 0);
		out[o].form = dl_desc_out(d, o)->form;
	}
	status = api->run(c, in, d->n_in, out, d->n_out, NULL);
	for (int32_t i = 0; i < d->n_in; i++)
		free(in[i].data);
	free(in);
	free(out);
	free(shape);
	return status;
}

static void *task(void *arg)
{
	Task *t = arg;
	dl_load_options o = {.size = sizeof(o), .threads = 1, .device = "cpu"};
	dl_model *m;
	dl_context *c;

	t->status = t->api->load(&o, &m);
	if (t->status)
		return NULL;
	t->status = t->api->context(m, NULL, &c);
	if (!t->status)
		t->status = run(t->api, c);
	snprintf(t->text, sizeof(t->text), "%s", t->api->error(c));
	t->api->context_free(c);
	t->api->unload(m);
	return NULL;
}

/* Whether the shapes are such that this program can make inputs. */
static bool can_run(const dl_desc *d)
{
	bool ok = d->n_in + d->n_out < MOST;

	for (int32_t i = 0; i < d->n_in; i++)
		ok = ok && dl_desc_in(d, i)->rank <= RANK;
	for (int32_t o = 0; o < d->n_out; o++)
		ok = ok && dl_desc_out(d, o)->rank <= RANK;
	return ok;
}

/* Runs T in a thread with a stack of BYTES at STACK. Returns the bytes that were written to. */
static size_t run_on(Task *t, char *stack, size_t bytes)
{
	pthread_attr_t attr;
	pthread_t thread;
	size_t free_bytes = 0;

	memset(stack, PAINT, bytes);
	pthread_attr_init(&attr);
	if (pthread_attr_setstack(&attr, stack, bytes) || pthread_create(&thread, &attr, task, t)) {
		printf("no thread with a stack of %zu bytes\n", bytes);
		exit(2);
	}
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	while (free_bytes < bytes && stack[free_bytes] == PAINT)
		free_bytes++;
	return bytes - free_bytes;
}

int main(int argc, char **argv)
{
	const size_t bytes = argc > 2 ? (size_t)atol(argv[1]) : 0, page = 4096;
	char *guarded = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const char *worst = "";
	size_t most = 0;
	int passed = 0, failed = 0, ran = 0;

	if (!bytes || guarded == MAP_FAILED || mprotect(guarded, page, PROT_NONE))
		return 2;
	for (int i = 2; i < argc; i++) {
		char folder[4096], *slash, *end;
		Task t = {0};
		size_t used;

		snprintf(folder, sizeof(folder), "%s", argv[i]);
		slash = strrchr(folder, '/');
		end = strrchr(folder, '.');
		if (!slash || !end)
			return 2;
		*slash = *end = '\0';
		t.api = open_api(folder, slash + 1);
		if (!can_run(t.api->describe()))
			continue;
		used = run_on(&t, guarded + page, bytes);
		if (used > most) {
			most = used;
			worst = argv[i];
		}
		ran += t.status == DL_OK;
		if (t.status == DL_NOMEM || t.status == DL_ABI)
			printf("FAIL: %s: %s\n", argv[i], t.text);
		*(t.status == DL_NOMEM || t.status == DL_ABI ? &failed : &passed) += 1;
		if (getenv("STACK_EACH"))
			printf("%zu %s %d %s\n", used, argv[i], t.status, t.text);
	}
	printf("%d of them ran to the end; the most stack was %zu bytes: %s\n", ran, most, worst);
	printf("%d passed, %d failed\n", passed, failed);
	return failed > 0;
}
