/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtriton_dlcc.so: models that dlcc compiled, in Triton Inference Server (docs/serving.md).
 *
 * A model of the server is one dl_model for each device, which its instances share; an instance is a dl_context with a workspace
 * of its own. The server hands an instance the requests that it has batched. Those whose shapes agree but for the batch run at once:
 * their tensors are the pieces of the model's (DL_PIECES), and the run reads requests and writes responses where they are. Requests are
 * only batched along a dim that the compiler has proved independent, so an answer does not depend on what it was batched with.
 */
#include "serving/triton/backend.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	MOST_RANK = 16,
	WATCH_MS = 5, /* how often cancellation is looked at */
};

/* The shape that a client sees of a tensor without dims: the server has none. */
static const int64_t SINGLE[] = {1};

/* A tensor of a request: an input, or an output of its response. */
typedef struct Slot {
	dl_tensor t;
	int64_t shape[MOST_RANK];
	void *own; /* what a copy of several buffers, or an array of strings, is in */
	dl_str *strings;
	bool wanted, on_gpu;
} Slot;

/* A request and its answer; SLOT has the inputs and then the outputs. */
typedef struct Job {
	Request *request;
	Response *response;
	Error *error;
	Slot *slot;
	bool done;
} Job;

/* One of the server's instances. LOCK guards what the watching thread reads: the requests of the current run. */
typedef struct Instance {
	Served *served;
	ServerInstance *server;
	dl_context *context;
	int32_t device; /* -1: the CPU */
	Job *job, **group;
	dl_tensor *whole, *piece; /* the tensors of a run, and their pieces */
	uint32_t room, running;
	bool ends, cancelled;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t watcher;
} Instance;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Logs ERROR, which nobody can be told. */
static void drop(Error *error)
{
	if (!error)
		return;
	TRITONSERVER_LogMessage(LOG_ERROR, __FILE__, __LINE__, TRITONSERVER_ErrorMessage(error));
	TRITONSERVER_ErrorDelete(error);
}

static const dl_io *io_of(const Served *s, int32_t i)
{
	return i < s->desc->n_in ? dl_desc_in(s->desc, i) : dl_desc_out(s->desc, i - s->desc->n_in);
}

/* ---- Inputs ---- */

/* Whether the run can read S's elements at FROM. Strings are read byte by byte. */
static bool is_aligned(const Slot *s, const void *from)
{
	return s->t.dtype == DL_STR || (uintptr_t)from % type_bytes(s->t.dtype) == 0;
}

/* The bytes of INPUT, of N buffers, in one that is aligned for elements: the server's own, or a copy, S->own. */
static Error *one_buffer(const Instance *x, Slot *s, Input *input, const char *name, uint32_t n,
			 uint64_t bytes)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < n; i++) {
		MemoryType type = MEMORY_CPU;
		int64_t device = 0;
		const void *from;
		uint64_t size;

		TRY(TRITONBACKEND_InputBuffer(input, i, &from, &size, &type, &device));
		s->on_gpu = type == MEMORY_GPU;
		if (s->on_gpu &&
		    (n > 1 || device != x->device || s->t.dtype == DL_STR || !is_aligned(s, from)))
			return error_of(
				ERROR_UNSUPPORTED,
				"input \"%s\" is in the memory of GPU %d, in several pieces, unaligned, of strings, or of a model that runs elsewhere; send it in host memory",
				name, (int)device);
		if (n == 1 && is_aligned(s, from)) {
			s->t.data = (void *)(uintptr_t)from;
			return NULL;
		}
		if (!s->own && !(s->own = malloc(bytes + 1)))
			return error_of(ERROR_UNAVAILABLE,
					"no memory for the %llu bytes of input \"%s\"",
					(unsigned long long)bytes, name);
		if (size > bytes - at)
			return error_of(ERROR_INVALID_ARG,
					"input \"%s\" has more than the %llu bytes that it says",
					name, (unsigned long long)bytes);
		memcpy((char *)s->own + at, from, size);
		at += size;
	}
	s->t.data = s->own;
	return NULL;
}

/* S's N strings, from the server's form: each after its length in 32 bits. */
static Error *take_strings(Slot *s, const char *name, uint64_t bytes, uint64_t n)
{
	const char *data = s->t.data;
	uint64_t at = 0, i;

	if (n > bytes / 4 || !(s->strings = malloc((n + 1) * sizeof *s->strings)))
		return error_of(ERROR_INVALID_ARG,
				"input \"%s\" has %llu bytes, too few for %llu strings", name,
				(unsigned long long)bytes, (unsigned long long)n);
	for (i = 0; i < n && bytes - at >= 4; i++) {
		uint32_t length;

		memcpy(&length, data + at, 4);
		if (length > bytes - at - 4)
			break;
		s->strings[i] = (dl_str){data + at + 4, length};
		at += 4 + (uint64_t)length;
	}
	if (i < n || at != bytes)
		return error_of(
			ERROR_INVALID_ARG,
			"input \"%s\": its %llu bytes are not %llu strings with their lengths",
			name, (unsigned long long)bytes, (unsigned long long)n);
	s->t.data = s->strings;
	return NULL;
}

/* Input I of the model from J's request. */
static Error *take_input(const Instance *x, Job *j, int32_t i)
{
	const dl_io *io = io_of(x->served, i);
	Slot *s = &j->slot[i];
	Input *input;
	Error *missing = TRITONBACKEND_RequestInput(j->request, io->name, &input);
	const int64_t *shape;
	uint32_t rank, buffers;
	uint64_t bytes, n = 1, size;
	DataType type;

	s->t = dl_tensor_of(io->dtype, io->rank, s->shape, NULL, 0);
	if (missing) {
		if (!(io->flags & DL_IO_DEFAULT))
			return missing;
		TRITONSERVER_ErrorDelete(missing);
		return NULL;
	}
	TRY(TRITONBACKEND_InputProperties(input, NULL, &type, &shape, &rank, &bytes, &buffers));
	if (!io->rank && rank == 1 && *shape == 1)
		rank = 0; /* SINGLE */
	if (type != server_type(io->dtype) || (int32_t)rank != io->rank)
		return error_of(
			ERROR_INVALID_ARG,
			"input \"%s\" has %u dims and type %d, and the model's has %d dims and type %d",
			io->name, rank, (int)type, io->rank, (int)server_type(io->dtype));
	for (uint32_t d = 0; d < rank; d++) {
		s->shape[d] = shape[d];
		if (shape[d] < 0 || __builtin_mul_overflow(n, (uint64_t)shape[d], &n))
			return error_of(ERROR_INVALID_ARG, "input \"%s\": dim %u is %lld", io->name,
					d, (long long)shape[d]);
	}
	TRY(one_buffer(x, s, input, io->name, buffers, bytes));
	if (io->dtype == DL_STR)
		TRY(take_strings(s, io->name, bytes, n));
	else if (__builtin_mul_overflow(n, type_bytes(io->dtype), &size) || size != bytes)
		return error_of(ERROR_INVALID_ARG,
				"input \"%s\" has %llu bytes, and its shape %llu elements",
				io->name, (unsigned long long)bytes, (unsigned long long)n);
	s->t.bytes = n * type_bytes(io->dtype);
	return NULL;
}

/* J's inputs, and which outputs it wants. */
static Error *take(const Instance *x, Job *j)
{
	const dl_desc *desc = x->served->desc;
	uint32_t n;
	bool cancelled;

	TRY(TRITONBACKEND_ResponseNew(&j->response, j->request));
	TRY(TRITONBACKEND_RequestIsCancelled(j->request, &cancelled));
	if (cancelled)
		return error_of(ERROR_CANCELLED, "the request was cancelled before it ran");
	for (int32_t i = 0; i < desc->n_in; i++)
		TRY(take_input(x, j, i));
	TRY(TRITONBACKEND_RequestOutputCount(j->request, &n));
	for (uint32_t i = 0; i < n; i++) {
		const char *name;
		int32_t o;

		TRY(TRITONBACKEND_RequestOutputName(j->request, i, &name));
		o = dl_desc_find_out(desc, name);
		if (o < 0)
			return error_of(ERROR_INVALID_ARG, "the model has no output \"%s\"", name);
		j->slot[desc->n_in + o].wanted = true;
	}
	return NULL;
}

/* ---- Outputs ---- */

/* Gives output number I of J, of its present shape, memory of the response. */
static Error *place_output(const Instance *x, Job *j, int32_t i, uint64_t bytes, void **data)
{
	const dl_io *io = io_of(x->served, i);
	Slot *s = &j->slot[i];
	MemoryType type = MEMORY_CPU;
	int64_t device = 0;
	Output *output;

	TRY(TRITONBACKEND_ResponseOutput(j->response, &output, io->name, server_type(io->dtype),
					 s->t.rank ? s->shape : SINGLE, s->t.rank ? (uint32_t)s->t.rank : 1));
	TRY(TRITONBACKEND_OutputBuffer(output, data, bytes, &type, &device));
	if (type == MEMORY_GPU)
		return error_of(ERROR_UNSUPPORTED,
				"output \"%s\" is wanted in a GPU's memory; take it in host memory",
				io->name);
	return NULL;
}

static uint64_t bytes_of(const Slot *s)
{
	uint64_t n = type_bytes(s->t.dtype);

	for (int32_t d = 0; d < s->t.rank; d++)
		n *= (uint64_t)s->shape[d];
	return n;
}

/* Copies output I of J, whose memory the context has, into the response. */
static Error *copy_output(const Instance *x, Job *j, int32_t i)
{
	const Slot *s = &j->slot[i];
	const dl_str *strings = s->t.data;
	const uint64_t n = bytes_of(s) / type_bytes(s->t.dtype);
	uint64_t bytes = 0;
	void *data;
	char *to;

	if (s->t.dtype != DL_STR) {
		TRY(place_output(x, j, i, bytes_of(s), &data));
		memcpy(data, s->t.data, bytes_of(s));
		return NULL;
	}
	for (uint64_t k = 0; k < n; k++)
		bytes += 4 + strings[k].n;
	TRY(place_output(x, j, i, bytes, &data));
	to = data;
	for (uint64_t k = 0; k < n; k++) {
		const uint32_t length = (uint32_t)strings[k].n;

		memcpy(to, &length, 4);
		memcpy(to + 4, strings[k].p, length);
		to += 4 + length;
	}
	return NULL;
}

/* ---- A run ---- */

static Error *error_of_run(const Instance *x, int rc)
{
	const ErrorCode code = rc == DL_CANCELLED ? ERROR_CANCELLED
			       : rc == DL_NOMEM   ? ERROR_UNAVAILABLE
			       : rc == DL_SHAPE || rc == DL_INDEX || rc == DL_INVALID ||
					       rc == DL_RUNTIME
				       ? ERROR_INVALID_ARG
				       : ERROR_INTERNAL;

	return error_of(code, "%s: %s", x->served->api->status_text(rc),
			x->served->api->error(x->context));
}

/* Sets the shapes of the outputs of the N jobs of X->group, of which the first is asked: they differ in the batch at most. Sets
 * *COMPUTED if the run computes one of them. */
static Error *shape_outputs(Instance *x, uint32_t n, bool *computed)
{
	const Served *s = x->served;
	const int32_t n_in = s->desc->n_in, n_out = s->desc->n_out;
	Job *first = x->group[0];
	int rc;

	for (int32_t i = 0; i < n_in; i++)
		x->whole[i] = first->slot[i].t;
	for (int32_t o = 0; o < n_out; o++)
		x->whole[n_in + o] = dl_tensor_of(0, MOST_RANK, first->slot[n_in + o].shape, NULL,
						  0);
	rc = s->api->infer_shapes(x->context, x->whole, n_in, x->whole + n_in, n_out);
	if (rc)
		return error_of_run(x, rc);
	for (int32_t o = 0; o < n_out; o++)
		for (uint32_t k = 0; k < n; k++) {
			Slot *to = &x->group[k]->slot[n_in + o];

			memmove(to->shape, first->slot[n_in + o].shape, sizeof to->shape);
			if (k)
				to->shape[0] = x->group[k]->slot[0].shape[0];
			to->t = dl_tensor_of(io_of(s, n_in + o)->dtype, x->whole[n_in + o].rank,
					     to->shape, NULL, 0);
			for (int32_t d = 0; d < to->t.rank; d++)
				*computed = *computed || to->shape[d] < 0;
		}
	return NULL;
}

/* Places the outputs whose sizes are known and that are wanted. The context has memory for the others. */
static Error *place_outputs(Instance *x, uint32_t n, bool computed)
{
	const int32_t n_in = x->served->desc->n_in, all = n_in + x->served->desc->n_out;

	for (uint32_t k = 0; k < n; k++)
		for (int32_t i = n_in; i < all; i++) {
			Slot *s = &x->group[k]->slot[i];

			if (!s->wanted || computed || s->t.dtype == DL_STR)
				continue;
			s->t.bytes = bytes_of(s);
			TRY(place_output(x, x->group[k], i, s->t.bytes, &s->t.data));
		}
	return NULL;
}

/* The tensors of a run: those of the one job, or of N jobs as pieces. */
static void assemble(Instance *x, uint32_t n)
{
	const int32_t all = x->served->desc->n_in + x->served->desc->n_out;

	for (int32_t i = 0; i < all; i++) {
		dl_tensor *pieces = x->piece + (size_t)i * x->room;

		x->whole[i] = x->group[0]->slot[i].t;
		if (n == 1 || (i >= x->served->desc->n_in && !x->group[0]->slot[i].wanted))
			continue;
		for (uint32_t k = 0; k < n; k++)
			pieces[k] = x->group[k]->slot[i].t;
		x->whole[i].form = DL_PIECES;
		x->whole[i].items = pieces;
		x->whole[i].n_items = n;
	}
}

/* Runs the N jobs of X->group. cancel stops the next run if the one that it is for has ended meanwhile; such a run is repeated. */
static int run(Instance *x, uint32_t n)
{
	const Served *s = x->served;
	bool meant;
	int rc;

	do {
		assemble(x, n);
		pthread_mutex_lock(&x->lock);
		x->running = n;
		x->cancelled = false;
		pthread_cond_signal(&x->wake);
		pthread_mutex_unlock(&x->lock);
		rc = s->api->run(x->context, x->whole, s->desc->n_in, x->whole + s->desc->n_in,
				 s->desc->n_out, NULL);
		pthread_mutex_lock(&x->lock);
		x->running = 0;
		meant = x->cancelled;
		pthread_mutex_unlock(&x->lock);
	} while (rc == DL_CANCELLED && !meant);
	return rc;
}

static Error *run_group(Instance *x, uint32_t n)
{
	const int32_t n_in = x->served->desc->n_in, all = n_in + x->served->desc->n_out;
	bool computed = false;
	int rc;

	TRY(shape_outputs(x, n, &computed));
	TRY(place_outputs(x, n, computed));
	rc = run(x, n);
	if (rc)
		return error_of_run(x, rc);
	for (int32_t i = n_in; i < all && n == 1; i++) {
		Slot *s = &x->group[0]->slot[i];

		if (!s->wanted || s->t.data)
			continue;
		s->t = x->whole[i];
		TRY(copy_output(x, x->group[0], i));
	}
	return NULL;
}

/* Whether the jobs may run as one: their inputs have the same shapes but for the batch, and they want the same. */
static bool agree(const Instance *x, const Job *a, const Job *b)
{
	const Served *s = x->served;

	if (!s->batched || s->has_strings || (s->desc->flags & DL_DESC_UNBOUNDED))
		return false;
	for (int32_t i = 0; i < s->desc->n_in + s->desc->n_out; i++) {
		const Slot *u = &a->slot[i], *v = &b->slot[i];

		if (u->wanted != v->wanted || u->on_gpu || v->on_gpu)
			return false;
		if (i < s->desc->n_in && (!u->t.data || !v->t.data ||
					  memcmp(u->shape + 1, v->shape + 1,
						 (size_t)(u->t.rank - 1) * sizeof *u->shape)))
			return false;
	}
	return true;
}

/* Runs J by itself, after a fault of the group that it was in, so that only the request with the fault fails. */
static Error *run_alone(Instance *x, Job *j)
{
	drop(TRITONBACKEND_ResponseDelete(j->response));
	j->response = NULL;
	TRY(TRITONBACKEND_ResponseNew(&j->response, j->request));
	x->group[0] = j;
	return run_group(x, 1);
}

/* Runs job K of COUNT and the later ones that agree with it. */
static void run_from(Instance *x, uint32_t k, uint32_t count)
{
	Error *error;
	uint32_t n = 0;

	for (uint32_t i = k; i < count; i++)
		if (!x->job[i].done && (i == k || agree(x, &x->job[k], &x->job[i]))) {
			x->job[i].done = true;
			x->group[n++] = &x->job[i];
		}
	error = run_group(x, n);
	if (!error)
		return;
	if (n == 1) {
		x->group[0]->error = error;
		return;
	}
	TRITONSERVER_ErrorDelete(error);
	for (uint32_t i = 0; i < n; i++) {
		Job *j = x->group[i];

		j->error = x->cancelled ? error_of(ERROR_CANCELLED, "the request was cancelled")
					: run_alone(x, j);
	}
}

/* ---- Requests ---- */

/* Room for N jobs and their tensors. */
static Error *make_room(Instance *x, uint32_t n)
{
	const uint32_t ios = (uint32_t)(x->served->desc->n_in + x->served->desc->n_out);
	Job *jobs;
	Slot *slots;

	if (n <= x->room)
		return NULL;
	jobs = calloc(n, sizeof *jobs);
	slots = calloc((size_t)n * ios + 1, sizeof *slots);
	if (jobs && slots) {
		free(x->job ? x->job->slot : NULL);
		free(x->job);
		free(x->group);
		free(x->piece);
		x->job = jobs;
		x->group = calloc(n, sizeof *x->group);
		x->piece = calloc((size_t)n * ios + 1, sizeof *x->piece);
		x->room = x->group && x->piece ? n : 0;
		for (uint32_t i = 0; i < n; i++)
			jobs[i].slot = slots + (size_t)i * ios;
		if (x->room)
			return NULL;
	} else {
		free(jobs);
		free(slots);
	}
	return error_of(ERROR_UNAVAILABLE, "no memory for %u requests", n);
}

/* Sends J's answer, and forgets the request. */
static void answer(Instance *x, Job *j, uint64_t begin, uint64_t compute, uint64_t computed)
{
	const int32_t all = x->served->desc->n_in + x->served->desc->n_out;

	if (j->response)
		drop(TRITONBACKEND_ResponseSend(j->response, RESPONSE_FINAL, j->error));
	drop(TRITONBACKEND_ModelInstanceReportStatistics(x->server, j->request, !j->error, begin,
							 compute, computed, now()));
	drop(TRITONBACKEND_RequestRelease(j->request, RELEASE_ALL));
	if (j->error)
		TRITONSERVER_ErrorDelete(j->error);
	for (int32_t i = 0; i < all; i++) {
		free(j->slot[i].own);
		free(j->slot[i].strings);
	}
}

Error *TRITONBACKEND_ModelInstanceExecute(ServerInstance *instance, Request **requests,
					  uint32_t count)
{
	const uint64_t begin = now();
	uint64_t compute, computed, size = 0;
	Instance *x;
	void *state;

	TRY(TRITONBACKEND_ModelInstanceState(instance, &state));
	x = state;
	TRY(make_room(x, count));
	for (uint32_t i = 0; i < count; i++) {
		Job *j = &x->job[i];
		Slot *slot = j->slot;

		memset(slot, 0,
		       (size_t)(x->served->desc->n_in + x->served->desc->n_out) * sizeof *slot);
		*j = (Job){.request = requests[i], .slot = slot};
		j->error = take(x, j);
		j->done = j->error;
		size += !j->done ? x->served->batched ? (uint64_t)slot[0].shape[0] : 1 : 0;
	}
	compute = now();
	for (uint32_t i = 0; i < count; i++)
		if (!x->job[i].done)
			run_from(x, i, count);
	computed = now();
	for (uint32_t i = 0; i < count; i++)
		answer(x, &x->job[i], begin, compute, computed);
	if (size)
		drop(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, size, begin,
								      compute, computed, now()));
	return NULL;
}

/* ---- Cancellation ---- */

/* Whether all requests of the run are cancelled. */
static bool all_cancelled(const Instance *x)
{
	bool cancelled = x->running > 0;

	for (uint32_t i = 0; i < x->running && cancelled; i++) {
		Error *error = TRITONBACKEND_RequestIsCancelled(x->group[i]->request, &cancelled);

		cancelled = !error && cancelled;
		drop(error);
	}
	return cancelled;
}

/* The thread that cancels a run once all of its requests are cancelled. It sleeps while there is no
 * run. */
static void *watch(void *arg)
{
	Instance *x = arg;

	pthread_mutex_lock(&x->lock);
	while (!x->ends) {
		struct timespec t;

		if (!x->running) {
			pthread_cond_wait(&x->wake, &x->lock);
			continue;
		}
		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_nsec += WATCH_MS * 1000000;
		t.tv_sec += t.tv_nsec / 1000000000;
		t.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&x->wake, &x->lock, &t);
		if (!x->cancelled && all_cancelled(x)) {
			x->cancelled = true;
			x->served->api->cancel(x->context);
		}
	}
	pthread_mutex_unlock(&x->lock);
	return NULL;
}

/* ---- Models and instances ---- */

Error *TRITONBACKEND_Initialize(Backend *backend)
{
	uint32_t major, minor;

	(void)backend;
	TRY(TRITONBACKEND_ApiVersion(&major, &minor));
	return major == API_MAJOR && minor >= API_MINOR
		       ? NULL
		       : error_of(
				 ERROR_UNSUPPORTED,
				 "the server has version %u.%u of the backend API, and the dlcc backend needs %d.%d or a later %d",
				 major, minor, API_MAJOR, API_MINOR, API_MAJOR);
}

/* The description of BYTES of memory of DEVICE, a GPU's number or -1. */
static Error *memory_of(int32_t device, uint64_t bytes, Memory **memory)
{
	Error *error;

	TRY(TRITONSERVER_BufferAttributesNew(memory));
	error = TRITONSERVER_BufferAttributesSetMemoryType(*memory,
							   device < 0 ? MEMORY_CPU : MEMORY_GPU);
	error = error ? error
		      : TRITONSERVER_BufferAttributesSetMemoryTypeId(*memory,
								     device < 0 ? 0 : device);
	error = error ? error : TRITONSERVER_BufferAttributesSetByteSize(*memory, bytes);
	if (error)
		drop(TRITONSERVER_BufferAttributesDelete(*memory));
	return error;
}

Error *TRITONBACKEND_ModelInitialize(ServerModel *model)
{
	Memory *memory;
	Served *s;
	Error *error;

	TRY(served_open(model, &s));
	error = memory_of(-1, s->desc->weights_size, &memory);
	if (!error) {
		error = TRITONBACKEND_ModelReportMemoryUsage(model, &memory, 1);
		drop(TRITONSERVER_BufferAttributesDelete(memory));
	}
	error = error ? error : TRITONBACKEND_ModelSetState(model, s);
	if (error)
		served_close(s);
	return error;
}

Error *TRITONBACKEND_ModelFinalize(ServerModel *model)
{
	void *state;

	TRY(TRITONBACKEND_ModelState(model, &state));
	if (state)
		served_close(state);
	return NULL;
}

/* Tells the server the memory of X's workspace for its largest batch, if that is known. */
static Error *report_memory(Instance *x)
{
	const dl_desc *desc = x->served->desc;
	int64_t *dims = malloc((size_t)(desc->n_sym + 1) * sizeof *dims);
	dl_workspace w = {.size = sizeof w};
	Memory *memory;
	Error *error;

	for (int32_t i = 0; dims && i < desc->n_sym; i++)
		dims[i] = x->served->batched && i == dl_io_dim(dl_desc_in(desc, 0), 0)->sym
				  ? x->served->most
				  : -1;
	if (!dims ||
	    x->served->api->workspace(x->served->model[1 + x->device], dims, desc->n_sym, &w)) {
		free(dims);
		return NULL; /* a dim has no bound */
	}
	free(dims);
	TRY(memory_of(x->device, x->device < 0 ? w.host_bytes : w.device_bytes, &memory));
	error = TRITONBACKEND_ModelInstanceReportMemoryUsage(x->server, &memory, 1);
	drop(TRITONSERVER_BufferAttributesDelete(memory));
	return error;
}

static void instance_free(Instance *x)
{
	if (x->watcher) {
		pthread_mutex_lock(&x->lock);
		x->ends = true;
		pthread_cond_signal(&x->wake);
		pthread_mutex_unlock(&x->lock);
		pthread_join(x->watcher, NULL);
	}
	if (x->context)
		x->served->api->context_free(x->context);
	free(x->job ? x->job->slot : NULL);
	free(x->job);
	free(x->group);
	free(x->piece);
	free(x->whole);
	free(x);
}

static Error *instance_open(Instance *x)
{
	const dl_context_options options = {.size = sizeof options, .flags = DL_CONTEXT_OWN_STREAM};
	ServerModel *model;
	dl_model *loaded;
	void *state;
	int kind;

	TRY(TRITONBACKEND_ModelInstanceModel(x->server, &model));
	TRY(TRITONBACKEND_ModelState(model, &state));
	x->served = state;
	TRY(TRITONBACKEND_ModelInstanceKind(x->server, &kind));
	x->device = -1;
	if (kind == GROUP_GPU)
		TRY(TRITONBACKEND_ModelInstanceDeviceId(x->server, &x->device));
	TRY(served_on(x->served, x->device, &loaded));
	x->whole = calloc((size_t)(x->served->desc->n_in + x->served->desc->n_out) + 1,
			  sizeof *x->whole);
	if (!x->whole)
		return error_of(ERROR_UNAVAILABLE, "no memory for an instance");
	if (x->served->api->context(loaded, &options, &x->context))
		return error_of(ERROR_UNAVAILABLE, "%s", x->served->api->error(loaded));
	if (pthread_create(&x->watcher, NULL, watch, x)) {
		x->watcher = 0;
		return error_of(ERROR_UNAVAILABLE, "no thread for an instance");
	}
	return report_memory(x);
}

Error *TRITONBACKEND_ModelInstanceInitialize(ServerInstance *instance)
{
	Instance *x = calloc(1, sizeof *x);
	Error *error;

	if (!x)
		return error_of(ERROR_UNAVAILABLE, "no memory for an instance");
	x->server = instance;
	pthread_mutex_init(&x->lock, NULL);
	pthread_cond_init(&x->wake, NULL);
	error = instance_open(x);
	error = error ? error : TRITONBACKEND_ModelInstanceSetState(instance, x);
	if (error)
		instance_free(x);
	return error;
}

Error *TRITONBACKEND_ModelInstanceFinalize(ServerInstance *instance)
{
	void *state;

	TRY(TRITONBACKEND_ModelInstanceState(instance, &state));
	if (state)
		instance_free(state);
	return NULL;
}
