/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the programs of tests/misuse: models by the name of their library, and digests of what
 * runs give. */
#ifndef TESTS_MISUSE_VALUES_H
#define TESTS_MISUSE_VALUES_H

#include "runtime/dlrt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The API of FOLDER/NAME.so; ends the program if there is none. */
static inline const dl_api *open_api(const char *folder, const char *name)
{
	char path[4400], symbol[300];
	void *library, *fn;
	dl_get_api_fn get;

	snprintf(path, sizeof(path), "%s/%s.so", folder, name);
	snprintf(symbol, sizeof(symbol), "%s_get_api", name);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	fn = library ? dlsym(library, symbol) : NULL;
	if (!fn) {
		printf("%s: %s\n", path, library ? symbol : dlerror());
		exit(2);
	}
	memcpy(&get, &fn, sizeof(get));
	return get(DL_ABI_VERSION);
}

static inline uint64_t mix(uint64_t h, const void *p, size_t n)
{
	const unsigned char *byte = p;

	for (size_t i = 0; i < n; i++)
		h = (h ^ byte[i]) * 0x100000001b3u;
	return h;
}

/* A digest of the values in T, an output of a run that succeeded, on top of H. */
static inline uint64_t digest(uint64_t h, const dl_tensor *t)
{
	const uint64_t n = t->form == DL_TENSOR && t->dtype == DL_STR ? t->bytes / sizeof(dl_str)
								      : 0;

	h = mix(h, &t->form, sizeof(t->form));
	if (t->form != DL_TENSOR) {
		h = mix(h, &t->n_items, sizeof(t->n_items));
		for (int64_t i = 0; i < t->n_items; i++)
			h = digest(h, &t->items[i]);
		return h;
	}
	h = mix(h, &t->dtype, sizeof(t->dtype));
	if (t->rank)
		h = mix(h, t->shape, sizeof(*t->shape) * (size_t)t->rank);
	for (uint64_t i = 0; i < n; i++)
		h = mix(h, ((const dl_str *)t->data)[i].p, ((const dl_str *)t->data)[i].n);
	return t->dtype == DL_STR ? h : mix(h, t->data, t->bytes);
}

/* An allocator whose allocation number `fails`, counted since that was set, returns null; 0: none
 * does. */
typedef struct Allocator {
	_Atomic long count, fails;
} Allocator;

static inline void *counted_alloc(void *user, uint64_t bytes, uint64_t align)
{
	Allocator *a = user;

	/* more than a gigabyte is never there, so that wild sizes end a run */
	if (++a->count == a->fails || bytes > (uint64_t)1 << 30)
		return NULL;
	return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static inline void counted_free(void *user, void *p, uint64_t bytes)
{
	(void)user;
	(void)bytes;
	free(p);
}

#endif
