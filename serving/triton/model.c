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

ServerType server_type(int32_t t)
{
	static const ServerType types[] = {
		[DL_BOOL] = {TYPE_BOOL, 1, "BOOL"},
		[DL_U8] = {TYPE_UINT8, 1, "UINT8"},
		[DL_U16] = {TYPE_UINT16, 2, "UINT16"},
		[DL_U32] = {TYPE_UINT32, 4, "UINT32"},
		[DL_U64] = {TYPE_UINT64, 8, "UINT64"},
		[DL_I8] = {TYPE_INT8, 1, "INT8"},
		[DL_I16] = {TYPE_INT16, 2, "INT16"},
		[DL_I32] = {TYPE_INT32, 4, "INT32"},
		[DL_I64] = {TYPE_INT64, 8, "INT64"},
		[DL_F16] = {TYPE_FP16, 2, "FP16"},
		[DL_F32] = {TYPE_FP32, 4, "FP32"},
		[DL_F64] = {TYPE_FP64, 8, "FP64"},
		[DL_BF16] = {TYPE_BF16, 2, "BF16"},
		[DL_STR] = {TYPE_BYTES, sizeof(dl_str), "STRING"},
	};

	return types[t >= 0 && t < (int)(sizeof types / sizeof *types) ? t : 0];
}

/* ---- The server's configuration: JSON that it writes itself, without spaces and with all members ---- */

/* What follows TEXT, which begins with the name of a member in quotes; null: it has no such member. Inside of a string the quotes would
 * have backslashes. */
static const char *after(const char *config, const char *text)
{
	const char *p = strstr(config, text);

	return p ? p + strlen(text) : NULL;
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

static Error *open_library(Served *s, const char *path)
{
	char *symbol, name[192];
	uint64_t bytes, whole;
	void *function;
	dl_get_api_fn get;

	s->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (s->file < 0)
		return INVALID("%s: %m; make it: dlcc MODEL.onnx -o model.so", path);
	symbol = api_symbol(s->file, &bytes, &whole);
	if (!symbol)
		return INVALID("%s: %s", path,
			       bytes < whole ? "is cut off; copy or compile it again"
					     : "is not a library that dlcc made");
	fresh_name(s->file, name);
	s->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	function = s->library ? dlsym(s->library, symbol) : NULL;
	free(symbol);
	if (!function)
		return INVALID("%s: %s", path, dlerror());
	memcpy(&get, &function, sizeof get);
	s->api = get(DL_ABI_VERSION);
	if (!s->api)
		return INVALID(
			"%s: compiled for another version of the runtime's ABI; compile it again",
			path);
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
	int status;

	if (posix_spawnp(&pid, dlcc, NULL, NULL, words, environ))
		return error_of(
			ERROR_UNAVAILABLE,
			"the configuration asks to compile %s, and there is no program dlcc on PATH",
			onnx);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_of(ERROR_INTERNAL, "dlcc cannot be waited for: %m");
	return status ? INVALID("dlcc failed on %s; its diagnostic is in the server's log", onnx)
		      : NULL;
}

/* ---- What the server is told ---- */

/* The symbol of the first dim of IO, or -1. */
static int32_t first_symbol(const dl_io *io)
{
	return io->rank ? dl_io_dim(io, 0)->sym : -1;
}

/* Checks that the server can carry S's inputs and outputs, and sets what S says of them. Sets *BOUND to the largest batch that the model
 * takes, and *HAS_VECTORS if an input or output has less than two dims. */
static Error *check_ios(Served *s, int64_t *bound, bool *has_vectors)
{
	int32_t batch = s->n_in ? first_symbol(io_of(s, 0)) : -1;

	*has_vectors = false;
	for (int32_t i = 0; i < s->n_io; i++) {
		const dl_io *io = io_of(s, i);

		if (io->form != DL_TENSOR || !server_type(io->dtype).bytes)
			return error_of(ERROR_UNSUPPORTED,
					"%s \"%s\" is %s, which the server cannot carry",
					i < s->n_in ? "input" : "output", io->name,
					io->form == DL_TENSOR
						? "of a type of less than 8 bits or of 8-bit floats"
						: "a sequence, an optional or a map");
		s->has_strings = s->has_strings || io->dtype == DL_STR;
		*has_vectors = *has_vectors || io->rank < 2;
		batch = first_symbol(io) == batch ? batch : -1;
	}
	s->batched = batch >= 0 && (dl_sym_flags(dl_desc_sym(s->desc, batch)) & DL_SYM_INDEPENDENT);
	*bound = batch >= 0 ? dl_desc_sym(s->desc, batch)->upper : 0;
	s->most = *bound < USUAL_BATCH ? *bound : USUAL_BATCH;
	return NULL;
}

static void put_quoted(FILE *f, const char *text)
{
	fputc('"', f);
	for (; *text; text++)
		if ((unsigned char)*text < 0x20)
			fprintf(f, "\\u%04x", (unsigned)*text);
		else
			fprintf(f, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
	fputc('"', f);
}

/* Inputs or outputs FROM to END as the configuration lists them. A batch is not listed. */
static void put_ios(FILE *f, const Served *s, int32_t from, int32_t end)
{
	const int32_t first = s->batched;

	for (int32_t i = from; i < end; i++) {
		const dl_io *io = io_of(s, i);

		fputs(i > from ? ",{\"name\":" : "{\"name\":", f);
		put_quoted(f, io->name);
		fprintf(f, ",\"data_type\":\"TYPE_%s\",%s\"dims\":[", server_type(io->dtype).name,
			i < s->n_in && (io->flags & DL_IO_DEFAULT) ? "\"optional\":true," : "");
		for (int32_t d = first; d < io->rank; d++) {
			const dl_dim *dim = dl_io_dim(io, d);

			fprintf(f, d > first ? ",%lld" : "%lld",
				dim->sym < 0 && dim->value >= 0 ? (long long)dim->value : -1LL);
		}
		/* the server has no tensors without dims (SINGLE), but of a batch */
		fputs(io->rank > first ? "]}"
		      : first          ? "1],\"reshape\":{\"shape\":[]}}"
				       : "1]}",
		      f);
	}
}

/* Completes CONFIG, which lists no inputs and outputs, with these and with batching. */
static Error *complete(ServerModel *model, const Served *s, const char *config)
{
	const char *in = after(config, "\"input\":["), *out = after(config, "\"output\":[");
	const char *most = after(config, "\"max_batch_size\":");
	const bool adds = s->batched && !after(config, "\"dynamic_batching\":");
	char *text = NULL;
	size_t bytes;
	Message *message;
	FILE *f = open_memstream(&text, &bytes);
	Error *error;

	if (!f)
		return NO_MEMORY("the model's configuration");
	fprintf(f, "%.*s%lld%s", (int)(most - config), config, s->batched ? (long long)s->most : 0,
		adds ? ",\"dynamic_batching\":{}" : "");
	most += strcspn(most, ",");
	fprintf(f, "%.*s", (int)(in - most), most);
	put_ios(f, s, 0, s->n_in);
	fprintf(f, "%.*s", (int)(out - in), in);
	put_ios(f, s, s->n_in, s->n_io);
	fputs(out, f);
	fclose(f);
	error = TRITONSERVER_MessageNewFromSerializedJson(&message, text, bytes);
	free(text);
	TRY(error);
	error = TRITONBACKEND_ModelSetConfig(model, 1, message);
	TRITONSERVER_MessageDelete(message);
	return error;
}

/* Checks CONFIG, and completes it where it may be. */
static Error *configure(ServerModel *model, Served *s, const char *config)
{
	const char *in = after(config, "\"input\":["), *out = after(config, "\"output\":[");
	const char *size = after(config, "\"max_batch_size\":");
	const char *threads = after(config, "\"threads\":{\"string_value\":\"");
	long long most;
	int64_t bound = 0;
	bool may_complete, has_vectors, listed;

	if (!size || !in || !out || size > in || in > out)
		return error_of(ERROR_INTERNAL, "the server's configuration is of another form: %s",
				config);
	most = strtoll(size, NULL, 10);
	listed = *in != ']' || *out != ']';
	TRY(check_ios(s, &bound, &has_vectors));
	s->threads = threads ? (int32_t)strtol(threads, NULL, 10) : 0;
	/* without a list, single numbers would get another shape, which clients do not expect */
	s->batched = s->batched && (listed || !has_vectors);
	if ((most > 0 || after(config, "\"dynamic_batching\":")) && !s->batched)
		return INVALID(
			"the configuration has max_batch_size %lld or dynamic_batching, and the model's inputs and outputs have no first dim along which their elements are proved independent; leave both out, or export the model with a symbolic first dim",
			most);
	if (most > bound)
		return INVALID("max_batch_size is %lld, and the model takes at most %lld", most,
			       (long long)bound);
	s->most = most > 0 ? most : s->most;
	if (listed) {
		s->batched = most > 0;
		return NULL;
	}
	TRY(TRITONBACKEND_ModelAutoCompleteConfig(model, &may_complete));
	return may_complete
		       ? complete(model, s, config)
		       : INVALID("the configuration lists no inputs and outputs, and the server runs with --disable-auto-complete-config");
}

/* ---- Opening and closing ---- */

static Error *open_configured(ServerModel *model, Served *s, const char *config)
{
	const char *folder;
	char path[4096], onnx[sizeof path + 2]; /* model.onnx has two letters more than model.so */
	uint64_t version;
	int kind;

	TRY(TRITONBACKEND_ModelRepository(model, &kind, &folder));
	TRY(TRITONBACKEND_ModelVersion(model, &version));
	snprintf(onnx, sizeof onnx, "%s/%llu/model.onnx", folder, (unsigned long long)version);
	if (snprintf(path, sizeof path, "%s/%llu/model.so", folder, (unsigned long long)version) >=
	    (int)sizeof path)
		return INVALID("the name of %s is longer than %zu bytes", folder, sizeof path);
	if (after(config, "\"compile\":{\"string_value\":\"true\"") && access(path, F_OK) &&
	    !access(onnx, R_OK))
		TRY(compile(onnx, path));
	TRY(open_library(s, path));
	return configure(model, s, config);
}

Error *served_open(ServerModel *model, Served *s)
{
	Message *message;
	const char *json;
	char *config;
	size_t bytes;
	Error *error;

	s->file = -1;
	pthread_mutex_init(&s->lock, NULL);
	TRY(TRITONBACKEND_ModelConfig(model, 1, &message));
	error = TRITONSERVER_MessageSerializeToJson(message, &json, &bytes);
	config = error ? NULL : strndup(json, bytes);
	TRITONSERVER_MessageDelete(message);
	TRY(error);
	error = config ? open_configured(model, s, config) : NO_MEMORY("the model's configuration");
	free(config);
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
	dl_model **of = &s->model[1 + device];
	Error *error = NULL;

	if (device >= MOST_DEVICES)
		return error_of(ERROR_UNSUPPORTED, "GPU %d is beyond the first %d", device,
				MOST_DEVICES);
	if (device >= 0)
		snprintf(name, sizeof name, "cuda:%d", device);
	pthread_mutex_lock(&s->lock);
	if (!*of && s->api->load(&options, of))
		error = error_of(ERROR_UNAVAILABLE, "%s: %s", name, s->api->error(NULL));
	*model = *of;
	pthread_mutex_unlock(&s->lock);
	return error;
}
