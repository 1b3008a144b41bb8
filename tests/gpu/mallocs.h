/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often the code of a model asks libc for memory: never, where a sanitizer has the allocator.
 * One file of a program includes this.
 */
#ifndef TESTS_GPU_MALLOCS_H
#define TESTS_GPU_MALLOCS_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Calls of the model's code to the allocator of libc. */
static _Atomic(long) mallocs;
static char *model_begin, *model_end;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

static void count(const char *from)
{
	if (from >= model_begin && from < model_end)
		mallocs++;
}

void *__libc_malloc(size_t n);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n)
{
	count(__builtin_return_address(0));
	return __libc_malloc(n);
}

void *aligned_alloc(size_t align, size_t n)
{
	count(__builtin_return_address(0));
	return __libc_memalign(align, n);
}

#endif

/* Counts those of FN's file from now on. */
static inline bool count_mallocs(void *fn)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[4096], mine[4096] = "", *name;
	unsigned long lo, hi;

	model_begin = model_end = NULL;
	for (int pass = 0; f && pass < 2; pass++) {
		rewind(f);
		while (fgets(line, sizeof(line), f)) {
			name = strchr(line, '/');
			if (!name || sscanf(line, "%lx-%lx", &lo, &hi) != 2)
				continue;
			if (!pass && (char *)fn >= (char *)lo && (char *)fn < (char *)hi)
				strcpy(mine, name);
			if (!pass || strcmp(mine, name))
				continue;
			model_begin = model_begin ? model_begin : (char *)lo;
			model_end = (char *)hi;
		}
	}
	if (f)
		fclose(f);
	return model_begin;
}

#endif
