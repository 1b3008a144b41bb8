/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a model of the server's repository, NAME/VERSION/model.so, and describes it to the server: a
 * repository needs no configuration file. Where there is one, it must fit the model. Its parameters:
 * "threads" (of a run; default: all processors), and "compile": "true" has the program dlcc make
 * model.so from model.onnx where there is none.
 */
#include "base/api_symbol.h"
#include "serving/triton/backend.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The server's max_batch_size of a batch without an upper bound. Larger batches make a run longer, and
 * waiting requests with it, and no more efficient. */
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

/* Opens PATH as S->library. The loader takes a library that was opened by the same name and is still
 * loaded, and a model's file may have been replaced. So the name is that of an open file, and is made
 * new by the bits of a counter, since numbers of files are used again: "/proc/self/fd//./7". */
static Error *open_library(Served *s, const char *path)
{
	static _Atomic uint64_t count;
	char *symbol, name[192], *to = name + sprintf(name, "/proc/self/fd");
	uint64_t bytes, whole;
	void *function;
	dl_get_api_fn get;

	s->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (s->file < 0)
		return FAIL(INVALID, "%s: %m; make it: dlcc MODEL.onnx -o model.so", path);
	symbol = api_symbol(s->file, &bytes, &whole);
	if (!symbol)
		return FAIL(INVALID, "%s %s", path,
			    bytes < whole ? "is cut off; copy or compile it again"
					  : "is not a library that dlcc made");
	for (uint64_t n = count++; n; n /= 2)
		to += sprintf(to, n % 2 ? "/." : "/");
	sprintf(to, "/%d", s->file);
	s->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	function = s->library ? dlsym(s->library, symbol) : NULL;
	free(symbol);
	if (!function)
		return FAIL(INVALID, "%s: %s", path, dlerror());
	memcpy(&get, &function, sizeof get);
	s->api = get(DL_ABI_VERSION);
	if (!s->api)
		return FAIL(INVALID, "%s is of another version of the ABI; compile it again", path);
	s->desc = s->api->describe();
	s->n_in = s->desc->n_in;
	s->n_io = s->n_in + s->desc->n_out;
	s->for_gpus = strstr(s->desc->targets, "sm_");
	return NULL;
}

/* Has dlcc make the library at PATH from the model at ONNX. */
static Error *compile(char *onnx, char *path)
{
	char dlcc[] = "dlcc", o[] = "-o", *words[] = {dlcc, onnx, o, path, NULL};
	pid_t pid;
	int status;

	if (posix_spawnp(&pid, dlcc, NULL, NULL, words, environ))
		return FAIL(UNAVAILABLE,
			    "no program dlcc on PATH to compile %s, as the configuration asks",
			    onnx);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return FAIL(INTERNAL, "dlcc cannot be waited for: %m");
	return status ? FAIL(INVALID, "dlcc failed on %s; its diagnostic is in the server's log",
			     onnx)
		      : NULL;
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

/* Text of a model, as JSON has it. */
static void put_quoted(FILE *f, const char *text)
{
	for (fputc('"', f); *text; text++)
		fprintf(f, (unsigned char)*text < ' ' || strchr("\"\\", *text) ? "\\u%04x" : "%c",
			(unsigned char)*text);
	fputc('"', f);
}

/* Inputs or outputs FROM to END as member NAME. A batch is not listed. */
static void put_ios(FILE *f, const Served *s, const char *name, int32_t from, int32_t end)
{
	const int32_t first = s->batch >= 0;

	fprintf(f, ",\"%s\":[", name);
	for (int32_t i = from; i < end; i++) {
		const dl_io *io = io_of(s, i);

		fputs(i > from ? ",{\"name\":" : "{\"name\":", f);
		put_quoted(f, io->name);
		fprintf(f, ",\"data_type\":%d,%s\"dims\":[", server_type(io->dtype),
			i < s->n_in && (io->flags & DL_IO_DEFAULT) ? "\"optional\":true," : "");
		for (int32_t d = first; d < io->rank; d++) {
			const dl_dim *dim = dl_io_dim(io, d);

			fprintf(f, d > first ? ",%lld" : "%lld",
				dim->sym < 0 && dim->value >= 0 ? (long long)dim->value : -1LL);
		}
		fputs(io->rank > first ? "]}" : "1]}", f); /* the server needs a dim */
	}
	fputc(']', f);
}

/* Has the server add inputs, outputs and batching to the configuration of MODEL. A way of batching that
 * CONFIG has must be named again. */
static Error *complete(ServerModel *model, const Served *s, const char *config)
{
	char *text = NULL;
	size_t bytes;
	Message *message;
	FILE *f = open_memstream(&text, &bytes);
	Error *error;

	if (!f)
		return FAIL(UNAVAILABLE, "no memory for the model's configuration");
	fprintf(f, "{\"max_batch_size\":%d", s->batch >= 0 ? s->most : 0);
	put_ios(f, s, "input", 0, s->n_in);
	put_ios(f, s, "output", s->n_in, s->n_io);
	fputs(member(config, "sequence_batching") ? ",\"sequence_batching\":{}}"
	      : s->batch >= 0                     ? ",\"dynamic_batching\":{}}"
						  : "}",
	      f);
	fclose(f);
	error = TRITONSERVER_MessageNewFromSerializedJson(&message, text, bytes);
	free(text);
	TRY(error);
	error = TRITONBACKEND_ModelSetConfig(model, 1, message);
	TRITONSERVER_MessageDelete(message);
	return error;
}

/* Checks that the server can carry S's inputs and outputs, and finds S's batch. Returns whether all have
 * two dims: a list of others in the configuration would need a reshape. */
static Error *check_ios(Served *s, bool *matrices)
{
	bool strings = false;

	*matrices = true;
	for (int32_t i = 0; i < s->n_io; i++) {
		const dl_io *io = io_of(s, i);
		const int32_t sym = io->rank ? dl_io_dim(io, 0)->sym : -1;

		if (io->form != DL_TENSOR || !server_type(io->dtype) || io->rank > MOST_RANK)
			return FAIL(UNSUPPORTED, "%s \"%s\" is %s, which the server cannot carry",
				    i < s->n_in ? "input" : "output", io->name,
				    io->form == DL_TENSOR
					    ? "of a type of less than 8 bits or of 8-bit floats"
					    : "a sequence, an optional or a map");
		strings = strings || io->dtype == DL_STR;
		*matrices = *matrices && io->rank > 1;
		s->batch = i == 0 || sym == s->batch ? sym : -1;
	}
	if (!s->n_in ||
	    (s->batch >= 0 && !(dl_sym_flags(dl_desc_sym(s->desc, s->batch)) & DL_SYM_INDEPENDENT)))
		s->batch = -1;
	s->joins = !strings && !(s->desc->flags & DL_DESC_UNBOUNDED);
	return NULL;
}

/* Checks CONFIG, and completes it where it may be. */
static Error *configure(ServerModel *model, Served *s, const char *config)
{
	const char *in = member(config, "input"), *out = member(config, "output");
	const bool listed = (in && in[1] != ']') || (out && out[1] != ']');
	const char *size = member(config, "max_batch_size"),
		   *threads = parameter(config, "threads");
	const long long most = size ? strtoll(size, NULL, 10) : 0;
	char *end = NULL;
	const long n = threads ? strtol(threads, &end, 10) : 0;
	int64_t bound = 0;
	bool may_complete, matrices;

	if (n < 0 || n > INT32_MAX || (end && (*end != '"' || end == threads)))
		return FAIL(INVALID, "the parameter threads is not a number from 0 on");
	s->threads = (int32_t)n;
	TRY(check_ios(s, &matrices));
	/* single numbers would get another shape, which clients do not expect */
	if (!listed && !matrices)
		s->batch = -1;
	if (s->batch >= 0)
		bound = dl_desc_sym(s->desc, s->batch)->upper;
	if ((most > 0 || member(config, "dynamic_batching")) && s->batch < 0)
		return FAIL(
			INVALID,
			"the configuration has max_batch_size %lld or dynamic_batching, and the model's inputs and outputs have no first dim along which their elements are proved independent; leave both out, or export the model with a symbolic first dim",
			most);
	if (most > bound)
		return FAIL(INVALID, "max_batch_size is %lld, and the model takes at most %lld",
			    most, (long long)bound);
	s->most = (int32_t)(most > 0 ? most : bound < USUAL_BATCH ? bound : USUAL_BATCH);
	if (listed) {
		s->batch = most > 0 ? s->batch : -1;
		return NULL;
	}
	TRY(TRITONBACKEND_ModelAutoCompleteConfig(model, &may_complete));
	return may_complete
		       ? complete(model, s, config)
		       : FAIL(INVALID,
			      "the configuration lists no inputs and outputs, and the server runs with --disable-auto-complete-config");
}

/* ---- Opening and closing ---- */

static Error *open_configured(ServerModel *model, Served *s, const char *config)
{
	const char *folder, *asks = parameter(config, "compile");
	char path[4096], onnx[sizeof path + 2]; /* model.onnx has two letters more than model.so */
	uint64_t version;
	int kind;

	TRY(TRITONBACKEND_ModelRepository(model, &kind, &folder));
	TRY(TRITONBACKEND_ModelVersion(model, &version));
	snprintf(onnx, sizeof onnx, "%s/%llu/model.onnx", folder, (unsigned long long)version);
	if (snprintf(path, sizeof path, "%s/%llu/model.so", folder, (unsigned long long)version) >=
	    (int)sizeof path)
		return FAIL(INVALID, "the name of %s is longer than %zu bytes", folder,
			    sizeof path);
	if (asks && strncmp(asks, "true\"", 5) && strncmp(asks, "false\"", 6))
		return FAIL(INVALID, "the parameter compile is neither true nor false");
	if (asks && *asks == 't' && access(path, F_OK) && !access(onnx, R_OK))
		TRY(compile(onnx, path));
	TRY(open_library(s, path));
	return configure(model, s, config);
}

Error *served_open(ServerModel *model, Served *s)
{
	Message *message;
	const char *config;
	size_t bytes;
	Error *error;

	s->file = -1;
	pthread_mutex_init(&s->lock, NULL);
	TRY(TRITONBACKEND_ModelConfig(model, 1, &message));
	error = TRITONSERVER_MessageSerializeToJson(message, &config, &bytes);
	error = error ? error : open_configured(model, s, config);
	TRITONSERVER_MessageDelete(message);
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

Error *served_on(Served *s, int32_t device, dl_model **model, uint64_t *workspace)
{
	char name[24] = "cpu";
	dl_load_options options = {
		.size = sizeof options, .threads = s->threads, .log = log_text, .device = name};
	dl_model **of = &s->model[1 + device];
	int64_t *dims = malloc((size_t)(s->desc->n_sym + 1) * sizeof *dims);
	dl_workspace w = {.size = sizeof w};
	Error *error = NULL;

	if (device >= MOST_DEVICES)
		error = FAIL(UNSUPPORTED, "GPU %d is beyond the first %d", device, MOST_DEVICES);
	if (device >= 0)
		snprintf(name, sizeof name, "cuda:%d", device);
	pthread_mutex_lock(&s->lock);
	if (!error && !*of && s->api->load(&options, of))
		error = FAIL(UNAVAILABLE, "%s: %s", name, s->api->error(NULL));
	if (!error)
		*model = *of;
	pthread_mutex_unlock(&s->lock);
	for (int32_t i = 0; dims && i < s->desc->n_sym; i++)
		dims[i] = i == s->batch ? s->most : -1;
	if (dims && !error)
		s->api->workspace(*model, dims, s->desc->n_sym, &w);
	free(dims);
	*workspace = device < 0 ? w.host_bytes : w.device_bytes;
	return error;
}
