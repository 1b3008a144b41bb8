/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits how many threads compute at once in this process. Every artifact has its own copy of the
 * runtime, so the count is in a page that the copies share: a memory file whose name contains the
 * process id, which they find in /proc/self/fd. Each copy has a separate descriptor, so the page
 * exists as long as any copy does. Nothing is left over at the end, and a forked child, with
 * another process id, gets a new page. The process may close any descriptor and reuse its number,
 * so a copy checks that its number still refers to its file. If memory files do not exist, each
 * copy counts only its own threads.
 *
 * A run gets as many threads as are free, and at least its caller's thread.
 */
#include "runtime/rt.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct Page {
	_Atomic int32_t pid;
	_Atomic int32_t used;
} Page;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Page alone; /* used if no page can be shared */
static _Atomic(Page *) current;
static int page_fd = -1;
static struct stat page_file; /* identifies the file of page_fd */
static int users;

static void close_page(void)
{
	struct stat st;

	if (page_fd >= 0 && !fstat(page_fd, &st) && st.st_dev == page_file.st_dev &&
	    st.st_ino == page_file.st_ino)
		close(page_fd);
	page_fd = -1;
}

int32_t rt_cpus(void)
{
#if defined(__linux__)
	cpu_set_t set;

	if (!sched_getaffinity(0, sizeof(set), &set) && CPU_COUNT(&set) > 0)
		return CPU_COUNT(&set) < RT_MAX_THREADS ? CPU_COUNT(&set) : RT_MAX_THREADS;
#endif
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : n > RT_MAX_THREADS ? RT_MAX_THREADS : (int32_t)n;
}

#if defined(__linux__)
/* Opens another descriptor of the file called name; -1 if there is none. */
static int find(const char *name)
{
	DIR *d = opendir("/proc/self/fd");
	char want[64];
	int fd = -1;

	if (!d)
		return -1;
	snprintf(want, sizeof(want), "/memfd:%s (deleted)", name);
	for (struct dirent *e; fd < 0 && (e = readdir(d));) {
		char link[64];
		ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

		if (n <= 0)
			continue;
		link[n] = '\0';
		if (!strcmp(link, want))
			fd = dup(atoi(e->d_name));
	}
	closedir(d);
	return fd;
}

static Page *share(void)
{
	char name[32];
	Page *p;
	int fd;

	snprintf(name, sizeof(name), "dlrt-budget-%d", (int)getpid());
	fd = find(name);
	if (fd < 0)
		fd = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC); /* in glibc from 2.27 on */
	if (fd < 0 || ftruncate(fd, (off_t)sizeof(Page)) || fstat(fd, &page_file)) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	p = mmap(NULL, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		close(fd);
		return NULL;
	}
	page_fd = fd;
	return p;
}
#else
static Page *share(void)
{
	return NULL;
}
#endif

/* The page of this process. After a fork a new one is created; the old mapping remains. */
static Page *page(void)
{
	Page *p = atomic_load(&current);
	const int32_t pid = (int32_t)getpid();

	if (p && atomic_load(&p->pid) == pid)
		return p;
	if (pthread_mutex_trylock(&lock))
		return NULL;
	p = atomic_load(&current);
	if (!p || atomic_load(&p->pid) != pid) {
		close_page();
		p = share();
		if (!p) {
			p = &alone;
			atomic_store(&p->used, 0);
		}
		atomic_store(&p->pid, pid);
		atomic_store(&current, p);
	}
	pthread_mutex_unlock(&lock);
	return p;
}

void rt_budget_join(void)
{
	pthread_mutex_lock(&lock);
	users++;
	pthread_mutex_unlock(&lock);
	page();
}

void rt_budget_leave(void)
{
	pthread_mutex_lock(&lock);
	if (!--users) {
		Page *p = atomic_exchange(&current, NULL);

		if (p && p != &alone)
			munmap(p, sizeof(Page));
		close_page();
	}
	pthread_mutex_unlock(&lock);
}

int32_t rt_budget_take(int32_t want)
{
	Page *p = page();
	const int32_t cpus = rt_cpus(), limit = cpus > want ? cpus : want;
	int32_t used, n;

	if (!p)
		return 1;
	used = atomic_load(&p->used);
	do {
		n = limit - used;
		n = n < 1 ? 1 : n > want ? want : n;
	} while (!atomic_compare_exchange_weak(&p->used, &used, used + n));
	return n;
}

void rt_budget_give(int32_t n)
{
	Page *p = page();
	int32_t used;

	if (!p)
		return;
	used = atomic_load(&p->used);
	while (!atomic_compare_exchange_weak(&p->used, &used, used > n ? used - n : 0))
		;
}
