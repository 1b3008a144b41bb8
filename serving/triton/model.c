/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a model of the server's repository, NAME/VERSION/model.so, and describes it to the server:
 * a repository needs no configuration file. Where there is one, it must fit the model. Its
 * parameters: "threads" (of a run; default: all processors), and "compile": "true" has the program
 * dlcc make model.so from model.onnx where there is none.
 */
#include "base/api_symbol.h"
#include "runtime/escape.h"
#include "serving/triton/backend.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* The server's max_batch_size of a batch without an upper bound. Larger batches make a run longer,
 * and waiting requests with it, and no more efficient. */
enum { USUAL_BATCH = 64 };

Error *error_of(ErrorCode code, const char *format, ...)
{
	char text[1024];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	return TRITONSERVER_ErrorNew(code, text);
}

void log_text(void *user, int32_t level, const char *text)
{
	(void)user;
	TRITONSERVER_LogMessage((LogLevel)(level > DL_LOG_INFO ? 0 : LOG_ERROR - level), "dlcc", 0,
				text);
}

DataType server_type(int32_t t)
{
	static const uint8_t types[] = {
		[DL_BOOL] = TYPE_BOOL,  [DL_STR] = TYPE_BYTES,  [DL_U8] = TYPE_UINT8,
		[DL_I8] = TYPE_INT8,    [DL_U16] = TYPE_UINT16, [DL_I16] = TYPE_INT16,
		[DL_U32] = TYPE_UINT32, [DL_I32] = TYPE_INT32,  [DL_U64] = TYPE_UINT64,
		[DL_I64] = TYPE_INT64,  [DL_F16] = TYPE_FP16,   [DL_F32] = TYPE_FP32,
		[DL_F64] = TYPE_FP64,   [DL_BF16] = TYPE_BF16};

	return t >= 0 && t < (int)sizeof types ? types[t] : TYPE_INVALID;
}

/* ---- The library ---- */

/* Opens PATH as S->library. The loader takes a library that was opened by the same name and is
 * still loaded, and a model's file may have been replaced. So the name is that of an open file, and
 * is made new by the bits of a counter, since numbers of files are used again:
 * "/proc/self/fd//./7". */
static Error *open_library(Served *s, const char *path)
{
	static _Atomic uint64_t count;
	const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char name[192], *to = name + sprintf(name, "/proc/self/fd");
	const char *why;
	void *function;
	dl_get_api_fn get;

	if (file < 0)
		return FAIL(INVALID, "%s: %m; make it: dlcc MODEL.onnx -o model.so", path);
	for (uint64_t n = count++; n; n /= 2)
		to += sprintf(to, n % 2 ? "/." : "/");
	sprintf(to, "/%d", file);
	function = api_open(file, name, &s->library, &why);
	close(file);
	if (!function)
		return FAIL(INVALID, "%s: %s", path, why);
	memcpy(&get, &function, sizeof get);
	s->api = get(DL_ABI_VERSION);
	if (!s->api)
		return FAIL(INVALID, "%s is of another version of the ABI; compile it again", path);
	s->desc = s->api->describe();
	s->n_in = s->desc->n_in;
	s->n_io = s->n_in + s->desc->n_out;
	return NULL;
}

/* Has dlcc make the library at PATH from the model at ONNX. */
static Error *compile(char *onnx, char *path)
{
	char dlcc[] = "dlcc", o[] = "-o", *words[] = {dlcc, onnx, o, path, NULL};
	pid_t pid;
	int status = -1;

	if (posix_spawnp(&pid, dlcc, NULL, NULL, words, environ))
		return FAIL(UNAVAILABLE, "no program dlcc on PATH to compile %s", onnx);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	return status ? FAIL(INVALID, "dlcc failed on %s: see the server's log", onnx) : NULL;
}

/* ---- The server's configuration: JSON, which it writes without spaces ---- */

/* The value of member NAME of the object at P; null: it has none. */
static const char *member(const char *p, const char *name)
{
	const size_t n = strlen(name);
	int depth = 0;

	do {
		if (*p == '"') {
			const char *text = ++p;

			while (*p != '"')
				p += *p == '\\' ? 2 : 1;
			if (depth == 1 && p[1] == ':' && p == text + n && !memcmp(text, name, n))
				return p + 2;
		}
		depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
		p++;
	} while (depth);
	return NULL;
}

/* The text of parameter NAME, with the quote behind it; null: it is not given. */
static const char *parameter(const char *config, const char *name)
{
	const char *all = member(config, "parameters"), *one = all ? member(all, name) : NULL;
	const char *text = one ? member(one, "string_value") : NULL;

	return text ? text + 1 : NULL;
}

/* Input or output I as an object. A batch is not listed. */
static void put_io(FILE *f, const Served *s, int32_t i)
{
	const dl_io *io = io_of(s, i);
	const int32_t first = s->batch >= 0;

	fputs("{\"name\":\"", f);
	escape_to_file(f, io->name, escape_json);
	fprintf(f, "\",\"data_type\":%d,%s\"dims\":[", server_type(io->dtype),
		i < s->n_in && (io->flags & DL_IO_DEFAULT) ? "\"optional\":true," : "");
	for (int32_t d = first; d < io->rank; d++) {
		const dl_dim *dim = dl_io_dim(io, d);

		fprintf(f, d > first ? ",%lld" : "%lld",
			dim->sym < 0 && dim->value >= 0 ? (long long)dim->value : -1LL);
	}
	fputs(io->rank > first ? "]}" : "1]}", f); /* the server needs a dim */
}

/* Has the server add inputs, outputs and batching to the configuration of MODEL. A way of batching
 * that CONFIG has must be named again. */
static Error *complete(ServerModel *model, const Served *s, const char *config)
{
	char *text = NULL;
	size_t bytes;
	Message *message;
	FILE *f = open_memstream(&text, &bytes);
	Error *error;

	if (!f)
		return FAIL(UNAVAILABLE, "no memory for the model's configuration");
	fprintf(f, "{\"max_batch_size\":%d,\"input\":[", s->batch >= 0 ? s->most : 0);
	for (int32_t i = 0; i < s->n_io; i++) {
		fputs(i == s->n_in ? "],\"output\":[" : i ? "," : "", f);
		put_io(f, s, i);
	}
	if (member(config, "sequence_batching"))
		fputs("],\"sequence_batching\":{}}", f);
	else
		fputs(s->batch >= 0 ? "],\"dynamic_batching\":{}}" : "]}", f);
	fclose(f);
	error = TRITONSERVER_MessageNewFromSerializedJson(&message, text, bytes);
	free(text);
	TRY(error);
	error = TRITONBACKEND_ModelSetConfig(model, 1, message);
	TRITONSERVER_MessageDelete(message);
	return error;
}

/* Checks that the server can carry S's inputs and outputs, and finds S's batch. */
static Error *check_ios(Served *s)
{
	for (int32_t i = 0; i < s->n_io; i++) {
		const dl_io *io = io_of(s, i);
		const int32_t sym = io->rank ? dl_io_dim(io, 0)->sym : -1;

		if (io->form != DL_TENSOR || !server_type(io->dtype) || io->rank > MOST_RANK)
			return FAIL(
				UNSUPPORTED,
				"\"%s\": the server has no sequences, optionals, maps, types of less than 8 bits",
				io->name);
		s->strings = s->strings || io->dtype == DL_STR;
		s->numbers = s->numbers || io->rank < 2;
		s->batch = i == 0 || sym == s->batch ? sym : -1;
	}
	if (!s->n_in ||
	    (s->batch >= 0 && !(dl_sym_flags(dl_desc_sym(s->desc, s->batch)) & DL_SYM_INDEPENDENT)))
		s->batch = -1;
	return NULL;
}

/* Checks CONFIG, and completes it where it may be. */
static Error *configure(ServerModel *model, Served *s, const char *config)
{
	const char *in = member(config, "input"), *out = member(config, "output");
	const bool listed = (in && in[1] != ']') || (out && out[1] != ']');
	const char *size = member(config, "max_batch_size");
	const char *threads = parameter(config, "threads");
	const long long most = size ? strtoll(size, NULL, 10) : 0;
	int64_t bound = 0;
	char quote = '"';
	bool may_complete;

	if (threads &&
	    (sscanf(threads, "%9d%c", &s->threads, &quote) != 2 || quote != '"' || s->threads < 0))
		return FAIL(INVALID, "the parameter threads is not a number from 0 on");
	TRY(check_ios(s));
	if (!listed && s->numbers)
		s->batch = -1;
	if (s->batch >= 0)
		bound = dl_desc_sym(s->desc, s->batch)->upper;
	if ((most > 0 || member(config, "dynamic_batching")) && s->batch < 0)
		return FAIL(INVALID, "leave out max_batch_size and dynamic_batching: there is no "
				     "first dim whose elements are proved independent");
	if (most > bound)
		return FAIL(INVALID, "max_batch_size is %lld, and the model takes at most %lld",
			    most, (long long)bound);
	s->most = (int32_t)(most > 0 ? most : bound < USUAL_BATCH ? bound : USUAL_BATCH);
	if (listed && most <= 0)
		s->batch = -1;
	s->joins = s->batch >= 0 && !s->strings && !(s->desc->flags & DL_DESC_UNBOUNDED);
	if (listed)
		return NULL;
	TRY(TRITONBACKEND_ModelAutoCompleteConfig(model, &may_complete));
	if (may_complete)
		return complete(model, s, config);
	return FAIL(INVALID, "the configuration has no inputs, and may not be completed");
}

/* ---- Opening and closing ---- */

Error *served_open(ServerModel *model, Served *s)
{
	const char *config, *folder, *asks;
	char path[4096], onnx[sizeof path + 2]; /* model.onnx has two letters more than model.so */
	uint64_t version;
	size_t bytes;
	int kind;

	pthread_mutex_init(&s->lock, NULL);
	TRY(TRITONBACKEND_ModelConfig(model, 1, &s->config));
	TRY(TRITONSERVER_MessageSerializeToJson(s->config, &config, &bytes));
	TRY(TRITONBACKEND_ModelRepository(model, &kind, &folder));
	TRY(TRITONBACKEND_ModelVersion(model, &version));
	/* a name that is too long is not found */
	snprintf(path, sizeof path, "%s/%llu/model.so", folder, (unsigned long long)version);
	snprintf(onnx, sizeof onnx, "%s/%llu/model.onnx", folder, (unsigned long long)version);
	asks = parameter(config, "compile");
	if (asks && strncmp(asks, "true\"", 5) && strncmp(asks, "false\"", 6))
		return FAIL(INVALID, "the parameter compile is neither true nor false");
	if (asks && *asks == 't' && access(path, F_OK) && !access(onnx, R_OK))
		TRY(compile(onnx, path));
	TRY(open_library(s, path));
	return configure(model, s, config);
}

void served_close(Served *s)
{
	for (int i = 0; i <= MOST_DEVICES; i++)
		if (s->model[i])
			s->api->unload(s->model[i]);
	if (s->library)
		dlclose(s->library);
	if (s->config)
		TRITONSERVER_MessageDelete(s->config);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

Error *served_on(Served *s, int32_t device, uint64_t *workspace)
{
	char name[24] = "cpu";
	dl_load_options options = {
		.size = sizeof options, .threads = s->threads, .log = log_text, .device = name};
	dl_workspace w = {.size = sizeof w};
	int64_t *dims;
	int rc = DL_OK;

	if (device >= MOST_DEVICES)
		return FAIL(UNSUPPORTED, "GPU %d is beyond the first %d", device, MOST_DEVICES);
	if (device >= 0)
		snprintf(name, sizeof name, "cuda:%d", device);
	pthread_mutex_lock(&s->lock);
	if (!s->model[1 + device])
		rc = s->api->load(&options, &s->model[1 + device]);
	pthread_mutex_unlock(&s->lock);
	if (rc)
		return FAIL(UNAVAILABLE, "%s: %s", name, s->api->error(NULL));
	dims = malloc((size_t)(s->desc->n_sym + 1) * sizeof *dims);
	for (int32_t i = 0; dims && i < s->desc->n_sym; i++)
		dims[i] = i == s->batch ? s->most : -1;
	if (dims)
		s->api->workspace(s->model[1 + device], dims, s->desc->n_sym, &w);
	free(dims);
	*workspace = device < 0 ? w.host_bytes : w.device_bytes;
	return NULL;
}
