/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading: options, memory, errors, the choice of the variant, weights and threads. A model is
 * constant once loaded, but for the text of its last error, its count of contexts and its profile.
 */
#include "runtime/rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a load, or of a call on a model, in this thread. */
static _Thread_local char last_error[sizeof(((Head *)NULL)->error)];

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
	[DL_STR] = {128, 8, "str"},
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
	[DL_WEIGHTS] = "weights missing or not those of the model",
	[DL_TARGET] = "this machine and what the model was compiled for do not fit",
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

const char *dl_rt_error(const void *object)
{
	const Head *h = object;

	if (!h)
		return last_error;
	if (h->magic != RT_MAGIC_MODEL && h->magic != RT_MAGIC_CONTEXT)
		return "";
	return h->error;
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

void rt_log(const dl_model *m, int level, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (!m->opt.log)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	m->opt.log(m->opt.user, level, text);
}

int rt_error(dl_model *m, int status, const char *fmt, ...)
{
	char text[sizeof(last_error)]; /* what is told may be of the text before */
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	memcpy(last_error, text, sizeof(text));
	if (m) {
		pthread_mutex_lock(&m->lock);
		memcpy(m->head.error, text, sizeof(text));
		pthread_mutex_unlock(&m->lock);
	}
	return status;
}

/* DLCC_CPU as a mask of features, all when it is not set; false where it is not known. */
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
		{"v4", UINT64_MAX},
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
	uint64_t have = rt_cpu_features(), mask;

	if (!cpu_env(&mask))
		return rt_error(m, DL_INVALID, "DLCC_CPU=%s: it is none, v2, v3, v4 or native",
				getenv("DLCC_CPU"));
	have &= mask;
	if (m->opt.cpu_mask)
		have &= m->opt.cpu_mask;
	for (m->variant = 0; m->variant < p->n_variants; m->variant++)
		if (!(p->variants[m->variant] & ~have))
			return DL_OK;
	m->variant = 0;
	if (!p->n_variants)
		return DL_OK;
	return rt_error(m, DL_TARGET, "%s: compiled for %s, and this CPU%s is none of these",
			p->desc->name, p->desc->targets,
			mask != ~UINT64_C(0) || m->opt.cpu_mask ? ", restricted as asked," : "");
}

static int take_options(dl_model *m, const dl_load_options *o)
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
	return DL_OK;
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
		m->pool = rt_pool_new(m, m->threads);
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
	if (p->abi != DL_ABI_VERSION || p->size < sizeof(*p) ||
	    (options && options->size < sizeof(o)))
		return rt_error(NULL, DL_ABI, "load: model, runtime and caller differ in version");
	if (options)
		o = *options;
	if (!o.alloc != !o.free)
		return rt_error(NULL, DL_INVALID, "load: alloc and free go together");
	if (!o.alloc) {
		o.alloc = default_alloc;
		o.free = default_free;
	}
	m = o.alloc(o.user, sizeof(*m), RT_ALIGN);
	if (!m)
		return rt_error(NULL, DL_NOMEM, "load: out of memory");
	memset(m, 0, sizeof(*m));
	m->head.magic = RT_MAGIC_MODEL;
	m->prog = p;
	m->desc = p->desc;
	pthread_mutex_init(&m->lock, NULL);
	rt_budget_join();
	take_options(m, &o);
	rc = open_parts(m);
	if (rc) {
		rt_error(NULL, rc, "%s", m->head.error);
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
	int rc;

	if (!m)
		return DL_OK;
	if (m->head.magic != RT_MAGIC_MODEL)
		return rt_error(NULL, DL_INVALID, "unload: not a model");
	if (atomic_load(&m->contexts))
		return rt_error(m, DL_BUSY, "unload: %d contexts live", atomic_load(&m->contexts));
	rt_pool_free(m, m->pool);
	m->pool = NULL;
	rc = rt_profile_close(m);
	if (rc)
		rt_error(NULL, rc, "%s", m->head.error);
	destroy(m);
	return rc;
}
