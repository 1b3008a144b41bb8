/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --cache=DIR: objects of generated C are kept in a folder, so that C that was compiled before is
 * not compiled again. The name of an entry is a hash of all that its object follows from: dlcc's
 * version, the C compiler, its arguments, the environment that it reads, the headers of generated
 * code, and the C. An entry also holds these bytes, and is taken only if they are equal to what
 * would be compiled now: two models whose texts have one hash do not get each other's code.
 *
 *	"dlcc object 1\n"  the bytes of the source, of the object, and the object's hash: 8 bytes each
 *	source, object
 *
 * An entry is written under a temporary name and renamed, so readers see all of it or nothing. What
 * is no such file (cut off, of another version, no regular file) is as if it were not there, and is
 * replaced. Whoever may write into the folder decides what code models get.
 *
 * An entry is touched when it is taken. Where the entries together exceed MOST_BYTES, those that
 * were not taken for the longest time are removed. Entries do not see the C library's headers:
 * after an update of these, empty the folder.
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
	DIGITS = 16,            /* of an entry's name, before its suffix */
	MOST_ENTRY = 256 << 20, /* bytes of an entry; a longer file is none */
	STALE = 3600            /* seconds after which a temporary file has no writer any more */
};

static const int64_t MOST_BYTES = (int64_t)1 << 30;

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

/* What the compiler says of itself, and its file's size and time. */
static void put_compiler(Pack *p, StrBuf *b)
{
	char *argv[MAX_WORDS + 3] = {(char *)(uintptr_t)p->cc}, *real = realpath(p->cc, NULL);
	struct stat st;
	int n = 1;
	pid_t pid;

	if (real && !stat(real, &st))
		strbuf_printf(b, "%s %lld bytes, of %lld.%09ld\n", real, (long long)st.st_size,
			      (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	free(real);
	for (int i = 0; p->cc_args[i]; i++)
		argv[n++] = p->cc_args[i];
	argv[n] = (char *)(uintptr_t) "--version";
	pid = pack_start(p, argv, 0);
	if (pid > 0 && !pack_finish(pid, 0))
		strbuf_puts(b, pack_log(p));
	pack_forget_log(p);
}

/* Variables by which compilers find headers and their own parts, or change their arguments. */
static void put_environment(StrBuf *b)
{
	static const char *const names[] = {"CPATH", "C_INCLUDE_PATH", "COMPILER_PATH",
					    "GCC_EXEC_PREFIX", "CCC_OVERRIDE_OPTIONS"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (getenv(names[i]))
			strbuf_printf(b, "%s=%s\n", names[i], getenv(names[i]));
}

bool pack_open_cache(Pack *p)
{
	const char *dir = p->o->cache;
	struct stat st;
	StrBuf b = {0};

	if (!dir || p->o->dry)
		return true;
	if ((mkdir(dir, 0777) && errno != EEXIST) || stat(dir, &st))
		return pack_fail(p, "cannot make the cache", dir);
	errno = ENOTDIR;
	if (!S_ISDIR(st.st_mode) || access(dir, R_OK | W_OK | X_OK))
		return pack_fail(p, "cannot use the cache", dir);
	strbuf_printf(&b, "dlcc %s\n", p->o->version);
	put_compiler(p, &b);
	put_environment(&b);
	p->identity = arena_strdup(p->a, strbuf_str(&b));
	strbuf_free(&b);
	return true;
}

/* All that the object of file I follows from. The bytes may include NUL. */
static StrBuf source_of(Pack *p, int i)
{
	char *argv[MAX_ARGS];
	const int n = pack_object_args(p, i, argv);
	size_t bytes = 0;
	const char *text = read_file(p->a, p->src[i], &bytes);
	StrBuf b = {0};

	strbuf_puts(&b, p->identity);
	strbuf_puts(&b, strrchr(p->src[i], '/')); /* an object names its source */
	for (int k = 0; k < n; k++)
		strbuf_put(&b, argv[k], strlen(argv[k]) + 1);
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

	if (lstat(path, &st) || !S_ISREG(st.st_mode) || st.st_size > MOST_ENTRY)
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
	       write_all(fd, object, n) && !fchmod(fd, 0644);
}

static bool keep(Pack *p, int i)
{
	Arena *tmp = arena_new();
	StrBuf source = source_of(p, i);
	size_t n = 0;
	const char *object = read_file(tmp, p->obj[i], &n), *at;
	const int fd = pack_temp_file(arena_printf(tmp, "%s/", p->o->cache), &at);
	bool ok = fd >= 0 && object && write_entry(fd, &source, object, n);

	ok = fd >= 0 && !close(fd) && ok && !rename(at, p->entry[i]);
	pack_temp_file_end();
	strbuf_free(&source);
	arena_free(tmp);
	return ok;
}

/* ---- The bound ---- */

typedef struct KeptObject {
	const char *name;
	int64_t bytes, used;
} KeptObject;

static int by_use(const void *a, const void *b)
{
	const KeptObject *x = a, *y = b;

	return (x->used > y->used) - (x->used < y->used);
}

static bool is_entry(const char *name)
{
	return strspn(name, "0123456789abcdef") == DIGITS && !strcmp(name + DIGITS, suffix);
}

/* Removes what a killed dlcc left, and the entries that were not taken for the longest time. Only
 * files with the names of entries are touched: the folder may hold others. */
static void trim(Pack *p)
{
	Arena *tmp = arena_new();
	DIR *d = opendir(p->o->cache);
	const struct dirent *e;
	VEC(KeptObject) kept = {0};
	int64_t total = 0;
	struct stat st;

	while (d && (e = readdir(d))) {
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
			continue;
		if (str_starts(e->d_name, temporary) && st.st_mtime + STALE < time(NULL))
			unlinkat(dirfd(d), e->d_name, 0);
		if (!is_entry(e->d_name))
			continue;
		total += st.st_size;
		vec_push(tmp, &kept,
			 ((KeptObject){arena_strdup(tmp, e->d_name), st.st_size, st.st_mtime}));
	}
	if (kept.n)
		qsort(kept.at, (size_t)kept.n, sizeof *kept.at, by_use);
	for (int i = 0; i < kept.n && total > MOST_BYTES; i++) {
		unlinkat(dirfd(d), kept.at[i].name, 0);
		total -= kept.at[i].bytes;
	}
	if (d)
		closedir(d);
	arena_free(tmp);
}

bool pack_keep(Pack *p)
{
	bool any = false, ok = true;

	for (int i = 0; i < p->nfiles && ok; i++) {
		if (!p->entry[i] || p->found[i])
			continue;
		any = true;
		ok = keep(p, i);
		if (ok)
			report(p, i, "is now");
	}
	if (any)
		trim(p);
	return ok ||
	       diag_warning(p->diag, (DiagLoc){.file = p->o->output}, "cache",
			    "the cache %s takes no more: %s; the output does not depend on it",
			    p->o->cache, strerror(errno));
}
