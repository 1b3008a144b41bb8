/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a model of the server's repository, NAME/VERSION/model.so, and describes it to the server: a repository needs no configuration
 * file. Where there is one, it must fit the model. Its parameters: "threads" (of a run; default: all processors), and "compile":
 * "true" has the program dlcc make model.so from model.onnx where there is none.
 */
#include "base/api_symbol.h"
#include "serving/triton/backend.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
	/* The server's max_batch_size of a batch without an upper bound. Larger batches make a run longer, and waiting requests with it,
	 * and no more efficient. */
	USUAL_BATCH = 64,
};

Error *error_of(ErrorCode code, const char *format, ...)
{
	char text[1024];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	return TRITONSERVER_ErrorNew(code, text);
}

/* ---- Element types ---- */

static const struct {
	int32_t ours;
	DataType server;
	uint64_t bytes;
	const char *name;
} types[] = {
	{DL_BOOL, TYPE_BOOL, 1, "BOOL"},
	{DL_U8, TYPE_UINT8, 1, "UINT8"},
	{DL_U16, TYPE_UINT16, 2, "UINT16"},
	{DL_U32, TYPE_UINT32, 4, "UINT32"},
	{DL_U64, TYPE_UINT64, 8, "UINT64"},
	{DL_I8, TYPE_INT8, 1, "INT8"},
	{DL_I16, TYPE_INT16, 2, "INT16"},
	{DL_I32, TYPE_INT32, 4, "INT32"},
	{DL_I64, TYPE_INT64, 8, "INT64"},
	{DL_F16, TYPE_FP16, 2, "FP16"},
	{DL_F32, TYPE_FP32, 4, "FP32"},
	{DL_F64, TYPE_FP64, 8, "FP64"},
	{DL_STR, TYPE_BYTES, sizeof(dl_str), "STRING"},
	{DL_BF16, TYPE_BF16, 2, "BF16"},
};

static int row_of(int32_t t)
{
	for (int i = 0; i < (int)(sizeof types / sizeof *types); i++)
		if (types[i].ours == t)
			return i;
	return -1;
}

DataType server_type(int32_t t)
{
	const int row = row_of(t);

	return row < 0 ? TYPE_INVALID : types[row].server;
}

uint64_t type_bytes(int32_t t)
{
	return types[row_of(t)].bytes;
}

/* ---- JSON: the server's configuration, which it has checked ---- */

typedef struct Span {
	const char *at, *end;
} Span;

static const char *skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
		p++;
	return p;
}

/* The end of the string that begins at P. */
static const char *skip_string(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		p += *p == '\\' && p + 1 < end;
	return p < end ? p + 1 : end;
}

/* The end of the value at P: of a string, of an object or array with all that is in it, or of a
 * word. */
static const char *skip_value(const char *p, const char *end)
{
	int depth = 0;

	for (p = skip_space(p, end); p < end; p++) {
		if (*p == '"') {
			p = skip_string(p, end) - 1;
			if (!depth)
				return p + 1;
		} else if (*p == '{' || *p == '[') {
			depth++;
		} else if (*p == '}' || *p == ']') {
			if (!depth)
				return p;
			if (!--depth)
				return p + 1;
		} else if (!depth && *p == ',') {
			return p;
		}
	}
	return end;
}

/* The next member of the object whose rest begins at *P, past "{" or ",": false: there is none. */
static bool next_member(const char **p, const char *end, Span *key, Span *value)
{
	const char *at = skip_space(*p, end);

	if (at >= end || *at != '"')
		return false;
	*key = (Span){at + 1, skip_value(at, end) - 1};
	at = skip_space(key->end + 1, end);
	if (at >= end || *at != ':')
		return false;
	value->at = skip_space(at + 1, end);
	value->end = skip_value(value->at, end);
	*p = skip_space(value->end, end);
	*p += *p < end && **p == ',';
	return true;
}

static bool is(Span s, const char *text)
{
	return (size_t)(s.end - s.at) == strlen(text) && !memcmp(s.at, text, strlen(text));
}

/* Member NAME of OBJECT; empty: it has none. */
static Span member(Span object, const char *name)
{
	const char *p = object.at + (object.at < object.end);
	Span key, value;

	while (next_member(&p, object.end, &key, &value))
		if (is(key, name))
			return value;
	return (Span){object.end, object.end};
}

/* The text of a string value, without escapes, or of a word. */
static Span text_of(Span value)
{
	return value.end - value.at >= 2 && *value.at == '"' ? (Span){value.at + 1, value.end - 1}
							     : value;
}

/* The value of parameter NAME in the configuration. */
static Span parameter(Span config, const char *name)
{
	return text_of(member(member(member(config, "parameters"), name), "string_value"));
}

static int64_t number(Span value, int64_t otherwise)
{
	char digits[24] = "";

	value = text_of(value);
	if (value.at == value.end || value.end - value.at >= (ptrdiff_t)sizeof digits)
		return otherwise;
	memcpy(digits, value.at, (size_t)(value.end - value.at));
	return strtoll(digits, NULL, 10);
}

/* ---- The library ---- */

/* A name of the file FD that the loader has not seen before: "/proc/self/fd//./7". Numbers of files are used again, and the loader takes
 * a library that was opened by the same name and is still loaded. COUNT, in binary, makes the name new. */
static void fresh_name(int fd, char *to)
{
	static _Atomic uint64_t count;

	to += sprintf(to, "/proc/self/fd");
	for (uint64_t n = count++; n; n /= 2)
		to += sprintf(to, n % 2 ? "/." : "/");
	sprintf(to, "/%d", fd);
}

/* Opens the library at PATH. */
static Error *open_library(Served *s, const char *path)
{
	char *symbol, name[192];
	uint64_t bytes, whole;
	void *function;
	dl_get_api_fn get;

	s->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (s->file < 0)
		return error_of(ERROR_NOT_FOUND, "%s: %m; make it: dlcc MODEL.onnx -o model.so",
				path);
	symbol = api_symbol(s->file, &bytes, &whole);
	if (!symbol)
		return error_of(ERROR_INVALID_ARG, "%s: %s", path,
				bytes < whole ? "is cut off; copy or compile it again"
					      : "is not a library that dlcc made");
	fresh_name(s->file, name);
	s->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	function = s->library ? dlsym(s->library, symbol) : NULL;
	free(symbol);
	if (!function)
		return error_of(ERROR_INVALID_ARG, "%s: %s", path, dlerror());
	memcpy(&get, &function, sizeof get);
	s->api = get(DL_ABI_VERSION);
	if (!s->api)
		return error_of(
			ERROR_INVALID_ARG,
			"%s: compiled for another version of the runtime's ABI; compile it again",
			path);
	s->desc = s->api->describe();
	return NULL;
}

/* Has dlcc make the library at PATH from the model at ONNX. */
static Error *compile(const char *onnx, const char *path)
{
	char *words[] = {(char *)(uintptr_t) "dlcc", (char *)(uintptr_t)onnx,
			 (char *)(uintptr_t) "-o", (char *)(uintptr_t)path, NULL};
	pid_t pid;
	int status;

	if (posix_spawnp(&pid, "dlcc", NULL, NULL, words, environ))
		return error_of(
			ERROR_UNAVAILABLE,
			"the configuration asks to compile %s, and there is no program dlcc on PATH",
			onnx);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_of(ERROR_INTERNAL, "dlcc cannot be waited for: %m");
	return status ? error_of(ERROR_INVALID_ARG,
				 "dlcc failed on %s; its diagnostic is in the server's log", onnx)
		      : NULL;
}

/* ---- What the server is told ---- */

/* Checks that the server can carry the type of IO. */
static Error *check_io(Served *s, const dl_io *io, const char *what)
{
	if (io->form != DL_TENSOR || server_type(io->dtype) == TYPE_INVALID)
		return error_of(ERROR_UNSUPPORTED, "%s \"%s\" is %s, which the server cannot carry",
				what, io->name,
				io->form == DL_TENSOR
					? "of a type of less than 8 bits or of 8-bit floats"
					: "a sequence, an optional or a map");
	s->has_strings = s->has_strings || io->dtype == DL_STR;
	return NULL;
}

/* The symbol of the first dim of IO, or -1. */
static int32_t first_symbol(const dl_io *io)
{
	return io->rank ? dl_io_dim(io, 0)->sym : -1;
}

/* Sets what S says of its inputs and outputs. */
static Error *check_ios(Served *s)
{
	int32_t batch = s->desc->n_in ? first_symbol(dl_desc_in(s->desc, 0)) : -1;

	for (int32_t i = 0; i < s->desc->n_in + s->desc->n_out; i++) {
		const bool in = i < s->desc->n_in;
		const dl_io *io = in ? dl_desc_in(s->desc, i)
				     : dl_desc_out(s->desc, i - s->desc->n_in);

		TRY(check_io(s, io, in ? "input" : "output"));
		batch = first_symbol(io) == batch ? batch : -1;
		s->has_vectors = s->has_vectors || io->rank < 2;
	}
	s->batched = batch >= 0 && (dl_sym_flags(dl_desc_sym(s->desc, batch)) & DL_SYM_INDEPENDENT);
	s->bound = batch >= 0 ? dl_desc_sym(s->desc, batch)->upper : 0;
	s->most = s->bound < USUAL_BATCH ? s->bound : USUAL_BATCH;
	return NULL;
}

static void put_quoted(FILE *f, const char *text)
{
	fputc('"', f);
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20)
			fprintf(f, "\\u%04x", (unsigned)*text);
		else
			fprintf(f, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
	}
	fputc('"', f);
}

/* The inputs or outputs as the configuration lists them. A batch is not listed. */
static void put_ios(FILE *f, const Served *s, bool in)
{
	fprintf(f, "\"%s\":[", in ? "input" : "output");
	for (int32_t i = 0; i < (in ? s->desc->n_in : s->desc->n_out); i++) {
		const dl_io *io = in ? dl_desc_in(s->desc, i) : dl_desc_out(s->desc, i);
		const int32_t first = s->batched;

		fprintf(f, "%s{\"name\":", i ? "," : "");
		put_quoted(f, io->name);
		fprintf(f, ",\"data_type\":\"TYPE_%s\",%s\"dims\":[", types[row_of(io->dtype)].name,
			in && (io->flags & DL_IO_DEFAULT) ? "\"optional\":true," : "");
		for (int32_t d = first; d < io->rank; d++) {
			const dl_dim *dim = dl_io_dim(io, d);

			fprintf(f, "%s%lld", d > first ? "," : "",
				dim->sym < 0 && dim->value >= 0 ? (long long)dim->value : -1LL);
		}
		/* the server has no tensors without dims (SINGLE), but of a batch */
		fputs(io->rank > first ? "]}" : first ? "1],\"reshape\":{\"shape\":[]}}" : "1]}", f);
	}
	fputs("]", f);
}

/* Completes CONFIG with what it lacks of inputs, outputs and batching. */
static Error *complete(ServerModel *model, const Served *s, Span config)
{
	const char *p = config.at + 1;
	char *text = NULL;
	size_t bytes;
	Message *message;
	Span key, value;
	FILE *f = open_memstream(&text, &bytes);
	Error *error;

	if (!f)
		return error_of(ERROR_UNAVAILABLE, "no memory for the model's configuration");
	fputc('{', f);
	while (next_member(&p, config.end, &key, &value))
		if (!is(key, "input") && !is(key, "output") && !is(key, "max_batch_size") &&
		    !(is(key, "dynamic_batching") && !s->batched))
			fprintf(f, "\"%.*s\":%.*s,", (int)(key.end - key.at), key.at,
				(int)(value.end - value.at), value.at);
	put_ios(f, s, true);
	fputc(',', f);
	put_ios(f, s, false);
	fprintf(f, ",\"max_batch_size\":%lld", s->batched ? (long long)s->most : 0);
	if (s->batched && member(config, "dynamic_batching").at == config.end)
		fputs(",\"dynamic_batching\":{}", f);
	fputc('}', f);
	fclose(f);
	error = TRITONSERVER_MessageNewFromSerializedJson(&message, text, bytes);
	free(text);
	TRY(error);
	error = TRITONBACKEND_ModelSetConfig(model, 1, message);
	TRITONSERVER_MessageDelete(message);
	return error;
}

/* Whether the array LIST of the configuration has an entry. */
static bool has_entries(Span list)
{
	return list.end - list.at > 2;
}

/* Checks and takes max_batch_size of CONFIG, which is above 0 where there are batches. */
static Error *take_batch(Served *s, Span config)
{
	const int64_t most = number(member(config, "max_batch_size"), 0);
	const bool asked = most > 0 || member(config, "dynamic_batching").at < config.end;

	if (asked && !s->batched)
		return error_of(
			ERROR_INVALID_ARG,
			"the configuration has max_batch_size %lld or dynamic_batching, and the model's inputs and outputs have no first dim along which their elements "
			"are proved independent; leave both out, or export the model with a symbolic first dim",
			(long long)most);
	if (most > s->bound)
		return error_of(
			ERROR_INVALID_ARG,
			"max_batch_size is %lld, and the model was compiled for at most %lld",
			(long long)most, (long long)s->bound);
	s->most = most > 0 ? most : s->most;
	return NULL;
}

static Error *configure(ServerModel *model, Served *s, Span config)
{
	bool may_complete, listed;

	s->threads = (int32_t)number(parameter(config, "threads"), 0);
	TRY(TRITONBACKEND_ModelAutoCompleteConfig(model, &may_complete));
	listed = has_entries(member(config, "input")) || has_entries(member(config, "output"));
	/* without a list, single numbers would get another shape, which clients do not expect */
	s->batched = s->batched && (listed || !s->has_vectors);
	TRY(take_batch(s, config));
	if (listed) {
		s->batched = number(member(config, "max_batch_size"), 0) > 0;
		return NULL;
	}
	if (!may_complete)
		return error_of(
			ERROR_INVALID_ARG,
			"the configuration lists no inputs and outputs, and the server runs with --disable-auto-complete-config");
	return complete(model, s, config);
}

/* ---- Opening and closing ---- */

static Error *open_configured(ServerModel *model, Served *s, Span config)
{
	const char *folder;
	char path[4096], onnx[4096];
	uint64_t version;
	int kind;

	TRY(TRITONBACKEND_ModelRepository(model, &kind, &folder));
	TRY(TRITONBACKEND_ModelVersion(model, &version));
	snprintf(onnx, sizeof onnx, "%s/%llu/model.onnx", folder, (unsigned long long)version);
	if (snprintf(path, sizeof path, "%s/%llu/model.so", folder, (unsigned long long)version) >=
	    (int)sizeof path - 8)
		return error_of(ERROR_INVALID_ARG, "the name of %s is longer than %zu bytes",
				folder, sizeof path);
	if (is(parameter(config, "compile"), "true") && access(path, F_OK) && !access(onnx, R_OK))
		TRY(compile(onnx, path));
	TRY(open_library(s, path));
	TRY(check_ios(s));
	return configure(model, s, config);
}

Error *served_open(ServerModel *model, Served **served)
{
	Served *s = calloc(1, sizeof *s);
	Message *message;
	const char *json;
	size_t bytes;
	Error *error;

	if (!s)
		return error_of(ERROR_UNAVAILABLE, "no memory for the model");
	s->file = -1;
	pthread_mutex_init(&s->lock, NULL);
	error = TRITONBACKEND_ModelConfig(model, 1, &message);
	if (!error) {
		error = TRITONSERVER_MessageSerializeToJson(message, &json, &bytes);
		error = error ? error : open_configured(model, s, (Span){json, json + bytes});
		TRITONSERVER_MessageDelete(message);
	}
	if (error)
		served_close(s);
	else
		*served = s;
	return error;
}

void served_close(Served *s)
{
	for (int i = 0; i <= MOST_DEVICES; i++)
		if (s->model[i])
			s->api->unload(s->model[i]);
	if (s->library)
		dlclose(s->library);
	if (s->file >= 0)
		close(s->file);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* The runtime's warnings go into the server's log. */
static void log_text(void *user, int32_t level, const char *text)
{
	(void)user;
	TRITONSERVER_LogMessage(level == DL_LOG_ERROR     ? LOG_ERROR
				: level == DL_LOG_WARNING ? LOG_WARNING
							  : LOG_INFO,
				"dlcc", 0, text);
}

Error *served_on(Served *s, int32_t device, dl_model **model)
{
	char name[24] = "cpu";
	dl_load_options options = {
		.size = sizeof options, .threads = s->threads, .log = log_text, .device = name};
	dl_model **of;
	Error *error = NULL;

	if (device >= MOST_DEVICES)
		return error_of(ERROR_UNSUPPORTED, "GPU %d is beyond the first %d", device,
				MOST_DEVICES);
	if (device >= 0)
		snprintf(name, sizeof name, "cuda:%d", device);
	of = &s->model[1 + device];
	pthread_mutex_lock(&s->lock);
	if (!*of && s->api->load(&options, of))
		error = error_of(ERROR_UNAVAILABLE, "%s: %s", name, s->api->error(NULL));
	*model = *of;
	pthread_mutex_unlock(&s->lock);
	return error;
}
