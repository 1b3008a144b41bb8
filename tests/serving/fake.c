/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that hands the backend what a real one never does: fake REPOSITORY COUNT [SEED]. The
 * backend is linked into it, under sanitizers. Requests have wrong types, shapes and sizes, several
 * buffers, memory of GPUs, and are cancelled; allocations fail. Each is to be answered once. With
 * COUNT 0 it prints the least nanoseconds of a call of the backend for one request, the run
 * included.
 */
#include "runtime/dlrt.h"
#include "serving/triton/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 6, MOST_INPUTS = 8, ROOM = 4096 };

struct TRITONSERVER_Error {
	ErrorCode code;
	char text[2000];
};
struct TRITONSERVER_Message {
	int unused;
};
struct TRITONBACKEND_Input {
	bool absent;
	DataType type;
	int64_t shape[40];
	uint32_t rank, buffers;
	uint64_t bytes, part[3];
	const char *at[3];
	MemoryType memory;
	char *own;
};
struct TRITONBACKEND_Output {
	char *data;
};
struct TRITONBACKEND_Response {
	struct TRITONBACKEND_Output out[MOST_INPUTS];
	int n;
};
struct TRITONBACKEND_Request {
	struct TRITONBACKEND_Input in[MOST_INPUTS];
	struct TRITONBACKEND_Response response;
	int answered, released;
	bool cancelled;
};

static Served *model_state;
static Instance *instance_state;
static const char *folder;
static const dl_desc *desc; /* of the model, from the backend's state: its second member */
static char config[1 << 16] = "{\"max_batch_size\":0,\"input\":[],\"output\":[],\"parameters\":{}}";
static uint64_t seed = 1;
static bool hostile;
static long right, refused;

static void die(int line)
{
	fprintf(stderr, "fake.c:%d: seed %llu\n", line, (unsigned long long)seed);
	abort();
}

static uint32_t any(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

static bool rarely(void)
{
	return hostile && !any(40);
}

static Error *fail(const char *text)
{
	return rarely() ? TRITONSERVER_ErrorNew(ERROR_INTERNAL, text) : NULL;
}

Error *TRITONSERVER_ErrorNew(ErrorCode code, const char *text)
{
	Error *e = calloc(1, sizeof *e);

	e->code = code;
	snprintf(e->text, sizeof e->text, "%s", text);
	return e;
}
void TRITONSERVER_ErrorDelete(Error *e)
{
	free(e);
}
const char *TRITONSERVER_ErrorMessage(Error *e)
{
	return e->text;
}
static const struct {
	const char *name;
	uint32_t bytes;
} types[] = {{"?", 0},      {"BOOL", 1}, {"UINT8", 1}, {"UINT16", 2}, {"UINT32", 4},
	     {"UINT64", 8}, {"INT8", 1}, {"INT16", 2}, {"INT32", 4},  {"INT64", 8},
	     {"FP16", 2},   {"FP32", 4}, {"FP64", 8},  {"BYTES", 0},  {"BF16", 2}};
const char *TRITONSERVER_DataTypeString(DataType t)
{
	return types[t].name;
}
uint32_t TRITONSERVER_DataTypeByteSize(DataType t)
{
	return types[t].bytes;
}

/* What the backend calls and this server does nothing for. */
#define NOTHING(prefix, name, ...)       \
	Error *prefix##name(__VA_ARGS__) \
	{                                \
		return NULL;             \
	}
#pragma GCC diagnostic ignored "-Wunused-parameter"
NOTHING(TRITONSERVER_, MessageDelete, Message *m)
NOTHING(TRITONSERVER_, BufferAttributesDelete, Memory *m)
NOTHING(TRITONSERVER_, BufferAttributesSetMemoryType, Memory *m, MemoryType type)
NOTHING(TRITONSERVER_, BufferAttributesSetMemoryTypeId, Memory *m, int64_t device)
NOTHING(TRITONSERVER_, BufferAttributesSetByteSize, Memory *m, size_t bytes)
NOTHING(TRITONBACKEND_, ModelReportMemoryUsage, ServerModel *m, Memory **u, uint32_t n)
NOTHING(TRITONBACKEND_, ModelInstanceReportMemoryUsage, ServerInstance *i, Memory **u, uint32_t n)
NOTHING(TRITONBACKEND_, ModelInstanceDeviceId, ServerInstance *i, int32_t *device)
NOTHING(TRITONBACKEND_, ModelInstanceReportStatistics, ServerInstance *i, Request *r, bool success,
	uint64_t a, uint64_t b, uint64_t c, uint64_t d)
NOTHING(TRITONBACKEND_, ModelInstanceReportBatchStatistics, ServerInstance *i, uint64_t size,
	uint64_t a, uint64_t b, uint64_t c, uint64_t d)
Error *TRITONSERVER_LogMessage(LogLevel level, const char *file, int line, const char *text)
{
	if (!hostile)
		fprintf(stderr, "%s\n", text);
	return NULL;
}
#define GIVES(prefix, name, type, value, ...)      \
	Error *prefix##name(__VA_ARGS__, type *to) \
	{                                          \
		*to = value;                       \
		return NULL;                       \
	}
Error *TRITONSERVER_BufferAttributesNew(Memory **m)
{
	*m = NULL;
	return NULL;
}
Error *TRITONBACKEND_ApiVersion(uint32_t *major, uint32_t *minor)
{
	*major = API_MAJOR;
	*minor = API_MINOR;
	return NULL;
}
static Message message;
GIVES(TRITONBACKEND_, ModelConfig, Message *, &message, ServerModel *m, uint32_t version)
GIVES(TRITONBACKEND_, ModelVersion, uint64_t, 1, ServerModel *m)
GIVES(TRITONBACKEND_, ModelState, Served *, model_state, ServerModel *m)
GIVES(TRITONBACKEND_, ModelAutoCompleteConfig, bool, true, ServerModel *m)
GIVES(TRITONBACKEND_, ModelInstanceModel, ServerModel *, NULL, ServerInstance *i)
GIVES(TRITONBACKEND_, ModelInstanceKind, int, 1, ServerInstance *i)
GIVES(TRITONBACKEND_, ModelInstanceState, Instance *, instance_state, ServerInstance *i)
GIVES(TRITONBACKEND_, RequestIsCancelled, bool, r->cancelled, Request *r)
Error *TRITONBACKEND_ModelRepository(ServerModel *m, int *kind, const char **path)
{
	*path = folder;
	return NULL;
}
Error *TRITONBACKEND_ModelSetState(ServerModel *m, Served *state)
{
	model_state = state;
	return NULL;
}
Error *TRITONBACKEND_ModelInstanceSetState(ServerInstance *i, Instance *state)
{
	instance_state = state;
	return NULL;
}
Error *TRITONBACKEND_ModelSetConfig(ServerModel *m, uint32_t version, Message *c)
{
	return NULL;
}
Error *TRITONSERVER_MessageNewFromSerializedJson(Message **m, const char *json, size_t bytes)
{
	*m = &message;
	return NULL;
}
Error *TRITONSERVER_MessageSerializeToJson(Message *m, const char **json, size_t *bytes)
{
	*json = config;
	*bytes = strlen(config);
	return NULL;
}

/* ---- Requests ---- */

Error *TRITONBACKEND_RequestInput(Request *r, const char *name, Input **input)
{
	const int32_t i = dl_desc_find_in(desc, name);

	*input = &r->in[i];
	return r->in[i].absent ? TRITONSERVER_ErrorNew(ERROR_INVALID, "absent") : fail("input");
}
Error *TRITONBACKEND_InputProperties(Input *i, const char **name, DataType *type,
				     const int64_t **shape, uint32_t *rank, uint64_t *bytes,
				     uint32_t *buffers)
{
	*type = i->type;
	*shape = i->shape;
	*rank = i->rank;
	*bytes = i->bytes;
	*buffers = i->buffers;
	return fail("properties");
}
Error *TRITONBACKEND_InputBuffer(Input *i, uint32_t n, const void **data, uint64_t *bytes,
				 MemoryType *type, int64_t *device)
{
	*data = i->part[n] ? i->at[n] : NULL;
	*bytes = i->part[n];
	*type = i->memory;
	*device = 0;
	return fail("buffer");
}
Error *TRITONBACKEND_RequestOutputCount(Request *r, uint32_t *count)
{
	*count = (uint32_t)desc->n_out + (hostile && !any(9));
	return fail("count");
}
Error *TRITONBACKEND_RequestOutputName(Request *r, uint32_t i, const char **name)
{
	*name = i < (uint32_t)desc->n_out ? dl_desc_out(desc, (int32_t)i)->name
		: any(2)                  ? "nothing"
					  : dl_desc_out(desc, 0)->name; /* twice */
	return fail("name");
}
Error *TRITONBACKEND_RequestRelease(Request *r, uint32_t flags)
{
	r->released++;
	return NULL;
}
Error *TRITONBACKEND_ResponseNew(Response **response, Request *r)
{
	*response = &r->response;
	r->response.n = 0;
	return NULL;
}
Error *TRITONBACKEND_ResponseOutput(Response *r, Output **output, const char *name, DataType type,
				    const int64_t *shape, uint32_t rank)
{
	if (r->n == desc->n_out)
		die(__LINE__); /* an output twice */
	*output = &r->out[r->n++];
	return fail("output");
}
Error *TRITONBACKEND_OutputBuffer(Output *o, void **data, uint64_t bytes, MemoryType *type,
				  int64_t *device)
{
	*data = o->data = bytes && bytes < 1 << 20 ? malloc(bytes) : NULL;
	*type = rarely() ? MEMORY_GPU : MEMORY_CPU;
	return bytes >= 1 << 20 ? TRITONSERVER_ErrorNew(ERROR_UNAVAILABLE, "too large")
				: fail("memory");
}
Error *TRITONBACKEND_ResponseSend(Response *r, uint32_t flags, Error *error)
{
	Request *of = (Request *)(void *)((char *)r -
					  offsetof(struct TRITONBACKEND_Request, response));

	of->answered++;
	if (error && !hostile)
		fprintf(stderr, "%s\n", error->text);
	refused += error != NULL;
	right += error == NULL;
	for (int i = 0; i < r->n; i++)
		free(r->out[i].data);
	r->n = 0;
	return NULL;
}

/* Input I of a request with N elements along each symbol: right, or changed in some way. */
static void make_input(Input *in, int32_t i, int64_t n)
{
	static const int64_t wild[] = {0, -1, INT64_MIN, INT64_MAX, 1ll << 32, 1ll << 62, 7};
	static const DataType of[] = {
		[DL_BOOL] = TYPE_BOOL, [DL_STR] = TYPE_BYTES,  [DL_U8] = TYPE_UINT8,
		[DL_I8] = TYPE_INT8,   [DL_U16] = TYPE_UINT16, [DL_I16] = TYPE_INT16,
		[DL_I64] = TYPE_INT64, [DL_F16] = TYPE_FP16,   [DL_F32] = TYPE_FP32,
		[DL_F64] = TYPE_FP64};
	const dl_io *io = dl_desc_in(desc, i);
	uint64_t count = 1, left;

	memset(in, 0, sizeof *in);
	in->type = of[io->dtype];
	in->rank = (uint32_t)io->rank;
	for (uint32_t d = 0; d < in->rank; d++) {
		const dl_dim *dim = dl_io_dim(io, (int32_t)d);

		in->shape[d] = dim->sym < 0 && dim->value >= 0 ? dim->value : d ? 2 : n;
		count *= (uint64_t)in->shape[d];
	}
	in->bytes = count * (types[in->type].bytes ? types[in->type].bytes : 5);
	in->own = calloc(1, ROOM);
	for (uint64_t k = 0; !types[in->type].bytes && k < count; k++) {
		in->own[5 * k] = 1; /* strings of one letter */
		in->own[5 * k + 4] = 'a';
	}
	in->at[0] = in->own;
	in->part[0] = in->bytes;
	in->buffers = 1;
	if (!hostile || any(4))
		return;
	switch (any(8)) {
	case 0: in->absent = true; break;
	case 1: in->type = (DataType)any(15); break;
	case 2: in->rank = any(40); break;
	case 3: in->shape[any(3)] = wild[any(7)]; break;
	case 4:
		in->bytes = any(2) ? any(ROOM) : in->bytes + 1;
		in->part[0] = any(2) ? in->bytes : in->part[0];
		break;
	case 5: in->memory = MEMORY_GPU; break;
	case 6:
		for (int k = 0; k < 8; k++)
			in->own[any(64)] = (char)any(256);
		break;
	default: /* pieces that overlap nothing, and the first not aligned */
		memmove(in->own + 1, in->own, in->bytes < ROOM ? in->bytes : ROOM - 1);
		in->buffers = 1 + any(3);
		left = in->bytes;
		for (uint32_t k = 0; k < in->buffers; k++, left -= in->part[k - 1]) {
			in->at[k] = in->own + 1 + (in->bytes - left);
			in->part[k] = k + 1 == in->buffers ? left : any((uint32_t)left + 1);
		}
	}
}

static void ask(uint32_t count, int64_t n)
{
	struct TRITONBACKEND_Request *r = calloc(count, sizeof *r), *of[MOST];
	Error *error;

	for (uint32_t k = 0; k < count; k++) {
		of[k] = &r[k];
		r[k].cancelled = rarely();
		for (int32_t i = 0; i < desc->n_in; i++)
			make_input(&r[k].in[i], i, n);
	}
	error = TRITONBACKEND_ModelInstanceExecute(NULL, of, count);
	if (error)
		die(__LINE__);
	for (uint32_t k = 0; k < count; k++) {
		if (r[k].answered != 1 || r[k].released != 1)
			die(__LINE__);
		for (int32_t i = 0; i < desc->n_in; i++)
			free(r[k].in[i].own);
	}
	free(r);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The least nanoseconds of ROUNDS calls of the backend for one request of one element. */
static double least(int rounds)
{
	double best = 1e18;

	for (int k = 0; k < rounds; k++) {
		struct TRITONBACKEND_Request r = {0}, *of[] = {&r};
		double begin;

		for (int32_t i = 0; i < desc->n_in; i++)
			make_input(&r.in[i], i, 1);
		begin = now();
		if (TRITONBACKEND_ModelInstanceExecute(NULL, of, 1))
			die(__LINE__);
		begin = now() - begin;
		best = begin < best ? begin : best;
		for (int32_t i = 0; i < desc->n_in; i++)
			free(r.in[i].own);
	}
	return best;
}

int main(int argc, char **argv)
{
	const long count = argc > 2 ? strtol(argv[2], NULL, 10) : 1000;
	Error *error;

	folder = argv[1];
	seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	error = TRITONBACKEND_ModelInitialize(NULL);
	error = error ? error : TRITONBACKEND_ModelInstanceInitialize(NULL);
	if (error) {
		fprintf(stderr, "%s\n", error->text);
		return 1;
	}
	memcpy(&desc, (char *)model_state + sizeof(void *), sizeof desc);
	ask(2, 1);
	if (refused || right != 2)
		die(__LINE__);
	if (!count)
		printf("%.0f ns\n", least(20000));
	hostile = true;
	for (long k = 0; k < count; k++)
		ask(1 + any(MOST), any(4));
	hostile = false;
	ask(2, 2);
	if (TRITONBACKEND_ModelInstanceFinalize(NULL) || TRITONBACKEND_ModelFinalize(NULL))
		die(__LINE__);
	if (count && (!right || !refused))
		die(__LINE__);
	printf("%ld right, %ld refused\n", right, refused);
	return 0;
}
