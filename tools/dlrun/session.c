/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a compiled model, whatever its name, and describing it. */
#include "tools/dlrun/session.h"

#include "base/api_symbol.h"
#include "base/sys.h"
#include "codegen/package/elf.h"
#include "ir/ctx.h"
#include "ir/dim/dim.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool session_dim_of_inputs(const Session *s, int32_t i)
{
	if (dl_desc_sym(s->desc, i)->kind != DL_SYM_INPUT)
		return false;
	for (int32_t k = 0; k < s->desc->n_in; k++) {
		const dl_io *in = dl_desc_in(s->desc, k);

		if (in->form != DL_TENSOR)
			return true;
		for (int32_t d = 0; d < in->rank; d++)
			if (dl_io_dim(in, d)->sym == i ||
			    (dl_io_dim(in, d)->sym < 0 && dl_io_dim(in, d)->value < 0))
				return true;
	}
	return false;
}

const dl_io *session_in(const Session *s, int32_t i)
{
	return dl_desc_in(s->desc, i);
}

const dl_io *session_out(const Session *s, int32_t o)
{
	return dl_desc_out(s->desc, o);
}

static bool bad(const Session *s, const char *what)
{
	return diag_error(s->diag, (DiagLoc){.file = s->path}, "%s", what);
}

bool session_fail(const Session *s, const char *what, int status)
{
	const void *object = s->context ? (const void *)s->context : (const void *)s->model;
	const char *text = s->api->error(object);

	if (s->context && !text[0])
		text = s->api->error(s->model);
	if (strstr(text, s->api->status_text(status)))
		return diag_error(s->diag, (DiagLoc){.file = s->path}, "%s: %s", what, text);
	return diag_error(s->diag, (DiagLoc){.file = s->path}, "%s: %s: %s", what,
			  s->api->status_text(status), text);
}

bool session_open(Session *s, Arena *a, Diag *d, const char *path)
{
	struct stat st;
	const int fd = open_regular(path, &st);
	const char *why;
	dl_get_api_fn get;
	void *fn;

	*s = (Session){.arena = a, .diag = d, .path = path};
	if (fd < 0)
		return bad(s, open_error());
	fn = api_open(fd, strchr(path, '/') ? path : arena_printf(a, "./%s", path), &s->library,
		      &why);
	close(fd);
	if (!fn)
		return bad(s, elf_machine(path) >= 0 &&
					      elf_machine(path) != elf_machine("/proc/self/exe")
				      ? "made for another kind of machine; compile it for this one"
				      : why);
	memcpy(&get, &fn, sizeof(get));
	s->api = get(DL_ABI_VERSION);
	if (!s->api)
		return bad(s, "compiled for another version of the runtime's ABI");
	s->desc = s->api->describe();
	return true;
}

static void put_warning(void *user, int32_t level, const char *text)
{
	(void)user;
	if (level == DL_LOG_WARNING)
		fprintf(stderr, "dlrun: warning: %s\n", text);
}

/* Loads by S's options, and makes the context and room for tensors. The API's status. */
static int load(Session *s)
{
	int rc = s->api->load(&s->options, &s->model);

	if (!rc)
		rc = s->api->context(s->model, NULL, &s->context);
	if (rc)
		return rc;
	s->in = NEW_ARRAY(s->arena, s->desc->n_in + 1, dl_tensor);
	s->out = NEW_ARRAY(s->arena, s->desc->n_out + 1, dl_tensor);
	s->out_shape = NEW_ARRAY(s->arena, s->desc->n_out + 1, int64_t *);
	for (int32_t o = 0; o < s->desc->n_out; o++)
		s->out_shape[o] = NEW_ARRAY(s->arena, session_out(s, o)->rank + 1, int64_t);
	return DL_OK;
}

bool session_load(Session *s, const dl_load_options *options)
{
	int rc;

	s->options = *options;
	s->options.log = put_warning;
	rc = load(s);
	return rc ? session_fail(s, "load", rc) : true;
}

bool session_load_variant(Session *s, uint64_t features)
{
	bool ok;

	s->model = NULL;
	s->context = NULL;
	s->options.cpu_mask = features;
	s->options.device = "cpu";
	s->options.profile = 0;
	s->options.profile_path = NULL;
	ok = !load(s);
	if (!ok)
		session_unload(s);
	return ok;
}

void session_unload(Session *s)
{
	int rc;

	if (s->context)
		s->api->context_free(s->context);
	s->context = NULL;
	rc = s->model ? s->api->unload(s->model) : DL_OK;
	s->model = NULL;
	if (rc)
		session_fail(s, "unload", rc);
}

void session_close(Session *s)
{
	session_unload(s);
	if (s->library)
		dlclose(s->library);
}

const char *session_device(const Session *s)
{
	/* An artifact of an older dlcc knows of no other. */
	return s->api->size > offsetof(dl_api, device) ? s->api->device(s->model) : "cpu";
}

dl_device_info session_gpu(const Session *s)
{
	dl_device_info info = {.size = sizeof(info)};

	if (s->api->size > offsetof(dl_api, device_info) && strcmp(session_device(s), "cpu") != 0)
		s->api->device_info(s->model, &info);
	return info;
}

/* The bytes of the elements of T, and of its items. */
static double tensor_bytes(const dl_tensor *t)
{
	double bytes = 0;
	Array v;

	if (t->form == DL_TENSOR) {
		v = array_make("", dtype_by_onnx(t->dtype), t->rank, t->shape, NULL);
		return (double)array_bytes(&v);
	}
	for (int64_t i = 0; i < t->n_items; i++)
		bytes += tensor_bytes(
			(const dl_tensor *)(const void *)((const char *)t->items +
							  (size_t)i * t->items->size));
	return bytes;
}

/* The bytes that any run with these tensors reads or writes at least, without weights. */
static double all_bytes(const Session *s)
{
	double bytes = 0;

	for (int32_t i = 0; i < s->desc->n_in; i++)
		bytes += tensor_bytes(&s->in[i]);
	for (int32_t o = 0; o < s->desc->n_out; o++)
		bytes += tensor_bytes(&s->out[o]);
	return bytes;
}

static void set_inputs(Session *s, const Array *in)
{
	dl_tensor *room;
	int64_t n = 0;

	for (int32_t i = 0; i < s->desc->n_in; i++)
		n += array_items(&in[i]);
	if (n > s->n_items) {
		s->items = NEW_ARRAY(s->arena, 2 * n, dl_tensor);
		s->n_items = 2 * n;
	}
	room = s->items;
	for (int32_t i = 0; i < s->desc->n_in; i++)
		room = array_tensor(&in[i], &s->in[i], room);
}

int session_run(Session *s, const Array *in)
{
	int rc;

	if (!s->given)
		s->given = in;
	set_inputs(s, in);
	for (int32_t o = 0; o < s->desc->n_out; o++)
		s->out[o] = (dl_tensor){.size = sizeof(dl_tensor),
					.form = session_out(s, o)->form,
					.rank = session_out(s, o)->rank,
					.shape = s->out_shape[o]};
	rc = s->api->run(s->context, s->in, s->desc->n_in, s->out, s->desc->n_out, NULL);
	if (!rc) {
		s->bytes = all_bytes(s);
		s->all_bytes += s->bytes + (double)session_gpu(s).weights_bytes;
		s->runs++;
	}
	return rc;
}

Array session_output(const Session *s, int32_t o)
{
	return array_of(s->arena, &s->out[o], session_out(s, o)->name);
}

Array *session_copy_outputs(const Session *s)
{
	Array *all = NEW_ARRAY(s->arena, s->desc->n_out + 1, Array);

	for (int32_t o = 0; o < s->desc->n_out; o++) {
		const Array v = session_output(s, o);

		all[o] = array_copy(s->arena, &v);
	}
	return all;
}

uint32_t session_inside(const Session *s)
{
	const bool tf32 = strstr(s->desc->targets, "+tf32") && session_gpu(s).sm;

	/* tf32 has f16's 11 bits. */
	return (s->desc->flags & (DL_DESC_F16 | DL_DESC_BF16)) | (tf32 ? DL_DESC_F16 : 0);
}

const char *session_shown(const Session *s, const char *text)
{
	return arena_escape(s->arena, text, escape_terminal);
}

/* Item K of IO, whose structs may be of another version. */
static const dl_io *io_item(const dl_io *io, int k)
{
	return (const dl_io *)(const void *)((const char *)io->item + (size_t)k * io->item->size);
}

static void put_type(const Session *s, StrBuf *b, const dl_io *io)
{
	static const char *const word[] = {
		[DL_SEQUENCE] = "seq", [DL_OPTIONAL] = "opt", [DL_MAP] = "map"};
	const DType t = dtype_by_onnx(io->dtype);

	if (io->form == DL_MAP) {
		strbuf_printf(b, "map(%s,%s[])",
			      dtype_info[dtype_by_onnx(io_item(io, 0)->dtype)].name,
			      dtype_info[dtype_by_onnx(io_item(io, 1)->dtype)].name);
	} else if (io->form != DL_TENSOR) {
		strbuf_printf(b, "%s(", word[io->form]);
		put_type(s, b, io->item);
		strbuf_puts(b, ")");
	} else {
		strbuf_printf(b, "%s[", t == DT_NONE ? "?" : dtype_info[t].name);
		for (int32_t d = 0; d < io->rank; d++)
			strbuf_printf(b, "%s%s", d ? ", " : "",
				      session_shown(s, dl_io_dim(io, d)->text));
		strbuf_puts(b, "]");
	}
}

const char *session_type(const Session *s, const dl_io *io)
{
	StrBuf b = {0};
	const char *text;

	put_type(s, &b, io);
	text = arena_strdup(s->arena, strbuf_str(&b));
	strbuf_free(&b);
	return text;
}

dl_accuracy session_accuracy(const Session *s, int32_t o)
{
	const dl_io *io = session_out(s, o);

	/* a description of an earlier version has no such member */
	return io->size >= sizeof *io && io->accuracy
		       ? *io->accuracy
		       : (dl_accuracy){.size = sizeof(dl_accuracy), .dim = -1, .by = -1};
}

/* Prints dl_accuracy of output O. */
static void describe_accuracy(const Session *s, FILE *f, int32_t o)
{
	const dl_accuracy a = session_accuracy(s, o);

	if (a.step > 0)
		fprintf(f, ", in steps of %.3g", a.step);
	if (a.by >= 0)
		fprintf(f, ", in the order of %s", session_shown(s, session_out(s, a.by)->name));
	else if (a.dim >= 0)
		fprintf(f, ", in any order along dim %d", a.dim);
}

static void describe_io(const Session *s, FILE *f, const char *what, const dl_io *io)
{
	fprintf(f, "%s %s: %s", what, session_shown(s, io->name), session_type(s, io));
}

void session_describe(const Session *s, FILE *f)
{
	const dl_desc *d = s->desc;

	fprintf(f, "model %s\ncompiler %s\nhash %s\ntargets %s\nweights %" PRIu64 " bytes\n",
		d->name, d->version, d->hash, d->targets, d->weights_size);
	for (int32_t i = 0; i < d->n_in; i++) {
		describe_io(s, f, "input", session_in(s, i));
		fprintf(f, "%s%s\n",
			session_in(s, i)->flags & DL_IO_HOST ? " (the host reads it)" : "",
			session_in(s, i)->flags & DL_IO_DEFAULT ? " (has a default)" : "");
	}
	for (int32_t o = 0; o < d->n_out; o++) {
		const int32_t alias = session_out(s, o)->alias;

		describe_io(s, f, "output", session_out(s, o));
		if (alias >= 0)
			fprintf(f, " may share memory with %s",
				session_shown(s, session_in(s, alias)->name));
		describe_accuracy(s, f, o);
		fprintf(f, "\n");
	}
	for (int32_t i = 0; i < d->n_sym; i++) {
		const dl_sym *y = dl_desc_sym(d, i);

		fprintf(f, "dim %s: ", session_shown(s, y->name));
		if (y->lower != INT64_MIN)
			fprintf(f, "%" PRId64, y->lower);
		fputs("..", f);
		if (y->upper != DL_UNLIMITED)
			fprintf(f, "%" PRId64, y->upper);
		fprintf(f, "%s\n", y->kind == DL_SYM_DATA ? " (found while computing)" : "");
	}
	if (d->flags & DL_DESC_UNBOUNDED)
		fprintf(f, "some memory has no bound and is taken from the allocator\n");
}

/* The value of a dim under the symbols' values; -1 when its text cannot be read. */
static int64_t dim_value(const Session *s, Ctx *ctx, const dl_dim *d, const int64_t *sym_values)
{
	const char *p = d->text;
	Dim *dim;
	int64_t *values, r;

	if (d->value >= 0)
		return d->value;
	if (d->sym >= 0)
		return sym_values[d->sym];
	dim = dim_parse(ctx, &p);
	values = NEW_ARRAY(s->arena, sym_count(ctx) + 1, int64_t);
	for (int i = 0; i < sym_count(ctx); i++) {
		values[i] = 1;
		for (int32_t k = 0; k < s->desc->n_sym; k++)
			if (!strcmp(dl_desc_sym(s->desc, k)->name, sym_at(ctx, i)->name))
				values[i] = sym_values[k];
	}
	return dim && !*p && dim_eval(dim, values, &r) ? r : -1;
}

/* Whether there is memory for V, asked before it is taken. */
static bool room_for(const Session *s, const dl_io *io, const Array *v)
{
	double bytes = v->dtype == DT_STR ? sizeof(dl_str) : dtype_info[v->dtype].bits / 8.0;
	StrBuf dims = {0};
	void *p;

	for (int32_t d = 0; d < v->rank; d++) {
		const dl_dim *dim = dl_io_dim(io, d);

		bytes *= (double)v->dims[d];
		strbuf_printf(&dims, "%s%s%s%" PRId64, d ? ", " : "",
			      dim->value < 0 ? dim->text : "", dim->value < 0 ? " = " : "",
			      v->dims[d]);
	}
	p = bytes < 0x1p62 ? malloc((size_t)bytes + 1) : NULL;
	if (!p)
		diag_error(s->diag, (DiagLoc){.file = s->path},
			   "input \"%s\" [%s] takes %.1f GiB, for which there is no memory",
			   io->name, strbuf_str(&dims), bytes / 0x1p30);
	strbuf_free(&dims);
	free(p);
	return p != NULL;
}

int64_t *session_dims(const Session *s, const Array *in)
{
	int64_t *v = NEW_ARRAY(s->arena, s->desc->n_sym + 1, int64_t);

	for (int32_t i = 0; i < s->desc->n_sym; i++)
		v[i] = -1;
	for (int32_t i = 0; i < s->desc->n_in; i++)
		for (int32_t d = 0; d < in[i].rank; d++) {
			const int32_t sym = dl_io_dim(session_in(s, i), d)->sym;

			if (sym >= 0)
				v[sym] = in[i].dims[d];
		}
	return v;
}

bool session_default(const Session *s, int32_t i, Array *v)
{
	const dl_io *io = session_in(s, i);

	if (!(io->flags & DL_IO_DEFAULT))
		return false;
	*v = array_make(io->name, dtype_by_onnx(io->dtype), io->rank,
			NEW_ARRAY(s->arena, io->rank + 1, int64_t), NULL);
	for (int32_t d = 0; d < io->rank; d++)
		v->dims[d] = dl_io_dim(io, d)->value;
	return true;
}

Array *session_random(Session *s, const int64_t *sym_values)
{
	Array *in = NEW_ARRAY(s->arena, s->desc->n_in + 1, Array);
	Ctx *ctx = ctx_new(s->diag);
	uint64_t seed = 1;
	bool ok = true;

	for (int32_t i = 0; ok && i < s->desc->n_in; i++) {
		const dl_io *io = session_in(s, i);

		if (session_default(s, i, &in[i]))
			continue;
		if (io->form != DL_TENSOR) {
			ok = diag_error(s->diag, (DiagLoc){.file = s->path},
					"input \"%s\" is not a tensor but %s, for which there are no random values; "
					"give it with --data or -i",
					io->name, session_type(s, io));
			continue;
		}
		in[i] = array_make(io->name, dtype_by_onnx(io->dtype), io->rank,
				   NEW_ARRAY(s->arena, io->rank + 1, int64_t), NULL);
		for (int32_t d = 0; ok && d < io->rank; d++) {
			in[i].dims[d] = dim_value(s, ctx, dl_io_dim(io, d), sym_values);
			if (in[i].dims[d] < 0)
				ok = diag_error(s->diag, (DiagLoc){.file = s->path},
						"input \"%s\": dim %s cannot be told; use --dim",
						io->name, dl_io_dim(io, d)->text);
		}
		ok = ok && room_for(s, io, &in[i]);
		if (ok)
			array_random(s->arena, &in[i], &seed);
	}
	ctx_free(ctx);
	return ok ? in : NULL;
}
