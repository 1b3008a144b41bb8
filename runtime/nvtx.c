/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVTX 3 without its library: ranges with the model's names, for Nsight and other tools that
 * listen. The environment variable NVTX_INJECTION64_PATH names a tool's library. Its
 * InitializeInjectionNvtx2 gets a function that returns tables, and the tool writes its functions
 * to the table entries that it wants to handle. Only the ranges of module 1, the core, are called
 * here. This is done once per process and never undone, as tools expect.
 */
#include "runtime/rt.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Function)(void);
typedef int (*PushFn)(const char *text);
typedef int (*PopFn)(void);

/* the numbers of modules and of functions in version 3 */
enum { CORE = 1, MODULES = 7, PLACES = 17 };
enum { RANGE_PUSH = 9, RANGE_POP = 11 }; /* nvtxRangePushA, nvtxRangePop */
enum { TABLE_CALLBACKS = 1, TABLE_VERSION = 3 };

static Function function[MODULES][PLACES];
static Function *place[MODULES][PLACES];

static int module_table(int module, Function ***table, unsigned *size)
{
	/* By module: the number of functions; entry 0 is never a function. */
	static const unsigned char sizes[MODULES] = {0, 16, 9, 15, 7, 16, 7};

	if (module < CORE || module >= MODULES)
		return 0;
	*table = place[module];
	if (size)
		*size = sizes[module];
	return 1;
}

static void set_version(uint32_t version)
{
	(void)version;
}

static const void *export_table(uint32_t id)
{
	static const struct {
		size_t size;
		int (*module_table)(int module, Function ***table, unsigned *size);
	} callbacks = {sizeof(callbacks), module_table};
	static const struct {
		size_t size;
		uint32_t version, reserved;
		void (*set_version)(uint32_t version);
	} version = {sizeof(version), 3, 0, set_version};

	return id == TABLE_CALLBACKS ? (const void *)&callbacks
	       : id == TABLE_VERSION ? (const void *)&version
				     : NULL;
}

static PushFn push;
static PopFn pop;

static void find_tool(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	void *lib = path && *path ? dlopen(path, RTLD_LAZY) : NULL;
	void *symbol = lib ? dlsym(lib, "InitializeInjectionNvtx2") : NULL;
	int (*initialize)(const void *(*)(uint32_t)) = NULL;

	if (!symbol)
		return;
	for (int m = 0; m < MODULES; m++)
		for (int i = 0; i < PLACES; i++)
			place[m][i] = &function[m][i];
	memcpy(&initialize, &symbol, sizeof(symbol));
	if (!initialize(export_table))
		return;
	memcpy(&push, &function[CORE][RANGE_PUSH], sizeof(push));
	memcpy(&pop, &function[CORE][RANGE_POP], sizeof(pop));
	if (!push || !pop)
		push = NULL;
}

bool rt_nvtx_open(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_tool);
	return push != NULL;
}

void rt_nvtx_push(const char *text)
{
	push(text);
}

void rt_nvtx_pop(void)
{
	pop();
}
