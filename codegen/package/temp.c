/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The temporary folder of a package, the commands that run in it, and the moves out of it: all that
 * has to be undone if dlcc is interrupted.
 */
#include "codegen/package/package_impl.h"

#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The temporary folder of a package in progress, and the running commands, which package_abort ends
 * first. */
static volatile sig_atomic_t live;
static char live_dir[4096], live_file[4096];
/* That of package_make_folder. */
static char folder[4096];
static volatile sig_atomic_t live_pid[MAX_FILES];

bool pack_fail(Pack *p, const char *what, const char *path)
{
	return diag_error(p->diag, (DiagLoc){.file = p->o->output}, "%s %s: %s", what, path,
			  strerror(errno));
}

/* It only uses system calls, as it also runs in signal handlers. */
void pack_remove_dir(const char *dir)
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

static void abort_live(void)
{
	for (int i = 0; i < MAX_FILES; i++)
		if (live_pid[i] > 0)
			kill((pid_t)live_pid[i], SIGTERM);
	for (int i = 0; i < MAX_FILES; i++)
		if (live_pid[i] > 0)
			waitpid((pid_t)live_pid[i], NULL, 0);
	pack_remove_dir(live_dir);
	if (*live_file)
		unlink(live_file);
}

void package_abort(void)
{
	if (live)
		abort_live();
	if (*folder)
		pack_remove_dir(folder);
}

pid_t pack_start(Pack *p, const Command *c, int slot)
{
	sigset_t all, old;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	pid = spawn(c->word, p->log, p->dir);
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

bool pack_finish_any(int *status)
{
	siginfo_t info;

	for (;;) {
		while (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT))
			if (errno != EINTR)
				return false;
		for (int i = 0; i < MAX_FILES; i++)
			if (live_pid[i] == (sig_atomic_t)info.si_pid) {
				*status = pack_finish(info.si_pid, i);
				return true;
			}
		wait_for(info.si_pid); /* a child inherited from the program that became dlcc */
	}
}

const char *pack_temp(Pack *p, const char *base)
{
	return arena_printf(p->a, "%s/%s", p->dir, base);
}

/* Makes a folder beside PATH; its path goes to TO. Signals are blocked. */
static bool make_beside(Arena *a, const char *path, char to[4096])
{
	const char *slash = strrchr(path, '/');
	char *dir = slash ? arena_printf(a, "%.*s/.dlcc.XXXXXX", (int)(slash - path), path)
			  : arena_strdup(a, ".dlcc.XXXXXX");
	char *real;

	if (!mkdtemp(dir))
		return false;
	real = realpath(dir, NULL);
	strncpy(to, real ? real : dir, 4095);
	free(real);
	return true;
}

const char *package_make_folder(Arena *a, Diag *d, const char *path)
{
	sigset_t all, old;
	bool ok;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	ok = make_beside(a, path, folder);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (ok)
		return arena_strdup(a, folder);
	diag_error(d, (DiagLoc){.file = path}, "cannot make a temporary folder beside it: %s",
		   strerror(errno));
	return NULL;
}

void package_remove_folder(void)
{
	if (*folder)
		pack_remove_dir(folder);
	*folder = '\0';
}

bool pack_make_dir(Pack *p)
{
	sigset_t all, old;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	live = make_beside(p->a, p->o->output, live_dir);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (!live)
		return pack_fail(p, "cannot make a temporary folder beside", p->o->output);
	p->dir = arena_strdup(p->a, live_dir);
	p->log_fd = memfd_create("dlcc-log", MFD_CLOEXEC);
	p->log = p->log_fd >= 0 ? arena_printf(p->a, "/proc/self/fd/%d", p->log_fd)
				: pack_temp(p, "log");
	return true;
}

const char *pack_log(Pack *p)
{
	size_t n = 0;
	const char *text = read_file(p->a, p->log, &n);

	return text ? text : "";
}

void pack_forget_log(Pack *p)
{
	if (truncate(p->log, 0))
		unlink(p->log);
}

void pack_clean_up(Pack *p)
{
	for (int i = 0; i < MAX_FILES; i++)
		if (live_pid[i] > 0) {
			kill((pid_t)live_pid[i], SIGTERM);
			pack_finish((pid_t)live_pid[i], i);
		}
	pack_remove_dir(p->dir);
	pack_temp_file_end();
	live = 0;
	if (p->log_fd >= 0)
		close(p->log_fd);
}

/* ---- Moves ---- */

bool pack_will_be(Pack *p, const char *from, const char *to)
{
	p->made[p->nmade++] = (MadeFile){from, to};
	return true;
}

int pack_temp_file(const char *dir, const char **path)
{
	sigset_t all, old;
	int fd;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	snprintf(live_file, sizeof live_file, "%s.dlcc.XXXXXX", dir);
	fd = mkstemp(live_file);
	if (fd < 0)
		*live_file = 0;
	sigprocmask(SIG_SETMASK, &old, NULL);
	*path = live_file;
	return fd;
}

void pack_temp_file_end(void)
{
	if (*live_file)
		unlink(live_file);
	*live_file = 0;
}

static bool copy_all(int from, int to)
{
	char buf[1 << 16];
	ssize_t n;

	while ((n = read(from, buf, sizeof buf)) > 0)
		if (!write_all(to, buf, (size_t)n))
			return false;
	return n == 0;
}

/* Detects faults that would make the move of M fail later. If its final path is on another file
 * system, copies it beside that path, so that a rename suffices. */
static bool bring_near(Pack *p, MadeFile *m)
{
	const char *slash = strrchr(m->to, '/');
	const char *dir = slash ? arena_printf(p->a, "%.*s/", (int)(slash - m->to), m->to) : ".";
	struct stat temp, target;
	const char *near;
	int from, to;
	bool ok;

	if (!stat(m->to, &target) && S_ISDIR(target.st_mode)) {
		errno = EISDIR;
		return pack_fail(p, "cannot write", m->to);
	}
	if (stat(p->dir, &temp) || stat(dir, &target) || temp.st_dev == target.st_dev)
		return true;
	to = pack_temp_file(slash ? dir : "", &near);
	from = open(m->from, O_RDONLY | O_CLOEXEC);
	ok = from >= 0 && to >= 0 && copy_all(from, to) && !fchmod(to, 0644);
	if (from >= 0)
		close(from);
	if (to >= 0 && close(to))
		ok = false;
	m->from = arena_strdup(p->a, near);
	return ok || pack_fail(p, "cannot write", m->to);
}

/* How a file was moved, so that this can be undone. */
typedef enum Moved {
	MOVED_NOT,
	MOVED_NEW,     /* there was no file */
	MOVED_SWAPPED, /* the old file is where the new one was */
	MOVED_OVER     /* the file system cannot swap: the old file is gone */
} Moved;

static Moved move(const MadeFile *m)
{
	int why;

	if (!renameat2(AT_FDCWD, m->from, AT_FDCWD, m->to, RENAME_EXCHANGE))
		return MOVED_SWAPPED;
	why = errno;
	if (why != ENOENT && why != EINVAL && why != ENOSYS)
		return MOVED_NOT;
	return rename(m->from, m->to) ? MOVED_NOT : why == ENOENT ? MOVED_NEW : MOVED_OVER;
}

static void undo(const MadeFile *m, Moved how)
{
	if (how == MOVED_NEW)
		unlink(m->to);
	if (how == MOVED_SWAPPED)
		rename(m->from, m->to);
}

bool pack_commit(Pack *p)
{
	Moved how[sizeof p->made / sizeof *p->made] = {MOVED_NOT};
	sigset_t all, old;
	bool ok = true;
	int n = 0;

	for (int i = 0; i < p->nmade && !p->o->dry && ok; i++)
		ok = bring_near(p, &p->made[i]);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	for (; n < p->nmade && !p->o->dry && ok; n++) {
		how[n] = move(&p->made[n]);
		ok = how[n] != MOVED_NOT || pack_fail(p, "cannot write", p->made[n].to);
	}
	while (!ok && n--)
		undo(&p->made[n], how[n]);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return ok;
}
