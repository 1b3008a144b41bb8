/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arena: bump allocation with one lifetime. Nothing is freed individually. There are three kinds of
 * arenas: the context's (types, dims, names), a graph's, and a pass's scratch.
 *
 * Running out of memory ends the process here, and nowhere else, with a message and exit status 1.
 * An arena belongs to one thread at a time.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define BASE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define BASE_PRINTF(fmt, args)
#endif
/* FN is called with the address of a variable of this kind when the variable's scope ends. */
#define BASE_AT_END(fn) __attribute__((cleanup(fn)))

typedef struct Arena Arena;

Arena *arena_new(void);
void arena_free(Arena *a);
/* Declares the arena A, which is freed where its scope ends. */
#define ARENA_LOCAL(a) Arena *a BASE_AT_END(arena_end) = arena_new()
static inline void arena_end(Arena **a)
{
	arena_free(*a);
}

/* Allocates SIZE zeroed bytes, aligned to 16. A size of 0 gives a unique non-null pointer. */
void *arena_alloc(Arena *a, size_t size);
/* arena_alloc(n * size), with a check for overflow. */
void *arena_array(Arena *a, size_t n, size_t size);
void *arena_copy(Arena *a, const void *p, size_t size);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_strdup(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *fmt, ...) BASE_PRINTF(2, 3);
char *arena_vprintf(Arena *a, const char *fmt, va_list ap) BASE_PRINTF(2, 0);

#define NEW(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define NEW_ARRAY(a, n, T) ((T *)arena_array((a), (size_t)(n), sizeof(T)))

#endif
