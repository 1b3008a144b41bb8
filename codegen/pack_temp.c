/* SPDX-License-Identifier: Apache-2.0 */
/* The temporary folder of a package, and the commands that run in it: what an interrupted compile must undo. */
#include "codegen/package_impl.h"

#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The one temporary folder of a package in progress, beside the output: all that a kill can leave. And the
 * commands that run, to be ended first. */
static volatile sig_atomic_t live;
static char live_dir[4096];
static volatile sig_atomic_t live_pid[MAX_FILES];

bool pack_fail(Pack *p, const char *what, const char *path)
{
	return diag_error(p->diag, (DiagLoc){.file = p->o->output}, "%s %s: %s", what, path, strerror(errno));
}

/* Removes DIR with the files in it. No function but system calls: it runs in signal handlers too. */
static void remove_dir(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(8) char buf[8192];
	long n;

	while (fd >= 0 && (n = syscall(SYS_getdents64, fd, buf, sizeof buf)) > 0)
		for (long at = 0; at < n;) {
			/* struct linux_dirent64: inode, offset, record length, type, name */
			unsigned short len;
			const char *name = buf + at + 19;

			memcpy(&len, buf + at + 16, sizeof len);
			if (strcmp(name, ".") && strcmp(name, ".."))
				unlinkat(fd, name, 0);
			at += len;
		}
	if (fd >= 0)
		close(fd);
	rmdir(dir);
}

void package_abort(void)
{
	if (!live)
		return;
	for (int i = 0; i < MAX_FILES; i++)
		if (live_pid[i] > 0)
			kill((pid_t)live_pid[i], SIGTERM);
	for (int i = 0; i < MAX_FILES; i++)
		if (live_pid[i] > 0)
			waitpid((pid_t)live_pid[i], NULL, 0);
	remove_dir(live_dir);
}

pid_t pack_start(Pack *p, char *const *argv, int slot)
{
	sigset_t all, old;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	pid = spawn(argv, p->log, p->dir);
	live_pid[slot] = (sig_atomic_t)pid;
	sigprocmask(SIG_SETMASK, &old, NULL);
	return pid;
}

int pack_finish(pid_t pid, int slot)
{
	int status = wait_for(pid);

	live_pid[slot] = 0;
	return status;
}

const char *pack_temp(Pack *p, const char *base)
{
	return arena_printf(p->a, "%s/%s", p->dir, base);
}

bool pack_make_dir(Pack *p)
{
	const char *out = p->o->output, *slash = strrchr(out, '/');
	char *dir = slash ? arena_printf(p->a, "%.*s/.dlcc.XXXXXX", (int)(slash - out), out) : arena_strdup(p->a, ".dlcc.XXXXXX");
	char *real;
	sigset_t all, old;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	if (!mkdtemp(dir)) {
		sigprocmask(SIG_SETMASK, &old, NULL);
		return pack_fail(p, "cannot make a temporary folder beside", out);
	}
	real = realpath(dir, NULL);
	strncpy(live_dir, real ? real : dir, sizeof live_dir - 1);
	free(real);
	p->dir = arena_strdup(p->a, live_dir);
	live = 1;
	sigprocmask(SIG_SETMASK, &old, NULL);
	p->log = pack_temp(p, "log");
	return true;
}

void pack_clean_up(Pack *p)
{
	for (int i = 0; i < MAX_FILES; i++)
		if (live_pid[i] > 0) {
			kill((pid_t)live_pid[i], SIGTERM);
			pack_finish((pid_t)live_pid[i], i);
		}
	remove_dir(p->dir);
	live = 0;
}
