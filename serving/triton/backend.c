/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtriton_dlcc.so: models that dlcc compiled, in Triton Inference Server (docs/serving.md).
 *
 * A model of the server is one dl_model for each device, which its instances share. An instance is
 * a dl_context with a workspace of its own. The server hands an instance the requests that it has
 * batched. Those whose shapes agree but for the batch run at once: their tensors are the pieces of
 * the model's (DL_PIECES), and the run reads requests and writes responses where they are. The
 * server batches only along a dim that the compiler has proved independent, so an answer does not
 * depend on what it was batched with.
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
	Slot *slot; /* the inputs, and then the outputs */
	bool alone; /* it cannot run with others */
} Job;

/* One of the server's instances. LOCK guards what the watching thread reads: from FIRST on. */
struct Instance {
	Served *served;
	dl_context *context;
	int32_t device; /* -1: the CPU */
	uint32_t count; /* requests that the server has handed over */
	Job *job;
	dl_tensor *whole, *piece; /* the tensors of a run, and their pieces */
	const Job *first;         /* the jobs of a run: RUNNING of them, 0 between runs */
	uint32_t running;
	bool ends, cancelled, watched; /* watched: there is the thread */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t watcher;
};

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

/* The BYTES of input S, of N buffers: the server's own memory, or a copy if that is in pieces or
 * not aligned. Strings are copied, behind room for an array of them. */
static Error *gather(const Instance *x, Job *j, Slot *s, Input *input, uint32_t n, uint64_t bytes)
{
	const uint32_t align = TRITONSERVER_DataTypeByteSize(server_type(s->t.dtype));
	uint64_t at = align ? 0 : s->t.bytes, size;
	const uint64_t end = at + bytes;
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
			return FAIL(UNSUPPORTED, "send an input in host memory, or aligned, "
						 "in one piece, on the GPU of the model");
		if (size > end - at)
			return FAIL(INVALID, "an input has more bytes than it says");
		if (!whole && !s->own && !(s->own = calloc(1, end)))
			return FAIL(UNAVAILABLE, "no memory for an input");
		if (size)
			s->t.data = whole ? (void *)(uintptr_t)from : s->own;
		if (size && !whole)
			memcpy((char *)s->own + at, from, size);
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
		return FAIL(INVALID, "input \"%s\": its bytes do not fit its shape", io->name);
	s->t.bytes = n * (each ? each : sizeof(dl_str));
	TRY(gather(x, j, s, input, buffers, bytes));
	if (each || !bytes || take_strings(s, bytes))
		return NULL;
	return FAIL(INVALID, "input \"%s\": its strings do not fit its bytes", io->name);
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
	if (type != MEMORY_GPU)
		return NULL;
	return FAIL(UNSUPPORTED, "take output \"%s\" in host memory, not in a GPU's", io->name);
}

static Error *error_of_run(const Instance *x, int rc)
{
	const bool fault = rc == DL_SHAPE || rc == DL_INDEX || rc == DL_INVALID || rc == DL_RUNTIME;
	const ErrorCode other = rc == DL_NOMEM ? ERROR_UNAVAILABLE : ERROR_INTERNAL;
	const ErrorCode code = rc == DL_CANCELLED ? ERROR_CANCELLED : fault ? ERROR_INVALID : other;

	return error_of(code, "%s: %s", x->served->api->status_text(rc),
			x->served->api->error(x->context));
}

/* J's inputs, and its response with the outputs that it wants and whose sizes are known. The
 * context has memory for others. */
static Error *take(Instance *x, Job *j)
{
	const Served *s = x->served;
	uint32_t n;
	int rc;

	TRY(TRITONBACKEND_ResponseNew(&j->response, j->request));
	for (int32_t i = 0; i < s->n_io; i++) {
		const dl_io *io = io_of(s, i);
		Slot *slot = &j->slot[i];

		slot->t = dl_tensor_of(io->dtype, io->rank, slot->shape, NULL, 0);
		if (i < s->n_in)
			TRY(take_input(x, j, i));
		x->whole[i] = slot->t;
	}
	rc = s->api->infer_shapes(x->context, x->whole, s->n_in, x->whole + s->n_in,
				  s->n_io - s->n_in);
	if (rc)
		return error_of_run(x, rc);
	TRY(TRITONBACKEND_RequestOutputCount(j->request, &n));
	for (uint32_t k = 0; k < n; k++) {
		const char *name;
		int32_t o;
		Slot *slot;

		TRY(TRITONBACKEND_RequestOutputName(j->request, k, &name));
		o = dl_desc_find_out(s->desc, name);
		if (o < 0)
			return FAIL(INVALID, "the model has no output \"%s\"", name);
		slot = &j->slot[s->n_in + o];
		slot->wanted = !slot->t.data; /* it may be named twice */
		if (!slot->wanted || slot->t.dtype == DL_STR || !x->whole[s->n_in + o].bytes)
			continue;
		slot->t.bytes = x->whole[s->n_in + o].bytes;
		TRY(place(x, j, s->n_in + o, slot->t.bytes, &slot->t.data));
	}
	return NULL;
}

/* Jobs for the COUNT requests, with their tensors, in one piece of memory that begins with
 * X->whole. */
static Error *take_all(Instance *x, Request **requests, uint32_t count)
{
	const size_t n = (size_t)x->served->n_io, slots = n * count;
	Slot *slot;

	x->whole = calloc(1, (n + slots) * sizeof *x->whole + slots * sizeof *slot +
				     count * sizeof *x->job);
	if (!x->whole)
		return FAIL(UNAVAILABLE, "no memory for %u requests", count);
	x->piece = x->whole + n;
	slot = (Slot *)(x->piece + slots);
	x->job = (Job *)(slot + slots);
	x->count = count;
	for (uint32_t k = 0; k < count; k++) {
		Job *j = &x->job[k];

		*j = (Job){.request = requests[k], .slot = slot + k * n};
		j->error = take(x, j);
	}
	return NULL;
}

/* Places output I of J, which the run has left at T: of strings, or of a size that the run has
 * found. */
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

/* Runs N jobs from FIRST on; returns the status. A cancel that comes when its run has just ended
 * stops the next one; such a run is repeated. */
static int run(Instance *x, const Job *first, uint32_t n)
{
	const Served *s = x->served;
	bool meant;
	int rc;

	do {
		for (int32_t i = 0; i < s->n_io; i++) {
			dl_tensor *pieces = x->piece + (size_t)i * x->count;

			for (uint32_t k = 0; k < n; k++)
				pieces[k] = first[k].slot[i].t;
			x->whole[i] = *pieces;
			if (n == 1)
				continue;
			x->whole[i].form = DL_PIECES;
			x->whole[i].items = pieces;
			x->whole[i].n_items = n;
		}
		pthread_mutex_lock(&x->lock);
		x->first = first;
		x->running = n;
		pthread_cond_signal(&x->wake);
		pthread_mutex_unlock(&x->lock);
		rc = s->api->run(x->context, x->whole, s->n_in, x->whole + s->n_in,
				 s->n_io - s->n_in, NULL);
		pthread_mutex_lock(&x->lock);
		meant = x->cancelled;
		x->cancelled = false;
		x->running = 0;
		pthread_mutex_unlock(&x->lock);
	} while (rc == DL_CANCELLED && !meant);
	return rc;
}

/* Whether B is to run with A: their inputs have the same shapes but for the batch. */
static bool agree(const Instance *x, const Job *a, const Job *b)
{
	bool same = x->served->joins && !a->alone && !b->alone && !b->error && !is_cancelled(b);

	for (int32_t i = 0; i < x->served->n_in && same; i++)
		same = !memcmp(a->slot[i].shape + 1, b->slot[i].shape + 1,
			       (MOST_RANK - 1) * sizeof *a->slot->shape);
	return same;
}

/* Runs job K with the later ones that agree with it, which are moved behind it; returns how many
 * are then done. After a fault of several none is, and they are to run alone, so that only the
 * request with the fault fails. */
static uint32_t run_from(Instance *x, uint32_t k)
{
	Job *const first = &x->job[k];
	uint32_t n = 1;
	int rc;

	if (!first->error && is_cancelled(first))
		first->error = FAIL(CANCELLED, "the request was cancelled");
	if (first->error)
		return 1;
	for (Job *j = first + 1; j < x->job + x->count; j++)
		if (agree(x, first, j)) {
			const Job moved = *j;

			*j = first[n];
			first[n++] = moved;
		}
	rc = run(x, first, n);
	for (Job *j = first; j < first + n; j++) {
		j->alone = j->alone || rc;
		if (rc && n == 1)
			j->error = error_of_run(x, rc);
		for (int32_t i = x->served->n_in; i < x->served->n_io && !rc && !j->error; i++) {
			const dl_tensor *t = &x->whole[i];

			if (j->slot[i].wanted)
				j->error = copy_output(x, j, i, n > 1 ? &t->items[j - first] : t);
		}
	}
	return rc && n > 1 ? 0 : n;
}

Error *TRITONBACKEND_ModelInstanceExecute(ServerInstance *instance, Request **requests,
					  uint32_t count)
{
	const uint64_t begin = now();
	uint64_t ran, end, size = 0;
	Instance *x;

	TRY(TRITONBACKEND_ModelInstanceState(instance, &x));
	TRY(take_all(x, requests, count));
	ran = now();
	for (uint32_t k = 0; k < count;)
		k += run_from(x, k);
	end = now(); /* the server's sending is not part of it, as in its other backends */
	for (uint32_t k = 0; k < count; k++) {
		Job *j = &x->job[k];

		size += j->error ? 0 : x->served->batch < 0 ? 1 : (uint64_t)*j->slot->shape;
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
 * runs, and of short ones, one after the other, few wake it: it sleeps longer than they take. */
static void *watch(void *arg)
{
	Instance *x = arg;
	bool cancelled;

	pthread_mutex_lock(&x->lock);
	while (!x->ends) {
		if (!x->running)
			pthread_cond_wait(&x->wake, &x->lock);
		pthread_mutex_unlock(&x->lock);
		usleep(WATCH_US);
		pthread_mutex_lock(&x->lock);
		cancelled = x->running > 0 && !x->cancelled;
		for (uint32_t g = 0; g < x->running && cancelled; g++)
			cancelled = is_cancelled(&x->first[g]);
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
	if (major == API_MAJOR && minor >= API_MINOR)
		return NULL;
	return FAIL(UNSUPPORTED,
		    "the server's backend API is %u.%u, and must be %d.%d or a later %d", major,
		    minor, API_MAJOR, API_MINOR, API_MAJOR);
}

/* Tells the server the BYTES of memory of DEVICE that MODEL needs, or INSTANCE if it is not
 * null. */
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
	Served *s;

	TRY(TRITONBACKEND_ModelState(model, &s));
	if (s)
		served_close(s);
	return NULL;
}

Error *TRITONBACKEND_ModelInstanceInitialize(ServerInstance *instance)
{
	const dl_context_options options = {.size = sizeof options, .flags = DL_CONTEXT_OWN_STREAM};
	Instance *x = calloc(1, sizeof *x);
	ServerModel *model;
	uint64_t bytes;
	int kind;

	if (!x)
		return FAIL(UNAVAILABLE, "no memory for an instance");
	x->device = -1;
	pthread_mutex_init(&x->lock, NULL);
	pthread_cond_init(&x->wake, NULL);
	TRY(TRITONBACKEND_ModelInstanceSetState(instance, x));
	TRY(TRITONBACKEND_ModelInstanceModel(instance, &model));
	TRY(TRITONBACKEND_ModelState(model, &x->served));
	TRY(TRITONBACKEND_ModelInstanceKind(instance, &kind));
	if (kind == GROUP_GPU && strstr(x->served->desc->targets, "sm_"))
		TRY(TRITONBACKEND_ModelInstanceDeviceId(instance, &x->device));
	else if (kind == GROUP_GPU)
		log_text(NULL, DL_LOG_WARNING, "a model without code for GPUs runs on the CPU");
	TRY(served_on(x->served, x->device, &bytes));
	if (x->served->api->context(x->served->model[1 + x->device], &options, &x->context))
		return FAIL(UNAVAILABLE, "%s", x->served->api->error(NULL));
	x->watched = !pthread_create(&x->watcher, NULL, watch, x);
	if (!x->watched)
		return FAIL(UNAVAILABLE, "no thread for an instance");
	return bytes ? report_memory(model, instance, x->device, bytes) : NULL;
}

Error *TRITONBACKEND_ModelInstanceFinalize(ServerInstance *instance)
{
	Instance *x;

	TRY(TRITONBACKEND_ModelInstanceState(instance, &x));
	if (x && x->watched) {
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
