/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions for tests, and the lookup of entry points by name. Beside the driver API the library
 * exports:
 *
 *	void ptxsim_mark(void)                    counts of calls begin anew
 *	uint64_t ptxsim_calls(const char *prefix) calls since the mark whose name begins so; "": all
 *	uint64_t ptxsim_allocations(void)         calls since the mark that make something: memory, modules, streams, ...
 *	int ptxsim_live(void)                     allocations, modules, streams, events and graphs that were not freed
 *	const char *ptxsim_message(void)          the last error in words
 *	int ptxsim_stats(const char *path)        counters so far as JSON; 0: written
 *	void ptxsim_stats_clear(void)
 *	void ptxsim_fail(uint64_t n, CUresult r)  the Nth call from now on fails with R; 0: none
 *	const char *ptxsim_failed(void)           the call that failed by that, null: none yet
 *	void ptxsim_break(uint64_t n, CUresult r) the Nth kernel that runs from now on fails with R, as a fault does, in whatever call
 *	                                          comes after; 0: none
 *	int ptxsim_broke(void)                    whether it did
 *	int ptxsim_device(int sm)                 instead of PTXSIM_SM; 0: there is one
 *	void ptxsim_quiet(int quiet)              instead of PTXSIM_QUIET
 *	void ptxsim_limit(uint64_t n)             instead of PTXSIM_LIMIT
 *	void ptxsim_seed(uint64_t seed)           instead of PTXSIM_SEED
 *	uint64_t ptxsim_counter(const char *kernel, const char *name)  one of the counters, "inst.CLASS" for instructions
 */
#include "tools/ptxsim/driver.h"

#include "tools/ptxsim/count.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 160 };
static struct {
	const char *name;
	uint64_t count, since;
} called[MAX_NAMES];
static int n_called;

void calls_count(const char *name)
{
	int i = 0;

	while (i < n_called && strcmp(called[i].name, name))
		i++;
	if (i == n_called && n_called < MAX_NAMES)
		called[n_called++].name = name;
	if (i < n_called) {
		called[i].count++;
		called[i].since++;
	}
}

API void ptxsim_mark(void)
{
	for (int i = 0; i < n_called; i++)
		called[i].since = 0;
}

API uint64_t ptxsim_calls(const char *prefix)
{
	uint64_t n = 0;

	for (int i = 0; i < n_called; i++)
		if (!strncmp(called[i].name, prefix, strlen(prefix)))
			n += called[i].since;
	return n;
}

API uint64_t ptxsim_allocations(void)
{
	static const char *const makers[] = {"cuMemAlloc",        "cuMemHostAlloc",
					     "cuMemHostRegister", "cuModuleLoad",
					     "cuStreamCreate",    "cuEventCreate",
					     "cuGraphCreate",     "cuGraphInstantiate",
					     "cuGraphAdd",        "cuDevicePrimaryCtxRetain"};
	uint64_t n = 0;

	for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
		n += ptxsim_calls(makers[i]);
	return n;
}

API int ptxsim_live(void)
{
	return memory_count() + live_heads();
}

API const char *ptxsim_message(void)
{
	return driver.message;
}

API void ptxsim_stats_clear(void)
{
	stats_clear();
}

API void ptxsim_fail(uint64_t n, CUresult with)
{
	driver.fail_at = n ? driver.calls + n : 0;
	driver.fail_with = with;
	driver.failed = NULL;
}

API void ptxsim_break(uint64_t n, CUresult with)
{
	driver.break_at = n ? driver.kernels + n : 0;
	driver.break_with = with;
}

API int ptxsim_broke(void)
{
	return driver.break_at && driver.kernels >= driver.break_at;
}

API const char *ptxsim_failed(void)
{
	return driver.failed;
}

API int ptxsim_device(int sm)
{
	return !choose_device(sm);
}

API void ptxsim_quiet(int quiet)
{
	driver.quiet = quiet;
}

API void ptxsim_limit(uint64_t n)
{
	driver.limit = n;
}

API void ptxsim_seed(uint64_t seed)
{
	driver.seed = seed;
}

API uint64_t ptxsim_counter(const char *kernel, const char *name)
{
	return stats_get(kernel, name);
}

API int ptxsim_stats(const char *path)
{
	FILE *out = fopen(path, "w");

	if (!out)
		return 1;
	fprintf(out, "{\"kernels\":\n");
	stats_write(out);
	fprintf(out, ",\"live\": %d,\n\"calls\": {", ptxsim_live());
	for (int i = 0; i < n_called; i++)
		fprintf(out, "%s\"%s\": %llu", i ? ", " : "", called[i].name,
			(unsigned long long)called[i].count);
	fprintf(out, "},\n\"since_mark\": {\"calls\": %llu, \"allocations\": %llu}}\n",
		(unsigned long long)ptxsim_calls(""), (unsigned long long)ptxsim_allocations());
	return fclose(out) != 0;
}

void calls_write(void)
{
	const char *path = getenv("PTXSIM_STATS");

	if (path && *path && ptxsim_stats(path))
		fprintf(stderr, "ptxsim: cannot write %s\n", path);
}

/* ---- Entry points by name ---- */

static void *entry(const char *name)
{
	static const char *const suffixes[] = {"_v2", ""};
	Dl_info self;
	void *lib = dladdr((void *)(uintptr_t)ptxsim_mark, &self)
			    ? dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
			    : NULL;
	void *found = NULL;

	for (int i = 0; i < 2 && lib && !found; i++) {
		char full[128];
		snprintf(full, sizeof full, "%s%s", name, suffixes[i]);
		found = dlsym(lib, full);
	}
	if (lib)
		dlclose(lib);
	return found;
}

API CUresult cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
				 int *status)
{
	(void)version;
	(void)flags;
	*out = name ? entry(name) : NULL;
	if (status)
		*status = *out ? 0 : 1;
	return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

API CUresult cuGetProcAddress(const char *name, void **out, int version, uint64_t flags)
{
	return cuGetProcAddress_v2(name, out, version, flags, NULL);
}
