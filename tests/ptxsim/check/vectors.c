/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ptxsim/check/vectors.h"

#include "tests/ptxsim/check/gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME = 100 };

static FILE *file;
static bool recording;
static const char *current;

bool vectors_begin(const char *path, bool record, const char *name)
{
	file = fopen(path, record ? "ab" : "rb");
	recording = record;
	current = name;
	return file != NULL;
}

/* Approximate instructions give the nearest value here, and one some units away on a GPU. */
static bool close_words(uint32_t a, uint32_t b)
{
	float x, y;

	memcpy(&x, &a, sizeof x);
	memcpy(&y, &b, sizeof y);
	return a == b || (x != x && y != y) || fabsf(x - y) <= 4e-6f * (1 + fabsf(x));
}

static void compare(const void *got, const void *want, size_t n)
{
	const uint32_t *a = got, *b = want;

	if (n % 4 && memcmp(got, want, n))
		wrong("an array of %zu bytes differs from the recording", n);
	for (size_t i = 0; i < n / 4; i++)
		if (!close_words(a[i], b[i]))
			wrong("word %zu of %zu is 0x%08x, and 0x%08x in the recording", i, n / 4,
			      a[i], b[i]);
}

/* The next array of the running case in the file; its bytes, or -1: there is none. The caller
 * frees DATA. */
static long next(uint8_t **data)
{
	char line[NAME + 24];

	while (fgets(line, sizeof line, file)) {
		char *tab = strchr(line, '\t');
		long n = tab ? strtol(tab + 1, NULL, 10) : -1;

		if (n < 0)
			break;
		*tab = 0;
		if (!strcmp(line, current)) {
			*data = malloc((size_t)n + 1);
			return *data && fread(*data, 1, (size_t)n, file) == (size_t)n ? n : -1;
		}
		fseek(file, n, SEEK_CUR);
	}
	return -1;
}

void vectors_take(const void *data, size_t n)
{
	static bool taken;
	uint8_t *want = NULL;

	if (!file)
		return;
	if (recording) {
		fprintf(file, "%s\t%zu\n", current, n);
		fwrite(data, 1, n, file);
		fflush(file);
		return;
	}
	long have = next(&want);
	if (have < 0 && !taken)
		_exit(SKIPPED); /* where it was recorded the case was skipped */
	taken = true;
	if (have < 0)
		wrong("the recording lacks an array of %zu bytes", n);
	else if ((size_t)have != n)
		wrong("an array of %zu bytes has %ld in the recording", n, have);
	else
		compare(data, want, n);
	free(want);
}
