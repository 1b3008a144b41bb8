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
#include <unistd.h>

enum {
	MOST_RANK = 16,
	WATCH_US = 5000, /* how often cancellation is looked at */
};

/* The shape that a client sees of a tensor without dims: the server has none. */
static const int64_t SINGLE[] = {1};

/* A tensor of a request: an input, or an output of its response. */
typedef struct Slot {
	dl_tensor t;
	int64_t shape[MOST_RANK];
	void *own; /* what a copy of several buffers is in */
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
	int32_t device;          /* -1: the CPU */
	uint32_t count, running; /* requests: that the server has handed over; of the current run */
	Job *job, **group;
	dl_tensor *whole, *piece; /* the tensors of a run, and their pieces */
	bool ends, cancelled, used; /* used: there was a run since the watching thread looked last */
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

/* ---- Inputs ---- */

/* The BYTES of INPUT, of N buffers, in one that is aligned for elements: the server's own, or a copy, S->own. */
static Error *one_buffer(const Instance *x, Slot *s, Input *input, const char *name, uint32_t n,
			 uint64_t bytes)
{
	/* strings are read byte by byte */
	const uint32_t align = s->t.dtype == DL_STR ? 1 : server_type(s->t.dtype).bytes;
	uint64_t at = 0, size;
	const void *from;

	for (uint32_t i = 0; i < n; i++, at += size) {
		MemoryType type = MEMORY_CPU;
		int64_t device = 0;
		bool usable;

		TRY(TRITONBACKEND_InputBuffer(input, i, &from, &size, &type, &device));
		usable = n == 1 && (uintptr_t)from % align == 0;
		s->on_gpu = type == MEMORY_GPU;
		if (s->on_gpu && (!usable || device != x->device || s->t.dtype == DL_STR))
			return error_of(
				ERROR_UNSUPPORTED,
				"input \"%s\" is in the memory of GPU %d, in several pieces, unaligned, of strings, or of a model that runs elsewhere; send it in host memory",
				name, (int)device);
		if (size > bytes - at)
			return INVALID("input \"%s\" has more than the %llu bytes that it says",
				       name, (unsigned long long)bytes);
		s->t.data = (void *)(uintptr_t)from;
		if (usable)
			return NULL;
		if (!s->own && !(s->own = malloc(bytes + 1)))
			return NO_MEMORY(name);
		memcpy((char *)s->own + at, from, size);
	}
	s->t.data = s->own;
	return NULL;
}

/* S's N strings, from the server's form: each after its length in 32 bits. */
static Error *take_strings(Slot *s, const char *name, uint64_t bytes, uint64_t n)
{
	const char *data = s->t.data, *end = data + bytes;
	uint64_t i = 0;

	if (n <= bytes / 4 && !(s->strings = malloc((n + 1) * sizeof *s->strings)))
		return NO_MEMORY(name);
	for (uint32_t length; s->strings && i < n && end - data >= 4; i++, data += length) {
		memcpy(&length, data, 4);
		data += 4;
		if (length > (uint64_t)(end - data))
			break;
		s->strings[i] = (dl_str){data, length};
	}
	if (i < n || data != end)
		return INVALID(
			"input \"%s\": its %llu bytes are not %llu strings with their lengths",
			name, (unsigned long long)bytes, (unsigned long long)n);
	s->t.data = s->strings;
	return NULL;
}

/* Input I of the model from J's request. */
static Error *take_input(const Instance *x, Job *j, int32_t i)
{
	const dl_io *io = io_of(x->served, i);
	const ServerType wanted = server_type(io->dtype);
	Slot *s = &j->slot[i];
	Input *input;
	Error *missing = TRITONBACKEND_RequestInput(j->request, io->name, &input);
	const int64_t *shape;
	uint32_t rank, buffers;
	uint64_t bytes, n = 1;
	DataType type;

	s->t = dl_tensor_of(io->dtype, io->rank, s->shape, NULL, 0);
	if (missing && (io->flags & DL_IO_DEFAULT)) {
		TRITONSERVER_ErrorDelete(missing);
		return NULL;
	}
	TRY(missing);
	TRY(TRITONBACKEND_InputProperties(input, NULL, &type, &shape, &rank, &bytes, &buffers));
	if (!io->rank && rank == 1 && *shape == 1)
		rank = 0; /* SINGLE */
	if (type != wanted.type || (int32_t)rank != io->rank)
		return INVALID(
			"input \"%s\" has %u dims and type %d, and the model's has %d dims and type %d",
			io->name, rank, (int)type, io->rank, (int)wanted.type);
	for (uint32_t d = 0; d < rank; d++) {
		s->shape[d] = shape[d];
		if (shape[d] < 0 || __builtin_mul_overflow(n, (uint64_t)shape[d], &n))
			return INVALID("input \"%s\": dim %u is %lld", io->name, d,
				       (long long)shape[d]);
	}
	if (__builtin_mul_overflow(n, wanted.bytes, &s->t.bytes) ||
	    (io->dtype != DL_STR && s->t.bytes != bytes))
		return INVALID("input \"%s\" has %llu bytes, and its shape %llu elements", io->name,
			       (unsigned long long)bytes, (unsigned long long)n);
	TRY(one_buffer(x, s, input, io->name, buffers, bytes));
	return io->dtype == DL_STR ? take_strings(s, io->name, bytes, n) : NULL;
}

/* J's inputs, and which outputs it wants. */
static Error *take(const Instance *x, Job *j)
{
	const Served *s = x->served;
	uint32_t n;
	bool cancelled;

	TRY(TRITONBACKEND_ResponseNew(&j->response, j->request));
	TRY(TRITONBACKEND_RequestIsCancelled(j->request, &cancelled));
	if (cancelled)
		return error_of(ERROR_CANCELLED, "the request was cancelled before it ran");
	for (int32_t i = 0; i < s->n_in; i++)
		TRY(take_input(x, j, i));
	TRY(TRITONBACKEND_RequestOutputCount(j->request, &n));
	for (uint32_t i = 0; i < n; i++) {
		const char *name;
		int32_t o;

		TRY(TRITONBACKEND_RequestOutputName(j->request, i, &name));
		o = dl_desc_find_out(s->desc, name);
		if (o < 0)
			return INVALID("the model has no output \"%s\"", name);
		j->slot[s->n_in + o].wanted = true;
	}
	return NULL;
}

/* ---- Outputs ---- */

/* Gives output number I of J, of its present shape, memory of the response: of BYTES for strings. */
static Error *place_output(const Instance *x, Job *j, int32_t i, uint64_t bytes, void **data)
{
	const dl_io *io = io_of(x->served, i);
	const Slot *s = &j->slot[i];
	MemoryType type = MEMORY_CPU;
	int64_t device = 0;
	Output *output;

	TRY(TRITONBACKEND_ResponseOutput(j->response, &output, io->name,
					 server_type(io->dtype).type, s->t.rank ? s->shape : SINGLE,
					 s->t.rank ? (uint32_t)s->t.rank : 1));
	TRY(TRITONBACKEND_OutputBuffer(output, data, bytes, &type, &device));
	return type == MEMORY_GPU
		       ? error_of(
				 ERROR_UNSUPPORTED,
				 "output \"%s\" is wanted in a GPU's memory; take it in host memory",
				 io->name)
		       : NULL;
}

static uint64_t elements_of(const Slot *s)
{
	uint64_t n = 1;

	for (int32_t d = 0; d < s->t.rank; d++)
		n *= (uint64_t)s->shape[d];
	return n;
}

/* Copies output I of J, whose memory the context has, into the response. */
static Error *copy_output(const Instance *x, Job *j, int32_t i)
{
	const Slot *s = &j->slot[i];
	const dl_str *strings = s->t.data;
	const uint64_t n = elements_of(s);
	uint64_t bytes = s->t.dtype == DL_STR ? 0 : n * server_type(s->t.dtype).bytes;
	void *data;

	for (uint64_t k = 0; s->t.dtype == DL_STR && k < n; k++)
		bytes += 4 + strings[k].n;
	TRY(place_output(x, j, i, bytes, &data));
	if (s->t.dtype != DL_STR)
		memcpy(data, s->t.data, bytes);
	for (char *to = data; s->t.dtype == DL_STR && to < (char *)data + bytes; strings++) {
		const uint32_t length = (uint32_t)strings->n;

		memcpy(to, &length, 4);
		memcpy(to + 4, strings->p, length);
		to += 4 + length;
	}
	return NULL;
}

/* ---- A run ---- */

static Error *error_of_run(const Instance *x, int rc)
{
	const bool fault = rc == DL_SHAPE || rc == DL_INDEX || rc == DL_INVALID || rc == DL_RUNTIME;

	return error_of(rc == DL_CANCELLED ? ERROR_CANCELLED
			: rc == DL_NOMEM   ? ERROR_UNAVAILABLE
			: fault            ? ERROR_INVALID
					   : ERROR_INTERNAL,
			"%s: %s", x->served->api->status_text(rc),
			x->served->api->error(x->context));
}

/* Sets the shapes of the outputs of the N jobs of X->group: the first one's but for the batch. Places those whose sizes are known and that
 * are wanted. The context has memory for the others. */
static Error *place_outputs(Instance *x, uint32_t n)
{
	const Served *s = x->served;
	Job *first = x->group[0];
	int rc;

	for (int32_t i = 0; i < s->n_io; i++)
		x->whole[i] = i < s->n_in
				      ? first->slot[i].t
				      : dl_tensor_of(0, MOST_RANK, first->slot[i].shape, NULL, 0);
	rc = s->api->infer_shapes(x->context, x->whole, s->n_in, x->whole + s->n_in,
				  s->n_io - s->n_in);
	if (rc)
		return error_of_run(x, rc);
	for (int32_t i = s->n_in; i < s->n_io; i++)
		for (uint32_t k = 0; k < n; k++) {
			Slot *to = &x->group[k]->slot[i];
			bool placed = to->wanted && io_of(s, i)->dtype != DL_STR;

			memmove(to->shape, first->slot[i].shape, sizeof to->shape);
			if (k)
				to->shape[0] = x->group[k]->slot[0].shape[0];
			to->t = dl_tensor_of(io_of(s, i)->dtype, x->whole[i].rank, to->shape, NULL,
					     0);
			for (int32_t d = 0; d < to->t.rank; d++)
				placed = placed && to->shape[d] >= 0;
			if (!placed)
				continue;
			to->t.bytes = elements_of(to) * server_type(to->t.dtype).bytes;
			TRY(place_output(x, x->group[k], i, to->t.bytes, &to->t.data));
		}
	return NULL;
}

/* The tensors of a run: those of the one job, or of N jobs as pieces. */
static void assemble(Instance *x, uint32_t n)
{
	for (int32_t i = 0; i < x->served->n_io; i++) {
		const Slot *first = &x->group[0]->slot[i];
		dl_tensor *pieces = x->piece + (size_t)i * x->count;

		x->whole[i] = first->t;
		if (n == 1 || (i >= x->served->n_in && !first->wanted))
			continue;
		for (uint32_t k = 0; k < n; k++)
			pieces[k] = x->group[k]->slot[i].t;
		x->whole[i].form = DL_PIECES;
		x->whole[i].items = pieces;
		x->whole[i].n_items = n;
	}
}

/* Tells the watching thread that N jobs of X->group run, 0: none. Returns whether the run before was cancelled. */
static bool set_running(Instance *x, uint32_t n)
{
	bool cancelled;

	pthread_mutex_lock(&x->lock);
	cancelled = x->cancelled;
	x->running = n;
	x->used = true;
	x->cancelled = x->cancelled && !n;
	pthread_cond_signal(&x->wake);
	pthread_mutex_unlock(&x->lock);
	return cancelled;
}

/* Runs the N jobs of X->group. cancel stops the next run if the one that it is for has ended meanwhile; such a run is repeated. */
static Error *run_group(Instance *x, uint32_t n)
{
	const Served *s = x->served;
	bool meant;
	int rc;

	TRY(place_outputs(x, n));
	do {
		assemble(x, n);
		set_running(x, n);
		rc = s->api->run(x->context, x->whole, s->n_in, x->whole + s->n_in,
				 s->n_io - s->n_in, NULL);
		meant = set_running(x, 0);
	} while (rc == DL_CANCELLED && !meant);
	if (rc)
		return error_of_run(x, rc);
	for (int32_t i = s->n_in; i < s->n_io && n == 1; i++) {
		Slot *to = &x->group[0]->slot[i];

		if (!to->wanted || to->t.data)
			continue;
		to->t = x->whole[i];
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
	for (int32_t i = 0; i < s->n_io; i++) {
		const Slot *u = &a->slot[i], *v = &b->slot[i];

		if (u->wanted != v->wanted || u->on_gpu || v->on_gpu)
			return false;
		if (i < s->n_in &&
		    (!u->t.data || !v->t.data ||
		     memcmp(u->shape + 1, v->shape + 1, sizeof u->shape - sizeof *u->shape)))
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

/* Runs job K and the later ones that agree with it. */
static void run_from(Instance *x, uint32_t k)
{
	Error *error;
	uint32_t n = 0;
	bool cancelled;

	for (uint32_t i = k; i < x->count; i++)
		if (!x->job[i].done && (i == k || agree(x, &x->job[k], &x->job[i]))) {
			x->job[i].done = true;
			x->group[n++] = &x->job[i];
		}
	error = run_group(x, n);
	if (!error || n == 1) {
		x->group[0]->error = error;
		return;
	}
	TRITONSERVER_ErrorDelete(error);
	cancelled = x->cancelled;
	for (uint32_t i = 0; i < n; i++)
		x->group[i]->error = cancelled ? error_of(ERROR_CANCELLED,
							  "the request was cancelled")
					       : run_alone(x, x->group[i]);
}

/* ---- Requests ---- */

/* Jobs for the COUNT requests, with their tensors, in one piece of memory that begins with X->whole. */
static Error *take_all(Instance *x, Request **requests, uint32_t count)
{
	const size_t n = (size_t)x->served->n_io, slots = n * count;
	Slot *slot;

	x->whole = calloc(1, (n + slots) * sizeof *x->whole + slots * sizeof *slot +
				     count * (sizeof *x->job + sizeof *x->group));
	if (!x->whole)
		return NO_MEMORY("the requests");
	x->piece = x->whole + n;
	slot = (Slot *)(x->piece + slots);
	x->job = (Job *)(slot + slots);
	x->group = (Job **)(x->job + count);
	x->count = count;
	for (uint32_t i = 0; i < count; i++) {
		x->job[i] = (Job){.request = requests[i], .slot = slot + i * n};
		x->job[i].error = take(x, &x->job[i]);
		x->job[i].done = x->job[i].error;
	}
	return NULL;
}

/* Sends J's answer, and forgets the request. TIME: when execution, the run and the answers began. */
static void answer(const Instance *x, Job *j, const uint64_t *time)
{
	if (j->response)
		drop(TRITONBACKEND_ResponseSend(j->response, RESPONSE_FINAL, j->error));
	drop(TRITONBACKEND_ModelInstanceReportStatistics(x->server, j->request, !j->error, time[0],
							 time[1], time[2], now()));
	drop(TRITONBACKEND_RequestRelease(j->request, RELEASE_ALL));
	if (j->error)
		TRITONSERVER_ErrorDelete(j->error);
	for (int32_t i = 0; i < x->served->n_in; i++) {
		free(j->slot[i].own);
		free(j->slot[i].strings);
	}
}

Error *TRITONBACKEND_ModelInstanceExecute(ServerInstance *instance, Request **requests,
					  uint32_t count)
{
	uint64_t time[] = {now(), 0, 0}, size = 0;
	Instance *x;
	void *state;

	TRY(TRITONBACKEND_ModelInstanceState(instance, &state));
	x = state;
	TRY(take_all(x, requests, count));
	time[1] = now();
	for (uint32_t i = 0; i < count; i++) {
		size += x->job[i].error      ? 0
			: x->served->batched ? (uint64_t)x->job[i].slot->shape[0]
					     : 1;
		if (!x->job[i].done)
			run_from(x, i);
	}
	time[2] = now();
	for (uint32_t i = 0; i < count; i++)
		answer(x, &x->job[i], time);
	free(x->whole);
	if (size)
		drop(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, size, time[0],
								      time[1], time[2], now()));
	return NULL;
}

/* ---- Cancellation ---- */

/* Whether all requests of the run are cancelled. */
static bool all_cancelled(const Instance *x)
{
	bool cancelled = x->running > 0;

	for (uint32_t i = 0; i < x->running && cancelled; i++)
		if (TRITONBACKEND_RequestIsCancelled(x->group[i]->request, &cancelled))
			return false;
	return cancelled;
}

/* The thread that cancels a run once all of its requests are cancelled. It waits while there are no runs; short ones, one after the other,
 * do not wake it each. */
static void *watch(void *arg)
{
	Instance *x = arg;

	pthread_mutex_lock(&x->lock);
	while (!x->ends) {
		if (!x->used) {
			pthread_cond_wait(&x->wake, &x->lock);
			continue;
		}
		x->used = x->running > 0;
		pthread_mutex_unlock(&x->lock);
		usleep(WATCH_US);
		pthread_mutex_lock(&x->lock);
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

/* Tells the server the BYTES of memory of DEVICE that MODEL needs, or INSTANCE if it is not null. */
static Error *report_memory(ServerModel *model, ServerInstance *instance, int32_t device,
			    uint64_t bytes)
{
	Memory *memory;
	Error *error;

	TRY(TRITONSERVER_BufferAttributesNew(&memory));
	drop(TRITONSERVER_BufferAttributesSetMemoryType(memory,
							device < 0 ? MEMORY_CPU : MEMORY_GPU));
	drop(TRITONSERVER_BufferAttributesSetMemoryTypeId(memory, device < 0 ? 0 : device));
	drop(TRITONSERVER_BufferAttributesSetByteSize(memory, bytes));
	error = instance ? TRITONBACKEND_ModelInstanceReportMemoryUsage(instance, &memory, 1)
			 : TRITONBACKEND_ModelReportMemoryUsage(model, &memory, 1);
	drop(TRITONSERVER_BufferAttributesDelete(memory));
	return error;
}

/* The server finalizes models and instances also if they could not be initialized. */
Error *TRITONBACKEND_ModelInitialize(ServerModel *model)
{
	Served *s = calloc(1, sizeof *s);

	if (!s)
		return NO_MEMORY("the model");
	TRY(TRITONBACKEND_ModelSetState(model, s));
	TRY(served_open(model, s));
	return report_memory(model, NULL, -1, s->desc->weights_size);
}

Error *TRITONBACKEND_ModelFinalize(ServerModel *model)
{
	void *state;

	TRY(TRITONBACKEND_ModelState(model, &state));
	if (state)
		served_close(state);
	return NULL;
}

/* The bytes of X's workspace for its largest batch; 0: a dim has no bound. */
static uint64_t workspace_of(const Instance *x, dl_model *model)
{
	const Served *s = x->served;
	int64_t *dims = malloc((size_t)(s->desc->n_sym + 1) * sizeof *dims);
	dl_workspace w = {.size = sizeof w};

	for (int32_t i = 0; dims && i < s->desc->n_sym; i++)
		dims[i] = s->batched && i == dl_io_dim(io_of(s, 0), 0)->sym ? s->most : -1;
	if (dims)
		s->api->workspace(model, dims, s->desc->n_sym, &w);
	free(dims);
	return x->device < 0 ? w.host_bytes : w.device_bytes;
}

Error *TRITONBACKEND_ModelInstanceInitialize(ServerInstance *instance)
{
	const dl_context_options options = {.size = sizeof options, .flags = DL_CONTEXT_OWN_STREAM};
	Instance *x = calloc(1, sizeof *x);
	ServerModel *model;
	dl_model *loaded;
	void *state;
	int kind;
	uint64_t bytes;

	if (!x)
		return NO_MEMORY("an instance");
	*x = (Instance){.server = instance,
			.device = -1,
			.lock = PTHREAD_MUTEX_INITIALIZER,
			.wake = PTHREAD_COND_INITIALIZER};
	TRY(TRITONBACKEND_ModelInstanceSetState(instance, x));
	TRY(TRITONBACKEND_ModelInstanceModel(instance, &model));
	TRY(TRITONBACKEND_ModelState(model, &state));
	x->served = state;
	TRY(TRITONBACKEND_ModelInstanceKind(instance, &kind));
	if (kind == GROUP_GPU)
		TRY(TRITONBACKEND_ModelInstanceDeviceId(instance, &x->device));
	TRY(served_on(x->served, x->device, &loaded));
	if (x->served->api->context(loaded, &options, &x->context))
		return error_of(ERROR_UNAVAILABLE, "%s", x->served->api->error(loaded));
	if (pthread_create(&x->watcher, NULL, watch, x)) {
		x->watcher = 0;
		return error_of(ERROR_UNAVAILABLE, "no thread for an instance");
	}
	bytes = workspace_of(x, loaded);
	return bytes ? report_memory(model, instance, x->device, bytes) : NULL;
}

Error *TRITONBACKEND_ModelInstanceFinalize(ServerInstance *instance)
{
	void *state;
	Instance *x;

	TRY(TRITONBACKEND_ModelInstanceState(instance, &state));
	x = state;
	if (x && x->watcher) {
		pthread_mutex_lock(&x->lock);
		x->ends = true;
		pthread_cond_signal(&x->wake);
		pthread_mutex_unlock(&x->lock);
		pthread_join(x->watcher, NULL);
	}
	if (x && x->context)
		x->served->api->context_free(x->context);
	free(x);
	return NULL;
}
