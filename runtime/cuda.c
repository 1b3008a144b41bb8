/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver: opened once per process and never closed, since that is not possible. */
#include "runtime/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static Cuda driver;
static bool found;
static char reason[160];

static void find_driver(void)
{
	static const struct {
		const char *name;
		bool later;
	} names[] = {
#define CUDA(name, params) {#name, false},
#define CUDA_LATER(name, params) {#name, true},
#include "runtime/cuda.def"
#undef CUDA_LATER
#undef CUDA
	};
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		snprintf(reason, sizeof(reason),
			 "libcuda.so.1, the driver of NVIDIA GPUs, cannot be opened");
		return;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		void *fn = dlsym(lib, names[i].name);

		if (!fn && names[i].later) {
			if (!strncmp(names[i].name, "cuGraph", 7))
				driver.no_graphs = names[i].name;
			continue;
		}
		if (!fn) {
			snprintf(reason, sizeof(reason), "the CUDA driver is too old: it lacks %s",
				 names[i].name);
			return;
		}
		/* All members are pointers to functions, in the order of cuda.def. */
		memcpy((char *)&driver + i * sizeof(fn), &fn, sizeof(fn));
	}
	found = true;
}

const Cuda *cuda_open(const char **why)
{
	static _Thread_local char text[160];
	int rc;

	pthread_once(&once, find_driver);
	*why = reason;
	if (!found)
		return NULL;
	/* Called every time: functions that were missing at the first call may exist now. */
	rc = driver.cuInit(0);
	*why = text;
	if (rc)
		cuda_error(&driver, rc, text, sizeof(text));
	return rc ? NULL : &driver;
}

const char *cuda_error(const Cuda *cuda, int status, char *text, size_t room)
{
	const char *name = NULL, *message = NULL;

	cuda->cuGetErrorName(status, &name);
	cuda->cuGetErrorString(status, &message);
	snprintf(text, room, "%s: %s", name ? name : "CUDA error", message ? message : "unknown");
	return text;
}

bool gpu_is_sticky(int status)
{
	static const short sticky[] = {214, 220, 226, 700, 702, 709, 710,
				       714, 715, 716, 717, 718, 719, 721};

	for (size_t i = 0; i < sizeof(sticky) / sizeof(*sticky); i++)
		if (sticky[i] == status)
			return true;
	return false;
}

int gpu_status(GpuModel *g, int status)
{
	if (!status)
		return DL_OK;
	if (gpu_is_sticky(status))
		atomic_store(&g->lost, 1);
	if (atomic_load(&g->lost))
		return DL_DEVICE_LOST;
	return status == CUDA_NO_MEMORY ? DL_NOMEM : DL_DEVICE;
}

const char *gpu_lost(const GpuModel *g)
{
	if (g->process != getpid())
		return "was opened before fork, and a child cannot use it";
	return atomic_load(&g->lost) ? "failed before" : NULL;
}
