/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtriton_dlcc.so: models that dlcc compiled, in Triton Inference Server (docs/serving.md).
 *
 * A model of the server is one dl_model for each device, which its instances share. An instance is a
 * dl_context with a workspace of its own. The server hands an instance the requests that it has
 * batched. Those whose shapes agree but for the batch run at once: their tensors are the pieces of
 * the model's (DL_PIECES), and the run reads requests and writes responses where they are. The server
 * batches only along a dim that the compiler has proved independent, so an answer does not depend on
 * what it was batched with.
 */
#include "serving/triton/backend.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WATCH_US = 5000 }; /* how often cancellation is looked at */

/* The shape that a client sees of a tensor without dims: the server has none. */
static const int64_t SINGLE[] = {1};

/* A tensor of a request: an input, or an output of its response. */
typedef struct Slot {
	dl_tensor t; /* data is null: an absent input, or an output in memory of the context */
	int64_t shape[MOST_RANK];
	void *own;   /* a copy of the input, to be freed */
	bool wanted; /* an output that the client asks for, and that the response does not have yet */
} Slot;

/* A request and its answer. */
typedef struct Job {
	Request *request;
	Response *response;
	Error *error;
	Slot *slot;    /* the inputs, and then the outputs */
	int64_t batch; /* its elements along the batch; without one 1 */
	bool alone;    /* it cannot run with others */
	bool done;
} Job;

/* One of the server's instances. LOCK guards what the watching thread reads: from GROUP on. */
typedef struct Instance {
	Served *served;
	dl_context *context;
	int32_t device; /* -1: the CPU */
	uint32_t count; /* requests that the server has handed over */
	Job *job;
	dl_tensor *whole, *piece; /* the tensors of a run, and their pieces */
	Job **group;              /* the requests of a run: RUNNING of them, 0 between runs */
	uint32_t running;
	bool ends, cancelled;
	bool used; /* there was a run since the watching thread looked last */
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

static bool is_cancelled(const Job *j)
{
	bool cancelled = false;

	drop(TRITONBACKEND_RequestIsCancelled(j->request, &cancelled));
	return cancelled;
}

/* ---- Requests ---- */

/* The BYTES of input S, of N buffers: the server's own memory, or a copy if that is in pieces or not
 * aligned. Strings are copied, behind room for an array of them. */
static Error *gather(const Instance *x, Job *j, Slot *s, Input *input, uint32_t n, uint64_t bytes)
{
	const uint32_t align = TRITONSERVER_DataTypeByteSize(server_type(s->t.dtype));
	const uint64_t room = align ? 0 : s->t.bytes;
	uint64_t at = 0, size;
	const void *from;

	s->t.data = (void *)(uintptr_t)SINGLE; /* without bytes, but not absent */
	for (uint32_t i = 0; i < n; i++, at += size) {
		MemoryType type = MEMORY_CPU;
		int64_t device = 0;
		bool whole;

		TRY(TRITONBACKEND_InputBuffer(input, i, &from, &size, &type, &device));
		whole = size == bytes && align && (uintptr_t)from % align == 0;
		j->alone = j->alone || type == MEMORY_GPU;
		if (type == MEMORY_GPU && (!whole || device != x->device))
			return FAIL(
				UNSUPPORTED,
				"an input is in the memory of GPU %d, and not of one piece, aligned, of numbers, and where the model runs; send it in host memory",
				(int)device);
		if (size > bytes - at)
			return FAIL(INVALID, "an input has more bytes than it says");
		if (!whole && !s->own && !(s->own = calloc(1, room + bytes)))
			return FAIL(UNAVAILABLE, "no memory for an input");
		if (size)
			s->t.data = whole ? (void *)(uintptr_t)from : s->own;
		if (size && !whole)
			memcpy((char *)s->own + room + at, from, size);
	}
	return NULL;
}

/* Makes strings of the BYTES that S has copied: each lies after its length in 32 bits. */
static bool take_strings(Slot *s, uint64_t bytes)
{
	dl_str *to = s->t.data, *const last = to + s->t.bytes / sizeof *to;
	const char *p = (const char *)last, *end = p + bytes;

	for (uint32_t length; to < last && end - p >= 4; *to++ = (dl_str){p, length}, p += length) {
		memcpy(&length, p, 4);
		p += 4;
		if (length > end - p)
			return false;
	}
	return to == last && p == end;
}

/* Input I of the model from J's request. */
static Error *take_input(const Instance *x, Job *j, int32_t i)
{
	const dl_io *io = io_of(x->served, i);
	const DataType wanted = server_type(io->dtype);
	const uint32_t each = TRITONSERVER_DataTypeByteSize(wanted);
	Slot *s = &j->slot[i];
	Input *input;
	Error *absent = TRITONBACKEND_RequestInput(j->request, io->name, &input);
	const int64_t *shape;
	uint32_t rank, buffers;
	uint64_t bytes, n = 1;
	bool fits = true;
	DataType type;

	j->alone = j->alone || absent;
	if (absent && (io->flags & DL_IO_DEFAULT)) {
		TRITONSERVER_ErrorDelete(absent);
		return NULL;
	}
	TRY(absent);
	TRY(TRITONBACKEND_InputProperties(input, NULL, &type, &shape, &rank, &bytes, &buffers));
	if (!io->rank && rank == 1 && *shape == 1)
		rank = 0; /* SINGLE */
	if (type != wanted || rank != (uint32_t)io->rank)
		return FAIL(INVALID, "input \"%s\" is not of %s with %d dims", io->name,
			    TRITONSERVER_DataTypeString(wanted), io->rank);
	for (uint32_t d = 0; d < rank; d++) {
		s->shape[d] = shape[d];
		fits = fits && shape[d] >= 0 && !__builtin_mul_overflow(n, (uint64_t)shape[d], &n);
	}
	/* a string has at least the 4 bytes of its length */
	if (!fits || (each ? n != bytes / each || bytes % each : n > bytes / 4))
		return FAIL(INVALID, "input \"%s\": its %llu bytes do not fit its shape", io->name,
			    (unsigned long long)bytes);
	if (x->served->batch >= 0)
		j->batch = *s->shape;
	s->t.bytes = n * (each ? each : sizeof(dl_str));
	TRY(gather(x, j, s, input, buffers, bytes));
	return each || !bytes || take_strings(s, bytes)
		       ? NULL
		       : FAIL(INVALID, "input \"%s\": its strings do not fit its bytes", io->name);
}

/* Gives output I of J, of its shape, BYTES of the response. */
static Error *place(const Instance *x, Job *j, int32_t i, uint64_t bytes, void **data)
{
	const dl_io *io = io_of(x->served, i);
	Slot *s = &j->slot[i];
	MemoryType type = MEMORY_CPU;
	int64_t device = 0;
	Output *output;

	s->wanted = false;
	TRY(TRITONBACKEND_ResponseOutput(j->response, &output, io->name, server_type(io->dtype),
					 io->rank ? s->shape : SINGLE,
					 io->rank ? (uint32_t)io->rank : 1));
	TRY(TRITONBACKEND_OutputBuffer(output, data, bytes, &type, &device));
	return type != MEMORY_GPU
		       ? NULL
		       : FAIL(UNSUPPORTED,
			      "output \"%s\" is wanted in a GPU's memory; take it in host memory",
			      io->name);
}

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

/* J's inputs, and its response with the outputs that it wants and whose sizes are known. The context has
 * memory for others. */
static Error *take(Instance *x, Job *j)
{
	const Served *s = x->served;
	uint32_t n;
	int rc;

	TRY(TRITONBACKEND_ResponseNew(&j->response, j->request));
	for (int32_t i = 0; i < s->n_in; i++)
		TRY(take_input(x, j, i));
	for (int32_t i = 0; i < s->n_io; i++)
		x->whole[i] = j->slot[i].t;
	rc = s->api->infer_shapes(x->context, x->whole, s->n_in, x->whole + s->n_in,
				  s->n_io - s->n_in);
	if (rc)
		return error_of_run(x, rc);
	TRY(TRITONBACKEND_RequestOutputCount(j->request, &n));
	for (uint32_t k = 0; k < n; k++) {
		const char *name;
		int32_t o;

		TRY(TRITONBACKEND_RequestOutputName(j->request, k, &name));
		o = dl_desc_find_out(s->desc, name);
		if (o < 0)
			return FAIL(INVALID, "the model has no output \"%s\"", name);
		j->slot[s->n_in + o].wanted = true;
	}
	for (int32_t i = s->n_in; i < s->n_io; i++) {
		dl_tensor *t = &j->slot[i].t;

		if (!j->slot[i].wanted || t->dtype == DL_STR || !x->whole[i].bytes)
			continue;
		t->bytes = x->whole[i].bytes;
		TRY(place(x, j, i, t->bytes, &t->data));
	}
	return NULL;
}

/* Jobs for the COUNT requests, with their tensors, in one piece of memory that begins with X->whole. */
static Error *take_all(Instance *x, Request **requests, uint32_t count)
{
	const size_t n = (size_t)x->served->n_io, slots = n * count;
	Slot *slot;

	x->whole = calloc(1, (n + slots) * sizeof *x->whole + slots * sizeof *slot +
				     count * (sizeof *x->job + sizeof *x->group));
	if (!x->whole)
		return FAIL(UNAVAILABLE, "no memory for %u requests", count);
	x->piece = x->whole + n;
	slot = (Slot *)(x->piece + slots);
	x->job = (Job *)(slot + slots);
	x->group = (Job **)(x->job + count);
	x->count = count;
	for (uint32_t k = 0; k < count; k++) {
		Job *j = &x->job[k];

		*j = (Job){.request = requests[k], .slot = slot + k * n, .batch = 1};
		for (int32_t i = 0; i < x->served->n_io; i++) {
			const dl_io *io = io_of(x->served, i);

			j->slot[i].t = dl_tensor_of(io->dtype, io->rank, j->slot[i].shape, NULL, 0);
		}
		j->error = take(x, j);
		j->done = j->error;
	}
	return NULL;
}

/* Places output I of J, which the run has left at T: of strings, or of a size that the run has found. */
static Error *copy_output(const Instance *x, Job *j, int32_t i, const dl_tensor *t)
{
	const bool text = io_of(x->served, i)->dtype == DL_STR;
	const dl_str *from = t->data, *const end = from + (text ? t->bytes / sizeof *end : 0);
	uint64_t bytes = text ? 0 : t->bytes;
	void *data;

	for (const dl_str *p = from; p < end; p++)
		bytes += 4 + p->n;
	TRY(place(x, j, i, bytes, &data));
	if (!text && bytes)
		memcpy(data, t->data, bytes);
	for (char *to = data; from < end; to += 4 + from++->n) {
		memcpy(to, &from->n, 4);
		if (from->n)
			memcpy(to + 4, from->p, from->n);
	}
	return NULL;
}

/* ---- Runs ---- */

/* Tells the watching thread that N jobs of X->group run, 0: none. Returns whether the run before was
 * cancelled. */
static bool set_running(Instance *x, uint32_t n)
{
	bool cancelled;

	pthread_mutex_lock(&x->lock);
	cancelled = x->cancelled;
	x->cancelled = false;
	x->running = n;
	x->used = true;
	pthread_cond_signal(&x->wake);
	pthread_mutex_unlock(&x->lock);
	return cancelled;
}

/* Runs the N jobs of X->group; returns the status. A cancel that comes when its run has just ended stops
 * the next one; such a run is repeated. */
static int run(Instance *x, uint32_t n)
{
	const Served *s = x->served;
	bool meant;
	int rc;

	do {
		for (int32_t i = 0; i < s->n_io; i++) {
			dl_tensor *pieces = x->piece + (size_t)i * x->count;

			for (uint32_t k = 0; k < n; k++)
				pieces[k] = x->group[k]->slot[i].t;
			x->whole[i] = *pieces;
			if (n == 1)
				continue;
			x->whole[i].form = DL_PIECES;
			x->whole[i].items = pieces;
			x->whole[i].n_items = n;
		}
		set_running(x, n);
		rc = s->api->run(x->context, x->whole, s->n_in, x->whole + s->n_in,
				 s->n_io - s->n_in, NULL);
		meant = set_running(x, 0);
	} while (rc == DL_CANCELLED && !meant);
	return rc;
}

/* Whether the jobs may run as one: their inputs have the same shapes but for the batch. */
static bool agree(const Instance *x, const Job *a, const Job *b)
{
	bool same = x->served->batch >= 0 && x->served->joins && !a->alone && !b->alone;

	for (int32_t i = 0; i < x->served->n_in && same; i++)
		same = !memcmp(a->slot[i].shape + 1, b->slot[i].shape + 1,
			       (MOST_RANK - 1) * sizeof *a->slot->shape);
	return same;
}

/* Runs job K and the later ones that agree with it. After a fault of several they are to run alone, so
 * that only the request with the fault fails. */
static void run_from(Instance *x, uint32_t k)
{
	const Served *s = x->served;
	Job *const first = &x->job[k];
	uint32_t n = 0;
	int rc;

	for (Job *j = first; j < x->job + x->count; j++)
		if (!j->done && (j == first || agree(x, first, j))) {
			j->done = true;
			if (is_cancelled(j))
				j->error = FAIL(CANCELLED, "the request was cancelled");
			else
				x->group[n++] = j;
		}
	rc = n ? run(x, n) : DL_OK;
	for (uint32_t g = 0; g < n; g++) {
		Job *j = x->group[g];

		if (rc && n > 1)
			j->alone = true, j->done = false;
		else if (rc)
			j->error = error_of_run(x, rc);
		for (int32_t i = s->n_in; i < s->n_io && j->done && !j->error; i++)
			if (j->slot[i].wanted)
				j->error = copy_output(
					x, j, i, n == 1 ? &x->whole[i] : &x->whole[i].items[g]);
	}
}

Error *TRITONBACKEND_ModelInstanceExecute(ServerInstance *instance, Request **requests,
					  uint32_t count)
{
	const uint64_t begin = now();
	uint64_t ran, end, size = 0;
	Instance *x;
	void *state;

	TRY(TRITONBACKEND_ModelInstanceState(instance, &state));
	x = state;
	TRY(take_all(x, requests, count));
	ran = now();
	for (uint32_t k = 0; k < count; k++)
		while (!x->job[k].done)
			run_from(x, k);
	end = now(); /* the server's sending is not part of it, as in its other backends */
	for (uint32_t k = 0; k < count; k++) {
		Job *j = &x->job[k];

		size += j->error ? 0 : (uint64_t)j->batch;
		if (j->response)
			drop(TRITONBACKEND_ResponseSend(j->response, RESPONSE_FINAL, j->error));
		drop(TRITONBACKEND_ModelInstanceReportStatistics(instance, j->request, !j->error,
								 begin, ran, end, end));
		drop(TRITONBACKEND_RequestRelease(j->request, RELEASE_ALL));
		if (j->error)
			TRITONSERVER_ErrorDelete(j->error);
		for (int32_t i = 0; i < x->served->n_in; i++)
			free(j->slot[i].own);
	}
	free(x->whole);
	if (size)
		drop(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, size, begin, ran,
								      end, end));
	return NULL;
}

/* ---- Cancellation ---- */

/* The thread that cancels a run once all of its requests are cancelled. It waits while there are no
 * runs; short ones, one after the other, do not wake it each. */
static void *watch(void *arg)
{
	Instance *x = arg;
	bool cancelled;

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
		cancelled = x->running > 0 && !x->cancelled;
		for (uint32_t g = 0; g < x->running && cancelled; g++)
			cancelled = is_cancelled(x->group[g]);
		if (cancelled)
			x->served->api->cancel(x->context);
		x->cancelled = x->cancelled || cancelled;
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
		       : FAIL(UNSUPPORTED,
			      "the server has version %u.%u of the backend API, and the dlcc backend needs %d.%d or a later %d",
			      major, minor, API_MAJOR, API_MINOR, API_MAJOR);
}

/* Tells the server the BYTES of memory of DEVICE that MODEL needs, or INSTANCE if it is not null. */
static Error *report_memory(ServerModel *model, ServerInstance *instance, int32_t device,
			    uint64_t bytes)
{
	Memory *m;
	Error *error;

	TRY(TRITONSERVER_BufferAttributesNew(&m));
	drop(TRITONSERVER_BufferAttributesSetMemoryType(m, device < 0 ? MEMORY_CPU : MEMORY_GPU));
	drop(TRITONSERVER_BufferAttributesSetMemoryTypeId(m, device < 0 ? 0 : device));
	drop(TRITONSERVER_BufferAttributesSetByteSize(m, bytes));
	error = instance ? TRITONBACKEND_ModelInstanceReportMemoryUsage(instance, &m, 1)
			 : TRITONBACKEND_ModelReportMemoryUsage(model, &m, 1);
	drop(TRITONSERVER_BufferAttributesDelete(m));
	return error;
}

/* The server finalizes models and instances also if they could not be initialized. */
Error *TRITONBACKEND_ModelInitialize(ServerModel *model)
{
	Served *s = calloc(1, sizeof *s);

	if (!s)
		return FAIL(UNAVAILABLE, "no memory for the model");
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

Error *TRITONBACKEND_ModelInstanceInitialize(ServerInstance *instance)
{
	const dl_context_options options = {.size = sizeof options, .flags = DL_CONTEXT_OWN_STREAM};
	Instance *x = calloc(1, sizeof *x);
	ServerModel *model;
	dl_model *loaded;
	void *state;
	uint64_t bytes;
	int kind;

	if (!x)
		return FAIL(UNAVAILABLE, "no memory for an instance");
	x->device = -1;
	pthread_mutex_init(&x->lock, NULL);
	pthread_cond_init(&x->wake, NULL);
	TRY(TRITONBACKEND_ModelInstanceSetState(instance, x));
	TRY(TRITONBACKEND_ModelInstanceModel(instance, &model));
	TRY(TRITONBACKEND_ModelState(model, &state));
	TRY(TRITONBACKEND_ModelInstanceKind(instance, &kind));
	x->served = state;
	if (kind == GROUP_GPU && x->served->for_gpus)
		TRY(TRITONBACKEND_ModelInstanceDeviceId(instance, &x->device));
	else if (kind == GROUP_GPU)
		log_text(NULL, DL_LOG_WARNING, "a model without code for GPUs runs on the CPU");
	TRY(served_on(x->served, x->device, &loaded, &bytes));
	if (x->served->api->context(loaded, &options, &x->context))
		return FAIL(UNAVAILABLE, "%s", x->served->api->error(loaded));
	if (pthread_create(&x->watcher, NULL, watch, x)) {
		x->watcher = 0;
		return FAIL(UNAVAILABLE, "no thread for an instance");
	}
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
