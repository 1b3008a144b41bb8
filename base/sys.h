/* SPDX-License-Identifier: Apache-2.0 */
/* Files and processes: output that appears whole or not at all, and child processes. */
#ifndef BASE_SYS_H
#define BASE_SYS_H

#include "base/arena.h"

#include <stdbool.h>
#include <sys/types.h>

/* The whole file as text; null where it cannot be read (errno says why). *N: bytes. */
char *read_file(Arena *a, const char *path, size_t *n);
/* Writes P[0..n) to a temporary name beside PATH and renames it: PATH has the old contents or the new. A device, a pipe or a
 * link, as /dev/stdout, stays, and is written to as it is. */
bool write_file(const char *path, const void *p, size_t n);
/* Writes all of P to FD; false with errno set. */
bool write_all(int fd, const void *p, size_t n);

/* Starts ARGV (ends with null), its output and errors into the file LOG (or inherited where null), in the C locale,
 * with TMP (where not null) as its TMPDIR. SIGTERM to the process that is returned, or the end of this one, ends
 * the command with all that it started. -1: failed. */
pid_t spawn(char *const *argv, const char *log, const char *tmp);
/* Waits; the exit status, or 128 + the signal. */
int wait_for(pid_t pid);
/* The path of program NAME on PATH, or null. */
const char *find_program(Arena *a, const char *name);

#endif
