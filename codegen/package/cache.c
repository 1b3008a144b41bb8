/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --cache=DIR: stores objects of generated C in a folder, so that the same C is not compiled again.
 * The name of an entry is a hash of all inputs of its object: dlcc's version, the C compiler, its
 * arguments, the environment that it reads, the headers of generated code, and the C. An entry also
 * contains these bytes, and is used only if they equal the present inputs: two models whose texts
 * have the same hash do not get each other's code.
 *
 *	"dlcc object 1\n"  the bytes of the source, of the object, and the object's hash: 8 bytes each
 *	source, object
 *
 * An entry is written under a temporary name and renamed, so readers see all of it or nothing. A
 * file that is not an entry (cut off, of another version, not regular) is ignored, and replaced.
 *
 * Anyone who may write into the folder controls the code of models. So only this user may enter a
 * folder that dlcc creates. A folder of another user, or one that others may write into, is
 * refused, and such entries are ignored.
 *
 * The Python package stores whole libraries in the same folder, under a hash of their inputs
 * (python/dlcc/caching.py), and dlcc writes them. Entries of both kinds are touched when they are
 * used. If together they exceed the bytes of the options, the least recently used entries are
 * removed, but never the output. The hash does not include the C library's headers: after an update
 * of these, empty the folder.
 */
#include "codegen/package/package_impl.h"

#include "base/sys.h"
#include "codegen/package/embed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	DIGITS = 16,            /* of an object's name, before its suffix */
	LIBRARY_DIGITS = 32,    /* of a library's */
	MOST_ENTRY = 256 << 20, /* bytes of an entry; a longer file is not an entry */
	STALE = 24 * 3600       /* seconds after which a temporary file has no writer any more */
};

static const char magic[] = "dlcc object 1\n", suffix[] = ".dlcc", temporary[] = ".dlcc.";

typedef struct Entry {
	char magic[16];
	uint64_t source, object, hash;
} Entry;

static uint64_t hash_of(const void *p, size_t n)
{
	dl_hash h;

	dl_hash_init(&h);
	dl_hash_update(&h, p, n);
	return dl_hash_value(&h);
}

/* ---- What an object follows from ---- */

/* The compiler's version text, and its file's size and time. */
static void put_compiler(Pack *p, StrBuf *b)
{
	char *real = realpath(p->cc, NULL);
	Command c = pack_cc_command(p);
	struct stat st;
	pid_t pid;

	if (real && !stat(real, &st))
		strbuf_printf(b, "%s %lld bytes, of %lld.%09ld\n", real, (long long)st.st_size,
			      (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	free(real);
	command_option(&c, "--version");
	pid = pack_start(p, &c, 0);
	if (pid > 0 && !pack_finish(pid, 0))
		strbuf_puts(b, pack_log(p));
	pack_forget_log(p);
}

/* Environment variables that change where compilers find headers and their own parts, or their
 * arguments. */
static void put_environment(StrBuf *b)
{
	static const char *const names[] = {"CPATH", "C_INCLUDE_PATH", "COMPILER_PATH",
					    "GCC_EXEC_PREFIX", "CCC_OVERRIDE_OPTIONS"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (getenv(names[i]))
			strbuf_printf(b, "%s=%s\n", names[i], getenv(names[i]));
}

/* Whether no other user may write to the file or folder of ST. */
static bool is_ours(const struct stat *st)
{
	return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* Refuses DIR, whose ST says that other users may write into it. */
static bool not_ours(Pack *p, const char *dir, const struct stat *st)
{
	const DiagLoc loc = {.file = p->o->output};

	if (st->st_uid != geteuid())
		return diag_error(p->diag, loc,
				  "the cache %s belongs to user %u, and this is user %u: its owner "
				  "decides what code models get; name a folder of your own",
				  dir, (unsigned)st->st_uid, (unsigned)geteuid());
	return diag_error(
		p->diag, loc,
		"other users may write into the cache %s (mode %04o), and so decide what code "
		"models get; if you trust what is in it: chmod go-w %s",
		dir, (unsigned)st->st_mode & 07777, dir);
}

bool pack_open_cache(Pack *p)
{
	const char *dir = p->o->cache;
	struct stat st;
	STRBUF_LOCAL(b);

	if (!dir || p->o->dry)
		return true;
	if ((mkdir(dir, 0700) && errno != EEXIST) || stat(dir, &st))
		return pack_fail(p, "cannot make the cache", dir);
	errno = ENOTDIR;
	if (!S_ISDIR(st.st_mode))
		return pack_fail(p, "cannot use the cache", dir);
	if (!is_ours(&st))
		return not_ours(p, dir, &st);
	if (access(dir, R_OK | W_OK | X_OK))
		return pack_fail(p, "cannot use the cache", dir);
	strbuf_printf(&b, "dlcc %s\n", p->o->version);
	put_compiler(p, &b);
	put_environment(&b);
	p->identity = arena_strdup(p->a, strbuf_str(&b));
	return true;
}

/* All that the object of file I follows from. The bytes may include NUL. */
static StrBuf source_of(Pack *p, int i)
{
	const Command c = pack_object_command(p, i);
	size_t bytes = 0;
	const char *text = read_file(p->a, p->src[i], &bytes);
	StrBuf b = {0};

	strbuf_puts(&b, p->identity);
	strbuf_puts(&b, strrchr(p->src[i], '/')); /* an object names its source */
	for (int k = 0; k < c.n; k++)
		strbuf_put(&b, c.word[k], strlen(c.word[k]) + 1);
	strbuf_puts(&b, embed_dlrt_h);
	strbuf_puts(&b, embed_scalar_h);
	strbuf_put(&b, text ? text : "", bytes);
	return b;
}

/* ---- Entries ---- */

/* The object in TEXT, an entry's N bytes, if it follows from SOURCE; else null. */
static const char *object_in(const char *text, size_t n, const StrBuf *source, size_t *bytes)
{
	const char *object;
	Entry e;

	if (n < sizeof e)
		return NULL;
	memcpy(&e, text, sizeof e);
	if (memcmp(e.magic, magic, sizeof magic) || e.source != source->n || e.object > n ||
	    n - sizeof e != source->n + e.object ||
	    memcmp(text + sizeof e, strbuf_str(source), source->n))
		return NULL;
	object = text + sizeof e + source->n;
	*bytes = (size_t)e.object;
	return hash_of(object, *bytes) == e.hash ? object : NULL;
}

/* The contents of the entry PATH, which counts as used now; null: there is none. */
static const char *read_entry(Arena *a, const char *path, size_t *n)
{
	struct stat st;

	if (lstat(path, &st) || !S_ISREG(st.st_mode) || !is_ours(&st) || st.st_size > MOST_ENTRY)
		return NULL;
	utimensat(AT_FDCWD, path, NULL, 0);
	return read_file(a, path, n);
}

static bool write_object(const char *path, const char *object, size_t n)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	const bool ok = fd >= 0 && write_all(fd, object, n);

	return fd >= 0 && !close(fd) && ok;
}

static void report(const Pack *p, int i, const char *what)
{
	if (!p->o->verbose)
		return;
	fprintf(stderr, "cache: %s: %s ", strrchr(p->src[i], '/') + 1, what);
	escape_to_file(stderr, p->entry[i], escape_terminal);
	fputc('\n', stderr);
}

bool pack_cached(Pack *p, int i)
{
	Arena *tmp;
	StrBuf source;
	size_t n, bytes;
	const char *text, *object;
	bool found;

	if (!p->identity || p->unique[i])
		return false;
	source = source_of(p, i);
	p->entry[i] = arena_printf(p->a, "%s/%0*llx%s", p->o->cache, DIGITS,
				   (unsigned long long)hash_of(strbuf_str(&source), source.n),
				   suffix);
	tmp = arena_new();
	text = read_entry(tmp, p->entry[i], &n);
	object = text ? object_in(text, n, &source, &bytes) : NULL;
	found = object && write_object(p->obj[i], object, bytes);
	arena_free(tmp);
	strbuf_free(&source);
	if (found)
		report(p, i, "is");
	return found;
}

/* Writes an entry of SOURCE and OBJECT to FD. */
static bool write_entry(int fd, const StrBuf *source, const char *object, size_t n)
{
	Entry e = {.source = source->n, .object = n, .hash = hash_of(object, n)};

	memcpy(e.magic, magic, sizeof magic);
	return write_all(fd, &e, sizeof e) && write_all(fd, strbuf_str(source), source->n) &&
	       write_all(fd, object, n);
}

static bool keep(Pack *p, int i)
{
	ARENA_LOCAL(tmp);
	StrBuf source = source_of(p, i);
	size_t n = 0;
	const char *object = read_file(tmp, p->obj[i], &n), *at;
	const int fd = pack_temp_file(arena_printf(tmp, "%s/", p->o->cache), &at);
	bool ok = fd >= 0 && object && write_entry(fd, &source, object, n);

	ok = fd >= 0 && !close(fd) && ok && !rename(at, p->entry[i]);
	pack_temp_file_end();
	strbuf_free(&source);
	return ok;
}

/* ---- The bound ---- */

typedef struct KeptEntry {
	const char *name;
	int64_t bytes, used;
} KeptEntry;

static int by_use(const void *a, const void *b)
{
	const KeptEntry *x = a, *y = b;

	return (x->used > y->used) - (x->used < y->used);
}

/* Whether NAME is N hexadecimal digits and END. */
static bool is_hash(const char *name, size_t n, const char *end)
{
	return strspn(name, "0123456789abcdef") == n && !strcmp(name + n, end);
}

/* Removes NAME from the folder DIR if no dlcc writes it any more: a leftover of a killed dlcc, or
 * the header of a library. */
static void remove_left(Pack *p, int dir, const char *name, const struct stat *st)
{
	const bool temp = str_starts(name, temporary);

	if (st->st_mtime + STALE >= time(NULL))
		return;
	if (temp && S_ISDIR(st->st_mode))
		pack_remove_dir(arena_printf(p->a, "%s/%s", p->o->cache, name));
	else if (temp || is_hash(name, LIBRARY_DIGITS, ".h"))
		unlinkat(dir, name, 0);
}

/* Whether the output is in the cache's folder. */
static bool output_is_entry(Pack *p)
{
	const char *slash = strrchr(p->o->output, '/');
	const size_t n = slash ? (size_t)(slash - p->o->output) + 1 : 0;
	struct stat at, cache;

	return p->identity && !stat(slash ? arena_strndup(p->a, p->o->output, n) : ".", &at) &&
	       !stat(p->o->cache, &cache) && at.st_ino == cache.st_ino && at.st_dev == cache.st_dev;
}

bool pack_enter_cache(Pack *p)
{
	const char *from = p->nmade ? p->made[p->nmade - 1].from : NULL;
	struct stat st;

	if (!from || !output_is_entry(p) || stat(from, &st))
		return true;
	if (chmod(from, 0700))
		return pack_fail(p, "cannot protect", from);
	return st.st_size <= p->o->cache_bytes ||
	       diag_warning(p->diag, (DiagLoc){.file = p->o->output}, "cache",
			    "its %lld MiB are more than the %lld MiB that the cache %s holds, so "
			    "the next library replaces it; give --cache-size=MIB",
			    (long long)(st.st_size >> 20) + 1, (long long)(p->o->cache_bytes >> 20),
			    p->o->cache);
}

/* Removes the entries that were not taken for the longest time. Only files with the names of
 * entries are touched: the folder may hold others. */
void pack_trim_cache(Pack *p)
{
	ARENA_LOCAL(tmp);
	DIR *d = p->identity ? opendir(p->o->cache) : NULL;
	const struct dirent *e;
	VEC(KeptEntry) kept = {0};
	struct stat st, output = {0};
	int64_t total = 0;
	const bool made = d && !stat(p->o->output, &output);

	while (d && (e = readdir(d))) {
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		remove_left(p, dirfd(d), e->d_name, &st);
		if (!S_ISREG(st.st_mode) || (!is_hash(e->d_name, DIGITS, suffix) &&
					     !is_hash(e->d_name, LIBRARY_DIGITS, ".so") &&
					     !is_hash(e->d_name, LIBRARY_DIGITS, ".txt")))
			continue;
		total += st.st_size;
		if (!made || st.st_ino != output.st_ino || st.st_dev != output.st_dev)
			vec_push(tmp, &kept,
				 ((KeptEntry){arena_strdup(tmp, e->d_name), st.st_size,
					      st.st_mtim.tv_sec * INT64_C(1000000000) +
						      st.st_mtim.tv_nsec}));
	}
	if (kept.n)
		qsort(kept.at, (size_t)kept.n, sizeof *kept.at, by_use);
	for (int i = 0; i < kept.n && total > p->o->cache_bytes; i++) {
		unlinkat(dirfd(d), kept.at[i].name, 0);
		total -= kept.at[i].bytes;
	}
	if (d)
		closedir(d);
}

bool pack_keep(Pack *p)
{
	bool ok = true;

	for (int i = 0; i < p->nfiles && ok; i++) {
		if (!p->entry[i] || p->found[i])
			continue;
		ok = keep(p, i);
		if (ok)
			report(p, i, "is now");
	}
	return ok ||
	       diag_warning(p->diag, (DiagLoc){.file = p->o->output}, "cache",
			    "the cache %s takes no more: %s; the output does not depend on it",
			    p->o->cache, strerror(errno));
}
