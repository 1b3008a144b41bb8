/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads models: options, memory, errors, choice of the variant, weights and threads. A loaded model
 * is constant, except for the text of its last error, its number of contexts and its profile.
 */
#include "runtime/escape.h"
#include "runtime/rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text of the last failure, in this thread, of load or of a call on a model. */
static _Thread_local char last_error[sizeof(((Head *)NULL)->error)];
/* A copy of a model's text for this thread, since other threads may change it at any time. */
static _Thread_local char shown_error[sizeof(last_error)];
_Thread_local const void *rt_refused;

static const struct Type {
	uint8_t bits, align;
	const char *name;
} types[] = {
	[DL_F32] = {32, 4, "f32"},
	[DL_U8] = {8, 1, "u8"},
	[DL_I8] = {8, 1, "i8"},
	[DL_U16] = {16, 2, "u16"},
	[DL_I16] = {16, 2, "i16"},
	[DL_I32] = {32, 4, "i32"},
	[DL_I64] = {64, 8, "i64"},
	[DL_STR] = {64, 8, "str"}, /* in a program: its id */
	[DL_BOOL] = {8, 1, "bool"},
	[DL_F16] = {16, 2, "f16"},
	[DL_F64] = {64, 8, "f64"},
	[DL_U32] = {32, 4, "u32"},
	[DL_U64] = {64, 8, "u64"},
	[DL_BF16] = {16, 2, "bf16"},
	[DL_F8E4M3FN] = {8, 1, "f8e4m3fn"},
	[DL_F8E4M3FNUZ] = {8, 1, "f8e4m3fnuz"},
	[DL_F8E5M2] = {8, 1, "f8e5m2"},
	[DL_F8E5M2FNUZ] = {8, 1, "f8e5m2fnuz"},
	[DL_U4] = {4, 1, "u4"},
	[DL_I4] = {4, 1, "i4"},
	[DL_F4E2M1] = {4, 1, "f4e2m1"},
	[DL_F8E8M0] = {8, 1, "f8e8m0"},
	[DL_U2] = {2, 1, "u2"},
	[DL_I2] = {2, 1, "i2"},
	[DL_F6E2M3] = {6, 1, "f6e2m3"},
	[DL_F6E3M2] = {6, 1, "f6e3m2"},
};

static const char *const status_texts[] = {
	[DL_OK] = "ok",
	[DL_INVALID] = "invalid argument",
	[DL_ABI] = "versions do not fit together",
	[DL_SHAPE] = "shapes do not agree with the model",
	[DL_INDEX] = "index out of range",
	[DL_NOMEM] = "out of memory",
	[DL_WORKSPACE] = "workspace too small",
	[DL_CAPACITY] = "output memory too small",
	[DL_WEIGHTS] = "weights are missing, or belong to another model",
	[DL_TARGET] = "the model was compiled for another kind of machine",
	[DL_CANCELLED] = "cancelled",
	[DL_UNSUPPORTED] = "not supported",
	[DL_BUSY] = "in use",
	[DL_IO] = "file could not be written",
	[DL_UNBOUNDED] = "size has no upper bound",
	[DL_RUNTIME] = "the model failed",
	[DL_DEVICE] = "the GPU's driver failed",
	[DL_DEVICE_LOST] = "the GPU is lost to this process",
};

const char *dl_rt_status_text(int status)
{
	const int n = (int)(sizeof(status_texts) / sizeof(status_texts[0]));

	return status >= 0 && status < n ? status_texts[status] : "unknown status";
}

static const char *model_error(dl_model *m)
{
	pthread_mutex_lock(&m->lock);
	memcpy(shown_error, m->head.error, sizeof(shown_error));
	pthread_mutex_unlock(&m->lock);
	return shown_error;
}

const char *dl_rt_error(const void *object)
{
	const Head *h = object;

	if (!h)
		return last_error;
	/* Another thread uses the context, and its text belongs to that thread. */
	if (h == rt_refused)
		return "the context is in use: its functions, apart from cancel, are for one "
		       "thread at a time";
	if (h->magic == RT_MAGIC_MODEL)
		return model_error((dl_model *)(uintptr_t)object);
	return h->magic == RT_MAGIC_CONTEXT ? h->error : "";
}

static struct Type type_of(int32_t dtype)
{
	const bool known = dtype >= 0 && dtype < (int32_t)(sizeof(types) / sizeof(types[0]));

	return known && types[dtype].bits ? types[dtype] : (struct Type){0, 1, "of no known type"};
}

unsigned rt_dtype_bits(int32_t dtype)
{
	return type_of(dtype).bits;
}

unsigned rt_dtype_align(int32_t dtype)
{
	return type_of(dtype).align;
}

const char *rt_dtype_name(int32_t dtype)
{
	return type_of(dtype).name;
}

const char *rt_form_name(int32_t form)
{
	static const char *const names[] = {[DL_TENSOR] = "a tensor",
					    [DL_SEQUENCE] = "a sequence",
					    [DL_OPTIONAL] = "an optional",
					    [DL_MAP] = "a map",
					    [DL_PIECES] = "a tensor in pieces"};

	return form >= 0 && form <= DL_PIECES ? names[form] : "of no known form";
}

bool rt_is_unset(const dl_tensor *t)
{
	return t->form == DL_TENSOR && !t->dtype && !t->data && !t->rank;
}

int64_t rt_bytes(int32_t dtype, int64_t n)
{
	const int64_t bits = rt_dtype_bits(dtype);

	if (bits >= 8)
		return dl_mul(n, bits / 8);
	n = dl_mul(n, bits);
	return n / 8 + (n % 8 != 0);
}

static void *default_alloc(void *user, uint64_t bytes, uint64_t align)
{
	(void)user;
	return bytes > SIZE_MAX - align ? NULL
					: aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void default_free(void *user, void *p, uint64_t bytes)
{
	(void)user;
	(void)bytes;
	free(p);
}

void *rt_alloc(const dl_model *m, uint64_t bytes)
{
	return m->opt.alloc(m->opt.user, bytes ? bytes : 1, RT_ALIGN);
}

void rt_free(const dl_model *m, void *p, uint64_t bytes)
{
	if (p)
		m->opt.free(m->opt.user, p, bytes ? bytes : 1);
}

void rt_message(char *to, size_t room, const char *fmt, va_list ap)
{
	char raw[512];

	vsnprintf(raw, sizeof(raw), fmt, ap);
	escape_to_text(to, room, raw, escape_terminal);
}

void rt_log(const dl_model *m, int level, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (!m->opt.log)
		return;
	va_start(ap, fmt);
	rt_message(text, sizeof(text), fmt, ap);
	va_end(ap);
	m->opt.log(m->opt.user, level, text);
}

int rt_error(dl_model *m, int status, const char *fmt, ...)
{
	char text[sizeof(last_error)];
	va_list ap;

	va_start(ap, fmt);
	rt_message(text, sizeof(text), fmt, ap);
	va_end(ap);
	memcpy(last_error, text, sizeof(text));
	if (m) {
		pthread_mutex_lock(&m->lock);
		memcpy(m->head.error, text, sizeof(text));
		pthread_mutex_unlock(&m->lock);
	}
	return status;
}

int rt_check_model(const dl_model *m, const char *what)
{
	if (!m)
		return rt_error(NULL, DL_INVALID, "%s: the model is null", what);
	if (m->head.magic != RT_MAGIC_MODEL)
		return rt_error(NULL, DL_INVALID, "%s: not a model, or one that was unloaded",
				what);
	return DL_OK;
}

/* ---- Structs of other versions ---- */

static uint32_t size_of(const void *p)
{
	uint32_t n;

	memcpy(&n, p, sizeof(n));
	return n;
}

const char *rt_wrong_size(char *text, size_t room, const char *name, uint32_t size, size_t least)
{
	const uint32_t inside = size % RT_STRUCT_STEP;

	if (size < least || size > RT_LARGEST_STRUCT)
		snprintf(text, room,
			 "the size of a %s is %u, and it has at least %u bytes; set its member "
			 "size to sizeof(%s)",
			 name, (unsigned)size, (unsigned)least, name);
	else if (inside)
		snprintf(text, room,
			 "the size of a %s is %u, which ends inside a member, %u bytes after byte "
			 "%u; set its member size to sizeof(%s)",
			 name, (unsigned)size, (unsigned)inside, (unsigned)(size - inside), name);
	else
		return NULL;
	return text;
}

static int check_size(dl_model *m, const char *name, uint32_t size, size_t least)
{
	char text[200];

	return rt_wrong_size(text, sizeof(text), name, size, least)
		       ? rt_error(m, DL_ABI, "%s", text)
		       : DL_OK;
}

int rt_take(dl_model *m, const char *name, void *to, size_t size, const void *from, size_t least)
{
	const uint32_t has = size_of(from);
	const unsigned char *bytes = from;

	if (check_size(m, name, has, least))
		return DL_ABI;
	for (size_t i = size; i < has; i++)
		if (bytes[i])
			return rt_error(
				m, DL_ABI,
				"a %s sets byte %u of its %u, and the model's runtime knows "
				"the first %u; compile the model with a newer dlcc, or "
				"leave that member zero",
				name, (unsigned)i, (unsigned)has, (unsigned)size);
	memset(to, 0, size);
	memcpy(to, from, has < size ? has : size);
	return DL_OK;
}

int rt_give(dl_model *m, const char *name, void *to, size_t least, const void *from, size_t size)
{
	const uint32_t has = size_of(to);

	if (check_size(m, name, has, least))
		return DL_ABI;
	memcpy((char *)to + sizeof(has), (const char *)from + sizeof(has),
	       (has < size ? has : size) - sizeof(has));
	return DL_OK;
}

int rt_use_program(dl_model *m, const dl_program *p)
{
	const int rc = rt_take(m, "dl_program", &m->program, sizeof(m->program), p,
			       RT_UPTO(dl_program, exec));

	m->prog = &m->program;
	if (!rc && m->prog->n_strings && !m->prog->string_table)
		return rt_error(m, DL_ABI,
				"load: the model has strings, and its code is of an older dlcc; "
				"compile it again");
	return rc;
}

/* ---- Loading ---- */

/* Reads DLCC_CPU as a mask of features; all if it is not set. False if the value is unknown. */
static bool cpu_env(uint64_t *mask)
{
	static const struct {
		const char *name;
		uint64_t mask;
	} known[] = {
		{"", UINT64_MAX},
		{"native", UINT64_MAX},
		{"none", 0},
		{"v2", DL_CPU_X86_V2},
		{"v3", DL_CPU_X86_V2 | DL_CPU_X86_V3 | DL_CPU_AVX_VNNI},
		{"v4", DL_CPU_X86_V2 | DL_CPU_X86_V3 | DL_CPU_X86_V4 | DL_CPU_AVX_VNNI |
			       DL_CPU_AVX512_VNNI},
		{"v8", DL_CPU_ARM_V8},
	};
	const char *s = getenv("DLCC_CPU");

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(s ? s : "", known[i].name)) {
			*mask = known[i].mask;
			return true;
		}
	return false;
}

static int choose_variant(dl_model *m)
{
	const dl_program *p = m->prog;
	uint64_t needed = 0, have, mask;

	if (!cpu_env(&mask))
		return rt_error(m, DL_INVALID, "DLCC_CPU=%s: expected none, v2, v3, v4, v8 or native",
				getenv("DLCC_CPU"));
	for (int i = 0; i < p->n_variants; i++)
		needed |= p->variants[i];
	have = rt_cpu_features(needed & mask & (m->opt.cpu_mask ? m->opt.cpu_mask : UINT64_MAX));
	for (m->variant = 0; m->variant < p->n_variants; m->variant++)
		if (!(p->variants[m->variant] & ~have))
			return DL_OK;
	m->variant = 0;
	if (!p->n_variants)
		return DL_OK;
	if (mask != ~UINT64_C(0))
		return rt_error(m, DL_TARGET,
				"%s: compiled for %s, and this CPU, restricted by DLCC_CPU=%s, is "
				"not one of these",
				p->desc->name, p->desc->targets, getenv("DLCC_CPU"));
	return rt_error(m, DL_TARGET, "%s: compiled for %s, and this CPU%s is not one of these",
			p->desc->name, p->desc->targets,
			m->opt.cpu_mask ? ", restricted by the option cpu_mask," : "");
}

/* Whether the options can be fulfilled. */
static int check_options(const dl_load_options *o)
{
	if (o->threads < 0 || o->executor_threads < 0)
		return rt_error(NULL, DL_INVALID,
				"load: %s is %d; it is a number of threads, and 0 for as many as "
				"the process may use",
				o->threads < 0 ? "threads" : "executor_threads",
				(int)(o->threads < 0 ? o->threads : o->executor_threads));
	if (!o->alloc != !o->free)
		return rt_error(NULL, DL_INVALID, "load: alloc and free go together");
	if (o->flags & ~DL_LOAD_CHECK_WEIGHTS)
		return rt_error(NULL, DL_UNSUPPORTED, "load: flags 0x%x are not known",
				(unsigned)(o->flags & ~DL_LOAD_CHECK_WEIGHTS));
	return DL_OK;
}

static void take_options(dl_model *m, const dl_load_options *o)
{
	const char *env = getenv("DLCC_PROFILE");

	m->opt = *o;
	m->opt.size = sizeof(m->opt);
	if (!m->opt.profile_path && env && *env)
		m->opt.profile_path = env;
	if (o->executor && o->executor_threads > 1)
		m->threads = o->executor_threads;
	else if (!o->executor)
		m->threads = o->threads > 0 ? o->threads : rt_cpus();
	else
		m->threads = 1;
	if (m->threads > RT_MAX_THREADS)
		m->threads = RT_MAX_THREADS;
}

static void destroy(dl_model *m)
{
	rt_pool_free(m, m->pool);
	rt_profile_close(m);
	rt_gpu_close(m);
	rt_weights_close(m);
	pthread_mutex_destroy(&m->lock);
	rt_budget_leave();
	m->head.magic = 0;
	m->opt.free(m->opt.user, m, sizeof(*m));
}

static int open_parts(dl_model *m)
{
	int rc = rt_gpu_open(m);

	if (!rc && !m->gpu)
		rc = choose_variant(m);
	if (!rc)
		rc = rt_weights_open(m);
	if (!rc)
		rc = rt_gpu_weights(m);
	if (!rc)
		rc = rt_profile_open(m);
	if (!rc && m->threads > 1 && !m->opt.executor) {
		m->pool = rt_pool_new(m, m->threads, m->prog->desc->flags & DL_DESC_FLUSH);
		if (!m->pool)
			rc = rt_error(m, DL_NOMEM, "no memory for %d threads", (int)m->threads);
	}
	return rc;
}

int dl_rt_load(const dl_program *p, const dl_load_options *options, dl_model **model)
{
	dl_load_options o = {.size = sizeof(o)};
	dl_model *m;
	int rc;

	if (!model)
		return rt_error(NULL, DL_INVALID, "load: model is null");
	*model = NULL;
	if (p->abi != DL_ABI_VERSION)
		return rt_error(NULL, DL_ABI,
				"load: the model's code is for version %u of the runtime, and this "
				"one has %u; link with the libdlrt.a of the dlcc that made it",
				(unsigned)p->abi, DL_ABI_VERSION);
	rc = options ? rt_take(NULL, "dl_load_options", &o, sizeof(o), options,
			       RT_UPTO(dl_load_options, reserved))
		     : DL_OK;
	if (!rc)
		rc = check_options(&o);
	if (rc)
		return rc;
	if (!o.alloc) {
		o.alloc = default_alloc;
		o.free = default_free;
	}
	m = o.alloc(o.user, sizeof(*m), RT_ALIGN);
	if (!m)
		return rt_error(NULL, DL_NOMEM, "load: out of memory");
	memset(m, 0, sizeof(*m));
	m->head.magic = RT_MAGIC_MODEL;
	m->desc = p->desc;
	pthread_mutex_init(&m->lock, NULL);
	rt_budget_join();
	take_options(m, &o);
	rc = rt_use_program(m, p);
	rc = rc ? rc : open_parts(m);
	if (rc) {
		rt_log(m, DL_LOG_ERROR, "%s", m->head.error);
		destroy(m);
		return rc;
	}
	rt_log(m, DL_LOG_INFO, "%s: loaded on %s, variant %d of %d, %d threads", p->desc->name,
	       dl_rt_device(m), (int)m->variant, (int)m->prog->n_variants, (int)m->threads);
	*model = m;
	return DL_OK;
}

int dl_rt_unload(dl_model *m)
{
	int rc, live;

	if (!m)
		return DL_OK;
	rc = rt_check_model(m, "unload");
	if (rc)
		return rc;
	live = atomic_load(&m->contexts);
	if (live)
		return rt_error(m, DL_BUSY, "unload: %d context%s; free %s first", live,
				live == 1 ? " is live" : "s are live", live == 1 ? "it" : "them");
	rt_pool_free(m, m->pool);
	m->pool = NULL;
	rc = rt_profile_close(m);
	destroy(m);
	return rc;
}
