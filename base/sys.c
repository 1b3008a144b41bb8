/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

char *read_file(Arena *a, const char *path, size_t *n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	size_t at = 0;
	char *s;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		errno = errno ? errno : EINVAL;
		close(fd);
		return NULL;
	}
	s = arena_alloc(a, (size_t)st.st_size + 1);
	while (at < (size_t)st.st_size) {
		ssize_t got = read(fd, s + at, (size_t)st.st_size - at);

		if (got <= 0)
			break;
		at += (size_t)got;
	}
	close(fd);
	*n = at;
	return s;
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

bool write_file(const char *path, const void *p, size_t n)
{
	Arena *a = arena_new();
	char *tmp = arena_printf(a, "%s.XXXXXX", path);
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

pid_t spawn(char *const *argv, const char *log)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	/* A compiler whose parent is gone has no one to work for. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (log) {
		int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

		if (fd >= 0) {
			dup2(fd, 1);
			dup2(fd, 2);
		}
	}
	execvp(argv[0], argv);
	_exit(127);
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
