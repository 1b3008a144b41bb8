/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys.h"

#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

bool is_lfs_pointer(const void *p, size_t n)
{
	static const char begin[] = "version https://git-lfs.github.com/spec/v1";

	return n >= sizeof begin - 1 && !memcmp(p, begin, sizeof begin - 1);
}

int open_regular(const char *path, struct stat *st)
{
	/* O_NONBLOCK: opening a FIFO must not wait for a writer */
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char head[64];
	ssize_t n;

	if (fd < 0)
		return -1;
	if (fstat(fd, st) || !S_ISREG(st->st_mode)) {
		close(fd);
		errno = S_ISDIR(st->st_mode) ? EISDIR : EINVAL;
		return -1;
	}
	n = pread(fd, head, sizeof head, 0);
	if (n > 0 && is_lfs_pointer(head, (size_t)n)) {
		close(fd);
		errno = EBADMSG;
		return -1;
	}
	return fd;
}

const char *open_error(void)
{
	return errno == EBADMSG  ? "it " LFS_POINTER
	       : errno == EINVAL ? "it is not a regular file"
	       : errno == EILSEQ ? "it is not text: it has a byte 0"
				 : strerror(errno);
}

char *read_file(Arena *a, const char *path, size_t *n)
{
	struct stat st;
	const int fd = open_regular(path, &st);
	size_t at = 0;
	ssize_t got = 0;
	char *s, byte;
	int bad;

	if (fd < 0)
		return NULL;
	s = arena_alloc(a, (size_t)st.st_size + 1);
	while (at < (size_t)st.st_size && (got = read(fd, s + at, (size_t)st.st_size - at)) > 0)
		at += (size_t)got;
	/* a file of /proc has bytes, and no size */
	if (got >= 0 && !st.st_size && (got = read(fd, &byte, 1)) > 0)
		errno = EINVAL;
	bad = errno;
	close(fd);
	errno = bad;
	*n = at;
	return got < 0 || (got > 0 && !st.st_size) ? NULL : s;
}

char *read_text(Arena *a, const char *path)
{
	size_t n;
	char *s = read_file(a, path, &n);

	if (!s || strlen(s) == n)
		return s;
	errno = EILSEQ;
	return NULL;
}

void drop_pages(const void *p, size_t n)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
			from = ((uintptr_t)p + page - 1) / page * page,
			to = ((uintptr_t)p + n) / page * page;

	if (to > from)
		madvise((void *)from, to - from, MADV_DONTNEED);
}

bool write_all(int fd, const void *p, size_t n)
{
	const char *s = p;

	while (n) {
		ssize_t put = write(fd, s, n);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return false;
		s += put;
		n -= (size_t)put;
	}
	return true;
}

static bool replace_file(const char *path, const void *p, size_t n)
{
	Arena *a = arena_new();
	const char *slash = strrchr(path, '/');
	/* not PATH with a suffix, which may be too long for a name */
	char *tmp = arena_printf(a, "%.*s.dlcc.XXXXXX", slash ? (int)(slash - path) + 1 : 0, path);
	int fd = mkstemp(tmp);
	bool ok;

	if (fd < 0) {
		arena_free(a);
		return false;
	}
	ok = write_all(fd, p, n) && !fchmod(fd, 0644);
	ok = !close(fd) && ok;
	ok = ok && !rename(tmp, path);
	if (!ok) {
		int e = errno;

		unlink(tmp);
		errno = e;
	}
	arena_free(a);
	return ok;
}

/* Into what PATH is, as it is. */
static bool write_to(const char *path, const void *p, size_t n)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	int failed = 0;

	if (fd < 0)
		return false;
	if (!write_all(fd, p, n))
		failed = errno;
	if (close(fd) && !failed)
		failed = errno;
	errno = failed;
	return !failed;
}

/* Whether PATH is a link, or a chain of links, to an open file of a process, as /dev/stdout is. */
static bool names_descriptor(const char *path)
{
	enum { MOST_LINKS = 40 };
	Arena *a = arena_new();
	char to[4096];
	ssize_t n = 0;
	bool found = false;

	for (int i = 0; i < MOST_LINKS && !found && n >= 0; i++) {
		const char *slash = strrchr(path, '/');

		found = str_starts(path, "/dev/fd/") || str_starts(path, "/dev/std") ||
			str_starts(path, "/proc/");
		n = readlink(path, to, sizeof to);
		if (n > 0)
			path = *to == '/' || !slash
				       ? arena_strndup(a, to, (size_t)n)
				       : arena_printf(a, "%.*s/%.*s", (int)(slash - path), path,
						      (int)n, to);
	}
	arena_free(a);
	return found;
}

bool write_file(const char *path, const void *p, size_t n)
{
	struct stat st;
	char *real;
	bool ok;

	if (lstat(path, &st) || S_ISREG(st.st_mode))
		return replace_file(path, p, n);
	if (!S_ISLNK(st.st_mode) || names_descriptor(path) || stat(path, &st) ||
	    !S_ISREG(st.st_mode))
		return write_to(path, p, n);
	real = realpath(path, NULL);
	ok = real && replace_file(real, p, n);
	free(real);
	return ok;
}

/*
 * A command runs under a watcher, a fork of this process. The command leads a process group of its
 * own. The watcher kills that group when it gets SIGTERM, or when this process has ended, and exits
 * last. So no cc1 or ld outlives the compile that started it.
 */
static volatile sig_atomic_t watched;

static void end_watched(int sig)
{
	(void)sig;
	if (watched > 0)
		kill(-(pid_t)watched, SIGKILL);
}

static void exec_command(char *const *argv, const char *log, const char *tmp)
{
	int in = open("/dev/null", O_RDONLY),
	    out = log ? open(log, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;

	if (in >= 0)
		dup2(in, 0);
	if (out >= 0) {
		dup2(out, 1);
		dup2(out, 2);
	}
	if (tmp)
		setenv("TMPDIR", tmp, 1);
	setenv("LC_ALL", "C", 1);
	execvp(argv[0], argv);
	_exit(127);
}

/* Runs in the child, with all signals blocked; OLD is the signal mask for the command. */
static void watch(char *const *argv, const char *log, const char *tmp, pid_t parent,
		  const sigset_t *old)
{
	struct sigaction act = {.sa_handler = end_watched};
	sigset_t mask = *old;
	int status = 127, st;
	pid_t pid, got;

	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigaction(SIGTERM, &act, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (getppid() != parent)
		_exit(127);
	pid = fork();
	if (!pid) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGINT, SIG_DFL);
		signal(SIGHUP, SIG_DFL);
		signal(SIGTERM, SIG_DFL);
		sigprocmask(SIG_SETMASK, old, NULL);
		exec_command(argv, log, tmp);
	}
	if (pid < 0)
		_exit(127);
	setpgid(pid, pid);
	watched = (sig_atomic_t)pid;
	sigdelset(&mask, SIGTERM);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	while ((got = waitpid(-1, &st, 0)) > 0 || errno == EINTR)
		if (got == pid) {
			status = WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
			kill(-pid, SIGKILL);
		}
	_exit(status);
}

pid_t spawn(char *const *argv, const char *log, const char *tmp)
{
	sigset_t all, old;
	pid_t parent = getpid(), pid;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	pid = fork();
	if (!pid)
		watch(argv, log, tmp, parent, &old);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return pid;
}

int wait_for(pid_t pid)
{
	int st;

	while (waitpid(pid, &st, 0) < 0)
		if (errno != EINTR)
			return 127;
	return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}

const char *find_program(Arena *a, const char *name)
{
	const char *path = getenv("PATH");

	if (strchr(name, '/'))
		return access(name, X_OK) ? NULL : arena_strdup(a, name);
	while (path && *path) {
		size_t n = strcspn(path, ":");
		char *full = arena_printf(a, "%.*s/%s", (int)n, path, name);

		if (!access(full, X_OK))
			return full;
		path += n + (path[n] == ':');
	}
	return NULL;
}
