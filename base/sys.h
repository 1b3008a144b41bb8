/* SPDX-License-Identifier: Apache-2.0 */
/* Files and processes: output that appears completely or not at all, and child processes. */
#ifndef BASE_SYS_H
#define BASE_SYS_H

#include "base/arena.h"

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Opens the regular file PATH for reading, with *ST. -1 if it cannot be opened, is of another
 * kind, or is a Git LFS pointer, a text that stands for a file which was not downloaded;
 * open_error is the reason, for after "cannot be read: ". */
int open_regular(const char *path, struct stat *st);
const char *open_error(void);
#define LFS_POINTER "is a Git LFS pointer, not the file; run `git lfs pull`"
/* Whether the N bytes at P begin one. */
bool is_lfs_pointer(const void *p, size_t n);
/* Reads the whole file as text; null if open_regular cannot open it. *N: bytes. */
char *read_file(Arena *a, const char *path, size_t *n);
/* As read_file, of a file without a byte 0. */
char *read_text(Arena *a, const char *path);
/* Writes P[0..n) to a temporary file beside PATH, or beside the file that PATH links to, and
 * renames it, so PATH always has either the old or the new contents. A device, a pipe, and a link
 * to an open file, as /dev/stdout, are written to directly. */
bool write_file(const char *path, const void *p, size_t n);
/* Writes all of P to FD; on failure returns false, with errno set. */
bool write_all(int fd, const void *p, size_t n);
/* Releases the whole pages of P[0..n), a part of a mapped file; they are read again when needed. */
void drop_pages(const void *p, size_t n);

/* Starts ARGV (which ends with null) in the C locale. Its output and errors go to the file LOG,
 * or are inherited if that is null; TMP, if not null, is its TMPDIR. SIGTERM to the returned
 * process, or the end of this one, ends the command and all that it started. Returns -1 on
 * failure. */
pid_t spawn(char *const *argv, const char *log, const char *tmp);
/* Waits for the process; returns its exit status, or 128 + the signal. */
int wait_for(pid_t pid);
/* The path of program NAME in a folder of PATH, or null. */
const char *find_program(Arena *a, const char *name);

#endif
