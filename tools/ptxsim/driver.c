/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the driver, its devices and contexts. */
#include "tools/ptxsim/driver.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct Driver driver;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Head heads = {.prev = &heads, .next = &heads};

/* SMs, shared memory of a block and of an SM in KiB, blocks and warps of an SM, L2 in MiB, bus
 * bits, MHz */
static const Device devices[] = {
	{75, 40, 64, 64, 16, 32, 4, 256, 1590, 5001, "ptxsim sm_75"},
	{80, 108, 163, 164, 32, 64, 40, 5120, 1410, 1215, "ptxsim sm_80"},
	{86, 84, 99, 100, 16, 48, 6, 384, 1695, 9751, "ptxsim sm_86"},
	{89, 128, 99, 100, 24, 48, 72, 384, 2520, 10501, "ptxsim sm_89"},
	{90, 132, 227, 228, 32, 64, 50, 6144, 1980, 3201, "ptxsim sm_90"},
	{100, 148, 227, 228, 32, 64, 126, 8192, 1965, 3996, "ptxsim sm_100"},
	{120, 170, 99, 100, 24, 48, 96, 512, 2407, 14001, "ptxsim sm_120"},
};
enum { N_DEVICES = sizeof devices / sizeof *devices };

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);

	return s && *s ? strtoull(s, NULL, 0) : otherwise;
}

bool choose_device(int sm)
{
	for (int i = 0; i < N_DEVICES; i++)
		if (devices[i].sm == sm)
			driver.device = &devices[i];
	return driver.device && driver.device->sm == sm;
}

__attribute__((constructor)) static void begin(void)
{
	const char *fail = getenv("PTXSIM_FAIL");
	uint64_t sm = number("PTXSIM_SM", 80);

	driver.seed = number("PTXSIM_SEED", 0);
	driver.trace = number("PTXSIM_TRACE", 0);
	driver.quiet = number("PTXSIM_QUIET", 0);
	driver.limit = number("PTXSIM_LIMIT", 1000000000);
	driver.n_devices = (int)number("PTXSIM_DEVICES", 1);
	driver.pools = number("PTXSIM_POOLS", 1);
	memory_limit(number("PTXSIM_MEMORY", 80ull << 30));
	driver.null_stream.head.kind = K_STREAM;
	driver.null_stream.blocking = true;
	if (!choose_device((int)sm))
		say("PTXSIM_SM=%llu is not known: there is no device", (unsigned long long)sm);
	if (fail) {
		char *end;
		driver.fail_at = strtoull(fail, &end, 0);
		driver.fail_with = *end == ':' ? (CUresult)strtol(end + 1, NULL, 0)
					       : CUDA_ERROR_UNKNOWN;
	}
}

__attribute__((destructor)) static void end(void)
{
	calls_write();
}

void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(driver.message, sizeof driver.message, fmt, ap);
	va_end(ap);
	if (!driver.quiet)
		fprintf(stderr, "ptxsim: %s\n", driver.message);
}

/* ---- Handles ---- */

void *new_head(Kind kind, size_t size)
{
	Head *h = calloc(1, size);

	if (h) {
		*h = (Head){.kind = kind, .prev = heads.prev, .next = &heads};
		heads.prev->next = h;
		heads.prev = h;
	}
	return h;
}

void free_head(void *p)
{
	Head *h = p;

	h->prev->next = h->next;
	h->next->prev = h->prev;
	h->kind = 0;
	free(h);
}

bool is_head(const void *p, Kind kind)
{
	for (const Head *h = heads.next; h != &heads; h = h->next)
		if (h == p)
			return h->kind == kind;
	return false;
}

void *next_head(const void *p, Kind kind)
{
	const Head *h = p;

	for (h = h ? h->next : heads.next; h != &heads && h->kind != kind;)
		h = h->next;
	return h == &heads ? NULL : (void *)(uintptr_t)h;
}

int live_heads(void)
{
	int n = 0;

	for (const Head *h = heads.next; h != &heads; h = h->next)
		n += h->kind != K_CONTEXT && h->kind != K_FUNCTION && h->kind != K_NODE;
	return n;
}

/* ---- Calls ---- */

static _Thread_local CUcontext stack[16];
static _Thread_local int depth;

CUcontext current_context(void)
{
	return depth && stack[depth - 1] && is_head(stack[depth - 1], K_CONTEXT) ? stack[depth - 1]
										 : NULL;
}

CUresult enter(const char *name, bool needs_context)
{
	pthread_mutex_lock(&lock);
	calls_count(name);
	driver.calls++;
	if (driver.calls == driver.fail_at) {
		driver.failed = name;
		if (driver.fail_with >= CUDA_ERROR_ILLEGAL_ADDRESS &&
		    driver.fail_with < CUDA_ERROR_NOT_PERMITTED)
			driver.sticky = driver.fail_with;
		if (driver.trace)
			fprintf(stderr, "ptxsim: call %llu, %s, fails with %d\n",
				(unsigned long long)driver.calls, name, (int)driver.fail_with);
		return driver.fail_with;
	}
	if (driver.trace)
		fprintf(stderr, "ptxsim: call %llu: %s\n", (unsigned long long)driver.calls, name);
	if (!driver.ready && strcmp(name, "cuInit"))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (driver.seed && driver.ready)
		queue_nudge();
	if (driver.sticky && needs_context)
		return driver.sticky;
	return needs_context && !current_context() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult leave(CUresult r)
{
	pthread_mutex_unlock(&lock);
	return r;
}

/* CUDA_VISIBLE_DEVICES shows none; a choice among several is not simulated. */
static bool hidden(void)
{
	const char *s = getenv("CUDA_VISIBLE_DEVICES");

	return s && (!*s || *s == '-' || !strcmp(s, "none"));
}

API CUresult cuInit(unsigned flags)
{
	CUresult r = enter("cuInit", false);

	if (!r && flags)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && (!driver.device || driver.n_devices < 1 || hidden()))
		r = CUDA_ERROR_NO_DEVICE;
	driver.ready |= !r;
	return leave(r);
}

API CUresult cuDriverGetVersion(int *version)
{
	CUresult r = enter("cuDriverGetVersion", false);

	if (r == CUDA_ERROR_NOT_INITIALIZED)
		r = CUDA_SUCCESS;
	if (!version)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*version = 13000;
	return leave(r);
}

/* ---- Devices ---- */

API CUresult cuDeviceGetCount(int *count)
{
	CUresult r = enter("cuDeviceGetCount", false);

	if (!r)
		*count = driver.n_devices;
	return leave(r);
}

API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult r = enter("cuDeviceGet", false);

	if (!r && (ordinal < 0 || ordinal >= driver.n_devices))
		r = CUDA_ERROR_INVALID_DEVICE;
	if (!r)
		*device = ordinal;
	return leave(r);
}

static CUresult enter_device(const char *name, CUdevice d)
{
	CUresult r = enter(name, false);

	return r ? r : d < 0 || d >= driver.n_devices ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

API CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	CUresult r = enter_device("cuDeviceGetName", device);

	if (!r)
		snprintf(name, (size_t)length, "%s", driver.device->name);
	return leave(r);
}

API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	CUresult r = enter_device("cuDeviceTotalMem_v2", device);

	if (!r)
		*bytes = memory_total();
	return leave(r);
}

API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	CUresult r = enter_device("cuDeviceGetUuid_v2", device);

	if (!r)
		*uuid = (CUuuid){
			.bytes = {'p', 't', 'x', 's', 'i',
				  'm', [14] = (char)driver.device->sm, [15] = (char)device}};
	return leave(r);
}

API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	return cuDeviceGetUuid_v2(uuid, device);
}

static int attribute(const Device *d, int which)
{
	const struct {
		int which, value;
	} table[] = {
		{1, 1024},
		{2, 1024},
		{3, 1024},
		{4, 64},
		{5, 2147483647},
		{6, 65535},
		{7, 65535},
		{8, 48 << 10},
		{9, 64 << 10},
		{10, 32},
		{11, 2147483647},
		{12, 65536},
		{13, d->clock * 1000},
		{15, 1},
		{16, d->count},
		{19, 1},
		{31, 1},
		{33, 1},
		{36, d->mem_clock * 1000},
		{37, d->bus},
		{38, d->l2 << 20},
		{39, d->warps * 32},
		{40, 2},
		{41, 1},
		{75, d->sm / 10},
		{76, d->sm % 10},
		{78, 1},
		{79, 1},
		{80, 1},
		{81, d->smem_multi << 10},
		{82, 65536},
		{90, 1},
		{91, 1},
		{97, d->smem_block << 10},
		{106, d->blocks},
		{111, 1024},
		{115, driver.pools},
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (table[i].which == which)
			return table[i].value;
	return 0;
}

API CUresult cuDeviceGetAttribute(int *value, int which, CUdevice device)
{
	CUresult r = enter_device("cuDeviceGetAttribute", device);

	if (!r && (which < 1 || which > 147))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*value = attribute(driver.device, which);
	return leave(r);
}

API CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
	CUresult r = enter_device("cuDeviceComputeCapability", device);

	if (!r) {
		*major = driver.device->sm / 10;
		*minor = driver.device->sm % 10;
	}
	return leave(r);
}

/* ---- Contexts ---- */

static CUcontext primary[16];

API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	CUresult r = enter_device("cuDevicePrimaryCtxRetain", device);

	if (!r && driver.sticky)
		r = driver.sticky;
	if (!r && !primary[device]) {
		primary[device] = new_head(K_CONTEXT, sizeof(struct CUctx_st));
		r = primary[device] ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!r) {
		primary[device]->device = device;
		primary[device]->retained++;
		*context = primary[device];
	}
	return leave(r);
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUresult r = enter_device("cuDevicePrimaryCtxRelease_v2", device);

	if (!r && (!primary[device] || !primary[device]->retained))
		r = CUDA_ERROR_INVALID_CONTEXT;
	if (!r && !--primary[device]->retained) {
		queue_force_all();
		free_head(primary[device]);
		primary[device] = NULL;
	}
	return leave(r);
}

API CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	return cuDevicePrimaryCtxRelease_v2(device);
}

API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
	CUresult r = enter_device("cuDevicePrimaryCtxGetState", device);

	if (!r) {
		*flags = 0;
		*active = primary[device] != NULL;
	}
	return leave(r);
}

API CUresult cuCtxGetCurrent(CUcontext *context)
{
	CUresult r = enter("cuCtxGetCurrent", false);

	if (!r)
		*context = current_context();
	return leave(r);
}

API CUresult cuCtxSetCurrent(CUcontext context)
{
	CUresult r = enter("cuCtxSetCurrent", false);

	if (!r && context && !is_head(context, K_CONTEXT))
		r = CUDA_ERROR_INVALID_CONTEXT;
	if (!r) {
		depth += depth == 0;
		stack[depth - 1] = context;
		depth -= !context;
	}
	return leave(r);
}

API CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	CUresult r = enter("cuCtxPushCurrent_v2", false);

	if (!r && (!is_head(context, K_CONTEXT) || depth == 16))
		r = CUDA_ERROR_INVALID_CONTEXT;
	if (!r)
		stack[depth++] = context;
	return leave(r);
}

API CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	CUresult r = enter("cuCtxPopCurrent_v2", false);

	if (!r && !depth)
		r = CUDA_ERROR_INVALID_CONTEXT;
	if (!r) {
		depth--;
		if (context)
			*context = stack[depth];
	}
	return leave(r);
}

API CUresult cuCtxGetDevice(CUdevice *device)
{
	CUresult r = enter("cuCtxGetDevice", false);
	CUcontext c = current_context();

	if (!r && !c)
		r = CUDA_ERROR_INVALID_CONTEXT;
	if (!r)
		*device = c->device;
	return leave(r);
}

API CUresult cuCtxSynchronize(void)
{
	CUresult r = enter_unsafe("cuCtxSynchronize");

	return leave(r ? r : queue_force_all());
}

/* ---- Errors ---- */

static const struct {
	const char *name;
	CUresult code;
	const char *text;
} errors[] = {
#define ERROR(name, code, text) {#name, code, text},
#include "tools/ptxsim/errors.def"
#undef ERROR
};

static CUresult error_text(CUresult code, const char **text, bool name)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == code) {
			*text = name ? errors[i].name : errors[i].text;
			return CUDA_SUCCESS;
		}
	*text = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuGetErrorName(CUresult code, const char **text)
{
	return error_text(code, text, true);
}

API CUresult cuGetErrorString(CUresult code, const char **text)
{
	return error_text(code, text, false);
}
