/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a model on a GPU: the device, its context, the weights. Kernels that are compiled for this
 * GPU are loaded by the first context. Others, which the driver compiles, are loaded by prepare, as
 * many as its sizes need, or else by the first run that launches them.
 */
#include "runtime/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failed(dl_model *m, int status, const char *what)
{
	char text[160];

	return rt_error(m, gpu_status(m->gpu, status), "%s: %s: %s", m->gpu->name, what,
			cuda_error(m->gpu->cuda, status, text, sizeof(text)));
}

/* The best image for a GPU of capability SM; null if there is none. */
static const dl_gpu_image *choose_image(const dl_gpu *p, int sm)
{
	const dl_gpu_image *best = NULL;

	for (int32_t i = 0; i < p->n_images; i++) {
		const dl_gpu_image *image = &p->image[i];

		if (image->sm > sm || (image->only && image->sm != sm))
			continue;
		if (!best || image->sm > best->sm)
			best = image;
	}
	return best;
}

/* Sets the memory's bandwidth, if the driver has the data: two words of the bus width per cycle. */
static void ask_speed(GpuModel *g)
{
	const Cuda *cuda = g->cuda;
	int khz = 0, bits = 0;

	if (!cuda->cuDeviceGetAttribute(&khz, CUDA_MEMORY_CLOCK, g->device) &&
	    !cuda->cuDeviceGetAttribute(&bits, CUDA_MEMORY_BUS, g->device) && khz > 0 && bits > 0)
		g->bytes_per_second = 2000 * (uint64_t)khz * ((uint64_t)bits / 8);
}

static int open_device(dl_model *m, int ordinal)
{
	GpuModel *g = m->gpu;
	const dl_gpu *p = m->prog->on_gpu->gpu;
	int count = 0, major = 0, minor = 0, rc;
	char name[64] = "";

	snprintf(g->name, sizeof(g->name), "cuda:%d", ordinal);
	rc = g->cuda->cuDeviceGetCount(&count);
	if (!rc && ordinal >= count)
		return count ? rt_error(m, DL_TARGET, "%s: there is no such GPU; the last is cuda:%d",
					g->name, count - 1)
			     : rt_error(m, DL_TARGET, "%s: the driver finds no GPU", g->name);
	rc = rc ? rc : g->cuda->cuDeviceGet(&g->device, ordinal);
	rc = rc ? rc : g->cuda->cuDeviceGetName(name, sizeof(name), g->device);
	rc = rc ? rc : g->cuda->cuDeviceGetAttribute(&major, CUDA_CAPABILITY_MAJOR, g->device);
	rc = rc ? rc : g->cuda->cuDeviceGetAttribute(&minor, CUDA_CAPABILITY_MINOR, g->device);
	rc = rc ? rc
		: g->cuda->cuDeviceGetAttribute(&g->block_shared, CUDA_BLOCK_SHARED, g->device);
	if (rc)
		return failed(m, rc, "the device");
	if (g->cuda->cuMemAllocAsync && g->cuda->cuMemFreeAsync)
		rc = g->cuda->cuDeviceGetAttribute(&g->pools, CUDA_MEMORY_POOLS, g->device);
	if (rc == CUDA_INVALID_VALUE) /* drivers without pools do not know the attribute */
		rc = g->pools = 0;
	if (rc)
		return failed(m, rc, "the device");
	ask_speed(g);
	snprintf(g->name, sizeof(g->name), "cuda:%d %s", ordinal, name);
	g->sm = major * 10 + minor;
	g->image = choose_image(p, g->sm);
	if (!g->image)
		return rt_error(m, DL_TARGET, "%s: compiled for %s, and this GPU is sm_%d%d",
				g->name, m->prog->desc->targets, major, minor);
	rc = g->cuda->cuDevicePrimaryCtxRetain(&g->context, g->device);
	if (rc)
		return failed(m, rc, "its context");
	g->retained = true;
	return DL_OK;
}

/* ---- Kernels ---- */

/* Sets kernel I to its function in MODULE; returns the driver's status. */
static int take_function(GpuModel *g, CUmodule module, int32_t i)
{
	const dl_gpu_fn *f = &g->image->fn[i];
	CUfunction fn;
	int rc = g->cuda->cuModuleGetFunction(&fn, module, f->name);

	/* More than 48 KiB for a block must be requested. A function that needs more than this GPU
	 * has is for other GPUs. */
	if (!rc && f->shared && f->shared <= g->block_shared)
		rc = g->cuda->cuFuncSetAttribute(fn, CUDA_DYNAMIC_SHARED, f->shared);
	if (!rc)
		atomic_store(&g->fn[i], fn);
	return rc;
}

/* Loads IMAGE, which has all kernels. *WHAT: what fails. */
static int load_all(GpuModel *g, const void *image, const char **what)
{
	int rc = g->cuda->cuModuleLoadDataEx(&g->module, image, 0, NULL, NULL);

	*what = "its driver does not take the kernels";
	if (rc)
		g->module = NULL;
	for (int32_t i = 0; i < g->image->n_fn && !rc; i++) {
		*what = g->image->fn[i].name;
		rc = take_function(g, g->module, i);
	}
	return rc;
}

/* Loads kernel I, which the driver compiles; its log has the errors. */
static int load_one(GpuModel *g, int32_t i, char *why)
{
	enum { JIT_LOG = 5, JIT_LOG_BYTES = 6 };
	char log[256] = "", text[160];
	int option[] = {JIT_LOG, JIT_LOG_BYTES};
	void *value[] = {log, (void *)(uintptr_t)(sizeof(log) - 1)};
	int rc = g->cuda->cuModuleLoadDataEx(&g->one[i], g->ptx[i], 2, option, value);

	const bool loaded = !rc;

	rc = rc ? rc : take_function(g, g->one[i], i);
	if (!rc)
		return 0;
	if (loaded)
		g->cuda->cuModuleUnload(g->one[i]);
	g->one[i] = NULL;
	log[strcspn(log, "\n")] = '\0';
	snprintf(why, GPU_WHY, "%s: %s: %s%s%s", g->name,
		 loaded ? g->image->fn[i].name : "its driver does not take the kernels",
		 cuda_error(g->cuda, rc, text, sizeof(text)), *log ? ": " : "", log);
	return rc;
}

/* Kernels that several threads load. */
typedef struct Loading {
	GpuModel *g;
	const int32_t *fn;
	int32_t n;
	atomic_int next, status; /* STATUS: of the first failure, whose text is in WHY */
	char *why;
} Loading;

static void load_some(Loading *l)
{
	for (int32_t i; (i = atomic_fetch_add(&l->next, 1)) < l->n && !atomic_load(&l->status);) {
		const int32_t fn = l->fn ? l->fn[i] : i;
		char why[GPU_WHY];
		int rc = atomic_load(&l->g->fn[fn]) ? 0 : load_one(l->g, fn, why), none = 0;

		if (rc && atomic_compare_exchange_strong(&l->status, &none, rc))
			memcpy(l->why, why, sizeof(why));
	}
}

static void *load_beside(void *loading)
{
	Loading *l = loading;

	if (!gpu_push(l->g)) {
		load_some(l);
		gpu_pop(l->g);
	}
	return NULL;
}

int gpu_load(dl_model *m, const int32_t *fn, int32_t n, char *why)
{
	enum { MOST = 8 }; /* threads besides this one: the driver compiles a kernel with one */
	GpuModel *g = m->gpu;
	Loading l = {.g = g, .fn = fn, .n = fn ? n : g->image->n_fn, .why = why};
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t thread[MOST];
	int32_t missing = 0, threads = 0;

	pthread_mutex_lock(&g->fetching);
	for (int32_t i = 0; i < l.n; i++)
		missing += !atomic_load(&g->fn[fn ? fn[i] : i]);
	while (threads + 1 < missing && threads + 1 < cpus && threads < MOST &&
	       !pthread_create(&thread[threads], NULL, load_beside, &l))
		threads++;
	if (missing)
		load_some(&l);
	for (int32_t i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	pthread_mutex_unlock(&g->fetching);
	return gpu_status(g, atomic_load(&l.status));
}

/* Items of the tables by kernel: one where there are no kernels, so that they are not null. */
static uint64_t n_kernels(const GpuModel *g)
{
	return g->image && g->image->n_fn ? (uint64_t)g->image->n_fn : 1;
}

static void drop_kernels(dl_model *m, bool held)
{
	GpuModel *g = m->gpu;
	const uint64_t n = n_kernels(g);

	for (int32_t i = 0; g->one && held && i < g->image->n_fn; i++)
		if (g->one[i])
			g->cuda->cuModuleUnload(g->one[i]);
	if (held && g->module)
		g->cuda->cuModuleUnload(g->module);
	rt_free(m, g->one, sizeof(*g->one) * n);
	rt_free(m, g->ptx, sizeof(*g->ptx) * n);
	rt_free(m, g->fn, sizeof(*g->fn) * n);
	g->module = NULL;
	g->one = NULL;
	g->ptx = NULL;
	g->fn = NULL;
}

/* Loads the code compiled for this GPU, or for an earlier one of its major capability, if the
 * artifact has it and the driver accepts it. */
static int fetch(dl_model *m)
{
	GpuModel *g = m->gpu;
	const dl_gpu_image *p = g->image;
	const uint64_t n = n_kernels(g);
	const char *what, *ptx = p->ptx;
	char text[160];
	int rc;

	g->fn = rt_alloc(m, sizeof(*g->fn) * n);
	g->one = rt_alloc(m, sizeof(*g->one) * n);
	g->ptx = rt_alloc(m, sizeof(*g->ptx) * n);
	if (!g->fn || !g->one || !g->ptx)
		return rt_error(m, DL_NOMEM, "no memory for %d kernels", (int)p->n_fn);
	for (int32_t i = 0; i < p->n_fn; i++) {
		atomic_init(&g->fn[i], NULL);
		g->one[i] = NULL;
		g->ptx[i] = ptx;
		ptx += strlen(ptx) + 1;
	}
	if (p->n_fn && p->cubin && p->sm / 10 == g->sm / 10) {
		rc = load_all(g, p->cubin, &what);
		if (!rc)
			return DL_OK;
		rt_log(m, DL_LOG_INFO, "%s: its driver does not take the cubin, so the PTX: %s",
		       g->name, cuda_error(g->cuda, rc, text, sizeof(text)));
	}
	return DL_OK;
}

int gpu_fetch(dl_model *m)
{
	int rc = DL_OK;

	pthread_mutex_lock(&m->gpu->fetching);
	if (!m->gpu->fn) {
		rc = fetch(m);
		if (rc)
			drop_kernels(m, true);
	}
	pthread_mutex_unlock(&m->gpu->fetching);
	return rc;
}

/* In a separate stream: the default one would wait for the application's work, and delay it. */
static int load_weights(dl_model *m, const dl_gpu *p)
{
	GpuModel *g = m->gpu;
	CUstream stream;
	int rc, done;

	if (!p->weights_bytes)
		return DL_OK;
	rc = g->cuda->cuMemAlloc_v2(&g->weights.at, p->weights_bytes);
	if (rc)
		return failed(m, rc, "memory for the weights");
	g->weights.bytes = p->weights_bytes;
	rc = g->cuda->cuStreamCreate(&stream, CUDA_NON_BLOCKING);
	if (rc)
		return failed(m, rc, "a stream for the weights");
	for (int32_t i = 0; i < p->n_pieces && !rc; i++)
		rc = g->cuda->cuMemcpyHtoDAsync_v2(g->weights.at + p->piece[i].to,
						   m->weights.base + p->piece[i].from,
						   p->piece[i].bytes, stream);
	done = g->cuda->cuStreamSynchronize(stream);
	rc = rc ? rc : done;
	g->cuda->cuStreamDestroy_v2(stream);
	return rc ? failed(m, rc, "the weights") : DL_OK;
}

int gpu_push(GpuModel *g)
{
	return g->process == getpid() ? g->cuda->cuCtxPushCurrent_v2(g->context)
				      : CUDA_NOT_INITIALIZED;
}

bool gpu_push_to_free(GpuModel *g)
{
	return !gpu_push(g) || !gpu_push(g);
}

void gpu_pop(GpuModel *g)
{
	CUcontext was;

	/* The caller's current context is below the one that is popped. */
	if (g->cuda->cuCtxPopCurrent_v2(&was))
		g->cuda->cuCtxPopCurrent_v2(&was);
}

int rt_gpu_push(dl_model *m)
{
	const char *lost = gpu_lost(m->gpu);
	int rc;

	if (lost)
		return rt_error(m, DL_DEVICE_LOST, "%s %s", m->gpu->name, lost);
	rc = gpu_push(m->gpu);
	return rc ? failed(m, rc, "its context") : DL_OK;
}

void rt_gpu_pop(dl_model *m)
{
	gpu_pop(m->gpu);
}

/* Reads "auto", "cpu", "cuda", "cuda:N": returns the ordinal, -1 for the CPU, -2 for anything
 * else. */
static int ordinal_of(const char *device, bool *asked)
{
	char *end;
	long n;

	*asked = device && !strncmp(device, "cuda", 4);
	if (!device || !strcmp(device, "auto") || !strcmp(device, "cuda"))
		return 0;
	if (!strcmp(device, "cpu"))
		return -1;
	if (!*asked || device[4] != ':')
		return -2;
	n = strtol(device + 5, &end, 10);
	return *end || end == device + 5 || n < 0 || n > 1023 ? -2 : (int)n;
}

/* If nobody ASKED for a GPU, the GPU is only used if its driver also accepts the kernels, of which
 * one is tried. */
static int open_gpu(dl_model *m, int ordinal, bool asked)
{
	const int32_t first = 0;
	char text[GPU_WHY];
	const char *why;
	int rc;

	m->gpu->cuda = cuda_open(&why);
	m->gpu->listened = rt_nvtx_open();
	if (!m->gpu->cuda)
		return rt_error(m, DL_TARGET, "no GPU: %s", why);
	rc = open_device(m, ordinal);
	if (rc || asked)
		return rc;
	rc = rt_gpu_push(m);
	if (rc)
		return rc;
	rc = gpu_fetch(m);
	if (!rc && m->gpu->image->n_fn && (rc = gpu_load(m, &first, 1, text)))
		rt_error(m, rc, "%s", text);
	rt_gpu_pop(m);
	return rc;
}

int rt_gpu_open(dl_model *m)
{
	bool asked;
	int ordinal = ordinal_of(m->opt.device, &asked), rc, level;

	if (ordinal == -2)
		return rt_error(m, DL_INVALID, "device \"%s\": it is auto, cpu, cuda or cuda:N",
				m->opt.device);
	if (ordinal < 0 || (!asked && !m->prog->on_gpu))
		return DL_OK;
	if (!m->prog->on_gpu)
		return rt_error(
			m, DL_TARGET,
			"%s: compiled without code for GPUs (%s); dlcc --target=cuda:... adds it",
			m->prog->desc->name, m->prog->desc->targets);
	m->gpu = rt_alloc(m, sizeof(*m->gpu));
	if (!m->gpu)
		return rt_error(m, DL_NOMEM, "no memory for a GPU");
	memset(m->gpu, 0, sizeof(*m->gpu));
	pthread_mutex_init(&m->gpu->fetching, NULL);
	m->gpu->process = getpid();
	rc = open_gpu(m, ordinal, asked);
	rc = rc ? rc : rt_use_program(m, m->prog->on_gpu);
	if (!rc) {
		m->variant = (int32_t)(m->gpu->image - m->prog->gpu->image);
		m->threads = 1;
		return DL_OK;
	}
	/* without a driver there is no GPU, so this is expected */
	level = m->gpu->cuda ? DL_LOG_WARNING : DL_LOG_INFO;
	rt_gpu_close(m);
	if (asked)
		return rc;
	rt_log(m, level, "%s: on the CPU: %s", m->prog->desc->name, m->head.error);
	return DL_OK;
}

int rt_gpu_weights(dl_model *m)
{
	int rc;

	if (!m->gpu)
		return DL_OK;
	rc = rt_gpu_push(m);
	if (rc)
		return rc;
	rc = load_weights(m, m->prog->gpu);
	rt_gpu_pop(m);
	return rc;
}

void rt_gpu_close(dl_model *m)
{
	GpuModel *g = m->gpu;

	if (!g)
		return;
	if (g->retained && gpu_push_to_free(g)) {
		if (g->weights.at)
			g->cuda->cuMemFree_v2(g->weights.at);
		drop_kernels(m, true);
		gpu_pop(g);
	} else {
		/* The driver's modules are lost with the device, but the host's memory can be
		 * freed. */
		drop_kernels(m, false);
	}
	if (g->retained && g->process == getpid())
		g->cuda->cuDevicePrimaryCtxRelease_v2(g->device);
	pthread_mutex_destroy(&g->fetching);
	rt_free(m, g, sizeof(*g));
	m->gpu = NULL;
}

const char *dl_rt_device(const dl_model *m)
{
	if (!m || m->head.magic != RT_MAGIC_MODEL)
		return "";
	return m->gpu ? m->gpu->name : "cpu";
}

int dl_rt_device_info(const dl_model *m, dl_device_info *info)
{
	dl_model *of = (dl_model *)(uintptr_t)m; /* only the text of its last error changes */
	dl_device_info is = {0};
	int rc = rt_check_model(m, "device_info");

	if (rc)
		return rc;
	if (!info)
		return rt_error(of, DL_INVALID, "device_info: the place for it is null");
	if (!m->gpu)
		return rt_error(of, DL_TARGET, "device_info: the model runs on the CPU");
	is.sm = m->gpu->sm;
	is.bytes_per_second = m->gpu->bytes_per_second;
	is.weights_bytes = m->gpu->weights.bytes;
	return rt_give(of, "dl_device_info", info, RT_UPTO(dl_device_info, sm), &is, sizeof(is));
}
